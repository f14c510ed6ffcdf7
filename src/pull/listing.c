/* listing.c - reads the Hub's listings. */
#include "listing.h"

#include "../base/json.h"
#include "remote_name.h"

#include <string.h>

#define MOST_FILES 20000

/* Reads the hash of a large file, or else git's. The latter is left out where a mirror has its own form of it. */
static hearth_status read_digest(digest *out, const json_t *entry, const char *name, hearth_error *error)
{
    const json_t *lfs = json_object_get(entry, "lfs");
    bool found;
    const char *text = "";
    if (lfs && !json_is_null(lfs)) {
        TRY(json_get_string(lfs, "oid", &text, NULL, name, error));
        if (!digest_parse(out, DIGEST_SHA256, text))
            return fail(error, HEARTH_FORMAT, "%s: lfs.oid: is no SHA-256", name);
        return HEARTH_OK;
    }
    TRY(json_get_string(entry, "oid", &text, &found, name, error));
    (void)digest_parse(out, DIGEST_GIT_BLOB, text);
    return HEARTH_OK;
}

static hearth_status read_file(listed_file *out, listing *l, const json_t *entry, const char *name, hearth_error *error)
{
    const char *path;
    TRY(json_get_string(entry, "path", &path, NULL, name, error));
    if (!remote_path_is_safe(path))
        return fail(error, HEARTH_FORMAT, "%s: path '%.200s': is not safe", name, path);
    const json_t *size = json_object_get(entry, "size");
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return fail(error, HEARTH_FORMAT, "%s: size of '%.200s': is not a size", name, path);
    out->size = (uint64_t)json_integer_value(size);
    TRY(read_digest(&out->digest, entry, name, error));
    out->path = arena_copy_text(&l->memory, path, strlen(path));
    return out->path ? HEARTH_OK : fail_memory(error, name, strlen(path));
}

static hearth_status add_entry(listing *l, const json_t *entry, const char *name, hearth_error *error)
{
    const char *type;
    listed_file file = {0};
    TRY(json_get_string(entry, "type", &type, NULL, name, error));
    if (strcmp(type, "file") != 0)
        return HEARTH_OK;
    if (l->count == MOST_FILES)
        return fail(error, HEARTH_FORMAT, "%s: lists more than %d files", name, MOST_FILES);
    TRY(read_file(&file, l, entry, name, error));
    listed_file *files = mem_grow(l->files, &l->capacity, l->count, 1, sizeof *files);
    if (!files)
        return fail_memory(error, name, sizeof *files);
    l->files = files;
    l->files[l->count++] = file;
    return HEARTH_OK;
}

hearth_status listing_add(listing *l, span json, const char *name, hearth_error *error)
{
    json_t *root, *entry;
    size_t i;
    hearth_status status = HEARTH_OK;
    TRY(json_parse(&root, json.data, json.size, name, error));
    if (!json_is_array(root))
        status = fail(error, HEARTH_FORMAT, "%s: is not a list of files", name);
    json_array_foreach(root, i, entry)
    {
        status = add_entry(l, entry, name, error);
        if (status != HEARTH_OK)
            break;
    }
    json_decref(root);
    return status;
}

const listed_file *listing_find(const listing *l, const char *path)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->files[i].path, path) == 0)
            return &l->files[i];
    return NULL;
}

void listing_free(listing *l)
{
    mem_free(l->files);
    arena_clear(&l->memory);
    *l = (listing){0};
}
