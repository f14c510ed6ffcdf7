/* checkpoint.h - an opened model, whatever file it came from: keys with values, and named tensors.
 *
 * The GGUF reader returns a checkpoint as it stands in the file. The Hugging Face reader builds the same thing from a
 * folder, with GGUF's keys and names. All other modules see only this type. A checkpoint owns the mappings and the
 * memory that its entries point into; it is read-only once built. What a key or a tensor means is not known here. */
#ifndef FILE_CHECKPOINT_H
#define FILE_CHECKPOINT_H

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../number/format.h"
#include "names.h"
#include "scaled.h"

// clang-format off
/* GGUF's value types, with its numbers. */
typedef enum value_type {
    VALUE_U8, VALUE_I8, VALUE_U16, VALUE_I16, VALUE_U32, VALUE_I32, VALUE_F32, VALUE_BOOL,
    VALUE_STRING, VALUE_ARRAY, VALUE_U64, VALUE_I64, VALUE_F64,
    VALUE_TYPE_COUNT
} value_type;
// clang-format on

/* Returns the size in bytes of a scalar of this type in a file; 0 for strings and arrays. */
size_t value_size(value_type type);
/* Returns the name of a type for error texts: "u32", "string" ... */
const char *value_type_name(value_type type);

// clang-format off
/* Which member of key_value.as holds a value. */
typedef enum value_kind {
    VALUE_IS_UNSIGNED, VALUE_IS_SIGNED, VALUE_IS_FLOAT, VALUE_IS_BOOL, VALUE_IS_STRING, VALUE_IS_ARRAY
} value_kind;
// clang-format on
/* Returns which member of key_value.as holds values of this type. */
value_kind value_kind_of(value_type type);

typedef struct key_value {
    const char *key; /* terminated, valid UTF-8 */
    value_type type;
    value_type item_type; /* arrays: type of the items (never VALUE_ARRAY) */
    uint64_t count;       /* arrays: number of items */
    union {
        uint64_t u; /* U8 U16 U32 U64 BOOL */
        int64_t i;  /* I8 I16 I32 I64 */
        double f;   /* F32 F64 */
        span string;
        const void *items;   /* arrays of numbers: [count], little-endian, aligned to an item */
        const span *strings; /* arrays of strings: [count] */
    } as;
} key_value;

#define TENSOR_MAX_RANK 4

/* The order in which a file has heads of values (gated delta rule): the logical head i * groups + j, of `heads`, is stored as
 * head j * heads / groups + i. They are the last heads * length rows of a tensor, or all its columns. */
typedef struct head_order {
    uint32_t groups; /* 0: the logical order; the other fields do not matter then */
    uint32_t heads, length;
    bool columns; /* the format then has blocks of one value */
} head_order;

/* A tensor as it is stored. shape[0] is the contiguous dimension (GGUF's order): a matrix has shape {columns,
 * rows}. */
typedef struct stored_tensor {
    const char *name;
    number_format format;
    uint32_t rank;
    uint64_t shape[TENSOR_MAX_RANK]; /* 1 beyond the rank */
    const void *data;                /* rows in `format`, in a mapping or in the checkpoint's memory; any alignment */
    size_t size_bytes;
    /* 0: rows are stored in their logical order. Else the rows are stored in Hugging Face's order (rotary halves),
     * while their logical order is by rotary pairs: with this many heads of H = rows / heads rows each, the logical
     * row h * H + 2 * i + s is stored as row h * H + s * H / 2 + i. */
    uint32_t rotary_heads;
    /* 0: as above. Else the rows of queries, keys and values are stored together: this many times the rows of
     * `fused_queries` queries, of their key and of its value. Their logical order is all queries, all keys, all values. */
    uint32_t fused_groups, fused_queries;
    head_order values; /* of the heads in the last rows, or in the columns */
    /* NULL: all rows lie at `data`, one after another. Else `data` is NULL, and each of the shape[2] matrices of shape[1]
     * rows lies at its own place. */
    const void **parts;
    uint64_t part_rows; /* 0: as above. Else the parts are of one matrix, so many rows each, the last one the rest */
    /* NULL: as above. Else `data` or `parts` have other values, of which the rows are made when they are read (scaled.h);
     * `format` and size_bytes are of the rows that are made. In the checkpoint's memory. */
    const scaled_rows *scaled;
    /* NULL: as above. Else the name of a type that hearth has no format for, such as "q2_K", "I64" or "LongStorage";
     * then `format` is FORMAT_STORED_COUNT, and `data` may be NULL. Whoever uses a tensor refuses such types; those that
     * take no part in the model may be of any type. */
    const char *foreign;
} stored_tensor;

typedef struct checkpoint {
    const char *path; /* as the user gave it; error texts begin with it */
    bool powerinfer;  /* the magic was PWRI: GGUF as PowerInfer writes it */
    /* Why the source's vocabulary is not among the keys; NULL: it is, or the source has none. */
    const char *vocabulary_problem;
    key_value *entries;
    size_t entry_count;
    stored_tensor *tensors;
    size_t tensor_count;
    /* The fields below are private to the file module, except memory: builders place there what tensors point to. */
    size_t entry_capacity, tensor_capacity;
    name_index entry_names, tensor_names;
    file_map *maps;
    size_t map_count;
    arena memory;
} checkpoint;

/* Creates an empty checkpoint, to be filled by the functions below. */
hearth_status checkpoint_create(checkpoint **out, const char *path, hearth_error *error);
/* Closes all mappings and frees all memory; c may be NULL. */
void checkpoint_close(checkpoint *c);

/* Sets a key; a key that exists already is replaced. Keys, texts and the items or strings of arrays are copied. The
 * only error is HEARTH_NO_MEMORY. */
hearth_status checkpoint_set_u32(checkpoint *c, const char *key, uint32_t value, hearth_error *error);
hearth_status checkpoint_set_f32(checkpoint *c, const char *key, float value, hearth_error *error);
hearth_status checkpoint_set_bool(checkpoint *c, const char *key, bool value, hearth_error *error);
hearth_status checkpoint_set_string(checkpoint *c, const char *key, span value, hearth_error *error);
hearth_status checkpoint_set_numbers(checkpoint *c, const char *key, value_type item_type, const void *items,
                                     size_t count, hearth_error *error);
hearth_status checkpoint_set_strings(checkpoint *c, const char *key, const span *strings, size_t count,
                                     hearth_error *error);
/* Adds an entry as it is: the key is copied, but what its value points to must live as long as the checkpoint.
 * HEARTH_FORMAT: the key exists already. */
hearth_status checkpoint_add_entry(checkpoint *c, const key_value *entry, hearth_error *error);
/* Sets general.file_type to the format that most bytes of the matrices have. HEARTH_NO_MEMORY as above. */
hearth_status checkpoint_set_file_type(checkpoint *c, hearth_error *error);
/* Removes a key, if there is one. HEARTH_NO_MEMORY: no key can be found any more; c can only be closed. */
hearth_status checkpoint_remove_key(checkpoint *c, const char *key, hearth_error *error);
/* Adds a tensor. The name, and that of a foreign type, are copied; data must live as long as the checkpoint (in its maps or its memory). Pointers
 * to tensors that were found before become invalid. HEARTH_FORMAT: the name exists already. */
hearth_status checkpoint_add_tensor(checkpoint *c, const stored_tensor *tensor, hearth_error *error);
/* Takes all tensors out, so that others can be added in their place. Returns them [count]; the caller frees the array
 * with mem_free. What they point to still lives as long as the checkpoint. */
stored_tensor *checkpoint_take_tensors(checkpoint *c, size_t *count);
/* Takes ownership of a mapping: it is closed with the checkpoint, or at once on failure. */
hearth_status checkpoint_own_map(checkpoint *c, file_map map, hearth_error *error);
/* Takes ownership of all mappings and all memory of another checkpoint, whose tensors were added to c under other names;
 * the other can only be closed then. HEARTH_NO_MEMORY: both checkpoints are unchanged. */
hearth_status checkpoint_take_data(checkpoint *c, checkpoint *from, hearth_error *error);
/* Returns how many files hold the tensors: the parts of a split GGUF, the shards of a folder; 0: they came from memory. */
size_t checkpoint_file_count(const checkpoint *c);
/* Releases the memory of a tensor that lies in a mapping: its bytes will not be read again soon. */
void checkpoint_drop(const checkpoint *c, const stored_tensor *tensor);

/* Does the same for any range of the checkpoint's bytes, such as a matrix; bytes outside its mappings stay. */
void checkpoint_drop_range(const checkpoint *c, const void *data, size_t size_bytes);

/* Finds an entry, or a tensor, by its name; NULL where there is none. */
const key_value *checkpoint_find(const checkpoint *c, const char *key);
const stored_tensor *checkpoint_find_tensor(const checkpoint *c, const char *name);

/* Reads a key as a type. Any integer type is accepted for u32 and any float type for f32, where the value fits. An
 * absent key is HEARTH_FORMAT where `found` is NULL; else *found is set to false and *out stays unchanged.
 * HEARTH_FORMAT: wrong type. Error texts: "FILE: key NAME: is missing" or "...: is a string, expected an integer". */
hearth_status checkpoint_get_u32(const checkpoint *c, const char *key, uint32_t *out, bool *found, hearth_error *error);
hearth_status checkpoint_get_f32(const checkpoint *c, const char *key, float *out, bool *found, hearth_error *error);
hearth_status checkpoint_get_bool(const checkpoint *c, const char *key, bool *out, bool *found, hearth_error *error);
/* *out points into the checkpoint. */
hearth_status checkpoint_get_string(const checkpoint *c, const char *key, span *out, bool *found, hearth_error *error);
/* An array whose items have the given type; *out points to the entry. */
hearth_status checkpoint_get_array(const checkpoint *c, const char *key, value_type item_type, const key_value **out,
                                   bool *found, hearth_error *error);

/* Returns whether rows or columns are stored in another order than their logical one, or in another form. */
static inline bool stored_tensor_reordered(const stored_tensor *t)
{
    return t->rotary_heads > 0 || t->fused_groups > 0 || t->values.groups > 0 || t->parts || t->scaled;
}
/* Returns all rows of a matrix, or of stacked matrices. */
static inline uint64_t stored_tensor_rows(const stored_tensor *t)
{
    return t->shape[1] * t->shape[2] * t->shape[3];
}
/* Returns whether a stored row has to be made, or put in order, by stored_tensor_read before it can be used. */
static inline bool stored_tensor_is_made(const stored_tensor *t)
{
    return t->values.columns || t->scaled;
}
/* Returns where a stored row begins that need not be made. row_bytes: of a row. */
static inline const void *stored_tensor_at(const stored_tensor *t, uint64_t row, size_t row_bytes)
{
    uint64_t each = t->part_rows > 0 ? t->part_rows : t->shape[1];
    const char *from = t->parts ? t->parts[row / each] : t->data;
    return from + (size_t)(t->parts ? row % each : row) * row_bytes;
}
/* Returns the number of the stored row that holds logical row `row` (see stored_tensor). */
uint64_t stored_tensor_row(const stored_tensor *t, uint64_t row);
/* Copies or makes a stored row: to `out`, with its columns in their logical order. row_bytes: of a row. */
void stored_tensor_read(const stored_tensor *t, uint64_t stored_row, size_t row_bytes, void *out);

#endif
