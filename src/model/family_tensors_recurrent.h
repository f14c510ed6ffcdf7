/* family_tensors_recurrent.h - the tensors of families with recurrent layers, for the table of families in family.c alone. */
#ifndef MODEL_FAMILY_TENSORS_RECURRENT_H
#define MODEL_FAMILY_TENSORS_RECURRENT_H

#include "family_tensors.h"

// clang-format off

/* Nemotron-H and Nemotron 3: every layer is one block. N: values that an expert reads. */
#define BLOCK "backbone.layers.%u."
#define MIXER BLOCK "mixer."
#define OF_RECURRENT(name, folder, field, rows, columns, flags)                                              \
    MATRIX(BLK name, folder, LAYER(field), DIMENSION_##rows, DIMENSION_##columns, TENSOR_OF_RECURRENT | (flags))
/* The recurrent mixer of Mamba 2, with its prefix in folders. */
#define MAMBA_MIXER(at)                                                                                                                           \
    OF_RECURRENT("ssm_in.weight",     at "in_proj.weight",  recurrent_in,     RECURRENT_IN, EMBEDDING, 0),                                        \
    OF_RECURRENT("ssm_conv1d.weight", at "conv1d.weight",   convolution,      CHANNELS, CONVOLUTION, TENSOR_FLAT),                                \
    OF_RECURRENT("ssm_conv1d.bias",   at "conv1d.bias",     convolution_bias, NONE, CHANNELS, 0),                                                 \
    OF_RECURRENT("ssm_dt.bias",       at "dt_bias",         step_bias,        NONE, RECURRENT_HEADS, 0),                                          \
    OF_RECURRENT("ssm_a",             at "A_log",           decay,            RECURRENT_HEADS, NONE, TENSOR_FLAT | TENSOR_NEGATED_EXPONENT),      \
    OF_RECURRENT("ssm_d",             at "D",               skip,             RECURRENT_HEADS, NONE, TENSOR_FLAT),                                \
    OF_RECURRENT("ssm_norm.weight",   at "norm.weight",     recurrent_norm,   RECURRENT_GROUPS, RECURRENT_GROUP, TENSOR_FLAT | TENSOR_NORM),      \
    OF_RECURRENT("ssm_out.weight",    at "out_proj.weight", recurrent_output, EMBEDDING, RECURRENT_WIDTH, 0)
#define LATENT DIMENSION_LATENT
static const tensor_rule nemotron_h_tensors[] = {
    TOKENS("backbone.embeddings.weight", "lm_head.weight"),
    NORM_ALONE(MODEL, "output_norm", "backbone.norm_f", output_norm, D, 0),
};
static const tensor_rule nemotron_h_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", BLOCK "norm", attention_norm, D, 0),
    MATRIX(BLK "attn_q.weight",      MIXER "q_proj.weight", LAYER(q), Q, D, TENSOR_OF_ATTENTION),
    MATRIX(BLK "attn_k.weight",      MIXER "k_proj.weight", LAYER(k), K, D, TENSOR_OF_ATTENTION),
    MATRIX(BLK "attn_v.weight",      MIXER "v_proj.weight", LAYER(v), K, D, TENSOR_OF_ATTENTION),
    MATRIX(BLK "attn_output.weight", MIXER "o_proj.weight", LAYER(attention_output), D, Q, TENSOR_OF_ATTENTION),
    MAMBA_MIXER(MIXER),
    MATRIX(BLK "ffn_up.weight",       MIXER "up_proj.weight",  LAYER(up), F, D, TENSOR_OF_DENSE),
    DOWN(MIXER "down_proj.weight", 0),
    ROUTER(MIXER "gate.weight"),
    CORRECTION(MIXER "gate.e_score_correction_bias", 0),
    MATRIX(BLK "ffn_up_exps.weight",     MIXER "experts.%u.up_proj.weight",   LAYER(up),     N, LATENT, OF_EXPERTS),
    MATRIX(BLK "ffn_down_exps.weight",   MIXER "experts.%u.down_proj.weight", LAYER(down),   LATENT, N, OF_EXPERTS | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_exps.weight", NULL,                                LAYER(down_t), N, LATENT, OF_EXPERTS | TENSOR_NEURON_MAJOR),
    /* as transformers 5 stacks them */
    MATRIX(BLK "ffn_up_exps.weight",     MIXER "experts.up_proj",             LAYER(up),     N, LATENT, OF_EXPERTS | TENSOR_ALIAS),
    MATRIX(BLK "ffn_down_exps.weight",   MIXER "experts.down_proj",           LAYER(down),   LATENT, N, OF_EXPERTS | TENSOR_ALIAS),
    MATRIX(BLK "ffn_latent_down.weight", MIXER "fc1_latent_proj.weight",      LAYER(latent_in),  LATENT, D, TENSOR_OF_LATENT),
    MATRIX(BLK "ffn_latent_up.weight",   MIXER "fc2_latent_proj.weight",      LAYER(latent_out), D, LATENT, TENSOR_OF_LATENT),
    MATRIX(BLK "ffn_up_shexp.weight",     MIXER "shared_experts.up_proj.weight",   LAYER(shared.up),     S, D, TENSOR_OF_EXPERTS),
    MATRIX(BLK "ffn_down_shexp.weight",   MIXER "shared_experts.down_proj.weight", LAYER(shared.down),   D, S, TENSOR_OF_EXPERTS | TENSOR_STOCK),
    MATRIX(BLK "ffn_down_t_shexp.weight", NULL,                                    LAYER(shared.down_t), S, D, TENSOR_OF_EXPERTS | TENSOR_NEURON_MAJOR),
};

/* LFM2: most layers are short convolutions. */
#define CONVOLUTIONS                                                                                         \
    OF_RECURRENT("shortconv.in_proj.weight",  LAYERS "conv.in_proj.weight",  short_in,         SHORT_IN, EMBEDDING, 0), \
    OF_RECURRENT("shortconv.conv.weight",     LAYERS "conv.conv.weight",     convolution,      CHANNELS, CONVOLUTION, TENSOR_FLAT), \
    OF_RECURRENT("shortconv.out_proj.weight", LAYERS "conv.out_proj.weight", recurrent_output, EMBEDDING, RECURRENT_WIDTH, 0)
#define LFM_LAYER(output, norm)                                                                              \
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "operator_norm", attention_norm, D, 0),                        \
    NORM_ALONE(LAYER, BLK "ffn_norm",  LAYERS "ffn_norm",      ffn_norm,       D, 0),                        \
    MATRIX(BLK "attn_q.weight",      LAYERS "self_attn.q_proj.weight",   LAYER(q), Q, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_k.weight",      LAYERS "self_attn.k_proj.weight",   LAYER(k), K, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_v.weight",      LAYERS "self_attn.v_proj.weight",   LAYER(v), K, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_output.weight", LAYERS "self_attn." output ".weight", LAYER(attention_output), D, Q, TENSOR_OF_ATTENTION), \
    NORM_ALONE(LAYER, BLK "attn_q_norm", LAYERS "self_attn.q_" norm, query_norm, DIMENSION_HEAD, TENSOR_OF_ATTENTION), \
    NORM_ALONE(LAYER, BLK "attn_k_norm", LAYERS "self_attn.k_" norm, key_norm,   DIMENSION_HEAD, TENSOR_OF_ATTENTION), \
    CONVOLUTIONS,                                                                                            \
    MATRIX(BLK "ffn_gate.weight", FORWARD "w1.weight", LAYER(gate), F, D, TENSOR_OF_DENSE),                  \
    MATRIX(BLK "ffn_up.weight",   FORWARD "w3.weight", LAYER(up),   F, D, TENSOR_OF_DENSE),                  \
    DOWN(FORWARD "w2.weight", 0)
static const tensor_rule lfm2_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"),
    NORM_ALONE(MODEL, "token_embd_norm", "model.embedding_norm", output_norm, D, 0),
};
#define LFM2_LAYER LFM_LAYER("out_proj", "layernorm")
static const tensor_rule lfm2_layer[] = {LFM2_LAYER};
static const tensor_rule lfm2_moe_layer[] = {
    LFM2_LAYER, ROUTER(FORWARD "gate.weight"), CORRECTION(FORWARD "expert_bias", TENSOR_OPTIONAL),
    EXPERTS(FORWARD "experts.%u.w1.weight", FORWARD "experts.%u.w3.weight", FORWARD "experts.%u.w2.weight", 0),
};
/* LFM3: with gates of heads, and norms behind both blocks. */
static const tensor_rule lfm3_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_ALONE(MODEL, "token_embd_norm", "model.embedding_norm", output_norm, D, 0),
};
static const tensor_rule lfm3_layer[] = {
    LFM_LAYER("o_proj", "norm"),
    NORM_ALONE(LAYER, BLK "post_attention_norm", LAYERS "post_operator_norm", attention_post_norm, D, 0),
    NORM_ALONE(LAYER, BLK "post_ffw_norm",       LAYERS "post_ffn_norm",      ffn_post_norm,       D, 0),
    MATRIX(BLK "attn_gate.weight", LAYERS "self_attn.gate_proj.weight", LAYER(attention_gate), DIMENSION_GATES, D, TENSOR_OF_ATTENTION),
};

/* Granite 4: most layers are recurrent; nothing rotates. Without experts the shared one is the network. */
static const tensor_rule granite_hybrid_layer[] = {
    PRE_NORMS(0),
    {BLK "attn_q.weight", LAYERS "self_attn.q_proj.weight", LAYER(q), Q, D, DIMENSION_HEADS, TENSOR_OF_ATTENTION, 0, DIMENSION_NONE},
    {BLK "attn_k.weight", LAYERS "self_attn.k_proj.weight", LAYER(k), K, D, DIMENSION_KV_HEADS, TENSOR_OF_ATTENTION, 0, DIMENSION_NONE},
    MATRIX(BLK "attn_v.weight",       LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, TENSOR_OF_ATTENTION),
    MATRIX(BLK "attn_output.weight",  LAYERS "self_attn.o_proj.weight", LAYER(attention_output), D, Q, TENSOR_OF_ATTENTION),
    MAMBA_MIXER(LAYERS "mamba."),
    GRANITE_NETWORK, GRANITE_EXPERTS,
};

/* Qwen 3.5 and Qwen3-Next: most layers are recurrent, the others have gated attention. */
#define DELTA LAYERS "linear_attn."
#define GATED_ATTENTION                                                                                      \
    MATRIX(BLK "attn_q.weight",       LAYERS "self_attn.q_proj.weight", LAYER(q), DIMENSION_GATED_QUERY, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_k.weight",       LAYERS "self_attn.k_proj.weight", LAYER(k), K, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_v.weight",       LAYERS "self_attn.v_proj.weight", LAYER(v), K, D, TENSOR_OF_ATTENTION), \
    MATRIX(BLK "attn_output.weight",  LAYERS "self_attn.o_proj.weight", LAYER(attention_output), D, Q, TENSOR_OF_ATTENTION), \
    QK_NORMS(DIMENSION_HEAD, DIMENSION_HEAD, TENSOR_LESS_ONE | TENSOR_OF_ATTENTION)
/* Qwen 3.5: a folder has the heads of values in another order than GGUF. */
#define DELTA_MIXERS                                                                                         \
    GATED_ATTENTION,                                                                                         \
    OF_RECURRENT("attn_qkv.weight",   DELTA "in_proj_qkv.weight", convolved,        CHANNELS, EMBEDDING, TENSOR_VALUE_ROWS), \
    OF_RECURRENT("attn_gate.weight",  DELTA "in_proj_z.weight",   recurrent_gate,   RECURRENT_WIDTH, EMBEDDING, TENSOR_VALUE_ROWS), \
    OF_RECURRENT("ssm_alpha.weight",  DELTA "in_proj_a.weight",   step,             RECURRENT_HEADS, EMBEDDING, TENSOR_VALUE_ROWS), \
    OF_RECURRENT("ssm_beta.weight",   DELTA "in_proj_b.weight",   beta,             RECURRENT_HEADS, EMBEDDING, TENSOR_VALUE_ROWS), \
    OF_RECURRENT("ssm_conv1d.weight", DELTA "conv1d.weight",      convolution,      CHANNELS, CONVOLUTION, TENSOR_VALUE_ROWS | TENSOR_FLAT), \
    OF_RECURRENT("ssm_dt.bias",       DELTA "dt_bias",            step_bias,        NONE, RECURRENT_HEADS, TENSOR_VALUE_ROWS), \
    OF_RECURRENT("ssm_a",             DELTA "A_log",              decay,            NONE, RECURRENT_HEADS, TENSOR_VALUE_ROWS | TENSOR_NEGATED_EXPONENT), \
    OF_RECURRENT("ssm_norm.weight",   DELTA "norm.weight",        recurrent_norm,   NONE, RECURRENT_VALUE, TENSOR_NORM), \
    OF_RECURRENT("ssm_out.weight",    DELTA "out_proj.weight",    recurrent_output, EMBEDDING, RECURRENT_WIDTH, TENSOR_VALUE_COLUMNS)
#define DELTA_LAYER POST_ATTENTION_NORMS(TENSOR_LESS_ONE), DELTA_MIXERS
/* Qwen3-Next: the rows of a key lie together, in a folder and in the first GGUF files (ssm_in). */
static const tensor_rule qwen3_next_layer[] = {
    POST_ATTENTION_NORMS(TENSOR_LESS_ONE), GATED_ATTENTION,
    OF_RECURRENT("ssm_in.weight",     NULL,                         delta_in,      DELTA_IN, EMBEDDING, TENSOR_OPTIONAL),
    OF_RECURRENT("attn_qkv.weight",   DELTA "in_proj_qkvz.weight",  convolved,     CHANNELS, EMBEDDING, TENSOR_OPTIONAL | TENSOR_BY_KEYS),
    OF_RECURRENT("attn_gate.weight",  DELTA "in_proj_qkvz.weight",  recurrent_gate, RECURRENT_WIDTH, EMBEDDING,
                 TENSOR_OPTIONAL | TENSOR_BY_KEYS),
    OF_RECURRENT("ssm_ba.weight",     DELTA "in_proj_ba.weight",  beta_step,       BETA_STEP, EMBEDDING, 0),
    OF_RECURRENT("ssm_conv1d.weight", DELTA "conv1d.weight",      convolution,     CHANNELS, CONVOLUTION, TENSOR_FLAT),
    OF_RECURRENT("ssm_dt.bias",       DELTA "dt_bias",            step_bias,       NONE, RECURRENT_HEADS, 0),
    OF_RECURRENT("ssm_a",             DELTA "A_log",              decay,           NONE, RECURRENT_HEADS, TENSOR_NEGATED_EXPONENT),
    OF_RECURRENT("ssm_norm.weight",   DELTA "norm.weight",        recurrent_norm,  NONE, RECURRENT_VALUE, TENSOR_NORM),
    OF_RECURRENT("ssm_out.weight",    DELTA "out_proj.weight",    recurrent_output, EMBEDDING, RECURRENT_WIDTH, 0),
    ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_expert."), SHARED_GATE,
};
static const tensor_rule qwen35_layer[] = {DELTA_LAYER, GATED_FFN};
static const tensor_rule qwen35_moe_layer[] = {
    DELTA_LAYER, ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_expert."), SHARED_GATE,
};

/* Qwen3.8-Flash-Next: the same with streams of the residual, whose gates have the only norms around blocks, with chosen positions, and
 * with n-grams, whose table a folder has in parts, and what their hashes are made of beside it (huggingface_ngrams.c). */
#define GATES(owner, name, folder, field)                                                                    \
    VECTOR(name "_norm.weight", folder "hc_norm.weight",               owner(field.norm), DIMENSION_ALL_STREAMS, TENSOR_NORM | TENSOR_LESS_ONE), \
    MATRIX(name "_down.weight", folder "input_mix_weight_down.weight", owner(field.down), DIMENSION_CONNECTION_RANK, DIMENSION_ALL_STREAMS, 0), \
    MATRIX(name "_up.weight",   folder "input_mix_weight_up.weight",   owner(field.up),   DIMENSION_ALL_STREAMS, DIMENSION_CONNECTION_RANK, 0)
#define BLOCK_GATES(name, folder, field)                                                                     \
    GATES(LAYER, BLK name, LAYERS folder, field),                                                            \
    MATRIX(BLK name "_inject.weight", LAYERS folder "block_inject_weight.weight", LAYER(field.inject), DIMENSION_CONNECTIONS, \
           DIMENSION_ALL_STREAMS, 0)
#define SCORER LAYERS "self_attn.indexer."
#define OF_SCORER(name, folder, field, rows, columns, flags)                                                 \
    NEEDING(NEEDS_INDEX | NEEDS_OR_UNUSED, BLK "indexer." name ".weight", SCORER folder ".weight", LAYER(field), rows, columns, \
            TENSOR_OF_ATTENTION | (flags))
#define OF_NGRAMS(name, folder, field, rows, columns, flags)                                                 \
    NEEDING(NEEDS_NGRAMS, BLK "ple_" name ".weight", LAYERS "ple." folder ".weight", LAYER(ngram.field), rows, columns, flags)
#define NGRAM_NORM(name, field)                                                                              \
    OF_NGRAMS(name, name, field, DIMENSION_NONE, DIMENSION_ALL_STREAMS, TENSOR_NORM | TENSOR_LESS_ONE)
static const tensor_rule qwen4_exp_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), ROPE_FACTORS,
    GATES(MODEL, "output_hc", "model.hyper_connection_mixer.", end_gates),
    NEEDING(NEEDS_NGRAM_TABLES, PER_LAYER_TOKENS, NULL, MODEL(ngram_rows), DIMENSION_NGRAM_ROWS, DIMENSION_NGRAM_LENGTH, 0),
};
static const tensor_rule qwen4_exp_layer[] = {
    DELTA_MIXERS, BLOCK_GATES("hc_attn", "attn_hyper_connection.", mixer_gates), BLOCK_GATES("hc_ffn", "mlp_hyper_connection.", network_gates),
    OF_SCORER("q_proj", "index_qk_proj", index_query,             DIMENSION_INDEX_QUERY,  D, 0),
    OF_SCORER("k_proj", "index_qk_proj", index_key,               DIMENSION_INDEX_LENGTH, D, 0),
    OF_SCORER("q_norm", "q_layernorm",   index_query_norm.weight, DIMENSION_NONE, DIMENSION_INDEX_LENGTH, TENSOR_NORM | TENSOR_LESS_ONE),
    OF_SCORER("k_norm", "k_layernorm",   index_key_norm.weight,   DIMENSION_NONE, DIMENSION_INDEX_LENGTH, TENSOR_NORM | TENSOR_LESS_ONE),
    OF_NGRAMS("key",    "key_proj",   key,         DIMENSION_ALL_STREAMS, D, 0),
    OF_NGRAMS("value",  "value_proj", value,       D, D, 0),
    NGRAM_NORM("norm_key", key_norm), NGRAM_NORM("norm_query", stream_norm), NGRAM_NORM("norm_conv", convolved_norm),
    OF_NGRAMS("conv1d", "conv1d",     convolution, DIMENSION_ALL_STREAMS, DIMENSION_NGRAM_WINDOW, TENSOR_FLAT),
    ROUTER(LAYERS "mlp.gate.weight"), MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_expert."), SHARED_GATE,
};

/* RWKV-7: every layer is recurrent. A folder has its mixtures of inputs one by one, or in one (huggingface_rwkv.c); the first layer's
 * files may have what mixes values, which is not used. */
#define TIME_MIX LAYERS "attn."
#define RWKV_VECTOR(name, folder, field)                                                                     \
    VECTOR(BLK name, TIME_MIX folder, LAYER(field), D, TENSOR_OF_RECURRENT | TENSOR_FLAT)
#define LOW_RANK_NEEDING(needs, letter, which, RANK)                                                         \
    NEEDING(needs, BLK "time_mix_" letter "1.weight", TIME_MIX letter "_lora.lora.0.weight", LAYER(low_rank[which].in),  \
            DIMENSION_##RANK, D, TENSOR_OF_RECURRENT),                                                       \
    NEEDING(needs, BLK "time_mix_" letter "2.weight", TIME_MIX letter "_lora.lora.2.weight", LAYER(low_rank[which].out), \
            D, DIMENSION_##RANK, TENSOR_OF_RECURRENT)
#define LOW_RANK(letter, which, RANK) LOW_RANK_NEEDING(0, letter, which, RANK)
static const tensor_rule rwkv7_tensors[] = {
    TOKENS("model.embeddings.weight", "lm_head.weight"),
    NORM_PAIR(MODEL, "token_embd_norm", "model.layers.0.pre_norm", embedding_norm, D, 0),
    NORM_PAIR(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule rwkv7_layer[] = {
    NORM_PAIR(LAYER, BLK "attn_norm",   LAYERS "attn_norm", attention_norm, D, 0),
    NORM_PAIR(LAYER, BLK "attn_norm_2", LAYERS "ffn_norm",  ffn_norm,       D, 0),
    OF_RECURRENT("time_mix_lerp_fused.weight", TIME_MIX "x_x", input_mix, MIXTURES, EMBEDDING, TENSOR_FLAT),
    RWKV_VECTOR("time_mix_w0.weight", "w_lora.lora.2.bias", low_rank[MAP_DECAY].bias), LOW_RANK("w", MAP_DECAY, DECAY_RANK),
    RWKV_VECTOR("time_mix_a0.weight", "a_lora.lora.2.bias", low_rank[MAP_RATE].bias),  LOW_RANK("a", MAP_RATE, RATE_RANK),
    NEEDING(NEEDS_VALUE_RANK | NEEDS_OR_UNUSED, BLK "time_mix_v0.weight", TIME_MIX "v_lora.lora.2.bias", LAYER(low_rank[MAP_VALUE].bias),
            DIMENSION_NONE, D, TENSOR_OF_RECURRENT | TENSOR_FLAT),
    LOW_RANK_NEEDING(NEEDS_VALUE_RANK | NEEDS_OR_UNUSED, "v", MAP_VALUE, VALUE_RANK),
    LOW_RANK("g", MAP_GATE, GATE_RANK),
    RWKV_VECTOR("time_mix_k_k.weight", "k_k", removal_scale),
    RWKV_VECTOR("time_mix_k_a.weight", "k_a", rate_share),
    RWKV_VECTOR("time_mix_r_k.weight", "r_k", bonus),
    OF_RECURRENT("time_mix_receptance.weight", TIME_MIX "r_proj.weight", q, EMBEDDING, EMBEDDING, 0),
    OF_RECURRENT("time_mix_key.weight",        TIME_MIX "k_proj.weight", k, EMBEDDING, EMBEDDING, 0),
    OF_RECURRENT("time_mix_value.weight",      TIME_MIX "v_proj.weight", v, EMBEDDING, EMBEDDING, 0),
    OF_RECURRENT("time_mix_output.weight",     TIME_MIX "o_proj.weight", recurrent_output, EMBEDDING, EMBEDDING, 0),
    RWKV_VECTOR("time_mix_ln.weight", "g_norm.weight", recurrent_norm),
    RWKV_VECTOR("time_mix_ln.bias",   "g_norm.bias",   recurrent_norm_bias),
    VECTOR(BLK "channel_mix_lerp_k.weight",    LAYERS "ffn.x_k",          LAYER(network_mix), D, TENSOR_OF_RECURRENT | TENSOR_FLAT),
    MATRIX(BLK "channel_mix_key.weight",       LAYERS "ffn.key.weight",   LAYER(up),     F, D, TENSOR_OF_DENSE),
    MATRIX(BLK "channel_mix_value.weight",     LAYERS "ffn.value.weight", LAYER(down),   D, F, TENSOR_STOCK | TENSOR_OF_DENSE),
    MATRIX(BLK "channel_mix_value_t.weight",   NULL,                      LAYER(down_t), F, D, TENSOR_NEURON_MAJOR | TENSOR_OF_DENSE),
    VECTOR(BLK "ffn_order",                    NULL,                      LAYER(order),     F, TENSOR_NEURON_MAJOR | TENSOR_INTEGERS |
                                                                                               TENSOR_OPTIONAL | TENSOR_OF_DENSE),
};

/* Kimi Linear: most layers are recurrent, the others have latent attention, in which nothing rotates. */
#define OF_DELTA(name, folder, field, rows, columns, flags) OF_RECURRENT(name, LAYERS folder, field, rows, columns, flags)
#define DELTA_MIXER(prefix)                                                                                  \
    OF_DELTA("attn_q.weight",       prefix "q_proj.weight",   q,                 RECURRENT_WIDTH, EMBEDDING, 0), \
    OF_DELTA("attn_k.weight",       prefix "k_proj.weight",   k,                 RECURRENT_WIDTH, EMBEDDING, 0), \
    OF_DELTA("attn_v.weight",       prefix "v_proj.weight",   v,                 RECURRENT_WIDTH, EMBEDDING, 0), \
    OF_DELTA("ssm_conv1d_q.weight", prefix "q_conv1d.weight", query_convolution, RECURRENT_WIDTH, CONVOLUTION, TENSOR_FLAT), \
    OF_DELTA("ssm_conv1d_k.weight", prefix "k_conv1d.weight", key_convolution,   RECURRENT_WIDTH, CONVOLUTION, TENSOR_FLAT), \
    OF_DELTA("ssm_conv1d_v.weight", prefix "v_conv1d.weight", value_convolution, RECURRENT_WIDTH, CONVOLUTION, TENSOR_FLAT), \
    OF_DELTA("ssm_dt.bias",         prefix "dt_bias",         low_rank[MAP_DECAY].bias, NONE, RECURRENT_WIDTH, 0), \
    OF_DELTA("ssm_beta.weight",     prefix "b_proj.weight",   beta,              RECURRENT_HEADS, EMBEDDING, 0), \
    OF_DELTA("ssm_norm.weight",     prefix "o_norm.weight",   recurrent_norm,    NONE, RECURRENT_VALUE, TENSOR_NORM), \
    OF_DELTA("attn_output.weight",  prefix "o_proj.weight",   recurrent_output,  EMBEDDING, RECURRENT_WIDTH, 0)
/* A rate for each head, in GGUF of one column or a vector. */
#define DELTA_RATES(prefix, rows, columns)                                                                   \
    OF_DELTA("ssm_a", prefix "A_log", decay, rows, columns, TENSOR_FLAT | TENSOR_NEGATED_EXPONENT)
#define DELTA_MAPS                                                                                           \
    OF_DELTA("ssm_f_a.weight", "self_attn.f_a_proj.weight", low_rank[MAP_DECAY].in,  DECAY_RANK, EMBEDDING, 0), \
    OF_DELTA("ssm_f_b.weight", "self_attn.f_b_proj.weight", low_rank[MAP_DECAY].out, RECURRENT_WIDTH, DECAY_RANK, 0), \
    OF_DELTA("ssm_g_a.weight", "self_attn.g_a_proj.weight", low_rank[MAP_GATE].in,   GATE_RANK, EMBEDDING, 0), \
    OF_DELTA("ssm_g_b.weight", "self_attn.g_b_proj.weight", low_rank[MAP_GATE].out,  RECURRENT_WIDTH, GATE_RANK, 0)
#define BLOCK_SPARSE LAYERS "block_sparse_moe."
static const tensor_rule kimi_linear_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION(TENSOR_OF_ATTENTION), DELTA_MIXER("self_attn."), DELTA_RATES("self_attn.", RECURRENT_HEADS, NONE), DELTA_MAPS,
    GATED_FFN, ROUTER(BLOCK_SPARSE "gate.weight"), CORRECTION(BLOCK_SPARSE "gate.e_score_correction_bias", 0),
    EXPERTS(BLOCK_SPARSE "experts.%u.w1.weight", BLOCK_SPARSE "experts.%u.w3.weight", BLOCK_SPARSE "experts.%u.w2.weight", 0),
    SHARED_EXPERT(BLOCK_SPARSE "shared_experts."),
    /* as transformers 5.24 saves the network of a layer without experts */
    MATRIX(BLK "ffn_gate.weight", BLOCK_SPARSE "gate_proj.weight", LAYER(gate), F, D, TENSOR_OF_DENSE | TENSOR_ALIAS),
    MATRIX(BLK "ffn_up.weight",   BLOCK_SPARSE "up_proj.weight",   LAYER(up),   F, D, TENSOR_OF_DENSE | TENSOR_ALIAS),
    MATRIX(BLK "ffn_down.weight", BLOCK_SPARSE "down_proj.weight", LAYER(down), D, F, TENSOR_STOCK | TENSOR_OF_DENSE | TENSOR_ALIAS),
};
/* Ling 3: the same with whole matrices in the place of two of low rank, and a gate for each head of latent attention, which rotates. */
static const tensor_rule ling3_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION_AT("attention.", "dense", TENSOR_OF_ATTENTION),
    MATRIX(BLK "attn_gate.weight", LAYERS "attention.g_proj.weight", LAYER(attention_gate), DIMENSION_GATES, D, TENSOR_OF_ATTENTION),
    DELTA_MIXER("attention."), DELTA_RATES("attention.", RECURRENT_HEADS, NONE),
    OF_DELTA("ssm_f_a.weight", "attention.f_proj.weight", low_rank[MAP_DECAY].in, RECURRENT_WIDTH, EMBEDDING, 0),
    OF_DELTA("ssm_g_a.weight", "attention.g_proj.weight", low_rank[MAP_GATE].in,  RECURRENT_WIDTH, EMBEDDING, 0),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.expert_bias", 0),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};
/* GLM-5.3-Flash: as Kimi Linear, with chosen positions, of which some share a score, and streams of the residual. */
#define CONNECTION(name, field)                                                                              \
    MATRIX(BLK name "_fn.weight",    LAYERS name "_fn",    LAYER(field.weights), DIMENSION_CONNECTIONS, DIMENSION_ALL_STREAMS, 0), \
    VECTOR(BLK name "_base.weight",  LAYERS name "_base",  LAYER(field.base),  DIMENSION_CONNECTIONS, TENSOR_FLAT), \
    VECTOR(BLK name "_scale.weight", LAYERS name "_scale", LAYER(field.scale), DIMENSION_CONNECTION_SCALES, TENSOR_FLAT)
#define COMPRESSOR(name, folder, field, rows, columns, flags)                                                \
    NEEDING(NEEDS_INDEX | NEEDS_OR_UNUSED, BLK "indexer_compressor_" name ".weight", LAYERS "self_attn.indexer.index_kpool_compress_" folder, \
            LAYER(field), DIMENSION_##rows, DIMENSION_##columns, TENSOR_OF_ATTENTION | (flags))
static const tensor_rule glm5_next_layer[] = {
    PRE_NORMS(0), LATENT_ATTENTION(TENSOR_OF_ATTENTION), INDEXER(TENSOR_OF_ATTENTION),
    COMPRESSOR("gate", "gate", index_gate,     INDEX_LENGTH, EMBEDDING,    0),
    COMPRESSOR("ape",  "ape",  index_gate_bias, POOL,        INDEX_LENGTH, TENSOR_FLAT),
    DELTA_MIXER("self_attn."), DELTA_RATES("self_attn.", NONE, RECURRENT_HEADS), DELTA_MAPS, CONNECTION("hc_attn", mixer_connection), CONNECTION("hc_ffn", network_connection),
    GATED_FFN, ROUTER(LAYERS "mlp.gate.weight"), CORRECTION(LAYERS "mlp.gate.e_score_correction_bias", 0),
    MLP_EXPERTS, SHARED_EXPERT(LAYERS "mlp.shared_experts."),
};

// clang-format on

#endif
