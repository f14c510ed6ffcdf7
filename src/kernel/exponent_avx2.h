/* exponent_avx2.h - exp of 8 values, within 2 units in the last place; NaN stays NaN. Below -126 ln 2 + ln 2 / 2 =
 * -86.99 it returns 0, where exp is less than twice the smallest normal number. Above EXP_MOST it returns nearly the
 * largest float instead of infinity. No caller needs infinity there, and so 2^n takes only one shift. */
#ifndef KERNEL_EXPONENT_AVX2_H
#define KERNEL_EXPONENT_AVX2_H

#include "exponent.h"

#include <immintrin.h>

static inline __m256 exponent(__m256 x)
{
    static const float coefficients[] = EXP_COEFFICIENTS;
    /* min and max return their second operand if one is NaN. */
    x = _mm256_max_ps(_mm256_set1_ps(EXP_LEAST), _mm256_min_ps(_mm256_set1_ps(EXP_MOST), x));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(EXP_LOG2_E)), _MM_FROUND_TO_NEAREST_INT);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HIGH), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LOW), r);
    __m256 sum = _mm256_set1_ps(coefficients[0]);
    for (int i = 1; i < 8; i++)
        sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(coefficients[i]));
    /* 2^(n - 1) is a float for every n up to 128, 2^n is not; the missing factor of 2 follows. */
    __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(126)), 23);
    return _mm256_mul_ps(_mm256_mul_ps(sum, _mm256_castsi256_ps(exponent)), _mm256_set1_ps(2));
}

#endif
