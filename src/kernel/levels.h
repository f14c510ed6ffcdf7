/* levels.h - declarations that the files of this folder share: the partial tables, access to rows, and the memory
 * layouts of the block formats.
 *
 * Everything here is `static inline` or a declaration. If a function with external linkage were compiled in a file
 * with AVX flags, the linker could use that copy in the whole program. */
#ifndef KERNEL_LEVELS_H
#define KERNEL_LEVELS_H

#include "kernel.h"

#include <string.h>

/* Partial tables: the kernels of one file; the other members are NULL. They are data, because a function that fills a
 * table would be compiled with the file's flags and could trap on a CPU without those instructions. */
extern const kernels scalar_products, scalar_vectors, scalar_neurons, scalar_transposes;
extern const kernels avx2_floats, avx2_blocks, avx2_vectors, avx2_attention, avx2_neurons, avx2_transposes;
extern const kernels avx512_floats, avx512_blocks, avx512_vectors, avx512_attention, avx512_neurons, avx512_transposes;
extern const kernels avxvnni_tiles, avx512vnni_blocks, avx512vbmi_neurons;
extern const kernels neon_floats, neon_blocks, neon_vectors, neon_attention, neon_neurons, dotprod_blocks;

/* Returns row i of the matrix, or the i-th row of the list unless it is NULL. */
static inline const uint8_t *listed_row(const matrix *w, const uint32_t *list, size_t i)
{
    return matrix_row(w, list ? list[i] : i);
}

/* The float32 tokens of a tile, from a panel's first column on (panels.h): the value of token t and column k is at
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

/* Blocks as GGUF stores them: little-endian, of any alignment (hence packed).
 * Weight j of a block:
 *   Q8_0  d * q[j]
 *   Q4_0  d * (nibble - 8): low nibbles are weights 0..15, high ones 16..31
 *   Q4_K  8 sub-blocks of 32, d * scale * nibble - dmin * minimum; 32 bytes hold two sub-blocks, the first in
 *         the low nibbles; scales and minima of 6 bits are packed as sub_scales() reads them
 *   Q6_K  16 sub-blocks of 16, d * scale * (6 bits - 32); of each half (128 weights) 64 bytes `low` hold weights
 *         0..63 in their low and 64..127 in their high nibbles, and byte l of the 32 `high` holds the two upper bits of
 *         weights l, l + 32, l + 64, l + 96 */
typedef struct __attribute__((packed)) block_q8_0 {
    uint16_t d;
    int8_t q[32];
} block_q8_0;

typedef struct __attribute__((packed)) block_q4_0 {
    uint16_t d;
    uint8_t nibbles[16];
} block_q4_0;

typedef struct __attribute__((packed)) block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t nibbles[128];
} block_q4_k;

typedef struct __attribute__((packed)) block_q6_k {
    uint8_t low[128], high[64];
    int8_t scales[16];
    uint16_t d;
} block_q6_k;

_Static_assert(sizeof(block_q8_0) == 34 && sizeof(block_q4_0) == 18, "blocks have no padding");
_Static_assert(sizeof(block_q4_k) == 144 && sizeof(block_q6_k) == 210, "blocks have no padding");

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
