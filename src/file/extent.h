/* extent.h - where tensors lie in a file's data, so that a reader can see gaps and overlaps.
 *
 * Knows no format: a reader notes a place per tensor as it meets them, then walks them from front to back. */
#ifndef FILE_EXTENT_H
#define FILE_EXTENT_H

#include "../base/text.h"

#include <stdlib.h>

typedef struct extent {
    uint64_t begin, end; /* bytes, counted from the start of the data */
    size_t tensor;       /* its number in the checkpoint              */
} extent;

static inline int extent_by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The places in `extents`, ascending by begin; *count of them, NULL where there are none. */
static inline const extent *extents_sorted(buffer *extents, size_t *count)
{
    extent *items = (extent *)(void *)extents->data;
    *count = extents->size / sizeof *items;
    if (items)
        qsort(items, *count, sizeof *items, extent_by_begin);
    return items;
}

#endif
