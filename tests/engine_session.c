/* engine_session.c - sequences: batches, fork, truncate, checkpoints, cancelling, limits, faults, determinism. */
#include "../src/engine/engine.h"
#include "../src/engine/ffn.h"

#include "golden.h"
#include "hidden.h"

#define MODEL      HEARTH_DATA "/golden/llama-relu/model.gguf"
#define Q4_MODEL   HEARTH_DATA "/golden/llama-256-q4_k_m/model.gguf"
#define VOCABULARY 272

static const int32_t story[12] = {1, 73, 55, 174, 179, 213, 54, 229, 103, 18, 12, 26};
static const int32_t other[7] = {1, 200, 8, 31, 77, 5, 260};

static void open_model(stack *s, hearth_session_options options)
{
    stack_open(s, MODEL, 2, HEARTH_ACTIVATIONS_AUTO, options);
}

/* Logits of the last of `count` ids in a session of its own. */
static void last_logits(const int32_t *ids, size_t count, float *logits)
{
    stack s;
    float all[64 * VOCABULARY];
    open_model(&s, (hearth_session_options){.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32});
    stack_feed(&s, 0, ids, count, all);
    memcpy(logits, all + (count - 1) * VOCABULARY, VOCABULARY * sizeof *logits);
    stack_close(&s);
}

/* Two sequences in one feed, rows interleaved, give what each gives alone. */
static void sequences_do_not_touch(void **state)
{
    (void)state;
    float alone[2][VOCABULARY], together[2][VOCABULARY];
    last_logits(story, 12, alone[0]);
    last_logits(other, 7, alone[1]);
    stack s;
    open_model(&s, (hearth_session_options){.context = 32, .sequences = 2, .kv = HEARTH_KV_F32});
    hearth_row rows[19];
    size_t n = 0;
    for (size_t i = 0; i < 12; i++) {
        rows[n++] = (hearth_row){story[i], 0, i == 11};
        if (i < 7)
            rows[n++] = (hearth_row){other[i], 1, i == 6};
    }
    hearth_error error;
    stack_check(hearth_session_feed(s.session, rows, n, &error), &error);
    assert_int_equal(hearth_session_output_count(s.session), 2);
    /* outputs come in the order of the rows: the shorter sequence ends first */
    stack_check(hearth_session_logits(s.session, 0, 1, together[1], &error), &error);
    stack_check(hearth_session_logits(s.session, 1, 1, together[0], &error), &error);
    assert_true(relative_l2(together[0], alone[0], VOCABULARY) < 1e-5);
    assert_true(relative_l2(together[1], alone[1], VOCABULARY) < 1e-5);
    stack_close(&s);
}

/* Decodes a few tokens of each of `count` sequences, all together or one sequence after the other: logits
 * [count][DECODED][vocabulary]. Returns how many values. */
#define DECODED         4
#define MOST_VOCABULARY 1024
static size_t decode_sequences(const char *model, uint32_t count, bool together, float *logits)
{
    stack s;
    hearth_row rows[FEW_TOKENS];
    hearth_error error;
    hearth_session_options options = {.context = 16, .sequences = FEW_TOKENS, .output_rows = FEW_TOKENS};
    stack_open(&s, model, 2, HEARTH_ACTIVATIONS_AUTO, options);
    size_t vocabulary = s.model->hyper.vocabulary_size, step = together ? count : 1;
    assert_true(vocabulary <= MOST_VOCABULARY);
    for (uint32_t i = 0; i < DECODED; i++) {
        for (uint32_t k = 0; k < count; k++)
            rows[k] = (hearth_row){story[(k + 3 * i) % 12], k, true};
        for (size_t k = 0; k < count; k += step) {
            stack_check(hearth_session_feed(s.session, rows + k, step, &error), &error);
            for (size_t t = 0; t < step; t++) {
                float *to = logits + ((k + t) * DECODED + i) * vocabulary;
                stack_check(hearth_session_logits(s.session, t, 1, to, &error), &error);
            }
        }
    }
    stack_close(&s);
    return count * DECODED * vocabulary;
}

/* Up to FEW_TOKENS sequences that decode together give the bytes that each gives alone: stock layout, a row per neuron, a
 * norm within the network, recurrent layers, float and block formats. */
static void few_sequences_change_nothing(void **state)
{
    (void)state;
    static const char *const models[] = {MODEL,
                                         Q4_MODEL,
                                         HEARTH_DATA "/golden/pwri/llama/q4_0.gguf",
                                         HEARTH_DATA "/golden/pwri/llama/f32.gguf",
                                         HEARTH_DATA "/golden/bitnet/model.gguf",
                                         HEARTH_DATA "/golden/qwen3-5/model.gguf"};
    static float alone[FEW_TOKENS * DECODED * MOST_VOCABULARY], together[FEW_TOKENS * DECODED * MOST_VOCABULARY];
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (uint32_t count = 2; count <= FEW_TOKENS; count++) {
            size_t values = decode_sequences(models[m], count, false, alone);
            assert_int_equal(decode_sequences(models[m], count, true, together), values);
            assert_memory_equal(together, alone, values * sizeof *alone);
        }
}

/* A prompt read in slices of 5 rows, and token by token, agrees with one slice. */
static void slices_agree(void **state)
{
    (void)state;
    float whole[VOCABULARY], sliced[12 * VOCABULARY];
    last_logits(story, 12, whole);
    stack s;
    open_model(&s, (hearth_session_options){.context = 32, .batch = 5, .output_rows = 12, .kv = HEARTH_KV_F32});
    stack_feed(&s, 0, story, 12, sliced);
    assert_true(relative_l2(sliced + 11 * VOCABULARY, whole, VOCABULARY) < 1e-5);
    assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
    for (size_t i = 0; i < 12; i++)
        stack_feed(&s, 0, story + i, 1, sliced);
    assert_true(relative_l2(sliced, whole, VOCABULARY) < 1e-5);
    stack_close(&s);
}

/* After fork, truncate and restore a sequence continues exactly as one that never left the path. */
static void state_moves(void **state)
{
    (void)state;
    stack s;
    float want[VOCABULARY], got[VOCABULARY];
    hearth_checkpoint *saved;
    hearth_error error;
    open_model(&s, (hearth_session_options){.context = 32, .sequences = 3});
    stack_feed(&s, 0, story, 11, NULL);
    stack_check(hearth_session_fork(s.session, 0, 1, &error), &error);
    stack_check(hearth_session_save(s.session, 0, &saved, &error), &error);
    stack_feed(&s, 0, story + 11, 1, want);

    assert_int_equal(hearth_session_length(s.session, 1), 11);
    stack_feed(&s, 1, story + 11, 1, got);
    assert_memory_equal(got, want, sizeof want); /* a fork */

    stack_feed(&s, 0, other, 4, NULL);
    stack_check(hearth_session_truncate(s.session, 0, 11, &error), &error);
    stack_feed(&s, 0, story + 11, 1, got);
    assert_memory_equal(got, want, sizeof want); /* cut back */

    stack_feed(&s, 2, other, 7, NULL);
    stack_check(hearth_session_restore(s.session, 2, saved, &error), &error);
    assert_int_equal(hearth_session_length(s.session, 2), 11);
    stack_feed(&s, 2, story + 11, 1, got);
    assert_memory_equal(got, want, sizeof want); /* restored over another text */
    hearth_checkpoint_destroy(saved);
    stack_close(&s);
}

/* Hidden states are the input of the head, of the rows that are outputs, in parts as well as together; a feed of several
 * batches included. */
static void hidden_states(void **state)
{
    (void)state;
    stack s;
    float all[12 * 256], some[256];
    hearth_error error;
    hearth_row rows[3] = {{story[0], 0, true}, {story[1], 0, false}, {story[2], 0, true}};
    open_model(&s, (hearth_session_options){.context = 32, .batch = 5, .output_rows = 12, .kv = HEARTH_KV_F32});
    size_t d = s.info.embedding_length;
    assert_true(d <= 256);
    stack_feed(&s, 0, story, 12, NULL);
    assert_int_equal(hearth_session_hidden(s.session, 0, 1, some, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "hidden states of output rows 0 to 1: the last feed had 0"));
    assert_int_equal(hearth_session_hidden(s.session, 0, 0, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
    float logits[12 * VOCABULARY];
    stack_feed(&s, 0, story, 12, logits);
    check_hidden(&s, 12);
    stack_check(hearth_session_hidden(s.session, 0, 12, all, &error), &error);
    stack_check(hearth_session_hidden(s.session, 11, 1, some, &error), &error);
    assert_memory_equal(some, all + 11 * d, d * sizeof *some);
    assert_int_equal(hearth_session_hidden(s.session, 11, 2, some, NULL), HEARTH_INVALID);
    assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
    stack_check(hearth_session_feed(s.session, rows, 3, &error), &error);
    assert_int_equal(hearth_session_output_count(s.session), 2);
    check_hidden(&s, 2);
    stack_check(hearth_session_hidden(s.session, 1, 1, some, &error), &error);
    assert_true(relative_l2(some, all + 2 * d, d) < 1e-5); /* of the third token */
    stack_close(&s);
}

static void expect(hearth_status want, hearth_status got, const hearth_error *error, const char *fragment)
{
    if (got != want || !strstr(error->text, fragment))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)got, error->text, (int)want, fragment);
}

/* Whatever is wrong with a feed, it is named and nothing has changed. */
static void wrong_feeds(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    hearth_row rows[9];
    open_model(&s, (hearth_session_options){.context = 8});
    stack_feed(&s, 0, story, 3, NULL);
    for (size_t i = 0; i < 9; i++)
        rows[i] = (hearth_row){story[i], 0, false};
    expect(HEARTH_FULL, hearth_session_feed(s.session, rows, 6, &e), &e, "context of 8 tokens is exceeded");
    rows[1].token = VOCABULARY;
    expect(HEARTH_INVALID, hearth_session_feed(s.session, rows, 2, &e), &e, "token 272");
    rows[1].token = -1;
    expect(HEARTH_INVALID, hearth_session_feed(s.session, rows, 2, &e), &e, "token -1");
    rows[1] = (hearth_row){5, 1, false};
    expect(HEARTH_INVALID, hearth_session_feed(s.session, rows, 2, &e), &e, "sequence 1");
    rows[0].output = true;
    rows[1] = (hearth_row){5, 0, true};
    expect(HEARTH_INVALID, hearth_session_feed(s.session, rows, 2, &e), &e, "2 output rows");
    float logits[VOCABULARY];
    expect(HEARTH_INVALID, hearth_session_logits(s.session, 0, 1, logits, &e), &e, "the last feed had 0");
    expect(HEARTH_INVALID, hearth_session_truncate(s.session, 0, 4, &e), &e, "it has 3 tokens");
    expect(HEARTH_INVALID, hearth_session_fork(s.session, 0, 1, &e), &e, "sequence 1");
    assert_int_equal(hearth_session_length(s.session, 0), 3);
    stack_feed(&s, 0, story + 3, 5, NULL); /* exactly full is fine */
    assert_int_equal(hearth_session_length(s.session, 0), 8);
    hearth_session *too_long = NULL;
    hearth_session_options options = {.context = 100000};
    expect(HEARTH_INVALID, hearth_session_create(&too_long, s.engine, &options, &e), &e, "the model was made for 128");
    options =
        (hearth_session_options){.context = UINT32_MAX, .sequences = UINT32_MAX}; /* bytes that no size_t counts */
    expect(HEARTH_INVALID, hearth_session_create(&too_long, s.engine, &options, &e), &e, "are too many");
    assert_null(too_long);
    stack_close(&s);
}

typedef struct patience {
    unsigned calls, limit;
} patience;

static bool impatient(void *user, const char *what, uint64_t done, uint64_t total)
{
    patience *p = user;
    assert_string_equal(what, "tokens read");
    assert_true(done <= total && total == 12);
    return ++p->calls < p->limit;
}

/* Cancelled by progress or from outside: the sequence is as before, and the next feed works. */
static void cancelling(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    patience p = {0, 3};
    float want[VOCABULARY], got[12 * VOCABULARY];
    last_logits(story, 12, want);
    open_model(&s, (hearth_session_options){
                       .context = 32, .batch = 6, .output_rows = 12, .kv = HEARTH_KV_F32, .progress = {impatient, &p}});
    hearth_row rows[12];
    for (size_t i = 0; i < 12; i++)
        rows[i] = (hearth_row){story[i], 0, false};
    expect(HEARTH_CANCELLED, hearth_session_feed(s.session, rows, 12, &e), &e, "cancelled");
    assert_int_equal(p.calls, 3); /* two layers of the first slice, one of the second */
    assert_int_equal(hearth_session_length(s.session, 0), 0);
    p.limit = 1000;
    stack_feed(&s, 0, story, 12, got);
    assert_true(relative_l2(got + 11 * VOCABULARY, want, VOCABULARY) < 1e-5);
    stack_close(&s);
}

/* Cancels from within, at a call of its choice, as another thread would: what it returns asks for nothing. */
typedef struct canceller {
    hearth_session *session;
    unsigned calls, at; /* at 0: never */
} canceller;

static void count_call(canceller *c)
{
    if (++c->calls == c->at)
        hearth_session_cancel(c->session);
}

static void cancel_in_a_layer(void *user, const hearth_observation *observation)
{
    (void)observation;
    count_call(user);
}

static bool cancel_at_a_token(void *user, int32_t token, const char *text, size_t size)
{
    (void)token, (void)text, (void)size;
    count_call(user);
    return true;
}

/* A cancel ends the feed that runs when it comes, after the layer it came in; one that comes before a feed, or after
 * it, ends none. */
static void cancels_belong_to_a_feed(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    float want[VOCABULARY], got[VOCABULARY];
    hearth_row rows[12];
    for (size_t i = 0; i < 12; i++)
        rows[i] = (hearth_row){story[i], 0, i == 11};
    last_logits(story, 12, want);
    open_model(&s, (hearth_session_options){.context = 32, .kv = HEARTH_KV_F32});
    canceller c = {s.session, 0, 12}; /* the first layer is observed once for each row */
    hearth_observer observer = {cancel_in_a_layer, &c, false};
    hearth_session_observe(s.session, &observer);
    hearth_session_cancel(s.session); /* nothing runs */
    expect(HEARTH_CANCELLED, hearth_session_feed(s.session, rows, 12, &e), &e, "cancelled after 0 of 12");
    assert_int_equal(c.calls, 12);
    assert_int_equal(hearth_session_length(s.session, 0), 0);
    hearth_session_cancel(s.session);
    stack_check(hearth_session_feed(s.session, rows, 12, &e), &e);
    hearth_session_cancel(s.session); /* too late for that one */
    stack_check(hearth_session_logits(s.session, 0, 1, got, &e), &e);
    assert_true(relative_l2(got, want, VOCABULARY) < 1e-5);
    stack_feed(&s, 0, story, 1, got);
    stack_close(&s);
}

/* Bytes of logits: equal for 1, 2 and 3 threads, and 100 times over. */
static void deterministic(void **state)
{
    (void)state;
    static const char *const paths[] = {MODEL, Q4_MODEL};
    for (size_t p = 0; p < 2; p++) {
        float want[12 * VOCABULARY], got[12 * VOCABULARY];
        for (unsigned run = 0; run < 102; run++) {
            stack s;
            stack_open(&s, paths[p], run < 3 ? run + 1 : 2, HEARTH_ACTIVATIONS_AUTO,
                       (hearth_session_options){.context = 16, .output_rows = 12});
            stack_feed(&s, 0, story, 11, got);
            stack_feed(&s, 0, story + 11, 1, got + 11 * VOCABULARY);
            stack_close(&s);
            if (run == 0)
                memcpy(want, got, sizeof want);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

/* The n-th allocation fails, for every n: no leak, no crash, HEARTH_NO_MEMORY. */
static void allocation_failures(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_session_options options = {.context = 16};
    assert_int_equal(hearth_runtime_create(&runtime, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&model, MODEL, NULL, NULL), HEARTH_OK);
    long live = mem_live();
    for (long n = 0;; n++) {
        hearth_engine *engine = NULL;
        hearth_session *session = NULL;
        mem_fail_at(n);
        hearth_status status = hearth_engine_create(&engine, runtime, model, NULL, NULL);
        if (status == HEARTH_OK)
            status = hearth_session_create(&session, engine, &options, NULL);
        mem_fail_at(-1);
        hearth_session_destroy(session);
        hearth_engine_destroy(engine);
        assert_int_equal(mem_live(), live);
        if (status == HEARTH_OK) {
            assert_true(n >= 5);
            break;
        }
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

/* What memory was announced is what the session takes. */
static void memory_is_known_before(void **state)
{
    (void)state;
    stack s;
    hearth_memory memory;
    hearth_session *second;
    const hearth_session_options options = {.context = 32, .sequences = 2, .kv = HEARTH_KV_F32};
    open_model(&s, options);
    assert_int_equal(hearth_session_memory(s.engine, &options, &memory, NULL), HEARTH_OK);
    assert_int_equal(memory.kv_bytes,
                     2ull * 32 * 2 * s.info.layer_count * s.info.kv_head_count * s.info.head_length * 4);
    assert_int_equal(memory.weight_bytes, s.info.weight_bytes);
    size_t before = mem_live_bytes();
    assert_int_equal(hearth_session_create(&second, s.engine, &options, NULL), HEARTH_OK);
    size_t taken = mem_live_bytes() - before;
    assert_in_range(taken, memory.kv_bytes + memory.scratch_bytes, memory.kv_bytes + memory.scratch_bytes + 4096);
    hearth_session_destroy(second);
    assert_int_equal(mem_live_bytes(), before);
    stack_close(&s);
}

/* A machine of so much memory, with a model of stock layout on it. */
static hearth_engine *open_engine(hearth_runtime **runtime, hearth_model **model, uint64_t memory_bytes)
{
    hearth_engine *engine;
    hearth_error error;
    hearth_runtime_options options = {.threads = 2, .memory_bytes = memory_bytes};
    stack_check(hearth_runtime_create(runtime, &options, &error), &error);
    stack_check(hearth_model_open(model, MODEL, NULL, &error), &error);
    stack_check(hearth_engine_create(&engine, *runtime, *model, NULL, &error), &error);
    return engine;
}

static void close_engine(hearth_engine *engine, hearth_model *model, hearth_runtime *runtime)
{
    hearth_engine_destroy(engine);
    hearth_model_close(model);
    hearth_runtime_destroy(runtime);
}

/* Keys and values that the machine cannot keep are refused before any of it is taken, with the largest context that it
 * can: one that is longer is refused as well, that one is not. */
static void contexts_that_do_not_fit(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_session *session = NULL;
    hearth_memory memory;
    hearth_error e;
    const hearth_session_options any = {.sequences = 5}, whole = {.context = 128, .sequences = 5},
                                 fitting = {.context = 37, .sequences = 5}, longer = {.context = 38, .sequences = 5};
    hearth_engine *engine = open_engine(&runtime, &model, 0);
    assert_int_equal(hearth_session_memory(engine, &fitting, &memory, NULL), HEARTH_OK);
    close_engine(engine, model, runtime);
    /* the copies of the engine, and exactly what the session takes */
    engine = open_engine(&runtime, &model, memory.own_bytes + memory.kv_bytes + memory.scratch_bytes);
    assert_true(memory.own_bytes > 0);
    size_t before = mem_live_bytes();
    expect(HEARTH_NO_MEMORY, hearth_session_create(&session, engine, &whole, &e), &e,
           "a context of 128 for each sequence: ");
    expect(HEARTH_NO_MEMORY, hearth_session_create(&session, engine, &whole, &e), &e, "; a context of 37 fits");
    expect(HEARTH_NO_MEMORY, hearth_session_create(&session, engine, &longer, &e), &e, "; a context of 37 fits");
    assert_int_equal(mem_live_bytes(), before);
    stack_check(hearth_session_create(&session, engine, &fitting, &e), &e);
    hearth_session_destroy(session);
    /* without a wish it is taken, and its memory is what is announced */
    stack_check(hearth_session_create(&session, engine, &any, &e), &e);
    assert_int_equal(hearth_session_context(session), 37);
    hearth_session_destroy(session);
    hearth_memory counted;
    assert_int_equal(hearth_session_memory(engine, &any, &counted, NULL), HEARTH_OK);
    assert_memory_equal(&counted, &memory, sizeof memory);
    close_engine(engine, model, runtime);
    /* where none fits, the model's is refused */
    engine = open_engine(&runtime, &model, memory.own_bytes + 1);
    expect(HEARTH_NO_MEMORY, hearth_session_create(&session, engine, &any, &e), &e, "not even one of 1 fits");
    close_engine(engine, model, runtime);
}

/* So are transposed copies. */
static void copies_that_do_not_fit(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_error e;
    hearth_engine *engine = open_engine(&runtime, &model, 0);
    uint64_t copies = hearth_engine_own_bytes(engine);
    close_engine(engine, model, runtime);
    engine = open_engine(&runtime, &model, copies);
    close_engine(engine, model, runtime);
    hearth_runtime_options options = {.threads = 1, .memory_bytes = copies - 1};
    stack_check(hearth_runtime_create(&runtime, &options, &e), &e);
    stack_check(hearth_model_open(&model, MODEL, NULL, &e), &e);
    size_t before = mem_live_bytes();
    expect(HEARTH_NO_MEMORY, hearth_engine_create(&engine, runtime, model, NULL, &e), &e,
           "transposed copies of the down matrices: ");
    assert_int_equal(mem_live_bytes(), before);
    close_engine(NULL, model, runtime);
}

/* How a long prompt is cut into slices, and so every byte of its logits, must not depend on the number of threads:
 * a wide model with a long context is where memory makes slices shorter. More threads then cost their own scores
 * [32 heads / 32][context] and sums of a chunk of columns, and nothing else. */
static void slices_do_not_depend_on_threads(void **state)
{
    (void)state;
    checkpoint source = {.path = "wide"};
    rotary pairs = {.pairs = 64};
    model_layer layer = {
        .attention = {.head_count = 32, .kv_head_count = 32, .head_length = 128, .value_length = 128, .rotary = &pairs},
        .ffn = {.neuron_count = 11008, .expert_neurons = 11008}};
    cached_keys cached = attention_keys(&layer.attention);
    hearth_model wide = {.source = &source,
                         .family = &families[0],
                         .layers = &layer,
                         .rotaries = &pairs,
                         .rotary_count = 1,
                         .hyper = {.layer_count = 1, .embedding_length = 4096, .context_length = 1 << 22}};
    uint64_t bytes[9];
    for (unsigned threads = 1; threads <= 8; threads *= 8) {
        hearth_runtime_options options = {.threads = threads};
        hearth_engine engine = {.model = &wide, .cached = &cached};
        hearth_memory memory;
        assert_int_equal(hearth_runtime_create(&engine.runtime, &options, NULL), HEARTH_OK);
        const hearth_session_options whole = {.context = 1 << 22}; /* without a wish it would be what fits */
        assert_int_equal(hearth_session_memory(&engine, &whole, &memory, NULL), HEARTH_OK);
        bytes[threads] = memory.scratch_bytes;
        hearth_runtime_destroy(engine.runtime);
    }
    uint64_t scores = (uint64_t)(1 << 22) * sizeof(float);
    uint64_t sums = (uint64_t)FFN_GROUP * ACCUMULATE_COLUMNS * sizeof(float);
    assert_int_equal(bytes[8] - bytes[1], 7 * (scores + sums));
}

/* Generation: the greedy answer of the golden, a token limit, a full context, cancelling by the reader. */
typedef struct reader {
    int32_t ids[64];
    size_t count, limit;
} reader;

static bool read_token(void *user, int32_t token, const char *text, size_t size)
{
    (void)text;
    (void)size;
    reader *r = user;
    if (token >= 0)
        r->ids[r->count++] = token;
    return r->count < r->limit;
}

static void generation(void **state)
{
    (void)state;
    golden g;
    stack s;
    hearth_error error;
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    golden_load(&g, "llama-relu");
    open_model(&s, (hearth_session_options){.context = 32, .kv = HEARTH_KV_F32});
    static const struct {
        uint32_t max_tokens;
        size_t limit, want;
        hearth_stop stop;
    } cases[] = {{5, 64, 5, HEARTH_STOP_LENGTH}, {0, 3, 3, HEARTH_STOP_CANCELLED}, {0, 64, 9, HEARTH_STOP_CONTEXT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_sampler *sampler;
        hearth_result result;
        reader r = {.limit = cases[i].limit};
        hearth_answer_options options = {.max_tokens = cases[i].max_tokens, .ignore_end = true};
        stack_check(hearth_sampler_create(&sampler, &greedy, g.vocabulary, &error), &error);
        assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
        stack_check(hearth_generate(s.session, 0, g.ids, g.prompt, sampler, &options, read_token, &r, &result, &error),
                    &error);
        assert_int_equal(result.stop, cases[i].stop);
        assert_int_equal(result.answer_tokens, cases[i].want);
        assert_int_equal(result.prompt_tokens, g.prompt);
        /* the session has read what the contract says: all but a token that was cut short */
        assert_int_equal(hearth_session_length(s.session, 0),
                         g.prompt + cases[i].want - (cases[i].stop != HEARTH_STOP_LENGTH));
        assert_memory_equal(r.ids, g.ids + g.prompt, cases[i].want * sizeof *r.ids);
        hearth_sampler_destroy(sampler);
    }
    stack_close(&s);
    golden_free(&g);
}

/* An answer is cancelled as a whole: also between two of its tokens, and not by a cancel that came before it. */
static void cancels_belong_to_an_answer(void **state)
{
    (void)state;
    golden g;
    stack s;
    hearth_error error;
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    golden_load(&g, "llama-relu");
    open_model(&s, (hearth_session_options){.context = 64, .kv = HEARTH_KV_F32});
    static const struct {
        unsigned at;
        size_t tokens;
        hearth_stop stop;
    } cases[] = {{3, 3, HEARTH_STOP_CANCELLED}, {0, 8, HEARTH_STOP_LENGTH}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_sampler *sampler;
        hearth_result result;
        canceller c = {s.session, 0, cases[i].at};
        const hearth_answer_options options = {.max_tokens = 8, .ignore_end = true};
        stack_check(hearth_sampler_create(&sampler, &greedy, g.vocabulary, &error), &error);
        assert_int_equal(hearth_session_truncate(s.session, 0, 0, NULL), HEARTH_OK);
        hearth_session_cancel(s.session);
        stack_check(
            hearth_generate(s.session, 0, g.ids, g.prompt, sampler, &options, cancel_at_a_token, &c, &result, &error),
            &error);
        assert_int_equal(result.stop, cases[i].stop);
        assert_int_equal(result.answer_tokens, cases[i].tokens);
        hearth_sampler_destroy(sampler);
    }
    stack_close(&s);
    golden_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_do_not_touch),
        cmocka_unit_test(few_sequences_change_nothing),
        cmocka_unit_test(slices_agree),
        cmocka_unit_test(state_moves),
        cmocka_unit_test(hidden_states),
        cmocka_unit_test(wrong_feeds),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(cancels_belong_to_a_feed),
        cmocka_unit_test(cancels_belong_to_an_answer),
        cmocka_unit_test(deterministic),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(memory_is_known_before),
        cmocka_unit_test(contexts_that_do_not_fit),
        cmocka_unit_test(copies_that_do_not_fit),
        cmocka_unit_test(slices_do_not_depend_on_threads),
        cmocka_unit_test(generation),
    };
    return run_group(tests, NULL, NULL);
}
