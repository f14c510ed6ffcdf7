/* huggingface_folder.c - opens a folder: which files are read, and in which order. */
#include "huggingface.h"

#include "../file/weights.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Sets general.name to the name of the folder, also where it was given as ".". */
static hearth_status set_name(checkpoint *c, const char *folder, hearth_error *error)
{
    char real[PATH_MAX];
    const char *path = realpath(folder, real) ? real : folder, *slash = strrchr(path, '/');
    span name = span_of(slash ? slash + 1 : path);
    return name.size > 0 && utf8_is_valid(name.data, name.size) ? checkpoint_set_string(c, "general.name", name, error)
                                                                : HEARTH_OK;
}

static hearth_status read_config(json_t **out, const char *path, const char *folder, hearth_error *error)
{
    if (!file_exists(path))
        return fail(error, HEARTH_FORMAT, "%s: config.json: is missing: not a model folder", folder);
    return json_parse_python(out, path, error);
}

/* ModelOpt's earlier folders say in a file of its own, under "quantization", what later ones say in config.json. */
static hearth_status add_quantization(json_t *config, const char *folder, hearth_error *error)
{
    json_t *own = NULL, *settings = json_object_get(config, "quantization_config");
    hearth_status status = HEARTH_OK;
    char *path = file_join(folder, "hf_quant_config.json");
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    if ((!settings || json_is_null(settings)) && file_exists(path))
        status = json_parse_python(&own, path, error);
    settings = json_object_get(own, "quantization");
    if (json_is_object(settings) &&
        (json_object_set_new_nocheck(settings, "quant_method", json_string("modelopt")) != 0 ||
         json_object_set_nocheck(config, "quantization_config", settings) != 0))
        status = fail_memory(error, path, 0);
    json_decref(own);
    mem_free(path);
    return status;
}

/* Returns true where the folder has an entry whose name matches the pattern. */
static bool has_file_like(const char *folder, const char *pattern)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return false;
    const struct dirent *e;
    do
        e = readdir(entries);
    while (e && fnmatch(pattern, e->d_name, 0) != 0);
    closedir(entries);
    return e != NULL;
}

/* Extends the error where the folder has GGUF files but no safetensors: the user probably meant one of those
 * files. */
static void hint_at_gguf(hearth_status status, const char *folder, hearth_error *error)
{
    hearth_error inner = *error;
    if (!has_file_like(folder, "*.safetensors") && has_file_like(folder, "*.gguf"))
        fail(error, status, "%s; name the GGUF file in it", inner.text);
}

hearth_status huggingface_open(checkpoint **out, const char *folder, hearth_error *error)
{
    checkpoint *c = NULL, *stored = NULL;
    json_t *config = NULL;
    hearth_status status;
    char *path = file_join(folder, "config.json");
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    TRY_OR(done, status, read_config(&config, path, folder, error));
    TRY_OR(done, status, add_quantization(config, folder, error));
    TRY_OR(done, status, checkpoint_create(&stored, folder, error));
    TRY_OR(done, status, checkpoint_create(&c, folder, error));
    TRY_OR(done, status, weights_add_folder(stored, folder, error));
    TRY_OR(done, status, huggingface_understand(c, stored, config, path, error));
    TRY_OR(done, status, checkpoint_take_data(c, stored, error));
    TRY_OR(done, status, set_name(c, folder, error));
    TRY_OR(done, status, huggingface_add_tokenizer(c, folder, config, error));
    *out = c;
    c = NULL;
done:
    if (status == HEARTH_FORMAT && error)
        hint_at_gguf(status, folder, error);
    checkpoint_close(c);
    checkpoint_close(stored);
    json_decref(config);
    mem_free(path);
    return status;
}
