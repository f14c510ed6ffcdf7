/* engine.h - what the engine's files share: the structs behind hearth.h's opaque names.
 *
 * Reading order: runtime.c, placement.c, engine.c, kv_cache.c, session.c, forward.c, text_api.c, sampler.c, answer.c, generate.c. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "../base/pool.h"
#include "../kernel/kernel.h"
#include "../model/model.h"
#include "kv_cache.h"
#include "placement.h"

#include <stdatomic.h>

struct hearth_runtime {
    pool *threads;
    size_t level; /* of kernel_level_name */
    kernels kernels;
};

struct hearth_engine {
    hearth_runtime *runtime;
    const hearth_model *model;
    hearth_placement *placement;
    hearth_activations activations;
    uint64_t token_bytes;
};

/* Buffers of one slice of a feed: B = session->batch rows. Row i of every buffer belongs to row i of
 * the slice. d, f as in DESIGN.md; Q = head_count * head_length, K = kv_head_count * head_length. */
typedef struct scratch {
    float *x;                      /* [B][d]  the residual stream                                        */
    float *normed;                 /* [B][d]  what a block reads                                         */
    float *added;                  /* [B][d]  what a block adds to the residual stream                   */
    float *query;                  /* [B][Q]                                                             */
    float *key, *value;            /* [B][K]                                                             */
    float *mixed;                  /* [B][Q]  attention's result before its output matrix                */
    float *gate, *up;              /* [B][f]  gate becomes the neurons' activations                      */
    int8_t *q;                     /* [B][widest]       the current product's input, rounded to 8 bits   */
    float *q_scales;               /* [B][widest / 32]                                                   */
    int16_t *q_sums;               /* [B][widest / 16]                                                   */
    float *scores;                 /* [threads][heads of a group][context]  attention                    */
    float *cosine, *sine;          /* [B][rope_pairs]                                                    */
    uint32_t *sequence, *position; /* [B]                                                     */
} scratch;

struct hearth_session {
    const hearth_engine *engine;
    uint32_t context, sequences, batch, output_rows;
    uint32_t widest; /* longest row of weights that is multiplied with                   */
    hearth_progress progress;
    hearth_observer observer; /* see NULL: nobody                                              */
    kv_cache cache;
    uint32_t *lengths;        /* [sequences] positions read so far                             */
    uint32_t *lengths_before; /* [sequences] to go back to when a feed fails                   */
    float *outputs;           /* [output_rows][d] normed hidden states of the last feed        */
    size_t output_count;
    atomic_bool cancelled;
    scratch scratch;
    void *block; /* the one allocation behind scratch, outputs and lengths        */
};

#endif
