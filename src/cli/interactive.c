/* interactive.c - `hearth run` at a terminal: every line continues the same text.
 *
 * The whole text is stored as ids; what the session has not read yet (the last token of an answer, and the line just
 * typed) is fed with the next line. So stopping an answer anywhere, also with Ctrl-C, loses nothing. */
#include "run.h"

#include "output.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HEARTH_HAVE_LIBEDIT
#include <editline/readline.h>
#include <langinfo.h>
#include <locale.h>
#endif

#define HISTORY_LINES 1000

typedef struct dialogue {
    chat *chat;
    int32_t *ids; /* [count] the text so far */
    size_t count, capacity;
    bool terminal;
    bool editor;   /* lines can be edited     */
    char *history; /* path, or NULL */
    bool done;
} dialogue;

/* ------------------------------------------------------------------ the text so far */

static hearth_status append(dialogue *d, const int32_t *ids, size_t count, hearth_error *error)
{
    if (count == 0)
        return HEARTH_OK;
    int32_t *grown = mem_grow(d->ids, &d->capacity, d->count, count, sizeof *grown);
    if (!grown)
        return fail_memory(error, "text", (d->count + count) * sizeof *grown);
    d->ids = grown;
    memcpy(d->ids + d->count, ids, count * sizeof *ids);
    d->count += count;
    return HEARTH_OK;
}

static hearth_status reset(dialogue *d, hearth_error *error)
{
    d->count = 0;
    hearth_sampler_reset(d->chat->sampler);
    return hearth_session_truncate(d->chat->session, 0, 0, error);
}

/* Appends a line; only the first one adds BOS. */
static hearth_status append_text(dialogue *d, const char *line, hearth_error *error)
{
    int32_t *ids = NULL;
    size_t count = 0;
    unsigned flags = HEARTH_TEXT_PARSE_CONTROL | (d->count == 0 ? HEARTH_TEXT_SPECIAL : 0);
    if (*line || d->count == 0)
        TRY(hearth_tokenize(d->chat->loaded.model, line, strlen(line), flags, &ids, &count, error));
    hearth_status status = append(d, ids, count, error);
    hearth_free(ids);
    return status;
}

/* Shortens a text that fills the context and leaves no room for an answer. BOS stays if the text began with it, and so
 * do the newest half context or the line just typed, whichever is longer; the session then reads them again. */
static hearth_status forget_oldest(dialogue *d, size_t typed, hearth_error *error)
{
    const chat *s = d->chat;
    size_t context = hearth_session_context(s->session), begin = d->count > 0 && d->ids[0] == s->loaded.info.bos;
    size_t newest = typed > context / 2 ? typed : context / 2;
    if (d->count < context || (begin + newest >= d->count && d->count == context))
        return HEARTH_OK;
    if (begin + newest >= d->count || begin + newest > context)
        return fail(error, HEARTH_FULL, "run: text: the line has %zu tokens, the context only %zu; -c makes it larger",
                    typed, context);
    size_t forgotten = d->count - begin - newest;
    if (!s->messages.quiet)
        output_note("note", "context full: goes on without the oldest %zu of %zu tokens", forgotten, d->count);
    memmove(d->ids + begin, d->ids + begin + forgotten, newest * sizeof *d->ids);
    d->count -= forgotten;
    return hearth_session_truncate(s->session, 0, 0, error);
}

/* Continues the text; on failure the text is as before the line, except for what was dropped as oldest. */
static hearth_status continue_text(dialogue *d, const char *line, hearth_error *error)
{
    chat *s = d->chat;
    size_t before = d->count;
    TRY(append_text(d, line, error));
    if (d->count == 0)
        return fail(error, HEARTH_INVALID, "run: text: type a beginning first");
    size_t typed = d->count - before;
    hearth_status room = forget_oldest(d, typed, error);
    before = d->count - typed;
    if (room != HEARTH_OK) {
        d->count = before;
        return room;
    }
    uint32_t known = hearth_session_length(s->session, 0);
    if (known >= d->count) { /* all was read already: the last token is read again for its logits */
        known = (uint32_t)d->count - 1;
        TRY(hearth_session_truncate(s->session, 0, known, error));
    }
    hearth_result result;
    s->last = 0;
    hearth_status status = chat_answer(s, d->ids + known, d->count - known, &result, error);
    if (status != HEARTH_OK) {
        d->count = before;
        return status;
    }
    if (s->last != '\n')
        chat_print(s, "\n", 1);
    if (!ferror(stdout))
        chat_report(s, &result);
    if (d->terminal && result.stop == HEARTH_STOP_CONTEXT && !s->messages.quiet)
        output_note("note", "the next line goes on without the oldest half, /reset starts a new text");
    return append(d, s->ids, s->id_count, error);
}

/* ------------------------------------------------------------------ words with a slash */

static hearth_status say_help(dialogue *d, hearth_error *error)
{
    (void)d, (void)error;
    fputs("Type the beginning of a text and it is continued; the next line goes on from there, an empty line just\n"
          "goes on. /reset starts a new text, /quit or Ctrl-D leaves, Ctrl-C stops an answer.\n",
          stderr);
    return HEARTH_OK;
}

static hearth_status quit(dialogue *d, hearth_error *error)
{
    (void)error;
    d->done = true;
    return HEARTH_OK;
}

static const struct {
    const char *word;
    hearth_status (*act)(dialogue *d, hearth_error *error);
} words[] = {
    {"/help", say_help},
    {"/reset", reset},
    {"/quit", quit},
};

/* Runs a command, or continues the text with the line. Only at a terminal is an unknown command an error. */
static hearth_status act_on(dialogue *d, const char *line, hearth_error *error)
{
    if (*line != '/')
        return continue_text(d, line, error);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, line) == 0)
            return words[i].act(d, error);
    if (!d->terminal)
        return continue_text(d, line, error); /* not a command: a text may begin with a slash */
    return fail(error, HEARTH_INVALID, "run: %s: is not known; /help says what is", line);
}

/* ------------------------------------------------------------------ reading lines */

/* Reads a line without its end; NULL at the end of the input, or interrupted. Free with free(). */
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

static char *prompted_line(void)
{
    fputs("> ", stderr);
    return plain_line();
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

static void open_editor(dialogue *d)
{
    d->editor = speak_utf8();
    if (!d->editor)
        return;
    /* Ctrl-C must only raise the interrupt flag; the editor's own handler would end the program. */
    rl_catch_signals = 0;
    rl_outstream = stderr; /* standard output is for the text only */
    rl_initialize();
    using_history();
    stifle_history(HISTORY_LINES);
    d->history = common_user_path("XDG_STATE_HOME", ".local/state", "hearth/history");
    if (d->history)
        read_history(d->history);
}

/* Reads a line with editing and history; without a working editor, a plain line. */
static char *edit_line(dialogue *d)
{
    if (!d->editor)
        return prompted_line();
    char *line = readline("> ");
    if (line && *line) {
        add_history(line);
        if (d->history)
            write_history(d->history);
    }
    return line;
}

#else

static void open_editor(dialogue *d)
{
    (void)d;
}

static char *edit_line(dialogue *d)
{
    (void)d;
    return prompted_line();
}

#endif

/* Handles lines until the end of the input. At a terminal it prints errors and goes on; otherwise the first error ends
 * it. */
static hearth_status converse(dialogue *d, hearth_error *error)
{
    while (!d->done) {
        interrupt_reset();
        char *line = d->terminal ? edit_line(d) : plain_line();
        if (!line && interrupt_signal() == SIGINT && d->terminal) {
            fputc('\n', stderr);
            continue; /* Ctrl-C at the prompt: shows an empty prompt again */
        }
        if (!line)
            return interrupt_signal() ? HEARTH_CANCELLED : HEARTH_OK;
        interrupt_reset();
        hearth_error mistake = {0};
        hearth_status status = act_on(d, line, &mistake);
        free(line);
        if (ferror(stdout))
            return HEARTH_OK; /* reported once, at the end of the program */
        if (interrupt_signal() && (interrupt_signal() != SIGINT || !d->terminal))
            return HEARTH_CANCELLED;
        if (status != HEARTH_OK && !d->terminal)
            return fail(error, status, "%s", mistake.text);
        if (status != HEARTH_OK)
            output_error(mistake.text);
    }
    return HEARTH_OK;
}

hearth_status interactive_run(chat *s, hearth_error *error)
{
    dialogue d = {.chat = s, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    if (d.terminal) {
        interrupt_only_flag();
        if (!s->messages.quiet)
            say_help(&d, error);
        open_editor(&d);
    }
    hearth_status status = converse(&d, error);
    if (d.terminal && status == HEARTH_OK && !d.done)
        fputc('\n', stderr);
    mem_free(d.ids);
    mem_free(d.history);
    return status;
}
