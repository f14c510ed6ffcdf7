/* huggingface_recurrent.c - which mixer each layer of a folder's model has, and the shape of the recurrent ones. */
#include "folder_reader.h"

#include <stdio.h>
#include <string.h>

/* What a layer of one block is: letters of hybrid_override_pattern, names in layers_block_type. */
typedef struct block_name {
    char letter;
    const char *names
        [5]; /* the second one as transformers 5 writes it; then those of attention to chosen positions, and with a window */
    bool attends, computes, has_experts;
    bool is_short; /* of those that are recurrent: RECURRENCE_SHORT, not RECURRENCE_MAMBA2 */
} block_name;

// clang-format off
static const block_name block_names[] = {
    /* letter  names                               attends computes experts short */
    {'M', {"mamba",     "linear_attention"},       false,  false,   false,  false},
    {'*', {"attention", "full_attention", "indexed_attention", "deepseek_sparse_attention", "sliding_attention"}, true, false, false, false},
    {'-', {"mlp",       NULL},                     false,  true,    false,  false},
    {'E', {"moe",       NULL},                     false,  true,    true,   false},
    {0,   {"conv",      NULL},                     false,  false,   false,  true}, /* in lists alone */
};
// clang-format on
#define BLOCK_NAMES (sizeof block_names / sizeof *block_names)

static const block_name *by_letter(char letter)
{
    for (size_t i = 0; i < BLOCK_NAMES; i++)
        if (block_names[i].letter == letter)
            return &block_names[i];
    return NULL;
}

/* Returns whether a name is of attention with a window, and the family's models have none. */
static bool is_window_unknown(const folder_reader *r, const json_t *name)
{
    const char *text = json_string_value(name);
    return text && strcmp(text, "sliding_attention") == 0 && !r->family->folder_window;
}

static const block_name *by_name(const char *name)
{
    for (size_t i = 0; name && i < BLOCK_NAMES; i++)
        for (size_t n = 0; n < sizeof block_names[i].names / sizeof *block_names[i].names; n++)
            if (block_names[i].names[n] && strcmp(block_names[i].names[n], name) == 0)
                return &block_names[i];
    return NULL;
}

/* The list of blocks as a config has it: letters, names, or (Puzzle) an object for each block, which also says how many neurons its
 * experts have, and how many of them a token uses. */
typedef struct block_list {
    const char *key;
    const char *pattern;
    const json_t *items;
    size_t count;
} block_list;

static block_list find_blocks(const json_t *config)
{
    static const char pattern_key[] = "hybrid_override_pattern", names_key[] = "layers_block_type";
    const char *pattern = json_string_value(json_object_get(config, pattern_key));
    const json_t *names = json_object_get(config, names_key), *objects = json_object_get(config, BLOCK_CONFIGS);
    if (json_is_array(objects))
        return (block_list){BLOCK_CONFIGS, NULL, objects, json_array_size(objects)};
    if (pattern)
        return (block_list){pattern_key, pattern, NULL, strlen(pattern)};
    return (block_list){names_key, NULL, names, json_array_size(names)};
}

static const block_name *block_at(const block_list *list, size_t layer)
{
    const json_t *item = json_array_get(list->items, layer);
    const json_t *name = json_is_object(item) ? json_object_get(item, "block_type") : item;
    return list->pattern ? by_letter(list->pattern[layer]) : by_name(json_string_value(name));
}

/* Reads a size of a block's experts where each block has its own; of others *out stays. */
static hearth_status get_of_block(const folder_reader *r, const block_list *list, uint32_t layer, const char *key,
                                  uint32_t *out)
{
    const json_t *item = json_array_get(list->items, layer);
    char where[1024];
    snprintf(where, sizeof where, "%s: %s: block %u", r->name, list->key, layer);
    return json_is_object(item) ? json_get_uint(item, key, out, NULL, where, r->error) : HEARTH_OK;
}

uint32_t folder_listed_blocks(const json_t *config)
{
    size_t count = find_blocks(config).count;
    return count <= UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

bool folder_has_expert_blocks(const json_t *config)
{
    block_list list = find_blocks(config);
    for (size_t i = 0; i < list.count; i++) {
        const block_name *block = block_at(&list, i);
        if (block && block->has_experts)
            return true;
    }
    return false;
}

/* Reads the shape of a short convolution. */
static hearth_status read_short(folder_reader *r)
{
    uint32_t window = 3;
    bool found;
    TRY(json_get_uint(r->config, "conv_L_cache", &window, &found, r->name, r->error));
    r->layer.recurrent = (recurrent_shape){.rule = RECURRENCE_SHORT,
                                           .head_count = 1,
                                           .value_length = r->hyper.embedding_length,
                                           .key_count = 1,
                                           .window = window};
    return folder_set_size(r, "shortconv.l_cache", window);
}

/* Sets the arrays by which GGUF says what each layer is. */
static hearth_status set_arrays(folder_reader *r, const uint32_t *kv_heads, const uint32_t *neurons)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.head_count_kv");
    TRY(checkpoint_set_numbers(r->out, key, VALUE_I32, kv_heads, r->hyper.layer_count, r->error));
    hyper_key(key, r->family, "feed_forward_length");
    return checkpoint_set_numbers(r->out, key, VALUE_I32, neurons, r->hyper.layer_count, r->error);
}

/* Fills in the arrays [layer_count]. */
static hearth_status list_blocks(folder_reader *r, uint32_t *kv_heads, uint32_t *neurons)
{
    block_list list = find_blocks(r->config);
    uint32_t of_expert = r->layer.ffn.neuron_count;
    bool found;
    if (list.count != r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: does not name one block per layer", r->name, list.key);
    if (r->family->expert_width)
        TRY(json_get_uint(r->config, r->family->expert_width, &of_expert, &found, r->name, r->error));
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        const block_name *block = block_at(&list, i);
        if (!block || block->is_short || is_window_unknown(r, json_array_get(list.items, i)))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: the block of layer %u is not supported", r->name,
                        list.key, i);
        if (block->computes && block->has_experts != r->family->mixture)
            return fail(r->error, HEARTH_UNSUPPORTED,
                        "%s: %s: layers with experts beside others without are not supported", r->name, list.key);
        if (block->has_experts)
            TRY(get_of_block(r, &list, i, r->family->expert_width, &of_expert));
        kv_heads[i] = block->attends ? r->layer.attention.kv_head_count : 0;
        neurons[i] = block->computes ? of_expert : 0;
    }
    return set_arrays(r, kv_heads, neurons);
}

/* Fills in what GGUF says of the experts of each block [layer_count]. */
static hearth_status list_experts(folder_reader *r, const block_list *list, uint32_t *widths, uint32_t *used)
{
    char key[KEY_SIZE];
    uint32_t layers = r->hyper.layer_count;
    for (uint32_t i = 0; i < layers; i++) {
        const block_name *block = i < list->count ? block_at(list, i) : NULL;
        if (!block || !block->has_experts)
            continue;
        TRY(get_of_block(r, list, i, r->family->expert_width, &widths[i]));
        TRY(get_of_block(r, list, i, "num_experts_per_tok", &used[i]));
    }
    hyper_key(key, r->family, "expert_feed_forward_length");
    TRY(checkpoint_set_numbers(r->out, key, VALUE_I32, widths, layers, r->error));
    hyper_key(key, r->family, "expert_used_count");
    return checkpoint_set_numbers(r->out, key, VALUE_I32, used, layers, r->error);
}

hearth_status folder_read_block_experts(folder_reader *r, bool *found)
{
    block_list list = find_blocks(r->config);
    *found = r->family->mixers == MIXERS_BLOCKS && json_is_object(json_array_get(list.items, 0));
    if (!*found)
        return HEARTH_OK;
    uint32_t *numbers = mem_new_array(2 * (size_t)r->hyper.layer_count, sizeof *numbers);
    if (!numbers)
        return fail_memory(r->error, "layers", 2 * (size_t)r->hyper.layer_count * sizeof *numbers);
    hearth_status status = list_experts(r, &list, numbers, numbers + r->hyper.layer_count);
    mem_free(numbers);
    return status;
}

/* Reads the shape of Mamba-2. */
static hearth_status read_mamba(folder_reader *r)
{
    static const struct {
        const char *config_keys[2], *key; /* Nemotron-H's name, and Granite's */
    } sizes[] = {{{"mamba_num_heads", "mamba_n_heads"}, "ssm.time_step_rank"},
                 {{"n_groups", "mamba_n_groups"}, "ssm.group_count"},
                 {{"ssm_state_size", "mamba_d_state"}, "ssm.state_size"},
                 {{"conv_kernel", "mamba_d_conv"}, "ssm.conv_kernel"},
                 {{"mamba_head_dim", "mamba_d_head"}, NULL}};
    bool other = r->family->mixers == MIXERS_KEYS;
    uint32_t values[5];
    const char *activation = "silu";
    bool found;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(json_get_uint(r->config, sizes[i].config_keys[other], &values[i], NULL, r->name, r->error));
        TRY(sizes[i].key ? folder_set_size(r, sizes[i].key, values[i]) : HEARTH_OK);
    }
    uint32_t length = values[4];
    if ((uint64_t)length * values[0] > UINT32_MAX)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is too large", r->name, sizes[4].config_keys[other]);
    TRY(json_get_string(r->config, "mamba_hidden_act", &activation, &found, r->name, r->error));
    if (strcmp(activation, "silu") != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: mamba_hidden_act: %.64s is not supported", r->name, activation);
    r->layer.recurrent = (recurrent_shape){.rule = r->family->recurrence,
                                           .head_count = values[0],
                                           .value_length = length,
                                           .key_count = values[1],
                                           .key_length = values[2],
                                           .window = values[3]};
    return folder_set_size(r, "ssm.inner_size", length * values[0]);
}

hearth_status folder_keep_heads(folder_reader *r, const uint32_t *kv_heads)
{
    uint32_t *kept = arena_new_array(&r->out->memory, r->hyper.layer_count, sizeof *kept);
    if (!kept)
        return fail_memory(r->error, "layers", r->hyper.layer_count * sizeof *kept);
    memcpy(kept, kv_heads, r->hyper.layer_count * sizeof *kept);
    r->kv_heads = kept;
    return HEARTH_OK;
}

static hearth_status set_keys(folder_reader *r, const uint32_t *kv_heads)
{
    char key[KEY_SIZE];
    TRY(folder_keep_heads(r, kv_heads));
    hyper_key(key, r->family, "attention.head_count_kv");
    return checkpoint_set_numbers(r->out, key, VALUE_I32, kv_heads, r->hyper.layer_count, r->error);
}

/* Sets the heads of keys where a list has the numbers of the layers that have attention, from `first` on. */
static hearth_status list_attending(folder_reader *r, const char *name, const json_t *list, uint32_t first,
                                    uint32_t *kv_heads)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t layer = json_integer_value(json_array_get(list, i)) - first;
        if (!json_is_integer(json_array_get(list, i)) || layer < 0 || layer >= r->hyper.layer_count)
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of layers", r->name, name);
        kv_heads[layer] = r->layer.attention.kv_head_count;
    }
    return set_keys(r, kv_heads);
}

/* Sets them where the last layer of each group has attention. What remains after whole groups has it too in some programs, and in
 * others not, so it is refused. */
static hearth_status group_keys(folder_reader *r, uint32_t size, uint32_t *kv_heads)
{
    if (size == 0 || r->hyper.layer_count % size != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: layer_group_size: is %u, which does not divide %u layers",
                    r->name, size, r->hyper.layer_count);
    for (uint32_t i = size - 1; i < r->hyper.layer_count; i += size)
        kv_heads[i] = r->layer.attention.kv_head_count;
    return set_keys(r, kv_heads);
}

/* Sets the heads of keys of each layer where layer_types says which are recurrent: 0. */
static hearth_status list_keys(folder_reader *r, uint32_t *kv_heads)
{
    static const char name[] = "layer_types", numbers[] = "full_attn_idxs", of_kda[] = "full_attn_layers";
    const json_t *list = json_object_get(r->config, name), *attending = json_object_get(r->config, numbers);
    const json_t *kda = json_object_get(json_object_get(r->config, KDA_CONFIG), of_kda);
    char key[KEY_SIZE];
    uint32_t group = 0;
    bool found;
    TRY(json_get_uint(r->config, "layer_group_size", &group, &found, r->name, r->error));
    if ((!list || json_is_null(list)) && found)
        return group_keys(r, group, kv_heads);
    if ((!list || json_is_null(list)) && json_is_array(attending))
        return list_attending(r, numbers, attending, 0, kv_heads);
    if ((!list || json_is_null(list)) && json_is_array(kda))
        return list_attending(r, of_kda, kda, 1, kv_heads);
    if (!json_is_array(list) || json_array_size(list) != r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one name per layer", r->name, name);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        const block_name *block = by_name(json_string_value(json_array_get(list, i)));
        bool short_family = r->family->recurrence == RECURRENCE_SHORT;
        if (!block || block->computes || is_window_unknown(r, json_array_get(list, i)) ||
            (!block->attends && block->is_short != short_family))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %u has no known mixer", r->name, name, i);
        kv_heads[i] = block->attends ? r->layer.attention.kv_head_count : 0;
    }
    hyper_key(key, r->family, "rope.scaling.finetuned"); /* by which llama.cpp knows that nothing is rotated */
    TRY(r->family->unrotated && !r->family->latent_attention ? checkpoint_set_bool(r->out, key, false, r->error)
                                                             : HEARTH_OK);
    return set_keys(r, kv_heads);
}

/* Refuses positions of another kind than none. */
static hearth_status check_positions(const folder_reader *r)
{
    const char *kind = "nope";
    bool found;
    if (!r->family->unrotated)
        return HEARTH_OK;
    TRY(json_get_string(r->config, "position_embedding_type", &kind, &found, r->name, r->error));
    return strcmp(kind, "nope") == 0 ? HEARTH_OK
                                     : fail(r->error, HEARTH_UNSUPPORTED,
                                            "%s: position_embedding_type: %.64s is not supported", r->name, kind);
}

hearth_status folder_read_mixers(folder_reader *r)
{
    bool keys = r->family->mixers == MIXERS_KEYS;
    if (r->family->mixers == MIXERS_PARTS)
        return folder_read_parts(r);
    if (r->family->mixers != MIXERS_BLOCKS && !keys)
        return HEARTH_OK;
    TRY(check_positions(r));
    TRY(folder_read_kda(r));
    uint32_t *numbers = mem_new_array(2 * (size_t)r->hyper.layer_count, sizeof *numbers);
    if (!numbers)
        return fail_memory(r->error, "layers", 2 * (size_t)r->hyper.layer_count * sizeof *numbers);
    hearth_status status = keys ? list_keys(r, numbers) : list_blocks(r, numbers, numbers + r->hyper.layer_count);
    mem_free(numbers);
    TRY(status);
    if (r->family->recurrence == RECURRENCE_KDA)
        return HEARTH_OK;
    return r->family->recurrence == RECURRENCE_SHORT ? read_short(r) : read_mamba(r);
}
