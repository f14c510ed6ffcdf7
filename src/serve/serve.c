/* serve.c - the life of a server. */
#include "server.h"

#include "../base/memory.h"
#include "../engine/engine.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Descriptors that are needed besides those of connections: files of the model, threads, devices. */
#define OTHER_DESCRIPTORS 128
/* Sequences that keep what earlier requests have read. */
#define KEPT_SEQUENCES 64

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

static void on_lost(void *user)
{
    const serve *s = user;
    uint64_t one = 1;
    if (write(s->lost, &one, sizeof one) != (ssize_t)sizeof one)
        return; /* it is raised already */
}

/* Sets how much of what was read is kept: besides the sequences that answer others, which live of the same memory. With
 * recurrent layers each would take memory of its own, so there are none. */
static void set_kept(serve *s)
{
    hearth_session_options *session = &s->options.session;
    uint64_t each = engine_position_bytes(s->engine, session->kv);
    session->spare_sequences = s->engine->host_recurrent + s->engine->device_recurrent > 0 ? 0 : KEPT_SEQUENCES;
    if (s->options.cache_bytes > 0 && each > 0)
        session->cache_positions = s->options.cache_bytes / each;
}

/* Refuses numbers of sampling that no answer could be written with: now, not with each request. */
static hearth_status check_sampling(const serve *s, hearth_error *error)
{
    hearth_sampler *trial = NULL;
    hearth_status status = hearth_sampler_create(&trial, &s->options.sampling, s->info.vocabulary_size, error);
    hearth_sampler_destroy(trial);
    return status;
}

static hearth_status open_parts(serve *s, hearth_error *error)
{
    set_kept(s);
    driver_options own = {.session = s->options.session,
                          .prompt_rows = s->options.prompt_rows,
                          .queue = s->options.queue,
                          .pooling = s->options.pooling,
                          .beat = s->options.beat,
                          .metrics = &s->metrics,
                          .predicted = s->options.predicted,
                          .folder = s->options.cache_folder,
                          .name = s->options.name,
                          .on_lost = on_lost,
                          .user = s};
    TRY(serve_check(error));
    if (own.session.cache_positions == 0 && s->options.cache_bytes > 0)
        return fail(error, HEARTH_INVALID, "serve: %llu bytes do not hold the keys and values of one token",
                    (unsigned long long)s->options.cache_bytes);
    s->lost = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->lost < 0)
        return fail_errno(error, "serve", "eventfd");
    if (!s->info.has_tokenizer)
        return fail(error, HEARTH_UNSUPPORTED, "%s: has no tokenizer", s->info.path);
    TRY(check_sampling(s, error));
    TRY(driver_create(&s->driver, s->engine, &own, error));
    TRY(http_open(s, error));
    s->listens = true;
    return HEARTH_OK;
}

hearth_status serve_open(serve **out, const hearth_engine *engine, const serve_options *options, hearth_error *error)
{
    serve *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "serve", sizeof *s);
    s->options = *options;
    if (s->options.session.sequences == 0)
        s->options.session.sequences = 1;
    s->options.session.output_rows = s->options.session.sequences * (1 + s->options.draft);
    s->engine = engine;
    s->model = hearth_engine_model(engine);
    s->started = (int64_t)time(NULL);
    s->lost = -1;
    hearth_model_describe(s->model, &s->info);
    want_descriptors(options->connections);
    hearth_status status = open_parts(s, error);
    if (status == HEARTH_OK)
        *out = s;
    else
        (void)serve_close(s, NULL);
    return status;
}

hearth_status serve_close(serve *s, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    if (!s)
        return status;
    atomic_store(&s->closing, true);
    http_close_door(s);
    if (s->driver)
        driver_stop(s->driver); /* every job has ended, and every connection that waited for one is awake */
    http_close(s);
    if (s->listens)
        status = driver_save(s->driver, error);
    driver_destroy(s->driver);
    if (s->lost >= 0)
        close(s->lost);
    mem_free(s);
    return status;
}

const char *serve_url(const serve *s)
{
    return s->url;
}

uint32_t serve_context(const serve *s)
{
    return driver_context(s->driver);
}

int serve_lost(const serve *s)
{
    return s->lost;
}

uint32_t serve_restored(const serve *s, const char **refusal)
{
    const saved_found *saved = driver_saved(s->driver);
    *refusal = saved->refused > 0 ? saved->first.text : NULL;
    return saved->restored;
}

hearth_status serve_state(serve *s, hearth_error *error)
{
    hearth_error why;
    return driver_is_well(s->driver, &why) ? HEARTH_OK : fail(error, why.status, "%s", why.text);
}
