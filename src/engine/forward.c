/* forward.c - the forward pass, on the CPU and together with a device.
 *
 * There is no graph: a layer is a mixer and a feed-forward network, each a function that calls ops in order. All rows
 * of a batch go through an op together, so a prompt is a series of matrix products, and a single token is the same code
 * with one row. The pool divides the work by rows of weights or by rows of the batch; results do not depend on which
 * thread computed what.
 *
 * Layers that a placement gives to a device are computed there at the same time (device_session.h). This file hands
 * over the residual stream where the side changes and computes the CPU's neurons of layers whose attention is on the
 * device. */
#include "forward.h"

#include "device_session.h"
#include "ffn.h"
#include "finite.h"
#include "follow.h"
#include "inputs_internal.h"
#include "latent.h"
#include "per_layer.h"
#include "products.h"
#include "recurrent.h"
#include "rwkv.h"
#include "streams.h"
#include "trace.h"

#include "../base/clock.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- rows of a batch */

/* Applies a norm of the model to n values; out may be x. */
static void norm_row(const hearth_engine *e, const norm_weights *w, float epsilon, const float *x, size_t n, float *out)
{
    const kernels *k = &e->runtime->kernels;
    if (e->model->hyper.norm == NORM_LAYER)
        k->layer_norm(x, w->weight, w->bias, epsilon, n, out);
    else
        k->rms_norm(x, w->weight, epsilon, n, out);
}

typedef struct norm_job {
    const hearth_engine *engine;
    const norm_weights *weights;
    float epsilon;
    size_t width;
    const float *from;
    float *to;
} norm_job;

/* Items are rows. */
static void norm_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const norm_job *job = context;
    for (size_t i = begin; i < end; i++)
        norm_row(job->engine, job->weights, job->epsilon, job->from + i * job->width, job->width,
                 job->to + i * job->width);
}

/* Applies a norm to every row of `width` values; without weights it only copies. to may be from. */
static void norm(const hearth_session *s, const norm_weights *w, size_t width, size_t count, const float *from,
                 float *to)
{
    norm_job job = {s->engine, w, s->engine->model->hyper.norm_epsilon, width, from, to};
    if (w->weight)
        pool_run(s->engine->runtime->threads, count, 1, norm_rows, &job);
    else if (from != to)
        memcpy(to, from, count * width * sizeof *to);
}

/* Adds a bias to every row of `width` values; NULL: there is none. */
static void add_bias(const hearth_session *s, const float *bias, size_t width, size_t count, float *rows)
{
    for (size_t i = 0; bias && i < count; i++)
        s->engine->runtime->kernels.add(bias, width, rows + i * width);
}

/* Adds the result of a block to the residual stream, after its post norm. */
static void add_to_residual(const hearth_session *s, const norm_weights *post, size_t count, float *result)
{
    const hyperparameters *h = &s->engine->model->hyper;
    size_t d = h->embedding_length;
    norm_job job = {s->engine, post, h->post_epsilon, d, result, result};
    if (post->weight)
        pool_run(s->engine->runtime->threads, count, 1, norm_rows, &job);
    forward_scale(h->residual_scale, count * d, result);
    s->engine->runtime->kernels.add(result, count * d, s->scratch.x);
}

/* -------------------------------------------------------------------- attention */

typedef struct attention_job {
    hearth_session *s;
    const model_layer *l;
    uint32_t cached; /* index of the layer in the cache */
} attention_job;

/* Norms queries or keys of one row, each head alone or all together. */
static void norm_heads(const attention_job *job, const norm_weights *w, uint32_t heads, float *x)
{
    const hearth_engine *e = job->s->engine;
    const attention_shape *a = &job->l->attention;
    float epsilon = e->model->hyper.norm_epsilon;
    size_t length = a->head_length;
    if (w->weight && a->norm_whole)
        norm_row(e, w, epsilon, x, heads * length, x);
    for (size_t i = 0; w->weight && !a->norm_whole && i < heads; i++)
        norm_row(e, w, epsilon, x + i * length, length, x + i * length);
}

/* Rotates queries or keys of one row. */
static void turn_heads(const attention_job *job, uint32_t heads, size_t row, float *x)
{
    const scratch *b = &job->s->scratch;
    const attention_shape *a = &job->l->attention;
    if (!a->rotary)
        return;
    size_t angles = job->s->batch * a->rotary->first + row * a->rotary->pairs;
    job->s->engine->runtime->kernels.rope[a->rotary->pairing](x, heads, a->head_length, b->cosine + angles,
                                                              b->sine + angles, a->rotary->pairs);
}

/* Norms n values without weights. */
static void norm_values(const hearth_engine *e, size_t n, float *x)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    forward_scale((float)(1 / sqrt(squares / (double)n + (double)e->model->hyper.norm_epsilon)), n, x);
}

/* Norms the heads of one row, each alone, without weights. */
static void norm_plain(const attention_job *job, uint32_t heads, float *values)
{
    for (size_t i = 0, n = job->l->attention.head_length; i < heads; i++)
        norm_values(job->s->engine, n, values + i * n);
}

/* Takes the queries of a row out of what is queries and gates in turns, head by head. */
static void take_queries(const attention_shape *a, const float *gated, float *query)
{
    size_t length = a->head_length;
    for (size_t h = 0; h < a->head_count; h++)
        memcpy(query + h * length, gated + 2 * h * length, length * sizeof *query);
}

/* Items are rows. Makes query and key those of the row's position; stores key and value, if they are the layer's own. */
static void place_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const scratch *b = &job->s->scratch;
    const attention_shape *a = &job->l->attention;
    for (size_t i = begin; i < end; i++) {
        float *query = b->query + i * query_width(a), *key = b->key + i * key_width(a);
        if (layer_gates_in_query(job->l))
            take_queries(a, b->gated_query + 2 * i * query_width(a), query);
        if (a->norm_plain)
            norm_plain(job, a->head_count, query);
        else if (!a->norm_turned)
            norm_heads(job, &job->l->query_norm, a->head_count, query);
        turn_heads(job, a->head_count, i, query);
        if (a->norm_turned)
            norm_heads(job, &job->l->query_norm, a->head_count, query);
        if (a->grows)
            forward_scale(1 + hyper_score_gain(&job->s->engine->model->hyper, b->position[i]), query_width(a), query);
        if (a->keys_back > 0)
            continue;
        if (a->norm_turned || a->norm_plain)
            norm_plain(job, a->kv_head_count, key);
        else
            norm_heads(job, &job->l->key_norm, a->kv_head_count, key);
        turn_heads(job, a->kv_head_count, i, key);
        if (a->norm_values)
            norm_plain(job, a->kv_head_count, b->value + i * key_width(a));
        kv_store(&job->s->cache, &job->s->engine->runtime->kernels, job->cached, b->sequence[i], b->position[i], key,
                 b->value + i * key_width(a));
    }
}

/* Rows that share the keys of a run, at least, where there are so many: a run has room for few queries of long heads. */
#define RUN_ROWS 4

static uint32_t group_of(const attention_shape *a)
{
    return a->head_count / a->kv_head_count;
}

/* Returns how many queries of a group an item computes for many rows: all that a run can have with RUN_ROWS rows, or with
 * fewer if a single query leaves no room for them. */
static uint32_t heads_together(const attention_shape *a)
{
    uint32_t most = RUN_VALUES / a->head_length, group = group_of(a);
    most = most < RUN_QUERIES ? most : RUN_QUERIES;
    most = most / RUN_ROWS < group ? most / RUN_ROWS : group;
    return most > 0 ? most : 1;
}

/* Returns how many items a group of queries makes, of one row or of many: one at least. */
static uint32_t group_items(const attention_shape *a)
{
    uint32_t together = heads_together(a), least = together < ITEM_QUERIES ? together : ITEM_QUERIES;
    uint32_t items = (group_of(a) + least - 1) / least;
    return items > 0 ? items : 1;
}

/* Returns how many rows of a sequence are computed together. Heads may be so long that a run has no room for the queries of
 * an item; then each row is taken alone. */
static size_t rows_together(const attention_shape *a)
{
    if (a->head_length > RUN_VALUES / ITEM_QUERIES)
        return 1;
    size_t heads = heads_together(a), by_values = RUN_VALUES / (heads * a->head_length);
    return RUN_QUERIES / heads < by_values ? RUN_QUERIES / heads : by_values;
}

/* Adds the rows [first, first + count) of a batch, which follow one another in a sequence, to the pieces that items are made
 * of: more than few in pieces of `most`, few one by one, so that they have the same bytes as if each were alone. */
static void add_pieces(scratch *b, size_t first, size_t count, size_t most)
{
    size_t rows = count > FEW_TOKENS ? most : 1;
    for (size_t i = 0; i < count; i += rows)
        b->pieces[b->piece_count++] =
            (row_piece){(uint32_t)(first + i), (uint32_t)(count - i < rows ? count - i : rows)};
}

/* Returns the first position that a layer with chunks sees of those up to `position`; 0 without chunks. */
static size_t chunk_begin(const attention_shape *a, size_t position)
{
    return a->chunked && a->window > 0 ? position / a->window * a->window : 0;
}

/* Cuts the rows of a batch into pieces. */
static void cut_rows(const attention_job *job, size_t count)
{
    scratch *b = &job->s->scratch;
    const attention_shape *a = &job->l->attention;
    size_t first = 0, most = rows_together(a);
    b->piece_count = 0;
    for (size_t i = 1; i <= count; i++)
        if (i == count || b->sequence[i] != b->sequence[i - 1] || b->position[i] != b->position[i - 1] + 1 ||
            (a->chunked && chunk_begin(a, b->position[i]) == b->position[i])) {
            add_pieces(b, first, i - first, most);
            first = i;
        }
}

/* Computes the attention of one row for `heads` query heads from `query` on, which share a key/value head. */
static void attend_one_row(const attention_job *job, size_t row, size_t query, size_t heads, float *scores)
{
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    attend_kernel *attend = s->engine->runtime->kernels.attend[kv_formats[s->cache.format].stored];
    size_t position = s->scratch.position[row], seen = position + 1;
    size_t first = a->chunked ? chunk_begin(a, position) : a->window && seen > a->window ? seen - a->window : 0;
    attend_cache cache = kv_head(&s->cache, job->cached, s->scratch.sequence[row], (uint32_t)(query / group_of(a)));
    size_t offset = (row * a->head_count + query) * a->head_length;
    attend_scoring scoring = {a->scale, a->softcap, job->l->sinks ? job->l->sinks + query : NULL};
    attend(s->scratch.query + offset, heads, &cache, first, seen - first, a->head_length, &scoring, scores,
           s->scratch.mixed + offset);
}

/* The same for a piece of several rows. */
static void attend_piece(const attention_job *job, row_piece piece, size_t query, size_t heads)
{
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    uint32_t sequence = s->scratch.sequence[piece.first], head = (uint32_t)(query / group_of(a));
    size_t stride = query_width(a), offset = piece.first * stride + query * a->head_length;
    attend_run run = {.query = s->scratch.query + offset,
                      .out = s->scratch.mixed + offset,
                      .stride = stride,
                      .rows = piece.count,
                      .heads = heads,
                      .length = a->head_length,
                      .cache = kv_head(&s->cache, job->cached, sequence, head),
                      .seen = s->scratch.position[piece.first] + 1,
                      .first = chunk_begin(a, s->scratch.position[piece.first]),
                      .window = a->chunked ? 0 : a->window,
                      .scoring = {a->scale, a->softcap, job->l->sinks ? job->l->sinks + query : NULL}};
    s->engine->runtime->kernels.attend_rows[kv_formats[s->cache.format].stored](&run);
}

/* Items are (piece, key/value head, part of the query heads that share it). */
static void attend_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    const attention_job *job = context;
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    uint32_t group = group_of(a), parts = group_items(a), together = heads_together(a);
    size_t rows = group < ITEM_QUERIES ? group : ITEM_QUERIES;
    float *scores = s->scratch.scores + worker * rows * s->context;
    for (size_t item = begin; item < end; item++) {
        row_piece piece = s->scratch.pieces[item / parts / a->kv_head_count];
        uint32_t step = piece.count > 1 ? together : ITEM_QUERIES, from = (uint32_t)(item % parts) * step;
        if (from >= group)
            continue;
        size_t query = item / parts % a->kv_head_count * group + from,
               heads = group - from < step ? group - from : step;
        if (piece.count > 1)
            attend_piece(job, piece, query, heads);
        else
            attend_one_row(job, piece.first, query, heads, scores);
    }
}

/* What the result of a head is multiplied with. */
static float opened(const attention_shape *a, float gate)
{
    return a->gate_softplus ? forward_softplus(gate) : 1 / (1 + expf(-gate));
}

/* Items are rows. Multiplies what the heads have read with what their gates let through. */
static void gate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const attention_shape *a = &job->l->attention;
    size_t length = a->head_length;
    bool in_turns = layer_gates_in_query(job->l);
    for (size_t head = begin * a->head_count; head < end * a->head_count; head++) {
        const float *gates = job->s->scratch.gated_query + (in_turns ? 2 * head + 1 : head) * a->gate_length;
        float *mixed = job->s->scratch.mixed + head * length;
        if (a->gate_length == 1)
            forward_scale(opened(a, gates[0]), length, mixed);
        for (size_t i = 0; a->gate_length > 1 && i < length; i++)
            mixed[i] *= opened(a, gates[i]);
    }
}

/* Multiplies scratch.normed with the matrices of queries, keys and values. */
static void project(const hearth_session *s, const model_layer *l, size_t count)
{
    const attention_shape *a = &l->attention;
    const scratch *b = &s->scratch;
    product each[4] = {{&l->q, layer_gates_in_query(l) ? b->gated_query : b->query}};
    size_t products = 1;
    if (l->attention_gate.data)
        each[products++] = (product){&l->attention_gate, b->gated_query};
    if (a->keys_back == 0)
        each[products++] = (product){&l->k, b->key};
    if (a->keys_back == 0 && l->v.data)
        each[products++] = (product){&l->v, b->value};
    multiply(s, b->normed, count, each, products);
    if (a->keys_back == 0 && !l->v.data)
        memcpy(b->value, b->key, count * key_width(a) * sizeof *b->value);
    add_bias(s, l->q_bias, query_width(a), count, b->query);
    add_bias(s, l->k_bias, key_width(a), count, b->key);
    add_bias(s, l->v_bias, key_width(a), count, b->value);
}

/* Computes the attention of scratch.normed. */
static void attention(hearth_session *s, uint32_t layer, size_t count, float *out)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const attention_shape *a = &l->attention;
    const scratch *b = &s->scratch;
    pool *threads = s->engine->runtime->threads;
    attention_job job = {s, l, s->engine->layers[layer].cache_index};
    const float *result = a->compressed > 0 ? b->result : b->mixed;

    inputs_see(s, layer, INPUT_ATTENTION, b->normed, count);
    if (a->compressed > 0)
        latent_project(s, layer, count);
    else
        project(s, l, count);
    pool_run(threads, count, 1, place_rows, &job);
    cut_rows(&job, count);
    pool_run(threads, b->piece_count * a->kv_head_count * group_items(a), 1, attend_heads, &job);
    if (a->gate_length > 0)
        pool_run(threads, count, 1, gate_rows, &job);
    if (a->compressed > 0)
        latent_results(s, layer, count);
    norm(s, &l->attention_inner_norm, query_width(a), count, b->mixed, b->mixed);
    inputs_see(s, layer, INPUT_ATTENTION_OUTPUT, result, count);
    multiply(s, result, count, &(product){&l->attention_output, out}, 1);
    add_bias(s, l->attention_output_bias, s->engine->model->hyper.embedding_length, count, out);
}

/* ------------------------------------------------------------------------- batch */

/* Computes cosine and sine of a rotary for the position of every row. */
static void prepare_rotary(const hearth_session *s, const rotary *r, size_t count)
{
    const scratch *b = &s->scratch;
    const double *frequencies = r->frequencies;
    if (r->long_frequencies && s->context > r->long_from)
        frequencies = r->long_frequencies;
    float *cosine = b->cosine + s->batch * r->first, *sine = b->sine + s->batch * r->first;
    for (size_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < r->pairs; p++) {
            double angle = b->position[i] * frequencies[p];
            *cosine++ = (float)cos(angle) * r->magnitude;
            *sine++ = (float)sin(angle) * r->magnitude;
        }
}

static void decode_row(const matrix *m, size_t row, float *to)
{
    number_formats[m->format].decode(matrix_row(m, row), to, m->columns);
}

/* Makes the embedding of every row in scratch.x; where positions are learned, theirs is added. */
static void embed(const hearth_session *s, const hearth_row *rows, size_t count)
{
    const hearth_model *m = s->engine->model;
    const scratch *b = &s->scratch;
    size_t d = m->hyper.embedding_length;
    for (size_t i = 0; i < count; i++) {
        float *x = b->x + i * d;
        decode_row(&m->embedding, (size_t)rows[i].token, x);
        forward_scale(m->hyper.embedding_scale, d, x);
        if (m->hyper.embedding_norm)
            norm_values(s->engine, d, x);
        if (m->embedding_norm.weight)
            norm_row(s->engine, &m->embedding_norm, m->hyper.norm_epsilon, x, d, x);
        if (!m->positions.data)
            continue;
        decode_row(&m->positions, m->hyper.position_offset + b->position[i], b->added + i * d);
        s->engine->runtime->kernels.add(b->added + i * d, d, x);
    }
}

/* How far the feed has come that a batch belongs to. */
typedef struct feed_progress {
    size_t count, done, total; /* rows of the batch, rows before it, rows of the whole feed */
} feed_progress;

static hearth_status cancelled(const feed_progress *at, hearth_error *error)
{
    return fail(error, HEARTH_CANCELLED, "feed: cancelled after %zu of %zu tokens", at->done, at->total);
}

/* Checks after each layer whether the session was cancelled, and reports progress. Single tokens report none, as they
 * are quick. */
static hearth_status goes_on(const hearth_session *s, uint32_t layer, const feed_progress *at, hearth_error *error)
{
    if (session_is_cancelled(s))
        return cancelled(at, error);
    if (at->count == 1 || !s->progress.report)
        return HEARTH_OK;
    size_t done = at->done + at->count * (layer + 1) / s->engine->model->hyper.layer_count;
    return s->progress.report(s->progress.user, "tokens read", done, at->total) ? HEARTH_OK : cancelled(at, error);
}

/* Notes the time at which the CPU reached a moment of a layer, if a tracer is set. */
static void note(const hearth_session *s, uint32_t layer, unsigned moment)
{
    if (s->tracer.see)
        s->scratch.moments[layer][moment] = clock_seconds();
}

/* The functions of the mixers: from scratch.normed to out [count][d]. */
static void (*const mixers[MIXER_COUNT])(hearth_session *s, uint32_t layer, size_t count, float *out) = {
    [MIXER_ATTENTION] = attention, [MIXER_RECURRENT] = recurrent_mix};

/* Computes the feed-forward network of a layer, after its norm: scratch.added. In layers whose blocks are parallel and
 * share a norm, scratch.normed is already its input. */
static void network(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    if (l->wiring != WIRING_PARALLEL || l->ffn_norm.weight != l->attention_norm.weight)
        norm(s, &l->ffn_norm, s->engine->model->hyper.embedding_length, count, b->x, b->normed);
    if (l->network_mix)
        rwkv_mix_network(s, layer, count);
    if (!l->ffn.router.early)
        feed_forward_route(s, layer, count, b->normed);
    feed_forward(s, layer, count);
}

/* Ends a layer: adds what its own input makes of the residual stream, and scales that; corrects the streams. */
static void finish_layer(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length;
    if (l->wiring == WIRING_STREAMS) {
        streams_correct(s, layer, count);
    } else if (l->per_layer_gate.data) {
        per_layer_apply(s, layer, count, b->x, b->added);
        add_to_residual(s, &l->per_layer_post_norm, count, b->added);
    }
    if (l->output_scale)
        forward_scale(l->output_scale[0], count * d, b->x);
}

static hearth_status layer_on_host(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length;
    bool parallel = l->wiring == WIRING_PARALLEL, streams = l->wiring == WIRING_STREAMS;
    note(s, layer, MOMENT_BEGIN);
    if (streams)
        streams_predict(s, layer, count);
    if (l->ffn.router.early)
        feed_forward_route(s, layer, count, b->x);
    if (l->mixer != MIXER_NONE) {
        norm(s, &l->attention_norm, d, count, b->x, b->normed);
        if (streams)
            streams_beside(s, layer, count);
        mixers[l->mixer](s, layer, count, parallel ? b->beside : b->added);
        if (!parallel)
            add_to_residual(s, &l->attention_post_norm, count, b->added);
    }
    if (streams)
        streams_join(s, count);
    note(s, layer, MOMENT_NEURONS);
    if (l->ffn.neuron_count > 0)
        network(s, layer, count);
    if (parallel)
        add_to_residual(s, &l->attention_post_norm, count, b->beside);
    if (l->ffn.neuron_count > 0)
        add_to_residual(s, &l->ffn_post_norm, count, b->added);
    finish_layer(s, layer, count);
    note(s, layer, MOMENT_END);
    return finite_check_stream(s, count, layer, layer, error);
}

/* Computes the CPU's share of a layer whose attention runs on the device, or streams it there; and serves an observer. */
static hearth_status share_layer(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    const router_shape *router = &s->engine->model->layers[layer].ffn.router;
    layer_form form = s->engine->layers[layer].form;
    bool hidden_known, observed = device_step_is_observed(s), tells = router->expert_count > 0 && form != FORM_DEVICE;
    note(s, layer, MOMENT_BEGIN);
    if (device_step_streams(s, layer)) {
        TRY(device_step_stream(s, layer, error));
        note(s, layer, MOMENT_END);
    } else if (form != FORM_DEVICE) {
        TRY(device_step_input(s, layer, count, &hidden_known, error));
        note(s, layer, MOMENT_NEURONS);
        if (form == FORM_FFN_HOST) /* else the device has chosen the experts */
            feed_forward_route(s, layer, count, router->early ? device_step_entered(s) : s->scratch.normed);
        if (observed && tells)
            TRY(device_step_observe(s, layer, count, error));
        feed_forward_share(s, layer, count, hidden_known);
        device_step_answer(s, layer, count);
        note(s, layer, MOMENT_END);
    } else
        TRY(device_step_pass(s, layer, error));
    if (!observed || s->engine->model->layers[layer].ffn.neuron_count == 0)
        return HEARTH_OK;
    if (!tells) { /* experts of the CPU tell observers while they compute */
        TRY(device_step_observe(s, layer, count, error));
        feed_forward_observe(s, layer, count);
    }
    device_step_observed(s, layer);
    return HEARTH_OK;
}

/* Goes through all layers; where the side changes, hands the residual stream over. */
static hearth_status walk_layers(hearth_session *s, const feed_progress *at, hearth_error *error)
{
    const hearth_engine *e = s->engine;
    size_t count = at->count;
    bool on_host = true; /* true: the residual stream is on the CPU; before layer 0 it is on the side that needs it */
    for (uint32_t layer = 0; layer < e->model->hyper.layer_count; layer++) {
        bool hosted = e->layers[layer].form == FORM_HOST;
        if (hosted && !on_host)
            TRY(device_step_take(s, layer, count, error));
        if (!hosted && on_host && layer > 0)
            device_step_give(s, layer, count);
        on_host = hosted;
        if (hosted)
            TRY(layer_on_host(s, layer, count, error));
        else
            TRY(share_layer(s, layer, count, error));
        TRY(goes_on(s, layer, at, error));
    }
    return HEARTH_OK;
}

/* Runs the layers while the device runs its step. */
static hearth_status walk_with_device(hearth_session *s, const hearth_row *rows, const feed_progress *at,
                                      hearth_error *error)
{
    TRY(device_weights_mend(s->engine->uploaded, s->engine->model, s->engine->layers, error));
    TRY(device_step_begin(s, rows, at->count, error));
    TRY(walk_layers(s, at, error));
    TRY(device_step_end(s, at->count, error));
    return finite_check_stream(s, at->count, 0, s->engine->model->hyper.layer_count - 1, error);
}

/* Returns whether some rows are those of a prompt: nobody asks what follows them. */
static bool reads_prompt(const hearth_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!rows[i].output)
            return true;
    return false;
}

/* Runs the layers on both sides. A step that is given up leaves the counts unchanged. */
static hearth_status two_sided(hearth_session *s, const hearth_row *rows, const feed_progress *at, hearth_error *error)
{
    size_t counts = s->engine->model->hyper.layer_count * sizeof *s->counts;
    memcpy(s->counts_before, s->counts, counts);
    device_lock(s->engine->runtime);
    hearth_status status = walk_with_device(s, rows, at, error);
    if (status != HEARTH_OK) {
        device_step_abandon(s);
        memcpy(s->counts, s->counts_before, counts);
        if (device_step_tallies(s))
            follow_give_up(s->engine);
    } else if (device_step_tallies(s))
        follow_step(s->engine, at->count, reads_prompt(rows, at->count));
    device_unlock(s->engine->runtime);
    return status;
}

/* Adds what the head would read of every row, output rows or not, to the sums. */
static void see_head_input(const hearth_session *s, size_t count)
{
    const scratch *b = &s->scratch;
    const hearth_model *m = s->engine->model;
    norm(s, &m->output_norm, m->hyper.embedding_length, count, b->x, b->normed);
    inputs_add(s, &s->inputs->head, 0, b->normed, count);
}

hearth_status forward_batch(hearth_session *s, const hearth_row *rows, size_t count, size_t done, size_t total,
                            hearth_error *error)
{
    const hearth_engine *e = s->engine;
    const feed_progress at = {count, done, total};
    for (uint32_t i = 0; i < e->model->rotary_count; i++)
        prepare_rotary(s, &e->model->rotaries[i], count);
    recurrent_begin_batch(s, count);
    if (!e->uploaded || !e->uploaded->embedding.w || e->model->hyper.per_layer_length > 0)
        embed(s, rows, count);
    if (e->model->hyper.per_layer_length > 0)
        per_layer_prepare(s, rows, count);
    if (e->model->hyper.stream_count > 1)
        streams_begin(s, count);
    TRY(e->device_layers > 0 ? two_sided(s, rows, &at, error) : walk_layers(s, &at, error));
    recurrent_end_batch(s, count);
    if (e->model->hyper.stream_count > 1)
        streams_end(s, count);
    if (s->inputs)
        see_head_input(s, count);
    if (s->tracer.see)
        trace_batch(s);
    return HEARTH_OK;
}

void forward_norm(const hearth_session *s, const norm_weights *w, size_t width, size_t count, const float *from,
                  float *to)
{
    norm(s, w, width, count, from, to);
}

void forward_output(const hearth_session *s, size_t row, float *out)
{
    const hearth_engine *e = s->engine;
    size_t d = e->model->hyper.embedding_length;
    norm_row(e, &e->model->output_norm, e->model->hyper.norm_epsilon, s->scratch.x + row * d, d, out);
}

/* Multiplies logits by the model's factor and limits them by its soft cap. */
static void finish_logits(const hyperparameters *h, size_t n, float *logits)
{
    forward_scale(h->logit_scale, n, logits);
    for (size_t i = 0; h->logit_softcap > 0 && i < n; i++)
        logits[i] = h->logit_softcap * tanhf(logits[i] / h->logit_softcap);
}

hearth_status forward_head(hearth_session *s, const float *hidden, size_t count, float *logits, hearth_error *error)
{
    const hyperparameters *h = &s->engine->model->hyper;
    bool on_device = s->engine->uploaded && s->engine->uploaded->head.w;
    if (!on_device)
        multiply(s, hidden, count, &(product){&s->engine->model->head, logits}, 1);
    for (size_t at = 0, n; on_device && at < count; at += n) {
        n = count - at < STEP_ROWS ? count - at : STEP_ROWS;
        TRY(device_head(s, hidden + at * h->embedding_length, n, logits + at * h->vocabulary_size, error));
    }
    finish_logits(h, count * h->vocabulary_size, logits);
    return HEARTH_OK;
}
