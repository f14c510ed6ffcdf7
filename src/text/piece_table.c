/* piece_table.c - a hash table from texts to ids. */
#include "piece_table.h"

#include "../base/hash.h"

#include <string.h>

/* Returns the slot that holds the piece of this text, or the free slot where it would go. */
static piece_slot *find_slot(const piece_table *table, span text, uint32_t *tag)
{
    uint64_t hash = hash_keyed(text, table->key);
    *tag = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & table->mask;; i = (i + 1) & table->mask) {
        piece_slot *s = &table->slots[i];
        if (s->id == NOTHING || (s->tag == *tag && span_equal(table->tokens[s->id].text, text)))
            return s;
    }
}

bool piece_table_fill(piece_table *table, vocabulary *v, bool (*takes)(const token *t))
{
    size_t room = 2;
    while (room < (size_t)2 * v->count)
        room *= 2;
    *table = (piece_table){.tokens = v->tokens, .mask = room - 1};
    table->slots = arena_new_array(&v->memory, room, sizeof *table->slots);
    if (!table->slots)
        return false;
    table->key = hash_key(table->slots);
    memset(table->slots, 0xff, room * sizeof *table->slots);
    for (uint32_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        if (!takes(t))
            continue;
        uint32_t tag;
        piece_slot *s = find_slot(table, t->text, &tag);
        if (s->id == NOTHING)
            *s = (piece_slot){tag, id};
        if (t->text.size > table->longest)
            table->longest = t->text.size;
    }
    return true;
}

uint32_t piece_table_find(const piece_table *table, span text)
{
    uint32_t tag;
    return text.size <= table->longest ? find_slot(table, text, &tag)->id : NOTHING;
}
