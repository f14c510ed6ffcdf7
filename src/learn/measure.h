/* measure.h - measures predictors on held-out rows of hidden states: the threshold of their scores that lets a wanted
 * share of the firing neurons through, and how many others it lets through.
 *
 * Exact, ties included, with any number of threads, and without storing the scores: they are counted by the upper bits
 * of their rank in the order of all floats, then those of the bin in question by the lower bits.
 *
 * Low-rank predictors and coarse copies are scored in the engine's arithmetic: weights as they are stored, inputs
 * rounded to 8 bits where the format requires it (engine/products.h). */
#ifndef LEARN_MEASURE_H
#define LEARN_MEASURE_H

#include "lowrank.h"

/* Rows that are scored at a time. */
#define RECALL_ROWS 32

/* Computes scores [count][neuron_count], by neuron number, of the rows with these numbers; count <= RECALL_ROWS. */
typedef void recall_score(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores);

/* What to count: the rows and how to score them. */
typedef struct recall_task {
    const states *rows;
    size_t first, end, stride; /* the rows first, first + stride .. < end */
    size_t neuron_count;
    size_t expert_neurons; /* neurons of each expert: those of which none fired were not chosen, and do not count; 0:
                              there are no experts */
    size_t routed;         /* neurons of all of them; the rest are of the one that every token uses */
    pool *threads;
    recall_score *score;
    void *context;
    const char *thing; /* for errors */
} recall_task;

typedef struct recall_result {
    float threshold; /* lets through every score that is not below it                  */
    double recall;   /* share of what fired that is let through; 1 where nothing fired */
    double density;  /* share of all neurons (of the chosen experts) that is let through */
    double fired;    /* share of what is let through that fires                        */
} recall_result;

/* Finds the largest threshold with at least that recall. rough: one pass over the upper bits only; the threshold is
 * then lower by up to one part in 512. HEARTH_FORMAT: the scores there are not finite. */
hearth_status recall_find(const recall_task *task, float recall, bool rough, recall_result *out, hearth_error *error);
/* Returns the bytes of memory that recall_find or recall_at takes, for memory limits. words: of a row's bits. */
uint64_t recall_bytes(size_t neuron_count, size_t words, size_t threads);
/* Measures a given threshold. */
hearth_status recall_at(const recall_task *task, float threshold, recall_result *out, hearth_error *error);

/* ------------------------------------------------------------------ predictors */

/* Measures recall, density, share fired and threshold of any low-rank predictor (io->fc1, io->fc2) on the held-out
 * rows, in the engine's arithmetic: for a wanted recall or, where `threshold` is finite, at that threshold. The
 * predictor may come from a PowerInfer file if its rows lie in the order of neuron numbers. by NULL: the machine's best
 * kernels; threads NULL: the calling thread alone. */
hearth_status measure_lowrank(lowrank *io, const hearth_model *model, uint32_t layer, const states *rows, bool normed,
                              float recall, float threshold, const kernels *by, pool *threads, hearth_error *error);

/* Finds the margin that the coarse selector (engine/coarse.h) needs for a wanted recall, in standard deviations of the
 * copy's error: out->threshold is the margin. The arithmetic, `by` and `threads` are as above. HEARTH_UNSUPPORTED: rows
 * are not whole blocks of the format, or the activation is never zero. */
hearth_status measure_coarse(recall_result *out, const hearth_model *model, uint32_t layer, const states *rows,
                             number_format format, float recall, const kernels *by, pool *threads, hearth_error *error);

#endif
