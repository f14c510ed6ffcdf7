/* tile_avx512.h - block formats times many tokens of 8 bits, compiled with VNNI (tile_avx512vnni.c defines WITH_VNNI)
 * and without (tile_avx512.c).
 *
 * 32 rows x 1024 columns of weights are unpacked once to unsigned bytes into a panel on the stack, rows in lanes: a
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
 * All four formats use one loop: a weight is scale * (byte - offset) - minimum, with a scale per 16 or 32 columns. */
#ifndef KERNEL_TILE_AVX512_H
#define KERNEL_TILE_AVX512_H

#include "avx512.h"

/* The offset that makes the weights of Q8_0 unsigned. Without VNNI they stay signed, and multiply_four() moves the sign
 * to the token's values. */
#ifdef WITH_VNNI
#define Q8_0_OFFSET 128
#else
#define Q8_0_OFFSET 0
#endif

#define PANEL_ROWS    32
#define PANEL_COLUMNS 1024
#define PANELS        1
#define TILE_TOKENS   6
#define TILES(X)      X(1) X(2) X(3) X(4) X(5) X(6)
#define STEP          64 /* columns that are unpacked at a time */

/* [..][r] belongs to row r. A tile reads 36 KiB of it if the format has one scale per 32 columns and no minima. */
typedef struct panel {
    uint8_t weights[PANEL_COLUMNS / 4][PANEL_ROWS][4];
    float scales[PANEL_COLUMNS / 16][PANEL_ROWS];
    float minima[PANEL_COLUMNS / 32][PANEL_ROWS];
} panel;

/* The tokens of a tile, from the panel's first column on. */
typedef struct tokens {
    const int8_t *q;     /* [TILE_TOKENS][stride] */
    const float *scales; /* [TILE_TOKENS][stride / 32] */
    size_t stride;
    _Alignas(64) int32_t start[TILE_TOKENS][PANEL_COLUMNS / 16]; /* -offset times the sum of each group */
    _Alignas(64) float totals[TILE_TOKENS][PANEL_COLUMNS / 32];  /* scale times sum of 32 columns */
} token_tile;

typedef __m512i integers;

typedef struct tile_format {
    size_t group; /* columns with one scale: 16 or 32 */
    bool has_minima;
    size_t run;     /* products of four columns that can be added in 16 bits */
    bool is_signed; /* weights are signed bytes */
    int offset;     /* what was added to a weight to make it unsigned */
    /* Unpacks 64 weights of a row, from a column that is a multiple of 64; the last step of a row may have only 32. */
    __m512i (*unpack)(const uint8_t *row, size_t column, size_t columns);
    /* Writes the scales (and minima) of those 64: entries [0, 64 / group) of a row, PANEL_ROWS apart. */
    void (*scales)(const uint8_t *row, size_t column, size_t columns, float *scales, float *minima);
} tile_format;

/* ---- unpacking ---- */

ALWAYS_INLINE __m512i low_nibbles(__m512i bytes)
{
    return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}

/* Returns the low nibbles in the lower and the high nibbles in the upper half of a register. */
ALWAYS_INLINE __m512i split_nibbles(__m256i bytes)
{
    return low_nibbles(_mm512_inserti64x4(_mm512_castsi256_si512(bytes), _mm256_srli_epi16(bytes, 4), 1));
}

/* Writes the scales of n blocks of `bytes` bytes, which begin with them. */
ALWAYS_INLINE void scales_of_blocks(const uint8_t *block, size_t n, size_t bytes, float *scales)
{
    for (size_t b = 0; b < n; b++) {
        uint16_t half;
        memcpy(&half, block + b * bytes, sizeof(half));
        scales[b * PANEL_ROWS] = _cvtsh_ss(half);
    }
}

ALWAYS_INLINE __m512i unpack_q8_0(const uint8_t *row, size_t column, size_t columns)
{
    const block_q8_0 *block = (const void *)(row + column / 32 * sizeof(block_q8_0));
    __m512i weights = _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)block->q));
    if (columns > 32)
        weights = _mm512_inserti64x4(weights, _mm256_loadu_si256((const void *)block[1].q), 1);
    return _mm512_xor_si512(weights, _mm512_set1_epi8((char)Q8_0_OFFSET)); /* + 128, or as they are */
}

ALWAYS_INLINE void scales_q8_0(const uint8_t *row, size_t column, size_t columns, float *scales, float *minima)
{
    (void)minima;
    scales_of_blocks(row + column / 32 * sizeof(block_q8_0), columns / 32, sizeof(block_q8_0), scales);
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

ALWAYS_INLINE void scales_q4_0(const uint8_t *row, size_t column, size_t columns, float *scales, float *minima)
{
    (void)minima;
    scales_of_blocks(row + column / 32 * sizeof(block_q4_0), columns / 32, sizeof(block_q4_0), scales);
}

ALWAYS_INLINE __m512i unpack_q4_k(const uint8_t *row, size_t column, size_t columns)
{
    (void)columns;
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    return split_nibbles(_mm256_loadu_si256((const void *)(block->nibbles + column % 256 / 2)));
}

ALWAYS_INLINE void scales_q4_k(const uint8_t *row, size_t column, size_t columns, float *scales, float *minima)
{
    (void)columns;
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    uint64_t sub_scale, sub_minimum;
    sub_scales(block->scales, &sub_scale, &sub_minimum);
    float d = _cvtsh_ss(block->d), dmin = _cvtsh_ss(block->dmin);
    for (size_t i = 0; i < 2; i++) {
        size_t shift = 8 * (column % 256 / 32 + i);
        scales[i * PANEL_ROWS] = d * (float)(sub_scale >> shift & 255);
        minima[i * PANEL_ROWS] = dmin * (float)(sub_minimum >> shift & 255);
    }
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

ALWAYS_INLINE void scales_q6_k(const uint8_t *row, size_t column, size_t columns, float *scales, float *minima)
{
    (void)minima, (void)columns;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    const int8_t *numbers = block->scales + column % 256 / 16;
    float d = _cvtsh_ss(block->d);
    for (size_t i = 0; i < 4; i++)
        scales[i * PANEL_ROWS] = d * (float)numbers[i];
}

/* Unpacks columns [start, start + columns) of up to 16 rows (NULL: zeros) into the panel from its row `first` on. */
ALWAYS_INLINE void fill_16_rows(const uint8_t *const row[LANES], size_t start, size_t columns, size_t first, panel *p,
                                tile_format format)
{
    for (size_t c = 0; c < columns; c += STEP) {
        size_t n = columns - c < STEP ? columns - c : STEP;
        __m512i v[LANES];
        for (size_t r = 0; r < LANES; r++) {
            float *scales = &p->scales[c / format.group][first + r], *minima = &p->minima[c / 32][first + r];
            v[r] = _mm512_setzero_si512();
            if (row[r]) {
                v[r] = format.unpack(row[r], start + c, n);
                format.scales(row[r], start + c, n, scales, minima);
            } else {
                for (size_t g = 0; g < n / format.group; g++)
                    scales[g * PANEL_ROWS] = 0;
                for (size_t g = 0; g < n / 32 && format.has_minima; g++)
                    minima[g * PANEL_ROWS] = 0;
            }
        }
        transpose_16(v);
        for (size_t k = 0; k < n / 4; k++)
            _mm512_store_si512(p->weights[c / 4 + k][first], v[k]);
    }
}

ALWAYS_INLINE void fill(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p,
                        tile_format format)
{
    fill_16_rows(row, start, columns, 0, p, format);
    fill_16_rows(row + LANES, start, columns, LANES, p, format);
}

/* ---- multiplying ---- */

/* Computes start[] and totals[] of token t, where the format needs them. */
ALWAYS_INLINE void prepare(token_tile *x, size_t t, const int16_t *sums, size_t columns, tile_format format)
{
    const float *scales = x->scales + t * (x->stride / 32);
    int32_t *start = x->start[t];
    if (!format.offset && !format.has_minima)
        return;
    for (size_t g = 0; g < columns / 16; g += 32) { /* 32 sums: 512 columns */
        size_t left = columns / 16 - g;
        __mmask32 present = left >= 32 ? 0xffffffffu : (1u << left) - 1;
        __m512i pair = _mm512_maskz_loadu_epi16(present, sums + g);
        if (format.group == 16) {
            __m512i factor = _mm512_set1_epi32(-format.offset);
            __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(pair));
            __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(pair, 1));
            _mm512_store_si512(start + g, _mm512_mullo_epi32(low, factor));
            _mm512_store_si512(start + g + 16, _mm512_mullo_epi32(high, factor));
        } else {
            __m512i factor = _mm512_set1_epi16((short)-format.offset);
            _mm512_store_si512(start + g / 2, _mm512_madd_epi16(pair, factor));
        }
        if (format.has_minima) {
            __m512 sum = _mm512_cvtepi32_ps(_mm512_madd_epi16(pair, _mm512_set1_epi16(1)));
            __m512 scale = _mm512_maskz_loadu_ps(first_lanes(left / 2), scales + g / 2);
            _mm512_store_ps(x->totals[t] + g / 2, _mm512_mul_ps(sum, scale));
        }
    }
}

#ifdef WITH_VNNI

/* Adds the products of columns [k, k + group) of the panel with `count` tokens to dot. */
ALWAYS_INLINE void add_group(const panel *p, size_t k, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_format format)
{
    for (size_t end = k + format.group; k < end; k += 4) {
        __m512i a = _mm512_load_si512(p->weights[k / 4][0]), b = _mm512_load_si512(p->weights[k / 4][LANES]);
        for (size_t t = 0; t < count; t++) {
            int32_t four;
            memcpy(&four, x->q + t * x->stride + k, sizeof(four));
            dot[t][0] = _mm512_dpbusd_epi32(dot[t][0], a, _mm512_set1_epi32(four));
            dot[t][1] = _mm512_dpbusd_epi32(dot[t][1], b, _mm512_set1_epi32(four));
        }
    }
}

#else

/* Multiplies four columns of sixteen rows with one token; products are added in pairs to 16 bits. */
ALWAYS_INLINE __m512i multiply_four(__m512i weights, __m512i values, tile_format format)
{
    if (!format.is_signed)
        return _mm512_maddubs_epi16(weights, values);
    values = _mm512_mask_sub_epi8(values, _mm512_movepi8_mask(weights), _mm512_setzero_si512(), values);
    return _mm512_maddubs_epi16(_mm512_abs_epi8(weights), values);
}

/* The same without VNNI, for one half of the rows after the other: the 16-bit sums of all rows would not fit the
 * registers, and loading the values twice costs nothing. */
ALWAYS_INLINE void add_group(const panel *p, size_t k, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_format format)
{
    for (size_t h = 0; h < 2; h++) {
        __asm__("" ::: "memory"); /* keeps compilers from spilling the first half's values for the second half */
        for (size_t start = k; start < k + format.group; start += 4 * format.run) {
            __m512i pairs[TILE_TOKENS];
            for (size_t i = 0; i < format.run; i++) {
                __m512i weights = _mm512_load_si512(p->weights[start / 4 + i][h * LANES]);
                for (size_t t = 0; t < count; t++) {
                    int32_t four;
                    memcpy(&four, x->q + t * x->stride + start + 4 * i, sizeof(four));
                    __m512i products = multiply_four(weights, _mm512_set1_epi32(four), format);
                    pairs[t] = i == 0 ? products : _mm512_add_epi16(pairs[t], products);
                }
            }
            for (size_t t = 0; t < count; t++) {
                __m512i sums = _mm512_madd_epi16(pairs[t], _mm512_set1_epi16(1));
                dot[t][h] = _mm512_add_epi32(dot[t][h], sums);
            }
        }
    }
}

#endif

ALWAYS_INLINE void dot_group(const panel *p, size_t g, const token_tile *x, size_t count, __m512i dot[TILE_TOKENS][2],
                             tile_format format)
{
    for (size_t t = 0; t < count; t++)
        dot[t][0] = dot[t][1] = _mm512_set1_epi32(format.offset ? x->start[t][g] : 0);
    add_group(p, g * format.group, x, count, dot, format);
}

ALWAYS_INLINE vector to_floats(__m512i v)
{
    return _mm512_cvtepi32_ps(v);
}

/* Q8_0 is signed where Q8_0_OFFSET is 0. */
// clang-format off
#define TILE_FORMATS(X, level)                                                                          \
    X(level, Q8_0, q8_0, 32, false, 1, !Q8_0_OFFSET, Q8_0_OFFSET, unpack_q8_0, scales_q8_0)             \
    X(level, Q4_0, q4_0, 32, false, 8, false, 8, unpack_q4_0, scales_q4_0)                              \
    X(level, Q4_K, q4_k, 32, true, 8, false, 0, unpack_q4_k, scales_q4_k)                               \
    X(level, Q6_K, q6_k, 16, false, 2, false, 32, unpack_q6_k, scales_q6_k)
// clang-format on

#include "tile.h"

#endif
