/* kcheck_device_recurrent.c - the kernels of devices for recurrent layers: convolve, recur, norm_gated, against their
 * definitions in double precision. */
#include "kcheck_device_places.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ convolve */

/* What a token's channel gives, and how far float32 may be from that; closes NULL: through silu. */
static double convolved(const float *weight, const float *bias, const float *inputs, size_t channels, size_t window,
                        float newest, const float *closes, double *slip)
{
    double sum = bias ? (double)*bias : 0, size = fabs(sum);
    for (size_t i = 0; i < window; i++) {
        double term = (double)weight[i] * (double)(i + 1 < window ? inputs[i * channels] : newest);
        sum += term;
        size += fabs(term);
    }
    if (closes) {
        *slip = fabs((double)*closes) * ((double)window + 3) * EPSILON * size + TINY;
        return *closes * sum;
    }
    double value = sum * sigmoid(sum);
    /* silu grows by at most 1.1 where its argument grows by 1 */
    *slip = 1.1 * ((double)window + 2) * EPSILON * size + fabs(value) * (SIGMOID_ERROR + EPSILON) + TINY;
    return value;
}

static void check_convolve(check *c, device *d, uint64_t *rng)
{
    static const size_t windows[] = {4, 1, 2, 3, 16}, sizes[] = {1, 7, 64, 255, 256, 257, 600};
    for (size_t s = 0; s < 70; s++) {
        size_t n = sizes[s % COUNT_OF(sizes)], window = windows[s % COUNT_OF(windows)], kept = (window - 1) * n;
        places p = places_new(kept + random_below(rng, 9), rng);
        size_t stride = n + random_below(rng, 9), count = p.step.count;
        snprintf(c->size, sizeof(c->size), "%zu channels, window %zu, %zu rows", n, window, count);
        float *x = rough_array(count * stride, rng), *weight = rough_array(n * window, rng);
        float *bias = random_below(rng, 2) ? rough_array(n, rng) : NULL;
        bool gates = random_below(rng, 2), apart = random_below(rng, 2); /* in place, or to rows of their own */
        float *opens = gates ? rough_array(count * stride, rng) : NULL;
        float *closes = gates ? rough_array(count * stride, rng) : NULL;
        size_t stride_out = apart ? n : stride, gate_size = gates ? count * stride : 0;
        room rooms[] = {step_room(d, &p),
                        float_room(d, x, count * stride),
                        float_room(d, weight, n * window),
                        float_room(d, bias, bias ? n : 0),
                        states_room(d, &p),
                        float_room(d, opens, gate_size),
                        float_room(d, closes, gate_size),
                        float_room(d, NULL, apart ? count * n : 0)};
        room *out = &rooms[apart ? 7 : 1];
        DEVICE_DO(c, d, DEVICE_convolve, items_of(n, CONVOLVE_CHANNELS), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), bias ? room_of(&rooms[3]) : NO_BUFFER, gates ? room_of(&rooms[5]) : NO_BUFFER,
                  gates ? room_of(&rooms[6]) : NO_BUFFER, room_of(&rooms[4]), room_of(out), UINT(n), UINT(window),
                  UINT(stride), UINT(stride_out), UINT(p.length));
        float *got = content_of(c, out), *after = content_of(c, &rooms[4]);
        float *inputs = array_new(kept + n, sizeof(float));
        for (size_t t = 0; t < count; t++) {
            uint32_t from = p.step.row[t].state_from, to = p.step.row[t].state_to;
            memset(inputs, 0, kept * sizeof(float));
            if (from != NO_STATE)
                memcpy(inputs, p.before + from * p.length, kept * sizeof(float));
            for (size_t i = 0; i < n; i++) {
                float newest = x[t * stride + i] * (gates ? opens[t * stride + i] : 1);
                double slip, want = convolved(weight + i * window, bias ? bias + i : NULL, inputs + i, n, window,
                                              newest, gates ? &closes[t * stride + i] : NULL, &slip);
                expect_close(c, t * stride_out + i, want, got[t * stride_out + i], slip);
                inputs[kept + i] = newest;
            }
            memcpy(p.before + to * p.length, inputs + n, kept * sizeof(float));
            if (!apart)
                expect_same(c, "values between rows", x + t * stride + n, got + t * stride + n,
                            (stride - n) * sizeof(float));
        }
        expect_same(c, "inputs that are kept", p.before, after, 2 * p.sequences * p.length * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(weight), free(bias), free(opens), free(closes);
        free(p.before), free(got), free(after), free(inputs);
    }
}

/* The convolution of n-grams, whose inputs are so many rows apart. */
static void check_convolve_ngrams(check *c, device *d, uint64_t *rng)
{
    static const size_t windows[] = {4, 2, 3, 5}, sizes[] = {1, 7, 64, 255, 256, 257, 600}, dilations[] = {3, 2, 1, 8};
    for (size_t s = 0; s < 56; s++) {
        size_t n = sizes[s % COUNT_OF(sizes)], window = windows[s % COUNT_OF(windows)];
        size_t apart = dilations[s / 2 % COUNT_OF(dilations)], kept = (window - 1) * apart * n;
        places p = places_new(kept + random_below(rng, 9), rng);
        size_t count = p.step.count;
        snprintf(c->size, sizeof(c->size), "%zu channels, window %zu, %zu apart, %zu rows", n, window, apart, count);
        float *x = rough_array(count * n, rng), *weight = rough_array(n * window, rng),
              *out = rough_array(count * n, rng);
        room rooms[] = {step_room(d, &p), float_room(d, x, count * n), float_room(d, weight, n * window),
                        states_room(d, &p), float_room(d, out, count * n)};
        DEVICE_DO(c, d, DEVICE_convolve_ngrams, items_of(n, CONVOLVE_CHANNELS), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), UINT(n), UINT(window), UINT(apart),
                  UINT(p.length));
        float *got = content_of(c, &rooms[4]), *after = content_of(c, &rooms[3]);
        float *inputs = array_new(kept + n, sizeof(float));
        for (size_t t = 0; t < count; t++) {
            uint32_t from = p.step.row[t].state_from, to = p.step.row[t].state_to;
            memset(inputs, 0, kept * sizeof(float));
            if (from != NO_STATE)
                memcpy(inputs, p.before + from * p.length, kept * sizeof(float));
            for (size_t i = 0; i < n; i++) {
                double slip, want = convolved(weight + i * window, NULL, inputs + i, apart * n, window, x[t * n + i],
                                              NULL, &slip) +
                                    (double)out[t * n + i];
                expect_close(c, t * n + i, want, got[t * n + i], slip + fabs(want) * EPSILON);
            }
            memcpy(inputs + kept, x + t * n, n * sizeof(float));
            memcpy(p.before + to * p.length, inputs + n, kept * sizeof(float));
        }
        expect_same(c, "inputs that are kept", p.before, after, 2 * p.sequences * p.length * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(weight), free(out), free(p.before), free(got), free(after), free(inputs);
    }
}

/* ------------------------------------------------------------------ recur */

typedef struct recurring {
    uint32_t heads, values, keys, columns, stride;
    bool delta, neighbours;
    float scale, *x, *steps, *betas, *step_bias, *rates, *skip;
} recurring;

/* What multiplies a head's state, and what is added to it. */
static void numbers_of(const recurring *w, size_t t, size_t h, rough *decay, rough *gain)
{
    double x = (double)w->steps[t * w->stride + h] + (double)w->step_bias[h], rate = (double)w->rates[h];
    double size = fmax(x, 0) + log1p(exp(-fabs(x)));
    /* the argument is rounded, and softplus grows no faster than it */
    rough softplus = {size, size * SOFTPLUS_ERROR + 2 * EPSILON * fabs(x) + TINY};
    double slip = expm1(fabs(rate) * softplus.error + EPSILON * fabs(rate * size)) + EXP_ERROR;
    *decay = (rough){exp(rate * size), exp(rate * size) * slip + TINY};
    *gain = softplus;
    if (w->delta) {
        double beta = sigmoid((double)w->betas[t * w->stride + h]);
        *gain = (rough){beta, beta * SIGMOID_ERROR + TINY};
    }
}

/* Takes one row of a head's state [columns] through a token, from -> to; returns its output. A sum of n products is off by
 * at most (n + 2) roundings of the sum of their sizes, besides what its terms are off, and each term may be flushed to zero;
 * everything else is rounded once or twice. */
static rough recur_row(const recurring *w, size_t t, size_t h, size_t r, const rough *from, rough *to)
{
    size_t n = w->columns, all = (size_t)w->keys * n, width = (size_t)w->heads * w->values;
    size_t key_of = (w->neighbours ? h / (w->heads / w->keys) : h % w->keys) * n;
    const float *row = w->x + t * w->stride, *key = row + (w->delta ? all : width) + key_of;
    const float *query = row + (w->delta ? 0 : width + all) + key_of;
    double value = (double)row[(w->delta ? 2 * all : 0) + h * w->values + r], answer = 0, size = 0, slip = 0;
    rough decay, gain, out = {0, 0};
    numbers_of(w, t, h, &decay, &gain);
    for (size_t i = 0; w->delta && i < n; i++) {
        double term = from[i].value * (double)key[i];
        answer += decay.value * term;
        size += fabs(decay.value * term);
        slip += fabs(decay.value * (double)key[i]) * from[i].error + decay.error * fabs(term);
    }
    slip += ((double)n + 4) * EPSILON * size + (double)n * TINY;
    double factor = gain.value * (value - answer);
    double factor_slip = gain.value * (slip + EPSILON * (fabs(value) + fabs(answer))) +
                         gain.error * fabs(value - answer) + 2 * EPSILON * fabs(factor) + TINY;
    size = 0;
    for (size_t i = 0; i < n; i++) {
        double kept = decay.value * from[i].value, added = factor * (double)key[i];
        double error = decay.value * from[i].error + decay.error * fabs(from[i].value) +
                       fabs((double)key[i]) * factor_slip + 3 * EPSILON * (fabs(kept) + fabs(added)) + TINY;
        to[i] = (rough){kept + added, error};
        out.value += (double)w->scale * (kept + added) * (double)query[i];
        size += fabs((double)w->scale * (kept + added) * (double)query[i]);
        out.error += fabs((double)w->scale * (double)query[i]) * error;
    }
    double skipped = w->skip ? (double)w->skip[h] * value : 0;
    out.error +=
        ((double)n + 4) * EPSILON * size + 2 * EPSILON * (fabs(skipped) + fabs(out.value)) + (double)(n + 2) * TINY;
    out.value += skipped;
    return out;
}

/* Checks outputs, and the states in all places. */
static void compare_recur(check *c, const recurring *w, const places *p, const float *out, const float *after)
{
    size_t n = w->columns, rows = (size_t)w->heads * w->values, all = 2 * p->sequences * p->length;
    rough *states = array_new(all, sizeof *states), *from = array_new(n, sizeof *from);
    for (size_t i = 0; i < all; i++)
        states[i].value = (double)p->before[i];
    for (size_t t = 0; t < p->step.count; t++)
        for (size_t r = 0; r < rows; r++) {
            memset(from, 0, n * sizeof *from);
            if (p->step.row[t].state_from != NO_STATE)
                memcpy(from, states + p->step.row[t].state_from * p->length + r * n, n * sizeof *from);
            rough want = recur_row(w, t, r / w->values, r % w->values, from,
                                   states + p->step.row[t].state_to * p->length + r * n);
            expect_close(c, t * rows + r, want.value, out[t * rows + r], want.error);
        }
    for (size_t i = 0; i < all; i++)
        expect_close(c, i, states[i].value, after[i], states[i].error);
    free(states), free(from);
}

static recurring recurring_new(size_t s, uint64_t *rng)
{
    static const uint32_t columns[] = {8, 16, 128, 1, 7, 20, 64, 256}, values[] = {1, 5, 16, 17, 64};
    recurring w = {.keys = 1 + (uint32_t)random_below(rng, 3),
                   .columns = columns[s % COUNT_OF(columns)],
                   .values = values[s % COUNT_OF(values)],
                   .delta = s / 2 % 2,
                   .neighbours = s % 3 > 0,
                   .scale = random_below(rng, 2) ? 1 : 0.25f};
    w.heads = w.keys * (1 + (uint32_t)random_below(rng, 3));
    uint32_t channels = w.heads * w.values + 2 * w.keys * w.columns;
    w.stride = (channels + 7) / 8 * 8 + (random_below(rng, 4) ? 0 : 1); /* now and then rows are not aligned */
    w.step_bias = rough_array(w.heads, rng), w.rates = rough_array(w.heads, rng);
    w.skip = random_below(rng, 2) ? rough_array(w.heads, rng) : NULL;
    for (uint32_t h = 0; h < w.heads; h++)
        w.rates[h] = -fabsf(w.rates[h]);
    return w;
}

/* The delta rule takes from a state what a key finds in it. Models give keys the length 1; with longer ones a state grows by the
 * square of the length in each token, and is soon no number. */
static void shorten_inputs(recurring *w, size_t inputs)
{
    float shorter = 1 / sqrtf((float)w->columns);
    for (size_t i = 0; i < inputs; i++)
        w->x[i] = fmaxf(-1, fminf(1, w->x[i])) * shorter;
}

static void check_recur(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 80; s++) {
        recurring w = recurring_new(s, rng);
        size_t rows = (size_t)w.heads * w.values;
        places p = places_new((rows * w.columns + 7) / 4 * 4 + (random_below(rng, 4) ? 0 : 1), rng);
        size_t count = p.step.count, inputs = count * w.stride;
        snprintf(c->size, sizeof(c->size), "%u heads with states of %u x %u, %u keys, %zu rows%s%s", w.heads, w.values,
                 w.columns, w.keys, count, w.delta ? ", delta" : "", w.neighbours ? ", neighbours" : "");
        w.x = rough_array(inputs, rng), w.steps = rough_array(inputs, rng), w.betas = rough_array(inputs, rng);
        if (w.delta)
            shorten_inputs(&w, inputs);
        room rooms[] = {step_room(d, &p),
                        float_room(d, w.x, inputs),
                        float_room(d, w.steps, inputs),
                        float_room(d, w.betas, w.delta ? inputs : 0),
                        float_room(d, w.step_bias, w.heads),
                        float_room(d, w.rates, w.heads),
                        float_room(d, w.skip, w.skip ? w.heads : 0),
                        states_room(d, &p),
                        float_room(d, NULL, count * rows)};
        DEVICE_DO(c, d, DEVICE_recur, w.heads * items_of(w.values, RECUR_ROWS), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), w.delta ? room_of(&rooms[3]) : NO_BUFFER, room_of(&rooms[4]), room_of(&rooms[5]),
                  w.skip ? room_of(&rooms[6]) : NO_BUFFER, room_of(&rooms[7]), room_of(&rooms[8]), UINT(w.heads),
                  UINT(w.values), UINT(w.keys), UINT(w.columns), UINT(w.delta), UINT(w.neighbours), UINT(w.stride),
                  UINT(p.length), FLOAT(w.scale));
        float *after = content_of(c, &rooms[7]), *out = content_of(c, &rooms[8]);
        compare_recur(c, &w, &p, out, after);
        free_rooms(rooms, COUNT_OF(rooms));
        free(w.x), free(w.steps), free(w.betas), free(w.step_bias), free(w.rates), free(w.skip);
        free(p.before), free(after), free(out);
    }
}

/* ------------------------------------------------------------------ norm_gated */

/* Bounded as by check_norm; each silu is off by SIGMOID_ERROR and a product. */
static void check_norm_gated(check *c, device *d, uint64_t *rng)
{
    static const size_t lengths[] = {1, 7, 16, 64, 128, 1000};
    for (size_t s = 0; s < 48; s++) {
        size_t n = lengths[s % COUNT_OF(lengths)], ranges = 1 + random_below(rng, 5), width = ranges * n;
        bool first = s / 6 % 2, logistic = random_below(rng, 2);
        size_t stride = width + random_below(rng, 9);
        uint32_t count = random_count(rng);
        snprintf(c->size, sizeof(c->size), "%zu of %zu values, %u rows, %s", ranges, n, count,
                 first ? "gated first" : "normed first");
        float *x = rough_array(count * width, rng), *gate = rough_array(count * stride, rng);
        float *weight = rough_array(width, rng);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * width),
                        float_room(d, gate, count * stride), float_room(d, weight, first ? width : n)};
        DEVICE_DO(c, d, DEVICE_norm_gated, CHECKED_ROWS * ranges, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), UINT(ranges), UINT(n), UINT(stride), UINT(first),
                  UINT(logistic), FLOAT(1e-5f));
        float *got = content_of(c, &rooms[1]);
        double error = ((double)n / 2 + 9) * EPSILON + 2 * (SIGMOID_ERROR + 2 * EPSILON);
        for (size_t at = 0; at < count * width; at += n) {
            const float *gates = gate + at / width * stride + at % width, *weights = weight + (first ? at % width : 0);
            double squares = 0, value[1000];
            for (size_t i = 0; i < n; i++) {
                double silu = (logistic ? 1 : (double)gates[i]) * sigmoid((double)gates[i]);
                value[i] = (double)x[at + i] * (first ? silu : 1);
                squares += value[i] * value[i];
                value[i] *= (double)weights[i] * (first ? 1 : silu);
            }
            for (size_t i = 0; i < n; i++) {
                double root = sqrt(squares / (double)n + (double)1e-5f), want = value[i] / root;
                double ungated = fabs((double)weights[i]) * (1 + fabs((double)x[at + i] * (double)gates[i]) / root);
                expect_close(c, at + i, want, got[at + i], fabs(want) * error + TINY * (1 + ungated));
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(gate), free(weight), free(got);
    }
}

void check_device_recurrent(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "convolve");
    check_convolve(c, d, rng);
    check_begin(c, "convolve_ngrams");
    check_convolve_ngrams(c, d, rng);
    check_begin(c, "recur");
    check_recur(c, d, rng);
    check_begin(c, "norm_gated");
    check_norm_gated(c, d, rng);
}
