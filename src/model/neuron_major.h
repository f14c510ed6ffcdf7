/* neuron_major.h - transposes down [d][f] to down_t [f][d]: a row per neuron, so that a skipped neuron costs nothing.
 *
 * The values of a float matrix do not change. The blocks of a block format run along f, those of down_t along d, so
 * its values have to be rounded once more: to Q8_0, whose error is small compared with that of the smaller
 * formats. Only a matrix of -s, 0 and s, as BitNet's are, stays what it is: in TQ2_0. */
#ifndef MODEL_NEURON_MAJOR_H
#define MODEL_NEURON_MAJOR_H

#include "../base/pool.h"
#include "model.h"

/* In all of them `experts` is the number of matrices [d][f] whose rows lie one after another in `down`, and whose
 * transposes lie one after another in down_t; 1: down is one matrix. */

/* Returns the format of down_t: that of down where no value changes, else Q8_0. */
number_format neuron_major_format(const matrix *down, uint32_t experts);
/* Returns whether values are rounded once more on the way from down to a format; known: what neuron_major_format says of down. */
bool neuron_major_rounds(number_format down, number_format known, number_format to);

/* Sets rows, columns, row_bytes and format of *out to those of down_t; data is NULL. HEARTH_UNSUPPORTED: down has a
 * block format and d is not a multiple of 32. path and name: of down, for the error text. */
hearth_status neuron_major_shape(matrix *out, const matrix *down, uint32_t experts, const char *path, const char *name,
                                 hearth_error *error);

/* Transposes down into rows [f][row_bytes] on all threads. shape: from neuron_major_shape. */
void neuron_major_transpose(const kernels *k, pool *threads, const matrix *down, uint32_t experts, const matrix *shape,
                            void *rows);

/* Transposes down into rows of any format, for files, where time matters less: decodes, transposes in float32, and
 * encodes as shape says. Needs the memory of one stripe per thread in addition to `rows`. */
hearth_status neuron_major_encode(pool *threads, const matrix *down, uint32_t experts, const matrix *shape, void *rows,
                                  hearth_error *error);

/* Computes the relative rounding error: |down_t - down| / |down| over all values; 0 where all of down is zero. */
hearth_status neuron_major_distance(double *out, pool *threads, const matrix *down, uint32_t experts,
                                    const matrix *down_t, hearth_error *error);

#endif
