/* connections.h - blocks that are connected with several streams of the residual (stream_connection and gated_connection in
 * model/layer.h, which has the formulas): each reads a mixture of them, and they become mixtures of themselves and of its result, or
 * that is added to each. The streams of a token lie side by side in scratch.streams. */
#ifndef ENGINE_CONNECTIONS_H
#define ENGINE_CONNECTIONS_H

#include "engine.h"

/* Makes the streams of the first `count` rows of the batch: each is the embedding in scratch.x. */
void connections_begin(hearth_session *s, size_t count);
/* Leaves in scratch.x what a block of a layer reads, its mixer or its network, and in scratch.stream_weights what its connection has
 * found. */
void connections_collapse(hearth_session *s, uint32_t layer, bool network, size_t count);
/* Mixes the streams with the result of the block, which it has added to scratch.x; scratch.added is overwritten. */
void connections_spread(hearth_session *s, size_t count);
/* Leaves what all layers have made in scratch.x: the mean of all streams, or what gates make of them. */
void connections_end(hearth_session *s, size_t count);

#endif
