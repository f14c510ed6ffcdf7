/* http_values.c - the values of three headers. */
#include "http_values.h"

#include <string.h>
#include <strings.h>

/* Reads digits and moves behind them. false: there is none, or the number does not fit. */
static bool read_number(uint64_t *out, const char **text)
{
    const char *begin = *text;
    uint64_t value = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**text - '0'), &value))
            return false;
    *out = value;
    return *text > begin;
}

static bool read_character(const char **text, char expected)
{
    bool found = **text == expected;
    *text += found;
    return found;
}

bool content_range_parse(content_range *out, const char *text)
{
    static const char unit[] = "bytes ";
    content_range r = {.total = SIZE_UNKNOWN};
    if (strncasecmp(text, unit, sizeof unit - 1) != 0)
        return false;
    text += sizeof unit - 1;
    if (!read_number(&r.first, &text) || !read_character(&text, '-') || !read_number(&r.last, &text) ||
        !read_character(&text, '/'))
        return false;
    if (!read_character(&text, '*') && !read_number(&r.total, &text))
        return false;
    if (*text || r.first > r.last || r.last >= r.total)
        return false;
    *out = r;
    return true;
}

bool etag_is_strong(const char *text)
{
    size_t size = strlen(text);
    return size >= 2 && text[0] == '"' && text[size - 1] == '"';
}

/* Returns whether the parameters of a link, up to the next one's '<', have rel=next. */
static bool is_next(const char *parameters)
{
    size_t size = strcspn(parameters, "<");
    static const char *const forms[] = {"rel=\"next\"", "rel=next"};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        if (memmem(parameters, size, forms[f], strlen(forms[f])))
            return true;
    return false;
}

bool link_next(span *out, const char *text)
{
    for (const char *begin = strchr(text, '<'); begin; begin = strchr(begin + 1, '<')) {
        const char *end = strchr(begin, '>');
        if (!end)
            return false;
        if (is_next(end + 1)) {
            *out = (span){begin + 1, (size_t)(end - begin) - 1};
            return true;
        }
    }
    return false;
}
