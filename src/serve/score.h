/* score.h - how likely tokens are under logits. */
#ifndef SERVE_SCORE_H
#define SERVE_SCORE_H

#include "outbox.h"

/* Sets the log-probability of a token under logits [n], and finds the `count` likeliest tokens, the best first. NaN counts
 * as -INFINITY. The same token has the same figure in both, so that clients may compare them. */
void score_token(const float *logits, size_t n, candidate *token, candidate *likeliest, size_t count);

#endif
