/* ffn_job.h - the feed-forward network of one layer with its input rows; shared by ffn.c and ffn_observe.c. */
#ifndef ENGINE_FFN_JOB_H
#define ENGINE_FFN_JOB_H

#include "ffn.h"

typedef struct ffn_job {
    hearth_session *s;
    const model_layer *l;
    const engine_layer *e;
    const ffn_activation_row *activation;
    const matrix *first, *second; /* gate and up; in plain networks up and NULL */
    const float *first_bias, *second_bias;
    /* A first value for which the activation is zero; with ReLU and similar ones it is zero for all smaller values. */
    float activation_threshold;
    bool predicts;    /* scores decide for which neurons first values are computed ...                            */
    float passes;     /* ... those with at least this score                                                       */
    bool prunes;      /* activates first values at once and zeroes those whose size is at most e->threshold       */
    bool skips_zeros; /* leaves out neurons that are zero                                                         */
    float *h;         /* where activations go: over the first values, or over the second if the first are to stay */
    size_t count, neuron_count;
    size_t width, slices, part_slices; /* neurons per slice, slices, slices per part */
    kernel_input normed, hidden;       /* inputs of the network and of fc2           */
} ffn_job;

static inline const kernels *kernels_of(const ffn_job *job)
{
    return &job->s->engine->runtime->kernels;
}

/* Returns the row of the i-th neuron of a part. */
static inline uint32_t neuron_at(const ffn_part *v, size_t i)
{
    return v->list ? v->list[i] : v->begin + (uint32_t)i;
}

/* Describes the work of a layer for the first `count` rows of the batch. */
ffn_job ffn_describe(hearth_session *s, uint32_t layer, size_t count);
/* Applies the activation to n first values (gate, or up in plain networks) of one token. */
void ffn_activate_first(const ffn_job *job, const float *first, size_t n, float *to);

#endif
