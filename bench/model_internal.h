/* model_internal.h - what model_plan.c and model_rows.c share. Sums that decide bytes are taken in four lanes in double
 * precision, in the order that is written here. */
#ifndef BENCH_MODEL_INTERNAL_H
#define BENCH_MODEL_INTERNAL_H

#include "model_rows.h"

/* Variance that all layers together add to the stream, whose tokens begin with 1. The networks' part is known in
 * advance, so thresholds take it into account. Attention's is not: over n unrelated tokens it averages to e / n of
 * what is given here (the weights are the exponentials of normal scores); so it is kept small. */
#define FFN_GROWTH       0.25
#define ATTENTION_GROWTH 0.05
#define RECURRENT_GROWTH 0.05 /* of all recurrent mixers: known as well */
#define POSITION_SQUARE  0.01 /* variance of what a learned position adds to a free coordinate */
#define OTHERS           4    /* directions that a neuron has besides its cluster's */

static inline uint64_t key_of(const model_design *m, unsigned stream, uint32_t layer)
{
    return counter_key(m->seed, stream, layer);
}

static inline uint32_t free_of(const model_design *m)
{
    return m->shape.width - m->reserved;
}

/* Neurons of a layer, those of all experts; and with the shared one's. */
static inline uint32_t neurons_of(const model_design *m)
{
    return m->shape.experts * m->shape.neurons;
}

static inline uint32_t all_neurons_of(const model_design *m)
{
    return neurons_of(m) + m->shape.shared_neurons;
}

/* Layers before this one that have a network, or a recurrent mixer. */
typedef struct layer_count {
    uint32_t networks, recurrent;
} layer_count;
layer_count model_count_layers(const model_shape *s, uint32_t before);

static inline uint32_t directions_of(const model_design *m)
{
    return m->shape.rank - m->reserved;
}

/* Sum of a[i] * b[i]; n is a multiple of 4. */
static inline double dot(const float *a, const float *b, size_t n)
{
    double lane[4] = {0};
    for (size_t i = 0; i < n; i += 4)
        for (size_t k = 0; k < 4; k++)
            lane[k] += (double)a[i + k] * (double)b[i + k];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static inline void encode(number_format format, const float *values, uint32_t n, void *out)
{
    number_formats[format].encode(values, NULL, out, n);
}

static inline void decode(number_format format, const void *blocks, uint32_t n, float *out)
{
    number_formats[format].decode(blocks, out, n);
}

/* Standard deviation of the free coordinates behind so many layers, and the root mean square of all. */
void model_stream_at(const model_design *m, uint32_t layers, double *stream, double *norm);

/* A neuron as the predictor sees it. */
typedef struct insight {
    uint32_t neuron;
    uint32_t direction[1 + OTHERS]; /* the cluster's first */
    double ahead[1 + OTHERS];       /* weight of each, as wanted */
} insight;

insight model_insight(const model_design *m, const model_layer_plan *p, uint32_t neuron);
/* The sum of the neuron's directions, with the weights of its row of fc2 as the file gives them: sum [d], of which the
 * reserved coordinates are the constants' part. Returns the length of its free part. */
double model_sum_directions(const model_design *m, const model_layer_plan *p, const insight *in, const float *weights,
                            float *sum);

/* Row of fc1 as wanted [d]. */
void model_fc1_row(const model_design *m, const model_layer_plan *p, uint32_t row, float *out);
/* Row of fc2 as wanted [rank], and what it decodes to. In the K formats the constants lie in one block with weights,
 * which are rounded with regard to them: so a first guess of them is rounded too. sum: scratch [d]; blocks: a row's. */
void model_fc2_row(const model_design *m, const model_layer_plan *p, const insight *in, float *row, float *decoded,
                   float *sum, void *blocks);

/* Place in the order of hotness of the neuron's expert. */
static inline uint32_t rank_of(const model_design *m, const model_layer_plan *p, uint32_t domain, uint32_t neuron)
{
    return p->ranks[(size_t)domain * all_neurons_of(m) + neuron];
}

#endif
