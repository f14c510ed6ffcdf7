/* huggingface.c - translates a folder's config.json and tensor names into the GGUF that a converter would make of
 * them.
 *
 * All other modules see only one kind of model, and converting a folder means writing what was read. config.json is
 * untrusted like any file. Settings that would change the result and that hearth does not support are refused by
 * name. Rotation and tensors have files of their own. */
#include "huggingface.h"

#include "folder_reader.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- settings */

hearth_status folder_set_size(folder_reader *r, const char *name, uint32_t value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_u32(r->out, key, value, r->error);
}

hearth_status folder_set_number(folder_reader *r, const char *name, double value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_f32(r->out, key, (float)value, r->error);
}

hearth_status folder_set_string(folder_reader *r, const char *name, const char *value)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_set_string(r->out, key, span_of(value), r->error);
}

hearth_status folder_get_positive(const folder_reader *r, const json_t *object, const char *where, const char *key,
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
static hearth_status take_default(folder_reader *r, const size_setting *s, uint32_t *field, bool *found)
{
    const family *f = r->family;
    if (field == &r->layer.ffn.neuron_count)
        *field = f->ffn_widths * r->hyper.embedding_length;
    if (field == &r->hyper.layer_count)
        *field = folder_listed_blocks(r->config);
    *found = *field > 0;
    return *found || !hyper_requires(s, f, true)
               ? HEARTH_OK
               : fail(r->error, HEARTH_FORMAT, "%s: %s: is missing", r->name, s->config_keys[0]);
}

/* Changes the neurons of a network to those that its model has: two thirds, times a factor, rounded up. */
static hearth_status adjust_width(folder_reader *r, uint32_t *neurons)
{
    bool adjusts = true, found;
    double factor = 1;
    uint32_t step = 256;
    TRY(json_get_bool(r->config, "block_auto_adjust_ff_dim", &adjusts, &found, r->name, r->error));
    TRY(folder_get_positive(r, r->config, r->name, "block_ffn_dim_multiplier", &factor, &found));
    TRY(json_get_uint(r->config, "block_multiple_of", &step, &found, r->name, r->error));
    if (!adjusts)
        return HEARTH_OK;
    double width = floor(factor * floor(2 * (double)*neurons / 3));
    if (step == 0 || !(width + step <= UINT32_MAX))
        return fail(r->error, HEARTH_FORMAT, "%s: block_multiple_of: is 0, or block_ffn_dim_multiplier is too large",
                    r->name);
    *neurons = ((uint32_t)width + step - 1) / step * step;
    return HEARTH_OK;
}

/* Reads a size and sets its GGUF key. */
static hearth_status read_size(folder_reader *r, const size_setting *s)
{
    uint32_t *field = size_field(s, &r->hyper, &r->layer);
    const char *key = config_key(r, s);
    bool found = true;
    /* Of sizes only that of networks may be a list under its own name. */
    if (field == &r->layer.ffn.neuron_count && json_is_array(json_object_get(r->config, key)))
        return folder_read_size_list(r, s, key, json_object_get(r->config, key));
    TRY(json_get_uint(r->config, key, field, &found, r->name, r->error));
    if (!found)
        TRY(take_default(r, s, field, &found));
    if (!found)
        return HEARTH_OK;
    if (field == &r->layer.attention.head_length && *field == 0 && r->family->latent_attention)
        return HEARTH_OK; /* it is said of what rotates, and nothing does */
    if (field == &r->layer.ffn.neuron_count && r->family->width_adjusted)
        TRY(adjust_width(r, field));
    TRY(hyper_check_size(s, *field, r->name, "", key, r->error));
    return folder_set_size(r, s->key, *field);
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
    return folder_set_size(r, "attention.head_count_kv", r->layer.attention.kv_head_count);
}

/* Returns the values of a head that so large a share of them has; 0: it is no share. */
static uint32_t values_of_share(const folder_reader *r, double share)
{
    return share > 0 && share <= 1 ? (uint32_t)(share * r->layer.attention.head_length) : 0;
}

/* Reads which share of a head is rotated in layers without a window, and sets that of the others; either is all of it where the
 * config describes the rotation of those layers and does not say the share. */
static hearth_status read_shares_by_layer(folder_reader *r, const json_t *rope, double *share)
{
    static const char key[] = "partial_rotary_factor";
    const json_t *full = json_object_get(rope, "full_attention"),
                 *windowed = json_object_get(rope, "sliding_attention");
    double own = 1;
    bool found;
    *share = json_is_object(full) ? 1 : *share;
    if (json_is_object(full))
        TRY(json_get_number(full, key, share, &found, r->name, r->error));
    if (json_is_object(windowed))
        TRY(json_get_number(windowed, key, &own, &found, r->name, r->error));
    uint32_t values = values_of_share(r, own);
    return values > 0 ? folder_set_size(r, "rope.dimension_count_swa", values)
                      : fail(r->error, HEARTH_FORMAT, "%s: sliding_attention: %s: is %g, expected a share of 1",
                             r->name, key, own);
}

/* Reads which share of a head is rotated. */
static hearth_status read_rotated_share(folder_reader *r)
{
    double share = r->family->rotated_share > 0 ? (double)r->family->rotated_share : 1;
    double length = r->layer.attention.head_length;
    bool found;
    if (r->family->unrotated)
        return HEARTH_OK;
    if (r->family->half_turns)
        return folder_read_halves(r);
    const json_t *rope = json_object_get(r->config, "rope_parameters");
    if (r->family->plain_windows && r->family->rotated_share > 0)
        TRY(read_shares_by_layer(r, rope, &share));
    const char *name = r->family->rotary_names ? "rotary_pct" : "partial_rotary_factor";
    TRY(json_get_number(r->config, name, &share, &found, r->name, r->error));
    if (json_is_object(rope))
        TRY(json_get_number(rope, "partial_rotary_factor", &share, &found, r->name, r->error));
    double values = share * length;
    TRY(json_get_number(r->config, "rotary_dim", &values, &found, r->name, r->error));
    share = found ? values / length : share;
    if (!(share > 0 && share <= 1))
        return fail(r->error, HEARTH_FORMAT, "%s: partial_rotary_factor: is %g, expected a share of 1", r->name, share);
    uint32_t rotated = values_of_share(r, share);
    r->hyper.rope_pairs = rotated / 2;
    return folder_set_size(r, "rope.dimension_count", rotated);
}

/* Reads how many tokens a model can say, where it reads others: the vocabulary is these alone. */
static hearth_status read_said(folder_reader *r)
{
    static const char key[] = "output_vocab_size";
    uint32_t said = r->hyper.vocabulary_size;
    bool found;
    const json_t *given = json_object_get(r->config, key);
    if (!r->family->said_alone || !given || json_is_null(given))
        return HEARTH_OK;
    TRY(json_get_uint(r->config, key, &said, &found, r->name, r->error));
    if (said == 0 || said > r->hyper.vocabulary_size)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is %u, expected 1 to vocab_size", r->name, key, said);
    if (json_is_true(json_object_get(r->config, "tie_word_embeddings")))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not supported with tie_word_embeddings", r->name, key);
    r->hyper.vocabulary_size = said;
    return folder_set_size(r, "vocab_size", said);
}

/* Reads all sizes, sets their GGUF keys, and derives those that the config may leave out. */
static hearth_status read_sizes(folder_reader *r)
{
    attention_shape *a = &r->layer.attention;
    for (size_t i = 0; i < size_setting_count; i++)
        TRY(read_size(r, &size_settings[i]));
    TRY(read_said(r));
    if (r->family->mixers == MIXERS_RECURRENT)
        return folder_read_rwkv(r);
    assert(a->head_count > 0); /* guaranteed by its row of size_settings */
    if (a->head_length > 0)
        TRY(folder_set_size(r, "attention.value_length", a->head_length));
    else
        a->head_length = r->hyper.embedding_length / a->head_count;
    TRY(folder_read_global_heads(r));
    bool found;
    TRY(json_get_uint(r->config, "num_nextn_predict_layers", &r->draft_layers, &found, r->name, r->error));
    TRY(read_multi_query(r));
    if (a->kv_head_count == 0)
        a->kv_head_count = a->head_count;
    return r->family->latent_attention ? folder_read_latent(r) : read_rotated_share(r);
}

hearth_status folder_check_layers(const folder_reader *r, const char *key, layer_pattern pattern)
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

/* Reads whether layer_types gives a layer the window. Where the list names mixers too, other names are for list_keys to check; where
 * layers have summaries, all have the window, and read_ratios checks the names. */
static hearth_status read_layer_type(const folder_reader *r, uint32_t layer, uint8_t *windowed)
{
    const char *type = json_string_value(json_array_get(json_object_get(r->config, "layer_types"), layer));
    *windowed = r->family->summaries ||
                (type && strcmp(type, r->family->chunked ? "chunked_attention" : "sliding_attention") == 0);
    if (!*windowed && r->family->mixers != MIXERS_KEYS && (!type || strcmp(type, "full_attention") != 0))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: layer_types: %.64s is not supported", r->name,
                    type ? type : "(no text)");
    return HEARTH_OK;
}

/* Reads which layers have the window; a key is set where the family's pattern does not say it, or llama.cpp wants it in any case. */
static hearth_status read_window_layers(folder_reader *r)
{
    const json_t *list = json_object_get(r->config, "layer_types");
    uint32_t layers = r->hyper.layer_count;
    bool listed = list && !json_is_null(list), said = r->family->windows_listed || r->family->windows_said;
    if (!listed && !r->family->windows_said)
        return HEARTH_OK;
    if (listed && !folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: layer_types: is not an array of one name per layer", r->name);
    uint8_t *windowed = mem_new(layers);
    if (!windowed)
        return fail_memory(r->error, "layer_types", layers);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        windowed[i] = !in_pattern(r->family->without_window, i);
        status = listed ? read_layer_type(r, i, &windowed[i]) : HEARTH_OK;
        said |= windowed[i] == in_pattern(r->family->without_window, i);
    }
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.sliding_window_pattern");
    if (status == HEARTH_OK && said)
        status = checkpoint_set_numbers(r->out, key, VALUE_BOOL, windowed, layers, r->error);
    mem_free(windowed);
    return status;
}

/* Reads after how many layers one sees all positions, as a number or as text such as LLLG; of configs without layer_types. */
static hearth_status read_window_period(folder_reader *r)
{
    static const char name[] = "sliding_window_pattern";
    const json_t *value = json_object_get(r->config, name), *types = json_object_get(r->config, "layer_types");
    const char *text = json_string_value(value);
    json_int_t period = json_integer_value(value);
    if (!value || json_is_null(value) || (types && !json_is_null(types)))
        return HEARTH_OK;
    if (text && strspn(text, "L") + 1 == strlen(text) && strcmp(text + strlen(text) - 1, "G") == 0)
        period = (json_int_t)strlen(text);
    if (period < 1 || period > UINT32_MAX)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not a number of layers, the last of which sees all",
                    r->name, name);
    return (uint32_t)period == r->family->without_window.period
               ? HEARTH_OK
               : folder_set_size(r, "attention.sliding_window_pattern", (uint32_t)period);
}

/* Reads the sliding window. null means no window, as in transformers; the default applies only where the key is
 * missing. */
static hearth_status read_window(folder_reader *r)
{
    const char *key = r->family->chunked ? "attention_chunk_size" : "sliding_window";
    uint32_t window = json_object_get(r->config, key) ? 0 : r->family->default_window;
    bool found, listed = json_is_array(json_object_get(r->config, "layer_types"));
    if (r->family->windows_listed && r->family->windows_rotate && !listed)
        return fail(r->error, HEARTH_FORMAT, "%s: layer_types: is missing", r->name);
    if (!r->family->folder_window || (r->family->windows_listed && !listed))
        return HEARTH_OK;
    TRY(json_get_uint(r->config, key, &window, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "sliding_window_size", &window, &found, r->name, r->error));
    TRY(folder_check_layers(r, "sliding_window_layout", r->family->without_window));
    if (window == 0 && r->family->windows_listed && !folder_all_see_all(r))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is missing, and layer_types has layers with a window", r->name,
                    key);
    if (window == 0) /* where GGUF has a default of its own, that is to be said */
        return r->family->file_window > 0 ? folder_set_size(r, "attention.sliding_window", 0) : HEARTH_OK;
    if (r->family->windows_rotate && listed && folder_all_see_all(r))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: layer_types: no layer has the window, so none would rotate",
                    r->name);
    TRY(folder_set_size(r, "attention.sliding_window", window));
    TRY(read_window_period(r));
    return read_window_layers(r);
}

/* Reads what divides or multiplies scores and logits, under the names of several families. */
static hearth_status read_scales(folder_reader *r)
{
    static const struct {
        const char *config_key, *key;
    } factors[] = {{"embedding_multiplier", "embedding_scale"}, {"attention_multiplier", "attention.scale"},
                   {"residual_multiplier", "residual_scale"},   {"logits_scaling", "logit_scale"},
                   {"output_multiplier", "logit_scale"},        {"logit_scale", "logit_scale"}};
    static const char *const caps[] = {"attn_logit_softcapping",
                                       "final_logit_softcapping"}; /* GGUF has the same names */
    double value, layers = r->hyper.layer_count;
    bool found;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        TRY(folder_get_positive(r, r->config, r->name, caps[i], &value, &found));
        if (found || json_is_null(json_object_get(r->config, caps[i]))) /* null: there is none, whatever the default */
            TRY(folder_set_number(r, caps[i], found ? value : 0));
    }
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        TRY(folder_get_positive(r, r->config, r->name, factors[i].config_key, &value, &found));
        if (found)
            TRY(folder_set_number(r, factors[i].key, value));
    }
    TRY(folder_get_positive(r, r->config, r->name, "query_pre_attn_scalar", &value, &found));
    if (found)
        TRY(folder_set_number(r, "attention.scale", 1 / sqrt(value)));
    if (!r->family->scaled)
        return HEARTH_OK;
    TRY(folder_get_positive(r, r->config, r->name, "scale_emb", &value, NULL));
    TRY(folder_set_number(r, "embedding_scale", value));
    TRY(folder_get_positive(r, r->config, r->name, "scale_depth", &value, NULL));
    TRY(folder_set_number(r, "residual_scale", value / sqrt(layers)));
    TRY(folder_get_positive(r, r->config, r->name, "dim_model_base", &value, NULL));
    return folder_set_number(r, "logit_scale", r->hyper.embedding_length / value);
}

/* Reads whether attention and network are side by side, where a family's models differ in that. */
static hearth_status read_wiring(folder_reader *r)
{
    bool parallel = true, found;
    char key[KEY_SIZE];
    if (!r->family->wiring_said)
        return HEARTH_OK;
    TRY(json_get_bool(r->config, PARALLEL_KEY, &parallel, &found, r->name, r->error));
    hyper_key(key, r->family, PARALLEL_KEY);
    return checkpoint_set_bool(r->out, key, parallel, r->error);
}

/* Refuses a Llama 4 in which other layers rotate than those with chunks, or, without chunks, than all. */
static hearth_status check_rotating(const folder_reader *r)
{
    static const char name[] = "no_rope_layers";
    const json_t *list = json_object_get(r->config, name), *types = json_object_get(r->config, "layer_types");
    uint32_t window = r->family->file_window, interval = 4;
    bool listed = json_array_size(list) > 0, found, any = false;
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.sliding_window");
    TRY(checkpoint_get_u32(r->out, key, &window, &found, r->error));
    TRY(json_get_uint(r->config, "no_rope_layer_interval", &interval, &found, r->name, r->error));
    if (list && !json_is_null(list) &&
        (!json_is_array(list) || (listed && json_array_size(list) != r->hyper.layer_count)))
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one item per layer", r->name, name);
    for (int pass = 0; pass < 2; pass++) /* whether there are chunks, then whether the layers agree */
        for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
            const char *type = json_string_value(json_array_get(types, i));
            bool chunked = type ? strcmp(type, "chunked_attention") == 0 : !in_pattern(r->family->without_window, i);
            bool rotates = listed ? json_integer_value(json_array_get(list, i)) != 0
                                  : !in_pattern((layer_pattern){.period = interval}, i);
            any |= chunked && window > 0;
            if (pass == 1 && rotates != (!any || chunked))
                return fail(r->error, HEARTH_UNSUPPORTED,
                            "%s: %s: layer %u %s, which is not supported of a layer %s chunks", r->name, name, i,
                            rotates ? "rotates" : "does not rotate", any && chunked ? "with" : "without");
        }
    return HEARTH_OK;
}

/* Reads how the norms of queries and keys, and the scores, of a Llama 4 deviate from what its files mean without saying it. */
static hearth_status read_llama4(folder_reader *r)
{
    bool norms = true, tunes = true, found;
    double growth = (double)r->family->growth;
    uint32_t from = r->family->file_window;
    char key[KEY_SIZE];
    if (r->family->growth == 0)
        return HEARTH_OK;
    TRY(check_rotating(r));
    TRY(json_get_bool(r->config, "use_qk_norm", &norms, &found, r->name, r->error));
    hyper_key(key, r->family, PLAIN_NORM_KEY);
    TRY(checkpoint_set_bool(r->out, key, norms, r->error));
    const json_t *tuning = json_object_get(r->config, "attn_temperature_tuning"); /* true, or the number of layers */
    tunes = !tuning || json_is_null(tuning) || json_is_true(tuning) || json_integer_value(tuning) > 0;
    TRY(folder_get_positive(r, r->config, r->name, "attn_scale", &growth, &found));
    TRY(json_get_uint(r->config, "floor_scale", &from, &found, r->name, r->error));
    TRY(folder_set_size(r, "attention.temperature_length", from));
    return folder_set_number(r, "attention.temperature_scale", tunes ? growth : 0);
}

/* Reads the epsilon of the norms. */
static hearth_status read_epsilon(folder_reader *r)
{
    static const char rms_name[] = "rms_norm_eps";
    const family *f = r->family;
    double epsilon = (double)f->default_epsilon;
    bool found, rms = f->norm == NORM_RMS || (f->norm_by_key && json_is_number(json_object_get(r->config, rms_name)));
    bool own = f->epsilon && json_object_get(r->config, f->epsilon) && !(rms && f->norm_by_key);
    const char *name = own || (f->epsilon && !rms) ? f->epsilon : rms_name; /* transformers may save the commoner one */
    TRY(folder_get_positive(r, r->config, r->name, name, &epsilon, f->default_epsilon > 0 ? &found : NULL));
    TRY(folder_set_number(r, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", epsilon));
    double post = (double)f->post_epsilon;
    if (f->post_epsilon == 0)
        return HEARTH_OK;
    TRY(folder_get_positive(r, r->config, r->name, "post_norm_eps", &post, &found));
    return (float)post != f->post_epsilon ? folder_set_number(r, POST_EPSILON_KEY, post) : HEARTH_OK;
}

/* What swiglu_clamped multiplies its gate with (kernel.h). */
#define SWIGLU_GAIN 1.702

/* Reads the limit of an activation that the family has in any case, whatever smooth one the config says. */
static hearth_status read_limit(folder_reader *r)
{
    double limit = (double)r->family->default_threshold, gain = SWIGLU_GAIN;
    const char *said = "";
    bool found;
    TRY(json_get_string(r->config, "hidden_act", &said, &found, r->name, r->error));
    ffn_activation row = ffn_activation_by_name(said, strlen(said));
    if (row < FFN_ACTIVATION_COUNT && ffn_has_zeros(row))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: hidden_act: %s is not supported of a %s", r->name, said,
                    r->family->model_type);
    TRY(folder_get_positive(r, r->config, r->name, "swiglu_limit", &limit, &found));
    TRY(folder_get_positive(r, r->config, r->name, "swiglu_alpha", &gain, &found));
    if (gain != SWIGLU_GAIN)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: swiglu_alpha: is %g, only %g is supported", r->name, gain,
                    SWIGLU_GAIN);
    return limit == (double)r->family->default_threshold ? HEARTH_OK
                                                         : folder_set_number(r, "hidden_activation_param", limit);
}

/* Returns whether recurrent layers have the activation of the networks where their queries, keys and values leave the convolution. */
static bool mixers_share_activation(const family *f)
{
    bool recurs = f->mixers == MIXERS_KEYS || f->mixers == MIXERS_LISTED;
    return recurs &&
           (f->recurrence == RECURRENCE_DELTA || f->recurrence == RECURRENCE_KDA || f->recurrence == RECURRENCE_MAMBA2);
}

/* Reads the activation; a key is set only where it differs from the family's default. */
static hearth_status read_activation(folder_reader *r)
{
    const char *activation = ffn_activations[r->family->activation].name;
    bool found;
    /* GGUF's name of the family may be that of another one too, which has its own activation. */
    ffn_activation usual = family_by_name(span_of(r->family->name))->activation;
    if (r->family->fixed_activation && r->family->activation != usual)
        return folder_set_string(r, "hidden_activation", ffn_activations[r->family->activation].name);
    if (r->family->fixed_activation)
        return read_limit(r);
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function", "activation",
                                       "mlp_hidden_act"};
    const char *key = keys[0];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        TRY(json_get_string(r->config, keys[i], &activation, &found, r->name, r->error));
        key = found ? keys[i] : key;
    }
    ffn_activation row = ffn_activation_by_name(activation, strlen(activation));
    char known[ACTIVATION_LIST_SIZE];
    ffn_activation_list(known, sizeof known);
    if (row == FFN_ACTIVATION_COUNT)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %.64s is not supported (known: %s)", r->name, key,
                    activation, known);
    if (row != usual && mixers_share_activation(r->family))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %.64s is not supported, as recurrent layers have it too",
                    r->name, key, activation);
    if (row != usual)
        TRY(folder_set_string(r, "hidden_activation", ffn_activations[row].name));
    if (!ffn_activations[row].has_threshold)
        return HEARTH_OK;
    double threshold = 0;
    TRY(json_get_number(r->config, "hidden_act_param", &threshold, NULL, r->name, r->error));
    return folder_set_number(r, "hidden_activation_param", threshold);
}

/* Refuses settings that are not supported and that would change the result if they were ignored. */
static hearth_status refuse_unknown(folder_reader *r)
{
    for (size_t i = 0; i < MOST_REQUIRED && r->family->required[i].key; i++) {
        const required_setting *s = &r->family->required[i];
        bool found, value = s->missing;
        TRY(json_get_bool(r->config, s->key, &value, &found, r->name, r->error));
        if (value != s->expected)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %s is not supported", r->name, s->key,
                        value ? "true" : "false");
    }
    if (json_is_number(json_object_get(r->config, "clip_qkv")))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: clip_qkv: a number is not supported", r->name);
    const json_t *quantization = json_object_get(r->config, "quantization_config");
    if (!quantization || json_is_null(quantization))
        quantization = json_object_get(r->whole, "quantization_config");
    return quantization && !json_is_null(quantization) ? folder_read_quantization(r, quantization) : HEARTH_OK;
}

/* Reads the config and the tensors, when the family is known. */
static hearth_status understand(folder_reader *r)
{
    TRY(refuse_unknown(r));
    TRY(read_sizes(r));
    TRY(folder_read_mixers(r));
    TRY(folder_read_listed_mixers(r));
    TRY(folder_read_layers(r));
    TRY(r->family->ngrams ? folder_read_ngrams(r) : HEARTH_OK);
    TRY(folder_read_mimo(r));
    TRY(read_window(r));
    TRY(folder_read_experts(r));
    TRY(folder_read_blocks(r));
    TRY(read_epsilon(r));
    TRY(read_scales(r));
    TRY(read_activation(r));
    TRY(read_llama4(r));
    TRY(read_wiring(r));
    TRY(folder_read_rope(r));
    bool tied = r->family->folder_tied, found;
    TRY(json_get_bool(r->config, "tie_word_embeddings", &tied, &found, r->name, r->error));
    TRY(json_get_bool(r->whole, "tie_word_embeddings", &tied, &found, r->name, r->error));
    TRY(json_get_bool(r->config, "tie_embedding", &tied, &found, r->name, r->error)); /* LFM2's name of it */
    return folder_add_tensors(r, tied);
}

/* Copies a config, under the names of settings that hearth reads, with what it leaves out and the family has a default of; a null
 * is not left out. The caller releases the copy. */
static hearth_status complete(const folder_reader *r, json_t **out)
{
    json_t *config = NULL;
    if (r->family->short_values)
        TRY(folder_translate_mimo(r->config, r->name, &config, r->error));
    else
        config = json_copy((json_t *)r->config);
    bool ok = config != NULL;
    for (size_t i = 0; ok && i < MOST_DEFAULTS && r->family->defaults[i].key; i++) {
        const default_number *d = &r->family->defaults[i];
        bool whole = d->value == floor(d->value);
        if (!json_object_get(config, d->key))
            ok = json_object_set_new(config, d->key,
                                     whole ? json_integer((json_int_t)d->value) : json_real(d->value)) == 0;
    }
    if (ok) {
        *out = config;
        return HEARTH_OK;
    }
    json_decref(config);
    return fail_memory(r->error, "config", 0);
}

hearth_status huggingface_understand(checkpoint *c, const checkpoint *folder, const json_t *config, const char *name,
                                     hearth_error *error)
{
    folder_reader r = {.out = c, .folder = folder, .config = config, .whole = config, .name = name, .error = error};
    const json_t *text = json_object_get(config, "text_config");
    json_t *own = NULL;
    if (json_is_object(text)) { /* a model of text and pictures, of which only the text's is read */
        r.config = text;
        r.nested = true;
    }
    r.pictures = r.nested || json_is_object(json_object_get(config, "vision_config"));
    TRY(folder_find_family(&r));
    TRY(complete(&r, &own));
    r.config = own;
    hearth_status status = understand(&r);
    json_decref(own);
    return status;
}
