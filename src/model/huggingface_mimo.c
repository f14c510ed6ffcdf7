/* huggingface_mimo.c - MiMo V2: its published config in the words of others, and what its layers have besides. */
#include "folder_reader.h"

#include "../base/memory.h"

/* The config being translated, and where to write why it cannot be. */
typedef struct translation {
    json_t *config; /* a copy */
    const char *name;
    hearth_error *error;
} translation;

/* Sets a key; takes `value`, which is NULL where there was no memory for it. */
static hearth_status set(const translation *t, const char *key, json_t *value)
{
    return json_object_set_new(t->config, key, value) == 0 ? HEARTH_OK : fail_memory(t->error, key, sizeof value);
}

/* Returns the value of a key; NULL: it is null, or missing. */
static json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* Sets `to` to an array of names, one for each number of the list `from`: names[0] for 0, names[1] for 1. Nothing where there is no
 * such list, or `to` is there. */
static hearth_status name_numbers(const translation *t, const char *from, const char *to, const char *const names[2])
{
    const json_t *list = get(t->config, from);
    if (!json_is_array(list) || get(t->config, to))
        return HEARTH_OK;
    TRY(set(t, to, json_array()));
    json_t *named = json_object_get(t->config, to);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t number = json_integer_value(item);
        if (!json_is_integer(item) || number < 0 || number > 1)
            return fail(t->error, HEARTH_FORMAT, "%s: %s: is not an array of 0 and 1", t->name, from);
        if (json_array_append_new(named, json_string(names[number])) != 0)
            return fail_memory(t->error, to, 1);
    }
    return HEARTH_OK;
}

/* Says of layers with a window and of others how they rotate: as rope_parameters has it, else the keys of the whole model, else
 * transformers' defaults. */
static hearth_status name_rotations(const translation *t)
{
    static const char rope[] = "rope_parameters", share[] = "partial_rotary_factor", base[] = "rope_theta";
    static const struct {
        const char *layers, *base;
        double known;
    } kinds[] = {{"full_attention", base, 5e6}, {"sliding_attention", "swa_rope_theta", 1e4}};
    if (!json_is_object(get(t->config, rope)))
        TRY(set(t, rope, json_object()));
    json_t *all = json_object_get(t->config, rope);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_is_object(get(all, kinds[i].layers)) && json_object_set_new(all, kinds[i].layers, json_object()) != 0)
            return fail_memory(t->error, rope, 1);
        json_t *own = json_object_get(all, kinds[i].layers);
        const struct {
            const char *key, *whole;
            double known;
        } values[] = {{base, kinds[i].base, kinds[i].known}, {share, share, 0.334}};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            json_t *value = get(t->config, values[k].whole);
            if (!get(own, values[k].key) &&
                json_object_set_new(own, values[k].key, value ? json_incref(value) : json_real(values[k].known)) != 0)
                return fail_memory(t->error, rope, 1);
        }
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        json_object_del(t->config, kinds[i].base);
    json_object_del(t->config, share);
    return HEARTH_OK;
}

/* The size is that of the positions before a token's own, as in SGLang and transformers; others count its own, too. */
static hearth_status count_own_position(const translation *t)
{
    static const char key[] = "sliding_window_size";
    const json_t *size = get(t->config, key);
    json_int_t positions = json_integer_value(size);
    if (!size)
        return HEARTH_OK;
    if (!json_is_integer(size) || positions < 1 || positions >= UINT32_MAX)
        return fail(t->error, HEARTH_FORMAT, "%s: %s: is not a number of positions", t->name, key);
    json_object_del(t->config, key);
    return set(t, "sliding_window", json_integer(positions + 1));
}

static hearth_status translate(const translation *t)
{
    static const char *const windows[] = {"full_attention", "sliding_attention"}, *const experts[] = {"dense",
                                                                                                      "sparse"};
    TRY(name_numbers(t, "hybrid_layer_pattern", "layer_types", windows));
    TRY(name_numbers(t, "moe_layer_freq", "mlp_layer_types", experts));
    json_object_del(t->config, "moe_layer_freq");
    if (!get(t->config, "layer_types"))
        return fail(t->error, HEARTH_FORMAT, "%s: hybrid_layer_pattern: is missing, and layer_types too", t->name);
    TRY(name_rotations(t));
    return count_own_position(t);
}

hearth_status folder_translate_mimo(const json_t *config, const char *name, json_t **out, hearth_error *error)
{
    translation t = {json_deep_copy(config), name, error};
    hearth_status status = t.config ? translate(&t) : fail_memory(error, name, 1);
    if (status != HEARTH_OK)
        json_decref(t.config);
    *out = status == HEARTH_OK ? t.config : NULL;
    return status;
}

/* Refuses layers with a window whose heads differ from those of others. */
static hearth_status check_window_heads(const folder_reader *r)
{
    const attention_shape *a = &r->layer.attention;
    const struct {
        const char *key;
        uint32_t expected;
    } same[] = {{"swa_head_dim", a->head_length},
                {"swa_v_head_dim", a->value_length},
                {"swa_num_attention_heads", a->head_count}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        uint32_t own = same[i].expected;
        bool found;
        TRY(json_get_uint(r->config, same[i].key, &own, &found, r->name, r->error));
        if (own != same[i].expected)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: differs from that of the other layers", r->name,
                        same[i].key);
    }
    return HEARTH_OK;
}

hearth_status folder_read_mimo(folder_reader *r)
{
    static const char values_key[] = "v_head_dim", heads_key[] = "swa_num_key_value_heads",
                      scale_key[] = "attention_value_scale";
    attention_shape *a = &r->layer.attention;
    uint32_t kv_heads = 2 * a->kv_head_count;
    double scale =
        json_object_get(r->config, scale_key) ? 1 : 0.707; /* null, and where it is missing, as in transformers */
    bool found;
    if (!r->family->short_values)
        return HEARTH_OK;
    a->value_length = 128; /* transformers' default, as that of the heads */
    TRY(json_get_uint(r->config, values_key, &a->value_length, &found, r->name, r->error));
    if (a->value_length == 0 || a->value_length > a->head_length)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, expected 1 to head_dim", r->name, values_key,
                    a->value_length);
    TRY(check_window_heads(r));
    TRY(folder_set_size(r, "attention.value_length", a->value_length));
    TRY(folder_get_positive(r, r->config, r->name, scale_key, &scale, &found));
    TRY(scale != 1 ? folder_set_number(r, "attention.value_scale", scale) : HEARTH_OK);
    if (folder_all_see_all(r))
        return HEARTH_OK;
    TRY(json_get_uint(r->config, heads_key, &kv_heads, &found, r->name, r->error));
    if (kv_heads == 0 || a->head_count % kv_heads != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, which does not divide %u heads", r->name, heads_key,
                    kv_heads, a->head_count);
    return folder_set_by_window(r, "attention.head_count_kv", a->kv_head_count, kv_heads);
}
