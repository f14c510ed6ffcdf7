/* unpickle.h - what a pickle of a state dict says, as data.
 *
 * A pickle is a program for a stack machine; its authors meant it to call anything. This machine has no way to call:
 * it makes numbers, texts, tuples and dictionaries, and where the program asks for a name it finds it in a table of a
 * few or stops. Knows nothing of archives and of the bytes of tensors. */
#ifndef FILE_UNPICKLE_H
#define FILE_UNPICKLE_H

#include "../base/memory.h"
#include "../base/text.h"
#include "../number/format.h"

// clang-format off
typedef enum pickle_kind {
    PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_TEXT, PICKLE_TUPLE, PICKLE_DICT,
    PICKLE_NAME,    /* a row of the table of names, not yet used for anything */
    PICKLE_STORAGE, PICKLE_TENSOR,
    PICKLE_KIND_COUNT
} pickle_kind;
// clang-format on

typedef struct pickle_value {
    pickle_kind kind;
    union {
        int64_t number;   /* INT, BOOL */
        const span *text; /* valid UTF-8 without a 0, within the pickle; not terminated */
        const struct pickle_tuple *tuple;
        struct pickle_dict *dict;
        const struct pickle_name *name;
        const struct pickle_storage *storage;
        const struct pickle_tensor *tensor;
    } as;
} pickle_value;

typedef struct pickle_tuple {
    size_t count;
    pickle_value items[];
} pickle_tuple;

/* Items in the order of the program, in chunks; a key may come twice, and a dictionary may hold itself. */
typedef struct pickle_items {
    struct pickle_items *next;
    size_t count;              /* of pairs                 */
    const pickle_value *pairs; /* [count][2] key and value */
} pickle_items;

typedef struct pickle_dict {
    bool ordered; /* an OrderedDict */
    pickle_items *first, *last;
} pickle_dict;

/* Raw values in a file of their own. */
typedef struct pickle_storage {
    const char *type;     /* "HalfStorage"                                     */
    number_format format; /* FORMAT_STORED_COUNT: one that hearth does not read */
    span key;             /* names the file                                    */
    uint64_t count;       /* values                                            */
} pickle_storage;

/* A view of a storage. Nothing is checked but that all numbers are there: shape, strides and offset are the file's. */
typedef struct pickle_tensor {
    const pickle_storage *storage;
    uint64_t offset;                     /* values                                        */
    const pickle_tuple *shape, *strides; /* of PICKLE_INT not below 0, as many in one as in the other; the
                                             contiguous dimension comes last               */
} pickle_tensor;

/* The value that the pickle ends with; it lives in `memory` and points into data. Memory is bounded by the size of the
 * pickle, time too; nothing recurses. HEARTH_FORMAT: damaged, or it asks for what is not data: "PATH: pickle:
 * asks for os.system: only data is read". HEARTH_UNSUPPORTED: a protocol other than 2 to 4. */
hearth_status unpickle(pickle_value *out, arena *memory, const uint8_t *data, size_t size_bytes, const char *path,
                       hearth_error *error);

/* "a tuple", "a tensor", ... for error texts. */
const char *pickle_kind_phrase(pickle_kind kind);

#endif
