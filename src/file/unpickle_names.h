/* unpickle_names.h - between the machine of unpickle.c and the names that its programs may ask for. */
#ifndef FILE_UNPICKLE_NAMES_H
#define FILE_UNPICKLE_NAMES_H

#include "unpickle.h"

/* Where values are made, and who hears of failures. */
typedef struct pickle_context {
    arena *memory; /* the caller's */
    const char *path;
    hearth_error *error;
} pickle_context;

/* "PATH: pickle: REASON" */
hearth_status pickle_refuse(const pickle_context *x, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct pickle_name {
    const char *module, *name;
    /* Data of data; NULL: no function. */
    hearth_status (*call)(const pickle_context *x, const pickle_tuple *arguments, pickle_value *out);
    bool storage;         /* a type of storage ...                               */
    number_format format; /* ... of these values; FORMAT_STORED_COUNT: of others */
} pickle_name;

/* NULL where the table has no such name. */
const pickle_name *pickle_find_name(span module, span name);

/* The storage that a persistent id means. */
hearth_status pickle_find_storage(const pickle_context *x, const pickle_tuple *id, pickle_value *out);

/* An empty dictionary. */
hearth_status pickle_new_dict(const pickle_context *x, bool ordered, pickle_value *out);

#endif
