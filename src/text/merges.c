/* merges.c - a hash table from pairs of ids to merges. */
#include "merges.h"

#include "../base/hash.h"

#include <string.h>

#define KEY_MERGES "tokenizer.ggml.merges"

/* Ranks are compared as floats, which are exact up to here; published vocabularies have at most half a million. */
enum { MERGES_LIMIT = 1 << 24 };

static merge *find_slot(const merge_table *table, uint32_t left, uint32_t right)
{
    uint64_t hash = (((uint64_t)left << 32 | right) ^ table->seed) * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(hash >> 32) & table->mask;; i = (i + 1) & table->mask) {
        merge *m = &table->slots[i];
        if (m->left == NOTHING || (m->left == left && m->right == right))
            return m;
    }
}

const merge *merge_table_find(const merge_table *table, uint32_t left, uint32_t right)
{
    const merge *m = find_slot(table, left, right);
    return m->left == NOTHING ? NULL : m;
}

/* Adds "LEFT RIGHT", unless one of the two is no piece: then it is never met, as merges make nothing but pieces. Returns
 * false where the text is no merge, or makes what is no piece. The blank between the two is the first one that is not
 * the first character: a piece may begin with a blank of its own. `joined`: room for the text. */
static bool add_merge(merge_table *table, const piece_table *pieces, span text, uint32_t rank, char *joined)
{
    const char *blank = text.size > 1 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
    if (!blank || text.size > (size_t)2 * PIECE_LIMIT)
        return false;
    size_t left_size = (size_t)(blank - text.data), right_size = text.size - left_size - 1;
    memcpy(joined, text.data, left_size);
    memcpy(joined + left_size, blank + 1, right_size);
    uint32_t left = piece_table_find(pieces, (span){joined, left_size});
    uint32_t right = piece_table_find(pieces, (span){joined + left_size, right_size});
    uint32_t merged = piece_table_find(pieces, (span){joined, left_size + right_size});
    if (left == NOTHING || right == NOTHING)
        return true;
    if (merged == NOTHING)
        return false;
    merge *m = find_slot(table, left, right);
    if (m->left == NOTHING) /* of several for the same pair the first is used */
        *m = (merge){left, right, rank, merged};
    return true;
}

hearth_status merge_table_load(merge_table *table, vocabulary *v, const piece_table *pieces, const checkpoint *c,
                               hearth_error *error)
{
    const key_value *merges;
    TRY(checkpoint_get_array(c, KEY_MERGES, VALUE_STRING, &merges, NULL, error));
    if (merges->count >= MERGES_LIMIT)
        return fail(error, HEARTH_UNSUPPORTED, "%s: key %s: has %llu items, more than %d", c->path, KEY_MERGES,
                    (unsigned long long)merges->count, MERGES_LIMIT);
    size_t room = 2;
    while (room < 2 * merges->count)
        room *= 2;
    table->mask = room - 1;
    table->slots = arena_new_array(&v->memory, room, sizeof *table->slots);
    if (!table->slots)
        return fail_memory(error, "tokenizer", room * sizeof *table->slots);
    memset(table->slots, 0xff, room * sizeof *table->slots);
    table->seed = hash_key(table->slots);
    char joined[2 * PIECE_LIMIT];
    for (uint32_t rank = 0; rank < merges->count; rank++) {
        span text = merges->as.strings[rank];
        if (!add_merge(table, pieces, text, rank, joined))
            return fail(error, HEARTH_UNSUPPORTED, "%s: key %s: '%.*s' does not make a piece of the vocabulary",
                        c->path, KEY_MERGES, text.size < 64 ? (int)text.size : 64, text.data);
    }
    return HEARTH_OK;
}
