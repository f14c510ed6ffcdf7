/* summaries.cl - summaries of positions (attention_shape.summary in model/layer.h): what is kept of one until it is whole, and
 * attention of which a row sees positions of a window and summaries, which are brought together first. */

/* ------------------------------------------------------------------ the sums of a summary */

/* Of a column: the largest gate so far, the sum of exp(gate - largest), and that of the values times it. */
typedef struct column_sums {
    float most, sum, total;
} column_sums;

INLINE column_sums no_sums(void)
{
    column_sums c = {LEAST_SCORE, 0.0f, 0.0f};
    return c;
}

/* Reads them where they are kept, [3][length]. */
INLINE column_sums sums_at(GLOBAL const float *kept, uint length, uint column)
{
    column_sums c = {kept[column], kept[length + column], kept[2 * length + column]};
    return c;
}

INLINE void keep_sums(column_sums c, GLOBAL float *kept, uint length, uint column)
{
    kept[column] = c.most;
    kept[length + column] = c.sum;
    kept[2 * length + column] = c.total;
}

INLINE column_sums add_to_sums(column_sums c, float value, float gate)
{
    float more = gate - c.most, less = EXP(more > 0.0f ? -more : more);
    column_sums larger = {gate, FMA(c.sum, less, 1.0f), FMA(c.total, less, value)};
    column_sums smaller = {c.most, c.sum + less, FMA(value, less, c.total)};
    return more > 0.0f ? larger : smaller;
}

/* A lane takes a column through all rows. */
KERNEL(summarise, P_SUMMARISE)
{
    uint items = (length + CONVOLVE_CHANNELS - 1) / CONVOLVE_CHANNELS, second = (parts - 1) * length, kept = 3 * length;
    for (uint item = GROUP; item < items; item += GROUPS) {
        uint begin = item * CONVOLVE_CHANNELS, end = least(begin + CONVOLVE_CHANNELS, length);
        for (uint t = 0; t < step->count; t++) {
            bool fresh = step->row[t].state_from == NO_STATE;
            uint place = step->row[t].position % together;
            GLOBAL const float *before = states + (fresh ? 0 : (size_t)step->row[t].state_from * state_length);
            GLOBAL float *after = states + (size_t)step->row[t].state_to * state_length;
            GLOBAL const float *value = values + (size_t)t * stride, *gate = gates + (size_t)t * stride;
            GLOBAL const float *own_bias = bias + (size_t)place * parts * length;
            for (uint c = begin + LANE; c < end; c += LANES) {
                column_sums whole = fresh ? no_sums() : sums_at(before, length, c);
                column_sums own = fresh || parts == 1 ? no_sums() : sums_at(before + kept, length, c);
                if (place == 0) {
                    whole = own; /* of the group before, where summaries overlap */
                    own = no_sums();
                }
                whole = add_to_sums(whole, value[second + c], gate[second + c] + own_bias[second + c]);
                keep_sums(whole, after, length, c);
                if (parts > 1)
                    keep_sums(add_to_sums(own, value[c], gate[c] + own_bias[c]), after + kept, length, c);
                pooled[(size_t)t * length + c] = DIVIDE(whole.total, whole.sum);
            }
        }
    }
}

/* ------------------------------------------------------------------ keys together */

/* Returns how many positions of its window a row sees, how many summaries there are of whole groups, and how many of these it sees. */
INLINE uint window_of(uint position, uint window)
{
    return least(position + 1, window);
}

INLINE uint whole_summaries(uint position, uint together)
{
    return together > 0 ? (position + 1) / together : 0;
}

INLINE uint seen_summaries(uint position, uint together, uint most)
{
    uint whole = whole_summaries(position, together);
    return most > 0 && whole > most ? most : whole;
}

/* Returns the bytes of what is brought together of a split, and where one lies: keys, and then the scales of Q8_0. */
INLINE size_t split_bytes(uint length, uint format)
{
    size_t values = (size_t)ATTEND_POSITIONS * length;
    return format == CACHE_Q8_0 ? values + values / 16 : format == CACHE_F16 ? 2 * values : 4 * values;
}

/* Copies a key from place `at` of a piece to place `to` of the keys of a row. */
INLINE void copy_key(cache_piece from, uint at, GLOBAL uchar *row, uint to, uint length, uint format)
{
    GLOBAL uchar *split = row + to / ATTEND_POSITIONS * split_bytes(length, format);
    size_t source = (size_t)at * length, place = (size_t)(to % ATTEND_POSITIONS) * length;
    for (uint i = LANE; i < length; i += LANES) {
        if (format == CACHE_Q8_0)
            ((GLOBAL schar *)split)[place + i] = ((GLOBAL const schar *)from.values)[source + i];
        else if (format == CACHE_F16)
            ((GLOBAL ushort *)split)[place + i] = ((GLOBAL const ushort *)from.values)[source + i];
        else
            ((GLOBAL float *)split)[place + i] = ((GLOBAL const float *)from.values)[source + i];
    }
    if (format == CACHE_Q8_0) {
        GLOBAL ushort *scales = (GLOBAL ushort *)(split + (size_t)ATTEND_POSITIONS * length);
        for (uint i = LANE; i < length / 32; i += LANES)
            scales[place / 32 + i] = from.scales[source / 32 + i];
    }
}

/* Returns whether the bit of a position is set. */
INLINE bool is_seen(GLOBAL const uint *seen, uint position)
{
    return seen[position / 32] >> position % 32 & 1;
}

/* Returns how many summaries before a page a row sees: each has the bits of all its positions. */
INLINE uint seen_before(GLOBAL const uint *seen, uint page, uint together, LOCAL uint *scratch)
{
    uint bits = 0;
    for (uint w = LANE; w < page * SPLIT_WORDS; w += LANES)
        bits += bits_set(seen[w]);
    return group_sum_uint(bits, scratch) / together;
}

/* An item is a page of the context of a row. summaries: its cache, whose pages have fewer rows. */
INLINE void gather(uint format, GLOBAL const step_record *step, GLOBAL const uchar *keys,
                   GLOBAL const uchar *summary_keys, cache_pages pages, GLOBAL const uint *seen, GLOBAL uchar *gathered,
                   uint length, uint window, uint together, uint most, uint splits, uint gathered_splits,
                   uint first_row, uint most_rows, uint group, uint groups, LOCAL uint *scratch)
{
    uint items = attend_rows(step, first_row, most_rows) * splits, each = together > 0 ? ATTEND_POSITIONS / together : 0;
    cache_pages of_summaries = pages;
    of_summaries.positions = together > 0 ? pages.positions / together : 0;
    for (uint item = group; item < items; item += groups) {
        uint row = item / splits, page = item % splits, position = step->row[first_row + row].position;
        uint begin = page * ATTEND_POSITIONS, end = least(begin + ATTEND_POSITIONS, position + 1);
        if (begin > position) /* the same for every lane, so no lane reaches a barrier */
            continue;
        uint in_window = window_of(position, window), first = position + 1 - in_window;
        uint whole = whole_summaries(position, together);
        bool limited = most > 0 && whole > most;
        GLOBAL const uint *bits = limited ? seen + (size_t)(first_row + row) * splits * SPLIT_WORDS : seen;
        uint to = in_window + (limited ? seen_before(bits, page, together, scratch) : page * each);
        size_t at = cache_page(&pages, step->row[first_row + row].sequence, begin);
        GLOBAL uchar *out = gathered + (size_t)row * gathered_splits * split_bytes(length, format);
        cache_piece own = cache_piece_at(&pages, keys, at, length);
        for (uint p = begin > first ? begin : first; p < end; p++)
            copy_key(own, p - begin, out, p - first, length, format);
        cache_piece summaries = cache_piece_at(&of_summaries, summary_keys, at, length);
        for (uint n = page * each; n < least(page * each + each, whole); n++)
            if (!limited || is_seen(bits, n * together))
                copy_key(summaries, n - page * each, out, to++, length, format);
    }
}

#define X(name, FORMAT)                                                                                         \
    KERNEL(name, P_GATHER)                                                                                      \
    {                                                                                                           \
        LOCAL_ARRAY(uint, scratch, GROUP_SCRATCH);                                                              \
        cache_pages cache = {pages, table, page_bytes, piece_bytes, positions, length, piece_bytes};            \
        gather(FORMAT, step, keys, summaries, cache, seen, gathered, length, window, together, most, splits,    \
               gathered_splits, first_row, most_rows, GROUP, GROUPS, scratch);                                  \
    }
X(gather_f32, CACHE_F32)
X(gather_f16, CACHE_F16)
X(gather_q8_0, CACHE_Q8_0)
#undef X

/* ------------------------------------------------------------------ attention */

/* An item is a split of what was brought together of a row, and up to ATTEND_QUERIES of its query heads. */
INLINE void attend_gathered(uint format, GLOBAL const step_record *step, GLOBAL const float *query,
                            GLOBAL const uchar *gathered, GLOBAL float *partial, uint heads, uint length, uint window,
                            uint together, uint most, uint splits, uint stride_q, uint first_row, uint most_rows,
                            float scale, uint group, uint groups, LOCAL float *scratch, LOCAL float *weights,
                            LOCAL float *shared)
{
    bool whole = length % ATTEND_CHUNK == 0 && stride_q % ATTEND_CHUNK == 0 && length <= ATTEND_SCRATCH / ATTEND_QUERIES;
    uint batches = ATTEND_ITEMS(heads, 1, 1), items = attend_rows(step, first_row, most_rows) * batches * splits;
    size_t width = length + 2;
    for (uint item = group; item < items; item += groups) {
        uint split = item % splits, first = item / splits % batches * ATTEND_QUERIES, row = item / splits / batches;
        uint t = first_row + row, position = step->row[t].position, begin = split * ATTEND_POSITIONS;
        uint all = window_of(position, window) + seen_summaries(position, together, most);
        attend_part part = {query + (size_t)t * stride_q + (size_t)first * length, least(ATTEND_QUERIES, heads - first),
                            begin < all ? least(ATTEND_POSITIONS, all - begin) : 0, length, length, whole, scale, 0.0f};
        GLOBAL const uchar *keys = gathered + ((size_t)row * splits + split) * split_bytes(length, format);
        cache_piece piece = {keys, (GLOBAL const ushort *)(keys + (size_t)ATTEND_POSITIONS * length)};
        GLOBAL float *out = partial + ((size_t)(row * heads + first) * splits + split) * width;
        attend_to(format, &part, piece, piece, 0, 0, (LOCAL const uint *)0, out, splits * width, scratch, weights, shared);
    }
}

#define X(name, FORMAT)                                                                                           \
    KERNEL(name, P_ATTEND_GATHERED)                                                                               \
    {                                                                                                             \
        LOCAL_ARRAY(float, scratch, ATTEND_SCRATCH);                                                              \
        LOCAL_ARRAY(float, weights, ATTEND_QUERIES *ATTEND_POSITIONS);                                            \
        LOCAL_ARRAY(float, shared, SCRATCH_FOR_ONE);                                                              \
        attend_gathered(FORMAT, step, query, gathered, partial, heads, length, window, together, most, splits,    \
                        stride_q, first_row, most_rows, scale, GROUP, GROUPS, scratch, weights, shared);          \
    }
X(attend_gathered_f32, CACHE_F32)
X(attend_gathered_f16, CACHE_F16)
X(attend_gathered_q8_0, CACHE_Q8_0)
#undef X
