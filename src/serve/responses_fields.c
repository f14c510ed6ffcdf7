/* responses_fields.c - requests for responses, made such as templates take them. Nothing is stored, so every request brings
 * the whole conversation; tools that OpenAI's servers run are refused. */
#include "api.h"

#include <stdio.h>
#include <string.h>

typedef struct request_fields {
    span model, instructions;
    json_t *input, *include, *text, *tools, *choice, *variables, *other;
    bool parallel_calls;
} request_fields;

static const field request_rows[] = {
    {FIELD_ROW("model", TEXT, request_fields, model)},
    {FIELD_ROW("input", JSON, request_fields, input), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("instructions", TEXT, request_fields, instructions)},
    {FIELD_ROW("text", JSON, request_fields, text), .types = FIELD_OBJECT},
    {FIELD_ROW("tool_choice", JSON, request_fields, choice), .types = FIELD_STRING | FIELD_OBJECT},
    {FIELD_ROW("chat_template_kwargs", JSON, request_fields, variables), .types = FIELD_OBJECT},
    {FIELD_ROW("tools", JSON, request_fields, tools), .types = FIELD_LIST},
    {FIELD_ROW("parallel_tool_calls", BOOL, request_fields, parallel_calls)},
    {FIELD_ROW("include", JSON, request_fields, include), .types = FIELD_LIST},
    {FIELD_ROW("background", FIXED, request_fields, other), .only = "false"},
    {FIELD_ROW("truncation", FIXED, request_fields, other), .only = "\"disabled\""},
    {FIELD_ROW("top_logprobs", FIXED, request_fields, other), .only = "0"},
    {FIELD_ROW("previous_response_id", FIXED, request_fields, other)},
    {FIELD_ROW("conversation", FIXED, request_fields, other)},
    {FIELD_ROW("prompt", FIXED, request_fields, other)},
};

static bool no_memory(problem *p)
{
    return problem_of(p, NULL, HEARTH_NO_MEMORY, "input: out of memory");
}

/* Appends a message for the template. */
static bool append_message(json_t *messages, const char *role, span content, problem *p)
{
    return json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", json_text(content))) == 0 ||
           no_memory(p);
}

/* Refuses a member of an item, or of a tool. */
static bool bad_member(const char *path, const char *member, const char *code, const char *why, problem *p)
{
    char name[96];
    snprintf(name, sizeof name, "%.40s%.20s", path, member);
    return problem_field(p, name, code, "%s: %s", name, why);
}

static bool missing(const char *path, const char *member, problem *p)
{
    return bad_member(path, member, "missing", "is missing", p);
}

/* Joins the parts of a content. text: freed with buffer_free, also after a failure. */
static bool join(const json_t *content, const char *path, const char *member, buffer *text, problem *p)
{
    static const char *const types[] = {"input_text", "output_text", NULL};
    char name[60];
    snprintf(name, sizeof name, "%.40s%.16s", path, member);
    return conversation_join(content, name, types, text, p);
}

/* What may be included: what clients that store nothing ask for, of which answers have none. */
static bool check_include(const json_t *include, problem *p)
{
    for (size_t i = 0; i < json_array_size(include); i++) {
        const char *what = json_string_value(json_array_get(include, i));
        if (!what || strcmp(what, "reasoning.encrypted_content") != 0)
            return problem_field(p, "include", "unsupported", "include[%zu]: is not supported", i);
    }
    return true;
}

/* ------------------------------------------------------------------ messages */

typedef struct message_fields {
    span role;
    json_t *content;
} message_fields;

static const field message_rows[] = {
    {FIELD_ROW("role", TEXT, message_fields, role)},
    {FIELD_ROW("content", JSON, message_fields, content), .types = FIELD_STRING | FIELD_LIST},
};

/* Roles of messages, with their names in templates. */
static const char *const roles[][2] = {
    {"user", "user"}, {"assistant", "assistant"}, {"system", "system"}, {"developer", "system"}};

static bool read_message(json_t *messages, const json_t *item, const char *path, problem *p)
{
    message_fields f = {0};
    const char *role = NULL;
    buffer text = {0};
    if (!fields_read(FIELDS(message_rows), item, path, &f, p))
        return false;
    for (size_t i = 0; f.role.data && i < sizeof roles / sizeof *roles; i++)
        if (span_equal(f.role, span_of(roles[i][0])))
            role = roles[i][1];
    if (!role)
        return bad_member(path, "role", f.role.data ? "invalid_value" : "missing",
                          "must be user, assistant, system or developer", p);
    if (!f.content)
        return missing(path, "content", p);
    bool ok = join(f.content, path, "content", &text, p) &&
              append_message(messages, role, (span){text.size ? text.data : "", text.size}, p);
    buffer_free(&text);
    return ok;
}

/* ------------------------------------------------------------------ calls of tools */

typedef struct call_fields {
    span id, name, arguments;
} call_fields;

static const field call_rows[] = {
    {FIELD_ROW("call_id", TEXT, call_fields, id)},
    {FIELD_ROW("name", TEXT, call_fields, name)},
    {FIELD_ROW("arguments", TEXT, call_fields, arguments)},
};

/* Returns the list of calls in the last message, which is made if that is not the assistant's. NULL: no memory. */
static json_t *last_calls(json_t *messages)
{
    size_t count = json_array_size(messages);
    json_t *last = json_array_get(messages, count ? count - 1 : 0);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!role || strcmp(role, "assistant") != 0) {
        last = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        if (json_array_append_new(messages, last) != 0)
            return NULL;
    }
    if (!json_object_get(last, "tool_calls") && json_object_set_new(last, "tool_calls", json_array()) != 0)
        return NULL;
    return json_object_get(last, "tool_calls");
}

/* A call belongs to the message that came before it. */
static bool read_call(json_t *messages, const json_t *item, const char *path, problem *p)
{
    call_fields f = {0};
    if (!fields_read(FIELDS(call_rows), item, path, &f, p))
        return false;
    if (!f.id.data || !f.name.data || !f.arguments.data)
        return missing(path, !f.id.data ? "call_id" : !f.name.data ? "name" : "arguments", p);
    json_t *calls = last_calls(messages);
    json_t *call = json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", json_text(f.id), "type", "function", "function", "name",
                             json_text(f.name), "arguments", json_text(f.arguments));
    if (call)
        conversation_parse_arguments(call);
    return json_array_append_new(calls, call) == 0 || no_memory(p);
}

typedef struct result_fields {
    span id;
    json_t *output;
} result_fields;

static const field result_rows[] = {
    {FIELD_ROW("call_id", TEXT, result_fields, id)},
    {FIELD_ROW("output", JSON, result_fields, output), .types = FIELD_STRING | FIELD_LIST},
};

static bool read_result(json_t *messages, const json_t *item, const char *path, problem *p)
{
    result_fields f = {0};
    buffer text = {0};
    if (!fields_read(FIELDS(result_rows), item, path, &f, p))
        return false;
    if (!f.id.data || !f.output)
        return missing(path, f.id.data ? "output" : "call_id", p);
    bool ok = join(f.output, path, "output", &text, p);
    if (ok && json_array_append_new(messages, json_pack("{s:s, s:o, s:o}", "role", "tool", "tool_call_id",
                                                        json_text(f.id), "content", talk_take_text(&text))) != 0)
        ok = no_memory(p);
    buffer_free(&text);
    return ok;
}

/* Of an earlier answer: templates leave it out, too. */
static bool read_reasoning(json_t *messages, const json_t *item, const char *path, problem *p)
{
    (void)messages;
    (void)item;
    (void)path;
    (void)p;
    return true;
}

/* ------------------------------------------------------------------ items */

static const struct item_row {
    const char *type;
    bool (*read)(json_t *messages, const json_t *item, const char *path, problem *p);
} items[] = {
    {"message", read_message},
    {"reasoning", read_reasoning},
    {"function_call", read_call},
    {"function_call_output", read_result},
};

typedef struct type_fields {
    span type;
} type_fields;

static const field type_rows[] = {
    {FIELD_ROW("type", TEXT, type_fields, type)},
};

static bool read_item(json_t *messages, const json_t *item, const char *path, problem *p)
{
    type_fields f = {.type = {"message", 7}};
    if (!fields_read(FIELDS(type_rows), item, path, &f, p))
        return false;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (span_equal(f.type, span_of(items[i].type)))
            return items[i].read(messages, item, path, p);
    return bad_member(path, "type", "unsupported", "must be message, function_call, function_call_output or reasoning",
                      p);
}

static bool read_input(json_t *messages, const request_fields *f, problem *p)
{
    if (!f->input || (json_is_array(f->input) && json_array_size(f->input) == 0))
        return problem_field(p, "input", f->input ? "invalid_value" : "missing", "input: %s",
                             f->input ? "is empty" : "is missing");
    if (f->instructions.data && !append_message(messages, "system", f->instructions, p))
        return false;
    if (json_is_string(f->input))
        return append_message(messages, "user", (span){json_string_value(f->input), json_string_length(f->input)}, p);
    for (size_t i = 0; i < json_array_size(f->input); i++) {
        char path[40];
        snprintf(path, sizeof path, "input[%zu].", i);
        if (!read_item(messages, json_array_get(f->input, i), path, p))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ tools */

typedef struct tool_fields {
    span type, name, description;
    json_t *parameters;
} tool_fields;

static const field tool_rows[] = {
    {FIELD_ROW("type", TEXT, tool_fields, type)},
    {FIELD_ROW("name", TEXT, tool_fields, name)},
    {FIELD_ROW("description", TEXT, tool_fields, description)},
    {FIELD_ROW("parameters", JSON, tool_fields, parameters), .types = FIELD_OBJECT},
};

/* Appends a tool as chats describe it. path: "tools[0].". */
static bool read_tool(json_t *out, const json_t *tool, const char *path, problem *p)
{
    tool_fields f = {0};
    if (!fields_read(FIELDS(tool_rows), tool, path, &f, p))
        return false;
    if (!f.type.data || !span_equal(f.type, span_of("function")))
        return bad_member(path, "type", f.type.data ? "unsupported" : "missing", "must be function", p);
    if (!f.name.data)
        return missing(path, "name", p);
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

/* ------------------------------------------------------------------ requests */

bool responses_read(json_t *body, conversation_fields *out, problem *p)
{
    request_fields f = {.parallel_calls = true};
    if (!fields_read(FIELDS(request_rows), body, "", &f, p) || !check_include(f.include, p))
        return false;
    json_t *messages = json_array(), *tools = json_array();
    bool ok =
        ((messages && tools) || no_memory(p)) && read_input(messages, &f, p) && read_tools(tools, f.tools, p) &&
        (json_object_set(body, "messages", messages) == 0 || no_memory(p)) &&
        (json_object_set(body, "chat_tools", tools) == 0 || no_memory(p)); /* the answer shows those that it has */
    *out = (conversation_fields){.name = "input",
                                 .messages = messages,
                                 .tools = tools,
                                 .variables = f.variables,
                                 .parallel_calls = f.parallel_calls};
    ok = ok && tool_choice_read(f.choice, out, p);
    json_decref(messages); /* the body has them */
    json_decref(tools);
    return ok;
}
