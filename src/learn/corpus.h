/* corpus.h - the texts from which the neurons of a model are learnt: files as token ids, in windows that begin with
 * BOS.
 *
 * A file that is empty or not text (a NUL byte, or bytes that are not UTF-8) is refused by name: counting it would
 * succeed and give meaningless figures. */
#ifndef LEARN_CORPUS_H
#define LEARN_CORPUS_H

#include "../base/error.h"
#include "../base/hash.h"

#include <stddef.h>
#include <stdint.h>

/* Token ids, cut into windows: window i is ids [starts[i], starts[i + 1]). Each window begins with its own BOS where
 * the model has one (BOS is part of ids). No window spans two files. */
typedef struct corpus {
    int32_t *ids;   /* [id_count]         */
    size_t *starts; /* [window_count + 1] */
    size_t id_count, window_count;
    uint64_t text_bytes;         /* size of the files; 0 where ids were given */
    char digest[HASH_TEXT_SIZE]; /* hash of the ids and of where they are cut: identifies the corpus */
} corpus;

/* Reads files as a corpus. separator: stands between the documents of a file, each a text of its own: no
 * window spans two of them; NULL: each file is one text. window: the most ids of a window, BOS included; 0: 512, or the
 * model's context length where that is less. HEARTH_FORMAT: an empty or binary file, or more tokens than can be
 * counted. HEARTH_UNSUPPORTED: the model has no tokenizer. On failure *out is empty. */
hearth_status corpus_read(corpus *out, const hearth_model *model, const char *const *paths, size_t path_count,
                          const char *separator, uint32_t window, hearth_error *error);
/* The same for given ids, which are checked against the vocabulary. No BOS is added. */
hearth_status corpus_of_ids(corpus *out, const hearth_model *model, const int32_t *ids, size_t id_count,
                            uint32_t window, hearth_error *error);
/* Lets the model write the corpus: `tokens` ids (0: 512) from BOS on, at temperature 1 and seed 1, in texts that end
 * where the model ends them or the window is full. Needs no text, and covers only what the model says unprompted.
 * HEARTH_CANCELLED through progress, which is called for every token. */
hearth_status corpus_written(corpus *out, const hearth_engine *engine, uint32_t tokens, uint32_t window,
                             const hearth_progress *progress, hearth_error *error);
/* Returns the ids of the longest window. */
size_t corpus_longest(const corpus *c);
/* A zeroed one is empty. */
void corpus_free(corpus *c);

#endif
