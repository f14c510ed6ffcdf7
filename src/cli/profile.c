/* profile.c - `hearth profile`: counts which neurons fire, how often, and what skipping the others is worth. */
#include "../learn/profile.h"
#include "../base/file.h"
#include "../learn/columns.h"
#include "../learn/work.h"
#include "corpus_options.h"
#include "output.h"
#include "profile_report.h"

#include <string.h>

/* Tokens at the end of the corpus that are read again with only the hot neurons. */
#define PROBE_TOKENS 1024

typedef struct profile_values {
    engine_options engine; /* its first options (ENGINE_CPU_COUNT) and the model */
    corpus_options corpus;
    optional_count probe;
    const char *importance, *plot;
    bool anew, no_save, json;
} profile_values;

static const option rows[] = {
    {OPTION_ROW(0, "probe-tokens", GIVEN_COUNT, profile_values, probe, "N",
                "tokens at the end of the corpus on which the hottest 20, 40 and 60 % of the neurons are tried alone; "
                "1024, 0: none")},
    {OPTION_ROW(0, "importance", TEXT, profile_values, importance, "FILE",
                "also write how strongly each column of each matrix is used, for `hearth quantize --importance` and "
                "llama.cpp's quantizer"),
     .alias = "imatrix"},
    {OPTION_ROW(0, "plot", TEXT, profile_values, plot, "OUT.svg",
                "also draw which share of the neurons fires, by layer, expert and token, with what was read and how")},
    {OPTION_ROW(0, "anew", FLAG, profile_values, anew, NULL,
                "replace the tune file: what `hearth tune` has put there goes too; else it stays")},
    {OPTION_ROW(0, "no-save", FLAG, profile_values, no_save, NULL,
                "write nothing: no tune file, and nothing to go on from")},
    {OPTION_ROW(
        0, "json", FLAG, profile_values, json, NULL,
        "one object: model, corpus, command, tokens, density, hot_share_80, union_density, hot_only, layers with "
        "their experts")},
};

/* One run of the command; zeroed is empty. */
typedef struct profiling {
    profile_values *v;
    char *tune_path; /* of the tune file to write; NULL: none */
    tune *record;    /* its content: the existing one, or new; owned here */
    loaded l;
    corpus texts;
    work_folder work;
    profile p;
    input_sums inputs;      /* --importance */
    columns_result columns; /* what was written of them */
    progress shown;
    const char *command; /* the command line */
    arena *memory;
} profiling;

/* ------------------------------------------------------------------ the tune file */

/* Opens the existing tune file, of which all but the counts is retained; --anew starts an empty one. */
static hearth_status open_record(profiling *r, hearth_error *error)
{
    r->tune_path = corpus_options_tune_path(&r->v->corpus, r->v->engine.model.model);
    if (!r->tune_path)
        return fail_memory(error, "path", 0);
    if (!r->v->anew && file_exists(r->tune_path))
        return tune_open(&r->record, r->tune_path, r->l.model, error);
    r->record = mem_new(sizeof *r->record);
    if (!r->record)
        return fail_memory(error, "tune file", sizeof *r->record);
    r->record->report = "";
    tune_layer *layers = arena_new_array(&r->record->memory, r->l.info.layer_count, sizeof *layers);
    if (!layers)
        return fail_memory(error, "tune file", 0);
    tune_set_layers(r->record, layers, r->l.model);
    return HEARTH_OK;
}

/* Returns what the counts are of: the shape as well as the name, since a name can be anything. */
static json_t *model_json(const hearth_model_info *m)
{
    return json_pack("{s:o, s:o, s:s, s:i, s:i, s:I, s:I}", "path", json_text(span_of(m->path)), "name",
                     m->name ? json_text(span_of(m->name)) : json_null(), "family", m->family, "layers",
                     (int)m->layer_count, "embedding_length", (int)m->embedding_length, "parameters",
                     (json_int_t)m->parameter_count, "weight_bytes", (json_int_t)m->weight_bytes);
}

/* Returns the profile, what it was taken of, and how. */
static json_t *describe(const profiling *r)
{
    json_t *o = profile_json(&r->p);
    if (o) {
        json_object_set_new(o, "hearth", json_string(hearth_version()));
        json_object_set_new(o, "command", json_text(span_of(r->command)));
        json_object_set_new(o, "model", model_json(&r->l.info));
        json_object_set_new(o, "corpus", corpus_options_json(&r->v->corpus));
        json_object_set_new(o, "corpus_bytes", json_integer((json_int_t)r->texts.text_bytes));
        json_object_set_new(o, "corpus_digest", json_string(r->texts.digest));
        json_object_set_new(o, "activation", json_string(r->l.info.activation));
    }
    return o;
}

/* Replaces what the existing report says of the profile. */
static hearth_status write_report(profiling *r, hearth_error *error)
{
    json_t *all = NULL;
    const char *old = r->record->report;
    if (!*old || json_parse(&all, old, strlen(old), "report", NULL) != HEARTH_OK || !json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_t *own = describe(r);
    char *text = NULL;
    if (all && own && json_object_set_new(all, "profile", own) == 0)
        text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    r->record->report = text ? arena_copy_text(&r->record->memory, text, strlen(text)) : NULL;
    free(text);
    json_decref(all);
    return r->record->report ? HEARTH_OK : fail_memory(error, "report", 0);
}

static hearth_status save(profiling *r, hearth_error *error)
{
    TRY(write_report(r, error));
    profile_to_tune(&r->p, r->record);
    TRY(tune_write(r->tune_path, r->record, r->l.model, error));
    profile_forget(r->work.path);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the importance matrix */

/* Refuses a file that cannot be written, or whose content is read here, before the long work begins. */
static hearth_status check_importance(const profiling *r, hearth_error *error)
{
    const char *path = r->v->importance;
    const text_list *files = &r->v->corpus.files;
    if (strcmp(path, "-") == 0)
        return fail(error, HEARTH_INVALID, "profile: --importance: standard output is for the figures");
    bool is_read = file_is_same(path, r->v->engine.model.model) || (r->tune_path && strcmp(path, r->tune_path) == 0);
    for (size_t i = 0; i < files->count; i++)
        is_read |= file_is_same(path, files->items[i]);
    if (is_read)
        return fail(error, HEARTH_INVALID, "profile: --importance: %s is another file of this run", path);
    file_writer *probe;
    TRY(file_writer_open(&probe, path, error));
    file_writer_discard(probe);
    return HEARTH_OK;
}

/* Writes the sums; the names of the texts go along. */
static hearth_status write_importance(profiling *r, hearth_error *error)
{
    const text_list *files = &r->v->corpus.files;
    size_t count = files->count > 0 ? files->count : 1;
    span *names = arena_new_array(r->memory, count, sizeof *names);
    if (!names)
        return fail_memory(error, r->v->importance, count * sizeof *names);
    names[0] = span_of("ids");
    for (size_t i = 0; i < files->count; i++)
        names[i] = span_of(files->items[i]);
    return columns_write(&r->columns, r->v->importance, &r->inputs, r->l.model, &r->texts, names, count, error);
}

static void print_importance(const profiling *r)
{
    printf("importance of the columns of %zu tensors written to ", r->columns.tensors);
    output_safe(stdout, span_of(r->v->importance), 200);
    if (r->columns.unused > 0)
        printf("; no token used %zu of their %zu matrices", r->columns.unused, r->columns.matrices);
    putchar('\n');
}

/* ------------------------------------------------------------------ what is shown */

/* Draws the picture; of several texts it names the first. */
static hearth_status draw(const profiling *r, hearth_error *error)
{
    char texts[320];
    const text_list *files = &r->v->corpus.files;
    int used =
        snprintf(texts, sizeof texts, "%.200s", files->count > 0 ? output_base_name(files->items[0]) : "token ids");
    if (files->count > 1)
        used += snprintf(texts + used, sizeof texts - (size_t)used, " and %zu more", files->count - 1);
    snprintf(texts + used, sizeof texts - (size_t)used, " (digest %.32s)", r->texts.digest);
    return profile_plot(r->v->plot, &r->p, r->l.model, texts, r->command, error);
}

static void print_summary(const profiling *r)
{
    const profile *p = &r->p;
    output_safe(stdout, span_of(r->l.info.path), 200);
    printf(": %llu tokens in %.1f s (%.0f per second)", (unsigned long long)p->tokens, p->seconds,
           p->seconds > 0 ? (double)p->tokens / p->seconds : 0);
    if (p->measured_tokens < p->tokens)
        printf("; magnitudes of %llu of them", (unsigned long long)p->measured_tokens);
    putchar('\n');
    profile_report(p, r->l.model);
    if (r->v->importance)
        print_importance(r);
    if (r->v->plot) {
        fputs("drawn in ", stdout);
        output_safe(stdout, span_of(r->v->plot), 200);
        putchar('\n');
    }
    if (r->v->no_save)
        return;
    fputs("written to ", stdout);
    output_safe(stdout, span_of(r->tune_path), 200);
    putchar('\n');
}

static hearth_status print_json(const profiling *r, hearth_error *error)
{
    json_t *o = describe(r);
    if (o)
        json_object_set_new(o, "tune", r->v->no_save ? json_null() : json_text(span_of(r->tune_path)));
    if (o && r->v->importance)
        json_object_set_new(o, "importance", json_text(span_of(r->v->importance)));
    return output_json(o, JSON_COMPACT, error);
}

/* ------------------------------------------------------------------ run */

/* Returns the settings that change the counts; NULL for the defaults, so that `hearth tune` can go on from the same
 * counts. */
static const char *settings(const profiling *r)
{
    static const char *const changes[HEARTH_ACTIVATIONS_COUNT] = {
        [HEARTH_ACTIVATIONS_F32] = "activations f32", [HEARTH_ACTIVATIONS_BF16] = "activations bf16"};
    return changes[r->v->engine.activations];
}

static hearth_status open_work(profiling *r, hearth_error *error)
{
    char *path = work_path(r->tune_path);
    hearth_status status = path ? work_open(&r->work, path, error) : fail_memory(error, "path", strlen(r->tune_path));
    mem_free(path);
    return status;
}

static hearth_status count(profiling *r, hearth_error *error)
{
    profile_options o = {.folder = r->work.path,
                         .how = settings(r),
                         .inputs = r->v->importance ? &r->inputs : NULL,
                         .progress = progress_to(&r->shown)};
    hearth_status status = profile_take(&r->p, r->l.engine, &r->texts, &o, error);
    progress_clear(&r->shown);
    if (r->p.note[0])
        output_note("note", "%s", r->p.note);
    if (r->p.resumed_tokens > 0)
        fprintf(stderr, "going on after the %llu tokens that were counted before\n",
                (unsigned long long)r->p.resumed_tokens);
    return status;
}

static hearth_status probe(profiling *r, hearth_error *error)
{
    uint32_t tokens = r->v->probe.given ? r->v->probe.value : PROBE_TOKENS;
    if (tokens == 0)
        return HEARTH_OK;
    hearth_status status =
        profile_probe(&r->p, r->l.engine, r->l.runtime, &r->texts, tokens, progress_to(&r->shown), error);
    progress_clear(&r->shown);
    return status;
}

static hearth_status work(profiling *r, hearth_error *error)
{
    engine_options o = r->v->engine;
    o.model.tune = "none"; /* the tune file is read and written in this file */
    o.sparsity = HEARTH_MODE_DENSE;
    TRY(common_load(&r->l, &o, &r->shown, error));
    TRY(corpus_options_read(&r->texts, r->l.model, &r->v->corpus, r->memory, error));
    if (!r->v->no_save) {
        TRY(open_record(r, error));
        TRY(open_work(r, error));
    }
    if (r->v->importance) {
        TRY(check_importance(r, error));
        TRY(inputs_create(&r->inputs, r->l.model, error));
    }
    TRY(count(r, error));
    TRY(probe(r, error));
    if (r->v->importance)
        TRY(write_importance(r, error));
    if (r->v->plot)
        TRY(draw(r, error));
    return r->v->no_save ? HEARTH_OK : save(r, error);
}

static hearth_status run_profile(void *values, operands *rest, hearth_error *error)
{
    profiling r = {.v = values, .memory = rest->memory};
    TRY(common_take_model("profile", &r.v->engine.model, rest, CORPUS_FILES_MOST, false, error));
    TRY(corpus_options_take("profile", &r.v->corpus, rest, error));
    TRY(output_check_file("profile: --plot", r.v->plot, false, error));
    r.command = output_command_line("profile", rest->arguments, rest->argument_count, rest->memory);
    if (!r.command)
        return fail_memory(error, "command line", 0);
    if (r.v->no_save && (r.v->corpus.out || r.v->anew))
        return fail(error, HEARTH_INVALID, "profile: --%s: with --no-save no tune file is written",
                    r.v->corpus.out ? "out" : "anew");
    hearth_status status = work(&r, error);
    if (status == HEARTH_OK && r.v->json)
        status = print_json(&r, error);
    else if (status == HEARTH_OK)
        print_summary(&r);
    work_close(&r.work);
    tune_close(r.record);
    common_unload(&r.l);
    profile_free(&r.p);
    inputs_free(&r.inputs);
    corpus_free(&r.texts);
    mem_free(r.tune_path);
    return status;
}

const command command_profile = {
    .name = "profile",
    .path = "profile",
    .summary = "count which neurons fire, and say what that is worth",
    .usage = "MODEL --corpus FILE... [options]",
    .about = "Reads texts with every neuron computed and counts how often each fires. Says how dense the "
             "layers are, how few neurons make most activations, how many a group of consecutive tokens needs, "
             "and whether the hot ones alone would do; writes the counts to MODEL.tune, where every command "
             "finds them (what else stands there stays; with --anew it is replaced). Interrupted, it goes on "
             "where it stopped. Where the activation is never zero (silu) a neuron counts when its activation "
             "is among the largest quarter of its layer's. --importance also writes an importance matrix of the "
             "texts: with it `hearth quantize` and llama.cpp's quantizer round columns that are used more with "
             "smaller errors. With --no-save it is all that is written.",
    .example = "  $ hearth profile stories-relu --corpus stories-held.txt --separator '<|endoftext|>'\n"
               "  stories-relu: 95130 tokens in 1.8 s (51706 per second); magnitudes of 15865 of them\n"
               "  ...\n"
               "  density    13.4 %: exact reads 42 % of the bytes of dense feed-forward networks\n"
               "  locality   80 % of activations come from 27 % of a layer's neurons, 22 % of the model's; ...\n"
               "  written to stories-relu.tune\n"
               "  $ hearth profile stories-relu --corpus stories-held.txt --no-save --importance stories.imatrix.gguf\n"
               "  $ hearth quantize stories-relu stories-q4_k_m.gguf q4_k_m --importance stories.imatrix.gguf",
    .tables = {OPTION_TABLE("profiling", rows, 0),
               {"texts", corpus_option_rows, CORPUS_OPTION_COUNT, offsetof(profile_values, corpus)},
               {"model", model_option_rows, MODEL_PLAIN_COUNT,
                offsetof(profile_values, engine) + offsetof(engine_options, model)},
               {"computing", engine_option_rows, ENGINE_CPU_COUNT, offsetof(profile_values, engine)}},
    .values_size = sizeof(profile_values),
    .operands_most = CORPUS_FILES_MOST,
    .run = run_profile,
};
