/* device_stream.h - streaming: in long steps a device can compute the CPU's neurons of a layer, too (docs/hybrid.md).
 *
 * Their rows go there part by part. The CPU packs a part into one of two pinned buffers, the device's copy queue takes it to one
 * of two buffers of the device, and the device multiplies it with all rows of the step, while the next parts are packed and
 * copied. No neuron is skipped: zeros add nothing, and tiles of rows suit a device better than a list for each token.
 *
 * Here is which layers can be streamed, how their neurons are cut into parts, how a part is packed, and from how many rows of a
 * step on streaming is faster. device_stream_decide.c measures that; device_record_stream.c records what the device does. */
#ifndef ENGINE_DEVICE_STREAM_H
#define ENGINE_DEVICE_STREAM_H

#include "device_weights.h"

struct hearth_engine;
struct hearth_session;

/* Parts that are under way at once: one is multiplied while the next one is packed or copied. */
#define STREAM_BUFFERS 2

/* Some neighbours of the CPU's neurons of a layer. */
typedef struct stream_part {
    uint32_t begin, count;           /* places among those neurons                                             */
    device_matrix gate, up, down_t;  /* [count] rows, in a buffer; plain networks have no gate                 */
    size_t gate_bias_at, up_bias_at; /* where [count] float32 begin there, in bytes, if the layer has them     */
    size_t bytes;                    /* of all of it                                                           */
} stream_part;

/* Returns how many neurons of a layer can be streamed: all of the CPU, or none. They can be if the CPU has some of a layer whose
 * mixer is on the device; rows are stored by neuron (down_t), in formats that devices have; a token's own values say whether a
 * neuron fires (selectors `all` and `sign`), and nothing needs the activations of both sides at once: no experts, no norm of the
 * activations, no first values that are cut. */
uint32_t device_stream_neurons(const struct hearth_engine *e, uint32_t layer);

/* The fewest neurons of a part, unless a layer has fewer: parts hold a multiple of so many. */
#define STREAM_NEURONS 16

/* Returns the bytes of a buffer that holds `neurons` neurons of any layer, or all that it has. */
size_t device_stream_bytes_for(const struct hearth_engine *e, uint32_t neurons);

/* Returns into how many parts a layer is cut in buffers of session.stream_bytes; 0: it is not streamed. */
uint32_t device_stream_parts(const struct hearth_session *s, uint32_t layer);
/* Returns the first layer that is streamed; there is one. */
uint32_t device_stream_first_layer(const struct hearth_session *s);
/* Returns the number of a layer's first part, counted over all layers; layer_count: how many parts there are. */
uint32_t device_stream_first(const struct hearth_session *s, uint32_t layer);
/* Returns a part of a layer, as it lies in a buffer (NULL: only its offsets count). */
stream_part device_stream_part(const struct hearth_session *s, uint32_t layer, uint32_t index, device_buffer *in);
/* Returns the most neurons of a part. */
uint32_t device_stream_widest(const struct hearth_session *s);
/* Packs a part to a buffer, on all threads of the runtime. */
void device_stream_pack(const struct hearth_session *s, uint32_t layer, uint32_t index, char *to);

/* Returns from how many rows of a step on it is faster to stream `streamed` neurons, in layers of which the device has `own`
 * neurons itself; 0: at no number.
 *
 * Without streaming a layer takes rows * max(cpu * streamed, device * own); with it the longest of packing, copying and
 * computing, which go on at once: max(pack * streamed, copy * streamed, rows * device * (own + streamed)). The first grows with
 * the rows, and the second does not until the device is the slowest. The result is a multiple of STREAM_ROWS, so that a little
 * noise seldom changes it. */
#define STREAM_ROWS 16
uint32_t device_stream_least_rows(const stream_figures *f, double own, double streamed);

#endif
