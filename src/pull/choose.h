/* choose.h - which files of a repository make the model that was asked for.
 *
 * A GGUF file is a model by itself, or all its parts together (file/gguf_split.h). Where a repository has none, its
 * model is a folder: the weights, and the small files that describe them and their vocabulary, all of which `hearth
 * convert` reads. */
#ifndef PULL_CHOOSE_H
#define PULL_CHOOSE_H

#include "listing.h"
#include "reference.h"

typedef struct chosen {
    const listed_file **files; /* [count]; of the listing. Parts are in order */
    size_t count;
    bool is_folder; /* they belong into a folder of their own */
} chosen;

/* Chooses; the list is in `memory`. HEARTH_INVALID: there is no such file, none of that quantization, or several; the
 * error lists what there is, with sizes. HEARTH_FORMAT: a part of a split file is missing. HEARTH_UNSUPPORTED: the
 * repository has nothing that hearth reads. */
hearth_status choose_files(chosen *out, const listing *l, const reference *r, arena *memory, hearth_error *error);

#endif
