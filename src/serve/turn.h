/* turn.h - who computes, where several models are served: one driver at a time, each in the order in which it asked.
 *
 * Every model has threads of its own, as many as there are cores. Two that stepped at once would take the cores from each
 * other in the midst of a layer, and both would be slower than one after the other. */
#ifndef SERVE_TURN_H
#define SERVE_TURN_H

#include <pthread.h>
#include <stdint.h>

/* A lock that is fair: an ordinary one goes mostly to the thread that has just let go of it. */
typedef struct turn {
    pthread_mutex_t lock;
    pthread_cond_t passed;
    uint64_t next, served; /* tickets: the next to be given away, and the one whose turn it is */
} turn;

void turn_init(turn *t);
/* No thread waits for it or has it. */
void turn_destroy(turn *t);
/* Waits until all that asked before have had their turn. */
void turn_take(turn *t);
/* Ends the turn of the thread that took it. */
void turn_pass(turn *t);

#endif
