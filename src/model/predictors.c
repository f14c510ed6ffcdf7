/* predictors.c - opens and checks a folder of predictors, or a tune file, so that the caller can write them without
 * further checks. */
#include "predictors.h"

#include "../base/json.h"
#include "../file/torch_archive.h"
#include "hyper.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME_SIZE 32

/* Makes the file name of a layer: "model_3.pt". */
static void layer_file(char out[FILE_NAME_SIZE], uint32_t layer)
{
    snprintf(out, FILE_NAME_SIZE, "model_%u.pt", layer);
}

/* Returns the name of a tensor in a layer's file: GGUF's name without "blk.N.". */
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

/* Checks the shape of one tensor. *rank: of the layer; 0 until the first of its tensors sets it. */
static hearth_status check_tensor(const checkpoint *file, const tensor_rule *rule, const hearth_model *model,
                                  uint32_t layer, uint64_t *rank, hearth_error *error)
{
    const char *name = name_in_file(rule);
    const stored_tensor *t = checkpoint_find_tensor(file, name);
    char reason[128];
    if (!t)
        return fail_tensor(file, name, "is missing", error);
    if (t->rank != 2)
        return fail_tensor(file, name, "is not a matrix", error);
    bool rank_is_rows = rule->rows == DIMENSION_RANK;
    uint64_t seen = t->shape[rank_is_rows ? 1 : 0];
    *rank = *rank ? *rank : seen;
    uint64_t columns = rank_is_rows ? hyper_dimension(&model->hyper, &model->layers[layer], rule->columns) : *rank;
    uint64_t rows = rank_is_rows ? *rank : hyper_dimension(&model->hyper, &model->layers[layer], rule->rows);
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

/* Checks that a layer's file has exactly the tensors of the rules, and that their ranks agree. */
static hearth_status check_layer(const checkpoint *file, const hearth_model *model, uint32_t layer, hearth_error *error)
{
    const family *f = model->family;
    uint64_t rank = 0;
    size_t count = 0;
    for (size_t i = 0; i < f->layer_tensor_count; i++)
        if (f->layer_tensors[i].flags & TENSOR_PREDICTOR) {
            TRY(check_tensor(file, &f->layer_tensors[i], model, layer, &rank, error));
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

/* Opens and checks the file of one layer. */
static hearth_status open_layer(predictors *p, const char *folder, uint32_t layer, const hearth_model *model,
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
    return status == HEARTH_OK ? check_layer(p->layers[layer], model, layer, error) : status;
}

/* Returns true where name is the file name of one of the model's layers. */
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

/* Refuses files for layers that the model does not have: they belong to another model. */
static hearth_status check_extras(const char *folder, uint32_t layer_count, hearth_error *error)
{
    DIR *d = opendir(folder);
    if (!d)
        return fail_errno(error, folder, "predictors");
    hearth_status status = HEARTH_OK;
    for (struct dirent *e; status == HEARTH_OK && (e = readdir(d)) != NULL;)
        if (is_archive(e->d_name) && !is_layer_file(e->d_name, layer_count))
            status = fail(error, HEARTH_FORMAT,
                          "%s/%s: is not a predictor of a model of %u layers (model_0.pt to model_%u.pt)", folder,
                          e->d_name, layer_count, layer_count - 1);
    closedir(d);
    return status;
}

static hearth_status read_threshold(predictors *p, const json_t *config, const char *path, hearth_error *error)
{
    double threshold = 0;
    if (!json_is_object(config))
        return fail(error, HEARTH_FORMAT, "%s: is not an object", path);
    TRY(json_get_number(config, "sparse_threshold", &threshold, &p->has_threshold, path, error));
    if (!isfinite((float)threshold))
        return fail(error, HEARTH_FORMAT, "%s: sparse_threshold: is %g, which is not a float32", path, threshold);
    p->threshold = (float)threshold;
    return HEARTH_OK;
}

/* Reads the threshold from config.json, if the folder has one. */
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

/* Opens a folder with one archive per layer. */
static hearth_status open_folder(predictors *p, const char *folder, const hearth_model *model, hearth_error *error)
{
    const hyperparameters *h = &model->hyper;
    p->layers = mem_new_array(h->layer_count, sizeof *p->layers);
    if (!p->layers)
        return fail_memory(error, folder, h->layer_count * sizeof *p->layers);
    TRY(read_config(p, folder, error));
    TRY(check_extras(folder, h->layer_count, error));
    for (uint32_t layer = 0; layer < h->layer_count; layer++)
        TRY(open_layer(p, folder, layer, model, error));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ a tune file */

/* Scaling must keep the largest value of fc2 within these limits, or at least not move it further out. The reason is
 * float16, which block formats use for their scales: its largest value is 65504, and it loses precision below
 * 6e-5. */
static const float least_scaled = 0.0625f, most_scaled = 4096;

/* Checks that PowerInfer can run the predictors: it computes fc2 . relu(fc1 . residual stream) in every layer, and
 * nothing else. */
static hearth_status check_learnt(const tune *t, hearth_error *error)
{
    for (uint32_t i = 0; i < t->layer_count; i++) {
        const learned_predictor *p = &t->layers[i].predictor;
        if (p->kind == PREDICTOR_LOW_RANK && !p->reads_normed)
            continue;
        const char *is = p->kind == PREDICTOR_LOW_RANK ? "reads the normed input" : predictor_kind_name(p->kind);
        return fail(
            error, HEARTH_UNSUPPORTED,
            "%s: predictors: layer %u: %s%s, but PowerInfer runs low-rank ones that read the residual stream, in "
            "every layer; `hearth tune --for-powerinfer` makes them",
            t->source->path, i, p->kind == PREDICTOR_LOW_RANK ? "" : "is ", is);
    }
    return HEARTH_OK;
}

/* Finds the largest |value| of fc2, which must be finite. */
static hearth_status find_largest(float *out, const tune *t, uint32_t layer, hearth_error *error)
{
    const matrix *fc2 = &t->layers[layer].predictor.fc2;
    float *row = mem_new_array(fc2->columns, sizeof *row), largest = 0;
    if (!row)
        return fail_memory(error, t->source->path, fc2->columns * sizeof *row);
    for (uint32_t r = 0; r < fc2->rows && isfinite(largest); r++) {
        number_formats[fc2->format].decode(matrix_row(fc2, r), row, fc2->columns);
        for (uint32_t i = 0; i < fc2->columns && isfinite(largest); i++)
            largest = fabsf(row[i]) <= largest ? largest : fabsf(row[i]);
    }
    mem_free(row);
    *out = largest;
    return isfinite(largest) ? HEARTH_OK
                             : fail(error, HEARTH_FORMAT, "%s: tensor blk.%u.fc2.weight: holds what is not a number",
                                    t->source->path, layer);
}

/* Returns the smallest factor that keeps a matrix with this largest value within the limits above. */
static float least_scale(float largest)
{
    return largest > least_scaled ? least_scaled / largest : 1;
}

/* Returns the largest such factor. */
static float most_scale(float largest)
{
    return largest < most_scaled ? fminf(most_scaled / largest, FLT_MAX) : 1;
}

/* Returns the common threshold. With a positive scale s a layer's rule "score >= t" is the same as "s * score >= s *
 * t", so thresholds of one sign can all be scaled to any common value of that sign. Their geometric mean keeps the
 * scales near 1, unless that makes values too small. Where the signs differ, the negative thresholds are met,
 * and a layer with a threshold of 0 or more gets one just below zero. Where none is negative and not all are
 * positive, the result is zero. largest [layer_count]. */
static float common_threshold(const tune *t, const float *largest)
{
    double sum[2] = {0}; /* logarithms of |threshold|: [0] negative, [1] positive ones */
    float least[2] = {0};
    uint32_t count[2] = {0}, equal = 0;
    for (uint32_t i = 0; i < t->layer_count; i++) {
        float own = t->layers[i].predictor.threshold;
        equal += own == t->layers[0].predictor.threshold;
        if (own == 0)
            continue;
        sum[own > 0] += log(fabs((double)own));
        least[own > 0] = fmaxf(least[own > 0], fabsf(own) * least_scale(largest[i]));
        count[own > 0]++;
    }
    if (equal == t->layer_count)
        return t->layers[0].predictor.threshold;
    if (count[0] > 0)
        return -fmaxf((float)exp(sum[0] / count[0]), least[0]);
    return count[1] == t->layer_count ? fmaxf((float)exp(sum[1] / count[1]), least[1]) : 0;
}

/* How the common threshold changes a layer's rule. */
typedef enum rule_change {
    RULE_SAME,
    RULE_LETS_MORE, /* more neurons pass than by the layer's own threshold */
    RULE_LETS_LESS,
} rule_change;

/* Finds the factor for a layer's fc2 that makes the common threshold equal to the layer's own, or as close as
 * possible. */
static rule_change find_scale(float *out, float common, float own, float largest)
{
    *out = 1;
    if (own == common || common == 0)
        return own == common ? RULE_SAME : RULE_LETS_MORE;
    *out = most_scale(largest);
    if (own == 0 || (own > 0) != (common > 0)) /* as near to zero as the scale allows */
        return RULE_LETS_MORE;
    if (common / own > *out)
        return common < 0 ? RULE_LETS_MORE : RULE_LETS_LESS;
    *out = common / own;
    return RULE_SAME;
}

/* Sets the scales of all layers and returns how many rules changed in this way. */
static uint32_t scale_layers(predictors *p, const float *largest, rule_change like)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->layer_count; i++)
        count += find_scale(&p->scales[i], p->threshold, p->learnt->layers[i].predictor.threshold, largest[i]) == like;
    return count;
}

/* Chooses the common threshold and the scales, and writes the note where rules change. */
static hearth_status find_scales(predictors *p, hearth_error *error)
{
    float *largest = mem_new_array(p->layer_count, sizeof *largest);
    hearth_status status =
        largest ? HEARTH_OK : fail_memory(error, p->learnt->source->path, p->layer_count * sizeof *largest);
    for (uint32_t i = 0; i < p->layer_count && status == HEARTH_OK; i++)
        status = find_largest(&largest[i], p->learnt, i, error);
    if (status == HEARTH_OK) {
        p->has_threshold = true;
        p->threshold = common_threshold(p->learnt, largest);
        if (scale_layers(p, largest, RULE_LETS_LESS) > 0) /* positive thresholds whose ratio exceeds the range of the
                                                             formats */
            p->threshold = 0;
        uint32_t more = scale_layers(p, largest, RULE_LETS_MORE);
        if (more > 0)
            snprintf(p->note, sizeof p->note,
                     "PowerInfer has one threshold for all layers, here %g; by it %u of %u layers let through more "
                     "neurons than by their own",
                     (double)p->threshold, more, p->layer_count);
    }
    mem_free(largest);
    return status;
}

/* Opens a tune file. */
static hearth_status open_learnt(predictors *p, const char *path, const hearth_model *model, hearth_error *error)
{
    TRY(tune_open(&p->learnt, path, model, error));
    if (!p->learnt->has_predictors)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: predictors: it holds none; `hearth tune --for-powerinfer` makes them", path);
    TRY(check_learnt(p->learnt, error));
    p->scales = mem_new_array(p->layer_count, sizeof *p->scales);
    return p->scales ? find_scales(p, error) : fail_memory(error, path, p->layer_count * sizeof *p->scales);
}

/* ------------------------------------------------------------------ either */

/* Returns true where the file begins with GGUF's magic. */
static bool is_gguf(const char *path)
{
    file_map map;
    if (file_map_open(&map, path, NULL) != HEARTH_OK)
        return false;
    bool is = map.size_bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    file_map_close(&map);
    return is;
}

hearth_status predictors_open(predictors *out, const char *path, const hearth_model *model, hearth_error *error)
{
    *out = (predictors){.family = model->family, .layer_count = model->hyper.layer_count};
    bool folder = file_is_folder(path);
    if (!folder && !is_gguf(path))
        return fail(error, HEARTH_IO, "%s: predictors: is not a folder, nor a tune file", path);
    if (!family_has_predictors(model->family))
        return fail(error, HEARTH_UNSUPPORTED, "%s: predictors: there are none for %s models", path,
                    model->family->name);
    return folder ? open_folder(out, path, model, error) : open_learnt(out, path, model, error);
}

void predictors_close(predictors *p)
{
    for (uint32_t i = 0; p->layers && i < p->layer_count; i++)
        checkpoint_close(p->layers[i]);
    mem_free(p->layers);
    tune_close(p->learnt);
    mem_free(p->scales);
    *p = (predictors){0};
}

const checkpoint *predictors_source(const predictors *p, uint32_t layer)
{
    return p->learnt ? p->learnt->source : p->layers[layer];
}

const stored_tensor *predictors_find(const predictors *p, const tensor_rule *rule, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    if (!p->learnt)
        return checkpoint_find_tensor(p->layers[layer], name_in_file(rule));
    tensor_rule_name(name, rule, layer, false);
    return checkpoint_find_tensor(p->learnt->source, name);
}

float predictors_scale(const predictors *p, const tensor_rule *rule, uint32_t layer)
{
    bool gives_scores = rule->rows == DIMENSION_NEURONS;
    return p->scales && gives_scores ? p->scales[layer] : 1;
}
