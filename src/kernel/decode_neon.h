/* decode_neon.h - decodes weights of every format to float32 in registers, exactly as the decode functions of number
 * do: for kernels that add up rows (neuron_neon.c). The plan is that of decode_avx2.h. */
#ifndef KERNEL_DECODE_NEON_H
#define KERNEL_DECODE_NEON_H

#include "neon.h"

#define WEIGHT_STEP    32  /* columns that are decoded in registers at a time */
#define WEIGHT_SPAN    256 /* columns whose scales are prepared together: a multiple of every block */
#define WEIGHT_VECTORS (WEIGHT_STEP / LANES)

/* ---- blocks: 32 bytes with one scale, or two for 16 each ---- */

/* Multiplies the first 16 bytes by scale `low` and the last 16 by `high`. */
ALWAYS_INLINE void scale_32(bytes32 q, float low, float high, vector w[WEIGHT_VECTORS])
{
    w[0] = vector_multiply(widen8(vget_low_s8(q.low)), vector_of(low));
    w[1] = vector_multiply(widen8(vget_high_s8(q.low)), vector_of(low));
    w[2] = vector_multiply(widen8(vget_low_s8(q.high)), vector_of(high));
    w[3] = vector_multiply(widen8(vget_high_s8(q.high)), vector_of(high));
}

ALWAYS_INLINE void scales_of_blocks(const uint8_t *base, size_t n, size_t bytes, float *scales)
{
    for (size_t b = 0; b < n; b++) {
        uint16_t half;
        memcpy(&half, base + b * bytes, sizeof(half));
        scales[b] = half_of(half);
    }
}

#define DECODE_32(name)                                                                                            \
    ALWAYS_INLINE void scales_##name(const uint8_t *base, size_t columns, float *scales)                           \
    {                                                                                                              \
        scales_of_blocks(base, columns / 32, sizeof(block_##name), scales);                                        \
    }                                                                                                              \
    ALWAYS_INLINE void decode_##name(const uint8_t *base, const float *scales, size_t column, size_t n, vector *w) \
    {                                                                                                              \
        (void)n;                                                                                                   \
        const block_##name *block = (const void *)(base + column / 32 * sizeof(block_##name));                     \
        scale_32(bytes_##name(block), scales[column / 32], scales[column / 32], w);                                \
    }
DECODE_32(q8_0)
DECODE_32(q4_0)

/* Converts LANES bytes, and a scale. */
ALWAYS_INLINE vector floats_at(const int8_t *bytes)
{
    return widen8(vld1_s8(bytes));
}

ALWAYS_INLINE float scale_of(uint16_t half)
{
    return half_of(half);
}

ALWAYS_INLINE void store_times_bytes(float *at, uint64_t bytes, uint16_t half)
{
    vector_store(at, scale_bytes(bytes, half_of(half)));
}

/* Returns q * step - offset, rounded once. */
ALWAYS_INLINE vector step_8(int8x8_t q, vector step, vector offset)
{
    return vector_fma((vector){vnegq_f32(offset.low), vnegq_f32(offset.high)}, widen8(q), step);
}

ALWAYS_INLINE void decode_q4_k(const uint8_t *base, const float *scales, size_t column, size_t n, vector *w)
{
    (void)n;
    size_t sub = column / 32;
    bytes32 q = bytes_q4_k((const void *)base, sub);
    vector step = vector_of(scales[sub]), offset = vector_of(scales[8 + sub]);
    w[0] = step_8(vget_low_s8(q.low), step, offset);
    w[1] = step_8(vget_high_s8(q.low), step, offset);
    w[2] = step_8(vget_low_s8(q.high), step, offset);
    w[3] = step_8(vget_high_s8(q.high), step, offset);
}

/* Prepares sixteen scales. */
ALWAYS_INLINE void scales_q6_k(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    const block_q6_k *block = (const void *)base;
    int8x16_t numbers = vld1q_s8(block->scales);
    vector d = vector_of(half_of(block->d));
    vector_store(scales, vector_multiply(widen8(vget_low_s8(numbers)), d));
    vector_store(scales + 8, vector_multiply(widen8(vget_high_s8(numbers)), d));
}

ALWAYS_INLINE void decode_q6_k(const uint8_t *base, const float *scales, size_t column, size_t n, vector *w)
{
    (void)n;
    scale_32(bytes_q6_k((const void *)base, column / 32), scales[column / 16], scales[column / 16 + 1], w);
}

#include "decode.h"

#endif
