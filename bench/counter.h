/* counter.h - random numbers by position: number n of stream `key` is a function of both and of nothing else, so that
 * any thread can make any part of a matrix, in any order, and the bytes are the same (base/random.h). */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

#include "../src/base/random.h"

#include <stddef.h>

#define COUNTER_NORMALS 4096 /* different values of a normal number, see normal_table */

/* The key of a stream of its own for (a, b) within the stream `key`. */
static inline uint64_t counter_key(uint64_t key, uint64_t a, uint64_t b)
{
    return random_at(random_at(key, a), b);
}

/* Number n of the stream, below `limit` (at most 2^32). */
static inline uint32_t counter_below(uint64_t key, uint64_t n, uint64_t limit)
{
    return (uint32_t)((random_at(key, n) >> 32) * limit >> 32);
}

/* The COUNTER_NORMALS quantiles of the standard normal distribution at (i + 1/2) / COUNTER_NORMALS, scaled to variance
 * 1. A table costs a load where a formula costs a logarithm and a root, and needs nothing from libm. */
typedef struct normal_table {
    float value[COUNTER_NORMALS];
} normal_table;

/* Normal numbers first .. first + n - 1 of the stream, times scale; first and n are multiples of 4, since
 * 64 random bits make four numbers. */
static inline void counter_normals(const normal_table *table, uint64_t key, uint64_t first, size_t n, float scale,
                                   float *out)
{
    const unsigned mask = COUNTER_NORMALS - 1;
    for (size_t i = 0; i < n; i += 4) {
        uint64_t bits = random_at(key, (first + i) / 4);
        out[i] = scale * table->value[bits & mask];
        out[i + 1] = scale * table->value[bits >> 16 & mask];
        out[i + 2] = scale * table->value[bits >> 32 & mask];
        out[i + 3] = scale * table->value[bits >> 48 & mask];
    }
}

#endif
