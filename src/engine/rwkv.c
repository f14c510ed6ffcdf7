/* rwkv.c - the mixer of RWKV-7: mixtures of each token with the one before, products, the steps of the states, a norm by heads, a
 * gate, a product (recurrent_shape in model/layer.h); and the mixture that its networks read.
 *
 * What is kept of the token before lies in the state as the inputs of a convolution of two tokens do: those of the mixer, then
 * those of the network. */
#include "rwkv.h"

#include "forward.h"
#include "inputs_internal.h"
#include "products.h"
#include "recurrent.h"

#include <math.h>
#include <string.h>

/* -ln of the least that a state keeps in a token. */
#define LARGEST_DECAY 0.6065306597126334f
/* Keeps what is removed finite where a key is zero. */
#define SMALLEST_LENGTH 1e-12f

typedef struct rwkv_job {
    hearth_session *s;
    const model_layer *l;
    const recurrent_layer *at; /* in the states */
    size_t width;
    float *mixture, *difference; /* [B][d]  of scratch.convolved, which has room for both */
} rwkv_job;

static rwkv_job job_of(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    size_t width = recurrent_width(&l->recurrent);
    return (rwkv_job){s,
                      l,
                      &s->recurrent.layers[s->engine->layers[layer].cache_index],
                      width,
                      s->scratch.convolved,
                      s->scratch.convolved + count * width};
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* ------------------------------------------------------------------ mixtures */

/* Columns per work item. */
#define MIXED_COLUMNS 512

typedef struct difference_job {
    const rwkv_job *job;
    size_t at;
} difference_job;

/* Items are columns. Makes job->difference of the rows of scratch.normed: that of the token before less the row's own. The last row
 * of each sequence is kept `at` floats behind the beginning of the inputs in its state. */
static void difference_columns(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const difference_job *work = context;
    const rwkv_job *job = work->job;
    const scratch *b = &job->s->scratch;
    const recurrent_states *states = &job->s->recurrent;
    size_t d = job->width, offset = recurrent_inputs_at(&job->l->recurrent) + work->at;
    for (size_t i = 0; i < b->run_count; i++) {
        const row_run *run = &b->runs[i];
        const float *kept = recurrent_before(states, job->at, run), *row = b->normed + run->first * d;
        float *to = job->difference + run->first * d;
        for (size_t k = begin; k < end; k++)
            to[k] = (kept ? kept[offset + k] : 0) - row[k];
        for (size_t t = 1; t < run->count; t++)
            for (size_t k = begin; k < end; k++)
                to[t * d + k] = row[(t - 1) * d + k] - row[t * d + k];
        memcpy(recurrent_after(states, job->at, run) + offset + begin, row + (run->count - 1) * d + begin,
               (end - begin) * sizeof *row);
    }
}

static void difference_rows(const rwkv_job *job, size_t at)
{
    difference_job work = {job, at};
    pool_run(job->s->engine->runtime->threads, job->width, MIXED_COLUMNS, difference_columns, &work);
}

typedef struct mixing_job {
    const rwkv_job *job;
    const float *mix;
    float *to; /* [B][d]; may be scratch.normed */
} mixing_job;

/* Items are rows. Makes their mixtures: x + mix * difference. */
static void mix_items(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing_job *work = context;
    size_t d = work->job->width;
    for (size_t i = begin; i < end; i++) {
        const float *x = work->job->s->scratch.normed + i * d, *difference = work->job->difference + i * d;
        for (size_t k = 0; k < d; k++)
            work->to[i * d + k] = x[k] + work->mix[k] * difference[k];
    }
}

static void mix_rows(const rwkv_job *job, const float *mix, size_t count, float *to)
{
    mixing_job work = {job, mix, to};
    pool_run(job->s->engine->runtime->threads, count, 1, mix_items, &work);
}

void rwkv_mix_network(hearth_session *s, uint32_t layer, size_t count)
{
    rwkv_job job = job_of(s, layer, count);
    difference_rows(&job, job.width);
    mix_rows(&job, job.l->network_mix, count, s->scratch.normed);
}

/* ------------------------------------------------------------------ products */

typedef struct squashing_job {
    float *hidden; /* [B][rank] */
    size_t rank;
    bool decay;
} squashing_job;

/* Items are rows. Applies the activation between the two matrices of the decay's map, or of the gate's. */
static void squash_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const squashing_job *work = context;
    for (size_t i = begin * work->rank; i < end * work->rank; i++)
        work->hidden[i] = work->decay ? tanhf(work->hidden[i]) : sigmoid(work->hidden[i]);
}

/* Multiplies what the first matrix of a map of low rank made with the second one. */
static void widen(const rwkv_job *job, low_rank_use which, size_t count, float *out)
{
    float *hidden = job->s->scratch.columns.hidden;
    squashing_job work = {hidden, job->l->recurrent.ranks[which], which == MAP_DECAY};
    if (which == MAP_DECAY || which == MAP_GATE)
        pool_run(job->s->engine->runtime->threads, count, 1, squash_rows, &work);
    multiply(job->s, hidden, count, &(product){&job->l->low_rank[which].out, out}, 1);
}

/* Makes all that the steps of the states begin with; of the values' shares, in scratch.mixed, they are needed no more. */
static void project(const rwkv_job *job, uint32_t layer, size_t count)
{
    const model_layer *l = job->l;
    hearth_session *s = job->s;
    scratch *b = &s->scratch;
    const column_buffers *w = &b->columns;
    const struct {
        rwkv_input input;
        input_place place; /* where a large matrix reads it; INPUT_PLACES: none does */
        const matrix *whole;
        float *to;
        low_rank_use which; /* LOW_RANK_MAPS: none */
        float *low_rank_to;
    } each[] = {
        {RWKV_IN_QUERY, INPUT_ATTENTION, &l->q, w->query, LOW_RANK_MAPS, NULL},
        {RWKV_IN_KEY, INPUT_MIXED_KEY, &l->k, w->key, LOW_RANK_MAPS, NULL},
        {RWKV_IN_VALUE, INPUT_MIXED_VALUE, &l->v, w->value, MAP_VALUE, b->mixed},
        {RWKV_IN_DECAY, INPUT_PLACES, NULL, NULL, MAP_DECAY, w->decay},
        {RWKV_IN_RATE, INPUT_PLACES, NULL, NULL, MAP_RATE, w->removed},
        {RWKV_IN_GATE, INPUT_PLACES, NULL, NULL, MAP_GATE, b->recurrent_gate},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        product products[2];
        size_t n = 0;
        bool narrow = each[i].which != LOW_RANK_MAPS && l->recurrent.ranks[each[i].which] > 0;
        mix_rows(job, l->input_mix + each[i].input * job->width, count, job->mixture);
        if (each[i].whole)
            products[n++] = (product){each[i].whole, each[i].to};
        if (narrow)
            products[n++] = (product){&l->low_rank[each[i].which].in, w->hidden};
        if (each[i].place != INPUT_PLACES)
            inputs_see(s, layer, each[i].place, job->mixture, count);
        multiply(s, job->mixture, count, products, n);
        if (narrow)
            widen(job, each[i].which, count, each[i].low_rank_to);
    }
}

/* ------------------------------------------------------------------ steps */

/* Items are rows. Makes decays, keys, values, what is asked, and, of the rate at which the state learns, what is removed. */
static void prepare_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const rwkv_job *job = context;
    const model_layer *l = job->l;
    const column_buffers *w = &job->s->scratch.columns;
    size_t d = job->width, n = l->recurrent.key_length;
    bool first = l->recurrent.ranks[MAP_VALUE] == 0;
    const float *share_bias = l->low_rank[MAP_VALUE].bias, *decay_bias = l->low_rank[MAP_DECAY].bias,
                *rate_bias = l->low_rank[MAP_RATE].bias;
    for (size_t at = begin * d; at < end * d; at += n) {
        size_t head = at % d;
        float *key = w->key + at, *value = w->value + at, *decay = w->decay + at, *rate = w->removed + at;
        float *asked = w->asked + at, *first_value = w->first_value + at, squares = 0;
        const float *share = job->s->scratch.mixed + at;
        for (size_t k = 0; k < n; k++) {
            asked[k] = key[k] * l->removal_scale[head + k];
            squares += asked[k] * asked[k];
        }
        float length = sqrtf(squares);
        float scale = 1 / (length > SMALLEST_LENGTH ? length : SMALLEST_LENGTH);
        for (size_t k = 0; k < n; k++) {
            float learns = sigmoid(rate[k] + rate_bias[head + k]);
            decay[k] = expf(-LARGEST_DECAY * sigmoid(decay[k] + decay_bias[head + k]));
            key[k] *= 1 + (learns - 1) * l->rate_share[head + k];
            asked[k] *= scale;
            rate[k] = asked[k] * learns;
            if (first)
                first_value[k] = value[k];
            else
                value[k] += (first_value[k] - value[k]) * sigmoid(share[k] + share_bias[head + k]);
        }
    }
}

/* Items are rows. Norms each head's result, adds its value times the bonus of query and key, and applies the gate. */
static void finish_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const rwkv_job *job = context;
    const model_layer *l = job->l;
    const scratch *b = &job->s->scratch;
    const kernels *level = &job->s->engine->runtime->kernels;
    size_t d = job->width, n = l->recurrent.value_length;
    for (size_t at = begin * d; at < end * d; at += n) {
        size_t head = at % d;
        const float *query = b->columns.query + at, *key = b->columns.key + at, *value = b->columns.value + at;
        float *y = b->mixed + at, bonus = 0;
        level->layer_norm(y, l->recurrent_norm + head, l->recurrent_norm_bias + head, RWKV_HEAD_EPSILON, n, y);
        for (size_t k = 0; k < n; k++)
            bonus += query[k] * key[k] * l->bonus[head + k];
        for (size_t k = 0; k < n; k++)
            y[k] = (y[k] + bonus * value[k]) * b->recurrent_gate[at + k];
    }
}

void rwkv_mix(hearth_session *s, uint32_t layer, size_t count)
{
    rwkv_job job = job_of(s, layer, count);
    pool *threads = s->engine->runtime->threads;
    difference_rows(&job, 0);
    project(&job, layer, count);
    pool_run(threads, count, 1, prepare_rows, &job);
    recurrent_step_columns(s, layer);
    pool_run(threads, count, 1, finish_rows, &job);
}
