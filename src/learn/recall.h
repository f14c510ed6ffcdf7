/* recall.h - finds the threshold of scores that lets a wanted share of the firing neurons through, and counts how many
 * others it lets through.
 *
 * Exact, ties included, with any number of threads, and without storing the scores: they are counted by the upper bits
 * of their rank in the order of all floats, then those of the bin in question by the lower bits. */
#ifndef LEARN_RECALL_H
#define LEARN_RECALL_H

#include "../base/pool.h"
#include "states.h"

#include <stdbool.h>

/* Rows that are scored at a time. */
#define RECALL_ROWS 32

/* Computes scores [count][neuron_count], by neuron number, of the rows with these numbers; count <= RECALL_ROWS. */
typedef void recall_score(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores);

/* What to count: the rows and how to score them. */
typedef struct recall_task {
    const states *rows;
    size_t first, end, step; /* the rows first, first + step .. < end */
    size_t neuron_count;
    pool *threads;
    recall_score *score;
    void *context;
    const char *thing; /* for errors */
} recall_task;

typedef struct recall_result {
    float threshold; /* lets through every score that is not below it                  */
    double recall;   /* share of what fired that is let through; 1 where nothing fired */
    double density;  /* share of all neurons that is let through                       */
    double fired;    /* share of what is let through that fires                        */
} recall_result;

/* Finds the largest threshold with at least that recall. rough: one pass over the upper bits only; the threshold is
 * then lower by up to one part in 512. HEARTH_FORMAT: the scores there are not finite. */
hearth_status recall_find(const recall_task *task, float recall, bool rough, recall_result *out, hearth_error *error);
/* Returns the bytes of memory that recall_find or recall_at takes, for memory limits. words: of a row's bits. */
uint64_t recall_bytes(size_t neuron_count, size_t words, size_t threads);
/* Measures a given threshold. */
hearth_status recall_at(const recall_task *task, float threshold, recall_result *out, hearth_error *error);

#endif
