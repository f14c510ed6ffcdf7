/* vectors.cl - kernels over one whole row of a step: norms, and the greatest logit at the end.
 *
 * A group takes a row. Neighbouring lanes read neighbouring values, and the group combines their results at the end in
 * a fixed order, so that a row gives the same bits on every run. */

/* The scratch that group_sum and group_max need for one value. */
#define SCRATCH_FOR_ONE ((GROUP_SCRATCH + SUMS_AT_ONCE - 1) / SUMS_AT_ONCE)

/* Returns the factor of a norm: 1 / sqrt(squares / n + epsilon). */
INLINE float norm_scale(float squares, uint n, float epsilon)
{
    return DIVIDE(1.0f, SQRT(DIVIDE(squares, (float)n) + epsilon));
}

/* Norms a row by the lanes of a group. May work in place: a lane writes only where it has read. A lane's first vector stays in
 * registers, and its weights are loaded before they are needed: a group alone on its unit waits for every load. */
INLINE void norm_row(GLOBAL const float *row, GLOBAL const float *weight, GLOBAL float *out, uint columns,
                     float epsilon, LOCAL float *shared)
{
    uint by_8 = COLUMNS_BY_8(columns);
    uint own = LANE * 8;
    wide squares = wide_zero();
    float8 first = float8_all(0.0f), first_weight = first;
    if (own < by_8) {
        first = float8_load(row + own);
        first_weight = float8_load(weight + own);
        squares = wide_dot(squares, first, first);
    }
    for (uint i = own + LANES * 8; i < by_8; i += LANES * 8) {
        float8 values = float8_load(row + i);
        squares = wide_dot(squares, values, values);
    }
    for (uint i = by_8 + LANE; i < columns; i += LANES)
        squares = wide_add(squares, row[i] * row[i]);
    float scale = norm_scale(group_sum(wide_total(squares), shared), columns, epsilon);
    if (own < by_8)
        float8_store(out + own, float8_times(float8_times(first, float8_all(scale)), first_weight));
    for (uint i = own + LANES * 8; i < by_8; i += LANES * 8)
        float8_store(out + i,
                     float8_times(float8_times(float8_load(row + i), float8_all(scale)), float8_load(weight + i)));
    for (uint i = by_8 + LANE; i < columns; i += LANES)
        out[i] = row[i] * scale * weight[i];
}

KERNEL(norm, P_NORM)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint t = GROUP; t < step->count; t += GROUPS)
        norm_row(x + (size_t)t * columns, weight, out + (size_t)t * columns, columns, epsilon, shared);
}

KERNEL(norm_8, P_NORM_8)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    uint blocks = columns / 32;
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        norm_row(x + (size_t)t * columns, weight, out + (size_t)t * columns, columns, epsilon, shared);
        BARRIER(); /* others read what a lane has written */
        quantize_blocks(out, q, q_scales, q_sums, t * blocks, (t + 1) * blocks);
    }
}

/* An item is a range of a row. In place, too, nothing is written before all lanes have read the range. */
KERNEL(norm_ranges, P_NORM_RANGES)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * ranges; item += GROUPS) {
        size_t at = (size_t)(item / ranges) * stride + (size_t)(item % ranges) * length;
        GLOBAL const float *from = x + at;
        float sum = 0.0f, squares = 0.0f;
        for (uint i = LANE; i < length; i += LANES)
            sum += centred ? from[i] : 0.0f;
        float mean = DIVIDE(group_sum(sum, shared), (float)length);
        for (uint i = LANE; i < length; i += LANES)
            squares = FMA(from[i] - mean, from[i] - mean, squares);
        float scale = norm_scale(group_sum(squares, shared), length, epsilon);
        for (uint i = LANE; i < length; i += LANES) {
            float normed = (from[i] - mean) * scale;
            float result = factor * FMA(normed, weight ? weight[i] : 1.0f, bias ? bias[i] : 0.0f);
            out[at + i] = finished(result, finish == FINISH_ADD ? out[at + i] : 0.0f, finish);
        }
    }
}

KERNEL(norm_neurons, P_NORM_NEURONS)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL float *row = h + (size_t)t * n;
        uint count = listed ? listed[t] : n;
        float sum = 0.0f;
        for (uint i = LANE; i < count; i += LANES)
            sum = FMA(row[i], row[i], sum);
        sum = group_sum(sum, shared);
        float scale = squares ? 1.0f : norm_scale(sum, n, epsilon);
        for (uint i = LANE; i < count; i += LANES)
            row[i] *= scale * weight[list ? list[(size_t)t * n + i] : i];
        if (squares && LANE == 0)
            squares[t] = sum;
    }
}

KERNEL(norm_joined, P_NORM_JOINED)
{
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        float scale = norm_scale(own[t] + others[t], n, epsilon);
        for (uint i = LANE; i < columns; i += LANES)
            x[(size_t)t * columns + i] *= scale;
    }
}

/* Maps a float to an integer of the same order: the bits of positive numbers are ordered like the numbers, those of
 * negative ones the other way round. Both zeros give the same integer, NaN gives the least. With integers it does not
 * matter how a device treats subnormal numbers or NaN. */
INLINE uint order_of(float value)
{
    uint bits = AS_UINT(value), magnitude = bits & 0x7fffffffu;
    uint ordered = bits == magnitude ? bits | 0x80000000u : 0x80000000u - magnitude;
    return magnitude > 0x7f800000u ? 0 : ordered;
}

/* As order_of, but NaN is the greatest: what is broken, an expert or a position, is to be chosen, so that the result shows it. */
INLINE uint rank_of(float value)
{
    return value == value ? order_of(value) : 0xffffffffu;
}

/* Returns whether the first candidate is better: its value is greater, or equal at an earlier place. */
INLINE bool is_better(uint value, uint place, uint than_value, uint than_place)
{
    return value > than_value || (value == than_value && place < than_place);
}

/* Logits that a lane reads at once. */
#define ARGMAX_VALUES 8

/* Finds the place of the greatest value in each row of logits. */
KERNEL(argmax, P_ARGMAX)
{
    LOCAL_ARRAY(uint, values, MOST_LANES);
    LOCAL_ARRAY(uint, places, MOST_LANES);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL const float *row = logits + (size_t)t * n;
        uint value = 0, place = LANE < n ? LANE : 0; /* if all are NaN: the first */
        uint base = 0;
        for (; n - base >= ARGMAX_VALUES * LANES; base += ARGMAX_VALUES * LANES) {
            uint order[ARGMAX_VALUES], top = 0;
            UNROLL
            for (uint k = 0; k < ARGMAX_VALUES; k++) {
                order[k] = order_of(row[base + k * LANES + LANE]);
                top = top < order[k] ? order[k] : top;
            }
            for (uint k = 0; top > value && k < ARGMAX_VALUES; k++) /* seldom: about log(n) times in all */
                if (order[k] == top) {
                    value = top;
                    place = base + k * LANES + LANE;
                }
        }
        for (uint i = base + LANE; i < n; i += LANES) {
            uint order = order_of(row[i]);
            if (order > value) {
                value = order;
                place = i;
            }
        }
        values[LANE] = value;
        places[LANE] = place;
        for (uint left = LANES; left > 1;) { /* combine the upper half with the lower, until one is left */
            uint half_way = (left + 1) / 2;
            BARRIER();
            if (LANE + half_way < left &&
                is_better(values[LANE + half_way], places[LANE + half_way], values[LANE], places[LANE])) {
                values[LANE] = values[LANE + half_way];
                places[LANE] = places[LANE + half_way];
            }
            left = half_way;
        }
        if (LANE == 0)
            best[t] = places[0];
        BARRIER(); /* before the next row overwrites values and places */
    }
}

/* Returns where the values of a head of a row begin. */
INLINE size_t head_at(uint h, uint t, uint tokens, uint length, uint row, uint head)
{
    return head > 0 ? (size_t)t * row + (size_t)h * head : ((size_t)h * tokens + t) * length;
}

KERNEL(move, P_MOVE)
{
    for (uint item = GROUP; item < step->count * heads; item += GROUPS) {
        uint h = item % heads, t = item / heads;
        GLOBAL const float *own = from + head_at(h, t, step->count, length, from_row, from_head);
        GLOBAL float *there = to + head_at(h, t, step->count, length, to_row, to_head);
        GLOBAL const float *gate = gates ? gates + (size_t)t * gate_row + h * length : gates;
        for (uint i = LANE; i < length; i += LANES)
            there[i] = gate ? own[i] * sigmoid_of(gate[i]) : own[i];
    }
}
