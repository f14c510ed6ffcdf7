/* bandwidth.h - how fast this machine reads main memory, the limit that speeds are shares of.
 *
 * Measured with the engine's own way of reading: its pool, and the kernel table's plain read. */
#ifndef EVAL_BANDWIDTH_H
#define EVAL_BANDWIDTH_H

#include "../base/error.h"

typedef struct bandwidth bandwidth;

/* Takes a buffer several times the size of the caches. level: name of a kernel level, NULL: the best present. */
hearth_status bandwidth_create(bandwidth **out, unsigned threads, const char *level, hearth_error *error);
void bandwidth_destroy(bandwidth *b);

/* Bytes per second: the best of a few passes, about a tenth of a second in all. */
double bandwidth_measure(bandwidth *b);

#endif
