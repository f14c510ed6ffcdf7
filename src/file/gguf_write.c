/* gguf_write.c - writes GGUF version 3 from front to back.
 *
 * The head is written before the first byte of data, so sizes and offsets must be known beforehand, and tensors of
 * any size can be written in pieces. The file gets its name only when it is complete (base/file.h). Entries and
 * tensors come from hearth itself; a mistake in them is HEARTH_INVALID. */
#include "gguf.h"

#include <string.h>

struct gguf_writer {
    file_writer *file;
    bool powerinfer;
    uint32_t alignment;
    const char *path;
    const char **names;    /* [count] for error texts                       */
    size_t *sizes;         /* [count] bytes of each tensor                  */
    size_t count, current; /* number of tensors; index of the current one   */
    size_t done;           /* bytes written of the current tensor           */
    arena memory;
};

static hearth_status put_u32(file_writer *f, uint32_t value, hearth_error *error)
{
    return file_writer_put(f, &value, sizeof(value), error);
}

static hearth_status put_u64(file_writer *f, uint64_t value, hearth_error *error)
{
    return file_writer_put(f, &value, sizeof(value), error);
}

static hearth_status put_string(file_writer *f, span text, hearth_error *error)
{
    TRY(put_u64(f, text.size, error));
    return text.size ? file_writer_put(f, text.data, text.size, error) : HEARTH_OK;
}

/* ----------------------------------------------------------------- entries */

static hearth_status put_array(file_writer *f, const key_value *entry, hearth_error *error)
{
    TRY(put_u32(f, entry->item_type, error));
    TRY(put_u64(f, entry->count, error));
    if (entry->count == 0)
        return HEARTH_OK;
    if (entry->item_type != VALUE_STRING)
        return file_writer_put(f, entry->as.items, (size_t)entry->count * value_size(entry->item_type), error);
    for (uint64_t i = 0; i < entry->count; i++)
        TRY(put_string(f, entry->as.strings[i], error));
    return HEARTH_OK;
}

/* Writes a key, its type and its value. */
static hearth_status put_entry(file_writer *f, const key_value *entry, hearth_error *error)
{
    TRY(put_string(f, span_of(entry->key), error));
    TRY(put_u32(f, entry->type, error));
    if (entry->type == VALUE_ARRAY)
        return put_array(f, entry, error);
    if (entry->type == VALUE_STRING)
        return put_string(f, entry->as.string, error);
    if (entry->type == VALUE_F32) {
        float narrow = (float)entry->as.f;
        return file_writer_put(f, &narrow, sizeof(narrow), error);
    }
    /* Little-endian: the first bytes of a wide number are the narrow number. */
    return file_writer_put(f, &entry->as, value_size(entry->type), error);
}

/* -------------------------------------------------------------------- head */

/* Finds the alignment of the data among the keys. */
static hearth_status read_alignment(gguf_writer *w, const key_value *entries, size_t count, hearth_error *error)
{
    w->alignment = GGUF_ALIGNMENT;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(entries[i].key, "general.alignment") != 0)
            continue;
        uint64_t value = entries[i].type == VALUE_U32 ? entries[i].as.u : 0;
        if (value < 8 || value > UINT32_MAX || (value & (value - 1)) != 0)
            return fail(error, HEARTH_INVALID,
                        "%s: key general.alignment: expected a u32, a power of two of at least 8", w->path);
        w->alignment = (uint32_t)value;
    }
    return HEARTH_OK;
}

/* Computes the size of a tensor and copies its name. HEARTH_INVALID: its shape or format cannot be written. */
static hearth_status measure_tensor(gguf_writer *w, size_t i, const stored_tensor *t, hearth_error *error)
{
    size_t size = 0;
    bool fits = t->rank >= 1 && t->rank <= TENSOR_MAX_RANK && number_row_bytes(t->format, t->shape[0], &size);
    for (uint32_t k = 1; fits && k < t->rank; k++)
        fits = size_multiply(size, t->shape[k], &size);
    if (!fits || size == 0)
        return fail(error, HEARTH_INVALID, "%s: tensor %s: shape or format cannot be written", w->path, t->name);
    w->sizes[i] = size;
    w->names[i] = arena_copy_text(&w->memory, t->name, strlen(t->name));
    if (!w->names[i])
        return fail_memory(error, w->path, strlen(t->name) + 1);
    return HEARTH_OK;
}

static hearth_status put_tensor(gguf_writer *w, const stored_tensor *t, uint64_t offset, hearth_error *error)
{
    TRY(put_string(w->file, span_of(t->name), error));
    TRY(put_u32(w->file, t->rank, error));
    TRY(file_writer_put(w->file, t->shape, t->rank * sizeof(*t->shape), error));
    TRY(put_u32(w->file, number_formats[t->format].gguf_type, error));
    return put_u64(w->file, offset, error);
}

/* Writes everything in front of the data; offsets count from the start of the data. */
static hearth_status put_head(gguf_writer *w, const key_value *entries, size_t entry_count,
                              const stored_tensor *tensors, hearth_error *error)
{
    TRY(file_writer_put(w->file, w->powerinfer ? "PWRI" : "GGUF", 4, error));
    TRY(put_u32(w->file, 3, error));
    TRY(put_u64(w->file, w->count, error));
    TRY(put_u64(w->file, entry_count, error));
    for (size_t i = 0; i < entry_count; i++)
        TRY(put_entry(w->file, &entries[i], error));
    uint64_t offset = 0;
    for (size_t i = 0; i < w->count; i++) {
        TRY(put_tensor(w, &tensors[i], offset, error));
        offset += w->sizes[i] + (w->alignment - w->sizes[i] % w->alignment) % w->alignment;
    }
    return file_writer_pad(w->file, w->alignment, error);
}

/* Checks everything and allocates all memory before the file is created, then writes the head. */
static hearth_status prepare(gguf_writer *w, const char *path, const key_value *entries, size_t entry_count,
                             const stored_tensor *tensors, hearth_error *error)
{
    w->path = arena_copy_text(&w->memory, path, strlen(path));
    w->names = arena_new_array(&w->memory, w->count + 1, sizeof(*w->names));
    w->sizes = arena_new_array(&w->memory, w->count + 1, sizeof(*w->sizes));
    if (!w->path || !w->names || !w->sizes)
        return fail_memory(error, path, w->count * sizeof(*w->sizes));
    TRY(read_alignment(w, entries, entry_count, error));
    for (size_t i = 0; i < w->count; i++)
        TRY(measure_tensor(w, i, &tensors[i], error));
    TRY(file_writer_open(&w->file, path, error));
    return put_head(w, entries, entry_count, tensors, error);
}

/* ------------------------------------------------------------------ public */

hearth_status gguf_writer_open(gguf_writer **out, const char *path, bool powerinfer, const key_value *entries,
                               size_t entry_count, const stored_tensor *tensors, size_t tensor_count,
                               hearth_error *error)
{
    gguf_writer *w = mem_new(sizeof(*w));
    if (!w)
        return fail_memory(error, path, sizeof(*w));
    w->count = tensor_count;
    w->powerinfer = powerinfer;
    hearth_status status = prepare(w, path, entries, entry_count, tensors, error);
    if (status != HEARTH_OK) {
        gguf_writer_discard(w);
        return status;
    }
    *out = w;
    return HEARTH_OK;
}

hearth_status gguf_writer_put(gguf_writer *w, const void *data, size_t size_bytes, hearth_error *error)
{
    if (w->current == w->count)
        return fail(error, HEARTH_INVALID, "%s: %zu bytes more than its tensors hold", w->path, size_bytes);
    size_t left = w->sizes[w->current] - w->done;
    if (size_bytes > left)
        return fail(error, HEARTH_INVALID, "%s: tensor %s: %zu bytes given, but only %zu are left of it", w->path,
                    w->names[w->current], size_bytes, left);
    TRY(file_writer_put(w->file, data, size_bytes, error));
    w->done += size_bytes;
    if (size_bytes < left)
        return HEARTH_OK;
    w->current++;
    w->done = 0;
    return file_writer_pad(w->file, w->alignment, error);
}

hearth_status gguf_writer_commit(gguf_writer *w, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    if (w->current < w->count) {
        status = fail(error, HEARTH_INVALID, "%s: tensor %s: only %zu of %zu bytes were given", w->path,
                      w->names[w->current], w->done, w->sizes[w->current]);
    } else {
        status = file_writer_commit(w->file, error);
        w->file = NULL; /* the commit freed it, also on failure     */
    }
    gguf_writer_discard(w);
    return status;
}

void gguf_writer_discard(gguf_writer *w)
{
    if (!w)
        return;
    if (w->file)
        file_writer_discard(w->file);
    arena_clear(&w->memory);
    mem_free(w);
}
