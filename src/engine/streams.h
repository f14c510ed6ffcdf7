/* streams.h - layers with several streams of the residual (AltUp, arXiv 2301.13310, as Gemma 3n has it). One stream is
 * active: a layer predicts all streams from one another, runs on the predicted active one, and corrects every stream by
 * what that changed. Beside attention lie two small matrices (LAuReL, arXiv 2411.07501). */
#ifndef ENGINE_STREAMS_H
#define ENGINE_STREAMS_H

#include "engine.h"

/* Makes the streams of the first `count` rows of the batch from their embeddings in scratch.x. */
void streams_begin(hearth_session *s, size_t count);
/* Predicts the streams of a layer; the active one is in scratch.x, too. */
void streams_predict(hearth_session *s, uint32_t layer, size_t count);
/* Computes what lies beside attention, from its input in scratch.normed. */
void streams_beside(hearth_session *s, uint32_t layer, size_t count);
/* Joins it with scratch.x, to which attention has added its result. */
void streams_join(hearth_session *s, size_t count);
/* Corrects the streams by scratch.x, the result of the layer, and adds what its own input makes of the active one. */
void streams_correct(hearth_session *s, uint32_t layer, size_t count);
/* Leaves the mean of all streams in scratch.x, after they were brought back to one space. */
void streams_end(hearth_session *s, size_t count);

#endif
