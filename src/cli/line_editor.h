/* line_editor.h - lines from a terminal, with editing and a history where libedit is there, or from a pipe. What is pasted
 * into an edited line stays one line, with its line breaks. */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include <stdbool.h>

typedef struct line_editor {
    bool terminal; /* standard input and output are one: there is a prompt */
    bool edits;    /* lines can be edited */
    char *history; /* path, or NULL */
} line_editor;

/* Looks at standard input and output; at a terminal it prepares editing, reads the history, and lets Ctrl-C only raise
 * the interrupt flag. Close it also then. */
void line_editor_open(line_editor *e);
void line_editor_close(line_editor *e);
/* While an answer is printed: where lines are edited, what is typed shall not be shown in it. It is shown when the next
 * line is read. */
void line_editor_hide_typing(const line_editor *e);
void line_editor_show_typing(const line_editor *e);
/* Reads a line without its end, after `prompt` at a terminal. NULL: the end of the input, or interrupted. Free it with
 * free(). */
char *line_editor_read(line_editor *e, const char *prompt);

#endif
