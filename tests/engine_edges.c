/* engine_edges.c - the public functions given what they cannot use: each has the effect that hearth.h says. */
#include "../src/base/error.h"

#include "golden.h"

#define MODEL HEARTH_DATA "/golden/llama-relu/model.gguf"

static void expect(hearth_status want, hearth_status got, const hearth_error *error, const char *fragment)
{
    if (got != want || !strstr(error->text, fragment))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)got, error->text, (int)want, fragment);
}

/* Numbers that are none of an enumeration have a name all the same. */
static void names(void **state)
{
    (void)state;
    static const int wrong[] = {-1, HEARTH_MODE_COUNT, 1000000, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_string_equal(hearth_mode_name((hearth_mode)wrong[i]), "unknown");
    assert_string_equal(hearth_mode_name(HEARTH_MODE_AUTO), "auto");
    assert_string_equal(hearth_mode_name(HEARTH_MODE_PRUNED), "pruned");
    assert_string_equal(hearth_status_text((hearth_status)-1), "unknown status");
    assert_string_equal(hearth_status_text((hearth_status)99), "unknown status");
    assert_string_equal(hearth_stop_text((hearth_stop)-1), "unknown");
    assert_string_equal(hearth_stop_text((hearth_stop)99), "unknown");
}

/* What may be NULL does what the defaults do, and destroying nothing does nothing. */
static void nulls(void **state)
{
    (void)state;
    hearth_model_close(NULL);
    hearth_runtime_destroy(NULL);
    hearth_engine_destroy(NULL);
    hearth_session_destroy(NULL);
    hearth_placement_destroy(NULL);
    hearth_checkpoint_destroy(NULL);
    hearth_sampler_destroy(NULL);
    hearth_answer_destroy(NULL);
    hearth_detokenizer_destroy(NULL);
    hearth_free(NULL);

    hearth_model *model;
    hearth_error error;
    expect(HEARTH_INVALID, hearth_model_open(&model, NULL, NULL, &error), &error, "path is NULL");
    expect(HEARTH_INVALID, hearth_model_open(&model, "", NULL, &error), &error, "path is empty");
    assert_int_equal(hearth_model_open(&model, NULL, NULL, NULL), HEARTH_INVALID); /* nobody wants to know */

    /* Two samplers, one with the defaults named, choose alike. */
    enum { TOKENS = 100, DRAWS = 50 };
    float logits[TOKENS];
    hearth_sampler *none, *named;
    const hearth_sampling defaults = hearth_sampling_default();
    for (int i = 0; i < TOKENS; i++)
        logits[i] = (float)(i * 37 % TOKENS) / 30;
    stack_check(hearth_sampler_create(&none, NULL, TOKENS, &error), &error);
    stack_check(hearth_sampler_create(&named, &defaults, TOKENS, &error), &error);
    for (int i = 0; i < DRAWS; i++)
        assert_int_equal(hearth_sampler_pick(none, logits), hearth_sampler_pick(named, logits));
    hearth_sampler_destroy(none);
    hearth_sampler_destroy(named);
    expect(HEARTH_INVALID, hearth_sampler_create(&none, NULL, 0, &error), &error, "vocabulary_size is 0");
}

/* Tokens that do not exist, and logits that are not numbers. */
static void sampling(void **state)
{
    (void)state;
    enum { TOKENS = 4 };
    hearth_sampling greedy = hearth_sampling_default();
    hearth_sampler *sampler;
    greedy.temperature = 0;
    greedy.repeat_penalty = 2;
    assert_int_equal(hearth_sampler_create(&sampler, &greedy, TOKENS, NULL), HEARTH_OK);
    for (int32_t token = -2; token < TOKENS + 2; token++)
        if (token < 0 || token >= TOKENS)
            hearth_sampler_accept(sampler, token);
    assert_int_equal(hearth_sampler_pick(sampler, (float[TOKENS]){1, 3, 2, 0}), 1);
    assert_int_equal(hearth_sampler_pick(sampler, (float[TOKENS]){1, NAN, 2, 0}), 2);
    assert_int_equal(hearth_sampler_pick(sampler, (float[TOKENS]){1, 3, INFINITY, 0}), 2);
    assert_int_equal(hearth_sampler_pick(sampler, (float[TOKENS]){NAN, NAN, -INFINITY, NAN}), 0);
    hearth_sampler_destroy(sampler);

    const float even[TOKENS] = {5, 5, 5, 5}, one[TOKENS] = {NAN, 1, -INFINITY, NAN};
    assert_true(fabs(hearth_log_probability(even, TOKENS, 2) + log(4)) < 1e-12);
    assert_true(hearth_log_probability(one, TOKENS, 1) == 0);
    assert_true(hearth_log_probability(one, TOKENS, 0) == -INFINITY);
    assert_true(hearth_log_probability(even, TOKENS, -1) == -INFINITY);
    assert_true(hearth_log_probability(even, TOKENS, TOKENS) == -INFINITY);
    assert_true(hearth_log_probability(even, 0, 0) == -INFINITY);
}

/* Engines, placements and sessions. */
static void engines(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    stack_open(&s, MODEL, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = 8});
    hearth_engine *engine = NULL;
    hearth_engine_options options = {.activations = (hearth_activations)7};
    expect(HEARTH_INVALID, hearth_engine_create(&engine, s.runtime, s.model, &options, &e), &e, "activations 7");
    assert_null(engine);

    hearth_placement *placement = NULL;
    expect(HEARTH_INVALID, hearth_placement_create(&placement, s.model, (hearth_mode)-1, &e), &e, "mode -1");
    expect(HEARTH_INVALID, hearth_placement_create(&placement, s.model, HEARTH_MODE_COUNT, &e), &e, "is not known");
    assert_null(placement);
    assert_int_equal(hearth_placement_create(&placement, s.model, HEARTH_MODE_PRUNED, NULL), HEARTH_OK);
    char *before, *after;
    hearth_placement_set_threshold(placement, 0.25f);
    assert_int_equal(hearth_placement_print(placement, &before, NULL), HEARTH_OK);
    hearth_placement_set_threshold(placement, NAN);
    hearth_placement_set_threshold(placement, INFINITY);
    assert_int_equal(hearth_placement_print(placement, &after, NULL), HEARTH_OK);
    assert_string_equal(after, before);
    assert_non_null(strstr(after, "\"threshold\":0.25"));
    hearth_free(before);
    hearth_free(after);
    hearth_placement_destroy(placement);

    hearth_session *session = NULL;
    hearth_session_options kv = {.kv = (hearth_kv)9};
    hearth_memory memory;
    expect(HEARTH_INVALID, hearth_session_create(&session, s.engine, &kv, &e), &e, "kv format 9");
    expect(HEARTH_INVALID, hearth_session_memory(s.engine, &kv, &memory, &e), &e, "kv format 9");
    assert_null(session);
    assert_int_equal(hearth_session_feed(s.session, NULL, 0, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_logits(s.session, 0, 0, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_length(s.session, 0), 0);
    assert_int_equal(hearth_session_length(s.session, 1), 0);
    assert_int_equal(hearth_session_length(s.session, UINT32_MAX), 0);
    hearth_session_observe(s.session, NULL);
    hearth_counts counts;
    expect(HEARTH_INVALID, hearth_session_counts(s.session, s.info.layer_count, &counts, &e), &e, "counts of layer");
    stack_close(&s);
}

/* Text and answers. */
static void answers(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    int32_t *ids = NULL;
    size_t count = 7, size;
    const char *text;
    hearth_stop stop;
    stack_open(&s, HEARTH_MODELS "/stories-relu-q8_0.gguf", 1, HEARTH_ACTIVATIONS_AUTO,
               (hearth_session_options){.context = 16});
    assert_int_equal(hearth_tokenize(s.model, NULL, 0, 0, &ids, &count, NULL), HEARTH_OK);
    assert_int_equal(count, 0);
    hearth_free(ids);
    assert_false(hearth_token_ends_answer(s.model, -1));
    assert_false(hearth_token_ends_answer(s.model, INT32_MAX));
    hearth_answer *answer;
    assert_int_equal(hearth_answer_create(&answer, s.model, NULL, NULL), HEARTH_OK);
    expect(HEARTH_INVALID, hearth_answer_push(answer, -1, &text, &size, &stop, &e), &e, "-1");
    expect(HEARTH_INVALID, hearth_answer_push(answer, INT32_MAX, &text, &size, &stop, &e), &e, "2147483647");
    hearth_answer_destroy(answer);

    hearth_sampler *sampler, *other;
    hearth_result result;
    const int32_t prompt[] = {1, 403};
    const hearth_answer_options three = {.max_tokens = 3, .ignore_end = true};
    assert_int_equal(hearth_sampler_create(&sampler, NULL, s.info.vocabulary_size, NULL), HEARTH_OK);
    assert_int_equal(hearth_sampler_create(&other, NULL, s.info.vocabulary_size + 1, NULL), HEARTH_OK);
    expect(HEARTH_INVALID, hearth_generate(s.session, 0, prompt, 0, sampler, NULL, NULL, NULL, &result, &e), &e,
           "empty");
    expect(HEARTH_INVALID, hearth_generate(s.session, 1, prompt, 2, sampler, NULL, NULL, NULL, &result, &e), &e,
           "sequence 1");
    expect(HEARTH_INVALID, hearth_generate(s.session, 0, (int32_t[]){-5}, 1, sampler, NULL, NULL, NULL, &result, &e),
           &e, "token -5");
    expect(HEARTH_INVALID, hearth_generate(s.session, 0, prompt, 2, other, NULL, NULL, NULL, &result, &e), &e,
           "sampling: is for 513 tokens, the model has 512");
    assert_int_equal(hearth_session_length(s.session, 0), 0);
    stack_check(hearth_generate(s.session, 0, prompt, 2, sampler, &three, NULL, NULL, NULL, &e), &e);
    assert_int_equal(hearth_session_length(s.session, 0), 5);
    hearth_sampler_destroy(sampler);
    hearth_sampler_destroy(other);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),   cmocka_unit_test(nulls),   cmocka_unit_test(sampling),
        cmocka_unit_test(engines), cmocka_unit_test(answers),
    };
    return run_group(tests, NULL, NULL);
}
