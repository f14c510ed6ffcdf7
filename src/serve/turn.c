/* turn.c - see turn.h: a ticket lock whose waiters sleep, since a step takes milliseconds. */
#include "turn.h"

void turn_init(turn *t)
{
    *t = (turn){0};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->passed, NULL);
}

void turn_destroy(turn *t)
{
    pthread_cond_destroy(&t->passed);
    pthread_mutex_destroy(&t->lock);
}

void turn_take(turn *t)
{
    pthread_mutex_lock(&t->lock);
    uint64_t own = t->next++;
    while (t->served != own)
        pthread_cond_wait(&t->passed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Wakes all, as each waits for a ticket of its own; they are as few as the models. */
void turn_pass(turn *t)
{
    pthread_mutex_lock(&t->lock);
    t->served++;
    pthread_cond_broadcast(&t->passed);
    pthread_mutex_unlock(&t->lock);
}
