/* piece_table.h - finds the pieces of a vocabulary by their text.
 *
 * Private to the text module. A table lies in the vocabulary's memory and is read-only once filled. */
#ifndef TEXT_PIECE_TABLE_H
#define TEXT_PIECE_TABLE_H

#include "vocabulary.h"

/* Stands for a text that has no piece, a free slot, or the end of a list. */
#define NOTHING UINT32_MAX

typedef struct piece_slot {
    uint32_t tag; /* upper half of the hash: rejects most non-matches early */
    uint32_t id;  /* NOTHING: free                                          */
} piece_slot;

typedef struct piece_table {
    const token *tokens;
    piece_slot *slots; /* [mask + 1]: open addressing, at most half full */
    size_t mask;
    uint64_t key;
    size_t longest; /* bytes of the longest piece in the table */
} piece_table;

/* Puts all pieces that `takes` accepts into the table; of several with the same text the first is found. Returns false
 * where there is no memory. */
bool piece_table_fill(piece_table *table, vocabulary *v, bool (*takes)(const token *t));

/* Returns the id of the piece with this text, or NOTHING. */
uint32_t piece_table_find(const piece_table *table, span text);

#endif
