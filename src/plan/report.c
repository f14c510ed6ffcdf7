/* report.c - see report.h. */
#include "report.h"

#include <math.h>
#include <stdio.h>

plan_view plan_view_of(const planned *p)
{
    return (plan_view){.machine = &p->machine,
                       .load = &p->load,
                       .cost = &p->cost,
                       .request = &p->request,
                       .plan = &p->plan,
                       .placement = p->placement,
                       .trial = p->plan.uses_device && p->survey.trial.plan_hash == p->plan.hash &&
                                        p->survey.trial.predicted > 0
                                    ? &p->survey.trial
                                    : NULL,
                       .use = p->use,
                       .problem = p->problem[0] ? p->problem : NULL};
}

/* ------------------------------------------------------------------ counts */

typedef struct form_counts {
    uint32_t of[FORM_COUNT], on_device;
    double split_share; /* of the split layers' neurons on the device */
} form_counts;

static form_counts count_forms(const plan_view *v)
{
    form_counts c = {0};
    double there = 0, all = 0;
    for (uint32_t i = 0; i < v->plan->layer_count; i++) {
        const planned_layer *l = &v->plan->layers[i];
        c.of[l->form]++;
        c.on_device += l->form != FORM_HOST;
        there += l->form == FORM_SPLIT ? l->neurons : 0;
        all += l->form == FORM_SPLIT ? v->load->layers[i].neurons : 0;
    }
    c.split_share = all > 0 ? there / all : 0;
    return c;
}

static const char *device_name(const plan_view *v)
{
    const machine_device *d = v->cost->device;
    return !d ? "" : d->spec[0] ? d->spec : d->name;
}

static figure_source less_certain(figure_source a, figure_source b)
{
    return a < b ? a : b;
}

/* Returns the least certain source among the figures of the cost model that the plan uses. */
static figure_source least_certain(const plan_view *v)
{
    const cost_model *c = v->cost;
    figure_source least = c->head_seconds[v->plan->head_on_device ? SIDE_DEVICE : SIDE_CPU].source;
    if (v->plan->uses_device)
        least = less_certain(less_certain(least, c->start_seconds.source),
                             less_certain(c->change_seconds.source, c->exchange_seconds.source));
    for (uint32_t i = 0; i < v->plan->layer_count; i++) {
        const layer_load *l = &v->load->layers[i];
        layer_form form = v->plan->layers[i].form;
        bool on_side[COST_SIDES] = {form != FORM_DEVICE, form != FORM_HOST && v->plan->layers[i].neurons > 0};
        if (l->has_mixer)
            least =
                less_certain(least, c->sides[form == FORM_HOST ? SIDE_CPU : SIDE_DEVICE][l->kind].mixer_seconds.source);
        for (int side = 0; side < COST_SIDES; side++)
            if (l->has_network && on_side[side])
                least = less_certain(least, c->sides[side][l->kind].neuron_scale.source);
    }
    return least;
}

/* ------------------------------------------------------------------ in words */

static bool print_machine(buffer *out, const plan_view *v)
{
    const machine *m = v->machine;
    const machine_device *d = v->cost->device;
    char rate[16];
    bool ok = buffer_print(out, "machine: %s%s%u thread%s, %s/s", m->name, m->name[0] ? ", " : "", m->threads,
                           m->threads == 1 ? "" : "s", text_size(rate, m->rates.whole.value));
    if (d)
        ok = ok && buffer_print(out, "; %s%s%s, %s/s", d->spec, d->spec[0] ? " " : "", d->name,
                                text_size(rate, d->rates.whole.value));
    return ok &&
           buffer_print(out, " (%s%s%s)\n", figure_source_name(m->rates.whole.source), m->date[0] ? " " : "", m->date);
}

bool plan_print_place(buffer *out, const plan_view *v)
{
    form_counts c = count_forms(v);
    if (v->problem)
        return buffer_print(out, "everything on the CPU, as the device failed: %s", v->problem);
    if (!v->plan->uses_device)
        return buffer_print(out, "everything on the CPU");
    const char *faster = "which was faster when tried than ";
    if (v->use == USES_CPU && !buffer_print(out, "everything on the CPU, %s", faster))
        return false;
    if (v->use == USES_LAYERS &&
        !buffer_print(out, "the last %u layers whole on %s, %s", v->plan->whole_layers, device_name(v), faster))
        return false;
    bool ok = buffer_print(out, "%u of %u layers on %s", c.on_device, v->plan->layer_count, device_name(v));
    if (c.of[FORM_SPLIT] > 0)
        ok = ok && buffer_print(out, ", %u of them split (%.0f %% of their neurons there)", c.of[FORM_SPLIT],
                                100 * c.split_share);
    if (c.of[FORM_FFN_HOST] > 0)
        ok = ok && buffer_print(out, ", %u with all neurons on the CPU", c.of[FORM_FFN_HOST]);
    return ok && buffer_print(out, "%s", v->plan->head_on_device ? ", and the head" : "");
}

/* Says why layers cannot be on the device: the first reason, and how many there are. */
static bool print_lacking(buffer *out, const plan_view *v)
{
    const char *why = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->load->layer_count; i++) {
        count += v->load->layers[i].lacks != NULL;
        why = why ? why : v->load->layers[i].lacks;
    }
    if (!why || !v->cost->device)
        return true;
    return buffer_print(out, "; %u layer%s cannot be there: %s", count, count == 1 ? "" : "s", why);
}

static bool print_memory(buffer *out, const plan_view *v)
{
    const plan *p = v->plan;
    char tables[16], in_file[64] = "";
    if (v->load->table_bytes > 0)
        snprintf(in_file, sizeof in_file, ", and %s of n-grams are read from the file, row by row",
                 text_size(tables, v->load->table_bytes));
    char all[16], budget[16], weights[16], cache[16], scratch[16];
    double host = p->host.weights + p->host.cache + p->host.states;
    bool ok = buffer_print(out, "memory: ");
    if (p->uses_device)
        ok = ok && buffer_print(
                       out, "device %s of %s (weights %s, %.0f positions %s, vectors %s); ",
                       text_size(all, p->device.weights + p->device.cache + p->device.states + p->device.scratch),
                       text_size(budget, p->device.budget), text_size(weights, p->device.weights), v->request->context,
                       text_size(cache, p->device.cache + p->device.states), text_size(scratch, p->device.scratch));
    return ok &&
           buffer_print(out, "main memory %s of %s%s%s\n", text_size(all, host), text_size(budget, p->host.budget),
                        host > p->host.budget ? ", so weights are read from the disk again and again" : "", in_file);
}

/* Prints a time in ms, or a speed, with three digits and no exponent. */
static bool print_number(buffer *out, double value)
{
    return buffer_print(out, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : value >= 1 ? "%.2f" : "%.3f", value);
}

static bool print_seconds(buffer *out, const plan_view *v)
{
    const plan *p = v->plan;
    bool ok = buffer_print(out, "predicted: ") && print_number(out, 1e3 * p->seconds) &&
              buffer_print(out, " ms per token, ") && print_number(out, 1 / p->seconds) &&
              buffer_print(out, " tokens/s (%s), bound by %s:", figure_source_name(least_certain(v)),
                           cost_term_text(plan_bound(p)));
    const char *comma = " ";
    for (int t = 0; t < COST_TERMS; t++)
        if (p->terms[t] >= 0.02 * p->seconds) {
            ok = ok && buffer_print(out, "%s%s ", comma, cost_term_text((cost_term)t)) &&
                 print_number(out, 1e3 * p->terms[t]);
            comma = ", ";
        }
    return ok && buffer_print(out, "\n");
}

static bool print_alternatives(buffer *out, const plan_view *v)
{
    const plan *p = v->plan;
    if (!v->cost->device)
        return true;
    bool ok = buffer_print(out, "instead: everything on the CPU ") && print_number(out, 1e3 * p->cpu_seconds) &&
              buffer_print(out, " ms");
    if (p->whole_layers > 0)
        ok = ok && buffer_print(out, ", the last %u whole on the device ", p->whole_layers) &&
             print_number(out, 1e3 * p->layers_seconds);
    return ok && buffer_print(out, "; with 1 GiB more device memory ") && print_number(out, 1e3 * p->more_seconds) &&
           buffer_print(out, "\n");
}

/* Says what a term came to, where that differs. */
static bool print_difference(buffer *out, const plan_view *v, const char *what, double achieved, double predicted)
{
    if (fabs(achieved - predicted) <= 0.03 * v->trial->seconds)
        return true;
    return buffer_print(out, ", %s ", what) && print_number(out, 1e3 * achieved) && buffer_print(out, " for ") &&
           print_number(out, 1e3 * predicted);
}

/* Says what came of trying it: in all, and where the terms differ. */
static bool print_trial(buffer *out, const plan_view *v)
{
    const survey_trial *t = v->trial;
    if (!t)
        return true;
    bool ok = buffer_print(out, "tried: ") && print_number(out, 1e3 * t->seconds) &&
              buffer_print(out, " ms per token achieved, %+.0f %%", 100 * (t->seconds / t->predicted - 1));
    for (int k = 0; k < COST_TERMS; k++)
        if (k != COST_CPU_NEURONS && k != COST_DEVICE_NEURONS)
            ok = ok && print_difference(out, v, cost_term_text((cost_term)k), t->terms[k], v->plan->terms[k]);
    /* Both sides of a split layer take about the same time, and it is chance which is the later one. */
    ok = ok && print_difference(out, v, "neurons", t->terms[COST_CPU_NEURONS] + t->terms[COST_DEVICE_NEURONS],
                                v->plan->terms[COST_CPU_NEURONS] + v->plan->terms[COST_DEVICE_NEURONS]);
    ok = ok && buffer_print(out, "; everything on the CPU ") && print_number(out, 1e3 * t->cpu_seconds);
    if (t->layers_seconds > 0)
        ok = ok && buffer_print(out, ", the last %u whole on the device ", v->plan->whole_layers) &&
             print_number(out, 1e3 * t->layers_seconds);
    return ok && buffer_print(out, "\n");
}

bool plan_print(buffer *out, const plan_view *v)
{
    return print_machine(out, v) && buffer_print(out, "placed: ") && plan_print_place(out, v) &&
           print_lacking(out, v) && buffer_print(out, "; hotness %s\n", v->load->density_source) &&
           print_memory(out, v) && print_seconds(out, v) && print_alternatives(out, v) && print_trial(out, v);
}

/* ------------------------------------------------------------------ as JSON */

static json_t *predicted_json(const plan_view *v)
{
    const plan *p = v->plan;
    const char *source = figure_source_name(least_certain(v));
    json_t *terms = json_object();
    for (int t = 0; t < COST_TERMS; t++)
        json_object_set_new(terms, cost_term_name((cost_term)t), json_number(p->terms[t]));
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "token_seconds", json_number(p->seconds),
                     "source", source, "tokens_per_second", json_number(1 / p->seconds), "cached",
                     json_number(v->request->cached), "terms", terms, "cpu_seconds", json_number(p->cpu_seconds),
                     "whole_layers", (json_int_t)p->whole_layers, "whole_layers_seconds",
                     json_number(p->layers_seconds), "seconds_with_one_gib_more", json_number(p->more_seconds));
}

static json_t *memory_json(double weights, double cache, double states, double scratch, double margin, double budget)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "weights", json_number(weights), "cache", json_number(cache),
                     "states", json_number(states), "scratch", json_number(scratch), "margin", json_number(margin),
                     "budget", json_number(budget));
}

static json_t *layers_json(const plan_view *v)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < v->plan->layer_count; i++) {
        const planned_layer *l = &v->plan->layers[i];
        json_array_append_new(
            all, json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "form", layer_form_name(l->form), "neurons",
                           (json_int_t)v->load->layers[i].neurons, "device_neurons", (json_int_t)l->neurons,
                           "device_bytes", json_number(l->device_bytes), "seconds", json_number(l->seconds),
                           "mixer_seconds", json_number(l->mixer_seconds), "cpu_seconds", json_number(l->cpu_seconds),
                           "device_seconds", json_number(l->device_seconds)));
    }
    return all;
}

/* Returns the constants of each kind of layer, and those of a token. */
static json_t *costs_json(const plan_view *v)
{
    static const char *const side_names[COST_SIDES] = {"cpu", "device"};
    const cost_model *c = v->cost;
    json_t *all = json_object(), *kinds = json_array();
    for (uint32_t i = 0; i < v->load->layer_count; i++) {
        if (v->load->layers[i].kind != i)
            continue;
        json_t *kind = json_pack("{s:I}", "first_layer", (json_int_t)i);
        for (int side = 0; side < COST_SIDES; side++) {
            const side_cost *s = c->sides[side] ? &c->sides[side][i] : NULL;
            json_object_set_new(kind, side_names[side],
                                s ? json_pack("{s:o, s:o, s:o}", "mixer_seconds", figure_json(s->mixer_seconds),
                                              "network_seconds", figure_json(s->network_seconds), "neuron_scale",
                                              figure_json(s->neuron_scale))
                                  : json_null());
        }
        json_array_append_new(kinds, kind);
    }
    json_object_set_new(all, "kinds", kinds);
    json_object_set_new(all, "head_cpu_seconds", figure_json(c->head_seconds[SIDE_CPU]));
    json_object_set_new(all, "token_seconds", figure_json(c->token_seconds));
    if (c->device) {
        json_object_set_new(all, "head_device_seconds", figure_json(c->head_seconds[SIDE_DEVICE]));
        json_object_set_new(all, "start_seconds", figure_json(c->start_seconds));
        json_object_set_new(all, "change_seconds", figure_json(c->change_seconds));
        json_object_set_new(all, "exchange_seconds", figure_json(c->exchange_seconds));
        json_object_set_new(all, "scratch_bytes", figure_json(c->scratch_bytes));
    }
    return all;
}

/* Returns the placement as --place reads it. */
static json_t *placement_json(const plan_view *v)
{
    char *text;
    if (!v->placement || hearth_placement_print(v->placement, &text, NULL) != HEARTH_OK)
        return json_null();
    json_t *parsed = json_loads(text, 0, NULL);
    hearth_free(text);
    return parsed ? parsed : json_null();
}

static const char *const uses[PLANNED_USES] = {[USES_PLAN] = "plan", [USES_CPU] = "cpu", [USES_LAYERS] = "layers"};

/* Returns what came of trying the plan; JSON null: it was not tried. */
static json_t *achieved_json(const plan_view *v)
{
    const survey_trial *t = v->trial;
    if (!t)
        return json_null();
    json_t *terms = json_object();
    for (int k = 0; k < COST_TERMS; k++)
        json_object_set_new(terms, cost_term_name((cost_term)k), json_number(t->terms[k]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "token_seconds", json_number(t->seconds), "predicted_seconds",
                     json_number(t->predicted), "cpu_seconds", json_number(t->cpu_seconds), "whole_layers_seconds",
                     t->layers_seconds > 0 ? json_number(t->layers_seconds) : json_null(), "terms", terms, "used",
                     uses[v->use]);
}

json_t *plan_json(const plan_view *v)
{
    const plan *p = v->plan;
    return json_pack("{s:o, s:s, s:s, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "machine",
                     machine_json(v->machine), "model", v->load->name, "hotness", v->load->density_source, "budget",
                     "context", json_number(v->request->context), "device",
                     memory_json(p->device.weights, p->device.cache, p->device.states, p->device.scratch,
                                 p->device.margin, p->device.budget),
                     "host", memory_json(p->host.weights, p->host.cache, p->host.states, 0, 0, p->host.budget),
                     "placement", placement_json(v), "predicted", predicted_json(v), "achieved", achieved_json(v),
                     "bound", cost_term_name(plan_bound(p)), "costs", costs_json(v), "layers", layers_json(v), "head",
                     json_string(p->head_on_device ? "device0" : "cpu"));
}
