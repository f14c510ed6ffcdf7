/* conversation.c - what all APIs that answer conversations share: the job, and what a model thinks and which tools it calls
 * apart from what it says. */
#include "api.h"

#include "../base/hash.h"

#include <stdio.h>

/* ------------------------------------------------------------------ thoughts */

static void on_part(void *user, bool is_thought, span text)
{
    said *c = user;
    if (!buffer_put(is_thought ? &c->thoughts : &c->text, text.data, text.size))
        c->no_memory = true;
}

/* A control token has no text, but may be a mark of reasoning, or of a call. */
static span spell_control(const talk *t, int32_t token)
{
    span piece = {0};
    if (token >= 0 && (hearth_token_attributes(t->served->model, token) & HEARTH_TOKEN_CONTROL))
        piece.data = hearth_token_text(t->served->model, token, &piece.size);
    return piece;
}

bool conversation_add(talk *t, said *c, const event *e)
{
    return tool_calls_push(&c->tools, (span){e->text, e->size}) &&
           tool_calls_push_control(&c->tools, spell_control(t, e->token.token)) && !c->no_memory;
}

/* What was held back as the possible beginning of a mark is text once the answer has ended. */
bool conversation_finish(said *c)
{
    if (!c->has_ended)
        return true;
    bool ok = tool_calls_finish(&c->tools);
    reasoning_finish(&c->reasoning, on_part, c);
    return ok && !c->no_memory;
}

/* ------------------------------------------------------------------ calls of tools */

static void on_text(void *user, span text, bool control)
{
    said *c = user;
    (control ? reasoning_push_control : reasoning_push)(&c->reasoning, text, on_part, c);
}

/* Templates of Mistral take ids of nine letters and digits, and no others: six for the answer, three for the call. */
#define ID_SIZE        9
#define ID_CALL_DIGITS 3

static void write_id(char out[ID_SIZE + 1], uint64_t answer, uint64_t call)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    out[ID_SIZE] = '\0';
    for (size_t i = ID_SIZE; i-- > 0;) {
        uint64_t *rest = i < ID_SIZE - ID_CALL_DIGITS ? &answer : &call;
        out[i] = digits[*rest % (sizeof digits - 1)];
        *rest /= sizeof digits - 1;
    }
}

static void on_call(void *user, json_t *function)
{
    said *c = user;
    char id[ID_SIZE + 1];
    reasoning_finish(&c->reasoning, on_part, c); /* what was said before the call */
    write_id(id, c->call_number, c->call_count++);
    if (!c->calls)
        c->calls = json_array();
    json_t *call = json_pack("{s:s, s:s, s:O}", "id", id, "type", "function", "function", function);
    if (json_array_append_new(c->calls, call) != 0)
        c->no_memory = true;
}

const struct tool_convention *conversation_convention(const served *m)
{
    char key[128], *value = NULL;
    span source = {0};
    if (m->options.template_text)
        return tool_convention_find(span_of(m->options.template_text));
    if (!m->options.template_name) {
        source.data = hearth_model_chat_template(m->model, &source.size);
        return tool_convention_find(source);
    }
    /* Another template of the model; those that hearth has show no tools. */
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", m->options.template_name);
    if (hearth_model_value(m->model, key, &value, NULL) != HEARTH_OK)
        return NULL;
    json_t *text = json_loads(value, JSON_DECODE_ANY, NULL);
    if (json_is_string(text))
        source = (span){json_string_value(text), json_string_length(text)};
    const struct tool_convention *found = tool_convention_find(source);
    json_decref(text);
    hearth_free(value);
    return found;
}

/* Has the calls of an answer found. convention: NULL: there are none. */
static void begin_calls(const talk *t, said *c, const struct tool_convention *convention, bool only_one)
{
    static const tool_calls_sink sink = {on_text, on_call};
    hash128 h = hash_begin();
    hash_text(&h, t->id);
    hash_number(&h, c->number);
    c->call_number = h.a;
    c->tools = (tool_calls){.convention = convention,
                            .tools = t->tools,
                            .thinks = &c->reasoning.thinks,
                            .only_one = only_one,
                            .sink = &sink,
                            .user = c};
}

/* ------------------------------------------------------------------ requests */

/* Creates the talk of a job; its choices begin where the prompt's reasoning stands, or in a call that is demanded. */
static talk *begin(served *m, const talk_api *api, job *j, const conversation_fields *f, span prompt,
                   const tool_demand *demand)
{
    talk *t = talk_new(m, api, j);
    const struct tool_convention *convention = json_array_size(f->tools) > 0 ? conversation_convention(m) : NULL;
    if (t)
        t->tools = json_incref(f->tools);
    for (size_t i = 0; t && i < t->count; i++) {
        said *c = &t->choices[i];
        if (!demand->schema)
            reasoning_begin(&c->reasoning, prompt);
        begin_calls(t, c, convention, !f->parallel_calls);
        if (demand->open.size > 0)
            c->no_memory = !tool_calls_push_control(&c->tools, (span){demand->open.data, demand->open.size});
    }
    return t;
}

bool conversation_answer(served *m, const talk_api *api, const conversation_fields *c, const generation *g, reply *out,
                         problem *p)
{
    if (!fields_check_size(c->tools, "tools", p))
        return false;
    if (c->demands_call && g->format.param[0])
        return problem_field(p, "tool_choice", "invalid_value", "tool_choice: demands a call, and %s another answer",
                             g->format.param);
    size_t choices = generation_choices(m, g, 1, c->name, p), size;
    job *j = choices ? job_new(1, choices) : NULL;
    if (!j)
        return choices ? problem_of(p, NULL, HEARTH_NO_MEMORY, "chat: out of memory") : false;
    j->wants_probabilities = g->wants_probabilities;
    j->candidate_count = g->candidates;
    char *text = NULL;
    generation own = *g;
    tool_demand demand = {0};
    bool ok = conversation_text(m, c, &text, &size, &j->prompts[0].ids, &j->prompts[0].count, p) &&
              (!c->demands_call || tool_choice_demand(m, c, (span){text, size}, &j->prompts[0], &demand, p));
    talk *t = ok ? begin(m, api, j, c, (span){text, size}, &demand) : NULL;
    if (ok && demand.schema)
        own.format = format_of_schema(demand.schema, "tool_choice");
    else if (ok)
        own.behind = reasoning_answer_mark((span){text, size});
    hearth_free(text);
    if (ok && !t)
        ok = problem_of(p, NULL, HEARTH_NO_MEMORY, "chat: out of memory");
    ok = ok && generation_send(m, &own, j, c->name, p);
    tool_demand_free(&demand);
    job_release(j);
    if (!ok || !t) {
        talk_free(t);
        return false;
    }
    t->wants_usage = g->wants_usage;
    out->talk = t;
    return true;
}
