/* plan.h - chooses what lies where: the form of every layer, how many of its neurons are on the device, and the side of the
 * head, so that a token takes the least time within a budget. It predicts that time, says what bounds it, and what the plain
 * alternatives would take. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "../engine/kv_pages.h"
#include "../engine/placement.h"
#include "cost.h"

#include <math.h>

/* A number that the user may leave to the plan. */
#define PLAN_FREE UINT32_MAX

typedef struct plan_request {
    double device_bytes; /* of the device's memory that may be taken, all of it included                       */
    double host_bytes;   /* of main memory                                                                     */
    double context;      /* positions of each sequence for which there is memory                               */
    double cached;       /* positions that are cached in the token whose time is predicted                     */
    double sequences;    /* at least 1                                                                         */
    double states;       /* recurrent states that are kept of each sequence                                    */
    uint32_t layers;     /* the last so many layers are on the device, or PLAN_FREE                            */
    uint32_t neurons;    /* of each layer on the device so many neurons, or PLAN_FREE                          */
    bool strict;         /* HEARTH_NO_MEMORY where host_bytes are too few; else the plan says so               */
} plan_request;

/* Returns a request that leaves all to the plan. context: positions that were asked for; 0: those that the model was made
 * for (`most`), but not more than are usual. */
plan_request plan_request_free(double device_bytes, double host_bytes, uint32_t context, uint32_t most);

/* Returns the positions that the cache has for each sequence of so many: whole pages (engine/kv_pages.h). */
static inline double plan_cache_positions(double context)
{
    return context > KV_PAGE ? ceil(context / KV_PAGE) * KV_PAGE : context;
}

typedef struct planned_layer {
    layer_form form;
    uint32_t neurons;    /* on the device, the hottest                                             */
    double device_bytes; /* weights alone                                                          */
    double seconds, mixer_seconds, cpu_seconds, device_seconds; /* in all; mixer; neurons of each side */
} planned_layer;

typedef struct plan {
    uint32_t layer_count;
    planned_layer *layers; /* [layer_count] owned */
    bool uses_device, head_on_device;
    double seconds; /* of a token, predicted */
    double terms[COST_TERMS];
    /* Bytes on the device, and in main memory. */
    struct {
        double weights, cache, states, scratch, margin, budget;
    } device, host;
    double cpu_seconds;      /* everything on the CPU                                               */
    double layers_seconds;   /* the most whole layers that fit on the device, the others on the CPU */
    uint32_t whole_layers;   /* how many                                                            */
    double more_seconds;     /* of a token if the device had a GiB more */
    double position_seconds; /* by which each further cached position makes a token longer                 */
    uint64_t hash;           /* of what lies where                                                         */
} plan;

/* HEARTH_NO_MEMORY: the model does not fit into main memory and the device together, or what the request asks for does not
 * fit on the device; the text gives the sizes. HEARTH_UNSUPPORTED: a layer that the request wants on the device cannot be
 * there. On failure *out is empty. */
hearth_status plan_make(plan *out, const model_load *load, const cost_model *cost, const plan_request *request,
                        hearth_error *error);
void plan_free(plan *p);

/* Finds the predicted seconds of a token with each of budgets [count] of the device, in place of the request's; INFINITY:
 * nothing fits. */
hearth_status plan_budgets(double *seconds, const double *budgets, size_t count, const model_load *load,
                           const cost_model *cost, const plan_request *request, hearth_error *error);

/* Returns which term takes most of the time. */
cost_term plan_bound(const plan *p);

/* Applies a plan to a placement on the CPU of the same model. */
hearth_status plan_apply(const plan *p, const model_load *load, hearth_placement *placement, const hearth_model *model,
                         hearth_error *error);

#endif
