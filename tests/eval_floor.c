/* The least time of a token, from the sizes of the matrices: on one side, on the other, and on both at once. */
#include "../src/eval/floor.h"

#include "golden.h"

#define MODEL     HEARTH_DATA "/models/stories260K-relu"
#define POSITIONS 10.0

enum { LAYERS = 5, MOST_LAYERS = 8 };

/* An engine beside a host device, and what floor_find is asked of it: all neurons, and a byte per second on both sides. */
typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_counts counts[MOST_LAYERS], device_counts[MOST_LAYERS];
    floor_question question;
    double total; /* bytes that a token reads, keys and values included */
} fixture;

/* Gives the device the last `layers` layers with so many neurons of each. */
static void open_engine(fixture *f, uint32_t layers, uint32_t neurons)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_runtime_options options = {.threads = 1, .device = "host"};
    *f = (fixture){0};
    stack_check(hearth_runtime_create(&f->runtime, &options, &error), &error);
    stack_check(hearth_model_open(&f->model, MODEL, NULL, &error), &error);
    stack_check(hearth_placement_create(&placement, f->model, HEARTH_MODE_EXACT, &error), &error);
    if (layers > 0)
        stack_check(hearth_placement_use_device(placement, f->model, layers, neurons, &error), &error);
    hearth_engine_options of = {.placement = placement};
    stack_check(hearth_engine_create(&f->engine, f->runtime, f->model, &of, &error), &error);
    hearth_placement_destroy(placement);
    assert_int_equal(f->model->hyper.layer_count, LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint64_t all = f->model->layers[i].ffn.neuron_count;
        uint64_t there = layer_neurons(&f->engine->placement->layers[i], PLACEMENT_DEVICE);
        f->counts[i] = (hearth_counts){.rows = 1, .computed = all, .fired = all, .active = all};
        f->device_counts[i] = (hearth_counts){.computed = there, .fired = there, .active = there};
    }
    f->question = (floor_question){.engine = f->engine,
                                   .counts = f->counts,
                                   .device_counts = f->device_counts,
                                   .scale = 1,
                                   .positions = POSITIONS,
                                   .kv = HEARTH_KV_F16,
                                   .cpu_rate = 1,
                                   .device_rate = 1};
    f->total = (double)hearth_engine_token_bytes(f->engine) +
               POSITIONS * (double)engine_position_bytes(f->engine, HEARTH_KV_F16);
}

/* Of golden deepseek4. */
#define V4_KEPT (4 * (3 * 3 * 2 * (64 + 64) + 2 * 3 * 64))

/* What is read of what is kept: of layers with a window no more positions than it has, of layers that choose them so many, and what
 * scores all, keys and matrices; nothing is scored where all are seen. By the shapes of small models, in F16 and BF16. */
static void read_positions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double positions, bytes;
    } cases[] = {
        {"gemma3", 10, 2 * 10 * 6 * 2 * 16}, /* 6 layers with a key and a value of 16, of which 5 see 16 positions */
        {"gemma3", 30.5, 2 * (30.5 + 5 * 16) * 2 * 16},
        {"deepseek32", 12, 2 * 12 * 3 * 40}, /* 3 layers with a key of 40, which see 12 ... */
        /* ... and score by a key of 64, by 6 queries of 64 made of 24 values, and by 6 weights made of 64 */
        {"deepseek32", 31, 2 * 3 * (12 * 40 + 31 * 64 + 6 * 64 * 24 + 6 * 64)},
        /* 6 layers with a key of 64, which see 16; 3 have summaries of 4 positions and see the best 6, by keys of 64, by 16 queries of
         * 64 made of 24 values, and by 16 weights made of 64; 2 have summaries of 128. What is kept of unfinished ones: 3 floats of
         * each column, of 2 parts where they are of 4. */
        {"deepseek4", 20, 2 * (6 * 16 * 64 + 3 * 5 * 64 + 2 * 20.0 / 128 * 64) + V4_KEPT},
        {"deepseek4", 60,
         2 * (6 * 16 * 64 + 3 * (6 * 64 + 15 * 64 + 16 * 64 * 24 + 16 * 64) + 2 * 60.0 / 128 * 64) + V4_KEPT},
        /* 4 layers with 2 keys and values of 20; 3 of them see 16 and score each position by a key of 24, by 2 queries of 24 */
        {"minimax-m3", 31, 2 * (31 * 80 + 3 * (16 * 80 + 31 * 24 + 2 * 24 * 64))},
        {"glm-dsa", 31, 2 * (5 * 12 * 40 + 2 * (31 * 64 + 6 * 64 * 24 + 6 * 64))}}; /* of 5 layers 2 choose */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[600];
        stack s;
        stack_open(&s, golden_path(path, sizeof path, cases[i].name, ""), 1, HEARTH_ACTIVATIONS_AUTO,
                   (hearth_session_options){.context = 64});
        double got = engine_side_reads_kept(s.engine, HEARTH_KV_F16, cases[i].positions, false);
        if (fabs(got - cases[i].bytes) >= 1e-6)
            fail_msg("%s: %g, not %g", cases[i].name, got, cases[i].bytes);
        assert_true(engine_side_reads_kept(s.engine, HEARTH_KV_F16, cases[i].positions, true) == 0);
        stack_close(&s);
    }
}

static void close_engine(fixture *f)
{
    hearth_engine_destroy(f->engine);
    hearth_model_close(f->model);
    hearth_runtime_destroy(f->runtime);
}

/* Returns the bytes of a neuron: its rows of gate, up and the transposed down. */
static double neuron_bytes(const fixture *f, uint32_t layer)
{
    const model_layer *l = &f->model->layers[layer];
    return (double)(l->gate.row_bytes + l->up.row_bytes + f->engine->layers[layer].down_t.row_bytes);
}

static void expect(double value, double expected)
{
    if (!(fabs(value / expected - 1) < 1e-9))
        fail_msg("%.17g, not %.17g", value, expected);
}

static void one_side(void **state)
{
    (void)state;
    fixture f;
    open_engine(&f, 0, 0);
    f.question.cpu_rate = 4;
    expect(floor_find(&f.question).seconds, f.total / 4);
    assert_true(floor_find(&f.question).device_bytes == 0);
    f.question.device_rate = 0; /* is not asked */
    expect(floor_find(&f.question).seconds, f.total / 4);
    f.question.scale = 0.5; /* keys and values are each sequence's own */
    double kept = POSITIONS * (double)engine_position_bytes(f.engine, HEARTH_KV_F16);
    expect(floor_find(&f.question).seconds, (kept + (f.total - kept) / 2) / 4);
    close_engine(&f);

    open_engine(&f, LAYERS, UINT32_MAX);
    f.question.cpu_rate = 1e300;
    f.question.device_rate = 4;
    double there =
        f.total - (double)f.model->embedding.row_bytes; /* which a placement like this one leaves to the CPU */
    assert_int_equal(f.engine->placement->embedding, PLACEMENT_CPU);
    expect(floor_find(&f.question).seconds, there / 4);
    expect(floor_find(&f.question).device_bytes, there);
    f.question.device_rate = 0;
    assert_true(isnan(floor_find(&f.question).seconds));
    close_engine(&f);
}

/* Two layers with a quarter of their neurons on the device: sides read their neurons at the same time, all else in turn. */
static void both_sides(void **state)
{
    (void)state;
    fixture f;
    const uint32_t layers = 2;
    double together = 0, mixers = 0;
    open_engine(&f, layers, 43);
    for (uint32_t i = LAYERS - layers; i < LAYERS; i++) {
        const model_layer *l = &f.model->layers[i];
        together += 43 * neuron_bytes(&f, i);
        mixers += (double)(matrix_bytes(&l->q) + matrix_bytes(&l->k) + matrix_bytes(&l->v) +
                           matrix_bytes(&l->attention_output)) +
                  2 * f.model->hyper.embedding_length * sizeof(float) +
                  POSITIONS * (double)engine_position_bytes(f.engine, HEARTH_KV_F16) / LAYERS;
    }
    expect(floor_find(&f.question).device_bytes, mixers + together);
    expect(floor_find(&f.question).seconds, f.total - together);
    f.question.cpu_rate = 1e300;
    expect(floor_find(&f.question).seconds, mixers + together);
    f.question.cpu_rate = 1;
    f.question.device_rate = 1e300;
    expect(floor_find(&f.question).seconds, f.total - mixers - together);

    /* Half of the neurons fire, three quarters of these on the device. */
    f.question.device_rate = 1;
    f.question.cpu_rate = 1e300;
    for (uint32_t i = 0; i < LAYERS; i++)
        f.counts[i].fired = f.counts[i].active = f.counts[i].computed / 2;
    for (uint32_t i = LAYERS - layers; i < LAYERS; i++)
        f.device_counts[i].fired = f.device_counts[i].active = f.counts[i].active * 3 / 4;
    double first = 0, others = 0;
    for (uint32_t i = LAYERS - layers; i < LAYERS; i++) {
        const model_layer *l = &f.model->layers[i];
        first += 43 * (double)l->gate.row_bytes;
        others += (double)f.device_counts[i].active * (neuron_bytes(&f, i) - (double)l->gate.row_bytes);
    }
    expect(floor_find(&f.question).device_bytes, mixers + first + others);
    expect(floor_find(&f.question).seconds, mixers + first + others);
    close_engine(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_side),
        cmocka_unit_test(both_sides),
        cmocka_unit_test(read_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
