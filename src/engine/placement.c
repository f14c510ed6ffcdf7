/* placement.c - placements: the default one, thresholds, neurons that are left out, and the share of a device.
 * placement_json.c reads and prints them, placement_prune.c prunes. */
#include "placement_internal.h"

#include "../base/memory.h"
#include "../device/kernels/kernels.h"
#include "../model/tune.h"

#include <math.h>
#include <string.h>

const char *const placement_forms[FORM_COUNT] = {
    [FORM_HOST] = "host", [FORM_FFN_HOST] = "ffn-host", [FORM_SPLIT] = "split", [FORM_DEVICE] = "device"};

const char *const placement_sides[PLACEMENT_SIDES] = {[PLACEMENT_CPU] = "cpu", [PLACEMENT_DEVICE] = "device0"};

const selector_row placement_selectors[SELECTOR_COUNT] = {
    [SELECTOR_ALL] = {"all", false, true},
    [SELECTOR_SIGN] = {"sign", false, true},
    [SELECTOR_COARSE] = {"coarse", true, false},
    [SELECTOR_LOW_RANK] = {"low-rank", true, true},
    [SELECTOR_MAGNITUDE] = {"magnitude", true, false},
};

static const char *const modes[HEARTH_MODE_COUNT] = {"auto",
#define X(mode, name) name,
                                                     HEARTH_MODES(X)
#undef X
};

const char *hearth_mode_name(hearth_mode mode)
{
    return (size_t)mode < HEARTH_MODE_COUNT ? modes[mode] : "unknown";
}

hearth_mode placement_auto_mode(const hearth_model *model)
{
    return ffn_has_zeros(model->hyper.activation) ? HEARTH_MODE_EXACT : HEARTH_MODE_DENSE;
}

bool selector_runs_on_device(selector_kind selector)
{
    return placement_selectors[selector].on_device;
}

/* Returns the selector of a layer in mode predicted; without a predictor only its zeros are skipped. */
static selector_kind predicted_selector(const hearth_model *model, uint32_t layer)
{
    static const selector_kind of_predictor[PREDICTOR_KINDS] = {[PREDICTOR_NONE] = SELECTOR_SIGN,
                                                                [PREDICTOR_LOW_RANK] = SELECTOR_LOW_RANK,
                                                                [PREDICTOR_COARSE] = SELECTOR_COARSE};
    return of_predictor[model->layers[layer].predictor.kind];
}

/* Returns the selector of a layer in a mode (not auto). */
static selector_kind selector_of(hearth_mode mode, const hearth_model *model, uint32_t layer)
{
    static const selector_kind fixed[HEARTH_MODE_COUNT] = {[HEARTH_MODE_DENSE] = SELECTOR_ALL,
                                                           [HEARTH_MODE_EXACT] = SELECTOR_SIGN,
                                                           [HEARTH_MODE_PRUNED] = SELECTOR_MAGNITUDE};
    return mode == HEARTH_MODE_PREDICTED ? predicted_selector(model, layer) : fixed[mode];
}

hearth_status placement_check_selector(selector_kind selector, const hearth_model *model, uint32_t layer,
                                       hearth_error *error)
{
    if (selector == SELECTOR_SIGN && !ffn_has_zeros(model->hyper.activation))
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: mode exact: the activation %s is never exactly zero, so there is nothing to skip; use dense",
                    model->source->path, ffn_activations[model->hyper.activation].name);
    predictor_kind kind = model->layers[layer].predictor.kind;
    if ((selector == SELECTOR_LOW_RANK || selector == SELECTOR_COARSE) && model->tune_problem)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: its tune file may hold other predictors and is ignored: %s (--tune none: those of the model's "
                    "own file)",
                    model->source->path, model->tune_problem);
    if ((selector == SELECTOR_LOW_RANK && kind != PREDICTOR_LOW_RANK) ||
        (selector == SELECTOR_COARSE && kind != PREDICTOR_COARSE))
        return fail(error, HEARTH_UNSUPPORTED, "%s: selector %s: layer %u has no such predictor", model->source->path,
                    placement_selectors[selector].name, layer);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ looking */

const char *layer_form_name(layer_form form)
{
    return placement_forms[form];
}

bool layer_uses_device(const layer_placement *layer)
{
    return layer->form != FORM_HOST;
}

/* Returns whether the attention of any layer is on the device. */
bool placement_has_device_layer(const hearth_placement *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (layer_uses_device(&p->layers[i]))
            return true;
    return false;
}

bool placement_needs_device(const hearth_placement *placement)
{
    return placement->embedding != PLACEMENT_CPU || placement->head != PLACEMENT_CPU ||
           placement_has_device_layer(placement);
}

uint32_t layer_neurons(const layer_placement *layer, uint32_t side)
{
    uint32_t count = 0;
    for (const placement_part *part = layer->parts; part < layer->parts + layer->part_count; part++)
        for (uint32_t i = 0; part->side == side && i < part->range_count; i++)
            count += part->ranges[i].end - part->ranges[i].begin;
    return count;
}

/* ------------------------------------------------------------------ building */

bool placement_is_of(const hearth_placement *p, const hearth_model *model)
{
    return p->layer_count == model->hyper.layer_count && p->neuron_count == model->hyper.neuron_count;
}

hearth_status placement_no_memory(hearth_error *error)
{
    return fail(error, HEARTH_NO_MEMORY, "placement: out of memory");
}

hearth_status placement_new(hearth_placement **out, uint32_t side_count, uint32_t layer_count, uint32_t neuron_count,
                            hearth_error *error)
{
    hearth_placement *p = mem_new(sizeof *p);
    if (!p)
        return placement_no_memory(error);
    p->side_count = side_count;
    p->layer_count = layer_count;
    p->neuron_count = neuron_count;
    p->sides = arena_new_array(&p->memory, side_count, sizeof *p->sides);
    p->layers = arena_new_array(&p->memory, layer_count, sizeof *p->layers);
    if (!p->sides || !p->layers) {
        hearth_placement_destroy(p);
        return placement_no_memory(error);
    }
    *out = p;
    return HEARTH_OK;
}

bool placement_add_parts(hearth_placement *p, layer_placement *layer, uint32_t part_count)
{
    layer->parts = arena_new_array(&p->memory, part_count, sizeof *layer->parts);
    layer->part_count = layer->parts ? part_count : 0;
    return layer->parts != NULL;
}

bool placement_add_ranges(hearth_placement *p, placement_part *part, uint32_t range_count)
{
    part->ranges = arena_new_array(&p->memory, range_count, sizeof *part->ranges);
    part->range_count = part->ranges ? range_count : 0;
    return part->ranges != NULL;
}

hearth_status hearth_placement_create(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                      hearth_error *error)
{
    if (mode < 0 || mode >= HEARTH_MODE_COUNT)
        return fail(error, HEARTH_INVALID, "placement: mode %d: is not known", (int)mode);
    if (mode == HEARTH_MODE_AUTO)
        mode = placement_auto_mode(model);
    if (mode == HEARTH_MODE_PREDICTED && !model->predictors)
        return model_lacks_tune(model,
                                "mode predicted: the model has no predictors; exact needs none, `hearth tune` trains "
                                "some, and `hearth convert --predictors` adds PowerInfer's",
                                error);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        TRY(placement_check_selector(selector_of(mode, model, i), model, i, error));
    hearth_placement *p;
    TRY(placement_new(&p, 1, model->hyper.layer_count, model->hyper.neuron_count, error));
    p->sides[PLACEMENT_CPU] = placement_sides[PLACEMENT_CPU];
    for (uint32_t i = 0; i < p->layer_count; i++) {
        layer_placement *layer = &p->layers[i];
        layer->selector = selector_of(mode, model, i);
        layer->threshold = mode == HEARTH_MODE_PREDICTED ? model->layers[i].predictor.threshold : 0;
        if (!placement_add_parts(p, layer, 1) || !placement_add_ranges(p, layer->parts, 1)) {
            hearth_placement_destroy(p);
            return placement_no_memory(error);
        }
        layer->parts->ranges[0] = (neuron_range){0, p->neuron_count};
    }
    *out = p;
    return HEARTH_OK;
}

void hearth_placement_set_threshold(hearth_placement *placement, float threshold)
{
    if (!isfinite(threshold))
        return;
    for (uint32_t i = 0; i < placement->layer_count; i++)
        if (placement_selectors[placement->layers[i].selector].has_threshold)
            placement->layers[i].threshold = threshold;
    placement->pruning = (hearth_pruning){0};
}

/* ------------------------------------------------------------------ dividing neurons */

/* Gives a part the neurons for which chosen [neuron_count] is `wanted`, as ranges; returns false if memory is out. */
static bool fill_part(hearth_placement *p, placement_part *part, uint32_t side, const bool *chosen, bool wanted)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->neuron_count; n++)
        count += chosen[n] == wanted && (n == 0 || chosen[n - 1] != wanted);
    part->side = side;
    if (!placement_add_ranges(p, part, count))
        return false;
    neuron_range *range = part->ranges;
    for (uint32_t n = 0; n < p->neuron_count; n++)
        if (chosen[n] == wanted) {
            uint32_t begin = n;
            while (n < p->neuron_count && chosen[n] == wanted)
                n++;
            *range++ = (neuron_range){begin, n};
        }
    return true;
}

hearth_status hearth_placement_keep(hearth_placement *placement, const hearth_model *model, double share, bool hottest,
                                    hearth_error *error)
{
    hearth_placement *p = placement;
    const tune *t = model->tune;
    if (!placement_is_of(p, model))
        return fail(error, HEARTH_INVALID, "placement: is of another model");
    if (placement_needs_device(p))
        return fail(error, HEARTH_INVALID, "placement: uses a device, and neurons can only be left out without one");
    if (!t || !t->layers[0].order)
        return model_lacks_tune(model, "it is not known which neurons are hot; `hearth profile` finds out", error);
    if (!(share > 0 && share <= 1))
        return fail(error, HEARTH_INVALID, "placement: a share of %g is not within 0 and 1", share);
    /* At least one neuron stays: a layer without any is not supported. */
    uint32_t f = p->neuron_count, kept = (uint32_t)((double)f * share + 0.5);
    kept = kept > 0 ? kept : 1;
    bool *chosen = mem_new_array(f, sizeof *chosen), ok = chosen != NULL;
    for (uint32_t i = 0; ok && i < p->layer_count; i++) {
        memset(chosen, 0, f * sizeof *chosen);
        for (uint32_t n = 0; n < kept; n++)
            chosen[t->layers[i].order[hottest ? n : f - 1 - n]] = true;
        layer_placement *layer = &p->layers[i];
        ok = placement_add_parts(p, layer, kept < f ? 2 : 1) &&
             fill_part(p, &layer->parts[0], PLACEMENT_CPU, chosen, true) &&
             (kept == f || fill_part(p, &layer->parts[1], PLACEMENT_NOBODY, chosen, false));
    }
    mem_free(chosen);
    return ok ? HEARTH_OK : placement_no_memory(error);
}

/* ------------------------------------------------------------------ using a device */

/* Gives the first `neurons` rows of a layer to the device. order: the original number of each row of the file, or NULL:
 * the same. on_device [neuron_count] is scratch. Returns false if memory is out. */
static bool split_layer(hearth_placement *p, layer_placement *layer, const int32_t *order, uint32_t neurons,
                        bool *on_device)
{
    layer->form = neurons == 0 ? FORM_FFN_HOST : neurons == p->neuron_count ? FORM_DEVICE : FORM_SPLIT;
    if (!placement_add_parts(p, layer, layer->form == FORM_SPLIT ? 2 : 1))
        return false;
    memset(on_device, 0, p->neuron_count * sizeof *on_device);
    for (uint32_t row = 0; row < neurons; row++)
        on_device[order ? (uint32_t)order[row] : row] = true;
    placement_part *part = layer->parts;
    if (neurons < p->neuron_count && !fill_part(p, part++, PLACEMENT_CPU, on_device, false))
        return false;
    return neurons == 0 || fill_part(p, part, PLACEMENT_DEVICE, on_device, true);
}

/* Adds the device to the sides; returns false if memory is out. */
static bool add_device(hearth_placement *p)
{
    const char **sides = arena_new_array(&p->memory, PLACEMENT_SIDES, sizeof *sides);
    if (!sides)
        return false;
    memcpy(sides, placement_sides, sizeof placement_sides);
    p->sides = sides;
    p->side_count = PLACEMENT_SIDES;
    return true;
}

hearth_status hearth_placement_use_device(hearth_placement *placement, const hearth_model *model, uint32_t layers,
                                          uint32_t neurons, hearth_error *error)
{
    hearth_placement *p = placement;
    if (!placement_is_of(p, model))
        return fail(error, HEARTH_INVALID, "placement: is of another model");
    layers = layers < p->layer_count ? layers : p->layer_count;
    neurons = neurons < p->neuron_count ? neurons : p->neuron_count;
    if (layers == 0)
        return HEARTH_OK;
    /* First check all these layers, so that an error leaves the placement unchanged. */
    for (uint32_t i = p->layer_count - layers; i < p->layer_count; i++) {
        if (!selector_runs_on_device(p->layers[i].selector))
            return fail(error, HEARTH_UNSUPPORTED, "placement: layer %u: devices do not run the selector %s yet", i,
                        placement_selectors[p->layers[i].selector].name);
        if (layer_neurons(&p->layers[i], PLACEMENT_NOBODY) > 0)
            return fail(error, HEARTH_UNSUPPORTED,
                        "placement: layer %u: neurons are left out, which only layers of form host can do", i);
    }
    bool *on_device = mem_new_array(p->neuron_count, sizeof *on_device);
    bool ok = on_device && add_device(p);
    for (uint32_t i = p->layer_count - layers; ok && i < p->layer_count; i++)
        ok = split_layer(p, &p->layers[i], model->layers[i].order, neurons, on_device);
    mem_free(on_device);
    if (!ok)
        return placement_no_memory(error);
    p->kv = PLACEMENT_DEVICE;
    if (layers == p->layer_count && neurons == p->neuron_count && device_has_format(model->head.format))
        p->head = PLACEMENT_DEVICE;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ copying */

/* Copies a layer with its parts and ranges; returns false if memory is out. */
static bool copy_layer(hearth_placement *to, layer_placement *layer, const layer_placement *from)
{
    *layer = *from;
    if (!placement_add_parts(to, layer, from->part_count))
        return false;
    for (uint32_t i = 0; i < from->part_count; i++) {
        const placement_part *part = &from->parts[i];
        layer->parts[i].side = part->side;
        if (!placement_add_ranges(to, &layer->parts[i], part->range_count))
            return false;
        memcpy(layer->parts[i].ranges, part->ranges, part->range_count * sizeof *part->ranges);
    }
    return true;
}

hearth_status placement_copy(hearth_placement **out, const hearth_placement *from, hearth_error *error)
{
    hearth_placement *p;
    TRY(placement_new(&p, from->side_count, from->layer_count, from->neuron_count, error));
    p->kv = from->kv;
    p->embedding = from->embedding;
    p->head = from->head;
    p->pruning = from->pruning;
    memcpy(p->sides, from->sides, p->side_count * sizeof *p->sides); /* names are constants */
    bool copied = true;
    for (uint32_t i = 0; copied && i < p->layer_count; i++)
        copied = copy_layer(p, &p->layers[i], &from->layers[i]);
    if (!copied) {
        hearth_placement_destroy(p);
        return placement_no_memory(error);
    }
    *out = p;
    return HEARTH_OK;
}

void hearth_placement_destroy(hearth_placement *placement)
{
    if (!placement)
        return;
    arena_clear(&placement->memory);
    mem_free(placement);
}
