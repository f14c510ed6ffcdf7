/* guard_memory.c - the key of the findings, and their file.
 *
 *     {"hearth.guard": 2, "key": "...", "layers": ["sparse", "dense", ...],
 *      "dense_seconds": 0.0051, "exact_seconds": 0.0022, "density": 0.12, "busy": false}
 *
 * The file may be damaged, old, or forged: one that deviates in any point is treated as missing. The worst that a
 * forged file can do is to choose the slower of two correct ways. */
#include "guard_memory.h"

#include "../base/file.h"
#include "../base/hash.h"
#include "../base/json.h"
#include "../base/memory.h"
#include "../engine/engine.h"
#include "../kernel/topology.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Increment when the guard decides differently. */
#define GUARD_VERSION 3
#define KIND          "hearth.guard"

static const char *const layer_names[GUARD_LAYER_COUNT] = {
    [GUARD_STOCK] = "stock", [GUARD_DENSE] = "dense", [GUARD_SPARSE] = "sparse"};

/* ------------------------------------------------------------------ the key */

static void add_matrix(hash128 *h, const matrix *m)
{
    hash_number(h, m->data ? (uint64_t)m->format + 1 : 0);
    hash_number(h, m->rows);
    hash_number(h, m->columns);
}

/* Adds what identifies the model. Shapes and formats distinguish kinds of files; the norms, which are float32 in all of
 * them, distinguish trainings. A tune file does not matter: neither dense nor exact uses predictors. */
static void add_model(hash128 *h, const hearth_model *model)
{
    const hyperparameters *y = &model->hyper;
    hash_text(h, model->name ? model->name : "");
    hash_text(h, model->family->name);
    const uint64_t numbers[] = {y->layer_count,      y->embedding_length,    y->context_length,
                                model->weight_bytes, model->parameter_count, model->powerinfer};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash_number(h, numbers[i]);
    add_matrix(h, &model->embedding);
    add_matrix(h, &model->head);
    for (uint32_t i = 0; i < y->layer_count; i++) {
        const model_layer *l = &model->layers[i];
        const attention_shape *a = &l->attention;
        const uint64_t shape[] = {l->ffn.neuron_count, a->head_count,           a->kv_head_count, a->head_length,
                                  l->ffn.activation,   (uint64_t)l->ffn.gating, a->window,        l->ffn.router.used};
        for (size_t k = 0; k < sizeof shape / sizeof *shape; k++)
            hash_number(h, shape[k]);
        hash_bytes(h, &l->ffn.threshold, sizeof l->ffn.threshold);
        hash_bytes(h, &l->ffn.shared_threshold, sizeof l->ffn.shared_threshold);
        const matrix *mixer[MIXER_MATRICES];
        layer_mixer_matrices(l, mixer);
        for (size_t m = 0; m < MIXER_MATRICES; m++)
            add_matrix(h, mixer[m]);
        const matrix *all[] = {&l->gate,      &l->up,          &l->down,         &l->down_t,   &l->fc1,
                               &l->fc2,       &l->router,      &l->mask_in,      &l->mask_out, &l->shared.gate,
                               &l->shared.up, &l->shared.down, &l->shared.down_t};
        for (size_t m = 0; m < sizeof all / sizeof *all; m++)
            add_matrix(h, all[m]);
        const norm_weights *norms[] = {&l->attention_norm, &l->attention_post_norm, &l->ffn_norm, &l->ffn_post_norm};
        for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
            if (norms[n]->weight)
                hash_bytes(h, norms[n]->weight, y->embedding_length * sizeof(float));
    }
}

void guard_key(char out[GUARD_KEY_SIZE], const hearth_runtime *runtime, const hearth_model *model,
               hearth_activations activations)
{
    hash128 h = hash_begin();
    char cpu[256];
    topology_cpu_name(cpu, sizeof cpu);
    hash_number(&h, GUARD_VERSION);
    hash_text(&h, HEARTH_VERSION);
    hash_text(&h, cpu);
    hash_number(&h, topology_cache_bytes());
    hash_text(&h, hearth_runtime_cpu_level(runtime));
    hash_number(&h, hearth_runtime_threads(runtime));
    hash_number(&h, (uint64_t)activations);
    add_model(&h, model);
    hash_print(out, &h);
}

/* ------------------------------------------------------------------ the file */

/* Returns "FOLDER/guard-KEY.json"; mem_free. NULL: no memory. */
static char *file_path(const char *folder, const char *key)
{
    char name[GUARD_KEY_SIZE + 16];
    snprintf(name, sizeof name, "guard-%s.json", key);
    return file_join(folder, name);
}

/* Reads the array of layers. Returns false where it does not have f->layer_count valid names. */
static bool read_layers(guard_findings *f, const json_t *names)
{
    if (!json_is_array(names) || json_array_size(names) != f->layer_count)
        return false;
    for (uint32_t i = 0; i < f->layer_count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        int kind = 0;
        while (name && kind < GUARD_LAYER_COUNT && strcmp(layer_names[kind], name) != 0)
            kind++;
        if (!name || kind == GUARD_LAYER_COUNT)
            return false;
        f->layers[i] = (guard_layer)kind;
    }
    return true;
}

/* Reads a number from 0 to `most`. Returns false for anything else. */
static bool read_figure(const json_t *root, const char *name, double most, double *out)
{
    const json_t *value = json_object_get(root, name);
    double figure = json_number_value(value);
    if (!json_is_number(value) || !(figure >= 0 && figure <= most))
        return false;
    *out = figure;
    return true;
}

/* Reads and checks the whole document. Members of *f are set
 * only if everything is valid, except the contents of `layers`. */
static bool read_findings(guard_findings *f, const json_t *root)
{
    guard_findings read = *f;
    if (!json_is_false(json_object_get(root, "busy")) || !read_layers(&read, json_object_get(root, "layers")) ||
        !read_figure(root, "dense_seconds", 1e6, &read.dense_seconds) ||
        !read_figure(root, "exact_seconds", 1e6, &read.exact_seconds) ||
        !read_figure(root, "density", 1, &read.density))
        return false;
    *f = read;
    return true;
}

bool guard_recall(guard_findings *findings, const char *folder, const char *key)
{
    char *path = file_path(folder, key);
    json_t *root = json_recall(path, KIND, GUARD_VERSION, key);
    bool found = root && read_findings(findings, root);
    json_decref(root);
    mem_free(path);
    return found;
}

void guard_remember(const guard_findings *f, const char *folder, const char *key)
{
    char *path = file_path(folder, key);
    json_t *layers = json_array();
    bool complete = true;
    for (uint32_t i = 0; i < f->layer_count; i++)
        complete = complete && json_array_append_new(layers, json_string(layer_names[f->layers[i]])) == 0;
    json_t *members = json_pack("{s:o, s:f, s:f, s:f, s:b}", "layers", layers, "dense_seconds", f->dense_seconds,
                                "exact_seconds", f->exact_seconds, "density", f->density, "busy", (int)f->busy);
    if (complete)
        json_remember(path, KIND, GUARD_VERSION, key, members);
    json_decref(members);
    mem_free(path);
}
