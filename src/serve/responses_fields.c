/* responses_fields.c - requests for responses, made such as templates take them. Nothing is stored, so every request brings
 * the whole conversation; tools are refused. */
#include "api.h"

#include <stdio.h>
#include <string.h>

typedef struct request_fields {
    span model, instructions;
    json_t *input, *text, *choice, *variables, *other;
} request_fields;

static const field request_rows[] = {
    {FIELD_ROW("model", TEXT, request_fields, model)},
    {FIELD_ROW("input", JSON, request_fields, input), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("instructions", TEXT, request_fields, instructions)},
    {FIELD_ROW("text", JSON, request_fields, text), .types = FIELD_OBJECT},
    {FIELD_ROW("tool_choice", JSON, request_fields, choice), .types = FIELD_STRING | FIELD_OBJECT},
    {FIELD_ROW("chat_template_kwargs", JSON, request_fields, variables), .types = FIELD_OBJECT},
    {FIELD_ROW("tools", FIXED, request_fields, other), .only = "[]"},
    {FIELD_ROW("include", FIXED, request_fields, other), .only = "[]"},
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

typedef struct item_fields {
    span type, role;
    json_t *content;
} item_fields;

static const field item_rows[] = {
    {FIELD_ROW("type", TEXT, item_fields, type)},
    {FIELD_ROW("role", TEXT, item_fields, role)},
    {FIELD_ROW("content", JSON, item_fields, content), .types = FIELD_STRING | FIELD_LIST},
};

/* Roles of messages, with their names in templates. */
static const char *const roles[][2] = {
    {"user", "user"}, {"assistant", "assistant"}, {"system", "system"}, {"developer", "system"}};

/* Refuses a member of an item. */
static bool bad_member(const char *path, const char *member, const char *code, const char *why, problem *p)
{
    char name[96];
    snprintf(name, sizeof name, "%.40s%.20s", path, member);
    return problem_field(p, name, code, "%s: %s", name, why);
}

static bool read_item(json_t *messages, const json_t *item, const char *path, problem *p)
{
    static const char *const types[] = {"input_text", "output_text", NULL};
    item_fields f = {.type = {"message", 7}};
    const char *role = NULL;
    char name[60];
    buffer text = {0};
    if (!fields_read(FIELDS(item_rows), item, path, &f, p))
        return false;
    if (span_equal(f.type, span_of("reasoning"))) /* of an earlier answer: templates leave it out, too */
        return true;
    if (!span_equal(f.type, span_of("message")))
        return bad_member(path, "type", "unsupported", "only items of type message are understood", p);
    for (size_t i = 0; f.role.data && i < sizeof roles / sizeof *roles; i++)
        if (span_equal(f.role, span_of(roles[i][0])))
            role = roles[i][1];
    if (!role)
        return bad_member(path, "role", f.role.data ? "invalid_value" : "missing",
                          "must be user, assistant, system or developer", p);
    if (!f.content)
        return bad_member(path, "content", "missing", "is missing", p);
    snprintf(name, sizeof name, "%.40scontent", path);
    bool ok = conversation_join(f.content, name, types, &text, p) &&
              append_message(messages, role, (span){text.size ? text.data : "", text.size}, p);
    buffer_free(&text);
    return ok;
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

static bool read_choice(const json_t *choice, problem *p)
{
    const char *text = json_string_value(choice);
    return !choice || (text && (strcmp(text, "auto") == 0 || strcmp(text, "none") == 0)) ||
           problem_field(p, "tool_choice", "unsupported",
                         "tool_choice: is not supported by this server, but as \"auto\" and \"none\"");
}

bool responses_read(json_t *body, conversation_fields *out, problem *p)
{
    request_fields f = {0};
    if (!fields_read(FIELDS(request_rows), body, "", &f, p) || !read_choice(f.choice, p))
        return false;
    json_t *messages = json_array();
    bool ok = (messages || no_memory(p)) && read_input(messages, &f, p) &&
              (json_object_set(body, "messages", messages) == 0 || no_memory(p));
    *out = (conversation_fields){.name = "input", .messages = messages, .variables = f.variables};
    json_decref(messages); /* the body has it */
    return ok;
}
