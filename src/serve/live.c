/* live.c - see live.h. */
#include "live.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../engine/engine.h"

#include <pthread.h>

/* Speed is that of so long a time, as a few tokens come irregularly; of an answer that ends sooner at least of that. */
#define SPEED_SECONDS 0.5
#define LEAST_SECONDS 0.05

typedef struct live_layer {
    const char *form;
    uint32_t neurons, hot; /* of these on a device                                                */
    bool skips;            /* else nobody looked which neurons were zero, and `fired` is not known */
    double fired;          /* mean of the rows of the last steps                                  */
} live_layer;

struct live {
    pthread_mutex_t lock;
    double predicted;
    uint32_t layer_count;
    live_layer *layers; /* [layer_count]                      */
    const hearth_engine *engine;
    hearth_counts *seen, *new_ones; /* [layer_count] up to the last call; since then */
    bool known;                     /* something was computed */
    uint64_t neurons, active;       /* of layers that skip, for each token */
    uint64_t token;
    double bytes_per_token;
    double achieved; /* tokens per second; 0: not known yet                        */
    bool is_alone;   /* a single answer was written during all that time           */
    double since;    /* when the time of the speed began, at `since_token` tokens; */
    uint64_t since_token;
    bool since_alone;
};

/* Where a layer's neurons lie. */
static live_layer place_of(const hearth_engine *e, uint32_t layer)
{
    const engine_layer *l = &e->layers[layer];
    uint32_t neurons = e->model->layers[layer].ffn.neuron_count;
    live_layer out = {.form = layer_form_name(l->form), .neurons = neurons, .skips = l->selector != SELECTOR_ALL};
    if (l->form == FORM_DEVICE)
        out.hot = neurons;
    else if (l->form == FORM_SPLIT)
        out.hot = neurons - l->row_count;
    return out;
}

live *live_create(const hearth_engine *engine, double predicted)
{
    live *l = mem_new(sizeof *l);
    uint32_t count = engine->model->hyper.layer_count;
    if (!l)
        return NULL;
    *l = (live){.predicted = predicted,
                .layer_count = count,
                .layers = mem_new_array(count, sizeof *l->layers),
                .engine = engine,
                .seen = mem_new_array(count, sizeof *l->seen),
                .new_ones = mem_new_array(count, sizeof *l->new_ones),
                .since_alone = true};
    pthread_mutex_init(&l->lock, NULL);
    if (!l->layers || !l->seen || !l->new_ones) {
        live_destroy(l);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        l->layers[i] = place_of(engine, i);
    return l;
}

void live_destroy(live *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->lock);
    mem_free(l->layers);
    mem_free(l->seen);
    mem_free(l->new_ones);
    mem_free(l);
}

/* Measures the speed. A time without an answer does not count. */
static void note_speed(live *l, uint64_t tokens, size_t answers)
{
    double now = clock_seconds(), took = now - l->since;
    l->since_alone &= answers <= 1;
    if (took < SPEED_SECONDS && answers > 0)
        return;
    if (l->since > 0 && tokens > l->since_token && took >= LEAST_SECONDS) {
        l->achieved = (double)(tokens - l->since_token) / took;
        l->is_alone = l->since_alone;
    }
    l->since = answers > 0 ? now : 0;
    l->since_token = tokens;
    l->since_alone = answers <= 1;
}

/* Finds what was counted since the last call; returns whether anything was. */
static bool count_new(live *l, const hearth_session *session)
{
    bool any = false;
    for (uint32_t i = 0; i < l->layer_count; i++) {
        hearth_counts now, *seen = &l->seen[i];
        if (hearth_session_counts(session, i, &now, NULL) != HEARTH_OK)
            return false;
        l->new_ones[i] = (hearth_counts){now.rows - seen->rows, now.computed - seen->computed, now.fired - seen->fired,
                                         now.active - seen->active};
        *seen = now;
        any |= l->new_ones[i].rows > 0;
    }
    return any;
}

/* Takes what was counted of a layer. */
static void add_layer(live *l, live_layer *layer, const hearth_counts *counts)
{
    if (counts->rows == 0)
        return;
    layer->fired = (double)counts->active / (double)counts->rows;
    l->neurons += layer->skips ? counts->rows * layer->neurons : 0;
    l->active += layer->skips ? counts->active : 0;
}

void live_note(live *l, const hearth_session *session, uint64_t tokens, size_t answers)
{
    pthread_mutex_lock(&l->lock);
    note_speed(l, tokens, answers);
    if (count_new(l, session)) {
        for (uint32_t i = 0; i < l->layer_count; i++)
            add_layer(l, &l->layers[i], &l->new_ones[i]);
        l->known = true;
        l->bytes_per_token = engine_token_bytes(l->engine, l->new_ones);
        l->token = tokens;
    }
    pthread_mutex_unlock(&l->lock);
}

void live_totals(live *l, uint64_t *neurons, uint64_t *active)
{
    pthread_mutex_lock(&l->lock);
    *neurons = l->neurons;
    *active = l->active;
    pthread_mutex_unlock(&l->lock);
}

static json_t *layer_json(const live_layer *l, bool known)
{
    json_t *fired = known && l->skips ? json_real(l->fired) : json_null();
    return json_pack("{s:I, s:o, s:s, s:I}", "neurons", (json_int_t)l->neurons, "fired", fired, "form", l->form, "hot",
                     (json_int_t)l->hot);
}

/* A number that is not known is null. */
static json_t *number_json(double number, bool known)
{
    return known ? json_real(number) : json_null();
}

json_t *live_json(live *l)
{
    json_t *layers = json_array();
    bool ok = true;
    pthread_mutex_lock(&l->lock);
    for (uint32_t i = 0; i < l->layer_count; i++)
        ok &= json_array_append_new(layers, layer_json(&l->layers[i], l->known)) == 0;
    json_t *out = json_pack("{s:I, s:o, s:o, s:o, s:o}", "token", (json_int_t)l->token, "bytes_per_token",
                            number_json(l->bytes_per_token, l->known), "predicted_tokens_per_second",
                            number_json(l->predicted, l->predicted > 0 && l->is_alone), "achieved_tokens_per_second",
                            number_json(l->achieved, l->achieved > 0), "layers", layers);
    pthread_mutex_unlock(&l->lock);
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}
