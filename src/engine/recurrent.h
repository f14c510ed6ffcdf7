/* recurrent.h - recurrent mixers on the CPU: Mamba-2, gated delta nets, short convolutions, RWKV-7, Kimi Delta Attention
 * (recurrent_shape in model/layer.h). */
#ifndef ENGINE_RECURRENT_H
#define ENGINE_RECURRENT_H

#include "engine.h"
#include "recurrent_state.h"

/* Lists the runs of the batch's rows in scratch.runs. */
void recurrent_begin_batch(hearth_session *s, size_t count);
/* Marks the sequences of the batch's rows as moved, on both sides, once all layers have been computed. */
void recurrent_end_batch(hearth_session *s, size_t count);

/* Return where the state of a run's sequence is in a layer, in main memory: before the run (NULL: it is empty), and after it, which
 * may be the same place. */
const float *recurrent_before(const recurrent_states *states, const recurrent_layer *at, const row_run *run);
float *recurrent_after(const recurrent_states *states, const recurrent_layer *at, const row_run *run);

/* Parts of mixers that have files of their own. Convolve scratch.convolved in place; take states with a decay for each column through
 * the rows of the batch, from scratch.columns to scratch.mixed. */
void recurrent_convolve(hearth_session *s, uint32_t layer);
void recurrent_step_columns(hearth_session *s, uint32_t layer);

/* Scales each of `count` vectors of n values to a length of 1 / factor. */
void recurrent_normalise(float *x, size_t count, size_t n, float factor);

/* Computes the mixer of a recurrent layer for the first `count` rows of the batch: from scratch.normed to out [count][d];
 * takes the states of their sequences on. */
void recurrent_mix(hearth_session *s, uint32_t layer, size_t count, float *out);

#endif
