/* writing.h - what `convert`, `quantize` and `pack` share: writing a model file, and saying what became of each
 * tensor. */
#ifndef CLI_WRITING_H
#define CLI_WRITING_H

#include "../model/convert.h"
#include "command.h"

typedef struct writing_options {
    uint32_t threads;
    const char *cpu;
    text_list overrides; /* NAME=TYPE */
    const char *ffn_activation;
    bool allow_nonfinite;
} writing_options;

#define WRITING_OPTION_COUNT 5
extern const option writing_option_rows[WRITING_OPTION_COUNT];

/* "f32, f16, ...": the names of all of them. */
void writing_format_list(char *out, size_t size);
/* A format's name as number_formats spells it. HEARTH_INVALID: names those there are. */
hearth_status writing_format(const char *command_path, const char *name, number_format *out, hearth_error *error);

/* What was written, for those who have more to say about it. */
typedef struct writing_result {
    uint64_t from_bytes, to_bytes;
    size_t tensors;
    size_t transposed;         /* down matrices                                      */
    size_t down_count;         /* neuron-major ones, transposed or so already        */
    number_format down_format; /* of the last of them                                */
    bool requantised;          /* one of them was rounded already, in another layout */
    double relative_error;     /* the largest of theirs: 0 where none was rounded    */
    double seconds;
} writing_result;

/* Writes `to` from `from`; afterwards a line per tensor and a summary on standard error. what: how; the
 * writing_options' part of it is filled in here. result may be NULL. */
hearth_status writing_run(const char *command_path, const char *from, const char *to, convert_options what,
                          const writing_options *o, writing_result *result, arena *memory, hearth_error *error);

#endif
