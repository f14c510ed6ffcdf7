/* text.h - spans of bytes, UTF-8, growing buffers. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes that somebody else owns; not terminated. */
typedef struct span {
    const char *data;
    size_t size;
} span;

span span_of(const char *terminated);
bool span_equal(span a, span b);

/* ASCII's blanks: the space and the controls \t \n \v \f \r. */
bool is_white(char c);

/* Length 1..4 of the valid UTF-8 character at the start of text, 0 where there is none
 * (overlong forms, surrogates and values above U+10FFFF are invalid). size > 0. */
size_t utf8_length(const char *text, size_t size);
/* True where text is a proper beginning of a valid character and nothing more. */
bool utf8_is_partial(const char *text, size_t size);
bool utf8_is_valid(const char *text, size_t size);

/* "1.25 GB": decimal prefixes, three digits. Returns text. */
char *text_size(char text[16], double size_bytes);

/* A growing byte buffer; zeroed is empty. */
typedef struct buffer {
    char *data;
    size_t size, capacity;
} buffer;

/* false: no memory, the buffer is as before. */
bool buffer_put(buffer *b, const void *data, size_t size);
bool buffer_print(buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(buffer *b);

#endif
