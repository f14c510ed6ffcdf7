/* engine_golden.c - the forward pass against two independent implementations (tests/data), at every level that
 * this CPU has. */
#include "../src/kernel/kernel.h"

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
    print_message("%-18s %-18s %-8s relative L2 %.2e (bound %.0e)\n", name, strrchr(path, '/') + 1, level, distance,
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

static void block_models(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-256-q4_0", "llama-256-q4_k_m"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        char path[600];
        golden_load(&g, names[i]);
        golden_path(path, sizeof path, names[i], "model.gguf");
        check_model(names[i], path, &g, HEARTH_ACTIVATIONS_F32, 1e-5, true);
        check_model(names[i], path, &g, HEARTH_ACTIVATIONS_AUTO, 8e-2, false);
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
        cmocka_unit_test(block_models),
        cmocka_unit_test(observers_see_active_neurons),
    };
    return run_group(tests, NULL, NULL);
}
