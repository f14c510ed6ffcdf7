/* kda.c - Kimi Delta Attention: products, a convolution, the steps of the states, a norm by heads, a gate. */
#include "kda.h"

#include "forward.h"
#include "products.h"
#include "recurrent.h"

#include <math.h>
#include <string.h>

typedef struct kda_job {
    hearth_session *s;
    const model_layer *l;
    size_t width;
} kda_job;

/* Items are rows. Puts queries, keys and values side by side in scratch.convolved. */
static void join_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const kda_job *job = context;
    const scratch *b = &job->s->scratch;
    for (size_t i = begin, n = job->width; i < end; i++) {
        const float *const each[] = {b->columns.query + i * n, b->columns.key + i * n, b->columns.value + i * n};
        for (size_t k = 0; k < 3; k++)
            memcpy(b->convolved + (3 * i + k) * n, each[k], n * sizeof *each[k]);
    }
}

/* Multiplies the input with all matrices that read it, and what the first ones of low rank make with those behind them. */
static void project(kda_job *job, size_t count)
{
    const model_layer *l = job->l;
    scratch *b = &job->s->scratch;
    const column_buffers *c = &b->columns;
    const uint32_t *ranks = l->recurrent.ranks;
    float *gates = c->hidden + count * ranks[MAP_DECAY];
    const product of_input[] = {{&l->q, c->query},
                                {&l->k, c->key},
                                {&l->v, c->value},
                                {&l->beta, b->beta},
                                {&l->low_rank[MAP_DECAY].in, ranks[MAP_DECAY] > 0 ? c->hidden : c->decay},
                                {&l->low_rank[MAP_GATE].in, ranks[MAP_GATE] > 0 ? gates : b->recurrent_gate}};
    multiply(job->s, b->normed, count, of_input, sizeof of_input / sizeof *of_input);
    if (ranks[MAP_DECAY] > 0)
        multiply(job->s, c->hidden, count, &(product){&l->low_rank[MAP_DECAY].out, c->decay}, 1);
    if (ranks[MAP_GATE] > 0)
        multiply(job->s, gates, count, &(product){&l->low_rank[MAP_GATE].out, b->recurrent_gate}, 1);
    pool_run(job->s->engine->runtime->threads, count, 1, join_rows, job);
}

/* Returns what a column of a head's state keeps, of what the matrices have made of the input, with its bias. */
static float kept(const model_layer *l, size_t head, float x)
{
    float floor = l->recurrent.decay_floor, rate = fabsf(l->decay[head]);
    return expf(floor < 0 ? floor / (1 + expf(-rate * x)) : -rate * forward_softplus(x));
}

/* Items are rows. Makes what the steps begin with of what was convolved. */
static void prepare_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const kda_job *job = context;
    const model_layer *l = job->l;
    const scratch *b = &job->s->scratch;
    const column_buffers *c = &b->columns;
    size_t n = l->recurrent.key_length, heads = l->recurrent.head_count, width = job->width;
    for (size_t i = begin; i < end; i++) {
        float *query = b->convolved + 3 * i * width, *key = query + width;
        recurrent_normalise(query, heads, n, sqrtf((float)n));
        recurrent_normalise(key, heads, n, 1);
        memcpy(c->query + i * width, query, width * sizeof *query);
        memcpy(c->value + i * width, query + 2 * width, width * sizeof *query);
        for (size_t k = 0; k < width; k++) {
            size_t h = k / n, at = i * width + k;
            float gain = 1 / (1 + expf(-b->beta[i * heads + h]));
            c->decay[at] = kept(l, h, c->decay[at] + l->low_rank[MAP_DECAY].bias[k]);
            c->asked[at] = c->decay[at] * key[k];
            c->key[at] = c->removed[at] = gain * key[k];
        }
    }
}

/* Items are rows. Norms each head's result and applies the gate. */
static void finish_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const kda_job *job = context;
    const scratch *b = &job->s->scratch;
    const hearth_engine *e = job->s->engine;
    size_t n = job->l->recurrent.value_length;
    for (size_t at = begin * job->width; at < end * job->width; at += n) {
        float *y = b->mixed + at;
        e->runtime->kernels.rms_norm(y, job->l->recurrent_norm, e->model->hyper.norm_epsilon, n, y);
        for (size_t k = 0; k < n; k++)
            y[k] /= 1 + expf(-b->recurrent_gate[at + k]);
    }
}

void kda_mix(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    kda_job job = {s, l, recurrent_width(&l->recurrent)};
    pool *threads = s->engine->runtime->threads;
    project(&job, count);
    recurrent_convolve(s, layer);
    pool_run(threads, count, 1, prepare_rows, &job);
    recurrent_step_columns(s, layer);
    pool_run(threads, count, 1, finish_rows, &job);
}
