/* kda.h - Kimi Delta Attention on the CPU (recurrent_shape in model/layer.h). */
#ifndef ENGINE_KDA_H
#define ENGINE_KDA_H

#include "engine.h"

/* Computes the mixer of a layer up to its output matrix, for the first `count` rows of the batch: from scratch.normed to
 * scratch.mixed; takes the states of their sequences on. */
void kda_mix(hearth_session *s, uint32_t layer, size_t count);

#endif
