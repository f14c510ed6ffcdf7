/* sweep.c - makes an engine of every setting and measures it: what it reads, its output quality, its speed.
 *
 * A dense engine is the reference for all others. The first engine that skips neurons transposes the matrices that it
 * needs, and the others share them. */
#include "sweep.h"

#include "../base/memory.h"
#include "../engine/engine.h"
#include "../model/tune.h"
#include "bench.h"
#include "divergence.h"
#include "humaneval.h"
#include "perplexity.h"

#include <math.h>
#include <stdio.h>

#define PROMPT_TOKENS    16    /* read before decoding is timed         */
#define SPEED_IDS        65536 /* 8 bytes of the text are tokenized for each of these, to be read in timed runs */
#define SETTING_PROGRESS 1000  /* progress units per setting; most of them are one reading of the text */

typedef struct sweeper {
    const sweep_options *options;
    sweep_text text; /* read for counting neurons and for timing */
    buffer prompts;  /* humaneval: the problems' prompts, which are the documents of `text` */
    hearth_runtime *runtime;
    const hearth_model *model;
    hearth_engine *dense;
    hearth_engine *first;   /* the first one that uses rows of down_t; owned by `engines` */
    hearth_model **further; /* [options->tune_count] the model with each further tune file */
    const sweep_setting *settings;
    size_t setting_count;
    hearth_engine **engines; /* [count] NULL where the setting is dense */
    size_t count;
    kl_file base;                      /* kl: the dense model's logits */
    uint64_t done, done_inside, total; /* SETTING_PROGRESS per setting; done_inside: within the current one */
} sweeper;

/* ------------------------------------------------------------------ progress */

static bool report(sweeper *s)
{
    const hearth_progress *p = &s->options->progress;
    return !p->report || p->report(p->user, "sweep", s->done + s->done_inside, s->total);
}

/* Maps the progress of one measurement to its share of a setting's. Never goes back: work in two turns (programs
 * are written, then checked) starts again at 0, which would spoil estimates of the time left. */
static bool report_inside(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    sweeper *s = user;
    uint64_t inside = total > 0 && done <= total ? (uint64_t)(SETTING_PROGRESS * ((double)done / (double)total)) : 0;
    if (inside > s->done_inside)
        s->done_inside = inside;
    return report(s);
}

/* Reports unchanged progress, where only cancelling matters. */
static bool report_again(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return report(user);
}

static bool add_progress(sweeper *s, uint64_t done)
{
    s->done += done;
    s->done_inside = 0;
    return report(s);
}

static hearth_status cancelled(const sweeper *s, hearth_error *error)
{
    return fail(error, HEARTH_CANCELLED, "%s: sweep: cancelled", s->options->text.name);
}

/* ------------------------------------------------------------------ tasks */

static hearth_status measure_perplexity(sweeper *s, const hearth_engine *engine, sweep_row *row, hearth_error *error)
{
    const sweep_text *t = &s->options->text;
    perplexity_result r;
    perplexity_options options = {.context = s->options->context,
                                  .kv = s->options->kv,
                                  .separator = t->separator,
                                  .document_limit = t->document_limit,
                                  .progress = {report_inside, s}};
    TRY(perplexity_measure(&r, engine, t->text, t->name, &options, error));
    row->scored = r.tokens;
    row->quality = row->perplexity = exp(r.nll / (double)r.tokens);
    return HEARTH_OK;
}

static divergence_options divergence_wish(sweeper *s)
{
    return (divergence_options){
        s->options->context, s->options->limit, s->options->kv, s->options->text.separator, {report_inside, s}};
}

/* Writes the dense model's logits, the reference for the others. */
static hearth_status write_base(sweeper *s, hearth_error *error)
{
    const divergence_material from = {.name = s->options->text.name, .text = s->options->text.text};
    divergence_options options = divergence_wish(s);
    return divergence_write_temporary(&s->base, s->dense, &from, &options, error);
}

static hearth_status measure_divergence(sweeper *s, const hearth_engine *engine, sweep_row *row, hearth_error *error)
{
    divergence d;
    divergence_options options = divergence_wish(s);
    TRY(divergence_measure_file(&d, engine, &s->base, &options, error));
    row->scored = d.tokens;
    row->quality = d.mean;
    row->quality_error = d.mean_error;
    row->perplexity = exp(d.nll);
    row->same_top = d.same_top;
    return HEARTH_OK;
}

/* Separates the prompts; none of them contains it. */
#define PROMPT_END "\f"

/* Collects the problems' prompts as the text that the model reads. */
static hearth_status collect_prompts(sweeper *s, hearth_error *error)
{
    const humaneval_problems *p = s->options->problems;
    const char *name = s->options->text.name;
    bool ok = true;
    for (size_t i = 0; i < p->count; i++)
        ok = ok && buffer_print(&s->prompts, "%s" PROMPT_END, p->items[i].prompt);
    s->text = (sweep_text){{s->prompts.data, s->prompts.size}, name, PROMPT_END, s->options->limit};
    return ok ? HEARTH_OK : fail_memory(error, name, s->prompts.size);
}

static hearth_status measure_programs(sweeper *s, const hearth_engine *engine, sweep_row *row, hearth_error *error)
{
    humaneval_result r = {0};
    humaneval_options options = {.context = s->options->context,
                                 .kv = s->options->kv,
                                 .limit = s->options->limit,
                                 .timeout_seconds = s->options->timeout_seconds,
                                 .progress = {report_inside, s}};
    hearth_status status = humaneval_run(&r, engine, s->options->problems, &options, error);
    row->scored = r.count;
    row->quality = r.pass_at_1;
    row->quality_error = r.standard_error;
    humaneval_result_free(&r);
    return status;
}

/* Rows in the order of sweep_task. */
static const struct task {
    const char *name;
    hearth_status (*prepare)(sweeper *, hearth_error *); /* runs once before any setting; NULL: nothing to do */
    uint64_t prepare_progress;                           /* its share of the progress */
    hearth_status (*measure)(sweeper *, const hearth_engine *, sweep_row *, hearth_error *);
} tasks[SWEEP_TASKS] = {
    {"ppl", NULL, 0, measure_perplexity},
    {"kl", write_base, SETTING_PROGRESS, measure_divergence},
    {"humaneval", collect_prompts, 0, measure_programs},
};

const char *sweep_task_name(sweep_task task)
{
    return tasks[task].name;
}

/* ------------------------------------------------------------------ engines */

/* Returns setting number i; those of the further tune files follow the given ones. */
static sweep_setting setting_of(const sweeper *s, size_t i)
{
    return i < s->setting_count ? s->settings[i] : (sweep_setting){SWEEP_PREDICTED, NAN};
}

static const hearth_model *model_of(const sweeper *s, size_t i)
{
    return i < s->setting_count ? s->model : s->further[i - s->setting_count];
}

static hearth_status open_engine(sweeper *s, hearth_engine **out, const hearth_model *model,
                                 const sweep_setting *setting, hearth_error *error)
{
    hearth_placement *placement;
    hearth_engine_options options = {.activations = s->options->activations, .progress = s->options->progress};
    bool shares = setting->kind != SWEEP_DENSE;
    hearth_status status;
    TRY(sweep_place(&placement, model, setting, error));
    options.placement = placement;
    if (shares && s->first)
        status = engine_with_placement(out, s->first, model->tune, placement, error);
    else
        status = hearth_engine_create(out, s->runtime, model, &options, error);
    hearth_placement_destroy(placement);
    if (status == HEARTH_OK && shares && !s->first)
        s->first = *out;
    return status;
}

/* Opens the same model with each further tune file. */
static hearth_status open_further(sweeper *s, hearth_error *error)
{
    const sweep_options *o = s->options;
    s->further = mem_new_array(o->tune_count + 1, sizeof *s->further);
    if (!s->further)
        return fail_memory(error, "sweep", o->tune_count * sizeof *s->further);
    for (size_t i = 0; i < o->tune_count; i++)
        TRY(hearth_model_with_tune(&s->further[i], s->model, o->tunes[i], error));
    return HEARTH_OK;
}

static hearth_status open_engines(sweeper *s, hearth_error *error)
{
    const sweep_setting dense = {SWEEP_DENSE, NAN};
    TRY(open_further(s, error));
    s->engines = mem_new_array(s->count, sizeof *s->engines);
    if (!s->engines)
        return fail_memory(error, "sweep", s->count * sizeof *s->engines);
    TRY(open_engine(s, &s->dense, s->model, &dense, error));
    for (size_t i = 0; i < s->count; i++) {
        sweep_setting setting = setting_of(s, i);
        if (setting.kind != SWEEP_DENSE)
            TRY(open_engine(s, &s->engines[i], model_of(s, i), &setting, error));
    }
    return HEARTH_OK;
}

/* Returns the engine of setting i; the dense one where it has none of its own. */
static const hearth_engine *engine_of(const sweeper *s, size_t i)
{
    return s->engines[i] ? s->engines[i] : s->dense;
}

/* Returns the mean recall over the layers that have a predictor; NAN without one. */
static double mean_recall(const tune *t)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; t && t->has_predictors && i < t->layer_count; i++)
        if (t->layers[i].predictor.kind != PREDICTOR_NONE) {
            sum += (double)t->layers[i].recall;
            count++;
        }
    return count ? sum / count : NAN;
}

static sweep_row make_row(const sweeper *s, size_t i)
{
    sweep_setting setting = setting_of(s, i);
    bool tuned = setting.kind == SWEEP_PREDICTED && isnan(setting.value);
    return (sweep_row){.setting = setting,
                       .tune = i < s->setting_count ? NULL : s->options->tunes[i - s->setting_count],
                       .recall = tuned ? mean_recall(model_of(s, i)->tune) : NAN,
                       .mode = hearth_mode_name(hearth_engine_mode(engine_of(s, i))),
                       .guarantee = hearth_guarantee_name(hearth_engine_guarantee(engine_of(s, i))),
                       .quality_error = NAN,
                       .perplexity = NAN,
                       .same_top = NAN,
                       .tokens_per_second = NAN,
                       .relative_speed = NAN};
}

static hearth_status measure_setting(sweeper *s, size_t i, sweep_row *row, hearth_error *error)
{
    const sweep_options *o = s->options;
    hearth_progress quiet = {report_again, s};
    *row = make_row(s, i);
    /* KL is measured in windows of its own length: the model's context may be much longer */
    uint32_t context = o->task == SWEEP_KL ? s->base.context : o->context;
    TRY(sweep_measure_activity(&row->activity, NULL, engine_of(s, i), &s->text, o->activity_tokens, context, o->kv,
                               &quiet, error));
    return tasks[o->task].measure(s, engine_of(s, i), row, error);
}

/* ------------------------------------------------------------------ speed */

/* Times dense first, as the reference, then every setting that is not dense. */
static hearth_status time_engines(sweeper *s, const int32_t *ids, size_t id_count, const size_t *starts,
                                  const hearth_engine **lanes, sweep_result *result, hearth_error *error)
{
    static const int32_t prompt = PROMPT_TOKENS, none = 0;
    const sweep_options *o = s->options;
    bench_options options = {.prompt_lengths = &prompt,
                             .prompt_length_count = 1,
                             .contexts = &none,
                             .context_count = 1,
                             .decode_tokens = o->decode_tokens,
                             .repeats = o->repeats,
                             .ids = ids,
                             .id_count = id_count,
                             .starts = starts,
                             .start_count = o->repeats,
                             .kv = o->kv,
                             .progress = o->progress};
    bench_result bench;
    size_t count = 0;
    lanes[count++] = s->dense;
    for (size_t i = 0; i < s->count; i++)
        if (s->engines[i])
            lanes[count++] = s->engines[i];
    TRY(bench_run(&bench, lanes, count, hearth_runtime_threads(s->runtime), hearth_runtime_cpu_level(s->runtime),
                  &options, error));
    result->dense_speed = bench.rows[0].decode_tokens_per_second;
    for (size_t i = 0, lane = 1; i < s->count; i++) {
        const bench_row *row = &bench.rows[s->engines[i] ? lane++ : 0];
        result->rows[i].tokens_per_second = row->decode_tokens_per_second;
        result->rows[i].relative_speed = row->relative_speed;
    }
    bench_result_free(&bench);
    return HEARTH_OK;
}

/* Times decoding of the text, starting at evenly spaced places. */
static hearth_status measure_speed(sweeper *s, sweep_result *result, hearth_error *error)
{
    const sweep_options *o = s->options;
    int32_t *ids;
    size_t count, bytes = s->text.text.size < 8 * SPEED_IDS ? s->text.text.size : 8 * SPEED_IDS;
    while (bytes > 0 && bytes < s->text.text.size && (s->text.text.data[bytes] & 0xc0) == 0x80)
        bytes--; /* no partial character */
    TRY(hearth_tokenize(s->model, s->text.text.data, bytes, 0, &ids, &count, error));
    size_t *starts = mem_new_array(o->repeats, sizeof *starts);
    const hearth_engine **lanes = mem_new_array(s->count + 1, sizeof *lanes);
    hearth_status status = HEARTH_OK;
    if (!starts || !lanes)
        status = fail_memory(error, "sweep", o->repeats * sizeof *starts);
    else if (count == 0)
        status = fail(error, HEARTH_FORMAT, "%s: text: has no tokens to read", s->text.name);
    for (size_t r = 0; status == HEARTH_OK && r < o->repeats; r++)
        starts[r] = count * r / o->repeats;
    if (status == HEARTH_OK)
        status = time_engines(s, ids, count, starts, lanes, result, error);
    mem_free(lanes);
    mem_free(starts);
    hearth_free(ids);
    return status;
}

/* ------------------------------------------------------------------ all of it */

static hearth_status sweep_all(sweeper *s, sweep_result *result, hearth_error *error)
{
    const struct task *task = &tasks[s->options->task];
    s->total = SETTING_PROGRESS * (uint64_t)s->count + task->prepare_progress;
    if (!report(s))
        return cancelled(s, error);
    TRY(open_engines(s, error));
    if (task->prepare)
        TRY(task->prepare(s, error));
    if (!add_progress(s, task->prepare_progress))
        return cancelled(s, error);
    for (size_t i = 0; i < s->count; i++) {
        TRY(measure_setting(s, i, &result->rows[i], error));
        if (!add_progress(s, SETTING_PROGRESS))
            return cancelled(s, error);
    }
    return s->options->repeats > 0 ? measure_speed(s, result, error) : HEARTH_OK;
}

static void clean_up(sweeper *s)
{
    /* The engine that owns the shared matrices goes last. */
    for (size_t i = s->count; s->engines && i-- > 0;)
        if (s->engines[i] != s->first)
            hearth_engine_destroy(s->engines[i]);
    hearth_engine_destroy(s->first);
    hearth_engine_destroy(s->dense);
    mem_free(s->engines);
    for (size_t i = 0; s->further && i < s->options->tune_count; i++)
        hearth_model_close(s->further[i]);
    mem_free(s->further);
    kl_file_close(&s->base);
    buffer_free(&s->prompts);
}

hearth_status sweep_run(sweep_result *out, hearth_runtime *runtime, const hearth_model *model,
                        const sweep_setting *settings, size_t count, const sweep_options *options, hearth_error *error)
{
    sweeper s = {.options = options,
                 .text = options->text,
                 .runtime = runtime,
                 .model = model,
                 .settings = settings,
                 .setting_count = count,
                 .count = count + options->tune_count};
    sweep_result result = {.rows = mem_new_array(s.count, sizeof *result.rows), .count = s.count, .dense_speed = NAN};
    if (!result.rows)
        return fail_memory(error, "sweep", s.count * sizeof *result.rows);
    hearth_status status = sweep_all(&s, &result, error);
    clean_up(&s);
    if (status == HEARTH_OK)
        *out = result;
    else
        sweep_free(&result);
    return status;
}

void sweep_free(sweep_result *result)
{
    mem_free(result->rows);
    *result = (sweep_result){0};
}

void sweep_row_name(char out[SWEEP_NAME], const sweep_row *row)
{
    if (row->tune && isnan(row->recall))
        snprintf(out, SWEEP_NAME, "predicted@none");
    else if (row->tune)
        snprintf(out, SWEEP_NAME, "predicted@%.3g", row->recall);
    else
        sweep_setting_name(out, &row->setting);
}
