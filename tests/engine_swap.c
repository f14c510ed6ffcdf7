/* engine_swap.c - neurons that change sides while an engine computes: the logits stay those of the CPU alone, whatever changes and
 * whenever; a copy that fails changes nothing; and hot sets that live count what observers see, gain hits, and do the same for
 * the same tokens. */
#include "swapping.h"

static const swapped_model models[] = {
    {HEARTH_MODELS "/stories-relu-q8_0.gguf", HEARTH_MODE_EXACT, false},
    {GOLDEN "/pwri/llama/f16.gguf", HEARTH_MODE_PREDICTED, false},
    {GOLDEN "/pwri/bamboo/q4_0.gguf", HEARTH_MODE_PREDICTED, false},
};

/* Every layer is split, in ranges that the seed draws. */
static char *split_placement(const stack *s, hearth_mode mode, uint32_t seed)
{
    placed_form forms[MOST_LAYERS];
    placed_shape shape = shape_of(s, mode);
    for (size_t i = 0; i < MOST_LAYERS; i++)
        forms[i] = PLACED_SPLIT;
    return print_placed(&shape, forms, false, false, &seed);
}

/* ------------------------------------------------------------------ swaps under fire */

/* Exchanges a neuron of each side of a layer, both drawn. */
static void swap_any(const hearth_engine *e, uint32_t *seed, uint64_t *bytes)
{
    uint32_t layer = draw(seed, e->model->hyper.layer_count);
    uint32_t place = draw(seed, e->uploaded->layers[layer].neuron_count);
    uint32_t enter = e->layers[layer].rows[draw(seed, e->layers[layer].row_count)];
    hearth_error error;
    assert_true(engine_swaps(e, layer) && !engine_swaps_experts(e, layer));
    stack_check(engine_swap(e, layer, place, enter, bytes, &error), &error);
}

static void under_fire(void **state)
{
    (void)state;
    attack_models(models, sizeof models / sizeof *models, split_placement, swap_any);
}

/* ------------------------------------------------------------------ a copy that fails */

static hearth_status swap_first(const hearth_engine *e, uint64_t *bytes, hearth_error *error)
{
    return engine_swap(e, 1, 0, e->layers[1].rows[0], bytes, error);
}

static void failing_copies(void **state)
{
    (void)state;
    /* values and scales of gate, up and down */
    assert_int_equal(fail_copies(&models[0], split_placement, swap_first), 6);
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

/* What both sides count is what an observer sees. */
static void counts(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 1);
        stack s;
        open_followed(&s, runtime, &models[0], split_placement, HEARTH_HOT_SET_STATIC);
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
        close_swapped(&s, &models[0]);
        hearth_runtime_destroy(runtime);
        free(w.there);
    }
}

static bool give_up(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)total;
    (void)done;
    return !*(const bool *)user;
}

/* The lists that the hot set asks have the neurons that the session counts: of both sides, and of the device. */
static void same_as_counts(const stack *s, const hearth_hot_report *r)
{
    uint64_t active = 0, on_device = 0;
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        bool can_change = engine_swaps(s->engine, i);
        active += can_change ? s->session->counts[i].active : 0;
        on_device += can_change ? s->session->device_counts[i].active : 0;
    }
    assert_int_equal(active, r->active);
    assert_int_equal(on_device, r->on_device);
    assert_true(on_device > 0 && on_device < active);
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
            .context = PIECE + 2, .output_rows = 1, .progress = {.report = give_up, .user = &ends}};
        open_followed(&s, runtime, &models[0], split_placement, HEARTH_HOT_SET_STATIC);
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
        same_as_counts(&s, &report[2 * cancels + 1]);
        close_swapped(&s, &models[0]);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(report[i].active, report[2 + i].active);
        assert_int_equal(report[i].on_device, report[2 + i].on_device);
    }
    assert_true(report[1].active > report[0].active);
    hearth_runtime_destroy(runtime);
}

static void live(void **state)
{
    (void)state;
    follow_model(&models[0], split_placement);
}

/* What is not known is refused; without a device nothing can change, and that is said. */
static void refusals(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    hearth_error error = {0};
    stack s;
    open_split(&s, runtime, &models[0], NULL);
    assert_int_equal(hearth_engine_follow(s.engine, &(hearth_hot_options){.how = HEARTH_HOT_SET_COUNT}, &error),
                     HEARTH_INVALID);
    stack_check(hearth_engine_follow(s.engine, &(hearth_hot_options){.how = HEARTH_HOT_SET_ADAPTIVE}, &error), &error);
    hearth_hot_report r = {.layers = 7};
    stack_check(hearth_engine_hot_set(s.engine, &r, &error), &error);
    assert_int_equal(r.layers, 0);
    close_swapped(&s, &models[0]);
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
