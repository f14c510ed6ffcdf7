/* attend_avx2.c - attention of several heads over one key/value head.
 *
 * The plan of attend_avx512.c with half as many registers, half as wide: scores in tiles of 2 queries x 4 positions
 * whose 8 sums are gathered together, values in tiles of 4 queries x 16 dimensions. A group of queries that is not
 * full repeats its last one. */
#include "avx2.h"

#include "exponent_avx2.h"

#define TILE_POSITIONS 4
#define TILE_QUERIES   4 /* of the second product */
#define TILE_REGISTERS 2 /* of 8 dimensions */

/* The first n (at most 8) values of a key or value from index i, 0 behind them. */
typedef __m256 load_cached(const void *data, size_t i, size_t n);

ALWAYS_INLINE __m256 load_f32(const void *data, size_t i, size_t n)
{
    return load_first((const float *)(const void *)((const char *)data + 4 * i), n);
}

ALWAYS_INLINE __m256 load_f16(const void *data, size_t i, size_t n)
{
    return load_first_halves((const char *)data + 2 * i, n);
}

/* Scores of two queries with positions [p, p + 4) of which `left` exist. */
ALWAYS_INLINE void score_tile(const float *const query[2], const void *key, size_t p, size_t left, size_t length,
                              float scale, float *const scores[2], load_cached *load)
{
    __m256 sum[2 * TILE_POSITIONS];
    for (size_t k = 0; k < 2 * TILE_POSITIONS; k++)
        sum[k] = _mm256_setzero_ps();
    for (size_t i = 0; i < length; i += LANES) {
        size_t n = length - i;
        __m256 first = load_first(query[0] + i, n), second = load_first(query[1] + i, n);
        for (size_t k = 0; k < TILE_POSITIONS; k++) {
            __m256 values = load(key, (p + (k < left ? k : left - 1)) * length + i, n);
            sum[k] = _mm256_fmadd_ps(first, values, sum[k]);
            sum[k + TILE_POSITIONS] = _mm256_fmadd_ps(second, values, sum[k + TILE_POSITIONS]);
        }
    }
    __m256 both = _mm256_mul_ps(sum_of_8(sum), _mm256_set1_ps(scale));
    size_t present = left < TILE_POSITIONS ? left : TILE_POSITIONS;
    store_first(scores[0] + p, present, both);
    store_first(scores[1] + p, present, _mm256_permute2f128_ps(both, both, 1));
}

/* Scores to exp(score - largest); returns what they must be divided by. */
static float softmax(float *scores, size_t n)
{
    float largest = scores[0];
    for (size_t i = 1; i < n; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    __m256 sum = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) {
        __m256 weights = exponent_avx2(_mm256_sub_ps(load_first(scores + i, n - i), _mm256_set1_ps(largest)));
        store_first(scores + i, n - i, weights);
        if (n - i < LANES)
            weights = _mm256_and_ps(weights, _mm256_castsi256_ps(first_lanes(n - i)));
        sum = _mm256_add_ps(sum, weights);
    }
    return sum_of(sum);
}

/* Four queries' outputs in dimensions [i, i + 16), of which `left` exist. */
ALWAYS_INLINE void value_tile(const float *const scores[TILE_QUERIES], const float total[TILE_QUERIES],
                              const void *value, size_t count, size_t length, size_t i, size_t left,
                              float *const out[TILE_QUERIES], load_cached *load)
{
    __m256 sum[TILE_QUERIES][TILE_REGISTERS];
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_REGISTERS; k++)
            sum[g][k] = _mm256_setzero_ps();
    for (size_t p = 0; p < count; p++)
        for (size_t k = 0; k < TILE_REGISTERS && k * LANES < left; k++) {
            __m256 values = load(value, p * length + i + k * LANES, left - k * LANES);
            for (size_t g = 0; g < TILE_QUERIES; g++)
                sum[g][k] = _mm256_fmadd_ps(_mm256_broadcast_ss(scores[g] + p), values, sum[g][k]);
        }
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_REGISTERS && k * LANES < left; k++)
            store_first(out[g] + i + k * LANES, left - k * LANES, _mm256_div_ps(sum[g][k], _mm256_set1_ps(total[g])));
}

ALWAYS_INLINE void attend(const float *query, size_t queries, const void *key, const void *value, size_t count,
                          size_t length, float scale, float *scores, float *out, load_cached *load)
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
        for (; i + TILE_REGISTERS * LANES <= length; i += TILE_REGISTERS * LANES)
            value_tile(group_scores, total, value, count, length, i, TILE_REGISTERS * LANES, group_out, load);
        if (i < length)
            value_tile(group_scores, total, value, count, length, i, length - i, group_out, load);
    }
}

#define ATTEND(format)                                                                                         \
    static void attend_##format##_avx2(const float *query, size_t queries, const void *key, const void *value, \
                                       size_t count, size_t length, float scale, float *scores, float *out)    \
    {                                                                                                          \
        attend(query, queries, key, value, count, length, scale, scores, out, load_##format);                  \
    }
ATTEND(f32)
ATTEND(f16)

const kernels avx2_attention = {
    .attend_f32 = attend_f32_avx2,
    .attend_f16 = attend_f16_avx2,
};
