/* eval_overlap.c - overlap and exchange of made-up spans, whose figures are known. */
#include "../src/eval/overlap.h"

#include "../src/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define BOUND 1e-9

static void see(overlap *o, const char *side, const char *what, uint32_t layer, double begin, double end)
{
    overlap_see(o, &(hearth_span){side, what, layer, begin, end});
}

/* A split layer whose CPU works [c0, c1], whose device works [d0, d1] and goes on at `join`. */
static void layer(overlap *o, uint32_t i, double c0, double c1, double d0, double d1, double join)
{
    see(o, "cpu", "attention", i, c0 - 5, c0 - 4);
    see(o, "cpu", "neurons", i, c0, c1);
    see(o, "cpu", "wait", i, c1, join);
    see(o, "device0", "attention", i, d0 - 1, d0);
    see(o, "device0", "neurons", i, d0, d1);
    see(o, "device0", "join", i, join, join + 1);
}

static overlap_result conclude(const overlap *o)
{
    overlap_result r;
    hearth_error error;
    if (overlap_conclude(o, &r, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return r;
}

static void one_layer(void **state)
{
    (void)state;
    static const struct {
        double c0, c1, d0, d1, join;           /* when                                       */
        double overlap, exchange, cpu, device; /* what follows                               */
    } cases[] = {
        {10, 20, 10, 20, 20, 1, 0, 10, 10},            /* exactly at once                             */
        {11, 21, 10, 20, 22, 0.9, 2, 10, 10},          /* one late at either end                      */
        {12, 15, 10, 20, 20.5, 1, 2.5, 3, 10},         /* the CPU's lies within the device's          */
        {10.5, 30, 10, 14, 31, 3.5 / 4, 1.5, 19.5, 4}, /* the device's is the shorter                 */
        {20, 30, 10, 20, 30, 0, 10, 10, 10},           /* one behind the other                        */
        {25, 30, 10, 20, 31, 0, 16, 5, 10},            /* with a gap: not less than nothing in common */
        {10, 10, 10, 20, 20, 1, 0, 0, 10},             /* the CPU had nothing to do                   */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        overlap o;
        assert_int_equal(overlap_open(&o, 1, 8, NULL), HEARTH_OK);
        layer(&o, 0, cases[i].c0, cases[i].c1, cases[i].d0, cases[i].d1, cases[i].join);
        overlap_result r = conclude(&o);
        assert_int_equal(r.samples, 1);
        assert_float_equal(r.overlap, cases[i].overlap, BOUND);
        assert_float_equal(r.overlap_least, cases[i].overlap, BOUND);
        assert_float_equal(r.exchange_seconds, cases[i].exchange, BOUND);
        assert_float_equal(r.cpu_seconds, cases[i].cpu, BOUND);
        assert_float_equal(r.device_seconds, cases[i].device, BOUND);
        overlap_close(&o);
    }
    assert_int_equal(mem_live(), 0);
}

/* Layers that are not split, half of a layer, layers that do not exist: no samples. */
static void not_split(void **state)
{
    (void)state;
    overlap o;
    assert_int_equal(overlap_open(&o, 3, 8, NULL), HEARTH_OK);
    assert_int_equal(conclude(&o).samples, 0);
    for (int step = 0; step < 3; step++) {
        see(&o, "cpu", "attention", 0, 1, 2);
        see(&o, "cpu", "neurons", 0, 2, 3);
        see(&o, "device0", "attention", 1, 1, 2);
        see(&o, "device0", "neurons", 1, 2, 3);
        see(&o, "device0", "join", 2, 2, 3);
        layer(&o, 3, 1, 2, 1, 2, 2);
    }
    overlap_result r = conclude(&o);
    assert_int_equal(r.samples, 0);
    assert_float_equal(r.overlap, 0, 0);
    overlap_close(&o);
    assert_int_equal(mem_live(), 0);
}

/* A hundred steps of two layers, the spans of a step mixed: overlaps 0.01, 0.02 ... 1 for one, 1 for the other. */
static void many_steps(void **state)
{
    (void)state;
    overlap o;
    assert_int_equal(overlap_open(&o, 2, 150, NULL), HEARTH_OK);
    for (int step = 100; step >= 1; step--) {
        double begin = 1000.0 * step, late = 1 - step / 100.0;
        see(&o, "device0", "join", 1, begin + 3, begin + 4);
        see(&o, "device0", "neurons", 0, begin, begin + 1);
        see(&o, "cpu", "neurons", 1, begin, begin + 2);
        see(&o, "cpu", "neurons", 0, begin + late, begin + late + 1);
        if (step > 50)
            see(&o, "device0", "neurons", 1, begin, begin + 2);
        see(&o, "device0", "join", 0, begin + late + 1, begin + late + 2);
        if (step == 51)
            assert_int_equal(o.count, 100);
    }
    overlap_result r = conclude(&o);
    assert_int_equal(r.samples, 150); /* 100 of layer 0, 50 of layer 1 */
    /* Sorted: 0.01, 0.02 ... 0.99, and 1 fifty-one times. */
    assert_float_equal(r.overlap, 0.755, BOUND);
    assert_float_equal(r.overlap_least, 0.08, BOUND); /* 7 of 150 are less */
    assert_float_equal(r.cpu_seconds, 1, BOUND);
    /* Full: what comes now is not kept. */
    layer(&o, 0, 0, 1, 5, 6, 7);
    assert_int_equal(conclude(&o).samples, 150);
    overlap_clear(&o);
    assert_int_equal(conclude(&o).samples, 0);
    layer(&o, 0, 0, 1, 5, 6, 7);
    assert_int_equal(conclude(&o).samples, 1);
    overlap_close(&o);
    assert_int_equal(mem_live(), 0);
}

static void no_memory(void **state)
{
    (void)state;
    overlap o;
    for (long n = 0; n < 2; n++) {
        mem_fail_at(n);
        assert_int_equal(overlap_open(&o, 1, 1, NULL), HEARTH_NO_MEMORY);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), 0);
    }
    assert_int_equal(overlap_open(&o, 1, 1, NULL), HEARTH_OK);
    layer(&o, 0, 0, 1, 0, 1, 1);
    overlap_result r;
    mem_fail_at(0);
    assert_int_equal(overlap_conclude(&o, &r, NULL), HEARTH_NO_MEMORY);
    mem_fail_at(-1);
    overlap_close(&o);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_layer),
        cmocka_unit_test(not_split),
        cmocka_unit_test(many_steps),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
