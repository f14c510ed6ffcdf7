/* random.h - splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a counter and a good
 * hash of it. Not for secrets. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Returns number `at` of the stream `key`: a function of both and of nothing else. */
static inline uint64_t random_at(uint64_t key, uint64_t at)
{
    uint64_t x = key + (at + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the next number of a stream, which its seed begins. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t number = random_at(*state, 0);
    *state += 0x9e3779b97f4a7c15u;
    return number;
}

#endif
