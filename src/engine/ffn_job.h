/* ffn_job.h - one layer's feed-forward network with the rows at hand: what ffn.c works on and ffn_observe.c shows. */
#ifndef ENGINE_FFN_JOB_H
#define ENGINE_FFN_JOB_H

#include "ffn.h"

typedef struct ffn_job {
    hearth_session *s;
    const model_layer *l;
    const engine_layer *e;
    const ffn_activation_row *activation;
    const matrix *first, *second; /* gate and up; plain networks: up and NULL */
    const float *first_bias, *second_bias;
    float
        activation_threshold; /* a first value that makes the activation zero; with ReLU and its kin any below does too */
    bool predicts;    /* scores decide which first values are computed ...                                      */
    float passes;     /* ... those of neurons that reach this                                                   */
    bool prunes;      /* first values are activated at once; those no larger than e->threshold count as zero    */
    bool skips_zeros; /* neurons that are zero are left out                                                     */
    float *h;         /* activations go over the first values; or over the second, where those have to stay     */
    size_t count, neuron_count;
    size_t width, slices, part_slices; /* neurons of a slice, slices, slices of a part */
    kernel_input normed, hidden;       /* what the network and what fc2 reads                */
} ffn_job;

static inline const kernels *kernels_of(const ffn_job *job)
{
    return &job->s->engine->runtime->kernels;
}

static inline uint32_t neuron_at(const ffn_part *v, size_t i)
{
    return v->list ? v->list[i] : v->begin + (uint32_t)i;
}

ffn_job ffn_describe(hearth_session *s, uint32_t layer, size_t count);
/* What the first values of n neurons of one token make of themselves. */
void ffn_activate_first(const ffn_job *job, const float *first, size_t n, float *to);

#endif
