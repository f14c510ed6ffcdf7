/* model.h - the types of an opened model: its hyperparameters, layers, tensors and predictors.
 *
 * Tensors point into the checkpoint's mappings. The exceptions lie in the model's own memory: small ones that had to
 * be converted (norms, rope factors), the order of neurons, whose numbers were checked one by one, and q and k of a
 * Hugging Face folder, whose rows were put in another order. How anything is executed is not known here. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "../file/checkpoint.h"
#include "../text/tokenizer.h"
#include "family.h"

// clang-format off

/* Sizes and constants of one model. Letters as in docs/design.md: d embedding_length, f neuron_count. */
typedef struct hyperparameters {
    uint32_t layer_count;
    uint32_t embedding_length;          /* d                                              */
    uint32_t neuron_count;              /* f                                              */
    uint32_t head_count;
    uint32_t kv_head_count;             /* divides head_count                             */
    uint32_t head_length;
    uint32_t vocabulary_size;
    uint32_t context_length;
    uint32_t sliding_window;            /* positions seen, itself included; 0: all        */
    float norm_epsilon;
    ffn_gating gating;
    ffn_activation activation;
    float activation_threshold;         /* FATReLU; 0 for ReLU                            */
    uint32_t rope_pairs;                /* rotated pairs of a head                        */
    float attention_scale;              /* on q . k: 1 / sqrt(head_length) where no key says else */
    float rope_magnitude;               /* yarn's factor on cosine and sine; 1            */
    float predictor_threshold;          /* powerinfer.sparse_threshold; 0 where absent    */
    const double *rope_frequencies;     /* [rope_pairs] radians per position, scaling included; double, so that angles
                                           at large positions stay accurate */
} hyperparameters;

/* Largest rank of a predictor. The largest known ones have 4096; the engine stores rank float32 values per row. */
#define PREDICTOR_RANK_LIMIT 65536

/* The kinds of predictors: how the neurons of a layer that may fire are found before they are computed. */
typedef enum predictor_kind {
    PREDICTOR_NONE,
    PREDICTOR_LOW_RANK,                 /* score = fc2 . relu(fc1 . input); a neuron is computed where its score is at
                                           least the threshold */
    PREDICTOR_COARSE,                   /* a low-bit copy of the first matrix, made with the engine; a neuron is
                                           computed where the copy's product with the input, plus `threshold` standard
                                           deviations of its rounding error, reaches the value at which the neuron
                                           fires */
    PREDICTOR_KINDS
} predictor_kind;

/* A predictor. Those of a PowerInfer file read the residual stream and share the file's threshold. */
typedef struct learned_predictor {
    predictor_kind kind;
    bool reads_normed;                  /* low-rank: true: the input is the normed input of the FFN; false: the
                                           residual stream before the norm. Coarse ones always read the normed input */
    number_format coarse_format;
    float threshold;
    matrix fc1;                         /* [rank][d]  low-rank                            */
    matrix fc2;                         /* [f][rank]  a row per row of gate               */
} learned_predictor;

/* One layer. Every weight matrix is [out][in]: one row per output. NULL data: the model has no such matrix. */
typedef struct model_layer {
    const float *attention_norm;        /* [d]                                            */
    matrix q;                           /* [head_count * head_length][d], rotary pairs are neighbours */
    matrix k;                           /* [kv_head_count * head_length][d]               */
    matrix v;                           /* [kv_head_count * head_length][d]               */
    matrix attention_output;            /* [d][head_count * head_length]                  */
    const float *ffn_norm;              /* [d]                                            */
    matrix gate;                        /* [f][d] a row per neuron; none in plain networks */
    matrix up;                          /* [f][d]                                         */
    const float *gate_bias, *up_bias;   /* [f], or NULL                                   */
    matrix down;                        /* [d][f]  stock layout, or ...                   */
    matrix down_t;                      /* [f][d] ... neuron-major, a row per neuron: exactly one of the two  */
    const float *down_bias;             /* [d], or NULL                                   */
    matrix fc1, fc2;                    /* of a PowerInfer file, as in learned_predictor  */
    learned_predictor predictor;        /* the one in use: the tune file's, else the model file's */
    const int32_t *order;               /* [f] the original number of the neuron in each row; NULL: the row's number */
} model_layer;

struct hearth_model {
    checkpoint *source;
    bool owns_source;                   /* hearth_model_close closes source               */
    bool is_view;                       /* shares everything except `tune` and its layers' predictors with another
                                           model */
    const family *family;
    const char *name;                   /* general.name, or what the path ends in         */
    hyperparameters hyper;
    tokenizer *tokenizer;               /* NULL: no vocabulary, or of an unknown kind     */
    const char *tokenizer_problem;      /* why it is NULL, for errors                     */
    matrix embedding;                   /* [vocabulary_size][d]                           */
    const float *output_norm;           /* [d]                                            */
    matrix head;                        /* [vocabulary_size][d]; the embedding where tied */
    const float *rope_factors;          /* [rope_pairs] divide the frequencies; NULL: none */
    model_layer *layers;                /* [layer_count]                                  */
    uint64_t parameter_count, weight_bytes;
    bool powerinfer;                    /* a PowerInfer file (PWRI)                       */
    bool neuron_major;                  /* layers have down_t                             */
    bool predictors;                    /* mode predicted can run: at least one layer has one */
    struct tune *tune;                  /* the tune file's contents; NULL: there is none  */
    const char *tune_problem;           /* why the tune file beside it was ignored; NULL: it was not */
    bool requantised;                   /* down_t was rounded once more when packing (hearth.pack.requantised)       */
    arena memory;
};

/* Returns the matrix that decides which neurons of a layer fire: gate, or up in plain networks. */
static inline const matrix *model_first_matrix(const hearth_model *m, uint32_t layer)
{
    return m->hyper.gating == FFN_PLAIN ? &m->layers[layer].up : &m->layers[layer].gate;
}
/* Returns the bias [f] of that matrix, or NULL. */
static inline const float *model_first_bias(const hearth_model *m, uint32_t layer)
{
    return m->hyper.gating == FFN_PLAIN ? m->layers[layer].up_bias : m->layers[layer].gate_bias;
}

/* Opens a GGUF file or a Hugging Face folder as a checkpoint with GGUF's names and keys. */
hearth_status model_open_checkpoint(checkpoint **out, const char *path, hearth_error *error);

/* Builds a model from a checkpoint and takes ownership of it (on failure the checkpoint is closed). hearth_model_open
 * calls it after model_open_checkpoint and then attaches the tune file; tests and fuzzers call it directly. options
 * may be NULL; its progress counts the bytes of matrices whose rows are put in another order. */
hearth_status model_bind(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                         hearth_error *error);

/* As model_bind, with the same checks, but puts no matrix in order: the model can be described or converted, not
 * computed with. The caller keeps source, which must outlive the model. */
hearth_status model_check(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                          hearth_error *error);

/* Returns why a source has no usable vocabulary, as a text for users: "the folder has no tokenizer.model ...". */
const char *model_tokenizer_missing(const checkpoint *source);

/* Returns HEARTH_UNSUPPORTED with that reason where the model has no tokenizer. */
hearth_status model_need_tokenizer(const hearth_model *model, hearth_error *error);

/* Reports that the model lacks what a tune file would provide; returns HEARTH_UNSUPPORTED. The text is "PATH:
 * reason"; where a tune file was ignored, it says why. */
hearth_status model_lacks_tune(const hearth_model *model, const char *reason, hearth_error *error);

// clang-format on

#endif
