/* kbench.h - what the parts of kbench share: its settings and what everything is measured on. */
#ifndef BENCH_KBENCH_H
#define BENCH_KBENCH_H

#include "../src/kernel/kernel.h"

enum { MOST_THREADS = 256 };

typedef struct settings {
    const char *level, *format, *op; /* NULL: all */
    bool csv;
    unsigned threads;
    size_t tokens; /* of the products with many */
    size_t memory_bytes;
    double seconds; /* of one repeat */
} settings;

/* Prints why, and ends the program. */
void stop(const char *what);
void *new_or_stop(size_t bytes);
bool wanted(const char *choice, const char *name);
/* Finds the first level from *level on that this CPU has and that is wanted, and its kernels. False: there is none. */
bool next_level(const settings *set, size_t *level, kernels *k);
/* Uniform, 24 bits. */
uint32_t next_random(uint32_t *state);
void fill_values(float *x, size_t n, uint32_t seed);
/* Fills a block with encoded random values; in formats that can only be read with random bytes whose values are neither
 * tiny nor huge. */
void fill_block(uint8_t *block, number_format format, uint32_t *seed);
/* For qsort: doubles, the smallest first. */
int by_value(const void *a, const void *b);

typedef void work(void *context);
/* Seconds of one call: the best of some repeats, each of calls that together take set->seconds. */
double best_seconds(const settings *set, work *call, void *context);

/* Fills memory with random blocks, a part of them again and again. */
void fill_weights(number_format format, uint8_t *memory, size_t bytes);
/* One token's values, and the same in 8 bits. */
kernel_input input_new(const kernels *k, size_t columns);
void input_free(const kernel_input *x);

/* The feed-forward networks of one token, sparse: rows by lists, with and without fetching them beside other rows. */
void time_networks(const settings *set);
/* Their listed rows, as far apart as different orders of the neurons make them. */
void time_orders(const settings *set);
/* The kernels of those networks, one by one. */
void time_neurons(const settings *set);

#endif
