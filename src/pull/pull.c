/* pull.c - what to fetch from where, and which name it gets. */
#include "pull.h"

#include "../base/file.h"
#include "remote_name.h"
#include "url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes of a name that a progress line shows. */
#define SHOWN_BYTES 40

/* Moves a text of mem_new to the arena; NULL stays NULL. */
static const char *settle(char *text, arena *memory)
{
    const char *copy = text ? arena_copy_text(memory, text, strlen(text)) : NULL;
    mem_free(text);
    return copy;
}

/* Returns whether `output` names a folder: one that is there, or a path that ends with a slash. */
static bool is_folder(const char *output)
{
    size_t size = strlen(output);
    return size > 0 && (output[size - 1] == '/' || file_is_folder(output));
}

/* Adds a file. folder: where it goes, NULL: the current one. */
static hearth_status add(pull_plan *plan, size_t count, const fetch_source *source, const char *folder,
                         const char *name, arena *memory, hearth_error *error)
{
    char label[SHOWN_BYTES + 64];
    const char *target = folder ? settle(file_join(folder, name), memory) : arena_copy_text(memory, name, strlen(name));
    if (count > 1)
        snprintf(label, sizeof label, "%.*s (%zu of %zu)", SHOWN_BYTES, remote_path_name(name), plan->count + 1, count);
    else
        snprintf(label, sizeof label, "%.*s", SHOWN_BYTES, remote_path_name(name));
    const char *copy = arena_copy_text(memory, label, strlen(label));
    if (!source->url || !target || !copy)
        return fail_memory(error, "pull", strlen(name));
    plan->files[plan->count++] = (pull_file){*source, target, copy};
    return HEARTH_OK;
}

static hearth_status begin(pull_plan *plan, size_t count, arena *memory, hearth_error *error)
{
    *plan = (pull_plan){.files = arena_new_array(memory, count, sizeof *plan->files)};
    return plan->files ? HEARTH_OK : fail_memory(error, "pull", count * sizeof *plan->files);
}

/* Decides under which name in which folder a single file goes. */
static void place_one(const pull_request *r, const char **name, pull_plan *plan)
{
    if (r->output && is_folder(r->output))
        plan->folder = r->output;
    else if (r->output)
        *name = r->output;
}

/* ------------------------------------------------------------------ a URL */

static hearth_status plan_url(pull_plan *plan, const pull_request *r, arena *memory, hearth_error *error)
{
    const fetch_source source = {r->name, SIZE_UNKNOWN, r->digest};
    TRY(url_check(r->name, error));
    TRY(begin(plan, 1, memory, error));
    const char *name = settle(url_file_name(r->name), memory);
    place_one(r, &name, plan);
    if (!name)
        return fail(error, HEARTH_INVALID, "pull: %.400s: names no file; -o FILE does", r->name);
    TRY(add(plan, 1, &source, plan->folder, name, memory, error));
    plan->model = plan->files[0].target;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ a name on the Hub */

/* Returns the name of a repository's folder. */
static const char *folder_of(const reference *ref)
{
    return strchr(ref->repository, '/') + 1;
}

static hearth_status add_chosen(pull_plan *plan, const pull_request *r, const reference *ref, const chosen *c,
                                arena *memory, hearth_error *error)
{
    const hub_place place = {r->endpoint, ref->repository, r->revision};
    bool one = c->count == 1 && !c->is_folder;
    TRY(begin(plan, c->count, memory, error));
    if (!one)
        plan->folder = r->output ? r->output : c->is_folder ? folder_of(ref) : NULL;
    for (size_t i = 0; i < c->count; i++) {
        const listed_file *file = c->files[i];
        const char *name = remote_path_name(file->path);
        fetch_source source = {settle(hub_file_url(&place, file->path), memory), file->size, file->digest};
        if (digest_is_known(&r->digest))
            source.digest = r->digest;
        if (one)
            place_one(r, &name, plan);
        TRY(add(plan, c->count, &source, plan->folder, name, memory, error));
    }
    plan->model = c->is_folder ? plan->folder : plan->files[0].target;
    return HEARTH_OK;
}

static hearth_status check_output(const pull_request *r, const chosen *c, hearth_error *error)
{
    if (c->count == 1 && !c->is_folder)
        return HEARTH_OK;
    if (digest_is_known(&r->digest))
        return fail(error, HEARTH_INVALID, "pull: --sha256: is of one file, and %s has %zu", r->name, c->count);
    if (r->output && file_exists(r->output) && !file_is_folder(r->output))
        return fail(error, HEARTH_INVALID, "pull: -o %s: has to be a folder, for %zu files", r->output, c->count);
    return HEARTH_OK;
}

static hearth_status plan_name(pull_plan *plan, fetcher *f, const pull_request *r, arena *memory, hearth_error *error)
{
    reference ref;
    listing l = {0};
    chosen c;
    TRY(reference_parse(&ref, r->name, memory, error));
    const hub_place place = {r->endpoint, ref.repository, r->revision};
    hearth_status status;
    TRY_OR(done, status, hub_list(&l, f, &place, error));
    TRY_OR(done, status, choose_files(&c, &l, &ref, memory, error));
    TRY_OR(done, status, check_output(r, &c, error));
    TRY_OR(done, status, add_chosen(plan, r, &ref, &c, memory, error));
done:
    listing_free(&l);
    return status;
}

/* ------------------------------------------------------------------ */

hearth_status pull_plan_make(pull_plan *out, fetcher *f, const pull_request *request, arena *memory,
                             hearth_error *error)
{
    if (request->output && !*request->output)
        return fail(error, HEARTH_INVALID, "pull: -o: is empty");
    if (reference_is_url(request->name))
        return plan_url(out, request, memory, error);
    return plan_name(out, f, request, memory, error);
}

hearth_status pull_make_folder(const pull_plan *plan, hearth_error *error)
{
    if (!plan->folder || file_is_folder(plan->folder))
        return HEARTH_OK;
    char *path = mem_copy_text(plan->folder, strlen(plan->folder));
    if (!path)
        return fail_memory(error, plan->folder, strlen(plan->folder));
    bool ok = true;
    for (char *slash = strchr(path + 1, '/'); ok && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    ok = ok && (mkdir(path, 0777) == 0 || errno == EEXIST);
    mem_free(path);
    return ok ? HEARTH_OK : fail_errno(error, plan->folder, "cannot make the folder");
}
