/* writing.h - what `convert` and `quantize` share: writing a model file, and saying what became of each tensor. */
#ifndef CLI_WRITING_H
#define CLI_WRITING_H

#include "../model/convert.h"
#include "command.h"

typedef struct writing_options {
    uint32_t threads;
    text_list overrides; /* NAME=TYPE */
    const char *ffn_activation;
} writing_options;

#define WRITING_OPTION_COUNT 3
extern const option writing_option_rows[WRITING_OPTION_COUNT];

/* "f32, f16, ...": the names of all of them. */
void writing_format_list(char *out, size_t size);
/* A format's name as number_formats spells it. HEARTH_INVALID: names those there are. */
hearth_status writing_format(const char *command_path, const char *name, number_format *out, hearth_error *error);

/* Writes `to` from `from`; afterwards a line per tensor and a summary on standard error. */
hearth_status writing_run(const char *command_path, const char *from, const char *to, number_format format,
                          bool head_apart, const writing_options *o, arena *memory, hearth_error *error);

#endif
