/* generate.c - the simple way to an answer: one sequence, one sampler, until something stops it. */
#include "engine.h"

#include "../base/clock.h"
#include "../base/memory.h"

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

static hearth_status read_prompt(generation *g, const int32_t *prompt, size_t count, hearth_error *error)
{
    hearth_row *rows = mem_new_array(count, sizeof *rows);
    if (!rows)
        return fail_memory(error, "prompt", count * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (hearth_row){prompt[i], g->sequence, i + 1 == count};
        hearth_sampler_accept(g->sampler, prompt[i]);
    }
    double start = clock_seconds();
    hearth_status status = hearth_session_feed(g->session, rows, count, error);
    g->result->prompt_seconds = clock_seconds() - start;
    mem_free(rows);
    return status;
}

/* Shows text; false where the caller wants no more. */
static bool show(generation *g, int32_t token, const char *text, size_t size)
{
    return !g->on_text || g->on_text(g->user, token, text, size);
}

/* Samples and shows one token; *stop says whether the answer goes on. */
static hearth_status choose(generation *g, int32_t *token, hearth_stop *stop, hearth_error *error)
{
    TRY(hearth_session_logits(g->session, 0, 1, g->logits, error));
    *token = hearth_sampler_pick(g->sampler, g->logits);
    hearth_sampler_accept(g->sampler, *token);
    const char *text;
    size_t size;
    TRY(hearth_answer_push(g->answer, *token, &text, &size, stop, error));
    if (*stop == HEARTH_STOP_END) /* the mark itself is no part of the answer; held text comes with finish */
        return HEARTH_OK;
    g->result->answer_tokens++;
    if (!show(g, *token, text, size) && *stop == HEARTH_STOP_NONE)
        *stop = HEARTH_STOP_CANCELLED;
    return HEARTH_OK;
}

static hearth_status decode(generation *g, int32_t token, hearth_error *error)
{
    hearth_row row = {token, g->sequence, true};
    double start = clock_seconds();
    hearth_status status = hearth_session_feed(g->session, &row, 1, error);
    g->result->answer_seconds += clock_seconds() - start;
    g->result->answer_feeds += status == HEARTH_OK;
    return status;
}

static hearth_status answer_prompt(generation *g, const int32_t *prompt, size_t count, hearth_error *error)
{
    int32_t token = -1;
    hearth_stop stop = HEARTH_STOP_NONE;
    hearth_status status = read_prompt(g, prompt, count, error);
    while (status == HEARTH_OK) {
        TRY(choose(g, &token, &stop, error));
        if (stop != HEARTH_STOP_NONE)
            break;
        if (hearth_session_length(g->session, g->sequence) == hearth_session_context(g->session)) {
            stop = HEARTH_STOP_CONTEXT;
            break;
        }
        status = decode(g, token, error);
    }
    if (status == HEARTH_CANCELLED)
        stop = HEARTH_STOP_CANCELLED;
    else if (status != HEARTH_OK)
        return status;
    const char *text;
    size_t size;
    hearth_answer_finish(g->answer, &text, &size);
    if (size > 0)
        show(g, token, text, size);
    g->result->stop = stop;
    return HEARTH_OK;
}

hearth_status hearth_generate(hearth_session *session, uint32_t sequence, const int32_t *prompt, size_t count,
                              hearth_sampler *sampler, const hearth_answer_options *options, hearth_on_text *on_text,
                              void *user, hearth_result *result, hearth_error *error)
{
    *result = (hearth_result){.prompt_tokens = count};
    if (count == 0)
        return fail(error, HEARTH_INVALID, "prompt: is empty, there is nothing to continue");
    const hearth_model *model = session->engine->model;
    generation g = {session, sequence, sampler, NULL, NULL, on_text, user, result};
    hearth_status status;
    TRY_OR(done, status, hearth_answer_create(&g.answer, model, options, error));
    g.logits = mem_new_array(model->hyper.vocabulary_size, sizeof *g.logits);
    status = g.logits ? answer_prompt(&g, prompt, count, error)
                      : fail_memory(error, "logits", model->hyper.vocabulary_size * sizeof *g.logits);
done:
    hearth_answer_destroy(g.answer);
    mem_free(g.logits);
    return status;
}
