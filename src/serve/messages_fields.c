/* messages_fields.c - requests of Anthropic's API, made such as templates take them.
 *
 * Templates were written for messages as OpenAI has them: the system's comes first, a call of a tool belongs to the message
 * of the assistant, its result is a message of its own, and thoughts are `reasoning_content`. */
#include "api.h"

#include <stdio.h>
#include <string.h>

static const char *const text_types[] = {"text", NULL};

typedef struct request_fields {
    span model;
    json_t *messages, *system, *tools, *choice, *thinking, *variables, *output, *thread, *other;
} request_fields;

static const field rows[] = {
    {FIELD_ROW("model", TEXT, request_fields, model)},
    {FIELD_ROW("messages", JSON, request_fields, messages), .types = FIELD_LIST},
    {FIELD_ROW("system", JSON, request_fields, system), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("tools", JSON, request_fields, tools), .types = FIELD_LIST},
    {FIELD_ROW("tool_choice", JSON, request_fields, choice), .types = FIELD_OBJECT},
    {FIELD_ROW("thinking", JSON, request_fields, thinking), .types = FIELD_OBJECT},
    {FIELD_ROW("chat_template_kwargs", JSON, request_fields, variables), .types = FIELD_OBJECT},
    {FIELD_ROW("output_config", JSON, request_fields, output), .types = FIELD_OBJECT},
    {FIELD_ROW("thread", JSON, request_fields, thread), .types = FIELD_OBJECT},
    {FIELD_ROW("output_format", FIXED, request_fields, other)},
    {FIELD_ROW("compaction", FIXED, request_fields, other)},
    {FIELD_ROW("mcp_servers", FIXED, request_fields, other), .only = "[]"},
    {FIELD_ROW("container", FIXED, request_fields, other)},
};

/* What is sent to the template: messages that follow one another with one role are one there. */
typedef struct turn {
    json_t *out; /* a list: the messages so far */
    span role;   /* of the present one          */
    buffer text, thoughts;
    json_t *calls; /* a list; NULL: none                       */
    bool is_open;  /* a message is still to be made of these */
} turn;

static bool no_memory(problem *p)
{
    return problem_of(p, NULL, HEARTH_NO_MEMORY, "messages: out of memory");
}

/* ------------------------------------------------------------------ messages */

/* Ends the present message, if there is one. */
static bool put_message(turn *t, problem *p)
{
    if (!t->is_open)
        return true;
    json_t *message = json_pack("{s:o, s:o}", "role", json_text(t->role), "content", talk_take_text(&t->text));
    bool ok = message != NULL;
    if (t->thoughts.size > 0)
        ok = json_object_set_new(message, "reasoning_content", talk_take_text(&t->thoughts)) == 0 && ok;
    if (t->calls)
        ok = json_object_set_new(message, "tool_calls", t->calls) == 0 && ok;
    t->calls = NULL;
    t->is_open = false;
    if (!ok || json_array_append(t->out, message) != 0)
        ok = no_memory(p);
    json_decref(message);
    return ok;
}

/* Begins a message, or goes on with one of the same role. */
static bool begin_message(turn *t, span role, problem *p)
{
    if (span_equal(t->role, role))
        return t->text.size == 0 || buffer_put(&t->text, "\n", 1) || no_memory(p);
    if (!put_message(t, p))
        return false;
    t->role = role;
    t->is_open = true;
    return true;
}

static bool put_text(turn *t, span text, problem *p)
{
    t->is_open |= text.size > 0;
    return buffer_put(&t->text, text.data, text.size) || no_memory(p);
}

typedef struct text_fields {
    span text;
} text_fields;

static const field text_rows[] = {
    {FIELD_ROW("text", TEXT, text_fields, text)},
};

static const field thought_rows[] = {
    {FIELD_ROW("thinking", TEXT, text_fields, text)},
};

/* Refuses a member that has to be there. */
static bool missing(const char *path, const char *member, problem *p)
{
    char name[96];
    snprintf(name, sizeof name, "%.70s%.20s", path, member);
    return problem_field(p, name, "missing", "%s: is missing", name);
}

static bool read_text(turn *t, const json_t *block, const char *path, problem *p)
{
    text_fields f = {0};
    if (!fields_read(FIELDS(text_rows), block, path, &f, p))
        return false;
    if (!f.text.data)
        return missing(path, "text", p);
    return put_text(t, f.text, p);
}

static bool read_thoughts(turn *t, const json_t *block, const char *path, problem *p)
{
    text_fields f = {0};
    if (!fields_read(FIELDS(thought_rows), block, path, &f, p))
        return false;
    if (!f.text.data)
        return missing(path, "thinking", p);
    return buffer_put(&t->thoughts, f.text.data, f.text.size) || no_memory(p);
}

/* Thoughts that only Anthropic's own servers can read. */
static bool read_nothing(turn *t, const json_t *block, const char *path, problem *p)
{
    (void)t;
    (void)block;
    (void)path;
    (void)p;
    return true;
}

typedef struct call_fields {
    span id, name;
    json_t *input;
} call_fields;

static const field call_rows[] = {
    {FIELD_ROW("id", TEXT, call_fields, id)},
    {FIELD_ROW("name", TEXT, call_fields, name)},
    {FIELD_ROW("input", JSON, call_fields, input), .types = FIELD_OBJECT},
};

static bool read_call(turn *t, const json_t *block, const char *path, problem *p)
{
    call_fields f = {0};
    if (!fields_read(FIELDS(call_rows), block, path, &f, p))
        return false;
    if (!f.id.data || !f.name.data || !f.input)
        return missing(path, !f.id.data ? "id" : !f.name.data ? "name" : "input", p);
    if (!t->calls)
        t->calls = json_array();
    json_t *call = json_pack("{s:o, s:s, s:{s:o, s:O}}", "id", json_text(f.id), "type", "function", "function", "name",
                             json_text(f.name), "arguments", f.input);
    t->is_open = true;
    return json_array_append_new(t->calls, call) == 0 || no_memory(p);
}

typedef struct result_fields {
    span call;
    json_t *content;
    bool is_error; /* the text says it to the model, too */
} result_fields;

static const field result_rows[] = {
    {FIELD_ROW("tool_use_id", TEXT, result_fields, call)},
    {FIELD_ROW("content", JSON, result_fields, content), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("is_error", BOOL, result_fields, is_error)},
};

/* The result of a call is a message of its own; what the user said before stands in one before it. */
static bool read_result(turn *t, const json_t *block, const char *path, problem *p)
{
    result_fields f = {0};
    buffer text = {0};
    char name[96];
    if (!fields_read(FIELDS(result_rows), block, path, &f, p))
        return false;
    if (!f.call.data)
        return missing(path, "tool_use_id", p);
    t->is_open = t->text.size > 0;
    if (!put_message(t, p))
        return false;
    snprintf(name, sizeof name, "%.80scontent", path);
    if (!conversation_join(f.content, name, text_types, &text, p)) {
        buffer_free(&text);
        return false;
    }
    json_t *message = json_pack("{s:s, s:o, s:o}", "role", "tool", "tool_call_id", json_text(f.call), "content",
                                talk_take_text(&text));
    buffer_free(&text);
    return json_array_append_new(t->out, message) == 0 || no_memory(p);
}

/* Blocks of a message, each with the only role that may say it; NULL: any. */
static const struct block_row {
    const char *type, *role;
    bool (*read)(turn *t, const json_t *block, const char *path, problem *p);
} block_types[] = {
    {"text", NULL, read_text},
    {"thinking", "assistant", read_thoughts},
    {"redacted_thinking", "assistant", read_nothing},
    {"tool_use", "assistant", read_call},
    {"tool_result", "user", read_result},
};

typedef struct type_fields {
    span type;
} type_fields;

static const field type_rows[] = {
    {FIELD_ROW("type", TEXT, type_fields, type)},
};

/* path: "messages[0].content[1].". */
static bool read_block(turn *t, const json_t *block, const char *path, problem *p)
{
    type_fields f = {0};
    char name[96];
    if (!fields_read(FIELDS(type_rows), block, path, &f, p))
        return false;
    for (size_t i = 0; f.type.data && i < sizeof block_types / sizeof *block_types; i++) {
        const struct block_row *row = &block_types[i];
        if (span_equal(f.type, span_of(row->type)) && (!row->role || span_equal(t->role, span_of(row->role))))
            return row->read(t, block, path, p);
    }
    snprintf(name, sizeof name, "%.80stype", path);
    return problem_field(p, name, f.type.data ? "unsupported" : "missing",
                         "%s: must be text, in a user's message also tool_result, in one of the assistant also "
                         "thinking and tool_use",
                         name);
}

typedef struct message_fields {
    span role;
    json_t *content;
} message_fields;

static const field message_rows[] = {
    {FIELD_ROW("role", TEXT, message_fields, role)},
    {FIELD_ROW("content", JSON, message_fields, content), .types = FIELD_STRING | FIELD_LIST},
};

/* path: "messages[0].". */
static bool read_message(turn *t, const json_t *message, const char *path, problem *p)
{
    message_fields f = {0};
    char name[96];
    if (!fields_read(FIELDS(message_rows), message, path, &f, p))
        return false;
    if (!f.role.data || !f.content)
        return missing(path, f.role.data ? "content" : "role", p);
    snprintf(name, sizeof name, "%srole", path);
    if (!span_equal(f.role, span_of("user")) && !span_equal(f.role, span_of("assistant")) &&
        !span_equal(f.role, span_of("system")))
        return problem_field(p, name, "invalid_value", "%s: must be user, assistant or system", name);
    if (!begin_message(t, f.role, p))
        return false;
    if (json_is_string(f.content))
        return put_text(t, (span){json_string_value(f.content), json_string_length(f.content)}, p);
    for (size_t i = 0; i < json_array_size(f.content); i++) {
        char own[80];
        snprintf(own, sizeof own, "%.40scontent[%zu].", path, i);
        if (!read_block(t, json_array_get(f.content, i), own, p))
            return false;
    }
    return true;
}

static bool read_messages(turn *t, const json_t *messages, problem *p)
{
    char path[40];
    size_t count = json_array_size(messages);
    if (count == 0)
        return problem_field(p, "messages", messages ? "invalid_value" : "missing", "messages: %s",
                             messages ? "is empty" : "is missing");
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "messages[%zu].", i);
        if (!read_message(t, json_array_get(messages, i), path, p))
            return false;
    }
    if (!span_equal(t->role, span_of("assistant")))
        return put_message(t, p);
    snprintf(path, sizeof path, "messages[%zu].role", count - 1);
    return problem_field(p, path, "unsupported",
                         "%s: the last message must not be the assistant's, answers cannot be begun", path);
}

static bool read_system(turn *t, const json_t *system, problem *p)
{
    if (!conversation_join(system, "system", text_types, &t->text, p))
        return false;
    t->role = span_of("system");
    t->is_open = t->text.size > 0;
    return true;
}

/* ------------------------------------------------------------------ tools */

typedef struct tool_fields {
    span name, description;
    json_t *parameters, *other;
} tool_fields;

static const field tool_rows[] = {
    {FIELD_ROW("type", FIXED, tool_fields, other), .only = "\"custom\""}, /* others are run by Anthropic's servers */
    {FIELD_ROW("name", TEXT, tool_fields, name)},
    {FIELD_ROW("description", TEXT, tool_fields, description)},
    {FIELD_ROW("input_schema", JSON, tool_fields, parameters), .types = FIELD_OBJECT},
};

/* Appends a tool as OpenAI describes it. path: "tools[0].". */
static bool read_tool(json_t *out, const json_t *tool, const char *path, problem *p)
{
    tool_fields f = {0};
    if (!fields_read(FIELDS(tool_rows), tool, path, &f, p))
        return false;
    if (!f.name.data || !f.parameters)
        return missing(path, f.name.data ? "input_schema" : "name", p);
    return conversation_put_tool(out, f.name, f.description, f.parameters) || no_memory(p);
}

static bool read_tools(json_t *out, const json_t *tools, problem *p)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        char path[40];
        snprintf(path, sizeof path, "tools[%zu].", i);
        if (!read_tool(out, json_array_get(tools, i), path, p))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ thinking */

/* What the types of thinking are to templates that leave it to a variable. */
static const struct thinking_row {
    const char *type;
    bool is_on;
} thinking_types[] = {{"enabled", true}, {"adaptive", true}, {"disabled", false}};

/* Sets the variable of templates, unless the client did. */
static bool read_thinking(json_t *body, const request_fields *r, problem *p)
{
    type_fields f = {0};
    if (!r->thinking)
        return true;
    if (!fields_read(FIELDS(type_rows), r->thinking, "thinking.", &f, p))
        return false;
    for (size_t i = 0; i < sizeof thinking_types / sizeof *thinking_types; i++) {
        const struct thinking_row *row = &thinking_types[i];
        if (!span_equal(f.type, span_of(row->type)))
            continue;
        json_t *all = json_pack("{s:b}", "enable_thinking", row->is_on);
        bool ok = all && (!r->variables || json_object_update(all, r->variables) == 0);
        ok = json_object_set(body, "chat_template_kwargs", all) == 0 && ok;
        json_decref(all);
        return ok || no_memory(p);
    }
    return problem_field(p, "thinking.type", "invalid_value", "thinking.type: must be enabled, adaptive or disabled");
}

/* ------------------------------------------------------------------ requests */

/* Replaces a member of the body. */
static bool put_list(json_t *body, const char *name, json_t *list, problem *p)
{
    return json_object_set(body, name, list) == 0 || no_memory(p);
}

bool messages_read(json_t *body, conversation_fields *out, problem *p)
{
    request_fields r = {0};
    if (!fields_read(FIELDS(rows), body, "", &r, p))
        return false;
    if (r.thread) /* a request that goes on with one has its last messages alone */
        return problem_field(p, "thread", PROBLEM_NO_THREADS,
                             "thread: nothing is stored here, each request brings its whole conversation");
    turn t = {.out = json_array()};
    json_t *tools = json_array();
    bool ok = ((t.out && tools) || no_memory(p)) && read_system(&t, r.system, p) && read_messages(&t, r.messages, p) &&
              read_tools(tools, r.tools, p) && read_thinking(body, &r, p) && put_list(body, "messages", t.out, p) &&
              put_list(body, "tools", tools, p);
    *out = (conversation_fields){.name = "messages",
                                 .messages = t.out,
                                 .tools = tools,
                                 .parallel_calls = true,
                                 .variables = json_object_get(body, "chat_template_kwargs")};
    ok = ok && tool_choice_read(r.choice, out, p);
    buffer_free(&t.text);
    buffer_free(&t.thoughts);
    json_decref(t.calls);
    json_decref(t.out);
    json_decref(tools);
    return ok;
}
