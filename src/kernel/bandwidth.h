/* bandwidth.h - measures how fast this machine reads main memory, the limit that speeds are compared with.
 *
 * Reads the way the engine does: with its thread pool, and the kernel table's plain read function or its product with
 * listed rows. */
#ifndef EVAL_BANDWIDTH_H
#define EVAL_BANDWIDTH_H

#include "../base/error.h"

typedef struct bandwidth bandwidth;

/* Allocates a buffer several times the size of the caches. level: name of a kernel level; NULL: the best one that the
 * CPU supports. */
hearth_status bandwidth_create(bandwidth **out, unsigned threads, const char *level, hearth_error *error);
void bandwidth_destroy(bandwidth *b);

/* Returns bytes per second: the best of a few passes. Takes about a tenth of a second in all. */
double bandwidth_measure(bandwidth *b);

/* The longest row of bandwidth_measure_rows. */
#define BANDWIDTH_ROW_BYTES 65536

/* Measures bytes per second of rows scattered over the buffer, a tenth of them at a time in ascending order: how the engine
 * reads the neurons that fire, with the product that it uses. row_bytes: a multiple of 64. Also takes about a tenth of a
 * second. HEARTH_NO_MEMORY. */
hearth_status bandwidth_measure_rows(bandwidth *b, size_t row_bytes, double *out, hearth_error *error);

#endif
