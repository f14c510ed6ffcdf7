/* model_tune_powerinfer - a tune file's predictors in a PowerInfer file: one threshold lets through what each layer's own
 * did, or more, never less.
 *
 * Expected: the rule "score >= threshold" as both files state it, computed here in double from their matrices. */
#include "tune_files.h"

#include <math.h>

#define SOURCE GOLDEN "llama-relu"

enum { RANK = 32, INPUTS = 40 };

/* Predictors of PowerInfer's kind in all layers, with these thresholds in turn. */
static tune *make_learnt(const hearth_model *m, number_format format, const float *thresholds)
{
    uint32_t seed = 99;
    tune *t = make_tune(m, MADE_COUNTS, format, RANK);
    t->has_predictors = true;
    for (uint32_t i = 0; i < t->layer_count; i++) {
        learned_predictor *p = &t->layers[i].predictor;
        *p = (learned_predictor){.kind = PREDICTOR_LOW_RANK, .threshold = thresholds[i % 2]};
        p->fc1 = made_matrix(&t->memory, format, RANK, m->hyper.embedding_length, &seed);
        p->fc2 = made_matrix(&t->memory, format, m->layers[0].ffn.neuron_count, RANK, &seed);
    }
    return t;
}

static void decode_row(double *out, const matrix *m, uint32_t row)
{
    float *values = malloc(m->columns * sizeof *values);
    number_formats[m->format].decode(matrix_row(m, row), values, m->columns);
    for (uint32_t i = 0; i < m->columns; i++)
        out[i] = (double)values[i];
    free(values);
}

/* One row's product with a vector. *size: the sum of the magnitudes, by which rounding is measured. */
static double product(const matrix *m, uint32_t row, const double *x, double *size)
{
    double *values = malloc(((size_t)m->columns + 1) * sizeof *values), sum = 0;
    decode_row(values, m, row);
    *size = 0;
    for (uint32_t i = 0; i < m->columns; i++) {
        sum += values[i] * x[i];
        *size += fabs(values[i] * x[i]);
    }
    free(values);
    return sum;
}

static void hidden_of(double *out, const matrix *fc1, const double *x)
{
    double size;
    for (uint32_t i = 0; i < fc1->rows; i++)
        out[i] = fmax(product(fc1, i, x, &size), 0);
}

/* What rounding fc2 once more in its format may move a score by, as a share of its size. */
static double rounding(number_format format)
{
    return format == FORMAT_F32 ? 0x1p-22 : format == FORMAT_F16 ? 0x1p-10 : 0x1p-9;
}

typedef struct rule_seen {
    size_t same, more, less, close; /* neurons that both let through or neither, ... */
} rule_seen;

static void see_layer(rule_seen *s, const learned_predictor *own, const model_layer *written, float common,
                      uint32_t *seed)
{
    double x[256], hidden[RANK], size, other_size;
    assert_true(own->fc1.columns <= 256);
    for (int n = 0; n < INPUTS; n++) {
        for (uint32_t i = 0; i < own->fc1.columns; i++)
            x[i] = made_random(seed) * 0x1p-22 - 2;
        hidden_of(hidden, &own->fc1, x);
        for (uint32_t r = 0; r < own->fc2.rows; r++) {
            double score = product(&own->fc2, r, hidden, &size);
            bool wanted = score >= (double)own->threshold;
            bool got = product(&written->fc2, r, hidden, &other_size) >= (double)common;
            if (fabs(score - (double)own->threshold) <= rounding(own->fc2.format) * size)
                s->close++;
            else if (wanted == got)
                s->same++;
            else if (got)
                s->more++;
            else
                s->less++;
        }
    }
}

/* Thresholds of even and odd layers, and what comes of them. */
static const struct {
    float thresholds[2];
    float common;   /* NAN: a number below zero, INFINITY: above                                       */
    bool more[2];   /* lets more through in such layers, for all to see                                */
    bool told;      /* and it is said; also where it is too little to be seen, just below zero for zero */
    bool untouched; /* fc2 is copied as it is                                                          */
} cases[] = {
    {{-0.5f, -0.5f}, -0.5f, {false, false}, false, true},
    {{0.3f, 0.3f}, 0.3f, {false, false}, false, true},
    {{0, 0}, 0, {false, false}, false, true},
    {{-0.5f, -3}, NAN, {false, false}, false, false},
    {{0.25f, 4}, INFINITY, {false, false}, false, false},
    {{0, 2}, 0, {false, true}, true, true},
    {{-0.5f, 2}, NAN, {false, true}, true, false},
    {{-1, 0}, NAN, {false, false}, true, false},
    {{-1e-3f, -10}, NAN, {false, false}, false, false},
    {{-1e-15f, -2}, NAN, {false, false}, true, false},
    {{1e-12f, 2}, 0, {false, true}, true, true},
};

static void see_told(void *user, const char *text)
{
    *(bool *)user |= strstr(text, "PowerInfer has one threshold for all layers") != NULL;
}

static void expect_case(size_t i, number_format format)
{
    hearth_error error;
    bool told = false;
    hearth_model *plain = open_model(SOURCE);
    tune *t = make_learnt(plain, format, cases[i].thresholds);
    must(tune_write(tune_file, t, plain, &error), &error);
    convert_options o = {.format = FORMAT_COUNT, .predictors = tune_file, .note = see_told, .user = &told};
    must(convert_write(SOURCE, out_path, &o, threads, &error), &error);
    hearth_model *m = open_model(out_path);
    assert_true(m->powerinfer && m->predictors);
    float common = m->hyper.predictor_threshold;
    assert_true(isnan(cases[i].common) ? common < 0 : isinf(cases[i].common) ? common > 0 : common == cases[i].common);
    uint32_t seed = 7;
    for (uint32_t l = 0; l < t->layer_count; l++) {
        rule_seen r = {0};
        expect_bytes(&t->layers[l].predictor.fc1, &m->layers[l].fc1);
        assert_int_equal(m->layers[l].fc2.format, format);
        see_layer(&r, &t->layers[l].predictor, &m->layers[l], common, &seed);
        if (r.less > 0 || (r.more > 0) != cases[i].more[l % 2] || r.same < r.close)
            fail_msg("case %zu, %s, layer %u: %zu same, %zu more, %zu less, %zu too close to tell", i,
                     number_formats[format].name, l, r.same, r.more, r.less, r.close);
        if (cases[i].untouched)
            expect_bytes(&t->layers[l].predictor.fc2, &m->layers[l].fc2);
    }
    assert_int_equal(told, cases[i].told);
    hearth_model_close(m);
    tune_close(t);
    hearth_model_close(plain);
}

static void test_thresholds(void **state)
{
    (void)state;
    static const number_format formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_Q8_0};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            expect_case(i, formats[f]);
}

/* The type that was asked for reaches predictors too, scaled or not. */
static void test_type(void **state)
{
    (void)state;
    hearth_error error;
    seen s;
    hearth_model *plain = open_model(SOURCE);
    tune *t = make_learnt(plain, FORMAT_F32, (const float[]){-1, -2});
    must(tune_write(tune_file, t, plain, &error), &error);
    must(convert(SOURCE, out_path, (convert_options){.format = FORMAT_Q8_0, .predictors = tune_file}, &s, &error),
         &error);
    hearth_model *m = open_model(out_path);
    assert_int_equal(m->layers[0].fc1.format, FORMAT_Q8_0);
    assert_int_equal(m->layers[1].fc2.format, FORMAT_Q8_0);
    hearth_model_close(m);
    tune_close(t);
    hearth_model_close(plain);
}

/* What PowerInfer cannot run is not written. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        learned_predictor instead; /* of layer 1; low-rank: only its input */
        hearth_status status;
        const char *text;
    } others[] = {
        {{.kind = PREDICTOR_NONE}, HEARTH_UNSUPPORTED, "x.tune: predictors: layer 1: is none, but PowerInfer runs"},
        {{.kind = PREDICTOR_COARSE, .coarse_format = FORMAT_Q4_0}, HEARTH_UNSUPPORTED, "layer 1: is coarse, but"},
        {{.kind = PREDICTOR_LOW_RANK, .reads_normed = true},
         HEARTH_UNSUPPORTED,
         "layer 1: reads the normed input, but PowerInfer runs low-rank ones that read the residual stream, in every "
         "layer; `hearth tune --for-powerinfer` makes them"},
    };
    hearth_error error;
    seen s;
    convert_options o = {.format = FORMAT_COUNT, .predictors = tune_file};
    hearth_model *plain = open_model(SOURCE);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tune *t = make_learnt(plain, FORMAT_F16, (const float[]){-1, -1});
        learned_predictor *p = &t->layers[1].predictor;
        if (others[i].instead.kind == PREDICTOR_LOW_RANK)
            p->reads_normed = true;
        else
            *p = others[i].instead;
        must(tune_write(tune_file, t, plain, &error), &error);
        unlink(out_path);
        assert_int_equal(convert(SOURCE, out_path, o, &s, &error), others[i].status);
        expect_text(&error, others[i].text);
        assert_int_equal(access(out_path, F_OK), -1);
        tune_close(t);
    }
    write_made(tune_file, plain, MADE_COUNTS, FORMAT_F16, RANK);
    assert_int_equal(convert(SOURCE, out_path, o, &s, &error), HEARTH_UNSUPPORTED);
    expect_text(&error, "x.tune: predictors: it holds none; `hearth tune --for-powerinfer` makes them");

    tune *t = make_learnt(plain, FORMAT_F32, (const float[]){-1, -2});
    ((float *)t->layers[0].predictor.fc2.data)[5] = NAN;
    must(tune_write(tune_file, t, plain, &error), &error);
    tune_close(t);
    assert_int_equal(convert(SOURCE, out_path, o, &s, &error), HEARTH_FORMAT);
    expect_text(&error, "x.tune: tensor blk.0.fc2.weight: holds what is not a number");
    assert_int_equal(convert(SOURCE, tune_file, o, &s, &error), HEARTH_INVALID);
    expect_text(&error, "x.tune: is what would be read: choose another name");
    hearth_model_close(plain);

    /* another model's, and no tune file at all */
    o.predictors = more_path;
    assert_int_equal(convert(SOURCE, out_path, o, &s, &error), HEARTH_IO);
    expect_text(&error, "more.gguf: predictors: is not a folder, nor a tune file");
    plain = open_model(GOLDEN "llama-fatrelu");
    write_made(more_path, plain, MADE_COUNTS, FORMAT_F16, RANK);
    hearth_model_close(plain);
    assert_int_equal(convert(SOURCE, out_path, o, &s, &error), HEARTH_FORMAT);
    expect_text(&error, "more.gguf: is the tune file of another model");
}

static void test_failures(void **state)
{
    (void)state;
    hearth_error error;
    char elsewhere[] = "/tmp/hearth-test-XXXXXX";
    hearth_model *plain = open_model(SOURCE);
    tune *t = make_learnt(plain, FORMAT_Q8_0, (const float[]){-0.5f, 2});
    int file = mkstemp(elsewhere); /* the folder must be empty */
    assert_true(file >= 0);
    close(file);
    must(tune_write(elsewhere, t, plain, &error), &error);
    tune_close(t);
    hearth_model_close(plain);
    unlink(tune_file);
    fail_everywhere(SOURCE, &(convert_options){.format = FORMAT_COUNT, .predictors = elsewhere});
    unlink(elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_type),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_failures),
    };
    return run_group(tests, set_up_tune_files, tear_down);
}
