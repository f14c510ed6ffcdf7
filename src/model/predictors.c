/* predictors.c - opens and checks a folder of predictors, so that whoever writes them need not look again. */
#include "predictors.h"

#include "../base/json.h"
#include "../file/torch_archive.h"
#include "hyper.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME_SIZE 32

static void layer_file(char out[FILE_NAME_SIZE], uint32_t layer)
{
    snprintf(out, FILE_NAME_SIZE, "model_%u.pt", layer);
}

/* The name in a layer's file: what GGUF puts behind "blk.N.". */
static const char *name_in_file(const tensor_rule *rule)
{
    static const char prefix[] = "blk.%u.";
    size_t length = sizeof prefix - 1;
    return strncmp(rule->name, prefix, length) == 0 ? rule->name + length : rule->name;
}

static hearth_status fail_tensor(const checkpoint *file, const char *name, const char *reason, hearth_error *error)
{
    return fail(error, HEARTH_FORMAT, "%s: %.128s: %s", file->path, name, reason);
}

/* rank: of the layer; 0 until the first of its tensors has been seen. */
static hearth_status check_tensor(const checkpoint *file, const tensor_rule *rule, const hyperparameters *h,
                                  uint64_t *rank, hearth_error *error)
{
    const char *name = name_in_file(rule);
    const stored_tensor *t = checkpoint_find_tensor(file, name);
    char reason[128];
    if (!t)
        return fail_tensor(file, name, "is missing", error);
    if (t->rank != 2)
        return fail_tensor(file, name, "is no matrix", error);
    bool rank_is_rows = rule->rows == DIMENSION_RANK;
    uint64_t seen = t->shape[rank_is_rows ? 1 : 0];
    *rank = *rank ? *rank : seen;
    uint64_t columns = rank_is_rows ? hyper_dimension(h, rule->columns) : *rank;
    uint64_t rows = rank_is_rows ? *rank : hyper_dimension(h, rule->rows);
    if (*rank < 1 || *rank > PREDICTOR_RANK_LIMIT) {
        snprintf(reason, sizeof reason, "has rank %llu, expected 1 to %llu", (unsigned long long)*rank,
                 (unsigned long long)PREDICTOR_RANK_LIMIT);
        return fail_tensor(file, name, reason, error);
    }
    if (t->shape[0] == columns && t->shape[1] == rows)
        return HEARTH_OK;
    snprintf(reason, sizeof reason, "is %llu x %llu, expected %llu x %llu", (unsigned long long)t->shape[0],
             (unsigned long long)t->shape[1], (unsigned long long)columns, (unsigned long long)rows);
    return fail_tensor(file, name, reason, error);
}

/* Exactly the tensors of the rules, one rank. */
static hearth_status check_layer(const checkpoint *file, const family *f, const hyperparameters *h, hearth_error *error)
{
    uint64_t rank = 0;
    size_t count = 0;
    for (size_t i = 0; i < f->layer_tensor_count; i++)
        if (f->layer_tensors[i].flags & TENSOR_PREDICTOR) {
            TRY(check_tensor(file, &f->layer_tensors[i], h, &rank, error));
            count++;
        }
    for (size_t i = 0; file->tensor_count > count && i < file->tensor_count; i++) {
        bool wanted = false;
        for (size_t k = 0; k < f->layer_tensor_count; k++)
            wanted |= (f->layer_tensors[k].flags & TENSOR_PREDICTOR) &&
                      strcmp(name_in_file(&f->layer_tensors[k]), file->tensors[i].name) == 0;
        if (!wanted)
            return fail_tensor(file, file->tensors[i].name, "is not part of a predictor", error);
    }
    return HEARTH_OK;
}

static hearth_status open_layer(predictors *p, const char *folder, uint32_t layer, const hyperparameters *h,
                                hearth_error *error)
{
    char name[FILE_NAME_SIZE];
    layer_file(name, layer);
    char *path = file_join(folder, name);
    if (!path)
        return fail_memory(error, folder, strlen(folder) + sizeof name);
    hearth_status status = HEARTH_OK;
    if (!file_exists(path))
        status = fail(error, HEARTH_FORMAT, "%s: is missing: the model has %u layers", path, p->layer_count);
    if (status == HEARTH_OK)
        status = torch_open(&p->layers[layer], path, error);
    mem_free(path);
    return status == HEARTH_OK ? check_layer(p->layers[layer], p->family, h, error) : status;
}

/* True where name is that of a layer's file. */
static bool is_layer_file(const char *name, uint32_t layer_count)
{
    unsigned layer = 0;
    char exact[FILE_NAME_SIZE];
    if (sscanf(name, "model_%9u.pt", &layer) != 1 || layer >= layer_count)
        return false;
    layer_file(exact, layer);
    return strcmp(exact, name) == 0;
}

static bool is_archive(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && strcmp(end, ".pt") == 0;
}

/* Files for layers that the model does not have: they are of another model. */
static hearth_status check_extras(const char *folder, uint32_t layer_count, hearth_error *error)
{
    DIR *d = opendir(folder);
    if (!d)
        return fail_errno(error, folder, "predictors");
    hearth_status status = HEARTH_OK;
    for (struct dirent *e; status == HEARTH_OK && (e = readdir(d)) != NULL;)
        if (is_archive(e->d_name) && !is_layer_file(e->d_name, layer_count))
            status =
                fail(error, HEARTH_FORMAT, "%s/%s: is no predictor of a model of %u layers (model_0.pt to model_%u.pt)",
                     folder, e->d_name, layer_count, layer_count - 1);
    closedir(d);
    return status;
}

static hearth_status read_threshold(predictors *p, const json_t *config, const char *path, hearth_error *error)
{
    double threshold = 0;
    if (!json_is_object(config))
        return fail(error, HEARTH_FORMAT, "%s: is no object", path);
    TRY(json_get_number(config, "sparse_threshold", &threshold, &p->has_threshold, path, error));
    if (!isfinite((float)threshold))
        return fail(error, HEARTH_FORMAT, "%s: sparse_threshold: is %g, which is no float32", path, threshold);
    p->threshold = (float)threshold;
    return HEARTH_OK;
}

static hearth_status read_config(predictors *p, const char *folder, hearth_error *error)
{
    char *path = file_join(folder, "config.json");
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = HEARTH_OK;
    if (file_exists(path)) {
        json_t *config = NULL;
        status = json_parse_file(&config, path, error);
        if (status == HEARTH_OK)
            status = read_threshold(p, config, path, error);
        json_decref(config);
    }
    mem_free(path);
    return status;
}

static bool family_has_predictors(const family *f)
{
    for (size_t i = 0; i < f->layer_tensor_count; i++)
        if (f->layer_tensors[i].flags & TENSOR_PREDICTOR)
            return true;
    return false;
}

hearth_status predictors_open(predictors *out, const char *folder, const family *f, const hyperparameters *h,
                              hearth_error *error)
{
    *out = (predictors){.family = f};
    if (!file_is_folder(folder))
        return fail(error, HEARTH_IO, "%s: predictors: is no folder", folder);
    if (!family_has_predictors(f))
        return fail(error, HEARTH_UNSUPPORTED, "%s: predictors: there are none for %s models", folder, f->name);
    out->layers = mem_new_array(h->layer_count, sizeof *out->layers);
    if (!out->layers)
        return fail_memory(error, folder, h->layer_count * sizeof *out->layers);
    out->layer_count = h->layer_count;
    TRY(read_config(out, folder, error));
    TRY(check_extras(folder, h->layer_count, error));
    for (uint32_t layer = 0; layer < h->layer_count; layer++)
        TRY(open_layer(out, folder, layer, h, error));
    return HEARTH_OK;
}

void predictors_close(predictors *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        checkpoint_close(p->layers[i]);
    mem_free(p->layers);
    *p = (predictors){0};
}

const stored_tensor *predictors_find(const predictors *p, const tensor_rule *rule, uint32_t layer)
{
    return checkpoint_find_tensor(p->layers[layer], name_in_file(rule));
}
