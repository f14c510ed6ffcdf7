/* ticket_lock.c - see ticket_lock.h. Waiters sleep, since a step takes milliseconds. */
#include "ticket_lock.h"

void ticket_lock_init(ticket_lock *l)
{
    *l = (ticket_lock){0};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->released, NULL);
}

void ticket_lock_destroy(ticket_lock *l)
{
    pthread_cond_destroy(&l->released);
    pthread_mutex_destroy(&l->lock);
}

void ticket_lock_take(ticket_lock *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t own = l->next++;
    while (l->now != own)
        pthread_cond_wait(&l->released, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* Wakes all, as each waits for a ticket of its own; they are as few as the models. */
void ticket_lock_release(ticket_lock *l)
{
    pthread_mutex_lock(&l->lock);
    l->now++;
    pthread_cond_broadcast(&l->released);
    pthread_mutex_unlock(&l->lock);
}
