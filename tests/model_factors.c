/* model_factors.c - factors in a GGUF beside the matrices that they multiply: what is read then, what is taken out, and what is
 * refused. */
#include "../src/model/factors.h"

#include "model_build.h"
#include "skip.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 32, ROWS = 2, EXPERTS = 3, LAYERS = 2 };

static float weights[EXPERTS][ROWS][WIDTH];
static const float factors[EXPERTS] = {0.5f, 3, -2};

/* Adds a tensor of float32. */
static void add(checkpoint *c, const char *name, const void *data, uint32_t rank, uint64_t columns, uint64_t rows,
                uint64_t matrices)
{
    const stored_tensor t = {.name = name,
                             .format = FORMAT_F32,
                             .rank = rank,
                             .shape = {columns, rows, matrices, 1},
                             .data = data,
                             .size_bytes = (size_t)(columns * rows * matrices) * sizeof(float)};
    hearth_error error = {0};
    must(checkpoint_add_tensor(c, &t, &error), &error);
}

/* A layer with a matrix, and one with experts. */
static checkpoint *two_layers(void)
{
    checkpoint *c;
    hearth_error error = {0};
    must(checkpoint_create(&c, "file", &error), &error);
    for (size_t i = 0; i < sizeof weights / sizeof(float); i++)
        (&weights[0][0][0])[i] = (float)i;
    add(c, "blk.0.attn_q.weight", weights, 2, WIDTH, ROWS, 1);
    add(c, "blk.1.ffn_up_exps.weight", weights, 3, WIDTH, ROWS, EXPERTS);
    return c;
}

static const family *family_of(const char *name)
{
    for (size_t i = 0; i < family_count; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    fail_msg("there is no family %s", name);
    return NULL;
}

static void rows_are_multiplied(void **state)
{
    (void)state;
    checkpoint *c = two_layers();
    hearth_error error = {0};
    float row[WIDTH];
    add(c, "blk.0.attn_q.scale", &factors[1], 1, 1, 1, 1);
    add(c, "blk.0.attn_q.input_scale", &factors[2], 1, 1, 1, 1);
    add(c, "blk.1.ffn_up_exps.scale", factors, 1, EXPERTS, 1, 1);
    must(factors_apply(c, family_of("llama"), LAYERS, &error), &error);
    assert_int_equal(c->tensor_count, 2);
    const stored_tensor *q = checkpoint_find_tensor(c, "blk.0.attn_q.weight");
    const stored_tensor *up = checkpoint_find_tensor(c, "blk.1.ffn_up_exps.weight");
    for (size_t i = 0; i < ROWS * EXPERTS; i++) {
        stored_tensor_read(up, i, sizeof row, row);
        for (size_t k = 0; k < WIDTH; k++)
            assert_true(row[k] == factors[i / ROWS] * weights[i / ROWS][i % ROWS][k]);
        if (i >= ROWS)
            continue;
        stored_tensor_read(q, i, sizeof row, row);
        for (size_t k = 0; k < WIDTH; k++)
            assert_true(row[k] == 3 * weights[0][i][k]);
    }
    checkpoint_close(c);
}

/* Of a block that guesses tokens ahead, and of nothing: what binding looks at, or refuses, later. */
static void others_are_left(void **state)
{
    (void)state;
    checkpoint *c = two_layers();
    hearth_error error = {0};
    add(c, "blk.2.nextn.eh_proj.scale", factors, 1, 1, 1, 1);
    add(c, "blk.0.nothing.input_scale", factors, 1, 1, 1, 1);
    add(c, "blk.0.attn_q.scale", factors, 1, 1, 1, 1);
    must(factors_apply(c, family_of("llama"), LAYERS, &error), &error);
    assert_int_equal(c->tensor_count, 4);
    assert_non_null(checkpoint_find_tensor(c, "blk.2.nextn.eh_proj.scale"));
    assert_non_null(checkpoint_find_tensor(c, "blk.0.nothing.input_scale"));
    checkpoint_close(c);
}

/* Some vectors have two dimensions: they are read as they are stored, so a factor would be lost. */
static void vectors_have_none(void **state)
{
    (void)state;
    checkpoint *c = two_layers();
    hearth_error error = {0};
    add(c, "blk.0.shortconv.conv.weight", weights, 2, WIDTH, ROWS, 1);
    add(c, "blk.0.shortconv.conv.scale", factors, 1, 1, 1, 1);
    assert_int_equal(factors_apply(c, family_of("lfm2"), LAYERS, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "shortconv.conv.scale: is the factor of no matrix"));
    checkpoint_close(c);
}

/* Without factors, and with a tensor of that name that is a part of the family, nothing changes. */
static void other_tensors_stay(void **state)
{
    (void)state;
    checkpoint *c = two_layers();
    hearth_error error = {0};
    add(c, "blk.1.ffn_down_exps.scale", factors, 1, EXPERTS, 1, 1);
    must(factors_apply(c, family_of("gemma4"), LAYERS, &error), &error);
    assert_int_equal(c->tensor_count, 3);
    for (size_t i = 0; i < c->tensor_count; i++)
        assert_null(c->tensors[i].scaled);
    checkpoint_close(c);
}

static void refused(const char *name, uint64_t count, number_format format, const float *values, const char *reason)
{
    checkpoint *c = two_layers();
    hearth_error error = {0};
    add(c, "blk.0.attn_q.scale", factors, 1, 1, 1, 1);
    const stored_tensor t = {.name = name,
                             .format = format,
                             .rank = 1,
                             .shape = {count, 1, 1, 1},
                             .data = values,
                             .size_bytes = (size_t)count * sizeof(float)};
    must(checkpoint_add_tensor(c, &t, &error), &error);
    assert_int_equal(factors_apply(c, family_of("llama"), LAYERS, &error), HEARTH_FORMAT);
    if (!strstr(error.text, name) || !strstr(error.text, reason))
        fail_msg("%s: %s", name, error.text);
    assert_int_equal(c->tensor_count, 4);
    assert_null(checkpoint_find_tensor(c, "blk.0.attn_q.weight")->scaled);
    checkpoint_close(c);
}

static void factors_must_fit(void **state)
{
    (void)state;
    static const float infinite[EXPERTS] = {1, INFINITY, 1};
    refused("blk.1.ffn_up_exps.scale", 1, FORMAT_F32, factors, "has not one factor for each matrix");
    refused("blk.1.ffn_up_exps.scale", EXPERTS, FORMAT_BF16, factors, "is a factor, and not of f32");
    refused("blk.1.ffn_gate.scale", 1, FORMAT_F32, factors, "is the factor of no matrix");
    refused(".scale", 1, FORMAT_F32, factors, "is the factor of no matrix");
    refused("blk.1.ffn_up_exps.scale", EXPERTS, FORMAT_F32, infinite, "has a factor that is not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_multiplied), cmocka_unit_test(others_are_left),
                                       cmocka_unit_test(vectors_have_none), cmocka_unit_test(other_tensors_stay),
                                       cmocka_unit_test(factors_must_fit)};
    return run_group(tests, NULL, NULL);
}
