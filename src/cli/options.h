/* options.h - the one parser of command lines, driven by a command's tables. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "command.h"

/* Fills values (which hold the defaults) and the operands. Understands -x VALUE, --name VALUE, --name=VALUE and --
 * (what follows are operands); a lone - is an operand. *help: -h or --help was given, nothing else counts then.
 * Lists live in `memory`, texts in argv. HEARTH_INVALID: unknown option, missing or bad value, too many or too few
 * operands; the text suggests what may have been meant. */
hearth_status options_parse(const command *c, char *const *arguments, size_t count, void *values, operands *rest,
                            bool *help, arena *memory, hearth_error *error);

/* "1,2,3" (blanks also separate), or "@FILE" with such text in it, or "@-"; may be empty. what: for the
 * error's text. */
hearth_status options_number_list(const char *what, const char *text, double least, double most, number_list *out,
                                  arena *memory, hearth_error *error);

/* The first row of a table whose value is another one in `values` than in `defaults`, two records of the command's, made of
 * zeros and its defaults; NULL: * all are as they were. */
const option *options_find_changed(const option_table *table, const void *values, const void *defaults);

/* The name in names [count] that looks most like `word`; NULL where none is close. */
const char *options_suggest(const char *word, const char *const *names, size_t count);

#endif
