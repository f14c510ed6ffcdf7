/* coarse.h - finds the margin that the coarse selector (src/engine/coarse.h) needs, by counting; no training. */
#ifndef LEARN_COARSE_H
#define LEARN_COARSE_H

#include "../base/pool.h"
#include "../kernel/kernel.h"
#include "../model/model.h"
#include "states.h"

typedef struct coarse_margin {
    float margin;   /* in standard deviations of the copy's error: the least with the wanted recall */
    double recall;  /* share of what fired that is let through, on held-out rows                    */
    double density; /* share of all neurons that is let through                                     */
    double fired;   /* share of what is let through that fires                                      */
} coarse_margin;

/* Calibrates the margin in the engine's arithmetic. by NULL: the machine's best kernels. threads NULL: the calling
 * thread alone; the result is the same with any number. HEARTH_UNSUPPORTED: rows are not whole blocks of the format, or
 * the activation is never zero. */
hearth_status coarse_calibrate(coarse_margin *out, const hearth_model *model, uint32_t layer, const states *rows,
                               number_format format, float recall, const kernels *by, pool *threads,
                               hearth_error *error);

#endif
