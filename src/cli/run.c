/* run.c - `hearth run`: continues a text. */
#include "run.h"

#include "../base/file.h"
#include "../model/chat.h"
#include "../model/model.h"
#include "hot_set.h"
#include "output.h"
#include "prompt_cache.h"
#include "terminal.h"

#include <string.h>
#include <unistd.h>

/* Longest prompt file: far more text than any context can hold. */
#define MAX_PROMPT_BYTES ((size_t)256 << 20)

/* Guesses in a step where a model makes them and nothing says how many. */
#define DEFAULT_DRAFT 4

static const option rows[] = {
    {OPTION_ROW('p', "prompt", TEXT, run_values, prompt, "TEXT",
                "the text to continue; without it (and -f, --chat) lines are read from the terminal")},
    {OPTION_ROW('f', "file", TEXT, run_values, file, "FILE",
                "the text to continue, from a file (-: standard input), without its last line break")},
    {OPTION_ROW(0, "chat", TEXT, run_values, message, "TEXT", "answers one message, by the model's chat template")},
    {OPTION_ROW(0, "system", TEXT, run_values, system, "TEXT", "the system message of a chat"),
     .alias = "system-prompt", .word = "sys"},
    {OPTION_ROW(0, "no-chat", FLAG, run_values, continues, NULL,
                "what is typed is continued as text, also where the model has a chat template")},
    {OPTION_ROW('n', "predict", COUNT, run_values, predict, "N",
                "at most N tokens; else (or -1) until the text ends or the context is full"),
     .alias = "n-predict", .least = 1, .most = 1 << 30, .unlimited = true},
    {OPTION_ROW(0, "stop", TEXTS, run_values, stops, "TEXT",
                "ends the answer where it would say TEXT; may be given several times")},
    {OPTION_ROW(0, "ignore-eos", FLAG, run_values, ignore_end, NULL, "go on where the model ends its text")},
    {OPTION_ROW(0, "grammar", TEXT, run_values, grammar, "FILE|TEXT",
                "the answer is a text of this grammar, in the notation of llama.cpp (GBNF)"),
     .alias = "grammar-file"},
    {OPTION_ROW(0, "json-schema", TEXT, run_values, json_schema, "FILE|TEXT",
                "the answer is JSON that this schema allows"),
     .alias = "json-schema-file"},
    {OPTION_ROW(
         0, "draft", COUNT, run_values, draft, "N",
         "guesses up to N tokens at once from what followed the same words before, and checks them in one step; the "
         "text is the same; faster where text repeats itself (code, quotations). Default: 0, none"),
     .alias = "draft-max", .least = 0, .most = 7},
    {OPTION_ROW(
         0, "draft-model", TEXT, run_values, draft_model, "MODEL",
         "a smaller model with the same vocabulary guesses in place of earlier text, on the CPU; --draft says how "
         "many tokens at most (then 4)"),
     .alias = "model-draft"},
    {OPTION_ROW(0, "prompt-cache", TEXT, run_values, prompt_cache, "FILE",
                "what was read of the prompt is stored in FILE, and a prompt that begins alike is read from where they "
                "differ; with -p, -f or --chat")},
    {OPTION_ROW(0, "save-hot-set", TEXT, run_values, save_hot_set, "FILE",
                "at the end, writes the placement with the neurons that the device has by then; --place takes it")},
    {OPTION_ROW(
        0, "json", FLAG, run_values, json, NULL,
        "one object: text (without the prompt), ids, prompt_tokens, reused_tokens (of these, from --prompt-cache), "
        "prompt_seconds (reading the others), decode_tokens "
        "(those of ids), decode_seconds (choosing and reading them), draft_tokens (guessed), accepted_tokens "
        "(of these, part of the answer), stop_reason, mode, guarantee; sparsity: "
        "density, computed (shares of the neurons), bytes_per_token, dense_bytes_per_token of the answer; guard; "
        "device, placement, pruning and plan (as `hearth plan --json` has it), where there is one; "
        "hot_set, with --hot-set: hit_rate (of the active neurons, the share that was on the device), swaps, bytes, "
        "seconds; seed, where the "
        "temperature is not 0; with --chat also "
        "prompt, the rendered text, and reasoning (text is then without it)")},
    TRACE_ROW(run_values),
};

/* ------------------------------------------------------------------ speaking */

void chat_print(chat *s, const char *text, size_t size)
{
    if (size == 0)
        return;
    if (s->shown)
        output_terminal(stdout, (span){text, size});
    else
        fwrite(text, 1, size, stdout);
    output_flush();
    s->last = text[size - 1];
}

/* Prints the prompt, in a style of its own. Only after it has been read: the progress of reading would overwrite it. */
static void print_prompt(chat *s)
{
    if (s->prompt.size == 0)
        return;
    terminal_begin(stdout, STYLE_PROMPT);
    chat_print(s, s->prompt.data, s->prompt.size);
    terminal_end(stdout);
    output_flush();
    s->prompt = (span){0};
}

static bool remember_id(chat *s, int32_t id)
{
    int32_t *ids = mem_grow(s->ids, &s->id_capacity, s->id_count, 1, sizeof *ids);
    if (!ids)
        return false;
    s->ids = ids;
    s->ids[s->id_count++] = id;
    return true;
}

/* Prints a part of the answer. Thoughts are dim at a terminal, with a line between them and the answer; elsewhere they go
 * to standard error, as standard output is for the answer. */
static void print_part(chat *s, bool is_thought, span text)
{
    if (s->was_thinking && !is_thought)
        fputs(s->shown ? "\n\n" : "\n", s->shown ? stdout : stderr);
    s->was_thinking = is_thought;
    if (!is_thought) {
        chat_print(s, text.data, text.size);
        return;
    }
    if (!s->shown && s->messages.quiet)
        return;
    FILE *to = s->shown ? stdout : stderr;
    terminal_begin(to, STYLE_THOUGHT);
    output_terminal(to, text);
    terminal_end(to);
    output_flush();
    s->last = text.data[text.size - 1];
}

/* Prints and collects a part of the answer. */
static void on_part(void *user, bool is_thought, span text)
{
    chat *s = user;
    if (s->silent || s->talks)
        s->no_memory |= !buffer_put(is_thought ? &s->thoughts : &s->text, text.data, text.size);
    if (!s->silent)
        print_part(s, is_thought, text);
}

/* A control token has no text, but may be a mark of reasoning. */
static span spell_control(const chat *s, int32_t token)
{
    span piece = {0};
    if (token >= 0 && (hearth_token_attributes(s->loaded.model, token) & HEARTH_TOKEN_CONTROL))
        piece.data = hearth_token_text(s->loaded.model, token, &piece.size);
    return piece;
}

/* Takes a piece of the answer; false ends the answer: it cannot be stored, standard output is closed, or a signal came. */
static bool on_text(void *user, int32_t token, const char *text, size_t size)
{
    chat *s = user;
    if (s->id_count == 0) { /* the prompt has been read: counts only the answer */
        hearth_session_reset_counts(s->session);
        s->begin = hearth_session_length(s->session, 0);
        tally_reset(&s->tally);
    }
    bool stored = token < 0 || remember_id(s, token);
    progress_clear(&s->progress);
    print_prompt(s);
    if (!s->talks) {
        if (size > 0)
            on_part(s, false, (span){text, size});
    } else {
        reasoning_push(&s->reasoning, (span){text, size}, on_part, s);
        reasoning_push_control(&s->reasoning, spell_control(s, token), on_part, s);
    }
    s->no_memory |= !stored;
    return !s->no_memory && !ferror(stdout) && !interrupt_signal();
}

hearth_status chat_hold(chat *s, span prompt, hearth_error *error)
{
    hearth_grammar_destroy(s->grammar);
    s->grammar = NULL;
    hearth_status status = grammar_file_make(&s->held, s->loaded.model, prompt, &s->grammar, error);
    s->answer.grammar = s->grammar;
    return status;
}

hearth_status chat_answer(chat *s, const int32_t *ids, size_t count, hearth_result *result, hearth_error *error)
{
    s->id_count = 0;
    s->text.size = s->thoughts.size = 0;
    s->no_memory = s->was_thinking = false;
    hearth_status status =
        hearth_generate(s->session, 0, ids, count, s->sampler, &s->answer, on_text, s, result, error);
    result->prompt_tokens += s->reused;
    if (s->talks)
        reasoning_finish(&s->reasoning, on_part, s);
    progress_clear(&s->progress);
    print_prompt(s);
    return status == HEARTH_OK && s->no_memory ? fail(error, HEARTH_NO_MEMORY, "answer: out of memory") : status;
}

static double rate(size_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

/* Prints the line on the prompt that only --verbose has. */
static void report_more(const chat *s, const hearth_result *r)
{
    skipped sum = common_skipped(&s->loaded, s->session);
    fprintf(stderr, "prompt: %zu tokens, ", r->prompt_tokens);
    if (s->reused > 0)
        fprintf(stderr, "%zu of them from the file, ", s->reused);
    fprintf(stderr, "%.1f tokens/s; answer: stopped by %s", rate(r->prompt_tokens - s->reused, r->prompt_seconds),
            hearth_stop_text(r->stop));
    if (sum.known)
        fprintf(stderr, ", density %.2f", sum.density);
    if (sum.known && sum.let_through < 1)
        fprintf(stderr, ", let through %.2f", sum.let_through);
    fputc('\n', stderr);
}

/* Returns what is compared with the plan of the last answer. */
static planned_run run_of(const chat *s, const hearth_result *r)
{
    uint32_t end = hearth_session_length(s->session, 0), begin = end < s->begin ? end : s->begin;
    return (planned_run){s->tallies ? &s->tally : NULL, end - begin, r->answer_seconds, (begin + (double)end) / 2};
}

/* Compares the speed of an answer with the plan. */
static void check_plan(const chat *s, const hearth_result *r)
{
    planned_run run = run_of(s, r);
    planning_check(&s->loaded, &run, s->messages.quiet || s->silent);
}

void chat_report(chat *s, const hearth_result *r)
{
    check_plan(s, r);
    if (s->messages.quiet)
        return;
    terminal_begin(stderr, STYLE_STATUS);
    if (s->messages.verbose) {
        planned_run run = run_of(s, r);
        report_more(s, r);
        planning_say_run(&s->loaded, &run);
    }
    hot_set_say(&s->loaded, s->engine_options);
    fprintf(stderr, "%zu token%s, %.1f tokens/s", r->answer_tokens, r->answer_tokens == 1 ? "" : "s",
            rate(r->answer_tokens, r->answer_seconds));
    if (r->draft_tokens > 0)
        fprintf(stderr, ", %zu of %zu guesses held", r->accepted_tokens, r->draft_tokens);
    if (r->stop == HEARTH_STOP_CANCELLED)
        fputs(", cancelled", stderr);
    else if (r->stop != HEARTH_STOP_END && r->stop != HEARTH_STOP_LENGTH)
        fprintf(stderr, ", stopped by %s", hearth_stop_text(r->stop));
    if (s->reported && s->shown && !s->messages.verbose)
        common_put_skipped(&s->loaded, s->session);
    else {
        fputs("; ", stderr);
        common_put_status(&s->loaded, s->session);
        if (s->seed.given)
            fprintf(stderr, "; seed %llu", (unsigned long long)s->seed.value);
    }
    terminal_end(stderr);
    fputc('\n', stderr);
    s->reported = true;
}

/* ------------------------------------------------------------------ one prompt, one answer */

/* Returns a seed as JSON. JSON's integers end at 2^63 - 1; a larger one, which only a user can give, becomes text. */
static json_t *json_seed(uint64_t seed)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(digits);
}

static hearth_status print_json(const chat *s, const hearth_result *r, hearth_error *error)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < s->id_count; i++)
        if (json_array_append_new(ids, json_integer(s->ids[i])) != 0) {
            json_decref(ids);
            return fail_memory(error, "ids", s->id_count);
        }
    json_t *text = json_text((span){s->text.data, s->text.size});
    const loaded *l = &s->loaded;
    planned_run run = run_of(s, r);
    json_t *object = json_pack(
        "{s:o, s:o, s:I, s:f, s:I, s:f, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "text", text, "ids", ids,
        "prompt_tokens", (json_int_t)r->prompt_tokens, "prompt_seconds", r->prompt_seconds, "decode_tokens",
        (json_int_t)r->answer_tokens, "decode_seconds", r->answer_seconds, "draft_tokens", (json_int_t)r->draft_tokens,
        "accepted_tokens", (json_int_t)r->accepted_tokens, "stop_reason", hearth_stop_text(r->stop), "mode",
        hearth_mode_name(hearth_engine_mode(l->engine)), "guarantee",
        hearth_guarantee_name(hearth_engine_guarantee(l->engine)), "sparsity", common_skipped_json(l, s->session),
        "guard", common_guard_json(l), "device", common_device_json(l), "placement", common_placement_json(l));
    bool set = json_object_set_new(object, "pruning", common_pruning_json(l)) == 0;
    set &= json_object_set_new(object, "reused_tokens", json_integer((json_int_t)s->reused)) == 0;
    set &= json_object_set_new(object, "plan", planning_json(l, &run)) == 0;
    set &= json_object_set_new(object, "hot_set", hot_set_json(l, s->engine_options)) == 0;
    if (s->talks) {
        json_t *thoughts = s->thoughts.size ? json_text((span){s->thoughts.data, s->thoughts.size}) : json_null();
        set &= json_object_set_new(object, "prompt", json_text(s->rendered)) == 0;
        set &= json_object_set_new(object, "reasoning", thoughts) == 0;
    }
    if (s->seed.given)
        set &= json_object_set_new(object, "seed", json_seed(s->seed.value)) == 0;
    if (!set) {
        json_decref(object);
        return fail_memory(error, "JSON", 0);
    }
    return output_json(object, JSON_COMPACT, error);
}

static hearth_status read_prompt(const run_values *v, char **text, size_t *size, hearth_error *error)
{
    if (!v->file) {
        *size = strlen(v->prompt);
        *text = mem_copy_text(v->prompt, *size);
        return *text ? HEARTH_OK : fail_memory(error, "prompt", *size);
    }
    TRY(file_read(text, size, v->file, MAX_PROMPT_BYTES, error));
    if (*size > 0 && (*text)[*size - 1] == '\n')
        --*size;
    if (*size > 0 && (*text)[*size - 1] == '\r')
        --*size;
    return HEARTH_OK;
}

/* Says what a context is cut to that does not fit. */
static void note_context(const chat *s)
{
    uint32_t own = s->loaded.info.context_length, context = hearth_session_context(s->session);
    if (context != own && !s->messages.quiet)
        output_note("note",
                    s->loaded.is_planned && s->loaded.planned.own
                        ? "%u of the model's context of %u tokens were planned for; -c plans for more"
                        : "%u of the model's context of %u tokens fit into memory",
                    context, own);
}

/* Says how much memory the session takes where there is not enough of it. */
static hearth_status open_session(chat *s, const run_values *v, const hearth_session_options *session,
                                  hearth_error *error)
{
    if (s->messages.verbose)
        TRY(common_announce(&s->loaded, session, error));
    hearth_status status = hearth_session_create(&s->session, s->loaded.engine, session, error);
    if (status == HEARTH_NO_MEMORY && !s->messages.verbose && !s->messages.quiet && !s->silent)
        common_say_memory(&s->loaded, session, NULL);
    if (status == HEARTH_OK && !session->context)
        note_context(s);
    if (status == HEARTH_OK && s->messages.verbose && s->seed.given)
        fprintf(stderr, "seed: %llu\n", (unsigned long long)s->seed.value);
    if (status != HEARTH_OK || !v->draft_model)
        return status;
    TRY(draft_session_open(&s->draft, s->loaded.runtime, v->draft_model, hearth_session_context(s->session), error));
    s->answer.draft = s->draft.session;
    return HEARTH_OK;
}

/* What is read before an answer. */
typedef struct input {
    char *text;
    size_t size;
    int32_t *ids; /* [count] */
    size_t count;
} input;

static hearth_status read_text(chat *s, const run_values *v, input *in, hearth_error *error)
{
    TRY(read_prompt(v, &in->text, &in->size, error));
    if (!v->json && !s->messages.quiet)
        s->prompt = (span){in->text, in->size};
    return hearth_tokenize(s->loaded.model, in->text, in->size, HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL,
                           &in->ids, &in->count, error);
}

static hearth_status read_message(chat *s, const run_values *v, input *in, hearth_error *error)
{
    chat_form form;
    buffer text = {0};
    TRY(chat_open_form(s, v, &form, error));
    hearth_status status = message_render(s, v, &form, &text, error);
    chat_form_close(&form);
    in->text = text.data;
    in->size = text.size;
    s->rendered = (span){text.data, text.size};
    s->talks = true;
    reasoning_begin(&s->reasoning, s->rendered);
    if (status == HEARTH_OK)
        status = model_chat_encode(s->loaded.model->tokenizer, s->rendered, &in->ids, &in->count, error);
    if (status == HEARTH_OK)
        status = chat_hold(s, s->rendered, error);
    return status;
}

static hearth_status answer_input(chat *s, const run_values *v, const hearth_session_options *session, const input *in,
                                  hearth_error *error)
{
    hearth_result result = {0};
    TRY(open_session(s, v, session, error));
    uint32_t context = hearth_session_context(s->session);
    if (in->count > context)
        return fail(error, HEARTH_FULL, "%s: prompt: has %zu tokens, the context only %u", s->loaded.info.path,
                    in->count, context);
    if (v->prompt_cache)
        TRY(prompt_cache_load(s->session, s->sampler, v->prompt_cache, in->ids, in->count, &s->reused, error));
    TRY(chat_answer(s, in->ids + s->reused, in->count - s->reused, &result, error));
    hearth_status status = HEARTH_OK;
    if (v->json)
        status = print_json(s, &result, error);
    else if (s->last != '\n')
        chat_print(s, "\n", 1);
    if (!ferror(stdout) && (!v->json || s->messages.verbose))
        chat_report(s, &result);
    else
        check_plan(s, &result);
    if (status == HEARTH_OK && v->prompt_cache)
        status = prompt_cache_save(s->session, v->prompt_cache, in->count, s->reused, error);
    return status == HEARTH_OK && interrupt_signal() ? HEARTH_CANCELLED : status;
}

/* Answers a single prompt or message: prints the prompt and the answer as it comes, or one JSON object at the end. */
static hearth_status answer_once(chat *s, const run_values *v, const hearth_session_options *session,
                                 hearth_error *error)
{
    input in = {0};
    s->silent = v->json;
    hearth_status status = v->message ? read_message(s, v, &in, error) : read_text(s, v, &in, error);
    if (status == HEARTH_OK)
        status = answer_input(s, v, session, &in, error);
    hearth_free(in.ids);
    mem_free(in.text);
    return status;
}

/* ------------------------------------------------------------------ the command */

/* Chats where there is a template, else continues a text. */
static hearth_status read_lines(chat *s, const run_values *v, const hearth_session_options *session,
                                hearth_error *error)
{
    size_t size;
    bool talks = !v->continues && (v->chat.template || hearth_model_chat_template(s->loaded.model, &size));
    chat_form form;
    if (!talks && v->system)
        return fail(error, HEARTH_INVALID, "run: --system: the model has no chat template; --chat-template names one");
    if (!talks) {
        if (isatty(STDIN_FILENO) && !v->continues && !s->messages.quiet)
            output_note("note", "the model has no chat template: what you type is continued as text; --chat-template "
                                "names a template, such as chatml");
        TRY(open_session(s, v, session, error));
        return interactive_run(s, error);
    }
    TRY(chat_open_form(s, v, &form, error));
    hearth_status status = open_session(s, v, session, error);
    if (status == HEARTH_OK)
        status = conversation_run(s, v, &form, error);
    chat_form_close(&form);
    return status;
}

static hearth_status open_and_answer(chat *s, run_values *v, hearth_error *error)
{
    hearth_session_options session = {.context = v->engine.context,
                                      .output_rows = 1 + v->draft,
                                      .kv = (hearth_kv)v->engine.kv,
                                      .progress = progress_to(&s->progress),
                                      .tracer = trace_to(&s->trace)};
    s->messages = v->engine.messages;
    v->engine.plans = true;
    s->seed = (optional_seed){v->sampling.sampling.temperature > 0, v->sampling.sampling.seed};
    TRY(common_load(&s->loaded, &v->engine, &s->progress, error));
    if (s->loaded.is_planned && s->loaded.planned.own && session.context == 0)
        session.context = (uint32_t)s->loaded.planned.request.context;
    s->tallies = s->loaded.is_planned && (s->messages.verbose || v->json);
    s->tally.next = session.tracer;
    if (s->tallies)
        session.tracer = tally_to(&s->tally);
    TRY(model_need_tokenizer(s->loaded.model, error));
    TRY(hearth_sampler_create(&s->sampler, &v->sampling.sampling, s->loaded.info.vocabulary_size, error));
    s->answer = (hearth_answer_options){.stops = v->stops.items,
                                        .stop_count = v->stops.count,
                                        .ignore_end = v->ignore_end,
                                        .max_tokens = v->predict,
                                        .draft_tokens = v->draft};
    TRY(grammar_file_read(&s->held, v->grammar, v->json_schema, error));
    TRY(chat_hold(s, (span){0}, error));
    if (v->prompt || v->file || v->message)
        return answer_once(s, v, &session, error);
    return read_lines(s, v, &session, error);
}

static hearth_status run_prompt(void *values, operands *rest, hearth_error *error)
{
    run_values *v = values;
    if (v->prompt && v->file)
        return fail(error, HEARTH_INVALID, "run: -f: the prompt is given already, with -p");
    if (v->message && (v->prompt || v->file))
        return fail(error, HEARTH_INVALID, "run: --chat: -p and -f are for text that is continued, not for messages");
    if (v->system && (v->prompt || v->file || v->continues))
        return fail(error, HEARTH_INVALID, "run: --system: is for chats only");
    if (v->json && !v->prompt && !v->file && !v->message)
        return fail(error, HEARTH_INVALID, "run: --json: needs a prompt (-p or -f) or a message (--chat)");
    if (v->prompt_cache && !v->prompt && !v->file && !v->message)
        return fail(error, HEARTH_INVALID, "run: --prompt-cache: needs a prompt (-p or -f) or a message (--chat)");
    if (v->draft_model && v->draft == 0)
        v->draft = DEFAULT_DRAFT;
    for (size_t i = 0; i < v->stops.count; i++)
        if (!*v->stops.items[i])
            return fail(error, HEARTH_INVALID, "run: --stop: is empty");
    TRY(common_take_model("run", &v->engine.model, rest, 0, true, error));
    TRY(sampling_resolve("run", &v->sampling, rest->memory, error));
    chat s = {.shown = isatty(STDOUT_FILENO), .engine_options = &v->engine};
    TRY(trace_open(&s.trace, "run", v->trace, error));
    hearth_status status = open_and_answer(&s, v, error);
    if (status == HEARTH_OK && v->save_hot_set)
        status = hot_set_save(&s.loaded, v->save_hot_set, error);
    hearth_session_destroy(s.session);
    draft_session_close(&s.draft);
    hearth_grammar_destroy(s.grammar);
    grammar_file_free(&s.held);
    status = trace_close(&s.trace, status, error);
    hearth_sampler_destroy(s.sampler);
    common_unload(&s.loaded);
    mem_free(s.ids);
    buffer_free(&s.text);
    buffer_free(&s.thoughts);
    return status;
}

static void defaults(void *values)
{
    sampling_defaults(&((run_values *)values)->sampling);
}

const command command_run = {
    .name = "run",
    .path = "run",
    .summary = "continue a text, or chat",
    .usage = "[MODEL] [-p TEXT] [options]",
    .about =
        "Reads a text and continues it, token by token. Without -p it asks for one, line by line, and continues "
        "what there is so far; from a pipe, too, each line continues the text, while -f - reads a whole text. A model "
        "with a chat template answers lines as messages instead (/help lists what else can be typed). "
        "Control tokens such as </s> are recognised in the text. Without MODEL it is "
        "$HEARTH_MODEL or the small storyteller that comes with hearth.",
    .example =
        "  $ hearth run stories-relu-q8_0.gguf -p \"Once upon a time\" -n 20 --temp 0\n"
        "  Once upon a time, there was a little girl named Lily. She loved to play with her toy\n"
        "  20 tokens, 5826.6 tokens/s; mode exact, guarantee bitwise; 87 % of neurons skipped, 919 kB of 1.64 MB read "
        "per token",
    .tables = {OPTION_TABLE("text", rows, 0),
               {"chat", chat_option_rows, CHAT_OPTION_COUNT, offsetof(run_values, chat)},
               {"sampling", sampling_option_rows, SAMPLING_OPTION_COUNT, offsetof(run_values, sampling)},
               ENGINE_TABLES(offsetof(run_values, engine)),
               MESSAGE_TABLE(offsetof(run_values, engine))},
    .values_size = sizeof(run_values),
    .defaults = defaults,
    .operands_most = 1,
    .run = run_prompt,
};
