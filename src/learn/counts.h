/* counts.h - the counters of a profile: adds up what an observer sees, computes the figures from the sums, and stores
 * the counters, so that a profile can be resumed.
 *
 * All counters are integers in one block, so that the block can be stored as it is and sums do not depend on the order
 * of additions. Sums that another module makes of the same tokens can be stored in the same file, so that both always
 * cover the same ones. This module does not know where tokens come from. */
#ifndef LEARN_COUNTS_H
#define LEARN_COUNTS_H

#include "../base/hash.h"
#include "profile.h"

/* Counters of one layer; the pointers go into the block. */
typedef struct tally {
    uint64_t *sizes;      /* [bins] histogram of magnitudes of non-zero first activations        */
    uint64_t *union_sums; /* [PROFILE_UNION + 1] neurons fired by any of k tokens, summed over runs       */
    uint64_t *sampled;    /* [1] first activations examined, zeros included                               */
    float *above;         /* [1] see profile_layer                                                        */
    int32_t *counts;      /* [f]                                                                          */
    uint32_t *chosen;     /* [experts] tokens that chose each                                             */
    uint32_t *by_fired;   /* [f + 1] tokens by the number of neurons that fired                           */
    uint64_t *recent;     /* [PROFILE_UNION][words] neurons fired by the latest tokens; outside the block */
} tally;

typedef struct tallies {
    uint32_t layer_count, neuron_count; /* neurons of the widest layer: all have counters for so many */
    uint32_t expert_count;              /* likewise                                                   */
    size_t words;
    tally *layers; /* [layer_count]          */
    void *block;   /* [layer_count] counters */
    size_t block_bytes, layer_bytes;
    void *beside; /* [beside_bytes] of another module, stored with the block; NULL: none */
    size_t beside_bytes;
    uint64_t *recent;
} tallies;

/* Allocates zeroed counters for layers of at most `neurons` neurons and `experts` experts. On failure *t is empty. */
hearth_status tallies_create(tallies *t, uint32_t layers, uint32_t neurons, uint32_t experts, hearth_error *error);
void tallies_free(tallies *t);
/* Sets all counters to 0; `above` stays. */
void tallies_clear(tallies *t);
/* Sets everything that is stored to 0. */
void tallies_reset(tallies *t);

/* Counts a layer's activations and gates of one token (all neurons, with its position in the window) and the experts that
 * it chose. measured: counts magnitudes too. */
void tally_see(tally *t, const hearth_observation *seen, bool measured);
/* Counts magnitudes alone. */
void tally_measure(tally *t, const float *values, size_t count);

/* Returns quantile q (0 .. 1) of the magnitudes; 0 where there are none. */
double tally_quantile(const tally *t, double q);
/* Computes the figures of a layer, whose neuron_count and array of counts the caller has set. runs [PROFILE_UNION + 1]:
 * number of runs of k consecutive tokens. scratch [neuron_count] */
void tally_finish(const tally *t, const uint64_t *runs, uint64_t *scratch, profile_layer *out);

/* ------------------------------------------------------------------ the file */

#define COUNTS_NAME     "profile"
#define COUNTS_OLD_NAME "profile.old"

typedef struct counts_state {
    char key[HASH_TEXT_SIZE]; /* hash of model, corpus and settings                   */
    uint64_t windows, tokens; /* counted so far                                       */
    uint64_t measured;        /* of these tokens, those whose magnitudes were counted */
    double seconds;           /* spent counting, earlier runs included                */
} counts_state;

/* Writes state and counters to the folder, in place of those that are there. */
hearth_status counts_save(const char *folder, const counts_state *s, const tallies *t, hearth_error *error);
/* Fills s and t if the file in the folder has the key s->key. Otherwise leaves both as
 * they are and writes the reason to note ("" where there is no file). Counters of
 * another run are renamed to COUNTS_OLD_NAME; damaged ones are ignored. HEARTH_NO_MEMORY. */
hearth_status counts_load(const char *folder, counts_state *s, tallies *t, char *note, size_t note_size,
                          hearth_error *error);

#endif
