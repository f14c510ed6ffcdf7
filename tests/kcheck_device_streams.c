/* kcheck_device_streams.c - the kernels of devices for several streams of the residual, those of AltUp (predict_streams and
 * correct_streams), of hyper-connections and of gates, against double precision. */
#include "kcheck_device_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What both work on. Rows of `states` that belong to no token, and what lies between streams, must stay as they are. */
typedef struct streaming {
    uint32_t count, columns, streams, active;
    size_t apart, all; /* floats from one stream to the next, and of all */
    float *states, *products, *small, *x, *scales;
} streaming;

static streaming streaming_new(size_t s, size_t rows_of_small, uint64_t *rng)
{
    static const uint32_t columns[] = {1, 3, 64, 65, 255, 256, 257, 640, 2048};
    streaming w = {.count = random_count(rng), .columns = columns[s % COUNT_OF(columns)]};
    w.streams = 2 + (uint32_t)(s / COUNT_OF(columns) % (MOST_STREAMS - 1));
    w.active = (uint32_t)random_below(rng, w.streams);
    size_t small = rows_of_small == 1 ? w.streams : (size_t)w.streams * w.streams;
    w.apart = CHECKED_ROWS * (size_t)w.columns + random_below(rng, 9);
    w.all = w.streams * w.apart;
    w.states = rough_array(w.all, rng), w.x = rough_array(w.count * (size_t)w.columns, rng);
    w.products = rough_array(w.count * (size_t)w.streams, rng), w.small = rough_array(small * w.streams, rng);
    for (size_t i = 0; i < w.count * (size_t)w.streams; i++)
        w.products[i] *= (float)w.columns;
    w.scales = random_below(rng, 2) ? rough_array(w.columns, rng) : NULL;
    return w;
}

static void streaming_free(streaming *w)
{
    free(w->states), free(w->products), free(w->small), free(w->x), free(w->scales);
}

/* Row `row` of the small matrix times the tanh of a token's mean products, `by`. tanh is off by TANH_ERROR, its argument by a
 * division; a sum of n products by n EPSILON of their sizes. */
static bounded weighed(const streaming *w, size_t row, const double *by)
{
    bounded sum = {0, 0};
    for (size_t j = 0; j < w->streams; j++) {
        double value = (double)w->small[row * w->streams + j] * by[j];
        sum.value += value;
        sum.error += fabs(value) * (TANH_ERROR + (2 + (double)w->streams) * EPSILON) +
                     TINY * (1 + fabs((double)w->small[row * w->streams + j]));
    }
    return sum;
}

/* The tanh of the mean product of token t with each stream. */
static void squashed_means(const streaming *w, size_t t, double by[MOST_STREAMS])
{
    for (size_t j = 0; j < w->streams; j++)
        by[j] = tanh((double)w->products[t * w->streams + j] / w->columns);
}

/* Compares one value and takes it out of the copy of what was there before, which then must be what is left. */
static void expect_value(check *c, size_t at, bounded want, const float *got, float *before)
{
    expect_close(c, at, want.value, got[at], want.error);
    before[at] = got[at];
}

static void check_predict(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 126; s++) {
        streaming w = streaming_new(s, 2, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams", w.count, w.columns, w.streams);
        size_t n = w.count * (size_t)w.columns;
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.states, w.all),
                        float_room(d, w.products, w.count * (size_t)w.streams),
                        float_room(d, w.small, (size_t)w.streams * w.streams * w.streams), float_room(d, NULL, n)};
        DEVICE_DO(c, d, DEVICE_predict_streams, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), UINT(w.columns),
                  UINT(w.streams), UINT(w.active), UINT(w.apart));
        float *got = content_of(c, &rooms[1]), *x = content_of(c, &rooms[4]);
        float *before = copy_of(w.states, w.all * sizeof(float));
        for (size_t t = 0; t < w.count; t++) {
            double by[MOST_STREAMS];
            squashed_means(&w, t, by);
            for (size_t i = 0; i < w.streams; i++) {
                bounded factors[MOST_STREAMS];
                for (size_t j = 0; j < w.streams; j++)
                    factors[j] = weighed(&w, i * w.streams + j, by);
                for (size_t k = 0; k < w.columns; k++) {
                    size_t at = t * w.columns + k;
                    bounded want = {(double)w.states[i * w.apart + at], 0};
                    for (size_t j = 0; j < w.streams; j++) {
                        double old = (double)w.states[j * w.apart + at];
                        want.value += factors[j].value * old;
                        want.error += factors[j].error * fabs(old) +
                                      fabs(factors[j].value * old) * (1 + (double)w.streams) * EPSILON + TINY;
                    }
                    want.error += fabs(want.value) * EPSILON;
                    expect_value(c, i * w.apart + at, want, got, before);
                }
            }
        }
        expect_same(c, "what is not of a token", before, got, w.all * sizeof(float));
        expect_same(c, "the active stream", got + w.active * w.apart, x, n * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        streaming_free(&w);
        free(got), free(x), free(before);
    }
}

static void check_correct(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 126; s++) {
        streaming w = streaming_new(s, 1, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams%s", w.count, w.columns, w.streams,
                 w.scales ? ", scales" : "");
        size_t n = w.count * (size_t)w.columns;
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, w.states, w.all),
                        float_room(d, w.products, w.count * (size_t)w.streams),
                        float_room(d, w.small, (size_t)w.streams * w.streams),
                        float_room(d, w.scales, w.scales ? w.columns : 0),
                        float_room(d, w.x, n),
                        float_room(d, NULL, n)};
        DEVICE_DO(c, d, DEVICE_correct_streams, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), w.scales ? room_of(&rooms[4]) : NO_BUFFER,
                  room_of(&rooms[5]), room_of(&rooms[6]), UINT(w.columns), UINT(w.streams), UINT(w.active),
                  UINT(w.apart));
        float *got = content_of(c, &rooms[1]), *seen = content_of(c, &rooms[6]);
        float *before = copy_of(w.states, w.all * sizeof(float));
        for (size_t t = 0; t < w.count; t++) {
            double by[MOST_STREAMS];
            squashed_means(&w, t, by);
            for (size_t i = 0; i < w.streams; i++) {
                bounded factor = weighed(&w, i, by);
                for (size_t k = 0; k < w.columns; k++) {
                    size_t at = t * w.columns + k;
                    double old = (double)w.states[i * w.apart + at];
                    double change = (double)w.x[at] - (double)w.states[w.active * w.apart + at];
                    bounded want = {old + (1 + factor.value) * change, 0};
                    want.error = fabs(change) * (factor.error + (1 + fabs(factor.value)) * 3 * EPSILON) +
                                 fabs(want.value) * EPSILON + TINY * (1 + fabs(change));
                    expect_value(c, i * w.apart + at, want, got, before);
                    float scale = w.scales ? w.scales[k] : 1;
                    if (i == w.active) /* of what was stored, by one multiplication */
                        expect_close(c, at, (double)got[i * w.apart + at] * (double)scale, seen[at],
                                     fabs((double)got[i * w.apart + at] * (double)scale) * EPSILON + TINY);
                }
            }
        }
        expect_same(c, "what is not of a token", before, got, w.all * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        streaming_free(&w);
        free(got), free(seen), free(before);
    }
}

/* ------------------------------------------------------------------ hyper-connections */

/* What the kernels of connections work on: streams side by side, and weights, which begin as products. */
typedef struct connecting {
    uint32_t count, columns, streams, all;
    bool mixed;                /* or each stream of itself alone */
    size_t states, weights, x; /* floats */
    float *state, *weight, *read;
} connecting;

/* All of them: every number of columns and streams, mixed and not. */
#define CONNECTINGS 126

static connecting connecting_new(size_t s, uint64_t *rng)
{
    static const uint32_t columns[] = {1, 3, 64, 65, 255, 256, 257, 640, 2048};
    connecting w = {.count = random_count(rng), .columns = columns[s % COUNT_OF(columns)]};
    w.streams = 2 + (uint32_t)(s / COUNT_OF(columns) % (MOST_STREAMS - 1));
    w.mixed = s < CONNECTINGS / 2;
    w.all = w.streams * (w.mixed ? 2 + w.streams : 2);
    w.states = w.count * (size_t)w.streams * w.columns;
    w.weights = w.count * (size_t)w.all;
    w.x = w.count * (size_t)w.columns;
    w.state = rough_array(w.states, rng), w.weight = rough_array(w.weights, rng), w.read = rough_array(w.x, rng);
    return w;
}

static void connecting_free(connecting *w)
{
    free(w->state), free(w->weight), free(w->read);
}

/* Value k of the products of a token before it is squashed. The mean of n squares is off by n EPSILON of itself at most. */
static bounded weighed_by(const connecting *w, size_t t, size_t k, double epsilon, const float *base,
                          const float *scale)
{
    size_t n = (size_t)w->streams * w->columns;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)w->state[t * n + i] * (double)w->state[t * n + i];
    double factor = 1 / sqrt(squares / (double)n + epsilon), part = scale[k / w->streams < 2 ? k / w->streams : 2];
    double value = (double)w->weight[t * w->all + k] * factor * part;
    return (bounded){value + (double)base[k],
                     fabs(value) * (double)(n + 8) * EPSILON + fabs((double)base[k]) * EPSILON};
}

/* Sinkhorn's iteration in double precision. */
static void balance(double *mix, size_t n, size_t steps, double epsilon)
{
    for (size_t half = 0; half < 2 * steps; half++)
        for (size_t i = 0; half != 0 && i < n; i++) {
            bool columns = half % 2;
            double sum = epsilon;
            for (size_t j = 0; j < n; j++)
                sum += mix[columns ? j * n + i : i * n + j];
            for (size_t j = 0; j < n; j++)
                mix[columns ? j * n + i : i * n + j] /= sum;
        }
}

/* What weigh_connections is given beside its arrays. */
typedef struct weighing {
    uint32_t steps; /* 0: streams are not mixed */
    float magnitude, epsilon, norm_epsilon;
} weighing;

/* Compares the weights of a token. A change of the logarithms of the mixtures by `slip` changes those of the results by that much
 * for each step at most: what rows or columns are divided by lies between the least and the largest change of theirs. */
static void check_weighed(check *c, const connecting *w, size_t t, const weighing *by, const float *base,
                          const float *scale, const float *got)
{
    size_t n = w->streams, steps = by->steps;
    double epsilon = (double)by->epsilon, norm_epsilon = (double)by->norm_epsilon;
    double mix[MOST_STREAMS * MOST_STREAMS], slip = 0;
    for (size_t k = 0; k < 2 * n; k++) {
        bounded value = weighed_by(w, t, k, norm_epsilon, base, scale);
        double share = 1 / (1 + exp(-value.value)), times = k < n ? 1 : (double)by->magnitude;
        expect_close(c, k, times * share + (k < n || !w->mixed ? epsilon : 0), got[k],
                     times * (share * (EXP_ERROR + 7 * EPSILON) + value.error / 4) + TINY);
    }
    if (!w->mixed)
        return;
    for (size_t i = 0; i < n; i++) {
        double most = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) {
            bounded value = weighed_by(w, t, 2 * n + i * n + j, norm_epsilon, base, scale);
            mix[i * n + j] = value.value;
            most = fmax(most, value.value);
            slip = fmax(slip, 2 * value.error + 2 * fabs(value.value) * EPSILON);
        }
        for (size_t j = 0; j < n; j++)
            sum += mix[i * n + j] = exp(mix[i * n + j] - most);
        for (size_t j = 0; j < n; j++)
            mix[i * n + j] = mix[i * n + j] / sum + epsilon;
    }
    slip = 2 * (slip + EXP_ERROR) + (double)(n + 4) * EPSILON;
    balance(mix, n, steps, epsilon);
    for (size_t k = 0; k < n * n; k++)
        expect_close(c, 2 * n + k, mix[k], got[2 * n + k],
                     mix[k] * expm1((double)(2 * steps + 1) * (slip + (double)(n + 4) * EPSILON)) + TINY);
}

static void check_weigh(check *c, device *d, uint64_t *rng)
{
    static const uint32_t steps[] = {20, 1, 2, 5};
    for (size_t s = 0; s < CONNECTINGS; s++) {
        connecting w = connecting_new(s, rng);
        weighing by = {w.mixed ? steps[s % COUNT_OF(steps)] : 0, s % 3 ? 2 : 1.5f, w.mixed ? 1e-6f : 0.01f, 1e-5f};
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams, %u steps", w.count, w.columns, w.streams,
                 by.steps);
        float *base = rough_array(w.all, rng), *scale = rough_array(3, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, w.weight, w.weights), float_room(d, base, w.all), float_room(d, scale, 3)};
        DEVICE_DO(c, d, DEVICE_weigh_connections, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), UINT(w.columns), UINT(w.streams),
                  UINT(by.steps), FLOAT(by.magnitude), FLOAT(by.epsilon), FLOAT(by.norm_epsilon));
        float *got = content_of(c, &rooms[2]);
        for (size_t t = 0; t < w.count; t++)
            check_weighed(c, &w, t, &by, base, scale, got + t * w.all);
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(base), free(scale), free(got);
    }
}

/* What a block reads in a column: a sum of as many products as there are streams. */
static bounded collapsed(const connecting *w, size_t t, size_t k)
{
    bounded sum = {0, TINY};
    for (size_t i = 0; i < w->streams; i++) {
        double term = (double)w->weight[t * w->all + i] * (double)w->state[(t * w->streams + i) * w->columns + k];
        sum.value += term;
        sum.error += fabs(term) * ((double)w->streams + 1) * EPSILON + TINY;
    }
    return sum;
}

static void check_collapse(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < CONNECTINGS; s++) {
        connecting w = connecting_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams%s", w.count, w.columns, w.streams,
                 w.mixed ? "" : ", not mixed");
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, w.weight, w.weights), float_room(d, NULL, w.x)};
        DEVICE_DO(c, d, DEVICE_collapse_streams, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), UINT(w.columns), UINT(w.streams),
                  UINT(w.mixed));
        float *got = content_of(c, &rooms[3]);
        for (size_t at = 0; at < w.x; at++) {
            bounded want = collapsed(&w, at / w.columns, at % w.columns);
            expect_close(c, at, want.value, got[at], want.error);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(got);
    }
}

static void check_spread(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < CONNECTINGS; s++) {
        connecting w = connecting_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams%s", w.count, w.columns, w.streams,
                 w.mixed ? "" : ", not mixed");
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, w.weight, w.weights), float_room(d, w.read, w.x)};
        DEVICE_DO(c, d, DEVICE_spread_streams, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), UINT(w.columns), UINT(w.streams),
                  UINT(w.mixed));
        float *got = content_of(c, &rooms[1]);
        for (size_t at = 0; at < w.states; at++) {
            size_t k = at % w.columns, i = at / w.columns % w.streams, t = at / w.columns / w.streams;
            const float *after = w.weight + t * w.all + w.streams, *mix = after + w.streams;
            bounded read = collapsed(&w, t, k);
            double result = (double)w.read[t * w.columns + k] - read.value;
            double value = (double)after[i] * result, size = fabs(value);
            for (size_t j = 0; j < w.streams; j++) {
                double share = w.mixed ? (double)mix[j * w.streams + i] : i == j;
                double term = share * (double)w.state[(t * w.streams + j) * w.columns + k];
                value += term;
                size += fabs(term);
            }
            double error = fabs((double)after[i]) * (read.error + fabs(result) * EPSILON);
            expect_close(c, at, value, got[at], error + size * ((double)w.streams + 3) * EPSILON + TINY);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(got);
    }
}

/* ------------------------------------------------------------------ gates */

/* 1 / (1 + exp(-x)) for a value that is off by so much. */
static bounded logistic(double x, double off)
{
    double share = 1 / (1 + exp(-x));
    return (bounded){share, share * (EXP_ERROR + 6 * EPSILON) + off / 4 + TINY};
}

static void check_norm_streams(check *c, device *d, uint64_t *rng)
{
    const float epsilon = 1e-6f;
    for (size_t s = 0; s < CONNECTINGS; s++) {
        connecting w = connecting_new(s, rng);
        size_t n = (size_t)w.streams * w.columns;
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams", w.count, w.columns, w.streams);
        float *weight = rough_array(n, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, weight, n), float_room(d, NULL, w.states)};
        DEVICE_DO(c, d, DEVICE_norm_streams, CHECKED_ROWS * w.streams, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), UINT(w.columns), UINT(w.streams), FLOAT(epsilon));
        float *got = content_of(c, &rooms[3]);
        for (size_t begin = 0; begin < w.states; begin += w.columns) {
            double squares = 0;
            for (size_t at = begin; at < begin + w.columns; at++)
                squares += (double)w.state[at] * (double)w.state[at];
            double size = sqrt(squares / w.columns + (double)epsilon);
            for (size_t at = begin; at < begin + w.columns; at++) {
                double want = (double)w.state[at] * (double)weight[at % n] / size;
                expect_close(c, at, want, got[at], fabs(want) * (double)(w.columns + 8) * EPSILON + TINY);
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(weight), free(got);
    }
}

static void check_squeeze(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 63; s++) {
        connecting w = connecting_new(s, rng);
        float factor = 1 / (float)w.streams;
        snprintf(c->size, sizeof(c->size), "%u rows of %u", w.count, w.columns);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.read, w.x)};
        DEVICE_DO(c, d, DEVICE_squeeze, items_of(CHECKED_ROWS * w.columns, SQUASHED_VALUES), room_of(&rooms[0]),
                  room_of(&rooms[1]), UINT(w.columns), FLOAT(factor));
        float *got = content_of(c, &rooms[1]);
        for (size_t at = 0; at < w.x; at++) {
            double value = (double)w.read[at] * (double)factor;
            bounded share = logistic(value, fabs(value) * EPSILON);
            expect_close(c, at, value * share.value, got[at],
                         fabs(value) * (share.error + 2 * EPSILON * share.value) + TINY);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(got);
    }
}

static void check_collapse_gates(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 63; s++) {
        connecting w = connecting_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams", w.count, w.columns, w.streams);
        float *gates = rough_array(w.states, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, gates, w.states), float_room(d, NULL, w.x), float_room(d, NULL, w.x)};
        DEVICE_DO(c, d, DEVICE_collapse_gates, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), UINT(w.columns),
                  UINT(w.streams));
        float *got = content_of(c, &rooms[3]), *copy = content_of(c, &rooms[4]);
        for (size_t at = 0; at < w.x; at++) {
            bounded want = {0, TINY};
            for (size_t i = 0; i < w.streams; i++) {
                size_t from = (at / w.columns * w.streams + i) * w.columns + at % w.columns;
                bounded share = logistic((double)gates[from], 0);
                double term = share.value * (double)w.state[from];
                want.value += term;
                want.error +=
                    fabs((double)w.state[from]) * share.error + fabs(term) * ((double)w.streams + 2) * EPSILON;
            }
            expect_close(c, at, want.value / w.streams, got[at], want.error);
        }
        expect_same(c, "the copy", got, copy, w.x * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(gates), free(got), free(copy);
    }
}

static void check_spread_gates(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 63; s++) {
        connecting w = connecting_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams", w.count, w.columns, w.streams);
        size_t products = w.count * (size_t)w.streams;
        float *x = rough_array(w.x, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL), float_room(d, w.state, w.states),
                        float_room(d, w.weight, products), float_room(d, x, w.x), float_room(d, w.read, w.x)};
        DEVICE_DO(c, d, DEVICE_spread_gates, CHECKED_ROWS * items_of(w.columns, STREAM_COLUMNS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), UINT(w.columns),
                  UINT(w.streams));
        float *got = content_of(c, &rooms[1]);
        for (size_t at = 0; at < w.states; at++) {
            size_t row = at / w.columns, t = row / w.streams, own = t * w.columns + at % w.columns;
            double value = (double)w.weight[row] / w.streams, result = (double)x[own] - (double)w.read[own];
            bounded share = logistic(value, fabs(value) * EPSILON);
            double want = (double)w.state[at] + 2 * share.value * result;
            expect_close(c, at, want, got[at],
                         2 * fabs(result) * (share.error + 3 * EPSILON * share.value) + fabs(want) * EPSILON + TINY);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(x), free(got);
    }
}

/* ------------------------------------------------------------------ n-grams */

/* The gate of a stream whose key agrees with it so much. It grows with the score. */
static double gate_at(double score)
{
    double root = score == 0 ? 0 : copysign(sqrt(fmax(fabs(score), 1e-6)), score);
    return 1 / (1 + exp(-root));
}

/* The same of a score that is off by so much, which near zero, where the gate jumps, may be another one. */
static bounded gate_of(double score, double off)
{
    bounded gate = {gate_at(score), 0};
    double low = gate_at(score - off), high = gate_at(score + off);
    gate.error = fmax(high - gate.value, gate.value - low) + gate.value * (EXP_ERROR + 8 * EPSILON);
    return gate;
}

static void check_gate_ngrams(check *c, device *d, uint64_t *rng)
{
    const float epsilon = 1e-6f;
    for (size_t s = 0; s < 63; s++) {
        connecting w = connecting_new(s, rng);
        size_t n = (size_t)w.streams * w.columns;
        snprintf(c->size, sizeof(c->size), "%u rows of %u, %u streams", w.count, w.columns, w.streams);
        float *keys = rough_array(w.states, rng), *weight = rough_array(n, rng), *convolved = rough_array(n, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, w.state, w.states),
                        float_room(d, keys, w.states),
                        float_room(d, w.read, w.x),
                        float_room(d, weight, n),
                        float_room(d, convolved, n),
                        float_room(d, NULL, w.states)};
        DEVICE_DO(c, d, DEVICE_gate_ngrams, CHECKED_ROWS * w.streams, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]), room_of(&rooms[6]),
                  UINT(w.columns), UINT(w.streams), FLOAT(epsilon));
        float *states = content_of(c, &rooms[1]), *normed = content_of(c, &rooms[6]);
        for (size_t item = 0; item < w.count * (size_t)w.streams; item++) {
            const float *state = w.state + item * w.columns, *key = keys + item * w.columns;
            const float *value = w.read + item / w.streams * w.columns;
            size_t own = item % w.streams * w.columns;
            double sum = 0, size = 0, squares = 0, of_values = 0, slip = (double)(w.columns + 12) * EPSILON;
            for (size_t k = 0; k < w.columns; k++) {
                double term = (double)key[k] * (double)weight[own + k] * (double)state[k];
                sum += term;
                size += fabs(term);
                squares += (double)state[k] * (double)state[k];
                of_values += (double)value[k] * (double)value[k];
            }
            double scale = 1 / sqrt((squares / w.columns + (double)epsilon) * w.columns);
            bounded gate = gate_of(sum * scale, size * scale * 2 * slip + TINY);
            double root = sqrt(gate.value * gate.value * of_values / w.columns + (double)epsilon);
            for (size_t k = 0; k < w.columns; k++) {
                double v = (double)value[k], added = gate.value * v, by = (double)convolved[own + k] / root;
                expect_close(c, item * w.columns + k, (double)state[k] + added, states[item * w.columns + k],
                             fabs(v) * gate.error + (fabs(added) + fabs((double)state[k])) * 2 * EPSILON + TINY);
                /* a gate that is off changes what it is divided by as well */
                expect_close(c, item * w.columns + k, added * by, normed[item * w.columns + k],
                             fabs(v * by) * (2 * gate.error + gate.value * 2 * slip) + TINY);
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        connecting_free(&w);
        free(keys), free(weight), free(convolved), free(states), free(normed);
    }
}

void check_device_streams(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "predict_streams");
    check_predict(c, d, rng);
    check_begin(c, "correct_streams");
    check_correct(c, d, rng);
    check_begin(c, "weigh_connections");
    check_weigh(c, d, rng);
    check_begin(c, "collapse_streams");
    check_collapse(c, d, rng);
    check_begin(c, "spread_streams");
    check_spread(c, d, rng);
    check_begin(c, "norm_streams");
    check_norm_streams(c, d, rng);
    check_begin(c, "squeeze");
    check_squeeze(c, d, rng);
    check_begin(c, "collapse_gates");
    check_collapse_gates(c, d, rng);
    check_begin(c, "spread_gates");
    check_spread_gates(c, d, rng);
    check_begin(c, "gate_ngrams");
    check_gate_ngrams(c, d, rng);
}
