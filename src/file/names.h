/* names.h - finds the number of a name among millions, also where the names are hostile.
 *
 * A hash table with open addressing. Every table has its own seed, so no file can be crafted whose names all
 * collide. It stores pointers to names and owns none of them. */
#ifndef FILE_NAMES_H
#define FILE_NAMES_H

#include "../base/text.h"

typedef struct name_index {
    struct name_slot *slots; /* [capacity], a power of two or 0 */
    size_t capacity, count;
    uint64_t seed;
} name_index;

#define NAME_NONE SIZE_MAX

/* Returns the number that was added with the name, or NAME_NONE. */
size_t names_find(const name_index *index, span name);
/* Adds a name, which must not be in the index yet; its bytes must live as long as the index. A zeroed index is empty
 * and ready for use. Returns false where there is no memory; the index is then unchanged. */
bool names_add(name_index *index, span name, size_t number);
void names_free(name_index *index);

#endif
