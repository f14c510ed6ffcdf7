/* placement.c - the default placement, placements that use a device, and placements as JSON.
 *
 *     {"sides": ["cpu", "device0"], "kv": "device0", "embedding": "cpu", "head": "device0",
 *      "layers": [{"form": "host", "selector": "all", "parts": [{"side": "cpu", "neurons": [[0, 512]]}]},
 *                 {"form": "split", "selector": "low-rank", "threshold": 0.5,
 *                  "parts": [{"side": "cpu", "neurons": [[0, 100], [356, 512]]},
 *                            {"side": "device0", "neurons": [[100, 356]]}]}, ...]}
 *
 *     sides      the CPU, and behind it "device0" where there is a device
 *     kv         "device0" where a layer is of another form than host, else "cpu"
 *     embedding  "cpu"; or "device0", where layer 0 is of another form than host
 *     head       "cpu" or "device0"
 *     form       host, ffn-host: every neuron is the CPU's; split: some on each side; device: all are device0's
 *     selector   all, sign, low-rank (with "threshold", which the others lack)
 *     neurons    ranges [begin, end) of original numbers
 *
 * Reading is strict: every layer of the model stands there once, the parts of a layer cover its neurons exactly once,
 * and sides and forms agree. What this build cannot run yet is refused here and nowhere else. */
#include "placement.h"

#include "../base/json.h"
#include "../base/memory.h"
#include "../device/kernels/kernels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const form_names[FORM_COUNT] = {
    [FORM_HOST] = "host", [FORM_FFN_HOST] = "ffn-host", [FORM_SPLIT] = "split", [FORM_DEVICE] = "device"};

static const char *const side_names[PLACEMENT_SIDES] = {[PLACEMENT_CPU] = "cpu", [PLACEMENT_DEVICE] = "device0"};

static const struct {
    const char *name;
    bool has_threshold;
} selectors[SELECTOR_COUNT] = {
    [SELECTOR_ALL] = {"all", false}, [SELECTOR_SIGN] = {"sign", false}, [SELECTOR_LOW_RANK] = {"low-rank", true}};

static const struct {
    const char *name;
    selector_kind selector;
} rungs[HEARTH_RUNG_COUNT] = {
    [HEARTH_RUNG_AUTO] = {"auto", SELECTOR_COUNT}, /* stands for one of the others */
    [HEARTH_RUNG_DENSE] = {"dense", SELECTOR_ALL},
    [HEARTH_RUNG_EXACT] = {"exact", SELECTOR_SIGN},
    [HEARTH_RUNG_PREDICTED] = {"predicted", SELECTOR_LOW_RANK},
};

const char *hearth_rung_name(hearth_rung rung)
{
    return rungs[rung].name;
}

hearth_rung placement_auto_rung(const hearth_model *model)
{
    return ffn_has_zeros(model->hyper.activation) ? HEARTH_RUNG_EXACT : HEARTH_RUNG_DENSE;
}

hearth_status placement_check_selector(selector_kind selector, const hearth_model *model, hearth_error *error)
{
    if (selector == SELECTOR_SIGN && !ffn_has_zeros(model->hyper.activation))
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: rung exact: the activation %s is never exactly zero, so there is nothing to skip; use dense",
                    model->source->path, ffn_activations[model->hyper.activation].name);
    if (selector == SELECTOR_LOW_RANK && !model->predictors)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: rung predicted: the model has no predictors; exact needs none, and `hearth convert "
                    "--predictors` adds PowerInfer's",
                    model->source->path);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ looking */

const char *layer_form_name(layer_form form)
{
    return form_names[form];
}

bool layer_uses_device(const layer_placement *layer)
{
    return layer->form != FORM_HOST;
}

static bool has_device_layer(const hearth_placement *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (layer_uses_device(&p->layers[i]))
            return true;
    return false;
}

bool placement_needs_device(const hearth_placement *placement)
{
    return placement->embedding != PLACEMENT_CPU || placement->head != PLACEMENT_CPU || has_device_layer(placement);
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

static hearth_status no_memory(hearth_error *error)
{
    return fail(error, HEARTH_NO_MEMORY, "placement: out of memory");
}

static hearth_status create(hearth_placement **out, uint32_t side_count, uint32_t layer_count, uint32_t neuron_count,
                            hearth_error *error)
{
    hearth_placement *p = mem_new(sizeof *p);
    if (!p)
        return no_memory(error);
    p->side_count = side_count;
    p->layer_count = layer_count;
    p->neuron_count = neuron_count;
    p->sides = arena_new_array(&p->memory, side_count, sizeof *p->sides);
    p->layers = arena_new_array(&p->memory, layer_count, sizeof *p->layers);
    if (!p->sides || !p->layers) {
        hearth_placement_destroy(p);
        return no_memory(error);
    }
    *out = p;
    return HEARTH_OK;
}

/* A layer with part_count parts of no ranges yet. */
static bool add_parts(hearth_placement *p, layer_placement *layer, uint32_t part_count)
{
    layer->parts = arena_new_array(&p->memory, part_count, sizeof *layer->parts);
    layer->part_count = layer->parts ? part_count : 0;
    return layer->parts != NULL;
}

static bool add_ranges(hearth_placement *p, placement_part *part, uint32_t range_count)
{
    part->ranges = arena_new_array(&p->memory, range_count, sizeof *part->ranges);
    part->range_count = part->ranges ? range_count : 0;
    return part->ranges != NULL;
}

hearth_status hearth_placement_create(hearth_placement **out, const hearth_model *model, hearth_rung rung,
                                      hearth_error *error)
{
    if (rung < 0 || rung >= HEARTH_RUNG_COUNT)
        return fail(error, HEARTH_INVALID, "placement: rung %d: is not known", (int)rung);
    if (rung == HEARTH_RUNG_AUTO)
        rung = placement_auto_rung(model);
    selector_kind selector = rungs[rung].selector;
    TRY(placement_check_selector(selector, model, error));
    hearth_placement *p;
    TRY(create(&p, 1, model->hyper.layer_count, model->hyper.neuron_count, error));
    p->sides[PLACEMENT_CPU] = side_names[PLACEMENT_CPU];
    for (uint32_t i = 0; i < p->layer_count; i++) {
        layer_placement *layer = &p->layers[i];
        layer->selector = selector;
        layer->threshold = selectors[selector].has_threshold ? model->hyper.predictor_threshold : 0;
        if (!add_parts(p, layer, 1) || !add_ranges(p, layer->parts, 1)) {
            hearth_placement_destroy(p);
            return no_memory(error);
        }
        layer->parts->ranges[0] = (neuron_range){0, p->neuron_count};
    }
    *out = p;
    return HEARTH_OK;
}

void hearth_placement_set_threshold(hearth_placement *placement, float threshold)
{
    for (uint32_t i = 0; i < placement->layer_count; i++)
        if (selectors[placement->layers[i].selector].has_threshold)
            placement->layers[i].threshold = threshold;
}

/* ------------------------------------------------------------------ using a device */

/* Gives the neurons whose place in on_device [neuron_count] is `wanted` to a part. */
static bool fill_part(hearth_placement *p, placement_part *part, uint32_t side, const bool *on_device, bool wanted)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->neuron_count; n++)
        count += on_device[n] == wanted && (n == 0 || on_device[n - 1] != wanted);
    part->side = side;
    if (!add_ranges(p, part, count))
        return false;
    neuron_range *range = part->ranges;
    for (uint32_t n = 0; n < p->neuron_count; n++)
        if (on_device[n] == wanted) {
            uint32_t begin = n;
            while (n < p->neuron_count && on_device[n] == wanted)
                n++;
            *range++ = (neuron_range){begin, n};
        }
    return true;
}

/* order: the original number of each row of the file, or NULL: its own. on_device [neuron_count] is scratch. */
static bool split_layer(hearth_placement *p, layer_placement *layer, const int32_t *order, uint32_t neurons,
                        bool *on_device)
{
    layer->form = neurons == 0 ? FORM_FFN_HOST : neurons == p->neuron_count ? FORM_DEVICE : FORM_SPLIT;
    if (!add_parts(p, layer, layer->form == FORM_SPLIT ? 2 : 1))
        return false;
    memset(on_device, 0, p->neuron_count * sizeof *on_device);
    for (uint32_t row = 0; row < neurons; row++)
        on_device[order ? (uint32_t)order[row] : row] = true;
    placement_part *part = layer->parts;
    if (neurons < p->neuron_count && !fill_part(p, part++, PLACEMENT_CPU, on_device, false))
        return false;
    return neurons == 0 || fill_part(p, part, PLACEMENT_DEVICE, on_device, true);
}

static bool add_device(hearth_placement *p)
{
    const char **sides = arena_new_array(&p->memory, PLACEMENT_SIDES, sizeof *sides);
    if (!sides)
        return false;
    memcpy(sides, side_names, sizeof side_names);
    p->sides = sides;
    p->side_count = PLACEMENT_SIDES;
    return true;
}

hearth_status hearth_placement_use_device(hearth_placement *placement, const hearth_model *model, uint32_t layers,
                                          uint32_t neurons, hearth_error *error)
{
    hearth_placement *p = placement;
    if (p->layer_count != model->hyper.layer_count || p->neuron_count != model->hyper.neuron_count)
        return fail(error, HEARTH_INVALID, "placement: is of another model");
    layers = layers < p->layer_count ? layers : p->layer_count;
    neurons = neurons < p->neuron_count ? neurons : p->neuron_count;
    if (layers == 0)
        return HEARTH_OK;
    bool *on_device = mem_new_array(p->neuron_count, sizeof *on_device);
    bool ok = on_device && add_device(p);
    for (uint32_t i = p->layer_count - layers; ok && i < p->layer_count; i++)
        ok = split_layer(p, &p->layers[i], model->layers[i].order, neurons, on_device);
    mem_free(on_device);
    if (!ok)
        return no_memory(error);
    p->kv = PLACEMENT_DEVICE;
    if (layers == p->layer_count && neurons == p->neuron_count && device_has_format(model->head.format))
        p->head = PLACEMENT_DEVICE;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ copying */

static bool copy_layer(hearth_placement *to, layer_placement *layer, const layer_placement *from)
{
    *layer = *from;
    if (!add_parts(to, layer, from->part_count))
        return false;
    for (uint32_t i = 0; i < from->part_count; i++) {
        const placement_part *part = &from->parts[i];
        layer->parts[i].side = part->side;
        if (!add_ranges(to, &layer->parts[i], part->range_count))
            return false;
        memcpy(layer->parts[i].ranges, part->ranges, part->range_count * sizeof *part->ranges);
    }
    return true;
}

hearth_status placement_copy(hearth_placement **out, const hearth_placement *from, hearth_error *error)
{
    hearth_placement *p;
    TRY(create(&p, from->side_count, from->layer_count, from->neuron_count, error));
    p->kv = from->kv;
    p->embedding = from->embedding;
    p->head = from->head;
    memcpy(p->sides, from->sides, p->side_count * sizeof *p->sides); /* names are constants */
    bool copied = true;
    for (uint32_t i = 0; copied && i < p->layer_count; i++)
        copied = copy_layer(p, &p->layers[i], &from->layers[i]);
    if (!copied) {
        hearth_placement_destroy(p);
        return no_memory(error);
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

/* ------------------------------------------------------------------ reading */

/* One place in the text, for errors: "placement: layer 3: ...". */
typedef struct reader {
    hearth_placement *p;
    const hearth_model *model;
    char where[32];
    hearth_error *error;
} reader;

#define BAD(r, status, ...) reader_fail(r, status, __VA_ARGS__)

static hearth_status __attribute__((format(printf, 3, 4)))
reader_fail(reader *r, hearth_status status, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(r->error, status, "placement: %s: %s", r->where, text);
}

static hearth_status read_side(reader *r, const json_t *object, const char *key, uint32_t *side)
{
    const char *name;
    TRY(json_get_string(object, key, &name, NULL, "placement", r->error));
    for (*side = 0; *side < r->p->side_count; ++*side)
        if (!strcmp(r->p->sides[*side], name))
            return HEARTH_OK;
    return BAD(r, HEARTH_FORMAT, "%s is %.40s, which is not among the sides", key, name);
}

static hearth_status read_sides(reader *r, const json_t *names)
{
    for (uint32_t i = 0; i < r->p->side_count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name)
            return BAD(r, HEARTH_FORMAT, "sides must be names");
        uint32_t side = 0;
        while (side < PLACEMENT_SIDES && strcmp(side_names[side], name) != 0)
            side++;
        if (side == PLACEMENT_SIDES)
            return BAD(r, HEARTH_UNSUPPORTED, "side %.40s: there are only cpu and device0 in this version", name);
        if (side < i)
            return BAD(r, HEARTH_FORMAT, "%s stands twice among the sides", name);
        if (side > i)
            return BAD(r, HEARTH_FORMAT, "the first of the sides is %s, and must be %s", name, side_names[i]);
        r->p->sides[i] = side_names[side];
    }
    return HEARTH_OK;
}

static hearth_status read_form(reader *r, const json_t *object, layer_form *form)
{
    const char *name;
    TRY(json_get_string(object, "form", &name, NULL, "placement", r->error));
    for (int i = 0; i < FORM_COUNT; i++)
        if (!strcmp(form_names[i], name)) {
            *form = (layer_form)i;
            return i == FORM_HOST || r->p->side_count > PLACEMENT_DEVICE
                       ? HEARTH_OK
                       : BAD(r, HEARTH_FORMAT, "form %s: %s is not among the sides", name,
                             side_names[PLACEMENT_DEVICE]);
        }
    return BAD(r, HEARTH_FORMAT, "form %.40s is not known", name);
}

static hearth_status read_selector(reader *r, const json_t *object, layer_placement *layer)
{
    const char *name;
    TRY(json_get_string(object, "selector", &name, NULL, "placement", r->error));
    int i = 0;
    while (i < SELECTOR_COUNT && strcmp(selectors[i].name, name) != 0)
        i++;
    if (i == SELECTOR_COUNT)
        return BAD(r, HEARTH_UNSUPPORTED, "selector %s is not one that this version runs", name);
    layer->selector = (selector_kind)i;
    TRY(placement_check_selector(layer->selector, r->model, r->error));
    if (!selectors[i].has_threshold)
        return HEARTH_OK;
    double threshold;
    TRY(json_get_number(object, "threshold", &threshold, NULL, "placement", r->error));
    layer->threshold = (float)threshold;
    if (!isfinite(layer->threshold))
        return BAD(r, HEARTH_FORMAT, "threshold %g is no float32", threshold);
    return HEARTH_OK;
}

static hearth_status read_range(reader *r, const json_t *pair, neuron_range *range)
{
    const json_t *begin = json_array_get(pair, 0), *end = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return BAD(r, HEARTH_FORMAT, "neurons must be pairs [begin, end]");
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || from >= to || to > r->p->neuron_count)
        return BAD(r, HEARTH_FORMAT, "neurons [%lld, %lld] are no range within %u", (long long)from, (long long)to,
                   r->p->neuron_count);
    *range = (neuron_range){(uint32_t)from, (uint32_t)to};
    return HEARTH_OK;
}

static int by_begin(const void *a, const void *b)
{
    uint32_t x = ((const neuron_range *)a)->begin, y = ((const neuron_range *)b)->begin;
    return (x > y) - (x < y);
}

/* covered [neuron_count] counts how often each neuron was listed. */
static hearth_status read_part(reader *r, const json_t *object, placement_part *part, uint8_t *covered)
{
    TRY(read_side(r, object, "side", &part->side));
    const json_t *ranges = json_object_get(object, "neurons");
    if (!json_is_array(ranges) || json_array_size(ranges) > r->p->neuron_count)
        return BAD(r, HEARTH_FORMAT, "neurons is missing, or is no list of pairs");
    if (!add_ranges(r->p, part, (uint32_t)json_array_size(ranges)))
        return no_memory(r->error);
    for (uint32_t i = 0; i < part->range_count; i++) {
        TRY(read_range(r, json_array_get(ranges, i), &part->ranges[i]));
        for (uint32_t n = part->ranges[i].begin; n < part->ranges[i].end; n++)
            if (covered[n]++)
                return BAD(r, HEARTH_FORMAT, "neuron %u is listed twice", n);
    }
    if (part->range_count > 1)
        qsort(part->ranges, part->range_count, sizeof *part->ranges, by_begin);
    return HEARTH_OK;
}

/* The parts cover every neuron once; do they lie where the form wants them? */
static hearth_status check_form(reader *r, const layer_placement *layer)
{
    uint32_t f = r->p->neuron_count, there = layer_neurons(layer, PLACEMENT_DEVICE);
    const char *form = form_names[layer->form], *device = side_names[PLACEMENT_DEVICE];
    if (layer->form == FORM_DEVICE && there < f)
        return BAD(r, HEARTH_FORMAT, "form %s: %u of %u neurons lie on cpu, all belong on %s", form, f - there, f,
                   device);
    if (layer->form == FORM_SPLIT && (there == 0 || there == f))
        return BAD(r, HEARTH_FORMAT, "form %s: all neurons lie on %s, some must lie on each side", form,
                   there ? device : side_names[PLACEMENT_CPU]);
    if (layer->form < FORM_SPLIT && there > 0)
        return BAD(r, HEARTH_FORMAT, "form %s: %u of %u neurons lie on %s, all belong on cpu", form, there, f, device);
    return HEARTH_OK;
}

/* The sides of what belongs to no layer by itself. */
static hearth_status check_sides(reader *r)
{
    const hearth_placement *p = r->p;
    snprintf(r->where, sizeof r->where, "kv");
    for (uint32_t i = 0; i < p->layer_count && p->kv == PLACEMENT_CPU; i++)
        if (layer_uses_device(&p->layers[i]))
            return BAD(r, HEARTH_FORMAT, "is cpu, and must be %s: layer %u is of form %s", side_names[PLACEMENT_DEVICE],
                       i, form_names[p->layers[i].form]);
    if (p->kv == PLACEMENT_DEVICE && !has_device_layer(p))
        return BAD(r, HEARTH_FORMAT, "is %s, and must be cpu: every layer is of form host",
                   side_names[PLACEMENT_DEVICE]);
    snprintf(r->where, sizeof r->where, "embedding");
    if (p->embedding == PLACEMENT_DEVICE && !layer_uses_device(&p->layers[0]))
        return BAD(r, HEARTH_FORMAT, "is %s, and must be cpu: layer 0 is of form host", side_names[PLACEMENT_DEVICE]);
    return HEARTH_OK;
}

static hearth_status read_layer(reader *r, const json_t *object, layer_placement *layer, uint8_t *covered)
{
    TRY(read_form(r, object, &layer->form));
    TRY(read_selector(r, object, layer));
    const json_t *parts = json_object_get(object, "parts");
    if (!json_is_array(parts) || json_array_size(parts) > r->p->neuron_count)
        return BAD(r, HEARTH_FORMAT, "parts is missing, or is no list");
    if (!add_parts(r->p, layer, (uint32_t)json_array_size(parts)))
        return no_memory(r->error);
    memset(covered, 0, r->p->neuron_count);
    for (uint32_t i = 0; i < layer->part_count; i++)
        TRY(read_part(r, json_array_get(parts, i), &layer->parts[i], covered));
    const uint8_t *missing = memchr(covered, 0, r->p->neuron_count);
    if (missing)
        return BAD(r, HEARTH_FORMAT, "neuron %zu is listed nowhere", (size_t)(missing - covered));
    return check_form(r, layer);
}

static hearth_status read_placement(reader *r, const json_t *root, const json_t *layers)
{
    TRY(read_sides(r, json_object_get(root, "sides")));
    TRY(read_side(r, root, "kv", &r->p->kv));
    TRY(read_side(r, root, "embedding", &r->p->embedding));
    TRY(read_side(r, root, "head", &r->p->head));
    uint8_t *covered = mem_new(r->p->neuron_count);
    if (!covered)
        return no_memory(r->error);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; status == HEARTH_OK && i < r->p->layer_count; i++) {
        snprintf(r->where, sizeof r->where, "layer %u", i);
        status = read_layer(r, json_array_get(layers, i), &r->p->layers[i], covered);
    }
    mem_free(covered);
    return status == HEARTH_OK ? check_sides(r) : status;
}

hearth_status hearth_placement_parse(hearth_placement **out, const hearth_model *model, const char *json, size_t size,
                                     hearth_error *error)
{
    const hyperparameters *h = &model->hyper;
    json_t *root;
    TRY(json_parse(&root, json, size, "placement", error));
    const json_t *sides = json_object_get(root, "sides"), *layers = json_object_get(root, "layers");
    size_t side_count = json_array_size(sides);
    reader r = {.model = model, .where = "head", .error = error};
    hearth_status status = HEARTH_OK;
    if (side_count == 0 || side_count > 64)
        status = BAD(&r, HEARTH_FORMAT, "sides is missing, or is no list of names");
    else if (json_array_size(layers) != h->layer_count)
        status =
            BAD(&r, HEARTH_FORMAT, "%zu layers are listed, the model has %u", json_array_size(layers), h->layer_count);
    else
        status = create(&r.p, (uint32_t)side_count, h->layer_count, h->neuron_count, error);
    if (status == HEARTH_OK)
        status = read_placement(&r, root, layers);
    json_decref(root);
    if (status != HEARTH_OK) {
        hearth_placement_destroy(r.p);
        return status;
    }
    *out = r.p;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ printing */

/* Appends and keeps in *complete whether everything so far could be built: jansson answers NULL and -1 when
 * memory is out, and takes NULL as a value that cannot be appended. */
static void append(json_t *array, json_t *value, bool *complete)
{
    *complete = json_array_append_new(array, value) == 0 && *complete;
}

static json_t *print_part(const hearth_placement *p, const placement_part *part, bool *complete)
{
    json_t *ranges = json_array();
    for (uint32_t i = 0; i < part->range_count; i++)
        append(ranges, json_pack("[II]", (json_int_t)part->ranges[i].begin, (json_int_t)part->ranges[i].end), complete);
    return json_pack("{s:s, s:o}", "side", p->sides[part->side], "neurons", ranges);
}

static json_t *print_layer(const hearth_placement *p, const layer_placement *layer, bool *complete)
{
    json_t *parts = json_array();
    for (uint32_t i = 0; i < layer->part_count; i++)
        append(parts, print_part(p, &layer->parts[i], complete), complete);
    json_t *object = json_pack("{s:s, s:s, s:o}", "form", form_names[layer->form], "selector",
                               selectors[layer->selector].name, "parts", parts);
    if (selectors[layer->selector].has_threshold)
        *complete = json_object_set_new(object, "threshold", json_real((double)layer->threshold)) == 0 && *complete;
    return object;
}

hearth_status hearth_placement_print(const hearth_placement *placement, char **json, hearth_error *error)
{
    const hearth_placement *p = placement;
    json_t *sides = json_array(), *layers = json_array();
    bool complete = true;
    for (uint32_t i = 0; i < p->side_count; i++)
        append(sides, json_string(p->sides[i]), &complete);
    for (uint32_t i = 0; i < p->layer_count; i++)
        append(layers, print_layer(p, &p->layers[i], &complete), &complete);
    json_t *root = json_pack("{s:o, s:s, s:s, s:s, s:o}", "sides", sides, "kv", p->sides[p->kv], "embedding",
                             p->sides[p->embedding], "head", p->sides[p->head], "layers", layers);
    char *text = root && complete ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    char *copy = text ? mem_copy_text(text, strlen(text)) : NULL;
    free(text);
    if (!copy)
        return no_memory(error);
    *json = copy;
    return HEARTH_OK;
}
