/* Thresholds of pruning: at a level they zero that share of activations of tokens that they were not made from, equal
 * layers give equally, and what does not matter gives first. */
#include "../src/engine/engine.h"
#include "../src/learn/corpus.h"
#include "../src/learn/profile.h"
#include "../src/learn/prune.h"

#include "../src/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

/* ------------------------------------------------------------------ dealing */

/* A layer of which a share is zero anyway and whose loss grows with the square of what is taken. */
static prune_curve curve_of(double natural, double weight)
{
    prune_curve c = {.natural = natural};
    for (int k = 0; k < PRUNE_GRADES; k++) {
        double taken = (1 - natural) * k / PRUNE_GRADES;
        c.thresholds[k] = (float)k;
        c.errors[k] = weight * taken * taken;
    }
    return c;
}

static double share_at(const prune_curve *c, uint32_t grade)
{
    return c->natural + (1 - c->natural) * grade / PRUNE_GRADES;
}

static void levels_are_met_within_a_step(void **state)
{
    (void)state;
    const prune_curve curves[] = {curve_of(0.5, 1), curve_of(0.9, 3), curve_of(0, 0.1), curve_of(0.97, 20)};
    float levels[PRUNE_LEVELS];
    uint32_t grades[4 * PRUNE_LEVELS];
    assert_int_equal(prune_spread(levels, grades, curves, 4, NULL), HEARTH_OK);
    double natural = (0.5 + 0.9 + 0 + 0.97) / 4;
    for (size_t l = 0; l < PRUNE_LEVELS; l++) {
        double mean = 0;
        for (size_t i = 0; i < 4; i++)
            mean += share_at(&curves[i], grades[i * PRUNE_LEVELS + l]) / 4;
        assert_true(fabs((double)levels[l] - (natural + (1 - natural) * (double)l / PRUNE_LEVELS)) < 1e-6);
        assert_true(mean >= (double)levels[l] - 1e-6 && mean <= (double)levels[l] + 1.0 / PRUNE_GRADES);
        for (size_t i = 0; i < 4; i++)
            assert_true(l == 0 ? grades[i * PRUNE_LEVELS] == 0
                               : grades[i * PRUNE_LEVELS + l] >= grades[i * PRUNE_LEVELS + l - 1]);
    }
}

static void equal_layers_give_equally(void **state)
{
    (void)state;
    prune_curve curves[] = {curve_of(0.8, 1), curve_of(0.8, 1), curve_of(0.8, 1)};
    for (int i = 0; i < 3; i++)
        curves[i].errors[20] *= 0.99; /* a dent, as measured curves have them */
    float levels[PRUNE_LEVELS];
    uint32_t grades[3 * PRUNE_LEVELS];
    assert_int_equal(prune_spread(levels, grades, curves, 3, NULL), HEARTH_OK);
    for (size_t l = 0; l < PRUNE_LEVELS; l++)
        for (size_t i = 1; i < 3; i++)
            assert_true(labs((long)grades[i * PRUNE_LEVELS + l] - (long)grades[l]) <= 1);
}

static void what_does_not_matter_gives_first(void **state)
{
    (void)state;
    const prune_curve curves[] = {curve_of(0.5, 1), curve_of(0.5, 0), curve_of(0.5, 1)};
    float levels[PRUNE_LEVELS];
    uint32_t grades[3 * PRUNE_LEVELS];
    assert_int_equal(prune_spread(levels, grades, curves, 3, NULL), HEARTH_OK);
    for (size_t l = 1; l < PRUNE_LEVELS; l++) {
        /* a third of all that can be given is its own: up to there nobody else gives anything */
        uint32_t all = (uint32_t)ceil(3.0 * PRUNE_GRADES * (double)l / PRUNE_LEVELS - 1e-9);
        uint32_t own = all < PRUNE_GRADES - 1 ? all : PRUNE_GRADES - 1;
        assert_int_equal(grades[PRUNE_LEVELS + l], own);
        assert_int_equal(grades[l] + grades[2 * PRUNE_LEVELS + l], all - own);
    }
}

static void silent_layers_are_let_be(void **state)
{
    (void)state;
    const prune_curve curves[] = {curve_of(1, 0), curve_of(0.5, 1)};
    float levels[PRUNE_LEVELS];
    uint32_t grades[2 * PRUNE_LEVELS];
    assert_int_equal(prune_spread(levels, grades, curves, 2, NULL), HEARTH_OK);
    assert_int_equal(grades[PRUNE_LEVELS - 1], 0);
    assert_true(grades[2 * PRUNE_LEVELS - 1] > 0);
}

/* ------------------------------------------------------------------ models */

/* Ids that are read, and the step from one allocation that fails to the next: checked memory takes its time. */
#ifdef __SANITIZE_ADDRESS__
#define TOKENS 4000
#define STRIDE 9
#else
#define TOKENS 6000
#define STRIDE 1
#endif

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
    corpus texts;
    char folder[64];
} fixture;

/* A model, and hidden states of some text. */
static void open_fixture(fixture *f, const char *path)
{
    static const char text[] = HEARTH_MODELS "/stories-held.txt";
    const char *texts[] = {text};
    *f = (fixture){.folder = "/tmp/hearth-prune.XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    hearth_model_options options = {.tune = ""};
    hearth_placement *dense;
    hearth_engine *engine;
    corpus all;
    assert_int_equal(hearth_runtime_create(&f->runtime, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&f->model, path, &options, NULL), HEARTH_OK);
    assert_int_equal(corpus_read(&all, f->model, texts, 1, NULL, 0, NULL), HEARTH_OK);
    assert_int_equal(corpus_of_ids(&f->texts, f->model, all.ids, TOKENS, 0, NULL), HEARTH_OK);
    corpus_free(&all);
    assert_int_equal(hearth_placement_create(&dense, f->model, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
    hearth_engine_options engine_options = {.placement = dense};
    assert_int_equal(hearth_engine_create(&engine, f->runtime, f->model, &engine_options, NULL), HEARTH_OK);
    profile p;
    profile_options o = {.folder = f->folder};
    assert_int_equal(states_writer_open(&o.states, f->folder, f->model, &f->texts, 0, NULL), HEARTH_OK);
    assert_int_equal(profile_take(&p, engine, &f->texts, &o, NULL), HEARTH_OK);
    profile_free(&p);
    states_writer_close(o.states);
    hearth_engine_destroy(engine);
    hearth_placement_destroy(dense);
}

static void close_fixture(fixture *f)
{
    profile_forget(f->folder);
    states_remove(f->folder);
    assert_int_equal(rmdir(f->folder), 0);
    corpus_free(&f->texts);
    hearth_model_close(f->model);
    hearth_runtime_destroy(f->runtime);
}

/* Share of the held-out rows' activations that a threshold takes, in double from the decoded gate. */
static double share_taken(const fixture *f, uint32_t layer, float threshold)
{
    states *s;
    assert_int_equal(states_open(&s, f->folder, f->model, layer, NULL), HEARTH_OK);
    const ffn_shape *shape = &f->model->layers[layer].ffn;
    const matrix *gate = &f->model->layers[layer].gate;
    size_t d = f->model->hyper.embedding_length, taken = 0, all = 0;
    float *x = mem_new_array(d, sizeof *x), *w = mem_new_array(d, sizeof *w);
    for (uint32_t row = (uint32_t)states_training_count(s); row < states_count(s); row += 11) {
        states_read(s, &row, 1, true, x, NULL);
        for (size_t i = 0; i < shape->neuron_count; i++) {
            double y = 0;
            number_formats[gate->format].decode(matrix_row(gate, i), w, d);
            for (size_t c = 0; c < d; c++)
                y += (double)w[c] * x[c];
            y = shape->activation == FFN_SILU ? y / (1 + exp(-y)) : y > 0 ? y : 0;
            taken += fabs(y) <= threshold;
            all++;
        }
    }
    mem_free(x);
    mem_free(w);
    states_close(s);
    return (double)taken / (double)all;
}

static void check_held_out(const char *path, float first_level)
{
    fixture f;
    prune_table t;
    open_fixture(&f, path);
    assert_int_equal(prune_deal(&t, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    assert_true(t.levels[0] >= first_level);
    size_t layers = f.model->hyper.layer_count;
    for (size_t l = 0; l < PRUNE_LEVELS; l += 3) {
        double mean = 0;
        for (size_t i = 0; i < layers; i++)
            mean += share_taken(&f, (uint32_t)i, t.thresholds[i * PRUNE_LEVELS + l]) / (double)layers;
        print_message("level %.4f: %.4f of held-out activations\n", (double)t.levels[l], mean);
        assert_true(fabs(mean - (double)t.levels[l]) < 0.03);
    }
    prune_free(&t);
    close_fixture(&f);
}

static void thresholds_take_what_they_say_of_relu(void **state)
{
    (void)state;
    check_held_out(HEARTH_DATA "/models/stories-relu", 0.6f);
}

static void thresholds_take_what_they_say_of_silu(void **state)
{
    (void)state;
    check_held_out(HEARTH_DATA "/models/stories260K", 0);
}

/* A layer whose down matrix is zero loses nothing, whatever is taken. */
static void a_layer_without_effect_gives_all(void **state)
{
    (void)state;
    fixture f;
    prune_table before, after, again;
    open_fixture(&f, HEARTH_DATA "/models/stories260K");
    assert_int_equal(prune_deal(&before, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    matrix *down = &f.model->layers[2].down;
    void *zeros = mem_new_array(down->rows, down->row_bytes);
    down->data = zeros;
    assert_int_equal(prune_deal(&after, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    size_t layers = f.model->hyper.layer_count;
    const float *row = after.thresholds + 2 * PRUNE_LEVELS;
    assert_true(row[1] > before.thresholds[2 * PRUNE_LEVELS + 1]); /* a tenth of all: more than half of this one */
    assert_true(row[1] >= before.thresholds[2 * PRUNE_LEVELS + 3]);
    for (size_t i = 0; i < layers; i++)
        assert_true(i == 2 || after.thresholds[i * PRUNE_LEVELS + 1] == 0);

    hearth_runtime *other; /* and on one thread the same bytes */
    hearth_runtime_options one = {.threads = 1};
    assert_int_equal(hearth_runtime_create(&other, &one, NULL), HEARTH_OK);
    assert_int_equal(prune_deal(&again, other, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    assert_memory_equal(after.thresholds, again.thresholds, layers * PRUNE_LEVELS * sizeof(float));
    assert_memory_equal(after.levels, again.levels, sizeof after.levels);
    hearth_runtime_destroy(other);
    prune_free(&before);
    prune_free(&after);
    prune_free(&again);
    mem_free(zeros);
    close_fixture(&f);
}

/* Where a norm comes between, of the activations or behind the network, the size of a matrix does not matter: up of the
 * one model, down of the other, sixteen times as large. */
static void norms_undo_sizes(void **state)
{
    (void)state;
    static const char *const paths[] = {HEARTH_DATA "/golden/bitnet/model.gguf",
                                        HEARTH_DATA "/golden/gemma2/model.gguf"};
    for (size_t i = 0; i < 2; i++) {
        fixture f;
        prune_table before, after;
        open_fixture(&f, paths[i]);
        model_layer *l = &f.model->layers[1];
        assert_non_null(i ? l->ffn_post_norm.weight : l->ffn_inner_norm.weight);
        assert_int_equal(prune_deal(&before, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
        matrix *m = i ? &l->down : &l->up;
        assert_int_equal(m->format, FORMAT_F32);
        size_t count = (size_t)m->rows * m->columns;
        float *larger = mem_new_array(count, sizeof *larger);
        for (size_t k = 0; k < count; k++)
            larger[k] = 16 * ((const float *)m->data)[k];
        m->data = larger;
        assert_int_equal(prune_deal(&after, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
        for (size_t k = 0; k < f.model->hyper.layer_count * PRUNE_LEVELS; k++)
            assert_true(before.thresholds[k] == after.thresholds[k]);
        prune_free(&before);
        prune_free(&after);
        close_fixture(&f);
        mem_free(larger);
    }
}

/* A matrix of the same values in another format. data: free */
static matrix converted(const matrix *from, number_format format)
{
    matrix m = {.format = format, .rows = from->rows, .columns = from->columns};
    assert_true(number_row_bytes(format, m.columns, &m.row_bytes));
    char *data = mem_new_array(m.rows, m.row_bytes);
    float *row = mem_new_array(m.columns, sizeof *row);
    for (uint32_t i = 0; i < m.rows; i++) {
        number_formats[from->format].decode(matrix_row(from, i), row, m.columns);
        number_formats[format].encode(row, NULL, data + i * m.row_bytes, m.columns);
    }
    mem_free(row);
    m.data = data;
    return m;
}

/* Down matrices that need more room from layer to layer, against the same values all in one format. */
static void formats_may_differ_by_layer(void **state)
{
    (void)state;
    fixture f;
    prune_table mixed, same;
    open_fixture(&f, HEARTH_DATA "/models/stories260K-relu");
    uint32_t layers = f.model->hyper.layer_count;
    matrix *stored = mem_new_array(layers, sizeof *stored), *wide = mem_new_array(layers, sizeof *wide);
    for (uint32_t i = 0; i < layers; i++) {
        matrix *down = &f.model->layers[i].down;
        assert_null(f.model->layers[i].down_t.data);
        stored[i] = converted(down, i == 0 ? FORMAT_F16 : FORMAT_F32);
        wide[i] = converted(&stored[i], FORMAT_F32);
        *down = stored[i];
    }
    assert_int_equal(prune_deal(&mixed, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < layers; i++)
        f.model->layers[i].down = wide[i];
    assert_int_equal(prune_deal(&same, f.runtime, f.model, f.folder, (hearth_progress){0}, NULL), HEARTH_OK);
    assert_memory_equal(mixed.thresholds, same.thresholds, layers * PRUNE_LEVELS * sizeof(float));
    for (uint32_t i = 0; i < layers; i++) {
        mem_free((void *)(uintptr_t)stored[i].data);
        mem_free((void *)(uintptr_t)wide[i].data);
    }
    mem_free(stored);
    mem_free(wide);
    prune_free(&mixed);
    prune_free(&same);
    close_fixture(&f);
}

static bool refuse(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture f;
    prune_table t;
    open_fixture(&f, HEARTH_DATA "/models/stories260K-relu");
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        hearth_error error = {0};
        mem_fail_at(n);
        n += STRIDE;
        status = prune_deal(&t, f.runtime, f.model, f.folder, (hearth_progress){0}, &error);
        mem_fail_at(-1);
        assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        if (status == HEARTH_OK)
            prune_free(&t);
        assert_int_equal(mem_live(), live);
    } while (status != HEARTH_OK);
    assert_true(n > 10);
    hearth_progress stop = {refuse, NULL};
    assert_int_equal(prune_deal(&t, f.runtime, f.model, f.folder, stop, NULL), HEARTH_CANCELLED);
    assert_int_equal(mem_live(), live);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_met_within_a_step),
        cmocka_unit_test(equal_layers_give_equally),
        cmocka_unit_test(what_does_not_matter_gives_first),
        cmocka_unit_test(silent_layers_are_let_be),
        cmocka_unit_test(thresholds_take_what_they_say_of_relu),
        cmocka_unit_test(thresholds_take_what_they_say_of_silu),
        cmocka_unit_test(a_layer_without_effect_gives_all),
        cmocka_unit_test(norms_undo_sizes),
        cmocka_unit_test(formats_may_differ_by_layer),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_group(tests, NULL, NULL);
}
