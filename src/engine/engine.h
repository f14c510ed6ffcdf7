/* engine.h - what the engine's files share: the structs behind the opaque names of hearth.h.
 *
 * Reading order: runtime.c, placement.c, placement_json.c, placement_prune.c, engine.c, coarse.c, kv_pages.c, kv_cache.c,
 * recurrent_state.c, scratch.c, session.c, state.c, forward.c, attention.c, latent.c, choice.c, summaries.c, recurrent.c, per_layer.c, streams.c, connections.c, ngrams.c, finite.c, products.c, ffn.c, ffn_steps.c, ffn_experts.c, ffn_observe.c, recall.c, inputs.c, model_api.c,
 * sampler.c, answer.c, generate.c; for two sides device_session.h, device_record.c, device_session.c, device_pages.c, device_weights.c, trace.c; hot sets: hot_set.c, swap.c, follow.c. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "../base/pool.h"
#include "../device/device.h"
#include "../kernel/kernel.h"
#include "../model/model.h"
#include "coarse.h"
#include "device_weights.h"
#include "kv_cache.h"
#include "placement.h"
#include "recurrent_state.h"

#include <pthread.h>
#include <stdatomic.h>

struct hearth_runtime {
    pool *threads;
    size_t level; /* of kernel_level_name */
    kernels kernels;
    unsigned streams; /* kernel_input: streams */
    hearth_log log;
    uint64_t memory_bytes;       /* main memory for copies and sessions; UINT64_MAX: unknown      */
    device *device;              /* side device0 of placements; NULL: none                        */
    char *device_spec;           /* that it was opened with                                       */
    pthread_mutex_t device_lock; /* held by the thread that uses the device, for a step or longer */
};

/* Lock and unlock the device, which engines and sessions of a runtime use in turns, as they do its threads. */
void device_lock(hearth_runtime *r);
void device_unlock(hearth_runtime *r);

/* A layer as the engine runs it. */
typedef struct engine_layer {
    layer_form form;
    selector_kind selector;
    /* The layer's, whether or not the selector asks it. Its matrices are those of the tune record or of the model's file. */
    learned_predictor predictor;
    float threshold;      /* of the selector, where it has one                                              */
    matrix down_t;        /* of the file or a copy of the engine; no data if `down` is multiplied as stored */
    matrix shared_down_t; /* as down_t, of the expert that every token uses */
    coarse_copy coarse;   /* of SELECTOR_COARSE                                                             */
    uint32_t *rows;       /* [row_count] neurons of the CPU as ascending rows of the matrices; NULL: all    */
    uint32_t row_count;
    /* [expert_count + 2] where the rows of each expert begin in `rows` (layer_expert_rows); NULL without either. */
    uint32_t *expert_begins;
    /* Where its keys lie among the layers of the cache, or its state among the recurrent ones, of its side; where it reads the keys of
     * another layer, that one's. Likewise the keys by which it chooses positions, its summaries, and what is kept of these until they
     * are whole. */
    uint32_t cache_index, index_cache, summary_cache, state_index;
} engine_layer;

struct hearth_engine {
    hearth_runtime *runtime;
    const hearth_model *model;
    hearth_placement *placement;
    hearth_activations activations;
    hearth_stream stream;                /* whether sessions stream the CPU's neurons, ...                           */
    uint64_t stream_bytes;               /* ... and the most bytes of a buffer for that; 0: the default              */
    engine_layer *layers;                /* [layer_count]                                                            */
    double recall;                       /* that predictors hold (placement.h); 0: none                               */
    bool uses_predictors;                /* some layer has selector SELECTOR_LOW_RANK or SELECTOR_COARSE, or masks   */
    bool leaves_out;                     /* some layer has neurons that no side computes                             */
    bool requantised;                    /* a down matrix in a block format was rounded again, here or when packed   */
    bool transposed;                     /* copied from the stock layout: sums are added in another order than there */
    bool owns_copies;                    /* owns the transposed down_t; false: shared with another engine            */
    uint64_t own_bytes;                  /* bytes of these copies, also if they are shared                           */
    uint64_t coarse_bytes;               /* bytes of coarse copies, which are never shared                           */
    device_weights *uploaded;            /* NULL: nothing lies on a device                                           */
    struct hot_follower *follower;       /* NULL: hot sets are neither counted nor changed (follow.h)           */
    uint32_t device_layers;              /* layers that are not of form host                                         */
    uint32_t host_caches, device_caches; /* layers of the cache, by where they lie                             */
    uint32_t host_recurrent, device_recurrent; /* recurrent layers, likewise                                         */
    cached_keys *cached;               /* what a position has in the CPU's layers of the cache, then in the device's */
    const recurrent_shape **recurrent; /* of the recurrent layers, likewise                                        */
};

/* Returns how many of n ascending numbers are below `end`, by bisection. */
static inline size_t count_below(const uint32_t *list, size_t n, size_t end)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Creates an engine of the model of `of` under another placement. It shares the transposed copies of `of` and must be
 * destroyed before it. t: has the engine's predictors, was bound to the model and must outlive the engine; NULL: they are
 * those of the model's file. */
hearth_status engine_with_placement(hearth_engine **out, const hearth_engine *of, const struct tune *t,
                                    const hearth_placement *placement, hearth_error *error);

/* Returns the bytes of keys and values that one position of one sequence takes, on both sides together; where some take one row together,
 * their share, rounded up. */
uint64_t engine_position_bytes(const hearth_engine *engine, hearth_kv format);

/* Return of these, and of the recurrent states of one sequence, what lies on one side. */
uint64_t engine_side_position_bytes(const hearth_engine *engine, hearth_kv format, bool on_device);
uint64_t engine_side_state_bytes(const hearth_engine *engine, bool on_device);

/* Returns the bytes of keys, values and recurrent states that a token reads on one side, which is the last of so many positions;
 * a mean may have a fraction. Layers with a window, and those that choose positions, read no more than they see; the latter also
 * what scores positions, keys and weights, where there are more. */
double engine_side_reads_kept(const hearth_engine *engine, hearth_kv format, double positions, bool on_device);

/* Weight bytes that a token reads of a layer: of its mixer, with norms and router, but without what scores positions; of its neurons the rows of the first
 * matrix, with what selects them, and the rows of the others, which only neurons that fire need. */
typedef struct layer_reads {
    double mixer, first, others;
} layer_reads;

/* Returns them by the counts of the layer; those of all neurons if counts is NULL or counts no rows. */
layer_reads engine_layer_reads(const hearth_engine *engine, uint32_t layer, const hearth_counts *counts);
/* Returns the weight bytes that a token reads before the first layer, and after the last one. */
double engine_first_reads(const hearth_engine *engine);
double engine_last_reads(const hearth_engine *engine);

/* Returns the mean weight bytes that a token reads, by the counts [layer_count]; those of all neurons if counts is NULL
 * or counts no rows. */
double engine_token_bytes(const hearth_engine *engine, const hearth_counts *counts);

/* Rows rounded to 8 bits and to bfloat16, as kernel_input holds them. n: columns of the widest input. */
typedef struct rounded_rows {
    int8_t *q;         /* [B][n]                                        */
    float *scales;     /* [B][n / 32]                                   */
    int16_t *sums;     /* [B][n / 16]                                   */
    uint16_t *bfloats; /* [B][n]; NULL unless the engine's activations are such */
} rounded_rows;

/* A part: a range of neurons, one or more whole slices, that one thread takes through a feed-forward network. */
typedef struct ffn_part {
    uint32_t begin;                 /* its offset in lists and in rows of [f]                   */
    size_t count;                   /* neurons not yet skipped                                  */
    const uint32_t *list;           /* [count] their rows, ascending; NULL: all from `begin` on */
    size_t computed, fired, active; /* see hearth_counts; summed over all rows                  */
} ffn_part;

/* Neighbouring rows of a batch that belong to one sequence. */
typedef struct row_run {
    uint32_t sequence, first, count;
    bool fresh; /* its first row is the sequence's first token             */
    bool again; /* the batch has rows of the sequence before these as well */
} row_run;

/* Rows of a batch that attention computes together: they follow one another in a sequence. */
typedef struct row_piece {
    uint32_t first, count;
} row_piece;

/* What mixers compute with whose states have a decay for each column (recurrent_by_columns); B, V as in scratch. */
typedef struct column_buffers {
    float *query, *key, *value; /* [B][V]                                              */
    float *decay;               /* [B][V]                                              */
    float *asked, *removed;     /* [B][V]  of the state                                */
    float *first_value;         /* [B][V]  of RWKV-7's first layer, for all others     */
    float *hidden;              /* [B][largest rank]                                   */
} column_buffers;

/* The most rows of a batch whose positions are scored before some are chosen. */
#define CHOICE_ROWS 8

/* Values for each column that a thread needs to make the key of a pool. */
#define POOL_BUFFERS 5

/* What layers choose positions with (choice.h), with letters as in index_shape; C: the most keys that are brought together; N: the
 * most choosers. */
typedef struct choice_buffers {
    float *query, *key, *weight; /* [B][J * I], [B][I], [B][J]                                 */
    float *gate, *pooled;        /* [B][I], [threads][POOL_BUFFERS][I]  of pools               */
    float *scores;               /* [CHOICE_ROWS][N][context / pool]                           */
    uint32_t *seen;              /* [B][N][choice_words]  a bit for each position that a limited row sees */
    uint32_t *list;              /* [C]  the positions of one choice, ascending, or its summaries */
    uint8_t *keys;               /* [C]  and their keys and values, as a cache whose pages follow one another ... */
    uint32_t *pages;             /* [page_count]  ... : 0, 1, 2 ...; none where nothing can be limited */
    size_t page_count;
} choice_buffers;

/* What layers with summaries compute with (summaries.h); W: values of all parts of a key, of the longest one. */
typedef struct summary_buffers {
    float *value, *gate; /* [B][W]                                         */
    float *pooled;       /* [B][K]  keys, of the rows that end a summary    */
} summary_buffers;

/* Query heads of a group that one item of attention computes, for one row. Where many share a key (Falcon-7B: all 71), the
 * threads share them; fewer per item would make the kernel convert keys more often. */
#define ITEM_QUERIES 8

/* The most rows of a batch that are taken through the matrices of heads together (latent attention). */
#define LATENT_ROWS 32

/* Neighbouring rows of a product's input, all of which are multiplied with the same expert. */
typedef struct expert_group {
    uint32_t expert, first, count;
} expert_group;

/* Moments of a layer on the CPU: it begins, its neurons begin, it is done. */
enum { MOMENT_BEGIN, MOMENT_NEURONS, MOMENT_END, MOMENTS };

/* Buffers of one batch of a feed: B = session->batch rows. Row i of every buffer belongs to row i of
 * the batch. d as in docs/design.md; f, Q, K of the widest layer, as in model_layer. P: pairs of a token and an expert
 * that it chose which are computed together, at least B; B in models without experts. */
typedef struct scratch {
    float *x;      /* [B][d]  the residual stream                          */
    float *beside; /* [B][d]  what attention adds, in layers whose blocks are parallel; the sum of the CPU's neurons
                            * of the network that experts lie beside, in a layer with neurons on both sides */
    float *normed; /* [B][d]  input of a block: the normed residual stream */
    float *added;  /* [B][d]  what a block adds to the residual stream     */
    float *query;  /* [B][Q]                                               */
    float *key, *value; /* [B][K]                                               */
    /* Latent attention, with letters as in attention_shape; R: LATENT_ROWS. Groups of heads, too, have matrices of their own. */
    float *query_in, *short_query, *short_key; /* [B][query_rank], [B][H * (n + r)], [B][C + r] */
    float *head_in, *head_out; /* [H * R][n or C], [H * R][C or V]  what heads' matrices read and write */
    expert_group *head_groups; /* [H]                                         */
    float *result;             /* [B][H * V]                                  */
    float *
        gated_query; /* [B][2 Q] of each head the query, then its gate; or the gates alone (layer_gates_in_query), of latent attention, too */
    float *mixed;    /* [B][H][read_length], [B][V]  result of the mixer before its output matrix */
    float *convolved;      /* [B][C]  as model_layer.convolved                     */
    float *recurrent_gate; /* [B][V]                                               */
    float *step, *beta;    /* [B][H]  become decay and gain                        */
    column_buffers columns;
    choice_buffers choice;
    summary_buffers summary;
    row_run *runs; /* [run_count], at most B                               */
    size_t run_count;
    row_piece *pieces; /* [piece_count], at most B                             */
    size_t piece_count;
    float *gate, *up;              /* [P][f]  gate becomes the activations of the neurons  */
    float *hidden;                 /* [B][largest rank]  hidden units of predictors        */
    float *score;                  /* [B][f of one network], at least [f]  scores of predictors */
    float *router, *shares;        /* [B][experts]  the router's scores; shares of the chosen experts, 0 of others */
    float *expert_in, *expert_out; /* [P][d] or [P][latent]  of pairs                          */
    float *latent_in,
        *latent_out;       /* [B][latent]  what experts read, and the sum of their results, where these are not of
                                      d values */
    float *shared_shares;  /* [B]  what the shared expert's results are multiplied with, where it is gated */
    float *expert_normed;  /* [B][d]  what experts read, where they have a norm of their own */
    float *per_layer;      /* [B][layers][p]  inputs of the layers' own            */
    float *per_layer_row;  /* [threads][layers * p]                                */
    float *per_layer_gate; /* [B][p]                                               */
    float *streams; /* [S][B][d]  of the residual, where there are several; S as in hyperparameters; of connections
                                      [B][S][d] */
    float *stream_weights; /* [B][S], of connections [B][M]                        */
    float *stream_norms,
        *stream_gates;          /* [B][S][d]  of gated connections, and of n-grams what they add, normed and as it is */
    float *stream_low;          /* [B][R]  between their matrices                       */
    float *block_read;          /* [B][d]  what a block between them has read           */
    float *ngrams;              /* [B][d]  embeddings of n-grams                        */
    float *laurel_in, *laurel;  /* [B][r], [B][d]                                       */
    float *expert_x;            /* [B][d]  what a predictor reads, where it is another input */
    uint32_t *expert_rows;      /* [neurons of used experts]  rows of one token's experts */
    uint32_t *expert_places;    /* [neurons of used experts]  where these lie in a matrix of gate and up */
    uint32_t *members, *chosen; /* [P]  of pairs the row of the batch, and the expert   */
    expert_group *groups;       /* [experts]  pairs of each expert                      */
    float *squares;             /* [B]  of the CPU's activations, where a norm joins both sides */
    float *size;                /* [B]  root mean square of the input of a coarse copy  */
    rounded_rows rounded;       /* [widest]  input of the current product               */
    rounded_rows rounded_hidden; /* [largest rank]                                       */
    ffn_part *parts;             /* [FFN_SLICES] of the current layer                    */
    size_t part_count;
    uint32_t *list;           /* [f]  list of each part, at its `begin`                    */
    uint8_t *wanted;          /* [f]  1: the neuron is wanted, else 0                      */
    float *sums;              /* [FFN_SLICES][d]  sums of slices, for one token            */
    float *chunk_sums;        /* [threads][FFN_GROUP][ACCUMULATE_COLUMNS]  for many tokens */
    float *seen, *seen_gates; /* [f]  for observers                                        */
    uint32_t *seen_neurons;   /* [f]                                                       */
    uint32_t *seen_experts;   /* [experts]                                                 */
    float *scores;            /* [threads][heads of a group, at most ITEM_QUERIES][score_count]       */
    size_t score_count;       /* the most keys that a row sees: those of the context, or what is brought together */
    float *cosine, *sine;     /* [rotaries][B][pairs], of a rotary from B * rotary.first on */
    uint32_t *sequence, *position; /* [B]                                                       */
    double (*moments)[MOMENTS];    /* [layers] of the last batch, if a tracer is set            */
} scratch;

struct hearth_session {
    const hearth_engine *engine;
    uint32_t context, sequences, batch, output_rows;
    uint32_t spare;         /* of the sequences: they have no positions of their own */
    uint32_t marks;         /* states of earlier lengths, per sequence   */
    uint32_t widest;        /* longest row of weights that is multiplied */
    uint32_t widest_hidden; /* hidden units of the widest predictor      */
    uint64_t
        stream_bytes; /* of a buffer for the CPU's neurons on their way to a device; 0: they are not streamed, ... */
    const char *stream_refusal; /* ... for this reason                   */
    hearth_progress progress;
    hearth_observer observer;      /* see NULL: none                                         */
    hearth_tracer tracer;          /* see NULL: none                                         */
    struct input_sums *inputs;     /* NULL: inputs of matrices are not added up (inputs.h)   */
    uint64_t cache_positions;      /* as in the options                                      */
    kv_pages pages;                /* of the cache, on both sides                            */
    kv_cache cache;                /* of the layers of the CPU                               */
    recurrent_states recurrent;    /* likewise; those of the device: device_recurrent        */
    struct device_session *device; /* NULL: nothing of this session is on a device           */
    uint32_t *lengths;             /* [sequences] positions read so far                      */
    uint32_t *lengths_before;      /* [sequences] restored when a feed fails                 */
    int32_t *tokens;               /* [sequences][context] that were read                    */
    float *outputs;                /* [output_rows][d] normed hidden states of the last feed */
    size_t output_count;
    hearth_counts *counts;        /* [layers]                                                */
    hearth_counts *device_counts; /* [layers] of these the device's own; its rows are not counted */
    hearth_counts *counts_before; /* [layers] restored when a step with a device is given up */
    double *ffn_seconds; /* [layers] time in feed-forward networks since counts were reset, without observers */
    atomic_bool cancelled;
    struct recall_layer *recall;          /* [layers] where the placement holds a recall, else NULL */
    const hearth_session *cancelled_with; /* another one, whose cancel holds for this one, too; NULL: none */
    scratch scratch;
    void *block; /* the one allocation that holds scratch, outputs and lengths */
};

/* Does what hearth_session_feed does, but also obeys a cancel that came before the call, since session_forget_cancel.
 * For callers that feed several times and are cancelled as a whole. */
hearth_status session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error);
static inline void session_forget_cancel(hearth_session *session)
{
    atomic_store(&session->cancelled, false);
}
/* Returns the tokens [context] of a sequence, of which it has read the first ones. */
static inline int32_t *session_tokens(const hearth_session *session, uint32_t sequence)
{
    return session->tokens + (size_t)sequence * session->context;
}
/* Returns how many tokens can be fed to a sequence, and to no other one: its context and the cache have room for them. */
static inline uint32_t session_can_append(const hearth_session *session, uint32_t sequence)
{
    return kv_pages_room(&session->pages, sequence, session->lengths[sequence]);
}
/* A relaxed load is enough: nothing else is published with the flag. */
static inline bool session_is_cancelled(const hearth_session *session)
{
    const hearth_session *other = session->cancelled_with;
    return atomic_load_explicit(&session->cancelled, memory_order_relaxed) ||
           (other && atomic_load_explicit(&other->cancelled, memory_order_relaxed));
}

#endif
