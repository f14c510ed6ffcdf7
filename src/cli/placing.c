/* placing.c - decides what runs where: placements from options, and which device a run gets.
 *
 * A device is used only where the options ask for one. If they do not name it, it is a GPU: a device that shares the
 * CPU's cores (host, PoCL) gains nothing, is meant for tests, and has to be named. */
#include "common.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../device/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A placement lists ranges of neurons; a larger file is not one. */
#define MAX_PLACEMENT_BYTES ((size_t)64 << 20)
/* The most devices of one machine that are considered. */
#define MAX_FOUND 32

/* ------------------------------------------------------------------ placements */

static hearth_status read_placement(hearth_placement **out, const hearth_model *model, const char *path,
                                    hearth_error *error)
{
    char *json;
    size_t size;
    TRY(file_read(&json, &size, path, MAX_PLACEMENT_BYTES, error));
    hearth_error inner = {0};
    hearth_status status = hearth_placement_parse(out, model, json, size, &inner);
    mem_free(json);
    return status == HEARTH_OK ? status : fail(error, status, "%s: %s", path, inner.text);
}

/* Returns the number of layers that use the device; UINT32_MAX: all. */
static uint32_t device_layers(const engine_options *o)
{
    if (o->gpu_layers.given)
        return o->gpu_layers.value;
    return o->device || o->gpu_neurons.given ? UINT32_MAX : 0;
}

static hearth_status prune(hearth_placement *p, const hearth_model *model, const engine_options *o, hearth_error *error)
{
    if (o->prune.given)
        return hearth_placement_prune(p, model, (double)o->prune.value, error);
    return hearth_placement_prune_within(p, model,
                                         o->prune_loss.given ? (double)o->prune_loss.value : HEARTH_PRUNE_LOSS, error);
}

hearth_status common_place_mode(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                const engine_options *o, hearth_error *error)
{
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, model, mode, error));
    hearth_status status = HEARTH_OK;
    if (o->threshold.given)
        hearth_placement_set_threshold(placement, o->threshold.value);
    else if (mode == HEARTH_MODE_PRUNED)
        status = prune(placement, model, o, error);
    if (status == HEARTH_OK && o->recall.given) /* 0.98 and not 0.980000019 */
        status = hearth_placement_set_recall(placement, round((double)o->recall.value * 1e6) / 1e6, error);
    if (status == HEARTH_OK)
        status = hearth_placement_use_device(placement, model, device_layers(o),
                                             o->gpu_neurons.given ? o->gpu_neurons.value : UINT32_MAX, error);
    if (status == HEARTH_OK)
        *out = placement;
    else
        hearth_placement_destroy(placement);
    return status;
}

hearth_status common_place(hearth_placement **out, const hearth_model *model, const engine_options *o,
                           hearth_error *error)
{
    *out = NULL;
    if (o->place)
        return read_placement(out, model, o->place, error);
    return device_layers(o) > 0 ? common_place_mode(out, model, (hearth_mode)o->sparsity, o, error) : HEARTH_OK;
}

/* ------------------------------------------------------------------ the device */

/* Returns the first GPU: the list begins with the best driver's. */
static const device_found *best_device(const device_found *found, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (found[i].usable && found[i].is_gpu)
            return &found[i];
    return NULL;
}

/* Lists each device found, with its problem: "opencl:0 pthread-... (shares the CPU's cores)". */
static void list_found(char *out, size_t size, const device_found *found, size_t count)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const device_found *d = &found[i];
        int n = snprintf(out + used, size - used, "%s%s%s%.60s (%.100s)", i ? ", " : "", d->spec, d->name[0] ? " " : "",
                         d->name, d->usable ? "shares the CPU's cores" : d->problem);
        used += n > 0 ? (size_t)n : 0;
    }
}

hearth_status common_choose_device(const char **spec, char found[32], const engine_options *o, hearth_error *error)
{
    *spec = o->device;
    if (o->device)
        return HEARTH_OK;
    device_found rows[MAX_FOUND];
    char *folder = common_cache_folder();
    size_t count = device_list(rows, MAX_FOUND, folder);
    mem_free(folder);
    count = count < MAX_FOUND ? count : MAX_FOUND;
    const device_found *best = best_device(rows, count);
    if (!best) {
        char list[700];
        list_found(list, sizeof list, rows, count);
        return fail(error, HEARTH_DEVICE,
                    "%s: there is no GPU that works, only %s; --device names one of them, "
                    "`hearth devices` says more",
                    o->place              ? o->place
                    : o->gpu_layers.given ? "--gpu-layers"
                                          : "--gpu-neurons",
                    list);
    }
    snprintf(found, 32, "%s", best->spec);
    *spec = found;
    return HEARTH_OK;
}
