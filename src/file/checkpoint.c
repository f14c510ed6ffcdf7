/* checkpoint.c - keys and tensors in growing arrays, found by name; typed reading of keys.
 *
 * Every reader of this folder fills a checkpoint, and every converter reads one. Of files only the mappings that have
 * to be closed are known here. */
#include "checkpoint.h"

#include <math.h>
#include <string.h>

/* Longest part of a name that error texts quote, in bytes: a hostile file must not leave no room for the reason. */
#define QUOTED 128

// clang-format off
static const struct {
    const char *name, *phrase;
    size_t size;
    value_kind kind;
} value_types[VALUE_TYPE_COUNT] = {
    [VALUE_U8]     = { "u8",     "an integer",  1, VALUE_IS_UNSIGNED },
    [VALUE_I8]     = { "i8",     "an integer",  1, VALUE_IS_SIGNED   },
    [VALUE_U16]    = { "u16",    "an integer",  2, VALUE_IS_UNSIGNED },
    [VALUE_I16]    = { "i16",    "an integer",  2, VALUE_IS_SIGNED   },
    [VALUE_U32]    = { "u32",    "an integer",  4, VALUE_IS_UNSIGNED },
    [VALUE_I32]    = { "i32",    "an integer",  4, VALUE_IS_SIGNED   },
    [VALUE_F32]    = { "f32",    "a float",     4, VALUE_IS_FLOAT    },
    [VALUE_BOOL]   = { "bool",   "a bool",      1, VALUE_IS_BOOL     },
    [VALUE_STRING] = { "string", "a string",    0, VALUE_IS_STRING   },
    [VALUE_ARRAY]  = { "array",  "an array",    0, VALUE_IS_ARRAY    },
    [VALUE_U64]    = { "u64",    "an integer",  8, VALUE_IS_UNSIGNED },
    [VALUE_I64]    = { "i64",    "an integer",  8, VALUE_IS_SIGNED   },
    [VALUE_F64]    = { "f64",    "a float",     8, VALUE_IS_FLOAT    },
};
// clang-format on

size_t value_size(value_type type)
{
    return value_types[type].size;
}

const char *value_type_name(value_type type)
{
    return value_types[type].name;
}

value_kind value_kind_of(value_type type)
{
    return value_types[type].kind;
}

/* ---------------------------------------------------------------- building */

hearth_status checkpoint_create(checkpoint **out, const char *path, hearth_error *error)
{
    checkpoint *c = mem_new(sizeof(*c));
    if (!c)
        return fail_memory(error, path, sizeof(*c));
    c->path = arena_copy_text(&c->memory, path, strlen(path));
    if (!c->path) {
        checkpoint_close(c);
        return fail_memory(error, path, strlen(path) + 1);
    }
    *out = c;
    return HEARTH_OK;
}

void checkpoint_close(checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->map_count; i++)
        file_map_close(&c->maps[i]);
    mem_free(c->maps);
    mem_free(c->entries);
    mem_free(c->tensors);
    names_free(&c->entry_names);
    names_free(&c->tensor_names);
    arena_clear(&c->memory);
    mem_free(c);
}

/* Appends a new entry, whose key must not exist yet. */
static hearth_status append_entry(checkpoint *c, const key_value *entry, hearth_error *error)
{
    size_t size = strlen(entry->key);
    key_value *entries = mem_grow(c->entries, &c->entry_capacity, c->entry_count, 1, sizeof(*entry));
    c->entries = entries ? entries : c->entries;
    char *key = entries ? arena_copy_text(&c->memory, entry->key, size) : NULL;
    if (!key || !names_add(&c->entry_names, (span){key, size}, c->entry_count))
        return fail_memory(error, c->path, sizeof(*entry));
    c->entries[c->entry_count] = *entry;
    c->entries[c->entry_count].key = key;
    c->entry_count++;
    return HEARTH_OK;
}

hearth_status checkpoint_add_entry(checkpoint *c, const key_value *entry, hearth_error *error)
{
    if (checkpoint_find(c, entry->key))
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: appears twice", c->path, QUOTED, entry->key);
    return append_entry(c, entry, error);
}

hearth_status checkpoint_remove_key(checkpoint *c, const char *key, hearth_error *error)
{
    size_t at = names_find(&c->entry_names, span_of(key));
    if (at == NAME_NONE)
        return HEARTH_OK;
    c->entry_count--;
    memmove(c->entries + at, c->entries + at + 1, (c->entry_count - at) * sizeof(*c->entries));
    names_free(&c->entry_names);
    for (size_t i = 0; i < c->entry_count; i++)
        if (!names_add(&c->entry_names, span_of(c->entries[i].key), i))
            return fail_memory(error, c->path, c->entry_count * sizeof(*c->entries));
    return HEARTH_OK;
}

/* Adds the entry, or replaces the one with the same key. */
static hearth_status set_entry(checkpoint *c, key_value entry, hearth_error *error)
{
    size_t at = names_find(&c->entry_names, span_of(entry.key));
    if (at == NAME_NONE)
        return append_entry(c, &entry, error);
    entry.key = c->entries[at].key;
    c->entries[at] = entry;
    return HEARTH_OK;
}

hearth_status checkpoint_set_u32(checkpoint *c, const char *key, uint32_t value, hearth_error *error)
{
    return set_entry(c, (key_value){.key = key, .type = VALUE_U32, .as.u = value}, error);
}

hearth_status checkpoint_set_file_type(checkpoint *c, hearth_error *error)
{
    uint64_t bytes[FORMAT_STORED_COUNT] = {0};
    size_t most = 0;
    for (size_t i = 0; i < c->tensor_count; i++)
        if (c->tensors[i].rank > 1 && !c->tensors[i].foreign)
            bytes[c->tensors[i].format] += c->tensors[i].size_bytes;
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        if (bytes[f] > bytes[most])
            most = f;
    return checkpoint_set_u32(c, "general.file_type", number_formats[most].file_type, error);
}

hearth_status checkpoint_set_f32(checkpoint *c, const char *key, float value, hearth_error *error)
{
    return set_entry(c, (key_value){.key = key, .type = VALUE_F32, .as.f = (double)value}, error);
}

hearth_status checkpoint_set_bool(checkpoint *c, const char *key, bool value, hearth_error *error)
{
    return set_entry(c, (key_value){.key = key, .type = VALUE_BOOL, .as.u = value}, error);
}

hearth_status checkpoint_set_string(checkpoint *c, const char *key, span value, hearth_error *error)
{
    char *copy = arena_copy_text(&c->memory, value.data, value.size);
    if (!copy)
        return fail_memory(error, c->path, value.size);
    return set_entry(c, (key_value){.key = key, .type = VALUE_STRING, .as.string = {copy, value.size}}, error);
}

hearth_status checkpoint_set_numbers(checkpoint *c, const char *key, value_type item_type, const void *items,
                                     size_t count, hearth_error *error)
{
    size_t size_bytes;
    void *copy = NULL;
    if (size_multiply(count, value_size(item_type), &size_bytes))
        copy = arena_new(&c->memory, size_bytes ? size_bytes : 1);
    if (!copy)
        return fail_memory(error, c->path, count);
    if (size_bytes)
        memcpy(copy, items, size_bytes);
    key_value entry = {.key = key, .type = VALUE_ARRAY, .item_type = item_type, .count = count, .as.items = copy};
    return set_entry(c, entry, error);
}

hearth_status checkpoint_set_strings(checkpoint *c, const char *key, const span *strings, size_t count,
                                     hearth_error *error)
{
    size_t total = 1; /* so that no allocation is empty */
    bool fits = true;
    for (size_t i = 0; i < count; i++)
        fits = fits && size_add(total, strings[i].size, &total);
    span *copy = fits ? arena_new_array(&c->memory, count + 1, sizeof(*copy)) : NULL;
    char *text = copy ? arena_new(&c->memory, total) : NULL;
    if (!text)
        return fail_memory(error, c->path, total);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (span){text, strings[i].size};
        if (strings[i].size)
            memcpy(text, strings[i].data, strings[i].size);
        text += strings[i].size;
    }
    key_value entry = {.key = key, .type = VALUE_ARRAY, .item_type = VALUE_STRING, .count = count, .as.strings = copy};
    return set_entry(c, entry, error);
}

hearth_status checkpoint_add_tensor(checkpoint *c, const stored_tensor *tensor, hearth_error *error)
{
    size_t size = strlen(tensor->name);
    if (checkpoint_find_tensor(c, tensor->name))
        return fail(error, HEARTH_FORMAT, "%s: tensor %.*s: appears twice", c->path, QUOTED, tensor->name);
    stored_tensor *tensors = mem_grow(c->tensors, &c->tensor_capacity, c->tensor_count, 1, sizeof(*tensor));
    c->tensors = tensors ? tensors : c->tensors;
    char *name = tensors ? arena_copy_text(&c->memory, tensor->name, size) : NULL;
    const char *foreign =
        name && tensor->foreign ? arena_copy_text(&c->memory, tensor->foreign, strlen(tensor->foreign)) : NULL;
    if (!name || !foreign != !tensor->foreign || !names_add(&c->tensor_names, (span){name, size}, c->tensor_count))
        return fail_memory(error, c->path, sizeof(*tensor));
    c->tensors[c->tensor_count] = *tensor;
    c->tensors[c->tensor_count].foreign = foreign;
    c->tensors[c->tensor_count].name = name;
    c->tensor_count++;
    return HEARTH_OK;
}

stored_tensor *checkpoint_take_tensors(checkpoint *c, size_t *count)
{
    stored_tensor *tensors = c->tensors;
    *count = c->tensor_count;
    c->tensors = NULL;
    c->tensor_count = c->tensor_capacity = 0;
    names_free(&c->tensor_names);
    return tensors;
}

hearth_status checkpoint_own_map(checkpoint *c, file_map map, hearth_error *error)
{
    size_t size_bytes = (c->map_count + 1) * sizeof(map);
    file_map *maps = mem_resize(c->maps, size_bytes);
    if (!maps) {
        file_map_close(&map);
        return fail_memory(error, c->path, size_bytes);
    }
    c->maps = maps;
    c->maps[c->map_count++] = map;
    return HEARTH_OK;
}

hearth_status checkpoint_take_data(checkpoint *c, checkpoint *from, hearth_error *error)
{
    size_t size_bytes = (c->map_count + from->map_count) * sizeof(*c->maps);
    if (from->map_count > 0) {
        file_map *maps = mem_resize(c->maps, size_bytes);
        if (!maps)
            return fail_memory(error, c->path, size_bytes);
        c->maps = maps;
        memcpy(maps + c->map_count, from->maps, from->map_count * sizeof(*maps));
        c->map_count += from->map_count;
        from->map_count = 0;
    }
    arena_take(&c->memory, &from->memory);
    return HEARTH_OK;
}

size_t checkpoint_file_count(const checkpoint *c)
{
    return c->map_count;
}

void checkpoint_drop(const checkpoint *c, const stored_tensor *tensor)
{
    uint64_t rows = stored_tensor_rows(tensor), each = tensor->part_rows > 0 ? tensor->part_rows : tensor->shape[1];
    size_t row_bytes = tensor->size_bytes / (size_t)rows, matrix_bytes = row_bytes * (size_t)tensor->shape[1];
    if (tensor->scaled)
        matrix_bytes = (size_t)tensor->scaled->stored_rows * scaled_row_bytes(tensor->scaled, tensor->shape[0]);
    if (!tensor->parts) {
        size_t made = matrix_bytes * (size_t)(rows / tensor->shape[1]);
        checkpoint_drop_range(c, tensor->data, tensor->scaled ? made : tensor->size_bytes);
        return;
    }
    for (uint64_t i = 0, row = 0; row < rows; i++, row += each) {
        uint64_t left = rows - row < each ? rows - row : each;
        checkpoint_drop_range(c, tensor->parts[i], tensor->part_rows > 0 ? (size_t)left * row_bytes : matrix_bytes);
    }
}

void checkpoint_drop_range(const checkpoint *c, const void *data, size_t size_bytes)
{
    const uint8_t *begin = data;
    for (size_t i = 0; i < c->map_count; i++)
        if (c->maps[i].data && begin >= c->maps[i].data && begin < c->maps[i].data + c->maps[i].size_bytes)
            file_map_drop(&c->maps[i], data, size_bytes);
}

/* ----------------------------------------------------------------- reading */

const key_value *checkpoint_find(const checkpoint *c, const char *key)
{
    size_t at = names_find(&c->entry_names, span_of(key));
    return at == NAME_NONE ? NULL : &c->entries[at];
}

const stored_tensor *checkpoint_find_tensor(const checkpoint *c, const char *name)
{
    size_t at = names_find(&c->tensor_names, span_of(name));
    return at == NAME_NONE ? NULL : &c->tensors[at];
}

/* Finds the entry of a key and checks that its value is of one of some kinds (bits). *entry is NULL where the key is
 * absent and optional (found is given). */
static hearth_status look_up(const checkpoint *c, const char *key, unsigned kinds, const char *expected,
                             const key_value **entry, bool *found, hearth_error *error)
{
    const key_value *e = *entry = checkpoint_find(c, key);
    if (found)
        *found = e != NULL;
    else if (!e)
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is missing", c->path, QUOTED, key);
    if (e && !(kinds & 1u << value_kind_of(e->type)))
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is %s, expected %s", c->path, QUOTED, key,
                    value_types[e->type].phrase, expected);
    return HEARTH_OK;
}

hearth_status checkpoint_get_u32(const checkpoint *c, const char *key, uint32_t *out, bool *found, hearth_error *error)
{
    const key_value *entry;
    TRY(look_up(c, key, 1u << VALUE_IS_UNSIGNED | 1u << VALUE_IS_SIGNED, "an integer", &entry, found, error));
    if (!entry)
        return HEARTH_OK;
    bool is_signed = value_kind_of(entry->type) == VALUE_IS_SIGNED;
    if (is_signed && entry->as.i < 0)
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is %lld, expected an integer of at least 0", c->path, QUOTED,
                    key, (long long)entry->as.i);
    uint64_t value = is_signed ? (uint64_t)entry->as.i : entry->as.u;
    if (value > UINT32_MAX)
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is %llu, expected an integer of 32 bits", c->path, QUOTED, key,
                    (unsigned long long)value);
    *out = (uint32_t)value;
    return HEARTH_OK;
}

hearth_status checkpoint_get_f32(const checkpoint *c, const char *key, float *out, bool *found, hearth_error *error)
{
    const key_value *entry;
    TRY(look_up(c, key, 1u << VALUE_IS_FLOAT, "a float", &entry, found, error));
    if (!entry)
        return HEARTH_OK;
    /* A value beyond float32's range becomes infinity, which the file does not hold. */
    float value = (float)entry->as.f;
    if (isinf(value) && !isinf(entry->as.f))
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is %g, expected a float of 32 bits", c->path, QUOTED, key,
                    entry->as.f);
    *out = value;
    return HEARTH_OK;
}

hearth_status checkpoint_get_bool(const checkpoint *c, const char *key, bool *out, bool *found, hearth_error *error)
{
    const key_value *entry;
    TRY(look_up(c, key, 1u << VALUE_IS_BOOL, "a bool", &entry, found, error));
    if (entry)
        *out = entry->as.u != 0;
    return HEARTH_OK;
}

hearth_status checkpoint_get_string(const checkpoint *c, const char *key, span *out, bool *found, hearth_error *error)
{
    const key_value *entry;
    TRY(look_up(c, key, 1u << VALUE_IS_STRING, "a string", &entry, found, error));
    if (entry)
        *out = entry->as.string;
    return HEARTH_OK;
}

hearth_status checkpoint_get_array(const checkpoint *c, const char *key, value_type item_type, const key_value **out,
                                   bool *found, hearth_error *error)
{
    const key_value *entry;
    TRY(look_up(c, key, 1u << VALUE_IS_ARRAY, "an array", &entry, found, error));
    if (!entry)
        return HEARTH_OK;
    if (entry->item_type != item_type)
        return fail(error, HEARTH_FORMAT, "%s: key %.*s: is an array of %s, expected one of %s", c->path, QUOTED, key,
                    value_type_name(entry->item_type), value_type_name(item_type));
    *out = entry;
    return HEARTH_OK;
}

/* Returns the stored row of a row of fused queries, keys and values. */
static uint64_t fused_row(const stored_tensor *t, uint64_t row)
{
    uint64_t together = t->fused_queries + 2, length = t->shape[1] / (t->fused_groups * together);
    uint64_t head = row / length, queries = (uint64_t)t->fused_groups * t->fused_queries;
    uint64_t group = head / t->fused_queries, member = head % t->fused_queries;
    if (head >= queries) {
        group = (head - queries) % t->fused_groups;
        member = t->fused_queries + (head - queries) / t->fused_groups;
    }
    return (group * together + member) * length + row % length;
}

/* Returns where value `at` of `count` is stored whose last ones are heads in another order. */
static uint64_t value_place(const stored_tensor *t, uint64_t at, uint64_t count)
{
    const head_order *o = &t->values;
    uint64_t first = count - (uint64_t)o->heads * o->length;
    if (at < first)
        return at;
    uint64_t head = (at - first) / o->length, stored = head % o->groups * (o->heads / o->groups) + head / o->groups;
    return first + stored * o->length + (at - first) % o->length;
}

/* Returns where the stored values of a matrix begin whose rows are made. */
static const void *made_from(const stored_tensor *t, uint64_t number)
{
    size_t each = (size_t)t->scaled->stored_rows * scaled_row_bytes(t->scaled, t->shape[0]);
    return t->parts ? t->parts[number] : (const char *)t->data + (size_t)number * each;
}

void stored_tensor_read(const stored_tensor *t, uint64_t stored_row, size_t row_bytes, void *out)
{
    if (t->scaled) {
        uint64_t number = stored_row / t->shape[1];
        scaled_read(t->scaled, made_from(t, number), number, stored_row % t->shape[1], t->shape[0], out);
        return;
    }
    const char *from = stored_tensor_at(t, stored_row, row_bytes);
    if (!t->values.columns) {
        memcpy(out, from, row_bytes);
        return;
    }
    size_t value_bytes = row_bytes / (size_t)t->shape[0], length = t->values.length;
    for (size_t at = 0; at < t->shape[0]; at += length)
        memcpy((char *)out + at * value_bytes, from + (size_t)value_place(t, at, t->shape[0]) * value_bytes,
               length * value_bytes);
}

uint64_t stored_tensor_row(const stored_tensor *t, uint64_t row)
{
    if (t->fused_groups > 0)
        return fused_row(t, row);
    if (t->values.groups > 0)
        return t->values.columns ? row : value_place(t, row, stored_tensor_rows(t));
    if (t->rotary_heads == 0)
        return row;
    uint64_t length = stored_tensor_rows(t) / t->rotary_heads;
    uint64_t head = row / length, within = row % length;
    return head * length + within % 2 * (length / 2) + within / 2;
}
