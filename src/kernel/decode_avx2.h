/* decode_avx2.h - decodes weights of every format to float32 in registers, exactly as the decode functions of number
 * do: for kernels that add up or transpose rows (neuron_avx2.c, transpose_avx2.c). The plan is that of
 * decode_avx512.h, but eight lanes cannot hold a table of sixteen values, so nibbles are converted like bytes. */
#ifndef KERNEL_DECODE_AVX2_H
#define KERNEL_DECODE_AVX2_H

#include "avx2.h"

#include "bytes_avx2.h"

#define WEIGHT_STEP    32  /* columns that are decoded in registers at a time */
#define WEIGHT_SPAN    256 /* columns whose scales are prepared together: a multiple of every block */
#define WEIGHT_VECTORS (WEIGHT_STEP / LANES)

/* ---- blocks of 32 ---- */

/* Converts the scales of n blocks, at most 8, and repeats the last one up to 8. */
ALWAYS_INLINE void scales_of_blocks(const uint8_t *base, size_t n, size_t bytes, float *scales)
{
    _mm256_storeu_ps(scales, halves_of_blocks(base, n, bytes));
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
        w[v] = _mm256_mul_ps(floats_of_bytes(_mm_loadl_epi64((const void *)(block->q + v * LANES))),
                             _mm256_set1_ps(scales[column / 32]));
}

/* Converts LANES bytes, and a scale. */
ALWAYS_INLINE vector floats_at(const int8_t *bytes)
{
    return floats_of_bytes(_mm_loadl_epi64((const void *)bytes));
}

ALWAYS_INLINE float scale_of(uint16_t half)
{
    return _cvtsh_ss(half);
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
        w[v] = _mm256_fmsub_ps(floats_of_bytes(bytes), step, offset);
        w[v + 1] = _mm256_fmsub_ps(floats_of_bytes(_mm_unpackhi_epi64(bytes, bytes)), step, offset);
    }
}

/* ---- Q6_K: sixteen scales ---- */

ALWAYS_INLINE void scales_q6_k(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    const block_q6_k *block = (const void *)base;
    __m128i numbers = _mm_loadu_si128((const void *)block->scales);
    __m256 d = _mm256_set1_ps(_cvtsh_ss(block->d));
    _mm256_storeu_ps(scales, _mm256_mul_ps(floats_of_bytes(numbers), d));
    _mm256_storeu_ps(scales + 8, _mm256_mul_ps(floats_of_bytes(_mm_unpackhi_epi64(numbers, numbers)), d));
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
        w[v] = _mm256_mul_ps(floats_of_bytes(q), scale);
        w[v + 1] = _mm256_mul_ps(floats_of_bytes(_mm_unpackhi_epi64(q, q)), scale);
    }
}

/* ---- formats that are unpacked to bytes: sixteen scales, then sixteen minima ---- */

ALWAYS_INLINE void decode_bytes(__m256i bytes, const float *scales, size_t part, byte_format format, __m256 *w)
{
    bytes = _mm256_sub_epi8(bytes, _mm256_set1_epi8((char)format.offset));
    __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (size_t v = 0; v < WEIGHT_VECTORS; v++) {
        size_t i = format.by_16 ? part / 4 * 8 + v / 2 * 4 + part % 4 : part; /* see span_scales */
        __m128i eight = v % 2 ? _mm_unpackhi_epi64(halves[v / 2], halves[v / 2]) : halves[v / 2];
        __m256 scale = _mm256_set1_ps(scales[i]), floats = floats_of_bytes(eight);
        w[v] = format.has_minima ? _mm256_fmsub_ps(floats, scale, _mm256_set1_ps(scales[16 + i]))
                                 : _mm256_mul_ps(floats, scale);
    }
}

#define DECODE_BYTES(level, id, name, kind, offset, by_16, has_minima, pair, find, found)                          \
    ALWAYS_INLINE void scales_##name(const uint8_t *base, size_t columns, float *scales)                           \
    {                                                                                                              \
        span_scales s = span_scales_##name(base, columns / 32);                                                    \
        for (size_t i = 0; i < 1u + (by_16); i++) {                                                                \
            _mm256_storeu_ps(scales + i * LANES, s.scale[i]);                                                      \
            if (has_minima)                                                                                        \
                _mm256_storeu_ps(scales + 16 + i * LANES, s.minimum[i]);                                           \
        }                                                                                                          \
    }                                                                                                              \
    ALWAYS_INLINE void decode_##name(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w) \
    {                                                                                                              \
        (void)n;                                                                                                   \
        decode_bytes(bytes_##name(base, column / 32), scales, column / 32,                                         \
                     BYTE_FORMAT(id, name, kind, offset, by_16, has_minima, pair, find, found), w);                \
    }
BYTE_FORMATS(DECODE_BYTES, avx2)
COPY_BYTE_FORMATS(DECODE_BYTES, avx2)

/* TQ2_0 again, by a look-up in place of bytes that are converted: of the three bits that it minds the lower two count. */
ALWAYS_INLINE void decode_ternary(const uint8_t *base, const float *scales, size_t column, size_t n, __m256 *w)
{
    (void)n;
    const uint8_t *q = ((const block_tq2_0 *)(const void *)base)->q + column / 128 * 32;
    const __m256 numbers = _mm256_set_ps(2, 1, 0, -1, 2, 1, 0, -1);
    __m256 values = _mm256_mul_ps(numbers, _mm256_set1_ps(scales[0]));
    __m128i shift = _mm_cvtsi32_si128((int)(column / 32 % 4 * 2));
    for (size_t v = 0; v < WEIGHT_VECTORS; v++) {
        __m256i bits = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(q + v * LANES)));
        w[v] = _mm256_permutevar8x32_ps(values, _mm256_srl_epi32(bits, shift));
    }
}

/* The formats that this level decodes beside those of decode.h, for macros as there. */
#define BYTE_DECODERS(X, level)                \
    X(level, Q4_1, q4_1, scales_q4_1)          \
    X(level, Q5_0, q5_0, scales_q5_0)          \
    X(level, Q5_1, q5_1, scales_q5_1)          \
    X(level, Q2_K, q2_k, scales_q2_k)          \
    X(level, Q3_K, q3_k, scales_q3_k)          \
    X(level, Q5_K, q5_k, scales_q5_k)          \
    X(level, IQ4_NL, iq4_nl, scales_iq4_nl)    \
    X(level, IQ4_XS, iq4_xs, scales_iq4_xs)    \
    X(level, MXFP4, mxfp4, scales_mxfp4)       \
    X(level, TQ1_0, tq1_0, scales_tq1_0)       \
    X(level, TQ2_0, ternary, scales_tq2_0)     \
    X(level, Q1_0, q1_0, scales_q1_0)          \
    X(level, Q2_0, q2_0, scales_q2_0)          \
    X(level, SIGNS1, signs1, scales_signs1)    \
    X(level, LEVELS2, levels2, scales_levels2) \
    X(level, IQ1_S, iq1_s, scales_iq1_s)       \
    X(level, IQ1_M, iq1_m, scales_iq1_m)       \
    X(level, IQ2_XXS, iq2_xxs, scales_iq2_xxs) \
    X(level, IQ2_XS, iq2_xs, scales_iq2_xs)    \
    X(level, IQ2_S, iq2_s, scales_iq2_s)       \
    X(level, IQ3_XXS, iq3_xxs, scales_iq3_xxs) \
    X(level, IQ3_S, iq3_s, scales_iq3_s)       \
    X(level, NVFP4, nvfp4, scales_nvfp4)

#include "decode.h"

#endif
