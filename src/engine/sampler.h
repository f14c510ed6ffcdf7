/* sampler.h - what request.c and answer.c need of a sampler beyond hearth.h. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <hearth.h>

/* Returns the size of the vocabulary that it chooses from. */
uint32_t sampler_vocabulary(const hearth_sampler *sampler);

/* As hearth_sampler_pick, but out of the tokens whose bit (i % 64 of word i / 64) is set; at least one is. NULL: all. */
int32_t sampler_pick_among(hearth_sampler *sampler, const float *logits, const uint64_t *allowed);

#endif
