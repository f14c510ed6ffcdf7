/* swap.c - exchanges neurons between the sides (see swap.h). The weights of all neurons are in main memory, so that a swap
 * copies to the device alone: the rows of the neuron that comes, over those of the one that goes. A step of the device computes
 * the neurons of its places, whichever these are; the CPU lists its own by ascending rows. */
#include "swap.h"

#include "../base/memory.h"

#include <string.h>

bool engine_swaps(const hearth_engine *e, uint32_t layer)
{
    return e->uploaded && e->uploaded->layers[layer].fired && e->layers[layer].form == FORM_SPLIT;
}

/* Puts `enter` into an ascending list in place of `leave`, where that belongs. */
static void exchange_row(uint32_t *rows, uint32_t count, uint32_t leave, uint32_t enter)
{
    size_t from = count_below(rows, count, leave), to = count_below(rows, count, enter);
    if (from < to) /* those between move down */
        memmove(rows + from, rows + from + 1, (--to - from) * sizeof *rows);
    else
        memmove(rows + to + 1, rows + to, (from - to) * sizeof *rows);
    rows[to] = enter;
}

hearth_status engine_swap(const hearth_engine *e, uint32_t layer, uint32_t place, uint32_t enter, uint64_t *bytes,
                          hearth_error *error)
{
    const engine_layer *l = &e->layers[layer];
    uint32_t *there = &e->uploaded->layers[layer].rows[place], leave = *there;
    TRY(device_weights_mend(e->uploaded, e->model, e->layers, error)); /* one at a time can be torn */
    TRY(device_weights_replace(e->uploaded, e->model, l, layer, place, enter, bytes, error));
    *there = enter;
    exchange_row(l->rows, l->row_count, enter, leave);
    return HEARTH_OK;
}

hearth_status hearth_engine_placement(hearth_placement **out, const hearth_engine *engine, hearth_error *error)
{
    hearth_placement *now;
    TRY(placement_copy(&now, engine->placement, error));
    hearth_status status = HEARTH_OK;
    device_lock(engine->runtime);
    for (uint32_t i = 0; status == HEARTH_OK && i < now->layer_count; i++)
        if (engine_swaps(engine, i)) {
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
