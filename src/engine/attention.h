/* attention.h - attention on the CPU (attention_shape in model/layer.h). What latent attention has before and behind it is in
 * latent.h, how positions are chosen in choice.h. */
#ifndef ENGINE_ATTENTION_H
#define ENGINE_ATTENTION_H

#include "engine.h"

/* Computes the attention of the first `count` rows of the batch: from scratch.normed to out [count][d]. */
void attention_mix(hearth_session *s, uint32_t layer, size_t count, float *out);

#endif
