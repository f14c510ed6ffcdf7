/* json.c - JSON through jansson, with hearth's errors. */
#include "json.h"

#include "file.h"
#include "memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

hearth_status json_parse(json_t **out, const char *text, size_t size, const char *name, hearth_error *error)
{
    json_error_t cause;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &cause);
    if (!value) {
        if (json_error_code(&cause) == json_error_out_of_memory)
            return fail_memory(error, name, size);
        return fail(error, HEARTH_FORMAT, "%s: line %d, column %d: %s", name, cause.line, cause.column, cause.text);
    }
    *out = value;
    return HEARTH_OK;
}

static hearth_status parse_file(json_t **out, const char *path, size_t limit, hearth_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, limit, error));
    hearth_status status = json_parse(out, text, size, path, error);
    mem_free(text);
    return status;
}

hearth_status json_parse_file(json_t **out, const char *path, hearth_error *error)
{
    return parse_file(out, path, (size_t)64 << 20, error); /* the largest tokenizer.json known has 33 MiB */
}

hearth_status json_parse_small(json_t **out, const char *path, hearth_error *error)
{
    return parse_file(out, path, (size_t)1 << 20, error);
}

/* Overwrites the words with null and blanks, outside strings; NaN, which is too short, with an empty string, which is no
 * number either. */
static void replace_words(char *text, size_t size)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        for (size_t w = 0; !quoted && i < size && w < sizeof words / sizeof *words; w++) {
            size_t length = strlen(words[w]);
            if (length <= size - i && memcmp(text + i, words[w], length) == 0) {
                memset(text + i, ' ', length);
                memcpy(text + i, length > 3 ? "null" : "\"\" ", length > 3 ? 4 : 3);
            }
        }
    }
}

hearth_status json_parse_python(json_t **out, const char *path, hearth_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, (size_t)1 << 20, error));
    replace_words(text, size);
    hearth_status status = json_parse(out, text, size, path, error);
    mem_free(text);
    return status;
}

/* ------------------------------------------------------------------ stored between runs */

json_t *json_recall(const char *path, const char *kind, int version, const char *key)
{
    json_t *root = NULL;
    if (!path || json_parse_small(&root, path, NULL) != HEARTH_OK)
        return NULL;
    const char *stored_key = json_string_value(json_object_get(root, "key"));
    if (json_integer_value(json_object_get(root, kind)) == version && stored_key && strcmp(stored_key, key) == 0)
        return root;
    json_decref(root);
    return NULL;
}

void json_remember(const char *path, const char *kind, int version, const char *key, json_t *members)
{
    json_t *root = json_pack("{s:i, s:s}", kind, version, "key", key);
    bool complete = json_object_update(root, members) == 0;
    char *text = complete ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    file_writer *writer;
    if (path && text && file_writer_open(&writer, path, NULL) == HEARTH_OK) {
        if (file_writer_put(writer, text, strlen(text), NULL) == HEARTH_OK &&
            file_writer_put(writer, "\n", 1, NULL) == HEARTH_OK)
            file_writer_commit(writer, NULL);
        else
            file_writer_discard(writer);
    }
    free(text); /* allocated by jansson */
    json_decref(root);
}

/* ------------------------------------------------------------------ members of an object */

/* A kind of value that a member must have, and its name in error texts. */
typedef struct kind {
    bool (*accepts)(const json_t *value);
    const char *name;
} kind;

static bool is_uint(const json_t *value)
{
    json_int_t integer = json_integer_value(value);
    return json_is_integer(value) && integer >= 0 && integer <= UINT32_MAX;
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_bool(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

static const kind kind_uint = {is_uint, "an integer from 0 to 4294967295"};
static const kind kind_number = {is_number, "a number"};
static const kind kind_bool = {is_bool, "true or false"};
static const kind kind_string = {is_string, "a string"};

/* Gets the member `key` of the expected kind; *out is NULL if it is absent or null and `found` allows that. */
static hearth_status get_member(const json_t **out, const json_t *object, const char *key, const kind *expected,
                                bool *found, const char *name, hearth_error *error)
{
    *out = NULL;
    if (!json_is_object(object))
        return fail(error, HEARTH_FORMAT, "%s: %s: expected inside an object", name, key);
    const json_t *value = json_object_get(object, key);
    if (json_is_null(value))
        value = NULL;
    if (!value && !found)
        return fail(error, HEARTH_FORMAT, "%s: %s: is missing", name, key);
    if (value && !expected->accepts(value))
        return fail(error, HEARTH_FORMAT, "%s: %s: is not %s", name, key, expected->name);
    if (found)
        *found = value != NULL;
    *out = value;
    return HEARTH_OK;
}

json_t *json_text(span text)
{
    buffer clean = {0};
    bool ok = true;
    for (size_t at = 0; ok && at < text.size;) {
        size_t length = utf8_length(text.data + at, text.size - at);
        ok = length > 0 ? buffer_put(&clean, text.data + at, length) : buffer_put(&clean, "\xef\xbf\xbd", 3);
        at += length > 0 ? length : 1;
    }
    json_t *value = ok ? json_stringn(clean.size ? clean.data : "", clean.size) : NULL;
    buffer_free(&clean);
    return value;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

size_t json_bytes(const json_t *value)
{
    size_t sum = value ? JSON_VALUE_BYTES + json_string_length(value) : 0, i;
    const char *name;
    json_t *member;
    json_array_foreach(value, i, member)
    {
        sum += json_bytes(member);
    }
    json_object_foreach((json_t *)value, name, member)
    {
        sum += JSON_VALUE_BYTES + strlen(name) + json_bytes(member);
    }
    return sum;
}

hearth_status json_get_uint(const json_t *object, const char *key, uint32_t *out, bool *found, const char *name,
                            hearth_error *error)
{
    const json_t *value;
    TRY(get_member(&value, object, key, &kind_uint, found, name, error));
    if (value)
        *out = (uint32_t)json_integer_value(value);
    return HEARTH_OK;
}

hearth_status json_get_number(const json_t *object, const char *key, double *out, bool *found, const char *name,
                              hearth_error *error)
{
    const json_t *value;
    TRY(get_member(&value, object, key, &kind_number, found, name, error));
    if (value)
        *out = json_number_value(value);
    return HEARTH_OK;
}

hearth_status json_get_bool(const json_t *object, const char *key, bool *out, bool *found, const char *name,
                            hearth_error *error)
{
    const json_t *value;
    TRY(get_member(&value, object, key, &kind_bool, found, name, error));
    if (value)
        *out = json_is_true(value);
    return HEARTH_OK;
}

hearth_status json_get_string(const json_t *object, const char *key, const char **out, bool *found, const char *name,
                              hearth_error *error)
{
    const json_t *value;
    TRY(get_member(&value, object, key, &kind_string, found, name, error));
    if (value)
        *out = json_string_value(value);
    return HEARTH_OK;
}
