/* exponent.h - the polynomial by which all SIMD levels compute exp.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, so |r| <= 0.347. ln 2 is taken off in two parts,
 * the first short enough that n times it is exact (Cody and Waite, Software Manual for the Elementary Functions).
 * On that interval Taylor's series to r^7 is off by at most 0.347^8 / 8! = 5e-9 of the value, a tenth of what
 * float32 resolves; a fitted polynomial would save one term and lose the reader. */
#ifndef KERNEL_EXPONENT_H
#define KERNEL_EXPONENT_H

#define EXP_LOG2_E   0x1.715476p0f
#define EXP_LN2_HIGH 0x1.62e4p-1f /* ln 2 = HIGH + LOW */
#define EXP_LN2_LOW  0x1.7f7d1cp-20f
/* Below, exp is as good as 0 (2^-126 is the smallest normal number); above, it overflows. */
#define EXP_LEAST -87.33654f
#define EXP_MOST  88.72283f

/* 1 / 7!, 1 / 6!, ... 1 / 0!: Horner's order. */
#define EXP_COEFFICIENTS                                                           \
    {                                                                              \
        1 / 5040.0f, 1 / 720.0f, 1 / 120.0f, 1 / 24.0f, 1 / 6.0f, 0.5f, 1.0f, 1.0f \
    }

#endif
