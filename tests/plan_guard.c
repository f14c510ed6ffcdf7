/* plan_guard.c - the guard: its decisions on given times and bytes, its memory, and that nothing it does shows in a
 * result. */
#include "../src/base/clock.h"
#include "../src/engine/engine.h"
#include "../src/plan/guard.h"
#include "../src/plan/guard_memory.h"

#include <dirent.h>
#include <sys/stat.h>

#include "golden.h"

#include "cache_folder.h"

#define POWERINFER GOLDEN "/pwri/llama/f16.gguf"
#define STOCK      GOLDEN "/llama-relu/model.gguf"
#define SILU       GOLDEN "/llama/model.gguf"

/* ------------------------------------------------------------------ decisions */

static void dense_only_where_clearly_faster(void **state)
{
    (void)state;
    const double exact[] = {1.0, 1.0, 1.0, 1.0, 2.2, 0.0};
    const double dense[] = {2.0, 1.0, 0.98, 0.96, 5.1, 0.0};
    const bool expected[] = {true, true, true /* within noise */, false, true, true /* not measured */};
    bool sparse[6];
    guard_choose(sparse, dense, exact, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(sparse[i], expected[i]);
}

/* Less than half of the tokens may be disturbed; more of them, and nothing can be relied on. */
static void busy_machines_are_seen(void **state)
{
    (void)state;
    static const struct {
        double times[8];
        size_t count;
        bool steady;
    } cases[] = {{{0}, 0, true},
                 {{3}, 1, true},
                 {{1, 1.125, 1.0625}, 3, true},
                 {{1, 9, 1.125}, 3, true},    /* one disturbed token of three */
                 {{1, 1.5, 1.375}, 3, false}, /* two of them                */
                 {{5, 1, 5, 1.125, 1, 1, 1.125, 7}, 8, true},
                 {{5, 1, 5, 1.125, 4, 1, 1.5, 7}, 8, false},
                 {{1, 1.25, 1.25}, 3, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(guard_is_steady(cases[i].times, cases[i].count, 0.25), cases[i].steady);
}

/* The bytes of docs/design.md: a gated network of equal matrices reads 1 + 2 p of 3, a plain one 1 + p of 2; a
 * copy in Q8_0 of a Q4_0 matrix is 34/18 of it. A fifth has to be saved. */
static void a_copy_must_save_bytes(void **state)
{
    (void)state;
    static const struct {
        guard_bytes bytes;
        double least, most; /* worth it up to the one density, not from the other on */
    } cases[] = {
        {{3, 1, 2}, 0.69, 0.71}, /* (1 + 2 * 0.7) * 1.25 = 3 */
        {{2, 1, 1}, 0.59, 0.61},
        {{3, 1, 1 + 34.0 / 18}, 0.48, 0.49},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(guard_worth_a_copy(&cases[i].bytes, (double[]){0}, 1));
        assert_true(guard_worth_a_copy(&cases[i].bytes, &cases[i].least, 1));
        assert_false(guard_worth_a_copy(&cases[i].bytes, &cases[i].most, 1));
    }
    /* Layers count together: what one loses another may win. */
    const guard_bytes both[] = {{3, 1, 2}, {3, 1, 2}};
    assert_true(guard_worth_a_copy(both, (double[]){0.1, 1.0}, 2));
    assert_false(guard_worth_a_copy(both, (double[]){0.6, 1.0}, 2));
    const guard_bytes impossible = {3, 1, INFINITY};
    assert_false(guard_worth_a_copy(&impossible, (double[]){0.12}, 1));
    assert_false(guard_worth_a_copy(&impossible, (double[]){0}, 1));
}

/* ------------------------------------------------------------------ memory */

#define KEY "0123456789abcdef0123456789abcdef"

static char *memory_path(char out[256], const char *key)
{
    snprintf(out, 256, "%s/guard-%s.json", folder, key);
    return out;
}

static void write_file(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
}

static void remembers_what_it_found(void **state)
{
    (void)state;
    guard_layer layers[4] = {GUARD_SPARSE, GUARD_DENSE, GUARD_STOCK, GUARD_SPARSE}, back[4] = {0};
    guard_findings found = {4, layers, 0.0051, 0.0022, 0.12, false, false}, read = {4, back, 0, 0, 0, false, false};
    guard_remember(&found, folder, KEY);
    assert_true(guard_recall(&read, folder, KEY));
    assert_memory_equal(back, layers, sizeof layers);
    assert_float_equal(read.dense_seconds, 0.0051, 1e-9);
    assert_float_equal(read.exact_seconds, 0.0022, 1e-9);
    assert_float_equal(read.density, 0.12, 1e-9);
    layers[0] = GUARD_DENSE; /* a second time replaces the first */
    guard_remember(&found, folder, KEY);
    assert_true(guard_recall(&read, folder, KEY));
    assert_int_equal(back[0], GUARD_DENSE);
    assert_false(guard_recall(&read, folder, "fedcba9876543210fedcba9876543210"));
    read.layer_count = 3;
    assert_false(guard_recall(&read, folder, KEY));
    cache_folder_empty();
}

/* Cut short anywhere, or with anything else in it, the file is as none. */
static void damage_is_ignored(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "null",
        "{}",
        "\xff\xfe",
        "[[[[[[[[[[",
        "{\"hearth.guard\":7,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"other\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,"
        "\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"pruned\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[1],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":\"dense\",\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":-1,\"exact_seconds\":1,\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":\"1\",\"density\":0,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":1.5,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"busy\":false}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0}",
        "{\"hearth.guard\":3,\"key\":\"" KEY
        "\",\"layers\":[\"dense\"],\"dense_seconds\":1,\"exact_seconds\":1,\"density\":0,\"busy\":true}",
    };
    char path[256];
    guard_layer layer = GUARD_STOCK;
    guard_findings read = {1, &layer, 7, 8, 0.5, false, false};
    memory_path(path, KEY);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(path, wrong[i], strlen(wrong[i]));
        if (guard_recall(&read, folder, KEY))
            fail_msg("accepted: %s", wrong[i]);
        assert_true(read.dense_seconds == 7 && read.exact_seconds == 8 && read.density == 0.5);
    }
    guard_findings found = {1, (guard_layer[]){GUARD_SPARSE}, 1, 0.5, 0.25, false, false};
    guard_remember(&found, folder, KEY); /* a damaged file is replaced */
    char *text;
    size_t size;
    assert_true(guard_recall(&read, folder, KEY));
    assert_int_equal(file_read(&text, &size, path, 4096, NULL), HEARTH_OK);
    for (size_t cut = 0; cut + 1 < size; cut++) { /* without its last byte, a line break, it is whole */
        write_file(path, text, cut);
        if (guard_recall(&read, folder, KEY))
            assert_int_equal(cut, size - 1);
    }
    mem_free(text);
    cache_folder_empty();
}

static void places_that_cannot_be_written(void **state)
{
    (void)state;
    guard_layer layer = GUARD_SPARSE;
    guard_findings found = {1, &layer, 1, 1, 1, false, false};
    char path[256];
    guard_remember(&found, "/nowhere/at/all", KEY);
    assert_false(guard_recall(&found, "/nowhere/at/all", KEY));
    mkdir(memory_path(path, KEY), 0700); /* the name is taken by a folder */
    guard_remember(&found, folder, KEY);
    assert_false(guard_recall(&found, folder, KEY));
    rmdir(path);
    for (long n = 0; n < 6; n++) { /* and writes that fail */
        file_fail_at(n);
        guard_remember(&found, folder, KEY);
        file_fail_at(-1);
    }
    cache_folder_empty();
}

/* ------------------------------------------------------------------ models */

typedef struct opened {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_model_info info;
} opened;

static void open_model(opened *o, const char *path, unsigned threads)
{
    hearth_error error;
    stack_check(hearth_runtime_create(&o->runtime, &(hearth_runtime_options){.threads = threads}, &error), &error);
    stack_check(hearth_model_open(&o->model, path, NULL, &error), &error);
    hearth_model_describe(o->model, &o->info);
}

static void close_model(opened *o)
{
    hearth_model_close(o->model);
    hearth_runtime_destroy(o->runtime);
}

#define IDS 12
static const int32_t ids[IDS] = {1, 73, 55, 174, 179, 213, 54, 229, 103, 18, 12, 26};

/* Logits [IDS][vocabulary]; freed with free. */
static float *read_ids(const hearth_engine *engine, uint32_t vocabulary)
{
    hearth_error error;
    hearth_session *session;
    hearth_session_options options = {.context = 32, .output_rows = IDS, .kv = HEARTH_KV_F32};
    hearth_row rows[IDS];
    float *logits = malloc(IDS * vocabulary * sizeof *logits);
    stack_check(hearth_session_create(&session, engine, &options, &error), &error);
    for (size_t i = 0; i < IDS; i++)
        rows[i] = (hearth_row){ids[i], 0, true};
    stack_check(hearth_session_feed(session, rows, IDS, &error), &error);
    stack_check(hearth_session_logits(session, 0, IDS, logits, &error), &error);
    hearth_session_destroy(session);
    return logits;
}

static float *read_mode(const opened *o, hearth_mode mode)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_engine *engine;
    stack_check(hearth_placement_create(&placement, o->model, mode, &error), &error);
    hearth_engine_options options = {.placement = placement};
    stack_check(hearth_engine_create(&engine, o->runtime, o->model, &options, &error), &error);
    float *logits = read_ids(engine, o->info.vocabulary_size);
    hearth_engine_destroy(engine);
    hearth_placement_destroy(placement);
    return logits;
}

/* Times that scatter by any amount: whether the machine is busy while tests run does not matter. */
#define ANY_SCATTER 1e9

static void open_guard(guarded *g, const opened *o, size_t cache_bytes)
{
    hearth_error error;
    guard_options options = {.cache_bytes = cache_bytes, .folder = folder, .scatter = ANY_SCATTER};
    stack_check(guard_open(g, o->runtime, o->model, &options, &error), &error);
}

static void same_bytes(const float *a, const float *b, const opened *o)
{
    assert_memory_equal(a, b, IDS * o->info.vocabulary_size * sizeof *a);
}

/* The key is the model's and the machine's, not the path's; each thing that changes times changes it. */
static void key_means_machine_and_model(void **state)
{
    (void)state;
    opened a, b, c, d;
    char keys[5][GUARD_KEY_SIZE], path[256], *data;
    size_t size;
    open_model(&a, POWERINFER, 2);
    assert_int_equal(file_read(&data, &size, POWERINFER, (size_t)1 << 28, NULL), HEARTH_OK);
    snprintf(path, sizeof path, "%s/elsewhere.gguf", folder);
    write_file(path, data, size);
    mem_free(data);
    open_model(&b, path, 2);
    open_model(&c, POWERINFER, 1);
    open_model(&d, GOLDEN "/pwri/llama/q4_0.gguf", 2);
    guard_key(keys[0], a.runtime, a.model, HEARTH_ACTIVATIONS_AUTO);
    guard_key(keys[1], c.runtime, c.model, HEARTH_ACTIVATIONS_AUTO);
    guard_key(keys[2], d.runtime, d.model, HEARTH_ACTIVATIONS_AUTO);
    guard_key(keys[3], a.runtime, a.model, HEARTH_ACTIVATIONS_F32);
    /* Where a file names no model its own name is taken, which another place may share. */
    bool same_name = strcmp(a.info.name, b.info.name) == 0;
    guard_key(keys[4], b.runtime, b.model, HEARTH_ACTIVATIONS_AUTO);
    assert_int_equal(strcmp(keys[0], keys[4]) == 0, same_name);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(strlen(keys[i]), GUARD_KEY_SIZE - 1);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
    close_model(&a);
    close_model(&b);
    close_model(&c);
    close_model(&d);
    cache_folder_empty();
}

/* Whatever is remembered of a neuron-major file, its results are those of dense and of exact, byte for byte. */
static void choices_do_not_show(void **state)
{
    (void)state;
    static const guard_layer choices[][2] = {{GUARD_SPARSE, GUARD_SPARSE},
                                             {GUARD_SPARSE, GUARD_DENSE},
                                             {GUARD_DENSE, GUARD_SPARSE},
                                             {GUARD_DENSE, GUARD_DENSE}};
    opened o;
    open_model(&o, POWERINFER, 2);
    assert_int_equal(o.info.layer_count, 2);
    float *exact = read_mode(&o, HEARTH_MODE_EXACT), *dense = read_mode(&o, HEARTH_MODE_DENSE);
    same_bytes(exact, dense, &o);
    char key[GUARD_KEY_SIZE];
    guard_key(key, o.runtime, o.model, HEARTH_ACTIVATIONS_AUTO);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        guard_layer layers[2] = {choices[i][0], choices[i][1]};
        unsigned sparse = (unsigned)(layers[0] == GUARD_SPARSE) + (unsigned)(layers[1] == GUARD_SPARSE);
        guard_findings found = {2, layers, 0.002, 0.001, 0.125, false, false};
        guard_remember(&found, folder, key);
        guarded g;
        open_guard(&g, &o, (size_t)1 << 40); /* neuron-major files do not ask for the cache */
        assert_true(g.report.remembered);
        assert_int_equal(g.report.reason, GUARD_MEASURED);
        assert_int_equal(g.report.layers, 2);
        assert_int_equal(g.report.sparse_layers, sparse);
        assert_float_equal(g.report.density, 0.125, 1e-9);
        assert_string_equal(hearth_mode_name(hearth_engine_mode(g.engine)), sparse ? "exact" : "dense");
        assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(g.engine)), "bitwise");
        float *logits = read_ids(g.engine, o.info.vocabulary_size);
        same_bytes(logits, exact, &o);
        free(logits);
        guard_close(&g);
    }
    free(exact);
    free(dense);
    close_model(&o);
    cache_folder_empty();
}

/* Measured for real: the same bytes again, and the second time it is remembered as it was. */
static void measures_once(void **state)
{
    (void)state;
    opened o;
    open_model(&o, POWERINFER, 2);
    float *exact = read_mode(&o, HEARTH_MODE_EXACT);
    guarded first, second;
    open_guard(&first, &o, 0);
    assert_false(first.report.remembered);
    assert_true(first.report.dense_seconds > 0 && first.report.exact_seconds > 0);
    assert_true(first.report.density > 0 && first.report.density < 0.5); /* 0.14 says the golden's README */
    float *logits = read_ids(first.engine, o.info.vocabulary_size);
    same_bytes(logits, exact, &o);
    free(logits);
    open_guard(&second, &o, 0);
    assert_true(second.report.remembered);
    assert_int_equal(second.report.sparse_layers, first.report.sparse_layers);
    assert_float_equal(second.report.dense_seconds, first.report.dense_seconds, 1e-9);
    guard_close(&second);
    guard_close(&first);
    /* A neuron-major file has no stock layout, whatever a file says. */
    char key[GUARD_KEY_SIZE];
    guard_key(key, o.runtime, o.model, HEARTH_ACTIVATIONS_AUTO);
    guard_remember(&(guard_findings){2, (guard_layer[]){GUARD_STOCK, GUARD_STOCK}, 1, 1, 1, false, false}, folder, key);
    open_guard(&second, &o, 0);
    assert_false(second.report.remembered);
    guard_close(&second);
    free(exact);
    close_model(&o);
    cache_folder_empty();
}

/* What was measured on a busy machine is not relied on by the next run, which can also be told to measure again. No
 * times are as steady as a scatter below zero wants them. */
static void measures_again(void **state)
{
    (void)state;
    static const struct {
        double scatter;
        bool again, remembered, busy;
    } runs[] = {{-1, false, false, true},           /* nothing is there                        */
                {-1, false, false, true},           /* busy: as nothing                        */
                {ANY_SCATTER, false, false, false}, /* now it is worth keeping                 */
                {-1, false, true, false},           /* and is taken                            */
                {ANY_SCATTER, true, false, false},  /* but not by who wants to measure         */
                {-1, true, false, true},            /* and what was measured last is what counts */
                {ANY_SCATTER, false, false, false}};
    opened o;
    open_model(&o, POWERINFER, 2);
    float *exact = read_mode(&o, HEARTH_MODE_EXACT);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        hearth_error error;
        guarded g;
        guard_options options = {.folder = folder, .again = runs[i].again, .scatter = runs[i].scatter};
        stack_check(guard_open(&g, o.runtime, o.model, &options, &error), &error);
        assert_int_equal(g.report.remembered, runs[i].remembered);
        assert_int_equal(g.report.busy, runs[i].busy);
        assert_true(g.report.dense_seconds > 0 && g.report.exact_seconds > 0);
        float *logits = read_ids(g.engine, o.info.vocabulary_size);
        same_bytes(logits, exact, &o);
        free(logits);
        guard_close(&g);
    }
    free(exact);
    close_model(&o);
    cache_folder_empty();
}

static void look_long(void *user, const hearth_observation *observation)
{
    (void)observation;
    double begin = clock_seconds();
    usleep(2000);
    *(double *)user += clock_seconds() - begin;
}

/* What observers take is not counted for the networks: both together fit into the time of the whole. */
static void observers_are_not_counted(void **state)
{
    (void)state;
    opened o;
    hearth_error error;
    hearth_engine *engine;
    hearth_session *session;
    double observed = 0, worked = 0;
    open_model(&o, STOCK, 1);
    stack_check(hearth_engine_create(&engine, o.runtime, o.model, NULL, &error), &error);
    stack_check(hearth_session_create(&session, engine, &(hearth_session_options){.context = 32}, &error), &error);
    hearth_session_observe(session, &(hearth_observer){.see = look_long, .user = &observed});
    double begin = clock_seconds();
    for (size_t i = 0; i < IDS; i++)
        stack_check(hearth_session_feed(session, &(hearth_row){ids[i], 0, true}, 1, &error), &error);
    double all = clock_seconds() - begin;
    for (uint32_t i = 0; i < o.info.layer_count; i++)
        worked += session->ffn_seconds[i];
    assert_true(worked > 0 && observed > 0);
    assert_true(worked + observed <= all);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    close_model(&o);
}

/* Stock layout: small models stay as they are; others get copies where that saves bytes, whatever the clock says. */
static void stock_layout(void **state)
{
    (void)state;
    opened o;
    guarded g;
    open_model(&o, STOCK, 2);
    float *dense = read_mode(&o, HEARTH_MODE_DENSE), *exact = read_mode(&o, HEARTH_MODE_EXACT), *logits;
    open_guard(&g, &o, (size_t)1 << 30);
    assert_int_equal(g.report.reason, GUARD_FITS_CACHE);
    assert_int_equal(g.report.sparse_layers, 0);
    assert_string_equal(hearth_mode_name(hearth_engine_mode(g.engine)), "dense");
    assert_int_equal(hearth_engine_own_bytes(g.engine), 0);
    logits = read_ids(g.engine, o.info.vocabulary_size);
    same_bytes(logits, dense, &o);
    free(logits);
    guard_close(&g);
    /* 12 to 16 % of its neurons fire, as the goldens' README says of their text: worth a copy. */
    open_guard(&g, &o, 0);
    assert_int_equal(g.report.reason, GUARD_MEASURED);
    assert_true(g.report.density > 0.05 && g.report.density < 0.3);
    assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(g.engine)), "exact");
    logits = read_ids(g.engine, o.info.vocabulary_size);
    same_bytes(logits, exact, &o);
    assert_true(relative_l2(logits, dense, IDS * o.info.vocabulary_size) < 1e-5);
    free(logits);
    guard_close(&g);
    free(dense);
    free(exact);
    close_model(&o);
    cache_folder_empty();
}

static void no_mode_exact(void **state)
{
    (void)state;
    opened o;
    guarded g;
    hearth_error error;
    open_model(&o, SILU, 1);
    assert_int_equal(guard_open(&g, o.runtime, o.model, &(guard_options){0}, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "silu"));
    assert_null(g.engine);
    close_model(&o);
}

/* Without memory for what skipping takes a run is dense where it may be, and an error where exact was asked for. */
static void no_memory_for_copies(void **state)
{
    (void)state;
    opened o;
    guarded g;
    hearth_error error;
    guard_options options = {.folder = folder, .may_be_dense = true};
    open_model(&o, STOCK, 2);
    hearth_runtime_destroy(o.runtime);
    hearth_runtime_options small = {.threads = 2, .memory_bytes = 1};
    stack_check(hearth_runtime_create(&o.runtime, &small, &error), &error);
    long live = mem_live();
    stack_check(guard_open(&g, o.runtime, o.model, &options, &error), &error);
    assert_int_equal(g.report.reason, GUARD_NO_MEMORY);
    assert_int_equal(g.report.sparse_layers, 0);
    assert_non_null(strstr(g.report.shortage, "of main memory"));
    assert_string_equal(hearth_mode_name(hearth_engine_mode(g.engine)), "dense");
    assert_string_equal(hearth_guarantee_name(hearth_engine_guarantee(g.engine)), "bitwise");
    guard_close(&g);
    options.may_be_dense = false;
    assert_int_equal(guard_open(&g, o.runtime, o.model, &options, &error), HEARTH_NO_MEMORY);
    assert_int_equal(mem_live(), live);
    hearth_runtime_destroy(o.runtime);

    /* What there was no memory for is tried again the next time. */
    hearth_runtime_options enough = {.threads = 2};
    stack_check(hearth_runtime_create(&o.runtime, &enough, &error), &error);
    options.may_be_dense = true;
    stack_check(guard_open(&g, o.runtime, o.model, &options, &error), &error);
    assert_false(g.report.remembered);
    assert_int_equal(g.report.reason, GUARD_MEASURED);
    guard_close(&g);
    close_model(&o);
    cache_folder_empty();
}

static bool refuse(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return --*(int *)user > 0;
}

/* Cancelled anywhere, and with the n-th allocation failing: an error, and nothing left behind. */
static void faults(void **state)
{
    (void)state;
    static const char *const paths[] = {POWERINFER, STOCK};
    for (size_t i = 0; i < 2; i++) {
        opened o;
        guarded g;
        hearth_error error;
        open_model(&o, paths[i], 1);
        long live = mem_live();
        hearth_status status = HEARTH_CANCELLED;
        for (int patience = 1; status != HEARTH_OK; patience++) {
            int left = patience;
            guard_options options = {.engine.progress = {refuse, &left}};
            status = guard_open(&g, o.runtime, o.model, &options, &error);
            assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
            guard_close(&g);
            assert_int_equal(mem_live(), live);
        }
        const guard_options options = {.folder = folder, .may_be_dense = i > 0};
        status = HEARTH_NO_MEMORY;
        for (long n = 0; status != HEARTH_OK; n++) {
            mem_fail_at(n);
            status = guard_open(&g, o.runtime, o.model, &options, &error);
            mem_fail_at(-1);
            assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
            guard_close(&g);
            assert_int_equal(mem_live(), live);
        }
        close_model(&o);
        cache_folder_empty();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_only_where_clearly_faster),
        cmocka_unit_test(busy_machines_are_seen),
        cmocka_unit_test(a_copy_must_save_bytes),
        cmocka_unit_test(remembers_what_it_found),
        cmocka_unit_test(damage_is_ignored),
        cmocka_unit_test(places_that_cannot_be_written),
        cmocka_unit_test(key_means_machine_and_model),
        cmocka_unit_test(choices_do_not_show),
        cmocka_unit_test(measures_once),
        cmocka_unit_test(measures_again),
        cmocka_unit_test(observers_are_not_counted),
        cmocka_unit_test(stock_layout),
        cmocka_unit_test(no_mode_exact),
        cmocka_unit_test(no_memory_for_copies),
        cmocka_unit_test(faults),
    };
    return run_group(tests, cache_folder_make, cache_folder_remove);
}
