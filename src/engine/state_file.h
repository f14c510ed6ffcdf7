/* state_file.h - the file of a saved sequence: what it has read and what a session stores of that, so that another process
 * goes on behind it.
 *
 * All numbers are little-endian.
 *
 *     0    char[8]   "hearthSQ"
 *     8    u32       version, 1
 *     12   u32       format of keys and values (hearth_kv)
 *     16   char[32]  fingerprint of the model (model/fingerprint.h)
 *     48   char[32]  what else has to be the same: formats of the weights, activations, and which layer lies where
 *     80   u64       n, tokens
 *     88   u64       bytes of the state
 *     96   u64[2]    hash of all other bytes (base/hash.h)
 *     112  i32[n]    the tokens
 *     ...            the state, kind after kind (state.h)
 *
 * The hash finds damage, not intent: whoever can write such a file can have the model go on behind any text. It cannot do
 * more than that: whatever the state holds, it is only ever computed with. */
#ifndef ENGINE_STATE_FILE_H
#define ENGINE_STATE_FILE_H

#include "../base/hash.h"
#include "engine.h"

#define STATE_FILE_HEAD 112

/* What a file has to agree with. */
typedef struct state_identity {
    char fingerprint[HASH_TEXT_SIZE], layout[HASH_TEXT_SIZE];
    hearth_kv format;
    uint32_t context, vocabulary; /* a file of more tokens, or of unknown ones, is refused */
} state_identity;

/* What a file holds; points into it. */
typedef struct state_view {
    size_t length;
    const uint8_t *tokens; /* [length] i32, each within the vocabulary */
    const uint8_t *state;  /* [state_bytes]                            */
    size_t state_bytes;
} state_view;

/* Parses a file. path: for errors.
 * HEARTH_FORMAT: it is no such file, is cut short or longer than it says, or is damaged.
 * HEARTH_UNSUPPORTED: its version is a later one.
 * HEARTH_INVALID: it is of another model, placement or KV format.
 * HEARTH_FULL: it has more tokens than the context. */
hearth_status state_file_parse(state_view *out, const uint8_t *data, size_t size, const state_identity *identity,
                               const char *path, hearth_error *error);

/* Fills in the head of a file that holds `v`. */
void state_file_head(uint8_t head[STATE_FILE_HEAD], const state_identity *identity, const state_view *v);

#endif
