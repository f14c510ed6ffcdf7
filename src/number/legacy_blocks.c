/* legacy_blocks.c - Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: blocks of 32 values with one float16 scale, and in the _1 formats a
 * float16 minimum.
 *
 * All are encoded by a fixed rule without a search, so every program that follows the rule writes the
 * same bytes (GGUF's quantisers do; golden/quants tests it). Scales are computed in float32, and values are divided by the
 * scale before it is rounded to float16. Only where the importance of values is known, the scales of Q4 and Q5 are searched
 * for: the rule is then far from the least error that counts. Q8_0 keeps the rule, whose error is small anyway. */
#include "scaled_search.h"

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

/* The first grids map the value of the largest magnitude far beyond `low`: it is cut, which is best where it hardly counts.
 * The last ones leave part of the range unused. Ten times as many grids reduce the weighed error by 2 % where importance
 * differs a lot from column to column, and by less than 1 % elsewhere. */
static const scaled_shape q4_0_shape = {1, VALUES, -8.0f, 7.0f, false, 1.0f, -13.0f, 0.3f, 25};
static const scaled_shape q5_0_shape = {1, VALUES, -16.0f, 15.0f, false, 1.0f, -24.0f, 0.5f, 26};

/* Rounds a block as round_signed does, or, where there is importance, with the scale of the least weighed error. Returns the
 * scale as float16. */
INLINE uint16_t encode_signed(const float *values, const float *importance, const scaled_shape *shape,
                              int32_t q[VALUES])
{
    float loaded[VALUES];
    const float *weights = load_importance(importance, VALUES, loaded);
    scaled_block found;
    if (!weights || !search_scaled_with(values, weights, shape, &found))
        return half_scale(round_signed(values, -shape->low, q));
    for (size_t i = 0; i < VALUES; i++)
        q[i] = found.q[i] - (int32_t)shape->low;
    return found.d;
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
    int32_t q[VALUES];
    block->d = encode_signed(values, importance, &q4_0_shape, q);
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
    int32_t q[VALUES];
    block->d = encode_signed(values, importance, &q5_0_shape, q);
    pack_nibbles(q, block->nibbles);
    pack_fifth_bits(q, block->high);
}

DECODES_BLOCKS(Q5_0, block_q5_0, decode_q5_0)
ENCODES_BLOCKS(Q5_0, block_q5_0, encode_q5_0)

/* ---- Q4_1 and Q5_1: the least value becomes 0, the largest 15, or 31 */

/* Finds the least and the largest value of a block. */
static inline void find_range(const float x[VALUES], float *low, float *high)
{
    *low = *high = x[0];
    for (size_t i = 1; i < VALUES; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

/* Rounds a block to integers q in 0 .. top. */
static inline void round_offset(const float *values, int32_t top, int32_t q[VALUES], uint16_t *d, uint16_t *minimum)
{
    float x[VALUES], low, high;
    load_finite(values, VALUES, 65504.0f, x);
    find_range(x, &low, &high);
    float scale = (high - low) / (float)top, factor = inverse(scale);
    *d = half_scale(scale);
    *minimum = half_scale(low);
    for (size_t i = 0; i < VALUES; i++) {
        int32_t integer = (int32_t)((x[i] - low) * factor + 0.5f);
        q[i] = integer < top ? integer : top;
    }
}

/* The grids of the search: the range of values is divided into first, first + step ... steps. With more than `top` it is
 * cut: at the upper end, at both, or at the lower end. */
typedef struct offset_grids {
    float top, first, step;
    int count;
} offset_grids;

static const offset_grids q4_1_grids = {15.0f, 13.2f, 0.4f, 24};
static const offset_grids q5_1_grids = {31.0f, 28.0f, 0.6f, 28};

/* The approximation x = step * q + minimum. */
typedef struct line {
    float step, minimum, gain; /* gain: the sum of x^2 minus the error */
} line;

/* Fits a line to the integers of a grid by weighted least squares. weight, x_sum: sums of the weights, and of weights
 * times x. */
static inline line fit_line(sums s, float weight, float x_sum)
{
    float spread = weight * s.qq - s.q * s.q;
    line l = {0.0f, x_sum / weight, x_sum * x_sum / weight};
    if (spread > 0x1p-12f * weight * s.qq) { /* less is rounding: all q are equal */
        l.step = (weight * s.qx - s.q * x_sum) / spread;
        l.minimum = (s.qq * x_sum - s.q * s.qx) / spread;
        l.gain = l.step * s.qx + l.minimum * x_sum;
    }
    return l;
}

/* Finds the line with the least weighed error for values x >= 0 of the given range. */
static inline line search_line(const float *x, const float *weights, float range, const offset_grids *g)
{
    float weight = 0.0f, x_sum = 0.0f;
    for (size_t i = 0; i < VALUES; i++) {
        weight += weights[i];
        x_sum += weights[i] * x[i];
    }
    line best = {0.0f, x_sum / weight, -1.0f};
    for (int candidate = 0; candidate < g->count && range > 0x1p-60f; candidate++) {
        float steps = g->first + g->step * (float)candidate, rest = g->top - steps;
        for (int end = 0; end < (rest < 0.0f ? 3 : 1); end++) {
            float shift = rest * 0.5f * (float)end;
            line l = fit_line(try_grid(x, weights, VALUES, steps / range, shift, 0.0f, g->top), weight, x_sum);
            best = l.gain > best.gain ? l : best;
        }
    }
    return best;
}

/* Rounds a block as round_offset does, or, where there is importance, with scale and minimum of the least weighed error. */
static inline void encode_offset(const float *values, const float *importance, const offset_grids *g, int32_t q[VALUES],
                                 uint16_t *d, uint16_t *minimum)
{
    float x[VALUES], loaded[VALUES], low, high, scale, least;
    const float *weights = load_importance(importance, VALUES, loaded);
    int exponent;
    if (!weights || !load_block(values, VALUES, 65504.0f, x, &exponent)) {
        round_offset(values, (int32_t)g->top, q, d, minimum);
        return;
    }
    find_range(x, &low, &high);
    for (size_t i = 0; i < VALUES; i++)
        x[i] -= low;
    line l = search_line(x, weights, high - low, g);
    *d = store_scale(l.step, exponent, &scale);
    *minimum = store_scale(low + l.minimum, exponent, &least);
    float factor = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < VALUES; i++)
        q[i] = (int32_t)round_to_integer(clamp((x[i] + (low - least)) * factor, 0.0f, g->top));
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
    int32_t q[VALUES];
    uint16_t d, minimum;
    encode_offset(values, importance, &q4_1_grids, q, &d, &minimum);
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
    int32_t q[VALUES];
    uint16_t d, minimum;
    encode_offset(values, importance, &q5_1_grids, q, &d, &minimum);
    block->d = d;
    block->minimum = minimum;
    pack_nibbles(q, block->nibbles);
    pack_fifth_bits(q, block->high);
}

DECODES_BLOCKS(Q5_1, block_q5_1, decode_q5_1)
ENCODES_BLOCKS(Q5_1, block_q5_1, encode_q5_1)
