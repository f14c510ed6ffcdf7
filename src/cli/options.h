/* options.h - the parser of command lines, driven by a command's tables. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "command.h"

/* Fills `values` (which hold the defaults) and the operands. Accepts -x VALUE, --name VALUE, --name=VALUE and --
 * (everything after it is an operand); a lone - is an operand. *help: -h or --help was given; the rest is then not
 * checked. Lists are allocated in `memory`, texts point into argv. HEARTH_INVALID: unknown option, missing or bad
 * value, too many or too few operands; the error suggests what may have been meant. */
hearth_status options_parse(const command *c, char *const *arguments, size_t count, void *values, operands *rest,
                            bool *help, arena *memory, hearth_error *error);

/* Finds the row that an argument names ("-m", "--model", "--model=x", "-ngl"), and its table. NULL: there is none. */
const option *options_find(const command *c, const char *argument, const option_table **table);

/* Reads a size like "500M" or "4G", in bytes; what: names it in the error. HEARTH_INVALID: it is none. */
hearth_status options_size(const char *what, const char *text, uint64_t *out, hearth_error *error);

/* Parses "1,2,3" (blanks also separate), "@FILE" for such text in a file, or "@-" for standard input; may be empty.
 * what: names the list in errors. */
hearth_status options_number_list(const char *what, const char *text, double least, double most, number_list *out,
                                  arena *memory, hearth_error *error);

/* Returns the first row of a table whose value in `values` differs from that in `defaults`; NULL: none differs. Both
 * are records of the command, zeroed and then filled by its defaults function, so that padding compares equal. */
const option *options_find_changed(const option_table *table, const void *values, const void *defaults);

/* Returns the name in names [count] that is most similar to `word`; NULL where none is close. */
const char *options_suggest(const char *word, const char *const *names, size_t count);

/* Takes the next word of "a,b,c", cut at 31 bytes, and moves *list behind it; to NULL after the last. A word may be empty. */
void options_take_word(const char **list, char word[32]);

/* A list of names that an option takes, each at most once. */
typedef struct name_choices {
    const char *option;       /* "bench: --compare", for errors */
    const char *kind, *there; /* "mode"; "there are dense and exact" */
    const char *const *names; /* [count] */
    size_t count;
} name_choices;

/* Reads such a list into the indices of its names, in its order: out [count], of which *found are written. HEARTH_INVALID:
 * a word is no name, or stands there twice. */
hearth_status options_names(const name_choices *c, const char *list, unsigned *out, size_t *found, hearth_error *error);

#endif
