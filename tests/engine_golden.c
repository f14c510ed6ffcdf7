/* engine_golden.c - the forward pass against two independent implementations (tests/data), at every level that
 * this CPU has. */
#include "../src/kernel/kernel.h"
#include "../src/model/model.h"

#include "golden.h"

static const hearth_session_options all_rows = {.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32};

/* Continues the prompt greedily, token by token, and holds every choice against the golden. */
static void check_greedy(stack *s, const golden *g)
{
    float *logits = malloc(64 * g->vocabulary * sizeof *logits);
    stack_feed(s, 0, g->ids, g->prompt, logits);
    int32_t next = argmax(logits + (g->prompt - 1) * g->vocabulary, g->vocabulary);
    for (size_t i = g->prompt; i < g->total; i++) {
        assert_int_equal(next, g->ids[i]);
        stack_feed(s, 0, &next, 1, logits);
        next = argmax(logits, g->vocabulary);
    }
    free(logits);
}

/* All logits within the bound, from one feed and (where greedy is asked for) token by token. */
static void check_level(const char *level, const char *name, const char *path, const golden *g,
                        hearth_activations activations, double bound, bool greedy)
{
    stack s;
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_open_at(&s, level, path, 2, activations, all_rows);
    assert_string_equal(hearth_runtime_cpu_level(s.runtime), level);
    assert_int_equal(s.info.vocabulary_size, g->vocabulary);
    stack_feed(&s, 0, g->ids, g->total, logits);
    double distance = relative_l2(logits, g->logits, g->total * g->vocabulary);
    print_message("%-18s %-18s %-12s relative L2 %.2e (bound %.0e)\n", name, strrchr(path, '/') + 1, level, distance,
                  bound);
    assert_true(distance <= bound);
    if (greedy) {
        assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
        check_greedy(&s, g);
    }
    stack_close(&s);
    free(logits);
}

static void check_model(const char *name, const char *path, const golden *g, hearth_activations activations,
                        double bound, bool greedy)
{
    for (size_t level = 0; level < kernel_level_count(); level++)
        if (kernel_level_present(level))
            check_level(kernel_level_name(level), name, path, g, activations, bound, greedy);
}

static void float_models(void **state)
{
    (void)state;
    static const char *const names[] = {"llama",          "llama-gqa",       "llama-rope-linear", "llama-rope-llama3",
                                        "llama-256",      "llama-rope-yarn", "mistral",           "llama-relu",
                                        "llama-relu-gqa", "llama-fatrelu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        char path[600];
        golden_load(&g, names[i]);
        check_model(names[i], golden_path(path, sizeof path, names[i], "model.gguf"), &g, HEARTH_ACTIVATIONS_AUTO, 1e-5,
                    true);
        check_model(names[i], g.folder, &g, HEARTH_ACTIVATIONS_AUTO, 1e-5, true);
        golden_free(&g);
    }
}

static const char *const block_names[] = {"llama-256-q4_0", "llama-256-q4_k_m"};
#define BLOCK_MODELS (sizeof block_names / sizeof *block_names)

static void block_models_in_float32(void **state)
{
    (void)state;
    for (size_t i = 0; i < BLOCK_MODELS; i++) {
        golden g;
        char path[600];
        golden_load(&g, block_names[i]);
        golden_path(path, sizeof path, block_names[i], "model.gguf");
        check_model(block_names[i], path, &g, HEARTH_ACTIVATIONS_F32, 1e-5, true);
        golden_free(&g);
    }
}

/* ------------------------------------------------------------------ activations of 8 bits */

/* Two levels that round activations alike still differ: sums are ordered otherwise, so values differ by some 3e-7 of
 * their size, and one of them may lie on the other side of a boundary. Per value, with a step of max / 127, that has a
 * probability of 127 * 3e-7 * |x| / max, about 1e-5; a token of these models rounds some 3000 values. Once it has
 * happened, everything behind it differs by about a step and rounds differently too, up to the whole noise of the
 * rounding: no bound on a text's distance means anything. But of short texts seven in eight have no such value, and
 * those agree as float32 does. So: the median over texts of PIECE tokens is at most 1e-5. */
#define PIECE 4

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The logits of the golden's ids, each PIECE of them a text of its own. */
static void read_pieces(stack *s, const golden *g, float *logits)
{
    for (size_t at = 0; at + PIECE <= g->total; at += PIECE) {
        assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
        stack_feed(s, 0, g->ids + at, PIECE, logits + at * g->vocabulary);
    }
}

static double median_distance(const float *got, const float *want, const golden *g)
{
    double distances[64] = {0};
    size_t n = PIECE * g->vocabulary, count = g->total / PIECE;
    for (size_t i = 0; i < count; i++)
        distances[i] = relative_l2(got + i * n, want + i * n, n);
    qsort(distances, count, sizeof *distances, ascending);
    return distances[count / 2];
}

/* One scale of one block, of the first row of the last layer's up, is twice what the file says. */
static void open_faulty(stack *s, const char *path, void **copy)
{
    hearth_error error;
    hearth_runtime_options runtime = {.threads = 2, .cpu_level = "scalar"};
    *s = (stack){0};
    stack_check(hearth_runtime_create(&s->runtime, &runtime, &error), &error);
    stack_check(hearth_model_open(&s->model, path, NULL, &error), &error);
    matrix *up = &s->model->layers[s->model->hyper.layer_count - 1].up;
    assert_true(up->format == FORMAT_Q4_0 || up->format == FORMAT_Q4_K); /* whose blocks begin with a float16 */
    *copy = malloc(up->rows * up->row_bytes);
    memcpy(*copy, up->data, up->rows * up->row_bytes);
    uint16_t scale;
    memcpy(&scale, *copy, sizeof scale);
    scale = (uint16_t)(scale + 0x400); /* the exponent's last bit */
    memcpy(*copy, &scale, sizeof scale);
    up->data = *copy;
    stack_check(hearth_engine_create(&s->engine, s->runtime, s->model, NULL, &error), &error);
    stack_check(hearth_session_create(&s->session, s->engine, &all_rows, &error), &error);
}

static void levels_round_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < BLOCK_MODELS; i++) {
        golden g;
        char path[600];
        golden_load(&g, block_names[i]);
        golden_path(path, sizeof path, block_names[i], "model.gguf");
        size_t n = g.total * g.vocabulary;
        float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
        stack s;
        stack_open_at(&s, "scalar", path, 2, HEARTH_ACTIVATIONS_AUTO, all_rows);
        read_pieces(&s, &g, want);
        stack_close(&s);
        for (size_t level = 1; level < kernel_level_count(); level++) {
            if (!kernel_level_present(level))
                continue;
            stack_open_at(&s, kernel_level_name(level), path, 2, HEARTH_ACTIVATIONS_AUTO, all_rows);
            read_pieces(&s, &g, got);
            stack_close(&s);
            double median = median_distance(got, want, &g);
            print_message("%-18s %-12s from scalar, both in 8 bits: median %.2e\n", block_names[i],
                          kernel_level_name(level), median);
            assert_true(median <= 1e-5);
        }
        /* What the bound is worth: the smallest fault a kernel could make is a hundred times that. */
        void *copy;
        open_faulty(&s, path, &copy);
        read_pieces(&s, &g, got);
        stack_close(&s);
        free(copy);
        double fault = median_distance(got, want, &g);
        print_message("%-18s with one wrong scale of one block: median %.2e\n", block_names[i], fault);
        assert_true(fault > 1e-5);
        free(got);
        free(want);
        golden_free(&g);
    }
}

/* And rounding itself is what it should be: a value's error is uniform within a step, max / 127 wide, so the relative
 * one of a block of 32 is (max / rms) / (127 * sqrt(12)), at most sqrt(32) / 440 = 1.3e-2. A layer rounds four vectors
 * (of the attention and of the network, before and inside), the head one; errors that know nothing of each other add up
 * in squares. */
static void rounding_costs_what_it_must(void **state)
{
    (void)state;
    for (size_t i = 0; i < BLOCK_MODELS; i++) {
        golden g;
        char path[600];
        stack s;
        golden_load(&g, block_names[i]);
        stack_open_at(&s, "scalar", golden_path(path, sizeof path, block_names[i], "model.gguf"), 2,
                      HEARTH_ACTIVATIONS_AUTO, all_rows);
        float *got = malloc(g.total * g.vocabulary * sizeof *got);
        stack_feed(&s, 0, g.ids, g.total, got);
        double distance = relative_l2(got, g.logits, g.total * g.vocabulary);
        double bound = 1.3e-2 * sqrt(4.0 * s.info.layer_count + 1);
        print_message("%-18s 8 bits from the golden: %.2e (bound %.1e)\n", block_names[i], distance, bound);
        assert_true(distance <= bound);
        stack_close(&s);
        free(got);
        golden_free(&g);
    }
}

/* ------------------------------------------------------------------ observers */

typedef struct watch {
    uint8_t *want; /* [layers][rows][f] from active.u8 */
    uint32_t rows, calls, neurons;
    uint64_t differing, active;
} watch;

static void watch_layer(void *user, const hearth_observation *o)
{
    watch *w = user;
    w->calls++;
    const uint8_t *want = w->want + ((size_t)o->layer * w->rows + o->position) * w->neurons;
    assert_non_null(o->neurons); /* exact is what a ReLU model runs on */
    size_t listed = 0;
    for (uint32_t i = 0; i < w->neurons; i++) {
        bool active = listed < o->neuron_count && o->neurons[listed] == i;
        if (active)
            assert_true(o->activations[listed++] != 0);
        w->active += active;
        w->differing += active != (want[i] != 0);
    }
    assert_int_equal(listed, o->neuron_count);
}

static void check_neurons(const char *level, const char *name, const golden *g)
{
    stack s;
    char path[600];
    stack_open_at(&s, level, golden_path(path, sizeof path, name, "model.gguf"), 2, HEARTH_ACTIVATIONS_AUTO, all_rows);
    size_t n = (size_t)s.info.layer_count * g->total * s.info.neuron_count;
    watch w = {.want = malloc(n), .rows = (uint32_t)g->total, .neurons = s.info.neuron_count};
    FILE *f = fopen(golden_path(path, sizeof path, name, "active.u8"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(w.want, 1, n, f), n);
    fclose(f);
    hearth_session_observe(s.session, &(hearth_observer){.see = watch_layer, .user = &w});
    stack_feed(&s, 0, g->ids, g->total, NULL);
    assert_int_equal(w.calls, s.info.layer_count * g->total);
    print_message("%s %s: density %.4f, %llu of %zu neurons differ\n", name, level, (double)w.active / (double)n,
                  (unsigned long long)w.differing, n);
    assert_true(w.differing * 10000 <= 3 * n); /* the README: at most a few entries per 10000 */
    free(w.want);
    stack_close(&s);
}

/* The neurons that an observer sees firing are those of the reference. */
static void observers_see_active_neurons(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-relu", "llama-relu-gqa", "llama-fatrelu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_load(&g, names[i]);
        for (size_t level = 0; level < kernel_level_count(); level++)
            if (kernel_level_present(level))
                check_neurons(kernel_level_name(level), names[i], &g);
        golden_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_models),
        cmocka_unit_test(block_models_in_float32),
        cmocka_unit_test(levels_round_alike),
        cmocka_unit_test(rounding_costs_what_it_must),
        cmocka_unit_test(observers_see_active_neurons),
    };
    return run_group(tests, NULL, NULL);
}
