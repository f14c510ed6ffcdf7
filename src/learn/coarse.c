/* coarse.c - finds the coarse selector's margin by counting.
 *
 * The margin that a neuron which fired needs is how far the product of its
 * copied row falls short, in standard deviations of the copy's error. At the
 * margin that is found, some neurons that do not fire are let through as well. */
#include "coarse.h"

#include "../engine/coarse.h"
#include "recall.h"
#include "scoring.h"

#include <math.h>

/* Limit of scores, beyond any sensible margin; keeps the scores of copies without any error finite and comparable. */
#define MOST_DEVIATIONS 1e6f

/* Context of score_coarsely. */
typedef struct coarse_scores {
    const hearth_model *model;
    const model_layer *layer;
    const states *rows;
    const matrix *first;
    const float *bias;
    coarse_copy copy;
    scoring with; /* inner: products by row of the matrix */
} coarse_scores;

/* Returns by how many deviations a product exceeds the value at which the neuron fires. */
static float surplus(float value, float activation_threshold, float deviation)
{
    float missing = value - activation_threshold;
    if (!(missing < 0) && !(deviation > 0))
        return MOST_DEVIATIONS;
    float s = deviation > 0 ? missing / deviation : -MOST_DEVIATIONS;
    return s < -MOST_DEVIATIONS ? -MOST_DEVIATIONS : s > MOST_DEVIATIONS ? MOST_DEVIATIONS : s;
}

/* A recall_score: computes the surplus of every neuron. */
static void score_coarsely(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const coarse_scores *s = context;
    const scoring_place *place = &s->with.places[worker];
    size_t d = s->first->columns, f = s->first->rows;
    float activation_threshold = s->model->hyper.activation_threshold;
    states_read(s->rows, rows, count, true, place->inputs, NULL);
    scoring_multiply(&s->with, place, &s->copy.rows, place->inputs, count, place->inner);
    for (size_t t = 0; t < count; t++) {
        float size = coarse_magnitude(place->inputs + t * d, d);
        for (size_t i = 0; i < f; i++) {
            float value = place->inner[t * f + i] + (s->bias ? s->bias[i] : 0);
            size_t neuron = s->layer->order ? (size_t)s->layer->order[i] : i;
            scores[t * f + neuron] = surplus(value, activation_threshold, size * s->copy.spread[i]);
        }
    }
}

/* Makes the copy and finds the margin: the negated threshold of the surplus with the wanted recall. */
static hearth_status calibrate(coarse_scores *s, number_format format, float recall, coarse_margin *out,
                               hearth_error *error)
{
    const char *path = s->model->source->path;
    recall_task task = {.rows = s->rows,
                        .first = states_training_count(s->rows),
                        .end = states_count(s->rows),
                        .step = 1,
                        .neuron_count = s->first->rows,
                        .threads = s->with.threads,
                        .score = score_coarsely,
                        .context = s,
                        .thing = path};
    recall_result result;
    TRY(coarse_create(&s->copy, s->with.threads, s->first, format, path, error));
    TRY(recall_find(&task, recall, false, &result, error));
    /* where nothing fired, any margin will do: takes the lowest finite one */
    *out = (coarse_margin){.margin = fminf(fmaxf(-result.threshold, -MOST_DEVIATIONS), MOST_DEVIATIONS),
                           .recall = result.recall,
                           .density = result.density,
                           .fired = result.fired};
    return HEARTH_OK;
}

hearth_status coarse_calibrate(coarse_margin *out, const hearth_model *model, uint32_t layer, const states *rows,
                               number_format format, float recall, const kernels *by, pool *threads,
                               hearth_error *error)
{
    if (!ffn_has_zeros(model->hyper.activation))
        return fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: coarse copy: activation %s is never zero",
                    model->source->path, layer, ffn_activations[model->hyper.activation].name);
    coarse_scores s = {.model = model,
                       .layer = &model->layers[layer],
                       .rows = rows,
                       .first = model_first_matrix(model, layer),
                       .bias = model_first_bias(model, layer)};
    TRY(scoring_open(&s.with, by, threads, s.first->columns, s.first->rows, model->source->path, error));
    hearth_status status = calibrate(&s, format, recall, out, error);
    coarse_free(&s.copy);
    scoring_close(&s.with);
    return status;
}
