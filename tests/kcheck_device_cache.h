/* kcheck_device_cache.h - what the checks of devices' kernels that read a cache of keys and values share: heads, rows and contexts of
 * any size, and a cache in pages for them. */
#ifndef TESTS_KCHECK_DEVICE_CACHE_H
#define TESTS_KCHECK_DEVICE_CACHE_H

#include "kcheck_device_arrays.h"

typedef struct shape {
    size_t heads, kv_heads, length, value_length, context, sequences, stride_q, stride_k;
    uint32_t count, sequence[CHECKED_ROWS], position[CHECKED_ROWS];
    /* Of the cache: its format, pages of each sequence and what they are, keys of a piece, of which so many positions together have
     * one; bytes of a piece, of a page, of all. */
    number_format format;
    size_t table, positions, together, piece, value_piece, page, cached;
    uint32_t *pages; /* [sequences][table] */
} shape;

/* Lengths of heads that are checked. */
enum { HEAD_LENGTHS = 13 };

/* Returns the same shape, of which keys are what values are. */
shape values_of(const shape *p);
/* Returns the same shape with one head of keys. */
shape with_one_key_head(shape p, uint64_t *rng);
/* Lays the cache out in pages, in any order: more than the sequences have. together: positions that have one key together. */
void lay_out_pages_together(shape *p, size_t together, uint64_t *rng);
/* The same, where each position has its key. */
void lay_out_pages(shape *p, uint64_t *rng);
/* Returns the s-th shape. shortens: values may be shorter than keys. */
shape random_shape(check *c, number_format format, size_t s, size_t most_context, bool shortens, uint64_t *rng);
/* Makes of a shape that of what was brought together: a sequence for each row, whose pages have nothing but its keys and follow one
 * another, with room for `most` of them and a page more. */
void lay_out_gathered(shape *p, size_t most, uint64_t *rng);
room step_of(device *d, const shape *p);
room pages_of(device *d, const shape *p);
/* Returns where the piece of a head begins that has a position, and which key of the piece is that of a position. */
size_t piece_at(const shape *p, size_t sequence, size_t kv_head, size_t position);
size_t key_of_piece(const shape *p, size_t position);
/* What a cache has of some positions: value i of a position. */
float cached(const shape *p, const void *cache, size_t sequence, size_t kv_head, size_t position, size_t i);
/* Copies a key from one cache to another of the same format: that of a head of a position of a sequence. */
typedef struct key_place {
    size_t sequence, head, position;
} key_place;
void copy_key(const shape *to_shape, void *to, key_place to_place, const shape *from_shape, const void *from,
              key_place from_place);
/* Returns a cache whose values are of ordinary size, whatever lies where. */
void *random_cache(const shape *p, uint64_t *rng);

/* A check of a kernel of which there is one for each format of the cache. */
typedef struct cache_check {
    const char *name;
    device_kernel kernel;
    number_format format;
    void (*run)(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng);
} cache_check;

/* The checks of all formats of a kernel. */
#define OF_ALL_FORMATS(kernel, run)                               \
    {#kernel "_f32", DEVICE_##kernel##_f32, FORMAT_F32, run},     \
        {#kernel "_f16", DEVICE_##kernel##_f16, FORMAT_F16, run}, \
    {                                                             \
#kernel "_q8_0", DEVICE_##kernel##_q8_0, FORMAT_Q8_0, run \
    }

/* Runs them one after the other. */
void run_cache_checks(check *c, device *d, const cache_check *all, size_t count, uint64_t *rng);

#endif
