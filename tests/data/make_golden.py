#!/usr/bin/env python3
"""Makes golden-NAME of a family by transformers, and holds it against llama.cpp: two implementations, neither of them hearth.

usage: tests/data/make_golden.py LLAMA_CPP FOLDER [NAME...]

LLAMA_CPP is a source tree of llama.cpp with its libraries in build/bin; FOLDER gets a folder for each NAME, of which pack.py makes
the archive. Python needs torch, transformers, safetensors, numpy and, for llama.cpp's converter, gguf.

A case is a config.json. Its weights are drawn from a seed and are exact in BF16; its logits are those of transformers in float64. The
folder is what transformers saves, the GGUF file what llama.cpp's converter makes of it, with the vocabulary of golden-llama; llama.cpp
reads that (one thread, F32 cache), and its distance stands in golden.json.

Most of this long file is a list of cases, and beside each what transformers or the converter lacks for it.
"""
import copy
import ctypes
import glob
import importlib
import json
import math
import os
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import torch

from rwkv7 import Rwkv7
import nvfp4
from words import round_to_words

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT, GREEDY, VOCABULARY = 24, 16, 272
LONG = {"deepseek4": 150, "deepseek4-whole": 130, "deepseek4-fp4": 130}  # prompts of other lengths
SMALLEST_CHOICE = 1e-4  # between scores of positions that are chosen and others, which have a deviation of about 1
SMALLEST_GAP = 0.005  # between the best two logits of every greedy step, so that rounding cannot change which is best

COMMON = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=128,
              hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
              hidden_act="silu", rms_norm_eps=1e-6, tie_word_embeddings=False, dtype="bfloat16")


def case(architecture, model_type, **settings):
    named = {"architectures": [architecture]} if architecture else {}
    return {**COMMON, **named, "model_type": model_type, **settings}


def mistral3(model_type, original=16, **settings):
    rope = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "original_max_position_embeddings": original, "llama_4_scaling_beta": 0.1}
    return {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "tie_word_embeddings": False,
            "text_config": case(None, model_type, max_position_embeddings=256, sliding_window=None, rope_parameters=rope, **settings),
            "vision_config": dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                  num_attention_heads=2, head_dim=8, image_size=8, patch_size=4)}


def granite_hybrid(**settings):
    return case("GraniteMoeHybridForCausalLM", "granitemoehybrid", embedding_multiplier=3.0, attention_multiplier=0.1,
                residual_multiplier=0.4, logits_scaling=2.0, tie_word_embeddings=True, num_hidden_layers=4,
                layer_types=["mamba", "mamba", "attention", "mamba"], position_embedding_type="nope", attention_bias=False,
                mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=20, mamba_d_conv=4, mamba_expand=2,
                mamba_conv_bias=True, mamba_proj_bias=False, mamba_chunk_size=16, **settings)


def puzzle(blocks, **settings):
    """Nemotron 3 Puzzle: the experts of each block have their own width, and a token uses as many as the block says."""
    moe = {"n_routed_experts": 10, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 60,
           "moe_latent_size": 28, "norm_topk_prob": True, "routed_scaling_factor": 5.0}
    return case("NemotronHPuzzleForCausalLM", "nemotron_h_puzzle", num_hidden_layers=len(blocks), hidden_size=72, head_dim=20,
                num_attention_heads=6, mlp_hidden_act="relu2", layer_norm_epsilon=1e-5, rms_norm_eps=1e-5,
                attention_bias=False, mlp_bias=False, use_bias=False, use_conv_bias=True, mamba_num_heads=8, mamba_head_dim=24, n_groups=2, ssm_state_size=28,
                conv_kernel=4, expand=2, chunk_size=16, mamba_hidden_act="silu", mamba_proj_bias=False,
                block_configs=[{"block_type": b} if isinstance(b, str) else
                               {"block_type": "moe", "moe_intermediate_size": b[0], "num_experts_per_tok": b[1]} for b in blocks],
                **moe, **settings)


def deci(blocks):
    """Nemotron Super and Ultra of 2025: pairs of how many heads share a key, and of how wide networks are; None: there is none."""
    usual = {"replace_with_linear": False, "sparsify": None}
    return case("DeciLMForCausalLM", "nemotron-nas", num_hidden_layers=len(blocks), intermediate_size=None, num_key_value_heads=None,
                rope_theta=500000.0, attention_bias=False, mlp_bias=False,
                rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 32},
                block_configs=[{"attention": {"n_heads_in_group": group, "no_op": group is None, "window_length": None, **usual},
                                "ffn": {"ffn_mult": mult, "no_op": mult is None, **usual}} for group, mult in blocks])


def llama4(**settings):
    return {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "tie_word_embeddings": False,
            "text_config": case(None, "llama4_text", num_hidden_layers=4, head_dim=20, intermediate_size=32, intermediate_size_mlp=96,
                                num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layers=[1, 1, 1, 0],
                                rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, **settings),
            "vision_config": dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                                  patch_size=4, vision_output_dim=16, projector_input_dim=16, projector_output_dim=16)}


def bailing(**settings):
    """Ling 2.0, which transformers does not know: what GLM-4.5 computes, under other names (make_bailing)."""
    return case("BailingMoeV2ForCausalLM", "bailing_moe", head_dim=16, use_qk_norm=True, use_bias=False, use_qkv_bias=False,
                num_experts=8, num_experts_per_tok=3, num_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1,
                n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5, score_function="sigmoid",
                moe_router_enable_expert_bias=True, partial_rotary_factor=0.5, rope_theta=600000, **settings)


def lfm2(architecture, model_type, **settings):
    out = case(architecture, model_type, num_hidden_layers=4, norm_eps=1e-5, conv_L_cache=3, conv_bias=False,
               tie_word_embeddings=True, rope_theta=1000000.0, **settings)
    del out["rms_norm_eps"]
    return out


def exaone(**settings):
    """EXAONE 3 under the names of its own config."""
    out = case("ExaoneForCausalLM", "exaone", num_layers=3, layer_norm_epsilon=1e-5, activation_function="silu", rope_theta=500000.0,
               rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 32}, **settings)
    for name in ("num_hidden_layers", "rms_norm_eps", "hidden_act"):
        del out[name]
    return out


def cohere2_moe(dense, layers, **settings):
    return case("Cohere2MoeForCausalLM", "cohere2_moe", num_hidden_layers=len(layers), layer_types=layers, head_dim=20,
                intermediate_size=32, prefix_dense_intermediate_size=96, first_k_dense_replace=dense, num_experts=6,
                num_experts_per_tok=2, expert_selection_fn="sigmoid", norm_topk_prob=True, logit_scale=0.25, sliding_window=16,
                tie_word_embeddings=True, rope_theta=50000.0, **settings)


def plm(**settings):
    """PLM, which transformers does not know: what DeepSeek V3 computes, but for networks without gates (make_plm)."""
    return case("PLMForCausalLM", "plm", num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=32, qk_rope_head_dim=16,
                qk_nope_head_dim=32, v_head_dim=32, tie_word_embeddings=True, rope_theta=100000.0,
                attention_bias=False, mlp_bias=False, hidden_act="relu2", **settings)


def rwkv7(**settings):
    """RWKV-7, which transformers does not know (rwkv7.py); llama.cpp reads heads of 64 alone, as all published ones are."""
    return {"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "vocab_size": VOCABULARY, "hidden_size": 128, "head_dim": 64,
            "intermediate_size": 160, "num_hidden_layers": 3, "hidden_act": "sqrelu", "norm_eps": 1e-5, "norm_first": True,
            "norm_bias": True, "max_position_embeddings": 2048, "tie_word_embeddings": False, "attn": None, "num_heads": None,
            "value_dim": [128] * 3, "decay_low_rank_dim": 16, "gate_low_rank_dim": 24, "a_low_rank_dim": 20, "v_low_rank_dim": 12,
            "dtype": "bfloat16", **settings}


def kimi_linear(layers, **settings):
    """Kimi Linear under the names of its own config; the layers with latent attention are counted from 1."""
    delta = [i + 1 for i in range(layers) if i + 1 not in settings["full"]]
    out = case("KimiLinearForCausalLM", "kimi_linear", num_hidden_layers=layers, num_key_value_heads=4, head_dim=16,
               linear_attn_config={"full_attn_layers": settings.pop("full"), "kda_layers": delta, "head_dim": 32, "num_heads": 4,
                                   "short_conv_kernel_size": 4},
               kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, mla_use_nope=True,
               model_max_length=128, first_k_dense_replace=1, moe_layer_freq=1, num_experts=6, num_experts_per_token=2,
               num_shared_experts=1, moe_intermediate_size=24, num_expert_group=1, topk_group=1, use_grouped_topk=True,
               moe_renormalize=True, moe_router_activation_func="sigmoid", routed_scaling_factor=2.446, rms_norm_eps=1e-5,
               rope_theta=10000.0, rope_scaling=None, **settings)
    del out["max_position_embeddings"]
    return out


def ling3(layers, **settings):
    """Ling 3 under the names of its own config."""
    return case("BailingMoeV3ForCausalLM", "bailing_hybrid", num_hidden_layers=layers, layer_group_size=2, num_key_value_heads=4,
                head_dim=32, short_conv_kernel_size=4, no_kda_lora=True, kda_safe_gate=True, kda_lower_bound=-5.0,
                score_function="sigmoid", gated_attention_proj_granularity_type="head_wise", kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
                v_head_dim=16, first_k_dense_replace=1, num_experts=8, num_experts_per_tok=3, num_shared_experts=1,
                moe_intermediate_size=24, moe_shared_expert_intermediate_size=24, n_group=4, topk_group=2, norm_topk_prob=True,
                routed_scaling_factor=2.5, rms_norm_eps=1e-6, rope_theta=6000000.0, **settings)


def mimo2(**settings):
    """MiMo V2 Flash under the names of its own config, but for what transformers names otherwise."""
    return case("MiMoV2FlashForCausalLM", "mimo_v2_flash", num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1, head_dim=96,
                v_head_dim=64, swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=96, swa_v_head_dim=64,
                hybrid_layer_pattern=[0, 1, 1, 0], layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                sliding_window=16, rope_theta=5000000.0, swa_rope_theta=10000.0, partial_rotary_factor=0.334,
                layernorm_epsilon=1e-5, rms_norm_eps=1e-5, attention_bias=False, attention_value_scale=0.707,
                add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False, moe_layer_freq=[0, 1, 1, 1],
                mlp_layer_types=["dense", "sparse", "sparse", "sparse"], n_routed_experts=8, num_experts_per_tok=3,
                moe_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True, scoring_func="sigmoid", topk_method="noaux_tc",
                routed_scaling_factor=None, **settings)


def step(**settings):
    """Step 3.5 under the names of its own config: transformers has it as the text of Step 3.7."""
    text = case(None, "step3p5", num_hidden_layers=6, head_dim=24, num_attention_groups=2, sliding_window=16,
                layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
                attention_other_setting={"attention_type": "sliding_attention", "num_attention_heads": 6, "num_attention_groups": 2,
                                         "head_dim": 24},
                rope_theta=[500000.0] + [10000.0] * 3 + [500000.0, 10000.0], partial_rotary_factors=[0.5, 1.0, 1.0, 1.0, 0.5, 1.0],
                rope_scaling={"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 32.0,
                              "original_max_position_embeddings": 64},
                yarn_only_types=["full_attention"], use_head_wise_attn_gate=True, moe_layers_enum="2,3,4,5", moe_num_experts=6,
                moe_top_k=2, moe_intermediate_size=32, share_expert_dim=64, moe_router_scaling_factor=3.0,
                moe_router_activation="sigmoid", use_moe_router_bias=True, norm_expert_weight=True, need_fp32_gate=True,
                swiglu_limits=[0.0, 0.0, 0.0, 0.5, 0.5, 0.5], swiglu_limits_shared=[0.0, 0.25, 0.5, 0.0, 0.75, 0.5], zero_centered=True,
                rms_norm_eps=1e-5, **settings)
    del text["num_key_value_heads"]
    return {"architectures": ["Step3p7ForConditionalGeneration"], "model_type": "step3p7", "tie_word_embeddings": False,
            "text_config": text,
            "vision_config": dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4, mlp_ratio=2.0)}


def eight_bits(base, block=None):
    """The same model, its matrices stored as floats of 8 bits with a scale for each block, or for each matrix."""
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic" if block else "static", "weight_block_size": block}
    return {**base, "quantization_config": settings}


# llama.cpp takes the sizes of chunks for granted
NO_GGUF = ["llama4-chunks", "deepseek4-fp4", "nanochat", "hyperclovax", "lfm3", "cwm", "llama-awq", "apertus-1-5", "cosmos3-edge", "kolibri1",
           "flint", "persimmon"]
# of which it is written which neurons fire
WITH_ACTIVE = ["cosmos3-edge", "persimmon"]

CASES = {
    "llama4": llama4(),
    "llama4-chunks": llama4(attention_chunk_size=16, floor_scale=8, attn_scale=0.5, use_qk_norm=False),
    "deci": deci([(2, 5.25), (None, 2.0), (4, 8.0), (None, None), (1, 2.0), (None, 9.5)]),
    "nemotron-h-puzzle": puzzle(["mamba", (44, 3), "mamba", "attention", (24, 2), (36, 4)]),
    "gemma": case("GemmaForCausalLM", "gemma", head_dim=20, num_key_value_heads=1, tie_word_embeddings=True,
                  hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh"),
    "glm4": case("Glm4ForCausalLM", "glm4", head_dim=20, partial_rotary_factor=0.5, attention_bias=True, rms_norm_eps=1e-5),
    "qwen2-moe": case("Qwen2MoeForCausalLM", "qwen2_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                      shared_expert_intermediate_size=48, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[],
                      num_key_value_heads=4),
    "olmoe": case("OlmoeForCausalLM", "olmoe", num_experts=6, num_experts_per_tok=2, intermediate_size=32,
                  rms_norm_eps=1e-5, norm_topk_prob=False, clip_qkv=None, num_key_value_heads=4),
    "granite": case("GraniteForCausalLM", "granite", embedding_multiplier=3.0, attention_multiplier=0.1,
                    residual_multiplier=0.4, logits_scaling=2.0, tie_word_embeddings=True),
    "granite-moe": case("GraniteMoeForCausalLM", "granitemoe", embedding_multiplier=3.0, attention_multiplier=0.1,
                        residual_multiplier=0.4, logits_scaling=2.0, tie_word_embeddings=True, intermediate_size=32,
                        num_local_experts=6, num_experts_per_tok=2),
    "granite-hybrid": granite_hybrid(intermediate_size=96, shared_intermediate_size=96, num_local_experts=0, num_experts_per_tok=0),
    "granite-hybrid-moe": granite_hybrid(intermediate_size=32, shared_intermediate_size=48, num_local_experts=6,
                                         num_experts_per_tok=2),
    "seed-oss": case("SeedOssForCausalLM", "seed_oss", head_dim=20, attention_bias=True, attention_out_bias=False),
    "minimax-m2": case("MiniMaxM2ForCausalLM", "minimax_m2", head_dim=20, intermediate_size=32, num_local_experts=6,
                       num_experts_per_tok=2, partial_rotary_factor=0.6, rotary_dim=12, scoring_func="sigmoid",
                       use_routing_bias=True, use_qk_norm=True, qk_norm_type="per_layer", rope_theta=5000000.0),
    "exaone4": case("Exaone4ForCausalLM", "exaone4", num_hidden_layers=4, sliding_window=16, sliding_window_pattern=4,
                    layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    "ernie4-5": case("Ernie4_5ForCausalLM", "ernie4_5", head_dim=20, use_bias=False),
    "ernie4-5-moe": case("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", head_dim=16, use_bias=False, moe_num_experts=6, moe_k=2,
                         moe_intermediate_size=24, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2,
                         moe_layer_interval=1),
    "cohere2": case("Cohere2ForCausalLM", "cohere2", num_hidden_layers=4, sliding_window=16, logit_scale=0.25,
                    layer_norm_eps=1e-5, tie_word_embeddings=True, rotary_pct=1.0,
                    layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    "cohere": case("CohereForCausalLM", "cohere", logit_scale=0.25, layer_norm_eps=1e-5, use_qk_norm=False,
                   tie_word_embeddings=True),
    "starcoder2": case("Starcoder2ForCausalLM", "starcoder2", norm_epsilon=1e-5, use_bias=True, hidden_act="gelu_pytorch_tanh",
                       sliding_window=None),
    "dots1": case("Dots1ForCausalLM", "dots1", head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                  moe_intermediate_size=32, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                  routed_scaling_factor=2.5, scoring_func="sigmoid", num_key_value_heads=4),
    # text and pictures, of which the text's part alone is read
    "qwen2-5-vl": {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "tie_word_embeddings": False,
                   "text_config": case(None, "qwen2_5_vl_text", rope_parameters={
                       "rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [2, 3, 3]}),
                   "vision_config": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64,
                                         patch_size=2, spatial_merge_size=1, temporal_patch_size=1, fullatt_block_indexes=[0])},
    "ministral3": mistral3("ministral3", head_dim=20),
    # llama.cpp's converter leaves the growth of scores out: a context in which there is none
    "mistral4": mistral3("mistral4", original=64, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8,
                         qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                         moe_intermediate_size=24, first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=True,
                         routed_scaling_factor=1.0, rope_interleave=True),
    "qwen3-vl": {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": True,
                 "text_config": case(None, "qwen3_vl_text", head_dim=20, tie_word_embeddings=True,
                                     rope_parameters={"rope_type": "default", "rope_theta": 5000000.0,
                                                      "mrope_section": [4, 3, 3], "mrope_interleaved": True}),
                 "vision_config": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64,
                                       patch_size=2, spatial_merge_size=1, temporal_patch_size=1, num_position_embeddings=4,
                                       deepstack_visual_indexes=[0])},
    "qwen3-vl-moe": {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe",
                     "tie_word_embeddings": False,
                     "text_config": case(None, "qwen3_vl_moe_text", head_dim=20, num_experts=6, num_experts_per_tok=2,
                                         moe_intermediate_size=32, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                                         rope_parameters={"rope_type": "default", "rope_theta": 5000000.0,
                                                          "mrope_section": [4, 3, 3], "mrope_interleaved": True}),
                     "vision_config": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64,
                                           patch_size=2, spatial_merge_size=1, temporal_patch_size=1, num_position_embeddings=4,
                                           deepstack_visual_indexes=[0])},
    "qwen3-next": case("Qwen3NextForCausalLM", "qwen3_next", num_hidden_layers=4, head_dim=32, hidden_size=72,
                       num_attention_heads=6, partial_rotary_factor=0.25, linear_conv_kernel_dim=4, linear_key_head_dim=20,
                       linear_value_head_dim=20, linear_num_key_heads=3, linear_num_value_heads=6, num_experts=7,
                       num_experts_per_tok=3, moe_intermediate_size=24, shared_expert_intermediate_size=40,
                       norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], full_attention_interval=4,
                       layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"]),
    # 27 layers, by which llama.cpp knows that queries are made by one matrix
    "deepseek2-lite": case("DeepseekV2ForCausalLM", "deepseek_v2", hidden_size=32, intermediate_size=48, num_hidden_layers=27,
                           num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=24, qk_rope_head_dim=8,
                           qk_nope_head_dim=12, v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
                           moe_intermediate_size=12, first_k_dense_replace=1, topk_method="greedy", n_group=1, topk_group=1,
                           norm_topk_prob=False, routed_scaling_factor=1.0, scoring_func="softmax", moe_layer_freq=1,
                           rope_scaling={"type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                                         "mscale_all_dim": 0.707, "original_max_position_embeddings": 32}),
    "deepseek3": case("DeepseekV3ForCausalLM", "deepseek_v3", num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32,
                      qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=8, num_experts_per_tok=3,
                      n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1, n_group=4, topk_group=2,
                      norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="sigmoid",
                      topk_method="noaux_tc", rope_interleave=True, max_position_embeddings=256,
                      rope_scaling={"type": "yarn", "factor": 8.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                                    "mscale_all_dim": 1.0, "original_max_position_embeddings": 32}),
    # with yarn in the layers that see all positions alone
    "olmo3": case("Olmo3ForCausalLM", "olmo3", num_hidden_layers=4, sliding_window=16, rms_norm_eps=1e-6,
                  layer_types=["sliding_attention"] * 3 + ["full_attention"],
                  rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                   "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "beta_fast": 32.0,
                                                      "beta_slow": 1.0, "attention_factor": 1.2079441541679836,
                                                      "original_max_position_embeddings": 16}}),
    "solar-open": case("SolarOpenForCausalLM", "solar_open", head_dim=20, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                       moe_intermediate_size=32, first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=True,
                       routed_scaling_factor=1.5, partial_rotary_factor=1.0),
    "exaone-moe": case("ExaoneMoeForCausalLM", "exaone_moe", head_dim=20, num_hidden_layers=4, sliding_window=16,
                       sliding_window_pattern="LLLG", layer_types=["sliding_attention"] * 3 + ["full_attention"],
                       mlp_layer_types=["dense"] + ["sparse"] * 3, first_k_dense_replace=1, num_experts=6, num_experts_per_tok=2,
                       num_shared_experts=1, moe_intermediate_size=32, n_group=1, topk_group=1, norm_topk_prob=True,
                       routed_scaling_factor=2.5, scoring_func="sigmoid"),
    "afmoe": case("AfmoeForCausalLM", "afmoe", head_dim=20, num_hidden_layers=4, sliding_window=16, global_attn_every_n_layers=4,
                  layer_types=["sliding_attention"] * 3 + ["full_attention"], num_dense_layers=1, num_experts=6, num_experts_per_tok=2,
                  num_shared_experts=1, moe_intermediate_size=32, route_norm=True, route_scale=2.5, score_func="sigmoid",
                  mup_enabled=True),
    "hunyuan": case("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", head_dim=20, use_qk_norm=True, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0}),
    "hunyuan-moe": case("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", head_dim=16, intermediate_size=32, num_experts=6, moe_topk=[2] * 3,
                        num_shared_expert=[1] * 3, moe_intermediate_size=[32] * 3, use_qk_norm=True, rope_parameters={
                            "rope_type": "default", "rope_theta": 10000.0}),
    "hy-v3": case("HYV3ForCausalLM", "hy_v3", head_dim=20, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
                  moe_intermediate_size=32, router_scaling_factor=2.5, mlp_layer_types=["dense", "sparse", "sparse"],
                  first_k_dense_replace=1, route_norm=True, moe_router_enable_expert_bias=True, qk_norm=True, rope_parameters={
                      "rope_type": "default", "rope_theta": 11158840.0}),
    "bailing-moe2": bailing(),
    "muse-glimmer": {"architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "muse_glimmer", "tie_word_embeddings": False,
                     "text_config": case(None, "muse_glimmer_text", head_dim=20, num_hidden_layers=4, sliding_window=16, hidden_size=80,
                                         rms_norm_eps=1e-5, hidden_activation="silu", qk_scale_factor=3.87, output_multiplier=0.4,
                                         post_norm_eps=1e-8, final_logit_softcapping=20.0,
                                         layer_types=["sliding_attention"] * 3 + ["full_attention"],
                                         layer_rope_theta=[10000.0] * 3 + [0],
                                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
                     "out_hidden_size": 16, "projector_hidden_size": 16,
                     "vision_config": dict(patch_size=2, pos_emb_height=4, pos_emb_width=4, num_attention_heads=2, num_hidden_layers=1,
                                           hidden_size=16, intermediate_size=16)},
    "step3p5": step(),
    "plm": plm(),
    "rwkv7": rwkv7(),
    "kimi-linear": kimi_linear(4, full=[2, 4]),
    "ling3": ling3(4, q_lora_rank=None),
    "ling3-rank": ling3(2, q_lora_rank=24),
    "mimo2": mimo2(),
    "exaone": exaone(),
    "cohere2-moe": cohere2_moe(1, ["full_attention"] + ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
                               num_shared_experts=1, rms_norm_eps=1e-5, shared_expert_combination_strategy="average"),
    "cohere2-moe-layer": cohere2_moe(2, ["full_attention"] * 2 + ["sliding_attention"] * 2 + ["full_attention"], rms_norm_eps=None,
                                     layer_norm_eps=1e-5),
    "mellum": case("MellumForCausalLM", "mellum", head_dim=20, num_hidden_layers=4, sliding_window=16, num_experts=6,
                   num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                   layer_types=["sliding_attention"] * 3 + ["full_attention"], mlp_layer_types=["sparse"] * 4, rope_parameters={
                       "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                          "original_max_position_embeddings": 16},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}),
    "lfm2": lfm2("Lfm2ForCausalLM", "lfm2", block_ff_dim=96, block_multiple_of=8, block_ffn_dim_multiplier=1.5,
                 block_auto_adjust_ff_dim=True, layer_types=["conv", "conv", "full_attention", "conv"]),
    "lfm2-moe": lfm2("Lfm2MoeForCausalLM", "lfm2_moe", layer_types=["conv", "full_attention", "conv", "conv"], num_dense_layers=1,
                     num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, use_expert_bias=True, norm_topk_prob=True,
                     routed_scaling_factor=1.0),
    "laguna": case("LagunaForCausalLM", "laguna", head_dim=20, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                   num_attention_heads_per_layer=[4, 6, 6, 6], gating=True, sliding_window=16,
                   layer_types=["full_attention"] + ["sliding_attention"] * 3, mlp_layer_types=["dense"] + ["sparse"] * 3,
                   num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48,
                   moe_routed_scaling_factor=2.5, rope_parameters={
                       "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                          "attention_factor": 1.2079441541679836, "original_max_position_embeddings": 16,
                                          "partial_rotary_factor": 0.6},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
    "glm4-moe-lite": case("Glm4MoeLiteForCausalLM", "glm4_moe_lite", num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32,
                          qk_rope_head_dim=32, qk_nope_head_dim=16, v_head_dim=24, n_routed_experts=8, num_experts_per_tok=3,
                          n_shared_experts=1, moe_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True,
                          mlp_layer_types=["dense", "sparse", "sparse"], first_k_dense_replace=1, routed_scaling_factor=1.8,
                          scoring_func="sigmoid", topk_method="noaux_tc"),
}

# every row but the first twelve sees a part of the positions before it
INDEXED = dict(max_position_embeddings=512, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
               n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1,
               norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="sigmoid", topk_method="noaux_tc", attention_bias=False,
               index_n_heads=6, index_head_dim=64, index_topk=12)
CASES["deepseek32"] = case("DeepseekV32ForCausalLM", "deepseek_v32", n_group=4, topk_group=2, rope_scaling={
    "type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 32}, **INDEXED)
CASES["glm-dsa"] = case("GlmMoeDsaForCausalLM", "glm_moe_dsa", num_hidden_layers=5, n_group=1, topk_group=1, rms_norm_eps=1e-5,
                        indexer_types=["full", "shared", "full", "shared", "shared"],
                        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, **INDEXED)
# Hy4; a sink as large as scores are
CASES["hy-v4"] = case("HYV4ForCausalLM", "hy_v4", num_hidden_layers=5, n_group=1, topk_group=1, rms_norm_eps=1e-5, hc_mult=4, hc_magnitude=1.5, hc_eps=1e-6,
                      indexer_types=["full", "full", "shared", "shared", "full"], mlp_layer_types=["dense"] + ["sparse"] * 4, swiglu_limit=1.5,
                      rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, **INDEXED)


def glm5_next(**settings):
    """GLM-5.3-Flash under the names of its own config; every row but the first fifteen sees a part of the positions before it."""
    text = case(None, "glm5_next_text", num_hidden_layers=5, rms_norm_eps=1e-5, mla_use_nope=True,
                layer_types=["linear_attention", "full_attention", "full_attention", "linear_attention", "full_attention"],
                mhc=True, hc_eps=1e-6, hc_sinkhorn_iters=20, index_kpool_always_select_tail=True,
                mlp_layer_types=["dense"] + ["sparse"] * 4, swiglu_limit=1.5, n_group=1, topk_group=1,
                indexer_types=["full", "full", "shared", "full", "full"],
                **{**INDEXED, "qk_rope_head_dim": 0, "qk_nope_head_dim": 24, "hc_mult": 4, "index_kpool": 4, "linear_attn_config": {
                    "head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0}, **settings})
    return {"architectures": ["Glm5NextForConditionalGeneration"], "model_type": "glm5_next", "tie_word_embeddings": False,
            "text_config": text,
            "vision_config": dict(model_type="glm5_next_vision", depth=1, hidden_size=16, intermediate_size=16, num_heads=2,
                                  out_hidden_size=64, projection_intermediate_size=16, image_size=28, patch_size=14)}


CASES["glm5-next"] = glm5_next()
# wider within its blocks than all streams together, and every position is seen
CASES["glm5-next-wide"] = glm5_next(v_head_dim=80, index_topk=128, index_kpool=16, linear_attn_config={
    "head_dim": 96, "num_heads": 4, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0})


def qwen4_exp(**settings):
    """Qwen3.8-Flash-Next; every row but the first fifteen sees a part of the positions before it. The prompt has
    the id by which n-grams end twice."""
    text = case(None, "qwen4_exp_text", num_hidden_layers=5, max_position_embeddings=512, head_dim=32, eos_token_id=163, attention_bias=False, attn_output_gate=True,
                layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention"],
                linear_conv_kernel_dim=4, linear_key_head_dim=20, linear_value_head_dim=20, linear_num_key_heads=2, linear_num_value_heads=4,
                num_experts=7, num_experts_per_tok=3, moe_intermediate_size=24, shared_expert_intermediate_size=40, output_gate_type="sigmoid",
                rope_parameters={"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
                                 "mrope_section": [2, 1, 1]},
                **{**dict(hc_count=4, hc_lowrank=12, ple_layer_ids=[2], ple_embed_dim=64, ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=2,
                          ngram_vocab_size_base=50, make_ngram_vocab_size_divisible_by=16, seed=1234, split_ngram_parts=4,
                          indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=12, indexer_compress_ratio=4), **settings})
    return {"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp", "tie_word_embeddings": False,
            "text_config": text,
            "vision_config": dict(model_type="qwen4_exp_vision", depth=1, hidden_size=16, intermediate_size=16, num_heads=2,
                                  out_hidden_size=64, patch_size=14, num_position_embeddings=4)}


CASES["qwen3-8-next"] = qwen4_exp()
# every position is seen, as in llama.cpp; its choices take up to three positions more than transformers'
CASES["qwen3-8-next-pairs"] = qwen4_exp(indexer_budget=128, indexer_compress_ratio=16, hc_count=2, hc_lowrank=20, ple_layer_ids=[1],
                                        ple_conv_kernel_size=3, ngram_size=2, heads_per_ngram=4, split_ngram_parts=1)


def deepseek4(**settings):
    """DeepSeek V4 under the names of its own config. Summaries of 128 positions need a long prompt (LONG)."""
    out = case("DeepseekV4ForCausalLM", "deepseek_v4", **{**dict(
        num_hidden_layers=6, max_position_embeddings=512, num_key_value_heads=1, head_dim=64, qk_rope_head_dim=8, q_lora_rank=24,
        o_groups=2, o_lora_rank=20, sliding_window=16, compress_ratios=[0, 4, 128, 4, 128, 4], compress_rope_theta=160000,
        index_n_heads=16, index_head_dim=64, index_topk=6, hc_mult=4, hc_sinkhorn_iters=20, hc_eps=1e-6, n_routed_experts=8,
        n_shared_experts=1, num_experts_per_tok=3, moe_intermediate_size=24, scoring_func="sqrtsoftplus", norm_topk_prob=True,
        routed_scaling_factor=1.5, num_hash_layers=2, swiglu_limit=1.5, attention_bias=False, rope_theta=10000,
        rope_scaling={"type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64}),
        **settings})
    del out["intermediate_size"]
    return out


CASES["deepseek4"] = deepseek4()
# every summary is seen
CASES["deepseek4-whole"] = deepseek4(num_hidden_layers=4, compress_ratios=[4, 128, 0, 4], num_hash_layers=0, index_topk=64, head_dim=128,
                                     qk_rope_head_dim=16, o_groups=4, o_lora_rank=12, sliding_window=32, index_head_dim=128,
                                     rope_scaling=None, hc_sinkhorn_iters=5, hc_eps=1e-5, swiglu_limit=10.0, max_position_embeddings=256)
# as it was published: floats of 8 bits, experts of 4
CASES["deepseek4-fp4"] = deepseek4(num_hidden_layers=3, compress_ratios=[4, 128, 4, 0], moe_intermediate_size=32, num_hash_layers=1,
                                   expert_dtype="fp4", quantization_config={"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0",
                                                                            "weight_block_size": [8, 32], "activation_scheme": "dynamic"})
def minimax_m3(**blocks):
    """MiniMax M3 under the names of its own config; each head of keys has blocks of positions of its own."""
    text = case(None, "minimax_m3_vl_text", num_hidden_layers=4, max_position_embeddings=512, head_dim=20, intermediate_size=32, dense_intermediate_size=96, shared_intermediate_size=32,
                num_local_experts=6, num_experts_per_tok=2, n_shared_experts=1, hidden_act="swigluoai", swiglu_alpha=1.702, swiglu_limit=7.0,
                moe_layer_freq=[0, 1, 1, 1], rotary_dim=12, partial_rotary_factor=0.6, rope_theta=5000000.0, scoring_func="sigmoid",
                use_routing_bias=True, use_qk_norm=True, qk_norm_type="per_head", use_gemma_norm=True, routed_scaling_factor=2.0,
                sparse_attention_config={"use_sparse_attention": True, "sparse_index_dim": 24, "sparse_num_index_heads": 2, "sparse_init_block": 0,
                                         "sparse_score_type": "max", "sparse_attention_freq": [0, 1, 1, 1], **blocks})
    return {"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl", "tie_word_embeddings": False,
            "text_config": text,
            "vision_config": dict(model_type="minimax_m3_vl_vision", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                  num_attention_heads=2, image_size=28, patch_size=14)}


CASES["minimax-m3"] = minimax_m3(sparse_block_size=4, sparse_topk_blocks=4, sparse_local_block=1)
# a layer that sees everything rotates, the next one with a window does not
SWASH = dict(head_dim=16, num_hidden_layers=5, sliding_window=16, embedding_multiplier=3.0, attention_multiplier=0.1, residual_multiplier=0.4,
             logits_scaling=2.0, tie_word_embeddings=True, attention_bias=False, mlp_bias=False, rope_theta=50000.0,
             layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"], no_rope_layers=[1, 0, 1, 1, 0],
             layer_rope_theta=[50000.0, 0, 50000.0, 50000.0, 0])
CASES["granite-swa"] = case("GraniteSWAForCausalLM", "granite_swa", **SWASH)
CASES["granite-swa-moe"] = case("GraniteMoeSWAForCausalLM", "granitemoe_swa", num_local_experts=6, num_experts_per_tok=2,
                                shared_intermediate_size=0, **{**SWASH, "intermediate_size": 32})
CASES["internlm3"] = case("InternLM3ForCausalLM", "internlm3", head_dim=20, bias=False, qkv_bias=False, rope_theta=50000.0,
                          rope_scaling={"rope_type": "dynamic", "factor": 6.0})
CASES["nanochat"] = case("NanoChatForCausalLM", "nanochat", hidden_act="relu2", final_logit_softcapping=15.0, attention_bias=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
# what Ling 2.0 computes but for the rotation, which is whole; its config has Ling's names
CASES["sarvam-moe"] = case("SarvamMoEForCausalLM", "sarvam_moe", head_dim=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
                           moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                           routed_scaling_factor=2.5, score_function="sigmoid", moe_router_enable_expert_bias=True, use_qk_norm=True,
                           use_qkv_bias=False, use_bias=False, rope_theta=8000000)
CASES["hyperclovax"] = case("HyperCLOVAXForCausalLM", "hyperclovax", head_dim=16, embedding_multiplier=3.0, attention_multiplier=0.1,
                            residual_multiplier=0.4, logits_scaling=0.25, use_post_norm=True, attention_bias=False, mlp_bias=False,
                            rope_theta=50000.0)
CASES["lfm3"] = lfm2("Lfm3ForCausalLM", "lfm3", head_dim=20, sliding_window=16, use_sandwich_norm=True, use_attention_gate=True,
                     attention_bias=False, layer_types=["conv", "sliding_attention", "full_attention", "conv"],
                     rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                      "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                                                         "partial_rotary_factor": 0.5}})
# llama.cpp reads it as a llama without windows
CASES["cwm"] = case("CwmForCausalLM", "cwm", num_hidden_layers=5, head_dim=20, sliding_window=16, rms_norm_eps=1e-5,
                    layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
                    rope_parameters={"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "low_freq_factor": 1.0,
                                     "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
CASES["apertus"] = case("ApertusForCausalLM", "apertus", hidden_act="xielu", rms_norm_eps=1e-5, attention_bias=False,
                        rope_parameters={"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 16.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
# embeddings of pictures and sound lie behind those of text, and the head has no rows for them
CASES["apertus-1-5"] = {**CASES["apertus"], "architectures": ["Apertus1p5TextForCausalLM"], "model_type": "apertus1p5_text",
                        "vocab_size": 300, "output_vocab_size": VOCABULARY}
CASES["cosmos3-edge"] = {"architectures": ["Cosmos3EdgeForConditionalGeneration"], "model_type": "cosmos3_edge", "tie_word_embeddings": False,
                         "text_config": case(None, "cosmos3_edge_text", head_dim=16, hidden_act="relu2", attention_bias=False, mlp_bias=False,
                                             rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100000000.0,
                                                                                 "mrope_section": [4, 2, 2]}),
                         "vision_config": dict(model_type="cosmos3_edge_vision", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                               num_attention_heads=2, patch_size=4, num_patches=4, spatial_merge_size=2),
                         "projector_hidden_size": 16}
CASES["persimmon"] = case("PersimmonForCausalLM", "persimmon", num_key_value_heads=4, hidden_act="relu2", layer_norm_eps=1e-5, qk_layernorm=True,
                          rope_parameters={"rope_type": "default", "rope_theta": 25000.0, "partial_rotary_factor": 0.5})
CASES["gpt-neox"] = case("GPTNeoXForCausalLM", "gpt_neox", num_key_value_heads=4, hidden_act="gelu", layer_norm_eps=1e-5, rotary_pct=0.25,
                         rotary_emb_base=10000, use_parallel_residual=True)
CASES["gpt-neox-sequential"] = {**CASES["gpt-neox"], "use_parallel_residual": False}
CASES["stablelm"] = case("StableLmForCausalLM", "stablelm", layer_norm_eps=1e-5, use_qkv_bias=True, partial_rotary_factor=0.25,
                         use_parallel_residual=False, qk_layernorm=False)
CASES["glm"] = case("GlmForCausalLM", "glm", head_dim=16, partial_rotary_factor=0.5, attention_bias=True, rms_norm_eps=1e-5)
CASES["youtu"] = case("YoutuForCausalLM", "youtu", num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8,
                      qk_nope_head_dim=16, v_head_dim=20, tie_word_embeddings=True, rope_interleave=True)
# experts are chosen by the router's products, and weighed by the logistic function of these
CASES["kolibri1"] = case("Kolibri1ForCausalLM", "kolibri1", head_dim=16, num_hidden_layers=5, sliding_window=16, num_experts=6, num_experts_per_tok=2,
                         moe_intermediate_size=32, shared_expert_intermediate_size=48, norm_topk_prob=True)
del CASES["kolibri1"]["intermediate_size"]
CASES["flint"] = case("FlintForCausalLM", "flint", head_dim=16, num_hidden_layers=5, sliding_window=16, num_experts=6, num_experts_per_tok=2,
                      moe_intermediate_size=32, shared_expert_intermediate_size=48, mlp_only_layers=[0, 1], decoder_sparse_step=1,
                      layer_types=["full_attention"] * 2 + ["sliding_attention"] * 2 + ["full_attention"])
CASES["deepseek"] = case("DeepseekForCausalLM", "deepseek", num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                         moe_intermediate_size=32, first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
                         attention_bias=False)
CASES["internlm2"] = case("InternLM2ForCausalLM", "internlm2", bias=False, rope_theta=1000000, rms_norm_eps=1e-5, num_attention_heads=8)
CASES["phi"] = case("PhiForCausalLM", "phi", num_key_value_heads=4, intermediate_size=256, hidden_act="gelu_new", layer_norm_eps=1e-5,
                    partial_rotary_factor=0.5, qk_layernorm=False)
GLM_VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64, image_size=16, patch_size=4, spatial_merge_size=2,
                  temporal_patch_size=1)
# with pictures llama.cpp's converter turns neighbouring pairs into halves
CASES["glm4v"] = {"architectures": ["Glm4vForConditionalGeneration"], "model_type": "glm4v", "tie_word_embeddings": False,
                  "text_config": case(None, "glm4v_text", attention_bias=True, rms_norm_eps=1e-5, rope_parameters={
                      "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}),
                  "vision_config": GLM_VISION}
CASES["glm4v-moe"] = {"architectures": ["Glm4vMoeForConditionalGeneration"], "model_type": "glm4v_moe", "tie_word_embeddings": False,
                      "text_config": case(None, "glm4v_moe_text", head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                                          moe_intermediate_size=32, first_k_dense_replace=1, n_group=1, topk_group=1, norm_topk_prob=True,
                                          routed_scaling_factor=1.0, attention_bias=True, rope_parameters={
                                              "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                                              "mrope_section": [1, 1, 2]}),
                      "vision_config": GLM_VISION}
CASES["gemma4-unified"] = {
    "architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "tie_word_embeddings": True,
    "text_config": {**case(None, "gemma4_unified_text", head_dim=16, num_hidden_layers=4, hidden_activation="gelu_pytorch_tanh", sliding_window=16,
                           layer_types=["sliding_attention"] * 3 + ["full_attention"], per_layer_config={"3": {"head_dim": 32}},
                           final_logit_softcapping=30.0, attention_k_eq_v=False, num_kv_shared_layers=0, use_double_wide_mlp=False,
                           attention_bias=False, tie_word_embeddings=True, moe_intermediate_size=None, expert_intermediate_size=None,
                           rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                                               "rope_theta": 1000000.0}})},
    "vision_config": dict(model_type="gemma4_unified_vision", patch_size=2, pooling_kernel_size=1, mm_embed_dim=16, mm_posemb_size=2,
                          output_proj_dims=16)}
del CASES["gemma4-unified"]["text_config"]["tie_word_embeddings"], CASES["gemma4-unified"]["text_config"]["hidden_act"]
CASES["deepseek3-fp8"] = eight_bits(CASES["deepseek3"], [8, 32])
CASES["llama-fp8"] = eight_bits(case("LlamaForCausalLM", "llama", rms_norm_eps=1e-5))
def in_words(base, **settings):
    return {**base, "quantization_config": settings}


def compressed(bits, size, symmetric):
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": size}
    return dict(quant_method="compressed-tensors", format="pack-quantized",
                config_groups={"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}, ignore=["lm_head"])


LLAMA = case("LlamaForCausalLM", "llama", rms_norm_eps=1e-5)
CASES["llama-gptq"] = in_words(LLAMA, quant_method="gptq", bits=4, group_size=32, sym=True, desc_act=False)
CASES["llama-gptq-order"] = in_words(LLAMA, quant_method="gptq", bits=8, group_size=16, sym=False, desc_act=True, checkpoint_format="gptq_v2")
CASES["llama-awq"] = in_words(LLAMA, quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
CASES["gpt-neox-gptq"] = in_words(CASES["gpt-neox"], quant_method="gptq", bits=4, group_size=32, sym=True, desc_act=False)
CASES["llama-packed"] = in_words(LLAMA, **compressed(4, 32, False))
CASES["qwen3-moe-packed"] = in_words(case("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                          norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]), **compressed(4, 32, True))
# attention is of floats of 8 bits, the networks are of NVFP4
CASES["llama-nvfp4"] = in_words({**LLAMA, "intermediate_size": 128}, quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers={
    f"model.layers.{i}.{block}.{part}_proj": kind for i in range(LLAMA["num_hidden_layers"])
    for block, parts, kind in (("self_attn", "qkvo", {"quant_algo": "FP8"}),
                               ("mlp", ("gate", "up", "down"), {"quant_algo": "NVFP4", "group_size": 16})) for part in parts})
CASES["qwen3-moe-nvfp4"] = in_words(
    case("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
         decoder_sparse_step=1, mlp_only_layers=[]), quant_method="compressed-tensors", format="nvfp4-pack-quantized", ignore=["lm_head"],
    config_groups={"group_0": {"targets": ["Linear"], "format": "nvfp4-pack-quantized", "weights": {
        "num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16}}})
of_rows = compressed(8, None, True)
of_rows["config_groups"]["group_0"]["weights"]["strategy"] = "channel"
CASES["llama-int8"] = in_words(LLAMA, **{**of_rows, "format": "int-quantized"})
CASES["gpt-oss-mxfp4"] = case("GptOssForCausalLM", "gpt_oss", head_dim=16, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
                              sliding_window=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                              attention_bias=True, swiglu_limit=7.0, rms_norm_eps=1e-5, num_hidden_layers=3,
                              rope_parameters={"rope_type": "default", "rope_theta": 150000.0},
                              quantization_config={"quant_method": "mxfp4"})

# ---------------------------------------------------------------------------------------------------------------- weights


def draw(name, tensor, random, tied):
    """A tensor's values: matrices keep the size of what they multiply, norms are near one."""
    shape = tuple(tensor.shape)
    values = random.standard_normal(shape)
    if name.endswith("A_log"):
        values = np.log(random.uniform(1, 8, shape))
    elif "norm" in name and name.endswith("weight"):
        # a norm that adds one to its weights has zeros as transformers makes it
        values = values * 0.2 + float(tensor.float().mean().round())
    elif "conv1d" in name or "conv.conv" in name:
        values = values * 0.5
    elif name.endswith(("_hc.scale", ".hc_scale")):
        values = values * 0.2 + 1
    elif len(shape) == 1:
        values = values * 0.2
    elif "embed_tokens" in name or "embed_in" in name:
        values = values * (0.1 if tied else 1)
    else:
        # Llama 4's experts have a row per input
        transposed = len(shape) == 3 and "feed_forward.experts" in name
        values = values / math.sqrt(shape[-2 if transposed else -1]) * (3 if name.startswith(("lm_head", "embed_out")) else 1.3)
    return torch.from_numpy(values).to(torch.bfloat16)


def make_model(name, seed):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    if CASES[name]["model_type"] == "nemotron_h_puzzle":
        return make_puzzle(name, seed)
    own = {"nemotron-nas": make_deci, "bailing_moe": make_bailing, "plm": make_plm, "rwkv7": make_rwkv7,
           "deepseek": make_deepseek, "internlm2": make_internlm2}.get(CASES[name]["model_type"])
    if own:
        return own(name, seed)
    if CASES[name]["model_type"] == "hy_v4":
        turn_neighbours()
    stored = CASES[name].get("quantization_config", {}).get("quant_method")
    settings = copy.deepcopy(CASES[name])  # of which transformers takes parts away
    settings.pop("quantization_config", None)
    config = AutoConfig.for_model(**settings)
    for part in (config, config.get_text_config()):
        part._attn_implementation = "eager"
        part._experts_implementation = "eager"
    kind = AutoModelForImageTextToText if "vision_config" in CASES[name] else AutoModelForCausalLM
    model, random = drawn(kind.from_config(config), config, name, seed)
    if settings["model_type"] == "kimi_linear":
        model.save_pretrained = lambda folder, **_: save_kimi(model, folder)
    if settings["model_type"] == "minimax_m3_vl":
        assert model.model.language_model.rotary_emb.inv_freq.numel() * 2 == settings["text_config"]["rotary_dim"]
        model.save_pretrained = lambda folder, **_: save_minimax_m3(model, folder)
    if settings["model_type"] == "cosmos3_edge":
        model.save_pretrained = lambda folder, **_: save_cosmos3(model, folder)
    if settings["model_type"] == "hy_v4":
        for layer in model.model.layers:  # as llama.cpp and vLLM norm them; transformers does not pass the epsilon on
            layer.self_attn.q_a_layernorm.variance_epsilon = layer.self_attn.kv_a_layernorm.variance_epsilon = config.rms_norm_eps
        model.save_pretrained = lambda folder, **_: save_hy4(model, folder)
    if settings["model_type"] == "deepseek_v4" and stored:
        round_deepseek4(model, CASES[name]["quantization_config"])
        return model, random
    if settings["model_type"] == "deepseek_v4":
        model.save_pretrained = types.MethodType(save_deepseek4, model)
    if stored:
        round_model = nvfp4.round_matrices if "nvfp4" in name else round_to_words
        {"fp8": round_to_f8, "mxfp4": round_to_mxfp4}.get(stored, round_model)(model, CASES[name]["quantization_config"])
    return model, random


def turn_neighbours():
    """transformers 5.24 turns values of Hy4 that lie half a head apart; the published weights are for neighbours, as llama.cpp and vLLM turn them."""
    from transformers.models.dots3_note.modeling_dots3_note import apply_rotary_pos_emb_interleave
    from transformers.models.hy_v4 import modeling_hy_v4
    modeling_hy_v4.apply_rotary_pos_emb = lambda q, k, cos, sin, unsqueeze_dim=1: apply_rotary_pos_emb_interleave(
        q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)


def round_to_f8(model, settings):
    """Rounds the matrices of the layers to floats of 8 bits times a scale, in float32, and saves those."""
    rows, columns = settings["weight_block_size"] or (1 << 20, 1 << 20)
    stored = {}
    for name, weight in model.named_parameters():
        if ".layers." not in name or weight.dim() < 2 or name.endswith("mlp.gate.weight"):
            continue
        parts = weight.data.float() if weight.dim() == 3 else weight.data.float()[None]
        codes, scales = torch.empty(parts.shape, dtype=torch.float8_e4m3fn), []
        for e, matrix in enumerate(parts):
            for r in range(0, matrix.shape[0], rows):
                for c in range(0, matrix.shape[1], columns):
                    block = matrix[r:r + rows, c:c + columns]
                    scale = block.abs().max() / 448
                    codes[e, r:r + rows, c:c + columns] = (block / scale).to(torch.float8_e4m3fn)
                    scales.append(scale)
                    matrix[r:r + rows, c:c + columns] = codes[e, r:r + rows, c:c + columns].float() * scale
        stored[name] = codes, torch.stack(scales).reshape(len(parts), -(-parts.shape[1] // rows), -(-parts.shape[2] // columns))
        weight.data = parts.reshape(weight.shape)
    model.float()
    model.save_pretrained = lambda folder, **_: save_f8(model, stored, folder, settings)


def save_f8(model, stored, folder, settings):
    from safetensors.torch import save_file
    out = {}
    for name, value in model.state_dict().items():
        if name not in stored:
            out[name] = value.to(torch.bfloat16)
            continue
        codes, scales = stored[name]
        for e, (code, scale) in enumerate(zip(codes, scales)):
            # experts as they were published: a tensor each
            parts = [(name, code, scale)]
            if "experts.gate_up_proj" in name:
                half, of_half = code.shape[0] // 2, scale.shape[0] // 2
                parts = [(name.replace("gate_up_proj", f"{e}.gate_proj.weight"), code[:half], scale[:of_half]),
                         (name.replace("gate_up_proj", f"{e}.up_proj.weight"), code[half:], scale[of_half:])]
            elif "experts.down_proj" in name and codes.shape[0] > 1:
                parts = [(name.replace("down_proj", f"{e}.down_proj.weight"), code, scale)]
            for key, values, of_values in parts:
                out[key] = values.contiguous()
                out[key + "_scale_inv"] = (of_values if settings["weight_block_size"] else of_values.reshape(())).contiguous()
                if not settings["weight_block_size"]:
                    out[key.replace("weight", "activation_scale")] = torch.tensor(0.5)
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def round_to_mxfp4(model, settings):
    """Draws the matrices of the experts as numbers of 4 bits with a power of two for each 32 of them."""
    stored = {}
    for name, weight in model.named_parameters():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        matrices = weight.data.float().transpose(1, 2).contiguous()  # a row per output, as it is stored
        blocks = matrices.reshape(*matrices.shape[:2], -1, 32)
        exponents = torch.floor(torch.log2(blocks.abs().amax(-1))) - 2
        scaled = blocks / torch.exp2(exponents)[..., None]
        codes = (scaled[..., None] - FLOAT4).abs().argmin(-1)
        stored[name] = codes, (exponents + 127).to(torch.uint8)
        rounded = (FLOAT4[codes] * torch.exp2(exponents)[..., None]).reshape(matrices.shape)
        weight.data = rounded.transpose(1, 2).contiguous()
    model.float()
    model.save_pretrained = lambda folder, **_: save_mxfp4(model, stored, folder)


def save_mxfp4(model, stored, folder):
    from safetensors.torch import save_file
    out = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items() if name not in stored}
    for name, (codes, scales) in stored.items():
        out[name + "_blocks"] = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
        out[name + "_scales"] = scales
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def make_puzzle(name, seed):
    """transformers knows no Puzzle: a model of its Nemotron-H, in which each block gets the experts that its own config asks for."""
    from transformers import AutoConfig, AutoModelForCausalLM
    blocks = CASES[name]["block_configs"]
    widest = {"moe_intermediate_size": 1, "num_experts_per_tok": 1}
    plain = {**CASES[name], **widest, "model_type": "nemotron_h", "layers_block_type": [b["block_type"] for b in blocks]}
    del plain["block_configs"]
    config = AutoConfig.for_model(**plain)
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for i, block in enumerate(blocks):
        if block["block_type"] == "moe":
            own = copy.deepcopy(config)
            own.moe_intermediate_size, own.num_experts_per_tok = block["moe_intermediate_size"], block["num_experts_per_tok"]
            layer = model.model.layers[i]
            layer.mixer = type(layer.mixer)(own, layer_idx=i).to(layer.norm.weight.dtype)
    return drawn(model, config, name, seed)


def make_deci(name, seed):
    """A Llama of which layers lack parts, or have parts of other sizes."""
    from transformers import AutoConfig, AutoModelForCausalLM

    class Nothing(torch.nn.Module):
        def forward(self, hidden_states, *_, **rest):
            zeros = torch.zeros_like(hidden_states)
            return (zeros, None) if "position_embeddings" in rest else zeros

    blocks = CASES[name]["block_configs"]
    settings = {k: v for k, v in CASES[name].items() if k not in ("block_configs", "architectures", "rope_theta", "rope_scaling")}
    rope = {"rope_theta": CASES[name]["rope_theta"], **CASES[name]["rope_scaling"]}
    settings.update(model_type="llama", intermediate_size=1, num_key_value_heads=1, rope_parameters=rope)
    config = AutoConfig.for_model(**settings)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for i, block in enumerate(blocks):
        layer, own, group, mult = model.model.layers[i], copy.deepcopy(config), block["attention"]["n_heads_in_group"], block["ffn"]["ffn_mult"]
        dtype = layer.input_layernorm.weight.dtype
        own.num_key_value_heads = config.num_attention_heads // (group or 1)
        own.intermediate_size = -(-int(2 * (mult or 0) * config.hidden_size / 3) // 256) * 256
        layer.self_attn = type(layer.self_attn)(own, layer_idx=i).to(dtype) if group else Nothing()
        layer.mlp = type(layer.mlp)(own).to(dtype) if mult else Nothing()
        layer.input_layernorm = layer.input_layernorm if group else torch.nn.Identity()
        layer.post_attention_layernorm = layer.post_attention_layernorm if mult else torch.nn.Identity()
    return drawn(model, config, name, seed)


def make_bailing(name, seed):
    """A GLM-4.5 that stores its tensors as Ling 2.0 does."""
    from transformers import AutoConfig, AutoModelForCausalLM
    plain = {**CASES[name], "model_type": "glm4_moe", "n_routed_experts": CASES[name]["num_experts"],
             "n_shared_experts": CASES[name]["num_shared_experts"]}
    rope = {"rope_type": "default", "rope_theta": plain.pop("rope_theta"), "partial_rotary_factor": plain["partial_rotary_factor"]}
    config = AutoConfig.for_model(**plain, rope_parameters=rope)
    config._attn_implementation = config._experts_implementation = "eager"
    model, random = drawn(AutoModelForCausalLM.from_config(config), config, name, seed)
    model.save_pretrained = lambda folder, **_: save_bailing(model, folder)
    return model, random


def make_deepseek(name, seed):
    """A Qwen2-MoE whose shared expert has no gate, under DeepSeek's names."""
    from transformers import AutoConfig, AutoModelForCausalLM

    class Open(torch.nn.Module):
        def forward(self, x):
            return torch.full_like(x[..., :1], 1e4)  # of which the logistic function is 1

    own = CASES[name]
    settings = {k: v for k, v in own.items() if not k.startswith("n_") and k not in ("attention_bias", "scoring_func")}
    settings.update(model_type="qwen2_moe", num_experts=own["n_routed_experts"], qkv_bias=False, decoder_sparse_step=1,
                    shared_expert_intermediate_size=own["n_shared_experts"] * own["moe_intermediate_size"],
                    mlp_only_layers=list(range(own["first_k_dense_replace"])))
    config = AutoConfig.for_model(**settings)
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for layer in model.model.layers[own["first_k_dense_replace"]:]:
        layer.mlp.shared_expert_gate = Open()
    model, random = drawn(model, config, name, seed)
    model.save_pretrained = lambda folder, **_: save_deepseek(model, folder)
    return model, random


def save_deepseek(model, folder):
    """A matrix of each expert, as it was published."""
    from safetensors.torch import save_file
    os.makedirs(folder)
    stored = {}
    for key, value in model.state_dict().items():
        key = key.replace(".shared_expert.", ".shared_experts.")
        before, stacked, part = key.partition(".experts.")
        for expert in range(value.shape[0] if stacked else 0):
            parts = zip(("gate_proj", "up_proj"), value[expert].chunk(2)) if part == "gate_up_proj" else [(part, value[expert])]
            for own, matrix in parts:
                stored[f"{before}.experts.{expert}.{own}.weight"] = matrix.contiguous()
        if not stacked:
            stored[key] = value
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def make_internlm2(name, seed):
    """A Llama that stores its tensors as InternLM 2 does: of each key its queries, it, and its value."""
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM
    settings = {k: v for k, v in CASES[name].items() if k not in ("bias", "rope_theta")}
    settings.update(model_type="llama", rope_parameters={"rope_type": "default", "rope_theta": CASES[name]["rope_theta"]})
    config = AutoConfig.for_model(**settings)
    config._attn_implementation = "eager"
    model, random = drawn(AutoModelForCausalLM.from_config(config), config, name, seed)
    renamed = {"model.embed_tokens": "model.tok_embeddings", "lm_head": "output", "input_layernorm": "attention_norm",
               "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
               "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}

    def save(folder, **_):
        os.makedirs(folder)
        stored, keys = {}, config.num_key_value_heads
        for key, value in model.state_dict().items():
            for own, to in renamed.items():
                key = key.replace(own, to)
            if "self_attn" not in key:
                stored[key] = value
        for i, layer in enumerate(model.model.layers):
            parts = [getattr(layer.self_attn, part + "_proj").weight.reshape(keys, -1, config.hidden_size) for part in "qkv"]
            stored[f"model.layers.{i}.attention.wqkv.weight"] = torch.cat(parts, 1).reshape(-1, config.hidden_size).contiguous()
        save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})

    model.save_pretrained = save
    return model, random


def make_plm(name, seed):
    """A DeepSeek V3 without experts, whose networks have no gates."""
    from transformers import AutoConfig, AutoModelForCausalLM

    class Plain(torch.nn.Module):
        def __init__(self, width, neurons):
            super().__init__()
            self.up_proj = torch.nn.Linear(width, neurons, bias=False)
            self.down_proj = torch.nn.Linear(neurons, width, bias=False)

        def forward(self, x):
            return self.down_proj(torch.nn.functional.relu(self.up_proj(x)) ** 2)

    settings = {k: v for k, v in CASES[name].items() if k not in ("rope_theta", "hidden_act")}
    settings.update(model_type="deepseek_v3", first_k_dense_replace=settings["num_hidden_layers"],
                    rope_parameters={"rope_type": "default", "rope_theta": CASES[name]["rope_theta"]})
    config = AutoConfig.for_model(**settings)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for layer in model.model.layers:
        layer.mlp = Plain(config.hidden_size, config.intermediate_size).to(layer.input_layernorm.weight.dtype)
    return drawn(model, config, name, seed)


def make_rwkv7(name, seed):
    """The paper's formulas."""
    config = types.SimpleNamespace(**CASES[name])
    model, random = drawn(Rwkv7(config), config, name, seed)
    model.spread(random)
    return model, random


HY4_NAMES = {"self_attn.gate_proj": "self_attn.linear_gate", "self_attn.sinks": "self_attn.learnable_sink_param", "attn_hc.": "hc_attn_layer.hc_pre.hc_",
             "ffn_hc.": "hc_mlp_layer.hc_pre.hc_", "hc_head.hc_": "hc_head.hc_head_"}


def save_hy4(model, folder):
    """As it was published: transformers 5.24 saves names that nothing reads."""
    from safetensors.torch import save_file
    out = {}
    for key, value in model.state_dict().items():
        for own, published in HY4_NAMES.items():
            key = key.replace(own, published)
        out[key] = value.contiguous()
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def save_cosmos3(model, folder):
    """As it was published: transformers reads those names and writes its own."""
    from safetensors.torch import save_file
    os.makedirs(folder)
    renamed = {f"self_attn.{own}_proj.": f"self_attn.to_{to}." for own, to in zip("qkvo", ("q", "k", "v", "out"))}
    renamed.update({"model.language_model.": "", "mlp.fc1.": "mlp.up_proj.", "mlp.fc2.": "mlp.down_proj."})
    stored = {}
    for key, value in model.state_dict().items():
        for own, to in renamed.items() if ".visual." not in key else ():
            key = key.replace(own, to)
        stored[key] = value
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def save_minimax_m3(model, folder):
    """As it was published: transformers 5.24 saves names that nothing reads."""
    from safetensors.torch import save_file
    out = {}
    for key, value in model.state_dict().items():
        if not key.startswith("model.language_model.") and key != "lm_head.weight":
            continue  # of pictures
        key = "language_model." + key.replace("model.language_model.", "model.").replace("indexer.", "index_")
        if ".mlp.gate." in key or ".experts." in key or "shared_experts" in key:
            key = key.replace(".mlp.", ".block_sparse_moe.").replace("gate.e_score", "e_score")
        if key.endswith("gate_up_proj.weight"):
            for part, half in zip(("gate_proj", "up_proj"), value.chunk(2)):
                out[key.replace("gate_up_proj", part)] = half.contiguous()
        elif "experts." in key and value.dim() == 3:
            for expert, rows in enumerate(value):
                for part, half in zip(("w1", "w3"), rows.chunk(2)) if "gate_up" in key else [("w2", rows)]:
                    out[f"{key.rsplit('.', 1)[0]}.{expert}.{part}.weight"] = half.contiguous()
        else:
            out[key] = value.contiguous()
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def save_kimi(model, folder):
    """As it was published: transformers names the first layer's network otherwise."""
    from safetensors.torch import save_file
    out = {}
    for key, value in model.state_dict().items():
        key = key.replace("forget_gate.", "")
        sparse = key.replace(".mlp.", ".block_sparse_moe.")
        if "conv1d" in key:
            for part, rows in zip("qkv", value.chunk(3)):
                out[key.replace("conv1d", f"{part}_conv1d")] = rows.contiguous()
        elif key.endswith("experts.gate_up_proj"):
            for expert, rows in enumerate(value):
                for part, half in zip(("w1", "w3"), rows.chunk(2)):
                    out[sparse.replace("gate_up_proj", f"{expert}.{part}.weight")] = half.contiguous()
        elif key.endswith("experts.down_proj"):
            for expert, rows in enumerate(value):
                out[sparse.replace("down_proj", f"{expert}.w2.weight")] = rows.contiguous()
        else:
            out[sparse if "mlp.gate." in key or "shared_experts" in key else key] = value.contiguous()
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def power_of(largest, most):
    """The exponents by which values up to `largest` are divided, so that they are at most `most`."""
    return torch.ceil(torch.log2(largest.clamp(min=2.0**-100) / most))


def round_deepseek4(model, settings):
    """Rounds matrices of layers to floats of 8 bits, and those of experts to numbers of 4, with powers of two as scales, and saves those."""
    rows, columns = settings["weight_block_size"]
    stored, endings = {}, ("q_a_proj.weight", "q_b_proj.weight", "self_attn.kv_proj.weight", "o_a_proj.weight", "o_b_proj.weight",
                           "gate_proj.weight", "up_proj.weight", "down_proj.weight")
    for name, weight in model.named_parameters():
        values = weight.data.float()
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            blocks = values.reshape(*values.shape[:2], -1, 32)
            exponents = torch.floor(torch.log2(blocks.abs().amax(-1))) - 2
            codes = ((blocks / torch.exp2(exponents)[..., None])[..., None] - FLOAT4).abs().argmin(-1)
            weight.data = (FLOAT4[codes] * torch.exp2(exponents)[..., None]).reshape(values.shape)
            stored[name] = (codes[..., 0::2] | codes[..., 1::2] << 4).flatten(2).to(torch.uint8).view(torch.int8), exponents
        elif ".layers." in name and name.endswith(endings) and ("compressor" not in name or "q_b_proj" in name):
            padded = torch.nn.functional.pad(values, (0, -values.shape[1] % columns, 0, -values.shape[0] % rows))
            blocks = padded.reshape(padded.shape[0] // rows, rows, -1, columns)
            exponents = power_of(blocks.abs().amax((1, 3)), 448)
            codes = (blocks / torch.exp2(exponents)[:, None, :, None]).to(torch.float8_e4m3fn)
            back = (codes.float() * torch.exp2(exponents)[:, None, :, None]).reshape(padded.shape)
            weight.data = back[:values.shape[0], :values.shape[1]].contiguous()
            stored[name] = codes.reshape(padded.shape)[:values.shape[0], :values.shape[1]].contiguous(), exponents
    model.float()
    model.save_pretrained = lambda folder, **_: save_rounded_deepseek4(model, stored, folder)


def save_rounded_deepseek4(model, stored, folder):
    """The names of the published files, by those of a model that is not rounded."""
    from safetensors.torch import load_file, save_file
    save_deepseek4(model, folder)
    path = os.path.join(folder, "model.safetensors")
    named = {key: value if value.dtype == torch.int64 else value.to(torch.bfloat16) for key, value in load_file(path).items()}
    theirs = {"self_attn": "attn", "q_a_proj": "wq_a", "q_b_proj": "wq_b", "kv_proj": "wkv", "o_a_proj": "wo_a", "o_b_proj": "wo_b",
              "mlp.": "ffn.", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2", "compressor.indexer": "indexer"}

    def put(key, values, exponents):
        named[key] = values.contiguous()
        named[key.removesuffix("weight") + "scale"] = (exponents + 127).to(torch.uint8).contiguous().view(torch.float8_e8m0fnu)

    for name, (values, exponents) in stored.items():
        key = name.removeprefix("model.")
        for own, published in theirs.items():
            key = key.replace(own, published) if "experts.gate_up" not in key else key.replace("mlp.", "ffn.")
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            assert key in named, key
            put(key, values, exponents)
            continue
        for e in range(len(values)):
            parts = [("w2", values[e], exponents[e])]
            if name.endswith("gate_up_proj"):
                half = values.shape[1] // 2
                parts = [("w1", values[e][:half], exponents[e][:half]), ("w3", values[e][half:], exponents[e][half:])]
            for part, codes, powers in parts:
                put(f"{key[:key.index('experts')]}experts.{e}.{part}.weight", codes, powers)
    save_file(named, path, metadata={"format": "pt"})


def save_deepseek4(model, folder, **rest):
    """As it was published: transformers leaves some of its own names."""
    from safetensors.torch import load_file, save_file
    type(model).save_pretrained(model, folder, **rest)
    path = os.path.join(folder, "model.safetensors")
    named = {key.removeprefix("model.").replace("embed_tokens", "embed").replace("hc_head.hc_", "hc_head_").replace(".attn.norm.", ".attn.kv_norm."): value
             for key, value in load_file(path).items()}
    save_file(named, path, metadata={"format": "pt"})


def save_bailing(model, folder):
    from safetensors.torch import save_file
    names = {"embed_tokens": "word_embeddings", "self_attn.o_proj": "attention.dense", "self_attn.q_norm": "attention.query_layernorm",
             "self_attn.k_norm": "attention.key_layernorm", "mlp.gate.e_score_correction_bias": "mlp.gate.expert_bias"}
    state, out = model.state_dict(), {}
    for key, value in state.items():
        if "self_attn.q_proj" in key:
            rows = [state[key.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            out[key.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(rows)
        elif key.endswith("mlp.experts.gate_up_proj"):
            for expert, rows in enumerate(value):
                for part, half in zip(("gate", "up"), rows.chunk(2)):
                    out[key.replace("gate_up_proj", f"{expert}.{part}_proj.weight")] = half.contiguous()
        elif key.endswith("mlp.experts.down_proj"):
            for expert, rows in enumerate(value):
                out[key.replace("down_proj", f"{expert}.down_proj.weight")] = rows.contiguous()
        elif "k_proj" not in key and "v_proj" not in key:
            for theirs, published in names.items():
                key = key.replace(theirs, published)
            out[key] = value
    os.makedirs(folder)
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def drawn(model, config, name, seed):
    """(model with weights drawn from the seed, the random numbers that follow)"""
    random = np.random.default_rng([seed, *name.encode()])
    with torch.no_grad():
        state = {key: value for key, value in model.named_parameters()}
        state.update({k: v for k, v in model.named_buffers() if "bias" in k})
        for key, table in model.named_buffers():
            if key.endswith("tid2eid"):  # experts of each token
                table.copy_(torch.from_numpy(np.argsort(random.random((VOCABULARY, config.n_routed_experts)))[:, :table.shape[1]]))
        for key in sorted(state):
            state[key].copy_(draw(key, state[key], random, config.tie_word_embeddings).to(state[key].dtype))
    return model.eval(), random


def logits_of(model, ids):
    text = getattr(model, "language_model", model) if "Llama4" in type(model).__name__ else model  # whose own forward fails
    with torch.no_grad():
        return text.double()(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def logits_and_choice(model, ids, chosen):
    """(logits, the smallest gap between the score of the last position that is chosen and the next one's)"""
    gaps, topk = [math.inf], torch.Tensor.topk

    def watched(scores, k, dim=-1, **rest):
        if k == chosen and scores.shape[-1] > k:
            ordered = scores.double().sort(-1, descending=True).values
            gap = ordered[..., k - 1] - ordered[..., k]
            gaps.extend(gap[ordered[..., k] > -1e30].tolist())  # others are masked
        return topk(scores, k, dim=dim, **rest)

    torch.Tensor.topk = watched
    try:
        return logits_of(model, ids), min(gaps)
    finally:
        torch.Tensor.topk = topk


def active_of(model, ids):
    """Which neurons fire, [layers][rows][neurons] bytes, as what the last matrix of each network reads tells."""
    seen, hooks = [], []
    for name, module in model.named_modules():
        if name.endswith(("mlp.fc2", "mlp.dense_4h_to_h")) and ".visual." not in name:
            hooks.append(module.register_forward_pre_hook(lambda _, values: seen.append(values[0][0] > 0)))
    logits_of(model, ids)
    for hook in hooks:
        hook.remove()
    return torch.stack(seen).numpy().astype(np.uint8)


def continue_greedily(model, random, prompt):
    """(ids, continuation, smallest gap between the best two logits)"""
    ids = [1] + [int(i) for i in random.integers(3, VOCABULARY, prompt - 1)]
    gap = math.inf
    for _ in range(GREEDY):
        last = logits_of(model, ids)[-1]
        best = np.argsort(last)[-2:]
        gap = min(gap, last[best[1]] - last[best[0]])
        ids.append(int(best[1]))
    return ids[:prompt], ids[prompt:], float(gap)


# -------------------------------------------------------------------------------------------------------------- llama.cpp


def vocabulary(writer):
    """The pieces of golden-llama: <unk> <s> </s>, 256 bytes, 13 pieces."""
    pieces = ["▁", "e", "t", "a", "o", "i", "n", "s", "h", "r", "▁t", "he", "▁the"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + pieces
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(13 - i) for i in range(13)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * 13)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def convert(llama_cpp, folder, path):
    sys.path[:0] = [llama_cpp, os.path.join(llama_cpp, "gguf-py")]
    conversion = importlib.import_module("conversion")
    import gguf
    config = conversion.ModelBase.load_hparams(Path(folder), False)
    with open(os.path.join(folder, "config.json")) as file:
        published = json.load(file)
    # of which transformers renames what the converter reads
    own = published.get("text_config", published)["model_type"] in ("step3p5", "exaone", "bailing_hybrid", "mimo_v2_flash", "glm5_next_text",
                                                                              "qwen4_exp_text", "minimax_m3_vl_text", "sarvam_moe", "gpt_neox")
    if "layer_norm_epsilon" in published:
        published.setdefault("rms_norm_eps", published["layer_norm_epsilon"])  # by which its own norms are
    kind = conversion.get_model_class(conversion.get_model_architecture(config, conversion.ModelType.TEXT))
    kind.no_mtp = True
    if published["model_type"] == "deepseek_v4":
        keep_floats(kind)
    counted = Path(folder, "tokenizer.json")  # of which the converter takes the number of tokens
    if published["model_type"] == "gemma4_unified":
        counted.write_text(json.dumps({"model": {"vocab": list(range(VOCABULARY))}, "added_tokens": []}))
    with torch.inference_mode():
        model = kind(Path(folder), gguf.LlamaFileType.ALL_F32, Path(path), **({"hparams": published} if own else {}))
        for converter in (model, getattr(model, "impl", model)):
            converter.set_vocab = types.MethodType(lambda self: vocabulary(self.gguf_writer), converter)
        model.write()
    counted.unlink(missing_ok=True)


def keep_floats(kind):
    """llama.cpp's converter wants experts of 4 bits, and multiplies what was BF16 with rounded rows."""
    def stack(self, layer, part, key):
        names = [f"layers.{layer}.ffn.experts.{e}.{part}.weight" for e in range(self.hparams["n_routed_experts"])]
        eager = importlib.import_module("conversion.base").LazyTorchTensor.to_eager
        self.gguf_writer.add_tensor(self.format_tensor_name(key, layer), np.stack([eager(self.model_tensors[n]()).float().numpy() for n in names]))
        return names

    kind._write_mxfp4_expert_tensor = stack
    kind._collect_source_dtypes = lambda self: None


def transpose_experts(folder, to):
    """llama.cpp's converter wants a row per input, as this family's files were published; transformers saves a row per output."""
    from safetensors.torch import load_file, save_file
    shutil.copytree(folder, to)
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    for key in tensors:
        if ".experts." in key:
            tensors[key] = tensors[key].transpose(1, 2).contiguous()
    save_file(tensors, os.path.join(to, "model.safetensors"), metadata={"format": "pt"})


def llama_cpp_logits(llama_cpp, path, ids):
    """llama.cpp's logits of every position, by the functions of its C library."""
    os.environ.setdefault("LLAMA_CPP_LIB_PATH", os.path.join(llama_cpp, "build", "bin"))
    sys.path.insert(0, os.path.join(llama_cpp, "..", ".."))
    import llama_cpp as api
    if not os.environ.get("VERBOSE"):
        api.llama_log_set(SILENT, None)
    settings = api.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = api.llama_model_load_from_file(path.encode(), settings)
    if not model:
        raise SystemExit(f"{path}: llama.cpp does not read it")
    context_settings = api.llama_context_default_params()
    context_settings.n_ctx = context_settings.n_batch = context_settings.n_ubatch = 256
    context_settings.n_threads = context_settings.n_threads_batch = 1
    context_settings.type_k = context_settings.type_v = 0
    context_settings.flash_attn_type = int("minimax-m3" in path)  # else it sees everything
    context = api.llama_init_from_model(model, context_settings)
    batch = api.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    if api.llama_decode(context, batch) != 0:
        raise SystemExit(f"{path}: llama.cpp does not decode it")
    out = np.ctypeslib.as_array(api.llama_get_logits(context), (len(ids), VOCABULARY)).copy()
    api.llama_free(context)
    api.llama_model_free(model)
    return out


SILENT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)


def distance(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# ------------------------------------------------------------------------------------------------------------------- main


def make(llama_cpp, out, name):
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    for seed in range(100):
        model, random = make_model(name, seed)
        ids, greedy, gap = continue_greedily(model, random, LONG.get(name, PROMPT))
        text = CASES[name].get("text_config", CASES[name])
        chosen = text.get("index_topk", text.get("indexer_budget", 0)) // text.get("index_kpool", text.get("indexer_compress_ratio", 1))
        chosen = text.get("sparse_attention_config", {}).get("sparse_topk_blocks", chosen)
        logits, choice = logits_and_choice(model, ids + greedy, chosen)
        if gap >= SMALLEST_GAP and choice >= SMALLEST_CHOICE:
            break
    active = active_of(model, ids + greedy) if name in WITH_ACTIVE else None
    if "quantization_config" not in CASES[name]:
        model.to(torch.bfloat16)
        if CASES[name]["model_type"] == "sarvam_moe":  # of which llama.cpp's converter takes the mean away
            for buffer_name, values in model.named_buffers():
                if "correction_bias" in buffer_name:
                    values.data = values.data.float()
    model.save_pretrained(folder, safe_serialization=True)
    for unwanted in glob.glob(os.path.join(folder, "generation_config.json")):
        os.remove(unwanted)
    # what the published files say: the case, not all that transformers adds to it
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CASES[name], file, indent=1)
    logits.astype("<f4").tofile(os.path.join(folder, "logits.f32"))
    if active is not None:
        active.tofile(os.path.join(folder, "active.u8"))
    source = f"transformers {importlib.import_module('transformers').__version__}"
    if isinstance(model, Rwkv7):
        source = "the formulas of arXiv 2503.14456"
    golden = {"ids": ids, "greedy": greedy, "n_vocab": VOCABULARY, "smallest_gap": round(gap, 5),
              "logit_std": round(float(logits.std()), 4),
              "source": {"logits": f"{source}, float64", "relative_l2": {}}}
    if name not in NO_GGUF:
        compare_with_llama_cpp(llama_cpp, folder, name, golden, logits)
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
    print(name, "std", golden["logit_std"], "gap", golden["smallest_gap"], golden["source"]["relative_l2"], flush=True)


def compare_with_llama_cpp(llama_cpp, folder, name, golden, logits):
    path = os.path.join(folder, "model.gguf")
    if name == "qwen3-vl-moe":
        transpose_experts(folder, path + ".folder")
    convert(llama_cpp, path + ".folder" if name == "qwen3-vl-moe" else folder, path)
    shutil.rmtree(path + ".folder", ignore_errors=True)
    theirs = llama_cpp_logits(llama_cpp, path, golden["ids"] + golden["greedy"])
    golden["source"]["relative_l2"]["llama.cpp"] = float(f"{distance(theirs, logits):.1e}")


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    for name in sys.argv[3:] or CASES:
        make(sys.argv[1], sys.argv[2], name)


if __name__ == "__main__":
    main()
