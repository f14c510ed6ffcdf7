/* merges.h - which two pieces merge into which, and how early: byte-pair encoding's list of merges.
 *
 * Private to the text module. */
#ifndef TEXT_MERGES_H
#define TEXT_MERGES_H

#include "piece_table.h"

typedef struct merge {
    uint32_t left, right; /* ids of the two pieces; left NOTHING: a free slot */
    uint32_t rank;        /* the lower one goes first                          */
    uint32_t merged;      /* id of the piece that they become                  */
} merge;

typedef struct merge_table {
    merge *slots; /* [mask + 1]: open addressing, at most half full */
    size_t mask;
    uint64_t seed;
} merge_table;

/* Reads the key tokenizer.ggml.merges ("LEFT RIGHT", in the order of their rank) into v->memory. HEARTH_FORMAT: it is
 * missing. HEARTH_UNSUPPORTED: a merge makes a piece that the vocabulary lacks (named), so nobody can say what the file's
 * author meant by it. */
hearth_status merge_table_load(merge_table *table, vocabulary *v, const piece_table *pieces, const checkpoint *c,
                               hearth_error *error);

/* Returns the merge of two pieces, or NULL where they do not merge. */
const merge *merge_table_find(const merge_table *table, uint32_t left, uint32_t right);

#endif
