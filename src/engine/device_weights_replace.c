/* device_weights_replace.c - overwrites neurons of a device with others, one by one or an expert's together (swap.h). */
#include "device_weights_internal.h"

#include "../base/memory.h"

/* A matrix of a layer that has rows for each neuron, or expert, on both sides. */
typedef struct neuron_matrix {
    const device_matrix *to;
    matrix from;
    uint32_t row; /* the first one, in `from` */
} neuron_matrix;

/* And a vector with a value for each. */
typedef struct neuron_vector {
    device_buffer *to;
    const float *from;
} neuron_vector;

enum { NEURON_MATRICES = 5, NEURON_VECTORS = 4 };

/* Bytes that are packed at a time, unless a row alone has more: small enough to stay in a cache until they are copied. */
#define STRETCH_BYTES ((size_t)256 << 10)

/* What writes neurons to a layer of a device. */
typedef struct writer {
    device_layer *to;
    const model_layer *from;
    const engine_layer *e;
    void *room; /* [room_bytes] */
    size_t room_bytes;
    uint64_t bytes; /* written */
} writer;

/* Lists the matrices of neurons from row `row` on; those without `to->w` are none. */
static void list_matrices(const writer *w, uint32_t row, neuron_matrix out[NEURON_MATRICES])
{
    uint32_t spread = spread_row(w->from, row);
    const neuron_matrix all[NEURON_MATRICES] = {{&w->to->gate, spread_matrix(w->from, &w->from->gate), spread},
                                                {&w->to->up, spread_matrix(w->from, &w->from->up), spread},
                                                {&w->to->down_t, w->e->down_t, row},
                                                {&w->to->fc2, w->e->predictor.fc2, row},
                                                {&w->to->mask_out, w->from->mask_out, row}};
    for (size_t i = 0; i < NEURON_MATRICES; i++)
        out[i] = all[i];
}

/* HEARTH_NO_MEMORY: then nothing was written yet. */
static hearth_status open_writer(writer *w, device_layer *to, const model_layer *from, const engine_layer *e,
                                 hearth_error *error)
{
    neuron_matrix matrices[NEURON_MATRICES];
    *w = (writer){to, from, e, NULL, STRETCH_BYTES, 0};
    list_matrices(w, 0, matrices);
    for (size_t i = 0; i < NEURON_MATRICES; i++)
        if (matrices[i].to->w && upload_row_bytes(&matrices[i].from) > w->room_bytes)
            w->room_bytes = upload_row_bytes(&matrices[i].from);
    if (to->down.w && upload_row_bytes(&from->down) > w->room_bytes)
        w->room_bytes = upload_row_bytes(&from->down);
    w->room = mem_new(w->room_bytes);
    return w->room ? HEARTH_OK : fail_memory(error, "swap", w->room_bytes);
}

static void close_writer(writer *w)
{
    mem_free(w->room);
}

/* Overwrites `count` rows from place `place` on. */
static hearth_status write_rows(writer *w, const neuron_matrix *m, uint32_t place, uint32_t count, hearth_error *error)
{
    size_t row_bytes = upload_row_bytes(&m->from);
    uint32_t most = (uint32_t)(w->room_bytes / row_bytes);
    for (uint32_t at = 0, n; at < count; at += n) {
        n = count - at < most ? count - at : most;
        TRY(upload_over(m->to, place + at, &m->from, m->row + at, n, w->room, error));
        w->bytes += n * row_bytes;
    }
    return HEARTH_OK;
}

static hearth_status write_words(writer *w, device_buffer *to, size_t at, const void *words, uint32_t count,
                                 hearth_error *error)
{
    w->bytes += count * sizeof(uint32_t);
    return device_write(to, at * sizeof(uint32_t), words, count * sizeof(uint32_t), error);
}

/* Writes everything of neurons [row, row + count) to the places from `place` on. */
static hearth_status write_neurons(writer *w, uint32_t place, uint32_t row, uint32_t count, hearth_error *error)
{
    neuron_matrix matrices[NEURON_MATRICES];
    const neuron_vector vectors[NEURON_VECTORS] = {{w->to->gate_bias, w->from->gate_bias},
                                                   {w->to->up_bias, w->from->up_bias},
                                                   {w->to->ffn_inner_norm.weight, w->from->ffn_inner_norm.weight},
                                                   {w->to->ffn_inner_norm.bias, w->from->ffn_inner_norm.bias}};
    list_matrices(w, row, matrices);
    for (size_t i = 0; i < NEURON_MATRICES; i++)
        if (matrices[i].to->w)
            TRY(write_rows(w, &matrices[i], place, count, error));
    for (size_t i = 0; i < NEURON_VECTORS; i++)
        if (vectors[i].to)
            TRY(write_words(w, vectors[i].to, place, &vectors[i].from[row], count, error));
    return HEARTH_OK;
}

/* Tells the device that an expert has the `count` places from `place` on. */
static hearth_status tell_places(writer *w, uint32_t expert, uint32_t place, uint32_t count, hearth_error *error)
{
    uint32_t *owners = w->room, most = (uint32_t)(w->room_bytes / sizeof *owners);
    const uint32_t range[2] = {place, place + count};
    for (uint32_t i = 0; i < most && i < count; i++)
        owners[i] = expert;
    for (uint32_t at = 0, n; at < count; at += n) {
        n = count - at < most ? count - at : most;
        TRY(write_words(w, w->to->expert_owners, place + at, owners, n, error));
    }
    return write_words(w, w->to->expert_ranges, 2 * (size_t)expert, range, 2, error);
}

/* Writes expert `enter` over `leave`, whose places begin at `place`. */
static hearth_status write_expert(writer *w, uint32_t place, uint32_t leave, uint32_t enter, hearth_error *error)
{
    uint32_t f = w->from->ffn.expert_neurons, d = w->from->down.rows / w->from->ffn.router.expert_count;
    const neuron_matrix down = {&w->to->down, w->from->down, enter * d}; /* which has no row per neuron */
    TRY(write_neurons(w, place, enter * f, f, error));
    TRY(down.to->w ? write_rows(w, &down, place / f * d, d, error) : HEARTH_OK);
    TRY(tell_places(w, leave, 0, 0, error));
    return tell_places(w, enter, place, f, error);
}

/* Writes what was at a place back, over what was to enter it. */
static hearth_status write_back(writer *w, uint32_t place, uint32_t enter, bool expert, hearth_error *error)
{
    uint32_t row = w->to->rows[place];
    return expert ? write_expert(w, place, enter, row / w->from->ffn.expert_neurons, error)
                  : write_neurons(w, place, row, 1, error);
}

/* Writes a neuron or an expert to a place; where that fails, what was there is written back, now or by
 * device_weights_mend(). */
static hearth_status replace(device_weights *to, writer *w, uint32_t layer, uint32_t place, uint32_t enter, bool expert,
                             hearth_error *error)
{
    uint32_t row = w->to->rows[place];
    hearth_status status = expert ? write_expert(w, place, row / w->from->ffn.expert_neurons, enter, error)
                                  : write_neurons(w, place, enter, 1, error);
    if (status != HEARTH_OK && write_back(w, place, enter, expert, NULL) != HEARTH_OK) {
        to->torn.is = true, to->torn.expert = expert;
        to->torn.layer = layer, to->torn.place = place, to->torn.enter = enter;
    }
    return status;
}

hearth_status device_weights_replace(device_weights *w, const hearth_model *model, const engine_layer *e,
                                     uint32_t layer, uint32_t place, uint32_t row, uint64_t *bytes, hearth_error *error)
{
    writer own;
    TRY(open_writer(&own, &w->layers[layer], &model->layers[layer], e, error));
    hearth_status status = replace(w, &own, layer, place, row, false, error);
    close_writer(&own);
    if (status == HEARTH_OK) {
        own.to->rows[place] = row;
        *bytes += own.bytes;
    }
    return status;
}

hearth_status device_weights_replace_expert(device_weights *w, const hearth_model *model, const engine_layer *e,
                                            uint32_t layer, uint32_t leave, uint32_t enter, uint64_t *bytes,
                                            hearth_error *error)
{
    writer own;
    device_layer *to = &w->layers[layer];
    uint32_t f = model->layers[layer].ffn.expert_neurons, place = to->ranges[2 * leave];
    TRY(open_writer(&own, to, &model->layers[layer], e, error));
    hearth_status status = replace(w, &own, layer, place, enter, true, error);
    close_writer(&own);
    TRY(status);
    for (uint32_t i = 0; i < f; i++)
        to->rows[place + i] = enter * f + i;
    to->ranges[2 * leave] = to->ranges[2 * leave + 1] = 0;
    to->ranges[2 * enter] = place, to->ranges[2 * enter + 1] = place + f;
    *bytes += own.bytes;
    return HEARTH_OK;
}

hearth_status device_weights_mend(device_weights *w, const hearth_model *model, const engine_layer *layers,
                                  hearth_error *error)
{
    writer own;
    uint32_t layer = w->torn.layer;
    if (!w->torn.is)
        return HEARTH_OK;
    TRY(open_writer(&own, &w->layers[layer], &model->layers[layer], &layers[layer], error));
    hearth_status status = write_back(&own, w->torn.place, w->torn.enter, w->torn.expert, error);
    close_writer(&own);
    w->torn.is = status != HEARTH_OK;
    return status;
}
