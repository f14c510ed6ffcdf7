/* model_predictors - predictors added to a model make a PowerInfer file, and PowerInfer files stay what they are.
 *
 * Expected values: PowerInfer's golden files, byte for byte. Folders that do not fit the model are refused by file and
 * tensor, and leave no file behind. */
#include "pack_build.h"

#include "torch_build.h"

#include <sys/stat.h>

static char predictor_folder[300];

static void expect_note(const seen *s, const char *text)
{
    if (strncmp(s->note, text, strlen(text)) != 0)
        fail_msg("%s", s->note);
}

/* -------------------------------------------------------------- PowerInfer */

static void expect_same_tensors(const checkpoint *a, const checkpoint *b)
{
    assert_int_equal(a->tensor_count, b->tensor_count);
    for (size_t i = 0; i < a->tensor_count; i++) {
        const stored_tensor *x = &a->tensors[i], *y = checkpoint_find_tensor(b, x->name);
        if (!y || x->format != y->format || x->rank != y->rank || memcmp(x->shape, y->shape, sizeof x->shape) != 0 ||
            memcmp(x->data, y->data, x->size_bytes) != 0)
            fail_msg("%s", x->name);
    }
}

/* llama/hf and its predictors are llama/f16.gguf, byte for byte. */
static void test_golden_predictors(void **state)
{
    (void)state;
    seen s;
    hearth_error error;
    convert_options o = {.format = FORMAT_COUNT, .predictors = PWRI "llama/hf/predictors"};
    must(convert(PWRI "llama/hf", out_path, o, &s, &error), &error);
    assert_int_equal(s.notes, 0);
    checkpoint *c = open_file(out_path), *wanted = open_file(PWRI "llama/f16.gguf");
    assert_true(c->powerinfer);
    expect_same_tensors(c, wanted);
    const key_value *threshold = checkpoint_find(c, "powerinfer.sparse_threshold");
    assert_non_null(threshold);
    assert_int_equal(threshold->type, VALUE_F32);
    assert_true(threshold->as.f == 0);
    assert_null(checkpoint_find(c, "hearth.pack.version"));
    checkpoint_close(c);
    checkpoint_close(wanted);
    hearth_model *m = open_model(out_path);
    assert_true(m->powerinfer && m->predictors && m->neuron_major);
    assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
    hearth_model_close(m);

    /* Through the plain GGUF it is the same; another type reaches down and predictors too. */
    must(convert(PWRI "llama/plain-f16.gguf", out_path, o, &s, &error), &error);
    c = open_file(out_path);
    wanted = open_file(PWRI "llama/f16.gguf");
    expect_same_tensors(c, wanted);
    checkpoint_close(c);
    checkpoint_close(wanted);
    o.format = FORMAT_Q8_0;
    must(convert(PWRI "llama/hf", out_path, o, &s, &error), &error);
    assert_int_equal(s.notes, 1);
    expect_note(&s, "PowerInfer");
    m = open_model(out_path);
    assert_int_equal(m->layers[1].down_t.format, FORMAT_Q8_0);
    assert_int_equal(m->layers[1].fc1.format, FORMAT_Q8_0);
    assert_int_equal(m->layers[1].fc2.format, FORMAT_Q8_0);
    hearth_model_close(m);
}

/* A PowerInfer file stays one, and its predictors shrink with it. */
static void test_quantize_powerinfer(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "bamboo"};
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        seen s;
        hearth_error error;
        snprintf(path, sizeof path, PWRI "%s/f16.gguf", names[i]);
        must(convert(path, out_path, (convert_options){.format = FORMAT_Q4_0, .head_apart = true}, &s, &error), &error);
        assert_int_equal(s.transposed, 0);
        assert_true(s.relative_error > 0.01 && s.relative_error < 0.2);
        hearth_model *m = open_model(out_path), *original = open_model(path);
        assert_true(m->powerinfer && m->predictors && !m->requantised);
        assert_int_equal(m->head.format, FORMAT_Q8_0); /* Q6_K does not divide 64 */
        for (uint32_t l = 0; l < m->hyper.layer_count; l++) {
            const matrix *a[] = {&m->layers[l].fc1, &m->layers[l].fc2, &m->layers[l].down_t, &m->layers[l].gate};
            const matrix *b[] = {&original->layers[l].fc1, &original->layers[l].fc2, &original->layers[l].down_t,
                                 &original->layers[l].gate};
            for (size_t k = 0; k < 4; k++) {
                float values[64];
                char wanted[36];
                assert_int_equal(a[k]->format, FORMAT_Q4_0);
                number_formats[FORMAT_F16].decode(matrix_row(b[k], 7), values, 64);
                number_formats[FORMAT_Q4_0].encode(values, NULL, wanted, 64);
                assert_memory_equal(wanted, matrix_row(a[k], 7), sizeof wanted);
            }
        }
        hearth_model_close(m);
        hearth_model_close(original);
    }
}

/* ------------------------------------------------------- predictors that do not fit */

static void copy_file(const char *from, const char *to)
{
    size_t size;
    uint8_t *data = load_file(from, &size);
    write_file(to, data, size);
    free(data);
}

/* predictor_folder with files 0 and 1 of the golden ones, and a config or none. */
static void make_predictors(const char *config)
{
    char path[400];
    mkdir(predictor_folder, 0700);
    remove_folder(predictor_folder);
    assert_int_equal(mkdir(predictor_folder, 0700), 0);
    for (int i = 0; i < 2; i++) {
        char from[400];
        snprintf(from, sizeof from, PWRI "llama/hf/predictors/model_%d.pt", i);
        snprintf(path, sizeof path, "%s/model_%d.pt", predictor_folder, i);
        copy_file(from, path);
    }
    snprintf(path, sizeof path, "%s/config.json", predictor_folder);
    if (config)
        write_file(path, config, strlen(config));
}

/* A file of float32 tensors, all zero. */
static void write_predictor(const char *name, const tensor_text *tensors, size_t count)
{
    char path[400];
    size_t most = 0;
    buffer pickle = {0}, archive = {0}, zeros = {0};
    put_state(&pickle, tensors, count);
    for (size_t i = 0; i < count; i++)
        most = (size_t)tensors[i].values > most ? (size_t)tensors[i].values : most;
    put_zeros(&zeros, most * sizeof(float));
    zip_part parts[8] = {{.path = "m/data.pkl", .data = pickle.data, .size = pickle.size}};
    char names[8][16];
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "m/data/%s", tensors[i].key);
        parts[i + 1] =
            (zip_part){.path = names[i], .data = zeros.data, .size = (size_t)tensors[i].values * sizeof(float)};
    }
    put_zip(&archive, parts, count + 1);
    snprintf(path, sizeof path, "%s/%s", predictor_folder, name);
    write_file(path, archive.data, archive.size);
    buffer_free(&pickle);
    buffer_free(&archive);
    buffer_free(&zeros);
}

static void refused(const char *source, hearth_status status, const char *text)
{
    seen s;
    hearth_error error = {0};
    convert_options o = {.format = FORMAT_COUNT, .predictors = predictor_folder};
    unlink(out_path);
    assert_int_equal(convert(source, out_path, o, &s, &error), status);
    expect_text(&error, text);
    assert_int_equal(access(out_path, F_OK), -1);
}

static void test_bad_predictors(void **state)
{
    (void)state;
    char path[400], other[400];
    long live = mem_live();
    const char *llama = PWRI "llama/hf";
    make_predictors(NULL);
    refused(GOLDEN "llama-relu", HEARTH_FORMAT, "model_0.pt: fc2.weight: is 64 x 1056, expected 64 x 128");
    refused(GOLDEN "llama", HEARTH_UNSUPPORTED, "llama: predictors: a PowerInfer file is of a model whose neurons");
    refused(PWRI "llama/f16.gguf", HEARTH_UNSUPPORTED, "f16.gguf: predictors: the model has some already");

    snprintf(path, sizeof path, "%s/model_1.pt", predictor_folder);
    unlink(path);
    refused(llama, HEARTH_FORMAT, "/model_1.pt: is missing: the model has 2 layers");
    snprintf(other, sizeof other, "%s/model_0.pt", predictor_folder);
    size_t size;
    uint8_t *data = load_file(other, &size);
    write_file(path, data, size / 2);
    free(data);
    refused(llama, HEARTH_FORMAT, "/model_1.pt: ");

    static const char *const extras[] = {"model_9.pt", "model_2.pt", "model_01.pt", "model_0x.pt", "other.pt"};
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        make_predictors(NULL);
        snprintf(path, sizeof path, "%s/%s", predictor_folder, extras[i]);
        copy_file(other, path);
        refused(llama, HEARTH_FORMAT, ".pt: is not a predictor of a model of 2 layers (model_0.pt to model_1.pt)");
    }
    static const struct {
        const char *config, *text;
    } configs[] = {
        {"{\"sparse_threshold\": \"low\"}", "config.json: sparse_threshold: "},
        {"{\"sparse_threshold\": 1e300}", "config.json: sparse_threshold: is 1e+300, which is not a float32"},
        {"[0.5]", "config.json: is not an object"},
        {"{\"sparse_threshold\": 0,}", "config.json: "},
        {"", "config.json: "}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        make_predictors(configs[i].config);
        refused(llama, HEARTH_FORMAT, configs[i].text);
    }
    remove_folder(predictor_folder);
    refused(llama, HEARTH_IO, "predictors: is not a folder");
    assert_int_equal(mem_live(), live);
}

#define MATRIX(name_, key_, rows, columns)                                                               \
    {                                                                                                    \
        .name = (name_), .type = "FloatStorage", .key = (key_), .values = (rows) * (columns), .rank = 2, \
        .shape = {rows, columns}, .strides = {                                                           \
            columns,                                                                                     \
            1                                                                                            \
        }                                                                                                \
    }

/* A layer's file with other tensors than it should have. */
static void test_bad_tensors(void **state)
{
    (void)state;
    static const struct {
        tensor_text tensors[3];
        size_t count;
        const char *text;
    } files[] = {
        {{MATRIX("fc1.weight", "0", 32, 64)}, 1, "/model_1.pt: fc2.weight: is missing"},
        {{MATRIX("fc2.weight", "0", 1056, 32)}, 1, "/model_1.pt: fc1.weight: is missing"},
        {{MATRIX("fc1.weight", "0", 64, 64), MATRIX("fc2.weight", "1", 1000, 64)},
         2,
         "/model_1.pt: fc2.weight: is 64 x 1000, expected 64 x 1056"},
        {{MATRIX("fc1.weight", "0", 32, 64), MATRIX("fc2.weight", "1", 1056, 64)},
         2,
         "/model_1.pt: fc2.weight: is 64 x 1056, expected 32 x 1056"},
        {{MATRIX("fc1.weight", "0", 32, 80), MATRIX("fc2.weight", "1", 1056, 32)},
         2,
         "/model_1.pt: fc1.weight: is 80 x 32, expected 64 x 32"},
        {{MATRIX("fc1.weight", "0", 32, 64), MATRIX("fc2.weight", "1", 1056, 32), MATRIX("fc2.bias", "2", 1, 1056)},
         3,
         "/model_1.pt: fc2.bias: is not part of a predictor"},
        {{{.name = "fc1.weight",
           .type = "FloatStorage",
           .key = "0",
           .values = 64,
           .rank = 1,
           .shape = {64},
           .strides = {1}},
          MATRIX("fc2.weight", "1", 1056, 32)},
         2,
         "/model_1.pt: fc1.weight: is not a matrix"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        make_predictors(NULL);
        write_predictor("model_1.pt", files[i].tensors, files[i].count);
        refused(PWRI "llama/hf", HEARTH_FORMAT, files[i].text);
    }
    /* another rank than layer 0's is no fault */
    static const tensor_text narrow[] = {MATRIX("fc1.weight", "0", 32, 64), MATRIX("fc2.weight", "1", 1056, 32)};
    seen s;
    hearth_error error;
    make_predictors(NULL);
    write_predictor("model_1.pt", narrow, 2);
    convert_options o = {.format = FORMAT_COUNT, .predictors = predictor_folder};
    must(convert(PWRI "llama/hf", out_path, o, &s, &error), &error);
    hearth_model *m = open_model(out_path);
    assert_int_equal(m->layers[0].fc1.rows, 64);
    assert_int_equal(m->layers[1].fc1.rows, 32);
    assert_int_equal(m->layers[1].fc2.columns, 32);
    hearth_model_close(m);
    remove_folder(predictor_folder);
}

/* The threshold is config.json's, and no key where it names none. */
static void test_thresholds(void **state)
{
    (void)state;
    seen s;
    hearth_error error;
    convert_options o = {.format = FORMAT_COUNT, .predictors = predictor_folder};
    make_predictors("{\"sparse_threshold\": -0.25, \"note\": [1, 2]}");
    must(convert(PWRI "llama/hf", out_path, o, &s, &error), &error);
    hearth_model *m = open_model(out_path);
    assert_true(m->hyper.predictor_threshold == -0.25f);
    hearth_model_close(m);
    /* packed it is a GGUF, which says what the magic said */
    must(convert(out_path, more_path, (convert_options){PACK}, &s, &error), &error);
    checkpoint *c = open_file(more_path);
    assert_false(c->powerinfer);
    assert_true(checkpoint_find(c, "powerinfer.sparse_threshold")->as.f == -0.25);
    assert_true(span_equal(checkpoint_find(c, "llama.hidden_activation")->as.string, span_of("relu")));
    assert_int_equal(checkpoint_find(c, "hearth.pack.version")->as.u, 1);
    checkpoint_close(c);
    make_predictors(NULL);
    must(convert(PWRI "llama/hf", out_path, o, &s, &error), &error);
    c = open_file(out_path);
    assert_null(checkpoint_find(c, "powerinfer.sparse_threshold"));
    checkpoint_close(c);

    char inside[400]; /* none of the predictors is written over */
    snprintf(inside, sizeof inside, "%s/model_1.pt", predictor_folder);
    assert_int_equal(convert(PWRI "llama/hf", inside, o, &s, &error), HEARTH_INVALID);
    expect_text(&error, "model_1.pt: is what would be read");
    remove_folder(predictor_folder);
}

static void test_failures(void **state)
{
    (void)state;
    fail_everywhere(PWRI "llama/hf",
                    &(convert_options){.format = FORMAT_Q4_0, .predictors = PWRI "llama/hf/predictors"});
}

static int set_up_all(void **state)
{
    int failed = set_up(state);
    snprintf(predictor_folder, sizeof predictor_folder, "%s-predictors", folder);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_predictors), cmocka_unit_test(test_quantize_powerinfer),
        cmocka_unit_test(test_bad_predictors),    cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_thresholds),        cmocka_unit_test(test_failures),
    };
    return run_group(tests, set_up_all, tear_down);
}
