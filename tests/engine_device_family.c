/* engine_device_family.c - every family on every device against its golden logits: with whole layers there, and with
 * layers that both sides share, as one feed and token by token. */
#include "../src/base/pool.h"
#include "../src/engine/device_weights.h"
#include "../src/engine/placement.h"
#include "../src/model/convert.h"
#include "../src/model/model.h"

#include "family_cases.h"
#include "placements.h"
#include "tune_build.h"

#include <unistd.h>

/* README.md of the goldens: float32 throughout. */
static const double bound = 1e-5;

/* Reads the text in feeds of `piece` tokens and returns the distance from the golden. */
static double read_in(stack *s, const golden *g, size_t piece)
{
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (size_t at = 0; at < g->total; at += piece)
        stack_feed(s, 0, g->ids + at, g->total - at < piece ? g->total - at : piece, logits + at * g->vocabulary);
    double distance = relative_l2(logits, g->logits, g->total * g->vocabulary);
    free(logits);
    return distance;
}

/* The JSON of a placement of the last `layers` layers with their first `neurons` neurons on the device; freed with
 * hearth_free. */
static char *partial_placement(const stack *s, hearth_mode mode, uint32_t layers, uint32_t neurons)
{
    hearth_placement *p;
    hearth_error error;
    char *json;
    stack_check(hearth_placement_create(&p, s->model, mode, &error), &error);
    stack_check(hearth_placement_use_device(p, s->model, layers, neurons, &error), &error);
    stack_check(hearth_placement_print(p, &json, &error), &error);
    hearth_placement_destroy(p);
    return json;
}

static void check_placement(stack *s, const golden *g, const char *name, const char *spec, hearth_mode mode,
                            const char *what, const char *json)
{
    open_placed(s, json, mode, false, golden_session(g));
    double whole = read_in(s, g, g->total), single = read_in(s, g, 1);
    print_message("%-13s %-9s %-6s %-7s %.2e %.2e\n", name, spec, hearth_mode_name(mode), what, whole, single);
    if (!(whole <= bound && single <= bound))
        fail_msg("%s on %s: expected at most %.0e under %s", name, spec, bound, json);
    close_placed(s);
}

/* A layer whose first values are cut cannot be split. */
static void check_refused_split(stack *s, hearth_mode mode, const char *json)
{
    hearth_error error;
    assert_int_equal(try_engine(s, json, mode, false, &error), HEARTH_UNSUPPORTED);
    if (!strstr(error.text, "layer 0: first values are cut above the mean of all neurons, so all must be on one side"))
        fail_msg("'%s'", error.text);
}

/* Several streams of the residual are made on the CPU. */
static void check_refused_embedding(stack *s, hearth_mode mode, const char *json)
{
    hearth_error error;
    assert_int_equal(try_engine(s, json, mode, false, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "the embedding must be on the CPU, which makes more of it"));
}

/* A layer on one side cannot read the keys of one on the other: the last layer alone is refused. */
static void check_refused_side(stack *s, hearth_mode mode)
{
    hearth_error error;
    char *json = partial_placement(s, mode, 1, UINT32_MAX), says[96];
    uint32_t last = s->model->hyper.layer_count - 1;
    uint32_t from = last - s->model->layers[last].attention.keys_back;
    snprintf(says, sizeof says, "layer %u: reads the keys and values of layer %u, which is on the CPU", last, from);
    assert_int_equal(try_engine(s, json, mode, false, &error), HEARTH_UNSUPPORTED);
    if (!strstr(error.text, says))
        fail_msg("'%s' lacks '%s'", error.text, says);
    hearth_free(json);
}

/* Layers with neurons there: whole, shared at random (so that experts are cut, too) and in halves (so that experts are
 * whole), and layers with none. */
static void check_layers(stack *s, const golden *g, const char *name, const char *spec, hearth_mode mode)
{
    placed_shape shape = shape_of(s, mode);
    placed_form whole[MOST_LAYERS], shared[MOST_LAYERS], crossed[MOST_LAYERS];
    uint32_t seed = 1;
    for (uint32_t i = 0; i < shape.layers; i++) {
        whole[i] = PLACED_DEVICE;
        shared[i] = i % 2 ? PLACED_FFN_HOST : PLACED_SPLIT;
        crossed[i] = i % 2 == 0 ? PLACED_HOST : PLACED_SPLIT;
    }
    join_sides(s->model, shared);
    bool reads_others = join_sides(s->model, crossed), cuts = join_neurons(s->model, shared);
    join_neurons(s->model, crossed);
    bool streams = s->model->hyper.stream_count > 1;
    char *all = print_placed(&shape, whole, !streams, true, &seed);
    char *some = print_placed(&shape, shared, false, true, &seed);
    char *other = print_placed(&shape, crossed, false, false, &seed);
    char *half = partial_placement(s, mode, reads_others ? shape.layers : (shape.layers + 1) / 2, shape.neurons / 2);
    char *none = partial_placement(s, mode, UINT32_MAX, 0);
    check_placement(s, g, name, spec, mode, "none", none);
    check_placement(s, g, name, spec, mode, "whole", all);
    check_placement(s, g, name, spec, mode, "shared", some);
    check_placement(s, g, name, spec, mode, "crossed", other);
    if (cuts)
        check_refused_split(s, mode, half);
    else
        check_placement(s, g, name, spec, mode, "half", half);
    char *embedded = print_placed(&shape, whole, true, true, &seed);
    if (streams)
        check_refused_embedding(s, mode, embedded);
    if (reads_others)
        check_refused_side(s, mode);
    free(embedded);
    hearth_free(half);
    hearth_free(none);
    free(all);
    free(other);
    free(some);
}

/* Checks that a model with a layer that devices cannot do is refused by that layer. Returns false: there is none. */
static bool is_refused(const stack *s, const char *name)
{
    hearth_engine *engine;
    hearth_placement *p;
    hearth_error error;
    uint32_t layer = 0, layers = s->model->hyper.layer_count;
    while (layer < layers && !device_lacks(&s->model->layers[layer]))
        layer++;
    if (layer == layers)
        return false;
    stack_check(hearth_placement_create(&p, s->model, HEARTH_MODE_DENSE, &error), &error);
    stack_check(hearth_placement_use_device(p, s->model, UINT32_MAX, UINT32_MAX, &error), &error);
    hearth_engine_options options = {.placement = p};
    assert_int_equal(hearth_engine_create(&engine, s->runtime, s->model, &options, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, device_lacks(&s->model->layers[layer])));
    print_message("%-13s refused: %s\n", name, device_lacks(&s->model->layers[layer]));
    hearth_placement_destroy(p);
    return true;
}

static void check_family(hearth_runtime *runtime, const char *spec, const char *name)
{
    golden g;
    stack s;
    char path[600];
    golden_load(&g, name);
    golden_path(path, sizeof path, name, "model.gguf");
    open_placed_model(&s, runtime, file_exists(path) ? path : g.folder);
    bool refused = is_refused(&s, name);
    for (int mode = HEARTH_MODE_DENSE; !refused && mode <= HEARTH_MODE_DENSE + model_has_zeros(s.model); mode++)
        check_layers(&s, &g, name, spec, (hearth_mode)mode);
    hearth_model_close(s.model);
    golden_free(&g);
}

static void every_family_on_every_device(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 1);
        for (size_t c = 0; c < FAMILY_CASES; c++)
            check_family(runtime, specs->text[i], family_cases[c]);
        hearth_runtime_destroy(runtime);
    }
}

/* Opens a golden and its GGUF on a device. */
static void open_golden_on(golden *g, stack *s, const char *name, const char *spec)
{
    char path[600];
    golden_load(g, name);
    open_placed_model(s, open_runtime(spec, 1), golden_path(path, sizeof path, name, "model.gguf"));
}

/* Where a layer has no matrix of values (Gemma 4 31B's, which no golden is like), they are its keys before their norm: on a
 * device as on the CPU, whose own way golden gemma4-moe proves. */
static void keys_may_be_values(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        golden g;
        stack s;
        open_golden_on(&g, &s, "gemma4-e", specs->text[i]);
        for (uint32_t layer = 0; layer < s.info.layer_count; layer++)
            s.model->layers[layer].v = (matrix){0};
        open_placed(&s, NULL, HEARTH_MODE_DENSE, false, golden_session(&g));
        assert_true(read_in(&s, &g, g.total) > 0.01); /* another model than the golden's */
        assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
        stack_feed(&s, 0, g.ids, g.total, g.logits); /* the reference from here on */
        close_placed(&s);
        char *json = partial_placement(&s, HEARTH_MODE_DENSE, UINT32_MAX, s.info.neuron_count / 2);
        check_placement(&s, &g, "keys=values", specs->text[i], HEARTH_MODE_DENSE, "half", json);
        hearth_free(json);
        hearth_model_close(s.model);
        hearth_runtime_destroy(s.runtime);
        golden_free(&g);
    }
}

/* The JSON of a placement that gives the network of each layer to one side and the experts beside it to the other. */
static char *network_beside(const stack *s, bool experts_there)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out,
            "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"device0\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[");
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        const ffn_shape *f = &s->model->layers[i].ffn;
        fprintf(out,
                "%s{\"form\":\"split\",\"selector\":\"all\",\"assignments\":[{\"side\":\"%s\",\"neurons\":[[0,%u]]},"
                "{\"side\":\"%s\",\"neurons\":[[%u,%u]]}]}",
                i > 0 ? "," : "", experts_there ? "device0" : "cpu", ffn_routed(f), experts_there ? "cpu" : "device0",
                ffn_routed(f), f->neuron_count);
    }
    fprintf(out, "]}");
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Experts on one side and the network beside them on the other: each of the two sums comes from one side alone. From a GGUF
 * file, which has gate and up of an expert one after the other, and from a folder. */
static void networks_beside_experts_may_be_apart(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (unsigned way = 0; way < 4; way++) {
            golden g;
            stack s;
            char path[600];
            golden_load(&g, "gemma4-moe");
            golden_path(path, sizeof path, "gemma4-moe", "model.gguf");
            open_placed_model(&s, open_runtime(specs->text[i], 1), way / 2 ? g.folder : path);
            char *json = network_beside(&s, way % 2);
            check_placement(&s, &g, "gemma4-moe", specs->text[i], HEARTH_MODE_DENSE, way % 2 ? "experts" : "network",
                            json);
            free(json);
            hearth_model_close(s.model);
            hearth_runtime_destroy(s.runtime);
            golden_free(&g);
        }
}

/* ------------------------------------------------------------------ experts as files store them */

/* Which experts a device computes from `down` as it is stored: their neurons are a multiple of 8 in floats, of 32 in blocks. */
static const struct stock_case {
    const char *model;
    bool as_floats, in_blocks;
} stock_cases[] = {
    {"qwen3-moe", true, true},   {"gpt-oss", true, true},    /* these have biases */
    {"dots1", true, true},       {"qwen2-moe", true, false}, /* those a shared one */
    {"gemma4-moe", true, false},                             /* beside a network */
    {"glm4-moe", false, false},
};

/* Reads a golden text under a placement (JSON, freed), as a prompt and then token by token; returns the logits, to be freed.
 * *keeps: the engine has no copies of down. */
static float *stock_logits(stack *s, const golden *g, char *json, bool plain, bool *keeps)
{
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    open_placed(s, json, HEARTH_MODE_DENSE, plain, golden_session(g));
    *keeps = hearth_engine_own_bytes(s->engine) == 0;
    stack_feed(s, 0, g->ids, g->prompt, logits);
    for (size_t i = g->prompt; i < g->total; i++)
        stack_feed(s, 0, g->ids + i, 1, logits + i * g->vocabulary);
    close_placed(s);
    hearth_free(json);
    return logits;
}

/* How a file is read: blocks: it has blocks, of which copies are rounded once more; plain: but no values of 8 bits. Where these
 * are, another order of additions rounds one of them the other way now and then, which moves all that follows. */
typedef struct stock_way {
    const char *name;
    bool blocks, plain;
    double bound;
} stock_way;

static const stock_way as_floats = {"f32", false, true, 1e-5},
                       in_blocks[] = {{"q8_0", true, true, 1e-5}, {"8 bits", true, false, 5e-2}};

/* The JSON of a placement of all layers, of which the device has every other expert, and the shared one, or those that are left over;
 * without experts all neurons. Freed with hearth_free. */
static char *experts_in_turn(const stack *s, bool even)
{
    hearth_placement *p;
    hearth_error error;
    char *json;
    uint32_t layers = s->info.layer_count, *order = malloc((size_t)layers * s->info.neuron_count * sizeof *order);
    device_share *shares = calloc(layers, sizeof *shares);
    for (uint32_t i = 0; i < layers; i++) {
        const ffn_shape *f = &s->model->layers[i].ffn;
        uint32_t *to = order + (size_t)i * s->info.neuron_count, n = 0;
        bool experts = f->router.expert_count > 0;
        for (uint32_t k = 0; k < f->neuron_count; k++)
            if (!experts || (k < ffn_routed(f) ? k / f->expert_neurons % 2 == !even : even))
                to[n++] = k;
        shares[i] = (device_share){.given = true, .neurons = n, .order = to};
    }
    stack_check(hearth_placement_create(&p, s->model, HEARTH_MODE_DENSE, &error), &error);
    stack_check(placement_share(p, s->model, shares, false, &error), &error);
    stack_check(hearth_placement_print(p, &json, &error), &error);
    hearth_placement_destroy(p);
    free(shares);
    free(order);
    return json;
}

/* Where the model is: on the CPU; on the device; on both, with whole experts on each side, or with some that are cut. */
enum { ON_CPU, ON_DEVICE, EVEN, ODD, CUT, STOCK_PLACES };

static char *stock_placement(const stack *s, int place)
{
    return place == EVEN || place == ODD ? experts_in_turn(s, place == EVEN)
                                         : partial_placement(s, HEARTH_MODE_DENSE, place == ON_CPU ? 0 : UINT32_MAX,
                                                             place == CUT ? s->info.neuron_count / 2 - 1 : UINT32_MAX);
}

/* Compares the logits of the first places; only experts that are cut need rows of neurons if stays is true, else all of layers that a
 * device has some of. */
static void compare_places(stack *s, const golden *g, const char *name, const char *spec, int places, bool stays,
                           const stock_way *way)
{
    bool keeps[STOCK_PLACES];
    float *logits[STOCK_PLACES];
    double far[STOCK_PLACES] = {0};
    size_t n = g->total * g->vocabulary;
    for (int i = 0; i < places; i++) {
        logits[i] = stock_logits(s, g, stock_placement(s, i), way->plain, &keeps[i]);
        far[i] = relative_l2(logits[i], logits[ON_CPU], n);
    }
    print_message("%-13s %-9s %-6s whole %.2e, experts in turn %.2e %.2e, cut %.2e\n", name, spec, way->name,
                  far[ON_DEVICE], far[EVEN], far[ODD], far[CUT]);
    for (int i = 0; i < places; i++) {
        assert_int_equal(keeps[i], i == ON_CPU || (i != CUT && stays));
        assert_true(far[i] <= way->bound || (i == CUT && way->blocks));
        free(logits[i]);
    }
}

static void check_stock(hearth_runtime *runtime, const char *spec, const struct stock_case *c, const char *path,
                        const stock_way *way)
{
    golden g;
    stack s;
    golden_load(&g, c->model);
    open_placed_model(&s, runtime, path);
    compare_places(&s, &g, c->model, spec, STOCK_PLACES, way->blocks ? c->in_blocks : c->as_floats, way);
    hearth_model_close(s.model);
    golden_free(&g);
}

/* What a device has no kernels for needs a row per neuron, which comes in a format that it has; so does what is skipped. */
static void other_experts_need_rows(void **state)
{
    (void)state;
    hearth_model *model;
    hearth_error error;
    char path[600];
    stack_check(hearth_model_open(&model, golden_path(path, sizeof path, "dots1", "model.gguf"), NULL, &error), &error);
    model_layer *last = &model->layers[model->hyper.layer_count - 1];
    assert_true(device_takes_stock_experts(last, SELECTOR_ALL));
    assert_false(device_takes_stock_experts(last, SELECTOR_SIGN));
    matrix *const each[] = {&last->down, &last->shared.down};
    for (size_t i = 0; i < 2; i++) {
        number_format format = each[i]->format;
        each[i]->format = FORMAT_Q5_0;
        assert_false(device_takes_stock_experts(last, SELECTOR_ALL));
        each[i]->format = format;
    }
    uint32_t neurons = last->ffn.expert_neurons;
    last->ffn.expert_neurons = 24; /* three times eight floats, but no block */
    assert_true(device_takes_stock_experts(last, SELECTOR_ALL));
    last->down.format = FORMAT_Q8_0;
    assert_false(device_takes_stock_experts(last, SELECTOR_ALL));
    last->ffn.expert_neurons = neurons;
    assert_true(device_takes_stock_experts(last, SELECTOR_ALL));
    last->down.format = FORMAT_F32;
    assert_false(device_takes_stock_experts(&model->layers[0], SELECTOR_ALL)); /* has none */
    hearth_model_close(model);
}

static void whole_experts_stay_as_stored(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    const convert_options blocks = {.format = FORMAT_Q8_0, .down_format = FORMAT_COUNT};
    pool *threads;
    hearth_error error;
    stack_check(pool_create(&threads, 1, &error), &error);
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 1);
        for (size_t k = 0; k < sizeof stock_cases / sizeof *stock_cases; k++) {
            char path[600], out[64] = "/tmp/hearth-stock-XXXXXX";
            golden_path(path, sizeof path, stock_cases[k].model, "model.gguf");
            check_stock(runtime, specs->text[i], &stock_cases[k], path, &as_floats);
            int file = mkstemp(out);
            assert_true(file >= 0);
            close(file);
            stack_check(convert_write(path, out, &blocks, threads, &error), &error);
            for (size_t w = 0; stock_cases[k].in_blocks && w < sizeof in_blocks / sizeof *in_blocks; w++)
                check_stock(runtime, specs->text[i], &stock_cases[k], out, &in_blocks[w]);
            unlink(out);
        }
        hearth_runtime_destroy(runtime);
    }
    pool_destroy(threads);
}

/* Gives the layers of a model other experts, and another network beside them, that have whole blocks: drawn, with `down` in Q8_0. */
static void make_whole_blocks(hearth_model *m, arena *memory)
{
    enum { OWN = 32, BESIDE = 64 };
    uint32_t d = m->hyper.embedding_length, seed = 4;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        model_layer *l = &m->layers[i];
        uint32_t routed = l->ffn.router.expert_count * OWN;
        l->ffn.expert_neurons = l->expert_stride = OWN;
        l->ffn.shared_neurons = BESIDE;
        l->ffn.neuron_count = routed + BESIDE;
        l->gate = made_matrix(memory, FORMAT_F16, routed, d, &seed);
        l->up = made_matrix(memory, FORMAT_F16, routed, d, &seed);
        l->down = made_matrix(memory, FORMAT_Q8_0, l->ffn.router.expert_count * d, OWN, &seed);
        l->shared.gate = made_matrix(memory, FORMAT_F16, BESIDE, d, &seed);
        l->shared.up = made_matrix(memory, FORMAT_F16, BESIDE, d, &seed);
        l->shared.down = made_matrix(memory, FORMAT_Q8_0, d, BESIDE, &seed);
    }
}

/* Of experts beside a network, as stored in blocks: the activations of the network lie behind those of the experts. (Width 72 cannot
 * be transposed in blocks, so none is cut.) */
static void networks_beside_experts_stay_as_stored(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        golden g;
        stack s;
        arena memory = {0};
        open_golden_on(&g, &s, "gemma4-moe", specs->text[i]);
        make_whole_blocks(s.model, &memory);
        hearth_model_describe(s.model, &s.info);
        for (size_t w = 0; w < sizeof in_blocks / sizeof *in_blocks; w++)
            compare_places(&s, &g, "gemma4 drawn", specs->text[i], CUT, true, &in_blocks[w]);
        hearth_model_close(s.model);
        hearth_runtime_destroy(s.runtime);
        golden_free(&g);
        arena_clear(&memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_family_on_every_device),
                                       cmocka_unit_test(keys_may_be_values),
                                       cmocka_unit_test(networks_beside_experts_may_be_apart),
                                       cmocka_unit_test(other_experts_need_rows),
                                       cmocka_unit_test(whole_experts_stay_as_stored),
                                       cmocka_unit_test(networks_beside_experts_stay_as_stored)};
    return run_group(tests, NULL, NULL);
}
