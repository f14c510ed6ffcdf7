/* grammar_file.h - a grammar or a schema that answers are held to (`--grammar`, `--json-schema`): in a file, or as it is. */
#ifndef CLI_GRAMMAR_FILE_H
#define CLI_GRAMMAR_FILE_H

#include "../base/text.h"

#include <hearth.h>

/* A zeroed one: there is none. */
typedef struct grammar_file {
    const char *name; /* for errors: the file, or the option */
    hearth_grammar_form form;
    char *text; /* [size] */
    size_t size;
} grammar_file;

/* Reads one of the two, each the path of a file or the text itself; NULL: it was not given. HEARTH_INVALID: both were. */
hearth_status grammar_file_read(grammar_file *out, const char *grammar, const char *schema, hearth_error *error);
void grammar_file_free(grammar_file *f);

/* Makes the grammar for answers to a prompt; *out stays as it is where there is none. Where the prompt ends in what the
 * model thinks, the grammar begins behind that. Errors name the file or the option. */
hearth_status grammar_file_make(const grammar_file *f, const hearth_model *model, span prompt, hearth_grammar **out,
                                hearth_error *error);

#endif
