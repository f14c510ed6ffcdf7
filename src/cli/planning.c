/* planning.c - lets a model place itself beside a device, and says what came of it. */
#include "common.h"

#include "../device/device.h"
#include "../engine/placement.h"
#include "../kernel/topology.h"
#include "../plan/report.h"
#include "output.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

/* Of fewer tokens the speed is not compared with the plan: the first ones are slower. */
#define CHECKED_TOKENS 16
/* Nor where they take less than this: waking a thread takes longer than it should, at times. */
#define CHECKED_SECONDS 1e-3

bool planning_wanted(const engine_options *o, const char **spec, char found[32])
{
    if (!o->plans || o->place || o->gpu_layers.given || o->gpu_neurons.given)
        return false;
    return common_choose_device(spec, found, o, NULL) == HEARTH_OK;
}

/* Returns the spec with a budget where the user set one; NULL: no memory. */
static char *with_budget(const char *spec, uint64_t vram)
{
    buffer text = {0};
    bool ok = buffer_print(&text, "%s", spec);
    if (vram > 0 && !strstr(spec, "memory="))
        ok = ok && buffer_print(&text, ",memory=%llu", (unsigned long long)vram);
    ok = ok && buffer_put(&text, "", 1);
    if (!ok)
        buffer_free(&text);
    return text.data;
}

/* Creates the runtime, after the machine was described: its device is measured while nobody else uses it. */
static hearth_status start(loaded *l, const engine_options *o, const char *spec, const char *folder, machine *on,
                           progress *p, hearth_error *error)
{
    char problem[MACHINE_PROBLEM], *own = NULL;
    machine_options measure = {.threads = o->threads,
                               .cpu_level = o->cpu,
                               .device = spec ? spec : "",
                               .cache_folder = folder,
                               .again = o->measure_again,
                               .progress = progress_to(p)};
    hearth_runtime_options runtime = {
        .threads = o->threads, .cpu_level = o->cpu, .cache_folder = folder, .log = common_log(&o->messages)};
    TRY(machine_measure(on, &measure, problem, error));
    if (spec) { /* a budget beyond that of the device is none */
        bool smaller = on->device_count > 0 && (double)o->vram < on->devices[0].budget_bytes.value;
        own = with_budget(spec, smaller ? o->vram : 0);
        if (!own)
            return fail_memory(error, "device", strlen(spec));
    }
    runtime.device = own;
    hearth_status status = hearth_runtime_create(&l->runtime, &runtime, error);
    mem_free(own);
    return status;
}

hearth_status planning_open(loaded *out, const engine_options *o, const char *spec, bool plan_only, progress *p,
                            hearth_error *error)
{
    machine on;
    char *folder = common_cache_folder();
    hearth_placement *placement = NULL;
    hearth_status status;
    TRY_OR(done, status, start(out, o, spec, folder, &on, p, error));
    /* what they say is part of the placement */
    if (o->sparsity == HEARTH_MODE_PRUNED || o->threshold.given || o->recall.given) {
        engine_options cpu = *o;
        cpu.device = NULL;
        cpu.gpu_layers.given = cpu.gpu_neurons.given = false;
        TRY_OR(done, status, common_place_mode(&placement, out->model, (hearth_mode)o->sparsity, &cpu, error));
    }
    planned_options options = {
        .mode = (hearth_mode)o->sparsity,
        .activations = (hearth_activations)o->activations,
        .stream = (hearth_stream)o->stream,
        .no_guard = o->no_guard,
        .again = o->measure_again,
        .plan_only = plan_only,
        .must_use_device = o->device || o->gpu_layers.given || o->gpu_neurons.given,
        .device_bytes = o->vram,
        .host_bytes = o->ram,
        .context = o->context,
        .sequences = o->sequences,
        .kv = (hearth_kv)o->kv,
        .layers = o->gpu_layers.given ? o->gpu_layers.value : PLAN_FREE,
        .neurons = o->gpu_neurons.given ? o->gpu_neurons.value : PLAN_FREE,
        .cache_bytes = topology_cache_bytes(),
        .folder = folder,
        .placement = placement,
        .progress = progress_to(p),
    };
    TRY_OR(done, status, planned_open(&out->planned, out->runtime, out->model, &on, &options, error));
    out->is_planned = true;
    out->device_bandwidth = on.device_count > 0 ? on.devices[0].rates.whole.value : 0;
    out->is_guarded = out->planned.is_guarded;
    out->guarded.report = out->planned.base.report;
    out->engine = out->planned.engine;
    if (out->planned.own)
        status = placement_copy(&out->placement, out->planned.placement, error);
done:
    hearth_placement_destroy(placement);
    mem_free(folder);
    return status;
}

hearth_status planning_try(loaded *out, const engine_options *o, const char *spec, bool plan_only, progress *p,
                           bool *opened, hearth_error *error)
{
    hearth_error why = {0};
    hearth_status status = planning_open(out, o, spec, plan_only, p, &why);
    bool asked = o->device || o->gpu_layers.given || o->gpu_neurons.given;
    *opened = status == HEARTH_OK;
    if (*opened)
        return HEARTH_OK;
    /* Once there is a runtime, planned_open has done what can be done. */
    if (asked || out->runtime || !planned_goes_on(status))
        return fail(error, status, "%s", why.text);
    progress_clear(p);
    if (!o->messages.quiet)
        output_note("warning", "%s; everything is on the CPU", why.text);
    return HEARTH_OK;
}

void planning_say(const loaded *l)
{
    plan_view v = plan_view_of(&l->planned);
    buffer text = {0};
    terminal_begin(stderr, STYLE_STATUS);
    if (plan_print(&text, &v))
        output_terminal(stderr, (span){text.data, text.size});
    terminal_end(stderr);
    buffer_free(&text);
}

json_t *planning_json(const loaded *l, const planned_run *run)
{
    if (!l->is_planned)
        return json_null();
    plan_view v = plan_view_of(&l->planned);
    json_t *out = plan_json(&v);
    if (!run || !run->tally || run->tokens == 0)
        return out;
    tally_report r = tally_compare(run->tally, &l->planned, run->tokens, run->seconds, run->cached);
    if (out && json_object_set_new(out, "run", tally_json(&r)) == 0)
        return out;
    json_decref(out);
    return NULL;
}

void planning_say_run(const loaded *l, const planned_run *run)
{
    buffer text = {0};
    if (!l->is_planned || !run->tally || run->tokens == 0)
        return;
    tally_report r = tally_compare(run->tally, &l->planned, run->tokens, run->seconds, run->cached);
    if (tally_print(&text, &r))
        fwrite(text.data, 1, text.size, stderr);
    buffer_free(&text);
}

void planning_check(const loaded *l, const planned_run *run, bool quiet)
{
    if (!l->is_planned || run->tokens < CHECKED_TOKENS || run->seconds < CHECKED_SECONDS * (double)run->tokens)
        return;
    char *folder = common_cache_folder();
    double achieved = run->seconds / (double)run->tokens, predicted = planned_seconds(&l->planned, run->cached);
    if (planned_check(&l->planned, achieved, run->cached, folder) && !quiet)
        output_note("note", "a token took %.3g ms, and the plan predicted %.3g; the next run measures the model again",
                    1e3 * achieved, 1e3 * predicted);
    mem_free(folder);
}
