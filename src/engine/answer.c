/* answer.c - the growing text of an answer, and when it ends.
 *
 * Stop strings are searched byte by byte with the automaton of Knuth, Morris and Pratt, which stores for each stop
 * string how much of it the text ends with. The answer ends at the first byte that completes one (the longest, if
 * several end there), so the result does not depend on how the text was cut into tokens. The end of the text may still
 * become a stop string, so as many bytes are held back as the longest partial match has. Stop strings and the pieces of
 * the detokenizer are whole characters, so the text handed out is, too. */
#include "answer.h"

#include "constraint.h"
#include "sampler.h"

#include "../base/sized.h"
#include "../model/model.h"

#include <string.h>

typedef struct stop_string {
    const char *text;
    size_t size;
    size_t *border; /* [size] length of the longest proper prefix of text[0..i] that is also its suffix */
    size_t matched; /* bytes of it that the answer ends with                                            */
} stop_string;

struct hearth_answer {
    const hearth_model *model;
    detokenizer *pieces;
    stop_string *stops; /* [stop_count] */
    size_t stop_count;
    uint32_t max_tokens; /* 0: no limit */
    uint64_t draft_tokens;
    hearth_session *draft;
    constraint *constraint; /* NULL: any text */
    bool ignore_end;
    uint32_t token_count;
    hearth_stop stop;
    bool finished;
    buffer text;  /* what the last call handed out, then what is held back */
    size_t shown; /* bytes of text that the last call handed out           */
    arena memory;
};

const char *hearth_stop_text(hearth_stop stop)
{
    static const char *const texts[] = {
#define X(name, text) [name] = text,
        HEARTH_STOPS(X)
#undef X
    };
    return (size_t)stop < sizeof texts / sizeof *texts ? texts[stop] : "unknown";
}

/* ---- stop strings */

/* Returns how many bytes of the stop string are matched after one more byte. */
static size_t advance(const stop_string *s, size_t matched, char byte)
{
    while (matched > 0 && (matched == s->size || s->text[matched] != byte))
        matched = s->border[matched - 1];
    return matched + (s->text[matched] == byte);
}

/* Copies a stop string and computes its borders. */
static hearth_status copy_stop(stop_string *out, const char *text, size_t number, arena *memory, hearth_error *error)
{
    size_t size = text ? strlen(text) : 0;
    if (size == 0)
        return fail(error, HEARTH_INVALID, "answer: stop string %zu is empty", number);
    if (!utf8_is_valid(text, size))
        return fail(error, HEARTH_INVALID, "answer: stop string %zu is not valid UTF-8", number);
    *out = (stop_string){arena_copy_text(memory, text, size), size, arena_new_array(memory, size, sizeof(size_t)), 0};
    if (!out->text || !out->border)
        return fail_memory(error, "stop string", size * sizeof(size_t));
    for (size_t i = 1; i < size; i++)
        out->border[i] = advance(out, out->border[i - 1], text[i]);
    return HEARTH_OK;
}

static hearth_status copy_stops(hearth_answer *a, const hearth_answer_options *options, hearth_error *error)
{
    if (options->stop_count > 0 && !options->stops)
        return fail(error, HEARTH_INVALID, "answer: stops is NULL, expected %zu", options->stop_count);
    a->stops = arena_new_array(&a->memory, options->stop_count, sizeof *a->stops);
    if (!a->stops)
        return fail_memory(error, "stop strings", options->stop_count);
    a->stop_count = options->stop_count;
    for (size_t i = 0; i < a->stop_count; i++)
        TRY(copy_stop(&a->stops[i], options->stops[i], i, &a->memory, error));
    return HEARTH_OK;
}

/* Feeds one more byte to all stop strings; returns the size of the longest one that it completes, 0 for none. */
static size_t match_byte(hearth_answer *a, char byte)
{
    size_t longest = 0;
    for (size_t i = 0; i < a->stop_count; i++) {
        stop_string *s = &a->stops[i];
        s->matched = advance(s, s->matched, byte);
        if (s->matched == s->size && s->size > longest)
            longest = s->size;
    }
    return longest;
}

/* Returns how many bytes at the end of the text may still become a stop string. */
static size_t held_back(const hearth_answer *a)
{
    size_t most = 0;
    for (size_t i = 0; i < a->stop_count; i++)
        most = a->stops[i].matched > most ? a->stops[i].matched : most;
    return most;
}

/* ---- the answer */

hearth_status hearth_answer_create_sized(hearth_answer **out, const hearth_model *model,
                                         const hearth_answer_options *given, size_t options_size, hearth_error *error)
{
    hearth_answer_options own, *options = &own;
    TRY(sized_read(&own, sizeof own, given, options_size, "hearth_answer_options", error));
    TRY(model_need_tokenizer(model, error));
    hearth_answer *a = mem_new(sizeof *a);
    if (!a)
        return fail_memory(error, "answer", sizeof *a);
    a->model = model;
    a->max_tokens = options->max_tokens;
    a->draft_tokens = options->draft_tokens;
    a->draft = options->draft;
    a->ignore_end = options->ignore_end;
    hearth_status status;
    TRY_OR(failed, status, copy_stops(a, options, error));
    if (options->grammar)
        TRY_OR(failed, status, constraint_create(&a->constraint, options->grammar, model, error));
    /* An answer continues the prompt: a blank before its first word belongs to it. */
    TRY_OR(failed, status, detokenizer_create(&a->pieces, model->tokenizer, HEARTH_DETOKENIZE_CONTINUE, error));
    *out = a;
    return HEARTH_OK;
failed:
    hearth_answer_destroy(a);
    return status;
}

void hearth_answer_destroy(hearth_answer *answer)
{
    if (!answer)
        return;
    detokenizer_destroy(answer->pieces);
    constraint_destroy(answer->constraint);
    buffer_free(&answer->text);
    arena_clear(&answer->memory);
    mem_free(answer);
}

hearth_status hearth_answer_pick(hearth_answer *answer, hearth_sampler *sampler, const float *logits, int32_t *token,
                                 hearth_error *error)
{
    const uint64_t *allowed = NULL;
    if (answer->constraint)
        TRY(constraint_mask(answer->constraint, &allowed, error));
    do
        *token = sampler_pick_among(sampler, logits, allowed);
    while (answer->constraint && !constraint_fits(answer->constraint, *token));
    return HEARTH_OK;
}

/* Removes what the last call handed out. */
static void drop_shown(hearth_answer *a)
{
    a->text.size -= a->shown;
    if (a->text.size > 0)
        memmove(a->text.data, a->text.data + a->shown, a->text.size);
    a->shown = 0;
}

/* Appends a piece; *stopped is true if it completes a stop string, which is then cut off. */
static hearth_status add_piece(hearth_answer *a, span piece, bool *stopped, hearth_error *error)
{
    *stopped = false;
    size_t start = a->text.size;
    if (!buffer_put(&a->text, piece.data, piece.size))
        return fail_memory(error, "answer", start + piece.size);
    for (size_t i = start; i < a->text.size && !*stopped; i++) {
        size_t match = match_byte(a, a->text.data[i]);
        if (match > 0) {
            a->text.size = i + 1 - match; /* all of the match is in the buffer, as it was held back */
            *stopped = true;
        }
    }
    return HEARTH_OK;
}

/* Hands out all of the text but the last `hold` bytes. */
static void hand_out(hearth_answer *a, size_t hold, const char **text, size_t *size)
{
    a->shown = a->text.size - hold;
    *text = a->text.data ? a->text.data : "";
    *size = a->shown;
}

hearth_status hearth_answer_push(hearth_answer *answer, int32_t token, const char **text, size_t *size,
                                 hearth_stop *stop, hearth_error *error)
{
    hearth_answer *a = answer;
    if (a->finished || a->stop != HEARTH_STOP_NONE)
        return fail(error, HEARTH_INVALID, "answer: has ended, no token can follow");
    bool is_end = (!a->ignore_end || a->constraint) && hearth_token_ends_answer(a->model, token);
    bool stopped = false;
    span piece = {0};
    if (a->constraint)
        TRY(constraint_accept(a->constraint, token, error));
    if (!is_end)
        TRY(detokenizer_push(a->pieces, token, &piece, error));
    /* A control token, which has no text, is a mark of something else than what was said before it: what is held back belongs
     * before the mark, and no stop string lies across it. */
    bool is_mark = !is_end && piece.size == 0 && (hearth_token_attributes(a->model, token) & HEARTH_TOKEN_CONTROL);
    for (size_t i = 0; is_mark && i < a->stop_count; i++)
        a->stops[i].matched = 0;
    drop_shown(a);
    TRY(add_piece(a, piece, &stopped, error));
    a->token_count += !is_end;
    if (is_end || (a->constraint && constraint_has_ended(a->constraint)))
        a->stop = HEARTH_STOP_END;
    else if (stopped)
        a->stop = HEARTH_STOP_STRING;
    else if (a->token_count == a->max_tokens)
        a->stop = HEARTH_STOP_LENGTH;
    *stop = a->stop;
    hand_out(a, stopped ? 0 : held_back(a), text, size);
    return HEARTH_OK;
}

void hearth_answer_finish(hearth_answer *answer, const char **text, size_t *size)
{
    hearth_answer *a = answer;
    drop_shown(a);
    if (!a->finished && a->stop != HEARTH_STOP_STRING) {
        span rest;
        bool stopped;
        detokenizer_finish(a->pieces, &rest);
        /* If memory is out, the replacement of an incomplete character is lost, which does no harm. */
        (void)add_piece(a, rest, &stopped, NULL);
    }
    a->finished = true;
    hand_out(a, 0, text, size);
}

uint64_t answer_draft_tokens(const hearth_answer *answer)
{
    return answer->draft_tokens;
}

hearth_session *answer_draft(const hearth_answer *answer)
{
    return answer->draft;
}

uint32_t answer_max_tokens(const hearth_answer *answer)
{
    return answer->max_tokens;
}
