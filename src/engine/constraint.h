/* constraint.h - holds one answer to a grammar: which tokens may come next. */
#ifndef ENGINE_CONSTRAINT_H
#define ENGINE_CONSTRAINT_H

#include "../base/text.h"

#include <hearth.h>

typedef struct constraint constraint;

/* Begins an answer of the model that the grammar was made for. The grammar must outlive it. */
hearth_status constraint_create(constraint **out, const hearth_grammar *g, const hearth_model *model,
                                hearth_error *error);
void constraint_destroy(constraint *c);

/* Points *bits to a bit for every token (bit i % 64 of word i / 64), set where it may come next; valid until the next call.
 * HEARTH_UNSUPPORTED: none may, or the grammar is too ambiguous to be followed. */
hearth_status constraint_mask(constraint *c, const uint64_t **bits, hearth_error *error);

/* Returns whether a token of the mask can come next; else the mask, which must be the last one that was asked for, has it no
 * longer. Only a token that has the mark before the grammar, and goes on with what does not fit, cannot. */
bool constraint_fits(constraint *c, int32_t token);

/* Takes a token. HEARTH_INVALID: it cannot come here. */
hearth_status constraint_accept(constraint *c, int32_t token, hearth_error *error);

/* Returns whether the text is whole and nothing can follow it. */
bool constraint_has_ended(constraint *c);

#endif
