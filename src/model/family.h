/* family.h - the families of models, one table row each: a family is data.
 *
 * A row says how files name the family and, by rules, which tensors it has: role, name in GGUF, name in a Hugging
 * Face folder, shape in symbolic dimensions. Loader, converter and error texts use the same rules. A family that
 * needs code adds a value to a column, never an `if` on its name. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "../base/text.h"
#include "../kernel/kernel.h"

// clang-format off

/* An FFN activation, by the name that files use. */
typedef struct ffn_activation_row {
    const char *name;               /* llama.hidden_activation, config.json's hidden_act   */
    const char *other_names[2];     /* which config.json uses too                          */
    kernel_activation kernel;
    bool of_both;                   /* gate and up: implies FFN_GATED_BOTH                 */
    bool has_threshold;             /* reads hidden_activation_param / hidden_act_param    */
    bool limits;                    /* the threshold limits gate and up (kernel.h): a network has both */
} ffn_activation_row;

typedef enum ffn_activation {
    FFN_SILU, FFN_RELU, FFN_FATRELU, FFN_DRELU, FFN_RELU2, FFN_GELU, FFN_GELU_TANH, FFN_SWIGLU_CLAMPED, FFN_SILU_LIMITED,
    FFN_SILU_CLAMPED, FFN_XIELU,
    FFN_ACTIVATION_COUNT
} ffn_activation;

/* Appends a name to a list "a, b" in out, for errors and help that list the rows of a table. */
void append_name(char *out, size_t size, const char *name);

extern const ffn_activation_row ffn_activations[FFN_ACTIVATION_COUNT];
/* Returns true where the activation is often exactly zero, so that neurons can be skipped without loss. */
static inline bool ffn_has_zeros(ffn_activation a)
{
    return ffn_activations[a].kernel == ACTIVATION_RELU || ffn_activations[a].kernel == ACTIVATION_RELU2;
}
/* Returns the activation of that name; FFN_ACTIVATION_COUNT where there is none. */
ffn_activation ffn_activation_by_name(const char *name, size_t size);
/* Writes "silu, relu, fatrelu", for errors and help: in ACTIVATION_LIST_SIZE bytes. */
#define ACTIVATION_LIST_SIZE 200
void ffn_activation_list(char *out, size_t size);

/* The gating of a feed-forward network (docs/design.md): how the activation of neuron i is computed. */
typedef enum ffn_gating {
    FFN_GATED,                      /* act(gate_i . x) * (up_i . x)                                   */
    FFN_GATED_BOTH,                 /* act(gate_i . x) * act(up_i . x): dReLU                         */
    FFN_PLAIN,                      /* act(up_i . x), without a gate                                  */
    FFN_GATING_COUNT
} ffn_gating;

/* What a norm subtracts and divides by: RMS divides by the root mean square; LAYER first subtracts the mean. */
typedef enum norm_kind { NORM_RMS, NORM_LAYER } norm_kind;

/* How the router's products become scores: their shares of all experts' exponentials; the logistic function; or
 * sqrt(log(1 + exp(x))); or the logistic function again, of experts that are chosen by their products (and what corrects these). */
typedef enum router_scoring {
    ROUTER_SOFTMAX, ROUTER_SIGMOID, ROUTER_ROOT_SOFTPLUS, ROUTER_SIGMOID_OF_CHOSEN, ROUTER_SCORINGS
} router_scoring;

/* Layers that are exceptions: the first or the last of every `period` layers; period 0: none is. */
typedef struct layer_pattern {
    uint32_t period;
    bool first;
} layer_pattern;

/* Returns whether a layer is one of the pattern's. */
static inline bool in_pattern(layer_pattern p, uint32_t layer)
{
    return p.period > 0 && layer % p.period == (p.first ? 0 : p.period - 1);
}

/* What moves information between positions in a layer. */
typedef enum mixer_kind { MIXER_ATTENTION, MIXER_RECURRENT, MIXER_NONE, MIXER_COUNT } mixer_kind;

/* The rules by which recurrent mixers change their states (recurrent_shape). */
typedef enum recurrence { RECURRENCE_MAMBA2, RECURRENCE_DELTA, RECURRENCE_SHORT, RECURRENCE_RWKV7, RECURRENCE_KDA } recurrence;

/* How files say which mixer a layer has. BLOCKS: each layer is one block, a mixer or a network; in GGUF a layer with
 * neurons (feed_forward_length) is a network, one with heads of keys (attention.head_count_kv) is attention, and one with
 * neither is recurrent. LISTED: the key attention.recurrent_layers has a boolean for each layer, or else only the last of every
 * full_attention_interval layers has attention; every layer has a network. KEYS: a layer with heads of keys has attention, one
 * without is recurrent; every layer has a network. RECURRENT: every layer is recurrent and has a network. PARTS: a layer without
 * heads has no mixer, and one without neurons no network. */
typedef enum layer_mixers {
    MIXERS_ATTENTION, MIXERS_BLOCKS, MIXERS_LISTED, MIXERS_KEYS, MIXERS_RECURRENT, MIXERS_PARTS
} layer_mixers;

/* How the blocks of a layer read and change the residual stream x. A block is norm, network, post norm. */
typedef enum layer_wiring {
    WIRING_SEQUENTIAL,              /* x += attention(x), then x += feed-forward(x)                   */
    WIRING_PARALLEL,                /* x += attention(x) + feed-forward(x); without a norm of its own the feed-forward
                                       network reads the normed input of attention */
    WIRING_STREAMS,                 /* several streams of the residual: a layer predicts all of them, runs sequentially on
                                       one, and corrects all by what that changed (AltUp, arXiv 2301.13310) */
    WIRING_CONNECTED,               /* several streams of the residual, sequentially: each block reads a mixture of them, and they
                                       become mixtures of themselves and of its result (hyper-connections, stream_connection), or
                                       its result is added to each (gated_connection) */
    WIRING_COUNT
} layer_wiring;

/* Symbolic sizes of shapes; hyper_dimension() returns their values. */
typedef enum dimension {
    DIMENSION_NONE,                 /* as rows: the tensor is a vector; as rotary: no rotation        */
    DIMENSION_EMBEDDING,            /* d                                                              */
    DIMENSION_NEURONS,              /* f                                                              */
    DIMENSION_QUERY,                /* head_count * head_length                                       */
    DIMENSION_GATED_QUERY,          /* queries and their gates: 2 * head_count * head_length          */
    DIMENSION_KEY,                  /* kv_head_count * head_length                                    */
    DIMENSION_VALUES,               /* kv_head_count * value_length                                   */
    DIMENSION_QKV,                  /* a query and its key and value                                  */
    DIMENSION_HEAD,                 /* head_length                                                    */
    DIMENSION_GATE_UP,              /* 2 f                                                            */
    DIMENSION_POSITIONS,            /* position_offset + context_length                               */
    DIMENSION_EXPERTS,              /* expert_count                                                   */
    DIMENSION_EXPERT_NEURONS,       /* neurons of one expert                                          */
    DIMENSION_SHARED_NEURONS,       /* neurons of the expert that every token uses                    */
    DIMENSION_VOCABULARY,
    DIMENSION_ROPE_PAIRS,
    DIMENSION_WINDOW_PAIRS,         /* the same in layers with a window                               */
    DIMENSION_HEADS,
    DIMENSION_GATES,                /* head_count * gate_length                                       */
    DIMENSION_RESULT,               /* what the output matrix reads of all heads                      */
    DIMENSION_QUERY_RANK,
    DIMENSION_SHORT_QUERY,          /* H * (n + r), with letters as in attention_shape                */
    DIMENSION_COMPRESSED_KEY,       /* C + r                                                          */
    DIMENSION_COMPRESSED,           /* C                                                              */
    DIMENSION_UNROTATED,            /* n                                                              */
    DIMENSION_VALUE,                /* V                                                              */
    DIMENSION_INDEX_QUERY,          /* J * I, with letters as in index_shape                          */
    DIMENSION_INDEX_HEADS,          /* J                                                              */
    DIMENSION_INDEX_LENGTH,         /* I                                                              */
    DIMENSION_POOL,                 /* positions that share a score                                   */
    DIMENSION_SUMMARY,              /* P * K, with letters as in model_layer                          */
    DIMENSION_TOGETHER,             /* positions of a summary                                         */
    DIMENSION_INDEX_SUMMARY,        /* P * I                                                          */
    DIMENSION_OUTPUT_GROUP,         /* what a matrix of output_in reads                               */
    DIMENSION_EXPERTS_USED,
    DIMENSION_KEY_VALUE_UP,         /* H * (n + V)                                                    */
    DIMENSION_KV_HEADS,
    DIMENSION_LATENT,               /* what experts read and write: latent, or d                      */
    DIMENSION_RECURRENT_IN,         /* V + C + H, with letters as in recurrent_shape                  */
    DIMENSION_DELTA_IN,             /* C + V                                                          */
    DIMENSION_SHORT_IN,             /* 2 V + C                                                        */
    DIMENSION_BETA_STEP,            /* 2 H                                                            */
    DIMENSION_RECURRENT_WIDTH,      /* V                                                              */
    DIMENSION_RECURRENT_HEADS,      /* H                                                              */
    DIMENSION_RECURRENT_VALUE,      /* P                                                              */
    DIMENSION_RECURRENT_GROUPS,     /* G                                                              */
    DIMENSION_RECURRENT_GROUP,      /* V / G                                                          */
    DIMENSION_CHANNELS,             /* C                                                              */
    DIMENSION_CONVOLUTION,          /* W                                                              */
    DIMENSION_MIXTURES,             /* of a token's input and the one before: RWKV_INPUTS             */
    DIMENSION_DECAY_RANK,           /* ranks[MAP_DECAY] ...                                           */
    DIMENSION_RATE_RANK,
    DIMENSION_VALUE_RANK,
    DIMENSION_GATE_RANK,
    DIMENSION_EXPERT_GATE_UP,       /* 2 neurons of one expert                                        */
    DIMENSION_PER_LAYER,            /* values of a layer's own input                                  */
    DIMENSION_PER_LAYERS,           /* those of all layers                                            */
    DIMENSION_PER_LAYER_VOCABULARY,
    DIMENSION_STREAMS,              /* streams of the residual                                        */
    DIMENSION_OTHER_STREAMS,        /* ... but the first                                              */
    DIMENSION_STREAM_PAIRS,         /* streams * streams                                              */
    DIMENSION_LAUREL,               /* rank of the two matrices beside attention                      */
    DIMENSION_ALL_STREAMS,          /* S * d, with letters as in stream_connection                    */
    DIMENSION_CONNECTIONS,          /* M; where connections are gates, S                              */
    DIMENSION_CONNECTION_SCALES,    /* CONNECTION_SCALES; where streams are not mixed, 2              */
    DIMENSION_CONNECTION_RANK,      /* R                                                              */
    DIMENSION_NGRAM_ROWS,           /* of all tables of n-grams together (ngram_shape)                */
    DIMENSION_NGRAM_LENGTH,         /* of a row                                                       */
    DIMENSION_NGRAM_WINDOW,         /* tokens that their convolution sees                             */
    DIMENSION_RANK,                 /* of a layer's predictor: taken from its tensors, where both must agree */
    DIMENSION_COUNT
} dimension;

enum tensor_rule_flags {
    TENSOR_OPTIONAL = 1,            /* may be absent; of a layer: all layers have it, or none         */
    TENSOR_HEAD = 2,                /* gives logits; where absent, the tensor flagged TENSOR_EMBEDDING does */
    TENSOR_EMBEDDING = 4,
    TENSOR_CONSTANT = 8,            /* follows from hyperparameters: not counted as a parameter       */
    TENSOR_IGNORED = 16,            /* some files have it, it is not used                             */
    TENSOR_STOCK = 32,              /* only where down has a row per output, as usual ...             */
    TENSOR_NEURON_MAJOR = 64,       /* ... only where it has a row per neuron (transposed): exactly one of the two */
    TENSOR_PREDICTOR = 128,         /* all in every layer or none; a PowerInfer file must have them   */
    TENSOR_INTEGERS = 256,          /* I32: a permutation, not weights; of a matrix, the experts of each token */
    TENSOR_MLP_BIAS = 512,          /* a folder has it where config.json's mlp_bias is true           */
    TENSOR_NORM = 1024,             /* the weights of a norm                                          */
    TENSOR_LESS_ONE = 2048,         /* a folder has the values minus one                              */
    TENSOR_TRANSPOSED = 4096,       /* a folder has a row per input                                   */
    TENSOR_ALIAS = 8192,            /* another name, of a folder or in GGUF, of the tensor that another rule describes */
    TENSOR_EXPERTS = 32768,         /* one matrix (or vector) per expert, stacked; some files have a tensor for each
                                       (tensor_rule_is_single) */
    TENSOR_OF_EXPERTS = 65536,      /* only in layers that have experts                               */
    TENSOR_OF_DENSE = 131072,       /* only in layers that have none                                  */
    TENSOR_EVEN = 262144,           /* every second value of a folder's rows, from the first on              */
    TENSOR_ODD = 524288,            /* ... from the second on                                                */
    TENSOR_FIRST_HALF = 1048576,    /* the first half of the rows of each of a folder's stacked matrices     */
    TENSOR_SECOND_HALF = 2097152,   /* ... the second half                                                   */
    TENSOR_OF_ATTENTION = 4194304,  /* only in layers whose mixer is attention ...                           */
    TENSOR_OF_RECURRENT = 8388608,  /* ... is recurrent                                                      */
    TENSOR_FLAT = 16777216,         /* its rows are a vector, not weights to multiply: always float          */
    TENSOR_NEGATED_EXPONENT = 33554432, /* a folder has a where GGUF has -exp(a), or exp(a) where maps are whole */
    TENSOR_OF_LATENT = 67108864,    /* only in layers whose experts read and write another width             */
    TENSOR_VALUE_ROWS = 134217728,  /* a folder has the heads of values (RECURRENCE_DELTA) of its last rows in another order,
                                       as stored_tensor.value_groups says ...                                */
    TENSOR_VALUE_COLUMNS = 268435456, /* ... of its columns                                                  */
    TENSOR_HEADS = 536870912,       /* one matrix per head, stacked; a folder has the rows of key_up, as columns, and of
                                       value_up together                                                     */
    TENSOR_BY_KEYS = 1073741824,    /* a folder has the rows of each key together, those of `convolved` and of
                                       `recurrent_gate` in one (model_layer.delta_in)                        */
    TENSOR_FUSED = 16384            /* a folder has the rows of a key's queries, of the key and of its value together; GGUF may have
                                       them in three tensors */
};

/* What a layer must have, or its model, to have the tensor of a rule (tensor_rule.needs). Where it lacks that, a tensor with
 * NEEDS_OR_UNUSED is not used; others must not be there. */
enum layer_needs {
    NEEDS_WINDOW = 1,               /* attention with a window                                        */
    NEEDS_NO_WINDOW = 2,
    NEEDS_OWN_KEYS = 4,             /* keys and values of its own                                     */
    NEEDS_PER_LAYER = 8,            /* inputs of its own                                              */
    NEEDS_OR_UNUSED = 16,
    NEEDS_QUERY_RANK = 32,          /* two matrices that make queries                                 */
    NEEDS_NO_QUERY_RANK = 64,
    NEEDS_VALUE_RANK = 128,         /* values that are mixed with those of the first layer            */
    NEEDS_INDEX = 256,              /* positions that it chooses itself (attention_shape.chosen)      */
    NEEDS_NGRAMS = 512,             /* n-grams that it adds to the streams (model_layer.ngrams) ...   */
    NEEDS_NGRAM_TABLES = 1024,      /* ... or some layer does                                         */
    NEEDS_SUMMARIES = 2048,         /* attention_shape.summary                                        */
    NEEDS_TOKEN_EXPERTS = 4096,     /* experts that tokens are given (router_shape.by_token) ...      */
    NEEDS_CHOSEN_EXPERTS = 8192     /* ... or that they choose                                        */
};

typedef struct tensor_rule {
    const char *name;               /* name in GGUF; "%u" stands for the layer, a second one for the expert */
    const char *folder_name;        /* name in a Hugging Face folder; NULL: it never has one          */
    size_t field;                   /* offset in model_layer where the name has a layer, else in hearth_model: of a
                                       matrix, or for a vector of a const float * */
    dimension rows, columns;        /* the shape in GGUF's order is {columns, rows}, or {columns}     */
    dimension rotary;               /* number of heads whose rows a folder stores as halves
                                       (stored_tensor.rotary_heads) */
    unsigned flags;
    unsigned needs;                 /* layer_needs                                                    */
    dimension stack;                /* how many matrices lie one after another, of which a folder has a tensor each, with
                                       their number in its name; NONE: one, or those of TENSOR_EXPERTS */
} tensor_rule;

/* A setting of config.json that must have one value, because others are not supported. */
typedef struct required_setting {
    const char *key;
    bool expected, missing;         /* the value it must have; the one it has where it is missing */
} required_setting;
#define MOST_REQUIRED 6

/* The number that a family's models have where config.json does not say it: transformers' default. */
typedef struct default_number {
    const char *key;
    double value;
} default_number;
#define MOST_DEFAULTS 6

typedef struct family {
    const char *name;               /* general.architecture in GGUF, and the prefix of its keys  */
    const char *model_type;         /* config.json's model_type                                  */
    const char *architecture;       /* config.json's architectures[0]                            */

    norm_kind norm;
    bool norm_by_key;               /* ... but NORM_RMS where there is the epsilon of that                       */
    const char *epsilon;            /* config.json's name of the norms' epsilon; NULL: rms_norm_eps          */
    float default_epsilon;          /* where config.json lacks it; 0: it must be there                       */
    float post_epsilon;             /* of norms of what blocks add; 0: that of the others                    */
    bool embedding_norm;            /* embeddings are normed, without weights                                */

    rope_pairing pairing;
    bool sections_halve;            /* ... but halves in GGUF files of models for pictures, too (rope.dimension_sections) */
    bool unrotated;                 /* positions are not rotated (they are learned and added)                */
    bool turns_back;                /* ... or by negative angles (rope_settings.backwards)                   */
    layer_pattern without_rotary;   /* layers that do not rotate                                             */
    bool rotation_listed;           /* the key attention.rope_pattern says of each layer whether it rotates  */
    bool windows_rotate;            /* where some layers have a window, only those rotate ...                */
    bool dense_rotate;              /* only layers with a window, and those without experts, rotate in any case */
    float rope_base;                /* where config.json has no rope_theta; 0: 10000                         */
    bool rope_said;                 /* config.json must describe the rotation: what transformers does otherwise is scaled */
    float rotated_share;            /* of a head, where config.json has no partial_rotary_factor; 0: all     */
    bool rotary_names;              /* config.json says both as GPT-NeoX does: rotary_emb_base and rotary_pct */
    float window_base;              /* rope.freq_base of layers with a window; 0: that of all layers         */
    bool plain_windows;             /* layers with a window rotate without the scaling of the others         */
    bool half_turns;                /* rope.dimension_count is of layers with a window; the others rotate half of it */
    uint32_t dropped_positions;     /* first rows of a folder's table of positions that no position uses     */

    bool folder_window;             /* config.json's sliding_window is used (llama ignores it)               */
    bool windows_listed;            /* ... and only where it has layer_types                                 */
    bool windows_said;              /* GGUF has attention.sliding_window_pattern even where it is without_window's */
    uint32_t default_window;        /* where config.json lacks the key: transformers' default; 0: none       */
    uint32_t file_window;           /* where a GGUF file lacks the key; 0: none                              */
    bool chunked;                   /* layers with a window see their own chunk (attention_shape.chunked)    */
    layer_pattern without_window;   /* layers that see all positions                                         */
    bool norm_whole;                /* norms of query and key take all heads together                        */
    bool norm_values;               /* values are normed, each head alone, without weights                   */
    bool norm_plain;                /* and so are queries and keys of layers that rotate them                */
    bool norm_turned;               /* queries and keys are normed after the rotation (attention_shape.norm_turned) */
    float score_cap, logit_cap;     /* soft caps on scores and logits, where no key says them; 0: none       */
    float growth;                   /* of scores, where no key says it, in layers that do not rotate; 0: none */
    bool unit_scale;                /* scores are not divided by anything                                    */
    bool gated_attention;           /* the result of each head is multiplied with gates, as many as the file's matrix gives
                                       each (attention_shape.gate_length) */
    bool gate_softplus;             /* ... by attention_shape.gate_softplus                                  */
    bool short_values;              /* values may be shorter than keys, and what heads read has a scale      */
    bool latent_attention;          /* keys and values are compressed (attention_shape.compressed)           */
    bool latent_alike;              /* ... by norms with the model's epsilon; else it is 1e-6                */
    bool joined_heads;              /* ... and GGUF has the matrix of both as a folder has it (key_value_up) */
    bool chooses_positions;         /* attention sees chosen positions (attention_shape.chosen)              */
    rope_pairing index_pairing;     /* ... which are scored by queries and keys that rotate so ...           */
    bool index_last;                /* ... in their last values ...                                          */
    bool index_alike;               /* ... and whose norms have the model's epsilon; else it is 1e-6         */
    bool pools_positions;           /* ... some together (attention_shape.pool)                              */
    bool pools_plainly;             /* ... by plain means (index_shape.plain)                                */
    bool chooses_blocks;            /* each head of keys sees blocks of positions that a head of its own chooses (index_shape.by_head) */
    bool summaries;                 /* attention is DeepSeek V4's: one key, windows, maybe summaries (attention_shape.summary) */

    layer_mixers mixers;
    recurrence recurrence;          /* of layers that are recurrent                                          */
    bool decay_floors;              /* decays by columns may have a floor (recurrent_shape.decay_floor)      */
    bool whole_maps;                /* ... and do, and matrices are in the place of two of low rank          */
    bool gated_connections;         /* streams are connected by gates (gated_connection)                     */
    bool unmixed_streams;           /* ... or not mixed with one another (stream_connection)                 */
    bool ngrams;                    /* layers may add n-grams to them (ngram_shape)                          */
    bool gate_logistic;             /* recurrent_shape.gate_logistic                                         */
    bool neighbours_share;          /* heads that use the same key are neighbours, by the gated delta rule too */
    bool mixture;                   /* of two families with one model_type the one whose layers have experts */
    layer_wiring wiring;
    bool wiring_said;               /* ... unless the key use_parallel_residual is false: then WIRING_SEQUENTIAL */
    ffn_gating gating;
    ffn_activation activation;      /* default where neither a key nor PowerInfer's magic says it            */
    router_scoring scoring;         /* where no key says it                                                  */
    bool router_early;
    bool input_shares;              /* shares multiply what experts read (router_shape.weighs_input)         */
    bool one_shared;                /* where a GGUF file lacks expert_shared_count there is one              */
    bool dense_unsaid;              /* where no key says how many layers come before those with experts, routers tell */
    bool shared_average;            /* of the experts' sum and what the shared one gives the mean is taken       */
    bool dense_beside;              /* layers with experts have the network of the others beside them        */
    bool said_alone;                /* tokens behind config.json's output_vocab_size are read alone, and left out */
    bool unshared;                  /* scores are not divided by their sum where config.json lacks norm_topk_prob */
    bool file_unshared;             /* ... where a GGUF file lacks expert_weights_norm                       */
    bool fixed_activation;          /* config.json's hidden_act is ignored                                   */
    float default_threshold;        /* of an activation with a limit, where no key says it                   */
    bool own_settings;              /* config.json has heads, bases and limits as Step 3.5 does (folder_read_step) */
    bool silu_limits;               /* layers may limit SiLU and up (EXPERT_LIMITS_KEY)                      */
    bool limits_first;              /* ... what SiLU reads; the shared expert's limit is that of the others where no key says it ... */
    bool limits_experts;            /* ... but there is none                                                 */
    bool width_adjusted;            /* config.json's f is larger than the model's (adjust_width)             */
    const char *expert_width;       /* config.json's name of an expert's neurons; NULL: as without experts   */
    bool plain_norms;               /* folders have no weights of norms: they are 1                          */
    float query_gain;               /* what folders multiply normed queries with (qk_scale_factor); 0: nothing */
    bool embedding_by_width;        /* embeddings are multiplied by sqrt(d)                                  */
    bool ternary;                   /* folders may have matrices of three values (huggingface_ternary.c)     */
    bool scaled;                    /* embeddings, blocks and logits have factors of their own               */
    float logit_factor;             /* logit_scale multiplies logits, and where it is missing it is this; 0: it divides them */
    uint32_t scale_by_width;        /* models of so many layers divide scores by sqrt(d / head_count); 0: none */
    uint32_t ffn_widths;            /* f in widths of the embedding where config.json lacks it; 0: it must be there */
    default_number defaults[MOST_DEFAULTS]; /* where config.json lacks them; up to the first without a key   */
    bool folder_tied;               /* the head is the embedding where config.json does not say              */
    required_setting required[MOST_REQUIRED];   /* up to the first without a key                             */

    const tensor_rule *tensors;     /* [tensor_count] of the whole model                         */
    size_t tensor_count;
    const tensor_rule *layer_tensors;   /* [layer_tensor_count] of every layer                   */
    size_t layer_tensor_count;
} family;

extern const family families[];
extern const size_t family_count;

/* Returns the first family of that name; NULL where there is none. */
const family *family_by_name(span name);
/* What errors say of a family that is not known: there are too many to list. */
#define FAMILIES_HINT "(docs/models.md lists the families)"

/* Longest name of a tensor with its layer, terminator included. */
#define TENSOR_NAME_SIZE 96
/* Writes the name of a rule's tensor for a layer, as in GGUF or as in a folder. Where a folder has a tensor per expert,
 * only GGUF has a name for all of them. */
void tensor_rule_name(char out[TENSOR_NAME_SIZE], const tensor_rule *rule, uint32_t layer, bool folder);
/* Returns whether the name of the rule, in a folder or in GGUF, has the number of an expert: a tensor for each. */
bool tensor_rule_is_single(const tensor_rule *rule, bool folder);
/* Returns the rule for a tensor of this name, and the layer and the expert in the name (0 where it has none); NULL: no
 * rule. */
const tensor_rule *family_find_rule(const family *f, const char *name, bool folder, uint32_t *layer, uint32_t *expert);
/* Returns the next rule of a layer's tensors with the same name in a folder; NULL: there is none. */
const tensor_rule *family_next_rule(const family *f, const tensor_rule *rule);
/* Return whether the family's tensors can make up a layer with experts, or one without, and an expert that every token
 * uses. */
bool family_has_network(const family *f, bool experts);
bool family_has_shared_expert(const family *f);
/* Returns whether experts of the family can read and write another width than d. */
bool family_has_latent_experts(const family *f);

// clang-format on

#endif
