/* mailbox.c - a bounded queue between threads. */
#include "mailbox.h"

void mailbox_init(mailbox *m, size_t most)
{
    *m = (mailbox){.most = most};
    m->last = &m->first;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
}

void mailbox_destroy(mailbox *m)
{
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}

mailbox_result mailbox_put(mailbox *m, letter *l, size_t weight)
{
    pthread_mutex_lock(&m->lock);
    mailbox_result result = m->is_closed ? MAILBOX_CLOSED : weight > m->most - m->weight ? MAILBOX_FULL : MAILBOX_TAKEN;
    if (result == MAILBOX_TAKEN) {
        l->next = NULL;
        *m->last = l;
        m->last = &l->next;
        m->weight += weight;
        pthread_cond_signal(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
    return result;
}

letter *mailbox_take(mailbox *m, bool waits)
{
    pthread_mutex_lock(&m->lock);
    while (waits && !m->first && !m->is_poked && !m->is_closed)
        pthread_cond_wait(&m->changed, &m->lock);
    letter *all = m->first;
    m->first = NULL;
    m->last = &m->first;
    m->is_poked = false;
    pthread_mutex_unlock(&m->lock);
    return all;
}

void mailbox_poke(mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    m->is_poked = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

void mailbox_done(mailbox *m, size_t weight)
{
    pthread_mutex_lock(&m->lock);
    m->weight -= weight;
    pthread_mutex_unlock(&m->lock);
}

void mailbox_close(mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    m->is_closed = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

size_t mailbox_weight(mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    size_t weight = m->weight;
    pthread_mutex_unlock(&m->lock);
    return weight;
}
