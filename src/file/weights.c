/* weights.c - the weights of a folder: in one file, or in shards that an index names. */
#include "weights.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "safetensors.h"
#include "torch_archive.h"

#include <string.h>

#define QUOTED 128 /* bytes of a name in an error text */

/* A kind of file, in the order in which they are looked for. */
typedef struct weights_kind {
    const char *single, *index;
    /* Adds the tensors of a file. weight_map: name -> shard, NULL without an index; shard: this file's name in it. */
    hearth_status (*add)(checkpoint *c, const char *path, const json_t *weight_map, const char *shard,
                         hearth_error *error);
} weights_kind;

static hearth_status add_torch(checkpoint *c, const char *path, const json_t *weight_map, const char *shard,
                               hearth_error *error)
{
    (void)weight_map, (void)shard;
    return torch_add(c, path, error);
}

static const weights_kind kinds[] = {
    {"model.safetensors", "model.safetensors.index.json", safetensors_add},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", add_torch},
};

static hearth_status add_file(checkpoint *c, const weights_kind *kind, const char *folder, const char *name,
                              const json_t *weight_map, hearth_error *error)
{
    char *path = file_join(folder, name);
    if (!path)
        return fail_memory(error, folder, strlen(folder) + strlen(name) + 2);
    hearth_status status = kind->add(c, path, weight_map, name, error);
    mem_free(path);
    return status;
}

/* Returns true for a file name without folders: an index must not lead out of its folder. */
static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Reads every shard of the index once and checks that each tensor was found. `seen`: an empty object, for the shards
 * already read. */
static hearth_status add_shards(checkpoint *c, const weights_kind *kind, const char *folder, const char *index_path,
                                json_t *weight_map, json_t *seen, hearth_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach(weight_map, name, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || !is_plain_name(shard))
            return fail(error, HEARTH_FORMAT, "%s: tensor %.*s: expected the name of a file in this folder", index_path,
                        QUOTED, name);
        if (json_object_get(seen, shard))
            continue;
        if (json_object_set_new(seen, shard, json_true()) != 0)
            return fail_memory(error, index_path, strlen(shard));
        TRY(add_file(c, kind, folder, shard, weight_map, error));
    }
    json_object_foreach(weight_map, name, value)
    {
        if (!checkpoint_find_tensor(c, name))
            return fail(error, HEARTH_FORMAT, "%s: tensor %.*s: is not in %.*s", index_path, QUOTED, name, QUOTED,
                        json_string_value(value));
    }
    return HEARTH_OK;
}

/* Reads the index and the shards that it names. */
static hearth_status add_index(checkpoint *c, const weights_kind *kind, const char *folder, const char *index_path,
                               hearth_error *error)
{
    json_t *index;
    TRY(json_parse_file(&index, index_path, error));
    json_t *weight_map = json_object_get(index, "weight_map"), *seen = json_object();
    hearth_status status;
    if (!seen)
        status = fail_memory(error, index_path, 0);
    else if (!json_is_object(weight_map))
        status = fail(error, HEARTH_FORMAT, "%s: weight_map: expected an object", index_path);
    else
        status = add_shards(c, kind, folder, index_path, weight_map, seen, error);
    json_decref(seen);
    json_decref(index);
    return status;
}

/* Adds what the folder has of a kind. *found: it has some. */
static hearth_status add_kind(checkpoint *c, const weights_kind *kind, const char *folder, bool *found,
                              hearth_error *error)
{
    char *single = file_join(folder, kind->single), *index = file_join(folder, kind->index);
    hearth_status status = HEARTH_OK;
    *found = true;
    if (!single || !index)
        status = fail_memory(error, folder, strlen(folder));
    else if (file_exists(single))
        status = kind->add(c, single, NULL, kind->single, error);
    else if (file_exists(index))
        status = add_index(c, kind, folder, index, error);
    else
        *found = false;
    mem_free(single);
    mem_free(index);
    return status;
}

hearth_status weights_add_folder(checkpoint *c, const char *folder, hearth_error *error)
{
    const size_t count = sizeof kinds / sizeof *kinds;
    for (size_t i = 0; i < count; i++) {
        bool found;
        TRY(add_kind(c, &kinds[i], folder, &found, error));
        if (found)
            return HEARTH_OK;
    }
    return fail(error, HEARTH_FORMAT, "%s: %s: is missing, and so are %s and %s", folder, kinds[0].single,
                kinds[0].index, kinds[1].single);
}
