/* placement_json.c - reads and prints placements as JSON.
 *
 *     {"sides": ["cpu", "device0"], "kv": "device0", "embedding": "cpu", "head": "device0",
 *      "layers": [{"form": "host", "selector": "all", "assignments": [{"side": "cpu", "neurons": [[0, 512]]}]},
 *                 {"form": "split", "selector": "low-rank", "threshold": 0.5,
 *                  "assignments": [{"side": "cpu", "neurons": [[0, 100], [356, 512]]},
 *                            {"side": "device0", "neurons": [[100, 356]]}]}, ...]}
 *
 *     sides      "cpu", followed by "device0" if there is a device
 *     kv         "device0" if any layer is not of form host, else "cpu"
 *     embedding  "cpu"; or "device0", if layer 0 is not of form host
 *     head       "cpu" or "device0"
 *     form       host, ffn-host: all neurons on the CPU; split: some on each side; device: all on device0
 *     selector   all, sign; coarse, low-rank, magnitude (with a "threshold", which the others lack)
 *     neurons    ranges [begin, end) of original numbers; those of side "nobody" are left out and count as zero
 *
 * Reading is strict: every layer of the model is listed once, the assignments of a layer cover its neurons exactly once, and
 * sides and forms agree. Placements that this build cannot run yet are refused here. */
#include "placement_internal.h"

#include "../base/json.h"
#include "../base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ reading */

/* State of reading; `where` gives errors their place: "placement: layer 3: ...". */
typedef struct placement_reader {
    hearth_placement *p;
    const hearth_model *model;
    char where[32]; /* "layer 3"; empty: the whole placement */
    hearth_error *error;
} placement_reader;

#define BAD(r, status, ...) reader_fail(r, status, __VA_ARGS__)

static hearth_status __attribute__((format(printf, 3, 4)))
reader_fail(placement_reader *r, hearth_status status, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(r->error, status, "placement: %s%s%s", r->where, r->where[0] ? ": " : "", text);
}

/* Reads one of the sides by its name. */
static hearth_status read_side(placement_reader *r, const json_t *object, const char *key, uint32_t *side)
{
    const char *name;
    TRY(json_get_string(object, key, &name, NULL, "placement", r->error));
    for (*side = 0; *side < r->p->side_count; ++*side)
        if (!strcmp(r->p->sides[*side], name))
            return HEARTH_OK;
    return BAD(r, HEARTH_FORMAT, "%s is %.40s, which is not among the sides", key, name);
}

/* Reads the sides, which must be a prefix of placement_sides in that order. */
static hearth_status read_sides(placement_reader *r, const json_t *names)
{
    for (uint32_t i = 0; i < r->p->side_count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name)
            return BAD(r, HEARTH_FORMAT, "sides must be names");
        uint32_t side = 0;
        while (side < PLACEMENT_SIDES && strcmp(placement_sides[side], name) != 0)
            side++;
        if (side == PLACEMENT_SIDES)
            return BAD(r, HEARTH_UNSUPPORTED, "side %.40s: there are only cpu and device0 in this version", name);
        if (side < i)
            return BAD(r, HEARTH_FORMAT, "%s stands twice among the sides", name);
        if (side > i)
            return BAD(r, HEARTH_FORMAT, "the first of the sides is %s, and must be %s", name, placement_sides[i]);
        r->p->sides[i] = placement_sides[side];
    }
    return HEARTH_OK;
}

static hearth_status read_form(placement_reader *r, const json_t *object, layer_form *form)
{
    const char *name;
    TRY(json_get_string(object, "form", &name, NULL, "placement", r->error));
    for (int i = 0; i < FORM_COUNT; i++)
        if (!strcmp(placement_forms[i], name)) {
            *form = (layer_form)i;
            return i == FORM_HOST || r->p->side_count > PLACEMENT_DEVICE
                       ? HEARTH_OK
                       : BAD(r, HEARTH_FORMAT, "form %s: %s is not among the sides", name,
                             placement_sides[PLACEMENT_DEVICE]);
        }
    return BAD(r, HEARTH_FORMAT, "form %.40s is not known", name);
}

/* Reads the selector and, if it has one, its threshold; the form must have been read. */
static hearth_status read_selector(placement_reader *r, const json_t *object, layer_placement *layer)
{
    const char *name;
    TRY(json_get_string(object, "selector", &name, NULL, "placement", r->error));
    int i = 0;
    while (i < SELECTOR_COUNT && strcmp(selectors[i].name, name) != 0)
        i++;
    if (i == SELECTOR_COUNT)
        return BAD(r, HEARTH_UNSUPPORTED, "selector %s is not one that this version runs", name);
    layer->selector = (selector_kind)i;
    TRY(placement_check_selector(layer->selector, r->model, r->model->tune, (uint32_t)(layer - r->p->layers),
                                 r->error));
    if (layer->form != FORM_HOST && !selectors[i].on_device)
        return BAD(r, HEARTH_UNSUPPORTED, "devices do not run the selector %s yet", name);
    if (!selectors[i].has_threshold)
        return HEARTH_OK;
    double threshold;
    TRY(json_get_number(object, "threshold", &threshold, NULL, "placement", r->error));
    layer->threshold = (float)threshold;
    if (!isfinite(layer->threshold))
        return BAD(r, HEARTH_FORMAT, "threshold %g is not a float32", threshold);
    return HEARTH_OK;
}

/* Reads a range [begin, end) of f neurons; empty ranges are errors. */
static hearth_status read_range(placement_reader *r, const json_t *pair, uint32_t f, neuron_range *range)
{
    const json_t *begin = json_array_get(pair, 0), *end = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return BAD(r, HEARTH_FORMAT, "neurons must be pairs [begin, end]");
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || from >= to || to > f)
        return BAD(r, HEARTH_FORMAT, "neurons [%lld, %lld] are not a range within %u", (long long)from, (long long)to,
                   f);
    *range = (neuron_range){(uint32_t)from, (uint32_t)to};
    return HEARTH_OK;
}

static int by_begin(const void *a, const void *b)
{
    uint32_t x = ((const neuron_range *)a)->begin, y = ((const neuron_range *)b)->begin;
    return (x > y) - (x < y);
}

/* Reads an assignment of f neurons. covered [f]: 1 for each neuron that was already listed. */
static hearth_status read_assignment(placement_reader *r, const json_t *object, uint32_t f, neuron_assignment *a,
                                     uint8_t *covered)
{
    const char *side = json_string_value(json_object_get(object, "side"));
    if (side && !strcmp(side, PLACEMENT_NOBODY_NAME))
        a->side = PLACEMENT_NOBODY;
    else
        TRY(read_side(r, object, "side", &a->side));
    const json_t *ranges = json_object_get(object, "neurons");
    if (!json_is_array(ranges) || json_array_size(ranges) > f)
        return BAD(r, HEARTH_FORMAT, "neurons is missing, or is not a list of pairs");
    if (!placement_add_ranges(r->p, a, (uint32_t)json_array_size(ranges)))
        return placement_no_memory(r->error);
    for (uint32_t i = 0; i < a->range_count; i++) {
        TRY(read_range(r, json_array_get(ranges, i), f, &a->ranges[i]));
        for (uint32_t n = a->ranges[i].begin; n < a->ranges[i].end; n++)
            if (covered[n]++)
                return BAD(r, HEARTH_FORMAT, "neuron %u is listed twice", n);
    }
    if (a->range_count > 1)
        qsort(a->ranges, a->range_count, sizeof *a->ranges, by_begin);
    return HEARTH_OK;
}

/* Checks that the assignments of a layer, which cover every neuron once, lie on the sides that its form requires. */
static hearth_status check_form(placement_reader *r, const layer_placement *layer)
{
    uint32_t f = layer->neuron_count, on_device = layer_neurons(layer, PLACEMENT_DEVICE);
    const char *form = placement_forms[layer->form], *device = placement_sides[PLACEMENT_DEVICE];
    if (layer->form != FORM_HOST && layer_neurons(layer, PLACEMENT_NOBODY) > 0)
        return BAD(r, HEARTH_UNSUPPORTED, "form %s: neurons of %s: only layers of form host can leave some out", form,
                   PLACEMENT_NOBODY_NAME);
    if (layer->form == FORM_DEVICE && on_device < f)
        return BAD(r, HEARTH_FORMAT, "form %s: %u of %u neurons lie on cpu, all belong on %s", form, f - on_device, f,
                   device);
    if (layer->form == FORM_SPLIT && (on_device == 0 || on_device == f))
        return BAD(r, HEARTH_FORMAT, "form %s: all neurons lie on %s, some must lie on each side", form,
                   on_device ? device : placement_sides[PLACEMENT_CPU]);
    if (layer->form < FORM_SPLIT && on_device > 0)
        return BAD(r, HEARTH_FORMAT, "form %s: %u of %u neurons lie on %s, all belong on cpu", form, on_device, f,
                   device);
    if (f > 0 && layer_neurons(layer, PLACEMENT_NOBODY) == f)
        return BAD(r, HEARTH_FORMAT, "all neurons are left out");
    return HEARTH_OK;
}

/* Checks the sides of the KV cache and the embedding against the forms of the layers. */
static hearth_status check_sides(placement_reader *r)
{
    const hearth_placement *p = r->p;
    snprintf(r->where, sizeof r->where, "kv");
    for (uint32_t i = 0; i < p->layer_count && p->kv == PLACEMENT_CPU; i++)
        if (layer_uses_device(&p->layers[i]))
            return BAD(r, HEARTH_FORMAT, "is cpu, and must be %s: layer %u is of form %s",
                       placement_sides[PLACEMENT_DEVICE], i, placement_forms[p->layers[i].form]);
    if (p->kv == PLACEMENT_DEVICE && !placement_has_device_layer(p))
        return BAD(r, HEARTH_FORMAT, "is %s, and must be cpu: every layer is of form host",
                   placement_sides[PLACEMENT_DEVICE]);
    snprintf(r->where, sizeof r->where, "embedding");
    if (p->embedding == PLACEMENT_DEVICE && !layer_uses_device(&p->layers[0]))
        return BAD(r, HEARTH_FORMAT, "is %s, and must be cpu: layer 0 is of form host",
                   placement_sides[PLACEMENT_DEVICE]);
    return HEARTH_OK;
}

static hearth_status read_layer(placement_reader *r, const json_t *object, layer_placement *layer, uint8_t *covered)
{
    TRY(read_form(r, object, &layer->form));
    TRY(read_selector(r, object, layer));
    const json_t *assignments = json_object_get(object, "assignments");
    uint32_t f = layer->neuron_count;
    if (!json_is_array(assignments) || json_array_size(assignments) > f)
        return BAD(r, HEARTH_FORMAT, "assignments is missing, or is not a list");
    if (!placement_add_assignments(r->p, layer, (uint32_t)json_array_size(assignments)))
        return placement_no_memory(r->error);
    memset(covered, 0, f);
    for (uint32_t i = 0; i < layer->assignment_count; i++)
        TRY(read_assignment(r, json_array_get(assignments, i), f, &layer->assignments[i], covered));
    const uint8_t *missing = memchr(covered, 0, f);
    if (missing)
        return BAD(r, HEARTH_FORMAT, "neuron %zu is listed nowhere", (size_t)(missing - covered));
    return check_form(r, layer);
}

static hearth_status read_placement(placement_reader *r, const json_t *root, const json_t *layers)
{
    TRY(read_sides(r, json_object_get(root, "sides")));
    TRY(read_side(r, root, "kv", &r->p->kv));
    TRY(read_side(r, root, "embedding", &r->p->embedding));
    TRY(read_side(r, root, "head", &r->p->head));
    uint8_t *covered = mem_new(model_largest(r->model).neurons);
    if (!covered)
        return placement_no_memory(r->error);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; status == HEARTH_OK && i < r->p->layer_count; i++) {
        snprintf(r->where, sizeof r->where, "layer %u", i);
        status = read_layer(r, json_array_get(layers, i), &r->p->layers[i], covered);
    }
    mem_free(covered);
    TRY(status);
    TRY(check_sides(r));
    bool found;
    TRY(json_get_number(root, "recall", &r->p->recall, &found, "placement", r->error));
    return found ? placement_check_recall(r->p, r->p->recall, r->error) : HEARTH_OK;
}

hearth_status hearth_placement_parse(hearth_placement **out, const hearth_model *model, const char *json, size_t size,
                                     hearth_error *error)
{
    const hyperparameters *h = &model->hyper;
    json_t *root;
    TRY(json_parse(&root, json, size, "placement", error));
    const json_t *sides = json_object_get(root, "sides"), *layers = json_object_get(root, "layers");
    size_t side_count = json_array_size(sides);
    placement_reader r = {.model = model, .error = error};
    hearth_status status = HEARTH_OK;
    if (side_count == 0 || side_count > 64)
        status = BAD(&r, HEARTH_FORMAT, "sides is missing, or is not a list of names");
    else if (json_array_size(layers) != h->layer_count)
        status = BAD(&r, HEARTH_FORMAT, "layers: needs %u, one for each of the model, got %zu", h->layer_count,
                     json_array_size(layers));
    else
        status = placement_of_model(&r.p, (uint32_t)side_count, model, error);
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

/* Appends a value and clears *complete if that fails: jansson returns NULL and -1 when memory is out, and refuses to
 * append NULL. */
static void append(json_t *array, json_t *value, bool *complete)
{
    *complete = json_array_append_new(array, value) == 0 && *complete;
}

static json_t *print_assignment(const hearth_placement *p, const neuron_assignment *a, bool *complete)
{
    json_t *ranges = json_array();
    for (uint32_t i = 0; i < a->range_count; i++)
        append(ranges, json_pack("[II]", (json_int_t)a->ranges[i].begin, (json_int_t)a->ranges[i].end), complete);
    const char *side = a->side == PLACEMENT_NOBODY ? PLACEMENT_NOBODY_NAME : p->sides[a->side];
    return json_pack("{s:s, s:o}", "side", side, "neurons", ranges);
}

static json_t *print_layer(const hearth_placement *p, const layer_placement *layer, bool *complete)
{
    json_t *assignments = json_array();
    for (uint32_t i = 0; i < layer->assignment_count; i++)
        append(assignments, print_assignment(p, &layer->assignments[i], complete), complete);
    json_t *object = json_pack("{s:s, s:s, s:o}", "form", placement_forms[layer->form], "selector",
                               selectors[layer->selector].name, "assignments", assignments);
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
    if (p->recall > 0)
        complete = json_object_set_new(root, "recall", json_real(p->recall)) == 0 && complete;
    char *text = root && complete ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    char *copy = text ? mem_copy_text(text, strlen(text)) : NULL;
    free(text);
    if (!copy)
        return placement_no_memory(error);
    *json = copy;
    return HEARTH_OK;
}
