/* tile_neon.h - block formats times many tokens of 8 bits, for block_neon.h.
 *
 * The plan of tile_avx2.h: a panel of 8 rows x 1024 columns, rows in lanes, tiles of 8 rows x 4 tokens. The panel holds
 * signed bytes with the format's offset already subtracted, so integer sums need no correction. */
#ifndef KERNEL_TILE_NEON_H
#define KERNEL_TILE_NEON_H

#include "neon.h"

#define PANEL_ROWS     LANES
#define PANEL_COLUMNS  1024
#define PANELS         1
#define TILE_TOKENS    4
#define TILES(X)       X(1) X(2) X(3) X(4)
#define FETCHES_TOKENS true
#define HALVED_TOKENS  0
#define STEP           32 /* columns that are unpacked at a time: one block of activations */

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
    size_t stride;
    float totals[TILE_TOKENS][PANEL_COLUMNS / 32]; /* Q4_K: scale times sum of 32 columns */
} token_tile;

typedef struct tile_kind {
    size_t group; /* columns with one scale: 16 or 32 */
    bool has_minima;
} tile_kind;

#define TILE_KINDS(X)   \
    X(by_32, 32, false) \
    X(minima, 32, true) \
    X(by_16, 16, false)
#define X(kind, ...) static const tile_kind kind_##kind = {__VA_ARGS__};
TILE_KINDS(X)
#undef X

/* Unpacks 32 weights of a row, from a column that is a multiple of 32, and writes their scales, one per group, and their
 * minimum, PANEL_ROWS apart. */
typedef bytes32 unpack_function(const uint8_t *row, size_t column, float *scales, float *minimum);

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

ALWAYS_INLINE void fill_rows(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p,
                             unpack_function *unpack, size_t group)
{
    for (size_t c = 0; c < columns; c += STEP)
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            float *scales = &p->scales[c / group][r], *minimum = &p->minima[c / 32][r];
            bytes32 v = {vdupq_n_s8(0), vdupq_n_s8(0)};
            if (row[r]) {
                v = unpack(row[r], start + c, scales, minimum);
            } else { /* a row after the last one: computed but never stored, so any finite values will do */
                for (size_t g = 0; g < STEP / group; g++)
                    scales[g * PANEL_ROWS] = 0;
                minimum[0] = 0;
            }
            scatter(p, c, r, v.low);
            scatter(p, c + 16, r, v.high);
        }
}

#define TILE_FORMATS(X)   \
    X(Q8_0, q8_0, by_32)  \
    X(Q4_0, q4_0, by_32)  \
    X(Q4_K, q4_k, minima) \
    X(Q6_K, q6_k, by_16)
#define FILL(id, name, kind)                                                                              \
    static void fill_##name(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p) \
    {                                                                                                     \
        fill_rows(row, start, columns, p, unpack_##name, kind_##kind.group);                              \
    }
TILE_FORMATS(FILL)

/* ---- multiplying ---- */

/* Integers of eight rows. */
typedef struct integers {
    int32x4_t low, high;
} integers;

ALWAYS_INLINE vector to_floats(integers v)
{
    return (vector){vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)};
}

ALWAYS_INLINE void prepare(token_tile *x, size_t t, const int16_t *sums, size_t columns, tile_kind kind)
{
    const float *scales = x->scales + t * (x->stride / 32);
    for (size_t g = 0; g < columns / 32 && kind.has_minima; g++)
        x->totals[t][g] = scales[g] * (float)(sums[2 * g] + sums[2 * g + 1]);
}

ALWAYS_INLINE void dot_group(const panel *p, size_t g, const token_tile *x, size_t count, integers dot[TILE_TOKENS][1],
                             tile_kind kind)
{
    for (size_t t = 0; t < count; t++)
        dot[t][0] = (integers){vdupq_n_s32(0), vdupq_n_s32(0)};
    for (size_t k = g * kind.group, end = k + kind.group; k < end; k += 4) {
        int8x16_t low = vld1q_s8(p->weights[k / 4][0]), high = vld1q_s8(p->weights[k / 4][4]);
        for (size_t t = 0; t < count; t++) {
            int32_t four;
            memcpy(&four, x->q + t * x->stride + k, sizeof(four));
            int8x16_t values = vreinterpretq_s8_s32(vdupq_n_s32(four));
            dot[t][0].low = add_dots(dot[t][0].low, low, values);
            dot[t][0].high = add_dots(dot[t][0].high, high, values);
        }
    }
}

#include "tile.h"

#endif
