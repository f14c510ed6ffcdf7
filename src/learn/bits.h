/* bits.h - sets of neurons as bit fields: neuron n is bit n % 64 of word n / 64. */
#ifndef LEARN_BITS_H
#define LEARN_BITS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the number of 64-bit words for n neurons. */
static inline size_t bits_words(size_t n)
{
    return (n + 63) / 64;
}

/* Packs eight bytes of 0 or 1 into eight bits, in memory order (little-endian): the product moves byte i to bit 56 + i,
 * and no two of its terms overlap. */
static inline uint64_t bits_of_bytes(const uint8_t bytes[8])
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word * 0x0102040810204080ull >> 56;
}

static inline uint64_t bits_of_flags(const uint8_t flags[64])
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++)
        word |= bits_of_bytes(flags + 8 * i) << (8 * i);
    return word;
}

/* Sets words [bits_words(n)]: a bit is 1 where the value is not
 * zero or, where `above` > 0, where its magnitude exceeds `above`. */
static inline void bits_pack(const float *values, size_t n, float above, uint64_t *words)
{
    uint8_t flags[64];
    for (size_t at = 0; at < n; at += 64) {
        size_t count = n - at < 64 ? n - at : 64;
        const float *x = values + at;
        if (count < 64)
            memset(flags, 0, sizeof flags);
        /* NaN counts as not zero; both loops vectorise */
        if (above > 0)
            for (size_t i = 0; i < count; i++)
                flags[i] = !(fabsf(x[i]) <= above);
        else
            for (size_t i = 0; i < count; i++)
                flags[i] = x[i] != 0;
        words[at / 64] = bits_of_flags(flags);
    }
}

/* Returns the number of set bits. The compiler's builtin is not used: where the target does not guarantee a popcount
 * instruction, it becomes a function call. */
static inline unsigned bits_count(const uint64_t *words, size_t count)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = words[i];
        x -= x >> 1 & 0x5555555555555555ull;
        x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
        total += x * 0x0101010101010101ull >> 56;
    }
    return (unsigned)total;
}

#endif
