/* choice.c - see choice.h.
 *
 * Attention reads keys that follow one another. So the chosen ones are brought together first, with their values: all heads of latent
 * attention read them, or all of a group, and copying what is read many times costs little.
 *
 * Where positions share a score, in pools, the key of a pool takes the place of that of its last position, unless each head of keys
 * chooses for itself: once the pool is whole, nobody reads the keys of its positions, but where the session is cut back within it, and
 * then the last one is written again. */
#include "choice.h"

#include "forward.h"
#include "products.h"

#include "../base/float_order.h"

#include <string.h>

typedef struct choosing {
    hearth_session *s;
    const model_layer *l;
    uint32_t cached;               /* the layer of the cache that has the keys */
    size_t first;                  /* of the rows that are scored now          */
    size_t row;                    /* whose keys are brought together, ...     */
    uint32_t first_head, end_head; /* ... of these heads                       */
} choosing;

/* Items are rows. */
static void place_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const scratch *b = &c->s->scratch;
    const kernels *k = &c->s->engine->runtime->kernels;
    const norm_weights *norm = &c->l->index_key_norm;
    const index_shape *index = &c->l->attention.index;
    size_t n = index->head_length;
    for (size_t i = begin; i < end; i++) {
        float *key = b->choice.key + i * n;
        if (index->by_head)
            k->rms_norm(key, norm->weight, c->s->engine->model->hyper.norm_epsilon, n, key);
        else if (!index->plain)
            k->layer_norm(key, norm->weight, norm->bias, c->s->engine->model->hyper.index_epsilon, n, key);
        if (index->by_head || !index->plain)
            forward_turn(c->s, index->rotary, 1, n, i, key);
        kv_store(&c->s->cache, k, c->cached, b->sequence[i], b->position[i], key,
                 c->l->index_gate.data ? b->choice.gate + i * n : NULL);
    }
}

/* A pool whose key is made: as it was stored, so that it does not matter how the text is cut into batches. */
typedef struct pooling {
    const choosing *c;
    attend_cache cache;
    size_t first;                        /* position               */
    float *key, *gate, *most, *sum, *to; /* [I]  of one position; the largest gate; sums over positions */
} pooling;

/* Reads the gate of a position of the pool, with the bias of its place, and its key. */
static void read_pooled(const pooling *p, size_t place)
{
    const model_layer *l = p->c->l;
    size_t n = l->attention.index.head_length, at = p->first + place;
    const number_traits *stored = &number_formats[kv_formats[p->c->s->cache.format].stored];
    stored->decode(attend_at(&p->cache, &p->cache.key, at), p->key, n);
    stored->decode(attend_at(&p->cache, &p->cache.value, at), p->gate, n);
    p->c->s->engine->runtime->kernels.add(l->index_gate_bias + place * n, n, p->gate);
}

/* Makes the key of a pool whose positions weigh the same; row: that of the pool's last position. */
static void make_plain(const pooling *p, size_t row)
{
    const hearth_session *s = p->c->s;
    const attention_shape *a = &p->c->l->attention;
    const number_traits *stored = &number_formats[kv_formats[s->cache.format].stored];
    size_t n = a->index.head_length;
    memset(p->to, 0, n * sizeof *p->to);
    for (size_t place = 0; place < a->pool; place++) {
        stored->decode(attend_at(&p->cache, &p->cache.key, p->first + place), p->key, n);
        s->engine->runtime->kernels.add(p->key, n, p->to);
    }
    forward_scale(1 / (float)a->pool, n, p->to);
    s->engine->runtime->kernels.rms_norm(p->to, p->c->l->index_key_norm.weight, s->engine->model->hyper.norm_epsilon, n,
                                         p->to);
    forward_turn(s, a->index.pool_rotary, 1, n, row, p->to);
}

/* Makes the key of a pool of others. */
static void make_weighed(const pooling *p)
{
    const attention_shape *a = &p->c->l->attention;
    size_t n = a->index.head_length;
    for (size_t place = 0; place < a->pool; place++) {
        read_pooled(p, place);
        for (size_t i = 0; i < n; i++)
            p->most[i] = place == 0 || p->gate[i] > p->most[i] ? p->gate[i] : p->most[i];
    }
    memset(p->sum, 0, n * sizeof *p->sum);
    memset(p->to, 0, n * sizeof *p->to);
    for (size_t place = 0; place < a->pool; place++) {
        read_pooled(p, place);
        for (size_t i = 0; i < n; i++) {
            float weight = expf(p->gate[i] - p->most[i]);
            p->sum[i] += weight;
            p->to[i] += weight * p->key[i];
        }
    }
    for (size_t i = 0; i < n; i++)
        p->to[i] /= p->sum[i];
}

/* Items are rows. Makes the keys of the pools that end with them. */
static void pool_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    const choosing *c = context;
    const scratch *b = &c->s->scratch;
    const attention_shape *a = &c->l->attention;
    size_t n = a->index.head_length;
    float *own = b->choice.pooled + (size_t)worker * POOL_BUFFERS * n;
    for (size_t i = begin; i < end; i++) {
        if ((b->position[i] + 1) % a->pool != 0)
            continue;
        attend_cache cache = kv_head(&c->s->cache, c->cached, b->sequence[i], 0);
        pooling p = {c, cache, b->position[i] + 1 - a->pool, own, own + n, own + 2 * n, own + 3 * n, own + 4 * n};
        if (a->index.plain)
            make_plain(&p, i);
        else
            make_weighed(&p);
        kv_store_key(&c->s->cache, &c->s->engine->runtime->kernels, c->cached, b->sequence[i], b->position[i], p.to);
    }
}

/* Items are rows. */
static void place_queries(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const index_shape *index = &c->l->attention.index;
    const hearth_engine *e = c->s->engine;
    size_t n = index->head_length, heads = index->head_count;
    for (size_t i = begin; i < end; i++) {
        float *query = c->s->scratch.choice.query + i * heads * n;
        for (size_t h = 0; index->plain && h < heads; h++) {
            c->s->scratch.choice.weight[i * heads + h] = 1;
            forward_norm_row(e, &c->l->index_query_norm, e->model->hyper.norm_epsilon, query + h * n, n, query + h * n);
        }
        forward_turn(c->s, index->rotary, heads, n, i, query);
    }
}

/* ------------------------------------------------------------------ scores */

/* Keys that an item scores: of whole pages. */
#define SCORED_KEYS (4 * KV_PAGE)

/* Returns how many pools these are. */
static size_t piece_pools(const attention_shape *a)
{
    return SCORED_KEYS / (a->index.by_head ? a->pool : 1);
}

/* Returns the items of a row. */
static size_t scored_pieces(const hearth_session *s, const attention_shape *a)
{
    return (s->context / a->pool + piece_pools(a) - 1) / piece_pools(a);
}

/* Scores pools from the first one of a page on, page by page: there their keys are so many rows apart, or follow one another where
 * they are summaries. */
static void score_pools(kernel_score *score, score_run run, size_t together, bool summaries)
{
    static const uint32_t only = 0;
    const attend_cache cache = run.cache;
    size_t page = KV_PAGE / together, end = run.first + run.count, last = summaries ? 0 : together - 1;
    run.cache.pages = &only;
    run.cache.key.row_bytes *= summaries ? 1 : together;
    run.apart = !summaries;
    for (size_t first = run.first; first < end; first += page, run.scores += page) {
        const char *of_page = attend_at(&cache, &cache.key, first * together);
        run.first = 0;
        run.count = end - first < page ? end - first : page;
        run.cache.key.data = of_page + last * cache.key.row_bytes;
        score(&run);
    }
}

/* Scores pools from the first one of a page on, by the best score of their positions. */
static void score_best(kernel_score *score, score_run run, size_t together)
{
    float positions[KV_PAGE], *best = run.scores;
    size_t end = (run.first + run.count) * together;
    run.scores = positions;
    run.below = true;
    for (run.first *= together; run.first < end; run.first += run.count) {
        run.count = end - run.first < KV_PAGE ? end - run.first : KV_PAGE;
        score(&run);
        for (size_t p = 0; p < run.count; p++) /* NaN is the best */
            if (p % together == 0 || positions[p] > best[p / together] || isnan(positions[p]))
                best[p / together] = positions[p];
        best += run.count / together;
    }
}

/* Items are pieces of the pools that rows choose among; all choices of a row read their keys while they are in a cache. */
static void score_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const hearth_session *s = c->s;
    const scratch *b = &s->scratch;
    const attention_shape *a = &c->l->attention;
    size_t all = choosers(a), heads = a->index.head_count / all, n = a->index.head_length, pieces = scored_pieces(s, a);
    kernel_score *score = s->engine->runtime->kernels.score[kv_formats[s->cache.format].stored];
    for (size_t item = begin; item < end; item++) {
        size_t row = item / pieces, batch_row = c->first + row, first = item % pieces * piece_pools(a);
        if (!choice_limits(a, b->position[batch_row]))
            continue;
        size_t scored = pools_scored(a, b->position[batch_row]), left = scored > first ? scored - first : 0;
        for (size_t k = 0; k < all && left > 0; k++) {
            score_run run = {.query = b->choice.query + (batch_row * all + k) * heads * n,
                             .weights = b->choice.weight + (batch_row * all + k) * heads,
                             .heads = heads,
                             .cache = kv_head(&s->cache, c->cached, b->sequence[batch_row], 0),
                             .first = first,
                             .count = left < piece_pools(a) ? left : piece_pools(a),
                             .scores = b->choice.scores + (row * all + k) * (s->context / a->pool) + first};
            if (a->index.by_head)
                score_best(score, run, a->pool);
            else if (a->pool > 1)
                score_pools(score, run, a->pool, a->summary.together > 0);
            else
                score(&run);
        }
    }
}

/* ------------------------------------------------------------------ the choice */

/* Finds the least place among the k largest, one byte after the other; *equal: how many of those with this place are among them. */
static uint32_t least_place(const float *scores, size_t n, size_t k, size_t *equal)
{
    uint32_t least = 0, known = 0; /* the bits of `known` are found */
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t counts[256] = {0}, byte = 255;
        for (size_t p = 0; p < n; p++) {
            uint32_t place = float_place(scores[p]);
            counts[place >> shift & 255] += (place & known) == least;
        }
        while (counts[byte] < k)
            k -= counts[byte--];
        least |= (uint32_t)byte << shift;
        known |= 255u << shift;
    }
    *equal = k;
    return least;
}

void choose_positions(const float *scores, size_t n, size_t k, uint32_t *seen)
{
    size_t equal;
    uint32_t least = least_place(scores, n, k, &equal);
    memset(seen, 0, (n + KV_PAGE - 1) / KV_PAGE * (KV_PAGE / 8));
    for (size_t p = 0; p < n; p++) {
        uint32_t place = float_place(scores[p]);
        bool tied = place == least && equal > 0;
        equal -= tied;
        seen[p / 32] |= (uint32_t)(place > least || tied) << p % 32;
    }
}

/* Returns the bits of 32 positions, the word-th ones, of the bits of pools. */
static uint32_t spread_word(const uint32_t *pools, size_t word, size_t together)
{
    uint32_t bits = 0;
    for (size_t p = 0; p < 32; p++)
        bits |= (pools[(32 * word + p) / together / 32] >> (32 * word + p) / together % 32 & 1) << p;
    return bits;
}

void choice_spread(uint32_t *seen, size_t n, size_t together, size_t positions)
{
    size_t words = (positions + KV_PAGE - 1) / KV_PAGE * (KV_PAGE / 32);
    for (size_t p = n; p % 32 != 0; p++) /* of no pool */
        seen[p / 32] &= ~(1u << p % 32);
    for (size_t w = words; w-- > 0;) /* those of pools lie before, or in the same word */
        seen[w] = 32 * w < n * together ? spread_word(seen, w, together) : 0;
    for (size_t p = n * together; p < positions; p++)
        seen[p / 32] |= 1u << p % 32;
}

/* Items are choices of rows. */
static void choose_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const hearth_session *s = c->s;
    const scratch *b = &s->scratch;
    const attention_shape *a = &c->l->attention;
    for (size_t i = begin; i < end; i++) {
        size_t choice = c->first * choosers(a) + i;
        uint32_t position = b->position[choice / choosers(a)], *bits = b->choice.seen + choice * choice_words(s);
        if (!choice_limits(a, position))
            continue;
        size_t scored = pools_scored(a, position);
        choose_positions(b->choice.scores + i * (s->context / a->pool), scored, a->chosen / a->pool, bits);
        if (a->pool > 1 && a->summary.together == 0)
            choice_spread(bits, scored, a->pool, (size_t)position + 1);
    }
}

void choice_make(hearth_session *s, uint32_t layer, size_t count)
{
    const scratch *b = &s->scratch;
    const model_layer *l = &s->engine->model->layers[layer];
    pool *threads = s->engine->runtime->threads;
    choosing c = {.s = s, .l = l, .cached = s->engine->layers[layer].index_cache};
    bool limited = false, keys = l->attention.summary.together == 0; /* those of summaries are there */
    if (l->attention.index.head_count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        limited |= choice_limits(&l->attention, b->position[i]);
    product of_input[4];
    size_t products = 0;
    if (keys)
        of_input[products++] = (product){&l->index_key, b->choice.key};
    if (keys && l->index_gate.data)
        of_input[products++] = (product){&l->index_gate, b->choice.gate};
    if (limited && l->index_weight.data)
        of_input[products++] = (product){&l->index_weight, b->choice.weight};
    if (limited && l->attention.index.plain)
        of_input[products++] = (product){&l->index_query, b->choice.query};
    if (products > 0)
        multiply(s, b->normed, count, of_input, products);
    if (keys)
        pool_run(threads, count, 1, place_keys, &c);
    if (makes_pool_keys(&l->attention))
        pool_run(threads, count, 1, pool_keys, &c);
    if (!limited)
        return;
    if (!l->attention.index.plain)
        multiply(s, b->query_in, count, &(product){&l->index_query, b->choice.query}, 1);
    pool_run(threads, count, 1, place_queries, &c);
    for (size_t n; c.first < count; c.first += n) {
        n = count - c.first < CHOICE_ROWS ? count - c.first : CHOICE_ROWS;
        size_t choices = n * choosers(&l->attention);
        pool_run(threads, n * scored_pieces(s, &l->attention), 1, score_rows, &c);
        pool_run(threads, choices, 1, choose_rows, &c);
    }
}

/* ------------------------------------------------------------------ keys together */

/* Lists the positions whose bits are set, at most so many: the bits may be those that a device has set. */
static void list_positions(const uint32_t *seen, size_t words, size_t most, uint32_t *list)
{
    size_t n = 0;
    for (size_t w = 0; w < words; w++)
        for (uint32_t bits = seen[w]; bits != 0 && n < most; bits &= bits - 1)
            list[n++] = (uint32_t)(32 * w) + (uint32_t)__builtin_ctz(bits);
}

/* Returns where the keys of a head, or its values, are brought together: those of all heads, then values likewise. */
static char *gathered_at(const hearth_session *s, const kv_layer *cached, kv_half half, uint32_t head)
{
    const choice_buffers *b = &s->scratch.choice;
    size_t rows = b->page_count * KV_PAGE;
    size_t before = half == KV_VALUES ? cached->has.heads * cached->row_bytes[KV_KEYS] : 0;
    return (char *)b->keys + (before + head * cached->row_bytes[half]) * rows;
}

attend_cache choice_gathered(const hearth_session *s, uint32_t layer, uint32_t head)
{
    const kv_layer *cached = &s->cache.layers[s->engine->layers[layer].cache_index];
    size_t key = cached->row_bytes[KV_KEYS], value = cached->row_bytes[KV_VALUES];
    attend_half keys = {gathered_at(s, cached, KV_KEYS, head), cached->has.head_length, key, KV_PAGE * key};
    attend_half values = {gathered_at(s, cached, KV_VALUES, head), cached->has.value_length, value, KV_PAGE * value};
    return (attend_cache){keys, cached->has.value_length > 0 ? values : keys, s->scratch.choice.pages};
}

/* Items are chosen positions, of the heads of keys from the first one on. */
static void gather_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const scratch *b = &c->s->scratch;
    const kv_layer *cached = &c->s->cache.layers[c->cached];
    kv_half halves = cached->has.value_length > 0 ? KV_HALVES : KV_VALUES; /* as many */
    for (uint32_t head = c->first_head; head < c->end_head; head++) {
        attend_cache cache = kv_head(&c->s->cache, c->cached, b->sequence[c->row], head);
        for (kv_half half = KV_KEYS; half < halves; half++) {
            size_t bytes = cached->row_bytes[half];
            char *to = gathered_at(c->s, cached, half, head);
            for (size_t i = begin; i < end; i++)
                memcpy(to + i * bytes,
                       attend_at(&cache, half == KV_KEYS ? &cache.key : &cache.value, b->choice.list[i]), bytes);
        }
    }
}

void choice_list(hearth_session *s, size_t choice, size_t n, size_t most)
{
    const choice_buffers *b = &s->scratch.choice;
    list_positions(b->seen + choice * choice_words(s), (n + 31) / 32, most,
                   b->list); /* behind there may be bits of earlier batches */
}

size_t choice_gather(hearth_session *s, uint32_t layer, size_t row)
{
    const scratch *b = &s->scratch;
    const model_layer *l = &s->engine->model->layers[layer];
    choosing c = {.s = s, .l = l, .cached = s->engine->layers[layer].cache_index, .row = row};
    uint32_t all = choosers(&l->attention), heads = s->cache.layers[c.cached].has.heads / all;
    size_t count = choice_count(&l->attention, b->position[row]);
    for (uint32_t choice = 0; choice < all; choice++) {
        c.first_head = choice * heads;
        c.end_head = c.first_head + heads;
        choice_list(s, row * all + choice, (size_t)b->position[row] + 1, count);
        pool_run(s->engine->runtime->threads, count, 64, gather_keys, &c);
    }
    return count;
}
