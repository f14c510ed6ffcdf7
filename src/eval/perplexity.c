/* perplexity.c - scores the windows of a text. */
#include "perplexity.h"

#include "../base/memory.h"
#include "windows.h"

#include <string.h>

typedef struct scorer {
    windows_reader windows;
    const perplexity_options *options;
    perplexity_result *result;
} scorer;

/* Row p predicts token p + 1 of the window. */
static hearth_status score_rows(void *user, size_t first, size_t count, const float *logits, hearth_error *error)
{
    (void)error;
    scorer *s = user;
    size_t n = s->windows.info.vocabulary_size;
    for (size_t i = 0; i < count; i++)
        s->result->nll -= hearth_log_probability(logits + i * n, n, s->windows.ids[first + i + 1]);
    s->result->tokens += count;
    return HEARTH_OK;
}

/* Scores the first `count` ids of the window except the very first. */
static hearth_status score_window(scorer *s, size_t count, hearth_error *error)
{
    if (count >= 2)
        s->result->windows++;
    return windows_read(&s->windows, count, 0, score_rows, s, error);
}

/* Fills the window from ids: BOS first, at most the context in length. Returns how many ids were used. */
static size_t fill_window(scorer *s, const int32_t *ids, size_t count, size_t *length)
{
    windows_reader *w = &s->windows;
    size_t bos = w->info.bos >= 0, room = w->context - bos;
    size_t taken = count < room ? count : room;
    w->ids[0] = w->info.bos;
    memcpy(w->ids + bos, ids, taken * sizeof *ids);
    *length = bos + taken;
    return taken;
}

static hearth_status score_text(scorer *s, span text, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(s->windows.model, text.data, text.size, 0, &ids, &count, error));
    hearth_status status = HEARTH_OK;
    for (size_t at = 0, length; status == HEARTH_OK && at < count;) {
        if (!windows_report(&s->windows, at, count)) {
            status = HEARTH_CANCELLED;
            break;
        }
        at += fill_window(s, ids + at, count - at, &length);
        status = score_window(s, length, error);
    }
    hearth_free(ids);
    return status;
}

/* ------------------------------------------------------------------ documents */

static hearth_status score_document(scorer *s, span document, hearth_error *error)
{
    int32_t *ids;
    size_t count, length;
    if (document.size == 0)
        return HEARTH_OK;
    TRY(hearth_tokenize(s->windows.model, document.data, document.size, 0, &ids, &count, error));
    if (count > 0)
        fill_window(s, ids, count, &length);
    hearth_status status = count > 0 ? score_window(s, length, error) : HEARTH_OK;
    hearth_free(ids);
    return status;
}

static hearth_status score_documents(scorer *s, span text, hearth_error *error)
{
    documents all = documents_of(text, s->options->separator, s->options->document_limit);
    span document;
    for (size_t at = 0; documents_next(&all, &document); at = all.at) {
        if (!windows_report(&s->windows, at, text.size))
            return HEARTH_CANCELLED;
        TRY(score_document(s, document, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ llama.cpp's protocol */

static hearth_status score_halves(scorer *s, span text, const char *text_name, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(halves_tokenize(&s->windows, text, text_name, NULL, &ids, &count, error));
    s->result->windows = count / s->windows.context;
    hearth_status status = halves_read(&s->windows, ids, count, score_rows, s, error);
    hearth_free(ids);
    return status;
}

/* ------------------------------------------------------------------ all of it */

/* Scores the text by the chosen protocol. A cancelled run, between two windows or within one, names the text in the
 * error. */
static hearth_status score(scorer *s, span text, const char *text_name, hearth_error *error)
{
    hearth_status status;
    if (s->options->half_windows)
        status = score_halves(s, text, text_name, error);
    else
        status = s->options->separator ? score_documents(s, text, error) : score_text(s, text, error);
    if (status == HEARTH_CANCELLED)
        return fail(error, HEARTH_CANCELLED, "%s: perplexity: cancelled", text_name);
    if (status == HEARTH_OK && s->result->tokens == 0)
        return fail(error, HEARTH_FORMAT, "%s: text: has no tokens to score", text_name);
    return status;
}

hearth_status perplexity_measure(perplexity_result *out, const hearth_engine *engine, span text, const char *text_name,
                                 const perplexity_options *options, hearth_error *error)
{
    scorer s = {.options = options, .result = out};
    *out = (perplexity_result){0};
    TRY(windows_open(&s.windows, engine, options->context, options->kv, &options->progress, "perplexity", error));
    out->context = s.windows.context;
    hearth_status status = score(&s, text, text_name, error);
    windows_close(&s.windows);
    return status;
}
