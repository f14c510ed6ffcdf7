/* scoring.h - multiplies matrices by rows of hidden states in the engine's arithmetic: weights as they are stored,
 * inputs rounded to 8 bits where the format requires it (engine/products.h). The building block of a recall_score. */
#ifndef LEARN_SCORING_H
#define LEARN_SCORING_H

#include "../base/pool.h"
#include "../kernel/kernel.h"

/* Buffers of one thread, for RECALL_ROWS rows. */
typedef struct scoring_place {
    float *inputs; /* [RECALL_ROWS][input_width], for the caller */
    float *inner;  /* [RECALL_ROWS][inner_width], for the caller */
    int8_t *q;     /* the input of a product, quantised as kernel_input wants it */
    float *scales;
    int16_t *sums;
} scoring_place;

/* A zeroed struct is closed. It must not be moved while it is open: `kernels` may point into it. */
typedef struct scoring {
    const kernels *kernels;
    pool *threads;
    scoring_place *places; /* [threads] */
    kernels best;          /* used where no kernels were given */
    pool *own;             /* used where no threads were given */
} scoring;

/* Allocates the buffers of all threads. by NULL: the kernels of kernel_level_choose(). threads NULL: the calling thread
 * alone. The widths are the most columns of any input. thing: for errors. On failure *s is closed. */
hearth_status scoring_open(scoring *s, const kernels *by, pool *threads, size_t input_width, size_t inner_width,
                           const char *thing, hearth_error *error);
void scoring_close(scoring *s);

/* Computes y [count][rows of w] = x [count][columns of w] times all rows of w, for count <= RECALL_ROWS, on the thread
 * that owns `place`. */
void scoring_multiply(const scoring *s, const scoring_place *place, const matrix *w, const float *x, size_t count,
                      float *y);

#endif
