/* kcheck.h - what the parts of kcheck share: guarded buffers, random numbers, and how a failure is told. */
#ifndef TESTS_KCHECK_H
#define TESTS_KCHECK_H

#include "../src/kernel/kernel.h"

/* Rounding error of one float32 operation, relative. */
#define EPSILON 0x1p-24

/* No format has more values in a block. */
#define MOST_BLOCK_VALUES 256

/* What is being checked right now; printed by the first failure of a kernel and by a trap behind a buffer. */
typedef struct check {
    const char *level, *op;
    char size[96];
    size_t kernels, cases, bad; /* checked so far */
    bool told;                  /* this kernel's first failure is printed */
} check;

/* c is what a trap names from now on. */
void check_watch(const check *c);

/* The next kernel. */
void check_begin(check *c, const char *op);

/* A buffer that ends where an unreadable page begins, so that reading or writing one byte too far traps. The bytes
 * before it hold a pattern that check_buffer looks at. */
typedef struct buffer_guarded {
    void *data;
    size_t size;
    unsigned char *map;
    size_t map_size;
} buffer_guarded;

buffer_guarded guarded_new(size_t size);
/* false where something wrote before the buffer. */
bool guarded_intact(const buffer_guarded *b);
void guarded_free(buffer_guarded *b);

/* 64 bits; every case can be repeated alone, since each starts from the seed and its own number. */
uint64_t random_bits(uint64_t *state);
/* Uniform in [0, n). */
size_t random_below(uint64_t *state, size_t n);
/* Uniform in [-1, 1). */
float random_value(uint64_t *state);
/* What vectors in models look like, and what they should not: mostly [-1, 1), some values 100 times larger, some
 * zero, some subnormal. */
float random_rough(uint64_t *state);

/* Where a block format's float16 scales lie in a block, the second being that of an offset; everything else may be any
 * byte. count 0: the format is not of that kind, or is not known here, and blocks are made by random_encoded(). */
typedef struct scale_places {
    size_t count, at[2];
} scale_places;
extern const scale_places scales_at[FORMAT_COUNT];
/* Fills a block: in float formats with random values, some of them infinite if `not_finite`; in block formats with random
 * bytes, such that unless `not_finite` all values are finite and of ordinary size. */
void random_encoded(uint8_t *block, number_format format, bool not_finite, uint64_t *state);

/* Each counts a comparison and returns whether it was good. Close: |got - want| <= bound, got is not NaN. */
bool expect_close(check *c, size_t at, double want, double got, double bound);
bool expect_same(check *c, const char *what, const void *want, const void *got, size_t size_bytes);
bool expect(check *c, const char *what, bool truth);

/* Parts of the program: each checks the kernels of k that are not those of `previous`. */
void check_products(check *c, const kernels *k, const kernels *previous, uint64_t seed);
void check_recurrence(check *c, const kernels *k, const kernels *previous, uint64_t seed);
void check_vectors(check *c, const kernels *k, const kernels *previous, uint64_t seed);
void check_neurons(check *c, const kernels *k, const kernels *previous, uint64_t seed);

#endif
