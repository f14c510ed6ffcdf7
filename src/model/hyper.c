/* hyper.c - reads hyperparameters from keys and checks all of them.
 *
 * The limits are far above any known model and far below values that would overflow. A hostile file may state large
 * sizes, but then its tensors must have these shapes and lie in the file. */
#include "hyper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Largest width of q, k and v: the engine multiplies widths by batch sizes in 64 bits, and by head counts in 32
 * bits. */
static const uint64_t width_limit = (uint64_t)1 << 24;

#define FIELD(name) offsetof(hyperparameters, name)

// clang-format off
const size_setting size_settings[] = {
    /* key in GGUF               in config.json              field                     limit     file   folder */
    {"block_count",             "num_hidden_layers",       FIELD(layer_count),       1u << 12, true,  true},
    {"context_length",          "max_position_embeddings", FIELD(context_length),    1u << 30, true,  true},
    {"embedding_length",        "hidden_size",             FIELD(embedding_length),  1u << 20, true,  true},
    {"feed_forward_length",     "intermediate_size",       FIELD(neuron_count),      1u << 24, true,  true},
    {"attention.head_count",    "num_attention_heads",     FIELD(head_count),        1u << 16, true,  true},
    {"attention.head_count_kv", "num_key_value_heads",     FIELD(kv_head_count),     1u << 16, false, false},
    {"attention.key_length",    "head_dim",                FIELD(head_length),       1u << 16, false, false},
    {"vocab_size",              "vocab_size",              FIELD(vocabulary_size),   1u << 28, false, true},
};
// clang-format on
const size_t size_setting_count = sizeof size_settings / sizeof *size_settings;

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

/* What all functions below need. */
typedef struct hyper_reader {
    const family *family;
    const checkpoint *source;
    hearth_error *error;
} hyper_reader;

/* Accepts an array that has the same value for every layer as that value; other arrays are not supported. */
static hearth_status same_in_all_layers(const hyper_reader *r, const char *key, const key_value *e, uint32_t *out)
{
    const uint32_t *values = e->as.items;
    bool readable = (e->item_type == VALUE_U32 || e->item_type == VALUE_I32) && e->count > 0;
    for (uint64_t i = 0; readable && i < e->count; i++)
        if (values[i] != values[0])
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: key %s: differs between layers, which is not supported",
                        r->source->path, key);
    if (!readable)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is an array of %s, expected an integer", r->source->path, key,
                    value_type_name(e->item_type));
    *out = values[0];
    return HEARTH_OK;
}

/* Reads an integer under the family's key; *out is unchanged where the key is absent. found NULL: the key is
 * required. */
static hearth_status read_size(const hyper_reader *r, const char *name, uint32_t *out, bool *found)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *e = checkpoint_find(r->source, key);
    if (!e || e->type != VALUE_ARRAY)
        return checkpoint_get_u32(r->source, key, out, found, r->error);
    if (found)
        *found = true;
    return same_in_all_layers(r, key, e, out);
}

/* Reads a positive finite number under the family's key; *out is unchanged where the key is absent. found NULL: the
 * key is required. */
static hearth_status read_positive(const hyper_reader *r, const char *name, float *out, bool *found)
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

/* Reports an error about the family's key `name`. */
static hearth_status fail_key(const hyper_reader *r, hearth_status status, const char *name, const char *reason)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    return fail(r->error, status, "%s: key %s: %s", r->source->path, key, reason);
}

/* Reads all sizes of size_settings; absent optional ones stay 0. */
static hearth_status read_sizes(const hyper_reader *r, hyperparameters *h)
{
    for (size_t i = 0; i < size_setting_count; i++) {
        const size_setting *s = &size_settings[i];
        uint32_t *field = (uint32_t *)((char *)h + s->field);
        bool found = true;
        TRY(read_size(r, s->key, field, s->in_file ? NULL : &found));
        char key[KEY_SIZE];
        hyper_key(key, r->family, s->key);
        if (found)
            TRY(hyper_check_size(s, *field, r->source->path, "key ", key, r->error));
    }
    return HEARTH_OK;
}

/* Derives the head sizes that the file left out, and checks that all fit together. */
static hearth_status derive_heads(const hyper_reader *r, hyperparameters *h)
{
    if (h->kv_head_count == 0)
        h->kv_head_count = h->head_count;
    if (h->head_count % h->kv_head_count != 0)
        return fail_key(r, HEARTH_FORMAT, "attention.head_count_kv", "does not divide attention.head_count");
    if (h->head_length == 0) {
        if (h->embedding_length % h->head_count != 0)
            return fail_key(r, HEARTH_FORMAT, "attention.head_count", "does not divide embedding_length");
        h->head_length = h->embedding_length / h->head_count;
    }
    if (h->head_length % 2 != 0)
        return fail_key(r, HEARTH_FORMAT, "attention.key_length", "is odd: values are rotated in pairs");
    if ((uint64_t)h->head_count * h->head_length > width_limit)
        return fail_key(r, HEARTH_FORMAT, "attention.head_count", "times the length of a head is too large");
    uint32_t value_length = h->head_length;
    bool found;
    TRY(read_size(r, "attention.value_length", &value_length, &found));
    if (value_length != h->head_length)
        return fail_key(r, HEARTH_UNSUPPORTED, "attention.value_length",
                        "differs from attention.key_length, which is not supported");
    return HEARTH_OK;
}

/* Derives the size of the vocabulary from the rows of the embedding where the file has no vocab_size. */
static hearth_status derive_vocabulary(const hyper_reader *r, hyperparameters *h)
{
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

/* Reads the sliding window, the scale on q . k, and the number of rotated pairs. */
static hearth_status read_attention(const hyper_reader *r, hyperparameters *h)
{
    bool found;
    TRY(read_size(r, "attention.sliding_window", &h->sliding_window, &found));
    h->attention_scale = (float)(1 / sqrt((double)h->head_length));
    TRY(read_positive(r, "attention.scale", &h->attention_scale, &found));
    uint32_t pairs2 = h->head_length;
    TRY(read_size(r, "rope.dimension_count", &pairs2, &found));
    if (pairs2 == 0 || pairs2 % 2 != 0 || pairs2 > h->head_length)
        return fail_key(r, HEARTH_FORMAT, "rope.dimension_count",
                        "is not an even number from 2 to the length of a head");
    h->rope_pairs = pairs2 / 2;
    return HEARTH_OK;
}

/* Reads the FFN activation. llama.cpp derives it from the architecture; files of ReLU models name it; PowerInfer's
 * files are all ReLU. */
static hearth_status read_activation(const hyper_reader *r, hyperparameters *h, const char *override)
{
    char key[KEY_SIZE], known[128];
    hyper_key(key, r->family, "hidden_activation");
    span name = span_of(ffn_activations[r->source->powerinfer ? FFN_RELU : r->family->activation].name);
    bool found;
    TRY(checkpoint_get_string(r->source, key, &name, &found, r->error));
    if (override)
        name = span_of(override);
    h->activation = ffn_activation_by_name(name.data, name.size);
    ffn_activation_list(known, sizeof known);
    if (h->activation == FFN_ACTIVATION_COUNT && override)
        return fail(r->error, HEARTH_INVALID, "FFN activation %s: is not known (there are: %s)", override, known);
    if (h->activation == FFN_ACTIVATION_COUNT)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: key %s: %.*s is not supported (known: %s)", r->source->path, key,
                    name.size < 100 ? (int)name.size : 100, name.data, known);
    if (!ffn_activations[h->activation].has_threshold)
        return HEARTH_OK;
    hyper_key(key, r->family, "hidden_activation_param");
    TRY(checkpoint_get_f32(r->source, key, &h->activation_threshold, NULL, r->error));
    if (!isfinite(h->activation_threshold) || h->activation_threshold < 0)
        return fail_key(r, HEARTH_FORMAT, "hidden_activation_param", "is not a threshold of 0 or more");
    return HEARTH_OK;
}

/* Reads the score at which a predictor lets a neuron through. It is PowerInfer's key, without the family's prefix. */
static hearth_status read_predictor(const hyper_reader *r, hyperparameters *h)
{
    static const char key[] = "powerinfer.sparse_threshold";
    bool found;
    TRY(checkpoint_get_f32(r->source, key, &h->predictor_threshold, &found, r->error));
    if (!isfinite(h->predictor_threshold))
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is not a finite number", r->source->path, key);
    return HEARTH_OK;
}

/* Refuses GGUF settings that would change the result and that no supported family has. */
static hearth_status refuse_unknown(const hyper_reader *r)
{
    uint32_t experts = 0, parts = 1;
    bool found, causal = true;
    TRY(read_size(r, "expert_count", &experts, &found));
    if (experts > 0)
        return fail_key(r, HEARTH_UNSUPPORTED, "expert_count", "mixtures of experts are not supported yet");
    char key[KEY_SIZE];
    hyper_key(key, r->family, "attention.causal");
    TRY(checkpoint_get_bool(r->source, key, &causal, &found, r->error));
    if (!causal)
        return fail_key(r, HEARTH_UNSUPPORTED, "attention.causal", "models that see the future are not supported");
    TRY(checkpoint_get_u32(r->source, "split.count", &parts, &found, r->error));
    if (parts > 1)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: key split.count: is %u: split files are not read yet (llama-gguf-split --merge joins them)",
                    r->source->path, parts);
    return HEARTH_OK;
}

hearth_status hyper_read(hyperparameters *out, const family *f, const checkpoint *c, const char *activation,
                         hearth_error *error)
{
    const hyper_reader r = {f, c, error};
    hyperparameters h = {.rope_magnitude = 1, .gating = f->gating};
    TRY(refuse_unknown(&r));
    TRY(read_sizes(&r, &h));
    TRY(derive_heads(&r, &h));
    TRY(derive_vocabulary(&r, &h));
    TRY(read_attention(&r, &h));
    TRY(read_positive(&r, "attention.layer_norm_rms_epsilon", &h.norm_epsilon, NULL));
    TRY(read_activation(&r, &h, activation));
    TRY(read_predictor(&r, &h));
    *out = h;
    return HEARTH_OK;
}

uint64_t hyper_dimension(const hyperparameters *h, dimension d)
{
    const uint64_t values[DIMENSION_COUNT] = {
        [DIMENSION_NONE] = 1,
        [DIMENSION_EMBEDDING] = h->embedding_length,
        [DIMENSION_NEURONS] = h->neuron_count,
        [DIMENSION_QUERY] = (uint64_t)h->head_count * h->head_length,
        [DIMENSION_KEY] = (uint64_t)h->kv_head_count * h->head_length,
        [DIMENSION_VOCABULARY] = h->vocabulary_size,
        [DIMENSION_ROPE_PAIRS] = h->rope_pairs,
        [DIMENSION_HEADS] = h->head_count,
        [DIMENSION_KV_HEADS] = h->kv_head_count,
    };
    return values[d];
}
