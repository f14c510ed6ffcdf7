/* panel.h - float32 tiles, shared by all vector levels: a panel of rows, rows in lanes, times a few tokens, whose sums stay in
 * registers. Products of floats (panels.h) and the attention of many rows (attend_rows.h) are made of them. A file includes
 * this after avx2.h, avx512.h or neon.h, and after it has defined
 *   PANEL_ROWS (two times LANES), PANEL_COLUMNS, TILE_TOKENS, TILES(X) (X of every number of tokens up to that), NEXT_TILE
 *   (the cache that the tokens of the next tile are prefetched into, for __builtin_prefetch)
 * A panel and its tokens are words of 32 bits, and `columns` counts these. A word is a float32, unless the file defines
 *   multiply_add (adds the products of two registers of words to sums: vector_fma of float32), WORD_COLUMNS (columns of the
 *   matrix in a word: 1) */
#ifndef KERNEL_PANEL_H
#define KERNEL_PANEL_H

#define LINE 16 /* words of a token in 64 bytes */

#ifndef WORD_COLUMNS
#define WORD_COLUMNS 1
#define multiply_add vector_fma
#endif

typedef struct panel {
    float weights[PANEL_COLUMNS][PANEL_ROWS];
} panel;

/* Fills LANES rows of the panel with `columns` columns from `start` of as many rows of the matrix (NULL: zeros). */
ALWAYS_INLINE void fill_rows(const uint8_t *const row[LANES], size_t start, size_t columns, load_values *load,
                             float (*out)[PANEL_ROWS])
{
    for (size_t c = 0; c < columns; c += LANES) {
        size_t n = columns - c < LANES ? columns - c : LANES;
        vector v[LANES];
        for (size_t r = 0; r < LANES; r++)
            v[r] = row[r] ? load(row[r], start + c, n) : vector_of(0);
        transpose_vectors(v);
        for (size_t k = 0; k < LANES; k++) /* rows of `out` after the last column are never read */
            vector_store(out[c + k], v[k]);
    }
}

/* Multiplies PANEL_ROWS rows with `tokens` tokens over `columns` columns; adds the sums to y, or writes them if
 * `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tile_tokens *x, size_t tokens, bool first, size_t rows,
                        float *y, size_t y_stride)
{
    vector sum[TILE_TOKENS][2];
    UNROLLED
    for (size_t t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = vector_of(0);
    fetch_sums(y, y_stride, tokens, PANEL_ROWS);
    for (size_t line = 0; line < columns; line += LINE) {
        for (size_t t = 0; t < tokens && x->next; t++)
            __builtin_prefetch(next_token(x, t, line), 0, NEXT_TILE);
        size_t end = columns - line < LINE ? columns : line + LINE;
        TWICE
        for (size_t k = line; k < end; k++) {
            vector a = vector_load(p->weights[k]), b = vector_load(p->weights[k] + LANES);
            UNROLLED
            for (size_t t = 0; t < tokens; t++) {
                vector value = vector_of(x->values[t * x->stride + k]);
                sum[t][0] = multiply_add(sum[t][0], a, value);
                sum[t][1] = multiply_add(sum[t][1], b, value);
            }
        }
    }
    UNROLLED
    for (size_t t = 0; t < tokens; t++) {
        add_sums(sum[t][0], first, rows, y + t * y_stride);
        if (rows > LANES)
            add_sums(sum[t][1], first, rows - LANES, y + t * y_stride + LANES);
    }
}

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

#endif
