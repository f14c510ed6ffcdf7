/* decode_neon.h - decodes weights of every format to float32 in registers, exactly as the decode functions of number
 * do: for kernels that add up rows (neuron_neon.c). The plan is that of decode_avx2.h. */
#ifndef KERNEL_DECODE_NEON_H
#define KERNEL_DECODE_NEON_H

#include "neon.h"

#define WEIGHT_CHUNK  256 /* columns whose scales are prepared together: a multiple of every block */
#define WEIGHT_STEP   32  /* columns that are decoded in registers at a time */
#define WEIGHT_PAIRS  (WEIGHT_STEP / LANES)
#define WEIGHT_SCALES 16 /* numbers that scales() prepares */

/* How a format is decoded. `chunk` is the address where its columns begin, at the start of a block. */
typedef struct weight_decoder {
    size_t block_values, block_bytes;
    /* Prepares the scales of the blocks of `columns` columns, at most WEIGHT_CHUNK; NULL: the format has none. */
    void (*scales)(const uint8_t *chunk, size_t columns, float scales[WEIGHT_SCALES]);
    /* Decodes columns [column, column + n) of the chunk: WEIGHT_STEP, or in float formats at most LANES, then zeros. */
    void (*decode)(const uint8_t *chunk, const float scales[WEIGHT_SCALES], size_t column, size_t n, floats8 *w);
} weight_decoder;

/* ---- floats ---- */

ALWAYS_INLINE void decode_f32(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)scales;
    const float *at = (const void *)(chunk + 4 * column);
    for (size_t v = 0; v * LANES < n; v++)
        w[v] = load_first(at + v * LANES, n - v * LANES);
}

ALWAYS_INLINE void decode_f16(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)scales;
    for (size_t v = 0; v * LANES < n; v++)
        w[v] = load_first_halves(chunk + 2 * (column + v * LANES), n - v * LANES);
}

ALWAYS_INLINE void decode_bf16(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)scales;
    for (size_t v = 0; v * LANES < n; v++)
        w[v] = load_first_bfloats(chunk + 2 * (column + v * LANES), n - v * LANES);
}

/* ---- blocks: 32 bytes with one scale, or two for 16 each ---- */

/* Multiplies the first 16 bytes by scale `low` and the last 16 by `high`. */
ALWAYS_INLINE void scale_32(bytes32 q, float low, float high, floats8 w[WEIGHT_PAIRS])
{
    w[0] = multiply8(widen8(vget_low_s8(q.low)), all8(low));
    w[1] = multiply8(widen8(vget_high_s8(q.low)), all8(low));
    w[2] = multiply8(widen8(vget_low_s8(q.high)), all8(high));
    w[3] = multiply8(widen8(vget_high_s8(q.high)), all8(high));
}

ALWAYS_INLINE void scales_of_blocks(const uint8_t *chunk, size_t n, size_t bytes, float *scales)
{
    for (size_t b = 0; b < n; b++) {
        uint16_t half;
        memcpy(&half, chunk + b * bytes, sizeof(half));
        scales[b] = half_of(half);
    }
}

ALWAYS_INLINE void scales_q8_0(const uint8_t *chunk, size_t columns, float *scales)
{
    scales_of_blocks(chunk, columns / 32, sizeof(block_q8_0), scales);
}

ALWAYS_INLINE void decode_q8_0(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)n;
    const block_q8_0 *block = (const void *)(chunk + column / 32 * sizeof(block_q8_0));
    scale_32(bytes_q8_0(block), scales[column / 32], scales[column / 32], w);
}

ALWAYS_INLINE void scales_q4_0(const uint8_t *chunk, size_t columns, float *scales)
{
    scales_of_blocks(chunk, columns / 32, sizeof(block_q4_0), scales);
}

ALWAYS_INLINE void decode_q4_0(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)n;
    const block_q4_0 *block = (const void *)(chunk + column / 32 * sizeof(block_q4_0));
    scale_32(bytes_q4_0(block), scales[column / 32], scales[column / 32], w);
}

/* Prepares eight scales, then eight offsets. */
ALWAYS_INLINE void scales_q4_k(const uint8_t *chunk, size_t columns, float *scales)
{
    (void)columns;
    const block_q4_k *block = (const void *)chunk;
    uint64_t steps, minima;
    sub_scales(block->scales, &steps, &minima);
    store8(scales, scale_bytes(steps, half_of(block->d)));
    store8(scales + 8, scale_bytes(minima, half_of(block->dmin)));
}

/* Returns q * step - offset, rounded once. */
ALWAYS_INLINE floats8 step_8(int8x8_t q, floats8 step, floats8 offset)
{
    return fma8((floats8){vnegq_f32(offset.low), vnegq_f32(offset.high)}, widen8(q), step);
}

ALWAYS_INLINE void decode_q4_k(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)n;
    size_t sub = column / 32;
    bytes32 q = bytes_q4_k((const void *)chunk, sub);
    floats8 step = all8(scales[sub]), offset = all8(scales[8 + sub]);
    w[0] = step_8(vget_low_s8(q.low), step, offset);
    w[1] = step_8(vget_high_s8(q.low), step, offset);
    w[2] = step_8(vget_low_s8(q.high), step, offset);
    w[3] = step_8(vget_high_s8(q.high), step, offset);
}

/* Prepares sixteen scales. */
ALWAYS_INLINE void scales_q6_k(const uint8_t *chunk, size_t columns, float *scales)
{
    (void)columns;
    const block_q6_k *block = (const void *)chunk;
    int8x16_t numbers = vld1q_s8(block->scales);
    floats8 d = all8(half_of(block->d));
    store8(scales, multiply8(widen8(vget_low_s8(numbers)), d));
    store8(scales + 8, multiply8(widen8(vget_high_s8(numbers)), d));
}

ALWAYS_INLINE void decode_q6_k(const uint8_t *chunk, const float *scales, size_t column, size_t n, floats8 *w)
{
    (void)n;
    scale_32(bytes_q6_k((const void *)chunk, column / 32), scales[column / 16], scales[column / 16 + 1], w);
}

/* ---- every format ---- */

/*    id    decoder  scales       values and bytes of a block */
// clang-format off
#define WEIGHT_DECODERS(X)                 \
    X(F32,  f32,  NULL,          1,   4)   \
    X(F16,  f16,  NULL,          1,   2)   \
    X(BF16, bf16, NULL,          1,   2)   \
    X(Q8_0, q8_0, scales_q8_0,  32,  34)   \
    X(Q4_0, q4_0, scales_q4_0,  32,  18)   \
    X(Q4_K, q4_k, scales_q4_k, 256, 144)   \
    X(Q6_K, q6_k, scales_q6_k, 256, 210)
// clang-format on

#endif
