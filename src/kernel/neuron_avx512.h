/* neuron_avx512.h - neuron-major networks: adds up rows; compiled with VBMI (neuron_avx512vbmi.c) and without
 * (neuron_avx512.c).
 *
 * One token: eight rows at a time are added to the sum, which stays in the L1 cache and is loaded and stored once per
 * eight rows. 128 of its columns are in registers while the eight rows are decoded and added one after the other, in
 * the order that the definition requires. The next rows are prefetched meanwhile, with or without a list.
 *
 * Many tokens: 64 rows x 128 columns are decoded once onto the stack (32 KiB, which stay in the L1 cache), and each
 * token adds up the rows whose coefficients are not zero. Two tokens without zeros share the loads of the tile, which
 * otherwise limit the speed: an instruction reads 64 bytes and does 32 operations.
 * Tried instead: tiles of 32 rows x 256 columns. If few coefficients are not zero, a token's sums are then loaded and
 * stored for half as many rows (10 to 20 % slower). */
#ifndef KERNEL_NEURON_AVX512_H
#define KERNEL_NEURON_AVX512_H

#include "decode_avx512.h"

#define ROWS_AT_ONCE 8  /* rows at a time with one token */
#define TILE_ROWS    64 /* rows at a time with many tokens */
#define TILE_COLUMNS WEIGHT_STEP

/* Loads the sums of vectors * LANES columns; of the last vector `lanes` exist. */
ALWAYS_INLINE void load_sums(const float *y, size_t vectors, __mmask16 lanes, __m512 *sum)
{
    for (size_t v = 0; v < vectors; v++)
        sum[v] = vectors > 1 ? _mm512_loadu_ps(y + v * LANES) : _mm512_maskz_loadu_ps(lanes, y);
}

ALWAYS_INLINE void store_sums(const __m512 *sum, size_t vectors, __mmask16 lanes, float *y)
{
    for (size_t v = 0; v < vectors; v++)
        if (vectors > 1)
            _mm512_storeu_ps(y + v * LANES, sum[v]);
        else
            _mm512_mask_storeu_ps(y, lanes, sum[v]);
}

/* ---- one token ---- */

/* Rows that are added together, and the rows that are prefetched meanwhile. */
typedef struct adding {
    size_t count;
    const uint8_t *now[ROWS_AT_ONCE];
    uintptr_t next[ROWS_AT_ONCE]; /* addresses, not pointers: the last prefetch may lie behind the row */
    float h[ROWS_AT_ONCE];
    float scales[ROWS_AT_ONCE][WEIGHT_SCALES]; /* of a span that is longer than WEIGHT_STEP */
} adding;

/* Adds the rows to y, the sums of vectors * LANES columns from `column` of the span that begins with column `start`.
 * The scales of a short span are prepared here, where they are used: preparing those of all rows before is 15 %
 * slower. */
ALWAYS_INLINE void add_columns(const adding *rows, size_t start, size_t column, size_t vectors, __mmask16 lanes,
                               float *y, weight_decoder format)
{
    __m512 sum[WEIGHT_VECTORS];
    load_sums(y, vectors, lanes, sum);
    size_t at = start / format.block_values * format.block_bytes;
    size_t ahead = at + column * format.block_bytes / format.block_values;
    size_t bytes = vectors * LANES * format.block_bytes / format.block_values;
    for (size_t r = 0; r < rows->count; r++) {
        const uint8_t *base = rows->now[r] + at;
        for (size_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)(rows->next[r] + ahead + i), _MM_HINT_T0);
        const float *scales = rows->scales[r];
        float own[WEIGHT_SCALES];
        if (format.scales && format.span == WEIGHT_STEP) {
            format.scales(base, vectors == WEIGHT_VECTORS ? format.span : format.least, own);
            __asm__("" : "+m"(own)); /* otherwise compilers broadcast them from a register, which uses port 5 */
            scales = own;
        }
        __m512 w[WEIGHT_VECTORS], h = _mm512_set1_ps(rows->h[r]);
        format.decode(base, scales, column, vectors, lanes, w);
        for (size_t v = 0; v < vectors; v++)
            sum[v] = _mm512_fmadd_ps(h, w[v], sum[v]);
    }
    store_sums(sum, vectors, lanes, y);
}

ALWAYS_INLINE void add_rows(adding *rows, size_t columns, float *y, weight_decoder format)
{
    size_t c = 0;
    for (; c + format.span <= columns; c += format.span) {
        const size_t at = c / format.block_values * format.block_bytes;
        for (size_t r = 0; r < rows->count && format.span > WEIGHT_STEP; r++)
            format.scales(rows->now[r] + at, format.span, rows->scales[r]);
        for (size_t k = 0; k < format.span; k += WEIGHT_STEP)
            add_columns(rows, c, k, WEIGHT_VECTORS, 0xffff, y + c + k, format);
    }
    for (; c < columns && format.least == 32; c += 32)
        add_columns(rows, c, 0, 2, 0xffff, y + c, format);
    for (; c < columns && format.least == 1; c += LANES)
        add_columns(rows, c, 0, 1, first_lanes(columns - c), y + c, format);
}

ALWAYS_INLINE void accumulate(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h, float *y,
                              weight_decoder format)
{
    adding rows;
    for (size_t i = begin; i < end; i += ROWS_AT_ONCE) {
        rows.count = end - i < ROWS_AT_ONCE ? end - i : ROWS_AT_ONCE;
        for (size_t r = 0; r < rows.count; r++) {
            rows.now[r] = listed_row(w, list, i + r);
            rows.next[r] = (uintptr_t)listed_row(w, list, i + r + ROWS_AT_ONCE < end ? i + r + ROWS_AT_ONCE : end - 1);
            rows.h[r] = h[i + r];
        }
        add_rows(&rows, w->columns, y, format);
    }
}

/* ---- many tokens ---- */

typedef struct tile {
    float values[TILE_ROWS][TILE_COLUMNS];
} tile;

/* Returns which of `rows` coefficients are not zero: bit r stands for row r. */
ALWAYS_INLINE uint64_t find_firing(const float *h, size_t rows)
{
    uint64_t fire = 0;
    for (size_t r = 0; r < rows; r += LANES) {
        __m512 values = _mm512_maskz_loadu_ps(first_lanes(rows - r), h + r);
        fire |= (uint64_t)_mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_NEQ_UQ) << r; /* NaN is not zero */
    }
    return fire;
}

/* Adds the firing rows for one token: vectors * LANES sums from `column` of the tile; of the last vector `lanes`
 * exist. */
ALWAYS_INLINE void add_firing(const tile *t, size_t column, size_t vectors, __mmask16 lanes, uint64_t fire,
                              const float *h, float *y)
{
    __m512 sum[WEIGHT_VECTORS];
    load_sums(y, vectors, lanes, sum);
    for (; fire; fire &= fire - 1) {
        size_t r = (size_t)__builtin_ctzll(fire);
        __m512 coefficient = _mm512_set1_ps(h[r]);
        for (size_t v = 0; v < vectors; v++) /* values after the last column are not stored */
            sum[v] = _mm512_fmadd_ps(coefficient, _mm512_load_ps(t->values[r] + column + v * LANES), sum[v]);
    }
    store_sums(sum, vectors, lanes, y);
}

/* Adds all rows for two tokens; each load of the tile is used for both. */
static void add_all(const tile *t, size_t rows, const float *const h[2], float *const y[2])
{
    __m512 first[WEIGHT_VECTORS], second[WEIGHT_VECTORS];
    load_sums(y[0], WEIGHT_VECTORS, 0xffff, first);
    load_sums(y[1], WEIGHT_VECTORS, 0xffff, second);
    for (size_t r = 0; r < rows; r++) {
        __m512 a = _mm512_set1_ps(h[0][r]), b = _mm512_set1_ps(h[1][r]);
        for (size_t v = 0; v < WEIGHT_VECTORS; v++) {
            __m512 values = _mm512_load_ps(t->values[r] + v * LANES);
            first[v] = _mm512_fmadd_ps(a, values, first[v]);
            second[v] = _mm512_fmadd_ps(b, values, second[v]);
        }
    }
    store_sums(first, WEIGHT_VECTORS, 0xffff, y[0]);
    store_sums(second, WEIGHT_VECTORS, 0xffff, y[1]);
}

static void add_tile(const tile *t, size_t rows, size_t columns, const float *h, size_t h_stride, size_t tokens,
                     float *y, size_t y_stride)
{
    const uint64_t all = rows < 64 ? ((uint64_t)1 << rows) - 1 : ~(uint64_t)0;
    uint64_t next = find_firing(h, rows);
    for (size_t k = 0; k < tokens; k++) {
        uint64_t fire = next;
        const float *coefficients = h + k * h_stride;
        float *out = y + k * y_stride;
        if (k + 1 < tokens) {
            next = find_firing(coefficients + h_stride, rows);
            for (size_t c = 0; c < TILE_COLUMNS; c += LANES)
                _mm_prefetch((const char *)(out + y_stride + c), _MM_HINT_T0);
        }
        if (columns < TILE_COLUMNS) {
            for (size_t c = 0; c < columns; c += LANES)
                add_firing(t, c, 1, first_lanes(columns - c), fire, coefficients, out + c);
        } else if (fire == all && next == all && k + 1 < tokens) {
            add_all(t, rows, (const float *[]){coefficients, coefficients + h_stride},
                    (float *[]){out, out + y_stride});
            k++;
            next = k + 1 < tokens ? find_firing(coefficients + 2 * h_stride, rows) : 0;
        } else {
            add_firing(t, 0, WEIGHT_VECTORS, 0xffff, fire, coefficients, out);
        }
    }
}

ALWAYS_INLINE void accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                   size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                   size_t y_stride, weight_decoder format)
{
    _Alignas(64) tile t;
    size_t at = column / format.block_values * format.block_bytes;
    for (size_t i = begin; i < end; i += TILE_ROWS)
        for (size_t c = 0; c < columns; c += TILE_COLUMNS) {
            size_t rows = end - i < TILE_ROWS ? end - i : TILE_ROWS;
            size_t n = columns - c < TILE_COLUMNS ? columns - c : TILE_COLUMNS;
            for (size_t r = 0; r < rows; r++)
                decode_columns(listed_row(w, list, i + r) + at, c, n, t.values[r], format);
            add_tile(&t, rows, n, h + i, h_stride, tokens, y + c, y_stride);
        }
}

/* Defines the kernels of a format from a row of WEIGHT_DECODERS. */
#define NEURON_KERNELS(level, name, scales, values, bytes, span, least)                                           \
    static void accumulate_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,      \
                                            const float *h, float *y)                                             \
    {                                                                                                             \
        weight_decoder format = {values, bytes, span, least, scales, decode_##name};                              \
        accumulate(w, list, begin, end, h, y, format);                                                            \
    }                                                                                                             \
    static void accumulate_many_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                                 size_t column, size_t columns, const float *h, size_t h_stride,  \
                                                 size_t tokens, float *y, size_t y_stride)                        \
    {                                                                                                             \
        weight_decoder format = {values, bytes, span, least, scales, decode_##name};                              \
        accumulate_many(w, list, begin, end, column, columns, h, h_stride, tokens, y, y_stride, format);          \
    }

#endif
