/* states.c - maps a layer's hidden states for reading. */
#include "states_internal.h"

#include "../base/file.h"
#include "../base/memory.h"

#include <string.h>

struct states {
    row_shape shape;
    file_map map;
    size_t count;
    float epsilon;
    const float *norm; /* [d] weights of the norm; owned by the model */
};

/* Checks the manifest against the model and maps the layer's file. */
static hearth_status map_layer(states *s, const char *folder, const hearth_model *model, uint32_t layer,
                               hearth_error *error)
{
    manifest m;
    char fingerprint[FINGERPRINT_SIZE];
    TRY(manifest_read(&m, folder, error));
    model_fingerprint(fingerprint, model);
    if (strcmp(m.fingerprint, fingerprint) != 0 || layer >= m.layers || m.d != s->shape.d || m.f != s->shape.f)
        return fail(error, HEARTH_FORMAT, "%s: hidden states: are another model's", folder);
    char *path = states_layer_path(folder, layer);
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_map_open(&s->map, path, error);
    uint64_t rows = manifest_rows_before(&m, m.tokens);
    if (status == HEARTH_OK && s->map.size_bytes / s->shape.bytes < rows)
        status = fail(error, HEARTH_FORMAT, "%s: hidden states: %llu rows are missing", path,
                      (unsigned long long)(rows - s->map.size_bytes / s->shape.bytes));
    mem_free(path);
    s->count = (size_t)rows;
    return status;
}

hearth_status states_open(states **out, const char *folder, const hearth_model *model, uint32_t layer,
                          hearth_error *error)
{
    states *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "hidden states", sizeof *s);
    s->shape = row_shape_of(model);
    s->epsilon = model->hyper.norm_epsilon;
    hearth_status status = map_layer(s, folder, model, layer, error);
    if (status != HEARTH_OK) {
        states_close(s);
        return status;
    }
    s->norm = model->layers[layer].ffn_norm;
    *out = s;
    return HEARTH_OK;
}

void states_close(states *s)
{
    if (!s)
        return;
    file_map_close(&s->map);
    mem_free(s);
}

size_t states_count(const states *s)
{
    return s->count;
}

size_t states_training_count(const states *s)
{
    return (size_t)states_training_of(s->count);
}

uint64_t states_training_of(uint64_t rows)
{
    uint64_t held_out = rows / 10;
    return rows - (held_out == 0 && rows > 1 ? 1 : held_out);
}

size_t states_words(const states *s)
{
    return s->shape.words;
}

void states_read(const states *s, const uint32_t *rows, size_t row_count, bool normed, float *inputs, uint64_t *fired)
{
    for (size_t i = 0; i < row_count; i++) {
        const uint8_t *row = s->map.data + rows[i] * s->shape.bytes;
        if (fired)
            memcpy(fired + i * s->shape.words, row, s->shape.words * sizeof *fired);
        if (inputs)
            row_decode(&s->shape, row, normed ? s->norm : NULL, s->epsilon, inputs + i * s->shape.d);
    }
}
