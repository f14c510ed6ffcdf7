/* formats.cl - weights as they lie in a device's memory (kernels.h), and how eight neighbours become floats.
 *
 * A format is a constant wherever these are called, so what looks like a ladder here is one branch there. */

enum {
#define X(id, name) W_##id,
    DEVICE_FORMATS(X)
#undef X
};

/* Where a row's values begin. */
INLINE GLOBAL const uchar *row_of(int format, GLOBAL const uchar *w, uint row, uint columns)
{
    size_t values = (size_t)row * columns;
    return w + (format == W_F32 ? 4 * values : format == W_Q8_0 ? values : format == W_Q4_0 ? values / 2 : 2 * values);
}

/* And its scales, which only blocks have. */
INLINE GLOBAL const ushort *scales_of(int format, GLOBAL const ushort *scales, uint row, uint columns)
{
    return format == W_Q8_0 || format == W_Q4_0 ? scales + (size_t)row * (columns / 32) : scales;
}

/* What the values of the block that `at` is in are multiples of. */
INLINE float scale_at(int format, GLOBAL const ushort *scales, uint at)
{
    return format == W_Q8_0 || format == W_Q4_0 ? half_value(scales[at / 32]) : 1.0f;
}

/* Values at .. at + 7 of a row, at a multiple of 8, as multiples of their block's scale. In Q4_0 the low nibbles of a
 * block are its first 16 values. */
INLINE float8 unscaled_8(int format, GLOBAL const uchar *row, uint at)
{
    if (format == W_F32)
        return float8_load((GLOBAL const float *)row + at);
    if (format == W_F16)
        return float8_of_halves(row + 2 * at);
    if (format == W_BF16)
        return float8_of_bfloats(row + 2 * at);
    if (format == W_Q8_0)
        return float8_of_bytes(row + at);
    return float8_of_nibbles(row + at / 32 * 16 + at % 16, at / 16 % 2 * 4);
}

/* The values themselves; the multiplication is exact. */
INLINE float8 weights_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at)
{
    float8 values = unscaled_8(format, row, at);
    return format == W_Q8_0 || format == W_Q4_0 ? float8_times(values, float8_all(scale_at(format, scales, at)))
                                                : values;
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

/* The 32 values of a block, as bytes to be multiplied with others. */
INLINE block32 weights_block(int format, GLOBAL const uchar *row, uint block)
{
    return format == W_Q8_0 ? block32_load(row + 32 * (size_t)block) : block32_of_nibbles(row + 16 * (size_t)block);
}
