/* grids_avx512.h - the IQ formats of 1 to 3 bits: more rows of bytes_avx512.h.
 *
 * Codewords of IQ2 and IQ3 are looked up 64 bytes at a time, in registers: a permute finds bytes among 128, so a table
 * takes as many as it has times 128 bytes, and masks choose among what they found. Therefore codewords are packed, two or
 * four values to a byte, and bytes of the same number within their codewords follow one another (ORDER_FOURS). Codewords
 * of IQ1 are too many (62 instructions for those of two rows) and are looked up one by one. README.md has what was tried. */
#ifndef KERNEL_GRIDS_AVX512_H
#define KERNEL_GRIDS_AVX512_H

#include "bytes_avx512.h"

/* ---- codewords ---- */

/* Returns eight bytes, the same plus `next`, and so on: the index of a permute. */
ALWAYS_INLINE __m512i run_of_runs(long long first, long long next)
{
    return _mm512_set_epi64(first + 7 * next, first + 6 * next, first + 5 * next, first + 4 * next, first + 3 * next,
                            first + 2 * next, first + next, first);
}

/* Returns the bytes that 64 indices stand for: `index` has their lower seven bits, high[i] their bits 7 + i. */
ALWAYS_INLINE __m512i find_bytes(const void *table, size_t size, __m512i index, const __mmask64 *high)
{
    const uint8_t *at = table;
    __m512i found[16];
    size_t n = size / 128;
    UNROLLED
    for (size_t i = 0; i < n; i++)
        found[i] =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(at + 128 * i), index, _mm512_loadu_si512(at + 128 * i + 64));
    UNROLLED
    for (; n > 1; n /= 2, high++)
        for (size_t i = 0; i < n / 2; i++)
            found[i] = _mm512_mask_blend_epi8(*high, found[2 * i], found[2 * i + 1]);
    return found[0]; /* cppcheck-suppress uninitvar; a table has 128 bytes or more */
}

/* Finds codewords of 8 values, 32 of each of two rows; `index` has the lower seven bits of their indices, high[i] bit 7 + i.
 * Four values are a byte, and the first halves of all codewords are in another table than the second ones. The 64 bytes of
 * a row are stored where other formats have indices. */
ALWAYS_INLINE void find_eights(const uint8_t *numbers, size_t codewords, __m512i index, const __mmask64 *high,
                               row_finds finds[2])
{
    const long long first = 0x4303420241014000, next = 0x0404040404040404; /* bytes i and 64 + i, i + 1 and so on */
    const __m512i in_turns_of_row = run_of_runs(first, next), other = _mm512_set1_epi64(8 * next);
    __m512i halves[2] = {find_bytes(numbers, codewords, index, high),
                         find_bytes(numbers + codewords, codewords, index, high)};
    _mm512_store_si512(finds[0].index, _mm512_permutex2var_epi8(halves[0], in_turns_of_row, halves[1]));
    _mm512_store_si512(finds[1].index,
                       _mm512_permutex2var_epi8(halves[0], _mm512_add_epi8(in_turns_of_row, other), halves[1]));
}

/* Unpacks what find_eights() found: numbers 0, 1 and 2 stand for the bytes of `values`. A permute ignores all but six bits,
 * so there is a table of numbers in bits 0 and 1, one for bits 2 and 3, one for bits 4 and 5. */
ALWAYS_INLINE void unpack_eights(__m512i found, int values, __m512i w[REGISTERS])
{
    const __m512i first = _mm512_set1_epi32(values);
    const __m512i value_of = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i second =
        _mm512_shuffle_epi8(first, _mm512_broadcast_i32x4(_mm_set_epi32(0x03030303, 0x02020202, 0x01010101, 0)));
    const __m512i third = _mm512_permutexvar_epi32(value_of, second);
    w[0] = _mm512_permutexvar_epi8(found, first);
    w[1] = _mm512_permutexvar_epi8(found, second);
    w[2] = _mm512_permutexvar_epi8(found, third);
    w[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(found, 2), third);
}

/* Loads 32 bytes of each of two rows. */
ALWAYS_INLINE __m512i load_two(const uint8_t *first, const uint8_t *second)
{
    __m512i v = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)first));
    return _mm512_inserti64x4(v, _mm256_loadu_si256((const void *)second), 1);
}

/* Returns each of 32 bytes twice. */
ALWAYS_INLINE __m512i bytes_twice(const uint8_t bytes[32])
{
    const __m512i copies = run_of_runs(0x0303020201010000, 0x0404040404040404);
    return _mm512_permutexvar_epi8(copies, _mm512_castsi256_si512(_mm256_loadu_si256((const void *)bytes)));
}

/* ---- signs ---- */

/* Adds to the lower seven bits of each byte the eighth, with which an even number of them is set (grid_signs). */
ALWAYS_INLINE __m512i even_signs(__m512i sevens)
{
#define SIGNS_1(n)  (n) | (((n) ^ (n) >> 1 ^ (n) >> 2 ^ (n) >> 3 ^ (n) >> 4 ^ (n) >> 5 ^ (n) >> 6) & 1) << 7
#define SIGNS_4(n)  SIGNS_1(n), SIGNS_1((n) + 1), SIGNS_1((n) + 2), SIGNS_1((n) + 3)
#define SIGNS_16(n) SIGNS_4(n), SIGNS_4((n) + 4), SIGNS_4((n) + 8), SIGNS_4((n) + 12)
    static const _Alignas(64) uint8_t signs[128] = {SIGNS_16(0),  SIGNS_16(16), SIGNS_16(32), SIGNS_16(48),
                                                    SIGNS_16(64), SIGNS_16(80), SIGNS_16(96), SIGNS_16(112)};
    return find_bytes(signs, sizeof(signs), sevens, NULL);
}

/* Moves four times seven bits, of eight words that begin at bit `from` of 64, to two bytes each. */
ALWAYS_INLINE __m512i signs_of_eight(__m512i words, int from)
{
    const __m512i bits = _mm512_set1_epi64(0x15150e0e07070000);
    return even_signs(_mm512_multishift_epi64_epi8(_mm512_add_epi8(bits, _mm512_set1_epi8((char)from)), words));
}

/* ---- scales ---- */

/* Returns (2 n + 1) * d of sixteen numbers n in bytes. */
ALWAYS_INLINE __m512 wide_odd_multiples(__m128i numbers, float d)
{
    __m512i odd = _mm512_cvtepu8_epi32(_mm_or_si128(_mm_add_epi8(numbers, numbers), _mm_set1_epi8(1)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(odd), _mm512_set1_ps(d));
}

/* The same for numbers in the upper four bits of words; the bit below them is shifted to where the 1 is. */
ALWAYS_INLINE __m512 odd_multiples_of_words(__m512i words, float d)
{
    words = _mm512_or_si512(_mm512_srli_epi32(words, 27), _mm512_set1_epi32(1));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(words), _mm512_set1_ps(d));
}

/* ---- IQ2 ---- */

ALWAYS_INLINE __m512 wide_scales_iq2_xxs(const uint8_t *base)
{
    const block_iq2_xxs *block = (const void *)base;
    __m512i words = _mm512_loadu_si512(base + sizeof(block->d));
    return odd_multiples_of_words(_mm512_shuffle_epi32(words, _MM_PERM_DDBB), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE void find_two_iq2_xxs(const uint8_t *const base[2], row_finds finds[2])
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512i first = _mm512_loadu_si512(base[0] + sizeof(uint16_t));
    __m512i second = _mm512_loadu_si512(base[1] + sizeof(uint16_t));
    __m512i index = _mm512_permutex2var_epi32(first, even, second);
    const __mmask64 high[1] = {_mm512_movepi8_mask(index)};
    find_eights(numbers_iq2_xxs[0], 256, index, high, finds);
}

/* 8, 25, 43 */
ALWAYS_INLINE void unpack_iq2(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)base;
    unpack_eights(_mm512_load_si512(finds->index), 0x002b1908, w);
}

ALWAYS_INLINE __m512i signs_iq2_xxs(const uint8_t *base)
{
    return signs_of_eight(_mm512_loadu_si512(base + sizeof(uint16_t)), 32);
}

ALWAYS_INLINE __m512 wide_scales_iq2_xs(const uint8_t *base)
{
    const block_iq2_xs *block = (const void *)base;
    return wide_odd_multiples(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE void find_two_iq2_xs(const uint8_t *const base[2], row_finds finds[2])
{
    const __m512i lower = run_of_runs(0x0e0c0a0806040200, 0x1010101010101010), one = _mm512_set1_epi8(1);
    __m512i first = _mm512_loadu_si512(base[0] + sizeof(uint16_t));
    __m512i second = _mm512_loadu_si512(base[1] + sizeof(uint16_t));
    __m512i index = _mm512_permutex2var_epi8(first, lower, second);
    __m512i upper = _mm512_permutex2var_epi8(first, _mm512_or_si512(lower, one), second);
    const __mmask64 high[2] = {_mm512_movepi8_mask(index), _mm512_test_epi8_mask(upper, one)};
    find_eights(numbers_iq2_xs[0], 512, index, high, finds);
}

/* The signs of a codeword are the upper seven bits of its word. */
ALWAYS_INLINE __m512i signs_iq2_xs(const uint8_t *base)
{
    const __m512i upper = _mm512_broadcast_i32x4(_mm_setr_epi8(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15));
    __m512i words = _mm512_loadu_si512(base + sizeof(uint16_t));
    return even_signs(_mm512_srli_epi16(_mm512_shuffle_epi8(words, upper), 1));
}

ALWAYS_INLINE __m512 wide_scales_iq2_s(const uint8_t *base)
{
    const block_iq2_s *block = (const void *)base;
    return wide_odd_multiples(nibbles_in_turn(block->scales), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE void find_two_iq2_s(const uint8_t *const base[2], row_finds finds[2])
{
    const block_iq2_s *first = (const void *)base[0], *second = (const void *)base[1];
    /* Bits 2 l and 2 l + 1 of a byte belong to codeword l of four. */
    const __m512i bit_8 = _mm512_set1_epi32(0x40100401), bit_9 = _mm512_set1_epi32((int)0x80200802);
    __m512i index = load_two(first->index, second->index);
    __m128i bits = _mm_loadl_epi64((const void *)first->high);
    bits = _mm_unpacklo_epi64(bits, _mm_loadl_epi64((const void *)second->high));
    __m512i fours =
        _mm512_permutexvar_epi8(run_of_runs(0x0101010100000000, 0x0202020202020202), _mm512_castsi128_si512(bits));
    const __mmask64 high[3] = {_mm512_movepi8_mask(index), _mm512_test_epi8_mask(fours, bit_8),
                               _mm512_test_epi8_mask(fours, bit_9)};
    find_eights(numbers_iq2_s[0], 1024, index, high, finds);
}

ALWAYS_INLINE __m512i signs_iq2_s(const uint8_t *base)
{
    return bytes_twice(((const block_iq2_s *)(const void *)base)->signs);
}

/* ---- IQ3 ---- */

ALWAYS_INLINE __m512i words_iq3_xxs(const uint8_t *base)
{
    const block_iq3_xxs *block = (const void *)base;
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)block->words));
}

ALWAYS_INLINE __m512 wide_scales_iq3_xxs(const uint8_t *base)
{
    const block_iq3_xxs *block = (const void *)base;
    return odd_multiples_of_words(_mm512_shuffle_epi32(words_iq3_xxs(base), _MM_PERM_CCAA),
                                  _cvtsh_ss(block->d) * 0.25f);
}

/* Unpacks 64 codewords of 4 values to nibbles: tables[i] has values 2 i and 2 i + 1. */
ALWAYS_INLINE void unpack_iq3(const uint8_t *tables, size_t codewords, __m512i index, __mmask64 bit_8,
                              __m512i w[REGISTERS])
{
    const __mmask64 high[2] = {_mm512_movepi8_mask(index), bit_8};
    for (size_t i = 0; i < 2; i++)
        split_nibbles(find_bytes(tables + i * codewords, codewords, index, high), w + 2 * i);
}

ALWAYS_INLINE void unpack_iq3_xxs(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    static const int8_t values[16] = {4, 12, 20, 28, 36, 44, 52, 62};
    const block_iq3_xxs *block = (const void *)base;
    unpack_iq3(numbers_iq3_xxs[0], 256, _mm512_loadu_si512(block->index), 0, w);
    look_up_wide(values, 0, w);
}

ALWAYS_INLINE __m512i signs_iq3_xxs(const uint8_t *base)
{
    return signs_of_eight(words_iq3_xxs(base), 0);
}

ALWAYS_INLINE __m512 wide_scales_iq3_s(const uint8_t *base)
{
    const block_iq3_s *block = (const void *)base;
    int32_t scales;
    memcpy(&scales, block->scales, sizeof(scales));
    __m128i both = _mm_cvtsi32_si128(scales);
    __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi8(both, _mm_srli_epi16(both, 4)), _mm_set1_epi8(15));
    return wide_odd_multiples(_mm_unpacklo_epi8(nibbles, nibbles), _cvtsh_ss(block->d));
}

ALWAYS_INLINE void unpack_iq3_s(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    const block_iq3_s *block = (const void *)base;
    uint64_t bit_8;
    memcpy(&bit_8, block->high, sizeof(bit_8));
    unpack_iq3(nibbles_iq3_s[0], 512, _mm512_loadu_si512(block->index), bit_8, w);
}

ALWAYS_INLINE __m512i signs_iq3_s(const uint8_t *base)
{
    return bytes_twice(((const block_iq3_s *)(const void *)base)->signs);
}

/* ---- IQ1: 8 * (codeword value) plus or minus 1, as a scale is an eighth of the format's ---- */

/* Looks up codewords by 32 indices of 16 bits. They were written before those of other rows, as a load of a part of what
 * was just stored must wait. */
ALWAYS_INLINE void look_up_iq1(const uint16_t i[32], __m512i w[REGISTERS])
{
    const uint64_t *grid = grid_iq1;
    UNROLLED
    for (size_t k = 0; k < REGISTERS; k++, i++) {
        __m256i first = join_eights(grid[i[0]], grid[i[4]], grid[i[8]], grid[i[12]]);
        __m256i last = join_eights(grid[i[16]], grid[i[20]], grid[i[24]], grid[i[28]]);
        w[k] = _mm512_inserti64x4(_mm512_castsi256_si512(first), last, 1);
    }
}

/* Adds to the eight bits of 32 indices those that are three bits of words, behind their lower eight. */
ALWAYS_INLINE __m512i with_upper_bits(const uint8_t index[32], __m512i words)
{
    words = _mm512_and_si512(words, _mm512_set1_epi16(0x700));
    return _mm512_or_si512(_mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)index)), words);
}

ALWAYS_INLINE __m512i high_iq1_s(const uint8_t *base)
{
    const block_iq1_s *block = (const void *)base;
    return _mm512_cvtepu16_epi64(_mm_loadu_si128((const void *)block->high));
}

ALWAYS_INLINE __m512 wide_scales_iq1_s(const uint8_t *base)
{
    const block_iq1_s *block = (const void *)base;
    __m512i numbers = _mm512_srli_epi32(_mm512_slli_epi32(high_iq1_s(base), 17), 1); /* without the bit above them */
    return odd_multiples_of_words(_mm512_shuffle_epi32(numbers, _MM_PERM_CCAA), _cvtsh_ss(block->d) * 0.125f);
}

ALWAYS_INLINE void wide_find_iq1_s(const uint8_t *const base[GROUP], row_finds finds[GROUP])
{
    /* Bits 3 l and up of a word to the upper byte of word l of four. */
    const __m512i from = _mm512_set1_epi64(0x0900060003000000);
    for (size_t r = 0; r < GROUP; r++) {
        const block_iq1_s *block = (const void *)base[r];
        _mm512_store_si512(finds[r].index,
                           with_upper_bits(block->index, _mm512_multishift_epi64_epi8(from, high_iq1_s(base[r]))));
    }
}

/* The upper bit of a part's word tells whether 1 is subtracted from its values; the bytes are 9 more. */
ALWAYS_INLINE void unpack_iq1_s(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    const __m512i upper = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0909090909090909, 0x0101010101010101));
    __mmask64 minus = _mm512_movepi8_mask(_mm512_shuffle_epi8(high_iq1_s(base), upper));
    __m512i more = _mm512_mask_blend_epi8(minus, _mm512_set1_epi8(10), _mm512_set1_epi8(8));
    look_up_iq1(finds->index, w);
    for (size_t i = 0; i < REGISTERS; i++)
        w[i] = _mm512_add_epi8(w[i], more);
}

ALWAYS_INLINE __m512 wide_scales_iq1_m(const uint8_t *base)
{
    const __m512i lanes = _mm512_set_epi32(23, 19, 22, 18, 21, 17, 20, 16, 7, 3, 6, 2, 5, 1, 4, 0);
    span_scales s = span_scales_iq1_m(base, PARTS);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(s.scale[0]), lanes, _mm512_castps256_ps512(s.scale[1]));
}

/* Returns the nibbles of 16 bytes in the lower bits of words, the low one of each first; there are others above them. */
ALWAYS_INLINE __m512i nibbles_in_words(const uint8_t bytes[16])
{
    __m512i nibbles = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
    return _mm512_or_si512(nibbles, _mm512_slli_epi32(nibbles, 12));
}

ALWAYS_INLINE void wide_find_iq1_m(const uint8_t *const base[GROUP], row_finds finds[GROUP])
{
    for (size_t r = 0; r < GROUP; r++) {
        const block_iq1_m *block = (const void *)base[r];
        _mm512_store_si512(finds[r].index,
                           with_upper_bits(block->index, _mm512_slli_epi16(nibbles_in_words(block->high), 8)));
    }
}

/* Bit 3 of a codeword's nibble tells whether 1 is subtracted from its values; the bytes are 9 more. */
ALWAYS_INLINE void unpack_iq1_m(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    const block_iq1_m *block = (const void *)base;
    __m512i minus = _mm512_and_si512(nibbles_in_words(block->high), _mm512_set1_epi16(8));
    __m512i more = _mm512_sub_epi8(_mm512_set1_epi8(10), _mm512_srli_epi16(minus, 2));
    look_up_iq1(finds->index, w);
    UNROLLED
    for (int i = 0; i < REGISTERS; i++) {
        const long long word = 0x0202020202020202;
        w[i] = _mm512_add_epi8(w[i], _mm512_permutexvar_epi8(run_of_runs(i * word, 4 * word), more));
    }
}

/* The look-ups for two rows, for all of a group. */
#define FIND_BY_TWO(name)                                                                         \
    ALWAYS_INLINE void wide_find_##name(const uint8_t *const base[GROUP], row_finds finds[GROUP]) \
    {                                                                                             \
        for (size_t r = 0; r < GROUP; r += 2)                                                     \
            find_two_##name(base + r, finds + r);                                                 \
    }
FIND_BY_TWO(iq2_xxs)
FIND_BY_TWO(iq2_xs)
FIND_BY_TWO(iq2_s)
#define unpack_iq2_xxs unpack_iq2
#define unpack_iq2_xs  unpack_iq2
#define unpack_iq2_s   unpack_iq2

/* Calls X(level, ID, name, order, offset, minimum, signs, find) for every format. */
// clang-format off
#define GRID_FORMATS(X, level)                                                      \
    X(level, IQ1_S, iq1_s, ORDER_EIGHTS, 9, 0, NULL, wide_find_iq1_s)               \
    X(level, IQ1_M, iq1_m, ORDER_EIGHTS_BY_16, 9, 0, NULL, wide_find_iq1_m)         \
    X(level, IQ2_XXS, iq2_xxs, ORDER_FOURS, 0, 0, signs_iq2_xxs, wide_find_iq2_xxs) \
    X(level, IQ2_XS, iq2_xs, ORDER_FOURS, 0, 0, signs_iq2_xs, wide_find_iq2_xs)     \
    X(level, IQ2_S, iq2_s, ORDER_FOURS, 0, 0, signs_iq2_s, wide_find_iq2_s)         \
    X(level, IQ3_XXS, iq3_xxs, ORDER_FOURS, 0, 0, signs_iq3_xxs, NULL)              \
    X(level, IQ3_S, iq3_s, ORDER_FOURS, 0, 0, signs_iq3_s, NULL)
// clang-format on

#endif
