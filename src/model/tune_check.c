/* tune_check.c - checks the values of a tune record, whether a file or a program filled it in. */
#include "tune_internal.h"

#include "../base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What is being checked, and how to report a failure. */
typedef struct checker {
    const tune *t;
    const hearth_model *model;
    const char *path;
    hearth_status refusal;
    hearth_error *error;
} checker;

/* Reports a wrong value of a layer's tensor. */
static hearth_status bad_value(const checker *c, enum tune_tensor tensor, uint32_t layer, size_t at, double value,
                               const char *expected)
{
    char name[TENSOR_NAME_SIZE];
    tune_tensor_name(name, tensor, layer);
    return fail(c->error, c->refusal, "%s: tensor %s: value %zu is %g, expected %s", c->path, name, at, value,
                expected);
}

/* Reports a wrong value of an array key. */
static hearth_status bad_key(const checker *c, const char *key, size_t at, double value, const char *expected)
{
    return fail(c->error, c->refusal, "%s: key %s: value %zu is %g, expected %s", c->path, key, at, value, expected);
}

/* ------------------------------------------------------------------ profile */

/* Checks the counts: a neuron fires at most once per token. */
static hearth_status check_counts(const checker *c, uint32_t layer)
{
    const tune_layer *l = &c->t->layers[layer];
    for (uint32_t i = 0; l->counts && i < l->neuron_count; i++)
        if (l->counts[i] < 0 || (uint64_t)l->counts[i] > c->t->tokens)
            return bad_value(c, TUNE_COUNTS, layer, i, (double)l->counts[i], "0 to the number of tokens");
    return HEARTH_OK;
}

/* Checks the quantiles of |activation|: finite, at least 0 and never descending. */
static hearth_status check_magnitudes(const checker *c, uint32_t layer)
{
    const float *values = c->t->layers[layer].magnitudes;
    for (size_t i = 0; values && i < TUNE_QUANTILES; i++)
        if (!isfinite(values[i]) || values[i] < (i ? values[i - 1] : 0))
            return bad_value(c, TUNE_MAGNITUDES, layer, i, (double)values[i],
                             "finite numbers of at least 0 that do not descend");
    return HEARTH_OK;
}

static hearth_status check_prune(const checker *c, uint32_t layer)
{
    const float *values = c->t->layers[layer].prune;
    for (size_t i = 0; values && i < c->t->level_count; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return bad_value(c, TUNE_PRUNE, layer, i, (double)values[i], "a finite number of at least 0");
    return HEARTH_OK;
}

/* Checks the levels, which must ascend, and the losses. */
static hearth_status check_levels(const checker *c)
{
    const tune *t = c->t;
    for (size_t i = 0; i < t->level_count; i++)
        if (!(t->levels[i] >= 0 && t->levels[i] <= 1) || (i > 0 && !(t->levels[i] > t->levels[i - 1])))
            return bad_key(c, TUNE_KEY_LEVELS, i, (double)t->levels[i], "shares of 0 to 1 that ascend");
    for (size_t i = 0; t->losses && i < t->level_count; i++)
        if (!isfinite(t->losses[i]) || t->losses[i] < 0)
            return bad_key(c, TUNE_KEY_LOSSES, i, (double)t->losses[i], "a finite number of at least 0");
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ predictors */

static hearth_status bad_matrix(const checker *c, enum tune_tensor tensor, uint32_t layer, const matrix *m,
                                uint32_t columns, uint32_t rows)
{
    char name[TENSOR_NAME_SIZE];
    tune_tensor_name(name, tensor, layer);
    return fail(c->error, c->refusal, "%s: tensor %s: is %u x %u, expected %u x %u", c->path, name, m->columns, m->rows,
                columns, rows);
}

/* Checks the shapes: fc1 [rank][d], fc2 [f][rank]. */
static hearth_status check_low_rank(const checker *c, uint32_t layer)
{
    const learned_predictor *p = &c->t->layers[layer].predictor;
    const hyperparameters *h = &c->model->hyper;
    uint32_t rank = p->fc1.rows, f = c->model->layers[layer].ffn.neuron_count;
    if (rank < 1 || rank > PREDICTOR_RANK_LIMIT)
        return fail(c->error, c->refusal, "%s: tensor blk.%u.fc1.weight: has a rank of %u, expected 1 to %d", c->path,
                    layer, rank, PREDICTOR_RANK_LIMIT);
    if (p->fc1.columns != h->embedding_length)
        return bad_matrix(c, TUNE_FC1, layer, &p->fc1, h->embedding_length, rank);
    if (p->fc2.columns != rank || p->fc2.rows != f)
        return bad_matrix(c, TUNE_FC2, layer, &p->fc2, rank, f);
    return HEARTH_OK;
}

/* Checks that the coarse format is set and that rows of d values are whole blocks of it. */
static hearth_status check_coarse(const checker *c, uint32_t layer)
{
    number_format format = c->t->layers[layer].predictor.coarse_format;
    uint32_t width = ffn_expert_width(&c->model->layers[layer].ffn, c->model->hyper.embedding_length);
    size_t row_bytes;
    if (format >= FORMAT_COUNT)
        return fail(c->error, c->refusal, "%s: key " TUNE_KEY_COARSE ": layer %u is coarse and has no format", c->path,
                    layer);
    if (!number_is_encoded(format))
        return fail(c->error, c->refusal, "%s: key " TUNE_KEY_COARSE ": layer %u: %s can be read, not written", c->path,
                    layer, number_formats[format].name);
    if (!number_row_bytes(format, width, &row_bytes))
        return fail(c->error, c->refusal,
                    "%s: key " TUNE_KEY_COARSE ": layer %u: rows of %u values are not whole blocks of %s", c->path,
                    layer, width, number_formats[format].name);
    return HEARTH_OK;
}

/* Checks a layer's predictor. Only layers whose neurons can be exactly zero may have one. */
static hearth_status check_predictor(const checker *c, uint32_t layer)
{
    const tune_layer *l = &c->t->layers[layer];
    if (!isfinite(l->predictor.threshold))
        return bad_key(c, TUNE_KEY_THRESHOLDS, layer, (double)l->predictor.threshold, "a finite number");
    if (!(l->recall >= 0 && l->recall <= 1))
        return bad_key(c, TUNE_KEY_RECALLS, layer, (double)l->recall, "a share of 0 to 1");
    if (!(l->density >= 0 && l->density <= 1))
        return bad_key(c, TUNE_KEY_DENSITIES, layer, (double)l->density, "a share of 0 to 1");
    ffn_activation activation = c->model->layers[layer].ffn.activation;
    if (l->predictor.kind != PREDICTOR_NONE && l->neuron_count == 0)
        return fail(c->error, c->refusal,
                    "%s: key " TUNE_KEY_PREDICTORS ": layer %u has one, but no feed-forward network", c->path, layer);
    if (l->predictor.kind != PREDICTOR_NONE && !ffn_has_zeros(activation))
        return fail(c->error, c->refusal,
                    "%s: key " TUNE_KEY_PREDICTORS ": layer %u has one, but the activation %s is never exactly zero",
                    c->path, layer, ffn_activations[activation].name);
    if (l->predictor.kind != PREDICTOR_NONE && c->model->layers[layer].mask_in.data)
        return fail(c->error, c->refusal,
                    "%s: key " TUNE_KEY_PREDICTORS
                    ": layer %u has one, but its experts choose their neurons by themselves",
                    c->path, layer);
    if (l->predictor.kind == PREDICTOR_LOW_RANK)
        return check_low_rank(c, layer);
    return l->predictor.kind == PREDICTOR_COARSE ? check_coarse(c, layer) : HEARTH_OK;
}

/* ------------------------------------------------------------------ all of it */

/* Checks that the report is a JSON object, or empty. */
static hearth_status check_report(const checker *c)
{
    size_t size = c->t->report ? strlen(c->t->report) : 0;
    if (size == 0)
        return HEARTH_OK;
    json_t *report;
    hearth_error why;
    hearth_status status = json_parse(&report, c->t->report, size, TUNE_KEY_REPORT, &why);
    if (status != HEARTH_OK)
        return fail(c->error, status == HEARTH_FORMAT ? c->refusal : status, "%s: key %s", c->path, why.text);
    bool is_object = json_is_object(report);
    json_decref(report);
    return is_object ? HEARTH_OK
                     : fail(c->error, c->refusal, "%s: key " TUNE_KEY_REPORT ": is not a JSON object", c->path);
}

/* Checks that a layer has the same sections as the first one with neurons: a section exists for all layers with neurons
 * or for none. Layers without neurons have no section. */
static hearth_status check_presence(const checker *c, uint32_t layer)
{
    static const tune_layer nothing;
    const tune_layer *l = &c->t->layers[layer], *first = tune_first(c->t);
    uint32_t number = (uint32_t)(first - c->t->layers);
    if (l->neuron_count == 0)
        first = &nothing;
    const struct {
        enum tune_tensor tensor;
        const void *own, *first;
    } sections[] = {{TUNE_COUNTS, l->counts, first->counts},
                    {TUNE_MAGNITUDES, l->magnitudes, first->magnitudes},
                    {TUNE_PRUNE, l->prune, first->prune}};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!sections[i].own != !sections[i].first) {
            char name[TENSOR_NAME_SIZE];
            tune_tensor_name(name, sections[i].tensor, layer);
            if (l->neuron_count == 0)
                return fail(c->error, c->refusal, "%s: tensor %s: is there, and the layer has no neurons", c->path,
                            name);
            return fail(c->error, c->refusal, "%s: tensor %s: is %s, and layer %u has %s", c->path, name,
                        sections[i].own ? "there" : "missing", number, sections[i].own ? "none" : "one");
        }
    return HEARTH_OK;
}

/* Checks that counts have their number of tokens, and thresholds their levels. */
static hearth_status check_companions(const checker *c)
{
    const tune *t = c->t;
    if (tune_first(t)->counts && (t->tokens < 1 || t->tokens > INT32_MAX))
        return fail(c->error, c->refusal, "%s: key " TUNE_KEY_TOKENS ": is %" PRIu64 ", expected 1 to %d", c->path,
                    t->tokens, INT32_MAX);
    if (!tune_first(t)->prune != (t->level_count == 0))
        return fail(c->error, c->refusal, "%s: key " TUNE_KEY_LEVELS ": %s", c->path,
                    t->level_count ? "is there, and no layer has thresholds"
                                   : "is missing, and layers have thresholds");
    return check_levels(c);
}

static hearth_status check_layer(const checker *c, uint32_t layer)
{
    TRY(check_presence(c, layer));
    TRY(check_counts(c, layer));
    TRY(check_magnitudes(c, layer));
    TRY(check_prune(c, layer));
    return c->t->has_predictors ? check_predictor(c, layer) : HEARTH_OK;
}

hearth_status tune_check(const tune *t, const hearth_model *model, const char *path, hearth_status refusal,
                         hearth_error *error)
{
    const checker c = {t, model, path, refusal, error};
    TRY(check_companions(&c));
    for (uint32_t i = 0; i < t->layer_count; i++)
        TRY(check_layer(&c, i));
    return check_report(&c);
}
