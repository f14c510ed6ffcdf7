/* gguf.h - reads GGUF files of versions 2 and 3 and writes version 3; also PowerInfer's variant, which differs only
 * in its magic.
 *
 * Layout (little-endian): magic "GGUF" or "PWRI", version u32, tensor count u64, key count u64; keys (string, type
 * u32, value); tensor records (name, rank u32, shape u64[rank], type u32, offset u64); padding to general.alignment
 * (32); tensor data, each at a multiple of the alignment. A string is a u64 length and its bytes. */
#ifndef FILE_GGUF_H
#define FILE_GGUF_H

#include "checkpoint.h"

#define GGUF_ALIGNMENT 32 /* used where the key general.alignment is absent */

/* Maps a file, and if it is one part of a split model (NAME-00002-of-00003.gguf, whichever part it is) all others beside
 * it, which then are one checkpoint without the keys that say so. Validates everything: counts, lengths, offsets, sizes, formats, UTF-8 of keys and names,
 * duplicates, overlap, that the data lies within the file, and that parts belong together. HEARTH_FORMAT: damaged, not
 * GGUF, or a part is missing (named).
 * HEARTH_UNSUPPORTED: a tensor format, a value type, a version or a byte order that hearth does not know. */
hearth_status gguf_open(checkpoint **out, const char *path, hearth_error *error);

/* As gguf_open, but accepts tensors of types that hearth has no format for (stored_tensor.foreign), since a model may
 * have them where they are not used. Their bytes are those up to the next tensor, or to the end of the file. */
hearth_status gguf_open_any(checkpoint **out, const char *path, hearth_error *error);

/* As gguf_open and gguf_open_any, but from memory, which must outlive the checkpoint, and one part of a split model
 * alone. Used by the fuzzers. */
hearth_status gguf_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                         hearth_error *error);
hearth_status gguf_parse_any(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                             hearth_error *error);

/* A file that is being written: first the head, then the bytes of the tensors in the order given to
 * gguf_writer_open. */
typedef struct gguf_writer gguf_writer;

/* Begins a file and writes its head. powerinfer: with the magic PWRI. entries: all keys; general.alignment is
 * honoured where present (else 32). tensors: name, format, rank and shape are read, data is not. HEARTH_INVALID: a
 * tensor's shape or the alignment cannot be written. */
hearth_status gguf_writer_open(gguf_writer **out, const char *path, bool powerinfer, const key_value *entries,
                               size_t entry_count, const stored_tensor *tensors, size_t tensor_count,
                               hearth_error *error);
/* Writes the next bytes of the current tensor; moves to the next tensor when it is complete. */
hearth_status gguf_writer_put(gguf_writer *w, const void *data, size_t size_bytes, hearth_error *error);
/* Finishes the file; all tensors must be complete. Frees the writer in any case; on failure no file is left. */
hearth_status gguf_writer_commit(gguf_writer *w, hearth_error *error);
/* Frees the writer and leaves no file; w may be NULL. */
void gguf_writer_discard(gguf_writer *w);

#endif
