/* decode_avx2.h - decodes weights of every format to float32 in registers, exactly as the decode functions of number
 * do: for kernels that add up or transpose rows (neuron_avx2.c, transpose_avx2.c). The plan is that of
 * decode_avx512.h, but eight lanes cannot hold a table of sixteen values, so nibbles are converted like bytes. */
#ifndef KERNEL_DECODE_AVX2_H
#define KERNEL_DECODE_AVX2_H

#include "avx2.h"

#define WEIGHT_STEP    32  /* columns that are decoded in registers at a time */
#define WEIGHT_SPAN    256 /* columns whose scales are prepared together: a multiple of every block */
#define WEIGHT_VECTORS (WEIGHT_STEP / LANES)

/* ---- blocks of 32 ---- */

ALWAYS_INLINE int half_at(const uint8_t *base, size_t b, size_t n, size_t bytes)
{
    uint16_t half;
    memcpy(&half, base + (b < n ? b : n - 1) * bytes, sizeof(half));
    return half;
}

/* Converts the n (at most 8) float16 at base, base + bytes, ... to float32 and repeats the last one up to 8. (With an
 * array on the stack gcc assembles them byte by byte.) */
ALWAYS_INLINE void scales_of_blocks(const uint8_t *base, size_t n, size_t bytes, float *scales)
{
    __m128i halves = _mm_cvtsi32_si128(half_at(base, 0, n, bytes));
    halves = _mm_insert_epi16(halves, half_at(base, 1, n, bytes), 1);
    halves = _mm_insert_epi16(halves, half_at(base, 2, n, bytes), 2);
    halves = _mm_insert_epi16(halves, half_at(base, 3, n, bytes), 3);
    halves = _mm_insert_epi16(halves, half_at(base, 4, n, bytes), 4);
    halves = _mm_insert_epi16(halves, half_at(base, 5, n, bytes), 5);
    halves = _mm_insert_epi16(halves, half_at(base, 6, n, bytes), 6);
    halves = _mm_insert_epi16(halves, half_at(base, 7, n, bytes), 7);
    _mm256_storeu_ps(scales, _mm256_cvtph_ps(halves));
}

/* Converts the first 8 of 16 signed bytes to float32. */
ALWAYS_INLINE __m256 widen(__m128i bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

ALWAYS_INLINE void scales_q8_0(const uint8_t *base, size_t columns, float *scales)
{
    scales_of_blocks(base, columns / 32, sizeof(block_q8_0), scales);
}

ALWAYS_INLINE void decode_q8_0(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w)
{
    (void)n;
    const block_q8_0 *block = (const void *)(base + column / 32 * sizeof(block_q8_0));
    for (size_t v = 0; v < WEIGHT_VECTORS; v++)
        w[v] = _mm256_mul_ps(widen(_mm_loadl_epi64((const void *)(block->q + v * LANES))),
                             _mm256_set1_ps(scales[column / 32]));
}

/* Prepares the scales times 2^-28: see decode_q4_0(). */
ALWAYS_INLINE void scales_q4_0(const uint8_t *base, size_t columns, float *scales)
{
    if (columns == WEIGHT_SPAN)
        _mm256_storeu_ps(scales, _mm256_cvtph_ps(scales_of_8((const void *)base)));
    else
        scales_of_blocks(base, columns / 32, sizeof(block_q4_0), scales);
    _mm256_storeu_ps(scales, _mm256_mul_ps(_mm256_loadu_ps(scales), _mm256_set1_ps(0x1p-28f)));
}

/* Computes (nibble - 8) * scale in few instructions. (nibble + 8) modulo 16 is nibble - 8 as a signed number of 4 bits;
 * in the top four bits of a word it is 2^28 times that. Scaling by a power of two changes no digits, so this is
 * exact. */
ALWAYS_INLINE void decode_q4_0(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w)
{
    (void)n;
    const block_q4_0 *block = (const void *)(base + column / 32 * sizeof(block_q4_0));
    /* Shuffles that move the first and the second eight of sixteen bytes to the tops of words, with zeros (0x80)
     * below. */
    const __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i first = _mm256_or_si256(_mm256_slli_epi32(index, 24), _mm256_set1_epi32(0x808080));
    const __m256i second = _mm256_or_si256(first, _mm256_set1_epi32(8 << 24)), upper = _mm256_set1_epi8((char)0xf0);
    __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)block->nibbles));
    bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x88));
    __m256i low = _mm256_and_si256(_mm256_slli_epi16(bytes, 4), upper), high = _mm256_and_si256(bytes, upper);
    const __m256i words[WEIGHT_VECTORS] = {
        _mm256_shuffle_epi8(low, first),
        _mm256_shuffle_epi8(low, second),
        _mm256_shuffle_epi8(high, first),
        _mm256_shuffle_epi8(high, second),
    };
    for (size_t v = 0; v < WEIGHT_VECTORS; v++)
        w[v] = _mm256_mul_ps(_mm256_cvtepi32_ps(words[v]), _mm256_set1_ps(scales[column / 32]));
}

/* ---- Q4_K: eight scales, then eight offsets ---- */

ALWAYS_INLINE void store_times_bytes(float *at, uint64_t bytes, uint16_t half)
{
    __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)));
    _mm256_storeu_ps(at, _mm256_mul_ps(numbers, _mm256_set1_ps(_cvtsh_ss(half))));
}

ALWAYS_INLINE void decode_q4_k(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w)
{
    (void)n;
    const block_q4_k *block = (const void *)base;
    size_t sub = column / 32;
    __m128i shift = _mm_cvtsi32_si128(sub % 2 ? 4 : 0);
    __m256 step = _mm256_set1_ps(scales[sub]), offset = _mm256_set1_ps(scales[8 + sub]);
    for (size_t v = 0; v < WEIGHT_VECTORS; v += 2) {
        __m128i bytes = _mm_loadu_si128((const void *)(block->nibbles + sub / 2 * 32 + v * LANES));
        bytes = _mm_and_si128(_mm_srl_epi16(bytes, shift), _mm_set1_epi8(15));
        w[v] = _mm256_fmsub_ps(widen(bytes), step, offset);
        w[v + 1] = _mm256_fmsub_ps(widen(_mm_unpackhi_epi64(bytes, bytes)), step, offset);
    }
}

/* ---- Q6_K: sixteen scales ---- */

ALWAYS_INLINE void scales_q6_k(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    const block_q6_k *block = (const void *)base;
    __m128i numbers = _mm_loadu_si128((const void *)block->scales);
    __m256 d = _mm256_set1_ps(_cvtsh_ss(block->d));
    _mm256_storeu_ps(scales, _mm256_mul_ps(widen(numbers), d));
    _mm256_storeu_ps(scales + 8, _mm256_mul_ps(widen(_mm_unpackhi_epi64(numbers, numbers)), d));
}

/* Half a block is four quarters of 32 weights. The lower four bits of a quarter are the low or high nibbles of the
 * first or last 32 of the 64 bytes `low`; its upper two bits are two bits of each of the 32 bytes `high`. */
ALWAYS_INLINE void decode_q6_k(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w)
{
    (void)n;
    const block_q6_k *block = (const void *)base;
    size_t half = column / 128, quarter = column / 32 % 4;
    const uint8_t *low_at = block->low + half * 64 + quarter % 2 * 32, *high_at = block->high + half * 32;
    __m128i low_shift = _mm_cvtsi32_si128(quarter / 2 ? 4 : 0), high_shift = _mm_cvtsi32_si128((int)quarter * 2);
    for (size_t v = 0; v < WEIGHT_VECTORS; v += 2) {
        __m128i low = _mm_srl_epi16(_mm_loadu_si128((const void *)(low_at + v * LANES)), low_shift);
        __m128i high = _mm_srl_epi16(_mm_loadu_si128((const void *)(high_at + v * LANES)), high_shift);
        high = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
        __m128i q = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), high);
        q = _mm_sub_epi8(q, _mm_set1_epi8(32));
        __m256 scale = _mm256_set1_ps(scales[column / 16 + v / 2]);
        w[v] = _mm256_mul_ps(widen(q), scale);
        w[v + 1] = _mm256_mul_ps(widen(_mm_unpackhi_epi64(q, q)), scale);
    }
}

#include "decode.h"

#endif
