/* family_tensors.h - the tensors of each family, for the table of families in family.c alone. */
#ifndef MODEL_FAMILY_TENSORS_H
#define MODEL_FAMILY_TENSORS_H

#include "hyper.h"

// clang-format off

#define MODEL(field) offsetof(struct hearth_model, field)
#define LAYER(field) offsetof(model_layer, field)
#define NO_FIELD 0

#define D   DIMENSION_EMBEDDING
#define F   DIMENSION_NEURONS
#define Q   DIMENSION_QUERY
#define K   DIMENSION_KEY
#define QKV DIMENSION_QKV

#define VECTOR(name, folder, field, n, flags)             MATRIX(name, folder, field, DIMENSION_NONE, n, flags)
#define MATRIX(name, folder, field, rows, columns, flags) NEEDING(0, name, folder, field, rows, columns, flags)
#define NEEDING(needs, name, folder, field, rows, columns, flags)                                            \
    {name, folder, field, rows, columns, DIMENSION_NONE, flags, needs, DIMENSION_NONE}
/* Rows of neighbouring pairs, which a folder stores as halves. */
#define ROTARY(name, folder, field, rows, heads, flags)   {name, folder, field, rows, D, heads, flags, 0, DIMENSION_NONE}
/* A norm with weight and bias. */
#define NORM_PAIR(owner, name, folder, field, n, flags)                                                      \
    VECTOR(name ".weight", folder ".weight", owner(field.weight), n, TENSOR_NORM | (flags)),                 \
    VECTOR(name ".bias",   folder ".bias",   owner(field.bias),   n, (flags) & ~(unsigned)TENSOR_LESS_ONE)
#define NORM_ALONE(owner, name, folder, field, n, flags)                                                  \
    VECTOR(name ".weight", folder ".weight", owner(field.weight), n, TENSOR_NORM | (flags))

#define BLK    "blk.%u."
#define LAYERS "model.layers.%u."

/* The vocabulary: embedding and head. */
#define TOKENS(embedding_name, head_name)                                                                              \
    MATRIX("token_embd.weight", embedding_name, MODEL(embedding), DIMENSION_VOCABULARY, D, TENSOR_EMBEDDING),     \
    MATRIX("output.weight",     head_name, MODEL(head),      DIMENSION_VOCABULARY, D, TENSOR_HEAD | TENSOR_OPTIONAL)
/* llama3's scaling: the divisor of each rotary frequency. */
#define ROPE_FACTORS                                                                                         \
    VECTOR("rope_freqs.weight", NULL, MODEL(rope_factors), DIMENSION_ROPE_PAIRS, TENSOR_CONSTANT | TENSOR_OPTIONAL)

/* Attention by four matrices; pairs are neighbours in GGUF and halves in folders. */
#define ATTENTION_NEIGHBOURS(flags)                                                                          \
    ROTARY(BLK "attn_q.weight",      LAYERS "self_attn.q_proj.weight", LAYER(q), Q, DIMENSION_HEADS, flags), \
    ROTARY(BLK "attn_k.weight",      LAYERS "self_attn.k_proj.weight", LAYER(k), K, DIMENSION_KV_HEADS, flags), \
    MATRIX(BLK "attn_v.weight",      LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, flags),               \
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn.o_proj.weight", LAYER(attention_output), D, Q, flags)
/* The same, in the same order in both. */
#define ATTENTION_AT(prefix, output)                                                                         \
    MATRIX(BLK "attn_q.weight",      prefix "self_attn.q_proj.weight", LAYER(q), Q, D, 0),                   \
    MATRIX(BLK "attn_k.weight",      prefix "self_attn.k_proj.weight", LAYER(k), K, D, 0),                   \
    MATRIX(BLK "attn_v.weight",      prefix "self_attn.v_proj.weight", LAYER(v), K, D, 0),                   \
    MATRIX(BLK "attn_output.weight", prefix "self_attn." output ".weight", LAYER(attention_output), D, Q, 0)
#define ATTENTION_SAME ATTENTION_AT(LAYERS, "o_proj")
#define QKV_BIASES_AT(prefix, flags)                                                                         \
    VECTOR(BLK "attn_q.bias",        prefix "self_attn.q_proj.bias", LAYER(q_bias), Q, flags),               \
    VECTOR(BLK "attn_k.bias",        prefix "self_attn.k_proj.bias", LAYER(k_bias), K, flags),               \
    VECTOR(BLK "attn_v.bias",        prefix "self_attn.v_proj.bias", LAYER(v_bias), K, flags)
#define QKV_BIASES(prefix)  QKV_BIASES_AT(prefix, 0)
#define QKV_OPTIONAL_BIASES QKV_BIASES_AT(LAYERS, TENSOR_OPTIONAL)
#define OUTPUT_BIAS(folder)                                                                                  \
    VECTOR(BLK "attn_output.bias",   folder, LAYER(attention_output_bias), D, 0)
#define QK_NORMS(q, k, flags)                                                                                \
    NORM_ALONE(LAYER, BLK "attn_q_norm", LAYERS "self_attn.q_norm", query_norm, q, flags),                \
    NORM_ALONE(LAYER, BLK "attn_k_norm", LAYERS "self_attn.k_norm", key_norm,   k, flags)
/* Unscaled rotary frequencies, which early converters and transformers stored. */
#define OLD_FREQUENCIES                                                                                      \
    VECTOR(BLK "attn_rot_embd.weight", LAYERS "self_attn.rotary_emb.inv_freq", NO_FIELD, DIMENSION_ROPE_PAIRS, \
           TENSOR_IGNORED | TENSOR_OPTIONAL)

/* Down in both layouts, the order of neurons, and PowerInfer's predictors. PowerInfer's name for the bias of down has
 * the _t too, but it is the same vector. */
#define DOWN(folder, flags)                                                                                  \
    MATRIX(BLK "ffn_down.weight",   folder, LAYER(down),      D, F, TENSOR_STOCK | TENSOR_OF_DENSE | (flags)), \
    MATRIX(BLK "ffn_down_t.weight", NULL,   LAYER(down_t),    F, D, TENSOR_NEURON_MAJOR | TENSOR_OF_DENSE),  \
    VECTOR(BLK "ffn_order",         NULL,   LAYER(order),        F, TENSOR_NEURON_MAJOR | TENSOR_INTEGERS |  \
                                                                    TENSOR_OPTIONAL | TENSOR_OF_DENSE),      \
    MATRIX(BLK "fc1.weight",        NULL,   LAYER(fc1), DIMENSION_RANK, D, TENSOR_PREDICTOR | TENSOR_OF_DENSE), \
    MATRIX(BLK "fc2.weight",        NULL,   LAYER(fc2), F, DIMENSION_RANK, TENSOR_PREDICTOR | TENSOR_OF_DENSE)
#define DOWN_BIAS(folder, flags)                                                                             \
    VECTOR(BLK "ffn_down.bias",     folder, LAYER(down_bias), D, TENSOR_OF_DENSE | (flags)),                  \
    VECTOR(BLK "ffn_down_t.bias",   NULL,   LAYER(down_bias), D, TENSOR_NEURON_MAJOR | TENSOR_OPTIONAL | TENSOR_OF_DENSE)
#define GATED_FFN                                                                                            \
    MATRIX(BLK "ffn_gate.weight",   LAYERS "mlp.gate_proj.weight", LAYER(gate), F, D, TENSOR_OF_DENSE),      \
    MATRIX(BLK "ffn_up.weight",     LAYERS "mlp.up_proj.weight",   LAYER(up),   F, D, TENSOR_OF_DENSE),      \
    DOWN(LAYERS "mlp.down_proj.weight", 0)
#define GATED_BIASES                                                                                         \
    VECTOR(BLK "ffn_gate.bias",     LAYERS "mlp.gate_proj.bias", LAYER(gate_bias), F, TENSOR_OF_DENSE | TENSOR_MLP_BIAS | TENSOR_OPTIONAL), \
    VECTOR(BLK "ffn_up.bias",       LAYERS "mlp.up_proj.bias",   LAYER(up_bias),   F, TENSOR_OF_DENSE | TENSOR_MLP_BIAS | TENSOR_OPTIONAL), \
    DOWN_BIAS(LAYERS "mlp.down_proj.bias", TENSOR_MLP_BIAS | TENSOR_OPTIONAL)
#define PLAIN_FFN(up_name, down_name, flags)                                                                           \
    MATRIX(BLK "ffn_up.weight",     up_name ".weight", LAYER(up), F, D, flags),                                   \
    DOWN(down_name ".weight", flags)
#define PLAIN_BIASES(up_name, down_name)                                                                               \
    VECTOR(BLK "ffn_up.bias",       up_name ".bias", LAYER(up_bias), F, 0),                                       \
    DOWN_BIAS(down_name ".bias", TENSOR_STOCK)

/* A router and its experts. N: neurons of one expert. */
#define N DIMENSION_EXPERT_NEURONS
#define OF_EXPERTS (TENSOR_OF_EXPERTS | TENSOR_EXPERTS)
#define ROUTER(folder)                                                                                       \
    MATRIX(BLK "ffn_gate_inp.weight",    folder,    LAYER(router), DIMENSION_EXPERTS, D, TENSOR_OF_EXPERTS)
/* What is added to scores for choosing alone. */
#define CORRECTION(folder, flags)                                                                            \
    VECTOR(BLK "exp_probs_b.bias",       folder,    LAYER(router_correction), DIMENSION_EXPERTS, TENSOR_OF_EXPERTS | (flags))
#define EXPERTS(gate_name, up_name, down_name, flags)                                                        \
    MATRIX(BLK "ffn_gate_exps.weight",   gate_name, LAYER(gate),   N, D, OF_EXPERTS | TENSOR_OPTIONAL | (flags)), \
    MATRIX(BLK "ffn_up_exps.weight",     up_name,   LAYER(up),     N, D, OF_EXPERTS | TENSOR_OPTIONAL | (flags)), \
    /* some GGUF files have both in one */                                                                   \
    MATRIX(BLK "ffn_gate_up_exps.weight", NULL, LAYER(gate_up), DIMENSION_EXPERT_GATE_UP, D, OF_EXPERTS | TENSOR_OPTIONAL), \
    MATRIX(BLK "ffn_down_exps.weight",   down_name, LAYER(down),   D, N, OF_EXPERTS | TENSOR_STOCK | (flags)), \
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,      LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR)
#define EXPERT LAYERS "mlp.experts.%u."
/* As transformers 5 names them: stacked, gate and up in one. */
#define STACKED_EXPERTS                                                                                      \
    MATRIX(BLK "ffn_gate_exps.weight", LAYERS "mlp.experts.gate_up_proj", LAYER(gate), N, D, OF_EXPERTS | TENSOR_ALIAS | TENSOR_FIRST_HALF), \
    MATRIX(BLK "ffn_up_exps.weight",   LAYERS "mlp.experts.gate_up_proj", LAYER(up),   N, D, OF_EXPERTS | TENSOR_ALIAS | TENSOR_SECOND_HALF), \
    MATRIX(BLK "ffn_down_exps.weight", LAYERS "mlp.experts.down_proj",    LAYER(down), D, N, OF_EXPERTS | TENSOR_ALIAS)
#define MLP_EXPERTS                                                                                          \
    EXPERTS(EXPERT "gate_proj.weight", EXPERT "up_proj.weight", EXPERT "down_proj.weight", 0), STACKED_EXPERTS
/* The expert that every token uses. S: its neurons. */
#define S DIMENSION_SHARED_NEURONS
#define SHARED_EXPERT(folder)                                                                                \
    MATRIX(BLK "ffn_gate_shexp.weight",   folder "gate_proj.weight", LAYER(shared.gate),   S, D, TENSOR_OF_EXPERTS), \
    MATRIX(BLK "ffn_up_shexp.weight",     folder "up_proj.weight",   LAYER(shared.up),     S, D, TENSOR_OF_EXPERTS), \
    MATRIX(BLK "ffn_down_shexp.weight",   folder "down_proj.weight", LAYER(shared.down),   D, S, TENSOR_OF_EXPERTS | TENSOR_STOCK), \
    MATRIX(BLK "ffn_down_t_shexp.weight", NULL,                      LAYER(shared.down_t), S, D, TENSOR_OF_EXPERTS | TENSOR_NEURON_MAJOR)

/* The gate on its result. */
#define SHARED_GATE                                                                                          \
    VECTOR(BLK "ffn_gate_inp_shexp.weight", LAYERS "mlp.shared_expert_gate.weight", LAYER(shared_gate), D,   \
           TENSOR_OF_EXPERTS | TENSOR_FLAT)

/* Norms before both blocks: weights alone, and with biases. */
#define PRE_NORMS(flags)                                                                                     \
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "input_layernorm",          attention_norm, D, flags),      \
    NORM_ALONE(LAYER, BLK "ffn_norm",  LAYERS "post_attention_layernorm", ffn_norm,       D, flags)
#define PRE_NORM_PAIRS(attention, ffn, flags)                                                                \
    NORM_PAIR(LAYER, BLK "attn_norm", attention, attention_norm, D, flags),                                  \
    NORM_PAIR(LAYER, BLK "ffn_norm",  ffn,       ffn_norm,       D, flags)
/* Norms before and behind both blocks. */
#define FOUR_NORMS(flags)                                                                                    \
    NORM_ALONE(LAYER, BLK "attn_norm",           LAYERS "input_layernorm",            attention_norm,      D, flags), \
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_attention_layernorm",   attention_post_norm, D, flags), \
    NORM_ALONE(LAYER, BLK "ffn_norm",            LAYERS "pre_feedforward_layernorm",  ffn_norm,            D, flags), \
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_feedforward_layernorm", ffn_post_norm,       D, flags)

static const tensor_rule llama_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule layernorm_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_PAIR(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule cohere_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"),
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule phi3_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    /* longrope: divisors for texts up to the original context, and beyond */
    VECTOR("rope_factors_short.weight", NULL, MODEL(rope_factors),      DIMENSION_ROPE_PAIRS, TENSOR_CONSTANT | TENSOR_OPTIONAL),
    VECTOR("rope_factors_long.weight",  NULL, MODEL(rope_factors_long), DIMENSION_ROPE_PAIRS, TENSOR_CONSTANT | TENSOR_OPTIONAL),
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule gemma_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, TENSOR_LESS_ONE),
};
static const tensor_rule nemotron_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_PAIR(MODEL, "output_norm", "model.norm", output_norm, D, TENSOR_LESS_ONE),
};
static const tensor_rule bailing_tensors[] = {
    TOKENS("model.word_embeddings.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};

#define MIXTRAL LAYERS "block_sparse_moe."
#define MIXTRAL_EXPERTS EXPERTS(MIXTRAL "experts.%u.w1.weight", MIXTRAL "experts.%u.w3.weight", MIXTRAL "experts.%u.w2.weight", 0)
static const tensor_rule llama_layer[] = {
    PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), GATED_FFN, GATED_BIASES, OLD_FREQUENCIES,
    ROUTER(MIXTRAL "gate.weight"),
    MIXTRAL_EXPERTS,
    /* GGUF files from before experts were stacked */
    MATRIX(BLK "ffn_gate.%u.weight", NULL, LAYER(gate), N, D, OF_EXPERTS | TENSOR_ALIAS),
    MATRIX(BLK "ffn_up.%u.weight",   NULL, LAYER(up),   N, D, OF_EXPERTS | TENSOR_ALIAS),
    MATRIX(BLK "ffn_down.%u.weight", NULL, LAYER(down), D, N, OF_EXPERTS | TENSOR_ALIAS),
    /* transformers 5 */
    MATRIX(BLK "ffn_gate_inp.weight", LAYERS "mlp.gate.weight", LAYER(router), DIMENSION_EXPERTS, D, TENSOR_OF_EXPERTS | TENSOR_ALIAS),
    STACKED_EXPERTS,
    /* TurboSparse: the decision which neurons take part */
    MATRIX(BLK "ffn_mask_in_exps.weight",  MIXTRAL "experts.%u.predictor.fc1.weight", LAYER(mask_in), DIMENSION_RANK, D,
           OF_EXPERTS | TENSOR_OPTIONAL),
    MATRIX(BLK "ffn_mask_out_exps.weight", MIXTRAL "experts.%u.predictor.fc2.weight", LAYER(mask_out), N, DIMENSION_RANK,
           OF_EXPERTS | TENSOR_OPTIONAL),
};
static const tensor_rule smallthinker_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, ROUTER(MIXTRAL "primary_router.weight"),
    EXPERTS(MIXTRAL "experts.%u.gate.weight", MIXTRAL "experts.%u.up.weight", MIXTRAL "experts.%u.down.weight", 0),
};
static const tensor_rule qwen3_moe_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS,
};
/* The norm of the feed-forward network has another name in GGUF. */
#define POST_ATTENTION_NORMS(flags)                                                                          \
    NORM_ALONE(LAYER, BLK "attn_norm",           LAYERS "input_layernorm",          attention_norm, D, flags), \
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_attention_layernorm", ffn_norm,       D, flags)
static const tensor_rule glm4_moe_layer[] = {
    POST_ATTENTION_NORMS(0), ATTENTION_SAME, GATED_FFN,
    QKV_OPTIONAL_BIASES, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, TENSOR_OPTIONAL), ROUTER(LAYERS "mlp.gate.weight"),
    CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", 0), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
static const tensor_rule dots1_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"),
    CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", 0), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* Llama 4: a folder's experts have a row per input, and gate and up in one matrix. */
#define FORWARD LAYERS "feed_forward."
static const tensor_rule llama4_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME,
    MATRIX(BLK "ffn_gate.weight",        FORWARD "gate_proj.weight",      LAYER(gate), F, D, TENSOR_OF_DENSE),
    MATRIX(BLK "ffn_up.weight",          FORWARD "up_proj.weight",        LAYER(up),   F, D, TENSOR_OF_DENSE),
    DOWN(FORWARD "down_proj.weight", 0), ROUTER(FORWARD "router.weight"),
    MATRIX(BLK "ffn_gate_exps.weight",   FORWARD "experts.gate_up_proj",  LAYER(gate),   N, D, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_FIRST_HALF),
    MATRIX(BLK "ffn_up_exps.weight",     FORWARD "experts.gate_up_proj",  LAYER(up),     N, D, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_SECOND_HALF),
    MATRIX(BLK "ffn_down_exps.weight",   FORWARD "experts.down_proj",     LAYER(down),   D, N, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,                            LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR),
    SHARED_EXPERT(FORWARD "shared_expert."),
};
/* DeepSeek's first model with experts. */
static const tensor_rule deepseek_layer[] = {
    PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* K-EXAONE */
static const tensor_rule exaone_moe_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"),
    CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", 0), CORRECTION(LAYERS "mlp.e_score_correction_bias", TENSOR_ALIAS),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
#define ATTENTION_GATE(folder)                                                                               \
    MATRIX(BLK "attn_gate.weight", LAYERS folder, LAYER(attention_gate), DIMENSION_GATES, D, 0)
/* Trinity: attention with a gate of its own, and norms before and behind both blocks. */
static const tensor_rule afmoe_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm",           LAYERS "input_layernorm",          attention_norm,      D, 0),
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_attention_layernorm", attention_post_norm, D, 0),
    NORM_ALONE(LAYER, BLK "ffn_norm",            LAYERS "pre_mlp_layernorm",        ffn_norm,            D, 0),
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_mlp_layernorm",       ffn_post_norm,       D, 0),
    ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0),
    ATTENTION_GATE("self_attn.gate_proj.weight"), GATED_FFN, ROUTER(LAYERS "mlp.router.gate.weight"),
    CORRECTION(LAYERS "mlp.expert_bias", 0), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* Muse Glimmer: the same without experts. A folder has the scale of queries in its config, a GGUF file as weights of a norm. */
static const tensor_rule muse_glimmer_layer[] = {
    FOUR_NORMS(TENSOR_LESS_ONE), ATTENTION_NEIGHBOURS(0), ATTENTION_GATE("self_attn.gate_proj.weight"), GATED_FFN,
    VECTOR(BLK "attn_q_norm.weight", NULL, LAYER(query_norm.weight), DIMENSION_HEAD, TENSOR_NORM),
    VECTOR(BLK "attn_k_norm.weight", NULL, LAYER(key_norm.weight),   DIMENSION_HEAD, TENSOR_NORM),
};
/* Laguna: gates of heads, or of each of their values. */
static const tensor_rule laguna_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), ATTENTION_GATE("self_attn.g_proj.weight"), GATED_FFN,
    ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.experts.e_score_correction_bias", 0), MLP_EXPERTS,
    SHARED_EXPERT(LAYERS "mlp.shared_expert."),
};
/* MiMo V2: values are shorter than keys; layers with a window have sinks. */
static const tensor_rule mimo2_layer[] = {
    PRE_NORMS(0),
    MATRIX(BLK "attn_q.weight",      LAYERS "self_attn.q_proj.weight", LAYER(q), Q, D, TENSOR_OPTIONAL),
    MATRIX(BLK "attn_k.weight",      LAYERS "self_attn.k_proj.weight", LAYER(k), K, D, TENSOR_OPTIONAL),
    MATRIX(BLK "attn_v.weight",      LAYERS "self_attn.v_proj.weight", LAYER(v), DIMENSION_VALUES, D, TENSOR_OPTIONAL),
    /* V2.5's, which its folders have in shards */
    MATRIX(BLK "attn_qkv.weight",    NULL,                             LAYER(qkv), QKV, D, TENSOR_OPTIONAL),
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn.o_proj.weight", LAYER(attention_output), D, DIMENSION_RESULT, 0),
    NEEDING(NEEDS_WINDOW,    BLK "attn_sinks.weight", LAYERS "self_attn.attention_sink_bias", LAYER(sinks), DIMENSION_NONE, DIMENSION_HEADS, 0),
    NEEDING(NEEDS_NO_WINDOW, BLK "attn_sinks.weight", NULL, LAYER(sinks), DIMENSION_NONE, DIMENSION_HEADS, TENSOR_OPTIONAL),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", TENSOR_OPTIONAL), MLP_EXPERTS,
};
/* Step 3.5: a folder has the norms' weights minus one; factors of rotation are padded to the pairs of layers with a window. */
static const tensor_rule step35_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"),
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, TENSOR_LESS_ONE),
    VECTOR("rope_freqs.weight", NULL, MODEL(rope_factors), DIMENSION_WINDOW_PAIRS, TENSOR_CONSTANT | TENSOR_OPTIONAL),
};
static const tensor_rule step35_layer[] = {
    PRE_NORMS(TENSOR_LESS_ONE), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, TENSOR_LESS_ONE),
    ATTENTION_GATE("self_attn.g_proj.weight"), GATED_FFN, ROUTER(LAYERS "moe.gate.weight"), CORRECTION(LAYERS "moe.router_bias", 0),
    EXPERTS(LAYERS "moe.gate_proj.weight", LAYERS "moe.up_proj.weight", LAYERS "moe.down_proj.weight", 0),
    SHARED_EXPERT(LAYERS "share_expert."),
};
/* Hy3: in GGUF what corrects the scores has no ending. */
static const tensor_rule hy_v3_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), GATED_FFN, ROUTER(LAYERS "mlp.router.gate.weight"),
    VECTOR(BLK "exp_probs_b", LAYERS "mlp.expert_bias", LAYER(router_correction), DIMENSION_EXPERTS, TENSOR_OF_EXPERTS),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_mlp."),
};
/* Ling 2.0: queries, keys and values are one matrix. */
static const tensor_rule bailing_layer[] = {
    PRE_NORMS(0),
    MATRIX(BLK "attn_qkv.weight",    LAYERS "attention.query_key_value.weight", LAYER(qkv), QKV, D, 0),
    MATRIX(BLK "attn_output.weight", LAYERS "attention.dense.weight", LAYER(attention_output), D, Q, 0),
    NORM_ALONE(LAYER, BLK "attn_q_norm", LAYERS "attention.query_layernorm", query_norm, DIMENSION_HEAD, 0),
    NORM_ALONE(LAYER, BLK "attn_k_norm", LAYERS "attention.key_layernorm",   key_norm,   DIMENSION_HEAD, 0),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.expert_bias", 0), MLP_EXPERTS,
    SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* Hunyuan: what norms queries and keys follows the rotation. */
#define HUNYUAN_NORMS                                                                                        \
    NORM_ALONE(LAYER, BLK "attn_q_norm", LAYERS "self_attn.query_layernorm", query_norm, DIMENSION_HEAD, 0), \
    NORM_ALONE(LAYER, BLK "attn_k_norm", LAYERS "self_attn.key_layernorm",   key_norm,   DIMENSION_HEAD, 0)
static const tensor_rule hunyuan_layer[] = {PRE_NORMS(0), ATTENTION_SAME, HUNYUAN_NORMS, GATED_FFN};
static const tensor_rule hunyuan_moe_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, HUNYUAN_NORMS, ROUTER(LAYERS "mlp.gate.wg.weight"), MLP_EXPERTS,
    SHARED_EXPERT(LAYERS "mlp.shared_mlp."),
};
static const tensor_rule ernie4_5_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"),
    VECTOR(BLK "exp_probs_b.bias", LAYERS "mlp.moe_statics.e_score_correction_bias", LAYER(router_correction), DIMENSION_EXPERTS,
           TENSOR_OF_EXPERTS | TENSOR_FLAT),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
static const tensor_rule olmoe_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(Q, K, 0), ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS,
};
static const tensor_rule minimax_m2_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(Q, K, 0), ROUTER(MIXTRAL "gate.weight"),
    CORRECTION(MIXTRAL "e_score_correction_bias", 0), MIXTRAL_EXPERTS,
    /* transformers 5 */
    MATRIX(BLK "ffn_gate_inp.weight", LAYERS "mlp.gate.weight", LAYER(router), DIMENSION_EXPERTS, D, TENSOR_OF_EXPERTS | TENSOR_ALIAS),
    CORRECTION(LAYERS "mlp.e_score_correction_bias", TENSOR_ALIAS), STACKED_EXPERTS,
};
/* MiniMax M3: norms of heads, one shared expert, and heads that choose blocks of positions. */
#define BLOCK_SCORER(name, folder, field, rows, columns, flags)                                              \
    NEEDING(NEEDS_INDEX, BLK "indexer." name ".weight", LAYERS "self_attn.index_" folder ".weight", LAYER(field), rows, columns, flags)
static const tensor_rule minimax_m3_layer[] = {
    PRE_NORMS(TENSOR_LESS_ONE), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, TENSOR_LESS_ONE),
    BLOCK_SCORER("q_proj", "q_proj", index_query,             DIMENSION_INDEX_QUERY,  D, 0),
    BLOCK_SCORER("k_proj", "k_proj", index_key,               DIMENSION_INDEX_LENGTH, D, 0),
    BLOCK_SCORER("q_norm", "q_norm", index_query_norm.weight, DIMENSION_NONE, DIMENSION_INDEX_LENGTH, TENSOR_NORM | TENSOR_LESS_ONE),
    BLOCK_SCORER("k_norm", "k_norm", index_key_norm.weight,   DIMENSION_NONE, DIMENSION_INDEX_LENGTH, TENSOR_NORM | TENSOR_LESS_ONE),
    GATED_FFN, ROUTER(MIXTRAL "gate.weight"), CORRECTION(MIXTRAL "e_score_correction_bias", 0), MIXTRAL_EXPERTS,
    SHARED_EXPERT(MIXTRAL "shared_experts."),
};
static const tensor_rule qwen2_moe_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QKV_BIASES(LAYERS), ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS,
    SHARED_EXPERT(LAYERS "mlp.shared_expert."), SHARED_GATE,
};
/* Granite: a folder has stacked matrices of experts, gate and up in one, and likewise of the shared one. */
#define SHARED_MLP LAYERS "shared_mlp."
#define GRANITE_EXPERTS                                                                                      \
    ROUTER(MIXTRAL "router.layer.weight"),                                                                   \
    MATRIX(BLK "ffn_gate_exps.weight",   MIXTRAL "input_linear.weight",  LAYER(gate),   N, D, OF_EXPERTS | TENSOR_FIRST_HALF),  \
    MATRIX(BLK "ffn_up_exps.weight",     MIXTRAL "input_linear.weight",  LAYER(up),     N, D, OF_EXPERTS | TENSOR_SECOND_HALF), \
    MATRIX(BLK "ffn_down_exps.weight",   MIXTRAL "output_linear.weight", LAYER(down),   D, N, OF_EXPERTS | TENSOR_STOCK),       \
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,                           LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR), \
    MATRIX(BLK "ffn_gate_shexp.weight",  SHARED_MLP "input_linear.weight",  LAYER(shared.gate), S, D, TENSOR_OF_EXPERTS | TENSOR_FIRST_HALF), \
    MATRIX(BLK "ffn_up_shexp.weight",    SHARED_MLP "input_linear.weight",  LAYER(shared.up),   S, D, TENSOR_OF_EXPERTS | TENSOR_SECOND_HALF), \
    MATRIX(BLK "ffn_down_shexp.weight",  SHARED_MLP "output_linear.weight", LAYER(shared.down), D, S, TENSOR_OF_EXPERTS | TENSOR_STOCK), \
    MATRIX(BLK "ffn_down_t_shexp.weight", NULL,                          LAYER(shared.down_t), S, D, TENSOR_OF_EXPERTS | TENSOR_NEURON_MAJOR)
#define GRANITE_NETWORK                                                                                      \
    MATRIX(BLK "ffn_gate.weight", SHARED_MLP "input_linear.weight", LAYER(gate), F, D, TENSOR_OF_DENSE | TENSOR_FIRST_HALF), \
    MATRIX(BLK "ffn_up.weight",   SHARED_MLP "input_linear.weight", LAYER(up),   F, D, TENSOR_OF_DENSE | TENSOR_SECOND_HALF), \
    DOWN(SHARED_MLP "output_linear.weight", 0)
static const tensor_rule granite4_layer[] = {PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), GRANITE_NETWORK};
static const tensor_rule granite_moe_layer[] = {PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), GRANITE_EXPERTS};
#define SINKS(name)                                                                                          \
    VECTOR(BLK "attn_sinks.weight", LAYERS "self_attn." name, LAYER(sinks), DIMENSION_HEADS, 0)
static const tensor_rule granite_swa_layer[] = {
    PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), SINKS("sinks"), GATED_FFN, ROUTER(MIXTRAL "router.weight"),
    MATRIX(BLK "ffn_gate_exps.weight",   MIXTRAL "experts.gate_up_proj", LAYER(gate),   N, D, OF_EXPERTS | TENSOR_OPTIONAL | TENSOR_FIRST_HALF),
    MATRIX(BLK "ffn_up_exps.weight",     MIXTRAL "experts.gate_up_proj", LAYER(up),     N, D, OF_EXPERTS | TENSOR_OPTIONAL | TENSOR_SECOND_HALF),
    MATRIX(BLK "ffn_gate_up_exps.weight", NULL, LAYER(gate_up), DIMENSION_EXPERT_GATE_UP, D, OF_EXPERTS | TENSOR_OPTIONAL),
    MATRIX(BLK "ffn_down_exps.weight",   MIXTRAL "experts.down_proj",    LAYER(down),   D, N, OF_EXPERTS | TENSOR_STOCK),     
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,                           LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR),
};
/* Flint: attention with sinks, one shared expert. */
static const tensor_rule flint_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), SINKS("softmax_offset"), GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_expert."),
};
static const tensor_rule gpt_oss_layer[] = {
    POST_ATTENTION_NORMS(0), ATTENTION_SAME, QKV_BIASES(LAYERS), OUTPUT_BIAS(LAYERS "self_attn.o_proj.bias"),
    SINKS("sinks"),
    ROUTER(LAYERS "mlp.router.weight"),
    VECTOR(BLK "ffn_gate_inp.bias",  LAYERS "mlp.router.bias", LAYER(router_bias), DIMENSION_EXPERTS, TENSOR_OF_EXPERTS),
    /* A folder has stacked matrices with a row per input, in which gate and up take turns. */
    MATRIX(BLK "ffn_gate_exps.weight",   LAYERS "mlp.experts.gate_up_proj", LAYER(gate), N, D, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_EVEN),
    MATRIX(BLK "ffn_up_exps.weight",     LAYERS "mlp.experts.gate_up_proj", LAYER(up),   N, D, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_ODD),
    MATRIX(BLK "ffn_down_exps.weight",   LAYERS "mlp.experts.down_proj",    LAYER(down), D, N, OF_EXPERTS | TENSOR_TRANSPOSED | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,                              LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR),
    VECTOR(BLK "ffn_gate_exps.bias",     LAYERS "mlp.experts.gate_up_proj_bias", LAYER(gate_bias), N, OF_EXPERTS | TENSOR_EVEN),
    VECTOR(BLK "ffn_up_exps.bias",       LAYERS "mlp.experts.gate_up_proj_bias", LAYER(up_bias),   N, OF_EXPERTS | TENSOR_ODD),
    VECTOR(BLK "ffn_down_exps.bias",     LAYERS "mlp.experts.down_proj_bias",    LAYER(down_bias), D, OF_EXPERTS),
};
/* Of layers that may lack either block (MIXERS_PARTS). */
static const tensor_rule deci_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "input_layernorm",          attention_norm, D, TENSOR_OF_ATTENTION),
    NORM_ALONE(LAYER, BLK "ffn_norm",  LAYERS "post_attention_layernorm", ffn_norm,       D, TENSOR_OF_DENSE),
    ATTENTION_NEIGHBOURS(TENSOR_OF_ATTENTION), GATED_FFN,
};
static const tensor_rule arcee_layer[] = {
    PRE_NORMS(0), ATTENTION_NEIGHBOURS(0), PLAIN_FFN(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj", 0),
    /* Cosmos 3 Edge: its network as transformers writes it, its attention as it was published */
    MATRIX(BLK "ffn_up.weight",      LAYERS "mlp.fc1.weight", LAYER(up),   F, D, TENSOR_ALIAS),
    MATRIX(BLK "ffn_down.weight",    LAYERS "mlp.fc2.weight", LAYER(down), D, F, TENSOR_ALIAS),
    ROTARY(BLK "attn_q.weight",      LAYERS "self_attn.to_q.weight", LAYER(q), Q, DIMENSION_HEADS, TENSOR_ALIAS),
    ROTARY(BLK "attn_k.weight",      LAYERS "self_attn.to_k.weight", LAYER(k), K, DIMENSION_KV_HEADS, TENSOR_ALIAS),
    MATRIX(BLK "attn_v.weight",      LAYERS "self_attn.to_v.weight", LAYER(v), K, D, TENSOR_ALIAS),
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn.to_out.weight", LAYER(attention_output), D, Q, TENSOR_ALIAS),
};
static const tensor_rule apertus_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "attention_layernorm",   attention_norm, D, 0),
    NORM_ALONE(LAYER, BLK "ffn_norm",  LAYERS "feedforward_layernorm", ffn_norm,       D, 0),
    ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), PLAIN_FFN(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj", 0),
};
static const tensor_rule bitnet_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, GATED_FFN,
    NORM_ALONE(LAYER, BLK "attn_sub_norm", LAYERS "self_attn.attn_sub_norm", attention_inner_norm, Q, 0),
    NORM_ALONE(LAYER, BLK "ffn_sub_norm",  LAYERS "mlp.ffn_sub_norm",        ffn_inner_norm,       F, 0),
};
/* DeepSeek V4, as it was published: folders name its tensors otherwise than transformers does. */
#define OF_V4(name, folder, field, rows, columns, flags)                                                     \
    MATRIX(BLK name ".weight", "layers.%u." folder, LAYER(field), DIMENSION_##rows, DIMENSION_##columns, flags)
#define V4_NEEDING(needs, name, folder, field, rows, columns, flags)                                         \
    NEEDING(needs, BLK name ".weight", "layers.%u." folder, LAYER(field), DIMENSION_##rows, DIMENSION_##columns, flags)
#define V4_SUMMARIES(needs, name, folder, value, gate, bias, norm, rows, length)                             \
    V4_NEEDING(needs, name "_compressor_kv",   folder "compressor.wkv.weight",   value,       rows,     EMBEDDING, 0), \
    V4_NEEDING(needs, name "_compressor_gate", folder "compressor.wgate.weight", gate,        rows,     EMBEDDING, 0), \
    V4_NEEDING(needs, name "_compressor_ape",  folder "compressor.ape",          bias,        TOGETHER, rows,      TENSOR_FLAT), \
    V4_NEEDING(needs, name "_compressor_norm", folder "compressor.norm.weight",  norm.weight, NONE,     length,    TENSOR_NORM)
#define V4_CONNECTION(name, field)                                                                           \
    OF_V4(name "_fn",    name "_fn",    field.weights, CONNECTIONS, ALL_STREAMS,       0),                   \
    OF_V4(name "_base",  name "_base",  field.base,    NONE,        CONNECTIONS,       TENSOR_FLAT),         \
    OF_V4(name "_scale", name "_scale", field.scale,   NONE,        CONNECTION_SCALES, TENSOR_FLAT)
#define V4_EXPERT "layers.%u.ffn.experts.%u."
/* What the streams of the residual are weighed by at the end. */
#define END_CONNECTION(folder)                                                                               \
    MATRIX("output_hc_fn.weight",    folder "hc_head_fn",    MODEL(end_connection.weights), DIMENSION_STREAMS, DIMENSION_ALL_STREAMS, 0), \
    VECTOR("output_hc_base.weight",  folder "hc_head_base",  MODEL(end_connection.base),    DIMENSION_STREAMS, TENSOR_FLAT), \
    VECTOR("output_hc_scale.weight", folder "hc_head_scale", MODEL(end_connection.scale),   DIMENSION_NONE,    TENSOR_FLAT)
static const tensor_rule deepseek4_tensors[] = {
    TOKENS("embed.weight", "head.weight"), NORM_ALONE(MODEL, "output_norm", "norm", output_norm, D, 0), END_CONNECTION(""),
};
static const tensor_rule deepseek4_layer[] = {
    OF_V4("attn_norm",     "attn_norm.weight",      attention_norm.weight, NONE,          EMBEDDING,    TENSOR_NORM),
    OF_V4("ffn_norm",      "ffn_norm.weight",       ffn_norm.weight,       NONE,          EMBEDDING,    TENSOR_NORM),
    OF_V4("attn_sinks",    "attn.attn_sink",        sinks,                 NONE,          HEADS,        TENSOR_FLAT),
    OF_V4("attn_q_a",      "attn.wq_a.weight",      query_in,              QUERY_RANK,    EMBEDDING,    0),
    OF_V4("attn_q_a_norm", "attn.q_norm.weight",    query_in_norm.weight,  NONE,          QUERY_RANK,   TENSOR_NORM),
    OF_V4("attn_q_b",      "attn.wq_b.weight",      q,                     QUERY,         QUERY_RANK,   0),
    OF_V4("attn_kv",       "attn.wkv.weight",       k,                     KEY,           EMBEDDING,    0),
    OF_V4("attn_kv_a_norm", "attn.kv_norm.weight",  key_norm.weight,       NONE,          KEY,          TENSOR_NORM),
    OF_V4("attn_output_a", "attn.wo_a.weight",      output_in,             RESULT,        OUTPUT_GROUP, 0),
    OF_V4("attn_output_b", "attn.wo_b.weight",      attention_output,      EMBEDDING,     RESULT,       0),
    V4_SUMMARIES(NEEDS_SUMMARIES, "attn", "attn.", summary_value, summary_gate, summary_bias, summary_norm, SUMMARY, KEY),
    V4_SUMMARIES(NEEDS_INDEX, "indexer", "attn.indexer.", index_key, index_gate, index_gate_bias, index_key_norm, INDEX_SUMMARY, INDEX_LENGTH),
    V4_NEEDING(NEEDS_INDEX, "indexer.attn_q_b", "attn.indexer.wq_b.weight",         index_query,  INDEX_QUERY, QUERY_RANK, 0),
    V4_NEEDING(NEEDS_INDEX, "indexer.proj",     "attn.indexer.weights_proj.weight", index_weight, INDEX_HEADS, EMBEDDING,  0),
    V4_CONNECTION("hc_attn", mixer_connection), V4_CONNECTION("hc_ffn", network_connection),
    ROUTER("layers.%u.ffn.gate.weight"),
    NEEDING(NEEDS_CHOSEN_EXPERTS | NEEDS_OR_UNUSED, BLK "exp_probs_b.bias", "layers.%u.ffn.gate.bias", LAYER(router_correction),
            DIMENSION_NONE, DIMENSION_EXPERTS, TENSOR_OF_EXPERTS),
    /* Of pictures. */
    VECTOR(BLK "exp_probs_b_vl.bias", "layers.%u.ffn.gate.bias_vl", NO_FIELD, DIMENSION_EXPERTS,
           TENSOR_OF_EXPERTS | TENSOR_IGNORED | TENSOR_OPTIONAL),
    V4_NEEDING(NEEDS_TOKEN_EXPERTS, "ffn_gate_tid2eid", "ffn.gate.tid2eid", token_experts, VOCABULARY, EXPERTS_USED,
               TENSOR_OF_EXPERTS | TENSOR_INTEGERS),
    EXPERTS(V4_EXPERT "w1.weight", V4_EXPERT "w3.weight", V4_EXPERT "w2.weight", 0),
    OF_V4("ffn_gate_shexp",   "ffn.shared_experts.w1.weight", shared.gate,   SHARED_NEURONS, EMBEDDING,      TENSOR_OF_EXPERTS),
    OF_V4("ffn_up_shexp",     "ffn.shared_experts.w3.weight", shared.up,     SHARED_NEURONS, EMBEDDING,      TENSOR_OF_EXPERTS),
    OF_V4("ffn_down_shexp",   "ffn.shared_experts.w2.weight", shared.down,   EMBEDDING,      SHARED_NEURONS, TENSOR_OF_EXPERTS | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_shexp.weight", NULL, LAYER(shared.down_t), S, D, TENSOR_OF_EXPERTS | TENSOR_NEURON_MAJOR),
};
/* HyperCLOVA X: the same as llama with norms behind both blocks. */
static const tensor_rule hyperclovax_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, GATED_FFN,
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_norm1", attention_post_norm, D, 0),
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_norm2", ffn_post_norm,       D, 0),
};
/* GLM-4: gate and up are one matrix, and norms lie before and behind both blocks. */
#define NORMS_AROUND(behind_attention, behind_network)                                                       \
    NORM_ALONE(LAYER, BLK "attn_norm",           LAYERS "input_layernorm",          attention_norm,      D, 0), \
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS behind_attention,           attention_post_norm, D, 0), \
    NORM_ALONE(LAYER, BLK "ffn_norm",            LAYERS "post_attention_layernorm", ffn_norm,            D, 0), \
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS behind_network,             ffn_post_norm,       D, 0)
#define GATE_UP_FFN                                                                                          \
    MATRIX(BLK "ffn_up.weight", LAYERS "mlp.gate_up_proj.weight", LAYER(gate_up), DIMENSION_GATE_UP, D, 0),  \
    DOWN(LAYERS "mlp.down_proj.weight", 0)
static const tensor_rule glm4_layer[] = {
    NORMS_AROUND("post_self_attn_layernorm", "post_mlp_layernorm"), ATTENTION_SAME, QKV_OPTIONAL_BIASES, GATE_UP_FFN,
};
/* Queries, keys and values, which GGUF files may have in one matrix. */
#define ATTENTION_EITHER(output)                                                                             \
    MATRIX(BLK "attn_q.weight",      LAYERS "self_attn.q_proj.weight", LAYER(q), Q, D, TENSOR_OPTIONAL),     \
    MATRIX(BLK "attn_k.weight",      LAYERS "self_attn.k_proj.weight", LAYER(k), K, D, TENSOR_OPTIONAL),     \
    MATRIX(BLK "attn_v.weight",      LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, TENSOR_OPTIONAL),     \
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn." output ".weight", LAYER(attention_output), D, Q, 0), \
    MATRIX(BLK "attn_qkv.weight",    NULL,                             LAYER(qkv), QKV, D, TENSOR_OPTIONAL), \
    VECTOR(BLK "attn_qkv.bias",      NULL,                             LAYER(qkv_bias), QKV, TENSOR_OPTIONAL), QKV_OPTIONAL_BIASES
/* GLM-4 of 2024, ChatGLM: without norms behind the blocks. */
static const tensor_rule chatglm_layer[] = {PRE_NORMS(0), ATTENTION_EITHER("o_proj"), GATE_UP_FFN};
/* Phi-1 and 2: one norm for both blocks, biases everywhere, of the head too. */
static const tensor_rule phi2_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), NORM_PAIR(MODEL, "output_norm", "model.final_layernorm", output_norm, D, 0),
    VECTOR("output.bias", "lm_head.bias", MODEL(head_bias), DIMENSION_VOCABULARY, 0),
};
static const tensor_rule phi2_layer[] = {
    NORM_PAIR(LAYER, BLK "attn_norm", LAYERS "input_layernorm", ffn_norm, D, 0), ATTENTION_EITHER("dense"),
    OUTPUT_BIAS(LAYERS "self_attn.dense.bias"), PLAIN_FFN(LAYERS "mlp.fc1", LAYERS "mlp.fc2", 0), PLAIN_BIASES(LAYERS "mlp.fc1", LAYERS "mlp.fc2"),
};
/* Kolibri-1: norms before and behind both blocks, too; experts, one of them shared. */
static const tensor_rule kolibri1_layer[] = {
    NORMS_AROUND("post_attn_norm", "post_ffn_norm"), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), ROUTER(LAYERS "mlp.gate.weight"),
    CORRECTION(LAYERS "moe.router.expert_bias", 0), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
static const tensor_rule qwen2_layer[] = {PRE_NORMS(0), ATTENTION_SAME, QKV_BIASES(LAYERS), GATED_FFN};
static const tensor_rule qwen3_layer[] = {
    PRE_NORMS(0), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), GATED_FFN,
};
static const tensor_rule olmo2_layer[] = {
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_attention_layernorm",   attention_post_norm, D, 0),
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_feedforward_layernorm", ffn_post_norm,       D, 0),
    ATTENTION_SAME, QK_NORMS(Q, K, 0), GATED_FFN,
};
/* DeepSeek V2, V3 and their kin: latent attention. */
#define OF_HEADS(prefix, name, field, rows, columns, flags)                                                  \
    MATRIX(BLK name, LAYERS prefix "kv_b_proj.weight", LAYER(field), DIMENSION_##rows, DIMENSION_##columns,  \
           TENSOR_HEADS | TENSOR_OPTIONAL | (flags))
/* Both in one: of files from before April 2025, and of PLM. */
#define JOINED_HEADS(folder, flags)                                                                          \
    MATRIX(BLK "attn_kv_b.weight", folder, LAYER(key_value_up), DIMENSION_KEY_VALUE_UP, DIMENSION_COMPRESSED, flags)
#define COMPRESSED_KEYS(prefix, output, flags)                                                               \
    MATRIX(BLK "attn_kv_a_mqa.weight", LAYERS prefix "kv_a_proj_with_mqa.weight", LAYER(k), DIMENSION_COMPRESSED_KEY, D, flags), \
    NORM_ALONE(LAYER, BLK "attn_kv_a_norm", LAYERS prefix "kv_a_layernorm", compressed_norm, DIMENSION_COMPRESSED, flags), \
    MATRIX(BLK "attn_output.weight", LAYERS prefix output ".weight", LAYER(attention_output), D, DIMENSION_RESULT, flags)
#define LATENT_ATTENTION_AT(prefix, output, flags)                                                           \
    NEEDING(NEEDS_NO_QUERY_RANK, BLK "attn_q.weight", LAYERS prefix "q_proj.weight", LAYER(q), DIMENSION_SHORT_QUERY, D, flags), \
    NEEDING(NEEDS_QUERY_RANK, BLK "attn_q_a.weight", LAYERS prefix "q_a_proj.weight", LAYER(query_in), DIMENSION_QUERY_RANK, D, flags), \
    NEEDING(NEEDS_QUERY_RANK, BLK "attn_q_b.weight", LAYERS prefix "q_b_proj.weight", LAYER(q), DIMENSION_SHORT_QUERY, \
            DIMENSION_QUERY_RANK, flags),                                                                    \
    NEEDING(NEEDS_QUERY_RANK, BLK "attn_q_a_norm.weight", LAYERS prefix "q_a_layernorm.weight", LAYER(query_in_norm.weight), \
            DIMENSION_NONE, DIMENSION_QUERY_RANK, TENSOR_NORM | (flags)),                                    \
    COMPRESSED_KEYS(prefix, output, flags),                                                                  \
    OF_HEADS(prefix, "attn_k_b.weight", key_up, COMPRESSED, UNROTATED, flags),                               \
    OF_HEADS(prefix, "attn_v_b.weight", value_up, VALUE, COMPRESSED, flags), JOINED_HEADS(NULL, TENSOR_OPTIONAL | (flags))
#define LATENT_ATTENTION(flags) LATENT_ATTENTION_AT("self_attn.", "o_proj", flags)
static const tensor_rule deepseek2_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION(0), GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", TENSOR_OPTIONAL),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* DeepSeek V3.2 and GLM-5: the same with chosen positions. Layers that see what another one has chosen may have such tensors, too. */
#define INDEX(name, folder, field, rows, columns, flags)                                                     \
    NEEDING(NEEDS_INDEX | NEEDS_OR_UNUSED, BLK "indexer." name, LAYERS "self_attn.indexer." folder, LAYER(field), \
            DIMENSION_##rows, DIMENSION_##columns, flags)
#define INDEXER(flags)                                                                                       \
    INDEX("attn_q_b.weight", "wq_b.weight",         index_query,           INDEX_QUERY,  QUERY_RANK, flags), \
    INDEX("attn_k.weight",   "wk.weight",           index_key,             INDEX_LENGTH, EMBEDDING, flags),  \
    INDEX("k_norm.weight",   "k_norm.weight",       index_key_norm.weight, NONE,         INDEX_LENGTH, TENSOR_NORM | (flags)), \
    INDEX("k_norm.bias",     "k_norm.bias",         index_key_norm.bias,   NONE,         INDEX_LENGTH, flags), \
    INDEX("proj.weight",     "weights_proj.weight", index_weight,          INDEX_HEADS,  EMBEDDING, flags)
static const tensor_rule deepseek32_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION(0), INDEXER(0),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", TENSOR_OPTIONAL),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* Hy4: the same with gates and sinks; streams of the residual are connected, but not mixed. */
#define HY4_CONNECTION(name, folder, field)                                                                  \
    MATRIX(BLK name "_fn.weight",    LAYERS folder ".hc_pre.hc_fn",    LAYER(field.weights), DIMENSION_CONNECTIONS, DIMENSION_ALL_STREAMS, 0), \
    VECTOR(BLK name "_base.weight",  LAYERS folder ".hc_pre.hc_base",  LAYER(field.base),  DIMENSION_CONNECTIONS, TENSOR_FLAT), \
    VECTOR(BLK name "_scale.weight", LAYERS folder ".hc_pre.hc_scale", LAYER(field.scale), DIMENSION_CONNECTION_SCALES, TENSOR_FLAT)
static const tensor_rule hy4_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS, NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
    END_CONNECTION("model.hc_head."),
};
static const tensor_rule hy4_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION(0), INDEXER(0),
    MATRIX(BLK "attn_gate.weight", LAYERS "self_attn.linear_gate.weight", LAYER(attention_gate), DIMENSION_GATES, D, 0),
    VECTOR(BLK "attn_sinks.weight", LAYERS "self_attn.learnable_sink_param", LAYER(sinks), DIMENSION_HEADS, TENSOR_FLAT),
    HY4_CONNECTION("hc_attn", "hc_attn_layer", mixer_connection), HY4_CONNECTION("hc_ffn", "hc_mlp_layer", network_connection),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", TENSOR_OPTIONAL),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
static const tensor_rule plm_layer[] = {
    PRE_NORMS(0), MATRIX(BLK "attn_q.weight", LAYERS "self_attn.q_proj.weight", LAYER(q), DIMENSION_SHORT_QUERY, D, 0),
    COMPRESSED_KEYS("self_attn.", "o_proj", 0), JOINED_HEADS(LAYERS "self_attn.kv_b_proj.weight", 0), PLAIN_FFN(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj", 0),
};
/* EXAONE 4: norms behind both blocks, of queries and keys in each head. */
static const tensor_rule exaone4_layer[] = {
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_attention_layernorm",   attention_post_norm, D, 0),
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_feedforward_layernorm", ffn_post_norm,       D, 0),
    ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, 0), GATED_FFN,
};
static const tensor_rule seed_oss_layer[] = {POST_ATTENTION_NORMS(0), ATTENTION_SAME, QKV_BIASES(LAYERS), GATED_FFN};
/* Command R: one norm without a bias for both blocks, which run side by side. */
static const tensor_rule cohere_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "input_layernorm", ffn_norm, D, 0), ATTENTION_SAME, GATED_FFN,
};
static const tensor_rule cohere2_moe_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "input_layernorm", ffn_norm, D, 0), ATTENTION_SAME, GATED_FFN,
    ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
static const tensor_rule starcoder2_layer[] = {
    PRE_NORM_PAIRS(LAYERS "input_layernorm", LAYERS "post_attention_layernorm", 0),
    ATTENTION_SAME, QKV_BIASES(LAYERS), OUTPUT_BIAS(LAYERS "self_attn.o_proj.bias"),
    PLAIN_FFN(LAYERS "mlp.c_fc", LAYERS "mlp.c_proj", 0), PLAIN_BIASES(LAYERS "mlp.c_fc", LAYERS "mlp.c_proj"),
};
static const tensor_rule gemma_layer[] = {PRE_NORMS(TENSOR_LESS_ONE), ATTENTION_SAME, GATED_FFN};
static const tensor_rule gemma2_layer[] = {FOUR_NORMS(TENSOR_LESS_ONE), ATTENTION_SAME, GATED_FFN};
static const tensor_rule gemma3_layer[] = {
    FOUR_NORMS(TENSOR_LESS_ONE), ATTENTION_SAME, QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, TENSOR_LESS_ONE), GATED_FFN,
};
/* Gemma 3n and Gemma 4. Layers that use the keys and values of others may have matrices for their own all the same. */
#define P DIMENSION_PER_LAYER
#define ALL_P DIMENSION_PER_LAYERS
#define PER_LAYER_TENSORS                                                                                    \
    NEEDING(NEEDS_PER_LAYER, PER_LAYER_TOKENS, "model.embed_tokens_per_layer.weight", MODEL(per_layer_tokens), \
            DIMENSION_PER_LAYER_VOCABULARY, ALL_P, 0),                                                       \
    NEEDING(NEEDS_PER_LAYER, "per_layer_model_proj.weight", "model.per_layer_model_projection.weight", MODEL(per_layer_projection), \
            ALL_P, D, 0),                                                                                    \
    NEEDING(NEEDS_PER_LAYER, "per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", MODEL(per_layer_norm.weight), \
            DIMENSION_NONE, P, TENSOR_NORM)
#define PER_LAYER_INPUT                                                                                      \
    NEEDING(NEEDS_PER_LAYER, BLK "inp_gate.weight",  LAYERS "per_layer_input_gate.weight", LAYER(per_layer_gate),   P, D, 0), \
    NEEDING(NEEDS_PER_LAYER, BLK "proj.weight",      LAYERS "per_layer_projection.weight", LAYER(per_layer_output), D, P, 0), \
    NEEDING(NEEDS_PER_LAYER, BLK "post_norm.weight", LAYERS "post_per_layer_input_norm.weight",              \
            LAYER(per_layer_post_norm.weight), DIMENSION_NONE, D, TENSOR_NORM)
#define OWN_KEYS (NEEDS_OWN_KEYS | NEEDS_OR_UNUSED)
#define ATTENTION_SHARED                                                                                     \
    MATRIX(BLK "attn_q.weight",            LAYERS "self_attn.q_proj.weight", LAYER(q), Q, D, 0),             \
    NEEDING(OWN_KEYS, BLK "attn_k.weight", LAYERS "self_attn.k_proj.weight", LAYER(k), K, D, 0),             \
    MATRIX(BLK "attn_output.weight",       LAYERS "self_attn.o_proj.weight", LAYER(attention_output), D, Q, 0), \
    NORM_ALONE(LAYER, BLK "attn_q_norm",   LAYERS "self_attn.q_norm", query_norm, DIMENSION_HEAD, 0),        \
    NEEDING(OWN_KEYS, BLK "attn_k_norm.weight", LAYERS "self_attn.k_norm.weight", LAYER(key_norm.weight), DIMENSION_NONE, \
            DIMENSION_HEAD, TENSOR_NORM)
static const tensor_rule gemma4_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS, PER_LAYER_TENSORS,
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule gemma4_layer[] = {
    FOUR_NORMS(0), ATTENTION_SHARED, GATED_FFN, PER_LAYER_INPUT,
    NEEDING(OWN_KEYS | NEEDS_WINDOW,    BLK "attn_v.weight", LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, 0),
    NEEDING(OWN_KEYS | NEEDS_NO_WINDOW, BLK "attn_v.weight", NULL,                             LAYER(v), K, D, TENSOR_OPTIONAL),
    VECTOR(BLK "layer_output_scale.weight", LAYERS "layer_scalar", LAYER(output_scale), DIMENSION_NONE, TENSOR_OPTIONAL),
    /* Beside the experts, the network of a layer without them, under the same names. */
    ROUTER(LAYERS "router.proj.weight"),
    VECTOR(BLK "ffn_gate_inp.scale",  LAYERS "router.scale",            LAYER(router_norm.weight), D, TENSOR_OF_EXPERTS | TENSOR_NORM),
    VECTOR(BLK "ffn_down_exps.scale", LAYERS "router.per_expert_scale", LAYER(expert_scales), DIMENSION_EXPERTS, TENSOR_OF_EXPERTS),
    MATRIX(BLK "ffn_gate_up_exps.weight", LAYERS "experts.gate_up_proj", LAYER(gate_up), DIMENSION_EXPERT_GATE_UP, D, OF_EXPERTS),
    MATRIX(BLK "ffn_down_exps.weight",    LAYERS "experts.down_proj",    LAYER(down), D, N, OF_EXPERTS | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_exps.weight",  NULL,                          LAYER(down_t), N, D, OF_EXPERTS | TENSOR_NEURON_MAJOR),
    MATRIX(BLK "ffn_gate.weight",   NULL, LAYER(shared.gate),   S, D, TENSOR_OF_EXPERTS),
    MATRIX(BLK "ffn_up.weight",     NULL, LAYER(shared.up),     S, D, TENSOR_OF_EXPERTS),
    MATRIX(BLK "ffn_down.weight",   NULL, LAYER(shared.down),   D, S, TENSOR_OF_EXPERTS | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t.weight", NULL, LAYER(shared.down_t), S, D, TENSOR_OF_EXPERTS | TENSOR_NEURON_MAJOR),
    NORM_ALONE(LAYER, BLK "post_ffw_norm_1", LAYERS "post_feedforward_layernorm_1", shared_post_norm,  D, TENSOR_OF_EXPERTS),
    NORM_ALONE(LAYER, BLK "post_ffw_norm_2", LAYERS "post_feedforward_layernorm_2", experts_post_norm, D, TENSOR_OF_EXPERTS),
    NORM_ALONE(LAYER, BLK "pre_ffw_norm_2",  LAYERS "pre_feedforward_layernorm_2",  experts_norm,      D, TENSOR_OF_EXPERTS),
};
#define STREAMS DIMENSION_STREAMS
static const tensor_rule gemma3n_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), PER_LAYER_TENSORS,
    NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
    {"altup_proj.weight", "model.altup_projections.%u.weight", MODEL(stream_in), D, D, DIMENSION_NONE, 0, 0, DIMENSION_OTHER_STREAMS},
    {"altup_unembd_proj.weight", "model.altup_unembed_projections.%u.weight", MODEL(stream_out), D, D, DIMENSION_NONE, 0, 0,
     DIMENSION_OTHER_STREAMS},
};
static const tensor_rule gemma3n_layer[] = {
    FOUR_NORMS(0), ATTENTION_SHARED, GATED_FFN, PER_LAYER_INPUT,
    NEEDING(OWN_KEYS, BLK "attn_v.weight", LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, 0),
    NORM_ALONE(LAYER, BLK "altup_router_norm",  LAYERS "altup.router_norm",             streams.router_norm, D, 0),
    MATRIX(BLK "altup_router.weight",           LAYERS "altup.modality_router.weight",  LAYER(streams.router),  STREAMS, D, 0),
    MATRIX(BLK "altup_predict_coef.weight",     LAYERS "altup.prediction_coefs.weight", LAYER(streams.predict), DIMENSION_STREAM_PAIRS,
           STREAMS, TENSOR_FLAT),
    MATRIX(BLK "altup_correct_coef.weight",     LAYERS "altup.correction_coefs.weight", LAYER(streams.correct), STREAMS, STREAMS, TENSOR_FLAT),
    VECTOR(BLK "altup_correct_scale.weight",    LAYERS "altup.correct_output_scale",    LAYER(streams.correct_scale), D, 0),
    MATRIX(BLK "laurel_l.weight",               LAYERS "laurel.linear_left.weight",     LAYER(streams.laurel_in),  DIMENSION_LAUREL, D, 0),
    MATRIX(BLK "laurel_r.weight",               LAYERS "laurel.linear_right.weight",    LAYER(streams.laurel_out), D, DIMENSION_LAUREL, 0),
    NORM_ALONE(LAYER, BLK "laurel_post_norm",   LAYERS "laurel.post_laurel_norm",       streams.laurel_norm, D, 0),
};
static const tensor_rule phi3_layer[] = {
    PRE_NORMS(0),
    MATRIX(BLK "attn_qkv.weight",    LAYERS "self_attn.qkv_proj.weight", LAYER(qkv), QKV, D, 0),
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn.o_proj.weight",   LAYER(attention_output), D, Q, 0),
    MATRIX(BLK "ffn_up.weight",      LAYERS "mlp.gate_up_proj.weight",   LAYER(gate_up), DIMENSION_GATE_UP, D, 0),
    DOWN(LAYERS "mlp.down_proj.weight", 0),
};
static const tensor_rule jais2_layer[] = {
    PRE_NORM_PAIRS(LAYERS "input_layernorm", LAYERS "post_attention_layernorm", 0),
    ATTENTION_SAME, QKV_BIASES(LAYERS), OUTPUT_BIAS(LAYERS "self_attn.o_proj.bias"),
    PLAIN_FFN(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj", 0), PLAIN_BIASES(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj"),
};
static const tensor_rule stablelm_layer[] = {
    PRE_NORM_PAIRS(LAYERS "input_layernorm", LAYERS "post_attention_layernorm", 0), ATTENTION_SAME, QKV_OPTIONAL_BIASES, GATED_FFN,
};
static const tensor_rule nemotron_layer[] = {
    PRE_NORM_PAIRS(LAYERS "input_layernorm", LAYERS "post_attention_layernorm", TENSOR_LESS_ONE),
    ATTENTION_SAME, PLAIN_FFN(LAYERS "mlp.up_proj", LAYERS "mlp.down_proj", 0),
};

/* nanochat: a folder has no weights of norms (family.plain_norms). */
static const tensor_rule nanochat_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"),
    VECTOR("output_norm.weight", NULL, MODEL(output_norm.weight), D, TENSOR_NORM),
};
static const tensor_rule nanochat_layer[] = {
    VECTOR(BLK "attn_norm.weight", NULL, LAYER(attention_norm.weight), D, TENSOR_NORM),
    VECTOR(BLK "ffn_norm.weight",  NULL, LAYER(ffn_norm.weight),       D, TENSOR_NORM),
    ATTENTION_SAME, PLAIN_FFN(LAYERS "mlp.fc1", LAYERS "mlp.fc2", 0),
};

// clang-format on

#endif
