/* codec.h - the encode and decode functions of number_formats, for the files of this folder only.
 *
 * Declares number_decode_ID and number_encode_ID for every ID of NUMBER_FORMATS; shapes as in number_traits.
 * Encoders accept any bit pattern without undefined behaviour. In the block formats NaN counts as 0, and
 * values beyond what the format can hold, infinity included, are clamped. A scale too large for float16 is
 * clamped to 65504, so no decoded value is ever infinite or NaN; a scale too small for float16 becomes 0,
 * and all values of its block with it. */
#ifndef NUMBER_CODEC_H
#define NUMBER_CODEC_H

#include "format.h"
#include "half.h"

#include <float.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks are read and written by memcpy: little-endian only");
_Static_assert(FLT_EVAL_METHOD == 0, "rounding by a magic sum needs float arithmetic in float");

// clang-format off
#define X(id, ...)                                                           \
    void number_decode_##id(const void *blocks, float *values, size_t n);    \
    void number_encode_##id(const float *values, void *blocks, size_t n);
// clang-format on
NUMBER_FORMATS(X)
#undef X

static inline uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Copies n values (of any alignment) and returns the largest magnitude among the copies. NaN becomes 0, and values
 * beyond `limit` become +-limit. Magnitudes are compared as integers, which have the same order as the floats:
 * compilers vectorise an integer maximum without -ffast-math, but not a maximum of floats. */
static inline float load_finite(const float *values, size_t n, float limit, float *out)
{
    memcpy(out, values, n * sizeof *out);
    int32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(float_bits(out[i]) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    float top = float_of_bits((uint32_t)largest);
    if (top <= limit)
        return top;
    top = 0.0f;
    for (size_t i = 0; i < n; i++) { /* rare: a value is NaN, infinite or beyond the limit */
        float x = out[i];
        out[i] = x > limit ? limit : x < -limit ? -limit : x == x ? x : 0.0f;
        float magnitude = out[i] < 0.0f ? -out[i] : out[i];
        top = magnitude > top ? magnitude : top;
    }
    return top;
}

/* Returns the scale as float16, clamped so that it is never infinite. */
static inline uint16_t half_scale(float scale)
{
    const float top = 65504.0f;
    return half_from_float(scale > top ? top : scale < -top ? -top : scale);
}

#endif
