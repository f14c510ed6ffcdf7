/* dots_in_pieces.h - products in float32 with one token or few, of levels with sixteen registers, which do not hold the sums of a
 * group of rows with four tokens (dots.h): eight rows at a time, which share each load of a token, piece by piece. A row's sum never
 * depends on the other rows. float_LEVEL.c includes it after avx2.h or neon.h, and before floats.h. */
#ifndef KERNEL_DOTS_IN_PIECES_H
#define KERNEL_DOTS_IN_PIECES_H

#include "streams.h"

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

/* Multiplies rows [begin, end) with at most FEW_OF_FLOATS tokens, in streams as rows_in_groups does. */
ALWAYS_INLINE void few_tokens(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                              float *y, size_t y_stride, dot_all_function *dot)
{
    size_t apart = (end - begin + GROUP - 1) / GROUP;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows = group_of_rows(w, list, i, apart, end, GROUP);
        if (i == begin)
            fetch_begin(&rows, w->row_bytes);
        vector sums[FEW_OF_FLOATS][GROUP];
        dot(&rows, x, sums);
        for (size_t t = 0; t < x->count; t++) {
            group_sums of_rows = sum_of_8(sums[t]);
            store_sums(&of_rows, GROUP, apart, end - i, y + t * y_stride + i);
        }
    }
}

/* Defines few_NAME of a format of `bytes` bytes per value, for floats.h. */
#define FEW_PRODUCT(name, bytes)                                                                      \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, vector(*sums)[GROUP]) \
    {                                                                                                 \
        dot_rows(rows, x, bytes, load_##name, sums);                                                  \
    }                                                                                                 \
    ALWAYS_INLINE void few_##name(const matrix *w, const uint32_t *list, size_t begin, size_t end,    \
                                  const kernel_input *x, float *y, size_t y_stride)                   \
    {                                                                                                 \
        few_tokens(w, list, begin, end, x, y, y_stride, dot_##name);                                  \
    }

#endif
