/* block_avx2.c - block formats times one token of 8 bits.
 *
 * The same plan as block_avx512.c: four rows share what depends on the token alone. Without VNNI bytes are
 * multiplied by maddubs, which takes one unsigned and one signed factor and adds two products into 16 bits WITH
 * saturation; so every format must show that two products fit:
 *   Q4_0, Q4_K   2 * 15 * 127 =  3810
 *   Q6_K         2 * 63 * 127 = 16002
 *   Q8_0         2 * 128 * 127 = 32512, of |w| and q with the sign of w: |-128| is 128 as an unsigned byte, and a
 *                q of kernel_input is never -128, so its sign can always be turned. */
#include "avx2.h"

#define GROUP 4   /* rows in flight */

/* The products of four rows with the only token of x. ahead: the rows that come next, fetched meanwhile. */
typedef __m128 dot_function(const uint8_t *const row[GROUP], const uint8_t *const ahead[GROUP], const kernel_input *x);

/* `bytes` bytes from `at` will be read soon. */
ALWAYS_INLINE void prefetch(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)at + i, _MM_HINT_T1);
}

ALWAYS_INLINE void clear(__m256 sum[GROUP])
{
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = _mm256_setzero_ps();
}

ALWAYS_INLINE __m256i load_256(const void *at) { return _mm256_loadu_si256(at); }

/* Pairs of 16 bits added up to 32, as float32. */
ALWAYS_INLINE __m256 widen(__m256i pairs) { return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }

ALWAYS_INLINE __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }

/* ---- Q8_0 ---- */

ALWAYS_INLINE __m128 dot_q8_0(const uint8_t *const row[GROUP], const uint8_t *const ahead[GROUP], const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 32; b++) {
        __m256i q = load_256(x->q + b * 32);
        float dx = x->scales[b];
        for (size_t r = 0; r < GROUP; r++) {
            const block_q8_0 *block = (const void *)(row[r] + b * sizeof(block_q8_0));
            prefetch(ahead[r] + b * sizeof(block_q8_0), 1);
            __m256i weights = load_256(block->q);
            __m256i dot = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(q, weights));
            sum[r] = _mm256_fmadd_ps(widen(dot), _mm256_set1_ps(_cvtsh_ss(block->d) * dx), sum[r]);
        }
    }
    return sum_of_4(sum);
}

/* ---- Q4_0: low nibbles (weights 0..15) in the lower, high ones in the upper half of a register ---- */

ALWAYS_INLINE __m128 dot_q4_0(const uint8_t *const row[GROUP], const uint8_t *const ahead[GROUP], const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 32; b++) {
        __m256i q = load_256(x->q + b * 32), offset = _mm256_maddubs_epi16(_mm256_set1_epi8(8), q);
        float dx = x->scales[b];
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_0 *block = (const void *)(row[r] + b * sizeof(block_q4_0));
            prefetch(ahead[r] + b * sizeof(block_q4_0), 1);
            __m128i bytes = _mm_loadu_si128((const void *)block->nibbles);
            __m256i weights = low_nibbles(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes));
            __m256i dot = _mm256_sub_epi16(_mm256_maddubs_epi16(weights, q), offset);
            sum[r] = _mm256_fmadd_ps(widen(dot), _mm256_set1_ps(_cvtsh_ss(block->d) * dx), sum[r]);
        }
    }
    return sum_of_4(sum);
}

/* ---- Q4_K ---- */

/* The eight 6-bit numbers in the bytes of `packed`, times `unit`. */
ALWAYS_INLINE __m256 scale_bytes(uint64_t packed, float unit)
{
    __m256i numbers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)packed));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(unit));
}

/* scale: of the token's eight blocks of 32. offset: that times the sum of each. */
ALWAYS_INLINE __m256 add_q4_k(__m256 sum, const block_q4_k *block, const int8_t *q, __m256 scale, __m256 offset)
{
    uint64_t scales, minima;
    sub_scales(block->scales, &scales, &minima);
    __m256 d = _mm256_mul_ps(scale_bytes(scales, _cvtsh_ss(block->d)), scale);
    sum = _mm256_fnmadd_ps(scale_bytes(minima, _cvtsh_ss(block->dmin)), offset, sum);
    for (int g = 0; g < 4; g++) {
        __m256i nibbles = load_256(block->nibbles + g * 32);
        __m256i low = _mm256_maddubs_epi16(low_nibbles(nibbles), load_256(q + g * 64));
        __m256i high = _mm256_maddubs_epi16(low_nibbles(_mm256_srli_epi16(nibbles, 4)), load_256(q + g * 64 + 32));
        sum = _mm256_fmadd_ps(widen(low), _mm256_permutevar8x32_ps(d, _mm256_set1_epi32(2 * g)), sum);
        sum = _mm256_fmadd_ps(widen(high), _mm256_permutevar8x32_ps(d, _mm256_set1_epi32(2 * g + 1)), sum);
    }
    return sum;
}

ALWAYS_INLINE __m128 dot_q4_k(const uint8_t *const row[GROUP], const uint8_t *const ahead[GROUP], const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 256; b++) {
        __m256 scale = _mm256_loadu_ps(x->scales + b * 8);
        __m256 offset = _mm256_mul_ps(scale, widen(load_256(x->sums + b * 16)));
        for (size_t r = 0; r < GROUP; r++) {
            prefetch(ahead[r] + b * sizeof(block_q4_k), sizeof(block_q4_k));
            const block_q4_k *block = (const void *)(row[r] + b * sizeof(block_q4_k));
            sum[r] = add_q4_k(sum[r], block, x->q + b * 256, scale, offset);
        }
    }
    return sum_of_4(sum);
}

/* ---- Q6_K ---- */

/* 32 weights times q, minus 32 times q; d: the block's scales, of which numbers s and s + 1 belong to these. */
ALWAYS_INLINE __m256 add_q6_k_32(__m256 sum, __m256i low, __m256i high, const int8_t *q, __m256 d, int s)
{
    const __m256i lane_sub = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
    __m256i weights = _mm256_or_si256(low_nibbles(low), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    __m256i values = load_256(q), offset = _mm256_maddubs_epi16(_mm256_set1_epi8(32), values);
    __m256i dot = _mm256_sub_epi16(_mm256_maddubs_epi16(weights, values), offset);
    __m256i lanes = _mm256_add_epi32(lane_sub, _mm256_set1_epi32(s));
    return _mm256_fmadd_ps(widen(dot), _mm256_permutevar8x32_ps(d, lanes), sum);
}

/* Of each half of a block: scales (8 numbers) times d times the token's scales, each of which serves two. */
ALWAYS_INLINE __m256 scales_q6_k(const block_q6_k *block, int half, __m256 dx)
{
    __m128i bytes = _mm_loadl_epi64((const void *)(block->scales + half * 8));
    __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    return _mm256_mul_ps(_mm256_mul_ps(numbers, _mm256_set1_ps(_cvtsh_ss(block->d))), dx);
}

ALWAYS_INLINE __m256 add_q6_k(__m256 sum, const block_q6_k *block, const int8_t *q, const float *scales)
{
    for (int half = 0; half < 2; half++, q += 128) {
        const __m256i twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
        __m256 dx = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(scales + half * 4)), twice);
        __m256 d = scales_q6_k(block, half, dx);
        __m256i first = load_256(block->low + half * 64), second = load_256(block->low + half * 64 + 32);
        __m256i high = load_256(block->high + half * 32);
        /* The upper bits of 32 weights lie 0, 2, 4 and 6 bits up in a byte and belong at bit 4. */
        sum = add_q6_k_32(sum, first, _mm256_slli_epi16(high, 4), q, d, 0);
        sum = add_q6_k_32(sum, second, _mm256_slli_epi16(high, 2), q + 32, d, 2);
        sum = add_q6_k_32(sum, _mm256_srli_epi16(first, 4), high, q + 64, d, 4);
        sum = add_q6_k_32(sum, _mm256_srli_epi16(second, 4), _mm256_srli_epi16(high, 2), q + 96, d, 6);
    }
    return sum;
}

ALWAYS_INLINE __m128 dot_q6_k(const uint8_t *const row[GROUP], const uint8_t *const ahead[GROUP], const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 256; b++)
        for (size_t r = 0; r < GROUP; r++) {
            prefetch(ahead[r] + b * sizeof(block_q6_k), sizeof(block_q6_k));
            const block_q6_k *block = (const void *)(row[r] + b * sizeof(block_q6_k));
            sum[r] = add_q6_k(sum[r], block, x->q + b * 256, x->scales + b * 8);
        }
    return sum_of_4(sum);
}

/* ---- the loop over rows, and the table ---- */

ALWAYS_INLINE void product(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                           float *y, size_t y_stride, dot_function *dot)
{
    if (!x->q) {
        avx2_product_decoded(w, list, begin, end, x, y, y_stride);
        return;
    }
    if (x->count != 1) {
        avx2_product_tiles(w, list, begin, end, x, y, y_stride);
        return;
    }
    for (size_t i = begin; i < end; i += GROUP) {
        const uint8_t *row[GROUP], *ahead[GROUP];
        for (size_t r = 0; r < GROUP; r++) { /* a group that is not full repeats the last row */
            row[r] = listed_row(w, list, i + r < end ? i + r : end - 1);
            ahead[r] = listed_row(w, list, i + GROUP + r < end ? i + GROUP + r : end - 1);
        }
        store_first(y + i, end - i < GROUP ? end - i : GROUP, _mm256_castps128_ps256(dot(row, ahead, x)));
    }
}

#define PRODUCT(name)                                                                                                  \
    static void product_##name##_avx2(const matrix *w, const uint32_t *list, size_t begin, size_t end,                 \
                                      const kernel_input *x, float *y, size_t y_stride)                                \
    {                                                                                                                  \
        product(w, list, begin, end, x, y, y_stride, dot_##name);                                                      \
    }
PRODUCT(q8_0)
PRODUCT(q4_0)
PRODUCT(q4_k)
PRODUCT(q6_k)

void avx2_add_blocks(kernels *k)
{
    k->product[FORMAT_Q8_0] = product_q8_0_avx2;
    k->product[FORMAT_Q4_0] = product_q4_0_avx2;
    k->product[FORMAT_Q4_K] = product_q4_k_avx2;
    k->product[FORMAT_Q6_K] = product_q6_k_avx2;
}
