/* bench.h - how fast a model reads and writes, as a share of what the memory gives, mode by mode.
 *
 * A row is one context, prompt length and engine: `context` tokens are read first, without a clock; then
 * `prompt_length` tokens are timed as a prompt, and behind them `decode_tokens` tokens one by one, each with its
 * logits and a greedy choice. The memory's read bandwidth is measured immediately before and after each decoding.
 * Engines that are compared take turns run by run, so that a neighbour of the machine disturbs all of them alike.
 *
 * Where layers are split between CPU and device, runs of their own, behind all timed ones, look at how well the two
 * sides overlap: a tracer costs a little time in every layer, so speed and overlap are not measured together. */
#ifndef EVAL_BENCH_H
#define EVAL_BENCH_H

#include "../base/error.h"
#include "overlap.h"

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
    uint32_t context; /* of the sessions, which every row must fit; 0: what the rows need, within the model's */
    hearth_kv kv;
    bool traced;              /* with the runs that look at the overlap                              */
    hearth_tracer tracer;     /* sees the decoding of these as well                                  */
    hearth_progress progress; /* runs */
} bench_options;

/* What decoding did in a layer: shares of its neurons, means over the timed tokens (hearth_counts says of what). */
typedef struct bench_layer {
    double computed, fired, active;
} bench_layer;

/* Bytes, density and layers are means over all timed tokens, the rest medians over the repetitions. */
typedef struct bench_row {
    const char *mode, *guarantee; /* the engine's                                                          */
    uint32_t prompt_length, context;
    double prefill_tokens_per_second, decode_tokens_per_second;
    double read_bandwidth;          /* bytes per second, mean of before and after                      */
    double bytes_per_token;         /* weights and cache that decoding one token reads                 */
    double kv_bytes_per_token;      /* the cache's part, at the mean position                          */
    double share_of_bandwidth;      /* bytes_per_token * speed / read_bandwidth                        */
    double floor_tokens_per_second; /* read_bandwidth / bytes_per_token: what memory would allow       */
    double density;                 /* share of neurons whose row of down was read, mean of the layers */
    double let_through;             /* share of neurons that a predictor let through; 1 without one    */
    double relative_speed;          /* decoding, against the first engine in the same repetition       */
    const bench_layer *layers;      /* [layer_count]                                                   */
    overlap_result overlap;         /* of split layers and decoded tokens; no samples: there were none */
} bench_row;

/* Zeroed is empty. */
typedef struct bench_result {
    bench_row *rows; /* by context, then by prompt length, then by engine */
    size_t count;
    uint32_t layer_count;
    bench_layer *layers; /* [count][layer_count] behind the rows          */
} bench_result;

/* engines [engine_count]: of one model on one runtime. The result's texts belong to them; bench_result_free.
 * HEARTH_INVALID: a row does not fit the context (named), or an id is not in the vocabulary. */
hearth_status bench_run(bench_result *out, const hearth_engine *const *engines, size_t engine_count, unsigned threads,
                        const char *cpu_level, const bench_options *options, hearth_error *error);
void bench_result_free(bench_result *result);

/* The median of values [count], which it sorts. count > 0. */
double bench_median(double *values, size_t count);

#endif
