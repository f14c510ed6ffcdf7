/* tool_choice.c - whether an answer has to call a tool, and how it is made to.
 *
 * An answer that has to call one begins within a call: the mark of the model's convention stands at the end of its
 * prompt, and the rest is held to the JSON schema of a call. */
#include "api.h"

#include "../chat/tool_demand.h"
#include "../model/chat.h"
#include "../model/model.h"

#include <string.h>

typedef enum choice_kind { CHOICE_FREE, CHOICE_NONE, CHOICE_ANY, CHOICE_NAMED } choice_kind;

/* What the APIs call it. */
static const struct kind_row {
    const char *type;
    choice_kind kind;
} kinds[] = {
    {"auto", CHOICE_FREE}, {"none", CHOICE_NONE},      {"required", CHOICE_ANY},
    {"any", CHOICE_ANY},   {"function", CHOICE_NAMED}, {"tool", CHOICE_NAMED},
};

typedef struct choice_fields {
    span type, name;
    json_t *function;
    bool is_single; /* one call at most */
} choice_fields;

static const field rows[] = {
    {FIELD_ROW("type", TEXT, choice_fields, type)},
    {FIELD_ROW("name", TEXT, choice_fields, name)},
    {FIELD_ROW("function", JSON, choice_fields, function), .types = FIELD_OBJECT},
    {FIELD_ROW("disable_parallel_tool_use", BOOL, choice_fields, is_single)},
};
static const field function_rows[] = {{FIELD_ROW("name", TEXT, choice_fields, name)}};

/* ------------------------------------------------------------------ what is asked for */

/* Checks that there are tools to be called, and the one that is named. */
static bool check_tools(const conversation_fields *c, const char *param, problem *p)
{
    bool found = !c->demanded.data;
    if (json_array_size(c->tools) == 0)
        return problem_field(p, "tool_choice", "invalid_value", "tool_choice: demands a call, and there are no tools");
    for (size_t i = 0; i < json_array_size(c->tools); i++) {
        span name = tool_name(json_array_get(c->tools, i));
        if (!name.data)
            return problem_field(p, "tools", "invalid_value", "tools[%zu].function.name: is missing", i);
        found = found || span_equal(name, c->demanded);
    }
    return found || problem_field(p, param, "invalid_value", "%s: there is no tool of that name", param);
}

/* Reads how a choice that is an object has it; *param: where its name stands. */
static bool read_object(const json_t *choice, choice_fields *f, const char **param, problem *p)
{
    if (!fields_read(FIELDS(rows), choice, "tool_choice.", f, p) ||
        !fields_read(FIELDS(function_rows), f->function, "tool_choice.function.", f, p))
        return false;
    *param = f->function ? "tool_choice.function.name" : "tool_choice.name";
    return true;
}

bool tool_choice_read(const json_t *choice, conversation_fields *c, problem *p)
{
    choice_fields f = {.type = {json_string_value(choice), json_string_length(choice)}};
    const char *param = "tool_choice", *where = json_is_object(choice) ? "tool_choice.type" : param;
    if (!choice)
        return true;
    if (json_is_object(choice) && !read_object(choice, &f, &param, p))
        return false;
    c->parallel_calls = c->parallel_calls && !f.is_single;
    size_t i = 0, count = sizeof kinds / sizeof *kinds;
    while (i < count && !span_equal(f.type, span_of(kinds[i].type)))
        i++;
    if (i == count || (json_is_string(choice) && kinds[i].kind == CHOICE_NAMED))
        return problem_field(p, where, "invalid_value", "%s: must be none, auto, required (any), or name a tool",
                             where);
    if (kinds[i].kind == CHOICE_NONE)
        c->tools = NULL;
    if (kinds[i].kind == CHOICE_FREE || kinds[i].kind == CHOICE_NONE)
        return true;
    if (kinds[i].kind == CHOICE_NAMED && !f.name.data)
        return problem_field(p, param, "missing", "%s: is missing", param);
    c->demands_call = true;
    c->demanded = kinds[i].kind == CHOICE_NAMED ? f.name : (span){0};
    return check_tools(c, param, p);
}

/* ------------------------------------------------------------------ how it is made so */

/* Appends what ends the model's thoughts, if it has begun to think, and what a call begins with. */
static bool extend(buffer *prompt, span text, span open, problem *p)
{
    const char *mark = reasoning_answer_mark(text);
    bool ok = buffer_put(prompt, text.data, text.size) && (!mark || buffer_print(prompt, "%s\n\n", mark)) &&
              buffer_put(prompt, open.data, open.size);
    return ok || problem_of(p, NULL, HEARTH_NO_MEMORY, "tool_choice: out of memory");
}

bool tool_choice_demand(const served *m, const conversation_fields *c, span text, job_prompt *prompt, tool_demand *out,
                        problem *p)
{
    hearth_error error = {0};
    buffer all = {0};
    hearth_status status = tool_demand_make(out, conversation_convention(m), c->tools, c->demanded, &error);
    if (status != HEARTH_OK)
        return problem_of(p, "tool_choice", status, error.text);
    if (!extend(&all, text, (span){out->open.data, out->open.size}, p)) {
        buffer_free(&all);
        return false;
    }
    hearth_free(prompt->ids);
    *prompt = (job_prompt){0};
    status = model_chat_encode(m->model->tokenizer, (span){all.data, all.size}, &prompt->ids, &prompt->count, &error);
    buffer_free(&all);
    return status == HEARTH_OK || problem_of(p, c->name, status, error.text);
}
