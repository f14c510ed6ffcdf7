/* family_tensors_names.h - the tensors of families whose folders name them otherwise than Llama's: GPT-2 and its kin, OPT,
 * InternLM 2. */
#ifndef MODEL_FAMILY_TENSORS_NAMES_H
#define MODEL_FAMILY_TENSORS_NAMES_H

#include "family_tensors.h"

// clang-format off

static const tensor_rule falcon_tensors[] = {
    TOKENS("transformer.word_embeddings.weight", "lm_head.weight"),
    NORM_PAIR(MODEL, "output_norm", "transformer.ln_f", output_norm, D, 0),
};
static const tensor_rule gpt2_tensors[] = {
    TOKENS("transformer.wte.weight", "lm_head.weight"),
    MATRIX("position_embd.weight", "transformer.wpe.weight", MODEL(positions), DIMENSION_POSITIONS, D, 0),
    NORM_PAIR(MODEL, "output_norm", "transformer.ln_f", output_norm, D, 0),
};
static const tensor_rule opt_tensors[] = {
    TOKENS("model.decoder.embed_tokens.weight", "lm_head.weight"),
    MATRIX("position_embd.weight", "model.decoder.embed_positions.weight", MODEL(positions), DIMENSION_POSITIONS, D, 0),
    NORM_PAIR(MODEL, "output_norm", "model.decoder.final_layer_norm", output_norm, D, 0),
};

#define H "transformer.h.%u."
static const tensor_rule falcon_layer[] = {
    /* One norm for both blocks, or two: then the first name is that of the feed-forward network. */
    NORM_PAIR(LAYER, BLK "attn_norm",   H "input_layernorm", ffn_norm,       D, 0),
    NORM_PAIR(LAYER, BLK "attn_norm",   H "ln_mlp",          ffn_norm,       D, TENSOR_ALIAS),
    NORM_PAIR(LAYER, BLK "attn_norm_2", H "ln_attn",         attention_norm, D, TENSOR_OPTIONAL),
    MATRIX(BLK "attn_qkv.weight",    H "self_attention.query_key_value.weight", LAYER(qkv), QKV, D, TENSOR_FUSED),
    MATRIX(BLK "attn_output.weight", H "self_attention.dense.weight", LAYER(attention_output), D, Q, 0),
    PLAIN_FFN(H "mlp.dense_h_to_4h", H "mlp.dense_4h_to_h", 0),
};
static const tensor_rule gpt2_layer[] = {
    PRE_NORM_PAIRS(H "ln_1", H "ln_2", 0),
    MATRIX(BLK "attn_qkv.weight",    H "attn.c_attn.weight", LAYER(qkv), QKV, D, TENSOR_TRANSPOSED),
    VECTOR(BLK "attn_qkv.bias",      H "attn.c_attn.bias",   LAYER(qkv_bias), QKV, 0),
    MATRIX(BLK "attn_output.weight", H "attn.c_proj.weight", LAYER(attention_output), D, Q, TENSOR_TRANSPOSED),
    OUTPUT_BIAS(H "attn.c_proj.bias"),
    PLAIN_FFN(H "mlp.c_fc", H "mlp.c_proj", TENSOR_TRANSPOSED), PLAIN_BIASES(H "mlp.c_fc", H "mlp.c_proj"),
    /* The causal mask, which early versions of transformers stored. */
    VECTOR(BLK "attn_mask", H "attn.bias", NO_FIELD, D, TENSOR_IGNORED | TENSOR_OPTIONAL),
};
/* InternLM 2: a llama whose folders have one matrix of queries, keys and values. */
static const tensor_rule internlm2_tensors[] = {
    TOKENS("model.tok_embeddings.weight", "output.weight"), ROPE_FACTORS, NORM_ALONE(MODEL, "output_norm", "model.norm", output_norm, D, 0),
};
static const tensor_rule internlm2_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", LAYERS "attention_norm", attention_norm, D, 0),
    NORM_ALONE(LAYER, BLK "ffn_norm",  LAYERS "ffn_norm",       ffn_norm,       D, 0),
    ROTARY(BLK "attn_q.weight",      LAYERS "attention.wqkv.weight", LAYER(q), Q, DIMENSION_HEADS, TENSOR_FUSED),
    ROTARY(BLK "attn_k.weight",      LAYERS "attention.wqkv.weight", LAYER(k), K, DIMENSION_KV_HEADS, TENSOR_FUSED),
    MATRIX(BLK "attn_v.weight",      LAYERS "attention.wqkv.weight", LAYER(v), K, D, TENSOR_FUSED),
    MATRIX(BLK "attn_output.weight", LAYERS "attention.wo.weight",   LAYER(attention_output), D, Q, 0),
    MATRIX(BLK "ffn_gate.weight",    LAYERS "feed_forward.w1.weight", LAYER(gate), F, D, 0),
    MATRIX(BLK "ffn_up.weight",      LAYERS "feed_forward.w3.weight", LAYER(up),   F, D, 0),
    DOWN(LAYERS "feed_forward.w2.weight", 0),
};
/* EXAONE 3: a llama under GPT-2's names. */
static const tensor_rule exaone_tensors[] = {
    TOKENS("transformer.wte.weight", "lm_head.weight"), ROPE_FACTORS,
    NORM_ALONE(MODEL, "output_norm", "transformer.ln_f", output_norm, D, 0),
};
static const tensor_rule exaone_layer[] = {
    NORM_ALONE(LAYER, BLK "attn_norm", H "ln_1", attention_norm, D, 0),
    NORM_ALONE(LAYER, BLK "ffn_norm",  H "ln_2", ffn_norm,       D, 0),
    MATRIX(BLK "attn_q.weight",      H "attn.attention.q_proj.weight",   LAYER(q), Q, D, 0),
    MATRIX(BLK "attn_k.weight",      H "attn.attention.k_proj.weight",   LAYER(k), K, D, 0),
    MATRIX(BLK "attn_v.weight",      H "attn.attention.v_proj.weight",   LAYER(v), K, D, 0),
    MATRIX(BLK "attn_output.weight", H "attn.attention.out_proj.weight", LAYER(attention_output), D, Q, 0),
    MATRIX(BLK "ffn_gate.weight",    H "mlp.c_fc_0.weight", LAYER(gate), F, D, 0),
    MATRIX(BLK "ffn_up.weight",      H "mlp.c_fc_1.weight", LAYER(up),   F, D, 0),
    DOWN(H "mlp.c_proj.weight", 0),
};
/* GPT-NeoX and Persimmon: a folder has the rows of each head's query, key and value together. */
#define FUSED_QKV(attention)                                                                                 \
    MATRIX(BLK "attn_qkv.weight",    attention "query_key_value.weight", LAYER(qkv), QKV, D, TENSOR_FUSED),  \
    VECTOR(BLK "attn_qkv.bias",      attention "query_key_value.bias",   LAYER(qkv_bias), QKV, TENSOR_FUSED), \
    MATRIX(BLK "attn_output.weight", attention "dense.weight", LAYER(attention_output), D, Q, 0),            \
    OUTPUT_BIAS(attention "dense.bias")
#define WIDE_FFN(mlp)                                                                                        \
    PLAIN_FFN(mlp "dense_h_to_4h", mlp "dense_4h_to_h", 0), PLAIN_BIASES(mlp "dense_h_to_4h", mlp "dense_4h_to_h")
#define NEOX "gpt_neox.layers.%u."
static const tensor_rule gpt_neox_tensors[] = {
    TOKENS("gpt_neox.embed_in.weight", "embed_out.weight"), NORM_PAIR(MODEL, "output_norm", "gpt_neox.final_layer_norm", output_norm, D, 0),
    /* as transformers 5 calls it, and programs that round models with it */
    MATRIX("output.weight", "lm_head.weight", MODEL(head), DIMENSION_VOCABULARY, D, TENSOR_HEAD | TENSOR_ALIAS),
};
static const tensor_rule gpt_neox_layer[] = {
    PRE_NORM_PAIRS(NEOX "input_layernorm", NEOX "post_attention_layernorm", 0), FUSED_QKV(NEOX "attention."), WIDE_FFN(NEOX "mlp."),
    /* The causal mask, which early versions of transformers stored. */
    VECTOR(BLK "attn_mask",   NEOX "attention.bias",        NO_FIELD, D, TENSOR_IGNORED | TENSOR_OPTIONAL),
    VECTOR(BLK "attn_masked", NEOX "attention.masked_bias", NO_FIELD, D, TENSOR_IGNORED | TENSOR_OPTIONAL),
};
static const tensor_rule persimmon_tensors[] = {
    TOKENS("model.embed_tokens.weight", "lm_head.weight"), NORM_PAIR(MODEL, "output_norm", "model.final_layernorm", output_norm, D, 0),
};
static const tensor_rule persimmon_layer[] = {
    PRE_NORM_PAIRS(LAYERS "input_layernorm", LAYERS "post_attention_layernorm", 0), FUSED_QKV(LAYERS "self_attn."), WIDE_FFN(LAYERS "mlp."),
    NORM_PAIR(LAYER, BLK "attn_q_norm", LAYERS "self_attn.q_layernorm", query_norm, DIMENSION_HEAD, 0),
    NORM_PAIR(LAYER, BLK "attn_k_norm", LAYERS "self_attn.k_layernorm", key_norm,   DIMENSION_HEAD, 0),
};
#define DECODER "model.decoder.layers.%u."
static const tensor_rule opt_layer[] = {
    PRE_NORM_PAIRS(DECODER "self_attn_layer_norm", DECODER "final_layer_norm", 0),
    ATTENTION_AT(DECODER, "out_proj"), QKV_BIASES(DECODER), OUTPUT_BIAS(DECODER "self_attn.out_proj.bias"),
    PLAIN_FFN(DECODER "fc1", DECODER "fc2", 0), PLAIN_BIASES(DECODER "fc1", DECODER "fc2"),
};

// clang-format on

#endif
