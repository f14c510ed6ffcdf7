/* products.cl - matrix-vector products: product, product_8, and quantize, which makes the input of product_8. Also
 * embed, which copies rows of a matrix.
 *
 * An item is PRODUCT_ROWS rows, so that each value of x is read once for several rows, and several loads overlap.
 * Neighbouring lanes read neighbouring memory of a row. Rows beyond the last one repeat it and are not stored. Without
 * lists, up to MANY_TOKENS tokens are computed together, and weights are read once for them. With lists, every token
 * needs other rows, so each is computed alone. Barriers are in loops and never in an `if`: PoCL duplicates the code
 * after such a barrier, so that eight of them in sequence make 256 copies. */

/* Returns the value to store for a sum; `before`: the value stored there now. */
INLINE float finished(float sum, float before, uint finish)
{
    if (finish == FINISH_ADD)
        return before + sum;
    if (finish == FINISH_RELU)
        return sum > 0.0f ? sum : 0.0f;
    return sum;
}

/* Adds up the PRODUCT_ROWS totals of each token over the group and stores the first `rows` of them. */
ONE_COPY void store_totals(float *totals, uint tokens, GLOBAL float *y, uint stride, uint rows, uint finish,
                           LOCAL float *scratch)
{
    NO_UNROLL
    for (uint t = 0; t < tokens; t++, totals += PRODUCT_ROWS, y += stride) {
        group_sums(totals, PRODUCT_ROWS, scratch);
        if (LANE == 0)
            for (uint r = 0; r < rows; r++)
                y[r] = finished(totals[r], finish == FINISH_ADD ? y[r] : 0.0f, finish);
    }
}

/* Adds up and stores the sums of `tokens` tokens, at most `most` (a constant). */
INLINE void store_rows(wide sums[][PRODUCT_ROWS], uint most, uint tokens, GLOBAL float *y, uint stride, uint rows,
                       uint finish, LOCAL float *scratch)
{
    float totals[MANY_TOKENS * PRODUCT_ROWS];
    UNROLL
    for (uint t = 0; t < most; t++)
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            totals[t * PRODUCT_ROWS + r] = wide_total(sums[t][r]);
    store_totals(totals, most == 1 ? 1 : tokens, y, stride, least(PRODUCT_ROWS, rows), finish, scratch);
}

/* Returns the r-th row of an item, through the list if there is one. */
INLINE uint listed_row(GLOBAL const uint *list, uint first, uint r, uint rows)
{
    uint place = least(first + r, rows - 1);
    return list ? list[place] : place;
}

/* Multiplies the first `tokens` tokens of x, at most `most` (a constant), with the rows [first, first + PRODUCT_ROWS),
 * of which there are `rows`. y points to the result of the first token and row `first`. */
INLINE void product_rows(int format, uint most, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                         GLOBAL const uint *list, uint first, uint rows, GLOBAL const float *x, uint tokens,
                         uint columns, GLOBAL float *y, uint stride, uint finish, LOCAL float *scratch)
{
    GLOBAL const uchar *row[PRODUCT_ROWS];
    GLOBAL const ushort *scale[PRODUCT_ROWS];
    for (uint r = 0; r < PRODUCT_ROWS; r++) {
        uint at = listed_row(list, first, r, rows);
        row[r] = row_of(format, w, at, columns);
        scale[r] = scales_of(format, scales, at, columns);
    }
    wide sums[MANY_TOKENS][PRODUCT_ROWS];
    for (uint t = 0; t < most; t++)
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            sums[t][r] = wide_zero();

    uint by_8 = COLUMNS_BY_8(columns);
    for (uint at = LANE * 8; at < by_8; at += LANES * 8) {
        float8 weights[PRODUCT_ROWS];
        UNROLL
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            weights[r] = weights_8(format, row[r], scale[r], at);
        UNROLL
        for (uint t = 0; t < most; t++)
            if (t < tokens) {
                float8 values = float8_load(x + (size_t)t * columns + at);
                UNROLL
                for (uint r = 0; r < PRODUCT_ROWS; r++)
                    sums[t][r] = wide_dot(sums[t][r], weights[r], values);
            }
    }
    for (uint at = by_8 + LANE; at < columns; at += LANES)
        for (uint r = 0; r < PRODUCT_ROWS; r++) {
            float weight = weight_1(format, row[r], at);
            UNROLL
            for (uint t = 0; t < most; t++)
                if (t < tokens)
                    sums[t][r] = wide_add(sums[t][r], weight * x[(size_t)t * columns + at]);
        }

    store_rows(sums, most, tokens, y, stride, rows - first, finish, scratch);
}

INLINE void product(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                    GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const float *x, GLOBAL float *y,
                    uint rows, uint columns, uint stride, uint finish, uint group, uint groups, LOCAL float *scratch)
{
    uint tokens = step->count, one_by_one = list || tokens == 1 ? tokens : 0;
    for (uint t = 0; t < one_by_one; t++) {
        uint wanted = list ? listed[t] : rows;
        for (uint first = group * PRODUCT_ROWS; first < wanted; first += groups * PRODUCT_ROWS)
            product_rows(format, 1, w, scales, list ? list + (size_t)t * stride : list, first, wanted,
                         x + (size_t)t * columns, 1, columns, y + (size_t)t * stride + first, stride, finish, scratch);
    }
    uint end = one_by_one ? 0 : rows;
    for (uint first = group * PRODUCT_ROWS; first < end; first += groups * PRODUCT_ROWS)
        for (uint t = 0; t < tokens; t += MANY_TOKENS)
            product_rows(format, MANY_TOKENS, w, scales, list, first, rows, x + (size_t)t * columns,
                         least(tokens - t, MANY_TOKENS), columns, y + (size_t)t * stride + first, stride, finish,
                         scratch);
}

#define X(id, name, values, value_bytes, scale_bytes)                                                          \
    KERNEL(product_##name, P_PRODUCT)                                                                          \
    {                                                                                                          \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                                            \
        product(W_##id, step, w, scales, list, listed, x, y, rows, columns, stride, finish, GROUP, GROUPS, scratch); \
    }
DEVICE_FORMATS(X)
#undef X

/* ------------------------------------------------------------------ with activations of 8 bits */

/* The same as product_rows for activations of 8 bits; a lane takes a block of 32 at a time. */
INLINE void product_8_rows(int format, uint most, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                           GLOBAL const uint *list, uint first, uint rows, GLOBAL const schar *q,
                           GLOBAL const float *q_scales, GLOBAL const int *q_sums, uint tokens, uint columns,
                           GLOBAL float *y, uint stride, uint finish, LOCAL float *scratch)
{
    GLOBAL const uchar *row[PRODUCT_ROWS];
    GLOBAL const ushort *scale[PRODUCT_ROWS];
    for (uint r = 0; r < PRODUCT_ROWS; r++) {
        uint at = listed_row(list, first, r, rows);
        row[r] = row_of(format, w, at, columns);
        scale[r] = scales_of(format, scales, at, columns);
    }
    wide sums[MANY_TOKENS][PRODUCT_ROWS];
    for (uint t = 0; t < most; t++)
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            sums[t][r] = wide_zero();

    uint blocks = columns / 32;
    for (uint b = LANE; b < blocks; b += LANES) {
        block32 weights[PRODUCT_ROWS];
        two_scales weight_scales[PRODUCT_ROWS];
        UNROLL
        for (uint r = 0; r < PRODUCT_ROWS; r++) {
            weights[r] = weights_block(format, row[r], b);
            weight_scales[r] = scales_32(format, scale[r], b);
        }
        UNROLL
        for (uint t = 0; t < most; t++)
            if (t < tokens) {
                size_t at = (size_t)t * blocks + b;
                block32 values = block32_load((GLOBAL const uchar *)q + 32 * at);
                float value_scale = q_scales[at];
                int q_sum = format == W_Q4_0 || format == W_Q4_K ? q_sums[at] : 0;
                UNROLL
                for (uint r = 0; r < PRODUCT_ROWS; r++)
                    sums[t][r] =
                        block_sum(format, sums[t][r], weights[r], weight_scales[r], values, value_scale, q_sum);
            }
    }

    store_rows(sums, most, tokens, y, stride, rows - first, finish, scratch);
}

INLINE void product_8(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                      GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const schar *q,
                      GLOBAL const float *q_scales, GLOBAL const int *q_sums, GLOBAL float *y, uint rows, uint columns,
                      uint stride, uint finish, uint group, uint groups, LOCAL float *scratch)
{
    uint tokens = step->count, one_by_one = list || tokens == 1 ? tokens : 0;
    size_t blocks = columns / 32;
    for (uint t = 0; t < one_by_one; t++) {
        uint wanted = list ? listed[t] : rows;
        for (uint first = group * PRODUCT_ROWS; first < wanted; first += groups * PRODUCT_ROWS)
            product_8_rows(format, 1, w, scales, list ? list + (size_t)t * stride : list, first, wanted,
                           q + t * blocks * 32, q_scales + t * blocks, q_sums + t * blocks, 1, columns,
                           y + (size_t)t * stride + first, stride, finish, scratch);
    }
    uint end = one_by_one ? 0 : rows;
    for (uint first = group * PRODUCT_ROWS; first < end; first += groups * PRODUCT_ROWS)
        for (uint t = 0; t < tokens; t += MANY_TOKENS)
            product_8_rows(format, MANY_TOKENS, w, scales, list, first, rows, q + t * blocks * 32,
                           q_scales + t * blocks, q_sums + t * blocks, least(tokens - t, MANY_TOKENS), columns,
                           y + (size_t)t * stride + first, stride, finish, scratch);
}

#define X(id, name, values, value_bytes, scale_bytes)                                                            \
    KERNEL(product_8_##name, P_PRODUCT_8)                                                                        \
    {                                                                                                            \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                                              \
        product_8(W_##id, step, w, scales, list, listed, q, q_scales, q_sums, y, rows, columns, stride, finish,  \
                  GROUP, GROUPS, scratch);                                                                       \
    }
DEVICE_BLOCK_FORMATS(X)
#undef X

/* Rounds a block of 32 values to 8 bits, with the arithmetic of kernel/quantize.h, bit for bit. Compares magnitudes as
 * integers, which have the order of the numbers, with infinity and NaN above all. */
INLINE void quantize_block(GLOBAL const float *x, GLOBAL schar *q, GLOBAL float *scale, GLOBAL int *sum)
{
    uint most = 0;
    for (uint i = 0; i < 32; i++) {
        uint magnitude = AS_UINT(x[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    float inverse = 0.0f, one = 0.0f, largest = AS_FLOAT(most);
    if (most >= 0x7f800000u) {
        one = AS_FLOAT(0x7fc00000u);
    } else if (most >= 0x03800000u) { /* 2^-120 */
        inverse = DIVIDE(127.0f, largest);
        one = DIVIDE(largest, 127.0f);
    }
    bool usable = inverse != 0.0f;
    int total = 0;
    for (uint i = 0; i < 32; i++) {
        int rounded = usable ? (int)RINT(x[i] * inverse) : 0;
        q[i] = (schar)rounded;
        total += rounded;
    }
    *scale = one;
    *sum = total;
}

KERNEL(quantize, P_QUANTIZE)
{
    uint blocks = step->count * (columns / 32);
    for (uint first = GROUP * QUANTIZE_BLOCKS; first < blocks; first += GROUPS * QUANTIZE_BLOCKS) {
        uint end = least(first + QUANTIZE_BLOCKS, blocks);
        for (uint b = first + LANE; b < end; b += LANES)
            quantize_block(x + (size_t)b * 32, q + (size_t)b * 32, q_scales + b, q_sums + b);
    }
}

/* ------------------------------------------------------------------ rows without a product */

/* Decodes the row of each token to float32. */
INLINE void embed(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                  GLOBAL float *x, uint columns, uint group, uint groups)
{
    for (uint t = group; t < step->count; t += groups) {
        uint token = step->token[t], by_8 = COLUMNS_BY_8(columns);
        GLOBAL const uchar *row = row_of(format, w, token, columns);
        GLOBAL const ushort *scale = scales_of(format, scales, token, columns);
        GLOBAL float *out = x + (size_t)t * columns;
        for (uint at = LANE * 8; at < by_8; at += LANES * 8)
            float8_store(out + at, weights_8(format, row, scale, at));
        for (uint at = by_8 + LANE; at < columns; at += LANES)
            out[at] = weight_1(format, row, at);
    }
}

#define X(id, name, values, value_bytes, scale_bytes)                    \
    KERNEL(embed_##name, P_EMBED)                                        \
    {                                                                    \
        embed(W_##id, step, w, scales, x, columns, GROUP, GROUPS);       \
    }
DEVICE_FORMATS(X)
#undef X
