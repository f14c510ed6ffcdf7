/* bytes_avx512.h - formats of bytes_avx2.h times one token, 256 weights (a span) in four registers, for AVX-512 with VNNI
 * and VBMI. grids_avx512.h adds those with grids.
 *
 * dpbusd multiplies unsigned with signed bytes and adds four products in a lane of 32 bits, exactly. So bytes carry an
 * offset that makes them unsigned, and a sum begins with a correction that eight rows share; or the token's values take
 * the weights' signs, which one subtraction under a mask does. Bytes of blocks that are not aligned to anything are
 * gathered by permutes of two registers: one does what four loads with inserts do, on the port of one insert.
 *
 * Instructions per row and span (gcc 12), and how many of them move bytes between lanes, which take one port for a cycle
 * on Zen 4: IQ4_NL 46, 9; MXFP4 50, 10; IQ4_XS 48, 7; Q5_0 54, 8; Q5_1 56, 8; Q5_K 58, 8. */
#ifndef KERNEL_BYTES_AVX512_H
#define KERNEL_BYTES_AVX512_H

#include "avx2.h"

#include "bytes_avx2.h"

#define REGISTERS 4 /* of a span */

/* Which of a span's 256 columns its four registers hold: as the format's bits lie, and so that registers have the same
 * scales, which are then applied to their sum. */
typedef enum byte_order {
    ORDER_PAIRS,       /* parts 0 and 2, 1 and 3, 4 and 6, 5 and 7                                        */
    ORDER_HALVES,      /* the first halves of parts 0 to 3, their second halves; the same of parts 4 to 7 */
    ORDER_FOURS,       /* byte b of register i is column 4 b + i: a lane of all four has 16 neighbours    */
    ORDER_EIGHTS,      /* 64-bit lane p of register i is columns 8 i to 8 i + 7 of part p                 */
    ORDER_EIGHTS_BY_16 /* the same; the last two registers have other scales than the first two           */
} byte_order;

typedef struct wide_format {
    size_t block_values, block_bytes;
    byte_order order;
    int offset;
    int minimum; /* a weight is scale * (byte - offset) + minimum times this: 1, -1 or, if there are none, 0 */
    /* Returns the scales of a span: lane 2 p has that of part p; lane 2 p + 1 its minimum, or the same scale; or with
     * scales of 16 columns all sixteen in order. */
    __m512 (*scales)(const uint8_t *base);
    /* finds: what find() wrote for the row. */
    void (*unpack)(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS]);
    /* NULL, or the signs of the weights in ORDER_FOURS, where two bytes have those of eight columns: both the same byte,
     * bit j set where column j of these is negative. */
    __m512i (*signs)(const uint8_t *base);
    /* NULL, or computes for all rows what unpack() needs, where that is faster than row by row. */
    void (*find)(const uint8_t *const base[GROUP], row_finds finds[GROUP]);
} wide_format;

/* What is prepared of the token for a span, in the format's order. */
typedef struct wide_token {
    __m512i q[REGISTERS];
    __m512i start[REGISTERS]; /* of each sum: -offset times the values of a lane */
    __m512 scale;             /* in the order of scales(); of minima: scale times sum, or minus that */
} wide_token;

/* ---- the loop ---- */

/* Returns how many registers are added up before scales are applied: those that have the same scales. */
ALWAYS_INLINE size_t registers_per_sum(byte_order order)
{
    return order == ORDER_PAIRS ? 1 : order == ORDER_HALVES || order == ORDER_EIGHTS_BY_16 ? 2 : 4;
}

/* Picks from scales() those of the lanes of sum s. */
ALWAYS_INLINE __m512 scales_of_sum(__m512 scales, size_t s, byte_order order)
{
    const __m512i pairs = _mm512_set_epi32(4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i halves = _mm512_set_epi32(6, 6, 6, 6, 4, 4, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0);
    if (order == ORDER_FOURS || order == ORDER_EIGHTS)
        return scales;
    if (order == ORDER_EIGHTS_BY_16)
        return s ? _mm512_movehdup_ps(scales) : _mm512_moveldup_ps(scales);
    size_t first = order == ORDER_HALVES ? 8 * s : s / 2 * 8 + s % 2 * 2;
    __m512i lanes = _mm512_add_epi32(order == ORDER_HALVES ? halves : pairs, _mm512_set1_epi32((int)first));
    return _mm512_permutexvar_ps(lanes, scales);
}

/* Puts 256 values into the order. */
ALWAYS_INLINE void order_values(const int8_t *q, byte_order order, __m512i out[REGISTERS])
{
    __m512i v[REGISTERS];
    for (size_t i = 0; i < REGISTERS; i++)
        v[i] = _mm512_loadu_si512(q + 64 * i);
    if (order == ORDER_FOURS || order == ORDER_EIGHTS || order == ORDER_EIGHTS_BY_16) {
        /* Quarters of what register i gets: bytes 4 b + i within 16 columns, then lanes of four registers; or words. */
        const __m512i fours =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        const __m512i lanes = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        const __m512i words = _mm512_set_epi32(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0);
        for (size_t i = 0; i < REGISTERS; i++)
            v[i] = order == ORDER_FOURS ? _mm512_permutexvar_epi32(lanes, _mm512_shuffle_epi8(v[i], fours))
                                        : _mm512_permutexvar_epi32(words, v[i]);
        __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
        __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
        out[0] = _mm512_shuffle_i32x4(a, c, 0x88);
        out[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
        out[2] = _mm512_shuffle_i32x4(b, d, 0x88);
        out[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
        return;
    }
    for (size_t i = 0; i < REGISTERS; i += 2) {
        bool halves = order == ORDER_HALVES;
        out[i] = halves ? _mm512_shuffle_i32x4(v[i], v[i + 1], 0x88) : _mm512_shuffle_i32x4(v[i], v[i + 1], 0x44);
        out[i + 1] = halves ? _mm512_shuffle_i32x4(v[i], v[i + 1], 0xdd) : _mm512_shuffle_i32x4(v[i], v[i + 1], 0xee);
    }
}

/* Returns eight floats in the even lanes and eight in the odd ones. */
ALWAYS_INLINE __m512 in_turns(__m256 even, __m256 odd)
{
    const __m512i lanes = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(even), lanes, _mm512_castps256_ps512(odd));
}

/* Returns each of eight floats twice. */
ALWAYS_INLINE __m512 twice(__m256 v)
{
    const __m512i lanes = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(v));
}

ALWAYS_INLINE wide_token read_wide(const int8_t *q, const int16_t *sums, const float *scales, wide_format format)
{
    wide_token t;
    const __m512i offset = _mm512_set1_epi8((char)format.offset);
    order_values(q, format.order, t.q);
    size_t per_sum = registers_per_sum(format.order);
    for (size_t s = 0; s < REGISTERS / per_sum; s++) {
        __m512i sum = _mm512_setzero_si512();
        for (size_t i = 0; i < per_sum && format.offset != 0; i++)
            sum = _mm512_dpbusd_epi32(sum, offset, t.q[s * per_sum + i]);
        t.start[s] = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
    }
    const __m256i by = _mm256_set1_epi16((short)format.minimum);
    __m256i of_parts = _mm256_madd_epi16(_mm256_loadu_si256((const void *)sums), by);
    __m256 scale = _mm256_loadu_ps(scales);
    t.scale = in_turns(scale, format.minimum ? _mm256_mul_ps(scale, _mm256_cvtepi32_ps(of_parts)) : scale);
    return t;
}

/* Adds a span of one row. */
ALWAYS_INLINE __m512 add_wide(__m512 sum, const uint8_t *base, const row_finds *finds, const wide_token *token,
                              wide_format format)
{
    __m512i w[REGISTERS], q[REGISTERS];
    size_t per_sum = registers_per_sum(format.order);
    format.unpack(base, finds, w);
    if (format.signs) {
        __m512i signs = format.signs(base);
        UNROLLED
        for (int i = 0; i < REGISTERS; i++) { /* column 4 b + i: of eight the first four, then the last */
            const __m512i bit = _mm512_set1_epi16((short)(1 << i | 1 << (12 + i)));
            __mmask64 negative = _mm512_test_epi8_mask(signs, bit);
            q[i] = _mm512_mask_sub_epi8(token->q[i], negative, _mm512_setzero_si512(), token->q[i]);
        }
    } else {
        memcpy(q, token->q, sizeof(q));
    }
    __m512 scales = _mm512_mul_ps(format.scales(base), token->scale);
    if (format.minimum)
        sum = _mm512_mask_add_ps(sum, 0xaaaa, sum, scales);
    UNROLLED
    for (size_t s = 0; s < REGISTERS / per_sum; s++) {
        __m512i dot = token->start[s];
        UNROLLED
        for (size_t i = s * per_sum; i < (s + 1) * per_sum; i++)
            dot = _mm512_dpbusd_epi32(dot, w[i], q[i]);
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scales_of_sum(scales, s, format.order), sum);
    }
    return sum;
}

/* Adds a span of all rows. */
ALWAYS_INLINE void add_rows(__m512 (*sum)[GROUP], const row_group *rows, size_t at, const wide_token *token,
                            size_t tokens, wide_format format)
{
    if (format.find) {
        const uint8_t *base[GROUP];
        row_finds finds[GROUP];
        for (size_t r = 0; r < GROUP; r++)
            base[r] = rows->now[r] + at;
        format.find(base, finds);
        KEEP_IN_MEMORY(finds);
        for (size_t r = 0; r < GROUP; r++)
            FOR_TOKENS sum[t][r] = add_wide(sum[t][r], base[r], &finds[r], &token[t], format);
    } else {
        for (size_t r = 0; r < rows->count; r++)
            FOR_TOKENS sum[t][r] = add_wide(sum[t][r], rows->now[r] + at, NULL, &token[t], format);
    }
}

/* Adds the last parts of rows, fewer than eight, filled up with zeros. */
ALWAYS_INLINE void add_last_wide(__m512 sum[GROUP], const row_group *rows, size_t at, const kernel_input *x, size_t b,
                                 wide_format format)
{
    short_span last;
    copy_token(&last, x, b);
    wide_token token = read_wide(last.q, last.sums, last.scales, format);
    for (size_t r = 0; r < rows->count; r++) {
        copy_weights(&last, rows->now[r] + at, format.block_values, format.block_bytes);
        sum[r] = add_wide(sum[r], last.weights, NULL, &token, format);
    }
}

ALWAYS_INLINE __m256 sum_of_halves(const __m512 sum[GROUP])
{
    __m256 folded[GROUP];
    for (size_t r = 0; r < GROUP; r++)
        folded[r] = _mm256_add_ps(_mm512_castps512_ps256(sum[r]), _mm512_extractf32x8_ps(sum[r], 1));
    return sum_of_8(folded);
}

ALWAYS_INLINE void dot_wide(const row_group *rows, const kernel_input *x, size_t tokens, wide_format format,
                            __m256 *sums)
{
    const size_t bytes = SPAN / format.block_values * format.block_bytes;
    size_t parts = x->columns / 32, b = 0, at = 0;
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    wide_token token[TOKENS_AT_ONCE];
    for (size_t r = 0; r < GROUP; r++)
        FOR_TOKENS sum[t][r] = _mm512_setzero_ps();
    for (; b + PARTS <= parts; b += PARTS, at += bytes) {
        fetch_ahead(rows, at, bytes);
        FOR_TOKENS token[t] = read_wide(x[t].q + b * 32, x[t].sums + b * 2, x[t].scales + b, format);
        add_rows(sum, rows, at, token, tokens, format);
    }
    for (size_t t = 0; b < parts && format.block_values < SPAN && t < tokens; t++)
        add_last_wide(sum[t], rows, at, &x[t], b, format);
    FOR_TOKENS sums[t] = sum_of_halves(sum[t]);
}

/* Finds are made for a whole group at once. */
ALWAYS_INLINE bool finds_nothing(void (*find)(const uint8_t *const base[GROUP], row_finds finds[GROUP]))
{
    return !find;
}

/* Defines the product of a format; what is not one token of 8 bits is left to AVX2, but for formats without a tile. */
#define WIDE_PRODUCT(level, id, name, order, offset, minimum, signs, find)                                        \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)      \
    {                                                                                                             \
        dot_wide(rows, x, tokens,                                                                                 \
                 (wide_format){FORMAT_VALUES_##id, FORMAT_BYTES_##id, order, offset, minimum, wide_scales_##name, \
                               unpack_##name, signs, find},                                                       \
                 sums);                                                                                           \
    }                                                                                                             \
    SPAN_PRODUCT(level, name, true, finds_nothing(find))
#define WIDE_ROW(level, id, name, ...) [FORMAT_##id] = product_##name##_##level,

/* ---- pieces ---- */

/* Returns the bytes n, n + 1, ... n + 7. */
ALWAYS_INLINE long long run_from(size_t n)
{
    uint64_t bytes = 0x0706050403020100u + 0x0101010101010101u * n;
    return (long long)bytes;
}

/* Picks bytes by index from half a span of blocks of 32, which are `bytes` long: 0 is the first byte of four blocks. One
 * permute finds bytes among 128, and two loads of them stay within the eight blocks. */
ALWAYS_INLINE __m512i pick(const uint8_t *base, size_t bytes, size_t half, __m512i index)
{
    const uint8_t *at = base + half * (8 * bytes - 128);
    index = _mm512_add_epi8(index, _mm512_set1_epi8((char)(half * (128 - 4 * bytes))));
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(at), index, _mm512_loadu_si512(at + 64));
}

/* Picks from byte `from` on 16 bytes of each of the four blocks. */
ALWAYS_INLINE __m512i pick_sixteens(const uint8_t *base, size_t bytes, size_t half, size_t from)
{
    size_t second = from + bytes, third = second + bytes, fourth = third + bytes;
    return pick(base, bytes, half,
                _mm512_set_epi64(run_from(fourth + 8), run_from(fourth), run_from(third + 8), run_from(third),
                                 run_from(second + 8), run_from(second), run_from(from + 8), run_from(from)));
}

/* Splits bytes into their low and high nibbles. */
ALWAYS_INLINE void split_nibbles(__m512i bytes, __m512i out[2])
{
    const __m512i mask = _mm512_set1_epi8(15);
    out[0] = _mm512_and_si512(bytes, mask);
    out[1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
}

/* Splits the nibbles of a span, which begin at byte `from` of its blocks of 32. */
ALWAYS_INLINE void split_blocks(const uint8_t *base, size_t bytes, size_t from, __m512i w[REGISTERS])
{
    for (size_t half = 0; half < 2; half++)
        split_nibbles(pick_sixteens(base, bytes, half, from), w + 2 * half);
}

/* Replaces nibbles by the entries of a table of sixteen bytes plus `offset`. */
ALWAYS_INLINE void look_up_wide(const int8_t table[16], int offset, __m512i w[REGISTERS])
{
    __m128i entries = _mm_add_epi8(_mm_loadu_si128((const void *)table), _mm_set1_epi8((char)offset));
    for (size_t i = 0; i < REGISTERS; i++)
        w[i] = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), w[i]);
}

ALWAYS_INLINE __m512i add_fifth(__m512i w, __mmask64 bits)
{
    return _mm512_mask_sub_epi8(w, bits, w, _mm512_set1_epi8(-16));
}

/* Returns the first words of 32 bits of eight blocks of 32; of blocks of 18 bytes the lower 16 bits are right. */
ALWAYS_INLINE __m256i first_words(const uint8_t *base, size_t bytes)
{
    const bool at_once = 7 * bytes + 2 <= 128;
    uint32_t from[8]; /* the bytes of each word; unsigned, since places beyond the register wrap around */
    UNROLLED
    for (uint32_t i = 0; i < 8; i++)
        from[i] = 0x03020100 + 0x01010101 * (uint32_t)bytes * (at_once ? i : i % 4);
    const __m512i index = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)from));
    __m256i words = _mm512_castsi512_si256(pick(base, bytes, 0, index));
    return at_once ? words : _mm256_blend_epi32(words, _mm512_castsi512_si256(pick(base, bytes, 1, index)), 0xf0);
}

/* Adds the fifth bits of a span, which begin at byte `from` of its blocks of 32. */
ALWAYS_INLINE void add_fifths(const uint8_t *base, size_t bytes, size_t from, __m512i w[REGISTERS])
{
    const int pair = (int)(0x0100 + 0x0101 * from), next = (int)(0x0101 * bytes), later = pair + 0x0202;
    /* The first sixteen bits of four blocks, then the others. */
    const __m512i index = _mm512_castsi128_si512(
        _mm_setr_epi32(pair | (pair + next) << 16, (pair + 2 * next) | (pair + 3 * next) << 16,
                       later | (later + next) << 16, (later + 2 * next) | (later + 3 * next) << 16));
    for (size_t half = 0; half < 2; half++) {
        uint64_t bits[2];
        _mm_storeu_si128((void *)bits, _mm512_castsi512_si128(pick(base, bytes, half, index)));
        for (size_t i = 0; i < 2; i++)
            w[2 * half + i] = add_fifth(w[2 * half + i], bits[i]);
    }
}

/* Scales of blocks of 32 that begin with them, and where there are minima with these behind. */
#define SCALES_FIRST(name)                                               \
    ALWAYS_INLINE __m512 wide_scales_##name(const uint8_t *base)         \
    {                                                                    \
        return _mm512_cvtph_ps(first_words(base, sizeof(block_##name))); \
    }

/* ---- blocks of 32 ---- */

SCALES_FIRST(q4_1)
SCALES_FIRST(q5_0)
SCALES_FIRST(q5_1)
SCALES_FIRST(iq4_nl)

ALWAYS_INLINE void unpack_q4_1(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    split_blocks(base, sizeof(block_q4_1), 4, w);
}

ALWAYS_INLINE void unpack_q5_0(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    split_blocks(base, sizeof(block_q5_0), 6, w);
    add_fifths(base, sizeof(block_q5_0), 2, w);
}

ALWAYS_INLINE void unpack_q5_1(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    split_blocks(base, sizeof(block_q5_1), 8, w);
    add_fifths(base, sizeof(block_q5_1), 4, w);
}

ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    split_blocks(base, sizeof(block_iq4_nl), 2, w);
    look_up_wide(iq4_values, 128, w);
}

/* A scale is that of span_scales_mxfp4(). */
ALWAYS_INLINE __m512 wide_scales_mxfp4(const uint8_t *base)
{
    __m256i exponents = _mm256_and_si256(first_words(base, sizeof(block_mxfp4)), _mm256_set1_epi32(255));
    return twice(scales_of_exponents(base, PARTS, exponents));
}

ALWAYS_INLINE void unpack_mxfp4(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    split_blocks(base, sizeof(block_mxfp4), 1, w);
    look_up_wide(bytes_of_fp4, 0, w);
}

/* ---- blocks of 256 ---- */

/* Unpacks scales and minima in turns, like sub_scales() of levels.h: bytes 4..15 of a block are three words a, b, c. */
ALWAYS_INLINE __m512 wide_scales_q5_k(const uint8_t *base)
{
    const __m128i low_bytes = _mm_setr_epi8(4, 8, 5, 9, 6, 10, 7, 11, 12, 12, 13, 13, 14, 14, 15, 15);
    __m128i head = _mm_loadu_si128((const void *)base), low = _mm_shuffle_epi8(head, low_bytes);
    __m128i high = _mm_and_si128(_mm_srli_epi16(low, 2), _mm_set_epi64x(0, 0x3030303030303030));
    __m128i fours = _mm_and_si128(_mm_srli_epi16(low, 4), _mm_set_epi64x(0x0f000f000f000f00, 0));
    low = _mm_and_si128(low, _mm_set_epi64x(0x000f000f000f000f, 0x3f3f3f3f3f3f3f3f));
    low = _mm_or_si128(_mm_or_si128(low, fours), _mm_slli_si128(high, 8));
    __m512 units = _mm512_cvtph_ps(_mm256_broadcastd_epi32(head)); /* d, dmin */
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(low)), units);
}

ALWAYS_INLINE void unpack_q5_k(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    const block_q5_k *block = (const void *)base;
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)block->high));
    UNROLLED
    for (int i = 0; i < REGISTERS; i++) {
        if (i % 2 == 0)
            split_nibbles(_mm512_loadu_si512(block->nibbles + 32 * i), w + i);
        /* Bit p of part p: parts 2 i and 2 i + 2, or, of odd registers, those after the parts of the even one. */
        uint64_t part = 0x0101010101010101u << (i / 2 * 4 + i % 2), part_later = part << 2;
        long long bit = (long long)part, later = (long long)part_later;
        const __m512i bits = _mm512_set_epi64(later, later, later, later, bit, bit, bit, bit);
        w[i] = add_fifth(w[i], _mm512_test_epi8_mask(high, bits));
    }
}

ALWAYS_INLINE __m512 wide_scales_iq4_xs(const uint8_t *base)
{
    return twice(span_scales_iq4_xs(base, PARTS).scale[0]);
}

ALWAYS_INLINE void unpack_iq4_xs(const uint8_t *base, const row_finds *finds, __m512i w[REGISTERS])
{
    (void)finds;
    const block_iq4_xs *block = (const void *)base;
    for (size_t half = 0; half < 2; half++)
        split_nibbles(_mm512_loadu_si512(block->nibbles + 64 * half), w + 2 * half);
    look_up_wide(iq4_values, 128, w);
}

/* Calls X(level, ID, name, order, offset, minimum, signs, find) for every format. */
// clang-format off
#define NIBBLE_FORMATS(X, level)                               \
    X(level, Q4_1, q4_1, ORDER_HALVES, 0, 1, NULL, NULL)       \
    X(level, Q5_0, q5_0, ORDER_HALVES, 16, 0, NULL, NULL)      \
    X(level, Q5_1, q5_1, ORDER_HALVES, 0, 1, NULL, NULL)       \
    X(level, Q5_K, q5_k, ORDER_PAIRS, 0, -1, NULL, NULL)       \
    X(level, IQ4_NL, iq4_nl, ORDER_HALVES, 128, 0, NULL, NULL) \
    X(level, IQ4_XS, iq4_xs, ORDER_HALVES, 128, 0, NULL, NULL) \
    X(level, MXFP4, mxfp4, ORDER_HALVES, 12, 0, NULL, NULL)
// clang-format on

#endif
