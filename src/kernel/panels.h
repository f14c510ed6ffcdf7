/* panels.h - products in float32, shared by all vector levels: with one token eight rows at a time, which share each
 * load of the token (a row's sum never depends on the other rows); with many tokens panels of rows. float_LEVEL.c
 * includes it after avx2.h, avx512.h or neon.h, and after it has defined what panel.h needs, and
 *   PANELS (filled before they are multiplied with the tokens) */
#ifndef KERNEL_PANELS_H
#define KERNEL_PANELS_H

#include "ahead.h"
#include "panel.h"

/* ---- one token, or few ---- */

/* Columns of a group of rows that meet all tokens before the next ones do: these stay in the L1 cache, and so do most of the tokens'. */
#define DOT_COLUMNS 256

/* Tokens of a pass if one is not enough: so many that their sums with half a group fit into the registers, beside the tokens and
 * a row. (Sums that do not are loaded and stored with every multiply-add.) */
#define BESIDE_HALF ((VECTORS - 1) / (GROUP / 2 + 1))
#define PASS_TOKENS (BESIDE_HALF < TOKENS_AT_ONCE ? BESIDE_HALF : TOKENS_AT_ONCE)

/* Returns how many rows of a group are multiplied with so many tokens at once, by the same rule. */
ALWAYS_INLINE size_t rows_at_once(size_t tokens)
{
    size_t beside = tokens + 1;
    return GROUP * tokens + beside <= VECTORS ? GROUP : GROUP / 2 * tokens + beside <= VECTORS ? GROUP / 2 : GROUP / 4;
}

/* Adds what LANES columns from k give to the sums of `tokens` tokens with `count` rows from `first`. */
ALWAYS_INLINE void dot_step(const row_group *rows, size_t first, size_t count, const float *x, size_t stride,
                            size_t tokens, size_t k, load_values *load, vector sum[TOKENS_AT_ONCE][GROUP])
{
    vector token[TOKENS_AT_ONCE];
    FOR_TOKENS token[t] = in_register(vector_load(x + t * stride + k));
    UNROLLED
    for (size_t r = 0; r < count; r++) {
        vector weights = load(rows->now[first + r], k, LANES);
        FOR_TOKENS sum[t][r] = vector_fma(sum[t][r], weights, token[t]);
    }
}

/* Adds what columns [begin, end), whole vectors, give to the sums of `tokens` tokens with a group of rows; prefetches what comes
 * after these columns if `fetch`. A sum adds up column by column, whatever else is multiplied. */
ALWAYS_INLINE void dot_pass(const row_group *rows, const kernel_input *x, size_t from, size_t tokens, size_t begin,
                            size_t end, size_t bytes, load_values *load, bool fetch, vector (*all)[GROUP])
{
    const size_t count = rows_at_once(tokens), line = 64 / bytes;
    const bool full = count * tokens + tokens + 1 == VECTORS; /* gcc, which unrolls more, then has to store sums */
    const float *values = x->values + from * x->columns;
    for (size_t first = 0; first < GROUP; first += count) {
        vector sum[TOKENS_AT_ONCE][GROUP];
        FOR_TOKENS UNROLLED for (size_t r = 0; r < count; r++) sum[t][r] = all[from + t][first + r];
        size_t i = begin;
        for (; i + line <= end; i += line) {
            if (fetch)
                fetch_rows_ahead(rows, first, count, i * bytes, 64);
            if (full) {
                TWICE
                for (size_t k = 0; k < line; k += LANES)
                    dot_step(rows, first, count, values, x->columns, tokens, i + k, load, sum);
            } else {
                UNROLLED
                for (size_t k = 0; k < line; k += LANES)
                    dot_step(rows, first, count, values, x->columns, tokens, i + k, load, sum);
            }
        }
        for (; i < end; i += LANES)
            dot_step(rows, first, count, values, x->columns, tokens, i, load, sum);
        FOR_TOKENS UNROLLED for (size_t r = 0; r < count; r++) all[from + t][first + r] = sum[t][r];
    }
}

/* Multiplies a group of rows with all tokens, piece by piece of the columns: a row is fetched while all of them work, and each of
 * its pieces is still in the L1 cache when the last token meets it. */
ALWAYS_INLINE void dot_rows(const row_group *rows, const kernel_input *x, size_t bytes, load_values *load,
                            vector (*all)[GROUP])
{
    size_t whole = x->columns / LANES * LANES, most = x->count <= TOKENS_AT_ONCE ? TOKENS_AT_ONCE : PASS_TOKENS, i = 0;
    for (size_t t = 0; t < x->count; t++)
        clear(all[t]);
    for (size_t end; i < whole; i = end) {
        bool in_one = x->count <= TOKENS_AT_ONCE && rows_at_once(x->count) == GROUP;
        end = in_one || whole - i < DOT_COLUMNS ? whole : i + DOT_COLUMNS;
        for (size_t t = 0, tokens; t < x->count; t += tokens) {
            tokens = tokens_of_pass(x->count - t, most);
            switch (tokens) { /* constants, so that sums are registers */
#define X(n)                                                          \
    case n:                                                           \
        if (t == 0)                                                   \
            dot_pass(rows, x, t, n, i, end, bytes, load, true, all);  \
        else                                                          \
            dot_pass(rows, x, t, n, i, end, bytes, load, false, all); \
        break;
                TOKEN_COUNTS(X)
#undef X
            default:
                break;
            }
        }
    }
    for (size_t r = 0, rest = x->columns - whole; r < GROUP && rest > 0; r++) {
        vector weights = load(rows->now[r], whole, rest);
        for (size_t t = 0; t < x->count; t++)
            all[t][r] = vector_fma(all[t][r], weights, load_first(x->values + t * x->columns + whole, rest));
    }
}

/* What dot_rows computes, of one format. */
typedef void dot_all_function(const row_group *rows, const kernel_input *x, vector (*all)[GROUP]);

/* Multiplies rows [begin, end) with at most FEW_OF_FLOATS tokens, in streams as rows_in_streams does. */
ALWAYS_INLINE void few_tokens(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                              float *y, size_t y_stride, dot_all_function *dot)
{
    size_t apart = (end - begin + GROUP - 1) / GROUP;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows = group_of_rows(w, list, i, apart, end);
        if (i == begin)
            fetch_begin(&rows, w->row_bytes);
        vector sums[FEW_OF_FLOATS][GROUP];
        dot(&rows, x, sums);
        for (size_t t = 0; t < x->count; t++) {
            group_sums of_rows = sum_of_8(sums[t]);
            store_sums(&of_rows, apart, end - i, y + t * y_stride + i);
        }
    }
}

/* ---- many tokens ---- */

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
            next_fill next = fill_after(w, list, i, PANELS * PANEL_ROWS, end, c, PANEL_COLUMNS);
            all_tokens(panels, rows, c, columns, x, y + i, y_stride, &next);
        }
    }
}

/* Defines the product of a float format of `bytes` bytes per value whose load_NAME is defined. */
#define FLOAT_PRODUCT(name, bytes, level)                                                                     \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, vector(*sums)[GROUP])         \
    {                                                                                                         \
        dot_rows(rows, x, bytes, load_##name, sums);                                                          \
    }                                                                                                         \
    ALWAYS_INLINE void fill_##name(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start, \
                                   size_t columns, panel *p)                                                  \
    {                                                                                                         \
        fill_from_floats(w, list, i, end, start, columns, p, load_##name);                                    \
    }                                                                                                         \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,     \
                                         const kernel_input *x, float *y, size_t y_stride)                    \
    {                                                                                                         \
        if (x->count <= FEW_OF_FLOATS)                                                                        \
            few_tokens(w, list, begin, end, x, y, y_stride, dot_##name);                                      \
        else                                                                                                  \
            many_tokens(w, list, begin, end, x, y, y_stride, fill_##name);                                    \
    }

/* Defines the products of a level: of block formats with float32 activations, for which weights are decoded to float32,
 * and of float formats. */
#define FLOAT_PRODUCTS(level)                                                                     \
    void level##_product_decoded(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                 const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                             \
        many_tokens(w, list, begin, end, x, y, y_stride, fill_from_blocks);                       \
    }                                                                                             \
    FLOAT_PRODUCT(f32, 4, level)                                                                  \
    FLOAT_PRODUCT(f16, 2, level)                                                                  \
    FLOAT_PRODUCT(bf16, 2, level)                                                                 \
    const kernels level##_floats = {                                                              \
        .product = {[FORMAT_F32] = product_f32_##level,                                           \
                    [FORMAT_F16] = product_f16_##level,                                           \
                    [FORMAT_BF16] = product_bf16_##level},                                        \
    };

#endif
