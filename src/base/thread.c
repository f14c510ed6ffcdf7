/* thread.c - starts threads with the right signals blocked. */
#include "thread.h"

#include <signal.h>
#include <stddef.h>

bool thread_start(pthread_t *out, void *(*work)(void *), void *argument)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    /* A new thread inherits the signal mask of its creator. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    bool started = pthread_create(out, NULL, work, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
