/* engine_device_session.c - sessions whose layers lie on both sides: memory within its budget, sequences that fork, are
 * cut and restored, rows of several in one step, long contexts, two sessions at once, cancelling. */
#include "../src/device/driver.h"
#include "../src/engine/device_state.h"

#include "hidden.h"
#include "placements.h"

#include <pthread.h>

#define RELU GOLDEN "/llama-relu-gqa/model.gguf"
#define PWRI GOLDEN "/pwri/llama/q4_0.gguf"
/* Recurrent layers of both rules; others have attention, plain or gated. */
#define MAMBA GOLDEN "/nemotron-h-moe/model.gguf"
#define DELTA GOLDEN "/qwen3-5-moe/model.gguf"
/* Keys that are the values, too. */
#define LATENT GOLDEN "/glm4-moe-lite/model.gguf"

/* A test for every device that is here, with a model of its own. */
static void on_every_device(const char *path, unsigned threads, void (*test)(stack *s))
{
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        open_placed_model(&s, open_runtime(specs->text[i], threads), path);
        test(&s);
        assert_int_equal(device_used(s.runtime), 0);
        hearth_model_close(s.model);
        hearth_runtime_destroy(s.runtime);
    }
}

static void open_mixed(stack *s, placed_form first, hearth_mode mode, bool plain, hearth_session_options options)
{
    placed_shape shape = shape_of(s, mode);
    char *json = mixed_placement(&shape, first, 11 + (uint32_t)first);
    open_placed(s, json, mode, plain, options);
    free(json);
}

/* ------------------------------------------------------------------ hidden states */

/* Hidden states come back wherever the last layer and the head lie. */
static void check_hidden_on_both_sides(stack *s)
{
    static const int32_t ids[9] = {1, 73, 55, 174, 179, 213, 54, 229, 103};
    placed_shape shape = shape_of(s, HEARTH_MODE_EXACT);
    for (uint32_t number = 0; number < PLACEMENTS; number++) {
        float logits[9 * 272];
        char *json = draw_placement(&shape, number);
        open_placed(s, json, HEARTH_MODE_EXACT, false, (hearth_session_options){.context = 16, .output_rows = 9});
        assert_int_equal(s->info.vocabulary_size, 272);
        stack_feed(s, 0, ids, 9, logits);
        check_hidden(s, 9);
        close_placed(s);
        free(json);
    }
}

static void hidden_states(void **state)
{
    (void)state;
    on_every_device(RELU, 2, check_hidden_on_both_sides);
}

/* ------------------------------------------------------------------ memory */

/* Creates engine, session and what it takes to feed and to read logits, in a budget. */
static hearth_status use_budget(stack *s, const char *json, hearth_session_options options, hearth_error *error)
{
    static const hearth_row rows[2] = {{1, 0, false}, {2, 0, true}};
    float *logits = malloc(s->info.vocabulary_size * sizeof *logits);
    hearth_status status = try_engine(s, json, HEARTH_MODE_EXACT, false, error);
    uint64_t weights = device_used(s->runtime);
    if (status == HEARTH_OK) {
        status = hearth_session_create(&s->session, s->engine, &options, error);
        if (status != HEARTH_OK)
            assert_int_equal(device_used(s->runtime), weights); /* as before */
    } else {
        assert_int_equal(weights, 0);
    }
    if (status == HEARTH_OK)
        status = hearth_session_feed(s->session, rows, 2, error);
    if (status == HEARTH_OK)
        status = hearth_session_logits(s->session, 0, 1, logits, error);
    close_placed(s);
    assert_int_equal(device_used(s->runtime), 0);
    free(logits);
    return status;
}

/* With the bytes that were announced it works; with one less something does not fit, and is named; where the weights
 * alone do not fit, the engine says so. */
static void check_budgets(const char *spec, const char *path, const char *json, hearth_session_options options)
{
    stack s;
    hearth_error error = {0};
    hearth_memory memory, small;
    open_placed_model(&s, open_runtime(spec, 1), path);
    stack_check(try_engine(&s, json, HEARTH_MODE_EXACT, false, &error), &error);
    uint64_t weights = device_used(s.runtime);
    assert_int_equal(hearth_session_memory(s.engine, &options, &memory, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_memory(s.engine, &(hearth_session_options){.context = 2}, &small, NULL), HEARTH_OK);
    uint32_t layers = 0;
    for (uint32_t i = 0; i < s.info.layer_count; i++)
        layers += s.engine->layers[i].form != FORM_HOST;
    assert_true(weights > 0 && weights < small.device_bytes && small.device_bytes < memory.device_bytes);
    close_placed(&s);
    hearth_runtime_destroy(s.runtime);
    char all_layers[32]; /* without the head, which is uploaded last */
    snprintf(all_layers, sizeof all_layers, "the last %u of them fit", layers);
    const struct {
        uint64_t budget;
        hearth_status status;
        const char *says;
    } cases[] = {
        {memory.device_bytes, HEARTH_OK, ""},
        {memory.device_bytes - 1, HEARTH_NO_MEMORY, "a context of 50 for each sequence: "},
        {weights + 1, HEARTH_NO_MEMORY, "not even one of 1 fits"},
        {weights - 1, HEARTH_NO_MEMORY, "output: "}, /* uploaded last */
        {weights - 1, HEARTH_NO_MEMORY, all_layers},
        {100, HEARTH_NO_MEMORY, "attention norm: "},
        {100, HEARTH_NO_MEMORY, "not even one of them fits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char limited[96];
        snprintf(limited, sizeof limited, "%.63s,memory=%llu", spec, (unsigned long long)cases[i].budget);
        s.runtime = open_runtime(limited, 1);
        error.text[0] = 0;
        hearth_status status = use_budget(&s, json, options, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].says))
            fail_msg("budget %llu: status %d, '%s', expected %d and '%s'", (unsigned long long)cases[i].budget,
                     (int)status, error.text, (int)cases[i].status, cases[i].says);
        hearth_device_info info;
        assert_true(hearth_runtime_device(s.runtime, &info));
        assert_int_equal(info.budget_bytes, cases[i].budget);
        assert_true(info.peak_bytes <= cases[i].budget);
        if (status == HEARTH_OK)
            assert_int_equal(info.peak_bytes, cases[i].budget); /* never more than announced, to the byte */
        hearth_runtime_destroy(s.runtime);
    }
    hearth_model_close(s.model);
}

/* The context that an error names fits, and none that is longer. */
static void check_largest_context(stack *s)
{
    const hearth_session_options options = {.context = 100, .batch = STEP_ROWS},
                                 fitting = {.context = 61, .batch = STEP_ROWS},
                                 longer = {.context = 62, .batch = STEP_ROWS};
    hearth_memory memory;
    hearth_error error;
    placed_shape shape = shape_of(s, HEARTH_MODE_EXACT);
    char *json = mixed_placement(&shape, PLACED_DEVICE, 3), limited[96], spec[64];
    hearth_device_info info;
    assert_true(hearth_runtime_device(s->runtime, &info));
    snprintf(spec, sizeof spec, "%s", info.driver);
    stack_check(try_engine(s, json, HEARTH_MODE_EXACT, false, &error), &error);
    assert_int_equal(hearth_session_memory(s->engine, &fitting, &memory, NULL), HEARTH_OK);
    close_placed(s);
    snprintf(limited, sizeof limited, "%s,memory=%llu", spec, (unsigned long long)memory.device_bytes);
    stack limit = {.runtime = open_runtime(limited, 1), .model = s->model, .info = s->info};
    stack_check(try_engine(&limit, json, HEARTH_MODE_EXACT, false, &error), &error);
    assert_int_equal(hearth_session_create(&limit.session, limit.engine, &options, &error), HEARTH_NO_MEMORY);
    if (!strstr(error.text, "of the device's budget of ") || !strstr(error.text, "; a context of 61 fits"))
        fail_msg("%s", error.text);
    assert_int_equal(hearth_session_create(&limit.session, limit.engine, &longer, NULL), HEARTH_NO_MEMORY);
    stack_check(hearth_session_create(&limit.session, limit.engine, &fitting, &error), &error);
    close_placed(&limit);
    hearth_runtime_destroy(limit.runtime);
    free(json);
}

static void largest_context(void **state)
{
    (void)state;
    on_every_device(RELU, 1, check_largest_context);
}

static void memory_within_the_budget(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (placed_form first = PLACED_FFN_HOST; first < PLACED_FORMS; first++) {
            stack s;
            open_placed_model(&s, NULL, PWRI);
            placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
            char *json = mixed_placement(&shape, first, 9);
            check_budgets(
                specs->text[i], PWRI, json,
                (hearth_session_options){.context = 50, .sequences = 3, .batch = STEP_ROWS, .kv = HEARTH_KV_F32});
            hearth_model_close(s.model);
            free(json);
        }
}

/* Sessions of one engine share its weights. */
static void check_shared_weights(stack *s)
{
    const hearth_session_options options = {.context = 32}, wider = {.context = 64, .sequences = 2};
    hearth_session *second;
    hearth_memory one, two;
    hearth_error error;
    open_mixed(s, PLACED_SPLIT, HEARTH_MODE_EXACT, false, options);
    uint64_t first = device_used(s->runtime);
    assert_int_equal(hearth_session_memory(s->engine, &options, &one, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_memory(s->engine, &wider, &two, NULL), HEARTH_OK);
    assert_int_equal(first, one.device_bytes);
    hearth_session_destroy(s->session);
    uint64_t weights = device_used(s->runtime);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
    stack_check(hearth_session_create(&second, s->engine, &wider, &error), &error);
    assert_int_equal(device_used(s->runtime), one.device_bytes + two.device_bytes - weights);
    hearth_session_destroy(second);
    assert_int_equal(device_used(s->runtime), first);
    close_placed(s);
}

static void sessions_share_weights(void **state)
{
    (void)state;
    on_every_device(RELU, 1, check_shared_weights);
}

/* ------------------------------------------------------------------ sequences */

/* After fork, cutting and restoring, a sequence goes on exactly as one that never left the path. */
static void check_state(stack *s, placed_form first)
{
    size_t v = s->info.vocabulary_size;
    float *want = malloc(v * sizeof *want), *got = malloc(v * sizeof *got);
    int32_t ids[PROMPT], other[PROMPT];
    hearth_checkpoint *saved;
    hearth_session *elsewhere;
    hearth_error error;
    draw_prompt(ids, s->info.vocabulary_size, 1);
    draw_prompt(other, s->info.vocabulary_size, 2);
    open_mixed(s, first, HEARTH_MODE_EXACT, false,
               (hearth_session_options){.context = 32, .sequences = 3, .output_rows = PROMPT});
    stack_feed(s, 1, other, 3, NULL);
    stack_feed(s, 0, ids, PROMPT - 1, NULL);
    stack_check(hearth_session_fork(s->session, 0, 1, &error), &error);
    stack_check(hearth_session_save(s->session, 0, &saved, &error), &error);
    stack_feed(s, 0, ids + PROMPT - 1, 1, want);

    assert_int_equal(hearth_session_length(s->session, 1), PROMPT - 1);
    stack_feed(s, 1, ids + PROMPT - 1, 1, got);
    assert_memory_equal(got, want, v * sizeof *want); /* a fork */

    stack_feed(s, 0, other, 4, NULL);
    stack_check(hearth_session_truncate(s->session, 0, PROMPT - 1, &error), &error);
    stack_feed(s, 0, ids + PROMPT - 1, 1, got);
    assert_memory_equal(got, want, v * sizeof *want); /* cut back */

    stack_feed(s, 2, other, 7, NULL);
    stack_check(hearth_session_restore(s->session, 2, saved, &error), &error);
    stack_feed(s, 2, ids + PROMPT - 1, 1, got);
    assert_memory_equal(got, want, v * sizeof *want); /* restored over another text */

    hearth_session_options wider = {.context = 48, .sequences = 2};
    stack_check(hearth_session_create(&elsewhere, s->engine, &wider, &error), &error);
    stack_check(hearth_session_restore(elsewhere, 1, saved, &error), &error);
    stack there = {.session = elsewhere, .info = s->info};
    stack_feed(&there, 1, ids + PROMPT - 1, 1, got);
    assert_memory_equal(got, want, v * sizeof *want); /* in another session, laid out otherwise */
    hearth_session_destroy(elsewhere);

    hearth_checkpoint_destroy(saved);
    close_placed(s);
    free(want);
    free(got);
}

static void check_states(stack *s)
{
    for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++)
        check_state(s, first);
}

static void state_moves(void **state)
{
    (void)state;
    on_every_device(HEARTH_MODELS "/stories-relu-q8_0.gguf", 1, check_states);
    on_every_device(RELU, 2, check_states);
    on_every_device(MAMBA, 2, check_states);
    on_every_device(LATENT, 2, check_states);
}

/* Rows of three sequences in turn, in feeds of 1, 2, ... STEP_ROWS + 1 of them. */
enum { SEQUENCES = 3, MOST_ROWS = STEP_ROWS + 1, ALL_ROWS = MOST_ROWS * (MOST_ROWS + 1) / 2 };

static void feed_rows(stack *s, float *logits)
{
    size_t v = s->info.vocabulary_size, at = 0;
    int32_t ids[ALL_ROWS];
    hearth_row rows[MOST_ROWS];
    hearth_error error;
    uint32_t seed = 5;
    for (size_t i = 0; i < ALL_ROWS; i++)
        ids[i] = (int32_t)draw(&seed, s->info.vocabulary_size);
    for (size_t n = 1; n <= MOST_ROWS; at += n++) {
        for (size_t i = 0; i < n; i++)
            rows[i] = (hearth_row){ids[at + i], (uint32_t)((at + i) % SEQUENCES), true};
        stack_check(hearth_session_feed(s->session, rows, n, &error), &error);
        assert_int_equal(hearth_session_output_count(s->session), n);
        stack_check(hearth_session_logits(s->session, 0, n, logits + at * v, &error), &error);
    }
}

static void check_rows(stack *s, hearth_mode mode)
{
    static const hearth_session_options options = {
        .context = 64, .sequences = SEQUENCES, .output_rows = MOST_ROWS, .kv = HEARTH_KV_F32};
    size_t n = (size_t)ALL_ROWS * s->info.vocabulary_size;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    open_placed(s, NULL, mode, true, options);
    feed_rows(s, want);
    close_placed(s);
    for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++) {
        open_mixed(s, first, mode, true, options);
        feed_rows(s, got);
        double distance = relative_l2(got, want, n);
        if (!(distance <= 1e-4))
            fail_msg("%s, %s, layer 0 of form %d: relative distance %.2e", s->info.path, hearth_mode_name(mode),
                     (int)first, distance);
        close_placed(s);
    }
    free(want);
    free(got);
}

static void check_mixed_rows(stack *s)
{
    for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++)
        check_rows(s, (hearth_mode)mode);
}

static void check_dense_rows(stack *s)
{
    check_rows(s, HEARTH_MODE_DENSE);
}

static void rows_of_several_sequences(void **state)
{
    (void)state;
    on_every_device(PWRI, 1, check_mixed_rows);
    on_every_device(MAMBA, 1, check_dense_rows);
    on_every_device(DELTA, 1, check_dense_rows);
    on_every_device(LATENT, 1, check_dense_rows);
}

/* ------------------------------------------------------------------ long contexts */

/* Past ATTEND_POSITIONS, where a device splits attention. */
static void check_long(stack *s)
{
    enum { LONG = ATTEND_POSITIONS + 20, LAST = 24 };
    size_t v = s->info.vocabulary_size;
    static hearth_row rows[LONG];
    float *logits[2];
    uint32_t seed = 8;
    for (size_t i = 0; i < LONG; i++)
        rows[i] = (hearth_row){(int32_t)draw(&seed, s->info.vocabulary_size), 0, i >= LONG - LAST};
    for (int there = 0; there < 2; there++) {
        const hearth_session_options options = {.context = 512, .output_rows = LAST, .kv = HEARTH_KV_F32};
        hearth_error error;
        if (there)
            open_mixed(s, PLACED_DEVICE, HEARTH_MODE_EXACT, true, options);
        else
            open_placed(s, NULL, HEARTH_MODE_EXACT, true, options);
        logits[there] = malloc(LAST * v * sizeof(float));
        stack_check(hearth_session_feed(s->session, rows, LONG, &error), &error);
        stack_check(hearth_session_logits(s->session, 0, LAST, logits[there], &error), &error);
        close_placed(s);
    }
    double distance = relative_l2(logits[1], logits[0], LAST * v);
    print_message("%u positions: %.1e\n", LONG, distance);
    assert_true(distance <= 1e-4);
    free(logits[0]);
    free(logits[1]);
}

static void long_contexts(void **state)
{
    (void)state;
    on_every_device(HEARTH_MODELS "/stories-relu-q8_0.gguf", 1, check_long);
}

/* ------------------------------------------------------------------ two at once */

typedef struct reader {
    pthread_t thread;
    stack s;
    int32_t ids[TEXT];
    float *logits;
    unsigned runs;
} reader;

/* cmocka's assertions belong to the main thread: what is wrong shows in the logits. */
static void *read_again(void *argument)
{
    reader *r = argument;
    size_t v = r->s.info.vocabulary_size;
    for (unsigned run = 0; run < r->runs; run++) {
        hearth_session_truncate(r->s.session, 0, 0, NULL);
        for (size_t at = 0, n; at < TEXT; at += n) {
            n = at == 0 ? STEP_ROWS + 3 : 1;
            hearth_row rows[STEP_ROWS + 3];
            for (size_t i = 0; i < n; i++)
                rows[i] = (hearth_row){r->ids[at + i], 0, true};
            memset(r->logits + at * v, 0, n * v * sizeof(float));
            if (hearth_session_feed(r->s.session, rows, n, NULL) == HEARTH_OK)
                hearth_session_logits(r->s.session, 0, n, r->logits + at * v, NULL);
        }
    }
    return NULL;
}

/* Each gets what it gets alone; meanwhile a third session comes and goes. */
static void check_two(stack *s)
{
    const hearth_session_options options = {.context = 64, .output_rows = 16};
    size_t bytes = (size_t)TEXT * s->info.vocabulary_size * sizeof(float);
    reader readers[2];
    float *alone[2];
    hearth_error error;
    open_mixed(s, PLACED_SPLIT, HEARTH_MODE_EXACT, false, options);
    for (uint32_t i = 0; i < 2; i++) {
        reader *r = &readers[i];
        *r = (reader){.s = *s, .logits = malloc(bytes), .runs = 1};
        alone[i] = malloc(bytes);
        draw_prompt(r->ids, s->info.vocabulary_size, 20 + i);
        draw_prompt(r->ids + TEXT - PROMPT, s->info.vocabulary_size, 30 + i);
        stack_check(hearth_session_create(&r->s.session, s->engine, &options, &error), &error);
        read_again(r);
        memcpy(alone[i], r->logits, bytes);
        r->runs = host_only ? 1 : 4;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_again, &readers[i]), 0);
    for (int i = 0; i < 5; i++) {
        hearth_session_destroy(s->session);
        stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_memory_equal(readers[i].logits, alone[i], bytes);
        hearth_session_destroy(readers[i].s.session);
        free(readers[i].logits);
        free(alone[i]);
    }
    close_placed(s);
}

static void two_sessions_at_once(void **state)
{
    (void)state;
    on_every_device(PWRI, 2, check_two);
}

/* ------------------------------------------------------------------ cancelling */

typedef struct patience {
    unsigned calls, limit;
    uint64_t done;
} patience;

static bool impatient(void *user, const char *what, uint64_t done, uint64_t total)
{
    patience *p = user;
    assert_string_equal(what, "tokens read");
    assert_true(done >= p->done && done <= total && total == PROMPT);
    p->done = done;
    return ++p->calls < p->limit;
}

/* At each report in turn: sequences are as before the feed, and the next one gives the right bytes. In one long step, and in
 * short ones. */
static void check_cancelling(stack *s, uint32_t batch)
{
    size_t v = s->info.vocabulary_size, bytes = PROMPT * v * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    int32_t ids[PROMPT];
    hearth_row rows[PROMPT];
    hearth_error error;
    patience p = {0, 1000, 0};
    draw_prompt(ids, s->info.vocabulary_size, 6);
    open_mixed(
        s, PLACED_SPLIT, HEARTH_MODE_EXACT, false,
        (hearth_session_options){.context = 32, .batch = batch, .output_rows = PROMPT, .progress = {impatient, &p}});
    for (size_t i = 0; i < PROMPT; i++)
        rows[i] = (hearth_row){ids[i], 0, false};
    stack_feed(s, 0, ids, PROMPT, want);
    unsigned reports = p.calls;
    assert_int_equal(reports, s->info.layer_count * ((PROMPT + batch - 1) / batch)); /* no step of one row */
    assert_int_equal(p.done, PROMPT);
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (unsigned limit = 1; limit <= reports; limit++) {
        p = (patience){0, limit, 0};
        assert_int_equal(hearth_session_feed(s->session, rows, PROMPT, &error), HEARTH_CANCELLED);
        assert_non_null(strstr(error.text, "cancelled"));
        assert_int_equal(hearth_session_length(s->session, 0), 0);
        assert_int_equal(hearth_session_output_count(s->session), 0);
        p = (patience){0, 1000, 0};
        stack_feed(s, 0, ids, PROMPT, got);
        assert_memory_equal(got, want, bytes);
        assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    }
    close_placed(s);
    free(want);
    free(got);
}

/* Cancels in the last row of a layer, as another thread would. */
typedef struct canceller {
    hearth_session *session;
    uint32_t layer, position;
    unsigned later; /* rows seen of layers after it */
} canceller;

static void cancel_in_a_layer(void *user, const hearth_observation *o)
{
    canceller *c = user;
    c->later += o->layer > c->layer;
    if (o->layer == c->layer && o->position == c->position)
        hearth_session_cancel(c->session);
}

/* A cancel that comes in a layer, also of a single token, ends the step with that layer; what was given up has counted
 * nothing, neither here nor on the device. */
static void check_cancelling_in_layers(stack *s)
{
    size_t v = s->info.vocabulary_size, bytes = STEP_ROWS * v * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    int32_t ids[PROMPT];
    hearth_row rows[STEP_ROWS];
    hearth_error error;
    draw_prompt(ids, s->info.vocabulary_size, 7);
    for (size_t i = 0; i < STEP_ROWS; i++)
        rows[i] = (hearth_row){ids[i], 0, false};
    open_mixed(s, PLACED_SPLIT, HEARTH_MODE_EXACT, false, (hearth_session_options){.context = 32, .output_rows = 8});
    for (uint32_t count = 1; count <= STEP_ROWS; count += STEP_ROWS - 1)
        for (uint32_t layer = 0; layer + 1 < s->info.layer_count; layer++) {
            hearth_counts before, after;
            hearth_session_reset_counts(s->session);
            stack_feed(s, 0, ids, count, want);
            assert_int_equal(hearth_session_counts(s->session, layer, &before, NULL), HEARTH_OK);
            assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
            hearth_session_reset_counts(s->session);
            canceller c = {s->session, layer, count - 1, 0};
            hearth_observer observer = {cancel_in_a_layer, &c, false};
            hearth_session_observe(s->session, &observer);
            hearth_session_cancel(s->session); /* nothing runs: nothing happens */
            assert_int_equal(hearth_session_feed(s->session, rows, count, &error), HEARTH_CANCELLED);
            assert_int_equal(c.later, 0);
            hearth_session_observe(s->session, NULL);
            stack_feed(s, 0, ids, count, got);
            assert_memory_equal(got, want, count * v * sizeof *want);
            assert_int_equal(hearth_session_counts(s->session, layer, &after, NULL), HEARTH_OK);
            assert_memory_equal(&after, &before, sizeof after);
            assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
        }
    close_placed(s);
    free(want);
    free(got);
}

static void check_cancelling_steps(stack *s)
{
    check_cancelling(s, PROMPT);
    check_cancelling(s, STEP_ROWS);
}

typedef struct follower {
    stack *s;
    unsigned calls, passed; /* layers reported, and of these those that the device had told of */
} follower;

static bool follow_layers(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    follower *f = user;
    const device_session *ds = f->s->session->device;
    const device *d = f->s->engine->uploaded->device;
    bool published = false;
    assert_int_equal(d->driver->published(ds->running, SLOT_NEURONS(f->calls), &published, NULL), HEARTH_OK);
    f->passed += published;
    f->calls++;
    return true;
}

/* In a long step whose layers are all the device's, progress is the device's: a layer is reported when it has passed it. */
static void check_progress(stack *s)
{
    int32_t ids[PROMPT];
    hearth_row rows[PROMPT];
    hearth_error error;
    follower f = {.s = s};
    draw_prompt(ids, s->info.vocabulary_size, 6);
    placed_shape shape = shape_of(s, HEARTH_MODE_EXACT);
    char *json = draw_placement(&shape, PLACEMENTS - 1);
    open_placed(s, json, HEARTH_MODE_EXACT, false,
                (hearth_session_options){.context = 32, .batch = PROMPT, .progress = {follow_layers, &f}});
    for (size_t i = 0; i < PROMPT; i++)
        rows[i] = (hearth_row){ids[i], 0, false};
    stack_check(hearth_session_feed(s->session, rows, PROMPT, &error), &error);
    assert_int_equal(f.calls, s->info.layer_count);
    assert_int_equal(f.passed, s->info.layer_count);
    close_placed(s);
    free(json);
}

static void progress_of_the_device(void **state)
{
    (void)state;
    on_every_device(RELU, 2, check_progress);
}

static void cancelling(void **state)
{
    (void)state;
    on_every_device(RELU, 2, check_cancelling_steps);
    on_every_device(RELU, 2, check_cancelling_in_layers);
}

/* ------------------------------------------------------------------ observers that leave */

typedef struct leaver {
    hearth_session *session;
    unsigned seen;
} leaver;

static void leave(void *user, const hearth_observation *observation)
{
    leaver *l = user;
    assert_int_equal(observation->layer, 0);
    l->seen++;
    hearth_session_observe(l->session, NULL);
}

/* An observer that takes its leave in the middle of a step sees no more, and the step goes on to the same end. */
static void check_leaving(stack *s)
{
    size_t v = s->info.vocabulary_size, bytes = PROMPT * v * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    int32_t ids[PROMPT];
    draw_prompt(ids, s->info.vocabulary_size, 6);
    open_mixed(s, PLACED_SPLIT, HEARTH_MODE_EXACT, false,
               (hearth_session_options){.context = 32, .batch = STEP_ROWS, .output_rows = PROMPT});
    stack_feed(s, 0, ids, PROMPT, want);
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    leaver l = {s->session, 0};
    hearth_session_observe(s->session, &(hearth_observer){.see = leave, .user = &l});
    stack_feed(s, 0, ids, PROMPT, got);
    assert_int_equal(l.seen, 1);
    assert_memory_equal(got, want, bytes);
    close_placed(s);
    free(want);
    free(got);
}

static void observers_may_leave(void **state)
{
    (void)state;
    on_every_device(RELU, 2, check_leaving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_within_the_budget),
        cmocka_unit_test(largest_context),
        cmocka_unit_test(sessions_share_weights),
        cmocka_unit_test(state_moves),
        cmocka_unit_test(rows_of_several_sequences),
        cmocka_unit_test(long_contexts),
        cmocka_unit_test(two_sessions_at_once),
        cmocka_unit_test(progress_of_the_device),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(observers_may_leave),
        cmocka_unit_test(hidden_states),
    };
    return run_group(tests, NULL, NULL);
}
