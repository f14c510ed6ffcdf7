/* corpus_options.h - shared by the commands that learn: which texts or ids to read, and where the tune file goes. */
#ifndef CLI_CORPUS_OPTIONS_H
#define CLI_CORPUS_OPTIONS_H

#include "../learn/corpus.h"
#include "common.h"

typedef struct corpus_options {
    text_list files;
    const char *ids; /* a file of ids, or the list itself */
    const char *separator;
    uint32_t window;
    const char *out; /* the tune file; NULL: beside the model */
} corpus_options;

#define CORPUS_OPTION_COUNT 5
/* Texts that may follow the first one of --corpus. */
#define CORPUS_FILES_MOST (1 << 16)
extern const option corpus_option_rows[CORPUS_OPTION_COUNT];

/* Takes the remaining operands as further files. HEARTH_INVALID: neither text nor ids were given, or both. */
hearth_status corpus_options_take(const char *command_path, corpus_options *o, operands *rest, hearth_error *error);
/* Reads the texts or ids. HEARTH_FORMAT: also too few tokens for any statistics. */
hearth_status corpus_options_read(corpus *out, const hearth_model *model, const corpus_options *o, arena *memory,
                                  hearth_error *error);
/* Returns what was read, for reports: an array of names. NULL: no memory. */
json_t *corpus_options_json(const corpus_options *o);

/* Returns where the tune file goes: --out FILE, else beside the model. Free with mem_free. NULL: no memory. */
char *corpus_options_tune_path(const corpus_options *o, const char *model_path);

#endif
