/* scoring.h - matrices times rows of hidden states in the engine's arithmetic: weights as they are stored, what meets them
 * rounded to 8 bits where their format wants that (engine/products.h). What a recall_score is made of. */
#ifndef LEARN_SCORING_H
#define LEARN_SCORING_H

#include "../base/pool.h"
#include "../kernel/kernel.h"

/* A thread's own, for RECALL_ROWS rows. */
typedef struct scoring_place {
    float *inputs; /* [RECALL_ROWS][input_width], the user's  */
    float *inner;  /* [RECALL_ROWS][inner_width], the user's  */
    int8_t *q;     /* these as kernel_input has them          */
    float *scales;
    int16_t *sums;
} scoring_place;

/* Zeroed is closed. Stays where it is while it is open. */
typedef struct scoring {
    const kernels *kernels;
    pool *threads;
    scoring_place *places; /* [threads] */
    kernels best;
    pool *own; /* where no threads were given */
} scoring;

/* by NULL: the kernels of kernel_level_choose(). threads NULL: the calling thread alone. Widths of whatever is multiplied. thing:
 * for errors. On failure it is closed. */
hearth_status scoring_open(scoring *s, const kernels *by, pool *threads, size_t input_width, size_t inner_width,
                           const char *thing, hearth_error *error);
void scoring_close(scoring *s);

/* y [count][rows of w] = x [count][columns of w] times all rows of w, for count <= RECALL_ROWS, by the thread whose place
 * it is. */
void scoring_multiply(const scoring *s, const scoring_place *place, const matrix *w, const float *x, size_t count,
                      float *y);

#endif
