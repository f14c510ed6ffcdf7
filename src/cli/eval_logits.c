/* eval_logits.c - `hearth eval logits`: writes the logits of given ids to a file. */
#include "eval_internal.h"

#include "../base/file.h"
#include "../eval/windows.h"
#include "common.h"
#include "trace.h"

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
    /* No longer than needed, so that a model with a long context takes little memory. */
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

/* Writes the whole file, or none. */
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
        common_say_status(&l, &v->engine.messages);
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

const command eval_logits = {
    .name = "logits",
    .path = "eval logits",
    .summary = "the logits after every one of given tokens, as a file",
    .usage = "MODEL --ids 1,2,3 --out FILE [options]",
    .about = "Reads the ids as they are (no BOS is added) and writes float32 values, little-endian, [ids][vocabulary]: "
             "row p is the output after reading ids 0 to p. Needs no tokenizer.",
    .example = "  $ hearth eval logits model.gguf --ids 1,403,407,261,378 --out logits.f32 --kv f32\n"
               "  $ stat -c %s logits.f32\n"
               "  10240",
    .tables = {OPTION_TABLE("logits", logits_rows, 0), ENGINE_TABLES(offsetof(logits_values, engine)),
               MESSAGE_TABLE(offsetof(logits_values, engine))},
    .values_size = sizeof(logits_values),
    .operands_most = 1,
    .run = run_logits,
};
