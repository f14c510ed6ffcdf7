/* sorted_pieces.h - pieces in the order of their bytes: those that begin alike stand together, so that a search goes through a text
 * byte by byte and keeps the range of pieces that begin as it does. */
#ifndef TEXT_SORTED_PIECES_H
#define TEXT_SORTED_PIECES_H

#include "vocabulary.h"

typedef struct sorted_piece {
    span text;
    uint32_t id;
} sorted_piece;

typedef struct sorted_pieces {
    sorted_piece *items; /* [count] ascending by bytes; of equal ones the smallest id first */
    uint32_t count;
} sorted_pieces;

/* Sorts the items. */
void sorted_pieces_sort(sorted_pieces *p);

/* Narrows the pieces [*low, *high), which all have the same first `at` bytes, to those that go on with `byte`. Where one of them
 * has no more bytes, it is the first. */
void sorted_pieces_narrow(const sorted_pieces *p, size_t at, uint8_t byte, uint32_t *low, uint32_t *high);

#endif
