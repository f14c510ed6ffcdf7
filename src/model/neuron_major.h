/* neuron_major.h - down [d][f] as down_t [f][d]: a row per neuron, so that a neuron that is skipped costs nothing.
 *
 * Of a float matrix every value stays what it is. The blocks of a block format run along f, those of down_t along d,
 * so its values have to be rounded once more: to Q8_0, whose error is small beside that of the smaller formats. */
#ifndef MODEL_NEURON_MAJOR_H
#define MODEL_NEURON_MAJOR_H

#include "../base/pool.h"
#include "model.h"

/* The format of down_t made from down: the same for floats, else Q8_0. */
number_format neuron_major_format(number_format down);

/* The shape of down_t: rows, columns, row_bytes and format of *out; data is NULL.
 * HEARTH_UNSUPPORTED: a block format whose d is not a multiple of 32. */
hearth_status neuron_major_shape(matrix *out, const matrix *down, const char *path, const char *name,
                                 hearth_error *error);

/* Fills rows [f][row_bytes] of the shape above, on all threads. */
void neuron_major_transpose(const kernels *k, pool *threads, const matrix *down, const matrix *shape, void *rows);

/* For files, where the format may be any and time matters less: decoded, transposed in float32, and encoded as shape
 * says. The memory of a stripe per thread on top of `rows`. */
hearth_status neuron_major_encode(pool *threads, const matrix *down, const matrix *shape, void *rows,
                                  hearth_error *error);

/* What rounding did: |down_t - down| / |down| over all values; 0 where down is zero throughout. */
hearth_status neuron_major_distance(double *out, pool *threads, const matrix *down, const matrix *down_t,
                                    hearth_error *error);

#endif
