/* tiles.cl - products with many tokens, for long steps: product_many, and accumulate_many.
 *
 * Both multiply a matrix with a matrix: a result is a sum over columns of w (product_many) or over its rows
 * (accumulate_many) of weights times values of a token. They differ from product and accumulate in that a weight is
 * read and decoded once for the tokens of a whole tile. With few tokens, tiles would leave most of a GPU idle.
 *
 * On a GPU the lanes of a group decode a piece of w and of the tokens' values into local memory, depth by depth, and
 * each lane sums LANE_OUTPUTS results of LANE_TOKENS tokens in registers, of 8 bits by matrix units where there are any. Where a
 * group is one lane the cache takes the place of local memory: see the second half. */

/* ------------------------------------------------------------------ tiles in local memory */

#if !ON_HOST && !(ON_OPENCL && GROUP_LANES == 1)
/* Words of 32 bits of each row and token that are in local memory at once: 32 floats, or 4 blocks of 32 bytes. */
#define TILE_DEPTH  32
#define TILE_BLOCKS (TILE_DEPTH / 8)
/* Neighbouring results (rows of a product, columns of a sum) and tokens of a lane. Their words are read 4 at a time. */
#define LANE_OUTPUTS 4
#define LANE_TOKENS  4
/* Words from one depth to the next: eight more than there are, so that lanes which read four depths of eight rows or tokens find them
 * in 32 banks of local memory. */
#define WEIGHTS_STRIDE (TILE_ROWS + 8)
#define VALUES_STRIDE  (TILE_TOKENS + 8)
/* The lanes that a tile has work for. With fewer, the group goes through the tile several times. */
#define TILE_LANES (TILE_ROWS / LANE_OUTPUTS * (TILE_TOKENS / LANE_TOKENS))

/* A tile: where it begins, and what local memory holds of it: weights [TILE_DEPTH][WEIGHTS_STRIDE] and values [TILE_DEPTH]
 * [VALUES_STRIDE]; for 8 bits the scales of weights [TILE_BLOCKS][TILE_ROWS] and of values [TILE_BLOCKS][TILE_TOKENS]. */
typedef struct tile {
    uint first, token; /* the first result, and the first token */
    LOCAL uint *weights, *values;
    LOCAL two_scales *weight_scales;
    LOCAL float *value_scales;
    LOCAL int *value_sums;
} tile;

/* Returns where the results of a lane begin in the tile. */
INLINE uint lane_output(uint lane)
{
    return lane % (TILE_ROWS / LANE_OUTPUTS) * LANE_OUTPUTS;
}

INLINE uint lane_token(uint lane)
{
    return lane / (TILE_ROWS / LANE_OUTPUTS) * LANE_TOKENS;
}

/* Copies eight values from `at` on, of `columns`, to `to`; zero from the last column on. */
INLINE void tile_values_8(GLOBAL const float *x, uint at, uint columns, float *to)
{
    if (at + 8 <= COLUMNS_BY_8(columns))
        float8_values(float8_load(x + at), to);
    else
        for (uint i = 0; i < 8; i++)
            to[i] = at + i < columns ? x[at + i] : 0.0f;
}

/* The same for weights of a row. */
INLINE void tile_weights_8(int format, GLOBAL const uchar *row, GLOBAL const ushort *scales, uint at, uint columns,
                           float *to)
{
    if (at + 8 <= COLUMNS_BY_8(columns))
        float8_values(weights_8(format, row, scales, at), to);
    else
        for (uint i = 0; i < 8; i++)
            to[i] = block_values(format) == 1 && at + i < columns ? weight_1(format, row, at + i) : 0.0f;
}

/* Loads the values [at, at + TILE_DEPTH) of the tokens: x [tokens][stride], of which `end` are used. */
INLINE void load_values(tile s, GLOBAL const float *x, uint stride, uint at, uint end, uint tokens)
{
    for (uint i = LANE; i < TILE_TOKENS * TILE_BLOCKS; i += LANES) {
        uint t = i % TILE_TOKENS, deep = i / TILE_TOKENS * 8;
        float values[8];
        tile_values_8(x + (size_t)least(s.token + t, tokens - 1) * stride, at + deep, end, values);
        UNROLL
        for (uint k = 0; k < 8; k++)
            s.values[(deep + k) * VALUES_STRIDE + t] = AS_UINT(values[k]);
    }
}

/* Adds the products of what is in local memory to the sums of a lane. */
INLINE void multiply_floats(tile s, uint lane, float sums[LANE_TOKENS][LANE_OUTPUTS])
{
    LOCAL const uint *weights = s.weights + lane_output(lane), *values = s.values + lane_token(lane);
    UNROLL_4
    for (uint k = 0; k < TILE_DEPTH; k++) {
        uint w[LANE_OUTPUTS], x[LANE_TOKENS];
        local_load4(weights + k * WEIGHTS_STRIDE, w);
        local_load4(values + k * VALUES_STRIDE, x);
        UNROLL
        for (uint t = 0; t < LANE_TOKENS; t++) {
            UNROLL
            for (uint r = 0; r < LANE_OUTPUTS; r++)
                sums[t][r] = FMA(AS_FLOAT(w[r]), AS_FLOAT(x[t]), sums[t][r]);
        }
    }
}

/* Adds a block's dot product to a sum. q6_K has a scale for each half of it: half 0, then half 1. */
INLINE float add_dot(int format, float sum, int dot, uint half_of, two_scales w, float value_scale, int q_sum)
{
    float scale = (format == W_Q6_K && half_of == 1 ? w.second : w.first) * value_scale;
    sum = FMA(scale, (float)(dot - (format == W_Q4_0 ? 8 * q_sum : 0)), sum);
    return has_offset(format) ? FMA(-(w.second * value_scale), (float)q_sum, sum) : sum;
}

/* Adds the dot products of a block, or of half of it, to the sums of a lane. */
INLINE void add_dots(int format, tile s, uint lane, uint block, uint half_of, int dots[LANE_TOKENS][LANE_OUTPUTS],
                     float sums[LANE_TOKENS][LANE_OUTPUTS])
{
    UNROLL
    for (uint t = 0; t < LANE_TOKENS; t++) {
        float value_scale = s.value_scales[block * TILE_TOKENS + lane_token(lane) + t];
        int q_sum = s.value_sums[block * TILE_TOKENS + lane_token(lane) + t];
        UNROLL
        for (uint r = 0; r < LANE_OUTPUTS; r++) {
            two_scales w = s.weight_scales[block * TILE_ROWS + lane_output(lane) + r];
            sums[t][r] = add_dot(format, sums[t][r], dots[t][r], half_of, w, value_scale, q_sum);
            dots[t][r] = 0;
        }
    }
}

/* The same as multiply_floats for 8 bits. */
INLINE void multiply_blocks(int format, tile s, uint lane, float sums[LANE_TOKENS][LANE_OUTPUTS])
{
    LOCAL const uint *weights = s.weights + lane_output(lane), *values = s.values + lane_token(lane);
    int dots[LANE_TOKENS][LANE_OUTPUTS];
    UNROLL
    for (uint t = 0; t < LANE_TOKENS; t++)
        for (uint r = 0; r < LANE_OUTPUTS; r++)
            dots[t][r] = 0;
    NO_UNROLL
    for (uint block = 0; block < TILE_BLOCKS; block++) {
        UNROLL
        for (uint k = 0; k < 8; k++) {
            uint w[LANE_OUTPUTS], q[LANE_TOKENS];
            local_load4(weights + (block * 8 + k) * WEIGHTS_STRIDE, w);
            local_load4(values + (block * 8 + k) * VALUES_STRIDE, q);
            UNROLL
            for (uint t = 0; t < LANE_TOKENS; t++) {
                UNROLL
                for (uint r = 0; r < LANE_OUTPUTS; r++)
                    dots[t][r] += dot_4(w[r], q[t]);
            }
            if (format == W_Q6_K && k == 3)
                add_dots(format, s, lane, block, 0, dots, sums);
        }
        add_dots(format, s, lane, block, 1, dots, sums);
    }
}

#if HAS_MATRIX_UNITS
/* By matrix units a warp has a strip of MATRIX_ROWS rows with all tokens of the tile, 8 by 8 at a time: of part (i, j) a lane has the sums
 * sums[j][2 * i] and [2 * i + 1], of row matrix_row with the tokens matrix_token and the one behind it. */
#define MATRIX_ROWS        16
#define MATRIX_ROW_PARTS   (MATRIX_ROWS / 8)
#define MATRIX_TOKEN_PARTS (TILE_TOKENS / 8)
#if 2 * MATRIX_ROW_PARTS != LANE_OUTPUTS || MATRIX_TOKEN_PARTS != LANE_TOKENS
#error "the sums of a lane are as many by matrix units as without"
#endif

/* Whether the lanes of a group are whole warps. */
INLINE bool by_matrix(void)
{
    return LANES % WARP_LANES == 0;
}

INLINE uint matrix_row(uint lane, uint i)
{
    return lane / WARP_LANES * MATRIX_ROWS + 8 * i + lane % WARP_LANES / 4;
}

INLINE uint matrix_token(uint lane, uint j)
{
    return 8 * j + 2 * (lane % 4);
}

/* The same as multiply_blocks: the dot products are integers, and added in the same order. */
INLINE void multiply_blocks_by_matrix(int format, tile s, uint lane, float sums[LANE_TOKENS][LANE_OUTPUTS])
{
    uint deep = lane % 4, token = lane % WARP_LANES / 4;
    NO_UNROLL
    for (uint block = 0; block < TILE_BLOCKS; block++) {
        uint w[MATRIX_ROW_PARTS][2];
        two_scales scales[MATRIX_ROW_PARTS];
        UNROLL
        for (uint i = 0; i < MATRIX_ROW_PARTS; i++) {
            scales[i] = s.weight_scales[block * TILE_ROWS + matrix_row(lane, i)];
            for (uint h = 0; h < 2; h++)
                w[i][h] = s.weights[(block * 8 + 4 * h + deep) * WEIGHTS_STRIDE + matrix_row(lane, i)];
        }
        UNROLL
        for (uint j = 0; j < MATRIX_TOKEN_PARTS; j++) {
            uint q[2], at = block * TILE_TOKENS + matrix_token(lane, j);
            for (uint h = 0; h < 2; h++)
                q[h] = s.values[(block * 8 + 4 * h + deep) * VALUES_STRIDE + 8 * j + token];
            UNROLL
            for (uint i = 0; i < MATRIX_ROW_PARTS; i++) {
                int dots[2] = {0, 0};
                UNROLL
                for (uint h = 0; h < 2; h++) {
                    matrix_dot_16(dots, w[i][h], q[h]);
                    if (format != W_Q6_K && h == 0)
                        continue;
                    for (uint t = 0; t < 2; t++) {
                        float *sum = &sums[j][2 * i + t];
                        *sum =
                            add_dot(format, *sum, dots[t], h, scales[i], s.value_scales[at + t], s.value_sums[at + t]);
                        dots[t] = 0;
                    }
                }
            }
        }
    }
}
#else
#define by_matrix() false
#define multiply_blocks_by_matrix(format, s, lane, sums)
#endif

/* Loads the columns [at, at + TILE_DEPTH) of the rows of a product, and of its input. */
INLINE void load_floats(int format, tile s, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const float *x,
                        uint at, uint rows, uint columns, uint tokens)
{
    for (uint i = LANE; i < TILE_ROWS * TILE_BLOCKS; i += LANES) {
        uint r = i % TILE_ROWS, deep = i / TILE_ROWS * 8, row = least(s.first + r, rows - 1);
        float weights[8];
        tile_weights_8(format, row_of(format, w, row, columns), scales_of(format, scales, row, columns), at + deep,
                       columns, weights);
        UNROLL
        for (uint k = 0; k < 8; k++)
            s.weights[(deep + k) * WEIGHTS_STRIDE + r] = AS_UINT(weights[k]);
    }
    load_values(s, x, columns, at, columns, tokens);
}

/* The same for input of 8 bits. Blocks after the last one have a scale of zero. */
INLINE void load_blocks(int format, tile s, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const schar *q,
                        GLOBAL const float *q_scales, GLOBAL const int *q_sums, uint at, uint rows, uint columns,
                        uint tokens)
{
    uint blocks = columns / 32, first = at / 8; /* TILE_DEPTH words are TILE_BLOCKS blocks */
    for (uint i = LANE; i < TILE_ROWS * TILE_BLOCKS; i += LANES) {
        uint r = i % TILE_ROWS, b = i / TILE_ROWS, row = least(s.first + r, rows - 1),
             from = least(first + b, blocks - 1);
        uint words[8];
        block32_words(weights_block(format, row_of(format, w, row, columns), from), words);
        UNROLL
        for (uint k = 0; k < 8; k++)
            s.weights[(b * 8 + k) * WEIGHTS_STRIDE + r] = words[k];
        two_scales scale = scales_32(format, scales_of(format, scales, row, columns), from);
        if (first + b >= blocks)
            scale.first = scale.second = 0.0f;
        s.weight_scales[b * TILE_ROWS + r] = scale;
    }
    for (uint i = LANE; i < TILE_TOKENS * TILE_BLOCKS; i += LANES) {
        uint t = i % TILE_TOKENS, b = i / TILE_TOKENS;
        size_t from = (size_t)least(s.token + t, tokens - 1) * blocks + least(first + b, blocks - 1);
        uint words[8];
        block32_words(block32_read(q + 32 * from), words);
        UNROLL
        for (uint k = 0; k < 8; k++)
            s.values[(b * 8 + k) * VALUES_STRIDE + t] = words[k];
        s.value_scales[b * TILE_TOKENS + t] = first + b < blocks ? q_scales[from] : 0.0f;
        s.value_sums[b * TILE_TOKENS + t] = q_sums[from];
    }
}

INLINE void clear_sums(float sums[LANE_TOKENS][LANE_OUTPUTS])
{
    UNROLL
    for (uint t = 0; t < LANE_TOKENS; t++)
        for (uint r = 0; r < LANE_OUTPUTS; r++)
            sums[t][r] = 0.0f;
}

/* Stores a result, of a row and token of the tile; y [tokens][stride], of which `outputs` are written. */
INLINE void store_sum(tile s, uint row, uint token, float sum, GLOBAL float *y, size_t stride, uint outputs,
                      uint tokens, uint finish)
{
    row += s.first, token += s.token;
    if (row < outputs && token < tokens) {
        GLOBAL float *to = y + token * stride + row;
        *to = finished(sum, finish == FINISH_ADD ? *to : 0.0f, finish);
    }
}

/* Stores the results of a lane. matrix: they are those of multiply_blocks_by_matrix. */
INLINE void store_sums(tile s, uint lane, bool matrix, float sums[LANE_TOKENS][LANE_OUTPUTS], GLOBAL float *y,
                       size_t stride, uint outputs, uint tokens, uint finish)
{
    UNROLL
    for (uint t = 0; t < LANE_TOKENS; t++) {
        UNROLL
        for (uint r = 0; r < LANE_OUTPUTS; r++) {
            uint row = lane_output(lane) + r, token = lane_token(lane) + t;
#if HAS_MATRIX_UNITS
            row = matrix ? matrix_row(lane, r / 2) : row;
            token = matrix ? matrix_token(lane, t) + r % 2 : token;
#endif
            store_sum(s, row, token, sums[t][r], y, stride, outputs, tokens, finish);
        }
    }
}

INLINE void product_many(int format, GLOBAL const step_record *step, GLOBAL const uchar *w, GLOBAL const ushort *scales,
                         product_input in, GLOBAL float *y, uint rows, uint columns, uint stride, uint finish,
                         uint group, uint groups, tile s)
{
    bool matrix = in.rounded && by_matrix();
    uint tokens = step->count, across = (tokens + TILE_TOKENS - 1) / TILE_TOKENS;
    uint items = (rows + TILE_ROWS - 1) / TILE_ROWS * across, depth = in.rounded ? columns / 4 : columns;
    for (uint item = group; item < items; item += groups) {
        s.first = item / across * TILE_ROWS, s.token = item % across * TILE_TOKENS;
        for (uint lane = LANE; lane - LANE < TILE_LANES; lane += LANES) { /* the same number of times in every lane */
            float sums[LANE_TOKENS][LANE_OUTPUTS];
            clear_sums(sums);
            for (uint at = 0; at < depth; at += TILE_DEPTH) {
                if (in.rounded)
                    load_blocks(format, s, w, scales, in.q, in.q_scales, in.q_sums, at, rows, columns, tokens);
                else
                    load_floats(format, s, w, scales, in.x, at, rows, columns, tokens);
                BARRIER();
                if (lane < TILE_LANES && matrix)
                    multiply_blocks_by_matrix(format, s, lane, sums);
                else if (lane < TILE_LANES && in.rounded)
                    multiply_blocks(format, s, lane, sums);
                else if (lane < TILE_LANES)
                    multiply_floats(s, lane, sums);
                BARRIER();
            }
            if (lane < TILE_LANES)
                store_sums(s, lane, matrix, sums, y, stride, rows, tokens, finish);
        }
    }
}

/* Loads the columns of the tile of the rows [at, at + TILE_DEPTH), and the tokens' values for them; zero from row `end`
 * on. */
INLINE void load_rows(int format, tile s, GLOBAL const uchar *w, GLOBAL const ushort *scales, GLOBAL const float *h,
                      uint at, uint end, uint rows, uint columns, uint tokens)
{
    for (uint i = LANE; i < TILE_DEPTH * (TILE_ROWS / 8); i += LANES) {
        uint c = i % (TILE_ROWS / 8) * 8, k = i / (TILE_ROWS / 8), row = least(at + k, end - 1);
        float weights[8];
        tile_weights_8(format, row_of(format, w, row, columns), scales_of(format, scales, row, columns), s.first + c,
                       at + k < end ? columns : 0, weights);
        UNROLL
        for (uint j = 0; j < 8; j++)
            s.weights[k * WEIGHTS_STRIDE + c + j] = AS_UINT(weights[j]);
    }
    for (uint i = LANE; i < TILE_DEPTH * TILE_TOKENS; i += LANES) {
        uint k = i % TILE_DEPTH, t = i / TILE_DEPTH;
        GLOBAL const float *from = h + (size_t)least(s.token + t, tokens - 1) * rows;
        s.values[k * VALUES_STRIDE + t] = AS_UINT(at + k < end ? from[at + k] : 0.0f);
    }
}

INLINE void accumulate_many(int format, GLOBAL const step_record *step, GLOBAL const uchar *w,
                            GLOBAL const ushort *scales, GLOBAL const float *h, GLOBAL float *sums, uint rows,
                            uint columns, uint parts, uint group, uint groups, tile s)
{
    uint tokens = step->count, pieces = (columns + TILE_ROWS - 1) / TILE_ROWS;
    uint items = (tokens + TILE_TOKENS - 1) / TILE_TOKENS * parts * pieces;
    for (uint item = group; item < items; item += groups) {
        uint part = item / pieces % parts;
        uint begin = part_begin(part, rows, parts), end = part_begin(part + 1, rows, parts);
        s.first = item % pieces * TILE_ROWS, s.token = item / pieces / parts * TILE_TOKENS;
        for (uint lane = LANE; lane - LANE < TILE_LANES; lane += LANES) {
            float own[LANE_TOKENS][LANE_OUTPUTS];
            clear_sums(own);
            for (uint at = begin; at < end; at += TILE_DEPTH) {
                load_rows(format, s, w, scales, h, at, end, rows, columns, tokens);
                BARRIER();
                if (lane < TILE_LANES)
                    multiply_floats(s, lane, own);
                BARRIER();
            }
            if (lane < TILE_LANES)
                store_sums(s, lane, false, own, sums + (size_t)part * columns, (size_t)parts * columns, columns, tokens,
                           FINISH_STORE);
        }
    }
}

#define TILE_ARRAYS(s)                                                \
    LOCAL_ARRAY(uint4, tile_weights, TILE_DEPTH *WEIGHTS_STRIDE / 4); \
    LOCAL_ARRAY(uint4, tile_values, TILE_DEPTH *VALUES_STRIDE / 4);   \
    tile s;                                                           \
    s.weights = (LOCAL uint *)tile_weights, s.values = (LOCAL uint *)tile_values

#define X(id, name, values, value_bytes, scale_bytes)                                                  \
    KERNEL(product_many_##name, P_PRODUCT_MANY)                                                        \
    {                                                                                                  \
        TILE_ARRAYS(s);                                                                                \
        product_input in = {false, x, 0, 0, 0};                                                        \
        product_many(W_##id, step, w, scales, in, y, rows, columns, stride, finish, GROUP, GROUPS, s); \
    }                                                                                                  \
    KERNEL(accumulate_many_##name, P_ACCUMULATE_MANY)                                                  \
    {                                                                                                  \
        TILE_ARRAYS(s);                                                                                \
        accumulate_many(W_##id, step, w, scales, h, sums, rows, columns, parts, GROUP, GROUPS, s);     \
    }
DEVICE_FORMATS(X)
#undef X
#define X(id, name, values, value_bytes, scale_bytes)                                                  \
    KERNEL(product_many_8_##name, P_PRODUCT_MANY_8)                                                    \
    {                                                                                                  \
        TILE_ARRAYS(s);                                                                                \
        LOCAL_ARRAY(two_scales, weight_scales, TILE_BLOCKS *TILE_ROWS);                                \
        LOCAL_ARRAY(float, value_scales, TILE_BLOCKS *TILE_TOKENS);                                    \
        LOCAL_ARRAY(int, value_sums, TILE_BLOCKS *TILE_TOKENS);                                        \
        s.weight_scales = weight_scales, s.value_scales = value_scales, s.value_sums = value_sums;     \
        product_input in = {true, 0, q, q_scales, q_sums};                                             \
        product_many(W_##id, step, w, scales, in, y, rows, columns, stride, finish, GROUP, GROUPS, s); \
    }
DEVICE_BLOCK_FORMATS(X)
#undef X
#else
/* ------------------------------------------------------------------ one lane in a group */

#if ON_HOST
/* A lane decodes a strip of w, PRODUCT_ROWS rows of it, which then stays in the first cache while all tokens read it.
 * */
#define STRIP_COLUMNS 512
/* Tokens whose sums are in registers, with those of PRODUCT_ROWS rows. */
#define STRIP_TOKENS  3
/* Columns of a lane's sums for accumulate_many, in vectors, and tokens, for which sums are in registers. */
#define SUM_VECTORS   2
#define SUM_TOKENS    4
/* Rows of w that are decoded at once. */
#define SUM_ROWS      32

/* Loads up to eight values; the others are zero. */
INLINE float8 float8_some(const float *from, uint count)
{
    float8 v = float8_all(0.0f);
    memcpy(&v, from, count * sizeof(float));
    return v;
}

/* Decodes the columns [begin, end) of a row. */
INLINE void decode_strip(int format, const uchar *row, const ushort *scales, uint begin, uint end, float8 *to)
{
    uint at = begin;
    for (; at + 8 <= end; at += 8)
        *to++ = weights_8(format, row, scales, at);
    if (at < end && block_values(format) == 1) {
        float8 rest = float8_all(0.0f);
        for (uint i = 0; at + i < end; i++)
            rest[i] = weight_1(format, row, at + i);
        *to = rest;
    }
}

/* Adds the sums of a piece of all columns to y [tokens][stride], from its first row and token on. The first piece and
 * the last one are finished as the whole. */
INLINE void store_strip(wide sums[STRIP_TOKENS][PRODUCT_ROWS], uint tokens, uint rows, float *y, uint stride,
                        bool first, bool last, uint finish)
{
    for (uint t = 0; t < least(tokens, STRIP_TOKENS); t++)
        for (uint r = 0; r < least(rows, PRODUCT_ROWS); r++) {
            float *to = y + (size_t)t * stride + r;
            float sum = wide_total(sums[t][r]), before = first && finish != FINISH_ADD ? 0.0f : *to;
            *to = finished(before + sum, 0.0f, last && finish == FINISH_RELU ? FINISH_RELU : FINISH_STORE);
        }
}

/* Multiplies the columns [begin, end) of rows with STRIP_TOKENS tokens from `token` on; the last one is repeated if
 * there are fewer. */
INLINE void strip_floats(float8 strip[PRODUCT_ROWS][STRIP_COLUMNS / 8], const float *x, uint columns, uint begin,
                         uint end, uint token, uint tokens, wide sums[STRIP_TOKENS][PRODUCT_ROWS])
{
    const float *of[STRIP_TOKENS];
    uint vectors = (end - begin) / 8, rest = (end - begin) % 8;
    for (uint t = 0; t < STRIP_TOKENS; t++)
        of[t] = x + (size_t)least(token + t, tokens - 1) * columns + begin;
    for (uint k = 0; k < vectors; k++) {
        UNROLL
        for (uint t = 0; t < STRIP_TOKENS; t++) {
            float8 values = float8_load(of[t] + 8 * k);
            UNROLL
            for (uint r = 0; r < PRODUCT_ROWS; r++)
                sums[t][r] = wide_dot(sums[t][r], strip[r][k], values);
        }
    }
    for (uint t = 0; rest > 0 && t < STRIP_TOKENS; t++)
        for (uint r = 0; r < PRODUCT_ROWS; r++)
            sums[t][r] = wide_dot(sums[t][r], strip[r][vectors], float8_some(of[t] + 8 * vectors, rest));
}

/* The same for input of 8 bits; the strip is `count` blocks from block `begin` on. */
INLINE void strip_blocks(int format, block32 strip[PRODUCT_ROWS][STRIP_COLUMNS / 8],
                         two_scales strip_scales[PRODUCT_ROWS][STRIP_COLUMNS / 8], product_input in, uint blocks,
                         uint begin, uint count, uint token, uint tokens, wide sums[STRIP_TOKENS][PRODUCT_ROWS])
{
    size_t of[STRIP_TOKENS];
    for (uint t = 0; t < STRIP_TOKENS; t++)
        of[t] = (size_t)least(token + t, tokens - 1) * blocks + begin;
    for (uint b = 0; b < count; b++) {
        UNROLL
        for (uint t = 0; t < STRIP_TOKENS; t++) {
            block32 values = block32_read(in.q + 32 * (of[t] + b));
            float value_scale = in.q_scales[of[t] + b];
            int q_sum = has_offset(format) ? in.q_sums[of[t] + b] : 0;
            UNROLL
            for (uint r = 0; r < PRODUCT_ROWS; r++)
                sums[t][r] = block_sum(format, sums[t][r], strip[r][b], strip_scales[r][b], values, value_scale, q_sum);
        }
    }
}

/* A strip has as many vectors of eight floats, or blocks of 32 bytes, both of which take 32 bytes. */
INLINE void product_many(int format, const step_record *step, const uchar *w, const ushort *scales, product_input in,
                         float *y, uint rows, uint columns, uint stride, uint finish, uint group, uint groups)
{
    uint tokens = step->count, width = in.rounded ? STRIP_COLUMNS * 4 : STRIP_COLUMNS;
    for (uint first = group * PRODUCT_ROWS; first < rows; first += groups * PRODUCT_ROWS)
        for (uint begin = 0; begin < columns; begin += width) {
            uint end = least(begin + width, columns);
            float8 floats[PRODUCT_ROWS][STRIP_COLUMNS / 8];
            block32 blocks[PRODUCT_ROWS][STRIP_COLUMNS / 8];
            two_scales block_scales[PRODUCT_ROWS][STRIP_COLUMNS / 8];
            for (uint r = 0; r < PRODUCT_ROWS; r++) {
                uint at = least(first + r, rows - 1);
                const uchar *row = row_of(format, w, at, columns);
                const ushort *scale = scales_of(format, scales, at, columns);
                for (uint b = begin / 32; in.rounded && b < end / 32; b++) {
                    blocks[r][b - begin / 32] = weights_block(format, row, b);
                    block_scales[r][b - begin / 32] = scales_32(format, scale, b);
                }
                if (!in.rounded)
                    decode_strip(format, row, scale, begin, end, floats[r]);
            }
            for (uint t = 0; t < tokens; t += STRIP_TOKENS) {
                wide sums[STRIP_TOKENS][PRODUCT_ROWS];
                UNROLL
                for (uint k = 0; k < STRIP_TOKENS; k++)
                    for (uint r = 0; r < PRODUCT_ROWS; r++)
                        sums[k][r] = wide_zero();
                if (in.rounded)
                    strip_blocks(format, blocks, block_scales, in, columns / 32, begin / 32, (end - begin) / 32, t,
                                 tokens, sums);
                else
                    strip_floats(floats, in.x, columns, begin, end, t, tokens, sums);
                store_strip(sums, tokens - t, rows - first, y + (size_t)t * stride + first, stride, begin == 0,
                            end == columns, finish);
            }
        }
}

/* Adds SUM_VECTORS vectors of `depth` rows, times the values of SUM_TOKENS tokens, to their totals. */
INLINE void sum_rows(float8 rows[SUM_ROWS][TILE_ROWS / 8], uint depth, const float *const h[SUM_TOKENS], uint vector,
                     float8 totals[][TILE_ROWS / 8])
{
    float8 sums[SUM_TOKENS][SUM_VECTORS];
    UNROLL
    for (uint t = 0; t < SUM_TOKENS; t++)
        for (uint v = 0; v < SUM_VECTORS; v++)
            sums[t][v] = totals[t][vector + v];
    for (uint k = 0; k < depth; k++) {
        UNROLL
        for (uint t = 0; t < SUM_TOKENS; t++) {
            float8 factor = float8_all(h[t][k]);
            UNROLL
            for (uint v = 0; v < SUM_VECTORS; v++)
                sums[t][v] = float8_fma(factor, rows[k][vector + v], sums[t][v]);
        }
    }
    UNROLL
    for (uint t = 0; t < SUM_TOKENS; t++)
        for (uint v = 0; v < SUM_VECTORS; v++)
            totals[t][vector + v] = sums[t][v];
}

/* Sums the columns [left, left + 8 * vectors) of the rows [begin, end) for up to TILE_TOKENS tokens. Rows of h have the
 * stride `stride`, those of `out` the stride `apart`. */
INLINE void sum_tile(int format, const uchar *w, const ushort *scales, const float *h, uint begin, uint end,
                     uint stride, uint left, uint vectors, uint columns, uint tokens, float *out, size_t apart)
{
    float8 totals[TILE_TOKENS][TILE_ROWS / 8], decoded[SUM_ROWS][TILE_ROWS / 8];
    memset(totals, 0, sizeof(totals));
    memset(decoded, 0, sizeof(decoded)); /* vectors after the last one are summed, but not stored */
    for (uint at = begin; at < end; at += SUM_ROWS) {
        uint depth = least(SUM_ROWS, end - at);
        for (uint k = 0; k < depth; k++)
            for (uint v = 0; v < vectors; v++)
                decoded[k][v] = weights_8(format, row_of(format, w, at + k, columns),
                                          scales_of(format, scales, at + k, columns), left + 8 * v);
        for (uint t = 0; t < tokens; t += SUM_TOKENS) {
            const float *of[SUM_TOKENS];
            for (uint k = 0; k < SUM_TOKENS; k++)
                of[k] = h + (size_t)least(t + k, tokens - 1) * stride + at;
            for (uint v = 0; v < vectors; v += SUM_VECTORS)
                sum_rows(decoded, depth, of, v, totals + t);
        }
    }
    for (uint t = 0; t < tokens; t++)
        memcpy(out + t * apart, totals[t], vectors * sizeof(float8));
}

INLINE void accumulate_many(int format, const step_record *step, const uchar *w, const ushort *scales, const float *h,
                            float *sums, uint rows, uint columns, uint parts, uint group, uint groups)
{
    uint pieces = (columns + TILE_ROWS - 1) / TILE_ROWS, by_8 = COLUMNS_BY_8(columns);
    uint items = (step->count + TILE_TOKENS - 1) / TILE_TOKENS * parts * pieces;
    for (uint item = group; item < items; item += groups) {
        uint left = item % pieces * TILE_ROWS, part = item / pieces % parts,
             token = item / pieces / parts * TILE_TOKENS;
        uint begin = part_begin(part, rows, parts), end = part_begin(part + 1, rows, parts);
        uint right = least(left + TILE_ROWS, columns), middle = least(right, by_8 > left ? by_8 : left);
        uint tokens = least(TILE_TOKENS, step->count - token);
        float *out = sums + ((size_t)token * parts + part) * columns;
        size_t apart = (size_t)parts * columns;
        sum_tile(format, w, scales, h + (size_t)token * rows, begin, end, rows, left, (middle - left) / 8, columns,
                 tokens, out + left, apart);
        for (uint column = middle; column < right; column++) /* never in block formats */
            for (uint t = 0; t < tokens; t++)
                out[t * apart + column] =
                    accumulate_column(format, w, 0, begin, end, h + (size_t)(token + t) * rows, column, columns);
    }
}
#else
/* A CPU under OpenCL: the kernels for few tokens, which take MANY_TOKENS at once. A lane is a group, so there are no ranks. */
#define product_many(format, step, w, scales, in, y, rows, columns, stride, finish, group, groups) \
    product(format, step, w, scales, 0, 0, in, y, rows, columns, stride, finish, group, groups, scratch)
#define accumulate_many(format, step, w, scales, h, sums, rows, columns, parts, group, groups) \
    accumulate(format, step, w, scales, 0, 0, h, sums, rows, columns, parts, group, groups, 0)
#endif

#define X(id, name, values, value_bytes, scale_bytes)                                               \
    KERNEL(product_many_##name, P_PRODUCT_MANY)                                                     \
    {                                                                                               \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                                 \
        (void)scratch;                                                                              \
        product_input in = {false, x, 0, 0, 0};                                                     \
        product_many(W_##id, step, w, scales, in, y, rows, columns, stride, finish, GROUP, GROUPS); \
    }                                                                                               \
    KERNEL(accumulate_many_##name, P_ACCUMULATE_MANY)                                               \
    {                                                                                               \
        accumulate_many(W_##id, step, w, scales, h, sums, rows, columns, parts, GROUP, GROUPS);     \
    }
DEVICE_FORMATS(X)
#undef X
#define X(id, name, values, value_bytes, scale_bytes)                                               \
    KERNEL(product_many_8_##name, P_PRODUCT_MANY_8)                                                 \
    {                                                                                               \
        LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);                                                 \
        (void)scratch;                                                                              \
        product_input in = {true, 0, q, q_scales, q_sums};                                          \
        product_many(W_##id, step, w, scales, in, y, rows, columns, stride, finish, GROUP, GROUPS); \
    }
DEVICE_BLOCK_FORMATS(X)
#undef X
#endif
