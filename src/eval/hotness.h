/* hotness.h - which neurons fire most: a short profile, so that a file can hold the hot ones in front.
 *
 * Every neuron is computed (rung dense); counted is how often its activation is not exactly zero. Neurons go by their
 * original numbers. */
#ifndef EVAL_HOTNESS_H
#define EVAL_HOTNESS_H

#include "../base/text.h"

typedef struct hotness {
    uint32_t layer_count, neuron_count;
    uint64_t tokens;   /* read while counting                                             */
    uint32_t *counts;  /* [layer_count][neuron_count]                                     */
    uint32_t **order;  /* [layer_count][neuron_count] numbers, hottest first, ties by number */
    double share_half; /* mean share of a layer's activations that its hotter half makes   */
} hotness;

typedef struct hotness_options {
    span text;             /* data NULL: what the model writes itself, from BOS on, at temperature 1, seed 1 */
    const char *text_name; /* for errors */
    const int32_t *ids;    /* [id_count] in place of a text; NULL: none */
    size_t id_count;
    uint32_t tokens; /* of what it writes itself; 0: 512 */
    hearth_progress progress;
} hotness_options;

/* engine: of rung dense. HEARTH_UNSUPPORTED: an activation that is never zero, or a text and no tokenizer.
 * HEARTH_FORMAT: the text has no token. Free with hotness_free, also on failure. */
hearth_status hotness_measure(hotness *out, const hearth_engine *engine, const hotness_options *options,
                              hearth_error *error);
void hotness_free(hotness *h);

#endif
