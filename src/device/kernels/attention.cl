/* attention.cl - rotary positions (RoPE), the key/value cache, and attention over it.
 *
 * For one token and a long context, attention is limited by reading keys and values, and one group per head would leave
 * most of a GPU idle. So attend cuts the context into splits of ATTEND_POSITIONS, each with its own softmax, and
 * attend_join combines them: with m the greatest score of a split and M that of all splits, the sums of a split are
 * multiplied by exp(m - M) (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). The terms of a
 * sum and their order depend only on the number of lanes.
 *
 * The kernels for caches of float32, float16 and Q8_0 are the same functions with a different constant, which the compiler
 * folds. Nothing here knows models or layers: a cache is that of one layer. */

#define CACHE_F32  0
#define CACHE_F16  1
#define CACHE_Q8_0 2

/* Values that a lane reads at once: 16 bytes of float16 or 32 of float32. If a head is not made of whole chunks, or has
 * more values than fit into scratch (in no known model), values are read one by one. */
#define ATTEND_CHUNK 8
/* Lanes that share a key. Together they read 64 (CUDA: 128) contiguous bytes of float16, which is efficient for any memory,
 * and a score is then the sum of few numbers. */
#define ATTEND_TEAM (ON_CUDA ? 8 : 4)
/* Positions that a lane loads at once, so that the loads overlap. */
#define ATTEND_AHEAD 4
/* Floats of local memory through which lanes exchange partial sums: of scores [ATTEND_QUERIES][ATTEND_POSITIONS]
 * [ATTEND_TEAM], and later of values [queries of the item][teams][length]. */
#define ATTEND_SCRATCH (ON_CUDA ? 8192 : 4096)
/* Used instead of minus infinity, because infinity minus infinity would be NaN. */
#define LEAST_SCORE (-3.4e38f)

/* ------------------------------------------------------------------ cache */

INLINE void cache_store(GLOBAL uchar *cache, size_t at, float value, uint format)
{
    if (format == CACHE_F16)
        ((GLOBAL ushort *)cache)[at] = half_bits(value);
    else
        ((GLOBAL float *)cache)[at] = value;
}

/* The keys (or values) that a head has in a page. scales: of Q8_0, one for each 32 values; otherwise not read. */
typedef struct cache_piece {
    GLOBAL const uchar *values;
    GLOBAL const ushort *scales;
} cache_piece;

INLINE float cache_value(cache_piece piece, size_t at, uint format)
{
    if (format == CACHE_Q8_0)
        return (float)((GLOBAL const schar *)piece.values)[at] * half_value(piece.scales[at / 32]);
    return format == CACHE_F16 ? half_value(((GLOBAL const ushort *)piece.values)[at])
                               : ((GLOBAL const float *)piece.values)[at];
}

/* Loads ATTEND_CHUNK values. */
INLINE float8 cache_chunk(cache_piece piece, size_t at, uint format)
{
    if (format == CACHE_Q8_0)
        return float8_times(cache_8_of_bytes(piece.values + at), float8_all(half_value(piece.scales[at / 32])));
    return format == CACHE_F16 ? cache_8_of_halves(piece.values + 2 * at)
                               : float8_load((GLOBAL const float *)piece.values + at);
}

/* The pages of a cache (P_PAGES in kernels.h). */
typedef struct cache_pages {
    GLOBAL const uint *pages;
    uint table, page_bytes, piece_bytes, positions, value_length, value_piece_bytes;
} cache_pages;

/* Returns where the page begins that has a position of a sequence, in bytes. */
INLINE size_t cache_page(const cache_pages *c, uint sequence, uint position)
{
    return (size_t)c->pages[(size_t)sequence * c->table + position / ATTEND_POSITIONS] * c->page_bytes;
}

/* Returns the index in a piece, in values, of a position. */
INLINE size_t cache_at(uint position, uint length)
{
    return (size_t)(position % ATTEND_POSITIONS) * length;
}

INLINE cache_piece cache_piece_at(const cache_pages *c, GLOBAL const uchar *cache, size_t begin, uint length)
{
    cache_piece piece = {cache + begin, (GLOBAL const ushort *)(cache + begin + (size_t)c->positions * length)};
    return piece;
}

/* Rotates values of a query in place by the angles of its position. */
INLINE void place_query(GLOBAL float *query, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs,
                        uint halves)
{
    for (uint i = LANE; i < pairs; i += LANES) {
        uint first = halves ? i : 2 * i, second = halves ? i + pairs : 2 * i + 1;
        float a = query[first], b = query[second];
        query[first] = a * cosine[i] - b * sine[i];
        query[second] = a * sine[i] + b * cosine[i];
    }
}

/* Rotates values of a key, from `turned` on, and stores it in the cache. */
INLINE void place_key(GLOBAL const float *key, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs,
                      uint halves, uint turned, uint length, GLOBAL uchar *keys, size_t at, uint format)
{
    for (uint i = LANE; i < pairs; i += LANES) {
        uint first = turned + (halves ? i : 2 * i), second = turned + (halves ? i + pairs : 2 * i + 1);
        float a = key[first], b = key[second];
        cache_store(keys, at + first, a * cosine[i] - b * sine[i], format);
        cache_store(keys, at + second, a * sine[i] + b * cosine[i], format);
    }
    for (uint i = LANE; i < length - 2 * pairs; i += LANES) {
        uint other = i < turned ? i : i + 2 * pairs;
        cache_store(keys, at + other, key[other], format);
    }
}

/* Returns value i of a key or value once it is rotated, from the value `turned` on; pairs 0: as it is. */
INLINE float placed_value(GLOBAL const float *from, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs,
                          uint halves, uint turned, uint i)
{
    if (i < turned || i >= turned + 2 * pairs)
        return from[i];
    from += turned;
    i -= turned;
    uint pair = halves ? i % pairs : i / 2, second = halves ? i >= pairs : i % 2, apart = halves ? pairs : 1;
    float other = from[second ? i - apart : i + apart];
    return second ? other * sine[pair] + from[i] * cosine[pair] : from[i] * cosine[pair] - other * sine[pair];
}

/* Values that are rounded to Q8_0 at a time. */
#define PLACE_VALUES 256
/* The largest size of a value that Q8_0 can hold, 127 times the largest float16. */
#define MOST_Q8_0 8319008.0f
#define HALF_NAN  0x7e00

/* Rotates a key (or with pairs 0 takes a value) and stores it as Q8_0, rounded as the format's encoder does (number/), from value
 * `at` of the piece on. Rotated are values from `first` on. A block with a value that Q8_0 cannot hold gets the scale NaN, so that
 * the fault shows. turned [PLACE_VALUES], factors [PLACE_VALUES / 32]. */
INLINE void place_blocks(GLOBAL const float *from, GLOBAL const float *cosine, GLOBAL const float *sine, uint pairs,
                         uint halves, uint first, uint length, GLOBAL uchar *values, GLOBAL ushort *scales, size_t at,
                         LOCAL float *turned, LOCAL float *factors)
{
    for (uint begin = 0; begin < length; begin += PLACE_VALUES) {
        uint n = least(PLACE_VALUES, length - begin);
        for (uint i = LANE; i < n; i += LANES)
            turned[i] = placed_value(from, cosine, sine, pairs, halves, first, begin + i);
        BARRIER();
        for (uint b = LANE; b < n / 32; b += LANES) {
            float most = 0.0f;
            bool fits = true;
            for (uint i = 32 * b; i < 32 * b + 32; i++) {
                float size = magnitude_of(turned[i]);
                fits = fits && size <= MOST_Q8_0; /* false for NaN */
                most = size > most ? size : most;
            }
            float scale = DIVIDE(most, 127.0f);
            factors[b] = fits && scale > 0.0f ? DIVIDE(1.0f, scale) : 0.0f;
            scales[(at + begin) / 32 + b] = fits ? half_bits(scale) : (ushort)HALF_NAN;
        }
        BARRIER();
        for (uint i = LANE; i < n; i += LANES) {
            float value = factors[i / 32] > 0.0f ? turned[i] * factors[i / 32] : 0.0f;
            int whole = (int)value;
            float rest = value - (float)whole;
            ((GLOBAL schar *)values)[at + begin + i] = (schar)(whole + (rest >= 0.5f) - (rest <= -0.5f));
        }
        BARRIER(); /* before the next values overwrite these */
    }
}

/* An item is a head of a row: first the query heads, then the key/value heads. Of rows that do not end so many positions that have
 * one key together, the key is not stored. */
INLINE void place(uint format, GLOBAL const step_record *step, GLOBAL float *query, GLOBAL const float *key,
                  GLOBAL const float *value, GLOBAL const float *cosine, GLOBAL const float *sine, GLOBAL uchar *keys,
                  GLOBAL uchar *values, cache_pages pages, uint heads, uint kv_heads, uint length, uint pairs,
                  uint halves, uint first, uint together, uint stride_q, uint stride_k, uint group, uint groups,
                  LOCAL float *turned, LOCAL float *factors)
{
    uint all_heads = heads + kv_heads;
    for (uint item = group; item < step->count * all_heads; item += groups) {
        uint t = item / all_heads, head = item % all_heads;
        GLOBAL const float *cosines = cosine, *sines = sine;
        if (pairs > 0) { /* without rotation cosine and sine may be NULL */
            cosines += (size_t)t * pairs;
            sines += (size_t)t * pairs;
        }
        if (head < heads) {
            place_query(query + (size_t)t * stride_q + (size_t)head * length + first, cosines, sines, pairs, halves);
            continue;
        }
        uint position = step->row[t].position, own = head - heads, shorter = pages.value_length;
        if ((position + 1) % together != 0) /* the same for every lane */
            continue;
        size_t page = cache_page(&pages, step->row[t].sequence, position), row = (size_t)t * stride_k;
        GLOBAL const float *from = key + row + (size_t)own * length;
        GLOBAL const float *value_from = value ? value + row + (size_t)own * shorter : value;
        GLOBAL uchar *piece = keys + page + (size_t)own * pages.piece_bytes;
        GLOBAL uchar *value_piece = values + page + (size_t)own * pages.value_piece_bytes;
        uint row_of_page = position % ATTEND_POSITIONS / together;
        size_t at = (size_t)row_of_page * length, value_at = (size_t)row_of_page * shorter;
        if (format == CACHE_Q8_0) {
            place_blocks(from, cosines, sines, pairs, halves, first, length, piece,
                         (GLOBAL ushort *)(piece + (size_t)pages.positions * length), at, turned, factors);
            if (value)
                place_blocks(value_from, cosines, sines, 0, halves, 0, shorter, value_piece,
                             (GLOBAL ushort *)(value_piece + (size_t)pages.positions * shorter), value_at, turned,
                             factors);
            continue;
        }
        place_key(from, cosines, sines, pairs, halves, first, length, piece, at, format);
        for (uint i = LANE; value && i < shorter; i += LANES)
            cache_store(value_piece, value_at + i, value_from[i], format);
    }
}

#define X(name, FORMAT)                                                                                           \
    KERNEL(name, P_PLACE)                                                                                         \
    {                                                                                                             \
        LOCAL_ARRAY(float, turned, PLACE_VALUES);                                                                 \
        LOCAL_ARRAY(float, factors, PLACE_VALUES / 32);                                                           \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, value_length, value_piece_bytes};   \
        place(FORMAT, step, query, key, value, cosine, sine, keys, values, cache, heads, kv_heads, length, pairs, \
              halves, first, together, stride_q, stride_k, GROUP, GROUPS, turned, factors);                       \
    }
X(place_f32, CACHE_F32)
X(place_f16, CACHE_F16)
X(place_q8_0, CACHE_Q8_0)
#undef X

/* ------------------------------------------------------------------ one split
 *
 * The `n` queries of an item share their keys and values, which are read once for all of them. */

/* The positions of a split that a row sees, where they are chosen: list [count], ascending, counted from the first of the split.
 * No list: all. */
INLINE uint seen_at(LOCAL const uint *list, uint p)
{
    return list ? list[p] : p;
}

/* Computes partial scores of `count` keys, from place `at` of the piece on and `apart` values from one to the next, with `n`
 * consecutive queries: those of query q and key p are parts[(q * ATTEND_POSITIONS + p) * team + member]. Returns `team`, the number of lanes that share a key. `whole`:
 * heads are made of whole chunks. */
INLINE uint attend_keys(GLOBAL const float *query, uint n, cache_piece keys, size_t at, LOCAL float *parts, uint count,
                        LOCAL const uint *list, uint length, uint apart, bool whole, uint format)
{
    if (!whole) {
        for (uint p = LANE; p < count; p += LANES)
            for (uint q = 0; q < n; q++) {
                float sum = 0;
                for (uint i = 0; i < length; i++)
                    sum += query[q * length + i] * cache_value(keys, at + (size_t)seen_at(list, p) * apart + i, format);
                parts[q * ATTEND_POSITIONS + p] = sum;
            }
        return 1;
    }
    uint team = least(ATTEND_TEAM, LANES), teams = LANES / team, member = LANE % team;
    uint begin = LANE < team * teams ? LANE / team : count; /* lanes beyond the last whole team do nothing */
    for (uint p = begin; p < count; p += ATTEND_AHEAD * teams) {
        wide sums[ATTEND_QUERIES][ATTEND_AHEAD];
        size_t rows[ATTEND_AHEAD];
        UNROLL
        for (uint a = 0; a < ATTEND_AHEAD; a++) {
            UNROLL
            for (uint q = 0; q < ATTEND_QUERIES; q++)
                sums[q][a] = wide_zero();
            rows[a] = at + (size_t)seen_at(list, least(p + a * teams, count - 1)) * apart;
        }
        for (uint i = member * ATTEND_CHUNK; i < length; i += team * ATTEND_CHUNK) {
            float8 key[ATTEND_AHEAD];
            UNROLL
            for (uint a = 0; a < ATTEND_AHEAD; a++)
                key[a] = cache_chunk(keys, rows[a] + i, format);
            UNROLL
            for (uint q = 0; q < ATTEND_QUERIES; q++)
                if (q < n) {
                    float8 x = float8_load(query + q * length + i);
                    UNROLL
                    for (uint a = 0; a < ATTEND_AHEAD; a++)
                        sums[q][a] = wide_dot(sums[q][a], key[a], x);
                }
        }
        UNROLL
        for (uint q = 0; q < ATTEND_QUERIES; q++) {
            UNROLL
            for (uint a = 0; a < ATTEND_AHEAD; a++)
                if (q < n && p + a * teams < count)
                    parts[(q * ATTEND_POSITIONS + p + a * teams) * team + member] = wide_total(sums[q][a]);
        }
    }
    return team;
}

/* Computes partial sums of weights[q][p] * value p: each team takes the positions own, own + teams, ... and writes its
 * sum to sums[q][own][length]. Returns the number of teams; 0 if the complete sums are already in `out`, `stride` from
 * query to query. */
INLINE uint attend_values(LOCAL const float *weights, uint n, cache_piece values, size_t at, LOCAL float *sums,
                          GLOBAL float *out, size_t stride, uint count, LOCAL const uint *list, uint length, bool whole,
                          uint format)
{
    if (!whole) {
        for (uint i = LANE; i < length; i += LANES)
            for (uint q = 0; q < n; q++) {
                float sum = 0;
                for (uint p = 0; p < count; p++)
                    sum += weights[q * ATTEND_POSITIONS + p] *
                           cache_value(values, at + (size_t)seen_at(list, p) * length + i, format);
                out[q * stride + i] = sum;
            }
        return 0;
    }
    uint team = least(length / ATTEND_CHUNK, LANES);
    uint teams = least(LANES / team, ATTEND_SCRATCH / (n * length));
    uint own = LANE / team, begin = own < teams ? LANE % team * ATTEND_CHUNK : length;
    for (uint i = begin; i < length; i += team * ATTEND_CHUNK) {
        float8 totals[ATTEND_QUERIES];
        UNROLL
        for (uint q = 0; q < ATTEND_QUERIES; q++)
            totals[q] = float8_all(0.0f);
        for (uint p = own; p < count; p += ATTEND_AHEAD * teams) {
            float8 value[ATTEND_AHEAD];
            UNROLL
            for (uint a = 0; a < ATTEND_AHEAD; a++)
                value[a] = cache_chunk(
                    values, at + (size_t)seen_at(list, least(p + a * teams, count - 1)) * length + i, format);
            UNROLL
            for (uint q = 0; q < ATTEND_QUERIES; q++)
                if (q < n) {
                    UNROLL
                    for (uint a = 0; a < ATTEND_AHEAD; a++) {
                        uint position = p + a * teams;
                        float weight = position < count ? weights[q * ATTEND_POSITIONS + position] : 0.0f;
                        totals[q] = float8_fma(float8_all(weight), value[a], totals[q]);
                    }
                }
        }
        UNROLL
        for (uint q = 0; q < ATTEND_QUERIES; q++)
            if (q < n)
                local_store8(sums + (q * teams + own) * length + i, totals[q]);
    }
    return teams;
}

/* Converts the scores of one query, each the sum of `team` parts times scale, then capped unless softcap is 0, to
 * weights exp(score - greatest). Returns the sum of the weights. */
INLINE float attend_weights(LOCAL const float *parts, uint team, float scale, float softcap, LOCAL float *weights,
                            uint count, LOCAL float *shared, float *greatest)
{
    float top = LEAST_SCORE, sum = 0;
    for (uint p = TEAM_LANE; p < count; p += TEAM_LANES) {
        float score = 0;
        for (uint member = 0; member < team; member++)
            score += parts[p * team + member];
        score *= scale;
        if (softcap > 0.0f)
            score = softcap * tanh_of(DIVIDE(score, softcap));
        weights[p] = score;
        top = score > top ? score : top;
    }
    *greatest = top = team_max(top, shared);
    for (uint p = TEAM_LANE; p < count; p += TEAM_LANES)
        sum += weights[p] = EXP(weights[p] - top);
    return team_sum(sum, shared);
}

/* The queries of an item, and the positions that they see in its split. */
typedef struct attend_item {
    uint t, first, n;        /* its row, and which of its query heads */
    uint split, begin, stop; /* of the cache: [begin, stop), may be empty */
} attend_item;

/* Returns how many rows of the step a launch takes that is made for [first, first + most). */
INLINE uint attend_rows(GLOBAL const step_record *step, uint first, uint most)
{
    return step->count > first ? least(step->count - first, most) : 0;
}

/* Decodes an item: a split, and up to ATTEND_QUERIES query heads of a row that share a key/value head. */
INLINE attend_item attend_item_at(GLOBAL const step_record *step, uint item, uint heads, uint kv_heads, uint window,
                                  uint chunked, uint splits, uint first_row)
{
    attend_item o;
    uint sharing = heads / kv_heads, batches = (sharing + ATTEND_QUERIES - 1) / ATTEND_QUERIES;
    uint batch = item / splits % batches * ATTEND_QUERIES, kv_head = item / splits / batches % kv_heads;
    o.t = first_row + item / splits / batches / kv_heads;
    o.first = kv_head * sharing + batch;
    o.n = least(ATTEND_QUERIES, sharing - batch);
    o.split = item % splits;
    uint end = step->row[o.t].position + 1, seen = window != 0 && end > window ? end - window : 0;
    if (chunked)
        seen = (end - 1) / window * window;
    o.begin = o.split * ATTEND_POSITIONS;
    o.stop = least(o.begin + ATTEND_POSITIONS, end);
    o.begin = o.begin < seen ? seen : o.begin;
    return o;
}

/* Returns how many of 32 bits are set. */
INLINE uint bits_set(uint bits)
{
    bits -= bits >> 1 & 0x55555555u;
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return (((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}

/* Lists those of the first `count` positions of a split whose bits are set in `seen` [SPLIT_WORDS], where no others are; without
 * `limited`, all. Returns how many there are. */
INLINE uint list_seen(GLOBAL const uint *seen, bool limited, uint count, LOCAL uint *list)
{
    uint before[SPLIT_WORDS + 1];
    before[0] = 0;
    UNROLL
    for (uint w = 0; w < SPLIT_WORDS; w++)
        before[w + 1] = before[w] + (limited ? bits_set(seen[w]) : 0);
    for (uint p = LANE; p < count; p += LANES) {
        if (!limited)
            list[p] = p;
        else if (seen[p / 32] >> p % 32 & 1)
            list[before[p / 32] + bits_set(seen[p / 32] & ((1u << p % 32) - 1))] = p;
    }
    BARRIER();
    return limited ? before[SPLIT_WORDS] : count;
}

/* Queries of one row that share the keys of a split: `n` of them, one after the other, with `count` keys, or of a list so many.
 * whole: keys and values are made of whole chunks. */
typedef struct attend_part {
    GLOBAL const float *query;
    uint n, count, length, value_length;
    bool whole;
    float scale, softcap;
} attend_part;

/* Writes what a part gives to `out`, `stride` from query to query: the values, the greatest score, the sum of the weights. Keys
 * begin at place key_at of their piece, values likewise. */
INLINE void attend_to(uint format, const attend_part *o, cache_piece keys, cache_piece values, size_t key_at,
                      size_t value_at, LOCAL const uint *list, GLOBAL float *out, size_t stride, LOCAL float *scratch,
                      LOCAL float *weights, LOCAL float *shared)
{
    uint shorter = o->value_length;
    if (o->count == 0) { /* the same for every lane, so no lane reaches a barrier */
        for (uint q = LANE; q < o->n; q += LANES) {
            out[q * stride + shorter] = LEAST_SCORE;
            out[q * stride + shorter + 1] = 0.0f;
        }
        return;
    }
    /* There always is a query. Without the test PoCL 3.1 gives lanes of attend_gathered values of others (kcheck, group=3). */
    uint team = o->n == 0 ? 1
                          : attend_keys(o->query, o->n, keys, key_at, scratch, o->count, list, o->length, o->length,
                                        o->whole, format);
    BARRIER();
    NO_UNROLL
    for (uint q = TEAM; q < o->n; q += TEAMS) { /* a team takes a query */
        float greatest, sum = attend_weights(scratch + q * ATTEND_POSITIONS * team, team, o->scale, o->softcap,
                                             weights + q * ATTEND_POSITIONS, o->count, shared, &greatest);
        if (TEAM_LANE == 0) {
            out[q * stride + shorter] = greatest;
            out[q * stride + shorter + 1] = sum;
        }
    }
    BARRIER(); /* all weights are there, and nobody needs the scores */
    uint teams =
        attend_values(weights, o->n, values, value_at, scratch, out, stride, o->count, list, shorter, o->whole, format);
    BARRIER();
    uint ready = teams > 0 ? o->n * shorter : 0;
    for (uint k = LANE; k < ready; k += LANES) {
        uint q = k / shorter, i = k % shorter;
        float value = 0.0f;
        for (uint each = 0; each < teams; each++)
            value += scratch[(q * teams + each) * shorter + i];
        out[q * stride + i] = value;
    }
    BARRIER(); /* before the next item overwrites scratch */
}

/* list: room for a split, where positions are chosen: rows from the position `limit` on see those whose bits are set in `seen`
 * [T][choosers][splits][SPLIT_WORDS]. */
INLINE void attend(uint format, GLOBAL const step_record *step, GLOBAL const float *query, GLOBAL const uchar *keys,
                   GLOBAL const uchar *values, cache_pages pages, GLOBAL float *partial, GLOBAL const uint *seen,
                   uint limit, uint choosers, uint heads, uint kv_heads, uint length, uint window, uint chunked, uint grows,
                   uint splits, uint stride_q, uint first_row, uint most_rows, float scale, float softcap, uint group,
                   uint groups, LOCAL float *scratch, LOCAL float *weights, LOCAL float *shared, LOCAL uint *list)
{
    uint shorter = pages.value_length;
    bool whole = length % ATTEND_CHUNK == 0 && shorter % ATTEND_CHUNK == 0 && stride_q % ATTEND_CHUNK == 0 &&
                 length <= ATTEND_SCRATCH / ATTEND_QUERIES;
    uint per_row = ATTEND_ITEMS(heads, kv_heads, splits), rows = attend_rows(step, first_row, most_rows);
    size_t width = shorter + 2, stride = splits * width; /* floats of a split; from query to query */
    for (uint item = group; item < rows * per_row; item += groups) {
        attend_item o = attend_item_at(step, item, heads, kv_heads, window, chunked, splits, first_row);
        GLOBAL float *out = partial + ((size_t)((o.t - first_row) * heads + o.first) * splits + o.split) * width;
        uint count = o.begin < o.stop ? o.stop - o.begin : 0;
        uint own = o.first / (heads / kv_heads);
        if (list && count > 0)
            count = list_seen(seen + (((size_t)o.t * choosers + own % choosers) * splits + o.split) * SPLIT_WORDS,
                              step->row[o.t].position >= limit, count, list);
        float row_scale = scale * (grows ? 1.0f + AS_FLOAT(step->row[o.t].score_gain) : 1.0f);
        size_t page = count > 0 ? cache_page(&pages, step->row[o.t].sequence, o.begin) : 0; /* which it may not have */
        attend_part part = {query + (size_t)o.t * stride_q + (size_t)o.first * length, o.n, count, length, shorter,
                            whole, row_scale, softcap};
        attend_to(format, &part, cache_piece_at(&pages, keys, page + (size_t)own * pages.piece_bytes, length),
                  cache_piece_at(&pages, values, page + (size_t)own * pages.value_piece_bytes, shorter),
                  cache_at(o.begin, length), cache_at(o.begin, shorter), list, out, stride, scratch, weights, shared);
    }
}

#define X(name, FORMAT)                                                                                              \
    KERNEL(name, P_ATTEND)                                                                                           \
    {                                                                                                                \
        LOCAL_ARRAY(float, scratch, ATTEND_SCRATCH);                                                                 \
        LOCAL_ARRAY(float, weights, ATTEND_QUERIES *ATTEND_POSITIONS);                                               \
        LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);                                                                 \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, value_length, value_piece_bytes};      \
        attend(FORMAT, step, query, keys, values, cache, partial, (GLOBAL const uint *)0, 0, 1, heads, kv_heads, length, \
               window, chunked, grows, splits, stride_q, first_row, most_rows, scale, softcap, GROUP, GROUPS, scratch, \
               weights, shared, (LOCAL uint *)0);                                                                    \
    }
X(attend_f32, CACHE_F32)
X(attend_f16, CACHE_F16)
X(attend_q8_0, CACHE_Q8_0)
#undef X

/* ------------------------------------------------------------------ combining the splits */

/* Splits whose weights are in local memory at once. */
#define JOIN_SPLITS 64

/* Joins a query head of a row (item); `out` holds the sums until they are complete. Unless it reads all splits, those after the row's
 * position are not read; of a split in which the row sees no position, only m and the sum of weights, which is 0. */
INLINE void join_head(GLOBAL const step_record *step, GLOBAL const float *partial, GLOBAL const float *sinks,
                      GLOBAL const float *gates, GLOBAL float *mixed, uint heads, uint length, uint splits, uint stride,
                      uint gate_length, bool softplus, bool all, uint first_row, float gain, uint item,
                      LOCAL float *weights, LOCAL float *sums, LOCAL float *shared)
{
    uint t = first_row + item / heads, width = length + 2;
    uint used = all ? splits : least(splits, step->row[t].position / ATTEND_POSITIONS + 1);
    GLOBAL const float *from = partial + (size_t)item * splits * width;
    GLOBAL float *out = mixed + ((size_t)first_row * heads + item) * length;
    float sink = sinks ? sinks[item % heads] : LEAST_SCORE, top = sink, total = 0;
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
    if (sinks)
        total += EXP(sink - top);
    GLOBAL const float *gate = gates ? gates + (size_t)t * stride + item % heads * gate_length : gates;
    for (uint i = LANE; i < length; i += LANES) {
        float value = DIVIDE(out[i], total) * gain, opened = gate ? gate[gate_length > 1 ? i : 0] : 0.0f;
        out[i] = !gate ? value : value * (softplus ? softplus_of(opened) : sigmoid_of(opened));
    }
}

/* weights, sums: exp(m - M) of splits, and theirs. */
#define JOIN_ARRAYS                           \
    LOCAL_ARRAY(float, weights, JOIN_SPLITS); \
    LOCAL_ARRAY(float, sums, JOIN_SPLITS);    \
    LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE)

KERNEL(attend_join, P_ATTEND_JOIN)
{
    JOIN_ARRAYS;
    uint items = attend_rows(step, first_row, most_rows) * heads;
    for (uint item = GROUP; item < items; item += GROUPS)
        join_head(step, partial, sinks, gates, mixed, heads, length, splits, stride, gate_length, softplus != 0,
                  all != 0, first_row, gain, item, weights, sums, shared);
}

KERNEL(attend_join_8, P_ATTEND_JOIN_8)
{
    JOIN_ARRAYS;
    uint items = attend_rows(step, first_row, most_rows) * heads, blocks = length / 32;
    for (uint item = GROUP; item < items; item += GROUPS) {
        uint begin = (first_row * heads + item) * blocks;
        join_head(step, partial, sinks, gates, mixed, heads, length, splits, stride, gate_length, softplus != 0, false,
                  first_row, gain, item, weights, sums, shared);
        BARRIER(); /* others read what a lane has written */
        quantize_blocks(mixed, q, q_scales, q_sums, begin, begin + blocks);
    }
}
