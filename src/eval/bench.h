/* bench.h - how fast a model reads and writes, as a share of what the memory gives.
 *
 * A row is one pair of context and prompt length: `context` tokens are read first, without a clock; then `prompt_length`
 * tokens are timed as a prompt, and behind them `decode_tokens` tokens one by one, each with its logits and
 * a greedy choice. The memory's read bandwidth is measured immediately before and after each decoding. */
#ifndef EVAL_BENCH_H
#define EVAL_BENCH_H

#include "../base/error.h"

typedef struct bench_options {
    const int32_t *prompt_lengths;
    size_t prompt_length_count;
    const int32_t *contexts;
    size_t context_count;
    uint32_t decode_tokens;
    uint32_t repeats;
    const int32_t *ids; /* [id_count] what is read, over and over; NULL: ids from a fixed generator */
    size_t id_count;
    const size_t *starts; /* [start_count] where repetition r begins in ids: starts[r % start_count] */
    size_t start_count;
    uint32_t context; /* of the session, which every row must fit; 0: what the rows need, within the model's */
    hearth_kv kv;
    hearth_progress progress; /* timed runs */
} bench_options;

/* Medians over the repetitions. */
typedef struct bench_row {
    uint32_t prompt_length, context;
    double prefill_tokens_per_second, decode_tokens_per_second;
    double read_bandwidth;     /* bytes per second, mean of before and after      */
    double bytes_per_token;    /* weights and cache that decoding one token reads */
    double kv_bytes_per_token; /* the cache's part, at the mean position          */
    double share_of_bandwidth; /* bytes_per_token * speed / read_bandwidth        */
    double density;            /* share of neurons computed: 1 while all is dense */
} bench_row;

/* rows [context_count * prompt_length_count], by context, then by prompt length.
 * HEARTH_INVALID: a row does not fit the context (named), or an id is not in the vocabulary. */
hearth_status bench_run(bench_row *rows, const hearth_engine *engine, unsigned threads, const char *cpu_level,
                        const bench_options *options, hearth_error *error);

/* The median of values [count], which it sorts. count > 0. */
double bench_median(double *values, size_t count);

#endif
