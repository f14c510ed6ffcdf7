/* hidden.h - hidden states of output rows against the logits of the same rows. */
#ifndef TESTS_HIDDEN_H
#define TESTS_HIDDEN_H

#include "../src/engine/engine.h"

#include "golden.h"

#include <float.h>

/* The logits of the last feed are the products of the model's head, which is F32, with the hidden states. A sum of d
 * products in floats, in any order, is within d * eps * sum |w x| of the exact one. */
static inline void check_hidden(stack *s, size_t rows)
{
    const hyperparameters *h = &s->model->hyper;
    const matrix *head = &s->model->head;
    size_t d = h->embedding_length, vocabulary = h->vocabulary_size;
    float *hidden = malloc(rows * d * sizeof *hidden), *logits = malloc(rows * vocabulary * sizeof *logits);
    hearth_error error;
    assert_true(head->format == FORMAT_F32 && h->logit_scale == 1 && h->logit_softcap == 0);
    stack_check(hearth_session_hidden(s->session, 0, rows, hidden, &error), &error);
    stack_check(hearth_session_logits(s->session, 0, rows, logits, &error), &error);
    for (size_t i = 0; i < rows * vocabulary; i++) {
        const float *w = matrix_row(head, i % vocabulary);
        double sum = 0, size = 0;
        for (size_t k = 0; k < d; k++) {
            sum += (double)w[k] * hidden[i / vocabulary * d + k];
            size += fabs((double)w[k] * hidden[i / vocabulary * d + k]);
        }
        if (fabs(sum - logits[i]) > (double)d * FLT_EPSILON * size)
            fail_msg("row %zu, token %zu: %g, expected %g", i / vocabulary, i % vocabulary, logits[i], sum);
    }
    free(hidden);
    free(logits);
}

#endif
