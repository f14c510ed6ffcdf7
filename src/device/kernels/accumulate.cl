/* accumulate.cl - the weighted sum of rows of a matrix: the third step of a feed-forward network whose down matrix has
 * a row per neuron. Also reduce, which adds the parts of that sum to x, and read, which measures bandwidth.
 *
 * A lane owns eight neighbouring columns and goes through the rows of its part. So neighbouring lanes read neighbouring
 * memory, and no sum crosses lanes. More `parts` give work to more groups. */

/* Vectors of eight columns that a lane sums at once; on the host all of an item, so that rows are read sequentially. */
#define LANE_VECTORS (ON_HOST ? ACCUMULATE_COLUMNS_ITEM / 8 : 1)

/* Rows that are read at once, so that their loads overlap. */
#define ROWS_AT_ONCE 4

/* Adds `n` rows (a constant), starting with the i-th, to the sums of columns [column, column + 8 * count). */
INLINE void accumulate_some(int format, uint n, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                            GLOBAL const uint *list, uint i, GLOBAL const float *h, uint column, uint count,
                            uint columns, float8 *sums)
{
    GLOBAL const uchar *row[ROWS_AT_ONCE];
    GLOBAL const ushort *scale[ROWS_AT_ONCE];
    float factor[ROWS_AT_ONCE];
    UNROLL
    for (uint r = 0; r < n; r++) {
        uint at = list ? list[i + r] : i + r;
        row[r] = row_of(format, w, at, columns);
        scale[r] = scales_of(format, scales, at, columns);
        factor[r] = h[i + r];
    }
    uint together = ON_HOST && has_one_scale(format) ? 4 : 1; /* vectors that share a scale */
    for (uint k = 0; k < count; k += together, column += 8 * together) {
        float8 factors[ROWS_AT_ONCE];
        UNROLL
        for (uint r = 0; r < n; r++)
            factors[r] = float8_all(factor[r] * scale_at(format, scale[r], column));
        UNROLL
        for (uint j = 0; j < together; j++) {
            float8 values[ROWS_AT_ONCE];
            UNROLL
            for (uint r = 0; r < n; r++)
                values[r] = unscaled_8(format, row[r], scale[r], column + 8 * j);
            UNROLL
            for (uint r = 0; r < n; r++)
                sums[k + j] = float8_fma(factors[r], values[r], sums[k + j]);
        }
    }
}

/* Adds the rows [begin, end) of a token in order. */
INLINE void accumulate_rows(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const uint *list,
                            uint begin, uint end, GLOBAL const float *h, uint column, uint count, uint columns,
                            float8 *sums)
{
    uint i = begin;
    for (; i + ROWS_AT_ONCE <= end; i += ROWS_AT_ONCE)
        accumulate_some(format, ROWS_AT_ONCE, w, scales, list, i, h, column, count, columns, sums);
    for (; i < end; i++)
        accumulate_some(format, 1, w, scales, list, i, h, column, count, columns, sums);
}

/* Returns the same sum for a single column of a float format. */
INLINE float accumulate_column(int format, GLOBAL const uchar *w, GLOBAL const uint *list, uint begin, uint end,
                               GLOBAL const float *h, uint column, uint columns)
{
    float sum = 0.0f;
    for (uint i = begin; i < end; i++)
        sum = FMA(h[i], weight_1(format, row_of(format, w, list ? list[i] : i, columns), column), sum);
    return sum;
}

INLINE void accumulate(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                       GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const float *h, GLOBAL float *sums,
                       uint rows, uint columns, uint parts, uint group, uint groups)
{
    uint pieces = (columns + ACCUMULATE_COLUMNS_ITEM - 1) / ACCUMULATE_COLUMNS_ITEM, by_8 = COLUMNS_BY_8(columns);
    for (uint item = group; item < step->count * parts * pieces; item += groups) {
        uint piece = item % pieces, part = item / pieces % parts, t = item / pieces / parts;
        uint count = listed ? listed[t] : rows;
        uint begin = (uint)((ulong)part * count / parts), end = (uint)((ulong)(part + 1) * count / parts);
        GLOBAL const uint *ids = list ? list + (size_t)t * rows : list;
        GLOBAL const float *factors = h + (size_t)t * rows;
        GLOBAL float *out = sums + ((size_t)t * parts + part) * columns;
        uint left = piece * ACCUMULATE_COLUMNS_ITEM, right = least(left + ACCUMULATE_COLUMNS_ITEM, columns);
        uint middle = least(right, by_8 > left ? by_8 : left);
        for (uint column = left + LANE * 8; column < middle; column += LANES * 8 * LANE_VECTORS) {
            uint vectors = ON_HOST ? (middle - column) / 8 : 1;
            float8 total[LANE_VECTORS];
            for (uint k = 0; k < vectors; k++)
                total[k] = float8_all(0.0f);
            accumulate_rows(format, w, scales, ids, begin, end, factors, column, vectors, columns, total);
            for (uint k = 0; k < vectors; k++)
                float8_store(out + column + 8 * k, total[k]);
        }
        if (middle < right) /* the columns after the last whole vector; never in block formats */
            for (uint column = middle + LANE; column < right; column += LANES)
                out[column] = accumulate_column(format, w, ids, begin, end, factors, column, columns);
    }
}

#define X(id, name, values, value_bytes, scale_bytes)                                                           \
    KERNEL(accumulate_##name, P_ACCUMULATE)                                                                     \
    {                                                                                                           \
        accumulate(W_##id, step, w, scales, list, listed, h, sums, rows, columns, parts, GROUP, GROUPS);        \
    }
DEVICE_FORMATS(X)
#undef X

KERNEL(reduce, P_REDUCE)
{
    uint pieces = (columns + REDUCE_COLUMNS_ITEM - 1) / REDUCE_COLUMNS_ITEM;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * REDUCE_COLUMNS_ITEM;
        uint right = least(left + REDUCE_COLUMNS_ITEM, columns);
        for (uint c = left + LANE; c < right; c += LANES) {
            size_t at = (size_t)t * columns + c;
            float value = finish == FINISH_ADD ? x[at] : 0.0f, sum = 0.0f;
            for (uint p = 0; p < parts; p++)
                sum += sums[((size_t)t * parts + p) * columns + c];
            value = FMA(factor, sum, value);
            if (bias)
                value = FMA(factor, bias[c], value);
            if (answer)
                value = FMA(factor, answer[at], value);
            x[at] = value;
        }
    }
}

KERNEL(read, P_READ)
{
    LOCAL_ARRAY(uint, scratch, GROUP_SCRATCH);
    for (uint item = GROUP; item < total; item += GROUPS) {
        GLOBAL const uchar *from = data + (size_t)item * READ_BYTES;
        uint sum = 0;
        UNROLL_4
        for (uint at = LANE * 16; at < READ_BYTES; at += LANES * 16)
            sum += sum_of_16(from + at);
        sum = group_sum_uint(sum, scratch);
        if (LANE == 0)
            out[item] = sum;
    }
    (void)step;
}
