/* inputs.h - adds up the squares of what weight matrices are multiplied with, for importance matrices (learn/columns.h).
 *
 * A session does so where it was told to (session_sum_inputs); else each block of a layer only tests a pointer. Squares
 * are added in double precision, token after token, and each column by one thread, so the sums depend neither on the
 * number of threads nor on how a feed is cut into batches. */
#ifndef ENGINE_INPUTS_H
#define ENGINE_INPUTS_H

#include "../model/model.h"

/* Places in a layer where matrices read an input. Those of a layer with experts are per expert. */
typedef enum input_place {
    INPUT_ATTENTION,        /* of q, k and v, or of what leads into a recurrent mixer */
    INPUT_QUERIES,          /* of q, where two matrices make queries */
    INPUT_GROUPS,           /* of the matrices of groups of heads, which read so many inputs of a token */
    INPUT_ATTENTION_OUTPUT, /* of the output matrix of either      */
    INPUT_MIXED_KEY,        /* of k and ...                        */
    INPUT_MIXED_VALUE,      /* ... v, where each reads a mixture of its own (rwkv_input) */
    INPUT_LATENT_IN,        /* of the matrices that lead to ...    */
    INPUT_LATENT_OUT,       /* ... and from experts of another width */
    INPUT_NETWORK,          /* of gate and up                      */
    INPUT_DOWN,             /* of down: the activations            */
    INPUT_SHARED,           /* the same two of the expert that ... */
    INPUT_SHARED_DOWN,      /* ... every token uses                */
    INPUT_PLACES
} input_place;

/* Sums of one place; zeroed: the layer does not have it. */
typedef struct input_squares {
    uint32_t columns, matrices; /* matrices: one per expert, else 1                                     */
    double *sums;               /* [matrices][columns]; of activations by the neuron's original number */
    double *rows;               /* [matrices] inputs that were added                                    */
} input_squares;

typedef struct input_sums {
    input_squares head;
    input_squares (*layers)[INPUT_PLACES]; /* [layer_count]             */
    void *block;                           /* all sums, as they are stored */
    size_t block_bytes;
} input_sums;

/* Allocates zeroed sums for all matrices of a model. On failure *out is empty. */
hearth_status inputs_create(input_sums *out, const hearth_model *model, hearth_error *error);
void inputs_free(input_sums *s);

/* Has a session add to `to`, which must outlive it, all rows that are fed; NULL: none any more. A feed that fails may have
 * added some of its rows. HEARTH_INVALID: it does not compute every neuron on the CPU. */
hearth_status session_sum_inputs(hearth_session *session, input_sums *to, hearth_error *error);

#endif
