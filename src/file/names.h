/* names.h - finds the number of a name among millions, also where the names are hostile.
 *
 * A hash table with open addressing. Every table is seeded by itself, so a file cannot be made
 * whose names all fall on one slot. It keeps pointers to names and owns none of them. */
#ifndef FILE_NAMES_H
#define FILE_NAMES_H

#include "../base/text.h"

typedef struct name_index {
    struct name_slot *slots; /* [capacity], a power of two or 0 */
    size_t capacity, count;
    uint64_t seed;
} name_index;

#define NAME_NONE SIZE_MAX

/* The number given with the name, or NAME_NONE. */
size_t names_find(const name_index *index, span name);
/* The name must not be there yet, and its bytes must live as long as the index. A zeroed index is
 * empty and ready. false: no memory, the index is as before. */
bool names_add(name_index *index, span name, size_t number);
void names_free(name_index *index);

#endif
