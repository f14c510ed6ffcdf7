/* format.c - what an answer must be: JSON, JSON that a schema allows, or a text of a grammar. */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY_OBJECT "{\"type\": \"object\"}"

/* An object that names a format: {"type": "json_schema", ...}. OpenAI's chats put the schema one object deeper. */
typedef struct format_fields {
    span type;
    json_t *schema, *nested;
} format_fields;

static const field rows[] = {
    {FIELD_ROW("type", TEXT, format_fields, type)},
    {FIELD_ROW("schema", JSON, format_fields, schema), .types = FIELD_OBJECT},
    {FIELD_ROW("json_schema", JSON, format_fields, nested), .types = FIELD_OBJECT},
};

/* Sets the format; a request may have one. path: of the field. */
static bool set(answer_format *out, hearth_grammar_form form, const json_t *value, const char *path, problem *p)
{
    if (out->param[0])
        return problem_field(p, path, "invalid_value", "%s: the answer's format is told by %s already", path,
                             out->param);
    *out = (answer_format){.form = form, .value = value};
    snprintf(out->param, sizeof out->param, "%s", path);
    return true;
}

static bool read_schema(const format_fields *given, const char *path, answer_format *out, problem *p)
{
    format_fields f = *given;
    char name[sizeof out->param];
    snprintf(name, sizeof name, "%s.%s", path, f.nested ? "json_schema." : "");
    if (f.nested && !fields_read(FIELDS(rows), f.nested, name, &f, p))
        return false;
    snprintf(name, sizeof name, "%s.%sschema", path, f.nested ? "json_schema." : "");
    return f.schema ? set(out, HEARTH_GRAMMAR_JSON_SCHEMA, f.schema, name, p)
                    : problem_field(p, name, "missing", "%s: is missing", name);
}

bool format_read(const json_t *object, const char *path, answer_format *out, problem *p)
{
    format_fields f = {0};
    char name[sizeof out->param];
    snprintf(name, sizeof name, "%s.", path);
    if (!object)
        return true;
    if (!fields_read(FIELDS(rows), object, name, &f, p))
        return false;
    if (span_equal(f.type, span_of("text")))
        return true;
    if (span_equal(f.type, span_of("json_object")))
        return set(out, HEARTH_GRAMMAR_JSON_SCHEMA, NULL, path, p);
    if (span_equal(f.type, span_of("json_schema")))
        return read_schema(&f, path, out, p);
    snprintf(name, sizeof name, "%s.type", path);
    return problem_field(p, name, f.type.data ? "invalid_value" : "missing",
                         "%s: must be \"text\", \"json_object\" or \"json_schema\"", name);
}

bool format_read_grammar(const json_t *text, answer_format *out, problem *p)
{
    return !text || set(out, HEARTH_GRAMMAR_GBNF, text, "grammar", p);
}

bool format_read_schema(const json_t *schema, answer_format *out, problem *p)
{
    return !schema || set(out, HEARTH_GRAMMAR_JSON_SCHEMA, schema, "json_schema", p);
}

answer_format format_of_schema(const json_t *schema, const char *param)
{
    answer_format f = {.form = HEARTH_GRAMMAR_JSON_SCHEMA, .value = schema};
    snprintf(f.param, sizeof f.param, "%s", param);
    return f;
}

bool format_make(const served *m, const answer_format *f, const char *behind, hearth_grammar **out, problem *p)
{
    hearth_error error = {0};
    char message[sizeof p->message];
    if (!f->param[0])
        return true;
    char *made = f->value && !json_is_string(f->value) ? json_dumps(f->value, JSON_COMPACT) : NULL;
    const char *text = !f->value ? ANY_OBJECT : made ? made : json_string_value(f->value);
    size_t size = f->value && !made ? json_string_length(f->value) : text ? strlen(text) : 0;
    hearth_status status =
        text ? hearth_grammar_create(out, m->model, f->form, text, size, behind, &error) : HEARTH_NO_MEMORY;
    free(made);
    if (status == HEARTH_OK)
        return true;
    snprintf(message, sizeof message, "%s: %.900s", f->param, text ? error.text : "out of memory");
    return problem_of(p, f->param, status, message);
}
