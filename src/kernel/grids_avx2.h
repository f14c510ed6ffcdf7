/* grids_avx2.h - the IQ formats of 1 to 3 bits, unpacked to signed bytes: more rows of bytes_avx2.h, which includes this.
 *
 * A part of 32 weights is four codewords of 8 values, or eight of 4, which are looked up one by one. Their indices have 8 to
 * 11 bits: index_NAME() returns the one of codeword l of a part. Products with one token are faster if a row's indices are computed before, sixteen at
 * a time (find_NAME), and signs applied to the token's values. eights_NAME() are the bytes for 8 values each: their signs,
 * or in IQ1 what is added to them. It is written as if for one part: where the parts are unrolled the compiler computes it
 * once. */
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

/* Looks up a part of codewords of 8 values. */
ALWAYS_INLINE __m256i eights_of_part(const uint64_t *grid, const row_finds *finds, size_t part)
{
    const uint16_t *i = finds->index + 4 * part;
    return join_eights(grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]]);
}

/* The same of codewords of 4 values. */
ALWAYS_INLINE __m256i fours_of_part(const uint32_t *grid, const row_finds *finds, size_t part)
{
    const uint16_t *i = finds->index + 8 * part;
    const uint32_t codewords[8] = {grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]],
                                   grid[i[4]], grid[i[5]], grid[i[6]], grid[i[7]]};
    return join_fours(codewords);
}

/* Writes sixteen indices: their lower bytes, and words of which `bits` are their upper bits. */
ALWAYS_INLINE void write_indices(uint16_t *out, const uint8_t *lower, __m256i upper, short bits)
{
    __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)lower));
    upper = _mm256_and_si256(upper, _mm256_set1_epi16(bits));
    _mm256_storeu_si256((void *)out, _mm256_or_si256(words, upper));
}

/* ---- signs ---- */

/* Adds to seven bits of each byte the eighth, with which an even number of them is set (grid_signs). */
ALWAYS_INLINE __m256i with_even_signs(__m256i sevens)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m256i folded = _mm256_xor_si256(sevens, _mm256_srli_epi16(sevens, 4));
    return _mm256_or_si256(sevens, _mm256_shuffle_epi8(odd, _mm256_and_si256(folded, nibble)));
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

/* Copies each of four bytes, in every 32 bits of `four`, to eight. */
ALWAYS_INLINE __m256i spread_four(__m256i four)
{
    const __m256i byte_of = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    return _mm256_shuffle_epi8(four, byte_of);
}

/* Returns -1 for values that are negative, bits in a byte for each eight, else 1. */
ALWAYS_INLINE __m256i signs_of_bits(__m256i bits)
{
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_or_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit), _mm256_set1_epi8(1));
}

/* Returns the bytes for eight values each of a part, of all 32 in a register or in memory. */
ALWAYS_INLINE __m256i eights_of_block(__m256i all, size_t part)
{
    return spread_four(_mm256_permutevar8x32_epi32(all, _mm256_set1_epi32((int32_t)part)));
}

ALWAYS_INLINE __m256i eights_in_memory(const uint8_t all[32], size_t part)
{
    int32_t four;
    memcpy(&four, all + 4 * part, sizeof(four));
    return spread_four(_mm256_set1_epi32(four));
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

/* Returns the first (which: 0) or second words of eight groups. */
ALWAYS_INLINE __m256i words_of_groups(const uint8_t *base, int which)
{
    const uint8_t *words = base + sizeof(uint16_t);
    __m256 first = _mm256_castsi256_ps(_mm256_loadu_si256((const void *)words));
    __m256 last = _mm256_castsi256_ps(_mm256_loadu_si256((const void *)(words + 32)));
    /* Groups 0, 1, 4, 5, then 2, 3, 6, 7. */
    __m256 some = which ? _mm256_shuffle_ps(first, last, 0xdd) : _mm256_shuffle_ps(first, last, 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(some), 0xd8);
}

ALWAYS_INLINE span_scales span_scales_iq2_xxs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_xxs *block = (const void *)base;
    return (span_scales){
        .scale = {odd_multiples(_mm256_srli_epi32(words_of_groups(base, 1), 28), _cvtsh_ss(block->d) * 0.125f)}};
}

ALWAYS_INLINE unsigned index_iq2_xxs(const uint8_t *base, size_t part, size_t l)
{
    return base[sizeof(uint16_t) + part * 8 + l];
}

ALWAYS_INLINE __m256i eights_iq2_xxs(const uint8_t *base)
{
    return signs_of_words(words_of_groups(base, 1));
}

ALWAYS_INLINE void find_iq2_xxs(const uint8_t *base, row_finds *finds)
{
    __m256i bytes = words_of_groups(base, 0);
    _mm256_store_si256((void *)finds->index, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes)));
    _mm256_store_si256((void *)(finds->index + 16), _mm256_cvtepu8_epi16(_mm256_extracti128_si256(bytes, 1)));
    _mm256_store_si256((void *)finds->eights, eights_iq2_xxs(base));
}

ALWAYS_INLINE __m256i found_iq2_xxs(const row_finds *finds, size_t part)
{
    return eights_of_part(grid_iq2_xxs, finds, part);
}

ALWAYS_INLINE span_scales span_scales_iq2_xs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_xs *block = (const void *)base;
    return odd_multiples_of_16(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE unsigned index_iq2_xs(const uint8_t *base, size_t part, size_t l)
{
    return ((const block_iq2_xs *)(const void *)base)->words[4 * part + l] & 511;
}

/* The signs of a codeword are the upper seven bits of its word. */
ALWAYS_INLINE __m256i eights_iq2_xs(const uint8_t *base)
{
    const block_iq2_xs *block = (const void *)base;
    __m256i first = _mm256_srli_epi16(_mm256_loadu_si256((const void *)block->words), 9);
    __m256i last = _mm256_srli_epi16(_mm256_loadu_si256((const void *)(block->words + 16)), 9);
    return with_even_signs(_mm256_permute4x64_epi64(_mm256_packus_epi16(first, last), 0xd8));
}

ALWAYS_INLINE void find_iq2_xs(const uint8_t *base, row_finds *finds)
{
    const block_iq2_xs *block = (const void *)base;
    for (size_t i = 0; i < 32; i += 16) {
        __m256i words = _mm256_loadu_si256((const void *)(block->words + i));
        _mm256_store_si256((void *)(finds->index + i), _mm256_and_si256(words, _mm256_set1_epi16(511)));
    }
    _mm256_store_si256((void *)finds->eights, eights_iq2_xs(base));
}

ALWAYS_INLINE __m256i found_iq2_xs(const row_finds *finds, size_t part)
{
    return eights_of_part(grid_iq2_xs, finds, part);
}

ALWAYS_INLINE span_scales span_scales_iq2_s(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq2_s *block = (const void *)base;
    return odd_multiples_of_16(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

/* Bits 2 l and 2 l + 1 of byte g of `high` are the upper ones of index 4 g + l. */
ALWAYS_INLINE unsigned index_iq2_s(const uint8_t *base, size_t part, size_t l)
{
    const block_iq2_s *block = (const void *)base;
    return block->index[4 * part + l] | ((unsigned)block->high[part] << (8 - 2 * l) & 0x300);
}

/* A multiplication moves the upper bits. */
ALWAYS_INLINE void find_iq2_s(const uint8_t *base, row_finds *finds)
{
    const block_iq2_s *block = (const void *)base;
    const __m256i up = _mm256_set1_epi64x(1LL << 8 | 1LL << 22 | 1LL << 36 | 1LL << 50);
    const __m256i byte_of = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2,
                                             -1, 2, -1, 3, -1, 3, -1, 3, -1, 3, -1);
    __m256i high = _mm256_broadcastsi128_si256(_mm_loadl_epi64((const void *)block->high));
    for (size_t i = 0; i < 2; i++, high = _mm256_srli_epi64(high, 32)) {
        __m256i upper = _mm256_mullo_epi16(_mm256_shuffle_epi8(high, byte_of), up);
        write_indices(finds->index + 16 * i, block->index + 16 * i, upper, 0x300);
    }
    memcpy(finds->eights, block->signs, sizeof(block->signs));
}

ALWAYS_INLINE __m256i found_iq2_s(const row_finds *finds, size_t part)
{
    return eights_of_part(grid_iq2_s, finds, part);
}

/* ---- IQ3 ---- */

ALWAYS_INLINE span_scales span_scales_iq3_xxs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq3_xxs *block = (const void *)base;
    __m256i words = _mm256_loadu_si256((const void *)block->words);
    return (span_scales){.scale = {odd_multiples(_mm256_srli_epi32(words, 28), _cvtsh_ss(block->d) * 0.25f)}};
}

ALWAYS_INLINE unsigned index_iq3_xxs(const uint8_t *base, size_t part, size_t l)
{
    return ((const block_iq3_xxs *)(const void *)base)->index[8 * part + l];
}

ALWAYS_INLINE __m256i eights_iq3_xxs(const uint8_t *base)
{
    return signs_of_words(_mm256_loadu_si256((const void *)((const block_iq3_xxs *)(const void *)base)->words));
}

ALWAYS_INLINE void find_iq3_xxs(const uint8_t *base, row_finds *finds)
{
    const block_iq3_xxs *block = (const void *)base;
    for (size_t i = 0; i < 64; i += 16)
        write_indices(finds->index + i, block->index + i, _mm256_setzero_si256(), 0);
    _mm256_store_si256((void *)finds->eights, eights_iq3_xxs(base));
}

ALWAYS_INLINE __m256i found_iq3_xxs(const row_finds *finds, size_t part)
{
    return fours_of_part(grid_iq3_xxs, finds, part);
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

/* Bit l of byte g of `high` is the ninth one of index 8 g + l. */
ALWAYS_INLINE unsigned index_iq3_s(const uint8_t *base, size_t part, size_t l)
{
    const block_iq3_s *block = (const void *)base;
    return block->index[8 * part + l] | ((unsigned)block->high[part] << (8 - l) & 256);
}

ALWAYS_INLINE void find_iq3_s(const uint8_t *base, row_finds *finds)
{
    const block_iq3_s *block = (const void *)base;
    const __m256i up = _mm256_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2, 256, 128, 64, 32, 16, 8, 4, 2);
    const __m256i byte_of = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1,
                                             -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1);
    __m256i high = _mm256_broadcastsi128_si256(_mm_loadl_epi64((const void *)block->high));
    for (size_t i = 0; i < 64; i += 16, high = _mm256_srli_epi64(high, 16)) {
        __m256i upper = _mm256_mullo_epi16(_mm256_shuffle_epi8(high, byte_of), up);
        write_indices(finds->index + i, block->index + i, upper, 256);
    }
    memcpy(finds->eights, block->signs, sizeof(block->signs));
}

ALWAYS_INLINE __m256i found_iq3_s(const row_finds *finds, size_t part)
{
    return fours_of_part(grid_iq3_s, finds, part);
}

/* ---- IQ1: 8 * (codeword value) plus or minus 1, as a scale is an eighth of the format's; the bytes are 9 more ---- */

ALWAYS_INLINE span_scales span_scales_iq1_s(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq1_s *block = (const void *)base;
    __m128i high = _mm_loadu_si128((const void *)block->high);
    __m128i numbers = _mm_and_si128(_mm_srli_epi16(high, 12), _mm_set1_epi16(7));
    return (span_scales){.scale = {odd_multiples(_mm256_cvtepu16_epi32(numbers), _cvtsh_ss(block->d) * 0.125f)}};
}

/* Bits 3 l and up of word g of `high` are the upper ones of index 4 g + l. */
ALWAYS_INLINE unsigned index_iq1_s(const uint8_t *base, size_t part, size_t l)
{
    const block_iq1_s *block = (const void *)base;
    return block->index[4 * part + l] | ((unsigned)block->high[part] << 8 >> 3 * l & 0x700);
}

/* 8 where the highest bit of a part's word is set, else 10. */
ALWAYS_INLINE __m256i eights_iq1_s(const uint8_t *base)
{
    const __m256i byte_of = _mm256_setr_epi8(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7, 9, 9, 9, 9, 11, 11, 11, 11,
                                             13, 13, 13, 13, 15, 15, 15, 15);
    const block_iq1_s *block = (const void *)base;
    __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)block->high));
    __m256i minus = _mm256_cmpgt_epi8(_mm256_setzero_si256(), _mm256_shuffle_epi8(high, byte_of));
    return _mm256_sub_epi8(_mm256_set1_epi8(10), _mm256_and_si256(minus, _mm256_set1_epi8(2)));
}

/* A multiplication moves the upper bits, one bit too far. */
ALWAYS_INLINE void find_iq1_s(const uint8_t *base, row_finds *finds)
{
    const block_iq1_s *block = (const void *)base;
    const __m256i up = _mm256_set1_epi64x(1LL << 9 | 1LL << 22 | 1LL << 35 | 1LL << 48);
    const __m256i word_of = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6,
                                             7, 6, 7, 6, 7, 6, 7);
    __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)block->high));
    for (size_t i = 0; i < 32; i += 16, high = _mm256_unpackhi_epi64(high, high)) {
        __m256i upper = _mm256_mullo_epi16(_mm256_shuffle_epi8(high, word_of), up);
        write_indices(finds->index + i, block->index + i, _mm256_srli_epi16(upper, 1), 0x700);
    }
    _mm256_store_si256((void *)finds->eights, eights_iq1_s(base));
}

ALWAYS_INLINE __m256i found_iq1_s(const row_finds *finds, size_t part)
{
    return _mm256_add_epi8(eights_of_part(grid_iq1, finds, part), eights_in_memory(finds->eights, part));
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

/* Index i has its upper bits in nibble i of `high`. */
ALWAYS_INLINE unsigned index_iq1_m(const uint8_t *base, size_t part, size_t l)
{
    const block_iq1_m *block = (const void *)base;
    return block->index[4 * part + l] | ((unsigned)block->high[2 * part + l / 2] << (l % 2 ? 4 : 8) & 0x700);
}

/* 8 where the highest bit of a nibble is set, else 10. */
ALWAYS_INLINE __m256i eights_iq1_m(const uint8_t *base)
{
    const block_iq1_m *block = (const void *)base;
    __m256i nibbles = _mm256_set_m128i(nibbles_in_turn(block->high + 8), nibbles_in_turn(block->high));
    __m256i minus = _mm256_srli_epi16(_mm256_and_si256(nibbles, _mm256_set1_epi8(8)), 2);
    return _mm256_sub_epi8(_mm256_set1_epi8(10), minus);
}

ALWAYS_INLINE void find_iq1_m(const uint8_t *base, row_finds *finds)
{
    const block_iq1_m *block = (const void *)base;
    for (size_t i = 0; i < 32; i += 16) {
        __m256i nibbles = _mm256_cvtepu8_epi16(nibbles_in_turn(block->high + i / 2));
        write_indices(finds->index + i, block->index + i, _mm256_slli_epi16(nibbles, 8), 0x700);
    }
    _mm256_store_si256((void *)finds->eights, eights_iq1_m(base));
}

#define found_iq1_m found_iq1_s

/* ---- bytes of parts, for all but products with one token ---- */

/* Defines bytes_NAME(), of codewords and the bytes for eight values each; FINISH(codewords, eights) puts them together. */
#define BYTES_OF_EIGHTS(name, grid, FINISH, eights)                                                            \
    ALWAYS_INLINE __m256i bytes_##name(const uint8_t *base, size_t part)                                       \
    {                                                                                                          \
        __m256i codewords = join_eights(grid[index_##name(base, part, 0)], grid[index_##name(base, part, 1)],  \
                                        grid[index_##name(base, part, 2)], grid[index_##name(base, part, 3)]); \
        return FINISH(codewords, eights);                                                                      \
    }
#define BYTES_OF_FOURS(name, grid, FINISH, eights)                                                            \
    ALWAYS_INLINE __m256i bytes_##name(const uint8_t *base, size_t part)                                      \
    {                                                                                                         \
        const uint32_t codewords[8] = {grid[index_##name(base, part, 0)], grid[index_##name(base, part, 1)],  \
                                       grid[index_##name(base, part, 2)], grid[index_##name(base, part, 3)],  \
                                       grid[index_##name(base, part, 4)], grid[index_##name(base, part, 5)],  \
                                       grid[index_##name(base, part, 6)], grid[index_##name(base, part, 7)]}; \
        return FINISH(join_fours(codewords), eights);                                                         \
    }
#define WITH_SIGNS(codewords, bits) _mm256_sign_epi8(codewords, signs_of_bits(bits))
#define COMPUTED(name)              eights_of_block(eights_##name(base), part)
#define STORED(name)                eights_in_memory(((const block_##name *)(const void *)base)->signs, part)

BYTES_OF_EIGHTS(iq1_s, grid_iq1, _mm256_add_epi8, COMPUTED(iq1_s))
BYTES_OF_EIGHTS(iq1_m, grid_iq1, _mm256_add_epi8, COMPUTED(iq1_m))
BYTES_OF_EIGHTS(iq2_xxs, grid_iq2_xxs, WITH_SIGNS, COMPUTED(iq2_xxs))
BYTES_OF_EIGHTS(iq2_xs, grid_iq2_xs, WITH_SIGNS, COMPUTED(iq2_xs))
BYTES_OF_EIGHTS(iq2_s, grid_iq2_s, WITH_SIGNS, STORED(iq2_s))
BYTES_OF_FOURS(iq3_xxs, grid_iq3_xxs, WITH_SIGNS, COMPUTED(iq3_xxs))
BYTES_OF_FOURS(iq3_s, grid_iq3_s, WITH_SIGNS, STORED(iq3_s))

#endif
