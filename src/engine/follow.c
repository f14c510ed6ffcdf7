/* follow.c - hot sets that live (see follow.h). */
#include "follow.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"
#include "ffn_job.h"
#include "swap.h"

#include <string.h>

/* Neurons of a layer that change sides per token, unless the options say more or fewer. */
#define DEFAULT_SWAPS 4

typedef struct followed_layer {
    hot_set set;              /* without neurons: those of the layer stay where they are     */
    uint64_t active;          /* neurons of the CPU that were active since they were last reported */
    uint32_t *places;         /* [neuron_count] where a neuron lies on the device            */
    uint32_t *counted, *read; /* [neurons of the device] its counts at the last look, and now */
    uint32_t *leave, *enter;  /* [FOLLOW_TOKENS * most_swaps] those that are to change sides */
    size_t listed, done;      /* of these: in all, and that have                            */
} followed_layer;

struct hot_follower {
    hearth_hot_set how;
    uint32_t most_swaps;
    uint32_t layer_count;
    followed_layer *layers;
    uint64_t since; /* tokens since the last look */
    hearth_hot_report report;
};

/* ------------------------------------------------------------------ life */

static hearth_status follow_layer(followed_layer *l, const hearth_engine *e, uint32_t layer, size_t most,
                                  hearth_error *error)
{
    const device_layer *there = &e->uploaded->layers[layer];
    uint32_t f = e->model->layers[layer].ffn.neuron_count, n = there->neuron_count;
    TRY(hot_set_create(&l->set, f, error));
    l->places = mem_new_array(f, sizeof *l->places);
    l->counted = mem_new_array(n, sizeof *l->counted);
    l->read = mem_new_array(n, sizeof *l->read);
    l->leave = mem_new_array(most, sizeof *l->leave);
    l->enter = mem_new_array(most, sizeof *l->enter);
    if (!l->places || !l->counted || !l->read || !l->leave || !l->enter)
        return fail_memory(error, "hot set", (f + 2 * ((size_t)n + most)) * sizeof *l->places);
    for (uint32_t i = 0; i < n; i++)
        l->places[there->rows[i]] = i;
    return device_read(there->fired, 0, l->counted, n * sizeof *l->counted, error);
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
    for (uint32_t i = 0; i < f->layer_count; i++)
        if (engine_swaps(e, i)) {
            TRY(follow_layer(&f->layers[i], e, i, (size_t)FOLLOW_TOKENS * f->most_swaps, error));
            f->report.layers++;
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
    f->most_swaps = own.most_swaps ? own.most_swaps : DEFAULT_SWAPS;
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
    if (l->set.neuron_count == 0)
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

/* Adds what the device has counted since the last look. */
static hearth_status collect_layer(const hearth_engine *e, uint32_t layer, hearth_error *error)
{
    hot_follower *f = e->follower;
    followed_layer *l = &f->layers[layer];
    const device_layer *there = &e->uploaded->layers[layer];
    TRY(device_read(there->fired, 0, l->read, there->neuron_count * sizeof *l->read, error));
    for (uint32_t i = 0; i < there->neuron_count; i++) {
        uint32_t fired = l->read[i] - l->counted[i]; /* counts may wrap; differences stay right */
        l->counted[i] = l->read[i];
        l->set.fired[there->rows[i]] += fired;
        f->report.active += fired;
        f->report.on_device += fired;
    }
    f->report.active += l->active;
    l->active = 0;
    return HEARTH_OK;
}

static hearth_status collect(const hearth_engine *e, hearth_error *error)
{
    for (uint32_t i = 0; i < e->follower->layer_count; i++)
        if (e->follower->layers[i].set.neuron_count > 0)
            TRY(collect_layer(e, i, error));
    return HEARTH_OK;
}

void follow_give_up(const hearth_engine *e)
{
    for (uint32_t i = 0; i < e->follower->layer_count; i++) {
        followed_layer *l = &e->follower->layers[i];
        const device_layer *there = &e->uploaded->layers[i];
        if (l->set.neuron_count == 0)
            continue;
        /* A device that fails here is lost, which its next step tells. */
        (void)device_read(there->fired, 0, l->counted, there->neuron_count * sizeof *l->counted, NULL);
        hot_set_forget(&l->set);
        l->active = 0;
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

/* Lists anew who should change sides in each layer. */
static hearth_status look(const hearth_engine *e, hearth_error *error)
{
    hot_follower *f = e->follower;
    TRY(collect(e, error));
    for (uint32_t i = 0; i < f->layer_count; i++) {
        followed_layer *l = &f->layers[i];
        const device_layer *there = &e->uploaded->layers[i];
        if (l->set.neuron_count == 0)
            continue;
        hot_set_look(&l->set);
        l->done = 0;
        l->listed = hot_set_choose(&l->set, there->rows, there->neuron_count, e->layers[i].rows, e->layers[i].row_count,
                                   (size_t)FOLLOW_TOKENS * f->most_swaps, l->leave, l->enter);
    }
    f->since = 0;
    return HEARTH_OK;
}

/* Lets at most `most` of the listed neurons of a layer change sides. */
static hearth_status change(const hearth_engine *e, uint32_t layer, size_t most, hearth_error *error)
{
    hot_follower *f = e->follower;
    followed_layer *l = &f->layers[layer];
    for (; most > 0 && l->done < l->listed; most--) {
        uint32_t leave = l->leave[l->done], enter = l->enter[l->done], place = l->places[leave];
        l->done++;
        TRY(engine_swap(e, layer, place, enter, &f->report.bytes, error));
        l->places[enter] = place;
        l->set.moved[leave] = l->set.moved[enter] = 1;
        f->report.swaps++;
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
        TRY(change(e, i, tokens * f->most_swaps, error));
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
