/* guard.h - sparse is not always faster: a short look at the model itself decides, layer by layer.
 *
 * Models that live in the processor's cache, or whose neurons mostly fire, are read faster whole than in pieces. Two
 * questions are kept apart, because only one of them may be answered with a clock:
 *
 *   Are transposed copies of the down matrices worth having?  Sums over them round differently, so the answer shows in
 *   results (in the last digits) and follows from what never changes: whether the model fits into the cache, and how
 *   many bytes the neurons that fire would need, counted over a few tokens. Files that are neuron-major already skip
 *   this question.
 *
 *   Is it faster to skip in this layer, or to compute all?  On the same neuron-major weights both give the same bytes, so
 *   the clock decides: a few tokens are decoded both ways, alternating, and what it measured never shows in a result.
 *
 * What was found is kept per machine and model; a file that cannot be read, or is not ours, is as none. What was measured
 * while something else kept the machine busy is measured a second time, and if that was no better, again by the next
 * run. */
#ifndef PLAN_GUARD_H
#define PLAN_GUARD_H

#include "../base/error.h"

typedef enum guard_reason {
    GUARD_MEASURED,   /* by the clock                                                        */
    GUARD_FITS_CACHE, /* stock layout, small enough to live in the cache: nothing was measured */
    GUARD_TOO_DENSE,  /* stock layout, and skipping would save too few bytes to be worth a copy */
    GUARD_NO_MEMORY,  /* stock layout, and main memory does not hold the copies                 */
    GUARD_REASON_COUNT
} guard_reason;

typedef struct guard_report {
    uint32_t layers, sparse_layers; /* of the engine that was chosen                                            */
    double dense_seconds;           /* of all feed-forward networks, a token; medians; 0: not measured           */
    double exact_seconds;           /* the same where zeros are skipped; 0: not measured                         */
    double density;                 /* share of neurons that fired while measuring                               */
    guard_reason reason;
    bool remembered;    /* from an earlier run on this machine */
    bool busy;          /* the times scattered so much that the next run measures again */
    char shortage[256]; /* of GUARD_NO_MEMORY: what there was no memory for */
} guard_report;

/* An engine in mode exact whose layers compute every neuron where that is better. Zeroed is closed. */
typedef struct guarded {
    hearth_engine *engine;
    hearth_engine *copies; /* holds what `engine` shares, or NULL */
    guard_report report;
} guarded;

typedef struct guard_options {
    hearth_engine_options engine; /* its placement is not looked at; its progress also ends the measuring */
    size_t cache_bytes;           /* of the processor's last level; 0: unknown, then no model fits        */
    const char *folder;           /* where to remember, or NULL: nowhere                                  */
    bool may_be_dense;            /* without memory for copies the engine is dense, and nothing is remembered; else
                          HEARTH_NO_MEMORY */
    bool again;                   /* measures, whatever was remembered             */
    double scatter;               /* what guard_is_steady allows; 0: GUARD_SCATTER */
} guard_options;

/* HEARTH_UNSUPPORTED: the model has no mode exact. */
hearth_status guard_open(guarded *out, hearth_runtime *runtime, const hearth_model *model, const guard_options *options,
                         hearth_error *error);
void guard_close(guarded *g);

/* ------------------------------------------------------------------ the two decisions, for tests */

/* Bytes of a layer's feed-forward network. */
typedef struct guard_bytes {
    double stock;  /* as the file has it                            */
    double first;  /* of the matrix that tells which neurons fire   */
    double listed; /* of the others, transposed copy included       */
} guard_bytes;

/* Whether skipping saves so many bytes that transposed copies pay. bytes, density [layers]. */
bool guard_worth_a_copy(const guard_bytes *bytes, const double *density, size_t layers);

/* sparse [layers]: false where computing every neuron takes clearly less time. dense, exact [layers] seconds. */
void guard_choose(bool *sparse, const double *dense, const double *exact, size_t layers);

/* The median of times that can be relied on is at most this much, as a share, above the best of them: eight times what
 * quiet ones differ by (NOISE in guard.c), while a neighbour that takes half of a core doubles what it meets. */
#define GUARD_SCATTER 0.25

/* Whether times [count] of the same work were measured in peace. */
bool guard_is_steady(const double *times, size_t count, double scatter);

#endif
