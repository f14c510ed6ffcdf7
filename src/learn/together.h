/* together.h - an order of neurons in which those that fire together are neighbours, the hot ones first.
 *
 * While a profile is taken, the neurons that fire are recorded for a sample of its tokens. The order is a chain: it begins
 * with the neuron that fires most often; the next one is always, of those that are left, the one that fired most often
 * together with the last. Over all tokens, runs of neighbours that fire are as many as firings less those that the neighbour
 * before shared, so each step saves as many runs as one step can. Hot neurons fire together with most others, so they come
 * first by themselves: on the demo model the first half makes as many activations as by hotness, within a percent.
 *
 * Tried instead; mean length of runs on text that was not counted (demo model, 16384 tokens; by hotness 1.86, this chain
 * 2.24): chains by the share that two neurons have in common (2.28, but the first half makes 87 instead of 92 percent of the
 * activations); the best pairs of the whole layer first, joined to one chain (2.29 by shared tokens, 2.33 by shares, and the
 * hot ones lie anywhere). */
#ifndef LEARN_TOGETHER_H
#define LEARN_TOGETHER_H

#include "../base/pool.h"
#include "../model/model.h"
#include "corpus.h"

#include <stddef.h>
#include <stdint.h>

/* Tokens that are recorded at most. On the demo model 512 give runs of 2.15, 2048 of 2.22, 8192 of 2.24. */
#define TOGETHER_TOKENS 2048
/* A corpus of at least this many tokens has its last eighth left out of the chain, to measure runs with. */
#define TOGETHER_LEAST_MEASURED 256

/* Which neurons fired. Owns its memory; zeroed: empty. */
typedef struct together {
    uint32_t layer_count;
    uint64_t every;          /* one of so many tokens is recorded                                    */
    size_t tokens;           /* that are recorded                                                    */
    size_t learnt;           /* the first of them, from which the order is made; the others measure  */
    size_t words;            /* of a neuron's set                                                    */
    uint32_t *neuron_counts; /* [layer_count] */
    uint64_t *
        *sets; /* [layer_count][neurons][words] bit t is set where the neuron, by its original number, fired for the
                        t-th recorded token; one block after the table */
} together;

/* Prepares for a corpus. most_bytes: of all sets together; a larger model is recorded for fewer tokens, though not below 64.
 * HEARTH_NO_MEMORY. On failure *out is empty. */
hearth_status together_create(together *out, const hearth_model *model, const corpus *texts, uint64_t most_bytes,
                              hearth_error *error);
void together_free(together *t);

/* Records what a layer did for a token of the corpus, where the token is one of the sample; all its neurons have to be
 * computed. */
void together_see(together *t, const hearth_observation *seen, uint64_t token);

/* Puts the neurons of every layer in order: orders [layer_count][neurons]. All threads; takes time with the square of a
 * layer's neurons and with the tokens: for 2048 tokens and 22 layers of 5632 neurons half a minute on two cores.
 * HEARTH_NO_MEMORY. */
hearth_status together_order(const together *t, pool *threads, uint32_t *const *orders, hearth_error *error);

/* Returns the mean length of the runs of neighbours that fire in these orders [layer_count][neurons], over the recorded
 * tokens that no order was made from; 0: the corpus is too short. */
double together_mean_run(const together *t, const uint32_t *const *orders);

#endif
