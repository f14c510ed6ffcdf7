/* clock.h - monotonic time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Returns the seconds since an arbitrary fixed moment; never goes back. */
double clock_seconds(void);

#endif
