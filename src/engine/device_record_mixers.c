/* device_record_mixers.c - records the mixers of a step: attention, and recurrent ones. */
#include "device_record_internal.h"

#include <math.h>

/* ------------------------------------------------------------------ attention */

static const device_norm no_norm = {NULL, NULL};

/* Norms queries (or keys), which begin at value `at` of the rows of projected: each head alone, or all together. */
static void norm_heads(const recorder *r, const device_norm *w, const attention_shape *a, uint32_t heads, size_t at,
                       size_t stride)
{
    uint32_t count = a->norm_whole ? 1 : heads, length = a->norm_whole ? heads * a->head_length : a->head_length;
    if (w->weight && heads > 0)
        record_norm_ranges(r, w, (ranges){r->v->projected, at, count, length, (uint32_t)stride}, r->v->projected,
                           FINISH_STORE, 1);
}

/* The same, each head alone and without weights. */
static void norm_plain(const recorder *r, const attention_shape *a, uint32_t heads, size_t at, size_t stride)
{
    if (heads > 0)
        record_norm_ranges(r, &no_norm, (ranges){r->v->projected, at, heads, a->head_length, (uint32_t)stride},
                           r->v->projected, FINISH_STORE, 1);
}

/* Multiplies the input of a layer's mixer with the matrices that read it. */
static mixer_row project(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    mixer_row row = device_mixer_row(&r->model->layers[layer]);
    const device_matrix *inputs[MIXER_INPUTS];
    for (unsigned i = 0; i < MIXER_INPUTS; i++)
        inputs[i] = &l->inputs[i];
    const device_buffer *normed = record_norm_input(r, &l->attention_norm, record_rounds(r, inputs, MIXER_INPUTS));
    input in = record_prepare(r, normed, r->model->hyper.embedding_length, inputs, MIXER_INPUTS);
    for (unsigned i = 0; i < MIXER_INPUTS; i++)
        if (inputs[i]->stack_rows > 0)
            record_stack(r, inputs[i], inputs[i]->stack_rows, &in, all_rows,
                         (output){r->v->projected, row.at[i], row.stride}, FINISH_STORE);
    return row;
}

/* Records what rows [first, first + rows) read of each split of the context. query: with the stride `stride`. */
static void attend(const recorder *r, uint32_t layer, const device_buffer *query, size_t stride, size_t first,
                   size_t rows)
{
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    const kv_format_row *kv = &kv_formats[r->s->cache.format];
    page_layer at = device_page_layer(r->s, r->s->engine->layers[layer].cache_index);
    size_t page_bytes = device_page_bytes(r->s), table = r->s->pages.per_sequence;
    size_t splits = items_of(r->s->context, ATTEND_POSITIONS);
    size_t items = rows * ATTEND_ITEMS(a->head_count, a->kv_head_count, splits);
    if (choice_matters(r->s, a)) {
        record_choose(r, layer, first, rows);
        LAUNCH(r, kv->attend_chosen, items, BUFFER(query), BUFFER_FROM(v->cache, at.begin),
               BUFFER_FROM(v->cache, at.values), BUFFER(v->pages), UINT(table), UINT(page_bytes),
               UINT(at.piece_bytes[KV_KEYS]), UINT(r->s->pages.positions), BUFFER(v->partial), BUFFER(v->seen),
               UINT(choice_limit(a)), UINT(choosers(a)), UINT(a->head_count), UINT(a->kv_head_count),
               UINT(a->head_length), UINT(splits), UINT(stride), UINT(first), UINT(rows), FLOAT(a->scale),
               FLOAT(a->softcap));
        return;
    }
    LAUNCH(r, kv->attend, items, BUFFER(query), BUFFER_FROM(v->cache, at.begin), BUFFER_FROM(v->cache, at.values),
           BUFFER(v->pages), UINT(table), UINT(page_bytes), UINT(at.piece_bytes[KV_KEYS]), UINT(r->s->pages.positions),
           UINT(read_length(a)), UINT(at.piece_bytes[at.halves - 1]), BUFFER(v->partial), UINT(a->head_count),
           UINT(a->kv_head_count), UINT(a->head_length), UINT(a->window), UINT(a->chunked), UINT(a->grows),
           UINT(splits), UINT(stride), UINT(first), UINT(rows), FLOAT(a->scale), FLOAT(a->softcap));
}

/* Records the attention of a layer up to its output matrix. */
static void attention(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    bool latent = a->compressed > 0;
    size_t splits = items_of(r->s->context, ATTEND_POSITIONS);
    uint32_t own_keys = a->keys_back > 0 ? 0 : a->kv_head_count; /* heads; else another layer has stored them */

    mixer_row row = project(r, layer);
    if (a->one_key) {
        record_one_key(r, layer, row);
        return;
    }
    size_t key_at = row.at[MIXER_KEY], value_at = row.at[MIXER_VALUE], stride = row.stride;
    if (l->qkv_bias)
        LAUNCH(r, DEVICE_reduce, r->rows * items_of(stride, REDUCE_COLUMNS_ITEM), NO_BUFFER, BUFFER(l->qkv_bias),
               NO_BUFFER, BUFFER(v->projected), UINT(stride), UINT(0), UINT(FINISH_ADD), FLOAT(1));
    if (a->norm_plain)
        norm_plain(r, a, a->head_count, 0, stride);
    else if (!a->norm_turned)
        norm_heads(r, &l->query_norm, a, a->head_count, 0, stride);
    if (a->norm_plain || a->norm_turned) /* a rotation leaves this norm as it is */
        norm_plain(r, a, own_keys, key_at, stride);
    else
        norm_heads(r, &l->key_norm, a, own_keys, key_at, stride);
    if (a->norm_values)
        norm_plain(r, a, own_keys, value_at, stride);
    const device_buffer *query = latent ? v->query : v->projected;
    size_t query_stride = latent ? query_width(a) : stride, key_stride = latent ? a->head_length : stride;
    if (latent)
        record_latent_project(r, layer, row);
    record_place(r, &(placed_heads){.turns = a->rotary,
                                    .query = BUFFER(query),
                                    .key = latent ? BUFFER(v->key) : BUFFER_FROM(v->projected, key_at * sizeof(float)),
                                    .value = latent ? NO_BUFFER : BUFFER_FROM(v->projected, value_at * sizeof(float)),
                                    .heads = a->head_count,
                                    .kv_heads = own_keys,
                                    .length = a->head_length,
                                    .stride_q = query_stride,
                                    .stride_k = key_stride,
                                    .cached = r->s->engine->layers[layer].cache_index});
    if (a->norm_turned)
        norm_heads(r, &l->query_norm, a, a->head_count, 0, stride);
    if (a->index.head_count > 0)
        record_index(r, layer);
    bool gated = latent ? a->gate_length == 1 : a->gate_length > 0; /* what heads read */
    device_argument gates = gated ? BUFFER_FROM(v->projected, row.at[MIXER_GATE] * sizeof(float)) : NO_BUFFER;
    size_t attend_rows = device_attend_rows(r->s);
    bool rounds = record_rounds(r, (const device_matrix *[]){&l->mixer_output}, 1) && !l->attention_inner_norm.weight &&
                  read_length(a) % Q8_BLOCK == 0 && !latent;
    for (size_t first = 0; first < r->rows; first += attend_rows) {
        size_t rows = r->rows - first < attend_rows ? r->rows - first : attend_rows;
        attend(r, layer, query, query_stride, first, rows);
        if (rounds)
            LAUNCH(r, DEVICE_attend_join_8, rows * a->head_count, BUFFER(v->partial), BUFFER(l->sinks), gates,
                   BUFFER(v->mixed), BUFFER(v->q8), BUFFER(v->q8_scales), BUFFER(v->q8_sums), UINT(a->head_count),
                   UINT(read_length(a)), UINT(splits), UINT(stride), UINT(a->gate_length), UINT(a->gate_softplus),
                   UINT(first), UINT(rows), FLOAT(a->value_scale));
        else
            LAUNCH(r, DEVICE_attend_join, rows * a->head_count, BUFFER(v->partial), BUFFER(l->sinks), gates,
                   BUFFER(v->mixed), UINT(a->head_count), UINT(read_length(a)), UINT(splits), UINT(stride),
                   UINT(a->gate_length), UINT(a->gate_softplus), UINT(0), UINT(first), UINT(rows),
                   FLOAT(a->value_scale));
    }
    if (rounds)
        *r->rounded = v->mixed;
    if (latent)
        record_latent_results(r, layer, row);
    if (l->attention_inner_norm.weight)
        record_norm(r, &l->attention_inner_norm, v->mixed, read_width(a), v->mixed);
}

void record_convolve(const recorder *r, uint32_t layer, const mixer_row *row)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    bool alone = shape->rule == RECURRENCE_SHORT;
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin + recurrent_inputs_at(shape);
    uint32_t channels = recurrent_channels(shape);
    device_argument x = BUFFER_FROM(v->projected, row->at[MIXER_CONVOLVED] * sizeof(float));
    device_argument opens = BUFFER_FROM(v->projected, row->at[MIXER_INPUT_GATE] * sizeof(float));
    device_argument closes = BUFFER_FROM(v->projected, row->at[MIXER_RECURRENT_GATE] * sizeof(float));
    LAUNCH(r, DEVICE_convolve, items_of(channels, CONVOLVE_CHANNELS), x, BUFFER(l->convolution),
           BUFFER(l->convolution_bias), alone ? opens : NO_BUFFER, alone ? closes : NO_BUFFER,
           BUFFER_FROM(v->states, begin * sizeof(float)), alone ? BUFFER(v->mixed) : x, UINT(channels),
           UINT(shape->window), UINT(row->stride), UINT(alone ? channels : row->stride), UINT(states->length));
}

/* Records a recurrent mixer up to its output matrix (recurrent_shape in model/layer.h). */
static void recurrent_mixer(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    bool delta = shape->rule == RECURRENCE_DELTA;
    if (recurrent_by_columns(shape)) {
        (shape->rule == RECURRENCE_KDA ? record_kda : record_rwkv)(r, layer);
        return;
    }
    uint32_t keys = shape->key_count, n = shape->key_length, width = recurrent_width(shape);
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin;

    mixer_row row = project(r, layer);
    record_convolve(r, layer, &row);
    if (shape->rule == RECURRENCE_SHORT)
        return;
    device_argument x = BUFFER_FROM(v->projected, row.at[MIXER_CONVOLVED] * sizeof(float));
    device_argument gates = BUFFER_FROM(v->projected, row.at[MIXER_RECURRENT_GATE] * sizeof(float));
    device_argument steps = BUFFER_FROM(v->projected, row.at[MIXER_STEP] * sizeof(float));
    device_argument betas = delta ? BUFFER_FROM(v->projected, row.at[MIXER_BETA] * sizeof(float)) : NO_BUFFER;
    uint32_t stride = (uint32_t)row.stride, length = (uint32_t)states->length;
    if (delta) /* scales queries and keys to a length of 1; a norm by the root of the mean square would give sqrt(n) */
        LAUNCH(r, DEVICE_norm_ranges, r->rows * 2 * keys, x, NO_BUFFER, NO_BUFFER, x, UINT(2 * keys), UINT(n),
               UINT(stride), UINT(0), UINT(FINISH_STORE), FLOAT(1e-6f / (float)n), FLOAT(1 / sqrtf((float)n)));
    LAUNCH(r, DEVICE_recur, shape->head_count * items_of(shape->value_length, RECUR_ROWS), x, steps, betas,
           BUFFER(l->step_bias), BUFFER(l->decay), BUFFER(l->skip), BUFFER_FROM(v->states, begin * sizeof(float)),
           BUFFER(v->mixed), UINT(shape->head_count), UINT(shape->value_length), UINT(keys), UINT(n), UINT(delta),
           UINT(shape->neighbours), UINT(stride), UINT(length), FLOAT(delta ? 1 / sqrtf((float)n) : 1));
    uint32_t normed = delta ? shape->head_count : keys;
    LAUNCH(r, DEVICE_norm_gated, r->rows * normed, BUFFER(v->mixed), gates, BUFFER(l->recurrent_norm), UINT(normed),
           UINT(width / normed), UINT(stride), UINT(!delta), UINT(shape->gate_logistic),
           FLOAT(r->model->hyper.norm_epsilon));
}

static void no_mixer(const recorder *r, uint32_t layer)
{
    (void)r, (void)layer;
}

/* Record a mixer up to its output matrix. */
static void (*const mixers[MIXER_COUNT])(const recorder *r, uint32_t layer) = {
    [MIXER_NONE] = no_mixer, [MIXER_ATTENTION] = attention, [MIXER_RECURRENT] = recurrent_mixer};

void record_mixer(const recorder *r, uint32_t layer)
{
    record_changed(r); /* mixed and normed are written */
    mixers[r->model->layers[layer].mixer](r, layer);
}

void record_mixer_output(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_norm *post = &l->attention_post_norm;
    bool at_once = !post->weight && !l->attention_output_bias && r->model->hyper.residual_scale == 1;
    if (!l->mixer_output.w)
        return;
    if (!record_output(r, &l->mixer_output, r->v->mixed, at_once))
        record_add(r, post, (block_result){r->v->added, 1, l->attention_output_bias, NULL});
}
