/* coarse.c - the coarse selector's margin by counting. Of a neuron that fired, the margin that lets it through is how far
 * its copied row's product falls short, in standard deviations; all others are let through by chance at that margin. */
#include "coarse.h"

#include "../base/memory.h"
#include "../engine/coarse.h"
#include "../kernel/kernel.h"
#include "recall.h"

#include <math.h>
#include <stdio.h>

/* Beyond any sensible margin; keeps what has no error at all comparable. */
#define MOST_DEVIATIONS 1e6f

/* What a worker needs for RECALL_ROWS rows. */
typedef struct coarse_place {
    float *inputs; /* [RECALL_ROWS][d]      */
    int8_t *q;     /* [RECALL_ROWS][d]      */
    float *scales; /* [RECALL_ROWS][d / 32] */
    int16_t *sums; /* [RECALL_ROWS][d / 16] */
    float *values; /* [RECALL_ROWS][f] by row of the matrix */
} coarse_place;

typedef struct coarse_scores {
    const hearth_model *model;
    const model_layer *layer;
    const states *rows;
    const matrix *first;
    const float *bias;
    coarse_copy copy;
    const kernels *kernels;
    coarse_place *places; /* [threads] */
    size_t threads;
} coarse_scores;

/* How many deviations a product is above what makes the neuron fire. */
static float surplus(float value, float silence, float deviation)
{
    float missing = value - silence;
    if (!(missing < 0) && !(deviation > 0))
        return MOST_DEVIATIONS;
    float s = deviation > 0 ? missing / deviation : -MOST_DEVIATIONS;
    return s < -MOST_DEVIATIONS ? -MOST_DEVIATIONS : s > MOST_DEVIATIONS ? MOST_DEVIATIONS : s;
}

static void score_coarsely(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const coarse_scores *s = context;
    const coarse_place *place = &s->places[worker];
    size_t d = s->first->columns, f = s->first->rows;
    float silence = s->model->hyper.activation_threshold;
    states_read(s->rows, rows, count, true, place->inputs, NULL);
    kernel_input in = {.count = count, .columns = d, .values = place->inputs};
    if (number_is_block(s->copy.rows.format)) {
        s->kernels->quantize(place->inputs, count * d, place->q, place->scales, place->sums);
        in.q = place->q;
        in.scales = place->scales;
        in.sums = place->sums;
    }
    s->kernels->product[s->copy.rows.format](&s->copy.rows, NULL, 0, f, &in, place->values, f);
    for (size_t t = 0; t < count; t++) {
        float size = coarse_magnitude(place->inputs + t * d, d);
        for (size_t i = 0; i < f; i++) {
            float value = place->values[t * f + i] + (s->bias ? s->bias[i] : 0);
            size_t neuron = s->layer->order ? (size_t)s->layer->order[i] : i;
            scores[t * f + neuron] = surplus(value, silence, size * s->copy.spread[i]);
        }
    }
}

static void free_places(coarse_scores *s)
{
    for (size_t i = 0; s->places && i < s->threads; i++) {
        mem_free(s->places[i].inputs);
        mem_free(s->places[i].q);
        mem_free(s->places[i].scales);
        mem_free(s->places[i].sums);
        mem_free(s->places[i].values);
    }
    mem_free(s->places);
}

static bool make_places(coarse_scores *s)
{
    size_t d = s->first->columns;
    s->places = mem_new_array(s->threads, sizeof *s->places);
    for (size_t i = 0; s->places && i < s->threads; i++) {
        coarse_place *p = &s->places[i];
        p->inputs = mem_new_array(RECALL_ROWS * d, sizeof *p->inputs);
        p->q = mem_new_array(RECALL_ROWS, d);
        p->scales = mem_new_array(RECALL_ROWS * (d / Q8_BLOCK + 1), sizeof *p->scales);
        p->sums = mem_new_array(RECALL_ROWS * (d / Q8_SUM + 1), sizeof *p->sums);
        p->values = mem_new_array((size_t)RECALL_ROWS * s->first->rows, sizeof *p->values);
        if (!p->inputs || !p->q || !p->scales || !p->sums || !p->values)
            return false;
    }
    return s->places != NULL;
}

static hearth_status calibrate(coarse_scores *s, number_format format, float recall, pool *threads, coarse_margin *out,
                               hearth_error *error)
{
    const char *path = s->model->source->path;
    recall_task task = {.rows = s->rows,
                        .first = states_training_count(s->rows),
                        .end = states_count(s->rows),
                        .step = 1,
                        .neuron_count = s->first->rows,
                        .threads = threads,
                        .score = score_coarsely,
                        .context = s,
                        .thing = path};
    recall_result result;
    TRY(coarse_create(&s->copy, threads, s->first, format, path, error));
    if (!make_places(s))
        return fail_memory(error, path,
                           s->threads * RECALL_ROWS * (s->first->rows + s->first->columns) * sizeof(float));
    TRY(recall_find(&task, recall, false, &result, error));
    /* where nothing fired any margin will do; the least there is stays finite */
    *out = (coarse_margin){.margin = fminf(fmaxf(-result.threshold, -MOST_DEVIATIONS), MOST_DEVIATIONS),
                           .recall = result.recall,
                           .density = result.density};
    return HEARTH_OK;
}

hearth_status coarse_calibrate(coarse_margin *out, const hearth_model *model, uint32_t layer, const states *rows,
                               number_format format, float recall, const kernels *by, pool *threads,
                               hearth_error *error)
{
    kernels best;
    pool *own = NULL;
    if (!ffn_has_zeros(model->hyper.activation))
        return fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: coarse copy: activation %s is never zero",
                    model->source->path, layer, ffn_activations[model->hyper.activation].name);
    if (!threads)
        TRY(pool_create(&own, 1, error));
    coarse_scores s = {.model = model,
                       .layer = &model->layers[layer],
                       .rows = rows,
                       .first = model_first_matrix(model, layer),
                       .bias = model_first_bias(model, layer),
                       .kernels = by ? by : &best,
                       .threads = pool_threads(own ? own : threads)};
    kernels_for(kernel_level_find(NULL), &best);
    hearth_status status = calibrate(&s, format, recall, own ? own : threads, out, error);
    coarse_free(&s.copy);
    free_places(&s);
    pool_destroy(own);
    return status;
}
