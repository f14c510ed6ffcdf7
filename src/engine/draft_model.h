/* draft_model.h - guesses the next tokens of a sequence by a second, smaller model, which the first then checks in one step
 * (Leviathan et al. 2023, arXiv 2211.17192).
 *
 * The draft's sequence follows the text: what both have in common stays, the rest is cut and read. Each guess is the token
 * that the draft holds for likeliest; where it is not sure it guesses no further. Whether a guess holds is decided by the
 * first model's sampler alone, so the text is the same as without. */
#ifndef ENGINE_DRAFT_MODEL_H
#define ENGINE_DRAFT_MODEL_H

#include "engine.h"

typedef struct draft_model {
    hearth_session
        *session;  /* of the draft; its sequence 0; it obeys a cancel of what it guesses for; NULL: there is none */
    float *logits; /* [vocabulary_size]                                      */
    double guess_seconds; /* mean time of a guess; 0: not known                     */
} draft_model;

/* of: the session that answers.
 * HEARTH_INVALID: the models have different vocabularies (the first different token is named).
 * HEARTH_UNSUPPORTED: the draft has recurrent layers, which cannot be cut by a few tokens. */
hearth_status draft_model_begin(draft_model *d, hearth_session *session, const hearth_session *of, hearth_error *error);
void draft_model_end(draft_model *d);

/* Guesses what follows tokens [count], at most `most` tokens, to out; *found says how many. */
hearth_status draft_model_guess(draft_model *d, const int32_t *tokens, size_t count, size_t most, int32_t *out,
                                size_t *found, hearth_error *error);

#endif
