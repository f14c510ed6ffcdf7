/* engine_hot_set.c - who should be on the device: a layer's neurons are drawn with known probabilities, and the hits of the hot set
 * are compared with those of the best set for these probabilities, computed from them. */
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

enum { NEURONS = 2048, ON_DEVICE = NEURONS / 4, LOOK = 16, SWAPS = 4 };

/* A layer with a text that activates its neurons. on_device: 1 for those of the device. */
typedef struct layer {
    hot_set set;
    double chance[NEURONS];
    uint32_t device[ON_DEVICE], cpu[NEURONS - ON_DEVICE];
    uint32_t leave[LOOK * SWAPS], enter[LOOK * SWAPS];
    size_t listed, done, swaps;
    uint64_t rng;
} layer;

static size_t below(uint64_t *rng, size_t bound)
{
    return (size_t)(random_next(rng) % bound);
}

/* Draws the probabilities of another domain: a few neurons are hot and most are cold, as measured of real models: p falls like a
 * power of the rank, 0.12 on average. */
static void change_domain(layer *l)
{
    for (size_t i = 0; i < NEURONS; i++)
        l->chance[i] = fmin(1, 0.0545 * pow((double)(i + 1) / NEURONS, -0.6));
    for (size_t i = NEURONS; i-- > 1;) {
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
    double sorted[NEURONS], sum = 0;
    memcpy(sorted, l->chance, sizeof sorted);
    qsort(sorted, NEURONS, sizeof *sorted, by_falling_value);
    for (size_t i = 0; i < ON_DEVICE; i++)
        sum += sorted[i];
    return sum;
}

/* Returns those that the set can expect as it is. */
static double expected_hits(const layer *l)
{
    double sum = 0;
    for (size_t i = 0; i < ON_DEVICE; i++)
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

/* Reads tokens as follow.c does: a look every LOOK tokens, SWAPS neurons after each. */
static void read_tokens(layer *l, size_t count)
{
    for (size_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < NEURONS; i++)
            l->set.fired[i] += (double)below(&l->rng, 1 << 24) < l->chance[i] * (1 << 24);
        if (++l->set.pending == LOOK) {
            hot_set_look(&l->set);
            l->done = 0;
            l->listed = hot_set_choose(&l->set, l->device, ON_DEVICE, l->cpu, NEURONS - ON_DEVICE, LOOK * SWAPS,
                                       l->leave, l->enter);
        }
        for (size_t n = 0; n < SWAPS && l->done < l->listed; n++, l->done++, l->swaps++) {
            uint32_t leave = l->leave[l->done], enter = l->enter[l->done];
            replace(l->device, ON_DEVICE, leave, enter);
            replace(l->cpu, NEURONS - ON_DEVICE, enter, leave);
            l->set.moved[leave] = l->set.moved[enter] = 1;
        }
    }
}

/* Begins with the best set of the first domain. */
static layer *layer_new(uint64_t seed)
{
    layer *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->rng = seed;
    assert_int_equal(hot_set_create(&l->set, NEURONS, NULL), HEARTH_OK);
    change_domain(l);
    double sorted[NEURONS];
    memcpy(sorted, l->chance, sizeof sorted);
    qsort(sorted, NEURONS, sizeof *sorted, by_falling_value);
    size_t device = 0, cpu = 0;
    for (uint32_t i = 0; i < NEURONS; i++)
        if (l->chance[i] >= sorted[ON_DEVICE - 1] && device < ON_DEVICE)
            l->device[device++] = i;
        else
            l->cpu[cpu++] = i;
    assert_int_equal(device, ON_DEVICE);
    return l;
}

static void layer_free(layer *l)
{
    hot_set_destroy(&l->set);
    free(l);
}

/* The text stays, then changes: after 256 tokens the set is as good for the new one as DESIGN asks. */
static void follows(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        layer *l = layer_new(seed);
        read_tokens(l, 2048);
        double stays = expected_hits(l) / best_hits(l), swaps = (double)l->swaps / 2048;
        change_domain(l);
        double before = expected_hits(l) / best_hits(l);
        read_tokens(l, 256);
        double after = expected_hits(l) / best_hits(l);
        print_message("the text stays: %.3f of the best set's hits, %.2f swaps a token; another one: %.3f, then %.3f\n",
                      stays, swaps, before, after);
        assert_true(stays >= 0.98);
        assert_true(swaps < 1);
        assert_true(before < 0.6); /* else nothing was to be done */
        assert_true(after >= 0.9);
        layer_free(l);
    }
}

/* Neurons that are all alike stay, but for chance; before anything is known all do. */
static void stays(void **state)
{
    (void)state;
    layer *l = layer_new(9);
    for (size_t i = 0; i < NEURONS; i++)
        l->chance[i] = 0.1;
    read_tokens(l, HOT_LEAST_TOKENS - 1);
    assert_int_equal(l->swaps, 0);
    read_tokens(l, 4096);
    /* two deviations of the difference of the luckiest and the unluckiest of a thousand are not rare, but few */
    assert_true(l->swaps < 4096 * SWAPS / 2);
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
        cmocka_unit_test(follows),
        cmocka_unit_test(stays),
        cmocka_unit_test(scores),
        cmocka_unit_test(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
