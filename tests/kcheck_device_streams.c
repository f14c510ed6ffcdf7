/* kcheck_device_streams.c - the kernels of devices for several streams of the residual, predict_streams and correct_streams,
 * against double precision. */
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

/* A number and how far off it may be. */
typedef struct bounded {
    double value, error;
} bounded;

/* Row `row` of the small matrix times w of a token. tanh is off by TANH_ERROR, its argument by a division; a sum of n products
 * by n EPSILON of their sizes. */
static bounded weighed(const streaming *w, size_t row, size_t t)
{
    bounded sum = {0, 0};
    for (size_t j = 0; j < w->streams; j++) {
        double by = tanh((double)w->products[t * w->streams + j] / w->columns);
        double value = (double)w->small[row * w->streams + j] * by;
        sum.value += value;
        sum.error += fabs(value) * (TANH_ERROR + (2 + (double)w->streams) * EPSILON) +
                     TINY * (1 + fabs((double)w->small[row * w->streams + j]));
    }
    return sum;
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
        for (size_t t = 0; t < w.count; t++)
            for (size_t i = 0; i < w.streams; i++)
                for (size_t k = 0; k < w.columns; k++) {
                    size_t at = t * w.columns + k;
                    bounded want = {(double)w.states[i * w.apart + at], 0};
                    for (size_t j = 0; j < w.streams; j++) {
                        bounded factor = weighed(&w, i * w.streams + j, t);
                        double old = (double)w.states[j * w.apart + at];
                        want.value += factor.value * old;
                        want.error += factor.error * fabs(old) +
                                      fabs(factor.value * old) * (1 + (double)w.streams) * EPSILON + TINY;
                    }
                    want.error += fabs(want.value) * EPSILON;
                    expect_value(c, i * w.apart + at, want, got, before);
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
        for (size_t t = 0; t < w.count; t++)
            for (size_t i = 0; i < w.streams; i++)
                for (size_t k = 0; k < w.columns; k++) {
                    size_t at = t * w.columns + k;
                    bounded factor = weighed(&w, i, t);
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
        expect_same(c, "what is not of a token", before, got, w.all * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        streaming_free(&w);
        free(got), free(seen), free(before);
    }
}

void check_device_streams(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "predict_streams");
    check_predict(c, d, rng);
    check_begin(c, "correct_streams");
    check_correct(c, d, rng);
}
