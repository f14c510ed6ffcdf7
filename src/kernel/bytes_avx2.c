/* bytes_avx2.c - block formats that are unpacked to bytes (bytes_avx2.h) times tokens of 8 bits.
 *
 * With one token eight rows share what depends only on the token. maddubs multiplies unsigned with signed bytes and adds
 * two products in 16 bits WITH saturation, and fold_four() adds eight such sums in 16 bits at most. So of formats whose
 * nibbles lie in pairs, whose two products are added before, bytes are multiplied less a `shift`:
 *   IQ4_NL, IQ4_XS        signed: the token's sign is moved to the weight; two products are at most 2 * 127 * 127 = 32258
 *                         and are widened at once
 *   IQ2, IQ3              the token's values take the signs of the weights; four products, at most 4 * 62 * 127 = 31496,
 *                         are added in 16 bits
 *   Q4_1                  no shift: 8 * 15 * 127 = 15240 before the last addition, 30480 with it
 *   Q5_0, Q5_1, MXFP4     less 16: at most 16 * 16 * 127 = 32512
 *   the others            no shift: at most 8 * 31 * 127 = 31496
 * Many tokens take tiles where the format has one (tile_avx2.h), else they are multiplied one by one. */
#include "avx2.h"

#include "bytes_avx2.h"
#include "fold_avx2.h"

/* What is prepared of the token for a span. Scales, and scales times sums, in the order of span_scales. */
typedef struct token_span {
    __m256i q[PARTS];    /* of each part; of pairs first halves in 0 to 3, second ones in 4 to 7 */
    __m256i size[PARTS]; /* their magnitudes, for formats with signed bytes                      */
    __m256i minus[4];    /* of pairs: shift times the values of both halves, added by twos       */
    __m256i add[2];      /* (shift - offset) times the sums                                      */
    __m256 scale[2], offset[2];
} token_span;

/* Returns what is subtracted from bytes before they are multiplied. */
ALWAYS_INLINE int shift_of(byte_format format)
{
    return format.pair && format.kind == BYTES_SMALL && (format.offset != 0 || format.block_bytes == FORMAT_BYTES_Q5_1)
               ? 16
               : 0;
}

/* Prepares the values of a span for pairs. */
ALWAYS_INLINE void read_pairs(token_span *t, const int8_t *q, int shift)
{
    const __m256i by = _mm256_set1_epi8((char)shift);
    UNROLLED
    for (size_t i = 0; i < 4; i++) {
        __m256i here = _mm256_loadu_si256((const void *)(q + i * 32));
        __m256i there = _mm256_loadu_si256((const void *)(q + (i + 4) * 32));
        t->q[i] = _mm256_permute2x128_si256(here, there, 0x20);
        t->q[i + 4] = _mm256_permute2x128_si256(here, there, 0x31);
        t->minus[i] = _mm256_add_epi16(_mm256_maddubs_epi16(by, t->q[i]), _mm256_maddubs_epi16(by, t->q[i + 4]));
    }
}

/* Prepares a span. q, sums and scales are those of its columns. */
ALWAYS_INLINE token_span read_token(const int8_t *q, const int16_t *sums, const float *scales, byte_format format)
{
    token_span t;
    int shift = shift_of(format);
    __m256i all = _mm256_loadu_si256((const void *)sums), sum[2];
    __m256 scale = _mm256_loadu_ps(scales);
    if (format.pair)
        read_pairs(&t, q, shift);
    for (size_t p = 0; p < PARTS && !format.pair; p++)
        t.q[p] = _mm256_loadu_si256((const void *)(q + p * 32));
    for (size_t p = 0; p < PARTS && format.kind == BYTES_SIGNED; p++)
        t.size[p] = _mm256_abs_epi8(t.q[p]);
    if (format.by_16) {
        const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        sum[0] = _mm256_permutevar8x32_epi32(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(all)), order);
        sum[1] = _mm256_permutevar8x32_epi32(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(all, 1)), order);
        t.scale[0] = _mm256_permute2f128_ps(scale, scale, 0x00);
        t.scale[1] = _mm256_permute2f128_ps(scale, scale, 0x11);
    } else {
        sum[0] = _mm256_madd_epi16(all, _mm256_set1_epi16(1));
        t.scale[0] = scale;
    }
    for (size_t i = 0; i < 1u + format.by_16; i++) {
        t.offset[i] = _mm256_mul_ps(t.scale[i], _mm256_cvtepi32_ps(sum[i]));
        t.add[i] = _mm256_mullo_epi32(sum[i], _mm256_set1_epi32(shift - format.offset));
    }
    return t;
}

/* Returns the products of 32 bytes of a format with part i of the token, added by twos. */
ALWAYS_INLINE __m256i multiply_bytes(__m256i bytes, const token_span *token, size_t i, byte_format format)
{
    if (format.kind == BYTES_SIGNED)
        return _mm256_maddubs_epi16(token->size[i], _mm256_sign_epi8(bytes, token->q[i]));
    return _mm256_maddubs_epi16(bytes, token->q[i]);
}

/* Returns the products of a part, added by twos. finds: of the row, in formats with grids. */
ALWAYS_INLINE __m256i multiply_part(const uint8_t *base, const row_finds *finds, const token_span *token, size_t part,
                                    byte_format format)
{
    if (!format.find)
        return multiply_bytes(format.bytes(base, part), token, part, format);
    __m256i q = token->q[part];
    if (format.kind == BYTES_WITH_SIGNS)
        q = _mm256_sign_epi8(q, signs_of_bits(eights_in_memory(finds->eights, part)));
    return _mm256_maddubs_epi16(format.found(finds, part), q);
}

/* Returns the sums of a span: [0] of the parts; or of their halves, in the order of span_scales. */
ALWAYS_INLINE void dot_parts(const uint8_t *base, const row_finds *finds, const token_span *token, byte_format format,
                             __m256i dot[2])
{
    __m256i half[2];
    UNROLLED
    for (size_t h = 0; h < 2; h++) {
        __m256i products[4];
        UNROLLED
        for (size_t i = 0; i < 4; i++) {
            products[i] = multiply_part(base, finds, token, 4 * h + i, format);
            if (format.kind == BYTES_SIGNED)
                products[i] = _mm256_madd_epi16(products[i], _mm256_set1_epi16(1));
        }
        half[h] = format.kind == BYTES_SIGNED       ? add_four(products)
                  : format.kind == BYTES_WITH_SIGNS ? fold_four_large(products)
                                                    : fold_four(products);
        dot[h] = half[h];
    }
    if (!format.by_16)
        dot[0] = _mm256_add_epi32(_mm256_permute2x128_si256(half[0], half[1], 0x20),
                                  _mm256_permute2x128_si256(half[0], half[1], 0x31));
}

/* Returns the sums of the parts of a span whose nibbles are unpacked in pairs. */
ALWAYS_INLINE __m256i dot_pairs(const uint8_t *base, const token_span *token, byte_format format)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[4];
    UNROLLED
    for (size_t i = 0; i < 4; i++) {
        __m256i w[2];
        format.pair(base, i, w);
        __m256i first = multiply_bytes(w[0], token, i, format), second = multiply_bytes(w[1], token, i + 4, format);
        if (format.kind == BYTES_SIGNED)
            sums[i] = _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones));
        else
            sums[i] = _mm256_add_epi16(first, second);
        if (shift_of(format))
            sums[i] = _mm256_sub_epi16(sums[i], token->minus[i]);
    }
    return format.kind == BYTES_SIGNED ? add_four(sums) : fold_four(sums);
}

/* Adds a span of one row. */
ALWAYS_INLINE __m256 add_span(__m256 sum, const uint8_t *base, const row_finds *finds, const token_span *token,
                              byte_format format)
{
    __m256i dot[2];
    if (format.pair)
        dot[0] = dot_pairs(base, token, format);
    else
        dot_parts(base, finds, token, format, dot);
    span_scales s = format.scales(base, PARTS);
    UNROLLED
    for (size_t i = 0; i < 1u + format.by_16; i++) {
        if (shift_of(format) != format.offset)
            dot[i] = _mm256_add_epi32(dot[i], token->add[i]);
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[i]), _mm256_mul_ps(s.scale[i], token->scale[i]), sum);
        if (format.has_minima)
            sum = _mm256_fnmadd_ps(s.minimum[i], token->offset[i], sum);
    }
    return sum;
}

/* Adds a span of all rows. */
ALWAYS_INLINE void add_rows(__m256 (*sum)[GROUP], const row_group *rows, size_t at, const token_span *token,
                            size_t tokens, byte_format format)
{
    if (format.find) {
        row_finds finds[GROUP];
        for (size_t r = 0; r < GROUP; r++)
            format.find(rows->now[r] + at, &finds[r]);
        KEEP_IN_MEMORY(finds);
        for (size_t r = 0; r < GROUP; r++)
            FOR_TOKENS sum[t][r] = add_span(sum[t][r], rows->now[r] + at, &finds[r], &token[t], format);
    } else {
        for (size_t r = 0; r < GROUP; r++)
            FOR_TOKENS sum[t][r] = add_span(sum[t][r], rows->now[r] + at, NULL, &token[t], format);
    }
}

/* Adds the last parts of rows, fewer than eight, filled up with zeros. */
ALWAYS_INLINE void add_last(__m256 sum[GROUP], const row_group *rows, size_t at, const kernel_input *x, size_t b,
                            byte_format format)
{
    if (format.find) /* such formats have blocks of a whole span */
        return;
    short_span last;
    copy_token(&last, x, b);
    token_span token = read_token(last.q, last.sums, last.scales, format);
    for (size_t r = 0; r < GROUP; r++) {
        copy_weights(&last, rows->now[r] + at, format.block_values, format.block_bytes);
        sum[r] = add_span(sum[r], last.weights, NULL, &token, format);
    }
}

ALWAYS_INLINE void dot_rows_of_bytes(const row_group *rows, const kernel_input *x, size_t tokens, byte_format format,
                                     __m256 *sums)
{
    const size_t bytes = SPAN / format.block_values * format.block_bytes;
    size_t parts = x->columns / 32, b = 0, at = 0;
    __m256 sum[TOKENS_AT_ONCE][GROUP];
    token_span token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (; b + PARTS <= parts; b += PARTS, at += bytes) {
        fetch_ahead(rows, at, bytes);
        FOR_TOKENS token[t] = read_token(x[t].q + b * 32, x[t].sums + b * 2, x[t].scales + b, format);
        add_rows(sum, rows, at, token, tokens, format);
    }
    for (size_t t = 0; b < parts && format.block_values < SPAN && t < tokens; t++)
        add_last(sum[t], rows, at, &x[t], b, format);
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

#define BYTE_PRODUCT(level, id, name, kind, offset, by_16, has_minima, pair, find, found)                             \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)          \
    {                                                                                                                 \
        dot_rows_of_bytes(rows, x, tokens, BYTE_FORMAT(id, name, kind, offset, by_16, has_minima, pair, find, found), \
                          sums);                                                                                      \
    }                                                                                                                 \
    SPAN_PRODUCT(level, name, !(by_16), false) /* scales of 16 columns have no tiles */
#define BYTE_ROW(level, id, name, ...) [FORMAT_##id] = product_##name##_##level,

BYTE_FORMATS(BYTE_PRODUCT, avx2)

const kernels avx2_bytes = {.product = {BYTE_FORMATS(BYTE_ROW, avx2)}};
