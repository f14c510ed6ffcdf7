/* fetch.c - one URL to one file, or to memory. */
#include "fetch.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "part.h"
#include "retry.h"
#include "transfer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A try that comes so much further than all before it is progress, after which retries are counted from 0. One that only brings
 * the same bytes again is not. */
#define WORTH_BYTES ((uint64_t)1 << 20)

struct fetcher {
    const fetch_options *options;
    transfer_options transfer_options;
    transfer *transfer;
    /* What progress is told of, also while nothing comes. */
    const char *what;
    uint64_t done, total;
};

const char *fetch_state_name(fetch_state state)
{
    static const char *const names[] = {
#define X(name, text) [FETCH_##name] = text,
        FETCH_STATES(X)
#undef X
    };
    return names[state];
}

static bool go_on(void *user)
{
    const fetcher *f = user;
    hearth_progress p = f->options->progress;
    return !p.report || p.report(p.user, f->what, f->done, f->total);
}

hearth_status fetcher_open(fetcher **out, const fetch_options *o, hearth_error *error)
{
    fetcher *f = mem_new(sizeof *f);
    if (!f)
        return fail_memory(error, "pull", sizeof *f);
    f->options = o;
    f->what = "asking";
    f->transfer_options = (transfer_options){.token = o->token,
                                             .token_origin = o->token_origin,
                                             .certificates = o->certificates,
                                             .timeout_seconds = o->timeout_seconds,
                                             .go_on = go_on,
                                             .user = f};
    hearth_status status = transfer_open(&f->transfer, &f->transfer_options, error);
    if (status != HEARTH_OK) {
        mem_free(f);
        return status;
    }
    *out = f;
    return HEARTH_OK;
}

void fetcher_close(fetcher *f)
{
    if (!f)
        return;
    transfer_close(f->transfer);
    mem_free(f);
}

/* ------------------------------------------------------------------ what a status means */

/* What people can do about a status. */
static const struct {
    long status;
    const char *meaning;
} meanings[] = {
    {401, "not without a token that may read it (HF_TOKEN, --token-file)"},
    {403, "the token, or the lack of one, does not allow it"},
    {404, "there is no such thing"},
    {410, "it is gone"},
    {416, "the server has no bytes there"},
    {429, "too many requests"},
};

static hearth_status fail_status(const char *url, const transfer_head *head, hearth_error *error)
{
    const char *meaning = head->status >= 500 ? "the server cannot answer now" : "unexpected";
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == head->status)
            meaning = meanings[i].meaning;
    return fail(error, HEARTH_IO, "%.400s: HTTP status %ld: %s%s%.200s", url, head->status, meaning,
                head->reason ? ": " : "", head->reason ? head->reason : "");
}

/* ------------------------------------------------------------------ tries */

/* What is the same for a file and for a text: one after the other, tries at one URL. */
typedef struct attempt {
    fetcher *f;
    const char *url;
    uint32_t asked_seconds; /* by the last answer's Retry-After */
    bool transient;         /* the last failure may pass          */
    bool at_once;           /* the next try is another request, for which nobody has to wait */
    uint64_t reached;       /* bytes that the furthest try had          */
    uint64_t received;      /* bytes of all tries                 */
} attempt;

/* Notes what an unwelcome status means for the next try. */
static hearth_status refuse_status(attempt *a, const transfer_head *head, hearth_error *error)
{
    a->transient = retry_is_for_status(head->status);
    a->asked_seconds = head->wait_seconds;
    return fail_status(a->url, head, error);
}

/* Waits before another try. Returns the status with which to give up, else HEARTH_OK. */
static hearth_status wait_for_next(const attempt *a, retry *r, hearth_status status, hearth_error *error)
{
    const fetch_options *o = a->f->options;
    if (a->at_once)
        return HEARTH_OK;
    if (!a->transient || r->used == o->retries)
        return status;
    double seconds = retry_seconds(r, o->delay_seconds, a->asked_seconds);
    if (seconds < 0)
        return fail(error, HEARTH_IO, "%.400s: the server asks to come back in %u s", a->url, a->asked_seconds);
    r->used++;
    log_line(&o->log, HEARTH_LOG_WARNING, "%s; try %u of %u in %.0f s", error->text, r->used, o->retries, seconds);
    if (!retry_wait(seconds, go_on, a->f))
        return fail(error, HEARTH_CANCELLED, "%.400s: interrupted", a->url);
    return HEARTH_OK;
}

/* Sends a request until it succeeds, fails for good, or has failed too often. `prepare` (NULL: none) is called before each
 * try. */
static hearth_status try_until(attempt *a, transfer_request *request, void (*prepare)(transfer_request *request),
                               hearth_error *error)
{
    retry r = {0};
    hearth_error cause; /* not the caller's, which may be NULL */
    for (;;) {
        uint64_t before = a->reached;
        a->transient = a->at_once = false;
        a->asked_seconds = 0;
        if (prepare)
            prepare(request);
        bool network = false;
        hearth_status status = transfer_run(a->f->transfer, request, &network, &cause);
        if (status == HEARTH_OK)
            return status;
        a->transient = a->transient || network;
        if (a->reached - before >= WORTH_BYTES)
            r.used = 0;
        status = wait_for_next(a, &r, status, &cause);
        if (status != HEARTH_OK)
            return fail(error, status, "%s", cause.text);
    }
}

/* ------------------------------------------------------------------ a text */

typedef struct text_fetch {
    attempt attempt;
    buffer *out;
    size_t limit;
    char *next;
} text_fetch;

static hearth_status text_head(void *user, const transfer_head *head, bool *stop, hearth_error *error)
{
    text_fetch *t = user;
    span next;
    (void)stop;
    if (head->status != 200)
        return refuse_status(&t->attempt, head, error);
    t->out->size = 0; /* of an earlier try */
    mem_free(t->next);
    t->next = NULL;
    if (head->link && link_next(&next, head->link)) {
        t->next = mem_copy_text(next.data, next.size);
        if (!t->next)
            return fail_memory(error, t->attempt.url, next.size);
    }
    return HEARTH_OK;
}

static hearth_status text_body(void *user, const void *data, size_t size_bytes, hearth_error *error)
{
    text_fetch *t = user;
    if (size_bytes > t->limit - t->out->size)
        return fail(error, HEARTH_IO, "%.400s: the answer has more than %zu bytes", t->attempt.url, t->limit);
    return buffer_put(t->out, data, size_bytes) ? HEARTH_OK : fail_memory(error, t->attempt.url, size_bytes);
}

hearth_status fetch_text(fetcher *f, const char *url, size_t limit, buffer *out, char **next, hearth_error *error)
{
    text_fetch t = {.attempt = {.f = f, .url = url}, .out = out, .limit = limit};
    transfer_request request = {.url = url, .head = text_head, .body = text_body, .user = &t};
    hearth_status status = try_until(&t.attempt, &request, NULL, error);
    if (status == HEARTH_OK) {
        *next = t.next;
        return status;
    }
    mem_free(t.next);
    return status;
}

/* ------------------------------------------------------------------ a file */

typedef struct file_fetch {
    attempt attempt;
    const fetch_source *source;
    const char *target;
    part *part;
    fetch_result *result;
    uint64_t total;   /* of the content, as the server says; SIZE_UNKNOWN: not said      */
    bool is_compared; /* the length of an existing target with the server's, or not needed */
    bool is_anew;     /* a range went wrong once: nothing but the whole is asked for       */
} file_fetch;

static hearth_status fail_exists(const file_fetch *x, hearth_error *error)
{
    return fail(error, HEARTH_IO, "%s: exists and is not what %.300s has; --force replaces it", x->target,
                x->source->url);
}

/* Compares the length of an existing target, of which no digest is known, with that of the server's. *stop: they are equal. */
static hearth_status compare_length(file_fetch *x, bool *stop, hearth_error *error)
{
    struct stat about;
    if (x->is_compared || stat(x->target, &about) != 0)
        return HEARTH_OK;
    x->is_compared = true;
    *stop = x->total == (uint64_t)about.st_size;
    if (*stop)
        *x->result = (fetch_result){.state = FETCH_PRESENT, .size = x->total};
    else if (!x->attempt.f->options->replace)
        return fail_exists(x, error);
    return HEARTH_OK;
}

/* Refuses what can be known to be something else. */
static hearth_status check_kind(const file_fetch *x, const transfer_head *head, hearth_error *error)
{
    const char *url = x->source->url, *encoding = head->content_encoding;
    char size[32], expected[32];
    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        return fail(error, HEARTH_IO, "%.400s: the server sends it in the encoding %.50s", url, encoding);
    if (head->content_type && strncasecmp(head->content_type, "text/html", 9) == 0)
        return fail(error, HEARTH_IO, "%.400s: is a page for browsers, not a model", url);
    if (x->source->size == SIZE_UNKNOWN || x->total == SIZE_UNKNOWN || x->source->size == x->total)
        return HEARTH_OK;
    snprintf(size, sizeof size, "%llu", (unsigned long long)x->total);
    snprintf(expected, sizeof expected, "%llu", (unsigned long long)x->source->size);
    return fail(error, HEARTH_IO, "%.400s: has %s bytes, expected %s", url, size, expected);
}

/* Tells before the first byte that a disk is too small. */
static hearth_status check_room(const file_fetch *x, hearth_error *error)
{
    struct statvfs disk;
    char wanted[16], there[16];
    if (x->total == SIZE_UNKNOWN || statvfs(part_path(x->part), &disk) != 0 || disk.f_blocks == 0)
        return HEARTH_OK;
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize, more = x->total - part_size(x->part);
    if (more <= room)
        return HEARTH_OK;
    return fail(error, HEARTH_IO, "%s: needs %s more, the disk has %s", x->target, text_size(wanted, (double)more),
                text_size(there, (double)room));
}

/* Begins anew, without a range; a second time it is an error. */
static hearth_status begin_anew(file_fetch *x, const char *reason, hearth_error *error)
{
    x->attempt.at_once = !x->is_anew;
    x->is_anew = true;
    TRY(part_restart(x->part, error));
    return fail(error, HEARTH_IO, "%.400s: %s", x->source->url, reason);
}

/* Checks that an answer of a part holds what was asked for. */
static hearth_status check_range(file_fetch *x, const transfer_head *head, hearth_error *error)
{
    content_range range;
    const char *had = part_validator(x->part);
    bool ok = head->content_range && content_range_parse(&range, head->content_range) &&
              range.first == part_size(x->part) && part_size(x->part) > 0;
    if (!ok || (head->length != SIZE_UNKNOWN && head->length != range.last - range.first + 1) ||
        (range.total != SIZE_UNKNOWN && range.last + 1 != range.total))
        return begin_anew(x, "answers with a range that was not asked for", error);
    if (had && etag_is_strong(had) && head->etag && strcmp(head->etag, had) != 0)
        return begin_anew(x, "answers with a range of other content", error);
    if (part_total(x->part) != SIZE_UNKNOWN && range.last + 1 != part_total(x->part))
        return begin_anew(x, "answers with a range of a file of another size", error);
    x->total = range.last + 1;
    return HEARTH_OK;
}

/* Returns what the server calls the content; NULL: nothing that a later request could be held to. */
static const char *validator_of(const transfer_head *head)
{
    return head->etag && etag_is_strong(head->etag) ? head->etag : head->last_modified;
}

/* An answer with all of the content. */
static hearth_status begin_whole(file_fetch *x, const transfer_head *head, hearth_error *error)
{
    x->total = head->length;
    if (part_size(x->part) > 0)
        TRY(part_restart(x->part, error)); /* the server has other content now, or knows no ranges */
    x->result->state = FETCH_DOWNLOADED;
    return HEARTH_OK;
}

static hearth_status file_head(void *user, const transfer_head *head, bool *stop, hearth_error *error)
{
    file_fetch *x = user;
    if (head->status == 416 && part_size(x->part) > 0)
        return begin_anew(x, "has no bytes behind those of an earlier try", error);
    if (head->status == 206)
        TRY(check_range(x, head, error));
    else if (head->status != 200)
        return refuse_status(&x->attempt, head, error);
    else
        TRY(begin_whole(x, head, error));
    TRY(check_kind(x, head, error));
    TRY(compare_length(x, stop, error));
    if (*stop)
        return HEARTH_OK;
    TRY(check_room(x, error));
    if (part_size(x->part) == 0)
        part_remember(x->part, validator_of(head), x->total);
    if (x->total == SIZE_UNKNOWN)
        x->total = x->source->size;
    x->attempt.f->total = x->total == SIZE_UNKNOWN ? 0 : x->total;
    return HEARTH_OK;
}

static hearth_status file_body(void *user, const void *data, size_t size_bytes, hearth_error *error)
{
    file_fetch *x = user;
    if (x->total != SIZE_UNKNOWN && size_bytes > x->total - part_size(x->part)) {
        (void)part_restart(x->part, NULL);
        return fail(error, HEARTH_IO, "%.400s: sends more than the %llu bytes it should have", x->source->url,
                    (unsigned long long)x->total);
    }
    TRY(part_put(x->part, data, size_bytes, error));
    uint64_t size = part_size(x->part);
    x->attempt.received += size_bytes;
    x->attempt.reached = size > x->attempt.reached ? size : x->attempt.reached;
    x->attempt.f->done = size;
    return HEARTH_OK;
}

static void file_prepare(transfer_request *request)
{
    const file_fetch *x = request->user;
    request->offset = x->is_anew ? 0 : part_size(x->part);
    request->validator = part_validator(x->part);
}

/* Compares what came with what was wanted. What is wrong is removed: no later try could mend it. */
static hearth_status verify(file_fetch *x, hearth_error *error)
{
    const digest *wanted = &x->source->digest;
    digest *got = &x->result->digest;
    TRY(part_digest(x->part, got, error));
    if (!digest_is_known(wanted) || strcmp(got->hex, wanted->hex) == 0)
        return HEARTH_OK;
    part_remove(x->part);
    return fail(error, HEARTH_IO, "%.300s: %s is %s, expected %s; what came was removed", x->source->url,
                digest_kind_name(wanted->kind), got->hex, wanted->hex);
}

/* Gets all bytes into FILE.part. */
static hearth_status receive(file_fetch *x, hearth_error *error)
{
    transfer_request request = {.url = x->source->url, .head = file_head, .body = file_body, .user = x};
    hearth_status status = try_until(&x->attempt, &request, file_prepare, error);
    x->result->received = x->attempt.received;
    if (status != HEARTH_OK || x->result->state == FETCH_PRESENT)
        return status;
    uint64_t size = part_size(x->part);
    if (x->total == SIZE_UNKNOWN || size == x->total)
        return HEARTH_OK;
    return fail(error, HEARTH_IO, "%.400s: sent %llu of %llu bytes", x->source->url, (unsigned long long)size,
                (unsigned long long)x->total);
}

static hearth_status receive_and_name(file_fetch *x, hearth_error *error)
{
    bool is_whole = part_size(x->part) > 0 && part_size(x->part) == part_total(x->part);
    x->result->state = part_size(x->part) > 0 ? FETCH_RESUMED : FETCH_DOWNLOADED;
    if (!is_whole) /* else an earlier run was ended between the last byte and the name */
        TRY(receive(x, error));
    if (x->result->state == FETCH_PRESENT)
        return HEARTH_OK;
    TRY(verify(x, error));
    x->result->size = part_size(x->part);
    return part_commit(x->part, x->attempt.f->options->replace, error);
}

/* Compares an existing target with a digest, or at least with a size, that is known beforehand. *done: it is what is wanted. */
static hearth_status look_at_target(file_fetch *x, const char *what, bool *done, hearth_error *error)
{
    struct stat about;
    const fetch_source *s = x->source;
    *done = false;
    if (stat(x->target, &about) != 0)
        return HEARTH_OK;
    if (S_ISDIR(about.st_mode))
        return fail(error, HEARTH_IO, "%s: cannot write: is a folder", x->target);
    bool same = s->size == SIZE_UNKNOWN || s->size == (uint64_t)about.st_size;
    if (!digest_is_known(&s->digest) && same && s->size == SIZE_UNKNOWN)
        return HEARTH_OK; /* compare_length asks the server */
    x->is_compared = true;
    digest got = {0};
    if (same && digest_is_known(&s->digest)) {
        TRY(part_hash_file(x->target, s->digest.kind, x->attempt.f->options->progress, what, &got, error));
        same = strcmp(got.hex, s->digest.hex) == 0;
    }
    if (!same)
        return x->attempt.f->options->replace ? HEARTH_OK : fail_exists(x, error);
    *done = true;
    *x->result = (fetch_result){.state = FETCH_PRESENT, .size = (uint64_t)about.st_size, .digest = got};
    return HEARTH_OK;
}

/* Adds to the error of an interrupted run, or a failed one, what is there already. */
static hearth_status say_what_stays(const file_fetch *x, hearth_status status, hearth_error *error)
{
    char size[16];
    if (!error || !part_is_useful(x->part))
        return status;
    hearth_error cause = *error;
    return fail(error, status, "%s; the same command goes on behind the %s in %s", cause.text,
                text_size(size, (double)part_size(x->part)), part_path(x->part));
}

hearth_status fetch_file(fetcher *f, const fetch_source *source, const char *target, const char *what,
                         fetch_result *out, hearth_error *error)
{
    bool done;
    double begin = clock_seconds();
    *out = (fetch_result){.digest.kind = source->digest.kind};
    file_fetch x = {.attempt = {.f = f, .url = source->url},
                    .source = source,
                    .target = target,
                    .result = out,
                    .total = source->size};
    const part_options options = {.target = target,
                                  .url = source->url,
                                  .digest = source->digest,
                                  .size = source->size,
                                  .progress = f->options->progress,
                                  .checking = what};
    TRY(look_at_target(&x, what, &done, error));
    if (done)
        return HEARTH_OK;
    TRY(part_open(&x.part, &options, error));
    f->what = what;
    f->done = x.attempt.reached = part_size(x.part);
    f->total = source->size == SIZE_UNKNOWN ? 0 : source->size;
    hearth_status status = receive_and_name(&x, error);
    if (status != HEARTH_OK)
        status = say_what_stays(&x, status, error);
    out->seconds = clock_seconds() - begin;
    part_close(x.part);
    return status;
}
