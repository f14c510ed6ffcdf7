/* inputs_internal.h - where the engine adds to the sums of inputs.h. Callers test session->inputs first. */
#ifndef ENGINE_INPUTS_INTERNAL_H
#define ENGINE_INPUTS_INTERNAL_H

#include "ffn_job.h"
#include "inputs.h"

/* Adds x [count][columns], the input of the matrices of a place; expert: whose, 0 where there are none. */
void inputs_add(const hearth_session *s, const input_squares *to, size_t expert, const float *x, size_t count);
/* Adds an input of the mixer's matrices to the sums, if there are any. */
static inline void inputs_see(const hearth_session *s, uint32_t layer, input_place place, const float *x, size_t count)
{
    if (s->inputs)
        inputs_add(s, &s->inputs->layers[layer][place], 0, x, count);
}
/* Adds what the matrices of a feed-forward network read; the job has been computed. */
void inputs_add_network(const ffn_job *job, uint32_t layer);

#endif
