/* engine_device_stream.c - the CPU's neurons streamed to a device in long steps: the logits of the CPU alone, whatever the
 * layers are made of, wherever they lie and however they are cut into parts; the same counts; failures, cancelling and budgets;
 * and copies that run while the device computes. */
#include "../src/base/memory.h"
#include "../src/engine/device_state.h"

#include "placements.h"

enum { LONG = PROMPT_ROWS + 2, LAST = 24, SEQUENCES = 9 };

#define RELU GOLDEN "/llama-relu-gqa/model.gguf"

/* How a session of a test streams. */
typedef struct streaming {
    hearth_stream how;
    uint64_t bytes; /* of a buffer; 0: the default */
} streaming;

static const streaming off = {HEARTH_STREAM_OFF, 0}, on = {HEARTH_STREAM_ON, 0};

static hearth_session_options options_with(uint32_t batch)
{
    return (hearth_session_options){
        .context = 64, .sequences = SEQUENCES, .batch = batch, .output_rows = LAST, .kv = HEARTH_KV_F32};
}

static hearth_status try_streaming(stack *s, const char *json, hearth_mode mode, streaming st,
                                   const hearth_session_options *options, hearth_error *error)
{
    hearth_placement *placement;
    TRY(json ? hearth_placement_parse(&placement, s->model, json, strlen(json), error)
             : hearth_placement_create(&placement, s->model, mode, error));
    hearth_engine_options engine = {
        .placement = placement, .activations = HEARTH_ACTIVATIONS_F32, .stream = st.how, .stream_bytes = st.bytes};
    hearth_status status = hearth_engine_create(&s->engine, s->runtime, s->model, &engine, error);
    hearth_placement_destroy(placement);
    TRY(status);
    return hearth_session_create(&s->session, s->engine, options, error);
}

static void open_streaming(stack *s, const char *json, hearth_mode mode, streaming st, hearth_session_options options)
{
    hearth_error error;
    stack_check(try_streaming(s, json, mode, st, &options, &error), &error);
}

/* Feeds rows of the sequences in turn, in two feeds: one of a row more than a long step, and one of a row. */
static hearth_status try_prompt(stack *s, float *logits, hearth_error *error)
{
    static hearth_row rows[LONG];
    size_t v = s->info.vocabulary_size;
    uint32_t seed = 8;
    for (uint32_t i = 0; i < LONG; i++)
        rows[i] = (hearth_row){(int32_t)draw(&seed, s->info.vocabulary_size), i % SEQUENCES, i + LAST >= LONG};
    TRY(hearth_session_feed(s->session, rows, LONG - 1, error));
    TRY(hearth_session_logits(s->session, 0, LAST - 1, logits, error));
    TRY(hearth_session_feed(s->session, rows + LONG - 1, 1, error));
    return hearth_session_logits(s->session, 0, 1, logits + (LAST - 1) * v, error);
}

static void read_prompt(stack *s, float *logits)
{
    hearth_error error;
    stack_check(try_prompt(s, logits, &error), &error);
}

/* A placement of all layers but the third: split and ffn-host in turn, beginning with `first`; the third is whole on the
 * device. Freed with free. */
static char *streamable_placement(const stack *s, hearth_mode mode, placed_form first)
{
    placed_form forms[MOST_LAYERS];
    placed_shape shape = shape_of(s, mode);
    uint32_t seed = 5;
    for (uint32_t i = 0; i < s->info.layer_count; i++)
        forms[i] = i == 2 ? PLACED_DEVICE : (i % 2 == 0) == (first == PLACED_SPLIT) ? PLACED_SPLIT : PLACED_FFN_HOST;
    return print_placed(&shape, forms, true, true, &seed);
}

static float *new_logits(const stack *s)
{
    return malloc(LAST * (size_t)s->info.vocabulary_size * sizeof(float));
}

static bool has_streamed(const stack *s)
{
    return s->session->device->programs[PROGRAM_STREAMED] != NULL;
}

/* ------------------------------------------------------------------ the same answer */

static void expect_near(const stack *s, const char *what, const float *want, const float *got, double bound)
{
    double distance = relative_l2(got, want, LAST * (size_t)s->info.vocabulary_size);
    if (!(distance <= bound))
        fail_msg("%s: %.2e from %s, at most %.0e expected", s->info.path, distance, what, bound);
}

/* Shares of neurons that fire may differ where a sum is within rounding of zero. */
static void expect_counts(const stack *s, const hearth_counts *want)
{
    for (uint32_t i = 0; i < s->info.layer_count; i++) {
        hearth_counts got;
        assert_int_equal(hearth_session_counts(s->session, i, &got, NULL), HEARTH_OK);
        assert_int_equal(got.rows, want[i].rows);
        assert_int_equal(got.computed, want[i].computed);
        assert_true(fabs((double)got.fired - (double)want[i].fired) <= 1e-4 * (double)want[i].computed);
        assert_true(fabs((double)got.active - (double)want[i].active) <= 1e-4 * (double)want[i].computed);
    }
}

/* The prompt by the CPU alone, and by both sides: without streaming, and streamed in parts of all neurons, and of so few that
 * they do not divide evenly. */
static void check_prompt(const char *spec, const char *path, hearth_mode mode, double bound)
{
    stack s;
    open_placed_model(&s, open_runtime(spec, 1), path);
    float *want = new_logits(&s), *got = new_logits(&s);
    hearth_counts counts[MOST_LAYERS];
    open_streaming(&s, NULL, mode, off, options_with(0));
    read_prompt(&s, want);
    close_placed(&s);
    for (placed_form first = PLACED_FFN_HOST; first <= PLACED_SPLIT; first++) {
        char *json = streamable_placement(&s, mode, first);
        open_streaming(&s, json, mode, off, options_with(0));
        read_prompt(&s, got);
        assert_false(has_streamed(&s));
        expect_near(&s, "the CPU alone", want, got, bound);
        for (uint32_t i = 0; i < s.info.layer_count; i++)
            assert_int_equal(hearth_session_counts(s.session, i, &counts[i], NULL), HEARTH_OK);
        const uint32_t neurons[] = {UINT32_MAX, 40, TILE_ROWS + 5};
        for (size_t k = 0; k < sizeof neurons / sizeof *neurons; k++) {
            streaming st = {HEARTH_STREAM_ON, device_stream_bytes_for(s.engine, neurons[k])};
            assert_true(st.bytes > 0);
            close_placed(&s);
            open_streaming(&s, json, mode, st, options_with(k == 1 ? 50 : 0));
            read_prompt(&s, got);
            assert_true(has_streamed(&s));
            uint32_t parts = device_stream_first(s.session, s.info.layer_count);
            assert_true(neurons[k] < 100 ? parts > 2 : parts > 0);
            expect_near(&s, "the CPU alone", want, got, bound);
            expect_counts(&s, counts);
        }
        close_placed(&s);
        free(json);
    }
    assert_int_equal(device_used(s.runtime), 0);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
    free(want);
    free(got);
}

/* Float32 weights differ in the order of additions alone; others are decoded in the same way. Cases that are not for every
 * device are about what layers are made of, which is nothing to ThreadSanitizer. */
static void streamed_prompts(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        hearth_mode mode;
        double bound;
        bool everywhere;
    } cases[] = {
        {RELU, HEARTH_MODE_EXACT, 1e-5, true},
        {RELU, HEARTH_MODE_DENSE, 1e-5, false},
        {GOLDEN "/pwri/bamboo/f32.gguf", HEARTH_MODE_EXACT, 1e-5, false},
        {GOLDEN "/pwri/bamboo/f16.gguf", HEARTH_MODE_EXACT, 2e-3, true},
        {GOLDEN "/pwri/llama/q4_0.gguf", HEARTH_MODE_EXACT, 2e-3, true},
        {HEARTH_MODELS "/stories-relu-q8_0.gguf", HEARTH_MODE_EXACT, 2e-3, true},
        /* activations without zeros; plain networks with biases; parallel blocks; norms after blocks, and only there */
        {GOLDEN "/llama/model.gguf", HEARTH_MODE_DENSE, 1e-5, false},
        {GOLDEN "/opt/model.gguf", HEARTH_MODE_EXACT, 1e-5, true},
        {GOLDEN "/gpt2/model.gguf", HEARTH_MODE_DENSE, 1e-5, false},
        {GOLDEN "/falcon-7b/model.gguf", HEARTH_MODE_DENSE, 1e-5, false},
        {GOLDEN "/gemma2/model.gguf", HEARTH_MODE_DENSE, 1e-5, false},
        {GOLDEN "/olmo2/model.gguf", HEARTH_MODE_DENSE, 1e-5, false}};
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            if (cases[c].everywhere || (!host_only && strncmp(specs->text[i], "host", 4) == 0))
                check_prompt(specs->text[i], cases[c].path, cases[c].mode, cases[c].bound);
}

/* ------------------------------------------------------------------ what is not streamed */

/* Opens a model, placed for streaming as `st` says. Returns the placement, to be freed. */
static char *open_placement(stack *s, const char *spec, const char *path, hearth_mode mode, streaming st,
                            hearth_session_options options)
{
    open_placed_model(s, open_runtime(spec, 1), path);
    char *json = streamable_placement(s, mode, PLACED_SPLIT);
    open_streaming(s, json, mode, st, options);
    return json;
}

static void close_placement(stack *s, char *json)
{
    close_placed(s);
    hearth_model_close(s->model);
    hearth_runtime_destroy(s->runtime);
    free(json);
}

static void see_nothing(void *user, const hearth_observation *o)
{
    (void)o;
    ++*(unsigned *)user;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        hearth_mode mode;
        streaming st;
        uint32_t batch;
        const char *why;
    } cases[] = {{RELU, HEARTH_MODE_EXACT, {HEARTH_STREAM_OFF, 0}, 0, "as asked"},
                 {RELU, HEARTH_MODE_EXACT, {HEARTH_STREAM_AUTO, 0}, 0, "the CPU's cores"},
                 {RELU, HEARTH_MODE_EXACT, {HEARTH_STREAM_ON, 0}, STEP_ROWS, "no long steps"},
                 {RELU, HEARTH_MODE_EXACT, {HEARTH_STREAM_ON, 64}, 0, "do not fit"},
                 {GOLDEN "/pwri/llama/f16.gguf", HEARTH_MODE_PREDICTED, {HEARTH_STREAM_ON, 0}, 0, "no layer"},
                 {GOLDEN "/mixtral/model.gguf", HEARTH_MODE_DENSE, {HEARTH_STREAM_ON, 0}, 0, "no layer"},
                 {GOLDEN "/bitnet/model.gguf", HEARTH_MODE_DENSE, {HEARTH_STREAM_ON, 0}, 0, "no layer"}};
    stack s;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *json =
            open_placement(&s, "host", cases[c].path, cases[c].mode, cases[c].st, options_with(cases[c].batch));
        assert_int_equal(s.session->stream_bytes, 0);
        if (!s.session->stream_refusal || !strstr(s.session->stream_refusal, cases[c].why))
            fail_msg("%s: '%s' expected", s.info.path, cases[c].why);
        assert_int_equal(s.session->device->stream_least, 0);
        close_placement(&s, json);
    }
    /* Observers get short steps; when they are gone, it streams. */
    unsigned seen = 0;
    hearth_observer observer = {.see = see_nothing, .user = &seen};
    char *json = open_placement(&s, "host", RELU, HEARTH_MODE_EXACT, on, options_with(0));
    float *observed = new_logits(&s), *streamed = new_logits(&s);
    hearth_session_observe(s.session, &observer);
    read_prompt(&s, observed);
    assert_true(seen > 0 && !has_streamed(&s));
    hearth_session_observe(s.session, NULL);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(hearth_session_truncate(s.session, i, 0, NULL), HEARTH_OK);
    read_prompt(&s, streamed);
    assert_true(has_streamed(&s));
    expect_near(&s, "short steps", observed, streamed, 1e-5);
    free(observed);
    free(streamed);
    close_placement(&s, json);
}

/* ------------------------------------------------------------------ failures */

static bool stop_at_half(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    bool *stops = user;
    return !*stops || done < total / 2;
}

/* A feed that is cancelled in the middle of a streamed step changes nothing. */
static void cancelling(const char *spec)
{
    stack s;
    bool stops = false;
    hearth_error error;
    hearth_session_options options = options_with(0);
    options.progress = (hearth_progress){stop_at_half, &stops};
    char *json = open_placement(&s, spec, RELU, HEARTH_MODE_EXACT, on, options);
    float *want = new_logits(&s), *got = new_logits(&s);
    read_prompt(&s, want);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(hearth_session_truncate(s.session, i, 0, NULL), HEARTH_OK);
    stops = true;
    assert_int_equal(try_prompt(&s, got, &error), HEARTH_CANCELLED);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(hearth_session_length(s.session, i), 0);
    stops = false;
    read_prompt(&s, got);
    assert_memory_equal(want, got, LAST * s.info.vocabulary_size * sizeof *got);
    free(want);
    free(got);
    close_placement(&s, json);
}

/* Every command of the streamed step fails once, all after it as well: the session is as before the feed. */
static void failing(const char *spec)
{
    stack s;
    hearth_error error;
    size_t failures = 0;
    float *logits = NULL;
    long step = strncmp(spec, "host", 4) == 0 ? 7 : 19;
    for (long n = 0;; n += step) {
        long live = mem_live();
        streaming st = {HEARTH_STREAM_ON, 20000};
        char *json = open_placement(&s, spec, RELU, HEARTH_MODE_EXACT, st, options_with(0));
        logits = logits ? logits : new_logits(&s);
        device_fail_at(n);
        hearth_status status = try_prompt(&s, logits, &error);
        device_fail_at(-1);
        bool fed = hearth_session_length(s.session, 0) + hearth_session_length(s.session, 1) > 0;
        if (status != HEARTH_OK && (status != HEARTH_DEVICE || !strstr(error.text, "injected fault")))
            fail_msg("%s, call %ld: status %d, '%s'", spec, n, (int)status, error.text);
        failures += status != HEARTH_OK && !fed;
        close_placement(&s, json);
        assert_int_equal(mem_live(), live);
        if (status == HEARTH_OK)
            break;
    }
    assert_true(failures > (step < 10 ? 10 : 3));
    free(logits);
}

static void failures(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        cancelling(specs->text[i]);
        failing(specs->text[i]);
    }
}

/* ------------------------------------------------------------------ memory */

/* Opens a session in a budget and reads; what it takes is what was said, and within the budget. Returns stream_bytes. */
static uint64_t bytes_in(uint64_t budget, const float *want)
{
    stack s;
    char limited[64];
    hearth_memory memory;
    hearth_session_options options = options_with(0);
    snprintf(limited, sizeof limited, "host,memory=%llu", (unsigned long long)budget);
    char *json = open_placement(&s, limited, RELU, HEARTH_MODE_EXACT, on, options);
    float *got = new_logits(&s);
    read_prompt(&s, got);
    expect_near(&s, "another budget", want, got, 1e-5);
    assert_int_equal(hearth_session_memory(s.engine, &options, &memory, NULL), HEARTH_OK);
    uint64_t used = device_used(s.runtime), bytes = s.session->stream_bytes;
    assert_true(used <= budget);
    assert_true(bytes > 0 || strstr(s.session->stream_refusal, "do not fit") || s.session->batch <= STEP_ROWS);
    assert_true(bytes == 0 || s.session->device->stream_least == STEP_ROWS + 1);
    /* What is left of the budget while the session is there decides what another one would get. */
    hearth_session_destroy(s.session);
    s.session = NULL;
    assert_int_equal(hearth_session_memory(s.engine, &options, &memory, NULL), HEARTH_OK);
    assert_int_equal(memory.device_bytes, used);
    free(got);
    close_placement(&s, json);
    return bytes;
}

static void budgets(void **state)
{
    (void)state;
    stack s;
    hearth_memory with, without, least;
    hearth_session_options options = options_with(0), shortest = options_with(STEP_ROWS);
    char *json = open_placement(&s, "host", RELU, HEARTH_MODE_EXACT, off, options);
    float *want = new_logits(&s);
    read_prompt(&s, want);
    close_placed(&s);
    open_streaming(&s, json, HEARTH_MODE_EXACT, off, options);
    hearth_session_destroy(s.session);
    s.session = NULL;
    assert_int_equal(hearth_session_memory(s.engine, &options, &without, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_memory(s.engine, &shortest, &least, NULL), HEARTH_OK);
    close_placed(&s);
    open_streaming(&s, json, HEARTH_MODE_EXACT, on, options);
    uint64_t whole = s.session->stream_bytes;
    hearth_session_destroy(s.session);
    s.session = NULL;
    assert_int_equal(hearth_session_memory(s.engine, &options, &with, NULL), HEARTH_OK);
    /* Both places of both buffers are counted before they are taken. */
    assert_true(whole > 0 && with.device_bytes >= without.device_bytes + STREAM_BUFFERS * whole);
    assert_true(with.scratch_bytes >= without.scratch_bytes + STREAM_BUFFERS * whole);
    close_placement(&s, json);
    /* Smaller and smaller budgets, down to one that has room for short steps alone. */
    unsigned smaller = 0;
    assert_int_equal(bytes_in(32 * with.device_bytes, want), whole);
    for (uint64_t budget = 32 * with.device_bytes; budget > least.device_bytes; budget = budget / 4 * 3) {
        uint64_t bytes = bytes_in(budget, want);
        assert_true(bytes <= whole);
        smaller += bytes > 0 && bytes < whole;
    }
    assert_true(smaller > 0);
    assert_int_equal(bytes_in(least.device_bytes, want), 0);
    free(want);
}

/* ------------------------------------------------------------------ when it pays */

static void break_even(void **state)
{
    (void)state;
    /* The CPU takes a unit for a neuron and row, the device a tenth; copying as long as the CPU takes for 40 rows. */
    stream_figures f = {.pack_seconds = 10, .copy_seconds = 40, .cpu_seconds = 1, .device_seconds = 0.1};
    assert_int_equal(device_stream_least_rows(&f, 0, 1000), 48);
    f.pack_seconds = 70; /* then packing is what it waits for */
    assert_int_equal(device_stream_least_rows(&f, 0, 1000), 80);
    f.pack_seconds = 1000; /* more than any step gains */
    assert_int_equal(device_stream_least_rows(&f, 0, 1000), 0);
    f = (stream_figures){.pack_seconds = 1, .copy_seconds = 1, .cpu_seconds = 1, .device_seconds = 0.1};
    assert_int_equal(device_stream_least_rows(&f, 0, 1000), STREAM_ROWS);
    /* The device has nine times as many neurons itself: it is as busy as the CPU, and would have to do all. */
    assert_int_equal(device_stream_least_rows(&f, 9000, 1000), 0);
    f.device_seconds = 2; /* a device that is slower than the CPU */
    assert_int_equal(device_stream_least_rows(&f, 0, 1000), 0);
}

static void measuring(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        stream_figures f = {0};
        hearth_error error;
        char *json = open_placement(&s, specs->text[i], RELU, HEARTH_MODE_EXACT, on, options_with(0));
        float *want = new_logits(&s), *got = new_logits(&s);
        read_prompt(&s, want);
        close_placed(&s);
        open_streaming(&s, json, HEARTH_MODE_EXACT, on, options_with(0));
        stack_check(device_stream_measure(s.session, &f, &error), &error);
        print_message(
            "%s: a neuron takes %.3g us to pack, %.3g us to copy; of a row %.3g ns on the CPU, %.3g ns there\n",
            specs->text[i], 1e6 * f.pack_seconds, 1e6 * f.copy_seconds, 1e9 * f.cpu_seconds, 1e9 * f.device_seconds);
        const double each[] = {f.pack_seconds, f.copy_seconds, f.cpu_seconds, f.device_seconds};
        for (size_t k = 0; k < sizeof each / sizeof *each; k++)
            assert_true(each[k] > 0 && each[k] < 1);
        read_prompt(&s, got); /* nothing of it is left behind */
        assert_memory_equal(want, got, LAST * s.info.vocabulary_size * sizeof *got);
        free(want);
        free(got);
        close_placement(&s, json);
    }
}

/* Left to choose, sessions on a GPU measure once for their engine, and others not at all. */
static void choosing(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    const streaming choose = {HEARTH_STREAM_AUTO, 0};
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        device_info info;
        hearth_error error;
        hearth_session_options options = options_with(0);
        char *json = open_placement(&s, specs->text[i], RELU, HEARTH_MODE_EXACT, choose, options);
        const device_weights *w = s.engine->uploaded;
        device_describe(w->device, &info);
        assert_int_equal(w->stream_measured, info.is_gpu);
        assert_int_equal(s.session->stream_bytes > 0, info.is_gpu);
        stream_figures first = w->stream;
        uint32_t least = s.session->device->stream_least;
        assert_true(info.is_gpu ? least % STREAM_ROWS == 0 && least <= PROMPT_ROWS : least == 0);
        hearth_session_destroy(s.session);
        stack_check(hearth_session_create(&s.session, s.engine, &options, &error), &error);
        assert_memory_equal(&first, &w->stream, sizeof first);
        assert_int_equal(s.session->device->stream_least, least);
        close_placement(&s, json);
    }
}

/* What is measured to choose is nobody's text: hot sets do not see it. */
static void measuring_is_not_counted(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    const streaming choose = {HEARTH_STREAM_AUTO, 0};
    const hearth_hot_options follow = {.how = HEARTH_HOT_SET_ADAPTIVE};
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        device_info info;
        hearth_error error;
        hearth_hot_report report;
        hearth_session_options options = options_with(0);
        char *json = open_placement(&s, specs->text[i], RELU, HEARTH_MODE_EXACT, choose, options);
        device_describe(s.engine->uploaded->device, &info);
        hearth_session_destroy(s.session);
        stack_check(hearth_engine_follow(s.engine, &follow, &error), &error);
        s.engine->uploaded->stream_measured = false;
        stack_check(hearth_session_create(&s.session, s.engine, &options, &error), &error);
        assert_int_equal(s.engine->uploaded->stream_measured, info.is_gpu);
        stack_check(hearth_engine_hot_set(s.engine, &report, &error), &error);
        assert_true(report.layers > 0);
        assert_int_equal(report.active, 0);
        close_placement(&s, json);
    }
}

/* ------------------------------------------------------------------ overlap */

enum { MOST_SPANS = 4096 };

typedef struct spans {
    hearth_span all[MOST_SPANS];
    size_t count;
} spans;

static void keep_span(void *user, const hearth_span *s)
{
    spans *seen = user;
    assert_true(seen->count < MOST_SPANS);
    seen->all[seen->count++] = *s;
}

/* Lists the spans of a kind in the order in which they were reported. */
static size_t pick(const spans *from, const char *side, const char *what, const hearth_span *out[MOST_SPANS])
{
    size_t n = 0;
    for (size_t i = 0; i < from->count; i++)
        if (strcmp(from->all[i].side, side) == 0 && strcmp(from->all[i].what, what) == 0)
            out[n++] = &from->all[i];
    return n;
}

/* On a host that computes and copies at a twentieth of its speed: part n is computed after its copy; its buffer is filled again
 * after that; and copies begin while the part before is computed. */
static void copies_overlap(void **state)
{
    (void)state;
    static spans seen;
    static const hearth_span *copies[MOST_SPANS], *computed[MOST_SPANS], *packed[MOST_SPANS];
    stack s;
    hearth_session_options options = options_with(0);
    options.tracer = (hearth_tracer){keep_span, &seen};
    streaming st = {HEARTH_STREAM_ON, 0};
    char *json = open_placement(&s, "host", RELU, HEARTH_MODE_EXACT, st, options);
    st.bytes = device_stream_bytes_for(s.engine, 24);
    close_placement(&s, json);
    json = open_placement(&s, "host,speed=0.05", RELU, HEARTH_MODE_EXACT, st, options);
    float *logits = new_logits(&s);
    read_prompt(&s, logits);
    size_t parts = device_stream_first(s.session, s.info.layer_count), overlap = 0;
    size_t n = pick(&seen, "bus", "copy", copies);
    assert_int_equal(pick(&seen, "device0", "streamed", computed), n);
    assert_true(pick(&seen, "cpu", "stream", packed) > 0);
    assert_int_equal(n, parts); /* of the one long step; two steps of one row follow */
    assert_true(parts > 4);
    for (size_t i = 0; i < n; i++) {
        assert_true(copies[i]->end <= computed[i]->begin);
        assert_true(i < STREAM_BUFFERS || computed[i - STREAM_BUFFERS]->end <= copies[i]->begin);
        overlap += i > 0 && copies[i]->begin < computed[i - 1]->end;
    }
    assert_true(overlap >= (n - 1) / 2);
    free(logits);
    close_placement(&s, json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_prompts), cmocka_unit_test(refusals),
        cmocka_unit_test(failures),         cmocka_unit_test(budgets),
        cmocka_unit_test(break_even),       cmocka_unit_test(measuring),
        cmocka_unit_test(choosing),         cmocka_unit_test(measuring_is_not_counted),
        cmocka_unit_test(copies_overlap),
    };
    return run_group(tests, NULL, NULL);
}
