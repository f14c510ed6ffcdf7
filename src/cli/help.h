/* help.h - prints the texts of `--help` from the same rows that the parser and the dispatcher read. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

/* What hearth does, in a few words. */
#define HELP_PURPOSE "runs large language models by not reading what is zero"
/* Options that no table has. */
#define HELP_HELP    "prints a help text"
#define HELP_VERSION "prints the version"
/* What else the overview says: before the list of commands, and after it. */
extern const char help_about[], help_conventions[];

/* Returns the description of an option, with the possible values where another table defines them; NULL: no memory. The caller
 * frees it. */
char *help_option(const option *o);

/* Prints the list of all commands. */
void help_overview(void);
/* Prints usage, description, options and example. */
void help_command(const command *c);

#endif
