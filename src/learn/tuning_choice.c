/* tuning_choice.c - chooses one predictor per layer, by bytes or by time, measures the loss of the choice, and
 * describes it in words and as JSON.
 *
 * A candidate is tested as it will be used: it is written to a tune file in the work
 * folder, which an engine of the model takes its predictors from; the model itself does not change.
 * The exact engine runs beside each candidate and shares the transposed copies with it.
 * What counts is the ratio of their times, so candidates can be timed one after the other. */
#include "tuning_internal.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../engine/engine.h"

#include <stdio.h>
#include <string.h>

/* A candidate must be better by this share: the noise between two medians of the same work on a shared machine. */
#define CLEARLY 0.03
/* Tolerance below the wanted recall, since recalls are shares of counts. */
#define RECALL_SLACK 1e-4
/* Most tokens that are timed; a run ends earlier after RACE_SECONDS, but not before RACE_LEAST tokens. */
#define RACE_TOKENS  64
#define RACE_LEAST   9
#define RACE_SECONDS 3.0

/* ------------------------------------------------------------------ an engine with candidates */

/* Makes a tune record of the chosen candidates, through a tune file of its own. */
static hearth_status open_candidates(tune **out, const tuning *t, const size_t *chosen, hearth_error *error)
{
    size_t count = t->out->layer_count;
    tune record;
    tune_layer *layers = mem_new_array(count, sizeof *layers);
    char *path = file_join(t->options->folder, "candidate.tune");
    hearth_status status = layers && path ? HEARTH_OK : fail_memory(error, "tuning", count * sizeof *layers);
    if (status == HEARTH_OK) {
        tuning_fill(&record, layers, t, chosen);
        status = tune_write(path, &record, t->model, error);
    }
    if (status == HEARTH_OK)
        status = tune_open(out, path, t->model, error);
    mem_free(path);
    mem_free(layers);
    return status;
}

/* A tune record of candidates, and an engine in mode predicted that uses it. */
typedef struct trial {
    tune *record;
    hearth_engine *engine;
} trial;

/* Opens the chosen candidates; the engine shares the transposed copies of the exact one. */
static hearth_status trial_open(trial *out, const tuning *t, const hearth_engine *exact, const size_t *chosen,
                                hearth_error *error)
{
    hearth_placement *placement;
    hearth_status status;
    TRY(open_candidates(&out->record, t, chosen, error));
    TRY_OR(failed, status, tune_bind(out->record, t->model, error));
    TRY_OR(failed, status, placement_create(&placement, t->model, out->record, HEARTH_MODE_PREDICTED, error));
    status = engine_with_placement(&out->engine, exact, out->record, placement, error);
    hearth_placement_destroy(placement);
    if (status == HEARTH_OK)
        return HEARTH_OK;
failed:
    tune_close(out->record);
    return status;
}

static void trial_close(trial *t)
{
    hearth_engine_destroy(t->engine);
    tune_close(t->record);
}

/* ------------------------------------------------------------------ the clock */

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

/* ------------------------------------------------------------------ timing the candidates */

/* Chooses candidate `number` in every layer that has it, and none in the others. Returns whether any layer has it. */
static bool line_up(size_t *chosen, const tuning_result *r, size_t number)
{
    bool any = false;
    for (uint32_t i = 0; i < r->layer_count; i++) {
        chosen[i] = r->layers[i].candidates[number].kind != PREDICTOR_NONE ? number : TUNING_NONE;
        any |= chosen[i] != TUNING_NONE;
    }
    return any;
}

/* Times the chosen candidates on the same tokens as exact. seconds [2][layers]: exact, then with the candidates. */
static hearth_status race_candidates(tuning *t, const hearth_engine *exact, const size_t *chosen, double *seconds,
                                     hearth_error *error)
{
    trial with;
    TRY(trial_open(&with, t, exact, chosen, error));
    const hearth_engine *const engines[] = {exact, with.engine};
    /* tokens not used for training; where these are too few, the last of the text, which take as long */
    size_t least = t->texts->id_count < RACE_TOKENS + 1 ? t->texts->id_count : RACE_TOKENS + 1;
    size_t from = (size_t)t->unseen < t->texts->id_count - least ? (size_t)t->unseen : t->texts->id_count - least;
    hearth_status status =
        race_measure(seconds, engines, 2, t->texts->ids + from, t->texts->id_count - from, tuning_progress(t), error);
    trial_close(&with);
    return status;
}

/* Times every candidate against exact, one number at a time for all layers. */
static hearth_status race_all(tuning *t, const hearth_engine *exact, size_t *chosen, double *seconds,
                              hearth_error *error)
{
    size_t layers = t->out->layer_count;
    for (size_t number = 1; number < TUNING_CANDIDATES; number++) {
        TRY(tuning_unit(t, error));
        if (!line_up(chosen, t->out, number))
            continue;
        TRY(race_candidates(t, exact, chosen, seconds, error));
        for (size_t i = 0; i < layers; i++)
            if (chosen[i] == number) {
                t->out->layers[i].candidates[number].exact_seconds = seconds[i];
                t->out->layers[i].candidates[number].seconds = seconds[layers + i];
            }
    }
    return HEARTH_OK;
}

/* Times all candidates. The times are not stored: measuring
 * takes seconds, and a resumed run may be on another machine. */
static hearth_status measure_candidates(tuning *t, const hearth_engine *exact, hearth_error *error)
{
    size_t layers = t->out->layer_count;
    size_t *chosen = mem_new_array(layers, sizeof *chosen);
    double *seconds = mem_new_array(layers, 2 * sizeof *seconds);
    hearth_status status = chosen && seconds ? race_all(t, exact, chosen, seconds, error)
                                             : fail_memory(error, "tuning", layers * 2 * sizeof *seconds);
    mem_free(chosen);
    mem_free(seconds);
    return status;
}

/* ------------------------------------------------------------------ the choice */

static bool meets_recall(const tuning_result *r, const candidate *c)
{
    return c->recall >= (double)r->recall - RECALL_SLACK;
}

static bool is_clearly_less(double with, double without)
{
    return with < without * (1 - CLEARLY);
}

/* Checked whatever the times say: a candidate that reads more
 * than exact can only win on a model that fits into the caches. */
static bool reads_less(const tuning_layer *l, const candidate *c)
{
    return c->token_bytes < choose_exact_bytes(&l->shape);
}

/* Returns cost and gain of a candidate; CHOOSE_NEVER where it
 * misses the recall, reads no less or is not clearly better. */
static choose_option option_of(const tuning_result *r, const tuning_layer *l, size_t number)
{
    const candidate *c = &l->candidates[number];
    if (number == TUNING_NONE)
        return (choose_option){0, 0};
    if (c->kind == PREDICTOR_NONE || !meets_recall(r, c) || !reads_less(l, c))
        return CHOOSE_NEVER;
    double without = r->choice == TUNING_TIME ? c->exact_seconds : choose_exact_bytes(&l->shape);
    double with = r->choice == TUNING_TIME ? c->seconds : c->token_bytes;
    return is_clearly_less(with, without) ? (choose_option){c->own_bytes, without - with} : CHOOSE_NEVER;
}

hearth_status tuning_pick(tuning_result *r, hearth_error *error)
{
    size_t layers = r->layer_count;
    choose_option *options = mem_new_array(layers * TUNING_CANDIDATES, sizeof *options);
    size_t *chosen = mem_new_array(layers, sizeof *chosen);
    hearth_status status =
        options && chosen ? HEARTH_OK : fail_memory(error, "tuning", layers * TUNING_CANDIDATES * sizeof *options);
    for (size_t i = 0; status == HEARTH_OK && i < layers * TUNING_CANDIDATES; i++)
        options[i] = option_of(r, &r->layers[i / TUNING_CANDIDATES], i % TUNING_CANDIDATES);
    if (status == HEARTH_OK)
        r->spent_bytes = choose_within(chosen, options, layers, TUNING_CANDIDATES, r->budget_bytes);
    for (size_t i = 0; status == HEARTH_OK && i < layers; i++)
        r->layers[i].chosen = chosen[i];
    mem_free(options);
    mem_free(chosen);
    return status;
}

/* Chooses the trained low-rank predictor in every layer, as PowerInfer requires. */
static void choose_low_rank(tuning_result *r)
{
    for (uint32_t i = 0; i < r->layer_count; i++) {
        if (r->counted.layers[i].neuron_count == 0)
            continue;
        r->layers[i].chosen = TUNING_LOW_RANK;
        r->spent_bytes += r->layers[i].candidates[TUNING_LOW_RANK].own_bytes;
    }
}

/* ------------------------------------------------------------------ the loss */

/* Measures the loss of the chosen predictors; leaves it zero where no layer has one. */
static hearth_status measure_loss(tuning *t, const hearth_engine *exact, hearth_error *error)
{
    size_t layers = t->out->layer_count;
    size_t *chosen = mem_new_array(layers, sizeof *chosen);
    bool any = false;
    trial with;
    if (!chosen)
        return fail_memory(error, "tuning", layers * sizeof *chosen);
    for (size_t i = 0; i < layers; i++) {
        chosen[i] = t->out->layers[i].chosen;
        any |= chosen[i] != TUNING_NONE;
    }
    hearth_status status = any ? trial_open(&with, t, exact, chosen, error) : HEARTH_OK;
    if (any && status == HEARTH_OK) {
        status = loss_measure(&t->out->loss, exact, with.engine, t->texts, t->unseen, LOSS_TOKENS, tuning_progress(t),
                              error);
        trial_close(&with);
    }
    mem_free(chosen);
    return status;
}

hearth_status tuning_choose(tuning *t, hearth_error *error)
{
    hearth_engine *exact;
    bool timed = t->out->choice == TUNING_TIME;
    TRY(tuning_stage(t, "comparing with exact", timed ? TUNING_CANDIDATES : 1, error));
    TRY(tuning_open_engine(&exact, t, HEARTH_MODE_EXACT, error));
    hearth_status status = timed ? measure_candidates(t, exact, error) : HEARTH_OK;
    if (status == HEARTH_OK && t->options->for_powerinfer)
        choose_low_rank(t->out);
    else if (status == HEARTH_OK)
        status = tuning_pick(t->out, error);
    if (status == HEARTH_OK)
        status = tuning_unit(t, error);
    if (status == HEARTH_OK)
        status = measure_loss(t, exact, error);
    hearth_engine_destroy(exact);
    return status;
}

/* ------------------------------------------------------------------ in words */

void tuning_describe(char *out, size_t size, const candidate *c)
{
    if (c->kind == PREDICTOR_LOW_RANK)
        snprintf(out, size, "low-rank %u %s", c->rank, c->normed ? "normed" : "residual");
    else if (c->kind == PREDICTOR_COARSE)
        snprintf(out, size, "coarse %s", number_formats[c->format].name);
    else
        snprintf(out, size, "none");
}

/* Returns the time (or bytes) per token of a candidate as a share of the layer's without it; 0: unknown. */
static double relative(const tuning_result *r, const tuning_layer *l, const candidate *c)
{
    if (r->choice == TUNING_TIME)
        return c->exact_seconds > 0 ? c->seconds / c->exact_seconds : 0;
    return c->token_bytes / choose_exact_bytes(&l->shape);
}

/* Returns whether candidate a is better than b: one that meets the recall, then the one with the smaller share. */
static bool is_better(const tuning_result *r, const tuning_layer *l, const candidate *a, const candidate *b)
{
    if (meets_recall(r, a) != meets_recall(r, b))
        return meets_recall(r, a);
    return relative(r, l, a) < relative(r, l, b);
}

/* Returns the best candidate that was not chosen; NULL: there is none. */
static const candidate *best_other(const tuning_result *r, const tuning_layer *l)
{
    const candidate *best = NULL;
    for (size_t i = 1; i < TUNING_CANDIDATES; i++) {
        const candidate *c = &l->candidates[i];
        if (c->kind != PREDICTOR_NONE && i != l->chosen && (!best || is_better(r, l, c, best)))
            best = c;
    }
    return best;
}

void tuning_explain(char *out, size_t size, const tuning_result *r, uint32_t layer)
{
    const tuning_layer *l = &r->layers[layer];
    const candidate *other = best_other(r, l), *c = &l->candidates[l->chosen];
    const char *what = r->choice == TUNING_TIME ? "time" : "bytes";
    char name[48];
    if (l->chosen != TUNING_NONE) {
        snprintf(out, size, "%.2f of exact's %s at recall %.4f", relative(r, l, c), what, c->recall);
        return;
    }
    if (!other) {
        snprintf(out, size, "%s",
                 l->dropped[0] && l->start_count == 0 ? l->dropped
                 : r->no_low_rank[0]                  ? "there was nothing to try"
                                                      : "no rank promised to pay");
        return;
    }
    tuning_describe(name, sizeof name, other);
    if (!meets_recall(r, other))
        snprintf(out, size, "%s only reaches a recall of %.4f", name, other->recall);
    else if (!is_clearly_less(relative(r, l, other), 1))
        snprintf(out, size, "%s is not clearly better: %.2f of exact's %s", name, relative(r, l, other), what);
    else if (!reads_less(l, other))
        snprintf(out, size, "%s (%.2f of exact's %s) reads no less than exact", name, relative(r, l, other), what);
    else
        snprintf(out, size, "%s (%.2f of exact's %s) does not fit into the budget", name, relative(r, l, other), what);
}

/* ------------------------------------------------------------------ JSON */

static json_t *candidate_json(const tuning_result *r, const candidate *c)
{
    json_t *o = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "kind", predictor_kind_name(c->kind), "threshold",
                          (double)c->threshold, "recall", c->recall, "density", c->density, "fired", c->fired,
                          "own_bytes", c->own_bytes, "token_bytes", c->token_bytes);
    if (o && c->kind != PREDICTOR_NONE)
        json_object_set_new(o, "format", json_string(number_formats[c->format].name));
    if (o && c->kind == PREDICTOR_LOW_RANK) {
        json_object_set_new(o, "rank", json_integer(c->rank));
        json_object_set_new(o, "input", json_string(c->normed ? "normed" : "residual"));
    }
    if (o && r->choice == TUNING_TIME && c->exact_seconds > 0) {
        json_object_set_new(o, "seconds", json_real(c->seconds));
        json_object_set_new(o, "exact_seconds", json_real(c->exact_seconds));
    }
    return o;
}

/* Returns null for a layer without a network. */
static json_t *layer_json(const tuning_result *r, uint32_t layer)
{
    const tuning_layer *l = &r->layers[layer];
    if (r->counted.layers[layer].neuron_count == 0)
        return json_null();
    char chosen[48], why[256];
    tuning_describe(chosen, sizeof chosen, &l->candidates[l->chosen]);
    tuning_explain(why, sizeof why, r, layer);
    json_t *tried = json_array(), *starts = json_array();
    for (size_t i = 1; i < TUNING_CANDIDATES; i++)
        if (l->candidates[i].kind != PREDICTOR_NONE)
            json_array_append_new(tried, candidate_json(r, &l->candidates[i]));
    for (size_t i = 0; i < l->start_count; i++)
        json_array_append_new(starts,
                              json_pack("{s:i, s:s, s:f}", "rank", (int)l->starts[i].rank, "input",
                                        l->starts[i].normed ? "normed" : "residual", "density", l->starts[i].density));
    json_t *o = json_pack("{s:f, s:f, s:s, s:s, s:f, s:f, s:o, s:o}", "density", r->counted.layers[layer].density,
                          "held_out_density", l->shape.fires, "chosen", chosen, "why", why, "exact_bytes",
                          choose_exact_bytes(&l->shape), "chosen_bytes", l->candidates[l->chosen].token_bytes,
                          "candidates", tried, "untrained", starts);
    if (o && l->dropped[0])
        json_object_set_new(o, "dropped", json_string(l->dropped));
    return o;
}

/* Returns the loss of the chosen predictors; null where it was not measured. */
static json_t *loss_json(const loss *p)
{
    if (p->tokens == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)p->tokens, "mean_kl", p->divergence, "same_top",
                     p->same_top, "exact_bytes_per_token", p->exact_bytes, "predicted_bytes_per_token", p->lossy_bytes);
}

/* Returns the losses of the levels of pruning; null where they were not measured. */
static json_t *levels_json(const prune_table *p)
{
    if (p->loss_tokens == 0)
        return json_null();
    json_t *losses = json_array();
    for (size_t i = 0; i < PRUNE_LEVELS; i++)
        json_array_append_new(losses, json_real((double)p->losses[i]));
    return json_pack("{s:I, s:o}", "tokens", (json_int_t)p->loss_tokens, "mean_kl", losses);
}

json_t *tuning_report(const tuning_result *r)
{
    json_t *layers = json_array();
    for (uint32_t i = 0; r->has_zeros && i < r->layer_count; i++)
        json_array_append_new(layers, layer_json(r, i));
    json_t *o = json_pack("{s:I, s:f, s:s, s:f, s:f, s:o, s:o, s:o}", "tokens", (json_int_t)r->counted.tokens, "recall",
                          (double)r->recall, "choice", r->choice == TUNING_TIME ? "time" : "bytes", "budget_bytes",
                          r->budget_bytes, "spent_bytes", r->spent_bytes, "loss", loss_json(&r->loss), "layers", layers,
                          "level_losses", levels_json(&r->prune));
    if (o && r->no_low_rank[0])
        json_object_set_new(o, "no_low_rank", json_string(r->no_low_rank));
    return o;
}
