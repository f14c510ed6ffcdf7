/* ahead.h - the weights that panels will be filled from next, shared by all vector levels: they are fetched while the panels
 * that are there meet the tokens, so that memory and arithmetic work at the same time (README.md, Many tokens). A file
 * includes this after it has defined PANELS, PANEL_ROWS and TILE_TOKENS. */
#ifndef KERNEL_AHEAD_H
#define KERNEL_AHEAD_H

#include "streams.h"

/* `bytes` bytes, `at` bytes after the begin, of rows [row, row + rows) of a matrix or of a list of its rows. */
typedef struct next_fill {
    const matrix *w;
    const uint32_t *list;
    size_t row, rows, at, bytes;
} next_fill;

/* Returns what comes after `columns` columns from `column` of `rows` rows from `row`: the next columns of these rows, at most as
 * many; after the last column the first ones of the next rows before `end`, at most as many; after these nothing. */
ALWAYS_INLINE next_fill fill_after(const matrix *w, const uint32_t *list, size_t row, size_t rows, size_t end,
                                   size_t column, size_t columns)
{
    const number_traits *traits = &number_formats[w->format];
    bool wraps = column + columns >= w->columns;
    size_t first = wraps ? row + rows : row, from = wraps ? 0 : column + columns;
    size_t left = first < end ? end - first : 0, n = w->columns - from < columns ? w->columns - from : columns;
    return (next_fill){.w = w,
                       .list = list,
                       .row = first,
                       .rows = left < rows ? left : rows,
                       .at = from / traits->block_values * traits->block_bytes,
                       .bytes = n / traits->block_values * traits->block_bytes};
}

/* Fetches, into the second cache, from which a fill takes it, the share of one tile: tokens from t on, of `tokens`, with the panel
 * of rows from `row` on. All tiles have equal shares. */
ALWAYS_INLINE void fetch_share(const next_fill *next, size_t tokens, size_t t, size_t row)
{
    size_t tiles = (tokens + TILE_TOKENS - 1) / TILE_TOKENS * PANELS,
           tile = t / TILE_TOKENS * PANELS + row / PANEL_ROWS;
    for (size_t r = next->rows * tile / tiles; r < next->rows * (tile + 1) / tiles; r++) {
        const uint8_t *from = listed_row(next->w, next->list, next->row + r) + next->at;
        for (size_t i = 0; i < next->bytes; i += 64)
            __builtin_prefetch(from + i, 0, 2);
    }
}

#endif
