/* attend_avx2.c - attention of several heads over one key/value head.
 *
 * The plan of attend_avx512.c with half as many registers of half the width: scores in tiles of 2 queries x 4
 * positions, whose 8 horizontal sums are computed together; values in tiles of 4 queries x 16 dimensions. An incomplete
 * group of queries repeats its last one. The narrow tiles read the same keys and values several times, so positions are
 * processed in blocks that stay in the L1 cache. */
#include "avx2.h"

#include "exponent_avx2.h"

#define TILE_POSITIONS  4
#define TILE_QUERIES    4 /* queries in a tile of the second product, weights times values */
#define TILE_REGISTERS  2 /* of 8 dimensions */
#define BLOCK_POSITIONS 64
#define MOST_QUERIES    16 /* queries that are processed together */

/* Adds dimensions [i, i + n), at most 8, to the scores of two queries with four keys. */
ALWAYS_INLINE void add_scores(const float *const query[2], const void *const keys[TILE_POSITIONS], size_t i, size_t n,
                              __m256 sum[2 * TILE_POSITIONS], load_values *load)
{
    __m256 first = load_first(query[0] + i, n), second = load_first(query[1] + i, n);
    UNROLLED
    for (size_t k = 0; k < TILE_POSITIONS; k++) {
        __m256 values = load(keys[k], i, n);
        sum[k] = _mm256_fmadd_ps(first, values, sum[k]);
        sum[k + TILE_POSITIONS] = _mm256_fmadd_ps(second, values, sum[k + TILE_POSITIONS]);
    }
}

/* Computes the scores of two queries with four keys from `key` on, `bytes` bytes each, of which `left` exist. */
ALWAYS_INLINE void score_tile(const float *const query[2], const char *key, size_t bytes, size_t left, size_t length,
                              float scale, float *const scores[2], size_t p, load_values *load)
{
    __m256 sum[2 * TILE_POSITIONS];
    const void *keys[TILE_POSITIONS];
    UNROLLED
    for (size_t k = 0; k < 2 * TILE_POSITIONS; k++)
        sum[k] = _mm256_setzero_ps();
    for (size_t k = 0; k < TILE_POSITIONS; k++)
        keys[k] = key + (k < left ? k : left - 1) * bytes;
    size_t i = 0;
    for (; i + LANES <= length; i += LANES)
        add_scores(query, keys, i, LANES, sum, load);
    if (i < length)
        add_scores(query, keys, i, length - i, sum, load);
    __m256 both = _mm256_mul_ps(sum_of_8(sum), _mm256_set1_ps(scale));
    if (left >= TILE_POSITIONS) { /* on some CPUs a masked store takes as long as a quarter of the tile */
        _mm_storeu_ps(scores[0] + p, _mm256_castps256_ps128(both));
        _mm_storeu_ps(scores[1] + p, _mm256_extractf128_ps(both, 1));
    } else {
        store_first(scores[0] + p, left, both);
        store_first(scores[1] + p, left, _mm256_permute2f128_ps(both, both, 1));
    }
}

static float largest_of(const float *values, size_t n)
{
    __m256 most = _mm256_set1_ps(values[0]);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        most = _mm256_max_ps(most, _mm256_loadu_ps(values + i));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    float largest = _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
    for (; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* Replaces scores by exp(score - largest); returns their sum, which they must be divided by. */
static float softmax(float *scores, size_t n)
{
    __m256 largest = _mm256_set1_ps(largest_of(scores, n)), sum = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += LANES) {
        __m256 weights = exponent_avx2(_mm256_sub_ps(load_first(scores + i, n - i), largest));
        store_first(scores + i, n - i, weights);
        if (n - i < LANES)
            weights = _mm256_and_ps(weights, _mm256_castsi256_ps(first_lanes(n - i)));
        sum = _mm256_add_ps(sum, weights);
    }
    return sum_of(sum);
}

/* Adds positions [begin, end) to the outputs of four queries in dimensions [i, i + 16), of which `left` exist. */
ALWAYS_INLINE void value_tile(const float *const scores[TILE_QUERIES], const void *value, size_t begin, size_t end,
                              size_t length, size_t i, size_t left, float *const out[TILE_QUERIES], load_values *load)
{
    __m256 sum[TILE_QUERIES][TILE_REGISTERS];
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_REGISTERS; k++)
            sum[g][k] = k * LANES < left ? load_first(out[g] + i + k * LANES, left - k * LANES) : _mm256_setzero_ps();
    for (size_t p = begin; p < end; p++)
        for (size_t k = 0; k < TILE_REGISTERS && k * LANES < left; k++) {
            __m256 values = load(value, p * length + i + k * LANES, left - k * LANES);
            for (size_t g = 0; g < TILE_QUERIES; g++)
                sum[g][k] = _mm256_fmadd_ps(_mm256_broadcast_ss(scores[g] + p), values, sum[g][k]);
        }
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < TILE_REGISTERS && k * LANES < left; k++)
            store_first(out[g] + i + k * LANES, left - k * LANES, sum[g][k]);
}

/* Some queries of one key/value head and all its positions. */
typedef struct attention {
    const float *query;
    size_t queries, count, length, bytes; /* bytes of a key or value */
    const void *key, *value;
    float scale, *scores, *out;
} attention;

ALWAYS_INLINE void score_block(const attention *a, size_t begin, size_t end, load_values *load)
{
    for (size_t g = 0; g < a->queries; g += 2) {
        size_t next = g + 1 < a->queries ? g + 1 : g;
        const float *const query[] = {a->query + g * a->length, a->query + next * a->length};
        float *const scores[] = {a->scores + g * a->count, a->scores + next * a->count};
        for (size_t p = begin; p < end; p += TILE_POSITIONS)
            score_tile(query, (const char *)a->key + p * a->bytes, a->bytes, end - p, a->length, a->scale, scores, p,
                       load);
    }
}

ALWAYS_INLINE void value_block(const attention *a, size_t begin, size_t end, load_values *load)
{
    for (size_t g = 0; g < a->queries; g += TILE_QUERIES) {
        const float *scores[TILE_QUERIES];
        float *out[TILE_QUERIES];
        for (size_t k = 0; k < TILE_QUERIES; k++) {
            size_t one = g + k < a->queries ? g + k : a->queries - 1;
            scores[k] = a->scores + one * a->count;
            out[k] = a->out + one * a->length;
        }
        size_t i = 0;
        for (; i + TILE_REGISTERS * LANES <= a->length; i += TILE_REGISTERS * LANES)
            value_tile(scores, a->value, begin, end, a->length, i, TILE_REGISTERS * LANES, out, load);
        if (i < a->length)
            value_tile(scores, a->value, begin, end, a->length, i, a->length - i, out, load);
    }
}

ALWAYS_INLINE size_t end_of_block(size_t begin, size_t count)
{
    return count - begin < BLOCK_POSITIONS ? count : begin + BLOCK_POSITIONS;
}

ALWAYS_INLINE void attend_together(const attention *a, load_values *load)
{
    float total[MOST_QUERIES] = {0};
    for (size_t p = 0; p < a->count; p += BLOCK_POSITIONS)
        score_block(a, p, end_of_block(p, a->count), load);
    for (size_t g = 0; g < a->queries; g++)
        total[g] = softmax(a->scores + g * a->count, a->count);
    memset(a->out, 0, a->queries * a->length * sizeof(*a->out));
    for (size_t p = 0; p < a->count; p += BLOCK_POSITIONS)
        value_block(a, p, end_of_block(p, a->count), load);
    for (size_t g = 0; g < a->queries; g++)
        for (size_t i = 0; i < a->length; i++)
            a->out[g * a->length + i] /= total[g];
}

ALWAYS_INLINE void attend(attention a, load_values *load)
{
    for (size_t all = a.queries; all > 0; all -= a.queries) {
        a.queries = all < MOST_QUERIES ? all : MOST_QUERIES;
        attend_together(&a, load);
        a.query += a.queries * a.length;
        a.scores += a.queries * a.count;
        a.out += a.queries * a.length;
    }
}

#define ATTEND(format, type)                                                                                   \
    static void attend_##format##_avx2(const float *query, size_t queries, const void *key, const void *value, \
                                       size_t count, size_t length, float scale, float *scores, float *out)    \
    {                                                                                                          \
        attention a = {query, queries, count, length, length * sizeof(type), key, value, scale, scores, out};  \
        attend(a, load_##format);                                                                              \
    }
ATTEND(f32, float)
ATTEND(f16, uint16_t)

const kernels avx2_attention = {
    .attend_f32 = attend_f32_avx2,
    .attend_f16 = attend_f16_avx2,
};
