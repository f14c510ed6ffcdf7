/* engine_family_pwri.c - PowerInfer files of every family with zeros: predictors added to a model and read back, and
 * PowerInfer's own files packed as GGUF, compute what they computed before. */
#include "../src/model/convert.h"
#include "modes.h"

#include "own_folder.h"

#include "tune_build.h"

enum { RANK = 16 };

static const struct {
    const char *name, *activation;
} models[] = {{"llama-relu", NULL}, {"bamboo", NULL}, {"opt", NULL},   {"falcon-7b", "relu"}, {"falcon-40b", "relu"},
              {"arcee", NULL},      {"bitnet", NULL}, {"jais2", NULL}, {"nemotron", NULL},    {"minicpm-s", NULL}};

static pool *threads;
static char tune_file[80], packed_path[80];

static void write_to(const char *from, const char *to, convert_options o)
{
    hearth_error error;
    o.format = o.down_format = FORMAT_COUNT;
    stack_check(convert_write(from, to, &o, threads, &error), &error);
}

/* Writes a tune file with predictors of PowerInfer's kind in all layers. */
static void write_predictors(const hearth_model *m)
{
    hearth_error error;
    uint32_t seed = 21;
    tune *t = make_tune(m, MADE_COUNTS, FORMAT_F32, RANK);
    t->has_predictors = true;
    for (uint32_t i = 0; i < t->layer_count; i++) {
        learned_predictor *p = &t->layers[i].predictor;
        *p = (learned_predictor){.kind = PREDICTOR_LOW_RANK, .coarse_format = FORMAT_COUNT};
        p->fc1 = made_matrix(&t->memory, FORMAT_F16, RANK, m->hyper.embedding_length, &seed);
        p->fc2 = made_matrix(&t->memory, FORMAT_F16, t->layers[i].neuron_count, RANK, &seed);
    }
    stack_check(tune_write(tune_file, t, m, &error), &error);
    tune_close(t);
}

static void expect_same(const char *name, const char *one, const setup *first, const char *other, const setup *second,
                        const int32_t *ids, size_t count, uint32_t vocabulary)
{
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        float *a = read_model(one, first, ids, count, one_by_one);
        float *b = read_model(other, second, ids, count, one_by_one);
        if (memcmp(a, b, count * vocabulary * sizeof *a) != 0)
            fail_msg("%s: %s differs from %s by %.2e", name, hearth_mode_name(second->mode),
                     hearth_mode_name(first->mode), relative_l2(b, a, count * vocabulary));
        free(a);
        free(b);
    }
}

/* Dense, the file with predictors is the packed model; where they let everything through, so is predicted. */
static void check_model(size_t row)
{
    golden g;
    hearth_model *m;
    hearth_error error;
    const char *name = models[row].name;
    hearth_model_options options = {.ffn_activation = models[row].activation};
    golden_load(&g, name);
    stack_check(hearth_model_open(&m, g.folder, &options, &error), &error);
    write_predictors(m);
    uint32_t context = m->hyper.context_length, dropped = m->family->dropped_positions;
    ffn_shape shape = m->layers[0].ffn;
    hearth_model_close(m);
    write_to(g.folder, packed_path, (convert_options){.neuron_major = true, .ffn_activation = models[row].activation});
    write_to(g.folder, own_path, (convert_options){.predictors = tune_file, .ffn_activation = models[row].activation});
    stack_check(hearth_model_open(&m, own_path, NULL, &error), &error);
    assert_true(m->powerinfer && m->predictors);
    assert_int_equal(m->hyper.position_offset, dropped);
    assert_int_equal(m->hyper.context_length, context);
    assert_int_equal(m->layers[0].ffn.activation, shape.activation);
    assert_true(m->layers[0].ffn.threshold == shape.threshold);
    hearth_model_close(m);
    const setup dense = {.mode = HEARTH_MODE_DENSE}, exact = {.mode = HEARTH_MODE_EXACT},
                predicted = {.mode = HEARTH_MODE_PREDICTED, .permissive = true};
    expect_same(name, packed_path, &dense, own_path, &dense, g.ids, g.total, g.vocabulary);
    expect_same(name, packed_path, &dense, own_path, &exact, g.ids, g.total, g.vocabulary);
    expect_same(name, packed_path, &dense, own_path, &predicted, g.ids, g.total, g.vocabulary);
    golden_free(&g);
}

static void predictors_there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(i);
}

/* A PowerInfer file packed as GGUF, in another order of neurons too, and that file packed once more. */
static void packed_they_compute_the_same(void **state)
{
    (void)state;
    enum { TOKENS = 16, VOCABULARY = 320, MOST = 1056 };
    static const char *const names[] = {"llama", "bamboo", "opt", "falcon"};
    static const char *const types[] = {"f32", "f16", "q4_0"};
    static uint32_t order[MOST];
    const uint32_t *orders[] = {order, order};
    int32_t ids[TOKENS];
    for (uint32_t n = 0; n < MOST; n++)
        order[n] = (n * 5 + 2) % MOST; /* 1056 is no multiple of 5 */
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 37 + 5) % VOCABULARY;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            char path[600];
            snprintf(path, sizeof path, GOLDEN "/pwri/%s/%s.gguf", names[i], types[k]);
            write_to(path, packed_path, (convert_options){.neuron_major = true});
            write_to(packed_path, own_path, (convert_options){.neuron_major = true});
            for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++) {
                const setup o = {.mode = (hearth_mode)mode};
                expect_same(path, path, &o, packed_path, &o, ids, TOKENS, VOCABULARY);
                expect_same(path, path, &o, own_path, &o, ids, TOKENS, VOCABULARY);
            }
            write_to(packed_path, own_path, (convert_options){.neuron_major = true, .order = orders});
            expect_exact_is_dense(own_path, ids, TOKENS, VOCABULARY);
        }
}

static int set_up(void **state)
{
    int failed = own_folder_make(state);
    snprintf(tune_file, sizeof tune_file, "%s/tune", own_folder);
    snprintf(packed_path, sizeof packed_path, "%s/packed", own_folder);
    return failed || pool_create(&threads, 3, NULL) != HEARTH_OK;
}

static int tear_down(void **state)
{
    pool_destroy(threads);
    unlink(tune_file);
    unlink(packed_path);
    return own_folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(predictors_there_and_back),
                                       cmocka_unit_test(packed_they_compute_the_same)};
    return run_group(tests, set_up, tear_down);
}
