/* json.h - jansson with hearth's errors. Values are jansson's; release them with json_decref. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "error.h"

#include <jansson.h>

/* Parses size bytes; duplicate keys, trailing text and nesting beyond jansson's limit are
 * errors. `name` is what the error text begins with. */
hearth_status json_parse(json_t **out, const char *text, size_t size, const char *name, hearth_error *error);
/* A whole file of at most 64 MiB. */
hearth_status json_parse_file(json_t **out, const char *path, hearth_error *error);

/* A real; null where value is infinite or not a number, for which JSON has no word. NULL: no memory. */
json_t *json_number(double value);

/* Members of an object: false where the key is absent or null; HEARTH_FORMAT text names file, key
 * and what was expected where it has another type or does not fit. `found` may be NULL, then
 * absence is an error as well. */
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
