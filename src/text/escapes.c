/* escapes.c - see escapes.h. */
#include "escapes.h"

#include <string.h>
#include <utf8proc.h>

static const char letters[] = "tnr\\'\"", meant[] = "\t\n\r\\'\"";

/* Returns the value of so many hexadecimal digits at the beginning of a text; -1: it does not begin with them. */
static int32_t digits_of(span text, size_t count)
{
    int32_t value = 0;
    for (size_t i = 0; i < count; i++) {
        char c = i < text.size ? text.data[i] : 0;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* Reads the escape with which a text begins; returns how many characters it has, 0: it is none. */
static size_t read_escape(span text, bool characters, char *out, size_t *size)
{
    const char *letter = text.size > 1 ? memchr(letters, text.data[1], sizeof letters - 1) : NULL;
    if (letter) {
        out[(*size)++] = meant[letter - letters];
        return 2;
    }
    bool is_wide = characters && text.size > 1 && text.data[1] == 'u';
    size_t digits = is_wide ? 4 : 2;
    if (text.size < 2 || (!is_wide && text.data[1] != 'x'))
        return 0;
    int32_t value = digits_of((span){text.data + 2, text.size - 2}, digits);
    if (value < 0 || (characters && !utf8proc_codepoint_valid(value)))
        return 0;
    if (characters)
        *size += (size_t)utf8proc_encode_char(value, (utf8proc_uint8_t *)out + *size);
    else
        out[(*size)++] = (char)value;
    return 2 + digits;
}

bool escapes_read(span text, bool characters, char *out, size_t *size)
{
    *size = 0;
    for (size_t i = 0, used; i < text.size; i += used) {
        used = 1;
        if (text.data[i] != '\\')
            out[(*size)++] = text.data[i];
        else if (!(used = read_escape((span){text.data + i, text.size - i}, characters, out, size)))
            return false;
    }
    return true;
}

bool escapes_write(span bytes, buffer *out)
{
    bool quoted = memchr(bytes.data, '\'', bytes.size) && memchr(bytes.data, '"', bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        char c = bytes.data[i];
        const char *letter = memchr(meant, c, sizeof meant - 1);
        bool is_quote = c == '"' || (c == '\'' && !quoted), done;
        if (letter && !is_quote)
            done = buffer_print(out, "\\%c", letters[letter - meant]);
        else if (c >= ' ' && c <= '~')
            done = buffer_put(out, &c, 1);
        else
            done = buffer_print(out, "\\x%02x", (unsigned)(uint8_t)c);
        if (!done)
            return false;
    }
    return true;
}
