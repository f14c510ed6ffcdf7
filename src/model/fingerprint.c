/* fingerprint.c - computes a model's fingerprint, part by part. */
#include "fingerprint.h"

#include "hyper.h"

#include <string.h>

/* To be increased whenever the covered parts change: old fingerprints then match no model any more. */
#define FINGERPRINT_VERSION 1

static void add_floats(hash128 *h, const float *values, uint64_t count)
{
    hash_number(h, count);
    hash_bytes(h, values, (size_t)count * sizeof *values);
}

/* Adds frequencies, rounded to float32: they come from pow(), whose last bit differs between C libraries. */
static void add_frequencies(hash128 *h, const double *frequencies, uint32_t pairs)
{
    hash_number(h, pairs);
    for (uint32_t i = 0; i < pairs; i++) {
        float frequency = (float)frequencies[i];
        hash_bytes(h, &frequency, sizeof frequency);
    }
}

/* Adds how a layer rotates; nothing of long contexts where they are like all others. */
static void add_rotary(hash128 *h, const rotary *r)
{
    add_frequencies(h, r ? r->frequencies : NULL, r ? r->pairs : 0);
    if (!r || !r->long_frequencies)
        return;
    hash_number(h, r->long_from);
    add_frequencies(h, r->long_frequencies, r->pairs);
}

/* Adds how a layer chooses among its experts. */
static void add_router(hash128 *h, const ffn_shape *f)
{
    const router_shape *r = &f->router;
    const uint64_t numbers[] = {r->expert_count,      r->used,   r->group_count, r->group_used, f->expert_neurons,
                                (uint64_t)r->scoring, r->shares, r->early};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash_number(h, numbers[i]);
    add_floats(h, &r->scale, 1);
}

/* Adds how n-grams find their rows. */
static void add_ngrams(hash128 *h, const ngram_shape *n)
{
    const uint64_t numbers[] = {n->longest, n->heads, n->window, n->end};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash_number(h, numbers[i]);
    for (size_t i = 0; i < n->longest; i++)
        hash_number(h, n->multipliers[i]);
    for (size_t i = 0; i < ngram_heads(n); i++) {
        hash_number(h, n->first[i]);
        hash_number(h, n->rows[i]);
    }
}

/* Adds what few layers have, each with a number of its own, so that others have the fingerprint of before. */
static void add_extras(hash128 *h, const hearth_model *m, const model_layer *l)
{
    const hyperparameters *y = &m->hyper;
    const attention_shape *a = &l->attention;
    const uint64_t numbers[] = {a->norm_values,
                                a->keys_back,
                                y->stream_count > 1 ? y->stream_count : 0,
                                y->active_stream,
                                y->per_layer_length,
                                l->experts_norm.weight ? l->ffn.shared_neurons : 0,
                                a->keys_back == 0 && a->norm_values && !l->v.data,
                                a->gate_length > 0,
                                a->compressed,
                                a->unrotated,
                                a->compressed > 0 || a->value_length != a->head_length ? a->value_length : 0,
                                a->norm_turned,
                                a->chunked,
                                a->norm_plain,
                                l->ffn.router.weighs_input,
                                a->gate_length == 1,
                                a->gate_softplus,
                                y->embedding_norm,
                                a->chosen,
                                a->chosen_back,
                                a->index.head_count,
                                a->index.head_length,
                                a->pool > 1 ? a->pool : 0,
                                y->connection_steps,
                                y->connection_rank,
                                a->index.plain,
                                l->recurrent.gate_logistic,
                                l->ngrams,
                                a->one_key,
                                a->norm_queries,
                                a->output_groups,
                                a->output_rank,
                                a->summary.together,
                                a->summary.parts > 1,
                                l->ffn.router.by_token,
                                a->index.by_head,
                                a->last_pools,
                                l->wiring != m->family->wiring};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] > 0) {
            hash_number(h, i);
            hash_number(h, numbers[i]);
        }
    if (a->grows && y->score_growth_ahead > 0) {
        add_floats(h, &y->score_growth, 1);
        hash_number(h, y->score_growth_from);
    }
    if (a->value_scale != 1 && l->mixer == MIXER_ATTENTION)
        add_floats(h, &a->value_scale, 1);
    if (y->post_epsilon != y->norm_epsilon)
        add_floats(h, &y->post_epsilon, 1);
    if (y->connection_magnitude > 0)
        add_floats(h, &y->connection_epsilon, 1);
    if (y->connection_magnitude > 0 && y->connection_steps == 0) /* of others it is 2 */
        add_floats(h, &y->connection_magnitude, 1);
    if (l->ngrams)
        add_ngrams(h, &y->ngrams);
    if (a->back_rotary)
        add_rotary(h, a->back_rotary);
    if (a->summary.rotary)
        add_rotary(h, a->summary.rotary);
    if (a->compressed > 0 && y->latent_epsilon != 1e-6f)
        add_floats(h, &y->latent_epsilon, 1);
    if (a->index.head_count > 0 && y->index_epsilon != 1e-6f)
        add_floats(h, &y->index_epsilon, 1);
    if (l->ffn.cuts)
        add_floats(h, &l->ffn.cut, 1);
    if (l->ffn.activation == FFN_XIELU) {
        const float curve[] = {l->ffn.curve.positive, l->ffn.curve.negative, l->ffn.curve.linear};
        add_floats(h, curve, 3);
    }
    if (l->ffn.router.expert_count > 0 && l->ffn.router.shared_scale != 1)
        add_floats(h, &l->ffn.router.shared_scale, 1);
    if (l->ffn.shared_threshold != l->ffn.threshold)
        add_floats(h, &l->ffn.shared_threshold, 1);
    if (l->output_scale)
        add_floats(h, l->output_scale, 1);
}

/* Adds the mixer of a layer that has no attention. */
static void add_mixer(hash128 *h, const model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    const uint64_t numbers[] = {l->mixer,     r->rule,       r->head_count, r->value_length,
                                r->key_count, r->key_length, r->window};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash_number(h, numbers[i]);
    for (size_t i = 0; recurrent_by_columns(r) && i < LOW_RANK_MAPS; i++)
        hash_number(h, r->ranks[i]);
    if (r->decay_floor < 0)
        add_floats(h, &r->decay_floor, 1);
}

/* Adds what a layer computes. Rows of tables are added by name, because their numbers may change when a table
 * grows. */
static void add_shape(hash128 *h, const hearth_model *m, const model_layer *l)
{
    const hyperparameters *y = &m->hyper;
    const attention_shape *a = &l->attention;
    const ffn_shape *f = &l->ffn;
    const uint64_t sizes[] = {y->layer_count,   y->embedding_length, f->neuron_count,    a->head_count,
                              a->kv_head_count, a->head_length,      y->vocabulary_size, a->window};
    const float constants[] = {y->norm_epsilon, f->threshold, a->scale, a->rotary ? a->rotary->magnitude : 0};
    hash_text(h, ffn_activations[f->activation].name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hash_number(h, sizes[i]);
    add_floats(h, constants, sizeof constants / sizeof *constants);
    add_rotary(h, a->rotary);
    if (f->router.expert_count > 0)
        add_router(h, f);
    if (f->latent > 0)
        hash_number(h, f->latent);
    if (l->mixer != MIXER_ATTENTION)
        add_mixer(h, l);
    add_extras(h, m, l);
}

static bool same_recurrence(const recurrent_shape *a, const recurrent_shape *b)
{
    return a->rule == b->rule && a->head_count == b->head_count && a->value_length == b->value_length &&
           a->key_count == b->key_count && a->neighbours == b->neighbours && a->key_length == b->key_length &&
           a->window == b->window && memcmp(a->ranks, b->ranks, sizeof a->ranks) == 0 &&
           a->decay_floor == b->decay_floor;
}

static bool same_curve(const activation_curve *a, const activation_curve *b)
{
    return a->positive == b->positive && a->negative == b->negative && a->linear == b->linear;
}

/* Returns whether two layers have one shape, as far as add_shape() knows it. */
static bool same_shape(const model_layer *a, const model_layer *b)
{
    const attention_shape *x = &a->attention, *y = &b->attention;
    return x->head_count == y->head_count && x->kv_head_count == y->kv_head_count && x->head_length == y->head_length &&
           x->window == y->window && x->scale == y->scale && x->rotary == y->rotary && x->chunked == y->chunked &&
           x->norm_plain == y->norm_plain && x->gate_length == y->gate_length && x->grows == y->grows &&
           a->ffn.router.used == b->ffn.router.used && a->ffn.neuron_count == b->ffn.neuron_count &&
           a->ffn.activation == b->ffn.activation && a->ffn.threshold == b->ffn.threshold &&
           same_curve(&a->ffn.curve, &b->ffn.curve) && a->ffn.shared_threshold == b->ffn.shared_threshold &&
           a->ffn.router.expert_count == b->ffn.router.expert_count && a->ffn.expert_neurons == b->ffn.expert_neurons &&
           a->ffn.latent == b->ffn.latent && a->mixer == b->mixer && same_recurrence(&a->recurrent, &b->recurrent) &&
           x->keys_back == y->keys_back && x->value_length == y->value_length && x->chosen_back == y->chosen_back &&
           x->chosen == y->chosen && x->summary.together == y->summary.together &&
           x->summary.parts == y->summary.parts && a->ffn.router.by_token == b->ffn.router.by_token &&
           a->ngrams == b->ngrams && a->ffn.cuts == b->ffn.cuts && a->ffn.cut == b->ffn.cut && !a->output_scale &&
           !b->output_scale;
}

/* Adds the family, the shape of the first layer, those of layers that differ from the one before, and the factors that
 * a model has: what a llama lacks is not added, so that tune files of older versions stay valid. */
static void add_hyper(hash128 *h, const hearth_model *m)
{
    const hyperparameters *y = &m->hyper;
    const float factors[] = {y->embedding_scale, y->residual_scale, y->logit_scale, y->logit_softcap,
                             m->layers[0].attention.softcap};
    hash_text(h, m->family->name);
    if (m->family->norm_by_key)
        hash_number(h, y->norm);
    add_shape(h, m, &m->layers[0]);
    for (uint32_t i = 1; i < y->layer_count; i++)
        if (!same_shape(&m->layers[i], &m->layers[i - 1])) {
            hash_number(h, i);
            add_shape(h, m, &m->layers[i]);
        }
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (factors[i] != (i < 3 ? 1 : 0)) {
            hash_number(h, i);
            add_floats(h, &factors[i], 1);
        }
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

/* Adds the norms of the rules. owner: the model or the layer l, which has the rules' fields. */
static void add_norms(hash128 *h, const hyperparameters *y, const model_layer *l, const tensor_rule *rules,
                      size_t count, const void *owner)
{
    for (size_t i = 0; i < count; i++) {
        if (!(rules[i].flags & TENSOR_NORM) || (rules[i].flags & TENSOR_ALIAS))
            continue;
        const float *const *norm = (const float *const *)((const char *)owner + rules[i].field);
        uint64_t rows = hyper_dimension(y, l, rules[i].rows);
        add_floats(h, *norm, *norm ? rows * hyper_dimension(y, l, rules[i].columns) : 0);
    }
}

void model_fingerprint(char out[FINGERPRINT_SIZE], const hearth_model *model)
{
    const family *f = model->family;
    hash128 h = hash_begin();
    hash_number(&h, FINGERPRINT_VERSION);
    add_hyper(&h, model);
    add_vocabulary(&h, model->source);
    add_norms(&h, &model->hyper, &model->layers[0], f->tensors, f->tensor_count, model);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        add_norms(&h, &model->hyper, &model->layers[i], f->layer_tensors, f->layer_tensor_count, &model->layers[i]);
    hash_print(out, &h);
}
