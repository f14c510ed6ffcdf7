/* huggingface_minimax.c - MiniMax M3: lists of layers, and the blocks of positions that heads of keys see, as config.json has them. */
#include "folder_reader.h"

#include "../file/checkpoint.h"

#include <string.h>

/* Reads a list of 0 and 1, or of two words for them, one for each layer, zeros first. *zeros: how many there are. */
static hearth_status read_list(const folder_reader *r, const char *name, const json_t *list, const char *const words[2],
                               uint32_t *zeros)
{
    *zeros = 0;
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, name);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        const json_t *item = json_array_get(list, i);
        const char *word = json_string_value(item);
        bool zero = word ? strcmp(word, words[0]) == 0 : json_is_integer(item) && json_integer_value(item) == 0;
        bool one = word ? strcmp(word, words[1]) == 0 : json_is_integer(item) && json_integer_value(item) == 1;
        if ((!zero && !one) || (zero && *zeros < i))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %u is not as supported: first %s, then %s",
                        r->name, name, i, words[0], words[1]);
        *zeros += zero;
    }
    return HEARTH_OK;
}

hearth_status folder_read_expert_list(folder_reader *r, bool *found)
{
    static const char name[] = "moe_layer_freq";
    static const char *const words[] = {"0", "1"};
    const json_t *list = json_object_get(r->config, name);
    uint32_t dense;
    *found = json_is_array(list);
    if (!*found)
        return HEARTH_OK;
    TRY(read_list(r, name, list, words, &dense));
    return folder_set_size(r, "leading_dense_block_count", dense);
}

/* Checks that the layers with experts are those that choose, as GGUF has it. */
static hearth_status check_layers(const folder_reader *r, const json_t *own)
{
    static const char of_object[] = "sparse_attention_freq", of_config[] = "layer_types";
    static const char *const words[] = {"full_attention", "minimax_m3_sparse"};
    const json_t *list = json_object_get(own, of_object), *types = json_object_get(r->config, of_config);
    const char *name = list ? of_object : of_config;
    char key[KEY_SIZE];
    uint32_t all = 0, dense = 0;
    bool found;
    TRY(read_list(r, name, list ? list : types, words, &all));
    hyper_key(key, r->family, "leading_dense_block_count");
    TRY(checkpoint_get_u32(r->out, key, &dense, &found, r->error));
    if (all != dense)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %u layers see everything, and %u have no experts", r->name,
                    name, all, dense);
    return HEARTH_OK;
}

/* Refuses what would change the result and is not supported. */
static hearth_status refuse_others(const folder_reader *r, const json_t *own)
{
    const char *score = "max";
    uint32_t initial = 0;
    bool chooses = true;
    bool found;
    if (!own)
        return HEARTH_OK;
    TRY(json_get_bool(own, "use_sparse_attention", &chooses, &found, r->name, r->error));
    if (!chooses)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: use_sparse_attention: is false, which is not supported",
                    r->name);
    TRY(json_get_string(own, "sparse_score_type", &score, &found, r->name, r->error));
    TRY(json_get_uint(own, "sparse_init_block", &initial, &found, r->name, r->error));
    if (strcmp(score, "max") != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: sparse_score_type: %.64s is not supported, only max", r->name,
                    score);
    return initial == 0 ? HEARTH_OK
                        : fail(r->error, HEARTH_UNSUPPORTED, "%s: sparse_init_block: is %u, only 0 is supported",
                               r->name, initial);
}

hearth_status folder_read_blocks(folder_reader *r)
{
    /* The names of the object, those that transformers saves, and its defaults. */
    static const struct {
        const char *of_object, *of_config, *key;
        uint32_t known;
    } sizes[] = {{"sparse_num_index_heads", "index_n_heads", "attention.indexer.head_count", 4},
                 {"sparse_index_dim", "index_head_dim", "attention.indexer.key_length", 128},
                 {"sparse_topk_blocks", "index_topk_blocks", "attention.indexer.top_k", 16},
                 {"sparse_block_size", "index_block_size", "attention.indexer.block_size", 128},
                 {"sparse_local_block", "index_local_blocks", "attention.indexer.local_blocks", 1}};
    const json_t *own = json_object_get(r->config, "sparse_attention_config");
    own = json_is_object(own) ? own : NULL;
    if (!r->family->chooses_blocks)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t value = sizes[i].known;
        bool found;
        TRY(json_get_uint(r->config, sizes[i].of_config, &value, &found, r->name, r->error));
        TRY(own ? json_get_uint(own, sizes[i].of_object, &value, &found, r->name, r->error) : HEARTH_OK);
        TRY(folder_set_size(r, sizes[i].key, value));
    }
    TRY(check_layers(r, own));
    return refuse_others(r, own);
}
