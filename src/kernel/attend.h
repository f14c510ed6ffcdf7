/* attend.h - attention of several heads of a row over one key/value head: the loops, shared by all vector levels.
 * attend_LEVEL.c includes it after exponent_LEVEL.h and after it has defined
 *   TILE_POSITIONS    keys that two queries are multiplied with at a time
 *   TILE_REGISTERS    vectors of an output that are computed at a time
 *   BLOCK_POSITIONS   positions that all queries are multiplied with before the next ones; blocks begin at its multiples
 *   store_scores      stores the sums of the vectors of a tile, times the scale
 *   largest_lane      returns the largest value of a vector
 *
 * Scores: tiles of 2 queries x TILE_POSITIONS positions, so that a key is converted once for two queries and a query is
 * loaded once for all keys; the horizontal sums are computed together. Values: tiles of TILE_QUERIES queries x
 * TILE_REGISTERS vectors of output stay in registers during the loop over the positions of a block. An incomplete group
 * of queries repeats its last one; the repeated results are the same. Where blocks begin changes no bit: a score is that of
 * one position, and a value's sum goes on from block to block. */
#ifndef KERNEL_ATTEND_H
#define KERNEL_ATTEND_H

#include <math.h>

#define TILE_QUERIES 4    /* queries in a tile of the second product, weights times values */
#define MOST_QUERIES 16   /* queries that are processed together */
#define LATER        8192 /* prefetch distance in bytes: the CPU's own prefetch ends at a page of 4096 bytes */

_Static_assert(KV_PAGE % BLOCK_POSITIONS == 0, "blocks do not cross pages");

/* The keys (or values) of some positions, which lie in one page of the cache. */
typedef struct block {
    size_t first, count; /* first: counted from the first position that is seen                       */
    const char *at;      /* [count] of `bytes` bytes                                                  */
    size_t bytes;
    uintptr_t later; /* from `at` to what is read LATER bytes after it, in the same page or the sequence's next one */
} block;

/* Prefetches what is read LATER bytes after the n bytes that are read now; behind the last page that does no harm. */
ALWAYS_INLINE void fetch_later(const block *b, const char *now, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)now + b->later + i));
}

/* Adds dimensions [i, i + n), at most LANES, to the scores of two queries with the keys. */
ALWAYS_INLINE void add_scores(const float *const query[2], const void *const keys[TILE_POSITIONS], size_t i, size_t n,
                              vector sum[2 * TILE_POSITIONS], load_values *load)
{
    vector first = load_first(query[0] + i, n), second = load_first(query[1] + i, n);
    UNROLLED
    for (size_t k = 0; k < TILE_POSITIONS; k++) {
        vector values = in_register(load(keys[k], i, n));
        sum[k] = vector_fma(sum[k], first, values);
        sum[k + TILE_POSITIONS] = vector_fma(sum[k + TILE_POSITIONS], second, values);
    }
}

/* Computes the scores of two queries with the keys from `key` on, `bytes` bytes each, of which `left` exist. */
ALWAYS_INLINE void score_tile(const float *const query[2], const char *key, size_t bytes, size_t left, size_t length,
                              float scale, float *const scores[2], size_t p, load_values *load)
{
    vector sum[2 * TILE_POSITIONS];
    const void *keys[TILE_POSITIONS];
    UNROLLED
    for (size_t k = 0; k < 2 * TILE_POSITIONS; k++)
        sum[k] = vector_of(0);
    for (size_t k = 0; k < TILE_POSITIONS; k++)
        keys[k] = key + (k < left ? k : left - 1) * bytes;
    size_t i = 0;
    for (; i + LANES <= length; i += LANES)
        add_scores(query, keys, i, LANES, sum, load);
    if (i < length)
        add_scores(query, keys, i, length - i, sum, load);
    store_scores(sum, scale, left, scores[0] + p, scores[1] + p);
}

static float largest_of(const float *values, size_t n)
{
    vector most = vector_of(values[0]);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        most = vector_max(most, vector_load(values + i));
    float largest = largest_lane(most);
    for (; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* Replaces each score s by cap * tanh(s / cap); tanh(y) is 1 - 2 / (1 + exp(2 y)). */
static void cap_scores(float *scores, size_t n, float cap)
{
    for (size_t i = 0; i < n; i += LANES) {
        vector power = exponent(vector_multiply(load_first(scores + i, n - i), vector_of(2 / cap)));
        vector part = vector_divide(vector_of(2 * cap), vector_add(vector_of(1), power));
        store_first(scores + i, n - i, vector_subtract(vector_of(cap), part));
    }
}

/* Replaces scores by exp(score - largest); returns their sum, which they must be divided by. sink: as one more score,
 * or NULL. */
static float softmax(float *scores, size_t n, const float *sink)
{
    float most = largest_of(scores, n);
    most = sink && *sink > most ? *sink : most;
    vector largest = vector_of(most), sum = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        vector weights = exponent(vector_subtract(load_first(scores + i, n - i), largest));
        store_first(scores + i, n - i, weights);
        if (n - i < LANES)
            weights = load_first(scores + i, n - i); /* zeros after the last one */
        sum = vector_add(sum, weights);
    }
    return sum_of(sum) + (sink ? expf(*sink - most) : 0);
}

/* Adds the positions of a block to the outputs of four queries from dimension i on: `registers` vectors of n values (n
 * is at least LANES unless it is one vector). first: nothing else has read the block yet. */
ALWAYS_INLINE void value_tile(const float *const scores[TILE_QUERIES], const block *b, size_t i, size_t registers,
                              size_t n, float *const out[TILE_QUERIES], bool first, load_values *load)
{
    vector sum[TILE_QUERIES][TILE_REGISTERS];
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < registers; k++)
            sum[g][k] = load_first(out[g] + i + k * LANES, n);
    const char *value = b->at;
    for (size_t p = 0; p < b->count; p++, value += b->bytes) {
        if (first)
            fetch_later(b, value, b->bytes);
        for (size_t k = 0; k < registers; k++) {
            vector values = in_register(load(value, i + k * LANES, n));
            for (size_t g = 0; g < TILE_QUERIES; g++)
                sum[g][k] = vector_fma(sum[g][k], vector_of(scores[g][p]), values);
        }
    }
    for (size_t g = 0; g < TILE_QUERIES; g++)
        for (size_t k = 0; k < registers; k++)
            store_first(out[g] + i + k * LANES, n, sum[g][k]);
}

/* Some queries of one key/value head and the positions [first, first + count). */
typedef struct attention {
    const float *query;
    size_t queries, first, count;
    size_t together;    /* positions of a block: divides a page */
    attend_cache cache; /* a copy, whose lengths stay in registers */
    attend_scoring scoring;
    float *scores, *out;
} attention;

/* Returns the distance from a position to what is read LATER bytes after it: that is in the position's page, or as far behind
 * the begin of the sequence's next page as it would be behind the end of this one. */
ALWAYS_INLINE uintptr_t distance_later(const attention *a, const attend_half *half, size_t position)
{
    const uint32_t *pages = a->cache.pages;
    size_t page = position / KV_PAGE, page_bytes = KV_PAGE * half->row_bytes;
    if (position % KV_PAGE * half->row_bytes + LATER < page_bytes || (page + 1) * KV_PAGE >= a->first + a->count)
        return LATER;
    return ((uintptr_t)pages[page + 1] - pages[page]) * half->page_bytes + LATER - page_bytes;
}

/* Returns the block that begins with position first + p. half: the cache's keys or values. */
ALWAYS_INLINE block block_at(const attention *a, const attend_half *half, size_t p)
{
    size_t begin = a->first + p, left = a->together - begin % a->together;
    return (block){.first = p,
                   .count = a->count - p < left ? a->count - p : left,
                   .at = attend_at(&a->cache, half, begin),
                   .bytes = half->row_bytes,
                   .later = distance_later(a, half, begin)};
}

/* Computes the scores of a block; fetches: nothing has prefetched what comes later. */
ALWAYS_INLINE void score_block(const attention *a, const block *b, bool fetches, load_values *load)
{
    size_t length = a->cache.key.length;
    for (size_t g = 0; g < a->queries; g += 2) {
        size_t next = g + 1 < a->queries ? g + 1 : g;
        const float *const query[] = {a->query + g * length, a->query + next * length};
        float *const scores[] = {a->scores + g * a->count + b->first, a->scores + next * a->count + b->first};
        for (size_t p = 0; p < b->count; p += TILE_POSITIONS) {
            if (fetches && g == 0)
                fetch_later(b, b->at + p * b->bytes, TILE_POSITIONS * b->bytes);
            score_tile(query, b->at + p * b->bytes, b->bytes, b->count - p, length, a->scoring.scale, scores, p, load);
        }
    }
}

/* Adds the values of a block to the outputs. */
ALWAYS_INLINE void value_block(const attention *a, const block *b, bool fetches, load_values *load)
{
    size_t length = a->cache.value.length;
    for (size_t g = 0; g < a->queries; g += TILE_QUERIES) {
        const float *scores[TILE_QUERIES];
        float *out[TILE_QUERIES];
        for (size_t k = 0; k < TILE_QUERIES; k++) {
            size_t one = g + k < a->queries ? g + k : a->queries - 1;
            scores[k] = a->scores + one * a->count + b->first;
            out[k] = a->out + one * length;
        }
        size_t i = 0;
        for (; i + TILE_REGISTERS * LANES <= length; i += TILE_REGISTERS * LANES)
            value_tile(scores, b, i, TILE_REGISTERS, LANES, out, fetches && g == 0 && i == 0, load);
        for (; i < length; i += LANES)
            value_tile(scores, b, i, 1, length - i, out, fetches && g == 0 && i == 0, load);
    }
}

/* Values of a block that are converted at once, and stay in the L1 cache (of at least 32 KB) beside what they come from. */
#define CONVERTED_VALUES 4096

/* Converts n values, which follow one another, to float32. */
typedef void convert_values(const void *from, size_t n, float *out);

/* Converts the keys (or values), of so many values each, of a block to `out`; in a page they follow one another, unless they lie
 * apart. */
ALWAYS_INLINE block converted(size_t length, const block *b, bool apart, float *out, convert_values *convert)
{
    size_t most = apart ? 1 : TILE_POSITIONS;
    for (size_t p = 0; p < b->count; p += most) {
        size_t n = b->count - p < most ? b->count - p : most;
        fetch_later(b, b->at + p * b->bytes, n * b->bytes);
        convert(b->at + p * b->bytes, n * length, out + p * length);
    }
    return (block){.first = b->first, .count = b->count, .at = (const char *)out, .bytes = length * sizeof *out};
}

/* convert: converts blocks before they are used; NULL: they are loaded as they are. */
ALWAYS_INLINE void attend_together(const attention *a, load_values *load, convert_values *convert)
{
    float total[MOST_QUERIES] = {0}, floats[CONVERTED_VALUES];
    const attend_half *key = &a->cache.key, *value = &a->cache.value;
    for (size_t p = 0, n; p < a->count; p += n) {
        block keys = block_at(a, key, p);
        n = keys.count;
        if (convert) {
            keys = converted(key->length, &keys, false, floats, convert);
            score_block(a, &keys, false, load_f32);
        } else {
            score_block(a, &keys, true, load);
        }
    }
    if (a->scoring.softcap > 0)
        cap_scores(a->scores, a->queries * a->count, a->scoring.softcap);
    for (size_t g = 0; g < a->queries; g++)
        total[g] = softmax(a->scores + g * a->count, a->count, a->scoring.sinks ? a->scoring.sinks + g : NULL);
    memset(a->out, 0, a->queries * value->length * sizeof(*a->out));
    for (size_t p = 0, n; p < a->count; p += n) {
        block values = block_at(a, value, p);
        n = values.count;
        if (convert) {
            values = converted(value->length, &values, false, floats, convert);
            value_block(a, &values, false, load_f32);
        } else {
            value_block(a, &values, true, load);
        }
    }
    for (size_t g = 0; g < a->queries; g++)
        for (size_t i = 0; i < value->length; i++)
            a->out[g * value->length + i] /= total[g];
}

ALWAYS_INLINE void attend(attention a, load_values *load, convert_values *convert)
{
    for (size_t all = a.queries; all > 0; all -= a.queries) {
        a.queries = all < MOST_QUERIES ? all : MOST_QUERIES;
        attend_together(&a, load, convert);
        a.query += a.queries * a.cache.key.length;
        a.scores += a.queries * a.count;
        a.out += a.queries * a.cache.value.length;
        a.scoring.sinks = a.scoring.sinks ? a.scoring.sinks + a.queries : NULL;
    }
}

/* Adds what `queries` heads score the positions of a block to `scores`; below: NaN stays, and what is below 0. */
ALWAYS_INLINE void add_weighted(const attention *a, const float *weights, bool below, size_t count, float *scores)
{
    for (size_t i = 0; i < count; i += LANES) {
        vector sum = load_first(scores + i, count - i);
        for (size_t g = 0; g < a->queries; g++) {
            vector score = load_first(a->scores + g * a->count + i, count - i);
            sum = vector_fma(sum, vector_of(weights[g]), below ? score : vector_max(score, vector_of(0)));
        }
        store_first(scores + i, count - i, sum);
    }
}

/* Computes the scores of a run, block by block; convert: as of attend_together. */
ALWAYS_INLINE void score(const score_run *run, attention a, load_values *load, convert_values *convert)
{
    float floats[CONVERTED_VALUES], of_heads[MOST_QUERIES * BLOCK_POSITIONS];
    memset(run->scores, 0, run->count * sizeof *run->scores);
    for (size_t p = 0, n; p < run->count; p += n) {
        a.count = run->count;
        block keys = block_at(&a, &a.cache.key, p);
        a.count = n = keys.count;
        a.scores = of_heads;
        keys.first = 0;
        if (convert)
            keys = converted(a.cache.key.length, &keys, run->apart, floats, convert);
        for (size_t h = 0; h < run->heads; h += a.queries) {
            a.queries = run->heads - h < MOST_QUERIES ? run->heads - h : MOST_QUERIES;
            a.query = run->query + h * a.cache.key.length;
            if (convert)
                score_block(&a, &keys, false, load_f32);
            else
                score_block(&a, &keys, h == 0, load);
            add_weighted(&a, run->weights + h, run->below, n, run->scores + p);
        }
    }
}

/* Returns how many positions a level converts at once of heads of this length; 0: they are so long that not even a tile fits. */
static size_t converted_together(size_t length)
{
    size_t together = BLOCK_POSITIONS;
    while (together > TILE_POSITIONS && together * length > CONVERTED_VALUES)
        together /= 2;
    return together * length <= CONVERTED_VALUES ? together : 0;
}

/* Those of a run that scores. */
ALWAYS_INLINE attention scoring_of(const score_run *run, size_t together)
{
    return (attention){.first = run->first, .together = together, .cache = run->cache, .scoring = {.scale = 1}};
}

#define SCORE(format, level)                                               \
    static void score_##format##_##level(const score_run *run)             \
    {                                                                      \
        score(run, scoring_of(run, BLOCK_POSITIONS), load_##format, NULL); \
    }

#define SCORE_CONVERTED(format, level)                                                \
    static void score_##format##_##level(const score_run *run)                        \
    {                                                                                 \
        size_t together = converted_together(run->cache.key.length);                  \
        if (together > 0)                                                             \
            score(run, scoring_of(run, together), load_##format, floats_of_##format); \
        else                                                                          \
            score(run, scoring_of(run, BLOCK_POSITIONS), load_##format, NULL);        \
    }

/* For formats that are loaded as they are. */
#define ATTEND(format, level)                                                                                          \
    static void attend_##format##_##level(const float *query, size_t queries, const attend_cache *cache, size_t first, \
                                          size_t count, const attend_scoring *scoring, float *scores, float *out)      \
    {                                                                                                                  \
        attention a = {query, queries, first, count, BLOCK_POSITIONS, *cache, *scoring, scores, out};                  \
        attend(a, load_##format, NULL);                                                                                \
    }

/* For formats that are converted block by block, since that takes longer than loading what it gives. Where heads are so long
 * that even a tile does not fit, they are loaded. */
#define ATTEND_CONVERTED(format, level)                                                                                \
    static void attend_##format##_##level(const float *query, size_t queries, const attend_cache *cache, size_t first, \
                                          size_t count, const attend_scoring *scoring, float *scores, float *out)      \
    {                                                                                                                  \
        attention a = {query, queries, first, count, BLOCK_POSITIONS, *cache, *scoring, scores, out};                  \
        size_t keys = cache->key.length, values = cache->value.length;                                                 \
        size_t together = converted_together(keys > values ? keys : values);                                           \
        if (together > 0) {                                                                                            \
            a.together = together;                                                                                     \
            attend(a, load_##format, floats_of_##format);                                                              \
        } else {                                                                                                       \
            attend(a, load_##format, NULL);                                                                            \
        }                                                                                                              \
    }
#endif
