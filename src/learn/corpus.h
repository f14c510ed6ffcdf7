/* corpus.h - the texts that a model is learnt about: files as ids, in windows behind BOS.
 *
 * A file that is empty, or no text (a NUL byte, or bytes that are not UTF-8), is refused by name: it would be counted
 * without complaint and teach nonsense. */
#ifndef LEARN_CORPUS_H
#define LEARN_CORPUS_H

#include "../base/error.h"
#include "../base/hash.h"

#include <stddef.h>
#include <stdint.h>

/* Ids to read, cut into windows: window i is ids [starts[i], starts[i + 1]), a BOS of its own in front where the model
 * has one (part of the ids). No window spans two files. */
typedef struct corpus {
    int32_t *ids;   /* [id_count]         */
    size_t *starts; /* [window_count + 1] */
    size_t id_count, window_count;
    uint64_t text_bytes;         /* of the files; 0 for ids */
    char digest[HASH_TEXT_SIZE]; /* of the ids and where they are cut: tells one corpus from another */
} corpus;

/* window: ids of the longest, BOS included; 0: 512, or the model's context where that is less.
 * HEARTH_FORMAT: an empty or binary file, more tokens than can be counted. HEARTH_UNSUPPORTED: the model has no
 * tokenizer. On failure *out is empty. */
hearth_status corpus_read(corpus *out, const hearth_model *model, const char *const *paths, size_t path_count,
                          uint32_t window, hearth_error *error);
/* The same of files whose documents (eval/documents.h) are texts of their own, so that no window spans two of them.
 * separator NULL: each file is one text. */
hearth_status corpus_read_parts(corpus *out, const hearth_model *model, const char *const *paths, size_t path_count,
                                const char *separator, uint32_t window, hearth_error *error);
/* The same of given ids, which are checked against the vocabulary. No BOS is put in front: they are read as they are. */
hearth_status corpus_of_ids(corpus *out, const hearth_model *model, const int32_t *ids, size_t id_count,
                            uint32_t window, hearth_error *error);
/* What the model writes itself, from BOS on, at temperature 1 and seed 1: about `tokens` ids (0: 512) in texts that end
 * where it ends them or the window does. Asks for no text, and so knows only what the model says unasked.
 * HEARTH_CANCELLED through progress, which is told of every token. */
hearth_status corpus_written(corpus *out, const hearth_engine *engine, uint32_t tokens, uint32_t window,
                             const hearth_progress *progress, hearth_error *error);
/* A zeroed one is empty. */
void corpus_free(corpus *c);

#endif
