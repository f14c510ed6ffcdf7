/* model_file.h - a planted model as a file: which tensors there are, the keys, a vocabulary, and the loop that makes and
 * writes one piece after the other. */
#ifndef BENCH_MODEL_FILE_H
#define BENCH_MODEL_FILE_H

#include "model_rows.h"

#include "../src/base/pool.h"

typedef struct model_file_options {
    const char *path;
    const char *activation;
    tensor_presence layout; /* IN_STOCK: GGUF as every program reads it; IN_NEURON_MAJOR: as `hearth pack` writes it;
                               IN_POWERINFER: PowerInfer's kind of file, with fc1 and fc2 in each layer */
    number_format head;     /* of the output matrix; FORMAT_COUNT: Q6_K where the design's format is smaller */
    uint32_t context;       /* that the keys announce */
} model_file_options;

/* Returns the number of weights of the stock file. */
double model_file_parameters(const model_design *m);

/* Writes the file, with a line of progress on standard error where that is a terminal. Memory: the plan of a layer and
 * pieces of some megabytes. On failure no file is left. *size_bytes: of the tensors. */
hearth_status model_file_write(const model_design *m, const model_file_options *options, pool *threads,
                               uint64_t *size_bytes, hearth_error *error);

#endif
