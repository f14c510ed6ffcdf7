/* sorted_pieces.c - see sorted_pieces.h. */
#include "sorted_pieces.h"

#include <stdlib.h>
#include <string.h>

static int compare_pieces(const void *left, const void *right)
{
    const sorted_piece *a = left, *b = right;
    size_t common = a->text.size < b->text.size ? a->text.size : b->text.size;
    int order = memcmp(a->text.data, b->text.data, common);
    if (order == 0)
        order = (a->text.size > b->text.size) - (a->text.size < b->text.size);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

void sorted_pieces_sort(sorted_pieces *p)
{
    if (p->count > 0)
        qsort(p->items, p->count, sizeof *p->items, compare_pieces);
}

void sorted_pieces_narrow(const sorted_pieces *p, size_t at, uint8_t byte, uint32_t *low, uint32_t *high)
{
    uint32_t from = *low, to = *high;
    for (int side = 0; side < 2; side++) { /* the first piece whose byte is at least `byte`, then: larger than it */
        uint32_t a = from, b = to;
        while (a < b) {
            uint32_t middle = a + (b - a) / 2;
            const span text = p->items[middle].text;
            int other = at < text.size ? (uint8_t)text.data[at] : -1;
            if (other < byte + side)
                a = middle + 1;
            else
                b = middle;
        }
        *(side == 0 ? low : high) = a;
        from = a;
    }
}
