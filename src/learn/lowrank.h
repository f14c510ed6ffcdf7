/* lowrank.h - trains a low-rank predictor from hidden states: score = fc2 . relu(fc1 . input).
 *
 * It starts from a closed form: the first matrix of the network (gate, or up) cut to its strongest directions under the
 * distribution of the inputs, each direction with both signs, and every neuron's score in standard deviations of what
 * the cut leaves out. Often that is good already. AdamW then minimises the binary cross-entropy of which neurons fired.
 * The last tenth of the rows is held out; the epoch that lets the fewest neurons through there at the wanted recall is
 * taken.
 *
 * The format has no biases. A bias of the network, or FATReLU's threshold, is replaced by the best linear estimate of a
 * constant from the input, which becomes part of the first matrix. */
#ifndef LEARN_LOWRANK_H
#define LEARN_LOWRANK_H

#include "../base/pool.h"
#include "../kernel/kernel.h"
#include "../model/model.h"
#include "states.h"

typedef struct lowrank_options {
    uint32_t rank;          /* hidden units; even, at least 2; whole blocks of the format (32 for q8_0)  */
    bool normed;            /* reads the normed input, as the network does; else the residual stream     */
    float recall;           /* wanted on the held-out rows; above 0, at most 1                           */
    number_format format;   /* in which both matrices are stored, and measured                           */
    uint32_t epochs;        /* at most; 0: only the closed form, no training                             */
    uint64_t memory_bytes;  /* 0: no limit; HEARTH_NO_MEMORY, with both figures, where it is too little  */
    uint64_t seed;          /* for the order of rows                                                     */
    const char *folder;     /* where the state is stored after each epoch, to resume from; NULL: nowhere */
    const kernels *kernels; /* of the engine for which it is measured; NULL: the machine's best          */
    pool *threads;          /* NULL: the calling thread alone; any number gives the same bytes           */
    hearth_progress progress;
} lowrank_options;

/* A trained predictor. A zeroed struct is empty. */
typedef struct lowrank {
    uint32_t rank;
    matrix fc1, fc2;    /* [rank][d], [f][rank] in options.format, rows of fc2 by neuron number; owned */
    float threshold;    /* lets through scores that reach it: the largest with the wanted recall       */
    double recall;      /* share of what fired that is let through, on held-out rows                   */
    double density;     /* share of all neurons that is let through                                    */
    double fired;       /* share of what is let through that fires                                     */
    double beginning;   /* density before training, at the wanted recall                               */
    uint32_t epochs;    /* epochs done                                                                 */
    bool state_damaged; /* the state in the folder was damaged and was not resumed                     */
} lowrank;

/* Trains a predictor for a layer. The same rows and options give the same bytes, whatever the number of threads and
 * however often it was interrupted. HEARTH_UNSUPPORTED: the activation is never zero, or the rank fits neither the
 * format nor the model. HEARTH_CANCELLED through progress: the state after the last whole epoch is in the folder. `out`
 * is written on HEARTH_OK only. */
hearth_status lowrank_train(lowrank *out, const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error);
void lowrank_free(lowrank *l);
/* Checks whether these options can be trained at all, without starting: HEARTH_NO_MEMORY (here always because
 * memory_bytes are too few), HEARTH_UNSUPPORTED and HEARTH_INVALID as above. */
hearth_status lowrank_check(const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error);

#endif
