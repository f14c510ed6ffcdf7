/* text.c - spans, UTF-8 and growing buffers. */
#include "text.h"

#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

span span_of(const char *terminated)
{
    return (span){terminated, strlen(terminated)};
}

bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool span_equal(span a, span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool text_ends_with(const char *text, const char *ending)
{
    size_t size = strlen(text), end = strlen(ending);
    return size >= end && strcmp(text + size - end, ending) == 0;
}

/* Well-formed byte sequences, Unicode table 3-7. Only the range of the second byte depends on the
 * first; this excludes overlong forms, surrogates and values above U+10FFFF. */
typedef struct utf8_row {
    uint8_t first_low, first_high;
    uint8_t length;
    uint8_t second_low, second_high;
} utf8_row;

static const utf8_row utf8_rows[] = {
    // clang-format off
    {0x00, 0x7f, 1, 0,    0   },
    {0xc2, 0xdf, 2, 0x80, 0xbf},
    {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f},
    {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf},
    {0xf1, 0xf3, 4, 0x80, 0xbf},
    {0xf4, 0xf4, 4, 0x80, 0x8f},
    // clang-format on
};

/* Returns how many bytes of text belong to the character that its first byte begins; *length is the
 * full length of that character, 0 if no character begins with this byte. */
static size_t utf8_match(const char *text, size_t size, size_t *length)
{
    const uint8_t *bytes = (const uint8_t *)text;
    const utf8_row *row = utf8_rows, *end = utf8_rows + sizeof utf8_rows / sizeof *utf8_rows;
    while (row < end && (bytes[0] < row->first_low || bytes[0] > row->first_high))
        row++;
    *length = row < end ? row->length : 0;
    if (*length == 0)
        return 0;
    size_t matched = 1;
    while (matched < *length && matched < size) {
        uint8_t low = matched == 1 ? row->second_low : 0x80;
        uint8_t high = matched == 1 ? row->second_high : 0xbf;
        if (bytes[matched] < low || bytes[matched] > high)
            break;
        matched++;
    }
    return matched;
}

size_t utf8_length(const char *text, size_t size)
{
    if ((uint8_t)text[0] < 0x80)
        return 1;
    size_t length;
    return utf8_match(text, size, &length) == length ? length : 0;
}

bool utf8_is_partial(const char *text, size_t size)
{
    if (size == 0)
        return false;
    size_t length;
    size_t matched = utf8_match(text, size, &length);
    return matched == size && matched < length;
}

bool utf8_is_valid(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        size_t length = utf8_length(text + i, size - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

char *text_size(char text[16], double size_bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (size_bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        size_bytes /= 1000;
        unit++;
    }
    int decimals = unit == 0 || size_bytes >= 99.95 ? 0 : size_bytes >= 9.995 ? 1 : 2;
    snprintf(text, 16, "%.*f %s", decimals, size_bytes, units[unit]);
    return text;
}

/* Makes room for `more` bytes after the present ones. */
static bool buffer_reserve(buffer *b, size_t more)
{
    if (more <= b->capacity - b->size)
        return true;
    char *data = mem_grow(b->data, &b->capacity, b->size, more, 1);
    if (data)
        b->data = data;
    return data != NULL;
}

bool buffer_put(buffer *b, const void *data, size_t size)
{
    if (size == 0)
        return true;
    if (!buffer_reserve(b, size))
        return false;
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return true;
}

bool buffer_print(buffer *b, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    /* vsnprintf also writes a terminating 0, which is not counted as content. */
    bool fits = length >= 0 && buffer_reserve(b, (size_t)length + 1);
    if (fits) {
        vsnprintf(b->data + b->size, (size_t)length + 1, format, again);
        b->size += (size_t)length;
    }
    va_end(again);
    return fits;
}

void buffer_free(buffer *b)
{
    mem_free(b->data);
    *b = (buffer){0};
}
