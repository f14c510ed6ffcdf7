/* tune_write.c - writes a tune record to a file. */
#include "tune_internal.h"

#include "../file/gguf.h"
#include "fingerprint.h"

#include <string.h>

/* The keys and tensors of the file's head; both arrays have room for all that can be added. */
typedef struct writer {
    const tune *t;
    key_value *entries;     /* [entry_count]  */
    stored_tensor *tensors; /* [tensor_count] */
    size_t entry_count, tensor_count;
    arena memory;
} writer;

#define MOST_ENTRIES 16

/* ------------------------------------------------------------------ keys */

static void add_number(writer *w, const char *key, value_type type, uint64_t value)
{
    w->entries[w->entry_count++] = (key_value){.key = key, .type = type, .as.u = value};
}

static void add_text(writer *w, const char *key, const char *text)
{
    w->entries[w->entry_count++] = (key_value){.key = key, .type = VALUE_STRING, .as.string = span_of(text)};
}

static void add_items(writer *w, const char *key, value_type item_type, const void *items, size_t count)
{
    key_value entry = {.key = key, .type = VALUE_ARRAY, .item_type = item_type, .count = count};
    if (item_type == VALUE_STRING)
        entry.as.strings = items;
    else
        entry.as.items = items;
    w->entries[w->entry_count++] = entry;
}

static const char *kind_of(const tune_layer *l)
{
    return predictor_kind_name(l->predictor.kind);
}

static const char *input_of(const tune_layer *l)
{
    return tune_input_names[l->predictor.reads_normed];
}

static const char *coarse_of(const tune_layer *l)
{
    return l->predictor.kind == PREDICTOR_COARSE ? number_formats[l->predictor.coarse_format].name : "";
}

static float threshold_of(const tune_layer *l)
{
    return l->predictor.threshold;
}

static float recall_of(const tune_layer *l)
{
    return l->recall;
}

static float density_of(const tune_layer *l)
{
    return l->density;
}

/* How the value of a layer is found for each key in tune_arrays: by the one of the two functions that is set. */
static const struct {
    const char *(*text)(const tune_layer *l);
    float (*number)(const tune_layer *l);
} values[TUNE_ARRAYS] = {
    [TUNE_KINDS] = {kind_of, NULL},           [TUNE_INPUTS] = {input_of, NULL},   [TUNE_COARSE] = {coarse_of, NULL},
    [TUNE_THRESHOLDS] = {NULL, threshold_of}, [TUNE_RECALLS] = {NULL, recall_of}, [TUNE_DENSITIES] = {NULL, density_of},
};

/* Adds the keys about predictors. Returns false where there is no memory. */
static bool add_arrays(writer *w)
{
    uint32_t layers = w->t->layer_count;
    for (size_t k = 0; k < TUNE_ARRAYS; k++) {
        span *texts = values[k].text ? arena_new_array(&w->memory, layers, sizeof *texts) : NULL;
        float *numbers = values[k].number ? arena_new_array(&w->memory, layers, sizeof *numbers) : NULL;
        if (!texts && !numbers)
            return false;
        for (uint32_t i = 0; i < layers; i++)
            if (texts)
                texts[i] = span_of(values[k].text(&w->t->layers[i]));
            else
                numbers[i] = values[k].number(&w->t->layers[i]);
        add_items(w, tune_arrays[k].key, tune_arrays[k].type, texts ? (void *)texts : numbers, layers);
    }
    return true;
}

/* Adds the number of neurons: an array where layers differ. Returns false where there is no memory. */
static bool add_neurons(writer *w)
{
    const tune *t = w->t;
    uint32_t *counts = arena_new_array(&w->memory, t->layer_count, sizeof *counts);
    bool differ = false;
    for (uint32_t i = 0; counts && i < t->layer_count; i++) {
        counts[i] = t->layers[i].neuron_count;
        differ |= counts[i] != counts[0];
    }
    if (differ)
        add_items(w, TUNE_KEY_NEURONS, VALUE_U32, counts, t->layer_count);
    else if (counts)
        add_number(w, TUNE_KEY_NEURONS, VALUE_U32, counts[0]);
    return counts != NULL;
}

/* Adds all keys; those of absent sections are left out. Returns false where there is no memory. */
static bool add_keys(writer *w, const char *fingerprint)
{
    const tune *t = w->t;
    add_text(w, "general.architecture", TUNE_ARCHITECTURE);
    add_number(w, TUNE_KEY_VERSION, VALUE_U32, TUNE_VERSION);
    add_text(w, TUNE_KEY_FINGERPRINT, fingerprint);
    add_number(w, TUNE_KEY_LAYERS, VALUE_U32, t->layer_count);
    if (!add_neurons(w))
        return false;
    if (tune_first(t)->counts)
        add_number(w, TUNE_KEY_TOKENS, VALUE_U64, t->tokens);
    if (t->level_count > 0)
        add_items(w, TUNE_KEY_LEVELS, VALUE_F32, t->levels, t->level_count);
    if (t->level_count > 0 && t->losses)
        add_items(w, TUNE_KEY_LOSSES, VALUE_F32, t->losses, t->level_count);
    if (t->report && t->report[0])
        add_text(w, TUNE_KEY_REPORT, t->report);
    return !t->has_predictors || add_arrays(w);
}

/* ------------------------------------------------------------------ tensors */

/* Adds a tensor to the head, unless the record has no data for it. Returns false where there is no memory. */
static bool add_tensor(writer *w, enum tune_tensor tensor, uint32_t layer, const stored_tensor *what)
{
    char name[TENSOR_NAME_SIZE];
    tune_tensor_name(name, tensor, layer);
    if (!what->data)
        return true;
    stored_tensor *to = &w->tensors[w->tensor_count++];
    *to = *what;
    to->name = arena_copy_text(&w->memory, name, strlen(name));
    return to->name != NULL;
}

static bool add_vector(writer *w, enum tune_tensor tensor, uint32_t layer, number_format format, const void *data,
                       size_t count)
{
    stored_tensor t = {.format = format,
                       .rank = 1,
                       .shape = {count, 1, 1, 1},
                       .data = data,
                       .size_bytes = count * number_formats[format].block_bytes};
    return add_tensor(w, tensor, layer, &t);
}

static bool add_matrix(writer *w, enum tune_tensor tensor, uint32_t layer, const matrix *m)
{
    stored_tensor t = {.format = m->format,
                       .rank = 2,
                       .shape = {m->columns, m->rows, 1, 1},
                       .data = m->data,
                       .size_bytes = matrix_bytes(m)};
    return add_tensor(w, tensor, layer, &t);
}

static bool add_layer(writer *w, uint32_t i)
{
    const tune_layer *l = &w->t->layers[i];
    bool low_rank = w->t->has_predictors && l->predictor.kind == PREDICTOR_LOW_RANK;
    return add_vector(w, TUNE_COUNTS, i, FORMAT_I32, l->counts, l->neuron_count) &&
           add_vector(w, TUNE_MAGNITUDES, i, FORMAT_F32, l->magnitudes, TUNE_QUANTILES) &&
           add_vector(w, TUNE_PRUNE, i, FORMAT_F32, l->prune, w->t->level_count) &&
           (!low_rank ||
            (add_matrix(w, TUNE_FC1, i, &l->predictor.fc1) && add_matrix(w, TUNE_FC2, i, &l->predictor.fc2)));
}

/* ------------------------------------------------------------------ what is not a record */

static bool has_matrices(const learned_predictor *p)
{
    return p->fc1.data && p->fc1.format < FORMAT_COUNT && p->fc2.data && p->fc2.format < FORMAT_COUNT;
}

/* Checks what only a program can get wrong: for a file, tune_read.c has checked it already, or it cannot happen. */
static hearth_status check_shape(const tune *t, const hearth_model *model, const char *path, hearth_error *error)
{
    const hyperparameters *h = &model->hyper;
    size_t report = t->report ? strlen(t->report) : 0;
    if (t->layer_count != h->layer_count)
        return fail(error, HEARTH_INVALID, "%s: is of a model of %u layers, this one has %u", path, t->layer_count,
                    h->layer_count);
    for (uint32_t i = 0; i < t->layer_count; i++)
        if (t->layers[i].neuron_count != model->layers[i].ffn.neuron_count)
            return fail(error, HEARTH_INVALID, "%s: layer %u has %u neurons, the model's has %u", path, i,
                        t->layers[i].neuron_count, model->layers[i].ffn.neuron_count);
    if (t->level_count > TUNE_LEVEL_LIMIT)
        return fail(error, HEARTH_INVALID, "%s: key " TUNE_KEY_LEVELS ": has %u values, expected at most %d", path,
                    t->level_count, TUNE_LEVEL_LIMIT);
    if (report > TUNE_REPORT_LIMIT)
        return fail(error, HEARTH_INVALID, "%s: key " TUNE_KEY_REPORT ": has %zu bytes, expected at most %zu", path,
                    report, TUNE_REPORT_LIMIT);
    for (uint32_t i = 0; t->has_predictors && i < t->layer_count; i++)
        if (t->layers[i].predictor.kind == PREDICTOR_LOW_RANK && !has_matrices(&t->layers[i].predictor))
            return fail(error, HEARTH_INVALID, "%s: layer %u has a low-rank predictor without its matrices", path, i);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the file */

static hearth_status write_file(const writer *w, const char *path, hearth_error *error)
{
    gguf_writer *file;
    TRY(gguf_writer_open(&file, path, false, w->entries, w->entry_count, w->tensors, w->tensor_count, error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < w->tensor_count && status == HEARTH_OK; i++)
        status = gguf_writer_put(file, w->tensors[i].data, w->tensors[i].size_bytes, error);
    if (status == HEARTH_OK)
        return gguf_writer_commit(file, error);
    gguf_writer_discard(file);
    return status;
}

/* The record is checked first, so that a reader accepts whatever is written. */
hearth_status tune_write(const char *path, const tune *t, const hearth_model *model, hearth_error *error)
{
    char fingerprint[FINGERPRINT_SIZE];
    size_t tensors = (size_t)t->layer_count * TUNE_TENSORS;
    TRY(check_shape(t, model, path, error));
    TRY(tune_check(t, model, path, HEARTH_INVALID, error));
    writer w = {.t = t};
    w.entries = arena_new_array(&w.memory, MOST_ENTRIES, sizeof *w.entries);
    w.tensors = arena_new_array(&w.memory, tensors, sizeof *w.tensors);
    bool ready = w.entries && w.tensors;
    model_fingerprint(fingerprint, model);
    ready = ready && add_keys(&w, fingerprint);
    for (uint32_t i = 0; ready && i < t->layer_count; i++)
        ready = add_layer(&w, i);
    hearth_status status = ready ? write_file(&w, path, error) : fail_memory(error, path, tensors * sizeof *w.tensors);
    arena_clear(&w.memory);
    return status;
}
