/* sweep_activity.c - counts what the rows of a text need of every layer, in a session that reads it. */
#include "sweep.h"

#include "../base/memory.h"
#include "../model/model.h"
#include "windows.h"

#include <math.h>

/* Rows of a feed. */
#define BLOCK 512

typedef struct counter {
    hearth_model_info info;
    hearth_session *session;
    const hearth_model *model;
    const sweep_text *text;
    hearth_row rows[BLOCK];
    uint32_t context;
    uint64_t tokens, limit;
} counter;

static bool is_done(const counter *c)
{
    return c->limit && c->tokens >= c->limit;
}

static hearth_status feed(counter *c, size_t filled, hearth_error *error)
{
    TRY(hearth_session_feed(c->session, c->rows, filled, error));
    c->tokens += filled;
    return HEARTH_OK;
}

/* Reads ids in a fresh context, after BOS where the model has one. */
static hearth_status read_window(counter *c, const int32_t *ids, size_t count, hearth_error *error)
{
    size_t filled = 0;
    TRY(hearth_session_truncate(c->session, 0, 0, error));
    if (c->info.bos >= 0)
        c->rows[filled++] = (hearth_row){.token = c->info.bos};
    for (size_t i = 0; i < count; i++) {
        if (filled == BLOCK) {
            TRY(feed(c, filled, error));
            filled = 0;
        }
        c->rows[filled++] = (hearth_row){.token = ids[i]};
    }
    return filled > 0 ? feed(c, filled, error) : HEARTH_OK;
}

/* Reads a text in the same windows as perplexity: the last token of each is only predicted. */
static hearth_status read_text(counter *c, span text, bool first_only, hearth_error *error)
{
    int32_t *ids;
    size_t count, room = c->context - (c->info.bos >= 0);
    hearth_status status = HEARTH_OK;
    if (text.size == 0)
        return HEARTH_OK;
    TRY(hearth_tokenize(c->model, text.data, text.size, 0, &ids, &count, error));
    for (size_t at = 0; status == HEARTH_OK && at < count && !is_done(c) && !(first_only && at > 0); at += room) {
        size_t size = count - at < room ? count - at : room;
        status = read_window(c, ids + at, size - 1, error);
    }
    hearth_free(ids);
    return status;
}

static hearth_status read_all(counter *c, hearth_error *error)
{
    const sweep_text *t = c->text;
    if (!t->separator)
        return read_text(c, t->text, false, error);
    documents all = documents_of(t->text, t->separator, t->document_limit);
    for (span document; !is_done(c) && documents_next(&all, &document);)
        TRY(read_text(c, document, true, error));
    return HEARTH_OK;
}

static hearth_status add_up(const counter *c, sweep_activity *out, double *layers, hearth_error *error)
{
    *out = (sweep_activity){.tokens = c->tokens, .weight_bytes = hearth_session_token_bytes(c->session)};
    uint32_t networks = model_networks(c->model);
    for (uint32_t i = 0; i < c->info.layer_count; i++) {
        hearth_counts counts;
        TRY(hearth_session_counts(c->session, i, &counts, error));
        double neurons = (double)counts.rows * c->model->layers[i].ffn.neuron_count;
        if (layers)
            layers[i] = neurons > 0 ? (double)counts.active / neurons : NAN;
        if (neurons == 0)
            continue;
        out->density += (double)counts.active / neurons;
        out->let_through += (double)counts.computed / neurons;
    }
    if (networks > 0) {
        out->density /= networks;
        out->let_through /= networks;
    } else {
        out->density = out->let_through = 1; /* nothing was left out */
    }
    return HEARTH_OK;
}

hearth_status sweep_measure_activity(sweep_activity *out, double *layers, const hearth_engine *engine,
                                     const sweep_text *text, uint64_t tokens, uint32_t context, hearth_kv kv,
                                     const hearth_progress *progress, hearth_error *error)
{
    counter *c = mem_new(sizeof *c);
    if (!c)
        return fail_memory(error, "activity", sizeof *c);
    c->model = hearth_engine_model(engine);
    c->text = text;
    c->limit = tokens;
    hearth_model_describe(c->model, &c->info);
    c->context = context ? context : c->info.context_length;
    hearth_session_options options = {.context = c->context, .kv = kv, .progress = *progress};
    hearth_status status = hearth_session_create(&c->session, engine, &options, error);
    if (status == HEARTH_OK)
        status = read_all(c, error);
    if (status == HEARTH_OK && c->tokens == 0)
        status = fail(error, HEARTH_FORMAT, "%s: text: has no tokens to read", text->name);
    if (status == HEARTH_OK)
        status = add_up(c, out, layers, error);
    hearth_session_destroy(c->session);
    mem_free(c);
    return status;
}
