/* device_weights.h - what an engine keeps in a device's memory: the weights that its placement lays there. */
#ifndef ENGINE_DEVICE_WEIGHTS_H
#define ENGINE_DEVICE_WEIGHTS_H

#include "../device/device.h"
#include "../model/model.h"
#include "placement.h"

/* Rows of a matrix in the device's layout (device/kernels/kernels.h).
 *
 * Matrices of one format that are multiplied with the same input lie one behind the other in the same buffers, a *stack*,
 * so that one launch can multiply them all. Each begins at a multiple of STACK_ROWS rows, which makes its offset one that
 * an argument may have, and rows of zeros fill the gaps. The first owns the buffers. */
typedef struct device_matrix {
    device_buffer *w, *scales; /* scales NULL: a float format; w NULL: no such matrix */
    size_t w_at, scales_at;    /* bytes, where its rows begin there                   */
    number_format format;
    uint32_t rows, columns;
    uint32_t stack_rows; /* of the stack that it is the first of (alone: its own rows); 0: it lies behind another */
} device_matrix;

#define STACK_ROWS 8

/* Rows that a member takes of a stack in which others follow; also where their results lie apart. */
static inline uint32_t stacked(uint32_t rows)
{
    return (rows + STACK_ROWS - 1) / STACK_ROWS * STACK_ROWS;
}

/* A layer of which the device has at least the attention. */
typedef struct device_layer {
    device_buffer *attention_norm, *ffn_norm; /* [d] float32                                                   */
    device_matrix q, k, v, attention_output;
    uint32_t neuron_count; /* n: the neurons that it works on; the matrices below have n rows */
    uint32_t *rows;        /* [n] ascending, in the model's matrices                        */
    device_matrix gate, up;
    device_matrix down_t;               /* or, with all neurons of a stock layer, ...                    */
    device_matrix down;                 /* ... [d][f]                                                    */
    device_matrix fc1, fc2;             /* fc1 whole                                                     */
    device_buffer *gate_bias, *up_bias; /* [n], or NULL                                                  */
    device_buffer *down_bias;           /* [d], or NULL                                                  */
} device_layer;

typedef struct device_weights {
    device *device;
    uint32_t layer_count; /* of the model                                                                      */
    device_layer *layers; /* [layer_count] zero where a layer is the CPU's                                     */
    device_matrix embedding, head; /* where the placement lays them there                                      */
    uint64_t bytes; /* in the device's memory                                                            */
} device_weights;

/* Uploads everything. down_t [layer_count]: the engine's (its own or the file's); without data the model's `down`
 * is taken as it is. HEARTH_UNSUPPORTED: a matrix has a format that devices lack (named). HEARTH_NO_MEMORY: the budget
 * does not hold it; the text says how many layers it would hold. */
hearth_status device_weights_create(device_weights **out, device *d, const hearth_model *model,
                                    const hearth_placement *placement, const matrix *down_t,
                                    const hearth_progress *progress, hearth_error *error);
void device_weights_destroy(device_weights *w);

/* Rows of the model's matrices that a side works on in a layer, ascending, into rows [neuron_count]. order: the
 * original number of each row, or NULL. */
hearth_status device_weights_rows(const layer_placement *p, uint32_t side, const int32_t *order, uint32_t neuron_count,
                                  uint32_t *rows, uint32_t *count, hearth_error *error);

#endif
