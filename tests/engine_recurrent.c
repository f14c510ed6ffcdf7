/* engine_recurrent.c - what is inside models with recurrent layers, against their goldens (tests/data): the residual stream
 * behind every layer, and the states after the last token, however the text is cut. */
#include "../src/engine/engine.h"

#include "golden.h"

/* The goldens are of float64: README.md there. */
static const double bound = 1e-4;

/* Models with recurrent layers. */
static const char *const cases[] = {"nemotron-h", "nemotron-h-moe", "nemotron-h-latent", "qwen3-5", "qwen3-5-moe"};

/* Reads a file of floats; freed with free. */
static float *read_floats(const char *name, const char *file, size_t count)
{
    char path[600];
    FILE *f = fopen(golden_path(path, sizeof path, name, file), "rb");
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(f);
    assert_int_equal(fread(values, sizeof *values, count + 1, f), count);
    fclose(f);
    return values;
}

/* ------------------------------------------------------------------ layers */

/* What is compared behind each layer while a feed runs. */
typedef struct watching {
    const stack *s;
    const float *expected; /* [layers][total][d] */
    size_t layer, total;
    double worst;
} watching;

/* A progress function: it is called behind each layer. */
static bool watch(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    watching *w = user;
    size_t n = w->total * w->s->info.embedding_length;
    if (w->layer < w->s->info.layer_count) {
        double distance = relative_l2(w->s->session->scratch.x, w->expected + w->layer * n, n);
        w->worst = distance > w->worst ? distance : w->worst;
    }
    w->layer++;
    return true;
}

static void check_layers(const char *name, const char *path, const golden *g)
{
    stack s;
    stack_open_at(&s, NULL, path, 2, HEARTH_ACTIVATIONS_AUTO,
                  (hearth_session_options){.context = 64, .kv = HEARTH_KV_F32});
    size_t count = (size_t)s.info.layer_count * g->total * s.info.embedding_length;
    float *expected = read_floats(name, "layers.f32", count);
    watching w = {.s = &s, .expected = expected, .total = g->total};
    s.session->progress = (hearth_progress){watch, &w};
    stack_feed(&s, 0, g->ids, g->total, NULL);
    print_message("%-18s layers %.2e\n", name, w.worst);
    assert_true(w.layer >= s.info.layer_count);
    assert_true(w.worst <= bound);
    free(expected);
    stack_close(&s);
}

/* ------------------------------------------------------------------ states */

/* Returns a value of a state as the golden has it: of DELTA [heads][key][value], in the folder's order of heads; of MAMBA2
 * [heads][value][key]. */
static float expected_value(const recurrent_shape *r, const float *expected, uint32_t head, uint32_t value,
                            uint32_t key)
{
    size_t matrix_size = (size_t)r->value_length * r->key_length, group = r->head_count / r->key_count;
    if (r->rule == RECURRENCE_MAMBA2)
        return expected[head * matrix_size + value * r->key_length + key];
    size_t there = head % r->key_count * group + head / r->key_count;
    return expected[there * matrix_size + key * r->value_length + value];
}

/* Returns the distance of all states of a session from the golden's. */
static double states_distance(const stack *s, const char *name)
{
    const recurrent_states *states = &s->session->recurrent;
    size_t count = 0, at = 0;
    for (uint32_t i = 0; i < states->layer_count; i++)
        count += recurrent_matrices(states->layers[i].shape);
    float *golden_states = read_floats(name, "state.f32", count), *want = malloc(count * sizeof *want);
    float *got = malloc(count * sizeof *got);
    for (uint32_t i = 0; i < states->layer_count; i++) {
        const recurrent_shape *r = states->layers[i].shape;
        const float *from = golden_states + at;
        const float *state = recurrent_place(states, recurrent_valid(states, 0));
        memcpy(got + at, state + states->layers[i].begin, recurrent_matrices(r) * sizeof *got);
        for (uint32_t h = 0; h < r->head_count; h++)
            for (uint32_t v = 0; v < r->value_length; v++)
                for (uint32_t k = 0; k < r->key_length; k++)
                    want[at++] = expected_value(r, from, h, v, k);
    }
    double distance = relative_l2(got, want, count);
    free(golden_states);
    free(want);
    free(got);
    return distance;
}

static void check_states(const char *name, const char *path, const golden *g, const char *level)
{
    static const size_t sizes[] = {40, 1, 7};
    stack s;
    stack_open_at(&s, level, path, 2, HEARTH_ACTIVATIONS_AUTO,
                  (hearth_session_options){.context = 64, .kv = HEARTH_KV_F32});
    assert_true(s.session->recurrent.layer_count > 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
        for (size_t at = 0; at < g->total; at += sizes[i])
            stack_feed(&s, 0, g->ids + at, g->total - at < sizes[i] ? g->total - at : sizes[i], NULL);
        double distance = states_distance(&s, name);
        print_message("%-18s %-7s pieces of %2zu: states %.2e\n", name, level, sizes[i], distance);
        assert_true(distance <= bound);
    }
    stack_close(&s);
}

static void all_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        char path[600];
        golden_load(&g, cases[i]);
        golden_path(path, sizeof path, cases[i], "model.gguf");
        for (int folder = 0; folder < 2; folder++) {
            check_layers(cases[i], folder ? g.folder : path, &g);
            for (size_t level = 0; level < kernel_level_count(); level++)
                if (kernel_level_present(level))
                    check_states(cases[i], folder ? g.folder : path, &g, kernel_level_name(level));
        }
        golden_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases)};
    return run_group(tests, NULL, NULL);
}
