/* profile.h - which neurons fire, how often, how strongly, and how alike neighbouring tokens are.
 *
 * Every neuron is computed (mode dense) while a corpus is read; an observer counts. Neurons go by their own numbers. The
 * same corpus gives the same counts at any number of threads. A profile that was interrupted goes on where it stopped.
 *
 * What counts: with ReLU and its kin, an activation that is not zero. SiLU is never zero, so there a neuron counts where
 * its activation is among the largest quarter of its layer's, by a bound (`above`) that is taken from the corpus's first
 * tokens. The whole activation, gate times up, ranks neurons better than the gate alone: on stories260K the hottest 60
 * percent keep the likeliest token twice as often, and hardly anything depends on the quarter. */
#ifndef LEARN_PROFILE_H
#define LEARN_PROFILE_H

#include "../base/json.h"
#include "../model/tune.h"
#include "corpus.h"
#include "states.h"

/* Consecutive tokens of which the union is looked at: 2 .. PROFILE_UNION (speculation reads what any of them needs). */
#define PROFILE_UNION 8
/* Densities of single tokens, in equal bins from 0 to 1. */
#define PROFILE_BINS 64
/* Nothing can be said of less. */
#define PROFILE_LEAST_TOKENS 32
/* Hot-only probes: shares of each layer's neurons that are kept. */
#define PROFILE_PROBES 3
extern const double profile_probe_shares[PROFILE_PROBES]; /* 0.2, 0.4, 0.6 */

typedef struct profile_layer {
    int32_t *counts;                  /* [neuron_count] tokens for which the neuron counted                       */
    float magnitudes[TUNE_QUANTILES]; /* quantiles, to 0.4 percent, of |activation of the first matrix| where it is not
                                         zero: what `pruned` compares with its threshold */
    float above;         /* what |activation| has to exceed to count; 0: what is not zero counts          */
    double gate_density; /* share of activations of the first matrix that are not zero               */
    uint64_t by_density[PROFILE_BINS];       /* tokens whose density lies in each bin                         */
    double density;                          /* mean share of neurons that fire                               */
    double least_density, median_density;    /* of a token                                                     */
    double high_density;                     /* that nine of ten tokens do not exceed                          */
    double union_density[PROFILE_UNION + 1]; /* mean share that any of k consecutive tokens fires; k = 1 ..   */
    double hot_share[2];                     /* share of neurons that make 80 and 95 percent of activations   */
} profile_layer;

typedef struct profile {
    uint32_t layer_count, neuron_count;
    uint64_t tokens;
    uint64_t measured_tokens; /* of which magnitudes were taken: all, or a share of them drawn from a fixed seed */
    double seconds;           /* of counting, earlier runs included                                              */
    profile_layer *layers;    /* [layer_count] */
    double density;           /* mean of the layers                                                              */
    double hot_share[2];      /* over the whole model                                                            */
    double hot_only_agreement[PROFILE_PROBES]; /* top-1 of dense met with only the hottest 20, 40, 60 % of each layer's
                                                  neurons; NAN: not measured */
    uint64_t probed_tokens;  /* on which that was measured                                                      */
    uint64_t resumed_tokens; /* counted by earlier runs                                                         */
    char note[160];          /* what became of an earlier run's counts that did not fit, for people; or ""      */
} profile;

typedef struct profile_options {
    const char *folder;    /* where what was counted so far is kept, now and then; NULL: nowhere    */
    const char *how;       /* settings that change figures, so that runs are not mixed; NULL: none  */
    states_writer *states; /* receives rows meanwhile; NULL: nobody                                 */
    hearth_progress progress;
} profile_options;

/* engine: in mode dense, on the CPU. The folder is made where it is missing; what is kept there stays when all is
 * counted, for whoever asks again, until profile_forget.
 * HEARTH_CANCELLED: what was counted up to the last whole window lies in the folder (of windows that take longer than
 * half a second: up to the last time it was kept, every few seconds). HEARTH_INVALID: another mode. Free also on
 * failure. */
hearth_status profile_take(profile *out, const hearth_engine *engine, const corpus *texts,
                           const profile_options *options, hearth_error *error);
void profile_free(profile *p);
void profile_forget(const char *folder);

/* The model with a copy of these counts as its tune record, without predictors and thresholds (tune_view). */
hearth_status profile_view(hearth_model **out, const profile *p, const hearth_model *of, hearth_error *error);
/* Fills hot_only_agreement: reads the last windows of the corpus, up to `tokens`, with `dense` (in mode dense) and with
 * engines of its model's hottest neurons alone, by p's counts. */
hearth_status profile_probe(profile *p, const hearth_engine *dense, hearth_runtime *runtime, const corpus *texts,
                            uint64_t tokens, hearth_progress progress, hearth_error *error);

/* Counts, magnitudes and tokens into a tune record that p outlives: pointers go into p. */
void profile_to_tune(const profile *p, tune *t);

/* All of it but the counts. NULL: no memory. */
json_t *profile_json(const profile *p);

/* Neurons [count] hottest first, ties by number. scratch [count] */
void profile_rank(const int32_t *counts, size_t count, uint64_t *scratch, uint32_t *order);
/* The least share of all neurons that makes `part` of all activations; 0 where nothing fires. scratch [count] */
double profile_hot_share(const int32_t *counts, size_t count, double part, uint64_t *scratch);

#endif
