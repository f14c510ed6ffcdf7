/* recurrent.h - recurrent mixers on the CPU: Mamba-2, gated delta nets, short convolutions (recurrent_shape in model/layer.h). */
#ifndef ENGINE_RECURRENT_H
#define ENGINE_RECURRENT_H

#include "engine.h"

/* Lists the runs of the batch's rows in scratch.runs. */
void recurrent_begin_batch(hearth_session *s, size_t count);
/* Marks the sequences of the batch's rows as moved, on both sides, once all layers have been computed. */
void recurrent_end_batch(hearth_session *s, size_t count);

/* Computes the mixer of a recurrent layer for the first `count` rows of the batch: from scratch.normed to out [count][d];
 * takes the states of their sequences on. */
void recurrent_mix(hearth_session *s, uint32_t layer, size_t count, float *out);

#endif
