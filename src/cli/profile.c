/* profile.c - `hearth profile`: counts which neurons fire, how often, and what skipping the others is worth. */
#include "../learn/profile.h"
#include "../base/file.h"
#include "../learn/choose.h"
#include "../learn/columns.h"
#include "../learn/work.h"
#include "corpus_options.h"
#include "output.h"

#include <string.h>

/* Tokens at the end of the corpus that are read again with only the hot neurons. */
#define PROBE_TOKENS 1024

typedef struct profile_values {
    engine_options engine; /* its first options (ENGINE_CPU_COUNT) and the model */
    corpus_options corpus;
    optional_count probe;
    const char *importance;
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
    {OPTION_ROW(0, "anew", FLAG, profile_values, anew, NULL,
                "replace the tune file: what `hearth tune` has put there goes too; else it stays")},
    {OPTION_ROW(0, "no-save", FLAG, profile_values, no_save, NULL,
                "write nothing: no tune file, and nothing to go on from")},
    {OPTION_ROW(0, "json", FLAG, profile_values, json, NULL,
                "one object: tokens, density, hot_share_80, union_density, hot_only, layers")},
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

/* Returns the profile and what it was taken of. */
static json_t *describe(const profiling *r)
{
    json_t *o = profile_json(&r->p);
    if (o) {
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

/* ------------------------------------------------------------------ for people */

static void print_layer(const char *name, const profile_layer *l)
{
    printf("%5s  %6.1f %6.1f %6.1f %6.1f  %6.1f %6.1f  %6.1f %6.1f %6.1f\n", name, 100 * l->density,
           100 * l->least_density, 100 * l->median_density, 100 * l->high_density, 100 * l->hot_share[0],
           100 * l->hot_share[1], 100 * l->union_density[2], 100 * l->union_density[4], 100 * l->union_density[8]);
}

/* Averages over the layers with a network, since the figures of the others are 0; the shares of hot neurons are taken over all neurons at once. */
static profile_layer average(const profile *p)
{
    profile_layer mean = {.hot_share = {p->hot_share[0], p->hot_share[1]}};
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const profile_layer *l = &p->layers[i];
        mean.density += l->density / p->networks;
        mean.least_density += l->least_density / p->networks;
        mean.median_density += l->median_density / p->networks;
        mean.high_density += l->high_density / p->networks;
        for (size_t k = 1; k <= PROFILE_UNION; k++)
            mean.union_density[k] += l->union_density[k] / p->networks;
    }
    return mean;
}

static double mean_hot_share(const profile *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->layer_count; i++)
        sum += p->layers[i].hot_share[0];
    return sum / p->networks;
}

static void print_layers(const profile *p)
{
    printf("percent of a layer's neurons\n"
           "layer    fire    min median   90 %%   make 80   95 %%   any of 2      4      8 tokens\n");
    for (uint32_t i = 0; i < p->layer_count; i++) {
        char name[16];
        if (p->layers[i].neuron_count == 0)
            continue;
        snprintf(name, sizeof name, "%u", i);
        print_layer(name, &p->layers[i]);
    }
    profile_layer mean = average(p);
    print_layer("all", &mean);
}

/* Returns what mode exact reads of the networks as a share of what mode dense reads of them: the rows of the first matrix
 * of all neurons that a token considers, and those of the others where they fire. */
static double exact_share(const profile *p, const hearth_model *model)
{
    double exact = 0, dense = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        choose_layer l = choose_layer_of(model, i, p->layers[i].density);
        double others = model->layers[i].ffn.gating == FFN_PLAIN ? 1 : 2;
        exact += l.neurons * (l.used + others * l.fires);
        dense += l.neurons * (1 + others) * l.used;
    }
    return exact / dense;
}

/* Explains the figures, one line each. */
static void print_meaning(const profile *p, const hearth_model *model)
{
    profile_layer mean = average(p);
    const ffn_shape *ffn = &model->layers[model_first_network(model)].ffn;
    bool gated = ffn->gating != FFN_PLAIN, zeros = model_has_zeros(model);
    if (zeros)
        printf("density    %.1f %%: exact reads %.0f %% of the bytes of dense feed-forward networks%s\n",
               100 * p->density, 100 * exact_share(p, model),
               gated ? "" : "; without a gate it leaves out\n           rows of down alone");
    else
        printf("counted    activations among the largest quarter of their layer: %s is never zero, so exact skips "
               "nothing, and\n           `--sparsity pruned` would have to leave out small ones\n",
               ffn_activations[ffn->activation].name);
    printf("locality   80 %% of activations come from %.0f %% of a layer's neurons, %.0f %% of the model's; published "
           "for OPT-30B:\n           26 and 17 %%, LLaMA2(ReGLU)-70B 43 and 26 %%, LLaMA2(SwiGLU)-70B 69 and 75 %%\n",
           100 * mean_hot_share(p), 100 * p->hot_share[0]);
    printf("unions     8 tokens in a row need %.1f times the neurons of one: that is what checking 7 guesses costs "
           "instead of 8\n",
           p->density > 0 ? mean.union_density[8] / p->density : 0);
    if (p->probed_tokens > 0)
        printf("hot only   with the hottest 20, 40, 60 %% of the neurons alone the likeliest token stays the same for "
               "%.0f, %.0f, %.0f %%\n           of the corpus's last %llu tokens, which were counted too\n",
               100 * p->hot_only_agreement[0], 100 * p->hot_only_agreement[1], 100 * p->hot_only_agreement[2],
               (unsigned long long)p->probed_tokens);
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
    print_layers(p);
    print_meaning(p, r->l.model);
    if (r->v->importance)
        print_importance(r);
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
    return r->v->engine.activations == HEARTH_ACTIVATIONS_F32 ? "activations f32" : NULL;
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
    return r->v->no_save ? HEARTH_OK : save(r, error);
}

static hearth_status run_profile(void *values, operands *rest, hearth_error *error)
{
    profiling r = {.v = values, .memory = rest->memory};
    TRY(common_take_model("profile", &r.v->engine.model, rest, CORPUS_FILES_MOST, false, error));
    TRY(corpus_options_take("profile", &r.v->corpus, rest, error));
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
