/* safetensors.c - reads the tensors of a file; their data stays in the mapping.
 *
 * The format requires that the tensors fill the data without gap or overlap, so a truncated file, or one with hidden
 * bytes, is refused. An index is checked in both directions: every tensor that it names must be in its shard, and a
 * shard may hold no other tensors. A stale shard of another model would be noticed. */
#include "safetensors.h"

#include "../base/json.h"
#include "extent.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INDEX_FILE       "model.safetensors.index.json"
#define MAX_HEADER_BYTES 100000000 /* limit of the format                                     */
#define QUOTED           128       /* bytes of a name in an error text                        */
#define MAX_RANK         8         /* of a tensor that is not read: filters for pictures and films have 4 or 5 */

static const struct {
    const char *dtype;
    number_format format;
    size_t bytes; /* of a value */
} dtypes[] = {
    {"F32", FORMAT_F32, 4},
    {"F16", FORMAT_F16, 2},
    {"BF16", FORMAT_BF16, 2},
    /* Packed weights, floats that scales belong to, and whole numbers: no formats of hearth's, see stored_tensor.foreign. */
    {"U8", FORMAT_STORED_COUNT, 1},
    {"F8_E4M3", FORMAT_STORED_COUNT, 1},
    {"F8_E8M0", FORMAT_STORED_COUNT, 1},
    {"I8", FORMAT_STORED_COUNT, 1},
    {"I32", FORMAT_STORED_COUNT, 4},
    {"I64", FORMAT_STORED_COUNT, 8},
    {"BOOL", FORMAT_STORED_COUNT, 1},
};

typedef struct header_reader {
    checkpoint *c;
    const char *path;    /* path of the file that is being read                     */
    const uint8_t *data; /* first byte behind the header                            */
    size_t data_bytes;
    const json_t *weight_map; /* name -> shard; NULL: the folder has no index            */
    const char *shard;        /* name of this file in weight_map                         */
    buffer extents;           /* of extent                                               */
    hearth_error *error;
} header_reader;

/* Reports an error about a tensor: "FILE: tensor NAME: REASON". */
__attribute__((format(printf, 4, 5))) static hearth_status refuse(const header_reader *r, hearth_status status,
                                                                  const char *name, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return fail(r->error, status, "%s: tensor %.*s: %s", r->path, QUOTED, name, reason);
}

/* ------------------------------------------------------------- one tensor */

/* *bytes: of a value. */
static hearth_status read_dtype(const header_reader *r, const json_t *value, stored_tensor *t, size_t *bytes)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (!dtype)
        return refuse(r, HEARTH_FORMAT, t->name, "dtype is missing or no string");
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++) {
        if (strcmp(dtype, dtypes[i].dtype) != 0)
            continue;
        t->format = dtypes[i].format;
        t->foreign = t->format == FORMAT_STORED_COUNT ? dtypes[i].dtype : NULL;
        *bytes = dtypes[i].bytes;
        return HEARTH_OK;
    }
    return refuse(r, HEARTH_UNSUPPORTED, t->name,
                  "dtype %.32s is not supported, only F32, F16, BF16, F8_E4M3, F8_E8M0, U8, I8, I32 and I64", dtype);
}

/* Reads item i of an array as an integer of at least 0; returns false where it is none. */
static bool get_size(const json_t *array, size_t i, uint64_t *out)
{
    const json_t *item = json_array_get(array, i);
    if (!json_is_integer(item) || json_integer_value(item) < 0)
        return false;
    *out = (uint64_t)json_integer_value(item);
    return true;
}

/* Takes a tensor of more dimensions than hearth has as one of a foreign type: a model of text has none, and one of text and
 * pictures has them beside the text's. bytes: of a value. */
static hearth_status read_long_shape(const header_reader *r, const json_t *shape, size_t bytes, stored_tensor *t)
{
    static const char *const types[MAX_RANK - TENSOR_MAX_RANK] = {"5 dimensions", "6 dimensions", "7 dimensions",
                                                                  "8 dimensions"};
    size_t rank = json_array_size(shape);
    uint64_t size;
    if (rank <= TENSOR_MAX_RANK || rank > MAX_RANK)
        return refuse(r, HEARTH_UNSUPPORTED, t->name, "has %zu dimensions, at most %d are supported", rank, MAX_RANK);
    for (size_t i = 0; i < rank; i++)
        if (!get_size(shape, i, &size) || size == 0 || !size_multiply(bytes, size, &bytes))
            return refuse(r, HEARTH_FORMAT, t->name, "dimension %zu is not a size, is 0 or is too large", i);
    t->foreign = types[rank - TENSOR_MAX_RANK - 1];
    t->format = FORMAT_STORED_COUNT;
    t->rank = 1;
    for (size_t i = 0; i < TENSOR_MAX_RANK; i++)
        t->shape[i] = 1;
    t->size_bytes = bytes;
    return HEARTH_OK;
}

/* Reads the shape, which the file stores in reverse order (contiguous dimension last), and computes the size in
 * bytes. A scalar becomes a row of one value. bytes: of a value. */
static hearth_status read_shape(const header_reader *r, const json_t *value, size_t bytes, stored_tensor *t)
{
    const json_t *shape = json_object_get(value, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return refuse(r, HEARTH_FORMAT, t->name, "shape is missing or no array");
    if (rank > TENSOR_MAX_RANK)
        return read_long_shape(r, shape, bytes, t);
    for (size_t i = 0; i < TENSOR_MAX_RANK; i++) {
        t->shape[i] = 1;
        if (i < rank && !get_size(shape, rank - 1 - i, &t->shape[i]))
            return refuse(r, HEARTH_FORMAT, t->name, "dimension %zu is not a size", rank - 1 - i);
        if (t->shape[i] == 0)
            return refuse(r, HEARTH_FORMAT, t->name, "dimension %zu is 0", rank - 1 - i);
        if (!size_multiply(bytes, t->shape[i], &bytes))
            return refuse(r, HEARTH_FORMAT, t->name, "the shape is too large");
    }
    t->rank = rank ? (uint32_t)rank : 1;
    t->size_bytes = bytes;
    return HEARTH_OK;
}

/* Reads where the tensor lies in the data and checks that against its shape and dtype. */
static hearth_status read_extent(header_reader *r, const json_t *value, stored_tensor *t)
{
    const json_t *offsets = json_object_get(value, "data_offsets");
    extent place = {.tensor = r->c->tensor_count};
    if (json_array_size(offsets) != 2 || !get_size(offsets, 0, &place.begin) || !get_size(offsets, 1, &place.end))
        return refuse(r, HEARTH_FORMAT, t->name, "data_offsets is not a pair of sizes");
    if (place.end < place.begin || place.end > r->data_bytes)
        return refuse(r, HEARTH_FORMAT, t->name, "bytes %" PRIu64 " to %" PRIu64 " of the data, which has only %zu",
                      place.begin, place.end, r->data_bytes);
    if (place.end - place.begin != t->size_bytes)
        return refuse(r, HEARTH_FORMAT, t->name, "has %" PRIu64 " bytes, but its shape and dtype make %zu",
                      place.end - place.begin, t->size_bytes);
    if (!buffer_put(&r->extents, &place, sizeof(place)))
        return fail_memory(r->error, r->path, sizeof(place));
    t->data = r->data + place.begin;
    return HEARTH_OK;
}

/* Reads one item of the header. With an index, the tensor must belong to this shard. */
static hearth_status read_tensor(header_reader *r, const char *name, const json_t *value)
{
    stored_tensor t = {.name = name};
    if (!*name || !json_is_object(value))
        return refuse(r, HEARTH_FORMAT, name, "expected a name and an object");
    if (r->weight_map) {
        const char *shard = json_string_value(json_object_get(r->weight_map, name));
        if (!shard || strcmp(shard, r->shard) != 0)
            return refuse(r, HEARTH_FORMAT, name, "lies in this file, but not according to %s", INDEX_FILE);
    }
    size_t bytes = 0;
    TRY(read_dtype(r, value, &t, &bytes));
    TRY(read_shape(r, value, bytes, &t));
    TRY(read_extent(r, value, &t));
    return checkpoint_add_tensor(r->c, &t, r->error);
}

/* ---------------------------------------------------------------- one file */

/* Checks that every byte of the data belongs to exactly one tensor. */
static hearth_status check_cover(header_reader *r)
{
    size_t count;
    const extent *extents = extents_sorted(&r->extents, &count);
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        if (extents[i].begin != end)
            return refuse(r, HEARTH_FORMAT, r->c->tensors[extents[i].tensor].name,
                          "begins at byte %" PRIu64 " of the data, expected %" PRIu64
                          ": tensors must follow each other without gap or overlap",
                          extents[i].begin, end);
        end = extents[i].end;
    }
    if (end != r->data_bytes)
        return fail(r->error, HEARTH_FORMAT, "%s: data: %zu bytes, but the tensors fill only %" PRIu64, r->path,
                    r->data_bytes, end);
    return HEARTH_OK;
}

/* Checks that __metadata__ is an object of strings; it is not used. */
static hearth_status check_metadata(const header_reader *r, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool texts = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
    {
        texts = texts && json_is_string(value);
    }
    if (!texts)
        return fail(r->error, HEARTH_FORMAT, "%s: __metadata__: expected an object of strings", r->path);
    return HEARTH_OK;
}

static hearth_status read_header(header_reader *r, json_t *header)
{
    const char *name;
    json_t *value;
    if (!json_is_object(header))
        return fail(r->error, HEARTH_FORMAT, "%s: header: expected a JSON object", r->path);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            TRY(check_metadata(r, value));
        else
            TRY(read_tensor(r, name, value));
    }
    return check_cover(r);
}

/* Reads one file. In r, c, path and error must be set, and weight_map and shard where there is an index. */
static hearth_status read_file(header_reader *r, const uint8_t *data, size_t size_bytes)
{
    uint64_t header_bytes;
    if (size_bytes < sizeof(header_bytes))
        return fail(r->error, HEARTH_FORMAT, "%s: header: %zu bytes are not a safetensors file", r->path, size_bytes);
    memcpy(&header_bytes, data, sizeof(header_bytes));
    size_t left = size_bytes - sizeof(header_bytes);
    if (header_bytes > MAX_HEADER_BYTES)
        return fail(r->error, HEARTH_FORMAT, "%s: header: is said to have %" PRIu64 " bytes, at most %d are allowed",
                    r->path, header_bytes, MAX_HEADER_BYTES);
    if (header_bytes > left)
        return fail(r->error, HEARTH_FORMAT, "%s: header: is said to have %" PRIu64 " bytes, but the file has only %zu",
                    r->path, header_bytes, left);
    const uint8_t *text = data + sizeof(header_bytes);
    r->data = text + header_bytes;
    r->data_bytes = left - (size_t)header_bytes;
    json_t *header;
    TRY(json_parse(&header, (const char *)text, (size_t)header_bytes, r->path, r->error));
    hearth_status status = read_header(r, header);
    buffer_free(&r->extents);
    json_decref(header);
    return status;
}

hearth_status safetensors_parse(checkpoint *c, const uint8_t *data, size_t size_bytes, const char *path,
                                hearth_error *error)
{
    header_reader r = {.c = c, .path = path, .error = error};
    return read_file(&r, data, size_bytes);
}

hearth_status safetensors_add(checkpoint *c, const char *path, const json_t *weight_map, const char *shard,
                              hearth_error *error)
{
    file_map map;
    header_reader r = {.c = c, .path = path, .weight_map = weight_map, .shard = shard, .error = error};
    TRY(file_map_open(&map, path, error));
    TRY(checkpoint_own_map(c, map, error));
    return read_file(&r, map.data, map.size_bytes);
}
