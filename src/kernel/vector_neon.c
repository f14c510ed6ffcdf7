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

/* Uses two pairs of registers, so that an addition need not wait for the one before it and errors stay small. */
static float sum_of_squares(const float *x, size_t n)
{
    vector sum[2] = {vector_of(0), vector_of(0)};
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (size_t k = 0; k < 2; k++) {
            vector value = vector_load(x + i + k * LANES);
            sum[k] = vector_fma(sum[k], value, value);
        }
    for (; i < n; i += LANES) {
        vector value = load_first(x + i, n - i);
        sum[0] = vector_fma(sum[0], value, value);
    }
    return sum_of(vector_add(sum[0], sum[1]));
}

static void rms_norm_neon(const float *x, const float *weight, float epsilon, size_t n, float *out)
{
    vector scale = vector_of(1 / sqrtf(sum_of_squares(x, n) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        vector value = vector_multiply(load_first(x + i, n - i), scale);
        store_first(out + i, n - i, vector_multiply(value, load_first(weight + i, n - i)));
    }
}

static void add_neon(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += LANES)
        store_first(y + i, n - i, vector_add(load_first(y + i, n - i), load_first(x + i, n - i)));
}

static void silu_neon(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    (void)threshold;
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i);
        vector below = vector_add(vector_of(1), exponent_neon((vector){vnegq_f32(g.low), vnegq_f32(g.high)}));
        vector value = {vdivq_f32(g.low, below.low), vdivq_f32(g.high, below.high)};
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

/* Returns `value` in the lanes where `fires` is set, 0 in the others. */
ALWAYS_INLINE float32x4_t where(uint32x4_t fires, float32x4_t value)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(value), fires));
}

static void relu_neon(const float *gate, const float *up, float threshold, size_t n, float *h)
{
    const float32x4_t limit = vdupq_n_f32(threshold);
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i), value = g;
        if (up)
            value = vector_multiply(g, load_first(up + i, n - i));
        value.low = where(vcgtq_f32(g.low, limit), value.low);
        value.high = where(vcgtq_f32(g.high, limit), value.high);
        store_first(h + i, n - i, value);
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

static void to_half_neon(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        vector values = load_first(x + i, left);
        uint16_t halves[LANES];
        vst1q_u16(halves, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(values.low), values.high)));
        memcpy(out + i, halves, left * sizeof(*out));
    }
}

/* Reads eight streams with prefetch, as products do (streams.h). */
static uint64_t read_neon(const void *data, size_t n)
{
    const uint8_t *at = data;
    size_t apart = n / 512 * 64, i = 0;
    uint64x2_t sum[GROUP];
    for (size_t k = 0; k < GROUP; k++)
        sum[k] = vdupq_n_u64(0);
    for (; i < apart; i += 64)
        for (size_t k = 0; k < GROUP; k++) {
            const uint8_t *from = at + k * apart + i;
            __builtin_prefetch(from + AHEAD);
            for (size_t part = 0; part < 64; part += 16)
                sum[k] = vaddq_u64(sum[k], vreinterpretq_u64_u8(vld1q_u8(from + part)));
        }
    for (i = GROUP * apart; i < n; i += 16)
        sum[0] = vaddq_u64(sum[0], vreinterpretq_u64_u8(vld1q_u8(at + i)));
    for (size_t k = 1; k < GROUP; k++)
        sum[0] = vaddq_u64(sum[0], sum[k]);
    return vaddvq_u64(sum[0]);
}

const kernels neon_vectors = {
    .quantize = quantize_neon,
    .rms_norm = rms_norm_neon,
    .add = add_neon,
    .activate = {[ACTIVATION_SILU] = silu_neon, [ACTIVATION_RELU] = relu_neon},
    .rope = rope_neon,
    .to_half = to_half_neon,
    .read = read_neon,
};
