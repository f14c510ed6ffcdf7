/* engine_published_blocks.c - folders of MiniMax M3 as they were published and as they may be (engine_published.c: others). */
#include "published.h"

static const char published[] = "minimax-m3";

/* Returns its config, and the text's part of it. */
static json_t *config_and_text(json_t **text)
{
    json_t *config = config_of(published);
    *text = json_object_get(config, "text_config");
    return config;
}

/* Without its object, as transformers saves it: each key by itself, and the layers by names. */
static void as_saved(void **state)
{
    (void)state;
    json_t *text, *config = config_and_text(&text);
    json_object_del(text, "sparse_attention_config");
    json_object_del(text, "moe_layer_freq");
    json_t *more = json_pack("{s:i,s:i,s:i,s:i,s:i,s:[ssss],s:[ssss],s:s}", "index_n_heads", 2, "index_head_dim", 24,
                             "index_block_size", 4, "index_topk_blocks", 4, "index_local_blocks", 1, "layer_types",
                             "full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse",
                             "mlp_layer_types", "dense", "sparse", "sparse", "sparse", "hidden_act", "silu");
    json_object_update(text, more);
    json_decref(more);
    expect_same(published, config, NULL);
}

/* The text alone, and the name that others give its kind. */
static void of_text(void **state)
{
    (void)state;
    json_t *text, *config = config_and_text(&text);
    json_object_set_new(text, "model_type", json_string("minimax_m3"));
    expect_same(published, json_deep_copy(config), NULL);
    json_object_set_new(text, "architectures", json_pack("[s]", "MiniMaxM3SparseForCausalLM"));
    json_t *alone = json_deep_copy(text);
    json_decref(config);
    expect_same(published, alone, NULL);
}

/* What MiniMax M3 has where its config does not say it. */
static void unsaid(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    json_t *text, *config = config_and_text(&text), *own = json_object_get(text, "sparse_attention_config");
    json_object_del(own, "sparse_topk_blocks");
    json_object_del(own, "sparse_block_size");
    json_object_del(own, "sparse_local_block");
    stack_check(open_as(&m, published, config, NULL, &error), &error);
    assert_int_equal(m->layers[0].attention.chosen, 0);
    assert_int_equal(m->layers[1].attention.chosen, 15 * 128);
    assert_int_equal(m->layers[1].attention.pool, 128);
    assert_int_equal(m->layers[1].attention.last_pools, 1);
    hearth_model_close(m);
    json_decref(config);
}

/* Opens it with one value of the text, or of its object, changed, and expects why that is refused. */
static void refuse(bool of_object, const char *key, json_t *value, const char *reason)
{
    json_t *text, *config = config_and_text(&text);
    json_object_set_new(of_object ? json_object_get(text, "sparse_attention_config") : text, key, value);
    expect_refused(published, config, reason);
}

static void others(void **state)
{
    (void)state;
    refuse(true, "sparse_score_type", json_string("mean"), "sparse_score_type: mean is not supported, only max");
    refuse(true, "use_sparse_attention", json_false(), "use_sparse_attention: is false, which is not supported");
    refuse(true, "sparse_init_block", json_integer(1), "sparse_init_block: is 1, only 0 is supported");
    refuse(true, "sparse_attention_freq", json_pack("[iiii]", 0, 0, 1, 1),
           "sparse_attention_freq: 2 layers see everything, and 1 have no experts");
    refuse(true, "sparse_attention_freq", json_pack("[iiii]", 0, 1, 0, 1), "layer 2 is not as supported");
    refuse(true, "sparse_num_index_heads", json_integer(1), "head_count: differs from attention.head_count_kv");
    refuse(false, "moe_layer_freq", json_pack("[iiii]", 1, 0, 1, 1), "moe_layer_freq: layer 1 is not as supported");
    refuse(false, "swiglu_alpha", json_real(1.5), "swiglu_alpha: is 1.5, only 1.702 is supported");
    refuse(false, "use_qk_norm", json_false(), "use_qk_norm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_saved), cmocka_unit_test(of_text), cmocka_unit_test(unsaid),
                                       cmocka_unit_test(others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
