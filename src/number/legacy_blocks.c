/* legacy_blocks.c - Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: blocks of 32 values with one float16 scale, and in the _1 formats a
 * float16 minimum.
 *
 * All are encoded by a fixed rule without a search, so every program that follows the rule writes the
 * same bytes (GGUF's quantisers do; golden/quants tests it), and importance changes nothing. Scales are computed in
 * float32, and values are divided by the scale before it is rounded to float16. */
#include "codec.h"

#define VALUES 32
#define HALF   16

/* Returns 1 / scale, or 0 if the scale is 0 or so small that the quotient overflows. */
static inline float inverse(float scale)
{
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    return inverse <= FLT_MAX && inverse >= -FLT_MAX ? inverse : 0.0f;
}

/* ---- Q8_0: the largest magnitude becomes 127 */

static inline void decode_q8_0(const block_q8_0 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < VALUES; i++)
        y[i] = d * (float)block->q[i];
}

static inline void encode_q8_0(const float *values, const float *importance, block_q8_0 *block)
{
    (void)importance;
    const float limit = 127.0f * 65504.0f;
    float x[VALUES];
    float scale = load_finite(values, VALUES, limit, x) / 127.0f;
    float factor = inverse(scale);
    block->d = half_scale(scale);
    for (size_t i = 0; i < VALUES; i++) {
        /* Rounds halves away from zero. Adding 0.5 and truncating would round 0.49999997 to 1. */
        float v = x[i] * factor;
        int32_t whole = (int32_t)v;
        float rest = v - (float)whole;
        block->q[i] = (int8_t)(whole + (rest >= 0.5f) - (rest <= -0.5f));
    }
}

DECODES_BLOCKS(Q8_0, block_q8_0, decode_q8_0)
ENCODES_BLOCKS(Q8_0, block_q8_0, encode_q8_0)

/* ---- Q4_0 and Q5_0: the first value of the largest magnitude becomes -8, or -16 */

static inline void decode_q4_0(const block_q4_0 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < HALF; i++) {
        y[i] = d * (float)((block->nibbles[i] & 15) - 8);
        y[i + HALF] = d * (float)((block->nibbles[i] >> 4) - 8);
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

/* Rounds a block to integers q in 0 .. 2 * half - 1, of which `half` stands for 0; returns the scale. */
static inline float round_signed(const float *values, float half, int32_t q[VALUES])
{
    float x[VALUES];
    float magnitude = load_finite(values, VALUES, half * 65504.0f, x);
    float scale = (magnitude > 0.0f ? first_of(x, magnitude) : 0.0f) / -half;
    float factor = inverse(scale);
    const int32_t top = 2 * (int32_t)half - 1;
    for (size_t i = 0; i < VALUES; i++) { /* abs(x * factor) is at most half (up to rounding): the sum is above 0 */
        int32_t integer = (int32_t)(x[i] * factor + (half + 0.5f));
        q[i] = integer < top ? integer : top;
    }
    return scale;
}

/* Stores the lower four bits of the integers as nibbles, and their fifth ones. */
static inline void pack_nibbles(const int32_t q[VALUES], uint8_t nibbles[HALF])
{
    for (size_t i = 0; i < HALF; i++)
        nibbles[i] = (uint8_t)((q[i] & 15) | (q[i + HALF] & 15) << 4);
}

static inline void pack_fifth_bits(const int32_t q[VALUES], uint8_t high[4])
{
    uint32_t bits = 0;
    for (size_t i = 0; i < VALUES; i++)
        bits |= (uint32_t)(q[i] >> 4 & 1) << i;
    memcpy(high, &bits, sizeof bits);
}

/* Unpacks integers of five bits. */
static inline void unpack_five_bits(const uint8_t nibbles[HALF], const uint8_t high[4], int32_t q[VALUES])
{
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    for (size_t i = 0; i < HALF; i++) {
        q[i] = (int32_t)((nibbles[i] & 15u) | (bits >> i & 1) << 4);
        q[i + HALF] = (int32_t)(nibbles[i] >> 4 | (bits >> (i + HALF) & 1) << 4);
    }
}

static inline void encode_q4_0(const float *values, const float *importance, block_q4_0 *block)
{
    (void)importance;
    int32_t q[VALUES];
    block->d = half_scale(round_signed(values, 8.0f, q));
    pack_nibbles(q, block->nibbles);
}

DECODES_BLOCKS(Q4_0, block_q4_0, decode_q4_0)
ENCODES_BLOCKS(Q4_0, block_q4_0, encode_q4_0)

static inline void decode_q5_0(const block_q5_0 *block, float *y)
{
    float d = half_to_float(block->d);
    int32_t q[VALUES];
    unpack_five_bits(block->nibbles, block->high, q);
    for (size_t i = 0; i < VALUES; i++)
        y[i] = (float)(q[i] - 16) * d;
}

static inline void encode_q5_0(const float *values, const float *importance, block_q5_0 *block)
{
    (void)importance;
    int32_t q[VALUES];
    block->d = half_scale(round_signed(values, 16.0f, q));
    pack_nibbles(q, block->nibbles);
    pack_fifth_bits(q, block->high);
}

DECODES_BLOCKS(Q5_0, block_q5_0, decode_q5_0)
ENCODES_BLOCKS(Q5_0, block_q5_0, encode_q5_0)

/* ---- Q4_1 and Q5_1: the least value becomes 0, the largest 15, or 31 */

/* Rounds a block to integers q in 0 .. top. */
static inline void round_offset(const float *values, int32_t top, int32_t q[VALUES], uint16_t *d, uint16_t *minimum)
{
    float x[VALUES];
    load_finite(values, VALUES, 65504.0f, x);
    float low = x[0], high = x[0];
    for (size_t i = 1; i < VALUES; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float scale = (high - low) / (float)top, factor = inverse(scale);
    *d = half_scale(scale);
    *minimum = half_scale(low);
    for (size_t i = 0; i < VALUES; i++) {
        int32_t integer = (int32_t)((x[i] - low) * factor + 0.5f);
        q[i] = integer < top ? integer : top;
    }
}

static inline void decode_q4_1(const block_q4_1 *block, float *y)
{
    float d = half_to_float(block->d), minimum = half_to_float(block->minimum);
    for (size_t i = 0; i < HALF; i++) {
        y[i] = (float)(block->nibbles[i] & 15) * d + minimum;
        y[i + HALF] = (float)(block->nibbles[i] >> 4) * d + minimum;
    }
}

static inline void encode_q4_1(const float *values, const float *importance, block_q4_1 *block)
{
    (void)importance;
    int32_t q[VALUES];
    uint16_t d, minimum;
    round_offset(values, 15, q, &d, &minimum);
    block->d = d;
    block->minimum = minimum;
    pack_nibbles(q, block->nibbles);
}

DECODES_BLOCKS(Q4_1, block_q4_1, decode_q4_1)
ENCODES_BLOCKS(Q4_1, block_q4_1, encode_q4_1)

static inline void decode_q5_1(const block_q5_1 *block, float *y)
{
    float d = half_to_float(block->d), minimum = half_to_float(block->minimum);
    int32_t q[VALUES];
    unpack_five_bits(block->nibbles, block->high, q);
    for (size_t i = 0; i < VALUES; i++)
        y[i] = (float)q[i] * d + minimum;
}

static inline void encode_q5_1(const float *values, const float *importance, block_q5_1 *block)
{
    (void)importance;
    int32_t q[VALUES];
    uint16_t d, minimum;
    round_offset(values, 31, q, &d, &minimum);
    block->d = d;
    block->minimum = minimum;
    pack_nibbles(q, block->nibbles);
    pack_fifth_bits(q, block->high);
}

DECODES_BLOCKS(Q5_1, block_q5_1, decode_q5_1)
ENCODES_BLOCKS(Q5_1, block_q5_1, encode_q5_1)
