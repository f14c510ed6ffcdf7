/* gguf_read.c - reads GGUF files into checkpoints, trusting nothing.
 *
 * A file is walked once from front to back. No memory is allocated for a count before its items are known to fit into
 * the file, so a small file can never ask for much. Tensor data is not touched: a tensor gets its pointer only after
 * its bounds are known to lie within the file. Versions 2 and 3 differ only in that 3 permits big-endian files. */
#include "extent.h"
#include "gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are taken from the file as they lie there");

#define MAX_KEY_BYTES    65535 /* limit of the format                                     */
#define MAX_NAME_BYTES   255   /* ggml's limit is 64; other writers may use more          */
#define MIN_ENTRY_BYTES  14    /* length, one byte of key, type, one byte of value        */
#define MIN_TENSOR_BYTES 33    /* length, one byte of name, rank, one size, type, offset  */
#define QUOTED           128   /* bytes of a name in an error text                        */

typedef struct gguf_reader {
    checkpoint *c;
    const uint8_t *data;
    size_t size, at;
    hearth_error *error;
    /* What is being read, for error texts: "key number 3", or "key general.name" once the name is known. */
    const char *kind;
    uint64_t number;
    span name;
    char *terminated; /* [MAX_KEY_BYTES + 1] the name, terminated             */
    buffer extents;   /* of extent, one per tensor                            */
    bool any_type;    /* tensors of unknown types are accepted                */
    bool has_unknown; /* and the file has at least one                        */
    buffer types;     /* of uint32_t, one per tensor                          */
} gguf_reader;

/* Other kinds of files that users may pass by mistake, with the reason to report. */
static const struct {
    char magic[5];
    const char *reason;
} foreign_files[] = {
    {"lmgg", "is a GGML file from before GGUF; convert the model again with a current program"},
    {"fmgg", "is a GGMF file from before GGUF; convert the model again with a current program"},
    {"tjgg", "is a GGJT file from before GGUF; convert the model again with a current program"},
    {"PK\3\4", "is an archive (of PyTorch?), not a GGUF file; convert the model first"},
};

/* Names of tensor types that exist but have no row in number/format.h. */
// clang-format off
static const struct {
    uint32_t type;
    const char *name;
} other_types[] = {
    { 4, "q4_2"},       { 5, "q4_3"},       { 9, "q8_1"},       {15, "q8_K"},    {24, "i8"}, {25, "i16"}, {27, "i64"},
    {28, "f64"},        {31, "q4_0_4_4"},   {32, "q4_0_4_8"},   {33, "q4_0_8_8"},
    {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"},
};
// clang-format on

/* Reports an error about what is being read: "FILE: key NAME: REASON". */
__attribute__((format(printf, 3, 4))) static hearth_status refuse(const gguf_reader *r, hearth_status status,
                                                                  const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    if (r->name.size)
        return fail(r->error, status, "%s: %s %.*s: %s", r->c->path, r->kind,
                    r->name.size < QUOTED ? (int)r->name.size : QUOTED, r->name.data, reason);
    if (r->number)
        return fail(r->error, status, "%s: %s number %" PRIu64 ": %s", r->c->path, r->kind, r->number, reason);
    return fail(r->error, status, "%s: %s: %s", r->c->path, r->kind, reason);
}

/* ------------------------------------------------------------------- bytes */

/* Copies the next bytes of the file. what: names them in the error text. */
static hearth_status take(gguf_reader *r, void *out, size_t size_bytes, const char *what)
{
    if (size_bytes > r->size - r->at)
        return refuse(r, HEARTH_FORMAT, "the file ends within the %s", what);
    memcpy(out, r->data + r->at, size_bytes);
    r->at += size_bytes;
    return HEARTH_OK;
}

/* Reads a string, which stays in the file's bytes. */
static hearth_status take_string(gguf_reader *r, span *out, const char *what)
{
    uint64_t size = 0;
    TRY(take(r, &size, sizeof(size), what));
    if (size > r->size - r->at)
        return refuse(r, HEARTH_FORMAT, "the %s is said to have %" PRIu64 " bytes, but the file has only %zu left",
                      what, size, r->size - r->at);
    *out = (span){(const char *)r->data + r->at, (size_t)size};
    r->at += (size_t)size;
    return HEARTH_OK;
}

/* Reads a key or a tensor's name into r->name and r->terminated; errors from then on name it. */
static hearth_status take_name(gguf_reader *r, size_t limit)
{
    span name;
    TRY(take_string(r, &name, "name"));
    if (name.size == 0)
        return refuse(r, HEARTH_FORMAT, "the name is empty");
    if (name.size > limit)
        return refuse(r, HEARTH_FORMAT, "the name has %zu bytes, expected at most %zu", name.size, limit);
    if (!utf8_is_valid(name.data, name.size) || memchr(name.data, 0, name.size))
        return refuse(r, HEARTH_FORMAT, "the name is not valid UTF-8 text");
    memcpy(r->terminated, name.data, name.size);
    r->terminated[name.size] = 0;
    r->name = name;
    return HEARTH_OK;
}

/* -------------------------------------------------------------------- keys */

/* Checks that bools are stored as 0 or 1. */
static hearth_status check_bools(gguf_reader *r, const uint8_t *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i] > 1)
            return refuse(r, HEARTH_FORMAT, "holds %u where 0 or 1 is expected", items[i]);
    return HEARTH_OK;
}

/* Reads a number or a bool and widens it to 64 bits. */
static hearth_status take_scalar(gguf_reader *r, key_value *entry)
{
    size_t size = value_size(entry->type);
    uint64_t bits = 0;
    TRY(take(r, &bits, size, "value"));
    value_kind kind = value_kind_of(entry->type);
    if (kind == VALUE_IS_FLOAT) {
        float narrow;
        memcpy(&narrow, &bits, sizeof(narrow));
        memcpy(&entry->as.f, &bits, sizeof(entry->as.f));
        if (size == sizeof(narrow))
            entry->as.f = (double)narrow;
        return HEARTH_OK;
    }
    if (kind == VALUE_IS_SIGNED) {
        unsigned unused = 64 - 8 * (unsigned)size; /* shifting left and right again extends the sign */
        entry->as.i = (int64_t)(bits << unused) >> unused;
        return HEARTH_OK;
    }
    entry->as.u = bits;
    return kind == VALUE_IS_BOOL ? check_bools(r, (const uint8_t *)&bits, 1) : HEARTH_OK;
}

/* Reads an array of strings. All lengths are checked first: memory is allocated only for strings that exist. */
static hearth_status take_strings(gguf_reader *r, key_value *entry)
{
    size_t start = r->at;
    span text;
    for (uint64_t i = 0; i < entry->count; i++)
        TRY(take_string(r, &text, "array"));
    span *strings = arena_new_array(&r->c->memory, (size_t)entry->count + 1, sizeof(*strings));
    if (!strings)
        return fail_memory(r->error, r->c->path, (size_t)entry->count * sizeof(*strings));
    r->at = start;
    for (uint64_t i = 0; i < entry->count; i++)
        TRY(take_string(r, &strings[i], "array"));
    entry->as.strings = strings;
    return HEARTH_OK;
}

/* Reads an array of numbers, whose size has been checked. It stays in the file's bytes where it is aligned; else it
 * is copied. */
static hearth_status take_numbers(gguf_reader *r, key_value *entry)
{
    size_t item = value_size(entry->item_type), size_bytes = (size_t)entry->count * item;
    const uint8_t *items = r->data + r->at;
    if (entry->item_type == VALUE_BOOL)
        TRY(check_bools(r, items, size_bytes));
    r->at += size_bytes;
    entry->as.items = items;
    if ((uintptr_t)items % item == 0)
        return HEARTH_OK;
    void *copy = arena_new(&r->c->memory, size_bytes + 1);
    if (!copy)
        return fail_memory(r->error, r->c->path, size_bytes);
    memcpy(copy, items, size_bytes);
    entry->as.items = copy;
    return HEARTH_OK;
}

static hearth_status take_type(gguf_reader *r, value_type *out)
{
    uint32_t type = 0;
    TRY(take(r, &type, sizeof(type), "type"));
    if (type >= VALUE_TYPE_COUNT)
        return refuse(r, HEARTH_FORMAT, "type %u does not exist", type);
    *out = (value_type)type;
    return HEARTH_OK;
}

/* Reads an array; its count must fit into the rest of the file. */
static hearth_status take_array(gguf_reader *r, key_value *entry)
{
    TRY(take_type(r, &entry->item_type));
    TRY(take(r, &entry->count, sizeof(entry->count), "array"));
    if (entry->item_type == VALUE_ARRAY)
        return refuse(r, HEARTH_UNSUPPORTED, "is an array of arrays");
    size_t least = entry->item_type == VALUE_STRING ? sizeof(uint64_t) : value_size(entry->item_type);
    if (entry->count > (r->size - r->at) / least)
        return refuse(r, HEARTH_FORMAT,
                      "the array is said to have %" PRIu64 " items, but the file has only %zu bytes left", entry->count,
                      r->size - r->at);
    return entry->item_type == VALUE_STRING ? take_strings(r, entry) : take_numbers(r, entry);
}

static hearth_status take_value(gguf_reader *r, key_value *entry)
{
    TRY(take_type(r, &entry->type));
    if (entry->type == VALUE_ARRAY)
        return take_array(r, entry);
    if (entry->type == VALUE_STRING)
        return take_string(r, &entry->as.string, "string");
    return take_scalar(r, entry);
}

static hearth_status read_entry(gguf_reader *r)
{
    key_value entry = {.key = r->terminated};
    TRY(take_name(r, MAX_KEY_BYTES));
    TRY(take_value(r, &entry));
    return checkpoint_add_entry(r->c, &entry, r->error);
}

/* ----------------------------------------------------------------- tensors */

const char *gguf_type_name(uint32_t type)
{
    number_format known = number_format_by_gguf_type(type);
    if (known != FORMAT_STORED_COUNT)
        return number_formats[known].name;
    for (size_t i = 0; i < sizeof(other_types) / sizeof(*other_types); i++)
        if (other_types[i].type == type)
            return other_types[i].name;
    return NULL;
}

/* Reads the type of a tensor. An unknown type is an error unless any_type is set. */
static hearth_status take_format(gguf_reader *r, stored_tensor *t)
{
    uint32_t type = 0;
    TRY(take(r, &type, sizeof(type), "type"));
    t->format = number_format_by_gguf_type(type);
    r->has_unknown |= t->format == FORMAT_STORED_COUNT;
    if (!buffer_put(&r->types, &type, sizeof(type)))
        return fail_memory(r->error, r->c->path, sizeof(type));
    if (t->format != FORMAT_STORED_COUNT || r->any_type)
        return HEARTH_OK;
    const char *name = gguf_type_name(type);
    return name ? refuse(r, HEARTH_UNSUPPORTED, "is of type %s, which is not supported", name)
                : refuse(r, HEARTH_UNSUPPORTED, "is of type number %u, which is unknown", type);
}

/* Reads rank and shape; the number of values must fit into 64 bits. */
static hearth_status take_shape(gguf_reader *r, stored_tensor *t)
{
    TRY(take(r, &t->rank, sizeof(t->rank), "rank"));
    if (t->rank < 1 || t->rank > TENSOR_MAX_RANK)
        return refuse(r, HEARTH_FORMAT, "has %u dimensions, expected 1 to %d", t->rank, TENSOR_MAX_RANK);
    uint64_t values = 1;
    for (uint32_t i = 0; i < TENSOR_MAX_RANK; i++) {
        t->shape[i] = 1;
        if (i < t->rank)
            TRY(take(r, &t->shape[i], sizeof(t->shape[i]), "shape"));
        if (t->shape[i] == 0)
            return refuse(r, HEARTH_FORMAT, "dimension %u is 0", i);
        if (__builtin_mul_overflow(values, t->shape[i], &values))
            return refuse(r, HEARTH_FORMAT, "the shape is too large");
    }
    return HEARTH_OK;
}

/* Computes the size in bytes of a tensor from its shape and format. */
static hearth_status find_size(const gguf_reader *r, stored_tensor *t)
{
    size_t row_bytes, rows = (size_t)(t->shape[1] * t->shape[2] * t->shape[3]);
    if (t->shape[0] % number_formats[t->format].block_values != 0)
        return refuse(r, HEARTH_FORMAT, "rows of %" PRIu64 " values are not a whole number of %s blocks of %u",
                      t->shape[0], number_formats[t->format].name, number_formats[t->format].block_values);
    if (!number_row_bytes(t->format, t->shape[0], &row_bytes) || !size_multiply(row_bytes, rows, &t->size_bytes))
        return refuse(r, HEARTH_FORMAT, "the shape is too large");
    return HEARTH_OK;
}

/* Reads the offset of a tensor and computes its extent, which is empty for an unknown format. */
static hearth_status take_extent(gguf_reader *r, stored_tensor *t, extent *out)
{
    if (t->format != FORMAT_STORED_COUNT)
        TRY(find_size(r, t));
    TRY(take(r, &out->begin, sizeof(out->begin), "offset"));
    if (__builtin_add_overflow(out->begin, t->size_bytes, &out->end))
        return refuse(r, HEARTH_FORMAT, "offset %" PRIu64 " is too large", out->begin);
    return HEARTH_OK;
}

static hearth_status read_tensor(gguf_reader *r)
{
    stored_tensor tensor = {.name = r->terminated};
    extent place = {.tensor = r->c->tensor_count};
    TRY(take_name(r, MAX_NAME_BYTES));
    TRY(take_shape(r, &tensor));
    TRY(take_format(r, &tensor));
    TRY(take_extent(r, &tensor, &place));
    if (!buffer_put(&r->extents, &place, sizeof(place)))
        return fail_memory(r->error, r->c->path, sizeof(place));
    return checkpoint_add_tensor(r->c, &tensor, r->error);
}

/* Reads general.alignment; the format's default where it is absent. */
static hearth_status find_alignment(gguf_reader *r, uint32_t *out)
{
    const key_value *entry = checkpoint_find(r->c, "general.alignment");
    *out = GGUF_ALIGNMENT;
    if (!entry)
        return HEARTH_OK;
    r->kind = "key";
    r->name = span_of(entry->key);
    if (entry->type != VALUE_U32)
        return refuse(r, HEARTH_FORMAT, "is of type %s, expected u32", value_type_name(entry->type));
    *out = (uint32_t)entry->as.u;
    if (*out < 8 || (*out & (*out - 1)) != 0)
        return refuse(r, HEARTH_FORMAT, "is %u, expected a power of two of at least 8", *out);
    return HEARTH_OK;
}

/* Sets the data pointer of every tensor. The data of the file begins at the next multiple of the alignment. */
static hearth_status place_tensors(gguf_reader *r)
{
    uint32_t alignment;
    TRY(find_alignment(r, &alignment));
    size_t start = r->at + (alignment - r->at % alignment) % alignment;
    size_t data_bytes = start < r->size ? r->size - start : 0;
    size_t count; /* 0: the file has only a vocabulary */
    const extent *extents = extents_sorted(&r->extents, &count);
    r->kind = "tensor";
    for (size_t i = 0; i < count; i++) {
        stored_tensor *t = &r->c->tensors[extents[i].tensor];
        r->name = span_of(t->name);
        if (extents[i].begin % alignment != 0)
            return refuse(r, HEARTH_FORMAT, "offset %" PRIu64 " is not a multiple of the alignment %u",
                          extents[i].begin, alignment);
        if (extents[i].end > data_bytes)
            return refuse(r, HEARTH_FORMAT, "ends at byte %" PRIu64 " of the data, but the file has only %zu",
                          extents[i].end, data_bytes);
        if (i > 0 && extents[i].begin < extents[i - 1].end)
            return refuse(r, HEARTH_FORMAT, "overlaps tensor %.*s", QUOTED, r->c->tensors[extents[i - 1].tensor].name);
        t->data = r->data + start + extents[i].begin;
        if (t->format == FORMAT_STORED_COUNT)
            t->size_bytes =
                (size_t)((i + 1 < count && extents[i + 1].begin < data_bytes ? extents[i + 1].begin : data_bytes) -
                         extents[i].begin);
    }
    return HEARTH_OK;
}

/* Copies the type numbers to the checkpoint where any of them is unknown. */
static hearth_status keep_types(gguf_reader *r)
{
    if (!r->has_unknown)
        return HEARTH_OK;
    void *types = arena_new(&r->c->memory, r->types.size);
    if (!types)
        return fail_memory(r->error, r->c->path, r->types.size);
    r->c->types = memcpy(types, r->types.data, r->types.size);
    return HEARTH_OK;
}

/* -------------------------------------------------------------------- file */

/* Reads the magic, and names other kinds of files in the error. */
static hearth_status read_magic(gguf_reader *r)
{
    char magic[4] = {0};
    if (r->size < sizeof(magic))
        return refuse(r, HEARTH_FORMAT, "%zu bytes are not a GGUF file", r->size);
    TRY(take(r, magic, sizeof(magic), "header"));
    r->c->powerinfer = memcmp(magic, "PWRI", sizeof(magic)) == 0;
    if (r->c->powerinfer || memcmp(magic, "GGUF", sizeof(magic)) == 0)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof(foreign_files) / sizeof(*foreign_files); i++)
        if (memcmp(magic, foreign_files[i].magic, sizeof(magic)) == 0)
            return refuse(r, HEARTH_UNSUPPORTED, "%s", foreign_files[i].reason);
    return refuse(r, HEARTH_FORMAT, "is not a GGUF file");
}

/* Accepts versions 2 and 3. The version of a big-endian file has its low 16 bits zero. */
static hearth_status read_version(gguf_reader *r)
{
    uint32_t version = 0;
    TRY(take(r, &version, sizeof(version), "header"));
    if (version != 0 && (version & 0xFFFF) == 0)
        return refuse(r, HEARTH_UNSUPPORTED, "is a big-endian file; only little-endian ones are supported");
    if (version == 1)
        return refuse(r, HEARTH_UNSUPPORTED,
                      "GGUF version 1 is not supported; convert the model again with a "
                      "current program, which writes version 3");
    if (version != 2 && version != 3)
        return refuse(r, HEARTH_UNSUPPORTED, "GGUF version %u is not supported, only 2 and 3", version);
    return HEARTH_OK;
}

/* Reads the whole head. Both counts are checked against the file's size before keys and tensors are read. */
static hearth_status read_all(gguf_reader *r)
{
    uint64_t tensors = 0, entries = 0;
    TRY(read_magic(r));
    TRY(read_version(r));
    TRY(take(r, &tensors, sizeof(tensors), "header"));
    TRY(take(r, &entries, sizeof(entries), "header"));
    size_t left = r->size - r->at;
    if (entries > left / MIN_ENTRY_BYTES || tensors > (left - (size_t)entries * MIN_ENTRY_BYTES) / MIN_TENSOR_BYTES)
        return refuse(r, HEARTH_FORMAT, "%" PRIu64 " keys and %" PRIu64 " tensors do not fit into %zu bytes", entries,
                      tensors, left);
    r->kind = "key";
    for (r->number = 1; r->number <= entries; r->number++, r->name.size = 0)
        TRY(read_entry(r));
    r->kind = "tensor";
    for (r->number = 1; r->number <= tensors; r->number++, r->name.size = 0)
        TRY(read_tensor(r));
    TRY(place_tensors(r));
    return keep_types(r);
}

static hearth_status read_into(checkpoint *c, const uint8_t *data, size_t size_bytes, bool any_type,
                               hearth_error *error)
{
    gguf_reader r = {.c = c, .data = data, .size = size_bytes, .error = error, .kind = "header", .any_type = any_type};
    r.terminated = mem_new(MAX_KEY_BYTES + 1);
    if (!r.terminated)
        return fail_memory(error, c->path, MAX_KEY_BYTES + 1);
    hearth_status status = read_all(&r);
    buffer_free(&r.extents);
    buffer_free(&r.types);
    mem_free(r.terminated);
    return status;
}

static hearth_status parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path, bool any_type,
                           hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, path, error));
    hearth_status status = read_into(c, data, size_bytes, any_type, error);
    if (status != HEARTH_OK) {
        checkpoint_close(c);
        return status;
    }
    *out = c;
    return HEARTH_OK;
}

hearth_status gguf_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                         hearth_error *error)
{
    return parse(out, data, size_bytes, path, false, error);
}

hearth_status gguf_parse_any(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                             hearth_error *error)
{
    return parse(out, data, size_bytes, path, true, error);
}

static hearth_status open_file(checkpoint **out, const char *path, bool any_type, hearth_error *error)
{
    checkpoint *c;
    file_map map;
    TRY(checkpoint_create(&c, path, error));
    hearth_status status;
    TRY_OR(failed, status, file_map_open(&map, path, error));
    TRY_OR(failed, status, checkpoint_own_map(c, map, error));
    TRY_OR(failed, status, read_into(c, map.data, map.size_bytes, any_type, error));
    *out = c;
    return HEARTH_OK;
failed:
    checkpoint_close(c);
    return status;
}

hearth_status gguf_open(checkpoint **out, const char *path, hearth_error *error)
{
    return open_file(out, path, false, error);
}

hearth_status gguf_open_any(checkpoint **out, const char *path, hearth_error *error)
{
    return open_file(out, path, true, error);
}
