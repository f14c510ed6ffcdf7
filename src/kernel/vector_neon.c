/* vector_neon.c - kernels on vectors, 8 values at a time. */
#include "exponent_neon.h"
#include "quantize.h"

static void quantize_neon(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums)
{
    for (size_t b = 0; b < n / Q8_BLOCK; b++, x += Q8_BLOCK, q += Q8_BLOCK, sums += 2) {
        float32x4_t values[Q8_BLOCK / 4];
        uint32x4_t largest = vdupq_n_u32(0);
        for (size_t k = 0; k < Q8_BLOCK / 4; k++) {
            values[k] = vld1q_f32(x + 4 * k);
            largest = vmaxq_u32(largest, vreinterpretq_u32_f32(vabsq_f32(values[k])));
        }
        float inverse;
        scales[b] = block_scale(vmaxvq_u32(largest), &inverse);
        /* If inverse is 0 the values may be infinite or NaN, and all q must be 0. */
        int32x4_t good = vdupq_n_s32(inverse > 0 ? -1 : 0);
        int16x4_t words[Q8_BLOCK / 4];
        for (size_t k = 0; k < Q8_BLOCK / 4; k++)
            words[k] = vmovn_s32(vandq_s32(vcvtnq_s32_f32(vmulq_n_f32(values[k], inverse)), good));
        for (size_t k = 0; k < 2; k++) {
            const int16x4_t *from = words + 4 * k;
            int8x16_t bytes =
                vcombine_s8(vmovn_s16(vcombine_s16(from[0], from[1])), vmovn_s16(vcombine_s16(from[2], from[3])));
            vst1q_s8(q + 16 * k, bytes);
            sums[k] = vaddlvq_s8(bytes);
        }
    }
}

/* (a, b) becomes (a cos - b sin, b cos + a sin); the load separates a and b. */
static void rope_neon(float *x, size_t heads, size_t length, const float *cosine, const float *sine, size_t pairs)
{
    for (size_t h = 0; h < heads; h++, x += length) {
        size_t i = 0;
        for (; i + 4 <= pairs; i += 4) {
            float32x4_t c = vld1q_f32(cosine + i), s = vld1q_f32(sine + i);
            float32x4x2_t v = vld2q_f32(x + 2 * i);
            float32x4x2_t turned = {{vfmaq_f32(vnegq_f32(vmulq_f32(v.val[1], s)), v.val[0], c),
                                     vfmaq_f32(vmulq_f32(v.val[0], s), v.val[1], c)}};
            vst2q_f32(x + 2 * i, turned);
        }
        for (; i < pairs; i++) {
            float a = x[2 * i], b = x[2 * i + 1];
            x[2 * i] = fmaf(a, cosine[i], -(b * sine[i]));
            x[2 * i + 1] = fmaf(b, cosine[i], a * sine[i]);
        }
    }
}

#define SQUARE_SUMS 2 /* each of two registers */
#define READ_BYTES  16

ALWAYS_INLINE vector keep_above(vector g, vector limit, vector value)
{
    uint32x4_t low = vandq_u32(vreinterpretq_u32_f32(value.low), vcgtq_f32(g.low, limit.low));
    uint32x4_t high = vandq_u32(vreinterpretq_u32_f32(value.high), vcgtq_f32(g.high, limit.high));
    return (vector){vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)};
}

#include "vector_loops.h"

VECTOR_KERNELS(neon)
