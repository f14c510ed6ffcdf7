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
// clang-format on

#define TENSORS(model, layer) \
    .of_model = model, .of_layer = layer, .of_model_count = COUNT(model), .of_layer_count = COUNT(layer)

const model_family family_llama = {
    .architecture = "llama",
    .activation = "relu",
    .rotates = true,
    .powerinfer = true,
    TENSORS(rms_model, llama_layer),
};
const model_family family_opt = {
    .architecture = "opt",
    .activation = "relu",
    .layer_norm = true,
    .biases = true,
    .tied = true,
    .powerinfer = true,
    TENSORS(opt_model, opt_layer),
};
const model_family family_falcon = {
    .architecture = "falcon",
    .activation = "relu",
    .layer_norm = true,
    .rotates = true,
    .powerinfer = true,
    TENSORS(falcon_model, falcon_layer),
};
const model_family family_smallthinker = {
    .architecture = "smallthinker",
    .activation = "relu",
    .rotates = true,
    TENSORS(rms_model, smallthinker_layer),
};
const model_family family_qwen3moe = {
    .architecture = "qwen3moe",
    .activation = "silu",
    .rotates = true,
    TENSORS(rms_model, qwen3moe_layer),
};
