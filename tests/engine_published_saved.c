/* engine_published_saved.c - folders as transformers 5.24 saves them: every golden with the config that it writes
 * (tests/data/make_saved.py) is the same model as with the one of its kind's first publication, by the fingerprint and the length of
 * a text; settings that a config leaves out; and tensors that transformers gives other names, or saves besides. */
#include "../src/model/fingerprint.h"

#include "published.h"

#include <glob.h>

#define SAVED    HEARTH_DATA "/saved/configs/"
#define DEFAULTS HEARTH_DATA "/saved/defaults/"

/* What a model is, by its fingerprint and the length of a text. Closes the model. */
typedef struct described {
    char fingerprint[FINGERPRINT_SIZE];
    uint32_t context;
} described;

static described describe(hearth_model *m)
{
    described d = {.context = m->hyper.context_length};
    model_fingerprint(d.fingerprint, m);
    hearth_model_close(m);
    return d;
}

static void saved_configs_say_the_same(void **state)
{
    (void)state;
    glob_t found;
    hearth_error error;
    assert_int_equal(glob(SAVED "*.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 100);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i] + strlen(SAVED);
        char name[64], folder[600];
        hearth_model *m;
        json_t *config;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".json")), file);
        stack_check(hearth_model_open(&m, golden_path(folder, sizeof folder, name, ""), NULL, &error), &error);
        described expected = describe(m);
        stack_check(json_parse_file(&config, found.gl_pathv[i], &error), &error);
        if (open_as(&m, name, config, NULL, &error) != HEARTH_OK)
            fail_msg("%s: %s", name, error.text);
        json_decref(config);
        described got = describe(m);
        if (strcmp(got.fingerprint, expected.fingerprint) != 0 || got.context != expected.context)
            fail_msg("%s: another model: %s of %u positions, expected %s of %u", name, got.fingerprint, got.context,
                     expected.fingerprint, expected.context);
    }
    globfree(&found);
}

/* Compares what a golden without a setting of its config is with what it is with transformers' default. Returns whether both can be
 * read: a default may be one that does not fit the golden's tensors. */
static bool expect_default(const char *name, const char *key, json_t *value)
{
    json_t *config = config_of(name), *text = json_object_get(config, "text_config");
    hearth_model *m;
    hearth_error error;
    text = text ? text : config;
    json_object_del(text, key);
    bool both = open_as(&m, name, config, NULL, &error) == HEARTH_OK;
    described without = both ? describe(m) : (described){0};
    json_object_set(text, key, value);
    both = both && open_as(&m, name, config, NULL, &error) == HEARTH_OK;
    described with = both ? describe(m) : (described){0};
    if (strcmp(without.fingerprint, with.fingerprint) != 0 || without.context != with.context)
        if (both)
            fail_msg("%s: without %s it is another model than with what transformers takes for it", name, key);
    json_decref(config);
    return both;
}

/* What is left out is what transformers takes for it, or is refused. */
static void what_configs_leave_out(void **state)
{
    (void)state;
    glob_t found;
    hearth_error error;
    size_t compared = 0;
    assert_int_equal(glob(DEFAULTS "*.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 100);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i] + strlen(DEFAULTS), *key;
        char name[64];
        json_t *defaults, *value;
        snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".json")), file);
        stack_check(json_parse_file(&defaults, found.gl_pathv[i], &error), &error);
        json_object_foreach(defaults, key, value) compared += expect_default(name, key, value);
        json_decref(defaults);
    }
    print_message("%zu settings left out\n", compared);
    assert_true(compared > 500);
    globfree(&found);
}

/* Kimi Linear's network of a layer without experts has the name of one with experts. */
static bool name_sparse(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    (void)from;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[128], other[128];
        snprintf(name, sizeof name, "model.layers.0.mlp.%s.weight", parts[i]);
        snprintf(other, sizeof other, "model.layers.0.block_sparse_moe.%s.weight", parts[i]);
        stored_tensor renamed = *t;
        renamed.name = other;
        if (strcmp(t->name, name) == 0)
            return checkpoint_add_tensor(to, &renamed, NULL) == HEARTH_OK;
    }
    return false;
}

/* Adds copies of the last norm's weights under other names. */
static void add_copies(checkpoint *to, const stored_tensor *t, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stored_tensor other = *t;
        other.name = names[i];
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    }
}

/* MiniMax M3's matrices for pictures lie beside the model. */
static bool add_pictures(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const names[] = {"multi_modal_projector.linear_1.bias", "patch_merge_mlp.linear_1.bias"};
    (void)from;
    if (strstr(t->name, "model.norm.weight"))
        add_copies(to, t, names, sizeof names / sizeof *names);
    return false;
}

/* Cosmos 3 Edge's generator of pictures lies in the layers, and beside them. */
static bool add_generator(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const names[] = {"layers.0.mlp_moe_gen.up_proj.weight",
                                        "layers.1.input_layernorm_moe_gen.weight",
                                        "layers.1.self_attn.add_q_proj.weight",
                                        "model.language_model.layers.0.self_attn.to_add_out.weight",
                                        "layers.0.self_attn.norm_added_k.weight",
                                        "layers.0.self_attn.k_norm_und_for_gen.weight",
                                        "norm_moe_gen.weight",
                                        "action_modality_embed",
                                        "action_proj_in.fc.weight",
                                        "time_embedder.linear_1.weight",
                                        "proj_in.weight"};
    (void)from;
    if (strcmp(t->name, "norm.weight") == 0)
        add_copies(to, t, names, sizeof names / sizeof *names);
    return false;
}

/* Masks and frequencies, which are constants. */
static bool add_constants(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const names[] = {"gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias",
                                        "gpt_neox.layers.0.attention.rotary_emb.inv_freq"};
    (void)from;
    if (strcmp(t->name, "gpt_neox.final_layer_norm.weight") == 0)
        add_copies(to, t, names, sizeof names / sizeof *names);
    return false;
}

static void what_is_not_used_is_left_out(void **state)
{
    (void)state;
    expect_same("cosmos3-edge", config_of("cosmos3-edge"), add_generator);
    expect_same("gpt-neox", config_of("gpt-neox"), add_constants);
}

static void saved_tensors_have_other_names(void **state)
{
    (void)state;
    expect_same("kimi-linear", config_of("kimi-linear"), name_sparse);
    expect_same("minimax-m3", config_of("minimax-m3"), add_pictures);
}

/* A family whose models have no windows must not see everything where a config names one. */
static void windows_are_not_dropped(void **state)
{
    (void)state;
    static const char *const names[] = {"lfm2", "granite-hybrid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *config = config_of(names[i]), *list = json_object_get(config, "layer_types");
        for (size_t layer = 0; layer < json_array_size(list); layer++)
            if (strstr(json_string_value(json_array_get(list, layer)), "attention"))
                json_array_set_new(list, layer, json_string("sliding_attention"));
        expect_refused(names[i], config, "has no known mixer");
    }
}

/* Settings that would change the result and that hearth does not have. */
static void what_would_change_the_result_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *change, *reason; /* change: an object whose members the config gets */
    } cases[] = {
        {"gemma3", "{\"use_bidirectional_attention\": true}", "use_bidirectional_attention: true is not supported"},
        {"gemma", "{\"hidden_act\": \"relu\"}", "hidden_act: relu is not supported of a gemma"},
        {"qwen3-next", "{\"hidden_act\": \"relu\"}", "relu is not supported, as recurrent layers have it too"},
        {"kimi-linear", "{\"hidden_act\": \"gelu\"}", "gelu is not supported, as recurrent layers have it too"},
        {"gpt-oss", "{\"swiglu_alpha\": 1.5}", "swiglu_alpha: is 1.5, only 1.702 is supported"},
        {"gpt-oss", "{\"rope_scaling\": null}", "rope_parameters: is missing"},
        {"flint", "{\"layer_types\": null}", "layer_types: is missing"},
        {"kolibri1",
         "{\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", "
         "\"full_attention\"]}",
         "layer_types: no layer has the window, so none would rotate"},
        {"persimmon", "{\"qk_layernorm\": false}", "qk_layernorm: false is not supported"},
        {"stablelm", "{\"use_parallel_residual\": true}", "use_parallel_residual: true is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = config_of(cases[i].name), *change = json_loads(cases[i].change, 0, NULL);
        assert_int_equal(json_object_update(config, change), 0);
        json_decref(change);
        hearth_model *m;
        hearth_error error;
        if (open_as(&m, cases[i].name, config, NULL, &error) == HEARTH_OK || !strstr(error.text, cases[i].reason))
            fail_msg("%s: %s: %s", cases[i].name, cases[i].change, error.text);
        json_decref(config);
    }
}

/* What rope_parameters says counts, and not what the config itself says beside it. */
static void rope_parameters_come_first(void **state)
{
    (void)state;
    json_t *config = config_of("glm");
    json_object_set_new(
        config, "rope_parameters",
        json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta", 10000.0, "partial_rotary_factor", 0.5));
    json_object_set_new(config, "rope_theta", json_real(7));
    json_object_set_new(config, "partial_rotary_factor", json_real(1));
    expect_same("glm", config, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(saved_configs_say_the_same),
                                       cmocka_unit_test(saved_tensors_have_other_names),
                                       cmocka_unit_test(what_is_not_used_is_left_out),
                                       cmocka_unit_test(what_configs_leave_out),
                                       cmocka_unit_test(what_would_change_the_result_is_refused),
                                       cmocka_unit_test(rope_parameters_come_first),
                                       cmocka_unit_test(windows_are_not_dropped)};
    return run_group(tests, NULL, NULL);
}
