/* profile.h - counts which neurons fire, how often, how strongly, and how alike neighbouring tokens are.
 *
 * Every neuron is computed (mode dense) while a corpus is read; an observer counts. Neurons have their original
 * numbers. The same corpus gives the same counts with any number of threads. A profile that was interrupted can be
 * resumed.
 *
 * With ReLU and its variants, an activation counts if it is not zero. SiLU is never zero, so
 * there a neuron counts if its activation is among the largest quarter of its layer, by a bound
 * (`above`) taken from the first tokens of the corpus. The whole activation, gate times up,
 * ranks neurons better than the gate alone: on stories260K, computing only the hottest 60 percent gives
 * dense's most likely token twice as often. The result hardly depends on the choice of a quarter. */
#ifndef LEARN_PROFILE_H
#define LEARN_PROFILE_H

#include "../base/json.h"
#include "../engine/inputs.h"
#include "../model/tune.h"
#include "corpus.h"
#include "states.h"
#include "together.h"

/* Unions of the neurons fired by k consecutive tokens are counted for k up to PROFILE_UNION (speculative decoding reads
 * every neuron that any of its tokens needs). */
#define PROFILE_UNION 8
/* Bins of the histogram of densities of single tokens, equal widths from 0 to 1. */
#define PROFILE_BINS 64
/* Tokens below which a profile says nothing useful. */
#define PROFILE_LEAST_TOKENS 32
/* Hot-only probes: shares of each layer's neurons that are computed. */
#define PROFILE_PROBES 3
extern const double profile_probe_shares[PROFILE_PROBES]; /* 0.2, 0.4, 0.6 */

typedef struct profile_expert {
    uint64_t tokens; /* that chose it                                      */
    double density;  /* mean share of its neurons that fires for these; 0: none chose it */
} profile_expert;

typedef struct profile_layer {
    uint32_t neuron_count;             /* f; 0: no network, all other figures are 0          */
    int32_t *counts;                   /* [neuron_count] tokens for which the neuron counted */
    float magnitudes[TUNE_QUANTILES];  /* quantiles, to 0.4 percent, of the non-zero |activation of the first matrix|,
                                         which mode pruned compares with its threshold */
    float above;                       /* an activation counts if its magnitude exceeds this; 0: if it is not zero */
    double gate_density;               /* share of activations of the first matrix that are not zero               */
    uint64_t by_density[PROFILE_BINS]; /* tokens whose density lies in each bin                                    */
    double density;                    /* mean share of neurons that fire                                          */
    double least_density, median_density;    /* least and median density of a token                          */
    double high_density;                     /* density that nine of ten tokens do not exceed                */
    double union_density[PROFILE_UNION + 1]; /* mean share that any of k consecutive tokens fires; k from 1  */
    double hot_share[2];                     /* least share of neurons with 80 and 95 percent of all firings */
    double considered_density; /* mean share that fires of the neurons that a token considers: those of the experts that
                                  it chose and of the shared one; without experts, density again */
    double shared_density;     /* of the shared expert; 0: there is none        */
    double routed_density;     /* of the chosen experts; 0: the layer has none  */
    uint32_t expert_count;
    profile_expert *experts; /* [expert_count] */
} profile_layer;

typedef struct profile {
    uint32_t layer_count;
    uint64_t tokens;
    uint64_t measured_tokens;  /* tokens whose magnitudes were counted: all, or a share drawn from a fixed seed */
    double seconds;            /* spent counting, earlier runs included                                         */
    profile_layer *layers;     /* [layer_count]                                                                 */
    uint32_t networks;         /* layers that have a network; means are over these                              */
    double density;            /* mean of the layers                                                            */
    double considered_density; /* likewise                                                                     */
    double hot_share[2];       /* over the whole model                                                          */
    double hot_only_agreement[PROFILE_PROBES]; /* share of tokens whose top-1 equals dense's with only the hottest
                                                  20, 40, 60 % of each layer's neurons; NAN: not measured */
    uint64_t probed_tokens;                    /* tokens of that measurement                                   */
    uint64_t resumed_tokens;                   /* tokens counted by earlier runs                               */
    char note[160];                            /* why an earlier run's counts were not used, for people; or "" */
} profile;

typedef struct profile_options {
    const char *folder;    /* where counters are saved every few seconds; NULL: nowhere       */
    const char *how;       /* settings that change figures: part of the run's key; NULL: none */
    states_writer *states; /* also receives hidden states; NULL: none are stored              */
    input_sums *inputs;    /* also receives what matrices read, for columns_write; zeroed. It is stored with the
                              counters, whose key then is another. NULL: nothing is added up  */
    together *together;    /* also receives which neurons fire together; needs a profile that goes on from none, so
                              folder NULL. NULL: nothing is recorded */
    hearth_progress progress;
} profile_options;

/* Profiles a corpus. engine: in mode dense, on the CPU. The folder is created if missing; the counters there stay when
 * all is counted, for later calls, until profile_forget. HEARTH_CANCELLED: the counts up to the last whole window are
 * in the folder (for windows that take longer than half a second: up to the last save, every few seconds).
 * HEARTH_INVALID: another mode, or an empty corpus. Call profile_free after a failure too. */
hearth_status profile_take(profile *out, const hearth_engine *engine, const corpus *texts,
                           const profile_options *options, hearth_error *error);
void profile_free(profile *p);
/* Removes the saved counters from the folder. */
void profile_forget(const char *folder);

/* Makes a tune record of the model that holds a copy of these counts and magnitudes, and nothing else. Close it with
 * tune_close. */
hearth_status profile_record(tune **out, const profile *p, const hearth_model *model, hearth_error *error);
/* Measures hot_only_agreement: reads the last windows of the corpus, up to `tokens`, with `dense` (in mode dense) and
 * with engines that compute only the hottest neurons of its model by p's counts. Of a layer with experts the hottest of
 * all its neurons are kept, whichever experts these are of. */
hearth_status profile_probe(profile *p, const hearth_engine *dense, hearth_runtime *runtime, const corpus *texts,
                            uint64_t tokens, hearth_progress progress, hearth_error *error);

/* Sets counts, magnitudes and tokens in a tune record. Its pointers go into p, which must outlive it. */
void profile_to_tune(const profile *p, tune *t);

/* Returns the profile as JSON, without the counts; layers without a network are null. NULL: no memory. */
json_t *profile_json(const profile *p);

/* Sorts neurons [count] into order [count], hottest first, ties by number. scratch [count] */
void profile_rank(const int32_t *counts, size_t count, uint64_t *scratch, uint32_t *order);
/* Returns the least share of all neurons with at least `share` of all firings; 0 where nothing fires. scratch
 * [count] */
double profile_hot_share(const int32_t *counts, size_t count, double share, uint64_t *scratch);

#endif
