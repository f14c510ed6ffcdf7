/* safetensors.h - reads files of safetensors: a u64 length, that many bytes of JSON (name -> dtype, shape, data_offsets),
 * and the data. */
#ifndef FILE_SAFETENSORS_H
#define FILE_SAFETENSORS_H

#include "../base/json.h"
#include "checkpoint.h"

/* Adds all tensors of a file, which c then holds open, under their own names, with shapes in GGUF's order (reversed); a
 * scalar has rank 1. F32, F16 and BF16 are read, F8_E4M3 and U8 are foreign (stored_tensor); other dtypes are HEARTH_UNSUPPORTED (named). Validated: header length,
 * JSON, duplicate names, size against shape, that the tensors fill the file without gap or overlap, and where there is an
 * index (weight_map: name -> shard; else NULL), that it says `shard` of each. */
hearth_status safetensors_add(checkpoint *c, const char *path, const json_t *weight_map, const char *shard,
                              hearth_error *error);

/* Adds the tensors of one file in memory, which must outlive c. Used by the fuzzer. */
hearth_status safetensors_parse(checkpoint *c, const uint8_t *data, size_t size_bytes, const char *path,
                                hearth_error *error);

#endif
