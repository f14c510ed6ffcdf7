/* tile_avx512.h - block formats times many tokens of 8 bits, compiled with VNNI (tile_avx512vnni.c defines WITH_VNNI)
 * and without (tile_avx512.c).
 *
 * 32 rows x 512 columns of weights are unpacked once to unsigned bytes into a panel on the stack, rows in lanes: a
 * register holds four neighbouring weights of each of 16 rows. For every four columns a tile of 32 rows x 6 tokens
 * loads two registers of the panel and broadcasts four bytes of each token; VNNI adds the four products to each row's
 * sum. So no sums across lanes are needed, and the scales of a block are loaded as a vector over the rows.
 * A block of 32 columns costs 16 multiplications and 6 other instructions per token and 32 rows: 93 weights
 * per cycle and token on two ports, three times what lanes along the columns can reach.
 *
 * Without VNNI maddubs adds two products in 16 bits. Its results are added as long as they fit 16 bits (a format's
 * `run`: 8 times 3810 fit, 2 times 16002, 32512 once; see block_avx512.h) and then widened. Four columns then cost 2 to
 * 4 instructions instead of one.
 *
 * All formats use one loop: a weight is scale * (byte - offset) - minimum, with a scale per 16 or 32 columns. With VNNI
 * these are those of bytes_avx2.h as well, whose bytes are made unsigned; without it they are left to AVX2. */
#ifndef KERNEL_TILE_AVX512_H
#define KERNEL_TILE_AVX512_H

#include "avx512.h"
#include "bytes_avx2.h"

/* The offset that makes signed bytes unsigned. Without VNNI they stay signed, and multiply_four() moves the sign
 * to the token's values. */
#ifdef WITH_VNNI
#define SIGNED_OFFSET 128
#else
#define SIGNED_OFFSET 0
#endif

#define PANEL_ROWS     32
#define PANEL_COLUMNS  512
#define PANELS         1
#define TILE_TOKENS    6
#define TILES(X)       X(1) X(2) X(3) X(4) X(5) X(6)
#define FETCHES_TOKENS false /* the CPU does */
#define HALVED_TOKENS  48
#define STEP           64  /* columns that are unpacked at a time */
#define SCALED         256 /* columns whose scales are computed at a time */

/* [..][r] belongs to row r. A tile reads 18 KiB of it if the format has one scale per 32 columns and no minima. */
typedef struct panel {
    uint8_t weights[PANEL_COLUMNS / 4][PANEL_ROWS][4];
    float scales[PANEL_COLUMNS / 16][PANEL_ROWS];
    float minima[PANEL_COLUMNS / 16][PANEL_ROWS];
} panel;

/* The tokens of a tile, from the panel's first column on. */
typedef struct tokens {
    const int8_t *q;     /* [TILE_TOKENS][stride] */
    const float *scales; /* [TILE_TOKENS][stride / 32] */
    size_t stride;
    _Alignas(64) int32_t start[TILE_TOKENS][PANEL_COLUMNS / 16]; /* -offset times the sum of each group */
    _Alignas(64) float totals[TILE_TOKENS][PANEL_COLUMNS / 16];  /* scale times sum of each group */
} token_tile;

typedef __m512i integers;

typedef struct tile_kind {
    size_t group; /* columns with one scale (and minimum): 16 or 32 */
    bool has_minima;
    size_t run;     /* products of four columns that can be added in 16 bits */
    bool is_signed; /* weights are signed bytes */
    int offset;     /* what was added to a weight to make it unsigned */
} tile_kind;

/* Bytes are signed where SIGNED_OFFSET is 0. */
#define TILE_KINDS_OF_ALL(X)                              \
    X(bytes, 32, false, 1, !SIGNED_OFFSET, SIGNED_OFFSET) \
    X(nibbles, 32, false, 8, false, 8)                    \
    X(nibbles_minima, 32, true, 8, false, 0)              \
    X(sixes_by_16, 16, false, 2, false, 32)
#ifdef WITH_VNNI
#define TILE_KINDS(X)                                  \
    TILE_KINDS_OF_ALL(X)                               \
    X(bytes_by_16, 16, false, 1, false, SIGNED_OFFSET) \
    X(minima_by_16, 16, true, 1, false, 0)
#else
#define TILE_KINDS(X) TILE_KINDS_OF_ALL(X)
#endif
#define X(kind, ...) static const tile_kind kind_##kind = {__VA_ARGS__};
TILE_KINDS(X)
#undef X

/* Unpacks 64 weights of a row, from a column that is a multiple of 64; the last step of a row may have only 32. */
typedef __m512i unpack_function(const uint8_t *row, size_t column, size_t columns);
/* Writes the scales (and minima) of up to SCALED columns of 16 rows (NULL: zeros), from a multiple of these on. */
typedef void scale_function(const uint8_t *const row[LANES], size_t column, size_t columns, float (*scales)[PANEL_ROWS],
                            float (*minima)[PANEL_ROWS]);

/* ---- unpacking ---- */

ALWAYS_INLINE __m512 both_halves(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

ALWAYS_INLINE __m512i low_nibbles(__m512i bytes)
{
    return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}

/* Returns the low nibbles in the lower and the high nibbles in the upper half of a register. */
ALWAYS_INLINE __m512i split_nibbles(__m256i bytes)
{
    return low_nibbles(_mm512_inserti64x4(_mm512_castsi256_si512(bytes), _mm256_srli_epi16(bytes, 4), 1));
}

ALWAYS_INLINE __m512i unpack_q8_0(const uint8_t *row, size_t column, size_t columns)
{
    const block_q8_0 *block = (const void *)(row + column / 32 * sizeof(block_q8_0));
    __m512i weights = _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)block->q));
    if (columns > 32)
        weights = _mm512_inserti64x4(weights, _mm256_loadu_si256((const void *)block[1].q), 1);
    return _mm512_xor_si512(weights, _mm512_set1_epi8((char)SIGNED_OFFSET)); /* + 128, or as they are */
}

ALWAYS_INLINE __m512i unpack_q4_0(const uint8_t *row, size_t column, size_t columns)
{
    const block_q4_0 *block = (const void *)(row + column / 32 * sizeof(block_q4_0));
    __m128i first = _mm_loadu_si128((const void *)block->nibbles), second = _mm_setzero_si128();
    if (columns > 32)
        second = _mm_loadu_si128((const void *)block[1].nibbles);
    __m256i firsts = _mm256_set_m128i(_mm_srli_epi16(first, 4), first);
    __m256i seconds = _mm256_set_m128i(_mm_srli_epi16(second, 4), second);
    return low_nibbles(_mm512_inserti64x4(_mm512_castsi256_si512(firsts), seconds, 1));
}

ALWAYS_INLINE __m512i unpack_q4_k(const uint8_t *row, size_t column, size_t columns)
{
    (void)columns;
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    return split_nibbles(_mm256_loadu_si256((const void *)(block->nibbles + column % 256 / 2)));
}

ALWAYS_INLINE __m512 scales_of_row_q4_k(const uint8_t *row, size_t column, size_t columns, __m512 *minima)
{
    (void)columns, (void)minima;
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    uint64_t scales, minimums;
    sub_scales(block->scales, &scales, &minimums);
    return both_halves(times_word(scales, block->d), times_word(minimums, block->dmin));
}

ALWAYS_INLINE __m512i unpack_q6_k(const uint8_t *row, size_t column, size_t columns)
{
    (void)columns;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    size_t half = column % 256 / 128, upper = column % 128 / 64;
    __m512i low = _mm512_loadu_si512(block->low + half * 64);
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(block->high + half * 32)));
    /* The upper two bits of weights 0, 32, 64 and 96 lie at bits 0, 2, 4 and 6 of a byte and are moved to bit 4. */
    high = upper ? _mm512_srlv_epi64(high, _mm512_set_epi64(2, 2, 2, 2, 0, 0, 0, 0))
                 : _mm512_sllv_epi64(high, _mm512_set_epi64(2, 2, 2, 2, 4, 4, 4, 4));
    low = upper ? _mm512_srli_epi16(low, 4) : low;
    return _mm512_or_si512(low_nibbles(low), _mm512_and_si512(high, _mm512_set1_epi8(0x30)));
}

ALWAYS_INLINE __m512 scales_of_row_q6_k(const uint8_t *row, size_t column, size_t columns, __m512 *minima)
{
    (void)columns, (void)minima;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    __m512i numbers = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)block->scales));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), _mm512_set1_ps(_cvtsh_ss(block->d)));
}

#ifdef WITH_VNNI

/* Returns the block of a format of bytes_avx2.h that a column belongs to. */
ALWAYS_INLINE const uint8_t *block_at(const uint8_t *row, size_t column, byte_format format)
{
    return row + column / format.block_values * format.block_bytes;
}

ALWAYS_INLINE __m256i part_at(const uint8_t *row, size_t column, byte_format format)
{
    return format.bytes(block_at(row, column, format), column % format.block_values / 32);
}

/* Unpacks 64 weights of such a format: bytes with minima as they are, others plus 128. */
ALWAYS_INLINE __m512i unpack_bytes(const uint8_t *row, size_t column, size_t columns, byte_format format)
{
    __m512i bytes = _mm512_zextsi256_si512(part_at(row, column, format));
    if (columns > 32)
        bytes = _mm512_inserti64x4(bytes, part_at(row, column + 32, format), 1);
    return format.has_minima ? bytes : _mm512_add_epi8(bytes, _mm512_set1_epi8((char)(SIGNED_OFFSET - format.offset)));
}

/* Puts sixteen numbers from the order of span_scales into that of the columns. */
ALWAYS_INLINE __m512 sixteen_in_order(const __m256 numbers[2])
{
    const __m512i lanes = _mm512_set_epi32(15, 11, 14, 10, 13, 9, 12, 8, 7, 3, 6, 2, 5, 1, 4, 0);
    return _mm512_permutexvar_ps(lanes, both_halves(numbers[0], numbers[1]));
}

ALWAYS_INLINE __m512 scales_of_bytes(const uint8_t *row, size_t column, size_t columns, __m512 *minima,
                                     byte_format format)
{
    span_scales s = format.scales(block_at(row, column, format), columns / 32);
    if (!format.by_16)
        return format.has_minima ? both_halves(s.scale[0], s.minimum[0]) : _mm512_castps256_ps512(s.scale[0]);
    if (format.has_minima)
        *minima = sixteen_in_order(s.minimum);
    return sixteen_in_order(s.scale);
}

#define UNPACK_BYTES(level, id, name, ...)                                                                       \
    ALWAYS_INLINE __m512i unpack_##name(const uint8_t *row, size_t column, size_t columns)                       \
    {                                                                                                            \
        return unpack_bytes(row, column, columns, BYTE_FORMAT(id, name, __VA_ARGS__));                           \
    }                                                                                                            \
    ALWAYS_INLINE __m512 scales_of_row_##name(const uint8_t *row, size_t column, size_t columns, __m512 *minima) \
    {                                                                                                            \
        return scales_of_bytes(row, column, columns, minima, BYTE_FORMAT(id, name, __VA_ARGS__));                \
    }
BYTE_FORMATS(UNPACK_BYTES, avx512vnni)
COPY_BYTE_FORMATS(UNPACK_BYTES, avx512vnni)

#endif

/* ---- scales ---- */

/* Of blocks of 32 that begin with a float16: fewer instructions than those that would transpose them. */
ALWAYS_INLINE void scales_of_blocks(const uint8_t *const row[LANES], size_t column, size_t columns, size_t bytes,
                                    float (*scales)[PANEL_ROWS])
{
    for (size_t r = 0; r < LANES; r++)
        for (size_t b = 0; b < columns / 32; b++) {
            uint16_t half = 0;
            if (row[r])
                memcpy(&half, row[r] + (column / 32 + b) * bytes, sizeof(half));
            scales[b][r] = _cvtsh_ss(half);
        }
}

#define SCALES_OF_BLOCKS(name)                                                                       \
    ALWAYS_INLINE void scales_##name(const uint8_t *const row[LANES], size_t column, size_t columns, \
                                     float(*scales)[PANEL_ROWS], float(*minima)[PANEL_ROWS])         \
    {                                                                                                \
        (void)minima;                                                                                \
        scales_of_blocks(row, column, columns, sizeof(block_##name), scales);                        \
    }
SCALES_OF_BLOCKS(q8_0)
SCALES_OF_BLOCKS(q4_0)

/* Returns the scales of a row: one for each group in order; behind eight of them eight minima, or sixteen minima in *minima. */
typedef __m512 row_scale_function(const uint8_t *row, size_t column, size_t columns, __m512 *minima);

ALWAYS_INLINE void transpose_scales(const uint8_t *const row[LANES], size_t column, size_t columns,
                                    float (*scales)[PANEL_ROWS], float (*minima)[PANEL_ROWS],
                                    row_scale_function *scales_of_row, tile_kind kind)
{
    vector scale[LANES], minimum[LANES];
    for (size_t r = 0; r < LANES; r++) {
        scale[r] = minimum[r] = vector_of(0);
        if (row[r])
            scale[r] = scales_of_row(row[r], column, columns, &minimum[r]);
    }
    transpose_vectors(scale);
    if (kind.has_minima && kind.group == 16)
        transpose_vectors(minimum);
    for (size_t g = 0; g < columns / kind.group; g++) {
        vector_store(scales[g], scale[g]);
        if (kind.has_minima)
            vector_store(minima[g], kind.group == 16 ? minimum[g] : scale[8 + g]);
    }
}

#define TRANSPOSED_SCALES(id, name, kind)                                                            \
    ALWAYS_INLINE void scales_##name(const uint8_t *const row[LANES], size_t column, size_t columns, \
                                     float(*scales)[PANEL_ROWS], float(*minima)[PANEL_ROWS])         \
    {                                                                                                \
        transpose_scales(row, column, columns, scales, minima, scales_of_row_##name, kind_##kind);   \
    }

/* ---- panels ---- */

/* Unpacks up to 16 rows into the panel from its row `first` on. */
ALWAYS_INLINE void fill_16_rows(const uint8_t *const row[LANES], size_t start, size_t columns, size_t first, panel *p,
                                unpack_function *unpack, scale_function *scale, tile_kind kind)
{
    for (size_t c = 0; c < columns; c += SCALED) {
        size_t n = columns - c < SCALED ? columns - c : SCALED, g = c / kind.group;
        scale(row, start + c, n, (float(*)[PANEL_ROWS])(p->scales[g] + first),
              (float(*)[PANEL_ROWS])(p->minima[g] + first));
    }
    for (size_t c = 0; c < columns; c += STEP) {
        size_t n = columns - c < STEP ? columns - c : STEP;
        __m512i v[LANES];
        for (size_t r = 0; r < LANES; r++)
            v[r] = row[r] ? unpack(row[r], start + c, n) : _mm512_setzero_si512();
        transpose_16(v);
        for (size_t k = 0; k < n / 4; k++)
            _mm512_store_si512(p->weights[c / 4 + k][first], v[k]);
    }
}

#define FILL(id, name, kind)                                                                                \
    static __attribute__((noinline)) void fill_##name(const uint8_t *const row[PANEL_ROWS], size_t start,   \
                                                      size_t columns, panel *p)                             \
    {                                                                                                       \
        for (size_t first = 0; first < PANEL_ROWS; first += LANES)                                          \
            fill_16_rows(row + first, start, columns, first, p, unpack_##name, scales_##name, kind_##kind); \
    }

// clang-format off
#define TILE_FORMATS_OF_BLOCKS(X)  \
    X(Q8_0, q8_0, bytes)           \
    X(Q4_0, q4_0, nibbles)
#define TRANSPOSED_FORMATS_OF_ALL(X) \
    X(Q4_K, q4_k, nibbles_minima)  \
    X(Q6_K, q6_k, sixes_by_16)
#ifdef WITH_VNNI
#define TRANSPOSED_FORMATS(X)      \
    TRANSPOSED_FORMATS_OF_ALL(X)   \
    X(Q4_1, q4_1, nibbles_minima)  \
    X(Q5_0, q5_0, bytes)           \
    X(Q5_1, q5_1, nibbles_minima)  \
    X(Q5_K, q5_k, nibbles_minima)  \
    X(IQ4_NL, iq4_nl, bytes)       \
    X(IQ4_XS, iq4_xs, bytes)       \
    X(MXFP4, mxfp4, bytes)         \
    X(TQ1_0, tq1_0, bytes)         \
    X(TQ2_0, tq2_0, bytes)         \
    X(Q1_0, q1_0, bytes)           \
    X(Q2_0, q2_0, bytes)           \
    X(SIGNS1, signs1, bytes)       \
    X(LEVELS2, levels2, bytes)     \
    X(IQ1_S, iq1_s, bytes)         \
    X(IQ2_XXS, iq2_xxs, bytes)     \
    X(IQ3_XXS, iq3_xxs, bytes)     \
    X(IQ3_S, iq3_s, bytes)         \
    X(Q2_K, q2_k, minima_by_16)    \
    X(Q3_K, q3_k, bytes_by_16)     \
    X(IQ1_M, iq1_m, bytes_by_16)   \
    X(IQ2_XS, iq2_xs, bytes_by_16) \
    X(IQ2_S, iq2_s, bytes_by_16)   \
    X(NVFP4, nvfp4, bytes_by_16)
#else
#define TRANSPOSED_FORMATS(X) TRANSPOSED_FORMATS_OF_ALL(X)
#endif
#define TILE_FORMATS(X) TILE_FORMATS_OF_BLOCKS(X) TRANSPOSED_FORMATS(X)
// clang-format on
TRANSPOSED_FORMATS(TRANSPOSED_SCALES)
TILE_FORMATS(FILL)

/* ---- multiplying ---- */

/* Computes start[] and totals[] of token t, where the format needs them. */
ALWAYS_INLINE void prepare(token_tile *x, size_t t, const int16_t *sums, size_t columns, tile_kind kind)
{
    const float *scales = x->scales + t * (x->stride / 32);
    int32_t *start = x->start[t];
    if (!kind.offset && !kind.has_minima)
        return;
    for (size_t g = 0; g < columns / 16; g += 32) { /* 32 sums: 512 columns */
        size_t left = columns / 16 - g;
        __mmask32 present = left >= 32 ? 0xffffffffu : (1u << left) - 1;
        __m512i pair = _mm512_maskz_loadu_epi16(present, sums + g);
        if (kind.group == 16) {
            __m512i factor = _mm512_set1_epi32(-kind.offset);
            __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(pair));
            __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(pair, 1));
            _mm512_store_si512(start + g, _mm512_mullo_epi32(low, factor));
            _mm512_store_si512(start + g + 16, _mm512_mullo_epi32(high, factor));
        } else {
            __m512i factor = _mm512_set1_epi16((short)-kind.offset);
            _mm512_store_si512(start + g / 2, _mm512_madd_epi16(pair, factor));
        }
        __m512 scale = _mm512_maskz_loadu_ps(first_lanes(left / 2), scales + g / 2);
        if (kind.has_minima && kind.group == 32) {
            __m512 sum = _mm512_cvtepi32_ps(_mm512_madd_epi16(pair, _mm512_set1_epi16(1)));
            _mm512_store_ps(x->totals[t] + g / 2, _mm512_mul_ps(sum, scale));
        } else if (kind.has_minima) {
            const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
            for (size_t h = 0; h < 2; h++) {
                __m256i half = h ? _mm512_extracti64x4_epi64(pair, 1) : _mm512_castsi512_si256(pair);
                __m512i lanes = _mm512_add_epi32(twice, _mm512_set1_epi32((int)(8 * h)));
                __m512 sum = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half));
                _mm512_store_ps(x->totals[t] + g + 16 * h, _mm512_mul_ps(sum, _mm512_permutexvar_ps(lanes, scale)));
            }
        }
    }
}

/* Keeps gcc from copying a sum to other registers before and after every addition to it. */
#ifdef __AVX512F__
#define IN_PLACE(v) __asm__("" : "+v"(v))
#else /* emulated */
#define IN_PLACE(v) ((void)0)
#endif

#ifdef WITH_VNNI

/* Adds the products of columns [k, k + group) of the panel with `count` tokens to dot. */
ALWAYS_INLINE void add_group(const panel *p, size_t k, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_kind kind)
{
    UNROLLED
    for (size_t i = 0; i < kind.group / 4; i++) {
        const uint8_t(*weights)[4] = p->weights[k / 4 + i];
        __m512i a = _mm512_load_si512(weights[0]), b = _mm512_load_si512(weights[LANES]);
        UNROLLED
        for (size_t t = 0; t < count; t++) {
            int32_t four;
            memcpy(&four, x->q + t * x->stride + k + 4 * i, sizeof(four));
            __m512i values = _mm512_set1_epi32(four);
            dot[t][0] = _mm512_dpbusd_epi32(dot[t][0], a, values);
            dot[t][1] = _mm512_dpbusd_epi32(dot[t][1], b, values);
            IN_PLACE(dot[t][0]);
            IN_PLACE(dot[t][1]);
        }
    }
}

#else

/* Multiplies four columns of sixteen rows with one token; products are added in pairs to 16 bits. */
ALWAYS_INLINE __m512i multiply_four(__m512i weights, __m512i values, tile_kind kind)
{
    if (!kind.is_signed)
        return _mm512_maddubs_epi16(weights, values);
    values = _mm512_mask_sub_epi8(values, _mm512_movepi8_mask(weights), _mm512_setzero_si512(), values);
    return _mm512_maddubs_epi16(_mm512_abs_epi8(weights), values);
}

/* The same without VNNI, for one half of the rows after the other: the 16-bit sums of all rows would not fit the
 * registers, and loading the values twice costs nothing. */
ALWAYS_INLINE void add_group(const panel *p, size_t k, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_kind kind)
{
    for (size_t h = 0; h < 2; h++) {
        __asm__("" ::: "memory"); /* keeps compilers from spilling the first half's values for the second half */
        UNROLLED
        for (size_t start = k; start < k + kind.group; start += 4 * kind.run) {
            __m512i pairs[TILE_TOKENS];
            UNROLLED
            for (size_t i = 0; i < kind.run; i++) {
                __m512i weights = _mm512_load_si512(p->weights[start / 4 + i][h * LANES]);
                UNROLLED
                for (size_t t = 0; t < count; t++) {
                    int32_t four;
                    memcpy(&four, x->q + t * x->stride + start + 4 * i, sizeof(four));
                    __m512i products = multiply_four(weights, _mm512_set1_epi32(four), kind);
                    pairs[t] = i == 0 ? products : _mm512_add_epi16(pairs[t], products);
                    IN_PLACE(pairs[t]);
                }
            }
            UNROLLED
            for (size_t t = 0; t < count; t++) {
                __m512i sums = _mm512_madd_epi16(pairs[t], _mm512_set1_epi16(1));
                dot[t][h] = _mm512_add_epi32(dot[t][h], sums);
            }
        }
    }
}

#endif

ALWAYS_INLINE void dot_group(const panel *p, size_t g, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_kind kind)
{
    for (size_t t = 0; t < count; t++)
        dot[t][0] = dot[t][1] = _mm512_set1_epi32(kind.offset ? x->start[t][g] : 0);
    add_group(p, g * kind.group, x, count, dot, kind);
}

ALWAYS_INLINE vector to_floats(__m512i v)
{
    return _mm512_cvtepi32_ps(v);
}

#include "tile.h"

#endif
