/* corpus.c - reads texts, converts them to ids and cuts these
 * into windows. It does not know what is counted on them. */
#include "corpus.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../eval/windows.h"

#include <string.h>

/* Size of the largest file that is read. */
#define MAX_TEXT_BYTES ((size_t)1 << 30)
/* Counts of firings are signed 32-bit numbers, as in the tune file. */
#define MAX_IDS ((size_t)INT32_MAX)
/* Longer windows cost time in attention and add nothing about neurons. */
#define WINDOW 512
/* Length of a text that the model writes: enough to find the
 * hotter half of the neurons, and takes seconds on small models. */
#define WRITTEN_TOKENS 512
#define WRITTEN_SEED   1

/* A corpus under construction. */
typedef struct builder {
    corpus *c;
    hearth_model_info info;
    uint32_t window;
    size_t id_room, start_room;
    hearth_error *error;
} builder;

/* Starts a corpus: checks the window, or takes the default. */
static hearth_status begin(builder *b, corpus *out, const hearth_model *model, uint32_t window, hearth_error *error)
{
    *b = (builder){.c = out, .error = error};
    *out = (corpus){0};
    hearth_model_describe(model, &b->info);
    b->window = window ? window : WINDOW;
    if (!window && b->window > b->info.context_length)
        b->window = b->info.context_length;
    if (b->window < 2)
        return fail(error, HEARTH_INVALID, "%s: window: of %u tokens is too short", b->info.path, b->window);
    return HEARTH_OK;
}

/* Makes room for ids and windows. HEARTH_FORMAT: more ids than can be counted. */
static hearth_status make_room(builder *b, size_t ids, size_t windows)
{
    corpus *c = b->c;
    if (ids > MAX_IDS - c->id_count)
        return fail(b->error, HEARTH_FORMAT, "corpus: has more than the %zu tokens that can be counted", MAX_IDS);
    int32_t *all = mem_grow(c->ids, &b->id_room, c->id_count, ids + 1, sizeof *all);
    c->ids = all ? all : c->ids;
    size_t *starts = mem_grow(c->starts, &b->start_room, c->window_count, windows + 1, sizeof *starts);
    c->starts = starts ? starts : c->starts;
    return all && starts ? HEARTH_OK : fail_memory(b->error, "corpus", (c->id_count + ids + 1) * sizeof *all);
}

/* Appends ids as windows, each with a BOS in front where the model has one and `bos` is set. */
static hearth_status add_ids(builder *b, const int32_t *ids, size_t count, bool bos)
{
    corpus *c = b->c;
    size_t front = bos && b->info.bos >= 0, room = b->window - front, windows = (count + room - 1) / room;
    TRY(make_room(b, count + windows * front, windows));
    for (size_t at = 0; at < count;) {
        size_t taken = count - at < room ? count - at : room;
        c->starts[c->window_count++] = c->id_count;
        if (front)
            c->ids[c->id_count++] = b->info.bos;
        memcpy(c->ids + c->id_count, ids + at, taken * sizeof *ids);
        c->id_count += taken;
        at += taken;
    }
    c->starts[c->window_count] = c->id_count;
    return HEARTH_OK;
}

/* Completes the corpus with its digest, or frees it after a failure. */
static hearth_status finish(builder *b, hearth_status status)
{
    corpus *c = b->c;
    if (status != HEARTH_OK) {
        corpus_free(c);
        return status;
    }
    hash128 h = hash_begin();
    hash_number(&h, c->id_count);
    hash_bytes(&h, c->ids, c->id_count * sizeof *c->ids);
    for (size_t i = 0; i < c->window_count; i++)
        hash_number(&h, c->starts[i]);
    hash_print(c->digest, &h);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ files */

/* Refuses files that are empty, binary or not UTF-8. */
static hearth_status check_text(const char *path, span text, hearth_error *error)
{
    if (text.size == 0)
        return fail(error, HEARTH_FORMAT, "%s: text: is empty", path);
    const char *nul = memchr(text.data, 0, text.size);
    if (nul)
        return fail(error, HEARTH_FORMAT, "%s: text: is binary, byte %zu is zero", path, (size_t)(nul - text.data));
    for (size_t at = 0, length; at < text.size; at += length) {
        length = (unsigned char)text.data[at] < 0x80 ? 1 : utf8_length(text.data + at, text.size - at);
        if (length == 0)
            return fail(error, HEARTH_FORMAT, "%s: text: is not UTF-8, byte %zu", path, at);
    }
    return HEARTH_OK;
}

static hearth_status add_text(builder *b, const hearth_model *model, span text)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(model, text.data, text.size, 0, &ids, &count, b->error));
    hearth_status status = count > 0 ? add_ids(b, ids, count, true) : HEARTH_OK;
    hearth_free(ids);
    return status;
}

/* Adds each document as a text of its own; skips empty ones. */
static hearth_status add_documents(builder *b, const hearth_model *model, span text, const char *separator)
{
    documents all = documents_of(text, separator, 0);
    for (span document; documents_next(&all, &document);)
        if (document.size > 0)
            TRY(add_text(b, model, document));
    return HEARTH_OK;
}

static hearth_status add_file(builder *b, const hearth_model *model, const char *path, const char *separator)
{
    char *data;
    size_t size, before = b->c->id_count;
    TRY(file_read(&data, &size, path, MAX_TEXT_BYTES, b->error));
    span text = {data, size};
    hearth_status status = check_text(path, text, b->error);
    if (status == HEARTH_OK)
        status = separator ? add_documents(b, model, text, separator) : add_text(b, model, text);
    if (status == HEARTH_OK && b->c->id_count == before)
        status = fail(b->error, HEARTH_FORMAT, "%s: text: has no token", path);
    b->c->text_bytes += size;
    mem_free(data);
    return status;
}

hearth_status corpus_read(corpus *out, const hearth_model *model, const char *const *paths, size_t path_count,
                          const char *separator, uint32_t window, hearth_error *error)
{
    builder b;
    TRY(begin(&b, out, model, window, error));
    if (path_count == 0)
        return fail(error, HEARTH_INVALID, "corpus: no file was named");
    if (separator && !*separator)
        return fail(error, HEARTH_INVALID, "corpus: the separator is empty");
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < path_count && status == HEARTH_OK; i++)
        status = add_file(&b, model, paths[i], separator);
    return finish(&b, status);
}

/* ------------------------------------------------------------------ ids */

hearth_status corpus_of_ids(corpus *out, const hearth_model *model, const int32_t *ids, size_t id_count,
                            uint32_t window, hearth_error *error)
{
    builder b;
    TRY(begin(&b, out, model, window, error));
    if (id_count == 0)
        return fail(error, HEARTH_FORMAT, "corpus: has no ids");
    for (size_t i = 0; i < id_count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= b.info.vocabulary_size)
            return fail(error, HEARTH_FORMAT, "%s: id %d (number %zu of the corpus): is not one of the vocabulary's %u",
                        b.info.path, ids[i], i, b.info.vocabulary_size);
    return finish(&b, add_ids(&b, ids, id_count, false));
}

/* ------------------------------------------------------------------ what the model writes */

/* A model that writes its own corpus. */
typedef struct writer {
    builder *b;
    const hearth_model *model;
    hearth_session *session;
    hearth_sampler *sampler;
    float *logits; /* [vocabulary]             */
    int32_t *text; /* [window] the current one */
    size_t wanted; /* tokens wanted in all     */
    const hearth_progress *progress;
} writer;

static hearth_status report_written(const writer *w, size_t tokens)
{
    const hearth_progress *p = w->progress;
    if (!p->report || p->report(p->user, "writing", tokens, w->wanted))
        return HEARTH_OK;
    return fail(w->b->error, HEARTH_CANCELLED, "%s: writing a text: cancelled", w->b->info.path);
}

/* Writes one text, until the model ends it, the window is full, or all wanted tokens are there. */
static hearth_status write_one(writer *w, size_t *length)
{
    hearth_error *error = w->b->error;
    int32_t token = w->b->info.bos >= 0 ? w->b->info.bos : 0;
    size_t before = w->b->c->id_count, room = w->wanted - before, n = 0;
    size_t most = room < w->b->window ? room : w->b->window;
    TRY(hearth_session_truncate(w->session, 0, 0, error));
    do {
        TRY(report_written(w, before + n)); /* one token of a large model takes long */
        w->text[n++] = token;
        TRY(hearth_session_feed(w->session, &(hearth_row){.token = token, .output = true}, 1, error));
        TRY(hearth_session_logits(w->session, 0, 1, w->logits, error));
        token = hearth_sampler_pick(w->sampler, w->logits);
    } while (n < most && !hearth_token_ends_answer(w->model, token));
    *length = n;
    return HEARTH_OK;
}

static hearth_status write_texts(writer *w)
{
    while (w->b->c->id_count < w->wanted) {
        size_t length;
        TRY(write_one(w, &length));
        TRY(add_ids(w->b, w->text, length, false));
    }
    return HEARTH_OK;
}

hearth_status corpus_written(corpus *out, const hearth_engine *engine, uint32_t tokens, uint32_t window,
                             const hearth_progress *progress, hearth_error *error)
{
    builder b;
    writer w = {.b = &b,
                .model = hearth_engine_model(engine),
                .wanted = tokens ? tokens : WRITTEN_TOKENS,
                .progress = progress};
    hearth_sampling sampling = {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = WRITTEN_SEED};
    hearth_status status;
    TRY(begin(&b, out, w.model, window, error));
    hearth_session_options options = {.context = b.window};
    TRY_OR(done, status, hearth_sampler_create(&w.sampler, &sampling, b.info.vocabulary_size, error));
    TRY_OR(done, status, hearth_session_create(&w.session, engine, &options, error));
    w.logits = mem_new_array(b.info.vocabulary_size, sizeof *w.logits);
    w.text = mem_new_array(b.window, sizeof *w.text);
    status =
        w.logits && w.text ? write_texts(&w) : fail_memory(error, "corpus", b.info.vocabulary_size * sizeof *w.logits);
done:
    mem_free(w.text);
    mem_free(w.logits);
    hearth_session_destroy(w.session);
    hearth_sampler_destroy(w.sampler);
    return finish(&b, status);
}

size_t corpus_longest(const corpus *c)
{
    size_t longest = 0;
    for (size_t w = 0; w < c->window_count; w++) {
        size_t length = c->starts[w + 1] - c->starts[w];
        longest = length > longest ? length : longest;
    }
    return longest;
}

void corpus_free(corpus *c)
{
    mem_free(c->ids);
    mem_free(c->starts);
    *c = (corpus){0};
}
