/* model.h - the nouns: what a model is once its file has been understood.
 *
 * Tensors point into the checkpoint's mappings, except the small ones that had to be converted
 * (norms, rope factors) or put in another order (q and k of a Hugging Face folder), which the model's
 * own memory holds. How anything is executed is not known here. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "../file/checkpoint.h"
#include "../text/tokenizer.h"
#include "family.h"

// clang-format off

/* Sizes and constants of one model. Letters as in DESIGN.md: d embedding_length, f neuron_count. */
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
    ffn_activation activation;
    float activation_threshold;         /* FATReLU; 0 for ReLU                            */
    uint32_t rope_pairs;                /* rotated pairs of a head                        */
    float attention_scale;              /* on q . k: 1 / sqrt(head_length)                */
    float rope_magnitude;               /* yarn's factor on cosine and sine; 1            */
    const double *rope_frequencies;     /* [rope_pairs] radians per position, scaling included; double, so
                                           that positions far out keep their angle */
} hyperparameters;

/* Every weight matrix is [out][in]: one row per output. NULL data: the model has none. */
typedef struct model_layer {
    const float *attention_norm;        /* [d]                                            */
    matrix q;                           /* [head_count * head_length][d], rotary pairs are neighbours */
    matrix k;                           /* [kv_head_count * head_length][d]               */
    matrix v;                           /* [kv_head_count * head_length][d]               */
    matrix attention_output;            /* [d][head_count * head_length]                  */
    const float *ffn_norm;              /* [d]                                            */
    matrix gate;                        /* [f][d]  a row per neuron                       */
    matrix up;                          /* [f][d]                                         */
    matrix down;                        /* [d][f]                                         */
} model_layer;

struct hearth_model {
    checkpoint *source;
    bool owns_source;                   /* closes it in the end                           */
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
    arena memory;
};

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

/* Why a model of this path that has no tokenizer has none, for people: "the folder has no tokenizer.model ...". */
const char *model_tokenizer_missing(const char *path);

/* HEARTH_UNSUPPORTED with that reason where the model has no tokenizer. */
hearth_status model_need_tokenizer(const hearth_model *model, hearth_error *error);

// clang-format on

#endif
