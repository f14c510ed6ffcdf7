/* model_family.h - which tensors the made models of a family have, and what each of them holds.
 *
 * A family is a row: its architecture in GGUF, its tensors, and what planting must know of it. Of the families that
 * hearth runs (src/model/family.h) these are the ones whose published shapes are worth measuring. */
#ifndef BENCH_MODEL_FAMILY_H
#define BENCH_MODEL_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

/* What a tensor holds (model_rows.c). The numbers choose random numbers, so they decide the bytes of files: new ones
 * go to the end. */
typedef enum model_matrix {
    MATRIX_EMBEDDING,
    MATRIX_HEAD,
    MATRIX_QUERY,
    MATRIX_KEY,
    MATRIX_VALUE,
    MATRIX_ATTENTION_OUTPUT,
    MATRIX_GATE, /* the first matrix: gate, or up where there is no gate */
    MATRIX_UP,
    MATRIX_DOWN,
    MATRIX_DOWN_T,
    MATRIX_FC1,
    MATRIX_FC2,
    STREAM_RANKS, /* random numbers that belong to no matrix */
    STREAM_MOVES,
    STREAM_OTHERS,
    STREAM_SAMPLE,
    MATRIX_QKV,       /* queries, keys and values in one */
    MATRIX_POSITIONS, /* learned ones */
    MATRIX_ROUTER,
    VECTOR_NORM,
    VECTOR_OUTPUT_NORM,
    VECTOR_HEAD_NORM, /* of one head's query or key */
    VECTOR_FIRST_BIAS,
    VECTOR_ZEROS, /* biases that add nothing, as wide as the model, ... */
    VECTOR_KEY_ZEROS,
    MATRIX_COUNT
} model_matrix;

/* What a file has besides: down with a row per output; or with a row per neuron (IN_NEURON_MAJOR), and then in
 * PowerInfer's kind of file predictors too. */
typedef enum tensor_presence { ALWAYS, IN_STOCK, IN_NEURON_MAJOR, IN_POWERINFER } tensor_presence;

typedef struct tensor_row {
    const char *name; /* %u: the layer */
    model_matrix which;
    tensor_presence where;
} tensor_row;

typedef struct model_family {
    const char *architecture;
    const char *activation; /* of its published models, or of the sparse ones among them */
    bool layer_norm;        /* the mean is subtracted; otherwise RMS norms */
    bool rotates;           /* otherwise positions are learned, and added to embeddings */
    bool biases;            /* of all matrices of a layer */
    bool tied;              /* the embedding is the head */
    bool powerinfer;        /* PowerInfer's kind of file exists for it */
    const tensor_row *of_model, *of_layer;
    size_t of_model_count, of_layer_count;
} model_family;

extern const model_family family_llama, family_opt, family_falcon, family_smallthinker, family_qwen3moe;

#endif
