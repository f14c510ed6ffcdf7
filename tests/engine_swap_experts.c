/* engine_swap_experts.c - whole experts that change sides while an engine computes: as engine_swap.c asks of neurons. */
#include "swapping.h"

static const swapped_model models[] = {
    {GOLDEN "/mixtral/model.gguf", HEARTH_MODE_DENSE, false},
    /* with a router that reads what enters, and ReLU; with two ReLUs; with masks of the experts' own */
    {GOLDEN "/smallthinker/model.gguf", HEARTH_MODE_EXACT, false},
    {GOLDEN "/mixtral-drelu/model.gguf", HEARTH_MODE_EXACT, false},
    {GOLDEN "/mixtral-drelu-predictor", HEARTH_MODE_EXACT, false},
    /* with biases; with a shared expert behind a layer without experts; in a space of their own; beside a network */
    {GOLDEN "/gpt-oss/model.gguf", HEARTH_MODE_DENSE, false},
    {GOLDEN "/glm4-moe/model.gguf", HEARTH_MODE_DENSE, false},
    {GOLDEN "/nemotron-h-latent/model.gguf", HEARTH_MODE_EXACT, false},
    {GOLDEN "/gemma4-moe/model.gguf", HEARTH_MODE_DENSE, false},
    /* with predictors */
    {GOLDEN "/smallthinker/model.gguf", HEARTH_MODE_PREDICTED, true},
    {GOLDEN "/nemotron-h-latent/model.gguf", HEARTH_MODE_PREDICTED, true},
};

/* Prints the ranges of neurons of a side. there [f]: 1 on the device. */
static void print_side(FILE *out, const char *side, const uint8_t *there, uint32_t f, uint8_t wanted)
{
    const char *comma = "";
    fprintf(out, "{\"side\":\"%s\",\"neurons\":[", side);
    for (uint32_t at = 0, end; at < f; at = end) {
        for (end = at + 1; end < f && there[end] == there[at]; end++)
            ;
        if (there[at] == wanted)
            fprintf(out, "%s[%u,%u]", comma, at, end), comma = ",";
    }
    fprintf(out, "]}");
}

/* Draws the sides of a layer's experts: one on each side for certain, and where there are many, one on both; half of the shared
 * one on each. cuts false: none is on both. */
static void draw_sides(const ffn_shape *shape, bool cuts, uint32_t *seed, uint8_t *there)
{
    uint32_t f = shape->expert_neurons, experts = shape->router.expert_count, routed = ffn_routed(shape);
    uint32_t whole = draw(seed, experts), both = cuts && experts > 4 ? (whole + 2) % experts : experts;
    uint32_t shared = cuts ? shape->shared_neurons / 2 : draw(seed, 2) * shape->shared_neurons;
    for (uint32_t e = 0; e < experts; e++) {
        bool on_device = e == whole || (e != (whole + 1) % experts && draw(seed, 3) == 0);
        memset(there + (size_t)e * f, on_device, f);
        if (e == both)
            memset(there + (size_t)e * f, !on_device, f / 2);
    }
    memset(there + routed, 1, shared);
    memset(there + routed + shared, 0, shape->shared_neurons - shared);
}

/* Layers with experts are split, the others are the device's. */
static char *split_layers(const stack *s, hearth_mode mode, bool cuts, uint32_t seed)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out,
            "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"device0\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[");
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        const ffn_shape *shape = &s->model->layers[i].ffn;
        placed_shape all = shape_of(s, mode);
        const char *selector = mode == HEARTH_MODE_PREDICTED                       ? "low-rank"
                               : mode == HEARTH_MODE_EXACT && ffn_skippable(shape) ? "sign"
                                                                                   : "all";
        if (mode == HEARTH_MODE_PREDICTED)
            all.threshold = s->model->tune->layers[i].predictor.threshold;
        fprintf(out, "%s", i > 0 ? "," : "");
        if (shape->router.expert_count == 0) {
            print_placed_layer(out, &all, i, PLACED_DEVICE, &seed);
            continue;
        }
        uint8_t *there = calloc(shape->neuron_count, 1);
        draw_sides(shape, cuts, &seed, there);
        fprintf(out, "{\"form\":\"split\",\"selector\":\"%s\",", selector);
        if (mode == HEARTH_MODE_PREDICTED)
            fprintf(out, "\"threshold\":%.9g,", (double)all.threshold);
        fprintf(out, "\"assignments\":[");
        print_side(out, "cpu", there, shape->neuron_count, 0);
        fprintf(out, ",");
        print_side(out, "device0", there, shape->neuron_count, 1);
        fprintf(out, "]}");
        free(there);
    }
    fprintf(out, "]}");
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *split_experts(const stack *s, hearth_mode mode, uint32_t seed)
{
    return split_layers(s, mode, true, seed);
}

static char *split_between_experts(const stack *s, hearth_mode mode, uint32_t seed)
{
    return split_layers(s, mode, false, seed);
}

/* ------------------------------------------------------------------ swaps under fire */

/* Returns an expert that is whole on a side, drawn. */
static uint32_t draw_expert(const hearth_engine *e, uint32_t layer, expert_side side, uint32_t *seed)
{
    uint32_t experts = e->model->layers[layer].ffn.router.expert_count, expert = draw(seed, experts);
    while (engine_expert_side(e, layer, expert) != side)
        expert = (expert + 1) % experts;
    return expert;
}

static uint32_t draw_layer(const hearth_engine *e, uint32_t *seed)
{
    uint32_t layers = e->model->hyper.layer_count, layer = draw(seed, layers);
    while (!engine_swaps_experts(e, layer))
        layer = (layer + 1) % layers;
    assert_false(engine_swaps(e, layer));
    return layer;
}

static void swap_any(const hearth_engine *e, uint32_t *seed, uint64_t *bytes)
{
    hearth_error error;
    uint32_t layer = draw_layer(e, seed), leave = draw_expert(e, layer, EXPERT_ON_DEVICE, seed);
    uint32_t enter = draw_expert(e, layer, EXPERT_ON_CPU, seed);
    stack_check(engine_swap_expert(e, layer, leave, enter, bytes, &error), &error);
    assert_int_equal(engine_expert_side(e, layer, leave), EXPERT_ON_CPU);
    assert_int_equal(engine_expert_side(e, layer, enter), EXPERT_ON_DEVICE);
}

static void under_fire(void **state)
{
    (void)state;
    attack_models(models, sizeof models / sizeof *models, split_experts, swap_any);
}

/* Experts that the device computes as the file stores them: plain ones, with biases, with a shared one, beside a network. */
static const swapped_model stock[] = {
    {GOLDEN "/qwen3-moe/model.gguf", HEARTH_MODE_DENSE, false},
    {GOLDEN "/gpt-oss/model.gguf", HEARTH_MODE_DENSE, false},
    {GOLDEN "/dots1/model.gguf", HEARTH_MODE_DENSE, false},
    {GOLDEN "/gemma4-moe/model.gguf", HEARTH_MODE_DENSE, false},
};

/* The same, where each side has its experts' matrices and nobody has rows of neurons. */
static void swap_stock(const hearth_engine *e, uint32_t *seed, uint64_t *bytes)
{
    assert_int_equal(hearth_engine_own_bytes(e), 0);
    swap_any(e, seed, bytes);
}

static void as_stored_under_fire(void **state)
{
    (void)state;
    attack_models(stock, sizeof stock / sizeof *stock, split_between_experts, swap_stock);
}

/* ------------------------------------------------------------------ a copy that fails */

static hearth_status swap_some(const hearth_engine *e, uint64_t *bytes, hearth_error *error)
{
    uint32_t seed = 1, layer = draw_layer(e, &seed), leave = draw_expert(e, layer, EXPERT_ON_DEVICE, &seed);
    return engine_swap_expert(e, layer, leave, draw_expert(e, layer, EXPERT_ON_CPU, &seed), bytes, error);
}

static void failing_copies(void **state)
{
    (void)state;
    /* gate, up, down, and which places two experts have and whose they are; then with masks, then with biases */
    assert_int_equal(fail_copies(&models[0], split_experts, swap_some), 6);
    assert_int_equal(fail_copies(&models[3], split_experts, swap_some), 7);
    assert_int_equal(fail_copies(&models[4], split_experts, swap_some), 8);
    assert_int_equal(fail_copies(&stock[0], split_between_experts, swap_some), 6);
}

/* ------------------------------------------------------------------ hot sets */

typedef struct watch {
    const hearth_engine *engine;
    uint64_t active, on_device;
} watch;

static void see(void *user, const hearth_observation *o)
{
    watch *w = user;
    const device_layer *there = &w->engine->uploaded->layers[o->layer];
    uint32_t f = w->engine->model->layers[o->layer].ffn.expert_neurons;
    for (size_t i = 0; i < o->expert_count; i++) {
        w->active += f;
        for (uint32_t place = 0; place < there->neuron_count; place++)
            w->on_device += there->rows[place] / f == o->experts[i];
    }
}

/* What is counted is what an observer sees. */
static void counts(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 1);
        stack s;
        open_followed(&s, runtime, &models[0], split_experts, HEARTH_HOT_SET_STATIC);
        watch w = {.engine = s.engine};
        hearth_session_observe(s.session, &(hearth_observer){.see = see, .user = &w});
        hearth_hot_report r = read_long(&s, 3);
        assert_int_equal(r.layers, s.info.layer_count);
        assert_int_equal(r.swaps, 0);
        assert_true(w.active > 0 && w.on_device > 0 && w.on_device < w.active);
        assert_int_equal(r.active, w.active);
        assert_int_equal(r.on_device, w.on_device);
        close_swapped(&s, &models[0]);
        hearth_runtime_destroy(runtime);
    }
}

static void live(void **state)
{
    (void)state;
    follow_model(&models[5], split_experts);
    follow_model(&stock[2], split_between_experts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_fire),     cmocka_unit_test(as_stored_under_fire),
        cmocka_unit_test(failing_copies), cmocka_unit_test(counts),
        cmocka_unit_test(live),
    };
    return run_group(tests, NULL, NULL);
}
