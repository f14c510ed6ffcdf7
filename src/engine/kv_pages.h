/* kv_pages.h - which pages of the cache of keys and values each sequence of a session has.
 *
 * A page holds some positions of one sequence, of all layers and heads, on both sides: host and device use the same page
 * numbers, each in its own memory. Sequences with a common beginning share its pages, so a copy of a sequence takes no
 * memory; the first that writes into a shared page gets its own copy before (copy on write: state.c). Here are only the
 * numbers: nothing of what lies in the pages.
 *
 * Each sequence has a home, a range of numbers of its own, and takes the first free page from its place in there on. So a
 * sequence that shares nothing lies in consecutive memory, which attention reads faster (kbench: attend_16384 and
 * attend_scattered). */
#ifndef ENGINE_KV_PAGES_H
#define ENGINE_KV_PAGES_H

#include "../kernel/kernel.h"

typedef struct kv_pages {
    uint32_t sequences, context;
    uint32_t positions;         /* of a page: KV_PAGE, or the context if that is shorter          */
    uint32_t per_sequence;      /* pages of a full sequence                                       */
    uint32_t count, free_count; /* all pages, and those that no sequence has                      */
    uint32_t *references;       /* [count] how many sequences have a page; 0: it is free          */
    uint32_t *table;            /* [sequences][per_sequence] pages, from position 0 on            */
    uint32_t *taken;            /* [sequences] pages of each                                      */
    bool *marked;               /* [sequences] scratch of kv_pages_wanted, false between calls    */
} kv_pages;

/* Sets the numbers for sequences of up to `context` positions, which together hold `positions`, but no more than all can have.
 * 0: as many as all can have but `spare` of them, which live of what the others leave. The arrays are the caller's, zeroed.
 * Returns false if there are too many pages. */
bool kv_pages_plan(kv_pages *p, uint32_t sequences, uint32_t spare, uint32_t context, uint64_t positions);

/* Returns the pages that so many positions take. */
static inline uint32_t kv_pages_of(const kv_pages *p, uint32_t length)
{
    return length / p->positions + (length % p->positions > 0);
}

/* Returns the positions that all pages, or the free ones, hold. */
static inline uint64_t kv_pages_positions(const kv_pages *p, uint32_t pages)
{
    return (uint64_t)pages * p->positions;
}

/* Returns the pages of a sequence. */
static inline uint32_t *kv_pages_row(const kv_pages *p, uint32_t sequence)
{
    return p->table + (size_t)sequence * p->per_sequence;
}

/* Returns how many free pages it takes to append to all sequences, which have `now` positions and get `later` (both
 * [sequences]; not more than now: nothing is appended): for new positions, and for copies of shared pages. */
uint64_t kv_pages_wanted(kv_pages *p, const uint32_t *now, const uint32_t *later);
/* Returns how many positions can be appended to a sequence of `length` of them, and to no other one. */
uint32_t kv_pages_room(const kv_pages *p, uint32_t sequence, uint32_t length);
/* Returns how many free pages, at most, a sequence of `length` positions takes until it has `later` of them. */
uint32_t kv_pages_to_come(const kv_pages *p, uint32_t sequence, uint32_t length, uint32_t later);
/* Returns how many pages become free when a sequence becomes empty. */
uint32_t kv_pages_own(const kv_pages *p, uint32_t sequence);

/* Returns the page that a sequence should take for its pages[index]: a free one, of which there must be some. */
uint32_t kv_pages_find(const kv_pages *p, uint32_t sequence, uint32_t index);
/* Gives a sequence a free page in place of a shared one. */
void kv_pages_replace(kv_pages *p, uint32_t sequence, uint32_t index, uint32_t page);
/* Takes the pages of positions up to `length`; there must be enough. */
void kv_pages_grow(kv_pages *p, uint32_t sequence, uint32_t length);
/* Returns the pages of all but the first `length` positions. */
void kv_pages_cut(kv_pages *p, uint32_t sequence, uint32_t length);
/* Gives an empty sequence the pages of another one, which both have then. */
void kv_pages_share(kv_pages *p, uint32_t from, uint32_t to);

#endif
