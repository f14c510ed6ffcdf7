/* fuzz_tool_calls.c - the source of a template, and behind a zero byte what a model answers: control tokens stand between
 * \1 and \2.
 *
 * Covers: src/chat/tool_calls.c
 * Covers: src/chat/tool_bodies.c
 * Covers: src/chat/tool_conventions.c
 *
 * Whatever they are: no fault, nothing left behind, also where memory ends; the same events however the answer is cut; no
 * byte lost where there is no call, and arguments that are an object. */
#include "../src/base/memory.h"
#include "../src/chat/tool_calls.h"

#include <stdlib.h>
#include <string.h>

enum { FAILURES = 61 /* allocations before the one that fails */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, "
    "\"i\": {\"type\": [\"integer\", \"null\"]}, \"b\": {\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"array\"}]}, "
    "\"a\": {}}}}}]";

static void need(bool ok)
{
    if (!ok)
        abort();
}

static void on_text(void *user, span text, bool control)
{
    (void)control;
    need(text.size > 0 && buffer_put(user, text.data, text.size));
}

static void on_call(void *user, json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *arguments = json_object_get(function, "arguments");
    json_t *object = json_loadb(json_string_value(arguments), json_string_length(arguments),
                                JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    need(name && json_is_object(object) && buffer_put(user, name, strlen(name)));
    need(buffer_put(user, json_string_value(arguments), json_string_length(arguments)));
    json_decref(object);
}

/* Pushes an answer in pieces of at most `most` bytes. all: gets the bytes that are pushed; NULL: nothing does. */
static bool push(tool_calls *t, span answer, size_t most, buffer *all)
{
    bool control = false, ok = true;
    for (size_t i = 0, end; ok && i < answer.size; i = end) {
        end = i + 1;
        if (answer.data[i] == '\1' || answer.data[i] == '\2') {
            control = answer.data[i] == '\1';
            continue;
        }
        while (end < answer.size && end - i < most && answer.data[end] != '\1' && answer.data[end] != '\2')
            end++;
        span piece = {answer.data + i, end - i};
        need(!all || buffer_put(all, piece.data, piece.size));
        ok = control ? tool_calls_push_control(t, piece) : tool_calls_push(t, piece);
    }
    return ok && tool_calls_finish(t);
}

/* Appends the events of an answer. Returns whether it has calls. */
static bool read(span source, span answer, const json_t *tools, size_t most, buffer *events, buffer *all)
{
    static const tool_calls_sink sink = {on_text, on_call};
    tool_calls t = {.convention = tool_convention_find(source), .tools = tools, .sink = &sink, .user = events};
    need(!t.convention || tool_convention_name(t.convention)[0]);
    need(push(&t, answer, most, all));
    tool_calls_free(&t);
    return t.has_calls;
}

static void on_text_dropped(void *user, span text, bool control)
{
    (void)user;
    (void)text;
    (void)control;
}

static void on_call_dropped(void *user, json_t *function)
{
    (void)user;
    (void)function;
}

static void read_without_memory(span source, span answer, const json_t *tools, long n)
{
    static const tool_calls_sink sink = {on_text_dropped, on_call_dropped};
    tool_calls t = {.convention = tool_convention_find(source), .tools = tools, .sink = &sink};
    mem_fail_at(n);
    (void)push(&t, answer, answer.size, NULL);
    mem_fail_at(-1);
    tool_calls_free(&t);
}

static bool is_same(const buffer *a, const buffer *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    span source = {(const char *)data, end ? (size_t)(end - data) : size};
    span answer = {end ? (const char *)end + 1 : NULL, end ? size - source.size - 1 : 0};
    buffer whole = {0}, cut = {0}, all = {0};
    json_t *tools = json_loads(tools_text, 0, NULL);
    bool has_calls = read(source, answer, tools, answer.size, &whole, &all);
    need(read(source, answer, tools, 1, &cut, NULL) == has_calls && is_same(&whole, &cut));
    need(has_calls || is_same(&whole, &all));
    read_without_memory(source, answer, tools, (long)(size % FAILURES));
    json_decref(tools);
    buffer_free(&whole);
    buffer_free(&cut);
    buffer_free(&all);
    need(mem_live() == 0);
    return 0;
}
