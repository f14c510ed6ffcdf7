/* coarse.h - the coarse selector's copy: the first matrix of a network (gate, or up in plain ones) in fewer bits, and how
 * far each of its rows is off.
 *
 * Of an input x with root mean square r, a copied row's product is off by e . x, e the row minus its copy. Over directions
 * of x that has the standard deviation r * spread[i], spread[i] the norm of e. What the product plus `margin` such
 * deviations leaves below the value at which the neuron fires is taken for zero.
 *
 * No input is off by more than sqrt(d) deviations (Cauchy and Schwarz), so a margin a little above that loses nothing;
 * those in use are smaller, and what they lose is counted (learn/coarse.h). Two roundings are in no deviation: those of
 * float32 sums, and those of x to 8 bits where only one of the two formats, the copy's and the matrix's, reads such
 * (kernel.h). The second is small beside e for a copy in Q4_0 and like it in size for one in Q8_0; counting takes it in. */
#ifndef ENGINE_COARSE_H
#define ENGINE_COARSE_H

#include "../base/pool.h"
#include "../kernel/kernel.h"

/* Zeroed is empty. */
typedef struct coarse_copy {
    matrix rows;   /* [f][d] in fewer bits; owned */
    float *spread; /* [f]                         */
} coarse_copy;

/* HEARTH_UNSUPPORTED: rows of d values are not whole blocks of the format. */
hearth_status coarse_create(coarse_copy *out, pool *threads, const matrix *first, number_format format,
                            const char *thing, hearth_error *error);
void coarse_free(coarse_copy *c);

/* score[i] += margin * r * spread[list ? list[i] : first + i], i < n: scores as the selector compares them. */
void coarse_widen(const coarse_copy *c, const uint32_t *list, size_t first, size_t n, float margin, float r,
                  float *score);
/* Root mean square of x [d]. */
float coarse_magnitude(const float *x, size_t d);

#endif
