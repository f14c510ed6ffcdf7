/* completion_api.c - /v1/completions: texts or tokens in, what follows them out; and the probabilities of both. */
#include "api.h"
#include "choices.h"

#include <math.h>

#define MOST_CANDIDATES 20
/* What an answer has where the request does not say, in OpenAI's API. */
#define TOKENS_DEFAULT 16

typedef struct completion_fields {
    json_t *prompt, *other;
    bool echoes;
    field_count candidates;
} completion_fields;

static const field rows[] = {
    {FIELD_ROW("prompt", JSON, completion_fields, prompt), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("echo", BOOL, completion_fields, echoes)},
    {FIELD_ROW("logprobs", MAYBE, completion_fields, candidates), .least = 0, .most = MOST_CANDIDATES},
    {FIELD_ROW("best_of", FIXED, completion_fields, other), .only = "1"},
    {FIELD_ROW("suffix", FIXED, completion_fields, other), .only = "\"\""},
};

/* ------------------------------------------------------------------ answers */

static size_t count_characters(span text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

static json_t *new_probabilities(void)
{
    return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
}

/* Returns the likeliest tokens as {text: probability}; of those with the same text the likeliest. */
static json_t *likeliest(talk *t, const event *e)
{
    json_t *out = json_object();
    for (size_t i = 0; i < e->candidate_count; i++) {
        json_t *text = talk_token_text(t, e->candidates[i].token);
        if (text && !json_object_get(out, json_string_value(text)))
            (void)json_object_set_new(out, json_string_value(text), talk_probability(e->candidates[i].log_probability));
        json_decref(text);
    }
    return out;
}

static bool append(json_t *object, const char *key, json_t *value)
{
    return json_array_append_new(json_object_get(object, key), value) == 0;
}

static bool add_probability(talk *t, said *c, const event *e)
{
    bool is_known = !isnan(e->token.log_probability); /* not of the first token of a prompt */
    if (!c->probabilities)
        c->probabilities = new_probabilities();
    json_t *to = c->probabilities;
    return append(to, "tokens", talk_token_text(t, e->token.token)) &&
           append(to, "token_logprobs", is_known ? talk_probability(e->token.log_probability) : json_null()) &&
           append(to, "top_logprobs", is_known ? likeliest(t, e) : json_null()) &&
           append(to, "text_offset", json_integer((json_int_t)c->characters));
}

/* A token of a prompt that is scored. The echoed text is there already. */
static bool add_prompt(talk *t, said *c, const event *e)
{
    const char *text;
    size_t size;
    if (!t->wants_probabilities)
        return true;
    if (!c->reader && hearth_detokenizer_create(&c->reader, t->served->model, 0, NULL) != HEARTH_OK)
        return false;
    bool ok = add_probability(t, c, e);
    if (hearth_detokenizer_push(c->reader, e->token.token, &text, &size, NULL) == HEARTH_OK)
        c->characters += count_characters((span){text, size});
    return ok;
}

static bool add(talk *t, said *c, const event *e)
{
    if (e->kind == EVENT_PROMPT)
        return add_prompt(t, c, e);
    if (!c->answers)
        c->characters = c->prompt_characters;
    c->answers = true;
    if (t->wants_probabilities && e->token.token >= 0 && !add_probability(t, c, e))
        return false;
    c->characters += count_characters((span){e->text, e->size});
    return buffer_put(&c->text, e->text, e->size);
}

static json_t *pack(talk *t, said *c, json_t *finish)
{
    json_t *probabilities = c->probabilities;
    c->probabilities = NULL;
    if (!t->wants_probabilities)
        probabilities = json_null();
    else if (!probabilities)
        probabilities = new_probabilities();
    return json_pack("{s:i, s:o, s:o, s:o}", "index", (int)c->number, "text", talk_take_text(&c->text), "logprobs",
                     probabilities, "finish_reason", finish);
}

static json_t *whole(talk *t, said *c)
{
    return pack(t, c, json_string(choices_finish(c)));
}

static json_t *piece(talk *t, said *c, bool ends)
{
    return pack(t, c, ends ? json_string(choices_finish(c)) : json_null());
}

static const choices_api api = {.talk = CHOICES_TALK("cmpl-", add),
                                .object = "text_completion",
                                .piece_object = "text_completion",
                                .whole = whole,
                                .piece = piece};

/* ------------------------------------------------------------------ echo */

static bool put_tokens(const served *m, const job_prompt *prompt, buffer *out)
{
    hearth_detokenizer *reader;
    const char *text;
    size_t size;
    if (hearth_detokenizer_create(&reader, m->model, 0, NULL) != HEARTH_OK)
        return false;
    bool ok = true;
    for (size_t i = 0; i < prompt->count && ok; i++)
        ok = hearth_detokenizer_push(reader, prompt->ids[i], &text, &size, NULL) == HEARTH_OK &&
             buffer_put(out, text, size);
    hearth_detokenizer_finish(reader, &text, &size);
    ok = ok && buffer_put(out, text, size);
    hearth_detokenizer_destroy(reader);
    return ok;
}

/* Puts the prompts before their answers: as they were given, or the text of their tokens. */
static bool echo(talk *t, const json_t *prompt)
{
    size_t each = t->count / t->job->prompt_count;
    for (size_t i = 0; i < t->count; i++) {
        said *c = &t->choices[i];
        const json_t *given = prompts_get(prompt, i / each);
        bool ok = json_is_string(given) ? buffer_put(&c->text, json_string_value(given), json_string_length(given))
                                        : put_tokens(t->served, &t->job->prompts[i / each], &c->text);
        if (!ok)
            return false;
        c->prompt_characters = count_characters((span){c->text.data, c->text.size});
    }
    return true;
}

/* ------------------------------------------------------------------ requests */

static bool check(const generation *g, const completion_fields *f, problem *p)
{
    if (!f->prompt)
        return problem_field(p, "prompt", "missing", "prompt: is missing");
    if (json_is_array(f->prompt) && json_array_size(f->prompt) == 0)
        return problem_field(p, "prompt", "invalid_value", "prompt: is empty, there is nothing to continue");
    if (g->most_tokens.value == 0 && !f->echoes)
        return problem_field(p, "max_tokens", "out_of_range", "max_tokens: may be 0 only with \"echo\": true");
    return true;
}

static bool check_probabilities(const generation *g, const job *j, problem *p)
{
    size_t count = 0;
    for (size_t i = 0; i < j->prompt_count && j->scores_prompt && j->wants_probabilities && !g->streams; i++)
        count += j->prompts[i].count * (j->choice_count / j->prompt_count) * (j->candidate_count + 1);
    return count <= JOB_PROBABILITIES ||
           problem_field(
               p, "logprobs", "out_of_range",
               "logprobs: %zu of the prompts' tokens, at most %zu are allowed in one answer; a stream has no limit",
               count, JOB_PROBABILITIES);
}

/* Fills in a job and sends it; *out is its talk. */
static bool send(served *m, const generation *g, const completion_fields *f, job *j, talk **out, problem *p)
{
    j->wants_probabilities = f->candidates.given;
    j->candidate_count = f->candidates.value;
    j->scores_prompt = f->echoes && (f->candidates.given || g->most_tokens.value == 0);
    if (!prompts_read(m, f->prompt, "prompt", j, p) || !prompts_check(m, j, "prompt", p) ||
        !check_probabilities(g, j, p))
        return false;
    *out = talk_new(m, &api.talk, j);
    if (!*out || (f->echoes && !echo(*out, f->prompt)))
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "completion: out of memory");
    (*out)->wants_usage = g->wants_usage;
    return generation_send(m, g, j, "prompt", p);
}

static bool answer(served *m, json_t *body, reply *out, problem *p)
{
    completion_fields f = {0};
    generation g;
    if (!generation_read(m, body, TOKENS_DEFAULT, &g, p) || !fields_read(FIELDS(rows), body, "", &f, p) ||
        !check(&g, &f, p))
        return false;
    size_t prompts = prompts_count(f.prompt), choices = generation_choices(m, &g, prompts, "prompt", p);
    if (choices == 0)
        return false;
    job *j = job_new(prompts, choices);
    talk *t = NULL;
    if (!j)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "completion: out of memory");
    bool ok = send(m, &g, &f, j, &t, p);
    job_release(j);
    if (ok)
        out->talk = t;
    else
        talk_free(t);
    return ok;
}

void completion_answer_request(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, answer);
}
