/* recurrent_state.h - what the recurrent layers of a session store of its sequences.
 *
 * A sequence has two places. A feed reads the state before it from one and writes the state after it to the other; where
 * the feed succeeds, they change roles, and where it fails, the state before it is still there. So a step writes other
 * lines than it reads; one in place would leave nothing to go back to. A state cannot be cut to fewer tokens either; so the session keeps some marks, states of earlier lengths.
 *
 * Layout of one state, layer after layer: the matrices [heads][value_length][key_length], then the inputs of the last
 * window - 1 tokens of the convolution [window - 1][channels], oldest first. */
#ifndef ENGINE_RECURRENT_STATE_H
#define ENGINE_RECURRENT_STATE_H

#include "../model/layer.h"

typedef struct recurrent_layer {
    const recurrent_shape *shape;
    size_t begin; /* of the layer's matrices in a state, in floats */
} recurrent_layer;

typedef struct recurrent_states {
    uint32_t layer_count, sequences;
    uint32_t mark_count; /* per sequence */
    recurrent_layer *layers;
    size_t length;   /* floats of a state, all layers                                                    */
    float *data;     /* [sequences][2 + mark_count][length]                                              */
    size_t bytes;    /* of data                                                                          */
    uint8_t *valid;  /* [sequences] which of the two places has the state before the running feed: 0 or 1 */
    uint8_t *moved;  /* [sequences] the running feed has finished a batch of the sequence                */
    uint32_t *marks; /* [sequences][mark_count] lengths; 0: empty                                        */
} recurrent_states;

/* Returns the floats that one layer stores of a sequence: the matrices, and all. */
size_t recurrent_matrices(const recurrent_shape *r);
size_t recurrent_floats(const recurrent_shape *r);

/* Reserves the memory for `count` layers with these shapes; states and marks become resident as they are written.
 * HEARTH_NO_MEMORY: the text says how much was wanted. On failure *out can be destroyed. */
hearth_status recurrent_create(recurrent_states *out, const recurrent_shape *const *shapes, uint32_t count,
                               uint32_t sequences, uint32_t mark_count, hearth_error *error);
void recurrent_destroy(recurrent_states *s);

/* Returns the state of a sequence before the running feed, or the last that was completed. */
float *recurrent_valid(const recurrent_states *s, uint32_t sequence);
/* Returns where a batch of the running feed finds the state of a sequence, and where it writes it. */
const float *recurrent_from(const recurrent_states *s, uint32_t sequence);
float *recurrent_to(const recurrent_states *s, uint32_t sequence);

/* Ends a feed: where it succeeded, what was written becomes valid. lengths, before [sequences]: of the sequences after and
 * before the feed. Sequences that read more than one token get marks of both lengths. */
void recurrent_end_feed(recurrent_states *s, bool succeeded, const uint32_t *lengths, const uint32_t *before);

/* Returns the greatest length of at most `length` tokens to which a sequence of `now` tokens can be cut: now, that of a
 * mark, or 0. */
uint32_t recurrent_reach(const recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length);
/* Cuts a sequence to a length that recurrent_reach has returned; later marks become empty. */
void recurrent_cut(recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length);
/* Empties all marks of a sequence: another text follows. */
void recurrent_forget(recurrent_states *s, uint32_t sequence);

#endif
