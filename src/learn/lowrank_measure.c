/* lowrank_measure.c - what a low-rank predictor lets through, on held-out rows: in the engine's arithmetic, with the
 * matrices as they are stored and inputs rounded to 8 bits where the format wants it (src/engine/ffn.c); or, roughly and
 * faster, of weights as floats while they are trained. */
#include "lowrank_parts.h"

#include "../base/memory.h"
#include "../kernel/kernel.h"

#include <math.h>
#include <stdio.h>

/* Held-out rows that are looked at after each epoch: of some thousands of neurons each, which leaves an error well
 * below a part in a hundred of the density. */
#define VALIDATION_ROWS 4096

/* ------------------------------------------------------------------ the engine's arithmetic */

/* What a worker needs for RECALL_ROWS rows. */
typedef struct bench_place {
    float *inputs, *hidden; /* [RECALL_ROWS][d], [RECALL_ROWS][rank] */
    int8_t *q;              /* [RECALL_ROWS][widest]                 */
    float *scales;          /* [RECALL_ROWS][widest / 32]            */
    int16_t *sums;          /* [RECALL_ROWS][widest / 16]            */
} bench_place;

typedef struct engine_scores {
    const lowrank *predictor;
    const states *rows;
    bool normed;
    const kernels *kernels;
    bench_place *places; /* [threads] */
    size_t count;
} engine_scores;

static kernel_input input_for(const engine_scores *s, const matrix *w, const float *x, size_t count,
                              const bench_place *place)
{
    kernel_input in = {.count = count, .columns = w->columns, .values = x};
    if (!number_is_block(w->format))
        return in;
    s->kernels->quantize(x, count * w->columns, place->q, place->scales, place->sums);
    in.q = place->q;
    in.scales = place->scales;
    in.sums = place->sums;
    return in;
}

static void score_as_engine(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const engine_scores *s = context;
    const matrix *fc1 = &s->predictor->fc1, *fc2 = &s->predictor->fc2;
    const bench_place *place = &s->places[worker];
    states_read(s->rows, rows, count, s->normed, place->inputs, NULL);
    kernel_input in = input_for(s, fc1, place->inputs, count, place);
    s->kernels->product[fc1->format](fc1, NULL, 0, fc1->rows, &in, place->hidden, fc1->rows);
    s->kernels->activate[ACTIVATION_RELU](place->hidden, NULL, 0, count * fc1->rows, place->hidden);
    in = input_for(s, fc2, place->hidden, count, place);
    s->kernels->product[fc2->format](fc2, NULL, 0, fc2->rows, &in, scores, fc2->rows);
}

static void free_places(engine_scores *s)
{
    for (size_t i = 0; s->places && i < s->count; i++) {
        mem_free(s->places[i].inputs);
        mem_free(s->places[i].hidden);
        mem_free(s->places[i].q);
        mem_free(s->places[i].scales);
        mem_free(s->places[i].sums);
    }
    mem_free(s->places);
}

static bool make_places(engine_scores *s, size_t threads)
{
    size_t d = s->predictor->fc1.columns, rank = s->predictor->fc1.rows, widest = d > rank ? d : rank;
    s->places = mem_new_array(threads, sizeof *s->places);
    s->count = threads;
    for (size_t i = 0; s->places && i < threads; i++) {
        bench_place *p = &s->places[i];
        p->inputs = mem_new_array(RECALL_ROWS * d, sizeof *p->inputs);
        p->hidden = mem_new_array(RECALL_ROWS * rank, sizeof *p->hidden);
        p->q = mem_new_array(RECALL_ROWS, widest);
        p->scales = mem_new_array(RECALL_ROWS * (widest / Q8_BLOCK + 1), sizeof *p->scales);
        p->sums = mem_new_array(RECALL_ROWS * (widest / Q8_SUM + 1), sizeof *p->sums);
        if (!p->inputs || !p->hidden || !p->q || !p->scales || !p->sums)
            return false;
    }
    return s->places != NULL;
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
    kernels best = {0};
    engine_scores s = {.predictor = io, .rows = rows, .normed = normed, .kernels = by ? by : &best};
    recall_result result;
    hearth_status status;
    pool *own = NULL;
    snprintf(thing, sizeof thing, "%s: layer %u: predictor", model->source->path, layer);
    TRY(check_shapes(io, model, model->source->path, error));
    if (!threads)
        TRY(pool_create(&own, 1, error));
    recall_task task = {.rows = rows,
                        .first = states_training_count(rows),
                        .end = states_count(rows),
                        .step = 1,
                        .neuron_count = model->hyper.neuron_count,
                        .threads = own ? own : threads,
                        .score = score_as_engine,
                        .context = &s,
                        .thing = thing};
    kernels_for(kernel_level_find(NULL), &best);
    if (!make_places(&s, pool_threads(task.threads)))
        TRY_OR(done, status, fail_memory(error, thing, RECALL_ROWS * sizeof(float) * (io->fc1.columns + io->fc1.rows)));
    if (isfinite(threshold))
        TRY_OR(done, status, recall_at(&task, threshold, &result, error));
    else
        TRY_OR(done, status, recall_find(&task, recall, false, &result, error));
    io->rank = io->fc1.rows;
    io->threshold = result.threshold;
    io->recall = result.recall;
    io->density = result.density;
    io->fired = result.fired;
done:
    free_places(&s);
    pool_destroy(own);
    return status;
}

/* ------------------------------------------------------------------ while training */

typedef struct float_scores {
    const lowrank_job *job;
    weights w;
    float *inputs, *hidden; /* [threads][RECALL_ROWS][d], [threads][RECALL_ROWS][rank] */
} float_scores;

static void score_as_floats(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const float_scores *s = context;
    const lowrank_job *job = s->job;
    float *inputs = s->inputs + (size_t)worker * RECALL_ROWS * job->d;
    float *hidden = s->hidden + (size_t)worker * RECALL_ROWS * job->rank;
    lowrank_read(job, rows, count, inputs, NULL);
    blas_multiply(&job->blas, count, job->rank, job->d, 1, (blas_factor){inputs, job->d, false},
                  (blas_factor){s->w.fc1, job->d, true}, 0, hidden, job->rank);
    for (size_t i = 0; i < count * job->rank; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    blas_multiply(&job->blas, count, job->f, job->rank, 1, (blas_factor){hidden, job->rank, false},
                  (blas_factor){s->w.fc2, job->rank, true}, 0, scores, job->f);
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
