/* wakeup.c - waits with poll() for the input and an eventfd. */
#include "wakeup.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int event = -1; /* stays open until the process ends; poll() ignores negative descriptors */

void wakeup_prepare(void)
{
    if (event < 0)
        event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wakeup_raise(void)
{
    const uint64_t one = 1;
    int saved = errno; /* a signal handler must not change errno */
    ssize_t written = write(event, &one, sizeof one);
    (void)written; /* a failure means: the counter is full, so the event is raised; or it was never prepared */
    errno = saved;
}

void wakeup_reset(void)
{
    uint64_t count;
    ssize_t got = read(event, &count, sizeof count);
    (void)got; /* a failure means: the event was not raised */
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
