/* tuning_internal.h - between tuning.c, which says what comes after what, and the files of its stages. */
#ifndef LEARN_TUNING_INTERNAL_H
#define LEARN_TUNING_INTERNAL_H

#include "tuning.h"

/* Layers, neurons and answers are compared with this many tokens of what was held out from training. */
#define LOSS_TOKENS 4096
/* What a candidate must be better by: as much as two medians of the same differ by on a shared machine. */
#define TUNING_CLEARLY 0.03
/* Recalls are shares of counts: a little below the wanted one is it. */
#define TUNING_RECALL_SLACK 1e-4

static inline bool tuning_meets_recall(const tuning_result *r, const candidate *c)
{
    return c->recall >= (double)r->recall - TUNING_RECALL_SLACK;
}
static inline bool tuning_is_clearly_less(double with, double without)
{
    return with < without * (1 - TUNING_CLEARLY);
}
/* Whatever the clock says: what reads more than exact gains nothing but on a model that lies in the caches. */
static inline bool tuning_reads_less(const tuning_layer *l, const candidate *c)
{
    return c->token_bytes < choose_exact_bytes(&l->shape);
}

typedef struct tuning {
    hearth_runtime *runtime;
    const hearth_model *model;
    const corpus *texts;
    const tuning_options *options;
    tuning_result *out;
    const char *stage; /* as progress is told           */
    uint64_t part, parts;
    uint64_t unseen; /* the first token of the texts that no predictor was trained on; their count: there is none */
} tuning;

/* Begins a stage of so many parts, and the next part of it. Progress of what a part calls goes to tuning_progress: it is
 * that of the stage. HEARTH_CANCELLED: told by whom is reported to. */
hearth_status tuning_stage(tuning *t, const char *name, uint64_t parts, hearth_error *error);
hearth_status tuning_part(tuning *t, hearth_error *error);
hearth_progress tuning_progress(tuning *t);

/* Records of the work folder, by layer ("3.NAME"). */
bool tuning_recall(const tuning *t, uint32_t layer, const char *name, const char *key, void *data, size_t size_bytes);
hearth_status tuning_remember(const tuning *t, uint32_t layer, const char *name, const char *key, const void *data,
                              size_t size_bytes, hearth_error *error);

/* Keeps a note for the caller, unless it is there or empty. */
void tuning_note(tuning_result *r, const char *text);

/* Low-rank: what each rank promises, which rank each layer gets, training (tuning_train.c). Coarse: margins. */
hearth_status tuning_make_candidates(tuning *t, hearth_error *error);

/* What each level of thresholds costs, on what nothing was learnt from (tuning_levels.c). */
hearth_status tuning_measure_levels(tuning *t, hearth_error *error);

/* Measures them where the clock decides, chooses, and measures what the choice costs (tuning_choice.c). */
hearth_status tuning_choose(tuning *t, hearth_error *error);
/* The choice alone: of the candidates that meet the recall, read less than exact and are clearly better, within the
 * budget. */
hearth_status tuning_pick(tuning_result *r, hearth_error *error);

/* The tune record of what was found, with candidate chosen[i] in layer i; pointers go into t->out. layers
 * [layer_count]. */
void tuning_fill(tune *record, tune_layer *layers, const tuning *t, const size_t *chosen);

#endif
