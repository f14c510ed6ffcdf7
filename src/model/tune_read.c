/* tune_read.c - reads a tune file, trusting nothing.
 *
 * The structure is checked here: the keys and tensors must be those listed in tune.h, and no others. The values are
 * checked in tune_check.c, which writers use too. Vectors and matrices stay in the file's mapping. */
#include "tune_internal.h"

#include "../file/gguf.h"
#include "../file/gguf_split.h"
#include "fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest part of a file's text that error texts quote, in bytes. */
#define QUOTED 64

typedef struct tune_reader {
    tune *t;
    const checkpoint *c;
    const hearth_model *model;
    hearth_error *error;
} tune_reader;

static const stored_tensor *find_tensor(const tune_reader *r, enum tune_tensor tensor, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    tune_tensor_name(name, tensor, layer);
    return checkpoint_find_tensor(r->c, name);
}

static hearth_status bad_tensor(const tune_reader *r, enum tune_tensor tensor, uint32_t layer, const char *reason)
{
    char name[TENSOR_NAME_SIZE];
    tune_tensor_name(name, tensor, layer);
    return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: %s", r->c->path, name, reason);
}

static hearth_status bad_key(const tune_reader *r, const char *key, const char *reason)
{
    return fail(r->error, HEARTH_FORMAT, "%s: key %s: %s", r->c->path, key, reason);
}

/* ------------------------------------------------------------------ whose it is */

/* Checks that the file is a tune file of a known version. */
static hearth_status check_kind(const tune_reader *r)
{
    span architecture;
    uint32_t version;
    TRY(checkpoint_get_string(r->c, "general.architecture", &architecture, NULL, r->error));
    if (r->c->powerinfer || !span_equal(architecture, span_of(TUNE_ARCHITECTURE)))
        return fail(r->error, HEARTH_FORMAT,
                    "%s: key general.architecture: is %.*s, expected " TUNE_ARCHITECTURE ": it is not a tune file",
                    r->c->path, architecture.size < QUOTED ? (int)architecture.size : QUOTED, architecture.data);
    TRY(checkpoint_get_u32(r->c, TUNE_KEY_VERSION, &version, NULL, r->error));
    if (version != TUNE_VERSION)
        return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_VERSION ": is %u, this hearth reads %d; tune again",
                    r->c->path, version, TUNE_VERSION);
    return HEARTH_OK;
}

/* Checks that the file belongs to this model. This comes first: any other difference would only follow from a wrong
 * model. */
static hearth_status check_model(const tune_reader *r)
{
    span wanted;
    char has[FINGERPRINT_SIZE];
    TRY(checkpoint_get_string(r->c, TUNE_KEY_FINGERPRINT, &wanted, NULL, r->error));
    model_fingerprint(has, r->model);
    if (!span_equal(wanted, span_of(has)))
        return fail(r->error, HEARTH_FORMAT,
                    "%s: is the tune file of another model (fingerprint %.*s, this model has %s)", r->c->path,
                    wanted.size < QUOTED ? (int)wanted.size : QUOTED, wanted.data, has);
    return HEARTH_OK;
}

/* Checks the numbers of layers and of their neurons against the model's, and makes the layers. */
static hearth_status read_layers(tune_reader *r)
{
    uint32_t layers = r->model->hyper.layer_count, count, neurons = 0;
    const key_value *e = checkpoint_find(r->c, TUNE_KEY_NEURONS);
    bool array = e && e->type == VALUE_ARRAY;
    TRY(checkpoint_get_u32(r->c, TUNE_KEY_LAYERS, &count, NULL, r->error));
    if (count != layers)
        return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_LAYERS ": is %u, the model has %u", r->c->path, count,
                    layers);
    if (!array)
        TRY(checkpoint_get_u32(r->c, TUNE_KEY_NEURONS, &neurons, NULL, r->error));
    else if (e->item_type != VALUE_U32 || e->count != layers)
        return bad_key(r, TUNE_KEY_NEURONS, "is not an array of one number per layer");
    tune_layer *made = arena_new_array(&r->t->memory, layers, sizeof *made);
    if (!made)
        return fail_memory(r->error, r->c->path, layers * sizeof *made);
    tune_set_layers(r->t, made, r->model);
    for (uint32_t i = 0; i < layers; i++) {
        neurons = array ? ((const uint32_t *)e->as.items)[i] : neurons;
        if (neurons != made[i].neuron_count)
            return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_NEURONS ": is %u, layer %u of the model has %u",
                        r->c->path, neurons, i, made[i].neuron_count);
    }
    return HEARTH_OK;
}

/* Returns true for the keys of tune.h and for keys with another prefix, which are ignored. */
static bool is_known_key(const char *key)
{
    static const char *const single[] = {TUNE_KEY_VERSION, TUNE_KEY_FINGERPRINT, TUNE_KEY_LAYERS, TUNE_KEY_NEURONS,
                                         TUNE_KEY_TOKENS,  TUNE_KEY_REPORT,      TUNE_KEY_LEVELS, TUNE_KEY_LOSSES};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (strcmp(single[i], key) == 0)
            return true;
    for (size_t i = 0; i < TUNE_ARRAYS; i++)
        if (strcmp(tune_arrays[i].key, key) == 0)
            return true;
    return strncmp(key, TUNE_KEY_PREFIX, strlen(TUNE_KEY_PREFIX)) != 0;
}

static hearth_status check_keys(const tune_reader *r)
{
    for (size_t i = 0; i < r->c->entry_count; i++)
        if (!is_known_key(r->c->entries[i].key))
            return fail(r->error, HEARTH_FORMAT, "%s: key %.128s: is not part of a tune file", r->c->path,
                        r->c->entries[i].key);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ single keys */

/* Reads the number of tokens, which may have any integer type. */
static hearth_status read_tokens(tune_reader *r)
{
    const key_value *e = checkpoint_find(r->c, TUNE_KEY_TOKENS);
    if (!e)
        return HEARTH_OK;
    value_kind kind = value_kind_of(e->type);
    if (kind == VALUE_IS_UNSIGNED)
        r->t->tokens = e->as.u;
    else if (kind == VALUE_IS_SIGNED && e->as.i >= 0)
        r->t->tokens = (uint64_t)e->as.i;
    else
        return bad_key(r, TUNE_KEY_TOKENS, "is not an integer of at least 0");
    return HEARTH_OK;
}

/* Reads the report as terminated text; "" where it is absent. */
static hearth_status read_report(tune_reader *r)
{
    span text = {"", 0};
    bool found;
    TRY(checkpoint_get_string(r->c, TUNE_KEY_REPORT, &text, &found, r->error));
    if (text.size > TUNE_REPORT_LIMIT)
        return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_REPORT ": has %zu bytes, expected at most %zu",
                    r->c->path, text.size, TUNE_REPORT_LIMIT);
    if (memchr(text.data, 0, text.size))
        return bad_key(r, TUNE_KEY_REPORT, "holds a zero byte");
    r->t->report = arena_copy_text(&r->t->memory, text.data, text.size);
    return r->t->report ? HEARTH_OK : fail_memory(r->error, r->c->path, text.size);
}

static hearth_status read_levels(tune_reader *r)
{
    const key_value *e;
    bool found;
    TRY(checkpoint_get_array(r->c, TUNE_KEY_LEVELS, VALUE_F32, &e, &found, r->error));
    if (!found)
        return HEARTH_OK;
    if (e->count < 1 || e->count > TUNE_LEVEL_LIMIT)
        return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_LEVELS ": has %" PRIu64 " values, expected 1 to %d",
                    r->c->path, e->count, TUNE_LEVEL_LIMIT);
    r->t->levels = e->as.items;
    r->t->level_count = (uint32_t)e->count;
    return HEARTH_OK;
}

/* Reads the losses: one per level. */
static hearth_status read_losses(tune_reader *r)
{
    const key_value *e;
    bool found;
    TRY(checkpoint_get_array(r->c, TUNE_KEY_LOSSES, VALUE_F32, &e, &found, r->error));
    if (!found)
        return HEARTH_OK;
    if (e->count != r->t->level_count)
        return fail(r->error, HEARTH_FORMAT, "%s: key " TUNE_KEY_LOSSES ": has %" PRIu64 " values, expected %u",
                    r->c->path, e->count, r->t->level_count);
    r->t->losses = e->as.items;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ vectors */

/* Finds the values of a layer's vector; *out is NULL where it has none. They are copied where they are not aligned,
 * as can happen with a file in memory. */
static hearth_status take_vector(tune_reader *r, const void **out, enum tune_tensor tensor, uint32_t layer,
                                 number_format format, size_t count)
{
    const stored_tensor *t = find_tensor(r, tensor, layer);
    char reason[128];
    *out = NULL;
    if (!t)
        return HEARTH_OK;
    if (t->rank != 1 || t->format != format || t->shape[0] != count) {
        snprintf(reason, sizeof reason, "is %s of %u dimensions of which the first is %" PRIu64 ", expected %zu of %s",
                 number_formats[t->format].name, t->rank, t->shape[0], count, number_formats[format].name);
        return bad_tensor(r, tensor, layer, reason);
    }
    *out = t->data;
    if ((uintptr_t)t->data % _Alignof(float) == 0)
        return HEARTH_OK;
    void *copy = arena_new(&r->t->memory, t->size_bytes);
    if (!copy)
        return fail_memory(r->error, r->c->path, t->size_bytes);
    memcpy(copy, t->data, t->size_bytes);
    *out = copy;
    return HEARTH_OK;
}

/* Reads counts, magnitudes and prune thresholds; the latter need levels. */
static hearth_status read_vectors(tune_reader *r, uint32_t layer)
{
    tune_layer *l = &r->t->layers[layer];
    const void *counts, *magnitudes, *prune = NULL;
    TRY(take_vector(r, &counts, TUNE_COUNTS, layer, FORMAT_I32, l->neuron_count));
    TRY(take_vector(r, &magnitudes, TUNE_MAGNITUDES, layer, FORMAT_F32, TUNE_QUANTILES));
    if (r->t->level_count > 0)
        TRY(take_vector(r, &prune, TUNE_PRUNE, layer, FORMAT_F32, r->t->level_count));
    else if (find_tensor(r, TUNE_PRUNE, layer))
        return bad_tensor(r, TUNE_PRUNE, layer, "is there, and key " TUNE_KEY_LEVELS " is not");
    l->counts = counts;
    l->magnitudes = magnitudes;
    l->prune = prune;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ predictors */

/* Finds a key that must have one value per layer. */
static hearth_status take_array(const tune_reader *r, const key_value **out, enum tune_array array)
{
    const char *key = tune_arrays[array].key;
    const key_value *e;
    TRY(checkpoint_get_array(r->c, key, tune_arrays[array].type, &e, NULL, r->error));
    if (e->count != r->t->layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: has %" PRIu64 " values, the model has %u layers", r->c->path,
                    key, e->count, r->t->layer_count);
    *out = e;
    return HEARTH_OK;
}

/* Finds all keys about predictors, or checks that there are none where the file has no predictors. */
static hearth_status find_arrays(const tune_reader *r, const key_value *arrays[TUNE_ARRAYS])
{
    r->t->has_predictors = checkpoint_find(r->c, TUNE_KEY_PREDICTORS) != NULL;
    for (enum tune_array i = 0; i < TUNE_ARRAYS; i++) {
        if (r->t->has_predictors)
            TRY(take_array(r, &arrays[i], i));
        else if (checkpoint_find(r->c, tune_arrays[i].key))
            return bad_key(r, tune_arrays[i].key, "is there, and key " TUNE_KEY_PREDICTORS " is not");
    }
    return HEARTH_OK;
}

/* Finds the index of a layer's name in a list of known names. */
static hearth_status take_name(const tune_reader *r, const key_value *names, uint32_t layer, const char *const *known,
                               size_t known_count, size_t *out)
{
    span name = names->as.strings[layer];
    char all[128] = "";
    for (size_t i = 0; i < known_count; i++) {
        if (span_equal(name, span_of(known[i]))) {
            *out = i;
            return HEARTH_OK;
        }
        append_name(all, sizeof all, known[i]);
    }
    return fail(r->error, HEARTH_FORMAT, "%s: key %s: value %u is '%.*s', expected one of: %s", r->c->path, names->key,
                layer, name.size < QUOTED ? (int)name.size : QUOTED, name.data, all);
}

/* Finds the format that a layer's name stands for; "" means none (FORMAT_COUNT). */
static hearth_status take_format(const tune_reader *r, const key_value *names, uint32_t layer, number_format *out)
{
    span name = names->as.strings[layer];
    *out = FORMAT_COUNT;
    if (name.size == 0)
        return HEARTH_OK;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (span_equal(name, span_of(number_formats[i].name)))
            *out = (number_format)i;
    if (*out != FORMAT_COUNT)
        return HEARTH_OK;
    return fail(r->error, HEARTH_FORMAT,
                "%s: key " TUNE_KEY_COARSE ": value %u is '%.*s', which is not a number format", r->c->path, layer,
                name.size < QUOTED ? (int)name.size : QUOTED, name.data);
}

/* Finds a matrix of a low-rank predictor, which must exist. */
static hearth_status take_matrix(const tune_reader *r, matrix *out, enum tune_tensor tensor, uint32_t layer)
{
    const stored_tensor *t = find_tensor(r, tensor, layer);
    if (!t)
        return bad_tensor(r, tensor, layer, "is missing, and the layer's predictor is low-rank");
    if (t->rank != 2 || t->format >= FORMAT_COUNT || t->shape[0] > UINT32_MAX || t->shape[1] > UINT32_MAX)
        return bad_tensor(r, tensor, layer, "is not a matrix of weights");
    *out = (matrix){t->data, t->format, (uint32_t)t->shape[1], (uint32_t)t->shape[0], 0};
    if (!number_row_bytes(t->format, t->shape[0], &out->row_bytes))
        return bad_tensor(r, tensor, layer, "has rows that are not a whole number of blocks");
    return HEARTH_OK;
}

/* Reads fc1 and fc2, which exist exactly where the predictor is low-rank. */
static hearth_status read_matrices(const tune_reader *r, uint32_t layer)
{
    learned_predictor *p = &r->t->layers[layer].predictor;
    for (enum tune_tensor tensor = TUNE_FC1; tensor <= TUNE_FC2; tensor++) {
        if (p->kind == PREDICTOR_LOW_RANK)
            TRY(take_matrix(r, tensor == TUNE_FC1 ? &p->fc1 : &p->fc2, tensor, layer));
        else if (find_tensor(r, tensor, layer))
            return bad_tensor(r, tensor, layer, "is there, and the layer has no low-rank predictor");
    }
    return HEARTH_OK;
}

/* Reads a layer's predictor from the arrays and its matrices. */
static hearth_status read_predictor(const tune_reader *r, const key_value *const arrays[TUNE_ARRAYS], uint32_t layer)
{
    tune_layer *l = &r->t->layers[layer];
    size_t kind = PREDICTOR_NONE, input = 0;
    if (r->t->has_predictors) {
        const char *kinds[PREDICTOR_KINDS];
        for (size_t i = 0; i < PREDICTOR_KINDS; i++)
            kinds[i] = predictor_kind_name((predictor_kind)i);
        TRY(take_name(r, arrays[TUNE_KINDS], layer, kinds, PREDICTOR_KINDS, &kind));
        TRY(take_name(r, arrays[TUNE_INPUTS], layer, tune_input_names, 2, &input));
        TRY(take_format(r, arrays[TUNE_COARSE], layer, &l->predictor.coarse_format));
        if (kind != PREDICTOR_COARSE && l->predictor.coarse_format != FORMAT_COUNT)
            return fail(r->error, HEARTH_FORMAT,
                        "%s: key " TUNE_KEY_COARSE ": value %u names a format, and the layer's predictor is not coarse",
                        r->c->path, layer);
        l->predictor.threshold = ((const float *)arrays[TUNE_THRESHOLDS]->as.items)[layer];
        l->recall = ((const float *)arrays[TUNE_RECALLS]->as.items)[layer];
        l->density = ((const float *)arrays[TUNE_DENSITIES]->as.items)[layer];
    }
    l->predictor.kind = (predictor_kind)kind;
    l->predictor.reads_normed = input != 0;
    return read_matrices(r, layer);
}

/* ------------------------------------------------------------------ all of it */

/* Refuses tensors that are not part of a tune file. */
static hearth_status check_extras(const tune_reader *r)
{
    for (size_t i = 0; i < r->c->tensor_count; i++) {
        const char *name = r->c->tensors[i].name, *behind;
        uint32_t layer = 0;
        int digits = 0;
        bool known = sscanf(name, "blk.%9u%n", &layer, &digits) == 1 && layer < r->t->layer_count;
        behind = known ? name + digits : "";
        known = false;
        for (enum tune_tensor tensor = 0; behind[0] == '.' && tensor < TUNE_TENSORS; tensor++) {
            char exact[TENSOR_NAME_SIZE]; /* compares the whole name: sscanf also accepts 07 and +7 */
            tune_tensor_name(exact, tensor, layer);
            known |= strcmp(exact, name) == 0;
        }
        if (!known)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: is not part of a tune file of %u layers",
                        r->c->path, name, r->t->layer_count);
    }
    return HEARTH_OK;
}

/* Sorts the numbers 0 to count - 1 by ascending keys, ties by number, into `order`: a stable radix sort by one byte
 * after the other. The number of passes is even, so the result ends in `order`, not in `other`. */
static void sort_by_keys(uint32_t *order, uint32_t *other, const uint32_t *keys, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (unsigned shift = 0; shift < 32; shift += 8) {
        uint32_t first[257] = {0};
        for (uint32_t i = 0; i < count; i++)
            first[(keys[i] >> shift & 255) + 1]++;
        for (unsigned i = 0; i < 256; i++)
            first[i + 1] += first[i];
        for (uint32_t i = 0; i < count; i++)
            other[first[keys[order[i]] >> shift & 255]++] = order[i];
        uint32_t *swap = order;
        order = other;
        other = swap;
    }
}

/* Sorts neurons by descending count. scratch [2 * f]: the keys are a copy, because a mapped file may change while it
 * is read. */
static void sort_by_counts(uint32_t *order, uint32_t *scratch, const int32_t *counts, uint32_t f)
{
    for (uint32_t i = 0; i < f; i++)
        scratch[i] = ~(uint32_t)counts[i];
    sort_by_keys(order, scratch + f, scratch, f);
}

/* Derives the order of neurons by count for every layer. */
static hearth_status find_orders(tune_reader *r)
{
    size_t most = model_largest(r->model).neurons;
    if (!tune_first(r->t)->counts)
        return HEARTH_OK;
    uint32_t *scratch = mem_new_array(most, 2 * sizeof *scratch), *order = scratch;
    for (uint32_t i = 0; order && i < r->t->layer_count; i++) {
        tune_layer *l = &r->t->layers[i];
        if (l->neuron_count == 0)
            continue;
        order = arena_new_array(&r->t->memory, l->neuron_count, sizeof *order);
        if (order)
            sort_by_counts(order, scratch, l->counts, l->neuron_count);
        l->order = order;
    }
    mem_free(scratch);
    return order ? HEARTH_OK : fail_memory(r->error, r->c->path, most * sizeof *order);
}

/* Reads everything in an order in which each step can rely on the checks before it. */
static hearth_status read_all(tune_reader *r)
{
    const key_value *arrays[TUNE_ARRAYS] = {NULL};
    TRY(check_kind(r));
    TRY(check_model(r));
    TRY(read_layers(r));
    TRY(check_keys(r));
    TRY(read_tokens(r));
    TRY(read_report(r));
    TRY(read_levels(r));
    TRY(find_arrays(r, arrays));
    for (uint32_t i = 0; i < r->t->layer_count; i++) {
        TRY(read_vectors(r, i));
        TRY(read_predictor(r, arrays, i));
    }
    TRY(read_losses(r));
    TRY(check_extras(r));
    TRY(tune_check(r->t, r->model, r->c->path, HEARTH_FORMAT, r->error));
    return find_orders(r);
}

/* Makes a record from a checkpoint and takes ownership of it, also on failure. */
static hearth_status understand(tune **out, checkpoint *source, const hearth_model *model, hearth_error *error)
{
    tune *t = mem_new(sizeof *t);
    if (!t) {
        hearth_status status = fail_memory(error, source->path, sizeof *t);
        checkpoint_close(source);
        return status;
    }
    t->source = source;
    tune_reader r = {t, source, model, error};
    hearth_status status = read_all(&r);
    if (status == HEARTH_OK)
        *out = t;
    else
        tune_close(t);
    return status;
}

hearth_status tune_open(tune **out, const char *path, const hearth_model *model, hearth_error *error)
{
    checkpoint *source;
    TRY(gguf_open(&source, path, error));
    return understand(out, source, model, error);
}

hearth_status tune_parse(tune **out, const uint8_t *data, size_t size_bytes, const char *path,
                         const hearth_model *model, hearth_error *error)
{
    checkpoint *source;
    TRY(gguf_parse(&source, data, size_bytes, path, error));
    return understand(out, source, model, error);
}

char *tune_path(const char *model_path)
{
    static const char ending[] = ".tune";
    size_t size = strlen(model_path);
    while (size > 1 && model_path[size - 1] == '/')
        size--;
    gguf_part_name part;
    const char *after = "";
    if (gguf_part_name_read(&part, model_path)) { /* all parts of a split model have one tune file */
        size = part.base_bytes;
        after = ".gguf";
    }
    size_t room = size + strlen(after) + sizeof ending;
    char *path = mem_new(room);
    if (path)
        snprintf(path, room, "%.*s%s%s", (int)size, model_path, after, ending);
    return path;
}
