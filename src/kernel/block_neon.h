/* block_neon.h - block formats times one token of 8 bits, included by block_neon.c and block_dotprod.c, which differ in
 * the instructions that the compiler may use (add_dots() in neon.h).
 *
 * The plan of block_avx2.c: eight rows share everything that depends only on the token. NEON multiplies signed bytes,
 * so a weight's offset is subtracted before, and the token's sums are needed only for the minima of Q4_K. Each row has
 * one register of four sums. */
#ifndef KERNEL_BLOCK_NEON_H
#define KERNEL_BLOCK_NEON_H

#include "tile_neon.h"

/* Multiplies 32 pairs of bytes; returns four partial sums as float32. */
ALWAYS_INLINE float32x4_t dot_32(bytes32 weights, bytes32 q)
{
    return vcvtq_f32_s32(add_dots(add_dots(vdupq_n_s32(0), weights.low, q.low), weights.high, q.high));
}

ALWAYS_INLINE bytes32 load_q(const int8_t *q)
{
    return (bytes32){vld1q_s8(q), vld1q_s8(q + 16)};
}

ALWAYS_INLINE void clear_fours(float32x4_t (*sum)[GROUP], size_t tokens)
{
    for (size_t r = 0; r < GROUP; r++)
        FOR_TOKENS sum[t][r] = vdupq_n_f32(0);
}

ALWAYS_INLINE group_sums sums_of_rows(const float32x4_t sum[GROUP])
{
    return (group_sums){sum_of_4(sum), sum_of_4(sum + 4)};
}

/* Defines the product of a format whose blocks are 32 bytes with one scale. */
#define DOT_32(name)                                                                                                \
    ALWAYS_INLINE void dot_##name(const row_group *rows, const kernel_input *x, size_t tokens, group_sums *sums)    \
    {                                                                                                               \
        float32x4_t sum[TOKENS_AT_ONCE][GROUP];                                                                     \
        clear_fours(sum, tokens);                                                                                   \
        for (size_t b = 0; b < x->columns / 32; b++) {                                                              \
            fetch_ahead(rows, b * sizeof(block_##name), sizeof(block_##name));                                      \
            for (size_t r = 0; r < GROUP; r++) {                                                                    \
                const block_##name *block = (const void *)(rows->now[r] + b * sizeof(block_##name));                \
                FOR_TOKENS sum[t][r] = vfmaq_n_f32(sum[t][r], dot_32(bytes_##name(block), load_q(x[t].q + b * 32)), \
                                                   half_of(block->d) * x[t].scales[b]);                             \
            }                                                                                                       \
        }                                                                                                           \
        FOR_TOKENS sums[t] = sums_of_rows(sum[t]);                                                                  \
    }
DOT_32(q8_0)
DOT_32(q4_0)

/* Adds one block. scale: of the token's eight blocks of 32. offset: scale times the sum of each block. */
ALWAYS_INLINE float32x4_t add_q4_k(float32x4_t sum, const block_q4_k *block, const int8_t *q, vector scale,
                                   vector offset)
{
    uint64_t scales, minima;
    sub_scales(block->scales, &scales, &minima);
    vector minimum = scale_bytes(minima, half_of(block->dmin));
    sum = vfmsq_f32(vfmsq_f32(sum, minimum.low, offset.low), minimum.high, offset.high);
    float d[8];
    vector_store(d, vector_multiply(scale_bytes(scales, half_of(block->d)), scale));
    for (size_t s = 0; s < 8; s++)
        sum = vfmaq_n_f32(sum, dot_32(bytes_q4_k(block, s), load_q(q + s * 32)), d[s]);
    return sum;
}

ALWAYS_INLINE void dot_q4_k(const row_group *rows, const kernel_input *x, size_t tokens, group_sums *sums)
{
    float32x4_t sum[TOKENS_AT_ONCE][GROUP];
    clear_fours(sum, tokens);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q4_k), sizeof(block_q4_k));
        vector scale[TOKENS_AT_ONCE], offset[TOKENS_AT_ONCE];
        FOR_TOKENS
        {
            const int16_t *of_16 = x[t].sums + b * 16;
            vector totals = {vcvtq_f32_s32(vpaddlq_s16(vld1q_s16(of_16))),
                             vcvtq_f32_s32(vpaddlq_s16(vld1q_s16(of_16 + 8)))};
            scale[t] = vector_load(x[t].scales + b * 8);
            offset[t] = vector_multiply(scale[t], totals);
        }
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_k *block = (const void *)(rows->now[r] + b * sizeof(block_q4_k));
            FOR_TOKENS sum[t][r] = add_q4_k(sum[t][r], block, x[t].q + b * 256, scale[t], offset[t]);
        }
    }
    FOR_TOKENS sums[t] = sums_of_rows(sum[t]);
}

/* Adds one block. scales: of the token's eight blocks of 32. */
ALWAYS_INLINE float32x4_t add_q6_k(float32x4_t sum, const block_q6_k *block, const int8_t *q, const float *scales)
{
    float d = half_of(block->d);
    for (size_t s = 0; s < 8; s++) {
        bytes32 weights = bytes_q6_k(block, s), values = load_q(q + s * 32);
        int32x4_t first = add_dots(vdupq_n_s32(0), weights.low, values.low);
        int32x4_t second = add_dots(vdupq_n_s32(0), weights.high, values.high);
        sum = vfmaq_n_f32(sum, vcvtq_f32_s32(first), d * (float)block->scales[2 * s] * scales[s]);
        sum = vfmaq_n_f32(sum, vcvtq_f32_s32(second), d * (float)block->scales[2 * s + 1] * scales[s]);
    }
    return sum;
}

ALWAYS_INLINE void dot_q6_k(const row_group *rows, const kernel_input *x, size_t tokens, group_sums *sums)
{
    float32x4_t sum[TOKENS_AT_ONCE][GROUP];
    clear_fours(sum, tokens);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q6_k), sizeof(block_q6_k));
        for (size_t r = 0; r < GROUP; r++) {
            const block_q6_k *block = (const void *)(rows->now[r] + b * sizeof(block_q6_k));
            FOR_TOKENS sum[t][r] = add_q6_k(sum[t][r], block, x[t].q + b * 256, x[t].scales + b * 8);
        }
    }
    FOR_TOKENS sums[t] = sums_of_rows(sum[t]);
}

#endif
