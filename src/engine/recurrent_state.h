/* recurrent_state.h - what the recurrent layers of a session store of its sequences.
 *
 * A sequence has two places. A feed reads the state before it from one and writes the state after it to the other; where
 * the feed succeeds, they change roles, and where it fails, the state before it is still there. So a step writes other
 * lines than it reads; one in place would leave nothing to go back to. A state cannot be cut to fewer tokens either; so the session keeps some marks, states of earlier lengths.
 *
 * The states of layers on a device lie in its memory, in the same layout; they are kept, copied and cut in the same way.
 *
 * Layout of one state, layer after layer: the matrices [heads][value_length][key_length], then the inputs of the last
 * window - 1 tokens of the convolution [window - 1][channels], oldest first, then what n-grams keep (recurrent_shape.more); each
 * begins at a multiple of 16 bytes. */
#ifndef ENGINE_RECURRENT_STATE_H
#define ENGINE_RECURRENT_STATE_H

#include "../device/device.h"
#include "../model/layer.h"

typedef struct recurrent_layer {
    const recurrent_shape *shape;
    size_t begin; /* of the layer's matrices in a state, in floats */
} recurrent_layer;

typedef struct recurrent_states {
    uint32_t layer_count, sequences;
    uint32_t mark_count; /* per sequence */
    recurrent_layer *layers;
    size_t length;           /* floats of a state, all layers                                                    */
    size_t bytes;            /* of [sequences][2 + mark_count][length] floats, which are in ...                  */
    float *data;             /* ... main memory, or in ...                                                       */
    device_buffer *there;    /* ... the memory of a device; not owned                                            */
    hearth_runtime *runtime; /* whose device it is                                                               */
    uint8_t *valid;          /* [sequences] which of the two places has the state before the running feed: 0 or 1 */
    uint8_t *moved;          /* [sequences] the running feed has finished a batch of the sequence                */
    uint32_t *marks;         /* [sequences][mark_count] lengths; 0: empty                                        */
} recurrent_states;

/* Returns the floats of the matrices of one layer, and where in its part of a state the inputs of the convolution begin, and what
 * n-grams keep. */
size_t recurrent_matrices(const recurrent_shape *r);
size_t recurrent_inputs_at(const recurrent_shape *r);
size_t recurrent_more_at(const recurrent_shape *r);
/* Returns the bytes that so many layers with these shapes take, with all places; SIZE_MAX if they overflow. */
size_t recurrent_bytes(const recurrent_shape *const *shapes, uint32_t count, uint32_t sequences, uint32_t mark_count);

/* Prepares states for `count` layers with these shapes: in `there`, which has recurrent_bytes in the memory of the device of
 * a runtime and must outlive them; or, there NULL, in main memory, which is reserved and becomes resident as states and
 * marks are written. HEARTH_NO_MEMORY: the text says how much was wanted. On failure *out can be destroyed. */
hearth_status recurrent_create(recurrent_states *out, const recurrent_shape *const *shapes, uint32_t count,
                               uint32_t sequences, uint32_t mark_count, device_buffer *there, hearth_runtime *runtime,
                               hearth_error *error);
void recurrent_destroy(recurrent_states *s);

/* Return the number of the place where a batch of the running feed finds the state of a sequence, and where it writes it. */
uint32_t recurrent_from(const recurrent_states *s, uint32_t sequence);
uint32_t recurrent_to(const recurrent_states *s, uint32_t sequence);
/* Returns the number of the place with the state of a sequence before the running feed, or the last that was completed. */
uint32_t recurrent_valid(const recurrent_states *s, uint32_t sequence);
/* Returns the state in a place in main memory. */
float *recurrent_place(const recurrent_states *s, uint32_t place);

/* Ends a feed: where it succeeded, what was written becomes valid. lengths, before [sequences]: of the sequences after and
 * before the feed. Sequences that read more than one token get marks of both lengths; one that cannot be copied, since the
 * device failed, is not kept. */
void recurrent_end_feed(recurrent_states *s, bool succeeded, const uint32_t *lengths, const uint32_t *before);

/* Returns the greatest length of at most `length` tokens to which a sequence of `now` tokens can be cut: now, that of a
 * mark, or 0. */
uint32_t recurrent_reach(const recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length);
/* Cuts a sequence to a length that recurrent_reach has returned; later marks become empty. Fails only on a device. */
hearth_status recurrent_cut(recurrent_states *s, uint32_t sequence, uint32_t now, uint32_t length, hearth_error *error);

/* Copy the state of a sequence: after `length` of its `now` tokens, a length that recurrent_reach has returned, to another
 * sequence; to a block of length floats; from one (NULL: there is none, since the sequence becomes empty). The marks of the
 * sequence that is written are of another text then, so they become empty. They fail only on a device. */
hearth_status recurrent_copy(recurrent_states *s, uint32_t from, uint32_t to, uint32_t now, uint32_t length,
                             hearth_error *error);
hearth_status recurrent_save(const recurrent_states *s, uint32_t sequence, void *block, hearth_error *error);
hearth_status recurrent_restore(recurrent_states *s, uint32_t sequence, const void *block, hearth_error *error);

#endif
