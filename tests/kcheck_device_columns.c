/* kcheck_device_columns.c - the kernels of devices for mixers whose states have a decay for each column: mix_inputs, squash,
 * wkv_prepare, kda_prepare, recur_columns, wkv_finish, against their definitions in double precision. */
#include "kcheck_device_places.h"

#include <stdio.h>

/* Numbers of ordinary size: what is divided by a length, or raised to a power, is not to overflow. */
static float *value_array(size_t n, float size, uint64_t *rng)
{
    float *x = array_new(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = size * random_value(rng);
    return x;
}

/* ------------------------------------------------------------------ mix_inputs */

static void check_mix(check *c, device *d, uint64_t *rng)
{
    static const size_t sizes[] = {1, 7, 64, 255, 256, 257, 600};
    for (size_t s = 0; s < 21; s++) {
        size_t n = sizes[s % COUNT_OF(sizes)], inputs = s % 2 ? 6 : 1;
        places p = places_new(n + random_below(rng, 9), rng);
        size_t count = p.step.count, apart = count * n + random_below(rng, 9);
        bool in_place = inputs == 1 && random_below(rng, 2);
        snprintf(c->size, sizeof(c->size), "%zu columns, %zu inputs, %zu rows%s", n, inputs, count,
                 in_place ? ", in place" : "");
        float *x = rough_array(count * n, rng), *mix = rough_array(inputs * n, rng);
        room rooms[] = {step_room(d, &p), float_room(d, x, count * n), float_room(d, mix, inputs * n),
                        states_room(d, &p), float_room(d, NULL, in_place ? 0 : inputs * apart)};
        room *out = &rooms[in_place ? 1 : 4];
        DEVICE_DO(c, d, DEVICE_mix_inputs, items_of(n, CONVOLVE_CHANNELS), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(out), UINT(n), UINT(inputs), UINT(apart),
                  UINT(p.length));
        float *got = content_of(c, out), *after = content_of(c, &rooms[3]);
        for (size_t t = 0; t < count; t++) {
            uint32_t from = p.step.row[t].state_from;
            for (size_t i = 0; i < n; i++) {
                double own = (double)x[t * n + i],
                       before = from == NO_STATE ? 0 : (double)p.before[from * p.length + i];
                for (size_t j = 0; j < inputs; j++) {
                    double share = (double)mix[j * n + i], want = own + share * (before - own);
                    double slip = EPSILON * (2 * fabs(share * (before - own)) + fabs(want)) + TINY * (1 + fabs(share));
                    expect_close(c, j * apart + t * n + i, want, (double)got[j * apart + t * n + i], slip);
                }
            }
            memcpy(p.before + p.step.row[t].state_to * p.length, x + t * n, n * sizeof *x);
        }
        expect_same(c, "rows that are kept", p.before, after, 2 * p.sequences * p.length * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(mix), free(p.before), free(got), free(after);
    }
}

/* ------------------------------------------------------------------ squash */

static void check_squash(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 24; s++) {
        uint32_t count = random_count(rng);
        size_t tanhs = random_below(rng, 200), sigmoids = random_below(rng, 200);
        size_t first = count * tanhs, apart = first + random_below(rng, 9), all = apart + count * sigmoids;
        snprintf(c->size, sizeof(c->size), "%zu and %zu values, %u rows", tanhs, sigmoids, count);
        float *x = rough_array(all, rng);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, all)};
        DEVICE_DO(c, d, DEVICE_squash, items_of(CHECKED_ROWS * (tanhs + sigmoids), SQUASHED_VALUES), room_of(&rooms[0]),
                  room_of(&rooms[1]), UINT(tanhs), UINT(sigmoids), UINT(apart));
        float *got = content_of(c, &rooms[1]);
        for (size_t i = 0; i < first; i++)
            expect_close(c, i, tanh((double)x[i]), (double)got[i], TANH_ERROR * fabs(tanh((double)x[i])) + TINY);
        expect_same(c, "values between both", x + first, got + first, (apart - first) * sizeof *x);
        for (size_t i = apart; i < all; i++)
            expect_close(c, i, sigmoid((double)x[i]), (double)got[i], SIGMOID_ERROR * sigmoid((double)x[i]) + TINY);
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(got);
    }
}

/* ------------------------------------------------------------------ rows of vectors */

typedef struct vectors {
    size_t heads, n, width, pitch, stride, count;
    float *x; /* [count][stride] */
} vectors;

static vectors vectors_new(size_t s, size_t count, float size, uint64_t *rng)
{
    static const size_t lengths[] = {64, 8, 1, 7, 16, 20, 128};
    vectors v = {.heads = 1 + random_below(rng, 4), .n = lengths[s % COUNT_OF(lengths)], .count = count};
    v.width = v.heads * v.n;
    v.pitch = (v.width + 7) / 8 * 8 + (random_below(rng, 4) ? 0 : 1); /* now and then vectors are not aligned */
    v.stride = WKV_VECTORS * v.pitch;
    v.x = value_array(count * v.stride, size, rng);
    return v;
}

static double of(const vectors *v, const float *x, size_t t, unsigned vector, size_t i)
{
    return (double)x[t * v->stride + vector * v->pitch + i];
}

static rough logistic(double x, double bias)
{
    double value = sigmoid(x + bias);
    return (rough){value, value * (SIGMOID_ERROR + 2 * EPSILON * fabs(x + bias)) + TINY};
}

/* ------------------------------------------------------------------ wkv_prepare */

typedef struct preparing {
    vectors v;
    const float *parameters, *first; /* first: before                       */
    const float *got, *first_after;
    bool is_first;
} preparing;

static double parameter(const preparing *w, unsigned which, size_t i)
{
    return (double)w->parameters[which * w->v.width + i];
}

/* Checks one value of all vectors. scale: of what is asked, within `error` of its share. */
static void compare_prepared(check *c, const preparing *w, size_t t, size_t i, double scale, double error)
{
    const vectors *v = &w->v;
    size_t at = t * v->stride + i;
    double key = of(v, v->x, t, WKV_KEY, i), value = of(v, v->x, t, WKV_VALUE, i);
    double share = parameter(w, WKV_RATE_SHARE, i), first = (double)w->first[t * v->width + i];
    rough learns = logistic(of(v, v->x, t, WKV_RATE, i), parameter(w, WKV_RATE_BIAS, i));
    rough kept = logistic(of(v, v->x, t, WKV_DECAY, i), parameter(w, WKV_DECAY_BIAS, i));
    rough moves = logistic(of(v, v->x, t, WKV_SHARE, i), parameter(w, WKV_SHARE_BIAS, i));
    double asked = key * parameter(w, WKV_REMOVAL_SCALE, i) * scale, removed = asked * learns.value;
    double decay = exp(-exp(-0.5) * kept.value), factor = 1 + (learns.value - 1) * share;
    double moved = value + (first - value) * moves.value, learn_error = learns.error / learns.value;
    expect_close(c, at + WKV_ASKED * v->pitch, asked, of(v, w->got, t, WKV_ASKED, i), fabs(asked) * error + TINY);
    expect_close(c, at + WKV_RATE * v->pitch, removed, of(v, w->got, t, WKV_RATE, i),
                 fabs(removed) * (error + learn_error + EPSILON) + TINY);
    expect_close(c, at + WKV_DECAY * v->pitch, decay, of(v, w->got, t, WKV_DECAY, i),
                 decay * (kept.error + 3 * EPSILON * kept.value + EXP_ERROR));
    /* learns - 1 is rounded, and its product with the share where they are not fused */
    expect_close(c, at + WKV_KEY * v->pitch, key * factor, of(v, w->got, t, WKV_KEY, i),
                 fabs(key) * (fabs(share) * (learns.error + 2 * EPSILON) + EPSILON * fabs(factor)) +
                     EPSILON * fabs(key * factor) + TINY);
    expect_close(c, at + WKV_VALUE * v->pitch, w->is_first ? value : moved, of(v, w->got, t, WKV_VALUE, i),
                 w->is_first ? 0 : fabs(first - value) * (moves.error + EPSILON) + EPSILON * fabs(moved) + TINY);
    expect_close(c, t * v->width + i, w->is_first ? value : first, (double)w->first_after[t * v->width + i], 0);
}

static void check_prepare(check *c, device *d, uint64_t *rng)
{
    static const unsigned untouched[] = {WKV_QUERY, WKV_SHARE, WKV_GATE};
    for (size_t s = 0; s < 21; s++) {
        preparing w = {.v = vectors_new(s, random_count(rng), 4, rng), .is_first = s % 3 == 0};
        vectors *v = &w.v;
        float *parameters = value_array(WKV_PARAMETERS * v->width, 2, rng);
        float *first = value_array(v->count * v->width, 4, rng);
        w.parameters = parameters, w.first = first;
        snprintf(c->size, sizeof(c->size), "%zu heads of %zu, %zu rows%s", v->heads, v->n, v->count,
                 w.is_first ? ", first layer" : "");
        room rooms[] = {step_new(d, (uint32_t)v->count, NULL, NULL, NULL), float_room(d, v->x, v->count * v->stride),
                        float_room(d, parameters, WKV_PARAMETERS * v->width),
                        float_room(d, first, v->count * v->width)};
        DEVICE_DO(c, d, DEVICE_wkv_prepare, CHECKED_ROWS * v->heads, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), UINT(v->heads), UINT(v->n), UINT(v->pitch), UINT(v->stride),
                  UINT(w.is_first));
        float *got = content_of(c, &rooms[1]), *after = content_of(c, &rooms[3]);
        w.got = got, w.first_after = after;
        for (size_t t = 0; t < v->count; t++) {
            for (size_t k = 0; k < COUNT_OF(untouched); k++)
                expect_same(c, "vectors that are only read", v->x + t * v->stride + untouched[k] * v->pitch,
                            got + t * v->stride + untouched[k] * v->pitch, v->width * sizeof *got);
            for (size_t h = 0; h < v->width; h += v->n) {
                double squares = 0;
                for (size_t i = h; i < h + v->n; i++)
                    squares += pow(of(v, v->x, t, WKV_KEY, i) * parameter(&w, WKV_REMOVAL_SCALE, i), 2);
                for (size_t i = h; i < h + v->n; i++)
                    compare_prepared(c, &w, t, i, 1 / fmax(sqrt(squares), 1e-12), ((double)v->n / 2 + 8) * EPSILON);
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(v->x), free(parameters), free(first), free(got), free(after);
    }
}

/* ------------------------------------------------------------------ kda_prepare */

/* log(1 + exp(x)). */
static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* Returns what a column keeps, of what the matrices have made, and its bias, whose sum is rounded once. rate: above 0; lowest: 0, or
 * below. */
static rough decay_of(double made, double bias, double rate, double lowest)
{
    double x = made + bias, slip_x = EPSILON * fabs(x), size = softplus(x);
    double slip = fabs(rate) * (size * (SOFTPLUS_ERROR + EPSILON) + 2 * slip_x), exponent = -rate * size;
    if (lowest < 0) {
        double share = sigmoid(rate * x);
        exponent = lowest * share;
        slip = fabs(exponent) * (SIGMOID_ERROR + fabs(rate) * 2 * slip_x + 2 * EPSILON);
    }
    double kept = exp(exponent);
    return (rough){kept, kept * (expm1(slip) + EXP_ERROR) + TINY};
}

/* Checks one value of a head's vectors. units: what scales its query and its key, both within `error` of their share. */
static void compare_delta(check *c, const vectors *v, const float *got, size_t t, size_t i, const double *units,
                          double error, rough decay)
{
    double query = of(v, v->x, t, WKV_QUERY, i) * units[0], key = of(v, v->x, t, WKV_KEY, i) * units[1];
    rough gain = logistic(of(v, v->x, t, WKV_SHARE, i / v->n), 0);
    double taken = gain.value * key, kept = decay.value, decay_error = decay.error;
    size_t at = t * v->stride + i;
    expect_close(c, at + WKV_QUERY * v->pitch, query, of(v, got, t, WKV_QUERY, i), fabs(query) * error + TINY);
    expect_close(c, at + WKV_DECAY * v->pitch, kept, of(v, got, t, WKV_DECAY, i), decay_error);
    expect_close(c, at + WKV_ASKED * v->pitch, kept * key, of(v, got, t, WKV_ASKED, i),
                 fabs(kept * key) * (error + EPSILON) + decay_error * fabs(key) + TINY);
    for (unsigned k = 0; k < 2; k++) {
        unsigned which = k ? WKV_KEY : WKV_RATE;
        expect_close(c, at + which * v->pitch, taken, of(v, got, t, which, i),
                     fabs(taken) * (error + EPSILON) + gain.error * fabs(key) + TINY);
    }
}

static void check_delta(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 21; s++) {
        vectors v = vectors_new(s, random_count(rng), 3, rng);
        float *bias = value_array(v.width, 2, rng), *rates = value_array(v.heads, 4, rng);
        float lowest = s % 2 ? -5 : 0;
        for (size_t h = 0; h < v.heads; h++)
            rates[h] = random_below(rng, 2) ? fabsf(rates[h]) : -fabsf(rates[h]);
        snprintf(c->size, sizeof(c->size), "%zu heads of %zu, %zu rows, %s", v.heads, v.n, v.count,
                 lowest < 0 ? "with a floor" : "without a floor");
        room rooms[] = {step_new(d, (uint32_t)v.count, NULL, NULL, NULL), float_room(d, v.x, v.count * v.stride),
                        float_room(d, bias, v.width), float_room(d, rates, v.heads)};
        DEVICE_DO(c, d, DEVICE_kda_prepare, CHECKED_ROWS * v.heads, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), UINT(v.heads), UINT(v.n), UINT(v.pitch), UINT(v.stride),
                  FLOAT(lowest));
        float *got = content_of(c, &rooms[1]);
        for (size_t t = 0; t < v.count; t++) {
            expect_same(c, "values", v.x + t * v.stride + WKV_VALUE * v.pitch, got + t * v.stride + WKV_VALUE * v.pitch,
                        v.width * sizeof *got);
            for (size_t h = 0; h < v.width; h += v.n) {
                double squares[2] = {(double)1e-6f, (double)1e-6f};
                for (size_t i = h; i < h + v.n; i++) {
                    squares[0] += pow(of(&v, v.x, t, WKV_QUERY, i), 2);
                    squares[1] += pow(of(&v, v.x, t, WKV_KEY, i), 2);
                }
                const double units[] = {1 / sqrt(squares[0] * (double)v.n), 1 / sqrt(squares[1])};
                for (size_t i = h; i < h + v.n; i++)
                    compare_delta(c, &v, got, t, i, units, ((double)v.n / 2 + 10) * EPSILON,
                                  decay_of(of(&v, v.x, t, WKV_DECAY, i), (double)bias[i], fabs((double)rates[h / v.n]),
                                           (double)lowest));
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(v.x), free(bias), free(rates), free(got);
    }
}

/* ------------------------------------------------------------------ recur_columns */

/* Takes one row of a head's state [n] through a token, from -> to; returns its output. Bounded as by check_recur. */
static rough columns_row(const vectors *v, size_t t, size_t h, size_t r, const rough *from, rough *to)
{
    double value = of(v, v->x, t, WKV_VALUE, h + r), answer = 0, size = 0, slip = 0;
    rough out = {0, 0};
    for (size_t i = 0; i < v->n; i++) {
        double asked = of(v, v->x, t, WKV_ASKED, h + i);
        answer += from[i].value * asked;
        size += fabs(from[i].value * asked);
        slip += fabs(asked) * from[i].error;
    }
    slip += ((double)v->n + 2) * EPSILON * size + (double)v->n * TINY;
    size = 0;
    for (size_t i = 0; i < v->n; i++) {
        double decay = of(v, v->x, t, WKV_DECAY, h + i), removed = of(v, v->x, t, WKV_RATE, h + i);
        double query = of(v, v->x, t, WKV_QUERY, h + i);
        double kept = decay * from[i].value, added = value * of(v, v->x, t, WKV_KEY, h + i), taken = answer * removed;
        double error = fabs(decay) * from[i].error + fabs(removed) * slip +
                       3 * EPSILON * (fabs(kept) + fabs(added) + fabs(taken)) + 2 * TINY;
        to[i] = (rough){kept + added - taken, error};
        out.value += to[i].value * query;
        size += fabs(to[i].value * query);
        out.error += fabs(query) * error;
    }
    out.error += ((double)v->n + 2) * EPSILON * size + (double)v->n * TINY;
    return out;
}

static void check_columns(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 21; s++) {
        /* the length of the state is known before the places are, and the rows behind those */
        uint64_t again = *rng;
        vectors v = vectors_new(s, 1, 1, &again);
        size_t size = v.width * v.n;
        free(v.x);
        places p = places_new((size + 7) / 4 * 4 + (random_below(&again, 4) ? 0 : 1), &again);
        v = vectors_new(s, p.step.count, 1, rng);
        *rng = again;
        float shorter = 1 / sqrtf((float)v.n); /* what is asked and removed has a length of 1 at most */
        for (size_t t = 0; t < v.count; t++)
            for (size_t i = 0; i < v.width; i++) {
                v.x[t * v.stride + WKV_ASKED * v.pitch + i] *= shorter;
                v.x[t * v.stride + WKV_RATE * v.pitch + i] *= shorter;
            }
        snprintf(c->size, sizeof(c->size), "%zu heads with states of %zu x %zu, %zu rows", v.heads, v.n, v.n, v.count);
        room rooms[] = {step_room(d, &p), float_room(d, v.x, v.count * v.stride), states_room(d, &p),
                        float_room(d, NULL, v.count * v.width)};
        DEVICE_DO(c, d, DEVICE_recur_columns, v.heads * items_of(v.n, RECUR_ROWS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), UINT(v.heads), UINT(v.n), UINT(v.pitch),
                  UINT(v.stride), UINT(p.length));
        float *after = content_of(c, &rooms[2]), *out = content_of(c, &rooms[3]);
        size_t all = 2 * p.sequences * p.length;
        rough *states = array_new(all, sizeof *states), *from = array_new(v.n, sizeof *from);
        for (size_t i = 0; i < all; i++)
            states[i].value = (double)p.before[i];
        for (size_t t = 0; t < v.count; t++)
            for (size_t r = 0; r < v.width; r++) {
                const step_row *row = &p.step.row[t];
                memset(from, 0, v.n * sizeof *from);
                if (row->state_from != NO_STATE)
                    memcpy(from, states + row->state_from * p.length + r * v.n, v.n * sizeof *from);
                rough want =
                    columns_row(&v, t, r / v.n * v.n, r % v.n, from, states + row->state_to * p.length + r * v.n);
                expect_close(c, t * v.width + r, want.value, (double)out[t * v.width + r], want.error);
            }
        for (size_t i = 0; i < all; i++)
            expect_close(c, i, states[i].value, (double)after[i], states[i].error);
        free_rooms(rooms, COUNT_OF(rooms));
        free(v.x), free(p.before), free(after), free(out), free(states), free(from);
    }
}

/* ------------------------------------------------------------------ wkv_finish */

/* The norm of a head of n values: mean, the inverse of the deviation, and how far float32 may be from the mean. */
typedef struct normed_head {
    double mean, scale, slip;
} normed_head;

static normed_head norm_of(const float *y, size_t n)
{
    normed_head o = {0, 0, 0};
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        o.mean += (double)y[i] / (double)n;
        o.slip += ((double)n + 2) * EPSILON * fabs((double)y[i]) / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        squares += pow((double)y[i] - o.mean, 2);
    o.scale = 1 / sqrt(squares / (double)n + (double)64e-5f);
    return o;
}

static void check_finish(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 21; s++) {
        vectors v = vectors_new(s, random_count(rng), 2, rng);
        size_t size = v.count * v.width;
        float *y = value_array(size, 3, rng), *weight = rough_array(v.width, rng), *bias = rough_array(v.width, rng);
        float *bonus = rough_array(v.width, rng);
        snprintf(c->size, sizeof(c->size), "%zu heads of %zu, %zu rows", v.heads, v.n, v.count);
        room rooms[] = {step_new(d, (uint32_t)v.count, NULL, NULL, NULL),
                        float_room(d, y, size),
                        float_room(d, v.x, v.count * v.stride),
                        float_room(d, weight, v.width),
                        float_room(d, bias, v.width),
                        float_room(d, bonus, v.width)};
        DEVICE_DO(c, d, DEVICE_wkv_finish, CHECKED_ROWS * v.heads, room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]), UINT(v.heads),
                  UINT(v.n), UINT(v.pitch), UINT(v.stride), FLOAT(64e-5f));
        float *got = content_of(c, &rooms[1]);
        for (size_t at = 0; at < size; at += v.n) {
            size_t t = at / v.width, h = at % v.width;
            normed_head norm = norm_of(y + at, v.n);
            double extra = 0, extra_size = 0;
            for (size_t i = h; i < h + v.n; i++) {
                double term = of(&v, v.x, t, WKV_QUERY, i) * of(&v, v.x, t, WKV_KEY, i) * (double)bonus[i];
                extra += term;
                extra_size += fabs(term);
            }
            double extra_slip = ((double)v.n + 4) * EPSILON * extra_size + (double)v.n * TINY;
            for (size_t i = 0; i < v.n; i++) {
                double value = of(&v, v.x, t, WKV_VALUE, h + i), gate = of(&v, v.x, t, WKV_GATE, h + i);
                double normed = ((double)y[at + i] - norm.mean) * norm.scale;
                double normed_slip = norm.scale * norm.slip * (1 + fabs(normed)) +
                                     ((double)v.n / 2 + 9) * EPSILON * (fabs(normed) + norm.scale * fabs(norm.mean));
                double weighted = normed * (double)weight[h + i] + (double)bias[h + i];
                double sum = weighted + extra * value;
                double slip = fabs((double)weight[h + i]) * normed_slip + fabs(value) * extra_slip +
                              2 * EPSILON * (fabs(weighted) + fabs((double)bias[h + i]) + fabs(sum)) + TINY;
                expect_close(c, at + i, sum * gate, (double)got[at + i],
                             fabs(gate) * slip + EPSILON * fabs(sum * gate) + TINY);
            }
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(v.x), free(y), free(weight), free(bias), free(bonus), free(got);
    }
}

void check_device_columns(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "mix_inputs");
    check_mix(c, d, rng);
    check_begin(c, "squash");
    check_squash(c, d, rng);
    check_begin(c, "wkv_prepare");
    check_prepare(c, d, rng);
    check_begin(c, "kda_prepare");
    check_delta(c, d, rng);
    check_begin(c, "recur_columns");
    check_columns(c, d, rng);
    check_begin(c, "wkv_finish");
    check_finish(c, d, rng);
}
