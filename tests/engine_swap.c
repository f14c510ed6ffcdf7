/* engine_swap.c - neurons that change sides while an engine computes: the logits stay those of the CPU alone, whatever changes and
 * whenever; a copy that fails changes nothing; and hot sets that live count what observers see, gain hits, and do the same for
 * the same tokens. */
#include "placements.h"

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

typedef struct swapped_model {
    const char *path;
    hearth_mode mode;
    double bound; /* relative distance from the CPU alone, in float32 */
} swapped_model;

static const swapped_model models[] = {
    {HEARTH_MODELS "/stories-relu-q8_0.gguf", HEARTH_MODE_EXACT, 1e-4},
    {GOLDEN "/pwri/llama/f16.gguf", HEARTH_MODE_PREDICTED, 1e-4},
    {GOLDEN "/pwri/bamboo/q4_0.gguf", HEARTH_MODE_PREDICTED, 1e-4},
};
enum { MODELS = sizeof models / sizeof *models };

/* Every layer is split, in ranges that the seed draws. */
static char *split_placement(const stack *s, hearth_mode mode, uint32_t seed)
{
    placed_form forms[MOST_LAYERS];
    placed_shape shape = shape_of(s, mode);
    for (size_t i = 0; i < MOST_LAYERS; i++)
        forms[i] = PLACED_SPLIT;
    return print_placed(&shape, forms, false, false, &seed);
}

static void open_split(stack *s, hearth_runtime *runtime, const swapped_model *m, bool split)
{
    open_placed_model(s, runtime, m->path);
    char *json = split ? split_placement(s, m->mode, 11) : NULL;
    open_placed(s, json, m->mode, true,
                (hearth_session_options){.context = 64, .output_rows = 32, .kv = HEARTH_KV_F32});
    free(json);
}

static void close_split(stack *s)
{
    close_placed(s);
    hearth_model_close(s->model);
}

/* The logits of a text by the CPU alone. */
static float *reference_of(hearth_runtime *runtime, const swapped_model *m, int32_t ids[TEXT])
{
    stack s;
    open_split(&s, runtime, m, false);
    float *logits = malloc((size_t)TEXT * s.info.vocabulary_size * sizeof *logits);
    draw_prompt(ids, s.info.vocabulary_size, 5);
    greedy_answer(&s, ids);
    read_pieces(&s, ids, logits);
    close_split(&s);
    return logits;
}

/* ------------------------------------------------------------------ swaps under fire */

typedef struct attack {
    const hearth_engine *engine;
    atomic_size_t swaps;
    atomic_bool ends;
    uint32_t seed;
} attack;

/* Exchanges a neuron of each side of a layer, both drawn. */
static void swap_any(attack *a)
{
    const hearth_engine *e = a->engine;
    uint64_t bytes = 0;
    uint32_t layer = draw(&a->seed, e->model->hyper.layer_count);
    device_lock(e->runtime);
    uint32_t place = draw(&a->seed, e->uploaded->layers[layer].neuron_count);
    uint32_t enter = e->layers[layer].rows[draw(&a->seed, e->layers[layer].row_count)];
    hearth_error error;
    stack_check(engine_swap(e, layer, place, enter, &bytes, &error), &error);
    device_unlock(e->runtime);
    assert_true(bytes > 0);
    a->swaps++;
}

static void *swap_always(void *context)
{
    attack *a = context;
    while (!a->ends)
        swap_any(a);
    return NULL;
}

/* Each neuron is on exactly one side, and the CPU's ascend. */
static void check_sides(const hearth_engine *e)
{
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        uint32_t f = e->model->layers[i].ffn.neuron_count;
        uint8_t *there = calloc(f, 1);
        assert_true(engine_swaps(e, i));
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
static void check_placement(const stack *s, const swapped_model *m)
{
    hearth_placement *now, *again;
    hearth_error error;
    stack other = {.runtime = s->runtime, .model = s->model, .info = s->info};
    char *json, *json_again;
    stack_check(hearth_engine_placement(&now, s->engine, &error), &error);
    stack_check(hearth_placement_print(now, &json, &error), &error);
    open_placed(&other, json, m->mode, true, (hearth_session_options){.context = 64});
    for (uint32_t i = 0; i < s->info.layer_count; i++)
        assert_memory_equal(other.engine->layers[i].rows, s->engine->layers[i].rows,
                            s->engine->layers[i].row_count * sizeof(uint32_t));
    stack_check(hearth_engine_placement(&again, other.engine, &error), &error);
    stack_check(hearth_placement_print(again, &json_again, &error), &error);
    assert_string_equal(json, json_again);
    hearth_placement_destroy(now), hearth_placement_destroy(again);
    hearth_free(json), hearth_free(json_again);
    close_placed(&other);
}

/* A thread exchanges neurons all the time, in another order in every run, while a text is read again and again. */
static void under_fire(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (size_t k = 0; k < MODELS; k++) {
            hearth_runtime *runtime = open_runtime(specs->text[i], 2);
            int32_t ids[TEXT];
            float *want = reference_of(runtime, &models[k], ids);
            stack s;
            open_split(&s, runtime, &models[k], true);
            size_t n = (size_t)TEXT * s.info.vocabulary_size, texts = 0;
            float *got = malloc(n * sizeof *got);
            double worst = 0;
            size_t least = strcmp(specs->text[i], "host") == 0 ? SWAPS : SWAPS / 10;
            attack a = {.engine = s.engine, .seed = (uint32_t)k};
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, swap_always, &a), 0);
            while (a.swaps < least || texts < TEXTS) {
                read_pieces(&s, ids, got);
                worst = fmax(worst, relative_l2(got, want, n));
                texts++;
            }
            a.ends = true;
            assert_int_equal(pthread_join(thread, NULL), 0);
            print_message("%s, %s: %zu swaps within %zu texts, worst distance %.1e\n", specs->text[i], models[k].path,
                          a.swaps, texts, worst);
            assert_true(worst <= models[k].bound);
            check_sides(s.engine);
            check_placement(&s, &models[k]);
            close_split(&s);
            hearth_runtime_destroy(runtime);
            free(want), free(got);
        }
}

/* ------------------------------------------------------------------ a copy that fails */

/* A copy fails in the midst of a swap, and so does writing back: the next step writes back, and says the same as before. */
static void failing_copies(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    stack s;
    int32_t ids[TEXT];
    open_split(&s, runtime, &models[0], true);
    size_t n = (size_t)TEXT * s.info.vocabulary_size;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    draw_prompt(ids, s.info.vocabulary_size, 5);
    greedy_answer(&s, ids);
    read_pieces(&s, ids, want);
    size_t failures = 0;
    for (long at = 0; at < 100; at++) {
        uint64_t bytes = 0;
        hearth_error error = {0};
        uint32_t enter = s.engine->layers[1].rows[0];
        device_fail_at(at);
        hearth_status status = engine_swap(s.engine, 1, 0, enter, &bytes, &error);
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
    assert_int_equal(failures, 6); /* values and scales of gate, up and down */
    check_sides(s.engine);
    read_pieces(&s, ids, got);
    assert_true(relative_l2(got, want, n) <= models[0].bound);
    close_split(&s);
    hearth_runtime_destroy(runtime);
    free(want), free(got);
}

/* ------------------------------------------------------------------ hot sets */

/* By layer, which neurons the device has; what an observer saw of them. */
typedef struct watch {
    uint8_t *there; /* [layers][neurons] */
    uint32_t neurons;
    uint64_t active, on_device;
} watch;

static void see(void *user, const hearth_observation *o)
{
    watch *w = user;
    for (size_t i = 0; i < o->neuron_count; i++)
        if (o->activations[i] != 0) {
            w->active++;
            w->on_device += w->there[o->layer * w->neurons + o->neurons[i]];
        }
}

/* Reads TOKENS tokens, a prompt of half of them in chunks and the others one by one, and returns the report. */
static hearth_hot_report read_long(stack *s, uint32_t seed)
{
    hearth_hot_report report;
    hearth_error error;
    int32_t id[32];
    for (size_t at = 0, n; at < TOKENS; at += n) {
        n = at < TOKENS / 2 ? 16 : 1;
        for (size_t i = 0; i < n; i++)
            id[i] = at + i == 0 ? 1 : (int32_t)draw(&seed, s->info.vocabulary_size / 8); /* a few words, often */
        hearth_row rows[32];
        for (size_t i = 0; i < n; i++)
            rows[i] = (hearth_row){.token = id[i], .output = n == 1};
        stack_check(hearth_session_feed(s->session, rows, n, &error), &error);
    }
    stack_check(hearth_engine_hot_set(s->engine, &report, &error), &error);
    return report;
}

static void open_followed(stack *s, hearth_runtime *runtime, const char *json, hearth_hot_set how)
{
    hearth_error error;
    hearth_session_options options = {.context = 2 * TOKENS, .output_rows = 1};
    open_placed_model(s, runtime, models[0].path);
    char *own = json ? NULL : split_placement(s, models[0].mode, 11);
    stack_check(try_engine(s, json ? json : own, models[0].mode, true, &error), &error);
    stack_check(hearth_engine_follow(s->engine, &(hearth_hot_options){.how = how}, &error), &error);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
    free(own);
}

static char *placement_text(const stack *s)
{
    hearth_placement *now;
    hearth_error error;
    char *json;
    stack_check(hearth_engine_placement(&now, s->engine, &error), &error);
    stack_check(hearth_placement_print(now, &json, &error), &error);
    hearth_placement_destroy(now);
    return json;
}

/* What both sides count is what an observer sees. */
static void counts(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 1);
        stack s;
        open_followed(&s, runtime, NULL, HEARTH_HOT_SET_STATIC);
        watch w = {.neurons = s.info.neuron_count};
        w.there = calloc(s.info.layer_count, w.neurons);
        for (uint32_t k = 0; k < s.info.layer_count; k++) {
            const int32_t *order = s.model->layers[k].order;
            const device_layer *there = &s.engine->uploaded->layers[k];
            for (uint32_t p = 0; p < there->neuron_count; p++)
                w.there[k * w.neurons + (order ? (uint32_t)order[there->rows[p]] : there->rows[p])] = 1;
        }
        hearth_session_observe(s.session, &(hearth_observer){.see = see, .user = &w});
        hearth_hot_report r = read_long(&s, 3);
        assert_int_equal(r.layers, s.info.layer_count);
        assert_int_equal(r.swaps, 0);
        assert_true(w.active > 0 && w.on_device > 0 && w.on_device < w.active);
        assert_int_equal(r.active, w.active);
        assert_int_equal(r.on_device, w.on_device);
        close_split(&s);
        hearth_runtime_destroy(runtime);
        free(w.there);
    }
}

/* An answer changes nothing. */
static void check_frozen(stack *s, const char *before)
{
    uint32_t seed = 8;
    for (size_t i = 0; i < TOKENS / 2; i++) {
        int32_t id = (int32_t)draw(&seed, s->info.vocabulary_size);
        hearth_row row = {.token = id, .output = true};
        assert_int_equal(hearth_session_feed(s->session, &row, 1, NULL), HEARTH_OK);
    }
    char *after = placement_text(s);
    assert_string_equal(before, after);
    hearth_free(after);
}

static bool give_up(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)total;
    (void)done;
    return !*(const bool *)user;
}

/* A step that is cancelled in its midst counts for nobody, and those after it count as if it had not been. */
static void cancelled_steps(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    hearth_hot_report report[4];
    for (size_t cancels = 0; cancels < 2; cancels++) {
        stack s;
        bool ends = false;
        hearth_error error;
        hearth_session_options options = {
            .context = 2 * TOKENS, .output_rows = 1, .progress = {.report = give_up, .user = &ends}};
        open_followed(&s, runtime, NULL, HEARTH_HOT_SET_STATIC);
        hearth_session_destroy(s.session);
        stack_check(hearth_session_create(&s.session, s.engine, &options, &error), &error);
        report[2 * cancels] = read_long(&s, 3);
        hearth_row rows[] = {{.token = 5}, {.token = 6, .output = true}};
        ends = cancels == 1;
        if (ends) /* after the first layer */
            assert_int_equal(hearth_session_feed(s.session, rows, 2, &error), HEARTH_CANCELLED);
        ends = false;
        stack_check(hearth_session_feed(s.session, rows, 2, &error), &error);
        stack_check(hearth_engine_hot_set(s.engine, &report[2 * cancels + 1], &error), &error);
        close_split(&s);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(report[i].active, report[2 + i].active);
        assert_int_equal(report[i].on_device, report[2 + i].on_device);
    }
    assert_true(report[1].active > report[0].active);
    hearth_runtime_destroy(runtime);
}

/* A set that was drawn becomes better; the same tokens give the same set; frozen, an answer changes nothing. */
static void live(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    hearth_hot_report first[HEARTH_HOT_SET_COUNT];
    for (hearth_hot_set how = HEARTH_HOT_SET_STATIC; how < HEARTH_HOT_SET_COUNT; how++) {
        char *text[2];
        for (size_t run = 0; run < 2; run++) {
            stack s;
            open_followed(&s, runtime, NULL, how);
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
            close_split(&s);
        }
        assert_string_equal(text[0], text[1]);
        hearth_free(text[0]), hearth_free(text[1]);
        print_message("%d: %.3f of the active neurons on the device, %zu swaps\n", (int)how,
                      (double)first[how].on_device / (double)first[how].active, (size_t)first[how].swaps);
    }
    assert_true(first[HEARTH_HOT_SET_ADAPTIVE].on_device > first[HEARTH_HOT_SET_STATIC].on_device);
    assert_true(first[HEARTH_HOT_SET_FROZEN].on_device > first[HEARTH_HOT_SET_STATIC].on_device);
    assert_true(first[HEARTH_HOT_SET_FROZEN].swaps < first[HEARTH_HOT_SET_ADAPTIVE].swaps);
    hearth_runtime_destroy(runtime);
}

/* What is not known is refused; without a device nothing can change, and that is said. */
static void refusals(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    hearth_error error = {0};
    stack s;
    open_split(&s, runtime, &models[0], false);
    assert_int_equal(hearth_engine_follow(s.engine, &(hearth_hot_options){.how = HEARTH_HOT_SET_COUNT}, &error),
                     HEARTH_INVALID);
    stack_check(hearth_engine_follow(s.engine, &(hearth_hot_options){.how = HEARTH_HOT_SET_ADAPTIVE}, &error), &error);
    hearth_hot_report r = {.layers = 7};
    stack_check(hearth_engine_hot_set(s.engine, &r, &error), &error);
    assert_int_equal(r.layers, 0);
    close_split(&s);
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_fire), cmocka_unit_test(failing_copies), cmocka_unit_test(counts),
        cmocka_unit_test(live),       cmocka_unit_test(refusals),       cmocka_unit_test(cancelled_steps),
    };
    return run_group(tests, NULL, NULL);
}
