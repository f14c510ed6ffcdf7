/* formats.cl - weights as they lie in a device's memory (kernels.h), and how eight neighbours become floats, or 32 of
 * them bytes.
 *
 * A format is a constant wherever these are called, so what looks like a ladder here is one branch there. */

enum {
#define X(id, name, values, value_bytes, scale_bytes) W_##id,
    DEVICE_FORMATS(X)
#undef X
};

/* A column of DEVICE_FORMATS. */
#define FORMAT_COLUMN(name, column)       \
    INLINE uint name(int format)          \
    {                                     \
        return DEVICE_FORMATS(column) 1u; \
    }
#define VALUES_OF(id, name, values, value_bytes, scale_bytes) format == W_##id ? (uint)(values):
#define VALUE_BYTES_OF(id, name, values, value_bytes, scale_bytes) format == W_##id ? (uint)(value_bytes):
#define SCALE_BYTES_OF(id, name, values, value_bytes, scale_bytes) format == W_##id ? (uint)(scale_bytes):
FORMAT_COLUMN(block_values, VALUES_OF)
FORMAT_COLUMN(block_value_bytes, VALUE_BYTES_OF)
FORMAT_COLUMN(block_scale_bytes, SCALE_BYTES_OF)

/* Where a row's values begin. */
INLINE GLOBAL const uchar *row_of(int format, GLOBAL const uchar *w, uint row, uint columns)
{
    return w + (size_t)row * (columns / block_values(format)) * block_value_bytes(format);
}

/* And its scales, which only blocks have. */
INLINE GLOBAL const ushort *scales_of(int format, GLOBAL const ushort *scales, uint row, uint columns)
{
    uint words = block_scale_bytes(format) / 2;
    return words ? scales + (size_t)row * (columns / block_values(format)) * words : scales;
}

/* ------------------------------------------------------------------ scales */

/* Whether all values of a block of 32 are multiples of one float16. */
INLINE bool has_one_scale(int format)
{
    return format == W_Q8_0 || format == W_Q4_0;
}

/* Two numbers that 32 values share, sub-block `sub` of a row. The scale, and nothing; q4_K: step and offset of step * q -
 * offset; q6_K: the scales of the first 16 and of the others. All are exact. */
typedef struct two_scales {
    float first, second;
} two_scales;

INLINE two_scales scales_32(int format, GLOBAL const ushort *scales, uint sub)
{
    two_scales s;
    s.second = 0.0f;
    if (format == W_Q4_K) {
        GLOBAL const ushort *of = scales + sub / 8 * 8;
        uint j = sub % 8, lower = (uint)of[2 + j / 2] >> j % 2 * 8, upper = (uint)of[6 + j / 4] >> j % 4 * 4;
        s.first = half_value(of[0]) * (float)((lower & 15u) | (upper & 3u) << 4);
        s.second = half_value(of[1]) * (float)((lower >> 4 & 15u) | (upper >> 2 & 3u) << 4);
    } else if (format == W_Q6_K) {
        GLOBAL const ushort *of = scales + sub / 8 * 9;
        uint both = of[1 + sub % 8];
        float d = half_value(of[0]);
        s.first = d * (float)(schar)(both & 255u);
        s.second = d * (float)(schar)(both >> 8);
    } else {
        s.first = half_value(scales[sub]);
    }
    return s;
}

/* ------------------------------------------------------------------ eight values */

/* What unscaled_8 of the block that `at` is in has to be multiplied with. */
INLINE float scale_at(int format, GLOBAL const ushort *scales, uint at)
{
    return has_one_scale(format) ? scales_32(format, scales, at / 32).first : 1.0f;
}

/* 16 bytes hold 32 values: the low nibbles are the first 16. Where the byte of value `at` of a row lies, and how far up. */
#define NIBBLES_AT(at)    ((at) / 32 * 16 + (at) % 16)
#define NIBBLES_SHIFT(at) ((at) / 16 % 2 * 4)

INLINE float8 q4_K_8(GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    two_scales s = scales_32(W_Q4_K, scales, at / 32);
    return float8_fma(float8_all(s.first), float8_of_nibbles(row + NIBBLES_AT(at), NIBBLES_SHIFT(at), 0),
                      float8_all(-s.second));
}

INLINE float8 q6_K_8(GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    two_scales s = scales_32(W_Q6_K, scales, at / 32);
    GLOBAL const uchar *block = row + at / 256 * 192, *upper = block + 128 + at % 256 / 16 * 4;
    return float8_times(
        float8_of_sixes(block + NIBBLES_AT(at % 256), NIBBLES_SHIFT(at), upper, at / 8 % 2 * 4),
        float8_all(at / 16 % 2 ? s.second : s.first));
}

/* Values at .. at + 7 of a row, at a multiple of 8, as multiples of scale_at. */
INLINE float8 unscaled_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    if (format == W_F32)
        return float8_load((GLOBAL const float *)row + at);
    if (format == W_F16)
        return float8_of_halves(row + 2 * at);
    if (format == W_BF16)
        return float8_of_bfloats(row + 2 * at);
    if (format == W_Q8_0)
        return float8_of_bytes(row + at);
    if (format == W_Q4_0)
        return float8_of_nibbles(row + NIBBLES_AT(at), NIBBLES_SHIFT(at), 8);
    return format == W_Q4_K ? q4_K_8(row, scales, at) : q6_K_8(row, scales, at);
}

/* The values themselves; the multiplication is exact. */
INLINE float8 weights_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    float8 values = unscaled_8(format, row, scales, at);
    return has_one_scale(format) ? float8_times(values, float8_all(scale_at(format, scales, at))) : values;
}

/* One value of a row of a float format; blocks are never read so. */
INLINE float weight_1(int format, GLOBAL const uchar *row, uint at)
{
    if (format == W_F32)
        return ((GLOBAL const float *)row)[at];
    if (format == W_F16)
        return half_value(((GLOBAL const ushort *)row)[at]);
    return bfloat_value(((GLOBAL const ushort *)row)[at]);
}

/* ------------------------------------------------------------------ 32 values */

/* 32 values as bytes to be multiplied with others: q; of q4_0 with or without the 8 that it is too large, see
 * block_sum. */
INLINE block32 weights_block(int format, GLOBAL const uchar *row, uint sub)
{
    if (format == W_Q8_0)
        return block32_load(row + 32 * (size_t)sub);
    if (format == W_Q6_K) {
        GLOBAL const uchar *block = row + (size_t)(sub / 8) * 192;
        return block32_of_sixes(block + sub % 8 * 16, block + 128 + sub % 8 * 8);
    }
    return block32_of_nibbles(row + 16 * (size_t)sub, format == W_Q4_0 ? 8 : 0);
}

/* sum + the product of 32 weights and 32 values, which are `scale` times q, whose sum is q_sum. */
INLINE wide block_sum(int format, wide sum, block32 weights, two_scales s, block32 q, float scale, int q_sum)
{
    if (format == W_Q6_K)
        return wide_halves(sum, s.first * scale, s.second * scale, weights, q);
    sum = wide_block(sum, s.first * scale, block32_dot(weights, q), format == W_Q4_0 ? 8 * q_sum : 0);
    return format == W_Q4_K ? wide_add(sum, -(s.second * scale) * (float)q_sum) : sum;
}
