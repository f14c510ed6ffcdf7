/* decode.h - decodes weights of every format to float32, exactly as the decode functions of number do, at every vector
 * level: the part that levels share. decode_LEVEL.h includes it at its end, after it has defined
 *   WEIGHT_STEP     columns that are decoded in registers at a time, WEIGHT_VECTORS registers
 *   WEIGHT_SPAN     columns whose scales are prepared together, if no block is longer
 *   scales_NAME, decode_NAME   of the block formats, as in weight_decoder; for the scales of Q4_K only
 *   store_times_bytes   stores the eight bytes of a word, each multiplied with a float16
 *   floats_at, scale_of   convert LANES bytes, and a float16 */
#ifndef KERNEL_DECODE_H
#define KERNEL_DECODE_H

#define WEIGHT_SCALES 32 /* numbers that scales() prepares, at most */

/* How a format is decoded. Columns whose scales are prepared together are a span, which begins at `base`. Scales are
 * stored to memory, since instructions broadcast a memory operand at no cost. */
typedef struct weight_decoder {
    size_t block_values, block_bytes;
    /* Prepares the scales of the first `columns` columns of the span, whole blocks; NULL: the format has none. */
    void (*scales)(const uint8_t *base, size_t columns, float scales[WEIGHT_SCALES]);
    /* Decodes columns [column, column + n) of the span: n is WEIGHT_STEP or, where a row ends before that, 32 in block
     * formats and at most LANES in float formats, then zeros. */
    void (*decode)(const uint8_t *base, const float scales[WEIGHT_SCALES], size_t column, size_t n, vector *w);
} weight_decoder;

/* Calls X(level, ID, name, scales) for every format. */
#define WEIGHT_DECODERS(X, level)     \
    X(level, F32, f32, NULL)          \
    X(level, F16, f16, NULL)          \
    X(level, BF16, bf16, NULL)        \
    X(level, Q8_0, q8_0, scales_q8_0) \
    X(level, Q4_0, q4_0, scales_q4_0) \
    X(level, Q4_K, q4_k, scales_q4_k) \
    X(level, Q6_K, q6_k, scales_q6_k)
#define WEIGHT_DECODER(id, name, scales) \
    ((weight_decoder){FORMAT_VALUES_##id, FORMAT_BYTES_##id, scales, decode_##name})

/* Prepares eight scales, then eight offsets. */
ALWAYS_INLINE void scales_q4_k(const uint8_t *base, size_t columns, float *scales)
{
    (void)columns;
    const block_q4_k *block = (const void *)base;
    uint64_t steps, minima;
    sub_scales(block->scales, &steps, &minima);
    store_times_bytes(scales, steps, block->d);
    store_times_bytes(scales + 8, minima, block->dmin);
}

#define DECODE_FLOATS(name)                                                                                        \
    ALWAYS_INLINE void decode_##name(const uint8_t *base, const float *scales, size_t column, size_t n, vector *w) \
    {                                                                                                              \
        (void)scales;                                                                                              \
        for (size_t v = 0; v * LANES < n; v++)                                                                     \
            w[v] = load_##name(base, column + v * LANES, n > LANES ? LANES : n);                                   \
    }
DECODE_FLOATS(f32)
DECODE_FLOATS(f16)
DECODE_FLOATS(bf16)

/* Loads values as load_values does (vectors.h): LANES values, which lie in one block. */
ALWAYS_INLINE vector load_q8_0(const void *row, size_t i, size_t n)
{
    const block_q8_0 *block = (const block_q8_0 *)row + i / 32;
    (void)n;
    return vector_multiply(vector_of(scale_of(block->d)), floats_at(block->q + i % 32));
}

/* Converts n values, whole blocks. */
ALWAYS_INLINE void floats_of_q8_0(const void *from, size_t n, float *out)
{
    const block_q8_0 *block = from;
    for (float *end = out + n; out < end; out += 32, block++) {
        vector scale = vector_of(scale_of(block->d));
        UNROLLED
        for (size_t i = 0; i < 32; i += LANES)
            vector_store(out + i, vector_multiply(scale, floats_at(block->q + i)));
    }
}

/* Returns the columns of a span: whole blocks, and whole steps unless the row ends there. */
ALWAYS_INLINE size_t span_length(weight_decoder format)
{
    return format.block_values > WEIGHT_SPAN ? format.block_values : WEIGHT_SPAN;
}

/* Returns the offset of a column, which begins a block, from the start of its row. */
ALWAYS_INLINE size_t offset_of(size_t column, weight_decoder format)
{
    return column / format.block_values * format.block_bytes;
}

/* True for formats whose rows may end with fewer columns than a step, but whole blocks of 32. */
ALWAYS_INLINE bool may_end_early(weight_decoder format)
{
    return format.block_values > 1 && format.block_values < WEIGHT_STEP;
}

/* Decodes columns [column, column + columns) of a row of `all` columns that begins at `row`, the start of a block.
 * column is a multiple of WEIGHT_STEP; columns is one too unless the row ends there. */
ALWAYS_INLINE void decode_columns(const uint8_t *row, size_t all, size_t column, size_t columns, float *values,
                                  weight_decoder format)
{
    const size_t length = span_length(format);
    vector w[WEIGHT_VECTORS];
    float scales[WEIGHT_SCALES];
    for (size_t c = column, end = column + columns; c < end;) {
        size_t start = c - c % length, left = all - start, stop = end - start < length ? end : start + length;
        const uint8_t *base = row + offset_of(start, format);
        if (format.scales)
            format.scales(base, left < length ? left : length, scales);
        for (; c + WEIGHT_STEP <= stop; c += WEIGHT_STEP, values += WEIGHT_STEP) {
            format.decode(base, scales, c - start, WEIGHT_STEP, w);
            store_columns(w, WEIGHT_STEP, values);
        }
        for (; c < stop && may_end_early(format); c += 32, values += 32) {
            format.decode(base, scales, c - start, 32, w);
            store_columns(w, 32, values);
        }
        for (; c < stop && format.block_values == 1; c += LANES, values += LANES) {
            size_t n = stop - c < LANES ? stop - c : LANES;
            format.decode(base, scales, c - start, n, w);
            store_columns(w, n, values);
        }
    }
}

/* Converts 32 floats to float16. */
ALWAYS_INLINE void store_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i += LANES)
        store_first_halves(halves + i, LANES, vector_load(values + i));
}

#endif
