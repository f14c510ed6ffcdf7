/* device_weights_replace.c - overwrites neurons of a device with others, one by one or an expert's together (swap.h). */
#include "device_weights_internal.h"

#include "../base/memory.h"

/* A matrix of a layer that has a row for each neuron, on both sides. */
typedef struct neuron_matrix {
    const device_matrix *to;
    const matrix *from;
    uint32_t row; /* of the first neuron, in `from` */
} neuron_matrix;

/* And a vector with a value for each. */
typedef struct neuron_vector {
    device_buffer *to;
    const float *from;
} neuron_vector;

enum { NEURON_MATRICES = 5, NEURON_VECTORS = 4 };

/* Writes everything of neurons [row, row + count) to the places from `place` on; *bytes becomes their sum. */
static hearth_status write_neurons(device_layer *to, const model_layer *from, const engine_layer *e, uint32_t place,
                                   uint32_t row, uint32_t count, uint64_t *bytes, hearth_error *error)
{
    const matrix gate = spread_matrix(from, &from->gate), up = spread_matrix(from, &from->up);
    uint32_t spread = spread_row(from, row);
    const neuron_matrix matrices[NEURON_MATRICES] = {{&to->gate, &gate, spread},
                                                     {&to->up, &up, spread},
                                                     {&to->down_t, &e->down_t, row},
                                                     {&to->fc2, &e->predictor.fc2, row},
                                                     {&to->mask_out, &from->mask_out, row}};
    const neuron_vector vectors[NEURON_VECTORS] = {{to->gate_bias, from->gate_bias},
                                                   {to->up_bias, from->up_bias},
                                                   {to->ffn_inner_norm.weight, from->ffn_inner_norm.weight},
                                                   {to->ffn_inner_norm.bias, from->ffn_inner_norm.bias}};
    size_t longest = 0;
    *bytes = 0;
    for (size_t i = 0; i < NEURON_MATRICES; i++) {
        size_t each = matrices[i].to->w ? count * upload_row_bytes(matrices[i].from) : 0;
        longest = each > longest ? each : longest;
        *bytes += each;
    }
    void *packed = mem_new(longest);
    if (!packed)
        return fail_memory(error, "swap", longest);
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < NEURON_MATRICES; i++)
        if (matrices[i].to->w)
            status = upload_over(matrices[i].to, place, matrices[i].from, matrices[i].row, count, packed, error);
    for (size_t i = 0; status == HEARTH_OK && i < NEURON_VECTORS; i++)
        if (vectors[i].to)
            status =
                device_write(vectors[i].to, place * sizeof(float), &vectors[i].from[row], count * sizeof(float), error);
    mem_free(packed);
    return status;
}

/* Tells the device which places an expert has. */
static hearth_status tell_range(const device_layer *to, uint32_t expert, uint32_t begin, uint32_t end,
                                hearth_error *error)
{
    const uint32_t range[2] = {begin, end};
    return device_write(to->expert_ranges, expert * sizeof range, range, sizeof range, error);
}

/* Tells the device that an expert has the `count` places from `place` on. */
static hearth_status tell_owner(const device_layer *to, uint32_t expert, uint32_t place, uint32_t count,
                                hearth_error *error)
{
    uint32_t *owners = mem_new_array(count, sizeof *owners);
    if (!owners)
        return fail_memory(error, "swap", count * sizeof *owners);
    for (uint32_t i = 0; i < count; i++)
        owners[i] = expert;
    hearth_status status =
        device_write(to->expert_owners, place * sizeof *owners, owners, count * sizeof *owners, error);
    mem_free(owners);
    return status == HEARTH_OK ? tell_range(to, expert, place, place + count, error) : status;
}

/* Writes expert `enter` over `leave`, whose places begin at `place`. */
static hearth_status write_expert(device_layer *to, const model_layer *from, const engine_layer *e, uint32_t place,
                                  uint32_t leave, uint32_t enter, uint64_t *bytes, hearth_error *error)
{
    uint32_t f = from->ffn.expert_neurons;
    TRY(write_neurons(to, from, e, place, enter * f, f, bytes, error));
    TRY(tell_range(to, leave, 0, 0, error));
    return tell_owner(to, enter, place, f, error);
}

/* Writes what was at a place back, over what was to enter it. */
static hearth_status write_back(device_weights *w, const hearth_model *model, const engine_layer *e, uint32_t layer,
                                uint32_t place, uint32_t enter, bool expert, hearth_error *error)
{
    uint64_t bytes;
    device_layer *to = &w->layers[layer];
    const model_layer *from = &model->layers[layer];
    uint32_t row = to->rows[place];
    return expert ? write_expert(to, from, e, place, enter, row / from->ffn.expert_neurons, &bytes, error)
                  : write_neurons(to, from, e, place, row, 1, &bytes, error);
}

/* Ends a replacement with this status: where it failed, nothing has changed. */
static hearth_status replaced(device_weights *w, const hearth_model *model, const engine_layer *e, uint32_t layer,
                              uint32_t place, uint32_t enter, bool expert, hearth_status status)
{
    if (status != HEARTH_OK && write_back(w, model, e, layer, place, enter, expert, NULL) != HEARTH_OK) {
        w->torn.is = true, w->torn.expert = expert;
        w->torn.layer = layer, w->torn.place = place, w->torn.enter = enter;
    }
    return status;
}

hearth_status device_weights_replace(device_weights *w, const hearth_model *model, const engine_layer *e,
                                     uint32_t layer, uint32_t place, uint32_t row, uint64_t *bytes, hearth_error *error)
{
    uint64_t copied;
    hearth_status status = write_neurons(&w->layers[layer], &model->layers[layer], e, place, row, 1, &copied, error);
    TRY(replaced(w, model, e, layer, place, row, false, status));
    w->layers[layer].rows[place] = row;
    *bytes += copied;
    return HEARTH_OK;
}

hearth_status device_weights_replace_expert(device_weights *w, const hearth_model *model, const engine_layer *e,
                                            uint32_t layer, uint32_t leave, uint32_t enter, uint64_t *bytes,
                                            hearth_error *error)
{
    uint64_t copied;
    device_layer *to = &w->layers[layer];
    uint32_t f = model->layers[layer].ffn.expert_neurons, place = to->ranges[2 * leave];
    hearth_status status = write_expert(to, &model->layers[layer], e, place, leave, enter, &copied, error);
    TRY(replaced(w, model, e, layer, place, enter, true, status));
    for (uint32_t i = 0; i < f; i++)
        to->rows[place + i] = enter * f + i;
    to->ranges[2 * leave] = to->ranges[2 * leave + 1] = 0;
    to->ranges[2 * enter] = place, to->ranges[2 * enter + 1] = place + f;
    *bytes += copied;
    return HEARTH_OK;
}

hearth_status device_weights_mend(device_weights *w, const hearth_model *model, const engine_layer *layers,
                                  hearth_error *error)
{
    uint32_t layer = w->torn.layer;
    if (!w->torn.is)
        return HEARTH_OK;
    TRY(write_back(w, model, &layers[layer], layer, w->torn.place, w->torn.enter, w->torn.expert, error));
    w->torn.is = false;
    return HEARTH_OK;
}
