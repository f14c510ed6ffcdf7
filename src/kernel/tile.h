/* tile.h - block formats times many tokens of 8 bits: the loops, shared by all vector levels. A panel of rows is
 * unpacked once, rows in lanes, and multiplied with tile after tile of a few tokens. How a panel is filled belongs to the
 * format, how it is multiplied to its kind, which formats share. tile_LEVEL.h includes this at its end, after it has defined
 *   PANEL_ROWS, PANEL_COLUMNS, PANELS (filled before they are multiplied with the tokens, which are prepared once for
 *   all of them), TILE_TOKENS, TILES(X) (X of every number of tokens up to that), FETCHES_TOKENS (whether tiles prefetch the
 *   tokens of the next one), HALVED_TOKENS (up to so many tokens, panels are filled with half of their columns at a time, so that
 *   memory waits less for arithmetic)
 *   panel         its scales and minima are [..][PANEL_ROWS], one row of them per group
 *   token_tile    the tokens of a tile, from the panel's first column on:
 *                   q [TILE_TOKENS][stride], scales [TILE_TOKENS][stride / 32], stride
 *                   totals [TILE_TOKENS][..]: scale times sum of a group, which minima are multiplied with
 *   tile_kind     how panels are multiplied; `group` columns have one scale, has_minima
 *   integers      32-bit sums of LANES rows; to_floats converts them
 *   prepare       computes what a tile needs of token t besides its values, from its sums (kernel_input)
 *   dot_group     computes the exact sums of group g for `count` tokens
 *   TILE_KINDS(X)     calls X(kind, the members of its tile_kind) for every kind; kind_KIND is that, a constant
 *   TILE_FORMATS(X)   calls X(ID, name, kind) for every format; fill_NAME unpacks it: a fill_function */
#ifndef KERNEL_TILE_H
#define KERNEL_TILE_H

#include "ahead.h"

#define REGISTERS (PANEL_ROWS / LANES)

/* Unpacks columns [start, start + columns) of PANEL_ROWS rows (NULL: zeros) into a panel. */
typedef void fill_function(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p);

/* Multiplies the panel's rows with `count` tokens and goes on with the sums in y, or begins anew if `first`: so a sum does not depend
 * on how many columns panels are filled with. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const token_tile *x, size_t count, bool first, size_t rows,
                        float *y, size_t y_stride, tile_kind kind)
{
    vector sum[TILE_TOKENS][REGISTERS];
    UNROLLED
    for (size_t i = 0; i < count * REGISTERS; i++) {
        size_t t = i / REGISTERS, r = i % REGISTERS, row = r * LANES;
        sum[t][r] = first || rows <= row ? vector_of(0) : load_first(y + t * y_stride + row, rows - row);
    }
    for (size_t g = 0; g < columns / kind.group; g++) {
        integers dot[TILE_TOKENS][REGISTERS];
        for (size_t t = 0; t < count && FETCHES_TOKENS; t++) /* of the next tile */
            __builtin_prefetch(x->q + (TILE_TOKENS + t) * x->stride + g * kind.group);
        dot_group(p, g, x, count, dot, kind);
        size_t block = g / (32 / kind.group);
        vector row_scale[REGISTERS], row_minimum[REGISTERS];
        UNROLLED
        for (size_t r = 0; r < REGISTERS; r++) {
            row_scale[r] = in_register(vector_load(p->scales[g] + r * LANES));
            row_minimum[r] = kind.has_minima ? in_register(vector_load(p->minima[g] + r * LANES)) : vector_of(0);
        }
        UNROLLED
        for (size_t t = 0; t < count; t++) {
            vector scale = vector_of(x->scales[t * (x->stride / 32) + block]);
            UNROLLED
            for (size_t r = 0; r < REGISTERS; r++) {
                vector both = vector_multiply(row_scale[r], scale);
                sum[t][r] = vector_fma(sum[t][r], to_floats(dot[t][r]), both);
                if (kind.has_minima)
                    sum[t][r] = vector_fms(sum[t][r], row_minimum[r], vector_of(x->totals[t][g]));
            }
        }
    }
    UNROLLED
    for (size_t t = 0; t < count; t++) {
        UNROLLED
        for (size_t r = 0; r < REGISTERS; r++)
            if (rows > r * LANES)
                store_first(y + t * y_stride + r * LANES, rows - r * LANES, sum[t][r]);
    }
}

/* Multiplies tokens [t, t + TILE_TOKENS) with every panel in columns [c, c + columns). Meanwhile their share of what is filled
 * next is fetched. */
ALWAYS_INLINE void all_panels(const panel panels[PANELS], size_t rows, size_t c, size_t columns, const kernel_input *x,
                              size_t t, float *y, size_t y_stride, const next_fill *next, tile_kind kind)
{
    size_t count = x->count - t < TILE_TOKENS ? x->count - t : TILE_TOKENS, at = t * x->columns + c;
    token_tile part;
    part.q = x->q + at;
    part.scales = x->scales + at / 32;
    part.stride = x->columns;
    for (size_t k = 0; k < count; k++)
        prepare(&part, k, x->sums + (at + k * x->columns) / Q8_SUM, columns, kind);
    for (size_t r = 0; r < rows && r < PANELS * PANEL_ROWS; r += PANEL_ROWS) {
        fetch_share(next, x->count, t, r);
        switch (count) { /* a constant count lets the compiler keep the sums in registers */
#define X(n)                                                                                       \
    case n:                                                                                        \
        tile(&panels[r / PANEL_ROWS], columns, &part, n, c == 0, rows - r, y + r, y_stride, kind); \
        break;
            TILES(X)
#undef X
        default:
            break;
        }
    }
}

ALWAYS_INLINE void product_tiles(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                                 float *y, size_t y_stride, fill_function *fill, tile_kind kind)
{
    _Alignas(64) panel panels[PANELS];
    const size_t step = x->count <= HALVED_TOKENS ? PANEL_COLUMNS / 2 : PANEL_COLUMNS;
    for (size_t i = begin; i < end; i += PANELS * PANEL_ROWS)
        for (size_t c = 0; c < x->columns; c += step) {
            size_t n = x->columns - c < step ? x->columns - c : step;
            for (size_t p = 0; p < PANELS && i + p * PANEL_ROWS < end; p++) {
                const uint8_t *row[PANEL_ROWS];
                for (size_t r = 0, at = i + p * PANEL_ROWS; r < PANEL_ROWS; r++, at++)
                    row[r] = at < end ? listed_row(w, list, at) : NULL;
                fill(row, c, n, &panels[p]);
            }
            next_fill next = fill_after(w, list, i, PANELS * PANEL_ROWS, end, c, step);
            for (size_t t = 0; t < x->count; t += TILE_TOKENS)
                all_panels(panels, end - i, c, n, x, t, y + t * y_stride + i, y_stride, &next, kind);
        }
}

/* Defines the loop of every kind. */
#define X(kind, ...)                                                                                           \
    static __attribute__((noinline)) void multiply_##kind(const matrix *w, const uint32_t *list, size_t begin, \
                                                          size_t end, const kernel_input *x, float *y,         \
                                                          size_t y_stride, fill_function *fill)                \
    {                                                                                                          \
        product_tiles(w, list, begin, end, x, y, y_stride, fill, kind_##kind);                                 \
    }
TILE_KINDS(X)
#undef X

/* Defines the product with many tokens of a level, for the formats of TILE_FORMATS. */
#define TILED(id, name, kind)                                              \
    case FORMAT_##id:                                                      \
        multiply_##kind(w, list, begin, end, x, y, y_stride, fill_##name); \
        break;
#define TILE_PRODUCTS(level)                                                                                           \
    void level##_product_tiles(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x, \
                               float *y, size_t y_stride)                                                              \
    {                                                                                                                  \
        switch (w->format) {                                                                                           \
            TILE_FORMATS(TILED)                                                                                        \
        default: /* callers have no other */                                                                           \
            break;                                                                                                     \
        }                                                                                                              \
    }

#endif
