/* follow.c - hot sets that live (see follow.h). */
#include "follow.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"
#include "ffn_job.h"
#include "swap.h"

#include <string.h>

/* What of a layer may change sides per token unless the options say more or less: one neuron in SWAP_SHARE, so that a quarter of them
 * takes 256 tokens, but some of a small layer too; and so many experts. */
#define SWAP_SHARE      1024
#define LEAST_SWAPS     4
#define DEFAULT_EXPERTS 1

typedef struct followed_layer {
    hot_set set;      /* without units: all of the layer stay where they are             */
    bool has_experts; /* its units are whole experts                                     */
    uint64_t active,
        on_device;    /* neurons that the CPU saw active since they were last reported: its own; of chosen experts
                                 * all, and of these the device's */
    uint32_t *places; /* [neurons] where a neuron lies on the device; of experts NULL    */
    uint32_t *counted, *read;  /* [neurons of the device] its counts at the last look, and now; of experts NULL */
    uint32_t *device, *cpu;    /* [experts] room for those of each side; of neurons NULL          */
    uint32_t *leave, *enter;   /* [most] those that are to change sides                           */
    size_t most, listed, done; /* in FOLLOW_TOKENS tokens; of these: in all, and that have        */
} followed_layer;

struct hot_follower {
    hearth_hot_set how;
    uint32_t most_swaps, most_experts; /* of a layer and a token; most_swaps 0: by the layer's size */
    uint32_t layer_count;
    followed_layer *layers;
    uint64_t since; /* tokens since the last look */
    hearth_hot_report report;
};

/* ------------------------------------------------------------------ life */

/* Makes room for a layer with so many units. */
static hearth_status follow_units(followed_layer *l, uint32_t units, size_t most, hearth_error *error)
{
    l->most = (size_t)FOLLOW_TOKENS * most;
    l->leave = mem_new_array(l->most, sizeof *l->leave);
    l->enter = mem_new_array(l->most, sizeof *l->enter);
    return l->leave && l->enter ? hot_set_create(&l->set, units, error)
                                : fail_memory(error, "hot set", 2 * l->most * sizeof *l->leave);
}

static hearth_status follow_neurons(followed_layer *l, const hot_follower *f, const hearth_engine *e, uint32_t layer,
                                    hearth_error *error)
{
    const device_layer *there = &e->uploaded->layers[layer];
    uint32_t all = e->model->layers[layer].ffn.neuron_count, n = there->neuron_count;
    l->places = mem_new_array(all, sizeof *l->places);
    l->counted = mem_new_array(n, sizeof *l->counted);
    l->read = mem_new_array(n, sizeof *l->read);
    if (!l->places || !l->counted || !l->read)
        return fail_memory(error, "hot set", (all + 2 * (size_t)n) * sizeof *l->places);
    for (uint32_t i = 0; i < n; i++)
        l->places[there->rows[i]] = i;
    TRY(device_read(there->fired, 0, l->counted, n * sizeof *l->counted, error));
    uint32_t by_size = all / SWAP_SHARE > LEAST_SWAPS ? all / SWAP_SHARE : LEAST_SWAPS;
    return follow_units(l, all, f->most_swaps ? f->most_swaps : by_size, error);
}

static hearth_status follow_experts(followed_layer *l, const hot_follower *f, const hearth_engine *e, uint32_t layer,
                                    hearth_error *error)
{
    uint32_t experts = e->model->layers[layer].ffn.router.expert_count;
    l->has_experts = true;
    l->device = mem_new_array(experts, sizeof *l->device);
    l->cpu = mem_new_array(experts, sizeof *l->cpu);
    if (!l->device || !l->cpu)
        return fail_memory(error, "hot set", 2 * (size_t)experts * sizeof *l->device);
    return follow_units(l, experts, f->most_experts, error);
}

void follow_destroy(hot_follower *f)
{
    if (!f)
        return;
    for (uint32_t i = 0; f->layers && i < f->layer_count; i++) {
        followed_layer *l = &f->layers[i];
        hot_set_destroy(&l->set);
        mem_free(l->places);
        mem_free(l->counted);
        mem_free(l->read);
        mem_free(l->device);
        mem_free(l->cpu);
        mem_free(l->leave);
        mem_free(l->enter);
    }
    mem_free(f->layers);
    mem_free(f);
}

/* Fills in a follower; needs the device lock. */
static hearth_status fill(hot_follower *f, const hearth_engine *e, hearth_error *error)
{
    f->layer_count = e->model->hyper.layer_count;
    f->layers = mem_new_array(f->layer_count, sizeof *f->layers);
    if (!f->layers)
        return fail_memory(error, "hot set", f->layer_count * sizeof *f->layers);
    for (uint32_t i = 0; i < f->layer_count; i++) {
        bool neurons = engine_swaps(e, i), experts = engine_swaps_experts(e, i);
        f->report.layers += neurons || experts;
        if (neurons)
            TRY(follow_neurons(&f->layers[i], f, e, i, error));
        if (experts)
            TRY(follow_experts(&f->layers[i], f, e, i, error));
    }
    return HEARTH_OK;
}

hearth_status hearth_engine_follow_sized(hearth_engine *engine, const hearth_hot_options *options, size_t options_size,
                                         hearth_error *error)
{
    hearth_hot_options own;
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_hot_options", error));
    if (own.how < 0 || own.how >= HEARTH_HOT_SET_COUNT)
        return fail(error, HEARTH_INVALID, "engine: hot set %d: is not known", (int)own.how);
    hot_follower *f = mem_new(sizeof *f);
    if (!f)
        return fail_memory(error, "hot set", sizeof *f);
    f->how = own.how;
    f->most_swaps = own.most_swaps;
    f->most_experts = own.most_experts ? own.most_experts : DEFAULT_EXPERTS;
    device_lock(engine->runtime);
    hearth_status status = fill(f, engine, error);
    if (status == HEARTH_OK) {
        follow_destroy(engine->follower);
        engine->follower = f;
    } else
        follow_destroy(f);
    device_unlock(engine->runtime);
    return status;
}

/* ------------------------------------------------------------------ counting */

void follow_count(const hearth_engine *e, uint32_t layer, const ffn_job *job)
{
    followed_layer *l = &e->follower->layers[layer];
    const scratch *b = &job->s->scratch;
    uint64_t active = 0;
    if (l->set.unit_count == 0)
        return;
    for (const ffn_part *v = b->parts; v < b->parts + b->part_count; v++)
        for (size_t t = 0; t < job->count; t++) {
            const float *h = job->h + t * job->neuron_count + v->begin;
            for (size_t i = 0; i < v->count; i++) {
                l->set.fired[neuron_at(v, i)] += h[i] != 0;
                active += h[i] != 0;
            }
        }
    l->set.pending += job->count;
    l->active += active;
}

void follow_count_experts(const hearth_engine *e, uint32_t layer, const float *shares, size_t count)
{
    followed_layer *l = &e->follower->layers[layer];
    const uint32_t *ranges = e->uploaded->layers[layer].ranges;
    uint32_t experts = l->set.unit_count, f = e->model->layers[layer].ffn.expert_neurons;
    for (size_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < experts; i++) {
            if (shares[t * experts + i] == 0)
                continue;
            l->set.fired[i]++;
            l->active += f;
            l->on_device += ranges[2 * i + 1] - ranges[2 * i];
        }
    l->set.pending += experts > 0 ? count : 0;
}

/* Adds what the device has counted since the last look. */
static hearth_status collect_layer(const hearth_engine *e, uint32_t layer, hearth_error *error)
{
    hot_follower *f = e->follower;
    followed_layer *l = &f->layers[layer];
    const device_layer *there = &e->uploaded->layers[layer];
    uint32_t counted = l->has_experts ? 0 : there->neuron_count;
    if (counted > 0)
        TRY(device_read(there->fired, 0, l->read, counted * sizeof *l->read, error));
    for (uint32_t i = 0; i < counted; i++) {
        uint32_t fired = l->read[i] - l->counted[i]; /* counts may wrap; differences stay right */
        l->counted[i] = l->read[i];
        l->set.fired[there->rows[i]] += fired;
        f->report.active += fired;
        f->report.on_device += fired;
    }
    f->report.active += l->active;
    f->report.on_device += l->on_device;
    l->active = l->on_device = 0;
    return HEARTH_OK;
}

static hearth_status collect(const hearth_engine *e, hearth_error *error)
{
    for (uint32_t i = 0; i < e->follower->layer_count; i++)
        if (e->follower->layers[i].set.unit_count > 0)
            TRY(collect_layer(e, i, error));
    return HEARTH_OK;
}

void follow_give_up(const hearth_engine *e)
{
    for (uint32_t i = 0; i < e->follower->layer_count; i++) {
        followed_layer *l = &e->follower->layers[i];
        const device_layer *there = &e->uploaded->layers[i];
        if (l->set.unit_count == 0)
            continue;
        if (!l->has_experts) /* a device that fails here is lost, which its next step tells */
            (void)device_read(there->fired, 0, l->counted, there->neuron_count * sizeof *l->counted, NULL);
        hot_set_forget(&l->set);
        l->active = l->on_device = 0;
    }
    e->follower->since = 0;
}

hearth_status hearth_engine_hot_set_sized(const hearth_engine *engine, hearth_hot_report *out, size_t out_size,
                                          hearth_error *error)
{
    hearth_hot_report report = {0};
    hearth_status status = HEARTH_OK;
    if (engine->follower) {
        device_lock(engine->runtime);
        status = collect(engine, error);
        report = engine->follower->report;
        device_unlock(engine->runtime);
    }
    if (status == HEARTH_OK)
        sized_write(out, out_size, &report, sizeof report);
    return status;
}

/* ------------------------------------------------------------------ changing sides */

/* Lists who should change sides among the neurons of a layer, and among experts that are whole on one side. */
static size_t choose_neurons(const hearth_engine *e, uint32_t layer, followed_layer *l)
{
    const device_layer *there = &e->uploaded->layers[layer];
    const engine_layer *own = &e->layers[layer];
    return hot_set_choose(&l->set, there->rows, there->neuron_count, own->rows, own->row_count, l->most, l->leave,
                          l->enter);
}

static size_t choose_experts(const hearth_engine *e, uint32_t layer, followed_layer *l)
{
    size_t there = 0, here = 0;
    for (uint32_t i = 0; i < l->set.unit_count; i++)
        switch (engine_expert_side(e, layer, i)) {
        case EXPERT_ON_DEVICE:
            l->device[there++] = i;
            break;
        case EXPERT_ON_CPU:
            l->cpu[here++] = i;
            break;
        case EXPERT_ON_BOTH:
            break;
        }
    return hot_set_choose(&l->set, l->device, there, l->cpu, here, l->most, l->leave, l->enter);
}

/* Lists anew who should change sides in each layer. */
static hearth_status look(const hearth_engine *e, hearth_error *error)
{
    hot_follower *f = e->follower;
    TRY(collect(e, error));
    for (uint32_t i = 0; i < f->layer_count; i++) {
        followed_layer *l = &f->layers[i];
        if (l->set.unit_count == 0)
            continue;
        hot_set_look(&l->set);
        l->done = 0;
        l->listed = l->has_experts ? choose_experts(e, i, l) : choose_neurons(e, i, l);
    }
    f->since = 0;
    return HEARTH_OK;
}

/* Lets the neuron or expert `leave` of the device and `enter` of the CPU change sides. */
static hearth_status change_one(const hearth_engine *e, uint32_t layer, followed_layer *l, uint32_t leave,
                                uint32_t enter, hearth_error *error)
{
    uint64_t *bytes = &e->follower->report.bytes;
    if (l->has_experts)
        return engine_swap_expert(e, layer, leave, enter, bytes, error);
    uint32_t place = l->places[leave];
    TRY(engine_swap(e, layer, place, enter, bytes, error));
    l->places[enter] = place;
    return HEARTH_OK;
}

/* Lets those of a layer that are listed change sides, as many as may within so many tokens. */
static hearth_status change(const hearth_engine *e, uint32_t layer, size_t tokens, hearth_error *error)
{
    followed_layer *l = &e->follower->layers[layer];
    for (size_t most = tokens * l->most / FOLLOW_TOKENS; most > 0 && l->done < l->listed; most--) {
        uint32_t leave = l->leave[l->done], enter = l->enter[l->done];
        l->done++;
        TRY(change_one(e, layer, l, leave, enter, error));
        if (!l->has_experts) /* whose counts are known by number */
            l->set.moved[leave] = l->set.moved[enter] = 1;
        e->follower->report.swaps++;
    }
    return HEARTH_OK;
}

static hearth_status follow(const hearth_engine *e, size_t count, bool reads_prompt, hearth_error *error)
{
    hot_follower *f = e->follower;
    bool at_once = f->how == HEARTH_HOT_SET_FROZEN; /* when the prompt is read nothing may change any more */
    f->since += count;
    if (f->since >= FOLLOW_TOKENS || (at_once && reads_prompt))
        TRY(look(e, error));
    size_t tokens = at_once || count > FOLLOW_TOKENS ? FOLLOW_TOKENS : count;
    for (uint32_t i = 0; i < f->layer_count; i++)
        TRY(change(e, i, tokens, error));
    return HEARTH_OK;
}

void follow_step(const hearth_engine *e, size_t count, bool reads_prompt)
{
    hot_follower *f = e->follower;
    hearth_error error = {0};
    if (f->how == HEARTH_HOT_SET_STATIC || (f->how == HEARTH_HOT_SET_FROZEN && !reads_prompt))
        return;
    double begin = clock_seconds();
    if (follow(e, count, reads_prompt, &error) != HEARTH_OK) {
        log_line(&e->runtime->log, HEARTH_LOG_WARNING, "hot set: %s; it stays as it is from now on", error.text);
        f->how = HEARTH_HOT_SET_STATIC;
    }
    f->report.seconds += clock_seconds() - begin;
}
