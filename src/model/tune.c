/* tune.c - the names that tune files use, and attaching a tune record to its model: which layer gets which
 * predictor. */
#include "tune_internal.h"

#include "bind.h"

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

/* ------------------------------------------------------------------ attaching */

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

/* Chooses the predictor of every layer: t's where it has any, else that of the model's file. */
static hearth_status choose_predictors(learned_predictor *out, const hearth_model *model, tune *t, hearth_error *error)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        const int32_t *order = model->layers[i].order;
        bool learnt = t && t->has_predictors;
        out[i] = learnt ? t->layers[i].predictor : model_stored_predictor(model, i);
        if (learnt && out[i].kind == PREDICTOR_LOW_RANK && order)
            TRY(put_in_order(t, &out[i].fc2, order, error));
    }
    return HEARTH_OK;
}

/* All predictors are chosen before the model is changed, so that a failure leaves it as it was. */
hearth_status tune_attach(hearth_model *model, tune *t, hearth_error *error)
{
    uint32_t layers = model->hyper.layer_count;
    learned_predictor *chosen = mem_new_array(layers, sizeof *chosen);
    hearth_status status =
        chosen ? choose_predictors(chosen, model, t, error) : fail_memory(error, "predictors", layers * sizeof *chosen);
    if (status == HEARTH_OK) {
        model->predictors = false;
        for (uint32_t i = 0; i < layers; i++) {
            model->layers[i].predictor = chosen[i];
            model->predictors |= chosen[i].kind != PREDICTOR_NONE;
        }
        tune_close(model->tune);
        model->tune = t;
    } else {
        tune_close(t);
    }
    mem_free(chosen);
    return status;
}

/* A view has its own copy of the layers; their tensors are shared with `of`. */
hearth_status tune_view(hearth_model **out, const hearth_model *of, tune *t, hearth_error *error)
{
    hearth_model *m = mem_new(sizeof *m);
    if (!m) {
        tune_close(t);
        return fail_memory(error, "model", sizeof *m);
    }
    *m = *of;
    m->is_view = true;
    m->memory = (arena){0};
    m->tune = NULL;
    m->tune_problem = NULL;
    m->layers = arena_new_array(&m->memory, of->hyper.layer_count, sizeof *m->layers);
    if (!m->layers) {
        tune_close(t);
        hearth_model_close(m);
        return fail_memory(error, "model", of->hyper.layer_count * sizeof *m->layers);
    }
    memcpy(m->layers, of->layers, of->hyper.layer_count * sizeof *m->layers);
    hearth_status status = tune_attach(m, t, error);
    if (status == HEARTH_OK)
        *out = m;
    else
        hearth_model_close(m);
    return status;
}
