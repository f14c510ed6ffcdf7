/* scorer.c - probabilities and vectors of prompts. */
#include "scorer.h"

#include "score.h"

#include "../base/memory.h"

#include <math.h>
#include <stdio.h>

/* Rows read at once: all with logits; all with hidden states, which take less memory. */
#define SCORED_ROWS   32
#define EMBEDDED_ROWS 64

/* What a prompt is read for. */
typedef struct purpose {
    size_t rows; /* of a part */
    /* Takes the memory it needs, once. */
    hearth_status (*prepare)(scorer *s, hearth_error *error);
    /* Takes what it wants of the `count` rows that were fed; s->read does not count them yet. false: the ending says why. */
    bool (*take)(scorer *s, job_choice *c, size_t count);
    /* The prompt has been read; its last part had `count` rows. */
    scorer_result (*finish)(scorer *s, job_choice *c, size_t count);
} purpose;

struct scorer {
    const hearth_engine *engine;
    hearth_session_options options;
    _Atomic(hearth_session *) session; /* NULL: nobody has needed it yet */
    size_t vocabulary, length;         /* of logits, of hidden states    */
    pooling pooling;
    float *logits;      /* [SCORED_ROWS][vocabulary]; NULL: not needed yet  */
    float *hidden;      /* [EMBEDDED_ROWS][length]; likewise                */
    double *sum;        /* [length] of the hidden states so far; likewise   */
    job_choice *choice; /* whose prompt is read; NULL: none */
    size_t read;        /* tokens of it                     */
};

void choice_fail(job_choice *c, hearth_status status, const char *code, const char *text)
{
    c->ending.status = status;
    c->ending.code = code;
    snprintf(c->ending.error, sizeof c->ending.error, "%.255s", text);
}

bool choice_tell(job_choice *c, event_kind kind, int32_t token, span text, const float *logits, size_t vocabulary)
{
    job *j = c->job;
    size_t count = logits ? j->candidate_count : 0;
    j->probabilities += logits && j->wants_probabilities ? count + 1 : 0;
    if (!j->streams && j->probabilities > JOB_PROBABILITIES) {
        choice_fail(c, HEARTH_INVALID, "out_of_range",
                    "logprobs: more probabilities than fit into one answer; a stream has no limit");
        return false;
    }
    event *e = event_new(kind, c->number, token, text, count);
    if (!e) {
        choice_fail(c, HEARTH_NO_MEMORY, NULL, "answer: out of memory");
        return false;
    }
    if (logits && (j->wants_probabilities || kind == EVENT_PROMPT))
        score_token(logits, vocabulary, &e->token, e->candidates, count);
    else if (kind == EVENT_PROMPT)
        e->token.log_probability = (double)NAN;
    if (outbox_put(&j->outbox, e))
        return true;
    choice_fail(c, HEARTH_CANCELLED, "too_slow", "the client does not read its answer");
    return false;
}

hearth_status scorer_create(scorer **out, const hearth_engine *engine, const hearth_session_options *options,
                            pooling how, hearth_error *error)
{
    scorer *s = mem_new(sizeof *s);
    hearth_model_info info;
    if (!s)
        return fail_memory(error, "scorer", sizeof *s);
    hearth_model_describe(hearth_engine_model(engine), &info);
    *s = (scorer){.engine = engine,
                  .options = *options,
                  .vocabulary = info.vocabulary_size,
                  .length = info.embedding_length,
                  .pooling = how};
    s->options.sequences = 1;
    s->options.spare_sequences = 0;
    s->options.output_rows = EMBEDDED_ROWS;
    *out = s;
    return HEARTH_OK;
}

void scorer_destroy(scorer *s)
{
    if (!s)
        return;
    hearth_session_destroy(s->session);
    mem_free(s->logits);
    mem_free(s->hidden);
    mem_free(s->sum);
    mem_free(s);
}

void scorer_cancel(scorer *s)
{
    hearth_session *session = s->session;
    if (session)
        hearth_session_cancel(session);
}

void scorer_begin(scorer *s, job_choice *c)
{
    s->choice = c;
    s->read = 0;
}

bool scorer_is_busy(const scorer *s)
{
    return s->choice;
}

static hearth_status open_session(scorer *s, hearth_error *error)
{
    hearth_session *session;
    if (s->session)
        return HEARTH_OK;
    TRY(hearth_session_create(&session, s->engine, &s->options, error));
    s->session = session;
    return HEARTH_OK;
}

/* Reads `count` rows of a prompt. */
static hearth_status feed(scorer *s, const purpose *to, const job_prompt *p, size_t count, hearth_error *error)
{
    hearth_row rows[EMBEDDED_ROWS];
    TRY(to->prepare(s, error));
    TRY(open_session(s, error));
    if (s->read == 0)
        TRY(hearth_session_truncate(s->session, 0, 0, error));
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){.token = p->ids[s->read + i], .output = true};
    return hearth_session_feed(s->session, rows, count, error);
}

/* ------------------------------------------------------------------ probabilities */

static hearth_status prepare_logits(scorer *s, hearth_error *error)
{
    if (!s->logits)
        s->logits = mem_new_array(SCORED_ROWS, s->vocabulary * sizeof *s->logits);
    return s->logits ? HEARTH_OK : fail_memory(error, "logits", SCORED_ROWS * s->vocabulary * sizeof *s->logits);
}

/* Chooses the only token of an answer. The token that ends an answer is told as well: evaluations ask for one token and
 * expect one. */
static void answer_once(scorer *s, job_choice *c, const float *logits)
{
    const job_prompt *p = &c->job->prompts[c->prompt];
    const char *text, *more;
    size_t size, more_size;
    hearth_error error = {0};
    for (size_t i = 0; i < p->count; i++)
        hearth_sampler_accept(c->sampler, p->ids[i]);
    int32_t token;
    hearth_status status = hearth_answer_pick(c->answer, c->sampler, logits, &token, &error);
    if (status == HEARTH_OK)
        status = hearth_answer_push(c->answer, token, &text, &size, &c->ending.stop, &error);
    if (status != HEARTH_OK) {
        choice_fail(c, status, NULL, error.text);
        return;
    }
    c->ending.answer_tokens = 1;
    if (!choice_tell(c, EVENT_TOKEN, token, (span){text, size}, logits, s->vocabulary))
        return;
    hearth_answer_finish(c->answer, &more, &more_size);
    if (more_size > 0)
        (void)choice_tell(c, EVENT_TOKEN, -1, (span){more, more_size}, NULL, 0);
}

/* Tells what the rows that were read say about the tokens behind them. */
static bool tell_prompt(scorer *s, job_choice *c, size_t count)
{
    const job_prompt *p = &c->job->prompts[c->prompt];
    hearth_error error = {0};
    hearth_status status = hearth_session_logits(s->session, 0, count, s->logits, &error);
    if (status != HEARTH_OK) {
        choice_fail(c, status, NULL, error.text);
        return false;
    }
    if (s->read == 0 && !choice_tell(c, EVENT_PROMPT, p->ids[0], (span){0}, NULL, 0))
        return false;
    for (size_t i = 0; i < count && s->read + i + 1 < p->count; i++)
        if (!choice_tell(c, EVENT_PROMPT, p->ids[s->read + i + 1], (span){0}, s->logits + i * s->vocabulary,
                         s->vocabulary))
            return false;
    return true;
}

static scorer_result finish_score(scorer *s, job_choice *c, size_t count)
{
    c->ending.stop = HEARTH_STOP_LENGTH;
    if (c->job->most_tokens > 1)
        return SCORER_SCORED;
    if (c->job->most_tokens == 1)
        answer_once(s, c, s->logits + (count - 1) * s->vocabulary);
    return SCORER_ENDED;
}

/* ------------------------------------------------------------------ vectors */

static hearth_status prepare_hidden(scorer *s, hearth_error *error)
{
    if (!s->hidden)
        s->hidden = mem_new_array(EMBEDDED_ROWS, s->length * sizeof *s->hidden);
    if (!s->sum)
        s->sum = mem_new_array(s->length, sizeof *s->sum);
    return s->hidden && s->sum ? HEARTH_OK
                               : fail_memory(error, "hidden states", EMBEDDED_ROWS * s->length * sizeof *s->hidden);
}

static bool pool(scorer *s, job_choice *c, size_t count)
{
    hearth_error error = {0};
    hearth_status status = hearth_session_hidden(s->session, 0, count, s->hidden, &error);
    if (status != HEARTH_OK) {
        choice_fail(c, status, NULL, error.text);
        return false;
    }
    for (size_t k = 0; s->read == 0 && k < s->length; k++)
        s->sum[k] = 0;
    pooling_add(s->pooling, s->hidden, count, s->length, s->sum);
    return true;
}

static scorer_result finish_vector(scorer *s, job_choice *c, size_t count)
{
    (void)count;
    pooling_finish(s->pooling, s->sum, c->job->prompts[c->prompt].count, s->length,
                   c->job->vectors + c->number * s->length);
    c->ending.stop = HEARTH_STOP_END;
    return SCORER_ENDED;
}

/* ------------------------------------------------------------------ parts */

static const purpose scored = {SCORED_ROWS, prepare_logits, tell_prompt, finish_score},
                     embedded = {EMBEDDED_ROWS, prepare_hidden, pool, finish_vector};

scorer_result scorer_step(scorer *s, job_choice **done)
{
    job_choice *c = *done = s->choice;
    const job_prompt *p = &c->job->prompts[c->prompt];
    const purpose *to = c->job->vectors ? &embedded : &scored;
    size_t left = p->count - s->read, count = left < to->rows ? left : to->rows;
    hearth_error error = {0};
    if (atomic_load(&c->job->cancelled)) {
        c->ending.stop = HEARTH_STOP_CANCELLED;
        s->choice = NULL;
        return SCORER_ENDED;
    }
    hearth_status status = feed(s, to, p, count, &error);
    if (status != HEARTH_OK)
        choice_fail(c, status, NULL, error.text);
    bool goes_on = status == HEARTH_OK && to->take(s, c, count);
    s->read += count;
    if (goes_on && s->read < p->count)
        return SCORER_GOES_ON;
    s->choice = NULL;
    if (!goes_on)
        return SCORER_ENDED;
    c->ending.prompt_tokens = p->count;
    return to->finish(s, c, count);
}
