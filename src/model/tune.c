/* tune.c - the names that tune files use, and a tune record with its model: which layer has which predictor. */
#include "tune_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ names and sizes */

const tune_array_row tune_arrays[TUNE_ARRAYS] = {
    [TUNE_KINDS] = {TUNE_KEY_PREDICTORS, VALUE_STRING}, [TUNE_INPUTS] = {TUNE_KEY_INPUTS, VALUE_STRING},
    [TUNE_COARSE] = {TUNE_KEY_COARSE, VALUE_STRING},    [TUNE_THRESHOLDS] = {TUNE_KEY_THRESHOLDS, VALUE_F32},
    [TUNE_RECALLS] = {TUNE_KEY_RECALLS, VALUE_F32},     [TUNE_DENSITIES] = {TUNE_KEY_DENSITIES, VALUE_F32}};

static const char *const tensor_names[TUNE_TENSORS] = {[TUNE_COUNTS] = "counts",
                                                       [TUNE_MAGNITUDES] = "magnitudes",
                                                       [TUNE_PRUNE] = "prune",
                                                       [TUNE_FC1] = "fc1.weight",
                                                       [TUNE_FC2] = "fc2.weight"};

void tune_tensor_name(char out[TENSOR_NAME_SIZE], enum tune_tensor tensor, uint32_t layer)
{
    snprintf(out, TENSOR_NAME_SIZE, "blk.%u.%s", layer, tensor_names[tensor]);
}

const char *const tune_input_names[2] = {"residual", "normed"};

static const char *const kind_names[PREDICTOR_KINDS] = {
    [PREDICTOR_NONE] = "none", [PREDICTOR_LOW_RANK] = "low-rank", [PREDICTOR_COARSE] = "coarse"};

const char *predictor_kind_name(predictor_kind kind)
{
    return kind_names[kind];
}

uint64_t predictor_bytes(const learned_predictor *p, uint32_t neuron_count, uint32_t embedding_length)
{
    size_t row_bytes = 0;
    if (p->kind == PREDICTOR_LOW_RANK)
        return matrix_bytes(&p->fc1) + matrix_bytes(&p->fc2);
    if (p->kind == PREDICTOR_COARSE)
        number_row_bytes(p->coarse_format, embedding_length, &row_bytes);
    return (uint64_t)neuron_count * row_bytes;
}

void tune_set_layers(tune *t, tune_layer *layers, const hearth_model *model)
{
    t->layer_count = model->hyper.layer_count;
    t->layers = layers;
    for (uint32_t i = 0; i < t->layer_count; i++)
        layers[i].neuron_count = model->layers[i].ffn.neuron_count;
}

void tune_close(tune *t)
{
    if (!t)
        return;
    checkpoint_close(t->source);
    arena_clear(&t->memory);
    mem_free(t);
}

/* ------------------------------------------------------------------ with its model */

/* Copies rows, which go by neuron number, into the order of the model file's rows. */
static hearth_status put_in_order(tune *t, matrix *m, const int32_t *order, hearth_error *error)
{
    char *rows = arena_new_array(&t->memory, m->rows, m->row_bytes);
    if (!rows)
        return fail_memory(error, "predictors", matrix_bytes(m));
    for (uint32_t i = 0; i < m->rows; i++)
        memcpy(rows + i * m->row_bytes, matrix_row(m, (size_t)order[i]), m->row_bytes);
    m->data = rows;
    return HEARTH_OK;
}

hearth_status tune_bind(tune *t, const hearth_model *model, hearth_error *error)
{
    for (uint32_t i = 0; i < t->layer_count; i++) {
        tune_layer *l = &t->layers[i];
        l->fc2_by_row = l->predictor.fc2;
        if (l->predictor.kind == PREDICTOR_LOW_RANK && model->layers[i].order)
            TRY(put_in_order(t, &l->fc2_by_row, model->layers[i].order, error));
    }
    return HEARTH_OK;
}

hearth_status tune_attach(hearth_model *model, tune *t, hearth_error *error)
{
    hearth_status status = t ? tune_bind(t, model, error) : HEARTH_OK;
    if (status != HEARTH_OK) {
        tune_close(t);
        return status;
    }
    tune_close(model->tune);
    model->tune = t;
    return HEARTH_OK;
}

/* Returns the predictor that the model's own file has for a layer: PowerInfer's, or none. */
static learned_predictor stored_predictor(const hearth_model *model, uint32_t layer)
{
    const model_layer *l = &model->layers[layer];
    return (learned_predictor){.kind = l->fc1.data ? PREDICTOR_LOW_RANK : PREDICTOR_NONE,
                               .coarse_format = FORMAT_COUNT,
                               .threshold = l->fc1.data ? model->hyper.predictor_threshold : 0,
                               .fc1 = l->fc1,
                               .fc2 = l->fc2};
}

learned_predictor tune_predictor(const tune *t, const hearth_model *model, uint32_t layer)
{
    if (!t || !t->has_predictors)
        return stored_predictor(model, layer);
    learned_predictor p = t->layers[layer].predictor;
    p.fc2 = t->layers[layer].fc2_by_row;
    assert(p.kind != PREDICTOR_LOW_RANK || p.fc2.data);
    return p;
}

bool tune_predicts(const tune *t, const hearth_model *model)
{
    if (!t || !t->has_predictors)
        return model->predictors;
    for (uint32_t i = 0; i < t->layer_count; i++)
        if (t->layers[i].predictor.kind != PREDICTOR_NONE)
            return true;
    return false;
}
