/* eval_ppl.c - `hearth eval ppl`: measures how well a model predicts a text. */
#include "eval_internal.h"

#include "../base/file.h"
#include "../eval/perplexity.h"
#include "common.h"
#include "output.h"

#include <math.h>

typedef struct ppl_values {
    engine_options engine;
    const char *separator;
    unsigned protocol; /* index into protocols: hearth, llama.cpp */
    uint32_t documents;
    bool json;
} ppl_values;

static const char *const protocols[] = {"hearth", "llama.cpp", NULL};

static const option ppl_rows[] = {
    {OPTION_ROW(0, "separator", TEXT, ppl_values, separator, "TEXT",
                "what stands between TEXTs is a document of its own (blanks around it do not count), of which only the "
                "first window is scored")},
    {OPTION_ROW(0, "documents", COUNT, ppl_values, documents, "N", "with a separator: only the first N documents"),
     .alias = "limit", .least = 1, .most = 1 << 30},
    {OPTION_ROW(0, "protocol", CHOICE, ppl_values, protocol, "NAME",
                "hearth: every token of windows of N - 1 behind BOS; llama.cpp: the second halves of windows of N"),
     .choices = protocols},
    {OPTION_ROW(0, "json", FLAG, ppl_values, json, NULL,
                "one object: tokens, mean_nll, perplexity, windows, context, mode, guarantee")},
};

/* What was measured and on what; the strings outlive the engine. */
typedef struct ppl_outcome {
    perplexity_result scores;
    const char *mode, *guarantee;
} ppl_outcome;

static hearth_status print_perplexity(const ppl_values *v, const ppl_outcome *o, hearth_error *error)
{
    const perplexity_result *r = &o->scores;
    double mean = r->nll / (double)r->tokens;
    if (v->json)
        return output_json(json_pack("{s:I, s:o, s:o, s:I, s:I, s:s, s:s}", "tokens", (json_int_t)r->tokens, "mean_nll",
                                     json_number(mean), "perplexity", json_number(exp(mean)), "windows",
                                     (json_int_t)r->windows, "context", (json_int_t)r->context, "mode", o->mode,
                                     "guarantee", o->guarantee),
                           JSON_COMPACT, error);
    printf("%llu token%s in %llu window%s, context %u\nmean loss  %.6f nats per token\nperplexity %.4f\n",
           (unsigned long long)r->tokens, r->tokens == 1 ? "" : "s", (unsigned long long)r->windows,
           r->windows == 1 ? "" : "s", r->context, mean, exp(mean));
    return HEARTH_OK;
}

static hearth_status measure_text(ppl_values *v, const char *path, ppl_outcome *out, hearth_error *error)
{
    progress p;
    loaded l;
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, COMMON_TEXT_BYTES, error));
    hearth_status status = common_load(&l, &v->engine, &p, error);
    if (status == HEARTH_OK) {
        perplexity_options options = {v->engine.context, (hearth_kv)v->engine.kv, v->separator,
                                      v->documents,      v->protocol == 1,        progress_to(&p)};
        status = perplexity_measure(&out->scores, l.engine, (span){text, size}, path, &options, error);
        progress_clear(&p);
        out->mode = hearth_mode_name(hearth_engine_mode(l.engine));
        out->guarantee = hearth_guarantee_name(hearth_engine_guarantee(l.engine));
        if (status == HEARTH_OK && !v->json)
            common_say_status(&l, &v->engine.messages);
        common_unload(&l);
    }
    mem_free(text);
    return status;
}

static hearth_status run_ppl(void *values, operands *rest, hearth_error *error)
{
    ppl_values *v = values;
    TRY(common_take_model("eval ppl", &v->engine.model, rest, 1, false, error));
    if (rest->count != 1)
        return fail(error, HEARTH_INVALID, "eval ppl: FILE: is missing; usage: hearth eval ppl MODEL FILE");
    if (v->separator && !*v->separator)
        return fail(error, HEARTH_INVALID, "eval ppl: --separator: is empty");
    if (v->separator && v->protocol == 1)
        return fail(error, HEARTH_INVALID, "eval ppl: --separator: llama.cpp's protocol knows no documents");
    if (v->documents && !v->separator)
        return fail(error, HEARTH_INVALID, "eval ppl: --documents: needs --separator");
    ppl_outcome outcome;
    TRY(measure_text(v, rest->items[0], &outcome, error));
    return print_perplexity(v, &outcome, error);
}

const command eval_ppl = {
    .name = "ppl",
    .path = "eval ppl",
    .summary = "perplexity: how well the model foresees a text",
    .usage = "MODEL FILE [options]",
    .about =
        "Scores a text (FILE, or - for standard input). It is tokenized whole and cut into windows of N - 1 tokens "
        "behind BOS, N being the context (-c, else the model's); every token is scored, log-probabilities are "
        "added in double precision.",
    .example = "  $ hearth eval ppl stories-relu-q8_0.gguf held-out.txt --separator '<|endoftext|>' --documents 60\n"
               "  21927 tokens in 60 windows, context 512\n"
               "  mean loss  1.342559 nats per token\n"
               "  perplexity 3.8288",
    .tables = {OPTION_TABLE("scoring", ppl_rows, 0), ENGINE_TABLES(offsetof(ppl_values, engine)),
               MESSAGE_TABLE(offsetof(ppl_values, engine))},
    .values_size = sizeof(ppl_values),
    .operands_most = 2,
    .run = run_ppl,
};
