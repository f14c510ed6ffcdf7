/* engine_ffn.c - select, gather, accumulate: every form of a feed-forward network, with and without biases, in both
 * layouts, in every mode, in several formats, against a plain loop in double precision (ffn_build.h). */
#include "ffn_watch.h"

/* More rows than are accumulated together. */
enum { LONG = 300 };

/* ------------------------------------------------------------------ one network */

/* The runtime is opened once for many networks. */
static void open_built(stack *s, hearth_runtime *runtime, const built *b, hearth_mode mode, bool plain)
{
    hearth_error error;
    hearth_placement *placement;
    *s = (stack){.runtime = runtime, .info = {.vocabulary_size = b->shape.d}};
    stack_check(hearth_placement_create(&placement, &b->model, mode, &error), &error);
    hearth_placement_set_threshold(placement, b->threshold);
    hearth_engine_options engine = {.placement = placement,
                                    .activations = plain ? HEARTH_ACTIVATIONS_F32 : HEARTH_ACTIVATIONS_AUTO};
    hearth_session_options session = {.context = LONG, .output_rows = 64, .kv = HEARTH_KV_F32};
    stack_check(hearth_engine_create(&s->engine, runtime, &b->model, &engine, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &session, &error), &error);
}

static void close_built(stack *s)
{
    hearth_session_destroy(s->session);
    hearth_engine_destroy(s->engine);
}

/* The reference has been computed. Returns the distance from it. */
static double check_network(hearth_runtime *runtime, const built *b, hearth_mode mode, bool plain)
{
    stack s;
    size_t n = (size_t)BUILT_TOKENS * b->shape.d;
    float *logits = malloc(n * sizeof *logits), *want = malloc(n * sizeof *want);
    open_built(&s, runtime, b, mode, plain);
    watch w = watch_begin(b, mode);
    if (plain) {
        hearth_session_observe(s.session, &(hearth_observer){.see = watch_row, .user = &w});
        read_portions(&s, logits);
        assert_int_equal(w.calls, BUILT_TOKENS);
        check_counts(&s, b, mode);
    } else {
        read_portions(&s, logits);
    }
    for (size_t i = 0; i < n; i++)
        want[i] = (float)b->out[i];
    double distance = relative_l2(logits, want, n);
    /* Rounding to 8 bits is emulated, but now and then a value lies so near a half that float32 and double
     * round it to different neighbours: one part in 127 of one of the values that a sum has. */
    if (!(distance <= (plain ? 2e-6 : 5e-4)))
        fail_msg("%s on %s: relative distance %.2e", describe(&b->shape, mode, plain),
                 hearth_runtime_cpu_level(runtime), distance);
    close_built(&s);
    free(logits);
    free(want);
    return distance;
}

enum { MOST_LEVELS = 8 };

static void every_network(void **state)
{
    (void)state;
    hearth_runtime *runtimes[MOST_LEVELS];
    double worst[MOST_LEVELS][2] = {{0}};
    size_t levels = 0, networks = 0;
    for (; level_at(levels); levels++) {
        assert_true(levels < MOST_LEVELS);
        hearth_runtime_options options = {.threads = 2, .cpu_level = level_at(levels)};
        assert_int_equal(hearth_runtime_create(&runtimes[levels], &options, NULL), HEARTH_OK);
    }
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        built *b = built_new(&shape);
        bool rounds = number_is_block(shape.format) || number_is_block(shape.down);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++)
            for (int plain = !rounds; plain < 2; plain++, networks++) {
                built_compute(b, (hearth_mode)mode, !plain);
                for (size_t l = 0; l < levels; l++)
                    worst[l][plain] = fmax(worst[l][plain], check_network(runtimes[l], b, (hearth_mode)mode, plain));
            }
        built_free(b);
    }
    for (size_t l = 0; l < levels; l++) {
        print_message("%-7s %zu networks, worst distance %.1e with rounded activations, %.1e without\n", level_at(l),
                      networks, worst[l][0], worst[l][1]);
        hearth_runtime_destroy(runtimes[l]);
    }
}

/* One, two and three threads, and a hundred runs: the same bytes; exact is dense to the byte, stock layout apart. */
static void deterministic(void **state)
{
    (void)state;
    hearth_runtime *runtimes[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(hearth_runtime_create(&runtimes[i], &(hearth_runtime_options){.threads = i + 1}, NULL),
                         HEARTH_OK);
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        if (shape.f != 515 && shape.f != 5)
            continue;
        built *b = built_new(&shape);
        size_t size = (size_t)BUILT_TOKENS * shape.d * sizeof(float);
        float *want[HEARTH_MODE_COUNT] = {0}, *got = calloc(1, size);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++) {
            want[mode] = calloc(1, size);
            for (unsigned threads = 1; threads <= 3; threads++) {
                stack s;
                open_built(&s, runtimes[threads - 1], b, (hearth_mode)mode, false);
                unsigned runs = threads == 2 && shape.down == FORMAT_F16 && shape.f == 515 && shape.biases ? 100 : 1;
                for (unsigned run = 0; run < runs; run++) {
                    read_portions(&s, threads == 1 ? want[mode] : got);
                    if (threads > 1 && memcmp(got, want[mode], size) != 0)
                        fail_msg("%s: %u threads, run %u differs", describe(&shape, (hearth_mode)mode, false), threads,
                                 run);
                }
                close_built(&s);
            }
        }
        if (!shape.stock && memcmp(want[HEARTH_MODE_EXACT], want[HEARTH_MODE_DENSE], size) != 0)
            fail_msg("%s is not dense", describe(&shape, HEARTH_MODE_EXACT, false));
        assert_true(memcmp(want[HEARTH_MODE_PREDICTED], want[HEARTH_MODE_DENSE], size) != 0);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++)
            free(want[mode]);
        free(got);
        built_free(b);
    }
    for (unsigned i = 0; i < 3; i++)
        hearth_runtime_destroy(runtimes[i]);
}

/* A feed of many rows, whose last ones are held against the reference. */
static void long_prompts(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    hearth_row rows[LONG];
    for (int i = 0; i < LONG; i++) /* ends with token 39, so that the last 40 are those of the reference in order */
        rows[i] = (hearth_row){(i + BUILT_TOKENS - LONG % BUILT_TOKENS) % BUILT_TOKENS, 0, i >= LONG - BUILT_TOKENS};
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        if (shape.format != FORMAT_BF16 || shape.f != 128)
            continue;
        built *b = built_new(&shape);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++) {
            stack s;
            hearth_error error;
            size_t n = (size_t)BUILT_TOKENS * shape.d;
            float *logits = malloc(n * sizeof *logits), *want = malloc(n * sizeof *want);
            open_built(&s, runtime, b, (hearth_mode)mode, true);
            built_compute(b, (hearth_mode)mode, false);
            for (size_t k = 0; k < n; k++)
                want[k] = (float)b->out[k];
            stack_check(hearth_session_feed(s.session, rows, LONG, &error), &error);
            stack_check(hearth_session_logits(s.session, 0, BUILT_TOKENS, logits, &error), &error);
            if (!(relative_l2(logits, want, n) <= 2e-6))
                fail_msg("%s: relative distance %.2e", describe(&shape, (hearth_mode)mode, true),
                         relative_l2(logits, want, n));
            close_built(&s);
            free(logits);
            free(want);
        }
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* PowerInfer's comparison is "below": a score equal to the threshold lets a neuron through, and so does one that is no
 * number. All scores being that, predicted is exact to the byte. */
static void scores_at_the_threshold(void **state)
{
    (void)state;
    static const float scores[] = {0, NAN};
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    for (size_t i = 0; i < 2 * FFN_GATING_COUNT; i++) {
        built_shape shape = {.gating = (ffn_gating)(i / 2), .d = 64, .f = 37, .rank = 8};
        built *b = built_new(&shape);
        size_t n = (size_t)BUILT_TOKENS * shape.d;
        float *logits[HEARTH_MODE_COUNT] = {0}, *fc2 = (float *)(uintptr_t)b->fc2.stored.data;
        for (size_t k = 0; k < (size_t)shape.f * shape.rank; k++)
            fc2[k] = scores[i % 2];
        b->threshold = 0;
        b->passes = 0;
        for (int mode = HEARTH_MODE_EXACT; mode <= HEARTH_MODE_PREDICTED; mode++) {
            stack s;
            logits[mode] = malloc(n * sizeof(float));
            open_built(&s, runtime, b, (hearth_mode)mode, true);
            read_portions(&s, logits[mode]);
            close_built(&s);
        }
        assert_memory_equal(logits[HEARTH_MODE_PREDICTED], logits[HEARTH_MODE_EXACT], n * sizeof(float));
        free(logits[HEARTH_MODE_EXACT]);
        free(logits[HEARTH_MODE_PREDICTED]);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),
        cmocka_unit_test(deterministic),
        cmocka_unit_test(long_prompts),
        cmocka_unit_test(scores_at_the_threshold),
    };
    return run_group(tests, NULL, NULL);
}
