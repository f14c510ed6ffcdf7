/* eval_sparsity.c - `hearth eval sparsity`: measures what each way of skipping neurons costs and gains. */
#include "eval_internal.h"

#include "../base/file.h"
#include "../eval/humaneval.h"
#include "../kernel/topology.h"
#include "common.h"
#include "output.h"
#include "sweep_report.h"

#include <string.h>

/* Tokens over which neurons are counted: enough for three significant digits. */
#define ACTIVITY_TOKENS 8192
#define DECODE_TOKENS   32
#define REPEATS         7

typedef struct sparsity_values {
    engine_options engine;
    unsigned task; /* sweep_task */
    const char *settings;
    text_list predictors;
    const char *separator;
    uint32_t documents, windows, limit;
    optional_number timeout; /* seconds */
    uint32_t repeats, decode_tokens;
    bool no_speed;
    bool json;
    const char *csv, *svg;
} sparsity_values;

static const char *const tasks[] = {[SWEEP_PPL] = "ppl", [SWEEP_KL] = "kl", [SWEEP_HUMANEVAL] = "humaneval", NULL};

static const option sparsity_rows[] = {
    {OPTION_ROW(0, "task", CHOICE, sparsity_values, task, "ppl|kl|humaneval",
                "what quality is: perplexity of TEXT; kl, how far the model drifts from what it says dense; humaneval, "
                "the share of programs that pass (TEXT is the file of problems) (default kl)"),
     .choices = tasks},
    {OPTION_ROW(0, "settings", TEXT, sparsity_values, settings, "LIST",
                "dense, exact, predicted[=THRESHOLDS], pruned[=SHARES], hot-only[=SHARES], cold-only[=SHARES], with "
                "commas between; values are numbers or FROM:TO:STEP; else all that the model can do")},
    {OPTION_ROW(0, "predictors", TEXTS, sparsity_values, predictors, "FILE",
                "another tune file of the model, whose predictors are one more setting, predicted@RECALL; may be given "
                "several times")},
    {OPTION_ROW(0, "separator", TEXT, sparsity_values, separator, "TEXT",
                "what stands between TEXTs is a text of its own, behind a BOS of its own (ppl, kl)")},
    {OPTION_ROW(0, "documents", COUNT, sparsity_values, documents, "N",
                "only the first N documents (ppl, with a separator)"),
     .least = 1, .most = 1 << 30},
    {OPTION_ROW(0, "windows", COUNT, sparsity_values, windows, "N", "only the first N windows (kl)"), .least = 1,
     .most = 1 << 30},
    {OPTION_ROW(0, "limit", COUNT, sparsity_values, limit, "N", "only the first N problems (humaneval)"), .least = 1,
     .most = 1 << 30},
    {OPTION_ROW(0, "timeout", GIVEN, sparsity_values, timeout, "S",
                "seconds after which a program has failed (humaneval) (default 10)"),
     .least = 0.1, .most = 3600},
    {OPTION_ROW('r', "repeat", COUNT, sparsity_values, repeats, "R",
                "timed runs of each setting; the median counts (default 7)"),
     .least = 1, .most = 1000},
    {OPTION_ROW('n', "predict", COUNT, sparsity_values, decode_tokens, "N",
                "tokens decoded in a timed run (default 32)"),
     .alias = "n-predict", .least = 1, .most = 1 << 20},
    {OPTION_ROW(0, "no-speed", FLAG, sparsity_values, no_speed, NULL, "quality, density and bytes only")},
    {OPTION_ROW(0, "json", FLAG, sparsity_values, json, NULL, "one object with machine, task, rows")},
    {OPTION_ROW(0, "csv", TEXT, sparsity_values, csv, "OUT", "the rows for other programs; - for standard output")},
    {OPTION_ROW(0, "svg", TEXT, sparsity_values, svg, "OUT.svg",
                "quality against density, bytes and speed, as a picture"),
     .alias = "plot"},
};

static void defaults(void *values)
{
    sparsity_values *v = values;
    v->task = SWEEP_KL;
    v->repeats = REPEATS;
    v->decode_tokens = DECODE_TOKENS;
    v->timeout.value = (float)HUMANEVAL_SECONDS;
}

/* ------------------------------------------------------------------ the work */

/* Runtime and model; the sweep creates its own engines. */
typedef struct stage {
    hearth_runtime *runtime;
    hearth_model *model;
} stage;

/* What is read: a text, or problems. */
typedef struct material {
    const char *path;
    char *text;
    size_t size;
    humaneval_problems problems;
} material;

static void close_stage(stage *s)
{
    hearth_model_close(s->model);
    hearth_runtime_destroy(s->runtime);
}

static hearth_status open_stage(stage *s, const engine_options *o, progress *p, hearth_error *error)
{
    hearth_runtime_options runtime = {.threads = o->threads, .cpu_level = o->cpu};
    hearth_status status = common_open_model(&s->model, &o->model, p, error);
    if (status == HEARTH_OK)
        status = hearth_runtime_create(&s->runtime, &runtime, error);
    progress_clear(p);
    return status;
}

static hearth_status choose_settings(const sparsity_values *v, const hearth_model *model,
                                     sweep_setting out[SWEEP_SETTINGS], size_t *count, hearth_error *error)
{
    if (v->settings)
        return sweep_parse(out, count, v->settings, model, error);
    sweep_defaults(out, count, model);
    return HEARTH_OK;
}

/* Prints a table or JSON, and writes the CSV and the picture that were asked for. CSV on standard output replaces the
 * table. */
static hearth_status show(const sparsity_values *v, const stage *s, const char *text, const sweep_result *result,
                          hearth_error *error)
{
    char cpu[256];
    topology_cpu_name(cpu, sizeof cpu);
    sweep_report r = {(sweep_task)v->task,
                      v->engine.model.model,
                      text,
                      cpu,
                      hearth_runtime_cpu_level(s->runtime),
                      hearth_runtime_threads(s->runtime),
                      result->rows,
                      result->count};
    if (v->json)
        TRY(sweep_report_json(&r, error));
    else if (!v->csv || strcmp(v->csv, "-") != 0)
        sweep_report_table(&r);
    if (v->csv)
        TRY(sweep_report_csv(&r, v->csv, error));
    return v->svg ? sweep_report_plot(&r, v->svg, error) : HEARTH_OK;
}

/* Runs the sweep with everything open, and shows the result. */
static hearth_status sweep_staged(const sparsity_values *v, const stage *s, const material *from, progress *p,
                                  hearth_error *error)
{
    sweep_setting settings[SWEEP_SETTINGS];
    sweep_result result;
    size_t count;
    TRY(choose_settings(v, s->model, settings, &count, error));
    common_say_ignored(s->model);
    sweep_options options = {
        .task = (sweep_task)v->task,
        .text = {{from->text, from->size}, from->path, v->separator, v->documents},
        .problems = &from->problems,
        .limit = v->task == SWEEP_KL ? v->windows : v->limit,
        .timeout_seconds = (double)v->timeout.value,
        .tunes = v->predictors.items,
        .tune_count = v->predictors.count,
        .context = v->engine.context,
        .activity_tokens = ACTIVITY_TOKENS,
        .decode_tokens = v->decode_tokens,
        .repeats = v->no_speed ? 0 : v->repeats,
        .activations = (hearth_activations)v->engine.activations,
        .kv = (hearth_kv)v->engine.kv,
        .progress = progress_to(p),
    };
    hearth_status status = sweep_run(&result, s->runtime, s->model, settings, count, &options, error);
    progress_clear(p);
    TRY(status);
    status = show(v, s, from->path, &result, error);
    sweep_free(&result);
    return status;
}

/* Reads the problems and checks that programs can be run, before the work, which may take hours. */
static hearth_status read_problems(const sparsity_values *v, material *out, hearth_error *error)
{
    const char *sandbox;
    TRY(humaneval_read(&out->problems, out->path, error));
    TRY(humaneval_can_check(&sandbox, error));
    if (!v->json)
        eval_say_sandbox(sandbox, (double)v->timeout.value);
    return HEARTH_OK;
}

static hearth_status sweep(const sparsity_values *v, const char *path, hearth_error *error)
{
    progress p;
    stage s = {0};
    material from = {.path = path};
    hearth_status status;
    progress_init(&p);
    if (v->task == SWEEP_HUMANEVAL)
        TRY_OR(done, status, read_problems(v, &from, error));
    else
        TRY_OR(done, status, file_read(&from.text, &from.size, path, COMMON_TEXT_BYTES, error));
    TRY_OR(done, status, open_stage(&s, &v->engine, &p, error));
    status = sweep_staged(v, &s, &from, &p, error);
done:
    close_stage(&s);
    humaneval_problems_free(&from.problems);
    mem_free(from.text);
    return status;
}

/* ------------------------------------------------------------------ the command */

/* Checks the options that count something: there are three, and each task accepts one of them. */
static hearth_status check_counts(const sparsity_values *v, hearth_error *error)
{
    const struct {
        const char *name;
        uint32_t given;
        sweep_task task;
    } counts[] = {{"documents", v->documents, SWEEP_PPL},
                  {"windows", v->windows, SWEEP_KL},
                  {"limit", v->limit, SWEEP_HUMANEVAL}};
    for (size_t own = 0; own < sizeof counts / sizeof *counts; own++)
        for (size_t i = 0; counts[own].task == (sweep_task)v->task && i < sizeof counts / sizeof *counts; i++)
            if (counts[i].given && i != own)
                return fail(error, HEARTH_INVALID, "eval sparsity: --%s: is not for this task; --%s is", counts[i].name,
                            counts[own].name);
    if (v->documents && !v->separator)
        return fail(error, HEARTH_INVALID, "eval sparsity: --documents: needs --separator");
    return HEARTH_OK;
}

static hearth_status check_values(const sparsity_values *v, const operands *rest, hearth_error *error)
{
    if (rest->count != 1)
        return fail(error, HEARTH_INVALID, "eval sparsity: TEXT: is missing; a file, or - for standard input");
    if (v->separator && !*v->separator)
        return fail(error, HEARTH_INVALID, "eval sparsity: --separator: is empty");
    if (v->separator && v->task == SWEEP_HUMANEVAL)
        return fail(error, HEARTH_INVALID, "eval sparsity: --separator: problems need none");
    TRY(check_counts(v, error));
    if (v->json && v->csv && strcmp(v->csv, "-") == 0)
        return fail(error, HEARTH_INVALID, "eval sparsity: --csv: --json is on standard output already");
    if (v->timeout.given && v->task != SWEEP_HUMANEVAL)
        return fail(error, HEARTH_INVALID, "eval sparsity: --timeout: is for --task humaneval");
    TRY(output_check_file("eval sparsity: --csv", v->csv, true, error));
    return output_check_file("eval sparsity: --svg", v->svg, false, error);
}

static hearth_status run_sparsity(void *values, operands *rest, hearth_error *error)
{
    sparsity_values *v = values;
    TRY(common_take_model("eval sparsity", &v->engine.model, rest, 1, false, error));
    TRY(check_values(v, rest, error));
    return sweep(v, rest->items[0], error);
}

const command eval_sparsity = {
    .name = "sparsity",
    .path = "eval sparsity",
    .summary = "quality against density, bytes and speed, for every way of leaving neurons out",
    .usage = "MODEL TEXT [--task ppl|kl|humaneval] [--settings LIST] [--csv OUT] [--svg OUT.svg] [options]",
    .about =
        "Runs the model at many settings, from every neuron to few, and measures each on TEXT (a file, or - for "
        "standard input): the density of its neurons, the bytes of weights a token needs, how good what it says still "
        "is, and how fast it decodes, the settings taking turns. What a setting needs from the tune file (`hearth "
        "tune`) is said where it is missing. --task humaneval RUNS the programs that the model writes, in a sandbox, "
        "as `hearth eval humaneval` does.",
    .example = "  $ hearth eval sparsity stories-relu text.txt --settings dense,exact,predicted,hot-only=0.2:0.8:0.2\n"
               "  $ hearth eval sparsity stories260K text.txt --settings dense,pruned --csv out.csv --svg out.svg",
    .tables = {OPTION_TABLE("sweep", sparsity_rows, 0),
               {"model", model_option_rows, MODEL_OPTION_COUNT, offsetof(sparsity_values, engine.model)},
               {"computing", engine_option_rows, ENGINE_PLAIN_COUNT, offsetof(sparsity_values, engine)}},
    .values_size = sizeof(sparsity_values),
    .defaults = defaults,
    .operands_most = 2,
    .run = run_sparsity,
};
