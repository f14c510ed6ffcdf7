/* kcheck_device_attention.c - the kernels of devices for positions, the cache of keys and values, and attention.
 *
 * What is only copied must have its bits; the rest is held against double precision, each bound said where it is. All
 * shapes that a model may have and some that none has: heads of any length, rows of any number, windows, contexts that
 * end in the middle of a split. */
#include "kcheck_device_cache.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------------ place */

/* Angles of a head, for values from `first` on; halves: values i and i + pairs form a pair, otherwise neighbours. */
typedef struct turn {
    const float *cosine, *sine;
    size_t pairs, first;
    bool halves;
} turn;

/* Value i of a head after its rotation, in double precision; *magnitude: of its terms. */
static double turned(const float *before, const turn *by, size_t i, double *magnitude)
{
    *magnitude = 0;
    if (i < by->first || i >= by->first + 2 * by->pairs)
        return before[i];
    before += by->first;
    i -= by->first;
    size_t pair = by->halves ? i % by->pairs : i / 2;
    bool second = by->halves ? i >= by->pairs : i % 2;
    size_t apart = by->halves ? by->pairs : 1, other = second ? i - apart : i + apart;
    double a = (double)before[i] * by->cosine[pair], b = (double)before[other] * by->sine[pair];
    *magnitude = fabs(a) + fabs(b);
    return second ? a + b : a - b;
}

/* How far a value may be from its rotation: two products and a sum, three roundings. */
static double turn_error(double magnitude)
{
    return magnitude > 0 ? 3 * EPSILON * magnitude + TINY : 0;
}

/* A query against its rotation. */
static void check_query_turned(check *c, const float *before, const turn *by, size_t length, const float *got)
{
    for (size_t i = 0; i < length; i++) {
        double magnitude, want = turned(before, by, i, &magnitude);
        expect_close(c, i, want, got[i], turn_error(magnitude));
    }
}

/* A key against its rotation, or a value. What is stored as a half is off by half a unit of its eleven bits more, or by half of
 * the least subnormal number. In Q8_0 a scale is 1 / 127 of the largest value of its block (or of one that may be as large),
 * rounded to a half; a value is off by half of it, and by what rounding the scale makes of up to 127 of it. */
static void check_stored(check *c, const shape *p, const float *before, const turn *by, const void *cache, size_t t,
                         size_t head)
{
    double scale = 0;
    for (size_t i = 0; i < p->length; i++) {
        double magnitude, want = turned(before, by, i, &magnitude), bound = turn_error(magnitude);
        if (p->format == FORMAT_F16)
            bound += 0x1.004p-11 * fabs(want) + 0x1p-25;
        for (size_t k = i; p->format == FORMAT_Q8_0 && i % 32 == 0 && k < i + 32; k++) {
            double size = fabs(turned(before, by, k, &magnitude));
            scale = fmax(k == i ? 0 : scale, (size + turn_error(magnitude)) / 127);
        }
        if (p->format == FORMAT_Q8_0)
            bound += scale * (0.5 + 127 * (0x1.004p-11 + 8 * EPSILON)) + 127 * 0x1p-25;
        expect_close(c, i, want, cached(p, cache, p->sequence[t], head, p->position[t], i), bound);
    }
}

typedef struct placed {
    float *query, *key, *value, *cosine, *sine;
    void *keys, *values, *got_query, *got_keys, *got_values;
} placed;

/* Copies what a cache has of one position of a head to another cache. */
static void take_position(const shape *p, void *to, const void *from, size_t t, size_t head)
{
    key_place at = {p->sequence[t], head, p->position[t]};
    copy_key(p, to, at, p, from, at);
}

/* Every head of every row, and that nothing else changed: what is expected elsewhere is what was there. */
static void compare_placed(check *c, const shape *p, size_t pairs, size_t first, bool halves, placed *x)
{
    const shape v = values_of(p);
    for (size_t t = 0; t < p->count; t++) {
        turn by = {x->cosine + t * pairs, x->sine + t * pairs, pairs, first, halves}, none = {0};
        for (size_t h = 0; h < p->heads; h++) {
            float *at = x->query + t * p->stride_q + h * p->length;
            float *got = (float *)x->got_query + t * p->stride_q + h * p->length;
            check_query_turned(c, at, &by, p->length, got);
            memcpy(at, got, p->length * sizeof(float));
        }
        bool ends = (p->position[t] + 1) % p->together == 0; /* those that have one key together */
        for (size_t h = 0; ends && h < p->kv_heads; h++) {
            check_stored(c, p, x->key + t * p->stride_k + h * p->length, &by, x->got_keys, t, h);
            take_position(p, x->keys, x->got_keys, t, h);
            if (!x->value)
                continue;
            check_stored(c, &v, x->value + t * p->stride_k + h * v.length, &none, x->got_values, t, h);
            take_position(&v, x->values, x->got_values, t, h);
        }
    }
    expect_same(c, "queries between heads", x->query, x->got_query, p->count * p->stride_q * sizeof(float));
    expect_same(c, "other keys", x->keys, x->got_keys, p->cached);
    expect_same(c, "other values", x->values, x->got_values, p->cached);
}

/* What is only copied, or rounded, is that of the format's encoder, bit by bit; a block that is not finite shows. */
static void check_rounding(check *c, const shape *p, const placed *x)
{
    const number_traits *f = &number_formats[p->format];
    uint8_t *encoded = array_new(p->length / f->block_values, f->block_bytes);
    float *values = array_new(p->length, sizeof(float));
    for (size_t t = 0; t < p->count; t++)
        for (size_t h = 0; (p->position[t] + 1) % p->together == 0 && h < p->kv_heads; h++) {
            f->encode(x->value + t * p->stride_k + h * p->length, NULL, encoded, p->length);
            f->decode(encoded, values, p->length);
            for (size_t i = 0; i < p->length; i++) {
                float got = cached(p, x->got_values, p->sequence[t], h, p->position[t], i);
                expect_same(c, "a value as it is encoded", &values[i], &got, sizeof got);
            }
        }
    free(encoded), free(values);
}

static void check_place(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    for (size_t s = 0; s < 5 * HEAD_LENGTHS; s++) {
        static const size_t together[] = {1, 1, 1, 4, 2, 128};
        shape p = random_shape(c, format, s, 40, true, rng);
        free(p.pages);
        lay_out_pages_together(&p, together[s % COUNT_OF(together)], rng);
        const shape v = values_of(&p);
        size_t pairs = random_below(rng, 2) ? p.length / 2 : random_below(rng, p.length / 2 + 1);
        size_t first = random_below(rng, 2) ? p.length - 2 * pairs : 0;
        bool halves = random_below(rng, 2);
        placed x = {.query = rough_array(p.count * p.stride_q, rng),
                    .key = rough_array(p.count * p.stride_k, rng),
                    .value = s % 4 ? rough_array(p.count * p.stride_k, rng) : NULL,
                    .cosine = rough_array(p.count * pairs, rng),
                    .sine = rough_array(p.count * pairs, rng)};
        x.keys = random_cache(&p, rng), x.values = random_cache(&v, rng);
        room rooms[] = {step_of(d, &p),
                        float_room(d, x.query, p.count * p.stride_q),
                        float_room(d, x.key, p.count * p.stride_k),
                        float_room(d, x.value, x.value ? p.count * p.stride_k : 0),
                        float_room(d, x.cosine, p.count * pairs),
                        float_room(d, x.sine, p.count * pairs),
                        room_new(d, x.keys, p.cached),
                        room_new(d, x.values, p.cached),
                        pages_of(d, &p)};
        DEVICE_DO(c, d, kernel, CHECKED_ROWS * (p.heads + p.kv_heads), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&rooms[2]), x.value ? room_of(&rooms[3]) : NO_BUFFER, pairs ? room_of(&rooms[4]) : NO_BUFFER,
                  pairs ? room_of(&rooms[5]) : NO_BUFFER, room_of(&rooms[6]), room_of(&rooms[7]), room_of(&rooms[8]),
                  UINT(p.table), UINT(p.page), UINT(p.piece), UINT(p.positions), UINT(v.length), UINT(v.piece),
                  UINT(p.heads), UINT(p.kv_heads), UINT(p.length), UINT(pairs), UINT(halves), UINT(first),
                  UINT(p.together), UINT(p.stride_q), UINT(p.stride_k));
        x.got_query = content_of(c, &rooms[1]);
        x.got_keys = content_of(c, &rooms[6]), x.got_values = content_of(c, &rooms[7]);
        if (x.value)
            check_rounding(c, &v, &x);
        compare_placed(c, &p, pairs, first, halves, &x);
        free_rooms(rooms, COUNT_OF(rooms));
        void *all[] = {x.query,  x.key,       x.value,    x.cosine,     x.sine, x.keys,
                       x.values, x.got_query, x.got_keys, x.got_values, p.pages};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            free(all[i]);
    }
}

/* Blocks of Q8_0 with a value that it cannot hold: they become NaN, others not. */
static void check_faults(check *c, device *d)
{
    static const float faults[] = {INFINITY, -INFINITY, NAN, 1e30f};
    shape p = {.format = FORMAT_Q8_0,
               .heads = 1,
               .kv_heads = 1,
               .length = 96,
               .value_length = 96,
               .context = 8,
               .sequences = 1,
               .stride_q = 96,
               .stride_k = 96,
               .count = COUNT_OF(faults),
               .position = {0, 1, 2, 3}};
    uint64_t rng = 3;
    lay_out_pages(&p, &rng);
    float *query = rough_array(p.count * p.length, &rng), *key = rough_array(p.count * p.length, &rng);
    for (size_t t = 0; t < p.count; t++)
        key[t * p.length + 40] = faults[t];
    room rooms[] = {step_of(d, &p),
                    float_room(d, query, p.count * p.length),
                    float_room(d, key, p.count * p.length),
                    room_new(d, NULL, p.cached),
                    room_new(d, NULL, p.cached),
                    pages_of(d, &p)};
    DEVICE_DO(c, d, DEVICE_place_q8_0, p.count * 2, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
              room_of(&rooms[2]), NO_BUFFER, NO_BUFFER, room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]),
              UINT(p.table), UINT(p.page), UINT(p.piece), UINT(p.positions), UINT(p.length), UINT(p.piece), UINT(1),
              UINT(1), UINT(p.length), UINT(0), UINT(0), UINT(0), UINT(1), UINT(p.stride_q), UINT(p.stride_k));
    void *keys = content_of(c, &rooms[3]);
    for (size_t t = 0; t < p.count; t++)
        for (size_t i = 0; i < p.length; i++)
            expect(c, "a block with a fault is NaN, and no other",
                   isnan(cached(&p, keys, 0, 0, p.position[t], i)) == (i / 32 == 1));
    free_rooms(rooms, COUNT_OF(rooms));
    free(query), free(key), free(keys), free(p.pages);
}

/* ------------------------------------------------------------------ attend and join */

typedef struct attended {
    float *query, scale, softcap, *sinks, *gates;
    void *keys, *values;
    size_t window, splits;
    bool chunked, grows;
    bool by_head, softplus; /* of gates: one for a head; how they open */
    /* Of attend_chosen: rows from the position `limit` on see those whose bits are set in seen [count][choosers][splits][SPLIT_WORDS],
     * each head of keys those of its own chooser where there are several; NULL: all rows see all. */
    uint32_t *seen, limit;
    size_t choosers;
    float gain; /* on the result */
} attended;

static size_t words_of(const attended *a)
{
    return a->splits * SPLIT_WORDS;
}

/* Returns whether a query head of a row sees a position of those up to its own. */
static bool sees(const shape *p, const attended *a, size_t t, size_t head, size_t position)
{
    if (!a->seen || p->position[t] < a->limit)
        return true;
    size_t choice = t * a->choosers + head / (p->heads / p->kv_heads) % a->choosers;
    return a->seen[choice * words_of(a) + position / 32] >> position % 32 & 1;
}

/* Gates of a head. */
static uint32_t gate_length(const shape *p, const attended *a)
{
    return a->by_head ? 1 : (uint32_t)p->value_length;
}

/* Returns the first position that a row sees of [0, end). */
static size_t first_seen(const attended *a, size_t end)
{
    if (a->chunked)
        return (end - 1) / a->window * a->window;
    return a->window && end > a->window ? end - a->window : 0;
}

/* One query head of a row against double precision, over the positions that it sees. A score of `length` terms, scaled,
 * is off by at most `slip`; a weight exp(score - greatest) then by a factor within exp(+-2 slip) and by what two exps
 * err, since splits are weighted once more, each with a difference that is rounded relative to at most the 100 beyond
 * which exp is nothing. The sum of weights, a sink's among them, likewise; sums over all positions, and a division, add
 * their own. A cap makes no error of a score larger, and adds that of tanh and of three operations. */
static void check_head(check *c, const shape *p, const attended *a, size_t t, size_t head, const float *got)
{
    size_t end = p->position[t] + (size_t)1, begin = first_seen(a, end);
    size_t count = 0, kv_head = head / (p->heads / p->kv_heads), *seen = array_new(end, sizeof *seen);
    for (size_t i = begin; i < end; i++)
        if (sees(p, a, t, head, i))
            seen[count++] = i;
    const float *query = a->query + t * p->stride_q + head * p->length;
    const shape v = values_of(p);
    double scale = (double)a->scale * (1 + (a->grows ? (double)step_gain(p->position[t]) : 0));
    double *score = array_new(count, sizeof(double)), greatest = -INFINITY, slip = 0, total = 0;
    for (size_t i = 0; i < count; i++) {
        double magnitude = 0;
        for (size_t k = 0; k < p->length; k++) {
            double term = (double)query[k] * cached(p, a->keys, p->sequence[t], kv_head, seen[i], k);
            score[i] += term * scale;
            magnitude += fabs(term) * scale;
        }
        double error = magnitude * ((double)p->length + 3) * EPSILON;
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
    for (size_t k = 0; k < v.length; k++) {
        double want = 0, magnitude = 0, tiny = TINY;
        for (size_t i = 0; i < count; i++) {
            double value = cached(&v, a->values, p->sequence[t], kv_head, seen[i], k);
            want += score[i] / total * value;
            magnitude += score[i] / total * fabs(value);
            tiny += TINY * fabs(value); /* a weight that should be nothing may be that much */
        }
        size_t at = t * p->stride_q + head * gate_length(p, a) + (a->by_head ? 0 : k);
        double shut = a->gates ? (double)a->gates[at] : 0, gate = a->gates ? 1 / (1 + exp(-shut)) : 1;
        if (a->gates && a->softplus)
            gate = fmax(shut, 0) + log1p(exp(-fabs(shut)));
        double slip_of_gate = a->gates ? (a->softplus ? SOFTPLUS_ERROR : EXP_ERROR + 5 * EPSILON) : 0;
        gate *= (double)a->gain;
        slip_of_gate += EPSILON;
        expect_close(c, k, want * gate, got[k],
                     gate * (magnitude * (error + slip_of_gate) + tiny) + TINY * (1 + magnitude));
    }
    free(score), free(seen);
}

/* Splits of which nothing is seen say so, and only those; the greatest weight of the others is 1. */
static void check_splits(check *c, const shape *p, const attended *a, const float *partial)
{
    for (size_t t = 0; t < p->count; t++)
        for (size_t i = 0; i < p->heads * a->splits; i++) {
            size_t begin = i % a->splits * ATTEND_POSITIONS, end = p->position[t] + (size_t)1;
            bool seen = false;
            for (size_t k = begin; k < end && k < begin + ATTEND_POSITIONS; k++)
                seen |= k >= first_seen(a, end) && sees(p, a, t, i / a->splits, k);
            const float *tail = partial + ((t * p->heads * a->splits + i) * (p->value_length + 2)) + p->value_length;
            expect(c, "a split without positions has a sum", seen || (tail[1] == 0 && tail[0] < -1e38f));
            expect(c, "a split's sum of weights is not 1 to its positions",
                   !seen ||
                       (tail[1] >= 1 && tail[1] <= ATTEND_POSITIONS * (1 + 2 * ATTEND_POSITIONS * (float)EPSILON)));
        }
}

static attended attended_new(const shape *p, size_t s, uint64_t *rng)
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
    a.keys = random_cache(p, rng);
    const shape v = values_of(p);
    a.values = random_cache(&v, rng);
    a.gain = s % 4 == 3 ? 0.707F : 1;
    a.chunked = a.window > 0 && random_below(rng, 2);
    a.grows = random_below(rng, 2);
    a.by_head = random_below(rng, 2);
    a.softplus = random_below(rng, 2);
    return a;
}

/* Lets rows choose: each that is limited sees some positions, among them its own. Bits of rows that are not limited are set, and
 * those after a row's position are not. */
static void let_choose(const shape *p, attended *a, uint64_t *rng)
{
    a->window = 0;
    a->chunked = a->grows = false;
    a->limit = 1 + (uint32_t)random_below(rng, p->context);
    a->choosers = random_below(rng, 2) ? p->kv_heads : 1;
    a->seen = array_new(p->count * a->choosers * words_of(a), sizeof *a->seen);
    for (size_t choice = 0; choice < (size_t)p->count * a->choosers; choice++) {
        uint32_t often = 1 + (uint32_t)random_below(rng, 40), position = p->position[choice / a->choosers];
        bool limited = position >= a->limit;
        for (size_t i = 0; i < a->splits * ATTEND_POSITIONS; i++)
            if (!limited || (i <= position && (i == position || random_below(rng, often) == 0)))
                a->seen[choice * words_of(a) + i / 32] |= 1u << i % 32;
    }
}

/* Attention for all rows, `most` at a time. rooms: step, query, keys, values, partial, mixed, sinks, gates, pages, bits. */
static void attend(check *c, device *d, device_kernel kernel, const shape *p, const attended *a, const room *rooms,
                   uint32_t most)
{
    for (uint32_t first = 0; first < p->count; first += most) {
        size_t items = most * ATTEND_ITEMS(p->heads, p->kv_heads, a->splits);
        if (a->seen)
            DEVICE_DO(c, d, kernel, items, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                      room_of(&rooms[3]), room_of(&rooms[8]), UINT(p->table), UINT(p->page), UINT(p->piece),
                      UINT(p->positions), room_of(&rooms[4]), room_of(&rooms[9]), UINT(a->limit), UINT(a->choosers),
                      UINT(p->heads), UINT(p->kv_heads), UINT(p->length), UINT(a->splits), UINT(p->stride_q),
                      UINT(first), UINT(most), FLOAT(a->scale), FLOAT(a->softcap));
        else
            DEVICE_DO(c, d, kernel, items, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                      room_of(&rooms[3]), room_of(&rooms[8]), UINT(p->table), UINT(p->page), UINT(p->piece),
                      UINT(p->positions), UINT(p->value_length), UINT(p->value_piece), room_of(&rooms[4]),
                      UINT(p->heads), UINT(p->kv_heads), UINT(p->length), UINT(a->window), UINT(a->chunked),
                      UINT(a->grows), UINT(a->splits), UINT(p->stride_q), UINT(first), UINT(most), FLOAT(a->scale),
                      FLOAT(a->softcap));
        DEVICE_DO(c, d, DEVICE_attend_join, most * p->heads, room_of(&rooms[0]), room_of(&rooms[4]),
                  a->sinks ? room_of(&rooms[6]) : NO_BUFFER, a->gates ? room_of(&rooms[7]) : NO_BUFFER,
                  room_of(&rooms[5]), UINT(p->heads), UINT(p->value_length), UINT(a->splits), UINT(p->stride_q),
                  UINT(gate_length(p, a)), UINT(a->softplus), UINT(0), UINT(first), UINT(most), FLOAT(a->gain));
    }
}

/* attend_join_8 gives the bits of attend_join, and those of their rounding. rooms: as of attend, of which it has computed the
 * splits of all rows; mixed: of attend_join. */
static void check_join_8(check *c, device *d, const shape *p, const attended *a, const room *rooms, const float *mixed)
{
    size_t values = p->count * p->heads * p->value_length, blocks = values / Q8_BLOCK;
    room to[] = {float_room(d, NULL, values), room_new(d, NULL, values), float_room(d, NULL, blocks),
                 word_room(d, NULL, blocks)};
    DEVICE_DO(c, d, DEVICE_attend_join_8, CHECKED_ROWS * p->heads, room_of(&rooms[0]), room_of(&rooms[4]),
              a->sinks ? room_of(&rooms[6]) : NO_BUFFER, a->gates ? room_of(&rooms[7]) : NO_BUFFER, room_of(&to[0]),
              room_of(&to[1]), room_of(&to[2]), room_of(&to[3]), UINT(p->heads), UINT(p->value_length), UINT(a->splits),
              UINT(p->stride_q), UINT(gate_length(p, a)), UINT(a->softplus), UINT(0), UINT(CHECKED_ROWS),
              FLOAT(a->gain));
    float *got = content_of(c, &to[0]);
    expect_same(c, "what attend_join gives", mixed, got, values * sizeof(float));
    expect_rounded(c, mixed, values, &to[1], &to[2], &to[3]);
    free_rooms(to, COUNT_OF(to));
    free(got);
}

static void check_attend(check *c, device *d, device_kernel kernel, number_format format, bool chooses, uint64_t *rng)
{
    for (size_t s = 0; s < 5 * HEAD_LENGTHS; s++) {
        shape p = random_shape(c, format, s,
                               s % 4 == 0   ? 3 * ATTEND_POSITIONS
                               : s % 4 == 1 ? ATTEND_POSITIONS + 8
                                            : 60,
                               !chooses, rng);
        attended a = attended_new(&p, s, rng);
        if (chooses)
            let_choose(&p, &a, rng);
        size_t parts = p.count * p.heads * a.splits * (p.value_length + 2), out = p.count * p.heads * p.value_length;
        room rooms[] = {step_of(d, &p),
                        float_room(d, a.query, p.count * p.stride_q),
                        room_new(d, a.keys, p.cached),
                        room_new(d, a.values, p.cached),
                        float_room(d, NULL, parts),
                        float_room(d, NULL, out),
                        float_room(d, a.sinks, a.sinks ? p.heads : 0),
                        float_room(d, a.gates, a.gates ? p.count * p.stride_q : 0),
                        pages_of(d, &p),
                        word_room(d, a.seen, a.seen ? p.count * a.choosers * words_of(&a) : 0)};
        float *partial[2], *mixed[3];
        for (size_t run = 0; run < 2; run++) {
            attend(c, d, kernel, &p, &a, rooms, CHECKED_ROWS);
            partial[run] = content_of(c, &rooms[4]), mixed[run] = content_of(c, &rooms[5]);
        }
        if (p.value_length % Q8_BLOCK == 0)
            check_join_8(c, d, &p, &a, rooms, mixed[1]);
        attend(c, d, kernel, &p, &a, rooms, 1 + (p.count - 1) / 3);
        mixed[2] = content_of(c, &rooms[5]);
        check_splits(c, &p, &a, partial[0]);
        for (size_t t = 0; t < p.count; t++)
            for (size_t head = 0; head < p.heads; head++)
                check_head(c, &p, &a, t, head, mixed[0] + (t * p.heads + head) * p.value_length);
        expect_same(c, "two runs", partial[0], partial[1], parts * sizeof(float));
        expect_same(c, "two runs joined", mixed[0], mixed[1], out * sizeof(float));
        expect_same(c, "some rows at a time", mixed[0], mixed[2], out * sizeof(float));
        free_rooms(rooms, COUNT_OF(rooms));
        void *all[] = {a.seen,  a.query,    a.sinks,    a.gates,  a.keys,   a.values,
                       p.pages, partial[0], partial[1], mixed[0], mixed[1], mixed[2]};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            free(all[i]);
    }
}

/* A context of many splits, more than join looks at in one go. */
static void check_long_context(check *c, device *d, uint64_t *rng)
{
    shape p = {.format = FORMAT_F16,
               .heads = 2,
               .kv_heads = 1,
               .length = 8,
               .value_length = 8,
               .context = 70 * ATTEND_POSITIONS,
               .sequences = 1,
               .stride_q = 16,
               .count = 2,
               .position = {70 * ATTEND_POSITIONS - 100, 65 * ATTEND_POSITIONS - 1}};
    lay_out_pages(&p, rng);
    snprintf(c->size, sizeof(c->size), "context %zu", p.context);
    attended a = attended_new(&p, 0, rng);
    free(a.gates);
    a.gates = NULL;
    size_t parts = p.count * p.heads * a.splits * (p.length + 2), out = p.count * p.heads * p.length;
    room rooms[] = {step_of(d, &p),
                    float_room(d, a.query, p.count * p.stride_q),
                    room_new(d, a.keys, p.cached),
                    room_new(d, a.values, p.cached),
                    float_room(d, NULL, parts),
                    float_room(d, NULL, out),
                    float_room(d, a.sinks, a.sinks ? p.heads : 0),
                    float_room(d, NULL, 0),
                    pages_of(d, &p)};
    attend(c, d, DEVICE_attend_f16, &p, &a, rooms, STEP_ROWS);
    float *mixed = content_of(c, &rooms[5]);
    for (size_t i = 0; i < p.count * p.heads; i++)
        check_head(c, &p, &a, i / p.heads, i % p.heads, mixed + i * p.length);
    free_rooms(rooms, COUNT_OF(rooms));
    free(a.query), free(a.sinks), free(a.keys), free(a.values), free(mixed), free(p.pages);
}

/* ------------------------------------------------------------------ attend_gathered */

/* Keys that were brought together, as a cache in which every row has its own sequence: what a row sees ends with the position of
 * the row. Values are the keys. */
typedef struct gathered {
    shape as;
    attended by;
    uint32_t window, together, most, position[CHECKED_ROWS];
} gathered;

static gathered gathered_new(check *c, number_format format, size_t s, uint64_t *rng)
{
    static const uint32_t windows[] = {8, 1, 128, 300}, together[] = {4, 0, 128, 1};
    gathered g = {.as = with_one_key_head(random_shape(c, format, s, s % 3 ? 60 : 400, false, rng), rng),
                  .window = windows[s % COUNT_OF(windows)],
                  .together = together[s / 2 % COUNT_OF(together)],
                  .most = (uint32_t)random_below(rng, 2) * (1 + (uint32_t)random_below(rng, 60))};
    shape *p = &g.as;
    free(p->pages);
    for (size_t t = 0; t < p->count; t++) {
        uint32_t end = (g.position[t] = p->position[t]) + 1, summaries = g.together ? end / g.together : 0;
        summaries = g.most && summaries > g.most ? g.most : summaries;
        p->position[t] = (end < g.window ? end : g.window) + summaries - 1;
        p->sequence[t] = (uint32_t)t;
    }
    lay_out_gathered(p, g.window + (g.together ? p->context / g.together : 0), rng);
    g.by = (attended){.query = rough_array(p->count * p->stride_q, rng),
                      .scale = 1 / sqrtf((float)p->length),
                      .splits = p->table,
                      .sinks = random_below(rng, 2) ? NULL : rough_array(p->heads, rng),
                      .gain = 1};
    g.by.keys = g.by.values = random_cache(p, rng);
    return g;
}

/* Attention of all rows, `most` at a time: each time with the keys of those alone. */
static float *attend_to_gathered(check *c, device *d, device_kernel kernel, const gathered *g, uint32_t most)
{
    const shape *p = &g->as;
    const attended *a = &g->by;
    size_t of_row = p->table * p->page, out = p->count * p->heads * p->length;
    room rooms[] = {step_new(d, p->count, NULL, g->position, NULL), float_room(d, a->query, p->count * p->stride_q),
                    float_room(d, a->sinks, a->sinks ? p->heads : 0),
                    float_room(d, NULL, p->count * p->heads * a->splits * (p->length + 2)), float_room(d, NULL, out)};
    for (uint32_t first = 0; first < p->count; first += most) {
        size_t n = p->count - first < most ? p->count - first : most;
        room keys = room_new(d, (const char *)a->keys + first * of_row, n * of_row);
        DEVICE_DO(c, d, kernel, most * ATTEND_ITEMS(p->heads, 1, a->splits), room_of(&rooms[0]), room_of(&rooms[1]),
                  room_of(&keys), room_of(&rooms[3]), UINT(p->heads), UINT(p->length), UINT(g->window),
                  UINT(g->together), UINT(g->most), UINT(a->splits), UINT(p->stride_q), UINT(first), UINT(most),
                  FLOAT(a->scale));
        DEVICE_DO(c, d, DEVICE_attend_join, most * p->heads, room_of(&rooms[0]), room_of(&rooms[3]),
                  a->sinks ? room_of(&rooms[2]) : NO_BUFFER, NO_BUFFER, room_of(&rooms[4]), UINT(p->heads),
                  UINT(p->length), UINT(a->splits), UINT(0), UINT(0), UINT(0), UINT(1), UINT(first), UINT(most),
                  FLOAT(a->gain));
        room_free(&keys);
    }
    float *mixed = content_of(c, &rooms[4]);
    free_rooms(rooms, COUNT_OF(rooms));
    return mixed;
}

static void check_attend_gathered(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    for (size_t s = 0; s < 2 * HEAD_LENGTHS; s++) {
        gathered g = gathered_new(c, format, s, rng);
        const shape *p = &g.as;
        float *mixed = attend_to_gathered(c, d, kernel, &g, CHECKED_ROWS);
        float *some = attend_to_gathered(c, d, kernel, &g, 1 + (p->count - 1) / 3);
        for (size_t t = 0; t < p->count; t++)
            for (size_t head = 0; head < p->heads; head++)
                check_head(c, p, &g.by, t, head, mixed + (t * p->heads + head) * p->length);
        expect_same(c, "some rows at a time", mixed, some, p->count * p->heads * p->length * sizeof *mixed);
        free(mixed), free(some), free(p->pages), free(g.by.query), free(g.by.sinks), free(g.by.keys);
    }
}

static void check_attend_seen(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    check_attend(c, d, kernel, format, false, rng);
}

static void check_attend_chosen(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    check_attend(c, d, kernel, format, true, rng);
}

void check_device_attention(check *c, device *d, uint64_t *rng)
{
    static const cache_check all[] = {OF_ALL_FORMATS(place, check_place), OF_ALL_FORMATS(attend, check_attend_seen),
                                      OF_ALL_FORMATS(attend_chosen, check_attend_chosen),
                                      OF_ALL_FORMATS(attend_gathered, check_attend_gathered)};
    run_cache_checks(c, d, all, COUNT_OF(all), rng);
    check_begin(c, "place_q8_0 of what it cannot hold");
    check_faults(c, d);
    check_begin(c, "attend_f16 in a long context");
    check_long_context(c, d, rng);
}
