/* interactive.c - `hearth run` at a terminal: every line continues the same text.
 *
 * The whole text is stored as ids; what the session has not read yet (the last token of an answer, and the line just
 * typed) is fed with the next line. So stopping an answer anywhere, also with Ctrl-C, loses nothing. */
#include "run.h"

#include "dialogue.h"
#include "output.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct written {
    chat *chat;
    int32_t *ids; /* [count] the text so far */
    size_t count, capacity;
    bool terminal;
} written;

/* ------------------------------------------------------------------ the text so far */

static hearth_status append(written *w, const int32_t *ids, size_t count, hearth_error *error)
{
    if (count == 0)
        return HEARTH_OK;
    int32_t *grown = mem_grow(w->ids, &w->capacity, w->count, count, sizeof *grown);
    if (!grown)
        return fail_memory(error, "text", (w->count + count) * sizeof *grown);
    w->ids = grown;
    memcpy(w->ids + w->count, ids, count * sizeof *ids);
    w->count += count;
    return HEARTH_OK;
}

static hearth_status reset(written *w, hearth_error *error)
{
    w->count = 0;
    hearth_sampler_reset(w->chat->sampler);
    return hearth_session_truncate(w->chat->session, 0, 0, error);
}

/* Appends a line; only the first one adds BOS. */
static hearth_status append_text(written *w, const char *line, hearth_error *error)
{
    int32_t *ids = NULL;
    size_t count = 0;
    unsigned flags = HEARTH_TEXT_PARSE_CONTROL | (w->count == 0 ? HEARTH_TEXT_SPECIAL : 0);
    if (*line || w->count == 0)
        TRY(hearth_tokenize(w->chat->loaded.model, line, strlen(line), flags, &ids, &count, error));
    hearth_status status = append(w, ids, count, error);
    hearth_free(ids);
    return status;
}

/* Shortens a text that fills the context and leaves no room for an answer. BOS stays if the text began with it, and so
 * do the newest half context or the line just typed, whichever is longer; the session then reads them again. */
static hearth_status forget_oldest(written *w, size_t typed, hearth_error *error)
{
    const chat *s = w->chat;
    size_t context = hearth_session_context(s->session), begin = w->count > 0 && w->ids[0] == s->loaded.info.bos;
    size_t newest = typed > context / 2 ? typed : context / 2;
    if (w->count < context || (begin + newest >= w->count && w->count == context))
        return HEARTH_OK;
    if (begin + newest >= w->count || begin + newest > context)
        return fail(error, HEARTH_FULL, "run: text: the line has %zu tokens, the context only %zu; -c makes it larger",
                    typed, context);
    size_t forgotten = w->count - begin - newest;
    if (!s->messages.quiet)
        output_note("note", "context full: goes on without the oldest %zu of %zu tokens", forgotten, w->count);
    memmove(w->ids + begin, w->ids + begin + forgotten, newest * sizeof *w->ids);
    w->count -= forgotten;
    return hearth_session_truncate(s->session, 0, 0, error);
}

/* Continues the text; on failure the text is as before the line, except for what was dropped as oldest. */
static hearth_status continue_text(written *w, const char *line, hearth_error *error)
{
    chat *s = w->chat;
    size_t before = w->count;
    TRY(append_text(w, line, error));
    if (w->count == 0)
        return fail(error, HEARTH_INVALID, "run: text: type a beginning first");
    size_t typed = w->count - before;
    hearth_status room = forget_oldest(w, typed, error);
    before = w->count - typed;
    if (room != HEARTH_OK) {
        w->count = before;
        return room;
    }
    uint32_t known = hearth_session_length(s->session, 0);
    if (known >= w->count) { /* all was read already: the last token is read again for its logits */
        known = hearth_session_reach(s->session, 0, (uint32_t)w->count - 1);
        TRY(hearth_session_truncate(s->session, 0, known, error));
    }
    hearth_result result;
    s->last = 0;
    hearth_status status = chat_answer(s, w->ids + known, w->count - known, &result, error);
    if (status != HEARTH_OK) {
        w->count = before;
        return status;
    }
    if (s->last != '\n')
        chat_print(s, "\n", 1);
    if (!ferror(stdout))
        chat_report(s, &result);
    if (w->terminal && result.stop == HEARTH_STOP_CONTEXT && !s->messages.quiet)
        output_note("note", "the next line goes on without the oldest half, /reset starts a new text");
    return append(w, s->ids, s->id_count, error);
}

/* ------------------------------------------------------------------ lines */

static hearth_status say(void *user, const char *line, hearth_error *error)
{
    return continue_text(user, line, error);
}

static hearth_status start_anew(void *user, const char *argument, hearth_error *error)
{
    (void)argument;
    return reset(user, error);
}

hearth_status interactive_run(chat *s, hearth_error *error)
{
    static const dialogue_word words[] = {{"/reset", NULL, "start a new text", start_anew}};
    written w = {.chat = s};
    dialogue d = {.about = "Type the beginning of a text, and it is continued. The next line goes on from there,\n"
                           "an empty line just goes on.\n",
                  .words = words,
                  .word_count = sizeof words / sizeof *words,
                  .say = say,
                  .user = &w};
    line_editor_open(&d.editor);
    w.terminal = d.editor.terminal;
    if (w.terminal && !s->messages.quiet)
        dialogue_greet(&d);
    hearth_status status = dialogue_run(&d, error);
    if (w.terminal && status == HEARTH_OK && !d.done)
        fputc('\n', stderr);
    line_editor_close(&d.editor);
    mem_free(w.ids);
    return status;
}
