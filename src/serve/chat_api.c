/* chat_api.c - /v1/chat/completions: messages in, a message out. */
#include "api.h"
#include "choices.h"

#include <string.h>

#define MOST_CANDIDATES 20

typedef struct chat_fields {
    bool wants_probabilities;
    uint32_t candidates;
    json_t *audio;
} chat_fields;

static const field rows[] = {
    {FIELD_ROW("logprobs", BOOL, chat_fields, wants_probabilities)},
    {FIELD_ROW("top_logprobs", COUNT, chat_fields, candidates), .least = 0, .most = MOST_CANDIDATES},
    {FIELD_ROW("audio", FIXED, chat_fields, audio)},
    {FIELD_ROW("functions", FIXED, chat_fields, audio), .only = "[]"},
};

/* ------------------------------------------------------------------ answers */

/* Returns the bytes of a text as a list of numbers; null where the text stands for bytes that are no character. */
static json_t *bytes_of(const json_t *text)
{
    const char *data = json_string_value(text);
    json_t *list = json_array();
    if (!data || strstr(data, "\xef\xbf\xbd")) {
        json_decref(list);
        return json_null();
    }
    for (size_t i = 0; i < json_string_length(text); i++)
        (void)json_array_append_new(list, json_integer((unsigned char)data[i]));
    return list;
}

static json_t *candidate_json(talk *t, const candidate *c)
{
    json_t *text = talk_token_text(t, c->token);
    json_t *bytes = bytes_of(text);
    return json_pack("{s:o, s:o, s:o}", "token", text, "logprob", talk_probability(c->log_probability), "bytes", bytes);
}

static bool add_probability(talk *t, said *c, const event *e)
{
    json_t *top = json_array(), *entry = candidate_json(t, &e->token);
    bool ok = top && entry;
    for (size_t i = 0; i < e->candidate_count && ok; i++)
        ok = json_array_append_new(top, candidate_json(t, &e->candidates[i])) == 0;
    ok = json_object_set_new(entry, "top_logprobs", top) == 0 && ok;
    if (!c->probabilities)
        c->probabilities = json_array();
    return json_array_append_new(c->probabilities, entry) == 0 && ok;
}

static bool add(talk *t, said *c, const event *e)
{
    if (!conversation_add(t, c, e))
        return false;
    return !t->wants_probabilities || e->token.token < 0 || add_probability(t, c, e);
}

static json_t *take_probabilities(const talk *t, said *c)
{
    json_t *list = c->probabilities;
    c->probabilities = NULL;
    if (!t->wants_probabilities)
        return json_null();
    return json_pack("{s:o, s:n}", "content", list ? list : json_array(), "refusal");
}

/* Returns the text; an answer that has calls alone has none. */
static json_t *take_content(said *c)
{
    return c->text.size == 0 && c->calls ? json_null() : talk_take_text(&c->text);
}

/* Adds the calls that were gathered to a message. false: no memory. */
static bool put_calls(said *c, json_t *message)
{
    json_t *calls = c->calls;
    c->calls = NULL;
    return !calls || json_object_set_new(message, "tool_calls", calls) == 0;
}

static json_t *whole(talk *t, said *c)
{
    if (!conversation_finish(c))
        return NULL;
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", take_content(c));
    bool ok = message && put_calls(c, message);
    if (c->thoughts.size > 0)
        ok = ok && json_object_set_new(message, "reasoning_content", talk_take_text(&c->thoughts)) == 0;
    if (!ok) {
        json_decref(message);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:o, s:s}", "index", (int)c->number, "message", message, "logprobs",
                     take_probabilities(t, c), "finish_reason", choices_finish(c));
}

/* Numbers the calls that were gathered: pieces of a stream say which call they belong to. false: no memory. */
static bool number_calls(said *c)
{
    size_t count = json_array_size(c->calls);
    json_int_t first = (json_int_t)c->call_count - (json_int_t)count;
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        json_t *index = json_integer(first + (json_int_t)i);
        ok = json_object_set_new(json_array_get(c->calls, i), "index", index) == 0;
    }
    return ok;
}

static json_t *piece(talk *t, said *c, bool ends)
{
    json_t *delta = json_object();
    bool ok = delta;
    if (!c->has_begun)
        ok = ok && json_object_set_new(delta, "role", json_string("assistant")) == 0;
    if (c->thoughts.size > 0)
        ok = ok && json_object_set_new(delta, "reasoning_content", talk_take_text(&c->thoughts)) == 0;
    if (c->text.size > 0 || !c->has_begun)
        ok = ok && json_object_set_new(delta, "content", take_content(c)) == 0;
    ok = ok && number_calls(c) && put_calls(c, delta);
    if (!ok) {
        json_decref(delta);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:o, s:o}", "index", (int)c->number, "delta", delta, "logprobs",
                     take_probabilities(t, c), "finish_reason", ends ? json_string(choices_finish(c)) : json_null());
}

static const choices_api api = {.talk = CHOICES_TALK("chatcmpl-", add),
                                .object = "chat.completion",
                                .piece_object = "chat.completion.chunk",
                                .whole = whole,
                                .piece = piece};

/* ------------------------------------------------------------------ requests */

static bool answer(served *m, json_t *body, reply *out, problem *p)
{
    chat_fields f = {0};
    conversation_fields c;
    generation g;
    if (!generation_read(m, body, 0, &g, p) || !fields_read(FIELDS(rows), body, "", &f, p))
        return false;
    if (g.most_tokens.given && g.most_tokens.value == 0)
        return problem_field(p, "max_tokens", "out_of_range", "max_tokens: must be at least 1");
    if (f.candidates > 0 && !f.wants_probabilities)
        return problem_field(p, "top_logprobs", "invalid_value", "top_logprobs: needs \"logprobs\": true");
    if (!conversation_read(body, &c, p))
        return false;
    g.wants_probabilities = f.wants_probabilities;
    g.candidates = f.candidates;
    return conversation_answer(m, &api.talk, &c, &g, out, p);
}

void chat_answer_request(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, answer);
}
