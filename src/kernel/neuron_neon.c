/* neuron_neon.c - neuron-major networks: adds up listed rows, for one token and for many. The plan is that of
 * neuron_avx2.c, with 32 columns in registers for one token. Selecting and transposing are left to the scalar kernels,
 * for which compilers use NEON by themselves. */
#include "decode_neon.h"

#define ROWS_AT_ONCE 8  /* rows at a time with one token */
#define TILE_ROWS    64 /* rows at a time with many tokens */
#define TILE_COLUMNS 32

/* Loads the sums of n columns, at most WEIGHT_STEP. */
ALWAYS_INLINE void load_sums(const float *y, size_t n, floats8 *sum)
{
    for (size_t v = 0; v * LANES < n; v++)
        sum[v] = load_first(y + v * LANES, n - v * LANES);
}

ALWAYS_INLINE void store_sums(const floats8 *sum, size_t n, float *y)
{
    for (size_t v = 0; v * LANES < n; v++)
        store_first(y + v * LANES, n - v * LANES, sum[v]);
}

/* ---- one token ---- */

/* Rows that are added together, each from the chunk's first column on, and the rows prefetched meanwhile. */
typedef struct adding {
    size_t count;
    const uint8_t *now[ROWS_AT_ONCE];
    uintptr_t next[ROWS_AT_ONCE]; /* addresses, not pointers: the last prefetch may lie behind the row */
    float h[ROWS_AT_ONCE];
    float scales[ROWS_AT_ONCE][WEIGHT_SCALES];
} adding;

/* Adds the rows to y, the sums of n columns from `column` of the chunk. */
ALWAYS_INLINE void add_columns(const adding *rows, size_t column, size_t n, float *y, weight_decoder format)
{
    floats8 sum[WEIGHT_PAIRS];
    load_sums(y, n, sum);
    size_t at = column / format.block_values * format.block_bytes, bytes = n * format.block_bytes / format.block_values;
    for (size_t r = 0; r < rows->count; r++) {
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(rows->next[r] + at + i));
        floats8 w[WEIGHT_PAIRS], h = all8(rows->h[r]);
        format.decode(rows->now[r], rows->scales[r], column, n, w);
        for (size_t v = 0; v * LANES < n; v++)
            sum[v] = fma8(sum[v], h, w[v]);
    }
    store_sums(sum, n, y);
}

ALWAYS_INLINE void add_chunk(adding *rows, size_t columns, float *y, weight_decoder format)
{
    for (size_t r = 0; r < rows->count && format.scales; r++)
        format.scales(rows->now[r], columns, rows->scales[r]);
    size_t c = 0;
    for (; c + WEIGHT_STEP <= columns; c += WEIGHT_STEP)
        add_columns(rows, c, WEIGHT_STEP, y + c, format);
    for (; c < columns && format.block_values == 1; c += LANES)
        add_columns(rows, c, columns - c < LANES ? columns - c : LANES, y + c, format);
    size_t bytes = WEIGHT_CHUNK / format.block_values * format.block_bytes;
    for (size_t r = 0; r < rows->count; r++) {
        rows->now[r] += bytes;
        rows->next[r] += bytes;
    }
}

ALWAYS_INLINE void accumulate(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h, float *y,
                              weight_decoder format)
{
    for (size_t i = begin; i < end; i += ROWS_AT_ONCE) {
        adding rows;
        rows.count = end - i < ROWS_AT_ONCE ? end - i : ROWS_AT_ONCE;
        for (size_t r = 0; r < rows.count; r++) {
            rows.now[r] = listed_row(w, list, i + r);
            rows.next[r] = (uintptr_t)listed_row(w, list, i + r + ROWS_AT_ONCE < end ? i + r + ROWS_AT_ONCE : end - 1);
            rows.h[r] = h[i + r];
        }
        for (size_t c = 0; c < w->columns; c += WEIGHT_CHUNK)
            add_chunk(&rows, w->columns - c < WEIGHT_CHUNK ? w->columns - c : WEIGHT_CHUNK, y + c, format);
    }
}

/* ---- many tokens ---- */

typedef struct tile {
    float values[TILE_ROWS][TILE_COLUMNS];
} tile;

/* Decodes columns [column, column + n) of a row that begins at `row`, n at most TILE_COLUMNS. */
ALWAYS_INLINE void decode_piece(const uint8_t *row, size_t columns, size_t column, size_t n, float *values,
                                weight_decoder format)
{
    size_t start = column / WEIGHT_CHUNK * WEIGHT_CHUNK, left = columns - start;
    const uint8_t *chunk = row + start / format.block_values * format.block_bytes;
    float scales[WEIGHT_SCALES];
    floats8 w[WEIGHT_PAIRS];
    if (format.scales)
        format.scales(chunk, left < WEIGHT_CHUNK ? left : WEIGHT_CHUNK, scales);
    size_t step = n == WEIGHT_STEP ? WEIGHT_STEP : LANES;
    for (size_t c = 0; c < n; c += step) {
        size_t some = n - c < step ? n - c : step;
        format.decode(chunk, scales, column - start + c, some, w);
        store_sums(w, some, values + c);
    }
}

/* Adds the firing rows for one token: the sums of n columns of the tile. */
ALWAYS_INLINE void add_firing(const tile *t, size_t rows, size_t n, const float *h, float *y)
{
    floats8 sum[TILE_COLUMNS / LANES];
    load_sums(y, n, sum);
    for (size_t r = 0; r < rows; r++) {
        if (h[r] == 0)
            continue;
        floats8 coefficient = all8(h[r]);
        for (size_t v = 0; v * LANES < n; v++) /* values after the last column are not stored */
            sum[v] = fma8(sum[v], coefficient, load8(t->values[r] + v * LANES));
    }
    store_sums(sum, n, y);
}

ALWAYS_INLINE void accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                   size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                   size_t y_stride, weight_decoder format)
{
    tile t = {{{0}}};
    for (size_t i = begin; i < end; i += TILE_ROWS)
        for (size_t c = 0; c < columns; c += TILE_COLUMNS) {
            size_t rows = end - i < TILE_ROWS ? end - i : TILE_ROWS;
            size_t n = columns - c < TILE_COLUMNS ? columns - c : TILE_COLUMNS;
            for (size_t r = 0; r < rows; r++)
                decode_piece(listed_row(w, list, i + r), w->columns, column + c, n, t.values[r], format);
            for (size_t k = 0; k < tokens; k++)
                add_firing(&t, rows, n, h + k * h_stride + i, y + k * y_stride + c);
        }
}

/* ---- the table ---- */

#define X(id, name, scales, values, bytes)                                                                     \
    static void accumulate_##name##_neon(const matrix *w, const uint32_t *list, size_t begin, size_t end,      \
                                         const float *h, float *y)                                             \
    {                                                                                                          \
        weight_decoder format = {values, bytes, scales, decode_##name};                                        \
        accumulate(w, list, begin, end, h, y, format);                                                         \
    }                                                                                                          \
    static void accumulate_many_##name##_neon(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                              size_t column, size_t columns, const float *h, size_t h_stride,  \
                                              size_t tokens, float *y, size_t y_stride)                        \
    {                                                                                                          \
        weight_decoder format = {values, bytes, scales, decode_##name};                                        \
        accumulate_many(w, list, begin, end, column, columns, h, h_stride, tokens, y, y_stride, format);       \
    }
WEIGHT_DECODERS(X)
#undef X

const kernels neon_neurons = {
#define X(id, name, ...) [FORMAT_##id] = accumulate_##name##_neon,
    .accumulate = {WEIGHT_DECODERS(X)},
#undef X
#define X(id, name, ...) [FORMAT_##id] = accumulate_many_##name##_neon,
    .accumulate_many = {WEIGHT_DECODERS(X)},
#undef X
};
