/* summaries.h - summaries of positions on the CPU (summary_shape in model/layer.h): what is kept of a group of them until it is whole, the
 * keys that are made of it, and what a row sees of those (docs/decisions/022-summaries.md). */
#ifndef ENGINE_SUMMARIES_H
#define ENGINE_SUMMARIES_H

#include "engine.h"

/* Stores the summaries that end with one of the first `count` rows of the batch, those of attention and those that score them, and takes
 * what is kept of unfinished ones on. Reads scratch.normed. */
void summaries_make(hearth_session *s, uint32_t layer, size_t count);

/* Returns the most keys that a token of a session sees in a layer with summaries: of its window and of summaries. */
size_t summaries_most(const hearth_session *s, const attention_shape *a);

/* Brings together what a row sees, the positions in its window and then summaries, where choice_gathered finds them. Returns how many
 * keys that is. Needs scratch.choice.seen where the row is limited (choice_limits). */
size_t summaries_gather(hearth_session *s, uint32_t layer, size_t row);

#endif
