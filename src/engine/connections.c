/* connections.c - see connections.h. A block adds its result to what it has read, as blocks do that have one stream, whichever side
 * computes it: so that result is x less what was read. That follows from the streams once more; of gates, which would have to be
 * computed again, a copy is kept. */
#include "connections.h"

#include "forward.h"
#include "products.h"

#include <math.h>
#include <string.h>

typedef struct connecting {
    const hearth_session *s;
    const stream_connection *c;
    const gated_connection *gates;
} connecting;

static bool is_gated(const hearth_session *s)
{
    return s->engine->model->hyper.connection_rank > 0;
}

static void run(const connecting *job, size_t count, void (*work)(void *, size_t, size_t, unsigned))
{
    connecting own = *job;
    pool_run(job->s->engine->runtime->threads, count, 1, work, &own);
}

/* Returns the streams [S][d] of a row, and its weights [M]. */
static float *streams_of(const hearth_session *s, size_t row)
{
    const hyperparameters *h = &s->engine->model->hyper;
    return s->scratch.streams + row * h->stream_count * (size_t)h->embedding_length;
}

static float *weights_of(const hearth_session *s, size_t row)
{
    return s->scratch.stream_weights + row * hyper_connections(&s->engine->model->hyper);
}

/* ------------------------------------------------------------------ weights */

static float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

/* Turns a row into its shares exp(x) / sum, plus epsilon. */
static void softmax(float *row, uint32_t n, float epsilon)
{
    float most = row[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += row[i] = expf(row[i] - most);
    for (uint32_t i = 0; i < n; i++)
        row[i] = row[i] / sum + epsilon;
}

/* Divides n values that lie so far apart by their sum plus epsilon. */
static void divide_by_sum(float *values, uint32_t n, uint32_t apart, float epsilon)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += values[i * apart];
    for (uint32_t i = 0; i < n; i++)
        values[i * apart] /= sum + epsilon;
}

/* Brings the sums of all columns, and of all rows, close to 1, with Sinkhorn's iteration. mix [from][to]. */
static void balance(const hyperparameters *h, float *mix)
{
    uint32_t n = h->stream_count;
    for (uint32_t i = 0; i < n; i++)
        softmax(mix + i * n, n, h->connection_epsilon);
    for (uint32_t step = 0; step < h->connection_steps; step++) {
        for (uint32_t i = 0; step > 0 && i < n; i++)
            divide_by_sum(mix + i * n, n, 1, h->connection_epsilon);
        for (uint32_t i = 0; i < n; i++)
            divide_by_sum(mix + i, n, n, h->connection_epsilon);
    }
}

/* Returns what the products with the streams of a row are multiplied with, as these were not normed. */
static float norm_factor(const hyperparameters *h, const float *streams)
{
    size_t values = (size_t)h->stream_count * h->embedding_length;
    double squares = 0;
    for (size_t i = 0; i < values; i++)
        squares += (double)streams[i] * (double)streams[i];
    return (float)(1 / sqrt(squares / (double)values + (double)h->norm_epsilon));
}

/* Makes the weights of a row of the products m [M] with its streams. Without steps they have no mixtures. */
static void weigh(const connecting *job, const float *streams, float *m)
{
    const hyperparameters *h = &job->s->engine->model->hyper;
    uint32_t n = h->stream_count, all = hyper_connections(h);
    float factor = norm_factor(h, streams);
    for (uint32_t i = 0; i < all; i++)
        m[i] = m[i] * factor * job->c->scale[i / n < 2 ? i / n : 2] + job->c->base[i];
    float more = h->connection_steps > 0 ? 0 : h->connection_epsilon;
    for (uint32_t i = 0; i < 2 * n; i++)
        m[i] = i < n ? logistic(m[i]) + h->connection_epsilon : h->connection_magnitude * logistic(m[i]) + more;
    if (h->connection_steps > 0)
        balance(h, m + (size_t)2 * n);
}

/* ------------------------------------------------------------------ gates */

/* Items are rows. Norms each stream. */
static void norm_streams(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t d = h->embedding_length, all = h->stream_count * d;
    for (size_t t = begin; t < end; t++)
        for (size_t at = 0; at < all; at += d)
            job->s->engine->runtime->kernels.rms_norm(streams_of(job->s, t) + at, job->gates->norm + at,
                                                      h->norm_epsilon, d, job->s->scratch.stream_norms + t * all + at);
}

/* Items are rows. What is between the two matrices goes through silu. */
static void squeeze_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t n = h->connection_rank;
    float *low = job->s->scratch.stream_low + begin * n;
    forward_scale(1 / (float)h->stream_count, (end - begin) * n, low);
    job->s->engine->runtime->kernels.activate[ACTIVATION_SILU](low, NULL, no_terms, (end - begin) * n, low);
}

/* Items are rows. Sets x to the mean of what the gates let through. */
static void open_gates(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const scratch *b = &job->s->scratch;
    const kernels *k = &job->s->engine->runtime->kernels;
    size_t d = h->embedding_length, all = h->stream_count * d;
    for (size_t t = begin; t < end; t++) {
        float *x = b->x + t * d, *gated = b->stream_gates + t * all;
        k->activate[ACTIVATION_LOGISTIC](gated, b->stream_norms + t * all, no_terms, all, gated);
        memcpy(x, gated, d * sizeof *x);
        for (size_t at = d; at < all; at += d)
            k->add(gated + at, d, x);
        forward_scale(1 / (float)h->stream_count, d, x);
    }
    memcpy(b->block_read + begin * d, b->x + begin * d, (end - begin) * d * sizeof *b->x);
}

/* Leaves in x what gates make of the streams, and in stream_weights the products with `inject`, if there is one. */
static void collapse_gated(hearth_session *s, const gated_connection *c, size_t count)
{
    const connecting job = {.s = s, .gates = c};
    const scratch *b = &s->scratch;
    const product products[] = {{&c->down, b->stream_low}, {&c->inject, b->stream_weights}};
    run(&job, count, norm_streams);
    multiply(s, b->stream_norms, count, products, c->inject.data ? 2 : 1);
    run(&job, count, squeeze_rows);
    multiply(s, b->stream_low, count, &(product){&c->up, b->stream_gates}, 1);
    run(&job, count, open_gates);
}

/* Items are rows. Adds the result of a block to each stream, times a weight. */
static void spread_gated(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const scratch *b = &job->s->scratch;
    size_t d = h->embedding_length;
    for (size_t t = begin; t < end; t++)
        for (uint32_t i = 0; i < h->stream_count; i++) {
            float *stream = streams_of(job->s, t) + i * d;
            float weight = 2 * logistic(weights_of(job->s, t)[i] / (float)h->stream_count);
            for (size_t c = t * d; c < (t + 1) * d; c++)
                stream[c - t * d] += weight * (b->x[c] - b->block_read[c]);
        }
}

/* ------------------------------------------------------------------ streams */

/* Sets x to what a block reads of the streams. */
static void collapse(const hyperparameters *h, const float *streams, const float *before, float *x)
{
    size_t d = h->embedding_length;
    for (size_t c = 0; c < d; c++)
        x[c] = before[0] * streams[c];
    for (uint32_t i = 1; i < h->stream_count; i++)
        for (size_t c = 0; c < d; c++)
            x[c] += before[i] * streams[i * d + c];
}

/* Items are rows. */
static void collapse_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    for (size_t t = begin; t < end; t++) {
        float *m = weights_of(job->s, t);
        weigh(job, streams_of(job->s, t), m);
        collapse(h, streams_of(job->s, t), m, job->s->scratch.x + t * h->embedding_length);
    }
}

void connections_collapse(hearth_session *s, uint32_t layer, bool network, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const stream_connection *c = network ? &l->network_connection : &l->mixer_connection;
    if (is_gated(s)) {
        collapse_gated(s, network ? &l->network_gates : &l->mixer_gates, count);
        return;
    }
    multiply(s, s->scratch.streams, count, &(product){&c->weights, s->scratch.stream_weights}, 1);
    run(&(connecting){.s = s, .c = c}, count, collapse_rows);
}

/* Items are rows. Needs scratch.added. */
static void spread_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    uint32_t n = h->stream_count;
    size_t d = h->embedding_length;
    bool mixed = h->connection_steps > 0;
    for (size_t t = begin; t < end; t++) {
        float *streams = streams_of(job->s, t), *read = job->s->scratch.added + t * d;
        const float *x = job->s->scratch.x + t * d, *before = weights_of(job->s, t), *after = before + n;
        const float *mix = after + n;
        collapse(h, streams, before, read);
        for (size_t c = 0; c < d; c++) {
            float old[STREAM_LIMIT], result = x[c] - read[c];
            for (uint32_t i = 0; i < n; i++)
                old[i] = streams[i * d + c];
            for (uint32_t i = 0; i < n; i++) {
                float sum = after[i] * result + (mixed ? 0 : old[i]);
                for (uint32_t j = 0; mixed && j < n; j++)
                    sum += mix[j * n + i] * old[j];
                streams[i * d + c] = sum;
            }
        }
    }
}

void connections_spread(hearth_session *s, size_t count)
{
    run(&(connecting){.s = s}, count, is_gated(s) ? spread_gated : spread_rows);
}

/* ------------------------------------------------------------------ begin and end */

void connections_begin(hearth_session *s, size_t count)
{
    const hyperparameters *h = &s->engine->model->hyper;
    size_t d = h->embedding_length;
    for (size_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < h->stream_count; i++)
            memcpy(streams_of(s, t) + i * d, s->scratch.x + t * d, d * sizeof(float));
}

/* Items are rows. Sets x to the sum of the streams, weighed by their products [S] in stream_weights. */
static void weigh_ends(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    for (size_t t = begin; t < end; t++) {
        float *m = job->s->scratch.stream_weights + t * h->stream_count, *streams = streams_of(job->s, t);
        float factor = norm_factor(h, streams) * job->c->scale[0];
        for (uint32_t i = 0; i < h->stream_count; i++)
            m[i] = logistic(m[i] * factor + job->c->base[i]) + h->connection_epsilon;
        collapse(h, streams, m, job->s->scratch.x + t * h->embedding_length);
    }
}

/* Items are rows. Sets x to the mean of the streams. */
static void take_means(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const connecting *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    const float shares[STREAM_LIMIT] = {1, 1, 1, 1, 1, 1, 1, 1};
    size_t d = h->embedding_length;
    for (size_t t = begin; t < end; t++) {
        float *x = job->s->scratch.x + t * d;
        collapse(h, streams_of(job->s, t), shares, x);
        for (size_t c = 0; c < d; c++)
            x[c] /= (float)h->stream_count;
    }
}

void connections_end(hearth_session *s, size_t count)
{
    const stream_connection *c = &s->engine->model->end_connection;
    if (is_gated(s)) {
        collapse_gated(s, &s->engine->model->end_gates, count);
    } else if (c->weights.data) {
        multiply(s, s->scratch.streams, count, &(product){&c->weights, s->scratch.stream_weights}, 1);
        run(&(connecting){.s = s, .c = c}, count, weigh_ends);
    } else
        run(&(connecting){.s = s}, count, take_means);
}
