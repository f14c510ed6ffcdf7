/* rows.h - feeds a text through a session and passes every wanted row of logits to a callback.
 *
 * A row has as many floats as the vocabulary has tokens, so the rows of a long text are never held together: they come
 * in blocks. */
#ifndef EVAL_ROWS_H
#define EVAL_ROWS_H

#include "../base/error.h"

/* Returns how many rows of logits are computed at once: a few hundred, fewer for a large vocabulary. */
size_t rows_block(size_t vocabulary_size);

/* Receives logits [count][vocabulary_size], the rows of positions `first` .. first + count - 1. */
typedef hearth_status rows_visit(void *user, size_t first, size_t count, const float *logits, hearth_error *error);

typedef struct rows_reader {
    hearth_session *session; /* not owned; keeps at least `block` output rows */
    size_t vocabulary_size;
    size_t block;
    float *logits;    /* [block][vocabulary_size] */
    hearth_row *rows; /* [block]                  */
} rows_reader;

hearth_status rows_reader_init(rows_reader *r, hearth_session *session, size_t vocabulary_size, hearth_error *error);
void rows_reader_free(rows_reader *r);

/* Clears sequence 0, appends ids [count] to it, and visits the rows of positions from `from` on, in order. */
hearth_status rows_read(rows_reader *r, const int32_t *ids, size_t count, size_t from, rows_visit *visit, void *user,
                        hearth_error *error);

/* Returns log(sum of exp(logits)) of a row [n], n >= 1; subtracting it from the logits gives log probabilities.
 * *largest: index of the largest logit, the first of equals. Not finite where the logits contain NaN or +infinity. */
double rows_log_sum(const float *logits, size_t n, size_t *largest);

#endif
