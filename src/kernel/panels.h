/* panels.h - the loops of float32 products with many tokens, the same at every level that has vectors. float_LEVEL.c
 * includes it once it has defined what is its own:
 *   LANES, PANEL_ROWS (two times LANES), PANEL_COLUMNS, TILE_TOKENS, TILES(X) (X of every number of tokens up to that)
 *   load_weights, panel
 *   dot_rows    eight rows with one token
 *   fill_rows   LANES rows of a panel from LANES rows of a matrix
 *   tile        sums of a panel's rows with some tokens
 * so it is no header of its own; everything in it is static. */
#ifndef KERNEL_PANELS_H
#define KERNEL_PANELS_H

typedef void tile_function(const panel *p, size_t columns, const float *x, size_t x_stride, bool first, size_t rows,
                           float *y, size_t y_stride);

/* A tile for every number of tokens: a constant number lets the compiler keep the sums in registers. */
#define X(n)                                                                                                       \
    static void tile_##n(const panel *p, size_t columns, const float *x, size_t x_stride, bool first, size_t rows, \
                         float *y, size_t y_stride)                                                                \
    {                                                                                                              \
        tile(p, columns, x, x_stride, n, first, rows, y, y_stride);                                                \
    }
TILES(X)
#undef X
#define X(n) tile_##n,
static tile_function *const tiles[] = {NULL, TILES(X)};
#undef X

/* All tokens with the panel's rows and columns [start, start + columns). */
static void all_tokens(const panel *p, size_t rows, size_t start, size_t columns, const kernel_input *x, float *y,
                       size_t y_stride)
{
    for (size_t t = 0; t < x->count; t += TILE_TOKENS) {
        size_t n = x->count - t < TILE_TOKENS ? x->count - t : TILE_TOKENS;
        tiles[n](p, columns, x->values + t * x->columns + start, x->columns, start == 0, rows, y + t * y_stride,
                 y_stride);
    }
}

ALWAYS_INLINE void rows_many_tokens(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                    const kernel_input *x, float *y, size_t y_stride, load_weights *load)
{
    _Alignas(64) panel p;
    for (size_t i = begin; i < end; i += PANEL_ROWS) {
        const uint8_t *row[PANEL_ROWS];
        for (size_t r = 0; r < PANEL_ROWS; r++)
            row[r] = i + r < end ? listed_row(w, list, i + r) : NULL;
        for (size_t c = 0; c < x->columns; c += PANEL_COLUMNS) {
            size_t n = x->columns - c < PANEL_COLUMNS ? x->columns - c : PANEL_COLUMNS;
            fill_rows(row, c, n, load, p.weights);
            fill_rows(row + LANES, c, n, load, (float(*)[PANEL_ROWS])(p.weights[0] + LANES));
            all_tokens(&p, end - i, c, n, x, y + i, y_stride);
        }
    }
}

/* The same for block formats, decoded to float32 half a panel at a time; `load` is that of float32. */
ALWAYS_INLINE void decoded_many_tokens(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                       const kernel_input *x, float *y, size_t y_stride, load_weights *load)
{
    const number_traits *traits = &number_formats[w->format];
    float decoded[LANES][PANEL_COLUMNS];
    _Alignas(64) panel p;
    for (size_t i = begin; i < end; i += PANEL_ROWS)
        for (size_t c = 0; c < x->columns; c += PANEL_COLUMNS) {
            size_t n = x->columns - c < PANEL_COLUMNS ? x->columns - c : PANEL_COLUMNS;
            for (size_t half = 0; half < PANEL_ROWS; half += LANES) {
                const uint8_t *row[LANES] = {NULL};
                for (size_t r = 0; r < LANES && i + half + r < end; r++) {
                    const uint8_t *from = listed_row(w, list, i + half + r);
                    traits->decode(from + c / traits->block_values * traits->block_bytes, decoded[r], n);
                    row[r] = (const uint8_t *)decoded[r];
                }
                fill_rows(row, 0, n, load, (float(*)[PANEL_ROWS])(p.weights[0] + half));
            }
            all_tokens(&p, end - i, c, n, x, y + i, y_stride);
        }
}

/* The product of a float format of `bytes` bytes whose load_NAME is defined. */
#define FLOAT_PRODUCT(name, bytes, level)                                                                 \
    ALWAYS_INLINE group_sums dot_##name(const row_group *rows, const kernel_input *x)                     \
    {                                                                                                     \
        return dot_rows(rows, x, bytes, load_##name);                                                     \
    }                                                                                                     \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                         const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                                     \
        if (x->count == 1)                                                                                \
            rows_in_streams(w, list, begin, end, x, y, dot_##name);                                       \
        else                                                                                              \
            rows_many_tokens(w, list, begin, end, x, y, y_stride, load_##name);                           \
    }

#endif
