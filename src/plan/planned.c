/* planned.c - see planned.h. */
#include "planned.h"

#include "../engine/engine.h"
#include "survey_memory.h"

#include <math.h>
#include <stdio.h>

/* Where the device needs more than was planned, less is planned for, and so often. */
#define RETRIES 3
/* A prediction that is so near to what was achieved is right; plans are made again so often until one is. */
#define NEAR   0.1
#define ROUNDS 2
/* Below this share, a difference of two times is noise. */
#define NOISE 0.03

typedef struct opener {
    planned *out;
    hearth_runtime *runtime;
    const hearth_model *model;
    const planned_options *options;
    hearth_error *error;
} opener;

/* ------------------------------------------------------------------ on the CPU */

static hearth_status open_unguarded(const opener *o)
{
    const planned_options *from = o->options;
    hearth_engine_options options = {.placement = from->placement,
                                     .activations = from->activations,
                                     .progress = from->progress,
                                     .stream = from->stream};
    hearth_placement *placement = NULL;
    if (!options.placement) {
        TRY(hearth_placement_create(&placement, o->model, from->mode, o->error));
        options.placement = placement;
    }
    hearth_status status = hearth_engine_create(&o->out->base.engine, o->runtime, o->model, &options, o->error);
    hearth_placement_destroy(placement);
    return status;
}

static hearth_status open_base(const opener *o)
{
    const planned_options *from = o->options;
    hearth_mode mode = from->mode == HEARTH_MODE_AUTO ? placement_auto_mode(o->model) : from->mode;
    if (mode != HEARTH_MODE_EXACT || from->no_guard || from->placement)
        return open_unguarded(o);
    guard_options options = {
        .engine = {.activations = from->activations, .progress = from->progress, .stream = from->stream},
        .cache_bytes = from->cache_bytes,
        .folder = from->folder,
        .may_be_dense = from->mode == HEARTH_MODE_AUTO,
        .again = from->again};
    TRY(guard_open(&o->out->base, o->runtime, o->model, &options, o->error));
    o->out->is_guarded = true;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ what it takes */

/* Describes the model as the engine on the CPU runs it. */
static hearth_status describe(const opener *o)
{
    planned *p = o->out;
    const number_traits *kv = &number_formats[kv_formats[o->options->kv].stored];
    double value = (double)kv->block_bytes / kv->block_values;
    double density = p->is_guarded ? p->base.report.density : 0;
    bool known = density > 0;
    return load_of_engine(&p->load, p->base.engine, known ? density : 1,
                          known ? "measured on a few tokens" : "assumed: every neuron fires", value, o->error);
}

static void request(const opener *o)
{
    const planned_options *from = o->options;
    device_info info = {0};
    if (o->runtime->device)
        device_describe(o->runtime->device, &info);
    double budget = (double)(info.budget_bytes - info.used_bytes), asked = (double)from->device_bytes;
    double host = from->host_bytes > 0 ? (double)from->host_bytes : o->out->machine.memory_bytes.value;
    plan_request r = plan_request_free(asked > 0 && asked < budget ? asked : budget, host, from->context,
                                       o->model->hyper.context_length);
    r.sequences = from->sequences > 0 ? from->sequences : 1;
    r.layers = from->layers;
    r.neurons = from->neurons;
    r.strict = from->host_bytes > 0;
    o->out->request = r;
}

static survey_options survey_of(const opener *o)
{
    const plan_request *r = &o->out->request;
    return (survey_options){.folder = o->options->folder,
                            .again = o->options->again,
                            .context = (uint32_t)r->context,
                            .sequences = (uint32_t)r->sequences,
                            .states = (uint32_t)r->states,
                            .kv = o->options->kv,
                            .progress = o->options->progress};
}

/* Measures the layers and puts constants in the place of assumptions. */
static hearth_status measure(const opener *o)
{
    planned *p = o->out;
    int which = o->runtime->device && p->machine.device_count > 0 ? 0 : -1;
    TRY(cost_assume(&p->cost, &p->machine, which, &p->load, o->error));
    survey_options options = survey_of(o);
    TRY(survey_make(&p->survey, p->base.engine, &p->load, &p->cost, &options, o->error));
    survey_apply(&p->survey, &p->load, &p->cost);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ where it goes */

/* Makes the plan and its placement. */
static hearth_status make_plan(const opener *o)
{
    planned *p = o->out;
    plan_free(&p->plan);
    hearth_placement_destroy(p->placement);
    p->placement = NULL;
    TRY(plan_make(&p->plan, &p->load, &p->cost, &p->request, o->error));
    TRY(placement_copy(&p->placement, p->base.engine->placement, o->error));
    return plan_apply(&p->plan, &p->load, p->placement, o->model, o->error);
}

/* Returns the bytes of the device that an engine and a session of the request take. */
static hearth_status device_bytes(const opener *o, const hearth_engine *engine, double *out)
{
    hearth_memory memory;
    const plan_request *r = &o->out->request;
    hearth_session_options options = {
        .context = (uint32_t)r->context, .sequences = (uint32_t)r->sequences, .kv = o->options->kv};
    TRY(hearth_session_memory(engine, &options, &memory, o->error));
    *out = (double)memory.device_bytes;
    return HEARTH_OK;
}

static void close_own(planned *p)
{
    hearth_engine_destroy(p->own);
    p->own = NULL;
}

/* Opens an engine under the placement. *over: bytes that it takes beyond the request; then, and on failure, it is closed. */
static hearth_status open_own(const opener *o, double *over)
{
    planned *p = o->out;
    double bytes = 0;
    *over = 0;
    TRY(engine_with_placement(&p->own, p->base.engine, o->model->tune, p->placement, o->error));
    hearth_status status = device_bytes(o, p->own, &bytes);
    *over = status == HEARTH_OK ? fmax(0, bytes - p->request.device_bytes) : 0;
    if (status != HEARTH_OK || *over > 0)
        close_own(p);
    return status;
}

/* Opens the engine of the plan; where the device turns out to be too small, plans again for less. */
static hearth_status open_fitting(const opener *o)
{
    planned *p = o->out;
    double asked = p->request.device_bytes;
    for (int i = 0; p->plan.uses_device; i++) {
        double over = 0;
        hearth_status status = open_own(o, &over);
        if (status == HEARTH_OK && over == 0)
            break;
        if (status != HEARTH_OK && (status != HEARTH_NO_MEMORY || i == RETRIES))
            return status;
        if (i == RETRIES)
            return fail(o->error, HEARTH_NO_MEMORY, "plan: the device is too small by %.0f bytes", over);
        p->request.device_bytes -= over > 0 ? over : asked * 0.05;
        TRY(make_plan(o));
    }
    return HEARTH_OK;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * b;
}

static bool splits_any(const plan *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].form == FORM_SPLIT || p->layers[i].form == FORM_FFN_HOST)
            return true;
    return false;
}

static bool was_tried(const planned *p)
{
    return p->survey.trial.predicted > 0 && p->survey.trial.plan_hash == p->plan.hash;
}

/* Opens the plan and tries it for a few tokens, unless it was tried before. Where it was wrong, constants are corrected and
 * it is made again. */
static hearth_status open_and_try(const opener *o)
{
    planned *p = o->out;
    survey_options options = survey_of(o);
    for (int round = 0;; round++) {
        TRY(open_fitting(o));
        if (!p->own || was_tried(p))
            return HEARTH_OK;
        TRY(survey_try(&p->survey, p->own, p->base.engine, p->plan.hash, p->plan.seconds, &options, o->error));
        bool settled = is_near(p->survey.trial.seconds, p->plan.seconds) || round == ROUNDS;
        if (!settled) {
            survey_fit(&p->survey, p->plan.terms, splits_any(&p->plan));
            survey_apply(&p->survey, &p->load, &p->cost);
        }
        if (!p->survey.busy)
            survey_remember(&p->survey, options.folder);
        if (settled)
            return HEARTH_OK;
        close_own(p);
        TRY(make_plan(o));
    }
}

/* ------------------------------------------------------------------ the plain alternatives */

/* Replaces the plan's placement by one with so many whole layers on the device. */
static hearth_status place_layers(const opener *o, uint32_t layers)
{
    planned *p = o->out;
    hearth_placement *placement;
    TRY(placement_copy(&placement, p->base.engine->placement, o->error));
    hearth_status status = hearth_placement_use_device(placement, o->model, layers, UINT32_MAX, o->error);
    if (status != HEARTH_OK) {
        hearth_placement_destroy(placement);
        return status;
    }
    hearth_placement_destroy(p->placement);
    p->placement = placement;
    return HEARTH_OK;
}

/* Opens, in place of the plan, as many whole layers on the device as fit there. */
static hearth_status open_layers(const opener *o)
{
    planned *p = o->out;
    double over;
    close_own(p);
    TRY(place_layers(o, p->plan.whole_layers));
    TRY(open_own(o, &over));
    return over > 0 ? fail(o->error, HEARTH_NO_MEMORY, "plan: the device is too small by %.0f bytes", over) : HEARTH_OK;
}

/* Opens the plan again, after another placement was tried. */
static hearth_status return_to_plan(const opener *o)
{
    close_own(o->out);
    TRY(make_plan(o));
    return open_fitting(o);
}

/* Times whole layers where the prediction leaves it open whether they are faster. The plan is open again afterwards. */
static hearth_status try_layers(const opener *o)
{
    planned *p = o->out;
    survey_trial *trial = &p->survey.trial;
    survey_options options = survey_of(o);
    if (!p->own || trial->layers_seconds > 0 || p->plan.whole_layers == 0 || !splits_any(&p->plan) ||
        p->plan.layers_seconds > p->plan.seconds * (1 + NEAR))
        return HEARTH_OK;
    hearth_error why = {0};
    opener inner = *o;
    inner.error = &why;
    hearth_status status = open_layers(&inner);
    if (status == HEARTH_OK) {
        TRY(survey_time(&trial->layers_seconds, p->own, &options, o->error));
        if (!p->survey.busy)
            survey_remember(&p->survey, options.folder);
    } else if (status != HEARTH_NO_MEMORY && status != HEARTH_UNSUPPORTED) {
        return fail(o->error, status, "%s", why.text);
    }
    return return_to_plan(o);
}

/* Returns what was fastest when it was tried. */
static planned_use fastest(const planned *p)
{
    const survey_trial *t = &p->survey.trial;
    bool layers = t->layers_seconds > 0 && t->layers_seconds < t->seconds * (1 - NOISE);
    double best = layers ? t->layers_seconds : t->seconds;
    return t->cpu_seconds < best * (1 - NOISE) ? USES_CPU : layers ? USES_LAYERS : USES_PLAN;
}

/* Plans, and opens what is fastest: the plan, everything on the CPU, or whole layers. */
static hearth_status place(const opener *o)
{
    planned *p = o->out;
    bool is_free = o->options->layers == PLAN_FREE; /* else it is what was asked for */
    TRY(make_plan(o));
    if (!o->options->plan_only) {
        TRY(open_and_try(o));
        if (is_free)
            TRY(try_layers(o));
    }
    if (!p->plan.uses_device || !is_free || !was_tried(p))
        return HEARTH_OK;
    p->use = fastest(p);
    if (p->use == USES_PLAN)
        return HEARTH_OK;
    if (p->use == USES_LAYERS && !o->options->plan_only) {
        hearth_error why = {0};
        opener inner = *o;
        inner.error = &why;
        hearth_status status = open_layers(&inner);
        if (status != HEARTH_NO_MEMORY) /* less is free than when they were tried */
            return status == HEARTH_OK ? status : fail(o->error, status, "%s", why.text);
        p->use = USES_PLAN;
        return return_to_plan(o);
    }
    close_own(p);
    return place_layers(o, p->use == USES_CPU ? 0 : p->plan.whole_layers);
}

bool planned_goes_on(hearth_status status)
{
    return status == HEARTH_DEVICE || status == HEARTH_UNSUPPORTED || status == HEARTH_NO_MEMORY;
}

/* Measures and places; where the device fails and nobody asked for it, everything stays on the CPU. */
static hearth_status measure_and_place(const opener *o)
{
    planned *p = o->out;
    hearth_error why = {0};
    opener inner = *o;
    inner.error = &why;
    hearth_status status = measure(&inner);
    if (status == HEARTH_OK)
        status = place(&inner);
    if (status != HEARTH_OK && (!o->runtime->device || o->options->must_use_device || !planned_goes_on(status)))
        return fail(o->error, status, "%s", why.text);
    if (status != HEARTH_OK) {
        close_own(p);
        cost_free(&p->cost);
        p->use = USES_PLAN;
        snprintf(p->problem, sizeof p->problem, "%.500s", why.text);
        TRY(cost_assume(&p->cost, &p->machine, -1, &p->load, o->error));
        survey_apply(&p->survey, &p->load, &p->cost);
        TRY(make_plan(o));
    }
    p->engine = p->own ? p->own : p->base.engine;
    return HEARTH_OK;
}

static hearth_status open_all(const opener *o)
{
    TRY(open_base(o));
    TRY(describe(o));
    request(o);
    return measure_and_place(o);
}

hearth_status planned_open(planned *out, hearth_runtime *runtime, const hearth_model *model, const machine *on,
                           const planned_options *options, hearth_error *error)
{
    opener o = {out, runtime, model, options, error};
    *out = (planned){.machine = *on};
    hearth_status status = open_all(&o);
    if (status != HEARTH_OK)
        planned_close(out);
    return status;
}

double planned_seconds(const planned *p, double cached)
{
    const survey_trial *t = &p->survey.trial; /* what was tried is known better than it was predicted */
    double seconds = p->use == USES_LAYERS ? t->layers_seconds
                     : p->use == USES_CPU  ? t->cpu_seconds
                     : p->own              ? p->plan.seconds
                                           : p->plan.cpu_seconds;
    return seconds + (cached - p->request.cached) * p->plan.position_seconds;
}

bool planned_check(const planned *p, double seconds, double cached, const char *folder)
{
    double predicted = planned_seconds(p, cached);
    if (fabs(seconds - predicted) <= PLANNED_WRONG * predicted)
        return false;
    survey_forget(&p->survey, folder);
    return true;
}

void planned_close(planned *p)
{
    hearth_engine_destroy(p->own);
    guard_close(&p->base);
    hearth_placement_destroy(p->placement);
    plan_free(&p->plan);
    survey_free(&p->survey);
    cost_free(&p->cost);
    load_free(&p->load);
    *p = (planned){0};
}
