/* hyper_attention.c - reads what attention computes: heads, latent attention, windows, rotation (see hyper_reader.h). */
#include "hyper_reader.h"
#include "rope.h"

#include <math.h>
#include <stdio.h>

/* Finds out whether a layer has the window: by the file's pattern, an array of booleans or a period whose last layer
 * has none, else by the family's. */
static hearth_status has_window(const hyper_reader *r, uint32_t layer, bool *out)
{
    static const char name[] = "attention.sliding_window_pattern";
    layer_pattern without = r->family->without_window;
    bool found;
    TRY(hyper_layer_bool(r, name, layer, out, &found));
    if (found)
        return HEARTH_OK;
    TRY(hyper_size(r, name, &without.period, &found));
    *out = !in_pattern(without, layer);
    return HEARTH_OK;
}

/* Layers with a window may have heads of another length. */
static hearth_status read_window_heads(const hyper_reader *r, uint32_t layer, uint32_t *value_length)
{
    attention_shape *a = &r->model->layers[layer].attention;
    uint32_t length = a->head_length, values = *value_length;
    bool found, has_values, windowed;
    TRY(has_window(r, layer, &windowed));
    TRY(hyper_size(r, "attention.key_length_swa", &length, &found));
    TRY(hyper_size(r, "attention.value_length_swa", &values, &has_values));
    if (!windowed || (!found && !has_values))
        return HEARTH_OK;
    if (length == 0 || length > HEAD_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "attention.key_length_swa", "is 0 or too large");
    a->head_length = length;
    *value_length = has_values ? values : length;
    return HEARTH_OK;
}

/* Reads the sizes of latent attention. Files that were made before llama.cpp split the matrix of keys and values have neither
 * of the keys that end in _mla, but these sizes under the names of other attention, and a key for each head. */
static hearth_status read_latent_heads(const hyper_reader *r, attention_shape *a)
{
    static const char length_key[] = "attention.key_length_mla", value_key[] = "attention.value_length_mla";
    uint32_t length = 0, rotated = 0;
    bool found, has_values;
    TRY(hyper_size(r, "attention.kv_lora_rank", &a->compressed, NULL));
    TRY(hyper_size(r, "attention.q_lora_rank", &a->query_rank, &found));
    if (a->query_rank > 0 && r->family->joined_heads) /* no rule has the two matrices */
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.q_lora_rank", "is not supported of this architecture");
    TRY(hyper_size(r, length_key, &length, &found));
    TRY(hyper_size(r, value_key, &a->value_length, &has_values));
    TRY(hyper_size(r, "rope.dimension_count", &rotated, NULL));
    if (!found && !has_values) {
        length = a->head_length;
        TRY(hyper_size(r, "attention.value_length", &a->value_length, NULL));
        a->kv_head_count = a->kv_head_count == a->head_count ? 1 : a->kv_head_count;
    } else if (!found || !has_values) {
        return hyper_fail(r, HEARTH_FORMAT, found ? value_key : length_key, "is missing");
    }
    if (a->compressed == 0 || a->compressed > HEAD_LIMIT || a->query_rank > HEAD_LIMIT || a->value_length == 0 ||
        a->value_length > HEAD_LIMIT || length > HEAD_LIMIT)
        return hyper_fail(
            r, HEARTH_FORMAT, "attention.kv_lora_rank",
            "or attention.q_lora_rank, attention.key_length_mla or attention.value_length_mla is 0 or too large");
    if ((rotated == 0 && !r->family->unrotated) || rotated % 2 != 0 || rotated >= length)
        return hyper_fail(r, HEARTH_FORMAT, "rope.dimension_count",
                          "is not an even number of values of a query, fewer than attention.key_length_mla");
    if (a->kv_head_count != 1)
        return hyper_fail(r, HEARTH_FORMAT, "attention.head_count_kv", "is not 1, as latent attention has it");
    a->unrotated = length - rotated;
    a->head_length = rotated + a->compressed;
    if ((uint64_t)a->head_count * a->head_length > HYPER_WIDTH_LIMIT ||
        (uint64_t)a->head_count * length > HYPER_WIDTH_LIMIT ||
        (uint64_t)a->head_count * a->value_length > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "attention.head_count", "times the length of a head is too large");
    return HEARTH_OK;
}

hearth_status hyper_read_heads(const hyper_reader *r, uint32_t layer)
{
    attention_shape *a = &r->model->layers[layer].attention;
    if (a->head_count == 0)
        return hyper_fail(r, HEARTH_FORMAT, "attention.head_count", "is 0 in a layer with heads of keys");
    if (a->kv_head_count == 0)
        a->kv_head_count = a->head_count;
    if (a->head_count % a->kv_head_count != 0)
        return hyper_fail(r, HEARTH_FORMAT, "attention.head_count_kv", "does not divide attention.head_count");
    if (a->head_length == 0) {
        if (r->hyper->embedding_length % a->head_count != 0)
            return hyper_fail(r, HEARTH_FORMAT, "attention.head_count", "does not divide embedding_length");
        a->head_length = r->hyper->embedding_length / a->head_count;
    }
    if (r->family->latent_attention)
        return read_latent_heads(r, a);
    uint32_t value_length = a->head_length;
    bool found;
    TRY(hyper_layer_size(r, "attention.value_length", layer, &value_length, &found));
    TRY(read_window_heads(r, layer, &value_length));
    if (a->head_length % 2 != 0 && !r->family->unrotated)
        return hyper_fail(r, HEARTH_FORMAT, "attention.key_length", "is odd: values are rotated in pairs");
    if ((uint64_t)a->head_count * a->head_length > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "attention.head_count", "times the length of a head is too large");
    if (value_length != a->head_length && !r->family->short_values)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.value_length",
                          "differs from attention.key_length, which is not supported of this architecture");
    if (value_length == 0 || value_length > a->head_length)
        return hyper_fail(r, HEARTH_FORMAT, "attention.value_length", "is 0, or more than attention.key_length");
    a->value_length = value_length;
    return HEARTH_OK;
}

/* Sets the scale of latent attention: by the length of a query before key_up; yarn makes scores larger. */
static hearth_status read_latent_scale(const hyper_reader *r, attention_shape *a)
{
    double growth;
    TRY(rope_yarn_growth(r->family, r->source, &growth, r->error));
    a->scale = (float)(growth * growth / sqrt((double)short_query(a)));
    return HEARTH_OK;
}

/* Returns how many gates each head has: one, if the matrix of gates has a row for each head, else one for each value. */
static uint32_t gates_of_head(const hyper_reader *r, const attention_shape *a, uint32_t layer)
{
    const stored_tensor *gates = hyper_layer_tensor(r, "blk.%u.attn_gate.weight", layer);
    if (!r->family->gated_attention)
        return 0;
    bool one = gates && gates->rank == 2 && gates->shape[1] == a->head_count;
    return one ? 1 : a->value_length;
}

hearth_status hyper_read_attention(const hyper_reader *r, uint32_t layer)
{
    const hyperparameters *h = r->hyper;
    attention_shape *a = &r->model->layers[layer].attention;
    bool found, windowed = true;
    a->window = r->family->file_window;
    TRY(hyper_layer_size(r, "attention.sliding_window", layer, &a->window, &found));
    TRY(has_window(r, layer, &windowed));
    a->window = windowed ? a->window : 0;
    a->chunked = a->window > 0 && r->family->chunked;
    bool by_width = r->family->scale_by_width == h->layer_count;
    a->scale = (float)(1 / sqrt(by_width ? (double)h->embedding_length / a->head_count : (double)a->head_length));
    a->scale = r->family->unit_scale ? 1 : a->scale;
    if (a->compressed > 0)
        TRY(read_latent_scale(r, a));
    TRY(hyper_positive(r, "attention.scale", &a->scale, &found));
    a->value_scale = 1;
    if (r->family->short_values)
        TRY(hyper_positive(r, "attention.value_scale", &a->value_scale, &found));
    a->norm_whole = r->family->norm_whole;
    a->norm_values = r->family->norm_values;
    a->norm_turned = r->family->norm_turned;
    a->gate_softplus = r->family->gate_softplus;
    a->gate_length = gates_of_head(r, a, layer);
    return hyper_cap(r, "attn_logit_softcapping", r->family->score_cap, &a->softcap);
}

/* Finds the layer whose choice of positions a layer sees: *back 0, if it chooses itself. Without the key, layers that have what
 * it takes do; what it says of recurrent layers means nothing. */
static hearth_status find_chooser(const hyper_reader *r, uint32_t layer, uint32_t *back)
{
    static const char key[] = "attention.indexer.types", tensor[] = "blk.%u.indexer.attn_k.weight";
    bool found, chooses;
    for (*back = 0; *back <= layer; (*back)++) {
        if (r->model->layers[layer - *back].mixer != MIXER_ATTENTION)
            continue;
        TRY(hyper_layer_bool(r, key, layer - *back, &chooses, &found));
        if (found ? chooses : hyper_layer_tensor(r, tensor, layer - *back) != NULL)
            return HEARTH_OK;
    }
    return hyper_fail(r, HEARTH_FORMAT, key, "lets no layer choose positions before one that needs them");
}

/* Reads how many positions share a score, unless that is known: a divisor of those of a page of the cache, so that no pool crosses its border. */
static hearth_status read_pool(const hyper_reader *r, attention_shape *a, uint32_t known)
{
    static const char pool_key[] = "attention.indexer.kpool", tail_key[] = "attention.indexer.kpool_select_tail";
    const char *said = r->family->pools_plainly ? "attention.compress_ratios" : pool_key;
    char key[KEY_SIZE];
    bool tail = true, found;
    a->pool = known;
    if (!r->family->pools_positions)
        return HEARTH_OK;
    if (!r->family->pools_plainly)
        TRY(hyper_size(r, pool_key, &a->pool, NULL));
    hyper_key(key, r->family, tail_key);
    TRY(checkpoint_get_bool(r->source, key, &tail, &found, r->error));
    if (!tail)
        return hyper_fail(r, HEARTH_UNSUPPORTED, tail_key, "is false, which is not supported");
    if (a->pool < 2 || KV_PAGE % a->pool != 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, said, "is not a power of two from 2 to 128");
    return a->chosen % a->pool == 0 ? HEARTH_OK
                                    : hyper_fail(r, HEARTH_FORMAT, "attention.indexer.top_k",
                                                 "is not a multiple of the positions that share a score");
}

/* Finds out how many positions share a score where pools are plain; 0: the layer sees them all. */
static hearth_status read_plain_pool(const hyper_reader *r, uint32_t layer, uint32_t *pool)
{
    static const char key[] = "attention.compress_ratios";
    bool found;
    *pool = 0;
    TRY(hyper_layer_size(r, key, layer, pool, &found));
    for (uint32_t i = 0; i < layer; i++) {
        const attention_shape *other = &r->model->layers[i].attention;
        if (*pool > 0 && other->chosen > 0 && other->pool != *pool)
            return hyper_fail(r, HEARTH_UNSUPPORTED, key, "differs between layers that choose positions");
    }
    return HEARTH_OK;
}

/* Most blocks that are seen: their positions are far below 2^32. */
#define BLOCK_LIMIT (1u << 20)

hearth_status hyper_read_scorers(const hyper_reader *r, index_shape *index)
{
    static const char heads_key[] = "attention.indexer.head_count", length_key[] = "attention.indexer.key_length";
    TRY(hyper_size(r, heads_key, &index->head_count, NULL));
    TRY(hyper_size(r, length_key, &index->head_length, NULL));
    return index->head_count > 0 && index->head_length > 0 && index->head_length <= HEAD_LIMIT &&
                   (uint64_t)index->head_count * index->head_length <= HYPER_WIDTH_LIMIT
               ? HEARTH_OK
               : hyper_fail(r, HEARTH_FORMAT, length_key, "or attention.indexer.head_count is 0 or too large");
}

/* Reads which blocks of positions each head of keys sees (index_shape.by_head); the first layers, without experts, see everything. */
static hearth_status read_blocks(const hyper_reader *r, uint32_t layer, attention_shape *a)
{
    static const char top_key[] = "attention.indexer.top_k", block_key[] = "attention.indexer.block_size",
                      local_key[] = "attention.indexer.local_blocks";
    index_shape index = {.plain = true, .by_head = true};
    uint32_t dense = 0, blocks = 0;
    bool found;
    TRY(hyper_size(r, "leading_dense_block_count", &dense, &found));
    if (layer < dense)
        return HEARTH_OK;
    TRY(hyper_size(r, top_key, &blocks, NULL));
    TRY(hyper_size(r, block_key, &a->pool, NULL));
    TRY(hyper_size(r, local_key, &a->last_pools, NULL));
    TRY(hyper_read_scorers(r, &index));
    if (a->pool < 2 || KV_PAGE % a->pool != 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, block_key, "is not a power of two from 2 to 128");
    if (a->last_pools == 0 || a->last_pools >= blocks || blocks > BLOCK_LIMIT)
        return hyper_fail(r, HEARTH_UNSUPPORTED, local_key,
                          "is 0, or not below attention.indexer.top_k, or that is too large");
    if (index.head_count != a->kv_head_count)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.indexer.head_count",
                          "differs from attention.head_count_kv");
    if (a->window > 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.sliding_window", "is there, and positions are chosen");
    a->chosen = (blocks - a->last_pools) * a->pool;
    a->index = index;
    return HEARTH_OK;
}

hearth_status hyper_read_choice(const hyper_reader *r, uint32_t layer)
{
    attention_shape *a = &r->model->layers[layer].attention;
    index_shape index = {.plain = r->family->pools_plainly};
    uint32_t pool = 1;
    if (r->family->chooses_blocks)
        return read_blocks(r, layer, a);
    if (!r->family->chooses_positions)
        return HEARTH_OK;
    if (index.plain)
        TRY(read_plain_pool(r, layer, &pool));
    if (pool == 0)
        return HEARTH_OK;
    TRY(hyper_size(r, "attention.indexer.top_k", &a->chosen, NULL));
    TRY(hyper_read_scorers(r, &index));
    if (a->chosen == 0)
        return hyper_fail(r, HEARTH_FORMAT, "attention.indexer.top_k", "is 0");
    if (a->compressed > 0 && index.head_length < a->head_length - a->compressed)
        return hyper_fail(r, HEARTH_FORMAT, "attention.indexer.key_length", "is less than what rotates");
    TRY(read_pool(r, a, pool));
    if (a->compressed > 0 && a->query_rank == 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.q_lora_rank", "is 0, and positions are chosen");
    if (a->window > 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.sliding_window", "is there, and positions are chosen");
    if (!index.plain)
        TRY(find_chooser(r, layer, &a->chosen_back));
    if (a->chosen_back == 0)
        a->index = index;
    return HEARTH_OK;
}

hearth_status hyper_read_shared_keys(const hyper_reader *r)
{
    static const char name[] = "attention.shared_kv_layers";
    uint32_t layers = r->hyper->layer_count, shared = 0;
    bool found;
    TRY(hyper_size(r, name, &shared, &found));
    if (shared > 0 && r->family->latent_attention)
        return hyper_fail(r, HEARTH_UNSUPPORTED, name, "is not supported with latent attention");
    if (shared >= layers)
        return hyper_fail(r, HEARTH_FORMAT, name, "is not below the number of layers");
    for (uint32_t i = layers - shared; i < layers; i++) {
        attention_shape *a = &r->model->layers[i].attention;
        uint32_t from = layers - shared;
        while (from > 0 && (r->model->layers[from - 1].attention.window > 0) != (a->window > 0))
            from--;
        if (from == 0)
            return hyper_fail(r, HEARTH_FORMAT, name, "leaves a layer no keys of its kind");
        const attention_shape *owner = &r->model->layers[from - 1].attention;
        if (owner->kv_head_count != a->kv_head_count || owner->head_length != a->head_length ||
            owner->value_length != a->value_length)
            return hyper_fail(r, HEARTH_FORMAT, name, "lets a layer read keys of another shape");
        a->keys_back = i - (from - 1);
    }
    return HEARTH_OK;
}

/* Reads how many pairs of a head are rotated, of layers with a window or of the others: all that rotate of either kind have
 * heads of one length. known: of the others, where there is no key; 0: all. Sets *out where there are such layers. */
static hearth_status read_pairs(const hyper_reader *r, const char *key, bool windowed, uint32_t known, uint32_t *out)
{
    static const char reason[] = "is not an even number from 2 to the length of a head";
    uint32_t values = 2 * known;
    bool found, any = false;
    TRY(hyper_size(r, key, &values, &found));
    if (found && (values == 0 || values % 2 != 0))
        return hyper_fail(r, HEARTH_FORMAT, key, reason);
    for (uint32_t i = 0; i < r->hyper->layer_count; i++) {
        const attention_shape *a = &r->model->layers[i].attention;
        if (r->model->layers[i].mixer != MIXER_ATTENTION || (a->window > 0) != windowed)
            continue;
        values = found || any || known > 0 ? values : a->head_length;
        any = true;
        if (values > a->head_length)
            return hyper_fail(r, HEARTH_FORMAT, key, reason);
    }
    if (any || known == 0)
        *out = values / 2;
    return HEARTH_OK;
}

hearth_status hyper_read_rotation(const hyper_reader *r)
{
    static const char sections_key[] = "rope.dimension_sections";
    hyperparameters *h = r->hyper;
    char key[KEY_SIZE];
    if (r->family->unrotated || model_first_attention(r->model)->head_length == 0)
        return HEARTH_OK;
    hyper_key(key, r->family, sections_key);
    bool sections = checkpoint_find(r->source, key);
    if (sections && r->family->pairing == ROPE_NEIGHBOURS && !r->family->sections_halve)
        return hyper_fail(r, HEARTH_UNSUPPORTED, sections_key, "of pictures are not supported of this architecture");
    h->pairing = sections ? ROPE_HALVES : r->family->pairing;
    if (r->family->half_turns) {
        static const char count_key[] = "rope.dimension_count";
        TRY(read_pairs(r, count_key, true, 0, &h->window_rope_pairs));
        if (h->window_rope_pairs == 0) /* no layer has a window */
            h->window_rope_pairs = model_first_attention(r->model)->head_length / 2;
        h->rope_pairs = h->window_rope_pairs / 2;
        return h->window_rope_pairs % 2 == 0 ? HEARTH_OK
                                             : hyper_fail(r, HEARTH_FORMAT, count_key, "is not a multiple of 4");
    }
    TRY(read_pairs(r, "rope.dimension_count", false, 0, &h->rope_pairs));
    if (h->rope_pairs == 0) /* no layer sees everything */
        h->rope_pairs = model_first_attention(r->model)->head_length / 2;
    h->window_rope_pairs = h->rope_pairs;
    if (model_first_attention(r->model)->compressed > 0)
        return HEARTH_OK;
    return read_pairs(r, "rope.dimension_count_swa", true, h->rope_pairs, &h->window_rope_pairs);
}

/* Reads whether queries and keys are normed without weights. Files of Llama 4 do not say it: that with 128 experts does not. */
static hearth_status norms_plainly(const hyper_reader *r, bool *out)
{
    char key[KEY_SIZE];
    uint32_t experts = 0;
    bool found;
    *out = false;
    if (!r->family->norm_plain)
        return HEARTH_OK;
    TRY(hyper_size(r, "expert_count", &experts, &found));
    *out = experts != 128;
    hyper_key(key, r->family, PLAIN_NORM_KEY);
    return checkpoint_get_bool(r->source, key, out, &found, r->error);
}

hearth_status hyper_read_growth(const hyper_reader *r)
{
    const family *f = r->family;
    hyperparameters *h = r->hyper;
    bool found, plain, windows = false;
    TRY(hyper_cap(r, "attention.temperature_scale", f->growth, &h->score_growth)); /* 0: they do not */
    h->score_growth_ahead = f->growth > 0;
    h->score_growth_from = f->growth > 0 ? f->file_window : h->context_length;
    const char *from = f->growth > 0 ? "attention.temperature_length" : "rope.scaling.original_context_length";
    TRY(hyper_size(r, from, &h->score_growth_from, &found));
    if (h->score_growth_from == 0)
        return hyper_fail(r, HEARTH_FORMAT, from, "is 0");
    TRY(norms_plainly(r, &plain));
    for (uint32_t i = 0; i < h->layer_count; i++)
        windows |= r->model->layers[i].attention.window > 0;
    for (uint32_t i = 0; i < h->layer_count; i++) {
        attention_shape *a = &r->model->layers[i].attention;
        bool rotates = !f->windows_rotate || !windows || a->window > 0;
        a->norm_plain = plain && rotates;
        a->grows = h->score_growth > 0 && (f->growth == 0 || !rotates);
        if (a->grows && a->chosen > 0)
            return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.temperature_scale",
                              "is there, and positions are chosen");
    }
    return HEARTH_OK;
}
