/* per_layer.h - inputs of the layers' own (Gemma 3n and 4): every token has p values for each layer, from a second
 * embedding and from its embedding; a layer multiplies them with what it makes of its residual stream. */
#ifndef ENGINE_PER_LAYER_H
#define ENGINE_PER_LAYER_H

#include "engine.h"

/* Computes the inputs of all layers for the first `count` rows of the batch, whose embeddings are in scratch.x:
 * scratch.per_layer. */
void per_layer_prepare(hearth_session *s, const hearth_row *rows, size_t count);

/* Computes out (act(gate x) * e) of a layer with its input e: from x [count][d] to to [count][d]. */
void per_layer_apply(const hearth_session *s, uint32_t layer, size_t count, const float *x, float *to);

#endif
