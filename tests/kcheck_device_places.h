/* kcheck_device_places.h - what the checks of recurrent layers on devices share: rows of sequences, and the places of their states. */
#ifndef TESTS_KCHECK_DEVICE_PLACES_H
#define TESTS_KCHECK_DEVICE_PLACES_H

#include "kcheck_device_arrays.h"

#include <math.h>

/* A logistic function of x that is off by at most this share: exp, a sum and a quotient. */
#define SIGMOID_ERROR (EXP_ERROR + 4 * EPSILON)

static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Rows of up to three sequences, each with two places of `length` values, between which they go to and fro as feeds do: the
 * first row of a sequence finds its state in one place, or none, and leaves it in the other, where the next row finds it. */
typedef struct places {
    step_record step;
    size_t sequences, length;
    float *before; /* [2 * sequences][length] */
} places;

static inline places places_new(size_t length, uint64_t *rng)
{
    /* The states of random inputs grow from row to row, so that many rows would overflow. */
    uint32_t count = random_count(rng), most = 2 * STEP_ROWS;
    places p = {
        .step = {.count = count < most ? count : most}, .sequences = 1 + random_below(rng, 3), .length = length};
    uint32_t seen[3] = {0}, turn[3];
    for (size_t i = 0; i < 3; i++)
        turn[i] = (uint32_t)random_below(rng, 2);
    for (size_t t = 0; t < p.step.count; t++) {
        uint32_t q = (uint32_t)random_below(rng, p.sequences), to = 2 * q + turn[q];
        p.step.row[t].state_to = to;
        p.step.row[t].state_from = seen[q]++ ? to : random_below(rng, 3) ? 2 * q + 1 - turn[q] : NO_STATE;
    }
    p.before = rough_array(2 * p.sequences * length, rng);
    return p;
}

static inline room step_room(device *d, const places *p)
{
    return room_new(d, &p->step, sizeof p->step);
}

static inline room states_room(device *d, const places *p)
{
    return float_room(d, p->before, 2 * p->sequences * p->length);
}

/* A number with how far float32 may be from it. */
typedef struct rough {
    double value, error;
} rough;

#endif
