/* talk.c - answers, as a stream or whole. */
#include "talk.h"

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

talk *talk_new(serve *s, const talk_api *api, job *j)
{
    talk *t = mem_new(sizeof *t);
    said *choices = mem_new_array(j->choice_count, sizeof *choices);
    if (!t || !choices) {
        mem_free(t);
        mem_free(choices);
        return NULL;
    }
    *t = (talk){.serve = s,
                .api = api,
                .job = j,
                .created = (int64_t)time(NULL),
                .count = j->choice_count,
                .choices = choices,
                .wants_probabilities = j->wants_probabilities};
    job_share(j);
    snprintf(t->id, sizeof t->id, "%s-%llx-%llx", api->id_prefix, (unsigned long long)s->started,
             (unsigned long long)atomic_fetch_add(&s->ids, 1));
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
        json_decref(t->choices[i].probabilities);
        hearth_detokenizer_destroy(t->choices[i].reader);
    }
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
        hearth_detokenizer_create(&t->speller, t->serve->model, HEARTH_DETOKENIZE_CONTROL | HEARTH_DETOKENIZE_CONTINUE,
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

const char *talk_finish(const said *c)
{
    bool is_cut = c->ending.stop == HEARTH_STOP_LENGTH || c->ending.stop == HEARTH_STOP_CONTEXT;
    return is_cut ? "length" : "stop";
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

static json_t *usage(const talk *t)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)t->prompt_tokens, "completion_tokens",
                     (json_int_t)t->answer_tokens, "total_tokens",
                     (json_int_t)t->prompt_tokens + (json_int_t)t->answer_tokens, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)t->reused_tokens);
}

/* Returns the frame of an answer; choices: a list, released. usage: NULL: none. */
static json_t *frame(const talk *t, const char *object, json_t *choices, json_t *used)
{
    json_t *out =
        json_pack("{s:s, s:s, s:I, s:o, s:o}", "id", t->id, "object", object, "created", (json_int_t)t->created,
                  "model", json_text(span_of(t->serve->options.name)), "choices", choices);
    if (used && json_object_set_new(out, "usage", used) != 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ------------------------------------------------------------------ streams */

/* Appends an event of SSE, and releases its value. */
static bool put_event(buffer *out, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text)
        return false;
    bool ok = buffer_print(out, "data: ") && buffer_put(out, text, strlen(text)) && buffer_put(out, "\n\n", 2);
    free(text);
    return ok;
}

static bool put_piece(talk *t, buffer *out, said *c, bool ends)
{
    json_t *list = json_array(), *piece = t->api->piece(t, c, ends);
    if (!piece || json_array_append_new(list, piece) != 0) {
        json_decref(list);
        return false;
    }
    c->has_begun = true;
    return put_event(out, frame(t, t->api->chunk_object, list, t->wants_usage ? json_null() : NULL));
}

/* Says what is new of a choice. */
static bool put_news(talk *t, buffer *out, said *c, bool *failed)
{
    problem p;
    bool ok = true;
    if (is_failed(c, &p)) {
        *failed = true;
        return put_event(out, problem_json(&p));
    }
    if (c->text.size > 0 || c->thoughts.size > 0 || c->probabilities)
        ok = put_piece(t, out, c, false);
    return ok && (!c->has_ended || put_piece(t, out, c, true));
}

bool talk_stream(talk *t, buffer *out, bool *ended)
{
    bool ok = gather(t, ended), failed = false;
    for (size_t i = 0; ok && i < t->count && !failed; i++)
        if (t->choices[i].has_news) {
            t->choices[i].has_news = false;
            ok = put_news(t, out, &t->choices[i], &failed);
        }
    t->is_complete = *ended;
    *ended |= failed;
    if (ok && *ended && !failed && t->wants_usage)
        ok = put_event(out, frame(t, t->api->chunk_object, json_array(), usage(t)));
    if (ok && *ended && !failed)
        ok = buffer_print(out, "data: [DONE]\n\n");
    return ok;
}

/* ------------------------------------------------------------------ whole answers */

static bool whole(talk *t, reply *out)
{
    json_t *list = json_array();
    problem p;
    for (size_t i = 0; i < t->count; i++) {
        bool failed = is_failed(&t->choices[i], &p);
        if (failed || json_array_append_new(list, t->api->whole(t, &t->choices[i])) != 0) {
            json_decref(list);
            if (failed)
                reply_problem(out, &p);
            else
                reply_json(out, NULL);
            return true;
        }
    }
    out->status = 200;
    reply_json(out, frame(t, t->api->object, list, usage(t)));
    return true;
}

bool talk_collect(talk *t, reply *out)
{
    bool ended;
    if (!gather(t, &ended)) {
        reply_json(out, NULL);
        return true;
    }
    t->is_complete = ended;
    return ended && whole(t, out);
}

bool talk_rest(talk *t, const waiter *w)
{
    return outbox_rest(&t->job->outbox, w, t->streams ? 1 : WHOLE_BYTES);
}
