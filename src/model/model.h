/* model.h - the types of an opened model: its hyperparameters, layers, tensors and predictors.
 *
 * Tensors point into the checkpoint's mappings. The exceptions lie in the model's own memory: small ones that had to
 * be converted (norms, rope factors), the order of neurons, whose numbers were checked one by one, and q and k of a
 * Hugging Face folder, whose rows were put in another order. How anything is executed is not known here. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "../file/checkpoint.h"
#include "../text/tokenizer.h"
#include "layer.h"
#include "spellings.h"

// clang-format off

/* What all layers of a model have in common. Letters as in docs/design.md: d embedding_length. */
typedef struct hyperparameters {
    uint32_t layer_count;
    uint32_t draft_layers;              /* blocks of the file behind them that guess tokens ahead; they are not used */
    uint32_t embedding_length;          /* d                                              */
    uint32_t vocabulary_size;
    uint32_t context_length;
    uint32_t position_offset;           /* row of the table of learned positions that position 0 uses */
    rope_pairing pairing;               /* of what is rotated                             */
    uint32_t rope_pairs;                /* rotated pairs of a head; 0: positions are not rotated */
    uint32_t window_rope_pairs;         /* the same in layers with a window               */
    uint32_t per_layer_length;          /* p, values of each layer's own input; 0: there are none */
    uint32_t per_layer_vocabulary;      /* tokens that have rows for them                 */
    uint32_t stream_count;              /* S, streams of the residual; 1                  */
    uint32_t active_stream;             /* the one that layers run on (WIRING_STREAMS)    */
    float connection_magnitude;         /* of stream_connection; 0: its layers have none  */
    uint32_t connection_steps;          /* ... 0: streams are not mixed                   */
    float connection_epsilon;
    uint32_t connection_rank;           /* R of gated_connection; 0: its layers have none */
    uint32_t laurel_rank;               /* r                                              */
    ngram_shape ngrams;
    norm_kind norm;
    float norm_epsilon;
    float post_epsilon;                 /* of norms of what blocks add                    */
    float latent_epsilon;               /* of those within latent attention               */
    float index_epsilon;                /* of those of keys that score positions          */
    bool embedding_norm;                /* embeddings are normed, without weights         */
    float embedding_scale;              /* of embeddings; 1                               */
    float residual_scale;               /* of what blocks add to the residual stream; 1   */
    float logit_scale;                  /* of logits; 1                                   */
    float score_growth;                 /* scores of position p are multiplied with 1 + score_growth * log(1 + floor((p + ... */
    uint32_t score_growth_ahead;        /* ... score_growth_ahead) / ...                                    */
    uint32_t score_growth_from;         /* ... score_growth_from)); score_growth 0: they stay as they are   */
    float logit_softcap;                /* logits l become softcap * tanh(l / softcap); 0: they stay as they are */
    float predictor_threshold;          /* powerinfer.sparse_threshold; 0 where absent    */
} hyperparameters;

/* Returns M of stream_connection, or S where connections are gates; 0: blocks are not connected with streams. */
uint32_t hyper_connections(const hyperparameters *h);
/* Returns what the scores of a position are multiplied with, less one. */
float hyper_score_gain(const hyperparameters *h, uint32_t position);

struct hearth_model {
    checkpoint *source;
    bool owns_source;                   /* hearth_model_close closes source               */
    bool is_view;                       /* shares everything except `tune` with another model */
    const family *family;
    const char *name;                   /* general.name, or what the path ends in         */
    hyperparameters hyper;
    tokenizer *tokenizer;               /* NULL: no vocabulary, or of an unknown kind     */
    const char *tokenizer_problem;      /* why it is NULL, for errors                     */
    spellings *spellings;               /* of its tokens; NULL: no tokenizer              */
    matrix embedding;                   /* [vocabulary_size][d]                           */
    norm_weights embedding_norm;        /* [d]  of embeddings                             */
    matrix positions;                   /* [position_offset + context_length][d]  added to embeddings; no data:
                                           none */
    matrix per_layer_tokens;            /* [per_layer_vocabulary][layer_count * p]        */
    matrix per_layer_projection;        /* [layer_count * p][d]                           */
    norm_weights per_layer_norm;        /* [p]                                            */
    matrix stream_in, stream_out;       /* [(S - 1) * d][d]  to the other streams, and back */
    norm_weights output_norm;           /* [d]; none where gates end the streams          */
    gated_connection end_gates;         /* what makes one of the streams, or ...          */
    stream_connection end_connection;   /* ... weighs them, with [S] of what blocks read alone; without either the mean is taken */
    matrix ngram_rows;                  /* [row_count][row_length] as in ngram_shape      */
    matrix head;                        /* [vocabulary_size][d]; the embedding where tied */
    const float *head_bias;             /* [vocabulary_size] of logits, or NULL           */
    const float *rope_factors;          /* [rope_pairs] divide the frequencies; NULL: none */
    const float *rope_factors_long;     /* [rope_pairs] in their place where a session has room for more than
                                           rotary.long_from positions */
    rotary *rotaries;                   /* [rotary_count] the layers refer to them        */
    rotary index_rotary;                /* of index_shape: layers refer to it             */
    uint32_t rotary_count;
    model_layer *layers;                /* [layer_count]                                  */
    uint64_t parameter_count, weight_bytes;
    bool powerinfer;                    /* a PowerInfer file (PWRI)                       */
    bool neuron_major;                  /* layers have down_t                             */
    bool predictors;                    /* layers have fc1 and fc2: PowerInfer's predictors */
    struct tune *tune;                  /* the tune file's contents; NULL: there is none  */
    const char *tune_problem;           /* why the tune file beside it was ignored; NULL: it was not */
    bool requantised;                   /* down_t was rounded once more when packing (hearth.pack.requantised)       */
    arena memory;
};

/* Sizes of the widest layers, for buffers that all layers share. */
typedef struct layer_sizes {
    uint32_t neurons;                   /* f                                              */
    uint32_t network;                   /* of one expert, or of a layer without experts   */
    uint32_t listed;                    /* of all experts that a token uses together; of a layer without experts */
    uint32_t experts, used, expert;     /* how many a token uses; neurons of one; 0: there are none */
    uint32_t query, key;                /* Q, K as in model_layer                         */
    uint32_t gated_query;               /* 2 Q where queries and gates are one matrix, else the gates */
    uint32_t result;                    /* what output matrices of attention read         */
    uint32_t latent_heads, query_rank, short_query; /* of latent attention, with letters as in attention_shape: H, or groups
                                                       of heads, ..., H * (n + r) */
    uint32_t head_in, head_out;         /* n or C, C or V; of groups of heads what they have read, and output_rank */
    uint32_t summary;                   /* values that summaries are made of; 0: there are none */
    uint32_t chosen, index_heads, index_length; /* of chosen positions: the most that are seen, J, I; 0: no layer chooses */
    uint32_t pooled;                    /* I of those that make keys of pools             */
    uint32_t pool, choosers;            /* positions of those that share a score; choices of a row */
    uint32_t connections;               /* hyper_connections                              */
    uint32_t heads, group;              /* heads of queries; those that share keys        */
    uint32_t head_length;
    uint32_t rotated;                   /* pairs of all rotaries together                 */
    uint32_t latent;                    /* values that experts read, where these are not d */
    uint32_t recurrent, channels;       /* V, C as in model_layer                         */
    uint32_t recurrent_heads;
    uint32_t columns, low_rank;         /* V and the largest rank of recurrent_by_columns; 0: there is none */
} layer_sizes;
layer_sizes model_largest(const hearth_model *model);

/* Returns the shape of the first layer with attention; all zero where none has. */
const attention_shape *model_first_attention(const hearth_model *model);
/* Returns that of the first layer whose tokens see chosen positions; of the first one with attention where there is none. */
const attention_shape *model_first_choice(const hearth_model *model);

/* Return how many layers have a feed-forward network, and the number of the first one; 0 where none has. */
uint32_t model_networks(const hearth_model *model);
uint32_t model_first_network(const hearth_model *model);

/* Returns whether some layer has activations that are often exactly zero. */
bool model_has_zeros(const hearth_model *model);

/* Returns whether there can be predictors: every layer with a network is ffn_predictable. */
bool model_predictable(const hearth_model *model);

/* Opens a GGUF file or a Hugging Face folder as a checkpoint with GGUF's names and keys; or a file named *tokenizer.json
 * or *tokenizer.model, which holds nothing but a vocabulary. */
hearth_status model_open_checkpoint(checkpoint **out, const char *path, hearth_error *error);

/* Builds a model from a checkpoint and takes ownership of it (on failure the checkpoint is closed). hearth_model_open
 * calls it after model_open_checkpoint and then attaches the tune file; tests and fuzzers call it directly. options
 * may be NULL; its progress counts the bytes of matrices whose rows are put in another order. */
hearth_status model_bind(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                         hearth_error *error);

/* As model_bind, with the same checks, but puts no matrix in order: the model can be described or converted, not
 * computed with. The caller keeps source, which must outlive the model; pointers to its tensors become invalid where it
 * has tensors of single experts (experts.h). */
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
