/* hash.c - FNV-1a with two states. */
#include "hash.h"

#include <stdio.h>
#include <string.h>

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
