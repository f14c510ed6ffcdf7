/* serve.c - `hearth serve`: answers requests over HTTP. */
#include "../serve/serve.h"
#include "../base/file.h"
#include "../base/wakeup.h"
#include "../chat/template.h"
#include "../model/model.h"
#include "chat_options.h"
#include "common.h"
#include "output.h"
#include "sampling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Pieces of memory from this size on go back to the system when they are freed. */
#define LARGE_BYTES (1 << 20)

#define MAX_KEY_BYTES ((size_t)1 << 20)
/* The longest line with a key: it has to fit into a header. */
#define LONGEST_KEY 4096

typedef struct serve_values {
    engine_options engine;
    chat_options chat;
    sampling_options sampling;
    const char *host, *name, *key_file, *cache_folder;
    uint64_t body, cache_memory; /* bytes; 0: what full contexts take */
    uint32_t port, parallel, prompt_rows, draft, queue, connections, beat, patience;
    unsigned pooling;
    text_list keys;
} serve_values;

static const char *const pooling_choices[] = {
#define X(id, name) [id] = (name),
    POOLINGS(X)
#undef X
        NULL,
};

static const option rows[] = {
    {OPTION_ROW(0, "host", TEXT, serve_values, host, "HOST",
                "the name or address to listen at (default 127.0.0.1: this machine alone)")},
    {OPTION_ROW(0, "port", COUNT, serve_values, port, "N", "the port; 0: any free one (default 8080)"), .least = 0,
     .most = 65535},
    {OPTION_ROW(0, "alias", TEXT, serve_values, name, "NAME",
                "the model's name for clients; else its file's; of several models each may be NAME=MODEL instead")},
    {OPTION_ROW(0, "api-key", TEXTS, serve_values, keys, "KEY",
                "a key that requests must show; may be given several times; others see it in the list of processes, so "
                "a file is better")},
    {OPTION_ROW(0, "api-key-file", TEXT, serve_values, key_file, "FILE",
                "a file with a key on each line; empty lines, and those that begin with #, count for nothing")},
    {OPTION_ROW(0, "parallel", COUNT, serve_values, parallel, "N",
                "answers that are written at once, each with a context of its own (default 4)"),
     .least = 1, .most = 256},
    {OPTION_ROW(
         0, "prompt-rows", COUNT, serve_values, prompt_rows, "N",
         "tokens of prompts that are read between two tokens of the answers (default 64, and on a device up to 512 "
         "while no answer is written): more read long prompts faster, and answers wait longer for them"),
     .least = 1, .most = 65536},
    {OPTION_ROW(0, "draft", COUNT, serve_values, draft, "N",
                "guesses up to N tokens of each answer at once, as `hearth run --draft` does (default 0, none)"),
     .alias = "draft-max", .least = 0, .most = 7},
    {OPTION_ROW(
         0, "pooling", CHOICE, serve_values, pooling, "mean|last",
         "what /v1/embeddings makes one vector of: the mean of the hidden states of all tokens of a text, or the "
         "last one, for models that were trained for that (default mean)"),
     .choices = pooling_choices},
    {OPTION_ROW(0, "cache-memory", SIZE, serve_values, cache_memory, "SIZE",
                "memory for keys and values of each model, of answers and of what earlier requests have read, which is "
                "given up when it is "
                "needed, the least recently used first (default: what --parallel full contexts take)"),
     .alias = "cache-ram"},
    {OPTION_ROW(0, "cache-dir", TEXT, serve_values, cache_folder, "FOLDER",
                "what was read is stored there when the server ends, and known when it starts again")},
    {OPTION_ROW(0, "queue", COUNT, serve_values, queue, "N",
                "answers that wait for one of these; further requests are told to come again (default 256)"),
     .least = 0, .most = 65536},
    {OPTION_ROW(0, "connections", COUNT, serve_values, connections, "N", "connections at once (default 4096)"),
     .least = 2, .most = 1 << 20},
    {OPTION_ROW(
         0, "timeout", COUNT, serve_values, patience, "SECONDS",
         "ends a connection without a sign of life for so long (default 60); one that waits for an answer stays"),
     .least = 1, .most = 86400},
    {OPTION_ROW(
         0, "ping-interval", COUNT, serve_values, beat, "SECONDS",
         "a stream that has to wait for so long says that it is worked on, since proxies and clients give up what "
         "is silent (default 15; 0: never)"),
     .alias = "sse-ping-interval", .least = 0, .most = 86400},
    {OPTION_ROW(0, "body-limit", SIZE, serve_values, body, "SIZE", "the largest request (default 8M)")},
};

static void defaults(void *values)
{
    serve_values *v = values;
    *v = (serve_values){.host = "127.0.0.1",
                        .port = 8080,
                        .parallel = 4,
                        .queue = 256,
                        .connections = 4096,
                        .beat = 15,
                        .patience = 60,
                        .body = 8000000};
    sampling_defaults(&v->sampling);
}

/* ------------------------------------------------------------------ keys */

static hearth_status add_key(text_list *keys, const char *key, size_t size, arena *memory, const char *from,
                             hearth_error *error)
{
    if (size == 0 || size > LONGEST_KEY)
        return fail(error, HEARTH_INVALID, "serve: %s: a key is %s", from, size ? "too long" : "empty");
    const char **items = arena_new_array(memory, keys->count + 1, sizeof *items);
    char *copy = arena_copy_text(memory, key, size);
    if (!items || !copy)
        return fail_memory(error, from, size);
    if (keys->count > 0)
        memcpy(items, keys->items, keys->count * sizeof *items);
    items[keys->count] = copy;
    *keys = (text_list){items, keys->count + 1};
    return HEARTH_OK;
}

/* Adds the keys of a file's lines. A file without any would let in everybody. */
static hearth_status read_keys(text_list *keys, const char *path, arena *memory, hearth_error *error)
{
    char *text;
    size_t size, before = keys->count;
    hearth_status status = HEARTH_OK;
    TRY(file_read(&text, &size, path, MAX_KEY_BYTES, error));
    for (char *line = text, *next; status == HEARTH_OK && line; line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : NULL;
        size_t length = strcspn(line, "\r\n");
        if (length > 0 && line[0] != '#')
            status = add_key(keys, line, length, memory, path, error);
    }
    mem_free(text);
    if (status == HEARTH_OK && keys->count == before)
        status = fail(error, HEARTH_INVALID, "serve: --api-key-file: %s: has no key", path);
    return status;
}

static hearth_status check_keys(const text_list *keys, hearth_error *error)
{
    for (size_t i = 0; i < keys->count; i++)
        if (!*keys->items[i] || strlen(keys->items[i]) > LONGEST_KEY)
            return fail(error, HEARTH_INVALID, "serve: --api-key: is %s", *keys->items[i] ? "too long" : "empty");
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ which models */

/* A model that is to be served. */
typedef struct entry {
    const char *name, *path;
    loaded loaded;
    char *text, *variables; /* of its chat template; NULL: the model's own, none */
} entry;

typedef struct entries {
    entry *items; /* [count] */
    size_t count;
    arena *memory;
} entries;

/* Returns the name of a model's file, without its ending. */
static const char *name_of(const char *path, arena *memory)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    span name = {path + begin, end - begin};
    if (name.size > 5 && strncmp(name.data + name.size - 5, ".gguf", 5) == 0)
        name.size -= 5;
    return arena_copy_text(memory, name.data, name.size);
}

/* Reads NAME=MODEL, or MODEL alone. A '/' ends what may be a name, so that ./a=b.gguf is a file. */
static hearth_status add_entry(entries *all, const char *given, bool may_name, hearth_error *error)
{
    size_t length = strcspn(given, "=/");
    bool is_named = may_name && length > 0 && given[length] == '=';
    const char *path = is_named ? given + length + 1 : given;
    if (!*path)
        return fail(error, HEARTH_INVALID, "serve: MODEL: is empty");
    const char *name = is_named ? arena_copy_text(all->memory, given, length) : name_of(path, all->memory);
    if (!name)
        return fail_memory(error, "name", length);
    all->items[all->count++] = (entry){.name = name, .path = path};
    return HEARTH_OK;
}

/* Lists the models that -m and the operands name; without any the one that other commands take, too. */
static hearth_status list_entries(entries *out, serve_values *v, operands *rest, hearth_error *error)
{
    const char *first = v->engine.model.model;
    *out =
        (entries){.items = arena_new_array(rest->memory, rest->count + 1, sizeof *out->items), .memory = rest->memory};
    if (!out->items)
        return fail_memory(error, "models", (rest->count + 1) * sizeof *out->items);
    if (first)
        TRY(add_entry(out, first, true, error));
    for (size_t i = 0; i < rest->count; i++)
        TRY(add_entry(out, rest->items[i], true, error));
    if (out->count > 0)
        return HEARTH_OK;
    TRY(common_take_model("serve", &v->engine.model, rest, 0, true, error));
    return add_entry(out, v->engine.model.model, false, error);
}

/* Refuses what would be wrong for all models but one. */
static hearth_status check_several(const entries *all, const serve_values *v, hearth_error *error)
{
    const model_options *m = &v->engine.model;
    const char *own = m->tune && strcmp(m->tune, "none") != 0 ? "tune"
                      : m->ffn_activation                     ? "ffn-activation"
                      : v->engine.place                       ? "place"
                      : v->engine.threshold.given             ? "threshold"
                                                              : NULL;
    if (v->name)
        return fail(error, HEARTH_INVALID, "serve: --alias: names one model; several are named as NAME=MODEL");
    if (own)
        return fail(error, HEARTH_INVALID, "serve: --%s: belongs to one model, but %zu are to be served", own,
                    all->count);
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(all->items[i].name, all->items[k].name) == 0)
                return fail(error, HEARTH_INVALID, "serve: %s and %s have one name, %s: NAME=MODEL gives another",
                            all->items[k].path, all->items[i].path, all->items[i].name);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ a model */

/* Fills in what chats need, once the template has been read: its text where it is a file, and the variables as JSON. */
static hearth_status open_template(served_options *o, const serve_values *v, entry *e, hearth_error *error)
{
    span source;
    chat_form form;
    if (!v->chat.template && v->chat.variables.count == 0)
        return HEARTH_OK;
    TRY(chat_source(&v->chat, e->loaded.model->source, &source, &e->text, error));
    TRY(chat_form_open(&form, "serve", &v->chat, source, v->chat.template ? v->chat.template : "chat template", error));
    hearth_status status = HEARTH_OK;
    if (form.has_now)
        status = fail(error, HEARTH_INVALID, "serve: --set: strftime_now: a server's clock cannot be fixed");
    e->variables = json_dumps(form.variables, JSON_COMPACT);
    chat_form_close(&form);
    if (status == HEARTH_OK && !e->variables)
        status = fail_memory(error, "--set", 0);
    o->variables = e->variables;
    o->template_text = e->text;
    o->template_name = e->text ? NULL : v->chat.template;
    return status;
}

/* Loads a model. o: holds what all have in common; the rest is filled in. */
static hearth_status load(entry *e, const serve_values *v, served_options *o, hearth_error *error)
{
    progress p;
    engine_options engine = v->engine;
    loaded *l = &e->loaded;
    engine.model.model = e->path;
    engine.plans = true;
    engine.sequences = v->parallel;
    TRY(common_load(l, &engine, &p, error));
    o->name = e->name;
    o->engine = l->engine;
    if (l->is_planned && l->planned.own && o->session.context == 0)
        o->session.context = (uint32_t)l->planned.request.context;
    if (l->is_planned)
        o->predicted = 1 / planned_seconds(&l->planned, 0.5 * (double)l->planned.request.context);
    TRY(model_need_tokenizer(l->model, error));
    return open_template(o, v, e, error);
}

static void unload(entry *e)
{
    common_unload(&e->loaded);
    free(e->variables);
    mem_free(e->text);
}

/* ------------------------------------------------------------------ the command */

/* Says of a model how it is served, and what it remembers. */
static void say_model(const serve *s, const served_options *o, size_t number, const message_options *messages)
{
    const char *problem;
    uint32_t restored = serve_restored(s, number, &problem);
    if (!messages->quiet)
        fprintf(stderr, "%s: %u answers at once, each of up to %u tokens; mode %s, guarantee %s\n", o->name,
                o->session.sequences, serve_context(s, number), hearth_mode_name(hearth_engine_mode(o->engine)),
                hearth_guarantee_name(hearth_engine_guarantee(o->engine)));
    if (problem && !messages->quiet)
        output_note("warning", "not all of %s is used: %s", o->cache_folder, problem);
    if (restored > 0 && messages->verbose)
        fprintf(stderr, "%s: %u sequences of %s that were read before\n", o->cache_folder, restored, o->name);
}

static void say(const serve *s, const serve_options *o, const message_options *messages)
{
    if (!messages->quiet && o->key_count == 0 && strncmp(serve_url(s), "http://127.", 11) != 0 &&
        strncmp(serve_url(s), "http://[::1]", 12) != 0)
        output_note("warning", "others can reach %s, and no key is asked of them (--api-key-file)", serve_url(s));
    for (size_t i = 0; i < o->model_count; i++)
        say_model(s, &o->models[i], i, messages);
    printf("listening on %s\n", serve_url(s));
    output_flush();
}

/* Serves until a signal comes, or a device fails. */
static hearth_status serve_until_signal(const serve_options *o, const message_options *messages, hearth_error *error)
{
    serve *s;
    TRY(serve_open(&s, o, error));
    say(s, o, messages);
    bool lost = wakeup_wait(serve_lost(s));
    hearth_status status = lost ? serve_state(s, error) : HEARTH_OK;
    hearth_error unsaved;
    if (serve_close(s, &unsaved) != HEARTH_OK && !messages->quiet)
        output_note("warning", "not all that was read is stored: %s", unsaved.text);
    return status;
}

/* Loads one model after the other, and serves them. common: what holds for all of them. */
static hearth_status load_and_serve(const entries *all, const serve_values *v, const served_options *common,
                                    serve_options *o, hearth_error *error)
{
    served_options *models = arena_new_array(all->memory, all->count, sizeof *models);
    hearth_status status = models ? HEARTH_OK : fail_memory(error, "models", all->count * sizeof *models);
    for (size_t i = 0; i < all->count && status == HEARTH_OK; i++) {
        models[i] = *common;
        status = load(&all->items[i], v, &models[i], error);
    }
    o->models = models;
    o->model_count = all->count;
    if (status == HEARTH_OK)
        status = serve_until_signal(o, &v->engine.messages, error);
    for (size_t i = all->count; i-- > 0;)
        unload(&all->items[i]);
    return status;
}

/* Has large pieces returned to the system. By itself glibc does so with the first alone: the next of such a size come from its
 * arenas, which keep them (after four dozen bodies of 7 MB, 12 at once, 140 MB). */
static void return_large_pieces(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}

static hearth_status run_serve(void *values, operands *rest, hearth_error *error)
{
    serve_values *v = values;
    entries all;
    return_large_pieces();
    TRY(serve_check(error));
    TRY(list_entries(&all, v, rest, error));
    if (all.count > 1)
        TRY(check_several(&all, v, error));
    else if (v->name)
        all.items->name = v->name;
    TRY(check_keys(&v->keys, error));
    if (v->key_file)
        TRY(read_keys(&v->keys, v->key_file, rest->memory, error));
    bool has_seed = v->sampling.seed.given;
    TRY(sampling_resolve("serve", &v->sampling, rest->memory, error));
    const served_options common = {
        .sampling = v->sampling.sampling,
        .has_seed = has_seed,
        .session = {.context = v->engine.context, .sequences = v->parallel, .kv = (hearth_kv)v->engine.kv},
        .cache_bytes = v->cache_memory,
        .cache_folder = v->cache_folder,
        .prompt_rows = v->prompt_rows,
        .draft = v->draft,
        .queue = v->queue,
        .pooling = (pooling)v->pooling};
    serve_options o = {.host = v->host,
                       .port = (uint16_t)v->port,
                       .keys = v->keys.items,
                       .key_count = v->keys.count,
                       .connections = v->connections,
                       .beat = v->beat,
                       .patience = v->patience,
                       .body_bytes = v->body < SIZE_MAX / 8 ? (size_t)v->body : SIZE_MAX / 8};
    return load_and_serve(&all, v, &common, &o, error);
}

const command command_serve = {
    .name = "serve",
    .path = "serve",
    .summary = "answer requests over HTTP, as OpenAI's and Anthropic's APIs have them",
    .usage = "[[NAME=]MODEL ...] [--port N] [options]",
    .about =
        "Listens at a port and answers /v1/chat/completions, /v1/completions and more (docs/serve.md), many "
        "requests at once; a browser finds a page to chat with at the address itself. It says where it listens once "
        "it answers, and ends at SIGTERM or Ctrl-C. Without --host only this machine can reach it. Of several models "
        "each request names one, by the file's name or NAME; the first answers where none is named. The sampling "
        "options are for requests that say nothing.",
    .example = "  $ hearth serve stories-relu-q8_0.gguf --port 8080\n"
               "  listening on http://127.0.0.1:8080",
    .tables = {OPTION_TABLE("server", rows, 0),
               {"chat", chat_option_rows, CHAT_OPTION_COUNT, offsetof(serve_values, chat)},
               {"sampling", sampling_option_rows, SAMPLING_OPTION_COUNT, offsetof(serve_values, sampling)},
               ENGINE_TABLES(offsetof(serve_values, engine)),
               MESSAGE_TABLE(offsetof(serve_values, engine))},
    .values_size = sizeof(serve_values),
    .defaults = defaults,
    .operands_most = SIZE_MAX,
    .run = run_serve,
};
