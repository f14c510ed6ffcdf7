/* humaneval.c - completes problems with a model, builds programs from the completions, and judges their runs.
 *
 * A few lines of Python (runner) run a program. They hide what it prints, as OpenAI's human-eval does, including what
 * it writes to the descriptors directly, and print a secret word once the program has reached its end: a program that
 * exits early, even with success, has not been checked. The word is random for every program. A program that searches
 * the runner's frames could find it, just as it could return an object that equals everything: HumanEval measures
 * models that try to solve the problem.
 *
 * Programs cannot write files: none of HumanEval's problems needs to, and so no limit on disk space is needed. */
#include "humaneval.h"

#include "../base/clock.h"
#include "sandbox.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PROGRAM_PATH   "/program.py"
#define PROGRAM_MEMORY ((size_t)1 << 30) /* Python itself takes about 20 MB */
#define PROGRAM_OUTPUT ((size_t)16 << 20)
#define PYTHON_SECONDS 30.0 /* for an empty program, on a busy machine */
#define OUTPUT_SHOWN   150  /* bytes */

/* The usual stop strings of other implementations: what begins at the left margin is not part of the function. */
const char *const humaneval_stops[] = {"\nclass", "\ndef", "\n#", "\n@", "\nif", "\nprint", "\n```"};
const size_t humaneval_stop_count = sizeof humaneval_stops / sizeof *humaneval_stops;

/* ------------------------------------------------------------------ completing */

typedef struct writing {
    const humaneval_options *options;
    const hearth_engine *engine;
    hearth_session *session;
    hearth_sampler *sampler;
    humaneval_completions *out;
    uint32_t max_tokens;
    uint64_t done, total; /* as reported: in tokens, as if every completion had the maximal length */
    uint64_t tokens;
    buffer text;
    bool failed; /* no memory for the text */
} writing;

static bool report(const humaneval_options *o, const char *what, uint64_t done, uint64_t total)
{
    return !o->progress.report || o->progress.report(o->progress.user, what, done, total);
}

/* Reports the same figures again from within a feed, where only cancelling matters. */
static bool report_again(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    const writing *w = user;
    return report(w->options, "completing", w->done, w->total);
}

/* Collects the text of a completion; false ends it: cancelled, or no memory. */
static bool take_text(void *user, int32_t token, const char *text, size_t size)
{
    writing *w = user;
    w->tokens += token >= 0;
    w->done += token >= 0;
    size_t from = w->text.size;
    w->failed = w->failed || !buffer_put(&w->text, text, size);
    for (size_t i = from; i < w->text.size; i++)
        if (w->text.data[i] == 0)
            w->text.data[i] = '?'; /* no program has NUL bytes, and they are trouble in JSON lines */
    return !w->failed && report(w->options, "completing", w->done, w->total);
}

static hearth_status generate(writing *w, const char *prompt, bool *no_room, hearth_error *error)
{
    const hearth_answer_options answer = {
        .stops = humaneval_stops, .stop_count = humaneval_stop_count, .max_tokens = w->max_tokens};
    hearth_result result = {0};
    int32_t *ids;
    size_t count;
    TRY(hearth_session_truncate(w->session, 0, 0, error));
    hearth_sampler_reset(w->sampler);
    TRY(hearth_tokenize(hearth_engine_model(w->engine), prompt, strlen(prompt), HEARTH_TEXT_SPECIAL, &ids, &count,
                        error));
    *no_room = count >= hearth_session_context(w->session);
    hearth_status status = HEARTH_OK;
    if (!*no_room)
        status = hearth_generate(w->session, 0, ids, count, w->sampler, &answer, take_text, w, &result, error);
    hearth_free(ids);
    if (w->failed)
        return fail_memory(error, "completion", w->text.size);
    if (status == HEARTH_CANCELLED || result.stop == HEARTH_STOP_CANCELLED)
        return fail(error, HEARTH_CANCELLED, "humaneval: completing: cancelled");
    return status;
}

static hearth_status complete_one(writing *w, const humaneval_problems *problems, size_t i, hearth_error *error)
{
    bool no_room = false;
    w->done = i * w->max_tokens;
    w->text.size = 0;
    if (!report(w->options, "completing", w->done, w->total))
        return fail(error, HEARTH_CANCELLED, "humaneval: completing: cancelled");
    TRY(generate(w, problems->items[i].prompt, &no_room, error));
    TRY(humaneval_add(w->out, i, (span){w->text.data, w->text.size}, error));
    w->out->items[w->out->count - 1].no_room = no_room;
    return HEARTH_OK;
}

static size_t problem_count(const humaneval_problems *problems, const humaneval_options *options)
{
    return options->limit > 0 && options->limit < problems->count ? options->limit : problems->count;
}

hearth_status humaneval_complete(humaneval_completions *out, uint64_t *tokens, const hearth_engine *engine,
                                 const humaneval_problems *problems, const humaneval_options *options,
                                 hearth_error *error)
{
    hearth_model_info info;
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    hearth_model_describe(hearth_engine_model(engine), &info);
    size_t count = problem_count(problems, options);
    writing w = {.options = options,
                 .engine = engine,
                 .out = out,
                 .max_tokens = options->max_tokens ? options->max_tokens : HUMANEVAL_TOKENS};
    w.total = (uint64_t)count * w.max_tokens;
    const hearth_session_options session = {
        .context = options->context, .kv = options->kv, .progress = {report_again, &w}};
    hearth_status status;
    TRY_OR(done, status,
           hearth_sampler_create(&w.sampler, options->sampling ? options->sampling : &greedy, info.vocabulary_size,
                                 error));
    TRY_OR(done, status, hearth_session_create(&w.session, engine, &session, error));
    for (size_t i = 0; i < count; i++)
        TRY_OR(done, status, complete_one(&w, problems, i, error));
    *tokens = w.tokens;
done:
    buffer_free(&w.text);
    hearth_session_destroy(w.session);
    hearth_sampler_destroy(w.sampler);
    return status;
}

/* ------------------------------------------------------------------ a program */

/* Reads the word from standard input before anything else runs, and has the real standard output to itself: the
 * program finds an empty input (the original is a file, which could be read again). The program's names are those that
 * exec adds to an empty dictionary, as in human-eval; __name__ is not "__main__". */
static const char runner[] = "import os, sys\n"
                             "def run(write, leave):\n"
                             "    word = sys.stdin.read()\n"
                             "    answer, null = os.dup(1), os.open('/dev/null', os.O_RDWR)\n"
                             "    os.dup2(null, 0)\n"
                             "    os.dup2(null, 1)\n"
                             "    os.dup2(null, 2)\n"
                             "    os.close(null)\n"
                             "    sys.stdout = sys.stderr = open('/dev/null', 'w')\n"
                             "    try:\n"
                             "        with open('" PROGRAM_PATH "', encoding='utf-8', newline='') as file:\n"
                             "            text = file.read()\n"
                             "        exec(compile(text, 'program', 'exec'), {})\n"
                             "    except BaseException as reason:\n"
                             "        try:\n"
                             "            name, said = type(reason).__name__, str(reason)\n"
                             "            why = (name + ': ' + said if said else name).encode('utf-8', 'replace')\n"
                             "        except BaseException:\n"
                             "            why = b'an exception without a text'\n"
                             "        write(answer, why[:600])\n"
                             "        leave(1)\n"
                             "    write(answer, word.encode())\n"
                             "    leave(0)\n"
                             "run(os.write, os._exit)\n";

/* A fixed hash seed: sets have the same order every time, so verdicts are reproducible. */
static const char *const python[] = {"env", "PYTHONHASHSEED=0", "python3", "-s", "-S", "-B", "-c", runner, NULL};

typedef struct checking {
    const humaneval_problems *problems;
    const humaneval_options *options;
    sandbox *sandbox;
    uint64_t done, total; /* completions */
    humaneval_result *out;
} checking;

static bool go_on(void *user)
{
    const checking *c = user;
    return report(c->options, "checking", c->done, c->total);
}

#define WORD_BYTES 16

/* Draws a random word in hexadecimal digits. */
static hearth_status draw_word(char out[2 * WORD_BYTES + 1], hearth_error *error)
{
    unsigned char noise[WORD_BYTES];
    if (getrandom(noise, sizeof noise, 0) != (ssize_t)sizeof noise)
        return fail_errno(error, "humaneval", "getrandom");
    for (size_t i = 0; i < sizeof noise; i++)
        snprintf(out + 2 * i, 3, "%02x", noise[i]);
    return HEARTH_OK;
}

static void __attribute__((format(printf, 2, 3))) say(char why[HUMANEVAL_WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, HUMANEVAL_WHY, format, arguments);
    va_end(arguments);
}

/* Copies the beginning of the output, cut at the end of a character. */
static void say_output(char why[HUMANEVAL_WHY], const sandbox_result *r)
{
    size_t size = 0, next = 0;
    while (next <= OUTPUT_SHOWN) {
        size = next;
        if (size >= r->output_size)
            break;
        size_t length = utf8_length(r->output + size, r->output_size - size);
        next = size + (length > 0 ? length : 1);
    }
    say(why, "%.*s", (int)size, r->output);
}

/* Describes in words why a program failed. */
static void explain(char why[HUMANEVAL_WHY], const sandbox_result *r)
{
    switch (r->end) {
    case SANDBOX_TIMEOUT:
        say(why, "took too long");
        break;
    case SANDBOX_OUTPUT:
        say(why, "wrote too much");
        break;
    case SANDBOX_SIGNALLED:
        say(why, "killed by signal %d", r->code);
        break;
    case SANDBOX_EXITED:
        if (r->code == 1 && r->output_size > 0)
            say_output(why, r);
        else
            say(why, "ended with status %d before its test did", r->code);
        break;
    }
}

/* Runs a program to its end; *passed: it reached the end of its text. */
static hearth_status run_program(checking *c, span text, double seconds, bool *passed, sandbox_result *result,
                                 hearth_error *error)
{
    char word[2 * WORD_BYTES + 1];
    TRY(draw_word(word, error));
    const sandbox_file file = {PROGRAM_PATH, text};
    const sandbox_job job = {.command = python,
                             .input = {word, sizeof word - 1},
                             .files = &file,
                             .file_count = 1,
                             .wall_seconds = seconds,
                             .memory_bytes = PROGRAM_MEMORY,
                             .output_bytes = PROGRAM_OUTPUT,
                             .go_on = go_on,
                             .user = c};
    TRY(sandbox_run(c->sandbox, &job, result, error));
    *passed = result->end == SANDBOX_EXITED && result->code == 0 &&
              memmem(result->output, result->output_size, word, sizeof word - 1) != NULL;
    return HEARTH_OK;
}

/* Checks that an empty program passes and a wrong one fails before any others run; independent of the user's
 * timeout. */
static hearth_status check_python(checking *c, hearth_error *error)
{
    bool passed[2];
    sandbox_result result;
    TRY(run_program(c, span_of("raise ValueError\n"), PYTHON_SECONDS, &passed[0], &result, error));
    TRY(run_program(c, span_of("import math, typing\n"), PYTHON_SECONDS, &passed[1], &result, error));
    if (passed[1] && !passed[0])
        return HEARTH_OK;
    char why[HUMANEVAL_WHY];
    if (result.output_size > 0)
        say_output(why, &result);
    else
        explain(why, &result);
    return fail(error, HEARTH_UNSUPPORTED, "humaneval: python3: does not work in the sandbox: %s", why);
}

static hearth_status open_checking(checking *c, hearth_error *error)
{
    TRY(sandbox_open(&c->sandbox, error));
    hearth_status status = check_python(c, error);
    if (status != HEARTH_OK) {
        sandbox_close(c->sandbox);
        c->sandbox = NULL;
    }
    return status;
}

hearth_status humaneval_can_check(const char **out, hearth_error *error)
{
    const humaneval_options none = {0};
    checking c = {.options = &none};
    TRY(open_checking(&c, error));
    if (out)
        *out = sandbox_describe(c.sandbox);
    sandbox_close(c.sandbox);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ checking */

static hearth_status check_one(checking *c, const humaneval_completion *completion, hearth_error *error)
{
    const humaneval_problem *p = &c->problems->items[completion->problem];
    humaneval_verdict *v = &c->out->verdicts[completion->problem];
    bool passed = false;
    char why[HUMANEVAL_WHY] = "the prompt does not fit the context";
    if (!completion->no_room) {
        buffer text = {0};
        sandbox_result result = {.end = SANDBOX_EXITED};
        double seconds = c->options->timeout_seconds > 0 ? c->options->timeout_seconds : HUMANEVAL_SECONDS;
        hearth_status status;
        if (buffer_print(&text, "%s", p->prompt) && buffer_put(&text, completion->text.data, completion->text.size) &&
            buffer_print(&text, "\n%s\ncheck(%s)\n", p->test, p->entry_point))
            status = run_program(c, (span){text.data, text.size}, seconds, &passed, &result, error);
        else
            status = fail_memory(error, p->task_id, completion->text.size);
        buffer_free(&text);
        TRY(status);
        explain(why, &result);
        c->out->timeouts += result.end == SANDBOX_TIMEOUT;
    }
    c->out->no_room += completion->no_room;
    if (!passed && v->passed == v->tried) /* the first failure */
        memcpy(v->why, why, sizeof why);
    v->tried++;
    v->passed += passed;
    return HEARTH_OK;
}

static void conclude(humaneval_result *r)
{
    double sum = 0, squares = 0, n = (double)r->count;
    for (size_t i = 0; i < r->count; i++) {
        const humaneval_verdict *v = &r->verdicts[i];
        double share = (double)v->passed / v->tried;
        sum += share;
        r->tried += v->tried;
        r->passed += v->passed;
        r->solved += v->passed == v->tried;
    }
    r->pass_at_1 = sum / n;
    for (size_t i = 0; i < r->count; i++) {
        double off = (double)r->verdicts[i].passed / r->verdicts[i].tried - r->pass_at_1;
        squares += off * off;
    }
    r->standard_error = r->count > 1 ? sqrt(squares / (n - 1) / n) : 0;
}

/* Allocates one verdict per problem. */
static hearth_status prepare(humaneval_result *out, const humaneval_problems *problems, size_t count,
                             hearth_error *error)
{
    *out = (humaneval_result){.verdicts = mem_new_array(count, sizeof *out->verdicts), .count = count};
    if (!out->verdicts)
        return fail_memory(error, "humaneval", count * sizeof *out->verdicts);
    for (size_t i = 0; i < count; i++)
        out->verdicts[i].task_id = problems->items[i].task_id;
    return HEARTH_OK;
}

/* Checks all completions in an open sandbox. */
static hearth_status check_all(checking *c, const humaneval_completions *completions, hearth_error *error)
{
    size_t count = problem_count(c->problems, c->options);
    TRY(humaneval_check_complete(completions, c->problems, c->options->limit, "completions", error));
    TRY(prepare(c->out, c->problems, count, error));
    for (size_t i = 0; i < completions->count; i++)
        c->total += completions->items[i].problem < count;
    double begin = clock_seconds();
    for (size_t i = 0; i < completions->count; i++) {
        if (completions->items[i].problem >= count)
            continue;
        TRY(check_one(c, &completions->items[i], error));
        c->done++;
    }
    c->out->check_seconds = clock_seconds() - begin;
    c->out->sandbox = sandbox_describe(c->sandbox);
    conclude(c->out);
    return HEARTH_OK;
}

hearth_status humaneval_check(humaneval_result *out, const humaneval_problems *problems,
                              const humaneval_completions *completions, const humaneval_options *options,
                              hearth_error *error)
{
    checking c = {.problems = problems, .options = options, .out = out};
    TRY(open_checking(&c, error));
    hearth_status status = check_all(&c, completions, error);
    sandbox_close(c.sandbox);
    return status;
}

hearth_status humaneval_run(humaneval_result *out, const hearth_engine *engine, const humaneval_problems *problems,
                            const humaneval_options *options, hearth_error *error)
{
    humaneval_completions completions = {0};
    checking c = {.problems = problems, .options = options, .out = out};
    uint64_t tokens = 0;
    hearth_status status;
    TRY(open_checking(&c, error));
    double begin = clock_seconds();
    TRY_OR(done, status, humaneval_complete(&completions, &tokens, engine, problems, options, error));
    double seconds = clock_seconds() - begin;
    TRY_OR(done, status, check_all(&c, &completions, error));
    out->tokens = tokens;
    out->complete_seconds = seconds;
done:
    humaneval_completions_free(&completions);
    sandbox_close(c.sandbox);
    return status;
}

void humaneval_result_free(humaneval_result *r)
{
    mem_free(r->verdicts);
    *r = (humaneval_result){0};
}
