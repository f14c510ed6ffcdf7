/* kcheck_device_attention.c - the kernels of devices for positions, the cache of keys and values, and attention.
 *
 * What is only copied must have its bits; the rest is held against double precision, each bound said where it is. All
 * shapes that a model may have and some that none has: heads of any length, rows of any number, windows, contexts that
 * end in the middle of a split. */
#include "kcheck_device_arrays.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------------ shapes and caches */

typedef struct shape {
    size_t heads, kv_heads, length, context, sequences, stride_q, stride_k;
    uint32_t count, sequence[PROMPT_ROWS], position[PROMPT_ROWS];
    /* Of the cache: pages of each sequence and what they are, positions of a page; values of a piece, of a page, of all. */
    size_t table, positions, piece, page, cached;
    uint32_t *pages; /* [sequences][table] */
} shape;

/* Lays the cache out in pages, in any order: more than the sequences have. */
static void lay_out_pages(shape *p, uint64_t *rng)
{
    p->positions = p->context < ATTEND_POSITIONS ? p->context : ATTEND_POSITIONS;
    p->table = (p->context + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS;
    p->piece = (p->positions * p->length + 7) / 8 * 8; /* pieces begin at multiples of 16 bytes */
    p->page = p->kv_heads * p->piece + 8 * random_below(rng, 3);
    size_t used = p->sequences * p->table, all = used + random_below(rng, 3);
    p->cached = all * p->page;
    uint32_t *numbers = array_new(all, sizeof *numbers);
    for (size_t i = 0; i < all; i++) {
        size_t other = random_below(rng, i + 1);
        numbers[i] = numbers[other];
        numbers[other] = (uint32_t)i;
    }
    p->pages = numbers;
}

static const size_t lengths[] = {1, 2, 6, 8, 20, 48, 64, 80, 100, 128, 200, 256, 2056};
static const size_t ratios[] = {1, 4, 8, 3, 7};

static shape random_shape(check *c, size_t s, size_t most_context, uint64_t *rng)
{
    shape p = {.kv_heads = 1 + random_below(rng, 3), .length = lengths[s % COUNT_OF(lengths)]};
    p.heads = p.kv_heads * ratios[s % COUNT_OF(ratios)];
    p.count = random_count(rng);
    size_t apart = p.count <= STEP_ROWS ? STEP_ROWS : PROMPT_ROWS;
    p.context = apart + random_below(rng, p.length > 256 ? 40 : most_context);
    p.sequences = 1 + random_below(rng, 3);
    p.stride_q = p.heads * p.length + 8 * random_below(rng, 3) + random_below(rng, 4) / 3;
    p.stride_k = p.kv_heads * p.length + random_below(rng, 5);
    lay_out_pages(&p, rng);
    for (size_t t = 0; t < p.count; t++) { /* no two rows at the same place */
        p.sequence[t] = (uint32_t)random_below(rng, p.sequences);
        p.position[t] = (uint32_t)(random_below(rng, p.context / apart) * apart + t);
    }
    if (random_below(rng, 4) == 0)
        p.position[p.count - 1] = (uint32_t)p.context - 1; /* the last there is; the multiples above may end before */
    for (size_t t = 0; t + 1 < p.count; t++)
        if (p.position[t] == p.context - 1)
            p.position[t] -= (uint32_t)apart;
    snprintf(c->size, sizeof(c->size), "%zu heads on %zu of %zu, context %zu, %u rows, first at %u", p.heads,
             p.kv_heads, p.length, p.context, p.count, p.position[0]);
    return p;
}

static room step_of(device *d, const shape *p)
{
    return step_new(d, p->count, p->sequence, p->position, NULL);
}

static size_t cache_index(const shape *p, size_t sequence, size_t kv_head, size_t position)
{
    size_t page = p->pages[sequence * p->table + position / ATTEND_POSITIONS];
    return page * p->page + kv_head * p->piece + position % ATTEND_POSITIONS * p->length;
}

static room pages_of(device *d, const shape *p)
{
    return room_new(d, p->pages, p->sequences * p->table * sizeof *p->pages);
}

/* A cache's bytes from values, and one of its values. */
static void *cache_from(const float *values, size_t n, bool half)
{
    uint16_t *out = array_new(n, half ? sizeof(uint16_t) : sizeof(float));
    if (half)
        for (size_t i = 0; i < n; i++)
            out[i] = half_from_float(values[i]);
    else
        memcpy(out, values, n * sizeof(float));
    return out;
}

static float cached(const void *cache, size_t i, bool half)
{
    return half ? half_to_float(((const uint16_t *)cache)[i]) : ((const float *)cache)[i];
}

/* ------------------------------------------------------------------ place */

/* Angles of a head; halves: values i and i + pairs form a pair, otherwise neighbours. */
typedef struct turn {
    const float *cosine, *sine;
    size_t pairs;
    bool halves;
} turn;

/* One head against its rotation in double precision: two products and a sum, three roundings. What is stored as a half
 * is off by half a unit of its eleven bits more, or by half of the least subnormal number. */
static void check_turned(check *c, const float *before, const turn *by, size_t length, const void *got, bool half)
{
    for (size_t i = 0; i < length; i++) {
        float value = cached(got, i, half);
        if (i >= 2 * by->pairs) {
            float want = half ? half_to_float(half_from_float(before[i])) : before[i];
            expect_same(c, "values past the pairs", &want, &value, sizeof(want));
            continue;
        }
        size_t pair = by->halves ? i % by->pairs : i / 2;
        bool second = by->halves ? i >= by->pairs : i % 2;
        size_t apart = by->halves ? by->pairs : 1, other = second ? i - apart : i + apart;
        double a = (double)before[i] * by->cosine[pair], b = (double)before[other] * by->sine[pair];
        double want = second ? a + b : a - b, bound = 3 * EPSILON * (fabs(a) + fabs(b)) + TINY;
        expect_close(c, i, want, value, half ? bound + 0x1.004p-11 * fabs(want) + 0x1p-24 : bound);
    }
}

typedef struct placed {
    float *query, *key, *value, *cosine, *sine;
    void *keys, *values, *got_query, *got_keys, *got_values;
} placed;

/* Every head of every row, and that nothing else changed: what is expected elsewhere is what was there. */
static void compare_placed(check *c, const shape *p, size_t pairs, bool halves, bool half, placed *x)
{
    size_t value_bytes = half ? sizeof(uint16_t) : sizeof(float);
    for (size_t t = 0; t < p->count; t++) {
        turn by = {x->cosine + t * pairs, x->sine + t * pairs, pairs, halves};
        for (size_t h = 0; h < p->heads; h++) {
            float *at = x->query + t * p->stride_q + h * p->length;
            float *got = (float *)x->got_query + t * p->stride_q + h * p->length;
            check_turned(c, at, &by, p->length, got, false);
            memcpy(at, got, p->length * sizeof(float));
        }
        for (size_t h = 0; h < p->kv_heads; h++) {
            const float *from = x->key + t * p->stride_k + h * p->length;
            size_t at = cache_index(p, p->sequence[t], h, p->position[t]) * value_bytes,
                   bytes = p->length * value_bytes;
            check_turned(c, from, &by, p->length, (char *)x->got_keys + at, half);
            memcpy((char *)x->keys + at, (char *)x->got_keys + at, bytes);
            void *value = cache_from(x->value + t * p->stride_k + h * p->length, p->length, half);
            memcpy((char *)x->values + at, value, bytes);
            free(value);
        }
    }
    expect_same(c, "queries between heads", x->query, x->got_query, p->count * p->stride_q * sizeof(float));
    expect_same(c, "other keys", x->keys, x->got_keys, p->cached * value_bytes);
    expect_same(c, "values", x->values, x->got_values, p->cached * value_bytes);
}

static void check_place(check *c, device *d, device_kernel kernel, bool half, uint64_t *rng)
{
    for (size_t s = 0; s < 5 * COUNT_OF(lengths); s++) {
        shape p = random_shape(c, s, 40, rng);
        size_t pairs = random_below(rng, 2) ? p.length / 2 : random_below(rng, p.length / 2 + 1);
        bool halves = random_below(rng, 2);
        placed x = {.query = rough_array(p.count * p.stride_q, rng),
                    .key = rough_array(p.count * p.stride_k, rng),
                    .value = rough_array(p.count * p.stride_k, rng),
                    .cosine = rough_array(p.count * pairs, rng),
                    .sine = rough_array(p.count * pairs, rng)};
        float *before = rough_array(p.cached, rng);
        x.keys = cache_from(before, p.cached, half), x.values = cache_from(before, p.cached, half);
        size_t value_bytes = half ? sizeof(uint16_t) : sizeof(float), cache_bytes = p.cached * value_bytes;
        room rooms[] = {step_of(d, &p),
                        float_room(d, x.query, p.count * p.stride_q),
                        float_room(d, x.key, p.count * p.stride_k),
                        float_room(d, x.value, p.count * p.stride_k),
                        float_room(d, x.cosine, p.count * pairs),
                        float_room(d, x.sine, p.count * pairs),
                        room_new(d, x.keys, cache_bytes),
                        room_new(d, x.values, cache_bytes),
                        pages_of(d, &p)};
        DEVICE_DO(c, d, kernel, PROMPT_ROWS * (p.heads + p.kv_heads), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), room_of(&rooms[3]), pairs ? room_of(&rooms[4]) : NO_BUFFER,
                  pairs ? room_of(&rooms[5]) : NO_BUFFER, room_of(&rooms[6]), room_of(&rooms[7]), room_of(&rooms[8]),
                  UINT(p.table), UINT(p.page * value_bytes), UINT(p.piece * value_bytes), UINT(p.heads),
                  UINT(p.kv_heads), UINT(p.length), UINT(pairs), UINT(halves), UINT(p.stride_q), UINT(p.stride_k));
        x.got_query = content_of(c, &rooms[1]);
        x.got_keys = content_of(c, &rooms[6]), x.got_values = content_of(c, &rooms[7]);
        compare_placed(c, &p, pairs, halves, half, &x);
        free_rooms(rooms, COUNT_OF(rooms));
        void *all[] = {x.query,  x.key,  x.value,     x.cosine,   x.sine,       x.keys,
                       x.values, before, x.got_query, x.got_keys, x.got_values, p.pages};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            free(all[i]);
    }
}

/* ------------------------------------------------------------------ attend and join */

typedef struct attended {
    float *query, scale, softcap, *sinks, *gates;
    void *keys, *values;
    size_t window, splits;
} attended;

/* One query head of a row against double precision, over the positions that it sees. A score of `length` terms, scaled,
 * is off by at most `slip`; a weight exp(score - greatest) then by a factor within exp(+-2 slip) and by what two exps
 * err, since splits are weighted once more, each with a difference that is rounded relative to at most the 100 beyond
 * which exp is nothing. The sum of weights, a sink's among them, likewise; sums over all positions, and a division, add
 * their own. A cap makes no error of a score larger, and adds that of tanh and of three operations. */
static void check_head(check *c, const shape *p, const attended *a, size_t t, size_t head, bool half, const float *got)
{
    size_t end = p->position[t] + (size_t)1, begin = a->window && end > a->window ? end - a->window : 0;
    size_t count = end - begin, kv_head = head / (p->heads / p->kv_heads);
    const float *query = a->query + t * p->stride_q + head * p->length;
    double *score = array_new(count, sizeof(double)), greatest = -INFINITY, slip = 0, total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t from = cache_index(p, p->sequence[t], kv_head, begin + i);
        double magnitude = 0;
        for (size_t k = 0; k < p->length; k++) {
            double term = (double)query[k] * cached(a->keys, from + k, half);
            score[i] += term * a->scale;
            magnitude += fabs(term) * a->scale;
        }
        double error = magnitude * ((double)p->length + 2) * EPSILON;
        if (a->softcap > 0) {
            score[i] = a->softcap * tanh(score[i] / a->softcap);
            error += fabs(score[i]) * (TANH_ERROR + 3 * EPSILON);
        }
        slip = fmax(slip, error);
        greatest = fmax(greatest, score[i]);
    }
    if (a->sinks) {
        greatest = fmax(greatest, a->sinks[head]);
        total = exp(a->sinks[head] - greatest);
    }
    for (size_t i = 0; i < count; i++)
        total += score[i] = exp(score[i] - greatest);
    double error = 2 * (expm1(2 * slip + 200 * EPSILON) + 2 * EXP_ERROR) + (2 * (double)count + 8) * EPSILON;
    for (size_t k = 0; k < p->length; k++) {
        double want = 0, magnitude = 0, tiny = TINY;
        for (size_t i = 0; i < count; i++) {
            double value = cached(a->values, cache_index(p, p->sequence[t], kv_head, begin + i) + k, half);
            want += score[i] / total * value;
            magnitude += score[i] / total * fabs(value);
            tiny += TINY * fabs(value); /* a weight that should be nothing may be that much */
        }
        double gate = a->gates ? 1 / (1 + exp(-(double)a->gates[t * p->stride_q + head * p->length + k])) : 1;
        double slip_of_gate = a->gates ? EXP_ERROR + 5 * EPSILON : 0;
        expect_close(c, k, want * gate, got[k],
                     gate * (magnitude * (error + slip_of_gate) + tiny) + TINY * (1 + magnitude));
    }
    free(score);
}

/* Splits of which nothing is seen say so, and only those; the greatest weight of the others is 1. */
static void check_splits(check *c, const shape *p, const attended *a, const float *partial)
{
    for (size_t t = 0; t < p->count; t++)
        for (size_t i = 0; i < p->heads * a->splits; i++) {
            size_t begin = i % a->splits * ATTEND_POSITIONS, end = p->position[t] + (size_t)1;
            bool seen = begin < end && (!a->window || begin + ATTEND_POSITIONS + a->window > end);
            const float *tail = partial + ((t * p->heads * a->splits + i) * (p->length + 2)) + p->length;
            expect(c, "a split without positions has a sum", seen || (tail[1] == 0 && tail[0] < -1e38f));
            expect(c, "a split's sum of weights is not 1 to its positions",
                   !seen ||
                       (tail[1] >= 1 && tail[1] <= ATTEND_POSITIONS * (1 + 2 * ATTEND_POSITIONS * (float)EPSILON)));
        }
}

static attended attended_new(const shape *p, size_t s, bool half, uint64_t *rng)
{
    static const size_t windows[] = {0, 0, 1, 5, 256, 300};
    attended a = {.query = rough_array(p->count * p->stride_q, rng),
                  .scale = 1 / sqrtf((float)p->length),
                  .window = windows[s / 5 % COUNT_OF(windows)],
                  .splits = (p->context + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS,
                  .softcap = random_below(rng, 2)   ? 0
                             : random_below(rng, 2) ? 50
                                                    : 0.5f,
                  .sinks = random_below(rng, 2) ? NULL : rough_array(p->heads, rng),
                  .gates = random_below(rng, 2) ? NULL : rough_array(p->count * p->stride_q, rng)};
    float *values = rough_array(p->cached, rng);
    a.keys = cache_from(values, p->cached, half);
    for (size_t i = 0; i < p->cached; i++)
        values[i] = random_rough(rng);
    a.values = cache_from(values, p->cached, half);
    free(values);
    return a;
}

/* Attention for all rows, `most` at a time. rooms: step, query, keys, values, partial, mixed, sinks, gates, pages. */
static void attend(check *c, device *d, device_kernel kernel, const shape *p, const attended *a, const room *rooms,
                   uint32_t most)
{
    size_t value_bytes = kernel == DEVICE_attend_f16 ? sizeof(uint16_t) : sizeof(float);
    for (uint32_t first = 0; first < p->count; first += most) {
        DEVICE_DO(c, d, kernel, most * ATTEND_ITEMS(p->heads, p->kv_heads, a->splits), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[8]), UINT(p->table),
                  UINT(p->page * value_bytes), UINT(p->piece * value_bytes), room_of(&rooms[4]), UINT(p->heads),
                  UINT(p->kv_heads), UINT(p->length), UINT(a->window), UINT(a->splits), UINT(p->stride_q), UINT(first),
                  UINT(most), FLOAT(a->scale), FLOAT(a->softcap));
        DEVICE_DO(c, d, DEVICE_attend_join, most * p->heads, room_of(&rooms[0]), room_of(&rooms[4]),
                  a->sinks ? room_of(&rooms[6]) : NO_BUFFER, a->gates ? room_of(&rooms[7]) : NO_BUFFER,
                  room_of(&rooms[5]), UINT(p->heads), UINT(p->length), UINT(a->splits), UINT(p->stride_q), UINT(first),
                  UINT(most));
    }
}

static void check_attend(check *c, device *d, device_kernel kernel, bool half, uint64_t *rng)
{
    for (size_t s = 0; s < 5 * COUNT_OF(lengths); s++) {
        shape p = random_shape(c, s, s % 4 == 0 ? 3 * ATTEND_POSITIONS : s % 4 == 1 ? ATTEND_POSITIONS + 8 : 60, rng);
        attended a = attended_new(&p, s, half, rng);
        size_t cache_bytes = p.cached * (half ? sizeof(uint16_t) : sizeof(float));
        size_t parts = p.count * p.heads * a.splits * (p.length + 2), out = p.count * p.heads * p.length;
        room rooms[] = {step_of(d, &p),
                        float_room(d, a.query, p.count * p.stride_q),
                        room_new(d, a.keys, cache_bytes),
                        room_new(d, a.values, cache_bytes),
                        float_room(d, NULL, parts),
                        float_room(d, NULL, out),
                        float_room(d, a.sinks, a.sinks ? p.heads : 0),
                        float_room(d, a.gates, a.gates ? p.count * p.stride_q : 0),
                        pages_of(d, &p)};
        float *partial[2], *mixed[3];
        for (size_t run = 0; run < 2; run++) {
            attend(c, d, kernel, &p, &a, rooms, PROMPT_ROWS);
            partial[run] = content_of(c, &rooms[4]), mixed[run] = content_of(c, &rooms[5]);
        }
        attend(c, d, kernel, &p, &a, rooms, 1 + (p.count - 1) / 3);
        mixed[2] = content_of(c, &rooms[5]);
        check_splits(c, &p, &a, partial[0]);
        for (size_t t = 0; t < p.count; t++)
            for (size_t head = 0; head < p.heads; head++)
                check_head(c, &p, &a, t, head, half, mixed[0] + (t * p.heads + head) * p.length);
        expect_same(c, "two runs", partial[0], partial[1], parts * sizeof(float));
        expect_same(c, "two runs joined", mixed[0], mixed[1], out * sizeof(float));
        expect_same(c, "some rows at a time", mixed[0], mixed[2], out * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        void *all[] = {a.query,    a.sinks,    a.gates,  a.keys,   a.values, p.pages,
                       partial[0], partial[1], mixed[0], mixed[1], mixed[2]};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            free(all[i]);
    }
}

/* A context of many splits, more than join looks at in one go. */
static void check_long_context(check *c, device *d, uint64_t *rng)
{
    shape p = {.heads = 2,
               .kv_heads = 1,
               .length = 8,
               .context = 70 * ATTEND_POSITIONS,
               .sequences = 1,
               .stride_q = 16,
               .count = 2,
               .position = {70 * ATTEND_POSITIONS - 100, 65 * ATTEND_POSITIONS - 1}};
    lay_out_pages(&p, rng);
    snprintf(c->size, sizeof(c->size), "context %zu", p.context);
    attended a = attended_new(&p, 0, true, rng);
    free(a.gates);
    a.gates = NULL;
    size_t parts = p.count * p.heads * a.splits * (p.length + 2), out = p.count * p.heads * p.length;
    room rooms[] = {step_of(d, &p),
                    float_room(d, a.query, p.count * p.stride_q),
                    room_new(d, a.keys, p.cached * 2),
                    room_new(d, a.values, p.cached * 2),
                    float_room(d, NULL, parts),
                    float_room(d, NULL, out),
                    float_room(d, a.sinks, a.sinks ? p.heads : 0),
                    float_room(d, NULL, 0),
                    pages_of(d, &p)};
    attend(c, d, DEVICE_attend_f16, &p, &a, rooms, STEP_ROWS);
    float *mixed = content_of(c, &rooms[5]);
    for (size_t i = 0; i < p.count * p.heads; i++)
        check_head(c, &p, &a, i / p.heads, i % p.heads, true, mixed + i * p.length);
    free_rooms(rooms, COUNT_OF(rooms));
    free(a.query), free(a.sinks), free(a.keys), free(a.values), free(mixed), free(p.pages);
}

void check_device_attention(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "place_f32");
    check_place(c, d, DEVICE_place_f32, false, rng);
    check_begin(c, "place_f16");
    check_place(c, d, DEVICE_place_f16, true, rng);
    check_begin(c, "attend_f32, attend_join");
    check_attend(c, d, DEVICE_attend_f32, false, rng);
    check_begin(c, "attend_f16, attend_join");
    check_attend(c, d, DEVICE_attend_f16, true, rng);
    check_long_context(c, d, rng);
}
