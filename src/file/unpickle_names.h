/* unpickle_names.h - the interface between the machine of unpickle.c and the table of names that a pickle may ask
 * for. */
#ifndef FILE_UNPICKLE_NAMES_H
#define FILE_UNPICKLE_NAMES_H

#include "unpickle.h"

/* Where values are allocated and where errors are reported. */
typedef struct pickle_context {
    arena *memory; /* the caller's */
    const char *path;
    hearth_error *error;
} pickle_context;

/* Reports an error with the text "PATH: pickle: REASON". */
hearth_status pickle_refuse(const pickle_context *x, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A row of the table: a function that makes data from data, or a type of storage. */
typedef struct pickle_name {
    const char *module, *name;
    /* Makes a value from the arguments; NULL: the name is a type of storage ... */
    hearth_status (*call)(const pickle_context *x, const pickle_tuple *arguments, pickle_value *out);
    number_format format; /* ... of values in this format; FORMAT_STORED_COUNT: one that hearth does not read */
} pickle_name;

/* Returns the row of a name; NULL where the table has none. */
const pickle_name *pickle_find_name(span module, span name);

/* Makes the storage that a persistent id describes. */
hearth_status pickle_find_storage(const pickle_context *x, const pickle_tuple *id, pickle_value *out);

/* Makes an empty dictionary. ordered: an OrderedDict. */
hearth_status pickle_new_dict(const pickle_context *x, bool ordered, pickle_value *out);

#endif
