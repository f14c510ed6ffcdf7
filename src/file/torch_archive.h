/* torch_archive.h - the files that torch.save writes of a state dict: a zip archive with a pickle and raw storages.
 *
 * A pickle is a program; this one is read by an interpreter that knows data and nothing else: dictionaries, tuples,
 * numbers, strings, and the few names that tensors are rebuilt with. Whatever else it asks for is refused by name.
 * Nothing is ever executed. */
#ifndef FILE_TORCH_ARCHIVE_H
#define FILE_TORCH_ARCHIVE_H

#include "checkpoint.h"

/* The tensors of the state dict under their names ("fc1.weight"): contiguous, float32, float16 or bfloat16, rank 1
 * to 4. No keys. HEARTH_FORMAT: damaged, truncated, or it asks for more than data. HEARTH_UNSUPPORTED: other types,
 * strided views, the format before torch 1.6. */
hearth_status torch_open(checkpoint **out, const char *path, hearth_error *error);

/* The same from memory, which is copied where it is needed; the fuzzer's way in. */
hearth_status torch_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                          hearth_error *error);

#endif
