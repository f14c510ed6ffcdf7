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
#include "products.h"
#include "trace.h"

#include "../base/clock.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- rows of a batch */

typedef struct norm_job {
    const hearth_session *s;
    const float *weight;
} norm_job;

/* Items are rows. */
static void norm_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const norm_job *job = context;
    const hearth_engine *e = job->s->engine;
    size_t d = e->model->hyper.embedding_length;
    for (size_t i = begin; i < end; i++)
        e->runtime->kernels.rms_norm(job->s->scratch.x + i * d, job->weight, e->model->hyper.norm_epsilon, d,
                                     job->s->scratch.normed + i * d);
}

/* Applies the RMS norm to every row: scratch.x to scratch.normed. */
static void norm(const hearth_session *s, const float *weight, size_t count)
{
    norm_job job = {s, weight};
    pool_run(s->engine->runtime->threads, count, 1, norm_rows, &job);
}

/* Adds scratch.added, the result of a block, to the residual stream. */
static void add_to_residual(const hearth_session *s, size_t count)
{
    size_t d = s->engine->model->hyper.embedding_length;
    s->engine->runtime->kernels.add(s->scratch.added, count * d, s->scratch.x);
}

/* -------------------------------------------------------------------- attention */

typedef struct attention_job {
    hearth_session *s;
    uint32_t cached; /* index of the layer in the cache */
} attention_job;

/* Items are rows. Rotates query and key to the position of the row; stores key and value. */
static void place_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const scratch *b = &job->s->scratch;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const kernels *k = &job->s->engine->runtime->kernels;
    size_t kv_width = (size_t)h->kv_head_count * h->head_length;
    for (size_t i = begin; i < end; i++) {
        const float *cosine = b->cosine + i * h->rope_pairs, *sine = b->sine + i * h->rope_pairs;
        float *query = b->query + i * h->head_count * h->head_length, *key = b->key + i * kv_width;
        k->rope(query, h->head_count, h->head_length, cosine, sine, h->rope_pairs);
        k->rope(key, h->kv_head_count, h->head_length, cosine, sine, h->rope_pairs);
        kv_store(&job->s->cache, k, job->cached, b->sequence[i], b->position[i], key, b->value + i * kv_width);
    }
}

/* Items are pairs (row, key/value head). Computes attention for the group of query heads that share the head. */
static void attend_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    const attention_job *job = context;
    const hearth_session *s = job->s;
    const scratch *b = &s->scratch;
    const hyperparameters *h = &s->engine->model->hyper;
    const kernels *k = &s->engine->runtime->kernels;
    uint32_t group = h->head_count / h->kv_head_count;
    float *scores = b->scores + (size_t)worker * group * s->context;
    attend_kernel *attend = k->attend[kv_formats[s->cache.format].stored];
    size_t position_bytes = kv_bytes(s->cache.format, h->head_length);
    for (size_t item = begin; item < end; item++) {
        size_t row = item / h->kv_head_count;
        uint32_t head = (uint32_t)(item % h->kv_head_count), seen = b->position[row] + 1, first = 0;
        if (h->sliding_window && seen > h->sliding_window)
            first = seen - h->sliding_window;
        size_t offset = (row * h->head_count + head * group) * h->head_length;
        const char *keys = kv_keys(&s->cache, job->cached, b->sequence[row], head);
        const char *values = kv_values(&s->cache, job->cached, b->sequence[row], head);
        attend(b->query + offset, group, keys + first * position_bytes, values + first * position_bytes, seen - first,
               h->head_length, h->attention_scale, scores, b->mixed + offset);
    }
}

static void attention(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    pool *threads = s->engine->runtime->threads;
    attention_job job = {s, s->engine->layers[layer].cache_index};

    norm(s, l->attention_norm, count);
    multiply(s, b->normed, count, (product[]){{&l->q, b->query}, {&l->k, b->key}, {&l->v, b->value}}, 3);
    pool_run(threads, count, 1, place_rows, &job);
    pool_run(threads, count * s->engine->model->hyper.kv_head_count, 1, attend_heads, &job);
    multiply(s, b->mixed, count, &(product){&l->attention_output, b->added}, 1);
    add_to_residual(s, count);
}

/* ------------------------------------------------------------------------- batch */

/* Computes cosine and sine for the position of every row, once for all layers. */
static void prepare_rope(const hearth_session *s, size_t count)
{
    const hyperparameters *h = &s->engine->model->hyper;
    const scratch *b = &s->scratch;
    for (size_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < h->rope_pairs; p++) {
            double angle = b->position[i] * h->rope_frequencies[p];
            b->cosine[i * h->rope_pairs + p] = (float)cos(angle) * h->rope_magnitude;
            b->sine[i * h->rope_pairs + p] = (float)sin(angle) * h->rope_magnitude;
        }
}

/* Decodes the embedding of every row into scratch.x. */
static void embed(const hearth_session *s, const hearth_row *rows, size_t count)
{
    const matrix *e = &s->engine->model->embedding;
    for (size_t i = 0; i < count; i++)
        number_formats[e->format].decode(matrix_row(e, (size_t)rows[i].token), s->scratch.x + i * e->columns,
                                         e->columns);
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

static hearth_status layer_on_host(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    note(s, layer, MOMENT_BEGIN);
    attention(s, layer, count);
    note(s, layer, MOMENT_NEURONS);
    norm(s, s->engine->model->layers[layer].ffn_norm, count);
    feed_forward(s, layer, count);
    note(s, layer, MOMENT_END);
    return finite_check_stream(s, count, layer, layer, error);
}

/* Computes the CPU's share of a layer whose attention runs on the device, and serves an observer. */
static hearth_status share_layer(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    bool hidden_known;
    note(s, layer, MOMENT_BEGIN);
    if (s->engine->layers[layer].form != FORM_DEVICE) {
        TRY(device_step_input(s, layer, count, &hidden_known, error));
        note(s, layer, MOMENT_NEURONS);
        feed_forward_share(s, layer, count, hidden_known);
        device_step_answer(s, layer, count);
        note(s, layer, MOMENT_END);
    }
    if (!device_step_is_observed(s))
        return HEARTH_OK;
    TRY(device_step_observe(s, layer, count, error));
    feed_forward_observe(s, layer, count);
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
    TRY(device_step_begin(s, rows, at->count, error));
    TRY(walk_layers(s, at, error));
    TRY(device_step_end(s, at->count, error));
    return finite_check_stream(s, at->count, 0, s->engine->model->hyper.layer_count - 1, error);
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
    }
    device_unlock(s->engine->runtime);
    return status;
}

hearth_status forward_batch(hearth_session *s, const hearth_row *rows, size_t count, size_t done, size_t total,
                            hearth_error *error)
{
    const hearth_engine *e = s->engine;
    const feed_progress at = {count, done, total};
    prepare_rope(s, count);
    if (!e->uploaded || !e->uploaded->embedding.w)
        embed(s, rows, count);
    TRY(e->device_layers > 0 ? two_sided(s, rows, &at, error) : walk_layers(s, &at, error));
    if (s->tracer.see)
        trace_batch(s);
    return HEARTH_OK;
}

void forward_output(const hearth_session *s, size_t row, float *out)
{
    const hearth_engine *e = s->engine;
    size_t d = e->model->hyper.embedding_length;
    e->runtime->kernels.rms_norm(s->scratch.x + row * d, e->model->output_norm, e->model->hyper.norm_epsilon, d, out);
}

hearth_status forward_head(hearth_session *s, const float *hidden, size_t count, float *logits, hearth_error *error)
{
    const hyperparameters *h = &s->engine->model->hyper;
    if (!s->engine->uploaded || !s->engine->uploaded->head.w) {
        multiply(s, hidden, count, &(product){&s->engine->model->head, logits}, 1);
        return HEARTH_OK;
    }
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < STEP_ROWS ? count - at : STEP_ROWS;
        TRY(device_head(s, hidden + at * h->embedding_length, n, logits + at * h->vocabulary_size, error));
    }
    return HEARTH_OK;
}
