/* huggingface_step.c - what the config of Step 3.5 says in its own way: heads of layers with a window, limits of activations, which
 * layers have experts. transformers saves some of it under other names, which are read as well. */
#include "folder_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool folder_lists_layers(const folder_reader *r, const json_t *list)
{
    size_t layers = r->hyper.layer_count, size = json_array_size(list);
    bool longer = size > layers && (size == layers + r->draft_layers || r->family->own_settings);
    return json_is_array(list) && (size == layers || longer);
}

hearth_status folder_read_halves(folder_reader *r)
{
    static const char key[] = "partial_rotary_factors";
    const json_t *list = json_object_get(r->config, key), *rope = json_object_get(r->config, "rope_parameters");
    const json_t *full = json_object_get(rope, "full_attention"),
                 *windowed = json_object_get(rope, "sliding_attention");
    uint32_t length = r->layer.attention.head_length;
    bool found, halves = true, listed = folder_lists_layers(r, list);
    double shares[] = {listed ? 0.5 : 1, 1};
    if (list && !json_is_null(list) && !listed)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one share per layer", r->name, key);
    for (uint32_t i = 0; listed && i < r->hyper.layer_count; i++)
        halves &= json_number_value(json_array_get(list, i)) == (folder_sees_all(r, i) ? 0.5 : 1);
    if (json_is_object(full))
        TRY(json_get_number(full, "partial_rotary_factor", &shares[0], &found, r->name, r->error));
    if (json_is_object(windowed))
        TRY(json_get_number(windowed, "partial_rotary_factor", &shares[1], &found, r->name, r->error));
    if (!halves || shares[0] != 0.5 || shares[1] != 1 || length % 4 != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: are not 0.5, and 1 in layers with a window", r->name, key);
    r->hyper.rope_pairs = length / 4;
    return folder_set_size(r, "rope.dimension_count", length);
}

hearth_status folder_set_by_window(folder_reader *r, const char *name, uint32_t all, uint32_t windowed)
{
    uint32_t layers = r->hyper.layer_count, *numbers = mem_new_array(layers, sizeof *numbers);
    if (!numbers)
        return fail_memory(r->error, name, layers * sizeof *numbers);
    for (uint32_t i = 0; i < layers; i++)
        numbers[i] = folder_sees_all(r, i) ? all : windowed;
    hearth_status status = folder_set_sizes(r, name, numbers);
    mem_free(numbers);
    return status;
}

/* Reads how many heads layers with a window have. */
static hearth_status read_window_heads(folder_reader *r)
{
    const json_t *other = json_object_get(r->config, "attention_other_setting");
    const attention_shape *a = &r->layer.attention;
    uint32_t heads = a->head_count, kv_heads = a->kv_head_count, length = a->head_length;
    char where[1024];
    bool found;
    snprintf(where, sizeof where, "%s: attention_other_setting", r->name);
    TRY(json_get_uint(r->config, "num_sliding_attention_heads", &heads, &found, r->name, r->error));
    if (json_is_object(other)) {
        TRY(json_get_uint(other, "num_attention_heads", &heads, &found, where, r->error));
        TRY(json_get_uint(other, "num_attention_groups", &kv_heads, &found, where, r->error));
        TRY(json_get_uint(other, "head_dim", &length, &found, where, r->error));
    }
    if (length != a->head_length)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: head_dim: differs from that of the other layers", where);
    if (heads == 0 || kv_heads == 0 || heads > UINT16_MAX || kv_heads > UINT16_MAX)
        return fail(r->error, HEARTH_FORMAT, "%s: a number of heads is 0 or too large", where);
    TRY(folder_set_by_window(r, "attention.head_count", a->head_count, heads));
    return folder_set_by_window(r, "attention.head_count_kv", a->kv_head_count, kv_heads);
}

/* Sets a limit for each layer. */
static hearth_status set_limits(folder_reader *r, const char *key, const float *limits)
{
    char full[KEY_SIZE];
    hyper_key(full, r->family, key);
    return checkpoint_set_numbers(r->out, full, VALUE_F32, limits, r->hyper.layer_count, r->error);
}

hearth_status folder_read_one_limit(folder_reader *r)
{
    static const char name[] = "swiglu_limit";
    const json_t *value = json_object_get(r->config, name);
    uint32_t layers = r->hyper.layer_count;
    double limit = value ? json_number_value(value) : 10; /* transformers' default */
    if (!r->family->limits_first || json_is_null(value))
        return HEARTH_OK;
    if ((value && !json_is_number(value)) || limit < 0 || !isfinite((float)limit))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is no limit of 0 or more", r->name, name);
    float *limits = mem_new_array(layers, sizeof *limits);
    if (!limits)
        return fail_memory(r->error, name, layers * sizeof *limits);
    for (uint32_t i = 0; i < layers; i++)
        limits[i] = (float)limit;
    hearth_status status = set_limits(r, EXPERT_LIMITS_KEY, limits);
    if (status == HEARTH_OK && !r->family->limits_experts)
        status = set_limits(r, SHARED_LIMITS_KEY, limits);
    mem_free(limits);
    return status;
}

hearth_status folder_read_limits(folder_reader *r, const char *name, const char *key)
{
    const json_t *list = json_object_get(r->config, name);
    uint32_t layers = r->hyper.layer_count;
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one number per layer", r->name, name);
    float *limits = mem_new_array(layers, sizeof *limits);
    if (!limits)
        return fail_memory(r->error, name, layers * sizeof *limits);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        const json_t *item = json_array_get(list, i);
        double limit = json_number_value(item);
        if (!(json_is_null(item) || json_is_number(item)) || limit < 0 || !isfinite((float)limit))
            status = fail(r->error, HEARTH_FORMAT, "%s: %s: layer %u has no limit of 0 or more", r->name, name, i);
        limits[i] = (float)limit;
    }
    if (status == HEARTH_OK)
        status = set_limits(r, key, limits);
    mem_free(limits);
    return status;
}

hearth_status folder_read_step(folder_reader *r)
{
    if (!r->family->own_settings)
        return HEARTH_OK;
    TRY(read_window_heads(r));
    TRY(folder_read_limits(r, "swiglu_limits", EXPERT_LIMITS_KEY));
    return folder_read_limits(r, "swiglu_limits_shared", SHARED_LIMITS_KEY);
}

hearth_status folder_read_layers_with_experts(const folder_reader *r, uint32_t *dense, bool *found)
{
    static const char name[] = "moe_layers_enum";
    const json_t *value = json_object_get(r->config, name);
    const char *text = json_string_value(value);
    uint32_t layers = r->hyper.layer_count;
    uint64_t next = layers;
    size_t count = json_array_size(value);
    *found = text || json_is_array(value);
    *dense = *found ? layers : *dense; /* an empty list: no layer has */
    for (size_t i = 0; text ? *text : i < count; i++) {
        char *end = NULL;
        json_int_t layer = text ? strtoll(text, &end, 10) : json_integer_value(json_array_get(value, i));
        bool begins = i == 0 && layer >= 0 && layer <= layers;
        if ((text && (end == text || (*end && *end != ','))) || !(begins || (i > 0 && layer == (json_int_t)next)))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not a list of the last layers", r->name, name);
        if (i == 0)
            *dense = (uint32_t)layer;
        next = (uint64_t)layer + 1;
        text = text ? end + (*end == ',') : NULL;
    }
    return next >= layers
               ? HEARTH_OK
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not a list of the last layers", r->name, name);
}
