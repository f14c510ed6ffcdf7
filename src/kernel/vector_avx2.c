/* vector_avx2.c - kernels on vectors with 8 lanes. Loads and stores of the last values are masked (avx2.h). */
#include "avx2.h"

#include "exponent_avx2.h"
#include "quantize.h"

ALWAYS_INLINE uint32_t largest_of(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* Packs 32 values of 32 bits to bytes, in order. */
ALWAYS_INLINE __m256i pack_bytes(const __m256i v[4])
{
    __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(words, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

static void quantize_avx2(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), ones = _mm256_set1_epi8(1);
    for (size_t b = 0; b < n / Q8_BLOCK; b++, x += Q8_BLOCK, q += Q8_BLOCK, sums += 2) {
        __m256 values[4];
        __m256i largest = _mm256_setzero_si256(), integers[4];
        for (size_t k = 0; k < 4; k++) {
            values[k] = _mm256_loadu_ps(x + k * LANES);
            largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(values[k]), magnitude));
        }
        float inverse;
        scales[b] = block_scale(largest_of(largest), &inverse);
        /* If inverse is 0 the values may be infinite or NaN, and all q must be 0. */
        __m256i good = _mm256_set1_epi32(inverse > 0 ? -1 : 0);
        for (size_t k = 0; k < 4; k++) {
            __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(values[k], _mm256_set1_ps(inverse)));
            integers[k] = _mm256_and_si256(rounded, good);
        }
        __m256i bytes = pack_bytes(integers);
        _mm256_storeu_si256((void *)q, bytes);
        /* Sums of 16 values, one per 128-bit lane: first pairs, then fours, then across the lane. */
        __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, bytes), _mm256_set1_epi16(1));
        fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
        fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
        sums[0] = (int16_t)_mm256_extract_epi32(fours, 0);
        sums[1] = (int16_t)_mm256_extract_epi32(fours, 4);
    }
}

/* (a, b) becomes (a cos - b sin, b cos + a sin): the neighbours are swapped and multiplied by the sine, and one
 * instruction then subtracts in even lanes and adds in odd lanes. */
static void rope_avx2(float *x, size_t heads, size_t length, const float *cosine, const float *sine, size_t pairs)
{
    const __m256i twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
    for (size_t h = 0; h < heads; h++, x += length)
        for (size_t i = 0; i < pairs; i += LANES / 2) {
            size_t left = pairs - i < LANES / 2 ? pairs - i : LANES / 2;
            __m256 c = _mm256_permutevar8x32_ps(load_first(cosine + i, left), twice);
            __m256 s = _mm256_permutevar8x32_ps(load_first(sine + i, left), twice);
            __m256 value = load_first(x + 2 * i, 2 * left);
            __m256 other = _mm256_mul_ps(_mm256_permute_ps(value, 0xb1), s);
            store_first(x + 2 * i, 2 * left, _mm256_fmaddsub_ps(value, c, other));
        }
}

#define SQUARE_SUMS 4
#define READ_BYTES  32

ALWAYS_INLINE vector keep_above(vector g, vector limit, vector value)
{
    return _mm256_and_ps(value, _mm256_cmp_ps(g, limit, _CMP_GT_OQ));
}

#include "vector_loops.h"

VECTOR_KERNELS(avx2)
