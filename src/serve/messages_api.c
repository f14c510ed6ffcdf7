/* messages_api.c - Anthropic's API: /v1/messages, messages in and blocks out; and how many tokens they have. */
#include "api.h"
#include "blocks.h"

static const field rows[] = {
    GENERATION_TEMPERATURE,
    GENERATION_TOP_P,
    GENERATION_TOP_K,
    GENERATION_TOKENS("max_tokens", 1),
    {FIELD_ROW("stream", BOOL, generation, streams)},
    {FIELD_ROW("stop_sequences", JSON, generation, stops), .types = FIELD_LIST},
};

static const field output_rows[] = {
    {FIELD_ROW("format", JSON, generation, response_format), .types = FIELD_OBJECT},
};

/* Of a talk. */
typedef struct messages {
    blocks blocks; /* first */
    json_t *
        stop; /* the only one of stop_sequences; NULL: there is none, or several, of which it is not known which came */
} messages;

/* ------------------------------------------------------------------ answers */

/* What the kinds of blocks, their pieces and the members with their text are called. */
static const struct name_row {
    const char *type, *delta_type, *member;
} names[BLOCK_KIND_COUNT] = {
    [BLOCK_THOUGHTS] = {"thinking", "thinking_delta", "thinking"},
    [BLOCK_TEXT] = {"text", "text_delta", "text"},
    [BLOCK_CALL] = {"tool_use", "input_json_delta", "partial_json"},
};

/* Returns a block; the text is released (NULL: no memory). Thoughts are signed so that a server need not believe its clients;
 * this one does. */
static json_t *block_json(block_kind kind, json_t *text)
{
    json_t *block = json_pack("{s:s, s:o}", "type", names[kind].type, names[kind].member, text);
    if (kind != BLOCK_THOUGHTS || json_object_set_new(block, "signature", json_string("")) == 0)
        return block;
    json_decref(block);
    return NULL;
}

/* Returns a call as a block; the input is released (NULL: no memory). */
static json_t *call_json(const json_t *call, json_t *input)
{
    return json_pack("{s:s, s:s, s:O, s:o}", "type", names[BLOCK_CALL].type, "id", blocks_call_id(call), "name",
                     blocks_call_name(call), "input", input);
}

/* Returns the arguments of a call as an object. Integers that jansson has no room for become what JavaScript makes of them. */
static json_t *read_input(const json_t *call)
{
    const json_t *text = blocks_call_arguments(call);
    const char *data = json_string_value(text);
    json_t *input = json_loadb(data, json_string_length(text), JSON_ALLOW_NUL, NULL);
    return input ? input : json_loadb(data, json_string_length(text), JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

/* Tokens that were kept from earlier requests are counted apart. */
static json_t *usage(size_t prompt_tokens, size_t reused_tokens, size_t answer_tokens)
{
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens", (json_int_t)(prompt_tokens - reused_tokens),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)reused_tokens,
                     "output_tokens", (json_int_t)answer_tokens);
}

static json_t *final_usage(const talk *t)
{
    return usage(t->prompt_tokens, t->reused_tokens, t->answer_tokens);
}

/* Why answers end; those that were cancelled are errors by then. */
static const char *const stop_reasons[] = {
    [HEARTH_STOP_NONE] = "end_turn",        [HEARTH_STOP_END] = "end_turn",
    [HEARTH_STOP_STRING] = "stop_sequence", [HEARTH_STOP_LENGTH] = "max_tokens",
    [HEARTH_STOP_CANCELLED] = "end_turn",   [HEARTH_STOP_CONTEXT] = "model_context_window_exceeded",
};

static const char *stop_reason(const said *c)
{
    return c->ending.stop == HEARTH_STOP_END && c->call_count > 0 ? "tool_use" : stop_reasons[c->ending.stop];
}

/* Returns the stop string that ended an answer; null: none did, or it is not known. */
static json_t *stop_json(const talk *t, const said *c)
{
    const messages *own = t->own;
    return c->ending.stop == HEARTH_STOP_STRING && own->stop ? json_incref(own->stop) : json_null();
}

/* Returns a message; what is given is released (NULL: no memory). */
static json_t *message_json(const talk *t, json_t *content, json_t *reason, json_t *stop, json_t *used)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", t->id, "type", "message", "role", "assistant",
                     "model", json_text(span_of(t->served->options.name)), "content", content, "stop_reason", reason,
                     "stop_sequence", stop, "usage", used);
}

static bool append_block(json_t *content, block_kind kind, buffer *text)
{
    return text->size == 0 || json_array_append_new(content, block_json(kind, talk_take_text(text))) == 0;
}

static bool append_calls(json_t *content, const json_t *calls)
{
    bool ok = true;
    for (size_t i = 0; i < json_array_size(calls) && ok; i++) {
        const json_t *call = json_array_get(calls, i);
        ok = json_array_append_new(content, call_json(call, read_input(call))) == 0;
    }
    return ok;
}

static json_t *whole(talk *t)
{
    said *c = t->choices;
    json_t *content = json_array();
    if (!conversation_finish(c) || !append_block(content, BLOCK_THOUGHTS, &c->thoughts) ||
        !append_block(content, BLOCK_TEXT, &c->text) || !append_calls(content, c->calls)) {
        json_decref(content);
        return NULL;
    }
    return message_json(t, content, json_string(stop_reason(c)), stop_json(t, c), final_usage(t));
}

/* ------------------------------------------------------------------ streams */

static bool begin(talk *t, buffer *out)
{
    json_t *message = message_json(t, json_array(), json_null(), json_null(), usage(t->job->prompts[0].count, 0, 0));
    return talk_put(t, out, json_pack("{s:s, s:o}", "type", "message_start", "message", message));
}

static json_t *block_index(const talk *t)
{
    const blocks *b = t->own;
    return json_integer((json_int_t)b->count - 1);
}

static bool open_block(talk *t, buffer *out)
{
    const blocks *b = t->own;
    json_t *block = b->open == BLOCK_CALL ? call_json(b->call, json_object()) : block_json(b->open, json_string(""));
    return talk_put(
        t, out,
        json_pack("{s:s, s:o, s:o}", "type", "content_block_start", "index", block_index(t), "content_block", block));
}

static bool say(talk *t, json_t *text, buffer *out)
{
    const blocks *b = t->own;
    const struct name_row *n = &names[b->open];
    return talk_put(t, out,
                    json_pack("{s:s, s:o, s:{s:s, s:o}}", "type", "content_block_delta", "index", block_index(t),
                              "delta", "type", n->delta_type, n->member, text));
}

static bool close_block(talk *t, buffer *out)
{
    return talk_put(t, out, json_pack("{s:s, s:o}", "type", "content_block_stop", "index", block_index(t)));
}

static bool end(talk *t, buffer *out)
{
    const said *c = t->choices;
    json_t *last = json_pack("{s:s, s:{s:s, s:o}, s:o}", "type", "message_delta", "delta", "stop_reason",
                             stop_reason(c), "stop_sequence", stop_json(t, c), "usage", final_usage(t));
    return talk_put(t, out, last) && talk_put(t, out, json_pack("{s:s}", "type", "message_stop"));
}

static json_t *failure(talk *t, const problem *p)
{
    (void)t;
    return problem_json(p, &problem_anthropic);
}

static void drop(void *own)
{
    json_decref(((messages *)own)->stop);
}

static const blocks_api api = {.talk = {.id_prefix = "msg_",
                                        .names_events = true,
                                        .beat = "event: ping\ndata: {\"type\": \"ping\"}",
                                        .own_size = sizeof(messages),
                                        .add = conversation_add,
                                        .whole = whole,
                                        .begin = begin,
                                        .news = blocks_news,
                                        .end = end,
                                        .failure = failure,
                                        .drop = drop},
                               .open = open_block,
                               .say = say,
                               .close = close_block};

/* ------------------------------------------------------------------ requests */

static bool answer(served *m, json_t *body, reply *out, problem *p)
{
    generation g = generation_default(m);
    conversation_fields c;
    if (!fields_read(FIELDS(rows), body, "", &g, p) || !generation_check_stops(g.stops, "stop_sequences", p))
        return false;
    if (!g.most_tokens.given)
        return problem_field(p, "max_tokens", "missing", "max_tokens: is missing");
    if (!messages_read(body, &c, p) ||
        !fields_read(FIELDS(output_rows), json_object_get(body, "output_config"), "output_config.", &g, p) ||
        !generation_read_format(body, "output_config.format", &g, p) ||
        !conversation_answer(m, &api.talk, &c, &g, out, p))
        return false;
    messages *own = out->talk->own;
    if (json_array_size(g.stops) == 1)
        own->stop = json_incref(json_array_get(g.stops, 0));
    return true;
}

static bool count(served *m, json_t *body, reply *out, problem *p)
{
    conversation_fields c;
    int32_t *ids;
    size_t tokens;
    if (!messages_read(body, &c, p) || !conversation_text(m, &c, NULL, NULL, &ids, &tokens, p))
        return false;
    hearth_free(ids);
    reply_json(out, json_pack("{s:I}", "input_tokens", (json_int_t)tokens));
    return true;
}

void messages_answer_request(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, answer);
}

void messages_count_tokens(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, count);
}
