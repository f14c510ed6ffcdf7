/* pool.h - a persistent thread pool with dynamic scheduling.
 *
 * Workers spin briefly for the next job, then sleep. So the many short jobs of a token follow each
 * other within a microsecond, and an idle program uses no CPU time. Threads are not pinned. Free
 * threads take runs of items from a shared counter, so another program on one core slows the pool
 * only by that core's share. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "error.h"

typedef struct pool pool;

/* Processes items [begin, end) of a job; worker in [0, pool_threads). */
typedef void pool_work(void *context, size_t begin, size_t end, unsigned worker);

/* Creates a pool. threads (1 to 4096) includes the calling thread, which works too. HEARTH_INVALID: another number.
 * HEARTH_NO_MEMORY: no memory, or the system refuses a thread. */
hearth_status pool_create(pool **out, unsigned threads, hearth_error *error);
void pool_destroy(pool *p);
unsigned pool_threads(const pool *p);

/* Distributes [0, count) in runs that begin at multiples of `grain` (0 counts as 1) and are at most that long;
 * returns when all are done. With one thread, or one run, all work is done on the calling thread.
 * One caller at a time per pool (a lock makes others wait); must not be nested. */
void pool_run(pool *p, size_t count, size_t grain, pool_work *work, void *context);

#endif
