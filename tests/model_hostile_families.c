/* model_hostile_families.c - one key of a golden GGUF of each family is wrong: every one is refused, by name. */
#include "../src/file/gguf.h"
#include "../src/model/hyper.h"

#include "golden.h"

/* type: u a uint32, f a float, b an array of two booleans. */
static const struct {
    const char *model, *key;
    char type;
    double value;
    hearth_status status;
    const char *text;
} rows[] = {
    {"qwen3-moe", "qwen3moe.expert_used_count", 'u', 0, HEARTH_FORMAT, "is not a number from 1 to expert_count"},
    {"qwen3-moe", "qwen3moe.expert_used_count", 'u', 7, HEARTH_FORMAT, "is not a number from 1 to expert_count"},
    {"qwen3-moe", "qwen3moe.expert_count", 'u', 4096, HEARTH_FORMAT, "key qwen3moe.expert_count: is too large"},
    {"qwen3-moe", "qwen3moe.expert_count", 'u', 5, HEARTH_FORMAT, "ffn_gate_inp.weight: is 64 x 6, expected 64 x 5"},
    {"qwen3-moe", "qwen3moe.expert_count", 'u', 0, HEARTH_UNSUPPORTED,
     "key qwen3moe.expert_count: every layer of this architecture has experts"},
    {"qwen3-moe", "qwen3moe.leading_dense_block_count", 'u', 1, HEARTH_UNSUPPORTED,
     "key qwen3moe.leading_dense_block_count: every layer of this architecture has experts"},
    {"olmo2", "olmo2.expert_count", 'u', 4, HEARTH_FORMAT, "key olmo2.expert_used_count: is missing"},
    {"mixtral", "llama.expert_count", 'u', 0, HEARTH_FORMAT, "blk.0.ffn_gate.weight: is missing"},
    {"qwen3-moe", "qwen3moe.expert_feed_forward_length", 'u', 0, HEARTH_FORMAT,
     "key qwen3moe.expert_feed_forward_length"},
    {"qwen3-moe", "qwen3moe.expert_feed_forward_length", 'u', 33, HEARTH_FORMAT,
     "ffn_gate_exps.weight: is 64 x 32 x 6, expected 64 x 33 x 6"},
    {"qwen3-moe", "qwen3moe.expert_feed_forward_length", 'u', 1u << 23, HEARTH_FORMAT, "is not from 1 to 2^24"},
    {"qwen3-moe", "qwen3moe.expert_gating_func", 'u', 9, HEARTH_UNSUPPORTED, "key qwen3moe.expert_gating_func"},
    {"qwen3-moe", "qwen3moe.expert_weights_scale", 'f', -1, HEARTH_FORMAT, "expert_weights_scale: is -1"},
    {"glm4-moe", "glm4moe.expert_group_count", 'u', 4, HEARTH_FORMAT, "key glm4moe.expert_group_count: does not fit"},
    {"glm4-moe", "glm4moe.expert_group_used_count", 'u', 0, HEARTH_FORMAT,
     "key glm4moe.expert_group_count: does not fit"},
    {"glm4-moe", "glm4moe.expert_group_used_count", 'u', 1, HEARTH_FORMAT,
     "key glm4moe.expert_group_count: does not fit"},
    {"glm4-moe", "glm4moe.leading_dense_block_count", 'u', 0, HEARTH_FORMAT,
     "blk.0.ffn_gate.weight: is of a layer without experts, and this one has some"},
    {"glm4-moe", "glm4moe.leading_dense_block_count", 'u', 2, HEARTH_FORMAT, "blk.1.ffn_gate.weight: is missing"},
    {"glm4-moe", "glm4moe.expert_shared_count", 'u', 0, HEARTH_FORMAT, "is of a shared expert, and there is none"},
    {"glm4-moe", "glm4moe.expert_shared_count", 'u', 1u << 27, HEARTH_FORMAT,
     "key glm4moe.expert_shared_count: makes more than 2^24 neurons"},
    {"glm4-moe", "glm4moe.rope.dimension_count", 'u', 22, HEARTH_FORMAT, "rope.dimension_count: is not an even number"},
    {"gemma3", "gemma3.attention.sliding_window_pattern", 'b', 1, HEARTH_FORMAT,
     "is not an array of one boolean per layer"},
    {"gemma3", "gemma3.rope.freq_base_swa", 'f', 0.5, HEARTH_FORMAT, "rope.freq_base_swa: is 0.5"},
    {"gemma3", "gemma3.attention.key_length", 'u', 15, HEARTH_FORMAT, "attention.key_length: is odd"},
    {"qwen3-5", "qwen35.attention.recurrent_layers", 'b', 1, HEARTH_FORMAT, "is not an array of one boolean per layer"},
    {"qwen3-5", "qwen35.nextn_predict_layers", 'u', 5, HEARTH_FORMAT, "nextn_predict_layers: is not below block_count"},
    {"qwen3-5", "qwen35.nextn_predict_layers", 'u', 0, HEARTH_FORMAT, "blk.4.nextn"},
    {"qwen3-5", "qwen35.ssm.group_count", 'u', 4, HEARTH_FORMAT, "ssm.group_count: does not divide"},
    {"qwen3-5", "qwen35.ssm.inner_size", 'u', 121, HEARTH_FORMAT, "ssm.inner_size: is not a multiple"},
    {"qwen3-5", "qwen35.ssm.conv_kernel", 'u', 17, HEARTH_FORMAT, "ssm.conv_kernel: is 0 or too large"},
    {"qwen3-5", "qwen35.ssm.state_size", 'u', 21, HEARTH_FORMAT, "attn_qkv.weight: is 72 x 240, expected 72 x 246"},
    {"qwen3-5", "qwen35.attention.key_length", 'u', 30, HEARTH_UNSUPPORTED, "value_length: differs from"},
    {"qwen3-5-moe", "qwen35moe.expert_count", 'u', 0, HEARTH_UNSUPPORTED,
     "key qwen35moe.expert_count: every layer of this architecture has experts"},
    {"qwen3-5-moe", "qwen35moe.expert_shared_feed_forward_length", 'u', 0, HEARTH_FORMAT,
     "is of a shared expert, and there is none"},
    {"gemma4-e", "gemma4.attention.shared_kv_layers", 'u', 6, HEARTH_FORMAT, "is not below the number of layers"},
    {"gemma4-e", "gemma4.attention.shared_kv_layers", 'u', 5, HEARTH_FORMAT, "leaves a layer no keys of its kind"},
    {"gemma4-e", "gemma4.attention.key_length_swa", 'u', 15, HEARTH_FORMAT, "is odd"},
    {"gemma4-e", "gemma4.attention.key_length_swa", 'u', 0, HEARTH_FORMAT, "key_length_swa: is 0 or too large"},
    {"gemma4-e", "gemma4.rope.dimension_count_swa", 'u', 18, HEARTH_FORMAT,
     "dimension_count_swa: is not an even number"},
    {"gemma4-e", "gemma4.rope.dimension_count_swa", 'u', 0, HEARTH_FORMAT,
     "dimension_count_swa: is not an even number"},
    {"gemma4-e", "gemma4.embedding_length_per_layer_input", 'u', 19, HEARTH_FORMAT,
     "per_layer_token_embd.weight: is 120 x 272, expected 114 x 272"},
    {"gemma4-e", "gemma4.embedding_length_per_layer_input", 'u', 0, HEARTH_FORMAT,
     "per_layer_token_embd.weight: is of inputs of the layers' own, and there are none"},
    {"gemma4-e", "gemma4.embedding_length_per_layer_input", 'u', 1u << 30, HEARTH_FORMAT, "is too large"},
    {"gemma4-moe", "gemma4.expert_feed_forward_length", 'u', 23, HEARTH_FORMAT,
     "ffn_gate_up_exps.weight: is 72 x 48 x 7, expected 72 x 46 x 7"},
    {"gemma4-moe", "gemma4.attention.head_count_kv", 'u', 2, HEARTH_FORMAT,
     "attn_k.weight: is 72 x 96, expected 72 x 64"},
    {"gemma3n", "gemma3n.altup.num_inputs", 'u', 1, HEARTH_FORMAT, "altup.num_inputs: is not a number from 2 to 8"},
    {"gemma3n", "gemma3n.altup.num_inputs", 'u', 3, HEARTH_FORMAT,
     "altup_proj.weight: is 64 x 64 x 3, expected 64 x 64 x 2"},
    {"gemma3n", "gemma3n.altup.active_idx", 'u', 4, HEARTH_FORMAT, "altup.active_idx: is not below altup.num_inputs"},
    {"gemma3n", "gemma3n.activation_sparsity_scale", 'b', 1, HEARTH_FORMAT, "is not an array of one number per layer"},
    {"lfm2", "lfm2.shortconv.l_cache", 'u', 0, HEARTH_FORMAT, "shortconv.l_cache: is below 2 or too large"},
    {"lfm2", "lfm2.shortconv.l_cache", 'u', 1, HEARTH_FORMAT, "shortconv.l_cache: is below 2 or too large"},
    {"lfm2", "lfm2.shortconv.l_cache", 'u', 17, HEARTH_FORMAT, "shortconv.l_cache: is below 2 or too large"},
    {"lfm2", "lfm2.shortconv.l_cache", 'u', 4, HEARTH_FORMAT, "shortconv.conv.weight: is 3 x 64, expected 4 x 64"},
    {"laguna", "laguna.attention.head_count", 'u', 4, HEARTH_FORMAT, "attn_q.weight: is 64 x 120, expected 64 x 80"},
    {"step3p5", "step35." EXPERT_LIMITS_KEY, 'f', -1, HEARTH_FORMAT, EXPERT_LIMITS_KEY ": has no limit of 0 or more"},
    {"step3p5", "step35." SHARED_LIMITS_KEY, 'f', INFINITY, HEARTH_FORMAT, SHARED_LIMITS_KEY ": has no limit of 0"},
    {"step3p5", "step35." SHARED_LIMITS_KEY, 'b', 1, HEARTH_FORMAT, "is not an array of one number per layer"},
    {"step3p5", "step35.rope.dimension_count", 'u', 20, HEARTH_FORMAT, "rope_freqs.weight: is 12, expected 10"},
    {"step3p5", "step35.rope.dimension_count", 'u', 22, HEARTH_FORMAT, "rope.dimension_count: is not a multiple of 4"},
    {"step3p5", "step35.hidden_activation", 'r', 0, HEARTH_UNSUPPORTED,
     EXPERT_LIMITS_KEY ": limits another activation"},
    {"step3p5", "step35.rope.dimension_count", 'u', 26, HEARTH_FORMAT, "rope.dimension_count: is not an even number"},
    {"plm", "plm.attention.q_lora_rank", 'u', 8, HEARTH_UNSUPPORTED,
     "q_lora_rank: is not supported of this architecture"},
    {"deepseek32", "deepseek32.attention.indexer.top_k", 'u', 0, HEARTH_FORMAT, "indexer.top_k: is 0"},
    {"deepseek32", "deepseek32.attention.indexer.head_count", 'u', 0, HEARTH_FORMAT, "indexer.head_count is 0 or too"},
    {"deepseek32", "deepseek32.attention.indexer.head_count", 'u', 1u << 30, HEARTH_FORMAT, "head_count is 0 or too"},
    {"deepseek32", "deepseek32.attention.indexer.key_length", 'u', 6, HEARTH_FORMAT, "is less than what rotates"},
    {"deepseek32", "deepseek32.attention.indexer.key_length", 'u', 32, HEARTH_FORMAT,
     "indexer.attn_q_b.weight: is 24 x 384, expected 24 x 192"},
    {"deepseek32", "deepseek32.attention.q_lora_rank", 'u', 0, HEARTH_UNSUPPORTED,
     "q_lora_rank: is 0, and positions are chosen"},
    {"deepseek32", "deepseek32.attention.sliding_window", 'u', 16, HEARTH_UNSUPPORTED,
     "sliding_window: is there, and positions are chosen"},
    {"deepseek32", "deepseek32.attention.temperature_scale", 'f', 0.5, HEARTH_UNSUPPORTED,
     "temperature_scale: is there, and positions are chosen"},
    {"granite-swa", "granite_swa.attention.rope_pattern", 'b', 1, HEARTH_FORMAT,
     "rope_pattern: is not an array of one boolean per layer"},
    {"kimi-linear", "kimi-linear.kda.head_dim", 'u', 0, HEARTH_FORMAT, "kda.head_dim: or attention.head_count is 0"},
    {"kimi-linear", "kimi-linear.kda.head_dim", 'u', 31, HEARTH_FORMAT,
     "attn_q.weight: is 64 x 128, expected 64 x 124"},
    {"kimi-linear", "kimi-linear.kda.head_dim", 'u', 1u << 20, HEARTH_FORMAT, "makes too large a state"},
    {"kimi-linear", "kimi-linear.ssm.conv_kernel", 'u', 1, HEARTH_FORMAT, "ssm.conv_kernel: is below 2 or too large"},
    {"kimi-linear", "kimi-linear.ssm.conv_kernel", 'u', 3, HEARTH_FORMAT, "ssm_conv1d_q.weight: is 4 x"},
    {"ling3", "bailingmoe3.kda.gate_lower_bound", 'f', 0, HEARTH_FORMAT,
     "kda.gate_lower_bound: is not a number below 0"},
    {"ling3", "bailingmoe3.kda.gate_lower_bound", 'f', -INFINITY, HEARTH_FORMAT, "gate_lower_bound: is not a number"},
    {"ling3", "bailingmoe3.kda.safe_gate", 'n', 0, HEARTH_UNSUPPORTED, "kda.safe_gate: is false, which is not"},
    {"ling3", "bailingmoe3.rope.dimension_sections", 'u', 1, HEARTH_UNSUPPORTED,
     "rope.dimension_sections: of pictures are not supported of this architecture"},
    {"mimo2", "mimo2.attention.value_length", 'u', 0, HEARTH_FORMAT, "value_length: is 0, or more than"},
    {"mimo2", "mimo2.attention.value_length", 'u', 97, HEARTH_FORMAT, "value_length: is 0, or more than"},
    {"mimo2", "mimo2.attention.value_length", 'u', 63, HEARTH_FORMAT, "attn_v.weight: is 64 x 64, expected 64 x 63"},
    {"mimo2", "mimo2.attention.value_scale", 'f', 0, HEARTH_FORMAT, "value_scale: is 0, expected a positive number"},
    {"llama", "llama.attention.value_length", 'u', 8, HEARTH_UNSUPPORTED,
     "value_length: differs from attention.key_length, which is not supported"},
    {"glm5-next", "glm5-next.attention.indexer.kpool", 'u', 0, HEARTH_UNSUPPORTED,
     "kpool: is not a power of two from 2"},
    {"glm5-next", "glm5-next.attention.indexer.kpool", 'u', 1, HEARTH_UNSUPPORTED,
     "kpool: is not a power of two from 2"},
    {"glm5-next", "glm5-next.attention.indexer.kpool", 'u', 6, HEARTH_UNSUPPORTED,
     "kpool: is not a power of two from 2"},
    {"glm5-next", "glm5-next.attention.indexer.kpool", 'u', 256, HEARTH_UNSUPPORTED,
     "kpool: is not a power of two from 2"},
    {"glm5-next", "glm5-next.attention.indexer.kpool", 'u', 2, HEARTH_FORMAT,
     "indexer_compressor_ape.weight: is 64 x 4"},
    {"glm5-next", "glm5-next.attention.indexer.kpool_select_tail", 'n', 0, HEARTH_UNSUPPORTED,
     "kpool_select_tail: is false"},
    {"glm5-next", "glm5-next.attention.indexer.top_k", 'u', 14, HEARTH_FORMAT,
     "top_k: is not a multiple of the positions that share a score"},
    {"glm5-next", "glm5-next.hyper_connection.count", 'u', 1, HEARTH_FORMAT,
     "hyper_connection.count: is not a number from 2"},
    {"glm5-next", "glm5-next.hyper_connection.count", 'u', 9, HEARTH_FORMAT,
     "hyper_connection.count: is not a number from 2"},
    {"glm5-next", "glm5-next.hyper_connection.count", 'u', 3, HEARTH_FORMAT, "hc_attn_fn.weight: is 256 x 24"},
    {"glm5-next", "glm5-next.hyper_connection.sinkhorn_iterations", 'u', 0, HEARTH_FORMAT,
     "iterations: is 0 or too large"},
    {"glm5-next", "glm5-next.hyper_connection.sinkhorn_iterations", 'u', 1u << 31, HEARTH_FORMAT,
     "iterations: is 0 or too large"},
    {"glm5-next", "glm5-next.hyper_connection.epsilon", 'f', 0, HEARTH_FORMAT,
     "epsilon: is not a number between 0 and 1"},
    {"glm5-next", "glm5-next.hyper_connection.epsilon", 'f', NAN, HEARTH_FORMAT,
     "epsilon: is not a number between 0 and 1"},
    {"glm5-next", "glm5-next.kda.gate_lower_bound", 'f', 0, HEARTH_FORMAT,
     "kda.gate_lower_bound: is not a number below 0"},
    {"glm5-next", "glm5-next.swiglu_clamp_exp", 'f', -1, HEARTH_FORMAT, "swiglu_clamp_exp: has no limit of 0 or more"},
    {"minimax-m3", "minimax-m3.attention.indexer.block_size", 'u', 0, HEARTH_UNSUPPORTED,
     "block_size: is not a power of two from 2 to 128"},
    {"minimax-m3", "minimax-m3.attention.indexer.block_size", 'u', 1, HEARTH_UNSUPPORTED,
     "block_size: is not a power of two from 2 to 128"},
    {"minimax-m3", "minimax-m3.attention.indexer.block_size", 'u', 256, HEARTH_UNSUPPORTED,
     "block_size: is not a power of two from 2 to 128"},
    {"minimax-m3", "minimax-m3.attention.indexer.local_blocks", 'u', 0, HEARTH_UNSUPPORTED,
     "local_blocks: is 0, or not"},
    {"minimax-m3", "minimax-m3.attention.indexer.local_blocks", 'u', 4, HEARTH_UNSUPPORTED,
     "local_blocks: is 0, or not"},
    {"minimax-m3", "minimax-m3.attention.indexer.top_k", 'u', 0, HEARTH_UNSUPPORTED,
     "local_blocks: is 0, or not below"},
    {"minimax-m3", "minimax-m3.attention.indexer.top_k", 'u', 1u << 31, HEARTH_UNSUPPORTED, "or that is too large"},
    {"minimax-m3", "minimax-m3.attention.indexer.head_count", 'u', 1, HEARTH_UNSUPPORTED,
     "head_count: differs from attention.head_count_kv"},
    {"minimax-m3", "minimax-m3.attention.indexer.key_length", 'u', 0, HEARTH_FORMAT,
     "key_length: or attention.indexer.head_count is 0"},
    {"minimax-m3", "minimax-m3.attention.indexer.key_length", 'u', 8, HEARTH_FORMAT,
     "indexer.q_proj.weight: is 64 x 48"},
    {"minimax-m3", "minimax-m3.attention.sliding_window", 'u', 16, HEARTH_UNSUPPORTED,
     "sliding_window: is there, and positions are chosen"},
    {"minimax-m3", "minimax-m3.leading_dense_block_count", 'u', 0, HEARTH_FORMAT, "blk.0."},
    {"hy-v4", "hy_v4.hyper_connection.magnitude", 'f', 0, HEARTH_FORMAT, "magnitude: is 0, expected a positive number"},
    {"hy-v4", "hy_v4.hyper_connection.magnitude", 'f', NAN, HEARTH_FORMAT, "magnitude: is nan, expected a positive"},
    {"hy-v4", "hy_v4.hyper_connection.count", 'u', 3, HEARTH_FORMAT,
     "output_hc_fn.weight: is 256 x 4, expected 192 x 3"},
    {"hy-v4", "hy_v4.hyper_connection.epsilon", 'f', 1, HEARTH_FORMAT, "epsilon: is not a number between 0 and 1"},
    {"hy-v4", "hy_v4.attention.value_length_mla", 'u', 8, HEARTH_FORMAT,
     "attn_output.weight: is 64 x 64, expected 32 x 64"},
    {"qwen3-8-next", "qwen4exp.hyper_connection.low_rank", 'u', 0, HEARTH_FORMAT, "low_rank: is 0 or too large"},
    {"qwen3-8-next", "qwen4exp.hyper_connection.low_rank", 'u', 1u << 31, HEARTH_FORMAT, "low_rank: is 0 or too large"},
    {"qwen3-8-next", "qwen4exp.hyper_connection.low_rank", 'u', 13, HEARTH_FORMAT,
     "output_hc_down.weight: is 256 x 12, expected 256 x 13"},
    {"qwen3-8-next", "qwen4exp.hyper_connection.count", 'u', 1, HEARTH_FORMAT, "count: is not a number from 2 to 8"},
    {"qwen3-8-next", "qwen4exp.attention.compress_ratios", 'u', 3, HEARTH_UNSUPPORTED,
     "compress_ratios: is not a power of two from 2"},
    {"qwen3-8-next", "qwen4exp.attention.indexer.top_k", 'u', 14, HEARTH_FORMAT,
     "top_k: is not a multiple of the positions that share a score"},
    {"qwen3-8-next", "qwen4exp.attention.indexer.key_length", 'u', 6, HEARTH_FORMAT,
     "indexer.q_proj.weight: is 64 x 64, expected 64 x 24"},
    {"qwen3-8-next", "qwen4exp.ple.ngram_size", 'u', 1, HEARTH_FORMAT, "ngram_size: is too small or too large"},
    {"qwen3-8-next", "qwen4exp.ple.ngram_size", 'u', 9, HEARTH_FORMAT, "ngram_size: is too small or too large"},
    {"qwen3-8-next", "qwen4exp.ple.ngram_size", 'u', 4, HEARTH_UNSUPPORTED, "does not make rows that are together as"},
    {"qwen3-8-next", "qwen4exp.ple.heads_per_ngram", 'u', 33, HEARTH_UNSUPPORTED, "makes more than 64 rows"},
    {"qwen3-8-next", "qwen4exp.ple.heads_per_ngram", 'u', 0, HEARTH_FORMAT, "heads_per_ngram: is too small"},
    {"qwen3-8-next", "qwen4exp.ple.conv_kernel", 'u', 5, HEARTH_FORMAT, "ple_conv1d.weight: is 4 x 256, expected 5"},
    {"qwen3-8-next", "qwen4exp.ple.conv_kernel", 'u', 1, HEARTH_FORMAT, "conv_kernel: is too small or too large"},
    {"qwen3-8-next", "qwen4exp.ple.eos_token_id", 'u', 1u << 31, HEARTH_FORMAT, "eos_token_id: is too small or too"},
    {"qwen3-8-next", "qwen4exp.ple.eos_token_id", 'u', 272, HEARTH_FORMAT,
     "eos_token_id: is no token of the vocabulary"},
    {"qwen3-8-next", "qwen4exp.ple.layers", 'b', 0, HEARTH_FORMAT, "layers: is not an array of numbers of layers"},
    {"qwen3-8-next", "qwen4exp.ple.layers", 'u', 1, HEARTH_FORMAT, "layers: is not an array of numbers of layers"},
    {"qwen3-8-next", "qwen4exp.ple.layer_multipliers", 'b', 0, HEARTH_FORMAT, "layer_multipliers: "},
    {"deepseek4", "deepseek4.attention.q_lora_rank", 'u', 0, HEARTH_FORMAT, "q_lora_rank: is 0 or too large"},
    {"deepseek4", "deepseek4.attention.q_lora_rank", 'u', 25, HEARTH_FORMAT,
     "attn_q_a.weight: is 64 x 24, expected 64 x 25"},
    {"deepseek4", "deepseek4.attention.output_group_count", 'u', 0, HEARTH_FORMAT,
     "output_group_count: does not divide attention.head_count"},
    {"deepseek4", "deepseek4.attention.output_group_count", 'u', 3, HEARTH_FORMAT,
     "output_group_count: does not divide attention.head_count"},
    {"deepseek4", "deepseek4.attention.output_group_count", 'u', 4, HEARTH_FORMAT,
     "attn_output_a.weight: is 128 x 40, expected 64 x 80"},
    {"deepseek4", "deepseek4.attention.output_lora_rank", 'u', 0, HEARTH_FORMAT, "output_lora_rank: is 0 or too large"},
    {"deepseek4", "deepseek4.attention.output_lora_rank", 'u', 1u << 31, HEARTH_FORMAT,
     "output_lora_rank: is 0 or too large"},
    {"deepseek4", "deepseek4.attention.head_count_kv", 'u', 2, HEARTH_UNSUPPORTED, "head_count_kv: is not 1"},
    {"deepseek4", "deepseek4.attention.sliding_window", 'u', 0, HEARTH_FORMAT, "sliding_window: is missing or 0"},
    {"deepseek4", "deepseek4.attention.compress_ratios", 'u', 4, HEARTH_FORMAT,
     "compress_ratios: is not an array of one number per layer"},
    {"deepseek4", "deepseek4.attention.compress_ratios", 'b', 0, HEARTH_FORMAT,
     "compress_ratios: is not an array of one number per layer"},
    {"deepseek4", "deepseek4.attention.indexer.top_k", 'u', 0, HEARTH_FORMAT, "indexer.top_k: is 0 or too large"},
    {"deepseek4", "deepseek4.attention.indexer.top_k", 'u', 1u << 31, HEARTH_FORMAT,
     "indexer.top_k: is 0 or too large"},
    {"deepseek4", "deepseek4.attention.indexer.head_count", 'u', 0, HEARTH_FORMAT, "indexer.head_count is 0 or too"},
    {"deepseek4", "deepseek4.attention.indexer.key_length", 'u', 1u << 20, HEARTH_FORMAT, "is 0 or too large"},
    {"deepseek4", "deepseek4.attention.indexer.key_length", 'u', 32, HEARTH_FORMAT,
     "indexer_compressor_kv.weight: is 64 x 128, expected 64 x 64"},
    {"deepseek4", "deepseek4.hash_layer_count", 'u', 1, HEARTH_FORMAT, "blk.1.exp_probs_b.bias: is missing"},
    {"deepseek4", "deepseek4.hash_layer_count", 'u', 3, HEARTH_FORMAT, "blk.2.ffn_gate_tid2eid.weight: is missing"},
    {"deepseek4", "deepseek4.expert_used_count", 'u', 2, HEARTH_FORMAT,
     "ffn_gate_tid2eid.weight: is 3 x 272, expected 2 x 272"},
    {"deepseek4", "deepseek4.expert_gating_func", 'u', 9, HEARTH_UNSUPPORTED, "key deepseek4.expert_gating_func"},
    {"deepseek4", "deepseek4.rope.dimension_count", 'u', 66, HEARTH_FORMAT,
     "dimension_count_swa: is not an even number"},
    {"deepseek4", "deepseek4.hyper_connection.count", 'u', 3, HEARTH_FORMAT,
     "output_hc_fn.weight: is 256 x 4, expected 192 x 3"},
    {"rwkv7", "rwkv7.wkv.head_size", 'u', 0, HEARTH_FORMAT, "wkv.head_size: does not divide embedding_length"},
    {"rwkv7", "rwkv7.wkv.head_size", 'u', 48, HEARTH_FORMAT, "wkv.head_size: does not divide embedding_length"},
    {"rwkv7", "rwkv7.attention.gate_lora_rank", 'u', 0, HEARTH_FORMAT, "gate_lora_rank: is 0 or too large"},
    {"rwkv7", "rwkv7.attention.iclr_lora_rank", 'u', 1u << 30, HEARTH_FORMAT, "iclr_lora_rank: is 0 or too large"},
    {"rwkv7", "rwkv7.attention.decay_lora_rank", 'u', 17, HEARTH_FORMAT,
     "time_mix_w1.weight: is 128 x 16, expected 128 x 17"},
    {"rwkv7", "rwkv7.token_shift_count", 'u', 1, HEARTH_UNSUPPORTED, "token_shift_count: is not 2"},
    {"opt", "opt.hidden_activation", 's', 0, HEARTH_UNSUPPORTED, "hidden_activation: limits a gate, which this"},
    {"muse-glimmer", "muse-glimmer." POST_EPSILON_KEY, 'f', -1, HEARTH_FORMAT, "is -1, expected a positive number"},
    {"gemma2", "gemma2.attn_logit_softcapping", 'f', -5, HEARTH_FORMAT, "attn_logit_softcapping: is -5"},
    {"gemma2", "gemma2.final_logit_softcapping", 'f', -1, HEARTH_FORMAT, "final_logit_softcapping: is -1"},
    {"minicpm-s", "minicpm.residual_scale", 'f', 0, HEARTH_FORMAT, "residual_scale: is 0"},
    {"minicpm-s", "minicpm.embedding_scale", 'f', INFINITY, HEARTH_FORMAT, "embedding_scale: is inf"},
    {"minicpm-s", "minicpm.hidden_activation_param", 'f', -1, HEARTH_FORMAT,
     "hidden_activation_param: is not a threshold"},
    {"opt", "opt.context_length", 'u', 65, HEARTH_FORMAT, "position_embd.weight: is 64 x 64, expected 64 x 65"},
    {"opt", "hearth.pack.position_offset", 'u', 64, HEARTH_FORMAT, "opt.context_length: leaves no position"},
    {"opt", "opt.attention.layer_norm_epsilon", 'f', -1, HEARTH_FORMAT, "layer_norm_epsilon: is -1"},
    {"falcon-7b", "falcon.attention.layer_norm_epsilon", 'f', NAN, HEARTH_FORMAT, "layer_norm_epsilon: is"},
    {"falcon-40b", "falcon.attention.head_count_kv", 'u', 4, HEARTH_FORMAT,
     "attn_qkv.weight: is 64 x 128, expected 64 x 192"},
    {"falcon-40b", "falcon.attention.head_count_kv", 'u', 3, HEARTH_FORMAT, "does not divide attention.head_count"},
    {"phi3", "phi3.feed_forward_length", 'u', 105, HEARTH_FORMAT, "ffn_up.weight: is 72 x 208, expected 72 x 210"},
    {"phi3-longrope", "phi3.rope.scaling.attn_factor", 'f', 0, HEARTH_FORMAT, "attn_factor: is 0"},
    {"phi3-longrope", "phi3.rope.scaling.original_context_length", 'u', 0, HEARTH_FORMAT,
     "key phi3.rope.scaling.original_context_length: is 0"},
    {"phi3-longrope", "phi3.rope.dimension_count", 'u', 20, HEARTH_FORMAT, "is 9, expected 10"},
    {"gpt2", "gpt2.attention.head_count", 'u', 5, HEARTH_FORMAT, "head_count: does not divide embedding_length"},
    {"gpt-oss", "gpt-oss.hidden_activation_param", 'f', -7, HEARTH_FORMAT,
     "hidden_activation_param: is not a threshold"},
    {"gpt-oss", "gpt-oss.expert_shared_count", 'u', 1, HEARTH_UNSUPPORTED,
     "key gpt-oss.expert_shared_count: no layer of this architecture has a shared expert"},
    {"mixtral", "llama.expert_shared_feed_forward_length", 'u', 8, HEARTH_UNSUPPORTED,
     "key llama.expert_shared_feed_forward_length: no layer of this architecture has a shared expert"},
    {"smallthinker", "smallthinker.expert_count", 'u', 3, HEARTH_FORMAT, "expected 64 x 3"},
    {"deci", "deci.attention.head_count", 'u', 4, HEARTH_UNSUPPORTED,
     "head_count_kv: is 0 in a layer with heads: one matrix in place of attention"},
    {"deci", "deci.attention.head_count", 'u', 0, HEARTH_FORMAT, "head_count: is 0 in a layer with heads of keys"},
    {"deci", "deci.attention.head_count_kv", 'u', 0, HEARTH_UNSUPPORTED, "head_count_kv: is 0 in a layer with heads"},
    {"deci", "deci.feed_forward_length", 'u', 0, HEARTH_FORMAT, "is of a layer with a network, and this one has none"},
    {"deci", "deci.feed_forward_length", 'u', 256, HEARTH_FORMAT, "blk.2.ffn_"},
    {"nemotron-h", "nemotron_h.ssm.time_step_rank", 'u', 0, HEARTH_FORMAT, "key nemotron_h.ssm.time_step_rank: is 0"},
    {"nemotron-h", "nemotron_h.ssm.time_step_rank", 'u', 7, HEARTH_FORMAT,
     "ssm.inner_size: is not a multiple of ssm.time_step_rank"},
    {"nemotron-h", "nemotron_h.ssm.time_step_rank", 'u', 16, HEARTH_FORMAT,
     "ssm_in.weight: is 72 x 504, expected 72 x 512"},
    {"nemotron-h", "nemotron_h.ssm.group_count", 'u', 3, HEARTH_FORMAT, "ssm.group_count: does not divide"},
    {"nemotron-h", "nemotron_h.ssm.group_count", 'u', 4, HEARTH_FORMAT,
     "ssm_in.weight: is 72 x 504, expected 72 x 616"},
    {"nemotron-h", "nemotron_h.ssm.state_size", 'u', 1u << 20, HEARTH_FORMAT, "ssm.state_size: is 0 or too large"},
    {"nemotron-h", "nemotron_h.ssm.state_size", 'u', 27, HEARTH_FORMAT,
     "ssm_in.weight: is 72 x 504, expected 72 x 500"},
    {"nemotron-h", "nemotron_h.ssm.inner_size", 'u', 1u << 31, HEARTH_FORMAT, "ssm.inner_size: is 0 or too large"},
    {"nemotron-h", "nemotron_h.ssm.conv_kernel", 'u', 17, HEARTH_FORMAT, "ssm.conv_kernel: is 0 or too large"},
    {"nemotron-h", "nemotron_h.ssm.conv_kernel", 'u', 3, HEARTH_FORMAT,
     "ssm_conv1d.weight: is 4 x 304, expected 3 x 304"},
    {"nemotron-h", "nemotron_h.feed_forward_length", 'u', 88, HEARTH_FORMAT,
     "feed_forward_length: gives neurons to a layer that has heads of keys, too"},
    {"nemotron-h", "nemotron_h.feed_forward_length", 'u', 0, HEARTH_FORMAT, "blk.1.ssm_in.weight: is missing"},
    {"nemotron-h", "nemotron_h.attention.head_count_kv", 'u', 0, HEARTH_FORMAT,
     "blk.3.attn_q.weight: is of a layer with attention, and this one has none"},
    {"nemotron-h-latent", "nemotron_h_moe.moe_latent_size", 'u', 0, HEARTH_FORMAT, "expected 72 x 44 x 10"},
    {"nemotron-h-latent", "nemotron_h_moe.moe_latent_size", 'u', 1u << 31, HEARTH_FORMAT,
     "moe_latent_size: is too large"},
    {"qwen3-moe", "qwen3moe.moe_latent_size", 'u', 8, HEARTH_UNSUPPORTED,
     "moe_latent_size: no layer of this architecture"},
    {"nemotron", "nemotron.rope.dimension_count", 'u', 18, HEARTH_FORMAT,
     "rope.dimension_count: is not an even number"},
};

static hearth_status set_key(checkpoint *c, const char *key, char type, double value, hearth_error *error)
{
    const uint8_t flags[] = {1, 0};
    if (type == 'u')
        return checkpoint_set_u32(c, key, (uint32_t)value, error);
    if (type == 'f')
        return checkpoint_set_f32(c, key, (float)value, error);
    if (type == 's' || type == 'r')
        return checkpoint_set_string(c, key, span_of(type == 's' ? "silu_limited" : "relu"), error);
    if (type == 'n')
        return checkpoint_set_bool(c, key, false, error);
    return checkpoint_set_numbers(c, key, VALUE_BOOL, flags, 2, error);
}

/* Opens the file of a golden, to be changed. */
static checkpoint *open_file(const char *model)
{
    char path[600];
    hearth_error error;
    checkpoint *c;
    stack_check(gguf_open(&c, golden_path(path, sizeof path, model, "model.gguf"), &error), &error);
    return c;
}

/* Expects that a file is refused, and closes it. change: which one, for people. */
static void expect_refused(checkpoint *c, hearth_status wanted, const char *text, const char *change)
{
    hearth_error error = {0};
    hearth_model *m;
    hearth_status status = model_check(&m, c, NULL, &error);
    if (status != wanted || !strstr(error.text, text))
        fail_msg("%s: status %d, %s (wanted %d, %s)", change, (int)status, error.text, (int)wanted, text);
    checkpoint_close(c);
}

/* What n-grams read is checked before any of it is: layers, and where rows lie. */
static void bad_ngrams(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint64_t numbers[4];
        size_t count;
        hearth_status status;
        const char *text;
    } arrays[] = {
        {"qwen4exp.ple.layer_multipliers", {1, 3}, 2, HEARTH_FORMAT, "layer_multipliers: has too few numbers"},
        {"qwen4exp.ple.layer_multipliers",
         {1, 3, (uint64_t)1 << 63},
         3,
         HEARTH_FORMAT,
         "has a number that is too large"},
        {"qwen4exp.ple.head_offsets", {0, 53, 112, UINT32_MAX}, 4, HEARTH_FORMAT, "has a number that is too large"},
        {"qwen4exp.ple.head_offsets", {0, 53, 112, 200}, 4, HEARTH_FORMAT, "or there are fewer rows"},
        {"qwen4exp.ple.head_vocab_sizes", {53, 0, 61, 67}, 4, HEARTH_FORMAT, "is 0 of a head, or there are fewer rows"},
        {"qwen4exp.ple.head_vocab_sizes", {53, 241, 61, 67}, 4, HEARTH_FORMAT, "is 0 of a head, or there are fewer"},
        {"qwen4exp.ple.layers", {1, 3}, 2, HEARTH_UNSUPPORTED, "layers: has more than one layer, which share no"},
        {"qwen4exp.ple.layers", {5}, 1, HEARTH_FORMAT, "layers: has a number that is no layer's"},
        {"qwen4exp.ple.layers", {UINT32_MAX}, 1, HEARTH_FORMAT, "layers: has a number that is no layer's"},
        {"qwen4exp.ple.layers", {2}, 1, HEARTH_UNSUPPORTED, "layers: has a layer that is not recurrent"},
        {"qwen4exp.ple.layers", {0}, 1, HEARTH_FORMAT, "blk.0.ple_key.weight: is missing"},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        hearth_error error;
        checkpoint *c = open_file("qwen3-8-next");
        bool layers = strstr(arrays[i].key, "layers") != NULL;
        uint32_t numbers[4];
        for (size_t k = 0; k < 4; k++)
            numbers[k] = (uint32_t)arrays[i].numbers[k];
        stack_check(checkpoint_set_numbers(c, arrays[i].key, layers ? VALUE_I32 : VALUE_U64,
                                           layers ? (const void *)numbers : arrays[i].numbers, arrays[i].count, &error),
                    &error);
        expect_refused(c, arrays[i].status, arrays[i].text, arrays[i].key);
    }
}

/* Summaries of other lengths than those that divide a page, of layers that have no matrices for them, or that have others. */
static void bad_summaries(void **state)
{
    (void)state;
    static const char key[] = "deepseek4.attention.compress_ratios";
    static const struct {
        uint32_t numbers[6];
        size_t count;
        hearth_status status;
        const char *text;
    } lists[] = {
        {{0, 4, 128, 4, 128}, 5, HEARTH_FORMAT, "is not an array of one number per layer"},
        {{0, 4, 128, 4, 3, 4}, 6, HEARTH_UNSUPPORTED, "has a number that is no power of two from 2 to 128, nor 0"},
        {{0, 4, 1, 4, 128, 4}, 6, HEARTH_UNSUPPORTED, "has a number that is no power of two from 2 to 128, nor 0"},
        {{0, 4, 256, 4, 128, 4}, 6, HEARTH_UNSUPPORTED, "has a number that is no power of two from 2 to 128, nor 0"},
        {{UINT32_MAX, 4, 128, 4, 128, 4}, 6, HEARTH_UNSUPPORTED, "has a number that is no power of two"},
        {{4, 4, 128, 4, 128, 4}, 6, HEARTH_FORMAT, "blk.0.attn_compressor_kv.weight: is missing"},
        {{0, 0, 128, 4, 128, 4}, 6, HEARTH_FORMAT, "blk.1.attn_compressor_kv.weight: is of another kind of layer"},
        {{0, 128, 128, 4, 128, 4}, 6, HEARTH_FORMAT, "blk.1.attn_compressor_kv.weight: is 64 x 128, expected 64 x 64"},
        {{0, 4, 64, 4, 128, 4}, 6, HEARTH_FORMAT, "blk.2.attn_compressor_ape.weight: is 64 x 128, expected 64 x 64"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        hearth_error error;
        checkpoint *c = open_file("deepseek4");
        stack_check(checkpoint_set_numbers(c, key, VALUE_I32, lists[i].numbers, lists[i].count, &error), &error);
        expect_refused(c, lists[i].status, lists[i].text, key);
    }
}

/* The experts of a token: each there, and none twice. The table is read when a model is bound. */
static void bad_experts_of_tokens(void **state)
{
    (void)state;
    static const int32_t experts[] = {-1, 8, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i <= sizeof experts / sizeof *experts; i++) {
        hearth_error error = {0};
        checkpoint *c = open_file("deepseek4");
        hearth_model *m;
        stored_tensor *t = NULL;
        for (size_t k = 0; k < c->tensor_count; k++)
            if (strcmp(c->tensors[k].name, "blk.1.ffn_gate_tid2eid.weight") == 0)
                t = &c->tensors[k];
        assert_non_null(t);
        int32_t *table = arena_new_array(&c->memory, t->size_bytes / sizeof(int32_t), sizeof *table);
        assert_non_null(table);
        memcpy(table, t->data, t->size_bytes);
        bool twice = i == sizeof experts / sizeof *experts;
        table[3 * 100 + 1] = twice ? table[3 * 100 + 2] : experts[i];
        t->data = table;
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (status != HEARTH_FORMAT ||
            !strstr(error.text, "blk.1.ffn_gate_tid2eid.weight: has a number that is no expert's"))
            fail_msg("case %zu: status %d, %s", i, (int)status, error.text);
    }
}

static void bad_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hearth_error error;
        checkpoint *c = open_file(rows[i].model);
        char change[200];
        snprintf(change, sizeof change, "%s, %s %g", rows[i].model, rows[i].key, rows[i].value);
        stack_check(set_key(c, rows[i].key, rows[i].type, rows[i].value, &error), &error);
        expect_refused(c, rows[i].status, rows[i].text, change);
    }
}

/* A gemma without windows: nothing is refused, and nothing of the rotation of windows is left. */
static void no_windows(void **state)
{
    (void)state;
    hearth_error error;
    checkpoint *c = open_file("gemma3");
    hearth_model *m;
    stack_check(checkpoint_set_u32(c, "gemma3.attention.sliding_window", 0, &error), &error);
    stack_check(model_check(&m, c, NULL, &error), &error);
    assert_int_equal(m->rotary_count, 1);
    assert_int_equal(model_largest(m).rotated, m->rotaries[0].pairs);
    hearth_model_close(m);
    checkpoint_close(c);
}

/* Tensors of a kind of layer that this one is not. */
static void tensors_of_other_layers(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.ffn_down.bias", "blk.0.ffn_gate.bias", "blk.0.ffn_up.bias"};
    static const float zeros[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hearth_error error;
        checkpoint *c = open_file("mixtral");
        stored_tensor t = {.name = names[i],
                           .format = FORMAT_F32,
                           .rank = 1,
                           .shape = {64, 1, 1, 1},
                           .data = zeros,
                           .size_bytes = 64 * sizeof *zeros};
        stack_check(checkpoint_add_tensor(c, &t, &error), &error);
        expect_refused(c, HEARTH_FORMAT, "is of a layer without experts, and this one has some", names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_keys),      cmocka_unit_test(bad_ngrams),
                                       cmocka_unit_test(bad_summaries), cmocka_unit_test(bad_experts_of_tokens),
                                       cmocka_unit_test(no_windows),    cmocka_unit_test(tensors_of_other_layers)};
    return run_group(tests, NULL, NULL);
}
