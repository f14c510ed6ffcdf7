/* dialogue.h - what `hearth run` does with lines: words with a slash, and text for the model. */
#ifndef CLI_DIALOGUE_H
#define CLI_DIALOGUE_H

#include "line_editor.h"

#include "../base/error.h"

#include <stddef.h>

typedef struct dialogue_word {
    const char *word;     /* "/system"                            */
    const char *argument; /* "TEXT", for the help; NULL: it takes none */
    const char *help;     /* NULL: another word for one that is listed */
    /* argument: what follows the word, "" where nothing does. */
    hearth_status (*act)(void *user, const char *argument, hearth_error *error);
} dialogue_word;

typedef struct dialogue {
    line_editor editor;
    const char *about;          /* what happens with a text; the first lines of the greeting and of /help */
    const dialogue_word *words; /* [word_count], beside /help and /quit                      */
    size_t word_count;
    bool joins_lines; /* a line goes on behind a backslash at its end, and a text between """ and """ */
    hearth_status (*say)(void *user, const char *text, hearth_error *error); /* what is no word */
    void *user;
    bool done;
} dialogue;

/* Prints the first lines, on standard error. */
void dialogue_greet(const dialogue *d);
/* Handles lines until the end of the input, or /quit. At a terminal it prints errors and goes on; otherwise the first
 * error ends it. HEARTH_CANCELLED: a signal ended it. */
hearth_status dialogue_run(dialogue *d, hearth_error *error);

#endif
