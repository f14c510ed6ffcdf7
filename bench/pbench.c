/* pbench.c - what the pool itself costs: pbench [THREADS]. Two jobs without work: "meet", one run
 * for each thread, which ends when all of them have come (there and back between the cores), and
 * "deal", many empty runs. Right after another job, and after a pause in which the workers fall
 * asleep. Prints a table of comma-separated values; the best of several repeats. */
#include "../src/base/clock.h"
#include "../src/base/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 9, MANY_RUNS = 64, PAUSE_US = 300 }; /* a pause well beyond the pool's spinning */

typedef struct job {
    pool *p;
    pool_work *work;
    size_t runs;
    atomic_uint came;
} job;

static void deal(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)context, (void)begin, (void)end, (void)worker;
}

static void meet(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)begin, (void)end, (void)worker;
    job *j = context;
    atomic_fetch_add(&j->came, 1);
    while (atomic_load(&j->came) < j->runs)
        ;
}

static double time_one(job *j)
{
    atomic_store(&j->came, 0);
    double begin = clock_seconds();
    pool_run(j->p, j->runs, 1, j->work, j);
    return clock_seconds() - begin;
}

/* Microseconds of one job. */
static double time_jobs(job *j, unsigned jobs, bool pauses)
{
    double best = 0.0;
    for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
        double sum = 0.0;
        for (unsigned i = 0; i < jobs; i++) {
            if (pauses)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
            sum += time_one(j);
        }
        double time_us = 1e6 * sum / jobs;
        if (repeat == 0 || time_us < best)
            best = time_us;
    }
    return best;
}

int main(int count, char **arguments)
{
    unsigned threads = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 2;
    hearth_error error;
    pool *p;
    if (pool_create(&p, threads, &error) != HEARTH_OK) {
        fprintf(stderr, "pbench: %s\n", error.text);
        return 1;
    }
    job meeting = {.p = p, .work = meet, .runs = threads}, dealing = {.p = p, .work = deal, .runs = MANY_RUNS};
    printf("threads,job,runs,after,microseconds\n");
    printf("%u,meet,%zu,a job,%.2f\n", threads, meeting.runs, time_jobs(&meeting, 20000, false));
    printf("%u,meet,%zu,a pause,%.2f\n", threads, meeting.runs, time_jobs(&meeting, 200, true));
    printf("%u,deal,%zu,a job,%.2f\n", threads, dealing.runs, time_jobs(&dealing, 20000, false));
    pool_destroy(p);
    return 0;
}
