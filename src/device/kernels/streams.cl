/* streams.cl - several streams of the residual (engine/streams.h): what a layer begins with, where all of them are predicted
 * from one another, and ends with, where each is corrected by what the layer changed in the active one.
 *
 * Both weigh small matrices with w = tanh(products / columns) of the token, a value per stream. The lanes of a group compute w
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
