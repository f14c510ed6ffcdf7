/* engine_device_prompt.c - prompts that a device reads in long steps: the logits of the CPU and of short steps,
 * whatever the layers are made of and wherever they lie; and budgets that have no room for long steps. */
#include "../src/engine/engine.h"

#include "placements.h"

/* More than one long step, and then some; and how many of them are compared, the last one after a step of one row. */
enum { LONG = PROMPT_ROWS + 37, LAST = 40, SEQUENCES = 6 };

#define RELU    GOLDEN "/llama-relu-gqa/model.gguf"
#define PWRI    GOLDEN "/pwri/llama/q4_0.gguf"
#define PLAIN   GOLDEN "/pwri/bamboo/f16.gguf"
#define EXPERTS GOLDEN "/mixtral/model.gguf"
/* Recurrent layers of both rules; others have attention, or experts. */
#define MAMBA  GOLDEN "/nemotron-h-moe/model.gguf"
#define DELTA  GOLDEN "/qwen3-5-moe/model.gguf"
#define LATENT GOLDEN "/glm4-moe-lite/model.gguf"

static hearth_session_options options_with(uint32_t batch)
{
    return (hearth_session_options){
        .context = 120, .sequences = SEQUENCES, .batch = batch, .output_rows = LAST, .kv = HEARTH_KV_F32};
}

/* Reads rows of all sequences, two of each in turn, one feed for the prompt and one for a token: logits [LAST][vocabulary]. */
static void read_prompt(stack *s, float *logits)
{
    static hearth_row rows[LONG + 1];
    size_t v = s->info.vocabulary_size;
    hearth_error error;
    uint32_t seed = 8;
    for (size_t i = 0; i <= LONG; i++)
        rows[i] = (hearth_row){(int32_t)draw(&seed, s->info.vocabulary_size), (uint32_t)(i + 1) / 2 % SEQUENCES,
                               i + LAST > LONG};
    stack_check(hearth_session_feed(s->session, rows, LONG, &error), &error);
    stack_check(hearth_session_logits(s->session, 0, LAST - 1, logits, &error), &error);
    stack_check(hearth_session_feed(s->session, rows + LONG, 1, &error), &error);
    stack_check(hearth_session_logits(s->session, 0, 1, logits + (LAST - 1) * v, &error), &error);
}

/* How far the best logit is above the second best. */
static float margin(const float *logits, size_t n)
{
    size_t best = (size_t)argmax(logits, n);
    float second = -INFINITY;
    for (size_t i = 0; i < n; i++)
        second = i != best && logits[i] > second ? logits[i] : second;
    return logits[best] - second;
}

static void expect_near(const stack *s, placed_form first, const char *what, const float *want, const float *got,
                        double bound)
{
    size_t v = s->info.vocabulary_size;
    double distance = relative_l2(got, want, LAST * v);
    if (!(distance <= bound))
        fail_msg("%s, layer 0 of form %d: %.2e from %s, at most %.0e expected", s->info.path, (int)first, distance,
                 what, bound);
    for (size_t i = 0; i < LAST; i++)
        if (margin(want + i * v, v) > 1e-3f && argmax(want + i * v, v) != argmax(got + i * v, v))
            fail_msg("%s, layer 0 of form %d: row %zu: another token than %s", s->info.path, (int)first, i, what);
}

static void read_placed(stack *s, placed_form first, hearth_mode mode, uint32_t batch, float *logits)
{
    placed_shape shape = shape_of(s, mode);
    char *json = mixed_placement(&shape, first, 11 + (uint32_t)first);
    open_placed(s, json, mode, true, options_with(batch));
    assert_int_equal(s->session->batch, batch ? batch : PROMPT_ROWS);
    read_prompt(s, logits);
    close_placed(s);
    free(json);
}

/* Float32 activations, so that only the order of additions differs. A batch of 100 is cut into other tiles than one of
 * PROMPT_ROWS. */
static void check_prompt(stack *s, hearth_mode mode)
{
    static const uint32_t batches[] = {STEP_ROWS, 0, 100};
    size_t n = LAST * (size_t)s->info.vocabulary_size;
    float *want = malloc(n * sizeof *want), *few = malloc(n * sizeof *few), *got = malloc(n * sizeof *got);
    open_placed(s, NULL, mode, true, options_with(0));
    read_prompt(s, want);
    close_placed(s);
    for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            read_placed(s, first, mode, batches[i], i == 0 ? few : got);
            expect_near(s, first, "the CPU alone", want, i == 0 ? few : got, 1e-4);
            if (i > 0)
                expect_near(s, first, "short steps", few, got, 1e-5);
        }
    free(want);
    free(few);
    free(got);
}

static void long_steps(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        hearth_mode modes[2];
        size_t count;
    } cases[] = {{RELU, {HEARTH_MODE_EXACT, HEARTH_MODE_DENSE}, 2},
                 {PWRI, {HEARTH_MODE_PREDICTED, HEARTH_MODE_DENSE}, 2},
                 {PLAIN, {HEARTH_MODE_EXACT}, 1},
                 {EXPERTS, {HEARTH_MODE_DENSE}, 1},
                 {MAMBA, {HEARTH_MODE_DENSE}, 1},
                 {DELTA, {HEARTH_MODE_DENSE}, 1},
                 {LATENT, {HEARTH_MODE_DENSE}, 1}};
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            stack s;
            open_placed_model(&s, open_runtime(specs->text[i], 1), cases[c].path);
            for (size_t m = 0; m < cases[c].count; m++)
                check_prompt(&s, cases[c].modes[m]);
            assert_int_equal(device_used(s.runtime), 0);
            hearth_model_close(s.model);
            hearth_runtime_destroy(s.runtime);
        }
}

/* ------------------------------------------------------------------ budgets */

/* Returns the bytes of weights and a session with a batch, in the budget that the runtime has. */
static uint64_t bytes_with(const stack *s, uint32_t batch)
{
    hearth_memory memory;
    hearth_session_options options = options_with(batch);
    assert_int_equal(hearth_session_memory(s->engine, &options, &memory, NULL), HEARTH_OK);
    return memory.device_bytes;
}

/* Opens a session with the default batch in a budget, and reads. Returns the batch that it has. */
static uint32_t batch_in(const char *spec, uint64_t budget, const float *want)
{
    stack s;
    char limited[96];
    hearth_device_info info;
    snprintf(limited, sizeof limited, "%.63s,memory=%llu", spec, (unsigned long long)budget);
    open_placed_model(&s, open_runtime(limited, 1), RELU);
    placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
    char *json = mixed_placement(&shape, PLACED_DEVICE, 3);
    open_placed(&s, json, HEARTH_MODE_EXACT, true, options_with(0));
    uint32_t batch = s.session->batch;
    float *got = malloc(LAST * s.info.vocabulary_size * sizeof *got);
    read_prompt(&s, got);
    expect_near(&s, PLACED_DEVICE, "another budget", want, got, 1e-5);
    uint64_t used = device_used(s.runtime);
    assert_true(hearth_runtime_device(s.runtime, &info));
    assert_true(info.peak_bytes <= budget && info.peak_bytes == used);
    hearth_session_destroy(s.session);
    s.session = NULL;
    assert_int_equal(bytes_with(&s, 0), used);
    close_placed(&s);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
    free(json);
    free(got);
    return batch;
}

/* Long steps take a sixteenth of a budget at most, and are shorter where it has less room. */
static void check_room(const char *spec)
{
    stack s;
    open_placed_model(&s, open_runtime(spec, 1), RELU);
    placed_shape shape = shape_of(&s, HEARTH_MODE_EXACT);
    char *json = mixed_placement(&shape, PLACED_DEVICE, 3);
    open_placed(&s, json, HEARTH_MODE_EXACT, true, options_with(0));
    assert_int_equal(s.session->batch, PROMPT_ROWS);
    float *want = malloc(LAST * s.info.vocabulary_size * sizeof *want);
    read_prompt(&s, want);
    hearth_session_destroy(s.session);
    s.session = NULL;
    uint64_t least = bytes_with(&s, STEP_ROWS), some = bytes_with(&s, PROMPT_ROWS / 4), all = bytes_with(&s, 0);
    assert_true(least < some && some < all && all == bytes_with(&s, PROMPT_ROWS));
    assert_true(bytes_with(&s, 1) <= least);
    close_placed(&s);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
    assert_int_equal(batch_in(spec, least, want), STEP_ROWS);
    assert_true(batch_in(spec, all, want) < PROMPT_ROWS);
    assert_int_equal(batch_in(spec, 16 * (some - least), want), PROMPT_ROWS / 4);
    assert_int_equal(batch_in(spec, 16 * (all - least) - 1, want), PROMPT_ROWS / 2);
    assert_int_equal(batch_in(spec, 16 * (all - least), want), PROMPT_ROWS);
    free(json);
    free(want);
}

static void budgets_without_room(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        check_room(specs->text[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_steps),
        cmocka_unit_test(budgets_without_room),
    };
    return run_group(tests, NULL, NULL);
}
