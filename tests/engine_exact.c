/* engine_exact.c - the exact mode on files of the stock layout, whose down matrices the engine transposes: the same
 * answer as dense, the claim that is made of it, and what happens when transposing fails or is cancelled. */
#include "modes.h"

#define STORIES HEARTH_DATA "/models/stories-relu"
#define RELU    HEARTH_DATA "/golden/llama-relu/model.gguf"

static const struct {
    const char *name, *file;
    size_t down_bytes; /* layers x d x f x bytes of a weight */
} goldens[] = {
    {"llama-relu", "model.gguf", 2 * 64 * 128 * 4},
    {"llama-relu", "", 2 * 64 * 128 * 2},
    {"llama-relu-gqa", "model.gguf", 2 * 64 * 128 * 4},
    {"llama-relu-gqa", "", 2 * 64 * 128 * 2},
    {"llama-fatrelu", "model.gguf", 2 * 64 * 128 * 4},
    {"llama-fatrelu", "", 2 * 64 * 128 * 2},
    {"bamboo", "", 2 * 64 * 128 * 2},
};
#define GOLDENS (sizeof goldens / sizeof *goldens)

static void expect_claim(const stack *s, const char *mode, const char *guarantee, size_t own_bytes)
{
    assert_string_equal(hearth_mode_name(hearth_engine_mode(s->engine)), mode);
    assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(s->engine)), guarantee);
    assert_int_equal(hearth_engine_own_bytes(s->engine), own_bytes);
    hearth_memory memory;
    assert_int_equal(hearth_session_memory(s->engine, NULL, &memory, NULL), HEARTH_OK);
    assert_int_equal(memory.own_bytes, own_bytes);
}

/* Logits of exact within the bound of those of dense, and of the golden's where there are any. */
static void check_exact(const char *path, const int32_t *ids, size_t count, const float *reference,
                        const char *guarantee, size_t own_bytes, double bound)
{
    const char *level;
    for (size_t l = 0; (level = level_at(l)) != NULL; l++)
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            setup dense = {.mode = HEARTH_MODE_DENSE, .level = level, .plain = true};
            setup exact = {.mode = HEARTH_MODE_EXACT, .level = level, .plain = true};
            stack s;
            stack_open_mode(&s, path, &exact);
            expect_claim(&s, "exact", guarantee, own_bytes);
            size_t n = count * s.info.vocabulary_size;
            float *got = malloc(n * sizeof *got), *want = read_model(path, &dense, ids, count, one_by_one);
            stack_read(&s, ids, count, one_by_one, got);
            double distance = relative_l2(got, want, n);
            print_message("%-60s %-7s exact to dense %.1e\n", path + strlen(HEARTH_DATA), level, distance);
            assert_true(distance <= bound);
            if (reference)
                assert_true(relative_l2(got, reference, n) <= bound);
            stack_close(&s);
            free(got);
            free(want);
        }
}

static void the_same_as_dense(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        golden g;
        char path[600];
        golden_load(&g, goldens[i].name);
        golden_path(path, sizeof path, goldens[i].name, goldens[i].file);
        check_exact(path, g.ids, g.total, g.logits, "exact", goldens[i].down_bytes, 1e-5);
        golden_free(&g);
    }
}

static void a_trained_model(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338};
    check_exact(STORIES, ids, sizeof ids / sizeof *ids, NULL, "exact", (size_t)6 * 128 * 512 * 2, 1e-5);
}

/* Block formats have to be rounded once more, and say so; dense does not transpose and claims the most. */
static void what_is_claimed(void **state)
{
    (void)state;
    static const struct {
        const char *name, *activation;
        hearth_mode mode;
        const char *guarantee;
        size_t own_bytes;
    } cases[] = {
        {"llama-relu", NULL, HEARTH_MODE_DENSE, "bitwise", 0},
        {"llama-relu", NULL, HEARTH_MODE_AUTO, "exact", 2 * 64 * 128 * 4},
        {"llama", NULL, HEARTH_MODE_AUTO, "bitwise", 0},
        {"llama-256-q4_0", "relu", HEARTH_MODE_DENSE, "bitwise", 0},
        {"llama-256-q4_0", "relu", HEARTH_MODE_EXACT, "requantised", 0},
        {"llama-256-q4_k_m", "relu", HEARTH_MODE_EXACT, "requantised", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stack s = {0};
        char path[600];
        golden_path(path, sizeof path, cases[i].name, "model.gguf");
        hearth_error error;
        hearth_model_options options = {.ffn_activation = cases[i].activation};
        stack_check(hearth_runtime_create(&s.runtime, NULL, &error), &error);
        stack_check(hearth_model_open(&s.model, path, &options, &error), &error);
        hearth_model_describe(s.model, &s.info);
        stack_open_engine(&s, &(setup){.mode = cases[i].mode});
        size_t own = cases[i].own_bytes;
        bool rounded = strcmp(cases[i].guarantee, "requantised") == 0;
        if (rounded) /* Q8_0: 34 bytes for 32 values */
            own = (size_t)s.info.layer_count * s.info.neuron_count * s.info.embedding_length / 32 * 34;
        bool dense = strcmp(cases[i].guarantee, "bitwise") == 0;
        expect_claim(&s, dense ? "dense" : "exact", cases[i].guarantee, own);
        stack_close(&s);
    }
}

/* The cost of that rounding: small, but there. */
static void requantised_is_near_dense(void **state)
{
    (void)state;
    char path[600];
    golden g;
    golden_load(&g, "llama-256-q4_0");
    golden_path(path, sizeof path, "llama-256-q4_0", "model.gguf");
    size_t n = g.total * g.vocabulary;
    float *logits[2];
    for (int r = 0; r < 2; r++) {
        stack s = {0};
        hearth_error error;
        hearth_model_options options = {.ffn_activation = "relu"};
        stack_check(hearth_runtime_create(&s.runtime, NULL, &error), &error);
        stack_check(hearth_model_open(&s.model, path, &options, &error), &error);
        hearth_model_describe(s.model, &s.info);
        stack_open_engine(&s, &(setup){.mode = r ? HEARTH_MODE_EXACT : HEARTH_MODE_DENSE, .plain = true});
        logits[r] = malloc(n * sizeof(float));
        stack_read(&s, g.ids, g.total, false, logits[r]);
        stack_close(&s);
    }
    double distance = relative_l2(logits[1], logits[0], n);
    print_message("q4_0 transposed as q8_0: %.2e from dense\n", distance);
    /* a value is off by at most half a step of 1 / 127 of its block's largest */
    assert_true(distance > 1e-5 && distance < 2e-2);
    free(logits[0]);
    free(logits[1]);
    golden_free(&g);
}

/* ------------------------------------------------------------------ neurons */

typedef struct watch {
    uint8_t *active; /* [layers][rows][f] */
    uint32_t rows, f, calls;
    bool listed;
} watch;

static void watch_layer(void *user, const hearth_observation *o)
{
    watch *w = user;
    w->calls++;
    assert_int_equal(o->neurons != NULL, w->listed);
    assert_true(w->listed || o->neuron_count == w->f);
    for (size_t i = 0; i < o->neuron_count; i++) {
        assert_true(!w->listed || i == 0 || o->neurons[i - 1] < o->neurons[i]);
        size_t neuron = o->neurons ? o->neurons[i] : i;
        w->active[((size_t)o->layer * w->rows + o->position) * w->f + neuron] = o->activations[i] != 0;
    }
}

static void watch_model(watch *w, const golden *g, const char *path, hearth_mode mode, bool one_by_one)
{
    stack s;
    stack_open_mode(&s, path, &(setup){.mode = mode, .plain = true});
    *w = (watch){.active = calloc(s.info.layer_count * g->total, s.info.neuron_count),
                 .rows = (uint32_t)g->total,
                 .f = s.info.neuron_count,
                 .listed = mode == HEARTH_MODE_EXACT};
    hearth_session_observe(s.session, &(hearth_observer){.see = watch_layer, .user = w});
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_read(&s, g->ids, g->total, one_by_one, logits);
    free(logits);
    assert_int_equal(w->calls, s.info.layer_count * g->total);
    for (uint32_t layer = 0; mode == HEARTH_MODE_EXACT && layer < s.info.layer_count; layer++) {
        hearth_counts counts;
        uint64_t active = 0;
        for (size_t i = 0; i < g->total * w->f; i++)
            active += w->active[layer * g->total * w->f + i];
        assert_int_equal(hearth_session_counts(s.session, layer, &counts, NULL), HEARTH_OK);
        assert_int_equal(counts.rows, g->total);
        assert_int_equal(counts.computed, g->total * w->f);
        assert_true(counts.fired >= counts.active && counts.fired < counts.computed / 2);
        assert_int_equal(counts.active, active);
    }
    stack_close(&s);
}

/* Observers see on both modes the neurons that fire in the reference, in one feed and token by token. */
static void observers_see_the_same_neurons(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        golden g;
        char path[600], active[600];
        golden_load(&g, goldens[i].name);
        golden_path(path, sizeof path, goldens[i].name, goldens[i].file);
        for (int r = HEARTH_MODE_DENSE; r <= HEARTH_MODE_EXACT; r++)
            for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
                watch w;
                watch_model(&w, &g, path, (hearth_mode)r, one_by_one);
                size_t n = (size_t)2 * w.rows * w.f, differing = 0;
                uint8_t *want = malloc(n);
                FILE *f = fopen(golden_path(active, sizeof active, goldens[i].name, "active.u8"), "rb");
                assert_non_null(f);
                assert_int_equal(fread(want, 1, n, f), n);
                fclose(f);
                for (size_t k = 0; k < n; k++)
                    differing += w.active[k] != (want[k] != 0);
                assert_true(differing * 10000 <= 3 * n); /* the README: at most a few entries per 10000 */
                free(want);
                free(w.active);
            }
        golden_free(&g);
    }
}

/* ------------------------------------------------------------------ what goes wrong */

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        hearth_mode mode;
    } cases[] = {{"llama", HEARTH_MODE_EXACT}, {"llama", HEARTH_MODE_PREDICTED}, {"llama-relu", HEARTH_MODE_PREDICTED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[600];
        hearth_model *model;
        hearth_placement *placement = NULL;
        hearth_error error;
        stack_check(
            hearth_model_open(&model, golden_path(path, sizeof path, cases[i].name, "model.gguf"), NULL, &error),
            &error);
        error.text[0] = 0;
        assert_int_equal(hearth_placement_create(&placement, model, cases[i].mode, &error), HEARTH_UNSUPPORTED);
        assert_null(placement);
        assert_true(strlen(error.text) > 0);
        hearth_model_close(model);
    }
}

/* The n-th allocation fails, for every n, while down is transposed: no leak, no crash, HEARTH_NO_MEMORY. */
static void allocation_failures(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_placement *placement;
    hearth_session_options options = {.context = 16};
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&model, RELU, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_placement_create(&placement, model, HEARTH_MODE_EXACT, NULL), HEARTH_OK);
    hearth_engine_options engine_options = {.placement = placement};
    long live = mem_live();
    for (long n = 0;; n++) {
        hearth_engine *engine = NULL;
        hearth_session *session = NULL;
        mem_fail_at(n);
        hearth_status status = hearth_engine_create(&engine, runtime, model, &engine_options, NULL);
        if (status == HEARTH_OK)
            status = hearth_session_create(&session, engine, &options, NULL);
        mem_fail_at(-1);
        assert_true(engine != NULL || session == NULL);
        hearth_session_destroy(session);
        hearth_engine_destroy(engine);
        assert_int_equal(mem_live(), live);
        if (status == HEARTH_OK) {
            assert_true(n >= 6); /* the transposed copies among them */
            break;
        }
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
    hearth_placement_destroy(placement);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

typedef struct patience {
    unsigned calls, limit;
    uint64_t done, total;
} patience;

static bool impatient(void *user, const char *what, uint64_t done, uint64_t total)
{
    patience *p = user;
    assert_non_null(what);
    assert_true(done >= p->done && done <= total);
    assert_true(p->total == 0 || p->total == total);
    p->done = done;
    p->total = total;
    return ++p->calls != p->limit;
}

/* Cancelled at every report in turn: nothing is left behind. Not cancelled: all bytes are reported. */
static void cancelling(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_model *model;
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&model, RELU, NULL, NULL), HEARTH_OK);
    long live = mem_live();
    unsigned reports = 0;
    for (unsigned limit = 1;; limit++) {
        patience p = {.limit = limit};
        hearth_engine_options options = {.progress = {impatient, &p}};
        hearth_engine *engine = NULL;
        hearth_error error = {0};
        hearth_status status = hearth_engine_create(&engine, runtime, model, &options, &error);
        if (status == HEARTH_OK) {
            assert_int_equal(p.done, p.total);
            assert_int_equal(p.total, 2 * 64 * 128 * 4);
            hearth_engine_destroy(engine);
            assert_int_equal(mem_live(), live);
            break;
        }
        reports++;
        assert_int_equal(status, HEARTH_CANCELLED);
        assert_int_equal(p.calls, limit); /* nobody is asked again */
        assert_null(engine);
        assert_non_null(strstr(error.text, "cancelled"));
        assert_int_equal(mem_live(), live);
    }
    assert_true(reports >= 2); /* at least once a layer */
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_dense),
        cmocka_unit_test(a_trained_model),
        cmocka_unit_test(what_is_claimed),
        cmocka_unit_test(requantised_is_near_dense),
        cmocka_unit_test(observers_see_the_same_neurons),
        cmocka_unit_test(refused),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(cancelling),
    };
    return run_group(tests, NULL, NULL);
}
