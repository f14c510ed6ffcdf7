/* responses_api.c - /v1/responses of OpenAI's API in its plain form: text or items in, items out. */
#include "api.h"
#include "blocks.h"

#include <stdio.h>

static const field rows[] = {
    GENERATION_TEMPERATURE,
    GENERATION_TOP_P,
    GENERATION_TOKENS("max_output_tokens", 1),
    {FIELD_ROW("stream", BOOL, generation, streams)},
};

static const field text_rows[] = {
    {FIELD_ROW("format", JSON, generation, response_format), .types = FIELD_OBJECT},
};

/* Of a talk. */
typedef struct response {
    blocks blocks;  /* first                                    */
    json_t *echo;   /* what the request asked for               */
    json_t *output; /* of a stream: the items that have ended   */
    buffer text;    /* of a stream: of the open item, so far    */
    size_t thought_tokens, event_count;
} response;

/* ------------------------------------------------------------------ items */

/* What the kinds of items are called. */
static const struct name_row {
    const char *id_prefix, *part_type, *delta_event, *done_event;
} names[BLOCK_KIND_COUNT] = {
    [BLOCK_THOUGHTS] = {"rs", "reasoning_text", "response.reasoning_text.delta", "response.reasoning_text.done"},
    [BLOCK_TEXT] = {"msg", "output_text", "response.output_text.delta", "response.output_text.done"},
    [BLOCK_CALL] = {"fc", NULL, "response.function_call_arguments.delta", "response.function_call_arguments.done"},
};

/* Returns the id of an item, by its place in the answer. */
static json_t *item_id(const talk *t, block_kind kind, size_t index)
{
    char id[80];
    snprintf(id, sizeof id, "%s_%s-%zu", names[kind].id_prefix, t->id, index);
    return json_string(id);
}

/* Returns the content of an item; the text is released (NULL: no memory). */
static json_t *part_json(block_kind kind, json_t *text)
{
    if (kind == BLOCK_THOUGHTS)
        return json_pack("{s:s, s:o}", "type", names[kind].part_type, "text", text);
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", names[kind].part_type, "text", text, "annotations", "logprobs");
}

/* Returns an item; content: a list, released (NULL: no memory). */
static json_t *item_json(const talk *t, block_kind kind, size_t index, const char *status, json_t *content)
{
    json_t *id = item_id(t, kind, index);
    if (kind == BLOCK_THOUGHTS)
        return json_pack("{s:s, s:o, s:[], s:o, s:s}", "type", "reasoning", "id", id, "summary", "content", content,
                         "status", status);
    return json_pack("{s:s, s:o, s:s, s:o, s:s}", "type", "message", "id", id, "role", "assistant", "content", content,
                     "status", status);
}

/* Returns a call as an item; the arguments are released (NULL: no memory). */
static json_t *call_json(const talk *t, const json_t *call, size_t index, const char *status, json_t *arguments)
{
    return json_pack("{s:s, s:o, s:s, s:O, s:o, s:s}", "type", "function_call", "id", item_id(t, BLOCK_CALL, index),
                     "call_id", blocks_call_id(call), "name", blocks_call_name(call), "arguments", arguments, "status",
                     status);
}

/* Returns how an item ended: only the last one of an answer is cut, with the answer. */
static const char *item_status(const talk *t, bool is_last)
{
    return is_last && talk_is_cut(t->choices) ? "incomplete" : "completed";
}

/* Returns an item that has ended; the text is released. */
static json_t *whole_item(const talk *t, block_kind kind, size_t index, const char *status, json_t *text)
{
    return item_json(t, kind, index, status, json_pack("[o]", part_json(kind, text)));
}

/* ------------------------------------------------------------------ responses */

static json_t *usage(const talk *t)
{
    const response *r = t->own;
    return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)t->prompt_tokens,
                     "input_tokens_details", "cached_tokens", (json_int_t)t->reused_tokens, "cache_write_tokens", 0,
                     "output_tokens", (json_int_t)t->answer_tokens, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)r->thought_tokens, "total_tokens",
                     (json_int_t)t->prompt_tokens + (json_int_t)t->answer_tokens);
}

/* Returns the response; output: a list, released (NULL: no memory). ends: the answer is there. */
static json_t *response_json(const talk *t, bool ends, json_t *output)
{
    const response *r = t->own;
    bool is_cut = ends && talk_is_cut(t->choices);
    json_t *details = is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
    json_t *used = ends ? usage(t) : json_null();
    json_t *out = json_pack("{s:s, s:s, s:I, s:s, s:n, s:o, s:o, s:o, s:o}", "id", t->id, "object", "response",
                            "created_at", (json_int_t)t->created, "status",
                            !ends    ? "in_progress"
                            : is_cut ? "incomplete"
                                     : "completed",
                            "error", "incomplete_details", details, "model",
                            json_text(span_of(t->served->options.name)), "output", output, "usage", used);
    if (out && json_object_update(out, r->echo) == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* A token counts as thought if it begins or ends as one. */
static bool add(talk *t, said *c, const event *e)
{
    response *r = t->own;
    bool thinks = c->reasoning.thinks, ok = conversation_add(t, c, e);
    r->thought_tokens += e->token.token >= 0 && (thinks || c->reasoning.thinks);
    return ok;
}

static bool append_item(const talk *t, json_t *output, block_kind kind, buffer *text, bool is_last)
{
    return text->size == 0 ||
           json_array_append_new(output, whole_item(t, kind, json_array_size(output), item_status(t, is_last),
                                                    talk_take_text(text))) == 0;
}

static bool append_calls(const talk *t, json_t *output, const json_t *calls)
{
    bool ok = true;
    for (size_t i = 0; i < json_array_size(calls) && ok; i++) {
        const json_t *call = json_array_get(calls, i);
        json_t *arguments = json_incref(blocks_call_arguments(call));
        ok = json_array_append_new(output, call_json(t, call, json_array_size(output), "completed", arguments)) == 0;
    }
    return ok;
}

static json_t *whole(talk *t)
{
    said *c = t->choices;
    json_t *output = json_array();
    bool ok = conversation_finish(c), thought_is_last = c->text.size == 0 && !c->calls;
    if (!ok || !append_item(t, output, BLOCK_THOUGHTS, &c->thoughts, thought_is_last) ||
        !append_item(t, output, BLOCK_TEXT, &c->text, !c->calls) || !append_calls(t, output, c->calls)) {
        json_decref(output);
        return NULL;
    }
    return response_json(t, true, output);
}

/* ------------------------------------------------------------------ streams */

/* Appends an event; the members are released (NULL: no memory). */
static bool put(talk *t, buffer *out, const char *type, json_t *members)
{
    response *r = t->own;
    if (json_object_set_new(members, "type", json_string(type)) == 0 &&
        json_object_set_new(members, "sequence_number", json_integer((json_int_t)r->event_count)) == 0) {
        r->event_count++;
        return talk_put(t, out, members);
    }
    json_decref(members);
    return false;
}

static bool put_response(talk *t, buffer *out, const char *type, bool ends, json_t *output)
{
    return put(t, out, type, json_pack("{s:o}", "response", response_json(t, ends, output)));
}

static bool begin(talk *t, buffer *out)
{
    return put_response(t, out, "response.created", false, json_array()) &&
           put_response(t, out, "response.in_progress", false, json_array());
}

/* The place of the open item. */
static size_t place(const talk *t)
{
    const blocks *b = t->own;
    return b->count - 1;
}

/* Appends an event about the open item; the item is released (NULL: no memory). */
static bool put_item(talk *t, buffer *out, const char *type, json_t *item)
{
    return put(t, out, type, json_pack("{s:I, s:o}", "output_index", (json_int_t)place(t), "item", item));
}

/* Appends an event about the content of the open item; the value is released (NULL: no memory). */
static bool put_content(talk *t, buffer *out, const char *type, const char *key, json_t *value)
{
    const blocks *b = t->own;
    bool has_candidates = b->open == BLOCK_TEXT && json_is_string(value);
    json_t *members = json_pack("{s:o, s:I, s:i, s:o}", "item_id", item_id(t, b->open, place(t)), "output_index",
                                (json_int_t)place(t), "content_index", 0, key, value);
    if (has_candidates && json_object_set_new(members, "logprobs", json_array()) != 0) {
        json_decref(members);
        return false;
    }
    return put(t, out, type, members);
}

/* Appends an event about the arguments of the open call; the text is released (NULL: no memory). */
static bool put_arguments(talk *t, buffer *out, const char *type, const char *key, json_t *text)
{
    return put(t, out, type,
               json_pack("{s:o, s:I, s:o}", "item_id", item_id(t, BLOCK_CALL, place(t)), "output_index",
                         (json_int_t)place(t), key, text));
}

static bool open_item(talk *t, buffer *out)
{
    response *r = t->own;
    block_kind kind = r->blocks.open;
    r->text.size = 0;
    if (kind == BLOCK_CALL)
        return put_item(t, out, "response.output_item.added",
                        call_json(t, r->blocks.call, place(t), "in_progress", json_string("")));
    return put_item(t, out, "response.output_item.added", item_json(t, kind, place(t), "in_progress", json_array())) &&
           put_content(t, out, "response.content_part.added", "part", part_json(kind, json_string("")));
}

static bool say(talk *t, json_t *text, buffer *out)
{
    response *r = t->own;
    if (r->blocks.open == BLOCK_CALL)
        return put_arguments(t, out, names[BLOCK_CALL].delta_event, "delta", text);
    bool ok = text && buffer_put(&r->text, json_string_value(text), json_string_length(text));
    ok = ok && put_content(t, out, names[r->blocks.open].delta_event, "delta", json_incref(text));
    json_decref(text);
    return ok;
}

static bool close_call(talk *t, buffer *out)
{
    const response *r = t->own;
    json_t *arguments = blocks_call_arguments(r->blocks.call);
    json_t *item = call_json(t, r->blocks.call, place(t), "completed", json_incref(arguments));
    bool ok = put_arguments(t, out, names[BLOCK_CALL].done_event, "arguments", json_incref(arguments)) &&
              put_item(t, out, "response.output_item.done", json_incref(item)) &&
              json_array_append(r->output, item) == 0;
    json_decref(item);
    return ok;
}

static bool close_item(talk *t, buffer *out)
{
    response *r = t->own;
    block_kind kind = r->blocks.open;
    if (kind == BLOCK_CALL)
        return close_call(t, out);
    json_t *text = json_text((span){r->text.size ? r->text.data : "", r->text.size});
    json_t *item = whole_item(t, kind, place(t), item_status(t, r->blocks.is_last), json_incref(text));
    bool ok = put_content(t, out, names[kind].done_event, "text", json_incref(text)) &&
              put_content(t, out, "response.content_part.done", "part", part_json(kind, json_incref(text))) &&
              put_item(t, out, "response.output_item.done", json_incref(item)) &&
              json_array_append(r->output, item) == 0;
    json_decref(item);
    json_decref(text);
    return ok;
}

static bool end(talk *t, buffer *out)
{
    const response *r = t->own;
    const char *type = talk_is_cut(t->choices) ? "response.incomplete" : "response.completed";
    return put_response(t, out, type, true, json_incref(r->output));
}

static json_t *failure(talk *t, const problem *p)
{
    const response *r = t->own;
    return json_pack("{s:s, s:I, s:s?, s:o, s:n}", "type", "error", "sequence_number", (json_int_t)r->event_count,
                     "code", p->code, "message", json_text(span_of(p->message)), "param");
}

static void drop(void *own)
{
    response *r = own;
    json_decref(r->echo);
    json_decref(r->output);
    buffer_free(&r->text);
}

static const blocks_api api = {.talk = {.id_prefix = "resp_",
                                        .names_events = true,
                                        .own_size = sizeof(response),
                                        .add = add,
                                        .whole = whole,
                                        .begin = begin,
                                        .news = blocks_news,
                                        .end = end,
                                        .failure = failure,
                                        .drop = drop},
                               .open = open_item,
                               .say = say,
                               .close = close_item};

/* ------------------------------------------------------------------ requests */

/* Returns a number as the request has it, else what holds. */
static json_t *number_json(const json_t *body, const char *name, float otherwise)
{
    json_t *value = json_object_get(body, name);
    return json_is_number(value) ? json_incref(value) : json_real((double)otherwise);
}

/* Returns a member of the request; otherwise (released): it is absent. */
static json_t *member_json(const json_t *body, const char *name, json_t *otherwise)
{
    json_t *value = json_object_get(body, name);
    if (!value || json_is_null(value))
        return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

/* Returns the members of a response that say what was asked for. */
static json_t *echo_json(const json_t *body, const conversation_fields *c, const generation *g)
{
    json_t *most = g->most_tokens.given ? json_integer(g->most_tokens.value) : json_null();
    json_t *instructions = json_object_get(body, "instructions");
    json_t *format = g->response_format ? json_incref(g->response_format) : json_pack("{s:s}", "type", "text");
    return json_pack("{s:O?, s:o, s:o, s:o, s:b, s:n, s:o, s:o, s:{s:o}, s:s, s:b, s:{}}", "instructions", instructions,
                     "max_output_tokens", most, "temperature",
                     number_json(body, "temperature", g->sampling.temperature), "top_p",
                     number_json(body, "top_p", g->sampling.top_p), "parallel_tool_calls", c->parallel_calls,
                     "previous_response_id", "tool_choice", member_json(body, "tool_choice", json_string("auto")),
                     "tools", member_json(body, "tools", json_array()), "text", "format", format, "truncation",
                     "disabled", "store", 0, "metadata");
}

/* Sends the conversation; echo and output are the talk's then, or released (NULL: no memory). */
static bool send(served *m, const conversation_fields *c, const generation *g, json_t *echo, json_t *output, reply *out,
                 problem *p)
{
    bool has_memory = echo && output;
    if (has_memory && conversation_answer(m, &api.talk, c, g, out, p)) {
        response *r = out->talk->own;
        r->echo = echo;
        r->output = output;
        return true;
    }
    json_decref(echo);
    json_decref(output);
    return has_memory ? false : problem_of(p, NULL, HEARTH_NO_MEMORY, "responses: out of memory");
}

/* What echo_json takes of the request as it is. */
static bool check_echo(const json_t *body, problem *p)
{
    static const char *const echoed[] = {"tools", "tool_choice", "text"};
    for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++)
        if (!fields_check_size(json_object_get(body, echoed[i]), echoed[i], p))
            return false;
    return true;
}

static bool answer(served *m, json_t *body, reply *out, problem *p)
{
    generation g = generation_default(m);
    conversation_fields c;
    return fields_read(FIELDS(rows), body, "", &g, p) && responses_read(body, &c, p) &&
           fields_read(FIELDS(text_rows), json_object_get(body, "text"), "text.", &g, p) &&
           generation_read_format(body, "text.format", &g, p) && check_echo(body, p) &&
           send(m, &c, &g, echo_json(body, &c, &g), json_array(), out, p);
}

void responses_answer_request(serve *s, span text, reply *out)
{
    reply_to_body(s, text, out, answer);
}
