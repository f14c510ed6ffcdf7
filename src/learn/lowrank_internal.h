/* lowrank_internal.h - shared declarations of the low-rank training.
 *
 * Reading order: lowrank.c (the order of work, the state on disk), lowrank_begin.c (the closed form), lowrank_fit.c
 * (gradients, AdamW, validation), lowrank_multiply.c (products). */
#ifndef LEARN_LOWRANK_INTERNAL_H
#define LEARN_LOWRANK_INTERNAL_H

#include "lowrank.h"

/* Both matrices as floats, one after the other: fc1 [rank][d], fc2 [f][rank]. */
typedef struct weights {
    float *fc1, *fc2;
} weights;

/* Constants of one training run. */
typedef struct lowrank_job {
    const hearth_model *model;
    uint32_t layer;
    const states *rows;
    const lowrank_options *options;
    pool *threads;
    kernels kernels; /* for the products of training */
    size_t d, f, rank, words;
    size_t weight_count; /* rank * (d + f) */
    size_t training, count;
    float scale;     /* root mean square of the inputs; training divides them by it */
    char thing[512]; /* "model.gguf: layer 3: predictor", for errors                */
} lowrank_job;

/* Reads the inputs of rows, divided by the job's scale, and the bits of what fired (NULL: not wanted). */
void lowrank_read(const lowrank_job *job, const uint32_t *rows, size_t count, float *inputs, uint64_t *fired);

/* Computes the closed form: the best linear estimate of where the first matrix exceeds the value at which a neuron
 * fires, as scores in logits, for inputs divided by the scale. shifted: one hidden unit per direction instead of two,
 * which needs something constant in the inputs. *explained is the share of a constant that they explain; if it is below
 * CONSTANT_LEAST, the shifted form writes nothing. Unused units are not written: they must be zero before. */
hearth_status lowrank_begin(const lowrank_job *job, bool shifted, weights out, double *explained, hearth_error *error);
#define CONSTANT_LEAST 0.5
/* Returns the bytes of memory that lowrank_begin needs. */
uint64_t lowrank_begin_bytes(const lowrank_job *job);

/* Everything that changes from epoch to epoch. Each array is [weight_count], in the order of `weights`. */
typedef struct lowrank_state {
    float *values, *first_moment, *second_moment, *best;
    uint32_t epoch, best_epoch; /* done; best_epoch 0: the closed form */
    uint32_t fresh;             /* number of epochs done when the moments were last zeroed */
    double beginning, best_density;
    float rates[2]; /* learning rates of fc1 and fc2: about the largest step of a value */
    bool done;
} lowrank_state;

/* Returns both matrices within an array of weight_count values. */
static inline weights weights_of(const lowrank_job *job, float *values)
{
    return (weights){values, values + job->rank * job->d};
}

/* Training of one state: its buffers and place in the schedule. */
typedef struct fit fit;
/* Allocates the buffers. job and state must outlive it. On failure *out is unchanged. */
hearth_status fit_create(fit **out, const lowrank_job *job, lowrank_state *state, hearth_error *error);
void fit_destroy(fit *f);
/* Sets the learning rates from the size of the initial values. */
void fit_choose_rates(const lowrank_job *job, lowrank_state *state);
/* Returns the bytes of memory that training needs beyond the state. */
uint64_t fit_bytes(const lowrank_job *job);
/* Trains one epoch: every training row once, in an order that follows from the epoch's number and the seed.
 * HEARTH_CANCELLED: the state is no longer usable. */
hearth_status fit_epoch(fit *f, hearth_error *error);
/* Goes back to the best values after an epoch that made it worse; later rates are lower. */
void fit_retreat(const lowrank_job *job, lowrank_state *state);
/* Computes the gradient of the mean weighted cross-entropy of
 * some rows (256 at most) into [weight_count]; for tests. */
void fit_gradient(fit *f, const uint32_t *rows, size_t count, float *gradient);
/* Returns the weight in the loss of a neuron that does not fire; one that fires has weight 1. */
float fit_negative_weight(const lowrank_job *job);

/* Estimates the density at the wanted recall, on a sample of the held-out rows, with weights as floats. */
hearth_status lowrank_validate(const lowrank_job *job, float *values, double *density, hearth_error *error);
/* Returns the bytes of memory that lowrank_validate needs. */
uint64_t lowrank_validate_bytes(const lowrank_job *job);

/* ------------------------------------------------------------------ products of float32 matrices */

/* A matrix of floats as a product reads it; `stride` floats from row to row. */
typedef struct product_factor {
    const float *values;
    size_t stride;
    bool transposed; /* stored rows are the columns of the factor */
} product_factor;

/* Computes c [m][n] = alpha * a [m][k] b [k][n] + beta * c, on the calling thread; beta 0: c is not read. */
void multiply_matrices(const kernels *by, size_t m, size_t n, size_t k, float alpha, product_factor a, product_factor b,
                       float beta, float *c, size_t c_stride);
/* The same on all threads. */
void multiply_matrices_wide(const kernels *by, pool *threads, size_t m, size_t n, size_t k, float alpha,
                            product_factor a, product_factor b, float beta, float *c, size_t c_stride);

#endif
