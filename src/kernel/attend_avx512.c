/* attend_avx512.c - attention of several heads over one key/value head.
 *
 * Scores: tiles of 2 queries x 8 positions, so that a key is converted once for two queries and a query is loaded once
 * for eight keys; the 16 horizontal sums are computed together. Values: up to 4 queries x 64 dimensions of output
 * stay in registers during the loop over all positions. An incomplete group of queries repeats its last one; the
 * repeated results are the same. */
#include "avx512.h"

#include "exponent_avx512.h"

#define TILE_POSITIONS 8
#define TILE_QUERIES   4 /* queries in a tile of the second product, weights times values */
#define TILE_REGISTERS 4 /* of 16 dimensions */

/* Computes the scores of two queries with positions [p, p + 8), of which `left` exist. */
ALWAYS_INLINE void score_tile(const float *const query[2], const void *key, size_t p, size_t left, size_t length,
                              float scale, float *const scores[2], load_values *load)
{
    __m512 sum[2 * TILE_POSITIONS];
    for (size_t k = 0; k < 2 * TILE_POSITIONS; k++)
        sum[k] = _mm512_setzero_ps();
    for (size_t i = 0; i < length; i += LANES) {
        __mmask16 lanes = first_lanes(length - i);
        __m512 first = _mm512_maskz_loadu_ps(lanes, query[0] + i), second = _mm512_maskz_loadu_ps(lanes, query[1] + i);
        for (size_t k = 0; k < TILE_POSITIONS; k++) {
            __m512 values = load(key, (p + (k < left ? k : left - 1)) * length + i, lanes);
            sum[k] = _mm512_fmadd_ps(first, values, sum[k]);
            sum[k + TILE_POSITIONS] = _mm512_fmadd_ps(second, values, sum[k + TILE_POSITIONS]);
        }
    }
    __m512 both = _mm512_mul_ps(sum_of_16(sum), _mm512_set1_ps(scale));
    __mmask8 present = (__mmask8)first_lanes(left < TILE_POSITIONS ? left : TILE_POSITIONS);
    _mm256_mask_storeu_ps(scores[0] + p, present, _mm512_castps512_ps256(both));
    /* Not extractf32x8: compilers fuse that with the store, and the fused store traps on lanes that it does not
     * write. */
    __m512 swapped = _mm512_shuffle_f32x4(both, both, 0x4e);
    _mm256_mask_storeu_ps(scores[1] + p, present, _mm512_castps512_ps256(swapped));
}

/* Replaces scores by exp(score - largest); returns their sum, which they must be divided by. */
static float softmax(float *scores, size_t n)
{
    __m512 largest = _mm512_set1_ps(scores[0]), sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += LANES)
        largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(largest, first_lanes(n - i), scores + i));
    largest = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 weights = exponent_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, scores + i), largest));
        _mm512_mask_storeu_ps(scores + i, lanes, weights);
        sum = _mm512_mask_add_ps(sum, lanes, sum, weights);
    }
    return _mm512_reduce_add_ps(sum);
}

/* Computes the outputs of four queries in dimensions [i, i + 64), of which `left` exist. */
ALWAYS_INLINE void value_tile(const float *const scores[TILE_QUERIES], const float total[TILE_QUERIES],
                              const void *value, size_t count, size_t length, size_t i, size_t left,
                              float *const out[TILE_QUERIES], load_values *load)
{
    __mmask16 lanes[TILE_REGISTERS];
    __m512 sum[TILE_QUERIES][TILE_REGISTERS];
    for (size_t k = 0; k < TILE_REGISTERS; k++) {
        lanes[k] = left > k * LANES ? first_lanes(left - k * LANES) : 0;
        for (size_t g = 0; g < TILE_QUERIES; g++)
            sum[g][k] = _mm512_setzero_ps();
    }
    for (size_t p = 0; p < count; p++) {
        __m512 weight[TILE_QUERIES];
        for (size_t g = 0; g < TILE_QUERIES; g++)
            weight[g] = _mm512_set1_ps(scores[g][p]);
        for (size_t k = 0; k < TILE_REGISTERS; k++) {
            __m512 values = load(value, p * length + i + k * LANES, lanes[k]);
            for (size_t g = 0; g < TILE_QUERIES; g++)
                sum[g][k] = _mm512_fmadd_ps(weight[g], values, sum[g][k]);
        }
    }
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_REGISTERS; k++)
            _mm512_mask_storeu_ps(out[g] + i + k * LANES, lanes[k], _mm512_div_ps(sum[g][k], _mm512_set1_ps(total[g])));
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
        for (size_t i = 0; i < length; i += TILE_REGISTERS * LANES)
            value_tile(group_scores, total, value, count, length, i, length - i, group_out, load);
    }
}

#define ATTEND(format)                                                                                           \
    static void attend_##format##_avx512(const float *query, size_t queries, const void *key, const void *value, \
                                         size_t count, size_t length, float scale, float *scores, float *out)    \
    {                                                                                                            \
        attend(query, queries, key, value, count, length, scale, scores, out, load_##format);                    \
    }
ATTEND(f32)
ATTEND(f16)

const kernels avx512_attention = {
    .attend_f32 = attend_f32_avx512,
    .attend_f16 = attend_f16_avx512,
};
