/* made_predictors.h - predictors at random, for models that have none. */
#ifndef TESTS_MADE_PREDICTORS_H
#define TESTS_MADE_PREDICTORS_H

#include "../src/model/tune.h"

#include "placements.h"

enum { MADE_RANK = 8 };

static inline matrix random_matrix(uint32_t rows, uint32_t columns, uint32_t *seed)
{
    float *values = malloc((size_t)rows * columns * sizeof *values);
    for (size_t i = 0; i < (size_t)rows * columns; i++)
        values[i] = (float)draw(seed, 2001) / 1000 - 1;
    return (matrix){.data = values, .format = FORMAT_F32, .rows = rows, .columns = columns, .row_bytes = columns * 4};
}

/* A record that gives every layer a predictor: the first reads the residual stream, the second the normed input, and so
 * on; coarse ones have a margin of 0. Freed with drop_record. */
static inline tune *made_record(const hearth_model *m, predictor_kind kind)
{
    uint32_t seed = 7, layers = m->hyper.layer_count;
    tune *t = calloc(1, sizeof *t);
    t->layer_count = layers;
    t->has_predictors = true;
    t->layers = calloc(layers, sizeof *t->layers);
    for (uint32_t i = 0; i < layers; i++) {
        learned_predictor *p = &t->layers[i].predictor;
        *p = (learned_predictor){.kind = kind, .reads_normed = i % 2, .coarse_format = FORMAT_F16};
        if (kind != PREDICTOR_LOW_RANK)
            continue;
        p->fc1 = random_matrix(MADE_RANK, m->hyper.embedding_length, &seed);
        p->fc2 = random_matrix(m->layers[i].ffn.neuron_count, MADE_RANK, &seed);
        p->threshold = 0.25f;
    }
    stack_check(tune_bind(t, m, NULL), NULL);
    return t;
}

static inline void drop_record(tune *t)
{
    for (uint32_t i = 0; i < t->layer_count; i++) {
        free((void *)(uintptr_t)t->layers[i].predictor.fc1.data);
        free((void *)(uintptr_t)t->layers[i].predictor.fc2.data);
    }
    free(t->layers);
    free(t);
}

#endif
