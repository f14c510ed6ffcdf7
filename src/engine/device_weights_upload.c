/* device_weights_upload.c - uploads matrices and vectors: they are packed in main memory, a stretch of rows at a time (see
 * device_weights_internal.h). */
#include "device_weights_internal.h"

#include "../base/memory.h"
#include "../device/packing.h"

#include <stdio.h>

/* Bytes packed at a time. */
#define STRETCH_BYTES ((size_t)16 << 20)

/* Creates the buffers for `rows` rows of m and those that follow them in its stack, stack_rows in all. */
static hearth_status make_room(const loader *l, device_matrix *out, const matrix *m, uint32_t rows, uint32_t stack_rows,
                               const char *what)
{
    char names[DEVICE_FORMAT_NAMES_SIZE];
    if (!device_has_format(m->format))
        return fail(l->error, HEARTH_UNSUPPORTED,
                    "%s: %s: is %s, for which devices have no kernels (they have %s); `hearth quantize` makes such a "
                    "file",
                    l->model->source->path, what, number_formats[m->format].name, device_format_names(names));
    size_t scale_bytes, bytes = device_packed_bytes(m->format, stack_rows, m->columns, &scale_bytes);
    out->format = m->format;
    out->rows = rows;
    out->columns = m->columns;
    out->stack_rows = stack_rows;
    l->to->bytes += bytes + scale_bytes;
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(&out->w, l->to->device, DEVICE_MEMORY, bytes, what, l->error));
    if (scale_bytes)
        TRY(device_buffer_create(&out->scales, l->to->device, DEVICE_MEMORY, scale_bytes, what, l->error));
    return HEARTH_OK;
}

bool upload_goes_on(const loader *l)
{
    return !l->progress->report ||
           l->progress->report(l->progress->user, "bytes uploaded to the device", l->done, l->total);
}

/* Uploads rows list[0 .. rows) of m, or the first `rows`, to buffers that exist. */
static hearth_status fill(loader *l, const device_matrix *to, const matrix *m, const uint32_t *list, uint32_t rows,
                          const char *what)
{
    if (l->counts)
        return HEARTH_OK;
    size_t scale_bytes, row_bytes = device_packed_bytes(m->format, 1, m->columns, &scale_bytes);
    size_t stretch = STRETCH_BYTES / (row_bytes + scale_bytes) + 1;
    stretch = stretch < rows ? stretch : rows;
    char *packed = mem_new(stretch * (row_bytes + scale_bytes) + 1);
    if (!packed)
        return fail_memory(l->error, what, stretch * (row_bytes + scale_bytes));
    uint16_t *scales = (uint16_t *)(void *)(packed + stretch * row_bytes);
    hearth_status status = HEARTH_OK;
    for (size_t at = 0, n; status == HEARTH_OK && at < rows; at += n) {
        n = rows - at < stretch ? rows - at : stretch;
        if (!upload_goes_on(l)) {
            status = fail(l->error, HEARTH_CANCELLED, "%s: uploading weights: cancelled", l->model->source->path);
            break;
        }
        device_pack(m, list ? list + at : NULL, at, n, packed, scales);
        status = device_write(to->w, to->w_at + at * row_bytes, packed, n * row_bytes, l->error);
        if (status == HEARTH_OK && scale_bytes)
            status = device_write(to->scales, to->scales_at + at * scale_bytes, scales, n * scale_bytes, l->error);
        l->done += n * (row_bytes + scale_bytes);
    }
    mem_free(packed);
    return status;
}

hearth_status upload_matrix(loader *l, device_matrix *out, const matrix *m, const uint32_t *list, uint32_t rows,
                            const char *what)
{
    TRY(make_room(l, out, m, rows, rows, what));
    return fill(l, out, m, list, rows, what);
}

size_t upload_row_bytes(const matrix *m)
{
    size_t scale_bytes, bytes = device_packed_bytes(m->format, 1, m->columns, &scale_bytes);
    return bytes + scale_bytes;
}

hearth_status upload_over(const device_matrix *to, uint32_t place, const matrix *m, uint32_t row, uint32_t count,
                          void *packed, hearth_error *error)
{
    size_t scale_bytes, row_bytes = device_packed_bytes(m->format, 1, m->columns, &scale_bytes);
    uint16_t *scales = (uint16_t *)(void *)((char *)packed + count * row_bytes);
    device_pack(m, NULL, row, count, packed, scales);
    TRY(device_write(to->w, to->w_at + place * row_bytes, packed, count * row_bytes, error));
    return scale_bytes == 0
               ? HEARTH_OK
               : device_write(to->scales, to->scales_at + place * scale_bytes, scales, count * scale_bytes, error);
}

/* Uploads the rows of a member, for which there is room. */
static hearth_status fill_member(loader *l, const member *b, const char *what)
{
    uint32_t own = b->rows - b->tail_rows;
    TRY(fill(l, b->out, b->m, b->list, own, what));
    if (b->tail_rows == 0)
        return HEARTH_OK;
    device_matrix rest = *b->out;
    size_t scale_bytes;
    rest.w_at += device_packed_bytes(rest.format, own, rest.columns, &scale_bytes);
    rest.scales_at += scale_bytes;
    return fill(l, &rest, b->tail, b->list + own, b->tail_rows, what);
}

hearth_status upload_stacks(loader *l, const member *members, size_t count, uint32_t layer)
{
    device_matrix *first = NULL;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const member *b = &members[i];
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, b->what);
        if (!first || first->format != b->m->format) {
            uint32_t all = b->rows;
            for (size_t k = i + 1; k < count && members[k].m->format == b->m->format; k++)
                all = stacked(all) + members[k].rows;
            TRY(make_room(l, b->out, b->m, b->rows, all, name));
            first = b->out;
            at = 0;
        } else {
            *b->out = (device_matrix){first->w, first->scales, 0, 0, first->format, b->rows, b->m->columns, 0};
            b->out->w_at = device_packed_bytes(first->format, at, first->columns, &b->out->scales_at);
        }
        TRY(fill_member(l, b, name));
        at += stacked(b->rows);
    }
    return HEARTH_OK;
}

hearth_status upload_floats(loader *l, device_buffer **out, const float *values, const uint32_t *list, uint32_t n,
                            const char *what)
{
    if (!values)
        return HEARTH_OK;
    l->to->bytes += n * sizeof(float);
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(out, l->to->device, DEVICE_MEMORY, n * sizeof(float), what, l->error));
    float *picked = mem_new_array((size_t)n + 1, sizeof *picked);
    if (!picked)
        return fail_memory(l->error, what, n * sizeof *picked);
    for (uint32_t i = 0; i < n; i++)
        picked[i] = values[list ? list[i] : i];
    hearth_status status = device_write(*out, 0, picked, n * sizeof *picked, l->error);
    mem_free(picked);
    return status;
}

hearth_status upload_whole(loader *l, device_matrix *out, const matrix *m, uint32_t layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return m->data ? upload_matrix(l, out, m, NULL, m->rows, name) : HEARTH_OK;
}

hearth_status upload_rows(loader *l, device_matrix *out, const matrix *m, const device_layer *to, uint32_t layer,
                          const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return m->data ? upload_matrix(l, out, m, to->rows, to->neuron_count, name) : HEARTH_OK;
}

hearth_status upload_norm(loader *l, device_norm *to, const norm_weights *from, const uint32_t *list, uint32_t n,
                          const char *what)
{
    TRY(upload_floats(l, &to->weight, from->weight, list, n, what));
    return upload_floats(l, &to->bias, from->bias, list, n, what);
}

hearth_status upload_words(loader *l, device_buffer **out, const uint32_t *words, uint32_t count, const char *what)
{
    l->to->bytes += count * sizeof *words;
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(out, l->to->device, DEVICE_MEMORY, count * sizeof *words, what, l->error));
    return device_write(*out, 0, words, count * sizeof *words, l->error);
}

hearth_status upload_zeros(loader *l, device_buffer **out, uint32_t count, const char *what)
{
    l->to->bytes += count * sizeof(uint32_t);
    return l->counts
               ? HEARTH_OK
               : device_buffer_create(out, l->to->device, DEVICE_MEMORY, count * sizeof(uint32_t), what, l->error);
}
