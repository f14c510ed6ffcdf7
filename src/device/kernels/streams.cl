/* streams.cl - several streams of the residual: of AltUp (engine/streams.h) what a layer begins with, where all of them are predicted
 * from one another, and ends with, where each is corrected by what the layer changed in the active one; of hyper-connections
 * and gates (engine/connections.h) what a block reads, and what becomes of the streams behind it.
 *
 * Those of AltUp weigh small matrices with w = tanh(products / columns) of the token, a value per stream. The lanes of a group compute w
 * and the factors that follow from it together, and share the columns after that.
 *
 * Loops over streams that lie within a loop of the lanes have a constant length and are unrolled: they stay in registers, and
 * PoCL 3.1 loses a barrier where such a loop is as long for all lanes and the one around it is not. */

/* Computes w of one token. */
INLINE void weigh_streams(GLOBAL const float *products, uint streams, uint columns, LOCAL float *w)
{
    for (uint i = LANE; i < streams; i += LANES)
        w[i] = tanh_of(DIVIDE(products[i], (float)columns));
    BARRIER();
}

/* Returns the product of a row of a small matrix with w. */
INLINE float weighed(GLOBAL const float *row, LOCAL const float *w, uint streams)
{
    float sum = 0.0f;
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        if (i < streams)
            sum = FMA(row[i], w[i], sum);
    return sum;
}

KERNEL(predict_streams, P_PREDICT_STREAMS)
{
    LOCAL_ARRAY(float, w, MOST_STREAMS);
    LOCAL_ARRAY(float, factors, MOST_STREAMS * MOST_STREAMS);
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        weigh_streams(products + (size_t)t * streams, streams, columns, w);
        for (uint i = LANE; i < streams * streams; i += LANES)
            factors[i] = weighed(predict + (size_t)i * streams, w, streams);
        BARRIER();
        for (uint c = left + LANE; c < right; c += LANES) {
            float old[MOST_STREAMS];
            size_t at = (size_t)t * columns + c;
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++)
                old[i] = i < streams ? states[(size_t)i * apart + at] : 0.0f;
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++) {
                float sum = 0.0f;
                UNROLL
                for (uint j = 0; j < MOST_STREAMS; j++)
                    if (i < streams && j < streams)
                        sum = FMA(factors[i * streams + j], old[j], sum);
                if (i < streams)
                    states[(size_t)i * apart + at] = old[i] + sum;
            }
            x[at] = states[(size_t)active * apart + at];
        }
        BARRIER(); /* before the next item overwrites w and factors */
    }
}

KERNEL(correct_streams, P_CORRECT_STREAMS)
{
    LOCAL_ARRAY(float, w, MOST_STREAMS);
    LOCAL_ARRAY(float, factors, MOST_STREAMS);
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        weigh_streams(products + (size_t)t * streams, streams, columns, w);
        for (uint i = LANE; i < streams; i += LANES)
            factors[i] = 1.0f + weighed(correct + (size_t)i * streams, w, streams);
        BARRIER();
        for (uint c = left + LANE; c < right; c += LANES) {
            size_t at = (size_t)t * columns + c;
            float change = x[at] - states[(size_t)active * apart + at];
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++)
                if (i < streams)
                    states[(size_t)i * apart + at] = FMA(factors[i], change, states[(size_t)i * apart + at]);
            seen[at] = states[(size_t)active * apart + at] * (scales ? scales[c] : 1.0f);
        }
        BARRIER(); /* before the next item overwrites w and factors */
    }
}

/* ------------------------------------------------------------------ hyper-connections */

/* Divides n values that lie so far apart by their sum plus epsilon. */
INLINE void divide_by_sum(LOCAL float *values, uint n, uint apart, float epsilon)
{
    float sum = 0.0f;
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        sum += i < n ? values[i * apart] : 0.0f;
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        if (i < n)
            values[i * apart] = DIVIDE(values[i * apart], sum + epsilon);
}

/* Turns a row into its shares exp(x) / sum, plus epsilon. */
INLINE void shares_of(LOCAL float *row, uint n, float epsilon)
{
    float most = row[0], sum = 0.0f;
    UNROLL
    for (uint i = 1; i < MOST_STREAMS; i++)
        most = i < n && row[i] > most ? row[i] : most;
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        if (i < n) {
            row[i] = EXP(row[i] - most);
            sum += row[i];
        }
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        if (i < n)
            row[i] = DIVIDE(row[i], sum) + epsilon;
}

/* A group takes a token. The first lanes take the rows, and the columns, of the mixtures. */
KERNEL(weigh_connections, P_WEIGH_CONNECTIONS)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    LOCAL_ARRAY(float, w, MOST_STREAMS * (2 + MOST_STREAMS));
    uint all = streams * (steps > 0 ? 2 + streams : 2), n = streams * columns;
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL const float *state = states + (size_t)t * n;
        GLOBAL float *own = weights + (size_t)t * all;
        LOCAL float *mix = w + 2 * streams;
        float squares = 0.0f;
        for (uint i = LANE; i < n; i += LANES)
            squares = FMA(state[i], state[i], squares);
        float mean = DIVIDE(group_sum(squares, shared), (float)n);
        float factor = DIVIDE(1.0f, SQRT(mean + norm_epsilon));
        for (uint i = LANE; i < all; i += LANES) {
            uint part = i < streams ? 0 : i < 2 * streams ? 1 : 2; /* of the weights: before, after, mix */
            float value = FMA(own[i] * factor, scale[part], base[i]);
            float share = part < 2 ? sigmoid_of(value) * (part == 1 ? magnitude : 1.0f) : value;
            w[i] = part == 0 || steps == 0 ? share + epsilon : share;
        }
        BARRIER();
        for (uint i = LANE; i < streams && steps > 0; i += LANES)
            shares_of(mix + i * streams, streams, epsilon);
        BARRIER();
        for (uint k = 0; k < steps; k++) {
            for (uint i = LANE; i < streams && k > 0; i += LANES)
                divide_by_sum(mix + i * streams, streams, 1, epsilon);
            BARRIER();
            for (uint i = LANE; i < streams; i += LANES)
                divide_by_sum(mix + i, streams, streams, epsilon);
            BARRIER();
        }
        for (uint i = LANE; i < all; i += LANES)
            own[i] = w[i];
        BARRIER(); /* before the next token overwrites w */
    }
}

/* Returns what a block reads in a column, of all streams in it. */
INLINE float collapsed(const float *state, GLOBAL const float *before, uint streams)
{
    float sum = 0.0f;
    UNROLL
    for (uint i = 0; i < MOST_STREAMS; i++)
        if (i < streams)
            sum = FMA(before[i], state[i], sum);
    return sum;
}

KERNEL(collapse_streams, P_COLLAPSE_STREAMS)
{
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS, all = streams * (mixed ? 2 + streams : 2);
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        for (uint c = left + LANE; c < right; c += LANES) {
            float state[MOST_STREAMS];
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++)
                state[i] = i < streams ? states[((size_t)t * streams + i) * columns + c] : 0.0f;
            x[(size_t)t * columns + c] = collapsed(state, weights + (size_t)t * all, streams);
        }
    }
}

KERNEL(spread_streams, P_SPREAD_STREAMS)
{
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS, all = streams * (mixed ? 2 + streams : 2);
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        GLOBAL const float *before = weights + (size_t)t * all, *after = before + streams, *mix = after + streams;
        for (uint c = left + LANE; c < right; c += LANES) {
            float state[MOST_STREAMS];
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++)
                state[i] = i < streams ? states[((size_t)t * streams + i) * columns + c] : 0.0f;
            float result = x[(size_t)t * columns + c] - collapsed(state, before, streams);
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++) {
                float sum = i < streams ? after[i] * result + (mixed ? 0.0f : state[i]) : 0.0f;
                UNROLL
                for (uint j = 0; j < MOST_STREAMS; j++)
                    if (mixed && i < streams && j < streams)
                        sum = FMA(mix[j * streams + i], state[j], sum);
                if (i < streams)
                    states[((size_t)t * streams + i) * columns + c] = sum;
            }
        }
    }
}

/* ------------------------------------------------------------------ gates */

/* An item is a stream of a row. */
KERNEL(norm_streams, P_NORM_STREAMS)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * streams; item += GROUPS) {
        GLOBAL const float *from = states + (size_t)item * columns;
        GLOBAL const float *weights = weight + (size_t)(item % streams) * columns;
        float squares = 0.0f;
        for (uint i = LANE; i < columns; i += LANES)
            squares = FMA(from[i], from[i], squares);
        float scale = norm_scale(group_sum(squares, shared), columns, epsilon);
        for (uint i = LANE; i < columns; i += LANES)
            out[(size_t)item * columns + i] = from[i] * scale * weights[i];
    }
}

KERNEL(squeeze, P_SQUEEZE)
{
    uint all = step->count * n, parts = (all + SQUASHED_VALUES - 1) / SQUASHED_VALUES;
    for (uint item = GROUP; item < parts; item += GROUPS)
        for (uint i = item * SQUASHED_VALUES + LANE; i < least((item + 1) * SQUASHED_VALUES, all); i += LANES) {
            float value = factor * x[i];
            x[i] = value * sigmoid_of(value);
        }
}

KERNEL(collapse_gates, P_COLLAPSE_GATES)
{
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        for (uint c = left + LANE; c < right; c += LANES) {
            float sum = 0.0f;
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++) {
                size_t at = ((size_t)t * streams + i) * columns + c;
                sum = i < streams ? FMA(sigmoid_of(gates[at]), normed[at], sum) : sum;
            }
            sum = DIVIDE(sum, (float)streams);
            x[(size_t)t * columns + c] = sum;
            read[(size_t)t * columns + c] = sum;
        }
    }
}

KERNEL(spread_gates, P_SPREAD_GATES)
{
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS;
    for (uint item = GROUP; item < step->count * pieces; item += GROUPS) {
        uint t = item / pieces, left = item % pieces * STREAM_COLUMNS, right = least(left + STREAM_COLUMNS, columns);
        float weights[MOST_STREAMS];
        UNROLL
        for (uint i = 0; i < MOST_STREAMS; i++)
            weights[i] =
                i < streams ? 2.0f * sigmoid_of(DIVIDE(products[(size_t)t * streams + i], (float)streams)) : 0.0f;
        for (uint c = left + LANE; c < right; c += LANES) {
            float result = x[(size_t)t * columns + c] - read[(size_t)t * columns + c];
            UNROLL
            for (uint i = 0; i < MOST_STREAMS; i++)
                if (i < streams) {
                    GLOBAL float *state = states + ((size_t)t * streams + i) * columns + c;
                    *state = FMA(weights[i], result, *state);
                }
        }
    }
}

/* ------------------------------------------------------------------ n-grams */

/* An item is a stream of a row. */
KERNEL(gate_ngrams, P_GATE_NGRAMS)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * streams; item += GROUPS) {
        GLOBAL float *state = states + (size_t)item * columns, *to = normed + (size_t)item * columns;
        GLOBAL const float *key = keys + (size_t)item * columns;
        GLOBAL const float *value = values + (size_t)(item / streams) * columns;
        size_t own = (size_t)(item % streams) * columns;
        float sum = 0.0f, squares = 0.0f, of_values = 0.0f;
        for (uint i = LANE; i < columns; i += LANES) {
            sum = FMA(key[i] * weight[own + i], state[i], sum);
            squares = FMA(state[i], state[i], squares);
            of_values = FMA(value[i], value[i], of_values);
        }
        sum = group_sum(sum, shared);
        squares = group_sum(squares, shared);
        of_values = group_sum(of_values, shared);
        float score = DIVIDE(sum * norm_scale(squares, columns, epsilon), SQRT((float)columns));
        float size = score < 0.0f ? -score : score, root = SQRT(size > 1e-6f ? size : 1e-6f);
        float gate = sigmoid_of(score > 0.0f ? root : score < 0.0f ? -root : score); /* NaN stays */
        float scale = gate * norm_scale(gate * gate * of_values, columns, epsilon);
        for (uint i = LANE; i < columns; i += LANES) {
            to[i] = value[i] * scale * convolved_weight[own + i];
            state[i] = FMA(gate, value[i], state[i]);
        }
    }
}

/* An item is CONVOLVE_CHANNELS channels, as of convolve. */
KERNEL(convolve_ngrams, P_CONVOLVE_NGRAMS)
{
    uint parts = (channels + CONVOLVE_CHANNELS - 1) / CONVOLVE_CHANNELS, reach = (window - 1) * apart;
    for (uint item = GROUP; item < parts; item += GROUPS) {
        uint begin = item * CONVOLVE_CHANNELS, end = least(begin + CONVOLVE_CHANNELS, channels);
        for (uint t = 0; t < step->count; t++) {
            bool fresh = step->row[t].state_from == NO_STATE;
            GLOBAL const float *before = states + (fresh ? 0 : (size_t)step->row[t].state_from * length);
            GLOBAL float *after = states + (size_t)step->row[t].state_to * length;
            for (uint c = begin + LANE; c < end; c += LANES) {
                float newest = x[(size_t)t * channels + c], sum = newest * weight[(size_t)c * window + window - 1];
                for (uint i = 0; i < reach; i++) {
                    float input = fresh ? 0.0f : before[(size_t)i * channels + c];
                    if (i > 0)
                        after[(size_t)(i - 1) * channels + c] = input;
                    if (i % apart == 0)
                        sum = FMA(weight[(size_t)c * window + i / apart], input, sum);
                }
                if (reach > 0)
                    after[(size_t)(reach - 1) * channels + c] = newest;
                out[(size_t)t * channels + c] += sum * sigmoid_of(sum);
            }
        }
    }
}
