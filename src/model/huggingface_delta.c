/* huggingface_delta.c - which layers of a folder's model are recurrent where config.json lists them, and the shape of the
 * gated delta rule that these compute. */
#include "folder_reader.h"

#include <math.h>
#include <string.h>

/* Fills in `recurrent` [layer_count]: by the names of the layers, or else only the last of every `interval` layers is not. */
static hearth_status list_layers(const folder_reader *r, uint32_t interval, uint8_t *recurrent)
{
    const json_t *list = json_object_get(r->config, "layer_types");
    bool named = list && !json_is_null(list);
    if (named && (!json_is_array(list) || json_array_size(list) != r->hyper.layer_count))
        return fail(r->error, HEARTH_FORMAT, "%s: layer_types: is not an array of one name per layer", r->name);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        recurrent[i] =
            named ? type && strcmp(type, "linear_attention") == 0 : !in_pattern((layer_pattern){.period = interval}, i);
        if (named && !recurrent[i] &&
            (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "indexed_attention") != 0)))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: layer_types: %.64s is not supported", r->name,
                        type ? type : "(no text)");
    }
    return HEARTH_OK;
}

/* Reads which layers are recurrent. */
static hearth_status read_layers(folder_reader *r)
{
    uint32_t interval = 4, layers = r->hyper.layer_count; /* transformers' default */
    bool found;
    char key[KEY_SIZE];
    TRY(json_get_uint(r->config, "full_attention_interval", &interval, &found, r->name, r->error));
    if (interval == 0)
        return fail(r->error, HEARTH_FORMAT, "%s: full_attention_interval: is 0", r->name);
    uint8_t *recurrent = mem_new(layers);
    if (!recurrent)
        return fail_memory(r->error, "layer_types", layers);
    hearth_status status = list_layers(r, interval, recurrent);
    hyper_key(key, r->family, "attention.recurrent_layers");
    if (status == HEARTH_OK)
        status = checkpoint_set_numbers(r->out, key, VALUE_BOOL, recurrent, layers, r->error);
    mem_free(recurrent);
    return status == HEARTH_OK ? folder_set_size(r, "full_attention_interval", interval) : status;
}

/* Reads the shape of the gated delta rule. */
static hearth_status read_delta(folder_reader *r)
{
    recurrent_shape *s = &r->layer.recurrent;
    const struct {
        const char *config_key, *key; /* NULL: a part of another one */
        uint32_t *field;
    } sizes[] = {{"linear_num_value_heads", "ssm.time_step_rank", &s->head_count},
                 {"linear_value_head_dim", NULL, &s->value_length},
                 {"linear_num_key_heads", "ssm.group_count", &s->key_count},
                 {"linear_key_head_dim", "ssm.state_size", &s->key_length},
                 {"linear_conv_kernel_dim", "ssm.conv_kernel", &s->window}};
    s->rule = r->family->recurrence;
    s->neighbours = r->family->neighbours_share;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(json_get_uint(r->config, sizes[i].config_key, sizes[i].field, NULL, r->name, r->error));
        if (*sizes[i].field == 0 || *sizes[i].field > UINT16_MAX)
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, expected 1 to %u", r->name, sizes[i].config_key,
                        *sizes[i].field, UINT16_MAX);
        if (sizes[i].key)
            TRY(folder_set_size(r, sizes[i].key, *sizes[i].field));
    }
    if (s->head_count % s->key_count != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: linear_num_key_heads: does not divide linear_num_value_heads",
                    r->name);
    return folder_set_size(r, "ssm.inner_size", recurrent_width(s));
}

/* Sets the floor of decays (recurrent_shape.decay_floor), transformers' default where the config has none. */
static hearth_status set_floor(folder_reader *r, const char *name, const json_t *value)
{
    double floor = value && !json_is_null(value) ? json_number_value(value) : -5;
    if (!(floor < 0) || !isfinite((float)floor))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not a number below 0", r->name, name);
    return folder_set_number(r, "kda.gate_lower_bound", floor);
}

/* Reads what GLM-5.3-Flash has besides: the floor. */
static hearth_status read_safe_gate(folder_reader *r)
{
    static const char of_object[] = "gate_lower_bound",
                      of_config[] = "linear_lower_bound"; /* as transformers saves it */
    const json_t *own = json_object_get(r->config, KDA_CONFIG), *value = json_object_get(own, of_object);
    bool safe = true, found;
    TRY(json_is_object(own) ? json_get_bool(own, "safe_gate", &safe, &found, r->name, r->error) : HEARTH_OK);
    if (!safe)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: safe_gate: is false, which is not supported", r->name);
    bool none = !json_is_object(own) && json_is_null(json_object_get(r->config, of_config));
    if (none)
        return HEARTH_OK;
    return value ? set_floor(r, of_object, value) : set_floor(r, of_config, json_object_get(r->config, of_config));
}

/* Reads what Ling 3 has besides: the floor, and limits of SiLU. */
static hearth_status read_floor(folder_reader *r)
{
    static const char name[] = "kda_lower_bound";
    const char *gates = "head_wise";
    bool found;
    TRY(json_get_string(r->config, "gated_attention_proj_granularity_type", &gates, &found, r->name, r->error));
    if (strcmp(gates, "head_wise") != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: gated_attention_proj_granularity_type: %.64s is not supported",
                    r->name, gates);
    TRY(set_floor(r, name, json_object_get(r->config, name)));
    char safe[KEY_SIZE];
    hyper_key(safe, r->family, "kda.safe_gate");
    TRY(checkpoint_set_bool(r->out, safe, true, r->error));
    TRY(folder_read_limits(r, "expert_swiglu_limit_list", EXPERT_LIMITS_KEY));
    return folder_read_limits(r, "share_expert_swiglu_limit_list", SHARED_LIMITS_KEY);
}

hearth_status folder_read_kda(folder_reader *r)
{
    recurrent_shape *s = &r->layer.recurrent;
    const json_t *own = json_object_get(r->config, KDA_CONFIG);
    bool whole = r->family->whole_maps; /* Ling's published config has the names of the object without one */
    uint32_t heads = r->layer.attention.head_count, length = 128, window = 4;
    const struct {
        const char *of_object, *of_config; /* as transformers saves it */
        uint32_t *field;
    } sizes[] = {{"num_heads", "linear_num_heads", &heads},
                 {"head_dim", "linear_head_dim", &length},
                 {"short_conv_kernel_size", "linear_conv_kernel_dim", &window}};
    if (r->family->recurrence != RECURRENCE_KDA)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool found;
        TRY(json_get_uint(r->config, sizes[i].of_config, sizes[i].field, &found, r->name, r->error));
        if (!found && whole)
            TRY(json_get_uint(r->config, sizes[i].of_object, sizes[i].field, &found, r->name, r->error));
        TRY(json_is_object(own) ? json_get_uint(own, sizes[i].of_object, sizes[i].field, &found, r->name, r->error)
                                : HEARTH_OK);
        if (*sizes[i].field == 0 || *sizes[i].field > UINT16_MAX)
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, expected 1 to %u", r->name, sizes[i].of_object,
                        *sizes[i].field, UINT16_MAX);
    }
    if (heads != r->layer.attention.head_count)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: num_heads: others than num_attention_heads are not supported",
                    r->name);
    *s = (recurrent_shape){.rule = RECURRENCE_KDA,
                           .head_count = heads,
                           .key_count = heads,
                           .value_length = length,
                           .key_length = length,
                           .window = window,
                           .ranks = {[MAP_DECAY] = whole ? 0 : length, [MAP_GATE] = whole ? 0 : length}};
    TRY(folder_set_size(r, "kda.head_dim", length));
    TRY(folder_set_size(r, "ssm.conv_kernel", window));
    if (!r->family->decay_floors)
        return HEARTH_OK;
    return whole ? read_floor(r) : read_safe_gate(r);
}

hearth_status folder_read_listed_mixers(folder_reader *r)
{
    if (r->family->mixers != MIXERS_LISTED)
        return HEARTH_OK;
    TRY(read_layers(r));
    return read_delta(r);
}

/* Rows of each key: `count` of them from `first` on. */
typedef struct key_rows {
    size_t first, count;
} key_rows;

hearth_status folder_divide_keys(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const recurrent_shape *s = &r->layer.recurrent;
    if (!(rule->flags & TENSOR_BY_KEYS))
        return HEARTH_OK;
    size_t keys = s->key_count, n = s->key_length, values = recurrent_width(s) / keys, all = 2 * n + 2 * values;
    if (t->rank != 2 || t->shape[1] != keys * all)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: has not %zu rows", r->out->path, t->name, keys * all);
    const key_rows convolved[] = {{0, n}, {n, n}, {2 * n, values}}, gates[] = {{2 * n + values, values}};
    bool is_gate = rule->rows == DIMENSION_RECURRENT_WIDTH;
    const key_rows *groups = is_gate ? gates : convolved;
    size_t rows = (size_t)hyper_dimension(&r->hyper, &r->layer, rule->rows), row_bytes = t->size_bytes / (keys * all);
    char *to = arena_new_array(&r->out->memory, rows, row_bytes);
    if (!to)
        return fail_memory(r->error, t->name, rows * row_bytes);
    const char *from = t->data;
    t->data = to;
    t->shape[1] = rows;
    t->size_bytes = rows * row_bytes;
    for (size_t i = 0; i < (is_gate ? 1 : 3); i++)
        for (size_t k = 0; k < keys; k++, to += groups[i].count * row_bytes)
            memcpy(to, from + (k * all + groups[i].first) * row_bytes, groups[i].count * row_bytes);
    return HEARTH_OK;
}
