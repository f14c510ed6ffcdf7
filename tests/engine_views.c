/* engine_views.c - engines of one model with different predictors at the same time: each computes what it would if the model
 * had been opened with its tune file alone. */
#include "../src/engine/engine.h"

#include "tune_files.h"

#define MODEL HEARTH_DATA "/golden/pwri/llama/f32.gguf" /* has predictors of its own */

enum { TOKENS = 6 };

static hearth_engine *open_engine(hearth_runtime *runtime, const hearth_model *model)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_engine *engine;
    must(hearth_placement_create(&placement, model, HEARTH_MODE_PREDICTED, &error), &error);
    hearth_engine_options options = {.placement = placement};
    must(hearth_engine_create(&engine, runtime, model, &options, &error), &error);
    hearth_placement_destroy(placement);
    return engine;
}

/* An engine of the same model that shares the copies of `of` and has the predictors of a bound record. */
static hearth_engine *open_beside(const hearth_engine *of, const tune *t)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_engine *engine;
    must(placement_create(&placement, of->model, t, HEARTH_MODE_PREDICTED, &error), &error);
    must(engine_with_placement(&engine, of, t, placement, &error), &error);
    hearth_placement_destroy(placement);
    return engine;
}

/* Logits [vocabulary] behind a text; freed with free. */
static float *read_text(const hearth_engine *engine)
{
    hearth_error error;
    hearth_session *session;
    hearth_row rows[TOKENS];
    hearth_session_options options = {.context = TOKENS};
    float *logits = malloc(engine->model->hyper.vocabulary_size * sizeof *logits);
    must(hearth_session_create(&session, engine, &options, &error), &error);
    for (int32_t i = 0; i < TOKENS; i++)
        rows[i] = (hearth_row){1 + 7 * i, 0, i == TOKENS - 1};
    must(hearth_session_feed(session, rows, TOKENS, &error), &error);
    must(hearth_session_logits(session, 0, 1, logits, &error), &error);
    hearth_session_destroy(session);
    return logits;
}

static float *read_opened(hearth_runtime *runtime, const char *tune_path)
{
    hearth_error error;
    hearth_model *model;
    hearth_model_options options = {.tune = tune_path};
    must(hearth_model_open(&model, MODEL, &options, &error), &error);
    hearth_engine *engine = open_engine(runtime, model);
    float *logits = read_text(engine);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    return logits;
}

static void same(float *got, const float *want, size_t bytes)
{
    assert_memory_equal(got, want, bytes);
    free(got);
}

static void engines_at_once(void **state)
{
    (void)state;
    need(MODEL);
    hearth_error error;
    hearth_runtime *runtime;
    hearth_model *model, *tuned;
    hearth_model_options untuned = {.tune = ""};
    hearth_runtime_options options = {.threads = 2};
    must(hearth_runtime_create(&runtime, &options, &error), &error);
    must(hearth_model_open(&model, MODEL, &untuned, &error), &error);
    write_made(tune_file, model, MADE_ALL, FORMAT_F32, 8);
    size_t bytes = model->hyper.vocabulary_size * sizeof(float);
    float *own = read_opened(runtime, ""), *other = read_opened(runtime, tune_file);
    assert_memory_not_equal(own, other, bytes);

    hearth_engine *first = open_engine(runtime, model);
    must(hearth_model_with_tune(&tuned, model, tune_file, &error), &error);
    hearth_engine *second = open_engine(runtime, tuned), *third = open_engine(runtime, model);
    same(read_text(first), own, bytes);
    same(read_text(second), other, bytes);
    same(read_text(third), own, bytes);
    hearth_engine_destroy(second);
    hearth_model_close(tuned);
    same(read_text(first), own, bytes);
    tune *t;
    must(tune_open(&t, tune_file, model, &error), &error);
    must(tune_bind(t, model, &error), &error);
    second = open_beside(first, t);
    same(read_text(second), other, bytes);
    same(read_text(third), own, bytes);
    hearth_engine_destroy(second);
    tune_close(t);
    second = open_beside(first, NULL);
    same(read_text(second), own, bytes);
    hearth_engine_destroy(second);
    hearth_engine_destroy(third);
    hearth_engine_destroy(first);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
    free(own);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_at_once),
    };
    return run_group(tests, set_up_tune_files, tear_down);
}
