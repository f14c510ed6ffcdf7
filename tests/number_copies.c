/* number_copies.c - the formats of coarse copies against second implementations: values taken bit by bit, and the best of
 * all choices of levels by trying each. */
#include "../src/number/format.h"
#include "../src/number/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 64 /* a block */

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double size = sqrt(-2 * log(uniform(state)));
    return size * cos(6.283185307179586 * uniform(state));
}

/* No user finds them by name, no file by type, and no command writes them. */
static void are_for_memory_only(void **state)
{
    (void)state;
    size_t count = 0, bytes;
    for (number_format f = 0; f < FORMAT_COUNT; f++) {
        if (number_is_in_files(f))
            continue;
        count++;
        assert_true(number_is_encoded(f) && !number_is_written(f) && number_is_block(f));
        assert_int_equal(number_format_by_name(number_formats[f].name), FORMAT_COUNT);
        assert_false(number_row_bytes(f, 96, &bytes)); /* a block and a half */
        assert_true(number_row_bytes(f, 128, &bytes) && bytes == 2 * number_formats[f].block_bytes);
    }
    assert_int_equal(count, 2);
    assert_int_equal(number_format_by_gguf_type(NOT_IN_FILES), FORMAT_STORED_COUNT);
}

/* Number i of a block whose numbers have `bits` bits: runs of 4 * 8 / bits values in four bytes, see blocks.h. */
static unsigned number_at(const uint8_t *packed, size_t bits, size_t i)
{
    size_t run = 32 / bits, byte = i / run * 4 + i % run % 4, at = i % run / 4 * bits;
    return (unsigned)packed[byte] / (1u << at) % (1u << bits);
}

static void decoding(void **unused)
{
    (void)unused;
    uint64_t state = 5;
    uint8_t blocks[2 * 18 + 1];
    float y[2 * N], odd[2 * N + 1];
    for (int round = 0; round < 200; round++)
        for (size_t bits = 1; bits <= 2; bits++) {
            const number_traits *t = &number_formats[bits == 1 ? FORMAT_SIGNS1 : FORMAT_LEVELS2];
            for (size_t i = 0; i < sizeof blocks; i++)
                blocks[i] = (uint8_t)next(&state);
            t->decode(blocks + 1, y, 2 * N);
            t->decode(blocks + 1, (float *)(void *)((char *)odd + 1), 2 * N);
            assert_memory_equal((char *)odd + 1, y, sizeof y);
            for (size_t i = 0; i < 2 * N; i++) {
                const uint8_t *block = blocks + 1 + i / N * t->block_bytes;
                float d = half_to_float((uint16_t)(block[0] | block[1] << 8));
                int level = 2 * (int)number_at(block + 2, bits, i % N) - (bits == 1 ? 1 : 3);
                assert_true(y[i] == (float)level * d || isnan(d));
            }
        }
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The least squared error of N values with the levels +-d and +-3 d, d unrounded: of all numbers k of magnitudes, the
 * largest ones, that are at the outer level, with the best d for each. */
static double best_error(const float x[N])
{
    double m[N], squares = 0, sum = 0, top = 0, most = 0;
    for (size_t i = 0; i < N; i++) {
        m[i] = fabs((double)x[i]);
        squares += m[i] * m[i];
        sum += m[i];
    }
    qsort(m, N, sizeof *m, descending);
    for (size_t k = 0; k <= N; k++) {
        double fit = sum + 2 * top;
        most = fmax(most, fit * fit / (double)(N + 8 * k));
        top += k < N ? m[k] : 0;
    }
    return squares - most;
}

static double error_of(const float x[N], const float y[N])
{
    double error = 0;
    for (size_t i = 0; i < N; i++)
        error += pow((double)y[i] - (double)x[i], 2);
    return error;
}

/* Normal, uniform, long tails, one outlier, two sizes. */
static void fill(float x[N], int kind, double scale, uint64_t *state)
{
    for (size_t i = 0; i < N; i++) {
        double v = normal(state);
        const double kinds[] = {v, 2 * uniform(state) - 1, v * v * v, i == 9 ? 20 * v : v, i % 2 ? v : 0.05 * v};
        x[i] = (float)(scale * kinds[kind]);
    }
}

static void signs_have_the_mean_magnitude(void **unused)
{
    (void)unused;
    uint64_t state = 17;
    float x[N], y[N];
    uint8_t block[10];
    for (int round = 0; round < 1000; round++) {
        double mean = 0;
        fill(x, round % 5, ldexp(1, round % 20 - 10), &state);
        number_formats[FORMAT_SIGNS1].encode(x, NULL, block, N);
        number_formats[FORMAT_SIGNS1].decode(block, y, N);
        for (size_t i = 0; i < N; i++)
            mean += fabs((double)x[i]) / N;
        for (size_t i = 0; i < N; i++)
            assert_true(signbit(x[i]) == signbit(y[i]) && fabs(fabs((double)y[i]) - mean) <= mean * 0x1p-10 + 0x1p-25);
    }
}

/* Blocks of one kind come out with at most 1 % more error than the best choice of levels has (outliers: 4 %), and so
 * does no block with more than a quarter. Scales of 16 bits add 2^-22 of the squares at most. */
static void levels_have_nearly_the_least_error(void **unused)
{
    (void)unused;
    uint64_t state = 23;
    float x[N], y[N];
    uint8_t block[18];
    for (int kind = 0; kind < 5; kind++) {
        double error = 0, best = 0, squares = 0;
        for (int round = 0; round < 2000; round++) {
            fill(x, kind, ldexp(1, round % 20 - 10), &state);
            number_formats[FORMAT_LEVELS2].encode(x, NULL, block, N);
            number_formats[FORMAT_LEVELS2].decode(block, y, N);
            double own = 0, e = error_of(x, y), b = best_error(x);
            for (size_t i = 0; i < N; i++)
                own += (double)x[i] * (double)x[i];
            assert_true(e >= b - 1e-6 * own && e <= 1.25 * b + 1e-5 * own);
            error += e / own;
            best += b / own;
            squares += 1;
        }
        print_message("kind %d: error %.4f of the squares, best %.4f\n", kind, error / squares, best / squares);
        assert_true(error <= (kind == 3 ? 1.04 : 1.01) * best);
    }
}

/* What theory says of normal values: 1 - 2 / pi of the squares for signs; 0.1188 for four levels at equal distances
 * (J. Max, Quantizing for minimum distortion, 1960, table II). Scales of their own make blocks of 64 a little better. */
static void normal_values_lose_what_theory_says(void **unused)
{
    (void)unused;
    uint64_t state = 31;
    float x[N], y[N];
    uint8_t block[18];
    double error[2] = {0}, squares = 0;
    for (int round = 0; round < 4000; round++) {
        fill(x, 0, 1, &state);
        for (size_t i = 0; i < N; i++)
            squares += (double)x[i] * (double)x[i];
        for (size_t k = 0; k < 2; k++) {
            const number_traits *t = &number_formats[k ? FORMAT_LEVELS2 : FORMAT_SIGNS1];
            t->encode(x, NULL, block, N);
            t->decode(block, y, N);
            error[k] += error_of(x, y);
        }
    }
    assert_true(fabs(error[0] / squares - (1 - 2 / 3.14159265358979)) < 0.01);
    assert_true(error[1] / squares < 0.1188 && error[1] / squares > 0.105);
}

/* Zeros come back as zeros, and nothing that is not finite comes back, whatever goes in. */
static void edges(void **unused)
{
    (void)unused;
    uint64_t state = 41;
    float x[N] = {0}, y[N];
    uint8_t block[18];
    for (size_t k = 0; k < 2; k++) {
        const number_traits *t = &number_formats[k ? FORMAT_LEVELS2 : FORMAT_SIGNS1];
        memset(x, 0, sizeof x);
        t->encode(x, NULL, block, N);
        t->decode(block, y, N);
        for (size_t i = 0; i < N; i++)
            assert_true(y[i] == 0);
        for (int round = 0; round < 1000; round++) {
            for (size_t i = 0; i < N; i++) {
                uint32_t bits = (uint32_t)next(&state);
                if (round % 3 == 1)
                    bits |= 0x7f800000u; /* infinities and NaN only */
                else if (round % 3 == 2)
                    bits &= 0x807fffffu; /* subnormals only */
                memcpy(&x[i], &bits, sizeof bits);
            }
            t->encode(x, NULL, block, N);
            t->decode(block, y, N);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(y[i]));
        }
        for (size_t i = 0; i < N; i++)
            x[i] = i % 2 ? t->largest : -t->largest;
        t->encode(x, NULL, block, N);
        t->decode(block, y, N);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(y[i]) >= t->largest * 0.99f && signbit(y[i]) == signbit(x[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_for_memory_only),
        cmocka_unit_test(decoding),
        cmocka_unit_test(signs_have_the_mean_magnitude),
        cmocka_unit_test(levels_have_nearly_the_least_error),
        cmocka_unit_test(normal_values_lose_what_theory_says),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
