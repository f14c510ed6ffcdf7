/* huggingface_mimo.c - MiMo V2: its published config in the words of others, and what its layers have besides. */
#include "folder_reader.h"

#include "../base/memory.h"

/* Sets `to` to an array of names, one for each number of the list `from`: names[0] for 0, names[1] for others. Nothing where there is
 * no such list, or `to` is there. */
static bool name_numbers(json_t *config, const char *from, const char *to, const char *const names[2])
{
    const json_t *list = json_object_get(config, from);
    if (!json_is_array(list) || json_object_get(config, to))
        return true;
    json_t *named = json_array();
    for (size_t i = 0; named && i < json_array_size(list); i++)
        if (json_array_append_new(named, json_string(names[json_integer_value(json_array_get(list, i)) != 0])) != 0)
            return json_decref(named), false;
    return json_object_set_new(config, to, named) == 0;
}

/* Sets the rotation of layers with a window and of others, where both bases are there. */
static bool name_rotations(json_t *config)
{
    json_t *full = json_object_get(config, "rope_theta"), *windowed = json_object_get(config, "swa_rope_theta");
    json_t *share = json_object_get(config, "partial_rotary_factor");
    if (!full || !windowed || json_object_get(config, "rope_parameters"))
        return true;
    json_t *both =
        json_pack("{s:{s:O,s:O*},s:{s:O,s:O*}}", "full_attention", "rope_theta", full, "partial_rotary_factor", share,
                  "sliding_attention", "rope_theta", windowed, "partial_rotary_factor", share);
    return json_object_set_new(config, "rope_parameters", both) == 0;
}

/* The size is that of the positions before a token's own, as in SGLang and transformers; others count its own, too. */
static bool count_own_position(json_t *config)
{
    const json_t *size = json_object_get(config, "sliding_window_size");
    if (!json_is_integer(size))
        return true;
    json_int_t window = json_integer_value(size) + 1;
    return json_object_del(config, "sliding_window_size") == 0 &&
           json_object_set_new(config, "sliding_window", json_integer(window)) == 0;
}

hearth_status folder_translate_mimo(const json_t *config, json_t **out, hearth_error *error)
{
    static const char *const windows[] = {"full_attention", "sliding_attention"}, *const experts[] = {"dense",
                                                                                                      "sparse"};
    *out = json_deep_copy(config);
    bool translated = *out && name_numbers(*out, "hybrid_layer_pattern", "layer_types", windows) &&
                      name_numbers(*out, "moe_layer_freq", "mlp_layer_types", experts) && name_rotations(*out) &&
                      count_own_position(*out);
    if (!translated) {
        json_decref(*out);
        *out = NULL;
        return fail_memory(error, "config.json", 1);
    }
    json_object_del(*out, "moe_layer_freq");
    return HEARTH_OK;
}

hearth_status folder_read_mimo(folder_reader *r)
{
    const attention_shape *a = &r->layer.attention;
    uint32_t values = 128, kv_heads = 2 * a->kv_head_count; /* transformers' defaults */
    double scale = 1;
    bool found;
    if (!r->family->short_values)
        return HEARTH_OK;
    TRY(json_get_uint(r->config, "v_head_dim", &values, &found, r->name, r->error));
    const struct {
        const char *key;
        uint32_t expected;
    } same[] = {
        {"swa_head_dim", a->head_length}, {"swa_v_head_dim", values}, {"swa_num_attention_heads", a->head_count}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        uint32_t own = same[i].expected;
        TRY(json_get_uint(r->config, same[i].key, &own, &found, r->name, r->error));
        if (own != same[i].expected)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: differs from that of the other layers", r->name,
                        same[i].key);
    }
    TRY(json_get_uint(r->config, "swa_num_key_value_heads", &kv_heads, &found, r->name, r->error));
    TRY(folder_get_positive(r, r->config, r->name, "attention_value_scale", &scale, &found));
    if (values == 0 || values > a->head_length || kv_heads == 0 || a->head_count % kv_heads != 0)
        return fail(r->error, HEARTH_FORMAT,
                    "%s: v_head_dim: is 0 or more than head_dim, or swa_num_key_value_heads does not divide the heads",
                    r->name);
    r->layer.attention.value_length = values;
    TRY(folder_set_size(r, "attention.value_length", values));
    TRY(scale != 1 ? folder_set_number(r, "attention.value_scale", scale) : HEARTH_OK);
    return folder_set_by_window(r, "attention.head_count_kv", a->kv_head_count, kv_heads);
}
