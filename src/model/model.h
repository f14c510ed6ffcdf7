/* model.h - the nouns: what a model is once its file has been understood.
 *
 * Tensors point into the checkpoint's mappings, except the small ones that had to be converted
 * (norms, rope factors), were checked number by number (the order of neurons) or put in another order (q and k of a
 * Hugging Face folder), which the model's own memory holds. How anything is executed is not known here. */
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
    float attention_scale;              /* on q . k: 1 / sqrt(head_length)                */
    float rope_magnitude;               /* yarn's factor on cosine and sine; 1            */
    float predictor_threshold;          /* powerinfer.sparse_threshold; 0 where absent    */
    const double *rope_frequencies;     /* [rope_pairs] radians per position, scaling included; double, so
                                           that positions far out keep their angle */
} hyperparameters;

/* The largest known predictors have a rank of 4096; the engine keeps that many float32 values per row. */
#define PREDICTOR_RANK_LIMIT 65536

/* What tells beforehand which neurons of a layer may fire. */
typedef enum predictor_kind {
    PREDICTOR_NONE,
    PREDICTOR_LOW_RANK,                 /* score = fc2 . relu(fc1 . input); let through at or above the threshold */
    PREDICTOR_COARSE,                   /* a low-bit copy of the first matrix, made when an engine is; let through
                                           where its product with the input, plus threshold standard deviations of
                                           its own rounding error, reaches what makes the neuron fire   */
    PREDICTOR_KINDS
} predictor_kind;

/* A predictor in use. PowerInfer's read the residual stream and share the file's threshold. */
typedef struct learned_predictor {
    predictor_kind kind;
    bool reads_normed;                  /* low-rank: the input is what the network reads; else the residual stream
                                           before the norm. Coarse ones always read the former.         */
    number_format coarse_format;
    float threshold;
    matrix fc1;                         /* [rank][d]  low-rank                            */
    matrix fc2;                         /* [f][rank]  a row per row of gate               */
} learned_predictor;

/* Every weight matrix is [out][in]: one row per output. NULL data: the model has none. */
typedef struct model_layer {
    const float *attention_norm;        /* [d]                                            */
    matrix q;                           /* [head_count * head_length][d], rotary pairs are neighbours */
    matrix k;                           /* [kv_head_count * head_length][d]               */
    matrix v;                           /* [kv_head_count * head_length][d]               */
    matrix attention_output;            /* [d][head_count * head_length]                  */
    const float *ffn_norm;              /* [d]                                            */
    matrix gate;                        /* [f][d]  a row per neuron; none in plain forms  */
    matrix up;                          /* [f][d]                                         */
    const float *gate_bias, *up_bias;   /* [f], or NULL                                   */
    matrix down;                        /* [d][f]  stock layout, or ...                   */
    matrix down_t;                      /* [f][d]  ... neuron-major: a row per neuron; exactly one of the two */
    const float *down_bias;             /* [d], or NULL                                   */
    matrix fc1, fc2;                    /* of a PowerInfer file, as in learned_predictor  */
    learned_predictor predictor;        /* in use: of the tune file, else of the file     */
    const int32_t *order;               /* [f] the original number of the neuron in each row; NULL: its own */
} model_layer;

struct hearth_model {
    checkpoint *source;
    bool owns_source;                   /* closes it in the end                           */
    bool is_view;                       /* shares all but the predictors of its layers and `tune` with another model */
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
    bool predictors;                    /* mode predicted can run: a layer has one    */
    struct tune *tune;                  /* what was learnt about it; NULL: nothing        */
    const char *tune_problem;           /* why the tune file beside it was ignored; NULL: it was not */
    bool requantised;                   /* down_t was rounded once more when it was packed (hearth.pack.requantised) */
    arena memory;
};

/* The matrix that tells which neurons of a layer fire: gate, or up in plain networks; and its bias [f], or NULL. */
static inline const matrix *model_first_matrix(const hearth_model *m, uint32_t layer)
{
    return m->hyper.gating == FFN_PLAIN ? &m->layers[layer].up : &m->layers[layer].gate;
}
static inline const float *model_first_bias(const hearth_model *m, uint32_t layer)
{
    return m->hyper.gating == FFN_PLAIN ? m->layers[layer].up_bias : m->layers[layer].gate_bias;
}

/* A GGUF file or a Hugging Face folder as a checkpoint with GGUF's names and keys. */
hearth_status model_open_checkpoint(checkpoint **out, const char *path, hearth_error *error);

/* Understands a checkpoint, which the model owns afterwards (also on failure it is closed). The engine's and the
 * fuzzers' way in; hearth_model_open is this after model_open_checkpoint. options may be NULL; its progress sees the
 * bytes of matrices that are put in another order. */
hearth_status model_bind(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                         hearth_error *error);

/* Checks all that model_bind checks, but puts no matrix in order: a model to describe or to convert, not to compute
 * with. source stays the caller's and must outlive it. */
hearth_status model_check(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                          hearth_error *error);

/* Why a source without a vocabulary has none, for people: "the folder has no tokenizer.model ...". */
const char *model_tokenizer_missing(const checkpoint *source);

/* HEARTH_UNSUPPORTED with that reason where the model has no tokenizer. */
hearth_status model_need_tokenizer(const hearth_model *model, hearth_error *error);

/* HEARTH_UNSUPPORTED: the model needs what a tune file would have told. The text is "PATH: reason", or where the tune
 * file was ignored, why. */
hearth_status model_lacks_tune(const hearth_model *model, const char *reason, hearth_error *error);

// clang-format on

#endif
