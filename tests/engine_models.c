/* engine_models.c - the table in docs/models.md: family by container, number format, mode and side, with the distance of
 * the logits from the reference that was seen. The test makes the table again and compares (made_page.h).
 *
 * Activations are float32. A cell holds a bound, since processors round sums differently: 1e-5 is what float32 keeps
 * everywhere (README.md of the goldens); where the weights were rounded, their rounding is nearly all of the distance,
 * and the bound is the next of 1, 2 and 5 times a power of ten. */
#include "../src/base/pool.h"
#include "../src/base/text.h"
#include "../src/model/convert.h"
#include "../src/number/format.h"

#include "family_cases.h"
#include "golden.h"
#include "made_page.h"
#include "own_folder.h"

/* What the table says where hearth cannot run the combination, or it makes no sense. */
static const char none[] = "-";
#define EXACTLY 1e-5

static pool *threads;
static hearth_runtime *host, *two_sides;

/* One model file with what it should compute. */
typedef struct subject {
    const char *name, *container, *path;
    const char *format; /* as the table calls it */
    const int32_t *ids;
    size_t count;
    const float *logits;           /* [count][vocabulary] */
    const float *predicted_logits; /* of mode predicted, or NULL */
} subject;

/* A column: a mode, and how many layers lie on the device and how much of each. */
typedef struct column {
    const char *title;
    hearth_mode mode;
    bool zeros; /* exact where the activation has zeros, else dense */
    bool on_device;
    uint32_t share; /* neurons on the device: all of them divided by this */
} column;

static const column columns[] = {
    {"dense", HEARTH_MODE_DENSE, false, false, 1},         {"exact", HEARTH_MODE_EXACT, false, false, 1},
    {"predicted", HEARTH_MODE_PREDICTED, false, false, 1}, {"device", HEARTH_MODE_DENSE, true, true, 1},
    {"both sides", HEARTH_MODE_DENSE, true, true, 2},
};
#define COLUMNS (sizeof columns / sizeof *columns)

/* ------------------------------------------------------------------ cells */

/* Reads all ids and returns the distance from the reference; below 0: this cannot be run. */
static double run(const subject *s, const column *c, hearth_mode mode, hearth_model *model)
{
    hearth_runtime *runtime = c->on_device ? two_sides : host;
    hearth_placement *placement = NULL;
    hearth_engine_options options = {.activations = HEARTH_ACTIVATIONS_F32};
    hearth_session_options rows = {.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32};
    stack k = {.runtime = runtime, .model = model};
    double distance = -1;
    if (s->count > rows.context)
        rows.context = rows.output_rows = (uint32_t)s->count;
    hearth_model_describe(model, &k.info);
    hearth_status status = hearth_placement_create(&placement, model, mode, NULL);
    if (status == HEARTH_OK && c->on_device)
        status =
            hearth_placement_use_device(placement, model, k.info.layer_count, k.info.neuron_count / c->share, NULL);
    options.placement = placement;
    if (status == HEARTH_OK)
        status = hearth_engine_create(&k.engine, runtime, model, &options, NULL);
    if (status == HEARTH_OK) {
        hearth_error error;
        const float *want = mode == HEARTH_MODE_PREDICTED ? s->predicted_logits : s->logits;
        float *got = malloc(s->count * k.info.vocabulary_size * sizeof *got);
        stack_check(hearth_session_create(&k.session, k.engine, &rows, &error), &error);
        stack_feed(&k, 0, s->ids, s->count, got);
        distance = relative_l2(got, want, s->count * k.info.vocabulary_size);
        free(got);
    } else {
        assert_int_equal(status, HEARTH_UNSUPPORTED);
    }
    hearth_session_destroy(k.session);
    hearth_engine_destroy(k.engine);
    hearth_placement_destroy(placement);
    return distance;
}

/* Returns the mode that a column means for a model; HEARTH_MODE_COUNT: none. */
static hearth_mode mode_of(const column *c, const hearth_model *model, bool predicted)
{
    hearth_mode mode = c->mode;
    bool zeros;
    hearth_placement *placement;
    zeros = hearth_placement_create(&placement, model, HEARTH_MODE_EXACT, NULL) == HEARTH_OK;
    if (zeros)
        hearth_placement_destroy(placement);
    if ((mode == HEARTH_MODE_EXACT && !zeros) || (mode == HEARTH_MODE_PREDICTED && !predicted))
        return HEARTH_MODE_COUNT;
    return c->zeros && zeros ? HEARTH_MODE_EXACT : mode;
}

static void print_cell(FILE *out, double distance)
{
    if (distance < 0) {
        fprintf(out, " %s |", none);
    } else if (distance <= EXACTLY) {
        fprintf(out, " 1e-5 |");
    } else {
        static const double steps[] = {1, 2, 5, 10};
        double power = pow(10, floor(log10(distance)));
        size_t i = 0;
        while (steps[i] * power < distance)
            i++;
        fprintf(out, " %g |", steps[i] * power);
    }
}

static void print_row(FILE *out, const subject *s)
{
    hearth_error error;
    hearth_model *model;
    stack_check(hearth_model_open(&model, s->path, NULL, &error), &error);
    fprintf(out, "| %s | %s | %s |", s->name, s->container, s->format);
    for (size_t i = 0; i < COLUMNS; i++) {
        hearth_mode mode = mode_of(&columns[i], model, s->predicted_logits != NULL);
        print_cell(out, mode == HEARTH_MODE_COUNT ? -1 : run(s, &columns[i], mode, model));
    }
    fputc('\n', out);
    hearth_model_close(model);
}

/* ------------------------------------------------------------------ rows */

/* What was written in the format that was asked for. */
typedef struct asked {
    number_format format;
    size_t matrices;
} asked;

static void see_step(void *user, const convert_step *step)
{
    asked *a = user;
    a->matrices += step->to == a->format && step->rows > 1;
}

/* Writes the model in another format (FORMAT_COUNT: as stored) and returns whether any matrix got it. */
static bool convert(const char *source, number_format format)
{
    hearth_error error;
    asked a = {.format = format};
    convert_options options = {.format = format, .head_apart = format != FORMAT_COUNT, .step = see_step, .user = &a};
    stack_check(convert_write(source, own_path, &options, threads, &error), &error);
    return format == FORMAT_COUNT || a.matrices > 0;
}

/* The folder, the GGUF file that another program made of it, or hearth where there is none, and smaller formats. */
static void print_case(FILE *out, const char *name)
{
    static const number_format formats[] = {FORMAT_Q8_0, FORMAT_Q4_0};
    golden g;
    char path[600];
    golden_load(&g, name);
    golden_path(path, sizeof path, name, "model.gguf");
    subject s = {.name = name, .container = "folder", .format = "as stored", .path = g.folder};
    s.ids = g.ids;
    s.count = g.total;
    s.logits = g.logits;
    print_row(out, &s);
    s.container = "GGUF";
    s.path = path;
    if (!file_exists(path)) {
        convert(g.folder, FORMAT_COUNT);
        s.path = own_path;
    }
    print_row(out, &s);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (convert(g.folder, formats[i])) {
            s.path = own_path;
            s.format = number_formats[formats[i]].name;
            print_row(out, &s);
        }
    golden_free(&g);
}

enum { POWERINFER_IDS = 16 };

static float *read_floats(const char *family, const char *name, size_t n)
{
    char path[600];
    float *values = malloc(n * sizeof *values);
    snprintf(path, sizeof path, GOLDEN "/pwri/%s/%s", family, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(values, sizeof *values, n, f), n);
    fclose(f);
    return values;
}

/* PowerInfer's files, which have predictors; their references are those of the rounded weights. */
static void print_powerinfer(FILE *out, const char *family)
{
    static const char *const types[] = {"f32", "f16", "q4_0"};
    char path[600];
    json_t *root;
    snprintf(path, sizeof path, GOLDEN "/pwri/%s/cases.json", family);
    assert_int_equal(json_parse_file(&root, path, NULL), HEARTH_OK);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char file[64], name[32];
        int32_t ids[GOLDEN_MOST];
        snprintf(file, sizeof file, "%s.gguf", types[i]);
        const json_t *found = NULL;
        for (size_t k = 0; k < json_array_size(root); k++)
            if (!strcmp(json_string_value(json_object_get(json_array_get(root, k), "file")), file))
                found = json_array_get(root, k);
        assert_int_equal(golden_read_ids(json_object_get(found, "ids"), ids), POWERINFER_IDS);
        size_t n = POWERINFER_IDS * (size_t)json_integer_value(json_object_get(found, "n_vocab"));
        snprintf(name, sizeof name, "%s.dense.f32", types[i]);
        float *dense = read_floats(family, name, n);
        snprintf(name, sizeof name, "%s.reference.f32", types[i]);
        float *predicted = read_floats(family, name, n);
        snprintf(path, sizeof path, GOLDEN "/pwri/%s/%s", family, file);
        print_row(out, &(subject){family, "PowerInfer's", path, types[i], ids, POWERINFER_IDS, dense, predicted});
        free(dense);
        free(predicted);
    }
    json_decref(root);
}

static void print_table(FILE *out)
{
    static const char *const families[] = {"llama", "bamboo", "opt", "falcon"};
    static const char *const llamas[] = {"llama", "llama-rope-llama3", "mistral", "llama-relu-gqa", "llama-fatrelu"};
    fputs("| model | container | format |", out);
    for (size_t i = 0; i < COLUMNS; i++)
        fprintf(out, " %s |", columns[i].title);
    fputs("\n|---|---|---|", out);
    for (size_t i = 0; i < COLUMNS; i++)
        fputs("---|", out);
    fputc('\n', out);
    for (size_t i = 0; i < sizeof llamas / sizeof *llamas; i++)
        print_case(out, llamas[i]);
    for (size_t i = 0; i < FAMILY_CASES; i++)
        print_case(out, family_cases[i]);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        print_powerinfer(out, families[i]);
}

static void the_table_is_what_is_seen(void **state)
{
    (void)state;
    check_page("models.md", "engine_models", "distances", print_table);
}

static int set_up(void **state)
{
    const hearth_runtime_options plain = {.threads = 2}, device = {.threads = 2, .device = "host"};
    return own_folder_make(state) != 0 || pool_create(&threads, 2, NULL) != HEARTH_OK ||
           hearth_runtime_create(&host, &plain, NULL) != HEARTH_OK ||
           hearth_runtime_create(&two_sides, &device, NULL) != HEARTH_OK;
}

static int tear_down(void **state)
{
    pool_destroy(threads);
    hearth_runtime_destroy(host);
    hearth_runtime_destroy(two_sides);
    return own_folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_what_is_seen)};
    return run_group(tests, set_up, tear_down);
}
