/* engine.h - what the engine's files share: the structs behind hearth.h's opaque names.
 *
 * Reading order: runtime.c, placement.c, placement_json.c, placement_prune.c, engine.c, coarse.c, kv_cache.c, session.c,
 * forward.c, finite.c, products.c, ffn.c, ffn_observe.c, text_api.c, sampler.c, answer.c, generate.c; for two sides
 * device_session.h, device_record.c, device_session.c, device_weights.c, trace.c. */
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

#include <pthread.h>
#include <stdatomic.h>

struct hearth_runtime {
    pool *threads;
    size_t level; /* of kernel_level_name */
    kernels kernels;
    uint64_t memory_bytes;       /* of main memory, for copies and sessions; UINT64_MAX: unknown */
    device *device;              /* side device0 of placements; NULL: none                */
    pthread_mutex_t device_lock; /* held by whoever uses the device, for a step or longer */
};

/* Engines and sessions of a runtime take turns on its device, as they do on its threads. */
void device_lock(hearth_runtime *r);
void device_unlock(hearth_runtime *r);

/* What the engine has made of a layer. */
typedef struct engine_layer {
    layer_form form;
    selector_kind selector;
    float threshold;    /* of the selector, where it has one                                               */
    matrix down_t;      /* the file's or the engine's own; no data where `down` is multiplied as the file has it */
    coarse_copy coarse; /* of SELECTOR_COARSE */
    uint32_t *rows;     /* [row_count] the CPU's neurons, ascending rows of the matrices; NULL: all of them */
    uint32_t row_count;
    uint32_t cache_index; /* its place among the layers whose keys and values lie on the same side           */
} engine_layer;

struct hearth_engine {
    hearth_runtime *runtime;
    const hearth_model *model;
    hearth_placement *placement;
    hearth_activations activations;
    engine_layer *layers;                /* [layer_count]                                                         */
    bool uses_predictors;                /* a layer's selector is SELECTOR_LOW_RANK or SELECTOR_COARSE           */
    bool leaves_out;                     /* a layer has neurons that nobody works on                             */
    bool requantised;                    /* a block format's down was rounded once more, here or when it was packed  */
    bool transposed;                     /* from the stock layout: additions come in another order than there        */
    bool owns_copies;                    /* of down_t, where transposed                                           */
    uint64_t own_bytes;                  /* of these copies, also where they are shared                           */
    uint64_t coarse_bytes;               /* of coarse copies, which are not                                       */
    device_weights *uploaded;            /* NULL: nothing lies on a device                       */
    uint32_t host_layers, device_layers; /* by where their attention runs                        */
};

/* An engine under another placement that shares the transposed copies of `of`, and is destroyed before it. model: that of
 * `of`, or one that shares its weights (tune_view). */
hearth_status engine_with_placement(hearth_engine **out, const hearth_engine *of, const hearth_model *model,
                                    const hearth_placement *placement, hearth_error *error);

/* Mean weight bytes of a token by the counts of every layer; of all neurons where counts is NULL or they count no
 * rows. */
double engine_token_bytes(const hearth_engine *engine, const hearth_counts *counts);

/* Rows rounded to 8 bits, as kernel_input has them. n: columns of the widest input. */
typedef struct rounded_rows {
    int8_t *q;     /* [B][n]      */
    float *scales; /* [B][n / 32] */
    int16_t *sums; /* [B][n / 16] */
} rounded_rows;

/* A range of neurons on its way through a feed-forward network: one or more whole slices, taken by one thread. */
typedef struct ffn_part {
    uint32_t begin;                 /* its place in lists and in rows of [f]                      */
    size_t count;                   /* neurons still worked on                                     */
    const uint32_t *list;           /* [count] which, ascending; NULL: all from `begin` on         */
    size_t computed, fired, active; /* see hearth_counts, of all rows together                     */
} ffn_part;

/* When the CPU began with a layer, came to its neurons, and was done. */
enum { MOMENT_BEGIN, MOMENT_NEURONS, MOMENT_END, MOMENTS };

/* Buffers of one batch of a feed: B = session->batch rows. Row i of every buffer belongs to row i of
 * the batch. d, f as in docs/design.md; Q = head_count * head_length, K = kv_head_count * head_length. */
typedef struct scratch {
    float *x;                    /* [B][d]  the residual stream                                        */
    float *normed;               /* [B][d]  what a block reads                                         */
    float *added;                /* [B][d]  what a block adds to the residual stream                   */
    float *query;                /* [B][Q]                                                             */
    float *key, *value;          /* [B][K]                                                             */
    float *mixed;                /* [B][Q]  attention's result before its output matrix                */
    float *gate, *up;            /* [B][f]  gate becomes the neurons' activations                      */
    float *hidden;               /* [B][largest rank]  predictor                                       */
    float *score;                /* [B][f]  predictor                                                  */
    float *size;                 /* [B]  root mean square of what a coarse copy reads                  */
    rounded_rows rounded;        /* [widest]  the current product's input                              */
    rounded_rows rounded_hidden; /* [largest rank]                                                     */
    ffn_part *parts;             /* [FFN_SLICES] of the current layer                                  */
    size_t part_count;
    uint32_t *list;                /* [f]  each part's at its place                                      */
    uint8_t *wanted;               /* [f]  0 or 1                                                        */
    float *sums;                   /* [FFN_SLICES][d]  one token                                         */
    float *chunk_sums;             /* [threads][FFN_GROUP][ACCUMULATE_COLUMNS]  many tokens              */
    float *seen, *seen_gates;      /* [f]  for observers                                                 */
    uint32_t *seen_neurons;        /* [f]                                                                */
    float *scores;                 /* [threads][heads of a group][context]  attention                    */
    float *cosine, *sine;          /* [B][rope_pairs]                                                    */
    uint32_t *sequence, *position; /* [B]                                                     */
    double (*moments)[MOMENTS];    /* [layers] of the last batch, where somebody traces       */
} scratch;

struct hearth_session {
    const hearth_engine *engine;
    uint32_t context, sequences, batch, output_rows;
    uint32_t widest;        /* longest row of weights that is multiplied with                   */
    uint32_t widest_hidden; /* hidden units of the widest predictor                             */
    hearth_progress progress;
    hearth_observer observer;      /* see NULL: nobody                                              */
    hearth_tracer tracer;          /* see NULL: nobody                                              */
    kv_cache cache;                /* of the CPU's layers                                           */
    struct device_session *device; /* NULL: the device has nothing of this session             */
    uint32_t *lengths;             /* [sequences] positions read so far                             */
    uint32_t *lengths_before;      /* [sequences] to go back to when a feed fails                   */
    float *outputs;                /* [output_rows][d] normed hidden states of the last feed        */
    size_t output_count;
    hearth_counts *counts;        /* [layers]                                               */
    hearth_counts *counts_before; /* [layers] to go back to when a step with a device is given up  */
    double *ffn_seconds; /* [layers] spent in feed-forward networks since counts were reset, observers not counted */
    atomic_bool cancelled;
    scratch scratch;
    void *block; /* the one allocation behind scratch, outputs and lengths        */
};

/* hearth_session_feed for a caller that feeds more than once and is cancelled as a whole: a cancel that came since
 * session_forget_cancel ends it. */
hearth_status session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error);
void session_forget_cancel(hearth_session *session);
bool session_is_cancelled(const hearth_session *session);

#endif
