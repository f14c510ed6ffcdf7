/* device_record_internal.h - what the files that record a step share: the recorder, the values that kernels work on, and the
 * operations of device_record_ops.c, which each launch a kernel or two. */
#ifndef ENGINE_DEVICE_RECORD_INTERNAL_H
#define ENGINE_DEVICE_RECORD_INTERNAL_H

#include "device_state.h"

typedef struct recorder {
    device_program *program;
    const hearth_session *s;
    const hearth_model *model;
    const device_session *ds;
    const device_vectors *v;
    const device_mirror *mirror;
    size_t rows; /* most rows of the step: device_program_rows */
    bool observed, traced;
    bool streamed;                 /* of layers that can be streamed the device computes the CPU's neurons, too */
    const device_buffer **rounded; /* the buffer whose values q8 has in 8 bits; NULL: none of which that is sure */
} recorder;

/* Launches a kernel; its first argument is always the step record. */
#define LAUNCH(r, kernel, items, ...)                                                                  \
    device_launch((r)->program, kernel, items, (device_argument[]){BUFFER((r)->v->step), __VA_ARGS__}, \
                  sizeof((device_argument[]){BUFFER((r)->v->step), __VA_ARGS__}) / sizeof(device_argument))

/* ------------------------------------------------------------------ operations */

/* A list of rows for each token, which begins at value `at` of a row of the buffer; NULL: all rows. */
typedef struct row_list {
    const device_buffer *list, *listed;
    size_t at;
} row_list;

#define LIST(rows) BUFFER_FROM((rows).list, (rows).at * sizeof(uint32_t)), BUFFER((rows).listed)

static const row_list all_rows = {NULL, NULL, 0};

/* Returns whether a product or a sum takes tokens tile by tile: in long steps, unless every token needs other rows. */
static inline bool record_in_tiles(const recorder *r, row_list rows)
{
    return r->rows > STEP_ROWS && !rows.list;
}

/* The vectors that matrices are multiplied with. rounded: q8 holds them in 8 bits. */
typedef struct input {
    const device_buffer *values;
    bool rounded;
    size_t at; /* of the first value there */
} input;

/* Where the results of a product go: y [rows of the step][stride], beginning at column `at`. */
typedef struct output {
    const device_buffer *y;
    size_t at, stride; /* both in values; at is a multiple of STACK_ROWS */
} output;

/* Ranges into which the rows of a buffer are cut: `count` neighbouring ones of `length` values in every row, from value
 * `at` on; rows are `stride` values apart. */
typedef struct ranges {
    const device_buffer *of;
    size_t at;
    uint32_t count, length, stride;
} ranges;

/* What a block computed: the sum of all `parts` of sums [rows of the step][parts][d], the bias, and the answer of the
 * CPU; NULL (and parts 0): there is none. */
typedef struct block_result {
    const device_buffer *sums;
    uint32_t parts;
    const device_buffer *bias, *answer;
} block_result;

/* Copies the rows of a step, `width` floats each, from one side to the other. */
void record_copy_rows(const recorder *r, device_buffer *to, const device_buffer *from, size_t width);

/* Returns whether one of the matrices is read in 8 bits, as products.c does on the CPU. */
bool record_rounds(const recorder *r, const device_matrix *const *m, size_t count);
/* Prepares an input; rounds it if one of the matrices is read in 8 bits, and it is not rounded yet. */
input record_prepare(const recorder *r, const device_buffer *values, size_t columns, const device_matrix *const *m,
                     size_t count);
/* The same of values that begin at value `at` of a buffer, a multiple of STACK_ROWS. */
input record_prepare_at(const recorder *r, const device_buffer *values, size_t at, size_t columns,
                        const device_matrix *const *m, size_t count);
/* Multiplies with the first `count` rows of the stack that begins with m. */
void record_stack(const recorder *r, const device_matrix *m, uint32_t count, const input *in, row_list rows, output out,
                  unsigned finish);
/* Multiplies with one matrix: y [rows of the step][m->rows]. */
void record_product(const recorder *r, const device_matrix *m, const input *in, row_list rows, const device_buffer *y,
                    unsigned finish);

/* Norms each range, without weights if they are NULL, and stores factor times the result at the same place of `to`, or
 * adds it there. */
void record_norm_ranges(const recorder *r, const device_norm *w, ranges x, const device_buffer *to, unsigned finish,
                        float factor);
/* Norms whole rows of `width` values; to may be from. */
void record_norm(const recorder *r, const device_norm *w, const device_buffer *from, uint32_t width,
                 const device_buffer *to);
/* Norms the residual stream for a block, and rounds the result at once if `rounds`. Returns the block's input: without a norm,
 * the residual stream itself. */
const device_buffer *record_norm_input(const recorder *r, const device_norm *w, bool rounds);
/* Says that what q8 has is rounded from values that are changed. */
void record_changed(const recorder *r);

/* Heads of rows that are turned: those of queries in place, those of keys while they are stored in a layer of the cache. */
typedef struct placed_heads {
    const rotary *turns;               /* NULL: nothing turns                                                     */
    device_argument query, key, value; /* NO_BUFFER: there are none, or keys are values too         */
    size_t heads, kv_heads, length;    /* of queries; that are stored, or 0; values of a head       */
    size_t stride_q, stride_k;         /* values from row to row                                    */
    uint32_t cached;                   /* the layer of the device's caches                          */
} placed_heads;

/* Records that. */
void record_place(const recorder *r, const placed_heads *p);

/* Adds factor times the result of a block, or stores it in `to`. */
void record_reduce(const recorder *r, const block_result *b, const device_buffer *to, unsigned finish, float factor);
/* Adds the result of a block to the residual stream, after its post norm. */
void record_add(const recorder *r, const device_norm *post, block_result b);
/* Multiplies the values with the output matrix of a block. The result is added to the residual stream at once, or it is
 * in `added`; returns at_once. */
bool record_output(const recorder *r, const device_matrix *m, const device_buffer *values, bool at_once);

/* The kernels' numbers of activations, and of gatings. */
extern const unsigned record_kinds[ACTIVATION_COUNT], record_gating[];
/* The last arguments of DEVICE_activate: the activation of a network (ffn_shape *), how it is gated, and a threshold of it. */
#define ACTIVATION_OF(f, gated_as, its_threshold)                                                      \
    UINT(record_kinds[ffn_activations[(f)->activation].kernel]), UINT(gated_as), FLOAT(its_threshold), \
        FLOAT((f)->curve.positive), FLOAT((f)->curve.negative), FLOAT((f)->curve.linear)

/* ------------------------------------------------------------------ a layer's parts */

/* Record the queries and keys of latent attention (v->query, v->key) of what the matrices of its input made; and what the output
 * matrix reads, in `mixed`, of what heads have read. In device_record_latent.c. */
void record_latent_project(const recorder *r, uint32_t layer, mixer_row row);
void record_latent_results(const recorder *r, uint32_t layer, mixer_row row);
/* Record the queries, of what query_in has made, to `to` [rows of the step][rows of q], and those that score positions, where they are;
 * and what matrices of groups of heads make in `mixed` of what these have read (attention_shape.output_groups). */
void record_queries(const recorder *r, uint32_t layer, mixer_row row, const device_buffer *to);
void record_groups(const recorder *r, uint32_t layer);
/* Records attention in which all heads share one key (attention_shape.one_key) up to its output matrix, of what the matrices of its
 * input made. In device_record_summaries.c. */
void record_one_key(const recorder *r, uint32_t layer, mixer_row row);
/* Record, of a layer that chooses positions, that its keys are stored and its queries turned; and, of one whose rows see chosen
 * positions, the choice of the rows [first, first + count), if it chooses itself. In device_record_latent.c. */
void record_index(const recorder *r, uint32_t layer);
void record_choose(const recorder *r, uint32_t layer, size_t first, size_t count);

/* Records the convolution of a recurrent mixer, in place, or of a short one: to mixed. In device_record_mixers.c. */
void record_convolve(const recorder *r, uint32_t layer, const mixer_row *row);
/* Record mixers whose states have a decay for each column up to their output matrix: RWKV-7's, and Kimi Delta Attention; and make
 * v->normed the mixture that the network of an RWKV-7 layer reads. In device_record_columns.c. */
void record_rwkv(const recorder *r, uint32_t layer);
void record_kda(const recorder *r, uint32_t layer);
void record_mix_network(const recorder *r, uint32_t layer);

/* Records a layer's mixer up to its output matrix. In device_record_mixers.c. */
void record_mixer(const recorder *r, uint32_t layer);
/* Multiplies the result of a mixer with its output matrix and adds it to the residual stream. */
void record_mixer_output(const recorder *r, uint32_t layer);

/* Predict the streams of the residual before a layer, the active one in x, too; compute what lies beside its mixer, from the
 * mixer's input in `normed`, which becomes the result; join that with x, to which the mixer has added its own (streams.h). In
 * device_record_streams.c. */
void record_predict_streams(const recorder *r, uint32_t layer);
/* Record, where blocks are connected with the streams, what a layer's block reads, in x, or what becomes of the streams by its
 * result, which it has added to x. */
void record_collapse_streams(const recorder *r, uint32_t layer, bool network);
void record_spread_streams(const recorder *r);
/* Records that a layer adds n-grams to the streams. */
void record_add_ngrams(const recorder *r, uint32_t layer);
void record_beside(const recorder *r, uint32_t layer);
void record_join_laurel(const recorder *r);
/* Ends a layer: adds what the input of the layer's own makes of the residual stream (per_layer.h), and scales that; corrects the
 * streams. */
void record_finish(const recorder *r, uint32_t layer);

/* Neurons of a layer that are computed together: all of the device; or, where the shared expert is computed apart (device_apart),
 * those of the chosen experts, and those of the shared one. */
typedef struct portion {
    const device_matrix *gate, *up, *down_t, *fc2;
    /* In place of down_t, of experts as stored: that of the chosen ones, whose places are the first `places` of `ranges`; and that of
     * the shared one, which has those behind them. Without data: there are none. */
    const device_matrix *down, *shared_down;
    uint32_t places;
    const device_buffer *gate_bias, *up_bias;
    const device_buffer *ranges, *owners; /* of experts (device_layer); NULL: there are none             */
    device_buffer *const *listed;         /* [TOTALS]                                                     */
    const device_buffer *input;
    float threshold; /* of the activation                                           */
    uint32_t width;  /* the most neurons that a token uses                           */
    size_t at;       /* where they begin in a row of lists, scores and activations   */
} portion;

#define PORTIONS 2

/* Chooses the experts of each token. from: what the router reads. This and the following are in device_record_neurons.c. */
void record_route(const recorder *r, uint32_t layer, const device_buffer *from);
/* Computes the hidden units of a predictor; normed: the input of the network. */
void record_predict(const recorder *r, uint32_t layer, const device_buffer *normed);
/* Divides the neurons of the device into portions; returns how many there are. normed: the input of the network. */
size_t record_divide(const recorder *r, uint32_t layer, const device_buffer *normed, portion out[PORTIONS]);
/* Selects and gathers: writes the activations of a portion to `first`; returns their list. */
row_list record_activations(const recorder *r, uint32_t layer, const portion *p);
/* Accumulates a portion of the neurons of the device. Sets `sums` of the result, unless it was added to the residual
 * stream. */
void record_accumulate(const recorder *r, uint32_t layer, const portion *p, row_list rows, block_result *result);
/* Computes the parts of a layer that is streamed, as they come, and adds what they give to the result: then its sum is in
 * `added`. In device_record_stream.c. */
void record_streamed(const recorder *r, uint32_t layer, const device_buffer *normed, block_result *result);
/* Copies and computes one part, with a stamp (TIMED_...) before, between and after: a program by itself. */
void record_stream_timed(const recorder *r);
/* Joins the sums of experts and of the network beside them, of both sides, each after its post norm. */
void record_join_beside(const recorder *r, uint32_t layer, block_result *result);
/* Divides what both sides have summed by the norm of their activations. */
void record_join_norm(const recorder *r, uint32_t layer, block_result *result);

#endif
