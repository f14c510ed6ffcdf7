/* tune.c - `hearth tune`: learns everything about a model in one run, with one summary.
 *
 * learn/tuning.h defines what is learnt and in which order; this file has the options, the place of intermediate
 * results, and the reports. */
#include "../base/file.h"
#include "../learn/tuning.h"
#include "../learn/work.h"
#include "corpus_options.h"
#include "output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct tune_values {
    model_options model;
    uint32_t threads;
    const char *cpu;
    corpus_options corpus;
    float recall;
    const char *budget;
    uint64_t disk, memory; /* bytes */
    unsigned choice;       /* tuning_choice */
    bool for_powerinfer;
    uint32_t epochs;
    bool keep_work, json;
} tune_values;

static const char *const choices[] = {[TUNING_TIME] = "time", [TUNING_BYTES] = "bytes", NULL};

static const option rows[] = {
    {OPTION_ROW(0, "recall", NUMBER, tune_values, recall, "X",
                "share of the neurons that fire which every predictor has to let through (default 0.99)"),
     .least = 0.01, .most = 1},
    {OPTION_ROW(0, "budget", TEXT, tune_values, budget, "P%",
                "what predictors may take, as a share of the model's weights; 7%")},
    {OPTION_ROW(
         0, "choose", CHOICE, tune_values, choice, "time|bytes",
         "each layer gets what takes it the least time, measured, or has it read the fewest bytes (default time)"),
     .choices = choices},
    {OPTION_ROW(0, "for-powerinfer", FLAG, tune_values, for_powerinfer, NULL,
                "a low-rank predictor in every layer that reads the residual stream, as PowerInfer's do; whatever the "
                "--budget")},
    {OPTION_ROW(0, "epochs", COUNT, tune_values, epochs, "N",
                "times that training reads the corpus, at most; 2 to 20, fewer of a long one"),
     .least = 1, .most = 1000},
    {OPTION_ROW(0, "json", FLAG, tune_values, json, NULL,
                "one object: path, tokens, layers with what was chosen, tried and why, loss")},
};

static const option limits[] = {
    THREADS_ROW(tune_values, threads),
    CPU_ROW(tune_values, cpu),
    {OPTION_ROW(0, "disk", SIZE, tune_values, disk, "SIZE",
                "for hidden states, beside the tune file, until it is done (500M, 4G) (default 4G)")},
    {OPTION_ROW(0, "memory", SIZE, tune_values, memory, "SIZE", "for training (default 2G)")},
    {OPTION_ROW(0, "keep-work", FLAG, tune_values, keep_work, NULL,
                "leaves MODEL.tune.work where it is: another --recall or --budget then begins with the hidden states")},
};

static void set_defaults(void *values)
{
    tune_values *v = values;
    v->recall = 0.99f;
    v->budget = "7%";
    v->disk = 4000000000;
    v->memory = 2000000000;
}

/* ------------------------------------------------------------------ sizes and shares */

/* Parses "7%" or "0.07". */
static hearth_status read_share(const char *name, const char *text, double *out, hearth_error *error)
{
    char *end;
    double share = strtod(text, &end);
    bool percent = *end == '%';
    *out = percent ? share / 100 : share;
    if (end == text || end[percent] || !(*out >= 0 && *out <= 10))
        return fail(error, HEARTH_INVALID, "tune: --%s: '%s' is not a share like 7%% or 0.07", name, text);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ what is said */

typedef struct summary {
    const tune_values *v;
    const char *path; /* of the tune file */
    const hearth_model *model;
    const hearth_model_info *info;
    const tuning_result *r;
    uint64_t file_bytes;
} summary;

static double mean_density(const tuning_result *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->layer_count; i++)
        sum += r->counted.layers[i].density / r->counted.networks;
    return sum;
}

/* Prints a layer's predictor: what it lets through, the bytes and time it takes per token against mode exact, and why
 * it was chosen. */
static void print_layer(const tuning_result *r, uint32_t i)
{
    const tuning_layer *l = &r->layers[i];
    const candidate *c = &l->candidates[l->chosen];
    char name[48], why[256], with[16], without[16];
    tuning_describe(name, sizeof name, c);
    tuning_explain(why, sizeof why, r, i);
    printf("%5u  %6.1f %%  %-22s  %9.1f %%  %8s of %8s", i, 100 * r->counted.layers[i].density, name, 100 * c->density,
           output_size(with, c->token_bytes), output_size(without, choose_exact_bytes(&l->shape)));
    if (r->choice == TUNING_TIME && c->exact_seconds > 0)
        printf("  %7.3f of %7.3f ms", 1e3 * c->seconds, 1e3 * c->exact_seconds);
    else if (r->choice == TUNING_TIME)
        printf("  %21s", "");
    printf("  %s\n", why);
}

static void print_layers(const tuning_result *r)
{
    printf("layer   fires    predictor               lets through  reads per token       %s  why\n",
           r->choice == TUNING_TIME ? "takes per token      " : "");
    for (uint32_t i = 0; i < r->layer_count; i++)
        if (r->counted.layers[i].neuron_count > 0)
            print_layer(r, i);
    char spent[16], budget[16];
    printf("predictors take %s of the %s that they may\n", output_size(spent, r->spent_bytes),
           output_size(budget, r->budget_bytes));
    if (r->no_low_rank[0]) {
        fputs("no low-rank predictors: ", stdout);
        output_safe(stdout, span_of(r->no_low_rank), 200);
        putchar('\n');
    }
}

/* Prints what prediction saves, and its loss on tokens that were not trained on. */
static void print_loss(const tuning_result *r)
{
    const loss *p = &r->loss;
    char with[16], without[16];
    if (p->tokens == 0 && r->spent_bytes > 0) {
        puts("loss: unknown: training saw all tokens, 0 are left to compare on; take more text");
        return;
    }
    if (p->tokens == 0) {
        puts("loss: nothing is predicted: mode predicted is exact");
        return;
    }
    printf("gain: a token reads %s of weights, %s in mode exact\n", output_size(with, p->lossy_bytes),
           output_size(without, p->exact_bytes));
    printf("loss on %llu tokens that training did not see: KL %.6f nats, the same likeliest token in %.2f %%\n",
           (unsigned long long)p->tokens, p->divergence, 100 * p->same_top);
}

static void print_notes(const tuning_result *r)
{
    for (size_t i = 0; i < TUNING_NOTES && r->notes[i][0]; i++)
        output_note("note", "%s", r->notes[i]);
}

/* Prints a command line that uses the tune file in the given mode. */
static void print_command(const summary *s, hearth_mode mode)
{
    fputs("run it: hearth run ", stdout);
    output_safe(stdout, span_of(s->info->path), 200);
    if (s->v->corpus.out) {
        fputs(" --tune ", stdout);
        output_safe(stdout, span_of(s->path), 200);
    }
    printf(" --sparsity %s -p TEXT\n", hearth_mode_name(mode));
}

/* Prints a line of levels, a line of their losses, and which level --sparsity pruned uses. */
static void print_pruning(const tuning_result *r)
{
    const prune_table *p = &r->prune;
    if (!p->thresholds) {
        puts("pruned: there are no thresholds for this activation");
        return;
    }
    printf("pruned: thresholds for %.1f to %.1f %% of all activations counting as zero\n", 100 * (double)p->levels[0],
           100 * (double)p->levels[PRUNE_LEVELS - 1]);
    if (p->loss_tokens == 0) {
        puts("        what they cost is unknown: no tokens are left to compare on; take more text");
        return;
    }
    fputs("  share  ", stdout);
    for (size_t i = 1; i < PRUNE_LEVELS; i++)
        printf(" %6.1f %%", 100 * (double)p->levels[i]);
    fputs("\n  KL     ", stdout);
    for (size_t i = 1; i < PRUNE_LEVELS; i++)
        printf(" %8.2g", (double)p->losses[i]);
    if (r->prunes)
        printf("  nats, on %llu tokens\n  --sparsity pruned takes %.1f %%, the most that costs at most %g\n",
               (unsigned long long)p->loss_tokens, 100 * (double)p->levels[r->prune_level], HEARTH_PRUNE_LOSS);
    else
        printf("  nats, on %llu tokens\n  none costs as little as %g: --sparsity pruned needs --prune SHARE\n",
               (unsigned long long)p->loss_tokens, HEARTH_PRUNE_LOSS);
}

static void print_summary(const summary *s)
{
    const tuning_result *r = s->r;
    char size[16], neurons[NEURONS_TEXT];
    printf("%u layers of %s neurons, %llu tokens read: %.1f %% fire\n", r->counted.networks,
           common_neurons(neurons, s->model), (unsigned long long)r->counted.tokens, 100 * mean_density(r));
    if (r->has_zeros) {
        print_layers(r);
        print_loss(r);
    } else if (model_has_zeros(s->model)) {
        puts("no predictors: in some layers none is ever zero, or the values of all of them decide which are");
    } else {
        printf("no predictors: the activation %s is never exactly zero, so there is nothing to foresee\n",
               s->info->activation);
    }
    print_pruning(r);
    fputs("wrote ", stdout);
    output_safe(stdout, span_of(s->path), 200);
    printf(", %s\n", output_size(size, (double)s->file_bytes));
    print_command(s, r->spent_bytes > 0          ? HEARTH_MODE_PREDICTED
                     : model_has_zeros(s->model) ? HEARTH_MODE_EXACT
                     : r->prunes                 ? HEARTH_MODE_PRUNED
                                                 : HEARTH_MODE_DENSE);
}

static hearth_status print_json(const summary *s, hearth_error *error)
{
    json_t *o = tuning_report(s->r);
    if (o) {
        json_object_set_new(o, "path", json_text(span_of(s->path)));
        json_object_set_new(o, "bytes", json_integer((json_int_t)s->file_bytes));
        json_object_set_new(o, "density", json_real(mean_density(s->r)));
        json_object_set_new(o, "levels", json_array());
        for (size_t i = 0; i < PRUNE_LEVELS; i++)
            json_array_append_new(json_object_get(o, "levels"), json_real((double)s->r->prune.levels[i]));
    }
    return output_json(o, JSON_COMPACT, error);
}

/* ------------------------------------------------------------------ where from and where to */

/* Writes the origin for the report in the file: texts and options. *out is allocated by jansson. */
static hearth_status print_origin(char **out, const tune_values *v, const corpus *c, hearth_error *error)
{
    json_t *o =
        json_pack("{s:s, s:o, s:s, s:I, s:s}", "command", "hearth tune", "corpus", corpus_options_json(&v->corpus),
                  "corpus_digest", c->digest, "corpus_bytes", (json_int_t)c->text_bytes, "budget", v->budget);
    *out = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return *out ? HEARTH_OK : fail_memory(error, "report", 0);
}

/* ---------------------------------------------------------------------- run */

/* Everything that is open during the run. */
typedef struct tune_run {
    const tune_values *v;
    tuning_options options;
    progress shown;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_model_info info;
    corpus texts;
    char *path, *folder, *origin;
    work_folder work;
    tuning_result result;
} tune_run;

/* Opens everything. The model is opened without its tune file: this run writes a new one. */
static hearth_status open_all(tune_run *r, arena *memory, hearth_error *error)
{
    const tune_values *v = r->v;
    hearth_model_options model = {
        .ffn_activation = v->model.ffn_activation, .tune = "", .progress = progress_to(&r->shown)};
    hearth_runtime_options runtime = {.threads = v->threads, .cpu_level = v->cpu};
    TRY(hearth_model_open(&r->model, v->model.model, &model, error));
    hearth_model_describe(r->model, &r->info);
    TRY(corpus_options_read(&r->texts, r->model, &v->corpus, memory, error));
    TRY(hearth_runtime_create(&r->runtime, &runtime, error));
    TRY(print_origin(&r->origin, v, &r->texts, error));
    r->path = corpus_options_tune_path(&v->corpus, v->model.model);
    r->folder = r->path ? work_path(r->path) : NULL;
    if (!r->folder)
        return fail_memory(error, "path", strlen(v->model.model));
    return work_open(&r->work, r->folder, error);
}

/* Removes the intermediate results (unless they are wanted) and prints the summary. */
static hearth_status finish(tune_run *r, hearth_error *error)
{
    uint64_t bytes = 0;
    file_map map;
    if (!r->v->keep_work)
        TRY(records_end(r->folder, error));
    if (file_map_open(&map, r->path, NULL) == HEARTH_OK) {
        bytes = map.size_bytes;
        file_map_close(&map);
    }
    summary s = {r->v, r->path, r->model, &r->info, &r->result, bytes};
    if (r->v->json)
        return print_json(&s, error);
    print_summary(&s);
    return HEARTH_OK;
}

static void close_all(tune_run *r)
{
    progress_clear(&r->shown);
    tuning_free(&r->result);
    work_close(&r->work);
    mem_free(r->path);
    mem_free(r->folder);
    free(r->origin);
    corpus_free(&r->texts);
    hearth_model_close(r->model);
    hearth_runtime_destroy(r->runtime);
}

static hearth_status run_tuning(tune_run *r, arena *memory, hearth_error *error)
{
    TRY(open_all(r, memory, error));
    r->options.folder = r->folder;
    r->options.origin = r->origin;
    r->options.progress = progress_to(&r->shown);
    hearth_status status = tuning_run(&r->result, r->runtime, r->model, &r->texts, r->path, &r->options, error);
    progress_clear(&r->shown);
    if (r->result.begun_anew)
        output_note("note", "what an earlier run had found was of another model file, text, --disk, --cpu or version "
                            "of hearth, and was begun anew");
    print_notes(&r->result);
    if (status == HEARTH_CANCELLED)
        return fail(error, status,
                    "%s: tuning was interrupted; its work lies in %s, and the same command goes on from there",
                    r->v->model.model, r->folder);
    /* The options were valid on their own: if refused now, they do not suit this model, which is not wrong use. */
    if (status == HEARTH_INVALID)
        status = HEARTH_UNSUPPORTED;
    TRY(status);
    return finish(r, error);
}

static hearth_status run_tune(void *values, operands *rest, hearth_error *error)
{
    tune_values *v = values;
    tune_run r = {.v = v,
                  .options = {.recall = v->recall,
                              .choice = (tuning_choice)v->choice,
                              .for_powerinfer = v->for_powerinfer,
                              .epochs = v->epochs,
                              .disk_bytes = v->disk,
                              .memory_bytes = v->memory}};
    TRY(common_take_model("tune", &v->model, rest, CORPUS_FILES_MOST, false, error));
    TRY(corpus_options_take("tune", &v->corpus, rest, error));
    TRY(read_share("budget", v->budget, &r.options.budget, error));
    progress_init(&r.shown);
    hearth_status status = run_tuning(&r, rest->memory, error);
    close_all(&r);
    return status;
}

const command command_tune = {
    .name = "tune",
    .path = "tune",
    .summary = "learn which neurons fire, foresee them, and say what that costs",
    .usage = "MODEL --corpus FILE... [--recall X] [--budget P%] [options]",
    .about = "Reads texts with MODEL and writes what it learns as MODEL.tune, which every command finds: how often "
             "each neuron fires, thresholds for --sparsity pruned, and for each layer what foresees its neurons at the "
             "least cost (--sparsity predicted): a low-rank predictor trained here, a coarse copy of its weights, or "
             "nothing where that is cheaper. Says what each layer got and why, what it saves, and how far answers "
             "move. Its work lies in MODEL.tune.work meanwhile; interrupted, it says so, and the same command goes on "
             "from there.",
    .example = "  $ hearth tune stories-relu --corpus stories-train-sample.txt --separator '<|endoftext|>'\n"
               "  $ hearth run stories-relu --sparsity predicted -p 'Once upon a time'",
    .tables = {{"texts", corpus_option_rows, CORPUS_OPTION_COUNT, offsetof(tune_values, corpus)},
               OPTION_TABLE("tuning", rows, 0),
               OPTION_TABLE("limits", limits, 0),
               {"model", model_option_rows, MODEL_PLAIN_COUNT, offsetof(tune_values, model)}},
    .values_size = sizeof(tune_values),
    .defaults = set_defaults,
    .operands_most = CORPUS_FILES_MOST,
    .run = run_tune,
};
