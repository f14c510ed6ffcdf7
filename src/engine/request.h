/* request.h - one answer in the making: what it feeds in the next step, and what it does with the logits.
 *
 * It does not feed by itself, so its caller may join the rows of many requests in one step (scheduler.c) or take them
 * alone (generate.c):
 *
 *   request_guess(r, most, ...)            guesses behind the chosen token
 *   count = request_rows(r, most, rows)    the next part of the prompt; then the chosen token and the guesses
 *   feed, and read the logits of the rows that are outputs
 *   request_take(r, count, logits)         chooses, shows, decides whether to stop, takes back guesses that did not hold */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "draft.h"
#include "draft_model.h"
#include "engine.h"

/* Shows a token of the answer and the text that it completed; logits [vocabulary_size] are those it was chosen by. Token -1:
 * text that was held back, at the end, without logits. Returning false cancels. */
typedef bool request_show(void *user, int32_t token, span text, const float *logits);

typedef struct request {
    hearth_session *session;
    uint32_t sequence;
    hearth_sampler *sampler;
    hearth_answer *answer;
    request_show *show;
    void *user;
    const int32_t *prompt; /* [prompt_count] */
    size_t prompt_count, prompt_read;
    size_t draft_tokens;         /* most guesses in a step                       */
    int32_t next;                /* once the prompt is read: the token chosen last */
    bool next_is_read;           /* the session has read it                      */
    int32_t guesses[DRAFT_MOST]; /* [guessed] behind it in the present step      */
    size_t guessed, matched;
    draft_record drafts;
    draft_model draft; /* that guesses; without a session guesses are taken from the text */
    size_t answer_tokens, drafted, accepted;
    double show_seconds; /* spent in show() */
    hearth_stop stop;
} request;

/* Readies a request whose members up to prompt_count are set; the sequence may have read tokens before. Afterwards, and
 * also where it fails, request_free frees what it took.
 * HEARTH_INVALID: the prompt is empty, the sampler is for another vocabulary, or the draft (draft_model_begin). */
hearth_status request_begin(request *r, hearth_error *error);
void request_free(request *r);

/* Returns whether the prompt is read and tokens are being chosen. */
static inline bool request_answers(const request *r)
{
    return r->prompt_read == r->prompt_count;
}

/* Guesses what follows the next token, for a step in which it may have `most` rows (at least one), and others have others
 * rows; times: of the steps so far. While the prompt is read there are no guesses. Errors of the draft's session. */
hearth_status request_guess(request *r, size_t most, const step_times *times, size_t others, hearth_error *error);

/* Writes what the request reads next to rows, and returns how many: of the prompt at most `most` rows; then the next token
 * and the guesses. */
size_t request_rows(const request *r, size_t most, hearth_row *rows);

/* Continues the answer after `count` rows, those of request_rows, were read; logits [outputs][vocabulary_size] are those of
 * its rows that are outputs. Afterwards r->stop says whether it goes on. */
hearth_status request_take(request *r, size_t count, const float *logits, hearth_error *error);

/* Ends the request: shows what is held back. */
void request_end(request *r, hearth_stop stop);

#endif
