/* ffn.h - the feed-forward network of a layer: select, gather, accumulate (docs/design.md). */
#ifndef ENGINE_FFN_H
#define ENGINE_FFN_H

#include "engine.h"

/* Neurons are cut by number into at most this many slices, whatever the number of threads: a slice is summed on its
 * own and the sums are added in order, so that a result depends on neither threads nor on which zeros were skipped. */
#define FFN_SLICES 16
/* Whole tiles of the matrix kernels. */
#define FFN_SLICE_MULTIPLE 32

/* Neurons per slice of f; the last may have fewer. */
static inline size_t ffn_slice_width(size_t f)
{
    size_t even = (f + FFN_SLICES - 1) / FFN_SLICES;
    return (even + FFN_SLICE_MULTIPLE - 1) / FFN_SLICE_MULTIPLE * FFN_SLICE_MULTIPLE;
}

/* A thread takes one or more whole slices at a time, so that each has about this many: lists need length, since
 * the first row of each is waited for, and the last part must not keep the others waiting long. */
#define FFN_PARTS_PER_THREAD 2

/* With many tokens, sums of this many are taken together (scratch.chunk_sums). */
#define FFN_GROUP 256

/* Adds to the residual stream of the batch's first `count` rows what layer `layer` computes from it. */
void feed_forward(hearth_session *s, uint32_t layer, size_t count);

/* Into scratch.added what the CPU's neurons of a layer add up to that the device has too, without the bias: they read
 * scratch.normed, their predictor scratch.x or, with hidden_known, scratch.hidden. */
void feed_forward_share(hearth_session *s, uint32_t layer, size_t count, bool hidden_known);

/* Shows an observer, where there is one, what both sides did with the rows: after feed_forward_share (which
 * feed_forward includes) and, for what the device did, device_step_observe. */
void feed_forward_observe(hearth_session *s, uint32_t layer, size_t count);

#endif
