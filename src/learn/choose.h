/* choose.h - chooses a predictor for each layer from the candidates made for it: counts the bytes that a token reads
 * with each, and holds all layers together within a budget.
 *
 * Bytes per token follow docs/design.md. A predictor costs its own bytes, all read for every
 * token, and the rows that it lets through although they do not fire; it saves the rows of the
 * first matrix that are not read. With ReLU on both gate and up, up is also read where only the
 * gate fires; that is left out with and without a predictor, so the real gain is no less than the
 * counted one. Measured times of the same choice come from tuning_choice.c; both end up as gains here. */
#ifndef LEARN_CHOOSE_H
#define LEARN_CHOOSE_H

#include "../model/model.h"

/* Bytes of a layer's feed-forward network as the sparse modes read it. */
typedef struct choose_layer {
    double first;  /* the matrix that determines which neurons fire                */
    double listed; /* the matrices read only where a neuron fired, down_t included */
    double fires;  /* share of the neurons that fire                               */
    double used;   /* share of the neurons that a token considers: those of the experts that it chooses; else 1 */
    double width;  /* values that a row of a coarse copy has                                                     */
    double neurons, copied; /* all neurons; those that a coarse copy has rows of: not the shared expert's */
} choose_layer;

/* Returns the bytes of a layer. fires: share of neurons that fire, from the profile. */
choose_layer choose_layer_of(const hearth_model *model, uint32_t layer, double fires);

/* A predictor as it would be used, with what was measured about it. */
typedef struct candidate {
    predictor_kind kind;
    bool normed;                   /* low-rank: reads the normed input, else the residual stream                  */
    number_format format;          /* of both matrices, or of the coarse copy                                     */
    uint32_t rank;                 /* low-rank: hidden units                                                      */
    float threshold;               /* as in learned_predictor                                                     */
    double recall;                 /* share of the firing neurons that is let through                             */
    double density;                /* share of the neurons that a token considers that is let through             */
    double fired;                  /* share of those let through that fire                                        */
    double own_bytes, token_bytes; /* bytes of the predictor; of the layer with it, per token                     */
    double seconds, exact_seconds; /* of the layer per token, with it and without it in the same race; 0: unknown */
} candidate;

/* Returns the bytes that the layer reads per token without a predictor. */
double choose_exact_bytes(const choose_layer *l);
/* Sets own_bytes and token_bytes from kind, format, rank, density and fired. */
void choose_count_bytes(candidate *c, const hearth_model *model, const choose_layer *l);

/* Lists the ranks to try for rows of d values: shares of d,
 * rounded up to whole blocks of every format. Returns how many. */
#define CHOOSE_RANKS 5
size_t choose_ranks(uint32_t ranks[CHOOSE_RANKS], uint32_t d);
/* Lists the formats of coarse copies with clearly fewer bytes than the layer's first matrix. Returns how many. */
#define CHOOSE_COARSE 4
size_t choose_coarse_formats(number_format formats[CHOOSE_COARSE], const hearth_model *model, uint32_t layer);
/* Returns the format in which low-rank matrices are stored. */
number_format choose_low_rank_format(const hearth_model *model);

/* One option of a layer. */
typedef struct choose_option {
    double cost, gain; /* cost in units of the budget; gain in bytes or seconds */
} choose_option;
/* An option that is never taken: any other gains more. */
#define CHOOSE_NEVER ((choose_option){0, -1e300})

/* Chooses one option per layer so that gains are high and the sum of costs stays within the budget. On entry chosen
 * [layers] holds the least option that each layer must have (an index into its options); on return the chosen one.
 * Greedy: always makes the change with the greatest gain per cost that still fits. An option that gains no more than
 * the current one is not taken; ties go to the lower number. options [layers][count]. Returns the sum of the costs. */
double choose_within(size_t *chosen, const choose_option *options, size_t layers, size_t count, double budget);

#endif
