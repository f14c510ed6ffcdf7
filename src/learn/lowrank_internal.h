/* lowrank_internal.h - what the files of the low-rank training share.
 *
 * Reading order: lowrank.c (the whole course), lowrank_begin.c (the best linear guess), lowrank_fit.c (gradients and
 * AdamW), lowrank_state.c (a state on disk), lowrank_measure.c (recall in the engine's arithmetic). */
#ifndef LEARN_LOWRANK_INTERNAL_H
#define LEARN_LOWRANK_INTERNAL_H

#include "lowrank.h"
#include "multiply.h"
#include "recall.h"

/* Rows that one item of training reads and multiplies at a time. */
#define FIT_ROWS 64

/* Both matrices as floats, one after the other: fc1 [rank][d], fc2 [f][rank]. */
typedef struct weights {
    float *fc1, *fc2;
} weights;

typedef struct lowrank_job {
    const hearth_model *model;
    uint32_t layer;
    const states *rows;
    const lowrank_options *options;
    pool *threads;
    kernels kernels; /* of the products of training */
    size_t d, f, rank, words;
    size_t weight_count; /* rank * (d + f)                                                    */
    size_t training, count;
    float scale;     /* root mean square of the inputs, which are divided by it in training */
    char thing[512]; /* "model.gguf: layer 3: predictor", for errors                       */
} lowrank_job;

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Inputs of rows, divided by the job's scale, and what fired (NULL: not wanted). */
void lowrank_read(const lowrank_job *job, const uint32_t *rows, size_t count, float *inputs, uint64_t *fired);

/* The best linear guess of where the first matrix is above the value at which a neuron fires: scores in logits, for
 * inputs divided by the scale. shifted: a unit per direction in place of two, which asks for something constant in the
 * inputs: *explained is the share of a constant that they explain, below CONSTANT_LEAST nothing is written. Units that
 * are not needed are left as they are: zero. */
hearth_status lowrank_begin(const lowrank_job *job, bool shifted, weights out, double *explained, hearth_error *error);
#define CONSTANT_LEAST 0.5
/* From here on the shifted one is the better. */
#define CONSTANT_SURE 0.9
uint64_t lowrank_begin_bytes(const lowrank_job *job);

/* Everything that changes from epoch to epoch. Arrays are [weight_count], in one block. */
typedef struct lowrank_state {
    float *values, *first_moment, *second_moment, *best;
    uint32_t epoch, best_epoch; /* done; 0: the beginning              */
    uint32_t fresh;             /* the epoch before which the moments were last zero */
    double beginning, best_density;
    float rates[2]; /* most that fc1 and fc2 change by in a step */
    bool done;
} lowrank_state;

static inline weights weights_of(const lowrank_job *job, float *values)
{
    return (weights){values, values + job->rank * job->d};
}

/* Buffers of training. */
typedef struct fit fit;
hearth_status fit_create(fit **out, const lowrank_job *job, lowrank_state *state, hearth_error *error);
void fit_destroy(fit *f);
/* From the size of the values at the beginning. */
void fit_choose_rates(const lowrank_job *job, lowrank_state *state);
uint64_t fit_bytes(const lowrank_job *job);
/* Every training row once, in an order that the epoch's number and the seed give. HEARTH_CANCELLED: the state is
 * spoilt. */
hearth_status fit_epoch(fit *f, hearth_error *error);
/* After an epoch that made it worse: back to the best, from where smaller steps are taken. */
void fit_retreat(const lowrank_job *job, lowrank_state *state);
/* The gradient of the mean weighted cross-entropy of some rows (256 at most) into [weight_count]; for tests. */
void fit_gradient(fit *f, const uint32_t *rows, size_t count, float *gradient);
/* What a neuron that does not fire counts for in the loss, where one that does counts for 1. */
float fit_negative_weight(const lowrank_job *job);

/* Density at the wanted recall, roughly, on a part of the held-out rows, of weights as floats. */
hearth_status lowrank_validate(const lowrank_job *job, float *values, double *density, hearth_error *error);
uint64_t lowrank_validate_bytes(const lowrank_job *job);

/* false in *found: there is none of these options and rows, or it is *damaged. */
hearth_status lowrank_state_read(const lowrank_job *job, lowrank_state *state, bool *found, bool *damaged,
                                 hearth_error *error);
hearth_status lowrank_state_write(const lowrank_job *job, const lowrank_state *state, hearth_error *error);

#endif
