/* block_search.h - what the encoders of K-quants and IQ4 share, and, where there is importance, those of Q4 and Q5: they
 * search for the scales of a block that give the least sum of squared errors, each times its weight.
 *
 * Two steps:
 *
 *   1. For each sub-block alone: round its values on a few grids of slightly different step. For the resulting
 *      integers least squares gives the best scale (and minimum), and the same sums give the error without a
 *      second pass. The grid with the least error is taken.
 *   2. The largest scale determines the block's float16 scale. Then each sub-block tries the integer scales next to
 *      its own, rounds its values again on exactly that grid, and keeps the one with the least true error.
 *
 * Values are first scaled by a power of two, which changes no result and keeps squares within the range of float32.
 * Sums use four lanes: this fixes the order of additions, so every machine writes the same bytes, and uses vector
 * units. Weights are NULL where all are 1: functions are inlined so that this case costs nothing.
 *
 * Tried: twice as many grids reduce the error by less than 0.2 %; half as many increase it by 0.5 % (Q4_K, Q6_K). */
#ifndef NUMBER_BLOCK_SEARCH_H
#define NUMBER_BLOCK_SEARCH_H

#include "codec.h"

#include <math.h>

#define LANES  4
#define INLINE static inline __attribute__((always_inline))

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

/* Loads n values of a block as x = value * 2^-exponent, so that the largest magnitude is in [0.5, 1). False: all values
 * are so small that the block is encoded as zeros. */
static inline bool load_block(const float *values, size_t n, float limit, float *x, int *exponent)
{
    float top = load_finite(values, n, limit, x);
    if (top < NOTHING)
        return false;
    frexpf(top, exponent);
    float factor = ldexpf(1.0f, -*exponent);
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
    return true;
}

/* Returns a scale of the block as float16; *decoded is what that decodes to, in the units of load_block. */
static inline uint16_t store_scale(float scale, int exponent, float *decoded)
{
    uint16_t half = half_scale(ldexpf(scale, exponent));
    *decoded = ldexpf(half_to_float(half), -exponent);
    return half;
}

/* Weighted sums over n values x and the integers q (or values of a list) that they round to: of q, q * q and q * x. */
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

static inline lanes load_lanes(const float *from)
{
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void add_sums(lanes v, lanes value, lanes weight, lanes *q, lanes *qq, lanes *qx)
{
    lanes weighted = weight * v;
    *q += weighted;
    *qq += weighted * v;
    *qx += weighted * value;
}

static inline lanes round_lanes(lanes value, float factor, float shift, float low, float high)
{
    lanes v = value * all(factor) + all(shift);
    v = choose(v > all(low), v, all(low));
    v = choose(v < all(high), v, all(high));
    return (v + all(MAGIC)) - all(MAGIC);
}

/* Rounds n values (a multiple of 4) to q = round(x * factor + shift), clamped to [low, high]; returns the sums. */
INLINE sums try_grid(const float *x, const float *weights, size_t n, float factor, float shift, float low, float high)
{
    lanes q = all(0.0f), qq = q, qx = q;
    for (size_t i = 0; i < n; i += LANES) {
        lanes value = load_lanes(x + i), v = round_lanes(value, factor, shift, low, high);
        add_sums(v, value, weights ? load_lanes(weights + i) : all(1.0f), &q, &qq, &qx);
    }
    return (sums){total(q), total(qq), total(qx)};
}

/* Rounds as try_grid does and stores the integers. */
static inline void round_on_grid(const float *x, size_t n, float factor, float shift, float low, float high, int8_t *q)
{
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)round_to_integer(clamp(x[i] * factor + shift, low, high));
}

#endif
