/* model_tune - tune files: what goes in comes out, rows meet the model's order, and whatever is wrong is named.
 *
 * Damaged files are good ones of which one key or tensor was changed. */
#include "pack_build.h"

#include "tune_build.h"

#include "../src/model/fingerprint.h"

#include <math.h>
#include <sys/stat.h>

static char tune_file[320];

enum { RANK = 4 };

/* The tiny model with ReLU: low-rank in layer 0, coarse in layer 1. */
static hearth_model *tiny_model(const char *activation)
{
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_string(c, "llama.hidden_activation", span_of(activation), &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    return m;
}

static void write_made(const char *path, const hearth_model *m, unsigned parts, number_format format, uint32_t rank)
{
    hearth_error error;
    tune *t = make_tune(m, parts, format, rank);
    must(tune_write(path, t, m, &error), &error);
    tune_close(t);
}

/* ------------------------------------------------------------------ round trip */

/* Hottest first, ties by number: by definition, one pair after the other. */
static void expect_order(const tune *t)
{
    for (uint32_t layer = 0; layer < t->layer_count; layer++) {
        const tune_layer *l = &t->layers[layer];
        assert_int_equal(l->order == NULL, l->counts == NULL);
        for (uint32_t i = 1; l->order && i < t->neuron_count; i++) {
            uint32_t a = l->order[i - 1], b = l->order[i];
            assert_true(a < t->neuron_count && b < t->neuron_count);
            bool in_order = a < b;
            assert_true(l->counts[a] > l->counts[b] || (l->counts[a] == l->counts[b] && in_order));
        }
    }
}

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
    need(GOLDEN);
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
        const learned_predictor *by_number = &t->layers[i].predictor, *by_row = &packed->layers[i].predictor;
        assert_int_equal(by_row->kind, by_number->kind);
        assert_true(by_row->threshold == by_number->threshold);
        for (uint32_t r = 0; r < t->neuron_count; r++)
            assert_int_equal(packed->layers[i].order[r], t->layers[i].order[r]);
        if (by_row->kind != PREDICTOR_LOW_RANK)
            continue;
        expect_bytes(&by_row->fc1, &by_number->fc1);
        for (uint32_t r = 0; r < t->neuron_count; r++)
            assert_memory_equal(matrix_row(&by_row->fc2, r), matrix_row(&by_number->fc2, t->layers[i].order[r]),
                                by_row->fc2.row_bytes);
    }
    hearth_model_close(packed);
    tune_close(t);
    hearth_model_close(plain);
}

/* Found beside the model by its name, and only there; named, or not wanted. */
static void test_found(void **state)
{
    (void)state;
    need(GOLDEN);
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
    assert_int_equal(open_with(&m, out_path, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, beside);
    must(open_with(&m, out_path, "", &error), &error);
    hearth_model_close(m);
    mem_free(beside);
    assert_int_equal(mem_live(), live);
}

/* A PowerInfer file's own predictors, in place of which those of a tune file come, and back. */
static void test_powerinfer(void **state)
{
    (void)state;
    need(PWRI);
    hearth_error error;
    hearth_model *m;
    must(open_with(&m, PWRI "bamboo/f32.gguf", "", &error), &error);
    assert_true(m->predictors);
    for (int with = 0; with < 2; with++) {
        for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
            const learned_predictor *p = &m->layers[i].predictor;
            assert_int_equal(p->kind, PREDICTOR_LOW_RANK);
            assert_false(p->reads_normed);
            assert_true(p->threshold == 0.25f); /* golden/pwri/bamboo/cases.json */
            assert_ptr_equal(p->fc1.data, m->layers[i].fc1.data);
            assert_ptr_equal(p->fc2.data, m->layers[i].fc2.data);
        }
        write_made(tune_file, m, with ? MADE_ALL : MADE_COUNTS, FORMAT_F16, 32);
        tune *t;
        must(tune_open(&t, tune_file, m, &error), &error);
        must(tune_attach(m, t, &error), &error);
        assert_ptr_equal(m->tune, t);
        assert_true(m->predictors);
    }
    assert_int_equal(m->layers[0].predictor.fc1.rows, 32);
    assert_true(m->layers[0].predictor.threshold == -0.5f);
    assert_int_equal(m->layers[1].predictor.kind, PREDICTOR_COARSE);
    assert_null(m->layers[1].predictor.fc1.data);
    must(tune_attach(m, NULL, &error), &error);
    assert_null(m->tune);
    assert_int_equal(m->layers[1].predictor.kind, PREDICTOR_LOW_RANK);
    hearth_model_close(m);
}

/* Where no layer's predictor was worth it, the rung predicted is not there. */
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
    assert_false(m->predictors);
    tune_close(made);
    hearth_model_close(m);
}

/* ------------------------------------------------------------------ damage */

typedef enum damage_kind {
    DROP_KEY,
    SET_U32,
    SET_TEXT,
    SET_FLOAT,      /* an array becomes a single float          */
    SET_ITEM_FLOAT, /* item `at` of an array                    */
    SET_ITEM_TEXT,
    CUT_ARRAY, /* to `at` items                            */
    DROP_TENSOR,
    SET_TENSOR, /* another shape or format, all bytes zero  */
    SET_VALUE,  /* value `at` of an F32 tensor              */
    SET_COUNT   /* of an I32 tensor                         */
} damage_kind;

typedef struct damage {
    const char *name;
    damage_kind kind;
    double number;
    const char *text;
    uint32_t at;
    number_format format;
    uint32_t rank;
    uint64_t columns, rows;
    const char *expected;
} damage;

#define KEY(name_)            .name = "hearth.tune." name_
#define VECTOR(format_, f)    .kind = SET_TENSOR, .format = (format_), .rank = 1, .columns = (f), .rows = 1
#define MATRIX(format_, c, r) .kind = SET_TENSOR, .format = (format_), .rank = 2, .columns = (c), .rows = (r)

// clang-format off
static const damage damages[] = {
    /* whose and of which version */
    {.name = "general.architecture", .kind = DROP_KEY, .expected = "key general.architecture: is missing"},
    {.name = "general.architecture", .kind = SET_TEXT, .text = "llama",
     .expected = "key general.architecture: is llama, expected hearth-tune: it is no tune file"},
    {KEY("version"), .kind = DROP_KEY, .expected = "key hearth.tune.version: is missing"},
    {KEY("version"), .kind = SET_U32, .number = 2, .expected = "key hearth.tune.version: is 2, this hearth reads 1"},
    {KEY("version"), .kind = SET_TEXT, .text = "1", .expected = "key hearth.tune.version: is a string"},
    {KEY("fingerprint"), .kind = DROP_KEY, .expected = "key hearth.tune.fingerprint: is missing"},
    {KEY("fingerprint"), .kind = SET_TEXT, .text = "abc",
     .expected = "is the tune file of another model (fingerprint abc, this model has "},
    {KEY("fingerprint"), .kind = SET_TEXT, .text = "abc", .expected = "; --tune none runs without it"},
    {KEY("layers"), .kind = DROP_KEY, .expected = "key hearth.tune.layers: is missing"},
    {KEY("layers"), .kind = SET_U32, .number = 3, .expected = "is of a model of 3 layers of 24 neurons, this one has 2 of 24"},
    {KEY("neurons"), .kind = SET_U32, .number = 25, .expected = "is of a model of 2 layers of 25 neurons"},
    {KEY("colour"), .kind = SET_U32, .expected = "key hearth.tune.colour: is not part of a tune file"},
    {.name = "general.name", .kind = SET_TEXT, .text = "x", .expected = NULL}, /* others' keys are no concern of ours */
    /* profile */
    {KEY("tokens"), .kind = DROP_KEY, .expected = "key hearth.tune.tokens: is 0, expected 1 to 2147483647"},
    {KEY("tokens"), .kind = SET_TEXT, .text = "9", .expected = "key hearth.tune.tokens: is no integer of at least 0"},
    {KEY("tokens"), .kind = SET_U32, .number = 4294967295., .expected = "key hearth.tune.tokens: is 4294967295, expected 1 to"},
    {KEY("tokens"), .kind = SET_U32, .number = 10, .expected = ".counts: value "},
    {.name = "blk.1.counts", .kind = DROP_TENSOR, .expected = "tensor blk.1.counts: is missing, and layer 0 has one"},
    {.name = "blk.0.counts", .kind = DROP_TENSOR, .expected = "tensor blk.1.counts: is there, and layer 0 has none"},
    {.name = "blk.0.counts", VECTOR(FORMAT_I32, TINY_F - 1), .expected = "the first is 23, expected 24 of i32"},
    {.name = "blk.0.counts", VECTOR(FORMAT_F32, TINY_F), .expected = "blk.0.counts: is f32 of"},
    {.name = "blk.0.counts", MATRIX(FORMAT_I32, TINY_F, 1), .expected = "blk.0.counts: is i32 of 2 dimensions"},
    {.name = "blk.1.counts", .kind = SET_COUNT, .at = 5, .number = -1,
     .expected = "tensor blk.1.counts: value 5 is -1, expected 0 to the number of tokens"},
    {.name = "blk.1.counts", .kind = SET_COUNT, .at = 23, .number = MADE_TOKENS + 1, .expected = "value 23 is 1001"},
    {.name = "blk.0.magnitudes", VECTOR(FORMAT_F32, 256), .expected = "the first is 256, expected 257 of f32"},
    {.name = "blk.0.magnitudes", .kind = SET_VALUE, .at = 0, .number = -1, .expected = "blk.0.magnitudes: value 0 is -1"},
    {.name = "blk.0.magnitudes", .kind = SET_VALUE, .at = 256, .number = INFINITY, .expected = "value 256 is inf"},
    {.name = "blk.0.magnitudes", .kind = SET_VALUE, .at = 9, .number = NAN, .expected = "blk.0.magnitudes: value 9 is"},
    {.name = "blk.1.magnitudes", .kind = SET_VALUE, .at = 256, .number = 0.5,
     .expected = "value 256 is 0.5, expected finite numbers of at least 0 that do not descend"},
    {.name = "blk.1.magnitudes", .kind = DROP_TENSOR, .expected = "blk.1.magnitudes: is missing, and layer 0 has one"},
    /* thresholds of pruning */
    {KEY("levels"), .kind = DROP_KEY, .expected = "blk.0.prune: is there, and key hearth.tune.levels is not"},
    {KEY("levels"), .kind = CUT_ARRAY, .at = 0, .expected = "key hearth.tune.levels: has 0 values, expected 1 to 256"},
    {KEY("levels"), .kind = CUT_ARRAY, .at = 2, .expected = "the first is 3, expected 2 of f32"},
    {KEY("levels"), .kind = SET_FLOAT, .number = 0.5, .expected = "key hearth.tune.levels: is a float, expected an array"},
    {KEY("levels"), .kind = SET_ITEM_FLOAT, .at = 1, .number = 0.25, .expected = "value 1 is 0.25, expected shares of 0 to 1 that ascend"},
    {KEY("levels"), .kind = SET_ITEM_FLOAT, .at = 2, .number = 1.5, .expected = "key hearth.tune.levels: value 2 is 1.5"},
    {KEY("levels"), .kind = SET_ITEM_FLOAT, .at = 0, .number = NAN, .expected = "key hearth.tune.levels: value 0 is"},
    {.name = "blk.0.prune", .kind = SET_VALUE, .at = 2, .number = NAN, .expected = "tensor blk.0.prune: value 2 is"},
    {.name = "blk.0.prune", .kind = SET_VALUE, .at = 0, .number = -0.5, .expected = "value 0 is -0.5, expected a finite number"},
    {.name = "blk.1.prune", .kind = DROP_TENSOR, .expected = "blk.1.prune: is missing, and layer 0 has one"},
    /* predictors */
    {KEY("predictors"), .kind = DROP_KEY, .expected = "key hearth.tune.inputs: is there, and key hearth.tune.predictors is not"},
    {KEY("predictors"), .kind = CUT_ARRAY, .at = 1, .expected = "key hearth.tune.predictors: has 1 values, the model has 2 layers"},
    {KEY("predictors"), .kind = SET_ITEM_TEXT, .at = 1, .text = "oracle",
     .expected = "key hearth.tune.predictors: value 1 is 'oracle', expected one of: none, low-rank, coarse"},
    {KEY("predictors"), .kind = SET_ITEM_TEXT, .at = 0, .text = "none",
     .expected = "tensor blk.0.fc1.weight: is there, and the layer has no low-rank predictor"},
    {KEY("predictors"), .kind = SET_ITEM_TEXT, .at = 1, .text = "none", .expected = "value 1 names a format, and the layer's"},
    {KEY("predictors"), .kind = SET_ITEM_TEXT, .at = 1, .text = "low-rank", .expected = "value 1 names a format"},
    {KEY("predictors"), .kind = SET_FLOAT, .expected = "key hearth.tune.predictors: is a float, expected an array"},
    {KEY("inputs"), .kind = DROP_KEY, .expected = "key hearth.tune.inputs: is missing"},
    {KEY("inputs"), .kind = SET_ITEM_TEXT, .at = 0, .text = "", .expected = "value 0 is '', expected one of: residual, normed"},
    {KEY("coarse_types"), .kind = DROP_KEY, .expected = "key hearth.tune.coarse_types: is missing"},
    {KEY("coarse_types"), .kind = SET_ITEM_TEXT, .at = 1, .text = "", .expected = "layer 1 is coarse and has no format"},
    {KEY("coarse_types"), .kind = SET_ITEM_TEXT, .at = 1, .text = "i32", .expected = "value 1 is 'i32', which is no number format"},
    {KEY("coarse_types"), .kind = SET_ITEM_TEXT, .at = 1, .text = "q8_0",
     .expected = "layer 1: rows of 16 values are no whole blocks of q8_0"},
    {KEY("thresholds"), .kind = DROP_KEY, .expected = "key hearth.tune.thresholds: is missing"},
    {KEY("thresholds"), .kind = SET_ITEM_FLOAT, .at = 1, .number = INFINITY,
     .expected = "key hearth.tune.thresholds: value 1 is inf, expected a finite number"},
    {KEY("recalls"), .kind = SET_ITEM_FLOAT, .at = 0, .number = 1.01, .expected = "hearth.tune.recalls: value 0 is 1.01"},
    {KEY("recalls"), .kind = CUT_ARRAY, .at = 0, .expected = "hearth.tune.recalls: has 0 values, the model has 2 layers"},
    {KEY("densities"), .kind = SET_ITEM_FLOAT, .at = 1, .number = -0.5, .expected = "hearth.tune.densities: value 1 is -0.5"},
    {KEY("densities"), .kind = DROP_KEY, .expected = "key hearth.tune.densities: is missing"},
    {.name = "blk.0.fc1.weight", .kind = DROP_TENSOR, .expected = "blk.0.fc1.weight: is missing, and the layer's predictor is low-rank"},
    {.name = "blk.0.fc2.weight", .kind = DROP_TENSOR, .expected = "blk.0.fc2.weight: is missing, and the layer's"},
    {.name = "blk.0.fc1.weight", VECTOR(FORMAT_F32, TINY_D), .expected = "blk.0.fc1.weight: is no matrix of weights"},
    {.name = "blk.0.fc1.weight", MATRIX(FORMAT_I32, TINY_D, RANK), .expected = "blk.0.fc1.weight: is no matrix of weights"},
    {.name = "blk.0.fc1.weight", MATRIX(FORMAT_F32, TINY_D + 1, RANK), .expected = "blk.0.fc1.weight: is 17 x 4, expected 16 x 4"},
    {.name = "blk.0.fc1.weight", MATRIX(FORMAT_F32, TINY_D, RANK + 1), .expected = "blk.0.fc2.weight: is 4 x 24, expected 5 x 24"},
    {.name = "blk.0.fc1.weight", MATRIX(FORMAT_F16, TINY_D, 65537), .expected = "blk.0.fc1.weight: has a rank of 65537, expected 1 to 65536"},
    {.name = "blk.0.fc2.weight", MATRIX(FORMAT_F32, RANK, TINY_F - 1), .expected = "blk.0.fc2.weight: is 4 x 23, expected 4 x 24"},
    {.name = "blk.1.fc2.weight", MATRIX(FORMAT_F32, RANK, TINY_F),
     .expected = "blk.1.fc2.weight: is there, and the layer has no low-rank predictor"},
    /* what is nobody's */
    {.name = "blk.2.counts", VECTOR(FORMAT_I32, TINY_F), .expected = "tensor blk.2.counts: is not part of a tune file of 2 layers"},
    {.name = "blk.00.counts", VECTOR(FORMAT_I32, TINY_F), .expected = "tensor blk.00.counts: is not part of a tune file"},
    {.name = "blk.0.fc3.weight", VECTOR(FORMAT_F32, 1), .expected = "tensor blk.0.fc3.weight: is not part of a tune file"},
    {.name = "blk.-1.counts", VECTOR(FORMAT_F32, 1), .expected = "tensor blk.-1.counts: is not part of a tune file"},
    {.name = "counts", VECTOR(FORMAT_F32, 1), .expected = "tensor counts: is not part of a tune file"},
    /* the report */
    {KEY("report"), .kind = DROP_KEY, .expected = NULL},
    {KEY("report"), .kind = SET_U32, .expected = "key hearth.tune.report: is an integer, expected a string"},
    {KEY("report"), .kind = SET_TEXT, .text = "{\"a\": }", .expected = "key hearth.tune.report: "},
    {KEY("report"), .kind = SET_TEXT, .text = "[1]", .expected = "key hearth.tune.report: is no JSON object"},
};
// clang-format on

static key_value *entry_named(checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->entry_count; i++)
        if (strcmp(c->entries[i].key, name) == 0)
            return &c->entries[i];
    must(checkpoint_set_u32(c, name, 0, NULL), &(hearth_error){.text = "no memory"});
    return &c->entries[c->entry_count - 1];
}

static stored_tensor *tensor_named(checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    stored_tensor t = {.name = name, .rank = 1, .shape = {1, 1, 1, 1}};
    must(checkpoint_add_tensor(c, &t, NULL), &(hearth_error){.text = "no memory"});
    return &c->tensors[c->tensor_count - 1];
}

/* A copy of what an array or tensor holds, to change. */
static void *own(checkpoint *c, const void *data, size_t size)
{
    void *copy = arena_new(&c->memory, size);
    memcpy(copy, data, size);
    return copy;
}

static void damage_key(checkpoint *c, const damage *d)
{
    key_value *e = entry_named(c, d->name);
    const char *key = e->key;
    if (d->kind == DROP_KEY) {
        *e = c->entries[--c->entry_count];
    } else if (d->kind == SET_U32) {
        *e = (key_value){.key = key, .type = VALUE_U32, .as.u = (uint64_t)d->number};
    } else if (d->kind == SET_TEXT) {
        *e = (key_value){.key = key, .type = VALUE_STRING, .as.string = span_of(d->text)};
    } else if (d->kind == SET_FLOAT) {
        *e = (key_value){.key = key, .type = VALUE_F32, .as.f = d->number};
    } else if (d->kind == CUT_ARRAY) {
        e->count = d->at;
    } else if (d->kind == SET_ITEM_FLOAT) {
        float *items = own(c, e->as.items, e->count * sizeof *items);
        items[d->at] = (float)d->number;
        e->as.items = items;
    } else {
        span *items = own(c, e->as.strings, e->count * sizeof *items);
        items[d->at] = span_of(d->text);
        e->as.strings = items;
    }
}

static void damage_tensor(checkpoint *c, const damage *d)
{
    stored_tensor *t = tensor_named(c, d->name);
    if (d->kind == DROP_TENSOR) {
        *t = c->tensors[--c->tensor_count];
        return;
    }
    if (d->kind == SET_TENSOR) {
        size_t row_bytes;
        assert_true(number_row_bytes(d->format, d->columns, &row_bytes));
        *t = (stored_tensor){t->name, d->format, d->rank, {d->columns, d->rows, 1, 1}, NULL, row_bytes * d->rows, 0};
        t->data = arena_new(&c->memory, t->size_bytes);
        return;
    }
    void *data = own(c, t->data, t->size_bytes);
    if (d->kind == SET_COUNT)
        ((int32_t *)data)[d->at] = (int32_t)d->number;
    else
        ((float *)data)[d->at] = (float)d->number;
    t->data = data;
}

static void write_checkpoint(const char *path, const checkpoint *c)
{
    gguf_writer *w;
    hearth_error error;
    must(gguf_writer_open(&w, path, c->powerinfer, c->entries, c->entry_count, c->tensors, c->tensor_count, &error),
         &error);
    for (size_t i = 0; i < c->tensor_count; i++)
        must(gguf_writer_put(w, c->tensors[i].data, c->tensors[i].size_bytes, &error), &error);
    must(gguf_writer_commit(w, &error), &error);
}

static void expect_refused(const hearth_model *m, const char *path, const char *text)
{
    hearth_error error = {0};
    tune *t = NULL;
    assert_int_equal(tune_open(&t, path, m, &error), HEARTH_FORMAT);
    expect_text(&error, text);
    assert_memory_equal(error.text, path, strlen(path));
}

static void test_damage(void **state)
{
    (void)state;
    hearth_model *m = tiny_model("relu");
    write_made(more_path, m, MADE_ALL, FORMAT_F32, RANK);
    long live = mem_live();
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const damage *d = &damages[i];
        checkpoint *c = open_file(more_path);
        (d->kind < DROP_TENSOR ? damage_key : damage_tensor)(c, d);
        write_checkpoint(tune_file, c);
        checkpoint_close(c);
        hearth_error error;
        tune *t;
        if (d->expected)
            expect_refused(m, tune_file, d->expected);
        else
            must(tune_open(&t, tune_file, m, &error), &error), tune_close(t);
        assert_int_equal(mem_live(), live);
    }
    checkpoint *c = open_file(more_path);
    c->powerinfer = true;
    write_checkpoint(tune_file, c);
    checkpoint_close(c);
    expect_refused(m, tune_file, "it is no tune file");
    hearth_model_close(m);
}

/* Another model: other norms, or the same weights computed otherwise. */
static void test_other_model(void **state)
{
    (void)state;
    hearth_model *m = tiny_model("relu"), *other = tiny_model("silu");
    write_made(tune_file, m, MADE_ALL, FORMAT_F32, RANK);
    char wanted[FINGERPRINT_SIZE], has[FINGERPRINT_SIZE];
    model_fingerprint(wanted, m);
    model_fingerprint(has, other);
    expect_refused(other, tune_file, wanted);
    expect_refused(other, tune_file, has);
    hearth_model_close(m);
    hearth_model_close(other);
}

/* What a reader would refuse is not written. */
static void test_bad_record(void **state)
{
    (void)state;
    hearth_model *m = tiny_model("relu"), *silu = tiny_model("silu");
    hearth_error error;
    for (int i = 0; i < 4; i++) {
        unlink(tune_file);
        tune *t = make_tune(m, MADE_ALL, FORMAT_F32, RANK);
        if (i == 0)
            t->layers[1].recall = NAN;
        else if (i == 1)
            t->layers[0].predictor.fc2.rows--;
        else if (i == 2)
            t->report = "no JSON";
        assert_int_equal(tune_write(tune_file, t, i == 3 ? silu : m, &error), HEARTH_INVALID);
        expect_text(&error, i == 3 ? "but the activation silu is never exactly zero" : tune_file);
        assert_int_equal(access(tune_file, F_OK), -1);
        tune_close(t);
    }
    hearth_model_close(m);
    hearth_model_close(silu);
}

/* ------------------------------------------------------------------ hostile bytes, failing memory */

static hearth_model *parsed_for;

static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    tune *t;
    hearth_status status = tune_parse(&t, data, size, "fuzz.tune", parsed_for, error);
    if (status == HEARTH_OK) {
        expect_order(t);
        tune_close(t);
    }
    return status;
}

static void test_bytes(void **state)
{
    (void)state;
    size_t size;
    parsed_for = tiny_model("relu");
    write_made(tune_file, parsed_for, MADE_ALL, FORMAT_F32, RANK);
    uint8_t *data = load_file(tune_file, &size);
    while (data[size - 1] == 0) /* behind the last tensor lies padding, which nobody needs */
        size--;
    check_truncations(parse, data, size, "fuzz.tune");
    size_t refused = check_flips(parse, data, size);
    assert_true(refused > size); /* of ten per byte; most lie in counts and weights, where any number will do */
    assert_true(check_allocation_failures(parse, data, size) > 5);
    free(data);
    hearth_model_close(parsed_for);
}

/* Every allocation, read and write fails once while a model is opened with its tune file. */
static void test_open_failures(void **state)
{
    (void)state;
    need(GOLDEN);
    seen s;
    hearth_error error;
    uint32_t backwards[128];
    const uint32_t *order[8];
    hearth_model *m = open_model(GOLDEN "llama-relu");
    assert_int_equal(m->hyper.neuron_count, 128);
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

static int set_up_all(void **state)
{
    int failed = set_up(state);
    snprintf(tune_file, sizeof tune_file, "%s/x.tune", folder);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_hottest_first),
        cmocka_unit_test(test_path),           cmocka_unit_test(test_packed),
        cmocka_unit_test(test_found),          cmocka_unit_test(test_powerinfer),
        cmocka_unit_test(test_all_none),       cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_model),    cmocka_unit_test(test_bad_record),
        cmocka_unit_test(test_bytes),          cmocka_unit_test(test_open_failures),
        cmocka_unit_test(test_write_failures),
    };
    return run_group(tests, set_up_all, tear_down);
}
