/* engine_published_streams.c - folders of models with several connected streams of the residual, GLM-5.3-Flash, Hy4,
 * Qwen3.8-Flash-Next and DeepSeek V4, as they were published and as they may be (engine_published.c: others). */
#include "published.h"

/* ------------------------------------------------------------------ GLM-5.3-Flash */

/* What guesses a token ahead is one more layer behind the others; rates of heads may have more dimensions. */
static bool change_glm5(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char guess[] = "model.language_model.layers.5.eh_proj.weight";
    (void)from;
    stored_tensor other = *t;
    other.name = guess;
    if (strcmp(t->name, "model.language_model.norm.weight") == 0)
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    if (!strstr(t->name, "A_log"))
        return false;
    other.name = t->name;
    other.rank = 4;
    other.shape[2] = t->shape[0];
    other.shape[0] = other.shape[1] = other.shape[3] = 1;
    other.shape[1] = other.shape[2];
    other.shape[2] = 1;
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

/* GLM-5.3-Flash with all that its config says, with the names that transformers saves, and with nothing said of what that knows by
 * itself. */
static void glm5_as_published(void **state)
{
    (void)state;
    static const char said[] =
        "{'head_dim': 0, 'qk_head_dim': 24, 'index_kpool_compress': true, 'indexer_rope_interleave': true,"
        " 'index_share_for_mtp_iteration': true, 'moe_router_dtype': 'float32', 'num_nextn_predict_layers': 1,"
        " 'layer_types': ['linear_attention', 'deepseek_sparse_attention', 'deepseek_sparse_attention', "
        "'linear_attention',"
        " 'deepseek_sparse_attention'],"
        " 'linear_attn_config': {'head_dim': 16, 'num_heads': 4, 'short_conv_kernel_size': 4, 'gate_lower_bound': -5.0,"
        " 'kda_layers': [0, 3], 'full_attn_layers': [1, 2, 4]}}";
    static const char *const known[] = {
        "mhc", "hc_mult", "hc_eps", "hc_sinkhorn_iters", "mla_use_nope", "index_kpool_always_select_tail", NULL};
    char text[sizeof said];
    for (size_t i = 0; i < sizeof said; i++)
        text[i] = (char)(said[i] == '\'' ? '"' : said[i]);
    json_t *config = config_of("glm5-next"), *more = json_loads(text, 0, NULL);
    assert_non_null(more);
    json_object_update(json_object_get(config, "text_config"), more);
    json_decref(more);
    expect_same("glm5-next", config, change_glm5);
    config = config_of("glm5-next");
    json_t *own = json_object_get(config, "text_config");
    delete_all(own, known);
    json_object_del(own, "linear_attn_config");
    more = json_pack("{s:i,s:i,s:i}", "linear_head_dim", 16, "linear_num_heads", 4, "linear_conv_kernel_dim", 4);
    json_object_update(own, more);
    json_decref(more);
    expect_same("glm5-next", config, NULL);
}

static bool leave_out_pictures(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strncmp(t->name, "model.visual.", 13) == 0;
}

/* The text of GLM-5.3-Flash alone. Without a limit in the config it is transformers', and null says that there is none; where the
 * floor is null, and there is no object that describes the mixers, decays have none. */
static void glm5_alone(void **state)
{
    (void)state;
    json_t *whole = config_of("glm5-next"), *config = json_deep_copy(json_object_get(whole, "text_config"));
    json_decref(whole);
    json_object_set_new(config, "model_type", json_string("glm5_next"));
    json_object_set_new(config, "architectures", json_pack("[s]", "Glm5NextForCausalLM"));
    expect_same("glm5-next", json_deep_copy(config), leave_out_pictures);
    json_t *more = json_pack("{s:i,s:i,s:i,s:n}", "linear_head_dim", 16, "linear_num_heads", 4,
                             "linear_conv_kernel_dim", 4, "linear_lower_bound");
    json_object_del(config, "linear_attn_config");
    json_object_update(config, more);
    json_decref(more);
    for (int said = 0; said < 2; said++) {
        hearth_model *m;
        hearth_error error;
        if (said)
            json_object_set_new(config, "swiglu_limit", json_null());
        else
            json_object_del(config, "swiglu_limit");
        stack_check(open_as(&m, "glm5-next", config, leave_out_pictures, &error), &error);
        assert_true(m->layers[0].recurrent.decay_floor == 0);
        assert_int_equal(m->layers[1].ffn.activation, said ? FFN_SILU : FFN_SILU_CLAMPED);
        assert_true(said || m->layers[1].ffn.threshold == 10);
        hearth_model_close(m);
    }
    json_decref(config);
}

/* ------------------------------------------------------------------ Hy4 */

/* What guesses a token ahead lies beside the layers. */
static bool add_guess(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    stored_tensor other = *t;
    other.name = "model.mtp_layers.0.eh_proj.weight";
    if (strcmp(t->name, "model.norm.weight") == 0)
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return false;
}

/* Hy4 with all that its config says, and with nothing said of what transformers knows by itself. */
static void hy4_as_published(void **state)
{
    (void)state;
    static const char *const known[] = {"hc_mult",      "hc_eps",      "n_group", "topk_group",
                                        "scoring_func", "topk_method", NULL};
    json_t *config = config_of("hy-v4");
    json_t *more = json_pack("{s:i,s:i,s:b,s:i,s:[s,s,s,s,s]}", "num_key_value_heads", 2, "num_nextn_predict_layers", 1,
                             "enable_lm_head_fp32", 1, "head_dim", 8, "layer_types", "deepseek_sparse_attention",
                             "deepseek_sparse_attention", "deepseek_sparse_attention", "deepseek_sparse_attention",
                             "deepseek_sparse_attention");
    json_object_update(config, more);
    json_decref(more);
    expect_same("hy-v4", config, add_guess);
    config = config_of("hy-v4");
    delete_all(config, known);
    expect_same("hy-v4", config, NULL);
}

/* The limit is of experts alone: of neither the shared one nor of the network of the first layer. */
static void hy4_limits(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("hy-v4");
    stack_check(open_as(&m, "hy-v4", config, NULL, &error), &error);
    assert_int_equal(m->layers[0].ffn.activation, FFN_SILU);
    assert_int_equal(m->layers[1].ffn.activation, FFN_SILU_CLAMPED);
    assert_true(m->layers[1].ffn.threshold == 1.5f && m->layers[1].ffn.shared_threshold == 0);
    assert_true(m->hyper.connection_magnitude == 1.5f && m->hyper.connection_steps == 0);
    hearth_model_close(m);
    json_object_del(config, "hc_magnitude");
    stack_check(open_as(&m, "hy-v4", config, NULL, &error), &error);
    assert_true(m->hyper.connection_magnitude == 2);
    hearth_model_close(m);
    json_object_set_new(config, "hc_magnitude", json_integer(0));
    assert_int_equal(open_as(&m, "hy-v4", config, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "hyper_connection.magnitude: is 0, expected a positive number"));
    json_decref(config);
}

/* ------------------------------------------------------------------ Qwen3.8-Flash-Next */

/* Returns its config with a value of the text's part changed; NULL: left out. */
static json_t *qwen_with(const char *key, json_t *value)
{
    json_t *config = config_of("qwen3-8-next"), *text = json_object_get(config, "text_config");
    assert_int_equal(value ? json_object_set_new(text, key, value) : json_object_del(text, key), 0);
    return config;
}

/* The config of the text alone, with a model_type and an architecture of its own. */
static json_t *qwen_alone(void)
{
    json_t *whole = config_of("qwen3-8-next"), *config = json_deep_copy(json_object_get(whole, "text_config"));
    json_decref(whole);
    json_object_set_new(config, "architectures", json_pack("[s]", "Qwen4ExpForCausalLM"));
    return config;
}

/* The table in parts of 100 rows, of which the last has 40, and what guesses ahead, whose tables are its own. */
static bool other_parts(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char first[] = "ngram_embedding.shard_0.weight", guess[] = "mtp.layers.0.eh_proj.weight";
    if (!strstr(t->name, "ngram_embedding."))
        return false;
    if (!strstr(t->name, first))
        return true;
    enum { ROWS = 240, EACH = 100 };
    char name[TENSOR_NAME_SIZE];
    size_t row_bytes = t->size_bytes / (size_t)t->shape[1], base = strlen(t->name) - strlen("0.weight");
    char *all = arena_new_array(&to->memory, ROWS, row_bytes);
    assert_non_null(all);
    for (size_t part = 0, at = 0; at < ROWS; part++) {
        snprintf(name, sizeof name, "%.*s%zu.weight", (int)base, t->name, part);
        const stored_tensor *p = checkpoint_find_tensor(from, name);
        memcpy(all + at * row_bytes, p->data, p->size_bytes);
        at += (size_t)p->shape[1];
    }
    for (size_t part = 0, at = 0; at < ROWS; part++, at += EACH) {
        stored_tensor own = *t;
        snprintf(name, sizeof name, "%.*s%zu.weight", (int)base, t->name, part);
        own.name = name;
        own.shape[1] = ROWS - at < EACH ? ROWS - at : EACH;
        own.size_bytes = (size_t)own.shape[1] * row_bytes;
        own.data = all + at * row_bytes;
        assert_int_equal(checkpoint_add_tensor(to, &own, NULL), HEARTH_OK);
    }
    stored_tensor other = *t;
    other.name = guess;
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

static bool lose_a_part(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strstr(t->name, "ngram_embedding.shard_2.") != NULL;
}

/* What is no part of the table does not count as one. */
static bool rename_a_part(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    char name[TENSOR_NAME_SIZE];
    const char *at = strstr(t->name, "ngram_embedding.shard_3.weight");
    if (!at)
        return false;
    stored_tensor other = *t;
    other.name = name;
    snprintf(name, sizeof name, "%.*s%s", (int)(at - t->name), t->name, "ngram_embedding.shard_3.bias");
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    snprintf(name, sizeof name, "%.*s%s", (int)(at - t->name), t->name, "ngram_embedding.shard_4294967299.weight");
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

static bool lose_numbers(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)to, (void)from;
    return strstr(t->name, "layer_multipliers") != NULL;
}

static void qwen_as_published(void **state)
{
    (void)state;
    static const char name[] = "qwen3-8-next";
    static const char *const known[] = {"hc_count",   "ple_embed_dim",  "ple_conv_kernel_size",
                                        "ngram_size", "norm_topk_prob", NULL};
    expect_same(name, qwen_alone(), leave_out_pictures);
    expect_same(name, config_of(name), other_parts);
    expect_same(name, qwen_with("eos_token_id", json_pack("[i,i]", 163, 5)), NULL);
    expect_same(name, qwen_with("ple_layer_ids", json_pack("[i,i]", 2, 2)), NULL);
    expect_same(name,
                qwen_with("layer_types", json_pack("[s,s,s,s,s]", "linear_attention", "linear_attention",
                                                   "indexed_attention", "linear_attention", "indexed_attention")),
                NULL);
    json_t *config = config_of(name), *text = json_object_get(config, "text_config");
    json_object_del(text, "eos_token_id"); /* then it is the whole model's */
    json_object_set_new(config, "eos_token_id", json_integer(163));
    for (const char *const *key = known; *key; key++)
        json_object_del(text, *key);
    expect_same(name, config, NULL);
}

static void qwen_refused(void **state)
{
    (void)state;
    static const char name[] = "qwen3-8-next";
    expect_refused(name, qwen_with("output_gate_type", json_string("silu")), "output_gate_type: silu is not supported");
    expect_refused(name, qwen_with("output_gate_type", NULL), "output_gate_type: silu is not supported, only sigmoid");
    expect_refused(name, qwen_with("indexer_kv_heads", json_integer(2)), "indexer_kv_heads: is 2, only 1 is supported");
    expect_refused(name, qwen_with("ple_layer_ids", json_pack("[i,i]", 1, 2)),
                   "ple_layer_ids: has more than one layer");
    expect_refused(name, qwen_with("ple_layer_ids", json_pack("[i]", 3)),
                   "ple.layers: has a layer that is not recurrent");
    expect_refused(name, qwen_with("ple_layer_ids", json_array()), "ple.ple_embedding."); /* which are there */
    const struct {
        const char *key;
        json_t *value;
        replace_tensor *replace;
        const char *text;
    } wrong[] = {
        {"ple_layer_ids", json_pack("[i]", 0), NULL, "ple_layer_ids: has a number that is no layer's"},
        {"ple_layer_ids", json_pack("[i]", 6), NULL, "ple_layer_ids: has a number that is no layer's"},
        {"ngram_size", json_integer(1), NULL, "ngram_size or heads_per_ngram: is too small"},
        {"heads_per_ngram", json_integer(0), NULL, "ngram_size or heads_per_ngram: is too small"},
        {"heads_per_ngram", json_integer(3), NULL, "ple_embed_dim: 64 is no multiple of the 6 rows of a token"},
        {"ple_embed_dim", json_integer(63), NULL, "ple_embed_dim: 63 is no multiple of the 4 rows of a token"},
        {"eos_token_id", json_integer(272), NULL, "ple.eos_token_id: is no token of the vocabulary"},
        {"indexer_compress_ratio", json_integer(0), NULL, "indexer_compress_ratio: is 0"},
        {"indexer_n_heads", json_integer(3), NULL, "indexer.q_proj.weight: has not 48 rows of queries and 16 of keys"},
        {"eos_token_id", json_array(), NULL, "eos_token_id: is no token, and n-grams end there"},
        {"indexer_budget", NULL, NULL, "indexer_budget"},
        {"hc_lowrank", json_integer(13), NULL, "input_mix_weight_down.weight: is 256 x 12, expected 256 x 13"},
        {"seed", json_integer(1234), lose_a_part, "ngram_embedding: a part is missing, or there twice"},
        {"seed", json_integer(1234), rename_a_part, "ngram_embedding: a part is missing, or there twice"},
        {"seed", json_integer(1234), lose_numbers, "layer_multipliers: is missing, or no vector of I64"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hearth_model *m;
        hearth_error error = {0};
        json_t *config = qwen_with(wrong[i].key, wrong[i].value);
        assert_int_equal(open_as(&m, name, config, wrong[i].replace, &error), HEARTH_FORMAT);
        if (!strstr(error.text, wrong[i].text))
            fail_msg("%s: %s", wrong[i].text, error.text);
        json_decref(config);
    }
}

/* ------------------------------------------------------------------ DeepSeek V4 */

/* Returns its config with a value changed; NULL: left out. */
static json_t *deepseek_with(const char *key, json_t *value)
{
    json_t *config = config_of("deepseek4");
    assert_int_equal(value ? json_object_set_new(config, key, value) : json_object_del(config, key), 0);
    return config;
}

/* What guesses a token ahead is left out, and the list of ratios goes on with its blocks; so are biases for pictures. */
static bool add_others(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    stored_tensor other = *t;
    if (strcmp(t->name, "norm.weight") == 0)
        other.name = "mtp.0.e_proj.weight";
    else if (strcmp(t->name, "layers.3.ffn.gate.bias") == 0)
        other.name = "layers.3.ffn.gate.bias_vl";
    else
        return false;
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return false;
}

static void deepseek_as_published(void **state)
{
    (void)state;
    json_t *config = deepseek_with("compress_ratios", json_pack("[i,i,i,i,i,i,i]", 0, 4, 128, 4, 128, 4, 0));
    json_object_set_new(config, "num_nextn_predict_layers", json_integer(1));
    json_object_set_new(config, "expert_dtype", json_string("fp4"));
    json_object_set_new(config, "topk_method", json_string("noaux_tc"));
    expect_same("deepseek4", config, add_others);
    expect_same("deepseek4", deepseek_with("compress_rope_theta", NULL), NULL); /* 160000, as it is here */
}

static void deepseek_refused(void **state)
{
    (void)state;
    static const char name[] = "deepseek4";
    expect_refused(name, deepseek_with("compress_ratios", json_pack("[i,i,i,i,i,i]", 0, 4, 96, 4, 128, 4)),
                   "compress_ratios: has a number that is no power of two from 2 to 128, nor 0");
    expect_refused(name, deepseek_with("scoring_func", json_string("tanh")), "scoring_func");
    expect_refused(name, deepseek_with("num_key_value_heads", json_integer(2)), "head_count_kv: is not 1");
    const struct {
        const char *key;
        json_t *value;
        const char *text;
    } wrong[] = {
        {"compress_ratios", NULL, "compress_ratios: is not an array of one item per layer"},
        {"compress_ratios", json_pack("[i,i,i]", 0, 4, 128), "compress_ratios: is not an array of one item per layer"},
        {"compress_ratios", json_pack("[i,i,i,i,i,i]", 0, 4, -128, 4, 128, 4),
         "compress_ratios: item 2 is not a number"},
        {"compress_ratios", json_pack("[i,i,i,f,i,i]", 0, 4, 128, 4.5, 128, 4),
         "compress_ratios: item 3 is not a number"},
        {"o_groups", NULL, "o_groups"},
        {"o_groups", json_integer(3), "output_group_count: does not divide"},
        {"o_lora_rank", json_integer(21), "wo_a.weight: is 128 x 40, expected 128 x 42"},
        {"index_topk", json_integer(0), "indexer.top_k: is 0 or too large"},
        {"sliding_window", json_integer(0), "sliding_window: is missing or 0"},
        {"num_hash_layers", json_integer(3), "layers.2.ffn.gate.tid2eid: is missing"},
        {"swiglu_limit", json_integer(-1), "swiglu_limit"},
        {"compress_rope_theta", json_integer(0), "compress_rope_theta"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hearth_model *m;
        hearth_error error = {0};
        json_t *config = deepseek_with(wrong[i].key, wrong[i].value);
        if (open_as(&m, name, config, NULL, &error) != HEARTH_FORMAT || !strstr(error.text, wrong[i].text))
            fail_msg("%s: %s", wrong[i].text, error.text);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(glm5_as_published),     cmocka_unit_test(glm5_alone),
                                       cmocka_unit_test(hy4_as_published),      cmocka_unit_test(hy4_limits),
                                       cmocka_unit_test(qwen_as_published),     cmocka_unit_test(qwen_refused),
                                       cmocka_unit_test(deepseek_as_published), cmocka_unit_test(deepseek_refused)};
    return run_group(tests, NULL, NULL);
}
