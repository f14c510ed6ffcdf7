/* methods.h - what methods and filters of texts share. */
#ifndef CHAT_METHODS_H
#define CHAT_METHODS_H

#include "builtins.h"

/* The methods of texts; the last row has no name. */
extern const function text_methods[];

/* Returns true for letters, and digits and other numbers. */
bool is_letter_or_number(int32_t code);
/* Returns the text without the characters of a set (NULL: white space) at its left and right end. */
span strip_text(span text, const span *set, bool left, bool right);
/* Cuts the next line off; *line_break: what ends it, empty at the end. false: nothing is left. */
bool next_line(span *rest, span *line, span *line_break);
/* Replaces the first `most` occurrences (-1: all). */
hearth_status replace_text(rendering *r, span text, span old, span new, int64_t most, value *out);
/* Fills a text up to a width; share_left: of the fill that comes before it, 0, 0.5 or 1. */
hearth_status pad_text(rendering *r, span text, int64_t width, span fill, double share_left, value *out);

#endif
