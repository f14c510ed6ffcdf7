/* kcheck_device_vectors.c - the kernels of devices that are not products: norms, greatest logit, cuts, compaction, activation
 * (attention is in kcheck_device_attention.c, experts and streams of the residual are in kcheck_device_experts.c and
 * kcheck_device_streams.c).
 *
 * What has one right answer (lists, places, relu) must have its bits; the rest is held against double precision, each
 * bound said where it is. */
#include "kcheck_device_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1, 3, 7, 8, 16, 31, 64, 65, 100, 257, 1000, 1024, 2049, 4096, 5000};

/* ------------------------------------------------------------------ norms */

/* norm_8 gives the bits of norm, and those of their rounding. rooms: step, x, weight; normed: of norm. */
static void check_norm_8(check *c, device *d, const room *rooms, const float *normed, uint32_t count, size_t n)
{
    size_t values = count * n, blocks = values / Q8_BLOCK;
    room to[] = {float_room(d, NULL, values), room_new(d, NULL, values), float_room(d, NULL, blocks),
                 word_room(d, NULL, blocks)};
    DEVICE_DO(c, d, DEVICE_norm_8, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
              room_of(&to[0]), room_of(&to[1]), room_of(&to[2]), room_of(&to[3]), UINT(n), FLOAT(1e-5f));
    float *got = content_of(c, &to[0]);
    expect_same(c, "what norm gives", normed, got, values * sizeof(float));
    expect_rounded(c, normed, values, &to[1], &to[2], &to[3]);
    free_rooms(to, COUNT_OF(to));
    free(got);
}

static void check_norm(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        size_t n = sizes[s];
        uint32_t count = random_count(rng);
        snprintf(c->size, sizeof(c->size), "%zu values, %u rows", n, count);
        float *x = rough_array(count * n, rng), *weight = rough_array(n, rng);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * n), float_room(d, weight, n),
                        float_room(d, NULL, count * n)};
        DEVICE_DO(c, d, DEVICE_norm, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  room_of(&rooms[3]), UINT(n), FLOAT(1e-5f));
        float *got = content_of(c, &rooms[3]);
        for (size_t t = 0; t < count; t++) {
            double squares = 0;
            for (size_t i = 0; i < n; i++)
                squares += (double)x[t * n + i] * x[t * n + i];
            /* A sum of n squares is off by at most n EPSILON of itself, its root by half of that; six operations more. */
            double error = ((double)n / 2 + 7) * EPSILON;
            for (size_t i = 0; i < n; i++) {
                double want = x[t * n + i] / sqrt(squares / (double)n + 1e-5f) * weight[i];
                expect_close(c, i, want, got[t * n + i], fabs(want) * error + TINY * (1 + fabs(weight[i])));
            }
        }
        if (n % Q8_BLOCK == 0)
            check_norm_8(c, d, rooms, got, count, n);
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(weight), free(got);
    }
}

/* What norm_ranges works on. */
typedef struct norming {
    size_t ranges, length, stride;
    bool centred, adds;
    float factor, *x, *weight, *bias, *before; /* before: what is in `out` */
} norming;

/* One range in double precision. A mean of n values is off by at most (n + 1) EPSILON of their mean size; each value
 * minus the mean, and so their root mean square, by that much (`shift`) and a rounding. The sum of squares adds n / 2
 * EPSILON of the root, and eight operations follow. */
static void check_range(check *c, const norming *w, size_t at, const float *got)
{
    const float *x = w->x + at, epsilon = 1e-5f;
    double n = (double)w->length, mean = 0, size = 0, squares = 0;
    for (size_t i = 0; i < w->length; i++) {
        mean += w->centred ? x[i] / n : 0;
        size += w->centred ? fabs((double)x[i]) / n : 0;
    }
    for (size_t i = 0; i < w->length; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double root = sqrt(squares / n + (double)epsilon), shift = (n + 1) * EPSILON * size;
    double least_root = fmax(root - shift, sqrt((double)epsilon)) * (1 - (n + 8) * EPSILON);
    for (size_t i = 0; i < w->length; i++) {
        double normed = (x[i] - mean) / root, weight = w->weight ? (double)w->weight[i] : 1,
               bias = w->bias ? (double)w->bias[i] : 0;
        double error = (shift + fabs(normed) * shift) / least_root + fabs(normed) * (n / 2 + 9) * EPSILON;
        double value = w->factor * (normed * weight + bias), before = w->adds ? (double)w->before[at + i] : 0;
        error = fabs((double)w->factor) * (error * fabs(weight) + 3 * EPSILON * (fabs(normed * weight) + fabs(bias)));
        expect_close(c, i, before + value, got[at + i], error + EPSILON * fabs(before) + TINY * (1 + fabs(weight)));
    }
}

static void check_norm_ranges(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * COUNT_OF(sizes); s++) {
        uint32_t count = random_count(rng);
        norming w = {.ranges = s % 4 ? 1 : 1 + random_below(rng, 5),
                     .length = sizes[s / 4],
                     .centred = random_below(rng, 2),
                     .adds = random_below(rng, 2),
                     .factor = random_below(rng, 2) ? 1 : random_value(rng)};
        bool in_place = !w.adds && random_below(rng, 2);
        w.stride = w.ranges * w.length + random_below(rng, 9);
        snprintf(c->size, sizeof(c->size), "%zu of %zu values, %u rows, %s%s%s, factor %g", w.ranges, w.length, count,
                 w.centred ? "centred" : "not centred", w.adds ? ", added" : "", in_place ? ", in place" : "",
                 (double)w.factor);
        size_t n = count * w.stride;
        w.x = rough_array(n, rng), w.weight = random_below(rng, 4) ? rough_array(w.length, rng) : NULL;
        w.bias = random_below(rng, 2) ? rough_array(w.length, rng) : NULL;
        w.before = in_place ? copy_of(w.x, n * sizeof(float)) : rough_array(n, rng);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, w.x, n),
                        float_room(d, w.weight, w.weight ? w.length : 0), float_room(d, w.bias, w.bias ? w.length : 0),
                        float_room(d, w.before, n)};
        DEVICE_DO(c, d, DEVICE_norm_ranges, CHECKED_ROWS * w.ranges, room_of(&rooms[0]),
                  room_of(&rooms[in_place ? 4 : 1]), w.weight ? room_of(&rooms[2]) : NO_BUFFER,
                  w.bias ? room_of(&rooms[3]) : NO_BUFFER, room_of(&rooms[4]), UINT(w.ranges), UINT(w.length),
                  UINT(w.stride), UINT(w.centred), UINT(w.adds ? FINISH_ADD : FINISH_STORE), FLOAT(1e-5f),
                  FLOAT(w.factor));
        float *got = content_of(c, &rooms[4]);
        for (size_t t = 0; t < count; t++) {
            size_t used = w.ranges * w.length;
            for (size_t i = 0; i < used; i += w.length)
                check_range(c, &w, t * w.stride + i, got);
            expect_same(c, "values between rows", w.before + t * w.stride + used, got + t * w.stride + used,
                        (w.stride - used) * sizeof(float));
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(w.x), free(w.weight), free(w.bias), free(w.before), free(got);
    }
}

/* Bounded as by check_norm. */
static void check_norm_neurons(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 2 * COUNT_OF(sizes); s++) {
        size_t n = sizes[s / 2];
        uint32_t count = random_count(rng), listed[CHECKED_ROWS];
        bool has_list = s % 2, joins = s / 2 % 2;
        snprintf(c->size, sizeof(c->size), "%zu neurons, %u rows%s%s", n, count, has_list ? ", list" : "",
                 joins ? ", joined" : "");
        float *h = rough_array(count * n, rng), *weight = rough_array(3 * n, rng);
        uint32_t *list = array_new(CHECKED_ROWS * n, sizeof(uint32_t));
        for (size_t t = 0; t < CHECKED_ROWS; t++) {
            listed[t] = (uint32_t)(has_list ? random_below(rng, n + 1) : n);
            for (size_t i = 0; i < n; i++)
                list[t * n + i] = (uint32_t)(has_list ? 3 * i + random_below(rng, 3) : i);
        }
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, h, count * n),
                        float_room(d, weight, 3 * n),         word_room(d, list, CHECKED_ROWS * n),
                        word_room(d, listed, CHECKED_ROWS),   float_room(d, NULL, count)};
        DEVICE_DO(c, d, DEVICE_norm_neurons, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  has_list ? room_of(&rooms[3]) : NO_BUFFER, has_list ? room_of(&rooms[4]) : NO_BUFFER,
                  joins ? room_of(&rooms[5]) : NO_BUFFER, UINT(n), FLOAT(1e-5f));
        float *got = content_of(c, &rooms[1]), *sums = content_of(c, &rooms[5]);
        for (size_t t = 0; t < count; t++) {
            double squares = 0;
            for (size_t i = 0; i < listed[t]; i++)
                squares += (double)h[t * n + i] * h[t * n + i];
            for (size_t i = 0; i < listed[t]; i++) {
                double by = weight[list[t * n + i]] / (joins ? 1 : sqrt(squares / (double)n + 1e-5f));
                double want = h[t * n + i] * by;
                expect_close(c, i, want, got[t * n + i],
                             fabs(want) * ((double)n / 2 + 7) * EPSILON + TINY * (1 + fabs(h[t * n + i]) + fabs(by)));
            }
            if (joins)
                expect_close(c, t, squares, sums[t], squares * ((double)n + 7) * EPSILON + TINY);
            expect_same(c, "values behind the list", h + t * n + listed[t], got + t * n + listed[t],
                        (n - listed[t]) * sizeof(float));
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(h), free(weight), free(list), free(got), free(sums);
    }
}

static void check_norm_joined(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        size_t columns = sizes[s];
        uint32_t count = random_count(rng), n = 1 + (uint32_t)random_below(rng, 5000);
        snprintf(c->size, sizeof(c->size), "%zu columns, %u rows", columns, count);
        float *x = rough_array(count * columns, rng), own[CHECKED_ROWS], others[CHECKED_ROWS];
        for (size_t t = 0; t < CHECKED_ROWS; t++)
            own[t] = fabsf(random_value(rng)), others[t] = random_below(rng, 3) ? fabsf(random_value(rng)) : 0;
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * columns),
                        float_room(d, own, CHECKED_ROWS), float_room(d, others, CHECKED_ROWS)};
        DEVICE_DO(c, d, DEVICE_norm_joined, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  room_of(&rooms[3]), UINT(columns), UINT(n), FLOAT(1e-5f));
        float *got = content_of(c, &rooms[1]);
        for (size_t i = 0; i < count * columns; i++) {
            size_t t = i / columns;
            double want = x[i] / sqrt(((double)own[t] + others[t]) / n + 1e-5f);
            expect_close(c, i, want, got[i], fabs(want) * 6 * EPSILON + TINY * (1 + fabs(x[i])));
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(got);
    }
}

/* ------------------------------------------------------------------ greatest logit */

/* Few different values, so that the greatest is often there twice. */
static float random_logit(size_t kind, uint64_t *rng)
{
    static const float some[] = {-0.0f, 0.0f, 0x1p-140f, -0x1p-140f, -1, -2, -INFINITY, NAN};
    switch (kind) {
    case 0:
        return random_rough(rng);
    case 1:
        return some[random_below(rng, COUNT_OF(some))];
    case 2:
        return -1 - (float)random_below(rng, 3);
    case 3:
        return random_below(rng, 3) ? -INFINITY : NAN;
    case 4: /* zeros of both signs are the greatest, and the same */
        return random_below(rng, 8) ? -1 : random_below(rng, 2) ? -0.0f : 0.0f;
    default:
        return NAN;
    }
}

static uint32_t greatest_of(const float *x, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best == n || x[i] > x[best]))
            best = i;
    return best == n ? 0 : (uint32_t)best;
}

static void check_argmax(check *c, device *d, uint64_t *rng)
{
    static const size_t vocabularies[] = {1, 2, 3, 63, 128, 1000, 4097, 32000};
    for (size_t s = 0; s < 6 * COUNT_OF(vocabularies); s++) {
        size_t n = vocabularies[s / 6];
        uint32_t count = random_count(rng), want[CHECKED_ROWS];
        snprintf(c->size, sizeof(c->size), "%zu logits of kind %zu, %u rows", n, s % 6, count);
        float *x = array_new(count * n, sizeof(float));
        for (size_t i = 0; i < count * n; i++)
            x[i] = random_logit(s % 6, rng);
        for (size_t t = 0; t < count; t++)
            want[t] = greatest_of(x + t * n, n);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * n), word_room(d, NULL, count)};
        DEVICE_DO(c, d, DEVICE_argmax, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  UINT(n));
        uint32_t *got = content_of(c, &rooms[2]);
        expect_same(c, "places", want, got, count * sizeof(uint32_t));
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(got);
    }
}

/* ------------------------------------------------------------------ cut */

/* One token in double precision. Mean and root mean square are off as in check_range; what is subtracted by both, and by its
 * three operations; and one subtraction follows. */
static void check_cut_row(check *c, const float *x, size_t count, float deviations, const float *got)
{
    double n = (double)count, mean = 0, size = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        mean += x[i] / n;
        size += fabs((double)x[i]) / n;
    }
    for (size_t i = 0; i < count; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double root = sqrt(squares / n), by = fabs((double)deviations), least = mean + deviations * root;
    double shift = (n + 1) * EPSILON * size;
    double error = shift + by * (shift + root * (n / 2 + 5) * EPSILON) + 3 * EPSILON * (fabs(mean) + by * root);
    for (size_t i = 0; i < count; i++)
        expect_close(c, i, fmax(x[i] - least, 0), got[i],
                     error + EPSILON * (fabs((double)x[i]) + fabs(least)) + TINY * (1 + by));
}

/* In some cases a value of the last token is NaN: then it is all NaN. */
static void check_cut(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * COUNT_OF(sizes); s++) {
        size_t n = sizes[s / 4];
        uint32_t count = random_count(rng);
        float deviations = s % 4 == 0 ? 0 : 2 * random_value(rng), offset = s % 2 ? 0 : random_value(rng);
        bool broken = s % 4 == 3;
        snprintf(c->size, sizeof(c->size), "%zu values, %u rows, %g deviations%s", n, count, (double)deviations,
                 broken ? ", NaN" : "");
        float *x = rough_array(count * n, rng);
        for (size_t i = 0; i < count * n; i++)
            x[i] += offset;
        if (broken)
            x[count * n - 1 - random_below(rng, n)] = NAN;
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * n)};
        DEVICE_DO(c, d, DEVICE_cut, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), UINT(n), FLOAT(deviations));
        float *got = content_of(c, &rooms[1]);
        for (size_t t = 0; t < count - broken; t++)
            check_cut_row(c, x + t * n, n, deviations, got + t * n);
        for (size_t i = (count - 1) * n; broken && i < count * n; i++)
            expect(c, "NaN stays", isnan(got[i]));
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(got);
    }
}

/* ------------------------------------------------------------------ compact */

/* What compact works on, as the CPU sees it; the arrays become what is expected. */
typedef struct compaction {
    uint32_t count, rule, column, *ids, *id_count, *list, *listed, *totals;
    size_t n;
    float *values, *bias, *selected, threshold; /* selected: apart from values, NULL, or values itself */
} compaction;

static float random_candidate(float threshold, uint64_t *rng)
{
    size_t kind = random_below(rng, 12);
    return kind == 0 ? NAN : kind == 1 ? threshold : kind == 2 ? -INFINITY : random_rough(rng);
}

static compaction compaction_new(size_t s, uint64_t *rng)
{
    compaction w = {.count = random_count(rng), .rule = (uint32_t)(s % 3), .n = sizes[s / 3 % COUNT_OF(sizes)]};
    w.column = (uint32_t)random_below(rng, TOTALS);
    w.threshold = random_below(rng, 2) ? 0 : random_value(rng);
    w.values = array_new(w.count * w.n, sizeof(float));
    for (size_t i = 0; i < w.count * w.n; i++)
        w.values[i] = random_candidate(w.threshold, rng);
    size_t numbers = 2 * w.n; /* that ids choose from */
    if (random_below(rng, 2)) {
        w.ids = array_new(CHECKED_ROWS * w.n, sizeof(uint32_t));
        w.id_count = array_new(CHECKED_ROWS, sizeof(uint32_t));
        for (size_t t = 0; t < CHECKED_ROWS; t++) {
            w.id_count[t] = (uint32_t)(random_below(rng, 4) ? random_below(rng, w.n + 1) : w.n * (t % 2));
            for (size_t i = 0; i < w.n; i++)
                w.ids[t * w.n + i] = (uint32_t)(2 * i + random_below(rng, 2));
        }
    }
    w.bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    w.list = array_new(CHECKED_ROWS * w.n, sizeof(uint32_t)), w.listed = array_new(CHECKED_ROWS, sizeof(uint32_t));
    w.totals = array_new(CHECKED_ROWS * TOTALS, sizeof(uint32_t));
    for (size_t i = 0; i < CHECKED_ROWS * TOTALS; i++)
        w.totals[i] = (uint32_t)random_below(rng, 1000);
    size_t way = random_below(rng, 3);
    w.selected = way == 0 ? NULL : way == 1 ? w.values : rough_array(w.count * w.n, rng);
    return w;
}

static void compaction_free(compaction *w)
{
    if (w->selected != w->values)
        free(w->selected);
    free(w->values), free(w->bias), free(w->ids), free(w->id_count);
    free(w->list), free(w->listed), free(w->totals);
}

/* By the CPU's kernel, the bias added before. */
static void compact_on_cpu(compaction *w)
{
    static const kernel_selection rules[] = {
        [RULE_ABOVE] = SELECT_ABOVE, [RULE_FROM] = SELECT_FROM, [RULE_BEYOND] = SELECT_BEYOND};
    kernels k;
    kernels_for(0, &k);
    for (size_t t = 0; t < w->count; t++) {
        size_t m = w->ids ? w->id_count[t] : w->n;
        float *x = copy_of(w->values + t * w->n, m * sizeof(float));
        const uint32_t *ids = w->ids ? w->ids + t * w->n : NULL;
        for (size_t i = 0; i < m && w->bias; i++)
            x[i] += w->bias[ids ? ids[i] : i];
        size_t found = k.select[rules[w->rule]](x, ids, 0, m, w->threshold, w->list + t * w->n,
                                                w->selected ? w->selected + t * w->n : NULL);
        w->listed[t] = (uint32_t)found;
        w->totals[t * TOTALS + w->column] += (uint32_t)found;
        free(x);
    }
}

/* Floats of which NaNs are all alike: which one a sum gives is nobody's promise. */
static void expect_floats(check *c, const char *what, const float *want, float *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(want[i]) && isnan(got[i]))
            got[i] = want[i];
    expect_same(c, what, want, got, n * sizeof(float));
}

static void expect_room(check *c, const char *what, const void *want, const room *r)
{
    void *got = content_of(c, r);
    expect_same(c, what, want, got, r->size);
    free(got);
}

/* Launched twice, so that totals add up; in place, the second run works on what the first left. */
static void check_compact(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 9 * COUNT_OF(sizes); s++) {
        compaction w = compaction_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %zu, rule %u%s%s%s", w.count, w.n, w.rule, w.ids ? ", ids" : "",
                 w.bias ? ", bias" : "",
                 !w.selected              ? ""
                 : w.selected == w.values ? ", in place"
                                          : ", selected");
        bool apart = w.selected && w.selected != w.values;
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, w.values, w.count * w.n),
                        float_room(d, w.bias, w.bias ? 2 * w.n : 0),
                        word_room(d, w.ids, w.ids ? CHECKED_ROWS * w.n : 0),
                        word_room(d, w.id_count, w.ids ? CHECKED_ROWS : 0),
                        word_room(d, w.list, CHECKED_ROWS * w.n),
                        word_room(d, w.listed, CHECKED_ROWS),
                        float_room(d, w.selected, apart ? w.count * w.n : 0),
                        word_room(d, w.totals, CHECKED_ROWS * TOTALS)};
        for (size_t run = 0; run < 2; run++) {
            DEVICE_DO(c, d, DEVICE_compact, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]),
                      w.bias ? room_of(&rooms[2]) : NO_BUFFER, w.ids ? room_of(&rooms[3]) : NO_BUFFER,
                      w.ids ? room_of(&rooms[4]) : NO_BUFFER, room_of(&rooms[5]), room_of(&rooms[6]),
                      !w.selected ? NO_BUFFER : room_of(&rooms[apart ? 7 : 1]), room_of(&rooms[8]), UINT(w.n),
                      UINT(w.rule), UINT(w.column), FLOAT(w.threshold));
            compact_on_cpu(&w);
            expect_room(c, "list", w.list, &rooms[5]);
            expect_room(c, "listed", w.listed, &rooms[6]);
            expect_room(c, "totals", w.totals, &rooms[8]);
            float *values = content_of(c, &rooms[1]), *selected = content_of(c, &rooms[7]);
            expect_floats(c, "values", w.values, values, w.count * w.n);
            if (apart)
                expect_floats(c, "selected", w.selected, selected, w.count * w.n);
            free(values), free(selected);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        compaction_free(&w);
    }
}

/* ------------------------------------------------------------------ tally */

/* Launched twice, so that numbers add up. A list is empty, has all neurons, or some. */
static void check_tally(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        uint32_t count = random_count(rng);
        size_t neurons = sizes[s], n = neurons + random_below(rng, 9);
        uint32_t *list = array_new(CHECKED_ROWS * n, sizeof *list), *listed = array_new(CHECKED_ROWS, sizeof *listed);
        uint32_t *fired = array_new(neurons, sizeof *fired);
        snprintf(c->size, sizeof(c->size), "%u rows of %zu", count, neurons);
        for (size_t i = 0; i < neurons; i++)
            fired[i] = (uint32_t)random_below(rng, 1000);
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0, share = random_below(rng, 5); i < neurons; i++)
                if (random_below(rng, 4) < share)
                    list[t * n + listed[t]++] = (uint32_t)i;
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), word_room(d, list, CHECKED_ROWS * n),
                        word_room(d, listed, CHECKED_ROWS), word_room(d, fired, neurons)};
        for (size_t run = 0; run < 2; run++) {
            DEVICE_DO(c, d, DEVICE_tally, items_of(neurons, TALLIED_NEURONS), room_of(&rooms[0]), room_of(&rooms[1]),
                      room_of(&rooms[2]), room_of(&rooms[3]), UINT(n), UINT(neurons));
            for (size_t t = 0; t < count; t++)
                for (size_t i = 0; i < listed[t]; i++)
                    fired[list[t * n + i]]++;
            expect_room(c, "fired", fired, &rooms[3]);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(list), free(listed), free(fired);
    }
}

/* ------------------------------------------------------------------ activate */

enum { KINDS = KIND_XIELU + 1 };

/* Of xielu. */
static const activation_curve curve = {1.25f, 0.875f, 0.5f};

typedef struct activation {
    uint32_t count, kind, gating, *list, *listed;
    size_t n;
    float *first, *second, *first_bias, *second_bias, activation_threshold;
} activation;

static activation activation_new(size_t s, uint64_t *rng)
{
    activation w = {.count = random_count(rng), .kind = (uint32_t)(s % KINDS), .gating = (uint32_t)(s / KINDS % 3)};
    w.n = sizes[s / KINDS / 3 % COUNT_OF(sizes)];
    w.activation_threshold = random_below(rng, 2) ? 0 : 0.25f;
    bool silu = w.kind == KIND_SILU_LIMITED || w.kind == KIND_SILU_CLAMPED;
    if (w.kind == KIND_SWIGLU_CLAMPED || silu)
        w.gating = GATING_GATED, w.activation_threshold = random_below(rng, 2) ? 0.5f : 7;
    if (silu && random_below(rng, 4) == 0)
        w.activation_threshold = 0; /* none */
    w.first = rough_array(w.count * w.n, rng), w.second = rough_array(w.count * w.n, rng);
    for (size_t i = 0; i < w.count * w.n && random_below(rng, 2) == 0; i++) /* beyond what exp can hold */
        w.first[i] *= random_below(rng, 2) ? 120 : 10;
    size_t numbers = w.n;
    if (random_below(rng, 2)) {
        numbers = 3 * w.n;
        w.list = array_new(CHECKED_ROWS * w.n, sizeof(uint32_t)), w.listed = array_new(CHECKED_ROWS, sizeof(uint32_t));
        for (size_t t = 0; t < CHECKED_ROWS; t++) {
            w.listed[t] = (uint32_t)(random_below(rng, 4) ? random_below(rng, w.n + 1) : 0);
            for (size_t i = 0; i < w.n; i++)
                w.list[t * w.n + i] = (uint32_t)(3 * i + random_below(rng, 3));
        }
    }
    w.first_bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    w.second_bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    return w;
}

static bool has_zeros(const activation *w)
{
    return w->kind == KIND_RELU || w->kind == KIND_RELU2;
}

static void activation_free(activation *w)
{
    free(w->first), free(w->second), free(w->first_bias), free(w->second_bias), free(w->list), free(w->listed);
}

/* The activations without zeros. silu: the error of exp and four operations. gelu_tanh, as x / (1 + exp(-2 u)): also
 * that of 2 u, six operations, which exp makes 2 u times as large. gelu: that of the approximation of 1 - erf, and of its
 * rounding, which is greatest where x is zero: 11 EPSILON of the polynomial (its intermediate sums and its coefficients
 * are about 1), 10 of its argument, whose error the slope there, 3.4, multiplies, 10 of exp and two products, 4 of what
 * leads to them, and 5 around it. xielu: exp(x) is at most 1 where it matters, and 1 and x are taken from it. */
static bounded activated(uint32_t kind, double x)
{
    double twice = 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x), value = x / (1 + exp(-x));
    if (kind == KIND_SILU)
        return (bounded){value, fabs(value) * (EXP_ERROR + 4 * EPSILON)};
    if (kind == KIND_GELU)
        return (bounded){x / 2 * erfc(-x / sqrt(2)), fabs(x) / 2 * (1.5e-7 + 40 * EPSILON)};
    if (kind == KIND_XIELU) {
        double bend = x > 0 ? (double)curve.positive * x * x : (double)curve.negative * (expm1(x) - x);
        value = (double)curve.linear * x + bend;
        return (bounded){value, (fabs(value) + fabs(bend) + fabs(x)) * 4 * EPSILON +
                                    (double)curve.negative * (EXP_ERROR + 3 * EPSILON)};
    }
    value = x / (1 + exp(-twice));
    return (bounded){value, fabs(value) * (EXP_ERROR + (4 + 6 * fabs(twice)) * EPSILON)};
}

/* Clamped SwiGLU: exp's argument is rounded once, which exp makes its size times as large; six operations. */
static bounded swiglu_clamped(double gate, double up, double limit)
{
    double g = fmin(gate, limit), value = g / (1 + exp(-1.702 * g)) * (fmin(fmax(up, -limit), limit) + 1);
    return (bounded){value, fabs(value) * (EXP_ERROR + (6 + 2 * fabs(1.702 * g)) * EPSILON)};
}

/* SiLU and up, both limited: by a limit the error does not grow. first: what SiLU reads is limited, else what it gives. */
static bounded silu_limited(double gate, double up, double limit, bool first)
{
    limit = limit > 0 ? limit : INFINITY;
    gate = first ? fmin(gate, limit) : gate;
    double value = fmin(gate / (1 + exp(-gate)), limit) * fmin(fmax(up, -limit), limit);
    return (bounded){value, fabs(value) * (EXP_ERROR + 5 * EPSILON)};
}

/* One place: relu and relu2 as the CPU's kernel has them, bit for bit, the others in double precision. */
static void check_activated(check *c, const kernels *k, const activation *w, size_t t, size_t i, float got)
{
    size_t at = t * w->n + i, neuron = w->list ? w->list[at] : i;
    float a = w->first[at] + (w->first_bias ? w->first_bias[neuron] : 0);
    float b = w->second[at] + (w->second_bias ? w->second_bias[neuron] : 0);
    if (has_zeros(w)) {
        const activation_terms terms = {.threshold = w->activation_threshold};
        kernel_activation kind = w->kind == KIND_RELU ? ACTIVATION_RELU : ACTIVATION_RELU2;
        float want;
        if (w->gating == GATING_BOTH)
            k->activate[kind](&b, NULL, terms, 1, &b);
        k->activate[kind](&a, w->gating == GATING_PLAIN ? NULL : &b, terms, 1, &want);
        expect_same(c, "values", &want, &got, sizeof(want));
        return;
    }
    if (w->kind == KIND_SWIGLU_CLAMPED) {
        bounded clamped = swiglu_clamped(a, b, w->activation_threshold);
        double small = TINY * (1 + fabs((double)a)) * (2 + (double)w->activation_threshold);
        expect_close(c, at, clamped.value, got, clamped.error + small);
        return;
    }
    if (w->kind == KIND_SILU_LIMITED || w->kind == KIND_SILU_CLAMPED) {
        bounded value = silu_limited(a, b, w->activation_threshold, w->kind == KIND_SILU_CLAMPED);
        expect_close(c, at, value.value, got, value.error + TINY * (1 + fabs((double)a)) * (1 + fabs((double)b)));
        return;
    }
    bounded first = activated(w->kind, a), second = {1, 0};
    if (w->gating != GATING_PLAIN)
        second = w->gating == GATING_BOTH ? activated(w->kind, b) : (bounded){b, 0};
    double want = first.value * second.value, tiny = TINY * (1 + fabs((double)a)) * (1 + fabs((double)b));
    expect_close(c, at, want, got,
                 first.error * fabs(second.value) + (fabs(first.value) + first.error) * second.error +
                     fabs(want) * EPSILON + tiny);
}

static void check_activate(check *c, device *d, uint64_t *rng)
{
    kernels k;
    kernels_for(0, &k);
    for (size_t s = 0; s < 6 * (size_t)KINDS * COUNT_OF(sizes); s++) {
        activation w = activation_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %zu, kind %u, gating %u%s%s%s", w.count, w.n, w.kind, w.gating,
                 w.list ? ", list" : "", w.first_bias ? ", bias" : "", w.second_bias ? ", second bias" : "");
        for (size_t i = 0; i < w.count * w.n; i++) /* what a neuron that is zero must not let through */
            if (has_zeros(&w) && !w.first_bias && !(w.first[i] > (w.kind == KIND_RELU ? w.activation_threshold : 0)) &&
                random_below(rng, 4) == 0)
                w.second[i] = random_below(rng, 2) ? NAN : INFINITY;
        size_t numbers = w.list ? 3 * w.n : w.n;
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, w.first, w.count * w.n),
                        float_room(d, w.second, w.count * w.n),
                        float_room(d, w.first_bias, w.first_bias ? numbers : 0),
                        float_room(d, w.second_bias, w.second_bias ? numbers : 0),
                        word_room(d, w.list, w.list ? CHECKED_ROWS * w.n : 0),
                        word_room(d, w.listed, w.list ? CHECKED_ROWS : 0)};
        DEVICE_DO(c, d, DEVICE_activate, CHECKED_ROWS * items_of(w.n, ACTIVATE_NEURONS), room_of(&rooms[0]),
                  room_of(&rooms[1]), w.gating == GATING_PLAIN ? NO_BUFFER : room_of(&rooms[2]),
                  w.first_bias ? room_of(&rooms[3]) : NO_BUFFER, w.second_bias ? room_of(&rooms[4]) : NO_BUFFER,
                  w.list ? room_of(&rooms[5]) : NO_BUFFER, w.list ? room_of(&rooms[6]) : NO_BUFFER, UINT(w.n),
                  UINT(w.kind), UINT(w.gating), FLOAT(w.activation_threshold), FLOAT(curve.positive),
                  FLOAT(curve.negative), FLOAT(curve.linear));
        float *got = content_of(c, &rooms[1]);
        for (size_t i = 0; i < w.count * w.n; i++)
            if (!w.list || i % w.n < w.listed[i / w.n])
                check_activated(c, &k, &w, i / w.n, i % w.n, got[i]);
            else
                expect_same(c, "values behind the list", &w.first[i], &got[i], sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        activation_free(&w);
        free(got);
    }
}

/* Values between rows of heads, apart or with all rows of a head together, through gates or without. */
static void check_move(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 40; s++) {
        uint32_t heads = 1 + (uint32_t)random_below(rng, 6), length = 1 + (uint32_t)random_below(rng, 300);
        uint32_t rows = some_rows(rng), row[2], head[2];
        for (size_t i = 0; i < 2; i++) {
            bool together = random_below(rng, 2);
            head[i] = together ? 0 : length + (uint32_t)random_below(rng, 5);
            row[i] = together ? heads * length : heads * head[i] + (uint32_t)random_below(rng, 5);
        }
        size_t from_size = (size_t)rows * row[0], to_size = (size_t)rows * row[1];
        snprintf(c->size, sizeof(c->size), "%u rows of %u heads of %u, %u apart to %u apart", rows, heads, length,
                 head[0], head[1]);
        bool gated = s % 2;
        size_t gate_row = (size_t)heads * length + random_below(rng, 3), gates_size = rows * gate_row;
        float *from = rough_array(from_size, rng), *want = rough_array(to_size, rng),
              *gates = rough_array(gates_size, rng);
        room rooms[] = {step_new(d, rows, NULL, NULL, NULL), float_room(d, from, from_size),
                        float_room(d, want, to_size), float_room(d, gates, gates_size)};
        DEVICE_DO(c, d, DEVICE_move, CHECKED_ROWS * heads, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  gated ? room_of(&rooms[3]) : NO_BUFFER, UINT(heads), UINT(length), UINT(row[0]), UINT(head[0]),
                  UINT(row[1]), UINT(head[1]), UINT(gate_row));
        float *got = content_of(c, &rooms[2]);
        for (size_t t = 0; t < rows; t++)
            for (size_t i = 0; i < (size_t)heads * length; i++) {
                size_t h = i / length, own = i % length;
                size_t to = (head[1] ? t * row[1] + h * head[1] : (h * rows + t) * length) + own;
                float value = from[(head[0] ? t * row[0] + h * head[0] : (h * rows + t) * length) + own];
                double share = gated ? 1 / (1 + exp(-(double)gates[t * gate_row + i])) : 1,
                       moved = share * (double)value;
                expect_close(c, to, moved, got[to],
                             gated ? fabs(moved) * (EXP_ERROR + 6 * EPSILON) + TINY * (1 + fabs((double)value)) : 0);
                want[to] = got[to];
            }
        expect_same(c, "what is of no head", want, got, to_size * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        free(from), free(want), free(gates), free(got);
    }
}

void check_device_vectors(check *c, device *d, uint64_t seed)
{
    uint64_t rng = seed * 41;
    check_begin(c, "norm");
    check_norm(c, d, &rng);
    check_begin(c, "norm_ranges");
    check_norm_ranges(c, d, &rng);
    check_begin(c, "norm_neurons");
    check_norm_neurons(c, d, &rng);
    check_begin(c, "norm_joined");
    check_norm_joined(c, d, &rng);
    check_begin(c, "argmax");
    check_argmax(c, d, &rng);
    check_device_attention(c, d, &rng);
    check_device_choice(c, d, &rng);
    check_device_summaries(c, d, &rng);
    check_begin(c, "cut");
    check_cut(c, d, &rng);
    check_begin(c, "compact");
    check_compact(c, d, &rng);
    check_begin(c, "tally");
    check_tally(c, d, &rng);
    check_begin(c, "activate");
    check_activate(c, d, &rng);
    check_begin(c, "move");
    check_move(c, d, &rng);
    check_device_recurrent(c, d, &rng);
    check_device_columns(c, d, &rng);
    check_device_streams(c, d, &rng);
    check_device_experts(c, d, &rng);
}
