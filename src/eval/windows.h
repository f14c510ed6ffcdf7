/* windows.h - feeds windows of ids to an engine and passes every scored row of logits to a callback.
 *
 * Shared by perplexity and divergence: the session, the buffers, progress, and llama.cpp's protocol of half windows
 * (docs/formats.md). Knows nothing of how the rows are used. */
#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H

#include "../base/text.h"
#include "rows.h"

/* A zeroed record is closed. */
typedef struct windows {
    const hearth_model *model;
    hearth_model_info info;
    uint32_t context; /* N: positions of the longest window                            */
    int32_t *ids;     /* [context] the window that is being read, or is read next */
    size_t number;    /* of the window that is being read, from 0 */
    /* The rest is private to windows.c. */
    hearth_session *session;
    rows_reader reader;
    hearth_progress progress;
    const char *what;     /* for progress                */
    uint64_t done, total; /* as last reported */
    size_t begun;         /* windows read so far         */
} windows;

/* Opens a session for windows. context: 0: the model's. what: name of the work for progress reports, such as
 * "perplexity". Do not move w until it is closed. HEARTH_INVALID: a context too short to score anything, or longer than
 * the model's. On failure w is closed. */
hearth_status windows_open(windows *w, const hearth_engine *engine, uint32_t context, hearth_kv kv,
                           const hearth_progress *progress, const char *what, hearth_error *error);
void windows_close(windows *w);

/* Reports progress; false: the work is to stop. */
bool windows_report(windows *w, uint64_t done, uint64_t total);

/* Reads the first `count` ids of w->ids except the last, which is only predicted, and visits the rows of positions from
 * `from` on: row p predicts w->ids[p + 1]. With fewer than two ids it reads nothing. */
hearth_status windows_read(windows *w, size_t count, size_t from, rows_visit *visit, void *user, hearth_error *error);

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* In a window of n, positions halves_first(n) .. n - 2 are scored. */
static inline size_t halves_first(size_t n)
{
    return n / 2;
}

/* Tokenizes a text as the protocol requires; free *ids with hearth_free. separator: the parts between two separators
 * are documents, each stripped of blanks and tokenized on its own, so that it starts with BOS where the vocabulary adds
 * one; their ids are concatenated. NULL: the whole text is one document.
 * HEARTH_FORMAT: fewer than two windows. */
hearth_status halves_tokenize(const windows *w, span text, const char *text_name, const char *separator, int32_t **ids,
                              size_t *count, hearth_error *error);
/* Checks that `count` ids fill two windows. HEARTH_FORMAT: they do not. */
hearth_status halves_check(const windows *w, size_t count, const char *text_name, hearth_error *error);

/* Reads every whole window of ids [count], with its first id replaced by BOS where the vocabulary adds it, and visits
 * the rows of its second half. HEARTH_CANCELLED, without an error text: the progress callback asked to stop. */
hearth_status halves_read(windows *w, const int32_t *ids, size_t count, rows_visit *visit, void *user,
                          hearth_error *error);

#endif
