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

/* Uses four sums, so that an addition need not wait for the one before it and rounding errors stay small. */
static float sum_of_squares(const float *x, size_t n)
{
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (size_t k = 0; k < 4; k++) {
            __m512 value = _mm512_loadu_ps(x + i + k * LANES);
            sum[k] = _mm512_fmadd_ps(value, value, sum[k]);
        }
    for (; i < n; i += LANES) {
        __m512 value = _mm512_maskz_loadu_ps(first_lanes(n - i), x + i);
        sum[0] = _mm512_fmadd_ps(value, value, sum[0]);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

static void rms_norm_avx512(const float *x, const float *weight, float epsilon, size_t n, float *out)
{
    __m512 scale = _mm512_set1_ps(1 / sqrtf(sum_of_squares(x, n) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 value = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), scale);
        _mm512_mask_storeu_ps(out + i, lanes, _mm512_mul_ps(value, _mm512_maskz_loadu_ps(lanes, weight + i)));
    }
}

static void add_avx512(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y + i), _mm512_maskz_loadu_ps(lanes, x + i));
        _mm512_mask_storeu_ps(y + i, lanes, sum);
    }
}

static void silu_avx512(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    (void)threshold;
    const __m512 one = _mm512_set1_ps(1);
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
        __m512 minus_g = _mm512_sub_ps(_mm512_setzero_ps(), g);
        __m512 value = _mm512_div_ps(g, _mm512_add_ps(one, exponent_avx512(minus_g)));
        if (up)
            value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(lanes, up + i));
        _mm512_mask_storeu_ps(h + i, lanes, value);
    }
}

static void relu_avx512(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
        __mmask16 fires = _mm512_cmp_ps_mask(g, _mm512_set1_ps(threshold), _CMP_GT_OQ) & lanes;
        __m512 value = _mm512_maskz_mov_ps(fires, g);
        if (up)
            value = _mm512_maskz_mul_ps(fires, g, _mm512_maskz_loadu_ps(fires, up + i));
        _mm512_mask_storeu_ps(h + i, lanes, value);
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

static void to_half_avx512(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 value = _mm512_maskz_loadu_ps(lanes, x + i);
        _mm256_mask_storeu_epi16(out + i, lanes, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }
}

/* Reads eight streams with prefetch, as products do (streams.h). */
static uint64_t read_avx512(const void *data, size_t n)
{
    const uint8_t *at = data;
    size_t apart = n / 512 * 64, i = 0;
    __m512i sum[8];
    for (size_t k = 0; k < 8; k++)
        sum[k] = _mm512_setzero_si512();
    for (; i < apart; i += 64)
        for (size_t k = 0; k < 8; k++) {
            _mm_prefetch((const char *)at + k * apart + i + AHEAD, _MM_HINT_T0);
            sum[k] = _mm512_add_epi64(sum[k], _mm512_loadu_si512(at + k * apart + i));
        }
    for (i = 8 * apart; i < n; i += 64)
        sum[0] = _mm512_add_epi64(sum[0], _mm512_loadu_si512(at + i));
    for (size_t k = 1; k < 8; k++)
        sum[0] = _mm512_add_epi64(sum[0], sum[k]);
    uint64_t words[8], total = 0;
    _mm512_storeu_si512(words, sum[0]);
    for (size_t k = 0; k < 8; k++)
        total += words[k];
    return total;
}

const kernels avx512_vectors = {
    .quantize = quantize_avx512,
    .rms_norm = rms_norm_avx512,
    .add = add_avx512,
    .activate = {[ACTIVATION_SILU] = silu_avx512, [ACTIVATION_RELU] = relu_avx512},
    .rope = rope_avx512,
    .to_half = to_half_avx512,
    .read = read_avx512,
};
