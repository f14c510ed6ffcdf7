/* number_half.c - float16 and bfloat16 against mathematics: what a pattern means is computed in double from its
 * fields, and rounding by search among the neighbouring patterns. */
#include "../src/number/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct layout16 {
    int exponent_bits, fraction_bits;
    float (*widen)(uint16_t);
    uint16_t (*round)(float);
} layout16;

static const layout16 half = {5, 10, half_to_float, half_from_float};
static const layout16 bfloat = {8, 7, bfloat_to_float, bfloat_from_float};

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE 754: (-1)^s 2^(e - bias) (1 + fraction), and 2^(1 - bias) fraction for e = 0. The pattern of infinity is
 * given its place in the sequence of finite values, 2^(largest exponent + 1), which is what rounding needs. */
static double meaning(const layout16 *k, uint32_t magnitude)
{
    int bias = (1 << (k->exponent_bits - 1)) - 1;
    int exponent = (int)(magnitude >> k->fraction_bits);
    double fraction = (double)(magnitude & ((1u << k->fraction_bits) - 1));
    double unit = ldexp(1.0, -k->fraction_bits);
    return exponent == 0 ? ldexp(fraction * unit, 1 - bias) : ldexp(1.0 + fraction * unit, exponent - bias);
}

static uint32_t infinity_of(const layout16 *k)
{
    return ((1u << k->exponent_bits) - 1) << k->fraction_bits;
}

static void check_every_pattern(const layout16 *k)
{
    uint32_t infinity = infinity_of(k), quiet = 1u << (k->fraction_bits - 1);
    for (uint32_t pattern = 0; pattern <= 0xffff; pattern++) {
        uint32_t magnitude = pattern & 0x7fff;
        float f = k->widen((uint16_t)pattern);
        assert_int_equal(signbit(f) != 0, pattern >> 15);
        if (magnitude > infinity) {
            assert_true(isnan(f));
            assert_true(bits_of(f) & 0x400000); /* quiet */
            assert_int_equal(k->round(f), pattern | quiet);
            continue;
        }
        if (magnitude == infinity)
            assert_true(isinf(f));
        else
            assert_true(fabs((double)f) == meaning(k, magnitude));
        assert_int_equal(k->round(f), pattern);
    }
}

/* The pattern nearest to a finite magnitude, by bisection; of two equally near ones the even one. */
static uint32_t nearest(const layout16 *k, double x)
{
    uint32_t low = 0, high = infinity_of(k);
    if (x >= meaning(k, high))
        return high;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (meaning(k, middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double below = x - meaning(k, low), above = meaning(k, high) - x;
    if (below == above)
        return low % 2 == 0 ? low : high;
    return below < above ? low : high;
}

static void check_rounding(const layout16 *k, float f)
{
    assert_int_equal(k->round(f), nearest(k, (double)f));
    assert_int_equal(k->round(-f), nearest(k, (double)f) | 0x8000);
}

/* Every half way point between neighbours that float32 can hold, and its two neighbours in float32. */
static void check_ties(const layout16 *k)
{
    for (uint32_t pattern = 0; pattern < infinity_of(k); pattern++) {
        double middle = (meaning(k, pattern) + meaning(k, pattern + 1)) / 2.0;
        float f = (float)middle;
        if ((double)f != middle)
            continue;
        check_rounding(k, f);
        check_rounding(k, nextafterf(f, INFINITY));
        check_rounding(k, nextafterf(f, 0.0f));
    }
}

static void check_anywhere(const layout16 *k)
{
    uint32_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t magnitude = state >> 1;
        if (magnitude < 0x7f800000)
            check_rounding(k, float_of(magnitude));
    }
    check_rounding(k, 0.0f);
    check_rounding(k, 0x1p-149f);
    check_rounding(k, 0x1.fffffep127f);
}

static void half_patterns(void **state)
{
    (void)state;
    check_every_pattern(&half);
}

static void half_rounding(void **state)
{
    (void)state;
    check_ties(&half);
    check_anywhere(&half);
    assert_int_equal(half_from_float(65504.0f), 0x7bff);
    assert_int_equal(half_from_float(65519.996f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(half_from_float(0x1p-25f), 0); /* half of the smallest: to even */
    assert_int_equal(half_from_float(0x1.000002p-25f), 1);
}

static void bfloat_patterns(void **state)
{
    (void)state;
    check_every_pattern(&bfloat);
}

static void bfloat_rounding(void **state)
{
    (void)state;
    check_ties(&bfloat);
    check_anywhere(&bfloat);
    assert_int_equal(bfloat_from_float(INFINITY), 0x7f80);
}

/* NaNs whose payload lies only in the bits that are cut off must not become infinity. */
static void nan_stays(void **state)
{
    (void)state;
    const uint32_t nans[] = {0x7f800001, 0xff800001, 0x7fc00000, 0x7fffffff, 0xffffffff, 0x7f801000};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        uint16_t h = half_from_float(float_of(nans[i])), b = bfloat_from_float(float_of(nans[i]));
        assert_true((h & 0x7c00) == 0x7c00 && (h & 0x0200));
        assert_true((b & 0x7f80) == 0x7f80 && (b & 0x0040));
        assert_int_equal(h >> 15, nans[i] >> 31);
        assert_int_equal(b >> 15, nans[i] >> 31);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_patterns),   cmocka_unit_test(half_rounding), cmocka_unit_test(bfloat_patterns),
        cmocka_unit_test(bfloat_rounding), cmocka_unit_test(nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
