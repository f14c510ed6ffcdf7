/* help.h - prints the texts of `--help` from the same rows that the parser and the dispatcher read. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

/* Prints the list of commands; commands is NULL-terminated. */
void help_overview(const command *const *commands);
/* Prints usage, description, options and example. */
void help_command(const command *c);

#endif
