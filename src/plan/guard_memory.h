/* guard_memory.h - stores the guard's findings between runs: a small JSON file per machine and model. */
#ifndef PLAN_GUARD_MEMORY_H
#define PLAN_GUARD_MEMORY_H

#include "../base/error.h"

/* How a layer is computed. Either all layers of a model are GUARD_STOCK, or none. */
typedef enum guard_layer {
    GUARD_STOCK,  /* every neuron, down as stored in the file */
    GUARD_DENSE,  /* every neuron, neuron-major down          */
    GUARD_SPARSE, /* skips zeros, neuron-major down           */
    GUARD_LAYER_COUNT
} guard_layer;

typedef struct guard_findings {
    uint32_t layer_count;
    guard_layer *layers;                          /* [layer_count], owned by the caller                       */
    double dense_seconds, exact_seconds, density; /* see guard_report                                         */
    bool surveyed;                                /* dense_seconds were taken on the stock layout; not stored */
    bool busy;                                    /* measured on a busy machine                               */
} guard_findings;

#define GUARD_KEY_SIZE 33

/* Writes 32 hexadecimal digits that identify the processor, its cache size, the CPU level, the threads, the arithmetic,
 * hearth's version and the model: its name, sizes, formats and norms, wherever the file lies. */
void guard_key(char out[GUARD_KEY_SIZE], const hearth_runtime *runtime, const hearth_model *model,
               hearth_activations activations);

/* Reads folder/guard-KEY.json into findings; findings->layer_count is the number of layers that the file must have.
 * Returns false where the file is missing, damaged, of another key, or measured on a busy machine; all members are then
 * unchanged except the contents of `layers`. */
bool guard_recall(guard_findings *findings, const char *folder, const char *key);

/* Writes the findings to folder/guard-KEY.json, whole or not at
 * all. A failure is ignored: the next run measures again. */
void guard_remember(const guard_findings *findings, const char *folder, const char *key);

#endif
