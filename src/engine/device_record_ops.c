/* device_record_ops.c - the operations that recording a step is made of: products, norms, and adding what a block computed
 * to the residual stream (see device_record_internal.h). */
#include "device_record_internal.h"

void record_copy_rows(const recorder *r, device_buffer *to, const device_buffer *from, size_t width)
{
    device_copy(r->program, to, 0, from, 0, r->rows * width * sizeof(float));
}

void record_place(const recorder *r, const placed_heads *p)
{
    const device_vectors *v = r->v;
    cached_keys has = r->s->engine->cached[r->s->engine->host_caches + p->cached];
    page_layer at = device_page_layer(r->s, p->cached);
    step_layout step = device_step_layout(r->model, r->rows);
    size_t angles = p->turns ? p->turns->first * step.pair : 0, turned = p->turns ? 2 * (size_t)p->turns->pairs : 0;
    LAUNCH(r, kv_formats[r->s->cache.format].place, r->rows * (p->heads + p->kv_heads), p->query, p->key, p->value,
           BUFFER_FROM(v->step, step.cosine + angles), BUFFER_FROM(v->step, step.sine + angles),
           BUFFER_FROM(v->cache, at.begin), BUFFER_FROM(v->cache, at.values), BUFFER(v->pages),
           UINT(r->s->pages.per_sequence), UINT(device_page_bytes(r->s)), UINT(at.piece_bytes[KV_KEYS]),
           UINT(r->s->pages.positions / has.together), UINT(has.value_length > 0 ? has.value_length : p->length),
           UINT(at.piece_bytes[at.halves - 1]), UINT(p->heads), UINT(p->kv_heads), UINT(p->length), UINT(turned / 2),
           UINT(p->turns && p->turns->pairing == ROPE_HALVES),
           UINT(p->turns && p->turns->last ? p->length - turned : 0), UINT(has.together), UINT(p->stride_q),
           UINT(p->stride_k));
}

/* ------------------------------------------------------------------ products */

bool record_rounds(const recorder *r, const device_matrix *const *m, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= m[i]->w && number_is_block(m[i]->format);
    return any && r->s->engine->activations != HEARTH_ACTIVATIONS_F32;
}

void record_changed(const recorder *r)
{
    *r->rounded = NULL;
}

input record_prepare(const recorder *r, const device_buffer *values, size_t columns, const device_matrix *const *m,
                     size_t count)
{
    return record_prepare_at(r, values, 0, columns, m, count);
}

input record_prepare_at(const recorder *r, const device_buffer *values, size_t at, size_t columns,
                        const device_matrix *const *m, size_t count)
{
    input in = {values, record_rounds(r, m, count), at};
    if (!in.rounded || *r->rounded == values)
        return in;
    *r->rounded = values == r->v->normed ? values : NULL; /* others change with no notice */
    LAUNCH(r, DEVICE_quantize, items_of(r->rows * columns / 32, QUANTIZE_BLOCKS),
           BUFFER_FROM(values, at * sizeof(float)), BUFFER(r->v->q8), BUFFER(r->v->q8_scales), BUFFER(r->v->q8_sums),
           UINT(columns));
    return in;
}

/* Multiplies with the first `count` rows of a stack in a long step, which has no lists. */
static void stack_many(const recorder *r, const device_matrix *m, uint32_t count, const input *in, output out,
                       unsigned finish)
{
    size_t items = items_of(count, TILE_ROWS) * items_of(r->rows, TILE_TOKENS);
    device_argument w = BUFFER_FROM(m->w, m->w_at), scales = BUFFER_FROM(m->scales, m->scales_at);
    device_argument y = BUFFER_FROM(out.y, out.at * sizeof(float));
    if (in->rounded && number_is_block(m->format))
        LAUNCH(r, device_kernel_of(OF_PRODUCT_MANY_8, m->format), items, w, scales, BUFFER(r->v->q8),
               BUFFER(r->v->q8_scales), BUFFER(r->v->q8_sums), y, UINT(count), UINT(m->columns), UINT(out.stride),
               UINT(finish));
    else
        LAUNCH(r, device_kernel_of(OF_PRODUCT_MANY, m->format), items, w, scales,
               BUFFER_FROM(in->values, in->at * sizeof(float)), y, UINT(count), UINT(m->columns), UINT(out.stride),
               UINT(finish));
}

void record_stack(const recorder *r, const device_matrix *m, uint32_t count, const input *in, row_list rows, output out,
                  unsigned finish)
{
    size_t items = items_of(count, PRODUCT_ROWS);
    device_argument w = BUFFER_FROM(m->w, m->w_at), scales = BUFFER_FROM(m->scales, m->scales_at);
    device_argument y = BUFFER_FROM(out.y, out.at * sizeof(float));
    if (record_in_tiles(r, rows))
        stack_many(r, m, count, in, out, finish);
    else if (in->rounded && number_is_block(m->format))
        LAUNCH(r, device_kernel_of(OF_PRODUCT_8, m->format), items, w, scales, LIST(rows), BUFFER(r->v->q8),
               BUFFER(r->v->q8_scales), BUFFER(r->v->q8_sums), y, UINT(count), UINT(m->columns), UINT(out.stride),
               UINT(finish));
    else
        LAUNCH(r, device_kernel_of(OF_PRODUCT, m->format), items, w, scales, LIST(rows),
               BUFFER_FROM(in->values, in->at * sizeof(float)), y, UINT(count), UINT(m->columns), UINT(out.stride),
               UINT(finish));
}

void record_product(const recorder *r, const device_matrix *m, const input *in, row_list rows, const device_buffer *y,
                    unsigned finish)
{
    record_stack(r, m, m->rows, in, rows, (output){y, 0, m->rows}, finish);
}

/* ------------------------------------------------------------------ norms and blocks */

/* record_norm_ranges with an epsilon of its own. */
static void norm_ranges(const recorder *r, const device_norm *w, float epsilon, ranges x, const device_buffer *to,
                        unsigned finish, float factor)
{
    const hyperparameters *h = &r->model->hyper;
    LAUNCH(r, DEVICE_norm_ranges, r->rows * x.count, BUFFER_FROM(x.of, x.at * sizeof(float)), BUFFER(w->weight),
           BUFFER(w->bias), BUFFER_FROM(to, x.at * sizeof(float)), UINT(x.count), UINT(x.length), UINT(x.stride),
           UINT(h->norm == NORM_LAYER), UINT(finish), FLOAT(epsilon), FLOAT(factor));
}

void record_norm_ranges(const recorder *r, const device_norm *w, ranges x, const device_buffer *to, unsigned finish,
                        float factor)
{
    norm_ranges(r, w, r->model->hyper.norm_epsilon, x, to, finish, factor);
}

void record_norm(const recorder *r, const device_norm *w, const device_buffer *from, uint32_t width,
                 const device_buffer *to)
{
    const hyperparameters *h = &r->model->hyper;
    if (h->norm == NORM_RMS)
        LAUNCH(r, DEVICE_norm, r->rows, BUFFER(from), BUFFER(w->weight), BUFFER(to), UINT(width),
               FLOAT(h->norm_epsilon));
    else
        record_norm_ranges(r, w, (ranges){from, 0, 1, width, width}, to, FINISH_STORE, 1);
}

const device_buffer *record_norm_input(const recorder *r, const device_norm *w, bool rounds)
{
    const hyperparameters *h = &r->model->hyper;
    const device_vectors *v = r->v;
    if (!w->weight) /* of blocks between gates there is a copy, to which nothing is added */
        return h->connection_rank > 0 ? v->block_read : v->x;
    bool together = rounds && h->norm == NORM_RMS && h->embedding_length % Q8_BLOCK == 0;
    if (together)
        LAUNCH(r, DEVICE_norm_8, r->rows, BUFFER(v->x), BUFFER(w->weight), BUFFER(v->normed), BUFFER(v->q8),
               BUFFER(v->q8_scales), BUFFER(v->q8_sums), UINT(h->embedding_length), FLOAT(h->norm_epsilon));
    else
        record_norm(r, w, v->x, h->embedding_length, v->normed);
    *r->rounded = together ? v->normed : NULL;
    return v->normed;
}

void record_reduce(const recorder *r, const block_result *b, const device_buffer *to, unsigned finish, float factor)
{
    uint32_t d = r->model->hyper.embedding_length;
    LAUNCH(r, DEVICE_reduce, r->rows * items_of(d, REDUCE_COLUMNS_ITEM), BUFFER(b->sums), BUFFER(b->bias),
           BUFFER(b->answer), BUFFER(to), UINT(d), UINT(b->parts), UINT(finish), FLOAT(factor));
}

void record_add(const recorder *r, const device_norm *post, block_result b)
{
    const hyperparameters *h = &r->model->hyper;
    uint32_t d = h->embedding_length;
    if (!post->weight) {
        record_reduce(r, &b, r->v->x, FINISH_ADD, h->residual_scale);
        return;
    }
    if (b.sums != r->v->added || b.bias || b.answer)
        record_reduce(r, &b, r->v->added, FINISH_STORE, 1);
    norm_ranges(r, post, h->post_epsilon, (ranges){r->v->added, 0, 1, d, d}, r->v->x, FINISH_ADD, h->residual_scale);
}

bool record_output(const recorder *r, const device_matrix *m, const device_buffer *values, bool at_once)
{
    input in = record_prepare(r, values, m->columns, &m, 1);
    record_product(r, m, &in, all_rows, at_once ? r->v->x : r->v->added, at_once ? FINISH_ADD : FINISH_STORE);
    return at_once;
}

/* ------------------------------------------------------------------ activations */

const unsigned record_kinds[ACTIVATION_COUNT] = {[ACTIVATION_SILU] = KIND_SILU,
                                                 [ACTIVATION_RELU] = KIND_RELU,
                                                 [ACTIVATION_RELU2] = KIND_RELU2,
                                                 [ACTIVATION_GELU] = KIND_GELU,
                                                 [ACTIVATION_GELU_TANH] = KIND_GELU_TANH,
                                                 [ACTIVATION_SWIGLU_CLAMPED] = KIND_SWIGLU_CLAMPED,
                                                 [ACTIVATION_SILU_LIMITED] = KIND_SILU_LIMITED,
                                                 [ACTIVATION_SILU_CLAMPED] = KIND_SILU_CLAMPED,
                                                 [ACTIVATION_XIELU] = KIND_XIELU};

const unsigned record_gating[] = {
    [FFN_GATED] = GATING_GATED, [FFN_GATED_BOTH] = GATING_BOTH, [FFN_PLAIN] = GATING_PLAIN};
