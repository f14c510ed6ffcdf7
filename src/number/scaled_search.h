/* scaled_search.h - the search of block_search.h for blocks with a signed scale per sub-block and no minimum: value =
 * d * scale * q, where q is an integer or a value of IQ4's list. A block with a single sub-block has d alone. The sign of
 * a scale is chosen so that the value of the largest magnitude becomes negative, where the range of q reaches further. */
#ifndef NUMBER_SCALED_SEARCH_H
#define NUMBER_SCALED_SEARCH_H

#include "block_search.h"

#define SCALED_VALUES 256
#define SCALED_SUBS   16

/* One of the formats, for the search. */
typedef struct scaled_shape {
    size_t subs, values; /* sub-blocks, and values of each */
    float low, high;     /* range of q */
    bool listed;         /* q is a value of iq4_values, not an integer */
    float scale_top;     /* largest magnitude of an integer scale */
    float first, step;   /* the grids map the value of the largest magnitude to first, first + step ... */
    int grids;
} scaled_shape;

/* ---- rounding */

/* The middles between neighbours of iq4_values. */
static const float iq4_middles[15] = {-115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                                      7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f};

/* Rounds n values (a multiple of 4) to values of the list; returns the sums. */
INLINE sums try_list(const float *x, const float *weights, size_t n, float factor)
{
    lanes q = all(0.0f), qq = q, qx = q;
    for (size_t i = 0; i < n; i += LANES) {
        lanes value = load_lanes(x + i), scaled = value * all(factor), v = all((float)iq4_values[0]);
        for (size_t k = 0; k < 15; k++) {
            float rise = (float)(iq4_values[k + 1] - iq4_values[k]);
            v += choose(scaled > all(iq4_middles[k]), all(rise), all(0.0f));
        }
        add_sums(v, value, weights ? load_lanes(weights + i) : all(1.0f), &q, &qq, &qx);
    }
    return (sums){total(q), total(qq), total(qx)};
}

/* Stores the numbers of the values that try_list rounds to. */
static inline void round_to_list(const float *x, size_t n, float factor, int8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        int number = 0;
        for (size_t k = 0; k < 15; k++)
            number += x[i] * factor > iq4_middles[k];
        q[i] = (int8_t)number;
    }
}

INLINE sums try_shape(const float *x, const float *weights, const scaled_shape *shape, float factor)
{
    return shape->listed ? try_list(x, weights, shape->values, factor)
                         : try_grid(x, weights, shape->values, factor, 0.0f, shape->low, shape->high);
}

INLINE void round_shape(const float *x, const scaled_shape *shape, float step, int8_t *q)
{
    float factor = step != 0.0f ? 1.0f / step : 0.0f;
    if (shape->listed)
        round_to_list(x, shape->values, factor, q);
    else
        round_on_grid(x, shape->values, factor, 0.0f, shape->low, shape->high, q);
}

/* ---- the search */

/* Step 1: fits the scale of a sub-block. */
INLINE float fit_scale(const float *x, const float *weights, const scaled_shape *shape)
{
    float low = 0.0f, high = 0.0f;
    for (size_t i = 0; i < shape->values; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float extreme = high > -low ? high : low;
    if (high - low < 0x1p-60f)
        return 0.0f;
    float best = extreme / shape->low, best_gain = -1.0f;
    for (int candidate = 0; candidate < shape->grids; candidate++) {
        float factor = (shape->first + shape->step * (float)candidate) / extreme;
        sums s = try_shape(x, weights, shape, factor);
        if (s.qq > 0.0f && s.qx * s.qx > best_gain * s.qq) { /* the gain is qx^2 / qq */
            best_gain = s.qx * s.qx / s.qq;
            best = s.qx / s.qq;
        }
    }
    return best;
}

/* Step 2 for one sub-block: writes its scale and integers. d is the block's float16 scale as it will be decoded. */
INLINE void settle_scale(const float *x, const float *weights, const scaled_shape *shape, float fit, float d,
                         int8_t *scale, int8_t *q)
{
    const float most = shape->scale_top;
    float middle = d != 0.0f ? round_to_integer(clamp(fit / d, -most, most)) : 0.0f;
    float best_scale = middle, best_error = INFINITY;
    for (int candidate = -1; candidate <= 1; candidate++) {
        float k = clamp(middle + (float)candidate, -most, most);
        float step = d * k;
        sums s = try_shape(x, weights, shape, step != 0.0f ? 1.0f / step : 0.0f);
        float error = step * (step * s.qq - 2.0f * s.qx); /* without the constant sum of x^2 */
        if (error < best_error) {
            best_error = error;
            best_scale = k;
        }
    }
    round_shape(x, shape, d * best_scale, q);
    *scale = (int8_t)best_scale;
}

/* What the search finds for a block. */
typedef struct scaled_block {
    uint16_t d; /* float16 */
    int8_t scale[SCALED_SUBS];
    int8_t q[SCALED_VALUES]; /* integers, or numbers of values of the list */
} scaled_block;

INLINE bool search_scaled_with(const float *values, const float *weights, const scaled_shape *shape, scaled_block *out)
{
    float x[SCALED_VALUES];
    int exponent;
    if (!load_block(values, shape->subs * shape->values, 65504.0f * shape->scale_top * -shape->low, x, &exponent))
        return false;
    float fit[SCALED_SUBS], largest = 0.0f;
    for (size_t j = 0; j < shape->subs; j++) {
        size_t at = j * shape->values;
        fit[j] = fit_scale(x + at, weights ? weights + at : NULL, shape);
        largest = fabsf(fit[j]) > fabsf(largest) ? fit[j] : largest;
    }
    float d;
    if (shape->subs == 1) {
        out->d = store_scale(largest, exponent, &d);
        round_shape(x, shape, d, out->q);
        return true;
    }
    out->d = store_scale(fabsf(largest) / shape->scale_top, exponent, &d);
    for (size_t j = 0; j < shape->subs; j++) {
        size_t at = j * shape->values;
        settle_scale(x + at, weights ? weights + at : NULL, shape, fit[j], d, &out->scale[j], out->q + at);
    }
    return true;
}

/* Encodes a block; false: it is a block of zeros. Inlined once with weights and once without. */
INLINE bool search_scaled(const float *values, const float *importance, const scaled_shape *shape, scaled_block *out)
{
    float loaded[SCALED_VALUES];
    const float *weights = load_importance(importance, shape->subs * shape->values, loaded);
    return weights ? search_scaled_with(values, weights, shape, out) : search_scaled_with(values, NULL, shape, out);
}

#endif
