/* eval_kl.c - `hearth eval kl`: measures how far a model's output is from a reference, its own or another's. */
#include "eval_internal.h"

#include "../eval/divergence.h"
#include "common.h"
#include "output.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct kl_values {
    engine_options engine;
    const char *base, *write;
    unsigned against; /* hearth_mode; 0: not given */
    number_list ids;
    const char *separator;
    uint32_t windows;
    bool llama; /* llama.cpp's flag, accepted without effect */
    bool json;
} kl_values;

static const char *const modes[] = {
    "none",
#define X(mode, name) name,
    HEARTH_MODES(X)
#undef X
        NULL,
};

static const option kl_rows[] = {
    {OPTION_ROW(0, "base", TEXT, kl_values, base, "FILE",
                "measures against this logits file, by hearth or by llama.cpp; its tokens are in it"),
     .alias = "kl-divergence-base"},
    {OPTION_ROW(0, "write", TEXT, kl_values, write, "FILE", "writes one of TEXT, for --base here or in llama.cpp")},
    {OPTION_ROW(0, "against", CHOICE, kl_values, against, "MODE",
                "both at once: measures against what the same model says of TEXT in this mode, on the CPU; its "
                "logits are stored in $TMPDIR meanwhile, a few bytes per word of the vocabulary and scored token"),
     .choices = modes},
    {OPTION_ROW(0, "ids", LIST, kl_values, ids, "1,2,3", "tokens in place of TEXT; @FILE reads the list from a file"),
     .least = 0, .most = INT32_MAX},
    {OPTION_ROW(0, "separator", TEXT, kl_values, separator, "TEXT",
                "what stands between TEXTs is a text of its own, behind a BOS of its own (blanks around it do not "
                "count)")},
    {OPTION_ROW(0, "windows", COUNT, kl_values, windows, "N", "only the first N windows"), .alias = "chunks",
     .least = 1, .most = INT32_MAX},
    {OPTION_ROW(0, "kl-divergence", FLAG, kl_values, llama, NULL,
                "understood, and says nothing more than --base does")},
    {OPTION_ROW(
        0, "json", FLAG, kl_values, json, NULL,
        "one object: tokens, windows, context, mean_kl and its error, percentiles, same_top, perplexity of both, "
        "right_token, mode, guarantee")},
};

static divergence_options options_of(const kl_values *v, progress *p)
{
    return (divergence_options){v->engine.context, v->windows, (hearth_kv)v->engine.kv, v->separator, progress_to(p)};
}

/* ------------------------------------------------------------------ saying it */

/* What was measured and on what; the strings outlive the engine. */
typedef struct kl_outcome {
    divergence d;
    const char *mode, *guarantee;
} kl_outcome;

/* JSON cannot hold infinity, which a perplexity may be. */
static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static hearth_status print_json(const kl_outcome *o, hearth_error *error)
{
    const divergence *d = &o->d;
    const double *p = d->percentiles;
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"mean_kl", d->mean},
        {"mean_kl_error", d->mean_error},
        {"least_kl", d->least},
        {"median_kl", d->median},
        {"p90_kl", p[DIVERGENCE_P90]},
        {"p95_kl", p[DIVERGENCE_P95]},
        {"p99_kl", p[DIVERGENCE_P99]},
        {"p999_kl", p[DIVERGENCE_P999]},
        {"most_kl", d->most},
        {"same_top", d->same_top},
        {"same_top_error", d->same_top_error},
        {"perplexity", exp(d->nll)},
        {"base_perplexity", exp(d->base_nll)},
        {"perplexity_ratio", exp(d->log_ratio)},
        {"cut_off", d->cut},
        {"right_token_mean", d->right_mean},
        {"right_token_rms", d->right_rms},
    };
    json_t *all = json_pack("{s:I, s:I, s:I}", "tokens", (json_int_t)d->tokens, "windows", (json_int_t)d->windows,
                            "context", (json_int_t)d->context);
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < sizeof numbers / sizeof *numbers; i++)
        ok = json_object_set_new(all, numbers[i].name, number_json(numbers[i].value)) == 0;
    ok = ok && json_object_set_new(all, "mode", json_string(o->mode)) == 0 &&
         json_object_set_new(all, "guarantee", json_string(o->guarantee)) == 0;
    if (!ok) {
        json_decref(all);
        all = NULL;
    }
    return output_json(all, JSON_COMPACT, error);
}

static void print_report(const kl_outcome *o)
{
    const divergence *d = &o->d;
    const double *p = d->percentiles;
    printf("%" PRIu64 " token%s scored in %u window%s of %u\n", d->tokens, d->tokens == 1 ? "" : "s", d->windows,
           d->windows == 1 ? "" : "s", d->context);
    printf("KL divergence    %.4g +- %.2g nats (base || this)\n", d->mean, d->mean_error);
    printf("  median %.3g, 90 %% %.3g, 95 %% %.3g, 99 %% %.3g, 99.9 %% %.3g, largest %.3g\n", d->median,
           p[DIVERGENCE_P90], p[DIVERGENCE_P95], p[DIVERGENCE_P99], p[DIVERGENCE_P999], d->most);
    printf("same likeliest   %.3f +- %.3f %%\n", 100 * d->same_top, 100 * d->same_top_error);
    printf("perplexity       %.4f, base %.4f, ratio %.6f\n", exp(d->nll), exp(d->base_nll), exp(d->log_ratio));
    if (d->cut > 0)
        printf(
            "  %.2f %% of the right tokens lie e^%d below the likeliest, where the file says no more: its perplexity\n"
            "  is too low by that, and the ratio leaves it out on both sides\n",
            100 * d->cut, KL_RANGE);
    printf("right token      %+.4f %% probability, rms %.4f %%\n", 100 * d->right_mean, 100 * d->right_rms);
}

/* ------------------------------------------------------------------ the three ways */

/* base: an open file; this function closes it. */
static hearth_status measure_divergence(const kl_values *v, kl_file *base, hearth_error *error)
{
    progress p;
    loaded l;
    kl_outcome o;
    hearth_status status = common_load(&l, &v->engine, &p, error);
    if (status == HEARTH_OK) {
        divergence_options options = options_of(v, &p);
        status = divergence_measure_file(&o.d, l.engine, base, &options, error);
        progress_clear(&p);
        o.mode = hearth_mode_name(hearth_engine_mode(l.engine));
        o.guarantee = hearth_guarantee_name(hearth_engine_guarantee(l.engine));
        if (status == HEARTH_OK && !v->json)
            common_say_status(&l, &v->engine.messages);
        common_unload(&l);
    }
    kl_file_close(base);
    if (status != HEARTH_OK)
        return status;
    if (v->json)
        return print_json(&o, error);
    print_report(&o);
    return HEARTH_OK;
}

/* --base: measures against a given file. */
static hearth_status compare(const kl_values *v, hearth_error *error)
{
    kl_file base;
    TRY(kl_file_open(&base, v->base, error));
    return measure_divergence(v, &base, error);
}

/* Reports on standard error, because the file may be standard output. Prints nothing where the file cannot be read back
 * (a pipe). */
static void say_written(const char *path)
{
    char size[16];
    kl_file f;
    if (kl_file_open(&f, path, NULL) != HEARTH_OK)
        return;
    fputs("wrote ", stderr);
    output_safe(stderr, span_of(path), 200);
    fprintf(stderr, ": %u window%s of %u, %s\n", f.window_count, f.window_count == 1 ? "" : "s", f.context,
            output_size(size, (double)f.map.size_bytes));
    kl_file_close(&f);
}

/* --write: writes a file of logits and reports what is in it. */
static hearth_status write_file(const kl_values *v, const divergence_material *from, hearth_error *error)
{
    progress p;
    loaded l;
    kl_file written;
    TRY(common_load(&l, &v->engine, &p, error));
    divergence_options options = options_of(v, &p);
    hearth_status status = divergence_write(v->write, l.engine, from, &options, error);
    progress_clear(&p);
    if (status == HEARTH_OK && !v->json) {
        common_say_status(&l, &v->engine.messages);
        if (!v->engine.messages.quiet)
            say_written(v->write);
    }
    if (status == HEARTH_OK && v->json && (status = kl_file_open(&written, v->write, error)) == HEARTH_OK) {
        status = output_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:s, s:s}", "path", json_text(span_of(v->write)),
                                       "bytes", (json_int_t)written.map.size_bytes, "windows",
                                       (json_int_t)written.window_count, "context", (json_int_t)written.context,
                                       "vocabulary", (json_int_t)written.vocabulary_size, "mode",
                                       hearth_mode_name(hearth_engine_mode(l.engine)), "guarantee",
                                       hearth_guarantee_name(hearth_engine_guarantee(l.engine))),
                             JSON_COMPACT, error);
        kl_file_close(&written);
    }
    common_unload(&l);
    return status;
}

/* Writes the logits of the same model in the mode to compare with. Only the options that affect the results are
 * used. */
static hearth_status write_mode(const kl_values *v, kl_file *out, const divergence_material *from, hearth_error *error)
{
    progress p;
    loaded l;
    const engine_options *e = &v->engine;
    engine_options plain = {.model = e->model,
                            .threads = e->threads,
                            .cpu = e->cpu,
                            .kv = e->kv,
                            .activations = e->activations,
                            .sparsity = v->against,
                            .no_guard = true,
                            .messages = e->messages};
    TRY(common_load(&l, &plain, &p, error));
    divergence_options options = options_of(v, &p);
    hearth_status status = divergence_write_temporary(out, l.engine, from, &options, error);
    progress_clear(&p);
    common_unload(&l);
    return status;
}

/* --against: writes the logits of another mode to a temporary file, then measures against it. */
static hearth_status compare_modes(const kl_values *v, const divergence_material *from, hearth_error *error)
{
    kl_file base;
    TRY(write_mode(v, &base, from, error));
    return measure_divergence(v, &base, error);
}

/* ------------------------------------------------------------------ the command */

/* Checks that exactly one of the three ways was chosen, and that the other options fit it. */
static hearth_status check(const kl_values *v, const operands *rest, hearth_error *error)
{
    bool has_ids = v->ids.count > 0;
    int ways = (v->base != NULL) + (v->write != NULL) + (v->against != 0);
    if (ways != 1)
        return fail(error, HEARTH_INVALID, "eval kl: %s: one of --base FILE, --write FILE, --against MODE is wanted",
                    ways ? "options" : "--base");
    if (v->base && (rest->count > 0 || has_ids))
        return fail(error, HEARTH_INVALID,
                    "eval kl: %s: the file of --base has its own text; --write FILE is what writes one",
                    has_ids ? "--ids" : rest->items[0]);
    if (v->base && v->engine.context)
        return fail(error, HEARTH_INVALID, "eval kl: --context: the file of --base has windows of its own length");
    if (!v->base && rest->count > 0 && has_ids)
        return fail(error, HEARTH_INVALID, "eval kl: --ids: there is %s already", rest->items[0]);
    if (!v->base && rest->count == 0 && !has_ids)
        return fail(error, HEARTH_INVALID, "eval kl: TEXT: is missing; a file, or - for standard input");
    if (v->separator && (!*v->separator || rest->count == 0))
        return fail(error, HEARTH_INVALID, "eval kl: --separator: %s", *v->separator ? "is for TEXT" : "is empty");
    if (v->json && v->write && strcmp(v->write, "-") == 0)
        return fail(error, HEARTH_INVALID, "eval kl: --json: standard output is where --write - writes to");
    if (v->llama && !v->base)
        return fail(error, HEARTH_INVALID, "eval kl: --kl-divergence: measures, and wants --base FILE");
    return HEARTH_OK;
}

static hearth_status run_kl(void *values, operands *rest, hearth_error *error)
{
    kl_values *v = values;
    TRY(common_take_model("eval kl", &v->engine.model, rest, 1, false, error));
    TRY(check(v, rest, error));
    if (v->base)
        return compare(v, error);
    char *text = NULL;
    divergence_material from = {.name = "--ids", .ids = v->ids.items, .id_count = v->ids.count};
    if (rest->count > 0) {
        from = (divergence_material){.name = rest->items[0]};
        TRY(file_read(&text, &from.text.size, from.name, COMMON_TEXT_BYTES, error));
        from.text.data = text;
    }
    hearth_status status = v->write ? write_file(v, &from, error) : compare_modes(v, &from, error);
    mem_free(text);
    return status;
}

const command eval_kl = {
    .name = "kl",
    .path = "eval kl",
    .summary = "divergence from what the model, or another, said before",
    .usage = "MODEL --base FILE | MODEL TEXT --write FILE | MODEL TEXT --against dense [options]",
    .about =
        "Measures the Kullback-Leibler divergence from a base to this engine: how many nats of surprise per token it "
        "adds to what the base says. TEXT (a file, or - for standard input) is cut into windows of N tokens (-c, else "
        "512), of which the second half is scored with the first as context. The base's logits go through a file as "
        "llama.cpp writes and reads it (llama-perplexity --kl-divergence-base FILE [--kl-divergence]).",
    .example = "  $ hearth eval kl stories-relu-q8_0.gguf text.txt --against dense\n"
               "  $ hearth eval kl stories-relu text.txt --write dense.kld --sparsity dense\n"
               "  $ hearth eval kl stories-relu-q8_0.gguf --base dense.kld",
    .tables = {OPTION_TABLE("divergence", kl_rows, 0), ENGINE_TABLES(offsetof(kl_values, engine)),
               MESSAGE_TABLE(offsetof(kl_values, engine))},
    .values_size = sizeof(kl_values),
    .operands_most = 2,
    .run = run_kl,
};
