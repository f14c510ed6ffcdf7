/* tuning_levels.c - measures the loss of each level of thresholds, against an engine that leaves out zeros only.
 *
 * Both engines run in mode pruned, the reference with thresholds of 0. They share the transposed copies of down, and
 * the thresholds are the only difference. */
#include "tuning_internal.h"

#include "../base/memory.h"
#include "../engine/engine.h"
#include "records.h"

#include <math.h>
#include <stdio.h>

/* Tokens on which a level is measured; half of those for predictors, since there are nine levels. */
#define LEVEL_TOKENS (LOSS_TOKENS / 2)

/* Creates an engine with the thresholds of a level. of: shares its copies; NULL: makes its own. */
static hearth_status open_level(hearth_engine **out, const tuning *t, const hearth_engine *of, size_t level,
                                hearth_error *error)
{
    hearth_placement *p;
    TRY(hearth_placement_create(&p, t->model, HEARTH_MODE_PRUNED, error));
    for (uint32_t i = 0; i < p->layer_count; i++)
        p->layers[i].threshold = t->out->prune.thresholds[(size_t)i * PRUNE_LEVELS + level];
    hearth_engine_options options = {.placement = p};
    hearth_status status = of ? engine_with_placement(out, of, t->model, p, error)
                              : hearth_engine_create(out, t->runtime, t->model, &options, error);
    hearth_placement_destroy(p);
    return status;
}

/* What is stored of a level. */
typedef struct level_record {
    uint64_t tokens;
    double loss;
} level_record;

/* Measures the loss of a level, or reads the stored one. all: the reference engine. */
static hearth_status measure_level(tuning *t, const hearth_engine *all, size_t level, level_record *out,
                                   hearth_error *error)
{
    static const char key[] = "losses";
    char name[32];
    hearth_engine *pruned;
    loss cost;
    snprintf(name, sizeof name, "loss-%zu", level);
    if (record_get(t->options->folder, name, key, out, sizeof *out))
        return HEARTH_OK;
    TRY(open_level(&pruned, t, all, level, error));
    hearth_status status =
        loss_measure(&cost, all, pruned, t->texts, t->unseen, LEVEL_TOKENS, tuning_progress(t), error);
    hearth_engine_destroy(pruned);
    TRY(status);
    *out = (level_record){cost.tokens, fmax(cost.divergence, 0)}; /* rounding may make it negative */
    return record_put(t->options->folder, name, key, out, sizeof *out, error);
}

static hearth_status measure_all(tuning *t, const hearth_engine *all, hearth_error *error)
{
    prune_table *p = &t->out->prune;
    for (size_t level = 1; level < PRUNE_LEVELS; level++) {
        level_record r = {0};
        TRY(tuning_part(t, error));
        TRY(measure_level(t, all, level, &r, error));
        p->losses[level] = (float)r.loss;
        p->loss_tokens = r.tokens;
    }
    return HEARTH_OK;
}

hearth_status tuning_measure_levels(tuning *t, hearth_error *error)
{
    hearth_engine *all;
    TRY(tuning_stage(t, "measuring levels", PRUNE_LEVELS - 1, error));
    if (t->unseen >= t->texts->id_count) /* nothing is left to measure on */
        return HEARTH_OK;
    TRY(open_level(&all, t, NULL, 0, error)); /* the first level's thresholds are 0 */
    hearth_status status = measure_all(t, all, error);
    hearth_engine_destroy(all);
    return status;
}
