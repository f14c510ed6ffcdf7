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

#include "attention.h"
#include "connections.h"
#include "device_session.h"
#include "ffn.h"
#include "finite.h"
#include "follow.h"
#include "inputs_internal.h"
#include "latent.h"
#include "ngrams.h"
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

void forward_norm_row(const hearth_engine *e, const norm_weights *w, float epsilon, const float *x, size_t n,
                      float *out)
{
    const kernels *k = &e->runtime->kernels;
    if (e->model->hyper.norm == NORM_LAYER)
        k->layer_norm(x, w->weight, w->bias, epsilon, n, out);
    else
        k->rms_norm(x, w->weight, epsilon, n, out);
}

void forward_norm_values(const hearth_engine *e, size_t n, float *x)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    forward_scale((float)(1 / sqrt(squares / (double)n + (double)e->model->hyper.norm_epsilon)), n, x);
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
        forward_norm_row(job->engine, job->weights, job->epsilon, job->from + i * job->width, job->width,
                         job->to + i * job->width);
}

void forward_norm(const hearth_session *s, const norm_weights *w, size_t width, size_t count, const float *from,
                  float *to)
{
    norm_job job = {s->engine, w, s->engine->model->hyper.norm_epsilon, width, from, to};
    if (w->weight)
        pool_run(s->engine->runtime->threads, count, 1, norm_rows, &job);
    else if (from != to)
        memcpy(to, from, count * width * sizeof *to);
}

void forward_turn(const hearth_session *s, const rotary *r, size_t heads, size_t length, size_t row, float *x)
{
    size_t angles = r ? s->batch * r->first + row * r->pairs : 0;
    if (r && r->last)
        x += length - 2 * (size_t)r->pairs;
    if (r)
        s->engine->runtime->kernels.rope[r->pairing](x, heads, length, s->scratch.cosine + angles,
                                                     s->scratch.sine + angles, r->pairs);
}

void forward_add_bias(const hearth_session *s, const float *bias, size_t width, size_t count, float *rows)
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
            double angle = ((double)b->position[i] - r->back) * frequencies[p];
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
            forward_norm_values(s->engine, d, x);
        if (m->embedding_norm.weight)
            forward_norm_row(s->engine, &m->embedding_norm, m->hyper.norm_epsilon, x, d, x);
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
    [MIXER_ATTENTION] = attention_mix, [MIXER_RECURRENT] = recurrent_mix};

/* Computes the feed-forward network of a layer, after its norm: scratch.added. In layers whose blocks are parallel and
 * share a norm, scratch.normed is already its input. */
static void network(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    if (l->wiring != WIRING_PARALLEL || l->ffn_norm.weight != l->attention_norm.weight)
        forward_norm(s, &l->ffn_norm, s->engine->model->hyper.embedding_length, count, b->x, b->normed);
    if (l->network_mix)
        rwkv_mix_network(s, layer, count);
    if (!l->ffn.router.early)
        feed_forward_route(s, layer, count, b->normed);
    feed_forward(s, layer, count);
}

/* Ends a layer: adds what its own input makes of the residual stream, and scales that; corrects or mixes the streams. */
static void finish_layer(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length;
    if (l->wiring == WIRING_STREAMS) {
        streams_correct(s, layer, count);
    } else if (l->wiring == WIRING_CONNECTED) {
        connections_spread(s, count);
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
    bool connected = l->wiring == WIRING_CONNECTED;
    note(s, layer, MOMENT_BEGIN);
    if (streams)
        streams_predict(s, layer, count);
    if (l->ngrams)
        ngrams_add(s, layer, count);
    if (connected)
        connections_collapse(s, layer, false, count);
    if (l->ffn.router.early)
        feed_forward_route(s, layer, count, b->x);
    if (l->mixer != MIXER_NONE) {
        forward_norm(s, &l->attention_norm, d, count, b->x, b->normed);
        if (streams)
            streams_beside(s, layer, count);
        mixers[l->mixer](s, layer, count, parallel ? b->beside : b->added);
        if (!parallel)
            add_to_residual(s, &l->attention_post_norm, count, b->added);
    }
    if (streams)
        streams_join(s, count);
    if (connected) {
        connections_spread(s, count);
        connections_collapse(s, layer, true, count);
    }
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
    forward_norm(s, &m->output_norm, m->hyper.embedding_length, count, b->x, b->normed);
    inputs_add(s, &s->inputs->head, 0, b->normed, count);
}

hearth_status forward_batch(hearth_session *s, const hearth_row *rows, size_t count, size_t done, size_t total,
                            hearth_error *error)
{
    const hearth_engine *e = s->engine;
    const feed_progress at = {count, done, total};
    bool connected = hyper_connections(&e->model->hyper) > 0;
    for (uint32_t i = 0; i < e->model->rotary_count; i++)
        prepare_rotary(s, &e->model->rotaries[i], count);
    recurrent_begin_batch(s, count);
    if (!e->uploaded || !e->uploaded->embedding.w || e->model->hyper.per_layer_length > 0)
        embed(s, rows, count);
    if (e->model->hyper.per_layer_length > 0)
        per_layer_prepare(s, rows, count);
    if (connected)
        connections_begin(s, count);
    if (e->model->hyper.ngrams.longest > 0)
        ngrams_prepare(s, count);
    if (!connected && e->model->hyper.stream_count > 1)
        streams_begin(s, count);
    TRY(e->device_layers > 0 ? two_sided(s, rows, &at, error) : walk_layers(s, &at, error));
    recurrent_end_batch(s, count);
    if (connected)
        connections_end(s, count);
    else if (e->model->hyper.stream_count > 1)
        streams_end(s, count);
    if (s->inputs)
        see_head_input(s, count);
    if (s->tracer.see)
        trace_batch(s);
    return HEARTH_OK;
}

void forward_output(const hearth_session *s, size_t row, float *out)
{
    size_t d = s->engine->model->hyper.embedding_length;
    forward_norm(s, &s->engine->model->output_norm, d, 1, s->scratch.x + row * d, out);
}

/* Adds the head's bias to the logits of some rows, multiplies them by the model's factor and limits them by its soft cap. */
static void finish_logits(const hearth_engine *e, size_t count, float *logits)
{
    const hyperparameters *h = &e->model->hyper;
    size_t n = count * h->vocabulary_size;
    for (size_t row = 0; e->model->head_bias && row < count; row++)
        e->runtime->kernels.add(e->model->head_bias, h->vocabulary_size, logits + row * h->vocabulary_size);
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
    finish_logits(s->engine, count, logits);
    return HEARTH_OK;
}
