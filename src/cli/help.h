/* help.h - what `--help` prints, from the same rows that parser and dispatcher read. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

/* The list of commands; commands is NULL-terminated. */
void help_overview(const command *const *commands);
/* Usage, paragraph, options, example. */
void help_command(const command *c);

#endif
