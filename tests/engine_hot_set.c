/* engine_hot_set.c - who should be on the device: neurons and experts of a layer are drawn with known probabilities, and the hits of
 * the hot set are compared with those of the best set for these probabilities, computed from them. */
#include "../src/base/random.h"
#include "../src/engine/hot_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEURONS = 2048, MANY = 8192, EXPERTS = 128, USED = 8, LOOK = 16 };

/* A layer with a text that activates its units, of which a quarter is on the device: each neuron by a chance of its own; of
 * experts the USED with the highest scores, which chance draws around what each is liked. */
typedef struct layer {
    hot_set set;
    uint32_t units, on_device;
    size_t most; /* that change sides in LOOK tokens */
    double chance[MANY], liked[EXPERTS];
    uint32_t device[MANY], cpu[MANY];
    uint32_t leave[MANY], enter[MANY];
    size_t listed, done, swaps;
    uint64_t rng;
} layer;

static size_t below(uint64_t *rng, size_t bound)
{
    return (size_t)(random_next(rng) % bound);
}

/* A number of about normal distribution, with deviation 1. */
static double normal(uint64_t *rng)
{
    double sum = -6;
    for (size_t i = 0; i < 12; i++)
        sum += (double)below(rng, 1 << 24) / (1 << 24);
    return sum;
}

/* Adds to `fired` what one token activates. */
static void activate(layer *l, uint32_t *fired)
{
    if (l->units != EXPERTS) {
        for (uint32_t i = 0; i < l->units; i++)
            fired[i] += (double)below(&l->rng, 1 << 24) < l->chance[i] * (1 << 24);
        return;
    }
    double score[EXPERTS];
    for (uint32_t i = 0; i < EXPERTS; i++)
        score[i] = l->liked[i] + normal(&l->rng);
    for (size_t k = 0; k < USED; k++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < EXPERTS; i++)
            best = score[i] > score[best] ? i : best;
        score[best] = -INFINITY;
        fired[best]++;
    }
}

/* Draws the probabilities of another domain. Of neurons a few are hot and most are cold, as measured of real models: p falls like
 * a power of the rank, 0.12 on average. Of experts the hottest quarter has seven tenths of the choices. */
static void change_domain(layer *l)
{
    enum { SAMPLE = 8192 };
    uint32_t fired[EXPERTS] = {0};
    if (l->units == EXPERTS) {
        for (size_t i = 0; i < EXPERTS; i++)
            l->liked[i] = 0.7 * normal(&l->rng);
        for (size_t t = 0; t < SAMPLE; t++)
            activate(l, fired);
        for (size_t i = 0; i < EXPERTS; i++)
            l->chance[i] = (double)fired[i] / SAMPLE;
        return;
    }
    for (size_t i = 0; i < l->units; i++)
        l->chance[i] = fmin(1, 0.0545 * pow((double)(i + 1) / l->units, -0.6));
    for (size_t i = l->units; i-- > 1;) {
        size_t other = below(&l->rng, i + 1);
        double old = l->chance[i];
        l->chance[i] = l->chance[other];
        l->chance[other] = old;
    }
}

static int by_falling_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Returns the hits per token of the best set. */
static double best_hits(const layer *l)
{
    double sorted[MANY], sum = 0;
    memcpy(sorted, l->chance, sizeof sorted);
    qsort(sorted, l->units, sizeof *sorted, by_falling_value);
    for (size_t i = 0; i < l->on_device; i++)
        sum += sorted[i];
    return sum;
}

/* Returns those that the set can expect as it is. */
static double expected_hits(const layer *l)
{
    double sum = 0;
    for (size_t i = 0; i < l->on_device; i++)
        sum += l->chance[l->device[i]];
    return sum;
}

static void replace(uint32_t *list, size_t count, uint32_t old, uint32_t new)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == old) {
            list[i] = new;
            return;
        }
    fail_msg("%u is not on that side", old);
}

/* Reads tokens as follow.c does: a look every LOOK tokens, swaps after each token. */
static void read_tokens(layer *l, size_t count)
{
    for (size_t t = 0; t < count; t++) {
        activate(l, l->set.fired);
        if (++l->set.pending == LOOK) {
            hot_set_look(&l->set);
            l->done = 0;
            l->listed = hot_set_choose(&l->set, l->device, l->on_device, l->cpu, l->units - l->on_device, l->most,
                                       l->leave, l->enter);
        }
        for (size_t n = 0; n < l->most / LOOK && l->done < l->listed; n++, l->done++, l->swaps++) {
            uint32_t leave = l->leave[l->done], enter = l->enter[l->done];
            replace(l->device, l->on_device, leave, enter);
            replace(l->cpu, l->units - l->on_device, enter, leave);
            l->set.moved[leave] = l->set.moved[enter] = 1;
        }
    }
}

/* Begins with the best set of the first domain. swaps: of a token. */
static layer *layer_new(uint32_t units, size_t swaps, uint64_t seed)
{
    layer *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->rng = seed, l->units = units, l->on_device = units / 4, l->most = swaps * LOOK;
    assert_int_equal(hot_set_create(&l->set, units, NULL), HEARTH_OK);
    change_domain(l);
    double sorted[MANY];
    memcpy(sorted, l->chance, sizeof sorted);
    qsort(sorted, units, sizeof *sorted, by_falling_value);
    size_t device = 0, cpu = 0;
    for (uint32_t i = 0; i < units; i++)
        if (l->chance[i] >= sorted[l->on_device - 1] && device < l->on_device)
            l->device[device++] = i;
        else
            l->cpu[cpu++] = i;
    assert_int_equal(device, l->on_device);
    return l;
}

static void layer_free(layer *l)
{
    hot_set_destroy(&l->set);
    free(l);
}

/* The text stays, then changes: after 256 tokens the set is as good for the new one as DESIGN asks. */
static void check_follows(uint32_t units, size_t swaps, double most_swaps)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        layer *l = layer_new(units, swaps, seed);
        read_tokens(l, 2048);
        double stays = expected_hits(l) / best_hits(l), a_token = (double)l->swaps / 2048;
        change_domain(l);
        double before = expected_hits(l) / best_hits(l);
        read_tokens(l, 256);
        double after = expected_hits(l) / best_hits(l);
        print_message("%u: the text stays: %.3f of the best set's hits, %.3f swaps a token; another one: %.3f, then "
                      "%.3f\n",
                      units, stays, a_token, before, after);
        assert_true(stays >= 0.98);
        assert_true(a_token < most_swaps);
        assert_true(before < 0.6); /* else nothing was to be done */
        assert_true(after >= 0.9);
        layer_free(l);
    }
}

static void follows(void **state)
{
    (void)state;
    check_follows(NEURONS, 4, 1);
    check_follows(MANY, MANY / 1024, 2); /* as follow.c does where nobody says how many */
}

static void follows_experts(void **state)
{
    (void)state;
    check_follows(EXPERTS, 1, 0.1);
}

/* Neurons that are all alike stay, but for chance; before anything is known all do. */
static void stays(void **state)
{
    (void)state;
    layer *l = layer_new(NEURONS, 4, 9);
    for (size_t i = 0; i < NEURONS; i++)
        l->chance[i] = 0.1;
    read_tokens(l, HOT_LEAST_TOKENS - 1);
    assert_int_equal(l->swaps, 0);
    read_tokens(l, 4096);
    /* two deviations of the difference of the luckiest and the unluckiest of a thousand are not rare, but few */
    assert_true(l->swaps < 4096 * 4 / 2);
    layer_free(l);
}

/* Scores follow the formula, token by token or many at once; those of neurons that moved stay. */
static void scores(void **state)
{
    (void)state;
    hot_set h;
    double want = 0, once = exp2(-1.0 / HOT_HALF_LIFE);
    assert_int_equal(hot_set_create(&h, 3, NULL), HEARTH_OK);
    for (size_t t = 0; t < 1000; t++) {
        h.fired[0] = t % 3 == 0;
        h.fired[1] = 1;
        h.pending = 1;
        hot_set_look(&h);
        want = want * once + (t % 3 == 0);
    }
    assert_true(fabs((double)h.score[0] / want - 1) < 1e-3);
    assert_true(fabs((double)h.score[1] / (1 / (1 - once)) - 1) < 1e-3);
    assert_true(h.score[2] == 0);
    assert_int_equal(h.seen, 1000);
    float before = h.score[0];
    h.moved[0] = 1, h.fired[0] = 16, h.fired[2] = 16, h.pending = 16;
    hot_set_look(&h);
    assert_true(h.score[0] == before && h.moved[0] == 0 && h.fired[0] == 0);
    assert_true(fabs((double)h.score[2] / ((1 - pow(once, 16)) / (1 - once)) - 1) < 1e-3);
    hot_set_destroy(&h);
}

/* Of equals the one with the lower number comes first. */
static bool comes_before(float value, uint32_t number, float other, uint32_t other_number)
{
    return value > other || (value == other && number < other_number);
}

/* Who changes: the coldest with the hottest, as sorting says, as many as there is room for. */
static void choices(void **state)
{
    (void)state;
    enum { ALL = 300, HERE = 100, MOST = 17 };
    hot_set h;
    uint64_t rng = 5;
    uint32_t device[HERE], cpu[ALL - HERE], leave[MOST], enter[MOST];
    assert_int_equal(hot_set_create(&h, ALL, NULL), HEARTH_OK);
    h.seen = HOT_LEAST_TOKENS;
    for (uint32_t i = 0; i < ALL; i++) {
        h.score[i] = (float)below(&rng, 90); /* many are equal */
        if (i % 3 == 0)
            device[i / 3] = i;
        else
            cpu[i - i / 3 - 1] = i;
    }
    size_t n = hot_set_choose(&h, device, HERE, cpu, ALL - HERE, MOST, leave, enter);
    assert_int_equal(n, MOST);
    for (size_t i = 0; i < n; i++) {
        size_t colder = 0, hotter = 0;
        for (uint32_t k = 0; k < ALL; k++) {
            colder += k % 3 == 0 && comes_before(-h.score[k], k, -h.score[leave[i]], leave[i]);
            hotter += k % 3 != 0 && comes_before(h.score[k], k, h.score[enter[i]], enter[i]);
        }
        assert_int_equal(leave[i] % 3, 0);
        assert_int_not_equal(enter[i] % 3, 0);
        assert_int_equal(colder, i);
        assert_int_equal(hotter, i);
    }
    assert_int_equal(hot_set_choose(&h, device, HERE, cpu, ALL - HERE, 0, leave, enter), 0);
    assert_int_equal(hot_set_choose(&h, device, 0, cpu, ALL - HERE, MOST, leave, enter), 0);
    hot_set_destroy(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows), cmocka_unit_test(follows_experts), cmocka_unit_test(stays),
        cmocka_unit_test(scores),  cmocka_unit_test(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
