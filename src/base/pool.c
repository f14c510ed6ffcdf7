/* pool.c - persistent threads that take runs of items from a shared counter.
 *
 * The caller publishes a job by incrementing the ticket. Workers that see it in time enter through
 * the gate. The caller works too, closes the gate when no runs are left, and waits only for the
 * workers that entered. So a worker that sleeps or was preempted never delays a job that the others
 * finish without it. Rejected: a barrier of all threads, where the last one to wake determines the
 * time.
 *
 * All ordering comes from the atomics. Where a sleeper and its waker must agree (ticket with
 * sleepers, gate with caller_sleeps) the operations are sequentially consistent: each side writes
 * its own word, then reads the other's, so at least one of the two sees the other's write. */
#include "pool.h"

#include "clock.h"
#include "memory.h"
#include "thread.h"
#include "wait.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CACHE_LINE = 64,
    MOST_THREADS = 4096 /* more than any machine has; keeps sizes and the gate's count from overflowing */
};

/* How long a thread spins before it sleeps. Two jobs of a token are a few microseconds apart, and
 * waking a sleeper takes 5 to 50 us. Spinning for about the time of one wake-up costs at most twice
 * the best possible choice (the ski-rental argument), and an idle program soon sleeps. */
static const double spin_seconds = 50e-6;

/* How long a worker keeps its core before it yields: less than a time slice of the scheduler, so that it is seldom
 * preempted. */
static const double turn_seconds = 0.5e-3;

/* The gate: the job's ticket in the upper 32 bits, then one bit that says whether workers may enter,
 * then the number of workers inside. They share one word, so that entering and closing are atomic. */
static const uint64_t gate_open = (uint64_t)1 << 31;
static const uint64_t gate_inside = ((uint64_t)1 << 31) - 1;

typedef struct job {
    size_t count, grain;
    size_t runs; /* count / grain, rounded up */
    pool_work *work;
    void *context;
} job;

struct worker {
    pthread_t thread;
    pool *owner;
    unsigned index;
};

/* Fields that different threads write lie on different cache lines. */
struct pool {
    _Alignas(CACHE_LINE) atomic_size_t next_run;
    _Alignas(CACHE_LINE) _Atomic uint64_t gate;
    _Alignas(CACHE_LINE) _Atomic uint32_t ticket; /* incremented for each job; a futex */
    _Atomic bool stops;
    job current; /* written only while the gate is closed and no worker is inside */
    _Alignas(CACHE_LINE) atomic_uint sleepers;
    _Alignas(CACHE_LINE) _Atomic uint32_t left; /* incremented when the last worker leaves a closed gate; a futex */
    _Atomic bool caller_sleeps;
    _Alignas(CACHE_LINE) pthread_mutex_t callers;
    unsigned thread_count;
    bool spins;             /* false: threads sleep at once */
    struct worker *workers; /* [thread_count - 1] */
    unsigned started;
};

/* ---------------------------------------------------------------- waiting */

typedef struct spinner {
    double end;
    unsigned turns;
} spinner;

/* Spins once; false when the time is up. The clock is read only at every 32nd turn. */
static bool spin(spinner *s, const pool *p)
{
    if (!p->spins)
        return false;
    relax();
    if (s->turns++ % 32 != 0)
        return true;
    double now = clock_seconds();
    if (s->end == 0)
        s->end = now + spin_seconds;
    return now < s->end;
}

/* Waits until the ticket is no longer `seen`; returns the new one. */
static uint32_t wait_for_ticket(pool *p, uint32_t seen)
{
    uint32_t ticket;
    spinner s = {0};
    while ((ticket = atomic_load_explicit(&p->ticket, memory_order_acquire)) == seen) {
        if (spin(&s, p))
            continue;
        atomic_fetch_add(&p->sleepers, 1);
        if (atomic_load(&p->ticket) == seen)
            futex_wait(&p->ticket, seen);
        atomic_fetch_sub(&p->sleepers, 1);
    }
    return ticket;
}

/* Closes the gate and waits until all workers inside have left. */
static void wait_for_workers(pool *p)
{
    atomic_fetch_and(&p->gate, ~gate_open);
    spinner s = {0};
    while ((atomic_load(&p->gate) & gate_inside) != 0) {
        if (spin(&s, p))
            continue;
        uint32_t left = atomic_load(&p->left);
        atomic_store(&p->caller_sleeps, true);
        if ((atomic_load(&p->gate) & gate_inside) != 0)
            futex_wait(&p->left, left);
        atomic_store(&p->caller_sleeps, false);
    }
}

/* ---------------------------------------------------------------- working */

static void do_run(const job *j, size_t run, unsigned worker)
{
    size_t begin = run * j->grain;
    size_t size = j->count - begin < j->grain ? j->count - begin : j->grain;
    j->work(j->context, begin, begin + size, worker);
}

/* Works on runs until none are left (true) or the clock is past `stop` (false; 0: no limit). */
static bool take_runs(pool *p, unsigned worker, double stop)
{
    const job *j = &p->current;
    size_t run;
    while ((run = atomic_fetch_add_explicit(&p->next_run, 1, memory_order_relaxed)) < j->runs) {
        do_run(j, run, worker);
        if (stop > 0 && clock_seconds() > stop)
            return false;
    }
    return true;
}

/* Enters the gate; false if it is closed for the job of this ticket. */
static bool enter(pool *p, uint32_t ticket)
{
    uint64_t gate = atomic_load_explicit(&p->gate, memory_order_relaxed);
    while (gate >> 32 == ticket && (gate & gate_open) != 0) {
        if (atomic_compare_exchange_weak_explicit(&p->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

/* Leaves the gate; the last worker to leave a closed gate wakes the caller. */
static void leave(pool *p)
{
    uint64_t before = atomic_fetch_sub(&p->gate, 1);
    if ((before & (gate_open | gate_inside)) != 1)
        return; /* the gate is open, or others are inside */
    atomic_fetch_add(&p->left, 1);
    if (atomic_load(&p->caller_sleeps))
        futex_wake(&p->left, 1);
}

/* Yields the core if the worker's turn is over. Outside the gate this delays no job. If the scheduler preempted the
 * worker in the middle of a run instead, all others would wait for that run. If no other program wants the core, this
 * costs a microsecond. */
static void give_way(double *turn_ends)
{
    if (clock_seconds() < *turn_ends)
        return;
    sched_yield();
    *turn_ends = clock_seconds() + turn_seconds;
}

static void *worker_main(void *argument)
{
    struct worker *self = argument;
    pool *p = self->owner;
    uint32_t seen = 0;
    double turn_ends = clock_seconds() + turn_seconds;
    for (;;) {
        seen = wait_for_ticket(p, seen);
        if (atomic_load(&p->stops))
            return NULL;
        for (bool done = false; !done && enter(p, seen);) {
            done = take_runs(p, self->index, turn_ends);
            leave(p);
            give_way(&turn_ends);
        }
    }
}

/* Opens the gate for a new ticket and wakes at most `helpers` sleepers. */
static void publish(pool *p, size_t helpers)
{
    uint32_t ticket = atomic_load_explicit(&p->ticket, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->gate, (uint64_t)ticket << 32 | gate_open, memory_order_release);
    atomic_store(&p->ticket, ticket);
    if (atomic_load(&p->sleepers) > 0)
        futex_wake(&p->ticket, helpers < INT_MAX ? (int)helpers : INT_MAX);
}

void pool_run(pool *p, size_t count, size_t grain, pool_work *work, void *context)
{
    if (count == 0)
        return;
    if (grain == 0)
        grain = 1;
    job j = {count, grain, count / grain + (count % grain != 0), work, context};
    pthread_mutex_lock(&p->callers);
    if (p->thread_count == 1 || j.runs == 1) {
        for (size_t run = 0; run < j.runs; run++)
            do_run(&j, run, 0);
    } else {
        p->current = j;
        atomic_store_explicit(&p->next_run, 0, memory_order_relaxed);
        publish(p, j.runs - 1);
        take_runs(p, 0, 0);
        wait_for_workers(p);
    }
    pthread_mutex_unlock(&p->callers);
}

/* ------------------------------------------------------- beginning and end */

/* Returns the number of cores that this process may run on. */
static unsigned available_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more than 1024 CPUs, or a sandbox: then threads sleep without spinning, which is always correct */
    return (unsigned)CPU_COUNT(&set);
}

static hearth_status start_workers(pool *p, hearth_error *error)
{
    bool started = true;
    for (unsigned i = 0; i + 1 < p->thread_count && started; i++) {
        struct worker *worker = &p->workers[i];
        *worker = (struct worker){.owner = p, .index = i + 1};
        started = thread_start(&worker->thread, worker_main, worker);
        if (started)
            p->started++;
    }
    if (!started)
        return fail(error, HEARTH_NO_MEMORY, "thread pool: the system gives only %u of %u threads", p->started + 1,
                    p->thread_count);
    return HEARTH_OK;
}

hearth_status pool_create(pool **out, unsigned threads, hearth_error *error)
{
    if (threads < 1 || threads > MOST_THREADS)
        return fail(error, HEARTH_INVALID, "thread pool: %u threads: expected 1 to %d", threads, MOST_THREADS);
    pool *p = mem_new(sizeof *p);
    if (!p)
        return fail_memory(error, "thread pool", sizeof *p);
    pthread_mutex_init(&p->callers, NULL);
    p->thread_count = threads;
    /* With more threads than cores a spinning thread could keep the thread it waits for from running. */
    p->spins = threads <= available_cores();
    p->workers = mem_new_array(threads, sizeof *p->workers);
    hearth_status status =
        p->workers ? start_workers(p, error) : fail_memory(error, "thread pool", threads * sizeof *p->workers);
    if (status != HEARTH_OK) {
        pool_destroy(p);
        return status;
    }
    *out = p;
    return HEARTH_OK;
}

void pool_destroy(pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stops, true);
    atomic_fetch_add(&p->ticket, 1);
    futex_wake(&p->ticket, INT_MAX);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->callers);
    mem_free(p->workers);
    mem_free(p);
}

unsigned pool_threads(const pool *p)
{
    return p->thread_count;
}
