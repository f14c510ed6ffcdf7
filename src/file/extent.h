/* extent.h - where tensors lie in a file's data, so that a reader can see gaps and overlaps.
 *
 * Knows no format: a reader adds an extent for each tensor that it meets, then walks all of them in the order of the
 * data. */
#ifndef FILE_EXTENT_H
#define FILE_EXTENT_H

#include "../base/text.h"

#include <stdlib.h>

typedef struct extent {
    uint64_t begin, end; /* bytes, counted from the start of the data */
    size_t tensor;       /* index of the tensor in the checkpoint     */
} extent;

/* Compares two extents by their begin, for qsort. */
static inline int extent_by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Sorts the extents in the buffer by begin and returns them; *count is their number. NULL where there are none. */
static inline const extent *extents_sorted(buffer *extents, size_t *count)
{
    extent *items = (extent *)(void *)extents->data;
    *count = extents->size / sizeof *items;
    if (items)
        qsort(items, *count, sizeof *items, extent_by_begin);
    return items;
}

#endif
