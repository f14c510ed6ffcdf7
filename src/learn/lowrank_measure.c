/* lowrank_measure.c - measures what a low-rank predictor lets through on held-out rows: in the engine's arithmetic, or
 * approximately and faster with weights as floats during training. */
#include "lowrank_internal.h"

#include "../base/memory.h"
#include "scoring.h"

#include <math.h>
#include <stdio.h>

/* Held-out rows that are scored after each epoch. With some thousands of neurons each, the error is well below one
 * percent of the density. */
#define VALIDATION_ROWS 4096

/* ------------------------------------------------------------------ the engine's arithmetic */

/* Context of score_as_engine. */
typedef struct engine_scores {
    const lowrank *predictor;
    const states *rows;
    bool normed;
    scoring with; /* inner: hidden units */
} engine_scores;

/* A recall_score with the engine's kernels, on stored matrices. */
static void score_as_engine(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const engine_scores *s = context;
    const matrix *fc1 = &s->predictor->fc1, *fc2 = &s->predictor->fc2;
    const scoring_place *place = &s->with.places[worker];
    states_read(s->rows, rows, count, s->normed, place->inputs, NULL);
    scoring_multiply(&s->with, place, fc1, place->inputs, count, place->inner);
    s->with.kernels->activate[ACTIVATION_RELU](place->inner, NULL, 0, count * fc1->rows, place->inner);
    scoring_multiply(&s->with, place, fc2, place->inner, count, scores);
}

static hearth_status check_shapes(const lowrank *l, const hearth_model *model, const char *thing, hearth_error *error)
{
    const hyperparameters *h = &model->hyper;
    if (l->fc1.columns != h->embedding_length || l->fc2.columns != l->fc1.rows || l->fc2.rows != h->neuron_count ||
        l->fc1.rows == 0 || l->fc1.rows > PREDICTOR_RANK_LIMIT)
        return fail(error, HEARTH_INVALID, "%s: predictor: its matrices are %u x %u and %u x %u", thing, l->fc1.rows,
                    l->fc1.columns, l->fc2.rows, l->fc2.columns);
    return HEARTH_OK;
}

hearth_status lowrank_measure(lowrank *io, const hearth_model *model, uint32_t layer, const states *rows, bool normed,
                              float recall, float threshold, const kernels *by, pool *threads, hearth_error *error)
{
    char thing[512];
    engine_scores s = {.predictor = io, .rows = rows, .normed = normed};
    recall_result result;
    snprintf(thing, sizeof thing, "%s: layer %u: predictor", model->source->path, layer);
    TRY(check_shapes(io, model, model->source->path, error));
    TRY(scoring_open(&s.with, by, threads, io->fc1.columns, io->fc1.rows, thing, error));
    recall_task task = {.rows = rows,
                        .first = states_training_count(rows),
                        .end = states_count(rows),
                        .step = 1,
                        .neuron_count = model->hyper.neuron_count,
                        .threads = s.with.threads,
                        .score = score_as_engine,
                        .context = &s,
                        .thing = thing};
    hearth_status status = isfinite(threshold) ? recall_at(&task, threshold, &result, error)
                                               : recall_find(&task, recall, false, &result, error);
    scoring_close(&s.with);
    TRY(status);
    io->rank = io->fc1.rows;
    io->threshold = result.threshold;
    io->recall = result.recall;
    io->density = result.density;
    io->fired = result.fired;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ while training */

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
                        .step = (held + VALIDATION_ROWS - 1) / VALIDATION_ROWS,
                        .neuron_count = job->f,
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
