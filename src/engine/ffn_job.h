/* ffn_job.h - a feed-forward network with its input rows: that of a layer, some of its experts, or one of them. Shared by
 * ffn.c, ffn_experts.c, ffn_whole_experts.c and ffn_observe.c. */
#ifndef ENGINE_FFN_JOB_H
#define ENGINE_FFN_JOB_H

#include "ffn.h"
#include "recall.h"

typedef struct ffn_job {
    hearth_session *s;
    const model_layer *l;
    const engine_layer *e;
    const ffn_activation_row *activation;
    matrix first, second; /* gate and up; in plain networks up and one without data */
    const float *first_bias, *second_bias;
    matrix down, down_t;  /* either has data, or both */
    const float *input;   /* [count][d] */
    float *output;        /* [count][d] */
    const uint32_t *rows; /* [row_count] the neurons to compute, as ascending rows of the matrices; NULL: all */
    size_t row_count;
    uint32_t stride; /* of listed experts: rows of `first`, and of `second`, from one expert's first to the next one's,
                              where these are not the neurons of one; 0: they are */
    uint32_t first_neuron; /* number of the neuron in row 0 */
    const float *shares;   /* by expert: activations of its neurons are multiplied by its share; NULL: not */
    float threshold;       /* of the selector */
    recall_layer *recall;  /* what its predictor finds and misses is counted, and holds its recall; NULL: not */
    /* A first value for which the activation is zero; with ReLU and similar ones it is zero for all smaller values. Of an
     * activation that limits values the limit. */
    float activation_threshold;
    matrix fc1, fc2;        /* of a low-rank predictor, or the model's own mask; no data: none */
    const float *fc1_input; /* [count][d] */
    coarse_copy coarse;     /* of SELECTOR_COARSE: of the rows of `first` */
    bool predicts;    /* scores decide for which neurons first values are computed ...                            */
    float passes;     /* ... those with at least this score                                                       */
    bool prunes;      /* activates first values at once and zeroes those whose size is at most the threshold      */
    bool cuts;        /* the first values of all neurons are multiplied and cut before any is selected            */
    bool skips_zeros; /* leaves out neurons that are zero                                                         */
    float *h;         /* where activations go: over the first values, or over the second if the first are to stay */
    size_t count, neuron_count;        /* neuron_count: rows of the matrices */
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

/* Describes the work of a layer without experts for the first `count` rows of the batch. */
ffn_job ffn_describe(hearth_session *s, uint32_t layer, size_t count);
/* Computes output, without the bias of down, and adds to the counts of the layer all but the rows. hidden_known: the
 * hidden units of its predictor are in scratch.hidden. */
void ffn_compute(ffn_job *job, uint32_t layer, bool hidden_known);

/* Computes a layer with experts, as feed_forward does. In ffn_experts.c. */
void ffn_experts_compute(hearth_session *s, uint32_t layer, size_t count);

/* What the experts of a layer read, [B][width], and where their results are added up, [B][width]. */
typedef struct experts_io {
    uint32_t layer;
    size_t width;
    const float *from;
    float *to;
} experts_io;

/* Returns whether the experts of a layer can be computed by ffn_compute_whole_experts: nothing of them is left out, and
 * nobody looks at single neurons. In ffn_whole_experts.c, as that is. */
bool ffn_takes_whole_experts(const hearth_session *s, uint32_t layer);
/* Adds to io->to what the chosen experts give for rows [first, first + count), expert after expert, and counts. */
void ffn_compute_whole_experts(hearth_session *s, const experts_io *io, size_t first, size_t count);
/* Returns the experts' biases of down [experts][width] where the CPU adds them: a device that has neurons of the layer adds them
 * all. NULL: there is nothing to add. */
const float *ffn_down_biases(const hearth_session *s, uint32_t layer);

/* Marks in scratch.wanted and .seen what the CPU's neurons of a job did with row t. */
void ffn_show(const ffn_job *job, size_t t);
/* Shows an observer row t of the batch, whose neurons are marked. */
void ffn_tell(hearth_session *s, uint32_t layer, size_t t);
/* Tasks of pool_run on a job that was cut into parts (ffn_steps.c): select and gather parts; accumulate them; both. Then, with
 * one token or few, add up the slices of columns; with many, in place of accumulating parts, accumulate pairs (group of
 * tokens, chunk of columns). The activations of tokens are normed before they are accumulated. */
void ffn_choose(void *context, size_t begin, size_t end, unsigned worker);
void ffn_accumulate_few(void *context, size_t begin, size_t end, unsigned worker);
void ffn_work_on_parts(void *context, size_t begin, size_t end, unsigned worker);
void ffn_add_slices(void *context, size_t begin, size_t end, unsigned worker);
void ffn_accumulate_many(void *context, size_t begin, size_t end, unsigned worker);
void ffn_norm_activations(void *context, size_t begin, size_t end, unsigned worker);

/* Tasks before those, of a job that cuts: multiply the first values of parts; cut those of tokens. */
void ffn_multiply_first(void *context, size_t begin, size_t end, unsigned worker);
void ffn_cut_rows(void *context, size_t begin, size_t end, unsigned worker);
/* Subtracts from the first values [neuron_count] of one token what the layer says (ffn_shape.cut); what is below becomes 0. */
void ffn_cut(const ffn_job *job, float *first);

/* Adds the biases [neuron_count], which may be NULL, to row i of scratch.gate and .up, and computes its activations. */
void ffn_activate_row(const ffn_job *job, const float *first_bias, const float *second_bias, size_t i);
/* Computes the activations h of n neurons of one token from their values; h is gate or up. */
void ffn_activate(const ffn_job *job, float *gate, float *up, size_t n, float *h);
/* Applies the activation to n first values (gate, or up in plain networks) of one token. */
void ffn_activate_first(const ffn_job *job, const float *first, size_t n, float *to);

#endif
