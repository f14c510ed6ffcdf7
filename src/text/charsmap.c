/* charsmap.c - walks the trie of a compiled normalisation. The table is a file's: every place in it is checked. */
#include "charsmap.h"

#include <string.h>

bool charsmap_read(charsmap *out, span blob)
{
    uint32_t size;
    *out = (charsmap){0};
    if (blob.size == 0)
        return true;
    if (blob.size < sizeof size)
        return false;
    memcpy(&size, blob.data, sizeof size);
    if (size % 4 != 0 || size == 0 || size >= blob.size - sizeof size || blob.data[blob.size - 1] != 0)
        return false;
    out->units = (const uint8_t *)blob.data + sizeof size;
    out->count = size / 4;
    out->replacements = (span){blob.data + sizeof size + size, blob.size - sizeof size - size};
    return true;
}

/* Reads a unit; false: there is none. */
static bool read_unit(const charsmap *map, size_t index, uint32_t *out)
{
    if (index >= map->count)
        return false;
    memcpy(out, map->units + 4 * index, sizeof *out);
    return true;
}

static size_t children_of(uint32_t unit)
{
    return (size_t)(unit >> 10 & 0x1fffff) << (unit >> 6 & 8);
}

/* Bytes of the longest prefix that is looked for; those of real tables have at most some 30. A damaged table may lead in a circle. */
enum { LONGEST_KEY = 256 };

/* Returns the bytes of the longest prefix of a text that is replaced, and by what; 0: none is. */
static size_t find_prefix(const charsmap *map, span text, span *replacement)
{
    uint32_t unit;
    size_t longest = 0;
    if (!read_unit(map, 0, &unit))
        return 0;
    size_t at = children_of(unit);
    for (size_t i = 0; i < text.size && i < LONGEST_KEY && text.data[i]; i++) {
        uint8_t label = (uint8_t)text.data[i];
        at ^= label;
        if (!read_unit(map, at, &unit) || (unit & 0x800000ff) != label)
            break;
        at ^= children_of(unit);
        uint32_t value;
        if (!(unit >> 8 & 1) || !read_unit(map, at, &value))
            continue;
        value &= 0x7fffffff;
        if (value < map->replacements.size) { /* the last byte is zero, so that every one of them ends */
            longest = i + 1;
            *replacement = span_of(map->replacements.data + value);
        }
    }
    return longest;
}

bool charsmap_write(const charsmap *map, span text, buffer *out)
{
    static const char unknown[] = "\xef\xbf\xbd";
    out->size = 0;
    while (text.size > 0) {
        span replacement;
        size_t used = find_prefix(map, text, &replacement);
        if (used == 0) {
            used = utf8_length(text.data, text.size);
            replacement = used ? (span){text.data, used} : (span){unknown, sizeof unknown - 1};
            used = used ? used : 1;
        }
        if (!buffer_put(out, replacement.data, replacement.size))
            return false;
        text = (span){text.data + used, text.size - used};
    }
    return true;
}
