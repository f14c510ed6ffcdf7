/* unpickle.h - reads the pickle of a state dict as data.
 *
 * A pickle is a program for a stack machine that may call any Python function. This machine cannot call: it makes
 * numbers, texts, tuples and dictionaries, and it looks up each name that the program asks for in a short table. A
 * name outside the table ends it with an error. Archives and the bytes of tensors are not known here. */
#ifndef FILE_UNPICKLE_H
#define FILE_UNPICKLE_H

#include "../base/memory.h"
#include "../base/text.h"
#include "../number/format.h"

// clang-format off
typedef enum pickle_kind {
    PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_TEXT, PICKLE_TUPLE, PICKLE_DICT,
    PICKLE_NAME,    /* a row of the table of names, before it is used in a call */
    PICKLE_STORAGE, PICKLE_TENSOR,
    PICKLE_KIND_COUNT
} pickle_kind;
// clang-format on

typedef struct pickle_value {
    pickle_kind kind;
    union {
        int64_t number;   /* INT, BOOL */
        const span *text; /* points into the pickle; valid UTF-8 without a zero byte, not terminated */
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

/* A chunk of a dictionary's items, in the order of the program. A key may appear twice, and a dictionary may contain
 * itself. */
typedef struct pickle_items {
    struct pickle_items *next;
    size_t count;              /* number of pairs          */
    const pickle_value *pairs; /* [count][2]: key, value   */
} pickle_items;

typedef struct pickle_dict {
    bool ordered; /* an OrderedDict */
    pickle_items *first, *last;
} pickle_dict;

/* A storage: raw values in a file of their own. */
typedef struct pickle_storage {
    const char *type;     /* "HalfStorage"                                     */
    number_format format; /* FORMAT_STORED_COUNT: a type that hearth does not read */
    span key;             /* names the file                                    */
    uint64_t count;       /* values                                            */
} pickle_storage;

/* A tensor: a view of a storage. Shape, strides and offset come from the file and are not checked against the
 * storage. */
typedef struct pickle_tensor {
    const pickle_storage *storage;
    uint64_t offset;                     /* values                                        */
    const pickle_tuple *shape, *strides; /* tuples of PICKLE_INT of at least 0, of equal length; the contiguous
                                            dimension comes last */
} pickle_tensor;

/* Runs the pickle and returns the value that it ends with, which lives in `memory` and points into data. Memory and
 * time are bounded by the size of the pickle; nothing recurses. HEARTH_FORMAT: damaged, or it asks for something that
 * is not data: "PATH: pickle: asks for os.system: only data is read". HEARTH_UNSUPPORTED: a protocol other than 2 to
 * 4. */
hearth_status unpickle(pickle_value *out, arena *memory, const uint8_t *data, size_t size_bytes, const char *path,
                       hearth_error *error);

/* Returns "a tuple", "a tensor" ... for error texts. */
const char *pickle_kind_phrase(pickle_kind kind);

#endif
