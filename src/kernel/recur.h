/* recur.h - recurrent states (kernel_recur), the loops that all vector levels share. vector_LEVEL.c includes it.
 *
 * Four rows of a state go through all tokens before the next four: with 128 columns they are 2 KB, which stay in the L1
 * cache, while keys and queries stream past. So a token of a prompt costs arithmetic, and a single token the bytes of its
 * state. A single token's new state is stored past the caches, since it is not read before all weights were; an ordinary
 * store would read the line first. The form in chunks of matrix products (arXiv 2405.21060, section 6) saves no bytes there and takes more
 * operations (docs/decisions/011-recurrent-states.md). */
#ifndef KERNEL_RECUR_H
#define KERNEL_RECUR_H

#define RECUR_ROWS  4
#define RECUR_AHEAD 1024 /* bytes; 2048 is as good, 4096 no better than none */

/* Adds up the products of `rows` rows of a state with a vector of n values: sums [rows]. */
ALWAYS_INLINE void multiply_state(const float *state, size_t rows, size_t n, const float *with, float *sums)
{
    vector sum[RECUR_ROWS];
    for (size_t r = 0; r < rows; r++)
        sum[r] = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        vector value = load_first(with + i, n - i);
        for (size_t r = 0; r < rows; r++)
            sum[r] = vector_fma(sum[r], load_first(state + r * n + i, n - i), value);
    }
    for (size_t r = 0; r < rows; r++)
        sums[r] = sum_of(sum[r]);
}

/* Takes `rows` rows through one token: from -> to, which may be from; NULL: zero. streams: past the caches, for which rows
 * must be whole vectors at aligned addresses. */
ALWAYS_INLINE void step_rows(const float *from, float *to, size_t rows, size_t n, float decay, const float *factors,
                             const float *key, const float *query, float *out, bool streams)
{
    vector sum[RECUR_ROWS], kept = vector_of(decay);
    for (size_t r = 0; r < rows; r++)
        sum[r] = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        vector k = load_first(key + i, n - i), q = load_first(query + i, n - i);
        for (size_t r = 0; r < rows; r++) {
            vector added = vector_multiply(vector_of(factors[r]), k);
            if (from && streams)
                __builtin_prefetch((const void *)((uintptr_t)(from + r * n + i) + RECUR_AHEAD));
            if (from)
                added = vector_fma(added, kept, load_first(from + r * n + i, n - i));
            if (streams)
                vector_stream(to + r * n + i, added);
            else
                store_first(to + r * n + i, n - i, added);
            sum[r] = vector_fma(sum[r], added, q);
        }
    }
    for (size_t r = 0; r < rows; r++)
        out[r] = sum_of(sum[r]);
}

/* The same with a decay for each column, and what is removed beside what is added. */
ALWAYS_INLINE void step_columns(const recurrence_run *run, size_t at, const float *from, float *to, size_t rows,
                                const float *values, const float *answers, float *out, bool streams)
{
    vector sum[RECUR_ROWS];
    size_t n = run->columns;
    for (size_t r = 0; r < rows; r++)
        sum[r] = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i;
        vector k = load_first(run->key + at + i, left), q = load_first(run->query + at + i, left);
        vector kept = load_first(run->decays + at + i, left), removed = load_first(run->removed + at + i, left);
        for (size_t r = 0; r < rows; r++) {
            vector added = vector_multiply(vector_of(values[r]), k);
            if (from && streams)
                __builtin_prefetch((const void *)((uintptr_t)(from + r * n + i) + RECUR_AHEAD));
            if (from) {
                added = vector_fma(added, kept, load_first(from + r * n + i, left));
                added = vector_fma(added, vector_of(-answers[r]), removed);
            }
            if (streams)
                vector_stream(to + r * n + i, added);
            else
                store_first(to + r * n + i, left, added);
            sum[r] = vector_fma(sum[r], added, q);
        }
    }
    for (size_t r = 0; r < rows; r++)
        out[r] = sum_of(sum[r]);
}

/* Takes `rows` rows, from row `first` on, through all tokens, with a decay for each column. */
ALWAYS_INLINE void recur_rows_by_columns(const recurrence_run *run, size_t first, size_t rows, bool streams)
{
    size_t n = run->columns;
    const float *from = run->before ? run->before + first * n : NULL;
    float *to = run->after + first * n, answers[RECUR_ROWS] = {0};
    for (size_t t = 0; t < run->tokens; t++, from = to) {
        size_t at = t * run->stride;
        if (from)
            multiply_state(from, rows, n, run->asked + at, answers);
        step_columns(run, at, from, to, rows, run->value + at + first, answers, run->out + t * run->out_stride + first,
                     streams);
    }
}

/* Takes `rows` rows, from row `first` on, through all tokens. */
ALWAYS_INLINE void recur_rows(const recurrence_run *run, size_t first, size_t rows, bool streams)
{
    size_t n = run->columns;
    const float *from = run->before ? run->before + first * n : NULL;
    float *to = run->after + first * n;
    for (size_t t = 0; t < run->tokens; t++, from = to) {
        const float *key = run->key + t * run->stride, *value = run->value + t * run->stride + first;
        float decay = run->decay[t * run->number_stride], gain = run->gain[t * run->number_stride];
        float factors[RECUR_ROWS], answers[RECUR_ROWS] = {0};
        if (run->answers && from)
            multiply_state(from, rows, n, key, answers);
        for (size_t r = 0; r < rows; r++)
            factors[r] = gain * (value[r] - decay * answers[r]);
        step_rows(from, to, rows, n, decay, factors, key, run->query + t * run->stride,
                  run->out + t * run->out_stride + first, streams);
    }
}

ALWAYS_INLINE void recur_all(const recurrence_run *run, bool streams)
{
    size_t row = 0;
    if (run->decays) {
        for (; row + RECUR_ROWS <= run->rows; row += RECUR_ROWS)
            recur_rows_by_columns(run, row, RECUR_ROWS, streams);
        for (; row < run->rows; row++)
            recur_rows_by_columns(run, row, 1, streams);
        return;
    }
    for (; row + RECUR_ROWS <= run->rows; row += RECUR_ROWS)
        recur_rows(run, row, RECUR_ROWS, streams);
    for (; row < run->rows; row++)
        recur_rows(run, row, 1, streams);
}

static void OF_LEVEL(recur)(const recurrence_run *run)
{
    bool whole = run->columns % LANES == 0 && (uintptr_t)run->after % (LANES * sizeof(float)) == 0;
    if (run->tokens == 1 && run->before != run->after && whole) {
        recur_all(run, true);
        vector_fence();
    } else {
        recur_all(run, false);
    }
}

#endif
