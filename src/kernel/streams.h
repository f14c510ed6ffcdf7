/* streams.h - the loop over rows with one token, the same at every level that has vectors: which rows are in flight,
 * and what is fetched ahead. Included by files with a level's flags; all `static inline`, so that nothing here becomes
 * a symbol that other code could be linked to. The level's header has defined group_sums before: GROUP floats as its
 * registers hold them. */
#ifndef KERNEL_STREAMS_H
#define KERNEL_STREAMS_H

#include "levels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define GROUP 8   /* rows in flight */
#define AHEAD 512 /* bytes by which a stream is fetched ahead; 256 to 1024 are as good */

/* Rows in flight, and for each the bytes to fetch while it is multiplied. */
typedef struct row_group {
    const uint8_t *now[GROUP];
    uintptr_t ahead[GROUP]; /* addresses, not pointers: they may lie behind the matrix */
} row_group;

/* The products of a group of rows with the only token of x. */
typedef group_sums dot_function(const row_group *rows, const kernel_input *x);

/* To be called at every step that multiplies `bytes` bytes of each row from byte `at`. */
ALWAYS_INLINE void fetch_ahead(const row_group *rows, size_t at, size_t bytes)
{
    for (size_t r = 0; r < GROUP; r++)
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(rows->ahead[r] + at + i));
}

/* The rows in flight are not neighbours but begin an eighth of the range apart, so that each is a stream of its own:
 * a CPU fetches ahead within a page, and one stream gets 12 GB/s out of a memory that gives 20 to eight (README.md).
 * Of listed rows the next one is fetched whole, since no CPU can guess where it is.
 * What a row gives does not depend on its company. */
ALWAYS_INLINE void rows_in_streams(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                   const kernel_input *x, float *y, dot_function *dot)
{
    size_t apart = (end - begin + GROUP - 1) / GROUP;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows;
        for (size_t r = 0; r < GROUP; r++) { /* a group that is not full repeats the last row */
            size_t now = i + r * apart, next = now + 1;
            rows.now[r] = listed_row(w, list, now < end ? now : end - 1);
            rows.ahead[r] =
                list ? (uintptr_t)listed_row(w, list, next < end ? next : end - 1) : (uintptr_t)rows.now[r] + AHEAD;
        }
        if (i == begin) /* the streams' first bytes, at once: what follows is fetched on the way */
            for (size_t r = 0; r < GROUP; r++)
                for (size_t k = 0; k < AHEAD && k < w->row_bytes; k += 64)
                    __builtin_prefetch(rows.now[r] + k);
        float sums[GROUP];
        group_sums in_registers = dot(&rows, x);
        memcpy(sums, &in_registers, sizeof(sums));
        for (size_t r = 0; r < GROUP && i + r * apart < end; r++)
            y[i + r * apart] = sums[r];
    }
}

/* The product of a block format at a level whose file has dot_NAME: by what the activations are. */
#define BLOCK_PRODUCT(name, level)                                                                        \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                         const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                                     \
        if (!x->q)                                                                                        \
            level##_product_decoded(w, list, begin, end, x, y, y_stride);                                 \
        else if (x->count != 1)                                                                           \
            level##_product_tiles(w, list, begin, end, x, y, y_stride);                                   \
        else                                                                                              \
            rows_in_streams(w, list, begin, end, x, y, dot_##name);                                       \
    }

#endif
