/* gguf_internal.h - what gguf_read.c (one file) does for gguf_split.c (all parts of a model). */
#ifndef FILE_GGUF_INTERNAL_H
#define FILE_GGUF_INTERNAL_H

#include "gguf.h"

/* Opens one file as it is, with the keys split.* of a part. any_type: as gguf_open_any. */
hearth_status gguf_open_file(checkpoint **out, const char *path, bool any_type, hearth_error *error);

#endif
