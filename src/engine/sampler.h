/* sampler.h - what request.c needs of a sampler beyond hearth.h. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <hearth.h>

/* Returns the size of the vocabulary that it chooses from. */
uint32_t sampler_vocabulary(const hearth_sampler *sampler);

#endif
