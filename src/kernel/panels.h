/* panels.h - the loops of float32 products with many tokens, shared by all vector levels. float_LEVEL.c includes it
 * after it has defined:
 *   LANES, PANEL_ROWS (two times LANES), PANEL_COLUMNS, PANELS (filled before they are multiplied with the tokens),
 *   TILE_TOKENS, TILES(X) (X of every number of tokens up to that)
 *   load_weights, load_f32, panel
 *   dot_rows    multiplies eight rows with one token
 *   fill_rows   fills LANES rows of a panel from LANES rows of a matrix
 *   tile        multiplies a panel's rows with some tokens
 * so it cannot be included on its own; everything in it is static. */
#ifndef KERNEL_PANELS_H
#define KERNEL_PANELS_H

typedef void tile_function(const panel *p, size_t columns, const tile_tokens *x, bool first, size_t rows, float *y,
                           size_t y_stride);

/* Defines a tile function for every number of tokens: a constant number lets compilers keep the sums in registers. */
#define X(n)                                                                                                      \
    static void tile_##n(const panel *p, size_t columns, const tile_tokens *x, bool first, size_t rows, float *y, \
                         size_t y_stride)                                                                         \
    {                                                                                                             \
        tile(p, columns, x, n, first, rows, y, y_stride);                                                         \
    }
TILES(X)
#undef X
#define X(n) tile_##n,
static tile_function *const tiles[] = {NULL, TILES(X)};
#undef X

/* Multiplies `rows` rows, in at most PANELS panels, with all tokens in columns [start, start + columns). If there are
 * several panels, a tile's tokens are first copied together and then multiplied with all of them out of the L1 cache:
 * in place tokens often lie a multiple of 4 KiB apart and would compete for one set of it. */
static void all_tokens(const panel *p, size_t rows, size_t start, size_t columns, const kernel_input *x, float *y,
                       size_t y_stride)
{
    _Alignas(64) float together[PANELS > 1 ? TILE_TOKENS : 1][PANEL_COLUMNS];
    for (size_t t = 0; t < x->count; t += TILE_TOKENS) {
        size_t n = x->count - t < TILE_TOKENS ? x->count - t : TILE_TOKENS;
        const float *from = x->values + t * x->columns + start;
        tile_tokens tokens = {from, x->columns, (uintptr_t)from + n * x->columns * sizeof(*from), x->columns};
        for (size_t k = 0; k < n && PANELS > 1; k++) {
            memcpy(together[k], from + k * x->columns, columns * sizeof(*from));
            tokens.values = together[0];
            tokens.stride = PANEL_COLUMNS;
        }
        for (size_t i = 0; i < rows; i += PANEL_ROWS) {
            tiles[n](p + i / PANEL_ROWS, columns, &tokens, start == 0, rows - i, y + t * y_stride + i, y_stride);
            tokens.next = 0;
        }
    }
}

/* Fills a panel with columns [start, start + columns) of rows [i, i + PANEL_ROWS); rows from `end` on become zeros. */
typedef void fill_function(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start, size_t columns,
                           panel *p);

ALWAYS_INLINE void fill_from_floats(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start,
                                    size_t columns, panel *p, load_weights *load)
{
    const uint8_t *row[PANEL_ROWS];
    for (size_t r = 0; r < PANEL_ROWS; r++)
        row[r] = i + r < end ? listed_row(w, list, i + r) : NULL;
    fill_rows(row, start, columns, load, p->weights);
    fill_rows(row + LANES, start, columns, load, (float(*)[PANEL_ROWS])(p->weights[0] + LANES));
}

/* Fills a panel from a block format, decoded to float32, half a panel at a time. */
ALWAYS_INLINE void fill_from_blocks(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start,
                                    size_t columns, panel *p)
{
    const number_traits *traits = &number_formats[w->format];
    float decoded[LANES][PANEL_COLUMNS];
    for (size_t half = 0; half < PANEL_ROWS; half += LANES) {
        const uint8_t *row[LANES] = {NULL};
        for (size_t r = 0; r < LANES && i + half + r < end; r++) {
            const uint8_t *from = listed_row(w, list, i + half + r);
            traits->decode(from + start / traits->block_values * traits->block_bytes, decoded[r], columns);
            row[r] = (const uint8_t *)decoded[r];
        }
        fill_rows(row, 0, columns, load_f32, (float(*)[PANEL_ROWS])(p->weights[0] + half));
    }
}

/* Multiplies rows [begin, end) with all tokens: fills PANELS panels, multiplies them with every token, and so on. */
ALWAYS_INLINE void many_tokens(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                               float *y, size_t y_stride, fill_function *fill)
{
    _Alignas(64) panel panels[PANELS];
    for (size_t i = begin; i < end; i += PANELS * PANEL_ROWS) {
        size_t rows = end - i < PANELS * PANEL_ROWS ? end - i : PANELS * PANEL_ROWS;
        for (size_t c = 0; c < x->columns; c += PANEL_COLUMNS) {
            size_t columns = x->columns - c < PANEL_COLUMNS ? x->columns - c : PANEL_COLUMNS;
            for (size_t r = 0; r < rows; r += PANEL_ROWS)
                fill(w, list, i + r, end, c, columns, &panels[r / PANEL_ROWS]);
            all_tokens(panels, rows, c, columns, x, y + i, y_stride);
        }
    }
}

/* Defines the product of a float format of `bytes` bytes per value whose load_NAME is defined. */
#define FLOAT_PRODUCT(name, bytes, level)                                                                     \
    ALWAYS_INLINE group_sums dot_##name(const row_group *rows, const kernel_input *x)                         \
    {                                                                                                         \
        return dot_rows(rows, x, bytes, load_##name);                                                         \
    }                                                                                                         \
    ALWAYS_INLINE void fill_##name(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start, \
                                   size_t columns, panel *p)                                                  \
    {                                                                                                         \
        fill_from_floats(w, list, i, end, start, columns, p, load_##name);                                    \
    }                                                                                                         \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,     \
                                         const kernel_input *x, float *y, size_t y_stride)                    \
    {                                                                                                         \
        if (x->count == 1)                                                                                    \
            rows_in_streams(w, list, begin, end, x, y, dot_##name);                                           \
        else                                                                                                  \
            many_tokens(w, list, begin, end, x, y, y_stride, fill_##name);                                    \
    }

#endif
