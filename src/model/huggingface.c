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

/* Reads all sizes, sets their GGUF keys, and derives those that the config may leave out. */
static hearth_status read_sizes(folder_reader *r)
{
    for (size_t i = 0; i < size_setting_count; i++) {
        const size_setting *s = &size_settings[i];
        uint32_t *field = (uint32_t *)((char *)&r->hyper + s->field);
        bool found = true;
        TRY(json_get_uint(r->config, s->config_key, field, s->in_folder ? NULL : &found, r->name, r->error));
        if (!found)
            continue;
        TRY(hyper_check_size(s, *field, r->name, "", s->config_key, r->error));
        TRY(set_size(r, s->key, *field));
    }
    assert(r->hyper.head_count > 0); /* guaranteed by its row of size_settings */
    if (r->hyper.head_length > 0)
        TRY(set_size(r, "attention.value_length", r->hyper.head_length));
    else
        r->hyper.head_length = r->hyper.embedding_length / r->hyper.head_count;
    if (r->hyper.kv_head_count == 0)
        r->hyper.kv_head_count = r->hyper.head_count;
    return set_size(r, "rope.dimension_count", r->hyper.head_length);
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
    return window > 0 ? set_size(r, "attention.sliding_window", window) : HEARTH_OK;
}

/* Reads the activation; a key is set only where it differs from the family's default. */
static hearth_status read_activation(folder_reader *r)
{
    const char *activation = ffn_activations[r->family->activation].name;
    bool found;
    TRY(json_get_string(r->config, "hidden_act", &activation, &found, r->name, r->error));
    ffn_activation row = ffn_activation_by_name(activation, strlen(activation));
    char known[128];
    ffn_activation_list(known, sizeof known);
    if (row == FFN_ACTIVATION_COUNT)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: hidden_act: %.64s is not supported (known: %s)", r->name,
                    activation, known);
    if (row != r->family->activation)
        TRY(set_string(r, "hidden_activation", activation));
    if (!ffn_activations[row].has_threshold)
        return HEARTH_OK;
    double threshold = 0;
    TRY(json_get_number(r->config, "hidden_act_param", &threshold, NULL, r->name, r->error));
    return set_number(r, "hidden_activation_param", threshold);
}

/* Refuses settings that are not supported and that would change the result if they were ignored. */
static hearth_status refuse_unknown(const folder_reader *r)
{
    bool found, bias = false;
    TRY(json_get_bool(r->config, "attention_bias", &bias, &found, r->name, r->error));
    if (bias)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: attention_bias: true is not supported", r->name);
    const json_t *quantization = json_object_get(r->config, "quantization_config");
    if (quantization && !json_is_null(quantization))
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: quantization_config: quantised folders are not read: use the original or a GGUF", r->name);
    double rotary = 1;
    TRY(json_get_number(r->config, "partial_rotary_factor", &rotary, &found, r->name, r->error));
    if (rotary != 1)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: partial_rotary_factor: is %g, only 1 is supported", r->name,
                    rotary);
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
    if (!truncate)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: truncate: false is not supported", where);
    TRY(set_string(r, "rope.scaling.type", "yarn"));
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
    uint32_t pairs = r->hyper.head_length / 2;
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

/* The supported values of rope_type. */
static const struct {
    const char *name;
    hearth_status (*add)(folder_reader *r, const json_t *scaling, const char *where);
} rope_types[] = {
    {"default", add_default},
    {"linear", add_linear},
    {"yarn", add_yarn},
    {"llama3", add_llama3},
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
    r->rope_base = 10000;
    if (scaling)
        TRY(get_positive(r, scaling, where, "rope_theta", &r->rope_base, &found));
    TRY(get_positive(r, r->config, r->name, "rope_theta", &r->rope_base, &found));
    TRY(set_number(r, "rope.freq_base", r->rope_base));
    return scaling ? read_scaling(r, scaling, where) : HEARTH_OK;
}

/* ----------------------------------------------------------------- tensors */

/* Adds one tensor under GGUF's name. A tensor without a rule keeps its name, so that binding can refuse it by
 * name. */
static hearth_status add_tensor(folder_reader *r, const stored_tensor *stored, bool tied)
{
    stored_tensor t = *stored;
    uint32_t layer;
    const tensor_rule *rule = family_find_rule(r->family, t.name, true, &layer);
    if (rule && (rule->flags & TENSOR_IGNORED))
        return HEARTH_OK;
    if (rule && (rule->flags & TENSOR_HEAD) && tied) /* transformers then uses the embedding even where a head exists */
        return HEARTH_OK;
    char name[TENSOR_NAME_SIZE];
    if (rule) {
        tensor_rule_name(name, rule, layer, false);
        t.name = name;
        if (rule->rotary != DIMENSION_NONE)
            t.rotary_heads = (uint32_t)hyper_dimension(&r->hyper, rule->rotary);
    }
    return checkpoint_add_tensor(r->out, &t, r->error);
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
    double epsilon = 0;
    TRY(get_positive(&r, config, name, "rms_norm_eps", &epsilon, NULL));
    TRY(set_number(&r, "attention.layer_norm_rms_epsilon", epsilon));
    TRY(read_activation(&r));
    TRY(read_rope(&r));
    bool tied = false, found;
    TRY(json_get_bool(config, "tie_word_embeddings", &tied, &found, name, error));
    for (size_t i = 0; i < folder->tensor_count; i++)
        TRY(add_tensor(&r, &folder->tensors[i], tied));
    if (!tied)
        TRY(require_head(&r));
    TRY(check_biases(&r));
    return set_file_type(&r);
}
