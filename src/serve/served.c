/* served.c - a model of a server: its life, and how requests find it. */
#include "server.h"

#include "../engine/engine.h"

/* Sequences that keep what earlier requests have read. */
#define KEPT_SEQUENCES 64

/* ------------------------------------------------------------------ life */

static void on_lost(void *user)
{
    serve_lose(user);
}

/* Sets how much of what was read is kept: besides the sequences that answer others, which live of the same memory. With
 * recurrent layers each would take memory of its own, so there are none. */
static void set_kept(served *m)
{
    const hearth_engine *engine = m->options.engine;
    hearth_session_options *session = &m->options.session;
    uint64_t each = engine_position_bytes(engine, session->kv);
    session->spare_sequences = engine->host_recurrent + engine->device_recurrent > 0 ? 0 : KEPT_SEQUENCES;
    if (m->options.cache_bytes > 0 && each > 0)
        session->cache_positions = m->options.cache_bytes / each;
}

/* Refuses numbers of sampling that no answer could be written with: now, not with each request. */
static hearth_status check_sampling(const served *m, hearth_error *error)
{
    hearth_sampler *trial = NULL;
    hearth_status status = hearth_sampler_create(&trial, &m->options.sampling, m->info.vocabulary_size, error);
    hearth_sampler_destroy(trial);
    return status;
}

hearth_status served_open(served *m, serve *s, const served_options *options, hearth_error *error)
{
    served_options *own = &m->options;
    *m = (served){.serve = s, .options = *options, .model = hearth_engine_model(options->engine)};
    if (own->session.sequences == 0)
        own->session.sequences = 1;
    own->session.output_rows = own->session.sequences * (1 + own->draft);
    hearth_model_describe(m->model, &m->info);
    set_kept(m);
    if (own->session.cache_positions == 0 && own->cache_bytes > 0)
        return fail(error, HEARTH_INVALID, "serve: %llu bytes do not hold the keys and values of one token",
                    (unsigned long long)own->cache_bytes);
    if (!m->info.has_tokenizer)
        return fail(error, HEARTH_UNSUPPORTED, "%s: has no tokenizer", m->info.path);
    TRY(check_sampling(m, error));
    const driver_options work = {.session = own->session,
                                 .prompt_rows = own->prompt_rows,
                                 .queue = own->queue,
                                 .pooling = own->pooling,
                                 .beat = s->options.beat,
                                 .computing = &s->computing,
                                 .metrics = &m->metrics,
                                 .predicted = own->predicted,
                                 .folder = own->cache_folder,
                                 .name = own->name,
                                 .on_lost = on_lost,
                                 .user = s};
    return driver_create(&m->driver, own->engine, &work, error);
}

hearth_status served_close(served *m, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    if (m->driver && m->serve->listens)
        status = driver_save(m->driver, error);
    driver_destroy(m->driver);
    return status;
}

/* ------------------------------------------------------------------ by name */

/* Refuses a name that none has, and lists those there are. */
static void say_unknown(const serve *s, span name, problem *p)
{
    buffer names = {0};
    bool ok = true;
    for (size_t i = 0; i < s->model_count && ok; i++)
        ok = buffer_print(&names, "%s%s", i > 0 ? ", " : "", s->models[i].options.name);
    (void)problem_set(p, 404, "model_not_found", "%.*s: there is no such model, only %.*s",
                      (int)(name.size < 256 ? name.size : 256), name.data, ok ? (int)names.size : 0,
                      names.data ? names.data : "");
    buffer_free(&names);
}

served *served_find(serve *s, span name, problem *p)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (span_equal(name, span_of(s->models[i].options.name)))
            return &s->models[i];
    say_unknown(s, name, p);
    return NULL;
}

served *served_choose(serve *s, span name, problem *p)
{
    return s->model_count == 1 || name.size == 0 ? s->models : served_find(s, name, p);
}
