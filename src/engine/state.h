/* state.h - what a session stores of the tokens that a sequence has read, by kind of mixer and by side.
 *
 * Everything that is done with a sequence as a whole (cutting it, copying it, saving it and bringing it back) goes through
 * the rows of state_kinds. Keys and values can be cut to any length. A recurrent state, which is all that remains of the
 * tokens before it, only to lengths of which a copy was kept: such a row says so, and the session refuses other cuts. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "engine.h"

typedef struct state_kind {
    const char *name;                         /* for errors */
    bool (*present)(const hearth_session *s); /* the session has state of this kind */
    /* Returns the greatest length of at most `length` to which a sequence of `now` tokens can be cut, and cuts it to that;
     * NULL: to any length, and there is nothing to do. */
    uint32_t (*reach)(const hearth_session *s, uint32_t sequence, uint32_t now, uint32_t length);
    hearth_status (*cut)(hearth_session *s, uint32_t sequence, uint32_t now, uint32_t length, hearth_error *error);
    size_t (*saved_bytes)(const hearth_session *s, uint32_t length);
    /* Copy the state of a sequence after `length` tokens: to another sequence, which is empty (also after fewer than all of
     * them, as reach has it), to a block of saved_bytes, from one to an empty sequence. NULL: there is nothing to do. */
    hearth_status (*copy)(hearth_session *s, uint32_t from, uint32_t to, uint32_t length, hearth_error *error);
    hearth_status (*save)(const hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                          hearth_error *error);
    hearth_status (*restore)(hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                             hearth_error *error);
} state_kind;

/* Makes room for a feed: each sequence gets pages of its own for the positions up to later [sequences], and none is copied
 * where it writes to one that others have, too. There must be enough of them (kv_pages_wanted). HEARTH_DEVICE: the device
 * failed to copy one; the sequences are as before. */
hearth_status state_make_room(hearth_session *s, const uint32_t *later, hearth_error *error);
/* Returns the pages behind the lengths of all sequences, after a feed that failed. */
void state_give_back(hearth_session *s);

/* Makes one sequence a copy of the first `length` tokens of another, a length that hearth_session_reach has returned. Where
 * a device fails it is empty. */
hearth_status session_fork_at(hearth_session *session, uint32_t from, uint32_t to, uint32_t length,
                              hearth_error *error);

/* Lists the recurrent states of a session, of the CPU's layers and of the device's, where it has such layers; returns how
 * many there are. */
#define RECURRENT_SIDES 2
size_t session_recurrents(const hearth_session *s, recurrent_states *out[RECURRENT_SIDES]);

/* A copy of all state of a sequence. */
struct hearth_checkpoint {
    const hearth_engine *engine;
    hearth_kv format;
    uint32_t length;
    int32_t *tokens;    /* [length]                       */
    char *state;        /* [state_bytes], kind after kind */
    size_t state_bytes; /* state_saved_bytes              */
};

/* Returns the bytes that the state of `length` tokens takes in a checkpoint. */
size_t state_saved_bytes(const hearth_session *s, uint32_t length);
/* Creates a checkpoint of a session for `length` tokens, whose tokens and state are the caller's to fill in.
 * HEARTH_NO_MEMORY. */
hearth_status checkpoint_new(hearth_checkpoint **out, const hearth_session *s, uint32_t length, hearth_error *error);

extern const state_kind state_kinds[];
extern const size_t state_kind_count;

#endif
