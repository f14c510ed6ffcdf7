/* eval_humaneval.c - `hearth eval humaneval`: measures whether a model writes programs that work. */
#include "eval_internal.h"

#include "../base/clock.h"
#include "../eval/humaneval.h"
#include "common.h"
#include "options.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct humaneval_values {
    engine_options engine;
    const char *problems, *completions, *save;
    uint32_t limit, max_tokens;
    hearth_sampling sampling;
    optional_seed seed;
    float timeout;
    bool each, json;
} humaneval_values;

static const option humaneval_rows[] = {
    {OPTION_ROW(0, "problems", TEXT, humaneval_values, problems, "FILE",
                "HumanEval.jsonl, or .jsonl.gz, of github.com/openai/human-eval; else $HEARTH_HUMANEVAL")},
    {OPTION_ROW(0, "limit", COUNT, humaneval_values, limit, "N", "only the first N problems"), .least = 1,
     .most = 1 << 30},
    {OPTION_ROW(0, "completions", TEXT, humaneval_values, completions, "FILE",
                "check these instead of a model's: JSON lines of task_id and completion, taken as they are")},
    {OPTION_ROW(0, "save", TEXT, humaneval_values, save, "FILE", "write the model's completions as such a file")},
    {OPTION_ROW(0, "timeout", NUMBER, humaneval_values, timeout, "S",
                "seconds after which a program has failed; 10 (OpenAI's own tool: 3)"),
     .least = 0.1, .most = 3600},
    {OPTION_ROW(0, "each", FLAG, humaneval_values, each, NULL, "a line for every problem")},
    {OPTION_ROW(0, "json", FLAG, humaneval_values, json, NULL,
                "one object: pass_at_1, standard_error, problems, solved ... and by_problem")},
};

static const option writing_rows[] = {
    {OPTION_ROW('n', "predict", COUNT, humaneval_values, max_tokens, "N",
                "tokens of a completion at most (default 512)"),
     .alias = "n-predict", .least = 1, .most = 1 << 30},
    {OPTION_ROW(0, "temp", NUMBER, humaneval_values, sampling.temperature, "N",
                "temperature; 0, which is the default, always takes the likeliest token"),
     .alias = "temperature", .least = 0, .most = 100},
    {OPTION_ROW(0, "top-p", NUMBER, humaneval_values, sampling.top_p, "P",
                "with a temperature: choose among the likeliest that make up P together (default 0.95)"),
     .least = 0, .most = 1},
    {OPTION_ROW('s', "seed", SEED, humaneval_values, seed, "N",
                "with a temperature: same seed, same completions (default 0)")},
};

static void defaults(void *values)
{
    humaneval_values *v = values;
    v->sampling = hearth_sampling_default();
    v->sampling.temperature = 0;
    v->sampling.top_k = 0;
    v->sampling.min_p = 0;
    v->max_tokens = HUMANEVAL_TOKENS;
    v->timeout = (float)HUMANEVAL_SECONDS;
}

/* The results; the strings outlive the engine. */
typedef struct outcome {
    humaneval_result result;
    const char *mode, *guarantee; /* NULL: no model was run */
} outcome;

/* ------------------------------------------------------------------ reports */

static json_t *verdict_json(const humaneval_verdict *v)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "task_id", json_text(span_of(v->task_id)), "tried", (json_int_t)v->tried,
                     "passed", (json_int_t)v->passed, "why", json_text(span_of(v->why)));
}

static hearth_status print_json(const outcome *o, hearth_error *error)
{
    const humaneval_result *r = &o->result;
    json_t *all = json_array();
    for (size_t i = 0; all && i < r->count; i++)
        if (json_array_append_new(all, verdict_json(&r->verdicts[i])) != 0) {
            json_decref(all);
            all = NULL;
        }
    if (!all)
        return fail_memory(error, "JSON", r->count);
    return output_json(json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:s?, s:s?, s:o}",
                                 "pass_at_1", r->pass_at_1, "standard_error", r->standard_error, "problems",
                                 (json_int_t)r->count, "solved", (json_int_t)r->solved, "tried", (json_int_t)r->tried,
                                 "passed", (json_int_t)r->passed, "timeouts", (json_int_t)r->timeouts, "no_room",
                                 (json_int_t)r->no_room, "tokens", (json_int_t)r->tokens, "completing_seconds",
                                 r->complete_seconds, "checking_seconds", r->check_seconds, "sandbox", r->sandbox,
                                 "mode", o->mode, "guarantee", o->guarantee, "by_problem", all),
                       JSON_COMPACT, error);
}

static void print_verdicts(const humaneval_result *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const humaneval_verdict *v = &r->verdicts[i];
        output_safe(stdout, span_of(v->task_id), 80);
        if (v->passed == v->tried)
            fputs(": passed\n", stdout);
        else if (v->tried == 1)
            fputs(": ", stdout);
        else
            printf(": %u of %u passed; the first that did not: ", v->passed, v->tried);
        if (v->passed != v->tried) {
            output_safe(stdout, span_of(v->why), HUMANEVAL_WHY);
            putchar('\n');
        }
    }
}

static void print_report(const outcome *o, bool each)
{
    const humaneval_result *r = &o->result;
    if (each)
        print_verdicts(r);
    printf("pass@1 %.4f, standard error %.4f: %zu of %zu completions of %zu problem%s passed\n", r->pass_at_1,
           r->standard_error, r->passed, r->tried, r->count, r->count == 1 ? "" : "s");
    if (r->timeouts > 0)
        printf("%zu took too long\n", r->timeouts);
    if (r->no_room > 0)
        printf("%zu prompt%s not fit the context, and count as failed\n", r->no_room,
               r->no_room == 1 ? " does" : "s do");
}

void eval_say_sandbox(const char *sandbox, double timeout_seconds)
{
    output_note("note",
                "programs written by a model are run on this machine, one at a time, in a sandbox (%s: no network, no "
                "files but the system's programs, at most %g s and 1 GiB)",
                sandbox, timeout_seconds);
}

/* ------------------------------------------------------------------ the work */

/* Has the model complete the problems, and saves the completions where --save was given. */
static hearth_status complete(const humaneval_values *v, const humaneval_problems *problems,
                              const humaneval_options *options, loaded *l, humaneval_completions *out, outcome *o,
                              hearth_error *error)
{
    TRY(humaneval_complete(out, &o->result.tokens, l->engine, problems, options, error));
    o->mode = hearth_mode_name(hearth_engine_mode(l->engine));
    o->guarantee = hearth_guarantee_name(hearth_engine_guarantee(l->engine));
    return v->save ? humaneval_save(v->save, problems, out, error) : HEARTH_OK;
}

/* Reads given completions; checks that they are complete before announcing that anything is run. */
static hearth_status read_given(const humaneval_values *v, const humaneval_problems *problems,
                                humaneval_completions *out, hearth_error *error)
{
    char name[512];
    TRY(humaneval_read_completions(out, v->completions, problems, error));
    snprintf(name, sizeof name, "%.200s: completions of %.200s", v->completions, v->problems);
    return humaneval_check_complete(out, problems, v->limit, name, error);
}

/* Gets the completions from a model or a file; the programs run after the model is closed. */
static hearth_status take_completions(humaneval_values *v, const humaneval_problems *problems,
                                      humaneval_options *options, humaneval_completions *out, outcome *o, progress *p,
                                      hearth_error *error)
{
    if (v->completions)
        return read_given(v, problems, out, error);
    loaded l;
    TRY(common_load(&l, &v->engine, p, error));
    double begin = clock_seconds();
    hearth_status status = complete(v, problems, options, &l, out, o, error);
    o->result.complete_seconds = clock_seconds() - begin;
    progress_clear(p);
    if (status == HEARTH_OK && !v->json)
        common_say_status(&l, &v->engine.messages);
    common_unload(&l);
    return status;
}

/* Gets the completions and checks them. The result of the check is merged with the token count and time of
 * completing. */
static hearth_status measure_answers(humaneval_values *v, const humaneval_problems *problems, outcome *o,
                                     hearth_error *error)
{
    progress p;
    progress_init(&p);
    p.terminal &= !v->engine.messages.quiet;
    humaneval_options options = {.sampling = &v->sampling,
                                 .max_tokens = v->max_tokens,
                                 .context = v->engine.context,
                                 .kv = (hearth_kv)v->engine.kv,
                                 .limit = v->limit,
                                 .timeout_seconds = (double)v->timeout,
                                 .progress = progress_to(&p)};
    humaneval_completions completions = {0};
    const char *sandbox;
    /* Checked before the work, which may take hours. */
    TRY(humaneval_can_check(&sandbox, error));
    hearth_status status = take_completions(v, problems, &options, &completions, o, &p, error);
    if (status == HEARTH_OK) {
        humaneval_result written = o->result;
        if (!v->json && !v->engine.messages.quiet) /* users should know that programs run, and how they are isolated */
            eval_say_sandbox(sandbox, (double)v->timeout);
        status = humaneval_check(&o->result, problems, &completions, &options, error);
        o->result.tokens = written.tokens;
        o->result.complete_seconds = written.complete_seconds;
    }
    progress_clear(&p);
    humaneval_completions_free(&completions);
    return status;
}

/* Rejects options of text generation where the completions are given. */
static hearth_status check_given(const humaneval_values *v, hearth_error *error)
{
    const option_table of_models[] = {OPTION_TABLE("writing", writing_rows, 0),
                                      ENGINE_TABLES(offsetof(humaneval_values, engine))};
    humaneval_values plain;
    memset(&plain, 0, sizeof plain);
    defaults(&plain);
    for (size_t i = 0; i < sizeof of_models / sizeof *of_models; i++) {
        const option *changed = options_find_changed(&of_models[i], v, &plain);
        if (changed)
            return fail(error, HEARTH_INVALID, "eval humaneval: --%s: is for a model, --completions are there already",
                        changed->name);
    }
    return HEARTH_OK;
}

static hearth_status check_values(humaneval_values *v, operands *rest, hearth_error *error)
{
    TRY(common_check_messages(&v->engine.messages, error));
    if (v->completions && (v->engine.model.model || rest->count > 0))
        return fail(error, HEARTH_INVALID, "eval humaneval: --completions: are given, there is nothing for a MODEL");
    if (v->completions && v->save)
        return fail(error, HEARTH_INVALID, "eval humaneval: --save: the completions are a file already");
    if (v->completions)
        TRY(check_given(v, error));
    else
        TRY(common_take_model("eval humaneval", &v->engine.model, rest, 0, false, error));
    if (!v->problems)
        v->problems = getenv("HEARTH_HUMANEVAL");
    if (!v->problems || !*v->problems)
        return fail(error, HEARTH_INVALID,
                    "eval humaneval: --problems: is missing, and $HEARTH_HUMANEVAL names no file either");
    v->sampling.seed = v->seed.value;
    return output_check_file("eval humaneval: --save", v->save, !v->json, error);
}

static hearth_status run_humaneval(void *values, operands *rest, hearth_error *error)
{
    humaneval_values *v = values;
    humaneval_problems problems = {0};
    outcome o = {0};
    TRY(check_values(v, rest, error));
    hearth_status status = humaneval_read(&problems, v->problems, error);
    if (status == HEARTH_OK)
        status = measure_answers(v, &problems, &o, error);
    if (status == HEARTH_OK && v->json)
        status = print_json(&o, error);
    else if (status == HEARTH_OK)
        print_report(&o, v->each);
    humaneval_result_free(&o.result);
    humaneval_problems_free(&problems);
    return status;
}

const command eval_humaneval = {
    .name = "humaneval",
    .path = "eval humaneval",
    .summary = "pass@1: whether the programs that the model writes work",
    .usage = "MODEL --problems FILE [options]",
    .about =
        "Lets the model complete the functions of HumanEval and RUNS the programs that come out, on this machine: each "
        "alone in a sandbox that bubblewrap builds, with no network, no files but the system's programs and "
        "libraries, nowhere to write, one process, as the user nobody, for at most --timeout seconds and in at most "
        "1 GiB. Where no sandbox can be built nothing is run. Needs bwrap and python3. Prompts are continued as plain "
        "text: a chat model is not spoken to as in a chat, and may do worse than it could. Completions end at the next "
        "thing that begins at the left margin (class, def, #, @, if, print, ```).",
    .example = "  $ hearth eval humaneval model.gguf --problems HumanEval.jsonl.gz --save model.jsonl\n"
               "  pass@1 0.1280, standard error 0.0262: 21 of 164 completions of 164 problems passed\n"
               "  $ hearth eval humaneval --completions model.jsonl --problems HumanEval.jsonl.gz --each",
    .tables = {OPTION_TABLE("problems", humaneval_rows, 0), OPTION_TABLE("writing", writing_rows, 0),
               ENGINE_TABLES(offsetof(humaneval_values, engine)), MESSAGE_TABLE(offsetof(humaneval_values, engine))},
    .values_size = sizeof(humaneval_values),
    .defaults = defaults,
    .operands_most = 1,
    .run = run_humaneval,
};
