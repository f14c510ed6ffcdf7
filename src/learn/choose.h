/* choose.h - which predictor a layer gets, of those that were made for it: what each would have a token read, and how
 * all layers together stay within a budget.
 *
 * Bytes per token are docs/design.md's: a predictor pays with its own bytes, all read for every token, and with what
 * it lets through in vain; it gains the rows of the first matrix that are not read. With ReLU on both, up is read where
 * the gate alone fires, too; that is left out on either side, so there a predictor gains no less than is counted. What a
 * clock says of the same is measured elsewhere (race.h); both end up as gains here. */
#ifndef LEARN_CHOOSE_H
#define LEARN_CHOOSE_H

#include "../model/model.h"

/* A layer's feed-forward network as the modes below dense read it. */
typedef struct choose_layer {
    double first;  /* bytes of the matrix that tells which neurons fire                    */
    double listed; /* of those that are read only where a neuron fired, down_t included    */
    double fires;  /* share of its neurons that fire                                       */
} choose_layer;

/* fires: share of neurons, as profiled. */
choose_layer choose_layer_of(const hearth_model *model, uint32_t layer, double fires);

/* A predictor as it would be used, and what was found out about it. */
typedef struct candidate {
    predictor_kind kind;
    bool normed;                   /* what a low-rank one reads                                             */
    number_format format;          /* of both matrices, or of the coarse copy                               */
    uint32_t rank;                 /* low-rank                                                              */
    float threshold;               /* as in learned_predictor                                               */
    double recall;                 /* share of what fires that is let through                               */
    double density;                /* share of all neurons that is let through                              */
    double fired;                  /* share of what is let through that fires                               */
    double own_bytes, token_bytes; /* the predictor's; the layer's with it, for a token                     */
    double seconds, exact_seconds; /* the layer's for a token, and without a predictor in the same race; 0: unknown */
} candidate;

/* Bytes that the layer reads for a token without a predictor. */
double choose_exact_bytes(const choose_layer *l);
/* Bytes of the predictor, and of the layer with it, from kind, format, rank, density and fired. */
void choose_count_bytes(candidate *c, const hearth_model *model, const choose_layer *l);

/* Ranks worth a look for rows of d values: shares of d, whole blocks of every format. Returns how many. */
#define CHOOSE_RANKS 5
size_t choose_ranks(uint32_t ranks[CHOOSE_RANKS], uint32_t d);
/* Formats of coarse copies with clearly fewer bytes than the layer's first matrix. */
#define CHOOSE_COARSE 2
size_t choose_coarse_formats(number_format formats[CHOOSE_COARSE], const hearth_model *model, uint32_t layer);
/* As which low-rank matrices are stored. */
number_format choose_low_rank_format(const hearth_model *model);

/* A choice that a layer has. */
typedef struct choose_option {
    double cost, gain; /* of the budget; of whatever is wanted */
} choose_option;
/* One that is not to be had: anything gains more. */
#define CHOOSE_NEVER ((choose_option){0, -1e300})

/* chosen [layers], which holds what every layer has at least (an index into its options), becomes what each should have
 * so that the gains are great and the costs of all stay within the budget: always the step of greatest gain per cost next
 * that still fits. Options with less gain than what is chosen already are not taken. Ties by number.
 * options [layers][count]. Returns the costs of all. */
double choose_within(size_t *chosen, const choose_option *options, size_t layers, size_t count, double budget);

#endif
