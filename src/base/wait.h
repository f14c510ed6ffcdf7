/* wait.h - how a thread waits for another: politely spinning, or asleep on a word of memory (futex). */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include "clock.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word is `expected`; may return early. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Tells the core that this thread spins. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A wait without an end of its own; zeroed at its beginning. */
typedef struct waiter {
    double begin, now;
    unsigned steps;
} waiter;

/* One step of it: a pause in the first `eager_seconds`, for what comes at once; afterwards it offers its core to
 * others, since what it waits for may need it. Returns for how long it has waited, in seconds; the clock is read now
 * and then only. */
static inline double wait_step(waiter *w, double eager_seconds)
{
    if (w->steps++ % 32 == 0)
        w->now = clock_seconds();
    if (w->steps == 1)
        w->begin = w->now;
    if (w->now - w->begin < eager_seconds) {
        relax();
        return w->now - w->begin;
    }
    sched_yield();
    w->now = clock_seconds();
    return w->now - w->begin;
}

/* For waits that come again and again: how eager the next one should be, of at most `most` seconds. Eagerness pays
 * where it sees the end; where it does not, the other side may even be waiting for this core. */
static inline double wait_learn(double eager_seconds, double waited_seconds, double most)
{
    static const double least = 5e-6; /* about what it costs to give the core away and get it back */
    if (waited_seconds < eager_seconds)
        return 2 * eager_seconds < most ? 2 * eager_seconds : most;
    return eager_seconds / 2 > least ? eager_seconds / 2 : least;
}

#endif
