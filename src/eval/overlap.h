/* overlap.h - measures whether both sides of a split layer work at the same time, and what handing over costs.
 *
 * A layer is split where a step has spans "neurons" of both the CPU and the device for it (hearth.h: hearth_span); the
 * device's span "join" says when the CPU's sum had arrived. From these three spans follow
 *
 *     overlap    time that the two "neurons" intervals have in common, over the shorter of them
 *     exchange   seconds of handing over: from when the CPU could begin to when it did, plus from when the later of
 *                the two was done to when the device went on
 *
 * Spans of one step may come in any order, but all of them before those of the next step. For use by one thread. */
#ifndef EVAL_OVERLAP_H
#define EVAL_OVERLAP_H

#include "../base/error.h"

/* One layer in one step. In seconds, except `overlap`. */
typedef struct overlap_sample {
    double overlap, exchange, cpu, device;
} overlap_sample;

/* The spans of a layer's current step so far. */
typedef struct overlap_layer {
    hearth_span cpu, device, join;
    unsigned seen; /* one bit per span that was seen */
} overlap_layer;

/* A zeroed record is empty and ignores all spans. */
typedef struct overlap {
    overlap_layer *layers;   /* [layer_count]                       */
    overlap_sample *samples; /* [capacity], the first `count` in use */
    uint32_t layer_count;
    size_t count, capacity;
} overlap;

/* Allocates room for `capacity` samples; further ones are dropped. */
hearth_status overlap_open(overlap *o, uint32_t layer_count, size_t capacity, hearth_error *error);
void overlap_close(overlap *o);
/* Takes a span; ignores all but these three. */
void overlap_see(overlap *o, const hearth_span *span);
/* Discards all samples. */
void overlap_clear(overlap *o);

/* Medians over all samples; for the overlap also the value that 95 of 100 samples reach. All 0 without samples. */
typedef struct overlap_result {
    size_t samples;
    double overlap, overlap_least; /* shares                                                     */
    double exchange_seconds;
    double cpu_seconds, device_seconds; /* of neurons: a split is balanced where these are equal */
} overlap_result;

/* Computes the result. HEARTH_NO_MEMORY. */
hearth_status overlap_conclude(const overlap *o, overlap_result *out, hearth_error *error);

#endif
