/* guard_memory.h - what the guard found, kept from one run to the next: a small JSON file per machine and model. */
#ifndef PLAN_GUARD_MEMORY_H
#define PLAN_GUARD_MEMORY_H

#include "../base/error.h"

/* What becomes of a layer. A model has either no layer on GUARD_STOCK, or has them all there. */
typedef enum guard_layer {
    GUARD_STOCK,  /* every neuron, with down as the file has it     */
    GUARD_DENSE,  /* every neuron, with the neuron-major down       */
    GUARD_SPARSE, /* zeros are skipped                              */
    GUARD_LAYER_COUNT
} guard_layer;

typedef struct guard_findings {
    uint32_t layer_count;
    guard_layer *layers;                          /* [layer_count], the caller's */
    double dense_seconds, exact_seconds, density; /* see guard_report            */
    bool surveyed;                                /* dense_seconds are those of the stock layout; not kept */
    bool busy;                                    /* measured on a busy machine                            */
} guard_findings;

#define GUARD_KEY_SIZE 33

/* 32 hexadecimal digits that stand for the processor, the level, the threads, the arithmetic and the model: its name, sizes and
 * formats, wherever the file lies. */
void guard_key(char out[GUARD_KEY_SIZE], const hearth_runtime *runtime, const hearth_model *model,
               hearth_activations activations);

/* Reads folder/guard-KEY.json into findings, whose layer_count says how many layers there must be. False: there is
 * no such file, or it is damaged, or of another key, or was measured on a busy machine; findings are as before then, but for the layers. */
bool guard_recall(guard_findings *findings, const char *folder, const char *key);

/* Writes it, as a whole or not at all; a folder that cannot be written is nobody's error. */
void guard_remember(const guard_findings *findings, const char *folder, const char *key);

#endif
