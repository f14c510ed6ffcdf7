/* outbox.c - a bounded list of events. */
#include "outbox.h"

#include "../base/memory.h"

#include <string.h>

event *event_new(event_kind kind, uint32_t choice, int32_t token, span text, size_t candidates)
{
    size_t room;
    if (!size_multiply(candidates, sizeof(candidate), &room) || !size_add(room, sizeof(event) + text.size, &room))
        return NULL;
    event *e = mem_new(room);
    if (!e)
        return NULL;
    *e =
        (event){.kind = kind, .choice = choice, .token.token = token, .candidate_count = candidates, .size = text.size};
    e->candidates = (candidate *)(e + 1);
    char *copy = (char *)(e->candidates + candidates);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    e->text = copy;
    return e;
}

void event_free(event *e)
{
    for (event *next; e; e = next) {
        next = e->next;
        if (!e->is_fixed)
            mem_free(e);
    }
}

static size_t bytes_of(const event *e)
{
    return sizeof *e + e->size + e->candidate_count * sizeof *e->candidates;
}

void outbox_init(outbox *o, size_t most_bytes)
{
    *o = (outbox){.most_bytes = most_bytes};
    o->last = &o->first;
    pthread_mutex_init(&o->lock, NULL);
}

void outbox_destroy(outbox *o)
{
    event_free(o->first);
    pthread_mutex_destroy(&o->lock);
}

static bool has_enough(const outbox *o, size_t enough)
{
    return o->is_closed || (o->size_bytes > 0 && o->size_bytes >= enough);
}

/* Wakes who waits, if it is time. The lock is held. */
static void wake(outbox *o)
{
    if (!o->waits || !has_enough(o, o->enough))
        return;
    o->waits = false;
    o->waiter.wake(o->waiter.user);
}

bool outbox_put(outbox *o, event *e)
{
    pthread_mutex_lock(&o->lock);
    o->is_full |= bytes_of(e) > o->most_bytes - (o->size_bytes < o->most_bytes ? o->size_bytes : o->most_bytes);
    bool taken = !o->is_closed && (!o->is_full || e->kind == EVENT_END);
    if (taken) {
        e->next = NULL;
        *o->last = e;
        o->last = &e->next;
        o->size_bytes += bytes_of(e);
        wake(o);
    }
    pthread_mutex_unlock(&o->lock);
    if (!taken) {
        e->next = NULL;
        event_free(e);
    }
    return taken;
}

void outbox_close(outbox *o)
{
    pthread_mutex_lock(&o->lock);
    o->is_closed = true;
    wake(o);
    pthread_mutex_unlock(&o->lock);
}

event *outbox_take(outbox *o, bool *ended)
{
    pthread_mutex_lock(&o->lock);
    event *all = o->first;
    o->first = NULL;
    o->last = &o->first;
    o->size_bytes = 0;
    *ended = o->is_closed;
    pthread_mutex_unlock(&o->lock);
    return all;
}

bool outbox_rest(outbox *o, const waiter *w, size_t enough)
{
    pthread_mutex_lock(&o->lock);
    bool rests = !has_enough(o, enough);
    if (rests) {
        o->waiter = *w;
        o->enough = enough;
        o->waits = true;
        w->rest(w->user);
    }
    pthread_mutex_unlock(&o->lock);
    return rests;
}
