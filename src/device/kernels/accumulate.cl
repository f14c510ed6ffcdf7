/* accumulate.cl - the weighted sum of rows of a matrix: the third step of a feed-forward network whose down matrix has
 * a row per neuron. Also reduce, which adds the parts of that sum to x, and read, which measures bandwidth.
 *
 * A lane owns neighbouring columns, so that neighbouring lanes read neighbouring memory. As many lanes as an item has such
 * columns form a *rank*; the ranks of a group take the rows of a part in turn, and their sums are added up in local memory
 * at the end. More `parts` give work to more groups. */

/* Vectors of eight columns that a lane sums at once: on the host all of an item, so that rows are read sequentially; on CUDA
 * the 32 of a block, so that addresses, scales and factors are worked out once for all of them. */
#define MOST_VECTORS (ON_HOST ? ACCUMULATE_COLUMNS_ITEM / 8 : ON_CUDA ? 4 : 1)
INLINE uint lane_vectors(int format)
{
    return ON_CUDA && block_values(format) == 1 ? 1 : MOST_VECTORS;
}

/* Rows that are read at once, so that their loads overlap. */
#define ROWS_AT_ONCE   (ON_CUDA ? 8 : 4)
#define BLOCKS_AT_ONCE 4

/* The most ranks of a group, and the floats of local memory for the sums of one: a lane's are followed by one that is not used,
 * so that lanes write to different banks. */
#define MOST_RANKS  (MOST_LANES >= 16 ? 16 : MOST_LANES)
#define RANK_FLOATS (ACCUMULATE_COLUMNS_ITEM / 8 * 9)

/* Adds the rows of the places i, i + stride, ..., n of them, to the sums of columns [column, column + 8 * count); n (a constant) is
 * at most ROWS_AT_ONCE. Places from `end` on repeat the last one and count as zero. */
INLINE void accumulate_some(int format, uint n, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                            GLOBAL const uint *list, uint i, uint stride, uint end, GLOBAL const float *h, uint column,
                            uint count, uint columns, float8 *sums)
{
    GLOBAL const uchar *row[ROWS_AT_ONCE];
    GLOBAL const ushort *scale[ROWS_AT_ONCE];
    float factor[ROWS_AT_ONCE];
    UNROLL
    for (uint r = 0; r < n; r++) {
        uint place = least(i + r * stride, end - 1), at = list ? list[place] : place;
        row[r] = row_of(format, w, at, columns);
        scale[r] = scales_of(format, scales, at, columns);
        factor[r] = i + r * stride < end ? h[place] : 0.0f;
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

#if ON_CUDA
/* The same for one block of 32 columns of BLOCKS_AT_ONCE rows. */
INLINE void accumulate_blocks(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const uint *list,
                              uint i, uint stride, uint end, GLOBAL const float *h, uint column, uint columns,
                              float8 *sums)
{
    block32 block[BLOCKS_AT_ONCE];
    two_scales scale[BLOCKS_AT_ONCE];
    float factor[BLOCKS_AT_ONCE];
    UNROLL
    for (uint r = 0; r < BLOCKS_AT_ONCE; r++) {
        uint place = least(i + r * stride, end - 1), at = list ? list[place] : place;
        block[r] = weights_block(format, row_of(format, w, at, columns), column / 32);
        scale[r] = scales_32(format, scales_of(format, scales, at, columns), column / 32);
        factor[r] = i + r * stride < end ? h[place] : 0.0f;
    }
    UNROLL
    for (uint r = 0; r < BLOCKS_AT_ONCE; r++) {
        float factors[2] = {factor[r] * scale[r].first, factor[r] * scale[r].second};
        if (has_offset(format)) /* it is subtracted first: afterwards, a small sum would be left of two large ones */
            factors[0] = factor[r];
        UNROLL
        for (uint j = 0; j < 4; j++) {
            float8 values = block_vector(format, block[r], j);
            if (has_offset(format))
                values = float8_fma(float8_all(scale[r].first), values, float8_all(-scale[r].second));
            sums[j] = float8_fma(float8_all(factors[format == W_Q6_K ? j / 2 : 0]), values, sums[j]);
        }
    }
}
#endif

/* Adds the rows of the places begin, begin + stride, ... before `end` of a token in order. */
INLINE void accumulate_rows(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const uint *list,
                            uint begin, uint stride, uint end, GLOBAL const float *h, uint column, uint count,
                            uint columns, float8 *sums)
{
#if ON_CUDA
    if (lane_vectors(format) == 4) {
        for (uint i = begin; i < end; i += BLOCKS_AT_ONCE * stride)
            accumulate_blocks(format, w, scales, list, i, stride, end, h, column, columns, sums);
        return;
    }
#endif
    uint i = begin, beyond = ON_CUDA ? 0 : (ROWS_AT_ONCE - 1) * stride;
    for (; i + beyond < end; i += ROWS_AT_ONCE * stride)
        accumulate_some(format, ROWS_AT_ONCE, w, scales, list, i, stride, end, h, column, count, columns, sums);
    for (; i < end; i += stride) /* a GPU waits less for a few rows too many than for one after the other */
        accumulate_some(format, 1, w, scales, list, i, stride, end, h, column, count, columns, sums);
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

/* Returns the first row of a part; the last parts may be empty. */
INLINE uint part_begin(uint part, uint rows, uint parts)
{
    return least(part * ((rows + parts - 1) / parts), rows);
}

/* Returns where the sum of a column lies in local memory, if lanes have `each` columns. */
INLINE uint padded(uint column, uint each)
{
    return column + column / each;
}

INLINE void accumulate(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                       GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const float *h, GLOBAL float *sums,
                       uint rows, uint columns, uint parts, uint group, uint groups, LOCAL float *partial)
{
    uint vectors = lane_vectors(format), whole_rank = ACCUMULATE_COLUMNS_ITEM / 8 / vectors;
    uint rank_lanes = least(LANES, whole_rank), ranks = LANES < whole_rank ? 1 : least(LANES / whole_rank, MOST_RANKS);
    uint rank = LANES < whole_rank ? 0 : LANE / whole_rank, member = LANES < whole_rank ? LANE : LANE % whole_rank;
    uint pieces = (columns + ACCUMULATE_COLUMNS_ITEM - 1) / ACCUMULATE_COLUMNS_ITEM, by_8 = COLUMNS_BY_8(columns);
    for (uint item = group; item < step->count * parts * pieces; item += groups) {
        uint piece = item % pieces, part = item / pieces % parts, t = item / pieces / parts;
        uint count = listed ? listed[t] : rows;
        uint begin = part_begin(part, count, parts), end = part_begin(part + 1, count, parts);
        GLOBAL const uint *ids = list ? list + (size_t)t * rows : list;
        GLOBAL const float *factors = h + (size_t)t * rows;
        GLOBAL float *out = sums + ((size_t)t * parts + part) * columns;
        uint left = piece * ACCUMULATE_COLUMNS_ITEM, right = least(left + ACCUMULATE_COLUMNS_ITEM, columns);
        uint middle = least(right, by_8 > left ? by_8 : left);
        uint own = rank < ranks ? left + member * 8 * vectors : middle;
        for (uint column = own; column < middle; column += rank_lanes * 8 * vectors) {
            uint n = ON_HOST ? (middle - column) / 8 : vectors;
            float8 total[MOST_VECTORS];
            UNROLL_4
            for (uint k = 0; k < n; k++)
                total[k] = float8_all(0.0f);
            accumulate_rows(format, w, scales, ids, begin + rank, ranks, end, factors, column, n, columns, total);
            UNROLL_4
            for (uint k = 0; k < n; k++)
                if (ranks == 1)
                    float8_store(out + column + 8 * k, total[k]);
                else
                    local_store8(partial + rank * RANK_FLOATS + padded(column - left, 8 * vectors) + 8 * k, total[k]);
        }
        BARRIER();
        uint together = !ON_HOST && ranks > 1 && middle > left ? middle - left : 0;
        for (uint c = LANE; c < together; c += LANES) {
            float sum = 0.0f;
            for (uint of = 0; of < ranks; of++)
                sum += partial[of * RANK_FLOATS + padded(c, 8 * vectors)];
            out[left + c] = sum;
        }
        BARRIER();          /* before the next item overwrites the sums */
        if (middle < right) /* the columns after the last whole vector; never in block formats */
            for (uint column = middle + LANE; column < right; column += LANES)
                out[column] = accumulate_column(format, w, ids, begin, end, factors, column, columns);
    }
}

#if ON_CUDA
/* Fetches the group's columns of the first rows of its part, a row a lane, unless lists choose them. */
INLINE void fetch_accumulate(int format, const uchar *w, const uint *listed, uint rows, uint columns, uint parts)
{
    uint pieces = (columns + ACCUMULATE_COLUMNS_ITEM - 1) / ACCUMULATE_COLUMNS_ITEM, part = GROUP / pieces % parts;
    uint left = GROUP % pieces * ACCUMULATE_COLUMNS_ITEM, right = least(left + ACCUMULATE_COLUMNS_ITEM, columns);
    uint row = part_begin(part, rows, parts) + LANE, each = block_values(format), bytes = block_value_bytes(format);
    const uchar *from = row_of(format, w, row, columns);
    if (!listed && row < part_begin(part + 1, rows, parts) && LANE < MOST_AHEAD / (ACCUMULATE_COLUMNS_ITEM / each * bytes))
        fetch_ahead(from + (size_t)left / each * bytes, from + (size_t)right / each * bytes);
}
#endif

#define X(id, name, values, value_bytes, scale_bytes)                                                             \
    KERNEL_AHEAD(accumulate_##name, P_ACCUMULATE, fetch_accumulate(W_##id, w, listed, rows, columns, parts))      \
    {                                                                                                             \
        LOCAL_ARRAY(float, partial, MOST_RANKS *RANK_FLOATS);                                                     \
        accumulate(W_##id, step, w, scales, list, listed, h, sums, rows, columns, parts, GROUP, GROUPS, partial); \
    }
DEVICE_FORMATS(X)
#undef X

/* What reduce and read read at once, without a condition between, so that the loads overlap: places beyond the last repeat it
 * and count as zero. */
#define PARTS_AT_ONCE (ON_HOST ? 1 : 4)
#define READS_AT_ONCE (ON_HOST ? 4 : 8)

/* Here a rank has a lane for each column of an item, and the ranks share the parts. */
KERNEL(reduce, P_REDUCE)
{
    LOCAL_ARRAY(float, partial, MOST_LANES); /* [ranks][width] */
    uint width = least(LANES, REDUCE_COLUMNS_ITEM);
    uint ranks = LANES < REDUCE_COLUMNS_ITEM ? 1 : LANES / REDUCE_COLUMNS_ITEM;
    uint rank = LANES < REDUCE_COLUMNS_ITEM ? 0 : LANE / REDUCE_COLUMNS_ITEM, member = LANE - rank * width;
    uint pieces = (columns + REDUCE_COLUMNS_ITEM - 1) / REDUCE_COLUMNS_ITEM;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * REDUCE_COLUMNS_ITEM;
        uint right = least(left + REDUCE_COLUMNS_ITEM, columns);
        for (uint base = left; base < right; base += width) {
            uint c = base + member, of = c < right ? ranks : 0; /* beyond the columns nobody adds */
            size_t at = (size_t)t * columns + c;
            bool stores = of > 0 && rank == 0;
            float before = stores && finish == FINISH_ADD ? x[at] : 0.0f, sum = 0.0f;
            float added = stores && bias ? bias[c] : 0.0f, answered = stores && answer ? answer[at] : 0.0f;
            for (uint p = rank < of ? rank : parts; p < parts; p += ranks * PARTS_AT_ONCE) {
                UNROLL
                for (uint k = 0; k < PARTS_AT_ONCE; k++) {
                    uint part = p + k * ranks;
                    float value = sums[((size_t)t * parts + least(part, parts - 1)) * columns + c];
                    sum += part < parts ? value : 0.0f;
                }
            }
            partial[LANE] = sum;
            BARRIER();
            for (uint r = 1; stores && r < ranks; r++)
                sum += partial[r * width + LANE];
            if (stores)
                x[at] = FMA(factor, answered, FMA(factor, added, FMA(factor, sum, before)));
            BARRIER(); /* before the next columns overwrite the sums */
        }
    }
}

KERNEL(read, P_READ)
{
    LOCAL_ARRAY(uint, scratch, GROUP_SCRATCH);
    for (uint item = GROUP; item < total; item += GROUPS) {
        GLOBAL const uchar *from = data + (size_t)item * READ_BYTES;
        uint sum = 0;
        for (uint begin = LANE * 16; begin < READ_BYTES; begin += READS_AT_ONCE * LANES * 16) {
            uint values[READS_AT_ONCE];
            UNROLL
            for (uint k = 0; k < READS_AT_ONCE; k++)
                values[k] = sum_of_16(from + least(begin + k * LANES * 16, READ_BYTES - 16));
            UNROLL
            for (uint k = 0; k < READS_AT_ONCE; k++)
                sum += begin + k * LANES * 16 < READ_BYTES ? values[k] : 0;
        }
        sum = group_sum_uint(sum, scratch);
        if (LANE == 0)
            out[item] = sum;
    }
    (void)step;
}
