/* retry.h - how often to try again, and how long to wait before it. */
#ifndef PULL_RETRY_H
#define PULL_RETRY_H

#include "../base/error.h"

#include <stdint.h>

typedef struct retry {
    uint32_t used; /* tries in a row that failed */
} retry;

/* Returns whether a status of HTTP says that the same request may succeed later. */
bool retry_is_for_status(long status);
/* Returns the seconds before another try: delay, doubled for each in a row, at most a minute; or what the server asks for
 * (0: nothing) where that is longer. Negative: that is more than ten minutes, for which nobody should wait unasked. */
double retry_seconds(const retry *r, double delay_seconds, uint32_t asked_seconds);
/* Waits; false: go_on (NULL: nobody) said so, asked ten times a second. */
bool retry_wait(double seconds, bool (*go_on)(void *user), void *user);

#endif
