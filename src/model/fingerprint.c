/* fingerprint.c - computes a model's fingerprint, part by part. */
#include "fingerprint.h"

#include "hyper.h"

/* To be increased whenever the covered parts change: old fingerprints then match no model any more. */
#define FINGERPRINT_VERSION 1

static void add_floats(hash128 *h, const float *values, uint64_t count)
{
    hash_number(h, count);
    hash_bytes(h, values, (size_t)count * sizeof *values);
}

/* Adds the frequencies, rounded to float32: they come from pow(), whose last bit differs between C libraries. */
static void add_frequencies(hash128 *h, const hyperparameters *y)
{
    hash_number(h, y->rope_pairs);
    for (uint32_t i = 0; i < y->rope_pairs; i++) {
        float frequency = (float)y->rope_frequencies[i];
        hash_bytes(h, &frequency, sizeof frequency);
    }
}

/* Adds the hyperparameters. Rows of tables are added by name, because their numbers may change when a table grows. */
static void add_hyper(hash128 *h, const hearth_model *m)
{
    const hyperparameters *y = &m->hyper;
    const uint64_t sizes[] = {y->layer_count,   y->embedding_length, y->neuron_count,    y->head_count,
                              y->kv_head_count, y->head_length,      y->vocabulary_size, y->sliding_window};
    const float constants[] = {y->norm_epsilon, y->activation_threshold, y->attention_scale, y->rope_magnitude};
    hash_text(h, m->family->name);
    hash_text(h, ffn_activations[y->activation].name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hash_number(h, sizes[i]);
    add_floats(h, constants, sizeof constants / sizeof *constants);
    add_frequencies(h, y);
}

/* Adds every piece of the vocabulary; a file without one counts as 0 pieces. */
static void add_vocabulary(hash128 *h, const checkpoint *source)
{
    const key_value *tokens = checkpoint_find(source, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != VALUE_ARRAY || tokens->item_type != VALUE_STRING) {
        hash_number(h, 0);
        return;
    }
    hash_number(h, tokens->count);
    for (uint64_t i = 0; i < tokens->count; i++) {
        hash_number(h, tokens->as.strings[i].size);
        hash_bytes(h, tokens->as.strings[i].data, tokens->as.strings[i].size);
    }
}

/* Returns true for the rule of a norm: a vector that is not a bias, not an order of neurons, and does not follow from
 * hyperparameters. */
static bool is_norm(const tensor_rule *rule)
{
    const unsigned others =
        TENSOR_CONSTANT | TENSOR_IGNORED | TENSOR_INTEGERS | TENSOR_MLP_BIAS | TENSOR_NEURON_MAJOR | TENSOR_PREDICTOR;
    return rule->rows == DIMENSION_NONE && !(rule->flags & others);
}

/* Adds the norms of the rules. owner: the model or the layer that has the rules' fields. */
static void add_norms(hash128 *h, const hyperparameters *y, const tensor_rule *rules, size_t count, const void *owner)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_norm(&rules[i]))
            continue;
        const float *const *norm = (const float *const *)((const char *)owner + rules[i].field);
        add_floats(h, *norm, *norm ? hyper_dimension(y, rules[i].columns) : 0);
    }
}

void model_fingerprint(char out[FINGERPRINT_SIZE], const hearth_model *model)
{
    const family *f = model->family;
    hash128 h = hash_begin();
    hash_number(&h, FINGERPRINT_VERSION);
    add_hyper(&h, model);
    add_vocabulary(&h, model->source);
    add_norms(&h, &model->hyper, f->tensors, f->tensor_count, model);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        add_norms(&h, &model->hyper, f->layer_tensors, f->layer_tensor_count, &model->layers[i]);
    hash_print(out, &h);
}
