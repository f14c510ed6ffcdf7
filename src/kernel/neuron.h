/* neuron.h - adds up the rows of neurons, for one token and for many: the loops, shared by all vector levels.
 * neuron_LEVEL.c includes it after decode_LEVEL.h and after it has defined
 *   TILE_COLUMNS   columns of a tile: a multiple of LANES whose sums fit the registers
 *   PAIRS          whether two tokens share a tile's loads, for which their sums must fit the registers
 *   not_zero       returns which lanes of a vector are not zero, as bits
 *
 * One token or two: eight rows at a time are added to the sum, which stays in the L1 cache and is loaded and stored once
 * per eight rows. WEIGHT_STEP of its columns are in registers while the eight rows are decoded and added one after the
 * other, in the order that the definition requires. The next rows are prefetched meanwhile, with or without a list.
 *
 * Many tokens: 64 rows x TILE_COLUMNS columns are decoded once onto the stack, where they stay in the L1 cache, and
 * each token adds up the rows whose coefficients are not zero. With AVX-512 two tokens without zeros share the loads
 * of the tile, which otherwise limit the speed: an instruction reads 64 bytes and does 32 operations. Tried instead,
 * with AVX-512: tiles of 32 rows x 256 columns. If few coefficients are not zero, a token's sums are then loaded and
 * stored for half as many rows (10 to 20 % slower). */
#ifndef KERNEL_NEURON_H
#define KERNEL_NEURON_H

#define ROWS_AT_ONCE 8  /* rows at a time with one token */
#define TILE_ROWS    64 /* rows at a time with many tokens */
#define ROWS_OF_FEW  16 /* with few, but more than two     */

/* ---- one token or two ---- */

/* Rows that are added together, and the rows that are prefetched meanwhile. */
typedef struct adding {
    size_t count;
    const uint8_t *now[ROWS_AT_ONCE];
    uintptr_t next[ROWS_AT_ONCE]; /* addresses, not pointers: the last prefetch may lie behind the row */
    float h[2][ROWS_AT_ONCE];
    float scales[ROWS_AT_ONCE][WEIGHT_SCALES]; /* of a span that is longer than WEIGHT_STEP */
} adding;

/* Adds the rows to y, the sums of n columns from `column` of the span that begins with column `start`, for one or two
 * tokens. The scales of a short span are prepared here, where they are used: preparing those of all rows before is 15 %
 * slower. */
ALWAYS_INLINE void add_columns(const adding *rows, size_t tokens, size_t start, size_t column, size_t n, float *y,
                               size_t y_stride, weight_decoder format)
{
    vector sum[2][WEIGHT_VECTORS];
    load_columns(y, n, sum[0]);
    if (tokens > 1)
        load_columns(y + y_stride, n, sum[1]);
    size_t at = offset_of(start, format), bytes = n * format.block_bytes / format.block_values;
    size_t ahead = at + column * format.block_bytes / format.block_values;
    for (size_t r = 0; r < rows->count; r++) {
        const uint8_t *base = rows->now[r] + at;
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(rows->next[r] + ahead + i));
        const float *scales = rows->scales[r];
        float own[WEIGHT_SCALES];
        if (format.scales && span_length(format) == WEIGHT_STEP) {
            format.scales(base, n, own);
            __asm__("" : "+m"(own)); /* otherwise compilers broadcast them from a register, which uses port 5 */
            scales = own;
        }
        vector w[WEIGHT_VECTORS], h = vector_of(rows->h[0][r]), second = vector_of(rows->h[1][r]);
        format.decode(base, scales, column, n, w);
        for (size_t v = 0; v * LANES < n; v++) {
            sum[0][v] = vector_fma(sum[0][v], h, w[v]);
            if (tokens > 1)
                sum[1][v] = vector_fma(sum[1][v], second, w[v]);
        }
    }
    store_columns(sum[0], n, y);
    if (tokens > 1)
        store_columns(sum[1], n, y + y_stride);
}

ALWAYS_INLINE void add_rows(adding *rows, size_t tokens, size_t columns, float *y, size_t y_stride,
                            weight_decoder format)
{
    const size_t length = span_length(format);
    for (size_t start = 0; start < columns; start += length) {
        size_t n = columns - start < length ? columns - start : length, c = 0;
        for (size_t r = 0; r < rows->count && format.scales && length > WEIGHT_STEP; r++)
            format.scales(rows->now[r] + offset_of(start, format), n, rows->scales[r]);
        for (; c + WEIGHT_STEP <= n; c += WEIGHT_STEP)
            add_columns(rows, tokens, start, c, WEIGHT_STEP, y + start + c, y_stride, format);
        for (; c < n && may_end_early(format); c += 32)
            add_columns(rows, tokens, start + c, 0, 32, y + start + c, y_stride, format);
        for (; c < n && format.block_values == 1; c += LANES)
            add_columns(rows, tokens, start, c, n - c < LANES ? n - c : LANES, y + start + c, y_stride, format);
    }
}

ALWAYS_INLINE void accumulate_two(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h,
                                  size_t h_stride, size_t tokens, float *y, size_t y_stride, weight_decoder format)
{
    for (size_t i = begin; i < end; i += ROWS_AT_ONCE) {
        adding rows;
        rows.count = end - i < ROWS_AT_ONCE ? end - i : ROWS_AT_ONCE;
        for (size_t r = 0; r < rows.count; r++) {
            size_t next = i + r + ROWS_AT_ONCE;
            rows.now[r] = listed_row(w, list, i + r);
            rows.next[r] = (uintptr_t)listed_row(w, list, next < end ? next : end - 1);
        }
        for (size_t t = 0; t < tokens; t++)
            memcpy(rows.h[t], h + t * h_stride + i, rows.count * sizeof(*h));
        if (tokens == 1)
            add_rows(&rows, 1, w->columns, y, y_stride, format);
        else
            add_rows(&rows, 2, w->columns, y, y_stride, format);
    }
}

/* ---- many tokens ---- */

/* Coefficients of many tokens lie in the third cache at best; they are prefetched so many tokens ahead. */
#define TOKENS_AHEAD 12

typedef struct tile {
    float values[TILE_ROWS][TILE_COLUMNS];
} tile;

/* Returns which of `rows` coefficients are not zero: bit r stands for row r. */
ALWAYS_INLINE uint64_t find_firing(const float *h, size_t rows)
{
    uint64_t fire = 0;
    for (size_t r = 0; r < rows; r += LANES)
        fire |= (uint64_t)not_zero(load_first(h + r, rows - r)) << r;
    return fire;
}

/* Adds the firing rows for one token: n sums from `column` of the tile on. */
ALWAYS_INLINE void add_firing(const tile *t, size_t column, size_t n, uint64_t fire, const float *h, float *y)
{
    vector sum[TILE_COLUMNS / LANES];
    load_columns(y, n, sum);
    for (; fire; fire &= fire - 1) {
        size_t r = (size_t)__builtin_ctzll(fire);
        vector coefficient = vector_of(h[r]);
        for (size_t v = 0; v * LANES < n; v++) /* values after the last column are not stored */
            sum[v] = vector_fma(sum[v], coefficient, vector_load(t->values[r] + column + v * LANES));
    }
    store_columns(sum, n, y);
}

/* Adds all rows for two tokens; each load of the tile is used for both. */
ALWAYS_INLINE void add_all(const tile *t, size_t rows, const float *const h[2], float *const y[2])
{
    vector first[TILE_COLUMNS / LANES], second[TILE_COLUMNS / LANES];
    load_columns(y[0], TILE_COLUMNS, first);
    load_columns(y[1], TILE_COLUMNS, second);
    for (size_t r = 0; r < rows; r++) {
        vector a = vector_of(h[0][r]), b = vector_of(h[1][r]);
        for (size_t v = 0; v < TILE_COLUMNS / LANES; v++) {
            vector values = vector_load(t->values[r] + v * LANES);
            first[v] = vector_fma(first[v], a, values);
            second[v] = vector_fma(second[v], b, values);
        }
    }
    store_columns(first, TILE_COLUMNS, y[0]);
    store_columns(second, TILE_COLUMNS, y[1]);
}

/* Returns the bits of all rows of a tile. */
ALWAYS_INLINE uint64_t all_rows(size_t rows)
{
    return rows < 64 ? ((uint64_t)1 << rows) - 1 : ~(uint64_t)0;
}

static void add_tile(const tile *t, size_t rows, size_t columns, const float *h, size_t h_stride, size_t tokens,
                     float *y, size_t y_stride)
{
    uint64_t next = find_firing(h, rows);
    for (size_t k = 0; k < tokens; k++) {
        uint64_t fire = next;
        const float *coefficients = h + k * h_stride;
        float *out = y + k * y_stride;
        for (size_t r = 0; r < rows && k + TOKENS_AHEAD < tokens; r += 64 / sizeof(*h))
            __builtin_prefetch(coefficients + TOKENS_AHEAD * h_stride + r);
        if (k + 1 < tokens) {
            next = find_firing(coefficients + h_stride, rows);
            for (size_t c = 0; c < TILE_COLUMNS; c += 64 / sizeof(*out))
                __builtin_prefetch(out + y_stride + c);
        }
        if (columns < TILE_COLUMNS) {
            for (size_t c = 0; c < columns; c += LANES)
                add_firing(t, c, columns - c < LANES ? columns - c : LANES, fire, coefficients, out + c);
        } else if (PAIRS && fire == all_rows(rows) && next == all_rows(rows) && k + 1 < tokens) {
            add_all(t, rows, (const float *[]){coefficients, coefficients + h_stride},
                    (float *[]){out, out + y_stride});
            k++;
            next = k + 1 < tokens ? find_firing(coefficients + 2 * h_stride, rows) : 0;
        } else {
            add_firing(t, 0, TILE_COLUMNS, fire, coefficients, out);
        }
    }
}

/* Few tokens, but more than two: a few rows at a time, from end to end, while the next ones are prefetched. */
ALWAYS_INLINE void accumulate_few(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h,
                                  size_t h_stride, size_t tokens, float *y, size_t y_stride, weight_decoder format)
{
    _Alignas(64) tile t;
    for (size_t i = begin; i < end; i += ROWS_OF_FEW)
        for (size_t c = 0; c < w->columns; c += TILE_COLUMNS) {
            size_t rows = end - i < ROWS_OF_FEW ? end - i : ROWS_OF_FEW;
            size_t n = w->columns - c < TILE_COLUMNS ? w->columns - c : TILE_COLUMNS;
            size_t at = offset_of(c, format), bytes = n * format.block_bytes / format.block_values;
            for (size_t r = 0; r < rows; r++) {
                size_t next = i + ROWS_OF_FEW + r;
                const uint8_t *ahead = listed_row(w, list, next < end ? next : end - 1);
                for (size_t k = 0; k < bytes; k += 64)
                    __builtin_prefetch(ahead + at + k);
                decode_columns(listed_row(w, list, i + r), w->columns, c, n, t.values[r], format);
            }
            add_tile(&t, rows, n, h + i, h_stride, tokens, y + c, y_stride);
        }
}

ALWAYS_INLINE void accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                   size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                   size_t y_stride, weight_decoder format)
{
    _Alignas(64) tile t;
    for (size_t i = begin; i < end; i += TILE_ROWS)
        for (size_t c = 0; c < columns; c += TILE_COLUMNS) {
            size_t rows = end - i < TILE_ROWS ? end - i : TILE_ROWS;
            size_t n = columns - c < TILE_COLUMNS ? columns - c : TILE_COLUMNS;
            for (size_t r = 0; r < rows; r++)
                decode_columns(listed_row(w, list, i + r) + offset_of(column, format), columns, c, n, t.values[r],
                               format);
            add_tile(&t, rows, n, h + i, h_stride, tokens, y + c, y_stride);
        }
}

/* ---- the kernels: uses of WEIGHT_DECODERS ---- */

#define NEURON_KERNELS(level, id, name, scales)                                                                        \
    static void accumulate_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,           \
                                            const float *h, size_t h_stride, size_t tokens, float *y, size_t y_stride) \
    {                                                                                                                  \
        if (tokens > 2)                                                                                                \
            accumulate_few(w, list, begin, end, h, h_stride, tokens, y, y_stride, WEIGHT_DECODER(id, name, scales));   \
        else                                                                                                           \
            accumulate_two(w, list, begin, end, h, h_stride, tokens, y, y_stride, WEIGHT_DECODER(id, name, scales));   \
    }                                                                                                                  \
    static void accumulate_many_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,      \
                                                 size_t column, size_t columns, const float *h, size_t h_stride,       \
                                                 size_t tokens, float *y, size_t y_stride)                             \
    {                                                                                                                  \
        accumulate_many(w, list, begin, end, column, columns, h, h_stride, tokens, y, y_stride,                        \
                        WEIGHT_DECODER(id, name, scales));                                                             \
    }
#define ACCUMULATE(level, id, name, scales)      [FORMAT_##id] = accumulate_##name##_##level,
#define ACCUMULATE_MANY(level, id, name, scales) [FORMAT_##id] = accumulate_many_##name##_##level,

#endif
