/* summaries.c - see summaries.h.
 *
 * A summary is a softmax over the gates of its positions, column by column, times their values. Of a softmax that goes on from token to
 * token three numbers remain: the largest gate so far, the sum of the others relative to it, and that of the values. So these are what
 * a sequence keeps of a group that is not whole, as a recurrent layer keeps its state, however long groups are.
 *
 * Where summaries overlap, the first part of a token's values goes into the summary after its group's: two such sums are kept. */
#include "summaries.h"

#include "choice.h"
#include "forward.h"
#include "products.h"
#include "recurrent.h"

#include <math.h>
#include <string.h>

/* Columns per work item. */
#define COLUMNS 64

/* The summaries of one kind: of attention, or those that score them. */
typedef struct summarising {
    hearth_session *s;
    const model_layer *l;
    const recurrent_layer *at; /* in the states                                    */
    size_t sums_at;            /* of its sums in what the layer stores            */
    uint32_t cached;           /* the layer of the cache that has the keys         */
    size_t length;             /* of a key                                         */
    const matrix *value, *gate;
    const float *bias; /* [together][parts * length] */
    const norm_weights *norm;
    const rotary *rotary;
} summarising;

/* Of some columns, in the order in which they are kept [3][length]: the largest gate, the sum of exp(gate - largest), that of the
 * values times this. */
typedef struct column_sums {
    float most[COLUMNS], sum[COLUMNS], total[COLUMNS];
} column_sums;

static void clear(column_sums *c)
{
    for (size_t i = 0; i < COLUMNS; i++)
        c->most[i] = -INFINITY;
    memset(c->sum, 0, sizeof c->sum);
    memset(c->total, 0, sizeof c->total);
}

/* Reads n columns from `first` on of those that are kept; NULL: nothing is. */
static void load(column_sums *c, const float *kept, size_t length, size_t first, size_t n)
{
    clear(c);
    if (!kept)
        return;
    memcpy(c->most, kept + first, n * sizeof *kept);
    memcpy(c->sum, kept + length + first, n * sizeof *kept);
    memcpy(c->total, kept + 2 * length + first, n * sizeof *kept);
}

static void store(const column_sums *c, float *kept, size_t length, size_t first, size_t n)
{
    memcpy(kept + first, c->most, n * sizeof *kept);
    memcpy(kept + length + first, c->sum, n * sizeof *kept);
    memcpy(kept + 2 * length + first, c->total, n * sizeof *kept);
}

/* Adds one token's values to n columns. */
static void add(column_sums *c, const float *value, const float *gate, const float *bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] + bias[i], more = g - c->most[i], less = expf(-fabsf(more));
        bool larger = more > 0;
        c->sum[i] = larger ? c->sum[i] * less + 1 : c->sum[i] + less;
        c->total[i] = larger ? c->total[i] * less + value[i] : c->total[i] + less * value[i];
        c->most[i] = larger ? g : c->most[i];
    }
}

/* Takes n columns, from `first` on, through the tokens of a run. own: of the group's first parts, where summaries overlap. */
static void run_columns(const summarising *job, const row_run *run, size_t first, size_t n, column_sums *whole,
                        column_sums *own)
{
    const scratch *b = &job->s->scratch;
    const summary_shape *shape = &job->l->attention.summary;
    size_t width = shape->parts * job->length, second = width - job->length;
    for (size_t t = run->first; t < run->first + run->count; t++) {
        size_t place = b->position[t] % shape->together;
        const float *value = b->summary.value + t * width + first, *gate = b->summary.gate + t * width + first;
        const float *bias = job->bias + place * width + first;
        if (place == 0 && shape->parts > 1)
            *whole = *own;
        if (place == 0)
            clear(shape->parts > 1 ? own : whole);
        if (shape->parts > 1)
            add(own, value, gate, bias, n);
        add(whole, value + second, gate + second, bias + second, n);
        for (size_t i = 0; place == shape->together - 1 && i < n; i++)
            b->summary.pooled[t * job->length + first + i] = whole->total[i] / whole->sum[i];
    }
}

/* Items are columns, in multiples of COLUMNS. */
static void sum_columns(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const summarising *job = context;
    const recurrent_states *states = &job->s->recurrent;
    size_t at = recurrent_more_at(&job->l->recurrent) + job->sums_at, part = 3 * job->length;
    bool overlaps = job->l->attention.summary.parts > 1;
    for (size_t i = 0; i < job->s->scratch.run_count; i++) {
        const row_run *run = &job->s->scratch.runs[i];
        const float *before = recurrent_before(states, job->at, run);
        float *after = recurrent_after(states, job->at, run) + at;
        column_sums whole, own;
        load(&whole, before ? before + at : NULL, job->length, begin, end - begin);
        load(&own, before && overlaps ? before + at + part : NULL, job->length, begin, end - begin);
        run_columns(job, run, begin, end - begin, &whole, &own);
        store(&whole, after, job->length, begin, end - begin);
        if (overlaps)
            store(&own, after + part, job->length, begin, end - begin);
    }
}

/* Items are rows. Stores the keys of the summaries that end with them. */
static void store_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const summarising *job = context;
    const scratch *b = &job->s->scratch;
    const hearth_engine *e = job->s->engine;
    for (size_t i = begin; i < end; i++) {
        float *key = b->summary.pooled + i * job->length;
        if ((b->position[i] + 1) % job->l->attention.summary.together != 0)
            continue;
        forward_norm_row(e, job->norm, e->model->hyper.norm_epsilon, key, job->length, key);
        forward_turn(job->s, job->rotary, 1, job->length, i, key);
        kv_store_key(&job->s->cache, &e->runtime->kernels, job->cached, b->sequence[i], b->position[i], key);
    }
}

static void summarise(summarising *job, size_t count)
{
    const scratch *b = &job->s->scratch;
    pool *threads = job->s->engine->runtime->threads;
    const product products[] = {{job->value, b->summary.value}, {job->gate, b->summary.gate}};
    multiply(job->s, b->normed, count, products, 2);
    pool_run(threads, job->length, COLUMNS, sum_columns, job);
    pool_run(threads, count, 1, store_keys, job);
}

void summaries_make(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const engine_layer *e = &s->engine->layers[layer];
    const attention_shape *a = &l->attention;
    const recurrent_layer *at = &s->recurrent.layers[e->state_index];
    summarising own = {.s = s,
                       .l = l,
                       .at = at,
                       .cached = e->summary_cache,
                       .length = a->head_length,
                       .value = &l->summary_value,
                       .gate = &l->summary_gate,
                       .bias = l->summary_bias,
                       .norm = &l->summary_norm,
                       .rotary = a->summary.rotary};
    summarising scoring = {.s = s,
                           .l = l,
                           .at = at,
                           .sums_at = summary_floats(a, a->head_length),
                           .cached = e->index_cache,
                           .length = a->index.head_length,
                           .value = &l->index_key,
                           .gate = &l->index_gate,
                           .bias = l->index_gate_bias,
                           .norm = &l->index_key_norm,
                           .rotary = a->summary.rotary};
    summarise(&own, count);
    if (a->index.head_count > 0)
        summarise(&scoring, count);
}

/* ------------------------------------------------------------------ keys together */

size_t summaries_most(const hearth_session *s, const attention_shape *a)
{
    size_t window = a->window < s->context ? a->window : s->context;
    return window + summaries_seen(a, s->context - 1);
}

typedef struct gathering {
    const hearth_session *s;
    attend_cache positions, summaries;
    size_t first, window; /* the positions that are seen          */
    size_t rows;          /* summaries of a page                  */
    const uint32_t *list; /* the summaries; NULL: the first ones  */
} gathering;

/* Items are keys: first those of positions. */
static void gather_keys(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const gathering *g = context;
    size_t bytes = g->positions.key.row_bytes;
    char *to = (char *)g->s->scratch.choice.keys;
    for (size_t i = begin; i < end; i++) {
        size_t n = i - g->window; /* of a summary */
        const attend_half *key = &g->summaries.key;
        const void *from;
        if (i < g->window)
            from = attend_at(&g->positions, &g->positions.key, g->first + i);
        else {
            n = g->list ? g->list[n] : n;
            from = (const char *)key->data + g->summaries.pages[n / g->rows] * key->page_bytes +
                   n % g->rows * key->row_bytes;
        }
        memcpy(to + i * bytes, from, bytes);
    }
}

size_t summaries_gather(hearth_session *s, uint32_t layer, size_t row)
{
    const engine_layer *e = &s->engine->layers[layer];
    const attention_shape *a = &s->engine->model->layers[layer].attention;
    const scratch *b = &s->scratch;
    uint32_t position = b->position[row], sequence = b->sequence[row];
    size_t seen = position + 1, window = seen < a->window ? seen : a->window, summaries = summaries_seen(a, position);
    gathering g = {s,
                   kv_head(&s->cache, e->cache_index, sequence, 0),
                   kv_head(&s->cache, e->summary_cache, sequence, 0),
                   seen - window,
                   window,
                   s->pages.positions / a->summary.together,
                   NULL};
    if (choice_limits(a, position)) {
        choice_list(s, row, seen / a->pool, summaries);
        g.list = b->choice.list;
    }
    pool_run(s->engine->runtime->threads, window + summaries, 64, gather_keys, &g);
    return window + summaries;
}
