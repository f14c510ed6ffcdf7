/* legacy_blocks.c - Q8_0 and Q4_0: blocks of 32 values with one float16 scale.
 *
 * Both are encoded by a fixed rule without a search, so every program that follows the rule writes the
 * same bytes (GGUF's quantisers do; golden/quants tests it). Scales are computed in float32, and values
 * are divided by the scale before it is rounded to float16. */
#include "codec.h"

#define VALUES 32

typedef struct block_q8_0 {
    uint16_t scale;   /* float16 */
    int8_t q[VALUES]; /* value = scale * q */
} block_q8_0;

typedef struct block_q4_0 {
    uint16_t scale;        /* float16, negative where the largest magnitude is positive */
    uint8_t q[VALUES / 2]; /* low nibbles: values 0..15, high: 16..31; value = scale * (nibble - 8) */
} block_q4_0;

_Static_assert(sizeof(block_q8_0) == 34 && sizeof(block_q4_0) == 18, "blocks have no padding");

/* Returns 1 / scale, or 0 if the scale is 0 or so small that the quotient overflows. */
static inline float inverse(float scale)
{
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    return inverse <= FLT_MAX && inverse >= -FLT_MAX ? inverse : 0.0f;
}

/* ---- Q8_0: the largest magnitude becomes 127 */

void number_decode_Q8_0(const void *blocks, float *values, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q8_0 block;
        memcpy(&block, (const char *)blocks + b * sizeof block, sizeof block);
        float scale = half_to_float(block.scale), y[VALUES];
        for (size_t i = 0; i < VALUES; i++)
            y[i] = scale * (float)block.q[i];
        memcpy((char *)values + b * sizeof y, y, sizeof y);
    }
}

void number_encode_Q8_0(const float *values, void *blocks, size_t n)
{
    const float limit = 127.0f * 65504.0f;
    for (size_t b = 0; b < n / VALUES; b++) {
        float x[VALUES];
        float scale = load_finite(values + b * VALUES, VALUES, limit, x) / 127.0f;
        float factor = inverse(scale);
        block_q8_0 block = {.scale = half_scale(scale)};
        for (size_t i = 0; i < VALUES; i++) {
            /* Rounds halves away from zero. Adding 0.5 and truncating would round 0.49999997 to 1. */
            float v = x[i] * factor;
            int32_t whole = (int32_t)v;
            float rest = v - (float)whole;
            block.q[i] = (int8_t)(whole + (rest >= 0.5f) - (rest <= -0.5f));
        }
        memcpy((char *)blocks + b * sizeof block, &block, sizeof block);
    }
}

/* ---- Q4_0: the first value of the largest magnitude becomes -8 */

void number_decode_Q4_0(const void *blocks, float *values, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q4_0 block;
        memcpy(&block, (const char *)blocks + b * sizeof block, sizeof block);
        float scale = half_to_float(block.scale), y[VALUES];
        for (size_t i = 0; i < VALUES / 2; i++) {
            y[i] = scale * (float)((block.q[i] & 15) - 8);
            y[i + VALUES / 2] = scale * (float)((block.q[i] >> 4) - 8);
        }
        memcpy((char *)values + b * sizeof y, y, sizeof y);
    }
}

/* Returns x[i] for the first i with abs(x[i]) == magnitude. */
static inline float first_of(const float *x, float magnitude)
{
    size_t i = 0;
    while (i < VALUES - 1 && x[i] != magnitude && x[i] != -magnitude)
        i++;
    return x[i];
}

void number_encode_Q4_0(const float *values, void *blocks, size_t n)
{
    const float limit = 8.0f * 65504.0f;
    for (size_t b = 0; b < n / VALUES; b++) {
        float x[VALUES];
        float magnitude = load_finite(values + b * VALUES, VALUES, limit, x);
        float scale = (magnitude > 0.0f ? first_of(x, magnitude) : 0.0f) / -8.0f;
        float factor = inverse(scale);
        block_q4_0 block = {.scale = half_scale(scale)};
        int32_t q[VALUES]; /* abs(x * factor) is at most 8 (up to rounding), so the sum below is in (0, 17) */
        for (size_t i = 0; i < VALUES; i++) {
            int32_t nibble = (int32_t)(x[i] * factor + 8.5f);
            q[i] = nibble < 15 ? nibble : 15;
        }
        for (size_t i = 0; i < VALUES / 2; i++)
            block.q[i] = (uint8_t)(q[i] | q[i + VALUES / 2] << 4);
        memcpy((char *)blocks + b * sizeof block, &block, sizeof block);
    }
}
