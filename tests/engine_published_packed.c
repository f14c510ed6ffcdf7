/* engine_published_packed.c - folders whose matrices GPTQ, AWQ and compressed-tensors have rounded to numbers in words
 * (tests/data/words.py): the logits of the values that these stand for, from the rows that hearth makes of them; and folders in which
 * something is missing or does not fit. */
#include "published.h"

#define ROWS_NAME "model.layers.1.self_attn.q_proj."

static void logits_of_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        number_format format; /* of queries */
    } cases[] = {{"llama-gptq", FORMAT_Q4_0},   {"llama-gptq-order", FORMAT_F32}, {"llama-awq", FORMAT_Q4_1},
                 {"llama-packed", FORMAT_Q4_1}, {"llama-int8", FORMAT_Q8_0},      {"qwen3-moe-packed", FORMAT_Q4_0},
                 {"gpt-neox-gptq", FORMAT_Q4_0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_model *m;
        hearth_error error;
        json_t *config = config_of(cases[i].name);
        stack_check(open_as(&m, cases[i].name, config, NULL, &error), &error);
        json_decref(config);
        assert_int_equal(m->layers[1].q.format, cases[i].format);
        golden_expect_of(m, cases[i].name);
    }
}

/* Adds a bias to queries and to down, which the model has not: of zeros, or not. */
static float of_bias;

static bool add_biases(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const char *const names[] = {ROWS_NAME "bias", "model.layers.0.mlp.down_proj.bias"};
    static float values[64];
    (void)from;
    values[63] = of_bias;
    for (size_t i = 0; i < 2 && strcmp(t->name, ROWS_NAME "qweight") == 0; i++) {
        const stored_tensor bias = {.name = names[i],
                                    .format = FORMAT_F32,
                                    .rank = 1,
                                    .shape = {64, 1, 1, 1},
                                    .data = values,
                                    .size_bytes = sizeof values};
        assert_int_equal(checkpoint_add_tensor(to, &bias, NULL), HEARTH_OK);
    }
    return false;
}

static void biases_of_zeros(void **state)
{
    (void)state;
    hearth_model *m;
    hearth_error error;
    of_bias = 0;
    expect_same("llama-gptq", config_of("llama-gptq"), add_biases);
    of_bias = 1;
    json_t *config = config_of("llama-gptq");
    assert_int_equal(open_as(&m, "llama-gptq", config, add_biases, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "down_proj.bias: is there, and mlp_bias is not true"));
    json_decref(config);
}

/* compressed-tensors' shape as numbers of 32 bits, and groups of which -1 says that they are in order. */
static bool other_numbers(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    static const int32_t shape[] = {64, 64}, in_order[64] = {-1};
    stored_tensor other = *t;
    (void)from;
    if (strcmp(t->name, ROWS_NAME "weight_shape") == 0) {
        other.foreign = "I32";
        other.data = shape;
        other.size_bytes = sizeof shape;
    } else if (strcmp(t->name, ROWS_NAME "g_idx") == 0) {
        other.data = in_order;
    } else {
        return false;
    }
    return checkpoint_add_tensor(to, &other, NULL) == HEARTH_OK;
}

static void numbers_in_other_forms(void **state)
{
    (void)state;
    expect_same("llama-packed", config_of("llama-packed"), other_numbers);
    expect_same("llama-gptq", config_of("llama-gptq"), other_numbers);
}

/* ------------------------------------------------------------------ what does not fit */

static void tensors_must_fit(void **state)
{
    (void)state;
    static int32_t others[1 << 12];
    static const struct {
        const char *model;
        tensor_change change;
        const char *reason;
    } cases[] = {
        {"llama-gptq", {ROWS_NAME "scales", LOST, NULL}, "q_proj.qweight: has no scales of floats"},
        {"llama-gptq", {ROWS_NAME "scales", SHORTER, NULL}, "q_proj.qweight: has no scales of floats"},
        {"llama-gptq", {ROWS_NAME "qzeros", LOST, NULL}, "q_proj.qweight: has no zeros in words"},
        {"llama-gptq", {ROWS_NAME "qzeros", SHORTER, NULL}, "q_proj.qweight: has no zeros in words"},
        {"llama-gptq", {ROWS_NAME "g_idx", SHORTER, NULL}, "q_proj.qweight: has no number of a group for each column"},
        {"llama-gptq-order",
         {ROWS_NAME "g_idx", REPLACED, others},
         "q_proj.qweight: has a column of a group that is not there"},
        {"llama-gptq", {ROWS_NAME "qweight", SHORTER, NULL}, "q_proj.qweight: has no scales of floats"},
        {"llama-gptq", {ROWS_NAME "qweight", LOST, NULL}, "self_attn.q_proj.weight: is missing"},
        {"llama-awq", {ROWS_NAME "qzeros", LOST, NULL}, "q_proj.qweight: has no zeros in words"},
        {"llama-int8", {ROWS_NAME "weight_scale", LOST, NULL}, "q_proj.weight: has no scales of floats"},
        {"llama-int8", {ROWS_NAME "weight", SHORTER, NULL}, "q_proj.weight: has rows that are no multiples of 4 bytes"},
        {"llama-packed", {ROWS_NAME "weight_scale", LOST, NULL}, "q_proj.weight_packed: has no scales of floats"},
        {"llama-packed", {ROWS_NAME "weight_zero_point", LOST, NULL}, "q_proj.weight_packed: has no zeros in words"},
        {"llama-packed",
         {ROWS_NAME "weight_shape", REPLACED, others},
         "q_proj.weight_packed: has another weight_shape than its words"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        others[i] = 1 << 20;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused_with(cases[i].model, cases[i].change, cases[i].reason);
}

/* Sets a member of quantization_config, or of the weights of compressed-tensors. */
static void settings_must_be_known(void **state)
{
    (void)state;
    static const struct {
        const char *model, *key, *value, *reason;
    } cases[] = {
        {"llama-gptq", "bits", "3", "bits: others than 4 and 8"},
        {"llama-gptq", "bits", "null", "bits: others than 4 and 8"},
        {"llama-gptq", "group_size", "-2", "group_size: is not a number of columns"},
        {"llama-gptq", "group_size", "\"all\"", "group_size: is not a number of columns"},
        {"llama-gptq", "checkpoint_format", "\"marlin\"", "checkpoint_format: others than gptq and gptq_v2"},
        {"llama-gptq", "rotation", "\"hadamard\"", "rotation: is not supported"},
        {"llama-gptq", "dynamic", "{\"+:.*\": {\"bits\": 8}}", "dynamic: modules of other bits or groups"},
        {"llama-awq", "checkpoint_format", "\"marlin\"", "checkpoint_format: others than gemm"},
        {"llama-awq", "version", "\"gemv\"", "version: others than gemm"},
        {"llama-awq", "bits", "8", "bits: others than 4 are not read of awq"},
        {"llama-int8", "config_groups", "{\"a\": {\"weights\": {\"num_bits\": 4}}}",
         "bytes other than of 8 bits without zeros"},
        {"llama-packed", "config_groups", "{}", "config_groups: others than one group"},
        {"llama-packed", "config_groups", "{\"a\": {\"weights\": {\"type\": \"float\"}}}", "of another type than int"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = config_of(cases[i].model);
        json_object_set_new(json_object_get(config, "quantization_config"), cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        expect_refused(cases[i].model, config, cases[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_of_numbers), cmocka_unit_test(biases_of_zeros),
                                       cmocka_unit_test(numbers_in_other_forms), cmocka_unit_test(tensors_must_fit),
                                       cmocka_unit_test(settings_must_be_known)};
    return run_group(tests, NULL, NULL);
}
