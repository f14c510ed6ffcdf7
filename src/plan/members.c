/* members.c - strict reading of JSON objects. */
#include "members.h"

#include "../base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void members_place(char out[MEMBERS_PLACE], const char *name, const char *format, ...)
{
    enum { PLACE = 64 };
    char place[PLACE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(place, sizeof place, format, arguments);
    va_end(arguments);
    snprintf(out, MEMBERS_PLACE, "%.*s: %s", MEMBERS_PLACE - PLACE - 3, name, place);
}

hearth_status members_known(const json_t *object, const char *const *names, size_t count, const char *name,
                            hearth_error *error)
{
    if (!json_is_object(object))
        return fail(error, HEARTH_FORMAT, "%s: is not an object", name);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) /* jansson's iterator is not const, and changes nothing */
    {
        size_t i = 0;
        while (i < count && strcmp(names[i], key) != 0)
            i++;
        if (i == count)
            return fail(error, HEARTH_FORMAT, "%s: %s: unknown member", name, key);
    }
    return HEARTH_OK;
}

hearth_status members_number(const json_t *object, const char *key, double least, double most, double *out, bool *found,
                             const char *name, hearth_error *error)
{
    double value = least;
    TRY(json_get_number(object, key, &value, found, name, error));
    if (!(value >= least && value <= most))
        return fail(error, HEARTH_FORMAT, "%s: %s: is %g, not from %g to %g", name, key, value, least, most);
    if (!found || *found)
        *out = value;
    return HEARTH_OK;
}

hearth_status members_count(const json_t *object, const char *key, uint32_t least, uint32_t most, uint32_t *out,
                            bool *found, const char *name, hearth_error *error)
{
    uint32_t value = least;
    TRY(json_get_uint(object, key, &value, found, name, error));
    if (value < least || value > most)
        return fail(error, HEARTH_FORMAT, "%s: %s: is %u, not from %u to %u", name, key, value, least, most);
    if (!found || *found)
        *out = value;
    return HEARTH_OK;
}

hearth_status members_text(const json_t *object, const char *key, char *out, size_t size, bool *found, const char *name,
                           hearth_error *error)
{
    const char *text = NULL;
    TRY(json_get_string(object, key, &text, found, name, error));
    if (!text)
        return HEARTH_OK;
    size_t length = strlen(text);
    if (length >= size)
        return fail(error, HEARTH_FORMAT, "%s: %s: has %zu bytes, at most %zu are possible", name, key, length,
                    size - 1);
    memcpy(out, text, length + 1);
    return HEARTH_OK;
}

hearth_status members_list(const json_t *object, const char *key, size_t most, const json_t **out, bool *found,
                           const char *name, hearth_error *error)
{
    const json_t *list = json_object_get(object, key);
    if (json_is_null(list))
        list = NULL;
    if (!list && !found)
        return fail(error, HEARTH_FORMAT, "%s: %s: is missing", name, key);
    if (list && !json_is_array(list))
        return fail(error, HEARTH_FORMAT, "%s: %s: is not a list", name, key);
    if (json_array_size(list) > most)
        return fail(error, HEARTH_FORMAT, "%s: %s: has %zu items, at most %zu are possible", name, key,
                    json_array_size(list), most);
    if (found)
        *found = list != NULL;
    if (list)
        *out = list;
    return HEARTH_OK;
}
