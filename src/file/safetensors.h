/* safetensors.h - reads the tensors of Hugging Face folders.
 *
 * A file is a u64 length, that many bytes of JSON (name -> dtype, shape, data_offsets), and the data. A folder has
 * model.safetensors, or model.safetensors.index.json, which names a shard for every tensor. */
#ifndef FILE_SAFETENSORS_H
#define FILE_SAFETENSORS_H

#include "checkpoint.h"

/* Adds all tensors of a folder to c, under their own names, with shapes in GGUF's order (reversed); a scalar has rank
 * 1. F32, F16 and BF16 are read; other dtypes are HEARTH_UNSUPPORTED (named). Validated: header length, JSON,
 * duplicate names, size against shape, that the tensors fill the file without gap or overlap, and that the index and
 * the shards name the same tensors; a shard's name must be a plain file name. Where a folder has both,
 * model.safetensors is read and the index is not. On failure some tensors may have been added: close c. */
hearth_status safetensors_add_folder(checkpoint *c, const char *folder, hearth_error *error);

/* Adds the tensors of one file in memory, which must outlive c. Used by the fuzzer. */
hearth_status safetensors_parse(checkpoint *c, const uint8_t *data, size_t size_bytes, const char *path,
                                hearth_error *error);

#endif
