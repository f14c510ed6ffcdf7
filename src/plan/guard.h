/* guard.h - decides layer by layer, by a short test on the model itself, where skipping zeros is faster than dense.
 *
 * A model that fits into the processor's cache, or most of whose neurons fire, is often faster when its matrices are
 * read whole. Two questions are separate, because a clock may answer only one of them:
 *
 *   Do transposed copies of the down matrices pay?  Sums over a copy round differently, so the decision changes
 *   the last digits of results. It therefore follows only from what never changes: whether the model fits into
 *   the cache, and how many bytes the neurons that fire would need, counted over a few tokens. Neuron-major
 *   files need no copy, so the question does not arise for them.
 *
 *   Should this layer skip zeros, or compute every neuron?  On the same neuron-major weights both give the same
 *   bytes, so the clock decides: a few tokens are decoded both ways, alternating. The times never change a
 *   result.
 *
 * The findings are stored per machine and model; a file that cannot be read or
 * has another key is treated as missing. Times taken while the machine was busy
 * are measured a second time, and if that was no better, again by the next run. */
#ifndef PLAN_GUARD_H
#define PLAN_GUARD_H

#include "../base/error.h"

typedef enum guard_reason {
    GUARD_MEASURED,   /* decided by measured times                                         */
    GUARD_FITS_CACHE, /* stock layout, fits into the cache: nothing was measured           */
    GUARD_TOO_DENSE,  /* stock layout, skipping would save too few bytes to pay for a copy */
    GUARD_NO_MEMORY,  /* stock layout, the copies do not fit into main memory              */
    GUARD_REASON_COUNT
} guard_reason;

typedef struct guard_report {
    uint32_t layers, sparse_layers; /* of the engine that was chosen, those with a network            */
    double dense_seconds;           /* per token, all feed-forward networks; medians; 0: not measured */
    double exact_seconds;           /* the same with zeros skipped; 0: not measured                   */
    double density;                 /* share of neurons that fired while measuring                    */
    guard_reason reason;
    bool remembered;    /* the findings are from an earlier run on this machine      */
    bool busy;          /* the times scattered too much; the next run measures again */
    char shortage[256]; /* for GUARD_NO_MEMORY: what did not fit into memory         */
} guard_report;

/* The opened engine: in mode exact, with layers that compute every neuron where that is faster, or the plain dense
 * engine (report.reason says why). A zeroed struct is closed. */
typedef struct guarded {
    hearth_engine *engine;
    hearth_engine *copies; /* owns the transposed copies that `engine` shares, or NULL */
    guard_report report;
} guarded;

typedef struct guard_options {
    hearth_engine_options engine; /* placement is ignored; progress also serves the measurement                     */
    size_t cache_bytes;           /* of the processor's last-level cache; 0: unknown, then no model is taken to fit */
    const char *folder;           /* where findings are stored; NULL: nowhere                                       */
    bool may_be_dense;            /* true: without memory for copies the engine is dense and nothing is stored;
                                     false: HEARTH_NO_MEMORY then */
    bool again;                   /* measures even where findings are stored     */
    double scatter;               /* limit for guard_is_steady; 0: GUARD_SCATTER */
} guard_options;

/* Opens an engine for the model: measures and decides, or takes the stored findings. HEARTH_UNSUPPORTED: the model has
 * no mode exact. HEARTH_CANCELLED through progress. On failure *out is closed. */
hearth_status guard_open(guarded *out, hearth_runtime *runtime, const hearth_model *model, const guard_options *options,
                         hearth_error *error);
void guard_close(guarded *g);

/* ------------------------------------------------------------------ the two decisions, for tests */

/* Bytes of a layer's feed-forward network. */
typedef struct guard_bytes {
    double stock;  /* the whole network as stored in the file              */
    double first;  /* the matrix that determines which neurons fire        */
    double listed; /* the other matrices, with the transposed copy of down */
} guard_bytes;

/* Returns whether skipping saves enough bytes for transposed copies to pay. bytes, density [layers]. */
bool guard_worth_a_copy(const guard_bytes *bytes, const double *density, size_t layers);

/* Sets sparse [layers]: false where computing every neuron is clearly faster (by more than NOISE in guard.c). dense,
 * exact [layers]: seconds. */
void guard_choose(bool *sparse, const double *dense, const double *exact, size_t layers);

/* Times are reliable if their median exceeds the best of them by at most this share. It is eight times the noise of a
 * quiet machine (NOISE in guard.c); a neighbour that takes half of a core doubles the times that it disturbs. */
#define GUARD_SCATTER 0.25

/* Returns whether times [count] of the same work scatter so little that they can be relied on. No times: true. */
bool guard_is_steady(const double *times, size_t count, double scatter);

#endif
