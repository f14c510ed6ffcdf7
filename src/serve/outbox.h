/* outbox.h - what happened to a request, on its way from the thread that computes to the one that speaks HTTP.
 *
 * One thread puts events in, another takes them out. The box is bounded: a client that does not read must not take memory
 * without end, so beyond the bound the box is full for good, and whoever puts gives the request up. Who takes may rest
 * until there is something; the rest and the waking happen under the box's lock, so that no event is missed. */
#ifndef SERVE_OUTBOX_H
#define SERVE_OUTBOX_H

#include "../base/text.h"

#include <pthread.h>

/* A token and how likely it was. */
typedef struct candidate {
    int32_t token;
    double log_probability;
} candidate;

typedef enum event_kind {
    EVENT_PROMPT, /* a token of the prompt, with its probability; NAN: of the first      */
    EVENT_TOKEN,  /* a token of the answer; -1: held back text                           */
    EVENT_BEAT,   /* nothing has happened for a while, but it is being worked on         */
    EVENT_END     /* of a choice, its last event                                         */
} event_kind;

/* What became of a choice. */
typedef struct ending {
    hearth_stop stop;
    hearth_status status;
    char error[256];  /* "" without one */
    const char *code; /* of what the server did to it: "too_slow", "shutting_down"; NULL: nothing */
    size_t prompt_tokens, reused_tokens, answer_tokens;
} ending;

typedef struct event {
    struct event *next;
    event_kind kind;
    bool is_fixed; /* part of something else: event_free leaves it alone */
    uint32_t choice;
    candidate token; /* log_probability: only where it was asked for; else 0 */
    size_t candidate_count;
    candidate *candidates; /* [candidate_count] the likeliest at this place, in order */
    const char *text;      /* [size] what the token completed                         */
    size_t size;
    const ending *ending; /* of EVENT_END */
} event;

/* Returns a new event with room for so many candidates and a copy of the text; NULL: no memory. */
event *event_new(event_kind kind, uint32_t choice, int32_t token, span text, size_t candidates);
/* Frees an event and those that follow it; NULL: none. */
void event_free(event *e);

/* How who takes waits: `rest` begins it, `wake` ends it, from the other thread. */
typedef struct waiter {
    void (*rest)(void *user);
    void (*wake)(void *user);
    void *user;
} waiter;

typedef struct outbox {
    pthread_mutex_t lock;
    event *first, **last;
    size_t size_bytes, most_bytes;
    size_t enough; /* bytes at which the waiter is woken */
    waiter waiter;
    bool waits, is_full, is_closed;
} outbox;

void outbox_init(outbox *o, size_t most_bytes);
void outbox_destroy(outbox *o);
/* Adds an event, which then belongs to the box. false: the box is full or closed; the event was freed. Ends of choices are taken by
 * a full one, too. */
bool outbox_put(outbox *o, event *e);
/* Says that nothing more will come. */
void outbox_close(outbox *o);
/* Takes all events, in order; NULL: none. *ended: nothing more will come after these. */
event *outbox_take(outbox *o, bool *ended);
/* Calls w->rest, and w->wake once there are events of `enough` bytes or the box is closed. false, without a call: there
 * are already, or it is. */
bool outbox_rest(outbox *o, const waiter *w, size_t enough);

#endif
