/* kcheck_device_arrays.h - what the checks of vectors and of attention on devices share: arrays here, rooms there. */
#ifndef TESTS_KCHECK_DEVICE_ARRAYS_H
#define TESTS_KCHECK_DEVICE_ARRAYS_H

#include "kcheck_device.h"

#include <stdlib.h>
#include <string.h>

/* exp of a device: OpenCL allows 3 units in the last place (6 EPSILON), CUDA's base-2 instruction and what leads to it
 * need 6, too. */
#define EXP_ERROR (8 * EPSILON)
/* log(1 + exp(x)) of a device: the rounding of its series, nine terms of one sign, comes on top. */
#define SOFTPLUS_ERROR (EXP_ERROR + 16 * EPSILON)
/* tanh of a device: 1 - 2 / (exp(2 x) + 1), from x = 0.4 on. There the quotient is 0.62, off by 8 EPSILON of exp times
 * 0.69, its share of the sum, and by two operations; that is 4.7 EPSILON of a result of 0.38, and one rounding more. */
#define TANH_ERROR (16 * EPSILON)
/* Results this small may be flushed: 2^-126 is the smallest normal number. */
#define TINY 0x1p-125

/* A value in double precision, and how far a device may be off. */
typedef struct bounded {
    double value, error;
} bounded;

#define COUNT_OF(table) (sizeof(table) / sizeof(*(table)))

static inline float *rough_array(size_t n, uint64_t *rng)
{
    float *x = array_new(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        x[i] = random_rough(rng);
    return x;
}

static inline room float_room(device *d, const float *values, size_t n)
{
    return room_new(d, values, n * sizeof(float));
}

static inline room word_room(device *d, const uint32_t *values, size_t n)
{
    return room_new(d, values, n * sizeof(uint32_t));
}

static inline void *copy_of(const void *from, size_t size_bytes)
{
    void *copy = array_new(1, size_bytes + 1);
    memcpy(copy, from, size_bytes);
    return copy;
}

/* The content of a room; its guards are looked at, too. */
static inline void *content_of(check *c, const room *r)
{
    void *out = array_new(1, r->size + 1);
    room_read(c, r, out);
    return out;
}

/* Whether q, scales and sums are those of values [n], rounded as the scalar kernel does. */
static inline void expect_rounded(check *c, const float *values, size_t n, const room *q, const room *scales,
                                  const room *sums)
{
    size_t blocks = n / Q8_BLOCK;
    float *want_scales = array_new(blocks, sizeof *want_scales);
    int8_t *want = array_new(n, 1);
    int16_t *halves = array_new(n / Q8_SUM, sizeof *halves);
    int32_t *want_sums = array_new(blocks, sizeof *want_sums);
    kernels scalar;
    kernels_for(0, &scalar);
    scalar.quantize(values, n, want, want_scales, halves);
    for (size_t b = 0; b < blocks; b++)
        want_sums[b] = halves[2 * b] + halves[2 * b + 1];
    const room *rooms[] = {q, scales, sums};
    const void *wanted[] = {want, want_scales, want_sums};
    for (size_t i = 0; i < COUNT_OF(rooms); i++) {
        void *got = content_of(c, rooms[i]);
        expect_same(c, "what is rounded", wanted[i], got, rooms[i]->size);
        free(got);
    }
    free(want), free(want_scales), free(want_sums), free(halves);
}

static inline void free_rooms(room *rooms, size_t n)
{
    for (size_t i = 0; i < n; i++)
        room_free(&rooms[i]);
}

/* The rows of a step (some_rows), but every other case has one row, as in decoding. */
static inline uint32_t random_count(uint64_t *rng)
{
    return random_below(rng, 2) ? 1 : some_rows(rng);
}

/* Positions, cache and attention: a part of check_device_vectors. */
void check_device_attention(check *c, device *d, uint64_t *rng);
void check_device_choice(check *c, device *d, uint64_t *rng);
void check_device_summaries(check *c, device *d, uint64_t *rng);
/* Recurrent layers, those with decays by columns, several streams of the residual, and layers with experts: likewise. */
void check_device_recurrent(check *c, device *d, uint64_t *rng);
void check_device_columns(check *c, device *d, uint64_t *rng);
void check_device_streams(check *c, device *d, uint64_t *rng);
void check_device_experts(check *c, device *d, uint64_t *rng);

#endif
