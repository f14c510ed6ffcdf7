/* windows.c - documents, rows of logits, a session that reads windows, and llama.cpp's way of cutting a text into
 * them. */
#include "windows.h"

#include "../base/memory.h"

#include <math.h>
#include <string.h>

/* Above this the rows do not fit the caches anyway, and longer feeds gain nothing. */
#define MAX_BLOCK       256
#define MAX_BLOCK_BYTES ((size_t)64 << 20)
#define MIN_BLOCK       8

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

documents documents_of(span text, const char *separator, uint32_t limit)
{
    return (documents){text, separator, 0, limit ? limit : UINT32_MAX};
}

bool documents_next(documents *d, span *out)
{
    if (d->left == 0 || d->at > d->text.size)
        return false;
    const char *from = d->text.data + d->at;
    size_t mark = strlen(d->separator), rest = d->text.size - d->at;
    const char *end = memmem(from, rest, d->separator, mark);
    size_t size = end ? (size_t)(end - from) : rest;
    *out = strip((span){from, size});
    d->at = end ? d->at + size + mark : d->text.size + 1;
    d->left--;
    return true;
}

/* ------------------------------------------------------------------ rows */

size_t rows_block(size_t vocabulary_size)
{
    size_t fit = MAX_BLOCK_BYTES / sizeof(float) / vocabulary_size;
    return fit > MAX_BLOCK ? MAX_BLOCK : fit < MIN_BLOCK ? MIN_BLOCK : fit;
}

hearth_status rows_reader_init(rows_reader *r, hearth_session *session, size_t vocabulary_size, hearth_error *error)
{
    *r = (rows_reader){session, vocabulary_size, rows_block(vocabulary_size), NULL, NULL};
    size_t values;
    if (size_multiply(r->block, vocabulary_size, &values))
        r->logits = mem_new_array(values, sizeof *r->logits);
    r->rows = mem_new_array(r->block, sizeof *r->rows);
    if (!r->logits || !r->rows) {
        rows_reader_free(r);
        return fail_memory(error, "rows of logits", r->block * vocabulary_size * sizeof(float));
    }
    return HEARTH_OK;
}

void rows_reader_free(rows_reader *r)
{
    mem_free(r->logits);
    mem_free(r->rows);
    r->logits = NULL;
    r->rows = NULL;
}

hearth_status rows_read(rows_reader *r, const int32_t *ids, size_t count, size_t from, rows_visit *visit, void *user,
                        hearth_error *error)
{
    TRY(hearth_session_truncate(r->session, 0, 0, error));
    for (size_t begin = 0; begin < count; begin += r->block) {
        size_t n = count - begin < r->block ? count - begin : r->block;
        for (size_t i = 0; i < n; i++)
            r->rows[i] = (hearth_row){ids[begin + i], 0, begin + i >= from};
        TRY(hearth_session_feed(r->session, r->rows, n, error));
        size_t outputs = hearth_session_output_count(r->session);
        if (outputs == 0)
            continue;
        TRY(hearth_session_logits(r->session, 0, outputs, r->logits, error));
        TRY(visit(user, begin + n - outputs, outputs, r->logits, error));
    }
    return HEARTH_OK;
}

double rows_log_sum(const float *logits, size_t n, size_t *largest)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    double sum = exp((double)logits[0] - logits[best]);
    for (size_t i = 1; i < n; i++)
        sum += exp((double)logits[i] - logits[best]); /* the sum is between 1 and n: no overflow */
    *largest = best;
    return logits[best] + log(sum);
}

/* ------------------------------------------------------------------ windows */

/* Reports the same figures again from within a feed, where only cancelling matters. */
static bool report_again(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    windows_reader *w = user;
    return windows_report(w, w->done, w->total);
}

hearth_status windows_open(windows_reader *w, const hearth_engine *engine, uint32_t context, hearth_kv kv,
                           const hearth_progress *progress, const char *what, hearth_error *error)
{
    hearth_status status;
    *w = (windows_reader){.model = hearth_engine_model(engine), .progress = *progress, .what = what};
    hearth_model_describe(w->model, &w->info);
    w->context = context ? context : w->info.context_length;
    if (w->context < 4)
        return fail(error, HEARTH_INVALID, "%s: context: %u is too short to score anything", w->info.path, w->context);
    hearth_session_options wanted = {.context = w->context,
                                     .kv = kv,
                                     .output_rows = (uint32_t)rows_block(w->info.vocabulary_size),
                                     .progress = {report_again, w}};
    TRY_OR(failed, status, hearth_session_create(&w->session, engine, &wanted, error));
    TRY_OR(failed, status, rows_reader_init(&w->reader, w->session, w->info.vocabulary_size, error));
    w->ids = mem_new_array(w->context, sizeof *w->ids);
    if (w->ids)
        return HEARTH_OK;
    status = fail_memory(error, "window", w->context * sizeof *w->ids);
failed:
    windows_close(w);
    return status;
}

void windows_close(windows_reader *w)
{
    mem_free(w->ids);
    rows_reader_free(&w->reader);
    hearth_session_destroy(w->session);
    w->ids = NULL;
    w->session = NULL;
}

bool windows_report(windows_reader *w, uint64_t done, uint64_t total)
{
    w->done = done;
    w->total = total;
    return !w->progress.report || w->progress.report(w->progress.user, w->what, done, total);
}

hearth_status windows_read(windows_reader *w, size_t count, size_t from, rows_visit *visit, void *user,
                           hearth_error *error)
{
    if (count < 2)
        return HEARTH_OK;
    w->number = w->begun++;
    return rows_read(&w->reader, w->ids, count - 1, from, visit, user, error);
}

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* Finds out whether texts begin with BOS in this vocabulary, by tokenizing an empty text. Without a vocabulary this is
 * unknown, and ids are read as they are. */
static hearth_status adds_bos(const windows_reader *w, bool *out, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    *out = false;
    if (!w->info.has_tokenizer)
        return HEARTH_OK;
    TRY(hearth_tokenize(w->model, "", 0, HEARTH_TEXT_SPECIAL, &ids, &count, error));
    *out = count > 0 && ids[0] == w->info.bos;
    hearth_free(ids);
    return HEARTH_OK;
}

hearth_status halves_check(const windows_reader *w, size_t count, const char *text_name, hearth_error *error)
{
    if (count / 2 >= w->context)
        return HEARTH_OK;
    return fail(error, HEARTH_FORMAT, "%s: text: has %zu tokens, llama.cpp's protocol needs two windows of %u",
                text_name, count, w->context);
}

/* Appends the ids of one text. */
static hearth_status add_ids(const windows_reader *w, span text, int32_t **all, size_t *count, hearth_error *error)
{
    int32_t *ids;
    size_t n;
    TRY(hearth_tokenize(w->model, text.data, text.size, HEARTH_TEXT_SPECIAL, &ids, &n, error));
    int32_t *more = mem_resize(*all, (*count + n + 1) * sizeof **all);
    if (more) {
        if (n > 0)
            memcpy(more + *count, ids, n * sizeof *ids);
        *all = more;
        *count += n;
    }
    hearth_free(ids);
    return more ? HEARTH_OK : fail_memory(error, "tokens", (*count + n + 1) * sizeof **all);
}

hearth_status halves_tokenize(const windows_reader *w, span text, const char *text_name, const char *separator,
                              int32_t **ids, size_t *count, hearth_error *error)
{
    int32_t *all = NULL;
    size_t n = 0;
    hearth_status status = HEARTH_OK;
    if (separator) {
        documents list = documents_of(text, separator, 0);
        for (span document; status == HEARTH_OK && documents_next(&list, &document);)
            if (document.size > 0)
                status = add_ids(w, document, &all, &n, error);
    } else {
        status = add_ids(w, text, &all, &n, error);
    }
    if (status == HEARTH_OK)
        status = halves_check(w, n, text_name, error);
    if (status != HEARTH_OK) {
        mem_free(all);
        return status;
    }
    *ids = all;
    *count = n;
    return HEARTH_OK;
}

hearth_status halves_read(windows_reader *w, const int32_t *ids, size_t count, rows_visit *visit, void *user,
                          hearth_error *error)
{
    bool bos;
    size_t n = w->context;
    TRY(adds_bos(w, &bos, error));
    for (size_t at = 0; at + n <= count; at += n) {
        if (!windows_report(w, at, count))
            return HEARTH_CANCELLED;
        memcpy(w->ids, ids + at, n * sizeof *ids);
        if (bos)
            w->ids[0] = w->info.bos;
        TRY(windows_read(w, n, halves_first(n), visit, user, error));
    }
    return HEARTH_OK;
}
