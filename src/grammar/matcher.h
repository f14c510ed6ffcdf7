/* matcher.h - follows a grammar through a text, byte by byte, and says which tokens may come next.
 *
 * A matcher belongs to one answer and to one thread at a time; the grammar and the tokens are shared, and must
 * outlive it. It holds all ways that the grammar could have gone so far, each as a stack of rules to come back to;
 * such a set is a state. States are made when they are first reached, and a byte leads from one to another by a table
 * from then on (a deterministic automaton, lazily made). Masks are remembered by state.
 *
 * Grammars may be a stranger's, and small ones can have more ways than anybody can follow. So a call has a bound on its
 * steps: nodes that it visits, frames that it makes (these count more), stacks that it compares or copies. That bounds
 * its time, and together with the limits of what is kept the memory: a few hundred thousand frames.
 *
 * Where more rules than MATCHER_DEPTH_LIMIT lie within each other, a text is refused as if the grammar ended there. */
#ifndef GRAMMAR_MATCHER_H
#define GRAMMAR_MATCHER_H

#include "grammar.h"
#include "token_trie.h"

enum {
    MATCHER_DEPTH_LIMIT = 1024,
    MATCHER_STATE_LIMIT = 1 << 13,  /* states that are kept; between tokens the others are forgotten  */
    MATCHER_STACK_LIMIT = 1 << 18,  /* stacks, in all states                                          */
    MATCHER_STEP_FACTOR = 4,        /* so many times these within one token, or that is an error      */
    MATCHER_EFFORT_LIMIT = 1 << 20, /* steps of a call, or that is an error: at most about 0.05 s      */
    MATCHER_EFFORT_OF_BYTE = 256,   /* and these for each byte of a text that is read                  */
    MATCHER_MASK_LIMIT = 256        /* masks that are kept                                            */
};

typedef struct matcher matcher;

/* HEARTH_UNSUPPORTED: what may come first is too ambiguous already. HEARTH_NO_MEMORY. */
hearth_status matcher_create(matcher **out, const grammar *g, const token_trie *tokens, hearth_error *error);
void matcher_destroy(matcher *m);
/* Goes back to the beginning of an answer. What it has learnt is kept. */
void matcher_reset(matcher *m);

/* Reads bytes, or those of a token; one that ends the answer may come where matcher_can_end, and nothing after it.
 * HEARTH_INVALID: they cannot come here. HEARTH_UNSUPPORTED: the grammar is so ambiguous that the limits above are
 * exceeded. HEARTH_NO_MEMORY. On failure the matcher is where it was. */
hearth_status matcher_accept(matcher *m, span bytes, hearth_error *error);
hearth_status matcher_accept_token(matcher *m, int32_t id, hearth_error *error);

/* Steps that the last call of create, accept or mask took, which may pass its bound by those of one state; for tests. */
size_t matcher_effort(const matcher *m);

/* Whether the text so far is one of the grammar's. */
bool matcher_can_end(const matcher *m);

/* Points *bits to [(vocabulary_size + 63) / 64] words, valid until the next call: bit i % 64 of word i / 64 is set if
 * matcher_accept_token would take token i. All 0: the answer has ended, or no token fits. Fails as matcher_accept does,
 * but for HEARTH_INVALID. */
hearth_status matcher_mask(matcher *m, const uint64_t **bits, hearth_error *error);

#endif
