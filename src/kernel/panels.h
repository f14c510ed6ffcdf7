/* panels.h - products with many tokens by panels of rows, shared by all vector levels. A file includes it after it has defined
 * what panel.h needs, and
 *   PANELS (filled before they are multiplied with the tokens) */
#ifndef KERNEL_PANELS_H
#define KERNEL_PANELS_H

#include "ahead.h"
#include "panel.h"

/* Multiplies `rows` rows, in at most PANELS panels, with all tokens in columns [start, start + columns), and fetches meanwhile
 * what is filled next. If there are several panels, a tile's tokens are first copied together and then multiplied with all of
 * them out of the L1 cache: in place tokens often lie a multiple of 4 KiB apart and would compete for one set of it. */
static void all_tokens(const panel *p, size_t rows, size_t start, size_t columns, const kernel_input *x, float *y,
                       size_t y_stride, const next_fill *next)
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
            fetch_share(next, x->count, t, i);
            tiles[n](p + i / PANEL_ROWS, columns, &tokens, start == 0, rows - i, y + t * y_stride + i, y_stride);
            tokens.next = 0;
        }
    }
}

/* Fills a panel with columns [start, start + columns) of rows [i, i + PANEL_ROWS); rows from `end` on become zeros. */
typedef void fill_function(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start, size_t columns,
                           panel *p);

ALWAYS_INLINE void fill_from_floats(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start,
                                    size_t columns, panel *p, load_values *load)
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
            next_fill next =
                fill_after(w, list, i, PANELS * PANEL_ROWS, end, c * WORD_COLUMNS, PANEL_COLUMNS * WORD_COLUMNS);
            all_tokens(panels, rows, c, columns, x, y + i, y_stride, &next);
        }
    }
}

#endif
