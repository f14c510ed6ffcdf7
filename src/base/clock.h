/* clock.h - monotonic time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Seconds since some fixed moment. */
double clock_seconds(void);

#endif
