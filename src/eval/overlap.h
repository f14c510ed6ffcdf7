/* overlap.h - do both sides of a split layer work at the same time, and what does handing over cost?
 *
 * A layer is split where a step has spans "neurons" of the CPU and of the device for it (hearth.h: hearth_span); the
 * device's "join" says when the CPU's sum was there. From the three follow
 *
 *     overlap    what the two intervals of neurons have in common, over the shorter of them
 *     exchange   seconds of handing over: from where the CPU could begin to where it did, and from where the later of
 *                the two was done to where the device went on
 *
 * Spans of a layer may come in any order, but those of one step before those of the next. Belongs to one thread. */
#ifndef EVAL_OVERLAP_H
#define EVAL_OVERLAP_H

#include "../base/error.h"

/* One layer in one step. Seconds but for `overlap`. */
typedef struct overlap_sample {
    double overlap, exchange, cpu, device;
} overlap_sample;

/* What a layer has shown of its step so far. */
typedef struct overlap_layer {
    hearth_span cpu, device, join;
    unsigned seen; /* a bit for each of them */
} overlap_layer;

/* Zeroed is empty, and sees nothing. */
typedef struct overlap {
    overlap_layer *layers;   /* [layer_count]                       */
    overlap_sample *samples; /* [capacity], `count` of them in use  */
    uint32_t layer_count;
    size_t count, capacity;
} overlap;

/* Room for `capacity` samples; what comes after them is not kept. */
hearth_status overlap_open(overlap *o, uint32_t layer_count, size_t capacity, hearth_error *error);
void overlap_close(overlap *o);
/* Takes a span; others than these three are passed over. */
void overlap_see(overlap *o, const hearth_span *span);
/* Forgets all samples. */
void overlap_clear(overlap *o);

/* Over all samples: medians, and of the overlap also what 95 of 100 samples reach. Without samples all is 0. */
typedef struct overlap_result {
    size_t samples;
    double overlap, overlap_least; /* shares                                                     */
    double exchange_seconds;
    double cpu_seconds, device_seconds; /* of neurons: a split balances where they are the same */
} overlap_result;

/* HEARTH_NO_MEMORY. */
hearth_status overlap_conclude(const overlap *o, overlap_result *out, hearth_error *error);

#endif
