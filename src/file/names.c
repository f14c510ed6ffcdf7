/* names.c - the hash table that finds keys, tensors and vocabulary pieces by name. */
#include "names.h"

#include "../base/hash.h"
#include "../base/memory.h"

struct name_slot {
    const char *name; /* NULL: free */
    size_t size, number;
};

#define FIRST_CAPACITY 64

/* Returns the slot that holds the name, or the free slot where it would go. At least one slot must be free. */
static size_t find_slot(const struct name_slot *slots, size_t capacity, uint64_t seed, span name)
{
    size_t at = (size_t)hash_keyed(name, seed) & (capacity - 1);
    while (slots[at].name && !span_equal((span){slots[at].name, slots[at].size}, name))
        at = (at + 1) & (capacity - 1);
    return at;
}

/* Doubles the table. Returns false where there is no memory; the index is then unchanged. */
static bool grow(name_index *index)
{
    size_t capacity = index->capacity ? index->capacity * 2 : FIRST_CAPACITY;
    struct name_slot *slots = mem_new_array(capacity, sizeof(*slots));
    if (!slots)
        return false;
    uint64_t seed = index->slots ? index->seed : hash_key(slots);
    for (const struct name_slot *old = index->slots; old && old < index->slots + index->capacity; old++) {
        if (old->name)
            slots[find_slot(slots, capacity, seed, (span){old->name, old->size})] = *old;
    }
    mem_free(index->slots);
    index->slots = slots;
    index->capacity = capacity;
    index->seed = seed;
    return true;
}

size_t names_find(const name_index *index, span name)
{
    if (!index->capacity)
        return NAME_NONE;
    const struct name_slot *slot = &index->slots[find_slot(index->slots, index->capacity, index->seed, name)];
    return slot->name ? slot->number : NAME_NONE;
}

bool names_add(name_index *index, span name, size_t number)
{
    /* The table is at most three quarters full, so that probe sequences stay short. */
    if ((index->count + 1) * 4 > index->capacity * 3 && !grow(index))
        return false;
    index->slots[find_slot(index->slots, index->capacity, index->seed, name)] =
        (struct name_slot){name.data, name.size, number};
    index->count++;
    return true;
}

void names_free(name_index *index)
{
    mem_free(index->slots);
    *index = (name_index){0};
}
