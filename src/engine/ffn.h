/* ffn.h - the feed-forward network of a layer: select, gather, accumulate (docs/design.md). */
#ifndef ENGINE_FFN_H
#define ENGINE_FFN_H

#include "engine.h"

/* Neurons are cut by number into at most this many slices, whatever the number of threads. Each slice is summed on its
 * own and the sums are added in order, so results depend neither on threads nor on which zeros were skipped. */
#define FFN_SLICES 16
/* Slices are whole tiles of the matrix kernels. */
#define FFN_SLICE_MULTIPLE 32

/* Returns the neurons per slice of f neurons; the last slice may have fewer. */
static inline size_t ffn_slice_width(size_t f)
{
    size_t even = (f + FFN_SLICES - 1) / FFN_SLICES;
    return (even + FFN_SLICE_MULTIPLE - 1) / FFN_SLICE_MULTIPLE * FFN_SLICE_MULTIPLE;
}

/* A part is one or more whole slices, chosen so that each thread takes about this many parts. Longer lists are better,
 * as the first row of each list has to be waited for; but the last part must not keep the other threads waiting
 * long. */
#define FFN_PARTS_PER_THREAD 2

/* Up to this many tokens are few: each part sums up its slices for all of them in one pass over its rows (scratch.sums). */
#define FFN_FEW 16
/* Beyond that, the sums of this many are computed together (scratch.chunk_sums). */
#define FFN_GROUP 256

/* Pairs of a token and an expert are computed together up to this many, so that few tokens, whose experts are mostly
 * different ones, are one job; or as many as a batch has rows, if these are more. */
#define EXPERT_PAIRS 512

/* Returns for how many pairs scratch has room: rows of a batch, and the experts that a token uses (0: there are none). */
static inline size_t expert_pairs(size_t rows, size_t used)
{
    size_t most = rows * used < EXPERT_PAIRS ? rows * used : EXPERT_PAIRS;
    return rows > most ? rows : most;
}

/* Computes the feed-forward network of a layer for the first `count` rows of the batch: from scratch.normed to
 * scratch.added; and shows it to an observer. Its predictors may also read scratch.x. */
void feed_forward(hearth_session *s, uint32_t layer, size_t count);

/* Chooses the experts of every row in a layer that has some: scratch.shares. input: scratch.normed, or what entered the
 * layer (router_shape.early). */
void feed_forward_route(const hearth_session *s, uint32_t layer, size_t count, const float *input);

/* Writes to scratch.added the sum of the CPU's neurons of a layer that is shared with the device, without the bias. Where
 * the CPU has all experts, it adds their biases; and it shows neurons of experts, of both sides, to observers.
 * Their input is scratch.normed; that of their predictor scratch.x or, if hidden_known, its hidden units in
 * scratch.hidden. */
void feed_forward_share(hearth_session *s, uint32_t layer, size_t count, bool hidden_known);

/* Shows an observer, if there is one, what both sides did with the rows. feed_forward calls it; after
 * feed_forward_share the caller does, for the neurons of the device after device_step_observe. */
void feed_forward_observe(hearth_session *s, uint32_t layer, size_t count);

#endif
