/* device_state.h - between device_session.c and device_record.c: what a session has on a device. */
#ifndef ENGINE_DEVICE_STATE_H
#define ENGINE_DEVICE_STATE_H

#include "device_session.h"
#include "engine.h"

/* R = STEP_ROWS; n the most neurons of a layer; d, Q, K as in scratch; P = rope_pairs. */
typedef struct device_vectors {
    device_buffer *step;                     /* step_record, then cosine and sine [R][P]                    */
    device_buffer *x;                        /* [R][d]  the residual stream                                 */
    device_buffer *normed;                   /* [R][d]                                                      */
    device_buffer *q8, *q8_scales, *q8_sums; /* [R][widest], / 32: the current product's input in 8 bits */
    device_buffer *qkv;                      /* [R][query, key, value: Q, K, K rounded up to STACK_ROWS] */
    device_buffer *partial, *mixed;          /* [R][heads][splits][head_length + 2], [R][Q]                 */
    device_buffer *hidden, *score;           /* [R][largest rank], [R][n]                                   */
    device_buffer *first, *second;           /* [R][n]  first becomes the activations; there is room in it for
                                                both of one token's, each rounded up to STACK_ROWS              */
    device_buffer *lists[TOTALS];            /* [R][n]  let through, fired, active                          */
    device_buffer *listed[TOTALS];           /* [R]                                                         */
    device_buffer *sums;                     /* [R][DEVICE_PARTS][d]                                        */
    device_buffer *answer;                   /* [R][d]  the CPU's sum                                       */
    device_buffer *totals;                   /* [layers][R][TOTALS], they only grow (and wrap)              */
    device_buffer *logits;                   /* [R][vocabulary]                                             */
    device_buffer *cache; /* [device layers][keys, values][sequence][kv_head][context][head_length] */
} device_vectors;

/* Their counterparts in main memory, for what crosses the bus. */
typedef struct device_mirror {
    device_buffer *step, *x, *normed, *hidden, *answer, *totals, *logits;
    device_buffer *first, *lists[TOTALS], *listed[TOTALS]; /* for observers */
} device_mirror;

typedef enum program_kind {
    PROGRAM_ONE,      /* a step of one row               */
    PROGRAM_MANY,     /* of up to STEP_ROWS              */
    PROGRAM_OBSERVED, /* that stops after every layer    */
    PROGRAM_HEAD_ONE, /* the head, of one row            */
    PROGRAM_HEAD_MANY,
    PROGRAM_KINDS
} program_kind;

struct device_session {
    device *device;
    hearth_runtime *runtime;
    device_buffer **buffers; /* [buffer_count] everything that `there` and `here` name */
    size_t buffer_count;
    device_vectors vectors;
    device_mirror mirror;
    device_program *programs[PROGRAM_KINDS];
    device_program *running; /* the step that has begun, or the last one */
    uint32_t *totals_seen;   /* [layers][R][TOTALS] of here.totals, at the end of the last step */
};

/* Parts into which the rows of down_t are cut for `accumulate`: enough groups to fill a large GPU with the columns of a
 * narrow model, few enough that adding their sums up costs little. */
#define DEVICE_PARTS 32

/* Exchanges: the residual stream on its way from side to side before a layer; what the CPU's neurons read and answer;
 * the stop for observers. */
#define SLOT_STREAM(layer)   (3 * (layer))
#define SLOT_NEURONS(layer)  (3 * (layer) + 1)
#define SLOT_OBSERVED(layer) (3 * (layer) + 2)
#define SLOT_COUNT(layers)   (3 * (layers))

/* Moments of a layer, for tracers. */
enum { STAMP_BEGIN, STAMP_NEURONS, STAMP_OWN_END, STAMP_JOIN, STAMP_END, STAMPS };
#define STAMP(layer, moment) ((layer)*STAMPS + (moment))

/* Where cosine and sine begin in `step`. */
#define STEP_ANGLES ((sizeof(step_record) + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT)

/* Bytes of one layer's keys, or values, in the cache. */
size_t device_cache_half(const hearth_session *s);

/* Records and seals a program of the session. */
hearth_status device_record(device_program **out, const hearth_session *s, const device_session *ds, program_kind kind,
                            hearth_error *error);

#endif
