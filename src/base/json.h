/* json.h - JSON through jansson, with hearth's errors. Values are jansson's; release them with json_decref. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "text.h"

#include <jansson.h>

/* Parses size bytes. Duplicate keys, trailing text and nesting beyond jansson's limit are
 * errors. `name` is the beginning of the error text. */
hearth_status json_parse(json_t **out, const char *text, size_t size, const char *name, hearth_error *error);
/* Parses a whole file of at most 64 MiB; json_parse_small: of at most 1 MiB. */
hearth_status json_parse_file(json_t **out, const char *path, hearth_error *error);
hearth_status json_parse_small(json_t **out, const char *path, hearth_error *error);

/* As json_parse_small, of a file that Python may have written: Infinity and -Infinity, which are not JSON, count as null,
 * NaN as an empty string. */
hearth_status json_parse_python(json_t **out, const char *path, hearth_error *error);

/* What is stored between runs, so that it need not be measured again: an object {KIND: version, "key": key, members...}
 * in a small file. */

/* Returns what is stored at path (NULL: nothing). NULL: it is missing, damaged, or has another version or key. */
json_t *json_recall(const char *path, const char *kind, int version, const char *key);
/* Stores the members, on one line, completely or not at all. A failure is ignored, also path or members NULL. */
void json_remember(const char *path, const char *kind, int version, const char *key, json_t *members);

/* Returns a text as a JSON string with U+FFFD for every byte that is not part of a UTF-8 character. NULL: no memory. */
json_t *json_text(span text);
/* Returns a JSON real, or JSON's null if value is infinite or NaN, which JSON cannot express. NULL: no memory. */
json_t *json_number(double value);

/* Returns about how many bytes of memory a value takes with all that is in it: so many each, and their texts. NULL: 0. */
#define JSON_VALUE_BYTES 64
size_t json_bytes(const json_t *value);

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
