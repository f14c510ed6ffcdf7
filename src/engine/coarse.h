/* coarse.h - the coarse selector's copy: the first matrix of a network (gate, or up in plain ones) in fewer bits, with
 * the error of each row.
 *
 * For an input x with root mean square r, the product of a copied row has the error e . x, where e is the row minus its
 * copy. Over all directions of x this error has the standard deviation r * spread[i], with spread[i] the norm of e. A
 * neuron counts as zero if the product plus `margin` such deviations is still below the value at which it fires.
 *
 * No input has an error above sqrt(d) deviations (Cauchy-Schwarz inequality), so a slightly larger margin loses
 * nothing. Margins in use are smaller, and what they lose is counted (learn/measure.h). Two kinds of rounding are in no
 * deviation: that of float32 sums, and that of x to 8 bits if only one of the two formats, the copy's and the matrix's,
 * reads 8-bit input (kernel.h). The second is small compared with e for a copy in Q4_0 and of similar size for one in
 * Q8_0; the count includes it.
 *
 * Any format that can be encoded serves. Two exist for copies alone (number/copy_blocks.c): SIGNS1, 1.25 bits a weight, as in
 * SparseInfer (arXiv 2411.12692, which counts equal signs and has neither scales nor a margin by rows), and LEVELS2, 2.25
 * bits. Their e is 0.6 and 0.35 of the row's norm, so they let more through than Q4_0 does (0.09), for fewer bytes. */
#ifndef ENGINE_COARSE_H
#define ENGINE_COARSE_H

#include "../base/pool.h"
#include "../kernel/kernel.h"

/* A zeroed record is empty. */
typedef struct coarse_copy {
    matrix rows;   /* [f][d] in fewer bits; owned */
    float *spread; /* [f]                         */
} coarse_copy;

/* Copies the matrix `first` into `format` and measures the error of each row. thing: names it in errors.
 * HEARTH_UNSUPPORTED: rows of d values are not whole blocks of the format. */
hearth_status coarse_create(coarse_copy *out, pool *threads, const matrix *first, number_format format,
                            const char *thing, hearth_error *error);
void coarse_free(coarse_copy *c);

/* Returns the bytes of the copy and its errors; 0 for an empty record. */
static inline size_t coarse_bytes(const coarse_copy *c)
{
    return matrix_bytes(&c->rows) + c->rows.rows * sizeof *c->spread;
}

/* Adds margin * r * spread[list ? list[i] : first + i] to score[i], i < n, which gives the scores that the selector
 * compares. */
void coarse_widen(const coarse_copy *c, const uint32_t *list, size_t first, size_t n, float margin, float r,
                  float *score);
/* Returns the root mean square of x [d]. */
float coarse_magnitude(const float *x, size_t d);

#endif
