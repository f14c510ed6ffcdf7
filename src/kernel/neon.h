/* neon.h - helpers that the NEON files share. All are `static inline`, like the helpers of the other levels: this
 * header is also compiled with the flags of block_dotprod.c.
 *
 * The algorithms of this folder use eight rows and eight lanes, but a NEON register holds four floats, so most
 * functions work on pairs of registers. */
#ifndef KERNEL_NEON_H
#define KERNEL_NEON_H

#include <arm_neon.h>

#define LANES   8  /* float32 values in a pair of registers */
#define VECTORS 16 /* such pairs                            */

typedef struct vector {
    float32x4_t low, high;
} vector;

typedef vector group_sums;
#define LEVEL neon
/* Tokens up to which rows are read end to end (streams.h) rather than in tiles, not measured. */
#define FEW_OF_BLOCKS    8
#define FEW_OF_FLOATS    8
#define MAY_HALVE_GROUPS false

#include "streams.h"

/* Products of block formats with float32 activations (float_neon.c), and with many tokens of 8 bits (tile_neon.h). */
kernel_product neon_product_decoded, neon_product_tiles, dotprod_product_tiles;

ALWAYS_INLINE vector vector_of(float value)
{
    return (vector){vdupq_n_f32(value), vdupq_n_f32(value)};
}

ALWAYS_INLINE vector vector_load(const float *at)
{
    return (vector){vld1q_f32(at), vld1q_f32(at + 4)};
}

ALWAYS_INLINE void vector_store(float *at, vector v)
{
    vst1q_f32(at, v.low);
    vst1q_f32(at + 4, v.high);
}

/* For x86, whose instructions take operands from memory. */
ALWAYS_INLINE vector in_register(vector v)
{
    return v;
}

/* NEON has no stores past the caches. */
ALWAYS_INLINE void vector_stream(float *at, vector v)
{
    vector_store(at, v);
}

ALWAYS_INLINE void vector_fence(void) {}

/* Loads the first n of 8 floats; the other lanes are 0. (NEON has no masked loads.) */
static inline vector load_first(const float *at, size_t n)
{
    if (n >= LANES)
        return vector_load(at);
    float values[LANES] = {0};
    memcpy(values, at, n * sizeof(*values));
    return vector_load(values);
}

static inline void store_first(float *at, size_t n, vector v)
{
    if (n >= LANES) {
        vector_store(at, v);
        return;
    }
    float values[LANES];
    vector_store(values, v);
    memcpy(at, values, n * sizeof(*values));
}

ALWAYS_INLINE vector halves8(uint16x8_t halves)
{
    float16x8_t v = vreinterpretq_f16_u16(halves);
    return (vector){vcvt_f32_f16(vget_low_f16(v)), vcvt_high_f32_f16(v)};
}

/* Loads the first n of 8 words of 16 bits; the others are 0. */
static inline uint16x8_t load_first_words(const void *at, size_t n)
{
    uint16_t words[LANES] = {0};
    memcpy(words, at, n < LANES ? n * sizeof(*words) : sizeof(words));
    return vld1q_u16(words);
}

/* Loads the first n of 8 float16 as float32; the other lanes are 0. */
static inline vector load_first_halves(const void *at, size_t n)
{
    return halves8(load_first_words(at, n));
}

/* A bfloat16 is the upper half of a float32. */
static inline vector load_first_bfloats(const void *at, size_t n)
{
    uint16x8_t words = load_first_words(at, n);
    return (vector){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16)),
                    vreinterpretq_f32_u32(vshll_high_n_u16(words, 16))};
}

/* Stores the first n of 8 floats as float16. */
static inline void store_first_halves(uint16_t *at, size_t n, vector v)
{
    uint16_t halves[LANES];
    vst1q_u16(halves, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high)));
    memcpy(at, halves, (n < LANES ? n : LANES) * sizeof(*at));
}

ALWAYS_INLINE float half_of(uint16_t bits)
{
    __fp16 half;
    memcpy(&half, &bits, sizeof(half));
    return (float)half;
}

ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return (vector){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}

ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return (vector){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}

ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return (vector){vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)};
}

ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return (vector){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector sum, vector a, vector b)
{
    return (vector){vfmaq_f32(sum.low, a.low, b.low), vfmaq_f32(sum.high, a.high, b.high)};
}

/* sum - a * b, rounded once. */
ALWAYS_INLINE vector vector_fms(vector sum, vector a, vector b)
{
    return (vector){vfmsq_f32(sum.low, a.low, b.low), vfmsq_f32(sum.high, a.high, b.high)};
}

ALWAYS_INLINE vector vector_divide(vector a, vector b)
{
    return (vector){vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}

ALWAYS_INLINE float sum_of(vector v)
{
    return vaddvq_f32(vaddq_f32(v.low, v.high));
}

/* Returns the sum of each of four registers, in order. */
ALWAYS_INLINE float32x4_t sum_of_4(const float32x4_t v[4])
{
    return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
}

/* Returns the sum of each of eight pairs, in order. */
ALWAYS_INLINE vector sum_of_8(const vector v[8])
{
    float32x4_t sum[8];
    for (size_t i = 0; i < 8; i++)
        sum[i] = vaddq_f32(v[i].low, v[i].high);
    return (vector){sum_of_4(sum), sum_of_4(sum + 4)};
}

/* Transposes 4 x 4 floats in place. */
ALWAYS_INLINE void transpose_4(float32x4_t v[4])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(v[0], v[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(v[0], v[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(v[2], v[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(v[2], v[3]));
    v[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    v[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    v[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    v[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

/* Transposes 8 x 8 floats in place. */
ALWAYS_INLINE void transpose_vectors(vector v[LANES])
{
    float32x4_t four[4][4]; /* the quarters: rows 0..3, columns 0..3 and 4..7; rows 4..7, likewise */
    for (size_t q = 0; q < 4; q++) {
        for (size_t i = 0; i < 4; i++)
            four[q][i] = q % 2 ? v[q / 2 * 4 + i].high : v[q / 2 * 4 + i].low;
        transpose_4(four[q]);
    }
    for (size_t i = 0; i < LANES; i++)
        v[i] = (vector){four[i / 4][i % 4], four[2 + i / 4][i % 4]};
}

/* Adds the four products of bytes 4 i to 4 i + 3 to lane i of the sum, in integers. This takes one instruction (sdot)
 * if the file is compiled for it, else five. The result is the same: a product of two bytes is at most 2^14 and fits 16
 * bits, and pairs of products are added in 32 bits. */
ALWAYS_INLINE int32x4_t add_dots(int32x4_t sum, int8x16_t a, int8x16_t b)
{
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(sum, a, b);
#else
    int32x4_t first = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    int32x4_t second = vpaddlq_s16(vmull_high_s8(a, b));
    return vaddq_s32(sum, vpaddq_s32(first, second));
#endif
}

/* Returns the eight 6-bit numbers that sub_scales() puts into a word, times `unit`. */
ALWAYS_INLINE vector scale_bytes(uint64_t packed, float unit)
{
    uint16x8_t numbers = vmovl_u8(vcreate_u8(packed));
    float32x4_t low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(numbers)));
    float32x4_t high = vcvtq_f32_u32(vmovl_high_u16(numbers));
    return (vector){vmulq_n_f32(low, unit), vmulq_n_f32(high, unit)};
}

/* Converts eight signed bytes to floats. */
ALWAYS_INLINE vector widen8(int8x8_t bytes)
{
    int16x8_t words = vmovl_s8(bytes);
    return (vector){vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), vcvtq_f32_s32(vmovl_high_s16(words))};
}

/* 32 weights of a block as signed bytes, from a column that is a multiple of 32: the integers that the scales are
 * multiplied with (Q4_K's nibbles are never negative). */
typedef struct bytes32 {
    int8x16_t low, high;
} bytes32;

ALWAYS_INLINE bytes32 bytes_q8_0(const block_q8_0 *block)
{
    return (bytes32){vld1q_s8(block->q), vld1q_s8(block->q + 16)};
}

ALWAYS_INLINE bytes32 bytes_q4_0(const block_q4_0 *block)
{
    uint8x16_t nibbles = vld1q_u8(block->nibbles);
    int8x16_t low = vreinterpretq_s8_u8(vandq_u8(nibbles, vdupq_n_u8(15)));
    int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(nibbles, 4));
    return (bytes32){vsubq_s8(low, vdupq_n_s8(8)), vsubq_s8(high, vdupq_n_s8(8))};
}

/* sub: which 32 of the block's 256. */
ALWAYS_INLINE bytes32 bytes_q4_k(const block_q4_k *block, size_t sub)
{
    const uint8_t *at = block->nibbles + sub / 2 * 32;
    int8x16_t down = vdupq_n_s8(sub % 2 ? -4 : 0);
    uint8x16_t low = vandq_u8(vshlq_u8(vld1q_u8(at), down), vdupq_n_u8(15));
    uint8x16_t high = vandq_u8(vshlq_u8(vld1q_u8(at + 16), down), vdupq_n_u8(15));
    return (bytes32){vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)};
}

/* Unpacks 16 weights of Q6_K: the lower four bits are at bit low_shift of the bytes at low_at, the upper two at bit
 * high_shift of the bytes at high_at. */
ALWAYS_INLINE int8x16_t six_bits(const uint8_t *low_at, int low_shift, const uint8_t *high_at, int high_shift)
{
    uint8x16_t low = vandq_u8(vshlq_u8(vld1q_u8(low_at), vdupq_n_s8((int8_t)-low_shift)), vdupq_n_u8(15));
    uint8x16_t high = vandq_u8(vshlq_u8(vld1q_u8(high_at), vdupq_n_s8((int8_t)-high_shift)), vdupq_n_u8(3));
    return vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(low, vshlq_n_u8(high, 4))), vdupq_n_s8(32));
}

/* Half a block is four quarters of 32 weights. The lower four bits of a quarter are the low or high nibbles of the
 * first or last 32 of the 64 bytes `low`; its upper two bits are two bits of each of the 32 bytes `high`. */
ALWAYS_INLINE bytes32 bytes_q6_k(const block_q6_k *block, size_t sub)
{
    size_t half = sub / 4, quarter = sub % 4;
    const uint8_t *low = block->low + half * 64 + quarter % 2 * 32, *high = block->high + half * 32;
    int low_shift = quarter / 2 ? 4 : 0, high_shift = (int)quarter * 2;
    return (bytes32){six_bits(low, low_shift, high, high_shift), six_bits(low + 16, low_shift, high + 16, high_shift)};
}

#include "vectors.h"

#endif
