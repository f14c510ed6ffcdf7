/* layer_describe.h - says in words what a layer computes, for people: `hearth inspect` shows them.
 *
 * The words follow from the layer's shape and from which of its weights there are; names of families play no part. */
#ifndef MODEL_LAYER_DESCRIBE_H
#define MODEL_LAYER_DESCRIBE_H

#include "model.h"

/* Each is a phrase that ends without a full stop. Bytes behind the texts are zero. */
typedef struct layer_words {
    char recurrent[160];
    char attention[320]; /* "8 heads of 64, 2 of keys and values; not rotated; sees 4096 positions" */
    char norms[224];     /* "RMS before attention and network" */
    char wiring[192];    /* "attention, then network" */
    char experts[160];   /* "6 of 64, by sigmoid, shares of their sum", or empty */
    char network[192];   /* "silu(gate) * up; 11008 neurons" */
} layer_words;

void layer_describe(layer_words *out, const hearth_model *model, uint32_t layer);

/* Returns whether two layers are described by the same words. */
bool layer_words_equal(const layer_words *a, const layer_words *b);

#endif
