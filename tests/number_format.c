/* number_format.c - the table of formats, and encoding at the edges: extreme values, hostile bit patterns,
 * error bounds that follow from each format's step. */
#include "../src/number/format.h"
#include "../src/number/half.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#define N 512 /* two of the largest blocks */

static void table(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const number_traits *traits = &number_formats[f];
        assert_non_null(traits->decode);
        if (!number_is_in_files((number_format)f)) /* tests/number_copies.c */
            continue;
        assert_true(number_is_written((number_format)f) == (traits->largest > 0));
        assert_true(traits->block_values <= N && N % traits->block_values == 0);
        assert_int_equal(number_format_by_name(traits->name), f);
        assert_int_equal(number_format_by_gguf_type(traits->gguf_type), f);
        assert_int_equal(number_is_block((number_format)f), traits->block_values > 1);
        for (size_t g = 0; g < f; g++) {
            assert_int_not_equal(strcasecmp(number_formats[g].name, traits->name), 0);
            assert_int_not_equal(number_formats[g].gguf_type, traits->gguf_type);
            assert_int_not_equal(number_formats[g].file_type, traits->file_type);
        }
    }
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(number_format_by_name("Q4_K"), FORMAT_Q4_K);
    assert_int_equal(number_format_by_name("q4_k"), FORMAT_Q4_K);
    assert_int_equal(number_format_by_name("BF16"), FORMAT_BF16);
    assert_int_equal(number_format_by_name("f3"), FORMAT_COUNT);
    assert_int_equal(number_format_by_name(""), FORMAT_COUNT);
    assert_int_equal(number_format_by_gguf_type(9), FORMAT_STORED_COUNT); /* Q8_1: never in files */
    assert_int_equal(number_format_by_gguf_type(UINT32_MAX), FORMAT_STORED_COUNT);
}

/* What files store besides weights has a name and a size, but no user can ask for it and nothing decodes it. */
static void no_weights(void **state)
{
    (void)state;
    size_t size = 0;
    for (size_t f = FORMAT_COUNT; f < FORMAT_STORED_COUNT; f++) {
        assert_null(number_formats[f].decode);
        assert_null(number_formats[f].encode);
        assert_int_equal(number_format_by_gguf_type(number_formats[f].gguf_type), f);
        assert_int_equal(number_format_by_name(number_formats[f].name), FORMAT_COUNT);
    }
    assert_int_equal(number_format_by_gguf_type(26), FORMAT_I32);
    assert_true(number_row_bytes(FORMAT_I32, 1056, &size));
    assert_int_equal(size, 4224);
}

static void row_sizes(void **state)
{
    (void)state;
    size_t size = 77;
    assert_true(number_row_bytes(FORMAT_F32, 3, &size));
    assert_int_equal(size, 12);
    assert_true(number_row_bytes(FORMAT_Q4_0, 4096, &size));
    assert_int_equal(size, 2304);
    assert_true(number_row_bytes(FORMAT_Q6_K, 512, &size));
    assert_int_equal(size, 420);
    assert_true(number_row_bytes(FORMAT_Q8_0, 0, &size));
    assert_int_equal(size, 0);

    size = 77;
    assert_false(number_row_bytes(FORMAT_Q8_0, 33, &size));
    assert_false(number_row_bytes(FORMAT_Q4_K, 128, &size));
    assert_false(number_row_bytes(FORMAT_STORED_COUNT, 32, &size));
    /* 2^62 values of 4 bytes are 2^64 bytes: one too many. */
    assert_false(number_row_bytes(FORMAT_F32, (uint64_t)1 << 62, &size));
    assert_false(number_row_bytes(FORMAT_Q8_0, UINT64_MAX - 31, &size));
    assert_int_equal(size, 77);
#if SIZE_MAX == UINT64_MAX
    assert_true(number_row_bytes(FORMAT_F16, ((uint64_t)1 << 63) - 1, &size));
    assert_true(size == SIZE_MAX - 1);
#endif
}

/* ---- encoding */

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* About normal, by the sum of twelve. */
static float normal(uint32_t *state)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++)
        sum += (double)next(state) / 4294967296.0;
    return (float)sum;
}

/* Encodes and decodes; importance may be NULL. */
static void recode_weighed(number_format f, const float *x, const float *importance, float *y)
{
    static char blocks[N * sizeof(float)];
    memset(blocks, 0xa5, sizeof blocks);
    number_formats[f].encode(x, importance, blocks, N);
    size_t size = N / number_formats[f].block_values * number_formats[f].block_bytes;
    for (size_t i = size; i < sizeof blocks; i++)
        assert_int_equal((uint8_t)blocks[i], 0xa5); /* writes what it should and no more */
    number_formats[f].decode(blocks, y, N);
}

static void recode(number_format f, const float *x, float *y)
{
    recode_weighed(f, x, NULL, y);
}

/* How far a format may be off, as parts of the block's range (largest value, 0 included, less smallest), or of its
 * largest magnitude, and as multiples of float16's smallest step 2^-24, which the scale is rounded to. */
typedef struct bound {
    number_format format;
    double of_magnitude, of_range, tiny;
    bool mean; /* root of the mean square over the block; else of every value */
} bound;

/* clang-format off */
static const bound bounds[] = {
    /* F16: half of 2^-10; below 2^-14 half of 2^-24 */
    {FORMAT_F16,  0x1p-11,          0, 0.5, false},
    {FORMAT_BF16, 0x1p-8,           0, 0, false},
    /* half a step of 1/127, and 127 times the rounding of the scale, 2^-11 of itself */
    {FORMAT_Q8_0, 0.5 / 127 + 0x1p-11, 0, 127 * 0.5, false},
    /* +8 is cut to +7: a whole step of 1/8; 8 times the rounding of the scale */
    {FORMAT_Q4_0, 1.0 / 8 + 0x1p-11, 0, 8 * 0.5, false},
    /* a whole step of 1/15 of the range: half for rounding, the other half is more than enough for the
     * 6-bit scale (15/126 of a step) and minimum (15/126 as well); searches only bound the mean */
    {FORMAT_Q4_K, 0, 1.0 / 15, 63 * 15 * 0.5 + 63 * 0.5, true},
    {FORMAT_Q6_K, 1.0 / 32, 0, 127 * 32 * 0.5, true},
    /* half a step of 1/15 (1/31) of the range; scale and minimum are rounded to float16 on their own, the first times 15
     * (31), the other relative to itself */
    {FORMAT_Q4_1, 0x1p-11, 0.5 / 15 + 0x1p-11, 15 * 0.5 + 0.5, false},
    {FORMAT_Q5_1, 0x1p-11, 0.5 / 31 + 0x1p-11, 31 * 0.5 + 0.5, false},
    /* +16 is cut to +15 */
    {FORMAT_Q5_0, 1.0 / 16 + 0x1p-11, 0, 16 * 0.5, false},
    /* as Q4_K, with steps of 1/3 and 1/31; scale and minimum of 4 bits are off by 3/30 of a step */
    {FORMAT_Q2_K, 0, 1.0 / 3, 15 * 3 * 0.5 + 15 * 0.5, true},
    {FORMAT_Q5_K, 0, 1.0 / 31, 63 * 31 * 0.5 + 63 * 0.5, true},
    /* -4 is reached, +4 cut to +3 */
    {FORMAT_Q3_K, 1.0 / 4, 0, 31 * 4 * 0.5, true},
    /* the widest gap of the list is 24 of 127, and 113 is the end on the other side */
    {FORMAT_IQ4_NL, 14.0 / 127, 0, 127 * 0.5, true},
    {FORMAT_IQ4_XS, 14.0 / 127, 0, 31 * 127 * 0.5, true},
    /* values up to 8 are cut to 6, all in units where the largest is at least 4 */
    {FORMAT_MXFP4, 2.0 / 8, 0, 0, false},
    /* half of the only step */
    {FORMAT_TQ1_0, 0.5 + 0x1p-11, 0, 0.5, false},
    {FORMAT_TQ2_0, 0.5 + 0x1p-11, 0, 0.5, false},
};
/* clang-format on */

static const bound *find_bound(number_format f)
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].format == f)
            return &bounds[i];
    fail_msg("%s has no bound", number_formats[f].name);
    return NULL;
}

static void check_bound(const bound *b, const float *x, const float *y)
{
    size_t block = number_formats[b->format].block_values;
    for (size_t from = 0; from < N; from += block) {
        double low = 0, high = 0, square = 0, worst = 0;
        for (size_t i = from; i < from + block; i++) {
            double error = (double)y[i] - (double)x[i];
            low = fmin(low, (double)x[i]);
            high = fmax(high, (double)x[i]);
            square += error * error;
            worst = fmax(worst, fabs(error));
        }
        double error = b->mean ? sqrt(square / (double)block) : worst;
        double limit = b->of_magnitude * fmax(high, -low) + b->of_range * (high - low) + b->tiny * 0x1p-24;
        if (!(error <= limit * 1.0001))
            fail_msg("%s: error %g, at most %g expected (range %g to %g)", number_formats[b->format].name, error, limit,
                     low, high);
    }
}

/* Normal values, one-sided values, one outlier, alternating signs, constants: at every scale float16 knows. */
static void shape(int kind, double scale, uint32_t *state, float x[N])
{
    for (size_t i = 0; i < N; i++) {
        float v = normal(state);
        const float shapes[] = {
            v,    fabsf(v),        -fabsf(v),      i % 100 == 7 ? 30.0f * v : v, i % 2 ? 1.0f : -1.0f,
            1.0f, -1.0f,           i % 32 ? 0 : v, i / 32 % 2 ? v : 0.001f * v,  -3.0f + 0.01f * v,
            0.0f, 3.0f + 0.01f * v};
        x[i] = (float)(scale * (double)shapes[kind]);
    }
}

static void errors_are_bounded(void **unused)
{
    (void)unused;
    uint32_t state = 12345;
    float x[N], y[N];
    for (size_t f = 0; f < sizeof bounds / sizeof *bounds; f++) {
        for (int exponent = -40; exponent <= 9; exponent++) {
            for (int kind = 0; kind < 12; kind++) {
                shape(kind, ldexp(1.0, exponent), &state, x);
                recode(bounds[f].format, x, y);
                check_bound(&bounds[f], x, y);
            }
        }
    }
}

/* Where all values count alike the search of Q4 and Q5 for the least squared error finds at most the error that the bounds
 * allow to every single value. */
static void equal_importance_is_bounded(void **unused)
{
    (void)unused;
    uint32_t state = 54321;
    float x[N], y[N], ones[N];
    for (size_t i = 0; i < N; i++)
        ones[i] = 0.3f;
    for (size_t f = 0; f < sizeof bounds / sizeof *bounds; f++) {
        bound b = bounds[f];
        b.mean = true;
        for (int exponent = -40; exponent <= 9; exponent++)
            for (int kind = 0; kind < 12; kind++) {
                shape(kind, ldexp(1.0, exponent), &state, x);
                recode_weighed(b.format, x, ones, y);
                check_bound(&b, x, y);
            }
    }
}

/* Where one value in 16 counts a million times as much as the others, those come out with less than a quarter of the squared
 * error that they have without importance. */
static void what_counts_is_met(void **unused)
{
    (void)unused;
    uint32_t state = 777;
    float x[N], y[N], weights[N];
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!number_weighs((number_format)f))
            continue;
        double error = 0, plain = 0;
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < N; i++) {
                x[i] = normal(&state);
                weights[i] = i % 16 == 5 ? 1000.0f : 0.001f;
            }
            recode_weighed((number_format)f, x, weights, y);
            for (size_t i = 5; i < N; i += 16)
                error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            recode((number_format)f, x, y);
            for (size_t i = 5; i < N; i += 16)
                plain += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        }
        print_message("%s: %.4f of the error without importance\n", number_formats[f].name, error / plain);
        assert_true(error < plain / 4);
    }
}

static void zeros_stay(void **unused)
{
    (void)unused;
    const float x[N] = {0};
    float y[N];
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!number_is_written((number_format)f))
            continue;
        recode((number_format)f, x, y);
        for (size_t i = 0; i < N; i++)
            assert_true(y[i] == 0.0f);
        recode_weighed((number_format)f, x, x, y);
        for (size_t i = 0; i < N; i++)
            assert_true(y[i] == 0.0f);
    }
}

static void float_formats_keep_specials(void **unused)
{
    (void)unused;
    float x[N] = {INFINITY, -INFINITY, NAN, -0.0f, FLT_MIN, 0x1p-149f, FLT_MAX}, y[N];
    const number_format formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_BF16};
    for (size_t f = 0; f < 3; f++) {
        recode(formats[f], x, y);
        assert_true(y[0] == INFINITY && y[1] == -INFINITY && isnan(y[2]));
        assert_true(y[3] == 0.0f && signbit(y[3]));
    }
}

/* NaN counts as 0, infinity as very large, and nothing that is not finite comes back, whatever the importance is. */
static void blocks_stay_finite(void **unused)
{
    (void)unused;
    uint32_t state = 99;
    float x[N], y[N], weights[N];
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!number_is_block((number_format)f) || !number_is_written((number_format)f))
            continue;
        for (int round = 0; round < 400; round++) {
            for (size_t i = 0; i < N; i++) {
                uint32_t bits = next(&state);
                if (round % 4 == 1)
                    bits |= 0x7f800000u; /* infinities and NaN only */
                else if (round % 4 == 2)
                    bits &= 0x807fffffu; /* subnormals only */
                else if (round % 4 == 3)
                    bits = (bits & 0x83ffffffu) | 0x3c000000u; /* of sizes that float16 knows */
                memcpy(&x[i], &bits, sizeof bits);
                bits = next(&state) >> (round % 3 == 0); /* of either sign, or positive */
                memcpy(&weights[i], &bits, sizeof bits);
            }
            recode((number_format)f, x, y);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(y[i]));
            recode_weighed((number_format)f, x, weights, y);
            for (size_t i = 0; i < N; i++)
                assert_true(isfinite(y[i]));
        }
        for (size_t i = 0; i < N; i++)
            x[i] = i == 5 ? NAN : (float)(i % 15) - 7.0f;
        recode((number_format)f, x, y);
        const bound *b = find_bound((number_format)f); /* a single value of those that bound the mean: twice that */
        double most = (b->mean ? 2 : 1) * (b->of_magnitude * 7 + b->of_range * 14) + b->tiny * 0x1p-24;
        assert_true(fabs((double)y[5]) <= most);
        assert_true(fabs((double)y[9] - (double)x[9]) <= most);
        x[5] = -INFINITY;
        recode((number_format)f, x, y);
        assert_true(y[5] < -65000.0f);
    }
}

/* What the table calls the largest value is encoded as well as a small one, whatever stands beside it: the bounds of
 * above are shares of the block's range. The float formats make infinity of what is larger. */
static void largest_values_fit(void **unused)
{
    (void)unused;
    uint32_t state = 4711;
    float x[N], y[N];
    for (size_t f = 0; f < sizeof bounds / sizeof *bounds; f++) {
        number_format format = bounds[f].format;
        float largest = number_formats[format].largest;
        for (int kind = 0; kind < 12; kind++) {
            float most = 0;
            shape(kind, 1, &state, x);
            for (size_t i = 0; i < N; i++)
                most = fmaxf(most, fabsf(x[i]));
            for (size_t i = 0; most > 0 && i < N; i++)
                x[i] = fmaxf(fminf(x[i] / most, 1), -1) * largest;
            recode(format, x, y);
            check_bound(&bounds[f], x, y);
            assert_int_equal(number_find_unfit(format, x, N), N);
        }
    }
    for (size_t f = FORMAT_F16; f <= FORMAT_BF16; f++) {
        for (size_t i = 0; i < N; i++)
            x[i] = nextafterf(number_formats[f].largest, INFINITY);
        recode((number_format)f, x, y);
        assert_true(isinf(y[0]));
    }
}

/* The first value that does not fit, wherever it stands; NaN and infinity fit nowhere. */
static void unfit_values_are_found(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        float largest = number_formats[f].largest;
        if (!number_is_written((number_format)f))
            continue;
        const float unfit[] = {
            NAN, -NAN, INFINITY, -INFINITY, nextafterf(largest, INFINITY), -nextafterf(largest, INFINITY)};
        for (size_t k = 0; k < sizeof unfit / sizeof *unfit; k++)
            for (size_t at = 0; at < 70; at += 23) {
                float x[70];
                for (size_t i = 0; i < 70; i++)
                    x[i] = i % 2 ? largest : -largest;
                assert_int_equal(number_find_unfit((number_format)f, x, 70), 70);
                x[at] = x[69] = unfit[k];
                assert_int_equal(number_find_unfit((number_format)f, x, 70), at);
            }
        assert_int_equal(number_find_unfit((number_format)f, NULL, 0), 0);
    }
}

/* Scales beyond float16 are cut to its largest. */
static void large_values_are_cut(void **unused)
{
    (void)unused;
    float x[N] = {0}, y[N];
    x[0] = 1e30f;
    recode(FORMAT_Q8_0, x, y);
    assert_true(y[0] == 127.0f * 65504.0f);
    recode(FORMAT_Q4_0, x, y);
    assert_true(y[0] == 8.0f * 65504.0f);
    recode(FORMAT_Q4_K, x, y);
    assert_true(y[0] == 15.0f * 63.0f * 65504.0f);
    recode(FORMAT_Q6_K, x, y);
    assert_true(y[0] == 32.0f * 127.0f * 65504.0f);
    for (size_t i = 1; i < N; i++)
        assert_true(y[i] == 0.0f);
}

/* Halves go away from zero in Q8_0, upwards along the scale's sign in Q4_0; scales are exact here. */
static void ties(void **unused)
{
    (void)unused;
    float x[N] = {127.0f, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, 0.49999997f}, y[N];
    const float q8[] = {127, 1, -1, 2, -2, 3, 0};
    recode(FORMAT_Q8_0, x, y);
    assert_memory_equal(y, q8, sizeof q8);
    float z[N] = {-8.0f, 0.5f, -0.5f, 6.5f, 7.5f, -7.5f, 8.0f};
    const float q4[] = {-8, 1, 0, 7, 7, -7, 7};
    recode(FORMAT_Q4_0, z, y);
    assert_memory_equal(y, q4, sizeof q4);
    z[0] = 8.0f; /* now the scale is negative and +8 the first of the two largest */
    z[6] = -8.0f;
    recode(FORMAT_Q4_0, z, y);
    assert_true(y[0] == 8.0f && y[6] == -7.0f);
}

/* Any bytes decode. */
static void hostile_blocks(void **unused)
{
    (void)unused;
    uint32_t state = 7;
    static char blocks[N * sizeof(float)];
    float y[N];
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        for (int round = 0; round < 100; round++) {
            for (size_t i = 0; i < sizeof blocks; i++)
                blocks[i] = (char)next(&state);
            number_formats[f].decode(blocks, y, N);
        }
    }
    number_formats[FORMAT_Q8_0].decode(blocks, y, 0);
    assert_true(half_to_float(0x3c00) == 1.0f);
}

/* Encoding what was decoded loses next to nothing more: values already on a grid are found again. */
static void grids_are_found_again(void **unused)
{
    (void)unused;
    uint32_t state = 4711;
    float x[N], y[N], z[N];
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!number_is_written((number_format)f))
            continue;
        for (size_t i = 0; i < N; i++)
            x[i] = normal(&state);
        recode((number_format)f, x, y);
        recode((number_format)f, y, z);
        double first = 0, second = 0;
        for (size_t i = 0; i < N; i++) {
            first += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            second += ((double)z[i] - (double)y[i]) * ((double)z[i] - (double)y[i]);
        }
        assert_true(second <= 0.25 * first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(names),
        cmocka_unit_test(no_weights),
        cmocka_unit_test(row_sizes),
        cmocka_unit_test(equal_importance_is_bounded),
        cmocka_unit_test(what_counts_is_met),
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(float_formats_keep_specials),
        cmocka_unit_test(blocks_stay_finite),
        cmocka_unit_test(largest_values_fit),
        cmocka_unit_test(unfit_values_are_found),
        cmocka_unit_test(large_values_are_cut),
        cmocka_unit_test(ties),
        cmocka_unit_test(hostile_blocks),
        cmocka_unit_test(grids_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
