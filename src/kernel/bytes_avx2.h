/* bytes_avx2.h - block formats that are unpacked to bytes, 32 weights at a time, for AVX2. One description of a format
 * serves products with one token (bytes_avx2.c), tiles (tile_avx2.h, tile_avx512.h), and decoding (decode_avx2.h). The
 * header of a level, avx2.h or avx512.h, comes before this one.
 *
 * A weight is scale * (byte - offset) - minimum; scales and minima belong to 32 weights, or to 16. Columns are taken in
 * spans of 256, of which the last may be shorter in formats with blocks of 32; part p of a span is its columns 32 p to
 * 32 p + 31. */
#ifndef KERNEL_BYTES_AVX2_H
#define KERNEL_BYTES_AVX2_H

#include "spans.h"

#include <immintrin.h>

/* Scales of a span, of part p in lane p of [0]; or of 16 weights each: those of half a of part p in lane 4 a + p % 4 of
 * [p / 4], which is the order of the sums that they are multiplied with. */
typedef struct span_scales {
    __m256 scale[2], minimum[2];
} span_scales;

typedef enum byte_kind {
    BYTES_SMALL,      /* unsigned, at most 31                                           */
    BYTES_SIGNED,     /* from -127 to 127; the offset is 0                              */
    BYTES_WITH_SIGNS, /* of grids: unsigned, at most 62, signs apart; the offset is 0   */
} byte_kind;

/* What is computed for a row of a format with grids before it is multiplied: indices of its codewords, and bytes that belong
 * to eight values each: their signs, or (IQ1) what is added to them. It is stored for all rows of a group before the first
 * is multiplied, since a load of a part of what was just stored must wait. */
typedef struct row_finds {
    _Alignas(64) uint16_t index[64];
    uint8_t eights[32];
} row_finds;

typedef struct byte_format {
    size_t block_values, block_bytes;
    byte_kind kind;
    int offset;
    bool by_16, has_minima;
    /* Prepares the scales of the first `parts` parts of a span; those of later parts repeat the last one. */
    span_scales (*scales)(const uint8_t *base, size_t parts);
    /* Returns the 32 bytes of a part. */
    __m256i (*bytes)(const uint8_t *base, size_t part);
    /* Of formats with 16 bytes of nibbles for 32 weights: the first halves of parts p and p + 4 to out[0], the second
     * ones to out[1], which takes fewer instructions. NULL: nibbles lie otherwise. */
    void (*pair)(const uint8_t *base, size_t part, __m256i out[2]);
    /* Of formats with grids: what bytes() is made of in two steps, without the signs. NULL: others. */
    void (*find)(const uint8_t *base, row_finds *finds);
    __m256i (*found)(const row_finds *finds, size_t part);
} byte_format;

/* Calls X(level, ID, name, kind, offset, by_16, has_minima, pair, find, found) for every format. */
// clang-format off
#define BYTE_FORMATS_BY_32(X, level)                                                                 \
    X(level, Q4_1, q4_1, BYTES_SMALL, 0, false, true, pair_q4_1, NULL, NULL)                         \
    X(level, Q5_0, q5_0, BYTES_SMALL, 16, false, false, pair_q5_0, NULL, NULL)                       \
    X(level, Q5_1, q5_1, BYTES_SMALL, 0, false, true, pair_q5_1, NULL, NULL)                         \
    X(level, Q5_K, q5_k, BYTES_SMALL, 0, false, true, NULL, NULL, NULL)                              \
    X(level, IQ4_NL, iq4_nl, BYTES_SIGNED, 0, false, false, pair_iq4_nl, NULL, NULL)                 \
    X(level, IQ4_XS, iq4_xs, BYTES_SIGNED, 0, false, false, pair_iq4_xs, NULL, NULL)                 \
    X(level, MXFP4, mxfp4, BYTES_SMALL, 12, false, false, pair_mxfp4, NULL, NULL)                    \
    X(level, TQ1_0, tq1_0, BYTES_SMALL, 1, false, false, NULL, NULL, NULL)                           \
    X(level, TQ2_0, tq2_0, BYTES_SMALL, 1, false, false, NULL, NULL, NULL)                           \
    X(level, Q1_0, q1_0, BYTES_SMALL, 1, false, false, NULL, NULL, NULL)                             \
    X(level, Q2_0, q2_0, BYTES_SMALL, 1, false, false, NULL, NULL, NULL)                             \
    X(level, IQ1_S, iq1_s, BYTES_SMALL, 9, false, false, NULL, find_iq1_s, found_iq1_s)              \
    X(level, IQ2_XXS, iq2_xxs, BYTES_WITH_SIGNS, 0, false, false, NULL, find_iq2_xxs, found_iq2_xxs) \
    X(level, IQ3_XXS, iq3_xxs, BYTES_WITH_SIGNS, 0, false, false, NULL, find_iq3_xxs, found_iq3_xxs) \
    X(level, IQ3_S, iq3_s, BYTES_WITH_SIGNS, 0, false, false, NULL, find_iq3_s, found_iq3_s)
#define BYTE_FORMATS(X, level)                                                                       \
    BYTE_FORMATS_BY_32(X, level)                                                                     \
    X(level, Q2_K, q2_k, BYTES_SMALL, 0, true, true, NULL, NULL, NULL)                               \
    X(level, Q3_K, q3_k, BYTES_SMALL, 4, true, false, NULL, NULL, NULL)                              \
    X(level, IQ1_M, iq1_m, BYTES_SMALL, 9, true, false, NULL, find_iq1_m, found_iq1_m)               \
    X(level, IQ2_XS, iq2_xs, BYTES_WITH_SIGNS, 0, true, false, NULL, find_iq2_xs, found_iq2_xs)      \
    X(level, IQ2_S, iq2_s, BYTES_WITH_SIGNS, 0, true, false, NULL, find_iq2_s, found_iq2_s)          \
    X(level, NVFP4, nvfp4, BYTES_SMALL, 12, true, false, NULL, NULL, NULL)
/* Formats of coarse copies, whose products with one token are in copy_avx2.c. */
#define COPY_BYTE_FORMATS(X, level)                                                                  \
    X(level, SIGNS1, signs1, BYTES_SMALL, 1, false, false, NULL, NULL, NULL)                         \
    X(level, LEVELS2, levels2, BYTES_SMALL, 3, false, false, NULL, NULL, NULL)
// clang-format on
#define BYTE_FORMAT(id, name, kind, offset, by_16, has_minima, pair, find, found)                              \
    ((byte_format){FORMAT_VALUES_##id, FORMAT_BYTES_##id, kind, offset, by_16, has_minima, span_scales_##name, \
                   bytes_##name, pair, find, found})

/* ---- pieces ---- */

/* Returns the scales of eight Q4_0 blocks, in order, as float16. Loading them one by one takes three times as many
 * instructions. A block has 18 bytes; so of the eight 32-bit words from byte 32 i on, word i has the scale of block 2 i
 * in its lower half, and word 4 + i has that of block 2 i + 1 in its upper half. */
static inline __m128i scales_of_8(const block_q4_0 block[8])
{
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_loadu_si256((const void *)((const uint8_t *)block + 32 * i));
    __m256i words =
        _mm256_blend_epi32(_mm256_blend_epi32(v[0], v[1], 0x22), _mm256_blend_epi32(v[2], v[3], 0x88), 0xcc);
    return _mm_blend_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1), 0xaa);
}

/* Returns the low nibbles of 16 bytes, then their high nibbles. */
ALWAYS_INLINE __m256i nibbles_of_16(const uint8_t *at)
{
    __m128i bytes = _mm_loadu_si128((const void *)at);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

/* Splits the nibbles of 16 bytes here and 16 bytes there: the low ones to out[0], the high ones to out[1]. */
ALWAYS_INLINE void nibbles_of_two(const uint8_t *here, const uint8_t *there, __m256i out[2])
{
    __m256i bytes = _mm256_castsi128_si256(_mm_loadu_si128((const void *)here));
    bytes = _mm256_inserti128_si256(bytes, _mm_loadu_si128((const void *)there), 1);
    out[0] = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    out[1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

/* Returns the low nibbles of 32 bytes, or the high ones. */
ALWAYS_INLINE __m256i nibbles_of_32(const uint8_t *at, bool high)
{
    __m256i bytes = _mm256_loadu_si256((const void *)at);
    return _mm256_and_si256(high ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
}

/* Returns two neighbouring bits of each of 32 bytes. */
ALWAYS_INLINE __m256i pairs_of_bits(const uint8_t *at, size_t shift)
{
    __m256i bytes = _mm256_loadu_si256((const void *)at);
    return _mm256_and_si256(_mm256_srli_epi16(bytes, (int)shift), _mm256_set1_epi8(3));
}

/* Returns 255 in byte i if bit i of the word is set, else 0. */
ALWAYS_INLINE __m256i spread_bits(const uint8_t word[4])
{
    const __m256i byte_of = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    int32_t bits;
    memcpy(&bits, word, sizeof(bits));
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

/* The same for the first 16 bits of two words (half 0) or the others (half 1), a word for each half of the register. */
ALWAYS_INLINE __m256i spread_two(__m256i words, size_t half)
{
    const __m256i byte_of = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i bytes = _mm256_shuffle_epi8(words, _mm256_add_epi8(byte_of, _mm256_set1_epi8((char)(2 * half))));
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

/* Returns a word of 32 bits in each half of a register. */
ALWAYS_INLINE __m256i words_of_two(const uint8_t *here, const uint8_t *there)
{
    int32_t words[2];
    memcpy(&words[0], here, 4);
    memcpy(&words[1], there, 4);
    return _mm256_set_m128i(_mm_cvtsi32_si128(words[1]), _mm_cvtsi32_si128(words[0]));
}

/* Replaces nibbles by the entries of a table of sixteen signed bytes. */
ALWAYS_INLINE __m256i look_up(const int8_t table[16], __m256i nibbles)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), nibbles);
}

/* Returns 16 bits of block b, or of the last of n blocks. */
ALWAYS_INLINE int half_at(const uint8_t *base, size_t b, size_t n, size_t bytes)
{
    uint16_t half;
    memcpy(&half, base + (b < n ? b : n - 1) * bytes, sizeof(half));
    return half;
}

/* Converts the n (at most 8) float16 at base, base + bytes, ... to float32 and repeats the last one up to 8. (With an
 * array on the stack gcc assembles them byte by byte.) */
ALWAYS_INLINE __m256 halves_of_blocks(const uint8_t *base, size_t n, size_t bytes)
{
    __m128i halves = _mm_cvtsi32_si128(half_at(base, 0, n, bytes));
    halves = _mm_insert_epi16(halves, half_at(base, 1, n, bytes), 1);
    halves = _mm_insert_epi16(halves, half_at(base, 2, n, bytes), 2);
    halves = _mm_insert_epi16(halves, half_at(base, 3, n, bytes), 3);
    halves = _mm_insert_epi16(halves, half_at(base, 4, n, bytes), 4);
    halves = _mm_insert_epi16(halves, half_at(base, 5, n, bytes), 5);
    halves = _mm_insert_epi16(halves, half_at(base, 6, n, bytes), 6);
    halves = _mm_insert_epi16(halves, half_at(base, 7, n, bytes), 7);
    return _mm256_cvtph_ps(halves);
}

/* Converts the first 8 of 16 signed bytes to float32. */
ALWAYS_INLINE __m256 floats_of_bytes(__m128i bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

ALWAYS_INLINE __m256 every_lane(uint16_t half)
{
    return _mm256_set1_ps(_cvtsh_ss(half));
}

ALWAYS_INLINE __m256 negated(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

/* Puts a byte for each 16 columns of a span into the order of span_scales. */
ALWAYS_INLINE __m128i in_order_of_halves(__m128i bytes)
{
    return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
}

/* Returns 16 signed bytes times a float16, in the order of span_scales. */
ALWAYS_INLINE void times_half(__m128i bytes, uint16_t half, __m256 out[2])
{
    bytes = in_order_of_halves(bytes);
    out[0] = _mm256_mul_ps(floats_of_bytes(bytes), every_lane(half));
    out[1] = _mm256_mul_ps(floats_of_bytes(_mm_unpackhi_epi64(bytes, bytes)), every_lane(half));
}

/* ---- blocks of 32 ---- */

ALWAYS_INLINE span_scales span_scales_q4_1(const uint8_t *base, size_t parts)
{
    return (span_scales){.scale = {halves_of_blocks(base, parts, sizeof(block_q4_1))},
                         .minimum = {negated(halves_of_blocks(base + 2, parts, sizeof(block_q4_1)))}};
}

ALWAYS_INLINE __m256i bytes_q4_1(const uint8_t *base, size_t part)
{
    return nibbles_of_16(((const block_q4_1 *)(const void *)base)[part].nibbles);
}

ALWAYS_INLINE void pair_q4_1(const uint8_t *base, size_t part, __m256i out[2])
{
    const block_q4_1 *block = (const block_q4_1 *)(const void *)base + part;
    nibbles_of_two(block[0].nibbles, block[4].nibbles, out);
}

ALWAYS_INLINE span_scales span_scales_q5_0(const uint8_t *base, size_t parts)
{
    return (span_scales){.scale = {halves_of_blocks(base, parts, sizeof(block_q5_0))}};
}

ALWAYS_INLINE __m256i bytes_q5_0(const uint8_t *base, size_t part)
{
    const block_q5_0 *block = (const block_q5_0 *)(const void *)base + part;
    __m256i high = _mm256_and_si256(spread_bits(block->high), _mm256_set1_epi8(16));
    return _mm256_or_si256(nibbles_of_16(block->nibbles), high);
}

/* Adds the fifth bits of two blocks to their nibbles. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *here, const uint8_t *there, __m256i out[2])
{
    __m256i words = words_of_two(here, there);
    for (size_t half = 0; half < 2; half++)
        out[half] = _mm256_or_si256(out[half], _mm256_and_si256(spread_two(words, half), _mm256_set1_epi8(16)));
}

ALWAYS_INLINE void pair_q5_0(const uint8_t *base, size_t part, __m256i out[2])
{
    const block_q5_0 *block = (const block_q5_0 *)(const void *)base + part;
    nibbles_of_two(block[0].nibbles, block[4].nibbles, out);
    add_fifth_bits(block[0].high, block[4].high, out);
}

ALWAYS_INLINE span_scales span_scales_q5_1(const uint8_t *base, size_t parts)
{
    return (span_scales){.scale = {halves_of_blocks(base, parts, sizeof(block_q5_1))},
                         .minimum = {negated(halves_of_blocks(base + 2, parts, sizeof(block_q5_1)))}};
}

ALWAYS_INLINE __m256i bytes_q5_1(const uint8_t *base, size_t part)
{
    const block_q5_1 *block = (const block_q5_1 *)(const void *)base + part;
    __m256i high = _mm256_and_si256(spread_bits(block->high), _mm256_set1_epi8(16));
    return _mm256_or_si256(nibbles_of_16(block->nibbles), high);
}

ALWAYS_INLINE void pair_q5_1(const uint8_t *base, size_t part, __m256i out[2])
{
    const block_q5_1 *block = (const block_q5_1 *)(const void *)base + part;
    nibbles_of_two(block[0].nibbles, block[4].nibbles, out);
    add_fifth_bits(block[0].high, block[4].high, out);
}

/* A block is laid out as one of Q4_0. */
ALWAYS_INLINE span_scales span_scales_iq4_nl(const uint8_t *base, size_t parts)
{
    if (parts == PARTS)
        return (span_scales){.scale = {_mm256_cvtph_ps(scales_of_8((const void *)base))}};
    return (span_scales){.scale = {halves_of_blocks(base, parts, sizeof(block_iq4_nl))}};
}

ALWAYS_INLINE __m256i bytes_iq4_nl(const uint8_t *base, size_t part)
{
    return look_up(iq4_values, nibbles_of_16(((const block_iq4_nl *)(const void *)base)[part].nibbles));
}

ALWAYS_INLINE void look_up_two(const int8_t table[16], __m256i out[2])
{
    out[0] = look_up(table, out[0]);
    out[1] = look_up(table, out[1]);
}

ALWAYS_INLINE void pair_iq4_nl(const uint8_t *base, size_t part, __m256i out[2])
{
    const block_iq4_nl *block = (const block_iq4_nl *)(const void *)base + part;
    nibbles_of_two(block[0].nibbles, block[4].nibbles, out);
    look_up_two(iq4_values, out);
}

ALWAYS_INLINE int exponent_at(const uint8_t *base, size_t b, size_t n)
{
    return base[(b < n ? b : n - 1) * sizeof(block_mxfp4)];
}

/* Returns the bits of eight scales of which some are subnormal. Blocks of zeros have the exponent 0; their scale becomes 0
 * as well, since multiplying by a subnormal number takes a hundred times as long. */
__attribute__((noinline, cold)) static __m256i subnormal_scales(const uint8_t *base, size_t parts, __m256i exponents)
{
    uint32_t e[PARTS], bits[PARTS];
    _mm256_storeu_si256((void *)e, exponents);
    for (size_t p = 0; p < PARTS; p++) {
        const block_mxfp4 *block = (const block_mxfp4 *)(const void *)base + (p < parts ? p : parts - 1);
        __m128i nibbles = _mm_loadu_si128((const void *)block->nibbles);
        bits[p] = e[p] > 1 ? (e[p] - 1) << 23 : _mm_testz_si128(nibbles, _mm_set1_epi8(0x77)) ? 0 : 1u << (21 + e[p]);
    }
    return _mm256_loadu_si256((const void *)bits);
}

/* A scale is half of 2^(e - 127), whose bits are (e - 1) << 23, or for e < 2 those of a subnormal number. */
ALWAYS_INLINE __m256 scales_of_exponents(const uint8_t *base, size_t parts, __m256i e)
{
    __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)))
        bits = subnormal_scales(base, parts, e);
    return _mm256_castsi256_ps(bits);
}

ALWAYS_INLINE span_scales span_scales_mxfp4(const uint8_t *base, size_t parts)
{
    __m256i e = _mm256_setr_epi32(exponent_at(base, 0, parts), exponent_at(base, 1, parts), exponent_at(base, 2, parts),
                                  exponent_at(base, 3, parts), exponent_at(base, 4, parts), exponent_at(base, 5, parts),
                                  exponent_at(base, 6, parts), exponent_at(base, 7, parts));
    return (span_scales){.scale = {scales_of_exponents(base, parts, e)}};
}

/* Twice the values of FP4, plus 12. */
static const int8_t bytes_of_fp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

ALWAYS_INLINE __m256i bytes_mxfp4(const uint8_t *base, size_t part)
{
    return look_up(bytes_of_fp4, nibbles_of_16(((const block_mxfp4 *)(const void *)base)[part].nibbles));
}

ALWAYS_INLINE void pair_mxfp4(const uint8_t *base, size_t part, __m256i out[2])
{
    const block_mxfp4 *block = (const block_mxfp4 *)(const void *)base + part;
    nibbles_of_two(block[0].nibbles, block[4].nibbles, out);
    look_up_two(bytes_of_fp4, out);
}

/* ---- blocks of 256 ---- */

ALWAYS_INLINE span_scales span_scales_q2_k(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_q2_k *block = (const void *)base;
    __m128i both = _mm_loadu_si128((const void *)block->scales), mask = _mm_set1_epi8(15);
    span_scales s = {.scale = {_mm256_setzero_ps()}};
    times_half(_mm_and_si128(both, mask), block->d, s.scale);
    times_half(_mm_and_si128(_mm_srli_epi16(both, 4), mask), block->dmin, s.minimum);
    return s;
}

ALWAYS_INLINE __m256i bytes_q2_k(const uint8_t *base, size_t part)
{
    return pairs_of_bits(((const block_q2_k *)(const void *)base)->q + part / 4 * 32, part % 4 * 2);
}

/* Sixteen scales of 6 bits, from which 32 is subtracted: bytes 0..7 hold the lower four bits of scales 0..7 in their
 * low nibbles and those of 8..15 in their high ones; byte 8 + i holds the upper two of scales i, 4 + i, 8 + i, 12 + i. */
ALWAYS_INLINE span_scales span_scales_q3_k(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_q3_k *block = (const void *)base;
    __m128i low = _mm_loadl_epi64((const void *)block->scales);
    int32_t top;
    memcpy(&top, block->scales + 8, sizeof(top));
    low = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    __m128i high = _mm_srlv_epi32(_mm_set1_epi32(top), _mm_setr_epi32(0, 2, 4, 6));
    high = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
    span_scales s = {.scale = {_mm256_setzero_ps()}};
    times_half(_mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32)), block->d, s.scale);
    return s;
}

ALWAYS_INLINE __m256i bytes_q3_k(const uint8_t *base, size_t part)
{
    const block_q3_k *block = (const void *)base;
    __m256i high = _mm256_loadu_si256((const void *)block->high);
    high = part < 2 ? _mm256_slli_epi16(high, (int)(2 - part)) : _mm256_srli_epi16(high, (int)(part - 2));
    high = _mm256_and_si256(high, _mm256_set1_epi8(4));
    return _mm256_or_si256(pairs_of_bits(block->low + part / 4 * 32, part % 4 * 2), high);
}

ALWAYS_INLINE __m256 times_word(uint64_t bytes, uint16_t half)
{
    return _mm256_mul_ps(floats_of_bytes(_mm_cvtsi64_si128((long long)bytes)), every_lane(half));
}

ALWAYS_INLINE span_scales span_scales_q5_k(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_q5_k *block = (const void *)base;
    uint64_t scales, minima;
    sub_scales(block->scales, &scales, &minima);
    return (span_scales){.scale = {times_word(scales, block->d)}, .minimum = {times_word(minima, block->dmin)}};
}

ALWAYS_INLINE __m256i bytes_q5_k(const uint8_t *base, size_t part)
{
    const block_q5_k *block = (const void *)base;
    __m256i high = _mm256_loadu_si256((const void *)block->high);
    high = part < 4 ? _mm256_slli_epi16(high, (int)(4 - part)) : _mm256_srli_epi16(high, (int)(part - 4));
    __m256i nibbles = nibbles_of_32(block->nibbles + part / 2 * 32, part % 2);
    return _mm256_or_si256(nibbles, _mm256_and_si256(high, _mm256_set1_epi8(16)));
}

/* Eight scales of 6 bits, from which 32 is subtracted: nibbles, and pairs of bits in a word of 16. */
ALWAYS_INLINE span_scales span_scales_iq4_xs(const uint8_t *base, size_t parts)
{
    (void)parts;
    const block_iq4_xs *block = (const void *)base;
    int32_t nibbles;
    memcpy(&nibbles, block->low_scales, sizeof(nibbles));
    __m128i bytes = _mm_cvtsi32_si128(nibbles);
    __m128i low = _mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4));
    low = _mm_cvtepu8_epi16(_mm_and_si128(low, _mm_set1_epi8(15)));
    /* Multiplying moves pair i to the top of word i. */
    const __m128i to_top = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
    __m128i high = _mm_srli_epi16(_mm_mullo_epi16(_mm_set1_epi16((short)block->high_scales), to_top), 14);
    __m128i scales = _mm_sub_epi16(_mm_or_si128(low, _mm_slli_epi16(high, 4)), _mm_set1_epi16(32));
    __m256 floats = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(scales));
    return (span_scales){.scale = {_mm256_mul_ps(floats, every_lane(block->d))}};
}

ALWAYS_INLINE __m256i bytes_iq4_xs(const uint8_t *base, size_t part)
{
    return look_up(iq4_values, nibbles_of_16(((const block_iq4_xs *)(const void *)base)->nibbles + part * 16));
}

ALWAYS_INLINE void pair_iq4_xs(const uint8_t *base, size_t part, __m256i out[2])
{
    const uint8_t *nibbles = ((const block_iq4_xs *)(const void *)base)->nibbles + part * 16;
    nibbles_of_two(nibbles, nibbles + 64, out);
    look_up_two(iq4_values, out);
}

ALWAYS_INLINE span_scales span_scales_tq2_0(const uint8_t *base, size_t parts)
{
    (void)parts;
    return (span_scales){.scale = {every_lane(((const block_tq2_0 *)(const void *)base)->d)}};
}

ALWAYS_INLINE __m256i bytes_tq2_0(const uint8_t *base, size_t part)
{
    const block_tq2_0 *block = (const void *)base;
    return pairs_of_bits(block->q + part / 4 * 32, part % 4 * 2);
}

ALWAYS_INLINE span_scales span_scales_tq1_0(const uint8_t *base, size_t parts)
{
    (void)parts;
    return (span_scales){.scale = {every_lane(((const block_tq1_0 *)(const void *)base)->d)}};
}

/* Returns bytes times 3, modulo 256. */
ALWAYS_INLINE __m256i times_3(__m256i bytes)
{
    return _mm256_add_epi8(bytes, _mm256_add_epi8(bytes, bytes));
}

/* Five numbers of 0 to 2 in a byte, as a fraction: times 3^k modulo 256 its first digit is digit k, which is the number of
 * thirds of 256 that it has reached. Returns a part's bytes, so multiplied, less 128, which
 * multiplying by 3 preserves.
 * Parts 0 to 4 are the digits of the first 32 bytes, 5 to 7 those of the next 16 in twos; the last half of part 7 are four
 * digits of the last 4 bytes. */
ALWAYS_INLINE __m256i thirds_tq1_0(const uint8_t *base, size_t part)
{
    const block_tq1_0 *block = (const void *)base;
    const __m256i half = _mm256_set1_epi8(-128);
    size_t k = part < 5 ? part : 2 * (part - 5);
    __m256i bytes = _mm256_xor_si256(_mm256_loadu_si256((const void *)block->five), half);
    if (part >= 5) {
        bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(block->five + 32)));
        bytes = _mm256_xor_si256(bytes, half);
        bytes = _mm256_blend_epi32(bytes, times_3(bytes), 0xf0);
    }
    UNROLLED
    for (size_t i = 0; i < k; i++)
        bytes = times_3(bytes);
    if (part == 7) {
        int32_t four;
        memcpy(&four, block->four, sizeof(four));
        __m256i ones = _mm256_xor_si256(_mm256_set1_epi32(four), half), threes = times_3(ones), nines = times_3(threes);
        __m256i last = _mm256_blend_epi32(_mm256_blend_epi32(ones, threes, 0x20),
                                          _mm256_blend_epi32(nines, times_3(nines), 0x80), 0xc0);
        bytes = _mm256_blend_epi32(bytes, last, 0xf0);
    }
    return bytes;
}

ALWAYS_INLINE __m256i bytes_tq1_0(const uint8_t *base, size_t part)
{
    __m256i bytes = thirds_tq1_0(base, part);
    __m256i none = _mm256_cmpgt_epi8(_mm256_set1_epi8(86 - 128), bytes);
    __m256i two = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(170 - 128));
    return _mm256_sub_epi8(_mm256_add_epi8(none, _mm256_set1_epi8(1)), two);
}

/* ---- blocks of 128 and 64 ---- */

ALWAYS_INLINE span_scales span_scales_q1_0(const uint8_t *base, size_t parts)
{
    size_t blocks = (parts + 3) / 4;
    __m128i first = _mm_set1_epi16((int16_t)half_at(base, 0, blocks, sizeof(block_q1_0)));
    __m128i second = _mm_set1_epi16((int16_t)half_at(base, 1, blocks, sizeof(block_q1_0)));
    return (span_scales){.scale = {_mm256_cvtph_ps(_mm_unpacklo_epi64(first, second))}};
}

ALWAYS_INLINE __m256i bytes_q1_0(const uint8_t *base, size_t part)
{
    const block_q1_0 *block = (const block_q1_0 *)(const void *)base + part / 4;
    return _mm256_and_si256(spread_bits(block->bits + part % 4 * 4), _mm256_set1_epi8(2));
}

/* Returns the scales of blocks of 64 that begin with them. */
ALWAYS_INLINE span_scales scales_of_64(const uint8_t *base, size_t parts, size_t bytes)
{
    size_t blocks = (parts + 1) / 2;
    __m128i halves = _mm_cvtsi32_si128(half_at(base, 0, blocks, bytes));
    halves = _mm_insert_epi16(halves, half_at(base, 1, blocks, bytes), 1);
    halves = _mm_insert_epi16(halves, half_at(base, 2, blocks, bytes), 2);
    halves = _mm_insert_epi16(halves, half_at(base, 3, blocks, bytes), 3);
    return (span_scales){.scale = {_mm256_cvtph_ps(_mm_unpacklo_epi16(halves, halves))}};
}

ALWAYS_INLINE span_scales span_scales_q2_0(const uint8_t *base, size_t parts)
{
    return scales_of_64(base, parts, sizeof(block_q2_0));
}

/* Of the four numbers in a byte, which is copied four times, two are the lowest or the next two bits of a nibble, and the
 * other two are after a shift by four; so a table that has n at n and at 4 n knows them all. */
ALWAYS_INLINE __m256i bytes_q2_0(const uint8_t *base, size_t part)
{
    const block_q2_0 *block = (const block_q2_0 *)(const void *)base + part / 2;
    const __m256i copies = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6,
                                            6, 6, 6, 7, 7, 7, 7);
    static const int8_t numbers[16] = {0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3};
    int64_t packed;
    memcpy(&packed, block->q + part % 2 * 8, sizeof(packed));
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi64x(packed), copies);
    bytes = _mm256_and_si256(bytes, _mm256_set1_epi32((int32_t)0xc0300c03));
    bytes = _mm256_or_si256(bytes, _mm256_srli_epi16(bytes, 4));
    return look_up(numbers, _mm256_and_si256(bytes, _mm256_set1_epi8(15)));
}

ALWAYS_INLINE span_scales span_scales_signs1(const uint8_t *base, size_t parts)
{
    return scales_of_64(base, parts, sizeof(block_signs1));
}

/* Word j of the register holds values 4 j to 4 j + 3: bit j of each byte. */
ALWAYS_INLINE __m256i bytes_signs1(const uint8_t *base, size_t part)
{
    const block_signs1 *block = (const block_signs1 *)(const void *)base + part / 2;
    const __m256i shifts = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int32_t word;
    memcpy(&word, block->bits + part % 2 * 4, sizeof(word));
    __m256i bits = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), shifts), _mm256_set1_epi8(1));
    return _mm256_add_epi8(bits, bits);
}

ALWAYS_INLINE span_scales span_scales_levels2(const uint8_t *base, size_t parts)
{
    return scales_of_64(base, parts, sizeof(block_levels2));
}

/* Word j of a half of the register holds values 4 j to 4 j + 3 of a run of 16: bits 2 j and 2 j + 1 of each byte. */
ALWAYS_INLINE __m256i bytes_levels2(const uint8_t *base, size_t part)
{
    const block_levels2 *block = (const block_levels2 *)(const void *)base + part / 2;
    const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), runs = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    int64_t packed;
    memcpy(&packed, block->q + part % 2 * 8, sizeof(packed));
    __m256i words = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_cvtsi64_si128(packed)), runs);
    __m256i numbers = _mm256_and_si256(_mm256_srlv_epi32(words, shifts), _mm256_set1_epi8(3));
    return _mm256_add_epi8(numbers, numbers);
}

/* Converts floats of 4 bits exponent and 3 bits fraction. As float16 they are 2^8 times less; the format's scale is half. */
ALWAYS_INLINE __m256 floats_of_fp8(__m128i words)
{
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(words, 7)), _mm256_set1_ps(0x1p7f));
}

ALWAYS_INLINE int fp8_at(const uint8_t *base, size_t b, size_t n)
{
    int32_t four;
    memcpy(&four, base + (b < n ? b : n - 1) * sizeof(block_nvfp4), sizeof(four));
    return four;
}

ALWAYS_INLINE span_scales span_scales_nvfp4(const uint8_t *base, size_t parts)
{
    size_t blocks = (parts + 1) / 2;
    __m128i bytes = _mm_setr_epi32(fp8_at(base, 0, blocks), fp8_at(base, 1, blocks), fp8_at(base, 2, blocks),
                                   fp8_at(base, 3, blocks));
    bytes = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(127)), bytes); /* stands for 0 */
    bytes = in_order_of_halves(_mm_and_si128(bytes, _mm_set1_epi8(127)));
    return (span_scales){.scale = {floats_of_fp8(_mm_cvtepu8_epi16(bytes)),
                                   floats_of_fp8(_mm_cvtepu8_epi16(_mm_unpackhi_epi64(bytes, bytes)))}};
}

/* Nibbles of 8 bytes for 16 weights. */
ALWAYS_INLINE __m256i bytes_nvfp4(const uint8_t *base, size_t part)
{
    const block_nvfp4 *block = (const block_nvfp4 *)(const void *)base + part / 2;
    __m256i nibbles = nibbles_of_16(block->nibbles + part % 2 * 16);
    return look_up(bytes_of_fp4, _mm256_permute4x64_epi64(nibbles, 0xd8));
}

#include "grids_avx2.h"

#endif
