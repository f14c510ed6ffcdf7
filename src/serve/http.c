/* http.c - connections, through libmicrohttpd: the only file that knows it.
 *
 * Few threads serve all connections. One that waits for an answer is suspended, and costs no thread: it is resumed when
 * the driver puts something into its outbox. */
#include "server.h"

#ifdef HEARTH_HAVE_MICROHTTPD

#include "api.h"
#include "listen.h"

#include "../base/clock.h"
#include "../base/memory.h"

#include <microhttpd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Threads: reading a long text into tokens, or rendering a conversation, delays only what is of the same thread. */
#define THREADS 2
/* Of each connection: the request line and all headers must fit. libmicrohttpd maps pools of more than 32 KiB and unmaps them with
 * their connection. Smaller ones come from malloc, where the pages that thousands of connections have touched stay with the process
 * (115 MB after 10 minutes of tools/soak-server became 139 MB after 60). */
#define POOL_BYTES ((size_t)36 << 10)
/* The most that is passed to a socket at once. */
#define PIECE_BYTES ((size_t)16 << 10)
/* All bodies of requests together, and all of replies that are not streams. */
#define BODIES_BYTES  ((size_t)512 << 20)
#define REPLIES_BYTES ((size_t)512 << 20)
/* A body that is too large is read and dropped up to so many times the bound, so that its client reads why. */
#define DROPPED_TIMES 4
/* How long clients may take to read that the server ends. */
#define FAREWELL_SECONDS 2.0

struct http {
    struct MHD_Daemon *daemon;
    int listener; /* once the door is closed: to be closed when no thread can use it any more; else -1 */
};

/* A request while it is read and answered. It belongs to its connection, which libmicrohttpd serves by one thread. */
typedef struct exchange {
    serve *serve;
    struct MHD_Connection *connection;
    const char *method;
    double began;
    buffer body;
    size_t received;
    bool is_refused, is_too_large, no_memory; /* the body is dropped */
    bool is_handled;
    reply reply;
    size_t counted; /* bytes of the reply, in serve.reply_bytes */
    buffer out;     /* of a stream: [size] of which out_at were passed on */
    size_t out_at;
    bool out_ended;
} exchange;

/* ------------------------------------------------------------------ waiting */

static void rest(void *user)
{
    MHD_suspend_connection(((exchange *)user)->connection);
}

static void wake(void *user)
{
    MHD_resume_connection(((exchange *)user)->connection);
}

static bool wait_for_more(exchange *x)
{
    const waiter w = {rest, wake, x};
    return talk_rest(x->reply.talk, &w);
}

/* ------------------------------------------------------------------ replies */

/* Adds the headers that all replies have, and those of some statuses. */
static void add_headers(const exchange *x, struct MHD_Response *response, const char *type)
{
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", x->reply.file ? "no-cache" : "no-store");
    if (x->reply.file)
        MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (x->reply.allow)
        MHD_add_response_header(response, "Allow", x->reply.allow);
    if (x->reply.status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    if (x->reply.status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (atomic_load(&x->serve->closing))
        MHD_add_response_header(response, "Connection", "close");
}

static enum MHD_Result queue(exchange *x, struct MHD_Response *response, const char *type)
{
    if (!response)
        return MHD_NO;
    add_headers(x, response, type);
    metrics_add(&x->serve->metrics, METRIC_REQUESTS, 1);
    metrics_add(&x->serve->metrics, METRIC_REFUSED, x->reply.status >= 400);
    enum MHD_Result result = MHD_queue_response(x->connection, x->reply.status, response);
    MHD_destroy_response(response);
    return result;
}

/* Counts the bytes of a reply, until its client has read it; one that is too much with the others is replaced. */
static void count_reply(exchange *x)
{
    problem p;
    x->counted = x->reply.body.size;
    if (atomic_fetch_add(&x->serve->reply_bytes, x->counted) + x->counted <= REPLIES_BYTES || x->reply.status != 200)
        return;
    atomic_fetch_sub(&x->serve->reply_bytes, x->counted);
    x->counted = 0;
    buffer_free(&x->reply.body);
    (void)problem_set(&p, 503, "busy", "there is no memory for this reply, as other clients do not read theirs");
    reply_problem(&x->reply, &p);
}

static enum MHD_Result queue_body(exchange *x)
{
    const buffer *body = &x->reply.body;
    const page_file *f = x->reply.file;
    if (f) /* it is never written to */
        return queue(x, MHD_create_response_from_buffer(f->size, (void *)(uintptr_t)f->data, MHD_RESPMEM_PERSISTENT),
                     f->type);
    count_reply(x);
    /* It is freed once the request is completed. */
    return queue(x, MHD_create_response_from_buffer(body->size, body->data, MHD_RESPMEM_PERSISTENT), x->reply.type);
}

/* Passes on the next bytes of a stream; with none it waits. */
static ssize_t read_stream(void *user, uint64_t position, char *out, size_t most)
{
    (void)position;
    exchange *x = user;
    while (x->out_at == x->out.size) {
        x->out_at = x->out.size = 0;
        if (x->out_ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (!talk_stream(x->reply.talk, &x->out, &x->out_ended))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (x->out.size == 0 && !x->out_ended && wait_for_more(x))
            return 0;
    }
    size_t left = x->out.size - x->out_at, count = left < most ? left : most;
    memcpy(out, x->out.data + x->out_at, count);
    x->out_at += count;
    return (ssize_t)count;
}

static enum MHD_Result queue_stream(exchange *x)
{
    x->reply.status = 200;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_stream, x, NULL);
    if (response)
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* proxies pass on each piece */
    return queue(x, response, "text/event-stream");
}

/* Answers with what there is, or waits. */
static enum MHD_Result go_on(exchange *x)
{
    talk *t = x->reply.talk;
    if (!t)
        return queue_body(x);
    if (t->job->streams)
        return queue_stream(x);
    while (!talk_collect(t, &x->reply))
        if (wait_for_more(x))
            return MHD_YES;
    return queue_body(x);
}

/* ------------------------------------------------------------------ requests */

static const char *header(const exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* Returns the model that a query names: "?model=NAME"; nothing: it names none. */
static span model_of_query(const exchange *x)
{
    const char *name = MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, "model");
    return name ? span_of(name) : (span){0};
}

/* Says what is wrong before a handler is asked. */
static const route *find_route(exchange *x, const char *path, problem *p)
{
    const credentials c = {header(x, "Host"), header(x, "Origin"), header(x, "Authorization"), header(x, "x-api-key")};
    const route *nearest;
    problem missing;
    const route *to = route_find(x->method, path, &nearest, &missing);
    x->reply.errors = nearest ? nearest->errors : &problem_openai;
    if (!access_check(x->serve, to, &c, p))
        return NULL;
    if (!to) {
        x->reply.allow = nearest ? nearest->method : NULL;
        *p = missing;
    } else if (x->is_too_large) {
        (void)problem_set(p, 413, "body_too_large", "the body has more than %zu bytes", x->serve->options.body_bytes);
    } else if (x->no_memory) {
        (void)problem_set(p, 503, "busy", "there is no memory for the body of this request");
    } else if (atomic_load(&x->serve->closing) && !to->is_open) {
        (void)problem_set(p, 503, "shutting_down", "the server is shutting down");
    } else {
        return to;
    }
    return NULL;
}

/* Lets the handler of a request answer it, once it has been read. */
static void handle(exchange *x, const char *path)
{
    problem p = {0};
    const route *to = find_route(x, path, &p);
    x->is_handled = true;
    atomic_fetch_add(&x->serve->replies, 1);
    if (!to) {
        reply_problem(&x->reply, &p);
        return;
    }
    span given = (span){x->body.data, x->body.size};
    if (strcmp(to->method, "GET") == 0)
        given = to->has_rest ? span_of(path + strlen(to->path)) : model_of_query(x);
    if (to->answer)
        to->answer(x->serve, given, &x->reply);
    else
        x->reply = (reply){.status = 200, .file = page_find(path)};
    atomic_fetch_sub(&x->serve->body_bytes, x->body.size);
    buffer_free(&x->body);
    if (!x->reply.talk)
        return;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info)
        atomic_store(&x->reply.talk->job->socket, info->connect_fd);
}

/* Takes a part of a body. false: the connection is to be closed. */
static bool receive(exchange *x, const char *data, size_t size)
{
    serve *s = x->serve;
    x->received += size;
    x->is_too_large |= x->received > s->options.body_bytes;
    if (x->received > DROPPED_TIMES * s->options.body_bytes || clock_seconds() - x->began > 2.0 * s->options.patience)
        return false;
    if (x->is_too_large || x->no_memory || x->is_refused)
        return true;
    x->no_memory = atomic_fetch_add(&s->body_bytes, size) + size > BODIES_BYTES || !buffer_put(&x->body, data, size);
    if (x->no_memory)
        atomic_fetch_sub(&s->body_bytes, size);
    return true;
}

/* Returns whether a body that is announced need not be waited for. */
static bool is_hopeless(exchange *x)
{
    const char *announced = header(x, "Content-Length");
    unsigned long long size = announced ? strtoull(announced, NULL, 10) : 0, most = x->serve->options.body_bytes;
    return size > DROPPED_TIMES * most || (size > most && header(x, "Expect"));
}

static exchange *exchange_new(serve *s, struct MHD_Connection *connection, const char *method)
{
    exchange *x = mem_new(sizeof *x);
    if (!x)
        return NULL;
    x->serve = s;
    x->connection = connection;
    x->method = method;
    x->began = clock_seconds();
    atomic_fetch_add(&s->exchanges, 1);
    return x;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    (void)version;
    exchange *x = *state;
    if (!x) { /* the headers have come */
        x = *state = exchange_new(user, connection, method);
        if (!x)
            return MHD_NO;
        problem p;
        x->is_too_large = is_hopeless(x);
        x->is_refused = !find_route(x, path, &p);
        if (!x->is_too_large)
            return MHD_YES;
        handle(x, path);
        return go_on(x);
    }
    if (*size > 0) {
        bool goes_on = receive(x, data, *size);
        *size = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    if (!x->is_handled)
        handle(x, path);
    return go_on(x);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)user;
    (void)connection;
    (void)code;
    exchange *x = *state;
    if (!x)
        return;
    *state = NULL;
    talk_free(x->reply.talk);
    atomic_fetch_sub(&x->serve->body_bytes, x->body.size);
    buffer_free(&x->body);
    buffer_free(&x->out);
    buffer_free(&x->reply.body);
    atomic_fetch_sub(&x->serve->reply_bytes, x->counted);
    atomic_fetch_sub(&x->serve->replies, x->is_handled);
    atomic_fetch_sub(&x->serve->exchanges, 1);
    mem_free(x);
}

/* ------------------------------------------------------------------ life */

static void say_nothing(void *user, const char *format, va_list values)
{
    (void)user;
    (void)format;
    (void)values;
}

/* With epoll, MHD_quiesce_daemon and a thread that stops listening at the same moment both take the listener out of the thread's
 * set, and whichever comes second ends the process (0.9.75). With poll there is no such set. */
static struct MHD_Daemon *start(serve *s, int listener)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    unsigned connections = s->options.connections < THREADS ? THREADS : s->options.connections;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, NULL, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->options.patience, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

hearth_status serve_check(hearth_error *error)
{
    (void)error;
    return HEARTH_OK;
}

hearth_status http_open(serve *s, hearth_error *error)
{
    int listener;
    sigset_t all, before;
    TRY(listen_open(&listener, s->options.host, s->options.port, s->url, sizeof s->url, &s->is_local, error));
    s->http = mem_new(sizeof *s->http);
    if (s->http)
        s->http->listener = -1;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (s->http)
        s->http->daemon = start(s, listener);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s->http && s->http->daemon)
        return HEARTH_OK;
    close(listener);
    return fail(error, HEARTH_IO, "%s: the server cannot be started", s->url);
}

void http_close_door(serve *s)
{
    if (!s->http || !s->http->daemon || s->http->listener >= 0)
        return;
    s->http->listener = MHD_quiesce_daemon(s->http->daemon);
    if (s->http->listener >= 0)
        (void)shutdown(s->http->listener, SHUT_RDWR); /* clients are refused from now on */
}

void http_close(serve *s)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    double begin = clock_seconds();
    if (!s->http)
        return;
    while (s->http->daemon && atomic_load(&s->replies) > 0 && clock_seconds() - begin < FAREWELL_SECONDS)
        nanosleep(&moment, NULL);
    if (s->http->daemon)
        MHD_stop_daemon(s->http->daemon);
    if (s->http->listener >= 0)
        close(s->http->listener);
    mem_free(s->http);
}

#else /* without libmicrohttpd */

hearth_status serve_check(hearth_error *error)
{
    return fail(error, HEARTH_UNSUPPORTED,
                "serve: this hearth has no server: it was built where libmicrohttpd was missing");
}

hearth_status http_open(serve *s, hearth_error *error)
{
    (void)s;
    return serve_check(error);
}

void http_close_door(serve *s)
{
    (void)s;
}

void http_close(serve *s)
{
    (void)s;
}

#endif
