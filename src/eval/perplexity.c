/* perplexity.c - windows of a text, scored. */
#include "perplexity.h"

#include "../base/memory.h"
#include "rows.h"

#include <string.h>

typedef struct scorer {
    const hearth_model *model;
    hearth_model_info info;
    const perplexity_options *options;
    rows_reader reader;
    int32_t *window; /* [context] */
    uint32_t context;
    uint64_t done, total; /* as reported last */
    perplexity_result *result;
} scorer;

/* Row p foresees token p + 1 of the window. */
static hearth_status score_rows(void *user, size_t first, size_t count, const float *logits, hearth_error *error)
{
    (void)error;
    scorer *s = user;
    for (size_t i = 0; i < count; i++)
        s->result->nll -= hearth_log_probability(logits + i * s->info.vocabulary_size, s->info.vocabulary_size,
                                                 s->window[first + i + 1]);
    s->result->tokens += count;
    return HEARTH_OK;
}

/* Scores window [count]: tokens from + 1 on. The last one is foreseen but not read. */
static hearth_status score_window(scorer *s, size_t count, size_t from, hearth_error *error)
{
    if (count < 2)
        return HEARTH_OK;
    s->result->windows++;
    return rows_read(&s->reader, s->window, count - 1, from, score_rows, s, error);
}

static bool report(scorer *s, uint64_t done, uint64_t total)
{
    const hearth_progress *p = &s->options->progress;
    s->done = done;
    s->total = total;
    return !p->report || p->report(p->user, "perplexity", done, total);
}

/* From within a feed: the same figures again, since only cancelling matters there. */
static bool report_again(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    scorer *s = user;
    return report(s, s->done, s->total);
}

/* The window that begins at ids: behind BOS, at most the context long. Returns how many ids it took. */
static size_t fill_window(scorer *s, const int32_t *ids, size_t count, size_t *length)
{
    size_t bos = s->info.bos >= 0, room = s->context - bos;
    size_t taken = count < room ? count : room;
    s->window[0] = s->info.bos;
    memcpy(s->window + bos, ids, taken * sizeof *ids);
    *length = bos + taken;
    return taken;
}

static hearth_status score_text(scorer *s, span text, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(s->model, text.data, text.size, 0, &ids, &count, error));
    hearth_status status = HEARTH_OK;
    for (size_t at = 0, length; status == HEARTH_OK && at < count;) {
        if (!report(s, at, count)) {
            status = HEARTH_CANCELLED;
            break;
        }
        at += fill_window(s, ids + at, count - at, &length);
        status = score_window(s, length, 0, error);
    }
    hearth_free(ids);
    return status;
}

/* ------------------------------------------------------------------ documents */

static span strip(span text)
{
    while (text.size > 0 && is_white(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_white(text.data[text.size - 1]))
        text.size--;
    return text;
}

static hearth_status score_document(scorer *s, span document, hearth_error *error)
{
    int32_t *ids;
    size_t count, length;
    document = strip(document);
    if (document.size == 0)
        return HEARTH_OK;
    TRY(hearth_tokenize(s->model, document.data, document.size, 0, &ids, &count, error));
    if (count > 0)
        fill_window(s, ids, count, &length);
    hearth_status status = count > 0 ? score_window(s, length, 0, error) : HEARTH_OK;
    hearth_free(ids);
    return status;
}

static hearth_status score_documents(scorer *s, span text, hearth_error *error)
{
    size_t mark = strlen(s->options->separator);
    uint32_t limit = s->options->document_limit ? s->options->document_limit : UINT32_MAX;
    size_t at = 0;
    for (uint32_t n = 0; n < limit && at <= text.size; n++) {
        if (!report(s, at, text.size))
            return HEARTH_CANCELLED;
        const char *from = text.data + at;
        const char *end = memmem(from, text.size - at, s->options->separator, mark);
        size_t size = end ? (size_t)(end - from) : text.size - at;
        TRY(score_document(s, (span){from, size}, error));
        at += size + mark;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* Whether texts begin with BOS in this vocabulary: what an empty text becomes says so. */
static hearth_status adds_bos(const scorer *s, bool *out, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(s->model, "", 0, HEARTH_TEXT_SPECIAL, &ids, &count, error));
    *out = count > 0 && ids[0] == s->info.bos;
    hearth_free(ids);
    return HEARTH_OK;
}

static hearth_status score_halves(scorer *s, span text, const char *text_name, hearth_error *error)
{
    bool bos;
    int32_t *ids;
    size_t count, n = s->context;
    TRY(adds_bos(s, &bos, error));
    TRY(hearth_tokenize(s->model, text.data, text.size, HEARTH_TEXT_SPECIAL, &ids, &count, error));
    hearth_status status = HEARTH_OK;
    if (count < 2 * n)
        status = fail(error, HEARTH_FORMAT, "%s: text: has %zu tokens, llama.cpp's protocol needs two windows of %zu",
                      text_name, count, n);
    for (size_t at = 0; status == HEARTH_OK && at + n <= count; at += n) {
        if (!report(s, at, count)) {
            status = HEARTH_CANCELLED;
            break;
        }
        memcpy(s->window, ids + at, n * sizeof *ids);
        if (bos)
            s->window[0] = s->info.bos;
        status = score_window(s, n, n / 2, error);
    }
    hearth_free(ids);
    return status;
}

/* ------------------------------------------------------------------ all of it */

/* Cancelled between two windows or within one: the error says of which text. */
static hearth_status score(scorer *s, span text, const char *text_name, hearth_error *error)
{
    hearth_status status;
    if (s->options->half_windows)
        status = score_halves(s, text, text_name, error);
    else
        status = s->options->separator ? score_documents(s, text, error) : score_text(s, text, error);
    if (status == HEARTH_CANCELLED)
        return fail(error, HEARTH_CANCELLED, "%s: perplexity: cancelled", text_name);
    if (status == HEARTH_OK && s->result->tokens == 0)
        return fail(error, HEARTH_FORMAT, "%s: text: has no tokens to score", text_name);
    return status;
}

hearth_status perplexity_measure(perplexity_result *out, const hearth_engine *engine, span text, const char *text_name,
                                 const perplexity_options *options, hearth_error *error)
{
    scorer s = {.model = hearth_engine_model(engine), .options = options, .result = out};
    hearth_session *session = NULL;
    hearth_status status;
    *out = (perplexity_result){0};
    hearth_model_describe(s.model, &s.info);
    out->context = s.context = options->context ? options->context : s.info.context_length;
    if (s.context < 4)
        return fail(error, HEARTH_INVALID, "%s: context: %u is too short to score anything", s.info.path, s.context);
    hearth_session_options wanted = {.context = s.context,
                                     .kv = options->kv,
                                     .output_rows = (uint32_t)rows_block(s.info.vocabulary_size),
                                     .progress = {report_again, &s}};
    TRY_OR(done, status, hearth_session_create(&session, engine, &wanted, error));
    TRY_OR(done, status, rows_reader_init(&s.reader, session, s.info.vocabulary_size, error));
    s.window = mem_new_array(s.context, sizeof *s.window);
    status = s.window ? score(&s, text, text_name, error) : fail_memory(error, "window", s.context * sizeof *s.window);
done:
    mem_free(s.window);
    rows_reader_free(&s.reader);
    hearth_session_destroy(session);
    return status;
}
