/* kcheck_device_vectors.c - the kernels of devices that are not products: norm, greatest logit, compaction, activation
 * (attention is in kcheck_device_attention.c).
 *
 * What has one right answer (lists, places, relu) must have its bits; the rest is held against double precision, each
 * bound said where it is. */
#include "kcheck_device_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1, 3, 7, 8, 16, 31, 64, 65, 100, 257, 1000, 1024, 2049, 5000};

/* ------------------------------------------------------------------ norm, greatest logit */

static void check_norm(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        size_t n = sizes[s];
        uint32_t count = random_count(rng);
        snprintf(c->size, sizeof(c->size), "%zu values, %u rows", n, count);
        float *x = rough_array(count * n, rng), *weight = rough_array(n, rng);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * n), float_room(d, weight, n),
                        float_room(d, NULL, count * n)};
        DEVICE_DO(c, d, DEVICE_norm, STEP_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
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
        free_rooms(rooms, COUNT_OF(rooms));
        free(x), free(weight), free(got);
    }
}

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
        uint32_t count = random_count(rng), want[STEP_ROWS];
        snprintf(c->size, sizeof(c->size), "%zu logits of kind %zu, %u rows", n, s % 6, count);
        float *x = array_new(count * n, sizeof(float));
        for (size_t i = 0; i < count * n; i++)
            x[i] = random_logit(s % 6, rng);
        for (size_t t = 0; t < count; t++)
            want[t] = greatest_of(x + t * n, n);
        room rooms[] = {step_new(d, count, NULL, NULL, NULL), float_room(d, x, count * n), word_room(d, NULL, count)};
        DEVICE_DO(c, d, DEVICE_argmax, STEP_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]), UINT(n));
        uint32_t *got = content_of(c, &rooms[2]);
        expect_same(c, "places", want, got, count * sizeof(uint32_t));
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
    compaction w = {.count = random_count(rng), .rule = (uint32_t)(s % 2), .n = sizes[s / 2 % COUNT_OF(sizes)]};
    w.column = (uint32_t)random_below(rng, TOTALS);
    w.threshold = random_below(rng, 2) ? 0 : random_value(rng);
    w.values = array_new(w.count * w.n, sizeof(float));
    for (size_t i = 0; i < w.count * w.n; i++)
        w.values[i] = random_candidate(w.threshold, rng);
    size_t numbers = 2 * w.n; /* that ids choose from */
    if (random_below(rng, 2)) {
        w.ids = array_new(STEP_ROWS * w.n, sizeof(uint32_t));
        w.id_count = array_new(STEP_ROWS, sizeof(uint32_t));
        for (size_t t = 0; t < STEP_ROWS; t++) {
            w.id_count[t] = (uint32_t)(random_below(rng, 4) ? random_below(rng, w.n + 1) : w.n * (t % 2));
            for (size_t i = 0; i < w.n; i++)
                w.ids[t * w.n + i] = (uint32_t)(2 * i + random_below(rng, 2));
        }
    }
    w.bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    w.list = array_new(STEP_ROWS * w.n, sizeof(uint32_t)), w.listed = array_new(STEP_ROWS, sizeof(uint32_t));
    w.totals = array_new(STEP_ROWS * TOTALS, sizeof(uint32_t));
    for (size_t i = 0; i < STEP_ROWS * TOTALS; i++)
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
    kernels k;
    kernels_for(0, &k);
    for (size_t t = 0; t < w->count; t++) {
        size_t m = w->ids ? w->id_count[t] : w->n;
        float *x = copy_of(w->values + t * w->n, m * sizeof(float));
        const uint32_t *ids = w->ids ? w->ids + t * w->n : NULL;
        for (size_t i = 0; i < m && w->bias; i++)
            x[i] += w->bias[ids ? ids[i] : i];
        size_t found = k.select[w->rule == RULE_ABOVE ? SELECT_ABOVE : SELECT_FROM](
            x, ids, 0, m, w->threshold, w->list + t * w->n, w->selected ? w->selected + t * w->n : NULL);
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
    for (size_t s = 0; s < 6 * COUNT_OF(sizes); s++) {
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
                        word_room(d, w.ids, w.ids ? STEP_ROWS * w.n : 0),
                        word_room(d, w.id_count, w.ids ? STEP_ROWS : 0),
                        word_room(d, w.list, STEP_ROWS * w.n),
                        word_room(d, w.listed, STEP_ROWS),
                        float_room(d, w.selected, apart ? w.count * w.n : 0),
                        word_room(d, w.totals, STEP_ROWS * TOTALS)};
        for (size_t run = 0; run < 2; run++) {
            DEVICE_DO(c, d, DEVICE_compact, STEP_ROWS, room_of(&rooms[0]), room_of(&rooms[1]),
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

/* ------------------------------------------------------------------ activate */

typedef struct activation {
    uint32_t count, kind, gating, *list, *listed;
    size_t n;
    float *first, *second, *first_bias, *second_bias, activation_threshold;
} activation;

static activation activation_new(size_t s, uint64_t *rng)
{
    activation w = {.count = random_count(rng), .kind = s % 2 ? KIND_RELU : KIND_SILU, .gating = (uint32_t)(s / 2 % 3)};
    w.n = sizes[s / 6 % COUNT_OF(sizes)];
    w.activation_threshold = random_below(rng, 2) ? 0 : 0.25f;
    w.first = rough_array(w.count * w.n, rng), w.second = rough_array(w.count * w.n, rng);
    for (size_t i = 0; i < w.count * w.n && random_below(rng, 2) == 0; i++) /* beyond what exp can hold */
        w.first[i] *= random_below(rng, 2) ? 120 : 10;
    size_t numbers = w.n;
    if (random_below(rng, 2)) {
        numbers = 3 * w.n;
        w.list = array_new(STEP_ROWS * w.n, sizeof(uint32_t)), w.listed = array_new(STEP_ROWS, sizeof(uint32_t));
        for (size_t t = 0; t < STEP_ROWS; t++) {
            w.listed[t] = (uint32_t)(random_below(rng, 4) ? random_below(rng, w.n + 1) : 0);
            for (size_t i = 0; i < w.n; i++)
                w.list[t * w.n + i] = (uint32_t)(3 * i + random_below(rng, 3));
        }
    }
    w.first_bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    w.second_bias = random_below(rng, 2) ? rough_array(numbers, rng) : NULL;
    return w;
}

static void activation_free(activation *w)
{
    free(w->first), free(w->second), free(w->first_bias), free(w->second_bias), free(w->list), free(w->listed);
}

/* One place: relu as the CPU's kernel has it, bit for bit, silu in double precision, with the bound of exp, of which a
 * product takes two, and of the four operations around each. */
static void check_activated(check *c, const kernels *k, const activation *w, size_t t, size_t i, float got)
{
    size_t at = t * w->n + i, neuron = w->list ? w->list[at] : i;
    float a = w->first[at] + (w->first_bias ? w->first_bias[neuron] : 0);
    float b = w->second[at] + (w->second_bias ? w->second_bias[neuron] : 0);
    if (w->kind == KIND_RELU) {
        float want;
        if (w->gating == GATING_BOTH)
            k->activate[ACTIVATION_RELU](&b, NULL, w->activation_threshold, 1, &b);
        k->activate[ACTIVATION_RELU](&a, w->gating == GATING_PLAIN ? NULL : &b, w->activation_threshold, 1, &want);
        expect_same(c, "values", &want, &got, sizeof(want));
        return;
    }
    double second = w->gating == GATING_PLAIN ? 1 : w->gating == GATING_GATED ? b : b / (1 + exp(-(double)b));
    double want = a / (1 + exp(-(double)a)) * second;
    double tiny = TINY * (1 + fabs((double)a)) * (1 + fabs((double)b));
    expect_close(c, at, want, got, fabs(want) * 2 * (EXP_ERROR + 4 * EPSILON) + tiny);
}

static void check_activate(check *c, device *d, uint64_t *rng)
{
    kernels k;
    kernels_for(0, &k);
    for (size_t s = 0; s < 12 * COUNT_OF(sizes); s++) {
        activation w = activation_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows of %zu, kind %u, gating %u%s%s%s", w.count, w.n, w.kind, w.gating,
                 w.list ? ", list" : "", w.first_bias ? ", bias" : "", w.second_bias ? ", second bias" : "");
        for (size_t i = 0; i < w.count * w.n; i++) /* what a neuron that is zero must not let through */
            if (w.kind == KIND_RELU && !w.first_bias && !(w.first[i] > w.activation_threshold) &&
                random_below(rng, 4) == 0)
                w.second[i] = random_below(rng, 2) ? NAN : INFINITY;
        size_t numbers = w.list ? 3 * w.n : w.n;
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, w.first, w.count * w.n),
                        float_room(d, w.second, w.count * w.n),
                        float_room(d, w.first_bias, w.first_bias ? numbers : 0),
                        float_room(d, w.second_bias, w.second_bias ? numbers : 0),
                        word_room(d, w.list, w.list ? STEP_ROWS * w.n : 0),
                        word_room(d, w.listed, w.list ? STEP_ROWS : 0)};
        DEVICE_DO(c, d, DEVICE_activate, STEP_ROWS * items_of(w.n, ACTIVATE_NEURONS), room_of(&rooms[0]),
                  room_of(&rooms[1]), w.gating == GATING_PLAIN ? NO_BUFFER : room_of(&rooms[2]),
                  w.first_bias ? room_of(&rooms[3]) : NO_BUFFER, w.second_bias ? room_of(&rooms[4]) : NO_BUFFER,
                  w.list ? room_of(&rooms[5]) : NO_BUFFER, w.list ? room_of(&rooms[6]) : NO_BUFFER, UINT(w.n),
                  UINT(w.kind), UINT(w.gating), FLOAT(w.activation_threshold));
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

void check_device_vectors(check *c, device *d, uint64_t seed)
{
    uint64_t rng = seed * 41;
    check_begin(c, "norm");
    check_norm(c, d, &rng);
    check_begin(c, "argmax");
    check_argmax(c, d, &rng);
    check_device_attention(c, d, &rng);
    check_begin(c, "compact");
    check_compact(c, d, &rng);
    check_begin(c, "activate");
    check_activate(c, d, &rng);
}
