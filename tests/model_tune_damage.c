/* model_tune_damage - tune files, and records to be written, that are wrong: each is refused, and what is wrong is named.
 *
 * Damaged files are good ones of which one key or tensor was changed. */
#include "tune_files.h"

#include "../src/model/fingerprint.h"

#include <math.h>

enum { RANK = 4 };

/* A JSON object of one byte too many; filled in before the tests. */
static char long_report[TUNE_REPORT_LIMIT + 2];

/* ------------------------------------------------------------------ one thing wrong */

typedef enum damage_kind {
    DROP_KEY,
    SET_U32,
    SET_TEXT,       /* of `at` bytes, where it has a zero among them */
    SET_FLOAT,      /* an array becomes a single float               */
    SET_ITEM_FLOAT, /* item `at` of an array                         */
    SET_ITEM_TEXT,
    CUT_ARRAY, /* to `at` items                                 */
    DROP_TENSOR,
    SET_TENSOR, /* another shape or format, all bytes zero       */
    SET_VALUE,  /* value `at` of an F32 tensor                   */
    SET_COUNT   /* of an I32 tensor                              */
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
     .expected = "key general.architecture: is llama, expected hearth-tune: it is not a tune file"},
    {KEY("version"), .kind = DROP_KEY, .expected = "key hearth.tune.version: is missing"},
    {KEY("version"), .kind = SET_U32, .number = 2, .expected = "key hearth.tune.version: is 2, this hearth reads 1"},
    {KEY("version"), .kind = SET_TEXT, .text = "1", .expected = "key hearth.tune.version: is a string"},
    {KEY("fingerprint"), .kind = DROP_KEY, .expected = "key hearth.tune.fingerprint: is missing"},
    {KEY("fingerprint"), .kind = SET_TEXT, .text = "abc",
     .expected = "is the tune file of another model (fingerprint abc, this model has "},
    {KEY("fingerprint"), .kind = SET_TEXT, .text = "abc", .expected = "is the tune file of another model (fingerprint abc, this model has "},
    {KEY("layers"), .kind = DROP_KEY, .expected = "key hearth.tune.layers: is missing"},
    {KEY("layers"), .kind = SET_U32, .number = 3, .expected = "hearth.tune.layers: is 3, the model has 2"},
    {KEY("neurons"), .kind = SET_U32, .number = 25, .expected = "hearth.tune.neurons: is 25, layer 0 of the model has 24"},
    {KEY("colour"), .kind = SET_U32, .expected = "key hearth.tune.colour: is not part of a tune file"},
    {.name = "general.name", .kind = SET_TEXT, .text = "x", .expected = NULL}, /* others' keys are no concern of ours */
    /* profile */
    {KEY("tokens"), .kind = DROP_KEY, .expected = "key hearth.tune.tokens: is 0, expected 1 to 2147483647"},
    {KEY("tokens"), .kind = SET_TEXT, .text = "9", .expected = "key hearth.tune.tokens: is not an integer of at least 0"},
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
    {KEY("losses"), .kind = CUT_ARRAY, .at = 2, .expected = "key hearth.tune.losses: has 2 values, expected 3"},
    {KEY("losses"), .kind = SET_FLOAT, .number = 0.5, .expected = "key hearth.tune.losses: is a float, expected an array"},
    {KEY("losses"), .kind = SET_ITEM_FLOAT, .at = 1, .number = -0.5, .expected = "key hearth.tune.losses: value 1 is -0.5, expected a finite"},
    {KEY("losses"), .kind = SET_ITEM_FLOAT, .at = 0, .number = NAN, .expected = "key hearth.tune.losses: value 0 is"},
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
    {KEY("coarse_types"), .kind = SET_ITEM_TEXT, .at = 1, .text = "i32", .expected = "value 1 is 'i32', which is not a number format"},
    {KEY("coarse_types"), .kind = SET_ITEM_TEXT, .at = 1, .text = "q8_0",
     .expected = "layer 1: rows of 16 values are not whole blocks of q8_0"},
    {KEY("thresholds"), .kind = DROP_KEY, .expected = "key hearth.tune.thresholds: is missing"},
    {KEY("thresholds"), .kind = SET_ITEM_FLOAT, .at = 1, .number = INFINITY,
     .expected = "key hearth.tune.thresholds: value 1 is inf, expected a finite number"},
    {KEY("recalls"), .kind = SET_ITEM_FLOAT, .at = 0, .number = 1.01, .expected = "hearth.tune.recalls: value 0 is 1.01"},
    {KEY("recalls"), .kind = CUT_ARRAY, .at = 0, .expected = "hearth.tune.recalls: has 0 values, the model has 2 layers"},
    {KEY("densities"), .kind = SET_ITEM_FLOAT, .at = 1, .number = -0.5, .expected = "hearth.tune.densities: value 1 is -0.5"},
    {KEY("densities"), .kind = SET_ITEM_FLOAT, .at = 0, .number = NAN, .expected = "hearth.tune.densities: value 0 is"},
    {KEY("densities"), .kind = DROP_KEY, .expected = "key hearth.tune.densities: is missing"},
    {.name = "blk.0.fc1.weight", .kind = DROP_TENSOR, .expected = "blk.0.fc1.weight: is missing, and the layer's predictor is low-rank"},
    {.name = "blk.0.fc2.weight", .kind = DROP_TENSOR, .expected = "blk.0.fc2.weight: is missing, and the layer's"},
    {.name = "blk.0.fc1.weight", VECTOR(FORMAT_F32, TINY_D), .expected = "blk.0.fc1.weight: is not a matrix of weights"},
    {.name = "blk.0.fc1.weight", MATRIX(FORMAT_I32, TINY_D, RANK), .expected = "blk.0.fc1.weight: is not a matrix of weights"},
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
    {KEY("report"), .kind = SET_TEXT, .text = "{\"a\": 1, \"a\": 2}", .expected = "key hearth.tune.report: line 1"},
    {KEY("report"), .kind = SET_TEXT, .text = "[1]", .expected = "key hearth.tune.report: is not a JSON object"},
    {KEY("report"), .kind = SET_TEXT, .text = "{}\0", .at = 3, .expected = "key hearth.tune.report: holds a zero byte"},
    {KEY("report"), .kind = SET_TEXT, .text = long_report,
     .expected = "key hearth.tune.report: has 4194305 bytes, expected at most 4194304"},
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
        span text = d->at ? (span){d->text, d->at} : span_of(d->text);
        *e = (key_value){.key = key, .type = VALUE_STRING, .as.string = text};
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
        *t = (stored_tensor){.name = t->name,
                             .format = d->format,
                             .rank = d->rank,
                             .shape = {d->columns, d->rows, 1, 1},
                             .size_bytes = row_bytes * d->rows};
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
    expect_refused(m, tune_file, "it is not a tune file");
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

/* ------------------------------------------------------------------ records to be written */

static void spoil_recall(tune *t)
{
    t->layers[1].recall = NAN;
}

static void spoil_report(tune *t)
{
    t->report = "no JSON";
}

static void lengthen_report(tune *t)
{
    t->report = long_report;
}

static void add_levels(tune *t)
{
    t->level_count = TUNE_LEVEL_LIMIT + 1;
}

static void drop_counts(tune *t)
{
    t->layers[1].counts = NULL;
}

static void drop_row(tune *t)
{
    t->layers[0].predictor.fc2.rows--;
}

static void drop_matrix(tune *t)
{
    t->layers[0].predictor.fc1.data = NULL;
}

static void drop_format(tune *t)
{
    t->layers[1].predictor.coarse_format = FORMAT_COUNT;
}

static void drop_layer(tune *t)
{
    t->layer_count--;
}

static void add_neuron(tune *t)
{
    t->layers[1].neuron_count++;
}

static void keep(tune *t)
{
    (void)t;
}

static const struct {
    void (*spoil)(tune *t);
    const char *activation; /* of the model that it is said to be of */
    const char *expected;
} spoilt[] = {
    {spoil_recall, "relu", "x.tune: key hearth.tune.recalls: value 1 is"},
    {spoil_report, "relu", "x.tune: key hearth.tune.report: line 1"},
    {lengthen_report, "relu", "x.tune: key hearth.tune.report: has 4194305 bytes, expected at most 4194304"},
    {add_levels, "relu", "x.tune: key hearth.tune.levels: has 257 values, expected at most 256"},
    {drop_counts, "relu", "x.tune: tensor blk.1.counts: is missing, and layer 0 has one"},
    {drop_row, "relu", "x.tune: tensor blk.0.fc2.weight: is 4 x 23, expected 4 x 24"},
    {drop_matrix, "relu", "x.tune: layer 0 has a low-rank predictor without its matrices"},
    {drop_format, "relu", "x.tune: key hearth.tune.coarse_types: layer 1 is coarse and has no format"},
    {drop_layer, "relu", "x.tune: is of a model of 1 layers, this one has 2"},
    {add_neuron, "relu", "x.tune: layer 1 has 25 neurons, the model's has 24"},
    {keep, "silu",
     "x.tune: key hearth.tune.predictors: layer 0 has one, but the activation silu is never exactly zero"},
};

/* What a reader would refuse is not written. */
static void test_bad_record(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        hearth_error error = {0};
        hearth_model *m = tiny_model(spoilt[i].activation);
        tune *t = make_tune(m, MADE_ALL, FORMAT_F32, RANK);
        spoilt[i].spoil(t);
        unlink(tune_file);
        assert_int_equal(tune_write(tune_file, t, m, &error), HEARTH_INVALID);
        assert_int_equal(error.status, HEARTH_INVALID);
        expect_text(&error, spoilt[i].expected);
        assert_int_equal(access(tune_file, F_OK), -1);
        tune_close(t);
        hearth_model_close(m);
    }
}

/* ------------------------------------------------------------------ hostile bytes */

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

int main(void)
{
    memset(long_report, ' ', TUNE_REPORT_LIMIT + 1);
    long_report[0] = '{';
    long_report[1] = '}';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_bad_record),
        cmocka_unit_test(test_bytes),
    };
    return run_group(tests, set_up_tune_files, tear_down);
}
