/* streams.c - see streams.h. With the streams h, and a the active one:
 *
 *   w = tanh(router rms(x) / d)                  of x = h_a before a layer, and of its result after it
 *   p_i = h_i + sum_j (predict w)_ij h_j         prediction
 *   h_i = p_i + (1 + (correct w)_i) (x - p_a)    correction, x the result of the layer on p_a
 *
 * The other streams begin and end with a matrix each, and with the magnitude of the first. */
#include "streams.h"

#include "forward.h"
#include "per_layer.h"
#include "products.h"

#include <math.h>
#include <string.h>

/* Least mean square, where a stream is brought to the magnitude of another. */
static const double least_square = 1e-5;

typedef struct stream_job {
    const hearth_session *s;
    const model_layer *l;
    uint32_t stream;
} stream_job;

/* Returns the rows [B][d] of a stream. */
static float *stream(const hearth_session *s, size_t i)
{
    return s->scratch.streams + i * s->batch * s->engine->model->hyper.embedding_length;
}

static void run(const stream_job *job, size_t count, void (*work)(void *, size_t, size_t, unsigned))
{
    stream_job own = *job;
    pool_run(job->s->engine->runtime->threads, count, 1, work, &own);
}

static double mean_square(const float *x, size_t d)
{
    double squares = 0;
    for (size_t i = 0; i < d; i++)
        squares += (double)x[i] * (double)x[i];
    return fmax(squares / (double)d, least_square);
}

/* ------------------------------------------------------------------ begin and end */

/* Items are rows. Brings the rows of a stream to the magnitude of the first stream's. */
static void match_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const stream_job *job = context;
    size_t d = job->s->engine->model->hyper.embedding_length;
    for (size_t t = begin; t < end; t++) {
        float *row = stream(job->s, job->stream) + t * d;
        float factor = (float)sqrt(mean_square(stream(job->s, 0) + t * d, d) / mean_square(row, d));
        for (size_t i = 0; i < d; i++)
            row[i] *= factor;
    }
}

void streams_begin(hearth_session *s, size_t count)
{
    const hearth_model *m = s->engine->model;
    uint32_t d = m->hyper.embedding_length;
    memcpy(stream(s, 0), s->scratch.x, count * d * sizeof(float));
    for (uint32_t i = 1; i < m->hyper.stream_count; i++) {
        matrix in = matrix_rows(&m->stream_in, (size_t)(i - 1) * d, d);
        multiply(s, s->scratch.x, count, &(product){&in, stream(s, i)}, 1);
        run(&(stream_job){.s = s, .stream = i}, count, match_rows);
    }
}

/* Items are rows. */
static void average_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const stream_job *job = context;
    const hyperparameters *h = &job->s->engine->model->hyper;
    size_t d = h->embedding_length;
    for (size_t t = begin; t < end; t++) {
        float *x = job->s->scratch.x + t * d;
        memcpy(x, stream(job->s, 0) + t * d, d * sizeof *x);
        for (uint32_t i = 1; i < h->stream_count; i++)
            job->s->engine->runtime->kernels.add(stream(job->s, i) + t * d, d, x);
        for (size_t c = 0; c < d; c++)
            x[c] /= (float)h->stream_count;
    }
}

void streams_end(hearth_session *s, size_t count)
{
    const hearth_model *m = s->engine->model;
    uint32_t d = m->hyper.embedding_length;
    for (uint32_t i = 1; i < m->hyper.stream_count; i++) {
        matrix out = matrix_rows(&m->stream_out, (size_t)(i - 1) * d, d);
        multiply(s, stream(s, i), count, &(product){&out, s->scratch.added}, 1);
        memcpy(stream(s, i), s->scratch.added, (size_t)count * d * sizeof(float));
        run(&(stream_job){.s = s, .stream = i}, count, match_rows);
    }
    run(&(stream_job){.s = s}, count, average_rows);
}

/* ------------------------------------------------------------------ a layer */

/* Computes w of every row of x in scratch.stream_weights; scratch.added is overwritten. */
static void weigh(hearth_session *s, const model_layer *l, const float *x, size_t count)
{
    const hyperparameters *h = &s->engine->model->hyper;
    const scratch *b = &s->scratch;
    forward_norm(s, &l->streams.router_norm, h->embedding_length, count, x, b->added);
    multiply(s, b->added, count, &(product){&l->streams.router, b->stream_weights}, 1);
    for (size_t i = 0; i < count * h->stream_count; i++)
        b->stream_weights[i] = tanhf(b->stream_weights[i] / (float)h->embedding_length);
}

/* Multiplies a row of a small matrix of S columns with w. */
static float weighed(const float *row, const float *w, uint32_t streams)
{
    float sum = 0;
    for (uint32_t i = 0; i < streams; i++)
        sum += row[i] * w[i];
    return sum;
}

/* Items are rows. */
static void predict_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const stream_job *job = context;
    const hearth_session *s = job->s;
    const hyperparameters *h = &s->engine->model->hyper;
    uint32_t n = h->stream_count;
    size_t d = h->embedding_length, apart = s->batch * d;
    for (size_t t = begin; t < end; t++) {
        float factors[STREAM_LIMIT * STREAM_LIMIT], old[STREAM_LIMIT], *row = stream(s, 0) + t * d;
        for (uint32_t i = 0; i < n * n; i++)
            factors[i] = weighed(job->l->streams.predict + (size_t)i * n, s->scratch.stream_weights + t * n, n);
        for (size_t c = 0; c < d; c++, row++) {
            for (uint32_t i = 0; i < n; i++)
                old[i] = row[i * apart];
            for (uint32_t i = 0; i < n; i++)
                row[i * apart] = old[i] + weighed(factors + i * n, old, n);
        }
        memcpy(s->scratch.x + t * d, stream(s, h->active_stream) + t * d, d * sizeof(float));
    }
}

void streams_predict(hearth_session *s, uint32_t layer, size_t count)
{
    const hearth_model *m = s->engine->model;
    weigh(s, &m->layers[layer], stream(s, m->hyper.active_stream), count);
    run(&(stream_job){.s = s, .l = &m->layers[layer]}, count, predict_rows);
}

void streams_beside(hearth_session *s, uint32_t layer, size_t count)
{
    const stream_weights *w = &s->engine->model->layers[layer].streams;
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length;
    multiply(s, b->normed, count, &(product){&w->laurel_in, b->laurel_in}, 1);
    multiply(s, b->laurel_in, count, &(product){&w->laurel_out, b->laurel}, 1);
    forward_norm(s, &w->laurel_norm, d, count, b->laurel, b->laurel);
    s->engine->runtime->kernels.add(b->normed, count * d, b->laurel);
}

void streams_join(hearth_session *s, size_t count)
{
    const scratch *b = &s->scratch;
    const float half = 1 / sqrtf(2);
    for (size_t i = 0; i < count * s->engine->model->hyper.embedding_length; i++)
        b->x[i] = (b->x[i] + b->laurel[i]) * half;
}

/* Items are rows. Leaves the corrected active stream, as the layer's own input sees it, in scratch.added. */
static void correct_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const stream_job *job = context;
    const hearth_session *s = job->s;
    const hyperparameters *h = &s->engine->model->hyper;
    uint32_t n = h->stream_count, active = h->active_stream;
    size_t d = h->embedding_length;
    const float *scales = job->l->streams.correct_scale;
    for (size_t t = begin; t < end; t++) {
        float *change = s->scratch.added + t * d, *own = stream(s, active) + t * d;
        for (size_t c = 0; c < d; c++)
            change[c] = s->scratch.x[t * d + c] - own[c];
        for (uint32_t i = 0; i < n; i++) {
            float *row = stream(s, i) + t * d;
            float factor = 1 + weighed(job->l->streams.correct + (size_t)i * n, s->scratch.stream_weights + t * n, n);
            for (size_t c = 0; c < d; c++)
                row[c] += factor * change[c];
        }
        for (size_t c = 0; c < d; c++)
            change[c] = scales ? own[c] * scales[c] : own[c];
    }
}

void streams_correct(hearth_session *s, uint32_t layer, size_t count)
{
    const hearth_model *m = s->engine->model;
    const model_layer *l = &m->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = m->hyper.embedding_length;
    weigh(s, l, b->x, count);
    run(&(stream_job){.s = s, .l = l}, count, correct_rows);
    if (!l->per_layer_gate.data)
        return;
    per_layer_apply(s, layer, count, b->added, b->normed);
    forward_norm(s, &l->per_layer_post_norm, d, count, b->normed, b->normed);
    for (uint32_t i = 1; i < m->hyper.stream_count; i++)
        s->engine->runtime->kernels.add(b->normed, count * d, stream(s, i));
}
