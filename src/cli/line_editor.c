/* line_editor.c - reads lines. */
#include "line_editor.h"

#include "common.h"
#include "progress.h"
#include "terminal.h"

#include "../base/memory.h"
#include "../base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#ifdef HEARTH_HAVE_LIBEDIT
#include <editline/readline.h>
#include <langinfo.h>
#include <locale.h>
#endif

#define HISTORY_LINES 1000
#define PROMPT_WIDTH  2 /* of the widest one, "> " */

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

/* What a terminal sends around pasted text, once asked to by terminal_mark_pastes. */
#define PASTE_BEGIN "^[[200~" /* as libedit spells it */
#define PASTE_END   "\033[201~"

/* Takes what is pasted, line breaks too, instead of a line for each. Bytes come from the terminal itself, as libedit hands
 * on ASCII only. */
static int take_paste(int count, int key)
{
    (void)count, (void)key;
    const size_t end_size = strlen(PASTE_END);
    buffer text = {0};
    char byte;
    bool ok = true, ends = false;
    while (ok && !ends && read(STDIN_FILENO, &byte, 1) == 1) {
        byte = byte == '\r' ? '\n' : byte; /* as if Enter were pressed */
        ok = byte && buffer_put(&text, &byte, 1);
        ends = text.size >= end_size && memcmp(text.data + text.size - end_size, PASTE_END, end_size) == 0;
    }
    text.size -= ends ? end_size : 0;
    /* libedit draws the line anew from where the cursor is; so it goes to the beginning, or below a longer line. */
    bool is_one_row = rl_end < terminal_width(stderr) - PROMPT_WIDTH && !strchr(rl_line_buffer, '\n');
    fputs(is_one_row ? "\r" : "\r\n", stderr);
    if (buffer_put(&text, "", 1))
        rl_insert_text(text.data);
    rl_forced_update_display();
    buffer_free(&text);
    return 0;
}

/* Binds PASTE_BEGIN. libedit finds the function by the last key of what is bound, and binds that key, too. */
static void prepare_pasting(void)
{
    rl_add_defun("take-paste", take_paste, '~');
    rl_parse_and_bind("bind ~ ed-insert");
    rl_parse_and_bind("bind " PASTE_BEGIN " take-paste");
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
    prepare_pasting();
    using_history();
    stifle_history(HISTORY_LINES);
    e->history = common_user_path("XDG_STATE_HOME", ".local/state", "hearth/history");
    if (e->history)
        read_history(e->history);
}

static char *edited_line(line_editor *e, const char *prompt)
{
    terminal_mark_pastes(stderr, true);
    char *line = readline(prompt);
    terminal_mark_pastes(stderr, false);
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

static void set_echo(const line_editor *e, tcflag_t echo)
{
    struct termios mode;
    if (!e->edits || tcgetattr(STDIN_FILENO, &mode) != 0)
        return;
    mode.c_lflag = (mode.c_lflag & ~(tcflag_t)ECHO) | echo;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

void line_editor_hide_typing(const line_editor *e)
{
    set_echo(e, 0);
}

void line_editor_show_typing(const line_editor *e)
{
    set_echo(e, ECHO);
}

char *line_editor_read(line_editor *e, const char *prompt)
{
    if (e->edits)
        return edited_line(e, prompt);
    if (e->terminal)
        fputs(prompt, stderr);
    return plain_line();
}
