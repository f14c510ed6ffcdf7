/* bench.h - measures prompt and decoding speed in each mode, also as a share of the memory bandwidth.
 *
 * A row is one context, prompt length, number of sequences and engine. `context` tokens are read first, untimed; then
 * `prompt_length` tokens are timed as a prompt, and after them `decode_tokens` tokens one by one, each with its logits and a
 * greedy choice. Several sequences are copies of the first one after its prompt, and each decodes tokens of its own, one of
 * every sequence in a step.
 * The read bandwidth of the memory is measured immediately before and after each decoding; that of a device is given, since
 * nobody else uses its memory. Engines that are compared take turns run by run, so that other load on the machine affects all
 * of them alike.
 *
 * Where layers are split between CPU and device, separate runs after all timed ones measure how well the two sides
 * overlap: a tracer costs a little time in every layer, so speed and overlap are not measured together. */
#ifndef EVAL_BENCH_H
#define EVAL_BENCH_H

#include "../base/error.h"
#include "overlap.h"

typedef struct bench_options {
    const int32_t *prompt_lengths;
    size_t prompt_length_count;
    const int32_t *contexts;
    size_t context_count;
    const int32_t *batches; /* sequences that decode together; NULL: one alone */
    size_t batch_count;
    uint32_t decode_tokens;
    uint32_t repeats;
    const int32_t *ids; /* [id_count] tokens to read, repeated as often as needed; NULL: ids from a fixed generator */
    size_t id_count;
    const size_t *starts; /* [start_count] where repetition r begins in ids: starts[r % start_count] */
    size_t start_count;
    uint32_t context; /* of the sessions; every row must fit. 0: what the rows need, within the model's context */
    hearth_kv kv;
    double device_bandwidth;  /* bytes per second that the engines' device reads from its memory; 0: not known */
    bool traced;              /* adds the runs that measure the overlap */
    hearth_tracer tracer;     /* also receives the spans of the decoding in these runs */
    hearth_progress progress; /* counts runs */
} bench_options;

/* What decoding did in one layer: shares of its neurons, means over the timed tokens (hearth_counts defines them). */
typedef struct bench_layer {
    double computed, fired, active; /* NAN: the layer has no feed-forward network */
} bench_layer;

/* Bytes, density and layers are means over all timed tokens; everything else is the median over the repetitions. Decoding
 * speed is that of all sequences together. */
typedef struct bench_row {
    const char *mode, *guarantee; /* the engine's                                                          */
    uint32_t prompt_length, context, batch;
    double prefill_tokens_per_second, decode_tokens_per_second;
    double read_bandwidth;         /* bytes per second, mean of before and after decoding */
    double bytes_per_token;        /* bytes of weights and KV cache that decoding one token reads; of several sequences,
                                     * which share rows, at most                                          */
    double kv_bytes_per_token;     /* the KV cache's share, at the mean position, recurrent states included */
    double device_bytes_per_token; /* of bytes_per_token those that the device reads                        */
    double floor_tokens_per_second; /* the bound that memory sets (floor.h); NAN: not known         */
    double share_of_bandwidth;      /* speed / floor; likewise                                              */
    double density;                 /* share of neurons whose row of down was read, mean over layers with a network */
    double let_through;             /* share of neurons that the predictor let through; 1 without one */
    double relative_speed;          /* decoding speed over the first engine's in the same repetition */
    const bench_layer *layers;      /* [layer_count]                                                   */
    double on_device;               /* of the active neurons, the share that the device had         */
    double recall;          /* that predictors hold, by their probes; NAN: none is held (hearth_placement_set_recall) */
    overlap_result overlap; /* of split layers and decoded tokens; samples is 0 without any */
    double cpu_seconds; /* that the CPU was busy for a step (a token of each sequence), where it was traced; else 0 */
    double device_seconds; /* likewise the device                                                        */
} bench_row;

/* A zeroed result is empty. */
typedef struct bench_result {
    bench_row *rows; /* by context, by prompt length, by batch, by engine */
    size_t count;
    uint32_t layer_count;
    bench_layer *layers; /* [count][layer_count], pointed to by the rows */
} bench_result;

/* Checks that every row fits the context. HEARTH_INVALID: one does not (the error names it). */
hearth_status bench_check(const bench_options *options, const hearth_model_info *info, hearth_error *error);
/* Returns what a session needs for all rows. */
hearth_session_options bench_session(const bench_options *options);

/* Runs the benchmark. engines [engine_count]: all of one model. The strings in the result belong to the
 * engines; free the result with bench_result_free. HEARTH_INVALID: a row does not fit the context (the error names it),
 * or an id is not in the vocabulary. */
hearth_status bench_run(bench_result *out, const hearth_engine *const *engines, size_t engine_count, unsigned threads,
                        const char *cpu_level, const bench_options *options, hearth_error *error);
void bench_result_free(bench_result *result);

#endif
