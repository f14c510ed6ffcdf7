/* Timed runs: what the rows say, engine against engine; bytes and densities are those of the reference data. */
#include "../src/eval/bench.h"

#include "golden.h"

#define MODEL HEARTH_DATA "/models/stories260K-relu"

/* A model on several modes. */
typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engines[HEARTH_MODE_COUNT];
    size_t count;
} fixture;

static void add_engine(fixture *f, hearth_mode mode, hearth_activations activations)
{
    hearth_error error;
    hearth_placement *placement;
    stack_check(hearth_placement_create(&placement, f->model, mode, &error), &error);
    hearth_engine_options options = {.placement = placement, .activations = activations};
    stack_check(hearth_engine_create(&f->engines[f->count], f->runtime, f->model, &options, &error), &error);
    hearth_placement_destroy(placement);
    f->count++;
}

static void open_model(fixture *f, const char *path)
{
    hearth_error error;
    hearth_runtime_options one = {.threads = 1};
    *f = (fixture){0};
    stack_check(hearth_runtime_create(&f->runtime, &one, &error), &error);
    stack_check(hearth_model_open(&f->model, path, NULL, &error), &error);
}

/* The small model on dense and exact. */
static void open_two(fixture *f)
{
    open_model(f, MODEL);
    add_engine(f, HEARTH_MODE_DENSE, HEARTH_ACTIVATIONS_AUTO);
    add_engine(f, HEARTH_MODE_EXACT, HEARTH_ACTIVATIONS_AUTO);
}

static void close_all(fixture *f)
{
    for (size_t i = 0; i < f->count; i++)
        hearth_engine_destroy(f->engines[i]);
    hearth_model_close(f->model);
    hearth_runtime_destroy(f->runtime);
}

static hearth_status run(const fixture *f, const bench_options *o, bench_result *out, hearth_error *error)
{
    return bench_run(out, (const hearth_engine *const *)f->engines, f->count, 1, NULL, o, error);
}

/* ------------------------------------------------------------------ rows */

static void check_row(const bench_row *row, uint32_t layer_count)
{
    double active = 0, computed = 0;
    for (uint32_t i = 0; i < layer_count; i++) {
        const bench_layer *l = &row->layers[i];
        assert_true(l->computed <= 1 && l->computed >= l->fired && l->fired >= l->active && l->active >= 0);
        active += l->active / layer_count;
        computed += l->computed / layer_count;
    }
    assert_true(fabs(row->density - active) < 1e-9 && fabs(row->let_through - computed) < 1e-9);
    assert_true(row->decode_tokens_per_second > 0 && row->prefill_tokens_per_second > 0);
    assert_true(row->bytes_per_token > row->kv_bytes_per_token);
    /* One repetition: no medians in between. */
    assert_true(fabs(row->floor_tokens_per_second * row->bytes_per_token / row->read_bandwidth - 1) < 1e-9);
    assert_true(fabs(row->share_of_bandwidth * row->floor_tokens_per_second / row->decode_tokens_per_second - 1) <
                1e-9);
}

/* Any allocation may fail; then rows come by context, by prompt length, by batch, by engine. */
static void survives_failing_allocations(void **state)
{
    (void)state;
    fixture f;
    open_two(&f);
    static const int32_t lengths[] = {3, 2}, contexts[] = {0, 4}, batches[] = {1, 3};
    bench_options o = {.prompt_lengths = lengths,
                       .prompt_length_count = 2,
                       .contexts = contexts,
                       .context_count = 2,
                       .batches = batches,
                       .batch_count = 2,
                       .decode_tokens = 1,
                       .repeats = 1,
                       .traced = true};
    bench_result result;
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        mem_fail_at(n++);
        status = run(&f, &o, &result, NULL);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        if (status == HEARTH_OK)
            break;
        assert_int_equal(mem_live(), live);
    } while (true);
    assert_true(n > 10);
    assert_int_equal(result.count, 16);
    for (size_t i = 0; i < result.count; i++) {
        const bench_row *row = &result.rows[i];
        assert_int_equal(row->context, contexts[i / 8]);
        assert_int_equal(row->prompt_length, lengths[i / 4 % 2]);
        assert_int_equal(row->batch, batches[i / 2 % 2]);
        assert_string_equal(row->mode, i % 2 ? "exact" : "dense");
        check_row(row, result.layer_count);
        if (i % 2 == 0) {
            double weights = row->bytes_per_token - row->kv_bytes_per_token; /* read once for all sequences */
            double alone = result.rows[0].bytes_per_token - result.rows[0].kv_bytes_per_token;
            assert_true(row->relative_speed == 1 && row->density == 1 && row->let_through == 1);
            assert_true(fabs(weights * row->batch / alone - 1) < 1e-9);
            continue;
        }
        double ratio = row->decode_tokens_per_second / row[-1].decode_tokens_per_second;
        assert_true(fabs(row->relative_speed / ratio - 1) < 1e-9);
        assert_true(row->density > 0 && row->density < 1 && row->let_through == 1);
    }
    bench_result_free(&result);
    assert_int_equal(mem_live(), live);
    close_all(&f);
}

/* ------------------------------------------------------------------ two sides */

static void count_spans(void *user, const hearth_span *seen)
{
    (void)seen;
    ++*(size_t *)user;
}

/* The model on the host device, half of its neurons there. */
static void open_split(fixture *f)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_runtime_options options = {.threads = 1, .device = "host"};
    *f = (fixture){.count = 1};
    stack_check(hearth_runtime_create(&f->runtime, &options, &error), &error);
    stack_check(hearth_model_open(&f->model, MODEL, NULL, &error), &error);
    stack_check(hearth_placement_create(&placement, f->model, HEARTH_MODE_EXACT, &error), &error);
    stack_check(hearth_placement_use_device(placement, f->model, UINT32_MAX, 86, &error), &error);
    hearth_engine_options engine = {.placement = placement};
    stack_check(hearth_engine_create(&f->engines[0], f->runtime, f->model, &engine, &error), &error);
    hearth_placement_destroy(placement);
}

/* Decoding of the extra runs, and nothing else, is seen: a sample for every token and layer. */
static void measures_overlap(void **state)
{
    (void)state;
    enum { TOKENS = 3, RUNS = 2, SPANS = 5 /* of a split layer in a step: three of the device, two of the CPU */ };
    fixture f;
    open_split(&f);
    static const int32_t lengths[] = {3, 2}, contexts[] = {0, 4};
    size_t spans = 0;
    bench_options o = {.prompt_lengths = lengths,
                       .prompt_length_count = 2,
                       .contexts = contexts,
                       .context_count = 2,
                       .decode_tokens = TOKENS,
                       .repeats = RUNS,
                       .traced = true,
                       .tracer = {count_spans, &spans}};
    bench_result result;
    long live = mem_live();
    hearth_error error;
    stack_check(run(&f, &o, &result, &error), &error);
    assert_int_equal(result.count, 4);
    for (size_t i = 0; i < result.count; i++) {
        const overlap_result *r = &result.rows[i].overlap;
        assert_int_equal(r->samples, (size_t)TOKENS * RUNS * result.layer_count);
        assert_true(0 <= r->overlap_least && r->overlap_least <= r->overlap && r->overlap <= 1);
        assert_true(r->cpu_seconds > 0 && r->device_seconds > 0);
    }
    assert_int_equal(spans, (size_t)SPANS * 4 * TOKENS * RUNS * result.layer_count);
    uint32_t layers = result.layer_count;
    bench_result_free(&result);
    assert_int_equal(mem_live(), live);
    o.traced = false; /* then nobody looks */
    spans = 0;
    stack_check(run(&f, &o, &result, &error), &error);
    assert_int_equal(result.layer_count, layers);
    assert_int_equal(result.rows[0].overlap.samples + spans, 0);
    bench_result_free(&result);
    close_all(&f);
}

/* ------------------------------------------------------------------ limits */

/* Rows must fit the context that was asked for, also where the model's is longer. */
static void obeys_its_context(void **state)
{
    (void)state;
    fixture f;
    open_two(&f);
    static const int32_t length = 8, context = 4;
    bench_result result;
    hearth_error error;
    bench_options o = {.prompt_lengths = &length,
                       .prompt_length_count = 1,
                       .contexts = &context,
                       .context_count = 1,
                       .decode_tokens = 2,
                       .repeats = 1,
                       .context = 14};
    assert_int_equal(run(&f, &o, &result, NULL), HEARTH_OK);
    bench_result_free(&result);
    o.context = 13;
    assert_int_equal(run(&f, &o, &result, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "4 tokens before, 8 of the prompt and 2 after it are more than the 13"));
    close_all(&f);
}

static bool never(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void can_be_cancelled(void **state)
{
    (void)state;
    fixture f;
    open_two(&f);
    static const int32_t length = 3, context = 0;
    bench_result result;
    bench_options o = {.prompt_lengths = &length,
                       .prompt_length_count = 1,
                       .contexts = &context,
                       .context_count = 1,
                       .decode_tokens = 1,
                       .repeats = 1,
                       .progress = {never, NULL}};
    long live = mem_live();
    assert_int_equal(run(&f, &o, &result, NULL), HEARTH_CANCELLED);
    assert_int_equal(mem_live(), live);
    close_all(&f);
}

/* ------------------------------------------------------------------ PowerInfer's files: bytes and densities */

enum { TOKENS = 16, LAYERS = 2, D = 64, F = 1056, KV = 32, VOCABULARY = 320, RANK = 64 };

/* What reading the shapes of golden/pwri (its README has them) costs. Bits of a weight of each kind of matrix. */
static const struct {
    const char *type;
    double matrix, down_t, head;
} types[] = {{"f32", 32, 16, 32}, {"f16", 16, 16, 16}, {"q4_0", 4.5, 4.5, 8.5}};

/* docs/design.md for one layer's shares of neurons. */
static double layer_bytes(size_t type, bool predicted, double computed, double fired, double active)
{
    double row = D * types[type].matrix / 8, predictor = predicted ? (RANK * D + F * RANK) * types[type].matrix / 8 : 0;
    return predictor + F * (computed * row + fired * row + active * D * types[type].down_t / 8);
}

/* Everything else: norms, attention, head, a row of the embedding. */
static double other_bytes(size_t type)
{
    double attention = (double)(2 * D + 2 * KV) * D * types[type].matrix / 8;
    return (2 * LAYERS + 1) * D * sizeof(float) + LAYERS * attention + VOCABULARY * D * types[type].head / 8 +
           D * types[type].matrix / 8;
}

typedef struct bits {
    uint8_t active[LAYERS * TOKENS * F / 8], predicted[LAYERS * TOKENS * F / 8];
} bits;

static void read_bits(uint8_t *out, size_t size, const char *family, const char *type, const char *what)
{
    char path[600];
    snprintf(path, sizeof path, GOLDEN "/pwri/%s/%s.%s.bits", family, type, what);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(out, 1, size, file), size);
    fclose(file);
}

/* Share of a layer's neurons that are let through, active, or both, from a token on. */
static double share(const bits *b, uint32_t layer, size_t from, bool active, bool predicted)
{
    size_t count = 0;
    for (size_t i = (layer * TOKENS + from) * F; i < (size_t)(layer + 1) * TOKENS * F; i++)
        count += (!active || (b->active[i / 8] >> i % 8 & 1)) && (!predicted || (b->predicted[i / 8] >> i % 8 & 1));
    return (double)count / (double)((TOKENS - from) * F);
}

/* The ids that the bits belong to. */
static void read_ids(int32_t ids[64], const char *family, const char *type)
{
    char path[600], name[32];
    json_t *root;
    snprintf(path, sizeof path, GOLDEN "/pwri/%s/cases.json", family);
    snprintf(name, sizeof name, "%s.gguf", type);
    assert_int_equal(json_parse_file(&root, path, NULL), HEARTH_OK);
    size_t found = 0;
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *entry = json_array_get(root, i);
        if (strcmp(json_string_value(json_object_get(entry, "file")), name) == 0)
            found = golden_read_ids(json_object_get(entry, "ids"), ids);
    }
    assert_int_equal(found, TOKENS);
    json_decref(root);
}

static void expect_near(double got, double want, double bound, const char *what)
{
    if (!(fabs(got - want) <= bound * fabs(want)))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

/* A row's shares are the reference's neurons (of the tokens behind the first, which is the prompt), and its bytes are
 * those of its shares; the bytes over all tokens, as tools/pwri_reference.py --stats has them, are near. */
static void check_pwri(const bench_row *row, size_t type, bool bamboo, const bits *b)
{
    bool exact = strcmp(row->mode, "exact") == 0, predicted = strcmp(row->mode, "predicted") == 0;
    double own = other_bytes(type), ideal = own;
    for (uint32_t i = 0; i < LAYERS; i++) {
        const bench_layer *l = &row->layers[i];
        own += layer_bytes(type, predicted, l->computed, l->fired, l->active);
        double all = exact || predicted ? share(b, i, 0, true, predicted) : 1;
        ideal += layer_bytes(type, predicted, predicted ? share(b, i, 0, false, true) : 1, all, all);
        if (predicted)
            expect_near(l->computed, share(b, i, 1, false, true), 1e-9, "let through");
        if (predicted || (exact && i == 0)) /* the bits are those of a predicted run */
            expect_near(l->active, share(b, i, 1, true, predicted), 1e-9, "active");
        if (!bamboo)
            assert_true(l->fired == l->active);
    }
    double weights = row->bytes_per_token - row->kv_bytes_per_token;
    expect_near(weights, own, 1e-6, "bytes by the shares");
    if (!bamboo) /* there the reference leaves out up rows whose gate fires in vain */
        expect_near(weights, ideal, 0.02, "bytes by the reference");
    else
        assert_true(weights >= 0.98 * ideal);
}

static void bytes_are_the_references(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "bamboo"};
    int32_t ids[64];
    static const int32_t length = 1, context = 0;
    bench_options o = {.prompt_lengths = &length,
                       .prompt_length_count = 1,
                       .contexts = &context,
                       .context_count = 1,
                       .decode_tokens = TOKENS - 1,
                       .repeats = 1,
                       .ids = ids,
                       .id_count = TOKENS,
                       .kv = HEARTH_KV_F32};
    for (size_t family = 0; family < 2; family++)
        for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
            char path[600];
            fixture f;
            bits b;
            bench_result result;
            hearth_error error;
            snprintf(path, sizeof path, GOLDEN "/pwri/%s/%s.gguf", families[family], types[type].type);
            open_model(&f, path);
            for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++)
                add_engine(&f, (hearth_mode)mode, HEARTH_ACTIVATIONS_F32);
            read_ids(ids, families[family], types[type].type);
            read_bits(b.active, sizeof b.active, families[family], types[type].type, "active");
            read_bits(b.predicted, sizeof b.predicted, families[family], types[type].type, "predicted");
            stack_check(run(&f, &o, &result, &error), &error);
            assert_int_equal(result.count, 3);
            assert_int_equal(result.layer_count, LAYERS);
            for (size_t i = 0; i < result.count; i++) {
                assert_string_equal(result.rows[i].mode, hearth_mode_name((hearth_mode)(HEARTH_MODE_DENSE + i)));
                check_pwri(&result.rows[i], type, family == 1, &b);
            }
            bench_result_free(&result);
            close_all(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(measures_overlap),
        cmocka_unit_test(obeys_its_context),
        cmocka_unit_test(can_be_cancelled),
        cmocka_unit_test(bytes_are_the_references),
    };
    return run_group(tests, NULL, NULL);
}
