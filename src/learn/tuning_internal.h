/* tuning_internal.h - shared by tuning.c, which sets the order of the stages, and the files of the stages. */
#ifndef LEARN_TUNING_INTERNAL_H
#define LEARN_TUNING_INTERNAL_H

#include "tuning.h"

/* Tokens, not used for training, on which the loss is measured. */
#define LOSS_TOKENS 4096

typedef struct tuning {
    hearth_runtime *runtime;
    const hearth_model *model;
    const corpus *texts;
    const tuning_options *options;
    tuning_result *out;
    const char *stage; /* name of the stage, for progress */
    uint64_t unit, units;
    uint64_t unseen; /* first token of the texts not used for training; their count where there is none */
} tuning;

/* Begin a stage with a number of units of work, and its next unit. A function called within a unit reports to
 * tuning_progress, which reports it as progress of the stage. HEARTH_CANCELLED: the caller's progress function asked to
 * stop. */
hearth_status tuning_stage(tuning *t, const char *name, uint64_t units, hearth_error *error);
hearth_status tuning_unit(tuning *t, hearth_error *error);
hearth_progress tuning_progress(tuning *t);

/* Adds a note for the caller, unless it is empty or there already. */
void tuning_note(tuning_result *r, const char *text);

/* Creates an engine of the model in that mode. */
hearth_status tuning_open_engine(hearth_engine **out, const tuning *t, hearth_mode mode, hearth_error *error);

/* Makes the candidates (tuning_train.c). Low-rank: estimates each rank, chooses a rank per layer, trains. Coarse:
 * calibrates margins. */
hearth_status tuning_make_candidates(tuning *t, hearth_error *error);

/* Times the candidates where times decide, chooses, and measures the loss of the choice (tuning_choice.c). */
hearth_status tuning_choose(tuning *t, hearth_error *error);
/* Times the feed-forward network of each layer on several engines of one model. Decodes ids [count] one by one on all
 * engines in turns, so that other load on the machine disturbs them alike; the first token only warms up. seconds
 * [engines][layers]: medians; 0 where no token was timed. HEARTH_CANCELLED through progress. */
hearth_status race_measure(double *seconds, const hearth_engine *const *engines, size_t engine_count,
                           const int32_t *ids, size_t count, hearth_progress progress, hearth_error *error);
/* Only chooses: among the candidates that meet the recall, read
 * less than exact and are clearly better, within the budget. */
hearth_status tuning_pick(tuning_result *r, hearth_error *error);

/* Fills the tune record with the results, with candidate chosen[i]
 * in layer i; pointers go into t->out. layers [layer_count]. */
void tuning_fill(tune *record, tune_layer *layers, const tuning *t, const size_t *chosen);

#endif
