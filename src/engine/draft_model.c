/* draft_model.c - see draft_model.h. */
#include "draft_model.h"

#include "state.h"

#include "../base/clock.h"
#include "../base/memory.h"

#include <math.h>
#include <string.h>

/* A guess that the draft gives less is not worth a row. */
#define LEAST_PROBABILITY 0.3
/* What older times weigh when a new one is added. */
#define TIME_DECAY 0.9
/* Reading more tokens than that is reading a prompt, and no part of a guess's time. */
#define MOST_CAUGHT_UP 16

/* ------------------------------------------------------------------ life */

static hearth_status same_vocabulary(const hearth_model *a, const hearth_model *b, hearth_error *error)
{
    uint32_t size = a->hyper.vocabulary_size;
    if (size != b->hyper.vocabulary_size)
        return fail(error, HEARTH_INVALID, "%s: draft: has %u tokens, the model has %u", a->source->path, size,
                    b->hyper.vocabulary_size);
    for (uint32_t i = 0; i < size; i++) {
        span text_a = {0}, text_b = {0};
        text_a.data = hearth_token_text(a, (int32_t)i, &text_a.size);
        text_b.data = hearth_token_text(b, (int32_t)i, &text_b.size);
        if (!span_equal(text_a, text_b))
            return fail(error, HEARTH_INVALID, "%s: draft: token %u is another one than the model's", a->source->path,
                        i);
    }
    return HEARTH_OK;
}

hearth_status draft_model_begin(draft_model *d, hearth_session *session, const hearth_session *of, hearth_error *error)
{
    recurrent_states *each[RECURRENT_SIDES];
    const hearth_model *own = session->engine->model;
    TRY(same_vocabulary(own, of->engine->model, error));
    if (session_recurrents(session, each) > 0)
        return fail(error, HEARTH_UNSUPPORTED, "%s: draft: has recurrent layers, which cannot be cut by a few tokens",
                    own->source->path);
    *d = (draft_model){.session = session, .logits = mem_new_array(own->hyper.vocabulary_size, sizeof *d->logits)};
    session->cancelled_with = of;
    return d->logits ? HEARTH_OK : fail_memory(error, "draft", own->hyper.vocabulary_size * sizeof *d->logits);
}

void draft_model_end(draft_model *d)
{
    if (d->session)
        d->session->cancelled_with = NULL;
    mem_free(d->logits);
    *d = (draft_model){0};
}

/* ------------------------------------------------------------------ guesses */

/* Cuts the draft's sequence to what it has in common with tokens, but the last of these. */
static hearth_status cut_to_common(hearth_session *s, const int32_t *tokens, size_t count, hearth_error *error)
{
    const int32_t *own = session_tokens(s, 0);
    uint32_t length = hearth_session_length(s, 0), n = 0;
    while (n < length && n + 1 < count && own[n] == tokens[n])
        n++;
    return hearth_session_truncate(s, 0, n, error);
}

/* Reads tokens; only the logits of the last are wanted. */
static hearth_status read_tokens(hearth_session *s, const int32_t *tokens, size_t count, hearth_error *error)
{
    hearth_row *rows = mem_new_array(count, sizeof *rows);
    if (!rows)
        return fail_memory(error, "draft", count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){tokens[i], 0, i + 1 == count};
    session_forget_cancel(s);
    hearth_status status = session_feed(s, rows, count, error);
    mem_free(rows);
    return status;
}

/* Returns the likeliest token; *probability is its own. */
static int32_t likeliest(const float *logits, size_t count, double *probability)
{
    size_t best = 0;
    double sum = 0;
    for (size_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - logits[best]);
    *probability = 1 / sum; /* not a number: no guess */
    return (int32_t)best;
}

hearth_status draft_model_guess(draft_model *d, const int32_t *tokens, size_t count, size_t most, int32_t *out,
                                size_t *found, hearth_error *error)
{
    hearth_session *s = d->session;
    double start = clock_seconds(), probability;
    size_t vocabulary = s->engine->model->hyper.vocabulary_size;
    *found = 0;
    TRY(cut_to_common(s, tokens, count, error));
    size_t begin = hearth_session_length(s, 0), room = session_can_append(s, 0), behind = count - begin;
    if (behind > room)
        return HEARTH_OK; /* its context is full */
    most = most < room - behind + 1 ? most : room - behind + 1;
    TRY(read_tokens(s, tokens + begin, behind, error));
    while (*found < most) {
        TRY(hearth_session_logits(s, 0, 1, d->logits, error));
        int32_t token = likeliest(d->logits, vocabulary, &probability);
        if (!(probability >= LEAST_PROBABILITY))
            break;
        out[(*found)++] = token;
        if (*found < most)
            TRY(read_tokens(s, &token, 1, error));
    }
    double each = (clock_seconds() - start) / (double)(*found > 0 ? *found : 1);
    if (behind <= MOST_CAUGHT_UP)
        d->guess_seconds = d->guess_seconds > 0 ? TIME_DECAY * d->guess_seconds + (1 - TIME_DECAY) * each : each;
    return HEARTH_OK;
}
