/* model_hostile - configs, keys and tensors that are wrong, each with the text that has to name it.
 *
 * Nothing may stay allocated, whatever is refused. */
#include "model_build.h"

#include <math.h>

/* A tensor put in the place of one of the tiny model's, or beside them. */
typedef struct spoiled {
    const char *without, *name;
    uint32_t rank;
    number_format format;
    uint64_t columns, rows;
    const char *text;
} spoiled;

static const spoiled spoiled_tensors[] = {
    {"blk.1.ffn_up.weight", NULL, 0, 0, 0, 0, "tiny: tensor blk.1.ffn_up.weight: is missing"},
    {"token_embd.weight", NULL, 0, 0, 0, 0, "tiny: tensor token_embd.weight: is missing"},
    {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 2, FORMAT_F32, 16, 32,
     "tiny: tensor blk.1.ffn_up.weight: is 16 x 32, expected 16 x 24"},
    {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 1, FORMAT_F32, 384, 1, "is 384, expected 16 x 24"},
    {"blk.0.attn_k.weight", "blk.0.attn_k.weight", 2, FORMAT_F32, 8, 16, "is 8 x 16, expected 16 x 8"},
    {"blk.0.attn_norm.weight", "blk.0.attn_norm.weight", 2, FORMAT_F32, 16, 1, "is 16 x 1, expected 16"},
    {"blk.0.attn_norm.weight", "blk.0.attn_norm.weight", 1, FORMAT_Q8_0, 16, 1,
     "tensor blk.0.attn_norm.weight: is q8_0, a vector must be float"},
    {"output.weight", "output.weight", 2, FORMAT_F32, 16, 11, "is 16 x 11, expected 16 x 12"},
    {"token_embd.weight", "token_embd.weight", 1, FORMAT_F32, 16, 1, "tensor token_embd.weight: is not a matrix"},
    {NULL, "blk.0.attn_q.bias", 1, FORMAT_F32, 16, 1, "tensor blk.0.attn_q.bias: is not part of a llama model"},
    {NULL, "blk.2.attn_q.weight", 2, FORMAT_F32, 16, 16,
     "tensor blk.2.attn_q.weight: is not part of a model of 2 layers"},
    {NULL, "blk.01.attn_q.weight", 2, FORMAT_F32, 16, 16, "is not part of a llama model"},
    {NULL, "rope_freqs.weight", 1, FORMAT_F32, 3, 1, "tensor rope_freqs.weight: is 3, expected 2"},
    {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 2, FORMAT_I32, 16, 24,
     "tensor blk.1.ffn_up.weight: is i32, weights must be float or blocks"},
    {"output_norm.weight", "output_norm.weight", 1, FORMAT_I32, 16, 1,
     "tensor output_norm.weight: is i32, weights must be float or blocks"},
    {NULL, "blk.0.ffn_up.bias", 1, FORMAT_F32, 24, 1, "tensor blk.1.ffn_up.bias: is missing, and layer 0 has one"},
    {NULL, "blk.1.ffn_up.bias", 1, FORMAT_F32, 24, 1, "tensor blk.1.ffn_up.bias: is there, and layer 0 has none"},
    {NULL, "blk.0.ffn_up.bias", 1, FORMAT_F32, 16, 1, "tensor blk.0.ffn_up.bias: is 16, expected 24"},
    {NULL, "blk.0.ffn_down.bias", 1, FORMAT_F32, 24, 1, "tensor blk.0.ffn_down.bias: is 24, expected 16"},
    {NULL, "blk.1.attn_rot_embd.weight", 1, FORMAT_F32, 2, 1, NULL}, /* needed by nobody, tolerated */
};

static void test_spoiled_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spoiled_tensors / sizeof *spoiled_tensors; i++) {
        const spoiled *s = &spoiled_tensors[i];
        long live = mem_live();
        hearth_error error;
        hearth_model *m;
        checkpoint *c = tiny_gguf(s->without);
        stored_tensor t = {.name = s->name,
                           .format = s->format,
                           .rank = s->rank,
                           .shape = {s->columns, s->rows, 1, 1},
                           .data = tiny_values,
                           .size_bytes = s->columns * s->rows * sizeof(float)};
        if (s->name)
            must(checkpoint_add_tensor(c, &t, &error), &error);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (s->text) {
            assert_int_equal(status, HEARTH_FORMAT);
            expect_text(&error, s->text);
        } else {
            must(status, &error);
            hearth_model_close(m);
        }
        assert_int_equal(mem_live(), live);
    }
}

/* A type that hearth has no format for is refused by name, but not in a tensor that takes no part: one that rules ignore,
 * or one of a draft head. */
static void test_foreign_types(void **state)
{
    (void)state;
    static const struct {
        const char *without, *name;
        uint32_t draft_layers;
        const char *text; /* NULL: accepted */
    } rows[] = {
        {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 0,
         "tiny: tensor blk.1.ffn_up.weight: is of type q2_K, which is not supported"},
        {"output.weight", "output.weight", 0, "tensor output.weight: is of type q2_K"},
        {NULL, "unheard.of", 0, "tensor unheard.of: is of type q2_K"},
        {NULL, "blk.2.nextn.eh_proj.weight", 0, "tensor blk.2.nextn.eh_proj.weight: is of type q2_K"},
        {NULL, "blk.2.nextn.eh_proj.weight", 1, NULL},
        {NULL, "blk.1.attn_rot_embd.weight", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        checkpoint *c = tiny_gguf(rows[i].without);
        stored_tensor t = {.name = rows[i].name,
                           .format = FORMAT_STORED_COUNT,
                           .rank = 2,
                           .shape = {16, 24, 1, 1},
                           .data = tiny_values,
                           .size_bytes = 84,
                           .foreign = "q2_K"};
        must(checkpoint_add_tensor(c, &t, &error), &error);
        must(checkpoint_set_u32(c, "llama.nextn_predict_layers", rows[i].draft_layers, &error), &error);
        must(checkpoint_set_u32(c, "llama.block_count", TINY_LAYERS + rows[i].draft_layers, &error), &error);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (rows[i].text) {
            assert_int_equal(status, HEARTH_UNSUPPORTED);
            expect_text(&error, rows[i].text);
        } else {
            must(status, &error);
            hearth_model_close(m);
        }
        assert_int_equal(mem_live(), live);
    }
}

/* ------------------------------------------------------------ hostile input */

typedef struct bad_config {
    const char *key, *value; /* JSON; NULL removes the key */
    hearth_status status;
    const char *text;
} bad_config;

static const bad_config bad_configs[] = {
    {"model_type", "\"gpt9\"", HEARTH_UNSUPPORTED,
     "model_type: gpt9 is not supported (docs/models.md lists the families)"},
    {"model_type", "7", HEARTH_FORMAT, "model_type: is not a string"},
    {"architectures", "[\"LlamaForSequenceClassification\"]", HEARTH_UNSUPPORTED,
     "architectures: LlamaForSequenceClassification is not supported (known for llama: LlamaForCausalLM)"},
    {"architectures", "{}", HEARTH_FORMAT, "architectures: is not an array of strings"},
    {"architectures", "[]", HEARTH_FORMAT, "architectures: is not an array of strings"},
    {"hidden_size", NULL, HEARTH_FORMAT, "config.json: hidden_size: is missing"},
    {"hidden_size", "0", HEARTH_FORMAT, "config.json: hidden_size: is 0, expected 1 to 1048576"},
    {"hidden_size", "-16", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "16.5", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "4294967296", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "1048577", HEARTH_FORMAT, "hidden_size: is 1048577, expected 1 to 1048576"},
    {"hidden_size", "17", HEARTH_FORMAT, "head_count: does not divide embedding_length"},
    {"hidden_size", "32", HEARTH_FORMAT, "token_embd.weight: is 16 x 12, expected 32 x 12"},
    {"num_hidden_layers", "3", HEARTH_FORMAT, "tensor blk.2.attn_norm.weight: is missing"},
    {"num_hidden_layers", "1", HEARTH_FORMAT, "is not part of a model of 1 layers"},
    {"num_hidden_layers", "5000", HEARTH_FORMAT, "num_hidden_layers: is 5000, expected 1 to 4096"},
    {"num_attention_heads", "3", HEARTH_FORMAT, "does not divide"},
    {"num_attention_heads", "65537", HEARTH_FORMAT, "num_attention_heads: is 65537"},
    {"num_attention_heads", "[8, 1]", HEARTH_FORMAT, "num_attention_heads: is not an integer"},
    {"num_key_value_heads", "3", HEARTH_FORMAT, "does not divide attention.head_count"},
    {"num_key_value_heads", "1", HEARTH_FORMAT, "blk.0.attn_k.weight: is 16 x 8, expected 16 x 4"},
    {"num_key_value_heads", "null", HEARTH_FORMAT, "blk.0.attn_k.weight: is 16 x 8, expected 16 x 16"},
    {"head_dim", "[4, 8]", HEARTH_FORMAT, "head_dim: is not an integer"},
    {"head_dim", "5", HEARTH_FORMAT, "is odd"},
    {"head_dim", "8", HEARTH_FORMAT, "blk.0.attn_q.weight: is 16 x 16, expected 16 x 32"},
    {"head_dim", "0", HEARTH_FORMAT, "head_dim: is 0"},
    {"vocab_size", "13", HEARTH_FORMAT, "token_embd.weight: is 16 x 12, expected 16 x 13"},
    {"vocab_size", "\"12\"", HEARTH_FORMAT, "vocab_size: is not an integer"},
    {"max_position_embeddings", "0", HEARTH_FORMAT, "max_position_embeddings: is 0"},
    {"rms_norm_eps", NULL, HEARTH_FORMAT, "rms_norm_eps: is missing"},
    {"rms_norm_eps", "0", HEARTH_FORMAT, "rms_norm_eps: is 0, expected a positive number"},
    {"rms_norm_eps", "1e-60", HEARTH_FORMAT, "rms_norm_eps: is 1e-60, expected a positive number"},
    {"hidden_act", "\"mish\"", HEARTH_UNSUPPORTED, "hidden_act: mish is not supported (known: silu, relu, fatrelu, "},
    {"hidden_act", "\"fatrelu\"", HEARTH_FORMAT, "hidden_act_param: is missing"},
    {"attention_bias", "true", HEARTH_UNSUPPORTED, "attention_bias: true is not supported"},
    {"mlp_bias", "true", HEARTH_FORMAT, "tensor model.layers.0.mlp.gate_proj.bias: is missing, and mlp_bias is true"},
    {"mlp_bias", "1", HEARTH_FORMAT, "mlp_bias: is not true or false"},
    {"quantization_config", "{\"bits\": 4}", HEARTH_UNSUPPORTED,
     "quantization_config: a folder without quant_method is not read"},
    {"partial_rotary_factor", "1.5", HEARTH_FORMAT, "partial_rotary_factor: is 1.5"},
    {"tie_word_embeddings", "\"yes\"", HEARTH_FORMAT, "tie_word_embeddings: is not true or false"},
    {"rope_theta", "-1", HEARTH_FORMAT, "rope_theta: is -1"},
    {"rope_theta", "1", HEARTH_FORMAT, "key llama.rope.freq_base: is 1, expected a number above 1"},
    {"rope_theta", "1e300", HEARTH_FORMAT, "rope_theta: is 1e+300"},
    {"rope_scaling", "7", HEARTH_FORMAT, "rope_scaling: rope_theta: expected inside an object"},
    {"rope_scaling", "{\"factor\": 2}", HEARTH_FORMAT, "rope_scaling: rope_type: is missing"},
    {"rope_scaling", "{\"type\": \"spiral\", \"factor\": 2}", HEARTH_UNSUPPORTED,
     "rope_scaling: rope_type: spiral is not supported (known: default, linear, yarn, llama3, longrope, su, "
     "proportional, mrope, dynamic)"},
    {"rope_scaling", "{\"type\": \"dynamic\", \"alpha\": 0}", HEARTH_FORMAT, "rope_scaling: alpha: is 0"},
    {"rope_scaling", "{\"type\": \"dynamic\", \"alpha\": 1e38}", HEARTH_FORMAT,
     "key llama.rope.freq_base: is inf, expected a number above 1"},
    {"rope_scaling", "{\"type\": \"linear\"}", HEARTH_FORMAT, "rope_scaling: factor: is missing"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 0}", HEARTH_FORMAT, "rope_scaling: factor: is 0"},
    {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 0}", HEARTH_FORMAT,
     "original_context_length: is 0"},
    {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1, \"beta_slow\": 2}", HEARTH_FORMAT,
     "yarn_beta_slow: is above yarn_beta_fast"},
    {"rope_scaling",
     "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 1, "
     "\"original_max_position_embeddings\": 32}",
     HEARTH_FORMAT, "low_freq_factor: is not below high_freq_factor"},
    {"rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8}", HEARTH_FORMAT, "low_freq_factor: is missing"},
    {"rope_parameters", "{\"full_attention\": {\"rope_type\": \"default\"}}", HEARTH_UNSUPPORTED,
     "rope_parameters: full_attention: rotation by layer is not supported"},
};

static void test_bad_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_configs / sizeof *bad_configs; i++) {
        const bad_config *b = &bad_configs[i];
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        json_t *config = tiny_json();
        if (b->value)
            json_object_set_new(config, b->key, json_loads(b->value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(config, b->key);
        hearth_status status = tiny_folder(&m, tiny_stored(true, NULL), config, &error);
        if (status != b->status || error.status != status)
            fail_msg("%s %s: status %d: %s", b->key, b->value ? b->value : "removed", (int)status, error.text);
        expect_text(&error, b->text);
        assert_int_equal(mem_live(), live);
    }
}

/* A folder that is not tied must bring its head; it is not computed with the embedding instead. */
static void test_missing_head(void **state)
{
    (void)state;
    static const char *const says[] = {"false", "null", NULL}; /* of tie_word_embeddings; NULL: nothing */
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        json_t *config = tiny_json();
        if (says[i])
            json_object_set_new(config, "tie_word_embeddings", json_loads(says[i], JSON_DECODE_ANY, NULL));
        assert_int_equal(tiny_folder(&m, tiny_stored(true, "output.weight"), config, &error), HEARTH_FORMAT);
        expect_text(&error, "tiny: tensor lm_head.weight: is missing");
        assert_int_equal(mem_live(), live);
    }
}

typedef struct bad_key {
    const char *key;
    char kind; /* u: u32, f: f32, s: string, b: bool */
    hearth_status status;
    double value;
    const char *string;
    const char *text;
} bad_key;

static const bad_key bad_keys[] = {
    {"general.architecture", 's', HEARTH_UNSUPPORTED, 0, "qwen9",
     "tiny: key general.architecture: qwen9 is not supported (docs/models.md lists the families)"},
    {"general.architecture", 'u', HEARTH_FORMAT, 1, NULL, "key general.architecture: is an integer, expected a string"},
    {"general.name", 'u', HEARTH_FORMAT, 1, NULL, "key general.name: is an integer"},
    {"llama.block_count", 'u', HEARTH_FORMAT, 0, NULL, "tiny: key llama.block_count: is 0, expected 1 to 4096"},
    {"llama.block_count", 's', HEARTH_FORMAT, 0, "2", "key llama.block_count: is a string, expected an integer"},
    {"llama.embedding_length", 'u', HEARTH_FORMAT, 4294967295.0, NULL, "is 4294967295, expected 1 to 1048576"},
    {"llama.attention.head_count_kv", 'u', HEARTH_FORMAT, 3, NULL, "does not divide attention.head_count"},
    {"llama.attention.head_count", 'u', HEARTH_FORMAT, 6, NULL, "head_count: does not divide embedding_length"},
    {"llama.attention.key_length", 'u', HEARTH_FORMAT, 3, NULL, "key_length: is odd"},
    {"llama.attention.value_length", 'u', HEARTH_UNSUPPORTED, 8, NULL, "value_length: differs from"},
    {"llama.attention.scale", 'f', HEARTH_FORMAT, -1, NULL, "attention.scale: is -1, expected a positive number"},
    {"llama.attention.layer_norm_rms_epsilon", 'f', HEARTH_FORMAT, 0, NULL, "epsilon: is 0, expected a positive"},
    {"llama.attention.causal", 'b', HEARTH_UNSUPPORTED, 0, NULL, "attention.causal"},
    {"llama.rope.dimension_count", 'u', HEARTH_FORMAT, 3, NULL, "rope.dimension_count: is not an even number"},
    {"llama.rope.dimension_count", 'u', HEARTH_FORMAT, 8, NULL, "rope.dimension_count: is not an even number"},
    {"llama.rope.freq_base", 'f', HEARTH_FORMAT, 0.5, NULL, "rope.freq_base: is 0.5, expected a number above 1"},
    {"llama.rope.scaling.type", 's', HEARTH_UNSUPPORTED, 0, "longrope",
     "rope.scaling.type: longrope is not supported (known: none, linear, yarn)"},
    {"llama.rope.scaling.factor", 'f', HEARTH_FORMAT, -2, NULL, "rope.scaling.factor: is -2"},
    {"llama.vocab_size", 'u', HEARTH_FORMAT, 11, NULL, "token_embd.weight: is 16 x 12, expected 16 x 11"},
    {"llama.expert_count", 'u', HEARTH_FORMAT, 8, NULL, "key llama.expert_used_count: is missing"},
    {"llama.hidden_activation", 's', HEARTH_UNSUPPORTED, 0, "mish",
     "hidden_activation: mish is not supported (known: silu, relu, fatrelu, "},
    {"llama.hidden_activation", 's', HEARTH_FORMAT, 0, "fatrelu", "key llama.hidden_activation_param: is missing"},
    {"hearth.pack.version", 'u', HEARTH_UNSUPPORTED, 2, NULL, "key hearth.pack.version: is 2, this hearth reads 1"},
    {"hearth.pack.version", 'u', HEARTH_UNSUPPORTED, 0, NULL, "key hearth.pack.version: is 0"},
    {"hearth.pack.requantised", 'u', HEARTH_FORMAT, 1, NULL, "key hearth.pack.requantised: is an integer"},
    {"powerinfer.sparse_threshold", 'f', HEARTH_FORMAT, NAN, NULL,
     "key powerinfer.sparse_threshold: is not a finite number"},
    {"powerinfer.sparse_threshold", 'f', HEARTH_FORMAT, INFINITY, NULL,
     "key powerinfer.sparse_threshold: is not a finite number"},
    {"powerinfer.sparse_threshold", 's', HEARTH_FORMAT, 0, "0", "key powerinfer.sparse_threshold: is a string"},
};

static void set_key(checkpoint *c, const bad_key *b)
{
    hearth_error error;
    if (b->kind == 'u')
        must(checkpoint_set_u32(c, b->key, (uint32_t)b->value, &error), &error);
    if (b->kind == 'f')
        must(checkpoint_set_f32(c, b->key, (float)b->value, &error), &error);
    if (b->kind == 'b')
        must(checkpoint_set_bool(c, b->key, b->value != 0, &error), &error);
    if (b->kind == 's')
        must(checkpoint_set_string(c, b->key, span_of(b->string), &error), &error);
}

static void test_bad_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_keys / sizeof *bad_keys; i++) {
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        checkpoint *c = tiny_gguf(NULL);
        set_key(c, &bad_keys[i]);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (status != bad_keys[i].status)
            fail_msg("%s: status %d: %s", bad_keys[i].key, (int)status, error.text);
        expect_text(&error, bad_keys[i].text);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spoiled_tensors), cmocka_unit_test(test_foreign_types),
        cmocka_unit_test(test_bad_configs),     cmocka_unit_test(test_missing_head),
        cmocka_unit_test(test_bad_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
