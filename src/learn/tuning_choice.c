/* tuning_choice.c - chooses one predictor per layer, by bytes or by time, and measures the loss of the choice.
 *
 * A candidate is tested as it will be used: it is written to a tune file in the work
 * folder, opened with the model, and run by an engine; the model itself does not change.
 * The exact engine runs beside each candidate and shares the transposed copies with it.
 * What counts is the ratio of their times, so candidates can be timed one after the other. */
#include "tuning_internal.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../engine/engine.h"
#include "race.h"

#include <string.h>

/* ------------------------------------------------------------------ the model with candidates */

/* Opens the model with the chosen candidates in place of its own predictors, through a tune file of its own. */
static hearth_status open_candidates(hearth_model **out, const tuning *t, const size_t *chosen, hearth_error *error)
{
    size_t count = t->out->layer_count;
    tune record, *read;
    tune_layer *layers = mem_new_array(count, sizeof *layers);
    char *path = file_join(t->options->folder, "candidate.tune");
    hearth_status status = layers && path ? HEARTH_OK : fail_memory(error, "tuning", count * sizeof *layers);
    if (status == HEARTH_OK) {
        tuning_fill(&record, layers, t, chosen);
        status = tune_write(path, &record, t->model, error);
    }
    if (status == HEARTH_OK)
        status = tune_open(&read, path, t->model, error);
    mem_free(path);
    mem_free(layers);
    return status == HEARTH_OK ? tune_view(out, t->model, read, error) : status;
}

/* Creates an engine in mode predicted that shares the transposed copies of the exact one. */
static hearth_status open_predicted(hearth_engine **out, const hearth_engine *exact, const hearth_model *candidates,
                                    hearth_error *error)
{
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, candidates, HEARTH_MODE_PREDICTED, error));
    hearth_status status = engine_with_placement(out, exact, candidates, placement, error);
    hearth_placement_destroy(placement);
    return status;
}

static hearth_status open_exact(hearth_engine **out, const tuning *t, hearth_error *error)
{
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, t->model, HEARTH_MODE_EXACT, error));
    hearth_engine_options options = {.placement = placement};
    hearth_status status = hearth_engine_create(out, t->runtime, t->model, &options, error);
    hearth_placement_destroy(placement);
    return status;
}

/* ------------------------------------------------------------------ the clock */

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

/* Times both engines on the same tokens. seconds [2][layers]. */
static hearth_status race_with(tuning *t, const hearth_engine *exact, const hearth_model *candidates, double *seconds,
                               hearth_error *error)
{
    hearth_engine *predicted;
    TRY(open_predicted(&predicted, exact, candidates, error));
    const hearth_engine *const engines[] = {exact, predicted};
    /* tokens not used for training; where these are too few, the last of the text, which take as long */
    size_t least = t->texts->id_count < RACE_TOKENS + 1 ? t->texts->id_count : RACE_TOKENS + 1;
    size_t from = (size_t)t->unseen < t->texts->id_count - least ? (size_t)t->unseen : t->texts->id_count - least;
    hearth_status status =
        race_measure(seconds, engines, 2, t->texts->ids + from, t->texts->id_count - from, tuning_progress(t), error);
    hearth_engine_destroy(predicted);
    return status;
}

/* Times the chosen candidates. seconds [2][layers]: exact, then with the candidates. */
static hearth_status race_candidates(tuning *t, const hearth_engine *exact, const size_t *chosen, double *seconds,
                                     hearth_error *error)
{
    hearth_model *candidates;
    TRY(open_candidates(&candidates, t, chosen, error));
    hearth_status status = race_with(t, exact, candidates, seconds, error);
    hearth_model_close(candidates);
    return status;
}

/* Times every candidate against exact, one number at a time for all layers. */
static hearth_status race_all(tuning *t, const hearth_engine *exact, size_t *chosen, double *seconds,
                              hearth_error *error)
{
    size_t layers = t->out->layer_count;
    for (size_t number = 1; number < TUNING_CANDIDATES; number++) {
        TRY(tuning_part(t, error));
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

/* Returns cost and gain of a candidate; CHOOSE_NEVER where it
 * misses the recall, reads no less or is not clearly better. */
static choose_option option_of(const tuning_result *r, const tuning_layer *l, size_t number)
{
    const candidate *c = &l->candidates[number];
    if (number == TUNING_NONE)
        return (choose_option){0, 0};
    if (c->kind == PREDICTOR_NONE || !tuning_meets_recall(r, c) || !tuning_reads_less(l, c))
        return CHOOSE_NEVER;
    double without = r->choice == TUNING_TIME ? c->exact_seconds : choose_exact_bytes(&l->shape);
    double with = r->choice == TUNING_TIME ? c->seconds : c->token_bytes;
    return tuning_is_clearly_less(with, without) ? (choose_option){c->own_bytes, without - with} : CHOOSE_NEVER;
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
        r->layers[i].chosen = TUNING_LOW_RANK;
        r->spent_bytes += r->layers[i].candidates[TUNING_LOW_RANK].own_bytes;
    }
}

/* ------------------------------------------------------------------ the loss */

static hearth_status measure_with(tuning *t, const hearth_engine *exact, const hearth_model *candidates,
                                  hearth_error *error)
{
    hearth_engine *predicted;
    TRY(open_predicted(&predicted, exact, candidates, error));
    hearth_status status =
        loss_measure(&t->out->loss, exact, predicted, t->texts, t->unseen, LOSS_TOKENS, tuning_progress(t), error);
    hearth_engine_destroy(predicted);
    return status;
}

/* Measures the loss of the chosen predictors; leaves it zero where no layer has one. */
static hearth_status measure_loss(tuning *t, const hearth_engine *exact, hearth_error *error)
{
    size_t layers = t->out->layer_count;
    size_t *chosen = mem_new_array(layers, sizeof *chosen);
    bool any = false;
    hearth_model *candidates;
    if (!chosen)
        return fail_memory(error, "tuning", layers * sizeof *chosen);
    for (size_t i = 0; i < layers; i++) {
        chosen[i] = t->out->layers[i].chosen;
        any |= chosen[i] != TUNING_NONE;
    }
    hearth_status status = any ? open_candidates(&candidates, t, chosen, error) : HEARTH_OK;
    if (any && status == HEARTH_OK) {
        status = measure_with(t, exact, candidates, error);
        hearth_model_close(candidates);
    }
    mem_free(chosen);
    return status;
}

hearth_status tuning_choose(tuning *t, hearth_error *error)
{
    hearth_engine *exact;
    bool timed = t->out->choice == TUNING_TIME;
    TRY(tuning_stage(t, "comparing with exact", timed ? TUNING_CANDIDATES : 1, error));
    TRY(open_exact(&exact, t, error));
    hearth_status status = timed ? measure_candidates(t, exact, error) : HEARTH_OK;
    if (status == HEARTH_OK && t->options->for_powerinfer)
        choose_low_rank(t->out);
    else if (status == HEARTH_OK)
        status = tuning_pick(t->out, error);
    if (status == HEARTH_OK)
        status = tuning_part(t, error);
    if (status == HEARTH_OK)
        status = measure_loss(t, exact, error);
    hearth_engine_destroy(exact);
    return status;
}
