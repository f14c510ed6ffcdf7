/* windows.h - reads texts: splits them into documents, feeds ids or windows of ids to an engine, and passes every
 * wanted row of logits to a callback.
 *
 * Shared by all measurements of how well a model predicts: the session, the buffers, progress, and llama.cpp's protocol
 * of half windows (docs/files.md). Knows nothing of how the rows are used. */
#ifndef EVAL_WINDOWS_H
#define EVAL_WINDOWS_H

#include "../base/text.h"

/* ------------------------------------------------------------------ documents */

/* A text that is split at a separator. */
typedef struct documents {
    span text;
    const char *separator; /* not empty                                           */
    size_t at;             /* bytes of the text already consumed, for progress */
    uint32_t left;         /* documents that may still be returned */
} documents;

/* Starts at the beginning of the text. limit: at most this many documents; 0: all. */
documents documents_of(span text, const char *separator, uint32_t limit);

/* Returns the next document without the ASCII blanks around it (it may then be empty); false: there are no more. */
bool documents_next(documents *d, span *out);

/* ------------------------------------------------------------------ rows */

/* A row has as many floats as the vocabulary has tokens, so the rows of a long text are never held together: they come
 * in blocks. */

/* Returns how many rows of logits are computed at once: a few hundred, fewer for a large vocabulary. */
size_t rows_block(size_t vocabulary_size);

/* Receives logits [count][vocabulary_size], the rows of positions `first` .. first + count - 1. */
typedef hearth_status rows_visit(void *user, size_t first, size_t count, const float *logits, hearth_error *error);

typedef struct rows_reader {
    hearth_session *session; /* not owned; stores at least `block` output rows */
    size_t vocabulary_size;
    size_t block;
    float *logits;    /* [block][vocabulary_size] */
    hearth_row *rows; /* [block]                  */
} rows_reader;

/* Allocates the buffers. On failure *r is freed. */
hearth_status rows_reader_init(rows_reader *r, hearth_session *session, size_t vocabulary_size, hearth_error *error);
void rows_reader_free(rows_reader *r);

/* Clears sequence 0, appends ids [count] to it, and visits the rows of positions from `from` on, in order. */
hearth_status rows_read(rows_reader *r, const int32_t *ids, size_t count, size_t from, rows_visit *visit, void *user,
                        hearth_error *error);

/* Returns log(sum of exp(logits)) of a row [n], n >= 1; subtracting it from the logits gives log probabilities.
 * *largest: index of the largest logit, the first of equals. Not finite where the logits contain NaN or +infinity. */
double rows_log_sum(const float *logits, size_t n, size_t *largest);

/* ------------------------------------------------------------------ windows */

/* A zeroed record is closed. */
typedef struct windows_reader {
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
} windows_reader;

/* Opens a session for windows. context: 0: the model's. what: name of the work for progress reports, such as
 * "perplexity". Do not move w until it is closed. HEARTH_INVALID: a context too short to score anything, or longer than
 * the model's. On failure w is closed. */
hearth_status windows_open(windows_reader *w, const hearth_engine *engine, uint32_t context, hearth_kv kv,
                           const hearth_progress *progress, const char *what, hearth_error *error);
void windows_close(windows_reader *w);

/* Reports progress; false: the work is to stop. */
bool windows_report(windows_reader *w, uint64_t done, uint64_t total);

/* Reads the first `count` ids of w->ids except the last, which is only predicted, and visits the rows of positions from
 * `from` on: row p predicts w->ids[p + 1]. With fewer than two ids it reads nothing. */
hearth_status windows_read(windows_reader *w, size_t count, size_t from, rows_visit *visit, void *user,
                           hearth_error *error);

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* In a window of n, positions halves_first(n) .. n - 2 are scored. */
static inline size_t halves_first(size_t n)
{
    return n / 2;
}

/* Tokenizes a text as the protocol requires; free *ids with hearth_free. separator: the texts between two separators
 * are documents, each stripped of blanks and tokenized on its own, so that it starts with BOS where the vocabulary adds
 * one; their ids are concatenated. NULL: the whole text is one document.
 * HEARTH_FORMAT: fewer than two windows. */
hearth_status halves_tokenize(const windows_reader *w, span text, const char *text_name, const char *separator,
                              int32_t **ids, size_t *count, hearth_error *error);
/* Checks that `count` ids fill two windows. HEARTH_FORMAT: they do not. */
hearth_status halves_check(const windows_reader *w, size_t count, const char *text_name, hearth_error *error);

/* Reads every whole window of ids [count], with its first id replaced by BOS where the vocabulary adds it, and visits
 * the rows of its second half. HEARTH_CANCELLED, without an error text: the progress callback asked to stop. */
hearth_status halves_read(windows_reader *w, const int32_t *ids, size_t count, rows_visit *visit, void *user,
                          hearth_error *error);

#endif
