/* plan_shape.c - shapes of models: the bytes of their layers against arithmetic by hand, those that come with hearth
 * against the sizes that their makers publish, hotness against its definition, and files that are wrong. */
#include "../src/base/memory.h"
#include "../src/plan/load.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

#define SHAPES HEARTH_MODELS "/../shapes"

/* cmocka's own compares floats. */
static void is_near(double got, double want, double share)
{
    if (!(fabs(got - want) <= fabs(want) * share))
        fail_msg("%.17g instead of %.17g", got, want);
}

/* Sums are of whole numbers of bytes below 2^53, and products of a few factors. */
static void is_equal(double got, double want)
{
    is_near(got, want, 1e-12);
}

/* ------------------------------------------------------------------ hotness */

static double sum_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* Mean and share to 1 %, where nothing is cut. */
static void mean_and_share_hold(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        double density, hot, share;
    } cases[] = {{28672, 0.03, 0.26, 0.80}, {11008, 0.30, 0.43, 0.80}, {28672, 0.18, 0.43, 0.80}, {1000, 0.1, 0.5, 0.5},
                 {1 << 20, 1e-4, 0.2, 0.9}, {100, 0.5, 0.4, 0.4},      {16384, 0.05, 0.17, 0.80}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n = cases[k].count, hot = (size_t)lround(cases[k].hot * (double)n);
        float *p = malloc(n * sizeof *p);
        load_hotness(p, n, cases[k].density, cases[k].hot, cases[k].share);
        double sum = sum_of(p, n);
        is_near(sum / (double)n, cases[k].density, 0.01);
        is_near(sum_of(p, hot) / sum, cases[k].share, 0.01);
        for (size_t i = 0; i < n; i++)
            assert_true(p[i] >= 0 && p[i] <= 1 && (i == 0 || p[i] <= p[i - 1] * 1.00001f));
        free(p);
    }
}

/* Where the formula exceeds 1 the rest grows, and the mean stays. */
static void chances_end_at_one(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        double density, hot, share;
        bool cut;
    } cases[] = {{1000, 0.9, 0.3, 0.8, true}, {1000, 0.5, 0.1, 0.9, true},   {1000, 1, 0.5, 0.5, false},
                 {7, 0.4, 0.01, 0.999, true}, {1, 0.25, 0.2, 0.8, false},    {10, 0.5, 1e-6, 0.999999, true},
                 {1000, 1, 0.3, 0.8, true},   {4096, 0.999, 0.2, 0.99, true}};
    float p[4096];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t n = cases[k].count, certain = 0;
        load_hotness(p, n, cases[k].density, cases[k].hot, cases[k].share);
        is_near(sum_of(p, n) / (double)n, cases[k].density, 1e-4);
        for (size_t i = 0; i < n; i++) {
            certain += p[i] == 1;
            assert_true(p[i] >= 0 && p[i] <= 1 && (i == 0 || p[i] <= p[i - 1] * 1.00001f));
        }
        assert_true(!cases[k].cut || certain > 0);
    }
    load_hotness(p, 0, 0.5, 0.2, 0.8); /* nothing to fill */
}

/* ------------------------------------------------------------------ bytes, by hand */

/* d 64, F16: attention of 4 heads of 16, 2 of them for keys; 256 neurons of three matrices; a head of 1000 rows. */
static const char plain[] =
    "{'name': 'P', 'note': 'n', 'width': 64, 'vocabulary': 1000, 'tied': false, 'layers': [\n"
    " {'count': 2, 'attention': {'heads': 4, 'kv_heads': 2, 'head_length': 16, 'window': 128},\n"
    "  'network': {'neurons': 256, 'matrices': 3, 'parameters': 10, 'density': 0.25, 'hot': 0.5, 'share': 0.75,\n"
    "              'rank': 32, 'let_through': 1.5}},\n"
    " {'count': 1, 'attention': {'heads': 4, 'kv_heads': 4, 'head_length': 16},\n"
    "  'network': {'neurons': 128, 'matrices': 2}}]}";

/* 8 experts of 64 neurons, 2 chosen, and a shared one of 96; a recurrent mixer; rows of a latent width. */
static const char mixed[] =
    "{'name': 'M', 'width': 128, 'vocabulary': 500, 'tied': true, 'format': 'q4_0', 'density_source': 'assumed',\n"
    " 'pattern': 'REEAE', 'layers': [\n"
    " {'letter': 'R', 'mixer': {'parameters': 5000, 'kv_values': 7, 'state_values': 300}},\n"
    " {'letter': 'A', 'attention': {'heads': 2, 'kv_heads': 1, 'head_length': 32}},\n"
    " {'letter': 'E', 'network': {'neurons': 64, 'matrices': 2, 'experts': 8, 'used': 2, 'shared': 96, 'width': 32,\n"
    "                             'parameters': 1024, 'density': 0.5}}]}";

/* Returns a text with JSON's quotes and `from` replaced by `to`; free. */
static char *edited(const char *base, const char *from, const char *to)
{
    const char *at = strstr(base, from);
    if (!at)
        fail_msg("the text lacks %s", from);
    size_t size = strlen(base) + strlen(to) + 1;
    char *text = malloc(size);
    snprintf(text, size, "%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return text;
}

static hearth_status parse(model_load *m, const char *base, const char *from, const char *to,
                           const shape_options *options, hearth_error *error)
{
    json_t *root;
    char *text = edited(base, from, to);
    hearth_status status = json_parse(&root, text, strlen(text), "s.json", error);
    if (status != HEARTH_OK)
        fail_msg("%s", text);
    free(text);
    status = load_parse_shape(m, root, "s.json", options, error);
    json_decref(root);
    return status;
}

static void parse_well(model_load *m, const char *base, const shape_options *options)
{
    hearth_error error = {0};
    if (parse(m, base, "", "", options, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
}

static void bytes_of_every_mode(void **state)
{
    (void)state;
    model_load m;
    parse_well(&m, plain, NULL); /* exact, since it has zeros */
    assert_string_equal(m.name, "P");
    assert_string_equal(m.density_source, "published");
    assert_int_equal(m.layer_count, 3);
    assert_false(m.tied);
    is_equal(m.row_values, 64);
    is_equal(m.embedding_bytes, 1000 * 64 * 2);
    is_equal(m.head_bytes, 1000 * 64 * 2);
    const layer_load *l = &m.layers[0], *last = &m.layers[2];
    assert_true(l->has_mixer && l->has_network && l->splits && l->lists && !l->lacks && !l->order);
    assert_int_equal(l->kind, m.layers[1].kind);
    assert_int_not_equal(l->kind, last->kind);
    is_equal(l->mixer_bytes, 2 * (64 * 64 + 64 * 32 + 64 * 32 + 64 * 64)); /* q, k, v, output */
    is_equal(l->kv_bytes, 2 * 2 * 16 * 2);
    assert_int_equal(l->window, 128);
    is_equal(l->state_bytes, 0);
    assert_int_equal(l->neurons, 256);
    is_equal(l->row_bytes, 64 * 2);
    is_equal(l->first_bytes, 64 * 2);
    is_equal(l->other_bytes, 2 * 64 * 2);
    is_equal(l->predictor_bytes, 0);
    is_equal(l->network_bytes, 10 * 2);
    assert_true(l->needs && l->fires);
    is_equal(l->need, 1);
    is_near(l->fire, 0.25, 1e-5);
    is_near(sum_of(l->fires, 128) / sum_of(l->fires, 256), 0.75, 0.01);
    for (size_t i = 0; i < 256; i++)
        assert_true(l->needs[i] == 1);
    assert_true(!last->lists && !last->needs && !last->fires); /* no density: dense in every mode */
    assert_int_equal(last->window, 0);
    is_equal(last->kv_bytes, 2 * 4 * 16 * 2);
    is_equal(last->need, 1);
    is_equal(last->fire, 1);
    is_equal(last->other_bytes, 64 * 2);
    load_free(&m);
    assert_null(m.layers);

    parse_well(&m, plain, &(shape_options){.mode = "dense", .format = "f32"});
    l = &m.layers[0];
    assert_true(!l->lists && !l->fires && l->need == 1 && l->fire == 1);
    is_equal(l->first_bytes, 64 * 4);
    is_equal(m.head_bytes, 1000 * 64 * 4);
    is_equal(l->kv_bytes, 2 * 2 * 16 * 2); /* not of the weights' format */
    load_free(&m);

    parse_well(&m, plain, &(shape_options){.mode = "predicted"});
    l = &m.layers[0];
    is_equal(l->predictor_bytes, 32 * 2);
    is_equal(l->network_bytes, 10 * 2 + 32 * 64 * 2); /* fc1 */
    is_near(l->need, 1.5 * 0.25, 1e-5);               /* the hottest fires with chance 0.5, so nothing is cut */
    for (size_t i = 0; i < 256; i++)
        assert_true(l->needs[i] >= l->fires[i] && fabs(l->needs[i] - 1.5 * l->fires[i]) < 1e-6);
    assert_true(!m.layers[2].lists && m.layers[2].predictor_bytes == 0);
    load_free(&m);

    parse_well(&m, plain, &(shape_options){.mode = "predicted", .format = "Q4_0"}); /* 18 bytes for 32 */
    l = &m.layers[0];
    is_equal(l->first_bytes, 64 * 18. / 32);
    is_equal(l->predictor_bytes, 32 * 34. / 32); /* Q8_0 */
    is_equal(l->network_bytes, 10 * 18. / 32 + 32 * 64 * 34. / 32);
    load_free(&m);

    parse_well(&m, plain, &(shape_options){.density = 0.5});
    is_near(m.layers[0].fire, 0.5, 1e-5);
    assert_true(m.layers[2].fire == 1);
    assert_string_equal(m.density_source, "given");
    load_free(&m);

    parse_well(&m, plain, &(shape_options){.density = 1, .mode = "exact"});
    assert_true(!m.layers[0].lists && m.layers[0].fire == 1);
    load_free(&m);
}

static void experts_and_mixers(void **state)
{
    (void)state;
    const double b = 18. / 32;
    model_load m;
    parse_well(&m, mixed, NULL);
    assert_int_equal(m.layer_count, 5);
    assert_true(m.tied);
    assert_string_equal(m.density_source, "assumed");
    is_equal(m.embedding_bytes, 500 * 128 * b);
    is_equal(m.head_bytes, m.embedding_bytes);
    const layer_load *r = &m.layers[0], *e = &m.layers[1], *a = &m.layers[3];
    assert_true(r->has_mixer && !r->has_network && !r->splits && !e->has_mixer && e->has_network && a->has_mixer);
    is_equal(r->mixer_bytes, 5000 * b);
    is_equal(r->kv_bytes, 7 * 2);
    is_equal(r->state_bytes, 300 * 4);
    is_equal(a->mixer_bytes, (128 * 64 * 2 + 128 * 32 * 2) * b);
    assert_int_equal(m.layers[4].kind, e->kind);
    assert_ptr_equal(m.layers[4].fires, e->fires);
    assert_int_equal(e->neurons, 8 * 64 + 96);
    is_equal(e->row_bytes, 32 * b);
    is_equal(e->other_bytes, 32 * b);
    is_equal(e->network_bytes, 1024 * b);
    is_near(e->need, (8 * 64 * 0.25 + 96) / 608, 1e-6); /* a quarter of the experts, all of the shared one */
    is_near(e->fire, (8 * 64 * 0.25 + 96) / 608 * 0.5, 1e-6);
    for (size_t i = 0; i < 608; i++) { /* the shared expert saves most, so it comes first */
        is_near(e->needs[i], i < 96 ? 1 : 0.25, 1e-6);
        is_near(e->fires[i], i < 96 ? 0.5 : 0.125, 1e-6);
    }
    load_free(&m);

    parse_well(&m, mixed, &(shape_options){.mode = "dense"});
    e = &m.layers[1];
    assert_false(e->lists);
    for (size_t i = 0; i < 608; i++)
        assert_true(e->needs[i] == (i < 96 ? 1 : 0.25f) && e->fires[i] == e->needs[i]);
    load_free(&m);

    hearth_error error = {0};
    assert_int_equal(parse(&m, mixed, ", 'shared': 96", "", &(shape_options){.mode = "dense"}, &error), HEARTH_OK);
    e = &m.layers[1];
    assert_true(!e->needs && e->need == 0.25 && e->fire == 0.25 && e->neurons == 512);
    load_free(&m);
}

/* ------------------------------------------------------------------ those that come with hearth */

/* Parameters in all, of predictors not one, from bytes in F16. */
static double parameters(const model_load *m)
{
    double bytes = m->embedding_bytes + (m->tied ? 0 : m->head_bytes);
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const layer_load *l = &m->layers[i];
        bytes += l->mixer_bytes + l->network_bytes + l->neurons * (l->first_bytes + l->other_bytes);
    }
    return bytes / 2;
}

/* What a token of a dense computation reads, the embedding's one row aside. */
static double used_parameters(const model_load *m)
{
    double bytes = m->head_bytes;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const layer_load *l = &m->layers[i];
        bytes += l->mixer_bytes + l->network_bytes + l->neurons * l->need * (l->first_bytes + l->other_bytes);
    }
    return bytes / 2;
}

/* In billions, as published by those who made them; `used`, of mixtures: per token, with the head. */
static const struct published {
    const char *name;
    uint32_t layers;
    double parameters, used, density;
    bool predicts;
} published[] = {
    {"opt-6.7b", 32, 6.7, 0, 0.03, true},
    {"opt-13b", 40, 13, 0, 0.03, true},
    {"opt-30b", 48, 30, 0, 0.03, true},
    {"opt-66b", 64, 66, 0, 0.03, true},
    {"opt-175b", 96, 175, 0, 0.03, true},
    {"llama-relu-7b", 32, 6.74, 0, 0.30, true},
    {"llama-relu-13b", 40, 13.02, 0, 0.22, true},
    {"llama-relu-33b", 60, 32.5, 0, 0.20, true},
    {"llama-relu-70b", 80, 69, 0, 0.18, true},
    {"falcon-40b", 60, 41.8, 0, 0.05, true},
    {"bamboo-7b", 32, 7.24, 0, 0.10, true},
    {"nemotron-3-nano", 52, 31.6, 3.23, 0.10, false},
    {"smallthinker-21b", 52, 21.5, 3.3, 0.40, false},
};
#define PUBLISHED (sizeof published / sizeof *published)

static void shipped_shapes_have_the_published_sizes(void **state)
{
    (void)state;
    size_t files = 0;
    hearth_error error = {0};
    for (size_t k = 0; k < PUBLISHED; k++) {
        const struct published *p = &published[k];
        model_load m;
        if (load_read_shape(&m, p->name, SHAPES, &(shape_options){.format = "f16", .mode = "dense"}, &error) !=
            HEARTH_OK)
            fail_msg("%s", error.text);
        assert_int_equal(m.layer_count, p->layers);
        is_near(parameters(&m), p->parameters * 1e9, 0.03);
        if (p->used > 0)
            is_near(used_parameters(&m), p->used * 1e9, 0.03);
        load_free(&m);

        assert_int_equal(load_read_shape(&m, p->name, SHAPES, NULL, &error), HEARTH_OK);
        double fire = 0, need = 0; /* the mean of the model, of the neurons in use */
        for (uint32_t i = 0; i < m.layer_count; i++) {
            fire += m.layers[i].neurons * m.layers[i].fire;
            need += m.layers[i].neurons * m.layers[i].need;
        }
        is_near(fire / need, p->density, 0.01);
        load_free(&m);

        hearth_status status = load_read_shape(&m, p->name, SHAPES, &(shape_options){.mode = "predicted"}, &error);
        assert_int_equal(status, p->predicts ? HEARTH_OK : HEARTH_UNSUPPORTED);
        load_free(&m);
    }
    DIR *d = opendir(SHAPES);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        files += strstr(entry->d_name, ".json") != NULL;
    closedir(d);
    assert_int_equal(files, PUBLISHED);
}

/* The sizes of all predictors in table 6 of the PowerInfer paper. */
static void predictors_have_the_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double parameters;
    } cases[] = {{"opt-13b", 0.88e9}, {"opt-66b", 3.23e9}, {"falcon-40b", 3.63e9}, {"llama-relu-70b", 5.66e9}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        model_load m;
        double bytes = 0;
        assert_int_equal(load_read_shape(&m, cases[k].name, SHAPES, &(shape_options){.mode = "predicted"}, NULL),
                         HEARTH_OK);
        for (uint32_t i = 0; i < m.layer_count; i++)
            bytes += m.layers[i].neurons * m.layers[i].predictor_bytes + m.layers[i].network_bytes;
        is_near(bytes / 2, cases[k].parameters, 0.02);
        load_free(&m);
    }
}

static void names_and_paths(void **state)
{
    (void)state;
    model_load m;
    hearth_error error = {0};
    assert_int_equal(load_read_shape(&m, "OPT-30B", SHAPES, NULL, &error), HEARTH_OK);
    load_free(&m);
    assert_int_equal(load_read_shape(&m, SHAPES "/opt-30b.json", NULL, NULL, &error), HEARTH_OK);
    load_free(&m);
    assert_int_equal(load_read_shape(&m, "opt-30c", SHAPES, NULL, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "opt-30c: no such file, and no shape of that name in "));
    assert_int_equal(load_read_shape(&m, "opt-30b", NULL, NULL, &error), HEARTH_IO);
    assert_int_equal(load_read_shape(&m, SHAPES, NULL, NULL, &error), HEARTH_IO); /* a folder */
    assert_null(m.layers);
}

/* ------------------------------------------------------------------ wrong ones */

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *base, *from, *to, *text;
    } cases[] = {
        {plain, "'name': 'P', ", "", "s.json: name: is missing"},
        {plain, "'note': 'n'", "'note': 1", "s.json: note: is not a string"},
        {plain, "'width': 64, ", "", "s.json: width: is missing"},
        {plain, "'width': 64", "'width': 0", "s.json: width: is 0, not from 1"},
        {plain, "'width': 64", "'width': 64.5", "s.json: width: is not an integer"},
        {plain, "'width': 64", "'width': 99999999999", "s.json: width: is not an integer"},
        {plain, "'width': 64", "'width': -64", "s.json: width: is not an integer"},
        {plain, "'width': 64", "'wide': 64", "s.json: wide: unknown member"},
        {plain, "'vocabulary': 1000", "'vocabulary': 1e3", "s.json: vocabulary: is not an integer"},
        {plain, "'vocabulary': 1000", "'vocabulary': 4000000000", "s.json: vocabulary: is 4000000000"},
        {plain, "'tied': false, ", "", "s.json: tied: is missing"},
        {plain, "'tied': false", "'tied': 0", "s.json: tied: is not true or false"},
        {plain, "'note': 'n'", "'format': 'q9'", "s.json: format: unknown number format"},
        {plain, "'note': 'n'", "'format': 'signs1'", "s.json: format: unknown number format"},
        {plain, "'note': 'n'", "'density_source': []", "s.json: density_source: is not a string"},
        {plain, "'note': 'n'", "'pattern': ''", "s.json: pattern: is empty"},
        {plain, "'note': 'n'", "'pattern': 'AAB'", "s.json: layers[0]: count: the pattern counts"},
        {plain, "'layers': [", "'layers': [1, ", "s.json: layers[0]: is not an object"},
        {plain, "{'count': 2, ", "{", "s.json: layers[0]: count: is missing"},
        {plain, "'count': 2", "'count': 0", "s.json: layers[0]: count: is 0"},
        {plain, "'count': 2", "'count': 1024", "s.json: layers: are 1025, at most 1024"},
        {plain, "'count': 2", "'count': 2, 'letter': 'A'", "s.json: layers[0]: letter: goes with a pattern"},
        {plain, "'count': 2", "'count': 2, 'mixer': {}", "s.json: layers[0]: mixer: attention is there already"},
        {plain, "{'count': 1, ", "{'count': 1}, {'count': 1, ", "s.json: layers[1]: network: is missing"},
        {plain, "{'heads': 4, ", "{", "s.json: layers[0]: attention: heads: is missing"},
        {plain, "'heads': 4", "'heads': 70000", "s.json: layers[0]: attention: heads: is 70000"},
        {plain, "'kv_heads': 2", "'kv_heads': 5", "s.json: layers[0]: attention: kv_heads: is 5, not from 1 to 4"},
        {plain, "'head_length': 16, ", "", "s.json: layers[0]: attention: head_length: is missing"},
        {plain, "'window': 128", "'window': 0", "s.json: layers[0]: attention: window: is 0"},
        {plain, "'window': 128", "'sinks': 4", "s.json: layers[0]: attention: sinks: unknown member"},
        {plain, "'attention': {'heads': 4, 'kv_heads': 2, 'head_length': 16, 'window': 128}", "'attention': 4",
         "s.json: layers[0]: attention: is not an object"},
        {plain, "'neurons': 256, ", "", "s.json: layers[0]: network: neurons: is missing"},
        {plain, "'neurons': 256", "'neurons': 5000000", "s.json: layers[0]: network: neurons: is 5000000"},
        {plain, "'matrices': 3", "'matrices': 4", "s.json: layers[0]: network: matrices: is 4, not from 2 to 3"},
        {plain, "'parameters': 10", "'parameters': 0", "s.json: layers[0]: network: parameters: is 0"},
        {plain, "'parameters': 10", "'parameters': 1e16", "s.json: layers[0]: network: parameters: is 1e+16"},
        {plain, "'parameters': 10", "'used': 1", "s.json: layers[0]: network: used: goes with experts"},
        {plain, "'parameters': 10", "'shared': 1", "s.json: layers[0]: network: shared: goes with experts"},
        {plain, "'parameters': 10", "'experts': 4", "s.json: layers[0]: network: used: is missing"},
        {plain, "'parameters': 10", "'experts': 4, 'used': 2",
         "s.json: layers[0]: network: rank: predictors of experts cannot be described"},
        {plain, "'density': 0.25", "'density': 0", "s.json: layers[0]: network: density: is 0"},
        {plain, "'density': 0.25", "'density': 1.01", "s.json: layers[0]: network: density: is 1.01"},
        {plain, "'density': 0.25, ", "", "s.json: layers[0]: network: hot: goes with density"},
        {plain, "'density': 0.25, 'hot': 0.5, 'share': 0.75,", "",
         "s.json: layers[0]: network: rank: goes with density"},
        {plain, "'hot': 0.5, ", "", "s.json: layers[0]: network: hot: is missing"},
        {plain, ", 'share': 0.75", "", "s.json: layers[0]: network: share: is missing"},
        {plain, "'hot': 0.5", "'hot': 0.8", "s.json: layers[0]: network: share: is less than hot"},
        {plain, "'hot': 0.5", "'hot': 1", "s.json: layers[0]: network: hot: is 1"},
        {plain, "'share': 0.75", "'share': 1", "s.json: layers[0]: network: share: is 1"},
        {plain, "'rank': 32, ", "", "s.json: layers[0]: network: rank: is missing"},
        {plain, "'rank': 32, 'let_through': 1.5", "'rank': 32", "s.json: layers[0]: network: let_through: is missing"},
        {plain, "'let_through': 1.5", "'let_through': 0.5", "s.json: layers[0]: network: let_through: is 0.5"},
        {plain, "'rank': 32", "'rank': '32'", "s.json: layers[0]: network: rank: is not an integer"},
        {mixed, "'letter': 'R', ", "", "s.json: layers[0]: letter: is missing"},
        {mixed, "'letter': 'R'", "'letter': 'RR'", "s.json: layers[0]: letter: has 2 bytes"},
        {mixed, "'letter': 'R'", "'letter': ''", "s.json: layers[0]: letter: is empty"},
        {mixed, "'letter': 'A'", "'letter': 'R'", "s.json: layers[1]: letter: another layer has it"},
        {mixed, "'REEAE'", "'REEAEX'", "s.json: pattern: no layer has the letter X"},
        {mixed, "'REEAE'", "'REEE'", "s.json: pattern: lacks the letter A"},
        {mixed, "'parameters': 5000, ", "", "s.json: layers[0]: mixer: parameters: is missing"},
        {mixed, "'state_values': 300", "'state_values': 0", "s.json: layers[0]: mixer: state_values: is 0"},
        {mixed, "'kv_values': 7", "'kv': 7", "s.json: layers[0]: mixer: kv: unknown member"},
        {mixed, "'experts': 8", "'experts': 1", "s.json: layers[2]: network: experts: is 1"},
        {mixed, "'experts': 8", "'experts': 100000", "s.json: layers[2]: network: neurons: too many in all experts"},
        {mixed, "'used': 2", "'used': 9", "s.json: layers[2]: network: used: is 9, not from 1 to 8"},
        {mixed, "'width': 32", "'width': 0", "s.json: layers[2]: network: width: is 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_load m;
        hearth_error error = {0};
        long live = mem_live();
        hearth_status status = parse(&m, cases[i].base, cases[i].from, cases[i].to, NULL, &error);
        if (status != HEARTH_FORMAT || !strstr(error.text, cases[i].text))
            fail_msg("%s -> %s: \"%s\" instead of \"%s\"", cases[i].from, cases[i].to, error.text, cases[i].text);
        assert_int_equal(mem_live(), live);
        assert_null(m.layers);
    }
    static const char *const others[] = {"[]", "7", "null", "{}", "{\"layers\": []}"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        model_load m;
        json_t *root = json_loads(others[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(load_parse_shape(&m, root, "s.json", NULL, NULL), HEARTH_FORMAT);
        json_decref(root);
    }
}

static void lists_that_are_too_long_or_empty(void **state)
{
    (void)state;
    model_load m;
    hearth_error error = {0};
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:b, s:[]}", "name", "L", "width", 8, "vocabulary", 9, "tied", 1, "layers");
    json_t *layers = json_object_get(root, "layers");
    assert_int_equal(load_parse_shape(&m, root, "s.json", NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "s.json: layers: is empty"));
    /* Networks that are large one by one are too many together. */
    for (int i = 0; i < 2; i++) {
        json_array_append_new(layers, json_pack("{s:i, s:{s:i, s:i, s:f}}", "count", 1, "network", "neurons", 4000000,
                                                "matrices", 2, "density", 0.5));
        hearth_status status = load_parse_shape(&m, root, "s.json", NULL, &error);
        assert_int_equal(status, i ? HEARTH_FORMAT : HEARTH_OK);
        load_free(&m);
    }
    assert_non_null(strstr(error.text, "s.json: layers[1]: network: neurons: too many in all layers"));
    for (int i = 0; i < 63; i++)
        json_array_append_new(layers, json_pack("{s:i, s:{s:f}}", "count", 1, "mixer", "parameters", 1.0));
    assert_int_equal(load_parse_shape(&m, root, "s.json", NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "s.json: layers: has 65 items, at most 64"));
    json_decref(root);
}

static void wrong_wishes_are_refused(void **state)
{
    (void)state;
    static const struct {
        shape_options options;
        hearth_status status;
        const char *text;
    } cases[] = {{{.format = "q9"}, HEARTH_INVALID, "unknown number format q9"},
                 {{.mode = "pruned"}, HEARTH_INVALID, "unknown mode pruned"},
                 {{.density = -0.1}, HEARTH_INVALID, "density"},
                 {{.density = 1.5}, HEARTH_INVALID, "density"},
                 {{.density = (double)NAN}, HEARTH_INVALID, "density"}};
    model_load m;
    hearth_error error = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(&m, plain, "", "", &cases[i].options, &error), cases[i].status);
        assert_non_null(strstr(error.text, cases[i].text));
    }
    assert_int_equal(parse(&m, mixed, "", "", &(shape_options){.mode = "predicted"}, &error), HEARTH_UNSUPPORTED);
    assert_int_equal(parse(&m, mixed, ", 'density': 0.5", "", &(shape_options){.mode = "exact"}, &error),
                     HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no mode exact"));
    assert_int_equal(parse(&m, mixed, ", 'density': 0.5", "", NULL, &error), HEARTH_OK); /* dense then */
    assert_false(m.layers[1].lists);
    load_free(&m);
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const char *const names[] = {"nemotron-3-nano", "opt-30b"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        long live = mem_live();
        hearth_status status = HEARTH_NO_MEMORY;
        for (long n = 0; status != HEARTH_OK; n++) {
            model_load m;
            hearth_error error = {0};
            mem_fail_at(n);
            status = load_read_shape(&m, names[k], SHAPES, NULL, &error);
            mem_fail_at(-1);
            assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
            assert_true(n > 0 || status != HEARTH_OK);
            load_free(&m);
            assert_int_equal(mem_live(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_share_hold),
        cmocka_unit_test(chances_end_at_one),
        cmocka_unit_test(bytes_of_every_mode),
        cmocka_unit_test(experts_and_mixers),
        cmocka_unit_test(shipped_shapes_have_the_published_sizes),
        cmocka_unit_test(predictors_have_the_published_sizes),
        cmocka_unit_test(names_and_paths),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(lists_that_are_too_long_or_empty),
        cmocka_unit_test(wrong_wishes_are_refused),
        cmocka_unit_test(memory_runs_out),
    };
    return run_group(tests, NULL, NULL);
}
