/* timing.h - times the layers of an engine while it says a few tokens. Times come from the spans of a traced session, so that
 * every layer is timed by itself. The text is what the model says, sampled with a fixed
 * seed: greedily, some models repeat a token, whose neurons stay in the cache. */
#ifndef PLAN_TIMING_H
#define PLAN_TIMING_H

#include "cost.h"

/* Tokens that are timed, after one that only warms up. */
#define TIMING_TOKENS 6

typedef enum timing_span {
    SPAN_CPU_MIXER,
    SPAN_CPU_NEURONS,
    SPAN_DEVICE_MIXER,
    SPAN_DEVICE_NEURONS,
    SPAN_WHOLE, /* on the device: from the beginning of the mixer to the end of the layer, where it waits for the CPU */
    TIMING_SPANS
} timing_span;

typedef struct timing {
    const hearth_model *model;
    hearth_progress progress;
    uint32_t layers;
    uint32_t count;  /* tokens timed so far                              */
    bool counts;     /* false: the token that warms up                   */
    double *seconds; /* [layers][TIMING_SPANS][TIMING_TOKENS]            */
    double *begins;  /* [layers] of the device's mixer, in this token    */
    float *logits;   /* [vocabulary_size]                                */
    hearth_sampler *sampler;
    double feed[TIMING_TOKENS], head[TIMING_TOKENS]; /* seconds of a feed, and of the logits */
    uint32_t done, total;                            /* engines timed, for progress                 */
} timing;

/* A zeroed record is closed. total: of engines that will be timed. */
hearth_status timing_open(timing *t, const hearth_model *model, uint32_t total, hearth_progress progress,
                          hearth_error *error);
void timing_close(timing *t);

/* Times an engine of the model; forgets what was timed before. HEARTH_CANCELLED through progress. */
hearth_status timing_run(timing *t, const hearth_engine *engine, hearth_error *error);

/* Return medians over the tokens: of a span of a layer (0: the layer has none), of a feed, and of the logits. */
double timing_layer(const timing *t, uint32_t layer, timing_span which);
double timing_feed(const timing *t);
double timing_head(const timing *t);
/* Returns the sum of all layers: where a layer is on the device, from its beginning to its end there. */
double timing_layers(const timing *t);
/* Returns whether tokens took so equally long that the times can be relied on. */
bool timing_is_steady(const timing *t);

/* Sorts the times of an engine with a placement into terms; token: seconds of a token beside layers and head. Returns
 * their sum. */
double timing_terms(const timing *t, const hearth_engine *engine, double token, double terms[COST_TERMS]);

#endif
