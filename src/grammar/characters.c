/* characters.c - classes of characters as ranges of bytes.
 *
 * The characters low..high of one length in UTF-8 are a sequence of byte ranges where all bytes but the first that
 * differs take every value; other ranges are cut until that holds, as in Thompson's and Cox's RE2. */
#include "grammar.h"

#include <stdlib.h>

enum { LAST_CHARACTER = 0x10FFFF, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

/* The alternatives so far. */
typedef struct choice {
    grammar *g;
    fragment all;
    bool any;
} choice;

/* Writes a character in UTF-8; returns the number of bytes. */
static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3F));
    out[0] = (uint8_t)(0xF00u >> size | c);
    return size;
}

static void add_sequence(choice *to, uint32_t low, uint32_t high)
{
    uint8_t first[4], last[4];
    size_t size = encode(low, first);
    encode(high, last);
    fragment sequence = grammar_bytes(to->g, first[0], last[0]);
    for (size_t i = 1; i < size; i++)
        sequence = grammar_then(to->g, sequence, grammar_bytes(to->g, first[i], last[i]));
    to->all = to->any ? grammar_either(to->g, to->all, sequence) : sequence;
    to->any = true;
}

/* Adds the characters low..high, all of one length. It calls itself at most twice per byte. */
static void add_one_length(choice *to, uint32_t low, uint32_t high)
{
    for (uint32_t bits = 6; bits <= 18 && low >= 0x80; bits += 6) {
        uint32_t mask = (1u << bits) - 1;
        if ((low & ~mask) == (high & ~mask))
            break;
        if (low & mask) {
            add_one_length(to, low, low | mask);
            add_one_length(to, (low | mask) + 1, high);
            return;
        }
        if ((high & mask) != mask) {
            add_one_length(to, low, (high & ~mask) - 1);
            add_one_length(to, high & ~mask, high);
            return;
        }
    }
    add_sequence(to, low, high);
}

static void add_range(choice *to, uint32_t low, uint32_t high)
{
    static const uint32_t limits[] = {0x7F, 0x7FF, FIRST_SURROGATE - 1, LAST_SURROGATE, 0xFFFF, LAST_CHARACTER};
    for (size_t i = 0; i < sizeof limits / sizeof *limits && low <= high; i++) {
        uint32_t end = high < limits[i] ? high : limits[i];
        if (low > end)
            continue;
        if (limits[i] != LAST_SURROGATE)
            add_one_length(to, low, end);
        low = end + 1;
    }
}

static int compare(const void *a, const void *b)
{
    const character_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

fragment grammar_characters(grammar *g, const character_range *ranges, size_t count, bool negated)
{
    choice to = {.g = g};
    character_range *sorted = mem_new_array(count, sizeof *sorted);
    if (!sorted) {
        g->status = g->status == HEARTH_OK ? HEARTH_NO_MEMORY : g->status;
        return grammar_empty(g);
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = ranges[i];
    qsort(sorted, count, sizeof *sorted, compare);
    uint32_t next = 0; /* the first character that is in none of the ranges before */
    for (size_t i = 0; i < count; i++) {
        uint32_t low = sorted[i].low > next ? sorted[i].low : next;
        if (negated && low > next)
            add_range(&to, next, low - 1);
        if (!negated && sorted[i].high >= low)
            add_range(&to, low, sorted[i].high);
        next = sorted[i].high >= next ? sorted[i].high + 1 : next;
    }
    if (negated && next <= LAST_CHARACTER)
        add_range(&to, next, LAST_CHARACTER);
    mem_free(sorted);
    return to.any ? to.all : grammar_bytes(g, 1, 0); /* low > high: no byte */
}
