/* engine_api.c - what programs of other versions and languages rely on: structs of other sizes, the log, the list of
 * devices, the keys and tokens of a model, and placements that a failure leaves as they were. */
#include "../src/base/memory.h"
#include "../src/model/model.h"
#include "../src/model/tune.h"

#include "golden.h"

#define MODEL   HEARTH_DATA "/golden/llama-relu/model.gguf"
#define STORIES HEARTH_DATA "/models/stories-relu"

enum { CANARY = 0x5a };

static void expect(hearth_status want, hearth_status got, const hearth_error *error, const char *fragment)
{
    if (got != want || !strstr(error->text, fragment))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)got, error->text, (int)want, fragment);
}

/* ------------------------------------------------------------------ structs of other sizes */

/* A struct that may grow ends with its last member: a new one that took the place of padding would not change the size,
 * so that nobody could tell whether a caller's struct has it. */
#define ENDS_WITH(type, last) \
    _Static_assert(offsetof(type, last) + sizeof(((type *)0)->last) == sizeof(type), "padding after the last member")
ENDS_WITH(hearth_runtime_options, log);
ENDS_WITH(hearth_device_info, peak_bytes);
ENDS_WITH(hearth_device_entry, memory_bytes);
ENDS_WITH(hearth_model_options, log);
ENDS_WITH(hearth_model_info, tune_problem);
ENDS_WITH(hearth_engine_options, stream_bytes);
ENDS_WITH(hearth_session_options, spare_sequences);
ENDS_WITH(hearth_memory, device_bytes);
ENDS_WITH(hearth_sampling, seed);
ENDS_WITH(hearth_answer_options, grammar);
ENDS_WITH(hearth_result, accepted_tokens);
ENDS_WITH(hearth_scheduler_options, waiting);
ENDS_WITH(hearth_request, user);
ENDS_WITH(hearth_load, answer_tokens);
ENDS_WITH(hearth_chat_options, variables);

/* A struct as a later version may have it: with one more member. */
typedef struct newer_session_options {
    hearth_session_options known;
    uint64_t later;
} newer_session_options;

typedef struct newer_model_info {
    hearth_model_info known;
    uint64_t later;
} newer_model_info;

static void options_of_other_sizes(void **state)
{
    stack *s = *state;
    hearth_error error;
    hearth_session *session;
    newer_session_options newer = {.known = {.context = 7, .sequences = 3}};

    /* Of an older program: what its struct lacks counts as zero, whatever lies there. */
    hearth_session_options older;
    memset(&older, CANARY, sizeof older);
    older.context = 7;
    older.sequences = 3;
    size_t size = offsetof(hearth_session_options, batch);
    stack_check(hearth_session_create_sized(&session, s->engine, &older, size, &error), &error);
    assert_int_equal(hearth_session_context(session), 7);
    hearth_session_destroy(session);
    expect(HEARTH_INVALID, hearth_session_create_sized(&session, s->engine, &older, sizeof older, &error), &error,
           "kv");

    /* Of a newer one: members that this library does not know must be zero. */
    stack_check(hearth_session_create_sized(&session, s->engine, &newer.known, sizeof newer, &error), &error);
    assert_int_equal(hearth_session_context(session), 7);
    hearth_session_destroy(session);
    newer.later = (uint64_t)1 << 63;
    expect(HEARTH_UNSUPPORTED, hearth_session_create_sized(&session, s->engine, &newer.known, sizeof newer, &error),
           &error, "hearth_session_options: a member is set that hearth " HEARTH_VERSION " does not know");

    /* The same for the other options. NULL is NULL, of whatever size. */
    union {
        char bytes[512];
        hearth_runtime_options runtime;
        hearth_model_options model;
        hearth_engine_options engine;
        hearth_sampling sampling;
        hearth_answer_options answer;
    } large = {.bytes = {0}};
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_sampler *sampler;
    hearth_answer *answer;
    large.bytes[sizeof large - 1] = 1;
    expect(HEARTH_UNSUPPORTED, hearth_runtime_create_sized(&runtime, &large.runtime, sizeof large, &error), &error,
           "hearth_runtime_options");
    expect(HEARTH_UNSUPPORTED, hearth_model_open_sized(&model, MODEL, &large.model, sizeof large, &error), &error,
           "hearth_model_options");
    expect(HEARTH_UNSUPPORTED,
           hearth_engine_create_sized(&engine, s->runtime, s->model, &large.engine, sizeof large, &error), &error,
           "hearth_engine_options");
    expect(HEARTH_UNSUPPORTED, hearth_sampler_create_sized(&sampler, &large.sampling, sizeof large, 10, &error), &error,
           "hearth_sampling");
    expect(HEARTH_UNSUPPORTED, hearth_answer_create_sized(&answer, s->model, &large.answer, sizeof large, &error),
           &error, "hearth_answer_options");
    stack_check(hearth_model_open_sized(&model, MODEL, NULL, sizeof large, &error), &error);
    hearth_model_close(model);
}

static void answers_of_other_sizes(void **state)
{
    stack *s = *state;
    hearth_error error;
    hearth_model_info info, older;
    newer_model_info newer;
    memset(&info, 0, sizeof info);
    memset(&older, CANARY, sizeof older);
    memset(&newer, CANARY, sizeof newer);
    hearth_model_describe(s->model, &info);

    size_t size = offsetof(hearth_model_info, vocabulary_size);
    hearth_model_describe_sized(s->model, &older, size);
    assert_memory_equal(&older, &info, size);
    for (size_t i = size; i < sizeof older; i++)
        assert_int_equal(((const unsigned char *)&older)[i], CANARY);

    hearth_model_describe_sized(s->model, &newer.known, sizeof newer);
    assert_int_equal(newer.later, 0);
    assert_int_equal(newer.known.vocabulary_size, info.vocabulary_size);
    assert_string_equal(newer.known.path, info.path);

    hearth_memory memory, small = {.kv_bytes = CANARY};
    stack_check(hearth_session_memory(s->engine, NULL, &memory, &error), &error);
    stack_check(hearth_session_memory_sized(s->engine, NULL, 0, &small, offsetof(hearth_memory, kv_bytes), &error),
                &error);
    assert_true(small.weight_bytes == memory.weight_bytes && small.kv_bytes == CANARY && memory.kv_bytes > 0);

    hearth_sampling sampling = {.top_k = CANARY};
    hearth_sampling_default_sized(&sampling, offsetof(hearth_sampling, top_k));
    assert_true(sampling.temperature == hearth_sampling_default().temperature && sampling.top_k == CANARY);
}

/* ------------------------------------------------------------------ the log */

typedef struct lines {
    char text[4096];
    unsigned count, warnings;
} lines;

static void remember_line(void *user, hearth_log_level level, const char *text)
{
    lines *l = user;
    assert_null(strchr(text, '\n'));
    assert_true(strlen(l->text) + strlen(text) + 2 < sizeof l->text);
    strcat(l->text, text);
    strcat(l->text, "\n");
    l->count++;
    l->warnings += level == HEARTH_LOG_WARNING;
}

static void logging(void **state)
{
    (void)state;
    static lines said;
    hearth_error error;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_session *session;
    hearth_log to = {remember_line, &said};
    const hearth_session_options two = {.context = 16, .sequences = 2};
    stack_check(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2, .log = to}, &error), &error);
    stack_check(hearth_model_open(&model, MODEL, &(hearth_model_options){.log = to}, &error), &error);
    stack_check(hearth_engine_create(&engine, runtime, model, NULL, &error), &error);
    stack_check(hearth_session_create(&session, engine, &two, &error), &error);
    assert_int_equal(said.count, 4 + said.warnings);
    static const char *const expected[] = {"runtime: 2 threads, CPU level ", MODEL ": llama, relu, ",
                                           "engine: mode exact, guarantee ", "session: 2 sequences of 16 positions"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(said.text, expected[i]))
            fail_msg("no line \"%s\" in\n%s", expected[i], said.text);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

/* ------------------------------------------------------------------ devices */

static void devices(void **state)
{
    (void)state;
    hearth_error error;
    hearth_device_list *list;
    hearth_device_entry entry = {0};
    bool host = false;
    stack_check(hearth_device_list_create(&list, NULL, &error), &error);
    for (size_t i = 0; i < hearth_device_list_count(list); i++) {
        assert_true(hearth_device_list_get(list, i, &entry));
        assert_true(entry.device[0] && (entry.problem ? entry.problem[0] : entry.name[0]));
        host |= strcmp(entry.device, "host") == 0 && !entry.problem && !entry.is_gpu && entry.memory_bytes > 0;
    }
    assert_true(host);
    assert_false(hearth_device_list_get(list, hearth_device_list_count(list), &entry));
    hearth_device_list_destroy(list);
    hearth_device_list_destroy(NULL);
}

/* ------------------------------------------------------------------ keys and tokens */

static void expect_json(const hearth_model *model, const char *key, const char *want)
{
    hearth_error error;
    char *json = NULL;
    stack_check(hearth_model_value(model, key, &json, &error), &error);
    assert_string_equal(json, want);
    hearth_free(json);
}

static void keys(void **state)
{
    stack *s = *state;
    hearth_model_info info;
    hearth_error error;
    char number[16], *json = NULL;
    hearth_model_describe(s->model, &info);
    bool seen = false;
    for (size_t i = 0; i < hearth_model_key_count(s->model); i++) {
        const char *key = hearth_model_key(s->model, i);
        assert_non_null(key);
        seen |= strcmp(key, "general.architecture") == 0;
        stack_check(hearth_model_value(s->model, key, &json, &error), &error);
        assert_true(json[0]);
        hearth_free(json);
    }
    assert_true(seen);
    assert_null(hearth_model_key(s->model, hearth_model_key_count(s->model)));
    expect_json(s->model, "general.architecture", "\"llama\"");
    snprintf(number, sizeof number, "%u", info.layer_count);
    expect_json(s->model, "llama.block_count", number);
    json = number;
    expect(HEARTH_INVALID, hearth_model_value(s->model, "no.such.key", &json, &error), &error,
           "no.such.key: is missing");
    assert_ptr_equal(json, number);

    /* No allocation that fails leaves anything behind. */
    long live = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n++) {
        mem_fail_at(n);
        status = hearth_model_value(s->model, "general.architecture", &json, &error);
        mem_fail_at(-1);
    }
    hearth_free(json);
    assert_int_equal(mem_live(), live);
}

static void tokens(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *model;
    size_t size = 1;
    stack_check(hearth_model_open(&model, STORIES, NULL, &error), &error);

    /* Three of SentencePiece's own, then its bytes; then pieces. */
    static const struct {
        int32_t id;
        const char *text;
        unsigned attributes;
    } expected[] = {{0, "<unk>", HEARTH_TOKEN_UNKNOWN},
                    {1, "<s>", HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_ENDS_ANSWER},
                    {2, "</s>", HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_ENDS_ANSWER},
                    {3 + '\n', "<0x0A>", HEARTH_TOKEN_BYTE}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *text = hearth_token_text(model, expected[i].id, &size);
        assert_int_equal(size, strlen(expected[i].text));
        assert_memory_equal(text, expected[i].text, size);
        assert_int_equal(hearth_token_attributes(model, expected[i].id), expected[i].attributes);
    }
    int32_t *ids;
    size_t count;
    stack_check(hearth_tokenize(model, "Once", 4, 0, &ids, &count, &error), &error);
    const char *first = hearth_token_text(model, ids[0], &size);
    assert_memory_equal(first, "\xe2\x96\x81", 3);
    assert_int_equal(hearth_token_attributes(model, ids[0]), 0);
    hearth_free(ids);
    static const int32_t none[] = {-1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_null(hearth_token_text(model, none[i], &size));
        assert_int_equal(size, 0);
        assert_int_equal(hearth_token_attributes(model, none[i]), 0);
    }
    assert_null(hearth_model_chat_template(model, &size));
    assert_int_equal(size, 0);
    hearth_model_close(model);
}

/* ------------------------------------------------------------------ chat */

#define MESSAGES "[{\"role\": \"user\", \"content\": \"Hi\"}]"

static void conversations(void **state)
{
    const hearth_model *model = ((stack *)*state)->model;
    hearth_error error = {0};
    hearth_chat_options o = {.template_name = "chatml"};
    char *text = NULL;
    size_t size, count, expected_count;
    int32_t *ids, *expected;
    static const char rendered[] = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    stack_check(hearth_chat_render(model, MESSAGES, &o, &text, &size, &ids, &count, &error), &error);
    assert_string_equal(text, rendered);
    assert_int_equal(size, sizeof rendered - 1);
    /* BOS, which the template does not write, comes first, and only once. */
    stack_check(hearth_tokenize(model, text, size, HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL, &expected,
                                &expected_count, &error),
                &error);
    assert_int_equal(count, expected_count);
    assert_memory_equal(ids, expected, count * sizeof *ids);
    hearth_free(expected);
    hearth_free(text);
    hearth_free(ids);
    o = (hearth_chat_options){.template_text = "{{ bos_token }}{{ n }}{{ tools[0].name }}{{ messages[0].content }}"
                                               "{% if add_generation_prompt %}!{% endif %}",
                              .variables = "{\"n\": 5}",
                              .tools = "[{\"name\": \"look\"}]",
                              .no_answer = true};
    stack_check(hearth_chat_render(model, MESSAGES, &o, &text, &size, &ids, &count, &error), &error);
    assert_string_equal(text, "<s>5lookHi");
    assert_true(count > 1 && ids[0] == 1 && ids[1] != 1);
    hearth_free(text);
    hearth_free(ids);
    stack_check(hearth_chat_render(model, MESSAGES, &o, NULL, NULL, &ids, &count, &error), &error);
    hearth_free(ids);
    stack_check(hearth_chat_render(model, MESSAGES, &o, &text, &size, NULL, NULL, &error), &error);
    hearth_free(text);

    o.template_text = "{{ raise_exception('never') }}";
    expect(HEARTH_INVALID, hearth_chat_render(model, MESSAGES, &o, &text, &size, NULL, NULL, &error), &error, "never");
    expect(HEARTH_UNSUPPORTED, hearth_chat_render(model, MESSAGES, NULL, &text, &size, NULL, NULL, &error), &error,
           "the model has none");
    expect(HEARTH_FORMAT, hearth_chat_render(model, "[", &o, &text, &size, NULL, NULL, &error), &error,
           "chat: messages");
    expect(HEARTH_INVALID, hearth_chat_render(model, "{}", &o, &text, &size, NULL, NULL, &error), &error,
           "is not a list");
}

/* ------------------------------------------------------------------ placements */

/* Changes a placement with every allocation failing once; until it succeeds the placement prints as before. */
static void change_placement(const hearth_model *model, bool to_device)
{
    hearth_error error;
    hearth_placement *p;
    char *before, *after;
    stack_check(hearth_placement_create(&p, model, HEARTH_MODE_EXACT, &error), &error);
    stack_check(hearth_placement_print(p, &before, &error), &error);
    hearth_status status = HEARTH_NO_MEMORY;
    long n = 0;
    for (; status != HEARTH_OK; n++) {
        mem_fail_at(n);
        status = to_device ? hearth_placement_use_device(p, model, 1, 3, &error)
                           : hearth_placement_keep(p, model, 0.5, true, &error);
        mem_fail_at(-1);
        stack_check(hearth_placement_print(p, &after, &error), &error);
        assert_int_equal(strcmp(before, after) == 0, status != HEARTH_OK);
        hearth_free(after);
    }
    assert_true(n > 3);
    hearth_free(before);
    hearth_placement_destroy(p);
}

static void placements_change_whole(void **state)
{
    stack *s = *state;
    change_placement(s->model, true);

    /* Which neurons are hot: the last ones. */
    enum { MOST_LAYERS = 8, MOST_NEURONS = 1024 };
    uint32_t order[MOST_NEURONS], f = model_largest(s->model).neurons;
    tune_layer layers[MOST_LAYERS] = {{0}};
    tune learnt = {.layer_count = s->model->hyper.layer_count, .layers = layers};
    assert_true(learnt.layer_count <= MOST_LAYERS && f <= MOST_NEURONS);
    for (uint32_t n = 0; n < f; n++)
        order[n] = f - 1 - n;
    for (uint32_t i = 0; i < learnt.layer_count; i++)
        layers[i].order = order;
    s->model->tune = &learnt;
    change_placement(s->model, false);
    s->model->tune = NULL;
}

static int open_stack(void **state)
{
    static stack s;
    stack_open(&s, MODEL, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = 64});
    *state = &s;
    return 0;
}

static int close_stack(void **state)
{
    stack_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_other_sizes),
        cmocka_unit_test(answers_of_other_sizes),
        cmocka_unit_test(logging),
        cmocka_unit_test(devices),
        cmocka_unit_test(keys),
        cmocka_unit_test(tokens),
        cmocka_unit_test(conversations),
        cmocka_unit_test(placements_change_whole),
    };
    return cmocka_run_group_tests(tests, open_stack, close_stack);
}
