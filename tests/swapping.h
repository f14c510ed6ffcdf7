/* swapping.h - what the tests of neurons and of experts that change sides share: models whose layers are split, and a thread
 * that swaps all the time while a text is read. */
#ifndef TESTS_SWAPPING_H
#define TESTS_SWAPPING_H

#include "made_predictors.h"

#include "../src/base/memory.h"
#include "../src/engine/engine.h"
#include "../src/engine/swap.h"

#include <pthread.h>
#include <stdatomic.h>

/* Under sanitizers everything takes many times as long. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SWAPS = 2000, TOKENS = 96, TEXTS = 3 };
#else
enum { SWAPS = 10000, TOKENS = 256, TEXTS = 12 };
#endif

/* Relative distance from the CPU alone, in float32. */
static const double farthest = 1e-4;

typedef struct swapped_model {
    const char *path;
    hearth_mode mode;
    bool predicts; /* by predictors that are made for it               */
} swapped_model;

/* How the layers of a model are split: a placement in JSON, freed with free. */
typedef char *split_maker(const stack *s, hearth_mode mode, uint32_t seed);

static inline void open_swapped(stack *s, hearth_runtime *runtime, const swapped_model *m)
{
    open_placed_model(s, runtime, m->path);
    if (!m->predicts)
        return;
    assert_null(s->model->tune);
    s->model->tune = made_record(s->model, PREDICTOR_LOW_RANK);
}

static inline void close_swapped(stack *s, const swapped_model *m)
{
    close_placed(s);
    if (m->predicts) {
        drop_record(s->model->tune);
        s->model->tune = NULL;
    }
    hearth_model_close(s->model);
}

/* split NULL: the CPU alone. */
static inline void open_split(stack *s, hearth_runtime *runtime, const swapped_model *m, split_maker *split)
{
    open_swapped(s, runtime, m);
    char *json = split ? split(s, m->mode, 11) : NULL;
    open_placed(s, json, m->mode, true,
                (hearth_session_options){.context = 64, .output_rows = 32, .kv = HEARTH_KV_F32});
    free(json);
}

/* The logits of a text by the CPU alone. */
static inline float *reference_of(hearth_runtime *runtime, const swapped_model *m, int32_t ids[TEXT])
{
    stack s;
    open_split(&s, runtime, m, NULL);
    float *logits = malloc((size_t)TEXT * s.info.vocabulary_size * sizeof *logits);
    draw_prompt(ids, s.info.vocabulary_size, 5);
    greedy_answer(&s, ids);
    read_pieces(&s, ids, logits);
    close_swapped(&s, m);
    return logits;
}

/* The placement by which an engine computes now, in JSON; freed with hearth_free. */
static inline char *placement_text(const stack *s)
{
    hearth_placement *now;
    hearth_error error;
    char *json;
    stack_check(hearth_engine_placement(&now, s->engine, &error), &error);
    stack_check(hearth_placement_print(now, &json, &error), &error);
    hearth_placement_destroy(now);
    return json;
}

/* Each neuron is on exactly one side, and the CPU's ascend. */
static inline void check_sides(const hearth_engine *e)
{
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        uint32_t f = e->model->layers[i].ffn.neuron_count;
        uint8_t *there = calloc(f + 1, 1);
        if (!e->layers[i].rows) {
            free(there);
            continue;
        }
        assert_int_equal(e->uploaded->layers[i].neuron_count + e->layers[i].row_count, f);
        for (uint32_t k = 0; k < e->uploaded->layers[i].neuron_count; k++)
            there[e->uploaded->layers[i].rows[k]]++;
        for (uint32_t k = 0; k < e->layers[i].row_count; k++) {
            assert_true(k == 0 || e->layers[i].rows[k] > e->layers[i].rows[k - 1]);
            there[e->layers[i].rows[k]]++;
        }
        for (uint32_t k = 0; k < f; k++)
            assert_int_equal(there[k], 1);
        free(there);
    }
}

/* A placement of what an engine has now gives another engine the same sides. */
static inline void check_placement(const stack *s, const swapped_model *m)
{
    hearth_error error;
    stack other = {.runtime = s->runtime, .model = s->model, .info = s->info};
    char *json = placement_text(s);
    stack_check(try_engine(&other, json, m->mode, true, &error), &error);
    for (uint32_t i = 0; i < s->info.layer_count; i++)
        if (s->engine->layers[i].rows)
            assert_memory_equal(other.engine->layers[i].rows, s->engine->layers[i].rows,
                                s->engine->layers[i].row_count * sizeof(uint32_t));
    char *again = placement_text(&other);
    assert_string_equal(json, again);
    hearth_free(json), hearth_free(again);
    close_placed(&other);
}

/* ------------------------------------------------------------------ swaps under fire */

typedef struct attack attack;

/* Lets something of each side of an engine change sides, drawn; *bytes grows. The device is locked. */
typedef void random_swap(const hearth_engine *e, uint32_t *seed, uint64_t *bytes);

struct attack {
    const hearth_engine *engine;
    random_swap *swap;
    atomic_size_t swaps;
    atomic_bool ends;
    uint32_t seed;
};

static inline void *swap_always(void *context)
{
    attack *a = context;
    while (!a->ends) {
        uint64_t bytes = 0;
        device_lock(a->engine->runtime);
        a->swap(a->engine, &a->seed, &bytes);
        device_unlock(a->engine->runtime);
        assert_true(bytes > 0);
        a->swaps++;
    }
    return NULL;
}

/* A thread swaps all the time, in another order in every run, while a text is read again and again. */
static inline void attack_model(const char *spec, const swapped_model *m, split_maker *split, random_swap *swap,
                                uint32_t seed)
{
    hearth_runtime *runtime = open_runtime(spec, 2);
    int32_t ids[TEXT];
    float *want = reference_of(runtime, m, ids);
    stack s;
    open_split(&s, runtime, m, split);
    size_t n = (size_t)TEXT * s.info.vocabulary_size, texts = 0;
    float *got = malloc(n * sizeof *got);
    double worst = 0;
    size_t least = strcmp(spec, "host") == 0 ? SWAPS : SWAPS / 10;
    attack a = {.engine = s.engine, .swap = swap, .seed = seed};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, swap_always, &a), 0);
    while (a.swaps < least || texts < TEXTS) {
        read_pieces(&s, ids, got);
        worst = fmax(worst, relative_l2(got, want, n));
        texts++;
    }
    a.ends = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%s, %s: %zu swaps within %zu texts, worst distance %.1e\n", spec, m->path, a.swaps, texts, worst);
    assert_true(worst <= farthest);
    check_sides(s.engine);
    check_placement(&s, m);
    close_swapped(&s, m);
    hearth_runtime_destroy(runtime);
    free(want), free(got);
}

/* Does so with every model [count] on every device. */
static inline void attack_models(const swapped_model *models, size_t count, split_maker *split, random_swap *swap)
{
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (size_t k = 0; k < count; k++)
            attack_model(specs->text[i], &models[k], split, swap, (uint32_t)k);
}

/* ------------------------------------------------------------------ a copy that fails */

/* Swaps something of each side of an engine, always the same. Adds the bytes copied. */
typedef hearth_status one_swap(const hearth_engine *e, uint64_t *bytes, hearth_error *error);

/* Without memory nothing changes. One copy after another fails in the midst of a swap, and so does writing back: the next step
 * writes back, and says the same as before. Returns how many copies there are. */
static inline size_t fail_copies(const swapped_model *m, split_maker *split, one_swap *swap)
{
    hearth_runtime *runtime = open_runtime("host", 1);
    stack s;
    int32_t ids[TEXT];
    open_split(&s, runtime, m, split);
    size_t n = (size_t)TEXT * s.info.vocabulary_size;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    draw_prompt(ids, s.info.vocabulary_size, 5);
    greedy_answer(&s, ids);
    read_pieces(&s, ids, want);
    size_t failures = 0;
    uint64_t none = 0;
    mem_fail_at(0);
    hearth_status without = swap(s.engine, &none, NULL);
    mem_fail_at(-1);
    assert_int_equal(without, HEARTH_NO_MEMORY);
    for (long at = 0; at < 100; at++) {
        uint64_t bytes = 0;
        hearth_error error = {0};
        device_fail_at(at);
        hearth_status status = swap(s.engine, &bytes, &error);
        if (status == HEARTH_OK) { /* there are no more copies to fail */
            device_fail_at(-1);
            break;
        }
        assert_int_equal(status, HEARTH_DEVICE);
        assert_int_equal(bytes, 0);
        hearth_row row = {.token = 1, .output = true};
        if (s.engine->uploaded->torn.is) /* and neither can a step begin while it cannot be written back */
            assert_int_equal(hearth_session_feed(s.session, &row, 1, &error), HEARTH_DEVICE);
        device_fail_at(-1);
        read_pieces(&s, ids, got);
        assert_memory_equal(got, want, n * sizeof *got);
        assert_false(s.engine->uploaded->torn.is);
        failures++;
    }
    check_sides(s.engine);
    read_pieces(&s, ids, got);
    assert_true(relative_l2(got, want, n) <= farthest);
    close_swapped(&s, m);
    hearth_runtime_destroy(runtime);
    free(want), free(got);
    return failures;
}

/* ------------------------------------------------------------------ hot sets */

/* The longest text that is read at once: every model's context holds it. */
enum { PIECE = 64 };

/* Forgets what was read before token number `at` if another text begins with it. */
static inline void begin_text(stack *s, size_t at)
{
    if (at % PIECE == 0)
        assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
}

/* Reads TOKENS tokens of a few words, half of them in chunks and the others one by one, and returns the report. */
static inline hearth_hot_report read_long(stack *s, uint32_t seed)
{
    hearth_hot_report report;
    hearth_error error;
    int32_t id[32];
    for (size_t at = 0, n; at < TOKENS; at += n) {
        n = at < TOKENS / 2 ? 16 : 1;
        begin_text(s, at);
        for (size_t i = 0; i < n; i++)
            id[i] = (int32_t)draw(&seed, s->info.vocabulary_size / 8); /* a few words, often */
        hearth_row rows[32];
        for (size_t i = 0; i < n; i++)
            rows[i] = (hearth_row){.token = id[i], .output = n == 1};
        stack_check(hearth_session_feed(s->session, rows, n, &error), &error);
    }
    stack_check(hearth_engine_hot_set(s->engine, &report, &error), &error);
    return report;
}

/* With a hot set that lives, or not. */
static inline void open_followed(stack *s, hearth_runtime *runtime, const swapped_model *m, split_maker *split,
                                 hearth_hot_set how)
{
    hearth_error error;
    hearth_session_options options = {.context = PIECE + 2, .output_rows = 1};
    open_swapped(s, runtime, m);
    char *json = split(s, m->mode, 11);
    stack_check(try_engine(s, json, m->mode, true, &error), &error);
    stack_check(hearth_engine_follow(s->engine, &(hearth_hot_options){.how = how}, &error), &error);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
    free(json);
}

/* An answer changes nothing. */
static inline void check_frozen(stack *s, const char *before)
{
    uint32_t seed = 8;
    for (size_t i = 0; i < TOKENS / 2; i++) {
        int32_t id = (int32_t)draw(&seed, s->info.vocabulary_size);
        hearth_row row = {.token = id, .output = true};
        begin_text(s, i);
        assert_int_equal(hearth_session_feed(s->session, &row, 1, NULL), HEARTH_OK);
    }
    char *after = placement_text(s);
    assert_string_equal(before, after);
    hearth_free(after);
}

/* A set that was drawn becomes better; the same tokens give the same set; frozen, an answer changes nothing. */
static inline void follow_model(const swapped_model *m, split_maker *split)
{
    hearth_runtime *runtime = open_runtime("host", 1);
    hearth_hot_report first[HEARTH_HOT_SET_COUNT];
    for (hearth_hot_set how = HEARTH_HOT_SET_STATIC; how < HEARTH_HOT_SET_COUNT; how++) {
        char *text[2];
        for (size_t run = 0; run < 2; run++) {
            stack s;
            open_followed(&s, runtime, m, split, how);
            char *before = placement_text(&s);
            hearth_hot_report r = read_long(&s, 3);
            text[run] = placement_text(&s);
            assert_int_equal(strcmp(before, text[run]) == 0, how == HEARTH_HOT_SET_STATIC);
            assert_int_equal(r.swaps > 0, how != HEARTH_HOT_SET_STATIC);
            if (run == 0)
                first[how] = r;
            assert_int_equal(r.swaps, first[how].swaps);
            assert_int_equal(r.on_device, first[how].on_device);
            if (how == HEARTH_HOT_SET_FROZEN)
                check_frozen(&s, text[run]);
            check_sides(s.engine);
            hearth_free(before);
            close_swapped(&s, m);
        }
        assert_string_equal(text[0], text[1]);
        hearth_free(text[0]), hearth_free(text[1]);
        print_message("%d: %.3f of the active neurons on the device, %zu swaps\n", (int)how,
                      (double)first[how].on_device / (double)first[how].active, (size_t)first[how].swaps);
    }
    assert_true(first[HEARTH_HOT_SET_ADAPTIVE].on_device > first[HEARTH_HOT_SET_STATIC].on_device);
    assert_true(first[HEARTH_HOT_SET_FROZEN].on_device > first[HEARTH_HOT_SET_STATIC].on_device);
    assert_true(first[HEARTH_HOT_SET_FROZEN].swaps <= first[HEARTH_HOT_SET_ADAPTIVE].swaps);
    hearth_runtime_destroy(runtime);
}

#endif
