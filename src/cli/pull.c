/* pull.c - `hearth pull`: downloads a model. */
#include "../pull/pull.h"
#include "../base/file.h"
#include "../pull/url.h"
#include "command.h"
#include "output.h"
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKEN_BYTES ((size_t)4096)

typedef struct pull_values {
    const char *output, *sha256, *revision, *endpoint, *token_file;
    bool force, list, json, quiet;
    uint32_t retries, timeout;
    float delay;
} pull_values;

static const option rows[] = {
    {OPTION_ROW('o', "output", TEXT, pull_values, output, "FILE|FOLDER",
                "where to; else the name that it has there, in this folder")},
    {OPTION_ROW(0, "sha256", TEXT, pull_values, sha256, "HEX",
                "what the file's SHA-256 must be; of files on the Hub it is known")},
    {OPTION_ROW(0, "force", FLAG, pull_values, force, NULL, "replace a file that is there and is another")},
    {OPTION_ROW(0, "list", FLAG, pull_values, list, NULL, "only list what the repository has, with sizes")},
    {OPTION_ROW(0, "revision", TEXT, pull_values, revision, "NAME",
                "a branch, tag or commit of the repository (default main)")},
    {OPTION_ROW(0, "endpoint", TEXT, pull_values, endpoint, "URL",
                "a mirror of the Hub; else the environment's HF_ENDPOINT, or " HUB_ENDPOINT)},
    {OPTION_ROW(0, "token-file", TEXT, pull_values, token_file, "FILE",
                "a file with the token that the Hub wants for some models; else the environment's HF_TOKEN")},
    {OPTION_ROW(0, "retries", COUNT, pull_values, retries, "N", "how often to try again, in a row (default 5)"),
     .least = 0, .most = 1000},
    {OPTION_ROW(0, "retry-delay", NUMBER, pull_values, delay, "SECONDS",
                "how long to wait before that; doubled each time, up to a minute (default 1)"),
     .least = 0, .most = 60},
    {OPTION_ROW(0, "timeout", COUNT, pull_values, timeout, "SECONDS",
                "give a connection up that brings less than 1 kB/s for so long (default 60)"),
     .least = 1, .most = 86400},
    {OPTION_ROW(0, "json", FLAG, pull_values, json, NULL, "one object with model, bytes, seconds, files")},
    {OPTION_ROW('q', "quiet", FLAG, pull_values, quiet, NULL, "prints only errors on standard error")},
};

static void defaults(void *values)
{
    *(pull_values *)values = (pull_values){.revision = "main", .retries = 5, .delay = 1, .timeout = 60};
}

#ifdef HEARTH_HAVE_CURL

/* ------------------------------------------------------------------ the token */

/* Returns whether a text may stand in a header: printable ASCII without blanks. */
static bool is_token(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* *out stays NULL where there is none. */
static hearth_status read_token(const char **out, const pull_values *v, arena *memory, hearth_error *error)
{
    const char *from = v->token_file ? v->token_file : "HF_TOKEN", *token = getenv("HF_TOKEN");
    if (v->token_file) {
        char *text;
        size_t size;
        TRY(file_read(&text, &size, v->token_file, MAX_TOKEN_BYTES, error));
        token = arena_copy_text(memory, text, strcspn(text, "\r\n"));
        mem_free(text);
        if (!token)
            return fail_memory(error, from, size);
    } else if (!token || !*token) {
        return HEARTH_OK;
    }
    if (!is_token(token))
        return fail(error, HEARTH_INVALID, "pull: %s: holds no token", from);
    *out = token;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ what is said */

/* Notes and progress share standard error. */
typedef struct pull_messages {
    progress progress;
    bool quiet;
} pull_messages;

static void say_retry(void *user, hearth_log_level level, const char *text)
{
    pull_messages *m = user;
    (void)level;
    if (m->quiet)
        return;
    progress_clear(&m->progress);
    output_note("note", "%s", text);
}

/* Says of a file, for example, "a.gguf: 1.2 GB in 10.1 s, 119 MB/s; SHA-256 as expected". */
static void say_file(const pull_file *file, const fetch_result *r)
{
    char size[16], speed[16];
    output_safe(stderr, span_of(file->target), 200);
    if (r->state == FETCH_PRESENT) {
        fprintf(stderr, ": is there already, %s", output_size(size, (double)r->size));
    } else {
        double seconds = r->seconds > 1e-3 ? r->seconds : 1e-3;
        fprintf(stderr, ": %s in %.1f s, %s/s", output_size(size, (double)r->size), seconds,
                output_size(speed, (double)r->received / seconds));
        if (r->state == FETCH_RESUMED)
            fprintf(stderr, ", after %s of an earlier run", output_size(size, (double)(r->size - r->received)));
    }
    if (digest_is_known(&file->source.digest))
        fprintf(stderr, "; %s as expected", digest_kind_name(r->digest.kind));
    fputc('\n', stderr);
}

static json_t *file_json(const pull_file *file, const fetch_result *r)
{
    json_t *object = json_pack("{s:o, s:o, s:s, s:I, s:I, s:f}", "path", json_text(span_of(file->target)), "url",
                               json_text(span_of(file->source.url)), "state", fetch_state_name(r->state), "bytes",
                               (json_int_t)r->size, "received", (json_int_t)r->received, "seconds", r->seconds);
    if (object && digest_is_known(&r->digest) &&
        json_object_set_new(object, digest_kind_key(r->digest.kind), json_string(r->digest.hex)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ------------------------------------------------------------------ the command */

/* Fetches all files. done: gets a row for each, for --json. */
static hearth_status fetch_all(const pull_plan *plan, fetcher *f, const pull_values *v, pull_messages *messages,
                               json_t *done, hearth_error *error)
{
    TRY(pull_make_folder(plan, error));
    for (size_t i = 0; i < plan->count; i++) {
        const pull_file *file = &plan->files[i];
        fetch_result result;
        hearth_status status = fetch_file(f, &file->source, file->target, file->label, &result, error);
        progress_clear(&messages->progress);
        if (status != HEARTH_OK)
            return status;
        if (!v->quiet)
            say_file(file, &result);
        if (v->json && json_array_append_new(done, file_json(file, &result)) != 0)
            return fail_memory(error, "--json", 0);
    }
    return HEARTH_OK;
}

static hearth_status report(const pull_plan *plan, const pull_values *v, json_t *done, hearth_error *error)
{
    if (!v->json) {
        output_terminal(stdout, span_of(plan->model));
        putchar('\n');
        return HEARTH_OK;
    }
    json_int_t bytes = 0;
    double seconds = 0;
    json_t *row;
    size_t i;
    json_array_foreach(done, i, row)
    {
        bytes += json_integer_value(json_object_get(row, "bytes"));
        seconds += json_real_value(json_object_get(row, "seconds"));
    }
    return output_json(json_pack("{s:o, s:I, s:f, s:O}", "model", json_text(span_of(plan->model)), "bytes", bytes,
                                 "seconds", seconds, "files", done),
                       JSON_COMPACT | JSON_REAL_PRECISION(4), error);
}

static hearth_status pull_all(const pull_request *request, fetcher *f, const pull_values *v, pull_messages *messages,
                              arena *memory, hearth_error *error)
{
    pull_plan plan;
    TRY(pull_plan_make(&plan, f, request, memory, error));
    json_t *done = json_array();
    hearth_status status = done ? fetch_all(&plan, f, v, messages, done, error) : fail_memory(error, "--json", 0);
    if (status == HEARTH_OK)
        status = report(&plan, v, done, error);
    json_decref(done);
    return status;
}

/* Prints what a repository has. */
static hearth_status list_files(const pull_request *request, fetcher *f, const pull_values *v, arena *memory,
                                hearth_error *error)
{
    reference ref;
    listing l = {0};
    if (reference_is_url(request->name))
        return fail(error, HEARTH_INVALID, "pull: --list: is for names on the Hub, not for a URL");
    TRY(reference_parse(&ref, request->name, memory, error));
    const hub_place place = {request->endpoint, ref.repository, request->revision};
    json_t *files = v->json ? json_array() : NULL;
    hearth_status status = hub_list(&l, f, &place, error);
    for (size_t i = 0; status == HEARTH_OK && i < l.count; i++) {
        const listed_file *file = &l.files[i];
        char size[16];
        if (!v->json)
            printf("%9s  %s\n", output_size(size, (double)file->size), file->path);
        else if (json_array_append_new(
                     files, json_pack("{s:s, s:I}", "path", file->path, "bytes", (json_int_t)file->size)) != 0)
            status = fail_memory(error, "--json", 0);
    }
    listing_free(&l);
    if (status == HEARTH_OK && v->json)
        return output_json(json_pack("{s:o}", "files", files), JSON_COMPACT, error);
    json_decref(files);
    return status;
}

/* The endpoint, without an empty one of the environment. */
static const char *endpoint_of(const pull_values *v)
{
    const char *named = getenv("HF_ENDPOINT");
    return v->endpoint ? v->endpoint : named && *named ? named : HUB_ENDPOINT;
}

static hearth_status run_pull(void *values, operands *rest, hearth_error *error)
{
    const pull_values *v = values;
    pull_request request = {
        .name = rest->items[0], .output = v->output, .endpoint = endpoint_of(v), .revision = v->revision};
    pull_messages messages = {.quiet = v->quiet};
    fetch_options options = {.token_origin = request.endpoint,
                             .certificates = getenv("SSL_CERT_FILE"),
                             .timeout_seconds = v->timeout,
                             .retries = v->retries,
                             .delay_seconds = v->delay,
                             .replace = v->force,
                             .log = {say_retry, &messages}};
    if (v->sha256 && !digest_parse(&request.digest, DIGEST_SHA256, v->sha256))
        return fail(error, HEARTH_INVALID, "pull: --sha256: '%s' is not 64 hexadecimal digits", v->sha256);
    if (!reference_is_revision(v->revision))
        return fail(error, HEARTH_INVALID, "pull: --revision: '%s' is not the name of a revision", v->revision);
    TRY(url_check(request.endpoint, error));
    TRY(read_token(&options.token, v, rest->memory, error));
    progress_init(&messages.progress);
    messages.progress.terminal = messages.progress.terminal && !v->quiet;
    options.progress = progress_to(&messages.progress);
    fetcher *f;
    TRY(fetcher_open(&f, &options, error));
    hearth_status status = v->list ? list_files(&request, f, v, rest->memory, error)
                                   : pull_all(&request, f, v, &messages, rest->memory, error);
    progress_clear(&messages.progress);
    fetcher_close(f);
    return status;
}

#else

static hearth_status run_pull(void *values, operands *rest, hearth_error *error)
{
    (void)values, (void)rest;
    return fail(error, HEARTH_UNSUPPORTED, "pull: this hearth was built where libcurl or libcrypto was missing");
}

#endif

const command command_pull = {
    .name = "pull",
    .path = "pull",
    .summary = "download a model",
    .usage = "URL|OWNER/REPO[:QUANT|/FILE] [-o FILE|FOLDER] [options]",
    .about = "Downloads a file, or a model from the Hugging Face Hub: its GGUF file, with all parts, or where it has "
             "none the "
             "folder that `hearth convert` reads. Of several GGUF files :QUANT or /FILE chooses. A download that was "
             "interrupted "
             "goes on where it ended (FILE.part, FILE.part.json); FILE gets its name once it is complete, on disk, and "
             "has the "
             "SHA-256 that the Hub or --sha256 says. Where it is there already nothing is done. The token goes to the "
             "Hub alone. "
             "Prints the path of the model.",
    .example = "  $ hearth pull OWNER/REPO:Q4_K_M -o models/\n"
               "  models/model-Q4_K_M.gguf: 1.12 GB in 26.3 s, 42.6 MB/s; SHA-256 as expected\n"
               "  models/model-Q4_K_M.gguf\n"
               "  $ hearth pull https://HOST/model.gguf --sha256 HEX",
    .tables = {OPTION_TABLE("pull", rows, 0)},
    .values_size = sizeof(pull_values),
    .defaults = defaults,
    .operands_least = 1,
    .operands_most = 1,
    .run = run_pull,
};
