/* engine_device_faults.c - a device that fails, at every one of its calls in turn, and memory that runs out: a clear error,
 * sequences as they were, nothing leaked, never a hang and never a wrong byte. */
#include "placements.h"

#define MODEL GOLDEN "/llama-relu/model.gguf"
#define PWRI  GOLDEN "/pwri/bamboo/q4_0.gguf"
#define MAMBA GOLDEN "/nemotron-h-moe/model.gguf"
/* experts beside a network; several streams of the residual */
#define BESIDE  GOLDEN "/gemma4-moe/model.gguf"
#define STREAMS GOLDEN "/gemma3n/model.gguf"

/* Whatever hangs ends the program, with a signal that says so. */
enum { HANGS_AFTER_SECONDS = 250 };

/* Where everything takes five to twenty times as long, or drivers take long to open, not every call is the first to fail. */
#if defined __SANITIZE_THREAD__
enum { STEP_HOST = 11 };
#elif defined __SANITIZE_ADDRESS__
enum { STEP_HOST = 5 };
#else
enum { STEP_HOST = 1 };
#endif
enum { STEP_OTHERS = 23 };

static size_t step_for(const char *spec)
{
    return strncmp(spec, "host", 4) == 0 ? STEP_HOST : STEP_OTHERS;
}

/* ------------------------------------------------------------------ one attempt */

/* What was reached when something failed. */
typedef enum stage {
    AT_RUNTIME,
    AT_ENGINE,
    AT_SESSION,
    AT_OTHERS,
    AT_FIRST_FEED,
    AT_FEED,
    AT_LOGITS,
    AT_STATE,
    DONE
} stage;

enum { FIRST = STEP_ROWS + 2, SECOND = 1, VOCABULARY = 320 };

typedef struct attempt {
    const char *spec, *json; /* json: of the model */
    const hearth_model *model;
    hearth_mode mode;
    const hearth_observer *observer;
    stack s;
    hearth_checkpoint *saved;
    stage reached;
    float logits[VOCABULARY];
} attempt;

static hearth_status feed(attempt *a, size_t begin, size_t count, hearth_error *error)
{
    hearth_row rows[FIRST + SECOND];
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){(int32_t)(7 * (begin + i) + 1), 0, i + 1 == count};
    return hearth_session_feed(a->s.session, rows, count, error);
}

/* Sequences 1 and 2 have a text of their own before. */
enum { OTHERS = 2 };

static hearth_status feed_others(attempt *a, hearth_error *error)
{
    const hearth_row rows[2 * OTHERS] = {{9, 1, false}, {9, 2, false}, {5, 2, false}, {5, 1, false}};
    return hearth_session_feed(a->s.session, rows, 2 * OTHERS, error);
}

static hearth_status move_state(attempt *a, hearth_error *error)
{
    TRY(hearth_session_fork(a->s.session, 0, 1, error));
    TRY(hearth_session_save(a->s.session, 0, &a->saved, error));
    return hearth_session_restore(a->s.session, 2, a->saved, error);
}

/* From the runtime to logits and a checkpoint; a->reached says how far it came. */
static hearth_status go(attempt *a, hearth_error *error)
{
    hearth_runtime_options runtime = {.threads = 1, .device = a->spec};
    hearth_session_options options = {.context = 32, .sequences = 3};
    a->reached = AT_RUNTIME;
    TRY(hearth_runtime_create(&a->s.runtime, &runtime, error));
    a->reached = AT_ENGINE;
    TRY(try_engine(&a->s, a->json, a->mode, false, error));
    a->reached = AT_SESSION;
    TRY(hearth_session_create(&a->s.session, a->s.engine, &options, error));
    hearth_session_observe(a->s.session, a->observer);
    a->reached = AT_OTHERS;
    TRY(feed_others(a, error));
    a->reached = AT_FIRST_FEED;
    TRY(feed(a, 0, FIRST, error));
    a->reached = AT_FEED;
    TRY(feed(a, FIRST, SECOND, error));
    a->reached = AT_LOGITS;
    TRY(hearth_session_logits(a->s.session, 0, 1, a->logits, error));
    a->reached = AT_STATE;
    TRY(move_state(a, error));
    a->reached = DONE;
    return HEARTH_OK;
}

static void begin(attempt *a, hearth_model *model, const char *spec, const char *json, hearth_mode mode,
                  const hearth_observer *observer)
{
    *a = (attempt){.spec = spec, .json = json, .mode = mode, .observer = observer, .s = {.model = model}};
    hearth_model_describe(model, &a->s.info);
    assert_true(a->s.info.vocabulary_size <= VOCABULARY);
}

static void end(attempt *a)
{
    hearth_checkpoint_destroy(a->saved);
    close_placed(&a->s);
    if (a->s.runtime)
        assert_int_equal(device_used(a->s.runtime), 0);
    hearth_runtime_destroy(a->s.runtime);
}

/* Lengths of the sequences are those from before what failed; or nothing is left, where a copy into one failed. */
static void check_lengths(const attempt *a)
{
    static const uint32_t lengths[DONE + 1] = {
        [AT_FEED] = FIRST, [AT_LOGITS] = FIRST + SECOND, [AT_STATE] = FIRST + SECOND};
    if (!a->s.session)
        return;
    uint32_t others = a->reached > AT_OTHERS ? OTHERS : 0, whole = lengths[a->reached];
    uint32_t one = hearth_session_length(a->s.session, 1), two = hearth_session_length(a->s.session, 2);
    assert_int_equal(hearth_session_length(a->s.session, 0), whole);
    if (a->reached < AT_STATE) {
        assert_int_equal(one, others);
        assert_int_equal(two, others);
    } else {
        assert_true(one == 0 || one == whole);
        assert_int_equal(two, a->saved ? 0 : OTHERS);
    }
}

/* ------------------------------------------------------------------ a device that fails */

/* Calls outside of runs, by the words of their errors: nothing is lost with them. */
static bool is_harmless(const char *text)
{
    static const char *const words[] = {"sealing", "reading", "writing", "moving"};
    bool is = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= strstr(text, words[i]) != NULL;
    return is;
}

/* After an error in a run the device is lost, and says so whatever is asked of it; after others it goes on. Either way
 * what is left can be destroyed. */
static void check_afterwards(attempt *a, bool harmless)
{
    hearth_error error = {0};
    check_lengths(a);
    if (!a->s.session)
        return;
    uint32_t length = hearth_session_length(a->s.session, 0);
    hearth_status status = feed(a, length, 1, &error);
    if (harmless) {
        stack_check(status, &error);
        assert_int_equal(hearth_session_length(a->s.session, 0), length + 1);
        return;
    }
    assert_int_equal(status, HEARTH_DEVICE);
    assert_non_null(strstr(error.text, "lost"));
    assert_int_equal(hearth_session_length(a->s.session, 0), length);
    hearth_session *another = NULL;
    assert_int_equal(hearth_session_create(&another, a->s.engine, NULL, &error), HEARTH_DEVICE);
    assert_null(another);
}

static void fail_at_every_call(hearth_model *model, const char *spec, const char *json, hearth_mode mode,
                               const hearth_observer *observer)
{
    long live = mem_live();
    attempt whole, a;
    hearth_error error = {0};
    begin(&whole, model, spec, json, mode, observer);
    stack_check(go(&whole, &error), &error);
    end(&whole);
    unsigned stages = 0;
    for (size_t n = 0;; n += step_for(spec)) {
        begin(&a, model, spec, json, mode, observer);
        error.text[0] = 0;
        device_fail_at((long)n);
        hearth_status status = go(&a, &error);
        device_fail_at(-1);
        if (status == HEARTH_OK)
            break;
        if (status != HEARTH_DEVICE || !strstr(error.text, "injected fault"))
            fail_msg("%s, call %zu, stage %d: status %d, '%s'", spec, n, (int)a.reached, (int)status, error.text);
        stages |= 1u << a.reached;
        check_afterwards(&a, is_harmless(error.text));
        end(&a);
        assert_int_equal(mem_live(), live);
    }
    /* In the same process, another runtime gives the same bytes as if nothing had happened. */
    assert_memory_equal(a.logits, whole.logits, sizeof a.logits);
    end(&a);
    assert_int_equal(mem_live(), live);
    assert_true(step_for(spec) > 1 || stages == (1u << DONE) - 1); /* everywhere */
}

static void watch(void *user, const hearth_observation *o)
{
    (void)o;
    ++*(unsigned *)user;
}

static void every_call_fails(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        hearth_mode mode;
        placed_form first;
        bool observed;
    } cases[] = {
        {MODEL, HEARTH_MODE_EXACT, PLACED_SPLIT, false},       {MODEL, HEARTH_MODE_EXACT, PLACED_DEVICE, true},
        {PWRI, HEARTH_MODE_PREDICTED, PLACED_FFN_HOST, false}, {PWRI, HEARTH_MODE_PREDICTED, PLACED_SPLIT, true},
        {PWRI, HEARTH_MODE_DENSE, PLACED_DEVICE, false},       {MAMBA, HEARTH_MODE_DENSE, PLACED_SPLIT, false},
        {BESIDE, HEARTH_MODE_DENSE, PLACED_SPLIT, false},      {STREAMS, HEARTH_MODE_EXACT, PLACED_FFN_HOST, false}};
    const device_specs *specs = usable_devices();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        stack s;
        unsigned seen = 0;
        hearth_observer observer = {.see = watch, .user = &seen};
        open_placed_model(&s, NULL, cases[c].path);
        placed_shape shape = shape_of(&s, cases[c].mode);
        char *json = mixed_placement(&shape, cases[c].first, 2);
        for (size_t i = 0; i < specs->count; i++)
            fail_at_every_call(s.model, specs->text[i], json, cases[c].mode, cases[c].observed ? &observer : NULL);
        assert_true(!cases[c].observed || seen > 0);
        hearth_model_close(s.model);
        free(json);
    }
}

/* ------------------------------------------------------------------ memory that runs out */

/* The n-th allocation fails, and all after it: anywhere from the runtime to the checkpoint. */
static void fail_at_every_allocation(hearth_model *model, const char *spec, const char *json)
{
    unsigned seen = 0, stages = 0;
    hearth_observer observer = {.see = watch, .user = &seen};
    long live = mem_live(), step = (long)step_for(spec), n = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; n += step) {
        attempt a;
        hearth_error error = {0};
        begin(&a, model, spec, json, HEARTH_MODE_EXACT, &observer);
        mem_fail_at(n);
        status = go(&a, &error);
        mem_fail_at(-1);
        if (status != HEARTH_OK && (status != HEARTH_NO_MEMORY || !strstr(error.text, "memory")))
            fail_msg("%s, allocation %ld: status %d, '%s'", spec, n, (int)status, error.text);
        stages |= 1u << a.reached;
        if (status != HEARTH_OK && a.s.session) { /* nothing is lost */
            check_lengths(&a);
            stack_check(feed(&a, hearth_session_length(a.s.session, 0), 1, &error), &error);
        }
        end(&a);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 100);
    /* The first feed allocates, since an observer is new, and so do logits that are asked for the first time; other feeds
     * do not. */
    unsigned never = 1u << AT_FIRST_FEED | 1u << AT_FEED;
    assert_false(stages & never);
    assert_true(step > 1 || (stages | never) == (1u << (DONE + 1)) - 1);
}

static void every_allocation_fails(void **state)
{
    (void)state;
    static const char *const paths[] = {MODEL, STREAMS};
    const device_specs *specs = usable_devices();
    for (size_t c = 0; c < sizeof paths / sizeof *paths; c++) {
        stack s;
        open_placed_model(&s, NULL, paths[c]);
        placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
        char *json = mixed_placement(&shape, PLACED_SPLIT, 2);
        for (size_t i = 0; i < specs->count; i++)
            fail_at_every_allocation(s.model, specs->text[i], json);
        fail_at_every_allocation(s.model, "host,threads=2", json);
        hearth_model_close(s.model);
        free(json);
    }
}

/* While it runs nothing is allocated, on either side. */
static void feeding_allocates_nothing(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        attempt a;
        hearth_error error;
        open_placed_model(&s, NULL, PWRI);
        placed_shape shape = shape_of(&s, HEARTH_MODE_PREDICTED);
        char *json = mixed_placement(&shape, PLACED_SPLIT, 2);
        begin(&a, s.model, specs->text[i], json, HEARTH_MODE_PREDICTED, NULL);
        stack_check(go(&a, &error), &error);
        long live = mem_live();
        mem_fail_at(0);
        hearth_status status = feed(&a, FIRST + SECOND, FIRST, &error);
        if (status == HEARTH_OK)
            status = feed(&a, FIRST + SECOND + FIRST, 1, &error);
        if (status == HEARTH_OK)
            status = hearth_session_logits(a.s.session, 0, 1, a.logits, &error);
        mem_fail_at(-1);
        stack_check(status, &error);
        assert_int_equal(mem_live(), live);
        end(&a);
        hearth_model_close(s.model);
        free(json);
    }
}

/* ------------------------------------------------------------------ no device at all */

static void no_device(void **state)
{
    (void)state;
    stack s;
    hearth_error error = {0};
    hearth_device_info info;
    open_placed_model(&s, open_runtime(NULL, 1), MODEL);
    assert_false(hearth_runtime_device(s.runtime, &info));
    placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
    long live = mem_live();
    for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++) {
        char *json = mixed_placement(&shape, first, 2);
        assert_int_equal(try_engine(&s, json, HEARTH_MODE_EXACT, false, &error), HEARTH_INVALID);
        assert_null(s.engine);
        assert_string_equal(error.text, "placement: side device0: the runtime has no device");
        assert_int_equal(mem_live(), live);
        free(json);
    }
    /* Sides that nothing is laid on do no harm. */
    char *json = draw_placement(&shape, 0);
    stack_check(try_engine(&s, json, HEARTH_MODE_EXACT, false, &error), &error);
    hearth_engine_destroy(s.engine);
    free(json);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
}

typedef struct patience {
    unsigned calls, limit;
    bool uploaded; /* bytes to the device were among what was reported */
} patience;

static bool impatient(void *user, const char *what, uint64_t done, uint64_t total)
{
    patience *p = user;
    assert_true(done <= total);
    p->uploaded |= strstr(what, "device") != NULL;
    return ++p->calls != p->limit;
}

/* Uploading weights can be cancelled at every report. */
static void cancelling_the_engine(void **state)
{
    (void)state;
    stack s;
    hearth_placement *placement;
    hearth_error error;
    open_placed_model(&s, open_runtime("host", 1), MODEL);
    placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
    char *json = mixed_placement(&shape, PLACED_SPLIT, 2);
    stack_check(hearth_placement_parse(&placement, s.model, json, strlen(json), &error), &error);
    long live = mem_live();
    hearth_status status = HEARTH_CANCELLED;
    patience p = {0};
    for (unsigned limit = 1; status != HEARTH_OK; limit++) {
        p = (patience){.limit = limit};
        hearth_engine_options options = {.placement = placement, .progress = {impatient, &p}};
        status = hearth_engine_create(&s.engine, s.runtime, s.model, &options, &error);
        if (status != HEARTH_OK) {
            assert_int_equal(status, HEARTH_CANCELLED);
            assert_int_equal(p.calls, limit);
            assert_int_equal(device_used(s.runtime), 0);
            assert_int_equal(mem_live(), live);
        }
    }
    assert_true(p.uploaded && p.calls > 10);
    hearth_engine_destroy(s.engine);
    hearth_placement_destroy(placement);
    free(json);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails),          cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(feeding_allocates_nothing), cmocka_unit_test(no_device),
        cmocka_unit_test(cancelling_the_engine),
    };
    alarm(HANGS_AFTER_SECONDS);
    return run_group(tests, NULL, NULL);
}
