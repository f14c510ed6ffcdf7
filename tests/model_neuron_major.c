/* model_neuron_major.c - matrices of -s, 0 and s keep their values and their format when they are transposed; others do not. */
#include "../src/base/memory.h"
#include "../src/model/neuron_major.h"
#include "../src/number/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXPERTS = 2, D = 512, F = 768, ROWS = EXPERTS * D };

static const kernels no_kernels;

static float value(size_t row, size_t column)
{
    uint32_t mixed = (uint32_t)(row * F + column) * 2654435761u >> 16;
    bool silent = row / 256 == 1 && column / 256 == 2; /* blocks of zeros */
    float size = row < D ? 0.75f : 0.03125f;           /* each expert has its own */
    return silent ? 0 : ((float)(mixed % 3) - 1) * size;
}

static matrix new_down(number_format format)
{
    matrix down = {.format = format, .rows = ROWS, .columns = F};
    float row[F];
    assert_true(number_row_bytes(format, F, &down.row_bytes));
    char *rows = malloc(ROWS * down.row_bytes);
    assert_non_null(rows);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < F; k++)
            row[k] = value(i, k);
        number_formats[format].encode(row, NULL, rows + i * down.row_bytes, F);
    }
    down.data = rows;
    return down;
}

static void three_values_stay(void **state)
{
    (void)state;
    matrix down = new_down(FORMAT_TQ2_0), shape;
    hearth_error error = {0};
    pool *threads;
    float row[D];
    assert_int_equal(pool_create(&threads, 2, &error), HEARTH_OK);
    assert_int_equal(neuron_major_shape(&shape, &down, EXPERTS, "test", "down", &error), HEARTH_OK);
    assert_int_equal(shape.format, FORMAT_TQ2_0);
    assert_int_equal(shape.rows, EXPERTS * F);
    assert_int_equal(shape.columns, D);
    assert_false(neuron_major_rounds(down.format, shape.format, shape.format));
    char *rows = malloc(matrix_bytes(&shape));
    assert_non_null(rows);
    neuron_major_transpose(&no_kernels, threads, &down, EXPERTS, &shape, rows);
    for (size_t neuron = 0; neuron < EXPERTS * F; neuron++) {
        number_formats[FORMAT_TQ2_0].decode(rows + neuron * shape.row_bytes, row, D);
        for (size_t i = 0; i < D; i++)
            if (row[i] != value(neuron / F * D + i, neuron % F))
                fail_msg("neuron %zu, value %zu: is %g", neuron, i, (double)row[i]);
    }
    free(rows);
    free((void *)(uintptr_t)down.data);
    pool_destroy(threads);
}

static void others_are_rounded(void **state)
{
    (void)state;
    matrix down = new_down(FORMAT_TQ2_0), shape;
    hearth_error error = {0};
    assert_int_equal(neuron_major_format(&down, 1), FORMAT_Q8_0); /* as one matrix it has two sizes */
    assert_true(neuron_major_rounds(FORMAT_TQ2_0, FORMAT_Q8_0, FORMAT_TQ2_0));
    assert_true(neuron_major_rounds(FORMAT_TQ2_0, FORMAT_Q8_0, FORMAT_Q8_0));
    assert_true(neuron_major_rounds(FORMAT_TQ2_0, FORMAT_TQ2_0, FORMAT_Q8_0));
    assert_true(neuron_major_rounds(FORMAT_Q8_0, FORMAT_Q8_0, FORMAT_Q8_0));
    assert_false(neuron_major_rounds(FORMAT_TQ2_0, FORMAT_Q8_0, FORMAT_F32));
    ((block_tq2_0 *)(uintptr_t)matrix_row(&down, ROWS - 1))->d ^= 1;
    assert_int_equal(neuron_major_shape(&shape, &down, EXPERTS, "test", "down", &error), HEARTH_OK);
    assert_int_equal(shape.format, FORMAT_Q8_0);
    matrix planned = down; /* of a shape alone nothing is known */
    planned.data = NULL;
    assert_int_equal(neuron_major_format(&planned, EXPERTS), FORMAT_Q8_0);
    free((void *)(uintptr_t)down.data);
    matrix floats = new_down(FORMAT_F16);
    assert_int_equal(neuron_major_format(&floats, EXPERTS), FORMAT_F16);
    assert_false(neuron_major_rounds(FORMAT_F16, FORMAT_F16, FORMAT_F16));
    free((void *)(uintptr_t)floats.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_values_stay),
        cmocka_unit_test(others_are_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
