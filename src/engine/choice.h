/* choice.h - chosen positions on the CPU (attention_shape.chosen): which of those before it a token sees
 * (docs/decisions/020-chosen-positions.md). */
#ifndef ENGINE_CHOICE_H
#define ENGINE_CHOICE_H

#include "engine.h"

/* Returns whether the token at a position sees fewer positions than there are up to it. */
static inline bool choice_limits(const attention_shape *a, uint32_t position)
{
    return a->chosen > 0 && position >= choice_limit(a);
}

/* Returns whether the tokens of a session can: else nothing is ever chosen, and only keys are kept. */
static inline bool choice_matters(const hearth_session *s, const attention_shape *a)
{
    return a->chosen > 0 && s->context > choice_limit(a);
}

/* Returns the words that have a bit for each position of a session, in whole pages of the cache. */
static inline size_t choice_words(const hearth_session *s)
{
    return ((size_t)s->context + KV_PAGE - 1) / KV_PAGE * (KV_PAGE / 32);
}

/* Stores the keys that score the positions of the first `count` rows of the batch, and sets scratch.choice.seen of those that
 * are limited, where the layer chooses itself. Reads scratch.normed and what latent_project has left in scratch.query_in. */
void choice_make(hearth_session *s, uint32_t layer, size_t count);

/* Returns the positions that a limited row sees. */
static inline uint32_t choice_count(const attention_shape *a, uint32_t position)
{
    return a->chosen + position + 1 - pools_scored(a, position) * a->pool;
}

/* Lists in scratch.choice.list what a limited row sees of n positions or summaries, at most `most`, by one of its choices: number `choice`
 * of all rows' (choosers). */
void choice_list(hearth_session *s, size_t choice, size_t n, size_t most);
/* Brings the keys and values together that a limited row sees, in the order of their positions. Returns how many. */
size_t choice_gather(hearth_session *s, uint32_t layer, size_t row);
/* Returns those of a head as a cache of so many positions, until the next row's are brought together. */
attend_cache choice_gathered(const hearth_session *s, uint32_t layer, uint32_t head);

/* Sets the bits of the k largest of n scores (float_place), of equal ones the first; the others become 0, up to the end of a page.
 * 0 < k <= n. */
void choose_positions(const float *scores, size_t n, size_t k, uint32_t *seen);
/* Turns the bits of n pools into those of their positions, and sets those of the positions after them. */
void choice_spread(uint32_t *seen, size_t n, size_t together, size_t positions);

#endif
