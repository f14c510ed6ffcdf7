/* device_record_latent.c - records what latent attention has before and behind the part that it shares with other attention, as
 * latent.c computes it on the CPU, and how positions are chosen, as choice.c does. */
#include "choice.h"
#include "device_record_internal.h"
#include "latent.h"

#include <assert.h>

/* Values of heads in rows of a buffer, from value `at` on; head 0: all rows of a head lie together. */
typedef struct head_values {
    const device_buffer *of;
    size_t at, row, head;
} head_values;

/* Moves values of heads, through their gates if there are some (of NULL: there are none). */
static void move_gated(const recorder *r, size_t heads, size_t length, head_values from, head_values to,
                       head_values gates)
{
    if (length == 0) /* of queries and keys in which nothing rotates */
        return;
    LAUNCH(r, DEVICE_move, r->rows * heads, BUFFER_FROM(from.of, from.at * sizeof(float)),
           BUFFER_FROM(to.of, to.at * sizeof(float)),
           gates.of ? BUFFER_FROM(gates.of, gates.at * sizeof(float)) : NO_BUFFER, UINT(heads), UINT(length),
           UINT(from.row), UINT(from.head), UINT(to.row), UINT(to.head), UINT(gates.row));
}

static void move(const recorder *r, size_t heads, size_t length, head_values from, head_values to)
{
    move_gated(r, heads, length, from, to, (head_values){0});
}

/* Norms `length` values of each row of a buffer in place, from value `at` on. */
static void norm_values(const recorder *r, const device_norm *w, norm_kind kind, float epsilon, const device_buffer *of,
                        size_t at, size_t length, size_t stride)
{
    device_argument x = BUFFER_FROM(of, at * sizeof(float));
    LAUNCH(r, DEVICE_norm_ranges, r->rows, x, BUFFER(w->weight), BUFFER(w->bias), x, UINT(1), UINT(length),
           UINT(stride), UINT(kind == NORM_LAYER), UINT(FINISH_STORE), FLOAT(epsilon), FLOAT(1));
}

/* Multiplies values of each head with the head's own matrix of m: columns of `from` become `length` values of `to`, through `gates`. */
static void multiply_heads(const recorder *r, const device_matrix *m, size_t heads, size_t length, head_values from,
                           head_values to, head_values gates)
{
    const device_vectors *v = r->v;
    const head_values in = {.of = v->head_in}, out = {.of = v->head_out};
    move(r, heads, m->columns, from, in);
    record_changed(r);
    input values = record_prepare(r, v->head_in, heads * m->columns, &m, 1);
    size_t items = heads * items_of(length, PRODUCT_ROWS);
    device_argument w = BUFFER_FROM(m->w, m->w_at), scales = BUFFER_FROM(m->scales, m->scales_at);
    if (values.rounded && number_is_block(m->format))
        LAUNCH(r, device_kernel_of(OF_PRODUCT_HEADS_8, m->format), items, w, scales, BUFFER(v->q8),
               BUFFER(v->q8_scales), BUFFER(v->q8_sums), BUFFER(v->head_out), UINT(heads), UINT(length),
               UINT(m->columns));
    else
        LAUNCH(r, device_kernel_of(OF_PRODUCT_HEADS, m->format), items, w, scales, BUFFER(v->head_in),
               BUFFER(v->head_out), UINT(heads), UINT(length), UINT(m->columns));
    move_gated(r, heads, length, out, to, gates);
}

void record_queries(const recorder *r, uint32_t layer, mixer_row row, const device_buffer *to)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    const device_matrix *readers[] = {&l->query_up, &l->index_query};
    size_t n = a->query_rank;
    norm_values(r, &l->query_in_norm, NORM_RMS, r->model->hyper.latent_epsilon, v->projected, row.at[MIXER_QUERY], n,
                row.stride);
    move(r, 1, n, (head_values){v->projected, row.at[MIXER_QUERY], row.stride, n}, (head_values){v->query_in, 0, n, n});
    record_changed(r);
    bool scores = a->index.head_count > 0 && choice_matters(r->s, a);
    input in = record_prepare(r, v->query_in, n, readers, scores ? 2 : 1);
    record_product(r, readers[0], &in, all_rows, to, FINISH_STORE);
    if (scores)
        record_product(r, readers[1], &in, all_rows, v->index_query, FINISH_STORE);
}

void record_latent_project(const recorder *r, uint32_t layer, mixer_row row)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    size_t heads = a->head_count, rotated = a->head_length - a->compressed, own = short_query(a);
    size_t key = row.at[MIXER_KEY], whole = a->head_length, queries = query_width(a);
    head_values query = {v->projected, row.at[MIXER_QUERY], row.stride, own};
    if (a->query_rank > 0) {
        record_queries(r, layer, row, v->short_query);
        query = (head_values){v->short_query, 0, heads * own, own};
    }
    norm_values(r, &l->compressed_norm, NORM_RMS, r->model->hyper.latent_epsilon, v->projected, key, a->compressed,
                row.stride);
    move(r, 1, rotated, (head_values){v->projected, key + a->compressed, row.stride, whole},
         (head_values){v->key, 0, whole, whole});
    move(r, 1, a->compressed, (head_values){v->projected, key, row.stride, whole},
         (head_values){v->key, rotated, whole, whole});
    head_values turning = query;
    turning.at += a->unrotated;
    move(r, heads, rotated, turning, (head_values){v->query, 0, queries, whole});
    multiply_heads(r, &l->key_up, heads, a->compressed, query, (head_values){v->query, rotated, queries, whole},
                   (head_values){0});
}

void record_latent_results(const recorder *r, uint32_t layer, mixer_row row)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const attention_shape *a = &r->model->layers[layer].attention;
    size_t rotated = a->head_length - a->compressed;
    head_values gates = {0};
    if (a->gate_length > 1) /* a gate for all of a head's values has been applied to what it has read */
        gates = (head_values){r->v->projected, row.at[MIXER_GATE], row.stride, a->value_length};
    multiply_heads(r, &l->value_up, a->head_count, a->value_length,
                   (head_values){r->v->mixed, rotated, query_width(a), a->head_length},
                   (head_values){r->v->mixed, 0, result_width(a), a->value_length}, gates);
    record_changed(r);
}

void record_groups(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const attention_shape *a = &r->model->layers[layer].attention;
    size_t groups = a->output_groups, length = read_width(a) / groups;
    multiply_heads(r, &l->output_in, groups, a->output_rank, (head_values){r->v->mixed, 0, read_width(a), length},
                   (head_values){r->v->mixed, 0, result_width(a), a->output_rank}, (head_values){0});
    record_changed(r);
}

/* What scores positions of the rows of a step: queries of heads one after the other, in rows so many values apart, and keys. */
typedef struct scorer {
    mixer_row row;
    size_t query_stride, key_at;
    device_argument query, key;
} scorer;

static scorer scorer_of(const recorder *r, uint32_t layer)
{
    const index_shape *index = &r->model->layers[layer].attention.index;
    scorer s = {.row = device_mixer_row(&r->model->layers[layer])};
    s.key_at = s.row.at[index->plain ? MIXER_PLAIN_KEY : MIXER_INDEX_KEY];
    s.key = BUFFER_FROM(r->v->projected, s.key_at * sizeof(float));
    s.query_stride = index->plain ? s.row.stride : (size_t)index->head_count * index->head_length;
    s.query = index->plain ? BUFFER_FROM(r->v->projected, s.row.at[MIXER_PLAIN_QUERY] * sizeof(float))
                           : BUFFER(r->v->index_query);
    return s;
}

/* Stores the keys by which positions are scored, as what they are turned by says, and turns queries. */
static void place_index(const recorder *r, uint32_t layer, const rotary *turns, size_t queries, device_argument gates)
{
    scorer own = scorer_of(r, layer);
    record_place(r, &(placed_heads){.turns = turns,
                                    .query = own.query,
                                    .key = own.key,
                                    .value = gates,
                                    .heads = queries,
                                    .kv_heads = 1,
                                    .length = r->model->layers[layer].attention.index.head_length,
                                    .stride_q = own.query_stride,
                                    .stride_k = own.row.stride,
                                    .cached = r->s->engine->layers[layer].index_cache});
}

/* Makes the keys of the pools that end with rows of the step, and stores them in place of those rows' own; the others are stored
 * once more, as they are. */
static void pool_keys(const recorder *r, uint32_t layer)
{
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    page_layer at = device_page_layer(r->s, r->s->engine->layers[layer].index_cache);
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const rotary *turns = a->index.pool_rotary;
    step_layout step = device_step_layout(r->model, r->rows);
    scorer own = scorer_of(r, layer);
    size_t angles = turns ? turns->first * step.pair : 0;
    assert(a->index.plain || !a->index.rotary); /* stored keys would be turned */
    LAUNCH(r, kv_formats[r->s->cache.format].pool_keys, r->rows, own.key, BUFFER_FROM(v->cache, at.begin),
           BUFFER_FROM(v->cache, at.values), BUFFER(l->index_gate_bias), BUFFER(v->pages),
           UINT(r->s->pages.per_sequence), UINT(device_page_bytes(r->s)), UINT(at.piece_bytes[KV_KEYS]),
           UINT(r->s->pages.positions), UINT(a->index.head_length), UINT(a->pool), UINT(own.row.stride));
    if (a->index.plain)
        LAUNCH(r, DEVICE_finish_pools, r->rows, own.key, BUFFER(l->index_key_norm.weight),
               BUFFER_FROM(v->step, step.cosine + angles), BUFFER_FROM(v->step, step.sine + angles),
               UINT(a->index.head_length), UINT(a->pool), UINT(turns ? turns->pairs : 0),
               UINT(turns && turns->pairing == ROPE_HALVES), UINT(own.row.stride), FLOAT(r->model->hyper.norm_epsilon));
    place_index(r, layer, NULL, 0, NO_BUFFER);
}

/* Norms so many queries of each row that score, or its key. */
static void norm_scorers(const recorder *r, const device_norm *w, device_argument x, size_t heads, size_t length,
                         size_t stride)
{
    LAUNCH(r, DEVICE_norm_ranges, r->rows * heads, x, BUFFER(w->weight), NO_BUFFER, x, UINT(heads), UINT(length),
           UINT(stride), UINT(0), UINT(FINISH_STORE), FLOAT(r->model->hyper.norm_epsilon), FLOAT(1));
}

/* Does what record_index does where heads weigh the same. Of pools whose keys are means the positions' own are neither normed nor
 * turned; where each head of keys chooses for itself there are no keys of pools, and those of positions are both. */
static void record_plain_index(const recorder *r, uint32_t layer)
{
    const attention_shape *a = &r->model->layers[layer].attention;
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    size_t heads = choice_matters(r->s, a) ? a->index.head_count : 0, length = a->index.head_length;
    scorer own = scorer_of(r, layer);
    if (heads > 0)
        norm_scorers(r, &l->index_query_norm, own.query, heads, length, own.query_stride);
    if (a->index.by_head) {
        norm_scorers(r, &l->index_key_norm, own.key, 1, length, own.row.stride);
        place_index(r, layer, a->index.rotary, heads, NO_BUFFER);
        return;
    }
    if (heads > 0)
        place_index(r, layer, a->index.rotary, heads, NO_BUFFER); /* its keys are stored again */
    place_index(r, layer, NULL, 0, NO_BUFFER);
    pool_keys(r, layer);
}

void record_index(const recorder *r, uint32_t layer)
{
    if (r->model->layers[layer].attention.index.plain) {
        record_plain_index(r, layer);
        return;
    }
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    mixer_row row = device_mixer_row(&r->model->layers[layer]);
    device_argument gates = BUFFER_FROM(v->projected, row.at[MIXER_INDEX_GATE] * sizeof(float));
    norm_values(r, &r->s->engine->uploaded->layers[layer].index_key_norm, NORM_LAYER, r->model->hyper.index_epsilon,
                v->projected, row.at[MIXER_INDEX_KEY], a->index.head_length, row.stride);
    place_index(r, layer, a->index.rotary, choice_matters(r->s, a) ? a->index.head_count : 0,
                a->pool > 1 ? gates : NO_BUFFER);
    if (a->pool > 1)
        pool_keys(r, layer);
}

void record_choose(const recorder *r, uint32_t layer, size_t first, size_t count)
{
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    page_layer at = device_page_layer(r->s, r->s->engine->layers[layer].index_cache);
    scorer own = scorer_of(r, layer);
    device_argument weights = BUFFER_FROM(v->projected, own.row.at[MIXER_INDEX_WEIGHT] * sizeof(float));
    size_t splits = items_of(r->s->context, ATTEND_POSITIONS), heads = a->index.head_count, n = a->index.head_length;
    bool summaries = a->summary.together > 0;
    if (heads == 0)
        return;
    LAUNCH(r, kv_formats[r->s->cache.format].score_positions, count * choosers(a) * splits, own.query,
           a->index.plain ? NO_BUFFER : weights, BUFFER_FROM(v->cache, at.begin), BUFFER(v->pages),
           UINT(r->s->pages.per_sequence), UINT(device_page_bytes(r->s)), UINT(at.piece_bytes[KV_KEYS]),
           UINT(summaries ? r->s->pages.positions / a->pool : r->s->pages.positions), BUFFER(v->position_scores),
           UINT(choice_limit(a)), UINT(a->pool), UINT(a->last_pools), UINT(summaries || a->index.by_head ? 1 : a->pool),
           UINT(heads), UINT(n), UINT(splits), UINT(own.query_stride), UINT(own.row.stride), UINT(first), UINT(count));
    LAUNCH(r, DEVICE_choose, count * choosers(a), BUFFER(v->position_scores), BUFFER(v->seen),
           UINT(a->chosen / a->pool), UINT(a->pool), UINT(a->last_pools), UINT(choosers(a)), UINT(splits), UINT(first),
           UINT(count));
}
