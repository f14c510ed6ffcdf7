/* lowrank.h - a predictor of two thin matrices, learnt from hidden states: score = fc2 . relu(fc1 . input).
 *
 * It begins with what is known already: the first matrix of the network (gate, or up) cut to its strongest directions
 * under the distribution of the inputs, once with each sign, every neuron's score in standard deviations of what the cut
 * leaves out. Often that is good already. From there binary cross-entropy on which neurons fired, AdamW; the last tenth
 * of the rows is held out, and what is kept is what lets the least through there at the wanted recall.
 *
 * The format knows no biases. A bias of the network, or FATReLU's threshold, is replaced by the best linear guess of a
 * constant from the input, which is part of the first matrix then. */
#ifndef LEARN_LOWRANK_H
#define LEARN_LOWRANK_H

#include "../base/pool.h"
#include "../kernel/kernel.h"
#include "../model/model.h"
#include "states.h"

typedef struct lowrank_options {
    uint32_t rank;          /* hidden units; even, at least 2; whole blocks of the format (32 for q8_0)   */
    bool normed;            /* reads what the network reads; else the residual stream                    */
    float recall;           /* wanted of the threshold, on the held-out rows; above 0, at most 1         */
    number_format format;   /* as which both matrices are stored, and measured                           */
    uint32_t epochs;        /* at most; 0: only the beginning, no training                               */
    uint64_t memory_bytes;  /* 0: no limit; else HEARTH_NO_MEMORY, with both figures, where it is too little */
    uint64_t seed;          /* of the order of rows                                                      */
    const char *folder;     /* where a state is kept after each epoch, to go on from; NULL: nowhere      */
    const kernels *kernels; /* of the engine that it is measured for; NULL: the machine's best          */
    pool *threads;          /* NULL: the calling thread alone; the same bytes with any                   */
    hearth_progress progress;
} lowrank_options;

/* Zeroed is empty. */
typedef struct lowrank {
    uint32_t rank;
    matrix fc1, fc2;    /* [rank][d], [f][rank] in options.format, rows of fc2 by neuron number; owned */
    float threshold;    /* lets through what reaches it: the largest with the wanted recall            */
    double recall;      /* share of what fired that is let through, held-out rows                      */
    double density;     /* share of all neurons that is let through                                    */
    double fired;       /* share of what is let through that fires                                     */
    double beginning;   /* the density before training, at the wanted recall                          */
    uint32_t epochs;    /* done                                                                        */
    bool state_damaged; /* what lay in the folder was, and was not gone on from                      */
} lowrank;

/* The same rows and options, whatever the threads and whether it was interrupted: the same bytes.
 * HEARTH_UNSUPPORTED: the activation is never zero; the rank fits neither the
 * format nor the model. HEARTH_CANCELLED: through progress; what was done up to the last epoch lies in the folder. `out`
 * is written on HEARTH_OK only. */
hearth_status lowrank_train(lowrank *out, const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error);
void lowrank_free(lowrank *l);
/* Whether these options can be trained at all, without beginning: HEARTH_NO_MEMORY, here always for want of
 * memory_bytes, HEARTH_UNSUPPORTED and HEARTH_INVALID as above. */
hearth_status lowrank_check(const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error);

/* Held-out recall, density, share fired and threshold of any low-rank predictor (io->fc1, io->fc2; a PowerInfer file's,
 * too, whose rows must lie by neuron number), in the engine's arithmetic, for a wanted recall; or, where `threshold` is
 * finite, at that one. by NULL: the machine's best; threads NULL: the calling thread alone. */
hearth_status lowrank_measure(lowrank *io, const hearth_model *model, uint32_t layer, const states *rows, bool normed,
                              float recall, float threshold, const kernels *by, pool *threads, hearth_error *error);

#endif
