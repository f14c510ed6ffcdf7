/* talk.c - answers, as a stream or whole. */
#include "talk.h"

#include "../base/clock.h"
#include "../base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A stream is woken by anything; a whole answer when this much waits, or at its end. */
#define WHOLE_BYTES (JOB_OUTBOX_BYTES / 4)
/* What stands for the logarithm of 0 in OpenAI's API. */
#define LEAST_LOGARITHM (-9999.0)

/* ------------------------------------------------------------------ life */

talk *talk_new(served *m, const talk_api *api, job *j)
{
    talk *t = mem_new(sizeof *t);
    said *choices = mem_new_array(j->choice_count, sizeof *choices);
    void *own = mem_new(api->own_size ? api->own_size : 1);
    if (!t || !choices || !own) {
        mem_free(t);
        mem_free(choices);
        mem_free(own);
        return NULL;
    }
    *t = (talk){.served = m,
                .api = api,
                .own = own,
                .job = j,
                .created = (int64_t)time(NULL),
                .wrote = clock_seconds(),
                .count = j->choice_count,
                .choices = choices,
                .wants_probabilities = j->wants_probabilities};
    job_share(j);
    snprintf(t->id, sizeof t->id, "%s%llx-%llx", api->id_prefix, (unsigned long long)m->serve->started,
             (unsigned long long)atomic_fetch_add(&m->serve->ids, 1));
    for (size_t i = 0; i < t->count; i++) {
        choices[i].number = (uint32_t)i;
        choices[i].ending.stop = HEARTH_STOP_NONE;
    }
    return t;
}

void talk_free(talk *t)
{
    if (!t)
        return;
    atomic_store(&t->job->socket, -1);
    if (t->job->driver && !t->is_complete)
        driver_cancel(t->job->driver, t->job);
    job_release(t->job);
    for (size_t i = 0; i < t->count; i++) {
        buffer_free(&t->choices[i].text);
        buffer_free(&t->choices[i].thoughts);
        tool_calls_free(&t->choices[i].tools);
        json_decref(t->choices[i].calls);
        json_decref(t->choices[i].probabilities);
        hearth_detokenizer_destroy(t->choices[i].reader);
    }
    json_decref(t->tools);
    if (t->api->drop)
        t->api->drop(t->own);
    mem_free(t->own);
    mem_free(t->choices);
    hearth_detokenizer_destroy(t->speller);
    mem_free(t);
}

/* ------------------------------------------------------------------ small values */

json_t *talk_token_text(talk *t, int32_t token)
{
    const char *text = "", *rest = "";
    size_t size = 0, rest_size = 0;
    char piece[512];
    if (!t->speller &&
        hearth_detokenizer_create(&t->speller, t->served->model, HEARTH_DETOKENIZE_CONTROL | HEARTH_DETOKENIZE_CONTINUE,
                                  NULL) != HEARTH_OK)
        return NULL;
    (void)hearth_detokenizer_push(t->speller, token, &text, &size, NULL);
    size = size < sizeof piece ? size : sizeof piece;
    memcpy(piece, text, size);
    hearth_detokenizer_finish(t->speller, &rest, &rest_size); /* half a character comes out as U+FFFD */
    rest_size = rest_size < sizeof piece - size ? rest_size : sizeof piece - size;
    memcpy(piece + size, rest, rest_size);
    return json_text((span){piece, size + rest_size});
}

json_t *talk_probability(double log_probability)
{
    return json_real(log_probability > LEAST_LOGARITHM ? log_probability : LEAST_LOGARITHM);
}

bool talk_is_cut(const said *c)
{
    return c->ending.stop == HEARTH_STOP_LENGTH || c->ending.stop == HEARTH_STOP_CONTEXT;
}

json_t *talk_take_text(buffer *b)
{
    json_t *text = json_text((span){b->size ? b->data : "", b->size});
    b->size = 0;
    return text;
}

/* ------------------------------------------------------------------ events */

/* Takes all events. false: no memory. */
static bool gather(talk *t, bool *ended)
{
    event *all = outbox_take(&t->job->outbox, ended);
    bool ok = true;
    for (const event *e = all; e && ok; e = e->next) {
        if (e->kind == EVENT_BEAT) {
            t->has_beat = true;
            continue;
        }
        said *c = &t->choices[e->choice];
        c->has_news = true;
        if (e->kind != EVENT_END) {
            ok = t->api->add(t, c, e);
            continue;
        }
        c->has_ended = true;
        c->ending = *e->ending;
        t->answer_tokens += e->ending->answer_tokens;
        if (e->choice % (t->count / t->job->prompt_count) == 0) { /* several answers share a prompt */
            t->prompt_tokens += e->ending->prompt_tokens;
            t->reused_tokens += e->ending->reused_tokens;
        }
    }
    event_free(all);
    return ok;
}

/* Says what ended a choice that failed. */
static bool is_failed(const said *c, problem *p)
{
    if (!c->has_ended || (c->ending.status == HEARTH_OK && c->ending.stop != HEARTH_STOP_CANCELLED))
        return false;
    if (c->ending.status == HEARTH_OK)
        (void)problem_of(p, NULL, HEARTH_CANCELLED, "the answer was cancelled");
    else
        (void)problem_of(p, NULL, c->ending.status, c->ending.error);
    p->code = c->ending.code ? c->ending.code : p->code;
    return true;
}

/* ------------------------------------------------------------------ streams */

/* Appends the line that names an event. */
static bool put_name(buffer *out, const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type && buffer_print(out, "event: %s\n", type);
}

bool talk_put(const talk *t, buffer *out, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    bool ok = text && (!t->api->names_events || put_name(out, value));
    json_decref(value);
    ok = ok && buffer_print(out, "data: ") && buffer_put(out, text, strlen(text)) && buffer_put(out, "\n\n", 2);
    free(text);
    return ok;
}

/* Says what is new of a choice. */
static bool put_news(talk *t, buffer *out, said *c, bool *failed)
{
    problem p;
    if (!is_failed(c, &p))
        return t->api->news(t, c, out);
    *failed = true;
    return talk_put(t, out, t->api->failure(t, &p));
}

/* Says that the answer is worked on, where nothing of it could be said for long: it waits for a place, or a call of a tool is
 * written, which is said when it is complete. */
static bool put_beat(talk *t, buffer *out, size_t before)
{
    double now = clock_seconds(), beat = t->served->serve->options.beat;
    bool is_silent = out->size == before, is_due = t->has_beat || (beat > 0 && now - t->wrote >= beat);
    t->has_beat = false;
    if (is_silent && !is_due)
        return true;
    t->wrote = now;
    return !is_silent || buffer_print(out, "%s\n\n", t->api->beat ? t->api->beat : ": waiting");
}

bool talk_stream(talk *t, buffer *out, bool *ended)
{
    size_t before = out->size;
    bool ok = t->has_begun || !t->api->begin || t->api->begin(t, out), failed = false;
    t->has_begun = true;
    ok = gather(t, ended) && ok;
    for (size_t i = 0; ok && i < t->count && !failed; i++)
        if (t->choices[i].has_news) {
            t->choices[i].has_news = false;
            ok = put_news(t, out, &t->choices[i], &failed);
        }
    t->is_complete = *ended;
    *ended |= failed;
    if (ok && !*ended)
        ok = put_beat(t, out, before);
    return ok && (!*ended || failed || t->api->end(t, out));
}

/* ------------------------------------------------------------------ whole answers */

bool talk_collect(talk *t, reply *out)
{
    problem p;
    bool ended;
    if (!gather(t, &ended)) {
        reply_json(out, NULL);
        return true;
    }
    t->is_complete = ended;
    for (size_t i = 0; ended && i < t->count; i++)
        if (is_failed(&t->choices[i], &p)) {
            reply_problem(out, &p);
            return true;
        }
    if (ended) {
        out->status = 200;
        reply_json(out, t->api->whole(t));
    }
    return ended;
}

bool talk_rest(talk *t, const waiter *w)
{
    return outbox_rest(&t->job->outbox, w, t->job->streams ? 1 : WHOLE_BYTES);
}
