/* thread.h - threads of the library's own. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that takes no signals, which are for the program's own threads, except the faults it causes itself:
 * blocked, those would kill the process past every handler. false: the system gives no thread. */
bool thread_start(pthread_t *out, void *(*work)(void *), void *argument);

#endif
