/* hash.h - a hash of 128 bits, printed as 32 hexadecimal digits: for file keys and fingerprints; and one of 64 bits for tables in
 * memory.
 *
 * Two FNV-1a hashes (Fowler, Noll, Vo) of 64 bits with different start values. Good enough against accidental
 * collisions but not cryptographic: an attacker can construct collisions, so nothing that needs trust may rely on it.
 * Bytes are hashed as they lie in memory (little-endian), so all machines that run hearth get the same result. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "text.h"

#include <stddef.h>
#include <stdint.h>

#define HASH_TEXT_SIZE 33 /* 32 hexadecimal digits and the terminating 0 */

typedef struct hash128 {
    uint64_t a, b;
} hash128;

hash128 hash_begin(void);
void hash_bytes(hash128 *h, const void *data, size_t size);
/* Adds a text and its terminating 0, so that "ab", "c" and "a", "bc" give different hashes. */
void hash_text(hash128 *h, const char *text);
void hash_number(hash128 *h, uint64_t number);
void hash_print(char out[HASH_TEXT_SIZE], const hash128 *h);

/* Returns a key for a table in memory whose texts come out of files, so that no file can be made of which all texts collide.
 * Where the system has no randomness yet it is made of the address. */
uint64_t hash_key(const void *address);
/* Returns the hash of a text under a key; all of its bits depend on all of both. It is another on every run. */
uint64_t hash_keyed(span text, uint64_t key);

#endif
