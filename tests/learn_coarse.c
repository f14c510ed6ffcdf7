/* The coarse selector's margin against double precision and sorting. */
#include "../src/learn/measure.h"

#include "learn_build.h"

static const learnt_shape shapes[] = {
    {.d = 64, .f = 96, .rows = 600, .format = FORMAT_F32, .gating = FFN_GATED},
    {.d = 64, .f = 93, .rows = 600, .format = FORMAT_F16, .gating = FFN_GATED, .ordered = true},
    {.d = 96, .f = 66, .rows = 600, .format = FORMAT_F32, .gating = FFN_PLAIN, .biases = true, .ordered = true},
    {.d = 32, .f = 96, .rows = 600, .format = FORMAT_F32, .gating = FFN_GATED_BOTH, .activation_threshold = 0.1f},
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As kernel.h describes the rounding of activations. */
static void round_input(const float *x, size_t n, double *out)
{
    for (size_t b = 0; b < n; b += 32) {
        float most = 0;
        for (size_t i = b; i < b + 32; i++)
            most = fmaxf(most, fabsf(x[i]));
        for (size_t i = b; i < b + 32; i++)
            out[i] = most > 0 ? (double)(nearbyintf(x[i] * (127 / most)) * (most / 127)) : 0;
    }
}

/* Deviations that each neuron of the held-out rows falls short by: [rows][f] by neuron number. */
static double *shortfalls(const learnt *l, number_format format)
{
    size_t d = l->shape.d, f = l->shape.f, from = states_training_count(&l->rows), n = l->rows.count - from, bytes;
    double *out = malloc(n * f * sizeof *out), *copy = malloc(f * d * sizeof *copy), *x = malloc(d * sizeof *x);
    double *spread = calloc(f, sizeof *spread);
    float *row = malloc(d * sizeof *row);
    assert_true(number_row_bytes(format, d, &bytes));
    char *stored = malloc(bytes);
    for (size_t i = 0; i < f; i++) {
        for (size_t c = 0; c < d; c++)
            row[c] = (float)l->first[i * d + c];
        number_formats[format].encode(row, NULL, stored, d);
        number_formats[format].decode(stored, row, d);
        for (size_t c = 0; c < d; c++) {
            copy[i * d + c] = (double)row[c];
            spread[i] += pow((double)row[c] - l->first[i * d + c], 2);
        }
    }
    for (size_t t = 0; t < n; t++) {
        const float *normed = l->rows.normed + (from + t) * d;
        double squares = 0;
        round_input(normed, d, x);
        for (size_t c = 0; c < d; c++)
            squares += (double)normed[c] * (double)normed[c];
        for (size_t i = 0; i < f; i++) {
            double sum = l->shape.biases ? (double)l->bias[i] : 0;
            for (size_t c = 0; c < d; c++)
                sum += copy[i * d + c] * x[c];
            out[t * f + (l->shape.ordered ? (size_t)l->order[i] : i)] =
                ((double)l->shape.activation_threshold - sum) / sqrt(squares / (double)d * spread[i]);
        }
    }
    free(copy);
    free(x);
    free(spread);
    free(row);
    free(stored);
    return out;
}

static void margins_are_those_of_sorting(void **state)
{
    (void)state;
    static const number_format formats[] = {FORMAT_Q8_0, FORMAT_Q4_0, FORMAT_LEVELS2, FORMAT_SIGNS1};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes * 4; k++) {
        if (shapes[k / 4].d % number_formats[formats[k % 4]].block_values != 0)
            continue;
        learnt *l = learnt_new(&shapes[k / 4]);
        size_t f = l->shape.f, from = states_training_count(&l->rows), n = l->rows.count - from, fired = 0;
        double *all = shortfalls(l, formats[k % 4]), *of_fired = malloc(n * f * sizeof *of_fired);
        for (size_t i = 0; i < n * f; i++)
            if (learnt_fired(l, from + i / f, i % f))
                of_fired[fired++] = all[i];
        qsort(of_fired, fired, sizeof *of_fired, compare);
        for (int percent = 90; percent < 100; percent += 3) {
            float recall = (float)percent / 100;
            recall_result m;
            assert_int_equal(measure_coarse(&m, &l->model, 0, &l->rows, formats[k % 4], recall, NULL, NULL, NULL),
                             HEARTH_OK);
            size_t wanted = (size_t)ceil((double)recall * (double)fired);
            double margin = of_fired[wanted - 1];
            size_t through = 0, both = 0;
            for (size_t i = 0; i < n * f; i++) {
                bool passes = all[i] <= margin + 1e-9;
                through += passes;
                both += passes && learnt_fired(l, from + i / f, i % f);
            }
            assert_true(fabs((double)m.threshold - margin) <= 1e-3 * (1 + fabs(margin)));
            assert_true(m.recall >= (double)wanted / (double)fired - 1e-9);
            assert_true(fabs(m.density - (double)through / (double)(n * f)) < 3e-3);
            assert_true(fabs(m.fired - (double)both / (double)through) < 1e-2);
        }
        free(all);
        free(of_fired);
        learnt_free(l);
    }
}

static void any_threads_give_the_same(void **state)
{
    (void)state;
    learnt *l = learnt_new(&shapes[1]);
    recall_result alone, many;
    pool *p;
    assert_int_equal(pool_create(&p, 3, NULL), HEARTH_OK);
    assert_int_equal(measure_coarse(&alone, &l->model, 0, &l->rows, FORMAT_Q4_0, 0.98f, NULL, NULL, NULL), HEARTH_OK);
    assert_int_equal(measure_coarse(&many, &l->model, 0, &l->rows, FORMAT_Q4_0, 0.98f, NULL, p, NULL), HEARTH_OK);
    assert_true(alone.threshold == many.threshold && alone.recall == many.recall && alone.density == many.density);
    assert_true(alone.fired == many.fired);
    pool_destroy(p);
    learnt_free(l);
}

static void faults_and_misfits_are_told(void **state)
{
    (void)state;
    learnt *l = learnt_new(&shapes[0]);
    recall_result m;
    hearth_error error;
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        mem_fail_at(n++);
        status = measure_coarse(&m, &l->model, 0, &l->rows, FORMAT_Q4_0, 0.98f, NULL, NULL, &error);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
    } while (status != HEARTH_OK);
    assert_true(n > 8);
    /* 64 values are not a block of 256 */
    assert_int_equal(measure_coarse(&m, &l->model, 0, &l->rows, FORMAT_Q4_K, 0.98f, NULL, NULL, &error),
                     HEARTH_UNSUPPORTED);
    l->model.layers[0].ffn.activation = FFN_SILU;
    assert_int_equal(measure_coarse(&m, &l->model, 0, &l->rows, FORMAT_Q4_0, 0.98f, NULL, NULL, &error),
                     HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, "built: layer 0: coarse copy: activation silu is never zero");
    learnt_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margins_are_those_of_sorting),
        cmocka_unit_test(any_threads_give_the_same),
        cmocka_unit_test(faults_and_misfits_are_told),
    };
    return run_group(tests, NULL, NULL);
}
