/* finite.h - detects results that are not finite, and reports where they come from.
 *
 * The residual stream is checked after each layer and logits when they are asked for; compared with the products this
 * costs almost nothing. The cause is only searched for after a failure, in the tensors of the file. A value that shows
 * in no result is not detected: ReLU, for example, turns a NaN in a gate into zero. */
#ifndef ENGINE_FINITE_H
#define ENGINE_FINITE_H

#include "engine.h"

/* Checks the residual stream of `count` rows, in scratch.x after layers first to last.
 * HEARTH_FORMAT: it is not finite; the text names the tensor of these layers (with layer 0 also of the embedding) that
 * is not, or else the layers. */
hearth_status finite_check_stream(const hearth_session *s, size_t count, uint32_t first, uint32_t last,
                                  hearth_error *error);

/* Checks logits [count][vocabulary] in the same way; searches the norm before the head and the head, and if both are
 * finite reports the logits themselves. */
hearth_status finite_check_logits(const hearth_session *s, size_t count, const float *logits, hearth_error *error);

#endif
