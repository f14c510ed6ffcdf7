/* word_cache.h - remembers the ids of words: texts repeat their words, and merging is what takes the time.
 *
 * Private to the text module. A word is remembered where it stands in the text, and its ids where they stand in the
 * result, so nothing is copied until it is met again. A new word takes the place of an older one with the same hash. */
#ifndef TEXT_WORD_CACHE_H
#define TEXT_WORD_CACHE_H

#include "../base/text.h"

#include <string.h>

enum { WORD_CACHE_BITS = 12, WORD_CACHE_LONGEST = 32 };

typedef struct cached_word {
    const char *text; /* NULL: free */
    size_t first_id;  /* index in the result */
    uint32_t size, id_count;
} cached_word;

typedef struct word_cache {
    cached_word words[1 << WORD_CACHE_BITS];
} word_cache;

/* Returns the place of a word; whether it is there is for word_cache_holds to say. Words above WORD_CACHE_LONGEST bytes
 * have none. */
static inline cached_word *word_cache_place(word_cache *cache, span word)
{
    uint64_t hash = word.size;
    for (size_t i = 0; i < word.size; i += 8) {
        uint64_t bytes = 0;
        memcpy(&bytes, word.data + i, word.size - i < 8 ? word.size - i : 8);
        hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return &cache->words[hash * 0x9e3779b97f4a7c15u >> (64 - WORD_CACHE_BITS)];
}

static inline bool word_cache_holds(const cached_word *place, span word)
{
    return place->text && place->size == word.size && memcmp(place->text, word.data, word.size) == 0;
}

#endif
