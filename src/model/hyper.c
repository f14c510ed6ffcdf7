/* hyper.c - reads hyperparameters from keys and checks all of them.
 *
 * The limits are far above any known model and far below values that would overflow. A hostile file may state large
 * sizes, but then its tensors must have these shapes and lie in the file. */
#include "hyper_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Most values of the inputs of a layer's own, of all layers together. */
#define PER_LAYER_LIMIT (1u << 24)

#define MODEL(name) false, offsetof(hyperparameters, name)
#define LAYER(name) true, offsetof(model_layer, name)

// clang-format off
const size_setting size_settings[] = {
    /* key in GGUF               in config.json                                 field                           limit     file   folder */
    {"block_count",             {"num_hidden_layers", "n_layer", "num_layers"}, MODEL(layer_count),             1u << 12, true,  true},
    {"context_length",          {"max_position_embeddings", "n_positions", "model_max_length"}, MODEL(context_length),          1u << 30, true,  true},
    {"embedding_length",        {"hidden_size", "n_embd"},                      MODEL(embedding_length),        1u << 20, true,  true},
    {"vocab_size",              {"vocab_size"},                                 MODEL(vocabulary_size),         1u << 28, false, true},
    {"feed_forward_length",     {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "moe_ffn_hidden_size",
                                 "intermediate_size_mlp", "block_ff_dim", "prefix_dense_intermediate_size",
                                 "dense_intermediate_size"},
                                                                                LAYER(ffn.neuron_count),        NEURON_LIMIT, true,  true},
    {"attention.head_count",    {"num_attention_heads", "n_head"},              LAYER(attention.head_count),    1u << 16, true,  true},
    {"attention.head_count_kv", {"num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"},
                                                                                LAYER(attention.kv_head_count), 1u << 16, false, false},
    {"attention.key_length",    {"head_dim", "attention_head_dim"},             LAYER(attention.head_length),   HEAD_LIMIT, false, false},
};
// clang-format on
const size_t size_setting_count = sizeof size_settings / sizeof *size_settings;

uint32_t *size_field(const size_setting *s, hyperparameters *h, model_layer *l)
{
    return (uint32_t *)(s->of_layer ? (char *)l + s->field : (char *)h + s->field);
}

void hyper_key(char out[KEY_SIZE], const family *f, const char *name)
{
    snprintf(out, KEY_SIZE, "%s.%s", f->name, name);
}

hearth_status hyper_check_size(const size_setting *s, uint32_t value, const char *where, const char *what,
                               const char *key, hearth_error *error)
{
    if (value >= 1 && value <= s->limit)
        return HEARTH_OK;
    return fail(error, HEARTH_FORMAT, "%s: %s%s: is %u, expected 1 to %u", where, what, key, value, s->limit);
}

/* Returns an integer of an array over the layers, checked to be one. */
static hearth_status read_item(const hyper_reader *r, const char *key, const key_value *e, uint32_t layer,
                               uint32_t *out)
{
    if ((e->item_type != VALUE_U32 && e->item_type != VALUE_I32) || e->count == 0)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is an array of %s, expected an integer", r->source->path, key,
                    value_type_name(e->item_type));
    uint32_t layers = r->hyper->layer_count + r->hyper->draft_layers;
    if (e->count != layers)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: has %llu items, the model has %u layers", r->source->path,
                    key, (unsigned long long)e->count, layers);
    *out = ((const uint32_t *)e->as.items)[layer];
    return HEARTH_OK;
}

hearth_status hyper_layer_size(const hyper_reader *r, const char *name, uint32_t layer, uint32_t *out, bool *found)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *e = checkpoint_find(r->source, key);
    if (!e || e->type != VALUE_ARRAY)
        return checkpoint_get_u32(r->source, key, out, found, r->error);
    if (found)
        *found = true;
    return read_item(r, key, e, layer, out);
}

hearth_status hyper_size(const hyper_reader *r, const char *name, uint32_t *out, bool *found)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return checkpoint_get_u32(r->source, key, out, found, r->error);
}

hearth_status hyper_positive(const hyper_reader *r, const char *name, float *out, bool *found)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    float value = 1;
    TRY(checkpoint_get_f32(r->source, key, &value, found, r->error));
    if (!isfinite(value) || !(value > 0))
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is %g, expected a positive number", r->source->path, key,
                    (double)value);
    if (!found || *found)
        *out = value;
    return HEARTH_OK;
}

const stored_tensor *hyper_layer_tensor(const hyper_reader *r, const char *pattern, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    snprintf(name, sizeof name, pattern, layer);
    return checkpoint_find_tensor(r->source, name);
}

hearth_status hyper_fail(const hyper_reader *r, hearth_status status, const char *name, const char *reason)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return fail(r->error, status, "%s: key %s: %s", r->source->path, key, reason);
}

bool hyper_requires(const size_setting *s, const family *f, bool folder)
{
    bool neurons = s->of_layer && s->field == offsetof(model_layer, ffn.neuron_count);
    bool elsewhere = (f->expert_width && !family_has_network(f, false)) || (folder && f->mixers == MIXERS_PARTS);
    bool heads = s->of_layer && s->field == offsetof(model_layer, attention.head_count);
    return (folder ? s->in_folder : s->in_file) && !(neurons && elsewhere) && !(heads && f->mixers == MIXERS_RECURRENT);
}

/* Reads one row of size_settings, for one layer where it is a layer's; an absent optional size stays 0. */
static hearth_status read_setting(const hyper_reader *r, const size_setting *s, uint32_t layer)
{
    uint32_t *field = size_field(s, r->hyper, s->of_layer ? &r->model->layers[layer] : NULL);
    bool found = true, *optional = hyper_requires(s, r->family, false) ? NULL : &found;
    TRY(s->of_layer ? hyper_layer_size(r, s->key, layer, field, optional) : hyper_size(r, s->key, field, optional));
    char key[KEY_SIZE];
    hyper_key(key, r->family, s->key);
    bool says_what_not =
        r->family->mixers == MIXERS_BLOCKS || r->family->mixers == MIXERS_PARTS ||
        (r->family->mixers == MIXERS_KEYS && s->field == offsetof(model_layer, attention.kv_head_count)) ||
        (r->family->mixers == MIXERS_RECURRENT && s->field == offsetof(model_layer, attention.head_count));
    if (s->of_layer && *field == 0 && says_what_not)
        return HEARTH_OK; /* says what the layer is not */
    return found ? hyper_check_size(s, *field, r->source->path, "key ", key, r->error) : HEARTH_OK;
}

/* Reads the sizes of the model, makes its layers, and reads theirs. */
static hearth_status read_sizes(const hyper_reader *r)
{
    for (size_t i = 0; i < size_setting_count; i++)
        if (!size_settings[i].of_layer)
            TRY(read_setting(r, &size_settings[i], 0));
    bool found;
    TRY(hyper_size(r, "nextn_predict_layers", &r->hyper->draft_layers, &found));
    if (r->hyper->draft_layers >= r->hyper->layer_count)
        return hyper_fail(r, HEARTH_FORMAT, "nextn_predict_layers", "is not below block_count");
    r->hyper->layer_count -= r->hyper->draft_layers;
    size_t layers = r->hyper->layer_count;
    r->model->layers = arena_new_array(&r->model->memory, layers, sizeof *r->model->layers);
    if (!r->model->layers)
        return fail_memory(r->error, "layers", layers * sizeof *r->model->layers);
    for (size_t i = 0; i < size_setting_count; i++)
        for (uint32_t layer = 0; size_settings[i].of_layer && layer < layers; layer++)
            TRY(read_setting(r, &size_settings[i], layer));
    return HEARTH_OK;
}

hearth_status hyper_layer_bool(const hyper_reader *r, const char *name, uint32_t layer, bool *out, bool *found)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *e = checkpoint_find(r->source, key);
    *found = e && e->type == VALUE_ARRAY;
    if (!*found)
        return HEARTH_OK;
    bool numbers = e->item_type == VALUE_U32 || e->item_type == VALUE_I32; /* as llama.cpp saves what it has read */
    if ((e->item_type != VALUE_BOOL && !numbers) ||
        (e->count != r->hyper->layer_count && /* some leave out what guesses ahead */
         e->count != r->hyper->layer_count + r->hyper->draft_layers))
        return hyper_fail(r, HEARTH_FORMAT, name, "is not an array of one boolean per layer");
    *out = numbers ? ((const uint32_t *)e->as.items)[layer] != 0 : ((const uint8_t *)e->as.items)[layer] != 0;
    return HEARTH_OK;
}

/* Derives the size of the vocabulary from the rows of the embedding where the file has no vocab_size. */
static hearth_status derive_vocabulary(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    for (size_t i = 0; h->vocabulary_size == 0 && i < r->family->tensor_count; i++) {
        const tensor_rule *rule = &r->family->tensors[i];
        if (!(rule->flags & TENSOR_EMBEDDING))
            continue;
        const stored_tensor *t = checkpoint_find_tensor(r->source, rule->name);
        if (!t || t->rank != 2)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is %s", r->source->path, rule->name,
                        t ? "not a matrix" : "missing");
        if (t->shape[1] < 1 || t->shape[1] > INT32_MAX)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: has %llu rows", r->source->path, rule->name,
                        (unsigned long long)t->shape[1]);
        h->vocabulary_size = (uint32_t)t->shape[1];
    }
    return HEARTH_OK;
}

hearth_status hyper_cap(const hyper_reader *r, const char *name, float known, float *out)
{
    char key[KEY_SIZE];
    bool found;
    *out = known;
    hyper_key(key, r->family, name);
    TRY(checkpoint_get_f32(r->source, key, out, &found, r->error));
    if (!isfinite(*out) || *out < 0)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is %g, expected a positive number, or 0 for none",
                    r->source->path, key, (double)*out);
    return HEARTH_OK;
}

/* Reads which row of the table of positions is that of position 0. PowerInfer's files hold the whole table, and
 * context_length is the number of its rows. */
static hearth_status read_positions(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    bool found;
    h->position_offset = r->source->powerinfer ? r->family->dropped_positions : 0;
    TRY(checkpoint_get_u32(r->source, "hearth.pack.position_offset", &h->position_offset, &found, r->error));
    if (h->position_offset >= h->context_length)
        return hyper_fail(r, HEARTH_FORMAT, "context_length", "leaves no position after those that are not used");
    h->context_length -= h->position_offset;
    return HEARTH_OK;
}

/* Reads the epsilon of the norms. PowerInfer's files of OPT have none: it computes with 0. */
static hearth_status read_epsilon(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    static const char *const names[] = {
        [NORM_RMS] = "attention.layer_norm_rms_epsilon", [NORM_LAYER] = "attention.layer_norm_epsilon"};
    char key[KEY_SIZE];
    hyper_key(key, r->family, names[NORM_RMS]);
    h->norm = r->family->norm_by_key && checkpoint_find(r->source, key) ? NORM_RMS : r->family->norm;
    bool found, rms = h->norm == NORM_RMS;
    hyper_key(key, r->family, names[h->norm]);
    TRY(checkpoint_get_f32(r->source, key, &h->norm_epsilon, r->source->powerinfer && !rms ? &found : NULL, r->error));
    if (!isfinite(h->norm_epsilon) || h->norm_epsilon < 0 || (rms && h->norm_epsilon == 0))
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is %g, expected a positive number", r->source->path, key,
                    (double)h->norm_epsilon);
    h->post_epsilon = r->family->post_epsilon > 0 ? r->family->post_epsilon : h->norm_epsilon;
    h->embedding_norm = r->family->embedding_norm;
    h->latent_epsilon = r->family->latent_alike ? h->norm_epsilon : 1e-6f;
    h->index_epsilon = r->family->index_alike ? h->norm_epsilon : 1e-6f;
    return r->family->post_epsilon > 0 ? hyper_positive(r, POST_EPSILON_KEY, &h->post_epsilon, &found) : HEARTH_OK;
}

/* Reads the factors on embeddings, blocks and logits. */
static hearth_status read_scales(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    bool found = false, *optional = r->family->scaled ? NULL : &found;
    float logit_scale = r->family->logit_factor > 0 ? r->family->logit_factor : 1;
    h->embedding_scale = r->family->embedding_by_width ? sqrtf((float)h->embedding_length) : 1;
    h->residual_scale = 1;
    TRY(hyper_positive(r, "embedding_scale", &h->embedding_scale, optional));
    TRY(hyper_positive(r, "residual_scale", &h->residual_scale, optional));
    TRY(hyper_positive(r, "logit_scale", &logit_scale, optional));
    h->logit_scale = r->family->logit_factor > 0 ? logit_scale : 1 / logit_scale;
    return hyper_cap(r, "final_logit_softcapping", r->family->logit_cap, &h->logit_softcap);
}

/* Reads the score at which a predictor lets a neuron through. It is PowerInfer's key, without the family's prefix. */
static hearth_status read_predictor(const hyper_reader *r)
{
    static const char key[] = "powerinfer.sparse_threshold";
    bool found;
    TRY(checkpoint_get_f32(r->source, key, &r->hyper->predictor_threshold, &found, r->error));
    if (!isfinite(r->hyper->predictor_threshold))
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is not a finite number", r->source->path, key);
    return HEARTH_OK;
}

/* Reads the sizes of inputs of the layers' own. Their vocabulary is that of the tensor's rows. */
static hearth_status read_per_layer(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    bool found;
    TRY(hyper_size(r, "embedding_length_per_layer_input", &h->per_layer_length, &found));
    if ((uint64_t)h->per_layer_length * h->layer_count > PER_LAYER_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "embedding_length_per_layer_input", "is too large");
    const stored_tensor *t = checkpoint_find_tensor(r->source, PER_LAYER_TOKENS);
    h->per_layer_vocabulary = h->vocabulary_size;
    if (h->per_layer_length > 0 && t && t->rank == 2 && t->shape[1] > 0 && t->shape[1] < h->vocabulary_size)
        h->per_layer_vocabulary = (uint32_t)t->shape[1];
    return HEARTH_OK;
}

/* Most times that the mixtures of streams are divided by sums; largest rank of gates. */
#define STEP_LIMIT 1000
#define RANK_LIMIT (1u << 16)

/* Reads the streams of the residual that blocks are connected with (stream_connection, gated_connection). */
static hearth_status read_connections(const hyper_reader *r)
{
    static const char count_key[] = "hyper_connection.count", steps_key[] = "hyper_connection.sinkhorn_iterations",
                      epsilon_key[] = "hyper_connection.epsilon", rank_key[] = "hyper_connection.low_rank",
                      magnitude_key[] = "hyper_connection.magnitude";
    hyperparameters *h = r->hyper;
    char key[KEY_SIZE];
    TRY(hyper_size(r, count_key, &h->stream_count, NULL));
    if (h->stream_count < 2 || h->stream_count > STREAM_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, count_key, "is not a number from 2 to 8");
    if (r->family->gated_connections) {
        TRY(hyper_size(r, rank_key, &h->connection_rank, NULL));
        return h->connection_rank > 0 && h->connection_rank <= RANK_LIMIT
                   ? HEARTH_OK
                   : hyper_fail(r, HEARTH_FORMAT, rank_key, "is 0 or too large");
    }
    h->connection_magnitude = 2;
    if (r->family->unmixed_streams)
        TRY(hyper_positive(r, magnitude_key, &h->connection_magnitude, NULL));
    else
        TRY(hyper_size(r, steps_key, &h->connection_steps, NULL));
    hyper_key(key, r->family, epsilon_key);
    TRY(checkpoint_get_f32(r->source, key, &h->connection_epsilon, NULL, r->error));
    if (!r->family->unmixed_streams && (h->connection_steps < 1 || h->connection_steps > STEP_LIMIT))
        return hyper_fail(r, HEARTH_FORMAT, steps_key, "is 0 or too large");
    if (!(h->connection_epsilon > 0 && h->connection_epsilon < 1))
        return hyper_fail(r, HEARTH_FORMAT, epsilon_key, "is not a number between 0 and 1");
    return HEARTH_OK;
}

/* Reads the streams of the residual. */
static hearth_status read_streams(const hyper_reader *r)
{
    hyperparameters *h = r->hyper;
    bool found;
    h->stream_count = 1;
    if (r->family->wiring == WIRING_CONNECTED)
        return read_connections(r);
    if (r->family->wiring != WIRING_STREAMS)
        return HEARTH_OK;
    TRY(hyper_size(r, "altup.num_inputs", &h->stream_count, NULL));
    TRY(hyper_size(r, "altup.active_idx", &h->active_stream, &found));
    if (h->stream_count < 2 || h->stream_count > STREAM_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "altup.num_inputs", "is not a number from 2 to 8");
    if (h->active_stream >= h->stream_count)
        return hyper_fail(r, HEARTH_FORMAT, "altup.active_idx", "is not below altup.num_inputs");
    const stored_tensor *t = checkpoint_find_tensor(r->source, FIRST_LAUREL); /* no key has the rank */
    h->laurel_rank = t && t->shape[1] < h->embedding_length ? (uint32_t)t->shape[1] : h->embedding_length;
    return HEARTH_OK;
}

/* Refuses GGUF settings that would change the result and that no supported family has. */
static hearth_status refuse_unknown(const hyper_reader *r)
{
    bool found, causal = true;
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.causal");
    TRY(checkpoint_get_bool(r->source, key, &causal, &found, r->error));
    if (!causal)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.causal", "models that see the future are not supported");
    bool rotates = false;
    hyper_key(key, r->family, "rope.scaling.finetuned");
    TRY(checkpoint_get_bool(r->source, key, &rotates, &found, r->error));
    if (rotates && r->family->mixers == MIXERS_KEYS &&
        r->family->unrotated) /* there it says whether anything is rotated */
        return hyper_fail(r, HEARTH_UNSUPPORTED, "rope.scaling.finetuned", "layers that rotate are not supported");
    return HEARTH_OK;
}

/* Reads how the blocks of layers change the residual stream. */
static hearth_status read_wiring(const hyper_reader *r, layer_wiring *out)
{
    bool found, parallel = true;
    char key[KEY_SIZE];
    *out = r->family->wiring;
    if (!r->family->wiring_said)
        return HEARTH_OK;
    hyper_key(key, r->family, PARALLEL_KEY);
    TRY(checkpoint_get_bool(r->source, key, &parallel, &found, r->error));
    *out = parallel ? r->family->wiring : WIRING_SEQUENTIAL;
    return HEARTH_OK;
}

hearth_status hyper_read(hearth_model *model, const char *activation, hearth_error *error)
{
    const family *f = model->family;
    const hyper_reader r = {f, model->source, model, &model->hyper, error};
    ffn_shape ffn = {.gating = f->gating};
    layer_wiring wiring;
    TRY(refuse_unknown(&r));
    TRY(read_wiring(&r, &wiring));
    TRY(read_sizes(&r));
    TRY(derive_vocabulary(&r));
    TRY(hyper_read_activation(&r, &ffn, activation));
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        model_layer *l = &model->layers[i];
        TRY(hyper_find_mixer(&r, i));
        if (l->mixer == MIXER_RECURRENT)
            TRY(hyper_read_recurrent(&r, i));
        if (l->mixer == MIXER_ATTENTION) {
            TRY(hyper_read_heads(&r, i));
            TRY(hyper_read_attention(&r, i));
            TRY(f->summaries ? hyper_read_summaries(&r, i) : hyper_read_choice(&r, i));
        }
        ffn.neuron_count = ffn.expert_neurons = l->ffn.neuron_count;
        ffn.shared_threshold = ffn.threshold;
        l->ffn = ffn;
        l->wiring = wiring;
    }
    TRY(hyper_read_networks(&r));
    TRY(hyper_read_shared_keys(&r));
    TRY(read_streams(&r));
    TRY(f->ngrams ? hyper_read_ngrams(&r) : read_per_layer(&r)); /* both have a key for the length of a row */
    TRY(hyper_read_rotation(&r));
    TRY(read_scales(&r));
    TRY(hyper_read_growth(&r));
    TRY(read_positions(&r));
    TRY(read_epsilon(&r));
    return read_predictor(&r);
}

uint32_t hyper_connections(const hyperparameters *h)
{
    if (h->connection_rank > 0)
        return h->stream_count;
    uint32_t mixed = h->connection_steps > 0 ? h->stream_count : 0;
    return h->connection_magnitude > 0 ? h->stream_count * (2 + mixed) : 0;
}

float hyper_score_gain(const hyperparameters *h, uint32_t position)
{
    if (!(h->score_growth > 0))
        return 0;
    uint32_t times = (position + h->score_growth_ahead) / h->score_growth_from;
    return h->score_growth * logf(1 + (float)times);
}

bool hyper_meets_needs(const hyperparameters *h, const model_layer *l, unsigned needs)
{
    bool windowed = l->attention.window > 0;
    unsigned has =
        (l->attention.query_rank > 0 ? NEEDS_QUERY_RANK : NEEDS_NO_QUERY_RANK) |
        (windowed ? NEEDS_WINDOW : NEEDS_NO_WINDOW) | (l->attention.keys_back > 0 ? 0 : NEEDS_OWN_KEYS) |
        (h->per_layer_length > 0 ? NEEDS_PER_LAYER : 0) | (l->recurrent.ranks[MAP_VALUE] > 0 ? NEEDS_VALUE_RANK : 0) |
        (l->attention.index.head_count > 0 ? NEEDS_INDEX : 0) | (l->ngrams ? NEEDS_NGRAMS : 0) |
        (h->ngrams.longest > 0 ? NEEDS_NGRAM_TABLES : 0) | (l->attention.summary.together > 0 ? NEEDS_SUMMARIES : 0) |
        (l->ffn.router.by_token ? NEEDS_TOKEN_EXPERTS : NEEDS_CHOSEN_EXPERTS);
    return (needs & ~has & ~(unsigned)NEEDS_OR_UNUSED) == 0;
}

uint64_t hyper_dimension(const hyperparameters *h, const model_layer *l, dimension d)
{
    const attention_shape *a = &l->attention;
    const recurrent_shape *r = &l->recurrent;
    const uint64_t values[DIMENSION_COUNT] = {
        [DIMENSION_NONE] = 1,
        [DIMENSION_EMBEDDING] = h->embedding_length,
        [DIMENSION_NEURONS] = ffn_routed(&l->ffn),
        [DIMENSION_GATE_UP] = (uint64_t)2 * ffn_routed(&l->ffn),
        [DIMENSION_EXPERTS] = l->ffn.router.expert_count,
        [DIMENSION_EXPERT_NEURONS] = l->ffn.expert_neurons,
        [DIMENSION_SHARED_NEURONS] = l->ffn.shared_neurons,
        [DIMENSION_QUERY] = query_width(a),
        [DIMENSION_RESULT] = result_width(a),
        [DIMENSION_VALUES] = value_width(a),
        [DIMENSION_QUERY_RANK] = a->query_rank,
        [DIMENSION_SHORT_QUERY] = (uint64_t)a->head_count * short_query(a),
        [DIMENSION_COMPRESSED_KEY] = a->head_length,
        [DIMENSION_COMPRESSED] = a->compressed,
        [DIMENSION_UNROTATED] = a->unrotated,
        [DIMENSION_KEY_VALUE_UP] = (uint64_t)a->head_count * (a->unrotated + (uint64_t)a->value_length),
        [DIMENSION_VALUE] = a->value_length,
        [DIMENSION_INDEX_QUERY] = (uint64_t)a->index.head_count * a->index.head_length,
        [DIMENSION_INDEX_HEADS] = a->index.head_count,
        [DIMENSION_INDEX_LENGTH] = a->index.head_length,
        [DIMENSION_POOL] = a->pool,
        [DIMENSION_SUMMARY] = (uint64_t)a->summary.parts * key_width(a),
        [DIMENSION_TOGETHER] = a->summary.together,
        [DIMENSION_INDEX_SUMMARY] = (uint64_t)a->summary.parts * a->index.head_length,
        [DIMENSION_OUTPUT_GROUP] = a->output_groups > 0 ? read_width(a) / a->output_groups : 0,
        [DIMENSION_EXPERTS_USED] = l->ffn.router.used,
        [DIMENSION_GATED_QUERY] = 2 * (uint64_t)query_width(a),
        [DIMENSION_GATES] = gate_width(a),
        [DIMENSION_KEY] = key_width(a),
        [DIMENSION_QKV] = (uint64_t)query_width(a) + key_width(a) + value_width(a),
        [DIMENSION_HEAD] = a->head_length,
        [DIMENSION_VOCABULARY] = h->vocabulary_size,
        [DIMENSION_POSITIONS] = (uint64_t)h->position_offset + h->context_length,
        [DIMENSION_ROPE_PAIRS] = h->rope_pairs,
        [DIMENSION_WINDOW_PAIRS] = h->window_rope_pairs,
        [DIMENSION_HEADS] = a->head_count,
        [DIMENSION_KV_HEADS] = a->kv_head_count,
        [DIMENSION_LATENT] = ffn_expert_width(&l->ffn, h->embedding_length),
        [DIMENSION_RECURRENT_IN] = (uint64_t)recurrent_width(r) + recurrent_channels(r) + r->head_count,
        [DIMENSION_DELTA_IN] = (uint64_t)recurrent_width(r) + recurrent_channels(r),
        [DIMENSION_SHORT_IN] = (uint64_t)2 * recurrent_width(r) + recurrent_channels(r),
        [DIMENSION_BETA_STEP] = (uint64_t)2 * r->head_count,
        [DIMENSION_RECURRENT_WIDTH] = recurrent_width(r),
        [DIMENSION_RECURRENT_HEADS] = r->head_count,
        [DIMENSION_RECURRENT_VALUE] = r->value_length,
        [DIMENSION_RECURRENT_GROUPS] = r->key_count,
        [DIMENSION_RECURRENT_GROUP] = r->key_count > 0 ? recurrent_width(r) / r->key_count : 0,
        [DIMENSION_CHANNELS] = recurrent_channels(r),
        [DIMENSION_CONVOLUTION] = r->window,
        [DIMENSION_MIXTURES] = RWKV_INPUTS,
        [DIMENSION_DECAY_RANK] = r->ranks[MAP_DECAY],
        [DIMENSION_RATE_RANK] = r->ranks[MAP_RATE],
        [DIMENSION_VALUE_RANK] = r->ranks[MAP_VALUE],
        [DIMENSION_GATE_RANK] = r->ranks[MAP_GATE],
        [DIMENSION_EXPERT_GATE_UP] = (uint64_t)2 * l->ffn.expert_neurons,
        [DIMENSION_PER_LAYER] = h->per_layer_length,
        [DIMENSION_PER_LAYERS] = (uint64_t)h->per_layer_length * h->layer_count,
        [DIMENSION_PER_LAYER_VOCABULARY] = h->per_layer_vocabulary,
        [DIMENSION_STREAMS] = h->stream_count,
        [DIMENSION_OTHER_STREAMS] = h->stream_count - 1,
        [DIMENSION_STREAM_PAIRS] = (uint64_t)h->stream_count * h->stream_count,
        [DIMENSION_LAUREL] = h->laurel_rank,
        [DIMENSION_ALL_STREAMS] = (uint64_t)h->stream_count * h->embedding_length,
        [DIMENSION_CONNECTIONS] = hyper_connections(h),
        [DIMENSION_CONNECTION_SCALES] = h->connection_steps > 0 ? CONNECTION_SCALES : 2,
        [DIMENSION_CONNECTION_RANK] = h->connection_rank,
        [DIMENSION_NGRAM_ROWS] = h->ngrams.row_count,
        [DIMENSION_NGRAM_LENGTH] = h->ngrams.row_length,
        [DIMENSION_NGRAM_WINDOW] = h->ngrams.window,
    };
    return values[d];
}
