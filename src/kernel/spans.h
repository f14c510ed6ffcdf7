/* spans.h - what the products of formats that are unpacked to bytes share (bytes_avx2.c, bytes_avx512.h): the ends of rows,
 * and which loop a product takes. Columns are multiplied in spans of 256, whose scales are prepared together. */
#ifndef KERNEL_SPANS_H
#define KERNEL_SPANS_H

#include "streams.h"

#define SPAN  256 /* a multiple of every block */
#define PARTS 8   /* of 32 columns */

/* Stops the compiler from taking what was written to an array from registers again, element by element. */
#define KEEP_IN_MEMORY(array) __asm__("" : "+m"(array))

/* A copy of a span that ends before 256 columns, filled up with zeros. */
typedef struct short_span {
    size_t parts;
    int8_t q[SPAN];
    int16_t sums[2 * PARTS];
    float scales[PARTS];
    uint8_t weights[PARTS * sizeof(block_q8_0)]; /* no format has longer blocks */
} short_span;

/* Copies the token's parts from part `first` on. */
ALWAYS_INLINE void copy_token(short_span *s, const kernel_input *x, size_t first)
{
    memset(s, 0, sizeof(*s));
    s->parts = x->columns / 32 - first;
    memcpy(s->q, x->q + first * 32, s->parts * 32);
    memcpy(s->sums, x->sums + first * 2, s->parts * 2 * sizeof(*s->sums));
    memcpy(s->scales, x->scales + first, s->parts * sizeof(*s->scales));
}

/* Copies the same parts of a row, from its block `at` on. */
ALWAYS_INLINE void copy_weights(short_span *s, const uint8_t *at, size_t block_values, size_t block_bytes)
{
    memcpy(s->weights, at, s->parts * 32 / block_values * block_bytes);
}

/* Defines the product of a format with dot_NAME at a level; without tiles many tokens are taken as few are. may_halve: see
 * rows_in_streams. */
#define SPAN_PRODUCT(level, name, has_tiles, may_halve)                                                   \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                         const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                                     \
        if (!x->q)                                                                                        \
            level##_product_decoded(w, list, begin, end, x, y, y_stride);                                 \
        else if (x->count > FEW_OF_BLOCKS && (has_tiles))                                                 \
            level##_product_tiles(w, list, begin, end, x, y, y_stride);                                   \
        else                                                                                              \
            rows_in_streams(w, list, begin, end, x, y, y_stride, may_halve, dot_##name);                  \
    }

#endif
