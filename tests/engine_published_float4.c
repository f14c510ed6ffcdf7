/* engine_published_float4.c - folders whose matrices ModelOpt and compressed-tensors have rounded to NVFP4 (tests/data/nvfp4.py), some
 * of them to floats of 8 bits, and the GGUF files that llama.cpp's converter makes of these, with factors beside their blocks: the
 * logits of the values that all of them stand for; and folders in which something is missing or does not fit. */
#include "../src/base/pool.h"
#include "../src/model/convert.h"

#include "published.h"

#include "own_folder.h"

#include <math.h>

#define GATE   "model.layers.1.mlp.gate_proj."
#define EXPERT "model.layers.1.mlp.experts.2.up_proj."

static const char *const goldens[] = {"llama-nvfp4", "qwen3-moe-nvfp4"};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static void logits_of_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++)
        expect_same(goldens[i], config_of(goldens[i]), NULL);
}

static void expect_file(const char *path, const char *name)
{
    hearth_model *m;
    hearth_error error;
    stack_check(hearth_model_open(&m, path, NULL, &error), &error);
    golden_expect_of(m, name);
}

/* Also as hearth writes them again, with values in place of blocks and factors. */
static void logits_of_files(void **state)
{
    (void)state;
    char path[600];
    hearth_error error;
    pool *threads;
    stack_check(pool_create(&threads, 2, &error), &error);
    for (size_t i = 0; i < GOLDENS; i++) {
        golden_path(path, sizeof path, goldens[i], "model.gguf");
        expect_file(path, goldens[i]);
        const convert_options as_stored = {.format = FORMAT_COUNT, .down_format = FORMAT_COUNT};
        stack_check(convert_write(path, own_path, &as_stored, threads, &error), &error);
        expect_file(own_path, goldens[i]);
    }
    pool_destroy(threads);
}

/* Gives all matrices powers of two as scales, 1/8, of 32 values each, and no factor; keeps the numbers of one. */
static const uint8_t *kept;

static bool with_powers(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static uint8_t powers[64 * 2];
    (void)from;
    if (strcmp(t->name, "model.layers.1.self_attn.q_proj.weight_packed") == 0)
        kept = t->data;
    if (text_ends_with(t->name, "_global_scale"))
        return true;
    if (!text_ends_with(t->name, ".weight_scale"))
        return false;
    stored_tensor other = *t;
    other.foreign = "U8";
    other.shape[0] /= 2;
    other.size_bytes /= 2;
    other.data = powers;
    assert_true(other.size_bytes <= sizeof powers);
    memset(powers, 127 - 3, sizeof powers);
    assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

/* compressed-tensors' "mxfp4-pack-quantized": blocks of the same numbers. */
static void powers_of_two(void **state)
{
    (void)state;
    static const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    hearth_model *m;
    hearth_error error;
    json_t *config = config_of("qwen3-moe-nvfp4");
    json_object_set_new(json_object_get(config, "quantization_config"), "format", json_string("mxfp4-pack-quantized"));
    stack_check(open_as(&m, "qwen3-moe-nvfp4", config, with_powers, &error), &error);
    json_decref(config);
    const matrix *q = &m->layers[1].q;
    assert_int_equal(q->format, FORMAT_MXFP4);
    assert_int_equal(m->layers[1].up.format, FORMAT_MXFP4);
    for (size_t row = 0; row < q->rows; row++) {
        float values[64];
        number_formats[q->format].decode(matrix_row(q, row), values, q->columns);
        for (size_t i = 0; i < q->columns; i++) {
            unsigned code = kept[row * q->columns / 2 + i / 2] >> i % 2 * 4 & 15;
            assert_true(values[i] == numbers[code & 7] * (code & 8 ? -0.125f : 0.125f));
        }
    }
    hearth_model_close(m);
}

static void tensors_must_fit(void **state)
{
    (void)state;
    static const float nothing, no_number = NAN;
    static const struct {
        const char *model;
        tensor_change change;
        const char *reason;
    } cases[] = {
        {"llama-nvfp4", {GATE "weight_scale_2", LOST, NULL}, "gate_proj.weight: has no factor"},
        {"llama-nvfp4",
         {GATE "weight_scale_2", REPLACED, &no_number},
         "gate_proj.weight: has a factor that is not finite"},
        {"llama-nvfp4", {GATE "weight_scale", LOST, NULL}, "gate_proj.weight: is of bytes, and has no scales"},
        {"llama-nvfp4", {GATE "weight_scale", SHORTER, NULL}, "gate_proj.weight: has no scale of one byte for each 8"},
        {"llama-nvfp4", {GATE "weight", SHORTER, NULL}, "gate_proj.weight: is not of rows of blocks of 8 bytes"},
        {"llama-nvfp4", {GATE "weight", LOST, NULL}, "gate_proj.weight: is missing"},
        {"qwen3-moe-nvfp4", {EXPERT "weight_global_scale", LOST, NULL}, "up_proj.weight_packed: has no factor"},
        {"qwen3-moe-nvfp4",
         {EXPERT "weight_global_scale", REPLACED, &nothing},
         "up_proj.weight_packed: has a factor that is not"},
        {"qwen3-moe-nvfp4", {EXPERT "weight_packed", SHORTER, NULL}, "up_proj.weight_packed: is not of rows of blocks"},
        {"qwen3-moe-nvfp4", {EXPERT "weight_packed", LOST, NULL}, "that of expert 2 is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused_with(cases[i].model, cases[i].change, cases[i].reason);
}

/* Returns a golden's config with other members of quantization_config. */
static json_t *config_with(const char *name, const char *members)
{
    json_t *config = config_of(name), *others = json_loads(members, 0, NULL);
    assert_non_null(others);
    json_object_update(json_object_get(config, "quantization_config"), others);
    json_decref(others);
    return config;
}

/* Each tensor says how it is rounded, so folders may say that all are NVFP4, also where some have been left out. */
static void settings_that_say_the_same(void **state)
{
    (void)state;
    expect_same("llama-nvfp4", config_with("llama-nvfp4", "{\"quant_algo\": \"NVFP4\"}"), NULL);
    expect_same("llama-nvfp4", config_with("llama-nvfp4", "{\"quant_algo\": null}"), NULL);
    expect_same("llama-nvfp4", config_with("llama-nvfp4", "{\"quantized_layers\": null}"), NULL);
    expect_same("llama-nvfp4", config_with("llama-nvfp4", "{\"quantized_layers\": {}}"), NULL);
    expect_same("qwen3-moe-nvfp4", config_with("qwen3-moe-nvfp4", "{\"format\": \"mixed-precision\"}"), NULL);
}

/* ModelOpt's earlier folders have the same settings in a file of its own. */
static void settings_in_their_own_file(void **state)
{
    (void)state;
    char weights[600], links[80], config_path[80], settings_path[80];
    json_t *config = config_of("llama-nvfp4"), *own = json_object();
    json_object_set(own, "quantization", json_object_get(config, "quantization_config"));
    json_object_del(json_object_get(own, "quantization"), "quant_method");
    json_object_del(config, "quantization_config");
    golden_path(weights, sizeof weights, "llama-nvfp4", "model.safetensors");
    snprintf(links, sizeof links, "%s/model.safetensors", own_folder);
    snprintf(config_path, sizeof config_path, "%s/config.json", own_folder);
    snprintf(settings_path, sizeof settings_path, "%s/hf_quant_config.json", own_folder);
    assert_int_equal(symlink(weights, links), 0);
    assert_int_equal(json_dump_file(config, config_path, 0), 0);
    assert_int_equal(json_dump_file(own, settings_path, 0), 0);
    json_decref(config);
    json_decref(own);
    remove(own_path);
    expect_file(own_folder, "llama-nvfp4");
    assert_int_equal(remove(links) | remove(config_path) | remove(settings_path), 0);
}

static void settings_must_be_known(void **state)
{
    (void)state;
    static const struct {
        const char *model, *members, *reason;
    } cases[] = {
        {"llama-nvfp4", "{\"quant_algo\": \"W4A16_AWQ\"}", "quant_algo: W4A16_AWQ is not read of modelopt"},
        {"llama-nvfp4", "{\"quantized_layers\": {\"a\": {\"quant_algo\": \"INT8_SQ\"}}}",
         "quant_algo: MIXED_PRECISION is not"},
        {"qwen3-moe-nvfp4", "{\"format\": \"marlin-24\"}", "quantization_config: compressed-tensors is not read"},
        {"qwen3-moe-nvfp4",
         "{\"format\": \"mixed-precision\", \"config_groups\": {\"a\": {\"format\": \"pack-quantized\"}}}",
         "quantization_config: compressed-tensors is not read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i].model, config_with(cases[i].model, cases[i].members), cases[i].reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_of_folders),
                                       cmocka_unit_test(logits_of_files),
                                       cmocka_unit_test(powers_of_two),
                                       cmocka_unit_test(tensors_must_fit),
                                       cmocka_unit_test(settings_that_say_the_same),
                                       cmocka_unit_test(settings_in_their_own_file),
                                       cmocka_unit_test(settings_must_be_known)};
    return run_group(tests, own_folder_make, own_folder_remove);
}
