/* generate.c - hearth_generate: answers a prompt in one sequence with one sampler, until something stops it. */
#include "engine.h"
#include "sampler.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"

typedef struct generation {
    hearth_session *session;
    uint32_t sequence;
    hearth_sampler *sampler;
    hearth_answer *answer;
    float *logits; /* [vocabulary_size] */
    hearth_on_text *on_text;
    void *user;
    hearth_result *result;
} generation;

/* Feeds the prompt; after success the sampler accepts its tokens. */
static hearth_status read_prompt(generation *g, const int32_t *prompt, size_t count, hearth_error *error)
{
    hearth_row *rows = mem_new_array(count, sizeof *rows);
    if (!rows)
        return fail_memory(error, "prompt", count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){prompt[i], g->sequence, i + 1 == count};
    double start = clock_seconds();
    hearth_status status = session_feed(g->session, rows, count, error);
    g->result->prompt_seconds = clock_seconds() - start;
    mem_free(rows);
    for (size_t i = 0; status == HEARTH_OK && i < count; i++)
        hearth_sampler_accept(g->sampler, prompt[i]);
    return status;
}

/* Reports text to the caller; returns false if the caller cancels. */
static bool show(generation *g, int32_t token, span text)
{
    return !g->on_text || g->on_text(g->user, token, text.data, text.size);
}

/* Samples one token. *stop says whether the answer goes on; *text is what can be shown. */
static hearth_status choose(generation *g, int32_t *token, span *text, hearth_stop *stop, hearth_error *error)
{
    double start = clock_seconds();
    TRY(hearth_session_logits(g->session, 0, 1, g->logits, error));
    *token = hearth_sampler_pick(g->sampler, g->logits);
    g->result->answer_seconds += clock_seconds() - start;
    return hearth_answer_push(g->answer, *token, &text->data, &text->size, stop, error);
}

/* Feeds one token of the answer, which the sampler then accepts. */
static hearth_status read_token(generation *g, int32_t token, hearth_error *error)
{
    hearth_row row = {token, g->sequence, true};
    double start = clock_seconds();
    TRY(session_feed(g->session, &row, 1, error));
    g->result->answer_seconds += clock_seconds() - start;
    hearth_sampler_accept(g->sampler, token);
    return HEARTH_OK;
}

/* Chooses, shows and reads one token of the answer. The token is not read if the context is full, or if it ended the
 * answer for another reason than max_tokens. */
static hearth_status step(generation *g, hearth_stop *stop, hearth_error *error)
{
    int32_t token;
    span text;
    TRY(choose(g, &token, &text, stop, error));
    if (*stop == HEARTH_STOP_END)
        return HEARTH_OK;
    g->result->answer_tokens++;
    bool wanted = show(g, token, text) && !session_is_cancelled(g->session);
    if (!wanted && *stop == HEARTH_STOP_NONE)
        *stop = HEARTH_STOP_CANCELLED;
    bool full = !session_has_room(g->session, g->sequence);
    if (full && *stop == HEARTH_STOP_NONE)
        *stop = HEARTH_STOP_CONTEXT;
    if (!full && (*stop == HEARTH_STOP_NONE || *stop == HEARTH_STOP_LENGTH))
        return read_token(g, token, error);
    return HEARTH_OK;
}

/* Runs the answer. Cancelling is a stop reason here, not an error; text that is still held back is shown at the end. */
static hearth_status answer_prompt(generation *g, const int32_t *prompt, size_t count, hearth_error *error)
{
    hearth_stop stop = HEARTH_STOP_NONE;
    hearth_status status = read_prompt(g, prompt, count, error);
    while (status == HEARTH_OK && stop == HEARTH_STOP_NONE)
        status = step(g, &stop, error);
    if (status == HEARTH_CANCELLED)
        stop = HEARTH_STOP_CANCELLED;
    else if (status != HEARTH_OK)
        return status;
    span held;
    hearth_answer_finish(g->answer, &held.data, &held.size);
    if (held.size > 0)
        show(g, -1, held);
    g->result->stop = stop;
    return HEARTH_OK;
}

/* Checks the prompt and the sampler, and answers. */
static hearth_status generate(generation *g, const int32_t *prompt, size_t count, const hearth_answer_options *options,
                              hearth_error *error)
{
    const hearth_model *model = g->session->engine->model;
    uint32_t size = model->hyper.vocabulary_size;
    if (count == 0)
        return fail(error, HEARTH_INVALID, "prompt: is empty, there is nothing to continue");
    if (sampler_vocabulary(g->sampler) != size)
        return fail(error, HEARTH_INVALID, "sampling: is for %u tokens, the model has %u",
                    sampler_vocabulary(g->sampler), size);
    session_forget_cancel(g->session);
    TRY(hearth_answer_create(&g->answer, model, options, error));
    g->logits = mem_new_array(size, sizeof *g->logits);
    hearth_status status =
        g->logits ? answer_prompt(g, prompt, count, error) : fail_memory(error, "logits", size * sizeof *g->logits);
    hearth_answer_destroy(g->answer);
    mem_free(g->logits);
    return status;
}

hearth_status hearth_generate_sized(hearth_session *session, uint32_t sequence, const int32_t *prompt, size_t count,
                                    hearth_sampler *sampler, const hearth_answer_options *options, size_t options_size,
                                    hearth_on_text *on_text, void *user, hearth_result *result, size_t result_size,
                                    hearth_error *error)
{
    hearth_answer_options own;
    hearth_result filled = {.prompt_tokens = count};
    generation g = {session, sequence, sampler, NULL, NULL, on_text, user, &filled};
    hearth_status status = sized_read(&own, sizeof own, options, options_size, "hearth_answer_options", error);
    if (status == HEARTH_OK)
        status = generate(&g, prompt, count, &own, error);
    if (result)
        sized_write(result, result_size, &filled, sizeof filled);
    return status;
}
