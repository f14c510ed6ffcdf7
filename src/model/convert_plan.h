/* convert_plan.h - the plan of a conversion: what becomes of every tensor, decided before the first byte is
 * written. */
#ifndef MODEL_CONVERT_PLAN_H
#define MODEL_CONVERT_PLAN_H

#include "convert.h"
#include "model.h"
#include "predictors.h"

/* One tensor of the file that is written. */
typedef struct convert_item {
    convert_step step;        /* its texts lie in the plan's memory or are constants                            */
    stored_tensor from, to;   /* to: as in the head of the new file                                             */
    const checkpoint *owner;  /* owns the data of `from`; NULL: the caller's order of neurons                   */
    uint32_t experts;         /* matrices that lie one after another in the tensor; 1: it is one       */
    const float *weights;     /* [weight_matrices][columns] of rounding errors; NULL: all alike          */
    uint64_t weight_matrices; /* 1: for all rows alike, or as many as experts                           */
    uint64_t zero_rows;       /* rows of zeros that are written before the others: see convert_extra_positions  */
    float scale;              /* values are multiplied by it; 1: they stay as they are                          */
    const uint32_t *rows;     /* [f] the stored row (of a vector: value) of each written one; NULL: in stored order */
} convert_item;

typedef struct convert_plan {
    const checkpoint *source;
    const hearth_model *model;    /* of source, checked                    */
    const predictors *added;      /* NULL: none are added                  */
    const checkpoint *importance; /* NULL: rounding errors weigh alike  */
    const convert_options *options;
    convert_item *items; /* [count]                               */
    size_t count;
    uint64_t bytes_total; /* of source tensors                     */
    bool neuron_major;    /* the new file has down_t               */
    bool requantised;     /* blocks of down were rounded once more */
    arena memory;
} convert_plan;

/* Returns how many more rows the table of positions gets: PowerInfer's files begin with some that no position uses. */
uint32_t convert_extra_positions(const convert_plan *p);

/* Fills in the plan. The caller sets source, model, added, importance and options, and the rest to zero, and clears the plan's
 * memory afterwards, also on failure. */
hearth_status convert_plan_make(convert_plan *p, hearth_error *error);

#endif
