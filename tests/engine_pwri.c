/* engine_pwri.c - PowerInfer files in all modes against two references (tests/data): a float64 forward pass
 * without rounding, and what PowerInfer itself computed. */
#include "modes.h"

enum { TOKENS = 16, LAYERS = 2 };

static const struct {
    const char *family, *type;
} files[] = {
    {"llama", "f32"}, {"llama", "f16"}, {"llama", "q4_0"}, {"bamboo", "f32"}, {"bamboo", "f16"}, {"bamboo", "q4_0"},
    {"opt", "f32"},   {"opt", "f16"},   {"opt", "q4_0"},   {"falcon", "f32"}, {"falcon", "f16"}, {"falcon", "q4_0"},
};
#define FILES (sizeof files / sizeof *files)

typedef struct pwri_case {
    const char *family, *type;
    char model[600];
    int32_t ids[GOLDEN_MOST];
    uint32_t vocabulary, f;
} pwri_case;

static char *case_path(char *out, size_t size, const pwri_case *c, const char *suffix)
{
    snprintf(out, size, GOLDEN "/pwri/%s/%s.%s", c->family, c->type, suffix);
    return out;
}

/* Skips the test where there is no reference data. */
static void case_load(pwri_case *c, size_t file)
{
    char path[600], name[32];
    json_t *root;
    *c = (pwri_case){.family = files[file].family, .type = files[file].type};
    snprintf(path, sizeof path, GOLDEN "/pwri/%s/cases.json", c->family);
    assert_int_equal(json_parse_file(&root, path, NULL), HEARTH_OK);
    snprintf(name, sizeof name, "%s.gguf", c->type);
    const json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(root); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(root, i), "file")), name))
            found = json_array_get(root, i);
    assert_non_null(found);
    assert_int_equal(golden_read_ids(json_object_get(found, "ids"), c->ids), TOKENS);
    c->vocabulary = (uint32_t)json_integer_value(json_object_get(found, "n_vocab"));
    c->f = (uint32_t)json_integer_value(json_object_get(found, "n_ff"));
    assert_int_equal(json_integer_value(json_object_get(found, "n_layer")), LAYERS);
    json_decref(root);
    case_path(c->model, sizeof c->model, c, "gguf");
}

/* A file of exactly that size; freed with free. */
static void *case_read(const pwri_case *c, const char *suffix, size_t size)
{
    char path[600];
    uint8_t *data = malloc(size + 1);
    FILE *f = fopen(case_path(path, sizeof path, c, suffix), "rb");
    assert_non_null(f);
    assert_int_equal(fread(data, 1, size + 1, f), size);
    fclose(f);
    return data;
}

static double distance_to(const pwri_case *c, const float *logits, const char *suffix)
{
    size_t n = (size_t)TOKENS * c->vocabulary;
    float *want = case_read(c, suffix, n * sizeof *want);
    double distance = relative_l2(logits, want, n);
    free(want);
    return distance;
}

static void check_distance(const pwri_case *c, const setup *o, const char *suffix, double bound)
{
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        float *logits = read_model(c->model, o, c->ids, TOKENS, one_by_one);
        double distance = distance_to(c, logits, suffix);
        free(logits);
        if (!one_by_one || !(distance <= bound))
            print_message("%-6s %-4s %-9s %-7s to %-14s %.2e (bound %.1e)\n", c->family, c->type,
                          hearth_mode_name(o->mode), o->level, suffix, distance, bound);
        assert_true(distance <= bound);
    }
}

static void without_rounding_the_reference(void **state)
{
    (void)state;
    static const char *const want[HEARTH_MODE_COUNT] = {[HEARTH_MODE_DENSE] = "dense.f32",
                                                        [HEARTH_MODE_EXACT] = "dense.f32",
                                                        [HEARTH_MODE_PREDICTED] = "reference.f32"};
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        for (size_t l = 0; level_at(l); l++)
            for (int r = HEARTH_MODE_DENSE; r <= HEARTH_MODE_PREDICTED; r++)
                check_distance(&c, &(setup){.mode = (hearth_mode)r, .level = level_at(l), .plain = true}, want[r],
                               1e-5);
    }
}

/* PowerInfer rounds too, where and how it chooses; how far that takes it from the reference is in the data. The default may
 * take hearth twice as far, not more. */
static void rounding_costs_what_it_costs_powerinfer(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        size_t n = (size_t)TOKENS * c.vocabulary;
        float *powerinfer = case_read(&c, "powerinfer.f32", n * sizeof *powerinfer);
        double theirs = distance_to(&c, powerinfer, "reference.f32");
        free(powerinfer);
        print_message("%-6s %-4s PowerInfer is %.2e from the reference\n", c.family, c.type, theirs);
        for (size_t l = 0; level_at(l); l++)
            check_distance(&c, &(setup){.mode = HEARTH_MODE_PREDICTED, .level = level_at(l)}, "reference.f32",
                           2 * theirs);
    }
}

/* ------------------------------------------------------------------ neurons */

#define BIT(bits, i) ((bits)[(i) / 8] >> ((i) % 8) & 1)

typedef struct watch {
    uint8_t *let_through, *fired; /* [LAYERS][TOKENS][f] */
    uint32_t f, calls;
} watch;

static void watch_layer(void *user, const hearth_observation *o)
{
    watch *w = user;
    size_t at = ((size_t)o->layer * TOKENS + o->position) * w->f;
    w->calls++;
    assert_non_null(o->neurons);
    for (size_t i = 0; i < o->neuron_count; i++) {
        assert_true(o->neurons[i] < w->f);
        assert_true(i == 0 || o->neurons[i - 1] < o->neurons[i]);
        w->let_through[at + o->neurons[i]] = 1;
        w->fired[at + o->neurons[i]] = o->activations[i] != 0;
    }
}

/* What was seen is what the reference says, and the counts are its sums. */
static void check_watch(const stack *s, const pwri_case *c, const watch *w)
{
    size_t n = (size_t)LAYERS * TOKENS * c->f;
    uint8_t *predicted = case_read(c, "predicted.bits", n / 8), *active = case_read(c, "active.bits", n / 8);
    uint64_t computed[LAYERS] = {0}, firing[LAYERS] = {0};
    for (size_t i = 0; i < n; i++) {
        bool through = BIT(predicted, i), fires = through && BIT(active, i);
        if (w->let_through[i] != through || w->fired[i] != fires)
            fail_msg("%s: layer %zu, token %zu, neuron %zu: let through %d, fires %d, expected %d, %d", c->model,
                     i / c->f / TOKENS, i / c->f % TOKENS, i % c->f, w->let_through[i], w->fired[i], through, fires);
        computed[i / c->f / TOKENS] += through;
        firing[i / c->f / TOKENS] += fires;
    }
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        hearth_counts counts;
        assert_int_equal(hearth_session_counts(s->session, layer, &counts, NULL), HEARTH_OK);
        assert_int_equal(counts.rows, TOKENS);
        assert_int_equal(counts.computed, computed[layer]);
        assert_int_equal(counts.active, firing[layer]);
        /* with ReLU on gate alone what fires is active; on both, up still makes some zero */
        assert_true(strcmp(c->family, "bamboo") == 0 ? counts.fired > counts.active : counts.fired == counts.active);
        assert_true(counts.fired <= counts.computed);
    }
    free(predicted);
    free(active);
}

static void check_neurons(const pwri_case *c, const char *level)
{
    stack s;
    size_t n = (size_t)LAYERS * TOKENS * c->f;
    float *logits = malloc((size_t)TOKENS * c->vocabulary * sizeof *logits);
    stack_open_mode(&s, c->model, &(setup){.mode = HEARTH_MODE_PREDICTED, .level = level, .plain = true});
    assert_string_equal(hearth_mode_name(hearth_engine_mode(s.engine)), "predicted");
    assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), "lossy");
    assert_int_equal(hearth_engine_own_bytes(s.engine), 0);
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        watch w = {.let_through = calloc(n, 1), .fired = calloc(n, 1), .f = c->f};
        hearth_session_observe(s.session, &(hearth_observer){.see = watch_layer, .user = &w});
        hearth_session_reset_counts(s.session);
        stack_read(&s, c->ids, TOKENS, one_by_one, logits);
        assert_int_equal(w.calls, LAYERS * TOKENS);
        check_watch(&s, c, &w);
        free(w.let_through);
        free(w.fired);
    }
    stack_close(&s);
    free(logits);
}

static void neurons_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        for (size_t l = 0; level_at(l); l++)
            check_neurons(&c, level_at(l));
    }
}

/* --------------------------------------------------------- one mode against another */

static void exact_is_dense(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        expect_exact_is_dense(c.model, c.ids, TOKENS, c.vocabulary);
    }
}

/* A predictor that never says no leaves exact, to the byte; one that always does leaves no network at all. */
static void thresholds(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        size_t size = (size_t)TOKENS * c.vocabulary * sizeof(float);
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            float *want = read_model(c.model, &(setup){.mode = HEARTH_MODE_EXACT}, c.ids, TOKENS, one_by_one);
            float *got = read_model(c.model, &(setup){.mode = HEARTH_MODE_PREDICTED, .permissive = true}, c.ids, TOKENS,
                                    one_by_one);
            assert_memory_equal(got, want, size);
            stack s;
            hearth_counts counts;
            stack_open_mode(&s, c.model, &(setup){.mode = HEARTH_MODE_PREDICTED, .mute = true});
            stack_read(&s, c.ids, TOKENS, one_by_one, got);
            assert_int_equal(hearth_session_counts(s.session, 0, &counts, NULL), HEARTH_OK);
            assert_int_equal(counts.rows, TOKENS);
            assert_int_equal(counts.computed + counts.fired + counts.active, 0);
            assert_true(relative_l2(got, want, (size_t)TOKENS * c.vocabulary) > 1e-2);
            assert_int_equal(hearth_session_counts(s.session, LAYERS, &counts, NULL), HEARTH_INVALID);
            stack_close(&s);
            free(got);
            free(want);
        }
    }
}

/* Predicted: the same bytes 100 times over, and with any number of threads. */
static void deterministic(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        case_load(&c, i);
        size_t size = (size_t)TOKENS * c.vocabulary * sizeof(float);
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            setup o = {.mode = HEARTH_MODE_PREDICTED, .threads = 1};
            float *want = read_model(c.model, &o, c.ids, TOKENS, one_by_one), *got = malloc(size);
            for (o.threads = 2; o.threads <= 3; o.threads++) {
                stack s;
                stack_open_mode(&s, c.model, &o);
                for (unsigned run = 0; run < (o.threads == 2 ? 100u : 5u); run++) {
                    stack_read(&s, c.ids, TOKENS, one_by_one, got);
                    assert_memory_equal(got, want, size);
                }
                stack_close(&s);
            }
            free(want);
            free(got);
        }
    }
}

/* What nobody asked for is never lossy: a PowerInfer file runs exact. */
static void never_lossy_by_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        pwri_case c;
        stack s;
        case_load(&c, i);
        stack_open_mode(&s, c.model, &(setup){.mode = HEARTH_MODE_AUTO});
        assert_string_equal(hearth_mode_name(hearth_engine_mode(s.engine)), "exact");
        assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s.engine)), "bitwise");
        stack_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rounding_the_reference),
        cmocka_unit_test(rounding_costs_what_it_costs_powerinfer),
        cmocka_unit_test(neurons_are_the_references),
        cmocka_unit_test(exact_is_dense),
        cmocka_unit_test(thresholds),
        cmocka_unit_test(deterministic),
        cmocka_unit_test(never_lossy_by_default),
    };
    return run_group(tests, NULL, NULL);
}
