/* writing.h - shared by `convert`, `quantize` and `pack`: writing a model file, and reporting what happened to each
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

/* Writes the names of all formats that can be written: "f32, f16, ...". */
void writing_format_list(char *out, size_t size);
/* Finds a format by its name in number_formats. HEARTH_INVALID: the name is unknown, or of a format that can only be read;
 * the error lists those that can be written. */
hearth_status writing_format(const char *command_path, const char *name, number_format *out, hearth_error *error);

/* Totals of what was written, for further reports. */
typedef struct writing_result {
    uint64_t from_bytes, to_bytes;
    size_t tensors;
    size_t weighed;            /* matrices whose errors were weighed by importance         */
    size_t transposed;         /* down matrices                                      */
    size_t down_count;         /* neuron-major ones, whether transposed here or already so */
    number_format down_format; /* of the last down matrix */
    bool requantised;          /* one of them was already quantized, in another layout */
    double relative_error;     /* the largest of the down matrices; 0: none was rounded */
    double seconds;
} writing_result;

/* Writes the model `to` from `from`, then prints a line per tensor and a summary on standard error. what: how to
 * convert; this function fills in what comes from writing_options. result may be NULL. */
hearth_status writing_run(const char *command_path, const char *from, const char *to, convert_options what,
                          const writing_options *o, writing_result *result, arena *memory, hearth_error *error);

#endif
