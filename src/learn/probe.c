/* probe.c - measures the hot neurons alone: reads the same windows with all neurons and with the hottest ones. */
#include "loss.h"
#include "profile.h"

#include "../base/memory.h"

#include <string.h>

const double profile_probe_shares[PROFILE_PROBES] = {0.2, 0.4, 0.6};

/* Copies the order, counts and magnitudes of a layer into the record's own memory. */
static hearth_status fill_layer(tune *t, uint32_t layer, const profile_layer *from, uint64_t *scratch)
{
    uint32_t f = t->neuron_count, *order = arena_new_array(&t->memory, f, sizeof *order);
    int32_t *counts = arena_new_array(&t->memory, f, sizeof *counts);
    float *magnitudes = arena_new_array(&t->memory, TUNE_QUANTILES, sizeof *magnitudes);
    if (!order || !counts || !magnitudes)
        return HEARTH_NO_MEMORY;
    profile_rank(from->counts, f, scratch, order);
    memcpy(counts, from->counts, f * sizeof *counts);
    memcpy(magnitudes, from->magnitudes, sizeof from->magnitudes);
    t->layers[layer].order = order;
    t->layers[layer].counts = counts;
    t->layers[layer].magnitudes = magnitudes;
    return HEARTH_OK;
}

/* Fills the tune record with the profile. On failure the caller frees the record. */
static hearth_status fill_record(tune *t, const profile *p, hearth_error *error)
{
    uint64_t *scratch = mem_new_array(p->neuron_count, sizeof *scratch);
    t->layers = arena_new_array(&t->memory, p->layer_count, sizeof *t->layers);
    hearth_status status = scratch && t->layers ? HEARTH_OK : HEARTH_NO_MEMORY;
    for (uint32_t i = 0; status == HEARTH_OK && i < p->layer_count; i++)
        status = fill_layer(t, i, &p->layers[i], scratch);
    mem_free(scratch);
    return status == HEARTH_OK ? status : fail_memory(error, "profile", p->neuron_count * sizeof *scratch);
}

hearth_status profile_view(hearth_model **out, const profile *p, const hearth_model *of, hearth_error *error)
{
    tune *t = mem_new(sizeof *t);
    if (!t)
        return fail_memory(error, "profile", sizeof *t);
    *t = (tune){.layer_count = p->layer_count, .neuron_count = p->neuron_count, .tokens = p->tokens, .report = ""};
    hearth_status status = fill_record(t, p, error);
    if (status == HEARTH_OK)
        return tune_view(out, of, t, error);
    tune_close(t);
    return status;
}

/* Returns the first token of the last windows that together have at most `tokens` tokens; at least one window. */
static uint64_t first_token(const corpus *c, uint64_t tokens)
{
    size_t w = c->window_count - 1;
    while (w > 0 && c->id_count - c->starts[w - 1] <= tokens)
        w--;
    return c->starts[w];
}

/* Compares dense with an engine that keeps the hottest `share` of each layer. model: the engine's, with counts. */
static hearth_status measure_hottest(loss *out, const hearth_engine *dense, const hearth_model *model,
                                     hearth_runtime *runtime, const corpus *texts, double share, uint64_t tokens,
                                     const hearth_progress *progress, hearth_error *error)
{
    hearth_placement *hot;
    hearth_engine *engine = NULL;
    TRY(hearth_placement_create(&hot, model, HEARTH_MODE_DENSE, error));
    hearth_status status = hearth_placement_keep(hot, model, share, true, error);
    hearth_engine_options options = {.placement = hot, .progress = *progress};
    if (status == HEARTH_OK)
        status = hearth_engine_create(&engine, runtime, model, &options, error);
    hearth_placement_destroy(hot);
    if (status == HEARTH_OK)
        status = loss_measure(out, dense, engine, texts, first_token(texts, tokens), tokens, *progress, error);
    hearth_engine_destroy(engine);
    return status;
}

hearth_status profile_probe(profile *p, const hearth_engine *dense, hearth_runtime *runtime, const corpus *texts,
                            uint64_t tokens, hearth_progress progress, hearth_error *error)
{
    hearth_model *counted;
    TRY(profile_view(&counted, p, hearth_engine_model(dense), error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < PROFILE_PROBES; i++) {
        loss seen;
        status =
            measure_hottest(&seen, dense, counted, runtime, texts, profile_probe_shares[i], tokens, &progress, error);
        if (status == HEARTH_OK) {
            p->hot_only_agreement[i] = seen.same_top;
            p->probed_tokens = seen.tokens;
        }
    }
    hearth_model_close(counted);
    return status;
}
