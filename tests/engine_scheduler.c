/* engine_scheduler.c - many requests at once: each answer is that of hearth_generate alone, whoever comes, goes, fails or
 * begins alike; guesses change nothing. */
#include "../src/engine/draft.h"
#include "../src/engine/engine.h"
#include "../src/engine/request.h"

#include "requests.h"

#define MOST 16 /* requests of a test */

/* More requests than sequences, some coming later, greedy and sampled, with and without guesses: all answers are those of
 * requests alone. */
static void answers_are_those_alone(void **state)
{
    (void)state;
    static asked all[MOST];
    for (uint32_t guesses = 0; guesses < 2; guesses++) {
        stack s;
        hearth_error error;
        open_stories(&s, 3, 3 + 12 * guesses);
        hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 5});
        hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true, .draft_tokens = 6 * guesses};
        for (uint32_t i = 0; i < MOST; i++) {
            ask(h, &s, prompts[i % PROMPTS], options, i % 2 ? 0.9F : 0, &all[i]);
            for (uint32_t k = 0; k < i % 4; k++)
                stack_check(hearth_scheduler_step(h, NULL, &error), &error);
        }
        run_to_end(h);
        size_t accepted = 0, reused = 0;
        for (uint32_t i = 0; i < MOST; i++) {
            same_as_alone(&all[i], prompts[i % PROMPTS], i % 2 ? 0.9F : 0);
            accepted += all[i].outcome.accepted_tokens;
            reused += all[i].outcome.reused_tokens;
            assert_true(all[i].outcome.accepted_tokens <= all[i].outcome.draft_tokens);
            forget(&all[i]);
        }
        /* With guesses, measured times say how many there are, and so who meets whom; see the next two tests. */
        assert_true(guesses || (accepted == 0 && reused > 0));
        hearth_load load = hearth_scheduler_load(h);
        assert_int_equal(load.running + load.waiting, 0);
        assert_int_equal(load.answer_tokens, MOST * TOKENS);
        assert_int_equal(load.reused_tokens, reused);
        hearth_scheduler_destroy(h);
        stack_close(&s);
    }
}

/* Steps whose rows cost next to nothing, so that every guess is tried, whatever the machine does: the answer is that of a
 * request alone. draft: the session of a model that guesses; NULL: guesses are taken from the text. Adds to how many were
 * tried and held. */
static void check_guesses(const char *text, float temperature, hearth_session *draft, size_t *drafted, size_t *accepted)
{
    static float logits[(1 + DRAFT_MOST) * 4096];
    step_times free_rows = {0};
    stack s;
    asked a;
    hearth_request asked_for;
    hearth_error error;
    hearth_row rows[CONTEXT];
    int32_t want[CONTEXT];
    for (unsigned i = 0; i < 8; i++)
        step_times_add(&free_rows, 1 + i, 1);
    open_stories(&s, 1, 1 + DRAFT_MOST);
    assert_true(s.info.vocabulary_size <= 4096);
    hearth_answer_options options = {.max_tokens = 4 * TOKENS, .ignore_end = true, .draft_tokens = 6, .draft = draft};
    make_request(&s, text, options, temperature, &a, &asked_for);
    request r = {.session = s.session,
                 .sampler = a.sampler,
                 .answer = a.answer,
                 .prompt = a.prompt,
                 .prompt_count = a.prompt_count};
    stack_check(request_begin(&r, &error), &error);
    while (r.stop == HEARTH_STOP_NONE) {
        if (draft && r.answer_tokens == 1) { /* who cancels the answer need not wait for the draft, and can go on */
            hearth_session_cancel(s.session);
            assert_int_equal(request_guess(&r, 1 + DRAFT_MOST, &free_rows, 0, &error), HEARTH_CANCELLED);
            session_forget_cancel(s.session);
        }
        stack_check(request_guess(&r, 1 + DRAFT_MOST, &free_rows, 0, &error), &error);
        size_t count = request_rows(&r, 5, rows);
        stack_check(hearth_session_feed(s.session, rows, count, &error), &error);
        stack_check(hearth_session_logits(s.session, 0, hearth_session_output_count(s.session), logits, &error),
                    &error);
        stack_check(request_take(&r, count, logits, &error), &error);
    }
    size_t read = hearth_session_length(s.session, 0) - a.prompt_count;
    assert_int_equal(alone(text, 4 * TOKENS, temperature, want), 4 * TOKENS);
    assert_true(read == 4 * TOKENS || read + 1 == 4 * TOKENS); /* the last one is read if it was guessed */
    assert_int_equal(r.answer_tokens, 4 * TOKENS);
    assert_memory_equal(hearth_session_tokens(s.session, 0) + a.prompt_count, want, read * sizeof *want);
    assert_int_equal(r.next, want[4 * TOKENS - 1]);
    *accepted += r.accepted;
    *drafted += r.drafted;
    request_free(&r);
    forget(&a);
    stack_close(&s);
}

/* Some guesses hold and others do not, and no answer is another one for it. */
static void guesses_change_nothing(void **state)
{
    (void)state;
    size_t accepted = 0, drafted = 0;
    for (uint32_t i = 0; i < 2 * PROMPTS; i++)
        check_guesses(prompts[i / 2], i % 2 ? 0.9F : 0, NULL, &drafted, &accepted);
    assert_true(accepted > 0 && accepted < drafted);
}

static void open_draft(stack *s, const char *path, uint32_t context)
{
    stack_open(s, path, 2, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = context});
}

/* The same where a smaller model guesses, one answer after another. */
static void a_model_guesses(void **state)
{
    (void)state;
    stack draft;
    size_t accepted = 0, drafted = 0;
    open_draft(&draft, HEARTH_DATA "/models/stories260K-relu", CONTEXT);
    for (uint32_t i = 0; i < 2 * PROMPTS; i++)
        check_guesses(prompts[i / 2], i % 2 ? 0.9F : 0, draft.session, &drafted, &accepted);
    assert_true(accepted > 0 && accepted < drafted);
    stack_close(&draft);
}

/* A model of other tokens cannot guess, nor can one for a scheduler; and a small context of the draft only ends its guesses. */
static void wrong_drafts(void **state)
{
    (void)state;
    stack s, draft;
    asked a;
    hearth_request asks;
    hearth_error error;
    open_stories(&s, 1, 4);
    open_draft(&draft, GOLDEN "/llama-relu/model.gguf", 64);
    make_request(&s, prompts[0], (hearth_answer_options){.draft_tokens = 2, .draft = draft.session}, 0, &a, &asks);
    hearth_answer_options options = {
        .max_tokens = TOKENS, .ignore_end = true, .draft_tokens = 2, .draft = draft.session};
    assert_int_equal(
        hearth_generate(s.session, 0, a.prompt, a.prompt_count, a.sampler, &options, NULL, NULL, NULL, &error),
        HEARTH_INVALID);
    assert_non_null(strstr(error.text, "draft: has 272 tokens, the model has 512"));
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){0});
    assert_int_equal(hearth_scheduler_add(h, &asks, NULL, &error), HEARTH_UNSUPPORTED);
    hearth_scheduler_destroy(h);
    stack_close(&draft);
    open_draft(&draft, HEARTH_DATA "/models/stories260K-relu", 12);
    options.draft = draft.session;
    int32_t want[CONTEXT];
    stack_check(hearth_generate(s.session, 0, a.prompt, a.prompt_count, a.sampler, &options, NULL, NULL, NULL, &error),
                &error);
    assert_int_equal(alone(prompts[0], TOKENS, 0, want), TOKENS);
    assert_memory_equal(hearth_session_tokens(s.session, 0) + a.prompt_count, want, TOKENS * sizeof *want);
    stack_close(&draft);
    forget(&a);
    stack_close(&s);
}

/* A prompt that continues what a sequence has read is read from there on; without keeping it is read whole. */
static void beginnings_are_kept(void **state)
{
    (void)state;
    for (uint32_t forgets = 0; forgets < 2; forgets++) {
        stack s;
        asked first, second, third;
        open_stories(&s, 2, 2);
        hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.forget = forgets});
        hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
        ask(h, &s, prompts[4], options, 0, &first);
        run_to_end(h);
        ask(h, &s, prompts[4], options, 0, &second);
        run_to_end(h);
        ask(h, &s, prompts[0], options, 0, &third);
        run_to_end(h);
        assert_int_equal(first.outcome.reused_tokens, 0);
        assert_int_equal(second.outcome.reused_tokens, forgets ? 0 : first.prompt_count - 1);
        same_as_alone(&first, prompts[4], 0);
        same_as_alone(&second, prompts[4], 0);
        same_as_alone(&third, prompts[0], 0);
        forget(&first);
        forget(&second);
        forget(&third);
        hearth_scheduler_destroy(h);
        stack_close(&s);
    }
}

/* While one reads a long prompt, another one gets a token in each step. */
static void answers_do_not_wait(void **state)
{
    (void)state;
    stack s;
    asked quick, slow;
    hearth_error error;
    char text[CONTEXT * 2] = "";
    open_stories(&s, 2, 2);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 4});
    hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
    ask(h, &s, prompts[0], options, 0, &quick);
    while (quick.count == 0)
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    while (strlen(text) < CONTEXT)
        strcat(text, "The cat sat. ");
    ask(h, &s, text, options, 0, &slow);
    size_t steps = 0, before = quick.count;
    for (; slow.count == 0; steps++) {
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
        assert_true(quick.ended || quick.count == before + steps + 1);
    }
    assert_true(steps >= slow.prompt_count / 4);
    run_to_end(h);
    same_as_alone(&quick, prompts[0], 0);
    same_as_alone(&slow, text, 0);
    forget(&quick);
    forget(&slow);
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* Cancelled while waiting, while reading and while answering; a context that is full: the neighbour does not notice. */
static void ends_are_their_own(void **state)
{
    (void)state;
    stack s;
    asked all[5];
    hearth_error error;
    open_stories(&s, 3, 3);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 3});
    hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true}, endless = {.ignore_end = true};
    ask(h, &s, prompts[0], options, 0, &all[0]);
    ask(h, &s, prompts[1], endless, 0, &all[1]);
    uint64_t reads = ask(h, &s, prompts[4], options, 0, &all[2]), waits = ask(h, &s, prompts[1], options, 0, &all[3]);
    ask(h, &s, prompts[2], options, 0, &all[4]);
    all[4].cancel_at = 3;
    stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    hearth_scheduler_cancel(h, reads);
    hearth_scheduler_cancel(h, waits);
    hearth_scheduler_cancel(h, 1000); /* nobody's */
    run_to_end(h);
    same_as_alone(&all[0], prompts[0], 0);
    assert_int_equal(all[1].outcome.stop, HEARTH_STOP_CONTEXT);
    assert_int_equal(all[1].outcome.prompt_tokens + all[1].outcome.answer_tokens, CONTEXT + 1);
    for (uint32_t i = 2; i < 5; i++) {
        assert_int_equal(all[i].ended, 1);
        assert_int_equal(all[i].outcome.stop, HEARTH_STOP_CANCELLED);
        assert_int_equal(all[i].count, i == 4 ? 3 : 0);
    }
    for (uint32_t i = 0; i < 5; i++)
        forget(&all[i]);
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* The session is cancelled: nothing has changed, and all go on. */
static bool cancel_feed(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    unsigned *left = user;
    return *left == 0 || --*left > 0;
}

static void cancelled_steps_go_on(void **state)
{
    (void)state;
    stack s;
    asked all[2];
    hearth_error error;
    unsigned left = 0;
    stack_open(&s, STORIES, 2, HEARTH_ACTIVATIONS_AUTO,
               (hearth_session_options){
                   .context = CONTEXT, .sequences = 2, .output_rows = 2, .progress = {cancel_feed, &left}});
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 4});
    hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
    for (uint32_t i = 0; i < 2; i++)
        ask(h, &s, prompts[i], options, 0, &all[i]);
    unsigned cancelled = 0;
    for (size_t steps = 0, running = 2; running > 0; steps++) {
        left = steps % 3 == 1 ? 2 : 0; /* after two layers */
        hearth_status status = hearth_scheduler_step(h, &running, &error);
        assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
        cancelled += status == HEARTH_CANCELLED;
    }
    assert_true(cancelled > 2);
    for (uint32_t i = 0; i < 2; i++) {
        same_as_alone(&all[i], prompts[i], 0);
        forget(&all[i]);
    }
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* A token whose embedding is not a number ends the request that has it, in whatever part of a prompt; the others, in the
 * same steps, do not notice. */
static void failures_are_their_own(void **state)
{
    (void)state;
    stack s;
    asked all[3];
    open_stories(&s, 3, 3);
    matrix *m = &s.model->embedding;
    const void *whole = m->data;
    size_t bytes = m->rows * m->row_bytes;
    char *broken = malloc(bytes);
    memcpy(broken, whole, bytes);
    m->data = (void *)broken;
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 6});
    hearth_answer_options options = {.max_tokens = TOKENS, .ignore_end = true};
    ask(h, &s, prompts[0], options, 0, &all[0]);
    ask(h, &s, "The dog and the cat ran and ran to the ~", options, 0, &all[1]);
    ask(h, &s, prompts[2], options, 0, &all[2]);
    memset(broken + (size_t)all[1].prompt[all[1].prompt_count - 1] * m->row_bytes, 0xff, m->row_bytes);
    run_to_end(h);
    assert_int_equal(all[1].ended, 1);
    assert_int_equal(all[1].outcome.status, HEARTH_FORMAT);
    assert_true(all[1].error[0] != 0);
    same_as_alone(&all[0], prompts[0], 0);
    same_as_alone(&all[2], prompts[2], 0);
    assert_int_equal(hearth_session_length(s.session, 1), 0); /* what it had read is not kept */
    for (uint32_t i = 0; i < 3; i++)
        forget(&all[i]);
    hearth_scheduler_destroy(h);
    m->data = (void *)(uintptr_t)whole;
    free(broken);
    stack_close(&s);
}

/* Asks for the same again when it ends, as a client that tries once more. */
typedef struct again {
    hearth_scheduler *scheduler;
    hearth_request asks;
    unsigned ended;
} again;

static void ask_again(void *user, const hearth_outcome *outcome)
{
    again *a = user;
    hearth_error error;
    assert_int_equal(outcome->status, HEARTH_DEVICE);
    a->ended++;
    stack_check(hearth_scheduler_add(a->scheduler, &a->asks, NULL, &error), &error);
}

/* The same stories with 64 neurons of each layer on a device. */
static void open_beside_host(stack *s)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_runtime_options on_host = {.threads = 2, .device = "host"};
    hearth_session_options options = {.context = CONTEXT, .sequences = 2};
    *s = (stack){0};
    stack_check(hearth_runtime_create(&s->runtime, &on_host, &error), &error);
    stack_check(hearth_model_open(&s->model, STORIES, NULL, &error), &error);
    hearth_model_describe(s->model, &s->info);
    stack_check(hearth_placement_create(&placement, s->model, HEARTH_MODE_DENSE, &error), &error);
    stack_check(hearth_placement_use_device(placement, s->model, s->info.layer_count, 64, &error), &error);
    hearth_engine_options placed = {.placement = placement};
    stack_check(hearth_engine_create(&s->engine, s->runtime, s->model, &placed, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
}

/* Returns in how many steps a long prompt is read; its tokens: *count. */
static size_t steps_to_read(stack *s, hearth_scheduler *h, size_t *count)
{
    hearth_error error;
    char text[CONTEXT * 2] = "";
    asked long_one;
    size_t steps = 0;
    while (strlen(text) + 20 < sizeof text)
        strcat(text, "The cat sat. ");
    ask(h, s, text, (hearth_answer_options){.max_tokens = 1, .ignore_end = true}, 0, &long_one);
    *count = long_one.prompt_count;
    for (; long_one.count == 0; steps++)
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    assert_int_equal(long_one.outcome.status, HEARTH_OK);
    forget(&long_one);
    return steps;
}

/* A device reads prompts in long steps, but not while an answer waits for them; the CPU, and who asks for a number, never. */
static void prompts_on_a_device(void **state)
{
    (void)state;
    stack s;
    asked quick;
    hearth_error error;
    size_t count;
    open_beside_host(&s);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.forget = true});
    assert_int_equal(steps_to_read(&s, h, &count), 1);
    assert_true(count > 64 && count <= s.session->batch);
    ask(h, &s, prompts[0], (hearth_answer_options){.max_tokens = TOKENS, .ignore_end = true}, 0, &quick);
    while (quick.count == 0)
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    assert_int_equal(steps_to_read(&s, h, &count), (count + 63) / 64);
    run_to_end(h);
    forget(&quick);
    hearth_scheduler_destroy(h);
    h = new_scheduler(&s, (hearth_scheduler_options){.forget = true, .prompt_rows = 64});
    assert_int_equal(steps_to_read(&s, h, &count), (count + 63) / 64);
    hearth_scheduler_destroy(h);
    stack_close(&s);
    open_stories(&s, 2, 2);
    h = new_scheduler(&s, (hearth_scheduler_options){.forget = true});
    assert_int_equal(steps_to_read(&s, h, &count), (count + 63) / 64);
    hearth_scheduler_destroy(h);
    stack_close(&s);
}

/* The device fails in the middle of a step: every request ends with that, those that wait as well; one that is added by a
 * callback ends in the next step. */
static void a_lost_device_ends_all(void **state)
{
    (void)state;
    stack s;
    asked all[3], retried;
    again repeated = {0};
    hearth_error error;
    open_beside_host(&s);
    hearth_scheduler *h = new_scheduler(&s, (hearth_scheduler_options){.prompt_rows = 8});
    for (uint32_t i = 0; i < 3; i++)
        ask(h, &s, prompts[i], (hearth_answer_options){.max_tokens = TOKENS, .ignore_end = true}, 0, &all[i]);
    make_request(&s, prompts[3], (hearth_answer_options){0}, 0, &retried, &repeated.asks);
    repeated.scheduler = h;
    repeated.asks.on_token = NULL;
    repeated.asks.on_end = ask_again;
    repeated.asks.user = &repeated;
    stack_check(hearth_scheduler_add(h, &repeated.asks, NULL, &error), &error);
    for (unsigned i = 0; i < 4; i++)
        stack_check(hearth_scheduler_step(h, NULL, &error), &error);
    assert_true(all[0].count > 0);
    size_t left;
    device_fail_at(5);
    assert_int_equal(hearth_scheduler_step(h, &left, &error), HEARTH_DEVICE);
    device_fail_at(-1);
    assert_non_null(strstr(error.text, "injected fault"));
    assert_int_equal(left, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(all[i].ended, 1);
        assert_int_equal(all[i].outcome.status, HEARTH_DEVICE);
        forget(&all[i]);
    }
    assert_int_equal(repeated.ended, 1);
    assert_int_equal(hearth_scheduler_step(h, &left, &error), HEARTH_DEVICE);
    assert_int_equal(repeated.ended, 2);
    hearth_scheduler_destroy(h);
    forget(&retried);
    stack_close(&s);
}

/* Every allocation of a scheduler and a request fails in turn. */
static void memory_runs_out(void **state)
{
    (void)state;
    stack s;
    asked a;
    hearth_request asks;
    hearth_error error;
    open_stories(&s, 2, 2);
    make_request(&s, prompts[0], (hearth_answer_options){.max_tokens = 2}, 0, &a, &asks);
    long live = mem_live(), n = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; n++) {
        hearth_scheduler *h = NULL;
        mem_fail_at(n);
        status = hearth_scheduler_create(&h, s.session, NULL, &error);
        if (status == HEARTH_OK)
            status = hearth_scheduler_add(h, &asks, NULL, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || (status == HEARTH_NO_MEMORY && error.text[0] != 0));
        hearth_scheduler_destroy(h);
        assert_int_equal(mem_live(), live);
    }
    assert_true(n > 6); /* five of the scheduler, two of a request */
    forget(&a);
    stack_close(&s);
}

static void wrong_requests(void **state)
{
    (void)state;
    stack s;
    asked a, long_one;
    hearth_error error;
    hearth_request asks, wrong;
    hearth_scheduler *h = NULL;
    char text[CONTEXT * 8] = "";
    open_stories(&s, 2, 2);
    hearth_scheduler_options most = {.prompt_rows = 1u << 17};
    assert_int_equal(hearth_scheduler_create(&h, s.session, &most, &error), HEARTH_INVALID);
    h = new_scheduler(&s, (hearth_scheduler_options){.waiting = 2});
    make_request(&s, prompts[0], (hearth_answer_options){0}, 0, &a, &asks);
    wrong = asks, wrong.prompt_count = 0;
    assert_int_equal(hearth_scheduler_add(h, &wrong, NULL, &error), HEARTH_INVALID);
    wrong = asks, wrong.sampler = NULL;
    assert_int_equal(hearth_scheduler_add(h, &wrong, NULL, &error), HEARTH_INVALID);
    assert_string_equal(error.text, "request: has no sampler");
    int32_t unknown[] = {1, (int32_t)s.info.vocabulary_size};
    wrong = asks, wrong.prompt = unknown, wrong.prompt_count = 2;
    assert_int_equal(hearth_scheduler_add(h, &wrong, NULL, &error), HEARTH_INVALID);
    while (strlen(text) < sizeof text - 20)
        strcat(text, "The cat sat. ");
    make_request(&s, text, (hearth_answer_options){0}, 0, &long_one, &wrong);
    assert_int_equal(hearth_scheduler_add(h, &wrong, NULL, &error), HEARTH_FULL);
    stack_check(hearth_scheduler_add(h, &asks, NULL, &error), &error);
    stack_check(hearth_scheduler_add(h, &asks, NULL, &error), &error);
    assert_int_equal(hearth_scheduler_add(h, &asks, NULL, &error), HEARTH_FULL);
    assert_string_equal(error.text, "scheduler: 2 requests wait already");
    hearth_scheduler_destroy(h); /* with requests that have not ended */
    assert_int_equal(a.ended, 0);
    forget(&a);
    forget(&long_one);
    stack_close(&s);
}

/* ------------------------------------------------------------------ guesses */

static void guesses_follow_the_longest_match(void **state)
{
    (void)state;
    int32_t out[8];
    size_t matched;
    const int32_t twice[] = {1, 2, 3, 9, 4, 2, 3, 7, 5, 1, 2, 3};
    assert_int_equal(draft_guess(twice, 12, 3, out, &matched), 3);
    assert_int_equal(matched, 3);
    assert_memory_equal(out, ((int32_t[]){9, 4, 2}), 3 * sizeof *out);
    /* the last one of the longest */
    const int32_t last[] = {6, 2, 3, 9, 4, 2, 3, 7, 5, 8, 2, 3};
    assert_int_equal(draft_guess(last, 12, 2, out, &matched), 2);
    assert_int_equal(matched, 2);
    assert_memory_equal(out, ((int32_t[]){7, 5}), 2 * sizeof *out);
    /* a short period goes on */
    const int32_t period[] = {5, 6, 7, 6, 7};
    assert_int_equal(draft_guess(period, 5, 5, out, &matched), 5);
    assert_memory_equal(out, ((int32_t[]){6, 7, 6, 7, 6}), 5 * sizeof *out);
    const int32_t single[] = {4, 2, 3, 9, 5, 3};
    assert_int_equal(draft_guess(single, 6, 4, out, &matched), 0);
    assert_int_equal(draft_guess(single, 1, 4, out, &matched), 0);
}

/* Guesses that hold are worth more rows, those that do not none; where rows cost a step each, none ever is. */
static void guesses_must_pay(void **state)
{
    (void)state;
    draft_record good = {0}, bad = {0};
    step_times cheap = {0}, dear = {0};
    for (unsigned i = 0; i < 40; i++) {
        draft_note(&good, 4, 4, false);
        draft_note(&bad, 4, 0, true);
        step_times_add(&cheap, 1 + i % 4, 1 + 0.1 * (i % 4));
        step_times_add(&dear, 1 + i % 4, 1.0 + (i % 4));
    }
    assert_int_equal(draft_worth(&good, &cheap, 4, 6, 1, 0), 6);
    assert_int_equal(draft_worth(&bad, &cheap, 4, 6, 1, 0), 0);
    assert_int_equal(draft_worth(&good, &dear, 4, 6, 1, 0), 0);
    for (unsigned i = 0; i < 200 && draft_worth(&bad, &cheap, 4, 6, 1, 0) == 0; i++)
        assert_true(i < 199); /* some time later they are tried again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_alone), cmocka_unit_test(guesses_change_nothing),
        cmocka_unit_test(a_model_guesses),         cmocka_unit_test(wrong_drafts),
        cmocka_unit_test(beginnings_are_kept),     cmocka_unit_test(answers_do_not_wait),
        cmocka_unit_test(ends_are_their_own),      cmocka_unit_test(cancelled_steps_go_on),
        cmocka_unit_test(failures_are_their_own),  cmocka_unit_test(prompts_on_a_device),
        cmocka_unit_test(a_lost_device_ends_all),  cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(wrong_requests),          cmocka_unit_test(guesses_follow_the_longest_match),
        cmocka_unit_test(guesses_must_pay),
    };
    return run_group(tests, NULL, NULL);
}
