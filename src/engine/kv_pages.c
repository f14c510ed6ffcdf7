/* kv_pages.c - see kv_pages.h. */
#include "kv_pages.h"

#include <assert.h>
#include <string.h>

bool kv_pages_plan(kv_pages *p, uint32_t sequences, uint32_t spare, uint32_t context, uint64_t positions)
{
    p->sequences = sequences;
    p->context = context;
    p->positions = context < KV_PAGE ? context : KV_PAGE;
    p->per_sequence = kv_pages_of(p, context);
    uint64_t most = (uint64_t)sequences * p->per_sequence, full = (uint64_t)(sequences - spare) * p->per_sequence;
    uint64_t wanted = positions / p->positions + (positions % p->positions > 0);
    uint64_t count = positions == 0 ? full : wanted < most ? wanted : most;
    p->count = p->free_count = count <= UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    return count <= UINT32_MAX;
}

/* Returns the page into which the next position of a sequence of `length` positions is written; NULL: a new one. */
static uint32_t *written_page(const kv_pages *p, uint32_t sequence, uint32_t length)
{
    return length % p->positions > 0 ? kv_pages_row(p, sequence) + length / p->positions : NULL;
}

/* While it counts, it lets go of the pages that would be copied: the last of several sequences that share a page and write
 * into it needs no copy. */
uint64_t kv_pages_wanted(kv_pages *p, const uint32_t *now, const uint32_t *later)
{
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < p->sequences; i++) {
        if (later[i] <= now[i])
            continue;
        const uint32_t *page = written_page(p, i, now[i]);
        wanted += kv_pages_of(p, later[i]) - kv_pages_of(p, now[i]);
        if (page && p->references[*page] > 1) {
            p->references[*page]--;
            p->marked[i] = true;
            wanted++;
        }
    }
    for (uint32_t i = 0; i < p->sequences; i++)
        if (p->marked[i]) {
            p->references[*written_page(p, i, now[i])]++;
            p->marked[i] = false;
        }
    return wanted;
}

/* Returns whether appending to a sequence of `length` positions takes a copy of its last page. */
static bool needs_copy(const kv_pages *p, uint32_t sequence, uint32_t length)
{
    const uint32_t *page = written_page(p, sequence, length);
    return page && p->references[*page] > 1;
}

uint32_t kv_pages_room(const kv_pages *p, uint32_t sequence, uint32_t length)
{
    uint32_t copies = needs_copy(p, sequence, length), most = p->context - length;
    if (copies > p->free_count)
        return 0;
    uint64_t room = kv_pages_positions(p, kv_pages_of(p, length) + p->free_count - copies) - length;
    return room < most ? (uint32_t)room : most;
}

uint32_t kv_pages_to_come(const kv_pages *p, uint32_t sequence, uint32_t length, uint32_t later)
{
    return later > length ? kv_pages_of(p, later) - kv_pages_of(p, length) + needs_copy(p, sequence, length) : 0;
}

uint32_t kv_pages_own(const kv_pages *p, uint32_t sequence)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < p->taken[sequence]; i++)
        own += p->references[kv_pages_row(p, sequence)[i]] == 1;
    return own;
}

uint32_t kv_pages_find(const kv_pages *p, uint32_t sequence, uint32_t index)
{
    assert(p->free_count > 0);
    uint32_t page = (uint32_t)(((uint64_t)sequence * (p->count / p->sequences) + index) % p->count);
    while (p->references[page] > 0)
        page = page + 1 < p->count ? page + 1 : 0;
    return page;
}

/* Gives up a page of a sequence. */
static void let_go(kv_pages *p, uint32_t page)
{
    assert(p->references[page] > 0);
    p->free_count += --p->references[page] == 0;
}

/* Puts a free page into the table. */
static void take(kv_pages *p, uint32_t sequence, uint32_t index, uint32_t page)
{
    assert(p->references[page] == 0 && index < p->per_sequence);
    p->references[page] = 1;
    p->free_count--;
    kv_pages_row(p, sequence)[index] = page;
}

void kv_pages_replace(kv_pages *p, uint32_t sequence, uint32_t index, uint32_t page)
{
    let_go(p, kv_pages_row(p, sequence)[index]);
    take(p, sequence, index, page);
}

void kv_pages_grow(kv_pages *p, uint32_t sequence, uint32_t length)
{
    for (uint32_t *i = &p->taken[sequence]; *i < kv_pages_of(p, length); ++*i)
        take(p, sequence, *i, kv_pages_find(p, sequence, *i));
}

void kv_pages_cut(kv_pages *p, uint32_t sequence, uint32_t length)
{
    for (uint32_t *i = &p->taken[sequence]; *i > kv_pages_of(p, length); --*i)
        let_go(p, kv_pages_row(p, sequence)[*i - 1]);
}

void kv_pages_share(kv_pages *p, uint32_t from, uint32_t to)
{
    const uint32_t *pages = kv_pages_row(p, from);
    assert(p->taken[to] == 0);
    p->taken[to] = p->taken[from];
    memcpy(kv_pages_row(p, to), pages, p->taken[from] * sizeof *pages);
    for (uint32_t i = 0; i < p->taken[from]; i++)
        p->references[pages[i]]++;
}
