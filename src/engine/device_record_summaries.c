/* device_record_summaries.c - records the attention of DeepSeek V4, as attention.c and summaries.c compute it on the CPU: one key for all
 * heads, which is the value too; a window; summaries; matrices of groups of heads. */
#include "device_record_internal.h"
#include "summaries.h"

/* Norms ranges of `length` values in place, each alone. */
static void norm(const recorder *r, const device_norm *w, device_argument x, size_t count, size_t length, size_t stride)
{
    LAUNCH(r, DEVICE_norm_ranges, r->rows * count, x, BUFFER(w->weight), NO_BUFFER, x, UINT(count), UINT(length),
           UINT(stride), UINT(0), UINT(FINISH_STORE), FLOAT(r->model->hyper.norm_epsilon), FLOAT(1));
}

/* The summaries of one kind: of attention, or those that score them. */
typedef struct summarised {
    size_t value_at, gate_at; /* in a row of projected                 */
    size_t sums_at;           /* in what the layer stores, in floats   */
    size_t length;
    const device_buffer *bias;
    const device_norm *norm;
    uint32_t cached;
} summarised;

/* Takes what is kept of unfinished summaries on, and stores those that end with rows of the step. */
static void summarise(const recorder *r, uint32_t layer, const summarised *kind, size_t stride)
{
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    const recurrent_states *states = &r->ds->recurrent;
    size_t begin = states->layers[r->s->engine->layers[layer].state_index].begin +
                   recurrent_more_at(&r->model->layers[layer].recurrent) + kind->sums_at;
    LAUNCH(r, DEVICE_summarise, items_of(kind->length, CONVOLVE_CHANNELS),
           BUFFER_FROM(v->projected, kind->value_at * sizeof(float)),
           BUFFER_FROM(v->projected, kind->gate_at * sizeof(float)), BUFFER(kind->bias),
           BUFFER_FROM(v->states, begin * sizeof(float)), BUFFER(v->pooled), UINT(kind->length),
           UINT(a->summary.together), UINT(a->summary.parts), UINT(stride), UINT(states->length));
    norm(r, kind->norm, BUFFER(v->pooled), 1, kind->length, kind->length);
    record_place(r, &(placed_heads){.turns = a->summary.rotary,
                                    .query = BUFFER(v->query),
                                    .key = BUFFER(v->pooled),
                                    .value = NO_BUFFER,
                                    .kv_heads = 1,
                                    .length = kind->length,
                                    .stride_k = kind->length,
                                    .cached = kind->cached});
}

static void make_summaries(const recorder *r, uint32_t layer, const mixer_row *row)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    const attention_shape *a = &r->model->layers[layer].attention;
    const summarised own = {.value_at = row->at[MIXER_SUMMARY_VALUE],
                            .gate_at = row->at[MIXER_SUMMARY_GATE],
                            .length = a->head_length,
                            .bias = l->summary_bias,
                            .norm = &l->summary_norm,
                            .cached = e->summary_cache};
    const summarised scoring = {.value_at = row->at[MIXER_INDEX_KEY],
                                .gate_at = row->at[MIXER_INDEX_GATE],
                                .sums_at = summary_floats(a, a->head_length),
                                .length = a->index.head_length,
                                .bias = l->index_gate_bias,
                                .norm = &l->index_key_norm,
                                .cached = e->index_cache};
    summarise(r, layer, &own, row->stride);
    if (a->index.head_count > 0)
        summarise(r, layer, &scoring, row->stride);
}

size_t device_gathered_keys(const hearth_session *s)
{
    const hearth_model *m = s->engine->model;
    size_t most = 0;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        const attention_shape *a = &m->layers[i].attention;
        size_t keys = a->one_key && s->engine->layers[i].form != FORM_HOST ? summaries_most(s, a) : 0;
        most = keys > most ? keys : most;
    }
    return most;
}

/* Records attention of the rows [first, first + rows), up to `mixed`. */
static void attend(const recorder *r, uint32_t layer, size_t first, size_t rows)
{
    const device_vectors *v = r->v;
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    const attention_shape *a = &r->model->layers[layer].attention;
    const kv_format_row *kv = &kv_formats[r->s->cache.format];
    page_layer at = device_page_layer(r->s, e->cache_index);
    page_layer summaries = a->summary.together > 0 ? device_page_layer(r->s, e->summary_cache) : at;
    size_t context = items_of(r->s->context, ATTEND_POSITIONS);
    size_t splits = items_of(device_gathered_keys(r->s), ATTEND_POSITIONS),
           most = a->chosen > 0 ? a->chosen / a->pool : 0;
    size_t together = a->summary.together, stride = query_width(a);
    if (choice_matters(r->s, a))
        record_choose(r, layer, first, rows);
    LAUNCH(r, kv->gather, rows * context, BUFFER_FROM(v->cache, at.begin), BUFFER_FROM(v->cache, summaries.begin),
           BUFFER(v->pages), UINT(r->s->pages.per_sequence), UINT(device_page_bytes(r->s)),
           UINT(at.piece_bytes[KV_KEYS]), UINT(r->s->pages.positions), BUFFER(v->seen), BUFFER(v->gathered),
           UINT(a->head_length), UINT(a->window), UINT(together), UINT(most), UINT(context), UINT(splits), UINT(first),
           UINT(rows));
    LAUNCH(r, kv->attend_gathered, rows * ATTEND_ITEMS(a->head_count, 1, splits), BUFFER(v->query), BUFFER(v->gathered),
           BUFFER(v->partial), UINT(a->head_count), UINT(a->head_length), UINT(a->window), UINT(together), UINT(most),
           UINT(splits), UINT(stride), UINT(first), UINT(rows), FLOAT(a->scale));
    LAUNCH(r, DEVICE_attend_join, rows * a->head_count, BUFFER(v->partial), BUFFER(l->sinks), NO_BUFFER,
           BUFFER(v->mixed), UINT(a->head_count), UINT(a->head_length), UINT(splits), UINT(0), UINT(0), UINT(0),
           UINT(1), UINT(first), UINT(rows), FLOAT(1));
}

void record_one_key(const recorder *r, uint32_t layer, mixer_row row)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const device_norm plain = {NULL, NULL};
    const attention_shape *a = &r->model->layers[layer].attention;
    size_t length = a->head_length, all = query_width(a), index = (size_t)a->index.head_count * a->index.head_length;
    device_argument key = BUFFER_FROM(v->projected, row.at[MIXER_KEY] * sizeof(float));
    placed_heads placed = {.turns = a->rotary,
                           .query = BUFFER(v->query),
                           .key = key,
                           .value = NO_BUFFER,
                           .heads = a->head_count,
                           .kv_heads = 1,
                           .length = length,
                           .stride_q = all,
                           .stride_k = row.stride,
                           .cached = r->s->engine->layers[layer].cache_index};
    placed_heads scoring = {.turns = a->index.rotary,
                            .query = BUFFER(v->index_query),
                            .key = key,
                            .value = NO_BUFFER,
                            .heads = a->index.head_count,
                            .length = a->index.head_length,
                            .stride_q = index,
                            .cached = placed.cached};
    record_queries(r, layer, row, v->query);
    norm(r, &plain, BUFFER(v->query), a->head_count, length, all);
    norm(r, &l->key_norm, key, 1, length, row.stride);
    record_place(r, &placed);
    if (a->summary.together > 0)
        make_summaries(r, layer, &row);
    if (index > 0 && choice_matters(r->s, a))
        record_place(r, &scoring);
    size_t attend_rows = device_attend_rows(r->s);
    for (size_t first = 0; first < r->rows; first += attend_rows)
        attend(r, layer, first, r->rows - first < attend_rows ? r->rows - first : attend_rows);
    placed.turns = a->back_rotary; /* what heads have read is turned back */
    placed.query = BUFFER(v->mixed);
    placed.kv_heads = 0;
    record_place(r, &placed);
    record_groups(r, layer);
}
