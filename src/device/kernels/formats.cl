/* formats.cl - decodes weights from a device's memory (layouts in kernels.h): eight neighbours to floats, or 32 to
 * bytes.
 *
 * The format is a constant in every call, so the compiler keeps only one branch of each chain of conditions. */

enum {
#define X(id, name, values, value_bytes, scale_bytes) W_##id,
    DEVICE_FORMATS(X)
#undef X
};

/* Defines a function that returns a column of DEVICE_FORMATS for a format. */
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

/* Returns the beginning of a row's values. */
INLINE GLOBAL const uchar *row_of(int format, GLOBAL const uchar *w, uint row, uint columns)
{
    return w + (size_t)row * (columns / block_values(format)) * block_value_bytes(format);
}

/* Returns the beginning of a row's scales, which only block formats have. */
INLINE GLOBAL const ushort *scales_of(int format, GLOBAL const ushort *scales, uint row, uint columns)
{
    uint words = block_scale_bytes(format) / 2;
    return words ? scales + (size_t)row * (columns / block_values(format)) * words : scales;
}

/* ------------------------------------------------------------------ scales */

/* Returns whether all values of a block of 32 are multiples of one number. */
INLINE bool has_one_scale(int format)
{
    return format == W_Q8_0 || format == W_Q4_0 || format == W_MXFP4;
}

/* Returns whether a format's values are step * q - offset. */
INLINE bool has_offset(int format)
{
    return format == W_Q4_1 || format == W_Q4_K || format == W_Q5_K;
}

/* Two numbers that the 32 values of a block share: the scale, and 0. With an offset: step and offset. q6_K: the scales
 * of the first 16 values and of the others. All are exact. */
typedef struct two_scales {
    float first, second;
} two_scales;

/* Returns the scales of block `sub` of a row, counted in blocks of 32. */
INLINE two_scales scales_32(int format, GLOBAL const ushort *scales, uint sub)
{
    two_scales s;
    s.second = 0.0f;
    if (format == W_Q4_1) {
        s.first = half_value(scales[2 * sub]);
        s.second = -half_value(scales[2 * sub + 1]);
    } else if (has_offset(format)) {
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
        s.first = format == W_MXFP4 ? bfloat_value(scales[sub]) : half_value(scales[sub]);
    }
    return s;
}

/* ------------------------------------------------------------------ eight values */

/* Returns the factor for the results of unscaled_8 in the block of value `at`. */
INLINE float scale_at(int format, GLOBAL const ushort *scales, uint at)
{
    return has_one_scale(format) ? scales_32(format, scales, at / 32).first : 1.0f;
}

/* 16 bytes hold 32 values, the first 16 in the low nibbles. These macros give the byte of value `at` of a row, and the
 * shift of its nibble. */
#define NIBBLES_AT(at)    ((at) / 32 * 16 + (at) % 16)
#define NIBBLES_SHIFT(at) ((at) / 16 % 2 * 4)

INLINE float8 q4_offset_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    two_scales s = scales_32(format, scales, at / 32);
    return float8_fma(float8_all(s.first), float8_of_nibbles(row + NIBBLES_AT(at), NIBBLES_SHIFT(at), 0),
                      float8_all(-s.second));
}

INLINE float8 q5_K_8(GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    two_scales s = scales_32(W_Q5_K, scales, at / 32);
    GLOBAL const uchar *block = row + at / 256 * 160, *upper = block + 128 + at % 256 / 32 * 4;
    return float8_fma(float8_all(s.first),
                      float8_of_fives(block + NIBBLES_AT(at % 256), NIBBLES_SHIFT(at), upper, at / 4 % 8),
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

/* Returns the values at .. at + 7 of a row, divided by scale_at; `at` is a multiple of 8. */
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
    if (format == W_MXFP4)
        return float8_of_fp4(row + NIBBLES_AT(at), NIBBLES_SHIFT(at));
    if (format == W_Q5_K)
        return q5_K_8(row, scales, at);
    return format == W_Q6_K ? q6_K_8(row, scales, at) : q4_offset_8(format, row, scales, at);
}

/* Returns the values themselves; the multiplication is exact. */
INLINE float8 weights_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    float8 values = unscaled_8(format, row, scales, at);
    return has_one_scale(format) ? float8_times(values, float8_all(scale_at(format, scales, at))) : values;
}

/* Returns one value of a row of a float format; block formats are never read this way. */
INLINE float weight_1(int format, GLOBAL const uchar *row, uint at)
{
    if (format == W_F32)
        return ((GLOBAL const float *)row)[at];
    if (format == W_F16)
        return half_value(((GLOBAL const ushort *)row)[at]);
    return bfloat_value(((GLOBAL const ushort *)row)[at]);
}

/* ------------------------------------------------------------------ 32 values */

/* Returns the 32 integers of a block as bytes. Those of q4_0 are 8 too large, except on the host; block_sum corrects
 * this. */
INLINE block32 weights_block(int format, GLOBAL const uchar *row, uint sub)
{
    if (format == W_Q8_0)
        return block32_load(row + 32 * (size_t)sub);
    if (format == W_Q6_K) {
        GLOBAL const uchar *block = row + (size_t)(sub / 8) * 192;
        return block32_of_sixes(block + sub % 8 * 16, block + 128 + sub % 8 * 8);
    }
    if (format == W_Q5_K) {
        GLOBAL const uchar *block = row + (size_t)(sub / 8) * 160;
        return block32_of_fives(block + sub % 8 * 16, block + 128 + sub % 8 * 4);
    }
    if (format == W_MXFP4)
        return block32_of_fp4(row + 16 * (size_t)sub);
    return block32_of_nibbles(row + 16 * (size_t)sub, format == W_Q4_0 ? 8 : 0);
}

#if ON_CUDA
/* Returns the values 8 j .. 8 j + 7 of a block, divided by their scale; with an offset: before it is subtracted. */
INLINE float8 block_vector(int format, block32 block, uint j)
{
    uint first = block.v[2 * j], second = block.v[2 * j + 1];
    if (format == W_Q4_0)
        return float8_of_words(first, second, 8.0f);
    return has_offset(format) ? float8_of_words(first, second, 0.0f) : float8_of_signed(first, second);
}
#endif

/* Adds to `sum` the dot product of 32 weights and 32 activations. The activations are scale * q, and q_sum is the sum
 * of q. */
INLINE wide block_sum(int format, wide sum, block32 weights, two_scales s, block32 q, float scale, int q_sum)
{
    if (format == W_Q6_K)
        return wide_halves(sum, s.first * scale, s.second * scale, weights, q);
    sum = wide_block(sum, s.first * scale, block32_dot(weights, q), format == W_Q4_0 ? 8 * q_sum : 0);
    return has_offset(format) ? wide_add(sum, -(s.second * scale) * (float)q_sum) : sum;
}
