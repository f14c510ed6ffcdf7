/* kcheck_device_choice.c - the kernels of devices for chosen positions: keys of pools, scores, and the choice (attention to those that
 * were chosen is checked with other attention). */
#include "kcheck_device_cache.h"

#include "../src/base/float_order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the choice of positions */

/* Positions of a pool: all that are possible. */
static const uint32_t pools[] = {1, 4, 2, 16, 128, 8, 32, 1, 64};

/* Queries, weights and keys of one head that score positions; most of them are whole numbers, so that scores are often equal. */
typedef struct scored {
    shape p;
    float *query, *weights; /* weights NULL: 1 */
    void *keys;
    size_t splits, stride_w;
    uint32_t limit, pool, last;
    size_t choosers, together; /* which score for themselves, and the heads of each */
    size_t row;                /* scores of a choice */
} scored;

/* Returns how many pools a row chooses among. */
static size_t pools_scored(size_t position, size_t pool, size_t last)
{
    size_t all = position / pool + 1;
    return last == 0 ? (position + 1) / pool : all > last ? all - last : 0;
}

/* Returns a shape with one head of keys. */
static shape shape_of_one(check *c, number_format format, size_t s, uint64_t *rng)
{
    return with_one_key_head(random_shape(c, format, s, s % 3 == 0 ? 3 * ATTEND_POSITIONS : 70, false, rng), rng);
}

static scored scored_new(check *c, number_format format, size_t s, uint64_t *rng)
{
    scored a = {.p = shape_of_one(c, format, s, rng), .pool = pools[s % COUNT_OF(pools)]};
    a.splits = (a.p.context + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS;
    a.row = a.splits * (ATTEND_POSITIONS / a.pool);
    a.last = s % 5 == 4 ? 1 + (uint32_t)random_below(rng, 3) : 0;
    a.choosers = a.last > 0 ? a.p.heads : 1;
    a.together = a.p.heads / a.choosers;
    if (s % 2 && a.last == 0) { /* pools have keys of their own */
        free(a.p.pages);
        lay_out_pages_together(&a.p, a.pool, rng);
    }
    a.stride_w = a.p.heads + random_below(rng, 3);
    a.limit = 1 + (uint32_t)random_below(rng, a.p.context);
    a.query = rough_array(a.p.count * a.p.stride_q, rng);
    a.weights = s % 4 == 3 || a.last > 0 ? NULL : rough_array(a.p.count * a.stride_w, rng);
    a.keys = random_cache(&a.p, rng);
    return a;
}

/* Returns whether a choice needs the score of a pool: its row does not see everything, and chooses among so many. */
static bool needs_score(const scored *a, size_t choice, size_t i)
{
    uint32_t position = a->p.position[choice / a->choosers];
    return position >= a->limit && i < pools_scored(position, a->pool, a->last);
}

/* query . key of a head of a row, and the sum of the sizes of its terms. */
static bounded product_of(const scored *a, size_t t, size_t head, size_t position)
{
    const shape *p = &a->p;
    bounded sum = {0, 0};
    for (size_t k = 0; k < p->length; k++) {
        double term = (double)a->query[t * p->stride_q + head * p->length + k] *
                      cached(p, a->keys, p->sequence[t], 0, position, k);
        sum.value += term;
        sum.error += fabs(term);
    }
    return sum;
}

/* The score of a pool: of its key, or that of its last position; of a head for itself the best of its positions. */
static bounded score_of(const scored *a, size_t choice, size_t i)
{
    size_t t = choice / a->choosers, first = choice % a->choosers;
    bounded score = {a->last > 0 ? -INFINITY : 0, 0};
    for (size_t k = 0; a->last > 0 && k < a->pool; k++) {
        bounded own = product_of(a, t, first, i * a->pool + k);
        score.value = fmax(score.value, own.value);
        score.error = fmax(score.error, own.error);
    }
    for (size_t h = 0; a->last == 0 && h < a->together; h++) {
        bounded own = product_of(a, t, h, (i + 1) * a->pool - 1);
        double weight = a->weights ? a->weights[t * a->stride_w + h] : 1;
        score.value += weight * fmax(own.value, 0);
        score.error += fabs(weight) * own.error;
    }
    return score;
}

/* Scores against double precision. */
static void check_scores(check *c, const scored *a, const float *got)
{
    const shape *p = &a->p;
    for (size_t choice = 0; choice < (size_t)p->count * a->choosers; choice++)
        for (size_t i = 0; needs_score(a, choice, i); i++) {
            bounded want = score_of(a, choice, i);
            expect_close(c, i, want.value, got[choice * a->row + i],
                         want.error * (double)(p->length + a->together + 2) * EPSILON + TINY);
        }
}

static void check_score_positions(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    for (size_t s = 0; s < 3 * HEAD_LENGTHS; s++) {
        scored a = scored_new(c, format, s, rng);
        const shape *p = &a.p;
        size_t of_row = a.choosers * a.row, scores = p->count * of_row;
        float *before = rough_array(scores, rng);
        room rooms[] = {step_of(d, p),
                        float_room(d, a.query, p->count * p->stride_q),
                        float_room(d, a.weights, a.weights ? p->count * a.stride_w : 0),
                        room_new(d, a.keys, p->cached),
                        pages_of(d, p),
                        float_room(d, before, scores)};
        uint32_t most =
            s % 2 ? p->count : 1 + (p->count - 1) / 3; /* rows at a time, whose scores take one another's place */
        float *got = array_new(scores, sizeof *got);
        for (uint32_t first = 0; first < p->count; first += most) {
            size_t n = p->count - first < most ? p->count - first : most;
            DEVICE_DO(c, d, kernel, most * a.choosers * a.splits, room_of(&rooms[0]), room_of(&rooms[1]),
                      a.weights ? room_of(&rooms[2]) : NO_BUFFER, room_of(&rooms[3]), room_of(&rooms[4]),
                      UINT(p->table), UINT(p->page), UINT(p->piece), UINT(p->positions), room_of(&rooms[5]),
                      UINT(a.limit), UINT(a.pool), UINT(a.last), UINT(a.last > 0 ? 1 : a.pool / p->together),
                      UINT(p->heads), UINT(p->length), UINT(a.splits), UINT(p->stride_q), UINT(a.stride_w), UINT(first),
                      UINT(most));
            float *some = content_of(c, &rooms[5]);
            memcpy(got + first * of_row, some, n * of_row * sizeof *got);
            free(some);
        }
        check_scores(c, &a, got);
        for (size_t i = 0; i < scores; i++) {
            bool needed = needs_score(&a, i / a.row, i % a.row);
            expect(c, "a score that nobody needs was written", needed || most < p->count || got[i] == before[i]);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(a.query), free(a.weights), free(a.keys), free(p->pages), free(before), free(got);
    }
}

/* The choice among n pools against counting: one is chosen if fewer than `chosen` are better, higher or as high and earlier, and with it
 * all its positions; those after the last one are, too. Scores have few values, so that many are equal; zeros have both signs, and NaN
 * is the highest. */
static void check_choice(check *c, const float *own, size_t n, size_t positions, size_t pool, size_t chosen,
                         const uint32_t *seen, uint64_t *rng)
{
    size_t end = (positions + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS * ATTEND_POSITIONS;
    for (size_t p = 0; p < end; p += 1 + positions / 500 * random_below(rng, 9)) {
        size_t i = p / pool, better = i < n ? 0 : chosen;
        for (size_t k = 0; k < n && better < chosen; k++)
            better +=
                float_place(own[k]) > float_place(own[i]) || (k < i && float_place(own[k]) == float_place(own[i]));
        bool want = better < chosen || (i >= n && p < positions);
        expect(c, "the positions with the highest scores are chosen", (seen[p / 32] >> p % 32 & 1) == want);
    }
}

static void check_choose(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 90; s++) {
        shape p = random_shape(c, FORMAT_F32, 0, s % 3 == 0 ? 40 * ATTEND_POSITIONS : 300, false, rng);
        uint32_t pool = pools[s % COUNT_OF(pools)];
        size_t splits = (p.context + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS, words = splits * SPLIT_WORDS;
        uint32_t last = s % 5 > 2 ? 1 + (uint32_t)random_below(rng, 3) : 0;
        uint32_t choosers = last > 0 ? 1 + (uint32_t)random_below(rng, 3) : 1;
        size_t row = splits * (ATTEND_POSITIONS / pool), choices = (size_t)p.count * choosers, count = choices * row;
        uint32_t chosen = 1 + (uint32_t)random_below(rng, p.context / pool + 1),
                 values = 1 + (uint32_t)random_below(rng, 50), middle = values / 2;
        float *scores = rough_array(count, rng);
        for (size_t i = 0; s % 2 == 0 && i < count; i++)
            scores[i] = ((float)random_below(rng, values) - (float)middle) * (random_below(rng, 2) ? 1 : -1);
        for (size_t i = 0; i < count; i += 1 + random_below(rng, 400))
            scores[i] = s % 5 == 0 ? NAN : scores[i];
        uint32_t *before = array_new(choices * words, sizeof *before);
        for (size_t i = 0; i < choices * words; i++)
            before[i] = (uint32_t)random_bits(rng);
        room rooms[] = {step_of(d, &p), word_room(d, before, choices * words)};
        uint32_t most =
            s % 4 < 2 ? p.count : 1 + (p.count - 1) / 3; /* rows at a time, each time with scores of theirs alone */
        for (uint32_t first = 0; first < p.count; first += most) {
            size_t n = p.count - first < most ? p.count - first : most;
            room some = float_room(d, scores + first * choosers * row, n * choosers * row);
            DEVICE_DO(c, d, DEVICE_choose, most * choosers, room_of(&rooms[0]), room_of(&some), room_of(&rooms[1]),
                      UINT(chosen), UINT(pool), UINT(last), UINT(choosers), UINT(splits), UINT(first), UINT(most));
            room_free(&some);
        }
        uint32_t *seen = content_of(c, &rooms[1]);
        for (size_t i = 0; i < choices; i++) {
            size_t position = p.position[i / choosers], n = pools_scored(position, pool, last);
            if (n <= chosen)
                expect_same(c, "bits of a row that sees everything", before + i * words, seen + i * words, words * 4);
            else
                check_choice(c, scores + i * row, n, position + 1, pool, chosen, seen + i * words, rng);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(scores), free(before), free(seen), free(p.pages);
    }
}

/* ------------------------------------------------------------------ keys of pools */

/* A column of the key of a pool, from what is stored, and how far off it may be: a weight is off by what the rounding of a gate and
 * its bias makes of it, and by as many exps as there are positions. Without biases all weigh the same. */
static bounded pooled(const shape *p, const void *keys, const void *gates, const float *bias, uint32_t pool, size_t t,
                      size_t i)
{
    size_t first = p->position[t] + (size_t)1 - pool;
    double most = -INFINITY, size = 0, sum = 0, key = 0, magnitude = 0, gate[ATTEND_POSITIONS];
    for (size_t k = 0; k < pool; k++) {
        gate[k] = 0;
        if (bias)
            gate[k] = (double)cached(p, gates, p->sequence[t], 0, first + k, i) + (double)bias[k * p->length + i];
        most = fmax(most, gate[k]);
        size = fmax(size, fabs(gate[k]));
    }
    for (size_t k = 0; k < pool; k++) {
        double weight = exp(gate[k] - most), value = cached(p, keys, p->sequence[t], 0, first + k, i);
        sum += weight;
        key += weight * value;
        magnitude += weight * fabs(value);
    }
    double slip = 4 * size * EPSILON + (pool + 2) * (EXP_ERROR + 4 * EPSILON);
    return (bounded){key / sum, magnitude / sum * 2 * slip + TINY * (1 + pool * magnitude)};
}

static void check_pool_keys(check *c, device *d, device_kernel kernel, number_format format, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * HEAD_LENGTHS; s++) {
        shape p = shape_of_one(c, format, s, rng);
        uint32_t pool = pools[s % COUNT_OF(pools)];
        for (size_t t = 0; t < p.count; t++) { /* so that many end one: the kernel changes nothing that others read */
            uint32_t last = p.position[t] / pool * pool + pool - 1;
            if (random_below(rng, 2) && last < p.context)
                p.position[t] = last;
        }
        void *keys = random_cache(&p, rng), *gates = random_cache(&p, rng);
        float *bias = s % 3 == 1 ? NULL : rough_array(pool * p.length, rng),
              *key = rough_array(p.count * p.stride_k, rng);
        room rooms[] = {step_of(d, &p),
                        float_room(d, key, p.count * p.stride_k),
                        room_new(d, keys, p.cached),
                        room_new(d, gates, p.cached),
                        float_room(d, bias, bias ? pool * p.length : 0),
                        pages_of(d, &p)};
        DEVICE_DO(c, d, kernel, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  room_of(&rooms[3]), bias ? room_of(&rooms[4]) : NO_BUFFER, room_of(&rooms[5]), UINT(p.table),
                  UINT(p.page), UINT(p.piece), UINT(p.positions), UINT(p.length), UINT(pool), UINT(p.stride_k));
        float *own = content_of(c, &rooms[1]);
        for (size_t t = 0; t < p.count; t++) {
            float *before = key + t * p.stride_k, *made = own + t * p.stride_k;
            for (size_t i = 0; i < p.length && (p.position[t] + 1) % pool == 0; i++) {
                bounded want = pooled(&p, keys, gates, bias, pool, t, i);
                expect_close(c, i, want.value, made[i], want.error);
                before[i] = made[i];
            }
            expect_same(c, "what ends no pool, and what is no key", before, made, p.stride_k * sizeof *key);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(keys), free(gates), free(bias), free(key), free(own), free(p.pages);
    }
}

/* Plain pools' keys: normed, and turned by angles of their own; other rows, and what is no key, stay. */
static void check_finish_pools(check *c, device *d, uint64_t *rng)
{
    const float epsilon = 1e-6f;
    for (size_t s = 0; s < 4 * HEAD_LENGTHS; s++) {
        shape p = shape_of_one(c, FORMAT_F32, s, rng);
        uint32_t pool = pools[s % COUNT_OF(pools)], half = (uint32_t)p.length / 2;
        uint32_t pairs = s % 5 == 0 ? 0 : s % 5 == 1 ? half : (uint32_t)random_below(rng, half + (uint32_t)1);
        bool halves = s % 2;
        float *key = rough_array(p.count * p.stride_k, rng), *weight = rough_array(p.length, rng);
        float *cosine = rough_array(p.count * (size_t)pairs + 1, rng),
              *sine = rough_array(p.count * (size_t)pairs + 1, rng);
        room rooms[] = {step_of(d, &p), float_room(d, key, p.count * p.stride_k), float_room(d, weight, p.length),
                        float_room(d, cosine, p.count * pairs + 1), float_room(d, sine, p.count * pairs + 1)};
        DEVICE_DO(c, d, DEVICE_finish_pools, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  room_of(&rooms[3]), room_of(&rooms[4]), UINT(p.length), UINT(pool), UINT(pairs), UINT(halves),
                  UINT(p.stride_k), FLOAT(epsilon));
        float *own = content_of(c, &rooms[1]);
        for (size_t t = 0; t < p.count; t++) {
            float *before = key + t * p.stride_k, *made = own + t * p.stride_k;
            double squares = 0, normed[1 << 12];
            for (size_t i = 0; i < p.length; i++)
                squares += (double)before[i] * (double)before[i];
            for (size_t i = 0; i < p.length; i++)
                normed[i] = (double)before[i] * (double)weight[i] / sqrt(squares / (double)p.length + (double)epsilon);
            for (size_t i = 0; i < p.length && (p.position[t] + 1) % pool == 0; i++) {
                size_t pair = halves ? i % (pairs > 0 ? pairs : 1) : i / 2,
                       other = halves ? (i + pairs) % (2 * pairs + (pairs == 0)) : i ^ 1;
                bool turns = i < 2 * (size_t)pairs, first = halves ? i < pairs : i % 2 == 0;
                double by = turns ? (double)cosine[t * pairs + pair] : 1,
                       and_by = turns ? (double)sine[t * pairs + pair] : 0;
                double a = normed[i] * by, b = turns ? normed[other] * and_by * (first ? -1 : 1) : 0;
                expect_close(c, i, a + b, made[i], (fabs(a) + fabs(b)) * (double)(p.length + 12) * EPSILON + TINY);
                made[i] = before[i];
            }
            expect_same(c, "what ends no pool, and what is no key", before, made, p.stride_k * sizeof *key);
        }
        free_rooms(rooms, COUNT_OF(rooms));
        free(key), free(weight), free(cosine), free(sine), free(own), free(p.pages);
    }
}

void check_device_choice(check *c, device *d, uint64_t *rng)
{
    static const cache_check all[] = {OF_ALL_FORMATS(pool_keys, check_pool_keys),
                                      OF_ALL_FORMATS(score_positions, check_score_positions)};
    run_cache_checks(c, d, all, COUNT_OF(all), rng);
    check_begin(c, "finish_pools");
    check_finish_pools(c, d, rng);
    check_begin(c, "choose");
    check_choose(c, d, rng);
}
