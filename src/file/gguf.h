/* gguf.h - GGUF files: versions 2 and 3 read, version 3 written; and PowerInfer's flavour of them, which differs by
 * its magic alone.
 *
 * Layout (little-endian): magic "GGUF" or "PWRI", version u32, tensor count u64, key count u64; keys (string, type u32,
 * value); tensor records (name, rank u32, shape u64[rank], type u32, offset u64); padding to
 * general.alignment (32); tensor data, each at a multiple of the alignment. A string is a u64 length and its bytes. */
#ifndef FILE_GGUF_H
#define FILE_GGUF_H

#include "checkpoint.h"

#define GGUF_ALIGNMENT 32 /* where general.alignment does not say otherwise */

/* Maps and validates everything: counts, lengths, offsets, sizes, formats, UTF-8 of keys and names,
 * duplicates, overlap, and that the data lies within the file.
 * HEARTH_FORMAT: damaged or not GGUF. HEARTH_UNSUPPORTED: a tensor format that hearth does not know. */
hearth_status gguf_open(checkpoint **out, const char *path, hearth_error *error);

/* For a look at the head alone: also where types of tensors are not known. Such a tensor has format FORMAT_STORED_COUNT
 * and c->types says its number; its bytes are those up to the next tensor, or to the end of the file. */
hearth_status gguf_open_any(checkpoint **out, const char *path, hearth_error *error);
/* "q5_K": the name of a tensor type by its number, where it has one that is known; else NULL. */
const char *gguf_type_name(uint32_t type);

/* The same as gguf_open and gguf_open_any from memory, which must outlive the checkpoint; the fuzzer's way in. */
hearth_status gguf_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                         hearth_error *error);
hearth_status gguf_parse_any(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                             hearth_error *error);

/* Writes a file from parts: head first, then the tensors' bytes in the order announced. */
typedef struct gguf_writer gguf_writer;

/* powerinfer: with the magic PWRI. entries: all keys; general.alignment is honoured where present (else 32). tensors:
 * name, format, rank and shape are read, data is not. */
hearth_status gguf_writer_open(gguf_writer **out, const char *path, bool powerinfer, const key_value *entries,
                               size_t entry_count, const stored_tensor *tensors, size_t tensor_count,
                               hearth_error *error);
/* The next bytes of the current tensor; goes on to the next tensor when it is complete. */
hearth_status gguf_writer_put(gguf_writer *w, const void *data, size_t size_bytes, hearth_error *error);
/* All tensors must be complete. Frees the writer in any case; on failure no file is left. */
hearth_status gguf_writer_commit(gguf_writer *w, hearth_error *error);
void gguf_writer_discard(gguf_writer *w);

#endif
