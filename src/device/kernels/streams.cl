/* streams.cl - several streams of the residual: of AltUp (engine/streams.h) what a layer begins with, where all of them are predicted
 * from one another, and ends with, where each is corrected by what the layer changed in the active one; of hyper-connections
 * (engine/connections.h) what a block reads, and what becomes of the streams behind it.
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
    uint all = streams * (2 + streams), n = streams * columns;
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
            uint part = least(i / streams, 2);
            float value = FMA(own[i] * factor, scale[part], base[i]);
            w[i] = part == 0 ? sigmoid_of(value) + epsilon : part == 1 ? 2.0f * sigmoid_of(value) : value;
        }
        BARRIER();
        for (uint i = LANE; i < streams; i += LANES)
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
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS, all = streams * (2 + streams);
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
    uint pieces = (columns + STREAM_COLUMNS - 1) / STREAM_COLUMNS, all = streams * (2 + streams);
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
                float sum = i < streams ? after[i] * result : 0.0f;
                UNROLL
                for (uint j = 0; j < MOST_STREAMS; j++)
                    if (i < streams && j < streams)
                        sum = FMA(mix[j * streams + i], state[j], sum);
                if (i < streams)
                    states[((size_t)t * streams + i) * columns + c] = sum;
            }
        }
    }
}
