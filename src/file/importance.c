/* importance.c - reads both kinds of importance matrices, as tensors of mean squares. */
#include "importance_values.h"

#include "../base/file.h"
#include "gguf.h"

#include <stdio.h>
#include <string.h>

/* Adds a tensor; *out are its values, to be filled in. */
static hearth_status add_values(float **out, checkpoint *c, span name, uint64_t columns, uint64_t matrices,
                                hearth_error *error)
{
    size_t count, bytes = 0;
    char *text = NULL;
    float *values = NULL;
    if (size_multiply(columns, matrices, &count) && size_multiply(count, sizeof *values, &bytes)) {
        text = arena_copy_text(&c->memory, name.data, name.size);
        values = arena_new_array(&c->memory, count, sizeof *values);
    }
    if (!text || !values)
        return fail_memory(error, c->path, columns * sizeof *values);
    stored_tensor t = {.name = text,
                       .format = FORMAT_F32,
                       .rank = 2,
                       .shape = {columns, matrices, 1, 1},
                       .data = values,
                       .size_bytes = bytes};
    *out = values;
    return checkpoint_add_tensor(c, &t, error);
}

static hearth_status refuse_value(const checkpoint *c, span name, hearth_error *error)
{
    return fail(error, HEARTH_FORMAT, "%s: %.*s: a value is negative or not finite", c->path,
                name.size < 128 ? (int)name.size : 128, name.data);
}

/* ------------------------------------------------------------------ GGUF */

static hearth_status read_sums(checkpoint *c, const checkpoint *from, const stored_tensor *sums, hearth_error *error)
{
    size_t size = strlen(sums->name) - strlen(SUMS);
    span name = {sums->name, size};
    char counts_name[512];
    if (size >= sizeof counts_name - sizeof COUNTS)
        return fail(error, HEARTH_FORMAT, "%s: a name has more than %zu bytes", c->path, sizeof counts_name);
    snprintf(counts_name, sizeof counts_name, "%.*s%s", (int)size, sums->name, COUNTS);
    const stored_tensor *counts = checkpoint_find_tensor(from, counts_name);
    uint64_t columns = sums->shape[0], matrices = sums->shape[1];
    if (!counts || counts->format != FORMAT_F32 || sums->format != FORMAT_F32 || sums->rank > 2 || counts->rank > 2 ||
        counts->shape[0] != 1 || counts->shape[1] != matrices || sums->foreign || counts->foreign)
        return fail(error, HEARTH_FORMAT, "%s: %s: does not go with its counts", c->path, sums->name);
    float *values;
    TRY(add_values(&values, c, name, columns, matrices, error));
    for (uint64_t m = 0; m < matrices; m++) {
        float count;
        memcpy(&count, (const char *)counts->data + m * sizeof count, sizeof count);
        for (uint64_t k = 0; k < columns; k++) {
            float sum;
            memcpy(&sum, (const char *)sums->data + (m * columns + k) * sizeof sum, sizeof sum);
            float mean = count > 0 ? sum / count : 1;
            if (!is_fit(sum) || !is_fit(count) || !is_fit(mean))
                return refuse_value(c, name, error);
            values[m * columns + k] = mean;
        }
    }
    return HEARTH_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size > end_size && strcmp(text + size - end_size, end) == 0;
}

static hearth_status read_gguf(checkpoint *c, const uint8_t *data, size_t size_bytes, hearth_error *error)
{
    checkpoint *from;
    TRY(gguf_parse_any(&from, data, size_bytes, c->path, error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < from->tensor_count; i++)
        if (ends_with(from->tensors[i].name, SUMS))
            status = read_sums(c, from, &from->tensors[i], error);
    checkpoint_close(from);
    return status;
}

/* ------------------------------------------------------------------ the older list */

/* What is left of the file. */
typedef struct list_reader {
    const checkpoint *c;
    span rest;
    hearth_error *error;
} list_reader;

static hearth_status take(list_reader *r, size_t size, span *out)
{
    if (size > r->rest.size)
        return fail(r->error, HEARTH_FORMAT, "%s: the file ends within an entry, or is no importance matrix",
                    r->c->path);
    *out = (span){r->rest.data, size};
    r->rest = (span){r->rest.data + size, r->rest.size - size};
    return HEARTH_OK;
}

static hearth_status take_number(list_reader *r, int32_t least, const char *what, size_t *out)
{
    span bytes = {0};
    int32_t number;
    TRY(take(r, sizeof number, &bytes));
    memcpy(&number, bytes.data, sizeof number);
    if (number < least)
        return fail(r->error, HEARTH_FORMAT, "%s: %s is %d", r->c->path, what, number);
    *out = (size_t)number;
    return HEARTH_OK;
}

static hearth_status read_entry(list_reader *r, checkpoint *c)
{
    size_t length = 0, calls = 0, count = 0;
    span name = {0}, bytes = {0};
    TRY(take_number(r, 1, "the length of a name", &length));
    TRY(take(r, length, &name));
    TRY(take_number(r, 0, "a number of calls", &calls));
    TRY(take_number(r, 1, "a number of values", &count));
    if (!utf8_is_valid(name.data, name.size) || memchr(name.data, 0, name.size))
        return fail(r->error, HEARTH_FORMAT, "%s: a name is not UTF-8", c->path);
    TRY(take(r, count * sizeof(float), &bytes));
    float *values;
    TRY(add_values(&values, c, name, count, 1, r->error));
    memcpy(values, bytes.data, bytes.size);
    for (size_t k = 0; k < count; k++) {
        if (!is_fit(values[k]))
            return refuse_value(c, name, r->error);
        values[k] = calls > 0 ? values[k] / (float)calls : 1;
    }
    return HEARTH_OK;
}

/* Behind the entries may follow how many calls there were in all, and of what text; nobody needs it. */
static hearth_status read_list(checkpoint *c, const uint8_t *data, size_t size_bytes, hearth_error *error)
{
    list_reader r = {c, {(const char *)data, size_bytes}, error};
    size_t count = 0;
    TRY(take_number(&r, 1, "the number of entries", &count));
    for (size_t i = 0; i < count; i++)
        TRY(read_entry(&r, c));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ either */

hearth_status importance_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                               hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, path, error));
    bool is_gguf = size_bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
    hearth_status status = is_gguf ? read_gguf(c, data, size_bytes, error) : read_list(c, data, size_bytes, error);
    if (status == HEARTH_OK && c->tensor_count == 0)
        status = fail(error, HEARTH_FORMAT, "%s: holds no importance of any matrix", path);
    if (status == HEARTH_OK)
        *out = c;
    else
        checkpoint_close(c);
    return status;
}

hearth_status importance_open(checkpoint **out, const char *path, hearth_error *error)
{
    file_map map;
    TRY(file_map_open(&map, path, error));
    hearth_status status = importance_parse(out, map.data, map.size_bytes, path, error);
    file_map_close(&map);
    return status;
}
