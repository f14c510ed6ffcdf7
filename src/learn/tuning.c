/* tuning.c - runs the stages of a tuning in order and writes the tune file.
 *
 *   profile      which neurons fire, and hidden states for training (profile.h, states.h)
 *   thresholds   below which activations are treated as zero (prune.h)
 *   losses       of each level of thresholds
 *   candidates   predictors of every kind for every layer (tuning_train.c); only where activations have zeros
 *   choice       one per layer, and its loss (tuning_choice.c)
 *   file         MODEL.tune */
#include "tuning_internal.h"

#include "../base/memory.h"
#include "../engine/engine.h"
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Increment when a stage changes what it computes: stored records are then discarded. */
#define TUNING_VERSION 3

/* Tokens on which a level is measured; half of those for predictors, since there are nine levels. */
#define LEVEL_TOKENS (LOSS_TOKENS / 2)

/* Progress that is reported per unit of a stage. */
#define UNIT_PROGRESS 1000

/* ------------------------------------------------------------------ progress, records */

/* Reports the progress of a function that a unit calls, as progress of the stage. */
static bool report_unit(void *user, const char *what, uint64_t done, uint64_t total)
{
    const tuning *t = user;
    const hearth_progress *to = &t->options->progress;
    (void)what;
    if (!to->report)
        return true;
    double share = total > 0 ? (double)(done < total ? done : total) / (double)total : 0;
    uint64_t begin = t->unit > 0 ? (t->unit - 1) * UNIT_PROGRESS : 0;
    return to->report(to->user, t->stage, begin + (uint64_t)(share * UNIT_PROGRESS), t->units * UNIT_PROGRESS);
}

hearth_progress tuning_progress(tuning *t)
{
    return (hearth_progress){report_unit, t};
}

/* Returns HEARTH_CANCELLED if the caller asks to stop. */
static hearth_status check_on(tuning *t, hearth_error *error)
{
    if (report_unit(t, "", 0, 0))
        return HEARTH_OK;
    return fail(error, HEARTH_CANCELLED, "%s: tuning was interrupted; the same command goes on where it stopped",
                t->model->source->path);
}

hearth_status tuning_stage(tuning *t, const char *name, uint64_t units, hearth_error *error)
{
    t->stage = name;
    t->unit = 0;
    t->units = units;
    return check_on(t, error);
}

hearth_status tuning_unit(tuning *t, hearth_error *error)
{
    t->unit += t->unit < t->units;
    return check_on(t, error);
}

void tuning_note(tuning_result *r, const char *text)
{
    size_t n = 0;
    while (n < TUNING_NOTES && r->notes[n][0] && strcmp(r->notes[n], text) != 0)
        n++;
    if (n < TUNING_NOTES)
        snprintf(r->notes[n], sizeof r->notes[n], "%.*s", (int)sizeof r->notes[n] - 1, text);
}

hearth_status tuning_open_engine(hearth_engine **out, const tuning *t, hearth_mode mode, hearth_error *error)
{
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, t->model, mode, error));
    hearth_engine_options options = {.placement = placement};
    hearth_status status = hearth_engine_create(out, t->runtime, t->model, &options, error);
    hearth_placement_destroy(placement);
    return status;
}

/* Writes the key on which everything in the folder depends. */
static void print_key(char *out, size_t size, const tuning *t)
{
    char model[HASH_TEXT_SIZE];
    work_model_key(model, t->model);
    snprintf(out, size, "%d model %s text %s disk %llu cpu %s", TUNING_VERSION, model, t->texts->digest,
             (unsigned long long)t->options->disk_bytes, hearth_runtime_cpu_level(t->runtime));
}

/* ------------------------------------------------------------------ stages */

/* Profiles on an engine and stores hidden states; sets t->unseen, the first token that training does not use. */
static hearth_status profile_with(tuning *t, const hearth_engine *engine, hearth_error *error)
{
    profile_options o = {.folder = t->options->folder, .progress = tuning_progress(t)};
    TRY(states_writer_open(&o.states, t->options->folder, t->model, t->texts, t->options->disk_bytes, error));
    tuning_note(t->out, states_writer_note(o.states));
    t->unseen = states_training_of(states_writer_rows(o.states)) * states_writer_stride(o.states);
    t->unseen = t->unseen < t->texts->id_count ? t->unseen : t->texts->id_count;
    hearth_status status = profile_take(&t->out->counted, engine, t->texts, &o, error);
    tuning_note(t->out, t->out->counted.note);
    states_writer_close(o.states);
    return status;
}

/* Profiles the corpus on a dense engine. */
static hearth_status take_profile(tuning *t, hearth_error *error)
{
    hearth_engine *engine;
    TRY(tuning_stage(t, "profiling", 1, error));
    TRY(tuning_unit(t, error));
    TRY(tuning_open_engine(&engine, t, HEARTH_MODE_DENSE, error));
    hearth_status status = profile_with(t, engine, error);
    hearth_engine_destroy(engine);
    return status;
}

/* Computes the thresholds, stored as two records: the levels, and the thresholds of all layers. */
static hearth_status deal_thresholds(tuning *t, hearth_error *error)
{
    static const char name[] = "thresholds", key[] = "thresholds";
    prune_table *p = &t->out->prune;
    size_t bytes = t->model->hyper.layer_count * PRUNE_LEVELS * sizeof *p->thresholds;
    TRY(tuning_stage(t, "dealing thresholds", 1, error));
    TRY(tuning_unit(t, error));
    p->thresholds = mem_new(bytes);
    if (!p->thresholds)
        return fail_memory(error, "thresholds", bytes);
    if (record_get(t->options->folder, name, key, p->thresholds, bytes) &&
        record_get(t->options->folder, "levels", key, p->levels, sizeof p->levels))
        return HEARTH_OK;
    prune_free(p);
    TRY(prune_deal(p, t->runtime, t->model, t->options->folder, tuning_progress(t), error));
    TRY(record_put(t->options->folder, "levels", key, p->levels, sizeof p->levels, error));
    return record_put(t->options->folder, name, key, p->thresholds, bytes, error);
}

/* Creates an engine with the thresholds of a level. of: shares its copies; NULL: makes its own. */
static hearth_status open_level(hearth_engine **out, const tuning *t, const hearth_engine *of, size_t level,
                                hearth_error *error)
{
    hearth_placement *p;
    TRY(hearth_placement_create(&p, t->model, HEARTH_MODE_PRUNED, error));
    for (uint32_t i = 0; i < p->layer_count; i++)
        p->layers[i].threshold = t->out->prune.thresholds[(size_t)i * PRUNE_LEVELS + level];
    hearth_engine_options options = {.placement = p};
    hearth_status status = of ? engine_with_placement(out, of, t->model->tune, p, error)
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

static hearth_status measure_each_level(tuning *t, const hearth_engine *all, hearth_error *error)
{
    prune_table *p = &t->out->prune;
    for (size_t level = 1; level < PRUNE_LEVELS; level++) {
        level_record r = {0};
        TRY(tuning_unit(t, error));
        TRY(measure_level(t, all, level, &r, error));
        p->losses[level] = (float)r.loss;
        p->loss_tokens = r.tokens;
    }
    return HEARTH_OK;
}

/* Measures the loss of each level of thresholds, on text not used for training, against an engine that leaves out zeros
 * only. Both engines run in mode pruned, the reference with thresholds of 0. They share the transposed copies of down,
 * and the thresholds are the only difference. */
static hearth_status measure_levels(tuning *t, hearth_error *error)
{
    hearth_engine *all;
    TRY(tuning_stage(t, "measuring levels", PRUNE_LEVELS - 1, error));
    if (t->unseen >= t->texts->id_count) /* nothing is left to measure on */
        return HEARTH_OK;
    TRY(open_level(&all, t, NULL, 0, error)); /* the first level's thresholds are 0 */
    hearth_status status = measure_each_level(t, all, error);
    hearth_engine_destroy(all);
    return status;
}

/* Allocates the layers and fills what is known before training: bytes, and the candidate without a predictor. */
static hearth_status prepare_layers(tuning *t, hearth_error *error)
{
    tuning_result *out = t->out;
    out->layer_count = t->model->hyper.layer_count;
    out->layers = mem_new_array(out->layer_count, sizeof *out->layers);
    if (!out->layers)
        return fail_memory(error, "tuning", out->layer_count * sizeof *out->layers);
    for (uint32_t i = 0; i < out->layer_count; i++) {
        tuning_layer *l = &out->layers[i];
        if (t->model->layers[i].ffn.neuron_count == 0)
            continue;
        l->shape = choose_layer_of(t->model, i, out->counted.layers[i].density);
        l->candidates[TUNING_NONE] = (candidate){.recall = 1, .density = 1, .fired = l->shape.fires};
        choose_count_bytes(&l->candidates[TUNING_NONE], t->model, &l->shape);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the file */

/* Returns whether the levels ascend. They do not where there is nothing left to prune: all neurons are zero. */
static bool are_levels_rising(const prune_table *p)
{
    for (size_t i = 1; i < PRUNE_LEVELS; i++)
        if (!(p->levels[i] > p->levels[i - 1]))
            return false;
    return true;
}

/* Fills the predictor of a layer in the tune record. */
static void fill_predictor(tune_layer *to, const tuning_layer *from, size_t chosen)
{
    const candidate *c = &from->candidates[chosen];
    to->predictor = (learned_predictor){.kind = c->kind, .coarse_format = FORMAT_COUNT, .threshold = c->threshold};
    to->recall = (float)c->recall;
    to->density = (float)c->density;
    if (c->kind == PREDICTOR_COARSE)
        to->predictor.coarse_format = c->format;
    if (c->kind != PREDICTOR_LOW_RANK)
        return;
    to->predictor.reads_normed = c->normed;
    to->predictor.fc1 = from->trained.fc1;
    to->predictor.fc2 = from->trained.fc2;
}

void tuning_fill(tune *record, tune_layer *layers, const tuning *t, const size_t *chosen)
{
    const tuning_result *r = t->out;
    *record = (tune){.report = "", .has_predictors = r->has_zeros};
    tune_set_layers(record, layers, t->model);
    profile_to_tune(&r->counted, record);
    if (are_levels_rising(&r->prune)) {
        record->level_count = PRUNE_LEVELS;
        record->levels = r->prune.levels;
        record->losses = r->prune.loss_tokens > 0 ? r->prune.losses : NULL;
    }
    for (uint32_t i = 0; i < r->layer_count; i++) {
        if (record->level_count > 0 && layers[i].neuron_count > 0)
            layers[i].prune = r->prune.thresholds + (size_t)i * PRUNE_LEVELS;
        if (r->has_zeros)
            fill_predictor(&layers[i], &r->layers[i], chosen[i]);
    }
}

/* Prints the report: options->origin, then the result. free() *out, which jansson allocated. */
static hearth_status print_report(char **out, const tuning *t, hearth_error *error)
{
    json_t *all = json_object(), *own = tuning_report(t->out), *origin = NULL;
    hearth_status status = HEARTH_OK;
    if (t->options->origin)
        status = json_parse(&origin, t->options->origin, strlen(t->options->origin), "report", error);
    *out = NULL;
    if (status == HEARTH_OK && all && own && (!origin || json_object_update(all, origin) == 0) &&
        json_object_update(all, own) == 0)
        *out = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    json_decref(own);
    json_decref(origin);
    return status != HEARTH_OK || *out ? status : fail_memory(error, "report", 0);
}

/* Writes the tune file with the chosen predictors, and finds the highest level within HEARTH_PRUNE_LOSS. */
static hearth_status write_file(tuning *t, const char *path, hearth_error *error)
{
    tune record;
    char *report = NULL;
    tune_layer *layers = mem_new_array(t->out->layer_count, sizeof *layers);
    size_t *chosen = mem_new_array(t->out->layer_count, sizeof *chosen);
    hearth_status status = layers && chosen ? print_report(&report, t, error)
                                            : fail_memory(error, "tuning", t->out->layer_count * sizeof *layers);
    if (status == HEARTH_OK) {
        for (uint32_t i = 0; i < t->out->layer_count; i++)
            chosen[i] = t->out->layers[i].chosen;
        tuning_fill(&record, layers, t, chosen);
        record.report = report;
        t->out->prunes = placement_find_level(&record, HEARTH_PRUNE_LOSS, &t->out->prune_level);
        status = tune_write(path, &record, t->model, error);
        free(report);
    }
    mem_free(layers);
    mem_free(chosen);
    return status;
}

/* ------------------------------------------------------------------ all of it */

/* Before the text is read: whether PowerInfer could run the predictors of all layers. */
static hearth_status check_for_powerinfer(const hearth_model *model, hearth_error *error)
{
    for (uint32_t i = 0; i < model->hyper.layer_count; i++)
        if (model->layers[i].ffn.router.expert_count > 0)
            return fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: PowerInfer cannot run predictors of experts",
                        model->source->path, i);
    return HEARTH_OK;
}

hearth_status tuning_run(tuning_result *out, hearth_runtime *runtime, const hearth_model *model, const corpus *texts,
                         const char *path, const tuning_options *options, hearth_error *error)
{
    char key[256];
    *out = (tuning_result){.has_zeros = model_predictable(model),
                           .budget_bytes = options->budget * (double)model->weight_bytes,
                           .recall = options->recall,
                           .choice = options->choice};
    tuning t = {runtime, model, texts, options, out, "", 0, 1, texts->id_count};
    if (options->for_powerinfer)
        TRY(check_for_powerinfer(model, error));
    print_key(key, sizeof key, &t);
    TRY(records_begin(options->folder, key, &out->begun_anew, error));
    TRY(take_profile(&t, error));
    TRY(prepare_layers(&t, error));
    if (placement_check_selector(SELECTOR_MAGNITUDE, model, model->tune, model_first_network(model), NULL) == HEARTH_OK)
        TRY(deal_thresholds(&t, error));
    if (are_levels_rising(&out->prune))
        TRY(measure_levels(&t, error));
    if (out->has_zeros) {
        TRY(tuning_make_candidates(&t, error));
        TRY(tuning_choose(&t, error));
    }
    return write_file(&t, path, error);
}

void tuning_free(tuning_result *r)
{
    for (uint32_t i = 0; r->layers && i < r->layer_count; i++)
        lowrank_free(&r->layers[i].trained);
    mem_free(r->layers);
    profile_free(&r->counted);
    prune_free(&r->prune);
    *r = (tuning_result){0};
}
