/* text.h - spans of bytes, UTF-8, growing buffers. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes owned elsewhere; not terminated. */
typedef struct span {
    const char *data;
    size_t size;
} span;

span span_of(const char *terminated);
bool span_equal(span a, span b);
bool text_ends_with(const char *text, const char *ending);

/* Returns true for ASCII white space: the space and \t \n \v \f \r. */
bool is_white(char c);

/* Returns the length 1..4 of the valid UTF-8 character at the start of text, 0 if there is none
 * (overlong forms, surrogates and values above U+10FFFF are invalid). size > 0. */
size_t utf8_length(const char *text, size_t size);
/* Returns true if text is a proper prefix of one valid character: more bytes could complete it. */
bool utf8_is_partial(const char *text, size_t size);
bool utf8_is_valid(const char *text, size_t size);

/* Prints a size like "1.25 GB": decimal prefixes, three digits. Returns text. */
char *text_size(char text[16], double size_bytes);

/* A growing byte buffer; a zeroed one is empty. */
typedef struct buffer {
    char *data;
    size_t size, capacity;
} buffer;

/* Append bytes or formatted text. false: no memory, or the format failed; the buffer's content is unchanged. */
bool buffer_put(buffer *b, const void *data, size_t size);
bool buffer_print(buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(buffer *b);

#endif
