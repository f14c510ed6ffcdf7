/* huggingface_ngrams.c - what Qwen3.8-Flash-Next has beside Qwen 3.5: how it chooses positions, as config.json says it, and n-grams. A
 * folder has their table in parts of as many rows, the last one of the rest, and the numbers of their hashes in tensors. */
#include "folder_reader.h"

#include "../base/memory.h"

#include <stdlib.h>
#include <string.h>

#define TABLES "ple.ple_embedding."

/* ------------------------------------------------------------------ config.json */

/* Sets how many positions share a score in each layer with attention. */
static hearth_status set_pools(folder_reader *r, uint32_t pool)
{
    char key[KEY_SIZE];
    const key_value *recurrent;
    hyper_key(key, r->family, "attention.recurrent_layers");
    TRY(checkpoint_get_array(r->out, key, VALUE_BOOL, &recurrent, NULL, r->error));
    uint32_t *pools = mem_new_array(r->hyper.layer_count, sizeof *pools);
    if (!pools)
        return fail_memory(r->error, "layers", r->hyper.layer_count * sizeof *pools);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++)
        pools[i] = ((const uint8_t *)recurrent->as.items)[i] ? 0 : pool;
    hyper_key(key, r->family, "attention.compress_ratios");
    hearth_status status = checkpoint_set_numbers(r->out, key, VALUE_I32, pools, r->hyper.layer_count, r->error);
    mem_free(pools);
    return status;
}

/* Reads how positions are chosen (index_shape.plain). */
static hearth_status read_choice(folder_reader *r)
{
    attention_shape *a = &r->layer.attention;
    uint32_t keys = 1;
    const struct {
        const char *config_key, *key; /* NULL: has none */
        uint32_t *field;
    } sizes[] = {{"indexer_n_heads", "attention.indexer.head_count", &a->index.head_count},
                 {"indexer_head_dim", "attention.indexer.key_length", &a->index.head_length},
                 {"indexer_budget", "attention.indexer.top_k", &a->chosen},
                 {"indexer_compress_ratio", NULL, &a->pool},
                 {"indexer_kv_heads", NULL, &keys}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(json_get_uint(r->config, sizes[i].config_key, sizes[i].field, NULL, r->name, r->error));
        if (*sizes[i].field == 0)
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is 0", r->name, sizes[i].config_key);
        TRY(sizes[i].key ? folder_set_size(r, sizes[i].key, *sizes[i].field) : HEARTH_OK);
    }
    a->index.plain = true;
    return keys == 1
               ? set_pools(r, a->pool)
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: indexer_kv_heads: is %u, only 1 is supported", r->name, keys);
}

/* Checks that the gates on the results of recurrent layers go through the logistic function, as GGUF has it. */
static hearth_status check_gate(const folder_reader *r)
{
    const char *gate = "silu";
    bool found;
    TRY(json_get_string(r->config, "hidden_act", &gate, &found, r->name, r->error));
    TRY(json_get_string(r->config, "output_gate_type", &gate, &found, r->name, r->error));
    return strcmp(gate, "sigmoid") == 0
               ? HEARTH_OK
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: output_gate_type: %.64s is not supported, only sigmoid",
                      r->name, gate);
}

/* Reads the token at which n-grams end: of several the first, as transformers does. */
static hearth_status read_end(const folder_reader *r, uint32_t *end)
{
    static const char key[] = "eos_token_id";
    const json_t *value = json_object_get(r->config, key);
    if (!value || json_is_null(value))
        value = json_object_get(r->whole, key);
    value = json_is_array(value) ? json_array_get(value, 0) : value;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > INT32_MAX)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is no token, and n-grams end there", r->name, key);
    *end = (uint32_t)number;
    return HEARTH_OK;
}

/* Reads the sizes of n-grams; defaults are transformers'. */
static hearth_status read_sizes(folder_reader *r)
{
    ngram_shape *n = &r->hyper.ngrams;
    uint32_t width = r->hyper.embedding_length;
    bool found;
    n->longest = 3;
    n->heads = 8;
    n->window = 4;
    const struct {
        const char *config_key, *key;
        uint32_t *field;
    } sizes[] = {{"ngram_size", "ple.ngram_size", &n->longest},
                 {"heads_per_ngram", "ple.heads_per_ngram", &n->heads},
                 {"ple_conv_kernel_size", "ple.conv_kernel", &n->window},
                 {"ple_embed_dim", NULL, &width}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(json_get_uint(r->config, sizes[i].config_key, sizes[i].field, &found, r->name, r->error));
        TRY(sizes[i].key ? folder_set_size(r, sizes[i].key, *sizes[i].field) : HEARTH_OK);
    }
    if (n->longest < 2 || n->longest > NGRAM_LIMIT || n->heads == 0 || n->heads > NGRAM_HEAD_LIMIT)
        return fail(r->error, HEARTH_FORMAT, "%s: ngram_size or heads_per_ngram: is too small or too large", r->name);
    if (width % ngram_heads(n) != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: ple_embed_dim: %u is no multiple of the %u rows of a token", r->name,
                    width, ngram_heads(n));
    n->row_length = width / ngram_heads(n);
    TRY(folder_set_size(r, "embedding_length_per_layer_input", n->row_length));
    TRY(read_end(r, &n->end));
    return folder_set_size(r, "ple.eos_token_id", n->end);
}

hearth_status folder_read_ngrams(folder_reader *r)
{
    static const char name[] = "ple_layer_ids";
    const json_t *list = json_object_get(r->config, name);
    json_int_t layer = json_integer_value(json_array_get(list, 0));
    TRY(read_choice(r));
    TRY(check_gate(r));
    if (!list || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0))
        return HEARTH_OK;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_equal(json_array_get(list, i), json_array_get(list, 0)))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: has more than one layer", r->name, name);
    if (layer < 1 || layer > r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: has a number that is no layer's, counted from 1", r->name, name);
    const int32_t number = (int32_t)layer - 1;
    char key[KEY_SIZE];
    hyper_key(key, r->family, "ple.layers");
    TRY(checkpoint_set_numbers(r->out, key, VALUE_I32, &number, 1, r->error));
    return read_sizes(r);
}

/* ------------------------------------------------------------------ tensors */

bool folder_leaves_to_ngrams(const folder_reader *r, const char *name)
{
    return r->hyper.ngrams.longest > 0 && strstr(name, TABLES) != NULL;
}

hearth_status folder_divide_scorer(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const index_shape *index = &r->layer.attention.index;
    uint64_t queries = (uint64_t)index->head_count * index->head_length, keys = index->head_length;
    bool of_keys = rule->field == offsetof(model_layer, index_key);
    if (!index->plain || (!of_keys && rule->field != offsetof(model_layer, index_query)))
        return HEARTH_OK;
    if (t->rank != 2 || t->shape[1] != queries + keys)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: has not %llu rows of queries and %llu of keys",
                    r->out->path, t->name, (unsigned long long)queries, (unsigned long long)keys);
    TRY(folder_make_rows(r, t));
    size_t row_bytes = t->size_bytes / (size_t)t->shape[1];
    t->data = (const char *)t->data + (of_keys ? (size_t)queries * row_bytes : 0);
    t->shape[1] = of_keys ? keys : queries;
    t->size_bytes = (size_t)t->shape[1] * row_bytes;
    return HEARTH_OK;
}

/* Returns the tensor of n-grams whose name ends so; NULL: there is none. */
static const stored_tensor *find_ending(const folder_reader *r, const char *ending)
{
    for (size_t i = 0; i < r->folder->tensor_count; i++) {
        const char *at = strstr(r->folder->tensors[i].name, TABLES);
        if (at && strcmp(at + sizeof TABLES - 1, ending) == 0)
            return &r->folder->tensors[i];
    }
    return NULL;
}

/* Sets a key to the whole numbers of a tensor. */
static hearth_status add_numbers(folder_reader *r, const char *ending, const char *name)
{
    const stored_tensor *t = find_ending(r, ending);
    char key[KEY_SIZE];
    if (!t || !t->foreign || strcmp(t->foreign, "I64") != 0 || !t->data || t->rank != 1)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %s%s: is missing, or no vector of I64", r->out->path, TABLES,
                    ending);
    hyper_key(key, r->family, name);
    return checkpoint_set_numbers(r->out, key, VALUE_U64, t->data, (size_t)t->shape[0], r->error);
}

/* Returns whether a name is of a part of the table, and of which: the only one has no number. */
static bool is_part(const char *name, size_t *number)
{
    static const char before[] = TABLES "ngram_embedding.", part[] = "shard_", behind[] = "weight";
    const char *at = strstr(name, before);
    char *end;
    *number = 0;
    if (!at)
        return false;
    at += sizeof before - 1;
    if (strcmp(at, behind) == 0)
        return true;
    if (strncmp(at, part, sizeof part - 1) != 0 || at[sizeof part - 1] < '0' || at[sizeof part - 1] > '9')
        return false;
    *number = strtoul(at + sizeof part - 1, &end, 10); /* ULONG_MAX, if it is larger */
    return *end == '.' && strcmp(end + 1, behind) == 0;
}

/* Returns how many parts the table has, whose places are filled in where `parts` [count] is given; 0: one has a number that is
 * another one's, or too large. */
static size_t list_parts(const folder_reader *r, const stored_tensor **parts, size_t count)
{
    size_t found = 0, number;
    for (size_t i = 0; i < r->folder->tensor_count; i++) {
        const stored_tensor *t = &r->folder->tensors[i];
        if (!is_part(t->name, &number))
            continue;
        found++;
        if (parts && (number >= count || parts[number]))
            return 0;
        if (parts)
            parts[number] = t;
    }
    return found;
}

/* Makes one table of its parts. */
static hearth_status join_parts(folder_reader *r, const stored_tensor *const *parts, size_t count)
{
    stored_tensor table = *parts[0];
    table.name = PER_LAYER_TOKENS;
    if (count > 1)
        table.parts = arena_new_array(&r->out->memory, count, sizeof *table.parts);
    if (count > 1 && !table.parts)
        return fail_memory(r->error, table.name, count * sizeof *table.parts);
    table.part_rows = count > 1 ? table.shape[1] : 0;
    for (size_t i = 0; i < count; i++) {
        const stored_tensor *t = parts[i];
        bool fits = t->shape[1] == parts[0]->shape[1] || (i + 1 == count && t->shape[1] < parts[0]->shape[1]);
        if (t->rank != 2 || t->foreign || t->format != table.format || t->shape[0] != table.shape[0] || !fits)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: tensor %.128s: differs from the first part of the table",
                        r->out->path, t->name);
        if (count > 1)
            table.parts[i] = t->data;
        table.shape[1] += i > 0 ? t->shape[1] : 0;
        table.size_bytes += i > 0 ? t->size_bytes : 0;
    }
    table.data = count > 1 ? NULL : table.data;
    return checkpoint_add_tensor(r->out, &table, r->error);
}

hearth_status folder_add_ngrams(folder_reader *r)
{
    size_t count = list_parts(r, NULL, 0);
    TRY(add_numbers(r, "layer_multipliers", "ple.layer_multipliers"));
    TRY(add_numbers(r, "ngram_heads_offsets", "ple.head_offsets"));
    TRY(add_numbers(r, "ngram_heads_vocab_sizes", "ple.head_vocab_sizes"));
    const stored_tensor **parts = mem_new_array(count + 1, sizeof *parts);
    if (!parts)
        return fail_memory(r->error, TABLES, count * sizeof *parts);
    hearth_status status;
    if (count == 0)
        status = fail(r->error, HEARTH_FORMAT, "%s: tensor %sngram_embedding: is missing", r->out->path, TABLES);
    else if (list_parts(r, parts, count) < count)
        status = fail(r->error, HEARTH_FORMAT, "%s: tensor %sngram_embedding: a part is missing, or there twice",
                      r->out->path, TABLES);
    else
        status = join_parts(r, parts, count);
    mem_free(parts);
    return status;
}
