/* output.h - output for people and programs: escaped text, sizes, JSON, and detection of failed writes. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "../base/json.h"
#include "../base/memory.h"
#include "../base/text.h"

#include <stdio.h>

/* Makes sure that descriptors 0, 1 and 2 are in use, so that no file opened later becomes standard output. */
void output_guard(void);
/* Flushes standard output and remembers the reason if that fails. */
void output_flush(void);
/* Flushes it a last time. HEARTH_IO: some output was lost; the error says why. */
hearth_status output_close(hearth_error *error);

/* Writes text that may come from a hostile file: valid printable UTF-8 as it is, everything else (control characters,
 * direction overrides, invalid bytes) as \xNN. At most `limit` bytes of it, then "...". */
void output_safe(FILE *to, span text, size_t limit);
/* Writes text for a terminal: control characters other than line breaks and tabs, and invalid bytes, become
 * U+FFFD. */
void output_terminal(FILE *to, span text);
/* Prints "hearth: TEXT" as one line on standard error. */
void output_error(const char *text);
/* Prints "WORD: TEXT" as one line on standard error, the text escaped as by output_safe. word: "note" or "warning". */
void output_note(const char *word, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the command line "hearth NAME ARGUMENTS", quoted where a shell needs it, in `memory`; NULL: no memory. */
const char *output_command_line(const char *path, char *const *arguments, size_t count, arena *memory);

/* Returns the last part of a path, behind its folders. */
const char *output_base_name(const char *path);

/* Formats a size in bytes with text_size. */
char *output_size(char buffer[16], double size_bytes);

/* Checks, before long work starts, whether the file named by an option can be written; changes nothing. what: "eval
 * ppl: --out". path NULL: the option was not given. may_stream: "-" means standard output. */
hearth_status output_check_file(const char *what, const char *path, bool may_stream, hearth_error *error);

/* Prints value and a newline, then releases value (NULL: HEARTH_NO_MEMORY). */
hearth_status output_json(json_t *value, size_t flags, hearth_error *error);

#endif
