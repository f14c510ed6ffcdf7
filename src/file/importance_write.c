/* importance_write.c - writes importance matrices, of the newer kind. */
#include "importance_values.h"

#include "gguf.h"

#include <stdio.h>

#define NAME_SIZE 128 /* of a tensor, with its terminator */

/* Describes the two tensors of an entry. names: where theirs go. */
static hearth_status describe(const importance_entry *e, char names[2][NAME_SIZE], stored_tensor tensors[2],
                              const char *path, hearth_error *error)
{
    int longest = snprintf(names[0], NAME_SIZE, "%s" SUMS, e->name);
    snprintf(names[1], NAME_SIZE, "%s" COUNTS, e->name);
    if (longest >= NAME_SIZE)
        return fail(error, HEARTH_INVALID, "%s: %s: the name is too long", path, e->name);
    tensors[0] =
        (stored_tensor){.name = names[0], .format = FORMAT_F32, .rank = 2, .shape = {e->columns, e->matrices, 1, 1}};
    tensors[1] = (stored_tensor){.name = names[1], .format = FORMAT_F32, .rank = 2, .shape = {1, e->matrices, 1, 1}};
    return HEARTH_OK;
}

/* Writes count values as float32. */
static hearth_status put_values(gguf_writer *w, const double *values, size_t count, const char *path, const char *name,
                                hearth_error *error)
{
    float narrow[256];
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < sizeof narrow / sizeof *narrow ? count - at : sizeof narrow / sizeof *narrow;
        for (size_t i = 0; i < n; i++) {
            narrow[i] = (float)values[at + i];
            if (!is_fit(narrow[i]))
                return fail(error, HEARTH_INVALID, "%s: %s: a sum of squared inputs is too large for float32", path,
                            name);
        }
        TRY(gguf_writer_put(w, narrow, n * sizeof *narrow, error));
    }
    return HEARTH_OK;
}

static hearth_status put_entries(gguf_writer *w, const char *path, const importance_entry *entries, size_t count,
                                 hearth_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const importance_entry *e = &entries[i];
        TRY(put_values(w, e->sums, (size_t)e->columns * e->matrices, path, e->name, error));
        TRY(put_values(w, e->rows, e->matrices, path, e->name, error));
    }
    return HEARTH_OK;
}

hearth_status importance_write(const char *path, const importance_entry *entries, size_t count,
                               const importance_text *text, hearth_error *error)
{
    const key_value keys[] = {
        {.key = "general.type", .type = VALUE_STRING, .as.string = span_of("imatrix")},
        {.key = "imatrix.datasets",
         .type = VALUE_ARRAY,
         .item_type = VALUE_STRING,
         .count = text->name_count,
         .as.strings = text->names},
        {.key = "imatrix.chunk_count", .type = VALUE_U32, .as.u = text->windows},
        {.key = "imatrix.chunk_size", .type = VALUE_U32, .as.u = text->window_tokens},
    };
    arena memory = {0};
    char(*names)[NAME_SIZE] = arena_new_array(&memory, 2 * count, sizeof *names);
    stored_tensor *tensors = arena_new_array(&memory, 2 * count, sizeof *tensors);
    gguf_writer *w = NULL;
    hearth_status status = names && tensors ? HEARTH_OK : fail_memory(error, path, 2 * count * sizeof *tensors);
    for (size_t i = 0; status == HEARTH_OK && i < count; i++)
        status = describe(&entries[i], names + 2 * i, tensors + 2 * i, path, error);
    if (status == HEARTH_OK)
        status = gguf_writer_open(&w, path, false, keys, sizeof keys / sizeof *keys, tensors, 2 * count, error);
    if (status == HEARTH_OK)
        status = put_entries(w, path, entries, count, error);
    arena_clear(&memory);
    if (status == HEARTH_OK)
        return gguf_writer_commit(w, error);
    gguf_writer_discard(w);
    return status;
}
