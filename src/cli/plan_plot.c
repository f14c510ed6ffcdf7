/* plan_plot.c - `hearth plan --svg`: memory and time of each layer, and what other budgets would give. */
#include "plan_plot.h"

#include "../base/memory.h"
#include "../eval/chart.h"

#include <math.h>
#include <stdio.h>

enum { MEMORY, TIME, BUDGETS, PANELS };
/* Budgets that are planned for the curve, from none to as much as can be used. */
#define CURVE 40
#define MEGA  1e6
#define GIGA  1e9
#define MILLI 1e-3

typedef struct picture {
    const plan_view *v;
    arena memory;
    chart_series bytes[2], seconds[3], curve[2];
    chart_panel panels[PANELS];
    size_t panel_count;
    char says[PANELS][256], note[512], label[32];
} picture;

static chart_point *points_of(picture *k, size_t count, hearth_error *error)
{
    chart_point *points = arena_new_array(&k->memory, count, sizeof *points);
    if (!points)
        (void)fail_memory(error, "picture", count * sizeof *points);
    return points;
}

/* Adds the weights of each layer: bars of all of them, and over these of what is on the device. */
static hearth_status add_memory(picture *k, hearth_error *error)
{
    const plan *p = k->v->plan;
    size_t n = p->layer_count;
    chart_point *all = points_of(k, n, error), *there = points_of(k, n, error);
    if (!all || !there)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const layer_load *l = &k->v->load->layers[i];
        double on_device = p->layers[i].device_bytes;
        double left = (l->neurons - (double)p->layers[i].neurons) * (l->first_bytes + l->other_bytes);
        left += p->layers[i].form == FORM_HOST ? l->mixer_bytes : 0;
        there[i] = (chart_point){(double)i, on_device / MEGA, NULL};
        all[i] = (chart_point){(double)i, (on_device + left) / MEGA, NULL};
    }
    k->bytes[0] = (chart_series){"on the device", CHART_BARS, 1, there, n};
    k->bytes[1] = (chart_series){"in main memory", CHART_BARS, 0, all, n};
    snprintf(k->says[MEMORY], sizeof k->says[MEMORY], "%.3g GB of weights are on the device, %.3g GB in main memory.",
             p->device.weights / GIGA, p->host.weights / GIGA);
    k->panels[k->panel_count++] = (chart_panel){.title = "Weights of each layer",
                                                .says = k->says[MEMORY],
                                                .x = {"layer", .whole = true, .least = -0.5, .most = (double)n - 0.5},
                                                .y = {.title = "MB"},
                                                .series = k->bytes,
                                                .series_count = p->uses_device ? 2 : 1};
    if (!p->uses_device)
        k->bytes[0] = k->bytes[1];
    return HEARTH_OK;
}

/* Adds the predicted time of each layer: bars of all of it, over these without the exchange, over these the mixer. */
static hearth_status add_time(picture *k, hearth_error *error)
{
    const plan *p = k->v->plan;
    size_t n = p->layer_count;
    chart_point *all = points_of(k, n, error), *working = points_of(k, n, error), *mixer = points_of(k, n, error);
    if (!all || !working || !mixer)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const planned_layer *l = &p->layers[i];
        double neurons = fmax(l->cpu_seconds, l->device_seconds);
        mixer[i] = (chart_point){(double)i, l->mixer_seconds / MILLI, NULL};
        working[i] = (chart_point){(double)i, (l->mixer_seconds + neurons) / MILLI, NULL};
        all[i] = (chart_point){(double)i, l->seconds / MILLI, NULL};
    }
    k->seconds[0] = (chart_series){"attention", CHART_BARS, 2, mixer, n};
    k->seconds[1] = (chart_series){"neurons, of the later side", CHART_BARS, 3, working, n};
    k->seconds[2] = (chart_series){"exchange", CHART_BARS, 4, all, n};
    snprintf(k->says[TIME], sizeof k->says[TIME], "A token takes %.3g ms; most of it: %s.", p->seconds / MILLI,
             cost_term_text(plan_bound(p)));
    k->panels[k->panel_count++] = (chart_panel){.title = "Predicted time of each layer, for one token",
                                                .says = k->says[TIME],
                                                .x = {"layer", .whole = true, .least = -0.5, .most = (double)n - 0.5},
                                                .y = {.title = "ms"},
                                                .series = k->seconds,
                                                .series_count = p->uses_device ? 3 : 2};
    return HEARTH_OK;
}

/* Returns the bytes with which everything is on the device. */
static double most_bytes(const plan_view *v)
{
    double bytes = v->cost->scratch_bytes.value + v->load->head_bytes;
    for (uint32_t i = 0; i < v->load->layer_count; i++) {
        const layer_load *l = &v->load->layers[i];
        bytes += l->device_bytes + l->device_network_bytes + l->neurons * l->device_neuron_bytes +
                 (l->kv_bytes * v->request->context + l->state_bytes * v->request->states) * v->request->sequences;
    }
    return bytes * 1.05;
}

/* Adds the speed by the memory of the device. */
static hearth_status add_budgets(picture *k, hearth_error *error)
{
    const plan_view *v = k->v;
    chart_point *points = points_of(k, CURVE + 1, error), *now = points_of(k, 1, error);
    if (!points || !now)
        return HEARTH_NO_MEMORY;
    double budgets[CURVE + 1], seconds[CURVE + 1];
    size_t count = 0;
    for (size_t i = 0; i <= CURVE; i++)
        budgets[i] = most_bytes(v) * (double)i / CURVE;
    TRY(plan_budgets(seconds, budgets, CURVE + 1, v->load, v->cost, v->request, error));
    for (size_t i = 0; i <= CURVE; i++)
        if (isfinite(seconds[i]))
            points[count++] = (chart_point){budgets[i] / GIGA, 1 / seconds[i], NULL};
    if (count == 0)
        return HEARTH_OK;
    snprintf(k->label, sizeof k->label, "%.3g", 1 / v->plan->seconds);
    *now = (chart_point){fmin(v->plan->device.budget, most_bytes(v)) / GIGA, 1 / v->plan->seconds, k->label};
    k->curve[0] = (chart_series){"this plan", CHART_MARKS, 1, now, 1};
    k->curve[1] = (chart_series){"other budgets", CHART_LINE, 0, points, count};
    snprintf(k->says[BUDGETS], sizeof k->says[BUDGETS], "From %.3g tokens per second to %.3g.", points[0].y,
             points[count - 1].y);
    k->panels[k->panel_count++] = (chart_panel){.title = "Predicted speed by the device's memory",
                                                .says = k->says[BUDGETS],
                                                .x = {.title = "GB that may be taken"},
                                                .y = {.title = "tokens per second"},
                                                .series = k->curve,
                                                .series_count = 2};
    return HEARTH_OK;
}

static hearth_status draw(picture *k, const char *path, hearth_error *error)
{
    char title[192];
    const machine *m = k->v->machine;
    TRY(add_memory(k, error));
    TRY(add_time(k, error));
    if (k->v->cost->device)
        TRY(add_budgets(k, error));
    snprintf(title, sizeof title, "%.100s: what lies where", k->v->load->name);
    snprintf(k->note, sizeof k->note, "%.100s%s%.100s; %.0f positions; hotness %.100s.", m->name,
             k->v->cost->device ? " and " : "", k->v->cost->device ? k->v->cost->device->name : "",
             k->v->request->context, k->v->load->density_source);
    return chart_write(path, &(chart){title, k->note, k->panels, k->panel_count, 1}, error);
}

hearth_status plan_plot(const plan_view *v, const char *path, hearth_error *error)
{
    picture k = {.v = v};
    hearth_status status = draw(&k, path, error);
    arena_clear(&k.memory);
    return status;
}
