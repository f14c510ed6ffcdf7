/* line_editor.c - reads lines. */
#include "line_editor.h"

#include "common.h"
#include "progress.h"

#include "../base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HEARTH_HAVE_LIBEDIT
#include <editline/readline.h>
#include <langinfo.h>
#include <locale.h>
#endif

#define HISTORY_LINES 1000

static char *plain_line(void)
{
    char *line = NULL;
    size_t capacity = 0;
    if (getline(&line, &capacity, stdin) < 0) {
        free(line);
        clearerr(stdin);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = 0;
    return line;
}

#ifdef HEARTH_HAVE_LIBEDIT

/* The editor reads characters, not bytes: without a UTF-8 locale it would drop everything that is not ASCII. */
static bool speak_utf8(void)
{
    static const char *const locales[] = {"", "C.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_CTYPE, locales[i]) && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
            return true;
    return false;
}

static void prepare_editing(line_editor *e)
{
    e->edits = speak_utf8();
    if (!e->edits)
        return;
    /* Ctrl-C must only raise the interrupt flag; the editor's own handler would end the program. */
    rl_catch_signals = 0;
    rl_outstream = stderr; /* standard output is for the text only */
    rl_initialize();
    using_history();
    stifle_history(HISTORY_LINES);
    e->history = common_user_path("XDG_STATE_HOME", ".local/state", "hearth/history");
    if (e->history)
        read_history(e->history);
}

static char *edited_line(line_editor *e, const char *prompt)
{
    char *line = readline(prompt);
    if (line && *line) {
        add_history(line);
        if (e->history)
            write_history(e->history);
    }
    return line;
}

#else

static void prepare_editing(line_editor *e)
{
    (void)e;
}

static char *edited_line(line_editor *e, const char *prompt)
{
    (void)e, (void)prompt;
    return NULL; /* never called: nothing can be edited */
}

#endif

void line_editor_open(line_editor *e)
{
    *e = (line_editor){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (!e->terminal)
        return;
    interrupt_only_flag();
    prepare_editing(e);
}

void line_editor_close(line_editor *e)
{
    mem_free(e->history);
    e->history = NULL;
}

char *line_editor_read(line_editor *e, const char *prompt)
{
    if (e->edits)
        return edited_line(e, prompt);
    if (e->terminal)
        fputs(prompt, stderr);
    return plain_line();
}
