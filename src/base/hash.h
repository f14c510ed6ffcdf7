/* hash.h - 128 bits that tell one thing from another, in a text of 32 digits: for keys of files and fingerprints.
 *
 * FNV-1a (Fowler, Noll, Vo), twice from different beginnings. Enough against accidents; somebody who wants two things
 * to look alike can have that, so nothing that is trusted may rest on it. Bytes go in as they lie in memory
 * (little-endian), so that every machine that runs hearth agrees. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_TEXT_SIZE 33 /* 32 hexadecimal digits and the end */

typedef struct hash128 {
    uint64_t a, b;
} hash128;

hash128 hash_begin(void);
void hash_bytes(hash128 *h, const void *data, size_t size);
/* With its end, so that "ab", "c" is not "a", "bc". */
void hash_text(hash128 *h, const char *text);
void hash_number(hash128 *h, uint64_t number);
void hash_print(char out[HASH_TEXT_SIZE], const hash128 *h);

#endif
