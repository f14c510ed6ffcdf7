/* engine_published.c - folders as they were published, where they differ from what transformers and llama.cpp make
 * today: goldens, changed to that form, must give the same logits or be refused by name. One long file of short tests: each
 * is a config and what replaces a tensor, and all go through open_as. */
#include "../src/engine/engine.h"

#include "published.h"

/* ------------------------------------------------------------------ folders */

/* Qwen2.5-VL's config has the text's settings beside those for pictures, and names the kind of rotation. */
static void flat_config(void **state)
{
    (void)state;
    json_t *whole = config_of("qwen2-5-vl"), *flat = json_deep_copy(json_object_get(whole, "text_config"));
    json_t *rope = json_object_get(flat, "rope_parameters");
    json_object_update(flat, whole);
    json_object_del(flat, "text_config");
    json_object_set_new(rope, "type", json_string("mrope"));
    json_object_del(rope, "rope_type");
    json_object_set(flat, "rope_scaling", rope);
    json_object_del(flat, "rope_parameters");
    json_decref(whole);
    expect_same("qwen2-5-vl", flat, NULL);
}

/* ERNIE 4.5 has tensors that guess tokens ahead, under names of their own. */
static bool add_guesses(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    stored_tensor extra = *t;
    extra.name = "model.mtp_emb_norm.0.weight";
    if (strcmp(t->name, "model.norm.weight") == 0)
        assert_int_equal(checkpoint_add_tensor(to, &extra, NULL), HEARTH_OK);
    return false;
}

static void guesses_beside(void **state)
{
    (void)state;
    expect_same("ernie4-5-moe", config_of("ernie4-5-moe"), add_guesses);
}

/* dots.llm1 names sigmoids with a correction otherwise. */
static void scores_by_another_name(void **state)
{
    (void)state;
    json_t *config = config_of("dots1");
    json_object_set_new(config, "scoring_func", json_string("noaux_tc"));
    expect_same("dots1", config, NULL);
}

/* Factors of 0 say that there are none (Devstral 2); a growth needs no other scaling. */
static void factors_of_nothing(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    static const char *const zeros[] = {"llama_4_scaling_beta", "mscale", "mscale_all_dim"};
    json_t *config = config_of("ministral3"), *text = json_object_get(config, "text_config");
    json_t *rope = json_object_get(text, "rope_parameters");
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        json_object_set_new(rope, zeros[i], json_real(0));
    stack_check(open_as(&m, "ministral3", config, NULL, &error), &error);
    assert_true(m->hyper.score_growth == 0);
    assert_true(m->rotaries[0].magnitude > 1); /* yarn's own factor stays */
    hearth_model_close(m);
    json_object_set_new(rope, "llama_4_scaling_beta", json_real(0.5));
    json_object_set_new(rope, "rope_type", json_string("default"));
    stack_check(open_as(&m, "ministral3", config, NULL, &error), &error);
    assert_true(m->hyper.score_growth == 0.5f && m->hyper.score_growth_from == 16);
    hearth_model_close(m);
    json_decref(config);
}

static bool drop_queries(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strstr(t->name, "q_proj.weight") != NULL;
}

/* Its layers that guess tokens ahead lie beside the others. */
static bool add_mimo_guesses(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    stored_tensor extra = *t;
    extra.name = "model.mtp.layers.0.input_layernorm.weight";
    if (strcmp(t->name, "model.norm.weight") == 0)
        assert_int_equal(checkpoint_add_tensor(to, &extra, NULL), HEARTH_OK);
    return false;
}

/* MiMo V2 with its own names alone, with those that transformers saves, with the window as it counts it, with nothing said of
 * what transformers knows by itself, and with what guesses tokens ahead. */
static void mimo_as_published(void **state)
{
    (void)state;
    static const char *const saved[] = {"layer_types", "mlp_layer_types", "rms_norm_eps", NULL};
    static const char *const own[] = {"hybrid_layer_pattern",    "moe_layer_freq",
                                      "layernorm_epsilon",       "rope_theta",
                                      "swa_rope_theta",          "partial_rotary_factor",
                                      "swa_num_key_value_heads", "swa_head_dim",
                                      "swa_num_attention_heads", NULL};
    static const char *const known[] = {
        "rope_theta", "swa_rope_theta", "partial_rotary_factor", "attention_value_scale", "swa_num_key_value_heads",
        NULL};
    json_t *config = config_of("mimo2");
    delete_all(config, saved);
    expect_same("mimo2", config, NULL);
    config = config_of("mimo2");
    delete_all(config, own);
    json_object_set_new(config, "rope_parameters",
                        json_pack("{s:{s:f,s:f},s:{s:f,s:f}}", "full_attention", "rope_theta", 5e6,
                                  "partial_rotary_factor", 0.334, "sliding_attention", "rope_theta", 1e4,
                                  "partial_rotary_factor", 0.334));
    expect_same("mimo2", config, NULL);
    config = config_of("mimo2");
    json_object_set_new(config, "sliding_window_size", json_integer(15));
    expect_same("mimo2", config, add_mimo_guesses);
    config = config_of("mimo2");
    delete_all(config, known);
    expect_same("mimo2", config, NULL);
}

/* Changes what a layer of a Nemotron of parts has. */
static json_t *with_part(uint32_t layer, const char *part, const char *key, json_t *value)
{
    json_t *config = config_of("deci");
    json_t *block = json_array_get(json_object_get(config, "block_configs"), layer);
    assert_int_equal(json_object_set_new(json_object_get(block, part), key, value), 0);
    return config;
}

static void deci_as_published(void **state)
{
    (void)state;
    static const char of_attention[] = "attention", of_network[] = "ffn";
    json_t *config = config_of("deci");
    json_object_del(config, "num_hidden_layers");
    expect_same("deci", config, NULL);
    expect_same("deci", with_part(1, of_attention, "n_heads_in_group", json_integer(2)), NULL); /* which is no_op */
    expect_refused("deci", with_part(1, of_attention, "replace_with_linear", json_true()),
                   "block_configs: layer 1: attention: replace_with_linear: one matrix in its place is not supported");
    expect_refused("deci", with_part(0, of_attention, "window_length", json_integer(64)),
                   "layer 0: attention: sparsify, window_length and num_sink_tokens are not supported");
    expect_refused("deci", with_part(0, of_attention, "n_heads_in_group", json_integer(3)),
                   "layer 0: attention: n_heads_in_group: does not divide num_attention_heads");
    expect_refused("deci", with_part(0, of_attention, "n_heads_in_group", json_integer(-1)),
                   "layer 0: attention: n_heads_in_group: does not divide num_attention_heads");
    expect_refused("deci", with_part(5, of_network, "ffn_mult", json_real(1e300)),
                   "layer 5: ffn: ffn_mult: makes no neurons, or too many");
    expect_refused("deci", with_part(5, of_network, "ffn_mult", json_string("wide")),
                   "layer 5: ffn: ffn_mult: makes no neurons, or too many");
    hearth_model *m;
    hearth_error error;
    config = config_of("deci");
    json_array_remove(json_object_get(config, "block_configs"), 5);
    assert_int_equal(open_as(&m, "deci", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "config.json: block_configs: is not an array of one object per layer"));
    json_decref(config);
}

static void mimo_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        json_int_t value;
        const char *reason;
    } wrong[] = {{"swa_head_dim", 16, "swa_head_dim: differs from that of the other layers"},
                 {"swa_v_head_dim", 16, "swa_v_head_dim: differs from that of the other layers"},
                 {"v_head_dim", 97, "v_head_dim: is 97, expected 1 to head_dim"},
                 {"swa_num_key_value_heads", 3, "swa_num_key_value_heads: is 3, which does not divide 4 heads"},
                 {"sliding_window_size", INT64_MAX, "sliding_window_size: is not a number of positions"},
                 {"sliding_window_size", -1, "sliding_window_size: is not a number of positions"}};
    hearth_model *m;
    hearth_error error;
    json_t *config;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config = config_of("mimo2");
        json_object_set_new(config, wrong[i].key, json_integer(wrong[i].value));
        hearth_status status = open_as(&m, "mimo2", config, NULL, &error);
        assert_true(status == HEARTH_FORMAT || status == HEARTH_UNSUPPORTED);
        if (!strstr(error.text, wrong[i].reason))
            fail_msg("%s: %s", wrong[i].key, error.text);
        json_decref(config);
    }
    config = config_of("mimo2");
    json_object_del(config, "layer_types");
    json_array_set_new(json_object_get(config, "hybrid_layer_pattern"), 0, json_false());
    assert_int_equal(open_as(&m, "mimo2", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "hybrid_layer_pattern: is not an array of 0 and 1"));
    json_object_del(config, "hybrid_layer_pattern");
    assert_int_equal(open_as(&m, "mimo2", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "hybrid_layer_pattern: is missing"));
    json_decref(config);
    config = config_of("mimo2");
    json_object_set_new(config, "add_full_attention_sink_bias", json_true());
    expect_refused("mimo2", config, "add_full_attention_sink_bias");
    config = config_of("mimo2");
    assert_int_equal(open_as(&m, "mimo2", config, drop_queries, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "layer 0: tensor attn_q.weight or attn_qkv.weight: is missing"));
    json_decref(config);
}

/* Ling 3 as transformers saves it. */
static void ling_as_saved(void **state)
{
    (void)state;
    static const char *const renamed[][2] = {{"num_experts_per_tok", "num_experts_per_token"},
                                             {"norm_topk_prob", "moe_renormalize"},
                                             {"n_group", "num_expert_group"},
                                             {"max_position_embeddings", "model_max_length"}};
    json_t *config = config_of("ling3");
    json_object_del(config, "layer_group_size");
    json_object_set_new(
        config, "layer_types",
        json_pack("[s,s,s,s]", "linear_attention", "full_attention", "linear_attention", "full_attention"));
    json_object_set_new(config, "architectures", json_pack("[s]", "BailingHybridForCausalLM"));
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        json_object_set(config, renamed[i][1], json_object_get(config, renamed[i][0]));
        json_object_del(config, renamed[i][0]);
    }
    expect_same("ling3", config, NULL);
    config = config_of("ling3");
    json_object_set_new(config, "layer_group_size", json_integer(3));
    expect_refused("ling3", config, "layer_group_size: is 3, which does not divide 4 layers");
    config = config_of("ling3");
    json_object_set_new(config, "kda_safe_gate", json_false());
    expect_refused("ling3", config, "kda_safe_gate");
    config = config_of("ling3");
    json_object_set_new(config, "gated_attention_proj_granularity_type", json_string("element_wise"));
    expect_refused("ling3", config, "element_wise is not supported");
}

/* The network of a Granite 4 without experts has the width of the shared one. */
static void shared_width(void **state)
{
    (void)state;
    json_t *config = config_of("granite-hybrid");
    json_object_set_new(config, "intermediate_size", json_integer(32));
    expect_same("granite-hybrid", config, NULL);
}

/* Joins gate and up, and calls them and down as Granite 4 does. */
static bool join_network(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    char name[128], up_name[128];
    unsigned layer;
    stored_tensor joined = *t;
    if (sscanf(t->name, "model.layers.%u.", &layer) != 1 || !strstr(t->name, ".mlp."))
        return false;
    joined.name = name;
    snprintf(name, sizeof name, "model.layers.%u.shared_mlp.%s_linear.weight", layer,
             strstr(t->name, "down_proj") ? "output" : "input");
    if (strstr(t->name, "up_proj"))
        return true;
    if (strstr(t->name, "gate_proj")) {
        snprintf(up_name, sizeof up_name, "model.layers.%u.mlp.up_proj.weight", layer);
        char *both = arena_new_array(&to->memory, 2, t->size_bytes);
        memcpy(both, t->data, t->size_bytes);
        memcpy(both + t->size_bytes, checkpoint_find_tensor(from, up_name)->data, t->size_bytes);
        joined.data = both;
        joined.shape[1] *= 2;
        joined.size_bytes *= 2;
    }
    assert_int_equal(checkpoint_add_tensor(to, &joined, NULL), HEARTH_OK);
    return true;
}

/* Granite 4 without recurrent layers is a granite, whatever its type says. */
static void hybrid_of_one_kind(void **state)
{
    (void)state;
    json_t *config = config_of("granite"), *types = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(types, json_string("attention"));
    json_object_set_new(config, "layer_types", types);
    json_object_set_new(config, "model_type", json_string("granitemoehybrid"));
    json_object_set_new(config, "architectures", json_pack("[s]", "GraniteMoeHybridForCausalLM"));
    json_object_set_new(config, "position_embedding_type", json_string("rope"));
    json_object_set_new(config, "shared_intermediate_size", json_integer(96));
    json_object_set_new(config, "num_local_experts", json_integer(0));
    expect_same("granite", config, join_network);
}

/* OLMoE: null says that nothing is clipped, a number would change the result. */
static void clipped_values(void **state)
{
    (void)state;
    json_t *config = config_of("olmoe");
    json_object_set_new(config, "clip_qkv", json_real(8));
    expect_refused("olmoe", config, "config.json: clip_qkv: a number is not supported");
}

/* K-EXAONE was published with another name of its class and of what corrects scores, with windows as a text, and with a layer that
 * guesses ahead. */
static bool name_corrections(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    char name[128];
    unsigned layer;
    stored_tensor other = *t;
    (void)from;
    other.name = name;
    if (strcmp(t->name, "model.norm.weight") == 0) {
        snprintf(name, sizeof name, "mtp.norm.weight");
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    }
    if (!strstr(t->name, "e_score_correction_bias"))
        return false;
    assert_int_equal(sscanf(t->name, "model.layers.%u.", &layer), 1);
    snprintf(name, sizeof name, "model.layers.%u.mlp.e_score_correction_bias", layer);
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

static void exaone_as_published(void **state)
{
    (void)state;
    json_t *config = config_of("exaone-moe");
    json_object_set_new(config, "architectures", json_pack("[s]", "ExaoneMoEForCausalLM"));
    json_object_set_new(config, "num_nextn_predict_layers", json_integer(1));
    json_object_del(config, "layer_types");
    expect_same("exaone-moe", config, name_corrections);
    config = config_of("exaone-moe");
    json_object_set_new(config, "architectures", json_pack("[s]", "OtherForCausalLM"));
    expect_refused("exaone-moe", config,
                   "architectures: OtherForCausalLM is not supported (known for exaone_moe: Exaone");
}

/* Which layers have windows need not be said where it is every one but the first of four; only bases that are 0 may differ. */
static void granite_windows(void **state)
{
    (void)state;
    json_t *config = config_of("granite-swa");
    json_object_del(config, "layer_types");
    expect_same("granite-swa", config, NULL);
    config = config_of("granite-swa");
    json_array_set_new(json_object_get(config, "layer_rope_theta"), 2, json_real(10000));
    expect_refused("granite-swa", config, "layer_rope_theta: bases differ");
}

/* OLMo 3's first configs have one base, and the scaling that windows do without. */
static void scaled_without_windows(void **state)
{
    (void)state;
    json_t *config = config_of("olmo3"), *rope = json_incref(json_object_get(config, "rope_parameters"));
    json_object_del(config, "rope_parameters");
    json_object_set(config, "rope_scaling", json_object_get(rope, "full_attention"));
    json_object_del(json_object_get(config, "rope_scaling"), "rope_theta");
    json_object_set_new(config, "rope_theta", json_integer(500000));
    expect_same("olmo3", config, NULL);
    config = config_of("olmo3");
    json_object_set_new(json_object_get(json_object_get(config, "rope_parameters"), "sliding_attention"), "rope_theta",
                        json_integer(10000));
    expect_refused("olmo3", config, "rope_parameters: rope_theta: differs between layers, which is not supported");
    json_decref(rope);
}

/* Hunyuan stretches the base by alpha: the slowest of d / 2 pairs turns alpha times more slowly, the fastest as before. */
static void stretched_base(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("hunyuan");
    json_object_del(config, "rope_parameters");
    json_object_set_new(config, "rope_theta", json_integer(10000));
    json_object_set_new(
        config, "rope_scaling",
        json_pack("{s:s, s:f, s:f, s:i}", "type", "dynamic", "alpha", 1000.0, "factor", 1.0, "beta_fast", 32));
    stack_check(open_as(&m, "hunyuan", config, NULL, &error), &error);
    uint32_t pairs = m->rotaries[0].pairs;
    assert_int_equal(pairs, 10);
    for (uint32_t i = 0; i < pairs; i++) {
        double plain = pow(10000, -2.0 * i / 20), slower = pow(1000, -(double)i / (pairs - 1));
        assert_true(fabs(m->rotaries[0].frequencies[i] / (plain * slower) - 1) < 1e-6);
    }
    hearth_model_close(m);
    json_decref(config);
}

/* Its sizes of experts are said layer by layer. */
static void sizes_by_layer(void **state)
{
    (void)state;
    json_t *config = config_of("hunyuan-moe");
    json_array_set_new(json_object_get(config, "moe_topk"), 1, json_integer(3));
    expect_refused("hunyuan-moe", config, "config.json: moe_topk: differs between layers, which is not supported");
    config = config_of("hunyuan-moe");
    json_object_set_new(config, "moe_topk", json_integer(2));
    json_object_set_new(config, "moe_intermediate_size", json_integer(32));
    expect_same("hunyuan-moe", config, NULL);
}

/* The published Puzzle calls the model `model`, and lists blocks instead of counting them. */
static bool name_model(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    char name[128];
    stored_tensor other = *t;
    (void)from;
    if (strncmp(t->name, "backbone.", 9) != 0)
        return false;
    snprintf(name, sizeof name, "model.%s", t->name + 9);
    other.name = name;
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

static void puzzle_as_published(void **state)
{
    (void)state;
    json_t *config = config_of("nemotron-h-puzzle");
    json_object_del(config, "num_hidden_layers");
    expect_same("nemotron-h-puzzle", config, name_model);
    hearth_model *m;
    hearth_error error;
    config = config_of("nemotron-h-puzzle");
    json_object_del(json_array_get(json_object_get(config, "block_configs"), 4), "num_experts_per_tok");
    assert_int_equal(open_as(&m, "nemotron-h-puzzle", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "config.json: block_configs: block 4: num_experts_per_tok: is missing"));
    json_decref(config);
}

/* Llama 4's text alone, which also says in which layers its experts are; null says that there are no
 * chunks. */
static void llama4_as_published(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *whole = config_of("llama4"), *config = json_incref(json_object_get(whole, "text_config"));
    json_decref(whole);
    json_object_set_new(config, "architectures", json_pack("[s]", "Llama4ForCausalLM"));
    json_object_set_new(config, "vision_config", json_object()); /* whose tensors the folder has */
    json_object_set_new(config, "no_rope_layers", json_array()); /* as Scout says that they are the usual ones */
    json_object_set_new(config, "moe_layers", json_pack("[i, i]", 1, 3));
    json_object_set_new(config, "attn_temperature_tuning", json_integer(4));
    json_object_set_new(
        config, "layer_types",
        json_pack("[s, s, s, s]", "chunked_attention", "chunked_attention", "chunked_attention", "full_attention"));
    json_incref(config);
    expect_same("llama4", config, NULL);
    json_object_set_new(config, "attn_temperature_tuning", json_false());
    json_object_set_new(config, "attention_chunk_size", json_null());
    json_object_set_new(config, "no_rope_layers", json_pack("[i, i, i, i]", 1, 1, 1, 1));
    stack_check(open_as(&m, "llama4", config, NULL, &error), &error);
    const attention_shape *first = &m->layers[0].attention, *last = &m->layers[3].attention;
    assert_true(first->window == 0 && !first->chunked && first->norm_plain && !first->grows && first->rotary);
    assert_true(last->norm_plain && last->rotary); /* without chunks every layer rotates */
    assert_true(m->hyper.score_growth == 0 && !last->grows);
    hearth_model_close(m);
    json_object_set_new(config, "no_rope_layers", json_pack("[i, i, i, i]", 1, 1, 1, 0));
    json_incref(config);
    expect_refused("llama4", config,
                   "no_rope_layers: layer 3 does not rotate, which is not supported of a layer without");
    json_object_del(config, "attention_chunk_size");
    json_object_del(config, "no_rope_layers");
    json_object_set_new(config, "no_rope_layer_interval", json_integer(2));
    json_incref(config);
    expect_refused("llama4", config, "no_rope_layers: layer 1 does not rotate, which is not supported of a layer with");
    json_object_del(config, "no_rope_layer_interval");
    json_object_set_new(config, "moe_layers", json_pack("[i, i]", 0, 2));
    expect_refused("llama4", config, "config.json: moe_layers: are not those of interleave_moe_layer_step");
}

/* Qwen3-VL-MoE was published with a row per input in its experts. */
static bool turn_experts(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    if (!strstr(t->name, ".experts."))
        return false;
    assert_int_equal(t->rank, 3);
    stored_tensor turned = *t;
    size_t columns = t->shape[0], rows = t->shape[1], all = columns * rows * t->shape[2];
    uint16_t *values = arena_new_array(&to->memory, all, sizeof *values);
    const uint16_t *old = t->data;
    assert_int_equal(t->size_bytes, all * sizeof *values);
    for (size_t i = 0; i < all; i++) {
        size_t expert = i / (rows * columns), row = i / columns % rows, column = i % columns;
        values[(expert * columns + column) * rows + row] = old[i];
    }
    turned.data = values;
    turned.shape[0] = rows, turned.shape[1] = columns;
    assert_int_equal(checkpoint_add_tensor(to, &turned, NULL), HEARTH_OK);
    return true;
}

static void turned_experts(void **state)
{
    (void)state;
    expect_same("qwen3-vl-moe", config_of("qwen3-vl-moe"), turn_experts);
}

/* The first configs of LFM2 say by number which layers attend, have the width under its usual name, and tie the head in other words. */
static void lfm2_as_published(void **state)
{
    (void)state;
    json_t *config = config_of("lfm2");
    json_object_del(config, "layer_types");
    json_object_del(config, "block_ff_dim");
    json_object_del(config, "tie_word_embeddings");
    json_object_set_new(config, "full_attn_idxs", json_pack("[i]", 2));
    json_object_set_new(config, "intermediate_size", json_integer(96));
    json_object_set_new(config, "tie_embedding", json_true());
    json_incref(config);
    expect_same("lfm2", config, NULL);
    json_object_set_new(config, "full_attn_idxs", json_pack("[i]", 4));
    hearth_model *m;
    hearth_error error;
    assert_int_equal(open_as(&m, "lfm2", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "config.json: full_attn_idxs: is not an array of layers"));
    json_object_set_new(config, "full_attn_idxs", json_pack("[i]", 2));
    json_object_set_new(config, "block_multiple_of", json_integer(0));
    assert_int_equal(open_as(&m, "lfm2", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "block_multiple_of: is 0"));
    json_object_set_new(config, "conv_bias", json_true());
    expect_refused("lfm2", config, "config.json: conv_bias: true is not supported");
}

/* A width that is not adjusted is that of the model. */
static void width_as_it_is(void **state)
{
    (void)state;
    json_t *config = config_of("lfm2");
    json_object_set_new(config, "block_auto_adjust_ff_dim", json_false());
    json_object_set_new(config, "block_ffn_dim_multiplier", json_real(7));
    expect_same("lfm2", config, NULL); /* two thirds of 96, times 1.5, are 96 */
}

/* Gives each value of a head the gate of its head, as the larger Laguna have one for each. */
static bool widen_gates(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    enum { VALUES = 20 }; /* of a head */
    if (!strstr(t->name, "self_attn.g_proj"))
        return false;
    stored_tensor wide = *t;
    size_t row_bytes = t->size_bytes / (size_t)t->shape[1];
    char *rows = arena_new_array(&to->memory, VALUES, t->size_bytes);
    for (size_t i = 0; i < VALUES * t->shape[1]; i++)
        memcpy(rows + i * row_bytes, (const char *)t->data + i / VALUES * row_bytes, row_bytes);
    wide.data = rows;
    wide.shape[1] *= VALUES;
    wide.size_bytes *= VALUES;
    assert_int_equal(checkpoint_add_tensor(to, &wide, NULL), HEARTH_OK);
    return true;
}

static void gates_of_values(void **state)
{
    (void)state;
    json_t *config = config_of("laguna");
    json_object_set_new(config, "gating", json_string("per-element"));
    json_object_set_new(config, "mlp_only_layers", json_pack("[i]", 0));
    json_incref(config);
    expect_same("laguna", config, widen_gates);
    json_object_del(config, "mlp_layer_types");
    json_incref(config);
    expect_same("laguna", config, NULL);
    hearth_model *m;
    hearth_error error;
    json_object_del(config, "layer_types"); /* the largest has no windows, and turns whole heads */
    json_t *rope = json_object_get(config, "rope_parameters");
    json_object_set_new(rope, "full_attention", json_pack("{s:s, s:i}", "rope_type", "default", "rope_theta", 1024));
    for (int said = 1; said >= 0; said--) { /* of windows that no layer has */
        stack_check(open_as(&m, "laguna", config, NULL, &error), &error);
        assert_true(m->layers[1].attention.window == 0 && m->layers[0].attention.rotary->pairs == 10);
        assert_true(fabs(m->layers[0].attention.rotary->frequencies[5] - 1.0 / 32) < 1e-9); /* 1 / sqrt(1024) */
        hearth_model_close(m);
        json_object_del(rope, "sliding_attention");
    }
    json_object_set_new(config, "moe_router_logit_softcapping", json_real(30));
    expect_refused("laguna", config, "moe_router_logit_softcapping: a cap is not supported");
}

/* Hy3's config need not say which layers have no experts: those that have no router. */
static void layers_without_router(void **state)
{
    (void)state;
    json_t *config = config_of("hy-v3");
    json_object_del(config, "mlp_layer_types");
    json_object_del(config, "first_k_dense_replace");
    expect_same("hy-v3", config, NULL);
}

/* Muse Glimmer: what its config leaves out is the default; what another says is not ignored. */
static void muse_as_published(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("muse-glimmer"), *text = json_object_get(config, "text_config");
    static const char *const usual[] = {"qk_scale_factor", "post_norm_eps", "final_logit_softcapping", "layer_types",
                                        "layer_rope_theta"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        json_object_del(text, usual[i]);
    json_incref(config);
    expect_same("muse-glimmer", config, NULL);
    json_object_set_new(text, "post_norm_eps", json_real(0.5));
    stack_check(open_as(&m, "muse-glimmer", config, NULL, &error), &error);
    assert_true(m->hyper.post_epsilon == 0.5f && m->hyper.norm_epsilon == 1e-5f && m->hyper.embedding_norm);
    hearth_model_close(m);
    json_object_set_new(text, "layer_rope_theta", json_pack("[i, i, i, i]", 1, 1, 0, 1));
    json_incref(config);
    expect_refused("muse-glimmer", config,
                   "layer_rope_theta: layer 0 has not 10000, as it should in a muse_glimmer_text");
    json_object_set_new(text, "layer_rope_theta", json_pack("[i, i, i, i]", 10000, 10000, 10000, 0));
    stack_check(open_as(&m, "muse-glimmer", config, NULL, &error), &error);
    hearth_model_close(m);
    json_decref(config);
}

/* Leaves out what is of pictures. */
static bool leave_pictures(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strncmp(t->name, "vi", 2) == 0;
}

/* Step 3.5 is its own model, and its lists go on behind the last layer, for layers that guess tokens ahead. */
static void step_alone(void **state)
{
    (void)state;
    static const char *const lists[] = {"layer_types", "rope_theta", "partial_rotary_factors", "swiglu_limits",
                                        "swiglu_limits_shared"};
    json_t *whole = config_of("step3p5"), *config = json_deep_copy(json_object_get(whole, "text_config"));
    json_object_set_new(config, "architectures", json_pack("[s]", "Step3p5ForCausalLM"));
    json_object_set_new(config, "num_nextn_predict_layers", json_integer(1));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_t *list = json_object_get(config, lists[i]);
        json_array_append(list, json_array_get(list, 1));
    }
    json_object_set_new(config, "moe_layers_enum", json_pack("[i, i, i, i, i]", 2, 3, 4, 5, 6));
    json_decref(whole);
    expect_same("step3p5", config, leave_pictures);
}

/* The same as transformers saves it, with its own names. */
static void step_as_saved(void **state)
{
    (void)state;
    static const char saved[] =
        "{'n_routed_experts': 6, 'num_experts_per_tok': 2, 'num_key_value_heads': 2, 'num_sliding_attention_heads': 6,"
        " 'query_pre_attn_scalar': 24, 'mlp_layer_types': ['dense', 'dense', 'sparse', 'sparse', 'sparse', 'sparse'],"
        " 'rope_parameters': {'full_attention': {'rope_type': 'llama3', 'rope_theta': 500000.0, 'factor': 2.0,"
        " 'low_freq_factor': 1.0, 'high_freq_factor': 32.0, 'original_max_position_embeddings': 64,"
        " 'partial_rotary_factor': 0.5}, 'sliding_attention': {'rope_type': 'default', 'rope_theta': 10000.0,"
        " 'partial_rotary_factor': 1.0}}}";
    static const char *const gone[] = {"moe_num_experts",         "moe_top_k",   "num_attention_groups",
                                       "attention_other_setting", "rope_theta",  "moe_layers_enum",
                                       "partial_rotary_factors",  "rope_scaling"};
    char text[sizeof saved];
    for (size_t i = 0; i < sizeof saved; i++)
        text[i] = (char)(saved[i] == '\'' ? '"' : saved[i]);
    json_t *config = config_of("step3p5"), *own = json_object_get(config, "text_config");
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        json_object_del(own, gone[i]);
    json_t *more = json_loads(text, 0, NULL);
    assert_non_null(more);
    json_object_update(own, more);
    json_decref(more);
    json_incref(config);
    expect_same("step3p5", config, NULL);
    json_t *full = json_object_get(json_object_get(own, "rope_parameters"), "full_attention");
    json_object_set_new(full, "partial_rotary_factor", json_real(0.25));
    json_incref(config);
    expect_refused("step3p5", config, "partial_rotary_factors: are not 0.5, and 1 in layers with a window");
    json_object_set_new(own, "use_head_wise_attn_gate", json_false());
    expect_refused("step3p5", config, "use_head_wise_attn_gate: false is not supported");
}

/* Cohere 2 with experts has norms of either kind, as the epsilon says; what its shared expert gives is not added otherwise. */
static void cohere_with_experts(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("cohere2-moe");
    json_object_set_new(config, "rms_norm_eps", json_null());
    json_object_set_new(config, "layer_norm_eps", json_real(0.25));
    stack_check(open_as(&m, "cohere2-moe", config, NULL, &error), &error);
    assert_true(m->hyper.norm == NORM_LAYER && m->hyper.norm_epsilon == 0.25f);
    hearth_model_close(m);
    json_object_set_new(config, "expert_selection_fn", json_string("softmax"));
    json_object_set_new(config, "norm_topk_prob", json_false());
    json_incref(config);
    expect_refused("cohere2-moe", config, "norm_topk_prob: false is not supported with a softmax");
    json_object_set_new(config, "norm_topk_prob", json_true());
    json_incref(config);
    json_object_set_new(config, "shared_expert_combination_strategy", json_string("sum"));
    expect_refused("cohere2-moe", config, "shared_expert_combination_strategy: sum is not supported");
    json_object_del(config, "shared_expert_combination_strategy");
    json_object_del(config, "layer_types");
    expect_refused("cohere2-moe", config, "layer_types: is missing");
}

/* EXAONE 3 as transformers 5 saves it. */
static void exaone_as_saved(void **state)
{
    (void)state;
    json_t *config = config_of("exaone");
    json_object_set(config, "rms_norm_eps", json_object_get(config, "layer_norm_epsilon"));
    json_object_set(config, "num_hidden_layers", json_object_get(config, "num_layers"));
    json_object_del(config, "layer_norm_epsilon");
    json_object_del(config, "num_layers");
    json_incref(config);
    expect_same("exaone", config, NULL);
    hearth_model *m;
    hearth_error error;
    json_object_set_new(config, "rms_norm_eps", json_real(0.5));
    stack_check(open_as(&m, "exaone", config, NULL, &error), &error);
    assert_true(m->hyper.norm_epsilon == 0.5f);
    hearth_model_close(m);
    json_decref(config);
}

/* Multiplies with 16 what the blocks of a BF16 model add: exactly, by the exponents of the last matrices. */
static bool strengthen_blocks(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    enum { EXPONENT = 1 << 7, LOG2_OF_16 = 4 };
    if (!strstr(t->name, "o_proj.weight") && !strstr(t->name, "down_proj.weight"))
        return false;
    stored_tensor strong = *t;
    uint16_t *values = arena_new(&to->memory, t->size_bytes);
    memcpy(values, t->data, t->size_bytes);
    for (size_t i = 0; i < t->size_bytes / sizeof *values; i++)
        values[i] = (uint16_t)(values[i] & 0x7fff ? values[i] + LOG2_OF_16 * EXPONENT : values[i]);
    strong.data = values;
    assert_int_equal(checkpoint_add_tensor(to, &strong, NULL), HEARTH_OK);
    return true;
}

/* The epsilon of the norms behind the blocks is theirs: blocks that add 16 times as much give the same with one of 256 times
 * as much, and something else than with the usual one. */
static void epsilon_behind_blocks(void **state)
{
    (void)state;
    static const char name[] = "muse-glimmer";
    hearth_model *m;
    hearth_error error;
    golden g;
    json_t *config = config_of(name), *text = json_object_get(config, "text_config");
    golden_load(&g, name);
    json_object_set_new(text, "post_norm_eps", json_real(1.0 / 16));
    stack_check(open_as(&m, name, config, NULL, &error), &error);
    float *got = golden_compute(m, &g);
    assert_true(relative_l2(got, g.logits, g.total * g.vocabulary) > 0.01);
    memcpy(g.logits, got, g.total * g.vocabulary * sizeof *got);
    free(got);
    json_object_set_new(text, "post_norm_eps", json_real(16));
    stack_check(open_as(&m, name, config, strengthen_blocks, &error), &error);
    golden_expect(m, &g);
    golden_free(&g);
    json_decref(config);
}

/* gpt-oss, of which nothing is rounded: its blocks are those of MXFP4 in another order. */
static void blocks_of_4_bits(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("gpt-oss-mxfp4");
    stack_check(open_as(&m, "gpt-oss-mxfp4", config, NULL, &error), &error);
    json_decref(config);
    assert_int_equal(m->layers[0].gate.format, FORMAT_MXFP4);
    assert_int_equal(m->layers[0].down.format, FORMAT_MXFP4);
    golden_expect_of(m, "gpt-oss-mxfp4");
}

/* DeepSeek V4, of which nothing is rounded either: experts of 4 bits, and 8-bit floats, with powers of two as scales. */
static void powers_of_two(void **state)
{
    (void)state;
    static const char name[] = "deepseek4-fp4", scale[] = "layers.1.ffn.experts.2.w1.scale";
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of(name);
    expect_refused_with(name, (tensor_change){scale, LOST, NULL},
                        "experts.2.w1.weight: is of bytes, and has no scales");
    expect_refused_with(name, (tensor_change){scale, SHORTER, NULL}, "w1.weight: has no scale of one byte for each 16");
    stack_check(open_as(&m, name, config, NULL, &error), &error);
    json_decref(config);
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        assert_int_equal(m->layers[i].gate.format, FORMAT_MXFP4);
        assert_int_equal(m->layers[i].down.format, FORMAT_MXFP4);
        assert_int_equal(m->layers[i].q.format, FORMAT_F32);
    }
    golden_expect_of(m, name);
}

/* Gives every row of a matrix of 8-bit floats a scale, under the name that compressed-tensors has. */
static bool scale_rows(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    char name[300], of[256];
    const char *ending = strstr(t->name, "_scale_inv");
    if (!ending)
        return strstr(t->name, "activation_scale") != NULL;
    snprintf(of, sizeof of, "%.*s", (int)(ending - t->name), t->name);
    snprintf(name, sizeof name, "%s_scale", of);
    const stored_tensor *scaled = checkpoint_find_tensor(from, of);
    assert_non_null(scaled);
    size_t rows = (size_t)scaled->shape[1];
    float *scales = arena_new_array(&to->memory, rows, sizeof *scales);
    for (size_t i = 0; i < rows; i++)
        memcpy(&scales[i], t->data, sizeof *scales);
    const stored_tensor each = {.name = name,
                                .format = FORMAT_F32,
                                .rank = 2,
                                .shape = {1, rows, 1, 1},
                                .data = scales,
                                .size_bytes = rows * sizeof *scales};
    assert_int_equal(checkpoint_add_tensor(to, &each, NULL), HEARTH_OK);
    return true;
}

/* Leaves a matrix without its scales. */
static bool lose_scale(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strcmp(t->name, "model.layers.1.mlp.up_proj.weight_scale_inv") == 0;
}

static void expect_broken(json_t *config, replace_tensor *replace, const char *reason)
{
    hearth_model *m;
    hearth_error error;
    assert_int_equal(open_as(&m, "llama-fp8", config, replace, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, reason));
}

static void floats_of_8_bits(void **state)
{
    (void)state;
    json_t *config = config_of("llama-fp8"), *settings = json_object_get(config, "quantization_config");
    expect_broken(config, lose_scale, "up_proj.weight: has no weight_scale_inv, weight_scale or scale of floats");
    json_object_set_new(settings, "weight_block_size", json_pack("[i, i]", 0, 128));
    expect_broken(config, NULL, "weight_block_size: is not two sizes");
    json_object_set_new(config, "quantization_config",
                        json_pack("{s:s, s:s}", "quant_method", "compressed-tensors", "format", "float-quantized"));
    expect_same("llama-fp8", config, scale_rows);
}

/* compressed-tensors says the sizes of blocks elsewhere. */
static void blocks_of_groups(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("deepseek3-fp8"), *weights = json_pack("{s:[i, i]}", "block_structure", 8, 32);
    json_object_set_new(config, "quantization_config",
                        json_pack("{s:s, s:s, s:{s:{s:O}}}", "quant_method", "compressed-tensors", "format",
                                  "float-quantized", "config_groups", "group_0", "weights", weights));
    expect_same("deepseek3-fp8", json_incref(config), NULL);
    json_object_clear(weights);
    assert_int_equal(open_as(&m, "deepseek3-fp8", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "has scales that do not fit its shape"));
    json_decref(weights);
    json_decref(config);
}

/* Names the text's tensors as in a model of text, pictures and sound, beside one of pictures. */
static bool within_larger(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    char name[128];
    stored_tensor other = *t;
    (void)from;
    if (strncmp(t->name, "model.", 6) != 0)
        return false;
    snprintf(name, sizeof name, "model.language_model.%s", t->name + 6);
    other.name = name;
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    other.name = "model.vision_tokenizer.quant_conv.weight";
    return strcmp(t->name, "model.norm.weight") != 0 || checkpoint_add_tensor(to, &other, NULL) == HEARTH_OK;
}

static bool lose_number(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strcmp(t->name, "model.layers.1.mlp.act_fn.alpha_n") == 0;
}

/* Apertus 1.5, as it is published. */
static void numbers_of_activations(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *text = config_of("apertus-1-5");
    assert_int_equal(open_as(&m, "apertus-1-5", text, lose_number, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "model.layers.1.mlp.act_fn.alpha_n: is missing"));
    expect_same("apertus-1-5",
                json_pack("{s:s, s:[s], s:o}", "model_type", "apertus1p5", "architectures",
                          "Apertus1p5ForConditionalGeneration", "text_config", text),
                within_larger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat_config),
                                       cmocka_unit_test(numbers_of_activations),
                                       cmocka_unit_test(guesses_beside),
                                       cmocka_unit_test(factors_of_nothing),
                                       cmocka_unit_test(scores_by_another_name),
                                       cmocka_unit_test(deci_as_published),
                                       cmocka_unit_test(mimo_as_published),
                                       cmocka_unit_test(mimo_refused),
                                       cmocka_unit_test(ling_as_saved),
                                       cmocka_unit_test(shared_width),
                                       cmocka_unit_test(hybrid_of_one_kind),
                                       cmocka_unit_test(clipped_values),
                                       cmocka_unit_test(exaone_as_published),
                                       cmocka_unit_test(scaled_without_windows),
                                       cmocka_unit_test(stretched_base),
                                       cmocka_unit_test(sizes_by_layer),
                                       cmocka_unit_test(puzzle_as_published),
                                       cmocka_unit_test(llama4_as_published),
                                       cmocka_unit_test(turned_experts),
                                       cmocka_unit_test(lfm2_as_published),
                                       cmocka_unit_test(width_as_it_is),
                                       cmocka_unit_test(gates_of_values),
                                       cmocka_unit_test(layers_without_router),
                                       cmocka_unit_test(muse_as_published),
                                       cmocka_unit_test(epsilon_behind_blocks),
                                       cmocka_unit_test(step_alone),
                                       cmocka_unit_test(step_as_saved),
                                       cmocka_unit_test(cohere_with_experts),
                                       cmocka_unit_test(granite_windows),
                                       cmocka_unit_test(exaone_as_saved),
                                       cmocka_unit_test(blocks_of_4_bits),
                                       cmocka_unit_test(powers_of_two),
                                       cmocka_unit_test(floats_of_8_bits),
                                       cmocka_unit_test(blocks_of_groups)};
    return run_group(tests, NULL, NULL);
}
