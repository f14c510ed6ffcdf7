/* terminal.h - everything that is written for a terminal alone: colour, and replacing a line.
 *
 * Each stream is looked at by itself: standard output may be a file while standard error is a terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

typedef enum terminal_style {
    STYLE_PROMPT,  /* the user's text, before the model's */
    STYLE_THOUGHT, /* what a model thinks before it answers */
    STYLE_STATUS,  /* what a run reports about itself     */
    STYLE_WARNING, /* the word "note" or "warning"        */
    STYLE_ERROR,   /* the program's name before an error  */
    STYLE_COUNT
} terminal_style;

/* Begin and end a style. Styles do not nest. Write nothing where `to` shows no colour: it is no terminal, TERM is
 * "dumb" or missing, or NO_COLOR is set and not empty (https://no-color.org). */
void terminal_begin(FILE *to, terminal_style style);
void terminal_end(FILE *to);

/* Returns whether a line on `to` can be replaced: `to` is a terminal, and TERM is neither "dumb" nor missing. */
bool terminal_can_replace(FILE *to);
/* Removes the last line of such a terminal, so that another can be written in its place. */
void terminal_clear_line(FILE *to);
/* Asks such a terminal to put marks around what is pasted ("bracketed paste" of xterm), or no longer to. */
void terminal_mark_pastes(FILE *to, bool marks);
/* Returns the columns of the terminal; 80 where it does not say. */
int terminal_width(FILE *to);

#endif
