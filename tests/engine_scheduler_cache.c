/* engine_scheduler_cache.c - a scheduler whose cache has fewer pages than full sequences take; and a storm of requests that
 * come, begin alike, are cancelled, run full and run out of memory, on the CPU and on every device, after which every token
 * of every answer, and the logits of its last one, are those that the session gives to that request alone.
 * HEARTH_STORM=N in the environment makes the storm N times as long. */
#include "../src/base/memory.h"
#include "../src/base/random.h"

#include "placements.h"
#include "requests.h"
#include "storms.h"

#define PAGE      128
#define RECURRENT GOLDEN "/nemotron-h/model.gguf"

static uint32_t pages_free(const stack *s)
{
    return (uint32_t)(hearth_session_free_positions(s->session) / PAGE);
}

/* Returns the placement of an open model whose layers are all on the device. */
static char *whole_on_device(const stack *s)
{
    placed_form forms[MOST_LAYERS];
    placed_shape shape = shape_of(s, HEARTH_MODE_DENSE);
    uint32_t cuts = 1;
    for (uint32_t i = 0; i < shape.layers; i++)
        forms[i] = PLACED_DEVICE;
    return print_placed(&shape, forms, false, false, &cuts);
}

/* ------------------------------------------------------------------ few pages */

static void open_small(stack *s, uint32_t sequences, uint32_t pages)
{
    stack_open(
        s, STORIES, 2, HEARTH_ACTIVATIONS_AUTO,
        (hearth_session_options){
            .context = CONTEXT, .sequences = sequences, .output_rows = sequences, .cache_positions = pages * PAGE});
}

/* Eight sequences with pages for three: no more than three answer at a time, what earlier ones left is given up for them, and
 * none is cut short. */
static void requests_wait_for_pages(void **state)
{
    (void)state;
    enum { MOST = 16, PAGES = 3 };
    static asked all[MOST];
    stack s;
    hearth_error error;
    size_t most = 0;
    open_small(&s, 8, PAGES);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){0});
    for (uint32_t i = 0; i < MOST; i++)
        ask(h, &s, prompts[i % PROMPTS], (hearth_answer_options){.max_tokens = TOKENS, .ignore_end = true}, 0, &all[i]);
    for (size_t left = 1; left > 0;) {
        stack_check(hearth_scheduler_step(h, &left, &error), &error);
        size_t running = hearth_scheduler_load(h).running;
        most = running > most ? running : most;
        assert_true(running <= PAGES);
    }
    assert_int_equal(most, PAGES);
    for (uint32_t i = 0; i < MOST; i++) {
        assert_string_equal(all[i].error, "");
        same_as_alone(&all[i], prompts[i % PROMPTS], 0);
        forget(&all[i]);
    }
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* An answer without a limit is promised the pages of a whole context, and takes its turn; one that would never have room is
 * refused, and says why. */
static void the_cache_bounds_requests(void **state)
{
    (void)state;
    stack s;
    asked first, second, long_one;
    hearth_error error;
    hearth_request asks;
    char text[CONTEXT * 8] = "";
    open_small(&s, 3, 1);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){0});
    ask(h, &s, prompts[0], (hearth_answer_options){.ignore_end = true}, 0, &first);
    ask(h, &s, prompts[1], (hearth_answer_options){.max_tokens = TOKENS, .ignore_end = true}, 0, &second);
    for (size_t left = 2; left > 0;) {
        assert_true(first.ended || second.count == 0);
        stack_check(hearth_scheduler_step(h, &left, &error), &error);
        assert_true(hearth_scheduler_load(h).running <= 1);
    }
    assert_int_equal(first.outcome.stop, HEARTH_STOP_CONTEXT);
    assert_int_equal(first.outcome.prompt_tokens + first.outcome.answer_tokens, PAGE + 1);
    same_as_alone(&second, prompts[1], 0);
    while (strlen(text) + 64 < sizeof text)
        strcat(text, "The cat sat. ");
    make_request(&s, text, (hearth_answer_options){0}, 0, &long_one, &asks);
    asks.prompt_count = PAGE + 1;
    assert_int_equal(hearth_scheduler_add(h, &asks, NULL, &error), HEARTH_FULL);
    assert_string_equal(error.text, "request: its prompt has 129 tokens, the cache only 128");
    forget(&first);
    forget(&second);
    forget(&long_one);
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* ------------------------------------------------------------------ a beginning of many */

/* Sixteen requests that begin with the same 384 tokens, which are read once and lie in memory once: each has a page of its
 * own for what follows. */
static void beginnings_are_shared(void **state)
{
    (void)state;
    enum { MANY = 16, STEM = 3 * PAGE, PAGES = 3 + 1 + MANY };
    static asked all[MANY];
    static int32_t ids[MANY][STEM + 1];
    stack s;
    hearth_error error;
    uint64_t random = 9;
    stack_open(&s, STORIES, 2, HEARTH_ACTIVATIONS_AUTO,
               (hearth_session_options){
                   .context = 512, .sequences = MANY, .output_rows = MANY, .cache_positions = PAGES * PAGE});
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){0});
    for (uint32_t i = 0; i < MANY; i++) {
        hearth_request asks;
        make_request(&s, "x", (hearth_answer_options){.max_tokens = TOKENS, .ignore_end = true}, 0, &all[i], &asks);
        for (uint32_t k = 0; k < STEM; k++)
            ids[i][k] = i > 0 ? ids[0][k] : (int32_t)(3 + random_next(&random) % 500);
        ids[i][STEM] = (int32_t)(3 + i);
        asks.prompt = ids[i];
        asks.prompt_count = STEM + 1;
        stack_check(hearth_scheduler_add(h, &asks, NULL, &error), &error);
        for (size_t steps = 0; i == 0 && all[0].count == 0; steps++) /* the others come when the first has read it */
            stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    }
    while (all[MANY - 1].count < 2)
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    assert_int_equal(hearth_scheduler_load(h).running, MANY);
    assert_int_equal(pages_free(&s), PAGES - 3 - MANY);
    run_to_end(h);
    assert_int_equal(hearth_scheduler_load(h).prompt_tokens, STEM + MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(all[i].outcome.stop, HEARTH_STOP_LENGTH);
        assert_int_equal(all[i].outcome.reused_tokens, i > 0 ? STEM : 0);
        forget(&all[i]);
    }
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* Fills in a request for tokens; a: its fate. */
static void make_plain(const stack *s, const int32_t *ids, size_t count, asked *a, hearth_request *out)
{
    hearth_error error;
    const hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
    *a = (asked){.sampler = new_sampler(s, 0)};
    stack_check(hearth_answer_create(&a->answer, s->model, &options, &error), &error);
    *out = (hearth_request){ids, count, a->sampler, a->answer, on_token, on_end, a};
}

/* A model with recurrent layers: two prompts that have 300 tokens in common, the second while the first still answers. Its
 * state is taken from the last end of a page before they differ, on the CPU and on every device, and the answer is that of
 * a scheduler that keeps nothing. */
static void check_states(hearth_runtime *runtime, bool all_on)
{
    enum { STEM = 300, ALL = 310 };
    static int32_t ids[2][ALL];
    static asked kept[2], fresh;
    uint64_t random = 4;
    for (uint32_t i = 0; i < ALL; i++) {
        ids[0][i] = (int32_t)(3 + random_next(&random) % 100);
        ids[1][i] = i < STEM ? ids[0][i] : (int32_t)(3 + random_next(&random) % 100);
    }
    for (uint32_t forgets = 0; forgets < 2; forgets++) {
        stack s;
        hearth_request asks;
        hearth_error error;
        open_placed_model(&s, runtime, RECURRENT);
        char *json = all_on ? whole_on_device(&s) : NULL;
        open_placed(&s, json, HEARTH_MODE_DENSE, false,
                    (hearth_session_options){.context = 400, .sequences = 2, .marks = 8});
        hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.forget = forgets});
        for (uint32_t i = forgets; i < 2; i++) {
            asked *a = forgets ? &fresh : &kept[i];
            make_plain(&s, ids[i], ALL, a, &asks);
            stack_check(hearth_scheduler_add(h, &asks, NULL, &error), &error);
            while (a->count == 0)
                stack_check(hearth_scheduler_step(h, NULL, &error), &error);
        }
        run_to_end(h);
        for (uint32_t i = forgets; i < 2; i++)
            forget(forgets ? &fresh : &kept[i]);
        hearth_scheduler_destroy(h);
        close_placed(&s);
        hearth_model_close(s.model);
        free(json);
    }
    assert_int_equal(kept[1].outcome.reused_tokens, 2 * PAGE);
    assert_int_equal(fresh.outcome.reused_tokens, 0);
    assert_int_equal(kept[1].count, TOKENS);
    assert_int_equal(fresh.count, TOKENS);
    assert_memory_equal(kept[1].ids, fresh.ids, TOKENS * sizeof *fresh.ids);
}

static void states_are_shared(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    check_states(runtime, false);
    hearth_runtime_destroy(runtime);
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        runtime = open_runtime(specs->text[i], 2);
        check_states(runtime, true);
        hearth_runtime_destroy(runtime);
    }
}

/* ------------------------------------------------------------------ storm */

enum {
    STORM_CONTEXT = 300,
    STORM_SEQUENCES = 4,
    STORM_PAGES = 6, /* of the 12 that full sequences take */
    FEW_GUESSES = 2, /* in a step, of all together, and ... */
    FEW_ROWS =
        2,     /* ... tokens of prompts: with those of answers eight rows, of which each gets the bytes it gets alone */
    STEMS = 4, /* beginnings that prompts share */
    AT_ONCE = 12, /* requests that have not ended, at most */
    LONGEST_PROMPT = STORM_CONTEXT,
    VOCABULARY = 512,
};

/* A request of the storm, and its answer. */
typedef struct drop {
    bool used;
    unsigned ended;
    uint64_t id;
    int32_t prompt[LONGEST_PROMPT];
    size_t prompt_count;
    float temperature;
    uint64_t seed;
    uint32_t max_tokens; /* 0: until the context is full */
    size_t leave_at;     /* its reader goes away after so many tokens; 0: never */
    hearth_sampler *sampler;
    hearth_answer *answer;
    int32_t ids[STORM_CONTEXT + 1];
    size_t count;
    float logits[VOCABULARY]; /* the last token was chosen by */
    hearth_outcome outcome;
} drop;

typedef struct storm {
    stack s;
    hearth_session *alone; /* one sequence, of the same engine */
    hearth_scheduler *h;
    uint64_t random;
    int32_t stems[STEMS][LONGEST_PROMPT];
    drop drops[AT_ONCE];
    bool memory_fails;
    size_t answered, full, cancelled, refused; /* how requests ended */
    size_t shared;                             /* tokens of prompts that were read before */
} storm;

static uint32_t below(storm *t, uint32_t n)
{
    return (uint32_t)(random_next(&t->random) % n);
}

static bool take_token(void *user, const hearth_token *token)
{
    drop *d = user;
    if (token->token < 0)
        return true;
    assert_true(d->count <= STORM_CONTEXT);
    d->ids[d->count++] = token->token;
    memcpy(d->logits, token->logits, sizeof d->logits);
    return d->leave_at == 0 || d->count < d->leave_at;
}

static void take_end(void *user, const hearth_outcome *outcome)
{
    drop *d = user;
    d->outcome = *outcome;
    d->ended++;
}

static hearth_sampler *sampler_of(const stack *s, const drop *d)
{
    hearth_sampler *sampler;
    hearth_error error;
    hearth_sampling sampling = hearth_sampling_default();
    sampling.temperature = d->temperature;
    sampling.seed = d->seed;
    stack_check(hearth_sampler_create(&sampler, &sampling, s->info.vocabulary_size, &error), &error);
    return sampler;
}

/* A prompt that begins as others do, and goes on by itself. */
static void invent_prompt(storm *t, drop *d)
{
    uint32_t stem = below(t, STEMS), shared = below(t, below(t, 2) ? 200 : 30);
    d->prompt_count = shared + 1 + below(t, 40);
    for (uint32_t i = 0; i < d->prompt_count; i++)
        d->prompt[i] = i < shared ? t->stems[stem][i] : (int32_t)(3 + below(t, VOCABULARY - 3));
}

static void let_go(storm *t, drop *d)
{
    t->refused += d->ended == 0 || d->outcome.status == HEARTH_NO_MEMORY;
    hearth_sampler_destroy(d->sampler);
    hearth_answer_destroy(d->answer);
    d->used = false;
}

static void come(storm *t)
{
    drop *d = t->drops;
    hearth_error error;
    while (d < t->drops + AT_ONCE && d->used)
        d++;
    if (d == t->drops + AT_ONCE)
        return;
    *d = (drop){.used = true, .temperature = below(t, 2) ? 0.8F : 0, .seed = 1 + below(t, 100)};
    invent_prompt(t, d);
    d->max_tokens = below(t, 12) ? 1 + below(t, 30) : 0;
    d->leave_at = below(t, 6) ? 0 : 1 + below(t, 10);
    d->sampler = sampler_of(&t->s, d);
    hearth_answer_options options = {
        .max_tokens = d->max_tokens, .ignore_end = true, .draft_tokens = below(t, 2) ? 3 : 0};
    stack_check(hearth_answer_create(&d->answer, t->s.model, &options, &error), &error);
    hearth_request asks = {d->prompt, d->prompt_count, d->sampler, d->answer, take_token, take_end, d};
    bool fails = below(t, 8) == 0;
    if (fails)
        mem_fail_at(below(t, 2));
    hearth_status status = hearth_scheduler_add(t->h, &asks, &d->id, &error);
    mem_fail_at(-1);
    assert_int_equal(status, fails ? HEARTH_NO_MEMORY : HEARTH_OK);
    if (fails)
        let_go(t, d);
}

/* Compares what a request got with what it gets alone. */
static void check_alone(storm *t, const drop *d)
{
    hearth_row rows[LONGEST_PROMPT];
    float logits[VOCABULARY];
    hearth_error error;
    hearth_sampler *sampler = sampler_of(&t->s, d);
    stack_check(hearth_session_truncate(t->alone, 0, 0, &error), &error);
    for (uint32_t i = 0; i < d->prompt_count; i++) {
        rows[i] = (hearth_row){d->prompt[i], 0, i + 1 == d->prompt_count};
        hearth_sampler_accept(sampler, d->prompt[i]);
    }
    for (size_t i = 0, n; d->count > 0 && i < d->prompt_count; i += n) {
        n = d->prompt_count - i < FEW_ROWS ? d->prompt_count - i : FEW_ROWS;
        stack_check(hearth_session_feed(t->alone, rows + i, n, &error), &error);
    }
    for (size_t i = 0; i < d->count; i++) {
        stack_check(hearth_session_logits(t->alone, 0, 1, logits, &error), &error);
        assert_int_equal(hearth_sampler_pick(sampler, logits), d->ids[i]);
        if (i + 1 == d->count)
            break;
        hearth_row row = {d->ids[i], 0, true};
        hearth_sampler_accept(sampler, d->ids[i]);
        stack_check(hearth_session_feed(t->alone, &row, 1, &error), &error);
    }
    if (d->count > 0)
        assert_memory_equal(logits, d->logits, sizeof logits);
    hearth_sampler_destroy(sampler);
}

/* Looks at the requests that have ended. */
static void look(storm *t)
{
    for (drop *d = t->drops; d < t->drops + AT_ONCE; d++) {
        if (!d->used || !d->ended)
            continue;
        assert_int_equal(d->ended, 1);
        assert_int_equal(d->outcome.request, d->id);
        assert_int_equal(d->outcome.answer_tokens, d->count);
        hearth_stop stop = d->outcome.stop;
        t->answered += stop == HEARTH_STOP_LENGTH;
        t->full += stop == HEARTH_STOP_CONTEXT;
        t->cancelled += stop == HEARTH_STOP_CANCELLED;
        t->shared += d->outcome.reused_tokens;
        if (d->outcome.status != HEARTH_OK)
            assert_int_equal(d->outcome.status, HEARTH_NO_MEMORY);
        else if (stop == HEARTH_STOP_LENGTH)
            assert_int_equal(d->count, d->max_tokens);
        else if (stop == HEARTH_STOP_CONTEXT)
            assert_true(d->max_tokens == 0 && d->prompt_count + d->count == STORM_CONTEXT + 1);
        else
            assert_int_equal(stop, HEARTH_STOP_CANCELLED);
        check_alone(t, d);
        let_go(t, d);
    }
}

/* One thing that happens, and a step. */
static void happen(storm *t)
{
    hearth_error error;
    uint32_t what = below(t, 16);
    if (what < 4)
        come(t);
    else if (what == 4 && below(t, 8) == 0)
        hearth_scheduler_cancel(t->h, t->drops[below(t, AT_ONCE)].id);
    bool fails = what == 5 && below(t, 4) == 0;
    if (fails)
        mem_fail_at(below(t, 3));
    hearth_status status = hearth_scheduler_step(t->h, NULL, &error);
    mem_fail_at(-1);
    assert_true(status == HEARTH_OK || (fails && status == HEARTH_NO_MEMORY));
    look(t);
}

/* all_on: the device of the runtime computes every layer. */
static void run_storm(hearth_runtime *runtime, bool all_on, size_t length, uint64_t seed)
{
    static storm t;
    hearth_error error;
    t = (storm){.random = seed};
    for (uint32_t i = 0; i < STEMS * LONGEST_PROMPT; i++)
        t.stems[i / LONGEST_PROMPT][i % LONGEST_PROMPT] = (int32_t)(3 + below(&t, VOCABULARY - 3));
    open_placed_model(&t.s, runtime, STORIES);
    assert_int_equal(t.s.info.vocabulary_size, VOCABULARY);
    char *json = all_on ? whole_on_device(&t.s) : NULL;
    hearth_session_options options = {.context = STORM_CONTEXT,
                                      .sequences = STORM_SEQUENCES,
                                      .output_rows = STORM_SEQUENCES + FEW_GUESSES,
                                      .cache_positions = STORM_PAGES * PAGE};
    open_placed(&t.s, json, HEARTH_MODE_DENSE, false, options);
    options.sequences = options.output_rows = 1;
    stack_check(hearth_session_create(&t.alone, t.s.engine, &options, &error), &error);
    t.h = new_scheduler(&t.s, (hearth_scheduler_options){.prompt_rows = FEW_ROWS});
    for (size_t i = 0; i < length; i++)
        happen(&t);
    run_to_end(t.h);
    look(&t);
    print_message("%zu steps: %zu answered, %zu full, %zu cancelled, %zu out of memory; %zu tokens shared\n", length,
                  t.answered, t.full, t.cancelled, t.refused, t.shared);
    assert_true(t.answered > 0 && t.cancelled > 0);
    assert_true(all_on || (t.full > 0 && t.refused > 0 && t.shared > 0)); /* a long one has all of these */
    for (uint32_t i = 0; i < STORM_SEQUENCES; i++)
        stack_check(hearth_session_truncate(t.s.session, i, 0, &error), &error);
    assert_int_equal(pages_free(&t.s), STORM_PAGES);
    hearth_scheduler_destroy(t.h);
    hearth_session_destroy(t.alone);
    close_placed(&t.s);
    hearth_model_close(t.s.model);
    free(json);
}

static void storms(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    long live = mem_live();
    run_storm(runtime, false, storm_length(2500), 5);
    assert_int_equal(mem_live(), live);
    hearth_runtime_destroy(runtime);
}

static void storms_on_devices(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 2);
        run_storm(runtime, true, storm_length(600), 6);
        hearth_runtime_destroy(runtime);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_wait_for_pages),
        cmocka_unit_test(the_cache_bounds_requests),
        cmocka_unit_test(beginnings_are_shared),
        cmocka_unit_test(states_are_shared),
        cmocka_unit_test(storms),
        cmocka_unit_test(storms_on_devices),
    };
    return run_group(tests, NULL, NULL);
}
