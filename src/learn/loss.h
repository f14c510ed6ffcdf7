/* loss.h - what skipping costs: how far the answers of a lossy engine are from those of an exact one, on the same texts.
 *
 * Kullback-Leibler divergence of the next token's distribution, as eval/divergence.h has it for texts against files; here
 * both engines run side by side and nothing is stored. */
#ifndef LEARN_LOSS_H
#define LEARN_LOSS_H

#include "corpus.h"

typedef struct loss {
    uint64_t tokens;                 /* compared                                              */
    double divergence;               /* mean of sum p (log p - log q), in nats; p: the exact one's */
    double same_top;                 /* share of tokens for which both have the same favourite */
    double exact_bytes, lossy_bytes; /* weights that a token on its own reads, means           */
} loss;

/* Reads the corpus's windows from token `first` on, which may lie within one, until `tokens` have been compared or there
 * are no more. A window of which a part is left out is read as if it began there.
 * HEARTH_CANCELLED through progress. */
hearth_status loss_measure(loss *out, const hearth_engine *exact, const hearth_engine *lossy, const corpus *texts,
                           uint64_t first, uint64_t tokens, hearth_progress progress, hearth_error *error);

#endif
