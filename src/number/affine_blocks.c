/* affine_blocks.c - the K-quants with a scale and a minimum per sub-block: Q2_K, Q4_K, Q5_K. value = d * scale * q -
 * dmin * minimum; they differ in the bits of q, scale and minimum, and in the length of a sub-block.
 *
 * The layouts are GGUF's (blocks.h); the encoder's search is hearth's own (block_search.h). */
#include "block_search.h"

#define VALUES    256
#define MOST_SUBS 16

/* One of the formats, for the search. */
typedef struct affine_shape {
    size_t subs, values; /* sub-blocks, and values of each */
    float top;           /* largest q */
    float scale_top;     /* largest integer scale and minimum */
    float first, step;   /* the grids divide the range of values into first, first + step ... steps: fewer than `top` */
    int grids;           /* leave the top integer unused, more clamp the largest values */
} affine_shape;

static const affine_shape q2_k_shape = {16, 16, 3.0f, 15.0f, 2.0f, 0.2f, 12};
static const affine_shape q4_k_shape = {8, 32, 15.0f, 63.0f, 13.2f, 0.3f, 10};
static const affine_shape q5_k_shape = {8, 32, 31.0f, 63.0f, 28.0f, 0.5f, 9};

/* What the search finds for a block. */
typedef struct affine_block {
    uint16_t d, dmin; /* float16 */
    uint8_t scale[MOST_SUBS], minimum[MOST_SUBS];
    int8_t q[VALUES];
} affine_block;

/* The approximation x = step * q - offset with offset >= 0. */
typedef struct affine {
    float step, offset;
} affine;

/* Sums of a sub-block that no grid changes: of its weights, and of weights times values. */
typedef struct fixed_sums {
    float weight, x;
} fixed_sums;

INLINE fixed_sums sum_values(const float *x, const float *weights, size_t n)
{
    fixed_sums s = {weights ? 0.0f : (float)n, 0.0f};
    for (size_t i = 0; i < n; i++) {
        s.weight += weights ? weights[i] : 0.0f;
        s.x += weights ? weights[i] * x[i] : x[i];
    }
    return s;
}

/* Step 1: fits step and offset of one sub-block. */
INLINE affine fit_affine(const float *x, const float *weights, const affine_shape *shape)
{
    float low = 0.0f, high = x[0];
    for (size_t i = 0; i < shape->values; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float range = high - low;
    if (range < 0x1p-60f) /* all values equal, and not positive */
        return (affine){0.0f, -low};
    fixed_sums of = sum_values(x, weights, shape->values);
    affine best = {range / shape->top, -low};
    float best_gain = -1.0f;
    for (int candidate = 0; candidate < shape->grids; candidate++) {
        float factor = (shape->first + shape->step * (float)candidate) / range;
        sums s = try_grid(x, weights, shape->values, factor, -low * factor, 0.0f, shape->top);
        if (s.qq <= 0.0f)
            continue;
        float spread = of.weight * s.qq - s.q * s.q;
        /* Least squares; without an offset if that would have the wrong sign or all q are equal. */
        affine a = {s.qx / s.qq, 0.0f};
        if (spread > 0.0f) {
            float offset = (s.q * s.qx - s.qq * of.x) / spread;
            if (offset > 0.0f)
                a = (affine){(of.weight * s.qx - s.q * of.x) / spread, offset};
        }
        float gain = a.step * s.qx - a.offset * of.x; /* the sum of x^2 minus the squared error */
        if (gain > best_gain) {
            best_gain = gain;
            best = a;
        }
    }
    return best;
}

/* Step 2 for one sub-block: writes its scale, minimum and integers. d and dmin are the block's float16 scales as
 * they will be decoded. */
INLINE void settle_affine(const float *x, const float *weights, const affine_shape *shape, affine fit, float d,
                          float dmin, uint8_t *scale, uint8_t *minimum, int8_t *q)
{
    const float most = shape->scale_top;
    fixed_sums of = sum_values(x, weights, shape->values);
    float middle = d > 0.0f ? round_to_integer(clamp(fit.step / d, 0.0f, most)) : 0.0f;
    float start = dmin > 0.0f ? round_to_integer(clamp(fit.offset / dmin, 0.0f, most)) : 0.0f;
    float best_scale = middle, best_minimum = start, best_error = INFINITY;
    for (int candidate = -1; candidate <= 1; candidate++) {
        float k = clamp(middle + (float)candidate, 0.0f, most);
        float step = d * k, factor = step > 0.0f ? 1.0f / step : 0.0f;
        sums s = try_grid(x, weights, shape->values, factor, dmin * start * factor, 0.0f, shape->top);
        /* For these integers the best offset is the mean of step * q - x. */
        float offset = (step * s.q - of.x) / of.weight;
        float m = dmin > 0.0f ? round_to_integer(clamp(offset / dmin, 0.0f, most)) : 0.0f;
        offset = dmin * m;
        float error = step * (step * s.qq - 2.0f * s.qx - 2.0f * offset * s.q) +
                      offset * (2.0f * of.x + of.weight * offset); /* without the constant sum of x^2 */
        if (error < best_error) {
            best_error = error;
            best_scale = k;
            best_minimum = m;
        }
    }
    float step = d * best_scale, factor = step > 0.0f ? 1.0f / step : 0.0f;
    round_on_grid(x, shape->values, factor, dmin * best_minimum * factor, 0.0f, shape->top, q);
    *scale = (uint8_t)best_scale;
    *minimum = (uint8_t)best_minimum;
}

INLINE bool search_with(const float *values, const float *weights, const affine_shape *shape, affine_block *out)
{
    float x[VALUES];
    int exponent;
    if (!load_block(values, VALUES, 65504.0f * shape->scale_top * shape->top, x, &exponent))
        return false;
    affine fit[MOST_SUBS];
    float step = 0.0f, offset = 0.0f;
    for (size_t j = 0; j < shape->subs; j++) {
        size_t at = j * shape->values;
        fit[j] = fit_affine(x + at, weights ? weights + at : NULL, shape);
        step = fit[j].step > step ? fit[j].step : step;
        offset = fit[j].offset > offset ? fit[j].offset : offset;
    }
    float d, dmin;
    out->d = store_scale(step / shape->scale_top, exponent, &d);
    out->dmin = store_scale(offset / shape->scale_top, exponent, &dmin);
    for (size_t j = 0; j < shape->subs; j++) {
        size_t at = j * shape->values;
        settle_affine(x + at, weights ? weights + at : NULL, shape, fit[j], d, dmin, &out->scale[j], &out->minimum[j],
                      out->q + at);
    }
    return true;
}

/* Encodes a block; false: it is a block of zeros. Inlined once with weights and once without. */
INLINE bool search(const float *values, const float *importance, const affine_shape *shape, affine_block *out)
{
    float loaded[VALUES];
    const float *weights = load_importance(importance, VALUES, loaded);
    return weights ? search_with(values, weights, shape, out) : search_with(values, NULL, shape, out);
}

/* ---- Q2_K */

static inline void decode_q2_k(const block_q2_k *block, float *y)
{
    float d = half_to_float(block->d), dmin = half_to_float(block->dmin);
    for (size_t j = 0; j < 16; j++) {
        const uint8_t *q = block->q + j / 8 * 32 + j % 2 * 16;
        float step = d * (float)(block->scales[j] & 15), offset = dmin * (float)(block->scales[j] >> 4);
        for (size_t i = 0; i < 16; i++)
            y[j * 16 + i] = step * (float)(q[i] >> j / 2 % 4 * 2 & 3) - offset;
    }
}

static void encode_q2_k(const float *values, const float *importance, block_q2_k *block)
{
    affine_block found;
    if (!search(values, importance, &q2_k_shape, &found))
        return;
    block->d = found.d;
    block->dmin = found.dmin;
    for (size_t j = 0; j < 16; j++) {
        uint8_t *q = block->q + j / 8 * 32 + j % 2 * 16;
        block->scales[j] = (uint8_t)(found.scale[j] | found.minimum[j] << 4);
        for (size_t i = 0; i < 16; i++)
            q[i] = (uint8_t)(q[i] | found.q[j * 16 + i] << j / 2 % 4 * 2);
    }
}

DECODES_BLOCKS(Q2_K, block_q2_k, decode_q2_k)
ENCODES_BLOCKS(Q2_K, block_q2_k, encode_q2_k)

/* ---- Q4_K and Q5_K: 8 sub-blocks of 32, whose lower four bits lie alike */

#define SUBS 8
#define SUB  32

/* Unpacks eight scales and eight minima of 6 bits from 12 bytes; blocks.h says where they lie. */
static inline void unpack_scales(const uint8_t packed[12], uint8_t scale[SUBS], uint8_t minimum[SUBS])
{
    for (size_t j = 0; j < 4; j++) {
        scale[j] = packed[j] & 63;
        minimum[j] = packed[j + 4] & 63;
        scale[j + 4] = (uint8_t)((packed[j + 8] & 15) | packed[j] >> 6 << 4);
        minimum[j + 4] = (uint8_t)(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

static inline void pack_scales(const uint8_t scale[SUBS], const uint8_t minimum[SUBS], uint8_t packed[12])
{
    for (size_t j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        packed[j + 4] = (uint8_t)(minimum[j] | minimum[j + 4] >> 4 << 6);
        packed[j + 8] = (uint8_t)((scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4);
    }
}

static inline void decode_q4_k(const block_q4_k *block, float *y)
{
    uint8_t scale[SUBS], minimum[SUBS];
    unpack_scales(block->scales, scale, minimum);
    float d = half_to_float(block->d), dmin = half_to_float(block->dmin);
    for (size_t j = 0; j < SUBS; j++) {
        const uint8_t *q = block->nibbles + j / 2 * SUB;
        float step = d * (float)scale[j], offset = dmin * (float)minimum[j];
        for (size_t i = 0; i < SUB; i++)
            y[j * SUB + i] = step * (float)(j % 2 == 0 ? q[i] & 15 : q[i] >> 4) - offset;
    }
}

static inline void decode_q5_k(const block_q5_k *block, float *y)
{
    uint8_t scale[SUBS], minimum[SUBS];
    unpack_scales(block->scales, scale, minimum);
    float d = half_to_float(block->d), dmin = half_to_float(block->dmin);
    for (size_t j = 0; j < SUBS; j++) {
        const uint8_t *q = block->nibbles + j / 2 * SUB;
        float step = d * (float)scale[j], offset = dmin * (float)minimum[j];
        for (size_t i = 0; i < SUB; i++) {
            int low = j % 2 == 0 ? q[i] & 15 : q[i] >> 4, high = block->high[i] >> j & 1;
            y[j * SUB + i] = step * (float)(low | high << 4) - offset;
        }
    }
}

/* Packs the lower four bits: 32 bytes hold two sub-blocks. */
static inline void pack_nibbles(const int8_t q[VALUES], uint8_t nibbles[VALUES / 2])
{
    for (size_t j = 0; j < SUBS; j += 2)
        for (size_t i = 0; i < SUB; i++)
            nibbles[j / 2 * SUB + i] = (uint8_t)((q[j * SUB + i] & 15) | (q[(j + 1) * SUB + i] & 15) << 4);
}

static void encode_q4_k(const float *values, const float *importance, block_q4_k *block)
{
    affine_block found;
    if (!search(values, importance, &q4_k_shape, &found))
        return;
    block->d = found.d;
    block->dmin = found.dmin;
    pack_scales(found.scale, found.minimum, block->scales);
    pack_nibbles(found.q, block->nibbles);
}

static void encode_q5_k(const float *values, const float *importance, block_q5_k *block)
{
    affine_block found;
    if (!search(values, importance, &q5_k_shape, &found))
        return;
    block->d = found.d;
    block->dmin = found.dmin;
    pack_scales(found.scale, found.minimum, block->scales);
    pack_nibbles(found.q, block->nibbles);
    for (size_t j = 0; j < SUBS; j++)
        for (size_t i = 0; i < SUB; i++)
            block->high[i] = (uint8_t)(block->high[i] | (found.q[j * SUB + i] >> 4 & 1) << j);
}

DECODES_BLOCKS(Q4_K, block_q4_k, decode_q4_k)
ENCODES_BLOCKS(Q4_K, block_q4_k, encode_q4_k)
DECODES_BLOCKS(Q5_K, block_q5_k, decode_q5_k)
ENCODES_BLOCKS(Q5_K, block_q5_k, encode_q5_k)
