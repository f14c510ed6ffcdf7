/* convert_plan.h - what becomes of every tensor of a source, decided before the first byte is written. */
#ifndef MODEL_CONVERT_PLAN_H
#define MODEL_CONVERT_PLAN_H

#include "convert.h"
#include "model.h"
#include "predictors.h"

/* One tensor of the file that is written. */
typedef struct convert_item {
    convert_step step;       /* names and reasons are the source's or in the plan's memory                     */
    stored_tensor from, to;  /* to: what the file's head announces                                             */
    const checkpoint *owner; /* of from's data; NULL: the plan, or the caller                                  */
    float scale;             /* values are multiplied by it on the way; 1: as they are                         */
    const uint32_t *rows;    /* [f] the stored row (of a vector: value) of each that is written; NULL: in order */
} convert_item;

typedef struct convert_plan {
    const checkpoint *source;
    const hearth_model *model; /* source, checked                       */
    const predictors *added;   /* NULL: none are added                  */
    const convert_options *options;
    convert_item *items; /* [count]                               */
    size_t count;
    uint64_t bytes_total; /* of source tensors                     */
    bool neuron_major;    /* the file that is written has down_t   */
    bool requantised;     /* blocks of down were rounded once more */
    arena memory;
} convert_plan;

/* p: source, model, added and options are filled in, the rest is zero. Clear its memory afterwards, also on failure. */
hearth_status convert_plan_make(convert_plan *p, hearth_error *error);

#endif
