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

/* Uses four sums, so that an addition need not wait for the one before it and rounding errors stay small. */
static float sum_of_squares(const float *x, size_t n)
{
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (size_t k = 0; k < 4; k++) {
            __m256 value = _mm256_loadu_ps(x + i + k * LANES);
            sum[k] = _mm256_fmadd_ps(value, value, sum[k]);
        }
    for (; i < n; i += LANES) {
        __m256 value = load_first(x + i, n - i);
        sum[0] = _mm256_fmadd_ps(value, value, sum[0]);
    }
    return sum_of(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

static void rms_norm_avx2(const float *x, const float *weight, float epsilon, size_t n, float *out)
{
    __m256 scale = _mm256_set1_ps(1 / sqrtf(sum_of_squares(x, n) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        __m256 value = _mm256_mul_ps(load_first(x + i, n - i), scale);
        store_first(out + i, n - i, _mm256_mul_ps(value, load_first(weight + i, n - i)));
    }
}

static void add_avx2(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += LANES)
        store_first(y + i, n - i, _mm256_add_ps(load_first(y + i, n - i), load_first(x + i, n - i)));
}

static void silu_avx2(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    (void)threshold;
    const __m256 one = _mm256_set1_ps(1);
    for (size_t i = 0; i < n; i += LANES) {
        __m256 g = load_first(gate + i, n - i);
        __m256 value = _mm256_div_ps(g, _mm256_add_ps(one, exponent_avx2(_mm256_sub_ps(_mm256_setzero_ps(), g))));
        if (up)
            value = _mm256_mul_ps(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

static void relu_avx2(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 g = load_first(gate + i, n - i), value = g;
        __m256 fires = _mm256_cmp_ps(g, _mm256_set1_ps(threshold), _CMP_GT_OQ);
        if (up)
            value = _mm256_mul_ps(g, load_first(up + i, n - i));
        store_first(h + i, n - i, _mm256_and_ps(value, fires));
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

static void to_half_avx2(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        uint16_t halves[LANES];
        _mm_storeu_si128((void *)halves, _mm256_cvtps_ph(load_first(x + i, left), _MM_FROUND_TO_NEAREST_INT));
        memcpy(out + i, halves, left * sizeof(*out));
    }
}

/* Reads eight streams with prefetch, as products do (streams.h). */
static uint64_t read_avx2(const void *data, size_t n)
{
    const uint8_t *at = data;
    size_t apart = n / 512 * 64, i = 0;
    __m256i sum[8];
    for (size_t k = 0; k < 8; k++)
        sum[k] = _mm256_setzero_si256();
    for (; i < apart; i += 64)
        for (size_t k = 0; k < 8; k++) {
            const uint8_t *from = at + k * apart + i;
            _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
            sum[k] = _mm256_add_epi64(sum[k], _mm256_loadu_si256((const void *)from));
            sum[k] = _mm256_add_epi64(sum[k], _mm256_loadu_si256((const void *)(from + 32)));
        }
    for (i = 8 * apart; i < n; i += 32)
        sum[0] = _mm256_add_epi64(sum[0], _mm256_loadu_si256((const void *)(at + i)));
    for (size_t k = 1; k < 8; k++)
        sum[0] = _mm256_add_epi64(sum[0], sum[k]);
    uint64_t words[4];
    _mm256_storeu_si256((void *)words, sum[0]);
    return words[0] + words[1] + words[2] + words[3];
}

const kernels avx2_vectors = {
    .quantize = quantize_avx2,
    .rms_norm = rms_norm_avx2,
    .add = add_avx2,
    .activate = {[ACTIVATION_SILU] = silu_avx2, [ACTIVATION_RELU] = relu_avx2},
    .rope = rope_avx2,
    .to_half = to_half_avx2,
    .read = read_avx2,
};
