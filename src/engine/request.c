/* request.c - see request.h. */
#include "request.h"

#include "answer.h"
#include "sampler.h"
#include "state.h"

#include "../base/clock.h"

hearth_status request_begin(request *r, hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    uint32_t vocabulary = r->session->engine->model->hyper.vocabulary_size;
    if (r->prompt_count == 0)
        return fail(error, HEARTH_INVALID, "prompt: is empty, there is nothing to continue");
    if (sampler_vocabulary(r->sampler) != vocabulary)
        return fail(error, HEARTH_INVALID, "sampling: is for %u tokens, the model has %u",
                    sampler_vocabulary(r->sampler), vocabulary);
    r->draft_tokens = answer_draft_tokens(r->answer);
    r->draft_tokens = r->draft_tokens < DRAFT_MOST ? r->draft_tokens : DRAFT_MOST;
    hearth_session *draft = answer_draft(r->answer);
    bool is_recurrent = session_recurrents(r->session, each) > 0;
    if (draft && (draft == r->session || r->draft_tokens == 0))
        return fail(error, HEARTH_INVALID, "draft: %s",
                    r->draft_tokens == 0 ? "draft_tokens is 0" : "its session is the one that answers");
    if (draft && is_recurrent)
        return fail(error, HEARTH_UNSUPPORTED,
                    "draft: the model has recurrent layers, which cannot be cut by a few tokens");
    if (is_recurrent)
        r->draft_tokens = 0;
    return draft ? draft_model_begin(&r->draft, draft, r->session, error) : HEARTH_OK;
}

void request_free(request *r)
{
    draft_model_end(&r->draft);
}

/* ------------------------------------------------------------------ what is read next */

hearth_status request_guess(request *r, size_t most, const step_times *times, size_t others, hearth_error *error)
{
    r->guessed = 0;
    if (!request_answers(r))
        return HEARTH_OK;
    most--;
    uint32_t length = hearth_session_length(r->session, r->sequence),
             room = session_can_append(r->session, r->sequence);
    most = most < r->draft_tokens ? most : r->draft_tokens;
    most = most < room ? most : room - (room > 0); /* the next token takes a place */
    if (most == 0)
        return HEARTH_OK;
    /* The next token is not read yet; behind the others there is room for it. */
    int32_t *tokens = session_tokens(r->session, r->sequence);
    tokens[length] = r->next;
    if (r->draft.session) { /* of which each takes time, so first it is asked how many are worth it */
        r->matched = DRAFT_MATCH;
        most = draft_worth(&r->drafts, times, r->matched, most, others + 1, r->draft.guess_seconds);
        return most == 0 ? HEARTH_OK
                         : draft_model_guess(&r->draft, tokens, length + 1, most, r->guesses, &r->guessed, error);
    }
    size_t n = draft_guess(tokens, length + 1, most, r->guesses, &r->matched);
    r->guessed = n > 0 ? draft_worth(&r->drafts, times, r->matched, n, others + 1, 0) : 0;
    return HEARTH_OK;
}

size_t request_rows(const request *r, size_t most, hearth_row *rows)
{
    if (!request_answers(r)) {
        size_t left = r->prompt_count - r->prompt_read, n = left < most ? left : most;
        for (size_t i = 0; i < n; i++)
            rows[i] = (hearth_row){r->prompt[r->prompt_read + i], r->sequence, i + 1 == left};
        return n;
    }
    rows[0] = (hearth_row){r->next, r->sequence, true};
    for (size_t i = 0; i < r->guessed; i++)
        rows[1 + i] = (hearth_row){r->guesses[i], r->sequence, true};
    return 1 + r->guessed;
}

/* ------------------------------------------------------------------ what is made of it */

static bool show(request *r, int32_t token, span text, const float *logits)
{
    double start = clock_seconds();
    bool goes_on = !r->show || r->show(r->user, token, text, logits);
    r->show_seconds += clock_seconds() - start;
    return goes_on;
}

/* Chooses and shows the token after `length` tokens of the sequence. */
static hearth_status choose(request *r, uint32_t length, const float *logits, hearth_error *error)
{
    span text;
    TRY(hearth_answer_pick(r->answer, r->sampler, logits, &r->next, error));
    r->next_is_read = false;
    TRY(hearth_answer_push(r->answer, r->next, &text.data, &text.size, &r->stop, error));
    if (r->stop == HEARTH_STOP_END && hearth_token_ends_answer(r->session->engine->model, r->next))
        return HEARTH_OK;
    r->answer_tokens++;
    bool wanted = show(r, r->next, text, logits);
    if (!wanted && r->stop == HEARTH_STOP_NONE)
        r->stop = HEARTH_STOP_CANCELLED;
    bool full =
        length == hearth_session_length(r->session, r->sequence) && session_can_append(r->session, r->sequence) == 0;
    if (full && r->stop == HEARTH_STOP_NONE)
        r->stop = HEARTH_STOP_CONTEXT;
    return HEARTH_OK;
}

/* Chooses tokens as long as they are those that were guessed, and cuts the sequence behind the last of these. */
static hearth_status check_guesses(request *r, const float *logits, hearth_error *error)
{
    size_t vocabulary = r->session->engine->model->hyper.vocabulary_size, held = 0;
    uint32_t length = hearth_session_length(r->session, r->sequence) - (uint32_t)r->guessed;
    hearth_status status = choose(r, length, logits, error);
    while (status == HEARTH_OK && held < r->guessed && r->next == r->guesses[held] &&
           (r->stop == HEARTH_STOP_NONE || r->stop == HEARTH_STOP_LENGTH)) {
        hearth_sampler_accept(r->sampler, r->next);
        r->next_is_read = true;
        held++;
        if (r->stop != HEARTH_STOP_NONE)
            break;
        status = choose(r, length + (uint32_t)held, logits + held * vocabulary, error);
    }
    if (held < r->guessed) {
        hearth_status cut = hearth_session_truncate(r->session, r->sequence, length + (uint32_t)held, error);
        status = status == HEARTH_OK ? cut : status;
    }
    r->drafted += r->guessed;
    r->accepted += held;
    if (r->guessed > 0)
        draft_note(&r->drafts, r->matched, held, held < r->guessed && r->stop == HEARTH_STOP_NONE);
    return status;
}

hearth_status request_take(request *r, size_t count, const float *logits, hearth_error *error)
{
    if (!request_answers(r)) {
        for (size_t i = 0; i < count; i++)
            hearth_sampler_accept(r->sampler, r->prompt[r->prompt_read + i]);
        r->prompt_read += count;
        return request_answers(r) ? check_guesses(r, logits, error) : HEARTH_OK;
    }
    hearth_sampler_accept(r->sampler, r->next);
    return check_guesses(r, logits, error);
}

void request_end(request *r, hearth_stop stop)
{
    span held;
    hearth_answer_finish(r->answer, &held.data, &held.size);
    if (held.size > 0)
        show(r, -1, held, NULL);
    r->stop = stop;
}
