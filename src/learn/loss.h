/* loss.h - measures the loss of skipping: how far the output of a lossy engine is from that of an exact one.
 *
 * The measure is the Kullback-Leibler divergence of the next token's distribution, as in eval/divergence.h, which
 * compares with stored files; here both engines run side by side on the same text and nothing is stored. */
#ifndef LEARN_LOSS_H
#define LEARN_LOSS_H

#include "corpus.h"

typedef struct loss {
    uint64_t tokens;                 /* tokens compared                                                */
    double divergence;               /* mean of sum p (log p - log q), in nats; p: of the exact engine */
    double same_top;                 /* share of tokens with the same most likely next token           */
    double exact_bytes, lossy_bytes; /* weight bytes that one token alone reads; means                 */
} loss;

/* Compares both engines on the windows of the corpus from token `first` on, until
 * `tokens` have been compared or the corpus ends. `first` may lie within a window: the
 * rest of that window is read as if it began there. HEARTH_CANCELLED through progress. */
hearth_status loss_measure(loss *out, const hearth_engine *exact, const hearth_engine *lossy, const corpus *texts,
                           uint64_t first, uint64_t tokens, hearth_progress progress, hearth_error *error);

#endif
