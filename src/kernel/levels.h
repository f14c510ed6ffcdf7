/* levels.h - declarations that the files of this folder share: the partial tables, and access to rows. The memory
 * layouts of the block formats are in number/blocks.h.
 *
 * Everything here is `static inline` or a declaration. If a function with external linkage were compiled in a file
 * with AVX flags, the linker could use that copy in the whole program. */
#ifndef KERNEL_LEVELS_H
#define KERNEL_LEVELS_H

#include "../number/blocks.h"
#include "kernel.h"

#include <string.h>

/* Partial tables: the kernels of one file; the other members are NULL. They are data, because a function that fills a
 * table would be compiled with the file's flags and could trap on a CPU without those instructions. */
extern const kernels scalar_products, scalar_vectors, scalar_neurons, scalar_transposes;
extern const kernels avx2_bytes, avx2_floats, avx2_blocks, avx2_vectors, avx2_attention, avx2_neurons, avx2_transposes;
extern const kernels avx512_floats, avx512_blocks, avx512_vectors, avx512_attention, avx512_neurons, avx512_transposes;
extern const kernels avx2_copies, avx512vnni_bytes, avx512vnni_copies;
extern const kernels avxvnni_tiles, avx512vnni_blocks, avx512vbmi_neurons, avx512vbmi_bytes, avx512bf16_floats;
extern const kernels neon_floats, neon_blocks, neon_vectors, neon_attention, neon_neurons, dotprod_blocks;

/* Returns row i of the matrix, or the i-th row of the list unless it is NULL. */
static inline const uint8_t *listed_row(const matrix *w, const uint32_t *list, size_t i)
{
    return matrix_row(w, list ? list[i] : i);
}

/* The tokens of a tile, from a panel's first column on (panel.h): the word of token t and column k is at
 * values + t * stride + k. Meanwhile the tokens of the next tile are prefetched from address `next` on; 0: none. */
typedef struct tile_tokens {
    const float *values;
    size_t stride;
    uintptr_t next; /* an address, not a pointer: it may lie behind the last token */
    size_t next_stride;
} tile_tokens;

/* Returns the address to prefetch for token t of the next tile. */
static inline const void *next_token(const tile_tokens *x, size_t t, size_t column)
{
    return (const void *)(x->next + (t * x->next_stride + column) * sizeof(*x->values));
}

/* FORMAT_VALUES_ID and FORMAT_BYTES_ID: the size of a format's blocks as constants. */
enum {
#define X(id, name, gguf_type, file_type, values, bytes, ...) FORMAT_VALUES_##id = values, FORMAT_BYTES_##id = bytes,
    NUMBER_FORMATS(X)
#undef X
};

/* Defines the kernel_select of a level whose file has select_passing() and is_NAME(). */
#define SELECT_KERNEL(name, level)                                                                            \
    static size_t select_##name##_##level(const float *values, const uint32_t *ids, uint32_t first, size_t n, \
                                          float threshold, uint32_t *selected_ids, float *selected)           \
    {                                                                                                         \
        return select_passing(values, ids, first, n, threshold, selected_ids, selected, is_##name);           \
    }
#define SELECT_KERNELS(level)   \
    SELECT_KERNEL(above, level) \
    SELECT_KERNEL(from, level)  \
    SELECT_KERNEL(beyond, level)
#define SELECTED(level)                                                             \
    {                                                                               \
        [SELECT_ABOVE] = select_above_##level, [SELECT_FROM] = select_from_##level, \
        [SELECT_BEYOND] = select_beyond_##level                                     \
    }

/* Unpacks the eight scales and the eight minima of a Q4_K block, each to the eight bytes of a word. Of the twelve
 * bytes, the first four hold scales 0..3 in their low six bits, the next four minima 0..3. The last four hold the
 * low four bits of scales 4..7 in their low nibbles and those of minima 4..7 in their high nibbles; the upper two bits
 * of these are the top two bits of the first eight bytes. */
static inline void sub_scales(const uint8_t packed[12], uint64_t *scales, uint64_t *minima)
{
    uint32_t a, b, c;
    memcpy(&a, packed, 4);
    memcpy(&b, packed + 4, 4);
    memcpy(&c, packed + 8, 4);
    uint32_t scales_high = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
    uint32_t minima_high = ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u);
    *scales = (a & 0x3f3f3f3fu) | (uint64_t)scales_high << 32;
    *minima = (b & 0x3f3f3f3fu) | (uint64_t)minima_high << 32;
}

#endif
