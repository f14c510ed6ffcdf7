/* ticket_lock.h - a fair lock: threads get it in the order in which they asked. An ordinary one goes mostly to the thread
 * that has just let go of it.
 *
 * Drivers hold it for each step where several models are served. Every model has threads of its own, as many as there are
 * cores; two that stepped at once would take the cores from each other in the midst of a layer. */
#ifndef SERVE_TICKET_LOCK_H
#define SERVE_TICKET_LOCK_H

#include <pthread.h>
#include <stdint.h>

typedef struct ticket_lock {
    pthread_mutex_t lock;
    pthread_cond_t released;
    uint64_t next, now; /* tickets: the next to be given away, and that of the thread which may go on */
} ticket_lock;

void ticket_lock_init(ticket_lock *l);
/* No thread waits for it or has it. */
void ticket_lock_destroy(ticket_lock *l);
/* Waits until all that asked before have had it. */
void ticket_lock_take(ticket_lock *l);
/* Called by the thread that has it. */
void ticket_lock_release(ticket_lock *l);

#endif
