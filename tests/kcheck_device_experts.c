/* kcheck_device_experts.c - the kernels of devices for layers with experts: route, expand, weigh.
 *
 * route is held against double precision, with its choice made by sorting; a case whose choice hangs on less than
 * rounding is drawn again. Lists and products have one right answer. */
#include "kcheck_device_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ route */

/* What route works on: the numbers of its parameters, and of one token what follows from the definition. */
typedef struct routing {
    uint32_t count, n, used, sets, sets_used, scoring, of_sum, *tokens;
    int32_t *given; /* [TOKENS][used]: the experts that a token has; NULL: the best */
    float input_scale, scale, shared, *products, *bias, *correction, *factors, *shared_gate;
    double *scores, *ranks, *shares; /* [count][n], shares [count][n + 1] */
} routing;

/* Tokens of the vocabulary. */
enum { TOKENS = 20 };

/* Ranks that differ by less may be ordered otherwise in float32. */
#define NARROW 1e-5

typedef struct ranked {
    double value;
    uint32_t place;
} ranked;

static int best_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Marks in stays [n] the best `most` of values [n]; false where that hangs on a rounding error. */
static bool mark_best(const double *values, uint32_t n, uint32_t most, bool *stays)
{
    ranked *sorted = array_new(n, sizeof *sorted);
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = (ranked){values[i], i};
    qsort(sorted, n, sizeof *sorted, best_first);
    memset(stays, 0, n * sizeof *stays);
    for (uint32_t i = 0; i < most; i++)
        stays[sorted[i].place] = true;
    double gap = most < n ? sorted[most - 1].value - sorted[most].value : 1;
    bool clear = gap == 0 || !(gap < NARROW);
    for (uint32_t i = 0; gap == 0 && i < n; i++) { /* equal ones are, in float32 too, if no third one is so near */
        double apart = fabs(sorted[i].value - sorted[most].value);
        clear &= apart == 0 || !(apart < NARROW);
    }
    free(sorted);
    return clear;
}

/* Leaves out the experts of all sets but the best, as minus infinity; false as in mark_best. */
static bool leave_sets_out(const routing *w, double *ranks)
{
    uint32_t each = w->n / w->sets;
    double *sums = array_new(w->sets, sizeof *sums);
    bool *stays = array_new(w->sets, sizeof *stays);
    for (uint32_t s = 0; s < w->sets; s++) {
        double first = -INFINITY, second = -INFINITY;
        for (uint32_t i = 0; i < each; i++) {
            double x = ranks[s * each + i];
            second = fmax(second, fmin(first, x));
            first = fmax(first, x);
        }
        sums[s] = each > 1 ? first + second : first;
    }
    bool clear = mark_best(sums, w->sets, w->sets_used, stays);
    for (uint32_t e = 0; e < w->n; e++)
        ranks[e] = stays[e / each] ? ranks[e] : -INFINITY;
    free(sums), free(stays);
    return clear;
}

/* One token in double precision; false as in mark_best. */
static bool route_one(const routing *w, uint32_t t)
{
    double largest = -INFINITY, all = 0, sum = 0, *scores = w->scores + t * w->n, *ranks = w->ranks + t * w->n;
    double *shares = w->shares + t * (w->n + 1);
    bool *chosen = array_new(w->n, sizeof *chosen), clear = true;
    for (uint32_t e = 0; e < w->n; e++) {
        scores[e] = (double)w->products[t * w->n + e] * (double)w->input_scale + (w->bias ? (double)w->bias[e] : 0);
        largest = fmax(largest, scores[e]);
    }
    for (uint32_t e = 0; e < w->n; e++)
        all += exp(scores[e] - largest);
    for (uint32_t e = 0; e < w->n; e++) {
        scores[e] = w->scoring == SCORING_SIGMOID         ? 1 / (1 + exp(-scores[e]))
                    : w->scoring == SCORING_ROOT_SOFTPLUS ? sqrt(fmax(scores[e], 0) + log1p(exp(-fabs(scores[e]))))
                    : w->scoring == SCORING_SOFTMAX       ? exp(scores[e] - largest) / all
                                                          : scores[e];
        ranks[e] = scores[e] + (w->correction ? (double)w->correction[e] : 0);
        if (w->scoring == SCORING_SIGMOID_OF_CHOSEN)
            scores[e] = 1 / (1 + exp(-scores[e]));
    }
    if (w->sets > 1)
        clear = leave_sets_out(w, ranks);
    clear &= mark_best(ranks, w->n, w->used, chosen);
    if (w->given) {
        clear = true;
        memset(chosen, 0, w->n * sizeof *chosen);
        for (uint32_t k = 0; k < w->used; k++)
            chosen[w->given[w->tokens[t] * w->used + k]] = true;
    }
    for (uint32_t e = 0; e < w->n; e++)
        sum += chosen[e] ? scores[e] : 0;
    for (uint32_t e = 0; e < w->n; e++)
        shares[e] = chosen[e] ? scores[e] * (double)w->scale / (w->of_sum ? sum : 1) : 0;
    for (uint32_t e = 0; w->factors && e < w->n; e++)
        shares[e] *= (double)w->factors[e];
    shares[w->n] = (double)w->shared / (w->shared_gate ? 1 + exp(-(double)w->shared_gate[t]) : 1);
    free(chosen);
    return clear;
}

/* Products of a router: of size 8 at most, now and then two that are equal. */
static void draw_products(const routing *w, uint64_t *rng)
{
    for (uint32_t t = 0; t < w->count; t++) {
        float *x = w->products + t * w->n;
        do
            for (uint32_t e = 0; e < w->n; e++)
                x[e] = e > 0 && random_below(rng, 8) == 0 ? x[random_below(rng, e)] : 8 * random_value(rng);
        while (!route_one(w, t));
    }
}

/* Draws tokens, and now and then experts for each, which are neighbours so that no two are the same. */
static void draw_tokens(routing *w, uint64_t *rng)
{
    w->tokens = array_new(w->count, sizeof *w->tokens);
    for (uint32_t t = 0; t < w->count; t++)
        w->tokens[t] = (uint32_t)random_below(rng, TOKENS);
    w->given = random_below(rng, 4) ? NULL : array_new(TOKENS * w->used, sizeof *w->given);
    for (uint32_t i = 0; w->given && i < TOKENS * w->used; i += w->used) {
        uint32_t first = (uint32_t)random_below(rng, w->n);
        for (uint32_t k = 0; k < w->used; k++)
            w->given[i + k] = (int32_t)((first + k) % w->n);
    }
}

static routing routing_new(size_t s, uint64_t *rng)
{
    static const uint32_t numbers[] = {1, 2, 3, 6, 8, 32, 64, 65, 128, 160, 512, MOST_EXPERTS};
    routing w = {.count = random_count(rng), .n = numbers[s % COUNT_OF(numbers)], .sets = 1};
    uint32_t sets = 2 + (uint32_t)random_below(rng, 7);
    if (w.n % sets == 0 && random_below(rng, 3) > 0)
        w.sets = sets;
    w.sets_used = 1 + (uint32_t)random_below(rng, w.sets);
    uint32_t open = w.n / w.sets * w.sets_used, most = open < 32 ? open : 32;
    w.used = 1 + (uint32_t)random_below(rng, most);
    w.scoring = (uint32_t)random_below(rng, SCORING_SIGMOID_OF_CHOSEN + 1);
    w.of_sum = (uint32_t)random_below(rng, 2);
    w.input_scale = random_below(rng, 2) ? 1 : 0.3f;
    w.scale = random_below(rng, 2) ? 1 : 2.5f;
    w.shared = (float)random_below(rng, 2);
    w.products = array_new(w.count * w.n, sizeof(float));
    w.scores = array_new(w.count * w.n, sizeof(double)), w.ranks = array_new(w.count * w.n, sizeof(double));
    w.shares = array_new(w.count * (w.n + 1), sizeof(double));
    w.shared_gate = random_below(rng, 2) ? rough_array(w.count, rng) : NULL;
    w.bias = random_below(rng, 2) ? array_new(w.n, sizeof(float)) : NULL;
    w.correction = random_below(rng, 2) ? array_new(w.n, sizeof(float)) : NULL;
    w.factors = random_below(rng, 2) ? rough_array(w.n, rng) : NULL;
    for (uint32_t e = 0; e < w.n; e++) {
        if (w.bias)
            w.bias[e] = random_value(rng);
        if (w.correction)
            w.correction[e] = random_value(rng);
    }
    draw_tokens(&w, rng);
    draw_products(&w, rng);
    return w;
}

static void routing_free(routing *w)
{
    free(w->shared_gate), free(w->products), free(w->bias), free(w->correction), free(w->factors);
    free(w->scores), free(w->ranks), free(w->shares), free(w->tokens), free(w->given);
}

/* Before exp there are sums of numbers of size 20 at most, so it is off by EXP_ERROR and 3 * 20 EPSILON; both sums of n
 * positive numbers by at most n EPSILON; six operations follow. log(1 + exp) errs by 16 EPSILON more, and a root halves what errs. */
static void check_route(check *c, device *d, uint64_t *rng)
{
    static const char *const scorings[] = {[SCORING_SOFTMAX] = "softmax",
                                           [SCORING_SIGMOID] = "sigmoid",
                                           [SCORING_ROOT_SOFTPLUS] = "sqrtsoftplus",
                                           [SCORING_SIGMOID_OF_CHOSEN] = "sigmoid of those chosen"};
    for (size_t s = 0; s < 96; s++) {
        routing w = routing_new(s, rng);
        snprintf(c->size, sizeof(c->size), "%u rows, %u of %u experts, %u of %u sets, %s%s%s%s%s", w.count, w.used, w.n,
                 w.sets_used, w.sets, scorings[w.scoring], w.bias ? ", bias" : "", w.correction ? ", correction" : "",
                 w.factors ? ", factors" : "", w.given ? ", given" : "");
        room rooms[] = {step_new(d, w.count, NULL, NULL, w.tokens),
                        float_room(d, w.products, w.count * w.n),
                        float_room(d, w.bias, w.bias ? w.n : 0),
                        float_room(d, w.correction, w.correction ? w.n : 0),
                        float_room(d, NULL, w.count * ((size_t)w.n + 1)),
                        float_room(d, w.shared_gate, w.shared_gate ? w.count : 0),
                        float_room(d, w.factors, w.factors ? w.n : 0),
                        room_new(d, w.given, w.given ? TOKENS * w.used * sizeof *w.given : 0)};
        DEVICE_DO(c, d, DEVICE_route, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]),
                  w.bias ? room_of(&rooms[2]) : NO_BUFFER, w.correction ? room_of(&rooms[3]) : NO_BUFFER,
                  w.factors ? room_of(&rooms[6]) : NO_BUFFER, w.shared_gate ? room_of(&rooms[5]) : NO_BUFFER,
                  w.given ? room_of(&rooms[7]) : NO_BUFFER, room_of(&rooms[4]), UINT(w.n), UINT(w.used),
                  UINT(w.sets > 1 ? w.sets : s % 2), UINT(w.sets_used), UINT(w.scoring), UINT(w.of_sum),
                  FLOAT(w.input_scale), FLOAT(w.scale), FLOAT(w.shared));
        float *got = content_of(c, &rooms[4]);
        double error = 2 * (EXP_ERROR + (60 + (double)w.n) * EPSILON) + 6 * EPSILON;
        for (size_t i = 0; i < w.count * ((size_t)w.n + 1); i++)
            expect_close(c, i, w.shares[i], got[i], fabs(w.shares[i]) * error + TINY);
        free_rooms(rooms, COUNT_OF(rooms));
        routing_free(&w);
        free(got);
    }
}

/* What is not finite stays with the experts that are chosen: the others have a share of zero. broken: the router's
 * products, or the factor that the scores are divided by. */
static void check_broken_route(check *c, device *d)
{
    enum { N = 40, USED = 3 };
    for (unsigned way = 0; way < 2 * (SCORING_SIGMOID_OF_CHOSEN + 1); way++) {
        float products[N], *got;
        unsigned broken = way % 2, scoring = way / 2;
        for (size_t e = 0; e < N; e++)
            products[e] = broken == 0 ? NAN : (float)(e % 7);
        snprintf(c->size, sizeof(c->size), "%d of %d experts, scoring %u, %s", USED, N, scoring,
                 broken == 0 ? "products NaN" : "scale 3e38");
        room rooms[] = {step_new(d, 1, NULL, NULL, NULL), float_room(d, products, N), float_room(d, NULL, N + 1)};
        DEVICE_DO(c, d, DEVICE_route, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), NO_BUFFER, NO_BUFFER,
                  NO_BUFFER, NO_BUFFER, NO_BUFFER, room_of(&rooms[2]), UINT(N), UINT(USED), UINT(0), UINT(0),
                  UINT(scoring), UINT(1), FLOAT(1), FLOAT(3e38f), FLOAT(0));
        got = content_of(c, &rooms[2]);
        size_t chosen = 0;
        for (size_t e = 0; e < N; e++)
            chosen += got[e] != 0;
        expect(c, "as many as are used have a share that is not zero", chosen == USED);
        free_rooms(rooms, COUNT_OF(rooms));
        free(got);
    }
}

/* ------------------------------------------------------------------ expand, weigh */

/* Experts of which the device has some neurons each, in an order of their own, and those that tokens chose. */
typedef struct expansion {
    uint32_t count, experts, n, *ranges, *owners, *chosen, *chosen_count, *list, *listed, *totals, column;
} expansion;

static expansion expansion_new(uint64_t *rng)
{
    expansion w = {.count = random_count(rng), .experts = 1 + (uint32_t)random_below(rng, 40)};
    w.ranges = array_new(2 * w.experts, sizeof(uint32_t));
    uint32_t *order = array_new(w.experts, sizeof *order);
    for (uint32_t e = 0; e < w.experts; e++) {
        uint32_t other = (uint32_t)random_below(rng, e + 1);
        order[e] = order[other];
        order[other] = e;
    }
    for (uint32_t i = 0; i < w.experts; i++) {
        w.ranges[2 * order[i]] = w.n;
        w.n += (uint32_t)(random_below(rng, 3) ? random_below(rng, 300) : 0);
        w.ranges[2 * order[i] + 1] = w.n;
    }
    free(order);
    w.n += (uint32_t)random_below(rng, 3) + 1;
    w.owners = array_new(w.n, sizeof(uint32_t));
    for (uint32_t e = 0; e < w.experts; e++)
        for (uint32_t i = w.ranges[2 * e]; i < w.ranges[2 * e + 1]; i++)
            w.owners[i] = e;
    w.column = (uint32_t)random_below(rng, TOTALS);
    w.chosen = array_new(CHECKED_ROWS * w.experts, sizeof(uint32_t));
    w.chosen_count = array_new(CHECKED_ROWS, sizeof(uint32_t)), w.listed = array_new(CHECKED_ROWS, sizeof(uint32_t));
    w.list = array_new(CHECKED_ROWS * w.n, sizeof(uint32_t)),
    w.totals = array_new(CHECKED_ROWS * TOTALS, sizeof(uint32_t));
    for (uint32_t t = 0; t < w.count; t++)
        for (uint32_t e = 0; e < w.experts; e++) {
            if (random_below(rng, 3) > 0)
                continue;
            w.chosen[t * w.experts + w.chosen_count[t]++] = e;
            for (uint32_t i = w.ranges[2 * e]; i < w.ranges[2 * e + 1]; i++)
                w.list[t * w.n + w.listed[t]++] = i;
        }
    for (size_t i = 0; i < CHECKED_ROWS * TOTALS; i++)
        w.totals[i] = (uint32_t)random_below(rng, 1000);
    return w;
}

static void expansion_free(expansion *w)
{
    free(w->ranges), free(w->owners), free(w->chosen), free(w->chosen_count), free(w->list), free(w->listed),
        free(w->totals);
}

static void check_expand(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 40; s++) {
        bool counts = s % 2;
        expansion w = expansion_new(rng);
        snprintf(c->size, sizeof(c->size), "%u rows, %u experts of %u neurons", w.count, w.experts, w.n);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),       word_room(d, w.chosen, CHECKED_ROWS * w.experts),
                        word_room(d, w.chosen_count, CHECKED_ROWS),   word_room(d, w.ranges, 2 * w.experts),
                        word_room(d, NULL, CHECKED_ROWS * w.n),       word_room(d, NULL, CHECKED_ROWS),
                        word_room(d, w.totals, CHECKED_ROWS * TOTALS)};
        DEVICE_DO(c, d, DEVICE_expand, CHECKED_ROWS, room_of(&rooms[0]), room_of(&rooms[1]), room_of(&rooms[2]),
                  room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]), counts ? room_of(&rooms[6]) : NO_BUFFER,
                  UINT(w.experts), UINT(w.n), UINT(w.column));
        uint32_t *list = content_of(c, &rooms[4]), *listed = content_of(c, &rooms[5]),
                 *totals = content_of(c, &rooms[6]);
        for (uint32_t t = 0; t < w.count; t++) {
            w.totals[t * TOTALS + w.column] += counts ? w.listed[t] : 0;
            expect_same(c, "list", w.list + t * w.n, list + t * w.n, w.listed[t] * sizeof *list);
        }
        expect_same(c, "listed", w.listed, listed, w.count * sizeof *listed);
        expect_same(c, "totals", w.totals, totals, CHECKED_ROWS * TOTALS * sizeof *totals);
        free_rooms(rooms, COUNT_OF(rooms));
        free(list), free(listed), free(totals);
        expansion_free(&w);
    }
}

static void check_weigh(check *c, device *d, uint64_t *rng)
{
    for (size_t s = 0; s < 40; s++) {
        expansion w = expansion_new(rng);
        snprintf(c->size, sizeof(c->size), "%u rows, %u experts of %u neurons", w.count, w.experts, w.n);
        float *h = rough_array(w.count * (size_t)w.n, rng), *shares = rough_array(w.count * (size_t)w.experts, rng);
        room rooms[] = {step_new(d, w.count, NULL, NULL, NULL),
                        float_room(d, h, w.count * (size_t)w.n),
                        word_room(d, w.list, CHECKED_ROWS * w.n),
                        word_room(d, w.listed, CHECKED_ROWS),
                        float_room(d, shares, w.count * (size_t)w.experts),
                        word_room(d, w.owners, w.n)};
        DEVICE_DO(c, d, DEVICE_weigh, CHECKED_ROWS * items_of(w.n, ACTIVATE_NEURONS), room_of(&rooms[0]),
                  room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]), room_of(&rooms[4]), room_of(&rooms[5]),
                  UINT(w.experts), UINT(w.n));
        float *got = content_of(c, &rooms[1]);
        for (uint32_t t = 0; t < w.count; t++)
            for (uint32_t k = 0, i = 0; k < w.chosen_count[t]; k++) {
                uint32_t e = w.chosen[t * w.experts + k];
                for (uint32_t own = w.ranges[2 * e + 1] - w.ranges[2 * e]; own > 0; own--)
                    h[t * w.n + i++] *= shares[t * w.experts + e];
            }
        for (size_t i = 0; i < w.count * (size_t)w.n;
             i++) /* products below the smallest normal number may be flushed */
            expect_close(c, i, h[i], got[i], fabsf(h[i]) < (float)TINY ? TINY : 0);
        free_rooms(rooms, COUNT_OF(rooms));
        free(h), free(shares), free(got);
        expansion_free(&w);
    }
}

void check_device_experts(check *c, device *d, uint64_t *rng)
{
    check_begin(c, "route");
    check_route(c, d, rng);
    check_broken_route(c, d);
    check_begin(c, "expand");
    check_expand(c, d, rng);
    check_begin(c, "weigh");
    check_weigh(c, d, rng);
}
