/* tally.h - the counters of a profile: what an observer adds up, and what can be read off them.
 *
 * All counters are integers in one block, so that they can be kept as they are, and sums do not depend on how they came
 * about. Nothing here knows where tokens come from. */
#ifndef LEARN_TALLY_H
#define LEARN_TALLY_H

#include "profile.h"

/* Magnitudes are counted by exponent and the first 8 bits of the fraction: a bin is at most 0.4 percent wide. Exponents
 * from -40 to 23; what lies outside is counted at the ends. */
#define TALLY_FRACTION_BITS 8
#define TALLY_EXPONENTS     64
#define TALLY_LEAST         (-40)
#define TALLY_CLASSES       (TALLY_EXPONENTS << TALLY_FRACTION_BITS)

/* Of one layer; pointers go into the block. */
typedef struct tally {
    uint64_t *sizes;      /* [TALLY_CLASSES] magnitudes of first activations that are not zero */
    uint64_t *union_sums; /* [PROFILE_UNION + 1] neurons fired by any of k tokens, all runs    */
    uint64_t *sampled;    /* [1] first activations that were looked at, zeros included         */
    float *above;         /* [1] as profile_layer has it                                       */
    int32_t *counts;      /* [f] */
    uint32_t *by_fired;   /* [f + 1] tokens for which so many fired                            */
    uint64_t *recent;     /* [PROFILE_UNION][words] which fired for the latest tokens; outside the block */
} tally;

typedef struct tallies {
    uint32_t layer_count, neuron_count;
    size_t words;
    tally *layers; /* [layer_count]                */
    void *block;   /* [layer_count] counters       */
    size_t block_bytes, layer_bytes;
    uint64_t *recent;
} tallies;

hearth_status tallies_create(tallies *t, uint32_t layers, uint32_t neurons, hearth_error *error);
void tallies_free(tallies *t);
/* Counters to 0; `above` stays. */
void tallies_clear(tallies *t);

/* What a layer did with a token: activations and gates of all neurons, the position in its window. measured: whether
 * magnitudes are counted. */
void tally_see(tally *t, const hearth_observation *seen, bool measured);
/* Of magnitudes alone, whose they are. */
void tally_measure(tally *t, const float *values, size_t count);

/* Quantile q in 0 .. 1 of the magnitudes; 0 where there are none. */
double tally_quantile(const tally *t, double q);
/* Everything of profile_layer but the counts, which are the caller's array. runs [PROFILE_UNION + 1]: how many runs of
 * k consecutive tokens there were. scratch [f] */
void tally_finish(const tally *t, uint32_t neurons, const uint64_t *runs, uint64_t *scratch, profile_layer *out);

#endif
