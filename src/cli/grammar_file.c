/* grammar_file.c - see grammar_file.h. */
#include "grammar_file.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../chat/reasoning.h"

#define MOST_BYTES ((size_t)4 << 20)

hearth_status grammar_file_read(grammar_file *out, const char *grammar, const char *schema, hearth_error *error)
{
    if (grammar && schema)
        return fail(error, HEARTH_INVALID, "run: --json-schema: excludes --grammar, which was given as well");
    if (!grammar && !schema)
        return HEARTH_OK;
    out->path = grammar ? grammar : schema;
    out->form = grammar ? HEARTH_GRAMMAR_GBNF : HEARTH_GRAMMAR_JSON_SCHEMA;
    return file_read(&out->text, &out->size, out->path, MOST_BYTES, error);
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
    if (!f->path)
        return HEARTH_OK;
    hearth_status status =
        hearth_grammar_create(out, model, f->form, f->text, f->size, reasoning_answer_mark(prompt), &why);
    return status == HEARTH_OK ? status : fail(error, status, "%s: %s", f->path, why.text);
}
