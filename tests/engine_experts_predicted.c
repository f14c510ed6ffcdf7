/* engine_experts_predicted.c - predictors of experts: made-up ones in golden models with experts. What lets everything
 * through is exact to the byte; what lets some through is what the definition says, in double precision; and batches,
 * single tokens and devices agree, as do engines that leave neurons out. */
#include "made_predictors.h"
#include "modes.h"
#include "placements.h"

/* Float32 throughout; between orders of additions. */
static const double bound = 1e-5;

enum { MOST_FEED = 40 };

/* GLM has layers without experts, groups, a correction and a shared expert; with ReLU it has zeros, too. The experts of the
 * last one read and write vectors of another width, and some of its layers are mixers alone. */
static const struct {
    const char *name, *activation;
} models[] = {{"smallthinker", NULL}, {"mixtral-drelu", NULL}, {"glm4-moe", "relu"}, {"nemotron-h-latent", NULL}};
#define MODELS (sizeof models / sizeof *models)

/* ------------------------------------------------------------------ a model with predictors */

static void open_model(stack *s, size_t i, predictor_kind kind)
{
    hearth_error error;
    char path[600];
    hearth_model_options options = {.ffn_activation = models[i].activation, .tune = ""};
    *s = (stack){0};
    golden_path(path, sizeof path, models[i].name, "model.gguf");
    stack_check(hearth_model_open(&s->model, path, &options, &error), &error);
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
    for (uint32_t r = 0; r < MADE_RANK; r++) {
        double hidden = 0;
        for (uint32_t c = 0; c < p->fc1.columns; c++)
            hidden += (double)fc1[r * p->fc1.columns + c] * (double)input[c];
        score += fmax(hidden, 0) * (double)fc2[neuron * MADE_RANK + r];
    }
    return score;
}

/* The expert of a neuron; the shared one has the number behind the last. */
static uint32_t expert_of(const ffn_shape *shape, uint32_t neuron)
{
    return neuron < ffn_routed(shape) ? neuron / shape->expert_neurons : ffn_experts(shape);
}

static uint32_t used_experts(const ffn_shape *shape)
{
    return shape->router.expert_count > 0 ? shape->router.used : 1;
}

/* Whether a neuron of the expert fired in mode exact, in the first layer at this position. */
static bool fires(const watch *w, const hearth_observation *o, uint32_t expert)
{
    const ffn_shape *shape = &w->model->layers[0].ffn;
    bool fired = false;
    for (uint32_t i = 0; i < shape->neuron_count; i++)
        fired |= expert_of(shape, i) == expert && w->exact[(size_t)o->position * shape->neuron_count + i] != 0;
    return fired;
}

static void see(void *user, const hearth_observation *o)
{
    watch *w = user;
    const ffn_shape *shape = &w->model->layers[o->layer].ffn;
    uint32_t f = shape->neuron_count, experts = ffn_experts(shape), used = 0;
    uint8_t *listed = calloc(f, 1), *chosen = calloc(experts + 1, 1);
    float *exact = w->exact + (size_t)o->position * f;
    for (size_t i = 0; i < o->neuron_count; i++) {
        uint32_t neuron = o->neurons[i];
        listed[neuron] = chosen[expert_of(shape, neuron)] = 1;
        if (o->layer == 0 && w->predicted) /* only experts of which something fires in mode exact */
            assert_true(fires(w, o, expert_of(shape, neuron)));
        if (o->layer == 0 && !w->predicted)
            exact[neuron] = o->activations[i];
        else if (o->layer == 0) /* before it, nothing was left out */
            assert_true(fabs((double)(o->activations[i] - exact[neuron])) <= bound * (1 + fabs((double)exact[neuron])));
    }
    const learned_predictor *p = &w->model->tune->layers[o->layer].predictor;
    for (uint32_t e = 0; e < experts; e++)
        used += chosen[e];
    assert_true(used <= used_experts(shape));
    for (uint32_t i = 0; w->predicted && i < f; i++) {
        double above = score_of(p, p->reads_normed ? o->ffn_input : o->residual, i) - (double)p->threshold;
        if (chosen[expert_of(shape, i)] && fabs(above) > bound)
            assert_int_equal(listed[i], above > 0);
    }
    w->let += o->neuron_count;
    w->rows += used_experts(shape) * (size_t)shape->expert_neurons + shape->shared_neurons; /* neurons that could be */
    free(listed);
    free(chosen);
}

/* ------------------------------------------------------------------ tests */

static void permissive_is_exact(void **state)
{
    (void)state;
    static const predictor_kind kinds[] = {PREDICTOR_LOW_RANK, PREDICTOR_COARSE};
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < MODELS * 2; i++) {
        golden g;
        stack s;
        golden_load(&g, models[i / 2].name);
        open_model(&s, i / 2, kinds[i % 2]);
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
    for (size_t i = 0; i < MODELS; i++) {
        golden g;
        stack s;
        golden_load(&g, models[i].name);
        open_model(&s, i, PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        watch w = {.model = s.model, .exact = calloc(g.total * s.info.neuron_count, sizeof(float))};
        hearth_observer observer = {.see = see, .user = &w};
        free(read_placed(&s, &g, NULL, HEARTH_MODE_EXACT, 1, &observer, NULL));
        w.predicted = true, w.let = w.rows = 0;
        float *seen = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 1, &observer, NULL);
        double share = (double)w.let / (double)w.rows;
        print_message("%s: %.2f of the chosen experts' neurons are let through\n", models[i].name, share);
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
    for (size_t i = 0; i < MODELS * 2; i++) {
        golden g;
        stack s;
        hearth_counts single[MOST_LAYERS], batch[MOST_LAYERS];
        golden_load(&g, models[i / 2].name);
        open_model(&s, i / 2, kinds[i % 2]);
        s.runtime = runtime;
        float *want = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 1, NULL, single);
        float *got = read_placed(&s, &g, NULL, HEARTH_MODE_PREDICTED, 40, NULL, batch);
        expect_same_counts(batch, single, s.info.layer_count, models[i / 2].name);
        expect_close_logits(got, want, &g, models[i / 2].name);
        free(want);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

/* Reads the text `rounds` times, whole and token by token in turn, at a recall (0: in mode exact), and adds up the counts of the
 * first layer with neurons, which reads the same in either. */
static hearth_counts read_often(stack *s, const golden *g, double recall, unsigned rounds)
{
    hearth_placement *p;
    char *json;
    hearth_counts counts;
    hearth_mode mode = recall > 0 ? HEARTH_MODE_PREDICTED : HEARTH_MODE_EXACT;
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_check(hearth_placement_create(&p, s->model, mode, NULL), NULL);
    if (recall > 0)
        stack_check(hearth_placement_set_recall(p, recall, NULL), NULL);
    stack_check(hearth_placement_print(p, &json, NULL), NULL);
    open_placed(s, json, mode, true, (hearth_session_options){.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32});
    for (unsigned i = 0; i < rounds; i++) {
        size_t piece = i % 2 ? g->total : 1;
        stack_check(hearth_session_truncate(s->session, 0, 0, NULL), NULL);
        for (size_t at = 0; at < g->total; at += piece)
            stack_feed(s, 0, g->ids + at, piece, logits);
    }
    uint32_t first = 0;
    while (s->model->layers[first].ffn.neuron_count == 0)
        first++;
    assert_int_equal(hearth_session_counts(s->session, first, &counts, NULL), HEARTH_OK);
    close_placed(s);
    hearth_placement_destroy(p);
    hearth_free(json);
    free(logits);
    return counts;
}

/* Active neurons that were let through or probed, of those of mode exact. */
static void a_recall_is_held(void **state)
{
    (void)state;
    enum { PAIRS = 100 };
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < MODELS; i++) {
        golden g;
        stack s;
        golden_load(&g, models[i].name);
        open_model(&s, i, PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        hearth_counts exact = read_often(&s, &g, 0, 2), held = read_often(&s, &g, 0.8, 2 * PAIRS);
        double recall = (double)held.active / ((double)exact.active * PAIRS);
        print_message("%s: recall %.3f, %.2f let through\n", models[i].name, recall,
                      (double)held.computed / ((double)exact.computed * PAIRS));
        assert_true(fabs(recall - 0.8 - 0.2 / 32) < 0.02);
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
        for (size_t k = 0; k < MODELS; k++) {
            golden g;
            stack s;
            golden_load(&g, models[k].name);
            open_model(&s, k, PREDICTOR_LOW_RANK);
            check_device(&s, &g, alone, runtime);
            close_model(&s);
            golden_free(&g);
        }
        hearth_runtime_destroy(runtime);
    }
    hearth_runtime_destroy(alone);
}

/* A placement of the CPU in which nobody computes half of the first expert and the whole second. */
static void print_left_out(const stack *s, const char *selector, char *json, size_t size)
{
    size_t length = (size_t)snprintf(json, size,
                                     "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":"
                                     "\"cpu\",\"layers\":[");
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        const ffn_shape *shape = &s->model->layers[i].ffn;
        uint32_t f = shape->neuron_count, each = shape->expert_neurons;
        if (f == 0) {
            length += (size_t)snprintf(json + length, size - length,
                                       "%s{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[]}", i ? "," : "");
            continue;
        }
        length += (size_t)snprintf(json + length, size - length,
                                   "%s{\"form\":\"host\",\"selector\":\"%s\",\"assignments\":["
                                   "{\"side\":\"cpu\",\"neurons\":",
                                   i ? "," : "", selector);
        length += shape->router.expert_count > 0
                      ? (size_t)snprintf(json + length, size - length,
                                         "[[0,%u],[%u,%u]]},{\"side\":\"nobody\",\"neurons\":[[%u,%u]]}]}", each / 2,
                                         2 * each, f, each / 2, 2 * each)
                      : (size_t)snprintf(json + length, size - length, "[[0,%u]]}]}", f);
    }
    snprintf(json + length, size - length, "]}");
}

/* Puts zeros in down for the same neurons, in a copy. Freed with free_down. */
static void zero_down(stack *s)
{
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        model_layer *l = &s->model->layers[i];
        size_t bytes = matrix_bytes(&l->down), each = l->ffn.expert_neurons;
        size_t width = ffn_expert_width(&l->ffn, s->info.embedding_length);
        if (!l->down.data)
            continue;
        assert_int_equal(l->down.format, FORMAT_F32);
        float *down = malloc(bytes);
        memcpy(down, l->down.data, bytes);
        for (size_t row = 0; l->ffn.router.expert_count > 0 && row < 2 * width; row++)
            for (size_t c = row < width ? each / 2 : 0; c < each; c++)
                down[row * each + c] = 0;
        l->down.data = down;
    }
}

static void free_down(stack *s)
{
    for (uint32_t i = 0; i < s->info.layer_count; i++)
        free((void *)(uintptr_t)s->model->layers[i].down.data);
}

/* Neurons that nobody computes add nothing: as if down had zeros. */
static void neurons_left_out(void **state)
{
    (void)state;
    static const char *const selectors_by_name[] = {"all", "sign"};
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < MODELS * 2; i++) {
        golden g;
        stack s;
        char json[4096];
        hearth_mode mode = i % 2 ? HEARTH_MODE_EXACT : HEARTH_MODE_DENSE;
        golden_load(&g, models[i / 2].name);
        open_model(&s, i / 2, PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        print_left_out(&s, selectors_by_name[i % 2], json, sizeof json);
        float *batch = read_placed(&s, &g, json, mode, 40, NULL, NULL);
        float *single = read_placed(&s, &g, json, mode, 1, NULL, NULL);
        float *whole = read_placed(&s, &g, NULL, mode, 1, NULL, NULL);
        assert_true(relative_l2(single, whole, g.total * g.vocabulary) > 1e-3);
        zero_down(&s);
        float *zeroed = read_placed(&s, &g, NULL, mode, 1, NULL, NULL);
        expect_close_logits(batch, zeroed, &g, models[i / 2].name);
        expect_close_logits(single, zeroed, &g, models[i / 2].name);
        free_down(&s);
        free(zeroed);
        free(whole);
        close_model(&s);
        golden_free(&g);
    }
    hearth_runtime_destroy(runtime);
}

/* Routers that give NaN: whichever experts these are of, the damage is reported, on both sides. A factor so large that
 * shares may be infinite does no harm beside it. */
static void broken_routers(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 2);
    for (size_t i = 0; i < MODELS * 2; i++) {
        stack s;
        open_model(&s, i / 2, PREDICTOR_LOW_RANK);
        s.runtime = runtime;
        uint32_t last = s.info.layer_count - 1;
        float biases[64] = {NAN};
        if (i % 2)
            s.model->layers[last].router_bias = biases;
        else
            s.model->layers[last].ffn.router.scale = 3e38f;
        for (placed_form form = PLACED_HOST; form < PLACED_FORMS; form++)
            for (size_t count = 1; count <= 3; count += 2) {
                placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
                placed_form forms[MOST_LAYERS];
                uint32_t seed = 3;
                for (uint32_t k = 0; k < shape.layers; k++)
                    forms[k] = form;
                char *json = print_placed(&shape, forms, false, false, &seed);
                open_placed(&s, json, HEARTH_MODE_EXACT, true,
                            (hearth_session_options){.context = 64, .output_rows = 4, .kv = HEARTH_KV_F32});
                hearth_error error;
                hearth_row rows[3] = {{1, 0, true}, {2, 0, true}, {3, 0, true}};
                hearth_status status = hearth_session_feed(s.session, rows, count, &error);
                if (!(status == HEARTH_FORMAT || (status == HEARTH_OK && i % 2 == 0)))
                    fail_msg("%s, form %d, %zu rows: status %d", models[i / 2].name, (int)form, count, (int)status);
                close_placed(&s);
                free(json);
            }
        close_model(&s);
    }
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permissive_is_exact),
        cmocka_unit_test(let_through_by_definition),
        cmocka_unit_test(batches_and_tokens_agree),
        cmocka_unit_test(a_recall_is_held),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(neurons_left_out),
        cmocka_unit_test(broken_routers),
    };
    return run_group(tests, NULL, NULL);
}
