/* checkpoint.h - an opened model, whatever file it came from: keys with values and named tensors.
 *
 * The GGUF reader yields one as it stands in the file; the Hugging Face reader builds the same thing, with
 * GGUF's keys and names, from a folder. Everybody above sees only this. A checkpoint owns the
 * mappings and the memory that its entries point into; it is read-only once built. What a key or
 * a tensor means is not known here. */
#ifndef FILE_CHECKPOINT_H
#define FILE_CHECKPOINT_H

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../number/format.h"
#include "names.h"

// clang-format off
/* GGUF's value types, with its numbers. */
typedef enum value_type {
    VALUE_U8, VALUE_I8, VALUE_U16, VALUE_I16, VALUE_U32, VALUE_I32, VALUE_F32, VALUE_BOOL,
    VALUE_STRING, VALUE_ARRAY, VALUE_U64, VALUE_I64, VALUE_F64,
    VALUE_TYPE_COUNT
} value_type;
// clang-format on

/* Bytes of a scalar of this type in a file; 0 for strings and arrays. */
size_t value_size(value_type type);
const char *value_type_name(value_type type);

// clang-format off
/* Which member of key_value.as holds a value. */
typedef enum value_kind {
    VALUE_IS_UNSIGNED, VALUE_IS_SIGNED, VALUE_IS_FLOAT, VALUE_IS_BOOL, VALUE_IS_STRING, VALUE_IS_ARRAY
} value_kind;
// clang-format on
value_kind value_kind_of(value_type type);

typedef struct key_value {
    const char *key; /* terminated, valid UTF-8 */
    value_type type;
    value_type item_type; /* arrays: of the items (no arrays of arrays) */
    uint64_t count;       /* arrays: items */
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

/* shape[0] is the contiguous dimension (GGUF's order): a matrix has shape {columns, rows}. */
typedef struct stored_tensor {
    const char *name;
    number_format format;
    uint32_t rank;
    uint64_t shape[TENSOR_MAX_RANK]; /* 1 beyond the rank */
    const void *data;                /* rows in `format`, within a mapping; any alignment */
    size_t size_bytes;
    /* Not 0: rows are stored in Hugging Face's order of the rotary halves and are meant in the order
     * of rotary pairs: with this many heads of H = rows / heads rows, meant row h * H + 2 * i + s
     * is stored row h * H + s * H / 2 + i. */
    uint32_t rotary_heads;
} stored_tensor;

typedef struct checkpoint {
    const char *path; /* as the user gave it; errors begin with it */
    bool powerinfer;  /* its magic was PWRI: GGUF as PowerInfer writes it */
    const char
        *vocabulary_problem; /* why the source's vocabulary is not among the keys; NULL: it is, or there is none */
    key_value *entries;
    size_t entry_count;
    stored_tensor *tensors;
    size_t tensor_count;
    /* [tensor_count] GGUF's numbers of the tensors' types, where a reader let through some that hearth has no format for:
     * these have format FORMAT_STORED_COUNT. NULL: all formats are known, as everywhere but in `hearth inspect`. */
    const uint32_t *types;
    /* private to the file module from here on, but for memory: builders place there what tensors point to */
    size_t entry_capacity, tensor_capacity;
    name_index entry_names, tensor_names;
    file_map *maps;
    size_t map_count;
    arena memory;
} checkpoint;

/* An empty one, to be built. */
hearth_status checkpoint_create(checkpoint **out, const char *path, hearth_error *error);
void checkpoint_close(checkpoint *c);

/* Building. Keys and texts are copied; a key that exists already is replaced. Only fails with
 * HEARTH_NO_MEMORY. items/strings of arrays are copied too. */
hearth_status checkpoint_set_u32(checkpoint *c, const char *key, uint32_t value, hearth_error *error);
hearth_status checkpoint_set_f32(checkpoint *c, const char *key, float value, hearth_error *error);
hearth_status checkpoint_set_bool(checkpoint *c, const char *key, bool value, hearth_error *error);
hearth_status checkpoint_set_string(checkpoint *c, const char *key, span value, hearth_error *error);
hearth_status checkpoint_set_numbers(checkpoint *c, const char *key, value_type item_type, const void *items,
                                     size_t count, hearth_error *error);
hearth_status checkpoint_set_strings(checkpoint *c, const char *key, const span *strings, size_t count,
                                     hearth_error *error);
/* An entry as it stands: the key is copied, what it points to must live as long as the checkpoint.
 * HEARTH_FORMAT where the key exists already. */
hearth_status checkpoint_add_entry(checkpoint *c, const key_value *entry, hearth_error *error);
/* The name is copied; data must live as long as the checkpoint (in its maps or its memory).
 * HEARTH_FORMAT where the name exists already. Pointers to tensors found before become stale. */
hearth_status checkpoint_add_tensor(checkpoint *c, const stored_tensor *tensor, hearth_error *error);
/* Takes over the mapping (and closes it with the checkpoint, or at once on failure). */
hearth_status checkpoint_own_map(checkpoint *c, file_map map, hearth_error *error);
/* Takes over all mappings of another checkpoint, whose tensors go to c under other names.
 * HEARTH_NO_MEMORY: both are as before. */
hearth_status checkpoint_take_maps(checkpoint *c, checkpoint *from, hearth_error *error);
/* The bytes of a tensor will not be read again soon: where they lie in a mapping they leave memory. */
void checkpoint_drop(const checkpoint *c, const stored_tensor *tensor);

/* The same for any bytes of it, such as a matrix's; what lies in no mapping stays. */
void checkpoint_drop_range(const checkpoint *c, const void *data, size_t size_bytes);

/* NULL where there is none. */
const key_value *checkpoint_find(const checkpoint *c, const char *key);
const stored_tensor *checkpoint_find_tensor(const checkpoint *c, const char *name);

/* Typed reading: any integer type that fits is accepted for u32, any float type for f32. An absent
 * key is HEARTH_FORMAT where `found` is NULL, else *found = false and *out stays as it is. Text of the
 * error: "FILE: key NAME: is missing" or "...: is a string, expected an integer". */
hearth_status checkpoint_get_u32(const checkpoint *c, const char *key, uint32_t *out, bool *found, hearth_error *error);
hearth_status checkpoint_get_f32(const checkpoint *c, const char *key, float *out, bool *found, hearth_error *error);
hearth_status checkpoint_get_bool(const checkpoint *c, const char *key, bool *out, bool *found, hearth_error *error);
/* The span points into the checkpoint. */
hearth_status checkpoint_get_string(const checkpoint *c, const char *key, span *out, bool *found, hearth_error *error);
/* An array of one item type; *out points to the entry. */
hearth_status checkpoint_get_array(const checkpoint *c, const char *key, value_type item_type, const key_value **out,
                                   bool *found, hearth_error *error);

/* The stored row that is meant by row `row` (see rotary_heads). */
uint64_t stored_tensor_row(const stored_tensor *t, uint64_t row);

#endif
