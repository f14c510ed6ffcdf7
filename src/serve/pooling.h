/* pooling.h - one vector for a text, of the hidden states of its tokens. */
#ifndef SERVE_POOLING_H
#define SERVE_POOLING_H

#include <stddef.h>

/* name, as in --pooling */
#define POOLINGS(X)         \
    X(POOLING_MEAN, "mean") \
    X(POOLING_LAST, "last")

typedef enum pooling {
#define X(id, name) id,
    POOLINGS(X)
#undef X
        POOLING_COUNT
} pooling;

/* Adds hidden states [count][d] of further tokens to a sum [d]: of the mean, or for POOLING_LAST the last one alone. The
 * sum is in doubles, so that the length of the text costs no digits. */
void pooling_add(pooling how, const float *hidden, size_t count, size_t d, double *sum);
/* Divides a sum of the states of `count` tokens by what it consists of: out [d]. */
void pooling_finish(pooling how, const double *sum, size_t count, size_t d, float *out);
/* Scales v [n] to length 1. One of length 0 stays. */
void pooling_normalize(float *v, size_t n);

#endif
