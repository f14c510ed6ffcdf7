/* attention.cl - positions, the cache of keys and values, and attention over it.
 *
 * One token against a long context is bound by reading keys and values, and one group per head would leave most of a
 * GPU idle. So attend cuts the context into splits of ATTEND_POSITIONS, each with a softmax of its own, and
 * attend_join puts the splits together: with m the greatest score of a split and M that of all, what a split has summed
 * counts exp(m - M) times (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). What goes into a
 * sum, and in which order, depends on the number of lanes alone.
 *
 * The kernels for caches of float32 and of float16 are the same functions with another constant, which the compiler
 * folds. Models and layers are unknown here: a cache is that of one layer. */

#define CACHE_F32 0
#define CACHE_F16 1

/* Values that a lane reads at once, 16 bytes of float16 and twice that of float32. Where a head is not made of whole
 * chunks, or of more values than scratch has room for (no known model), values are read one by one. */
#define ATTEND_CHUNK 8
/* Lanes that share a key. Neighbours read 64 bytes together, which no memory has to round up, and a score is then the
 * sum of few numbers. */
#define ATTEND_TEAM 4
/* Positions that a lane has under way at once, so that their loads overlap. */
#define ATTEND_AHEAD 4
/* Floats in which lanes hand each other parts of sums: scores [ATTEND_POSITIONS][ATTEND_TEAM], and sums of values,
 * [teams][length]. */
#define ATTEND_SCRATCH 2048
/* Stands in for minus infinity, whose difference to itself would be NaN. */
#define LEAST_SCORE (-3.4e38f)

/* ------------------------------------------------------------------ cache */

INLINE void cache_store(GLOBAL uchar *cache, size_t at, float value, uint format)
{
    if (format == CACHE_F16)
        ((GLOBAL ushort *)cache)[at] = half_bits(value);
    else
        ((GLOBAL float *)cache)[at] = value;
}

INLINE float cache_value(GLOBAL const uchar *cache, size_t at, uint format)
{
    return format == CACHE_F16 ? half_value(((GLOBAL const ushort *)cache)[at]) : ((GLOBAL const float *)cache)[at];
}

INLINE float8 cache_chunk(GLOBAL const uchar *cache, size_t at, uint format)
{
    return format == CACHE_F16 ? float8_of_halves(cache + 2 * at) : float8_load((GLOBAL const float *)cache + at);
}

/* Where the head of a sequence and its position begin in a cache, in values. */
INLINE size_t cache_at(uint sequence, uint kv_heads, uint head, uint context, uint position, uint length)
{
    return (((size_t)sequence * kv_heads + head) * context + position) * length;
}

/* Turns a query by the angles of its position, where it lies. */
INLINE void place_query(GLOBAL float *query, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs)
{
    for (uint i = LANE; i < pairs; i += LANES) {
        float a = query[2 * i], b = query[2 * i + 1];
        query[2 * i] = a * cosine[i] - b * sine[i];
        query[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

/* Turns a key on its way into the cache. */
INLINE void place_key(GLOBAL const float *key, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs,
                      uint length, GLOBAL uchar *keys, size_t at, uint format)
{
    for (uint i = LANE; i < pairs; i += LANES) {
        float a = key[2 * i], b = key[2 * i + 1];
        cache_store(keys, at + 2 * i, a * cosine[i] - b * sine[i], format);
        cache_store(keys, at + 2 * i + 1, a * sine[i] + b * cosine[i], format);
    }
    for (uint i = 2 * pairs + LANE; i < length; i += LANES)
        cache_store(keys, at + i, key[i], format);
}

/* An item is a head of a row: first those of the query, then those of key and value. */
INLINE void place(uint format, GLOBAL const step_record *step, GLOBAL float *query, GLOBAL const float *key,
                  GLOBAL const float *value, GLOBAL const float *cosine, GLOBAL const float *sine, GLOBAL uchar *keys,
                  GLOBAL uchar *values, uint heads, uint kv_heads, uint length, uint pairs, uint context,
                  uint stride_q, uint stride_k, uint group, uint groups)
{
    uint all_heads = heads + kv_heads;
    for (uint item = group; item < step->count * all_heads; item += groups) {
        uint t = item / all_heads, head = item % all_heads;
        GLOBAL const float *cosines = cosine + (size_t)t * pairs, *sines = sine + (size_t)t * pairs;
        if (head < heads) {
            place_query(query + (size_t)t * stride_q + (size_t)head * length, cosines, sines, pairs);
            continue;
        }
        size_t from = (size_t)t * stride_k + (size_t)(head - heads) * length;
        size_t at = cache_at(step->sequence[t], kv_heads, head - heads, context, step->position[t], length);
        place_key(key + from, cosines, sines, pairs, length, keys, at, format);
        for (uint i = LANE; i < length; i += LANES)
            cache_store(values, at + i, value[from + i], format);
    }
}

#define X(name, FORMAT)                                                                                            \
    KERNEL(name, P_PLACE)                                                                                          \
    {                                                                                                              \
        place(FORMAT, step, query, key, value, cosine, sine, keys, values, heads, kv_heads, length, pairs, context, \
              stride_q, stride_k, GROUP, GROUPS);                                                                  \
    }
X(place_f32, CACHE_F32)
X(place_f16, CACHE_F16)
#undef X

/* ------------------------------------------------------------------ one split */

/* Parts of the scores of `count` keys, lying one behind the other: position p's are parts[p * team, (p + 1) * team).
 * Returns `team`, the lanes that share a key. `whole`: heads are whole chunks. */
INLINE uint attend_keys(GLOBAL const float *query, GLOBAL const uchar *keys, size_t at, LOCAL float *parts, uint count,
                        uint length, bool whole, uint format)
{
    if (!whole) {
        for (uint p = LANE; p < count; p += LANES) {
            float sum = 0;
            for (uint i = 0; i < length; i++)
                sum += query[i] * cache_value(keys, at + (size_t)p * length + i, format);
            parts[p] = sum;
        }
        return 1;
    }
    uint team = least(ATTEND_TEAM, LANES), teams = LANES / team, member = LANE % team;
    uint begin = LANE < team * teams ? LANE / team : count; /* lanes left over have nothing to do */
    for (uint p = begin; p < count; p += ATTEND_AHEAD * teams) {
        wide sums[ATTEND_AHEAD];
        size_t rows[ATTEND_AHEAD];
        UNROLL
        for (uint a = 0; a < ATTEND_AHEAD; a++) {
            sums[a] = wide_zero();
            rows[a] = at + (size_t)least(p + a * teams, count - 1) * length;
        }
        for (uint i = member * ATTEND_CHUNK; i < length; i += team * ATTEND_CHUNK) {
            float8 q = float8_load(query + i);
            UNROLL
            for (uint a = 0; a < ATTEND_AHEAD; a++)
                sums[a] = wide_dot(sums[a], cache_chunk(keys, rows[a] + i, format), q);
        }
        UNROLL
        for (uint a = 0; a < ATTEND_AHEAD; a++)
            if (p + a * teams < count)
                parts[(p + a * teams) * team + member] = wide_total(sums[a]);
    }
    return team;
}

INLINE void local_store8(LOCAL float *to, float8 v)
{
#if ON_OPENCL
    vstore8(v, 0, to);
#elif ON_HOST
    float8_store(to, v);
#else
    UNROLL
    for (uint i = 0; i < 8; i++)
        to[i] = v.v[i];
#endif
}

/* Sums of weights[p] * value p, in parts: each team adds up every so manieth position, to sums[team][length]. Returns
 * how many teams there are; 0 where the sums are in `out` already. */
INLINE uint attend_values(LOCAL const float *weights, GLOBAL const uchar *values, size_t at, LOCAL float *sums,
                          GLOBAL float *out, uint count, uint length, bool whole, uint format)
{
    if (!whole) {
        for (uint i = LANE; i < length; i += LANES) {
            float sum = 0;
            for (uint p = 0; p < count; p++)
                sum += weights[p] * cache_value(values, at + (size_t)p * length + i, format);
            out[i] = sum;
        }
        return 0;
    }
    uint team = least(length / ATTEND_CHUNK, LANES), teams = least(LANES / team, ATTEND_SCRATCH / length);
    uint own = LANE / team, begin = own < teams ? LANE % team * ATTEND_CHUNK : length;
    for (uint i = begin; i < length; i += team * ATTEND_CHUNK) {
        float8 totals[ATTEND_AHEAD];
        UNROLL
        for (uint a = 0; a < ATTEND_AHEAD; a++)
            totals[a] = float8_all(0.0f);
        for (uint p = own; p < count; p += ATTEND_AHEAD * teams) {
            UNROLL
            for (uint a = 0; a < ATTEND_AHEAD; a++) {
                uint position = p + a * teams;
                float weight = position < count ? weights[position] : 0.0f;
                size_t row = at + (size_t)least(position, count - 1) * length;
                totals[a] = float8_fma(float8_all(weight), cache_chunk(values, row + i, format), totals[a]);
            }
        }
        UNROLL
        for (uint a = 1; a < ATTEND_AHEAD; a++)
            totals[0] = float8_fma(float8_all(1.0f), totals[a], totals[0]);
        local_store8(sums + own * length + i, totals[0]);
    }
    return teams;
}

/* Scores, each made of `team` parts, to weights exp(score - greatest). Returns the sum of the weights. */
INLINE float attend_weights(LOCAL const float *parts, uint team, float scale, LOCAL float *weights, uint count,
                            LOCAL float *shared, float *greatest)
{
    float top = LEAST_SCORE, sum = 0;
    for (uint p = LANE; p < count; p += LANES) {
        float score = 0;
        for (uint member = 0; member < team; member++)
            score += parts[p * team + member];
        weights[p] = score *= scale;
        top = score > top ? score : top;
    }
    *greatest = top = group_max(top, shared);
    for (uint p = LANE; p < count; p += LANES)
        sum += weights[p] = EXP(weights[p] - top);
    return group_sum(sum, shared);
}

/* An item is a split of a query head of a row. */
INLINE void attend(uint format, GLOBAL const step_record *step, GLOBAL const float *query, GLOBAL const uchar *keys,
                   GLOBAL const uchar *values, GLOBAL float *partial, uint heads, uint kv_heads, uint length,
                   uint context, uint window, uint splits, uint stride_q, float scale, uint group, uint groups,
                   LOCAL float *scratch, LOCAL float *weights, LOCAL float *shared)
{
    bool whole = length % ATTEND_CHUNK == 0 && stride_q % ATTEND_CHUNK == 0 && length <= ATTEND_SCRATCH;
    for (uint item = group; item < step->count * heads * splits; item += groups) {
        uint split = item % splits, head = item / splits % heads, t = item / splits / heads;
        uint end = step->position[t] + 1, seen = window != 0 && end > window ? end - window : 0;
        uint begin = split * ATTEND_POSITIONS, stop = least(begin + ATTEND_POSITIONS, end);
        begin = begin < seen ? seen : begin;
        GLOBAL float *out = partial + (size_t)item * (length + 2);
        if (begin >= stop) { /* so for every lane, none of which meets a barrier */
            if (LANE == 0) {
                out[length] = LEAST_SCORE;
                out[length + 1] = 0.0f;
            }
            continue;
        }
        GLOBAL const float *q = query + (size_t)t * stride_q + (size_t)head * length;
        uint count = stop - begin;
        size_t at = cache_at(step->sequence[t], kv_heads, head / (heads / kv_heads), context, begin, length);
        uint team = attend_keys(q, keys, at, scratch, count, length, whole, format);
        BARRIER();
        float greatest, sum = attend_weights(scratch, team, scale, weights, count, shared, &greatest);
        uint teams = attend_values(weights, values, at, scratch, out, count, length, whole, format);
        BARRIER();
        for (uint i = LANE; teams > 0 && i < length; i += LANES) {
            float value = 0.0f;
            for (uint own = 0; own < teams; own++)
                value += scratch[own * length + i];
            out[i] = value;
        }
        if (LANE == 0) {
            out[length] = greatest;
            out[length + 1] = sum;
        }
        BARRIER(); /* before the next item overwrites scratch */
    }
}

#define X(name, FORMAT)                                                                                            \
    KERNEL(name, P_ATTEND)                                                                                         \
    {                                                                                                              \
        LOCAL_ARRAY(float, scratch, ATTEND_SCRATCH);                                                               \
        LOCAL_ARRAY(float, weights, ATTEND_POSITIONS);                                                             \
        LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);                                                               \
        attend(FORMAT, step, query, keys, values, partial, heads, kv_heads, length, context, window, splits,       \
               stride_q, scale, GROUP, GROUPS, scratch, weights, shared);                                          \
    }
X(attend_f32, CACHE_F32)
X(attend_f16, CACHE_F16)
#undef X

/* ------------------------------------------------------------------ all splits together */

/* Splits whose weights are at hand at once. */
#define JOIN_SPLITS 64

/* An item is a query head of a row, whose sums each lane keeps where the result will be. Splits behind the row's
 * position are not looked at, and of a split that saw nothing only that its sum is 0. */
KERNEL(attend_join, P_ATTEND_JOIN)
{
    LOCAL_ARRAY(float, weights, JOIN_SPLITS); /* exp(m - M) */
    LOCAL_ARRAY(float, sums, JOIN_SPLITS);
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint item = GROUP; item < step->count * heads; item += GROUPS) {
        uint used = least(splits, step->position[item / heads] / ATTEND_POSITIONS + 1), width = length + 2;
        GLOBAL const float *from = partial + (size_t)item * splits * width;
        GLOBAL float *out = mixed + (size_t)item * length;
        float top = LEAST_SCORE, total = 0;
        for (uint s = LANE; s < used; s += LANES) {
            float greatest = from[(size_t)s * width + length];
            top = greatest > top ? greatest : top;
        }
        top = group_max(top, shared);
        for (uint base = 0; base < used; base += JOIN_SPLITS, from += (size_t)JOIN_SPLITS * width) {
            uint n = least(JOIN_SPLITS, used - base);
            for (uint s = LANE; s < n; s += LANES) {
                weights[s] = EXP(from[(size_t)s * width + length] - top);
                sums[s] = from[(size_t)s * width + length + 1];
            }
            BARRIER();
            for (uint s = 0; s < n; s++)
                total += weights[s] * sums[s];
            for (uint i = LANE; i < length; i += LANES) {
                float sum = base == 0 ? 0.0f : out[i];
                for (uint s = 0; s < n; s++)
                    sum += sums[s] == 0 ? 0.0f : weights[s] * from[(size_t)s * width + i];
                out[i] = sum;
            }
            BARRIER(); /* before the next splits overwrite the weights */
        }
        for (uint i = LANE; i < length; i += LANES)
            out[i] = DIVIDE(out[i], total);
    }
}
