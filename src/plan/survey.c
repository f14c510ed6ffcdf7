/* survey.c - see survey.h. Every layer is timed by itself, so the others may be anywhere; layers that are alike are measured
 * together. */
#include "survey.h"

#include "../base/median.h"
#include "../engine/engine.h"
#include "plan.h"
#include "survey_memory.h"
#include "timing.h"

#include <math.h>
#include <string.h>

/* Of a token, what a term takes at least so that a trial corrects it. */
#define FIT_LEAST 0.02
/* Of all bytes, what layers of a kind have at least so that the kind is measured on the device. */
#define KIND_LEAST 0.02

typedef struct surveyor {
    const hearth_engine *engine;
    const model_load *load;
    const cost_model *cost;
    const survey_options *options;
    hearth_error *error;
    survey *out;
    timing timing;
} surveyor;

/* ------------------------------------------------------------------ the CPU */

/* Returns the median over all layers of a kind. */
static double kind_median(const surveyor *s, uint32_t kind, timing_span what)
{
    double sorted[256];
    size_t n = 0;
    for (uint32_t i = kind; i < s->load->layer_count && n < sizeof sorted / sizeof *sorted; i++)
        if (s->load->layers[i].kind == kind)
            sorted[n++] = timing_layer(&s->timing, i, what);
    return median(sorted, n);
}

static hearth_status survey_cpu(surveyor *s)
{
    TRY(timing_run(&s->timing, s->engine, s->error));
    for (uint32_t i = 0; i < s->load->layer_count; i++)
        if (s->load->layers[i].kind == i)
            s->out->layers[i] = (survey_layer){.cpu_mixer = kind_median(s, i, SPAN_CPU_MIXER),
                                               .cpu_network = kind_median(s, i, SPAN_CPU_NEURONS)};
    const timing *t = &s->timing;
    s->out->head[SIDE_CPU] = timing_head(t);
    s->out->token = fmax(0, timing_feed(t) - timing_layers(t));
    s->out->busy = !timing_is_steady(t);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the device */

/* Returns the last layer of a kind that can be on the device by itself; UINT32_MAX: none can. */
static uint32_t example_of(const model_load *load, uint32_t kind)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < load->layer_count; i++) {
        bool alone = !load->layers[i].lacks && load->layers[i].keys_back == 0;
        for (uint32_t k = i + 1; alone && k < load->layer_count; k++)
            alone = load->layers[k].keys_back != k - i;
        if (alone && load->layers[i].kind == kind)
            found = i;
    }
    return found;
}

/* Times an engine with some neurons of one layer on the device, the hottest. */
static hearth_status time_share(surveyor *s, uint32_t layer, uint32_t neurons, bool head)
{
    uint32_t count = s->load->layer_count;
    hearth_placement *placement;
    hearth_engine *engine = NULL;
    device_share *shares = mem_new_array(count, sizeof *shares);
    if (!shares)
        return fail_memory(s->error, "plan", count * sizeof *shares);
    shares[layer] = (device_share){true, neurons, s->load->layers[layer].order, s->load->layers[layer].first};
    hearth_status status = placement_copy(&placement, s->engine->placement, s->error);
    if (status == HEARTH_OK) {
        status = placement_share(placement, s->engine->model, shares, head, s->error);
        if (status == HEARTH_OK)
            status = engine_with_placement(&engine, s->engine, s->engine->model->tune, placement, s->error);
        hearth_placement_destroy(placement);
    }
    mem_free(shares);
    if (status == HEARTH_OK)
        status = timing_run(&s->timing, engine, s->error);
    if (status == HEARTH_OK && s->out->scratch_bytes == 0) {
        hearth_memory memory;
        const layer_load *l = &s->load->layers[layer];
        hearth_session_options options = {
            .context = s->options->context, .sequences = s->options->sequences, .kv = s->options->kv};
        status = hearth_session_memory(engine, &options, &memory, s->error);
        double each = l->kv_bytes * plan_cache_positions(s->options->context) + l->state_bytes * s->options->states;
        double known = (double)engine->uploaded->bytes + each * s->options->sequences;
        s->out->scratch_bytes = status == HEARTH_OK ? fmax(0, (double)memory.device_bytes - known) : 0;
    }
    hearth_engine_destroy(engine);
    return status;
}

static double layer_bytes(const layer_load *l)
{
    return l->mixer_bytes + l->network_bytes + l->neurons * l->in_use * (l->first_bytes + l->other_bytes);
}

/* Returns the share of the bytes of all layers that those of a kind have. */
static double kind_share(const model_load *load, uint32_t kind)
{
    double all = 0, own = 0;
    for (uint32_t i = 0; i < load->layer_count; i++) {
        all += layer_bytes(&load->layers[i]);
        own += load->layers[i].kind == kind ? layer_bytes(&load->layers[i]) : 0;
    }
    return all > 0 ? own / all : 0;
}

/* Returns whether an error only says that something does not fit there. */
static bool is_too_large(hearth_status status)
{
    return status == HEARTH_NO_MEMORY || status == HEARTH_UNSUPPORTED;
}

/* Measures one layer of a kind on the device. */
static hearth_status survey_kind(surveyor *s, uint32_t kind, bool *head)
{
    uint32_t layer = example_of(s->load, kind);
    const layer_load *l = &s->load->layers[kind];
    survey_layer *to = &s->out->layers[kind];
    if (layer == UINT32_MAX || kind_share(s->load, kind) < KIND_LEAST)
        return HEARTH_OK;
    hearth_status status = time_share(s, layer, l->neurons, *head);
    if (is_too_large(status) && *head) {
        *head = false;
        status = time_share(s, layer, l->neurons, false);
    }
    if (is_too_large(status))
        return HEARTH_OK;
    TRY(status);
    const timing *t = &s->timing;
    to->device_mixer = timing_layer(t, layer, SPAN_DEVICE_MIXER);
    to->device_network = timing_layer(t, layer, SPAN_DEVICE_NEURONS);
    s->out->crossing = fmax(0, timing_feed(t) - timing_layers(t) - s->out->token);
    if (*head)
        s->out->head[SIDE_DEVICE] = timing_head(t);
    *head = false;
    uint32_t half = load_neurons(l, l->neurons / 2);
    if (half == 0)
        return HEARTH_OK;
    status = time_share(s, layer, half, false);
    if (is_too_large(status))
        return HEARTH_OK;
    TRY(status);
    to->split_cpu = timing_layer(t, layer, SPAN_CPU_NEURONS);
    to->split_device = timing_layer(t, layer, SPAN_DEVICE_NEURONS);
    to->exchange = fmax(0, timing_layer(t, layer, SPAN_WHOLE) - timing_layer(t, layer, SPAN_DEVICE_MIXER) -
                               fmax(to->split_cpu, to->split_device));
    return HEARTH_OK;
}

static hearth_status survey_device(surveyor *s)
{
    bool head = s->load->head_on_device;
    for (uint32_t i = 0; i < s->load->layer_count; i++)
        if (s->load->layers[i].kind == i)
            TRY(survey_kind(s, i, &head));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all of it */

static hearth_status measure(surveyor *s)
{
    uint32_t n = s->load->layer_count, total = 1;
    for (uint32_t i = 0; s->cost->device && i < n; i++)
        total += s->load->layers[i].kind == i ? 1 + s->load->layers[i].splits : 0;
    TRY(timing_open(&s->timing, s->engine->model, total, s->options->progress, s->error));
    hearth_status status = survey_cpu(s);
    if (status == HEARTH_OK && s->cost->device)
        status = survey_device(s);
    timing_close(&s->timing);
    return status;
}

/* Makes a survey of nothing. */
static hearth_status survey_open(survey *out, const char key[SURVEY_KEY_SIZE], uint32_t layer_count,
                                 hearth_error *error)
{
    *out = (survey){.layer_count = layer_count};
    memcpy(out->key, key, sizeof out->key);
    for (int k = 0; k < COST_TERMS; k++)
        out->ratios[k] = 1;
    out->layers = mem_new_array(layer_count, sizeof *out->layers);
    return out->layers ? HEARTH_OK : fail_memory(error, "plan", layer_count * sizeof *out->layers);
}

/* Reads what an earlier run measured. Where none of its layers fitted on the device it knows nothing of that, and today the device may
 * have more room. */
static bool recall(survey *out, const cost_model *cost, const char *folder)
{
    return survey_recall(out, folder, out->key) && (!cost->device || out->scratch_bytes > 0);
}

hearth_status survey_make(survey *out, const hearth_engine *engine, const model_load *load, const cost_model *cost,
                          const survey_options *options, hearth_error *error)
{
    char key[SURVEY_KEY_SIZE];
    survey_key(key, engine, load, cost, options);
    TRY(survey_open(out, key, load->layer_count, error));
    if (!options->again && recall(out, cost, options->folder))
        return HEARTH_OK;
    survey_free(out); /* of what was recalled in vain */
    TRY(survey_open(out, key, load->layer_count, error));
    surveyor s = {.engine = engine, .load = load, .cost = cost, .options = options, .error = error, .out = out};
    hearth_status status = measure(&s);
    if (status != HEARTH_OK)
        survey_free(out);
    else if (!out->busy)
        survey_remember(out, options->folder);
    return status;
}

void survey_free(survey *s)
{
    mem_free(s->layers);
    *s = (survey){0};
}

/* ------------------------------------------------------------------ trying a plan */

hearth_status survey_try(survey *s, const hearth_engine *own, const hearth_engine *cpu, uint64_t plan_hash,
                         double predicted, const survey_options *options, hearth_error *error)
{
    timing t;
    TRY(timing_open(&t, own->model, 2, options->progress, error));
    survey_trial trial = {.plan_hash = plan_hash, .predicted = predicted};
    hearth_status status = timing_run(&t, own, error);
    if (status == HEARTH_OK) {
        trial.seconds = timing_terms(&t, own, s->token, trial.terms);
        s->busy |= !timing_is_steady(&t);
        status = timing_run(&t, cpu, error);
    }
    if (status == HEARTH_OK) {
        trial.cpu_seconds = timing_feed(&t) + timing_head(&t);
        s->trial = trial;
    }
    timing_close(&t);
    return status;
}

hearth_status survey_time(double *seconds, const hearth_engine *engine, const survey_options *options,
                          hearth_error *error)
{
    timing t;
    TRY(timing_open(&t, engine->model, 1, options->progress, error));
    hearth_status status = timing_run(&t, engine, error);
    if (status == HEARTH_OK)
        *seconds = timing_feed(&t) + timing_head(&t);
    timing_close(&t);
    return status;
}

/* Corrects a ratio. A small term is mostly noise, and stays. */
static void fit_ratio(double *ratio, double achieved, double predicted, double all)
{
    if (predicted > FIT_LEAST * all && achieved > FIT_LEAST * all)
        *ratio = fmin(fmax(*ratio * achieved / predicted, 1 / SURVEY_RATIO_MOST), SURVEY_RATIO_MOST);
}

void survey_fit(survey *s, const double terms[COST_TERMS], bool splits)
{
    const double *achieved = s->trial.terms;
    double all = 0;
    for (int k = 0; k < COST_TERMS; k++)
        all += terms[k];
    for (int k = 0; k < COST_TERMS; k++) {
        bool neurons = k == COST_CPU_NEURONS || k == COST_DEVICE_NEURONS;
        if (neurons && splits)
            fit_ratio(&s->ratios[k], achieved[COST_CPU_NEURONS] + achieved[COST_DEVICE_NEURONS],
                      terms[COST_CPU_NEURONS] + terms[COST_DEVICE_NEURONS], all);
        else
            fit_ratio(&s->ratios[k], achieved[k], terms[k], all);
    }
}

/* ------------------------------------------------------------------ constants from times */

static figure measured(double value)
{
    return (figure){value, FIGURE_MEASURED};
}

/* Finds what a network takes without neurons, and its neurons as a multiple of their bytes over the rates, from its time
 * with all neurons and with some of them (0: not measured). Times that contradict the bytes give a multiple alone. */
static void fit_network(side_cost *to, double whole, double whole_reading, double part, double part_reading)
{
    if (whole <= 0 || whole_reading <= 0)
        return;
    double scale = part > 0 && whole_reading > part_reading * 1.1 ? (whole - part) / (whole_reading - part_reading) : 0;
    double fixed = scale > 0 ? whole - scale * whole_reading : fmin(to->network_seconds.value, whole / 2);
    if (fixed < 0 || scale <= 0) {
        fixed = fmax(0, fmin(fixed, whole / 2));
        scale = (whole - fixed) / whole_reading;
    }
    to->network_seconds = measured(fixed);
    to->neuron_scale = measured(scale);
}

static void apply_kind(const survey_layer *from, const layer_load *l, cost_model *cost, uint32_t kind)
{
    uint32_t half = load_neurons(l, l->neurons / 2);
    neuron_work all = cost_work(l, 0, l->neurons), hot = cost_work(l, 0, half), cold = cost_work(l, half, l->neurons);
    if (l->has_mixer && from->cpu_mixer > 0)
        cost->sides[SIDE_CPU][kind].mixer_seconds = measured(from->cpu_mixer);
    fit_network(&cost->sides[SIDE_CPU][kind], from->cpu_network, cost_reading(cost, l, SIDE_CPU, all, true),
                from->split_cpu, cost_reading(cost, l, SIDE_CPU, cold, false));
    if (!cost->device)
        return;
    if (l->has_mixer && from->device_mixer > 0)
        cost->sides[SIDE_DEVICE][kind].mixer_seconds = measured(from->device_mixer);
    fit_network(&cost->sides[SIDE_DEVICE][kind], from->device_network, cost_reading(cost, l, SIDE_DEVICE, all, true),
                from->split_device, cost_reading(cost, l, SIDE_DEVICE, hot, true));
}

void survey_apply(const survey *s, const model_load *load, cost_model *cost)
{
    if (!s->layers) /* nothing was measured */
        return;
    memcpy(cost->ratios, s->ratios, sizeof cost->ratios);
    double exchange = 0;
    for (uint32_t i = 0; i < load->layer_count; i++)
        if (load->layers[i].kind == i) {
            apply_kind(&s->layers[i], &load->layers[i], cost, i);
            exchange = fmax(exchange, s->layers[i].exchange);
        }
    for (int side = 0; side < COST_SIDES; side++)
        if (s->head[side] > 0)
            cost->head_seconds[side] = measured(s->head[side]);
    cost->token_seconds = measured(s->token);
    if (!cost->device)
        return;
    if (exchange > 0)
        cost->exchange_seconds = measured(exchange);
    if (s->crossing > 0) { /* starting it is known from the device alone */
        double start = fmin(cost->start_seconds.value, s->crossing);
        cost->start_seconds = (figure){start, FIGURE_DERIVED};
        cost->change_seconds = (figure){(s->crossing - start) / 2, FIGURE_DERIVED};
    }
    if (s->scratch_bytes > 0)
        cost->scratch_bytes = measured(s->scratch_bytes);
}
