/* dialogue.c - reads lines and acts on them. */
#include "dialogue.h"

#include "output.h"
#include "progress.h"

#include "../base/text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Around a text of several lines, as in ollama. */
#define QUOTES      "\"\"\""
#define QUOTES_SIZE (sizeof QUOTES - 1)

void dialogue_greet(const dialogue *d)
{
    fprintf(stderr, "%sCtrl-C stops an answer, Ctrl-D leaves, /help says more.\n", d->about);
}

static void print_help(const dialogue *d)
{
    fputs(d->about, stderr);
    for (size_t i = 0; i < d->word_count; i++) {
        const dialogue_word *w = &d->words[i];
        char both[32];
        snprintf(both, sizeof both, "%s%s%s", w->word, w->argument ? " " : "", w->argument ? w->argument : "");
        if (w->help)
            fprintf(stderr, "  %-14s %s\n", both, w->help);
    }
    fputs("  /help          this list\n"
          "  /quit          leave, as does Ctrl-D; Ctrl-C stops an answer\n",
          stderr);
}

/* ------------------------------------------------------------------ lines to texts */

/* Appends a line to the text, after a line break if there is one already. */
static hearth_status join_line(buffer *text, const char *line, size_t size, bool is_first, hearth_error *error)
{
    bool ok = (is_first || buffer_put(text, "\n", 1)) && buffer_put(text, line, size);
    return ok ? HEARTH_OK : fail_memory(error, "line", size);
}

static bool begins_quoted(const char *line)
{
    return strncmp(line, QUOTES, QUOTES_SIZE) == 0;
}

/* Appends the lines from behind the opening quotes up to the closing ones, or the end of the input. Quotes alone on
 * their line add none. first: what follows the opening quotes. */
static hearth_status read_quoted(dialogue *d, const char *first, buffer *text, hearth_error *error)
{
    const char *part = first;
    char *line = NULL;
    hearth_status status = HEARTH_OK;
    bool ends = false, is_empty = true;
    while (status == HEARTH_OK && !ends && part) {
        size_t size = strlen(part);
        ends = size >= QUOTES_SIZE && strcmp(part + size - QUOTES_SIZE, QUOTES) == 0;
        size -= ends ? QUOTES_SIZE : 0;
        if (size > 0 || (!ends && part != first)) {
            status = join_line(text, part, size, is_empty, error);
            is_empty = false;
        }
        free(line);
        line = ends ? NULL : line_editor_read(&d->editor, ". ");
        part = line;
    }
    free(line);
    return status;
}

/* Appends the first line, and those behind a backslash. */
static hearth_status read_joined(dialogue *d, const char *first, buffer *text, hearth_error *error)
{
    const char *line = first;
    char *next = NULL;
    hearth_status status;
    bool goes_on;
    do {
        size_t size = strlen(line);
        goes_on = d->joins_lines && size > 0 && line[size - 1] == '\\';
        status = join_line(text, line, size - goes_on, line == first, error);
        free(next);
        next = goes_on && status == HEARTH_OK ? line_editor_read(&d->editor, ". ") : NULL;
        line = next;
    } while (line);
    return status;
}

/* Reads all lines of a text, with a terminating 0. */
static hearth_status read_text(dialogue *d, const char *first, buffer *text, hearth_error *error)
{
    if (d->joins_lines && begins_quoted(first))
        TRY(read_quoted(d, first + QUOTES_SIZE, text, error));
    else
        TRY(read_joined(d, first, text, error));
    return buffer_put(text, "", 1) ? HEARTH_OK : fail_memory(error, "line", 1);
}

/* ------------------------------------------------------------------ texts to acts */

/* Returns what follows a word in a text; NULL: the text is not that word. */
static const char *behind_word(const char *text, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(text, word, size) != 0 || (text[size] && text[size] != ' '))
        return NULL;
    return text + size + strspn(text + size, " ");
}

/* Runs a word, or hands on the text. Only at a terminal is an unknown word an error. */
static hearth_status act_on(dialogue *d, const char *text, hearth_error *error)
{
    static const char *const leaving[] = {"/quit", "/exit", "/bye"};
    if (*text != '/')
        return d->say(d->user, text, error);
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
        if (strcmp(text, leaving[i]) == 0) {
            d->done = true;
            return HEARTH_OK;
        }
    if (strcmp(text, "/help") == 0 || strcmp(text, "/?") == 0) {
        print_help(d);
        return HEARTH_OK;
    }
    const dialogue_word *known = NULL;
    for (size_t i = 0; i < d->word_count; i++) {
        const char *argument = behind_word(text, d->words[i].word);
        if (argument && (d->words[i].argument || !*argument))
            return d->words[i].act(d->user, argument, error);
        known = argument ? &d->words[i] : known;
    }
    if (!d->editor.terminal)
        return d->say(d->user, text, error); /* a text may begin with a slash */
    if (known)
        return fail(error, HEARTH_INVALID, "run: %s: takes no argument", known->word);
    return fail(error, HEARTH_INVALID, "run: unknown command %.*s; /help lists what there is",
                (int)strcspn(text, " \n"), text);
}

static hearth_status handle(dialogue *d, const char *line, hearth_error *error)
{
    buffer text = {0};
    hearth_status status = read_text(d, line, &text, error);
    if (status == HEARTH_OK && !interrupt_signal()) {
        line_editor_hide_typing(&d->editor);
        status = act_on(d, text.data, error);
        line_editor_show_typing(&d->editor);
    }
    buffer_free(&text);
    return status;
}

hearth_status dialogue_run(dialogue *d, hearth_error *error)
{
    bool was_interrupted = false; /* Ctrl-C came at the last prompt, too */
    while (!d->done) {
        interrupt_reset();
        char *line = line_editor_read(&d->editor, "> ");
        if (!line && interrupt_signal() == SIGINT && d->editor.terminal) {
            fputs(was_interrupted ? "\nCtrl-D or /quit leaves.\n" : "\n", stderr);
            was_interrupted = true;
            continue; /* Ctrl-C at the prompt: shows an empty prompt again */
        }
        was_interrupted = false;
        if (!line)
            return interrupt_signal() ? HEARTH_CANCELLED : HEARTH_OK;
        interrupt_reset();
        hearth_error mistake = {0};
        hearth_status status = handle(d, line, &mistake);
        free(line);
        if (ferror(stdout))
            return HEARTH_OK; /* reported once, at the end of the program */
        if (interrupt_signal() && (interrupt_signal() != SIGINT || !d->editor.terminal))
            return HEARTH_CANCELLED;
        if (status != HEARTH_OK && !d->editor.terminal)
            return fail(error, status, "%s", mistake.text);
        if (status == HEARTH_CANCELLED)
            output_note("note", "%s", mistake.text);
        else if (status != HEARTH_OK)
            output_error(mistake.text);
    }
    return HEARTH_OK;
}
