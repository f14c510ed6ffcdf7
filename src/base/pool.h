/* pool.h - a persistent pool of threads that deals work dynamically.
 *
 * Workers spin briefly for the next job, then sleep, so that the many short jobs of a token
 * follow each other within a microsecond and an idle program costs nothing. Threads are not
 * pinned: a busy neighbour costs its share and no more, because runs of items are taken from
 * a shared counter by whoever is free. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "error.h"

typedef struct pool pool;

/* Items [begin, end) of a job; worker in [0, pool_threads). */
typedef void pool_work(void *context, size_t begin, size_t end, unsigned worker);

/* threads includes the calling thread, which works along; at least 1. */
hearth_status pool_create(pool **out, unsigned threads, hearth_error *error);
void pool_destroy(pool *p);
unsigned pool_threads(const pool *p);

/* Deals [0, count) in runs that begin at multiples of `grain` and are at most that long;
 * returns when all are done. With one thread, or one run, it works on the calling thread
 * alone. One caller at a time per pool (a lock makes others wait); must not be nested. */
void pool_run(pool *p, size_t count, size_t grain, pool_work *work, void *context);

#endif
