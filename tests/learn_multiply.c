/* learn_multiply.c - products of matrices for training, against sums in double precision: every way a product_factor may lie, odd
 * sizes and sizes beyond a block, at every level of this machine, on one thread and on several. */
#include "../src/learn/lowrank_internal.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float random_value(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

static float *random_matrix(size_t rows, size_t stride, uint64_t seed)
{
    float *values = malloc(rows * stride * sizeof *values);
    for (size_t i = 0; i < rows * stride; i++)
        values[i] = random_value(&seed);
    return values;
}

static double at(const product_factor *f, size_t row, size_t column)
{
    return (double)(f->transposed ? f->values[column * f->stride + row] : f->values[row * f->stride + column]);
}

typedef struct sizes {
    size_t m, n, k;
} sizes;

/* A dot product of k float32 terms is off by at most k eps times the sum of their magnitudes, in whatever order (Higham,
 * "Accuracy and Stability of Numerical Algorithms", 3.1); scaling and adding blocks and c are 3 roundings and one for
 * each block of 256 more. */
static void check(const float *c, const float *before, const product_factor *a, const product_factor *b, sizes s,
                  float scale, float keep, size_t c_stride)
{
    for (size_t i = 0; i < s.m; i++)
        for (size_t j = 0; j < s.n; j++) {
            double old = keep == 0 ? 0 : (double)keep * (double)before[i * c_stride + j], sum = 0, size = 0;
            for (size_t l = 0; l < s.k; l++) {
                double term = at(a, i, l) * at(b, l, j);
                sum += term;
                size += fabs(term);
            }
            double roundings = (double)s.k + (double)s.k / 256 + 4;
            double bound = FLT_EPSILON * roundings * (fabs((double)scale) * size + fabs(old));
            double want = (double)scale * sum + old, got = (double)c[i * c_stride + j];
            if (!(fabs(got - want) <= bound))
                fail_msg("%zu x %zu x %zu at %zu, %zu: got %g, expected %g within %g", s.m, s.n, s.k, i, j, got, want,
                         bound);
        }
}

static void multiply_once(const kernels *by, pool *threads, sizes s, unsigned way, float scale, float keep)
{
    bool turn_a = way & 1, turn_b = way & 2;
    size_t a_rows = turn_a ? s.k : s.m, a_stride = (turn_a ? s.m : s.k) + 3;
    size_t b_rows = turn_b ? s.n : s.k, b_stride = (turn_b ? s.k : s.n) + 1, c_stride = s.n + 2;
    float *a = random_matrix(a_rows, a_stride, 1 + way), *b = random_matrix(b_rows, b_stride, 77 + way);
    float *before = random_matrix(s.m, c_stride, 5), *c = malloc(s.m * c_stride * sizeof *c);
    for (size_t i = 0; keep == 0 && i < s.m * c_stride; i++)
        before[i] = NAN; /* not read */
    memcpy(c, before, s.m * c_stride * sizeof *c);
    product_factor left = {a, a_stride, turn_a}, right = {b, b_stride, turn_b};
    if (threads)
        multiply_matrices_wide(by, threads, s.m, s.n, s.k, scale, left, right, keep, c, c_stride);
    else
        multiply_matrices(by, s.m, s.n, s.k, scale, left, right, keep, c, c_stride);
    check(c, before, &left, &right, s, scale, keep, c_stride);
    for (size_t i = 0; i < s.m; i++) /* between the rows nothing is touched */
        assert_memory_equal(c + i * c_stride + s.n, before + i * c_stride + s.n, 2 * sizeof *c);
    free(a);
    free(b);
    free(before);
    free(c);
}

static void products_are_right(void **state)
{
    (void)state;
    static const sizes all[] = {{1, 1, 1},     {3, 5, 7},     {1, 70, 33},    {33, 1, 300}, {32, 64, 256},
                                {31, 63, 255}, {33, 65, 257}, {70, 130, 513}, {5, 300, 12}, {300, 5, 12}};
    pool *threads;
    assert_int_equal(pool_create(&threads, 3, NULL), HEARTH_OK);
    for (size_t level = 0; level < kernel_level_count(); level++) {
        kernels by;
        if (!kernel_level_present(level))
            continue;
        kernels_for(level, &by);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            for (unsigned way = 0; way < 4; way++) {
                multiply_once(&by, NULL, all[i], way, 1, 0);
                multiply_once(&by, NULL, all[i], way, -0.5f, 1);
                multiply_once(&by, threads, all[i], way, 2, 0.25f);
            }
    }
    pool_destroy(threads);
}

/* Nothing to add up is zero, and no rows are none. */
static void empty_products(void **state)
{
    (void)state;
    kernels by;
    float c[4] = {1, 2, 3, 4}, x[2] = {1, 1};
    product_factor f = {x, 2, false};
    kernels_for(kernel_level_find(NULL), &by);
    multiply_matrices(&by, 2, 2, 0, 1, f, f, 0.5f, c, 2);
    assert_true(c[0] == 0.5f && c[1] == 1 && c[2] == 1.5f && c[3] == 2);
    multiply_matrices(&by, 0, 2, 1, 1, f, f, 0, c, 2);
    multiply_matrices(&by, 2, 0, 1, 1, f, f, 0, c, 2);
    assert_true(c[0] == 0.5f);
}

/* Pieces are cut at the same places whoever works on them: the same bytes on any number of threads. */
static void threads_do_not_show(void **state)
{
    (void)state;
    enum { M = 700, N = 40, K = 90 };
    kernels by;
    float *a = random_matrix(M, K, 3), *b = random_matrix(K, N, 4), *c[2];
    kernels_for(kernel_level_find(NULL), &by);
    for (unsigned i = 0; i < 2; i++) {
        pool *threads;
        c[i] = calloc(M * N, sizeof **c);
        assert_int_equal(pool_create(&threads, i ? 4 : 1, NULL), HEARTH_OK);
        multiply_matrices_wide(&by, threads, M, N, K, 1, (product_factor){a, K, false}, (product_factor){b, N, false},
                               0, c[i], N);
        pool_destroy(threads);
    }
    assert_memory_equal(c[0], c[1], M * N * sizeof **c);
    free(a);
    free(b);
    free(c[0]);
    free(c[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(empty_products),
        cmocka_unit_test(threads_do_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
