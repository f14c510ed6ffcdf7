/* quantize.h - the one arithmetic by which every level rounds a block of activations to 8 bits.
 *
 * All levels must give the same bits, so the scale is computed here for all of them, and magnitudes are
 * compared as integers: among values without sign that order is the order of the numbers, with infinity and
 * NaN on top, so neither is ever lost to the order of comparisons. */
#ifndef KERNEL_QUANTIZE_H
#define KERNEL_QUANTIZE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t magnitude_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* Scale of a block whose largest magnitude has these bits, and what its values are multiplied with; 0 where all
 * q shall be 0: where the largest is 0 or so small that its inverse overflows (then the scale is 0), and where it
 * is not finite (then the scale is NaN, so that the fault shows in the result). */
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
