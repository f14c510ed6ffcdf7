/* thread.h - starts the library's threads. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that blocks all signals, so that the program's own threads get them. Faults that the thread itself
 * causes (SIGBUS, SIGSEGV, SIGFPE, SIGILL) stay unblocked: a blocked fault kills the process without calling its
 * handler. false: the system cannot create a thread. */
bool thread_start(pthread_t *out, void *(*work)(void *), void *argument);

#endif
