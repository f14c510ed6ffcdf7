/* answer.h - what request.c needs of an answer beyond hearth.h. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include <hearth.h>

/* Returns how many tokens may be guessed in a step, as its options say. */
uint64_t answer_draft_tokens(const hearth_answer *answer);
/* Returns the session that guesses; NULL: none. */
hearth_session *answer_draft(const hearth_answer *answer);
/* Returns how many tokens it has at most; 0: no limit. */
uint32_t answer_max_tokens(const hearth_answer *answer);

#endif
