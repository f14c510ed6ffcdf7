/* tune_build.h - tune records made by hand for any model, and what is left of one that went through a file. */
#ifndef TESTS_TUNE_BUILD_H
#define TESTS_TUNE_BUILD_H

#include "../src/model/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

enum made_parts {
    MADE_COUNTS = 1,
    MADE_MAGNITUDES = 2,
    MADE_PRUNE = 4,
    MADE_PREDICTORS = 8,
    MADE_REPORT = 16,
    MADE_ALL = 31
};

#define MADE_TOKENS 1000
#define MADE_LEVELS 3

/* The same numbers in every run. */
static inline uint32_t made_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static inline matrix made_matrix(arena *memory, number_format format, uint32_t rows, uint32_t columns, uint32_t *seed)
{
    matrix m = {.format = format, .rows = rows, .columns = columns};
    assert_true(number_row_bytes(format, columns, &m.row_bytes));
    char *data = arena_new_array(memory, rows, m.row_bytes);
    float *row = malloc(columns * sizeof *row);
    assert_non_null(data);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < columns; i++)
            row[i] = (float)made_random(seed) * 0x1p-23f - 1;
        number_formats[format].encode(row, NULL, data + r * m.row_bytes, columns);
    }
    free(row);
    m.data = data;
    return m;
}

/* Predictors of every kind in turn: low-rank of the residual stream, coarse, none, low-rank of the normed input. */
static inline void made_predictor(tune *t, const hearth_model *m, uint32_t layer, number_format format, uint32_t rank,
                                  uint32_t *seed)
{
    static const predictor_kind kinds[] = {PREDICTOR_LOW_RANK, PREDICTOR_COARSE, PREDICTOR_NONE, PREDICTOR_LOW_RANK};
    tune_layer *l = &t->layers[layer];
    l->recall = 0.99f;
    l->density = 0.125f * (float)(layer % 8);
    l->predictor =
        (learned_predictor){.kind = kinds[layer % 4], .reads_normed = layer % 4 == 3, .coarse_format = FORMAT_COUNT};
    l->predictor.threshold = 0.25f * (float)layer - 0.5f;
    if (l->predictor.kind == PREDICTOR_COARSE)
        l->predictor.coarse_format = format;
    if (l->predictor.kind != PREDICTOR_LOW_RANK)
        return;
    l->predictor.fc1 = made_matrix(&t->memory, format, rank, m->hyper.embedding_length, seed);
    l->predictor.fc2 = made_matrix(&t->memory, format, l->neuron_count, rank, seed);
}

static inline void made_layer(tune *t, uint32_t layer, unsigned parts, uint32_t *seed)
{
    uint32_t f = t->layers[layer].neuron_count;
    int32_t *counts = arena_new_array(&t->memory, f, sizeof *counts);
    float *magnitudes = arena_new_array(&t->memory, TUNE_QUANTILES, sizeof *magnitudes);
    float *prune = arena_new_array(&t->memory, MADE_LEVELS, sizeof *prune);
    assert_true(counts && magnitudes && prune);
    for (uint32_t i = 0; i < f; i++) /* many alike, so that ties are met */
        counts[i] = (int32_t)(made_random(seed) % 8 * (MADE_TOKENS / 7));
    for (size_t i = 0; i < TUNE_QUANTILES; i++) {
        size_t pair = i / 2; /* of equal ones */
        magnitudes[i] = (float)pair * 0.01f;
    }
    for (size_t i = 0; i < MADE_LEVELS; i++)
        prune[i] = 0.1f * (float)(i + layer);
    t->layers[layer].counts = parts & MADE_COUNTS ? counts : NULL;
    t->layers[layer].magnitudes = parts & MADE_MAGNITUDES ? magnitudes : NULL;
    t->layers[layer].prune = parts & MADE_PRUNE ? prune : NULL;
}

/* Free with tune_close. */
static inline tune *make_tune(const hearth_model *m, unsigned parts, number_format format, uint32_t rank)
{
    static const float levels[MADE_LEVELS] = {0.25f, 0.5f, 0.9f}, losses[MADE_LEVELS] = {0, 0.0078125f, 0.25f};
    uint32_t seed = 12345;
    tune *t = mem_new(sizeof *t);
    t->tokens = parts & MADE_COUNTS ? MADE_TOKENS : 0;
    t->report = parts & MADE_REPORT ? "{\"corpus\": [\"a.txt\"], \"recall\": 0.99}" : "";
    t->has_predictors = parts & MADE_PREDICTORS;
    t->level_count = parts & MADE_PRUNE ? MADE_LEVELS : 0;
    t->levels = parts & MADE_PRUNE ? levels : NULL;
    t->losses = parts & MADE_PRUNE ? losses : NULL;
    tune_layer *layers = arena_new_array(&t->memory, m->hyper.layer_count, sizeof *layers);
    assert_non_null(layers);
    tune_set_layers(t, layers, m);
    for (uint32_t i = 0; i < t->layer_count; i++) {
        made_layer(t, i, parts, &seed);
        if (parts & MADE_PREDICTORS)
            made_predictor(t, m, i, format, rank, &seed);
    }
    return t;
}

static inline void expect_floats(const float *a, const float *b, size_t count)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a && count)
        assert_memory_equal(a, b, count * sizeof *a);
}

static inline void expect_bytes(const matrix *a, const matrix *b)
{
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_memory_equal(a->data, b->data, a->rows * a->row_bytes);
}

static inline void expect_same_predictor(const learned_predictor *a, const learned_predictor *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->reads_normed, b->reads_normed);
    assert_true(a->threshold == b->threshold);
    if (a->kind == PREDICTOR_COARSE)
        assert_int_equal(a->coarse_format, b->coarse_format);
    assert_int_equal(a->fc1.data == NULL, a->kind != PREDICTOR_LOW_RANK);
    if (a->kind != PREDICTOR_LOW_RANK)
        return;
    expect_bytes(&a->fc1, &b->fc1);
    expect_bytes(&a->fc2, &b->fc2);
}

/* All but what is derived. */
static inline void expect_same_tune(const tune *a, const tune *b)
{
    assert_int_equal(a->layer_count, b->layer_count);
    assert_int_equal(a->tokens, b->tokens);
    assert_string_equal(a->report, b->report);
    assert_int_equal(a->has_predictors, b->has_predictors);
    assert_int_equal(a->level_count, b->level_count);
    expect_floats(a->levels, b->levels, a->level_count);
    expect_floats(a->losses, b->losses, a->level_count);
    for (uint32_t i = 0; i < a->layer_count; i++) {
        const tune_layer *x = &a->layers[i], *y = &b->layers[i];
        assert_int_equal(x->neuron_count, y->neuron_count);
        assert_int_equal(x->counts == NULL, y->counts == NULL);
        if (x->counts)
            assert_memory_equal(x->counts, y->counts, x->neuron_count * sizeof *x->counts);
        expect_floats(x->magnitudes, y->magnitudes, TUNE_QUANTILES);
        expect_floats(x->prune, y->prune, a->level_count);
        expect_same_predictor(&x->predictor, &y->predictor);
        assert_true(x->recall == y->recall && x->density == y->density);
    }
}

#endif
