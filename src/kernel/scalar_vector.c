/* scalar_vector.c - the definition of every kernel on vectors, in plain C (products are in scalar_product.c). */
#include "levels.h"

#include "../number/blocks.h"
#include "../number/half.h"
#include "quantize.h"

#include <math.h>

static void quantize_scalar(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums)
{
    for (size_t b = 0; b < n / Q8_BLOCK; b++, x += Q8_BLOCK, q += Q8_BLOCK, sums += 2) {
        uint32_t max = 0;
        for (size_t i = 0; i < Q8_BLOCK; i++) {
            uint32_t magnitude = magnitude_bits(x[i]);
            max = magnitude > max ? magnitude : max;
        }
        float inverse;
        scales[b] = block_scale(max, &inverse);
        sums[0] = sums[1] = 0;
        for (size_t i = 0; i < Q8_BLOCK; i++) {
            q[i] = inverse > 0 ? (int8_t)lrintf(x[i] * inverse) : 0;
            sums[i / Q8_SUM] = (int16_t)(sums[i / Q8_SUM] + q[i]);
        }
    }
}

static void rms_norm_scalar(const float *x, const float *weight, float epsilon, size_t n, float *out)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * x[i];
    float scale = (float)(1 / sqrt(squares / (double)n + epsilon));
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

static void layer_norm_scalar(const float *x, const float *weight, const float *bias, float epsilon, size_t n,
                              float *out)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    float scale = (float)(1 / sqrt(squares / (double)n + (double)epsilon)), middle = (float)mean;
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] - middle) * scale * weight[i] + (bias ? bias[i] : 0);
}

static void add_scalar(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void silu_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i++) {
        float a = gate[i] / (1 + expf(-gate[i]));
        h[i] = up ? a * up[i] : a;
    }
}

static void logistic_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i++)
        h[i] = (up ? up[i] : 1) / (1 + expf(-gate[i]));
}

static void relu_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    for (size_t i = 0; i < n; i++)
        h[i] = gate[i] > terms.threshold ? (up ? gate[i] * up[i] : gate[i]) : 0;
}

static void relu2_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i++)
        h[i] = gate[i] > 0 ? (up ? gate[i] * gate[i] * up[i] : gate[i] * gate[i]) : 0;
}

static void gelu_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i++) {
        float a = 0.5f * gate[i] * (1 + erff(gate[i] * 0.70710678f));
        h[i] = up ? a * up[i] : a;
    }
}

static void gelu_tanh_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i++) {
        float x = gate[i], a = 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
        h[i] = up ? a * up[i] : a;
    }
}

static void swiglu_clamped_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    for (size_t i = 0; i < n; i++) {
        float g = fminf(gate[i], terms.threshold), u = up ? fminf(fmaxf(up[i], -terms.threshold), terms.threshold) : 0;
        h[i] = g / (1 + expf(-1.702f * g)) * (u + 1);
    }
}

static void silu_limited_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    for (size_t i = 0; i < n; i++) {
        float a = gate[i] / (1 + expf(-gate[i]));
        a = terms.threshold > 0 && a > terms.threshold ? terms.threshold : a;
        h[i] = up ? a * kernel_limited(up[i], terms.threshold) : a;
    }
}

static void xielu_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    const activation_curve *a = &terms.curve;
    for (size_t i = 0; i < n; i++) {
        float x = gate[i], value = x > 0 ? a->positive * x * x : a->negative * (expm1f(x) - x);
        value += a->linear * x;
        h[i] = up ? value * up[i] : value;
    }
}

static void silu_clamped_scalar(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    for (size_t i = 0; i < n; i++) {
        float g = terms.threshold > 0 && gate[i] > terms.threshold ? terms.threshold : gate[i], a = g / (1 + expf(-g));
        h[i] = up ? a * kernel_limited(up[i], terms.threshold) : a;
    }
}

/* Rotates pairs of values that are `apart` values apart; the next pair begins `step` values later. */
static void rotate(float *x, size_t heads, size_t length, const float *cosine, const float *sine, size_t pairs,
                   size_t step, size_t apart)
{
    for (size_t h = 0; h < heads; h++, x += length)
        for (size_t i = 0; i < pairs; i++) {
            float *first = x + i * step, *second = first + apart, a = *first, b = *second;
            *first = a * cosine[i] - b * sine[i];
            *second = a * sine[i] + b * cosine[i];
        }
}

static void rope_neighbours_scalar(float *x, size_t heads, size_t length, const float *cosine, const float *sine,
                                   size_t pairs)
{
    rotate(x, heads, length, cosine, sine, pairs, 2, 1);
}

static void rope_halves_scalar(float *x, size_t heads, size_t length, const float *cosine, const float *sine,
                               size_t pairs)
{
    rotate(x, heads, length, cosine, sine, pairs, 1, pairs);
}

/* Takes one row of a state through a token; value: that of its row. Returns its product with the query. */
static float recur_row(const recurrence_run *run, size_t t, float value, float *state)
{
    size_t n = run->columns;
    const float *key = run->key + t * run->stride, *query = run->query + t * run->stride;
    float decay = run->decay[t * run->number_stride], gain = run->gain[t * run->number_stride];
    float answer = 0, sum = 0;
    for (size_t i = 0; run->answers && i < n; i++)
        answer += decay * state[i] * key[i];
    float factor = gain * (value - answer);
    for (size_t i = 0; i < n; i++) {
        state[i] = decay * state[i] + factor * key[i];
        sum += state[i] * query[i];
    }
    return sum;
}

/* The same with a decay for each column. */
static float recur_columns(const recurrence_run *run, size_t t, float value, float *state)
{
    size_t n = run->columns, at = t * run->stride;
    const float *decays = run->decays + at, *asked = run->asked + at, *removed = run->removed + at;
    float answer = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        answer += state[i] * asked[i];
    for (size_t i = 0; i < n; i++) {
        state[i] = decays[i] * state[i] + value * run->key[at + i] - answer * removed[i];
        sum += state[i] * run->query[at + i];
    }
    return sum;
}

/* The definition of kernel_recur, row by row. */
static void recur_scalar(const recurrence_run *run)
{
    size_t n = run->columns;
    for (size_t r = 0; r < run->rows; r++) {
        float *state = run->after + r * n;
        for (size_t i = 0; i < n; i++)
            state[i] = run->before ? run->before[r * n + i] : 0;
        for (size_t t = 0; t < run->tokens; t++) {
            float value = run->value[t * run->stride + r];
            run->out[t * run->out_stride + r] =
                run->decays ? recur_columns(run, t, value, state) : recur_row(run, t, value, state);
        }
    }
}

/* Turns scores into weights that add up to 1, or, with a sink, to less. The largest is subtracted first, so that exp
 * never overflows. */
static void softmax(float *scores, size_t n, const float *sink)
{
    float max = sink ? *sink : scores[0], sum = 0;
    for (size_t i = 0; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    if (sink)
        sum = expf(*sink - max);
    for (size_t i = 0; i < n; i++)
        sum += scores[i] = expf(scores[i] - max);
    for (size_t i = 0; i < n; i++)
        scores[i] /= sum;
}

/* Returns value i of a key or value. */
typedef float value_at(const void *data, size_t i);

static float value_f32(const void *data, size_t i)
{
    float f;
    memcpy(&f, (const char *)data + i * sizeof(f), sizeof(f));
    return f;
}

static float value_f16(const void *data, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)data + i * sizeof(h), sizeof(h));
    return half_to_float(h);
}

static float value_q8_0(const void *data, size_t i)
{
    const block_q8_0 *block = (const block_q8_0 *)data + i / 32;
    return half_to_float(block->d) * block->q[i % 32];
}

static float capped(float score, float cap)
{
    return cap > 0 ? cap * tanhf(score / cap) : score;
}

static void attend(const float *query, size_t queries, const attend_cache *cache, size_t first, size_t count,
                   const attend_scoring *scoring, float *scores, float *out, value_at *at)
{
    size_t keys = cache->key.length, values = cache->value.length;
    for (size_t g = 0; g < queries; g++, query += keys, scores += count, out += values) {
        for (size_t p = 0; p < count; p++) {
            const void *key = attend_at(cache, &cache->key, first + p);
            float sum = 0;
            for (size_t i = 0; i < keys; i++)
                sum += query[i] * at(key, i);
            scores[p] = capped(sum * scoring->scale, scoring->softcap);
        }
        softmax(scores, count, scoring->sinks ? scoring->sinks + g : NULL);
        for (size_t i = 0; i < values; i++)
            out[i] = 0;
        for (size_t p = 0; p < count; p++) {
            const void *value = attend_at(cache, &cache->value, first + p);
            for (size_t i = 0; i < values; i++)
                out[i] += scores[p] * at(value, i);
        }
    }
}

/* One query of a run: its scores are weighed as they come, and what was summed before is scaled when a larger one does. */
static void attend_query(const attend_run *run, size_t row, size_t head, value_at *at)
{
    const attend_scoring *how = &run->scoring;
    const attend_cache *cache = &run->cache;
    size_t keys = cache->key.length, values = cache->value.length;
    size_t end = run->seen + row, from = attend_from(run, row);
    const float *query = run->query + row * run->stride + head * keys;
    float *out = run->out + row * run->out_stride + head * values;
    float largest = how->sinks ? how->sinks[head] : -INFINITY, total = how->sinks ? 1 : 0;
    for (size_t i = 0; i < values; i++)
        out[i] = 0;
    for (size_t p = from; p < end; p++) {
        const void *key = attend_at(cache, &cache->key, p), *value = attend_at(cache, &cache->value, p);
        float score = 0;
        for (size_t i = 0; i < keys; i++)
            score += query[i] * at(key, i);
        score = capped(score * how->scale, how->softcap);
        if (!(score <= largest)) {
            float shrink = expf(largest - score);
            total *= shrink;
            for (size_t i = 0; i < values; i++)
                out[i] *= shrink;
            largest = score;
        }
        float weight = expf(score - largest);
        total += weight;
        for (size_t i = 0; i < values; i++)
            out[i] += weight * at(value, i);
    }
    for (size_t i = 0; i < values; i++)
        out[i] /= total;
}

static void attend_rows(const attend_run *run, value_at *at)
{
    for (size_t row = 0; row < run->rows; row++)
        for (size_t head = 0; head < run->heads; head++)
            attend_query(run, row, head, at);
}

static void score(const score_run *run, value_at *at)
{
    size_t length = run->cache.key.length;
    for (size_t p = 0; p < run->count; p++) {
        const void *key = attend_at(&run->cache, &run->cache.key, run->first + p);
        float total = 0;
        for (size_t h = 0; h < run->heads; h++) {
            float sum = 0;
            for (size_t i = 0; i < length; i++)
                sum += run->query[h * length + i] * at(key, i);
            total += run->weights[h] * (sum > 0 || run->below ? sum : 0);
        }
        run->scores[p] = total;
    }
}

/* The kernels for a cache of a format. */
#define ATTEND(format)                                                                                                \
    static void attend_##format##_scalar(const float *query, size_t queries, const attend_cache *cache, size_t first, \
                                         size_t count, const attend_scoring *scoring, float *scores, float *out)      \
    {                                                                                                                 \
        attend(query, queries, cache, first, count, scoring, scores, out, value_##format);                            \
    }                                                                                                                 \
    static void attend_rows_##format##_scalar(const attend_run *run)                                                  \
    {                                                                                                                 \
        attend_rows(run, value_##format);                                                                             \
    }                                                                                                                 \
    static void score_##format##_scalar(const score_run *run)                                                         \
    {                                                                                                                 \
        score(run, value_##format);                                                                                   \
    }
ATTEND(f32)
ATTEND(f16)
ATTEND(q8_0)

static void to_half_scalar(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half_from_float(x[i]);
}

static uint64_t read_scalar(const void *data, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += sizeof(sum)) {
        uint64_t word;
        memcpy(&word, (const char *)data + i, sizeof(word));
        sum += word;
    }
    return sum;
}

const kernels scalar_vectors = {
    .quantize = quantize_scalar,
    .rms_norm = rms_norm_scalar,
    .layer_norm = layer_norm_scalar,
    .add = add_scalar,
    .activate = {[ACTIVATION_SILU] = silu_scalar,
                 [ACTIVATION_RELU] = relu_scalar,
                 [ACTIVATION_RELU2] = relu2_scalar,
                 [ACTIVATION_GELU] = gelu_scalar,
                 [ACTIVATION_GELU_TANH] = gelu_tanh_scalar,
                 [ACTIVATION_SWIGLU_CLAMPED] = swiglu_clamped_scalar,
                 [ACTIVATION_SILU_LIMITED] = silu_limited_scalar,
                 [ACTIVATION_SILU_CLAMPED] = silu_clamped_scalar,
                 [ACTIVATION_XIELU] = xielu_scalar,
                 [ACTIVATION_LOGISTIC] = logistic_scalar},
    .rope = {[ROPE_NEIGHBOURS] = rope_neighbours_scalar, [ROPE_HALVES] = rope_halves_scalar},
    .attend = {[FORMAT_F32] = attend_f32_scalar, [FORMAT_F16] = attend_f16_scalar, [FORMAT_Q8_0] = attend_q8_0_scalar},
    .score = {[FORMAT_F32] = score_f32_scalar, [FORMAT_F16] = score_f16_scalar, [FORMAT_Q8_0] = score_q8_0_scalar},
    .attend_rows = {[FORMAT_F32] = attend_rows_f32_scalar,
                    [FORMAT_F16] = attend_rows_f16_scalar,
                    [FORMAT_Q8_0] = attend_rows_q8_0_scalar},
    .recur = recur_scalar,
    .to_half = to_half_scalar,
    .read = read_scalar,
};
