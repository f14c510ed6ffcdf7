/* swap.c - exchanges neurons between the sides (see swap.h). The weights of all neurons are in main memory, so that a swap
 * copies to the device alone: the rows of what comes, over those of what goes. A step of the device computes the neurons of its
 * places, whichever these are, and asks which places an expert has; the CPU lists its own by ascending rows. */
#include "swap.h"

#include "../base/memory.h"

#include <string.h>

bool engine_swaps(const hearth_engine *e, uint32_t layer)
{
    return e->uploaded && e->uploaded->layers[layer].fired && e->layers[layer].form == FORM_SPLIT;
}

/* Returns whether a layer has experts on both sides, so that nothing else than the router decides what is computed where. */
static bool splits_experts(const hearth_engine *e, uint32_t layer)
{
    return e->uploaded && e->uploaded->layers[layer].ranges && e->layers[layer].form == FORM_SPLIT &&
           layer_neurons(&e->placement->layers[layer], PLACEMENT_NOBODY) == 0;
}

/* Returns how many of an expert's neurons the CPU has. */
static uint32_t on_cpu(const hearth_engine *e, uint32_t layer, uint32_t expert)
{
    const uint32_t *begins = e->layers[layer].expert_begins;
    return begins[expert + 1] - begins[expert];
}

expert_side engine_expert_side(const hearth_engine *e, uint32_t layer, uint32_t expert)
{
    uint32_t own = on_cpu(e, layer, expert);
    return own == 0                                            ? EXPERT_ON_DEVICE
           : own == e->model->layers[layer].ffn.expert_neurons ? EXPERT_ON_CPU
                                                               : EXPERT_ON_BOTH;
}

bool engine_swaps_experts(const hearth_engine *e, uint32_t layer)
{
    bool some[EXPERT_ON_BOTH + 1] = {false};
    if (!splits_experts(e, layer))
        return false;
    for (uint32_t i = 0; i < e->model->layers[layer].ffn.router.expert_count; i++)
        some[engine_expert_side(e, layer, i)] = true;
    return some[EXPERT_ON_DEVICE] && some[EXPERT_ON_CPU];
}

/* Puts rows [enter, enter + n) into an ascending list in place of [leave, leave + n), where they belong. */
static void exchange_rows(uint32_t *rows, uint32_t count, uint32_t leave, uint32_t enter, uint32_t n)
{
    size_t from = count_below(rows, count, leave), to = count_below(rows, count, enter);
    if (from < to) { /* those between move down */
        to -= n;
        memmove(rows + from, rows + from + n, (to - from) * sizeof *rows);
    } else
        memmove(rows + to + n, rows + to, (from - to) * sizeof *rows);
    for (uint32_t i = 0; i < n; i++)
        rows[to + i] = enter + i;
}

hearth_status engine_swap(const hearth_engine *e, uint32_t layer, uint32_t place, uint32_t enter, uint64_t *bytes,
                          hearth_error *error)
{
    const engine_layer *l = &e->layers[layer];
    uint32_t leave = e->uploaded->layers[layer].rows[place];
    TRY(device_weights_mend(e->uploaded, e->model, e->layers, error)); /* one at a time can be torn */
    TRY(device_weights_replace(e->uploaded, e->model, l, layer, place, enter, bytes, error));
    exchange_rows(l->rows, l->row_count, enter, leave, 1);
    return HEARTH_OK;
}

hearth_status engine_swap_expert(const hearth_engine *e, uint32_t layer, uint32_t leave, uint32_t enter,
                                 uint64_t *bytes, hearth_error *error)
{
    const engine_layer *l = &e->layers[layer];
    const ffn_shape *shape = &e->model->layers[layer].ffn;
    uint32_t f = shape->expert_neurons;
    TRY(device_weights_mend(e->uploaded, e->model, e->layers, error));
    TRY(device_weights_replace_expert(e->uploaded, e->model, l, layer, leave, enter, bytes, error));
    exchange_rows(l->rows, l->row_count, enter * f, leave * f, f);
    layer_expert_rows(shape, l->rows, l->row_count, l->expert_begins);
    return HEARTH_OK;
}

hearth_status hearth_engine_placement(hearth_placement **out, const hearth_engine *engine, hearth_error *error)
{
    hearth_placement *now;
    TRY(placement_copy(&now, engine->placement, error));
    hearth_status status = HEARTH_OK;
    device_lock(engine->runtime);
    for (uint32_t i = 0; status == HEARTH_OK && i < now->layer_count; i++)
        if (engine_swaps(engine, i) || engine_swaps_experts(engine, i)) {
            const device_layer *there = &engine->uploaded->layers[i];
            status =
                placement_set_device(now, i, there->rows, there->neuron_count, engine->model->layers[i].order, error);
        }
    device_unlock(engine->runtime);
    if (status == HEARTH_OK)
        *out = now;
    else
        hearth_placement_destroy(now);
    return status;
}
