/* race.c - feeds the same tokens to several engines in turns and times each layer. */
#include "race.h"

#include "../base/clock.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../engine/engine.h"

#include <string.h>

/* One engine in the race. */
typedef struct runner {
    hearth_session *session;
    double *seconds; /* [layers][RACE_TOKENS] */
} runner;

typedef struct race {
    runner *runners; /* [count] */
    size_t count;
    uint32_t layers, tokens; /* tokens timed so far */
} race;

static void race_close(race *r)
{
    for (size_t i = 0; r->runners && i < r->count; i++) {
        hearth_session_destroy(r->runners[i].session);
        mem_free(r->runners[i].seconds);
    }
    mem_free(r->runners);
}

static hearth_status race_open(race *r, const hearth_engine *const *engines, size_t engine_count, uint32_t context,
                               hearth_error *error)
{
    hearth_session_options options = {.context = context, .batch = 1};
    *r = (race){mem_new_array(engine_count, sizeof *r->runners), engine_count, engines[0]->model->hyper.layer_count, 0};
    if (!r->runners)
        return fail_memory(error, "race", engine_count * sizeof *r->runners);
    for (size_t i = 0; i < engine_count; i++) {
        r->runners[i].seconds = mem_new_array(r->layers, RACE_TOKENS * sizeof(double));
        if (!r->runners[i].seconds)
            return fail_memory(error, "race", r->layers * RACE_TOKENS * sizeof(double));
        TRY(hearth_session_create(&r->runners[i].session, engines[i], &options, error));
    }
    return HEARTH_OK;
}

/* Feeds a token to engine i and stores each layer's time; the first token only warms up. */
static hearth_status run_token(race *r, size_t i, int32_t token, hearth_error *error)
{
    hearth_session *s = r->runners[i].session;
    bool counts = hearth_session_length(s, 0) > 0;
    hearth_session_reset_counts(s);
    TRY(hearth_session_feed(s, &(hearth_row){.token = token}, 1, error));
    for (uint32_t l = 0; counts && l < r->layers; l++)
        r->runners[i].seconds[(size_t)l * RACE_TOKENS + r->tokens] = s->ffn_seconds[l];
    return HEARTH_OK;
}

/* Feeds tokens to all engines, in alternating order, until the text or the time ends. */
static hearth_status run_all(race *r, const int32_t *ids, size_t count, hearth_progress progress, hearth_error *error)
{
    double start = clock_seconds();
    for (size_t t = 0; t < count; t++) {
        if (r->tokens >= RACE_LEAST && clock_seconds() - start > RACE_SECONDS)
            return HEARTH_OK;
        if (progress.report && !progress.report(progress.user, "racing", t, count))
            return fail(error, HEARTH_CANCELLED, "race: cancelled");
        for (size_t turn = 0; turn < r->count; turn++)
            TRY(run_token(r, t % 2 ? r->count - 1 - turn : turn, ids[t], error));
        r->tokens += t > 0;
    }
    return HEARTH_OK;
}

hearth_status race_measure(double *seconds, const hearth_engine *const *engines, size_t engine_count,
                           const int32_t *ids, size_t count, hearth_progress progress, hearth_error *error)
{
    race r;
    uint32_t room = engines[0]->model->hyper.context_length;
    count = count < RACE_TOKENS + 1 ? count : RACE_TOKENS + 1;
    count = count < room ? count : room;
    hearth_status status = race_open(&r, engines, engine_count, (uint32_t)(count > 0 ? count : 1), error);
    if (status == HEARTH_OK)
        status = run_all(&r, ids, count, progress, error);
    for (size_t i = 0; status == HEARTH_OK && i < engine_count; i++)
        for (uint32_t l = 0; l < r.layers; l++)
            seconds[i * r.layers + l] =
                r.tokens > 0 ? median(r.runners[i].seconds + (size_t)l * RACE_TOKENS, r.tokens) : 0;
    race_close(&r);
    return status;
}
