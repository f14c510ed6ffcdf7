/* huggingface_rope.c - the rotation of queries and keys as config.json describes it, as keys and tensors of GGUF. */
#include "folder_reader.h"
#include "rope.h"

#include "../base/memory.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* No scaling: nothing to add. */
static hearth_status add_default(folder_reader *r, const json_t *scaling, const char *where)
{
    (void)r, (void)scaling, (void)where;
    return HEARTH_OK;
}

static hearth_status add_linear(folder_reader *r, const json_t *scaling, const char *where)
{
    double factor = 1;
    TRY(folder_get_positive(r, scaling, where, "factor", &factor, NULL));
    TRY(folder_set_string(r, "rope.scaling.type", "linear"));
    return folder_set_number(r, "rope.scaling.factor", factor);
}

/* Reads a number above 0; 0 says that there is none. */
static hearth_status get_factor(const folder_reader *r, const json_t *object, const char *where, const char *key,
                                double *out, bool *found)
{
    const json_t *value = json_object_get(object, key);
    *found = false;
    return json_is_number(value) && json_number_value(value) == 0
               ? HEARTH_OK
               : folder_get_positive(r, object, where, key, out, found);
}

/* Sets yarn's factor on cosine and sine where the config changes it, as transformers computes it. */
static hearth_status add_yarn_magnitude(folder_reader *r, const json_t *scaling, const char *where, double factor)
{
    double attention = 0, mscale = 0, mscale_all = 0;
    bool found, has_scale, has_all;
    TRY(folder_get_positive(r, scaling, where, "attention_factor", &attention, &found));
    TRY(get_factor(r, scaling, where, "mscale", &mscale, &has_scale));
    TRY(get_factor(r, scaling, where, "mscale_all_dim", &mscale_all, &has_all));
    if (r->family->latent_attention && has_all)
        TRY(folder_set_number(r, "rope.scaling.yarn_log_multiplier", 0.1 * mscale_all));
    if (!found && has_scale && has_all)
        attention = rope_yarn_magnitude(factor, mscale) / rope_yarn_magnitude(factor, mscale_all);
    return attention > 0 ? folder_set_number(r, "rope.scaling.yarn_attn_factor", attention) : HEARTH_OK;
}

/* Sets the keys of yarn. beta_fast and beta_slow get no key where the config leaves them out: GGUF's defaults
 * apply. */
static hearth_status add_yarn(folder_reader *r, const json_t *scaling, const char *where)
{
    double factor = 1, beta_fast = 0, beta_slow = 0;
    uint32_t original = r->hyper.context_length;
    bool found, truncate = true;
    TRY(folder_get_positive(r, scaling, where, "factor", &factor, NULL));
    TRY(json_get_uint(scaling, "original_max_position_embeddings", &original, &found, where, r->error));
    TRY(json_get_bool(scaling, "truncate", &truncate, &found, where, r->error));
    TRY(folder_set_string(r, "rope.scaling.type", "yarn"));
    if (!truncate) {
        char key[KEY_SIZE];
        hyper_key(key, r->family, ROPE_FRACTIONAL_KEY);
        TRY(checkpoint_set_bool(r->out, key, true, r->error));
    }
    TRY(folder_set_number(r, "rope.scaling.factor", factor));
    TRY(folder_set_size(r, "rope.scaling.original_context_length", original));
    TRY(folder_get_positive(r, scaling, where, "beta_fast", &beta_fast, &found));
    if (found)
        TRY(folder_set_number(r, "rope.scaling.yarn_beta_fast", beta_fast));
    TRY(folder_get_positive(r, scaling, where, "beta_slow", &beta_slow, &found));
    if (found)
        TRY(folder_set_number(r, "rope.scaling.yarn_beta_slow", beta_slow));
    return add_yarn_magnitude(r, scaling, where, factor);
}

/* Adds a tensor of one divisor per pair, which the caller fills in; those of pairs that only layers with a window have are 1. */
static hearth_status add_factors(folder_reader *r, const char *name, float **out)
{
    uint32_t pairs = r->hyper.rope_pairs * (r->family->half_turns ? 2 : 1);
    float *factors = arena_new_array(&r->out->memory, pairs, sizeof *factors);
    if (!factors)
        return fail_memory(r->error, name, pairs * sizeof *factors);
    for (uint32_t i = r->hyper.rope_pairs; i < pairs; i++)
        factors[i] = 1;
    *out = factors;
    stored_tensor t = {.name = name,
                       .format = FORMAT_F32,
                       .rank = 1,
                       .shape = {pairs, 1, 1, 1},
                       .data = factors,
                       .size_bytes = pairs * sizeof *factors};
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* Adds rope_freqs.weight: GGUF has no keys for llama3's scaling, its converter stores the factors as a tensor. */
static hearth_status add_llama3(folder_reader *r, const json_t *scaling, const char *where)
{
    rope_llama3 s = {0};
    TRY(folder_get_positive(r, scaling, where, "factor", &s.factor, NULL));
    TRY(folder_get_positive(r, scaling, where, "low_freq_factor", &s.low, NULL));
    TRY(folder_get_positive(r, scaling, where, "high_freq_factor", &s.high, NULL));
    TRY(folder_get_positive(r, scaling, where, "original_max_position_embeddings", &s.original_context, NULL));
    if (!(s.low < s.high))
        return fail(r->error, HEARTH_FORMAT, "%s: low_freq_factor: is not below high_freq_factor", where);
    float *factors = NULL;
    TRY(add_factors(r, "rope_freqs.weight", &factors));
    rope_llama3_factors(&s, r->rope_base, r->hyper.rope_pairs, factors);
    return HEARTH_OK;
}

/* proportional: a share of the pairs turns, by the base over all of them, and the others do not: their divisors make
 * angles of 0 of any position. */
static hearth_status add_proportional(folder_reader *r, const json_t *scaling, const char *where)
{
    double share = 1, factor = 1, pairs = r->hyper.rope_pairs;
    bool found;
    TRY(folder_get_positive(r, scaling, where, "partial_rotary_factor", &share, &found));
    TRY(folder_get_positive(r, scaling, where, "factor", &factor, &found));
    float *factors = NULL;
    TRY(add_factors(r, "rope_freqs.weight", &factors));
    for (uint32_t i = 0; i < r->hyper.rope_pairs; i++)
        factors[i] = i < floor(share * pairs) ? (float)factor : 1e30f;
    return HEARTH_OK;
}

/* Adds one tensor of longrope's divisors. */
static hearth_status add_long_factors(folder_reader *r, const json_t *scaling, const char *where, const char *key,
                                      const char *name)
{
    const json_t *list = json_object_get(scaling, key);
    uint32_t pairs = r->hyper.rope_pairs;
    if (!json_is_array(list) || json_array_size(list) != pairs)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of %u numbers", where, key, pairs);
    float *factors = NULL;
    TRY(add_factors(r, name, &factors));
    for (uint32_t i = 0; i < pairs; i++)
        factors[i] = (float)json_number_value(json_array_get(list, i));
    return HEARTH_OK;
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
    TRY(folder_get_positive(r, scaling, where, "attention_factor", &magnitude, &found));
    TRY(folder_set_size(r, "rope.scaling.original_context_length", original));
    TRY(folder_set_number(r, "rope.scaling.attn_factor", magnitude));
    TRY(add_long_factors(r, scaling, where, "short_factor", "rope_factors_short.weight"));
    return add_long_factors(r, scaling, where, "long_factor", "rope_factors_long.weight");
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
    {"longrope", add_longrope},
    {"su", add_longrope}, /* the older name */
    {"proportional", add_proportional},
    {"mrope", add_default}, /* of text alone */
    /* With `alpha` the base is another, which was found before (stretch_base); without, it grows with texts that are longer than the
     * model's context, and no session is. */
    {"dynamic", add_default},
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

/* Where the config describes the rotation of layers with a window and of others apart, sets *scaling to the others', and
 * *base to the base of the former, which must not be scaled; where no layer has a window it need not say theirs. */
static hearth_status find_by_layer(folder_reader *r, const json_t **scaling, const char *where, double *base)
{
    const json_t *full = json_object_get(*scaling, "full_attention");
    const json_t *windowed = json_object_get(*scaling, "sliding_attention");
    const char *type = "default";
    bool found;
    if (!json_is_object(full) || !(json_is_object(windowed) || folder_all_see_all(r)))
        return HEARTH_OK;
    *scaling = full;
    if (!json_is_object(windowed))
        return HEARTH_OK;
    TRY(json_get_string(windowed, "rope_type", &type, &found, where, r->error));
    if (strcmp(type, "default") != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: sliding_attention: rope_type: %.64s is not supported", where,
                    type);
    return folder_get_positive(r, windowed, where, "rope_theta", base, &found);
}

/* Refuses settings of Step 3.5 by which some layers would not rotate, or layers with a window would be scaled. */
static hearth_status check_step_rotation(const folder_reader *r, const json_t *scaling)
{
    static const char key[] = "yarn_only_types", rotating[] = "use_rope_layers";
    const json_t *types = json_object_get(r->config, key), *each = json_object_get(r->config, rotating);
    const char *type = json_string_value(json_array_get(types, 0));
    for (size_t i = 0; i < json_array_size(each); i++)
        if (!json_is_true(json_array_get(each, i)))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %zu does not rotate, which is not supported",
                        r->name, rotating, i);
    bool alone = json_array_size(types) == 1 && type && strcmp(type, "full_attention") == 0;
    return !scaling || alone || folder_all_see_all(r)
               ? HEARTH_OK
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not full_attention alone", r->name, key);
}

/* Reads the bases of layers with a window and of others as Step 3.5 has them: one for each layer, or for all. found: it has a list. */
static hearth_status read_bases(folder_reader *r, const json_t *scaling, double *windowed, bool *found)
{
    static const char key[] = "rope_theta";
    const json_t *list = json_object_get(r->config, key);
    *found = json_is_array(list);
    if (!r->family->own_settings)
        return HEARTH_OK;
    TRY(check_step_rotation(r, scaling));
    if (!*found) {
        bool said;
        return folder_get_positive(r, r->config, r->name, key, windowed, &said);
    }
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one number per layer", r->name, key);
    double bases[2] = {0};
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        double *of = &bases[!folder_sees_all(r, i)], base = json_number_value(json_array_get(list, i));
        if (!(base > 1) || !isfinite((float)base) || (*of > 0 && base != *of))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %u has %g, others of its kind another base",
                        r->name, key, i, base);
        *of = base;
    }
    r->rope_base = bases[0] > 0 ? bases[0] : r->rope_base;
    *windowed = bases[1] > 0 ? bases[1] : *windowed;
    return HEARTH_OK;
}

/* Adds how scores grow with the position. */
static hearth_status add_growth(folder_reader *r, const json_t *scaling, const char *where)
{
    double growth = 0;
    uint32_t original = 0;
    bool found;
    TRY(get_factor(r, scaling, where, "llama_4_scaling_beta", &growth, &found));
    if (!found)
        return HEARTH_OK;
    TRY(json_get_uint(scaling, "original_max_position_embeddings", &original, NULL, where, r->error));
    TRY(folder_set_size(r, "rope.scaling.original_context_length", original));
    return folder_set_number(r, "attention.temperature_scale", growth);
}

/* Adds the parts of a head's pairs that turn with the three positions of a picture's parts; of text all three are the same. To
 * llama.cpp they say that pairs are halves: where a folder's are neighbours there are none. */
static hearth_status add_sections(folder_reader *r, const json_t *scaling)
{
    const json_t *list = json_object_get(scaling, "mrope_section");
    int32_t sections[4] = {0};
    char key[KEY_SIZE];
    if (!json_is_array(list) || json_array_size(list) > 4 || r->family->pairing == ROPE_NEIGHBOURS)
        return HEARTH_OK;
    for (size_t i = 0; i < json_array_size(list); i++)
        sections[i] = (int32_t)json_integer_value(json_array_get(list, i));
    hyper_key(key, r->family, "rope.dimension_sections");
    return checkpoint_set_numbers(r->out, key, VALUE_I32, sections, 4, r->error);
}

/* Stretches the base of rope_type dynamic by `alpha`, so that the slowest pair turns so many times more slowly (NTK-aware scaling). */
static hearth_status stretch_base(folder_reader *r, const json_t *scaling, const char *where)
{
    const char *old = json_string_value(json_object_get(scaling, "type"));
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    double alpha = 1, length = r->layer.attention.head_length;
    bool found;
    TRY(folder_get_positive(r, scaling, where, "alpha", &alpha, &found));
    type = type ? type : old;
    if (found && type && strcmp(type, "dynamic") == 0 && length > 2)
        r->rope_base *= pow(alpha, length / (length - 2));
    return HEARTH_OK;
}

/* Refuses a list of bases where a layer has another one than all, or 0, with which it does not rotate, and the family says that
 * it does. */
static hearth_status check_layer_bases(const folder_reader *r)
{
    static const char key[] = "layer_rope_theta";
    const json_t *list = json_object_get(r->config, key);
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (!json_is_array(list) || json_array_size(list) != r->hyper.layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one number per layer", r->name, key);
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        double base = !r->family->windows_rotate || !folder_sees_all(r, i) ? r->rope_base : 0;
        if (json_number_value(json_array_get(list, i)) != base)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: layer %u has not %g, as it should in a %s", r->name, key,
                        i, base, r->family->model_type);
    }
    return HEARTH_OK;
}

/* Reads which layers rotate, of a family whose files list them, and the base of those that do: bases by layer, of which 0 says that
 * the layer does not. */
static hearth_status read_turning_layers(folder_reader *r)
{
    static const char name[] = "layer_rope_theta";
    const json_t *list = json_object_get(r->config, name);
    uint32_t layers = r->hyper.layer_count;
    bool all = true;
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, name);
    uint8_t *turns = mem_new_array(layers, sizeof *turns);
    if (!turns)
        return fail_memory(r->error, name, layers);
    hearth_status status = HEARTH_OK;
    double base = 0;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        double own = json_number_value(json_array_get(list, i));
        turns[i] = own != 0;
        all &= turns[i] != 0;
        if (!json_is_number(json_array_get(list, i)) || own < 0 || own > FLT_MAX)
            status = fail(r->error, HEARTH_FORMAT, "%s: %s: item %u is no base", r->name, name, i);
        else if (turns[i] && base > 0 && own != base)
            status = fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: bases differ", r->name, name);
        base = turns[i] ? own : base;
    }
    r->rope_base = base > 0 ? base : r->rope_base;
    char key[KEY_SIZE];
    hyper_key(key, r->family, ROTATION_KEY);
    if (status == HEARTH_OK && !all)
        status = checkpoint_set_numbers(r->out, key, VALUE_BOOL, turns, layers, r->error);
    mem_free(turns);
    return status;
}

/* As transformers writes DeepSeek V4's, what is summarised (compress) and the rest (main) have objects of their own. Finds the scaling,
 * which is of the former alone, and reads the base of the latter. */
static hearth_status find_of_summaries(folder_reader *r, const json_t **scaling, const char *where)
{
    const json_t *plain = json_object_get(*scaling, "main"), *summarised = json_object_get(*scaling, "compress");
    bool found;
    if (!json_is_object(plain) || !json_is_object(summarised))
        return HEARTH_OK;
    *scaling = summarised;
    return folder_get_positive(r, plain, where, "rope_theta", &r->rope_base, &found);
}

/* Reads the base and the scaling. A rope_theta in rope_parameters is preferred to one of the config itself, as transformers does. */
hearth_status folder_read_rope(folder_reader *r)
{
    const char *key;
    const json_t *scaling = find_scaling(r->config, &key);
    char where[1024];
    snprintf(where, sizeof where, "%s: %s", r->name, key);
    bool found, listed = false;
    if (r->family->unrotated)
        return HEARTH_OK;
    if (r->family->rope_said && !scaling)
        return fail(r->error, HEARTH_FORMAT, "%s: rope_parameters: is missing", r->name);
    r->rope_base = r->family->rope_base > 0 ? (double)r->family->rope_base : 10000;
    if (r->family->window_base > 0) {
        double base = (double)r->family->window_base;
        TRY(folder_get_positive(r, r->config, r->name, "rope_local_base_freq", &base, &found));
        const json_t *all = scaling;
        TRY(find_by_layer(r, &scaling, where, &base));
        if (scaling == all) /* not by the kinds of layers */
            TRY(read_bases(r, scaling, &base, &listed));
        TRY(folder_set_number(r, "rope.freq_base_swa", base));
    }
    double windows = 0;
    if (r->family->plain_windows)
        TRY(find_by_layer(r, &scaling, where, &windows));
    if (!r->family->chunked && !r->family->rotation_listed) /* of chunked ones that was checked */
        TRY(folder_check_layers(r, "no_rope_layers", r->family->without_rotary));
    TRY(folder_check_layers(r, "rope_layout", r->family->without_rotary));
    const char *base_name = r->family->rotary_names ? "rotary_emb_base" : "rope_theta";
    if (!listed)
        TRY(folder_get_positive(r, r->config, r->name, base_name, &r->rope_base, &found));
    if (scaling)
        TRY(folder_get_positive(r, scaling, where, "rope_theta", &r->rope_base, &found));
    if (r->family->summaries)
        TRY(find_of_summaries(r, &scaling, where));
    if (windows > 0 && windows != r->rope_base)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: rope_theta: differs between layers, which is not supported",
                    where);
    TRY(r->family->rotation_listed ? read_turning_layers(r) : check_layer_bases(r));
    if (scaling)
        TRY(stretch_base(r, scaling, where));
    TRY(folder_set_number(r, "rope.freq_base", r->rope_base));
    TRY(add_sections(r, scaling));
    TRY(scaling ? add_growth(r, scaling, where) : HEARTH_OK);
    return scaling ? read_scaling(r, scaling, where) : HEARTH_OK;
}
