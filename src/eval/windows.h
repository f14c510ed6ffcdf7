/* windows.h - one engine reading windows of ids, every scored row of logits handed to somebody.
 *
 * What perplexity and divergence share: the session, the buffers, progress, and llama.cpp's protocol of half windows
 * (docs/formats.md). Knows nothing of what is made of the rows. */
#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H

#include "../base/text.h"
#include "rows.h"

/* Zeroed is closed. */
typedef struct windows {
    const hearth_model *model;
    hearth_model_info info;
    uint32_t context; /* N: positions of the longest window                            */
    int32_t *ids;     /* [context] the window that is read, or is to be read            */
    size_t number;    /* of the window that is read, from 0                             */
    /* The rest is for windows.c. */
    hearth_session *session;
    rows_reader reader;
    hearth_progress progress;
    const char *what;     /* for progress                */
    uint64_t done, total; /* as reported last            */
    size_t begun;         /* windows read so far         */
} windows;

/* context: 0: the model's. what: "perplexity", said to whom progress is reported. w stays where it is until it is
 * closed. HEARTH_INVALID: a context of which nothing can be scored, or longer than the model's. On failure w is
 * closed. */
hearth_status windows_open(windows *w, const hearth_engine *engine, uint32_t context, hearth_kv kv,
                           const hearth_progress *progress, const char *what, hearth_error *error);
void windows_close(windows *w);

/* Says how far the work is; false: it is to end. */
bool windows_report(windows *w, uint64_t done, uint64_t total);

/* Reads the first `count` of w->ids but the last, which is only foreseen, and visits the rows of positions from `from`
 * on: row p foresees w->ids[p + 1]. Of fewer than two ids there is nothing to read. */
hearth_status windows_read(windows *w, size_t count, size_t from, rows_visit *visit, void *user, hearth_error *error);

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* Of a window of n, positions halves_first(n) .. n - 2 are scored. */
static inline size_t halves_first(size_t n)
{
    return n / 2;
}

/* The ids of a text, as the protocol wants them; *ids is freed with hearth_free. separator: what stands between two of
 * these is a text of its own, tokenized by itself and so behind a BOS where the vocabulary adds one, blanks around it
 * taken off; the ids of all follow each other. NULL: there is one text.
 * HEARTH_FORMAT: fewer than two windows. */
hearth_status halves_tokenize(const windows *w, span text, const char *text_name, const char *separator, int32_t **ids,
                              size_t *count, hearth_error *error);
/* HEARTH_FORMAT: fewer than two windows. */
hearth_status halves_check(const windows *w, size_t count, const char *text_name, hearth_error *error);

/* Reads every whole window of ids [count], its first id replaced by BOS where the vocabulary adds it, and visits the
 * rows of its second half. HEARTH_CANCELLED without a text: whoever is reported to wants no more. */
hearth_status halves_read(windows *w, const int32_t *ids, size_t count, rows_visit *visit, void *user,
                          hearth_error *error);

#endif
