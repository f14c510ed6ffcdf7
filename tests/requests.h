/* requests.h - requests to a scheduler, for its tests: what was asked, what became of it, and what hearth_generate answers
 * alone. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "../src/device/device.h"

#include "golden.h"

#define STORIES HEARTH_DATA "/models/stories-relu"
#define CONTEXT 192
#define TOKENS  24 /* of an answer */

static const char *const prompts[] = {
    "Once upon a time",
    "Lily and Tom",
    "The dog ran to the park and saw a big",
    "One day, a little girl named Sue went to the park",
    "One day, a little girl named Sue went to the zoo. She saw a lion. The lion was big. She saw a bird. The bird was",
};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

static inline void open_stories(stack *s, uint32_t sequences, uint32_t output_rows)
{
    stack_open(s, STORIES, 2, HEARTH_ACTIVATIONS_AUTO,
               (hearth_session_options){.context = CONTEXT, .sequences = sequences, .output_rows = output_rows});
}

static inline hearth_sampler *new_sampler(const stack *s, float temperature)
{
    hearth_sampler *sampler;
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error error;
    sampling.temperature = temperature;
    sampling.seed = 11;
    sampling.repeat_penalty = 1.05F;
    stack_check(hearth_sampler_create(&sampler, &sampling, s->info.vocabulary_size, &error), &error);
    return sampler;
}

/* What a request is and became. */
typedef struct asked {
    int32_t *prompt;
    size_t prompt_count;
    hearth_sampler *sampler;
    hearth_answer *answer;
    int32_t ids[CONTEXT];
    size_t count;
    size_t cancel_at; /* this many tokens; 0: never */
    hearth_outcome outcome;
    char error[256];
    unsigned ended;
} asked;

static inline bool on_token(void *user, const hearth_token *token)
{
    asked *a = user;
    assert_int_equal(a->ended, 0);
    assert_true(token->token < 0 || token->logits != NULL);
    if (token->token >= 0)
        a->ids[a->count++] = token->token;
    return a->cancel_at == 0 || a->count < a->cancel_at;
}

static inline void on_end(void *user, const hearth_outcome *outcome)
{
    asked *a = user;
    a->outcome = *outcome;
    snprintf(a->error, sizeof a->error, "%s", outcome->error);
    a->ended++;
}

/* Readies a request for a text. */
static inline void make_request(const stack *s, const char *text, hearth_answer_options options, float temperature,
                                asked *a, hearth_request *out)
{
    hearth_error error;
    *a = (asked){.sampler = new_sampler(s, temperature)};
    stack_check(
        hearth_tokenize(s->model, text, strlen(text), HEARTH_TEXT_SPECIAL, &a->prompt, &a->prompt_count, &error),
        &error);
    stack_check(hearth_answer_create(&a->answer, s->model, &options, &error), &error);
    *out = (hearth_request){a->prompt, a->prompt_count, a->sampler, a->answer, on_token, on_end, a};
}

static inline uint64_t ask(hearth_scheduler *h, const stack *s, const char *text, hearth_answer_options options,
                           float temperature, asked *a)
{
    uint64_t id;
    hearth_error error;
    hearth_request asks;
    make_request(s, text, options, temperature, a, &asks);
    stack_check(hearth_scheduler_add(h, &asks, &id, &error), &error);
    assert_true(id > 0);
    return id;
}

static inline void forget(asked *a)
{
    hearth_free(a->prompt);
    hearth_sampler_destroy(a->sampler);
    hearth_answer_destroy(a->answer);
}

static inline hearth_scheduler *new_scheduler(const stack *s, hearth_scheduler_options options)
{
    hearth_scheduler *h;
    hearth_error error;
    stack_check(hearth_scheduler_create(&h, s->session, &options, &error), &error);
    return h;
}

static inline void run_to_end(hearth_scheduler *h)
{
    hearth_error error;
    for (size_t left = 1; left > 0;)
        stack_check(hearth_scheduler_step(h, &left, &error), &error);
}

/* The answer that hearth_generate gives in a session of its own. */
static inline size_t alone(const char *text, uint32_t max_tokens, float temperature, int32_t *ids)
{
    stack s;
    asked a;
    hearth_request asks;
    hearth_error error;
    open_stories(&s, 1, 1);
    make_request(&s, text, (hearth_answer_options){0}, temperature, &a, &asks);
    hearth_answer_options options = {.max_tokens = max_tokens, .ignore_end = true};
    stack_check(hearth_generate(s.session, 0, a.prompt, a.prompt_count, a.sampler, &options, NULL, NULL, NULL, &error),
                &error);
    size_t length = hearth_session_length(s.session, 0) - a.prompt_count;
    memcpy(ids, hearth_session_tokens(s.session, 0) + a.prompt_count, length * sizeof *ids);
    forget(&a);
    stack_close(&s);
    return length;
}

static inline void same_as_alone(const asked *a, const char *text, float temperature)
{
    int32_t ids[CONTEXT];
    assert_int_equal(a->ended, 1);
    assert_int_equal(a->outcome.status, HEARTH_OK);
    assert_int_equal(a->outcome.stop, HEARTH_STOP_LENGTH);
    assert_int_equal(alone(text, TOKENS, temperature, ids), TOKENS);
    assert_int_equal(a->count, TOKENS);
    assert_int_equal(a->outcome.answer_tokens, TOKENS);
    assert_memory_equal(a->ids, ids, TOKENS * sizeof *ids);
}

#endif
