/* recurrent.cl - recurrent mixers (Mamba-2, gated delta nets, short convolutions): the convolution before the steps of the states, the steps,
 * and the norm with a gate after them.
 *
 * A row depends on the rows of its sequence before it, so each item goes through all rows of a step in order. What groups
 * and lanes share are channels, heads and rows of a state, which are independent of each other. A lane reads of a state
 * only what it has written itself, so no row waits for the other lanes. */

/* An item is CONVOLVE_CHANNELS channels. Inputs move by one place in what is kept of them, oldest first, so that a place
 * may be written where it was read. */
KERNEL(convolve, P_CONVOLVE)
{
    uint parts = (channels + CONVOLVE_CHANNELS - 1) / CONVOLVE_CHANNELS;
    for (uint item = GROUP; item < parts; item += GROUPS) {
        uint begin = item * CONVOLVE_CHANNELS, end = least(begin + CONVOLVE_CHANNELS, channels);
        for (uint t = 0; t < step->count; t++) {
            bool fresh = step->row[t].state_from == NO_STATE;
            GLOBAL const float *before = states + (fresh ? 0 : (size_t)step->row[t].state_from * length);
            GLOBAL float *after = states + (size_t)step->row[t].state_to * length;
            size_t row = (size_t)t * stride;
            for (uint c = begin + LANE; c < end; c += LANES) {
                float sum = bias ? bias[c] : 0.0f, newest = x[row + c] * (opens ? opens[row + c] : 1.0f);
                for (uint i = 0; i + 1 < window; i++) {
                    float input = fresh ? 0.0f : before[(size_t)i * channels + c];
                    if (i > 0)
                        after[(size_t)(i - 1) * channels + c] = input;
                    sum = FMA(weight[(size_t)c * window + i], input, sum);
                }
                if (window > 1)
                    after[(size_t)(window - 2) * channels + c] = newest;
                sum = FMA(weight[(size_t)c * window + window - 1], newest, sum);
                out[(size_t)t * stride_out + c] = sum * (opens ? closes[row + c] : sigmoid_of(sum));
            }
        }
    }
}

/* The lanes that share a row of a state: a `team` of neighbours, of which this lane is the `member`. */
typedef struct recur_team {
    uint size, member, count; /* count: of teams in a group                               */
    uint own;                 /* number of this lane's team; `count`: it has none and is idle */
} recur_team;

INLINE recur_team recur_team_of(uint chunks)
{
    recur_team o;
    o.size = least(chunks, LANES);
    o.count = LANES / o.size;
    o.own = least(LANE / o.size, o.count);
    o.member = LANE % o.size;
    return o;
}

/* Adds up the values of a team; all lanes of the group must call it. scratch [MOST_LANES] */
INLINE float recur_sum(float value, const recur_team *team, LOCAL float *scratch)
{
    if (team->size == 1)
        return value;
    scratch[LANE] = value;
    BARRIER();
    float sum = 0.0f;
    uint first = team->own < team->count ? team->own * team->size : 0;
    for (uint i = 0; i < team->size; i++)
        sum += scratch[first + i];
    BARRIER(); /* before the next sum overwrites scratch */
    return sum;
}

/* Returns this lane's part of the product of a row of a state with a vector. whole (a constant): both are read eight
 * values at a time. */
INLINE float recur_product(bool whole, GLOBAL const float *state, GLOBAL const float *with, uint columns,
                           const recur_team *team)
{
    wide sum = wide_zero();
    if (whole)
        for (uint i = team->member * 8; i < columns; i += team->size * 8)
            sum = wide_dot(sum, float8_load(state + i), float8_load(with + i));
    else
        for (uint i = team->member; i < columns; i += team->size)
            sum = wide_add(sum, state[i] * with[i]);
    return wide_total(sum);
}

/* Takes this lane's part of a row from -> to: decay * row (fresh: zero) + factor * key. Returns its part of the product
 * with the query. */
INLINE float recur_step(bool whole, bool fresh, GLOBAL const float *from, GLOBAL float *to, float decay, float factor,
                        GLOBAL const float *key, GLOBAL const float *query, uint columns, const recur_team *team)
{
    wide sum = wide_zero();
    if (whole)
        for (uint i = team->member * 8; i < columns; i += team->size * 8) {
            float8 value = float8_times(float8_all(factor), float8_load(key + i));
            if (!fresh)
                value = float8_fma(float8_all(decay), float8_load(from + i), value);
            float8_store(to + i, value);
            sum = wide_dot(sum, value, float8_load(query + i));
        }
    else
        for (uint i = team->member; i < columns; i += team->size) {
            float value = factor * key[i];
            if (!fresh)
                value = FMA(decay, from[i], value);
            to[i] = value;
            sum = wide_add(sum, value * query[i]);
        }
    return wide_total(sum);
}

/* Takes RECUR_ROWS rows of the state of head h through the rows of a step, as many at a time as there are teams. */
INLINE void recur_rows(bool whole, GLOBAL const step_record *step, GLOBAL const float *x, GLOBAL const float *steps,
                       GLOBAL const float *betas, float step_bias, float rate, float skip, float scale,
                       GLOBAL float *states, GLOBAL float *out, uint h, uint first, uint heads, uint values, uint keys,
                       uint columns, bool delta, bool neighbours, uint stride, uint length, LOCAL float *scratch)
{
    recur_team team = recur_team_of(whole ? columns / 8 : columns);
    uint width = heads * values, all = keys * columns, key = (neighbours ? h / (heads / keys) : h % keys) * columns;
    uint value_at = delta ? 2 * all : 0, key_at = (delta ? all : width) + key,
         query_at = delta ? key : width + all + key;
    for (uint base = first; base < first + RECUR_ROWS; base += team.count) {
        uint r = base + team.own;
        bool works = team.own < team.count && r < first + RECUR_ROWS && r < values;
        size_t at = ((size_t)h * values + (works ? r : first)) * columns;
        for (uint t = 0; t < step->count; t++) {
            GLOBAL const float *row = x + (size_t)t * stride;
            float size = softplus_of(steps[(size_t)t * stride + h] + step_bias), decay = EXP(rate * size);
            float gain = delta ? sigmoid_of(betas[(size_t)t * stride + h]) : size, answer = 0.0f, sum = 0.0f;
            bool fresh = step->row[t].state_from == NO_STATE;
            GLOBAL const float *from = states + (fresh ? 0 : (size_t)step->row[t].state_from * length) + at;
            GLOBAL float *to = states + (size_t)step->row[t].state_to * length + at;
            if (delta && !fresh) {
                if (works)
                    answer = recur_product(whole, from, row + key_at, columns, &team);
                answer = recur_sum(answer, &team, scratch);
            }
            float value = works ? row[value_at + h * values + r] : 0.0f;
            if (works)
                sum = recur_step(whole, fresh, from, to, decay, gain * (value - decay * answer), row + key_at,
                                 row + query_at, columns, &team);
            sum = recur_sum(sum, &team, scratch);
            if (works && team.member == 0)
                out[(size_t)t * width + h * values + r] = FMA(scale, sum, skip * value);
        }
    }
}

/* An item is RECUR_ROWS rows of the state of a head. Rows are read eight values at a time if all of them, and the keys and
 * queries, begin at a multiple of four. */
KERNEL(recur, P_RECUR)
{
    LOCAL_ARRAY(float, scratch, MOST_LANES);
    uint parts = (values + RECUR_ROWS - 1) / RECUR_ROWS;
    bool whole = columns % 8 == 0 && stride % 4 == 0 && length % 4 == 0 && heads * values % 4 == 0;
    for (uint item = GROUP; item < heads * parts; item += GROUPS) {
        uint h = item / parts, first = item % parts * RECUR_ROWS;
        float skipped = skip ? skip[h] : 0.0f;
        if (whole)
            recur_rows(true, step, x, steps, betas, step_bias[h], rates[h], skipped, scale, states, out, h, first,
                       heads, values, keys, columns, delta != 0, neighbours != 0, stride, length, scratch);
        else
            recur_rows(false, step, x, steps, betas, step_bias[h], rates[h], skipped, scale, states, out, h, first,
                       heads, values, keys, columns, delta != 0, neighbours != 0, stride, length, scratch);
    }
}

/* An item is a range of a row. Each lane norms the values that it has gated. */
KERNEL(norm_gated, P_NORM_GATED)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * ranges; item += GROUPS) {
        uint t = item / ranges, range = item % ranges;
        GLOBAL float *values = x + (size_t)item * length;
        GLOBAL const float *gates = gate + (size_t)t * stride + range * length;
        GLOBAL const float *weights = weight + (before ? range * length : 0);
        float squares = 0.0f;
        for (uint i = LANE; i < length; i += LANES) {
            if (before)
                values[i] *= (logistic ? 1.0f : gates[i]) * sigmoid_of(gates[i]);
            squares = FMA(values[i], values[i], squares);
        }
        float scale = norm_scale(group_sum(squares, shared), length, epsilon);
        for (uint i = LANE; i < length; i += LANES)
            values[i] *= scale * weights[i] * (before ? 1.0f : (logistic ? 1.0f : gates[i]) * sigmoid_of(gates[i]));
    }
}
