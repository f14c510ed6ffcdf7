/* hash.c - FNV-1a with two states. */
#include "hash.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define FNV_PRIME 0x100000001b3ull

/* The first state is FNV's offset basis, the second the same with its halves swapped. */
hash128 hash_begin(void)
{
    return (hash128){0xcbf29ce484222325ull, 0x84222325cbf29ce4ull};
}

void hash_bytes(hash128 *h, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t a = h->a, b = h->b;
    for (size_t i = 0; i < size; i++) {
        a = (a ^ bytes[i]) * FNV_PRIME;
        b = (b ^ (bytes[i] + 1u)) * FNV_PRIME;
    }
    *h = (hash128){a, b};
}

void hash_text(hash128 *h, const char *text)
{
    hash_bytes(h, text, strlen(text) + 1);
}

void hash_number(hash128 *h, uint64_t number)
{
    hash_bytes(h, &number, sizeof number);
}

void hash_print(char out[HASH_TEXT_SIZE], const hash128 *h)
{
    snprintf(out, HASH_TEXT_SIZE, "%016llx%016llx", (unsigned long long)h->a, (unsigned long long)h->b);
}

uint64_t hash_key(const void *address)
{
    uint64_t key;
    return getrandom(&key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key ? key : (uint64_t)(uintptr_t)address;
}

/* Folds the 128-bit product into 64 bits, so that every bit of either factor affects the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_keyed(span text, uint64_t key)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio: its bits have no pattern */
    uint64_t h = key ^ text.size;
    for (size_t at = 0; at < text.size; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t left = text.size - at;
        memcpy(&word, text.data + at, left < sizeof word ? left : sizeof word);
        h = fold(h ^ word, odd) + key;
    }
    return fold(h, odd);
}
