/* wait.h - ways in which a thread waits for another: by spinning, by yielding its core, or asleep on a futex. */
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

/* Sleeps while *word equals `expected`; may return early. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

/* Wakes at most `count` threads that sleep on *word. */
static inline void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Tells the core that this thread is spinning. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The state of a wait without a time limit; zeroed at the start. */
typedef struct waiter {
    double begin, now;
    unsigned turns;
} waiter;

/* Waits a moment. In the first `eager_seconds` that is a pause instruction; later the thread yields its core, since
 * the thread it waits for may need it. Returns the seconds waited so far; while spinning the clock is read only at
 * every 32nd turn. */
static inline double wait_once(waiter *w, double eager_seconds)
{
    if (w->turns++ % 32 == 0)
        w->now = clock_seconds();
    if (w->turns == 1)
        w->begin = w->now;
    if (w->now - w->begin < eager_seconds) {
        relax();
        return w->now - w->begin;
    }
    sched_yield();
    w->now = clock_seconds();
    return w->now - w->begin;
}

/* Returns how long the next of a series of similar waits should spin, at most `most` seconds. Doubles the time if the
 * last wait ended while spinning. Halves it otherwise: the spinning was wasted, and the other thread may even have
 * needed this core. */
static inline double wait_learn(double eager_seconds, double waited_seconds, double most)
{
    static const double least = 5e-6; /* about the cost of yielding the core and getting it back */
    if (waited_seconds < eager_seconds)
        return 2 * eager_seconds < most ? 2 * eager_seconds : most;
    return eager_seconds / 2 > least ? eager_seconds / 2 : least;
}

#endif
