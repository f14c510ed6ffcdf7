/* engine_selectors.c - what decides which neurons are worked on, beyond sign and PowerInfer's predictors: predictors that
 * read the network's own input, coarse copies, magnitudes, and neurons that are left out; against the loop in double
 * precision of ffn_build.h, and what an observer sees of the first matrix. */
#include "../src/base/memory.h"
#include "../src/engine/coarse.h"
#include "../src/engine/placement.h"
#include "ffn_watch.h"

#include "../src/model/tune.h"

/* ------------------------------------------------------------------ one network */

static hearth_placement *place(const built *b, hearth_mode mode)
{
    hearth_error error;
    hearth_placement *placement;
    stack_check(hearth_placement_create(&placement, &b->model, mode, &error), &error);
    hearth_placement_set_threshold(placement, mode == HEARTH_MODE_PRUNED ? b->cut : b->threshold);
    return placement;
}

static double distance(const built *b, const float *logits)
{
    size_t n = (size_t)BUILT_TOKENS * b->shape.d;
    float *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        want[i] = (float)b->out[i];
    double d = relative_l2(logits, want, n);
    free(want);
    return d;
}

/* The shape in a mode: logits, counts, and what an observer sees, at one and at two threads. */
static void check_shape(hearth_runtime *const runtimes[2], const built_shape *shape, hearth_mode mode, bool plain)
{
    built *b = built_new(shape);
    float *logits[2];
    built_compute(b, mode, !plain);
    for (unsigned i = 0; i < 2; i++) {
        stack s;
        logits[i] = malloc((size_t)BUILT_TOKENS * shape->d * sizeof(float));
        open_network(&s, runtimes[i], b, place(b, mode), plain);
        watch w = watch_begin(b, mode);
        if (plain)
            hearth_session_observe(s.session, &(hearth_observer){.see = watch_row, .user = &w});
        read_portions(&s, logits[i]);
        if (plain)
            check_counts(&s, b, mode);
        close_network(&s);
    }
    assert_memory_equal(logits[0], logits[1], (size_t)BUILT_TOKENS * shape->d * sizeof(float));
    double d = distance(b, logits[0]);
    if (!(d <= (plain ? 2e-6 : 5e-4)))
        fail_msg("%s: relative distance %.2e", describe(shape, mode, plain), d);
    free(logits[0]);
    free(logits[1]);
    built_free(b);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* checked memory takes its time */
enum { NEURONS_MOST = 64, EVERY = 5 };
#else
enum { NEURONS_MOST = 128, EVERY = 1 };
#endif

/* Every form, layout and a few formats, with what `variant` changes of the shape. */
static void check_shapes(hearth_mode mode, void (*variant)(built_shape *o))
{
    size_t count = 0, seen = 0;
    built_shape shape;
    hearth_runtime *runtimes[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(hearth_runtime_create(&runtimes[i], &(hearth_runtime_options){.threads = 1 + i}, NULL), 0);
    for (size_t i = 0; next_shape(&shape, &i);) {
        if (shape.f > NEURONS_MOST || shape.format == FORMAT_Q4_K || seen++ % EVERY != 0)
            continue;
        variant(&shape);
        bool rounds = number_is_block(shape.format) || (shape.coarse && number_is_block(shape.copy));
        check_shape(runtimes, &shape, mode, true);
        if (rounds)
            check_shape(runtimes, &shape, mode, false);
        count += 1 + rounds;
    }
    hearth_runtime_destroy(runtimes[0]);
    hearth_runtime_destroy(runtimes[1]);
    print_message("%zu networks\n", count);
}

/* ------------------------------------------------------------------ the selectors */

static void reads_normed(built_shape *o)
{
    o->normed = true;
}

static void predictors_may_read_the_input(void **state)
{
    (void)state;
    check_shapes(HEARTH_MODE_PREDICTED, reads_normed);
}

/* The copy's format goes by the width: rows must be whole blocks. */
static void is_coarse(built_shape *o)
{
    static const number_format of_64[] = {FORMAT_Q4_0, FORMAT_LEVELS2, FORMAT_SIGNS1};
    o->coarse = true;
    o->copy = o->d % 64 == 0 ? of_64[(o->f + o->biases) % 3] : o->d % 32 == 0 ? FORMAT_Q4_0 : FORMAT_BF16;
}

static void coarse_copies_select(void **state)
{
    (void)state;
    check_shapes(HEARTH_MODE_PREDICTED, is_coarse);
}

/* By Cauchy and Schwarz no product is off by more than sqrt(d) deviations, and with that margin the answer is that of
 * exact, to the byte. Inputs rounded to 8 bits are at most 2.3 % longer: 32 errors of 1 / 254 of a block's largest. With
 * a margin far below zero neurons that fire are lost. */
static void a_wide_margin_is_exact(void **state)
{
    (void)state;
    static const struct {
        number_format format, copy;
        bool plain;
    } cases[] = {{FORMAT_F16, FORMAT_Q4_0, true},    {FORMAT_F16, FORMAT_BF16, false},
                 {FORMAT_Q8_0, FORMAT_Q4_0, true},   {FORMAT_Q8_0, FORMAT_Q4_0, false},
                 {FORMAT_F16, FORMAT_LEVELS2, true}, {FORMAT_Q4_0, FORMAT_LEVELS2, false},
                 {FORMAT_F16, FORMAT_SIGNS1, true},  {FORMAT_Q4_0, FORMAT_SIGNS1, false}};
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        built_shape shape = {.format = cases[k].format,
                             .down = FORMAT_F16,
                             .d = 64,
                             .f = 128,
                             .coarse = true,
                             .copy = cases[k].copy,
                             .biases = k % 2,
                             .ordered = true};
        built *b = built_new(&shape);
        const float margins[] = {0, 1.025f * sqrtf((float)shape.d), -1e6f};
        size_t n = (size_t)BUILT_TOKENS * shape.d;
        float *logits[3];
        for (int i = 0; i < 3; i++) {
            stack s;
            b->threshold = margins[i];
            logits[i] = malloc(n * sizeof(float));
            open_network(&s, runtime, b, place(b, i ? HEARTH_MODE_PREDICTED : HEARTH_MODE_EXACT), cases[k].plain);
            assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), i == 0   ? "bitwise"
                                                                                          : i == 1 ? "margin"
                                                                                                   : "lossy");
            assert_string_equal(hearth_mode_name(hearth_engine_mode(s.engine)), i ? "predicted" : "exact");
            read_portions(&s, logits[i]);
            close_network(&s);
        }
        assert_memory_equal(logits[0], logits[1], n * sizeof(float));
        assert_memory_not_equal(logits[0], logits[2], n * sizeof(float));
        for (int i = 0; i < 3; i++)
            free(logits[i]);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* The claim "margin" is for what was measured: the margin that the predictor was tuned with, or a larger one, and never
 * one that skips neurons which their copy puts above zero. */
static void a_moved_margin_is_lossy(void **state)
{
    (void)state;
    static const struct {
        float tuned, used;
        const char *guarantee;
    } cases[] = {{2, 2, "margin"},     {2, 3, "margin"}, {2, 1.999f, "lossy"},  {2, 0, "lossy"},
                 {2, -1000, "lossy"},  {0, 0, "margin"}, {0, -0.001f, "lossy"}, {-1, -1, "lossy"},
                 {-1, -0.5f, "lossy"}, {-1, 0, "margin"}};
    built_shape shape = {
        .format = FORMAT_F16, .down = FORMAT_F16, .d = 64, .f = 5, .coarse = true, .copy = FORMAT_Q4_0};
    hearth_runtime *runtime;
    built *b = built_new(&shape);
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stack s;
        b->learnt_layer.predictor.threshold = cases[i].tuned;
        b->threshold = cases[i].used;
        open_network(&s, runtime, b, place(b, HEARTH_MODE_PREDICTED), true);
        assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), cases[i].guarantee);
        close_network(&s);
    }
    hearth_runtime_destroy(runtime);
    built_free(b);
}

/* The deviation that coarse.h speaks of is that of the error over directions of the input. */
static void check_spread(number_format format)
{
    enum { D = 256, F = 8, INPUTS = 4000 };
    uint32_t seed = 5;
    built_matrix first = built_random_matrix(FORMAT_F32, F, D, &seed);
    pool *threads;
    coarse_copy copy;
    assert_int_equal(pool_create(&threads, 2, NULL), HEARTH_OK);
    assert_int_equal(coarse_create(&copy, threads, &first.stored, format, "test", NULL), HEARTH_OK);
    double squares[F] = {0};
    float row[D], x[D];
    for (size_t k = 0; k < INPUTS; k++) {
        double size = 0;
        for (size_t c = 0; c < D; c++) {
            x[c] = built_random(&seed) + built_random(&seed) + built_random(&seed);
            size += (double)x[c] * (double)x[c];
        }
        for (size_t i = 0; i < F; i++) {
            double error = 0;
            number_formats[format].decode(matrix_row(&copy.rows, i), row, D);
            for (size_t c = 0; c < D; c++)
                error += (first.values[i * D + c] - (double)row[c]) * (double)x[c];
            squares[i] += error * error / (size / D);
        }
    }
    for (size_t i = 0; i < F; i++) {
        double deviation = sqrt(squares[i] / INPUTS);
        assert_true(fabs(deviation / (double)copy.spread[i] - 1) < 0.05); /* 1 / sqrt(2 INPUTS) is 0.011 */
    }
    coarse_free(&copy);
    pool_destroy(threads);
    built_free_matrix(&first);
}

static void spread_is_the_deviation(void **state)
{
    (void)state;
    static const number_format copies[] = {FORMAT_Q4_0, FORMAT_LEVELS2, FORMAT_SIGNS1};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        check_spread(copies[i]);
}

static void is_as_ever(built_shape *o)
{
    (void)o;
}

static void is_silu(built_shape *o)
{
    o->silu = true;
    o->gating = o->gating == FFN_GATED_BOTH ? FFN_GATED : o->gating;
}

static void small_activations_are_pruned(void **state)
{
    (void)state;
    check_shapes(HEARTH_MODE_PRUNED, is_as_ever);
    check_shapes(HEARTH_MODE_PRUNED, is_silu);
}

/* ------------------------------------------------------------------ neurons that are left out */

/* Leaves out every neuron whose number is a multiple of three. */
static hearth_placement *leave_out(const built *b, const char *selector)
{
    char json[16384], *at = json, *end = json + sizeof json;
    at += snprintf(at, (size_t)(end - at),
                   "{\"sides\": [\"cpu\"], \"kv\": \"cpu\", \"embedding\": \"cpu\", \"head\": \"cpu\", \"layers\": "
                   "[{\"form\": \"host\", \"selector\": \"%s\", \"assignments\": [",
                   selector);
    for (int part = 0; part < 2; part++) {
        at += snprintf(at, (size_t)(end - at), "%s{\"side\": \"%s\", \"neurons\": [", part ? ", " : "",
                       part ? "nobody" : "cpu");
        for (uint32_t n = 0, listed = 0; n < b->shape.f; n++)
            if ((n % 3 == 0) == part)
                at += snprintf(at, (size_t)(end - at), "%s[%u, %u]", listed++ ? ", " : "", n, n + 1);
        at += snprintf(at, (size_t)(end - at), "]}");
    }
    at += snprintf(at, (size_t)(end - at), "]}]}");
    hearth_error error;
    hearth_placement *placement;
    stack_check(hearth_placement_parse(&placement, &b->model, json, (size_t)(at - json), &error), &error);
    return placement;
}

static void silence_left_out(built *b)
{
    for (uint32_t i = 0; i < b->shape.f; i++) /* rows of down_t that add nothing */
        for (uint32_t c = 0; b->order[i] % 3 == 0 && c < b->shape.d; c++)
            b->down_t.values[(size_t)i * b->shape.d + c] = 0;
}

static void neurons_can_be_left_out(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    static const char *const of_mode[] = {[HEARTH_MODE_DENSE] = "all", [HEARTH_MODE_EXACT] = "sign"};
    for (int k = 0; k < 12; k++) {
        built_shape shape = {.format = FORMAT_F16,
                             .down = FORMAT_F16,
                             .d = 48,
                             .f = 128,
                             .rank = 8,
                             .gating = (ffn_gating)(k % 3),
                             .ordered = k / 3 % 2,
                             .stock = k / 6 && k / 3 % 2 == 0};
        built *b = built_new(&shape);
        silence_left_out(b);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_EXACT; mode++) {
            stack s;
            hearth_counts counts;
            float *logits = malloc((size_t)BUILT_TOKENS * shape.d * sizeof *logits);
            built_compute(b, HEARTH_MODE_EXACT, false);
            open_network(&s, runtime, b, leave_out(b, of_mode[mode]), true);
            assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), "lossy");
            read_portions(&s, logits);
            assert_int_equal(hearth_session_counts(s.session, 0, &counts, NULL), HEARTH_OK);
            assert_int_equal(counts.computed, BUILT_TOKENS * (128 - 43)); /* 0, 3 .. 126 are 43 */
            if (!(distance(b, logits) <= 2e-6))
                fail_msg("%s: relative distance %.2e", describe(&shape, (hearth_mode)mode, true), distance(b, logits));
            close_network(&s);
            free(logits);
        }
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* Two neurons of five are the hottest 0.4; the rest belongs to nobody. */
static void hot_and_cold_come_from_the_counts(void **state)
{
    (void)state;
    built_shape shape = {.format = FORMAT_F32, .down = FORMAT_F32, .d = 42, .f = 5, .rank = 5};
    built *b = built_new(&shape);
    uint32_t order[] = {3, 1, 4, 0, 2};
    tune_layer layer = {.order = order};
    tune learnt = {.layer_count = 1, .layers = &layer};
    hearth_error error;
    hearth_placement *placement = place(b, HEARTH_MODE_EXACT);
    assert_int_equal(hearth_placement_keep(placement, &b->model, 0.4, true, &error), HEARTH_UNSUPPORTED);
    b->model.tune = &learnt;
    static const struct {
        bool hottest;
        const char *cpu, *nobody;
    } cases[] = {{true, "[[1,2],[3,4]]", "[[0,1],[2,3],[4,5]]"}, {false, "[[0,1],[2,3]]", "[[1,2],[3,5]]"}};
    for (size_t i = 0; i < 2; i++) {
        char *json, want[300];
        stack_check(hearth_placement_keep(placement, &b->model, 0.4, cases[i].hottest, &error), &error);
        stack_check(hearth_placement_print(placement, &json, &error), &error);
        snprintf(want, sizeof want,
                 "\"assignments\":[{\"side\":\"cpu\",\"neurons\":%s},{\"side\":\"nobody\",\"neurons\":%s}]",
                 cases[i].cpu, cases[i].nobody);
        if (!strstr(json, want))
            fail_msg("%s lacks %s", json, want);
        hearth_free(json);
    }
    assert_int_equal(hearth_placement_keep(placement, &b->model, 0, true, &error), HEARTH_INVALID);
    assert_int_equal(hearth_placement_keep(placement, &b->model, NAN, true, &error), HEARTH_INVALID);
    /* What is left out cannot be given to a device, nor left out of what a device has. */
    assert_int_equal(hearth_placement_use_device(placement, &b->model, 1, 5, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "left out"));
    stack_check(hearth_placement_keep(placement, &b->model, 1, true, &error), &error); /* all of them again */
    assert_int_equal(layer_neurons(&placement->layers[0], PLACEMENT_CPU), 5);
    stack_check(hearth_placement_use_device(placement, &b->model, 1, 5, &error), &error);
    assert_int_equal(hearth_placement_keep(placement, &b->model, 0.4, true, &error), HEARTH_INVALID);
    hearth_placement_destroy(placement);
    b->model.tune = NULL;
    built_free(b);
}

/* Thresholds at a share between two levels lie on the line between theirs. */
static void pruning_follows_the_levels(void **state)
{
    (void)state;
    built_shape shape = {.format = FORMAT_F32, .down = FORMAT_F32, .d = 42, .f = 5, .rank = 5, .silu = true};
    built *b = built_new(&shape);
    static const float levels[] = {0.25f, 0.5f, 0.75f}, thresholds[] = {0.125f, 0.5f, 1.0f};
    static const struct {
        double share;
        const char *threshold;
    } cases[] = {{0, "0.125"}, {0.25, "0.125"}, {0.375, "0.3125"}, {0.5, "0.5"}, {0.625, "0.75"}, {1, "1.0"}};
    tune_layer layer = {.prune = thresholds};
    tune learnt = {.layer_count = 1, .layers = &layer, .level_count = 3, .levels = levels};
    hearth_error error;
    hearth_placement *placement = place(b, HEARTH_MODE_PRUNED);
    assert_int_equal(hearth_placement_prune(placement, &b->model, 0.5, &error), HEARTH_UNSUPPORTED);
    b->model.tune = &learnt;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json, want[64];
        stack_check(hearth_placement_prune(placement, &b->model, cases[i].share, &error), &error);
        stack_check(hearth_placement_print(placement, &json, &error), &error);
        snprintf(want, sizeof want, "\"threshold\":%s}", cases[i].threshold);
        if (!strstr(json, want))
            fail_msg("%s lacks %s", json, want);
        hearth_free(json);
    }
    assert_int_equal(hearth_placement_prune(placement, &b->model, 1.5, &error), HEARTH_INVALID);
    hearth_placement_destroy(placement);
    stack_check(hearth_placement_create(&placement, &b->model, HEARTH_MODE_PRUNED, &error), &error);
    assert_true(placement->layers[0].threshold == 0); /* nobody has said how much yet */
    hearth_placement_destroy(placement);
    b->model.tune = NULL;
    built_free(b);
}

/* The level is chosen by its measured loss: the highest that costs no more than is allowed and leaves out more than zeros,
 * whatever lower ones cost. Where there is none, or nothing was measured, the text says what the gentlest costs. */
static void pruning_is_chosen_by_its_loss(void **state)
{
    (void)state;
    built_shape shape = {.format = FORMAT_F32, .down = FORMAT_F32, .d = 42, .f = 5, .rank = 5, .silu = true};
    built *b = built_new(&shape);
    static const float levels[] = {0, 0.25f, 0.5f, 0.75f}, thresholds[] = {0, 0.125f, 0.5f, 1.0f};
    static const float rising[] = {0, 0.005f, 0.125f, 0.5f}, dented[] = {0, 0.25f, 0.0078125f, 0.5f},
                       steep[] = {0, 0.25f, 0.5f, 1};
    static const struct {
        const float *losses;
        double most;
        int level; /* -1: refused */
        const char *expected;
    } cases[] = {
        {rising, 0.01, 1, NULL},
        {rising, 0.125, 2, NULL},
        {rising, 0.1249, 1, NULL},
        {rising, 9, 3, NULL},
        {rising, 0, -1, "no level of its tune file costs 0 nats (KL) at most: 25.0 % of the activations cost 0.005"},
        {dented, 0.01, 2, NULL},
        {steep, 0.01, -1, "costs 0.01 nats (KL) at most: 25.0 % of the activations cost 0.25"},
        {NULL, 0.01, -1, "does not say what its levels cost"}};
    tune_layer layer = {.prune = thresholds};
    tune learnt = {.layer_count = 1, .layers = &layer, .level_count = 4, .levels = levels};
    hearth_error error;
    hearth_placement *placement = place(b, HEARTH_MODE_PRUNED);
    assert_int_equal(hearth_placement_prune_within(placement, &b->model, 0.01, &error), HEARTH_UNSUPPORTED);
    b->model.tune = &learnt;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        learnt.losses = cases[i].losses;
        hearth_placement_set_threshold(placement, 7);
        hearth_status status = hearth_placement_prune_within(placement, &b->model, cases[i].most, &error);
        assert_int_equal(status, cases[i].level < 0 ? HEARTH_UNSUPPORTED : HEARTH_OK);
        if (status != HEARTH_OK) {
            assert_non_null(strstr(error.text, cases[i].expected));
            assert_true(placement->layers[0].threshold == 7 && !placement->pruning.known);
            continue;
        }
        assert_true(placement->layers[0].threshold == thresholds[cases[i].level]);
        assert_true(placement->pruning.known && placement->pruning.share == (double)levels[cases[i].level]);
        assert_true(placement->pruning.least_loss == (double)cases[i].losses[cases[i].level]);
        assert_true(placement->pruning.most_loss == placement->pruning.least_loss);
    }
    assert_int_equal(hearth_placement_prune_within(placement, &b->model, -1, &error), HEARTH_INVALID);
    /* Between two levels the loss is between theirs, and an engine says so. */
    learnt.losses = rising;
    stack_check(hearth_placement_prune(placement, &b->model, 0.375, &error), &error);
    hearth_placement_set_threshold(placement, NAN); /* changes nothing, neither thresholds nor what is known of them */
    hearth_runtime *runtime;
    stack s;
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    open_network(&s, runtime, b, placement, true);
    hearth_pruning p = hearth_engine_pruning(s.engine);
    assert_true(p.known && p.loss_known && p.share == 0.375);
    assert_true(p.least_loss == (double)rising[1] && p.most_loss == (double)rising[2]);
    close_network(&s);
    hearth_runtime_destroy(runtime);
    b->model.tune = NULL;
    built_free(b);
}

/* Without the levels of a tune file nothing is small: of a ReLU network only zeros are skipped. */
static void unpruned_is_exact(void **state)
{
    (void)state;
    built_shape shape = {
        .format = FORMAT_F16, .down = FORMAT_F16, .d = 48, .f = 128, .rank = 8, .activation_threshold = 0.25f};
    built *b = built_new(&shape);
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    size_t n = (size_t)BUILT_TOKENS * shape.d;
    float *logits[2];
    for (int i = 0; i < 2; i++) {
        stack s;
        hearth_error error;
        hearth_placement *placement;
        logits[i] = malloc(n * sizeof(float));
        stack_check(hearth_placement_create(&placement, &b->model, i ? HEARTH_MODE_PRUNED : HEARTH_MODE_EXACT, &error),
                    &error);
        open_network(&s, runtime, b, placement, true);
        assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), i ? "lossy" : "bitwise");
        read_portions(&s, logits[i]);
        close_network(&s);
    }
    assert_memory_equal(logits[0], logits[1], n * sizeof(float));
    hearth_runtime_destroy(runtime);
    free(logits[0]);
    free(logits[1]);
    built_free(b);
}

/* ------------------------------------------------------------------ faults */

/* The n-th allocation fails, for every n: of a placement that leaves neurons out, of an engine with a coarse copy, of its
 * session. No leak, no crash, HEARTH_NO_MEMORY. */
static void allocation_failures(void **state)
{
    (void)state;
    built_shape shape = {
        .format = FORMAT_F16, .down = FORMAT_F16, .d = 64, .f = 5, .coarse = true, .copy = FORMAT_Q4_0};
    built *b = built_new(&shape);
    uint32_t order[] = {3, 1, 4, 0, 2};
    b->learnt_layer.order = order;
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    long live = mem_live(), n = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; n++) {
        hearth_placement *placement = NULL;
        hearth_engine *engine = NULL;
        hearth_session *session = NULL;
        mem_fail_at(n);
        status = hearth_placement_create(&placement, &b->model, HEARTH_MODE_PREDICTED, NULL);
        if (status == HEARTH_OK)
            status = hearth_placement_keep(placement, &b->model, 0.6, true, NULL);
        if (status == HEARTH_OK)
            status = hearth_engine_create(&engine, runtime, &b->model, &(hearth_engine_options){.placement = placement},
                                          NULL);
        if (status == HEARTH_OK)
            status = hearth_session_create(&session, engine, NULL, NULL);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        assert_int_equal(session != NULL, status == HEARTH_OK);
        hearth_session_destroy(session);
        hearth_engine_destroy(engine);
        hearth_placement_destroy(placement);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n >= 10);
    hearth_runtime_destroy(runtime);
    built_free(b);
}

/* ------------------------------------------------------------------ gates */

typedef struct gates_watch {
    const built *b;
    size_t calls;
} gates_watch;

static void see_gates(void *user, const hearth_observation *o)
{
    gates_watch *w = user;
    const built *b = w->b;
    size_t f = b->shape.f;
    assert_non_null(o->gates);
    assert_null(o->neurons);
    w->calls++;
    for (size_t row = 0; row < f; row++) {
        size_t neuron = (size_t)b->order[row], at = o->position * f + row;
        assert_true(fabs((double)o->gates[neuron] - built_act(b, b->first[at])) <= 1e-5);
        assert_true(fabs((double)o->activations[neuron] - b->h[at]) <= 1e-5);
    }
}

/* An observer may ask for what the first matrix alone has made of a neuron; nothing else changes by that. */
static void gates_are_shown(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    for (int k = 0; k < 12; k++) {
        built_shape shape = {.format = FORMAT_F16,
                             .down = FORMAT_F16,
                             .d = 48,
                             .f = 128,
                             .rank = 8,
                             .gating = k % 2 ? FFN_PLAIN : FFN_GATED,
                             .silu = k / 2 % 2,
                             .ordered = k / 4 == 1,
                             .stock = k / 4 == 2,
                             .biases = k % 2};
        built *b = built_new(&shape);
        size_t n = (size_t)BUILT_TOKENS * shape.d;
        float *logits[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
        gates_watch w = {.b = b};
        built_compute(b, HEARTH_MODE_DENSE, false);
        for (int i = 0; i < 2; i++) {
            stack s;
            open_network(&s, runtime, b, place(b, HEARTH_MODE_DENSE), true);
            if (i)
                hearth_session_observe(s.session, &(hearth_observer){see_gates, &w, .gates = true});
            read_portions(&s, logits[i]);
            close_network(&s);
        }
        assert_int_equal(w.calls, BUILT_TOKENS);
        assert_memory_equal(logits[0], logits[1], n * sizeof(float));
        free(logits[0]);
        free(logits[1]);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictors_may_read_the_input),
        cmocka_unit_test(coarse_copies_select),
        cmocka_unit_test(a_moved_margin_is_lossy),
        cmocka_unit_test(a_wide_margin_is_exact),
        cmocka_unit_test(spread_is_the_deviation),
        cmocka_unit_test(small_activations_are_pruned),
        cmocka_unit_test(neurons_can_be_left_out),
        cmocka_unit_test(hot_and_cold_come_from_the_counts),
        cmocka_unit_test(pruning_follows_the_levels),
        cmocka_unit_test(pruning_is_chosen_by_its_loss),
        cmocka_unit_test(unpruned_is_exact),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(gates_are_shown),
    };
    return run_group(tests, NULL, NULL);
}
