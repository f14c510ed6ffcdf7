/* windows.c - a session that reads windows, and llama.cpp's way of cutting a text into them. */
#include "windows.h"

#include "../base/memory.h"
#include "documents.h"

#include <string.h>

/* Reports the same figures again from within a feed, where only cancelling matters. */
static bool report_again(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    windows *w = user;
    return windows_report(w, w->done, w->total);
}

hearth_status windows_open(windows *w, const hearth_engine *engine, uint32_t context, hearth_kv kv,
                           const hearth_progress *progress, const char *what, hearth_error *error)
{
    hearth_status status;
    *w = (windows){.model = hearth_engine_model(engine), .progress = *progress, .what = what};
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

void windows_close(windows *w)
{
    mem_free(w->ids);
    rows_reader_free(&w->reader);
    hearth_session_destroy(w->session);
    w->ids = NULL;
    w->session = NULL;
}

bool windows_report(windows *w, uint64_t done, uint64_t total)
{
    w->done = done;
    w->total = total;
    return !w->progress.report || w->progress.report(w->progress.user, w->what, done, total);
}

hearth_status windows_read(windows *w, size_t count, size_t from, rows_visit *visit, void *user, hearth_error *error)
{
    if (count < 2)
        return HEARTH_OK;
    w->number = w->begun++;
    return rows_read(&w->reader, w->ids, count - 1, from, visit, user, error);
}

/* ------------------------------------------------------------------ llama.cpp's protocol */

/* Finds out whether texts begin with BOS in this vocabulary, by tokenizing an empty text. Without a vocabulary this is
 * unknown, and ids are read as they are. */
static hearth_status adds_bos(const windows *w, bool *out, hearth_error *error)
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

hearth_status halves_check(const windows *w, size_t count, const char *text_name, hearth_error *error)
{
    if (count / 2 >= w->context)
        return HEARTH_OK;
    return fail(error, HEARTH_FORMAT, "%s: text: has %zu tokens, llama.cpp's protocol needs two windows of %u",
                text_name, count, w->context);
}

/* Appends the ids of one text. */
static hearth_status add_ids(const windows *w, span text, int32_t **all, size_t *count, hearth_error *error)
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

hearth_status halves_tokenize(const windows *w, span text, const char *text_name, const char *separator, int32_t **ids,
                              size_t *count, hearth_error *error)
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

hearth_status halves_read(windows *w, const int32_t *ids, size_t count, rows_visit *visit, void *user,
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
