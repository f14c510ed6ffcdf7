/* bits.h - which of many neurons fire, a bit each: neuron n is bit n % 64 of word n / 64. */
#ifndef LEARN_BITS_H
#define LEARN_BITS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t bits_words(size_t n)
{
    return (n + 63) / 64;
}

/* Bytes of 0 and 1, eight in a word, to as many bits in the order of memory: the product brings byte i to bit 56 + i,
 * and no two of its terms meet. */
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

/* Set where the value is not zero, or where `above` > 0 its size is more than that. words [bits_words(n)] */
static inline void bits_pack(const float *values, size_t n, float above, uint64_t *words)
{
    uint8_t flags[64];
    for (size_t at = 0; at < n; at += 64) {
        size_t count = n - at < 64 ? n - at : 64;
        const float *x = values + at;
        if (count < 64)
            memset(flags, 0, sizeof flags);
        /* NaN is not zero either; both loops become vector code */
        if (above > 0)
            for (size_t i = 0; i < count; i++)
                flags[i] = !(fabsf(x[i]) <= above);
        else
            for (size_t i = 0; i < count; i++)
                flags[i] = x[i] != 0;
        words[at / 64] = bits_of_flags(flags);
    }
}

/* How many are set. Not the compiler's own, which is a call where the processor is not said to have it. */
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
