/* plan.c - `hearth plan`: where a model would lie on this machine, or on another one, and how fast it would be. */
#include "common.h"

#include "../base/text.h"
#include "../plan/report.h"
#include "output.h"
#include "plan_plot.h"

#include <stdio.h>
#include <string.h>

typedef struct plan_values {
    engine_options engine;
    const char *machine, *shape, *format, *svg;
    optional_number density;
    bool json;
} plan_values;

static const option rows[] = {
    {OPTION_ROW(0, "json", FLAG, plan_values, json, NULL,
                "one object: machine, budget, placement (what --place reads), predicted (token_seconds, terms), bound, "
                "costs and layers; each figure with its source")},
    {OPTION_ROW(0, "machine", TEXT, plan_values, machine, "FILE",
                "a description of another machine, or the name of one that comes with hearth (pc-high)")},
    {OPTION_ROW(0, "shape", TEXT, plan_values, shape, "NAME",
                "a description of a model in place of MODEL, or the name of one that comes with hearth (opt-30b)")},
    {OPTION_ROW(0, "format", TEXT, plan_values, format, "FORMAT", "of the weights of a shape: f16, q4_0 ... (f16)")},
    {OPTION_ROW(0, "density", GIVEN, plan_values, density, "SHARE",
                "of the neurons of a shape that fire, in place of the published one"),
     .least = 0, .most = 1},
    {OPTION_ROW(0, "svg", TEXT, plan_values, svg, "OUT.svg",
                "also a picture: weights and predicted time of each layer, and the speed with other budgets")},
};

static const char *const mode_names[] = {"auto",
#define X(mode, name) name,
                                         HEARTH_MODES(X)
#undef X
};

/* ------------------------------------------------------------------ what is shown */

static hearth_status show(const plan_values *v, const plan_view *view, hearth_error *error)
{
    if (v->svg)
        TRY(plan_plot(view, v->svg, error));
    if (v->json)
        return output_json(plan_json(view), JSON_INDENT(1), error);
    buffer text = {0};
    if (!plan_print(&text, view)) {
        buffer_free(&text);
        return fail_memory(error, "plan", 0);
    }
    output_terminal(stdout, (span){text.data, text.size});
    buffer_free(&text);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ a model, on this machine */

static hearth_status plan_model(plan_values *v, hearth_error *error)
{
    loaded l = {0};
    progress p;
    char found[32];
    const char *spec = NULL;
    progress_init(&p);
    hearth_status status;
    TRY_OR(done, status, common_open_model(&l.model, &v->engine.model, &p, error));
    hearth_model_describe(l.model, &l.info);
    if (v->engine.device)
        spec = v->engine.device;
    else if (common_choose_device(&spec, found, &v->engine, NULL) != HEARTH_OK)
        spec = NULL;
    bool opened = false;
    if (spec)
        TRY_OR(done, status, planning_try(&l, &v->engine, spec, true, &p, &opened, error));
    if (!opened)
        TRY_OR(done, status, planning_open(&l, &v->engine, NULL, true, &p, error));
    progress_clear(&p);
    plan_view view = plan_view_of(&l.planned);
    status = show(v, &view, error);
done:
    progress_clear(&p);
    common_unload(&l);
    return status;
}

/* ------------------------------------------------------------------ what if */

/* Describes the machine: another one from a file, or this one. */
static hearth_status describe_machine(const plan_values *v, machine *out, hearth_error *error)
{
    hearth_status status;
    if (v->machine) {
        char *folder = common_own_folder("machines");
        status = machine_read(out, v->machine, folder, error);
        mem_free(folder);
        return status;
    }
    char problem[MACHINE_PROBLEM], *folder = common_cache_folder();
    progress p;
    progress_init(&p);
    machine_options options = {.threads = v->engine.threads,
                               .cpu_level = v->engine.cpu,
                               .device = v->engine.device,
                               .cache_folder = folder,
                               .again = v->engine.measure_again,
                               .progress = progress_to(&p)};
    status = machine_measure(out, &options, problem, error);
    progress_clear(&p);
    if (status == HEARTH_OK && problem[0])
        output_note("warning", "%s; the device is left out", problem);
    mem_free(folder);
    return status;
}

static hearth_status plan_on(const plan_values *v, const machine *on, const model_load *load, hearth_error *error)
{
    cost_model cost;
    plan found;
    uint64_t vram = v->engine.vram, ram = v->engine.ram;
    double budget = on->device_count > 0 ? on->devices[0].budget_bytes.value : 0;
    plan_request request =
        plan_request_free(vram > 0 && (double)vram < budget ? (double)vram : budget,
                          ram > 0 ? (double)ram : on->memory_bytes.value, v->engine.context, UINT32_MAX);
    request.strict = true;
    request.layers = v->engine.gpu_layers.given ? v->engine.gpu_layers.value : PLAN_FREE;
    request.neurons = v->engine.gpu_neurons.given ? v->engine.gpu_neurons.value : PLAN_FREE;
    TRY(cost_assume(&cost, on, on->device_count > 0 ? 0 : -1, load, error));
    hearth_status status = plan_make(&found, load, &cost, &request, error);
    if (status == HEARTH_OK) {
        plan_view view = {.machine = on, .load = load, .cost = &cost, .request = &request, .plan = &found};
        status = show(v, &view, error);
        plan_free(&found);
    }
    cost_free(&cost);
    return status;
}

static hearth_status plan_shape(const plan_values *v, hearth_error *error)
{
    machine on;
    model_load load;
    const char *mode = v->engine.sparsity == HEARTH_MODE_AUTO ? NULL : mode_names[v->engine.sparsity];
    shape_options options = {
        .format = v->format, .mode = mode, .density = v->density.given ? (double)v->density.value : 0};
    char *folder = common_own_folder("shapes");
    hearth_status status = load_read_shape(&load, v->shape, folder, &options, error); /* before seconds of measuring */
    mem_free(folder);
    if (status != HEARTH_OK)
        return status;
    status = describe_machine(v, &on, error);
    if (status == HEARTH_OK)
        status = plan_on(v, &on, &load, error);
    load_free(&load);
    return status;
}

/* ------------------------------------------------------------------ the command */

static hearth_status run_plan(void *values, operands *rest, hearth_error *error)
{
    plan_values *v = values;
    TRY(common_check_options(&v->engine, error));
    if (v->svg)
        TRY(output_check_file("plan: --svg", v->svg, false, error));
    if (v->shape) {
        if (v->engine.model.model || rest->count > 0)
            return fail(error, HEARTH_INVALID, "plan: --shape: takes the place of MODEL");
        return plan_shape(v, error);
    }
    if (v->format || v->density.given)
        return fail(error, HEARTH_INVALID, "plan: --%s: is for --shape; a model has its own",
                    v->format ? "format" : "density");
    if (v->machine)
        return fail(error, HEARTH_INVALID, "plan: --machine: needs --shape; a model is measured on this machine");
    if (v->engine.place)
        return fail(error, HEARTH_INVALID, "plan: --place: the plan says what lies where");
    TRY(common_take_model("plan", &v->engine.model, rest, 0, true, error));
    return plan_model(v, error);
}

const command command_plan = {
    .name = "plan",
    .path = "plan",
    .summary = "say what would lie where, why, and how fast it would be",
    .usage = "[MODEL | --shape NAME] [--vram SIZE] [options]",
    .about =
        "Describes the machine and a model's layers, measures both where they are at hand, and chooses what lies on "
        "the device so that a token takes the least time: the form of every layer, how many of its neurons, "
        "the hottest first, and the side of the head. `hearth run` does the same by itself. Options that say "
        "what lies where are honoured, and the rest is planned. With --shape and --machine it answers what a "
        "model would do on a machine when neither is at hand; then figures are published or assumed.",
    .example = "  $ hearth plan model.gguf --vram 8G\n"
               "  $ hearth plan --machine pc-high --shape opt-30b --format f16",
    .tables = {OPTION_TABLE("plan", rows, 0), ENGINE_TABLES(offsetof(plan_values, engine)),
               MESSAGE_TABLE(offsetof(plan_values, engine))},
    .values_size = sizeof(plan_values),
    .operands_most = 1,
    .run = run_plan,
};
