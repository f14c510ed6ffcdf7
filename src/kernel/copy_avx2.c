/* copy_avx2.c - the formats of coarse copies (SIGNS1, LEVELS2) times one token of 8 bits.
 *
 * A run of weights is four bytes, a lane of 32 bits, and value 4 j + k of the run lies in byte k at place j. So place j of
 * a whole register meets word j of each run of the token, which is gathered once for eight rows: a shift and a mask
 * make the numbers, unsigned and doubled, and maddubs multiplies them. Sums of all places fit 16 bits, 8 * 2 * 2 * 127 =
 * 4064 and 4 * 2 * 6 * 127 = 6096, and belong to a run, so that a span has one conversion and one multiplication with
 * scales. What is subtracted, the token's sum or three times it, is where the sum begins. */
#include "avx2.h"
#include "spans.h"

/* ---- the token: register j holds word j of each run; start: -(1 or 3) times the sum of each run ---- */

typedef struct token_signs1 {
    __m256i q[8];
    __m256i start;
    __m256 scale;
} token_signs1;

ALWAYS_INLINE token_signs1 read_signs1(const int8_t *q, const int16_t *sums, const float *scales)
{
    token_signs1 t;
    vector words[LANES]; /* runs, then places */
    for (size_t i = 0; i < LANES; i++)
        words[i] = _mm256_loadu_ps((const void *)(q + i * 32));
    transpose_vectors(words);
    for (size_t i = 0; i < LANES; i++)
        t.q[i] = _mm256_castps_si256(words[i]);
    t.start = _mm256_madd_epi16(_mm256_loadu_si256((const void *)sums), _mm256_set1_epi16(-1));
    t.scale = _mm256_loadu_ps(scales);
    return t;
}

typedef struct token_levels2 {
    __m256i q[2][4]; /* of 128 columns each */
    __m256i start[2];
    __m256 scale[2];
} token_levels2;

ALWAYS_INLINE token_levels2 read_levels2(const int8_t *q, const int16_t *sums, const float *scales)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* of runs 0, 2, 4, 6, 1, 3, 5, 7 */
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    token_levels2 t;
    for (size_t h = 0; h < 2; h++) {
        __m256i v[4];
        for (size_t i = 0; i < 4; i++)
            v[i] = _mm256_loadu_si256((const void *)(q + h * 128 + i * 32));
        __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
        __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
        t.q[h][0] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(a, c), in_order);
        t.q[h][1] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(a, c), in_order);
        t.q[h][2] = _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(b, d), in_order);
        t.q[h][3] = _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(b, d), in_order);
        __m256i sum = _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(sums + h * 8)));
        t.start[h] = _mm256_mullo_epi32(sum, _mm256_set1_epi32(-3));
        __m256 four = _mm256_castps128_ps256(_mm_loadu_ps(scales + h * 4));
        t.scale[h] = _mm256_permutevar8x32_ps(four, twice);
    }
    return t;
}

/* ---- a row ---- */

/* Adds the products of a span to `sum`: of each run `pairs`, sums of 16 bits, and where it starts. */
ALWAYS_INLINE __m256 add_runs(__m256 sum, __m256i pairs, __m256i start, __m256 d, __m256 dx)
{
    __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), start);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(d, dx), sum);
}

ALWAYS_INLINE __m128i two_words(const void *here, const void *there)
{
    return _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(_mm_loadl_epi64(here)), there));
}

ALWAYS_INLINE __m256 add_signs1(__m256 sum, const uint8_t *base, const token_signs1 *token)
{
    const block_signs1 *block = (const void *)base;
    const __m256i bit = _mm256_set1_epi8(2);
    /* The scales of two blocks are words 0 and 5. */
    const __m128i first = _mm_setr_epi8(0, 1, 0, 1, 10, 11, 10, 11, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i second = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 0, 1, 10, 11, 10, 11);
    __m128i d = _mm_or_si128(_mm_shuffle_epi8(_mm_loadu_si128((const void *)block), first),
                             _mm_shuffle_epi8(_mm_loadu_si128((const void *)(block + 2)), second));
    __m256i bits = _mm256_castsi128_si256(two_words(block[0].bits, block[1].bits));
    bits = _mm256_inserti128_si256(bits, two_words(block[2].bits, block[3].bits), 1);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_add_epi8(bits, bits), bit), token->q[0]);
    UNROLLED
    for (int j = 1; j < 8; j++) {
        __m256i numbers = _mm256_and_si256(_mm256_srli_epi16(bits, j - 1), bit);
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(numbers, token->q[j]));
    }
    return add_runs(sum, pairs, token->start, _mm256_cvtph_ps(d), token->scale);
}

ALWAYS_INLINE __m256 add_levels2(__m256 sum, const uint8_t *base, const token_levels2 *token)
{
    const __m256i mask = _mm256_set1_epi8(6);
    UNROLLED
    for (size_t h = 0; h < 2; h++) {
        const block_levels2 *block = (const block_levels2 *)(const void *)base + 2 * h;
        __m256i q = _mm256_castsi128_si256(_mm_loadu_si128((const void *)block[0].q));
        q = _mm256_inserti128_si256(q, _mm_loadu_si128((const void *)block[1].q), 1);
        __m128i d = _mm_unpacklo_epi64(_mm_set1_epi16((int16_t)block[0].d), _mm_set1_epi16((int16_t)block[1].d));
        __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_add_epi8(q, q), mask), token->q[h][0]);
        UNROLLED
        for (int j = 1; j < 4; j++) {
            __m256i numbers = _mm256_and_si256(_mm256_srli_epi16(q, 2 * j - 1), mask);
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(numbers, token->q[h][j]));
        }
        sum = add_runs(sum, pairs, token->start[h], _mm256_cvtph_ps(d), token->scale[h]);
    }
    return sum;
}

/* ---- the loop ---- */

#define COPY_PRODUCT(name)                                                                                   \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums) \
    {                                                                                                        \
        const size_t bytes = SPAN / 64 * sizeof(block_##name);                                               \
        size_t parts = x->columns / 32, b = 0, at = 0;                                                       \
        __m256 sum[TOKENS_AT_ONCE][GROUP];                                                                   \
        token_##name token[TOKENS_AT_ONCE];                                                                  \
        FOR_TOKENS clear(sum[t]);                                                                            \
        for (; b + PARTS <= parts; b += PARTS, at += bytes) {                                                \
            fetch_ahead(rows, at, bytes);                                                                    \
            FOR_TOKENS token[t] = read_##name(x[t].q + b * 32, x[t].sums + b * 2, x[t].scales + b);          \
            for (size_t r = 0; r < GROUP; r++)                                                               \
                FOR_TOKENS sum[t][r] = add_##name(sum[t][r], rows->now[r] + at, &token[t]);                  \
        }                                                                                                    \
        if (b < parts) { /* fewer than eight parts, filled up with zeros */                                  \
            short_span last = {0};                                                                           \
            for (size_t t = 0; t < tokens; t++) {                                                            \
                copy_token(&last, &x[t], b);                                                                 \
                token[t] = read_##name(last.q, last.sums, last.scales);                                      \
            }                                                                                                \
            for (size_t r = 0; r < GROUP; r++) {                                                             \
                copy_weights(&last, rows->now[r] + at, 64, sizeof(block_##name));                            \
                FOR_TOKENS sum[t][r] = add_##name(sum[t][r], last.weights, &token[t]);                       \
            }                                                                                                \
        }                                                                                                    \
        FOR_TOKENS sums[t] = sum_of_8(sum[t]);                                                               \
    }                                                                                                        \
    SPAN_PRODUCT(avx2, name, true, false)
COPY_PRODUCT(signs1)
COPY_PRODUCT(levels2)

const kernels avx2_copies = {
    .product = {[FORMAT_SIGNS1] = product_signs1_avx2, [FORMAT_LEVELS2] = product_levels2_avx2},
};
