/* zip_build.h - zip archives made by hand, right ones and wrong ones, for tests and for the fuzzer. */
#ifndef TESTS_ZIP_BUILD_H
#define TESTS_ZIP_BUILD_H

#include "../src/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { ZIP_PARTS = 16 }; /* most of an archive */

/* The checksum of zip archives, bit by bit: the reflected polynomial of IEEE 802.3. */
static inline uint32_t checksum(const uint8_t *data, size_t size)
{
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
    }
    return ~sum;
}

typedef struct zip_part {
    const char *path;
    const void *data;
    size_t size;
    /* What is wrong with it. */
    uint16_t method;         /* instead of 0: stored          */
    uint16_t flags;          /* 1: encrypted                  */
    uint32_t wrong_sum;      /* added to its checksum         */
    uint32_t claimed;        /* bytes it is said to have      */
    const char *shared_with; /* the path whose bytes it shows */
} zip_part;

static inline void zip_put(buffer *b, const void *data, size_t size)
{
    if (size && !buffer_put(b, data, size))
        abort();
}

/* The low bytes of a number. */
static inline void zip_number(buffer *b, size_t size, uint64_t number)
{
    zip_put(b, &number, size);
}

/* What the local and the central head of an entry have in common. */
static inline void put_zip_head(buffer *b, const zip_part *p)
{
    uint32_t size = p->claimed ? p->claimed : (uint32_t)p->size;
    zip_number(b, 2, 10); /* version needed */
    zip_number(b, 2, p->flags);
    zip_number(b, 2, p->method);
    zip_number(b, 4, 0x00210000); /* 1st of January 1980 */
    zip_number(b, 4, checksum(p->data, p->size) + p->wrong_sum);
    zip_number(b, 4, size);
    zip_number(b, 4, size);
    zip_number(b, 2, strlen(p->path));
    zip_number(b, 2, 0); /* extra field */
}

static inline void put_zip(buffer *b, const zip_part *parts, size_t count)
{
    uint32_t offsets[ZIP_PARTS];
    if (count > ZIP_PARTS)
        abort();
    for (size_t i = 0; i < count; i++) {
        offsets[i] = (uint32_t)b->size;
        for (size_t k = 0; parts[i].shared_with && k < i; k++)
            if (strcmp(parts[k].path, parts[i].shared_with) == 0)
                offsets[i] = offsets[k];
        if (parts[i].shared_with)
            continue;
        zip_put(b, "PK\3\4", 4);
        put_zip_head(b, &parts[i]);
        zip_put(b, parts[i].path, strlen(parts[i].path));
        zip_put(b, parts[i].data, parts[i].size);
    }
    uint32_t directory = (uint32_t)b->size;
    for (size_t i = 0; i < count; i++) {
        zip_put(b, "PK\1\2", 4);
        zip_number(b, 2, 10); /* version made by */
        put_zip_head(b, &parts[i]);
        zip_put(b, (const char[10]){0}, 10); /* comment, disk, attributes */
        zip_number(b, 4, offsets[i]);
        zip_put(b, parts[i].path, strlen(parts[i].path));
    }
    uint32_t end = (uint32_t)b->size;
    zip_put(b, "PK\5\6\0\0\0\0", 8);
    zip_number(b, 2, count);
    zip_number(b, 2, count);
    zip_number(b, 4, end - directory);
    zip_number(b, 4, directory);
    zip_number(b, 2, 0);
}

#endif
