/* mailbox.h - requests on their way to the thread that computes, and how many of them there may be.
 *
 * Any thread puts letters in, one takes them. A letter weighs as much as it has answers (job_places); the weight counts
 * against the bound from when it is put until mailbox_done, so that it bounds what is waiting and computed together. */
#ifndef SERVE_MAILBOX_H
#define SERVE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* The first member of what is sent. */
typedef struct letter {
    struct letter *next;
} letter;

typedef struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    letter *first, **last;
    size_t weight, most;
    bool is_poked, is_closed;
} mailbox;

typedef enum mailbox_result { MAILBOX_TAKEN, MAILBOX_FULL, MAILBOX_CLOSED } mailbox_result;

/* most: the greatest weight of letters that were put and are not done. */
void mailbox_init(mailbox *m, size_t most);
/* The box is empty then, or its letters are somebody else's. */
void mailbox_destroy(mailbox *m);
/* Adds a letter, which belongs to who takes it; if it is not taken, to the caller as before. */
mailbox_result mailbox_put(mailbox *m, letter *l, size_t weight);
/* Takes all letters, in order; NULL: none. waits: until there is one, or the box is poked or closed. */
letter *mailbox_take(mailbox *m, bool waits);
/* Ends the present wait, or the next one. */
void mailbox_poke(mailbox *m);
/* So much of what was put is done. */
void mailbox_done(mailbox *m, size_t weight);
/* Takes no letters any more, and ends all waits. */
void mailbox_close(mailbox *m);
/* Returns the weight that is neither done nor refused. */
size_t mailbox_weight(mailbox *m);

#endif
