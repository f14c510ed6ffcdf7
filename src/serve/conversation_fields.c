/* conversation_fields.c - the messages of a request, made such as templates take them.
 *
 * Templates were written for messages whose content is text. Clients may send it in parts, call the system's role
 * "developer", and write arguments of tool calls as a text with JSON; this is undone here. */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const field rows[] = {
    {FIELD_ROW("messages", JSON, conversation_fields, messages), .types = FIELD_LIST},
    {FIELD_ROW("tools", JSON, conversation_fields, tools), .types = FIELD_LIST},
    {FIELD_ROW("tool_choice", JSON, conversation_fields, tool_choice), .types = FIELD_STRING | FIELD_OBJECT},
    {FIELD_ROW("parallel_tool_calls", BOOL, conversation_fields, parallel_calls)},
    {FIELD_ROW("chat_template_kwargs", JSON, conversation_fields, variables), .types = FIELD_OBJECT},
};

typedef struct message_fields {
    span role;
    json_t *content, *calls;
} message_fields;

static const field message_rows[] = {
    {FIELD_ROW("role", TEXT, message_fields, role)},
    {FIELD_ROW("content", JSON, message_fields, content), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("tool_calls", JSON, message_fields, calls), .types = FIELD_LIST},
};

typedef struct part_fields {
    span type, text;
} part_fields;

static const field part_rows[] = {
    {FIELD_ROW("type", TEXT, part_fields, type)},
    {FIELD_ROW("text", TEXT, part_fields, text)},
};

static bool unknown_part(const char *path, const char *type, problem *p)
{
    char name[96];
    snprintf(name, sizeof name, "%.80stype", path);
    return problem_field(p, name, "unsupported", "%s: only parts of type %s are understood, with their text", name,
                         type);
}

static bool is_named(span name, const char *const names[])
{
    for (; name.data && *names; names++)
        if (strcmp(name.data, *names) == 0)
            return true;
    return false;
}

bool conversation_join(const json_t *content, const char *path, const char *const types[], buffer *out, problem *p)
{
    bool ok = !json_is_string(content) || buffer_put(out, json_string_value(content), json_string_length(content));
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        part_fields f = {0};
        char own[88];
        snprintf(own, sizeof own, "%.60s[%zu].", path, i);
        if (!fields_read(FIELDS(part_rows), json_array_get(content, i), own, &f, p))
            return false;
        if (!is_named(f.type, types) || !f.text.data)
            return unknown_part(own, types[0], p);
        ok = buffer_put(out, f.text.data, f.text.size);
    }
    return ok || problem_of(p, NULL, HEARTH_NO_MEMORY, "content: out of memory");
}

/* Joins the parts of a content. path: "messages[0].". */
static bool join_parts(json_t *message, const json_t *parts, const char *path, problem *p)
{
    static const char *const types[] = {"text", NULL};
    char name[60];
    buffer text = {0};
    snprintf(name, sizeof name, "%scontent", path);
    bool ok = conversation_join(parts, name, types, &text, p);
    if (ok && json_object_set_new(message, "content", json_text((span){text.size ? text.data : "", text.size})) != 0)
        ok = problem_of(p, NULL, HEARTH_NO_MEMORY, "content: out of memory");
    buffer_free(&text);
    return ok;
}

void conversation_parse_arguments(json_t *call)
{
    json_t *function = json_object_get(call, "function"), *text = json_object_get(function, "arguments");
    json_t *object = json_is_string(text) ? json_loads(json_string_value(text), 0, NULL) : NULL;
    if (json_is_object(object))
        (void)json_object_set(function, "arguments", object);
    json_decref(object);
}

static bool read_message(json_t *message, const char *path, problem *p)
{
    message_fields f = {0};
    char role[64];
    if (!fields_read(FIELDS(message_rows), message, path, &f, p))
        return false;
    snprintf(role, sizeof role, "%srole", path);
    if (!f.role.data)
        return problem_field(p, role, "missing", "%s: is missing", role);
    if (strcmp(f.role.data, "developer") == 0 && json_object_set_new(message, "role", json_string("system")) != 0)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "role: out of memory");
    for (size_t i = 0; i < json_array_size(f.calls); i++)
        conversation_parse_arguments(json_array_get(f.calls, i));
    return !json_is_array(f.content) || join_parts(message, f.content, path, p);
}

bool conversation_put_tool(json_t *tools, span name, span description, json_t *parameters)
{
    json_t *function = json_pack("{s:o}", "name", json_text(name));
    bool ok = function;
    if (description.data)
        ok = ok && json_object_set_new(function, "description", json_text(description)) == 0;
    if (parameters)
        ok = ok && json_object_set(function, "parameters", parameters) == 0;
    ok = ok && json_array_append_new(tools, json_pack("{s:s, s:O}", "type", "function", "function", function)) == 0;
    json_decref(function);
    return ok;
}

bool conversation_read(json_t *body, conversation_fields *out, problem *p)
{
    *out = (conversation_fields){.name = "messages", .parallel_calls = true};
    if (!fields_read(FIELDS(rows), body, "", out, p))
        return false;
    if (json_array_size(out->messages) == 0)
        return problem_field(p, "messages", out->messages ? "invalid_value" : "missing", "messages: %s",
                             out->messages ? "is empty" : "is missing");
    for (size_t i = 0; i < json_array_size(out->messages); i++) {
        char path[40];
        snprintf(path, sizeof path, "messages[%zu].", i);
        json_t *message = json_array_get(out->messages, i);
        if (json_is_null(message))
            return problem_field(p, path, "invalid_type", "messages[%zu]: must be an object, but is null", i);
        if (!read_message(message, path, p))
            return false;
    }
    return tool_choice_read(out->tool_choice, out, p);
}

/* Returns the variables of the server with those of the request over them, as JSON; *none: there are none. */
static char *merge_variables(const served *m, const json_t *own, bool *none)
{
    *none = !own && !m->options.variables;
    if (*none)
        return NULL;
    json_t *all = m->options.variables ? json_loads(m->options.variables, 0, NULL) : json_object();
    char *text = all && (!own || json_object_update(all, (json_t *)own) == 0) ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

bool conversation_text(const served *m, const conversation_fields *c, char **text, size_t *size, int32_t **ids,
                       size_t *count, problem *p)
{
    bool none;
    char *messages = json_dumps(c->messages, JSON_COMPACT);
    char *tools = json_array_size(c->tools) > 0 ? json_dumps(c->tools, JSON_COMPACT) : NULL;
    char *variables = merge_variables(m, c->variables, &none);
    hearth_chat_options options = {.no_answer = c->no_prompt,
                                   .template_text = m->options.template_text,
                                   .template_name = m->options.template_name,
                                   .tools = tools,
                                   .variables = variables};
    hearth_error error = {0};
    hearth_status status = HEARTH_NO_MEMORY;
    if (messages && (none || variables) && (tools || json_array_size(c->tools) == 0))
        status = hearth_chat_render(m->model, messages, &options, text, size, ids, count, &error);
    free(messages);
    free(tools);
    free(variables);
    return status == HEARTH_OK || problem_of(p, c->name, status, error.text[0] ? error.text : "chat: out of memory");
}
