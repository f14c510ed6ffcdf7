/* model_family.h - which tensors the made models of a family have, and what each of them holds.
 *
 * A family is a row: its architecture in GGUF, its tensors, and what planting must know of it. Layers are of one kind, or
 * of several, whose order is the shape's pattern. Of the families that
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
    MATRIX_SHARED_GATE, /* of the expert that every token uses, as those above */
    MATRIX_SHARED_UP,
    MATRIX_SHARED_DOWN,
    MATRIX_SHARED_DOWN_T,
    VECTOR_SHARED_WEIGHT,     /* how much of its output counts */
    VECTOR_ROUTER_CORRECTION, /* what is added to scores before experts are chosen */
    MATRIX_RECURRENT_IN,      /* of recurrent mixers: gate, what is convolved and step sizes in one */
    MATRIX_RECURRENT_QKV,     /* or apart: what is convolved, ... */
    MATRIX_RECURRENT_GATE,
    MATRIX_RECURRENT_STEP,
    MATRIX_RECURRENT_BETA,
    MATRIX_CONVOLUTION,
    VECTOR_CONVOLUTION_BIAS,
    VECTOR_STEP_BIAS,
    MATRIX_DECAY, /* a row per head; or a vector */
    VECTOR_DECAY,
    MATRIX_SKIP,           /* of a head's values, what goes past its state */
    MATRIX_RECURRENT_NORM, /* by groups; or of one head */
    VECTOR_RECURRENT_NORM,
    MATRIX_RECURRENT_OUTPUT,
    MATRIX_GATED_QUERY, /* query and gate of each head */
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

/* One kind of layers. */
typedef struct layer_kind {
    char letter;             /* in the shape's pattern; 0: all layers are of this kind */
    bool recurrent, network; /* has a recurrent mixer; a feed-forward network */
    const tensor_row *rows;
    size_t count;
} layer_kind;

/* How files say what a layer has: all have attention and a network; each is one block, which follows from its sizes
 * being 0; or every n-th has attention, the others recurrent mixers. */
typedef enum layer_mixers { MIXERS_ATTENTION, MIXERS_BLOCKS, MIXERS_LISTED } layer_mixers;

typedef struct model_family {
    const char *architecture;
    const char *activation; /* of its published models, or of the sparse ones among them */
    bool layer_norm;        /* the mean is subtracted; otherwise RMS norms */
    bool positions;         /* are learned, and added to embeddings; otherwise keys of the rotation are written */
    bool biases;            /* of all matrices of a layer */
    bool tied;              /* the embedding is the head */
    bool powerinfer;        /* PowerInfer's kind of file exists for it */
    layer_mixers mixers;
    const tensor_row *of_model;
    const layer_kind *kinds;
    size_t of_model_count, kind_count;
} model_family;

extern const model_family family_llama, family_opt, family_falcon, family_smallthinker, family_qwen3moe,
    family_nemotron_h_moe, family_qwen35moe;

#endif
