/* columns.cl - mixers whose states have a decay for each column (recurrent_shape in model/layer.h), between their products: RWKV-7's
 * mixtures of each token with the one before, what the steps of the states begin with, the steps, and what comes after them. Rows
 * of a step, lanes and states as in recurrent.cl. */

/* An item is CONVOLVE_CHANNELS columns. */
KERNEL(mix_inputs, P_MIX_INPUTS)
{
    uint parts = (columns + CONVOLVE_CHANNELS - 1) / CONVOLVE_CHANNELS;
    for (uint item = GROUP; item < parts; item += GROUPS) {
        uint begin = item * CONVOLVE_CHANNELS, end = least(begin + CONVOLVE_CHANNELS, columns);
        for (uint t = 0; t < step->count; t++) {
            bool fresh = step->row[t].state_from == NO_STATE;
            GLOBAL const float *before = states + (fresh ? 0 : (size_t)step->row[t].state_from * length);
            GLOBAL float *after = states + (size_t)step->row[t].state_to * length;
            for (uint c = begin + LANE; c < end; c += LANES) {
                float own = x[(size_t)t * columns + c], difference = (fresh ? 0.0f : before[c]) - own;
                after[c] = own;
                for (uint j = 0; j < inputs; j++)
                    out[(size_t)j * apart + (size_t)t * columns + c] =
                        FMA(mix[(size_t)j * columns + c], difference, own);
            }
        }
    }
}

/* An item is SQUASHED_VALUES values. */
KERNEL(squash, P_SQUASH)
{
    uint first = step->count * tanhs, all = first + step->count * sigmoids;
    uint parts = (all + SQUASHED_VALUES - 1) / SQUASHED_VALUES;
    for (uint item = GROUP; item < parts; item += GROUPS) {
        uint begin = item * SQUASHED_VALUES, end = least(begin + SQUASHED_VALUES, all);
        for (uint i = begin + LANE; i < end; i += LANES) {
            GLOBAL float *value = i < first ? x + i : x + apart + (i - first);
            *value = i < first ? tanh_of(*value) : sigmoid_of(*value);
        }
    }
}

/* An item is a head of a row. */
KERNEL(wkv_prepare, P_WKV_PREPARE)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    uint width = heads * length;
    for (uint item = GROUP; item < step->count * heads; item += GROUPS) {
        uint t = item / heads, head = item % heads * length;
        GLOBAL float *row = x + (size_t)t * stride + head;
        GLOBAL float *key = row + WKV_KEY * pitch, *value = row + WKV_VALUE * pitch, *decay = row + WKV_DECAY * pitch;
        GLOBAL float *rate = row + WKV_RATE * pitch, *asked = row + WKV_ASKED * pitch;
        GLOBAL const float *share = row + WKV_SHARE * pitch, *own = parameters + head;
        GLOBAL float *first = first_value + (size_t)t * width + head;
        float squares = 0.0f;
        for (uint i = LANE; i < length; i += LANES) {
            float a = key[i] * own[WKV_REMOVAL_SCALE * width + i];
            squares = FMA(a, a, squares);
        }
        float size = SQRT(group_sum(squares, shared)), scale = DIVIDE(1.0f, size > 1e-12f ? size : 1e-12f);
        for (uint i = LANE; i < length; i += LANES) {
            float learns = sigmoid_of(rate[i] + own[WKV_RATE_BIAS * width + i]);
            float a = key[i] * own[WKV_REMOVAL_SCALE * width + i] * scale;
            decay[i] = EXP(-WKV_LARGEST_DECAY * sigmoid_of(decay[i] + own[WKV_DECAY_BIAS * width + i]));
            key[i] *= FMA(learns - 1.0f, own[WKV_RATE_SHARE * width + i], 1.0f);
            asked[i] = a;
            rate[i] = a * learns;
            if (is_first)
                first[i] = value[i];
            else
                value[i] = FMA(first[i] - value[i], sigmoid_of(share[i] + own[WKV_SHARE_BIAS * width + i]), value[i]);
        }
    }
}

/* Returns what scales the `length` values of a vector to a length of 1. */
INLINE float unit_scale(GLOBAL const float *x, uint length, LOCAL float *shared)
{
    float squares = 0.0f;
    for (uint i = LANE; i < length; i += LANES)
        squares = FMA(x[i], x[i], squares);
    return DIVIDE(1.0f, SQRT(group_sum(squares, shared) + 1e-6f));
}

/* An item is a head of a row. */
KERNEL(kda_prepare, P_KDA_PREPARE)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * heads; item += GROUPS) {
        uint t = item / heads, h = item % heads, head = h * length;
        GLOBAL float *row = x + (size_t)t * stride + head;
        GLOBAL float *query = row + WKV_QUERY * pitch, *key = row + WKV_KEY * pitch;
        GLOBAL float *decay = row + WKV_DECAY * pitch, *removed = row + WKV_RATE * pitch;
        GLOBAL float *asked = row + WKV_ASKED * pitch;
        float of_query = DIVIDE(unit_scale(query, length, shared), SQRT((float)length));
        float of_key = unit_scale(key, length, shared);
        float gain = sigmoid_of(x[(size_t)t * stride + WKV_SHARE * pitch + h]), rate = magnitude_of(rates[h]);
        for (uint i = LANE; i < length; i += LANES) {
            float unit = key[i] * of_key, made = decay[i] + bias[head + i];
            float kept = EXP(lowest < 0.0f ? lowest * sigmoid_of(rate * made) : -rate * softplus_of(made));
            query[i] *= of_query;
            decay[i] = kept;
            asked[i] = kept * unit;
            removed[i] = gain * unit;
            key[i] = gain * unit;
        }
    }
}

/* Takes this lane's part of a row from -> to: decays * row + value * key - answer * removed (fresh: the row is zero). Returns its
 * part of the product with the query. All vectors lie `pitch` apart from `row` on. */
INLINE float recur_columns_step(bool whole, bool fresh, GLOBAL const float *from, GLOBAL float *to, float value,
                                float answer, GLOBAL const float *row, uint pitch, uint columns, const recur_team *team)
{
    GLOBAL const float *key = row + WKV_KEY * pitch, *query = row + WKV_QUERY * pitch;
    GLOBAL const float *decays = row + WKV_DECAY * pitch, *removed = row + WKV_RATE * pitch;
    wide sum = wide_zero();
    if (whole)
        for (uint i = team->member * 8; i < columns; i += team->size * 8) {
            float8 result = float8_times(float8_all(value), float8_load(key + i));
            if (!fresh) {
                result = float8_fma(float8_load(decays + i), float8_load(from + i), result);
                result = float8_fma(float8_all(-answer), float8_load(removed + i), result);
            }
            float8_store(to + i, result);
            sum = wide_dot(sum, result, float8_load(query + i));
        }
    else
        for (uint i = team->member; i < columns; i += team->size) {
            float result = value * key[i];
            if (!fresh)
                result = FMA(-answer, removed[i], FMA(decays[i], from[i], result));
            to[i] = result;
            sum = wide_add(sum, result * query[i]);
        }
    return wide_total(sum);
}

/* Takes RECUR_ROWS rows of the state of head h through the rows of a step, as many at a time as there are teams. */
INLINE void recur_columns_rows(bool whole, GLOBAL const step_record *step, GLOBAL const float *x, GLOBAL float *states,
                               GLOBAL float *out, uint h, uint first, uint heads, uint columns, uint pitch, uint stride,
                               uint length, LOCAL float *scratch)
{
    recur_team team = recur_team_of(whole ? columns / 8 : columns);
    for (uint base = first; base < first + RECUR_ROWS; base += team.count) {
        uint r = base + team.own;
        bool works = team.own < team.count && r < first + RECUR_ROWS && r < columns;
        size_t at = ((size_t)h * columns + (works ? r : first)) * columns;
        for (uint t = 0; t < step->count; t++) {
            GLOBAL const float *row = x + (size_t)t * stride + h * columns;
            bool fresh = step->row[t].state_from == NO_STATE;
            GLOBAL const float *from = states + (fresh ? 0 : (size_t)step->row[t].state_from * length) + at;
            GLOBAL float *to = states + (size_t)step->row[t].state_to * length + at;
            float answer = 0.0f, sum = 0.0f;
            if (!fresh) {
                if (works)
                    answer = recur_product(whole, from, row + WKV_ASKED * pitch, columns, &team);
                answer = recur_sum(answer, &team, scratch);
            }
            if (works)
                sum = recur_columns_step(whole, fresh, from, to, row[WKV_VALUE * pitch + r], answer, row, pitch,
                                         columns, &team);
            sum = recur_sum(sum, &team, scratch);
            if (works && team.member == 0)
                out[(size_t)t * heads * columns + h * columns + r] = sum;
        }
    }
}

/* An item is RECUR_ROWS rows of the state of a head. Rows are read eight values at a time if all of them, and the vectors, begin at
 * a multiple of four. */
KERNEL(recur_columns, P_RECUR_COLUMNS)
{
    LOCAL_ARRAY(float, scratch, MOST_LANES);
    uint parts = (columns + RECUR_ROWS - 1) / RECUR_ROWS;
    bool whole = columns % 8 == 0 && stride % 4 == 0 && pitch % 4 == 0 && length % 4 == 0;
    for (uint item = GROUP; item < heads * parts; item += GROUPS) {
        uint h = item / parts, first = item % parts * RECUR_ROWS;
        if (whole)
            recur_columns_rows(true, step, x, states, out, h, first, heads, columns, pitch, stride, length, scratch);
        else
            recur_columns_rows(false, step, x, states, out, h, first, heads, columns, pitch, stride, length, scratch);
    }
}

/* An item is a head of a row. */
KERNEL(wkv_finish, P_WKV_FINISH)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * heads; item += GROUPS) {
        uint t = item / heads, head = item % heads * length;
        GLOBAL float *y = out + (size_t)item * length;
        GLOBAL const float *row = x + (size_t)t * stride + head;
        float sum = 0.0f, squares = 0.0f, extra = 0.0f;
        for (uint i = LANE; i < length; i += LANES) {
            sum += y[i];
            extra = FMA(row[WKV_QUERY * pitch + i] * row[WKV_KEY * pitch + i], bonus[head + i], extra);
        }
        float mean = DIVIDE(group_sum(sum, shared), (float)length);
        extra = group_sum(extra, shared);
        for (uint i = LANE; i < length; i += LANES)
            squares = FMA(y[i] - mean, y[i] - mean, squares);
        float scale = norm_scale(group_sum(squares, shared), length, epsilon);
        for (uint i = LANE; i < length; i += LANES) {
            float normed = FMA((y[i] - mean) * scale, weight[head + i], bias[head + i]);
            y[i] = FMA(extra, row[WKV_VALUE * pitch + i], normed) * row[WKV_GATE * pitch + i];
        }
    }
}
