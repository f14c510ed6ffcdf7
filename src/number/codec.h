/* codec.h - the encode and decode functions of number_formats, for the files of this folder only.
 *
 * Declares number_decode_ID for every ID of NUMBER_FORMATS and number_encode_ID for those that can be encoded; shapes as
 * in number_traits.
 * Encoders accept any bit pattern without undefined behaviour. In the block formats NaN counts as 0, and
 * values beyond what the format can hold, infinity included, are clamped. A scale too large for float16 is
 * clamped to 65504, so no decoded value is ever infinite or NaN; a scale too small for float16 becomes 0,
 * and all values of its block with it. */
#ifndef NUMBER_CODEC_H
#define NUMBER_CODEC_H

#include "blocks.h"
#include "format.h"
#include "half.h"

#include <float.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks are read and written by memcpy: little-endian only");
_Static_assert(FLT_EVAL_METHOD == 0, "rounding by a magic sum needs float arithmetic in float");

#define X(id, ...) void number_decode_##id(const void *blocks, float *values, size_t n);
NUMBER_FORMATS(X)
#undef X
#define X(id, ...) void number_encode_##id(const float *values, const float *importance, void *blocks, size_t n);
WRITTEN_FORMATS(X)
COPY_FORMATS(X)
#undef X

/* The size of a format's blocks as constants: BLOCK_VALUES_ID, BLOCK_BYTES_ID. */
enum {
#define X(id, name, gguf_type, file_type, values, bytes, ...) BLOCK_VALUES_##id = values, BLOCK_BYTES_##id = bytes,
    NUMBER_FORMATS(X)
#undef X
};

/* Define number_decode_ID and number_encode_ID from functions for one block:
 *     void decode_one(const layout *block, float *values);
 *     void encode_one(const float *values, const float *importance, layout *block);
 * The block is aligned as its type asks, the values have any alignment in encode_one. Its block is zeroed. */
#define DECODES_BLOCKS(id, layout, decode_one)                                     \
    _Static_assert(sizeof(layout) == BLOCK_BYTES_##id, "blocks have no padding");  \
    void number_decode_##id(const void *blocks, float *values, size_t n)           \
    {                                                                              \
        for (size_t b = 0; b < n / BLOCK_VALUES_##id; b++) {                       \
            layout block;                                                          \
            float y[BLOCK_VALUES_##id];                                            \
            memcpy(&block, (const char *)blocks + b * sizeof block, sizeof block); \
            decode_one(&block, y);                                                 \
            memcpy((char *)values + b * sizeof y, y, sizeof y);                    \
        }                                                                          \
    }
#define ENCODES_BLOCKS(id, layout, encode_one)                                                    \
    void number_encode_##id(const float *values, const float *importance, void *blocks, size_t n) \
    {                                                                                             \
        for (size_t b = 0; b < n / BLOCK_VALUES_##id; b++) {                                      \
            layout block = {0};                                                                   \
            const float *weights = importance ? importance + b * BLOCK_VALUES_##id : NULL;        \
            encode_one(values + b * BLOCK_VALUES_##id, weights, &block);                          \
            memcpy((char *)blocks + b * sizeof block, &block, sizeof block);                      \
        }                                                                                         \
    }

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

/* Loads the importance of n values as weights in [2^-20, 1]: relative to the largest, with a floor, so that values which
 * never counted are still rounded to the nearest where nothing else decides. Returns `out`, or NULL for NULL: all are
 * 1. What is not a positive number counts as 0; if none counts, all are equal. */
static inline const float *load_importance(const float *importance, size_t n, float *out)
{
    if (!importance)
        return NULL;
    float top = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float w = importance[i];
        out[i] = w > 0.0f && w <= FLT_MAX ? w : 0.0f;
        top = out[i] > top ? out[i] : top;
    }
    for (size_t i = 0; i < n; i++) {
        float w = top > 0.0f ? out[i] / top : 1.0f;
        out[i] = w > 0x1p-20f ? w : 0x1p-20f;
    }
    return out;
}

/* Returns the scale as float16, clamped so that it is never infinite. */
static inline uint16_t half_scale(float scale)
{
    const float top = 65504.0f;
    return half_from_float(scale > top ? top : scale < -top ? -top : scale);
}

#endif
