/* exponent_neon.h - exp of 8 values, as in exponent_avx2.h: within 2 units in the last place; NaN stays NaN, since
 * minimum and maximum return NaN if either operand is NaN. */
#ifndef KERNEL_EXPONENT_NEON_H
#define KERNEL_EXPONENT_NEON_H

#include "exponent.h"

#include "neon.h"

ALWAYS_INLINE float32x4_t exponent_4(float32x4_t x)
{
    static const float coefficients[] = EXP_COEFFICIENTS;
    x = vmaxq_f32(vdupq_n_f32(EXP_LEAST), vminq_f32(vdupq_n_f32(EXP_MOST), x));
    float32x4_t n = vrndnq_f32(vmulq_n_f32(x, EXP_LOG2_E));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(EXP_LN2_HIGH));
    r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LOW));
    float32x4_t sum = vdupq_n_f32(coefficients[0]);
    for (int i = 1; i < 8; i++)
        sum = vfmaq_f32(vdupq_n_f32(coefficients[i]), sum, r);
    /* 2^(n - 1) is a float for every n up to 128, 2^n is not; the missing factor of 2 follows. */
    int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(126)), 23);
    return vmulq_n_f32(vmulq_f32(sum, vreinterpretq_f32_s32(exponent)), 2);
}

ALWAYS_INLINE vector exponent(vector x)
{
    return (vector){exponent_4(x.low), exponent_4(x.high)};
}

#endif
