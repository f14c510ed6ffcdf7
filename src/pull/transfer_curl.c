/* transfer_curl.c - one GET by libcurl. */
#include "transfer.h"

#include "../base/memory.h"
#include "../base/text.h"
#include "http_values.h"
#include "url.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#define MOST_REDIRECTS 10
/* Slower than this for the whole timeout is given up. */
#define LEAST_BYTES_PER_SECOND 1000L
/* Bytes that are read at once. */
#define READ_BYTES (512L << 10)
/* The body of a redirect is read up to here, so that its connection can be used again. */
#define MOST_REDIRECT_BODY (64 << 10)

struct transfer {
    CURL *curl;
    const transfer_options *options;
    char reason[CURL_ERROR_SIZE];
};

/* One answer on its way from libcurl to the caller. */
typedef struct exchange {
    transfer *t;
    const transfer_request *request;
    hearth_error *error;
    hearth_status status;    /* of the callbacks         */
    bool is_headed, stopped; /* the head was passed on; the body is not wanted */
    size_t discarded;        /* bytes of a redirect's body */
} exchange;

/* ------------------------------------------------------------------ opening */

hearth_status transfer_open(transfer **out, const transfer_options *options, hearth_error *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return fail(error, HEARTH_IO, "pull: libcurl cannot begin, or is out of memory");
    transfer *t = mem_new(sizeof *t);
    CURL *curl = t ? curl_easy_init() : NULL;
    if (!curl) {
        mem_free(t);
        curl_global_cleanup();
        return fail_memory(error, "libcurl", sizeof *t);
    }
    t->curl = curl;
    t->options = options;
    *out = t;
    return HEARTH_OK;
}

void transfer_close(transfer *t)
{
    if (!t)
        return;
    curl_easy_cleanup(t->curl);
    mem_free(t);
    curl_global_cleanup();
}

/* ------------------------------------------------------------------ the answer */

/* Returns a header of the last answer; NULL: it has none. */
static const char *header_of(CURL *curl, const char *name)
{
    struct curl_header *header;
    return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

static long status_of(CURL *curl)
{
    long status = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static bool is_redirect(CURL *curl)
{
    long status = status_of(curl);
    return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
           header_of(curl, "Location");
}

/* Passes the head on, unless that was done. */
static void pass_head(exchange *x)
{
    CURL *curl = x->t->curl;
    curl_off_t length = -1, wait = 0;
    if (x->is_headed)
        return;
    x->is_headed = true;
    (void)curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
    const transfer_head head = {
        .status = status_of(curl),
        .length = length >= 0 ? (uint64_t)length : SIZE_UNKNOWN,
        .wait_seconds = wait < 0            ? 0
                        : wait < UINT32_MAX ? (uint32_t)wait
                                            : UINT32_MAX,
        .content_range = header_of(curl, "Content-Range"),
        .content_type = header_of(curl, "Content-Type"),
        .content_encoding = header_of(curl, "Content-Encoding"),
        .etag = header_of(curl, "ETag"),
        .last_modified = header_of(curl, "Last-Modified"),
        .link = header_of(curl, "Link"),
        .reason = header_of(curl, "X-Error-Message"),
    };
    x->status = x->request->head(x->request->user, &head, &x->stopped, x->error);
}

/* Called by libcurl; less than all bytes makes it end the transfer. */
static size_t on_body(char *data, size_t one, size_t size, void *user)
{
    exchange *x = user;
    size *= one;
    if (is_redirect(x->t->curl)) {
        x->discarded += size;
        return x->discarded <= MOST_REDIRECT_BODY ? size : 0;
    }
    pass_head(x);
    if (x->status == HEARTH_OK && !x->stopped)
        x->status = x->request->body(x->request->user, data, size, x->error);
    return x->status == HEARTH_OK && !x->stopped ? size : 0;
}

static int on_time(void *user, curl_off_t total, curl_off_t now, curl_off_t upload_total, curl_off_t upload_now)
{
    const exchange *x = user;
    const transfer_options *o = x->t->options;
    (void)total, (void)now, (void)upload_total, (void)upload_now;
    return o->go_on && !o->go_on(o->user);
}

/* ------------------------------------------------------------------ the request */

/* Appends "NAME: VALUE". false: no memory. */
static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    buffer line = {0};
    bool ok = buffer_print(&line, "%s: %s", name, value) && buffer_put(&line, "", 1);
    struct curl_slist *longer = ok ? curl_slist_append(*list, line.data) : NULL;
    buffer_free(&line);
    if (longer)
        *list = longer;
    return longer != NULL;
}

/* Makes the headers of a request for `url`, to which the request's own may have been redirected. */
static bool make_headers(struct curl_slist **list, const transfer *t, const transfer_request *request, const char *url)
{
    const transfer_options *o = t->options;
    bool ok = add_header(list, "Accept-Encoding", "identity");
    if (ok && request->offset > 0) {
        char range[64];
        snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)request->offset);
        ok = add_header(list, "Range", range) &&
             (!request->validator || add_header(list, "If-Range", request->validator));
    }
    if (ok && o->token && url_same_origin(url, o->token_origin)) {
        buffer value = {0};
        ok = buffer_print(&value, "Bearer %s", o->token) && buffer_put(&value, "", 1) &&
             add_header(list, "Authorization", value.data);
        buffer_free(&value);
    }
    return ok;
}

/* Tells libcurl everything about a request. */
static CURLcode set_up(exchange *x, const char *url, const struct curl_slist *headers)
{
    transfer *t = x->t;
    const transfer_options *o = t->options;
    CURLcode code = CURLE_OK;
    curl_easy_reset(t->curl); /* options, not connections */
    t->reason[0] = 0;
#define SET(option, value) \
    if (code == CURLE_OK)  \
    code = curl_easy_setopt(t->curl, CURLOPT_##option, value)
    SET(ERRORBUFFER, t->reason);
    SET(URL, url);
    SET(PROTOCOLS_STR, "http,https");
    SET(NOSIGNAL, 1L);
    SET(USERAGENT, "hearth/" HEARTH_VERSION);
    SET(HTTPHEADER, headers);
    SET(CONNECTTIMEOUT, (long)o->timeout_seconds);
    SET(LOW_SPEED_TIME, (long)o->timeout_seconds);
    SET(LOW_SPEED_LIMIT, LEAST_BYTES_PER_SECOND);
    SET(BUFFERSIZE, READ_BYTES);
    SET(WRITEFUNCTION, on_body);
    SET(WRITEDATA, x);
    SET(XFERINFOFUNCTION, on_time);
    SET(XFERINFODATA, x);
    SET(NOPROGRESS, 0L);
    if (o->certificates)
        SET(CAINFO, o->certificates);
#undef SET
    return code;
}

/* ------------------------------------------------------------------ what went wrong */

/* Returns whether a later try may succeed: the network failed, not the request. */
static bool is_transient(CURLcode code)
{
    static const CURLcode codes[] = {
        CURLE_COULDNT_RESOLVE_PROXY,
        CURLE_COULDNT_RESOLVE_HOST,
        CURLE_COULDNT_CONNECT,
        CURLE_PARTIAL_FILE,
        CURLE_OPERATION_TIMEDOUT,
        CURLE_SSL_CONNECT_ERROR,
        CURLE_GOT_NOTHING,
        CURLE_SEND_ERROR,
        CURLE_RECV_ERROR,
        CURLE_HTTP2,
        CURLE_HTTP2_STREAM,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Turns the end of libcurl's part into a status. Errors name the URL that was asked for: what it redirects to is long, and may
 * be signed. */
static hearth_status judge(exchange *x, CURLcode code, bool *transient)
{
    const char *url = x->request->url;
    if (x->status != HEARTH_OK || x->stopped)
        return x->status;
    if (code == CURLE_OK)
        return HEARTH_OK;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return fail(x->error, HEARTH_CANCELLED, "%.400s: interrupted", url);
    if (x->discarded > MOST_REDIRECT_BODY)
        return fail(x->error, HEARTH_IO, "%.400s: redirects with a body of more than %d bytes", url,
                    MOST_REDIRECT_BODY);
    if (code == CURLE_OUT_OF_MEMORY)
        return fail_memory(x->error, url, 0);
    *transient = is_transient(code);
    return fail(x->error, HEARTH_IO, "%.400s: %s", url, x->t->reason[0] ? x->t->reason : curl_easy_strerror(code));
}

/* Sends one request and receives its answer. */
static hearth_status exchange_once(exchange *x, const char *url, bool *transient)
{
    struct curl_slist *headers = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (make_headers(&headers, x->t, x->request, url))
        code = set_up(x, url, headers);
    if (code == CURLE_OK) {
        code = curl_easy_perform(x->t->curl);
        if (code == CURLE_OK && !is_redirect(x->t->curl))
            pass_head(x); /* of an answer without a body */
    }
    curl_slist_free_all(headers);
    return judge(x, code, transient);
}

/* ------------------------------------------------------------------ redirects */

/* Returns where the last answer redirects to, checked, in a new block. */
static hearth_status read_redirect(char **out, const transfer *t, const char *url, hearth_error *error)
{
    char *to = NULL;
    hearth_error reason;
    (void)curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &to);
    if (!to)
        return fail(error, HEARTH_IO, "%.400s: redirects to nowhere", url);
    if (url_check(to, &reason) != HEARTH_OK)
        return fail(error, HEARTH_IO, "%.300s: redirects to %.300s, which is no plain URL of http or https", url, to);
    if (!url_may_redirect(url, to))
        return fail(error, HEARTH_IO, "%.300s: redirects from https to http: %.300s", url, to);
    *out = mem_copy_text(to, strlen(to));
    return *out ? HEARTH_OK : fail_memory(error, url, strlen(to));
}

hearth_status transfer_run(transfer *t, const transfer_request *request, bool *transient, hearth_error *error)
{
    exchange x = {.t = t, .request = request, .error = error};
    char *url = mem_copy_text(request->url, strlen(request->url));
    hearth_status status = url ? HEARTH_OK : fail_memory(error, request->url, strlen(request->url));
    *transient = false;
    for (int redirects = 0; status == HEARTH_OK && !x.is_headed; redirects++) {
        if (redirects > MOST_REDIRECTS) {
            status = fail(error, HEARTH_IO, "%.400s: more than %d redirects", request->url, MOST_REDIRECTS);
            break;
        }
        x.discarded = 0;
        status = exchange_once(&x, url, transient);
        if (status != HEARTH_OK || x.is_headed)
            break;
        char *next;
        status = read_redirect(&next, t, url, error);
        if (status == HEARTH_OK) {
            mem_free(url);
            url = next;
        }
    }
    mem_free(url);
    return status;
}
