/* family.c - the tables: families, the tensors they have, FFN activations.
 *
 * To add a family, add a row to families[], with the rules of a related family or a table of its own. */
#include "family.h"

#include "family_tensors.h"
#include "family_tensors_names.h"
#include "family_tensors_recurrent.h"

#include <stdio.h>
#include <string.h>

// clang-format off
const ffn_activation_row ffn_activations[FFN_ACTIVATION_COUNT] = {
    /*                     name                 other names                 kernel                     both   threshold limits */
    [FFN_SILU]           = {"silu",              {"swish"},                  ACTIVATION_SILU,           false, false, false},
    [FFN_RELU]           = {"relu",              {NULL},                     ACTIVATION_RELU,           false, false, false},
    [FFN_FATRELU]        = {"fatrelu",           {NULL},                     ACTIVATION_RELU,           false, true,  false},
    [FFN_DRELU]          = {"drelu",             {NULL},                     ACTIVATION_RELU,           true,  false, false},
    [FFN_RELU2]          = {"relu2",             {"sqrelu"},                 ACTIVATION_RELU2,          false, false, false},
    [FFN_GELU]           = {"gelu",              {NULL},                     ACTIVATION_GELU,           false, false, false},
    [FFN_GELU_TANH]      = {"gelu_pytorch_tanh", {"gelu_new", "gelu_fast"},  ACTIVATION_GELU_TANH,      false, false, false},
    [FFN_SWIGLU_CLAMPED] = {"swiglu_clamped",    {NULL},                     ACTIVATION_SWIGLU_CLAMPED, false, true,  true},
    [FFN_SILU_LIMITED]   = {"silu_limited",      {NULL},                     ACTIVATION_SILU_LIMITED,   false, true,  true},
    [FFN_SILU_CLAMPED]   = {"silu_clamped",      {NULL},                     ACTIVATION_SILU_CLAMPED,   false, true,  true},
    [FFN_XIELU]          = {"xielu",             {NULL},                     ACTIVATION_XIELU,          false, false, false},
};

/* ------------------------------------------------------------------ families */

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define TENSORS(model, layer) .tensors = model, .tensor_count = COUNT(model), .layer_tensors = layer, \
                              .layer_tensor_count = COUNT(layer)
#define NO_ATTENTION_BIAS {"attention_bias", false, false}
#define NEMOTRON_H_SETTINGS                                                                                  \
    NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"mamba_proj_bias", false, false}, {"use_bias", false, false}, \
    {"use_conv_bias", true, true}

#define HUNYUAN_SETTINGS {"use_qk_norm", true, true}, {"use_mla", false, false}, {"use_cla", false, false}

#define DEEPSEEK                                                                                             \
    .latent_attention = true, .file_unshared = true, .expert_width = "moe_intermediate_size", .activation = FFN_SILU, \
    .required = {NO_ATTENTION_BIAS, {"rope_interleave", true, true}},                                        \
    TENSORS(llama_tensors, deepseek2_layer)

#define DEEPSEEK_GROUPS .defaults = {{"n_group", 8}, {"topk_group", 4}, {"routed_scaling_factor", 2.5}}
#define ONE_GROUP       {"n_group", 1}, {"topk_group", 1}

/* The same, with chosen positions. */
#define DEEPSEEK_CHOOSES                                                                                     \
    .latent_attention = true, .chooses_positions = true, .scoring = ROUTER_SIGMOID, .file_unshared = true,   \
    .expert_width = "moe_intermediate_size", .activation = FFN_SILU,                                         \
    .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"rope_interleave", true, true}}

#define BAILING                                                                                              \
    .pairing = ROPE_HALVES, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size",              \
    .default_epsilon = 1e-6f, .activation = FFN_SILU,                                                        \
    .required = {{"use_bias", false, false}, {"use_qkv_bias", false, false}, {"use_qk_norm", true, true}},   \
    TENSORS(bailing_tensors, bailing_layer)

#define LING2 BAILING, .rope_base = 600000, .rotated_share = 0.5f

#define GLM5_NEXT                                                                                            \
    .latent_attention = true, .latent_alike = true, .unrotated = true, .chooses_positions = true, .pools_positions = true, .mixers = MIXERS_KEYS, \
    .recurrence = RECURRENCE_KDA, .decay_floors = true, .wiring = WIRING_CONNECTED, .silu_limits = true, .limits_first = true, \
    .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f, .activation = FFN_SILU, \
    .defaults = {{"routed_scaling_factor", 2.5}, ONE_GROUP}, .required = {NO_ATTENTION_BIAS, {"mla_use_nope", true, true}, {"mhc", true, true}, {"index_kpool_compress", true, true}, \
    {"index_kpool_always_select_tail", true, true}},                                                         \
    TENSORS(llama_tensors, glm5_next_layer)

#define LING3                                                                                                \
    .latent_attention = true, .gated_attention = true, .rope_base = 6000000, .mixers = MIXERS_KEYS,          \
    .recurrence = RECURRENCE_KDA, .decay_floors = true, .whole_maps = true, .silu_limits = true, .scoring = ROUTER_SIGMOID,      \
    .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f, .activation = FFN_SILU, DEEPSEEK_GROUPS, \
    .required = {NO_ATTENTION_BIAS, {"use_bias", false, false}, {"no_kda_lora", true, true}, {"kda_safe_gate", true, true}}, \
    TENSORS(bailing_tensors, ling3_layer)

#define MINIMAX_M3                                                                                           \
    .pairing = ROPE_HALVES, .rope_base = 5000000, .chooses_blocks = true, .scoring = ROUTER_SIGMOID, .expert_width = "intermediate_size", \
    .default_epsilon = 1e-6f, .fixed_activation = true, .default_threshold = 7, .activation = FFN_SWIGLU_CLAMPED, \
    .defaults = {{"head_dim", 128}, {"routed_scaling_factor", 2}}, .required = {{"use_routing_bias", true, true}, {"use_qk_norm", true, true}, {"use_gemma_norm", true, true}}, \
    TENSORS(gemma_tensors, minimax_m3_layer)

#define EXAONE_MOE                                                                                           \
    .pairing = ROPE_HALVES, .windows_rotate = true, .folder_window = true, .default_window = 4096,           \
    .without_window = {.period = 4}, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size",     \
    .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"routed_scaling_factor", 2.5}, ONE_GROUP}, \
    .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, exaone_moe_layer)

#define GLM4_MOE                                                                                             \
    .pairing = ROPE_HALVES, .rotated_share = 0.5f, .scoring = ROUTER_SIGMOID,                                \
    .expert_width = "moe_intermediate_size", .activation = FFN_SILU, .defaults = {ONE_GROUP}, TENSORS(llama_tensors, glm4_moe_layer)

#define WINDOWED_LLAMA                                                                                       \
    .folder_window = true, .windows_said = true, .default_epsilon = 1e-5f, .activation = FFN_SILU,           \
    .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(llama_tensors, llama_layer)

/* With inputs for each layer, keys and values that layers share, and experts beside the network. Layers that see all
 * positions have heads of their own size, and of each head most pairs do not turn. */
#define GEMMA4                                                                                               \
    .pairing = ROPE_HALVES, .rope_said = true, .folder_window = true, .without_window = {.period = 6}, .window_base = 10000, \
    .default_epsilon = 1e-6f, .norm_values = true, .unit_scale = true, .dense_beside = true,                 \
    .expert_width = "moe_intermediate_size", .embedding_by_width = true, .folder_tied = true,                \
    .activation = FFN_GELU_TANH, .defaults = {{"head_dim", 256}}, .required = {NO_ATTENTION_BIAS}, \
    TENSORS(gemma4_tensors, gemma4_layer)

#define GRANITE_SWA                                                                                          \
    .rotation_listed = true, .unit_scale = true, .folder_window = true, .windows_said = true, .default_window = 128, \
    .without_window = {.period = 4, .first = true}, .folder_tied = true, .activation = FFN_SILU,                  \
    .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(llama_tensors, granite_swa_layer)

#define NEMOTRON_H_MOE                                                                                       \
    .mixture = true, .epsilon = "layer_norm_epsilon", .unrotated = true, .mixers = MIXERS_BLOCKS,            \
    .recurrence = RECURRENCE_MAMBA2, .gating = FFN_PLAIN, .activation = FFN_RELU2, .scoring = ROUTER_SIGMOID, \
    .expert_width = "moe_intermediate_size", .defaults = {{"head_dim", 128}}, .required = {NEMOTRON_H_SETTINGS}, \
    TENSORS(nemotron_h_tensors, nemotron_h_layer)

#define APERTUS                                                                                              \
    .pairing = ROPE_HALVES, .rope_said = true, .rope_base = 12e6f, .default_epsilon = 1e-5f, .gating = FFN_PLAIN, .activation = FFN_XIELU, \
    .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, apertus_layer)

const family families[] = {
    {.name = "llama", .model_type = "llama", .architecture = "LlamaForCausalLM",
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* GGUF has no architecture for mistral: it is a llama with llama.attention.sliding_window */
    {.name = "llama", .model_type = "mistral", .architecture = "MistralForCausalLM",
     .folder_window = true, .default_window = 4096,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* Ministral 8B of 2024, and Meta's Code World Model: layers with a window among others, which the key of the pattern says */
    {.name = "llama", .model_type = "ministral", .architecture = "MinistralForCausalLM", WINDOWED_LLAMA, .default_window = 4096},
    {.name = "llama", .model_type = "cwm", .architecture = "CwmForCausalLM", WINDOWED_LLAMA, .rope_said = true, .rope_base = 1000000, .default_window = 8192,
     .defaults = {{"head_dim", 128}}, .without_window = {.period = 4, .first = true}},
    {.name = "internlm2", .model_type = "internlm2", .architecture = "InternLM2ForCausalLM",
     .default_epsilon = 1e-6f, .activation = FFN_SILU, .required = {{"bias", false, false}}, TENSORS(internlm2_tensors, internlm2_layer)},
    /* InternLM 3: GGUF has no architecture for it */
    {.name = "llama", .model_type = "internlm3", .architecture = "InternLM3ForCausalLM",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}},
     .required = {NO_ATTENTION_BIAS, {"qkv_bias", false, false}, {"bias", false, false}, {"mlp_bias", false, false}},
     TENSORS(llama_tensors, llama_layer)},
    /* IQuest Coder: nor for this */
    {.name = "llama", .model_type = "iquestcoder", .architecture = "IQuestCoderForCausalLM",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}},
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"use_sliding_window", false, false}}, TENSORS(llama_tensors, llama_layer)},
    /* Ministral 3 and its kin: scores grow with the position */
    {.name = "mistral3", .model_type = "ministral3", .architecture = "Ministral3ForCausalLM",
     .rope_said = true, .folder_window = true, .default_epsilon = 1e-5f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* Nor has it one for mixtral: a llama with llama.expert_count */
    {.name = "llama", .model_type = "mixtral", .architecture = "MixtralForCausalLM",
     .rope_base = 1e6f, .folder_window = true,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* TurboSparse-Mixtral: with a ReLU on gate and on up */
    {.name = "llama", .model_type = "turbosparsemixtral", .architecture = "TurboSparseMixtralForCausalLM",
     .folder_window = true, .fixed_activation = true,
     .activation = FFN_DRELU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* Nemotron Super and Ultra of 2025, of Llama 3 */
    {.name = "deci", .model_type = "nemotron-nas", .architecture = "DeciLMForCausalLM", .mixers = MIXERS_PARTS,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(llama_tensors, deci_layer)},
    {.name = "smallthinker", .model_type = "smallthinker", .architecture = "SmallThinkerForCausalLM",
     .pairing = ROPE_HALVES, .without_rotary = {.period = 4, .first = true}, .folder_window = true, .default_window = 4096,
     .without_window = {.period = 4, .first = true}, .router_early = true, .scoring = ROUTER_SIGMOID,
     .activation = FFN_RELU, TENSORS(llama_tensors, smallthinker_layer)},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .architecture = "Qwen3MoeForCausalLM",
     .pairing = ROPE_HALVES, .expert_width = "moe_intermediate_size", .unshared = true,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"use_sliding_window", false, false}},
     TENSORS(llama_tensors, qwen3_moe_layer)},
    /* Mellum 2 */
    {.name = "mellum", .model_type = "mellum", .architecture = "MellumForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 500000, .folder_window = true, .windows_listed = true, .default_window = 1024,
     .window_base = 10000, .plain_windows = true, .without_window = {.period = 4}, .expert_width = "moe_intermediate_size",
     .default_epsilon = 1e-6f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS},
     TENSORS(llama_tensors, qwen3_moe_layer)},
    {.name = "glm4moe", .model_type = "glm4_moe", .architecture = "Glm4MoeForCausalLM", GLM4_MOE},
    /* GLM-4.5V, 4.6V: of text alone, the three positions of a token are one */
    {.name = "glm4moe", .model_type = "glm4v_moe_text", .architecture = "Glm4vMoeForConditionalGeneration", GLM4_MOE},
    {.name = "glm4moe", .model_type = "solar_open", .architecture = "SolarOpenForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 1e6f, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}, ONE_GROUP}, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, glm4_moe_layer)},
    /* Layers that rotate see chunks, norm queries and keys, and let scores be; in the others, which see everything, scores grow. */
    {.name = "llama4", .model_type = "llama4_text", .architecture = "Llama4ForCausalLM",
     .rope_base = 500000, .windows_rotate = true, .folder_window = true, .default_window = 8192, .file_window = 8192,
     .chunked = true, .without_window = {.period = 4}, .growth = 0.1f, .norm_plain = true, .scoring = ROUTER_SIGMOID,
     .unshared = true, .file_unshared = true, .input_shares = true, .one_shared = true, .expert_width = "intermediate_size",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama4_layer)},
    {.name = "exaone-moe", .model_type = "exaone_moe", .architecture = "ExaoneMoeForCausalLM", EXAONE_MOE},
    {.name = "exaone-moe", .model_type = "exaone_moe", .architecture = "ExaoneMoEForCausalLM", EXAONE_MOE}, /* as it was published */
    /* GGUF files of the next two are hearth's own */
    {.name = "kolibri1", .model_type = "kolibri1", .architecture = "Kolibri1ForCausalLM",
     .pairing = ROPE_HALVES, .windows_rotate = true, .folder_window = true, .default_window = 513, .without_window = {.period = 5},
     .scoring = ROUTER_SIGMOID_OF_CHOSEN, .unshared = true, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}, {"shared_expert_intermediate_size", 512}}, .required = {NO_ATTENTION_BIAS},
     TENSORS(llama_tensors, kolibri1_layer)},
    {.name = "flint", .model_type = "flint", .architecture = "FlintForCausalLM",
     .pairing = ROPE_HALVES, .windows_rotate = true, .folder_window = true, .windows_listed = true, .default_window = 513,
     .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}, {"shared_expert_intermediate_size", 1024}}, .required = {NO_ATTENTION_BIAS},
     TENSORS(llama_tensors, flint_layer)},
    {.name = "afmoe", .model_type = "afmoe", .architecture = "AfmoeForCausalLM",
     .pairing = ROPE_HALVES, .windows_rotate = true, .folder_window = true, .default_window = 1024, .without_window = {.period = 4},
     .gated_attention = true, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .embedding_by_width = true,
     .default_epsilon = 1e-5f, .activation = FFN_SILU,
     .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS, {"mup_enabled", true, false}, {"route_norm", true, true}}, TENSORS(llama_tensors, afmoe_layer)},
    {.name = "muse-glimmer", .model_type = "muse_glimmer_text", .architecture = "MuseGlimmerForConditionalGeneration",
     .windows_rotate = true, .folder_window = true, .default_window = 2048, .without_window = {.period = 4},
     .gated_attention = true, .embedding_norm = true, .post_epsilon = 1e-8f, .query_gain = 3.87f, .logit_factor = 0.19611613513818404f,
     .logit_cap = 20, .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS},
     TENSORS(llama_tensors, muse_glimmer_layer)},
    {.name = "laguna", .model_type = "laguna", .architecture = "LagunaForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 500000, .rotated_share = 0.5f, .folder_window = true, .default_window = 512, .window_base = 10000,
     .plain_windows = true, .windows_listed = true, .without_window = {.period = 4, .first = true}, .gated_attention = true, .gate_softplus = true,
     .dense_unsaid = true, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f, .activation = FFN_SILU,
     .defaults = {{"head_dim", 128}},
     .required = {NO_ATTENTION_BIAS, {"moe_apply_router_weight_on_input", false, false}, {"moe_router_use_sigmoid", true, true}}, TENSORS(llama_tensors, laguna_layer)},
    {.name = "mimo2", .model_type = "mimo_v2_flash", .architecture = "MiMoV2FlashForCausalLM", .epsilon = "layernorm_epsilon",
     .pairing = ROPE_HALVES, .rope_base = 5000000, .rotated_share = 0.334f, .folder_window = true, .default_window = 129, .window_base = 10000,
     .plain_windows = true, .windows_listed = true, .without_window = {.period = 6}, .short_values = true, .dense_unsaid = true,
     .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f, .activation = FFN_SILU,
     .defaults = {ONE_GROUP}, .required = {NO_ATTENTION_BIAS, {"add_swa_attention_sink_bias", true, true}, {"add_full_attention_sink_bias", false, false}},
     TENSORS(llama_tensors, mimo2_layer)},
    /* Step 3.5 Flash, and the text's part of 3.7 */
    {.name = "step35", .model_type = "step3p5", .architecture = "Step3p5ForCausalLM",
     .pairing = ROPE_HALVES, .folder_window = true, .windows_listed = true, .window_base = 10000, .plain_windows = true, .half_turns = true,
     .without_window = {.period = 4, .first = true}, .gated_attention = true, .own_settings = true, .silu_limits = true, .scoring = ROUTER_SIGMOID,
     .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}},
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"use_head_wise_attn_gate", true, true}, {"use_moe_router_bias", true, true},
                  {"zero_centered", true, true}, {"norm_expert_weight", true, true}},
     TENSORS(step35_tensors, step35_layer)},
    {.name = "hy_v3", .model_type = "hy_v3", .architecture = "HYV3ForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 11158840, .dense_unsaid = true, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}, {"router_scaling_factor", 2.826}},
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"route_norm", true, true}, {"qk_norm", true, true},
                  {"moe_router_use_sigmoid", true, true}},
     TENSORS(llama_tensors, hy_v3_layer)},
    /* Ling 2.0 and Ring 2.0 */
    {.name = "bailingmoe2", .model_type = "bailing_moe", .architecture = "BailingMoeV2ForCausalLM", LING2},
    {.name = "bailingmoe2", .model_type = "bailing_moe_v2", .architecture = "BailingMoeV2ForCausalLM", LING2},
    /* Sarvam 30B: GGUF has no architecture for it */
    {.name = "bailingmoe2", .model_type = "sarvam_moe", .architecture = "SarvamMoEForCausalLM", BAILING, .rope_base = 8000000,
     .defaults = {{"head_dim", 64}, {"routed_scaling_factor", 2.5}, ONE_GROUP}},
    {.name = "hunyuan-moe", .model_type = "hunyuan_v1_moe", .architecture = "HunYuanMoEV1ForCausalLM",
     .pairing = ROPE_HALVES, .norm_turned = true, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, HUNYUAN_SETTINGS}, TENSORS(llama_tensors, hunyuan_moe_layer)},
    {.name = "hunyuan-dense", .model_type = "hunyuan_v1_dense", .architecture = "HunYuanDenseV1ForCausalLM",
     .pairing = ROPE_HALVES, .norm_turned = true, .default_epsilon = 1e-5f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, HUNYUAN_SETTINGS}, TENSORS(llama_tensors, hunyuan_layer)},
    {.name = "dots1", .model_type = "dots1", .architecture = "Dots1ForCausalLM",
     .pairing = ROPE_HALVES, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .unshared = true,
     .activation = FFN_SILU, .defaults = {ONE_GROUP}, .required = {NO_ATTENTION_BIAS, {"use_sliding_window", false, false}},
     TENSORS(llama_tensors, dots1_layer)},
    {.name = "deepseek", .model_type = "deepseek", .architecture = "DeepseekForCausalLM",
     .unshared = true, .file_unshared = true, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, deepseek_layer)},
    {.name = "deepseek2", .model_type = "deepseek_v2", .architecture = "DeepseekV2ForCausalLM", DEEPSEEK,
     .default_epsilon = 1e-6f, .unshared = true, .scoring = ROUTER_SOFTMAX},
    {.name = "deepseek2", .model_type = "deepseek_v3", .architecture = "DeepseekV3ForCausalLM", DEEPSEEK, .scoring = ROUTER_SIGMOID,
     .default_epsilon = 1e-6f, DEEPSEEK_GROUPS},
    {.name = "deepseek2", .model_type = "kimi_k2", .architecture = "DeepseekV3ForCausalLM", DEEPSEEK, .scoring = ROUTER_SIGMOID,
     .default_epsilon = 1e-6f},
    /* GLM-4.7-Flash */
    {.name = "deepseek2", .model_type = "glm4_moe_lite", .architecture = "Glm4MoeLiteForCausalLM", DEEPSEEK, .scoring = ROUTER_SIGMOID,
     .default_epsilon = 1e-5f, .defaults = {{"routed_scaling_factor", 1.8}, ONE_GROUP}},
    /* Youtu-LLM: the same without experts */
    {.name = "deepseek2", .model_type = "youtu", .architecture = "YoutuForCausalLM", DEEPSEEK, .default_epsilon = 1e-6f, .folder_tied = true},
    {.name = "mistral4", .model_type = "mistral4", .architecture = "Mistral4ForCausalLM", DEEPSEEK, .rope_said = true, .default_epsilon = 1e-6f,
     .scoring = ROUTER_SOFTMAX, .defaults = {ONE_GROUP}},
    {.name = "deepseek32", .model_type = "deepseek_v32", .architecture = "DeepseekV32ForCausalLM", DEEPSEEK_CHOOSES,
     .default_epsilon = 1e-6f, .index_pairing = ROPE_HALVES, DEEPSEEK_GROUPS, TENSORS(llama_tensors, deepseek32_layer)},
    {.name = "deepseek4", .model_type = "deepseek_v4", .architecture = "DeepseekV4ForCausalLM",
     .summaries = true, .latent_alike = true, .folder_window = true, .default_window = 128, .wiring = WIRING_CONNECTED, .silu_limits = true,
     .limits_first = true, .scoring = ROUTER_ROOT_SOFTPLUS, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 512}, {"routed_scaling_factor", 1.5}}, .required = {NO_ATTENTION_BIAS}, TENSORS(deepseek4_tensors, deepseek4_layer)},
    {.name = "glm-dsa", .model_type = "glm_moe_dsa", .architecture = "GlmMoeDsaForCausalLM", DEEPSEEK_CHOOSES, .default_epsilon = 1e-5f,
     .defaults = {{"routed_scaling_factor", 2.5}, ONE_GROUP},
     TENSORS(llama_tensors, deepseek32_layer)},
    {.name = "hy_v4", .model_type = "hy_v4", .architecture = "HYV4ForCausalLM", DEEPSEEK_CHOOSES, .latent_alike = true, .index_alike = true,
     .index_last = true, .gated_attention = true, .wiring = WIRING_CONNECTED, .unmixed_streams = true, .silu_limits = true, .limits_first = true,
     .limits_experts = true, .default_epsilon = 1e-5f, .defaults = {{"routed_scaling_factor", 2.827}, ONE_GROUP}, TENSORS(hy4_tensors, hy4_layer)},
    /* PLM: latent attention, and a network without a gate */
    {.name = "plm", .model_type = "plm", .architecture = "PLMForCausalLM",
     .latent_attention = true, .joined_heads = true, .default_epsilon = 1e-6f, .folder_tied = true, .gating = FFN_PLAIN, .activation = FFN_RELU2,
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(llama_tensors, plm_layer)},
    {.name = "ernie4_5-moe", .model_type = "ernie4_5_moe", .architecture = "Ernie4_5_MoeForCausalLM",
     .rope_base = 500000, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f, .folder_tied = true,
     .activation = FFN_SILU, .required = {{"use_bias", false, false}}, TENSORS(llama_tensors, ernie4_5_layer)},
    {.name = "olmoe", .model_type = "olmoe", .architecture = "OlmoeForCausalLM",
     .pairing = ROPE_HALVES, .norm_whole = true, .unshared = true, .file_unshared = true, .default_epsilon = 1e-5f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, olmoe_layer)},
    {.name = "minimax-m2", .model_type = "minimax_m2", .architecture = "MiniMaxM2ForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 5000000, .norm_whole = true, .scoring = ROUTER_SIGMOID, .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {{"use_routing_bias", true, true}, {"use_qk_norm", true, true}},
     TENSORS(llama_tensors, minimax_m2_layer)},
    {.name = "minimax-m3", .model_type = "minimax_m3_vl_text", .architecture = "MiniMaxM3SparseForConditionalGeneration", MINIMAX_M3},
    {.name = "minimax-m3", .model_type = "minimax_m3", .architecture = "MiniMaxM3SparseForConditionalGeneration", MINIMAX_M3},
    {.name = "minimax-m3", .model_type = "minimax_m3", .architecture = "MiniMaxM3SparseForCausalLM", MINIMAX_M3}, /* its text alone */
    {.name = "qwen2moe", .model_type = "qwen2_moe", .architecture = "Qwen2MoeForCausalLM",
     .pairing = ROPE_HALVES, .expert_width = "moe_intermediate_size", .unshared = true, .file_unshared = true,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_moe_layer)},
    {.name = "granitemoe", .model_type = "granitemoe", .architecture = "GraniteMoeForCausalLM",
     .unit_scale = true, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, granite_moe_layer)},
    {.name = "granitemoe", .model_type = "granitemoeshared", .architecture = "GraniteMoeSharedForCausalLM",
     .unit_scale = true, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, granite_moe_layer)},
    {.name = "gpt-oss", .model_type = "gpt_oss", .architecture = "GptOssForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 150000, .rope_said = true, .folder_window = true, .default_window = 128, .without_window = {.period = 2},
     .fixed_activation = true, .default_threshold = 7, .activation = FFN_SWIGLU_CLAMPED,
     .defaults = {{"head_dim", 64}}, .required = {{"attention_bias", true, true}}, TENSORS(llama_tensors, gpt_oss_layer)},
    /* TurboSparse: mistral with a ReLU on gate and on up */
    {.name = "bamboo", .model_type = "bamboo", .architecture = "BambooForCausalLM",
     .folder_window = true, .gating = FFN_GATED_BOTH,
     .activation = FFN_RELU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* MiniCPM-S: with factors on embeddings, blocks and logits */
    {.name = "minicpm", .model_type = "minicpm", .architecture = "MiniCPMForCausalLM", .scaled = true,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    {.name = "smollm3", .model_type = "smollm3", .architecture = "SmolLM3ForCausalLM",
     .rope_base = 2e6f, .without_rotary = {.period = 4}, .folder_tied = true,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"use_sliding_window", false, false}},
     TENSORS(llama_tensors, llama_layer)},
    {.name = "arcee", .model_type = "arcee", .architecture = "ArceeForCausalLM",
     .gating = FFN_PLAIN, .activation = FFN_RELU2, .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}},
     TENSORS(llama_tensors, arcee_layer)},
    /* Cosmos 3 Edge, its text: GGUF has no architecture for it */
    {.name = "arcee", .model_type = "cosmos3_edge_text", .architecture = "Cosmos3EdgeForConditionalGeneration",
     .rope_base = 1e8f, .default_epsilon = 1e-5f, .gating = FFN_PLAIN, .activation = FFN_RELU2, .defaults = {{"head_dim", 128}},
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(llama_tensors, arcee_layer)},
    {.name = "apertus", .model_type = "apertus", .architecture = "ApertusForCausalLM", APERTUS},
    /* 1.5: with embeddings of pictures and sound behind those of text */
    {.name = "apertus", .model_type = "apertus1p5_text", .architecture = "Apertus1p5TextForCausalLM", APERTUS,
     .said_alone = true},
    {.name = "bitnet-b1.58", .model_type = "bitnet", .architecture = "BitNetForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 500000, .ternary = true,
     .activation = FFN_RELU2, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, bitnet_layer)},
    {.name = "qwen2", .model_type = "qwen2", .architecture = "Qwen2ForCausalLM",
     .pairing = ROPE_HALVES,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_layer)},
    {.name = "qwen3", .model_type = "qwen3", .architecture = "Qwen3ForCausalLM",
     .pairing = ROPE_HALVES,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS, {"use_sliding_window", false, false}},
     TENSORS(llama_tensors, qwen3_layer)},
    /* Qwen's models of text and pictures: of text alone, the three positions of a token are one */
    {.name = "qwen2vl", .model_type = "qwen2_5_vl_text", .architecture = "Qwen2_5_VLForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 1e6f,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_layer)},
    {.name = "qwen2vl", .model_type = "qwen2_5_vl", .architecture = "Qwen2_5_VLForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 1e6f,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_layer)},
    {.name = "qwen2vl", .model_type = "qwen2_vl", .architecture = "Qwen2VLForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 1e6f,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_layer)},
    {.name = "qwen2vl", .model_type = "qwen2_vl_text", .architecture = "Qwen2VLForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 1e6f,
     .activation = FFN_SILU, .required = {{"use_sliding_window", false, false}}, TENSORS(llama_tensors, qwen2_layer)},
    {.name = "qwen3vl", .model_type = "qwen3_vl_text", .architecture = "Qwen3VLForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 500000, .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, qwen3_layer)},
    {.name = "qwen3vlmoe", .model_type = "qwen3_vl_moe_text", .architecture = "Qwen3VLMoeForConditionalGeneration",
     .pairing = ROPE_HALVES, .rope_base = 500000, .default_epsilon = 1e-6f, .expert_width = "moe_intermediate_size",
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, qwen3_moe_layer)},
    {.name = "granite", .model_type = "granite", .architecture = "GraniteForCausalLM",
     .unit_scale = true, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, llama_layer)},
    /* Granite's arithmetic, but that a factor multiplies logits; a GGUF file of it is hearth's own */
    {.name = "hyperclovax", .model_type = "hyperclovax", .architecture = "HyperCLOVAXForCausalLM",
     .pairing = ROPE_HALVES, .logit_factor = 1, .default_epsilon = 1e-6f, .activation = FFN_SILU,
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}, {"use_post_norm", true, true}}, TENSORS(llama_tensors, hyperclovax_layer)},
    /* Granite with windows, dense and with experts, which have one name in GGUF */
    {.name = "granite_swa", .model_type = "granite_swa", .architecture = "GraniteSWAForCausalLM", GRANITE_SWA, .default_epsilon = 1e-5f},
    {.name = "granite_swa", .model_type = "granitemoe_swa", .architecture = "GraniteMoeSWAForCausalLM", GRANITE_SWA, .default_epsilon = 1e-6f},
    /* Granite 4 without recurrent layers */
    {.name = "granite", .model_type = "granitemoehybrid", .architecture = "GraniteMoeHybridForCausalLM",
     .unit_scale = true, .default_epsilon = 1e-6f, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS},
     TENSORS(llama_tensors, granite4_layer)},
    {.name = "ernie4_5", .model_type = "ernie4_5", .architecture = "Ernie4_5ForCausalLM",
     .rope_base = 500000, .default_epsilon = 1e-5f, .folder_tied = true,
     .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {{"use_bias", false, false}}, TENSORS(llama_tensors, ernie4_5_layer)},
    {.name = "seed_oss", .model_type = "seed_oss", .architecture = "SeedOssForCausalLM",
     .pairing = ROPE_HALVES, .activation = FFN_SILU,
     .defaults = {{"head_dim", 128}}, .required = {{"attention_bias", true, true}, {"attention_out_bias", false, false}, {"mlp_bias", false, false}},
     TENSORS(llama_tensors, seed_oss_layer)},
    {.name = "glm4", .model_type = "glm4", .architecture = "Glm4ForCausalLM",
     .rotated_share = 0.5f, .sections_halve = true, .default_epsilon = 1.5625e-7f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, TENSORS(llama_tensors, glm4_layer)},
    /* GLM-4.1V, GLM-4.6V-Flash */
    {.name = "glm4", .model_type = "glm4v_text", .architecture = "Glm4vForConditionalGeneration",
     .default_epsilon = 1e-5f, .activation = FFN_SILU, TENSORS(llama_tensors, glm4_layer)},
    {.name = "chatglm", .model_type = "glm", .architecture = "GlmForCausalLM",
     .rotated_share = 0.5f, .default_epsilon = 1.5625e-7f, .activation = FFN_SILU, .defaults = {{"head_dim", 128}},
     TENSORS(llama_tensors, chatglm_layer)},
    /* EXAONE 3.0 and 3.5, Deep */
    {.name = "exaone", .model_type = "exaone", .architecture = "ExaoneForCausalLM",
     .epsilon = "layer_norm_epsilon", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rope_base = 500000, .activation = FFN_SILU,
     .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}}, TENSORS(exaone_tensors, exaone_layer)},
    {.name = "exaone4", .model_type = "exaone4", .architecture = "Exaone4ForCausalLM",
     .pairing = ROPE_HALVES, .windows_rotate = true, .folder_window = true, .default_window = 4096, .without_window = {.period = 4},
     .default_epsilon = 1e-5f, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, exaone4_layer)},
    /* Command R */
    {.name = "command-r", .model_type = "cohere", .architecture = "CohereForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .rope_base = 500000, .wiring = WIRING_PARALLEL,
     .logit_factor = 0.0625f, .folder_tied = true, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"use_qk_norm", false, false}},
     TENSORS(cohere_tensors, cohere_layer)},
    {.name = "cohere2", .model_type = "cohere2", .architecture = "Cohere2ForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .wiring = WIRING_PARALLEL, .logit_factor = 0.0625f,
     .windows_rotate = true, .folder_window = true, .default_window = 4096, .without_window = {.period = 4},
     .folder_tied = true, .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(cohere_tensors, cohere_layer)},
    {.name = "cohere2moe", .model_type = "cohere2_moe", .architecture = "Cohere2MoeForCausalLM",
     .norm = NORM_LAYER, .norm_by_key = true, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .wiring = WIRING_PARALLEL,
     .logit_factor = 0.0625f, .windows_rotate = true, .dense_rotate = true, .folder_window = true, .default_window = 4096,
     .without_window = {.period = 4, .first = true}, .scoring = ROUTER_SIGMOID, .shared_average = true, .file_unshared = true,
     .expert_width = "intermediate_size",
     .folder_tied = true, .activation = FFN_SILU, .defaults = {{"head_dim", 128}}, .required = {NO_ATTENTION_BIAS}, TENSORS(cohere_tensors, cohere2_moe_layer)},
    {.name = "starcoder2", .model_type = "starcoder2", .architecture = "Starcoder2ForCausalLM",
     .norm = NORM_LAYER, .epsilon = "norm_epsilon", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .folder_window = true,
     .folder_tied = true, .gating = FFN_PLAIN, .activation = FFN_GELU_TANH, .required = {{"use_bias", true, true}},
     TENSORS(layernorm_tensors, starcoder2_layer)},
    {.name = "olmo2", .model_type = "olmo2", .architecture = "Olmo2ForCausalLM",
     /* OLMo 3 has this name in GGUF, too: with windows in three of four layers, of which yarn scales the others alone */
     .pairing = ROPE_HALVES, .norm_whole = true, .without_window = {.period = 4}, .plain_windows = true,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, olmo2_layer)},
    {.name = "olmo2", .model_type = "olmo3", .architecture = "Olmo3ForCausalLM",
     .pairing = ROPE_HALVES, .rope_base = 500000, .norm_whole = true, .folder_window = true, .default_window = 4096, .without_window = {.period = 4},
     .plain_windows = true, .default_epsilon = 1e-5f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS}, TENSORS(llama_tensors, olmo2_layer)},
    {.name = "phi2", .model_type = "phi", .architecture = "PhiForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rotated_share = 0.5f,
     .wiring = WIRING_PARALLEL, .gating = FFN_PLAIN, .activation = FFN_GELU_TANH, .required = {{"qk_layernorm", false, false}},
     TENSORS(phi2_tensors, phi2_layer)},
    {.name = "phi3", .model_type = "phi3", .architecture = "Phi3ForCausalLM",
     .pairing = ROPE_HALVES, .folder_window = true,
     .activation = FFN_SILU, TENSORS(phi3_tensors, phi3_layer)},
    {.name = "gemma", .model_type = "gemma", .architecture = "GemmaForCausalLM",
     .pairing = ROPE_HALVES, .embedding_by_width = true, .folder_tied = true, .default_epsilon = 1e-6f,
     .defaults = {{"head_dim", 256}}, .fixed_activation = true,
     .activation = FFN_GELU_TANH, .required = {NO_ATTENTION_BIAS}, TENSORS(gemma_tensors, gemma_layer)},
    {.name = "gemma2", .model_type = "gemma2", .architecture = "Gemma2ForCausalLM",
     .pairing = ROPE_HALVES, .folder_window = true, .default_window = 4096, .file_window = 4096, .without_window = {.period = 2},
     .score_cap = 50, .logit_cap = 30, .embedding_by_width = true, .scale_by_width = 46, .folder_tied = true,
     .defaults = {{"head_dim", 256}, {"query_pre_attn_scalar", 256}},
     .activation = FFN_GELU_TANH, .required = {NO_ATTENTION_BIAS}, TENSORS(gemma_tensors, gemma2_layer)},
    {.name = "gemma3", .model_type = "gemma3_text", .architecture = "Gemma3ForCausalLM",
     .pairing = ROPE_HALVES, .folder_window = true, .default_window = 4096, .without_window = {.period = 6},
     .rope_base = 1e6f, .window_base = 10000, .default_epsilon = 1e-6f,
     .defaults = {{"vocab_size", 262208}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"head_dim", 256},
               {"max_position_embeddings", 131072}, {"query_pre_attn_scalar", 256}},
     .embedding_by_width = true, .scale_by_width = 62, .folder_tied = true,
     .activation = FFN_GELU_TANH, .required = {NO_ATTENTION_BIAS, {"use_bidirectional_attention", false, false}}, TENSORS(gemma_tensors, gemma3_layer)},
    {.name = "gemma4", .model_type = "gemma4_text", .architecture = "Gemma4ForCausalLM", GEMMA4, .default_window = 512},
    /* Gemma 4 12B, of text, pictures and sounds */
    {.name = "gemma4", .model_type = "gemma4_unified_text", .architecture = "Gemma4UnifiedForCausalLM", GEMMA4, .default_window = 1024},
    {.name = "gemma3n", .model_type = "gemma3n_text", .architecture = "Gemma3nForCausalLM",
     .pairing = ROPE_HALVES, .folder_window = true, .default_window = 512, .without_window = {.period = 5},
     .rope_base = 1e6f, .window_base = 10000, .default_epsilon = 1e-6f, .norm_values = true, .unit_scale = true,
     .wiring = WIRING_STREAMS, .logit_cap = 30, .embedding_by_width = true, .folder_tied = true, .activation = FFN_GELU_TANH,
     .defaults = {{"head_dim", 256}}, .required = {NO_ATTENTION_BIAS, {"altup_correct_scale", true, true}}, TENSORS(gemma3n_tensors, gemma3n_layer)},
    {.name = "jais2", .model_type = "jais2", .architecture = "Jais2ForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES,
     .gating = FFN_PLAIN, .activation = FFN_RELU2, .required = {{"attention_bias", true, true}, {"mlp_bias", true, true}},
     TENSORS(layernorm_tensors, jais2_layer)},
    /* llama.cpp has no such architecture: a GGUF file of it is hearth's own */
    {.name = "nanochat", .model_type = "nanochat", .architecture = "NanoChatForCausalLM",
     .default_epsilon = 1e-6f, .embedding_norm = true, .plain_norms = true, .pairing = ROPE_HALVES, .turns_back = true, .norm_plain = true,
     .logit_cap = 15, .gating = FFN_PLAIN, .activation = FFN_RELU2, .required = {NO_ATTENTION_BIAS}, TENSORS(nanochat_tensors, nanochat_layer)},
    {.name = "nemotron", .model_type = "nemotron", .architecture = "NemotronForCausalLM",
     .norm = NORM_LAYER, .epsilon = "norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rotated_share = 0.5f,
     .gating = FFN_PLAIN, .activation = FFN_RELU2, .required = {NO_ATTENTION_BIAS, {"mlp_bias", false, false}},
     TENSORS(nemotron_tensors, nemotron_layer)},
    /* In GGUF hearth's own: llama.cpp's old files of a persimmon have the rows of each head's query, key and value together */
    {.name = "persimmon-hearth", .model_type = "persimmon", .architecture = "PersimmonForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rotated_share = 0.5f,
     .gating = FFN_PLAIN, .activation = FFN_RELU2, .required = {{"qk_layernorm", true, true}}, TENSORS(persimmon_tensors, persimmon_layer)},
    {.name = "nemotron_h", .model_type = "nemotron_h", .architecture = "NemotronHForCausalLM",
     .epsilon = "layer_norm_epsilon", .unrotated = true, .mixers = MIXERS_BLOCKS, .recurrence = RECURRENCE_MAMBA2,
     .gating = FFN_PLAIN, .activation = FFN_RELU2, .defaults = {{"head_dim", 128}}, .required = {NEMOTRON_H_SETTINGS},
     TENSORS(nemotron_h_tensors, nemotron_h_layer)},
    /* Nemotron 3: the networks have experts */
    {.name = "nemotron_h_moe", .model_type = "nemotron_h", .architecture = "NemotronHForCausalLM", NEMOTRON_H_MOE},
    /* Nemotron 3 Puzzle: each layer's experts have their own width, and a token uses as many as the layer says */
    {.name = "nemotron_h_moe", .model_type = "nemotron_h_puzzle", .architecture = "NemotronHPuzzleForCausalLM", NEMOTRON_H_MOE},
    /* Granite 4 */
    {.name = "granitehybrid", .model_type = "granitemoehybrid", .architecture = "GraniteMoeHybridForCausalLM",
     .unrotated = true, .mixers = MIXERS_KEYS, .recurrence = RECURRENCE_MAMBA2, .unit_scale = true, .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"mamba_proj_bias", false, false}, {"mamba_conv_bias", true, true}},
     TENSORS(llama_tensors, granite_hybrid_layer)},
    {.name = "lfm2", .model_type = "lfm2", .architecture = "Lfm2ForCausalLM",
     .epsilon = "norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rope_base = 1e6f, .mixers = MIXERS_KEYS,
     .recurrence = RECURRENCE_SHORT, .folder_tied = true, .width_adjusted = true, .fixed_activation = true, .activation = FFN_SILU,
     .required = {{"conv_bias", false, false}}, TENSORS(lfm2_tensors, lfm2_layer)},
    {.name = "lfm2moe", .model_type = "lfm2_moe", .architecture = "Lfm2MoeForCausalLM",
     .epsilon = "norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rope_base = 1e6f, .mixers = MIXERS_KEYS,
     .recurrence = RECURRENCE_SHORT, .dense_unsaid = true, .scoring = ROUTER_SIGMOID, .expert_width = "moe_intermediate_size", .folder_tied = true,
     .fixed_activation = true, .activation = FFN_SILU, .required = {{"conv_bias", false, false}}, TENSORS(lfm2_tensors, lfm2_moe_layer)},
    /* a GGUF file of it is hearth's own */
    {.name = "lfm3", .model_type = "lfm3", .architecture = "Lfm3ForCausalLM",
     .epsilon = "norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rope_said = true, .rope_base = 1e6f, .window_base = 10000, .folder_window = true,
     .windows_listed = true, .default_window = 256, .plain_windows = true, .mixers = MIXERS_KEYS, .recurrence = RECURRENCE_SHORT,
     .gated_attention = true, .folder_tied = true, .fixed_activation = true, .activation = FFN_SILU, .defaults = {{"head_dim", 128}, {"conv_L_cache", 7}},
     .required = {NO_ATTENTION_BIAS, {"conv_bias", false, false}, {"use_sandwich_norm", true, true}, {"use_attention_gate", true, true}},
     TENSORS(lfm3_tensors, lfm3_layer)},
    {.name = "qwen35", .model_type = "qwen3_5_text", .architecture = "Qwen3_5ForCausalLM",
     .pairing = ROPE_HALVES, .rotated_share = 0.25f, .mixers = MIXERS_LISTED, .recurrence = RECURRENCE_DELTA, .gated_attention = true,
     .activation = FFN_SILU, .defaults = {{"head_dim", 256}}, .required = {NO_ATTENTION_BIAS, {"attn_output_gate", true, true}},
     TENSORS(gemma_tensors, qwen35_layer)},
    {.name = "qwen35moe", .model_type = "qwen3_5_moe_text", .architecture = "Qwen3_5MoeForCausalLM",
     .pairing = ROPE_HALVES, .rotated_share = 0.25f, .mixers = MIXERS_LISTED, .recurrence = RECURRENCE_DELTA, .gated_attention = true,
     .expert_width = "moe_intermediate_size",
     .activation = FFN_SILU, .defaults = {{"head_dim", 256}}, .required = {NO_ATTENTION_BIAS, {"attn_output_gate", true, true}},
     TENSORS(gemma_tensors, qwen35_moe_layer)},
    {.name = "qwen3next", .model_type = "qwen3_next", .architecture = "Qwen3NextForCausalLM",
     .pairing = ROPE_HALVES, .rotated_share = 0.25f, .mixers = MIXERS_LISTED, .recurrence = RECURRENCE_DELTA, .gated_attention = true,
     .neighbours_share = true, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .defaults = {{"head_dim", 256}}, .required = {NO_ATTENTION_BIAS}, TENSORS(gemma_tensors, qwen3_next_layer)},
    {.name = "qwen4exp", .model_type = "qwen4_exp_text", .architecture = "Qwen4ExpForCausalLM",
     .pairing = ROPE_HALVES, .mixers = MIXERS_LISTED, .recurrence = RECURRENCE_DELTA, .gate_logistic = true,
     .gated_attention = true, .chooses_positions = true, .pools_positions = true, .pools_plainly = true, .wiring = WIRING_CONNECTED,
     .gated_connections = true, .ngrams = true, .expert_width = "moe_intermediate_size", .default_epsilon = 1e-6f,
     .activation = FFN_SILU, .required = {NO_ATTENTION_BIAS, {"attn_output_gate", true, true}}, TENSORS(qwen4_exp_tensors, qwen4_exp_layer)},
    {.name = "rwkv7", .model_type = "rwkv7", .architecture = "RWKV7ForCausalLM",
     .norm = NORM_LAYER, .epsilon = "norm_eps", .default_epsilon = 1e-5f, .unrotated = true, .mixers = MIXERS_RECURRENT,
     .recurrence = RECURRENCE_RWKV7, .ffn_widths = 4, .defaults = {{"max_position_embeddings", 2048}}, .gating = FFN_PLAIN,
     .activation = FFN_RELU2, .required = {{"norm_bias", true, true}, {"norm_first", true, true}}, TENSORS(rwkv7_tensors, rwkv7_layer)},
    {.name = "kimi-linear", .model_type = "kimi_linear", .architecture = "KimiLinearForCausalLM",
     .latent_attention = true, .unrotated = true, .mixers = MIXERS_KEYS, .recurrence = RECURRENCE_KDA, .scoring = ROUTER_SIGMOID,
     .expert_width = "moe_intermediate_size", .default_epsilon = 1e-5f, .activation = FFN_SILU,
     .defaults = {{"routed_scaling_factor", 2.446}, {"num_expert_group", 1}, {"topk_group", 1}},
     .required = {NO_ATTENTION_BIAS, {"mla_use_nope", true, true}}, TENSORS(llama_tensors, kimi_linear_layer)},
    /* Ling 3: Kimi Delta Attention whose decays have a floor, and latent attention with a gate for each head */
    {.name = "bailingmoe3", .model_type = "bailing_hybrid", .architecture = "BailingHybridForCausalLM", LING3},
    {.name = "bailingmoe3", .model_type = "bailing_hybrid", .architecture = "BailingMoeV3ForCausalLM", LING3},
    /* GLM-5.3-Flash: the same mixers, latent attention to positions that are chosen in groups, streams of the residual */
    {.name = "glm5-next", .model_type = "glm5_next_text", .architecture = "Glm5NextForConditionalGeneration", GLM5_NEXT},
    {.name = "glm5-next", .model_type = "glm5_next", .architecture = "Glm5NextForCausalLM", GLM5_NEXT}, /* its text alone */
    {.name = "glm5next", .model_type = "glm5_next", .architecture = "Glm5NextForCausalLM", GLM5_NEXT}, /* as it was published in GGUF */
    {.name = "falcon", .model_type = "falcon", .architecture = "FalconForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_epsilon", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES,
     .wiring = WIRING_PARALLEL, .ffn_widths = 4, .defaults = {{"max_position_embeddings", 2048}}, .folder_tied = true, .gating = FFN_PLAIN, .activation = FFN_GELU,
     .required = {{"alibi", false, false}, {"bias", false, false}, {"parallel_attn", true, true}},
     TENSORS(falcon_tensors, falcon_layer)},
    /* GPT-NeoX, Pythia */
    {.name = "gptneox", .model_type = "gpt_neox", .architecture = "GPTNeoXForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rotated_share = 0.25f,
     .rotary_names = true, .wiring = WIRING_PARALLEL, .wiring_said = true, .gating = FFN_PLAIN, .activation = FFN_GELU,
     .required = {{"attention_bias", true, true}}, TENSORS(gpt_neox_tensors, gpt_neox_layer)},
    /* StableLM 3B, Zephyr, StableLM 2 1.6B */
    {.name = "stablelm", .model_type = "stablelm", .architecture = "StableLmForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .pairing = ROPE_HALVES, .rotated_share = 0.25f,
     .activation = FFN_SILU, .required = {{"use_parallel_residual", false, false}, {"qk_layernorm", false, false}},
     TENSORS(layernorm_tensors, stablelm_layer)},
    {.name = "gpt2", .model_type = "gpt2", .architecture = "GPT2LMHeadModel",
     .norm = NORM_LAYER, .epsilon = "layer_norm_epsilon", .default_epsilon = 1e-5f, .unrotated = true, .ffn_widths = 4,
     .folder_tied = true, .gating = FFN_PLAIN, .activation = FFN_GELU_TANH,
     .required = {{"scale_attn_weights", true, true}, {"scale_attn_by_inverse_layer_idx", false, false}},
     TENSORS(gpt2_tensors, gpt2_layer)},
    {.name = "opt", .model_type = "opt", .architecture = "OPTForCausalLM",
     .norm = NORM_LAYER, .epsilon = "layer_norm_eps", .default_epsilon = 1e-5f, .unrotated = true, .dropped_positions = 2,
     .folder_tied = true, .gating = FFN_PLAIN, .activation = FFN_RELU,
     .required = {{"do_layer_norm_before", true, true}, {"enable_bias", true, true},
                  {"layer_norm_elementwise_affine", true, true}, {"_remove_final_layer_norm", false, false}},
     TENSORS(opt_tensors, opt_layer)},
};
const size_t family_count = COUNT(families);
// clang-format on

ffn_activation ffn_activation_by_name(const char *name, size_t size)
{
    const span wanted = {name, size};
    for (size_t i = 0; i < FFN_ACTIVATION_COUNT; i++) {
        const ffn_activation_row *row = &ffn_activations[i];
        const char *const names[] = {row->name, row->other_names[0], row->other_names[1]};
        for (size_t n = 0; n < COUNT(names); n++)
            if (names[n] && span_equal(span_of(names[n]), wanted))
                return (ffn_activation)i;
    }
    return FFN_ACTIVATION_COUNT;
}

void append_name(char *out, size_t size, const char *name)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
}

void ffn_activation_list(char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < FFN_ACTIVATION_COUNT; i++)
        append_name(out, size, ffn_activations[i].name);
}

const family *family_by_name(span name)
{
    for (size_t i = 0; i < family_count; i++)
        if (span_equal(span_of(families[i].name), name))
            return &families[i];
    return NULL;
}

bool tensor_rule_is_single(const tensor_rule *rule, bool folder)
{
    const char *pattern = folder ? rule->folder_name : rule->name, *layer = pattern ? strstr(pattern, "%u") : NULL;
    if (rule->stack != DIMENSION_NONE)
        return folder;
    return layer && strstr(layer + 1, "%u");
}

void tensor_rule_name(char out[TENSOR_NAME_SIZE], const tensor_rule *rule, uint32_t layer, bool folder)
{
    const char *pattern =
        folder && rule->folder_name && !tensor_rule_is_single(rule, true) ? rule->folder_name : rule->name;
    snprintf(out, TENSOR_NAME_SIZE, pattern, layer);
}

/* Reads a plain decimal number without leading zeros; returns what follows it, NULL where there is none. */
static const char *read_number(const char *digits, uint32_t *out)
{
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 9 || (digits[0] == '0' && count > 1))
        return NULL;
    *out = 0;
    for (size_t i = 0; i < count; i++)
        *out = *out * 10 + (uint32_t)(digits[i] - '0');
    return digits + count;
}

/* Returns true where name is the pattern with a number in place of each %u: the layer, then the expert; 0 where the
 * pattern has no %u for them. */
static bool matches(const char *pattern, const char *name, uint32_t *layer, uint32_t *expert)
{
    uint32_t *const numbers[] = {layer, expert};
    *layer = *expert = 0;
    for (size_t i = 0;; i++) {
        const char *hole = strstr(pattern, "%u");
        if (!hole || i == COUNT(numbers))
            return strcmp(pattern, name) == 0;
        size_t before = (size_t)(hole - pattern);
        if (strncmp(pattern, name, before) != 0)
            return false;
        name = read_number(name + before, numbers[i]);
        if (!name)
            return false;
        pattern = hole + 2;
    }
}

static const tensor_rule *find_in(const tensor_rule *rules, size_t count, const char *name, bool folder,
                                  uint32_t *layer, uint32_t *expert)
{
    for (size_t i = 0; i < count; i++) {
        const char *pattern = folder ? rules[i].folder_name : rules[i].name;
        if (pattern && matches(pattern, name, layer, expert))
            return &rules[i];
    }
    return NULL;
}

const tensor_rule *family_find_rule(const family *f, const char *name, bool folder, uint32_t *layer, uint32_t *expert)
{
    const tensor_rule *rule = find_in(f->layer_tensors, f->layer_tensor_count, name, folder, layer, expert);
    return rule ? rule : find_in(f->tensors, f->tensor_count, name, folder, layer, expert);
}

const tensor_rule *family_next_rule(const family *f, const tensor_rule *rule)
{
    for (const tensor_rule *r = rule + 1; r < f->layer_tensors + f->layer_tensor_count; r++)
        if (rule >= f->layer_tensors && rule->folder_name && r->folder_name &&
            strcmp(rule->folder_name, r->folder_name) == 0)
            return r;
    return NULL;
}

/* Returns whether layers can have a tensor of this field; `unless`: by a rule without these flags. */
static bool has_rule(const family *f, size_t field, unsigned unless)
{
    for (const tensor_rule *r = f->layer_tensors; r < f->layer_tensors + f->layer_tensor_count; r++)
        if (r->field == field && !(r->flags & unless))
            return true;
    return false;
}

bool family_has_network(const family *f, bool experts)
{
    return has_rule(f, LAYER(down), experts ? TENSOR_OF_DENSE : TENSOR_OF_EXPERTS);
}

bool family_has_shared_expert(const family *f)
{
    return has_rule(f, LAYER(shared.down), 0);
}

bool family_has_latent_experts(const family *f)
{
    return has_rule(f, LAYER(latent_in), 0);
}
