/* generate.c - hearth_generate: answers a prompt in one sequence with one sampler, until something stops it. */
#include "answer.h"
#include "request.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/sized.h"

typedef struct generation {
    request request;
    step_times times;
    hearth_row *rows; /* [of the prompt, or of a step]             */
    float *logits;    /* [outputs of a step][vocabulary_size]      */
    hearth_on_text *on_text;
    void *user;
    hearth_result *result;
} generation;

/* Reports text to the caller; returns whether the answer goes on. */
static bool tell(void *user, int32_t token, span text, const float *logits)
{
    (void)logits;
    generation *g = user;
    bool wanted = !g->on_text || g->on_text(g->user, token, text.data, text.size);
    return wanted && !session_is_cancelled(g->request.session);
}

/* Feeds rows and reads the logits of those that are outputs. */
static hearth_status feed(generation *g, size_t count, hearth_error *error)
{
    hearth_session *s = g->request.session;
    TRY(session_feed(s, g->rows, count, error));
    return hearth_session_logits(s, 0, hearth_session_output_count(s), g->logits, error);
}

/* Reads the prompt whole. */
static hearth_status read_prompt(generation *g, hearth_error *error)
{
    size_t count = request_rows(&g->request, g->request.prompt_count, g->rows);
    double start = clock_seconds();
    hearth_status status = session_feed(g->request.session, g->rows, count, error);
    g->result->prompt_seconds = clock_seconds() - start;
    return status;
}

/* Chooses the first token of the answer. */
static hearth_status begin_answer(generation *g, hearth_error *error)
{
    TRY(hearth_session_logits(g->request.session, 0, 1, g->logits, error));
    return request_take(&g->request, g->request.prompt_count, g->logits, error);
}

/* Reads the next token, and guesses behind it, and chooses what follows. */
static hearth_status step(generation *g, hearth_error *error)
{
    size_t most = g->request.session->output_rows;
    TRY(request_guess(&g->request, most, &g->times, 0, error));
    size_t count = request_rows(&g->request, most, g->rows);
    double start = clock_seconds();
    TRY(feed(g, count, error));
    step_times_add(&g->times, count, clock_seconds() - start);
    return request_take(&g->request, count, g->logits, error);
}

/* Reads the last token of an answer that has as many as wanted, so that a later prompt continues behind it. */
static hearth_status read_last(generation *g, hearth_error *error)
{
    request *r = &g->request;
    if (r->stop != HEARTH_STOP_LENGTH || r->next_is_read || session_can_append(r->session, r->sequence) == 0)
        return HEARTH_OK;
    hearth_row row = {r->next, r->sequence, true};
    TRY(session_feed(r->session, &row, 1, error));
    hearth_sampler_accept(r->sampler, r->next);
    return HEARTH_OK;
}

/* Runs the answer. Cancelling is a stop reason here, not an error; text that is still held back is shown at the end. */
static hearth_status answer_prompt(generation *g, hearth_error *error)
{
    request *r = &g->request;
    hearth_status status = read_prompt(g, error);
    double start = clock_seconds();
    if (status == HEARTH_OK)
        status = begin_answer(g, error);
    while (status == HEARTH_OK && r->stop == HEARTH_STOP_NONE)
        status = step(g, error);
    if (status == HEARTH_OK)
        status = read_last(g, error);
    g->result->answer_seconds = clock_seconds() - start - r->show_seconds;
    if (status == HEARTH_CANCELLED)
        r->stop = HEARTH_STOP_CANCELLED;
    else if (status != HEARTH_OK)
        return status;
    request_end(r, r->stop);
    return HEARTH_OK;
}

/* Allocates what a step needs, and answers. */
static hearth_status generate(generation *g, hearth_error *error)
{
    request *r = &g->request;
    size_t outputs = r->session->output_rows < 1 + DRAFT_MOST ? r->session->output_rows : 1 + DRAFT_MOST;
    size_t rows = r->prompt_count > outputs ? r->prompt_count : outputs;
    size_t values = outputs * r->session->engine->model->hyper.vocabulary_size;
    g->rows = mem_new_array(rows, sizeof *g->rows);
    g->logits = mem_new_array(values, sizeof *g->logits);
    hearth_status status = g->rows && g->logits
                               ? answer_prompt(g, error)
                               : fail_memory(error, "generate", rows * sizeof *g->rows + values * sizeof *g->logits);
    mem_free(g->rows);
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
    generation g = {.on_text = on_text, .user = user, .result = &filled};
    g.request = (request){.session = session,
                          .sequence = sequence,
                          .sampler = sampler,
                          .show = tell,
                          .user = &g,
                          .prompt = prompt,
                          .prompt_count = count};
    hearth_status status = sized_read(&own, sizeof own, options, options_size, "hearth_answer_options", error);
    if (status == HEARTH_OK)
        status = hearth_answer_create(&g.request.answer, session->engine->model, &own, error);
    if (status == HEARTH_OK)
        status = request_begin(&g.request, error);
    if (status == HEARTH_OK) {
        session_forget_cancel(session);
        status = generate(&g, error);
    }
    request_free(&g.request);
    hearth_answer_destroy(g.request.answer);
    filled.stop = g.request.stop;
    filled.answer_tokens = g.request.answer_tokens;
    filled.draft_tokens = g.request.drafted;
    filled.accepted_tokens = g.request.accepted;
    if (result)
        sized_write(result, result_size, &filled, sizeof filled);
    return status;
}
