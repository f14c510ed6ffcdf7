/* prune.h - thresholds below which an activation is taken for zero (mode pruned).
 *
 * For ReLU it is FATReLU's threshold; for SiLU that of CATS (arXiv 2404.08763): on the magnitude of the activated gate,
 * before it meets up. Layers bear different amounts, so a budget is dealt greedily: the layer whose output changes least
 * gives next, as TEAL does (arXiv 2408.14690). */
#ifndef LEARN_PRUNE_H
#define LEARN_PRUNE_H

#include "../model/model.h"
#include "states.h"

/* Shares of all activations (zeros included) that are taken for zero, at which thresholds are dealt. The first is the
 * share that is zero anyway, where every threshold is 0; the others take a tenth more of the rest each. So a ReLU model
 * of density 0.1 has 0.90, 0.91 .. 0.99, a SiLU model 0, 0.1 .. 0.9. */
#define PRUNE_LEVELS 10

typedef struct prune_table {
    float levels[PRUNE_LEVELS]; /* ascending */
    float losses[PRUNE_LEVELS]; /* of each, nats; filled in by the tuning, where loss_tokens are above 0 */
    uint64_t loss_tokens;       /* that they were measured on                */
    float *thresholds;          /* [layer_count][PRUNE_LEVELS] */
} prune_table;

/* From the hidden states in `folder`, of the rows that train. The same rows give the same bytes on any number of
 * threads, on one CPU level. HEARTH_CANCELLED through progress. */
hearth_status prune_deal(prune_table *out, hearth_runtime *runtime, const hearth_model *model, const char *folder,
                         hearth_progress progress, hearth_error *error);
void prune_free(prune_table *t);

/* ------------------------------------------------------------------ how a budget is dealt, for tests */

/* What a layer gives goes up in steps: step k takes natural + (1 - natural) * k / PRUNE_STEPS of its activations. */
#define PRUNE_STEPS 64

typedef struct prune_curve {
    double natural;                /* share that is zero anyway                                                */
    float thresholds[PRUNE_STEPS]; /* of step k; the first is 0                                                */
    double errors[PRUNE_STEPS];    /* mean square of what the layer's output loses, over that of the residual stream */
} prune_curve;

/* levels [PRUNE_LEVELS] and steps [layers][PRUNE_LEVELS]: at every level the step of each layer. Squares of errors of
 * different layers add up, so the next step is taken where it adds least per neuron. */
hearth_status prune_spread(float *levels, uint32_t *steps, const prune_curve *curves, size_t layers,
                           hearth_error *error);

#endif
