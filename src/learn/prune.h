/* prune.h - thresholds below which an activation is treated as zero (mode pruned).
 *
 * For ReLU this is FATReLU's threshold; for SiLU that of CATS (arXiv 2404.08763): it applies to the magnitude of the
 * activated gate, before the product with up. Layers tolerate different amounts of pruning, so a budget is shared out
 * greedily: the layer whose output changes least is pruned next, as in TEAL (arXiv 2408.14690). */
#ifndef LEARN_PRUNE_H
#define LEARN_PRUNE_H

#include "../model/model.h"
#include "states.h"

/* Levels: shares of all activations (zeros included) that are treated as zero. Level 0 is the share that is zero
 * anyway, with thresholds of 0; each further level takes another tenth of the rest. So a ReLU model of density 0.1 has
 * 0.90, 0.91 .. 0.99, a SiLU model 0, 0.1 .. 0.9. */
#define PRUNE_LEVELS 10

typedef struct prune_table {
    float levels[PRUNE_LEVELS]; /* ascending                                                              */
    float losses[PRUNE_LEVELS]; /* of each level, in nats; set by the tuning, valid where loss_tokens > 0 */
    uint64_t loss_tokens;       /* tokens on which the losses were measured                               */
    float *thresholds;          /* [layer_count][PRUNE_LEVELS]                                            */
} prune_table;

/* Computes levels and thresholds from the hidden states in `folder`, of the rows for training. The same rows give the
 * same bytes with any number of threads, on one CPU level. HEARTH_CANCELLED through progress. */
hearth_status prune_deal(prune_table *out, hearth_runtime *runtime, const hearth_model *model, const char *folder,
                         hearth_progress progress, hearth_error *error);
void prune_free(prune_table *t);

/* ------------------------------------------------------------------ how a budget is dealt, for tests */

/* A layer is pruned in grades: grade k treats natural + (1 - natural) * k / PRUNE_GRADES of its activations as zero. */
#define PRUNE_GRADES 64

typedef struct prune_curve {
    double natural;                 /* share of activations that is zero anyway                                   */
    float thresholds[PRUNE_GRADES]; /* of grade k; the first is 0                                                 */
    double errors[PRUNE_GRADES];    /* mean square change of the layer's output, over that of the residual stream */
} prune_curve;

/* Sets levels [PRUNE_LEVELS] and grades [layers][PRUNE_LEVELS]: the grade of each layer at every level. Squared errors
 * of different layers add up, so the layer is raised next where that adds least per neuron. */
hearth_status prune_spread(float *levels, uint32_t *grades, const prune_curve *curves, size_t layers,
                           hearth_error *error);

#endif
