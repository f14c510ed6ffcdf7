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

// clang-format off
const selector_traits selectors[SELECTOR_COUNT] = {
    /*                     name         mode                   guarantee                 predictor           skips  threshold  device */
    [SELECTOR_ALL]       = {"all",       HEARTH_MODE_DENSE,     HEARTH_GUARANTEE_BITWISE, PREDICTOR_NONE,     false, false, true},
    [SELECTOR_SIGN]      = {"sign",      HEARTH_MODE_EXACT,     HEARTH_GUARANTEE_BITWISE, PREDICTOR_NONE,     true,  false, true},
    [SELECTOR_COARSE]    = {"coarse",    HEARTH_MODE_PREDICTED, HEARTH_GUARANTEE_MARGIN,  PREDICTOR_COARSE,   true,  true,  false},
    [SELECTOR_LOW_RANK]  = {"low-rank",  HEARTH_MODE_PREDICTED, HEARTH_GUARANTEE_LOSSY,   PREDICTOR_LOW_RANK, true,  true,  true},
    [SELECTOR_MAGNITUDE] = {"magnitude", HEARTH_MODE_PRUNED,    HEARTH_GUARANTEE_LOSSY,   PREDICTOR_NONE,     true,  true,  false},
};
// clang-format on

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
    return model_has_zeros(model) ? HEARTH_MODE_EXACT : HEARTH_MODE_DENSE;
}

/* Returns the selector of a layer in a mode (not auto). In mode predicted a layer without a predictor skips its zeros. A
 * layer without a network has nothing to select, and so has one without zeros in a model where others have some. */
static selector_kind selector_of(hearth_mode mode, const hearth_model *model, const tune *t, uint32_t layer)
{
    if (model->layers[layer].ffn.neuron_count == 0)
        return SELECTOR_ALL;
    const ffn_shape *f = &model->layers[layer].ffn;
    if (mode == HEARTH_MODE_EXACT && !ffn_skippable(f) && model_has_zeros(model))
        return SELECTOR_ALL;
    bool predicts = mode == HEARTH_MODE_PREDICTED && !f->cuts && !model->layers[layer].experts_norm.weight;
    predictor_kind predictor = predicts ? tune_predictor(t, model, layer).kind : PREDICTOR_NONE;
    for (selector_kind i = 0; i < SELECTOR_COUNT; i++)
        if (selectors[i].mode == mode && selectors[i].predictor == predictor)
            return i;
    return ffn_skippable(f) || !model_has_zeros(model) ? SELECTOR_SIGN : SELECTOR_ALL;
}

hearth_status placement_check_selector(selector_kind selector, const hearth_model *model, const tune *t, uint32_t layer,
                                       hearth_error *error)
{
    if (selector != SELECTOR_ALL && model->layers[layer].ffn.neuron_count == 0)
        return fail(error, HEARTH_UNSUPPORTED, "%s: selector %s: layer %u has no feed-forward network",
                    model->source->path, selectors[selector].name, layer);
    if (selector == SELECTOR_SIGN && !ffn_skippable(&model->layers[layer].ffn))
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: mode exact: the activation %s is never exactly zero, so there is nothing to skip; use dense",
                    model->source->path, ffn_activations[model->layers[layer].ffn.activation].name);
    if (selector == SELECTOR_MAGNITUDE &&
        ffn_activations[model->layers[layer].ffn.activation].kernel == ACTIVATION_SWIGLU_CLAMPED)
        return fail(error, HEARTH_UNSUPPORTED, "%s: mode pruned: is not made for the activation %s; use dense",
                    model->source->path, ffn_activations[model->layers[layer].ffn.activation].name);
    predictor_kind needed = selectors[selector].predictor;
    if (needed != PREDICTOR_NONE && model->layers[layer].experts_norm.weight)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: selector %s: layer %u has experts beside a network, for which there are no predictors",
                    model->source->path, selectors[selector].name, layer);
    if (needed != PREDICTOR_NONE && model->layers[layer].ffn.cuts)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: selector %s: in layer %u the values of all neurons decide which of them fire, so none can be "
                    "left out before",
                    model->source->path, selectors[selector].name, layer);
    if (needed != PREDICTOR_NONE && !t && model->tune_problem)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: its tune file may hold other predictors and is ignored: %s (--tune none: those of the model's "
                    "own file)",
                    model->source->path, model->tune_problem);
    if (needed != PREDICTOR_NONE && needed != tune_predictor(t, model, layer).kind)
        return fail(error, HEARTH_UNSUPPORTED, "%s: selector %s: layer %u has no such predictor", model->source->path,
                    selectors[selector].name, layer);
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
    for (const neuron_assignment *a = layer->assignments; a < layer->assignments + layer->assignment_count; a++)
        for (uint32_t i = 0; a->side == side && i < a->range_count; i++)
            count += a->ranges[i].end - a->ranges[i].begin;
    return count;
}

hearth_status layer_rows(const layer_placement *layer, uint32_t side, const int32_t *order, uint32_t neuron_count,
                         uint32_t *rows, uint32_t *count, hearth_error *error)
{
    bool *mine = mem_new_array(neuron_count, sizeof *mine); /* by original number */
    if (!mine)
        return fail_memory(error, "neurons of a side", neuron_count);
    for (const neuron_assignment *a = layer->assignments; a < layer->assignments + layer->assignment_count; a++)
        for (uint32_t i = 0; a->side == side && i < a->range_count; i++)
            memset(mine + a->ranges[i].begin, true, a->ranges[i].end - a->ranges[i].begin);
    *count = 0;
    for (uint32_t row = 0; row < neuron_count; row++)
        if (mine[order ? (uint32_t)order[row] : row])
            rows[(*count)++] = row;
    mem_free(mine);
    return HEARTH_OK;
}

void layer_expert_rows(const ffn_shape *shape, const uint32_t *rows, uint32_t count, uint32_t *begins)
{
    uint32_t experts = shape->router.expert_count, row = 0;
    for (uint32_t e = 0; e <= experts; e++) {
        while (row < count && rows[row] < e * (uint64_t)shape->expert_neurons)
            row++;
        begins[e] = row;
    }
    begins[experts + 1] = count;
}

/* Returns whether an expert, or what follows the last one, begins at a neuron. */
static bool begins_expert(const ffn_shape *shape, uint32_t neuron)
{
    return neuron == shape->neuron_count || (neuron <= ffn_routed(shape) && neuron % shape->expert_neurons == 0);
}

bool layer_cuts_experts(const layer_placement *layer, const ffn_shape *shape)
{
    for (uint32_t i = 0; shape->router.expert_count > 0 && i < layer->assignment_count; i++) {
        const neuron_assignment *a = &layer->assignments[i];
        for (uint32_t k = 0; k < a->range_count; k++) {
            bool goes_on = k + 1 < a->range_count && a->ranges[k + 1].begin == a->ranges[k].end;
            bool went_on = k > 0 && a->ranges[k - 1].end == a->ranges[k].begin;
            if ((!went_on && !begins_expert(shape, a->ranges[k].begin)) ||
                (!goes_on && !begins_expert(shape, a->ranges[k].end)))
                return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ building */

hearth_status placement_check_model(const hearth_placement *p, const hearth_model *model, hearth_error *error)
{
    bool same = p->layer_count == model->hyper.layer_count;
    for (uint32_t i = 0; same && i < p->layer_count; i++)
        same = p->layers[i].neuron_count == model->layers[i].ffn.neuron_count;
    return same ? HEARTH_OK : fail(error, HEARTH_INVALID, "placement: is of another model");
}

hearth_status placement_no_memory(hearth_error *error)
{
    return fail(error, HEARTH_NO_MEMORY, "placement: out of memory");
}

/* Creates a placement whose sides and layers are not yet filled in. */
static hearth_status new_placement(hearth_placement **out, uint32_t side_count, uint32_t layer_count,
                                   hearth_error *error)
{
    hearth_placement *p = mem_new(sizeof *p);
    if (!p)
        return placement_no_memory(error);
    p->side_count = side_count;
    p->layer_count = layer_count;
    p->sides = arena_new_array(&p->memory, side_count, sizeof *p->sides);
    p->layers = arena_new_array(&p->memory, layer_count, sizeof *p->layers);
    if (!p->sides || !p->layers) {
        hearth_placement_destroy(p);
        return placement_no_memory(error);
    }
    *out = p;
    return HEARTH_OK;
}

hearth_status placement_of_model(hearth_placement **out, uint32_t side_count, const hearth_model *model,
                                 hearth_error *error)
{
    TRY(new_placement(out, side_count, model->hyper.layer_count, error));
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        (*out)->layers[i].neuron_count = model->layers[i].ffn.neuron_count;
    return HEARTH_OK;
}

bool placement_add_assignments(hearth_placement *p, layer_placement *layer, uint32_t assignment_count)
{
    layer->assignments = arena_new_array(&p->memory, assignment_count, sizeof *layer->assignments);
    layer->assignment_count = layer->assignments ? assignment_count : 0;
    return layer->assignments != NULL;
}

bool placement_add_ranges(hearth_placement *p, neuron_assignment *a, uint32_t range_count)
{
    a->ranges = arena_new_array(&p->memory, range_count, sizeof *a->ranges);
    a->range_count = a->ranges ? range_count : 0;
    return a->ranges != NULL;
}

hearth_status placement_create(hearth_placement **out, const hearth_model *model, const tune *t, hearth_mode mode,
                               hearth_error *error)
{
    if (mode < 0 || mode >= HEARTH_MODE_COUNT)
        return fail(error, HEARTH_INVALID, "placement: mode %d: is not known", (int)mode);
    if (mode == HEARTH_MODE_AUTO)
        mode = placement_auto_mode(model);
    if (mode == HEARTH_MODE_PREDICTED && !tune_predicts(t, model))
        return model_lacks_tune(model,
                                "mode predicted: the model has no predictors; exact needs none, `hearth tune` trains "
                                "some, and `hearth convert --predictors` adds PowerInfer's",
                                error);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        TRY(placement_check_selector(selector_of(mode, model, t, i), model, t, i, error));
    hearth_placement *p;
    TRY(placement_of_model(&p, 1, model, error));
    p->sides[PLACEMENT_CPU] = placement_sides[PLACEMENT_CPU];
    for (uint32_t i = 0; i < p->layer_count; i++) {
        layer_placement *layer = &p->layers[i];
        layer->selector = selector_of(mode, model, t, i);
        layer->threshold = mode == HEARTH_MODE_PREDICTED ? tune_predictor(t, model, i).threshold : 0;
        if (layer->neuron_count == 0)
            continue;
        if (!placement_add_assignments(p, layer, 1) || !placement_add_ranges(p, layer->assignments, 1)) {
            hearth_placement_destroy(p);
            return placement_no_memory(error);
        }
        layer->assignments->ranges[0] = (neuron_range){0, layer->neuron_count};
    }
    *out = p;
    return HEARTH_OK;
}

hearth_status hearth_placement_create(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                      hearth_error *error)
{
    return placement_create(out, model, model->tune, mode, error);
}

void hearth_placement_set_threshold(hearth_placement *placement, float threshold)
{
    if (!isfinite(threshold))
        return;
    for (uint32_t i = 0; i < placement->layer_count; i++)
        if (selectors[placement->layers[i].selector].has_threshold)
            placement->layers[i].threshold = threshold;
    placement->pruning = (hearth_pruning){0};
}

hearth_status placement_check_recall(const hearth_placement *p, double recall, hearth_error *error)
{
    bool any = false;
    if (!(recall > 0 && recall < 1))
        return fail(error, HEARTH_INVALID, "placement: recall %g: must be above 0 and below 1", recall);
    for (uint32_t i = 0; i < p->layer_count; i++) {
        if (selectors[p->layers[i].selector].predictor == PREDICTOR_NONE)
            continue;
        any = true;
        if (layer_neurons(&p->layers[i], PLACEMENT_DEVICE) > 0)
            return fail(error, HEARTH_UNSUPPORTED,
                        "placement: recall %g: layer %u has neurons on %s, where thresholds stay as they are", recall,
                        i, p->sides[PLACEMENT_DEVICE]);
    }
    return any ? HEARTH_OK
               : fail(error, HEARTH_UNSUPPORTED, "placement: recall %g: no layer has a predictor in use", recall);
}

hearth_status hearth_placement_set_recall(hearth_placement *placement, double recall, hearth_error *error)
{
    TRY(placement_check_recall(placement, recall, error));
    placement->recall = recall;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ dividing neurons */

/* Ends a change that was made to a copy: replaces the placement by the copy if it is complete, else destroys the copy,
 * so that the placement is never half-changed. */
static hearth_status finish_change(hearth_placement *p, hearth_placement *changed, bool complete, hearth_error *error)
{
    if (complete) {
        hearth_placement before = *p;
        *p = *changed;
        *changed = before;
    }
    hearth_placement_destroy(changed);
    return complete ? HEARTH_OK : placement_no_memory(error);
}

/* Gives an assignment those of f neurons for which `chosen` is `wanted`, as ranges; returns false if memory is out. */
static bool fill_assignment(hearth_placement *p, neuron_assignment *a, uint32_t side, const bool *chosen, uint32_t f,
                            bool wanted)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < f; n++)
        count += chosen[n] == wanted && (n == 0 || chosen[n - 1] != wanted);
    a->side = side;
    if (!placement_add_ranges(p, a, count))
        return false;
    neuron_range *range = a->ranges;
    for (uint32_t n = 0; n < f; n++)
        if (chosen[n] == wanted) {
            uint32_t begin = n;
            while (n < f && chosen[n] == wanted)
                n++;
            *range++ = (neuron_range){begin, n};
        }
    return true;
}

/* Leaves a share of the neurons of a layer, the hottest or the coldest, to the CPU, the others to nobody. order: the
 * neurons, the hottest first; chosen [neuron_count] is scratch. Returns false if memory is out. */
static bool restrict_layer(hearth_placement *p, layer_placement *layer, const uint32_t *order, double share,
                           bool hottest, bool *chosen)
{
    /* At least one neuron stays: a layer without any is not supported. */
    uint32_t f = layer->neuron_count, count = (uint32_t)((double)f * share + 0.5);
    count = count > 0 ? count : 1;
    memset(chosen, 0, f * sizeof *chosen);
    for (uint32_t n = 0; n < count; n++)
        chosen[order[hottest ? n : f - 1 - n]] = true;
    return placement_add_assignments(p, layer, count < f ? 2 : 1) &&
           fill_assignment(p, &layer->assignments[0], PLACEMENT_CPU, chosen, f, true) &&
           (count == f || fill_assignment(p, &layer->assignments[1], PLACEMENT_NOBODY, chosen, f, false));
}

hearth_status placement_keep(hearth_placement *placement, const hearth_model *model, const tune *t, double share,
                             bool hottest, hearth_error *error)
{
    hearth_placement *p = placement;
    TRY(placement_check_model(p, model, error));
    if (placement_needs_device(p))
        return fail(error, HEARTH_INVALID, "placement: uses a device, and neurons can only be left out without one");
    if (!t || !tune_first(t)->order)
        return model_lacks_tune(model, "it is not known which neurons are hot; `hearth profile` finds out", error);
    if (!(share > 0 && share <= 1))
        return fail(error, HEARTH_INVALID, "placement: a share of %g is not within 0 and 1", share);
    hearth_placement *changed;
    TRY(placement_copy(&changed, p, error));
    bool *chosen = mem_new_array(model_largest(model).neurons, sizeof *chosen), ok = chosen != NULL;
    for (uint32_t i = 0; ok && i < p->layer_count; i++)
        ok = p->layers[i].neuron_count == 0 ||
             restrict_layer(changed, &changed->layers[i], t->layers[i].order, share, hottest, chosen);
    mem_free(chosen);
    return finish_change(p, changed, ok, error);
}

hearth_status hearth_placement_keep(hearth_placement *placement, const hearth_model *model, double share, bool hottest,
                                    hearth_error *error)
{
    return placement_keep(placement, model, model->tune, share, hottest, error);
}

/* ------------------------------------------------------------------ using a device */

/* Gives a share of a layer to the device. on_device [neuron_count] is scratch. Returns false if memory is out. */
static bool split_layer(hearth_placement *p, layer_placement *layer, const device_share *share, bool *on_device)
{
    uint32_t f = layer->neuron_count, neurons = share->neurons < f ? share->neurons : f;
    layer->form = neurons == f ? FORM_DEVICE : neurons == 0 ? FORM_FFN_HOST : FORM_SPLIT;
    if (f == 0)
        return true;
    if (!placement_add_assignments(p, layer, layer->form == FORM_SPLIT ? 2 : 1))
        return false;
    memset(on_device, 0, f * sizeof *on_device);
    for (uint32_t i = 0; i < neurons; i++)
        on_device[share->order ? share->order[i] : (uint32_t)((share->first + (uint64_t)i) % f)] = true;
    neuron_assignment *a = layer->assignments;
    if (neurons < f && !fill_assignment(p, a++, PLACEMENT_CPU, on_device, f, false))
        return false;
    return neurons == 0 || fill_assignment(p, a, PLACEMENT_DEVICE, on_device, f, true);
}

hearth_status placement_set_device(hearth_placement *placement, uint32_t layer, const uint32_t *rows, uint32_t count,
                                   const int32_t *order, hearth_error *error)
{
    layer_placement *l = &placement->layers[layer];
    uint32_t *numbers = mem_new_array((size_t)l->neuron_count, sizeof *numbers);
    bool *on_device = mem_new_array((size_t)l->neuron_count, sizeof *on_device);
    for (uint32_t i = 0; numbers && i < count; i++)
        numbers[i] = order ? (uint32_t)order[rows[i]] : rows[i];
    bool ok = numbers && on_device &&
              split_layer(placement, l, &(device_share){.given = true, .neurons = count, .order = numbers}, on_device);
    mem_free(numbers);
    mem_free(on_device);
    return ok ? HEARTH_OK : placement_no_memory(error);
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

hearth_status placement_share(hearth_placement *placement, const hearth_model *model, const device_share *shares,
                              bool head, hearth_error *error)
{
    hearth_placement *p = placement;
    bool uses = head;
    TRY(placement_check_model(p, model, error));
    for (uint32_t i = 0; i < p->layer_count; i++) {
        if (!shares[i].given)
            continue;
        uses = true;
        if (!selectors[p->layers[i].selector].on_device)
            return fail(error, HEARTH_UNSUPPORTED, "placement: layer %u: devices do not run the selector %s yet", i,
                        selectors[p->layers[i].selector].name);
        if (layer_neurons(&p->layers[i], PLACEMENT_NOBODY) > 0)
            return fail(error, HEARTH_UNSUPPORTED,
                        "placement: layer %u: neurons are left out, which only layers of form host can do", i);
    }
    if (!uses)
        return HEARTH_OK;
    hearth_placement *changed;
    TRY(placement_copy(&changed, p, error));
    bool *on_device = mem_new_array(model_largest(model).neurons, sizeof *on_device);
    bool ok = on_device && add_device(changed);
    for (uint32_t i = 0; ok && i < p->layer_count; i++)
        if (shares[i].given) {
            changed->kv = PLACEMENT_DEVICE;
            ok = split_layer(changed, &changed->layers[i], &shares[i], on_device);
        }
    mem_free(on_device);
    if (head)
        changed->head = PLACEMENT_DEVICE;
    return finish_change(p, changed, ok, error);
}

hearth_status hearth_placement_use_device(hearth_placement *placement, const hearth_model *model, uint32_t layers,
                                          uint32_t neurons, hearth_error *error)
{
    TRY(placement_check_model(placement, model, error));
    uint32_t all = placement->layer_count, first = layers < all ? all - layers : 0;
    device_share *shares = mem_new_array(all, sizeof *shares);
    if (!shares)
        return placement_no_memory(error);
    /* Row i of a file is the neuron order[i], which is never below 0. */
    for (uint32_t i = first; i < all; i++)
        shares[i] = (device_share){true, neurons, (const uint32_t *)model->layers[i].order, 0};
    bool whole = first == 0 && neurons >= model_largest(model).neurons;
    hearth_status status =
        placement_share(placement, model, shares, whole && device_has_format(model->head.format), error);
    mem_free(shares);
    return status;
}

/* ------------------------------------------------------------------ copying */

/* Copies a layer with its assignments and ranges; returns false if memory is out. */
static bool copy_layer(hearth_placement *to, layer_placement *layer, const layer_placement *from)
{
    *layer = *from;
    if (!placement_add_assignments(to, layer, from->assignment_count))
        return false;
    for (uint32_t i = 0; i < from->assignment_count; i++) {
        const neuron_assignment *a = &from->assignments[i];
        layer->assignments[i].side = a->side;
        if (!placement_add_ranges(to, &layer->assignments[i], a->range_count))
            return false;
        memcpy(layer->assignments[i].ranges, a->ranges, a->range_count * sizeof *a->ranges);
    }
    return true;
}

hearth_status placement_copy(hearth_placement **out, const hearth_placement *from, hearth_error *error)
{
    hearth_placement *p;
    TRY(new_placement(&p, from->side_count, from->layer_count, error));
    p->kv = from->kv;
    p->embedding = from->embedding;
    p->head = from->head;
    p->pruning = from->pruning;
    p->recall = from->recall;
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
