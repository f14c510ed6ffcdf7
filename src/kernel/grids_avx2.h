/* grids_avx2.h - the IQ formats of 1 to 3 bits, unpacked to signed bytes: more rows of bytes_avx2.h, which includes this.
 *
 * A part of 32 weights is four codewords of 8 values, or eight of 4, which are looked up one by one; that is most of the
 * work. What is prepared for a whole block (the signs of the formats that store seven of eight) is written as if for one
 * part: where the parts are unrolled the compiler computes it once. */
#ifndef KERNEL_GRIDS_AVX2_H
#define KERNEL_GRIDS_AVX2_H

#include "../number/grid_table.h"

/* ---- codewords ---- */

/* Joins four codewords of 8 values. */
ALWAYS_INLINE __m256i join_eights(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return _mm256_set_epi64x((int64_t)d, (int64_t)c, (int64_t)b, (int64_t)a);
}

/* Joins eight codewords of 4 values. */
ALWAYS_INLINE __m256i join_fours(const uint32_t c[8])
{
    return _mm256_setr_epi32((int32_t)c[0], (int32_t)c[1], (int32_t)c[2], (int32_t)c[3], (int32_t)c[4], (int32_t)c[5],
                             (int32_t)c[6], (int32_t)c[7]);
}

/* ---- signs ---- */

/* Adds to seven bits of each byte the eighth, with which an even number of them is set (grid_signs). */
ALWAYS_INLINE __m256i with_even_signs(__m256i sevens)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(sevens, nibble));
    __m256i high = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(sevens, 4), nibble));
    return _mm256_or_si256(sevens, _mm256_xor_si256(low, high));
}

/* Moves four times seven bits of each word to its four bytes and adds the eighth ones. */
ALWAYS_INLINE __m256i signs_of_words(__m256i words)
{
    __m256i bytes = _mm256_and_si256(words, _mm256_set1_epi32(0x7f));
    bytes = _mm256_or_si256(bytes, _mm256_and_si256(_mm256_slli_epi32(words, 1), _mm256_set1_epi32(0x7f00)));
    bytes = _mm256_or_si256(bytes, _mm256_and_si256(_mm256_slli_epi32(words, 2), _mm256_set1_epi32(0x7f0000)));
    bytes = _mm256_or_si256(bytes, _mm256_and_si256(_mm256_slli_epi32(words, 3), _mm256_set1_epi32(0x7f000000)));
    return with_even_signs(bytes);
}

/* Makes value i negative where bit i of the 32 bits in each half of `bits` is set. */
ALWAYS_INLINE __m256i with_signs(__m256i values, __m256i bits)
{
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i negative = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
    return _mm256_sub_epi8(_mm256_xor_si256(values, negative), negative);
}

/* Spreads word `part` of eight for with_signs(): byte k to the eight bytes of 64-bit lane k. */
ALWAYS_INLINE __m256i spread_word(__m256i words, size_t part)
{
    const __m256i byte_of = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    words = _mm256_permutevar8x32_epi32(words, _mm256_set1_epi32((int32_t)part));
    return _mm256_shuffle_epi8(words, byte_of);
}

/* The same for four bytes in memory. */
ALWAYS_INLINE __m256i spread_signs(const uint8_t signs[4])
{
    int32_t word;
    memcpy(&word, signs, sizeof(word));
    return spread_word(_mm256_set1_epi32(word), 0);
}

/* ---- scales ---- */

/* Returns (2 n + 1) * d of eight numbers n in words; d has a factor, a power of two. */
ALWAYS_INLINE __m256 odd_multiples(__m256i numbers, float d)
{
    numbers = _mm256_or_si256(_mm256_slli_epi32(numbers, 1), _mm256_set1_epi32(1));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(d));
}

/* The same for sixteen numbers in bytes, in the order of span_scales. */
ALWAYS_INLINE span_scales odd_multiples_of_16(__m128i numbers, float d)
{
    numbers = in_order_of_halves(numbers);
    return (span_scales){.scale = {odd_multiples(_mm256_cvtepu8_epi32(numbers), d),
                                   odd_multiples(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(numbers, numbers)), d)}};
}

/* Returns the nibbles of eight bytes, the low one of each first. */
ALWAYS_INLINE __m128i nibbles_in_turn(const uint8_t bytes[8])
{
    __m128i both = _mm_loadl_epi64((const void *)bytes);
    return _mm_and_si128(_mm_unpacklo_epi8(both, _mm_srli_epi16(both, 4)), _mm_set1_epi8(15));
}

/* ---- IQ2 ---- */

/* Returns the second words of eight groups. */
ALWAYS_INLINE __m256i second_words(const block_iq2_xxs *block)
{
    const uint8_t *words = (const uint8_t *)block + sizeof(block->d);
    __m256 first = _mm256_castsi256_ps(_mm256_loadu_si256((const void *)words));
    __m256 last = _mm256_castsi256_ps(_mm256_loadu_si256((const void *)(words + 32)));
    __m256 odd = _mm256_shuffle_ps(first, last, 0xdd); /* groups 0, 1, 4, 5, then 2, 3, 6, 7 */
    return _mm256_permute4x64_epi64(_mm256_castps_si256(odd), 0xd8);
}

ALWAYS_INLINE span_scales span_scales_iq2_xxs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_xxs *block = (const void *)base;
    return (span_scales){
        .scale = {odd_multiples(_mm256_srli_epi32(second_words(block), 28), _cvtsh_ss(block->d) * 0.125f)}};
}

ALWAYS_INLINE __m256i bytes_iq2_xxs(const uint8_t *base, size_t part)
{
    const block_iq2_xxs *block = (const void *)base;
    uint32_t i = block->words[2 * part];
    __m256i values = join_eights(grid_iq2_xxs[i & 255], grid_iq2_xxs[i >> 8 & 255], grid_iq2_xxs[i >> 16 & 255],
                                 grid_iq2_xxs[i >> 24]);
    return with_signs(values, spread_word(signs_of_words(second_words(block)), part));
}

ALWAYS_INLINE span_scales span_scales_iq2_xs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_xs *block = (const void *)base;
    return odd_multiples_of_16(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE __m256i bytes_iq2_xs(const uint8_t *base, size_t part)
{
    const block_iq2_xs *block = (const void *)base;
    uint64_t i;
    memcpy(&i, block->words + 4 * part, sizeof(i));
    __m256i values = join_eights(grid_iq2_xs[i & 511], grid_iq2_xs[i >> 16 & 511], grid_iq2_xs[i >> 32 & 511],
                                 grid_iq2_xs[i >> 48 & 511]);
    /* The signs of a codeword are the upper seven bits of its word. */
    __m256i words = _mm256_loadu_si256((const void *)(block->words + part / 4 * 16));
    __m256i signs = with_even_signs(_mm256_srli_epi16(words, 9));
    const __m256i byte_of = _mm256_set_epi64x(0x0606060606060606, 0x0404040404040404, 0x0202020202020202, 0);
    const __m256i pair = _mm256_add_epi32(_mm256_set1_epi64x(1LL << 32), _mm256_set1_epi32((int32_t)(part % 4 * 2)));
    signs = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(signs, pair), byte_of);
    return with_signs(values, signs);
}

ALWAYS_INLINE span_scales span_scales_iq2_s(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_s *block = (const void *)base;
    return odd_multiples_of_16(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE __m256i bytes_iq2_s(const uint8_t *base, size_t part)
{
    const block_iq2_s *block = (const void *)base;
    const uint8_t *i = block->index + 4 * part;
    unsigned high = block->high[part];
    __m256i values = join_eights(grid_iq2_s[i[0] | (high << 8 & 0x300)], grid_iq2_s[i[1] | (high << 6 & 0x300)],
                                 grid_iq2_s[i[2] | (high << 4 & 0x300)], grid_iq2_s[i[3] | (high << 2 & 0x300)]);
    return with_signs(values, spread_signs(block->signs + 4 * part));
}

/* ---- IQ3 ---- */

ALWAYS_INLINE span_scales span_scales_iq3_xxs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq3_xxs *block = (const void *)base;
    __m256i words = _mm256_loadu_si256((const void *)block->words);
    return (span_scales){.scale = {odd_multiples(_mm256_srli_epi32(words, 28), _cvtsh_ss(block->d) * 0.25f)}};
}

ALWAYS_INLINE __m256i bytes_iq3_xxs(const uint8_t *base, size_t part)
{
    const block_iq3_xxs *block = (const void *)base;
    const uint8_t *i = block->index + 8 * part;
    const uint32_t *grid = grid_iq3_xxs;
    const uint32_t codewords[8] = {grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]],
                                   grid[i[4]], grid[i[5]], grid[i[6]], grid[i[7]]};
    __m256i signs = signs_of_words(_mm256_loadu_si256((const void *)block->words));
    return with_signs(join_fours(codewords), spread_word(signs, part));
}

ALWAYS_INLINE span_scales span_scales_iq3_s(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq3_s *block = (const void *)base;
    int32_t scales;
    memcpy(&scales, block->scales, sizeof(scales));
    __m128i both = _mm_cvtsi32_si128(scales);
    __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi8(both, _mm_srli_epi16(both, 4)), _mm_set1_epi8(15));
    return (span_scales){.scale = {odd_multiples(_mm256_cvtepu8_epi32(nibbles), _cvtsh_ss(block->d))}};
}

/* Returns codeword l of a part, whose ninth bit is bit l of `high`. */
ALWAYS_INLINE uint32_t codeword_iq3_s(const uint8_t *index, unsigned high, unsigned l)
{
    return grid_iq3_s[index[l] | (high << (8 - l) & 256)];
}

ALWAYS_INLINE __m256i bytes_iq3_s(const uint8_t *base, size_t part)
{
    const block_iq3_s *block = (const void *)base;
    const uint8_t *i = block->index + 8 * part;
    unsigned high = block->high[part];
    const uint32_t codewords[8] = {codeword_iq3_s(i, high, 0), codeword_iq3_s(i, high, 1), codeword_iq3_s(i, high, 2),
                                   codeword_iq3_s(i, high, 3), codeword_iq3_s(i, high, 4), codeword_iq3_s(i, high, 5),
                                   codeword_iq3_s(i, high, 6), codeword_iq3_s(i, high, 7)};
    return with_signs(join_fours(codewords), spread_signs(block->signs + 4 * part));
}

/* ---- IQ1: 8 * (codeword value) plus or minus 1, as a scale is an eighth of the format's ---- */

ALWAYS_INLINE span_scales span_scales_iq1_s(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq1_s *block = (const void *)base;
    __m128i high = _mm_loadu_si128((const void *)block->high);
    __m128i numbers = _mm_and_si128(_mm_srli_epi16(high, 12), _mm_set1_epi16(7));
    return (span_scales){.scale = {odd_multiples(_mm256_cvtepu16_epi32(numbers), _cvtsh_ss(block->d) * 0.125f)}};
}

ALWAYS_INLINE __m256i bytes_iq1_s(const uint8_t *base, size_t part)
{
    const block_iq1_s *block = (const void *)base;
    const uint8_t *i = block->index + 4 * part;
    unsigned high = block->high[part];
    __m256i values = join_eights(grid_iq1[i[0] | (high << 8 & 0x700)], grid_iq1[i[1] | (high << 5 & 0x700)],
                                 grid_iq1[i[2] | (high << 2 & 0x700)], grid_iq1[i[3] | (high >> 1 & 0x700)]);
    return _mm256_add_epi8(values, _mm256_set1_epi8(high >> 15 ? -1 : 1));
}

/* Four scales of 3 bits in each word; its upper four bits belong to d. */
ALWAYS_INLINE span_scales span_scales_iq1_m(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq1_m *block = (const void *)base;
    uint64_t packed;
    memcpy(&packed, block->scales, sizeof(packed));
    uint16_t d =
        (uint16_t)((packed >> 12 & 0xf) | (packed >> 24 & 0xf0) | (packed >> 36 & 0xf00) | (packed >> 48 & 0xf000));
    const __m256i copies = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6,
                                            7, 6, 7, 6, 7, 6, 7);
    /* Multiplying moves scale k to the top of word k of four. */
    const __m256i to_top = _mm256_set1_epi64x(1LL << 13 | 1LL << 26 | 1LL << 39 | 1LL << 52);
    __m256i words = _mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)packed), copies);
    words = _mm256_srli_epi16(_mm256_mullo_epi16(words, to_top), 13);
    __m128i numbers = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return odd_multiples_of_16(numbers, _cvtsh_ss(d) * 0.125f);
}

ALWAYS_INLINE __m256i bytes_iq1_m(const uint8_t *base, size_t part)
{
    const block_iq1_m *block = (const void *)base;
    const uint8_t *i = block->index + 4 * part;
    unsigned high = block->high[2 * part] | (unsigned)block->high[2 * part + 1] << 8;
    __m256i values = join_eights(grid_iq1[i[0] | (high << 8 & 0x700)], grid_iq1[i[1] | (high << 4 & 0x700)],
                                 grid_iq1[i[2] | (high & 0x700)], grid_iq1[i[3] | (high >> 4 & 0x700)]);
    const __m256i sign =
        _mm256_set_epi64x((long long)0x8000800080008000u, 0x0800080008000800, 0x0080008000800080, 0x0008000800080008);
    __m256i negative = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((int16_t)high), sign), sign);
    return _mm256_add_epi8(values, _mm256_or_si256(negative, _mm256_set1_epi8(1)));
}

#endif
