/* test_plant.c - the mathematics of planted sparsity against libm and against formulas that it does not use. */
#include "plant.h"

#include "../src/base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double got, double expected, double bound)
{
    if (!(fabs(got - expected) <= bound))
        fail_msg("got %.17g, expected %.17g within %g", got, expected, bound);
}

/* The series are summed in double precision: a few units in the last place. */
static void test_elementary(void **state)
{
    (void)state;
    for (int i = -1000; i <= 1000; i++) {
        double x = 0.0397 * i;
        assert_near(plant_exp(x) / exp(x), 1, 2e-15);
        assert_near(plant_log(exp(x)), log(exp(x)), 1e-14);
    }
    assert_near(plant_log(1e-300), log(1e-300), 2e-13);
}

static void test_normal(void **state)
{
    (void)state;
    for (int i = -200; i <= 200; i++) {
        double x = 0.0399 * i;
        assert_near(normal_tail(x), 0.5 * erfc(x / sqrt(2)), 2e-15);
        assert_near(normal_density(x), exp(-0.5 * x * x) / sqrt(2 * acos(-1.0)), 1e-15);
    }
    for (int i = 0; i < 1000; i++) {
        double p = (i + 0.5) / 1000;
        assert_near(0.5 * erfc(normal_quantile(p) / sqrt(2)), p, 1e-14);
    }
    assert_near(normal_tail(50) + normal_tail(-50), 1, 0);
}

/* Numbers of mean 0 and variance 1, each as often as its negative, whose fourth moment is that of a normal variable
 * but for the tails beyond the last quantile. */
static void test_table(void **state)
{
    (void)state;
    static normal_table table;
    normal_table_fill(&table);
    double square = 0, fourth = 0;
    for (int i = 0; i < COUNTER_NORMALS; i++) {
        double x = (double)table.value[i];
        assert_true(x == -(double)table.value[COUNTER_NORMALS - 1 - i]);
        assert_true(i == 0 || x > (double)table.value[i - 1]);
        square += x * x / COUNTER_NORMALS;
        fourth += x * x * x * x / COUNTER_NORMALS;
    }
    assert_near(square, 1, 1e-6);
    assert_near(fourth, 3, 0.05);
    float values[4096], again[4];
    counter_normals(&table, 7, 0, 4096, 1, values);
    counter_normals(&table, 7, 1000, 4, 1, again);
    double mean = 0;
    for (int i = 0; i < 4096; i++)
        mean += (double)values[i] / 4096;
    assert_near(mean, 0, 5.0 / 64); /* five standard errors */
    for (int i = 0; i < 4; i++)
        assert_true(again[i] == values[1000 + i]);
}

/* P(S > 0 | Z > 0) = 1/2 + asin(rho) / pi (Sheppard 1898); without correlation S knows nothing of Z; and
 * P(S >= tau | Z > t) P(Z > t) is symmetric in the two. Simpson's rule with steps of 1/6: 1e-4. */
static void test_recall(void **state)
{
    (void)state;
    for (int i = 0; i < 19; i++)
        assert_near(plant_recall(0.05 * i, 0, 0), 0.5 + asin(0.05 * i) / acos(-1.0), 1e-4);
    for (int i = -8; i < 12; i++) {
        double tau = 0.25 * i;
        assert_near(plant_recall(0, 1, tau), normal_tail(tau), 1e-12);
        assert_near(plant_recall(0.8, 1, tau) * normal_tail(1), plant_recall(0.8, tau, 1) * normal_tail(tau), 1e-4);
    }
}

/* Mean of max(0, Z - t)^4 by Simpson's rule with steps of 1/32: good to 1e-8. */
static double fourth_power_above(double t)
{
    enum { STEPS = 320 };
    double sum = 0, h = 10.0 / STEPS;
    for (int i = 0; i <= STEPS; i++)
        sum += (i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2) * pow(i * h, 4) * normal_density(t + i * h);
    return sum * h / 3;
}

static void test_curve(void **state)
{
    (void)state;
    static const plant_wish wishes[] = {{5632, 0.12, 0.26, 0.8, 0.95, 1.3},
                                        {1000, 0.03, 0.2, 0.9, 0.98, 1.5},
                                        {3072, 0.5, 0.26, 0, 0.9, 1.1},
                                        {512, 0.3, 0.5, 0.8, 0.99, 1.3}};
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        const plant_wish *w = &wishes[i];
        plant_curve c;
        hearth_error error = {0};
        assert_int_equal(plant_curve_make(&c, w, &error), HEARTH_OK);
        double fires = 0, hot = 0, through = 0, found = 0, square = 0, fourth = 0;
        for (uint32_t n = 0; n < w->neurons; n++) {
            double p = 0.5 * erfc(c.t[n] / sqrt(2));
            fires += p;
            hot += n < (uint32_t)(w->hot * w->neurons) ? p : 0;
            through += 0.5 * erfc(c.tau[n] / sqrt(2));
            found += p * plant_recall(c.rho, c.t[n], c.tau[n]);
            square += p * (1 + c.t[n] * c.t[n]) - c.t[n] * normal_density(c.t[n]);
            fourth += fourth_power_above(c.t[n]);
        }
        assert_near(fires / w->neurons, w->density, 1e-9);
        assert_near(hot / fires, w->share > w->hot ? w->share : w->hot, 1e-3); /* whole neurons */
        assert_near(through / fires, w->over, 1e-3);
        assert_near(found / fires, w->recall, 1e-3); /* thresholds are interpolated */
        assert_near(c.square, square, 1e-9 * square);
        assert_near(c.fourth, fourth, 1e-6 * fourth);
        plant_curve_free(&c);
    }
}

static void refuse(plant_wish wish, const char *text)
{
    plant_curve c;
    hearth_error error = {0};
    assert_int_equal(plant_curve_make(&c, &wish, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, text));
    assert_null(c.t);
}

static void test_impossible(void **state)
{
    (void)state;
    refuse((plant_wish){1000, 0.6, 0.26, 0.8, 0.95, 1.3}, "cannot make 0.8 of the activations, at most 0.4");
    refuse((plant_wish){1000, 0.12, 0.26, 0.8, 0.95, 0.6}, "for each that fires, not 0.6");
    for (long n = 0; n < 3; n++) {
        long before = mem_live();
        plant_curve c;
        hearth_error error = {0};
        mem_fail_at(n);
        assert_int_equal(plant_curve_make(&c, &(plant_wish){64, 0.12, 0.26, 0.8, 0.95, 1.3}, &error), HEARTH_NO_MEMORY);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementary), cmocka_unit_test(test_normal), cmocka_unit_test(test_table),
        cmocka_unit_test(test_recall),     cmocka_unit_test(test_curve),  cmocka_unit_test(test_impossible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
