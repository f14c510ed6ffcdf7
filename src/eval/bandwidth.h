/* bandwidth.h - measures how fast this machine reads main memory, the limit that speeds are compared with.
 *
 * Reads the way the engine does: with its thread pool and the kernel table's plain read function. */
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

#endif
