/* storms.h - how long the storms of tests are: HEARTH_STORM=N in the environment makes them N times as long. */
#ifndef TESTS_STORMS_H
#define TESTS_STORMS_H

#include <stddef.h>
#include <stdlib.h>

/* Sanitizers take many times as long for a step, and see what it does wrong in any storm that meets what
 * tests ask of one. */
#if defined __SANITIZE_THREAD__
#define STORM_PART 10
#elif defined __SANITIZE_ADDRESS__
#define STORM_PART 3
#else
#define STORM_PART 1
#endif

static inline size_t storm_length(size_t usual)
{
    const char *times = getenv("HEARTH_STORM");
    return times ? usual * strtoul(times, NULL, 10) : usual / STORM_PART;
}

#endif
