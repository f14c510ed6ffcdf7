/* pool.c - persistent threads that take runs of items from a shared counter.
 *
 * A job is published by raising the ticket. Workers that see it in time enter through the gate;
 * the caller works along, shuts the gate when no runs are left, and waits only for those who
 * entered. A worker that sleeps or was preempted by a neighbour therefore never holds up a job
 * that the others finish without it. Dropped: a barrier of all threads, where the slowest to
 * wake decides.
 *
 * Everything is ordered by the atomics alone. Operations on which a sleeper and its waker must
 * agree (ticket against sleepers, gate against caller_sleeps) are sequentially consistent: each
 * side writes its own word, then reads the other's, and one of the two must see the other. */
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
    MOST_THREADS = 4096 /* far above any machine; keeps sizes and the gate's count harmless */
};

/* How long a thread spins before it sleeps. Between two jobs of a token lie a few microseconds
 * and waking a sleeper takes 5 to 50, so spinning for about as long as one wake-up costs at most
 * twice the best choice (the ski-rental argument), and an idle program sleeps at once to the eye. */
static const double spin_seconds = 50e-6;

/* How long a worker keeps its core before it offers it to others: less than the turn that a scheduler gives, so that
 * it is seldom taken away. */
static const double turn_seconds = 0.5e-3;

/* The gate: the ticket of the job in the upper half, then whether it takes workers, and how many
 * are inside. One word, so that entering and shutting cannot miss each other. */
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

/* What different threads write lies on lines of its own. */
struct pool {
    _Alignas(CACHE_LINE) atomic_size_t next_run;
    _Alignas(CACHE_LINE) _Atomic uint64_t gate;
    _Alignas(CACHE_LINE) _Atomic uint32_t ticket; /* raised by one for each job; a futex */
    _Atomic bool stops;
    job current; /* written while the gate is shut and nobody inside */
    _Alignas(CACHE_LINE) atomic_uint sleepers;
    _Alignas(CACHE_LINE) _Atomic uint32_t left; /* raised when the last one leaves a shut gate; a futex */
    _Atomic bool caller_sleeps;
    _Alignas(CACHE_LINE) pthread_mutex_t callers;
    unsigned thread_count;
    bool spins;
    struct worker *workers; /* [thread_count - 1] */
    unsigned started;
};

/* ---------------------------------------------------------------- waiting */

/* One step of spinning; false when the time is up. The clock is read now and then only. */
typedef struct spinner {
    double end;
    unsigned steps;
} spinner;

static bool spin(spinner *s, const pool *p)
{
    if (!p->spins)
        return false;
    relax();
    if (s->steps++ % 32 != 0)
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

/* Shuts the gate and waits until those inside have left. */
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

/* False where runs are left: it is time to stop (0: never). */
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

/* False where the job of this ticket takes nobody any more. */
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

static void leave(pool *p)
{
    uint64_t before = atomic_fetch_sub(&p->gate, 1);
    if ((before & (gate_open | gate_inside)) != 1)
        return; /* the gate is open, or others are inside */
    atomic_fetch_add(&p->left, 1);
    if (atomic_load(&p->caller_sleeps))
        futex_wake(&p->left, 1);
}

/* Outside the gate a worker holds nobody up: where a neighbour wants its core, better now than in the midst of a
 * run, for which all others would wait until the neighbour's turn is over. Without a neighbour it costs a
 * microsecond. */
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

/* Raises the ticket and wakes as many sleepers as can be of use. */
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

/* Cores this process may run on. */
static unsigned available_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more than a thousand CPUs, or a strange sandbox: sleeping is always right */
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
    /* More threads than cores: whoever spins keeps the one it waits for from running. */
    p->spins = threads <= available_cores();
    hearth_status status = HEARTH_OK;
    p->workers = mem_new_array(threads, sizeof *p->workers);
    if (!p->workers)
        status = fail_memory(error, "thread pool", threads * sizeof *p->workers);
    if (status == HEARTH_OK)
        status = start_workers(p, error);
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
