/* rwkv.h - RWKV-7 on the CPU (recurrent_shape in model/layer.h). */
#ifndef ENGINE_RWKV_H
#define ENGINE_RWKV_H

#include "engine.h"

/* Computes the mixer of a layer up to its output matrix, for the first `count` rows of the batch: from scratch.normed to
 * scratch.mixed; takes the states of their sequences on. The first layer's values stay for the others of the batch. */
void rwkv_mix(hearth_session *s, uint32_t layer, size_t count);

/* Makes scratch.normed the mixture that the network of a layer reads. */
void rwkv_mix_network(hearth_session *s, uint32_t layer, size_t count);

#endif
