/* per_layer.c - see per_layer.h. */
#include "per_layer.h"

#include "products.h"

#include <math.h>

typedef struct per_layer_job {
    const hearth_session *s;
    const hearth_row *rows;
    uint32_t layer;
} per_layer_job;

/* Items are rows. e = (norm(projection x / sqrt(d)) + sqrt(p) token) / sqrt(2), the norm over the values of each layer. */
static void combine_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const per_layer_job *job = context;
    const hearth_model *m = job->s->engine->model;
    const hyperparameters *h = &m->hyper;
    const scratch *b = &job->s->scratch;
    const kernels *k = &job->s->engine->runtime->kernels;
    size_t p = h->per_layer_length, all = p * h->layer_count;
    float projected = 1 / sqrtf((float)h->embedding_length), from_token = sqrtf((float)p), both = 1 / sqrtf(2);
    float *token = b->per_layer_row + worker * all;
    for (size_t i = begin; i < end; i++) {
        float *e = b->per_layer + i * all;
        /* Tokens beyond the table, which stand for pictures and sound, have row 0, as in transformers. */
        size_t row = (uint32_t)job->rows[i].token < h->per_layer_vocabulary ? (size_t)job->rows[i].token : 0;
        number_formats[m->per_layer_tokens.format].decode(matrix_row(&m->per_layer_tokens, row), token, all);
        for (size_t at = 0; at < all; at++)
            e[at] *= projected;
        for (size_t at = 0; at < all; at += p)
            k->rms_norm(e + at, m->per_layer_norm.weight, h->norm_epsilon, p, e + at);
        for (size_t at = 0; at < all; at++)
            e[at] = (e[at] + token[at] * from_token) * both;
    }
}

void per_layer_prepare(hearth_session *s, const hearth_row *rows, size_t count)
{
    const hearth_model *m = s->engine->model;
    per_layer_job job = {.s = s, .rows = rows};
    multiply(s, s->scratch.x, count, &(product){&m->per_layer_projection, s->scratch.per_layer}, 1);
    pool_run(s->engine->runtime->threads, count, 1, combine_rows, &job);
}

/* Items are rows. */
static void gate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const per_layer_job *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const scratch *b = &job->s->scratch;
    const model_layer *l = &job->s->engine->model->layers[job->layer];
    size_t p = h->per_layer_length;
    kernel_activation kind = ffn_activations[l->ffn.activation].kernel;
    for (size_t i = begin; i < end; i++) {
        float *gate = b->per_layer_gate + i * p;
        job->s->engine->runtime->kernels.activate[kind](gate, b->per_layer + (i * h->layer_count + job->layer) * p,
                                                        ffn_terms(&l->ffn), p, gate);
    }
}

void per_layer_apply(const hearth_session *s, uint32_t layer, size_t count, const float *x, float *to)
{
    const model_layer *l = &s->engine->model->layers[layer];
    per_layer_job job = {.s = s, .layer = layer};
    multiply(s, x, count, &(product){&l->per_layer_gate, s->scratch.per_layer_gate}, 1);
    pool_run(s->engine->runtime->threads, count, 1, gate_rows, &job);
    multiply(s, s->scratch.per_layer_gate, count, &(product){&l->per_layer_output, to}, 1);
}
