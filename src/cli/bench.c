/* bench.c - `hearth bench`: speed, as tokens per second and as a share of the memory bandwidth; compares modes on
 * request. */
#include "common.h"

#include "../kernel/topology.h"
#include "bench_prompts.h"
#include "bench_report.h"
#include "bench_tokenizer.h"
#include "bench_ways.h"
#include "hot_set.h"
#include "options.h"
#include "output.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>

/* The most contexts, and the most prompt lengths; each pair of them gives a row. */
#define MAX_LENGTHS 64
/* The most files of saved results. */
#define MAX_SAVED 64

typedef struct bench_values {
    engine_options engine;
    number_list prompt_lengths;
    number_list contexts;
    number_list batches;
    uint32_t decode_tokens;
    uint32_t repeats;
    const char *prompts;
    number_list ids;
    const char *compare;
    const char *simulate_vram;
    bool layers;
    bool json, csv;
    const char *plot;
    const char *trace;
    const char *tokenizer_text;
    text_list saved;
} bench_values;

static const option rows[] = {
    {OPTION_ROW(0, "prompt-lengths", LIST, bench_values, prompt_lengths, "64,512", "tokens of the timed prompt"),
     .least = 1, .most = 1 << 24},
    {OPTION_ROW(0, "contexts", LIST, bench_values, contexts, "0,1024", "tokens that were read before the prompt"),
     .least = 0, .most = 1 << 24},
    {OPTION_ROW(0, "batch", LIST, bench_values, batches, "1,2,4,8",
                "sequences that decode together; a row for each, with the speed of all of them"),
     .least = 1, .most = 256},
    {OPTION_ROW('n', "predict", COUNT, bench_values, decode_tokens, "N",
                "tokens decoded behind the prompt (default 32)"),
     .alias = "n-predict", .least = 1, .most = 1 << 20},
    {OPTION_ROW('r', "repeat", COUNT, bench_values, repeats, "R",
                "timed runs of each row; the median counts (default 7)"),
     .alias = "repetitions", .least = 1, .most = 10000},
    {OPTION_ROW(
        0, "prompts", TEXT, bench_values, prompts, "FILE",
        "text to read instead of made-up tokens; run r begins at line r, or at problem r of HumanEval.jsonl[.gz]")},
    {OPTION_ROW(0, "ids", LIST, bench_values, ids, "1,2,3", "tokens to read, over and over; @FILE: from a file"),
     .least = 0, .most = INT32_MAX},
    {OPTION_ROW(
        0, "compare", TEXT, bench_values, compare, "MODES",
        "modes that take turns, run by run: dense,exact,predicted,pruned or some of them, or all that the model "
        "can run; each is forced on every layer (no guard), and speed is told against the first; with --simulate-vram "
        "ways of using the device: cpu,off,static,adaptive or some of them")},
    {OPTION_ROW(
        0, "simulate-vram", TEXT, bench_values, simulate_vram, "2G,4G,8G",
        "compare ways of using a device with so much memory: not at all (cpu), whole layers (off), hot neurons by the "
        "plan (static), or hot neurons that change with the text (adaptive)")},
    {OPTION_ROW(0, "layers", FLAG, bench_values, layers, NULL, "what every layer computed (--json has it always)")},
    {OPTION_ROW(0, "json", FLAG, bench_values, json, NULL, "one object with machine, threads, read_bandwidth, rows")},
    {OPTION_ROW(0, "csv", FLAG, bench_values, csv, NULL, "a table for other programs")},
    {OPTION_ROW(
        0, "plot", TEXT, bench_values, plot, "OUT.svg",
        "speed and bytes, with the floor, as a picture; with --simulate-vram what each way gives by the memory")},
    TRACE_ROW(bench_values),
    {OPTION_ROW(0, "tokenizer", TEXT, bench_values, tokenizer_text, "FILE",
                "time the vocabulary alone: reading it, the text of FILE to ids, and back")},
    {OPTION_ROW(0, "from", TEXTS, bench_values, saved, "FILE",
                "show what --json saved rather than measure; further files may follow"),
     .alias = "plot-from"},
};

/* ------------------------------------------------------------------ which modes */

/* The engines under test; the first one belongs to `loaded`. */
typedef struct contest {
    hearth_mode modes[HEARTH_MODE_COUNT];
    hearth_engine *engines[HEARTH_MODE_COUNT];
    size_t count;
    bool all;                  /* as many further modes as the model can run */
    bool predicts, prunes;     /* mode predicted, or pruned, is among them */
    optional_number threshold; /* for predictors, or for pruning if no engine predicts */
    optional_number recall;    /* for predictors                                       */
    optional_number prune, prune_loss;
} contest;

/* Parses "dense,exact", or "all". */
static hearth_status parse_modes(contest *c, const char *list, hearth_error *error)
{
    const char *names[HEARTH_MODE_COUNT];
    unsigned found[HEARTH_MODE_COUNT];
    size_t count = 0;
    for (hearth_mode mode = HEARTH_MODE_DENSE; mode < HEARTH_MODE_COUNT; mode++)
        names[count++] = hearth_mode_name(mode);
    const name_choices modes = {"bench: --compare", "mode", "there are dense, exact, predicted and pruned, or all",
                                names, count};
    c->all = strcmp(list, "all") == 0;
    TRY(options_names(&modes, c->all ? names[0] : list, found, &c->count, error));
    for (size_t i = 0; i < c->count; i++)
        c->modes[i] = (hearth_mode)(HEARTH_MODE_DENSE + found[i]);
    return HEARTH_OK;
}

/* Creates an engine for a further mode. --threshold goes to the mode predicted where it is among them. */
static hearth_status add_engine(contest *c, hearth_mode mode, const loaded *l, const bench_values *v, progress *p,
                                hearth_error *error)
{
    hearth_placement *placement;
    engine_options what = v->engine;
    what.threshold = c->threshold;
    what.recall = c->recall;
    what.recall.given &= mode == HEARTH_MODE_PREDICTED;
    what.prune = c->prune;
    what.prune_loss = c->prune_loss;
    if (mode == HEARTH_MODE_PRUNED)
        what.threshold.given &= !c->predicts;
    TRY(common_place_mode(&placement, l->model, mode, &what, error));
    hearth_engine_options options = common_engine_options(&v->engine, placement, p);
    hearth_status status = hearth_engine_create(&c->engines[c->count], l->runtime, l->model, &options, error);
    hearth_placement_destroy(placement);
    progress_clear(p);
    if (status == HEARTH_OK)
        c->modes[c->count++] = mode;
    return status;
}

/* Creates engines for the modes after the first; for `all`, for every further mode that the model supports. */
static hearth_status add_engines(contest *c, const loaded *l, const bench_values *v, progress *p, hearth_error *error)
{
    size_t asked = c->count;
    c->engines[0] = l->engine;
    c->count = 1;
    for (size_t i = 1; i < asked; i++)
        TRY(add_engine(c, c->modes[i], l, v, p, error));
    for (hearth_mode mode = HEARTH_MODE_EXACT; c->all && mode < HEARTH_MODE_COUNT; mode++) {
        hearth_status status = add_engine(c, mode, l, v, p, error);
        if (status != HEARTH_OK && status != HEARTH_UNSUPPORTED)
            return status;
    }
    return HEARTH_OK;
}

/* Parses the modes and prepares the options for the first one, which is loaded as in every command. --threshold applies
 * to the engine that predicts, else to the one that prunes. */
static hearth_status start_contest(contest *c, bench_values *v, hearth_error *error)
{
    c->count = 0;
    TRY(parse_modes(c, v->compare, error));
    c->predicts = c->prunes = c->all;
    for (size_t i = 0; i < c->count; i++) {
        c->predicts |= c->modes[i] == HEARTH_MODE_PREDICTED;
        c->prunes |= c->modes[i] == HEARTH_MODE_PRUNED;
    }
    if (v->engine.threshold.given && !c->predicts && !c->prunes)
        return fail(error, HEARTH_INVALID,
                    "bench: --threshold: is for predicted or pruned, and --compare names no such mode");
    if (v->engine.recall.given && (!c->predicts || v->engine.threshold.given))
        return fail(error, HEARTH_INVALID,
                    "bench: --recall: is for predicted, which --compare must name, without --threshold");
    if ((v->engine.prune.given || v->engine.prune_loss.given) && !c->prunes)
        return fail(error, HEARTH_INVALID, "bench: --prune%s: is for pruned, and --compare names no such mode",
                    v->engine.prune.given ? "" : "-loss");
    c->threshold = v->engine.threshold;
    c->recall = v->engine.recall;
    c->prune = v->engine.prune;
    c->prune_loss = v->engine.prune_loss;
    v->engine.threshold.given &=
        c->modes[0] == HEARTH_MODE_PREDICTED || (c->modes[0] == HEARTH_MODE_PRUNED && !c->predicts);
    v->engine.recall.given &= c->modes[0] == HEARTH_MODE_PREDICTED;
    v->engine.prune.given &= c->modes[0] == HEARTH_MODE_PRUNED;
    v->engine.prune_loss.given &= c->modes[0] == HEARTH_MODE_PRUNED;
    v->engine.sparsity = c->modes[0];
    v->engine.no_guard = true;
    return HEARTH_OK;
}

static void remove_engines(contest *c)
{
    for (size_t i = 1; i < HEARTH_MODE_COUNT; i++)
        hearth_engine_destroy(c->engines[i]);
}

/* ------------------------------------------------------------------ what to measure */

/* Returns the context that every row must fit: -c, else the model's. */
static uint32_t context_limit(const bench_values *v, const hearth_model_info *info)
{
    return v->engine.context ? v->engine.context : info->context_length;
}

/* Chooses the default lengths that the context can hold. */
static hearth_status choose_lengths(bench_values *v, const hearth_model_info *info, arena *memory, hearth_error *error)
{
    static const int32_t usual[] = {64, 512};
    int32_t *numbers = arena_new_array(memory, 3, sizeof *numbers);
    if (!numbers)
        return fail_memory(error, "lengths", 3 * sizeof *numbers);
    if (v->contexts.count == 0)
        v->contexts = (number_list){numbers + 2, 1};
    if (v->prompt_lengths.count > 0)
        return HEARTH_OK;
    int64_t before = 0;
    for (size_t i = 0; i < v->contexts.count; i++)
        before = v->contexts.items[i] > before ? v->contexts.items[i] : before;
    int64_t room = (int64_t)context_limit(v, info) - before - v->decode_tokens;
    v->prompt_lengths.items = numbers;
    size_t most = v->simulate_vram && v->plot ? 1 : 2; /* that picture has room for one */
    for (size_t i = 0; i < most; i++)
        if (usual[i] <= room)
            numbers[v->prompt_lengths.count++] = usual[i];
    if (v->prompt_lengths.count < most && room > 0) /* a short context: as many as fit */
        numbers[v->prompt_lengths.count++] = (int32_t)room;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the command */

/* Prints what was asked for; the picture comes last, so that a failure to write it loses no results. */
static hearth_status show(const bench_report *reports, size_t count, const bench_values *v, hearth_error *error)
{
    if (v->json)
        TRY(bench_report_json(reports, error));
    else if (v->csv)
        bench_report_csv(reports, count);
    else
        for (size_t i = 0; i < count; i++)
            bench_report_table(&reports[i], v->layers);
    return v->plot ? bench_report_plot(reports, count, v->plot, error) : HEARTH_OK;
}

/* Builds the report, with what is known of the guard and the device, and prints it. */
static hearth_status show_result(const loaded *l, const bench_values *v, const bench_result *result,
                                 hearth_error *error)
{
    char cpu[256];
    topology_cpu_name(cpu, sizeof cpu);
    bench_report r = {
        .machine = cpu,
        .model = l->info.path,
        .cpu_level = hearth_runtime_cpu_level(l->runtime),
        .threads = hearth_runtime_threads(l->runtime),
        .rows = result->rows,
        .count = result->count,
        .layer_count = result->layer_count,
    };
    for (size_t i = 0; i < r.count; i++)
        r.read_bandwidth += r.rows[i].read_bandwidth / (double)r.count;
    r.guard = common_guard_json(l);
    r.device_bandwidth = l->device_bandwidth;
    r.device = common_device_json(l);
    r.placement = common_placement_json(l);
    hearth_status status = r.guard && r.device && r.placement ? show(&r, 1, v, error) : fail_memory(error, "JSON", 0);
    json_decref(r.guard);
    json_decref(r.device);
    json_decref(r.placement);
    if (status == HEARTH_OK && !v->compare && !v->json && !v->csv) {
        common_say_status(l, &v->engine.messages);
        hot_set_say(l, &v->engine);
    }
    return status;
}

/* Prints saved results; the operands are further files. */
static hearth_status show_saved(const bench_values *v, const operands *rest, hearth_error *error)
{
    size_t count = v->saved.count + rest->count;
    if (v->json || v->engine.model.model || v->compare || v->trace)
        return fail(error, HEARTH_INVALID, "bench: --from: shows saved results, it neither measures nor writes JSON");
    if (count > MAX_SAVED)
        return fail(error, HEARTH_INVALID, "bench: --from: %zu files are too many, %d can be shown", count, MAX_SAVED);
    bench_report reports[MAX_SAVED];
    for (size_t i = 0; i < count; i++) {
        const char *path = i < v->saved.count ? v->saved.items[i] : rest->items[i - v->saved.count];
        TRY(bench_report_read(&reports[i], path, rest->memory, error));
    }
    return show(reports, count, v, error);
}

static bench_options options_of(const bench_values *v, const bench_prompts *source, double device_bandwidth,
                                progress *p)
{
    return (bench_options){
        .prompt_lengths = v->prompt_lengths.items,
        .prompt_length_count = v->prompt_lengths.count,
        .contexts = v->contexts.items,
        .context_count = v->contexts.count,
        .batches = v->batches.count ? v->batches.items : NULL,
        .batch_count = v->batches.count,
        .decode_tokens = v->decode_tokens,
        .repeats = v->repeats,
        .ids = source->ids ? source->ids : v->ids.items,
        .id_count = source->ids ? source->id_count : v->ids.count,
        .starts = source->starts,
        .start_count = source->start_count,
        .context = v->engine.context,
        .kv = (hearth_kv)v->engine.kv,
        .device_bandwidth = device_bandwidth,
        .progress = progress_to(p),
    };
}

/* Measures and prints all rows. The overlap is measured where a layer is split or a trace was asked for. */
static hearth_status measure_contest(const loaded *l, const contest *c, const bench_values *v,
                                     const bench_prompts *source, hearth_tracer tracer, progress *p,
                                     hearth_error *error)
{
    bench_options options = options_of(v, source, l->device_bandwidth, p);
    bench_result result;
    options.traced = tracer.see || common_has_split(l);
    options.tracer = tracer;
    hearth_status status =
        bench_run(&result, (const hearth_engine *const *)c->engines, c->count, hearth_runtime_threads(l->runtime),
                  hearth_runtime_cpu_level(l->runtime), &options, error);
    progress_clear(p);
    TRY(status);
    status = show_result(l, v, &result, error);
    bench_result_free(&result);
    return status;
}

/* Decides what is read, and how long rows are. Free the prompts also after a failure. */
static hearth_status choose_work(bench_values *v, const hearth_model *model, bench_prompts *source, arena *memory,
                                 hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(model, &info);
    TRY(choose_lengths(v, &info, memory, error));
    if (v->prompts)
        TRY(bench_prompts_read(source, model, v->prompts, error));
    if (v->contexts.count > MAX_LENGTHS || v->prompt_lengths.count > MAX_LENGTHS || v->batches.count > MAX_LENGTHS ||
        v->contexts.count * v->prompt_lengths.count == 0)
        return fail(error, HEARTH_INVALID,
                    "bench: lengths: between one and %d are possible, and they must fit the context of %u", MAX_LENGTHS,
                    context_limit(v, &info));
    return HEARTH_OK;
}

static hearth_status bench_loaded(const loaded *l, contest *c, bench_values *v, hearth_tracer tracer, progress *p,
                                  arena *memory, hearth_error *error)
{
    bench_prompts source = {0};
    hearth_status status = choose_work(v, l->model, &source, memory, error);
    if (status == HEARTH_OK)
        status = add_engines(c, l, v, p, error);
    if (status == HEARTH_OK)
        status = measure_contest(l, c, v, &source, tracer, p, error);
    remove_engines(c);
    bench_prompts_free(&source);
    return status;
}

/* Compares ways of using a device. */
static hearth_status simulate(bench_values *v, arena *memory, hearth_error *error)
{
    hearth_model *model;
    progress p;
    bench_prompts source = {0};
    TRY(common_check_options(&v->engine, error));
    progress_init(&p);
    p.terminal &= !v->engine.messages.quiet;
    TRY(common_open_model(&model, &v->engine.model, &p, error));
    hearth_status status = choose_work(v, model, &source, memory, error);
    if (status == HEARTH_OK) {
        bench_options options = options_of(v, &source, 0, &p); /* floors are not shown */
        options.traced = true;
        status = bench_ways(model,
                            &(ways_options){.engine = &v->engine,
                                            .sizes = v->simulate_vram,
                                            .names = v->compare,
                                            .bench = &options,
                                            .plot = v->plot,
                                            .json = v->json},
                            &p, error);
    }
    progress_clear(&p);
    bench_prompts_free(&source);
    hearth_model_close(model);
    return status;
}

/* Rejects options that contradict each other. */
static hearth_status check_values(const bench_values *v, hearth_error *error)
{
    if (v->json && v->csv)
        return fail(error, HEARTH_INVALID, "bench: --csv: --json was asked for as well");
    if (v->prompts && v->ids.count > 0)
        return fail(error, HEARTH_INVALID, "bench: --ids: the tokens come from --prompts already");
    if (v->compare && !v->simulate_vram && v->engine.sparsity != HEARTH_MODE_AUTO)
        return fail(error, HEARTH_INVALID, "bench: --sparsity: --compare names the modes already");
    if (v->simulate_vram && (v->csv || v->trace || v->layers || v->saved.count > 0 || v->engine.place))
        return fail(error, HEARTH_INVALID,
                    "bench: --simulate-vram: makes placements and a table of its own, or with --json an object, and "
                    "with --plot a picture");
    if (v->compare && v->engine.place)
        return fail(error, HEARTH_INVALID, "bench: --place: --compare makes placements of its own");
    return output_check_file("bench: --plot", v->plot, false, error);
}

static hearth_status run_bench(void *values, operands *rest, hearth_error *error)
{
    bench_values *v = values;
    contest c = {.count = 1};
    progress p;
    loaded l;
    trace t;
    TRY(check_values(v, error));
    if (v->saved.count > 0)
        return show_saved(v, rest, error);
    TRY(common_take_model("bench", &v->engine.model, rest, 0, true, error));
    if (v->tokenizer_text)
        return bench_tokenizer(v->engine.model.model, v->tokenizer_text, v->repeats, v->json, error);
    if (v->simulate_vram)
        return simulate(v, rest->memory, error);
    if (v->compare)
        TRY(start_contest(&c, v, error));
    TRY(trace_open(&t, "bench", v->trace, error));
    v->engine.measures_device = true;
    v->engine.plans = !v->compare; /* engines of several modes are placed alike */
    hearth_status status = common_load(&l, &v->engine, &p, error);
    if (status == HEARTH_OK) {
        status = bench_loaded(&l, &c, v, trace_to(&t), &p, rest->memory, error);
        common_unload(&l);
    }
    return trace_close(&t, status, error);
}

static void defaults(void *values)
{
    bench_values *v = values;
    v->decode_tokens = 32;
    v->repeats = 7;
}

const command command_bench = {
    .name = "bench",
    .path = "bench",
    .summary = "measure speed, and its share of the memory's bandwidth",
    .usage = "[MODEL | --from FILE...] [options]",
    .about =
        "Times reading a prompt and decoding behind it. The machine's read bandwidth is measured immediately before "
        "and after each decoding: divided by the bytes that a token must read (weights of the neurons it needs, and "
        "the cache at that position) it gives the floor, as fast as any program could be; the share says how close "
        "decoding came. What lies on a device its own memory brings, whose bandwidth is measured once; where both "
        "sides have neurons of a layer they read at the same time. Density is the share of a layer's neurons that were "
        "not zero; tokens that neither --ids nor --prompts names are made up, and fire other neurons than a text does. "
        "Figures are medians of all runs; speed is the median of each run's ratio to the first mode's run beside it. "
        "Defaults that do not fit the model's context are shortened or left out. Where layers are split between the "
        "CPU and a device, further runs say how the two sides overlap: the time that both work on their neurons, over "
        "the shorter of the two; and what it takes to hand the token over and the sum back.",
    .example =
        "  $ hearth bench llama-relu-1b-q4_0.gguf --compare dense,exact,predicted --prompt-lengths 64\n"
        "  Intel(R) Xeon(R) Processor, 2 threads, avx512, reads 35.2 GB/s\n"
        "  mode       guarantee    context  prompt  prefill tok/s  decode tok/s  speed  bytes/token  floor tok/s  "
        "share\n"
        "  dense      bitwise            0      64          171.3          50.1   1.00       613 MB         57.4   "
        "0.87\n"
        "  ...\n\n"
        "  $ hearth bench a.gguf --compare all --json >a.json; hearth bench b.gguf --compare all --json >b.json\n"
        "  $ hearth bench --from a.json b.json --plot both.svg\n\n"
        "  $ hearth bench llama-relu-7b-q4_0.gguf --simulate-vram 1G,2G,4G --prompts HumanEval.jsonl.gz\n\n"
        "  $ hearth bench gemma3-270m-q4_k_m.gguf --tokenizer book.txt",
    .tables = {OPTION_TABLE("measuring", rows, 0), ENGINE_TABLES(offsetof(bench_values, engine)),
               MESSAGE_TABLE(offsetof(bench_values, engine))},
    .values_size = sizeof(bench_values),
    .defaults = defaults,
    .operands_most = MAX_SAVED,
    .run = run_bench,
};
