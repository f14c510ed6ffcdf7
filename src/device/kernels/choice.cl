/* choice.cl - chosen positions (attention_shape.chosen in model/layer.h): keys of pools, scores of pools, or of single positions, the
 * choice of the highest, and attention to those.
 *
 * Rows before the position `limit` see all positions and are not scored. */

/* ------------------------------------------------------------------ keys of pools */

/* Returns a column of the key of the pool that begins at place `at`, in positions, of a page. */
INLINE float pooled_key(cache_piece keys, cache_piece values, GLOBAL const float *bias, uint at, uint pool, uint length,
                        uint column, uint format)
{
    float most = 0.0f, sum = 0.0f, key = 0.0f;
    for (uint p = 0; p < pool; p++) {
        size_t place = (size_t)(at + p) * length + column;
        if (!bias) {
            key += cache_value(keys, place, format);
            continue;
        }
        float gate = cache_value(values, place, format) + bias[p * length + column];
        float greater = p == 0 || gate > most ? gate : most, kept = p == 0 ? 0.0f : EXP(most - greater);
        float weight = EXP(gate - greater);
        sum = FMA(sum, kept, weight);
        key = FMA(key, kept, weight * cache_value(keys, place, format));
        most = greater;
    }
    return DIVIDE(key, bias ? sum : (float)pool);
}

/* An item is a row. There is no barrier: PoCL 3.1 loses those behind a loop of as many rounds for all lanes within one of the lanes. */
#define X(name, FORMAT)                                                                                             \
    KERNEL(name, P_POOL_KEYS)                                                                                       \
    {                                                                                                               \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, length, piece_bytes};                \
        for (uint t = GROUP; t < step->count; t += GROUPS) {                                                        \
            uint position = step->row[t].position, first = (position + 1 - pool) % ATTEND_POSITIONS;                \
            size_t page = cache_page(&cache, step->row[t].sequence, position);                                      \
            cache_piece of_keys = cache_piece_at(&cache, keys, page, length);                                       \
            cache_piece of_gates = cache_piece_at(&cache, values, page, length);                                    \
            for (uint i = LANE; i < length && (position + 1) % pool == 0; i += LANES)                               \
                key[(size_t)t * stride + i] = pooled_key(of_keys, of_gates, bias, first, pool, length, i, FORMAT); \
        }                                                                                                           \
    }
X(pool_keys_f32, CACHE_F32)
X(pool_keys_f16, CACHE_F16)
X(pool_keys_q8_0, CACHE_Q8_0)
#undef X

/* An item is a row. A lane norms and turns the pairs that it has summed the squares of. */
KERNEL(finish_pools, P_FINISH_POOLS)
{
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);
    for (uint t = GROUP; t < step->count; t += GROUPS) {
        GLOBAL float *row = key + (size_t)t * stride;
        bool ends = (step->row[t].position + 1) % pool == 0;
        float squares = 0.0f;
        for (uint i = LANE; i < length; i += LANES)
            squares = FMA(row[i], row[i], squares);
        float scale = norm_scale(group_sum(squares, shared), length, epsilon);
        for (uint i = LANE; ends && i < pairs; i += LANES) {
            uint first = halves ? i : 2 * i, second = halves ? i + pairs : 2 * i + 1;
            float a = row[first] * scale * weight[first], b = row[second] * scale * weight[second];
            float c = cosine[(size_t)t * pairs + i], s = sine[(size_t)t * pairs + i];
            row[first] = FMA(a, c, -(b * s));
            row[second] = FMA(a, s, b * c);
        }
        for (uint i = 2 * pairs + LANE; ends && i < length; i += LANES)
            row[i] *= scale * weight[i];
    }
}

/* ------------------------------------------------------------------ scores */

/* Returns how many pools a row chooses among that sees the position. */
INLINE uint pools_scored(uint position, uint pool, uint last_pools)
{
    uint whole = (position + 1) / pool, all = position / pool + 1;
    return last_pools == 0 ? whole : all > last_pools ? all - last_pools : 0;
}

/* Returns the best of the scores of a pool's positions; NaN is the best. */
INLINE float best_of(LOCAL const float *scores, uint count)
{
    float best = scores[0];
    for (uint p = 1; p < count; p++)
        best = scores[p] > best || !(scores[p] == scores[p]) ? scores[p] : best;
    return best;
}

/* An item is a split of a row, or of one of its heads. Its keys, those of pools or of positions, are scored by ATTEND_QUERIES heads at a
 * time, for which attend_keys reads them again: they are in a cache by then. A lane keeps the sums of its keys in `totals`. */
INLINE void score_positions(uint format, GLOBAL const step_record *step, GLOBAL const float *query,
                            GLOBAL const float *weights, GLOBAL const uchar *keys, cache_pages pages,
                            GLOBAL float *scores, uint limit, uint pool, uint last_pools, uint apart, uint heads, uint length,
                            uint splits, uint stride_q, uint stride_w, uint first_row, uint most_rows, uint group,
                            uint groups, LOCAL float *parts, LOCAL float *totals)
{
    bool whole = length % ATTEND_CHUNK == 0 && stride_q % ATTEND_CHUNK == 0;
    uint most = ATTEND_POSITIONS / pool, choosers = last_pools > 0 ? heads : 1, together = heads / choosers;
    uint items = attend_rows(step, first_row, most_rows) * choosers * splits;
    for (uint item = group; item < items; item += groups) {
        uint t = first_row + item / splits / choosers, chooser = item / splits % choosers, position = step->row[t].position;
        uint first = item % splits * most, all = pools_scored(position, pool, last_pools);
        uint pools_here = first < all ? least(most, all - first) : 0, count = last_pools > 0 ? pools_here * pool : pools_here;
        if (position < limit || count == 0)
            continue;
        size_t begin = cache_page(&pages, step->row[t].sequence, first * pool);
        for (uint p = LANE; p < count; p += LANES)
            totals[p] = 0.0f;
        for (uint h = 0; h < together; h += ATTEND_QUERIES) {
            uint n = least(ATTEND_QUERIES, together - h);
            uint team = attend_keys(query + (size_t)t * stride_q + (size_t)(chooser + h) * length, n,
                                    cache_piece_at(&pages, keys, begin, length), (size_t)(apart - 1) * length, parts,
                                    count, (LOCAL const uint *)0, length, apart * length, whole, format);
            BARRIER();
            for (uint p = LANE; p < count; p += LANES)
                for (uint q = 0; q < n; q++) {
                    float score = 0.0f;
                    for (uint member = 0; member < team; member++)
                        score += parts[(q * ATTEND_POSITIONS + p) * team + member];
                    score = last_pools > 0 || score > 0.0f ? score : 0.0f;
                    totals[p] = FMA(weights ? weights[(size_t)t * stride_w + h + q] : 1.0f, score, totals[p]);
                }
            BARRIER(); /* before the next heads overwrite parts */
        }
        for (uint p = LANE; p < pools_here; p += LANES)
            scores[(size_t)item * most + p] = last_pools > 0 ? best_of(totals + p * pool, pool) : totals[p];
        BARRIER(); /* before the next item overwrites totals */
    }
}

#define X(name, FORMAT)                                                                                            \
    KERNEL(name, P_SCORE_POSITIONS)                                                                                \
    {                                                                                                              \
        LOCAL_ARRAY(float, parts, ATTEND_SCRATCH);                                                                 \
        LOCAL_ARRAY(float, totals, ATTEND_POSITIONS);                                                              \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, length, piece_bytes};               \
        score_positions(FORMAT, step, query, weights, keys, cache, scores, limit, pool, last_pools, apart, heads, length, \
                        splits, stride_q, stride_w, first_row, most_rows, GROUP, GROUPS, parts, totals);           \
    }
X(score_positions_f32, CACHE_F32)
X(score_positions_f16, CACHE_F16)
X(score_positions_q8_0, CACHE_Q8_0)
#undef X

/* ------------------------------------------------------------------ the choice */

/* Returns how many of the n scores have at least a rank. */
INLINE uint count_from(GLOBAL const float *scores, uint n, uint rank, LOCAL uint *scratch)
{
    uint count = 0;
    for (uint p = LANE; p < n; p += LANES)
        count += rank_of(scores[p]) >= rank;
    return group_sum_uint(count, scratch);
}

/* Returns the bits of the word-th 32 positions of 32 pools, of the bits of those. */
INLINE uint spread_bits(uint bits, uint word, uint pool)
{
    if (pool == 1)
        return bits;
    if (pool >= 32)
        return bits >> word * 32 / pool & 1 ? 0xffffffffu : 0;
    uint out = 0, of_pool = (1u << pool) - 1, pools = 32 / pool;
    for (uint k = 0; k < pools; k++)
        out |= bits >> (word * pools + k) & 1 ? of_pool << k * pool : 0;
    return out;
}

/* Returns the bits of the word-th 32 positions that lie in [begin, end), which is shorter than 32 or ends with the word. */
INLINE uint bits_between(uint word, uint begin, uint end)
{
    uint from = begin > 32 * word ? begin : 32 * word, to = least(end, 32 * word + 32);
    if (from >= to)
        return 0;
    uint below = to - from == 32 ? 0xffffffffu : (1u << (to - from)) - 1;
    return below << from % 32;
}

/* Sets the bits of the positions of the n pools above a rank, of the first `equal` of those that have it, and of the positions after
 * them: in all `positions`. A lane takes 32 pools, whose positions have `pool` words. */
INLINE void set_bits(GLOBAL const float *scores, uint n, uint rank, uint equal, uint pool, uint positions,
                     GLOBAL uint *seen, LOCAL uint *counts, LOCAL uint *stretches)
{
    uint words = (positions + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS * SPLIT_WORDS, done = 0;
    for (uint base = 0; base * pool < words; base += LANES) {
        uint w = base + LANE, above = 0, tied = 0, all;
        for (uint i = 0; i < 32 && 32 * w + i < n; i++) {
            uint own = rank_of(scores[32 * w + i]);
            above |= (uint)(own > rank) << i;
            tied |= (uint)(own == rank) << i;
        }
        uint at = done + group_prefix(bits_set(tied), counts, stretches, &all);
        for (; tied != 0 && at < equal; at++) {
            above |= tied & (0u - tied);
            tied &= tied - 1;
        }
        for (uint k = w * pool; k < least(words, w * pool + pool); k++)
            seen[k] = spread_bits(above, k - w * pool, pool) | bits_between(k, n * pool, positions);
        done += all;
    }
}

/* A group takes a choice of a row. The least rank among the chosen is found bit by bit. */
KERNEL(choose, P_CHOOSE)
{
    LOCAL_ARRAY(uint, scratch, GROUP_SCRATCH);
    LOCAL_ARRAY(uint, counts, MOST_LANES);
    LOCAL_ARRAY(uint, stretches, MOST_LANES / COMPACT_STRETCH + 1);
    uint items = attend_rows(step, first_row, most_rows) * choosers;
    for (uint item = GROUP; item < items; item += GROUPS) {
        uint position = step->row[first_row + item / choosers].position, n = pools_scored(position, pool, last_pools), rank = 0;
        GLOBAL const float *row = scores + (size_t)item * splits * (ATTEND_POSITIONS / pool);
        if (n <= chosen)
            continue;
        for (uint bit = 0x80000000u; bit != 0; bit >>= 1)
            if (count_from(row, n, rank | bit, scratch) >= chosen)
                rank |= bit;
        uint above = rank == 0xffffffffu ? 0 : count_from(row, n, rank + 1, scratch);
        set_bits(row, n, rank, chosen - above, pool, position + 1,
                 seen + ((size_t)first_row * choosers + item) * splits * SPLIT_WORDS, counts, stretches);
        BARRIER(); /* before the next row's counts */
    }
}

/* ------------------------------------------------------------------ attention */

#define X(name, FORMAT)                                                                                           \
    KERNEL(name, P_ATTEND_CHOSEN)                                                                                 \
    {                                                                                                             \
        LOCAL_ARRAY(float, scratch, ATTEND_SCRATCH);                                                              \
        LOCAL_ARRAY(float, weights, ATTEND_QUERIES *ATTEND_POSITIONS);                                            \
        LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);                                                              \
        LOCAL_ARRAY(uint, list, ATTEND_POSITIONS);                                                                \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, length, piece_bytes};              \
        attend(FORMAT, step, query, keys, values, cache, partial, seen, limit, choosers, heads, kv_heads, length, 0, 0, 0, \
               splits, stride_q, first_row, most_rows, scale, softcap, GROUP, GROUPS, scratch, weights, shared,   \
               list);                                                                                             \
    }
X(attend_chosen_f32, CACHE_F32)
X(attend_chosen_f16, CACHE_F16)
X(attend_chosen_q8_0, CACHE_Q8_0)
#undef X
