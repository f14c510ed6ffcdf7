/* vector_avx512.c - kernels on vectors with 16 lanes. The last values of a vector are read and written under a mask. */
#include "avx512.h"

#include "exponent_avx512.h"
#include "quantize.h"

/* Each half of a block of 32 values needs its own sum of q, so the halves are kept apart throughout. */
static void quantize_avx512(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    for (size_t b = 0; b < n / Q8_BLOCK; b++, x += Q8_BLOCK, q += Q8_BLOCK, sums += 2) {
        __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + LANES);
        __m512i largest = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(first), magnitude),
                                           _mm512_and_si512(_mm512_castps_si512(second), magnitude));
        float inverse;
        scales[b] = block_scale(_mm512_reduce_max_epu32(largest), &inverse);
        /* If inverse is 0 the values may be infinite or NaN, and all q must be 0. */
        __mmask16 good = inverse > 0 ? 0xffff : 0;
        __m512i low = _mm512_maskz_cvtps_epi32(good, _mm512_mul_ps(first, _mm512_set1_ps(inverse)));
        __m512i high = _mm512_maskz_cvtps_epi32(good, _mm512_mul_ps(second, _mm512_set1_ps(inverse)));
        _mm_storeu_si128((void *)q, _mm512_cvtsepi32_epi8(low));
        _mm_storeu_si128((void *)(q + LANES), _mm512_cvtsepi32_epi8(high));
        sums[0] = (int16_t)_mm512_reduce_add_epi32(low);
        sums[1] = (int16_t)_mm512_reduce_add_epi32(high);
    }
}

/* (a, b) becomes (a cos - b sin, b cos + a sin): the neighbours are swapped and multiplied by the sine, and one
 * instruction then subtracts in even lanes and adds in odd lanes. */
static void rope_avx512(float *x, size_t heads, size_t length, const float *cosine, const float *sine, size_t pairs)
{
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    for (size_t h = 0; h < heads; h++, x += length)
        for (size_t i = 0; i < pairs; i += LANES / 2) {
            size_t left = pairs - i < LANES / 2 ? pairs - i : LANES / 2;
            __mmask16 lanes = first_lanes(2 * left);
            __m512 c = _mm512_maskz_loadu_ps(first_lanes(left), cosine + i);
            __m512 s = _mm512_maskz_loadu_ps(first_lanes(left), sine + i);
            __m512 value = _mm512_maskz_loadu_ps(lanes, x + 2 * i);
            __m512 other = _mm512_mul_ps(_mm512_permute_ps(value, 0xb1), _mm512_permutexvar_ps(twice, s));
            value = _mm512_fmaddsub_ps(value, _mm512_permutexvar_ps(twice, c), other);
            _mm512_mask_storeu_ps(x + 2 * i, lanes, value);
        }
}

#define SQUARE_SUMS 4
#define READ_BYTES  64

ALWAYS_INLINE vector keep_above(vector g, vector limit, vector value)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(g, limit, _CMP_GT_OQ), value);
}

#include "vector_loops.h"

VECTOR_KERNELS(avx512)
