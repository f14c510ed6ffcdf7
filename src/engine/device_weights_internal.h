/* device_weights_internal.h - what the files that upload weights share. */
#ifndef ENGINE_DEVICE_WEIGHTS_INTERNAL_H
#define ENGINE_DEVICE_WEIGHTS_INTERNAL_H

#include "device_weights.h"
#include "engine.h"

typedef struct loader {
    device_weights *to;
    const hearth_model *model;
    const engine_layer *layers; /* [layer_count] */
    const hearth_progress *progress;
    uint64_t done, total; /* bytes uploaded */
    hearth_error *error;
    bool counts; /* only counts bytes: nothing is created or uploaded */
} loader;

/* A matrix of a stack; fields as the parameters of upload_matrix. Different formats make different stacks. */
typedef struct member {
    device_matrix *out;
    const matrix *m;
    uint32_t rows;
    const char *what;
    const uint32_t *list; /* [rows] those of m, then those of its tail; NULL: the first ones   */
    const matrix *tail;   /* the last rows are of this matrix, of the same format; NULL: none */
    uint32_t tail_rows;
} member;

/* Reports progress; returns false if the caller cancels. */
bool upload_goes_on(const loader *l);
/* Creates the buffers of a matrix that is alone in its stack, and uploads its rows list[0 .. rows), or the first `rows`. */
hearth_status upload_matrix(loader *l, device_matrix *out, const matrix *m, const uint32_t *list, uint32_t rows,
                            const char *what);
/* Uploads matrices that have the same input; neighbours of one format share a stack. */
hearth_status upload_stacks(loader *l, const member *members, size_t count, uint32_t layer);
/* Uploads all rows of a matrix of a layer; nothing if it has no data. */
hearth_status upload_whole(loader *l, device_matrix *out, const matrix *m, uint32_t layer, const char *what);
/* Uploads the rows of the neurons of the device; nothing if the matrix has no data. */
hearth_status upload_rows(loader *l, device_matrix *out, const matrix *m, const device_layer *to, uint32_t layer,
                          const char *what);
/* Uploads floats list[0 .. n) of values, or the first n; nothing if values is NULL. */
hearth_status upload_floats(loader *l, device_buffer **out, const float *values, const uint32_t *list, uint32_t n,
                            const char *what);
/* Uploads the weights of a norm of n values, or of those in the list. */
hearth_status upload_norm(loader *l, device_norm *to, const norm_weights *from, const uint32_t *list, uint32_t n,
                          const char *what);
/* Uploads `count` numbers. */
hearth_status upload_words(loader *l, device_buffer **out, const uint32_t *words, uint32_t count, const char *what);

/* Creates a buffer of `count` numbers, all 0. */
hearth_status upload_zeros(loader *l, device_buffer **out, uint32_t count, const char *what);
/* Overwrites `count` rows of a matrix from row `place` on with those of m from row `row` on; packed: room for them. In
 * device_weights_upload.c. */
hearth_status upload_over(const device_matrix *to, uint32_t place, const matrix *m, uint32_t row, uint32_t count,
                          void *packed, hearth_error *error);
/* Returns the bytes that a row of a matrix takes, with its scales. */
size_t upload_row_bytes(const matrix *m);

/* Returns gate or up with all rows that it has from the first expert's to the last one's, which may lie further apart than their
 * neurons. In device_weights_neurons.c. */
matrix spread_matrix(const model_layer *l, const matrix *m);
/* Returns the row there of a neuron that is not the shared expert's. */
static inline uint32_t spread_row(const model_layer *l, uint32_t row)
{
    bool experts = l->ffn.router.expert_count > 0;
    return experts ? row / l->ffn.expert_neurons * (l->expert_stride - l->ffn.expert_neurons) + row : row;
}

/* Lists and uploads the neurons of the device in a layer; with none of them only the bias of down. In
 * device_weights_neurons.c. */
hearth_status upload_neurons(loader *l, device_layer *to, const layer_placement *p, uint32_t layer);

#endif
