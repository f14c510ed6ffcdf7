/* huggingface_latent.c - latent attention (attention_shape.compressed) as config.json describes it, and the matrix of which a
 * folder has what GGUF has as two: of each head the rows that make its keys of the compressed values, then those of its values. */
#include "folder_reader.h"

#include "../base/memory.h"

#include <string.h>

/* Fills in which layers choose positions themselves, by a list with a word for each: others share the choice of a layer before. */
static hearth_status read_choosers(const folder_reader *r, const char *key, const json_t *list, uint8_t *chooses)
{
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, key);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (!word || (strcmp(word, "full") != 0 && strcmp(word, "shared") != 0))
            return fail(r->error, HEARTH_FORMAT, "%s: %s: has %.16s, expected full or shared", r->name, key,
                        word ? word : "no text");
        chooses[i] = strcmp(word, "full") == 0;
    }
    return HEARTH_OK;
}

/* The same by a letter for each layer, F or S. */
static hearth_status read_letters(const folder_reader *r, const char *key, const char *letters, uint8_t *chooses)
{
    if (strspn(letters, "FS") < r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not a letter F or S for each layer", r->name, key);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++)
        chooses[i] = letters[i] == 'F';
    return HEARTH_OK;
}

/* Finds out which layers do: those of a list or a pattern, else one of every so many, from the layer `offset` - 1 on. */
static hearth_status find_choosers(const folder_reader *r, uint8_t *chooses)
{
    static const char types[] = "indexer_types", pattern[] = "index_topk_pattern";
    const json_t *list = json_object_get(r->config, types), *letters = json_object_get(r->config, pattern);
    uint32_t every = 1, offset = 2;
    bool found;
    if (list && !json_is_null(list))
        return read_choosers(r, types, list, chooses);
    if (json_is_string(letters))
        return read_letters(r, pattern, json_string_value(letters), chooses);
    if (letters && !json_is_null(letters))
        return read_choosers(r, pattern, letters, chooses);
    TRY(json_get_uint(r->config, "index_topk_freq", &every, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "index_skip_topk_offset", &offset, &found, r->name, r->error));
    for (uint32_t i = 0; i < r->hyper.layer_count; i++)
        chooses[i] = every < 2 || i + 1 < offset || (i + 1 - offset) % every == 0;
    return HEARTH_OK;
}

/* Reads how many positions share a score (attention_shape.pool). The other keys are constants of the family, as llama.cpp's converter
 * writes them: that those after the last pool are seen, and the epsilon of the norm of keys that score. */
static hearth_status read_pools(folder_reader *r)
{
    char key[KEY_SIZE];
    TRY(json_get_uint(r->config, "index_kpool", &r->layer.attention.pool, NULL, r->name, r->error));
    TRY(folder_set_size(r, "attention.indexer.kpool", r->layer.attention.pool));
    hyper_key(key, r->family, "attention.indexer.kpool_select_tail");
    TRY(checkpoint_set_bool(r->out, key, true, r->error));
    return folder_set_number(r, "attention.layer_norm_epsilon", 1e-6);
}

/* Reads how positions are chosen (attention_shape.chosen). */
static hearth_status read_choice(folder_reader *r)
{
    static const char *const sizes[][2] = {{"index_topk", "attention.indexer.top_k"},
                                           {"index_n_heads", "attention.indexer.head_count"},
                                           {"index_head_dim", "attention.indexer.key_length"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t value = 0;
        TRY(json_get_uint(r->config, sizes[i][0], &value, NULL, r->name, r->error));
        TRY(folder_set_size(r, sizes[i][1], value));
    }
    TRY(r->family->pools_positions ? read_pools(r) : HEARTH_OK);
    uint32_t layers = r->hyper.layer_count;
    uint8_t *chooses = mem_new_array(layers, sizeof *chooses);
    if (!chooses)
        return fail_memory(r->error, "indexer_types", layers);
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.indexer.types");
    hearth_status status = find_choosers(r, chooses);
    if (status == HEARTH_OK && memchr(chooses, 0, layers))
        status = checkpoint_set_numbers(r->out, key, VALUE_BOOL, chooses, layers, r->error);
    mem_free(chooses);
    return status;
}

hearth_status folder_read_latent(folder_reader *r)
{
    attention_shape *a = &r->layer.attention;
    uint32_t rotated = 0;
    const struct {
        const char *config_key;
        uint32_t *field;
        bool optional, may_be_0;
    } sizes[] = {{"kv_lora_rank", &a->compressed, false, false},
                 {"q_lora_rank", &a->query_rank, true, true},
                 {"qk_nope_head_dim", &a->unrotated, false, false},
                 {"qk_rope_head_dim", &rotated, false, r->family->unrotated},
                 {"v_head_dim", &a->value_length, false, false}};
    if (!r->family->latent_attention)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool found;
        TRY(json_get_uint(r->config, sizes[i].config_key, sizes[i].field, sizes[i].optional ? &found : NULL, r->name,
                          r->error));
        if (*sizes[i].field > HEAD_LIMIT || (*sizes[i].field == 0 && !sizes[i].may_be_0))
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, expected 1 to %u", r->name, sizes[i].config_key,
                        *sizes[i].field, HEAD_LIMIT);
    }
    if (rotated % 2 != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: qk_rope_head_dim: is odd", r->name);
    bool joined = r->family->joined_heads; /* then the sizes have the names that they have elsewhere */
    uint32_t query = a->unrotated + rotated;
    a->kv_head_count = 1;
    a->head_length = a->compressed + rotated;
    r->hyper.rope_pairs = rotated / 2;
    const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"attention.kv_lora_rank", a->compressed},
                {"attention.q_lora_rank", a->query_rank},
                {"attention.head_count_kv", joined ? a->head_count : 1},
                {"attention.key_length", joined ? query : a->head_length},
                {"attention.value_length", joined ? a->value_length : a->compressed},
                {"attention.key_length_mla", joined ? 0 : query},
                {"attention.value_length_mla", joined ? 0 : a->value_length}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].value > 0)
            TRY(folder_set_size(r, keys[i].key, keys[i].value));
    TRY(folder_set_size(r, "rope.dimension_count", rotated));
    return r->family->chooses_positions ? read_choice(r) : HEARTH_OK;
}

/* Copies the rows [n][columns] that make a head's keys to columns: to [columns][n]. */
static void transpose(const char *from, size_t n, size_t columns, size_t bytes, char *to)
{
    for (size_t c = 0; c < columns; c++)
        for (size_t row = 0; row < n; row++, to += bytes)
            memcpy(to, from + (row * columns + c) * bytes, bytes);
}

hearth_status folder_divide_heads(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const attention_shape *a = &r->layer.attention;
    size_t n = a->unrotated, values = a->value_length, heads = a->head_count, columns = (size_t)t->shape[0];
    if (!(rule->flags & TENSOR_HEADS))
        return HEARTH_OK;
    if (t->rank != 2 || t->shape[1] != heads * (n + values) || columns != a->compressed || number_is_block(t->format))
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: is not of %zu rows of %u floats", r->out->path,
                    t->name, heads * (n + values), a->compressed);
    size_t bytes = number_formats[t->format].block_bytes, row_bytes = columns * bytes;
    const char *from = t->data;
    t->rank = 3;
    t->shape[2] = heads;
    if (rule->rows == DIMENSION_VALUE) { /* rows of each head, where they lie */
        t->parts = arena_new_array(&r->out->memory, heads, sizeof *t->parts);
        if (!t->parts)
            return fail_memory(r->error, t->name, heads * sizeof *t->parts);
        for (size_t h = 0; h < heads; h++)
            t->parts[h] = from + (h * (n + values) + n) * row_bytes;
        t->data = NULL;
        t->shape[1] = values;
        t->size_bytes = heads * values * row_bytes;
        return HEARTH_OK;
    }
    char *keys = arena_new_array(&r->out->memory, heads * n, row_bytes);
    if (!keys)
        return fail_memory(r->error, t->name, heads * n * row_bytes);
    for (size_t h = 0; h < heads; h++)
        transpose(from + h * (n + values) * row_bytes, n, columns, bytes, keys + h * n * row_bytes);
    t->data = keys;
    t->shape[0] = n;
    t->shape[1] = columns;
    t->size_bytes = heads * n * row_bytes;
    return HEARTH_OK;
}
