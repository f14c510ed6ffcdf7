/* huggingface_parts.c - what each layer of a folder's model has of attention and of a network, where a search for faster models
 * (NVIDIA's Puzzle, arXiv 2411.19146) has left out some of either, or made them smaller. */
#include "folder_reader.h"

#include <stdio.h>
#include <string.h>

/* Neurons of a network are a multiple of so many. */
#define NEURON_STEP 256

/* What the layers have. */
typedef struct parts {
    uint32_t *heads, *kv_heads, *neurons; /* [layer_count] of the queries, of the keys; 0: there is no such part */
} parts;

static hearth_status part_fails(const folder_reader *r, uint32_t layer, const char *part, const char *reason)
{
    return fail(r->error, HEARTH_UNSUPPORTED, "%s: " BLOCK_CONFIGS ": layer %u: %s: %s", r->name, layer, part, reason);
}

/* Checks that a part is as usual or missing. present: false where it is missing. */
static hearth_status check_part(const folder_reader *r, uint32_t layer, const char *part, const json_t *object,
                                const char *size, bool *present)
{
    static const char *const others[] = {"sparsify", "window_length", "num_sink_tokens"};
    const json_t *value = json_object_get(object, size);
    if (!json_is_object(object))
        return part_fails(r, layer, part, "is not an object");
    if (json_is_true(json_object_get(object, "replace_with_linear")))
        return part_fails(r, layer, part, "replace_with_linear: one matrix in its place is not supported");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_t *other = json_object_get(object, others[i]);
        if (other && !json_is_null(other) && !json_is_false(other))
            return part_fails(r, layer, part, "sparsify, window_length and num_sink_tokens are not supported");
    }
    *present = value && !json_is_null(value) && !json_is_true(json_object_get(object, "no_op"));
    return HEARTH_OK;
}

/* Reads how many heads of keys a layer has: so many of the queries share one. */
static hearth_status read_attention(const folder_reader *r, uint32_t layer, const json_t *block, const parts *out)
{
    static const char part[] = "attention", size[] = "n_heads_in_group";
    const json_t *object = json_object_get(block, part);
    uint32_t heads = r->layer.attention.head_count;
    bool present;
    TRY(check_part(r, layer, part, object, size, &present));
    json_int_t group = json_integer_value(json_object_get(object, size));
    if (present && (group < 1 || group > heads || heads % group != 0))
        return part_fails(r, layer, part, "n_heads_in_group: does not divide num_attention_heads");
    out->heads[layer] = present ? heads : 0;
    out->kv_heads[layer] = present ? heads / (uint32_t)group : 0;
    return HEARTH_OK;
}

/* Reads how many neurons a layer has: two thirds of so many widths of the embedding, rounded up. */
static hearth_status read_network(const folder_reader *r, uint32_t layer, const json_t *block, const parts *out)
{
    static const char part[] = "ffn", size[] = "ffn_mult";
    const json_t *object = json_object_get(block, part);
    bool present;
    TRY(check_part(r, layer, part, object, size, &present));
    double neurons = 2 * json_number_value(json_object_get(object, size)) * r->hyper.embedding_length / 3;
    if (present && !(neurons >= 1 && neurons <= NEURON_LIMIT - NEURON_STEP))
        return part_fails(r, layer, part, "ffn_mult: makes no neurons, or too many");
    out->neurons[layer] = present ? ((uint32_t)neurons + NEURON_STEP - 1) / NEURON_STEP * NEURON_STEP : 0;
    return HEARTH_OK;
}

/* Sets GGUF's keys, each an array. */
static hearth_status set_parts(folder_reader *r, const parts *p)
{
    const struct {
        const char *key;
        const uint32_t *values;
    } arrays[] = {{"attention.head_count", p->heads},
                  {"attention.head_count_kv", p->kv_heads},
                  {"feed_forward_length", p->neurons}};
    char key[KEY_SIZE];
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        hyper_key(key, r->family, arrays[i].key);
        TRY(checkpoint_set_numbers(r->out, key, VALUE_I32, arrays[i].values, r->hyper.layer_count, r->error));
    }
    return folder_keep_heads(r, p->kv_heads);
}

hearth_status folder_read_parts(folder_reader *r)
{
    const json_t *blocks = json_object_get(r->config, BLOCK_CONFIGS);
    size_t layers = r->hyper.layer_count;
    if (!json_is_array(blocks) || json_array_size(blocks) != layers)
        return fail(r->error, HEARTH_FORMAT, "%s: " BLOCK_CONFIGS ": is not an array of one object per layer", r->name);
    uint32_t *numbers = mem_new_array(3 * layers, sizeof *numbers);
    if (!numbers)
        return fail_memory(r->error, "layers", 3 * layers * sizeof *numbers);
    parts p = {numbers, numbers + layers, numbers + 2 * layers};
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        const json_t *block = json_array_get(blocks, i);
        status = read_attention(r, i, block, &p);
        if (status == HEARTH_OK)
            status = read_network(r, i, block, &p);
    }
    if (status == HEARTH_OK)
        status = set_parts(r, &p);
    mem_free(numbers);
    return status;
}
