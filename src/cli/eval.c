/* eval.c - `hearth eval`: perplexity of a text, logits of ids. */
#include "common.h"

#include "../base/file.h"
#include "../eval/perplexity.h"
#include "../eval/rows.h"
#include "output.h"
#include "trace.h"

#include <math.h>

/* Longest text that is scored at once. */
#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* ------------------------------------------------------------------ ppl */

typedef struct ppl_values {
    engine_options engine;
    const char *separator;
    unsigned protocol; /* index into protocols: hearth, llama.cpp */
    uint32_t limit;
    bool json;
} ppl_values;

static const char *const protocols[] = {"hearth", "llama.cpp", NULL};

static const option ppl_rows[] = {
    {OPTION_ROW(0, "separator", TEXT, ppl_values, separator, "TEXT",
                "what stands between TEXTs is a document of its own (blanks around it do not count), of which only the "
                "first window is scored")},
    {OPTION_ROW(0, "limit", COUNT, ppl_values, limit, "N", "with a separator: only the first N documents"), .least = 1,
     .most = 1 << 30},
    {OPTION_ROW(0, "protocol", CHOICE, ppl_values, protocol, "NAME",
                "hearth: every token of windows of N - 1 behind BOS; llama.cpp: the second halves of windows of N"),
     .choices = protocols},
    {OPTION_ROW(0, "json", FLAG, ppl_values, json, NULL,
                "one object: tokens, mean_nll, perplexity, windows, context, rung, class")},
};

/* What was measured, and what it was measured on, in words that outlive the engine. */
typedef struct ppl_outcome {
    perplexity_result scores;
    const char *rung, *class;
} ppl_outcome;

static hearth_status print_perplexity(const ppl_values *v, const ppl_outcome *o, hearth_error *error)
{
    const perplexity_result *r = &o->scores;
    double mean = r->nll / (double)r->tokens;
    if (v->json)
        return output_json(json_pack("{s:I, s:f, s:f, s:I, s:I, s:s, s:s}", "tokens", (json_int_t)r->tokens, "mean_nll",
                                     mean, "perplexity", exp(mean), "windows", (json_int_t)r->windows, "context",
                                     (json_int_t)r->context, "rung", o->rung, "class", o->class),
                           JSON_COMPACT, error);
    printf("%llu token%s in %llu window%s, context %u\nmean loss  %.6f nats per token\nperplexity %.4f\n",
           (unsigned long long)r->tokens, r->tokens == 1 ? "" : "s", (unsigned long long)r->windows,
           r->windows == 1 ? "" : "s", r->context, mean, exp(mean));
    return HEARTH_OK;
}

static hearth_status measure(ppl_values *v, const char *path, ppl_outcome *out, hearth_error *error)
{
    progress p;
    loaded l;
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, MAX_TEXT_BYTES, error));
    hearth_status status = common_load(&l, &v->engine, &p, error);
    if (status == HEARTH_OK) {
        perplexity_options options = {v->engine.context, (hearth_kv)v->engine.kv, v->separator,
                                      v->limit,          v->protocol == 1,        progress_to(&p)};
        status = perplexity_measure(&out->scores, l.engine, (span){text, size}, path, &options, error);
        progress_clear(&p);
        out->rung = hearth_engine_rung(l.engine);
        out->class = hearth_engine_class(l.engine);
        if (status == HEARTH_OK && !v->json)
            common_say_class(&l);
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
    if (v->limit && !v->separator)
        return fail(error, HEARTH_INVALID, "eval ppl: --limit: counts documents and needs --separator");
    ppl_outcome outcome;
    TRY(measure(v, rest->items[0], &outcome, error));
    return print_perplexity(v, &outcome, error);
}

static const command part_ppl = {
    .name = "ppl",
    .path = "eval ppl",
    .summary = "perplexity: how well the model foresees a text",
    .usage = "MODEL FILE [options]",
    .about =
        "Scores a text (FILE, or - for standard input). It is tokenized whole and cut into windows of N - 1 tokens "
        "behind BOS, N being the context (-c, else the model's); every token is scored, log-probabilities are "
        "added in double precision.",
    .example = "  $ hearth eval ppl stories-relu-q8_0.gguf held-out.txt --separator '<|endoftext|>' --limit 60\n"
               "  21927 tokens in 60 windows, context 512\n"
               "  mean loss  1.342559 nats per token\n"
               "  perplexity 3.8288",
    .tables = {OPTION_TABLE("scoring", ppl_rows, 0), ENGINE_TABLES(offsetof(ppl_values, engine))},
    .values_size = sizeof(ppl_values),
    .operands_most = 2,
    .run = run_ppl,
};

/* ------------------------------------------------------------------ logits */

typedef struct logits_values {
    engine_options engine;
    number_list ids;
    const char *out;
    const char *trace;
} logits_values;

static const option logits_rows[] = {
    {OPTION_ROW(0, "ids", LIST, logits_values, ids, "1,2,3", "the tokens to read; @FILE reads the list from a file"),
     .least = 0, .most = INT32_MAX},
    {OPTION_ROW('o', "out", TEXT, logits_values, out, "FILE", "where the logits go; - for standard output")},
    TRACE_ROW(logits_values),
};

typedef struct logits_sink {
    file_writer *writer;
    size_t vocabulary_size;
} logits_sink;

static hearth_status write_rows(void *user, size_t first, size_t count, const float *logits, hearth_error *error)
{
    (void)first;
    logits_sink *sink = user;
    return file_writer_put(sink->writer, logits, count * sink->vocabulary_size * sizeof *logits, error);
}

/* Reads all ids and writes a row after each. */
static hearth_status write_logits(const loaded *l, const logits_values *v, progress *p, hearth_tracer tracer,
                                  logits_sink *sink, hearth_error *error)
{
    rows_reader reader = {0};
    hearth_session *session = NULL;
    hearth_status status;
    /* No longer than needed where that is known, so that a model of a long context costs no memory. */
    uint32_t context = v->engine.context;
    if (!context && v->ids.count <= l->info.context_length)
        context = (uint32_t)v->ids.count;
    hearth_session_options options = {.context = context,
                                      .kv = (hearth_kv)v->engine.kv,
                                      .output_rows = (uint32_t)rows_block(l->info.vocabulary_size),
                                      .progress = progress_to(p),
                                      .tracer = tracer};
    TRY_OR(done, status, hearth_session_create(&session, l->engine, &options, error));
    if (v->ids.count > hearth_session_context(session)) {
        status = fail(error, HEARTH_FULL, "%s: --ids: are %zu tokens, the context has only %u", l->info.path,
                      v->ids.count, hearth_session_context(session));
        goto done;
    }
    TRY_OR(done, status, rows_reader_init(&reader, session, l->info.vocabulary_size, error));
    status = rows_read(&reader, v->ids.items, v->ids.count, 0, write_rows, sink, error);
done:
    rows_reader_free(&reader);
    hearth_session_destroy(session);
    return status;
}

/* The whole file, or none. */
static hearth_status read_logits(const logits_values *v, hearth_tracer tracer, hearth_error *error)
{
    progress p;
    loaded l;
    TRY(common_load(&l, &v->engine, &p, error));
    logits_sink sink = {NULL, l.info.vocabulary_size};
    hearth_status status = file_writer_open(&sink.writer, v->out, error);
    if (status == HEARTH_OK) {
        status = write_logits(&l, v, &p, tracer, &sink, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(sink.writer, error);
        else
            file_writer_discard(sink.writer);
    }
    progress_clear(&p);
    if (status == HEARTH_OK)
        common_say_class(&l);
    common_unload(&l);
    return status;
}

static hearth_status run_logits(void *values, operands *rest, hearth_error *error)
{
    logits_values *v = values;
    TRY(common_take_model("eval logits", &v->engine.model, rest, 0, false, error));
    if (v->ids.count == 0)
        return fail(error, HEARTH_INVALID, "eval logits: --ids: is missing");
    if (!v->out)
        return fail(error, HEARTH_INVALID, "eval logits: --out: is missing");
    trace t;
    TRY(trace_open(&t, "eval logits", v->trace, error));
    return trace_close(&t, read_logits(v, trace_to(&t), error), error);
}

static const command part_logits = {
    .name = "logits",
    .path = "eval logits",
    .summary = "the logits after every one of given tokens, as a file",
    .usage = "MODEL --ids 1,2,3 --out FILE [options]",
    .about = "Reads the ids as they are (no BOS is added) and writes float32 values, little-endian, [ids][vocabulary]: "
             "row p is the output after reading ids 0 to p. Needs no tokenizer.",
    .example = "  $ hearth eval logits model.gguf --ids 1,403,407,261,378 --out logits.f32 --kv f32\n"
               "  $ stat -c %s logits.f32\n"
               "  10240",
    .tables = {OPTION_TABLE("logits", logits_rows, 0), ENGINE_TABLES(offsetof(logits_values, engine))},
    .values_size = sizeof(logits_values),
    .operands_most = 1,
    .run = run_logits,
};

/* ------------------------------------------------------------------ both */

static const command *const parts[] = {&part_ppl, &part_logits, NULL};

const command command_eval = {
    .name = "eval",
    .path = "eval",
    .summary = "measure what a model says: perplexity, logits",
    .usage = "ppl|logits MODEL ... [options]",
    .about = "Measures a model's output.",
    .example =
        "  $ hearth eval ppl stories-relu-q8_0.gguf text.txt --json\n"
        "  {\"tokens\":952,\"mean_nll\":1.6386900935,\"perplexity\":5.14842114301,\"windows\":2,\"context\":512,\n"
        "   \"rung\":\"exact\",\"class\":\"bitwise\"}\n"
        "  $ hearth eval logits model.gguf --ids 1,2,3 --out logits.f32",
    .parts = parts,
};
