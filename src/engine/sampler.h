/* sampler.h - what generate.c has to know of a sampler beyond hearth.h. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <hearth.h>

/* The number of tokens that it chooses from. */
uint32_t sampler_vocabulary(const hearth_sampler *sampler);

#endif
