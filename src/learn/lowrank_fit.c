/* lowrank_fit.c - minimises weighted binary cross-entropy by AdamW (Kingma and Ba; Loshchilov and Hutter, arXiv
 * 1711.05101).
 *
 * A training batch takes two passes, each divided at fixed places, so that the result is the same with any number of
 * threads: first by groups of rows (scores, derivatives of the loss, and back to the hidden units), then by rows of the
 * matrices (gradient and update at once, so that no whole gradient is ever stored).
 *
 * The learning rate of a matrix is a share of the root mean square of its initial
 * values: their size depends on the network, and no single rate fits all. Public
 * recipes take 1e-3 with PyTorch's initial values (reference/powerinfer.md 2.9). */
#include "lowrank_internal.h"

#include "../base/memory.h"
#include "../base/random.h"
#include "measure.h"

#include <math.h>
#include <string.h>

#define BATCH 256
/* Rows that one work item of training reads and multiplies at a time. */
#define FIT_ROWS 64
/* Rows of a matrix that are one work item of the second pass. */
#define STRIPE 64
#define BETA1  0.9f
#define BETA2  0.98f
#define TINY   1e-12f
#define DECAY  0.01f
/* Weight of a neuron that does not fire (one that fires has 1): NEGATIVE times the share of firing neurons that may be
 * missed. The boundary that the loss draws is then near the later threshold. Found on stories-relu, rank 32: for recall
 * 0.98, weights of 1, 0.17 (the share that fires, as in the public recipe), 0.05 and 0.015 let 29.1, 28.1, 27.8 and
 * 28.0 % through; for 0.995, weights of 0.05, 0.03 and 0.015 let 33.4, 33.1 and 33.0 % through. */
#define NEGATIVE       3.0f
#define NEGATIVE_LEAST 0.003f
#define RATE           0.01f
/* Factor of the rates after an epoch that made it worse. */
#define RETREAT 0.25f
/* The schedule of the rate, as shares of all steps and of the full rate: see schedule(). */
#define WARM_UP   0.05
#define LAST_RATE 0.05
/* Held-out rows that are scored after each epoch. With some thousands of neurons each, the error is well below one
 * percent of the density. */
#define VALIDATION_ROWS 4096

struct fit {
    const lowrank_job *job;
    lowrank_state *state;
    float *inputs;    /* [BATCH][d] divided by the scale                    */
    float *hidden;    /* [BATCH][rank]                                      */
    float *errors;    /* [BATCH][f] scores, then d loss / d score           */
    float *back;      /* [BATCH][rank] d loss / d input of the hidden units */
    uint64_t *fired;  /* [BATCH][words]                                     */
    float *gradients; /* [threads][STRIPE][widest]                          */
    uint32_t *order;  /* [training]                                         */
    size_t widest;
    float corrections[2]; /* bias corrections of both moments at this step */
    float schedule;       /* share of the full rate at this step           */
    const uint32_t *rows; /* [count] rows of the batch                     */
    size_t count;
    float *out; /* gradients are written here instead of applied; NULL: applied */
};

float fit_negative_weight(const lowrank_job *job)
{
    float weight = NEGATIVE * (1 - job->options->recall);
    return weight < NEGATIVE_LEAST ? NEGATIVE_LEAST : weight > 1 ? 1 : weight;
}

/* ------------------------------------------------------------------ the loss */

/* Computes 1 / (1 + exp(-x)) of n values. exp uses a series after splitting off powers of two, as kernel/exponent.h
 * describes; the loop vectorises and gives the same bytes everywhere. */
static void logistic(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float y = -x[i];
        y = y < -80 ? -80 : y > 80 ? 80 : y;
        float shifted = y * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum's lowest bits are the rounded value */
        int32_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        float r = y - (shifted - 12582912.0f) * 0.693147182f;
        float e = 1 + r * (1 + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r / 720)))));
        int32_t power = (int32_t)((uint32_t)bits << 23) + 0x3f800000;
        float scale;
        memcpy(&scale, &power, sizeof scale);
        x[i] = 1 / (1 + e * scale);
    }
}

/* Returns how many neurons each expert has; 0: there are no experts. */
static size_t expert_neurons(const lowrank_job *job)
{
    const ffn_shape *shape = &job->model->layers[job->layer].ffn;
    return shape->router.expert_count > 0 ? shape->expert_neurons : 0;
}

/* Replaces the scores of one row by the derivatives of the mean weighted cross-entropy with respect to them. */
static void differentiate(const fit *f, float *scores, const uint64_t *fired)
{
    size_t n = f->job->f;
    float positive = 1 / (float)f->count, negative = positive * fit_negative_weight(f->job);
    logistic(scores, n);
    for (size_t w = 0; w < f->job->words; w++)
        for (uint64_t bits = fired[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            if (i < n)
                scores[i] = (scores[i] - 1) * (positive / negative);
        }
    for (size_t i = 0; i < n; i++)
        scores[i] *= negative;
    size_t each = expert_neurons(f->job), routed = ffn_routed(&f->job->model->layers[f->job->layer].ffn);
    for (size_t begin = 0; each > 0 && begin < routed; begin += each)
        if (!bits_any(fired, begin, begin + each)) /* the token did not choose it: its scores do not matter */
            memset(scores + begin, 0, each * sizeof *scores);
}

/* Work items are rows of the batch: forward pass, loss, and back to the hidden units. */
static void pass_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const fit *f = context;
    const lowrank_job *job = f->job;
    weights w = weights_of(job, f->state->values);
    size_t n = end - begin, d = job->d, rank = job->rank;
    float *inputs = f->inputs + begin * d, *hidden = f->hidden + begin * rank, *back = f->back + begin * rank;
    float *errors = f->errors + begin * job->f;
    uint64_t *fired = f->fired + begin * job->words;
    lowrank_read(job, f->rows + begin, n, inputs, fired);
    multiply_matrices(&job->kernels, n, rank, d, 1, (product_factor){inputs, d, false},
                      (product_factor){w.fc1, d, true}, 0, hidden, rank);
    for (size_t i = 0; i < n * rank; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    multiply_matrices(&job->kernels, n, job->f, rank, 1, (product_factor){hidden, rank, false},
                      (product_factor){w.fc2, rank, true}, 0, errors, job->f);
    for (size_t i = 0; i < n; i++)
        differentiate(f, errors + i * job->f, fired + i * job->words);
    multiply_matrices(&job->kernels, n, rank, job->f, 1, (product_factor){errors, job->f, false},
                      (product_factor){w.fc2, rank, false}, 0, back, rank);
    for (size_t i = 0; i < n * rank; i++)
        back[i] = hidden[i] > 0 ? back[i] : 0;
}

/* ------------------------------------------------------------------ the update */

/* Applies one AdamW step to n values from index `at`. In the paper's terms `rate` is eta alpha, the schedule is eta,
 * and RATE * DECAY is lambda: the decay falls with the schedule and does not depend on the matrix's own rate (alpha),
 * which has the unit of the values. A retreat lowers alpha alone. Lowering lambda with it too was tried: on
 * stories-relu, six layers, recall 0.98 and 0.995, the share let through changed by 0.06 percentage points at most,
 * either way. */
static void update(const fit *f, size_t at, size_t n, float rate, const float *gradient)
{
    float *w = f->state->values + at, *m = f->state->first_moment + at, *v = f->state->second_moment + at;
    float shrink = 1 - f->schedule * RATE * DECAY;
    for (size_t i = 0; i < n; i++) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * gradient[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * gradient[i] * gradient[i];
        w[i] = shrink * w[i] - rate * (m[i] * f->corrections[0]) / (sqrtf(v[i] * f->corrections[1]) + TINY);
    }
}

/* Work items are stripes of fc1, then of fc2. The gradient is the
 * product of the batch's errors and the inputs of the matrix. */
static void pass_stripes(void *context, size_t begin, size_t end, unsigned worker)
{
    const fit *f = context;
    const lowrank_job *job = f->job;
    size_t stripes1 = (job->rank + STRIPE - 1) / STRIPE;
    float *gradient = f->gradients + (size_t)worker * STRIPE * f->widest;
    for (size_t item = begin; item < end; item++) {
        bool first = item < stripes1;
        size_t row = (first ? item : item - stripes1) * STRIPE, rows = first ? job->rank : job->f;
        size_t columns = first ? job->d : job->rank, n = rows - row < STRIPE ? rows - row : STRIPE;
        const float *errors = first ? f->back : f->errors, *met = first ? f->inputs : f->hidden;
        multiply_matrices(&job->kernels, n, columns, f->count, 1, (product_factor){errors + row, rows, true},
                          (product_factor){met, columns, false}, 0, gradient, columns);
        size_t at = (first ? 0 : job->rank * job->d) + row * columns;
        if (f->out)
            memcpy(f->out + at, gradient, n * columns * sizeof *gradient);
        else
            update(f, at, n * columns, f->state->rates[!first] * f->schedule, gradient);
    }
}

/* Runs both passes for one batch. */
static void pass(fit *f, const uint32_t *rows, size_t count)
{
    const lowrank_job *job = f->job;
    f->rows = rows;
    f->count = count;
    pool_run(job->threads, count, FIT_ROWS, pass_rows, f);
    pool_run(job->threads, (job->rank + STRIPE - 1) / STRIPE + (job->f + STRIPE - 1) / STRIPE, 1, pass_stripes, f);
}

/* ------------------------------------------------------------------ epochs */

/* Shuffles the training rows (Fisher and Yates). The order depends on the epoch's number and the seed alone. */
static void shuffle(const fit *f)
{
    size_t n = f->job->training;
    uint64_t state = f->job->options->seed * 0x2545f4914f6cdd1du + f->state->epoch;
    for (size_t i = 0; i < n; i++)
        f->order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(random_next(&state) % i);
        uint32_t moved = f->order[i - 1];
        f->order[i - 1] = f->order[j];
        f->order[j] = moved;
    }
}

/* Returns the share of the full rate at a share of all steps:
 * rises linearly to 1, then falls by half a cosine to LAST_RATE. */
static float schedule(double done)
{
    if (done < WARM_UP)
        return (float)(done / WARM_UP);
    return (float)(LAST_RATE + (1 - LAST_RATE) * (1 + cos(M_PI * (done - WARM_UP) / (1 - WARM_UP))) / 2);
}

void fit_retreat(const lowrank_job *job, lowrank_state *state)
{
    memcpy(state->values, state->best, job->weight_count * sizeof *state->values);
    memset(state->first_moment, 0, job->weight_count * sizeof *state->first_moment);
    memset(state->second_moment, 0, job->weight_count * sizeof *state->second_moment);
    state->rates[0] *= RETREAT;
    state->rates[1] *= RETREAT;
    state->fresh = state->epoch;
}

hearth_status fit_epoch(fit *f, hearth_error *error)
{
    const lowrank_job *job = f->job;
    const hearth_progress *p = &job->options->progress;
    size_t batches = (job->training + BATCH - 1) / BATCH;
    uint64_t all = (uint64_t)job->options->epochs * job->training;
    shuffle(f);
    for (size_t b = 0; b < batches; b++) {
        uint64_t step = (uint64_t)f->state->epoch * batches + b + 1, at = b * BATCH;
        f->schedule = schedule((double)step / ((double)job->options->epochs * (double)batches));
        double since = (double)(step - (uint64_t)f->state->fresh * batches);
        f->corrections[0] = (float)(1 / (1 - pow((double)BETA1, since)));
        f->corrections[1] = (float)(1 / (1 - pow((double)BETA2, since)));
        pass(f, f->order + at, job->training - at < BATCH ? job->training - at : BATCH);
        if (p->report && !p->report(p->user, "training", f->state->epoch * job->training + at, all))
            return fail(error, HEARTH_CANCELLED, "%s: cancelled", job->thing);
    }
    return HEARTH_OK;
}

void fit_gradient(fit *f, const uint32_t *rows, size_t count, float *gradient)
{
    f->out = gradient;
    pass(f, rows, count);
    f->out = NULL;
}

/* ------------------------------------------------------------------ buffers */

static float root_mean_square(const float *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return (float)sqrt(squares / (double)n);
}

void fit_choose_rates(const lowrank_job *job, lowrank_state *state)
{
    weights w = weights_of(job, state->values);
    state->rates[0] = RATE * root_mean_square(w.fc1, job->rank * job->d);
    state->rates[1] = RATE * root_mean_square(w.fc2, job->f * job->rank);
}

static size_t widest_row(const lowrank_job *job)
{
    return job->d > job->rank ? job->d : job->rank;
}

uint64_t fit_bytes(const lowrank_job *job)
{
    uint64_t row = job->d + 2 * job->rank + job->f, threads = pool_threads(job->threads);
    return sizeof(float) * (BATCH * row + threads * STRIPE * widest_row(job) + job->training) +
           BATCH * job->words * sizeof(uint64_t);
}

hearth_status fit_create(fit **out, const lowrank_job *job, lowrank_state *state, hearth_error *error)
{
    fit *f = mem_new(sizeof *f);
    if (!f)
        return fail_memory(error, job->thing, sizeof *f);
    *f = (fit){.job = job, .state = state, .widest = widest_row(job)};
    f->inputs = mem_new_array(BATCH * job->d, sizeof *f->inputs);
    f->hidden = mem_new_array(BATCH * job->rank, sizeof *f->hidden);
    f->errors = mem_new_array(BATCH * job->f, sizeof *f->errors);
    f->back = mem_new_array(BATCH * job->rank, sizeof *f->back);
    f->fired = mem_new_array(BATCH * job->words, sizeof *f->fired);
    f->gradients = mem_new_array((size_t)pool_threads(job->threads) * STRIPE * f->widest, sizeof *f->gradients);
    f->order = mem_new_array(job->training, sizeof *f->order);
    if (!f->inputs || !f->hidden || !f->errors || !f->back || !f->fired || !f->gradients || !f->order) {
        fit_destroy(f);
        return fail_memory(error, job->thing, fit_bytes(job));
    }
    *out = f;
    return HEARTH_OK;
}

void fit_destroy(fit *f)
{
    if (!f)
        return;
    mem_free(f->inputs);
    mem_free(f->hidden);
    mem_free(f->errors);
    mem_free(f->back);
    mem_free(f->fired);
    mem_free(f->gradients);
    mem_free(f->order);
    mem_free(f);
}

/* ------------------------------------------------------------------ validation */

/* Context of score_as_floats. */
typedef struct float_scores {
    const lowrank_job *job;
    weights w;
    float *inputs, *hidden; /* [threads][RECALL_ROWS][d], [threads][RECALL_ROWS][rank] */
} float_scores;

/* A recall_score on float weights, for inputs divided by the scale. */
static void score_as_floats(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const float_scores *s = context;
    const lowrank_job *job = s->job;
    float *inputs = s->inputs + (size_t)worker * RECALL_ROWS * job->d;
    float *hidden = s->hidden + (size_t)worker * RECALL_ROWS * job->rank;
    lowrank_read(job, rows, count, inputs, NULL);
    multiply_matrices(&job->kernels, count, job->rank, job->d, 1, (product_factor){inputs, job->d, false},
                      (product_factor){s->w.fc1, job->d, true}, 0, hidden, job->rank);
    for (size_t i = 0; i < count * job->rank; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    multiply_matrices(&job->kernels, count, job->f, job->rank, 1, (product_factor){hidden, job->rank, false},
                      (product_factor){s->w.fc2, job->rank, true}, 0, scores, job->f);
}

uint64_t lowrank_validate_bytes(const lowrank_job *job)
{
    uint64_t threads = pool_threads(job->threads);
    return threads * RECALL_ROWS * (job->d + job->rank) * sizeof(float) + recall_bytes(job->f, job->words, threads);
}

hearth_status lowrank_validate(const lowrank_job *job, float *values, double *density, hearth_error *error)
{
    size_t threads = pool_threads(job->threads), held = job->count - job->training;
    float_scores s = {.job = job, .w = weights_of(job, values)};
    recall_task task = {.rows = job->rows,
                        .first = job->training,
                        .end = job->count,
                        .stride = (held + VALIDATION_ROWS - 1) / VALIDATION_ROWS,
                        .neuron_count = job->f,
                        .expert_neurons = expert_neurons(job),
                        .routed = ffn_routed(&job->model->layers[job->layer].ffn),
                        .threads = job->threads,
                        .score = score_as_floats,
                        .context = &s,
                        .thing = job->thing};
    recall_result result;
    hearth_status status;
    s.inputs = mem_new_array(threads * RECALL_ROWS * job->d, sizeof *s.inputs);
    s.hidden = mem_new_array(threads * RECALL_ROWS * job->rank, sizeof *s.hidden);
    if (!s.inputs || !s.hidden)
        TRY_OR(done, status, fail_memory(error, job->thing, threads * RECALL_ROWS * job->d * sizeof(float)));
    TRY_OR(done, status, recall_find(&task, job->options->recall, true, &result, error));
    *density = result.density;
done:
    mem_free(s.inputs);
    mem_free(s.hidden);
    return status;
}
