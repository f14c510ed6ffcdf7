/* engine_recall.c - predictors hold a recall: what a session lets through, as an observer sees it, against the active neurons
 * of the loop in double precision of ffn_build.h. */
#include "../src/engine/placement.h"
#include "../src/engine/recall.h"
#include "ffn_watch.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* checked memory takes its time */
enum { ROUNDS = 30 };
#else
enum { ROUNDS = 150 };
#endif

/* What was let through of the active neurons, by the reference. */
typedef struct tally {
    const built *b;
    size_t active, found, passed;
} tally;

static void count_row(void *user, const hearth_observation *o)
{
    tally *t = user;
    const double *h = t->b->h + o->position * t->b->shape.f;
    for (size_t i = 0; i < t->b->shape.f; i++)
        t->active += h[i] != 0;
    for (size_t i = 0; i < o->neuron_count; i++)
        t->found += h[o->neurons[i]] != 0;
    t->passed += o->neuron_count;
}

static hearth_placement *place(const built *b, float threshold, double recall)
{
    hearth_placement *placement;
    hearth_error error;
    stack_check(hearth_placement_create(&placement, &b->model, HEARTH_MODE_PREDICTED, &error), &error);
    hearth_placement_set_threshold(placement, threshold);
    stack_check(hearth_placement_set_recall(placement, recall, &error), &error);
    return placement;
}

static built *build(bool coarse, uint32_t f)
{
    built_shape shape = {
        .format = FORMAT_F32, .down = FORMAT_F32, .d = 64, .f = f, .rank = 32, .coarse = coarse, .copy = FORMAT_Q4_0};
    built *b = built_new(&shape);
    built_compute(b, HEARTH_MODE_EXACT, false);
    return b;
}

/* Reads the tokens ROUNDS times. logits [BUILT_TOKENS][d]: those of the last time. */
static tally read_often(stack *s, const built *b, float *logits)
{
    tally t = {.b = b};
    hearth_session_observe(s->session, &(hearth_observer){.see = count_row, .user = &t});
    for (int i = 0; i < ROUNDS; i++)
        read_portions(s, logits);
    return t;
}

/* What probes make of it is let through as well: one in RECALL_EVERY of those that the threshold rejects. */
static double with_probes(double recall)
{
    return recall + (1 - recall) / RECALL_EVERY;
}

/* From thresholds that let everything through, and nothing. What a threshold is off at first is made good by as much on the
 * other side, up to where it moves for good: a few of its units, divided by GAIN and the rows. */
static void recall_is_held(void **state)
{
    (void)state;
    static const float begins[2][2] = {{-3, 3}, {4, -4}};
    static const double targets[] = {0.9, 0.98};
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    for (unsigned k = 0; k < 8; k++) {
        bool coarse = k & 1;
        double target = targets[k >> 1 & 1], rows = ROUNDS * BUILT_TOKENS;
        built *b = build(coarse, 515);
        float *logits = malloc((size_t)BUILT_TOKENS * b->shape.d * sizeof *logits);
        stack s;
        open_network(&s, runtime, b, place(b, begins[coarse][k >> 2], target), true);
        tally t = read_often(&s, b, logits);
        hearth_recall r;
        assert_int_equal(hearth_session_recall(s.session, 0, &r, NULL), HEARTH_OK);
        double seen = (double)t.found / (double)t.active, said = (double)r.found / (double)(r.found + r.missed);
        print_message("%s, from %g, target %g: recall %.4f, by probes %.4f, %.2f of the neurons, threshold %g\n",
                      coarse ? "coarse" : "low-rank", (double)begins[coarse][k >> 2], target, seen, said,
                      (double)t.passed / (rows * b->shape.f), r.threshold);
        assert_true(r.target == target && r.rows == (uint64_t)rows);
        assert_true(fabs(seen - with_probes(target)) <= 60 / rows);
        assert_true(fabs(said - target) <= 60 / rows);
        close_network(&s);
        free(logits);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* Sessions begin anew: the same feeds give the same bytes, with any number of threads. */
static void the_same_feeds_give_the_same(void **state)
{
    (void)state;
    built *b = build(false, 128);
    size_t n = (size_t)BUILT_TOKENS * b->shape.d;
    float *logits[3];
    double thresholds[3];
    for (unsigned i = 0; i < 3; i++) {
        stack s;
        hearth_runtime *runtime;
        hearth_recall r;
        assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 1 + i % 2}, NULL),
                         HEARTH_OK);
        open_network(&s, runtime, b, place(b, 0, 0.9), true);
        logits[i] = malloc(n * sizeof(float));
        read_often(&s, b, logits[i]);
        assert_int_equal(hearth_session_recall(s.session, 0, &r, NULL), HEARTH_OK);
        thresholds[i] = r.threshold;
        close_network(&s);
        hearth_runtime_destroy(runtime);
        assert_true(thresholds[i] != 0 && thresholds[i] == thresholds[0]);
        assert_memory_equal(logits[i], logits[0], n * sizeof(float));
    }
    for (unsigned i = 0; i < 3; i++)
        free(logits[i]);
    built_free(b);
}

/* It is part of the placement, and of what an engine promises. */
static void placements_say_it(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_placement *read;
    hearth_error error;
    char *json;
    stack s;
    built *b = build(true, 37);
    hearth_placement *placement = place(b, 1e3F, 0.75);
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 1}, NULL), HEARTH_OK);
    stack_check(hearth_placement_print(placement, &json, &error), &error);
    assert_non_null(strstr(json, "\"recall\":0.75"));
    stack_check(hearth_placement_parse(&read, &b->model, json, strlen(json), &error), &error);
    open_network(&s, runtime, b, read, true);
    assert_int_equal(hearth_engine_guarantee(s.engine), HEARTH_GUARANTEE_LOSSY);
    hearth_recall r = {0};
    assert_int_equal(hearth_session_recall(s.session, 0, &r, NULL), HEARTH_OK);
    assert_true(r.target == 0.75 && r.rows == 0 && r.threshold == 1e3);
    assert_int_equal(hearth_session_recall(s.session, 1, &r, &error), HEARTH_INVALID);
    close_network(&s);
    hearth_placement_destroy(placement);
    hearth_free(json);
    hearth_runtime_destroy(runtime);
    built_free(b);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const double values[] = {0, 1, -1, 2, (double)NAN, (double)INFINITY};
    built *b = build(false, 37);
    hearth_placement *p = place(b, 0, 0.5), *exact, *read;
    hearth_error error;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_int_equal(hearth_placement_set_recall(p, values[i], &error), HEARTH_INVALID);
        assert_true(p->recall == 0.5);
    }
    stack_check(hearth_placement_create(&exact, &b->model, HEARTH_MODE_EXACT, &error), &error);
    assert_int_equal(hearth_placement_set_recall(exact, 0.9, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, "placement: recall 0.9: no layer has a predictor in use");
    hearth_placement_destroy(exact);
    char *json, *number;
    stack_check(hearth_placement_print(p, &json, &error), &error);
    number = strstr(json, "0.5");
    number[0] = '7';
    assert_int_equal(hearth_placement_parse(&read, &b->model, json, strlen(json), &error), HEARTH_INVALID);
    hearth_free(json);
    /* a device has no probes; an engine says so where it was given neurons later */
    stack_check(hearth_placement_use_device(p, &b->model, 1, 20, &error), &error);
    assert_int_equal(hearth_placement_set_recall(p, 0.9, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "layer 0 has neurons on device0"));
    hearth_runtime *runtime;
    hearth_engine *engine;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 1, .device = "host"}, NULL),
                     HEARTH_OK);
    assert_int_equal(
        hearth_engine_create(&engine, runtime, &b->model, &(hearth_engine_options){.placement = p}, &error),
        HEARTH_UNSUPPORTED);
    hearth_runtime_destroy(runtime);
    hearth_placement_destroy(p);
    built_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall_is_held),
        cmocka_unit_test(the_same_feeds_give_the_same),
        cmocka_unit_test(placements_say_it),
        cmocka_unit_test(nonsense_is_refused),
    };
    return run_group(tests, NULL, NULL);
}
