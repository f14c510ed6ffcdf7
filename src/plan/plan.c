/* plan.c - turns layers into items of solve.h, and what it finds into a plan. */
#include "plan.h"

#include "../base/hash.h"
#include "../base/text.h"
#include "solve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lengths of the hot prefix that are tried of a layer: steps of less than a hundredth. */
#define STEPS 128
/* The context that is planned for where nobody names one and the model was made for a longer one. */
#define USUAL_CONTEXT 4096
/* Positions that are cached in the token whose time is predicted, where nobody names a context: the middle of a usual
 * answer. */
#define USUAL_CACHED 256
/* Recurrent states of a sequence: two that are read and written in turn, and the marks that sessions keep by default. */
#define STATES 6
/* Of the device's budget, left free for what nobody counts: padding, fragments, the driver's own. */
#define MARGIN     0.02
#define MORE_BYTES 1073741824.0

plan_request plan_request_free(double device_bytes, double host_bytes, uint32_t context, uint32_t most)
{
    uint32_t usual = most < USUAL_CONTEXT ? most : USUAL_CONTEXT, wanted = context > 0 ? context : usual;
    uint32_t cached = wanted / 2;
    return (plan_request){.device_bytes = device_bytes,
                          .host_bytes = host_bytes,
                          .context = wanted,
                          .cached = context > 0 || cached < USUAL_CACHED ? cached : USUAL_CACHED,
                          .sequences = 1,
                          .states = STATES,
                          .layers = PLAN_FREE,
                          .neurons = PLAN_FREE};
}

/* ------------------------------------------------------------------ one layer */

typedef struct planner {
    const model_load *load;
    const cost_model *cost;
    const plan_request *request;
    hearth_error *error;
    double budget;     /* bytes for items and scratch                         */
    solve_item *items; /* [item_count] groups of layers, then the head        */
    uint32_t *begins;  /* [item_count] the first layer of each group          */
    size_t item_count;
    solve_option *options; /* [layers + 1][STEPS + 1]                            */
    uint32_t *choice;      /* [item_count]                                       */
} planner;

/* Return the bytes of a layer's keys and values, of its states, and of its weights with so many neurons on the device. */
static double cache_bytes(const planner *p, const layer_load *l)
{
    return l->kv_bytes * plan_cache_positions(p->request->context) * p->request->sequences;
}

static double state_bytes(const planner *p, const layer_load *l)
{
    return l->state_bytes * p->request->states * p->request->sequences;
}

static double weight_bytes(const layer_load *l, uint32_t neurons)
{
    return l->device_bytes + (neurons > 0 ? l->device_network_bytes + neurons * l->device_neuron_bytes : 0);
}

/* Describes a layer on the CPU. */
static planned_layer on_cpu(const planner *p, const layer_load *l)
{
    planned_layer out = {.form = FORM_HOST,
                         .mixer_seconds = cost_mixer(p->cost, l, SIDE_CPU, p->request->cached),
                         .cpu_seconds = cost_network(p->cost, l, SIDE_CPU, cost_work(l, 0, l->neurons), true)};
    out.seconds = out.mixer_seconds + out.cpu_seconds;
    return out;
}

/* Describes a layer on the device with so many neurons; work: of these, rest: of the others. */
static planned_layer on_device(const planner *p, const layer_load *l, uint32_t neurons, neuron_work work,
                               neuron_work rest)
{
    bool whole = neurons == l->neurons;
    planned_layer out = {.form = whole          ? FORM_DEVICE
                                 : neurons == 0 ? FORM_FFN_HOST
                                                : FORM_SPLIT,
                         .neurons = neurons,
                         .device_bytes = weight_bytes(l, neurons),
                         .mixer_seconds = cost_mixer(p->cost, l, SIDE_DEVICE, p->request->cached),
                         .device_seconds = cost_network(p->cost, l, SIDE_DEVICE, work, true),
                         .cpu_seconds = whole ? 0 : cost_network(p->cost, l, SIDE_CPU, rest, neurons == 0)};
    out.seconds = out.mixer_seconds + fmax(out.device_seconds, out.cpu_seconds) + (whole ? 0 : cost_exchange(p->cost));
    return out;
}

/* Returns the number of neurons at a step. */
static uint32_t neurons_at(const planner *p, const layer_load *l, size_t step)
{
    uint32_t wanted = p->request->neurons;
    return load_neurons(l, wanted != PLAN_FREE ? wanted : (uint32_t)((uint64_t)l->neurons * step / STEPS));
}

/* Adds a layer, at every step, to the options of its group. */
static void add_options(const planner *p, const layer_load *l, solve_option *options)
{
    neuron_work all = cost_work(l, 0, l->neurons), work = {0};
    uint32_t before = 0;
    for (size_t step = 0; step <= STEPS; step++) {
        uint32_t now = neurons_at(p, l, step);
        neuron_work more = cost_work(l, before, now);
        work.whole_bytes += more.whole_bytes;
        work.listed_bytes += more.listed_bytes;
        before = now;
        neuron_work rest = {fmax(0, all.whole_bytes - work.whole_bytes), fmax(0, all.listed_bytes - work.listed_bytes)};
        planned_layer on = on_device(p, l, now, work, rest);
        options[step].seconds += on.seconds;
        options[step].bytes += on.device_bytes + cache_bytes(p, l) + state_bytes(p, l);
    }
}

/* ------------------------------------------------------------------ items */

/* Returns the layer after the last one of the group that begins at a layer: one that reads the keys of another is on its
 * side, and with it what lies between. */
static uint32_t group_end(const model_load *m, uint32_t begin)
{
    uint32_t end = begin + 1;
    for (uint32_t i = begin + 1; i < m->layer_count; i++)
        if (m->layers[i].keys_back > 0 && i - m->layers[i].keys_back < end)
            end = i + 1;
    return end;
}

/* Makes the item of layers [begin, end). */
static hearth_status make_group(planner *p, solve_item *item, uint32_t begin, uint32_t end, solve_option *options)
{
    uint32_t count = p->load->layer_count, wanted = p->request->layers;
    bool free = wanted == PLAN_FREE, given = !free && end > count - (wanted < count ? wanted : count);
    const char *lacking = p->cost->device ? NULL : "there is no device";
    uint32_t which = begin;
    for (uint32_t i = begin; i < end; i++) {
        const layer_load *l = &p->load->layers[i];
        if (l->lacks && !lacking) {
            lacking = l->lacks;
            which = i;
        }
        item->host_seconds += on_cpu(p, l).seconds;
    }
    if (given && lacking)
        return fail(p->error, HEARTH_UNSUPPORTED, "plan: layer %u cannot be on the device: %s", which, lacking);
    if (lacking || (!free && !given))
        return HEARTH_OK;
    for (uint32_t i = begin; i < end; i++)
        add_options(p, &p->load->layers[i], options);
    item->options = options;
    item->option_count = STEPS + 1;
    if (given)
        item->host_seconds = INFINITY;
    return HEARTH_OK;
}

/* Makes the items of all layers, and of the head. */
static hearth_status make_items(planner *p)
{
    const model_load *m = p->load;
    solve_option *options = p->options;
    for (uint32_t i = 0; i < m->layer_count; options += STEPS + 1) {
        uint32_t end = group_end(m, i);
        p->begins[p->item_count] = i;
        TRY(make_group(p, &p->items[p->item_count++], i, end, options));
        i = end;
    }
    p->begins[p->item_count] = m->layer_count;
    solve_item *head = &p->items[p->item_count++];
    head->host_seconds = cost_head(p->cost, SIDE_CPU);
    if (p->cost->device && m->head_on_device && p->request->layers != 0) {
        *options = (solve_option){m->head_bytes, cost_head(p->cost, SIDE_DEVICE)};
        head->options = options;
        head->option_count = 1;
    }
    return HEARTH_OK;
}

static solve_problem problem_of(const planner *p)
{
    return (solve_problem){.items = p->items,
                           .count = p->item_count,
                           .base_bytes = p->cost->scratch_bytes.value,
                           .base_seconds = cost_start(p->cost),
                           .change_seconds = cost_change(p->cost)};
}

/* ------------------------------------------------------------------ the result */

static void take_layer(const planner *p, plan *out, uint32_t i, uint32_t choice)
{
    const layer_load *l = &p->load->layers[i];
    planned_layer *to = &out->layers[i];
    if (choice == SOLVE_HOST) {
        *to = on_cpu(p, l);
        out->terms[COST_CPU_MIXERS] += to->mixer_seconds;
        out->terms[COST_CPU_NEURONS] += to->cpu_seconds;
        out->host.cache += cache_bytes(p, l);
        out->host.states += state_bytes(p, l);
        return;
    }
    uint32_t n = neurons_at(p, l, choice);
    *to = on_device(p, l, n, cost_work(l, 0, n), cost_work(l, n, l->neurons));
    out->terms[COST_DEVICE_MIXERS] += to->mixer_seconds;
    out->terms[to->cpu_seconds > to->device_seconds ? COST_CPU_NEURONS : COST_DEVICE_NEURONS] +=
        fmax(to->cpu_seconds, to->device_seconds);
    out->terms[COST_EXCHANGE] += to->form == FORM_DEVICE ? 0 : cost_exchange(p->cost);
    out->device.weights += to->device_bytes;
    out->device.cache += cache_bytes(p, l);
    out->device.states += state_bytes(p, l);
    out->uses_device = true;
}

/* Returns the bytes of weights that stay in main memory. */
static double host_weights(const planner *p, const plan *out)
{
    const model_load *m = p->load;
    double bytes = m->other_bytes + m->embedding_bytes + (m->tied || out->head_on_device ? 0 : m->head_bytes);
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const layer_load *l = &m->layers[i];
        double neurons = l->neurons - (double)out->layers[i].neurons;
        bytes += neurons * (l->first_bytes + l->other_bytes + l->predictor_bytes) +
                 (neurons > 0 ? l->network_bytes : 0) + (out->layers[i].form == FORM_HOST ? l->mixer_bytes : 0);
    }
    return bytes;
}

/* Returns a hash of what lies where. */
static uint64_t hash_of(const plan *p)
{
    hash128 h = hash_begin();
    for (uint32_t i = 0; i < p->layer_count; i++) {
        hash_number(&h, (uint64_t)p->layers[i].form);
        hash_number(&h, p->layers[i].neurons);
    }
    hash_number(&h, p->head_on_device);
    return h.a;
}

/* Returns how much longer a token takes with one more position cached. */
static double position_seconds(const planner *p, const plan *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < out->layer_count; i++) {
        const layer_load *l = &p->load->layers[i];
        int side = out->layers[i].form == FORM_HOST ? SIDE_CPU : SIDE_DEVICE;
        sum += cost_position(p->cost, l, side, p->request->cached);
    }
    return sum;
}

/* Turns the choice into the plan. */
static void conclude(const planner *p, plan *out)
{
    for (size_t k = 0; k + 1 < p->item_count; k++)
        for (uint32_t i = p->begins[k]; i < p->begins[k + 1]; i++)
            take_layer(p, out, i, p->choice[k]);
    out->head_on_device = p->choice[p->item_count - 1] != SOLVE_HOST;
    out->uses_device |= out->head_on_device;
    out->device.weights += out->head_on_device ? p->load->head_bytes : 0;
    out->terms[COST_HEAD] = cost_head(p->cost, out->head_on_device ? SIDE_DEVICE : SIDE_CPU);
    out->terms[COST_REST] = p->cost->token_seconds.value;
    if (out->uses_device) {
        out->device.scratch = p->cost->scratch_bytes.value;
        out->device.margin = p->request->device_bytes - p->budget;
    }
    solve_problem problem = problem_of(p);
    double sum = 0;
    out->seconds = solve_evaluate(p->choice, &problem).seconds + out->terms[COST_REST];
    for (int t = 0; t < COST_TERMS; t++)
        sum += out->terms[t];
    out->terms[COST_EXCHANGE] += out->seconds - sum; /* changes of side, and starting the device */
    out->hash = hash_of(out);
    out->position_seconds = position_seconds(p, out);
    out->device.budget = p->request->device_bytes;
    out->host.budget = p->request->host_bytes;
    out->host.weights = host_weights(p, out);
}

/* Computes what the plain alternatives take: everything on the CPU, and as many whole layers as fit on the device. p: with
 * a request that leaves all to the plan. */
static void compare_alternatives(const planner *p, plan *out)
{
    solve_problem problem = problem_of(p);
    double rest = p->cost->token_seconds.value;
    for (size_t i = 0; i < p->item_count; i++)
        p->choice[i] = SOLVE_HOST;
    out->cpu_seconds = out->layers_seconds = solve_evaluate(p->choice, &problem).seconds + rest;
    for (size_t i = p->item_count - 1; i-- > 0 && p->items[i].option_count > 0;) {
        p->choice[i] = STEPS;
        if (i == 0 && p->items[p->item_count - 1].option_count > 0)
            p->choice[p->item_count - 1] = 0;
        solve_result r = solve_evaluate(p->choice, &problem);
        if (r.bytes > p->budget)
            break;
        out->layers_seconds = r.seconds + rest;
        out->whole_layers = p->load->layer_count - p->begins[i];
    }
}

/* Says what does not fit. */
static hearth_status check_memory(const planner *p, const plan *out)
{
    char have[16], need[16];
    double bytes = out->host.weights + out->host.cache + out->host.states;
    if (bytes <= p->request->host_bytes || !p->request->strict)
        return HEARTH_OK;
    return fail(p->error, HEARTH_NO_MEMORY,
                "plan: main memory has %s and would need %s for what is not on the device: weights, keys and values of "
                "%.0f positions",
                text_size(have, p->request->host_bytes), text_size(need, bytes), p->request->context);
}

static hearth_status find(planner *p, plan *out)
{
    solver *s;
    TRY(make_items(p));
    solve_problem problem = problem_of(p);
    TRY(solver_open(&s, &problem, p->error));
    out->more_seconds = solver_choose(s, p->budget + MORE_BYTES, p->choice).seconds + p->cost->token_seconds.value;
    double seconds = solver_choose(s, p->budget, p->choice).seconds;
    solver_close(s);
    if (!isfinite(seconds)) {
        char have[16];
        return fail(p->error, HEARTH_NO_MEMORY, "plan: what was asked for does not fit into %s on the device",
                    text_size(have, p->request->device_bytes));
    }
    conclude(p, out);
    return check_memory(p, out);
}

static void planner_close(planner *p)
{
    mem_free(p->items);
    mem_free(p->begins);
    mem_free(p->choice);
    mem_free(p->options);
}

/* Allocates what items need. */
static hearth_status planner_open(planner *p, const model_load *load, const cost_model *cost,
                                  const plan_request *request, hearth_error *error)
{
    uint32_t n = load->layer_count + 1;
    *p = (planner){.load = load, .cost = cost, .request = request, .error = error};
    p->budget = cost->device ? request->device_bytes * (1 - MARGIN) : 0;
    p->items = mem_new_array(n, sizeof *p->items);
    p->begins = mem_new_array(n, sizeof *p->begins);
    p->choice = mem_new_array(n, sizeof *p->choice);
    p->options = mem_new_array(n, (STEPS + 1) * sizeof *p->options);
    if (p->items && p->begins && p->choice && p->options)
        return HEARTH_OK;
    planner_close(p);
    return fail_memory(error, "plan", n * (STEPS + 1) * sizeof *p->options);
}

/* Adds the alternatives, which do not depend on what was asked for. */
static hearth_status add_alternatives(plan *out, const model_load *load, const cost_model *cost,
                                      const plan_request *request, hearth_error *error)
{
    planner p;
    plan_request all = *request;
    all.layers = all.neurons = PLAN_FREE;
    TRY(planner_open(&p, load, cost, &all, error));
    hearth_status status = make_items(&p);
    if (status == HEARTH_OK)
        compare_alternatives(&p, out);
    planner_close(&p);
    return status;
}

hearth_status plan_make(plan *out, const model_load *load, const cost_model *cost, const plan_request *request,
                        hearth_error *error)
{
    planner p;
    *out = (plan){.layer_count = load->layer_count};
    out->layers = mem_new_array(load->layer_count + 1, sizeof *out->layers);
    if (!out->layers)
        return fail_memory(error, "plan", load->layer_count * sizeof *out->layers);
    hearth_status status = planner_open(&p, load, cost, request, error);
    if (status == HEARTH_OK) {
        status = find(&p, out);
        planner_close(&p);
    }
    if (status == HEARTH_OK)
        status = add_alternatives(out, load, cost, request, error);
    if (status != HEARTH_OK)
        plan_free(out);
    return status;
}

hearth_status plan_budgets(double *seconds, const double *budgets, size_t count, const model_load *load,
                           const cost_model *cost, const plan_request *request, hearth_error *error)
{
    planner p;
    solver *s;
    TRY(planner_open(&p, load, cost, request, error));
    hearth_status status = make_items(&p);
    solve_problem problem = problem_of(&p);
    if (status == HEARTH_OK)
        status = solver_open(&s, &problem, error);
    if (status == HEARTH_OK) {
        for (size_t i = 0; i < count; i++)
            seconds[i] = solver_choose(s, budgets[i], p.choice).seconds + cost->token_seconds.value;
        solver_close(s);
    }
    planner_close(&p);
    return status;
}

void plan_free(plan *p)
{
    mem_free(p->layers);
    *p = (plan){0};
}

cost_term plan_bound(const plan *p)
{
    cost_term most = 0;
    for (int t = 1; t < COST_TERMS; t++)
        if (p->terms[t] > p->terms[most])
            most = (cost_term)t;
    return most;
}

hearth_status plan_apply(const plan *p, const model_load *load, hearth_placement *placement, const hearth_model *model,
                         hearth_error *error)
{
    device_share *shares = mem_new_array(p->layer_count, sizeof *shares);
    if (!shares)
        return fail_memory(error, "plan", p->layer_count * sizeof *shares);
    for (uint32_t i = 0; i < p->layer_count; i++)
        shares[i] = (device_share){p->layers[i].form != FORM_HOST, p->layers[i].neurons, load->layers[i].order,
                                   load->layers[i].first};
    hearth_status status = placement_share(placement, model, shares, p->head_on_device, error);
    mem_free(shares);
    return status;
}
