/* engine.c - a model under a placement on a runtime. */
#include "engine.h"

#include "../base/memory.h"

static uint64_t matrix_bytes(const matrix *m)
{
    return m->data ? (uint64_t)m->rows * m->row_bytes : 0;
}

/* What reading one token moves: every matrix once, one row of the embedding, the norms. */
static uint64_t token_bytes(const hearth_model *model)
{
    const hyperparameters *h = &model->hyper;
    uint64_t norms = (uint64_t)(2 * h->layer_count + 1) * h->embedding_length * sizeof(float);
    uint64_t bytes = norms + matrix_bytes(&model->head) + model->embedding.row_bytes;
    for (uint32_t i = 0; i < h->layer_count; i++) {
        const model_layer *l = &model->layers[i];
        const matrix *all[] = {&l->q, &l->k, &l->v, &l->attention_output, &l->gate, &l->up, &l->down};
        for (size_t m = 0; m < sizeof all / sizeof *all; m++)
            bytes += matrix_bytes(all[m]);
    }
    return bytes;
}

hearth_status hearth_engine_create(hearth_engine **out, hearth_runtime *runtime, const hearth_model *model,
                                   const hearth_engine_options *options, hearth_error *error)
{
    static const hearth_engine_options defaults = {0};
    if (!options)
        options = &defaults;
    hearth_engine *e = mem_new(sizeof *e);
    if (!e)
        return fail_memory(error, "engine", sizeof *e);
    e->runtime = runtime;
    e->model = model;
    e->activations = options->activations;
    e->token_bytes = token_bytes(model);
    hearth_status status = options->placement ? placement_copy(&e->placement, options->placement, error)
                                              : hearth_placement_default(&e->placement, model, error);
    if (status == HEARTH_OK && (e->placement->layer_count != model->hyper.layer_count ||
                                e->placement->neuron_count != model->hyper.neuron_count))
        status = fail(error, HEARTH_INVALID, "placement: is of another model");
    if (status != HEARTH_OK) {
        hearth_engine_destroy(e);
        return status;
    }
    *out = e;
    return HEARTH_OK;
}

void hearth_engine_destroy(hearth_engine *engine)
{
    if (!engine)
        return;
    hearth_placement_destroy(engine->placement);
    mem_free(engine);
}

const hearth_model *hearth_engine_model(const hearth_engine *engine)
{
    return engine->model;
}

uint64_t hearth_engine_token_bytes(const hearth_engine *engine)
{
    return engine->token_bytes;
}

/* The weakest selector of the layers decides both; there is one selector so far. */
static const struct {
    const char *rung, *class;
} selector_claims[SELECTOR_COUNT] = {
    [SELECTOR_ALL] = {"dense", "bitwise"},
};

static selector_kind weakest_selector(const hearth_placement *p)
{
    selector_kind weakest = SELECTOR_ALL;
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].selector > weakest)
            weakest = p->layers[i].selector;
    return weakest;
}

const char *hearth_engine_rung(const hearth_engine *engine)
{
    return selector_claims[weakest_selector(engine->placement)].rung;
}

const char *hearth_engine_class(const hearth_engine *engine)
{
    return selector_claims[weakest_selector(engine->placement)].class;
}
