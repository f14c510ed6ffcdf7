/* decode_avx512.h - decodes weights of every format to float32 in registers, exactly as the decode functions of number
 * do: for kernels that add up or transpose rows (neuron_avx512.c, transpose_avx512.c).
 *
 * Port 5 widens bytes and does table look-ups, port 0 converts and shifts, both multiply; so the number of instructions
 * determines the speed. Nibbles need no conversion: their sixteen values are a table in a register that is scaled once
 * per block. So 16 weights take 3.5 instructions in Q4_0 and 4 in Q8_0. */
#ifndef KERNEL_DECODE_AVX512_H
#define KERNEL_DECODE_AVX512_H

#include "avx512.h"

#define WEIGHT_STEP    128         /* columns that are decoded in registers at a time */
#define WEIGHT_SPAN    WEIGHT_STEP /* columns whose scales are prepared together, if no block is longer */
#define WEIGHT_VECTORS (WEIGHT_STEP / LANES)

/* ---- Q8_0 ---- */

ALWAYS_INLINE void scales_q8_0(const uint8_t *base, size_t columns, float *scales)
{
    if (columns < WEIGHT_STEP) {
        for (size_t b = 0; b < columns / 32; b++)
            scales[b] = _cvtsh_ss(((const block_q8_0 *)(const void *)base)[b].d);
        return;
    }
    /* Two blocks have 68 bytes; their scales are words 0 and 17. */
    const __m512i words = _mm512_set1_epi32(17 << 16);
    __m512i picked = _mm512_permutexvar_epi16(words, _mm512_loadu_si512(base));
    picked = _mm512_mask_permutexvar_epi16(picked, 0x0c, words, _mm512_loadu_si512(base + 68));
    _mm_storeu_ps(scales, _mm_cvtph_ps(_mm512_castsi512_si128(picked)));
}

ALWAYS_INLINE void decode_q8_0(const uint8_t *base, const float *scales, size_t column, size_t n, __m512 *w)
{
    const block_q8_0 *blocks = (const void *)base;
    for (size_t v = 0; v * LANES < n; v++) {
        size_t b = column / 32 + v / 2;
        __m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(blocks[b].q + v % 2 * LANES)));
        w[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(scales[b]));
    }
}

/* Converts LANES bytes, and a scale. */
ALWAYS_INLINE vector floats_at(const int8_t *bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)bytes)));
}

ALWAYS_INLINE float scale_of(uint16_t half)
{
    return _cvtsh_ss(half);
}

/* ---- Q4_0 ---- */

ALWAYS_INLINE void scales_q4_0(const uint8_t *base, size_t columns, float *scales)
{
    if (columns < WEIGHT_STEP) {
        for (size_t b = 0; b < columns / 32; b++)
            scales[b] = _cvtsh_ss(((const block_q4_0 *)(const void *)base)[b].d);
        return;
    }
    /* The scales of four blocks are words 0, 9, 18 and 27. */
    const __m512i words = _mm512_set1_epi64(0x001b001200090000);
    __m512i picked = _mm512_permutexvar_epi16(words, _mm512_loadu_si512(base));
    _mm_storeu_ps(scales, _mm_cvtph_ps(_mm512_castsi512_si128(picked)));
}

/* -8 .. 7 */
ALWAYS_INLINE __m512 nibble_values(void)
{
    return _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
}

ALWAYS_INLINE void decode_q4_0(const uint8_t *base, const float *scales, size_t column, size_t n, __m512 *w)
{
    const block_q4_0 *blocks = (const void *)base;
    for (size_t v = 0; v * LANES < n; v += 2) {
        size_t b = column / 32 + v / 2;
        __m512 values = _mm512_mul_ps(nibble_values(), _mm512_set1_ps(scales[b]));
        __m512i nibbles = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)blocks[b].nibbles));
        w[v] = _mm512_permutexvar_ps(nibbles, values); /* reads the lowest four bits */
        w[v + 1] = _mm512_permutexvar_ps(_mm512_srli_epi32(nibbles, 4), values);
    }
}

/* ---- Q4_K: eight scales, then eight offsets ---- */

ALWAYS_INLINE void store_times_bytes(float *at, uint64_t bytes, uint16_t half)
{
    __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)));
    _mm256_storeu_ps(at, _mm256_mul_ps(numbers, _mm256_set1_ps(_cvtsh_ss(half))));
}

ALWAYS_INLINE void decode_q4_k(const uint8_t *base, const float *scales, size_t column, size_t n, __m512 *w)
{
    const block_q4_k *block = (const void *)base;
    const __m512 numbers = _mm512_add_ps(nibble_values(), _mm512_set1_ps(8));
    for (size_t v = 0; v * LANES < n; v += 4) {
        size_t sub = column / 32 + v / 2;
        __m512 low = _mm512_fmsub_ps(numbers, _mm512_set1_ps(scales[sub]), _mm512_set1_ps(scales[8 + sub]));
        __m512 high = _mm512_fmsub_ps(numbers, _mm512_set1_ps(scales[sub + 1]), _mm512_set1_ps(scales[9 + sub]));
        for (size_t k = 0; k < 2; k++) {
            const uint8_t *at = block->nibbles + sub / 2 * 32 + k * LANES;
            __m512i nibbles = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at));
            w[v + k] = _mm512_permutexvar_ps(nibbles, low);
            w[v + 2 + k] = _mm512_permutexvar_ps(_mm512_srli_epi32(nibbles, 4), high);
        }
    }
}

/* ---- Q6_K: sixteen scales, times 2^-24 (exact: none is that small) ---- */

ALWAYS_INLINE void scales_q6_k(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    const block_q6_k *block = (const void *)base;
    __m512i numbers = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)block->scales));
    __m512 d = _mm512_set1_ps(_cvtsh_ss(block->d) * 0x1p-24f);
    _mm512_storeu_ps(scales, _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), d));
}

/* Converts sixteen of 64 signed bytes, from byte 16 * part on, to float32 times 2^24: each byte becomes the highest
 * byte of a word. */
ALWAYS_INLINE __m512 widen_part(__m512i bytes, size_t part)
{
    const __mmask64 highest = 0x8888888888888888;
#ifdef WITH_VBMI
    const __m512i index = _mm512_cvtepu8_epi32(_mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    __m512i from = _mm512_slli_epi32(_mm512_add_epi32(index, _mm512_set1_epi32((int)part * LANES)), 24);
    return _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(highest, from, bytes));
#else
    /* The four bytes for lanes 4 k to 4 k + 3 are copied to all words of that 128-bit lane; each word then picks
     * one. */
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i byte = _mm512_slli_epi32(_mm512_set_epi32(3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0), 24);
    __m512i fours = _mm512_permutexvar_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32((int)part * 4)), bytes);
    return _mm512_cvtepi32_ps(_mm512_maskz_shuffle_epi8(highest, fours, byte));
#endif
}

ALWAYS_INLINE void decode_q6_k(const uint8_t *base, const float *scales, size_t column, size_t n, __m512 *w)
{
    (void)n;
    const block_q6_k *block = (const void *)base;
    const __m512i low_mask = _mm512_set1_epi8(0x0f), high_mask = _mm512_set1_epi8(0x30);
    /* The upper two bits of the weights lie at bits 0, 2, 4 and 6 of a byte and are moved to bit 4. */
    const __m512i up = _mm512_set_epi64(2, 2, 2, 2, 4, 4, 4, 4), down = _mm512_set_epi64(2, 2, 2, 2, 0, 0, 0, 0);
    size_t half = column / WEIGHT_STEP;
    __m512i low = _mm512_loadu_si512(block->low + half * 64);
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(block->high + half * 32)));
    __m512i first_high = _mm512_and_si512(_mm512_sllv_epi64(high, up), high_mask);
    __m512i second_high = _mm512_and_si512(_mm512_srlv_epi64(high, down), high_mask);
    __m512i q[2];
    q[0] = _mm512_or_si512(_mm512_and_si512(low, low_mask), first_high);
    q[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), low_mask), second_high);
    for (size_t v = 0; v < WEIGHT_VECTORS; v++) {
        if (v % 4 == 0)
            q[v / 4] = _mm512_sub_epi8(q[v / 4], _mm512_set1_epi8(32));
        w[v] = _mm512_mul_ps(widen_part(q[v / 4], v % 4), _mm512_set1_ps(scales[half * WEIGHT_VECTORS + v]));
    }
}

/* ---- TQ2_0: bits need no conversion, as nibbles do not. Of the four that a look-up minds the lower two count ---- */

ALWAYS_INLINE void scales_tq2_0(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    scales[0] = _cvtsh_ss(((const block_tq2_0 *)(const void *)base)->d);
}

ALWAYS_INLINE void decode_tq2_0(const uint8_t *base, const float *scales, size_t column, size_t n, __m512 *w)
{
    (void)n;
    const uint8_t *q = ((const block_tq2_0 *)(const void *)base)->q + column / WEIGHT_STEP * 32;
    const __m512 numbers = _mm512_set_ps(2, 1, 0, -1, 2, 1, 0, -1, 2, 1, 0, -1, 2, 1, 0, -1);
    __m512 values = _mm512_mul_ps(numbers, _mm512_set1_ps(scales[0]));
    for (size_t k = 0; k < 2; k++) {
        __m512i bits = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(q + k * LANES)));
        w[k] = _mm512_permutexvar_ps(bits, values);
        w[2 + k] = _mm512_permutexvar_ps(_mm512_srli_epi32(bits, 2), values);
        w[4 + k] = _mm512_permutexvar_ps(_mm512_srli_epi32(bits, 4), values);
        w[6 + k] = _mm512_permutexvar_ps(_mm512_srli_epi32(bits, 6), values);
    }
}

#include "decode.h"

#endif
