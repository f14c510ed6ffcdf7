/* timing.c - see timing.h. */
#include "timing.h"

#include "../base/clock.h"
#include "../base/median.h"
#include "../engine/engine.h"

#include <math.h>
#include <string.h>

/* A token whose middle time is above the best by more than this share was disturbed. */
#define SCATTER 0.25
/* After this time fewer tokens suffice: of slow models, whose times scatter little. */
#define ENOUGH_SECONDS 3.0
#define LEAST_TOKENS   2

hearth_status timing_open(timing *t, const hearth_model *model, uint32_t total, hearth_progress progress,
                          hearth_error *error)
{
    uint32_t n = model->hyper.layer_count, vocabulary = model->hyper.vocabulary_size;
    *t = (timing){.model = model, .progress = progress, .layers = n, .total = total};
    t->seconds = mem_new_array(n, TIMING_SPANS * TIMING_TOKENS * sizeof *t->seconds);
    t->begins = mem_new_array(n, sizeof *t->begins);
    t->logits = mem_new_array(vocabulary, sizeof *t->logits);
    hearth_status status = t->seconds && t->begins && t->logits
                               ? hearth_sampler_create(&t->sampler, NULL, vocabulary, error)
                               : fail_memory(error, "plan", vocabulary * sizeof *t->logits);
    if (status != HEARTH_OK)
        timing_close(t);
    return status;
}

void timing_close(timing *t)
{
    hearth_sampler_destroy(t->sampler);
    mem_free(t->seconds);
    mem_free(t->begins);
    mem_free(t->logits);
    *t = (timing){0};
}

/* ------------------------------------------------------------------ spans */

static double *samples(const timing *t, uint32_t layer, timing_span which)
{
    return t->seconds + ((size_t)layer * TIMING_SPANS + which) * TIMING_TOKENS;
}

/* Tracer: takes the spans of a token. */
static void see_span(void *user, const hearth_span *s)
{
    timing *t = user;
    bool cpu = strcmp(s->side, "cpu") == 0;
    double seconds = s->end - s->begin;
    if (!t->counts)
        return;
    if (strcmp(s->what, "attention") == 0) {
        samples(t, s->layer, cpu ? SPAN_CPU_MIXER : SPAN_DEVICE_MIXER)[t->count] = seconds;
        t->begins[s->layer] = s->begin;
    } else if (strcmp(s->what, "neurons") == 0) {
        samples(t, s->layer, cpu ? SPAN_CPU_NEURONS : SPAN_DEVICE_NEURONS)[t->count] = seconds;
    } else if (strcmp(s->what, "join") == 0) {
        samples(t, s->layer, SPAN_WHOLE)[t->count] = s->end - t->begins[s->layer];
    }
}

static double middle(const double *values, uint32_t count)
{
    double sorted[TIMING_TOKENS];
    memcpy(sorted, values, count * sizeof *sorted);
    return count > 0 ? median(sorted, count) : 0;
}

double timing_layer(const timing *t, uint32_t layer, timing_span which)
{
    return middle(samples(t, layer, which), t->count);
}

double timing_feed(const timing *t)
{
    return middle(t->feed, t->count);
}

double timing_head(const timing *t)
{
    return middle(t->head, t->count);
}

double timing_layers(const timing *t)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->layers; i++) {
        double whole = timing_layer(t, i, SPAN_WHOLE);
        sum += whole > 0 ? whole : timing_layer(t, i, SPAN_CPU_MIXER) + timing_layer(t, i, SPAN_CPU_NEURONS);
    }
    return sum;
}

bool timing_is_steady(const timing *t)
{
    double best = INFINITY;
    for (uint32_t i = 0; i < t->count; i++)
        best = fmin(best, t->feed[i]);
    return t->count == 0 || timing_feed(t) <= best * (1 + SCATTER);
}

double timing_terms(const timing *t, const hearth_engine *engine, double token, double terms[COST_TERMS])
{
    double sum = 0;
    memset(terms, 0, COST_TERMS * sizeof *terms);
    for (uint32_t i = 0; i < t->layers; i++) {
        double cpu = timing_layer(t, i, SPAN_CPU_NEURONS), on_device = timing_layer(t, i, SPAN_DEVICE_NEURONS);
        bool host = engine->layers[i].form == FORM_HOST;
        terms[host ? COST_CPU_MIXERS : COST_DEVICE_MIXERS] +=
            timing_layer(t, i, host ? SPAN_CPU_MIXER : SPAN_DEVICE_MIXER);
        terms[cpu > on_device ? COST_CPU_NEURONS : COST_DEVICE_NEURONS] += fmax(cpu, on_device);
    }
    terms[COST_HEAD] = timing_head(t);
    terms[COST_REST] = token;
    for (int k = 0; k < COST_TERMS; k++)
        sum += terms[k];
    double whole = timing_feed(t) + timing_head(t);
    terms[COST_EXCHANGE] = fmax(0, whole - sum); /* and what is on neither side: starting, changing sides, waiting */
    return whole;
}

/* ------------------------------------------------------------------ a few tokens */

static hearth_status goes_on(const timing *t, hearth_error *error)
{
    const hearth_progress *p = &t->progress;
    if (!p->report || p->report(p->user, "timing layers", t->done, t->total > t->done ? t->total : t->done + 1))
        return HEARTH_OK;
    return fail(error, HEARTH_CANCELLED, "plan: cancelled");
}

static hearth_status feed_tokens(timing *t, hearth_session *session, hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(t->model, &info);
    int32_t token = info.bos > 0 ? info.bos : 0;
    uint32_t room = hearth_session_context(session);
    t->count = 0;
    hearth_sampler_reset(t->sampler);
    memset(t->seconds, 0, (size_t)t->layers * TIMING_SPANS * TIMING_TOKENS * sizeof *t->seconds);
    double start = clock_seconds();
    for (uint32_t i = 0; i <= TIMING_TOKENS && i < room; i++) {
        TRY(goes_on(t, error));
        if (i > LEAST_TOKENS && clock_seconds() - start > ENOUGH_SECONDS)
            break;
        t->counts = i > 0;
        double begin = clock_seconds();
        TRY(hearth_session_feed(session, &(hearth_row){token, 0, true}, 1, error));
        double between = clock_seconds();
        TRY(hearth_session_logits(session, 0, 1, t->logits, error));
        double end = clock_seconds();
        token = hearth_sampler_pick(t->sampler, t->logits);
        if (t->counts) {
            t->feed[t->count] = between - begin;
            t->head[t->count++] = end - between;
        }
    }
    t->done++;
    return HEARTH_OK;
}

hearth_status timing_run(timing *t, const hearth_engine *engine, hearth_error *error)
{
    hearth_session *session;
    uint32_t most = t->model->hyper.context_length, wanted = TIMING_TOKENS + 1;
    hearth_session_options options = {.context = most < wanted ? most : wanted, .batch = 1, .tracer = {see_span, t}};
    TRY(hearth_session_create(&session, engine, &options, error));
    hearth_status status = feed_tokens(t, session, error);
    hearth_session_destroy(session);
    return status;
}
