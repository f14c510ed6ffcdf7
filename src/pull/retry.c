/* retry.c - exponential backoff. */
#include "retry.h"

#include "../base/clock.h"

#include <time.h>

#define LONGEST_SECONDS      60.0
#define MOST_ASKED_SECONDS   600u
#define ASK_INTERVAL_SECONDS 0.1

bool retry_is_for_status(long status)
{
    static const long statuses[] = {408, 429, 500, 502, 503, 504};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i] == status)
            return true;
    return status > 505 && status < 600; /* those of proxies in front of servers */
}

double retry_seconds(const retry *r, double delay_seconds, uint32_t asked_seconds)
{
    double seconds = delay_seconds;
    if (asked_seconds > MOST_ASKED_SECONDS)
        return -1;
    for (uint32_t i = 0; i < r->used && seconds < LONGEST_SECONDS; i++)
        seconds *= 2;
    if (seconds > LONGEST_SECONDS)
        seconds = LONGEST_SECONDS;
    return seconds > asked_seconds ? seconds : asked_seconds;
}

bool retry_wait(double seconds, bool (*go_on)(void *user), void *user)
{
    double end = clock_seconds() + seconds, left = seconds;
    while (left > 0) {
        double pause = left < ASK_INTERVAL_SECONDS ? left : ASK_INTERVAL_SECONDS;
        struct timespec request = {0, (long)(pause * 1e9)};
        (void)nanosleep(&request, NULL); /* a signal ends it early: go_on knows */
        if (go_on && !go_on(user))
            return false;
        left = end - clock_seconds();
    }
    return true;
}
