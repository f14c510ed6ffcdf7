/* conversation.c - what all APIs that answer conversations share: the job, and what a model thinks apart from what it says. */
#include "api.h"

/* ------------------------------------------------------------------ thoughts */

static void on_part(void *user, bool is_thought, span text)
{
    said *c = user;
    if (!buffer_put(is_thought ? &c->thoughts : &c->text, text.data, text.size))
        c->no_memory = true;
}

/* A control token has no text, but may be a mark of reasoning. */
static span spell_control(const talk *t, int32_t token)
{
    span piece = {0};
    if (token >= 0 && (hearth_token_attributes(t->serve->model, token) & HEARTH_TOKEN_CONTROL))
        piece.data = hearth_token_text(t->serve->model, token, &piece.size);
    return piece;
}

bool conversation_add(talk *t, said *c, const event *e)
{
    reasoning_push(&c->reasoning, (span){e->text, e->size}, on_part, c);
    reasoning_push_control(&c->reasoning, spell_control(t, e->token.token), on_part, c);
    return !c->no_memory;
}

/* What was held back as the possible beginning of a mark is text once the answer has ended. */
void conversation_finish(said *c)
{
    if (c->has_ended)
        reasoning_finish(&c->reasoning, on_part, c);
}

/* ------------------------------------------------------------------ requests */

/* Creates the talk of a job; its choices begin where the prompt's reasoning stands. */
static talk *begin(serve *s, const talk_api *api, job *j, span prompt)
{
    talk *t = talk_new(s, api, j);
    for (size_t i = 0; t && i < t->count; i++)
        reasoning_begin(&t->choices[i].reasoning, prompt);
    return t;
}

bool conversation_answer(serve *s, const talk_api *api, const conversation_fields *c, const generation *g, reply *out,
                         problem *p)
{
    size_t choices = generation_choices(s, g, 1, c->name, p), size;
    job *j = choices ? job_new(1, choices) : NULL;
    if (!j)
        return choices ? problem_of(p, NULL, HEARTH_NO_MEMORY, "chat: out of memory") : false;
    j->wants_probabilities = g->wants_probabilities;
    j->candidate_count = g->candidates;
    char *text = NULL;
    generation own = *g;
    bool ok = conversation_text(s, c, &text, &size, &j->prompts[0].ids, &j->prompts[0].count, p);
    talk *t = ok ? begin(s, api, j, (span){text, size}) : NULL;
    own.behind = ok ? reasoning_answer_mark((span){text, size}) : NULL;
    hearth_free(text);
    if (ok && !t)
        ok = problem_of(p, NULL, HEARTH_NO_MEMORY, "chat: out of memory");
    ok = ok && generation_send(s, &own, j, c->name, p);
    job_release(j);
    if (!ok || !t) {
        talk_free(t);
        return false;
    }
    t->streams = g->streams;
    t->wants_usage = g->wants_usage;
    out->talk = t;
    return true;
}
