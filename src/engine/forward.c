/* forward.c - the forward pass on the CPU.
 *
 * There is no graph: a layer is a mixer and a feed-forward network, each a function that calls ops in
 * order. All rows of a slice go through an op together, so a prompt is a series of matrix products and a
 * single token is the same code with one row. Work is dealt to the pool by rows of weights or by
 * rows of the slice; no result depends on who computed it. */
#include "forward.h"

#include <math.h>
#include <string.h>

/* Weight bytes in one run of dealt work, where memory is what limits. The kernels read several streams of rows
 * at once, and streams need length (src/kernel/README.md): decoding Q4_0 took 51 tokens/s in runs of at most 256 KiB and
 * 55 in runs of 1 MiB, more gave nothing. Small matrices are cut shorter, so that no thread waits long for the last run. */
#define RUN_BYTES_MOST  ((size_t)1024 * 1024)
#define RUN_BYTES_LEAST ((size_t)64 * 1024)
#define RUNS_PER_THREAD 4
/* Rows of weights per run when many tokens share them: whole tiles of the matrix kernels. Runs of one token are
 * whole multiples of the streams. */
#define RUN_ROWS 32
#define STREAMS  8

/* ------------------------------------------------------------------ products */

/* y [count][stride] = x times the rows of w. */
typedef struct product {
    const matrix *w;
    float *y;
} product;

#define MAX_PRODUCTS 3

typedef struct product_job {
    const kernels *kernels;
    const product *products;
    size_t count;
    kernel_input x;
} product_job;

/* Items are the rows of all products, one matrix after the other. */
static void multiply_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const product_job *job = context;
    size_t first = 0; /* item that is row 0 of product i */
    for (size_t i = 0; i < job->count && first < end; first += job->products[i++].w->rows) {
        const matrix *w = job->products[i].w;
        size_t from = begin > first ? begin - first : 0;
        size_t to = end - first < w->rows ? end - first : w->rows;
        if (from < to)
            job->kernels->product[w->format](w, NULL, from, to, &job->x, job->products[i].y, w->rows);
    }
}

typedef struct quantize_job {
    const kernels *kernels;
    const scratch *s;
    const float *x;
    size_t columns;
} quantize_job;

static void quantize_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const quantize_job *job = context;
    size_t n = job->columns;
    for (size_t i = begin; i < end; i++)
        job->kernels->quantize(job->x + i * n, n, job->s->q + i * n, job->s->q_scales + i * (n / Q8_BLOCK),
                               job->s->q_sums + i * (n / Q8_SUM));
}

/* Rows per run. */
static size_t choose_grain(size_t count, size_t rows, size_t bytes, unsigned threads)
{
    if (count > 1)
        return RUN_ROWS;
    size_t run = bytes / threads / RUNS_PER_THREAD;
    run = run < RUN_BYTES_LEAST ? RUN_BYTES_LEAST : run > RUN_BYTES_MOST ? RUN_BYTES_MOST : run;
    return (run * rows / bytes / STREAMS + 1) * STREAMS;
}

/* Multiplies x [count][columns] with up to MAX_PRODUCTS matrices of that many columns at once. */
static void multiply(const hearth_session *s, const float *x, size_t count, const product *products, size_t n)
{
    const hearth_runtime *r = s->engine->runtime;
    const scratch *b = &s->scratch;
    size_t columns = products[0].w->columns;
    product_job job = {&r->kernels, products, n, {.count = count, .columns = columns, .values = x}};

    bool rounds = false;
    size_t rows = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        rounds |= number_is_block(products[i].w->format);
        rows += products[i].w->rows;
        bytes += products[i].w->rows * products[i].w->row_bytes;
    }
    if (rounds && s->engine->activations == HEARTH_ACTIVATIONS_AUTO) {
        quantize_job rounding = {&r->kernels, b, x, columns};
        pool_run(r->threads, count, 1, quantize_rows, &rounding);
        job.x.q = b->q;
        job.x.scales = b->q_scales;
        job.x.sums = b->q_sums;
    }
    pool_run(r->threads, rows, choose_grain(count, rows, bytes, pool_threads(r->threads)), multiply_rows, &job);
}

/* ------------------------------------------------------------- rows of a slice */

typedef struct norm_job {
    const hearth_session *s;
    const float *weight;
} norm_job;

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

static void norm(const hearth_session *s, const float *weight, size_t count)
{
    norm_job job = {s, weight};
    pool_run(s->engine->runtime->threads, count, 1, norm_rows, &job);
}

/* The residual stream receives what a block computed. */
static void add_to_residual(const hearth_session *s, size_t count)
{
    size_t d = s->engine->model->hyper.embedding_length;
    s->engine->runtime->kernels.add(s->scratch.added, count * d, s->scratch.x);
}

/* -------------------------------------------------------------------- attention */

typedef struct attention_job {
    hearth_session *s;
    uint32_t layer;
} attention_job;

/* Items are rows: rotates query and key to the row's position, stores key and value. */
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
        kv_store(&job->s->cache, k, job->layer, b->sequence[i], b->position[i], key, b->value + i * kv_width);
    }
}

/* Items are pairs (row, key/value head): the group of query heads that share it. */
static void attend_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    const attention_job *job = context;
    const hearth_session *s = job->s;
    const scratch *b = &s->scratch;
    const hyperparameters *h = &s->engine->model->hyper;
    const kernels *k = &s->engine->runtime->kernels;
    uint32_t group = h->head_count / h->kv_head_count;
    float *scores = b->scores + (size_t)worker * group * s->context;
    size_t position_bytes = h->head_length * kv_formats[s->cache.format].value_bytes;
    for (size_t item = begin; item < end; item++) {
        size_t row = item / h->kv_head_count;
        uint32_t head = (uint32_t)(item % h->kv_head_count), seen = b->position[row] + 1, first = 0;
        if (h->sliding_window && seen > h->sliding_window)
            first = seen - h->sliding_window;
        size_t offset = (row * h->head_count + head * group) * h->head_length;
        const char *keys = kv_keys(&s->cache, job->layer, b->sequence[row], head);
        const char *values = kv_values(&s->cache, job->layer, b->sequence[row], head);
        (s->cache.format == HEARTH_KV_F16 ? k->attend_f16 : k->attend_f32)(
            b->query + offset, group, keys + first * position_bytes, values + first * position_bytes, seen - first,
            h->head_length, h->attention_scale, scores, b->mixed + offset);
    }
}

static void attention(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    pool *threads = s->engine->runtime->threads;
    attention_job job = {s, layer};

    norm(s, l->attention_norm, count);
    multiply(s, b->normed, count, (product[]){{&l->q, b->query}, {&l->k, b->key}, {&l->v, b->value}}, 3);
    pool_run(threads, count, 1, place_rows, &job);
    pool_run(threads, count * s->engine->model->hyper.kv_head_count, 1, attend_heads, &job);
    multiply(s, b->mixed, count, &(product){&l->attention_output, b->added}, 1);
    add_to_residual(s, count);
}

/* ---------------------------------------------------------- feed-forward network */

typedef struct activate_job {
    const hearth_session *s;
} activate_job;

static void activate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const hearth_session *s = ((const activate_job *)context)->s;
    const hyperparameters *h = &s->engine->model->hyper;
    size_t f = h->neuron_count;
    for (size_t i = begin; i < end; i++) {
        float *gate = s->scratch.gate + i * f;
        s->engine->runtime->kernels.activate[ffn_activations[h->activation].kernel](gate, s->scratch.up + i * f,
                                                                                    h->activation_threshold, f, gate);
    }
}

static void observe(const hearth_session *s, uint32_t layer, size_t count)
{
    if (!s->observer.see)
        return;
    const hyperparameters *h = &s->engine->model->hyper;
    for (size_t i = 0; i < count; i++) {
        hearth_observation seen = {
            .layer = layer,
            .sequence = s->scratch.sequence[i],
            .position = s->scratch.position[i],
            .residual = s->scratch.x + i * h->embedding_length,
            .ffn_input = s->scratch.normed + i * h->embedding_length,
            .activations = s->scratch.gate + i * h->neuron_count,
            .neuron_count = h->neuron_count,
        };
        s->observer.see(s->observer.user, &seen);
    }
}

/* Gated, all neurons: added = down (act(gate x) * up x). */
static void feed_forward(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    activate_job job = {s};

    norm(s, l->ffn_norm, count);
    multiply(s, b->normed, count, (product[]){{&l->gate, b->gate}, {&l->up, b->up}}, 2);
    pool_run(s->engine->runtime->threads, count, 1, activate_rows, &job);
    multiply(s, b->gate, count, &(product){&l->down, b->added}, 1);
    observe(s, layer, count); /* before x changes: observers see the residual as the network read it */
    add_to_residual(s, count);
}

/* ------------------------------------------------------------------------- slice */

/* Cosine and sine of every row's position, the same for all layers. */
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

static void embed(const hearth_session *s, const hearth_row *rows, size_t count)
{
    const matrix *e = &s->engine->model->embedding;
    for (size_t i = 0; i < count; i++)
        number_formats[e->format].decode(matrix_row(e, (size_t)rows[i].token), s->scratch.x + i * e->columns,
                                         e->columns);
}

/* After each layer: has anybody called for a stop? Single tokens report nothing, they are quick. */
static bool goes_on(hearth_session *s, uint32_t layer, size_t count, size_t done, size_t total)
{
    if (atomic_load_explicit(&s->cancelled, memory_order_relaxed))
        return false;
    if (count == 1 || !s->progress.report)
        return true;
    size_t part = count * (layer + 1) / s->engine->model->hyper.layer_count;
    return s->progress.report(s->progress.user, "tokens read", done + part, total);
}

hearth_status forward_slice(hearth_session *s, const hearth_row *rows, size_t count, size_t done, size_t total,
                            hearth_error *error)
{
    prepare_rope(s, count);
    embed(s, rows, count);
    for (uint32_t layer = 0; layer < s->engine->model->hyper.layer_count; layer++) {
        attention(s, layer, count);
        feed_forward(s, layer, count);
        if (!goes_on(s, layer, count, done, total))
            return fail(error, HEARTH_CANCELLED, "feed: cancelled after %zu of %zu tokens", done, total);
    }
    return HEARTH_OK;
}

void forward_output(const hearth_session *s, size_t row, float *out)
{
    const hearth_engine *e = s->engine;
    size_t d = e->model->hyper.embedding_length;
    e->runtime->kernels.rms_norm(s->scratch.x + row * d, e->model->output_norm, e->model->hyper.norm_epsilon, d, out);
}

void forward_head(hearth_session *s, const float *hidden, size_t count, float *logits)
{
    multiply(s, hidden, count, &(product){&s->engine->model->head, logits}, 1);
}
