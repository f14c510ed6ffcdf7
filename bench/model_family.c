/* model_family.c - see model_family.h. Tensors stand in the order in which files have them. */
#include "model_family.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define BLK          "blk.%u."

// clang-format off
static const tensor_row rms_model[] = {
    {"token_embd.weight",       MATRIX_EMBEDDING,        ALWAYS},
    {"output_norm.weight",      VECTOR_OUTPUT_NORM,      ALWAYS},
    {"output.weight",           MATRIX_HEAD,             ALWAYS},
};
static const tensor_row opt_model[] = {
    {"token_embd.weight",       MATRIX_EMBEDDING,        ALWAYS},
    {"position_embd.weight",    MATRIX_POSITIONS,        ALWAYS},
    {"output_norm.weight",      VECTOR_OUTPUT_NORM,      ALWAYS},
    {"output_norm.bias",        VECTOR_ZEROS,            ALWAYS},
};
static const tensor_row falcon_model[] = {
    {"token_embd.weight",       MATRIX_EMBEDDING,        ALWAYS},
    {"output_norm.weight",      VECTOR_OUTPUT_NORM,      ALWAYS},
    {"output_norm.bias",        VECTOR_ZEROS,            ALWAYS},
    {"output.weight",           MATRIX_HEAD,             ALWAYS},
};

#define ATTENTION                                                   \
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},   \
    {BLK "attn_q.weight",       MATRIX_QUERY,            ALWAYS},   \
    {BLK "attn_k.weight",       MATRIX_KEY,              ALWAYS},   \
    {BLK "attn_v.weight",       MATRIX_VALUE,            ALWAYS},   \
    {BLK "attn_output.weight",  MATRIX_ATTENTION_OUTPUT, ALWAYS},   \
    {BLK "ffn_norm.weight",     VECTOR_NORM,             ALWAYS}
#define EXPERTS                                                     \
    {BLK "ffn_gate_inp.weight", MATRIX_ROUTER,           ALWAYS},   \
    {BLK "ffn_gate_exps.weight", MATRIX_GATE,            ALWAYS},   \
    {BLK "ffn_up_exps.weight",  MATRIX_UP,               ALWAYS},   \
    {BLK "ffn_down_exps.weight", MATRIX_DOWN,            IN_STOCK}, \
    {BLK "ffn_down_t_exps.weight", MATRIX_DOWN_T,        IN_NEURON_MAJOR}

static const tensor_row llama_layer[] = {
    ATTENTION,
    {BLK "fc1.weight",          MATRIX_FC1,              IN_POWERINFER},
    {BLK "ffn_gate.weight",     MATRIX_GATE,             ALWAYS},
    {BLK "fc2.weight",          MATRIX_FC2,              IN_POWERINFER},
    {BLK "ffn_up.weight",       MATRIX_UP,               ALWAYS},
    {BLK "ffn_down.weight",     MATRIX_DOWN,             IN_STOCK},
    {BLK "ffn_down_t.weight",   MATRIX_DOWN_T,           IN_NEURON_MAJOR},
};
static const tensor_row opt_layer[] = {
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},
    {BLK "attn_norm.bias",      VECTOR_ZEROS,            ALWAYS},
    {BLK "attn_q.weight",       MATRIX_QUERY,            ALWAYS},
    {BLK "attn_q.bias",         VECTOR_ZEROS,            ALWAYS},
    {BLK "attn_k.weight",       MATRIX_KEY,              ALWAYS},
    {BLK "attn_k.bias",         VECTOR_KEY_ZEROS,        ALWAYS},
    {BLK "attn_v.weight",       MATRIX_VALUE,            ALWAYS},
    {BLK "attn_v.bias",         VECTOR_KEY_ZEROS,        ALWAYS},
    {BLK "attn_output.weight",  MATRIX_ATTENTION_OUTPUT, ALWAYS},
    {BLK "attn_output.bias",    VECTOR_ZEROS,            ALWAYS},
    {BLK "ffn_norm.weight",     VECTOR_NORM,             ALWAYS},
    {BLK "ffn_norm.bias",       VECTOR_ZEROS,            ALWAYS},
    {BLK "fc1.weight",          MATRIX_FC1,              IN_POWERINFER},
    {BLK "ffn_up.weight",       MATRIX_GATE,             ALWAYS},
    {BLK "ffn_up.bias",         VECTOR_FIRST_BIAS,       ALWAYS},
    {BLK "fc2.weight",          MATRIX_FC2,              IN_POWERINFER},
    {BLK "ffn_down.weight",     MATRIX_DOWN,             IN_STOCK},
    {BLK "ffn_down.bias",       VECTOR_ZEROS,            IN_STOCK},
    {BLK "ffn_down_t.weight",   MATRIX_DOWN_T,           IN_NEURON_MAJOR},
    {BLK "ffn_down_t.bias",     VECTOR_ZEROS,            IN_NEURON_MAJOR},
};
static const tensor_row falcon_layer[] = {
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},
    {BLK "attn_norm.bias",      VECTOR_ZEROS,            ALWAYS},
    {BLK "attn_qkv.weight",     MATRIX_QKV,              ALWAYS},
    {BLK "attn_output.weight",  MATRIX_ATTENTION_OUTPUT, ALWAYS},
    {BLK "fc1.weight",          MATRIX_FC1,              IN_POWERINFER},
    {BLK "ffn_up.weight",       MATRIX_GATE,             ALWAYS},
    {BLK "fc2.weight",          MATRIX_FC2,              IN_POWERINFER},
    {BLK "ffn_down.weight",     MATRIX_DOWN,             IN_STOCK},
    {BLK "ffn_down_t.weight",   MATRIX_DOWN_T,           IN_NEURON_MAJOR},
};
static const tensor_row smallthinker_layer[] = {ATTENTION, EXPERTS};
static const tensor_row qwen3moe_layer[] = {
    ATTENTION,
    {BLK "attn_q_norm.weight",  VECTOR_HEAD_NORM,        ALWAYS},
    {BLK "attn_k_norm.weight",  VECTOR_HEAD_NORM,        ALWAYS},
    EXPERTS,
};

/* Nemotron 3: a layer is one block. The first matrix of an expert is up. */
static const tensor_row nemotron_h_recurrent[] = {
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},
    {BLK "ssm_in.weight",       MATRIX_RECURRENT_IN,     ALWAYS},
    {BLK "ssm_conv1d.weight",   MATRIX_CONVOLUTION,      ALWAYS},
    {BLK "ssm_conv1d.bias",     VECTOR_CONVOLUTION_BIAS, ALWAYS},
    {BLK "ssm_dt.bias",         VECTOR_STEP_BIAS,        ALWAYS},
    {BLK "ssm_a",               MATRIX_DECAY,            ALWAYS},
    {BLK "ssm_d",               MATRIX_SKIP,             ALWAYS},
    {BLK "ssm_norm.weight",     MATRIX_RECURRENT_NORM,   ALWAYS},
    {BLK "ssm_out.weight",      MATRIX_RECURRENT_OUTPUT, ALWAYS},
};
static const tensor_row nemotron_h_attention[] = {
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},
    {BLK "attn_q.weight",       MATRIX_QUERY,            ALWAYS},
    {BLK "attn_k.weight",       MATRIX_KEY,              ALWAYS},
    {BLK "attn_v.weight",       MATRIX_VALUE,            ALWAYS},
    {BLK "attn_output.weight",  MATRIX_ATTENTION_OUTPUT, ALWAYS},
};
static const tensor_row nemotron_h_experts[] = {
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},
    {BLK "ffn_gate_inp.weight", MATRIX_ROUTER,           ALWAYS},
    {BLK "exp_probs_b.bias",    VECTOR_ROUTER_CORRECTION, ALWAYS},
    {BLK "ffn_up_shexp.weight", MATRIX_SHARED_GATE,      ALWAYS},
    {BLK "ffn_down_shexp.weight", MATRIX_SHARED_DOWN,    IN_STOCK},
    {BLK "ffn_down_t_shexp.weight", MATRIX_SHARED_DOWN_T, IN_NEURON_MAJOR},
    {BLK "ffn_up_exps.weight",  MATRIX_GATE,             ALWAYS},
    {BLK "ffn_down_exps.weight", MATRIX_DOWN,            IN_STOCK},
    {BLK "ffn_down_t_exps.weight", MATRIX_DOWN_T,        IN_NEURON_MAJOR},
};

/* Qwen 3.5: a recurrent mixer or attention with a gate, then experts. */
#define QWEN35_NORMS                                                \
    {BLK "attn_norm.weight",    VECTOR_NORM,             ALWAYS},   \
    {BLK "post_attention_norm.weight", VECTOR_NORM,      ALWAYS}
#define QWEN35_EXPERTS                                              \
    EXPERTS,                                                        \
    {BLK "ffn_gate_inp_shexp.weight", VECTOR_SHARED_WEIGHT, ALWAYS}, \
    {BLK "ffn_gate_shexp.weight", MATRIX_SHARED_GATE,    ALWAYS},   \
    {BLK "ffn_up_shexp.weight", MATRIX_SHARED_UP,        ALWAYS},   \
    {BLK "ffn_down_shexp.weight", MATRIX_SHARED_DOWN,    IN_STOCK}, \
    {BLK "ffn_down_t_shexp.weight", MATRIX_SHARED_DOWN_T, IN_NEURON_MAJOR}
static const tensor_row qwen35_recurrent[] = {
    QWEN35_NORMS,
    {BLK "attn_qkv.weight",     MATRIX_RECURRENT_QKV,    ALWAYS},
    {BLK "attn_gate.weight",    MATRIX_RECURRENT_GATE,   ALWAYS},
    {BLK "ssm_alpha.weight",    MATRIX_RECURRENT_STEP,   ALWAYS},
    {BLK "ssm_beta.weight",     MATRIX_RECURRENT_BETA,   ALWAYS},
    {BLK "ssm_conv1d.weight",   MATRIX_CONVOLUTION,      ALWAYS},
    {BLK "ssm_dt.bias",         VECTOR_STEP_BIAS,        ALWAYS},
    {BLK "ssm_a",               VECTOR_DECAY,            ALWAYS},
    {BLK "ssm_norm.weight",     VECTOR_RECURRENT_NORM,   ALWAYS},
    {BLK "ssm_out.weight",      MATRIX_RECURRENT_OUTPUT, ALWAYS},
    QWEN35_EXPERTS,
};
static const tensor_row qwen35_attention[] = {
    QWEN35_NORMS,
    {BLK "attn_q.weight",       MATRIX_GATED_QUERY,      ALWAYS},
    {BLK "attn_k.weight",       MATRIX_KEY,              ALWAYS},
    {BLK "attn_v.weight",       MATRIX_VALUE,            ALWAYS},
    {BLK "attn_output.weight",  MATRIX_ATTENTION_OUTPUT, ALWAYS},
    {BLK "attn_q_norm.weight",  VECTOR_HEAD_NORM,        ALWAYS},
    {BLK "attn_k_norm.weight",  VECTOR_HEAD_NORM,        ALWAYS},
    QWEN35_EXPERTS,
};

#define KIND(table, letter, recurrent, network) {letter, recurrent, network, table, COUNT(table)}
static const layer_kind
    llama_kind[]        = {KIND(llama_layer,        0, false, true)},
    opt_kind[]          = {KIND(opt_layer,          0, false, true)},
    falcon_kind[]       = {KIND(falcon_layer,       0, false, true)},
    smallthinker_kind[] = {KIND(smallthinker_layer, 0, false, true)},
    qwen3moe_kind[]     = {KIND(qwen3moe_layer,     0, false, true)},
    nemotron_h_kinds[]  = {KIND(nemotron_h_recurrent, 'M', true,  false),
                           KIND(nemotron_h_attention, '*', false, false),
                           KIND(nemotron_h_experts,   'E', false, true)},
    qwen35_kinds[]      = {KIND(qwen35_recurrent,     'M', true,  true),
                           KIND(qwen35_attention,     '*', false, true)};
// clang-format on

#define TENSORS(model, layers) \
    .of_model = model, .of_model_count = COUNT(model), .kinds = layers, .kind_count = COUNT(layers)

const model_family family_llama = {
    .architecture = "llama",
    .activation = "relu",
    .powerinfer = true,
    TENSORS(rms_model, llama_kind),
};
const model_family family_opt = {
    .architecture = "opt",
    .activation = "relu",
    .layer_norm = true,
    .positions = true,
    .biases = true,
    .tied = true,
    .powerinfer = true,
    TENSORS(opt_model, opt_kind),
};
const model_family family_falcon = {
    .architecture = "falcon",
    .activation = "relu",
    .layer_norm = true,
    .powerinfer = true,
    TENSORS(falcon_model, falcon_kind),
};
const model_family family_smallthinker = {
    .architecture = "smallthinker",
    .activation = "relu",
    TENSORS(rms_model, smallthinker_kind),
};
const model_family family_qwen3moe = {
    .architecture = "qwen3moe",
    .activation = "silu",
    TENSORS(rms_model, qwen3moe_kind),
};
const model_family family_nemotron_h_moe = {
    .architecture = "nemotron_h_moe",
    .activation = "relu2",
    .mixers = MIXERS_BLOCKS,
    TENSORS(rms_model, nemotron_h_kinds),
};
const model_family family_qwen35moe = {
    .architecture = "qwen35moe",
    .activation = "silu",
    .mixers = MIXERS_LISTED,
    TENSORS(rms_model, qwen35_kinds),
};
