/* bind.c - builds a model from a checkpoint: family, hyperparameters, tensors (bind_tensor.c), rotary frequencies,
 * tokenizer; attaches its tune file; describes a model. */
#include "bind.h"
#include "huggingface.h"
#include "hyper.h"
#include "rope.h"
#include "tune.h"

#include "../base/sized.h"
#include "../file/gguf.h"
#include "../file/sentencepiece.h"
#include "../text/rwkv_vocabulary.h"
#include "../text/tiktoken.h"
#include "../text/tokenizer_json.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The version of packed files that this hearth reads. */
static const uint32_t pack_version = 1;

/* Checks divisors of frequencies; NULL: there are none. */
static hearth_status check_factors(const binder *b, const float *factors, uint32_t pairs, const char *name)
{
    for (uint32_t i = 0; factors && i < pairs; i++)
        if (!isfinite(factors[i]) || !(factors[i] > 0))
            return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: value %u is not a positive number", b->source->path,
                        name, i);
    return HEARTH_OK;
}

/* Computes frequencies in the model's memory. */
static hearth_status make_frequencies(const binder *b, const rope_settings *rope, const float *factors,
                                      const double **out)
{
    double *frequencies = arena_new_array(&b->model->memory, rope->pairs, sizeof *frequencies);
    if (!frequencies)
        return fail_memory(b->error, "rope frequencies", rope->pairs * sizeof *frequencies);
    rope_frequencies(rope, factors, frequencies);
    *out = frequencies;
    return HEARTH_OK;
}

/* Adds a rotary to the model, which has room for it. */
static hearth_status add_rotary(const binder *b, const rope_settings *rope, const float *factors,
                                const float *long_factors)
{
    hearth_model *m = b->model;
    rotary *to = m->rotaries + m->rotary_count;
    *to = (rotary){.pairing = m->hyper.pairing,
                   .pairs = rope->pairs,
                   .first = m->rotary_count > 0 ? to[-1].first + to[-1].pairs : 0,
                   .magnitude = (float)rope->magnitude,
                   .long_from = (uint32_t)rope->original_context};
    if (!isfinite(to->magnitude))
        return fail(b->error, HEARTH_FORMAT, "%s: rotary scaling: its factor on cosine and sine is too large",
                    b->source->path);
    TRY(make_frequencies(b, rope, factors, &to->frequencies));
    if (long_factors)
        TRY(make_frequencies(b, rope, long_factors, &to->long_frequencies));
    m->rotary_count++;
    return HEARTH_OK;
}

static bool has_windows(const hearth_model *m)
{
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        if (m->layers[i].attention.window > 0)
            return true;
    return false;
}

/* Finds out whether a layer rotates, where a file says it of each; it does where the file does not. */
static hearth_status is_turned(const binder *b, uint32_t layer, bool *turns)
{
    char key[KEY_SIZE];
    hyper_key(key, b->model->family, ROTATION_KEY);
    const key_value *list = b->model->family->rotation_listed ? checkpoint_find(b->source, key) : NULL;
    if (!list)
        return HEARTH_OK;
    if (list->type != VALUE_ARRAY || list->item_type != VALUE_BOOL || list->count != b->model->hyper.layer_count)
        return fail(b->error, HEARTH_FORMAT, "%s: key %s: is not an array of one boolean per layer", b->source->path,
                    key);
    *turns &= ((const uint8_t *)list->as.items)[layer] != 0;
    return HEARTH_OK;
}

/* Of all layers, of those with a window, and of pools of positions; those of all layers, and of others, with the opposite angles; and
 * of summaries of each length. */
#define MOST_ROTARIES 12

/* Finds by which angles a layer turns what scores positions: those of attention, maybe of other pairs; and of the keys of plain pools
 * the angles of their first positions. */
static hearth_status turn_index(const binder *b, uint32_t layer)
{
    hearth_model *m = b->model;
    attention_shape *a = &m->layers[layer].attention;
    if (!a->rotary || a->index.head_count == 0)
        return HEARTH_OK;
    m->index_rotary = *a->rotary;
    m->index_rotary.pairing = a->index.plain ? a->rotary->pairing : m->family->index_pairing;
    m->index_rotary.last |= m->family->index_last;
    a->index.rotary = &m->index_rotary;
    if (2 * (uint64_t)a->rotary->pairs > a->index.head_length)
        return fail(b->error, HEARTH_FORMAT,
                    "%s: layer %u: rotates %u pairs of heads of %u values that score positions", b->source->path, layer,
                    a->rotary->pairs, a->index.head_length);
    if (!a->index.plain || a->index.by_head)
        return HEARTH_OK;
    rotary *of_pools = &m->rotaries[m->rotary_count - 1];
    if (of_pools->back == 0) {
        uint32_t first = of_pools->first + of_pools->pairs;
        of_pools = &m->rotaries[m->rotary_count++];
        *of_pools = *a->rotary;
        of_pools->first = first;
        of_pools->back = a->pool - 1;
    }
    a->index.pool_rotary = of_pools;
    return HEARTH_OK;
}

/* Returns the rotary with the angles of another one, or their opposites, at so many positions back; adds it where there is none.
 * NULL: memory is out. */
static const rotary *derived_rotary(const binder *b, const rotary *of, uint32_t back, bool opposite)
{
    hearth_model *m = b->model;
    for (uint32_t i = 0; i < m->rotary_count; i++) {
        const rotary *r = &m->rotaries[i];
        double first = opposite ? -of->frequencies[0] : of->frequencies[0];
        if (r->back == back && r->frequencies[0] == first && r->magnitude == of->magnitude &&
            r->frequencies[r->pairs - 1] == (opposite ? -1 : 1) * of->frequencies[r->pairs - 1])
            return r;
    }
    rotary *to = &m->rotaries[m->rotary_count];
    double *frequencies = arena_new_array(&m->memory, of->pairs, sizeof *frequencies);
    if (!frequencies)
        return NULL;
    for (uint32_t p = 0; p < of->pairs; p++)
        frequencies[p] = opposite ? -of->frequencies[p] : of->frequencies[p];
    *to = *of;
    to->first = to[-1].first + to[-1].pairs;
    to->back = back;
    to->frequencies = frequencies;
    m->rotary_count++;
    return to;
}

/* Computes the rotaries of DeepSeek V4. Layers with summaries have a base of their own, and they alone are scaled for longer
 * contexts, without a factor on cosine and sine. */
static hearth_status find_summary_rotaries(const binder *b)
{
    static const char base_key[] = "attention.compress_rope_freq_base";
    hearth_model *m = b->model;
    rope_settings scaled, plain;
    TRY(rope_read(&scaled, m->family, b->source, &m->hyper, b->error));
    plain = (rope_settings){.base = scaled.base, .factor = 1, .pairs = scaled.pairs, .magnitude = 1};
    TRY(rope_read_base(&scaled.base, m->family, b->source, base_key, b->error));
    scaled.magnitude = 1;
    TRY(add_rotary(b, &scaled, NULL, NULL));
    TRY(add_rotary(b, &plain, NULL, NULL));
    m->rotaries[0].last = m->rotaries[1].last = true;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        attention_shape *a = &m->layers[i].attention;
        uint32_t together = a->summary.together;
        a->rotary = &m->rotaries[together > 0 ? 0 : 1];
        if (2 * (uint64_t)a->rotary->pairs > a->head_length)
            return fail(b->error, HEARTH_FORMAT, "%s: layer %u: rotates %u pairs of heads of %u values",
                        b->source->path, i, a->rotary->pairs, a->head_length);
        a->back_rotary = derived_rotary(b, a->rotary, 0, true);
        a->summary.rotary = together > 0 ? derived_rotary(b, a->rotary, together - 1, false) : NULL;
        if (!a->back_rotary || (together > 0 && !a->summary.rotary))
            return fail_memory(b->error, "rope frequencies", a->rotary->pairs * sizeof(double));
        TRY(turn_index(b, i));
    }
    return HEARTH_OK;
}

/* Computes the rotaries and gives one to every layer that rotates: layers with a window may have another base, which
 * then is not scaled. Needs the shapes of the layers and the tensors of factors. */
static hearth_status find_rotaries(binder *b)
{
    hearth_model *m = b->model;
    rope_settings rope, windowed;
    if (m->family->unrotated || m->hyper.rope_pairs == 0)
        return HEARTH_OK;
    m->rotaries = arena_new_array(&m->memory, MOST_ROTARIES, sizeof *m->rotaries);
    if (!m->rotaries)
        return fail_memory(b->error, "rotaries", MOST_ROTARIES * sizeof *m->rotaries);
    if (m->family->summaries)
        return find_summary_rotaries(b);
    TRY(rope_read(&rope, m->family, b->source, &m->hyper, b->error));
    TRY(rope_read_window(&windowed, m->family, b->source, &m->hyper, b->error));
    const char *name = m->rope_factors_long ? "rope_factors_short.weight" : "rope_freqs.weight";
    TRY(check_factors(b, m->rope_factors, rope.pairs, name));
    TRY(check_factors(b, m->rope_factors_long, rope.pairs, "rope_factors_long.weight"));
    if (m->rope_factors_long && !m->rope_factors)
        return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: is missing", b->source->path, name);
    TRY(add_rotary(b, &rope, m->rope_factors, m->rope_factors_long));
    if (windowed.base > 0 && has_windows(m))
        TRY(add_rotary(b, &windowed, NULL, NULL));
    uint32_t of_windows = m->rotary_count - 1;
    bool windows_alone = m->family->windows_rotate && (has_windows(m) || m->family->dense_rotate);
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        attention_shape *a = &m->layers[i].attention;
        bool dense = m->family->dense_rotate && m->layers[i].ffn.router.expert_count == 0;
        bool turns = !in_pattern(m->family->without_rotary, i) && (a->window > 0 || !windows_alone || dense);
        TRY(is_turned(b, i, &turns));
        if (m->layers[i].mixer == MIXER_ATTENTION && turns)
            a->rotary = &m->rotaries[a->window > 0 ? of_windows : 0];
        if (a->rotary && 2 * (uint64_t)a->rotary->pairs > a->head_length)
            return fail(b->error, HEARTH_FORMAT, "%s: layer %u: rotates %u pairs of heads of %u values",
                        b->source->path, i, a->rotary->pairs, a->head_length);
        TRY(turn_index(b, i));
    }
    return HEARTH_OK;
}

/* Finds the family that general.architecture names. */
static hearth_status find_family(binder *b)
{
    span name;
    TRY(checkpoint_get_string(b->source, "general.architecture", &name, NULL, b->error));
    b->model->family = family_by_name(name);
    if (b->model->family)
        return HEARTH_OK;
    return fail(b->error, HEARTH_UNSUPPORTED, "%s: key general.architecture: %.*s is not supported " FAMILIES_HINT,
                b->source->path, name.size < 100 ? (int)name.size : 100, name.data);
}

/* Reads the keys of files written by `hearth pack`. */
static hearth_status find_pack(binder *b)
{
    uint32_t version = pack_version;
    bool found, requantised = false;
    TRY(checkpoint_get_u32(b->source, "hearth.pack.version", &version, &found, b->error));
    if (version != pack_version)
        return fail(b->error, HEARTH_UNSUPPORTED, "%s: key hearth.pack.version: is %u, this hearth reads %u",
                    b->source->path, version, pack_version);
    TRY(checkpoint_get_bool(b->source, "hearth.pack.requantised", &requantised, &found, b->error));
    b->model->requantised = requantised;
    return HEARTH_OK;
}

/* Sets the model's name: general.name, or the last part of the path. */
static hearth_status find_name(binder *b)
{
    const char *path = b->source->path, *slash = strrchr(path, '/');
    span name = span_of(slash && slash[1] ? slash + 1 : path);
    bool found;
    TRY(checkpoint_get_string(b->source, "general.name", &name, &found, b->error));
    b->model->name = arena_copy_text(&b->model->memory, name.data, name.size);
    return b->model->name ? HEARTH_OK : fail_memory(b->error, "name", name.size);
}

/* Creates the tokenizer. An unknown kind of vocabulary is no error: computing with ids, and quantising, work without
 * it. The reason is stored for errors. */
static hearth_status find_tokenizer(binder *b)
{
    hearth_model *m = b->model;
    hearth_error why;
    hearth_status status = tokenizer_create(&m->tokenizer, b->source, &why);
    if (status == HEARTH_UNSUPPORTED) {
        size_t path = strlen(b->source->path) + strlen(": "); /* skips the path: only the reason is stored */
        const char *text = strlen(why.text) > path ? why.text + path : why.text;
        m->tokenizer_problem = arena_copy_text(&m->memory, text, strlen(text));
        return m->tokenizer_problem ? HEARTH_OK : fail_memory(b->error, "tokenizer", strlen(text));
    }
    if (status != HEARTH_OK)
        return fail(b->error, status, "%s", why.text);
    if (!m->tokenizer)
        m->tokenizer_problem = model_tokenizer_missing(b->source);
    uint32_t size = m->tokenizer ? tokenizer_size(m->tokenizer) : 0;
    if (size > m->hyper.vocabulary_size)
        return fail(b->error, HEARTH_FORMAT, "%s: key tokenizer.ggml.tokens: has %u tokens, the model has %u",
                    b->source->path, size, m->hyper.vocabulary_size);
    if (!m->tokenizer)
        return HEARTH_OK;
    tokenizer_pad(m->tokenizer, m->hyper.vocabulary_size);
    return spellings_create(&m->spellings, m->tokenizer, m->hyper.vocabulary_size, b->error);
}

/* Fills in the model. activation: overrides the file's; NULL: the file's is used. */
static hearth_status bind_model(binder *b, const char *activation)
{
    hearth_model *m = b->model;
    if (b->source->tensor_count == 0 && checkpoint_find(b->source, "tokenizer.ggml.model"))
        return fail(b->error, HEARTH_FORMAT, "%s: tensors: has none, the file holds only a vocabulary",
                    b->source->path);
    TRY(find_family(b));
    TRY(find_name(b));
    TRY(find_pack(b));
    TRY(hyper_read(m, activation, b->error));
    TRY(bind_tensors(b));
    TRY(find_rotaries(b));
    return find_tokenizer(b);
}

/* Makes a model of the source. opens: it is to be computed with, and owns the source, which is closed on failure; else
 * everything is only checked. */
static hearth_status make_model(hearth_model **out, checkpoint *source, bool opens, const hearth_model_options *options,
                                hearth_error *error)
{
    hearth_model *m = mem_new(sizeof *m);
    if (!m) {
        if (opens)
            checkpoint_close(source);
        return fail_memory(error, "model", sizeof *m);
    }
    m->source = source;
    m->owns_source = opens;
    binder b = {.model = m, .source = source, .copies = opens, .folder = file_is_folder(source->path), .error = error};
    b.progress = opens && options ? &options->progress : NULL;
    hearth_status status = bind_model(&b, options ? options->ffn_activation : NULL);
    if (status != HEARTH_OK) {
        hearth_model_close(m);
        return status;
    }
    *out = m;
    return HEARTH_OK;
}

hearth_status model_bind(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                         hearth_error *error)
{
    return make_model(out, source, true, options, error);
}

hearth_status model_check(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                          hearth_error *error)
{
    return make_model(out, source, false, options, error);
}

/* Adds the keys of a file that holds nothing but a vocabulary. */
typedef hearth_status (*add_vocabulary)(checkpoint *c, const char *path, hearth_error *error);

/* Such files, by their names. */
static const struct {
    const char *pattern;
    add_vocabulary add;
} vocabularies[] = {
    {"*tokenizer.json", tokenizer_json_add},
    {"*tokenizer.model", sentencepiece_add},
    {"*" RWKV_VOCABULARY_FILE, rwkv_vocabulary_add},
    {"*" TIKTOKEN_FILE, tiktoken_add},
};

static hearth_status open_vocabulary(checkpoint **out, const char *path, add_vocabulary add, hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, path, error));
    hearth_status status = add(c, path, error);
    if (status == HEARTH_OK)
        *out = c;
    else
        checkpoint_close(c);
    return status;
}

hearth_status model_open_checkpoint(checkpoint **out, const char *path, hearth_error *error)
{
    if (file_is_folder(path))
        return huggingface_open(out, path, error);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
        if (fnmatch(vocabularies[i].pattern, path, 0) == 0)
            return open_vocabulary(out, path, vocabularies[i].add, error);
    hearth_status status = gguf_open_any(out, path, error); /* of a .safetensors file the error asks for its folder */
    if (status == HEARTH_FORMAT && fnmatch("*.safetensors", path, 0) == 0)
        return fail(error, status, "%s: is a safetensors file; name its folder", path);
    return status;
}

/* Attaches a tune file that the user named: any error is reported. */
static hearth_status attach_named(hearth_model *model, const char *path, hearth_error *error)
{
    tune *t;
    TRY(tune_open(&t, path, model, error));
    return tune_attach(model, t, error);
}

/* Attaches the tune file next to the model, if there is one. The user did not ask for it, so a file that cannot be
 * used is ignored, and the model stores why. */
static hearth_status attach_beside(hearth_model *model, const char *path, hearth_error *error)
{
    hearth_error why = {0};
    if (!file_exists(path))
        return HEARTH_OK;
    hearth_status status = attach_named(model, path, &why);
    if (status == HEARTH_OK || status == HEARTH_NO_MEMORY)
        return status == HEARTH_OK ? status : fail(error, status, "%s", why.text);
    model->tune_problem = arena_copy_text(&model->memory, why.text, strlen(why.text));
    return model->tune_problem ? HEARTH_OK : fail_memory(error, path, strlen(why.text));
}

/* Attaches the tune file, if any. named: as in hearth_model_options. */
static hearth_status find_tune(hearth_model *model, const char *path, const char *named, hearth_error *error)
{
    if (named)
        return named[0] ? attach_named(model, named, error) : HEARTH_OK;
    char *beside = tune_path(path);
    hearth_status status = beside ? attach_beside(model, beside, error) : fail_memory(error, path, strlen(path));
    mem_free(beside);
    return status;
}

/* Reports what was opened, and what was expected but is not in use. */
static void log_model(const hearth_model *m, const hearth_log *log)
{
    char size[16];
    const char *path = m->source->path;
    log_line(log, HEARTH_LOG_INFO, "%s: %s, %s, %u layers, %s of weights%s", path, m->family->name,
             ffn_activations[m->layers[0].ffn.activation].name, m->hyper.layer_count,
             text_size(size, (double)m->weight_bytes), m->tune ? ", with its tune file" : "");
    if (m->tune_problem)
        log_line(log, HEARTH_LOG_WARNING, "%s: its tune file is ignored: %s", path, m->tune_problem);
    if (!m->tokenizer)
        log_line(log, HEARTH_LOG_WARNING, "%s: no tokenizer: %s", path, m->tokenizer_problem);
}

hearth_status hearth_model_open_sized(hearth_model **out, const char *path, const hearth_model_options *given,
                                      size_t options_size, hearth_error *error)
{
    checkpoint *source;
    hearth_model *model = NULL;
    hearth_model_options options;
    TRY(sized_read(&options, sizeof options, given, options_size, "hearth_model_options", error));
    if (!path || !*path)
        return fail(error, HEARTH_INVALID, "model: its path is %s", path ? "empty" : "NULL");
    TRY(model_open_checkpoint(&source, path, error));
    TRY(model_bind(&model, source, &options, error));
    hearth_status status = find_tune(model, path, options.tune, error);
    if (status != HEARTH_OK) {
        hearth_model_close(model);
        return status;
    }
    log_model(model, &options.log);
    *out = model;
    return HEARTH_OK;
}

/* The view is a copy of the struct; layers and tensors are those of `of`. */
hearth_status hearth_model_with_tune(hearth_model **out, const hearth_model *of, const char *path, hearth_error *error)
{
    hearth_model *m = mem_new(sizeof *m);
    if (!m)
        return fail_memory(error, "model", sizeof *m);
    *m = *of;
    m->is_view = true;
    m->memory = (arena){0};
    m->tune = NULL;
    m->tune_problem = NULL;
    hearth_status status = path ? attach_named(m, path, error) : HEARTH_OK;
    if (status == HEARTH_OK)
        *out = m;
    else
        hearth_model_close(m);
    return status;
}

void hearth_model_close(hearth_model *model)
{
    if (!model)
        return;
    tune_close(model->tune);
    if (!model->is_view) {
        spellings_destroy(model->spellings);
        tokenizer_destroy(model->tokenizer);
    }
    if (!model->is_view && model->owns_source)
        checkpoint_close(model->source);
    arena_clear(&model->memory);
    mem_free(model);
}

void hearth_model_describe_sized(const hearth_model *model, hearth_model_info *out, size_t out_size)
{
    const hyperparameters *h = &model->hyper;
    const attention_shape *a = model_first_attention(model);
    hearth_model_info own = {
        .path = model->source->path,
        .name = model->name,
        .family = model->family->name,
        .activation = ffn_activations[model->layers[0].ffn.activation].name,
        .layer_count = h->layer_count,
        .embedding_length = h->embedding_length,
        .neuron_count = model_largest(model).neurons,
        .head_count = a->head_count,
        .kv_head_count = a->kv_head_count,
        .head_length = a->head_length,
        .vocabulary_size = h->vocabulary_size,
        .context_length = h->context_length,
        .parameter_count = model->parameter_count,
        .weight_bytes = model->weight_bytes,
        .has_tokenizer = model->tokenizer != NULL,
        .bos = model->tokenizer ? tokenizer_bos(model->tokenizer) : -1,
        .eos = model->tokenizer ? tokenizer_eos(model->tokenizer) : -1,
        .neuron_major = model->neuron_major,
        .predictors = tune_predicts(model->tune, model),
        .tuned = model->tune != NULL,
        .tune_problem = model->tune_problem,
        .powerinfer = model->powerinfer,
        .predictor_threshold = h->predictor_threshold,
    };
    sized_write(out, out_size, &own, sizeof own);
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

layer_sizes model_largest(const hearth_model *model)
{
    layer_sizes s = {.connections = hyper_connections(&model->hyper)};
    /* Also those that no layer uses: their angles are computed, too. */
    for (uint32_t i = 0; i < model->rotary_count; i++)
        s.rotated += model->rotaries[i].pairs;
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        const attention_shape *a = &model->layers[i].attention;
        const recurrent_shape *r = &model->layers[i].recurrent;
        const ffn_shape *f = &model->layers[i].ffn;
        uint32_t used = f->router.expert_count > 0 ? f->router.used : 1;
        s.neurons = most(s.neurons, f->neuron_count);
        s.network = most(s.network, most(f->expert_neurons, f->shared_neurons));
        s.listed = most(s.listed, most(used * f->expert_neurons, f->shared_neurons));
        s.experts = most(s.experts, f->router.expert_count);
        s.used = most(s.used, f->router.used);
        s.expert = most(s.expert, f->router.expert_count > 0 ? f->expert_neurons : 0);
        s.query = most(s.query, query_width(a));
        s.result = most(s.result, result_width(a));
        s.latent_heads = most(s.latent_heads, a->compressed > 0 ? a->head_count : a->output_groups);
        s.query_rank = most(s.query_rank, a->query_rank);
        s.short_query = most(s.short_query, a->compressed > 0 ? a->head_count * short_query(a) : 0);
        s.head_in = most(s.head_in, most(a->unrotated, a->compressed));
        s.head_in = most(s.head_in, a->output_groups > 0 ? read_width(a) / a->output_groups : 0);
        s.head_out = most(s.head_out, most(most(a->compressed, a->value_length), a->output_rank));
        s.summary = most(s.summary, a->summary.parts * most(a->head_length, a->index.head_length));
        s.chosen = most(s.chosen, choice_limit(a));
        s.pooled = most(s.pooled, makes_pool_keys(a) ? a->index.head_length : 0);
        s.pool = most(s.pool, a->pool);
        s.choosers = most(s.choosers, choosers(a));
        s.index_heads = most(s.index_heads, a->index.head_count);
        s.index_length = most(s.index_length, a->index.head_length);
        s.gated_query =
            most(s.gated_query, layer_gates_in_query(&model->layers[i]) ? 2 * query_width(a) : gate_width(a));
        s.key = most(s.key, key_width(a));
        s.heads = most(s.heads, a->head_count);
        s.group = most(s.group, a->kv_head_count > 0 ? a->head_count / a->kv_head_count : 0);
        s.head_length = most(s.head_length, a->head_length);
        s.latent = most(s.latent, f->latent);
        s.recurrent = most(s.recurrent, recurrent_width(r));
        s.channels = most(s.channels, recurrent_channels(r));
        s.recurrent_heads = most(s.recurrent_heads, r->head_count);
        s.columns = most(s.columns, recurrent_by_columns(r) ? recurrent_width(r) : 0);
        for (size_t k = 0; k < LOW_RANK_MAPS; k++)
            s.low_rank = most(s.low_rank, r->ranks[k]);
    }
    return s;
}

const attention_shape *model_first_attention(const hearth_model *model)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        if (model->layers[i].mixer == MIXER_ATTENTION)
            return &model->layers[i].attention;
    return &model->layers[0].attention;
}

const attention_shape *model_first_choice(const hearth_model *model)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        if (model->layers[i].attention.chosen > 0)
            return &model->layers[i].attention;
    return model_first_attention(model);
}

uint32_t model_networks(const hearth_model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        count += model->layers[i].ffn.neuron_count > 0;
    return count;
}

uint32_t model_first_network(const hearth_model *model)
{
    uint32_t i = 0;
    while (i < model->hyper.layer_count && model->layers[i].ffn.neuron_count == 0)
        i++;
    return i < model->hyper.layer_count ? i : 0;
}

bool model_has_zeros(const hearth_model *model)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        if (ffn_skippable(&model->layers[i].ffn))
            return true;
    return false;
}

bool model_predictable(const hearth_model *model)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        if (model->layers[i].ffn.neuron_count > 0 && !ffn_predictable(&model->layers[i].ffn))
            return false;
    return model_has_zeros(model);
}

hearth_status model_need_tokenizer(const hearth_model *model, hearth_error *error)
{
    if (model->tokenizer)
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED, "%s: tokenizer: %s", model->source->path, model->tokenizer_problem);
}

hearth_status model_lacks_tune(const hearth_model *model, const char *reason, hearth_error *error)
{
    if (model->tune_problem)
        return fail(error, HEARTH_UNSUPPORTED, "%s: needs its tune file, which is ignored: %s", model->source->path,
                    model->tune_problem);
    return fail(error, HEARTH_UNSUPPORTED, "%s: %s", model->source->path, reason);
}
