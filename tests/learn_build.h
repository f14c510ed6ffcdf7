/* learn_build.h - one feed-forward network with rows of hidden states in memory, for tests of what is learnt from them.
 *
 * Stands in for src/learn/states.c, which is left out of the program since nothing here misses it. */
#ifndef TESTS_LEARN_BUILD_H
#define TESTS_LEARN_BUILD_H

#include "../src/base/memory.h"
#include "../src/learn/states.h"
#include "../src/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

struct states {
    size_t count, d, f;
    float *residual, *normed; /* [count][d]     */
    uint64_t *fired;          /* [count][words] */
};

size_t states_count(const states *s)
{
    return s->count;
}

size_t states_training_count(const states *s)
{
    return s->count - s->count / 10;
}

size_t states_words(const states *s)
{
    return (s->f + 63) / 64;
}

void states_read(const states *s, const uint32_t *rows, size_t row_count, bool normed, float *inputs, uint64_t *fired)
{
    size_t words = states_words(s);
    for (size_t i = 0; i < row_count; i++) {
        assert_true(rows[i] < s->count);
        if (inputs)
            memcpy(inputs + i * s->d, (normed ? s->normed : s->residual) + rows[i] * s->d, s->d * sizeof *inputs);
        if (fired)
            memcpy(fired + i * words, s->fired + rows[i] * words, words * sizeof *fired);
    }
}

typedef struct learnt_shape {
    uint32_t d, f, inner; /* the first matrix has rank `inner`; 0: full */
    size_t rows;
    number_format format; /* of the first matrix                    */
    ffn_gating gating;
    float activation_threshold; /* FATReLU's threshold                           */
    bool biases, ordered;
    bool centred; /* the norm subtracts the mean, which is not small, and has a bias of its own */
} learnt_shape;

typedef struct learnt {
    learnt_shape shape;
    checkpoint source;
    struct hearth_model model;
    model_layer layer;
    struct states rows;
    double *first; /* [f][d] by row as decoded                      */
    float *bias, *norm, *norm_bias;
    int32_t *order;
    char *data;
    double density; /* share of all neurons that fire, held-out rows */
} learnt;

static inline float learnt_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) * 0x1p-23f - 1;
}

/* Nearly normal, of variance 1. */
static inline float learnt_normal(uint64_t *seed)
{
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += learnt_random(seed);
    return sum * 0.70710678f;
}

static inline void learnt_make_first(learnt *l, uint64_t *seed)
{
    const learnt_shape *o = &l->shape;
    size_t d = o->d, f = o->f, k = o->inner, row_bytes;
    float *inner = malloc((k + 1) * d * sizeof *inner), *row = malloc(d * sizeof *row);
    assert_true(number_row_bytes(o->format, d, &row_bytes));
    l->data = malloc(f * row_bytes);
    l->first = malloc(f * d * sizeof *l->first);
    for (size_t i = 0; i < k * d; i++)
        inner[i] = learnt_normal(seed) / sqrtf((float)d);
    for (size_t r = 0; r < f; r++) {
        for (size_t c = 0; c < d; c++)
            row[c] = k ? 0 : learnt_normal(seed) / sqrtf((float)d);
        for (size_t j = 0; j < k; j++) {
            float a = learnt_normal(seed) / sqrtf((float)k);
            for (size_t c = 0; c < d; c++)
                row[c] += a * inner[j * d + c];
        }
        /* The first coordinate is the same for all inputs: what makes neurons fire seldom. */
        row[0] = -0.4f;
        number_formats[o->format].encode(row, NULL, l->data + r * row_bytes, d);
        number_formats[o->format].decode(l->data + r * row_bytes, row, d);
        for (size_t c = 0; c < d; c++)
            l->first[r * d + c] = (double)row[c];
    }
    matrix m = {l->data, o->format, o->f, o->d, row_bytes};
    *(o->gating == FFN_PLAIN ? &l->layer.up : &l->layer.gate) = m;
    free(inner);
    free(row);
}

static inline void learnt_make_row(learnt *l, size_t row, uint64_t *seed)
{
    size_t d = l->shape.d;
    float *x = l->rows.residual + row * d, *y = l->rows.normed + row * d, size = expf(1.5f * learnt_random(seed));
    double squares = 0, mean = 0;
    for (size_t c = 0; c < d; c++)
        x[c] = (c ? learnt_normal(seed) / (1 + 3 * (float)c / (float)d) : 1.2f) + (l->shape.centred ? 0.5f : 0);
    for (size_t c = 0; l->shape.centred && c < d; c++)
        mean += (double)x[c] / (double)d;
    for (size_t c = 0; c < d; c++)
        squares += ((double)x[c] - mean) * ((double)x[c] - mean);
    for (size_t c = 0; c < d; c++) {
        y[c] = (float)(((double)x[c] - mean) * (double)l->norm[c] / sqrt(squares / (double)d)) +
               (l->shape.centred ? l->norm_bias[c] : 0);
        x[c] *= size;
    }
    for (size_t i = 0; i < l->shape.f; i++) {
        double sum = l->shape.biases ? (double)l->bias[i] : 0;
        for (size_t c = 0; c < d; c++)
            sum += l->first[i * d + c] * (double)y[c];
        size_t neuron = l->shape.ordered ? (size_t)l->order[i] : i;
        if (sum > (double)l->shape.activation_threshold)
            l->rows.fired[row * states_words(&l->rows) + neuron / 64] |= (uint64_t)1 << neuron % 64;
    }
}

static inline bool learnt_fired(const learnt *l, size_t row, size_t neuron)
{
    return l->rows.fired[row * states_words(&l->rows) + neuron / 64] >> neuron % 64 & 1;
}

static inline learnt *learnt_new(const learnt_shape *shape)
{
    uint64_t seed = 11 + shape->f;
    learnt *l = calloc(1, sizeof *l);
    size_t d = shape->d, f = shape->f, fired = 0;
    l->shape = *shape;
    l->source.path = "built";
    l->bias = malloc(f * sizeof *l->bias);
    l->order = malloc(f * sizeof *l->order);
    l->norm = malloc(d * sizeof *l->norm);
    l->norm_bias = malloc(d * sizeof *l->norm_bias);
    for (size_t i = 0; i < f; i++) { /* 5 divides no f in use, so that this is every number once */
        l->bias[i] = 0.2f * learnt_random(&seed);
        l->order[i] = (int32_t)((5 * i + 2) % f);
    }
    for (size_t c = 0; c < d; c++)
        l->norm[c] = 1 + 0.3f * learnt_random(&seed);
    for (size_t c = 0; c < d; c++)
        l->norm_bias[c] = shape->centred ? 0.3f * learnt_random(&seed) : 0;
    learnt_make_first(l, &seed);
    l->layer.ffn_norm = (norm_weights){l->norm, shape->centred ? l->norm_bias : NULL};
    l->layer.attention = (attention_shape){.head_count = 1, .kv_head_count = 1, .head_length = 2};
    l->layer.ffn = (ffn_shape){.neuron_count = shape->f,
                               .gating = shape->gating,
                               .activation = shape->activation_threshold > 0 ? FFN_FATRELU : FFN_RELU,
                               .threshold = shape->activation_threshold};
    l->layer.order = shape->ordered ? l->order : NULL;
    *(shape->gating == FFN_PLAIN ? &l->layer.up_bias : &l->layer.gate_bias) = shape->biases ? l->bias : NULL;
    l->model = (struct hearth_model){.source = &l->source, .name = "built", .layers = &l->layer};
    l->model.hyper = (hyperparameters){.layer_count = 1, .embedding_length = shape->d, .norm_epsilon = 0};
    l->model.hyper.norm = shape->centred ? NORM_LAYER : NORM_RMS;
    l->rows = (struct states){.count = shape->rows, .d = d, .f = f};
    l->rows.residual = malloc(shape->rows * d * sizeof(float));
    l->rows.normed = malloc(shape->rows * d * sizeof(float));
    l->rows.fired = calloc(shape->rows * states_words(&l->rows), sizeof(uint64_t));
    for (size_t r = 0; r < shape->rows; r++)
        learnt_make_row(l, r, &seed);
    for (size_t r = states_training_count(&l->rows); r < shape->rows; r++)
        for (size_t i = 0; i < f; i++)
            fired += learnt_fired(l, r, i);
    l->density = (double)fired / (double)(f * (shape->rows - states_training_count(&l->rows)));
    return l;
}

static inline void learnt_free(learnt *l)
{
    void *all[] = {l->first, l->bias,          l->norm,        l->norm_bias,  l->order,
                   l->data,  l->rows.residual, l->rows.normed, l->rows.fired, l};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

#endif
