/* k_blocks.c - Q4_K and Q6_K: blocks of 256 values with a float16 scale and small integer scales of the sub-blocks.
 *
 * The layouts are GGUF's; the encoder's search is hearth's own. It minimises the plain sum of squared errors
 * in two steps:
 *
 *   1. For each sub-block alone: round its values on a few grids of slightly different step. For the resulting
 *      integers least squares gives the best scale (and minimum), and the same sums give the error without a
 *      second pass. The grid with the least error is taken.
 *   2. The largest scale determines the block's float16 scale. Then each sub-block tries the integer scales next to
 *      its own, rounds its values again on exactly that grid, and keeps the one with the least true error.
 *
 * Values are first scaled by a power of two, which changes no result and keeps squares within the range of float32.
 * Sums use four lanes: this fixes the order of additions, so every machine writes the same bytes, and uses vector
 * units.
 *
 * Tried: twice as many grids reduce the error by less than 0.2 %; half as many increase it by 0.5 %. */
#include "codec.h"

#include <math.h>

#define VALUES 256
#define LANES  4

/* A block of smaller values needs no search: its float16 scale rounds to 0 (in fact up to 2^-25 * 63 * 15 = 2.8e-5). */
#define NOTHING 0x1p-40f

/* Adding and subtracting it rounds to an integer, ties to even: floats of that size have no fraction bits. */
#define MAGIC 0x1.8p23f

static inline float round_to_integer(float x)
{
    return (x + MAGIC) - MAGIC;
}

static inline float clamp(float x, float low, float high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}

/* Loads a block as x = value * 2^-exponent, so that the largest magnitude is in [0.5, 1). False: all values are so
 * small that the block is encoded as zeros. */
static bool load_block(const float *values, float limit, float x[VALUES], int *exponent)
{
    float top = load_finite(values, VALUES, limit, x);
    if (top < NOTHING)
        return false;
    frexpf(top, exponent);
    float factor = ldexpf(1.0f, -*exponent);
    for (size_t i = 0; i < VALUES; i++)
        x[i] *= factor;
    return true;
}

/* Returns a scale of the block as float16; *decoded is what that decodes to, in the units of load_block. */
static uint16_t store_scale(float scale, int exponent, float *decoded)
{
    uint16_t half = half_scale(ldexpf(scale, exponent));
    *decoded = ldexpf(half_to_float(half), -exponent);
    return half;
}

/* Sums over n values x and the integers q that they round to: of q, q * q and q * x. */
typedef struct sums {
    float q, qq, qx;
} sums;

/* Four neighbouring values as a GNU vector, which compiles to SSE2, NEON or, elsewhere, four floats. */
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t lane_masks __attribute__((vector_size(16)));

static inline lanes all(float x)
{
    return (lanes){x, x, x, x};
}

static inline lanes choose(lane_masks mask, lanes yes, lanes no)
{
    return (lanes)((mask & (lane_masks)yes) | (~mask & (lane_masks)no));
}

static inline float total(lanes x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

/* Rounds n values (a multiple of 4) to q = round(x * factor + shift), clamped to [low, high]; returns the sums. */
static inline sums try_grid(const float *x, size_t n, float factor, float shift, float low, float high)
{
    lanes q = all(0.0f), qq = q, qx = q;
    for (size_t i = 0; i < n; i += LANES) {
        lanes value;
        memcpy(&value, x + i, sizeof value);
        lanes v = value * all(factor) + all(shift);
        v = choose(v > all(low), v, all(low));
        v = choose(v < all(high), v, all(high));
        v = (v + all(MAGIC)) - all(MAGIC);
        q += v;
        qq += v * v;
        qx += v * value;
    }
    return (sums){total(q), total(qq), total(qx)};
}

/* Rounds as try_grid does and stores the integers. */
static inline void round_on_grid(const float *x, size_t n, float factor, float shift, float low, float high, int8_t *q)
{
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)round_to_integer(clamp(x[i] * factor + shift, low, high));
}

/* ---- Q4_K: 8 sub-blocks of 32; value = d * scale * q - d_minimum * minimum, q in 0..15 */

#define Q4_SUBS   8
#define Q4_VALUES 32
#define Q4_TOP    15.0f /* largest q */
#define SIX_BITS  63.0f /* largest scale and minimum */

typedef struct block_q4_k {
    uint16_t d, d_minimum; /* float16 */
    uint8_t scales[12];    /* see unpack_scales */
    uint8_t q[VALUES / 2]; /* 32 bytes hold two sub-blocks: low nibbles the first, high the second */
} block_q4_k;

_Static_assert(sizeof(block_q4_k) == 144, "blocks have no padding");

/* Unpacks eight scales and eight minima of 6 bits from 12 bytes. The low six bits of bytes 0..3 and 4..7 are the scales
 * and minima of sub-blocks 0..3. Their upper two bits are the upper two bits of the scales and minima of sub-blocks
 * 4..7, whose lower four bits are the low (scale) and high (minimum) nibbles of bytes 8..11. */
static void unpack_scales(const uint8_t packed[12], uint8_t scale[Q4_SUBS], uint8_t minimum[Q4_SUBS])
{
    for (size_t j = 0; j < 4; j++) {
        scale[j] = packed[j] & 63;
        minimum[j] = packed[j + 4] & 63;
        scale[j + 4] = (uint8_t)((packed[j + 8] & 15) | packed[j] >> 6 << 4);
        minimum[j + 4] = (uint8_t)(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

static void pack_scales(const uint8_t scale[Q4_SUBS], const uint8_t minimum[Q4_SUBS], uint8_t packed[12])
{
    for (size_t j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        packed[j + 4] = (uint8_t)(minimum[j] | minimum[j + 4] >> 4 << 6);
        packed[j + 8] = (uint8_t)((scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4);
    }
}

void number_decode_Q4_K(const void *blocks, float *values, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q4_k block;
        memcpy(&block, (const char *)blocks + b * sizeof block, sizeof block);
        uint8_t scale[Q4_SUBS], minimum[Q4_SUBS];
        unpack_scales(block.scales, scale, minimum);
        float d = half_to_float(block.d), d_minimum = half_to_float(block.d_minimum);
        float y[VALUES];
        for (size_t j = 0; j < Q4_SUBS; j++) {
            const uint8_t *q = block.q + j / 2 * Q4_VALUES;
            float step = d * (float)scale[j], offset = d_minimum * (float)minimum[j];
            for (size_t i = 0; i < Q4_VALUES; i++)
                y[j * Q4_VALUES + i] = step * (float)(j % 2 == 0 ? q[i] & 15 : q[i] >> 4) - offset;
        }
        memcpy((char *)values + b * sizeof y, y, sizeof y);
    }
}

/* The approximation x = step * q - offset with offset >= 0. */
typedef struct affine {
    float step, offset;
} affine;

/* Step 1: fits step and offset of one sub-block. The grids divide the range of values into 13.2 to 15.9 steps: those
 * below 14.5 leave the top integer unused, those above 15.5 clamp the largest values. */
static affine fit_affine(const float x[Q4_VALUES])
{
    float low = 0.0f, high = x[0], sum = 0.0f;
    for (size_t i = 0; i < Q4_VALUES; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        sum += x[i];
    }
    float range = high - low;
    if (range < 0x1p-60f) /* all values equal, and not positive */
        return (affine){0.0f, -low};
    const float n = Q4_VALUES;
    affine best = {range / Q4_TOP, -low};
    float best_gain = -1.0f;
    for (int candidate = -6; candidate <= 3; candidate++) {
        float factor = (Q4_TOP + 0.3f * (float)candidate) / range;
        sums s = try_grid(x, Q4_VALUES, factor, -low * factor, 0.0f, Q4_TOP);
        if (s.qq <= 0.0f)
            continue;
        float spread = n * s.qq - s.q * s.q;
        /* Least squares; without an offset if that would have the wrong sign or all q are equal. */
        affine a = {s.qx / s.qq, 0.0f};
        if (spread > 0.0f) {
            float offset = (s.q * s.qx - s.qq * sum) / spread;
            if (offset > 0.0f)
                a = (affine){(n * s.qx - s.q * sum) / spread, offset};
        }
        float gain = a.step * s.qx - a.offset * sum; /* the sum of x^2 minus the squared error */
        if (gain > best_gain) {
            best_gain = gain;
            best = a;
        }
    }
    return best;
}

/* Step 2 for one sub-block: writes its scale, minimum and integers. d and d_minimum are the block's float16 scales as
 * they will be decoded. */
static void settle_affine(const float x[Q4_VALUES], affine fit, float d, float d_minimum, uint8_t *scale,
                          uint8_t *minimum, int8_t q[Q4_VALUES])
{
    float sum = 0.0f;
    for (size_t i = 0; i < Q4_VALUES; i++)
        sum += x[i];
    float middle = d > 0.0f ? round_to_integer(clamp(fit.step / d, 0.0f, SIX_BITS)) : 0.0f;
    float start = d_minimum > 0.0f ? round_to_integer(clamp(fit.offset / d_minimum, 0.0f, SIX_BITS)) : 0.0f;
    float best_scale = middle, best_minimum = start, best_error = INFINITY;
    for (int candidate = -1; candidate <= 1; candidate++) {
        float k = clamp(middle + (float)candidate, 0.0f, SIX_BITS);
        float step = d * k, factor = step > 0.0f ? 1.0f / step : 0.0f;
        sums s = try_grid(x, Q4_VALUES, factor, d_minimum * start * factor, 0.0f, Q4_TOP);
        /* For these integers the best offset is the mean of step * q - x. */
        float offset = (step * s.q - sum) / (float)Q4_VALUES;
        float m = d_minimum > 0.0f ? round_to_integer(clamp(offset / d_minimum, 0.0f, SIX_BITS)) : 0.0f;
        offset = d_minimum * m;
        float error = step * (step * s.qq - 2.0f * s.qx - 2.0f * offset * s.q) +
                      offset * (2.0f * sum + (float)Q4_VALUES * offset); /* without the constant sum of x^2 */
        if (error < best_error) {
            best_error = error;
            best_scale = k;
            best_minimum = m;
        }
    }
    float step = d * best_scale, factor = step > 0.0f ? 1.0f / step : 0.0f;
    round_on_grid(x, Q4_VALUES, factor, d_minimum * best_minimum * factor, 0.0f, Q4_TOP, q);
    *scale = (uint8_t)best_scale;
    *minimum = (uint8_t)best_minimum;
}

static void encode_q4_k(const float *values, block_q4_k *block)
{
    float x[VALUES];
    int exponent;
    memset(block, 0, sizeof *block);
    if (!load_block(values, 65504.0f * SIX_BITS * Q4_TOP, x, &exponent))
        return;
    affine fit[Q4_SUBS];
    float step = 0.0f, offset = 0.0f;
    for (size_t j = 0; j < Q4_SUBS; j++) {
        fit[j] = fit_affine(x + j * Q4_VALUES);
        step = fit[j].step > step ? fit[j].step : step;
        offset = fit[j].offset > offset ? fit[j].offset : offset;
    }
    float d, d_minimum;
    block->d = store_scale(step / SIX_BITS, exponent, &d);
    block->d_minimum = store_scale(offset / SIX_BITS, exponent, &d_minimum);
    uint8_t scale[Q4_SUBS], minimum[Q4_SUBS];
    int8_t q[VALUES];
    for (size_t j = 0; j < Q4_SUBS; j++)
        settle_affine(x + j * Q4_VALUES, fit[j], d, d_minimum, &scale[j], &minimum[j], q + j * Q4_VALUES);
    pack_scales(scale, minimum, block->scales);
    for (size_t j = 0; j < Q4_SUBS; j += 2) {
        const int8_t *first = q + j * Q4_VALUES, *second = first + Q4_VALUES;
        for (size_t i = 0; i < Q4_VALUES; i++)
            block->q[j / 2 * Q4_VALUES + i] = (uint8_t)(first[i] | second[i] << 4);
    }
}

void number_encode_Q4_K(const float *values, void *blocks, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q4_k block;
        encode_q4_k(values + b * VALUES, &block);
        memcpy((char *)blocks + b * sizeof block, &block, sizeof block);
    }
}

/* ---- Q6_K: 16 sub-blocks of 16; value = d * scale * q, q in -32..31, stored with 32 added */

#define Q6_SUBS   16
#define Q6_VALUES 16
#define Q6_LOW    (-32.0f)
#define Q6_HIGH   31.0f
#define Q6_SCALE  127.0f /* largest scale; -128 stays unused */

typedef struct block_q6_k {
    uint8_t low[VALUES / 2];  /* lower 4 bits */
    uint8_t high[VALUES / 4]; /* upper 2 bits */
    int8_t scales[Q6_SUBS];
    uint16_t d; /* float16 */
} block_q6_k;

_Static_assert(sizeof(block_q6_k) == 210, "blocks have no padding");

/* Half a block is 128 values: four quarters of 32 that share 64 bytes of `low` and 32 bytes of `high`. The upper two
 * bits of quarter k are bits 2k and 2k + 1 of the bytes of `high`. Its lower four bits are the low (k < 2) or high
 * nibbles of bytes 0..31 (k even) or 32..63 (k odd) of `low`. */
static void unpack_q6(const block_q6_k *block, int8_t q[VALUES])
{
    for (size_t k = 0; k < VALUES / 32; k++) {
        size_t half = k / 4, quarter = k % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
        const uint8_t *low = block->low + half * 64 + quarter % 2 * 32, *high = block->high + half * 32;
        for (size_t i = 0; i < 32; i++)
            q[k * 32 + i] = (int8_t)(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
    }
}

/* Packs the integers into a block whose low and high are zeroed. */
static void pack_q6(const int8_t q[VALUES], block_q6_k *block)
{
    for (size_t k = 0; k < VALUES / 32; k++) {
        size_t half = k / 4, quarter = k % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
        uint8_t *low = block->low + half * 64 + quarter % 2 * 32, *high = block->high + half * 32;
        for (size_t i = 0; i < 32; i++) {
            int v = q[k * 32 + i] + 32;
            low[i] = (uint8_t)(low[i] | (v & 15) << low_shift);
            high[i] = (uint8_t)(high[i] | v >> 4 << high_shift);
        }
    }
}

void number_decode_Q6_K(const void *blocks, float *values, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q6_k block;
        memcpy(&block, (const char *)blocks + b * sizeof block, sizeof block);
        int8_t q[VALUES];
        unpack_q6(&block, q);
        float d = half_to_float(block.d), y[VALUES];
        for (size_t j = 0; j < Q6_SUBS; j++) {
            float step = d * (float)block.scales[j];
            for (size_t i = 0; i < Q6_VALUES; i++)
                y[j * Q6_VALUES + i] = step * (float)q[j * Q6_VALUES + i];
        }
        memcpy((char *)values + b * sizeof y, y, sizeof y);
    }
}

/* Step 1: fits the scale of a sub-block. Its sign is chosen so that the value of the largest magnitude becomes
 * negative, where the range reaches to -32. With 64 integers for 16 values quite different steps are possible; the
 * grids map that value to -32.75 (clamped) up to -24.5. */
static float fit_scale(const float x[Q6_VALUES])
{
    float low = 0.0f, high = 0.0f;
    for (size_t i = 0; i < Q6_VALUES; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float extreme = high > -low ? high : low;
    if (high - low < 0x1p-60f)
        return 0.0f;
    float best = extreme / Q6_LOW, best_gain = -1.0f;
    for (int candidate = -1; candidate <= 10; candidate++) {
        float factor = (Q6_LOW + 0.75f * (float)candidate) / extreme;
        sums s = try_grid(x, Q6_VALUES, factor, 0.0f, Q6_LOW, Q6_HIGH);
        if (s.qq > 0.0f && s.qx * s.qx > best_gain * s.qq) { /* the gain is qx^2 / qq */
            best_gain = s.qx * s.qx / s.qq;
            best = s.qx / s.qq;
        }
    }
    return best;
}

/* Step 2 for one sub-block: writes its scale and integers. d is the block's float16 scale as it will be decoded. */
static void settle_scale(const float x[Q6_VALUES], float fit, float d, int8_t *scale, int8_t q[Q6_VALUES])
{
    float middle = d != 0.0f ? round_to_integer(clamp(fit / d, -Q6_SCALE, Q6_SCALE)) : 0.0f;
    float best_scale = middle, best_error = INFINITY;
    for (int candidate = -1; candidate <= 1; candidate++) {
        float k = clamp(middle + (float)candidate, -Q6_SCALE, Q6_SCALE);
        float step = d * k, factor = step != 0.0f ? 1.0f / step : 0.0f;
        sums s = try_grid(x, Q6_VALUES, factor, 0.0f, Q6_LOW, Q6_HIGH);
        float error = step * (step * s.qq - 2.0f * s.qx); /* without the constant sum of x^2 */
        if (error < best_error) {
            best_error = error;
            best_scale = k;
        }
    }
    float step = d * best_scale;
    round_on_grid(x, Q6_VALUES, step != 0.0f ? 1.0f / step : 0.0f, 0.0f, Q6_LOW, Q6_HIGH, q);
    *scale = (int8_t)best_scale;
}

static void encode_q6_k(const float *values, block_q6_k *block)
{
    float x[VALUES];
    int exponent;
    memset(block, 0, sizeof *block);
    if (!load_block(values, 65504.0f * Q6_SCALE * -Q6_LOW, x, &exponent))
        return;
    float fit[Q6_SUBS], largest = 0.0f;
    for (size_t j = 0; j < Q6_SUBS; j++) {
        fit[j] = fit_scale(x + j * Q6_VALUES);
        largest = fabsf(fit[j]) > largest ? fabsf(fit[j]) : largest;
    }
    float d;
    block->d = store_scale(largest / Q6_SCALE, exponent, &d);
    int8_t q[VALUES];
    for (size_t j = 0; j < Q6_SUBS; j++)
        settle_scale(x + j * Q6_VALUES, fit[j], d, &block->scales[j], q + j * Q6_VALUES);
    pack_q6(q, block);
}

void number_encode_Q6_K(const float *values, void *blocks, size_t n)
{
    for (size_t b = 0; b < n / VALUES; b++) {
        block_q6_k block;
        encode_q6_k(values + b * VALUES, &block);
        memcpy((char *)blocks + b * sizeof block, &block, sizeof block);
    }
}
