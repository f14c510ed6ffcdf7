/* sampling.h - the sampling options, named as in llama.cpp. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "command.h"

typedef struct sampling_options {
    hearth_sampling sampling; /* biases are filled in by sampling_resolve */
    text_list biases;
    optional_seed seed;
} sampling_options;

#define SAMPLING_OPTION_COUNT 10
extern const option sampling_option_rows[SAMPLING_OPTION_COUNT];

void sampling_defaults(sampling_options *o);

/* Parses the biases and draws a seed where sampling is random and no seed was given. */
hearth_status sampling_resolve(const char *command_path, sampling_options *o, arena *memory, hearth_error *error);

#endif
