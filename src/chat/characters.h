/* characters.h - white space as Python's str.strip() knows it, and single characters of UTF-8. */
#ifndef CHAT_CHARACTERS_H
#define CHAT_CHARACTERS_H

#include "../base/text.h"

/* Returns true for the characters of str.isspace(). */
bool is_white_character(int32_t code);
/* Return the bytes of the white space at the beginning (end) of a valid text. */
size_t white_prefix(span text);
size_t white_suffix(span text);

/* Reads the character at the start of a valid text, of which there is at least one; returns its bytes. */
size_t take_character(span text, int32_t *code);
/* Writes a character; returns its bytes, at most 4. 0: a surrogate, or beyond Unicode. */
size_t put_character(char *out, int32_t code);
/* Returns the bytes of the first `count` characters of a valid text; all of them where it has fewer. */
size_t characters_bytes(span text, size_t count);

#endif
