/* exponent.h - the polynomial with which all SIMD levels compute exp.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, so |r| <= 0.347. n ln 2 is subtracted in two parts;
 * the first part of ln 2 has so few bits that n times it is exact (Cody and Waite, Software Manual for the Elementary
 * Functions). On that interval the error of the Taylor series to r^7 is at most 0.347^8 / 8! = 5e-9 of the value, a
 * tenth of the resolution of float32. A fitted polynomial would save one term but be harder to understand. */
#ifndef KERNEL_EXPONENT_H
#define KERNEL_EXPONENT_H

#define EXP_LOG2_E   0x1.715476p0f
#define EXP_LN2_HIGH 0x1.62e4p-1f /* ln 2 = HIGH + LOW */
#define EXP_LN2_LOW  0x1.7f7d1cp-20f
/* Below the first exp is less than the smallest normal number, 2^-126; above the second it overflows. */
#define EXP_LEAST -87.33654f
#define EXP_MOST  88.72283f

/* 1 / 7!, 1 / 6!, ... 1 / 0!: in the order of Horner's scheme. */
#define EXP_COEFFICIENTS                                                           \
    {                                                                              \
        1 / 5040.0f, 1 / 720.0f, 1 / 120.0f, 1 / 24.0f, 1 / 6.0f, 0.5f, 1.0f, 1.0f \
    }

#endif
