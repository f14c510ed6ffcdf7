/* output.h - writing for people and for programs: safe text, sizes, JSON, and noticing when writing fails. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "../base/json.h"
#include "../base/text.h"

#include <stdio.h>

/* Makes sure that descriptors 0, 1 and 2 are taken, so that no file of ours becomes standard output. */
void output_guard(void);
/* Flushes standard output, and remembers why where it cannot be written. */
void output_flush(void);
/* The same at the end. HEARTH_IO: something written to it was lost, and why. */
hearth_status output_close(hearth_error *error);

/* Text that may come from a hostile file: valid printable UTF-8 as it is, everything else (control characters,
 * direction overrides, broken bytes) as \xNN. At most `limit` bytes of it, then "...". */
void output_safe(FILE *to, span text, size_t limit);
/* Text for a terminal to read: control characters but \n and \t, and broken bytes, as U+FFFD. */
void output_terminal(FILE *to, span text);
/* The same bytes as a JSON string, broken ones replaced by U+FFFD. NULL: no memory. */
json_t *output_json_text(span text);

/* text_size. */
char *output_size(char buffer[16], double size_bytes);

/* Whether a file can be written where an option says so, before the work whose result it is; nothing changes. what:
 * "eval ppl: --out". path NULL: not asked for. may_stream: "-" is standard output. */
hearth_status output_check_file(const char *what, const char *path, bool may_stream, hearth_error *error);

/* Prints and releases value (NULL: HEARTH_NO_MEMORY) with a newline behind it. */
hearth_status output_json(json_t *value, size_t flags, hearth_error *error);

#endif
