/* quantize.h - the scale of a block of activations that is rounded to 8 bits, computed alike at all levels.
 *
 * All levels must give the same bits, so all use these functions. Magnitudes are compared as integers: without the sign
 * bit, integers have the same order as the floats, with infinity and then NaN at the top. So neither gets lost,
 * whatever the order of the comparisons. */
#ifndef KERNEL_QUANTIZE_H
#define KERNEL_QUANTIZE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns the bits of |x|. */
static inline uint32_t magnitude_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* Returns the scale of a block whose largest magnitude has these bits; *inverse is what its values are multiplied with.
 * *inverse is 0 if all q shall be 0: if the largest magnitude is 0 or so small that 127 / max may overflow (then the
 * scale is 0), or if it is not finite (then the scale is NaN, so that the fault shows in the result). */
static inline float block_scale(uint32_t max_bits, float *inverse)
{
    float max;
    memcpy(&max, &max_bits, sizeof(max));
    *inverse = 0;
    if (max_bits >= 0x7f800000u)
        return NAN;
    if (max < 0x1p-120f)
        return 0;
    *inverse = 127 / max;
    return max / 127;
}

#endif
