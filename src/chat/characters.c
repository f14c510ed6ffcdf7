/* characters.c - single characters. */
#include "characters.h"

#include <utf8proc.h>

bool is_white_character(int32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || utf8proc_category(code) == UTF8PROC_CATEGORY_ZS || code == 0x2028 || code == 0x2029;
}

size_t take_character(span text, int32_t *code)
{
    size_t length = utf8_length(text.data, text.size);
    utf8proc_iterate((const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)length, code);
    return length;
}

size_t put_character(char *out, int32_t code)
{
    return utf8proc_codepoint_valid(code) ? (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)out) : 0;
}

size_t white_prefix(span text)
{
    size_t at = 0;
    while (at < text.size) {
        int32_t code;
        size_t length = take_character((span){text.data + at, text.size - at}, &code);
        if (!is_white_character(code))
            break;
        at += length;
    }
    return at;
}

size_t white_suffix(span text)
{
    size_t end = text.size;
    while (end > 0) {
        size_t at = end - 1;
        int32_t code;
        while (at > 0 && ((uint8_t)text.data[at] & 0xc0) == 0x80)
            at--;
        take_character((span){text.data + at, end - at}, &code);
        if (!is_white_character(code))
            break;
        end = at;
    }
    return text.size - end;
}

size_t characters_bytes(span text, size_t count)
{
    size_t at = 0;
    while (at < text.size && count-- > 0)
        at += utf8_length(text.data + at, text.size - at);
    return at;
}
