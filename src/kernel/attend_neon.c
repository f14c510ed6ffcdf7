/* attend_neon.c - attention of several heads over one key/value head.
 *
 * The tiles of attend_avx2.c: scores in tiles of 2 queries x 4 positions, whose 8 horizontal sums are computed
 * together; values in tiles of 4 queries x 16 dimensions; 16 of the 32 registers hold sums. An incomplete group of
 * queries repeats its last one. */
#include "exponent_neon.h"

#define TILE_POSITIONS 4
#define TILE_QUERIES   4 /* queries in a tile of the second product, weights times values */
#define TILE_PAIRS     2 /* of 8 dimensions */

/* Computes the scores of two queries with positions [p, p + 4), of which `left` exist. */
ALWAYS_INLINE void score_tile(const float *const query[2], const void *key, size_t p, size_t left, size_t length,
                              float scale, float *const scores[2], load_values *load)
{
    vector sum[2 * TILE_POSITIONS];
    for (size_t k = 0; k < 2 * TILE_POSITIONS; k++)
        sum[k] = vector_of(0);
    for (size_t i = 0; i < length; i += LANES) {
        size_t n = length - i;
        vector first = load_first(query[0] + i, n), second = load_first(query[1] + i, n);
        for (size_t k = 0; k < TILE_POSITIONS; k++) {
            vector values = load(key, (p + (k < left ? k : left - 1)) * length + i, n);
            sum[k] = vector_fma(sum[k], first, values);
            sum[k + TILE_POSITIONS] = vector_fma(sum[k + TILE_POSITIONS], second, values);
        }
    }
    vector both = vector_multiply(sum_of_8(sum), vector_of(scale));
    size_t present = left < TILE_POSITIONS ? left : TILE_POSITIONS;
    store_first(scores[0] + p, present, both);
    store_first(scores[1] + p, present, (vector){both.high, both.low});
}

/* Replaces scores by exp(score - largest); returns their sum, which they must be divided by. */
static float softmax(float *scores, size_t n)
{
    float largest = scores[0];
    for (size_t i = 1; i < n; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    vector sum = vector_of(0), shift = vector_of(-largest);
    for (size_t i = 0; i < n; i += LANES) {
        store_first(scores + i, n - i, exponent_neon(vector_add(load_first(scores + i, n - i), shift)));
        sum = vector_add(sum, load_first(scores + i, n - i)); /* zeros after the last one */
    }
    return sum_of(sum);
}

/* Computes the outputs of four queries in dimensions [i, i + 16), of which `left` exist. */
ALWAYS_INLINE void value_tile(const float *const scores[TILE_QUERIES], const float total[TILE_QUERIES],
                              const void *value, size_t count, size_t length, size_t i, size_t left,
                              float *const out[TILE_QUERIES], load_values *load)
{
    vector sum[TILE_QUERIES][TILE_PAIRS];
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_PAIRS; k++)
            sum[g][k] = vector_of(0);
    for (size_t p = 0; p < count; p++)
        for (size_t k = 0; k < TILE_PAIRS && k * LANES < left; k++) {
            vector values = load(value, p * length + i + k * LANES, left - k * LANES);
            for (size_t g = 0; g < TILE_QUERIES; g++)
                sum[g][k] = vector_fma(sum[g][k], values, vector_of(scores[g][p]));
        }
    for (size_t g = 0; g < TILE_QUERIES; g++) {
        float32x4_t divisor = vdupq_n_f32(total[g]);
        for (size_t k = 0; k < TILE_PAIRS && k * LANES < left; k++) {
            vector weighted = {vdivq_f32(sum[g][k].low, divisor), vdivq_f32(sum[g][k].high, divisor)};
            store_first(out[g] + i + k * LANES, left - k * LANES, weighted);
        }
    }
}

ALWAYS_INLINE void attend(const float *query, size_t queries, const void *key, const void *value, size_t count,
                          size_t length, float scale, float *scores, float *out, load_values *load)
{
    for (size_t g = 0; g < queries; g += 2) {
        size_t next = g + 1 < queries ? g + 1 : g;
        const float *const two[] = {query + g * length, query + next * length};
        float *const two_scores[] = {scores + g * count, scores + next * count};
        for (size_t p = 0; p < count; p += TILE_POSITIONS)
            score_tile(two, key, p, count - p, length, scale, two_scores, load);
    }
    for (size_t g = 0; g < queries; g += TILE_QUERIES) {
        const float *group_scores[TILE_QUERIES];
        float *group_out[TILE_QUERIES], total[TILE_QUERIES];
        for (size_t k = 0; k < TILE_QUERIES; k++) {
            size_t one = g + k < queries ? g + k : queries - 1;
            total[k] = g + k < queries ? softmax(scores + one * count, count) : total[k - 1];
            group_scores[k] = scores + one * count;
            group_out[k] = out + one * length;
        }
        size_t i = 0;
        for (; i + TILE_PAIRS * LANES <= length; i += TILE_PAIRS * LANES)
            value_tile(group_scores, total, value, count, length, i, TILE_PAIRS * LANES, group_out, load);
        if (i < length)
            value_tile(group_scores, total, value, count, length, i, length - i, group_out, load);
    }
}

#define ATTEND(format)                                                                                         \
    static void attend_##format##_neon(const float *query, size_t queries, const void *key, const void *value, \
                                       size_t count, size_t length, float scale, float *scores, float *out)    \
    {                                                                                                          \
        attend(query, queries, key, value, count, length, scale, scores, out, load_##format);                  \
    }
ATTEND(f32)
ATTEND(f16)

const kernels neon_attention = {
    .attend_f32 = attend_f32_neon,
    .attend_f16 = attend_f16_neon,
};
