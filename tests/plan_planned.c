/* plan_planned.c - a model that places itself beside a host device: its answers, its memory, what is asked for, and what
 * goes wrong on the way. No test asserts a time. */
#include "../src/base/memory.h"
#include "../src/engine/engine.h"
#include "../src/plan/report.h"
#include "../src/plan/survey_memory.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

#include "golden.h"
#include "tune_build.h"

#include "cache_folder.h"

#define MODEL   GOLDEN "/pwri/llama/f16.gguf" /* neuron-major, so that layers can be split */
#define STOCK   GOLDEN "/llama/model.gguf"
#define EXPERTS GOLDEN "/nemotron-h-moe/model.gguf"
#define SHARED  GOLDEN "/dots1/model.gguf" /* six experts and a shared one behind a layer without */

/* ------------------------------------------------------------------ helpers */

typedef struct beside {
    hearth_runtime *runtime;
    hearth_model *model;
    machine machine;
} beside;

static void open_beside(beside *b, const char *path)
{
    hearth_error error = {0};
    char problem[MACHINE_PROBLEM];
    hearth_runtime_options options = {.threads = 1, .device = "host"};
    machine_options measure = {.threads = 1, .device = "host", .cache_folder = folder};
    if (machine_measure(&b->machine, &measure, problem, &error) != HEARTH_OK ||
        hearth_runtime_create(&b->runtime, &options, &error) != HEARTH_OK ||
        hearth_model_open(&b->model, path, NULL, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
}

static void close_beside(beside *b)
{
    hearth_model_close(b->model);
    hearth_runtime_destroy(b->runtime);
}

/* Puts a made tune file onto the model of `b`, which becomes *plain: the caller closes both. Returns what the file says. */
static tune *count_neurons(beside *b, hearth_model **plain)
{
    char path[128];
    hearth_error error = {0};
    tune *t = make_tune(b->model, MADE_COUNTS, FORMAT_F16, 8);
    *plain = b->model;
    snprintf(path, sizeof path, "%s/made.tune", folder);
    if (tune_write(path, t, *plain, &error) != HEARTH_OK ||
        hearth_model_with_tune(&b->model, *plain, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return t;
}

static planned_options free_options(void)
{
    return (planned_options){.layers = PLAN_FREE, .neurons = PLAN_FREE, .no_guard = true, .context = 32};
}

static void open_planned(planned *p, const beside *b, const planned_options *options)
{
    hearth_error error = {0};
    if (planned_open(p, b->runtime, b->model, &b->machine, options, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
}

/* Returns the largest difference between the logits of two engines, relative to the largest logit. */
static double difference(const hearth_engine *a, const hearth_engine *b)
{
    const hearth_engine *engines[] = {a, b};
    uint32_t vocabulary = a->model->hyper.vocabulary_size;
    float *logits[2];
    double most = 0, largest = 0;
    for (int i = 0; i < 2; i++) {
        hearth_session *s;
        hearth_session_options options = {.context = 16, .kv = HEARTH_KV_F32};
        const hearth_row rows[] = {{1, 0, false}, {5, 0, false}, {9, 0, true}};
        logits[i] = mem_new_array(vocabulary, sizeof(float));
        assert_non_null(logits[i]);
        assert_int_equal(hearth_session_create(&s, engines[i], &options, NULL), HEARTH_OK);
        assert_int_equal(hearth_session_feed(s, rows, 3, NULL), HEARTH_OK);
        assert_int_equal(hearth_session_logits(s, 0, 1, logits[i], NULL), HEARTH_OK);
        hearth_session_destroy(s);
    }
    for (uint32_t i = 0; i < vocabulary; i++) {
        most = fmax(most, fabs((double)logits[0][i] - (double)logits[1][i]));
        largest = fmax(largest, fabs((double)logits[0][i]));
    }
    mem_free(logits[0]);
    mem_free(logits[1]);
    return most / largest;
}

/* ------------------------------------------------------------------ tests */

/* Some neurons of every layer are asked for on the device: the answer is that of the CPU, and the memory is as planned. */
static void both_sides_give_the_answer(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    open_beside(&b, MODEL);
    planned_options options = free_options();
    options.layers = UINT32_MAX - 1; /* all of them */
    options.neurons = 20;
    options.activations = HEARTH_ACTIVATIONS_F32;
    open_planned(&p, &b, &options);
    assert_ptr_not_equal(p.engine, p.base.engine);
    for (uint32_t i = 0; i < p.plan.layer_count; i++) {
        assert_int_equal(p.engine->placement->layers[i].form, FORM_SPLIT);
        assert_int_equal(layer_neurons(&p.engine->placement->layers[i], PLACEMENT_DEVICE), 20);
    }
    assert_true(difference(p.base.engine, p.engine) < 1e-4);
    hearth_memory memory;
    hearth_session_options session = {.context = 32};
    assert_int_equal(hearth_session_memory(p.engine, &session, &memory, NULL), HEARTH_OK);
    double planned_bytes = p.plan.device.weights + p.plan.device.cache + p.plan.device.scratch;
    assert_true((double)memory.device_bytes <= planned_bytes + p.plan.device.margin);
    assert_true(fabs((double)p.engine->uploaded->bytes - p.plan.device.weights) <= 0.05 * p.plan.device.weights);
    assert_true(p.survey.trial.predicted > 0 && p.survey.trial.seconds > 0);
    planned_close(&p);
    close_beside(&b);
}

/* What `hearth plan` prints is a placement that --place takes. */
static void a_plan_is_a_placement(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    char *text;
    hearth_placement *read;
    hearth_error error = {0};
    open_beside(&b, MODEL);
    planned_options options = free_options();
    options.plan_only = true;
    options.layers = 2;
    options.neurons = 5;
    open_planned(&p, &b, &options);
    assert_ptr_equal(p.engine, p.base.engine);
    assert_int_equal(hearth_placement_print(p.placement, &text, NULL), HEARTH_OK);
    if (hearth_placement_parse(&read, b.model, text, strlen(text), &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_true(placement_needs_device(read));
    hearth_placement_destroy(read);
    hearth_free(text);
    planned_close(&p);
    close_beside(&b);
}

/* The neurons on the device are those that were counted most often, whatever their numbers. */
static void the_hottest_are_on_the_device(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    hearth_model *plain;
    open_beside(&b, MODEL);
    tune *t = count_neurons(&b, &plain);
    planned_options options = free_options();
    options.plan_only = true;
    options.layers = UINT32_MAX - 1;
    options.neurons = 9;
    open_planned(&p, &b, &options);
    assert_string_equal(p.load.density_source, "counted while tuning");
    for (uint32_t i = 0; i < p.plan.layer_count; i++) {
        const layer_placement *l = &p.placement->layers[i];
        const int32_t *counts = t->layers[i].counts;
        int32_t least = INT32_MAX, most = -1;
        for (uint32_t k = 0; k < l->assignment_count; k++)
            for (uint32_t r = 0; r < l->assignments[k].range_count; r++)
                for (uint32_t n = l->assignments[k].ranges[r].begin; n < l->assignments[k].ranges[r].end; n++) {
                    bool there = l->assignments[k].side == PLACEMENT_DEVICE;
                    least = there && counts[n] < least ? counts[n] : least;
                    most = !there && counts[n] > most ? counts[n] : most;
                }
        assert_int_equal(layer_neurons(l, PLACEMENT_DEVICE), 9);
        assert_true(least >= most);
    }
    planned_close(&p);
    close_beside(&b);
    hearth_model_close(plain);
    tune_close(t);
}

/* Returns how many of the neurons [begin, end) of a layer are on the device. */
static uint32_t count_there(const layer_placement *l, uint32_t begin, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->assignment_count; k++)
        for (uint32_t r = 0; l->assignments[k].side == PLACEMENT_DEVICE && r < l->assignments[k].range_count; r++)
            for (uint32_t i = l->assignments[k].ranges[r].begin; i < l->assignments[k].ranges[r].end; i++)
                n += i >= begin && i < end;
    return n;
}

/* Returns how many experts go before one: by the counts of their neurons, then by number. */
static uint32_t rank_of(const ffn_shape *f, const int32_t *counts, uint32_t expert)
{
    uint32_t rank = 0;
    int64_t sums[16] = {0};
    for (uint32_t i = 0; i < ffn_routed(f); i++)
        sums[i / f->expert_neurons] += counts[i];
    for (uint32_t e = 0; e < f->router.expert_count; e++)
        rank += sums[e] > sums[expert] || (e < expert && sums[e] == sums[expert]);
    return rank;
}

/* Experts stay as the file stores them: each is on one side, the shared one goes first, then those that are chosen most often, or
 * else the first ones. Neurons that make no whole expert are not given to the device. */
static void experts_are_whole(void **state)
{
    (void)state;
    for (int counted = 0; counted < 2; counted++) {
        beside b;
        planned p = {0};
        hearth_model *plain = NULL;
        open_beside(&b, SHARED);
        tune *t = counted ? count_neurons(&b, &plain) : NULL;
        planned_options options = free_options();
        options.mode = HEARTH_MODE_DENSE;
        options.layers = UINT32_MAX - 1;
        options.neurons = 120; /* of 32 each: the shared one, two others, and 24 too few for a third */
        options.activations = HEARTH_ACTIVATIONS_F32;
        open_planned(&p, &b, &options);
        assert_int_equal(p.engine->placement->layers[0].form, FORM_DEVICE); /* 96 neurons */
        for (uint32_t i = 1; i < p.plan.layer_count; i++) {
            const ffn_shape *f = &b.model->layers[i].ffn;
            const layer_placement *l = &p.engine->placement->layers[i];
            assert_int_equal(layer_neurons(l, PLACEMENT_DEVICE), 96);
            assert_int_equal(count_there(l, ffn_routed(f), f->neuron_count), 32);
            for (uint32_t e = 0; e < f->router.expert_count; e++) {
                bool there = (counted ? rank_of(f, t->layers[i].counts, e) : e) < 2;
                assert_int_equal(count_there(l, e * 32, (e + 1) * 32), there ? 32 : 0);
            }
        }
        assert_int_equal(hearth_engine_own_bytes(p.engine), 0);
        assert_true(difference(p.base.engine, p.engine) < 1e-4);
        assert_true(fabs((double)p.engine->uploaded->bytes - p.plan.device.weights) <= 0.05 * p.plan.device.weights);
        planned_close(&p);
        close_beside(&b);
        hearth_model_close(plain);
        tune_close(t);
    }
}

static void no_memory_leaves_it_on_the_cpu(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    hearth_error error = {0};
    open_beside(&b, MODEL);
    planned_options options = free_options();
    options.device_bytes = 1;
    open_planned(&p, &b, &options);
    assert_false(p.plan.uses_device);
    assert_ptr_equal(p.engine, p.base.engine);
    planned_close(&p);
    options.layers = 1;
    options.must_use_device = true;
    assert_int_equal(planned_open(&p, b.runtime, b.model, &b.machine, &options, &error), HEARTH_NO_MEMORY);
    assert_null(p.engine);
    close_beside(&b);
}

/* Networks of a stock file are on one side whole; mixers, networks and experts are layers of their own kinds. */
static void other_models_are_planned(void **state)
{
    (void)state;
    static const char *const paths[] = {STOCK, EXPERTS};
    for (size_t i = 0; i < 2; i++) {
        beside b;
        planned p = {0};
        open_beside(&b, paths[i]);
        planned_options options = free_options();
        options.layers = UINT32_MAX - 1;
        options.activations = HEARTH_ACTIVATIONS_F32;
        open_planned(&p, &b, &options);
        assert_true(difference(p.base.engine, p.engine) < 1e-4);
        for (uint32_t k = 0; k < p.plan.layer_count; k++)
            assert_int_not_equal(p.engine->placement->layers[k].form, FORM_HOST);
        planned_close(&p);
        close_beside(&b);
    }
}

static void damage(const char *path)
{
    FILE *f = strstr(path, "survey-") ? fopen(path, "r+") : NULL;
    if (!f)
        return;
    fseek(f, -3, SEEK_END);
    fputs("#", f);
    fclose(f);
}

/* Everything is measured once; a damaged file is as if there were none. */
static void surveys_are_stored(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    open_beside(&b, MODEL);
    planned_options options = free_options();
    options.folder = folder;
    char key[sizeof p.survey.key];
    open_planned(&p, &b, &options);
    memcpy(key, p.survey.key, sizeof key);
    survey_remember(&p.survey, folder); /* also those of a busy machine, which are not stored by themselves */
    planned_close(&p);
    open_planned(&p, &b, &options);
    assert_true(p.survey.remembered);
    assert_string_equal(p.survey.key, key);
    p.survey.scratch_bytes = 0; /* made where no layer fitted on the device */
    survey_remember(&p.survey, folder);
    planned_close(&p);
    open_planned(&p, &b, &options);
    assert_false(p.survey.remembered);
    assert_true(p.survey.scratch_bytes > 0);
    survey_remember(&p.survey, folder);
    planned_close(&p);
    cache_folder_each(damage);
    open_planned(&p, &b, &options);
    assert_false(p.survey.remembered);
    survey_forget(&p.survey, folder);
    survey same = {.layer_count = p.survey.layer_count, .layers = p.survey.layers};
    assert_false(survey_recall(&same, folder, p.survey.key));
    planned_close(&p);
    close_beside(&b);
}

/* Where a run is much slower than predicted, the next one measures again. */
static void wrong_plans_are_forgotten(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    open_beside(&b, MODEL);
    planned_options options = free_options();
    open_planned(&p, &b, &options);
    double at = p.request.cached, seconds = planned_seconds(&p, at);
    assert_false(planned_check(&p, seconds * 1.2, at, folder));
    survey_remember(&p.survey, folder);
    survey same = {.layer_count = p.survey.layer_count, .layers = p.survey.layers};
    assert_true(survey_recall(&same, folder, p.survey.key));
    assert_true(planned_check(&p, seconds * 1.3, at, folder));
    assert_false(survey_recall(&same, folder, p.survey.key));
    assert_true(planned_check(&p, seconds * 0.7, at, folder)); /* too fast is wrong, too */
    planned_close(&p);
    close_beside(&b);
}

/* Stores a survey by which the plan uses the device, and what came of trying it; returns what then runs. */
static planned_use use_after(const beside *b, double cpu, double layers)
{
    planned p = {0};
    planned_options options = free_options();
    options.folder = folder;
    open_planned(&p, b, &options);
    for (uint32_t i = 0; i < p.load.layer_count;
         i++) { /* a CPU so slow that everything but a split goes away from it */
        survey_layer *l = &p.survey.layers[i];
        if (p.load.layers[i].kind == i)
            *l = (survey_layer){.cpu_mixer = 1,
                                .cpu_network = 0.01,
                                .split_cpu = 0.002,
                                .split_device = 0.006,
                                .device_mixer = 1e-4,
                                .device_network = 0.0095,
                                .exchange = 1e-5};
    }
    for (int k = 0; k < COST_TERMS; k++)
        p.survey.ratios[k] = 1;
    cost_model cost;
    plan made;
    assert_int_equal(cost_assume(&cost, &p.machine, 0, &p.load, NULL), HEARTH_OK);
    survey_apply(&p.survey, &p.load, &cost);
    assert_int_equal(plan_make(&made, &p.load, &cost, &p.request, NULL), HEARTH_OK);
    assert_true(made.uses_device);
    p.survey.trial = (survey_trial){
        .plan_hash = made.hash, .predicted = made.seconds, .seconds = 1, .cpu_seconds = cpu, .layers_seconds = layers};
    survey_remember(&p.survey, folder);
    plan_free(&made);
    cost_free(&cost);
    planned_close(&p);
    open_planned(&p, b, &options);
    assert_true(p.survey.remembered);
    planned_use use = p.use;
    assert_int_equal(placement_needs_device(p.placement), use != USES_CPU);
    assert_int_equal(p.own != NULL, use != USES_CPU);
    plan_view v = plan_view_of(&p);
    buffer text = {0};
    assert_true(plan_print(&text, &v) && buffer_put(&text, "", 1));
    assert_int_equal(strstr(text.data, "which was faster when tried") != NULL, use != USES_PLAN);
    buffer_free(&text);
    survey_forget(&p.survey, folder);
    planned_close(&p);
    return use;
}

static void what_was_fastest_is_used(void **state)
{
    (void)state;
    beside b;
    open_beside(&b, MODEL);
    assert_int_equal(use_after(&b, 2, 3), USES_PLAN);
    assert_int_equal(use_after(&b, 0.5, 3), USES_CPU);
    assert_int_equal(use_after(&b, 2, 0.5), USES_LAYERS);
    assert_int_equal(use_after(&b, 0.4, 0.5), USES_CPU);
    assert_int_equal(use_after(&b, 0.98, 3), USES_PLAN); /* no more than noise */
    close_beside(&b);
}

/* Ratios follow what was achieved, within limits, and small terms are left alone. */
static void constants_follow_what_was_achieved(void **state)
{
    (void)state;
    survey s = {0};
    double terms[COST_TERMS] = {0};
    for (int k = 0; k < COST_TERMS; k++)
        s.ratios[k] = 1;
    terms[COST_CPU_NEURONS] = 0.1;
    terms[COST_DEVICE_NEURONS] = 0.1;
    terms[COST_DEVICE_MIXERS] = 0.1;
    terms[COST_HEAD] = 1e-5;
    s.trial.terms[COST_CPU_NEURONS] = 0.2;
    s.trial.terms[COST_DEVICE_NEURONS] = 10;
    s.trial.terms[COST_DEVICE_MIXERS] = 0.01;
    s.trial.terms[COST_HEAD] = 1;
    survey_fit(&s, terms, false);
    assert_true(fabs(s.ratios[COST_CPU_NEURONS] - 2) < 1e-12);
    assert_true(fabs(s.ratios[COST_DEVICE_NEURONS] - SURVEY_RATIO_MOST) < 1e-12);
    assert_true(fabs(s.ratios[COST_DEVICE_MIXERS] - 1 / SURVEY_RATIO_MOST) < 1e-12);
    assert_true(fabs(s.ratios[COST_HEAD] - 1) < 1e-12);
    /* Where layers are split, it is chance which side was the later one. */
    s.ratios[COST_CPU_NEURONS] = s.ratios[COST_DEVICE_NEURONS] = 1;
    terms[COST_DEVICE_NEURONS] = 0;
    s.trial.terms[COST_CPU_NEURONS] = 0.07;
    s.trial.terms[COST_DEVICE_NEURONS] = 0.05;
    survey_fit(&s, terms, true);
    assert_true(fabs(s.ratios[COST_CPU_NEURONS] - 1.2) < 1e-12);
    assert_true(fabs(s.ratios[COST_DEVICE_NEURONS] - 1.2) < 1e-12);
}

static bool stop_at(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    return --*(int *)user > 0;
}

static void cancelled_at_any_report(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    hearth_status status = HEARTH_CANCELLED;
    long live = mem_live();
    open_beside(&b, MODEL);
    for (int n = 1; status == HEARTH_CANCELLED; n++) {
        int left = n;
        planned_options options = free_options();
        options.layers = 3;
        options.neurons = 4;
        options.progress = (hearth_progress){stop_at, &left};
        status = planned_open(&p, b.runtime, b.model, &b.machine, &options, NULL);
        assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
        assert_true(n < 1000);
    }
    planned_close(&p);
    close_beside(&b);
    assert_int_equal(mem_live(), live);
}

static void memory_runs_out(void **state)
{
    (void)state;
    beside b;
    planned p = {0};
    open_beside(&b, MODEL);
    long live = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n = n < 60 ? n + 1 : n + n / 8) {
        planned_options options = free_options();
        options.layers = 3;
        options.neurons = 4;
        mem_fail_at(n);
        status = planned_open(&p, b.runtime, b.model, &b.machine, &options, NULL);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        if (status == HEARTH_OK)
            planned_close(&p);
        assert_int_equal(mem_live(), live);
        assert_true(n < 1000000);
    }
    close_beside(&b);
}

/* A program that uses hearth.h gets the same. */
static void through_the_library(void **state)
{
    (void)state;
    beside b;
    hearth_plan *made;
    char *text, *json;
    hearth_error error = {0};
    open_beside(&b, MODEL);
    hearth_plan_options options = {.cache_folder = folder, .context = 32};
    if (hearth_plan_create(&made, b.runtime, b.model, &options, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_ptr_equal(hearth_engine_model(hearth_plan_engine(made)), b.model);
    assert_true(hearth_plan_seconds(made) > 0);
    assert_int_equal(hearth_plan_describe(made, &text, &json, &error), HEARTH_OK);
    assert_non_null(strstr(text, "\npredicted: "));
    json_t *root = json_loads(json, 0, NULL);
    assert_non_null(root);
    assert_non_null(json_object_get(json_object_get(root, "placement"), "layers"));
    assert_true(json_real_value(json_object_get(json_object_get(root, "predicted"), "token_seconds")) > 0);
    json_decref(root);
    hearth_free(text);
    hearth_free(json);
    assert_true(hearth_plan_check(made, hearth_plan_seconds(made) * 2, 16));
    hearth_plan_destroy(made);
    close_beside(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_give_the_answer),
        cmocka_unit_test(a_plan_is_a_placement),
        cmocka_unit_test(the_hottest_are_on_the_device),
        cmocka_unit_test(experts_are_whole),
        cmocka_unit_test(no_memory_leaves_it_on_the_cpu),
        cmocka_unit_test(other_models_are_planned),
        cmocka_unit_test(surveys_are_stored),
        cmocka_unit_test(what_was_fastest_is_used),
        cmocka_unit_test(constants_follow_what_was_achieved),
        cmocka_unit_test(wrong_plans_are_forgotten),
        cmocka_unit_test(cancelled_at_any_report),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(through_the_library),
    };
    return run_group(tests, cache_folder_make, cache_folder_remove);
}
