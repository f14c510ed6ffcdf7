/* recurrent.c - recurrent mixers: products, a convolution, the steps of the states, a norm with a gate, a product. Short
 * convolutions: products, a gate, a convolution, a gate, a product. Those of RWKV-7 and Kimi Linear are in rwkv.c
 * and kda.c.
 *
 * The rows of a batch are cut into runs, neighbouring rows of one sequence. Heads and channels are independent of each
 * other, so they are what is dealt to threads; each goes through all runs in order. */
#include "recurrent.h"

#include "forward.h"
#include "inputs_internal.h"
#include "kda.h"
#include "products.h"
#include "rwkv.h"
#include "state.h"

#include <math.h>
#include <string.h>

/* Channels of the convolution per work item. */
#define CHANNELS 256

typedef struct mixing {
    hearth_session *s;
    const model_layer *l;
    const recurrent_layer *at; /* in the states */
} mixing;

/* ------------------------------------------------------------------ runs */

void recurrent_begin_batch(hearth_session *s, size_t count)
{
    scratch *b = &s->scratch;
    b->run_count = 0;
    for (size_t i = 0; s->recurrent.layer_count > 0 && i < count; i++) {
        row_run *last = b->run_count > 0 ? &b->runs[b->run_count - 1] : NULL;
        if (last && last->sequence == b->sequence[i]) {
            last->count++;
            continue;
        }
        row_run run = {.sequence = b->sequence[i], .first = (uint32_t)i, .count = 1, .fresh = b->position[i] == 0};
        for (size_t k = 0; k < b->run_count && !run.again; k++)
            run.again = b->runs[k].sequence == run.sequence;
        b->runs[b->run_count++] = run;
    }
}

void recurrent_end_batch(hearth_session *s, size_t count)
{
    recurrent_states *each[RECURRENT_SIDES];
    for (size_t k = session_recurrents(s, each); k-- > 0;)
        for (size_t i = 0; i < count; i++)
            each[k]->moved[s->scratch.sequence[i]] = 1;
}

const float *recurrent_before(const recurrent_states *states, const recurrent_layer *at, const row_run *run)
{
    uint32_t from = run->again ? recurrent_to(states, run->sequence) : recurrent_from(states, run->sequence);
    return run->fresh ? NULL : recurrent_place(states, from) + at->begin;
}

float *recurrent_after(const recurrent_states *states, const recurrent_layer *at, const row_run *run)
{
    return recurrent_place(states, recurrent_to(states, run->sequence)) + at->begin;
}

/* ------------------------------------------------------------------ convolution */

/* Convolves `n` channels of a run in place, from `first` on, the last token first, so that inputs are still there. */
static void convolve(const mixing *m, const row_run *run, size_t first, size_t n)
{
    const recurrent_shape *r = &m->l->recurrent;
    const kernels *k = &m->s->engine->runtime->kernels;
    size_t channels = recurrent_channels(r), window = r->window, tail_bytes = n * sizeof(float);
    float tail[CONVOLUTION_LIMIT * CHANNELS], sum[CHANNELS];
    float *rows = m->s->scratch.convolved + run->first * channels + first;
    const float *before = recurrent_before(&m->s->recurrent, m->at, run);
    float *after = recurrent_after(&m->s->recurrent, m->at, run) + recurrent_inputs_at(r) + first;
    for (size_t i = 0; i + 1 < window; i++) {
        if (before)
            memcpy(tail + i * n, before + recurrent_inputs_at(r) + i * channels + first, tail_bytes);
        else
            memset(tail + i * n, 0, tail_bytes);
    }
    /* The tail of the next tokens: the last inputs, of this run or from before. */
    for (size_t i = 0; i + 1 < window; i++) {
        size_t age = window - 1 - i; /* 1: the last token */
        memcpy(after + i * channels,
               age <= run->count ? rows + (run->count - age) * channels : tail + (i + run->count) * n, tail_bytes);
    }
    for (size_t t = run->count; t-- > 0;) {
        for (size_t c = 0; c < n; c++)
            sum[c] = m->l->convolution_bias ? m->l->convolution_bias[first + c] : 0;
        for (size_t i = 0; i < window; i++) {
            const float *x = t + i + 1 >= window ? rows + (t + i + 1 - window) * channels : tail + (t + i) * n;
            const float *weights = m->l->convolution + first * window + i;
            for (size_t c = 0; c < n; c++)
                sum[c] += weights[c * window] * x[c];
        }
        if (m->l->recurrent.rule == RECURRENCE_SHORT)
            memcpy(rows + t * channels, sum, tail_bytes);
        else
            k->activate[ACTIVATION_SILU](sum, NULL, no_terms, n, rows + t * channels);
    }
}

/* Items are channels, in multiples of CHANNELS. */
static void convolve_channels(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing *m = context;
    for (size_t i = 0; i < m->s->scratch.run_count; i++)
        convolve(m, &m->s->scratch.runs[i], begin, end - begin);
}

/* ------------------------------------------------------------------ steps */

void recurrent_normalise(float *x, size_t count, size_t n, float factor)
{
    for (size_t h = 0; h < count; h++, x += n) {
        float squares = 1e-6f;
        for (size_t i = 0; i < n; i++)
            squares += x[i] * x[i];
        float scale = 1 / (sqrtf(squares) * factor);
        for (size_t i = 0; i < n; i++)
            x[i] *= scale;
    }
}

/* Items are rows of the batch. Makes decays of scratch.step and gains of scratch.beta; normalises keys and queries. */
static void prepare_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing *m = context;
    const recurrent_shape *r = &m->l->recurrent;
    const scratch *b = &m->s->scratch;
    bool delta = r->rule == RECURRENCE_DELTA;
    size_t keys = (size_t)r->key_count * r->key_length;
    for (size_t i = begin; i < end; i++) {
        float *step = b->step + i * r->head_count, *gain = b->beta + i * r->head_count;
        for (size_t h = 0; h < r->head_count; h++) {
            float size = forward_softplus(step[h] + m->l->step_bias[h]);
            step[h] = expf(m->l->decay[h] * size);
            gain[h] = delta ? 1 / (1 + expf(-gain[h])) : size;
        }
        float *row = b->convolved + i * recurrent_channels(r);
        if (delta) {
            recurrent_normalise(row, r->key_count, r->key_length, sqrtf((float)r->key_length));
            recurrent_normalise(row + keys, r->key_count, r->key_length, 1);
        }
    }
}

/* Items are heads. */
static void step_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing *m = context;
    const recurrent_shape *r = &m->l->recurrent;
    const scratch *b = &m->s->scratch;
    bool delta = r->rule == RECURRENCE_DELTA;
    size_t keys = (size_t)r->key_count * r->key_length, matrix_size = (size_t)r->value_length * r->key_length;
    size_t value_at = delta ? 2 * keys : 0, key_at = delta ? keys : recurrent_width(r),
           query_at = delta ? 0 : key_at + keys;
    for (size_t i = 0; i < b->run_count; i++)
        for (size_t h = begin; h < end; h++) {
            const row_run *run = &b->runs[i];
            const float *before = recurrent_before(&m->s->recurrent, m->at, run),
                        *row = b->convolved + run->first * recurrent_channels(r);
            size_t key = (r->neighbours ? h / (r->head_count / r->key_count) : h % r->key_count) * r->key_length;
            const recurrence_run steps = {
                .before = before ? before + h * matrix_size : NULL,
                .after = recurrent_after(&m->s->recurrent, m->at, run) + h * matrix_size,
                .rows = r->value_length,
                .columns = r->key_length,
                .tokens = run->count,
                .key = row + key_at + key,
                .query = row + query_at + key,
                .value = row + value_at + h * r->value_length,
                .stride = recurrent_channels(r),
                .decay = b->step + run->first * r->head_count + h,
                .gain = b->beta + run->first * r->head_count + h,
                .number_stride = r->head_count,
                .out = b->mixed + run->first * recurrent_width(r) + h * r->value_length,
                .out_stride = recurrent_width(r),
                .answers = delta,
            };
            m->s->engine->runtime->kernels.recur(&steps);
        }
}

/* Items are heads whose states have a decay for each column. */
static void step_columns(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing *m = context;
    const scratch *b = &m->s->scratch;
    const column_buffers *c = &b->columns;
    const recurrent_shape *r = &m->l->recurrent;
    size_t n = r->key_length, width = recurrent_width(r);
    for (size_t i = 0; i < b->run_count; i++)
        for (size_t h = begin; h < end; h++) {
            const row_run *run = &b->runs[i];
            const float *before = recurrent_before(&m->s->recurrent, m->at, run);
            size_t row = run->first * width + h * n;
            const recurrence_run steps = {
                .before = before ? before + h * n * n : NULL,
                .after = recurrent_after(&m->s->recurrent, m->at, run) + h * n * n,
                .rows = n,
                .columns = n,
                .tokens = run->count,
                .key = c->key + row,
                .query = c->query + row,
                .value = c->value + row,
                .stride = width,
                .out = b->mixed + row,
                .out_stride = width,
                .decays = c->decay + row,
                .asked = c->asked + row,
                .removed = c->removed + row,
            };
            m->s->engine->runtime->kernels.recur(&steps);
        }
}

static mixing mixing_of(hearth_session *s, uint32_t layer)
{
    return (mixing){s, &s->engine->model->layers[layer], &s->recurrent.layers[s->engine->layers[layer].cache_index]};
}

void recurrent_step_columns(hearth_session *s, uint32_t layer)
{
    mixing m = mixing_of(s, layer);
    pool_run(s->engine->runtime->threads, m.l->recurrent.head_count, 1, step_columns, &m);
}

void recurrent_convolve(hearth_session *s, uint32_t layer)
{
    mixing m = mixing_of(s, layer);
    pool_run(s->engine->runtime->threads, recurrent_channels(&m.l->recurrent), CHANNELS, convolve_channels, &m);
}

/* ------------------------------------------------------------------ results */

/* Items are rows of the batch. MAMBA2: adds the skipped values, multiplies with the gate, then norms by groups. DELTA: norms
 * by heads, then multiplies with the gate's silu, or its logistic function. */
static void finish_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const mixing *m = context;
    const recurrent_shape *r = &m->l->recurrent;
    const scratch *b = &m->s->scratch;
    const kernels *k = &m->s->engine->runtime->kernels;
    float epsilon = m->s->engine->model->hyper.norm_epsilon;
    size_t width = recurrent_width(r), group = width / r->key_count, value = r->value_length;
    for (size_t i = begin; i < end; i++) {
        float *y = b->mixed + i * width, *gate = b->recurrent_gate + i * width;
        const float *v = b->convolved + i * recurrent_channels(r);
        for (size_t h = 0; m->l->skip && h < r->head_count; h++)
            for (size_t p = h * value; p < (h + 1) * value; p++)
                y[p] += m->l->skip[h] * v[p];
        if (r->rule == RECURRENCE_MAMBA2)
            k->activate[ACTIVATION_SILU](gate, y, no_terms, width, y);
        for (size_t p = 0; r->rule == RECURRENCE_MAMBA2 && p < width; p += group)
            k->rms_norm(y + p, m->l->recurrent_norm + p, epsilon, group, y + p);
        for (size_t p = 0; r->rule == RECURRENCE_DELTA && p < width; p += value)
            k->rms_norm(y + p, m->l->recurrent_norm, epsilon, value, y + p);
        if (r->rule == RECURRENCE_DELTA)
            k->activate[r->gate_logistic ? ACTIVATION_LOGISTIC : ACTIVATION_SILU](gate, y, no_terms, width, y);
    }
}

/* Multiplies n values of x with those of a gate: to out, which may be x. */
static void multiply_gate(const float *x, const float *gate, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * gate[i];
}

/* Computes a short convolution: from scratch.normed to scratch.mixed. */
static void mix_short(mixing *m, size_t count)
{
    const scratch *b = &m->s->scratch;
    size_t width = recurrent_width(&m->l->recurrent);
    const product products[] = {
        {&m->l->convolved, b->convolved}, {&m->l->recurrent_gate, b->recurrent_gate}, {&m->l->input_gate, b->mixed}};
    multiply(m->s, b->normed, count, products, 3);
    multiply_gate(b->convolved, b->mixed, count * width, b->convolved);
    pool_run(m->s->engine->runtime->threads, width, CHANNELS, convolve_channels, m);
    multiply_gate(b->convolved, b->recurrent_gate, count * width, b->mixed);
}

/* Computes a mixer with states: from scratch.normed to scratch.mixed. */
static void mix_states(mixing *m, size_t count)
{
    const model_layer *l = m->l;
    const scratch *b = &m->s->scratch;
    pool *threads = m->s->engine->runtime->threads;
    const product products[] = {{&l->convolved, b->convolved},
                                {&l->recurrent_gate, b->recurrent_gate},
                                {&l->step, b->step},
                                {&l->beta, b->beta}};
    multiply(m->s, b->normed, count, products, l->beta.data ? 4 : 3);
    pool_run(threads, recurrent_channels(&l->recurrent), CHANNELS, convolve_channels, m);
    pool_run(threads, count, 1, prepare_rows, m);
    pool_run(threads, l->recurrent.head_count, 1, step_heads, m);
    pool_run(threads, count, 1, finish_rows, m);
}

void recurrent_mix(hearth_session *s, uint32_t layer, size_t count, float *out)
{
    const model_layer *l = &s->engine->model->layers[layer];
    mixing m = mixing_of(s, layer);
    if (l->recurrent.rule != RECURRENCE_RWKV7)
        inputs_see(s, layer, INPUT_ATTENTION, s->scratch.normed, count);
    if (l->recurrent.rule == RECURRENCE_RWKV7)
        rwkv_mix(s, layer, count);
    else if (l->recurrent.rule == RECURRENCE_KDA)
        kda_mix(s, layer, count);
    else if (l->recurrent.rule == RECURRENCE_SHORT)
        mix_short(&m, count);
    else
        mix_states(&m, count);
    inputs_see(s, layer, INPUT_ATTENTION_OUTPUT, s->scratch.mixed, count);
    multiply(s, s->scratch.mixed, count, &(product){&l->recurrent_output, out}, 1);
}
