/* json.h - JSON through jansson, with hearth's errors. Values are jansson's; release them with json_decref. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "error.h"

#include <jansson.h>

/* Parses size bytes. Duplicate keys, trailing text and nesting beyond jansson's limit are
 * errors. `name` is the beginning of the error text. */
hearth_status json_parse(json_t **out, const char *text, size_t size, const char *name, hearth_error *error);
/* Parses a whole file of at most 64 MiB. */
hearth_status json_parse_file(json_t **out, const char *path, hearth_error *error);

/* Returns a JSON real, or JSON's null if value is infinite or NaN, which JSON cannot express. NULL: no memory. */
json_t *json_number(double value);

/* Read a member of an object. *found becomes false, and *out is unchanged, if the key is absent or null; if `found` is
 * NULL, absence is an error. HEARTH_FORMAT: the value has another type or does not fit; the text names the file, the
 * key and what was expected. */
hearth_status json_get_uint(const json_t *object, const char *key, uint32_t *out, bool *found, const char *name,
                            hearth_error *error);
hearth_status json_get_number(const json_t *object, const char *key, double *out, bool *found, const char *name,
                              hearth_error *error);
hearth_status json_get_bool(const json_t *object, const char *key, bool *out, bool *found, const char *name,
                            hearth_error *error);
/* *out is owned by the object. */
hearth_status json_get_string(const json_t *object, const char *key, const char **out, bool *found, const char *name,
                              hearth_error *error);

#endif
