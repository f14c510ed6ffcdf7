/* tile_neon.h - block formats times many tokens of 8 bits, for block_neon.h.
 *
 * The plan of tile_avx2.h: a panel of 8 rows x 1024 columns, rows in lanes, tiles of 8 rows x 4 tokens. The panel holds
 * signed bytes with the format's offset already subtracted, so integer sums need no correction. */
#ifndef KERNEL_TILE_NEON_H
#define KERNEL_TILE_NEON_H

#include "neon.h"

#define PANEL_ROWS    LANES
#define PANEL_COLUMNS 1024
#define TILE_TOKENS   4
#define STEP          32 /* columns that are unpacked at a time: one block of activations */

/* [..][r] belongs to row r. */
typedef struct panel {
    int8_t weights[PANEL_COLUMNS / 4][PANEL_ROWS][4];
    float scales[PANEL_COLUMNS / 16][PANEL_ROWS];
    float minima[PANEL_COLUMNS / 32][PANEL_ROWS];
} panel;

/* The tokens of a tile, from the panel's first column on. */
typedef struct tokens {
    const int8_t *q;     /* [TILE_TOKENS][stride] */
    const float *scales; /* [TILE_TOKENS][stride / 32] */
    const int16_t *sums; /* [TILE_TOKENS][stride / 16] */
    size_t stride;
} tokens;

typedef struct tile_format {
    size_t group; /* columns with one scale: 16 or 32 */
    bool has_minima;
    /* Unpacks 32 weights of a row, from a column that is a multiple of 32, and writes their 32 / group scales and their
     * minimum, PANEL_ROWS apart. */
    bytes32 (*unpack)(const uint8_t *row, size_t column, float *scales, float *minimum);
} tile_format;

/* ---- unpacking ---- */

ALWAYS_INLINE bytes32 unpack_q8_0(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q8_0 *block = (const void *)(row + column / 32 * sizeof(block_q8_0));
    scales[0] = half_of(block->d);
    return bytes_q8_0(block);
}

ALWAYS_INLINE bytes32 unpack_q4_0(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q4_0 *block = (const void *)(row + column / 32 * sizeof(block_q4_0));
    scales[0] = half_of(block->d);
    return bytes_q4_0(block);
}

ALWAYS_INLINE bytes32 unpack_q4_k(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    size_t sub = column % 256 / 32;
    uint64_t sub_scale, sub_minimum;
    sub_scales(block->scales, &sub_scale, &sub_minimum);
    scales[0] = half_of(block->d) * (float)(sub_scale >> 8 * sub & 255);
    minimum[0] = half_of(block->dmin) * (float)(sub_minimum >> 8 * sub & 255);
    return bytes_q4_k(block, sub);
}

ALWAYS_INLINE bytes32 unpack_q6_k(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    size_t sub = column % 256 / 32;
    float d = half_of(block->d);
    scales[0] = d * (float)block->scales[2 * sub];
    scales[PANEL_ROWS] = d * (float)block->scales[2 * sub + 1];
    return bytes_q6_k(block, sub);
}

/* Stores 16 weights of row r as four groups of four columns. */
ALWAYS_INLINE void scatter(panel *p, size_t column, size_t r, int8x16_t bytes)
{
    int8_t four[4][4];
    vst1q_s8(four[0], bytes);
    for (size_t k = 0; k < 4; k++)
        memcpy(p->weights[column / 4 + k][r], four[k], sizeof(four[k]));
}

/* Unpacks columns [start, start + columns) of up to 8 rows (NULL: zeros) into the panel. */
ALWAYS_INLINE void fill(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p,
                        tile_format format)
{
    for (size_t c = 0; c < columns; c += STEP)
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            float *scales = &p->scales[c / format.group][r], *minimum = &p->minima[c / 32][r];
            bytes32 v = {vdupq_n_s8(0), vdupq_n_s8(0)};
            if (row[r]) {
                v = format.unpack(row[r], start + c, scales, minimum);
            } else { /* a row after the last one: computed but never stored, so any finite values will do */
                for (size_t g = 0; g < STEP / format.group; g++)
                    scales[g * PANEL_ROWS] = 0;
                minimum[0] = 0;
            }
            scatter(p, c, r, v.low);
            scatter(p, c + 16, r, v.high);
        }
}

/* ---- multiplying ---- */

/* Integers of eight rows. */
typedef struct integers8 {
    int32x4_t low, high;
} integers8;

/* Computes exact sums of one group (columns [k, k + group) of the panel) for `count` tokens. */
ALWAYS_INLINE void dot_group(const panel *p, size_t k, size_t group, const tokens *x, size_t count,
                             integers8 dot[TILE_TOKENS])
{
    for (size_t t = 0; t < count; t++)
        dot[t] = (integers8){vdupq_n_s32(0), vdupq_n_s32(0)};
    for (size_t end = k + group; k < end; k += 4) {
        int8x16_t low = vld1q_s8(p->weights[k / 4][0]), high = vld1q_s8(p->weights[k / 4][4]);
        for (size_t t = 0; t < count; t++) {
            int32_t four;
            memcpy(&four, x->q + t * x->stride + k, sizeof(four));
            int8x16_t values = vreinterpretq_s8_s32(vdupq_n_s32(four));
            dot[t].low = add_dots(dot[t].low, low, values);
            dot[t].high = add_dots(dot[t].high, high, values);
        }
    }
}

/* Multiplies the panel's 8 rows with `count` tokens; adds the sums to y, or writes them if `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tokens *x, size_t count, bool first, size_t rows,
                        float *y, size_t y_stride, tile_format format)
{
    vector sum[TILE_TOKENS];
    for (size_t t = 0; t < count; t++)
        sum[t] = vector_of(0);
    for (size_t g = 0; g < columns / format.group; g++) {
        integers8 dot[TILE_TOKENS];
        dot_group(p, g * format.group, format.group, x, count, dot);
        vector d = vector_load(p->scales[g]), minimum = vector_load(p->minima[g * format.group / 32]);
        for (size_t t = 0; t < count; t++) {
            const int16_t *sums = x->sums + t * (x->stride / 16) + g * (format.group / 16);
            float dx = x->scales[t * (x->stride / 32) + g * format.group / 32];
            vector products = {vcvtq_f32_s32(dot[t].low), vcvtq_f32_s32(dot[t].high)};
            sum[t] = vector_fma(sum[t], products, vector_multiply(d, vector_of(dx)));
            if (format.has_minima)
                sum[t] = fms8(sum[t], minimum, vector_of(dx * (float)(sums[0] + sums[1])));
        }
    }
    for (size_t t = 0; t < count; t++) {
        float *out = y + t * y_stride;
        if (!first)
            sum[t] = vector_add(load_first(out, rows), sum[t]);
        store_first(out, rows, sum[t]);
    }
}

ALWAYS_INLINE void tile_of(const panel *p, size_t columns, const tokens *x, size_t count, bool first, size_t rows,
                           float *y, size_t y_stride, tile_format format)
{
    /* A constant count lets the compiler keep the sums in registers. */
    switch (count) {
    case 1:
        tile(p, columns, x, 1, first, rows, y, y_stride, format);
        break;
    case 2:
        tile(p, columns, x, 2, first, rows, y, y_stride, format);
        break;
    case 3:
        tile(p, columns, x, 3, first, rows, y, y_stride, format);
        break;
    default:
        tile(p, columns, x, 4, first, rows, y, y_stride, format);
        break;
    }
}

/* ---- the loops, compiled once per format ---- */

ALWAYS_INLINE void product_tiles(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                                 float *y, size_t y_stride, tile_format format)
{
    _Alignas(64) panel p;
    for (size_t i = begin; i < end; i += PANEL_ROWS) {
        const uint8_t *row[PANEL_ROWS];
        for (size_t r = 0; r < PANEL_ROWS; r++)
            row[r] = i + r < end ? listed_row(w, list, i + r) : NULL;
        for (size_t c = 0; c < x->columns; c += PANEL_COLUMNS) {
            size_t n = x->columns - c < PANEL_COLUMNS ? x->columns - c : PANEL_COLUMNS;
            fill(row, c, n, &p, format);
            for (size_t t = 0; t < x->count; t += TILE_TOKENS) {
                size_t count = x->count - t < TILE_TOKENS ? x->count - t : TILE_TOKENS, at = t * x->columns + c;
                tokens part = {x->q + at, x->scales + at / 32, x->sums + at / 16, x->columns};
                tile_of(&p, n, &part, count, c == 0, end - i, y + t * y_stride + i, y_stride, format);
            }
        }
    }
}

#define TILES(name, group, has_minima)                                                                               \
    static __attribute__((noinline)) void tiles_##name(const matrix *w, const uint32_t *list, size_t begin,          \
                                                       size_t end, const kernel_input *x, float *y, size_t y_stride) \
    {                                                                                                                \
        tile_format format = {group, has_minima, unpack_##name};                                                     \
        product_tiles(w, list, begin, end, x, y, y_stride, format);                                                  \
    }
TILES(q8_0, 32, false)
TILES(q4_0, 32, false)
TILES(q4_k, 32, true)
TILES(q6_k, 16, false)

#endif
