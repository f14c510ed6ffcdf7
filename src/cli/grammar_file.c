/* grammar_file.c - see grammar_file.h. */
#include "grammar_file.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../chat/reasoning.h"

#include <string.h>

#define MOST_BYTES ((size_t)4 << 20)

/* Returns whether a value is no file but what would stand in one: a schema is an object, and rules are written with ::=. */
static bool is_text(const char *value, hearth_grammar_form form)
{
    return form == HEARTH_GRAMMAR_GBNF ? strstr(value, "::=") != NULL : value[strspn(value, " \t\r\n")] == '{';
}

hearth_status grammar_file_read(grammar_file *out, const char *grammar, const char *schema, hearth_error *error)
{
    if (grammar && schema)
        return fail(error, HEARTH_INVALID, "run: --json-schema: excludes --grammar, which was given as well");
    if (!grammar && !schema)
        return HEARTH_OK;
    const char *value = grammar ? grammar : schema;
    out->form = grammar ? HEARTH_GRAMMAR_GBNF : HEARTH_GRAMMAR_JSON_SCHEMA;
    if (!is_text(value, out->form)) {
        out->name = value;
        return file_read(&out->text, &out->size, value, MOST_BYTES, error);
    }
    out->name = grammar ? "--grammar" : "--json-schema";
    out->size = strlen(value);
    out->text = mem_new(out->size + 1);
    if (!out->text)
        return fail_memory(error, out->name, out->size + 1);
    memcpy(out->text, value, out->size);
    return HEARTH_OK;
}

void grammar_file_free(grammar_file *f)
{
    mem_free(f->text);
    *f = (grammar_file){0};
}

hearth_status grammar_file_make(const grammar_file *f, const hearth_model *model, span prompt, hearth_grammar **out,
                                hearth_error *error)
{
    hearth_error why = {0};
    if (!f->name)
        return HEARTH_OK;
    hearth_status status =
        hearth_grammar_create(out, model, f->form, f->text, f->size, reasoning_answer_mark(prompt), &why);
    return status == HEARTH_OK ? status : fail(error, status, "%s: %s", f->name, why.text);
}
