/* convert_tensor.h - writes one planned tensor into the file. */
#ifndef MODEL_CONVERT_TENSOR_H
#define MODEL_CONVERT_TENSOR_H

#include "../file/gguf.h"
#include "../kernel/kernel.h"
#include "convert_plan.h"

/* Where tensors are written, and the progress so far. */
typedef struct convert_sink {
    gguf_writer *writer;
    pool *threads;
    kernels kernels;
    const char *path;                /* of the source, for errors */
    bool allow_nonfinite;            /* as convert_options        */
    const hearth_progress *progress; /* bytes of source tensors   */
    uint64_t bytes_done, bytes_total;
    hearth_error *error;
} convert_sink;

/* Writes all bytes of the item and fills in item->step.relative_error and .unfit. On failure the writer can only be
 * discarded. */
hearth_status convert_tensor(convert_sink *s, convert_item *item);

#endif
