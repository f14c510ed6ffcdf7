/* model_tune - tune files: what goes in comes out, every command finds it, rows meet the model's order, and failures
 * leave nothing behind. What is wrong with a file is model_tune_damage.c's matter. */
#include "tune_files.h"

enum { RANK = 4 };

/* ------------------------------------------------------------------ round trip */

/* Every section may be missing. */
static void test_round_trip(void **state)
{
    (void)state;
    static const number_format formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_BF16};
    hearth_model *m = tiny_model("relu");
    long live = mem_live();
    for (unsigned parts = 0; parts <= MADE_ALL; parts++) {
        hearth_error error;
        tune *made = make_tune(m, parts, formats[parts % 3], RANK + parts), *t;
        must(tune_write(tune_file, made, m, &error), &error);
        must(tune_open(&t, tune_file, m, &error), &error);
        expect_same_tune(made, t);
        expect_order(t);
        assert_int_equal(checkpoint_find(t->source, "hearth.tune.neurons")->type, VALUE_U32); /* as in all versions */
        tune_close(made);
        tune_close(t);
        assert_int_equal(mem_live(), live);
    }
    hearth_model_close(m);
}

/* Counts of all sizes, where the sort looks at every byte. */
static void test_hottest_first(void **state)
{
    (void)state;
    static const int32_t counts[TINY_F] = {0, 256,       1,         255, 65536, 65535, 1 << 24, 1,
                                           2, 0,         INT32_MAX, 300, 70000, 257,   511,     131072,
                                           7, INT32_MAX, 3,         4,   5,     12,    99,      100};
    hearth_model *m = tiny_model("relu");
    hearth_error error;
    tune *made = make_tune(m, MADE_COUNTS, FORMAT_F32, RANK), *t;
    made->layers[1].counts = counts;
    made->tokens = INT32_MAX;
    must(tune_write(tune_file, made, m, &error), &error);
    must(tune_open(&t, tune_file, m, &error), &error);
    expect_order(t);
    assert_int_equal(t->layers[1].order[0], 10);
    assert_int_equal(t->layers[1].order[1], 17);
    assert_int_equal(t->layers[1].order[TINY_F - 1], 9);
    tune_close(made);
    tune_close(t);
    hearth_model_close(m);
}

static void test_path(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tune;
    } paths[] = {
        {"a.gguf", "a.gguf.tune"}, {"b/c", "b/c.tune"}, {"b/c/", "b/c.tune"}, {"b//", "b.tune"}, {"/", "/.tune"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *path = tune_path(paths[i].model);
        assert_string_equal(path, paths[i].tune);
        mem_free(path);
    }
}

/* ------------------------------------------------------------------ with its model */

static hearth_status open_with(hearth_model **out, const char *path, const char *named, hearth_error *error)
{
    hearth_model_options options = {.tune = named};
    return hearth_model_open(out, path, &options, error);
}

/* Neurons in the order of hotness that the tune file itself says: row r of fc2 is that of the neuron in row r. */
static void test_packed(void **state)
{
    (void)state;
    hearth_error error;
    seen s;
    hearth_model *plain = open_model(GOLDEN "llama-relu");
    write_made(tune_file, plain, MADE_ALL, FORMAT_Q8_0, 32);
    tune *t;
    must(tune_open(&t, tune_file, plain, &error), &error);
    const uint32_t **order = malloc(t->layer_count * sizeof *order);
    for (uint32_t i = 0; i < t->layer_count; i++)
        order[i] = t->layers[i].order;
    must(convert(GOLDEN "llama-relu", out_path, (convert_options){PACK, .order = order}, &s, &error), &error);
    free(order);

    hearth_model *packed;
    must(open_with(&packed, out_path, tune_file, &error), &error);
    expect_same_tune(t, packed->tune);
    expect_order(packed->tune);
    for (uint32_t i = 0; i < t->layer_count; i++) {
        const learned_predictor *by_number = &t->layers[i].predictor, by_row = tune_predictor(packed->tune, packed, i);
        assert_int_equal(by_row.kind, by_number->kind);
        assert_true(by_row.threshold == by_number->threshold);
        for (uint32_t r = 0; r < t->layers[i].neuron_count; r++)
            assert_int_equal(packed->layers[i].order[r], t->layers[i].order[r]);
        if (by_row.kind != PREDICTOR_LOW_RANK)
            continue;
        expect_bytes(&by_row.fc1, &by_number->fc1);
        for (uint32_t r = 0; r < t->layers[i].neuron_count; r++)
            assert_memory_equal(matrix_row(&by_row.fc2, r), matrix_row(&by_number->fc2, t->layers[i].order[r]),
                                by_row.fc2.row_bytes);
    }
    hearth_model_close(packed);
    tune_close(t);
    hearth_model_close(plain);
}

/* Found beside the model by its name, and only there; named, or not wanted. */
static void test_found(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    hearth_model_info info;
    seen s;
    long live = mem_live();
    must(convert(GOLDEN "llama-relu", out_path, (convert_options){.format = FORMAT_COUNT}, &s, &error), &error);
    m = open_model(out_path);
    hearth_model_describe(m, &info);
    assert_false(info.tuned || info.predictors);
    char *beside = tune_path(out_path);
    write_made(tune_file, m, MADE_ALL, FORMAT_F16, 32);
    write_made(beside, m, MADE_COUNTS, FORMAT_F16, 32);
    hearth_model_close(m);

    must(open_with(&m, out_path, NULL, &error), &error);
    hearth_model_describe(m, &info);
    assert_true(info.tuned && !info.predictors && m->tune->layers[0].counts && m->tune->level_count == 0);
    hearth_model_close(m);
    must(open_with(&m, out_path, tune_file, &error), &error);
    hearth_model_describe(m, &info);
    assert_true(info.tuned && info.predictors && m->tune->level_count == MADE_LEVELS);
    hearth_model_close(m);
    must(open_with(&m, out_path, "", &error), &error);
    hearth_model_describe(m, &info);
    assert_false(info.tuned);
    hearth_model_close(m);

    unlink(tune_file);
    assert_int_equal(open_with(&m, out_path, tune_file, &error), HEARTH_IO);
    expect_text(&error, tune_file);
    write_file(beside, "GGUF", 4);
    assert_int_equal(open_with(&m, out_path, beside, &error), HEARTH_FORMAT); /* asked for by name */
    expect_text(&error, beside);
    must(open_with(&m, out_path, NULL, &error), &error); /* merely there: ignored, and it is known why */
    hearth_model_describe(m, &info);
    assert_false(info.tuned || info.predictors);
    assert_string_equal(info.tune_problem, error.text);
    hearth_model_close(m);
    must(open_with(&m, out_path, "", &error), &error);
    hearth_model_describe(m, &info);
    assert_null(info.tune_problem);
    hearth_model_close(m);
    mem_free(beside);
    assert_int_equal(mem_live(), live);
}

/* A PowerInfer file's own predictors, in place of which those of a tune file come, and back. */
static void test_powerinfer(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    must(open_with(&m, PWRI "bamboo/f32.gguf", "", &error), &error);
    assert_true(tune_predicts(m->tune, m));
    for (int with = 0; with < 2; with++) {
        for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
            learned_predictor p = tune_predictor(m->tune, m, i);
            assert_int_equal(p.kind, PREDICTOR_LOW_RANK);
            assert_false(p.reads_normed);
            assert_true(p.threshold == 0.25f); /* golden/pwri/bamboo/cases.json */
            assert_ptr_equal(p.fc1.data, m->layers[i].fc1.data);
            assert_ptr_equal(p.fc2.data, m->layers[i].fc2.data);
        }
        write_made(tune_file, m, with ? MADE_ALL : MADE_COUNTS, FORMAT_F16, 32);
        tune *t;
        must(tune_open(&t, tune_file, m, &error), &error);
        must(tune_attach(m, t, &error), &error);
        assert_ptr_equal(m->tune, t);
        assert_true(tune_predicts(m->tune, m));
    }
    learned_predictor first = tune_predictor(m->tune, m, 0), second = tune_predictor(m->tune, m, 1);
    assert_int_equal(first.fc1.rows, 32);
    assert_true(first.threshold == -0.5f);
    assert_int_equal(second.kind, PREDICTOR_COARSE);
    assert_null(second.fc1.data);
    must(tune_attach(m, NULL, &error), &error);
    assert_null(m->tune);
    assert_int_equal(tune_predictor(m->tune, m, 1).kind, PREDICTOR_LOW_RANK);
    hearth_model_close(m);
}

/* A model with another tune file is another one, of the same weights: the first stays as it is, byte for byte. */
static void test_views(void **state)
{
    (void)state;
    need(PWRI);
    hearth_error error;
    hearth_model *m, *made, *none;
    must(open_with(&m, PWRI "bamboo/f32.gguf", "", &error), &error);
    const hearth_model before = *m;
    size_t bytes = m->hyper.layer_count * sizeof *m->layers;
    model_layer *layers = malloc(bytes);
    memcpy(layers, m->layers, bytes);
    write_made(tune_file, m, MADE_ALL, FORMAT_F16, 32);
    assert_int_equal(hearth_model_with_tune(&made, m, "nowhere.tune", &error), HEARTH_IO);
    must(hearth_model_with_tune(&made, m, tune_file, &error), &error);
    must(hearth_model_with_tune(&none, made, NULL, &error), &error);
    assert_memory_equal(m, &before, sizeof before);
    assert_memory_equal(m->layers, layers, bytes);
    assert_int_equal(tune_predictor(made->tune, made, 0).fc1.rows, 32);
    assert_int_equal(tune_predictor(made->tune, made, 1).kind, PREDICTOR_COARSE);
    assert_ptr_equal(made->layers[1].gate.data, m->layers[1].gate.data);
    assert_null(none->tune);
    assert_ptr_equal(tune_predictor(none->tune, none, 0).fc1.data, m->layers[0].fc1.data);
    hearth_model_close(none);
    hearth_model_close(made);
    assert_memory_equal(m, &before, sizeof before);
    hearth_model_close(m);
    free(layers);
}

/* Every allocation fails once while one is made. */
static void test_view_failures(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m = tiny_model("relu"), *view;
    write_made(tune_file, m, MADE_ALL, FORMAT_F32, RANK);
    long live = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n++) {
        mem_fail_at(n);
        status = hearth_model_with_tune(&view, m, tune_file, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        if (status == HEARTH_OK)
            hearth_model_close(view);
        assert_int_equal(mem_live(), live);
    }
    hearth_model_close(m);
}

/* Where no layer's predictor was worth it, mode predicted is not there. */
static void test_all_none(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m = tiny_model("relu");
    tune *made = make_tune(m, MADE_PREDICTORS, FORMAT_F32, RANK), *t;
    for (uint32_t i = 0; i < TINY_LAYERS; i++)
        made->layers[i].predictor = (learned_predictor){.kind = PREDICTOR_NONE};
    must(tune_write(tune_file, made, m, &error), &error);
    must(tune_open(&t, tune_file, m, &error), &error);
    assert_true(t->has_predictors);
    must(tune_attach(m, t, &error), &error);
    assert_false(tune_predicts(m->tune, m));
    tune_close(made);
    hearth_model_close(m);
}

/* ------------------------------------------------------------------ failing memory and disks */

/* Every allocation, read and write fails once while a model is opened with its tune file. */
static void test_open_failures(void **state)
{
    (void)state;
    seen s;
    hearth_error error;
    uint32_t backwards[128];
    const uint32_t *order[8];
    hearth_model *m = open_model(GOLDEN "llama-relu");
    assert_int_equal(m->layers[0].ffn.neuron_count, 128);
    for (uint32_t i = 0; i < 128; i++)
        backwards[i] = 127 - i;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        order[i] = backwards;
    must(convert(GOLDEN "llama-relu", out_path, (convert_options){PACK, .order = order}, &s, &error), &error);
    write_made(tune_file, m, MADE_ALL, FORMAT_Q8_0, 32);
    hearth_model_close(m);
    long live = mem_live();
    for (int memory = 0; memory < 2; memory++) {
        hearth_status status;
        long n = 0;
        do {
            (memory ? mem_fail_at : file_fail_at)(n++);
            status = open_with(&m, out_path, tune_file, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            if (status == HEARTH_OK)
                hearth_model_close(m);
            else
                assert_int_equal(status, memory ? HEARTH_NO_MEMORY : HEARTH_IO);
            assert_int_equal(mem_live(), live);
        } while (status != HEARTH_OK);
        assert_true(n > 2);
    }
}

/* And while it is written: no half file, the old one stays. */
static void test_write_failures(void **state)
{
    (void)state;
    hearth_model *m = tiny_model("relu");
    tune *old = make_tune(m, MADE_COUNTS, FORMAT_F32, RANK), *made = make_tune(m, MADE_ALL, FORMAT_F32, RANK), *t;
    long live = mem_live();
    for (int memory = 0; memory < 2; memory++) {
        hearth_status status;
        hearth_error error;
        long n = 0;
        do {
            must(tune_write(tune_file, old, m, &error), &error);
            size_t files = count_files(folder);
            (memory ? mem_fail_at : file_fail_at)(n++);
            status = tune_write(tune_file, made, m, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_int_equal(count_files(folder), files);
            assert_int_equal(mem_live(), live);
            if (status != HEARTH_OK)
                assert_int_equal(status, memory ? HEARTH_NO_MEMORY : HEARTH_IO);
            must(tune_open(&t, tune_file, m, &error), &error);
            expect_same_tune(status == HEARTH_OK ? made : old, t);
            tune_close(t);
        } while (status != HEARTH_OK);
        assert_true(n > 2);
    }
    tune_close(old);
    tune_close(made);
    hearth_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_hottest_first),  cmocka_unit_test(test_path),
        cmocka_unit_test(test_packed),        cmocka_unit_test(test_found),          cmocka_unit_test(test_powerinfer),
        cmocka_unit_test(test_views),         cmocka_unit_test(test_view_failures),  cmocka_unit_test(test_all_none),
        cmocka_unit_test(test_open_failures), cmocka_unit_test(test_write_failures),
    };
    return run_group(tests, set_up_tune_files, tear_down);
}
