/* huggingface.c - translates a folder's config.json and tensor names into the GGUF that a converter would make of
 * them.
 *
 * All other modules see only one kind of model, and converting a folder means writing what was read. config.json is
 * untrusted like any file. Settings that would change the result and that hearth does not support are refused by
 * name. */
#include "huggingface.h"

#include "hyper.h"
#include "rope.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct folder_reader {
    checkpoint *out;
    const checkpoint *folder;
    const json_t *config;
    const char *name; /* what errors about the config begin with */
    hearth_error *error;
    const family *family;
    hyperparameters hyper; /* the sizes                             */
    model_layer layer;     /* of every layer                        */
    double rope_base;
} folder_reader;

/* ------------------------------------------------------------------ family */

/* Finds a family by model_type, or by architecture where model_type is NULL. */
static const family *by_model_type(const char *model_type, const char *architecture)
{
    for (size_t i = 0; i < family_count; i++)
        if (model_type ? strcmp(families[i].model_type, model_type) == 0
                       : strcmp(families[i].architecture, architecture) == 0)
            return &families[i];
    return NULL;
}

/* Finds the family by model_type. architectures must agree with it: a classifier has the model_type of its base
 * model. */
static hearth_status find_family(folder_reader *r)
{
    const char *model_type = NULL, *architecture = NULL;
    bool found;
    TRY(json_get_string(r->config, "model_type", &model_type, &found, r->name, r->error));
    const json_t *architectures = json_object_get(r->config, "architectures");
    if (architectures && !json_is_null(architectures)) {
        architecture = json_string_value(json_array_get(architectures, 0));
        if (!architecture)
            return fail(r->error, HEARTH_FORMAT, "%s: architectures: is not an array of strings", r->name);
    }
    if (!model_type && !architecture)
        return fail(r->error, HEARTH_FORMAT, "%s: model_type: is missing", r->name);
    char known[256];
    family_list(known, sizeof known, true);
    r->family = by_model_type(model_type, architecture);
    if (!r->family)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %.64s is not supported (known: %s)", r->name,
                    model_type ? "model_type" : "architectures", model_type ? model_type : architecture, known);
    if (architecture && strcmp(architecture, r->family->architecture) != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: architectures: %.64s is not supported (known for %s: %s)",
                    r->name, architecture, r->family->model_type, r->family->architecture);
    return checkpoint_set_string(r->out, "general.architecture", span_of(r->family->name), r->error);
}

/* ---------------------------------------------------------------- settings */

static hearth_status set_size(folder_reader *r, const char *name, uint32_t value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_u32(r->out, key, value, r->error);
}

static hearth_status set_number(folder_reader *r, const char *name, double value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_f32(r->out, key, (float)value, r->error);
}

static hearth_status set_string(folder_reader *r, const char *name, const char *value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_string(r->out, key, span_of(value), r->error);
}

/* Reads a number above 0 that fits into float32; *out is unchanged where the key is absent. found NULL: the key is
 * required. */
static hearth_status get_positive(const folder_reader *r, const json_t *object, const char *where, const char *key,
                                  double *out, bool *found)
{
    double value = 1;
    TRY(json_get_number(object, key, &value, found, where, r->error));
    if (!isfinite((float)value) || !((float)value > 0))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is %g, expected a positive number", where, key, value);
    if (!found || *found)
        *out = value;
    return HEARTH_OK;
}

/* Returns the name that this config has for a size: the rarest of several; the commonest where it has none. */
static const char *config_key(const folder_reader *r, const size_setting *s)
{
    const char *key = s->config_keys[0];
    for (size_t i = 0; i < CONFIG_NAMES && s->config_keys[i]; i++) {
        const json_t *value = json_object_get(r->config, s->config_keys[i]);
        if (value && !json_is_null(value))
            key = s->config_keys[i];
    }
    return key;
}

/* Sets a size that the config may leave out where the family has a default. */
static hearth_status default_size(folder_reader *r, const size_setting *s, uint32_t *field, bool *found)
{
    const family *f = r->family;
    if (field == &r->layer.ffn.neuron_count)
        *field = f->ffn_widths * r->hyper.embedding_length;
    if (field == &r->hyper.context_length)
        *field = f->default_context;
    *found = *field > 0;
    return *found || !s->in_folder ? HEARTH_OK
                                   : fail(r->error, HEARTH_FORMAT, "%s: %s: is missing", r->name, s->config_keys[0]);
}

/* Reads a size and sets its GGUF key. */
static hearth_status read_size(folder_reader *r, const size_setting *s)
{
    uint32_t *field = size_field(s, &r->hyper, &r->layer);
    const char *key = config_key(r, s);
    bool found = true;
    TRY(json_get_uint(r->config, key, field, &found, r->name, r->error));
    if (!found)
        TRY(default_size(r, s, field, &found));
    if (!found)
        return HEARTH_OK;
    TRY(hyper_check_size(s, *field, r->name, "", key, r->error));
    return set_size(r, s->key, *field);
}

/* Falcon's configs say in other words how many heads of keys there are: one where multi_query is true, unless the
 * architecture is the newer one. */
static hearth_status read_multi_query(folder_reader *r)
{
    bool found, multi_query = false, newer = false;
    TRY(json_get_bool(r->config, "multi_query", &multi_query, &found, r->name, r->error));
    if (!found)
        return HEARTH_OK;
    TRY(json_get_bool(r->config, "new_decoder_architecture", &newer, &found, r->name, r->error));
    if (newer)
        return HEARTH_OK;
    r->layer.attention.kv_head_count = multi_query ? 1 : r->layer.attention.head_count;
    return set_size(r, "attention.head_count_kv", r->layer.attention.kv_head_count);
}

/* Reads which share of a head is rotated. */
static hearth_status read_rotated_share(folder_reader *r)
{
    double share = 1, length = r->layer.attention.head_length;
    bool found;
    if (r->family->unrotated)
        return HEARTH_OK;
    TRY(json_get_number(r->config, "partial_rotary_factor", &share, &found, r->name, r->error));
    if (!(share > 0 && share <= 1))
        return fail(r->error, HEARTH_FORMAT, "%s: partial_rotary_factor: is %g, expected a share of 1", r->name, share);
    r->hyper.rope_pairs = (uint32_t)(share * length) / 2;
    return set_size(r, "rope.dimension_count", (uint32_t)(share * length));
}

/* Reads all sizes, sets their GGUF keys, and derives those that the config may leave out. */
static hearth_status read_sizes(folder_reader *r)
{
    attention_shape *a = &r->layer.attention;
    for (size_t i = 0; i < size_setting_count; i++)
        TRY(read_size(r, &size_settings[i]));
    assert(a->head_count > 0); /* guaranteed by its row of size_settings */
    if (a->head_length > 0)
        TRY(set_size(r, "attention.value_length", a->head_length));
    else
        a->head_length = r->hyper.embedding_length / a->head_count;
    TRY(read_multi_query(r));
    if (a->kv_head_count == 0)
        a->kv_head_count = a->head_count;
    return read_rotated_share(r);
}

/* Checks a list of layers in the config against what the family has: `expected` where the layer is not one of the
 * pattern's. */
static hearth_status check_layer_list(const folder_reader *r, const char *key, layer_pattern pattern)
{
    const json_t *list = json_object_get(r->config, key);
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (!json_is_array(list) || json_array_size(list) != r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, key);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++)
        if ((json_integer_value(json_array_get(list, i)) == 0) != in_pattern(pattern, i))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %u differs from the pattern of a %s", r->name, key,
                        i, r->family->model_type);
    return HEARTH_OK;
}

/* Reads which layers have the window; a key is set only where the family's pattern does not say it. */
static hearth_status read_window_layers(folder_reader *r)
{
    const json_t *list = json_object_get(r->config, "layer_types");
    uint32_t layers = r->hyper.layer_count;
    bool as_pattern = true;
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (!json_is_array(list) || json_array_size(list) != layers)
        return fail(r->error, HEARTH_FORMAT, "%s: layer_types: is not an array of one name per layer", r->name);
    uint8_t *windowed = mem_new(layers);
    if (!windowed)
        return fail_memory(r->error, "layer_types", layers);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        windowed[i] = type && strcmp(type, "sliding_attention") == 0;
        if (!type || (!windowed[i] && strcmp(type, "full_attention") != 0))
            status = fail(r->error, HEARTH_UNSUPPORTED, "%s: layer_types: %.64s is not supported", r->name,
                          type ? type : "(no text)");
        as_pattern &= windowed[i] == !in_pattern(r->family->without_window, i);
    }
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.sliding_window_pattern");
    if (status == HEARTH_OK && !as_pattern)
        status = checkpoint_set_numbers(r->out, key, VALUE_BOOL, windowed, layers, r->error);
    mem_free(windowed);
    return status;
}

/* Reads the sliding window. null means no window, as in transformers; the default applies only where the key is
 * missing. */
static hearth_status read_window(folder_reader *r)
{
    uint32_t window = json_object_get(r->config, "sliding_window") ? 0 : r->family->default_window;
    bool found;
    if (!r->family->folder_window)
        return HEARTH_OK;
    TRY(json_get_uint(r->config, "sliding_window", &window, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "sliding_window_size", &window, &found, r->name, r->error));
    TRY(check_layer_list(r, "sliding_window_layout", r->family->without_window));
    if (window == 0)
        return HEARTH_OK;
    TRY(set_size(r, "attention.sliding_window", window));
    return read_window_layers(r);
}

/* Reads what divides or multiplies scores and logits, under the names of several families. */
static hearth_status read_scales(folder_reader *r)
{
    static const struct {
        const char *config_key, *key;
    } caps[] = {{"attn_logit_softcapping", "attn_logit_softcapping"},
                {"final_logit_softcapping", "final_logit_softcapping"}};
    double value, layers = r->hyper.layer_count;
    bool found;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        TRY(get_positive(r, r->config, r->name, caps[i].config_key, &value, &found));
        if (found)
            TRY(set_number(r, caps[i].key, value));
    }
    TRY(get_positive(r, r->config, r->name, "query_pre_attn_scalar", &value, &found));
    if (found)
        TRY(set_number(r, "attention.scale", 1 / sqrt(value)));
    if (!r->family->scaled)
        return HEARTH_OK;
    TRY(get_positive(r, r->config, r->name, "scale_emb", &value, NULL));
    TRY(set_number(r, "embedding_scale", value));
    TRY(get_positive(r, r->config, r->name, "scale_depth", &value, NULL));
    TRY(set_number(r, "residual_scale", value / sqrt(layers)));
    TRY(get_positive(r, r->config, r->name, "dim_model_base", &value, NULL));
    return set_number(r, "logit_scale", r->hyper.embedding_length / value);
}

/* Finds a size under one of several names; *out is unchanged where the config has none of them. */
static hearth_status find_size(const folder_reader *r, const char *const *names, size_t count, uint32_t *out)
{
    bool found;
    for (size_t i = 0; i < count; i++)
        TRY(json_get_uint(r->config, names[i], out, &found, r->name, r->error));
    return HEARTH_OK;
}

/* Reads the experts and how they are chosen, under the names of several families. */
static hearth_status read_experts(folder_reader *r)
{
    static const char *const counts[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                         "moe_num_primary_experts"};
    static const char *const useds[] = {"num_experts_per_tok", "moe_num_active_primary_experts"};
    static const struct {
        const char *config_key, *key;
    } sizes[] = {{"n_group", "expert_group_count"},
                 {"topk_group", "expert_group_used_count"},
                 {"n_shared_experts", "expert_shared_count"},
                 {"first_k_dense_replace", "leading_dense_block_count"}};
    uint32_t count = 0, used = 0, width = 0, size = 0, period = 1;
    bool found, shares = true, softmax = r->family->scoring == ROUTER_SOFTMAX;
    double scale = 1;
    TRY(find_size(r, counts, sizeof counts / sizeof *counts, &count));
    if (count == 0)
        return HEARTH_OK;
    TRY(find_size(r, useds, sizeof useds / sizeof *useds, &used));
    r->layer.ffn.router.expert_count = count;
    TRY(set_size(r, "expert_count", count));
    TRY(set_size(r, "expert_used_count", used));
    if (r->family->expert_width) {
        TRY(json_get_uint(r->config, r->family->expert_width, &width, NULL, r->name, r->error));
        TRY(set_size(r, "expert_feed_forward_length", width));
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(json_get_uint(r->config, sizes[i].config_key, &size, &found, r->name, r->error));
        if (found)
            TRY(set_size(r, sizes[i].key, size));
    }
    TRY(json_get_uint(r->config, "decoder_sparse_step", &period, &found, r->name, r->error));
    if (period != 1 || json_array_size(json_object_get(r->config, "mlp_only_layers")) > 0)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: decoder_sparse_step, mlp_only_layers: layers without experts among "
                    "others are not supported",
                    r->name);
    TRY(get_positive(r, r->config, r->name, "routed_scaling_factor", &scale, &found));
    if (found)
        TRY(set_number(r, "expert_weights_scale", scale));
    TRY(json_get_bool(r->config, "moe_primary_router_apply_softmax", &softmax, &found, r->name, r->error));
    TRY(set_size(r, "expert_gating_func", softmax ? 1 : 2));
    TRY(json_get_bool(r->config, "norm_topk_prob", &shares, &found, r->name, r->error));
    char key[KEY_SIZE];
    hyper_key(key, r->family, "expert_weights_norm");
    return shares ? HEARTH_OK : checkpoint_set_bool(r->out, key, false, r->error);
}

/* Reads the epsilon of the norms. */
static hearth_status read_epsilon(folder_reader *r)
{
    const family *f = r->family;
    double epsilon = (double)f->default_epsilon;
    bool found;
    TRY(get_positive(r, r->config, r->name, f->epsilon ? f->epsilon : "rms_norm_eps", &epsilon,
                     f->default_epsilon > 0 ? &found : NULL));
    return set_number(r, f->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                      epsilon);
}

/* Reads the limit of an activation that the family has in any case. */
static hearth_status read_limit(folder_reader *r)
{
    double limit = (double)r->family->default_threshold;
    bool found;
    TRY(get_positive(r, r->config, r->name, "swiglu_limit", &limit, &found));
    return limit == (double)r->family->default_threshold ? HEARTH_OK : set_number(r, "hidden_activation_param", limit);
}

/* Reads the activation; a key is set only where it differs from the family's default. */
static hearth_status read_activation(folder_reader *r)
{
    const char *activation = ffn_activations[r->family->activation].name;
    bool found;
    /* GGUF's name of the family may be that of another one too, which has its own activation. */
    ffn_activation usual = family_by_name(span_of(r->family->name))->activation;
    if (r->family->fixed_activation && r->family->activation != usual)
        return set_string(r, "hidden_activation", ffn_activations[r->family->activation].name);
    if (r->family->fixed_activation)
        return read_limit(r);
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function", "activation"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        TRY(json_get_string(r->config, keys[i], &activation, &found, r->name, r->error));
    ffn_activation row = ffn_activation_by_name(activation, strlen(activation));
    char known[128];
    ffn_activation_list(known, sizeof known);
    if (row == FFN_ACTIVATION_COUNT)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: hidden_act: %.64s is not supported (known: %s)", r->name,
                    activation, known);
    if (row != usual)
        TRY(set_string(r, "hidden_activation", ffn_activations[row].name));
    if (!ffn_activations[row].has_threshold)
        return HEARTH_OK;
    double threshold = 0;
    TRY(json_get_number(r->config, "hidden_act_param", &threshold, NULL, r->name, r->error));
    return set_number(r, "hidden_activation_param", threshold);
}

/* Refuses settings that are not supported and that would change the result if they were ignored. */
static hearth_status refuse_unknown(const folder_reader *r)
{
    for (size_t i = 0; i < MOST_REQUIRED && r->family->required[i].key; i++) {
        const required_setting *s = &r->family->required[i];
        bool found, value = s->missing;
        TRY(json_get_bool(r->config, s->key, &value, &found, r->name, r->error));
        if (value != s->expected)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %s is not supported", r->name, s->key,
                        value ? "true" : "false");
    }
    const json_t *quantization = json_object_get(r->config, "quantization_config");
    if (quantization && !json_is_null(quantization))
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: quantization_config: quantised folders are not read: use the original or a GGUF", r->name);
    return HEARTH_OK;
}

/* -------------------------------------------------------------------- rope */

/* No scaling: nothing to add. */
static hearth_status add_default(folder_reader *r, const json_t *scaling, const char *where)
{
    (void)r, (void)scaling, (void)where;
    return HEARTH_OK;
}

static hearth_status add_linear(folder_reader *r, const json_t *scaling, const char *where)
{
    double factor = 1;
    TRY(get_positive(r, scaling, where, "factor", &factor, NULL));
    TRY(set_string(r, "rope.scaling.type", "linear"));
    return set_number(r, "rope.scaling.factor", factor);
}

/* Sets yarn's factor on cosine and sine where the config changes it, as transformers computes it. */
static hearth_status add_yarn_magnitude(folder_reader *r, const json_t *scaling, const char *where, double factor)
{
    double attention = 0, mscale = 0, mscale_all = 0;
    bool found, has_scale, has_all;
    TRY(get_positive(r, scaling, where, "attention_factor", &attention, &found));
    TRY(get_positive(r, scaling, where, "mscale", &mscale, &has_scale));
    TRY(get_positive(r, scaling, where, "mscale_all_dim", &mscale_all, &has_all));
    if (!found && has_scale && has_all)
        attention = rope_yarn_magnitude(factor, mscale) / rope_yarn_magnitude(factor, mscale_all);
    return attention > 0 ? set_number(r, "rope.scaling.yarn_attn_factor", attention) : HEARTH_OK;
}

/* Sets the keys of yarn. beta_fast and beta_slow get no key where the config leaves them out: GGUF's defaults
 * apply. */
static hearth_status add_yarn(folder_reader *r, const json_t *scaling, const char *where)
{
    double factor = 1, beta_fast = 0, beta_slow = 0;
    uint32_t original = r->hyper.context_length;
    bool found, truncate = true;
    TRY(get_positive(r, scaling, where, "factor", &factor, NULL));
    TRY(json_get_uint(scaling, "original_max_position_embeddings", &original, &found, where, r->error));
    TRY(json_get_bool(scaling, "truncate", &truncate, &found, where, r->error));
    TRY(set_string(r, "rope.scaling.type", "yarn"));
    if (!truncate) {
        char key[KEY_SIZE];
        hyper_key(key, r->family, ROPE_FRACTIONAL_KEY);
        TRY(checkpoint_set_bool(r->out, key, true, r->error));
    }
    TRY(set_number(r, "rope.scaling.factor", factor));
    TRY(set_size(r, "rope.scaling.original_context_length", original));
    TRY(get_positive(r, scaling, where, "beta_fast", &beta_fast, &found));
    if (found)
        TRY(set_number(r, "rope.scaling.yarn_beta_fast", beta_fast));
    TRY(get_positive(r, scaling, where, "beta_slow", &beta_slow, &found));
    if (found)
        TRY(set_number(r, "rope.scaling.yarn_beta_slow", beta_slow));
    return add_yarn_magnitude(r, scaling, where, factor);
}

/* Adds rope_freqs.weight: GGUF has no keys for llama3's scaling, its converter stores the factors as a tensor. */
static hearth_status add_llama3(folder_reader *r, const json_t *scaling, const char *where)
{
    rope_llama3 s = {0};
    TRY(get_positive(r, scaling, where, "factor", &s.factor, NULL));
    TRY(get_positive(r, scaling, where, "low_freq_factor", &s.low, NULL));
    TRY(get_positive(r, scaling, where, "high_freq_factor", &s.high, NULL));
    TRY(get_positive(r, scaling, where, "original_max_position_embeddings", &s.original_context, NULL));
    if (!(s.low < s.high))
        return fail(r->error, HEARTH_FORMAT, "%s: low_freq_factor: is not below high_freq_factor", where);
    uint32_t pairs = r->hyper.rope_pairs;
    float *factors = arena_new_array(&r->out->memory, pairs, sizeof *factors);
    if (!factors)
        return fail_memory(r->error, "rope_freqs.weight", pairs * sizeof *factors);
    rope_llama3_factors(&s, r->rope_base, pairs, factors);
    stored_tensor t = {.name = "rope_freqs.weight",
                       .format = FORMAT_F32,
                       .rank = 1,
                       .shape = {pairs, 1, 1, 1},
                       .data = factors,
                       .size_bytes = pairs * sizeof *factors};
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* Adds one tensor of longrope's divisors. */
static hearth_status add_long_factors(folder_reader *r, const json_t *scaling, const char *where, const char *key,
                                      const char *name)
{
    const json_t *list = json_object_get(scaling, key);
    uint32_t pairs = r->hyper.rope_pairs;
    if (!json_is_array(list) || json_array_size(list) != pairs)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of %u numbers", where, key, pairs);
    float *factors = arena_new_array(&r->out->memory, pairs, sizeof *factors);
    if (!factors)
        return fail_memory(r->error, name, pairs * sizeof *factors);
    for (uint32_t i = 0; i < pairs; i++)
        factors[i] = (float)json_number_value(json_array_get(list, i));
    stored_tensor t = {.name = name,
                       .format = FORMAT_F32,
                       .rank = 1,
                       .shape = {pairs, 1, 1, 1},
                       .data = factors,
                       .size_bytes = pairs * sizeof *factors};
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* longrope: one divisor per pair, other ones for texts beyond the original context, and a factor on cosine and sine
 * that follows from how much the context was stretched. */
static hearth_status add_longrope(folder_reader *r, const json_t *scaling, const char *where)
{
    uint32_t original = r->hyper.context_length;
    double magnitude = 1;
    bool found;
    TRY(json_get_uint(r->config, "original_max_position_embeddings", &original, &found, r->name, r->error));
    TRY(json_get_uint(scaling, "original_max_position_embeddings", &original, &found, where, r->error));
    if (original < 2 || original > r->hyper.context_length)
        return fail(r->error, HEARTH_FORMAT, "%s: original_max_position_embeddings: is %u, expected 2 to %u", where,
                    original, r->hyper.context_length);
    magnitude = sqrt(1 + log((double)r->hyper.context_length / original) / log(original));
    TRY(get_positive(r, scaling, where, "attention_factor", &magnitude, &found));
    TRY(set_size(r, "rope.scaling.original_context_length", original));
    TRY(set_number(r, "rope.scaling.attn_factor", magnitude));
    TRY(add_long_factors(r, scaling, where, "short_factor", "rope_factors_short.weight"));
    return add_long_factors(r, scaling, where, "long_factor", "rope_factors_long.weight");
}

/* The supported values of rope_type. */
static const struct {
    const char *name;
    hearth_status (*add)(folder_reader *r, const json_t *scaling, const char *where);
} rope_types[] = {
    {"default", add_default}, {"linear", add_linear},     {"yarn", add_yarn},
    {"llama3", add_llama3},   {"longrope", add_longrope}, {"su", add_longrope}, /* the older name */
};
static const size_t rope_type_count = sizeof rope_types / sizeof *rope_types;

/* Finds rope_scaling, or rope_parameters as newer configs call it (it also contains rope_theta). NULL: neither. */
static const json_t *find_scaling(const json_t *config, const char **key)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        *key = keys[i];
        const json_t *value = json_object_get(config, keys[i]);
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}

/* Reads rope_type and adds the keys or the tensor of that scaling. where: what errors begin with. */
static hearth_status read_scaling(folder_reader *r, const json_t *scaling, const char *where)
{
    const char *type = NULL;
    bool found;
    TRY(json_get_string(scaling, "rope_type", &type, &found, where, r->error));
    if (!found)
        TRY(json_get_string(scaling, "type", &type, &found, where, r->error)); /* the older name */
    if (!found && json_object_get(scaling, "factor"))
        return fail(r->error, HEARTH_FORMAT, "%s: rope_type: is missing", where);
    if (!found && json_object_get(scaling, "full_attention"))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: full_attention: rotation by layer is not supported", where);
    char known[128] = "";
    for (size_t i = 0; i < rope_type_count; i++) {
        append_name(known, sizeof known, rope_types[i].name);
        if (strcmp(found ? type : "default", rope_types[i].name) == 0)
            return rope_types[i].add(r, scaling, where);
    }
    return fail(r->error, HEARTH_UNSUPPORTED, "%s: rope_type: %.64s is not supported (known: %s)", where, type, known);
}

/* Reads the base and the scaling. A rope_theta of the config itself is preferred to one in rope_parameters. */
static hearth_status read_rope(folder_reader *r)
{
    const char *key;
    const json_t *scaling = find_scaling(r->config, &key);
    char where[1024];
    snprintf(where, sizeof where, "%s: %s", r->name, key);
    bool found;
    if (r->family->unrotated)
        return HEARTH_OK;
    r->rope_base = 10000;
    if (r->family->window_base > 0) {
        double base = (double)r->family->window_base;
        TRY(get_positive(r, r->config, r->name, "rope_local_base_freq", &base, &found));
        TRY(set_number(r, "rope.freq_base_swa", base));
    }
    TRY(check_layer_list(r, "no_rope_layers", r->family->without_rotary));
    TRY(check_layer_list(r, "rope_layout", r->family->without_rotary));
    if (scaling)
        TRY(get_positive(r, scaling, where, "rope_theta", &r->rope_base, &found));
    TRY(get_positive(r, r->config, r->name, "rope_theta", &r->rope_base, &found));
    TRY(set_number(r, "rope.freq_base", r->rope_base));
    return scaling ? read_scaling(r, scaling, where) : HEARTH_OK;
}

/* ----------------------------------------------------------------- tensors */

/* Replaces a vector by its values plus one. */
static hearth_status add_one(folder_reader *r, stored_tensor *t)
{
    if (t->rank != 1 || number_is_block(t->format))
        return HEARTH_OK; /* binding refuses it */
    size_t count = (size_t)t->shape[0];
    float *values = arena_new_array(&r->out->memory, count, sizeof *values);
    if (!values)
        return fail_memory(r->error, t->name, count * sizeof *values);
    number_formats[t->format].decode(t->data, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] += 1;
    t->data = values;
    t->format = FORMAT_F32;
    t->size_bytes = count * sizeof *values;
    return HEARTH_OK;
}

/* Replaces floats that were not stored as GGUF stores them by a copy: with a row per output where they have a row per
 * input, of each of stacked matrices, and with every second value of a row where two tensors take turns in it. */
static hearth_status rearrange(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    bool transposed = rule->flags & TENSOR_TRANSPOSED;
    size_t step = rule->flags & (TENSOR_EVEN | TENSOR_ODD) ? 2 : 1, first = rule->flags & TENSOR_ODD ? 1 : 0;
    if (t->rank < 2 || t->rank > 3 || number_is_block(t->format) || t->shape[0] % step != 0)
        return HEARTH_OK; /* binding refuses it */
    size_t width = (size_t)t->shape[0], height = (size_t)t->shape[1], count = (size_t)t->shape[2];
    size_t bytes = number_formats[t->format].block_bytes, taken = width / step;
    char *values = arena_new_array(&r->out->memory, count * height * taken, bytes), *to = values;
    if (!values)
        return fail_memory(r->error, t->name, t->size_bytes);
    size_t rows = transposed ? taken : height, columns = transposed ? height : taken;
    for (size_t i = 0; i < count * rows * columns; i++, to += bytes) {
        size_t matrix_at = i / (rows * columns), row = i / columns % rows, column = i % columns;
        size_t y = transposed ? column : row, x = first + (transposed ? row : column) * step;
        memcpy(to, (const char *)t->data + ((matrix_at * height + y) * width + x) * bytes, bytes);
    }
    t->data = values;
    t->shape[0] = columns;
    t->shape[1] = rows;
    t->size_bytes = count * rows * columns * bytes;
    return HEARTH_OK;
}

/* Leaves out the first rows of a table of positions. */
static void drop_rows(stored_tensor *t, uint32_t count)
{
    if (t->rank != 2 || t->shape[1] <= count)
        return; /* binding refuses it */
    size_t row_bytes = t->size_bytes / (size_t)t->shape[1];
    t->data = (const char *)t->data + count * row_bytes;
    t->shape[1] -= count;
    t->size_bytes -= count * row_bytes;
}

/* Marks or changes what a folder stores in another way than GGUF. */
static hearth_status adapt(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const attention_shape *a = &r->layer.attention;
    uint64_t qkv = query_width(a) + 2 * (uint64_t)key_width(a);
    if (rule->rotary != DIMENSION_NONE)
        t->rotary_heads = (uint32_t)hyper_dimension(&r->hyper, &r->layer, rule->rotary);
    if ((rule->flags & TENSOR_FUSED) && a->kv_head_count > 1 && t->rank == 2 && t->shape[1] == qkv) {
        t->fused_groups = a->kv_head_count;
        t->fused_queries = a->head_count / a->kv_head_count;
    }
    if (rule->columns == DIMENSION_EMBEDDING && rule->rows == DIMENSION_POSITIONS)
        drop_rows(t, r->family->dropped_positions);
    if (rule->flags & TENSOR_LESS_ONE)
        TRY(add_one(r, t));
    return rule->flags & (TENSOR_TRANSPOSED | TENSOR_EVEN | TENSOR_ODD) ? rearrange(r, rule, t) : HEARTH_OK;
}

/* Adds the tensor of one expert to the stacked tensor of all. */
static hearth_status add_expert(folder_reader *r, const char *name, const stored_tensor *one, uint32_t expert)
{
    uint32_t count = r->layer.ffn.router.expert_count;
    if (expert >= count)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: is of expert %u, the model has %u", r->out->path,
                    one->name, expert, count);
    const stored_tensor *found = checkpoint_find_tensor(r->out, name);
    if (!found) {
        stored_tensor all = *one;
        all.name = name;
        all.rank = 3;
        all.shape[2] = count;
        all.data = NULL;
        all.parts = arena_new_array(&r->out->memory, count, sizeof *all.parts);
        if (!all.parts || !size_multiply(one->size_bytes, count, &all.size_bytes))
            return fail_memory(r->error, name, count * sizeof *all.parts);
        TRY(checkpoint_add_tensor(r->out, &all, r->error));
        found = checkpoint_find_tensor(r->out, name);
    }
    if (one->rank != 2 || found->shape[0] != one->shape[0] || found->shape[1] != one->shape[1] ||
        found->format != one->format)
        return fail(r->error, HEARTH_FORMAT,
                    "%s: tensor %.128s: differs in shape or format from those of other experts", r->out->path,
                    one->name);
    if (found->parts[expert])
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: appears twice", r->out->path, one->name);
    found->parts[expert] = one->data;
    return HEARTH_OK;
}

/* Checks that every stacked tensor has those of all experts. */
static hearth_status check_experts(const folder_reader *r)
{
    for (size_t i = 0; i < r->out->tensor_count; i++) {
        const stored_tensor *t = &r->out->tensors[i];
        for (uint64_t expert = 0; t->parts && expert < t->shape[2]; expert++)
            if (!t->parts[expert])
                return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: that of expert %llu is missing", r->out->path,
                            t->name, (unsigned long long)expert);
    }
    return HEARTH_OK;
}

/* Adds one tensor as its rule says. */
static hearth_status add_ruled(folder_reader *r, const stored_tensor *stored, const tensor_rule *rule, uint32_t layer,
                               uint32_t expert)
{
    stored_tensor t = *stored;
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, false);
    if (strstr(rule->folder_name, "experts.%u"))
        return add_expert(r, name, &t, expert);
    t.name = name;
    TRY(adapt(r, rule, &t));
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* Adds one tensor under GGUF's name, or several that it has in one. A tensor without a rule keeps its name, so that
 * binding can refuse it by name. */
static hearth_status add_tensor(folder_reader *r, const stored_tensor *stored, bool tied)
{
    uint32_t layer, expert;
    const tensor_rule *rule = family_find_rule(r->family, stored->name, true, &layer, &expert);
    if (rule && (rule->flags & TENSOR_IGNORED))
        return HEARTH_OK;
    if (rule && (rule->flags & TENSOR_HEAD) && tied) /* transformers then uses the embedding even where a head exists */
        return HEARTH_OK;
    if (!rule)
        return checkpoint_add_tensor(r->out, stored, r->error);
    for (; rule; rule = family_next_rule(r->family, rule))
        TRY(add_ruled(r, stored, rule, layer, expert));
    return HEARTH_OK;
}

/* Checks that a folder whose embedding is not tied has a head. A GGUF without a head is tied; so without this check a
 * lost shard would silently make another model. */
static hearth_status require_head(const folder_reader *r)
{
    for (size_t i = 0; i < r->family->tensor_count; i++) {
        const tensor_rule *rule = &r->family->tensors[i];
        if ((rule->flags & TENSOR_HEAD) && !checkpoint_find_tensor(r->out, rule->name))
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is missing, and tie_word_embeddings is not true",
                        r->out->path, rule->folder_name);
    }
    return HEARTH_OK;
}

/* Checks that layer 0 has FFN biases exactly where config.json's mlp_bias says so, as transformers ignores biases
 * without it. Binding checks that all layers are like the first. */
static hearth_status check_biases(const folder_reader *r)
{
    bool announced = false, found;
    TRY(json_get_bool(r->config, "mlp_bias", &announced, &found, r->name, r->error));
    for (size_t i = 0; i < r->family->layer_tensor_count; i++) {
        const tensor_rule *rule = &r->family->layer_tensors[i];
        char name[TENSOR_NAME_SIZE], folder_name[TENSOR_NAME_SIZE];
        tensor_rule_name(name, rule, 0, false);
        tensor_rule_name(folder_name, rule, 0, true);
        bool there = checkpoint_find_tensor(r->out, name) != NULL;
        if ((rule->flags & TENSOR_MLP_BIAS) && there != announced)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: %s", r->out->path, folder_name,
                        announced ? "is missing, and mlp_bias is true" : "is there, and mlp_bias is not true");
    }
    return HEARTH_OK;
}

/* Sets general.file_type to the format that most bytes of the matrices have. */
static hearth_status set_file_type(folder_reader *r)
{
    uint64_t bytes[FORMAT_STORED_COUNT] = {0};
    size_t most = 0;
    for (size_t i = 0; i < r->out->tensor_count; i++)
        if (r->out->tensors[i].rank > 1)
            bytes[r->out->tensors[i].format] += r->out->tensors[i].size_bytes;
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        if (bytes[f] > bytes[most])
            most = f;
    return checkpoint_set_u32(r->out, "general.file_type", number_formats[most].file_type, r->error);
}

hearth_status huggingface_understand(checkpoint *c, const checkpoint *folder, const json_t *config, const char *name,
                                     hearth_error *error)
{
    folder_reader r = {.out = c, .folder = folder, .config = config, .name = name, .error = error};
    TRY(find_family(&r));
    TRY(refuse_unknown(&r));
    TRY(read_sizes(&r));
    TRY(read_window(&r));
    TRY(read_experts(&r));
    TRY(read_epsilon(&r));
    TRY(read_scales(&r));
    TRY(read_activation(&r));
    TRY(read_rope(&r));
    bool tied = r.family->folder_tied, found;
    TRY(json_get_bool(config, "tie_word_embeddings", &tied, &found, name, error));
    for (size_t i = 0; i < folder->tensor_count; i++)
        TRY(add_tensor(&r, &folder->tensors[i], tied));
    TRY(check_experts(&r));
    if (!tied)
        TRY(require_head(&r));
    TRY(check_biases(&r));
    return set_file_type(&r);
}
