/* huggingface_summaries.c - what a DeepSeek V4's config.json says of its attention (attention_shape.summary), its first layers' experts and
 * its limits, as it was published and as transformers writes it. Summaries of DeepSeek V4 are of 4 positions, which overlap, or of
 * 128. */
#include "folder_reader.h"

#include "../base/memory.h"

#include <string.h>

/* Sizes that config.json has under one name, and GGUF under another. */
static const struct {
    const char *config_key, *key;
} sizes[] = {{"q_lora_rank", "attention.q_lora_rank"},          {"qk_rope_head_dim", "rope.dimension_count"},
             {"o_groups", "attention.output_group_count"},      {"o_lora_rank", "attention.output_lora_rank"},
             {"index_n_heads", "attention.indexer.head_count"}, {"index_head_dim", "attention.indexer.key_length"},
             {"index_topk", "attention.indexer.top_k"}};

/* Reads how many of the first layers give each token its experts: a number, or the names of all layers' networks. */
static hearth_status read_given(folder_reader *r)
{
    static const char number[] = "num_hash_layers", names[] = "mlp_layer_types";
    const json_t *list = json_object_get(r->config, json_object_get(r->config, number) ? number : names);
    uint32_t given = 0;
    bool found = false;
    if (!json_is_array(list))
        TRY(json_get_uint(r->config, number, &given, NULL, r->name, r->error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_array_get(list, i));
        bool gives = type && strcmp(type, "hash_moe") == 0;
        if (!type || (!gives && strcmp(type, "moe") != 0) || (gives && found))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: item %zu is not as supported: first hash_moe, then moe",
                        r->name, names, i);
        found |= !gives;
        given += gives;
    }
    return folder_set_size(r, "hash_layer_count", given);
}

/* Returns what a list has for a layer: a number, or a name, for which an object has the number; 0 for the name of layers without
 * summaries. known: whether there is any. */
static json_int_t ratio_at(const json_t *list, const json_t *rates, size_t layer, bool *known)
{
    const json_t *item = json_array_get(list, layer);
    const char *name = json_string_value(item);
    const json_t *rate = name ? json_object_get(rates, name) : item;
    bool none = name && strcmp(name, "sliding_attention") == 0;
    *known = none || json_is_integer(rate);
    return none ? 0 : json_integer_value(rate);
}

/* Reads of how many positions each layer has summaries; the list goes on with blocks that guess tokens ahead. */
static hearth_status read_ratios(folder_reader *r)
{
    static const char numbers[] = "compress_ratios", names[] = "layer_types";
    const json_t *rates = json_object_get(r->config, "compress_rates");
    const char *name = rates && !json_object_get(r->config, numbers) ? names : numbers;
    const json_t *list = json_object_get(r->config, name);
    uint32_t layers = r->hyper.layer_count;
    char key[KEY_SIZE];
    if (!json_is_array(list) || json_array_size(list) < layers)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, name);
    uint32_t *ratios = mem_new_array(layers, sizeof *ratios);
    if (!ratios)
        return fail_memory(r->error, name, layers * sizeof *ratios);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        bool known;
        json_int_t value = ratio_at(list, rates, i, &known);
        if (!known || value < 0 || value > UINT32_MAX)
            status = fail(r->error, HEARTH_FORMAT, "%s: %s: item %u is not a number of positions", r->name, name, i);
        ratios[i] = (uint32_t)value;
    }
    hyper_key(key, r->family, "attention.compress_ratios");
    if (status == HEARTH_OK)
        status = checkpoint_set_numbers(r->out, key, VALUE_U32, ratios, layers, r->error);
    mem_free(ratios);
    return status;
}

hearth_status folder_read_summaries(folder_reader *r)
{
    double base = 160000;
    bool found;
    if (!r->family->summaries)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t value = 0;
        TRY(json_get_uint(r->config, sizes[i].config_key, &value, NULL, r->name, r->error));
        TRY(folder_set_size(r, sizes[i].key, value));
    }
    TRY(folder_get_positive(r, r->config, r->name, "compress_rope_theta", &base, &found));
    TRY(folder_set_number(r, "attention.compress_rope_freq_base", base));
    TRY(read_given(r));
    return read_ratios(r);
}

hearth_status folder_narrow_numbers(const folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    size_t count = (size_t)stored_tensor_rows(t) * (size_t)t->shape[0];
    if ((rule->flags & TENSOR_INTEGERS) && t->foreign && strcmp(t->foreign, "I32") == 0) {
        t->format = FORMAT_I32;
        t->foreign = NULL;
    }
    if (!(rule->flags & TENSOR_INTEGERS) || !t->foreign || strcmp(t->foreign, "I64") != 0)
        return HEARTH_OK;
    int32_t *numbers = arena_new_array(&r->out->memory, count, sizeof *numbers);
    if (!numbers)
        return fail_memory(r->error, t->name, count * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        int64_t number;
        memcpy(&number, (const char *)t->data + i * sizeof number, sizeof number);
        numbers[i] = number >= 0 && number <= INT32_MAX ? (int32_t)number : -1; /* which binding refuses */
    }
    t->data = numbers;
    t->format = FORMAT_I32;
    t->foreign = NULL;
    t->size_bytes = count * sizeof *numbers;
    return HEARTH_OK;
}
