/* dots.h - products in float32 with one token or few, of levels with 32 registers: eight rows at a time, or four (streams.h), which
 * share each load of a token, and up to four tokens, which share each load of a row. A row's sum never depends on the other rows.
 * float_LEVEL.c includes it after avx512.h and before floats.h. (With sixteen registers: dots_in_pieces.h.) */
#ifndef KERNEL_DOTS_H
#define KERNEL_DOTS_H

#include "streams.h"

ALWAYS_INLINE void dot_rows(const row_group *rows, const kernel_input *x, size_t tokens, size_t bytes,
                            load_values *load, group_sums *sums)
{
    vector sum[TOKENS_AT_ONCE][GROUP], token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    size_t i = 0, line = 64 / bytes;
    for (; i + line <= x->columns; i += line) {
        fetch_ahead(rows, i * bytes, 64);
        for (size_t k = i; k < i + line; k += LANES) {
            FOR_TOKENS token[t] = vector_load(x[t].values + k);
            for (size_t r = 0; r < rows->count; r++) {
                vector weights = load(rows->now[r], k, LANES);
                FOR_TOKENS sum[t][r] = vector_fma(sum[t][r], weights, token[t]);
            }
        }
    }
    for (; i < x->columns; i += LANES) {
        FOR_TOKENS token[t] = load_first(x[t].values + i, x->columns - i);
        for (size_t r = 0; r < rows->count; r++) {
            vector weights = load(rows->now[r], i, x->columns - i);
            FOR_TOKENS sum[t][r] = vector_fma(sum[t][r], weights, token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* Defines few_NAME of a format of `bytes` bytes per value, for floats.h. */
#define FEW_PRODUCT(name, bytes)                                                                                 \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, size_t tokens, group_sums *sums) \
    {                                                                                                            \
        dot_rows(rows, x, tokens, bytes, load_##name, sums);                                                     \
    }                                                                                                            \
    ALWAYS_INLINE void few_##name(const matrix *w, const uint32_t *list, size_t begin, size_t end,               \
                                  const kernel_input *x, float *y, size_t y_stride)                              \
    {                                                                                                            \
        rows_in_streams(w, list, begin, end, x, y, y_stride, MAY_HALVE_GROUPS, dot_##name);                      \
    }

#endif
