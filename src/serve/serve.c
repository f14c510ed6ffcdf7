/* serve.c - the life of a server. */
#include "server.h"

#include "../base/memory.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Descriptors that are needed besides those of connections: files of the model, threads, devices. */
#define OTHER_DESCRIPTORS 128

/* Asks the system for a descriptor for each connection; with fewer, some connections wait to be accepted. */
static void want_descriptors(uint32_t connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Called from the thread of any model. */
void serve_lose(serve *s)
{
    uint64_t one = 1;
    if (write(s->lost, &one, sizeof one) != (ssize_t)sizeof one)
        return; /* it is raised already */
}

static hearth_status open_parts(serve *s, hearth_error *error)
{
    size_t count = s->options.model_count;
    TRY(serve_check(error));
    s->lost = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->lost < 0)
        return fail_errno(error, "serve", "eventfd");
    s->models = mem_new_array(count, sizeof *s->models);
    if (!s->models)
        return fail_memory(error, "serve", count * sizeof *s->models);
    while (s->model_count < count) {
        served *m = &s->models[s->model_count];
        TRY(served_open(m, s, &s->options.models[s->model_count++], error));
    }
    TRY(http_open(s, error));
    s->listens = true;
    return HEARTH_OK;
}

hearth_status serve_open(serve **out, const serve_options *options, hearth_error *error)
{
    serve *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "serve", sizeof *s);
    s->options = *options;
    s->started = (int64_t)time(NULL);
    s->lost = -1;
    ticket_lock_init(&s->computing);
    want_descriptors(options->connections);
    hearth_status status = open_parts(s, error);
    if (status == HEARTH_OK)
        *out = s;
    else
        (void)serve_close(s, NULL);
    return status;
}

/* Every job ends, so every connection that waited for one wakes. */
static void stop_drivers(serve *s)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (s->models[i].driver)
            driver_ask_stop(s->models[i].driver);
    for (size_t i = 0; i < s->model_count; i++)
        if (s->models[i].driver)
            driver_stop(s->models[i].driver);
}

hearth_status serve_close(serve *s, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    if (!s)
        return status;
    atomic_store(&s->closing, true);
    http_close_door(s);
    stop_drivers(s);
    http_close(s);
    for (size_t i = 0; i < s->model_count; i++) {
        hearth_error later;
        hearth_status stored = served_close(&s->models[i], status == HEARTH_OK ? error : &later);
        status = status == HEARTH_OK ? stored : status;
    }
    mem_free(s->models);
    ticket_lock_destroy(&s->computing);
    if (s->lost >= 0)
        close(s->lost);
    mem_free(s);
    return status;
}

const char *serve_url(const serve *s)
{
    return s->url;
}

uint32_t serve_context(const serve *s, size_t model)
{
    return driver_context(s->models[model].driver);
}

uint32_t serve_restored(const serve *s, size_t model, const char **refusal)
{
    const saved_found *saved = driver_saved(s->models[model].driver);
    *refusal = saved->refused > 0 ? saved->first.text : NULL;
    return saved->restored;
}

int serve_lost(const serve *s)
{
    return s->lost;
}

hearth_status serve_state(serve *s, hearth_error *error)
{
    hearth_error why;
    for (size_t i = 0; i < s->model_count; i++)
        if (!driver_is_well(s->models[i].driver, &why))
            return fail(error, why.status, "%s", why.text);
    return HEARTH_OK;
}
