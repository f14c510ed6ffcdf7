/* remote_name.c - names of files that a server chose. */
#include "remote_name.h"

#include <string.h>

#define LONGEST_PATH 1024

/* Returns whether a character of UTF-8 is a control character: U+0000 to U+001F, U+007F to U+009F. */
static bool is_control(const char *c, size_t length)
{
    unsigned char first = (unsigned char)c[0];
    return (length == 1 && (first < 0x20 || first == 0x7f)) || (first == 0xc2 && (unsigned char)c[1] < 0xa0);
}

static bool is_printable(const char *text, size_t size)
{
    for (size_t at = 0, length; at < size; at += length) {
        length = utf8_length(text + at, size - at);
        if (length == 0 || is_control(text + at, length))
            return false;
    }
    return true;
}

static bool is_dots(const char *part, size_t size)
{
    return size > 0 && size <= 2 && memcmp(part, "..", size) == 0;
}

bool remote_path_is_safe(const char *path)
{
    size_t size = strlen(path);
    if (size > LONGEST_PATH || strchr(path, '\\') || !is_printable(path, size))
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/' && part != path;
        size_t length = strcspn(part, "/");
        if (length == 0 || is_dots(part, length))
            return false;
    }
    return true;
}

bool remote_name_is_safe(const char *name)
{
    return remote_path_is_safe(name) && !strchr(name, '/');
}

const char *remote_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
