/* torch_archive.h - reads state dicts written by torch.save: a zip archive with a pickle and raw storages.
 *
 * A pickle is a program. It is read here by an interpreter that knows only data: dictionaries, tuples, numbers,
 * strings, and the few names that are needed to rebuild tensors. Anything else is refused by name. Nothing is ever
 * executed. */
#ifndef FILE_TORCH_ARCHIVE_H
#define FILE_TORCH_ARCHIVE_H

#include "checkpoint.h"

/* Opens a file as a checkpoint without keys that holds the tensors of the state dict under their names
 * ("fc1.weight"). Tensors must be contiguous, float32, float16 or bfloat16, of rank 1 to 4. HEARTH_FORMAT: damaged,
 * truncated, or the pickle asks for more than data. HEARTH_UNSUPPORTED: other types, strided views, compressed or
 * encrypted archives, big-endian files, the format before torch 1.6. */
hearth_status torch_open(checkpoint **out, const char *path, hearth_error *error);

/* Adds the tensors of a file to c. Those of other types than the three are added without data (stored_tensor.foreign), as
 * a model's file may have some that take no part in it. */
hearth_status torch_add(checkpoint *c, const char *path, hearth_error *error);

/* As torch_open, but from memory, which may be freed afterwards. Used by the fuzzer. */
hearth_status torch_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                          hearth_error *error);

#endif
