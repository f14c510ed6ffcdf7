/* exponent_avx512.h - exp of 16 values, within 2 units in the last place; exact at 0, infinity and NaN. */
#ifndef KERNEL_EXPONENT_AVX512_H
#define KERNEL_EXPONENT_AVX512_H

#include "exponent.h"

#include <immintrin.h>

static inline __m512 exponent(__m512 x)
{
    static const float coefficients[] = EXP_COEFFICIENTS;
    /* Beyond these limits the result is 0 or infinite anyway, and r would not be small. NaN stays NaN: min and max
     * return their second operand if one is NaN. */
    x = _mm512_max_ps(_mm512_set1_ps(-110), _mm512_min_ps(_mm512_set1_ps(110), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(EXP_LOG2_E)), _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_HIGH), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_LOW), r);
    __m512 sum = _mm512_set1_ps(coefficients[0]);
    for (int i = 1; i < 8; i++)
        sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(coefficients[i]));
    return _mm512_scalef_ps(sum, n); /* sum * 2^n, correct also for subnormal results and overflow */
}

#endif
