/* pair_queue.h - adjacent symbols that may merge, the best pair first: a binary heap.
 *
 * Private to the text module; both kinds of BPE merge with it. */
#ifndef TEXT_PAIR_QUEUE_H
#define TEXT_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pair {
    float score;
    uint32_t left; /* index of the left symbol; the right one is its next          */
    uint32_t size; /* bytes of both when queued, to see whether the pair is stale  */
} pair;

/* A run of n symbols needs room for 2 n pairs: it begins with at most n - 1, and a merge removes one and adds at most
 * two. */
typedef struct pair_queue {
    pair *pairs; /* the caller's memory */
    uint32_t count;
} pair_queue;

/* Orders the queue: the higher score first, then the leftmost pair. */
static inline bool pair_comes_first(const pair *a, const pair *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static inline void pair_queue_push(pair_queue *q, pair p)
{
    uint32_t i = q->count++;
    while (i > 0 && pair_comes_first(&p, &q->pairs[(i - 1) / 2])) {
        q->pairs[i] = q->pairs[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->pairs[i] = p;
}

static inline pair pair_queue_pop(pair_queue *q)
{
    pair best = q->pairs[0], last = q->pairs[--q->count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < q->count) {
        if (child + 1 < q->count && pair_comes_first(&q->pairs[child + 1], &q->pairs[child]))
            child++;
        if (!pair_comes_first(&q->pairs[child], &last))
            break;
        q->pairs[i] = q->pairs[child];
        i = child;
    }
    q->pairs[i] = last;
    return best;
}

#endif
