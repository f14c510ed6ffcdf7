/* recall.h - where to cut scores so that a wanted share of what fires is let through, and how much else that lets in.
 *
 * Exact, ties included, whatever the number of threads, without keeping the scores: they are counted by the upper bits
 * of their place in the order of floats, then those of the bin in question by the lower bits. */
#ifndef LEARN_RECALL_H
#define LEARN_RECALL_H

#include "../base/pool.h"
#include "states.h"

#include <stdbool.h>

/* Rows that are scored at a time. */
#define RECALL_ROWS 32

/* scores [count][neuron_count] by neuron number of count <= RECALL_ROWS rows by number. */
typedef void recall_score(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores);

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
    float threshold; /* lets through what is not below it                              */
    double recall;   /* share of what fired that is let through; 1 where nothing fired */
    double density;  /* share of all that is let through                               */
    double fired;    /* share of what is let through that fires                        */
} recall_result;

/* The largest threshold with at least that recall. rough: only the upper bits are looked at, so that the threshold is
 * less by up to one part in 512, and one pass is enough. HEARTH_FORMAT: scores are not finite there. */
hearth_status recall_find(const recall_task *task, float recall, bool rough, recall_result *out, hearth_error *error);
/* Memory that either takes, for memory limits; words: of a row's bits. */
uint64_t recall_bytes(size_t neuron_count, size_t words, size_t threads);
/* What a given threshold does. */
hearth_status recall_at(const recall_task *task, float threshold, recall_result *out, hearth_error *error);

#endif
