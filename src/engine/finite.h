/* finite.h - noticing results that are not numbers, and saying where they come from.
 *
 * The residual stream is looked at after each layer and the logits when they are asked for, which costs next to nothing
 * beside the products. Only then is the cause looked for, in the file. A value that no result shows is not noticed: a NaN
 * in a gate, for ReLU takes it for zero. */
#ifndef ENGINE_FINITE_H
#define ENGINE_FINITE_H

#include "engine.h"

/* HEARTH_FORMAT: the residual stream of `count` rows, in scratch.x behind layers first to last, is not finite; the text
 * names the tensor of these layers (or, behind the first of all, of the embedding) that is not, or else the layers. */
hearth_status finite_check_stream(const hearth_session *s, size_t count, uint32_t first, uint32_t last,
                                  hearth_error *error);

/* The same of logits [count][vocabulary]: the head, the norm before it, or else the sums themselves. */
hearth_status finite_check_logits(const hearth_session *s, size_t count, const float *logits, hearth_error *error);

#endif
