/* accumulate.cl - the weighted sum of rows of a matrix: the third step of a feed-forward network whose down matrix has
 * a row per neuron. Also reduce, which adds the parts of that sum to x, and read, which measures bandwidth.
 *
 * A lane owns eight neighbouring columns, so that neighbouring lanes read neighbouring memory. As many lanes as an item has
 * such columns form a *rank*; the rows of a part are divided among the ranks of the group, whose sums are added up in local
 * memory at the end. More `parts` give work to more groups. */

/* Vectors of eight columns that a lane sums at once; on the host all of an item, so that rows are read sequentially. */
#define LANE_VECTORS (ON_HOST ? ACCUMULATE_COLUMNS_ITEM / 8 : 1)

/* Rows that are read at once, so that their loads overlap. */
#define ROWS_AT_ONCE (ON_CUDA ? 8 : 4)

#define RANK_LANES (ACCUMULATE_COLUMNS_ITEM / 8)
/* The most ranks of a group. */
#define MOST_RANKS (MOST_LANES >= 16 * RANK_LANES ? 16 : MOST_LANES >= RANK_LANES ? MOST_LANES / RANK_LANES : 1)

/* Adds the rows of the places [i, least(i + n, end)) to the sums of columns [column, column + 8 * count); n (a constant) is
 * at most ROWS_AT_ONCE. Places beyond repeat the last one and count as zero. */
INLINE void accumulate_some(int format, uint n, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                            GLOBAL const uint *list, uint i, uint end, GLOBAL const float *h, uint column, uint count,
                            uint columns, float8 *sums)
{
    GLOBAL const uchar *row[ROWS_AT_ONCE];
    GLOBAL const ushort *scale[ROWS_AT_ONCE];
    float factor[ROWS_AT_ONCE];
    UNROLL
    for (uint r = 0; r < n; r++) {
        uint place = least(i + r, end - 1), at = list ? list[place] : place;
        row[r] = row_of(format, w, at, columns);
        scale[r] = scales_of(format, scales, at, columns);
        factor[r] = i + r < end ? h[place] : 0.0f;
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
    uint i = begin, whole = ON_CUDA ? end : begin + (end - begin) / ROWS_AT_ONCE * ROWS_AT_ONCE;
    for (; i < whole; i += ROWS_AT_ONCE)
        accumulate_some(format, ROWS_AT_ONCE, w, scales, list, i, end, h, column, count, columns, sums);
    for (; i < end; i++) /* a GPU waits less for a few rows too many than for one after the other */
        accumulate_some(format, 1, w, scales, list, i, end, h, column, count, columns, sums);
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

/* Returns i * count / parts, rounded down, where that product may not fit in 32 bits. */
INLINE uint share_begin(uint i, uint count, uint parts)
{
    uint each = count / parts;
    return i * each + i * (count - each * parts) / parts;
}

INLINE void accumulate(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                       GLOBAL const uint *list, GLOBAL const uint *listed, GLOBAL const float *h, GLOBAL float *sums,
                       uint rows, uint columns, uint parts, uint group, uint groups, LOCAL float *partial)
{
    uint rank_lanes = least(LANES, RANK_LANES), ranks = LANES < RANK_LANES ? 1 : least(LANES / RANK_LANES, MOST_RANKS);
    uint rank = LANES < RANK_LANES ? 0 : LANE / RANK_LANES, member = LANES < RANK_LANES ? LANE : LANE % RANK_LANES;
    uint pieces = (columns + ACCUMULATE_COLUMNS_ITEM - 1) / ACCUMULATE_COLUMNS_ITEM, by_8 = COLUMNS_BY_8(columns);
    for (uint item = group; item < step->count * parts * pieces; item += groups) {
        uint piece = item % pieces, part = item / pieces % parts, t = item / pieces / parts;
        uint count = listed ? listed[t] : rows;
        uint begin = share_begin(part, count, parts), end = share_begin(part + 1, count, parts);
        GLOBAL const uint *ids = list ? list + (size_t)t * rows : list;
        GLOBAL const float *factors = h + (size_t)t * rows;
        GLOBAL float *out = sums + ((size_t)t * parts + part) * columns;
        uint left = piece * ACCUMULATE_COLUMNS_ITEM, right = least(left + ACCUMULATE_COLUMNS_ITEM, columns);
        uint middle = least(right, by_8 > left ? by_8 : left);
        uint first = begin + share_begin(rank, end - begin, ranks);
        uint last = begin + share_begin(rank + 1, end - begin, ranks);
        uint own = rank < ranks ? left + member * 8 : middle;
        for (uint column = own; column < middle; column += rank_lanes * 8 * LANE_VECTORS) {
            uint vectors = ON_HOST ? (middle - column) / 8 : 1;
            float8 total[LANE_VECTORS];
            for (uint k = 0; k < vectors; k++)
                total[k] = float8_all(0.0f);
            accumulate_rows(format, w, scales, ids, first, last, factors, column, vectors, columns, total);
            for (uint k = 0; k < vectors; k++)
                if (ranks == 1)
                    float8_store(out + column + 8 * k, total[k]);
                else
                    local_store8(partial + rank * ACCUMULATE_COLUMNS_ITEM + column - left, total[k]);
        }
        BARRIER();
        uint together = ranks > 1 && middle > left ? middle - left : 0;
        for (uint c = LANE; c < together; c += LANES) {
            float sum = 0.0f;
            for (uint of = 0; of < ranks; of++)
                sum += partial[of * ACCUMULATE_COLUMNS_ITEM + c];
            out[left + c] = sum;
        }
        BARRIER();          /* before the next item overwrites the sums */
        if (middle < right) /* the columns after the last whole vector; never in block formats */
            for (uint column = middle + LANE; column < right; column += LANES)
                out[column] = accumulate_column(format, w, ids, begin, end, factors, column, columns);
    }
}

#define X(id, name, values, value_bytes, scale_bytes)                                                             \
    KERNEL(accumulate_##name, P_ACCUMULATE)                                                                       \
    {                                                                                                             \
        LOCAL_ARRAY(float, partial, MOST_RANKS *ACCUMULATE_COLUMNS_ITEM);                                         \
        accumulate(W_##id, step, w, scales, list, listed, h, sums, rows, columns, parts, GROUP, GROUPS, partial); \
    }
DEVICE_FORMATS(X)
#undef X

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
            UNROLL_4
            for (uint p = rank < of ? rank : parts; p < parts; p += ranks)
                sum += sums[((size_t)t * parts + p) * columns + c];
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
        UNROLL_4
        for (uint at = LANE * 16; at < READ_BYTES; at += LANES * 16)
            sum += sum_of_16(from + at);
        sum = group_sum_uint(sum, scratch);
        if (LANE == 0)
            out[item] = sum;
    }
    (void)step;
}
