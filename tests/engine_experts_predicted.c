/* engine_experts_predicted.c - predictors of experts: made-up ones in golden models with experts. What lets everything
 * through is exact to the byte; what lets some through is what the definition says, in double precision; and batches,
 * single tokens and devices agree, as do engines that leave neurons out. */
#include "../src/model/tune.h"
#include "modes.h"
#include "placements.h"

/* Float32 throughout; between orders of additions. */
static const double bound = 1e-5;

enum { RANK = 8, MOST_FEED = 40 };

static const char *const names[] = {"smallthinker", "mixtral-drelu"};
#define NAMES (sizeof names / sizeof *names)

/* ------------------------------------------------------------------ a model with predictors */

static matrix random_matrix(uint32_t rows, uint32_t columns, uint32_t *seed)
{
    float *values = malloc((size_t)rows * columns * sizeof *values);
    for (size_t i = 0; i < (size_t)rows * columns; i++)
        values[i] = (float)draw(seed, 2001) / 1000 - 1;
    return (matrix){.data = values, .format = FORMAT_F32, .rows = rows, .columns = columns, .row_bytes = columns * 4};
}

/* A record that gives every layer a predictor: the first reads the residual stream, the second the normed input, and so
 * on; coarse ones have a margin of 0. Freed with drop_record. */
static tune *made_record(const hearth_model *m, predictor_kind kind)
{
    uint32_t seed = 7, layers = m->hyper.layer_count;
    tune *t = calloc(1, sizeof *t);
    t->layer_count = layers;
    t->has_predictors = true;
    t->layers = calloc(layers, sizeof *t->layers);
    for (uint32_t i = 0; i < layers; i++) {
        learned_predictor *p = &t->layers[i].predictor;
        *p = (learned_predictor){.kind = kind, .reads_normed = i % 2, .coarse_format = FORMAT_F16};
        if (kind != PREDICTOR_LOW_RANK)
            continue;
        p->fc1 = random_matrix(RANK, m->hyper.embedding_length, &seed);
        p->fc2 = random_matrix(m->layers[i].ffn.neuron_count, RANK, &seed);
        p->threshold = 0.25f;
    }
    stack_check(tune_bind(t, m, NULL), NULL);
    return t;
}

static void drop_record(tune *t)
{
    for (uint32_t i = 0; i < t->layer_count; i++) {
        free((void *)(uintptr_t)t->layers[i].predictor.fc1.data);
        free((void *)(uintptr_t)t->layers[i].predictor.fc2.data);
    }
    free(t->layers);
    free(t);
}

static void open_model(stack *s, const char *name, predictor_kind kind)
{
    hearth_error error;
    char path[600];
    *s = (stack){0};
    golden_path(path, sizeof path, name, "model.gguf");
    stack_check(hearth_model_open(&s->model, path, &(hearth_model_options){.tune = ""}, &error), &error);
    hearth_model_describe(s->model, &s->info);
    s->model->tune = made_record(s->model, kind);
}

static void close_model(stack *s)
{
    drop_record(s->model->tune);
    s->model->tune = NULL;
    hearth_model_close(s->model);
}

/* ------------------------------------------------------------------ reading */

/* Logits of a golden's text under a placement (json NULL: of the CPU in the mode), and the counts. Freed with free. */
static float *read_placed(stack *s, const golden *g, const char *json, hearth_mode mode, size_t piece,
                          const hearth_observer *observer, hearth_counts *counts)
{
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    open_placed(s, json, mode, true, (hearth_session_options){.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32});
    hearth_session_observe(s->session, observer);
    for (size_t at = 0; at < g->total; at += piece)
        stack_feed(s, 0, g->ids + at, piece, logits + at * g->vocabulary);
    for (uint32_t i = 0; counts && i < s->info.layer_count; i++)
        assert_int_equal(hearth_session_counts(s->session, i, &counts[i], NULL), HEARTH_OK);
    close_placed(s);
    return logits;
}

static void expect_close_logits(float *got, const float *want, const golden *g, const char *what)
{
    double distance = relative_l2(got, want, g->total * g->vocabulary);
    if (!(distance <= bound))
        fail_msg("%s: relative distance %.2e", what, distance);
    free(got);
}

/* The JSON of the CPU's placement in mode predicted at this threshold. Freed with hearth_free. */
static char *predicted_at(const stack *s, float threshold)
{
    hearth_placement *p;
    char *json;
    stack_check(hearth_placement_create(&p, s->model, HEARTH_MODE_PREDICTED, NULL), NULL);
    hearth_placement_set_threshold(p, threshold);
    stack_check(hearth_placement_print(p, &json, NULL), NULL);
    hearth_placement_destroy(p);
    return json;
}

/* ------------------------------------------------------------------ the definition */

/* What an observer saw of the first layer in mode exact, and whether the predictions of all layers are right. */
typedef struct watch {
    const hearth_model *model;
    bool predicted;   /* false: activations of the first layer are noted */
    float *exact;     /* [total][f] of the first layer                   */
    size_t let, rows; /* neurons let through, rows seen                  */
} watch;

/* The score of a neuron, in double precision. */
static double score_of(const learned_predictor *p, const float *input, uint32_t neuron)
{
    const float *fc1 = p->fc1.data, *fc2 = p->fc2.data;
    double score = 0;
    for (uint32_t r = 0; r < RANK; r++) {
        double hidden = 0;
        for (uint32_t c = 0; c < p->fc1.columns; c++)
            hidden += (double)fc1[r * p->fc1.columns + c] * (double)input[c];
        score += fmax(hidden, 0) * (double)fc2[neuron * RANK + r];
    }
    return score;
}

static void see(void *user, const hearth_observation *o)
{
    watch *w = user;
    const ffn_shape *shape = &w->model->layers[o->layer].ffn;
    uint32_t f = shape->neuron_count, each = shape->expert_neurons, used = 0;
    uint8_t *listed = calloc(f, 1), *chosen = calloc(shape->router.expert_count, 1);
    float *exact = w->exact + (size_t)o->position * f;
    for (size_t i = 0; i < o->neuron_count; i++) {
        uint32_t neuron = o->neurons[i];
        listed[neuron] = chosen[neuron / each] = 1;
        if (o->layer == 0 && !w->predicted)
            exact[neuron] = o->activations[i];
        else if (o->layer == 0) /* before it, nothing was left out */
            assert_true(fabs((double)(o->activations[i] - exact[neuron])) <= bound * (1 + fabs((double)exact[neuron])));
    }
    const learned_predictor *p = &w->model->tune->layers[o->layer].predictor;
    for (uint32_t e = 0; e < shape->router.expert_count; e++)
        used += chosen[e];
    assert_true(used <= shape->router.used);
    for (uint32_t i = 0; w->predicted && i < f; i++) {
        double above = score_of(p, p->reads_normed ? o->ffn_input : o->residual, i) - (double)p->threshold;
        if (chosen[i / each] && fabs(above) > bound)
            assert_int_equal(listed[i], above > 0);
        else
            assert_true(!listed[i] || chosen[i / each]);
    }
    w->let += o->neuron_count;
    w->rows += shape->router.used * (size_t)each; /* neurons that could be */
    free(listed);
    free(chosen);
}

/* ------------------------------------------------------------------ tests */

static void permissive_is_exact(void **state)
{
    (void)state;
    static const predictor_kind kinds[] = {PREDICTOR_LOW_RANK, PREDICTOR_COARSE};
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < NAMES * 2; i++) {
        golden g;
        stack s;
        golden_load(&g, names[i / 2]);
        open_model(&s, names[i / 2], kinds[i % 2]);
        s.runtime = runtime;
        /* scores are compared with the threshold, a coarse copy's margin widens its scores */
        char *all = predicted_at(&s, kinds[i % 2] == PREDICTOR_COARSE ? 1e30f : -1e30f);
        for (size_t piece = 1; piece <= MOST_FEED; piece += MOST_FEED - 1) {
            float *want = read_placed(&s, &g, NULL, HEARTH_MODE_EXACT, piece, NULL, NULL);
            float *got = read_placed(&s, &g, all, HEARTH_MODE_PREDICTED, piece, NULL, NULL);
            assert_memory_equal(got, want, g.total * g.vocabulary * sizeof *got);
            free(got);
            free(want);
        }
        hearth_free(all);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

static void let_through_by_definition(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < NAMES; i++) {
        golden g;
        stack s;
        golden_load(&g, names[i]);
        open_model(&s, names[i], PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        watch w = {.model = s.model, .exact = calloc(g.total * s.info.neuron_count, sizeof(float))};
        hearth_observer observer = {.see = see, .user = &w};
        free(read_placed(&s, &g, NULL, HEARTH_MODE_EXACT, 1, &observer, NULL));
        w.predicted = true, w.let = w.rows = 0;
        float *seen = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 1, &observer, NULL);
        double share = (double)w.let / (double)w.rows;
        print_message("%s: %.2f of the chosen experts' neurons are let through\n", names[i], share);
        assert_true(share > 0.1 && share < 0.9);
        float *unseen = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 1, NULL, NULL);
        assert_memory_equal(seen, unseen, g.total * g.vocabulary * sizeof *seen);
        free(unseen);
        free(seen);
        free(w.exact);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

static void expect_same_counts(const hearth_counts *got, const hearth_counts *want, uint32_t layers, const char *what)
{
    for (uint32_t i = 0; i < layers; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s, layer %u: computed %llu, fired %llu, active %llu; expected %llu, %llu, %llu", what, i,
                     (unsigned long long)got[i].computed, (unsigned long long)got[i].fired,
                     (unsigned long long)got[i].active, (unsigned long long)want[i].computed,
                     (unsigned long long)want[i].fired, (unsigned long long)want[i].active);
}

static void batches_and_tokens_agree(void **state)
{
    (void)state;
    static const predictor_kind kinds[] = {PREDICTOR_LOW_RANK, PREDICTOR_COARSE};
    hearth_runtime *runtime = open_runtime(NULL, 3);
    for (size_t i = 0; i < NAMES * 2; i++) {
        golden g;
        stack s;
        hearth_counts single[MOST_LAYERS], batch[MOST_LAYERS];
        golden_load(&g, names[i / 2]);
        open_model(&s, names[i / 2], kinds[i % 2]);
        s.runtime = runtime;
        float *want = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 1, NULL, single);
        float *got = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 40, NULL, batch);
        expect_same_counts(batch, single, s.info.layer_count, names[i / 2]);
        expect_close_logits(got, want, &g, names[i / 2]);
        free(want);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

/* Whole layers there, layers in halves, and layers of all forms. */
static void check_device(stack *s, const golden *g, hearth_runtime *alone, hearth_runtime *runtime)
{
    hearth_counts wanted[MOST_LAYERS], seen[MOST_LAYERS];
    s->runtime = alone;
    float *want = read_placed(s, g, NULL, HEARTH_MODE_PREDICTED, 1, NULL, wanted);
    s->runtime = runtime;
    placed_shape shape = shape_of(s, HEARTH_MODE_PREDICTED);
    shape.threshold = s->model->tune->layers[0].predictor.threshold;
    for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++)
        for (size_t piece = 1; piece <= MOST_FEED; piece += MOST_FEED - 1) {
            char *json = mixed_placement(&shape, first, 5 + (uint32_t)first);
            float *got = read_placed(s, g, json, HEARTH_MODE_PREDICTED, piece, NULL, seen);
            expect_same_counts(seen, wanted, s->info.layer_count, json);
            expect_close_logits(got, want, g, json);
            free(json);
        }
    free(want);
}

static void devices_agree(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    hearth_runtime *alone = open_runtime(NULL, 2);
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 2);
        for (size_t k = 0; k < NAMES; k++) {
            golden g;
            stack s;
            golden_load(&g, names[k]);
            open_model(&s, names[k], PREDICTOR_LOW_RANK);
            check_device(&s, &g, alone, runtime);
            close_model(&s);
            golden_free(&g);
        }
        hearth_runtime_destroy(runtime);
    }
    hearth_runtime_destroy(alone);
}

/* Neurons that nobody computes, here every other one, whole experts among them, add nothing: as if down had zeros. */
static void neurons_left_out(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < NAMES; i++) {
        golden g;
        stack s;
        golden_load(&g, names[i]);
        open_model(&s, names[i], PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        char json[4096];
        size_t length = (size_t)snprintf(json, sizeof json,
                                         "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\","
                                         "\"layers\":[");
        for (uint32_t l = 0; l < s.info.layer_count; l++) {
            uint32_t f = s.model->layers[l].ffn.neuron_count, each = s.model->layers[l].ffn.expert_neurons;
            /* of the first expert half, of the second nothing, the others whole */
            length += (size_t)snprintf(json + length, sizeof json - length,
                                       "%s{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[{\"side\":\"cpu\","
                                       "\"neurons\":[[0,%u],[%u,%u]]},{\"side\":\"nobody\",\"neurons\":[[%u,%u]]}]}",
                                       l ? "," : "", each / 2, 2 * each, f, each / 2, 2 * each);
        }
        snprintf(json + length, sizeof json - length, "]}");
        float *batch = read_placed(&s, &g, json, HEARTH_MODE_DENSE, 40, NULL, NULL);
        float *single = read_placed(&s, &g, json, HEARTH_MODE_DENSE, 1, NULL, NULL);
        float *whole = read_placed(&s, &g, NULL, HEARTH_MODE_DENSE, 1, NULL, NULL);
        assert_true(relative_l2(single, whole, g.total * g.vocabulary) > 1e-3);
        for (uint32_t l = 0; l < s.info.layer_count; l++) { /* zeros in down of the same neurons */
            model_layer *layer = &s.model->layers[l];
            uint32_t d = s.info.embedding_length, each = layer->ffn.expert_neurons;
            size_t bytes = matrix_bytes(&layer->down);
            assert_int_equal(layer->down.format, FORMAT_F32);
            float *down = malloc(bytes);
            memcpy(down, layer->down.data, bytes);
            for (uint32_t row = 0; row < 2 * d; row++)
                for (uint32_t c = row < d ? each / 2 : 0; c < each; c++)
                    down[(size_t)row * each + c] = 0;
            layer->down.data = down;
        }
        float *zeroed = read_placed(&s, &g, NULL, HEARTH_MODE_DENSE, 1, NULL, NULL);
        expect_close_logits(batch, zeroed, &g, names[i]);
        expect_close_logits(single, zeroed, &g, names[i]);
        for (uint32_t l = 0; l < s.info.layer_count; l++)
            free((void *)(uintptr_t)s.model->layers[l].down.data);
        free(zeroed);
        free(whole);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permissive_is_exact),      cmocka_unit_test(let_through_by_definition),
        cmocka_unit_test(batches_and_tokens_agree), cmocka_unit_test(devices_agree),
        cmocka_unit_test(neurons_left_out),
    };
    return run_group(tests, NULL, NULL);
}
