/* wakeup.c - an eventfd beside the input. */
#include "wakeup.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int event = -1; /* belongs to the process, to its end; poll passes over what is negative */

void wakeup_prepare(void)
{
    if (event < 0)
        event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wakeup_raise(void)
{
    const uint64_t one = 1;
    int saved = errno; /* a handler's duty */
    ssize_t written = write(event, &one, sizeof one);
    (void)written; /* raised often enough already, or never prepared */
    errno = saved;
}

void wakeup_reset(void)
{
    uint64_t count;
    ssize_t got = read(event, &count, sizeof count);
    (void)got; /* was not raised */
}

bool wakeup_wait(int fd)
{
    struct pollfd both[] = {{.fd = fd, .events = POLLIN}, {.fd = event, .events = POLLIN}};
    if (poll(both, sizeof both / sizeof *both, -1) < 0)
        return false;
    if (!both[1].revents)
        return true;
    errno = EINTR;
    return false;
}
