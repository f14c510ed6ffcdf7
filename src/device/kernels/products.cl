/* products.cl - matrix-vector products: product, product_8, and quantize, which makes the input of product_8. Also
 * embed, which copies rows of a matrix.
 *
 * A team takes an item, which is PRODUCT_ROWS rows, so that each value of x is read once for several rows, and several loads overlap.
 * Neighbouring lanes read neighbouring memory of a row. Rows beyond the last one repeat it and are not stored. Without
 * lists, up to MANY_TOKENS tokens are computed together, and weights are read once for them; long steps take the kernels of
 * tiles.cl. With lists, every token needs other rows, so each is computed alone. Barriers are in loops and never in an `if`: PoCL duplicates the code
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

/* Adds up the PRODUCT_ROWS totals of a token over the team and stores the first `rows` of them. */
INLINE void store_total(float *totals, GLOBAL float *y, uint rows, uint finish, LOCAL float *scratch)
{
    team_sums(totals, PRODUCT_ROWS, scratch);
    if (TEAM_LANE == 0) {
        float before[PRODUCT_ROWS];
        UNROLL
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            before[r] = finish == FINISH_ADD && r < rows ? y[r] : 0.0f;
        UNROLL
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            if (r < rows)
                y[r] = finished(totals[r], before[r], finish);
    }
}

/* The same for the totals of several tokens. */
ONE_COPY void store_totals(float *totals, uint tokens, GLOBAL float *y, uint stride, uint rows, uint finish,
                           LOCAL float *scratch)
{
    NO_UNROLL
    for (uint t = 0; t < tokens; t++, totals += PRODUCT_ROWS, y += stride)
        store_total(totals, y, rows, finish, scratch);
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
    if (most == 1)
        store_total(totals, y, least(PRODUCT_ROWS, rows), finish, scratch);
    else
        store_totals(totals, tokens, y, stride, least(PRODUCT_ROWS, rows), finish, scratch);
}

/* Returns the r-th row of an item, through the list if there is one. */
INLINE uint listed_row(GLOBAL const uint *list, uint first, uint r, uint rows)
{
    uint place = least(first + r, rows - 1);
    return list ? list[place] : place;
}

/* ------------------------------------------------------------------ what is multiplied */

/* The input of a product: x [T][columns] in float32, or rounded to 8 bits: q [T][columns] with scales and sums
 * [T][columns / 32]. The other pointers are NULL. */
typedef struct product_input {
    bool rounded; /* a constant */
    GLOBAL const float *x;
    GLOBAL const schar *q;
    GLOBAL const float *q_scales;
    GLOBAL const int *q_sums;
} product_input;

/* The rows of an item. */
typedef struct item_rows {
    GLOBAL const uchar *w[PRODUCT_ROWS];
    GLOBAL const ushort *scales[PRODUCT_ROWS];
} item_rows;

/* Pieces of every row that a lane of add_floats reads at once. A single token leaves registers for two, and has few groups, each
 * of which waits for memory. A place beyond the last repeats it, and x counts as zero there. */
#define MOST_PIECES  (ON_CUDA ? 2 : 1)
#define PIECES(most) ((most) == 1 ? MOST_PIECES : 1)

/* Adds to `sums` the products of the rows with `tokens` tokens from `token` on, at most `most` (a constant). */
INLINE void add_floats(int format, uint most, const item_rows *row, product_input in, uint token, uint tokens,
                       uint columns, wide sums[][PRODUCT_ROWS])
{
    GLOBAL const float *x = in.x + (size_t)token * columns;
    uint by_8 = COLUMNS_BY_8(columns), step = TEAM_LANES * 8;
    for (uint begin = TEAM_LANE * 8; begin < by_8; begin += step * PIECES(most)) {
        float8 weights[MOST_PIECES][PRODUCT_ROWS];
        UNROLL
        for (uint p = 0; p < PIECES(most); p++) {
            uint at = least(begin + p * step, by_8 - 8);
            UNROLL
            for (uint r = 0; r < PRODUCT_ROWS; r++)
                weights[p][r] = weights_8(format, row->w[r], row->scales[r], at);
        }
        UNROLL
        for (uint p = 0; p < PIECES(most); p++) {
            uint at = least(begin + p * step, by_8 - 8);
            UNROLL
            for (uint t = 0; t < most; t++)
                if (t < tokens) {
                    float8 values = float8_load(x + (size_t)t * columns + at);
                    if (begin + p * step >= by_8)
                        values = float8_all(0.0f);
                    UNROLL
                    for (uint r = 0; r < PRODUCT_ROWS; r++)
                        sums[t][r] = wide_dot(sums[t][r], weights[p][r], values);
                }
        }
    }
    for (uint at = by_8 + TEAM_LANE; at < columns; at += TEAM_LANES)
        for (uint r = 0; r < PRODUCT_ROWS; r++) {
            float weight = weight_1(format, row->w[r], at);
            UNROLL
            for (uint t = 0; t < most; t++)
                if (t < tokens)
                    sums[t][r] = wide_add(sums[t][r], weight * x[(size_t)t * columns + at]);
        }
}

/* A block of each row of an item. */
typedef struct item_blocks {
    block32 weights[PRODUCT_ROWS];
    two_scales scales[PRODUCT_ROWS];
} item_blocks;

INLINE item_blocks load_item_blocks(int format, const item_rows *row, uint block)
{
    item_blocks loaded;
    UNROLL
    for (uint r = 0; r < PRODUCT_ROWS; r++) {
        loaded.weights[r] = weights_block(format, row->w[r], block);
        loaded.scales[r] = scales_32(format, row->scales[r], block);
    }
    return loaded;
}

/* Adds to `sums` the products of blocks with block `at` of the input. */
INLINE void add_block(int format, const item_blocks *blocks, product_input in, size_t at, wide sums[PRODUCT_ROWS])
{
    block32 values = block32_read(in.q + 32 * at);
    float scale = in.q_scales[at];
    int q_sum = format == W_Q4_0 || has_offset(format) ? in.q_sums[at] : 0;
    UNROLL
    for (uint r = 0; r < PRODUCT_ROWS; r++)
        sums[r] = block_sum(format, sums[r], blocks->weights[r], blocks->scales[r], values, scale, q_sum);
}

/* As add_floats, for input of 8 bits; a lane takes a block of 32 at a time. */
INLINE void add_blocks(int format, uint most, const item_rows *row, product_input in, uint token, uint tokens,
                       uint columns, wide sums[][PRODUCT_ROWS])
{
    uint blocks = columns / 32;
    for (uint b = TEAM_LANE; b < blocks; b += TEAM_LANES) {
        item_blocks loaded = load_item_blocks(format, row, b);
        UNROLL
        for (uint t = 0; t < most; t++)
            if (t < tokens)
                add_block(format, &loaded, in, (size_t)(token + t) * blocks + b, sums[t]);
    }
}

/* Multiplies `tokens` tokens from `token` on, at most `most` (a constant), with the rows [first, first + PRODUCT_ROWS)
 * of `rows` in all. */
INLINE void product_rows(int format, uint most, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                         GLOBAL const uint *list, uint first, uint rows, product_input in, uint token, uint tokens,
                         uint columns, GLOBAL float *y, uint stride, uint finish, LOCAL float *scratch)
{
    item_rows row;
    for (uint r = 0; r < PRODUCT_ROWS; r++) {
        uint at = listed_row(list, first, r, rows);
        row.w[r] = row_of(format, w, at, columns);
        row.scales[r] = scales_of(format, scales, at, columns);
    }
    wide sums[MANY_TOKENS][PRODUCT_ROWS];
    for (uint t = 0; t < most; t++)
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            sums[t][r] = wide_zero();
    if (in.rounded)
        add_blocks(format, most, &row, in, token, tokens, columns, sums);
    else
        add_floats(format, most, &row, in, token, tokens, columns, sums);
    store_rows(sums, most, tokens, y + (size_t)token * stride + first, stride, rows - first, finish, scratch);
}

/* team, teams: which of all teams this one is. */
INLINE void product(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                    GLOBAL const uint *list, GLOBAL const uint *listed, product_input in, GLOBAL float *y, uint rows,
                    uint columns, uint stride, uint finish, uint team, uint teams, LOCAL float *scratch)
{
    uint tokens = step->count, one_by_one = list || tokens == 1 ? tokens : 0;
    for (uint t = 0; t < one_by_one; t++) {
        uint wanted = list ? listed[t] : rows;
        for (uint first = team * PRODUCT_ROWS; first < wanted; first += teams * PRODUCT_ROWS)
            product_rows(format, 1, w, scales, list ? list + (size_t)t * stride : list, first, wanted, in, t, 1,
                         columns, y, stride, finish, scratch);
    }
    uint end = one_by_one ? 0 : rows;
    for (uint first = team * PRODUCT_ROWS; first < end; first += teams * PRODUCT_ROWS)
        for (uint t = 0; t < tokens; t += MANY_TOKENS)
            product_rows(format, MANY_TOKENS, w, scales, list, first, rows, in, t, least(tokens - t, MANY_TOKENS),
                         columns, y, stride, finish, scratch);
}

#if ON_CUDA
/* Fetches the rows that a group multiplies first, which are neighbours, unless lists choose them. */
INLINE void fetch_product(int format, const uchar *w, const ushort *scales, const uint *list, uint rows, uint columns)
{
    uint first = GROUP * TEAMS * PRODUCT_ROWS, end = least(first + TEAMS * PRODUCT_ROWS, rows);
    if (LANE != 0 || list || first >= rows)
        return;
    fetch_ahead(row_of(format, w, first, columns), row_of(format, w, end, columns));
    if (block_scale_bytes(format) > 0)
        fetch_ahead((const uchar *)scales_of(format, scales, first, columns),
                    (const uchar *)scales_of(format, scales, end, columns));
}
#endif

/* Defines a kernel of products: what is fetched ahead of it, what it does, and the members of product_input. */
#define PRODUCT_KERNEL(name, PARAMETERS, ahead, body, rounded, x, q, q_scales, q_sums) \
    KERNEL_AHEAD(name, PARAMETERS, ahead)                                              \
    {                                                                                  \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                    \
        product_input in = {rounded, x, q, q_scales, q_sums};                          \
        uint team = GROUP * TEAMS + TEAM, teams = GROUPS * TEAMS;                      \
        body;                                                                          \
    }

#define FETCH(format) fetch_product(format, w, scales, list, rows, columns)
#define PRODUCT(format)                                                                                        \
    product(format, step, w, scales, list, listed, in, y, rows, columns, stride, finish, team, teams, scratch)
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_##name, P_PRODUCT, FETCH(W_##id), PRODUCT(W_##id), false, x, 0, 0, 0)
DEVICE_FORMATS(X)
#undef X
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_8_##name, P_PRODUCT_8, FETCH(W_##id), PRODUCT(W_##id), true, 0, q, q_scales, q_sums)
DEVICE_BLOCK_FORMATS(X)
#undef X

/* ------------------------------------------------------------------ a matrix per head */

/* team, teams: which of all teams this one is. */
INLINE void product_heads(int format, GLOBAL const step_record *step, GLOBAL const uchar *w,
                          GLOBAL const ushort *scales, product_input in, GLOBAL float *y, uint heads, uint rows,
                          uint columns, uint team, uint teams, LOCAL float *scratch)
{
    uint tokens = step->count, pieces = (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    for (uint item = team; item < heads * pieces; item += teams) {
        uint h = item / pieces, first = item % pieces * PRODUCT_ROWS, before = h * tokens;
        GLOBAL const uchar *own = row_of(format, w, h * rows, columns);
        GLOBAL const ushort *own_scales = scales_of(format, scales, h * rows, columns);
        if (tokens == 1)
            product_rows(format, 1, own, own_scales, 0, first, rows, in, before, 1, columns, y, rows, FINISH_STORE,
                         scratch);
        for (uint t = 0; tokens > 1 && t < tokens; t += MANY_TOKENS)
            product_rows(format, MANY_TOKENS, own, own_scales, 0, first, rows, in, before + t,
                         least(tokens - t, MANY_TOKENS), columns, y, rows, FINISH_STORE, scratch);
    }
}

#define PRODUCT_HEADS(format) \
    product_heads(format, step, w, scales, in, y, heads, rows, columns, team, teams, scratch)
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_heads_##name, P_PRODUCT_HEADS, , PRODUCT_HEADS(W_##id), false, x, 0, 0, 0)
DEVICE_FORMATS(X)
#undef X
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_heads_8_##name, P_PRODUCT_HEADS_8, , PRODUCT_HEADS(W_##id), true, 0, q, q_scales, q_sums)
DEVICE_BLOCK_FORMATS(X)
#undef X

/* ------------------------------------------------------------------ a matrix per expert */

/* Returns the values from `at` on of an input as an input of their own. */
INLINE product_input input_from(product_input in, size_t at)
{
    product_input from = in;
    if (in.rounded) {
        from.q += at;
        from.q_scales += at / 32;
        from.q_sums += at / 32;
    } else {
        from.x += at;
    }
    return from;
}

/* Returns the rows of an item of the matrix of an expert. */
INLINE item_rows rows_of_expert(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, uint expert,
                                uint first, uint rows, uint columns)
{
    item_rows row;
    UNROLL
    for (uint r = 0; r < PRODUCT_ROWS; r++) {
        uint at = expert * rows + listed_row(0, first, r, rows);
        row.w[r] = row_of(format, w, at, columns);
        row.scales[r] = scales_of(format, scales, at, columns);
    }
    return row;
}

/* The experts that a token has chosen, of which those with places in [from, to) have their matrices in w. */
typedef struct chosen_experts {
    GLOBAL const uint *ids, *ranges;
    uint count, from, to;
} chosen_experts;

/* Returns whether an expert with places [begin, end) has its matrix in w. */
INLINE bool has_matrix(chosen_experts chosen, uint begin, uint end)
{
    return begin < end && begin >= chosen.from && begin < chosen.to;
}

/* Adds to `sums` the products of rows from `first` on of each of those matrices with that expert's values, one after the other. */
INLINE void add_chosen(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, chosen_experts chosen,
                       product_input in, uint first, uint rows, uint columns, wide sums[][PRODUCT_ROWS])
{
    uint at = 0;
    for (uint k = 0; k < chosen.count; k++) {
        uint begin = chosen.ranges[2 * chosen.ids[k]], end = chosen.ranges[2 * chosen.ids[k] + 1];
        if (has_matrix(chosen, begin, end)) {
            product_input own = input_from(in, at);
            item_rows row = rows_of_expert(format, w, scales, (begin - chosen.from) / columns, first, rows, columns);
            if (in.rounded)
                add_blocks(format, 1, &row, own, 0, 1, columns, sums);
            else
                add_floats(format, 1, &row, own, 0, 1, columns, sums);
        }
        at += end - begin;
    }
}

/* The same for input of 8 bits, where the lanes of a team take the blocks of all those matrices in turn, as those of one long row: an
 * expert has few. All lanes run the same loops, so that their loads overlap. */
INLINE void add_chosen_blocks(int format, GLOBAL const uchar *w, GLOBAL const ushort *scales, chosen_experts chosen,
                              product_input in, uint first, uint rows, uint columns, wide sums[PRODUCT_ROWS])
{
    uint blocks = columns / 32, all = 0;
    for (uint k = 0; k < chosen.count; k++) {
        uint e = chosen.ids[k];
        all += has_matrix(chosen, chosen.ranges[2 * e], chosen.ranges[2 * e + 1]) ? blocks : 0;
    }
    for (uint round = 0; round < all; round += TEAM_LANES) {
        uint at = least(round + TEAM_LANE, all - 1), place = chosen.from, values = 0; /* of whose block it is, and of its values */
        for (uint k = 0, before = 0, spans = 0; k < chosen.count; k++) {
            uint e = chosen.ids[k], begin = chosen.ranges[2 * e], end = chosen.ranges[2 * e + 1];
            bool own = has_matrix(chosen, begin, end), mine = own && at - before < blocks;
            place = mine ? begin : place;
            values = mine ? spans / 32 + at - before : values;
            before += own ? blocks : 0;
            spans += end - begin;
        }
        uint expert = (place - chosen.from) / columns;
        item_rows row = rows_of_expert(format, w, scales, expert, first, rows, columns);
        item_blocks loaded = load_item_blocks(format, &row, at % blocks);
        if (round + TEAM_LANE < all)
            add_block(format, &loaded, in, values, sums);
    }
}

/* team, teams: which of all teams this one is. */
INLINE void product_chosen(int format, GLOBAL const step_record *step, GLOBAL const uchar *w,
                           GLOBAL const ushort *scales, GLOBAL const uint *chosen, GLOBAL const uint *chosen_count,
                           GLOBAL const uint *ranges, product_input in, GLOBAL float *y, uint experts, uint from,
                           uint to, uint rows, uint columns, uint stride, uint finish, uint team, uint teams,
                           LOCAL float *scratch)
{
    uint pieces = (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    for (uint item = team; item < step->count * pieces; item += teams) {
        uint t = item / pieces, first = item % pieces * PRODUCT_ROWS;
        wide sums[1][PRODUCT_ROWS];
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            sums[0][r] = wide_zero();
        chosen_experts own = {chosen + (size_t)t * experts, ranges, chosen_count[t], from, to};
        product_input values = input_from(in, (size_t)t * stride);
        if (in.rounded && !ON_HOST)
            add_chosen_blocks(format, w, scales, own, values, first, rows, columns, sums[0]);
        else
            add_chosen(format, w, scales, own, values, first, rows, columns, sums);
        store_rows(sums, 1, 1, y + (size_t)t * rows + first, rows, rows - first, finish, scratch);
    }
}

#define PRODUCT_CHOSEN(format)                                                                                        \
    product_chosen(format, step, w, scales, chosen, chosen_count, ranges, in, y, experts, from, to, rows, columns, \
                   stride, finish, team, teams, scratch)
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_chosen_##name, P_PRODUCT_CHOSEN, , PRODUCT_CHOSEN(W_##id), false, x, 0, 0, 0)
DEVICE_FORMATS(X)
#undef X
#define X(id, name, values, value_bytes, scale_bytes) \
    PRODUCT_KERNEL(product_chosen_8_##name, P_PRODUCT_CHOSEN_8, , PRODUCT_CHOSEN(W_##id), true, 0, q, q_scales, q_sums)
DEVICE_BLOCK_FORMATS(X)
#undef X

/* ------------------------------------------------------------------ input of 8 bits */

/* What a block is rounded with: the scale that its values get, and its inverse; 0: all become zero. */
typedef struct quantized_scale {
    float one, inverse;
} quantized_scale;

/* Returns them for the greatest magnitude of a block, as an integer: those have the order of the numbers, with infinity and
 * NaN above all. The arithmetic is that of kernel/quantize.h, bit for bit. */
INLINE quantized_scale quantized_scale_of(uint most)
{
    quantized_scale s = {0.0f, 0.0f};
    float largest = AS_FLOAT(most);
    if (most >= 0x7f800000u) {
        s.one = AS_FLOAT(0x7fc00000u);
    } else if (most >= 0x03800000u) { /* 2^-120 */
        s.inverse = DIVIDE(127.0f, largest);
        s.one = DIVIDE(largest, 127.0f);
    }
    return s;
}

INLINE int quantized_value(float x, quantized_scale s)
{
    return s.inverse != 0.0f ? (int)RINT(x * s.inverse) : 0;
}

/* Rounds a block of 32 values to 8 bits. */
INLINE void quantize_block(GLOBAL const float *x, GLOBAL schar *q, GLOBAL float *scale, GLOBAL int *sum)
{
    uint most = 0;
    for (uint i = 0; i < 32; i++) {
        uint magnitude = AS_UINT(x[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    quantized_scale s = quantized_scale_of(most);
    int total = 0;
    for (uint i = 0; i < 32; i++) {
        int rounded = quantized_value(x[i], s);
        q[i] = (schar)rounded;
        total += rounded;
    }
    *scale = s.one;
    *sum = total;
}

#if ON_CUDA
/* The lanes that share a block, four values each. */
#define BLOCK_LANES 8u

/* Combines the values of the lanes that share a block; every one of them gets the result. */
#define BLOCK_REDUCE(a, b, COMBINE)                                                                   \
    UNROLL                                                                                            \
    for (uint distance = BLOCK_LANES / 2; distance > 0; distance /= 2) {                              \
        uint b;                                                                                       \
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, %3;"                                         \
                     : "=r"(b)                                                                        \
                     : "r"(a), "r"(distance), "r"(0xffu << LANE % WARP / BLOCK_LANES * BLOCK_LANES)); \
        a = COMBINE;                                                                                  \
    }

/* quantize_block by BLOCK_LANES neighbouring lanes, of which this one is `member`. */
INLINE void quantize_together(const float *x, schar *q, float *scale, int *sum, uint member)
{
    float4 values = ((const float4 *)x)[member];
    float own[4] = {values.x, values.y, values.z, values.w};
    uint most = 0, packed = 0, total = 0;
    UNROLL
    for (uint i = 0; i < 4; i++) {
        uint magnitude = AS_UINT(own[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    BLOCK_REDUCE(most, other, other > most ? other : most)
    quantized_scale s = quantized_scale_of(most);
    UNROLL
    for (uint i = 0; i < 4; i++) {
        int rounded = quantized_value(own[i], s);
        packed |= ((uint)rounded & 255u) << 8 * i;
        total += (uint)rounded;
    }
    ((uint *)q)[member] = packed;
    BLOCK_REDUCE(total, other, total + other)
    if (member == 0) {
        *scale = s.one;
        *sum = (int)total;
    }
}
#endif

/* Rounds the blocks [begin, end) by the lanes of a group. */
INLINE void quantize_blocks(GLOBAL const float *x, GLOBAL schar *q, GLOBAL float *scales, GLOBAL int *sums, uint begin,
                            uint end)
{
#if ON_CUDA
    if (LANES % BLOCK_LANES == 0) {
        for (uint b = begin + LANE / BLOCK_LANES; b < end; b += LANES / BLOCK_LANES)
            quantize_together(x + (size_t)b * 32, q + (size_t)b * 32, scales + b, sums + b, LANE % BLOCK_LANES);
        return;
    }
#endif
    for (uint b = begin + LANE; b < end; b += LANES)
        quantize_block(x + (size_t)b * 32, q + (size_t)b * 32, scales + b, sums + b);
}

KERNEL(quantize, P_QUANTIZE)
{
    uint blocks = step->count * (columns / 32);
    for (uint first = GROUP * QUANTIZE_BLOCKS; first < blocks; first += GROUPS * QUANTIZE_BLOCKS)
        quantize_blocks(x, q, q_scales, q_sums, first, least(first + QUANTIZE_BLOCKS, blocks));
}

/* ------------------------------------------------------------------ rows without a product */

/* Decodes the row of each token, or of its position, to float32. */
INLINE void embed(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                  GLOBAL float *x, uint columns, uint by_position, uint first, uint finish, float factor, uint group,
                  uint groups)
{
    for (uint t = group; t < step->count; t += groups) {
        uint wanted = by_position ? first + step->row[t].position : step->row[t].token, by_8 = COLUMNS_BY_8(columns);
        GLOBAL const uchar *row = row_of(format, w, wanted, columns);
        GLOBAL const ushort *scale = scales_of(format, scales, wanted, columns);
        GLOBAL float *out = x + (size_t)t * columns;
        for (uint at = LANE * 8; at < by_8; at += LANES * 8) {
            float8 weights = weights_8(format, row, scale, at), factors = float8_all(factor);
            float8_store(out + at, finish == FINISH_ADD ? float8_fma(factors, weights, float8_load(out + at))
                                                        : float8_times(factors, weights));
        }
        for (uint at = by_8 + LANE; at < columns; at += LANES)
            out[at] = finished(factor * weight_1(format, row, at), finish == FINISH_ADD ? out[at] : 0.0f, finish);
    }
}

#define X(id, name, values, value_bytes, scale_bytes)                                                  \
    KERNEL(embed_##name, P_EMBED)                                                                      \
    {                                                                                                  \
        embed(W_##id, step, w, scales, x, columns, by_position, first, finish, factor, GROUP, GROUPS); \
    }
DEVICE_FORMATS(X)
#undef X
