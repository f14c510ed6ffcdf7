/* plan_place.c - plans against exhaustive search on small models, with the arithmetic of docs/design.md written once more;
 * against a sort by hotness; over all budgets; and what is asked for, or cannot be had. */
#include "plan_build.h"

#include "../src/plan/solve.h"

#include <stdlib.h>

#define LAYERS  3
#define NEURONS 24

/* ------------------------------------------------------------------ the arithmetic once more */

/* Where the layers of a small model are: neurons on the device, or ON_CPU; and the head. */
#define ON_CPU (-1)
typedef struct place {
    int neurons[LAYERS];
    bool head;
} place;

typedef struct example {
    machine machine;
    model_load load;
    cost_model cost;
    double budget;
} example;

static double side_seconds(const example *e, const layer_load *l, int side, int begin, int end)
{
    const machine_rates *r = side == SIDE_CPU ? &e->machine.rates : &e->machine.devices[0].rates;
    double whole = (end - begin) * l->first_bytes, listed = 0;
    for (int n = begin; n < end; n++)
        listed += (double)l->fires[n] * l->other_bytes;
    const side_cost *s = &e->cost.sides[side][l->kind];
    return end == begin ? 0
                        : s->network_seconds.value +
                              s->neuron_scale.value * (whole / r->whole.value + listed / r->listed[0].value);
}

static double mixer_seconds(const example *e, const layer_load *l, int side)
{
    const machine_rates *r = side == SIDE_CPU ? &e->machine.rates : &e->machine.devices[0].rates;
    return e->cost.sides[side][l->kind].mixer_seconds.value + 50 * l->kv_bytes / r->whole.value;
}

/* Returns the seconds of a token; *bytes: on the device. */
static double seconds_of(const example *e, const place *p, double *bytes)
{
    double seconds = e->cost.token_seconds.value;
    bool before = false, any = false;
    *bytes = 0;
    for (int i = 0; i < LAYERS; i++) {
        const layer_load *l = &e->load.layers[i];
        int n = p->neurons[i];
        bool now = n != ON_CPU;
        seconds += now != before ? e->cost.change_seconds.value : 0;
        seconds += mixer_seconds(e, l, now ? SIDE_DEVICE : SIDE_CPU);
        if (now) {
            double device = side_seconds(e, l, SIDE_DEVICE, 0, n), cpu = side_seconds(e, l, SIDE_CPU, n, NEURONS);
            seconds += (device > cpu ? device : cpu) + (n < NEURONS ? e->cost.exchange_seconds.value : 0);
            *bytes += l->device_bytes + 100 * l->kv_bytes + n * l->device_neuron_bytes;
        } else {
            seconds += side_seconds(e, l, SIDE_CPU, 0, NEURONS);
        }
        any |= now;
        before = now;
    }
    seconds += p->head != before ? e->cost.change_seconds.value : 0;
    seconds += e->cost.head_seconds[p->head ? SIDE_DEVICE : SIDE_CPU].value;
    seconds += p->head ? e->cost.change_seconds.value : 0;
    *bytes += p->head ? e->load.head_bytes : 0;
    any |= p->head;
    *bytes += any ? e->cost.scratch_bytes.value : 0;
    return seconds + (any ? e->cost.start_seconds.value : 0);
}

/* ------------------------------------------------------------------ examples */

static void make_example(example *e, uint64_t *seed)
{
    e->machine = made_machine(1e9, between(seed, 2e9, 2e10), between(seed, 1e-6, 2e-5));
    make_load(&e->load, LAYERS, between(seed, 1e4, 2e5));
    double all = e->load.head_bytes;
    for (uint32_t i = 0; i < LAYERS; i++) {
        double mixer = between(seed, 1e4, 1e5), row = between(seed, 500, 5000);
        make_layer(&e->load, i, NEURONS, between(seed, 0.02, 0.8), mixer, row);
        all += mixer + 3 * NEURONS * row;
    }
    assert_int_equal(cost_assume(&e->cost, &e->machine, 0, &e->load, NULL), HEARTH_OK);
    e->cost.scratch_bytes.value = between(seed, 0, 0.05) * all;
    e->budget = between(seed, 0.05, 0.95) * all / 0.98;
}

static void free_example(example *e)
{
    cost_free(&e->cost);
    load_free(&e->load);
}

static double best_of_all(const example *e, double budget)
{
    double best = INFINITY, bytes;
    place p;
    for (int a = ON_CPU; a <= NEURONS; a++)
        for (int b = ON_CPU; b <= NEURONS; b++)
            for (int c = ON_CPU; c <= NEURONS; c++)
                for (int head = 0; head < 2; head++) {
                    p = (place){{a, b, c}, head};
                    double seconds = seconds_of(e, &p, &bytes);
                    best = bytes <= budget && seconds < best ? seconds : best;
                }
    return best;
}

/* What PowerInfer's release does: all neurons sorted by how often they fire, the hottest on the device until it is full. */
static double sorted_by_hotness(const example *e, double budget)
{
    place p = {{ON_CPU, ON_CPU, ON_CPU}, false};
    double bytes, seconds = seconds_of(e, &p, &bytes);
    for (;;) {
        int hottest = -1;
        float most = -1;
        for (int i = 0; i < LAYERS; i++) {
            int n = p.neurons[i] == ON_CPU ? 0 : p.neurons[i];
            if (n < NEURONS && e->load.layers[i].fires[n] > most) {
                most = e->load.layers[i].fires[n];
                hottest = i;
            }
        }
        if (hottest < 0)
            return seconds;
        p.neurons[hottest] = p.neurons[hottest] == ON_CPU ? 1 : p.neurons[hottest] + 1;
        double now = seconds_of(e, &p, &bytes);
        if (bytes > budget)
            return seconds;
        seconds = now;
    }
}

/* ------------------------------------------------------------------ tests */

static void as_good_as_exhaustive_search(void **state)
{
    (void)state;
    uint64_t seed = 5;
    int missed = 0;
    for (int i = 0; i < 20; i++) {
        example e;
        plan p;
        make_example(&e, &seed);
        plan_request request = free_request(e.budget);
        assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
        double best = best_of_all(&e, e.budget * 0.98); /* the margin is left free */
        assert_true(p.seconds <= best * 1.01);
        assert_true(p.seconds >= best * (1 - 1e-9));
        missed += sorted_by_hotness(&e, e.budget * 0.98) > p.seconds * 1.02;
        plan_free(&p);
        free_example(&e);
    }
    assert_true(missed >= 5);
}

/* The plan's own figures agree with the arithmetic: seconds, terms and bytes. */
static void figures_agree(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int i = 0; i < 20; i++) {
        example e;
        plan p;
        place where = {0};
        double bytes, sum = 0;
        make_example(&e, &seed);
        plan_request request = free_request(e.budget);
        assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
        for (int k = 0; k < LAYERS; k++)
            where.neurons[k] = p.layers[k].form == FORM_HOST ? ON_CPU : (int)p.layers[k].neurons;
        where.head = p.head_on_device;
        assert_true(fabs(seconds_of(&e, &where, &bytes) - p.seconds) <= 1e-9 * p.seconds);
        double used = p.device.weights + p.device.cache + p.device.states + p.device.scratch;
        assert_true(fabs(bytes - used) <= 1e-6 * bytes);
        for (int k = 0; k < COST_TERMS; k++)
            sum += p.terms[k];
        assert_true(fabs(sum - p.seconds) <= 1e-9 * p.seconds);
        plan_free(&p);
        free_example(&e);
    }
}

static void more_memory_is_never_slower(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int i = 0; i < 5; i++) {
        example e;
        double before = INFINITY;
        make_example(&e, &seed);
        for (int k = 0; k <= 200; k++) {
            plan p;
            plan_request request = free_request(e.budget * k / 100);
            assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
            double used = p.device.weights + p.device.cache + p.device.states + p.device.scratch;
            assert_true(used <= request.device_bytes);
            assert_true(p.seconds <= before);
            assert_true(p.seconds <= p.cpu_seconds);
            assert_true(p.seconds <= p.layers_seconds * (1 + 1e-12));
            before = p.seconds;
            plan_free(&p);
        }
        free_example(&e);
    }
}

static void what_is_asked_for_is_done(void **state)
{
    (void)state;
    uint64_t seed = 2;
    example e;
    plan p;
    make_example(&e, &seed);
    plan_request request = free_request(1e12);
    request.layers = 2;
    request.neurons = 7;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
    assert_int_equal(p.layers[0].form, FORM_HOST);
    for (int i = 1; i < LAYERS; i++) {
        assert_int_equal(p.layers[i].form, FORM_SPLIT);
        assert_int_equal(p.layers[i].neurons, 7);
    }
    plan_free(&p);
    request.layers = 0;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
    assert_false(p.uses_device);
    plan_free(&p);
    free_example(&e);
}

static void what_cannot_be_had_is_said(void **state)
{
    (void)state;
    uint64_t seed = 3;
    example e;
    plan p;
    hearth_error error = {0};
    make_example(&e, &seed);
    plan_request request = free_request(1000);
    request.layers = 3;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, &error), HEARTH_NO_MEMORY);
    assert_non_null(strstr(error.text, "does not fit into 1.00 kB"));
    assert_null(p.layers);
    request = free_request(0);
    request.host_bytes = 1000;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, &error), HEARTH_OK);
    plan_free(&p);
    request.strict = true;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, &error), HEARTH_NO_MEMORY);
    assert_non_null(strstr(error.text, "main memory has 1.00 kB"));
    e.load.layers[1].lacks = "has five legs";
    request = free_request(1e12);
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, &error), HEARTH_OK);
    assert_int_equal(p.layers[1].form, FORM_HOST);
    plan_free(&p);
    request.layers = 3;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "layer 1 cannot be on the device: has five legs"));
    free_example(&e);
}

/* A layer that reads the keys of another is on its side, and what lies between as well. */
static void shared_keys_stay_together(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 50; i++) {
        example e;
        plan p;
        make_example(&e, &seed);
        e.load.layers[2].keys_back = 1;
        plan_request request = free_request(e.budget);
        assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
        assert_int_equal(p.layers[1].form == FORM_HOST, p.layers[2].form == FORM_HOST);
        plan_free(&p);
        free_example(&e);
    }
}

/* Every layer of a large model is alike: the plan is found, and stays within the budget. */
static void large_models_are_planned(void **state)
{
    (void)state;
    example e = {.machine = made_machine(60e9, 900e9, 15e-6)};
    plan p;
    make_load(&e.load, 80, 5e8);
    for (uint32_t i = 0; i < 80; i++) {
        make_layer(&e.load, i, 28672, 0.18, 3e8, 16384);
        e.load.layers[i].kind = 0;
    }
    assert_int_equal(cost_assume(&e.cost, &e.machine, 0, &e.load, NULL), HEARTH_OK);
    plan_request request = free_request(24e9);
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
    assert_true(p.device.weights + p.device.cache + p.device.scratch <= 24e9);
    assert_true(p.seconds < p.layers_seconds && p.seconds < p.cpu_seconds);
    plan_free(&p);
    free_example(&e);
}

/* Without a device there is no choice. */
static void without_a_device(void **state)
{
    (void)state;
    uint64_t seed = 6;
    example e;
    plan p;
    make_example(&e, &seed);
    cost_free(&e.cost);
    assert_int_equal(cost_assume(&e.cost, &e.machine, -1, &e.load, NULL), HEARTH_OK);
    plan_request request = free_request(1e9);
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_OK);
    assert_false(p.uses_device);
    assert_true(fabs(p.seconds - p.cpu_seconds) <= 1e-12);
    plan_free(&p);
    request.layers = 1;
    assert_int_equal(plan_make(&p, &e.load, &e.cost, &request, NULL), HEARTH_UNSUPPORTED);
    free_example(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_good_as_exhaustive_search), cmocka_unit_test(figures_agree),
        cmocka_unit_test(more_memory_is_never_slower),  cmocka_unit_test(what_is_asked_for_is_done),
        cmocka_unit_test(what_cannot_be_had_is_said),   cmocka_unit_test(shared_keys_stay_together),
        cmocka_unit_test(large_models_are_planned),     cmocka_unit_test(without_a_device),
    };
    return run_group(tests, NULL, NULL);
}
