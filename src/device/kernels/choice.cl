/* choice.cl - chosen positions (attention_shape.chosen in model/layer.h): scores of positions, the choice of the highest, and
 * attention to those.
 *
 * Rows before the position `chosen` see all positions and are not scored. */

/* ------------------------------------------------------------------ scores */

/* An item is a split of a row. Its positions are scored by ATTEND_QUERIES heads at a time, for which attend_keys reads them again:
 * they are in a cache by then. A lane keeps the sums of its positions in `totals`, which no other lane reads. */
INLINE void score_positions(uint format, GLOBAL const step_record *step, GLOBAL const float *query,
                            GLOBAL const float *weights, GLOBAL const uchar *keys, cache_pages pages,
                            GLOBAL float *scores, uint chosen, uint heads, uint length, uint splits, uint stride_q,
                            uint stride_w, uint first_row, uint most_rows, uint group, uint groups,
                            LOCAL float *parts, LOCAL float *totals)
{
    bool whole = length % ATTEND_CHUNK == 0 && stride_q % ATTEND_CHUNK == 0;
    uint items = attend_rows(step, first_row, most_rows) * splits;
    for (uint item = group; item < items; item += groups) {
        uint t = first_row + item / splits, position = step->row[t].position;
        uint first = item % splits * ATTEND_POSITIONS, end = least(first + ATTEND_POSITIONS, position + 1);
        if (position < chosen || first >= end)
            continue;
        size_t begin = cache_page(&pages, step->row[t].sequence, first);
        for (uint p = LANE; p < ATTEND_POSITIONS; p += LANES)
            totals[p] = 0.0f;
        for (uint h = 0; h < heads; h += ATTEND_QUERIES) {
            uint n = least(ATTEND_QUERIES, heads - h);
            uint team = attend_keys(query + (size_t)t * stride_q + (size_t)h * length, n,
                                    cache_piece_at(&pages, keys, begin, length), 0, parts, end - first,
                                    (LOCAL const uint *)0, length, whole, format);
            BARRIER();
            for (uint p = LANE; p < end - first; p += LANES)
                for (uint q = 0; q < n; q++) {
                    float score = 0.0f;
                    for (uint member = 0; member < team; member++)
                        score += parts[(q * ATTEND_POSITIONS + p) * team + member];
                    score = score > 0.0f ? score : 0.0f;
                    totals[p] = FMA(weights[(size_t)t * stride_w + h + q], score, totals[p]);
                }
            BARRIER(); /* before the next heads overwrite parts */
        }
        for (uint p = LANE; p < end - first; p += LANES)
            scores[(size_t)item * ATTEND_POSITIONS + p] = totals[p];
    }
}

#define X(name, FORMAT)                                                                                            \
    KERNEL(name, P_SCORE_POSITIONS)                                                                                \
    {                                                                                                              \
        LOCAL_ARRAY(float, parts, ATTEND_SCRATCH);                                                                 \
        LOCAL_ARRAY(float, totals, ATTEND_POSITIONS);                                                              \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, length, piece_bytes};               \
        score_positions(FORMAT, step, query, weights, keys, cache, scores, chosen, heads, length, splits, stride_q, \
                        stride_w, first_row, most_rows, GROUP, GROUPS, parts, totals);                             \
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

/* Sets the bits of the positions above a rank, and of the first `equal` of those that have it. */
INLINE void set_bits(GLOBAL const float *scores, uint n, uint rank, uint equal, GLOBAL uint *seen, LOCAL uint *counts,
                     LOCAL uint *stretches)
{
    uint words = (n + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS * SPLIT_WORDS, done = 0;
    for (uint base = 0; base < words; base += LANES) {
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
        if (w < words)
            seen[w] = above;
        done += all;
    }
}

/* A group takes a row. The least rank among the chosen is found bit by bit. */
KERNEL(choose, P_CHOOSE)
{
    LOCAL_ARRAY(uint, scratch, GROUP_SCRATCH);
    LOCAL_ARRAY(uint, counts, MOST_LANES);
    LOCAL_ARRAY(uint, stretches, MOST_LANES / COMPACT_STRETCH + 1);
    uint rows = attend_rows(step, first_row, most_rows);
    for (uint item = GROUP; item < rows; item += GROUPS) {
        uint t = first_row + item, n = step->row[t].position + 1, rank = 0;
        GLOBAL const float *row = scores + (size_t)item * splits * ATTEND_POSITIONS;
        if (n <= chosen)
            continue;
        for (uint bit = 0x80000000u; bit != 0; bit >>= 1)
            if (count_from(row, n, rank | bit, scratch) >= chosen)
                rank |= bit;
        uint above = rank == 0xffffffffu ? 0 : count_from(row, n, rank + 1, scratch);
        set_bits(row, n, rank, chosen - above, seen + (size_t)t * splits * SPLIT_WORDS, counts, stretches);
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
        attend(FORMAT, step, query, keys, values, cache, partial, seen, chosen, heads, kv_heads, length, 0, 0, 0, \
               splits, stride_q, first_row, most_rows, scale, softcap, GROUP, GROUPS, scratch, weights, shared,   \
               list);                                                                                             \
    }
X(attend_chosen_f32, CACHE_F32)
X(attend_chosen_f16, CACHE_F16)
X(attend_chosen_q8_0, CACHE_Q8_0)
#undef X
