/* choice.c - see choice.h.
 *
 * Attention reads keys that follow one another. So the chosen ones are brought together first: all heads of latent attention
 * read them, and copying what is read many times costs little. */
#include "choice.h"

#include "forward.h"
#include "products.h"

#include "../base/float_order.h"

#include <string.h>

typedef struct choosing {
    hearth_session *s;
    const model_layer *l;
    uint32_t cached; /* the layer of the cache that has the keys */
    size_t first;    /* of the rows that are scored now          */
    size_t row;      /* whose keys are brought together          */
} choosing;

/* Items are rows. */
static void place_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const scratch *b = &c->s->scratch;
    const kernels *k = &c->s->engine->runtime->kernels;
    const norm_weights *norm = &c->l->index_key_norm;
    size_t n = c->l->attention.index.head_length;
    for (size_t i = begin; i < end; i++) {
        float *key = b->choice.key + i * n;
        k->layer_norm(key, norm->weight, norm->bias, CHOICE_EPSILON, n, key);
        forward_turn(c->s, c->l->attention.index.rotary, 1, n, i, key);
        kv_store(&c->s->cache, k, c->cached, b->sequence[i], b->position[i], key, NULL);
    }
}

/* Items are rows. */
static void place_queries(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const index_shape *index = &c->l->attention.index;
    for (size_t i = begin; i < end; i++)
        forward_turn(c->s, index->rotary, index->head_count, index->head_length, i,
                     c->s->scratch.choice.query + i * (size_t)index->head_count * index->head_length);
}

/* ------------------------------------------------------------------ scores */

/* Positions that an item scores. */
#define SCORED_POSITIONS (4 * KV_PAGE)

static size_t scored_pieces(const hearth_session *s)
{
    return (s->context + (size_t)SCORED_POSITIONS - 1) / SCORED_POSITIONS;
}

/* Items are pieces of the positions of rows. */
static void score_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const hearth_session *s = c->s;
    const scratch *b = &s->scratch;
    const attention_shape *a = &c->l->attention;
    size_t heads = a->index.head_count, n = a->index.head_length, pieces = scored_pieces(s);
    kernel_score *score = s->engine->runtime->kernels.score[kv_formats[s->cache.format].stored];
    for (size_t item = begin; item < end; item++) {
        size_t row = c->first + item / pieces, first = item % pieces * SCORED_POSITIONS;
        size_t seen = (size_t)b->position[row] + 1, left = seen > first ? seen - first : 0;
        if (left == 0 || !choice_limits(a, b->position[row]))
            continue;
        score_run run = {.query = b->choice.query + row * heads * n,
                         .weights = b->choice.weight + row * heads,
                         .heads = heads,
                         .cache = kv_head(&s->cache, c->cached, b->sequence[row], 0),
                         .first = first,
                         .count = left < SCORED_POSITIONS ? left : SCORED_POSITIONS,
                         .scores = b->choice.scores + item / pieces * s->context + first};
        score(&run);
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

/* Items are rows. */
static void choose_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const hearth_session *s = c->s;
    const scratch *b = &s->scratch;
    const attention_shape *a = &c->l->attention;
    for (size_t i = begin; i < end; i++) {
        size_t row = c->first + i;
        if (choice_limits(a, b->position[row]))
            choose_positions(b->choice.scores + i * s->context, (size_t)b->position[row] + 1, a->chosen,
                             b->choice.seen + row * choice_words(s));
    }
}

void choice_make(hearth_session *s, uint32_t layer, size_t count)
{
    const scratch *b = &s->scratch;
    const model_layer *l = &s->engine->model->layers[layer];
    pool *threads = s->engine->runtime->threads;
    choosing c = {.s = s, .l = l, .cached = s->engine->layers[layer].index_cache};
    bool limited = false;
    if (l->attention.index.head_count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        limited |= choice_limits(&l->attention, b->position[i]);
    multiply(s, b->normed, count, (product[]){{&l->index_key, b->choice.key}, {&l->index_weight, b->choice.weight}},
             limited ? 2 : 1);
    pool_run(threads, count, 1, place_keys, &c);
    if (!limited)
        return;
    multiply(s, b->query_in, count, &(product){&l->index_query, b->choice.query}, 1);
    pool_run(threads, count, 1, place_queries, &c);
    for (size_t n; c.first < count; c.first += n) {
        n = count - c.first < CHOICE_ROWS ? count - c.first : CHOICE_ROWS;
        pool_run(threads, n * scored_pieces(s), 1, score_rows, &c);
        pool_run(threads, n, 1, choose_rows, &c);
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

/* Items are chosen positions. */
static void gather_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const choosing *c = context;
    const scratch *b = &c->s->scratch;
    size_t bytes = c->s->cache.layers[c->cached].row_bytes[KV_KEYS];
    attend_cache cache = kv_head(&c->s->cache, c->cached, b->sequence[c->row], 0);
    for (size_t i = begin; i < end; i++)
        memcpy((char *)b->choice.keys + i * bytes, attend_at(&cache, &cache.key, b->choice.list[i]), bytes);
}

attend_cache choice_gather(hearth_session *s, uint32_t layer, size_t row)
{
    const scratch *b = &s->scratch;
    const model_layer *l = &s->engine->model->layers[layer];
    choosing c = {.s = s, .l = l, .cached = s->engine->layers[layer].cache_index, .row = row};
    size_t words = ((size_t)b->position[row] + 32) / 32; /* after its page there may be bits of earlier batches */
    list_positions(b->choice.seen + row * choice_words(s), words, l->attention.chosen, b->choice.list);
    pool_run(s->engine->runtime->threads, l->attention.chosen, 64, gather_keys, &c);
    const kv_layer *cached = &s->cache.layers[c.cached];
    size_t bytes = cached->row_bytes[KV_KEYS];
    attend_half keys = {b->choice.keys, cached->has.head_length, bytes, KV_PAGE * bytes};
    return (attend_cache){keys, keys, b->choice.pages};
}
